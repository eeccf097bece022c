//! One process at a time decides which socket is at a path: without that, two nodes that start
//! together could both find a socket that nothing serves, and the second one would remove that of
//! the first.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lustrine_sys::files::{Existing, open_for_writing, try_lock};

/// How long another process may take, in steps: it looks at the socket and makes a new one.
const STEPS_MAX: u32 = 250;
const STEP: Duration = Duration::from_millis(20);

/// The lock of a path, a file beside it. Dropping it removes the file.
pub(super) struct PlaceLock {
    path: PathBuf,
    _file: File,
}

impl PlaceLock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// The system's, when the file cannot be made; or another process does not release it.
    pub(super) fn of(socket: &Path) -> io::Result<PlaceLock> {
        let mut path = OsString::from(socket);
        path.push(".lock");
        let path = PathBuf::from(path);
        for _ in 0..STEPS_MAX {
            let file = open_for_writing(&path, Existing::Keep)?;
            // Who had the lock before has removed the file, and another one may have its name.
            if try_lock(&file)? && is_at(&file, &path) {
                return Ok(PlaceLock { path, _file: file });
            }
            thread::sleep(STEP);
        }
        let text = format!("another process does not release the lock {}", path.display());
        Err(io::Error::new(ErrorKind::TimedOut, text))
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let inode = |about: fs::Metadata| (about.dev(), about.ino());
    file.metadata().map(inode).ok() == fs::symlink_metadata(path).map(inode).ok()
}

impl Drop for PlaceLock {
    fn drop(&mut self) {
        // It is of no use. While it is locked, nobody else takes it for the lock.
        let _ = fs::remove_file(&self.path);
    }
}
