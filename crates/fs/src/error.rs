//! Why an operation on a file failed.

use lustrine_client::ClientError;
use lustrine_node::CallError;

use crate::shown::shown;

/// Why an operation on a file failed.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// The client says why.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The same, of a file.
    #[error("{path}: {error}")]
    Path {
        /// The path from the root of the file system, as a terminal can show it.
        path: String,
        /// Why.
        error: Box<FsError>,
    },
    /// Servers have not answered in time.
    #[error("no answer within {seconds} s: {waiting}")]
    TimedOut {
        /// The time-out in seconds.
        seconds: u64,
        /// The targets that are not connected, with their states.
        waiting: String,
    },
    /// The caller has given up before the servers have answered.
    #[error("given up before the servers have answered")]
    GivenUp,
    /// A symbolic link points to an absolute path, which is one of the machine and not of the file
    /// system.
    #[error("the symbolic link points to {0}, outside of the file system")]
    AbsoluteLink(String),
    /// A path ends with a slash, or goes on, and what it names is no directory.
    #[error("is not a directory")]
    NotADirectory,
    /// There are too many symbolic links in a path.
    #[error("too many symbolic links")]
    TooManyLinks,
    /// A directory has too many entries to be listed.
    #[error("the directory has more than {0} entries")]
    DirectoryTooLarge(usize),
    /// The node of the client does not answer.
    #[error(transparent)]
    Node(#[from] CallError),
    /// The system refuses random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(std::io::Error),
}

impl FsError {
    /// The same error, of a file.
    #[must_use]
    pub fn at(self, path: impl AsRef<[u8]>) -> FsError {
        match self {
            FsError::Path { .. } => self,
            error => FsError::Path { path: shown(path.as_ref()), error: Box::new(error) },
        }
    }

    /// The errno of Linux that a program would see.
    pub fn errno(&self) -> i32 {
        match self {
            FsError::Client(error) => error.errno(),
            FsError::Path { error, .. } => error.errno(),
            FsError::TimedOut { .. } => ETIMEDOUT,
            FsError::GivenUp => EINTR,
            FsError::NotADirectory => ENOTDIR,
            FsError::AbsoluteLink(_) | FsError::TooManyLinks => ELOOP,
            FsError::DirectoryTooLarge(_) => EFBIG,
            FsError::Node(_) | FsError::Random(_) => EIO,
        }
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno() == ENOENT
    }
}

const ENOENT: i32 = 2;
const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOTDIR: i32 = 20;
const EFBIG: i32 = 27;
const ELOOP: i32 = 40;
const ETIMEDOUT: i32 = 110;
