//! The process that asks for an operation: its user, its groups, its capabilities.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use lustrine_client::{Attr, Caller};
use lustrine_fs::IdMaps;
use lustrine_fswire::mdt::AclEntry;

/// Attributes of a file, and its access control list, which is empty if the permissions say all.
pub(crate) type Seen = (Attr, Vec<AclEntry>);

/// The right to read, of access(2).
pub(crate) const MAY_READ: u32 = 4;
/// The right to write.
pub(crate) const MAY_WRITE: u32 = 2;

/// CAP_FOWNER: the right to do what else only the owner of a file may.
pub(crate) const CAP_FOWNER: u32 = 1 << 3;

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

    /// Whether the process may do what only the owner of a file may.
    pub(crate) fn owns(&self, attr: &Attr) -> bool {
        self.uid == attr.uid || self.capabilities & CAP_FOWNER != 0
    }

    /// Whether a file allows what is asked for: 4 to read, 2 to write, 1 to execute or search. The
    /// access control list is empty if the permissions say all.
    pub(crate) fn may(&self, attr: &Attr, acl: &[AclEntry], asks: u32) -> bool {
        let allowed = attr.allowed(acl, self.uid, |gid| self.is_in(gid), asks);
        asks & !allowed == 0 || self.overrides(attr, asks)
    }

    /// Whether capabilities allow what a file does not.
    fn overrides(&self, attr: &Attr, asks: u32) -> bool {
        let has = |bit: u32| self.capabilities & 1 << bit != 0;
        let reads = match attr.is_dir() {
            true => asks & 2 == 0,
            false => asks & 3 == 0,
        };
        // To execute a file, somebody must have the right to.
        let executable = attr.is_dir() || asks & 1 == 0 || attr.mode & 0o111 != 0;
        has(CAP_DAC_OVERRIDE) && executable || has(CAP_DAC_READ_SEARCH) && reads
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

/// The bit of CAP_DAC_OVERRIDE: to read and write all files, and search all directories.
const CAP_DAC_OVERRIDE: u32 = 1;
/// The bit of CAP_DAC_READ_SEARCH: to read all files, and to list and search all directories.
const CAP_DAC_READ_SEARCH: u32 = 2;

/// A process as `/proc` shows it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// The user and the group of its file accesses.
    uid: u32,
    gid: u32,
    capabilities: u32,
    groups: Vec<u32>,
    /// Whether it is in the user namespace of this process, and has capabilities there.
    in_this_namespace: bool,
}

/// The user namespace of a process, if this one may see it.
fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/user")).ok()
}

/// That of this process, which has threads, so that it stays the same.
fn our_namespace() -> Option<&'static PathBuf> {
    static OURS: OnceLock<PathBuf> = OnceLock::new();
    match OURS.get() {
        None => {
            let ours = namespace("self")?;
            Some(OURS.get_or_init(|| ours))
        }
        ours => ours,
    }
}

thread_local! {
    static STATUSES: RefCell<Statuses> = RefCell::default();
}

/// Files `/proc/PID/status` that stay open, since every operation reads one. What is read is always
/// of now. A process that has ended cannot be read any more, and another one with its number has
/// another file.
#[derive(Default)]
struct Statuses {
    /// The last ones that were read, the latest one last.
    open: Vec<(u32, File)>,
    text: Vec<u8>,
}

impl Statuses {
    /// Processes whose files stay open, for each thread.
    const OPEN_MAX: usize = 16;

    /// What the file of a process says now.
    fn read(&mut self, pid: u32) -> Option<&[u8]> {
        let known = self.open.iter().position(|(known, _)| *known == pid);
        let known = known.map(|at| self.open.remove(at).1);
        let (len, file) = match known.and_then(|file| Some((self.fill(&file)?, file))) {
            Some(read) => read,
            None => {
                let file = File::open(format!("/proc/{pid}/status")).ok()?;
                (self.fill(&file)?, file)
            }
        };
        if self.open.len() >= Self::OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push((pid, file));
        Some(&self.text[..len])
    }

