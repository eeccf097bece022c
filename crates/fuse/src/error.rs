//! Why a file system cannot be mounted, or not be unmounted.

use std::io;
use std::path::PathBuf;

use lustrine_fs::FsError;

/// Why a directory is refused that should be a mount point of this program.
pub(crate) const NOT_OURS: &str =
    "this is not the mount point of a file system mounted with `lustrine mount`";

/// Why a file system cannot be mounted, or not be unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The directory cannot be used as a mount point.
    #[error("{}: {why}", .dir.display())]
    MountPoint {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// What is to be mounted is a file.
    #[error("it is not a directory")]
    NotADirectory,
    /// The kernel has no FUSE, or this process may not use it.
    #[error("cannot use FUSE: {0}")]
    Fuse(String),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A pipe cannot be made.
    #[error("cannot make a pipe: {0}")]
    Pipe(io::Error),
    /// The session with the kernel broke.
    #[error("the session with the kernel ended: {0}")]
    Session(io::Error),
    /// The connections to the servers were not closed in order.
    #[error("could not disconnect from the servers: {0}")]
    Servers(FsError),
    /// Data that programs had written are lost.
    #[error("not all data that programs have written reached the servers: {0}")]
    Unwritten(FsError),
}
