//! The file with the values that settings had before: in a directory of this user, written so that
//! either the old or the new one is there after a crash. Neither the directory nor the file may be
//! a symbolic link; links in the path to the directory are followed.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use lustrine_sys::files::try_lock;
use lustrine_sys::process::{is_root, user_id};
use lustrine_tune::apply::{Record, check_version};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::Deserialize;

use crate::output::Failure;

pub(super) const NAME: &str = "tune.json";
/// The next one, until it is complete.
const NEXT: &str = "tune.json.next";
/// Longest file that is read.
const LEN_MAX: u64 = 4 << 20;

/// The directory with the record. As long as this lives, no other process changes settings with it.
#[derive(Debug)]
pub(super) struct Store {
    dir: File,
    path: PathBuf,
}

impl Store {
    /// The directory that is used without `--state`.
    ///
    /// # Errors
    /// When this is not root, and neither `XDG_STATE_HOME` nor `HOME` is set.
    pub(super) fn default_dir() -> Result<PathBuf, Failure> {
        default_dir(is_root(), |name| std::env::var_os(name).map(PathBuf::from))
    }

    /// Opens the directory, and makes it if it is not there.
    ///
    /// # Errors
    /// When it is not a directory of this user alone, or another process uses it.
    pub(super) fn make(path: &Path) -> Result<Store, Failure> {
        make_dir(path)?;
        let missing = || format!("the directory {} has vanished", path.display());
        Ok(Store::open(path)?.ok_or_else(missing)?)
    }

    /// Opens the directory; `None` if it is not there.
    ///
    /// # Errors
    /// As [`Store::make`].
    pub(super) fn open(path: &Path) -> Result<Option<Store>, Failure> {
        let failed = |error: io::Error| format!("cannot use {}: {error}", path.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(dir) => File::from(dir),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let shown = path.display();
                return Err(format!("{shown} is a symbolic link, or not a directory").into());
            }
            Err(error) => return Err(failed(error.into()).into()),
        };
        let about = dir.metadata().map_err(failed)?;
        if about.uid() != user_id() || about.mode() & 0o022 != 0 {
            let shown = path.display();
            let words = "does not belong to this user, or others may write to it";
            return Err(format!("the directory {shown} {words}").into());
        }
        match try_lock(&dir).map_err(failed)? {
            true => Ok(Some(Store { dir, path: path.to_owned() })),
            false => {
                let shown = path.display();
                Err(format!("another lustrine tune changes settings with {shown} now").into())
            }
        }
    }

    /// The path of the file, for messages.
    pub(super) fn file(&self) -> PathBuf {
        self.path.join(NAME)
    }

    /// What was changed so far.
    ///
    /// # Errors
    /// When the file is not one of this user alone, or not a record.
    pub(super) fn load(&self) -> Result<Record, Failure> {
        let wrong = |what: &dyn std::fmt::Display| {
            Failure::Failed(format!("cannot use {}: {what}", self.file().display()))
        };
        // A FIFO would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.dir, NAME, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Record::default()),
            Err(Errno::LOOP) => return Err(wrong(&"it is a symbolic link")),
            Err(error) => return Err(wrong(&io::Error::from(error))),
        };
        let about = file.metadata().map_err(|error| wrong(&error))?;
        if !about.is_file() || about.uid() != user_id() || about.mode() & 0o022 != 0 {
            return Err(wrong(&"it is not a file that this user alone may write"));
        }
        let mut text = String::new();
        let read = file.take(LEN_MAX + 1).read_to_string(&mut text);
        let read = read.map_err(|error| wrong(&error))?;
        if read as u64 > LEN_MAX {
            return Err(wrong(&"it is too long"));
        }
        let not_ours = |error| wrong(&format!("it is not a record of lustrine tune: {error}"));
        let Versioned { version } = serde_json::from_str(&text).map_err(not_ours)?;
        check_version(version).map_err(|why| wrong(&why))?;
        let record: Record = serde_json::from_str(&text).map_err(not_ours)?;
        record.check().map_err(|why| wrong(&why))?;
        Ok(record)
    }

    /// Replaces the file; without any setting, it is removed.
    ///
    /// # Errors
    /// When it cannot be written. The old one is still there then.
    pub(super) fn keep(&self, record: &Record) -> Result<(), String> {
        let written = match record.is_empty() {
            true => self.remove(NAME),
            false => self.replace(record),
        };
        let synced = written.and_then(|()| self.dir.sync_all());
        synced.map_err(|error| format!("cannot write {}: {error}", self.file().display()))
    }

    fn replace(&self, record: &Record) -> io::Result<()> {
        // That of a run that was killed.
        self.remove(NEXT)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat(&self.dir, NEXT, flags | OFlags::CLOEXEC, mode)?);
        let text = serde_json::to_vec_pretty(record)?;
        file.write_all(&text)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        Ok(renameat(&self.dir, NEXT, &self.dir, NAME)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes the directory of `file`, if that is the one that is used without `--state`: it is missing
/// on a host until something is kept there. Other directories are not made, since their names may
/// be mistyped.
///
/// # Errors
/// When it cannot be made.
pub(in crate::commands) fn make_state_dir_of(file: &Path) -> Result<(), Failure> {
    make_if_parent(file, Store::default_dir().ok().as_deref())
}

fn make_if_parent(file: &Path, dir: Option<&Path>) -> Result<(), Failure> {
    match dir {
        Some(dir) if file.parent() == Some(dir) => make_dir(dir),
        _ => Ok(()),
    }
}

/// Makes a directory for this user alone, unless it is there.
fn make_dir(path: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| format!("cannot make the directory {}: {error}", path.display()).into())
}

