//! The process that asks for an operation: its user, its groups, its capabilities.

use std::fs;

use lustrine_client::{Attr, Caller};

/// What a process may do, as `/proc/PID/status` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requester {
    /// The user of file accesses.
    pub(crate) uid: u32,
    /// The group of file accesses.
    pub(crate) gid: u32,
    /// Effective capabilities, bits 0 to 31.
    pub(crate) capabilities: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
}

impl Requester {
    /// The process `pid`, which asks with this user and group.
    ///
    /// A process that cannot be seen, because it has ended or is in a PID namespace outside of
    /// this one, has no supplementary groups, and capabilities only if it is the superuser's.
    pub(crate) fn of(pid: u32, uid: u32, gid: u32) -> Requester {
        let status = match pid {
            0 => None,
            pid => fs::read_to_string(format!("/proc/{pid}/status")).ok(),
        };
        match status.as_deref().and_then(parse) {
            Some((capabilities, groups)) => Requester { uid, gid, capabilities, groups },
            None => {
                let capabilities = if uid == 0 { u32::MAX } else { 0 };
                Requester { uid, gid, capabilities, groups: Vec::new() }
            }
        }
    }

    /// Whether the process is in a group.
    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the process may read and write all files, and search all directories.
    pub(crate) fn overrides_permissions(&self) -> bool {
        self.capabilities & 1 << CAP_DAC_OVERRIDE != 0
    }

    /// Whether the permissions of a file allow what is asked for: 4 to read, 2 to write, 1 to
    /// execute or search. Access control lists are not considered.
    pub(crate) fn may(&self, attr: &Attr, asks: u32) -> bool {
        if self.overrides_permissions() {
            // To execute a file, somebody must have the right to.
            return attr.is_dir() || asks & 1 == 0 || attr.mode & 0o111 != 0;
        }
        let shift = match () {
            () if self.uid == attr.uid => 6,
            () if self.is_in(attr.gid) => 3,
            () => 0,
        };
        asks & !(attr.mode >> shift) == 0
    }

    /// As the servers are to see it, for an operation on files of these groups: a request has room
    /// for one supplementary group.
    pub(crate) fn caller(&self, groups: &[u32]) -> Caller {
        let matters = |gid: &&u32| **gid != self.gid && self.groups.contains(gid);
        Caller {
            uid: self.uid,
            gid: self.gid,
            suppgid: groups.iter().find(matters).copied().unwrap_or(u32::MAX),
            capabilities: self.capabilities,
        }
    }
}

/// The bit of CAP_DAC_OVERRIDE.
const CAP_DAC_OVERRIDE: u32 = 1;

/// Effective capabilities and supplementary groups.
fn parse(status: &str) -> Option<(u32, Vec<u32>)> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let capabilities = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
    let groups = field("Groups:")?.split_whitespace().map(str::parse);
    // The servers know the first 32 capabilities; those of files are among them.
    Some((capabilities as u32, groups.collect::<Result<_, _>>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tbash\nUid:\t1000\t1000\t1000\t1000\nGroups:\t4 24 1000 \n\
                          CapInh:\t0000000000000000\nCapEff:\t000001ff00000003\n";

    #[test]
    fn groups_and_capabilities_are_read() {
        assert_eq!(parse(STATUS), Some((3, vec![4, 24, 1000])));
        assert_eq!(parse("Groups:\t\nCapEff:\t0\n"), Some((0, vec![])));
        assert_eq!(parse("Groups:\t1\n"), None);
        assert_eq!(parse("Groups:\tx\nCapEff:\t0\n"), None);
    }

    #[test]
    fn the_group_that_matters_is_sent() {
        let (capabilities, groups) = parse(STATUS).expect("it is whole");
        let requester = Requester { uid: 1000, gid: 1000, capabilities, groups };
        assert_eq!(requester.caller(&[24]).suppgid, 24);
        assert_eq!(requester.caller(&[25, 4]).suppgid, 4);
        // It is sent as the group already, or the process is not in it.
        assert_eq!(requester.caller(&[1000]).suppgid, u32::MAX);
        assert_eq!(requester.caller(&[25]).suppgid, u32::MAX);
        assert!(requester.is_in(1000) && requester.is_in(24) && !requester.is_in(25));
    }

    #[test]
    fn this_process_can_be_seen() {
        let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
        assert!(parse(&status).is_some());
    }

    #[test]
    fn a_process_that_cannot_be_seen_has_no_groups() {
        let root = Requester::of(0, 0, 0);
        assert!(root.overrides_permissions() && root.groups.is_empty());
        assert!(!Requester::of(0, 1000, 1000).overrides_permissions());
    }

    #[test]
    fn the_first_class_that_applies_decides() {
        let owner = Requester { uid: 1, gid: 9, ..Requester::default() };
        let group = Requester { uid: 2, gid: 7, ..Requester::default() };
        let other = Requester { uid: 3, gid: 8, ..Requester::default() };
        let attr = Attr { mode: 0o100_417, uid: 1, gid: 7, ..Attr::default() };
        assert!(owner.may(&attr, 4) && !owner.may(&attr, 1));
        assert!(group.may(&attr, 1) && !group.may(&attr, 4));
        assert!(other.may(&attr, 7) && other.may(&attr, 0));
    }

    #[test]
    fn the_superuser_executes_what_somebody_may_execute() {
        let root = Requester::of(0, 0, 0);
        let file = |mode| Attr { mode, uid: 1, ..Attr::default() };
        assert!(root.may(&file(0o100_000), 6));
        assert!(!root.may(&file(0o100_644), 1));
        assert!(root.may(&file(0o100_010), 1));
        assert!(root.may(&file(0o040_000), 7));
    }
}
