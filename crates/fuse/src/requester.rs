//! The process that asks for an operation: its user, its groups, its capabilities.

use std::fs;

use lustrine_client::{Attr, Caller};
use lustrine_fs::IdMaps;

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
    /// The process `pid`, which asks with this user and group, as the servers are to know them.
    ///
    /// The kernel names the user of the file access; `/proc` shows the process. Where they differ,
    /// as in access(2) of a set-user-ID program, capabilities and supplementary groups are another
    /// user's, and are left out. So are capabilities of a process in another user namespace, where
    /// anyone can have them all, and everything of a process that cannot be seen because it has
    /// ended or is in a PID namespace outside of this one.
    pub(crate) fn of(ids: &IdMaps, pid: u32, uid: u32, gid: u32) -> Requester {
        let mut requester =
            Requester { uid: ids.user(uid), gid: ids.group(gid), ..Requester::default() };
        let Some(process) = Process::seen(pid) else { return requester };
        if (process.uid, process.gid) != (uid, gid) {
            return requester;
        }
        requester.groups = process.groups.iter().map(|group| ids.group(*group)).collect();
        // The superuser of a container has no rights outside of it.
        let has_rights = ids.are_the_systems() || requester.uid == 0;
        if has_rights && process.in_this_namespace {
            requester.capabilities = process.capabilities;
        }
        requester
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

    /// As the servers are to see it, for an operation on files of these groups, the most important
    /// one first: a request that changes names has room for two supplementary groups, others have
    /// room for one.
    pub(crate) fn caller(&self, groups: &[u32]) -> Caller {
        let matters = |gid: &u32| *gid != self.gid && self.groups.contains(gid);
        let mut groups = groups.iter().copied().filter(matters);
        let first = groups.next();
        let second = groups.find(|gid| Some(*gid) != first);
        Caller {
            uid: self.uid,
            gid: self.gid,
            suppgid: first.unwrap_or(u32::MAX),
            suppgid2: second.unwrap_or(u32::MAX),
            capabilities: self.capabilities,
        }
    }
}

/// The bit of CAP_DAC_OVERRIDE.
const CAP_DAC_OVERRIDE: u32 = 1;

/// A process as `/proc` shows it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// The user and the group of its file accesses.
    uid: u32,
    gid: u32,
    capabilities: u32,
    groups: Vec<u32>,
    /// Whether it is in the user namespace of this process.
    in_this_namespace: bool,
}

impl Process {
    fn seen(pid: u32) -> Option<Process> {
        if pid == 0 {
            return None;
        }
        // The name of the process may be anything.
        let status = fs::read(format!("/proc/{pid}/status")).ok()?;
        let mut process = Process::parse(&String::from_utf8_lossy(&status))?;
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/user"));
        process.in_this_namespace = match (namespace(&pid.to_string()), namespace("self")) {
            (Ok(theirs), Ok(ours)) => theirs == ours,
            _ => false,
        };
        Some(process)
    }

    /// Reads `/proc/PID/status`; the namespace is not there.
    fn parse(status: &str) -> Option<Process> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let numbers = |name: &str| -> Option<Vec<u32>> {
            field(name)?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()
        };
        // Real, effective, saved, and that of file accesses.
        let ([.., uid], [.., gid]) = (&numbers("Uid:")?[..], &numbers("Gid:")?[..]) else {
            return None;
        };
        let capabilities = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
        Some(Process {
            uid: *uid,
            gid: *gid,
            // The servers know the first 32 capabilities; those of files are among them.
            capabilities: capabilities as u32,
            groups: numbers("Groups:")?,
            in_this_namespace: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tbash\nUid:\t1000\t1001\t1000\t1002\nGid:\t7\t7\t7\t8\n\
                          Groups:\t4 24 1000 \nCapInh:\t0000000000000000\n\
                          CapEff:\t000001ff00000003\n";

    #[test]
    fn groups_and_capabilities_are_read() {
        let process = Process::parse(STATUS).expect("it is whole");
        assert_eq!((process.uid, process.gid, process.capabilities), (1002, 8, 3));
        assert_eq!(process.groups, [4, 24, 1000]);
        assert!(!process.in_this_namespace);
        for part in ["Uid:", "Gid:", "Groups:", "CapEff:"] {
            assert_eq!(Process::parse(&STATUS.replace(part, "x")), None, "{part}");
        }
        assert_eq!(Process::parse(&STATUS.replace("24", "x")), None);
    }

    #[test]
    fn the_group_that_matters_is_sent() {
        let groups = vec![4, 24, 1000];
        let requester = Requester { uid: 1000, gid: 1000, capabilities: 0, groups };
        assert_eq!(requester.caller(&[24]).suppgid, 24);
        assert_eq!(requester.caller(&[25, 4]).suppgid, 4);
        // It is sent as the group already, or the process is not in it.
        assert_eq!(requester.caller(&[1000]).suppgid, u32::MAX);
        assert_eq!(requester.caller(&[25]).suppgid, u32::MAX);
        let both = |groups: &[u32]| {
            let caller = requester.caller(groups);
            (caller.suppgid, caller.suppgid2)
        };
        assert_eq!(both(&[24, 4]), (24, 4));
        assert_eq!(both(&[24, 24]), (24, u32::MAX));
        assert_eq!(both(&[1000, 25, 4]), (4, u32::MAX));
        assert!(requester.is_in(1000) && requester.is_in(24) && !requester.is_in(25));
    }

    #[test]
    fn this_process_is_seen_whole() {
        let process = Process::seen(std::process::id()).expect("Linux has it");
        assert!(process.in_this_namespace);
        let (uid, gid) = (process.uid, process.gid);
        let ids = IdMaps::of_this_process();
        let requester = Requester::of(&ids, std::process::id(), uid, gid);
        assert_eq!(requester.groups.len(), process.groups.len());
        if ids.are_the_systems() {
            assert_eq!(requester.capabilities, process.capabilities);
        }
    }

    /// access(2) of a set-user-ID program: the user is the one who started it.
    #[test]
    fn rights_of_another_user_are_left_out() {
        let ids = IdMaps::of_this_process();
        let process = Process::seen(std::process::id()).expect("Linux has it");
        let other = Requester::of(&ids, std::process::id(), process.uid + 1, process.gid);
        assert_eq!((other.capabilities, other.groups), (0, vec![]));
    }

    #[test]
    fn a_process_that_cannot_be_seen_has_no_rights() {
        let ids = IdMaps::of_this_process();
        let unseen = Requester::of(&ids, 0, 0, 0);
        assert!(!unseen.overrides_permissions() && unseen.groups.is_empty());
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
        let root = Requester { capabilities: u32::MAX, ..Requester::default() };
        let file = |mode| Attr { mode, uid: 1, ..Attr::default() };
        assert!(root.may(&file(0o100_000), 6));
        assert!(!root.may(&file(0o100_644), 1));
        assert!(root.may(&file(0o100_010), 1));
        assert!(root.may(&file(0o040_000), 7));
    }
}