    /// Reads a file from its beginning to its end, and says how long it is. The kernel makes such a
    /// file in one piece, so a read that leaves room has come to the end.
    fn fill(&mut self, file: &File) -> Option<usize> {
        let mut len = 0;
        loop {
            if self.text.len() - len < 4096 {
                self.text.resize(len + 4096, 0);
            }
            let room = self.text.len() - len;
            let read = file.read_at(&mut self.text[len..], len as u64).ok()?;
            len += read;
            if read < room {
                return (len > 0).then_some(len);
            }
        }
    }
}

impl Process {
    fn seen(pid: u32) -> Option<Process> {
        if pid == 0 {
            return None;
        }
        let mut process =
            STATUSES.with_borrow_mut(|statuses| Process::parse(statuses.read(pid)?))?;
        // Without capabilities the namespace does not matter.
        process.in_this_namespace = process.capabilities != 0
            && namespace(&pid.to_string())
                .zip(our_namespace())
                .is_some_and(|(theirs, ours)| theirs == *ours);
        Some(process)
    }

    /// Reads `/proc/PID/status`, up to the last line that is needed; the namespace is not there.
    fn parse(status: &[u8]) -> Option<Process> {
        let (mut user, mut group, mut supplementary) = (None, None, None);
        // Real, effective, saved, and that of file accesses.
        let last = |numbers: &[u8]| numbers_in(numbers)?.last().copied();
        let mut rest = status;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            if let Some(numbers) = line.strip_prefix(b"Uid:") {
                user = Some(last(numbers)?);
            } else if let Some(numbers) = line.strip_prefix(b"Gid:") {
                group = Some(last(numbers)?);
            } else if let Some(numbers) = line.strip_prefix(b"Groups:") {
                supplementary = Some(numbers_in(numbers)?);
            } else if let Some(digits) = line.strip_prefix(b"CapEff:") {
                let digits = std::str::from_utf8(digits.trim_ascii()).ok()?;
                // The servers know the first 32 capabilities; those of files are among them.
                let capabilities = u64::from_str_radix(digits, 16).ok()? as u32;
                let (uid, gid, groups) = (user?, group?, supplementary?);
                return Some(Process { uid, gid, capabilities, groups, in_this_namespace: false });
            }
        }
        None
    }
}

