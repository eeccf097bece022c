//! Unmounting from outside: the program that has mounted may be gone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::MountError;

/// The type of the file system, as `/proc/mounts` shows it behind `fuse.`.
pub(crate) const SUBTYPE: &str = "lustrine";

/// A file system that is no longer mounted at a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmounted {
    /// Its device number, as mountinfo has it: `0:50`. Once its program has ended, another file
    /// system may get the number.
    device: String,
    /// What was mounted: `10.0.0.9@tcp:/lustre`, in the form of mountinfo.
    source: String,
}

/// A place at which a file system is still mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedAt {
    /// The mount point.
    pub dir: PathBuf,
    /// A process that has mounts of its own, and this one among them: its ID and its name. `None`
    /// if the mount is one that this process sees as well.
    pub process: Option<(u32, String)>,
}

impl Unmounted {
    /// Where else the file system is mounted: by a bind mount, or in a copy of the mounts that a
    /// container or another process with mounts of its own has made, one place for each namespace.
    /// Its program goes on as long as there is one. Processes that this one may not look at are not
    /// among them.
    pub fn elsewhere(&self) -> Vec<MountedAt> {
        let place = |process: &str| {
            let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).ok()?;
            entries(&mounts).find(|entry| self.is(entry)).map(|entry| entry.place)
        };
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
        let mut seen: BTreeSet<PathBuf> = namespace("self").into_iter().collect();
        let mut found: Vec<MountedAt> =
            place("self").map(|dir| MountedAt { dir, process: None }).into_iter().collect();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            let Some(name) = name.to_str() else { continue };
            let Ok(pid) = name.parse() else { continue };
            if !namespace(name).is_some_and(|of| seen.insert(of)) {
                continue;
            }
            if let Some(dir) = place(name) {
                let command = fs::read_to_string(format!("/proc/{name}/comm")).unwrap_or_default();
                let process = Some((pid, command.trim().to_owned()));
                found.push(MountedAt { dir, process });
            }
        }
        found
    }

    fn is(&self, entry: &Entry<'_>) -> bool {
        entry.is_ours() && entry.device == self.device && entry.source == self.source
    }
}

/// How a file system is unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// If no program uses it.
    Unused,
    /// It is detached now, and unmounted once no program uses it.
    Lazy,
    /// Operations that wait for servers end with an error first, which needs root.
    Force,
}

/// How long programs whose operations were ended may take to let go of the file system.
const LET_GO: Duration = Duration::from_secs(2);
/// The pause between attempts to unmount it meanwhile.
const ATTEMPTS: Duration = Duration::from_millis(20);

/// Unmounts a file system that this program has mounted, also if its process has died.
///
/// # Errors
/// When there is none at the directory, or the kernel refuses. The text starts with the directory.
pub fn unmount(dir: &Path, mode: UnmountMode) -> Result<Unmounted, MountError> {
    let bad = |why: String| MountError::MountPoint { dir: dir.to_owned(), why };
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| bad(format!("cannot read /proc/self/mountinfo: {error}")))?;
    let place = place_of(dir, &mounts).map_err(|error| bad(error.to_string()))?;
    let unmounted = match last_at(&mounts, &place) {
        Some(entry) if entry.is_ours() => {
            Unmounted { device: entry.device.to_owned(), source: entry.source.to_owned() }
        }
        Some(entry) => {
            return Err(bad(format!("the file system there is {}, not lustrine", entry.kind)));
        }
        None => {
            let why = match place.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => "there is no such directory",
                _ => "no file system is mounted there",
            };
            return Err(bad(why.to_owned()));
        }
    };
    let flag = match mode {
        UnmountMode::Unused => UnmountFlags::empty(),
        UnmountMode::Lazy => UnmountFlags::DETACH,
        UnmountMode::Force => UnmountFlags::FORCE,
    };
    let attempt = || rustix::mount::unmount(&place, flag | UnmountFlags::NOFOLLOW);
    let mut result = attempt();
    if mode == UnmountMode::Force {
        // The first attempt has ended what waited.
        let end = Instant::now() + LET_GO;
        while result == Err(Errno::BUSY) && Instant::now() < end {
            thread::sleep(ATTEMPTS);
            result = attempt();
        }
    }
    match result {
        Ok(()) => Ok(unmounted),
        Err(Errno::BUSY) => Err(bad(
            "programs use it; end them, or use --lazy (`fuser -vm DIR` shows them)".to_owned(),
        )),
        Err(Errno::PERM) if mode == UnmountMode::Force => {
            Err(bad("only root may use --force".to_owned()))
        }
        Err(Errno::PERM) => {
            let lazy = mode == UnmountMode::Lazy;
            by_helper(&place, lazy).map(|()| unmounted).map_err(bad)
        }
        Err(error) => Err(bad(error.to_string())),
    }
}

