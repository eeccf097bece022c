//! Opening files for writing in directories that several users can write to.
//!
//! In a directory such as /tmp another user can put a symbolic link, a FIFO or a file of their own
//! where a program is about to write. Linux has switches against this (`fs.protected_symlinks`,
//! `fs.protected_regular`), which not every system sets; the same rules hold here always: in a
//! sticky directory that the group or every user can write to, only links and files of the
//! directory's owner and of this process's user are used.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::process::user_id;

/// Largest number of symbolic links in one path, as in Linux.
const LINKS_MAX: usize = 40;

/// Closes a file, with the error that dropping it would hide: file systems in the network report
/// then what they could not write.
///
/// # Errors
/// The system's. The file is closed all the same.
pub fn close(file: File) -> io::Result<()> {
    match nix::unistd::close(file) {
        Ok(()) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What to do with a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Open it and keep its content.
    Keep,
    /// Return an error.
    Refuse,
}

/// Opens a file for writing, or creates it.
///
/// # Errors
/// When the system refuses, or another user controls the file at `path`.
pub fn open_for_writing(path: &Path, existing: Existing) -> io::Result<File> {
    if existing == Existing::Refuse && fs::symlink_metadata(path).is_ok() {
        return Err(io::Error::from(ErrorKind::AlreadyExists));
    }
    let Resolved { path: target, is_link } = resolve(path, user_id())?;
    // Check before opening, since opening a FIFO has an effect; and again after, since the file may
    // be replaced.
    if let Ok(about) = fs::symlink_metadata(&target) {
        check_owner(&target, &about)?;
    }
    let mut options = OpenOptions::new();
    options.write(true);
    if !is_link {
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    }
    match existing {
        Existing::Refuse => options.create_new(true),
        Existing::Keep => options.create(true).truncate(false),
    };
    let file = options.open(&target)?;
    check_owner(&target, &file.metadata()?)?;
    Ok(file)
}

/// Locks a file for this open file alone (flock(2)), without waiting; `false` if another open file
/// has the lock. It is released when `file` is closed, also by the end of the process.
///
/// # Errors
/// When the system refuses for another reason.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a file and replaces its content. A regular file keeps its old content if that fails, as
/// on a full device, unless new files cannot be made in its directory or it has several names.
///
/// # Errors
/// As [`open_for_writing`], or when the text cannot be written.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let Resolved { path: target, is_link } = resolve(path, user_id())?;
    let old = match fs::symlink_metadata(&target) {
        Ok(about) => Some(about),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let replaces = old.as_ref().is_none_or(|old| old.is_file() && old.nlink() == 1);
    if replaces && !is_link {
        if old.is_some() {
            open_for_writing(path, Existing::Keep)?;
        }
        match write_beside(&target, old.as_ref(), text) {
            // The directory, or the owner of the file, is another user's; or the file alone can
            // be written, such as one that is mounted into a container.
            Err(error) if is_in_the_way(error.kind()) => {}
            outcome => return outcome,
        }
    }
    let mut file = open_for_writing(path, Existing::Keep)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    io::Write::write_all(&mut file, text.as_bytes())?;
    close(file)
}

/// Names that are tried for a new file.
const NAMES_MAX: u32 = 16;

fn exists<T>(created: &io::Result<T>) -> bool {
    matches!(created, Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

/// Whether an error says that a file cannot be replaced, and not that it cannot be written.
fn is_in_the_way(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::InvalidFilename
            | ErrorKind::AlreadyExists
    )
}

/// Writes a new file in the directory of another one, and gives it that one's name.
fn write_beside(target: &Path, old: Option<&Metadata>, text: &str) -> io::Result<()> {
    let name = target.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    let create = |attempt: u32| {
        let mut beside = OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}-{attempt}", std::process::id()));
        let beside = target.with_file_name(beside);
        let file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        io::Result::Ok((file, beside))
    };
    // A program that was killed may have left the first ones, with the same number in a container.
    let mut attempts = (0..NAMES_MAX).map(create).filter(|created| !exists(created));
    let (mut file, beside) =
        attempts.next().unwrap_or_else(|| Err(io::Error::from(ErrorKind::AlreadyExists)))?;
    let mut fill = || {
        if let Some(old) = old {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(old.permissions())?;
        }
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()
    };
    let written = fill().and_then(|()| close(file)).and_then(|()| fs::rename(&beside, target));
    if written.is_err() {
        // It is of no use.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Creates an empty log file that only this user can read. A log of an earlier run at this path is
/// emptied; a symbolic link at this path is an error, wherever it points.
///
/// # Errors
/// When the system refuses, or when `path` is not a file of this user.
pub fn create_log(path: &Path) -> io::Result<File> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    let target = resolve(parent, user_id())?.path.join(name);
    if fs::symlink_metadata(&target).is_ok_and(|about| about.is_symlink()) {
        return Err(refused(path, "is a symbolic link, and a log is not written through one"));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    // A FIFO without a reader would block.
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = options.open(&target)?;
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != user_id() || about.nlink() != 1 {
        return Err(refused(path, "exists and is not a file of this user alone"));
    }
    file.set_len(0)?;
    Ok(file)
}

/// A path without symbolic links.
struct Resolved {
    path: PathBuf,
    /// Whether it ends in a link of /proc, such as /proc/self/fd/1. The kernel makes those, and
    /// their targets need not have a path.
    is_link: bool,
}

/// Follows the symbolic links of a path. Its last component need not exist.
fn resolve(path: &Path, user: u32) -> io::Result<Resolved> {
    let path = std::path::absolute(path)?;
    let mut resolved = PathBuf::from("/");
    let mut left: Vec<OsString> = names(&path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&name);
        let about = match fs::symlink_metadata(&next) {
            Ok(about) => about,
            Err(error) if error.kind() == ErrorKind::NotFound && left.is_empty() => {
                return Ok(Resolved { path: next, is_link: false });
            }
            Err(error) => return Err(error),
        };
        if !about.is_symlink() {
            resolved = next;
            continue;
        }
        if is_foreign(&fs::symlink_metadata(&resolved)?.into(), about.uid(), user) {
            return Err(refused(
                &next,
                "is a symbolic link that another user made in a shared directory",
            ));
        }
        if resolved.starts_with("/proc") {
            let path = left.iter().rev().fold(next, |path, name| path.join(name));
            return Ok(Resolved { path, is_link: true });
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::from(rustix::io::Errno::LOOP));
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            resolved = PathBuf::from("/");
        }
        left.extend(names(&target));
    }
    Ok(Resolved { path: resolved, is_link: false })
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    names.collect()
}

fn check_owner(path: &Path, about: &Metadata) -> io::Result<()> {
    let kind = about.file_type();
    let Some(parent) = path.parent().filter(|_| kind.is_file() || kind.is_fifo()) else {
        return Ok(());
    };
    if is_foreign(&fs::metadata(parent)?.into(), about.uid(), user_id()) {
        return Err(refused(path, "belongs to another user, in a shared directory"));
    }
    Ok(())
}

/// Who can write to a directory.
#[derive(Clone, Copy, Debug)]
struct Directory {
    mode: u32,
    owner: u32,
}

impl From<Metadata> for Directory {
    fn from(about: Metadata) -> Directory {
        Directory { mode: about.mode(), owner: about.uid() }
    }
}

/// Whether a user other than `user` and the directory's owner created an entry of a directory that
/// users share.
fn is_foreign(directory: &Directory, owner: u32, user: u32) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o022;
    let shared = directory.mode & STICKY != 0 && directory.mode & OTHERS_WRITE != 0;
    shared && owner != user && owner != directory.owner
}

