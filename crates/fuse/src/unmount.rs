//! Unmounting from outside: the program that has mounted may be gone.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::MountError;

/// The type of the file system, as `/proc/mounts` shows it behind `fuse.`.
pub(crate) const SUBTYPE: &str = "lustrine";

/// Unmounts a file system that this program has mounted, also if its process has died.
///
/// # Errors
/// When there is none at the directory, or the kernel refuses. The text starts with the directory.
pub fn unmount(dir: &Path, lazy: bool) -> Result<(), MountError> {
    let bad = |why: String| MountError::MountPoint { dir: dir.to_owned(), why };
    let place = without_following(dir).map_err(|error| bad(error.to_string()))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| bad(format!("cannot read /proc/self/mountinfo: {error}")))?;
    match kind_at(&mounts, &place) {
        Some(kind) if kind == format!("fuse.{SUBTYPE}") => {}
        Some(kind) => return Err(bad(format!("the file system there is {kind}, not lustrine"))),
        None => return Err(bad("no file system is mounted there".to_owned())),
    }
    let lazily = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&place, lazily | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(bad(
            "programs use it; end them, or use --lazy (`fuser -vm DIR` shows them)".to_owned(),
        )),
        Err(Errno::PERM) => by_helper(&place, lazy).map_err(bad),
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

/// The absolute path of a mount point, which may be dead: only its parents are asked for.
fn without_following(dir: &Path) -> std::io::Result<PathBuf> {
    let whole = std::path::absolute(dir)?;
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => Ok(whole),
    }
}

/// The directories at which this program has mounted file systems, in the order of the mounts. A
/// program of a mount may have died.
///
/// # Errors
/// When `/proc/self/mountinfo` cannot be read.
pub fn mount_points() -> std::io::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let ours = entries(&mounts).filter(|(_, kind)| *kind == format!("fuse.{SUBTYPE}"));
    Ok(ours.map(|(place, _)| place).collect())
}

/// Whether the file system at a directory, whose path has no symbolic links, is one that this
/// program has mounted.
pub(crate) fn is_mounted_at(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    kind_at(&mounts, dir).is_some_and(|kind| kind == format!("fuse.{SUBTYPE}"))
}

/// Places and types of file systems, in the order of the mounts.
fn entries(mounts: &str) -> impl DoubleEndedIterator<Item = (PathBuf, &str)> {
    mounts.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        Some((unescaped(head.split(' ').nth(4)?), tail.split(' ').next()?))
    })
}

/// The type of the file system that was mounted last at a place.
fn kind_at(mounts: &str, place: &Path) -> Option<String> {
    entries(mounts).rfind(|(at, _)| at == place).map(|(_, kind)| kind.to_owned())
}

/// A path of mountinfo, in which spaces and others are octal numbers.
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
    use super::*;

    const MOUNTS: &str = "36 35 98:0 / /mnt rw - ext4 /dev/sda rw\n\
                          37 36 0:50 / /mnt/a\\040b rw,nosuid - fuse.lustrine 10.0.0.9@tcp:/l rw\n\
                          38 36 0:51 / /mnt rw shared:1 - fuse.lustrine 10.0.0.9@tcp:/l rw\n";

    #[test]
    fn the_last_mount_at_a_place_counts() {
        let kind = |place: &str| kind_at(MOUNTS, Path::new(place));
        assert_eq!(kind("/mnt").as_deref(), Some("fuse.lustrine"));
        assert_eq!(kind("/mnt/a b").as_deref(), Some("fuse.lustrine"));
        assert_eq!(kind("/mnt/a"), None);
    }

    #[test]
    fn only_mounts_of_this_program_are_unmounted() {
        let error = |place: &str| unmount(Path::new(place), false).unwrap_err().to_string();
        assert!(error("/proc").contains("/proc: the file system there is proc, not lustrine"));
        assert!(error("/proc/self/fd").contains("no file system is mounted there"));
        assert!(error("/no/such/place").contains("No such file"));
    }

    #[test]
    fn octal_numbers_are_bytes() {
        assert_eq!(unescaped("/a\\134\\011b\\"), Path::new("/a\\\tb\\"));
    }
}
