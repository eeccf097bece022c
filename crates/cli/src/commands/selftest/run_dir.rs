//! The private directory of a run that starts nodes on this machine: their control sockets.
//!
//! A process that is killed leaves its directory behind. The next run of the same user removes it:
//! a lock, which the system releases with its process, says whether the owner still runs.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use lustrine_sys::files::try_lock;
use lustrine_sys::process::user_id;
use tempfile::TempDir;

use crate::output::Failure;

/// The names of the directories begin with this.
const PREFIX: &str = "lustrine-selftest-";

/// The file that the owner of a directory has locked, as long as it runs.
const LOCK: &str = "lock";

/// A directory that only this user can use (mode 0700); it is removed with this value.
pub(super) struct RunDir {
    /// Removed before the lock is released.
    dir: TempDir,
    _lock: File,
}

impl RunDir {
    /// Makes one in the directory for temporary files, and removes those that earlier runs of this
    /// user left there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn new() -> Result<RunDir, Failure> {
        let parent = std::env::temp_dir();
        // What cannot be removed does not disturb this run.
        let _ = remove_stale(&parent);
        let made = RunDir::make(&parent);
        Ok(made.map_err(|error| format!("cannot make a temporary directory: {error}"))?)
    }

    fn make(parent: &Path) -> io::Result<RunDir> {
        let private = Permissions::from_mode(0o700);
        let dir =
            tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(parent)?;
        // It has its name once it is locked, so that it is never found without its owner.
        let (first, path) = (dir.path().join("lock.new"), dir.path().join(LOCK));
        let lock = File::create_new(&first)?;
        // On a file system without locks no directory is ever found to be stale.
        let _ = try_lock(&lock);
        fs::rename(&first, &path)?;
        Ok(RunDir { dir, _lock: lock })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes the directories whose owners do not run any more.
fn remove_stale(parent: &Path) -> io::Result<()> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let mode = fs::metadata(parent)?.mode();
    if mode & WRITABLE_BY_OTHERS != 0 && mode & STICKY == 0 {
        // Other users could exchange a directory between the check and the removal.
        return Ok(());
    }
    for entry in fs::read_dir(parent)?.filter_map(Result::ok) {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && is_stale(&entry.path()).unwrap_or(false)
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Whether it is a private directory of this user, and its owner has ended. One without a lock, of
/// an earlier release or just made, counts as used.
fn is_stale(path: &Path) -> io::Result<bool> {
    // Of a symbolic link this is not a directory.
    let about = fs::symlink_metadata(path)?;
    if !about.is_dir() || about.uid() != user_id() || about.mode() & 0o077 != 0 {
        return Ok(false);
    }
    // No other user can have put anything into it.
    let lock = path.join(LOCK);
    Ok(fs::symlink_metadata(&lock)?.is_file() && try_lock(&File::open(&lock)?)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_directories_of_ended_owners_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let in_use = RunDir::make(parent.path()).unwrap();
        assert_eq!(fs::metadata(in_use.path()).unwrap().mode() & 0o777, 0o700);
        let named = |name: &str| parent.path().join(format!("{PREFIX}{name}"));
        let make = |name: &str, mode: u32, with_lock: bool| {
            fs::create_dir(named(name)).unwrap();
            if with_lock {
                fs::write(named(name).join(LOCK), "").unwrap();
            }
            fs::set_permissions(named(name), Permissions::from_mode(mode)).unwrap();
        };
        make("stale", 0o700, true);
        make("open-to-others", 0o755, true);
        make("without-lock", 0o700, false);
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        symlink(elsewhere.path(), named("link")).unwrap();
        // Its lock is a link to a file that is not locked.
        make("odd-lock", 0o700, false);
        symlink(elsewhere.path().join(LOCK), named("odd-lock").join(LOCK)).unwrap();

        fs::set_permissions(parent.path(), Permissions::from_mode(0o777)).unwrap();
        remove_stale(parent.path()).unwrap();
        assert!(named("stale").exists(), "the parent is not safe");
        fs::set_permissions(parent.path(), Permissions::from_mode(0o1777)).unwrap();
        remove_stale(parent.path()).unwrap();
        assert!(!named("stale").exists());
        for name in ["open-to-others", "without-lock", "link", "odd-lock"] {
            assert!(fs::symlink_metadata(named(name)).is_ok(), "{name}");
        }
        assert!(elsewhere.path().join(LOCK).exists());
        let path = in_use.path().to_owned();
        assert!(path.exists());
        drop(in_use);
        assert!(!path.exists());
    }
}
