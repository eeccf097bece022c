//! The user whose rights count, and random numbers.

use std::fs;

use lustrine_client::Caller;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::FsError;

/// The user of this process, as the machine outside of containers knows it: a container may show
/// another number, with which the servers would take it for another user.
pub(crate) fn caller() -> Caller {
    let ids = IdMaps::of_this_process();
    let outer_uid = ids.user(rustix::process::geteuid().as_raw());
    Caller {
        uid: outer_uid,
        gid: ids.group(rustix::process::getegid().as_raw()),
        suppgid: u32::MAX,
        suppgid2: u32::MAX,
        // The superuser of a container has no rights outside of it.
        capabilities: if outer_uid == 0 { u32::MAX } else { 0 },
    }
}

/// The numbers that users and groups of this process's user namespace have outside of it, in the
/// namespace that it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMaps {
    users: IdMap,
    groups: IdMap,
}

impl IdMaps {
    /// Those of this process. Without `/proc` all numbers stay as they are.
    pub fn of_this_process() -> IdMaps {
        let read =
            |file: &str| fs::read_to_string(file).map_or(IdMap::identity(), |map| IdMap::of(&map));
        IdMaps { users: read("/proc/self/uid_map"), groups: read("/proc/self/gid_map") }
    }

    /// The number of a user outside.
    pub fn user(&self, uid: u32) -> u32 {
        self.users.outside(uid).unwrap_or(uid)
    }

    /// The number of a group outside.
    pub fn group(&self, gid: u32) -> u32 {
        self.groups.outside(gid).unwrap_or(gid)
    }

    /// The number of a user of outside in the namespace: 65534, the one of Linux for users that
    /// have no number there, if it has none; `None` if the namespace has no such number either.
    pub fn user_inside(&self, uid: u32) -> Option<u32> {
        self.users.inside_or_overflow(uid)
    }

    /// The same of a group.
    pub fn group_inside(&self, gid: u32) -> Option<u32> {
        self.groups.inside_or_overflow(gid)
    }

    /// Whether a user of outside has a number of its own in the namespace.
    pub fn knows_user(&self, uid: u32) -> bool {
        self.users.inside(uid).is_some()
    }

    /// The same of a group.
    pub fn knows_group(&self, gid: u32) -> bool {
        self.groups.inside(gid).is_some()
    }

    /// Whether this is the namespace of the system, in which all numbers are the same.
    pub fn are_the_systems(&self) -> bool {
        self.users == IdMap::identity()
    }
}

/// A map of numbers: the first one inside, the first one outside, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IdMap(Vec<[u32; 3]>);

impl IdMap {
    /// What Linux shows for users and groups that have no number in a namespace.
    const OVERFLOW: u32 = 65534;

    /// That of the system.
    fn identity() -> IdMap {
        IdMap(vec![[0, 0, u32::MAX]])
    }

    /// Reads a map in the form of `/proc/PID/uid_map`.
    fn of(map: &str) -> IdMap {
        let line = |line: &str| {
            let numbers: Vec<u32> =
                line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
            numbers.try_into().ok()
        };
        IdMap(map.lines().filter_map(line).collect())
    }

    fn outside(&self, id: u32) -> Option<u32> {
        self.0.iter().find_map(|[inside, outside, count]| moved(id, *inside, *outside, *count))
    }

    fn inside(&self, id: u32) -> Option<u32> {
        self.0.iter().find_map(|[inside, outside, count]| moved(id, *outside, *inside, *count))
    }

    fn inside_or_overflow(&self, id: u32) -> Option<u32> {
        let overflow = || self.outside(IdMap::OVERFLOW).map(|_| IdMap::OVERFLOW);
        self.inside(id).or_else(overflow)
    }
}

/// A number of a range that starts at `from`, in the range that starts at `to`.
fn moved(id: u32, from: u32, to: u32, count: u32) -> Option<u32> {
    let distance = id.checked_sub(from).filter(|distance| *distance < count)?;
    to.checked_add(distance)
}

/// A random number.
pub(crate) fn random() -> Result<u128, FsError> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| FsError::Random(error.into()))?;
    Ok(u128::from_le_bytes(bytes))
}

/// A text that no other client makes, for the name of a temporary file.
///
/// # Errors
/// When the system gives no random numbers.
pub fn unique_name() -> Result<String, FsError> {
    uuid()
}

/// A random UUID (version 4) as text.
pub(crate) fn uuid() -> Result<String, FsError> {
    let number = random()?;
    let number = number & !(0xf << 76) | 4 << 76;
    let number = number & !(3 << 62) | 2 << 62;
    let text = format!("{number:032x}");
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
    Ok(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_namespaces_are_mapped_to_those_outside() {
        let map = IdMap::of("0 1000 1\n1 100000 65536\n");
        assert_eq!((map.outside(0), map.outside(5)), (Some(1000), Some(100_004)));
        assert_eq!((map.inside(1000), map.inside(100_004)), (Some(0), Some(5)));
        // The superuser outside has no number inside.
        assert_eq!((map.inside(0), map.inside_or_overflow(0)), (None, Some(65534)));
        let system = IdMap::of("         0          0 4294967295\n");
        assert_eq!((system.outside(42), system.inside(42)), (Some(42), Some(42)));
        assert_eq!(system, IdMap::identity());
        let one = IdMap::of("0 1000 1\n");
        assert_eq!((one.outside(7), one.inside_or_overflow(1000)), (None, Some(0)));
        assert_eq!(one.inside_or_overflow(0), None);
    }

    #[test]
    fn uuids_have_their_form() {
        let uuid = uuid().unwrap();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
    }
}