/// What a record of any version begins with.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// The directory of root is in no home directory: under sudo, `HOME` may be that of another user,
/// in which
/// root would make directories, and follow links.
fn default_dir(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, Failure> {
    if root {
        return Ok(PathBuf::from("/var/lib/lustrine"));
    }
    let named = |name| variable(name).filter(|dir| dir.is_absolute());
    let states = named("XDG_STATE_HOME")
        .or_else(|| Some(named("HOME")?.join(".local/state")))
        .ok_or_else(|| {
            Failure::Usage(
                "neither XDG_STATE_HOME nor HOME is set: name a directory with --state".to_owned(),
            )
        })?;
    Ok(states.join("lustrine"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A record with a setting of a mount and one of a node.
    fn record() -> Record {
        let text = r#"{"version": 3, "entries": [{"location": {"kind": "mount", "dir": "/mnt",
            "source": "a@tcp:/l", "pid": 7, "mntns": 1, "boot": "b"}, "first": "8", "set": ["16"]},
            {"location": {"kind": "node", "control": "/run/a.sock", "nid": "10.0.0.1@tcp",
            "start": {"inode": 5, "made_s": 1700000000, "made_ns": 9}},
            "first": "1", "set": ["4"]}]}"#;
        serde_json::from_str(text).unwrap()
    }

    fn message(failure: Failure) -> String {
        match failure {
            Failure::Failed(text) | Failure::Usage(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_is_kept_for_this_user_alone_and_removed_when_it_is_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("a/lustrine");
        assert!(Store::open(&dir).unwrap().is_none());
        let store = Store::make(&dir).unwrap();
        assert!(store.load().unwrap().is_empty());
        store.keep(&record()).unwrap();
        assert_eq!(store.load().unwrap(), record());
        assert_eq!(fs::metadata(store.file()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        // A run that was killed leaves the next file behind.
        fs::write(dir.join(NEXT), "half").unwrap();
        store.keep(&record()).unwrap();
        store.keep(&Record::default()).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn of_other_programs_files_only_the_default_directory_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("a/lustrine");
        for (file, is_made) in [("b/watch.db", false), ("a/lustrine/watch.db", true)] {
            make_if_parent(&scratch.path().join(file), Some(&dir)).unwrap();
            assert_eq!(dir.is_dir(), is_made);
        }
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert!(!scratch.path().join("b").exists());
        make_if_parent(&scratch.path().join("c/watch.db"), None).unwrap();
        assert!(!scratch.path().join("c").exists());
    }

    #[test]
    fn root_uses_no_home() {
        let both = |name: &str| Some(PathBuf::from("/users/a").join(name));
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/users/a"));
        let dir = |root, variable: &dyn Fn(&str) -> Option<PathBuf>| {
            default_dir(root, variable).map_err(message)
        };
        assert_eq!(dir(true, &both), Ok("/var/lib/lustrine".into()));
        assert_eq!(dir(false, &both), Ok("/users/a/XDG_STATE_HOME/lustrine".into()));
        assert_eq!(dir(false, &home), Ok("/users/a/.local/state/lustrine".into()));
        for unusable in [None, Some(PathBuf::from("relative"))] {
            let refused = dir(false, &|_| unusable.clone());
            assert!(refused.is_err_and(|why| why.contains("name a directory with --state")));
        }
    }

    #[test]
    fn one_process_at_a_time_changes_settings() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("lustrine");
        let store = Store::make(&dir).unwrap();
        assert!(message(Store::open(&dir).unwrap_err()).contains("another lustrine tune"));
        drop(store);
        assert!(Store::open(&dir).unwrap().is_some());
    }

    #[test]
    fn links_and_files_of_others_are_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
        drop(Store::make(&real).unwrap());
        symlink(&real, &link).unwrap();
        assert!(message(Store::open(&link).unwrap_err()).contains("is a symbolic link"));
        let (elsewhere, store) = (scratch.path().join("file"), Store::make(&real).unwrap());
        fs::write(&elsewhere, serde_json::to_vec(&record()).unwrap()).unwrap();
        symlink(&elsewhere, store.file()).unwrap();
        assert!(message(store.load().unwrap_err()).contains("it is a symbolic link"));
        // What is written replaces the link, and not what it points to.
        symlink(&elsewhere, real.join(NEXT)).unwrap();
        let before = fs::read(&elsewhere).unwrap();
        store.keep(&record()).unwrap();
        assert!(fs::symlink_metadata(store.file()).unwrap().is_file());
        assert_eq!(fs::read(&elsewhere).unwrap(), before);
        fs::set_permissions(store.file(), Permissions::from_mode(0o666)).unwrap();
        assert!(message(store.load().unwrap_err()).contains("this user alone"));
        drop(store);
        fs::set_permissions(&real, Permissions::from_mode(0o777)).unwrap();
        assert!(message(Store::open(&real).unwrap_err()).contains("others may write"));
    }

    #[test]
    fn other_files_are_no_records() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::make(&scratch.path().join("lustrine")).unwrap();
        let sysctl = r#"{"version": 3, "entries": [{"location": {"kind": "sysctl", "name": "../x",
            "netns": 1, "boot": "b"}, "first": "1 2 3", "set": []}]}"#;
        for text in ["", "[]", "{\"version\": 9, \"entries\": []}", sysctl, "\u{0}"] {
            fs::write(store.file(), text).unwrap();
            assert!(message(store.load().unwrap_err()).contains("tune.json: it "), "{text}");
        }
        // An earlier version says so, whatever its fields are.
        fs::write(store.file(), r#"{"version": 1, "entries": [{"place": {}}]}"#).unwrap();
        assert!(message(store.load().unwrap_err()).contains("it has version 1, and this program"));
        let long = " ".repeat(LEN_MAX as usize + 1);
        fs::write(store.file(), long).unwrap();
        assert!(message(store.load().unwrap_err()).contains("too long"));
    }
}
