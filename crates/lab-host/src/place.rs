//! The directory of a laboratory. Only its user can enter it. Whether the laboratory runs is
//! known by a lock on a file, which the kernel releases when the daemon ends, however it ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::LabError;

/// The directory of root's laboratories.
const OF_ROOT: &str = "/run/lustrine-lab";

/// The name of the directory in `XDG_RUNTIME_DIR`.
const OF_USERS: &str = "lustrine-lab";

/// The variable that names another directory.
const VARIABLE: &str = "LUSTRINE_LAB_DIR";

/// Files of a laboratory. The lock is the last that is removed.
const FILES: [&str; 5] = ["lab.yaml", "hosts", "log", "control.sock", LOCK];
const LOCK: &str = "lock";

/// The control socket of a host's node is called so, with the host's name in between.
const NODE_SOCKET: (&str, &str) = ("node-", ".sock");

/// The directory that holds the directories of laboratories.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
}

/// What is known of a laboratory from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its daemon runs.
    Up,
    /// Its daemon has ended without clearing up.
    Dead,
    /// There is none.
    None,
}

/// A laboratory's directory that is this process's own.
#[derive(Debug)]
pub struct Claim {
    pub(crate) dir: PathBuf,
    pub(crate) lock: File,
}

impl Place {
    /// The place of this user, or that of the variable `LUSTRINE_LAB_DIR`.
    ///
    /// # Errors
    /// When there is none.
    pub fn of_user() -> Result<Place, LabError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let root = match variable(VARIABLE) {
            Some(root) => std::path::absolute(&root).map_err(LabError::file(root))?,
            None if lustrine_sys::process::is_root() => PathBuf::from(OF_ROOT),
            None => {
                let runtime = variable("XDG_RUNTIME_DIR").ok_or(LabError::NoDirectory)?;
                PathBuf::from(runtime).join(OF_USERS)
            }
        };
        Ok(Place { root })
    }

    /// The directory of a laboratory.
    pub fn dir(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The control socket of the node on a host, unless the user chooses another one: hosts have
    /// the files of the machine, and a node each.
    pub fn node_socket(&self, name: &str, host: &str) -> PathBuf {
        let (begin, end) = NODE_SOCKET;
        self.dir(name).join(format!("{begin}{host}{end}"))
    }

    /// Names of all laboratories, also of those that have ended without clearing up.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, LabError> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(LabError::file(&self.root))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(LabError::file(&self.root))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if lustrine_lab::is_name(&name) && entry.path().join(LOCK).exists() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether a laboratory runs.
    ///
    /// # Errors
    /// When its lock cannot be opened.
    pub fn state(&self, name: &str) -> Result<State, LabError> {
        let path = self.dir(name).join(LOCK);
        let lock = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(State::None),
            lock => lock.map_err(LabError::file(&path))?,
        };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(State::Dead),
            Err(_) => Ok(State::Up),
        }
    }

    /// Makes the directory of a laboratory this process's own, empty: what a laboratory of this
    /// name that ended without clearing up has left is removed.
    ///
    /// # Errors
    /// When the laboratory runs, or the directory is not private or is something else's.
    pub fn claim(&self, name: &str) -> Result<Claim, LabError> {
        private(&self.root)?;
        let dir = self.dir(name);
        private(&dir)?;
        for name in files_in(&dir)? {
            if !FILES.contains(&name.as_str()) && !is_node_socket(&name) {
                return Err(LabError::Foreign(dir));
            }
        }
        let path = dir.join(LOCK);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(LabError::file(&path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(LabError::Up(name.to_owned()));
        }
        // The one that had the lock may have removed the file in between.
        let same = |there: &fs::Metadata| lock.metadata().is_ok_and(|own| own.ino() == there.ino());
        if !fs::metadata(&path).is_ok_and(|there| same(&there)) {
            return Err(LabError::Up(name.to_owned()));
        }
        for file in FILES.iter().filter(|file| **file != LOCK) {
            remove(&dir.join(file))?;
        }
        remove_node_sockets(&dir)?;
        Ok(Claim { dir, lock })
    }
}

impl Claim {
    /// The claim of a process that was given the lock by the one that took it.
    ///
    /// # Errors
    /// When the lock is not this process's.
    pub(crate) fn given(dir: PathBuf, lock: File) -> Result<Claim, LabError> {
        let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        locked.map_err(|error| LabError::step("take the laboratory's lock")(error.into()))?;
        Ok(Claim { dir, lock })
    }

    /// A file of the laboratory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        debug_assert!(FILES.contains(&name));
        self.dir.join(name)
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn remove(&self) -> Result<(), LabError> {
        remove_node_sockets(&self.dir)?;
        for file in FILES {
            remove(&self.dir.join(file))?;
        }
        fs::remove_dir(&self.dir).map_err(LabError::file(&self.dir))
    }
}

/// The names of the files in a directory.
fn files_in(dir: &Path) -> Result<Vec<String>, LabError> {
    let entries = fs::read_dir(dir).map_err(LabError::file(dir))?;
    let name = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.map_err(LabError::file(dir))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

fn is_node_socket(name: &str) -> bool {
    let (begin, end) = NODE_SOCKET;
    name.strip_prefix(begin)
        .and_then(|rest| rest.strip_suffix(end))
        .is_some_and(lustrine_lab::is_name)
}

/// Removes the control sockets of nodes, which are dead if their programs were killed.
fn remove_node_sockets(dir: &Path) -> Result<(), LabError> {
    let mut sockets = files_in(dir)?.into_iter().filter(|name| is_node_socket(name));
    sockets.try_for_each(|name| remove(&dir.join(name)))
}

fn remove(path: &Path) -> Result<(), LabError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(LabError::File { path: path.to_owned(), error })
        }
        _ => Ok(()),
    }
}

/// Makes sure that there is a directory that only this user can enter.
fn private(dir: &Path) -> Result<(), LabError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(LabError::File { path: dir.to_owned(), error });
        }
        _ => {}
    }
    let about: io::Result<_> = fs::symlink_metadata(dir);
    let about = about.map_err(LabError::file(dir))?;
    let own = about.uid() == lustrine_sys::process::user_id();
    match about.is_dir() && own && about.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(LabError::NotPrivate(dir.to_owned())),
    }
}

#[cfg(test)]
mod tests;