/// Numbers with blanks between them.
fn numbers_in(text: &[u8]) -> Option<Vec<u32>> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::mdt::AclTag;

    use super::*;

    /// The name of a process may be anything.
    const STATUS: &str = "Name:\tbash\nUid:\t1000\t1001\t1000\t1002\nGid:\t7\t7\t7\t8\n\
                          Groups:\t4 24 1000 \nCapInh:\t0000000000000000\n\
                          CapEff:\t000001ff00000003\n";

    #[test]
    fn groups_and_capabilities_are_read() {
        let process = Process::parse(STATUS.as_bytes()).expect("it is whole");
        assert_eq!((process.uid, process.gid, process.capabilities), (1002, 8, 3));
        assert_eq!(process.groups, [4, 24, 1000]);
        assert!(!process.in_this_namespace);
        for part in ["Uid:", "Gid:", "Groups:", "CapEff:"] {
            assert_eq!(Process::parse(STATUS.replace(part, "x").as_bytes()), None, "{part}");
        }
        assert_eq!(Process::parse(STATUS.replace("24", "x").as_bytes()), None);
        let no_text = [b"Name:\t\xff", &STATUS.as_bytes()[10..]].concat();
        assert_eq!(Process::parse(&no_text), Some(process));
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
        assert_eq!(process.in_this_namespace, process.capabilities != 0);
        let (uid, gid) = (process.uid, process.gid);
        let ids = IdMaps::of_this_process();
        let requester = Requester::of(&ids, std::process::id(), uid, gid);
        assert_eq!(requester.groups.len(), process.groups.len());
        if ids.are_the_systems() {
            assert_eq!(requester.capabilities, process.capabilities);
        }
    }

    /// A process runs another program and ends; and there are many.
    #[test]
    fn what_is_seen_is_of_now() {
        let mut statuses = Statuses::default();
        let mut child = std::process::Command::new("sh");
        child.args(["-c", "read a; exec sleep 60"]).stdin(std::process::Stdio::piped());
        let mut child = child.spawn().expect("a shell");
        let name = |statuses: &mut Statuses, pid| {
            let status = String::from_utf8_lossy(statuses.read(pid)?).into_owned();
            Some(status.lines().next()?.to_owned())
        };
        // The shell may not run yet; its file stays open meanwhile.
        let pid = child.id();
        let wait = |statuses: &mut Statuses, wanted: &str| {
            let begin = std::time::Instant::now();
            while name(statuses, pid).as_deref() != Some(wanted) {
                assert!(begin.elapsed().as_secs() < 60, "it does not become {wanted}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        wait(&mut statuses, "Name:\tsh");
        drop(child.stdin.take());
        wait(&mut statuses, "Name:\tsleep");
        assert_eq!(statuses.open.len(), 1);
        child.kill().expect("it runs");
        child.wait().expect("it ended");
        assert_eq!(statuses.read(pid), None);
        assert_eq!(statuses.open.len(), 0);
        // Every process that there is: no more files stay open than may.
        let processes = fs::read_dir("/proc").expect("Linux has it");
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        for pid in pids.chain([std::process::id()]) {
            let _ = statuses.read(pid);
            assert!(statuses.open.len() <= Statuses::OPEN_MAX);
        }
        assert_eq!(statuses.open.last().map(|(pid, _)| *pid), Some(std::process::id()));
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
        assert_eq!((unseen.capabilities, unseen.groups), (0, vec![]));
    }

    #[test]
    fn the_first_class_that_applies_decides() {
        let owner = Requester { uid: 1, gid: 9, ..Requester::default() };
        let group = Requester { uid: 2, gid: 7, ..Requester::default() };
        let other = Requester { uid: 3, gid: 8, ..Requester::default() };
        let attr = Attr { mode: 0o100_417, uid: 1, gid: 7, ..Attr::default() };
        let may = |who: &Requester, asks| who.may(&attr, &[], asks);
        assert!(may(&owner, 4) && !may(&owner, 1));
        assert!(may(&group, 1) && !may(&group, 4));
        assert!(may(&other, 7) && may(&other, 0));
    }

    /// The access check algorithm of acl(5), step by step, on a list in the form of setfacl(1).
    #[test]
    fn access_control_lists_are_evaluated_as_acl_5_says() {
        // The owner is 1, the group is 7.
        let cases: &[(&str, u32, &[u32], u32, bool)] = &[
            // 1: the owner, whatever the mask and other entries for him or his groups are.
            ("u::6,u:1:0,g::0,g:9:0,m::0,o::0", 1, &[9], 6, true),
            ("u::4,u:1:7,g::7,m::7,o::7", 1, &[7], 2, false),
            ("u::4,g::7,m::7,o::7", 1, &[7], 1, false),
            // 2: a named user, within the mask; no other entry counts.
            ("u::0,u:2:6,g::0,m::7,o::0", 2, &[5], 6, true),
            ("u::7,u:2:6,g::7,m::4,o::7", 2, &[7], 2, false),
            ("u::7,u:2:6,g::7,m::4,o::7", 2, &[7], 4, true),
            ("u::7,u:2:0,g::7,g:9:7,m::7,o::7", 2, &[7, 9], 4, false),
            // Another user's entry.
            ("u::0,u:2:6,g::0,m::7,o::0", 3, &[5], 4, false),
            // 3: the owning group or a named one, if one entry allows all of it, within the mask.
            ("u::0,g::5,m::7,o::0", 2, &[7], 5, true),
            ("u::0,g::5,m::4,o::7", 2, &[7], 1, false),
            ("u::0,g::0,g:9:6,m::7,o::0", 2, &[7, 9], 6, true),
            ("u::0,g::4,g:9:2,m::7,o::0", 2, &[7, 9], 4, true),
            ("u::0,g::4,g:9:2,m::7,o::0", 2, &[7, 9], 2, true),
            ("u::0,g::4,g:9:2,m::7,o::7", 2, &[7, 9], 6, false),
            ("u::0,g::4,g:9:6,m::4,o::7", 2, &[7, 9], 6, false),
            ("u::0,g::4,g:9:6,m::2,o::7", 2, &[9], 2, true),
            // In a group with an entry, others' rights do not count.
            ("u::0,g::7,g:9:0,m::7,o::7", 2, &[9], 4, false),
            ("u::0,g::0,m::7,o::7", 2, &[7], 4, false),
            // 4: everybody else; the mask does not count.
            ("u::0,u:2:0,g::0,g:9:0,m::0,o::5", 3, &[5], 5, true),
            ("u::7,u:2:7,g::7,g:9:7,m::7,o::5", 3, &[5], 2, false),
            // A list without a mask, and one that lacks what each has.
            ("u::6,g::4,o::0", 2, &[7], 4, true),
            ("u:2:6,m::7", 1, &[7], 4, false),
            ("u:2:6,m::7", 3, &[5], 4, false),
        ];
        for (acl, uid, groups, asks, allowed) in cases {
            let who = Requester {
                uid: *uid,
                gid: groups[0],
                capabilities: 0,
                groups: groups[1..].to_vec(),
            };
            // The mode must not count: all its bits allow, or none does.
            for mode in [0o100_000, 0o100_777] {
                let attr = Attr { mode, uid: 1, gid: 7, ..Attr::default() };
                let case = format!("{acl} of {uid} in {groups:?} for {asks}");
                assert_eq!(who.may(&attr, &list(acl), *asks), *allowed, "{case}");
            }
        }
    }

    /// `u::7,u:ID:7,g::7,g:ID:7,m::7,o::7` as entries.
    fn list(text: &str) -> Vec<AclEntry> {
        let entry = |text: &str| {
            let parts: Vec<&str> = text.split(':').collect();
            let (tag, id) = (parts[0], parts[1].parse().unwrap_or(u32::MAX));
            let tag = match (tag, id) {
                ("u", u32::MAX) => AclTag::USER_OBJ,
                ("u", _) => AclTag::USER,
                ("g", u32::MAX) => AclTag::GROUP_OBJ,
                ("g", _) => AclTag::GROUP,
                ("m", _) => AclTag::MASK,
                _ => AclTag::OTHER,
            };
            AclEntry { tag, perm: parts[2].parse().expect("a digit"), id }
        };
        text.split(',').map(entry).collect()
    }

    #[test]
    fn the_superuser_executes_what_somebody_may_execute() {
        let root = Requester { capabilities: u32::MAX, ..Requester::default() };
        let file = |mode| Attr { mode, uid: 1, ..Attr::default() };
        let may = |mode, asks| root.may(&file(mode), &[], asks);
        assert!(may(0o100_000, 6) && !may(0o100_644, 1));
        assert!(may(0o100_010, 1) && may(0o040_000, 7));
        assert!(root.may(&file(0o100_000), &list("u::0,u:0:0,g::0,m::0,o::0"), 6));
    }

    #[test]
    fn a_backup_program_reads_and_searches_everything() {
        let capabilities = 1 << CAP_DAC_READ_SEARCH;
        let backup = Requester { uid: 5, gid: 5, capabilities, groups: vec![] };
        let file = |mode| Attr { mode, uid: 1, ..Attr::default() };
        let may = |mode, asks| backup.may(&file(mode), &[], asks);
        assert!(may(0o100_000, 4) && may(0o040_000, 5));
        assert!(!may(0o100_000, 2) && !may(0o100_100, 1) && !may(0o040_000, 6));
    }
}