/// Has fusermount3 do it, for users without the right to.
fn by_helper(place: &Path, lazy: bool) -> Result<(), String> {
    let mut helper = Command::new("fusermount3");
    helper.arg("-u").args(lazy.then_some("-z")).arg("--").arg(place);
    let output = helper.output().map_err(|error| {
        format!("only root may unmount, or fusermount3, which cannot be started: {error}")
    })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Most symbolic links that are followed, as in Linux.
const LINKS_MAX: usize = 40;

/// The path of a mount point without symbolic links. The mount may be dead: only its parents are
/// asked for.
fn place_of(dir: &Path, mounts: &str) -> io::Result<PathBuf> {
    let mut whole = std::path::absolute(dir)?;
    for _ in 0..=LINKS_MAX {
        let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else {
            return whole.canonicalize();
        };
        let parent = parent.canonicalize()?;
        let place = parent.join(name);
        if last_at(mounts, &place).is_some() {
            return Ok(place);
        }
        match fs::read_link(&place) {
            Ok(target) => whole = parent.join(target),
            // It is no link, or there is nothing.
            Err(_) => return Ok(place),
        }
    }
    Err(Errno::LOOP.into())
}

/// The directories at which this program has mounted file systems, in the order of the mounts. A
/// program of a mount may have died.
///
/// # Errors
/// When `/proc/self/mountinfo` cannot be read.
pub fn mount_points() -> io::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let ours = entries(&mounts).filter(Entry::is_ours);
    Ok(ours.map(|entry| entry.place).collect())
}

/// What this program has mounted at a directory, in the form `10.0.0.9@tcp:/lustre`. `None` if
/// nothing, or if the program of the mount has died.
pub fn mounted_at(dir: &Path) -> Option<String> {
    let place = dir.canonicalize().ok()?;
    fs::metadata(&place).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let entry = last_at(&mounts, &place).filter(Entry::is_ours)?;
    unescaped(entry.source).into_os_string().into_string().ok()
}

/// Whether the file system at a directory, whose path has no symbolic links, is one that this
/// program has mounted.
pub(crate) fn is_mounted_at(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    last_at(&mounts, dir).is_some_and(|entry| entry.is_ours())
}

/// The device number of the file system that a path leads to, if it is one of this program. The
/// file system itself is not asked: it may be dead.
pub(crate) fn device_at(dir: &Path) -> Option<String> {
    let there = open(dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", there.as_raw_fd())).ok()?;
    let mount = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(mount))?;
    let found = entries(line).next().filter(Entry::is_ours)?;
    Some(found.device.to_owned())
}

/// A line of mountinfo.
struct Entry<'a> {
    device: &'a str,
    place: PathBuf,
    /// The type of the file system.
    kind: &'a str,
    source: &'a str,
}

impl Entry<'_> {
    /// Whether this program has mounted it.
    fn is_ours(&self) -> bool {
        self.kind.strip_prefix("fuse.") == Some(SUBTYPE)
    }
}

/// The lines of mountinfo, in the order of the mounts.
fn entries(mounts: &str) -> impl DoubleEndedIterator<Item = Entry<'_>> {
    mounts.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut words = head.split(' ').skip(2);
        let (device, place) = (words.next()?, words.nth(1)?);
        let mut last = tail.split(' ');
        let (kind, source) = (last.next()?, last.next()?);
        Some(Entry { device, place: unescaped(place), kind, source })
    })
}