/// Why a file was not opened.
#[derive(Debug)]
struct Refused {
    path: PathBuf,
    why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; remove it, or choose another path", self.path.display(), self.why)
    }
}

impl std::error::Error for Refused {}

fn refused(path: &Path, why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, Refused { path: path.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use lustrine_testing::{Need, not_run};

    use super::*;

    /// A directory of one test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, mode: u32) -> Scratch {
            let path = std::env::temp_dir().join(format!("lustrine-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_sticky_shared_directories_have_foreign_entries() {
        let foreign = |mode, owner| is_foreign(&Directory { mode, owner: 0 }, owner, 1000);
        for shared in [0o41777, 0o41770, 0o41773] {
            assert!(foreign(shared, 1001), "{shared:o}");
            assert!(!foreign(shared, 1000) && !foreign(shared, 0), "{shared:o}");
        }
        for other in [0o40777, 0o41755, 0o40755] {
            assert!(!foreign(other, 1001), "{other:o}");
        }
    }

    #[test]
    fn a_users_own_links_are_followed_and_a_log_is_never_written_through_one() {
        let scratch = Scratch::new("links", 0o1777);
        let [target, link, loop_] = ["target", "link", "loop"].map(|name| scratch.0.join(name));
        fs::write(&target, "old").unwrap();
        symlink("target", &link).unwrap();
        symlink("loop", &loop_).unwrap();
        assert!(open_for_writing(&link, Existing::Keep).is_ok());
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert!(open_for_writing(&loop_, Existing::Keep).is_err());
        let error = create_log(&link).unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        // A hard link could refer to a file that must not be overwritten.
        fs::hard_link(&target, scratch.0.join("hard")).unwrap();
        assert!(create_log(&target).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
    }

    #[test]
    fn a_file_is_replaced_and_the_links_of_proc_are_followed() {
        let scratch = Scratch::new("write", 0o700);
        let path = scratch.0.join("file");
        for text in ["long text", "text"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let fd = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        write(Path::new(&fd), "by descriptor").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "by descriptor");
        write(Path::new("/dev/null"), "nothing").unwrap();
        assert!(write(&scratch.0, "a directory").is_err());
        let other = scratch.0.join("hard");
        fs::hard_link(&path, &other).unwrap();
        write(&path, "both names").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "both names");
    }

    /// What is written may not fit, and the old text may be the only copy. Permissions stay, and so
    /// does a link to the file.
    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let scratch = Scratch::new("kept", 0o700);
        let path = scratch.0.join("file");
        write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = scratch.0.join("link");
        symlink("file", &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // A program that was killed has left its new files.
        let left = |attempt| scratch.0.join(format!(".file.{}-{attempt}", std::process::id()));
        fs::write(left(0), "").unwrap();
        write(&path, "newer").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        (1..NAMES_MAX).for_each(|attempt| fs::write(left(attempt), "").unwrap());
        write(&path, "in place").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "in place");
        let names = fs::read_dir(&scratch.0).unwrap().count();
        assert_eq!(names, 2 + NAMES_MAX as usize, "nothing more is left behind");
    }

    #[test]
    fn a_log_is_private_and_replaces_the_one_before() {
        let scratch = Scratch::new("log", 0o700);
        let path = scratch.0.join("log");
        for _ in 0..2 {
            let mut file = create_log(&path).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
            assert_eq!(file.metadata().unwrap().len(), 0);
            io::Write::write_all(&mut file, b"words").unwrap();
        }
        assert!(open_for_writing(&path, Existing::Refuse).is_err());
    }

    #[test]
    fn entries_of_others_in_a_shared_directory_are_refused() {
        if !crate::process::is_root() {
            return not_run(Need::Root, "links of another user");
        }
        let scratch = Scratch::new("foreign", 0o1777);
        let [target, link, file] = ["target", "link", "file"].map(|name| scratch.0.join(name));
        lchown(&scratch.0, Some(7001), None).unwrap();
        fs::write(&target, "old").unwrap();
        fs::write(&file, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        for theirs in [&link, &file] {
            lchown(theirs, Some(7002), None).unwrap();
            let error = open_for_writing(theirs, Existing::Keep).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(error.to_string().contains("another user"), "{error}");
            assert!(create_log(theirs).is_err());
        }
        assert!(open_for_writing(&link.join("below"), Existing::Keep).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    }
}
