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

/// The numbers that users and groups of this process's user namespace have outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMaps {
    users: String,
    groups: String,
}

impl IdMaps {
    /// Those of this process. Without `/proc` all numbers stay as they are.
    pub fn of_this_process() -> IdMaps {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        IdMaps { users: read("/proc/self/uid_map"), groups: read("/proc/self/gid_map") }
    }

    /// The number of a user outside.
    pub fn user(&self, uid: u32) -> u32 {
        mapped(&self.users, uid).unwrap_or(uid)
    }

    /// The number of a group outside.
    pub fn group(&self, gid: u32) -> u32 {
        mapped(&self.groups, gid).unwrap_or(gid)
    }

    /// Whether this is the namespace of the system, in which all numbers are the same.
    pub fn are_the_systems(&self) -> bool {
        let numbers: Vec<&str> = self.users.split_whitespace().collect();
        numbers == ["0", "0", "4294967295"]
    }
}

/// A line of the map has the first number inside, the first one outside, and how many there are.
fn mapped(map: &str, id: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let numbers: Vec<u32> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [inside, outside, count] = numbers[..] else { return None };
        let distance = id.checked_sub(inside).filter(|distance| *distance < count)?;
        outside.checked_add(distance)
    })
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
        assert_eq!(mapped("0 1000 1\n1 100000 65536\n", 0), Some(1000));
        assert_eq!(mapped("0 1000 1\n1 100000 65536\n", 5), Some(100_004));
        assert_eq!(mapped("         0          0 4294967295\n", 42), Some(42));
        assert_eq!(mapped("0 1000 1\n", 7), None);
    }

    #[test]
    fn uuids_have_their_form() {
        let uuid = uuid().unwrap();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
    }
}