/// What was mounted last at a place.
fn last_at<'a>(mounts: &'a str, place: &Path) -> Option<Entry<'a>> {
    entries(mounts).rfind(|entry| entry.place == place)
}

/// A path or a source of mountinfo, in which spaces and others are octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (bytes[at], number) {
            (b'\\', Some(byte)) => {
                path.push(byte);
                at += 4;
            }
            (byte, _) => {
                path.push(byte);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MOUNTS: &str = "36 35 98:0 / /mnt rw - ext4 /dev/sda rw\n\
                          37 36 0:50 / /mnt/a\\040b rw,nosuid - fuse.lustrine 10.0.0.9@tcp:/l rw\n\
                          38 36 0:51 / /mnt rw shared:1 - fuse.lustrine 10.0.0.9@tcp:/l rw\n";

    #[test]
    fn the_last_mount_at_a_place_counts() {
        let last = |place: &str| last_at(MOUNTS, Path::new(place)).map(|it| (it.kind, it.device));
        assert_eq!(last("/mnt"), Some(("fuse.lustrine", "0:51")));
        assert_eq!(last("/mnt/a b"), Some(("fuse.lustrine", "0:50")));
        assert_eq!(last("/mnt/a"), None);
    }

    #[test]
    fn a_device_number_that_another_file_system_has_now_does_not_match() {
        let at = |device: &str, source: &str| Unmounted {
            device: device.to_owned(),
            source: source.to_owned(),
        };
        let places = |of: &Unmounted| -> Vec<PathBuf> {
            entries(MOUNTS).filter(|entry| of.is(entry)).map(|entry| entry.place).collect()
        };
        assert_eq!(places(&at("0:50", "10.0.0.9@tcp:/l")), [Path::new("/mnt/a b")]);
        assert_eq!(places(&at("0:50", "10.0.0.8@tcp:/l")), Vec::<PathBuf>::new());
        assert_eq!(places(&at("98:0", "/dev/sda")), Vec::<PathBuf>::new());
    }

    #[test]
    fn only_mounts_of_this_program_are_unmounted() {
        let error =
            |place: &str| unmount(Path::new(place), UnmountMode::Unused).unwrap_err().to_string();
        assert!(error("/proc").contains("/proc: the file system there is proc, not lustrine"));
        assert!(error("/proc/self/fd").contains("no file system is mounted there"));
        assert!(error("/no/such/place").contains("No such file"));
    }

    #[test]
    fn symbolic_links_lead_to_a_mount_point_which_itself_is_not_asked() {
        let at = std::env::temp_dir().join(format!("lustrine-links-{}", std::process::id()));
        let at = &at;
        fs::create_dir_all(at.join("a/b")).expect("a directory of this test");
        let dir = at.canonicalize().expect("it exists");
        let links = [("link", "a/./more"), ("a/more", "b"), ("up", "a/b/.."), ("loop", "loop")];
        for (link, target) in links {
            symlink(target, dir.join(link)).expect("a link of this test");
        }
        symlink(dir.join("link"), dir.join("far")).expect("a link of this test");
        let place = |name: &str, mounts: &str| place_of(&at.join(name), mounts);
        for name in ["a/b", "a/b/", "link", "far", "a/../far"] {
            assert_eq!(place(name, "").expect(name), dir.join("a/b"), "{name}");
        }
        assert_eq!(place("up", "").expect("a directory"), dir.join("a"));
        assert_eq!(place("none", "").expect("no link"), dir.join("none"));
        assert_eq!(place("loop", "").unwrap_err().raw_os_error(), Some(40));
        // What is mounted is not read: here a link stands for it.
        let mounts = format!("37 36 0:50 / {}/link rw - fuse.lustrine a rw\n", dir.display());
        assert_eq!(place("far", &mounts).expect("mounted"), dir.join("link"));
        fs::remove_dir_all(dir).expect("the directory of this test");
    }

    #[test]
    fn octal_numbers_are_bytes() {
        assert_eq!(unescaped("/a\\134\\011b\\"), Path::new("/a\\\tb\\"));
    }
}
