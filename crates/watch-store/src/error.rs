//! Why a file cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a file cannot be used. The texts are complete messages.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refuses.
    #[error("cannot use {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It cannot be made.
    #[error(
        "{} cannot be made: {}: {why}; make that directory, or let this user write to it, or give \
         another file with --db",
        path.display(),
        directory.display()
    )]
    Make {
        /// The file.
        path: PathBuf,
        /// Its directory.
        directory: PathBuf,
        /// What the system said.
        why: String,
    },
    /// Another process has it open.
    #[error(
        "{} is in use by another process, which writes samples to it; two cannot share a file: \
         give this one another with --db",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is something else.
    #[error("{} is not a file of `lustrine watch` ({why}); it is left as it is", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// Its contents contradict themselves.
    #[error(
        "{} is damaged ({why}); it is left as it is: move it away, and a new one is made",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// It changes faster than it can be copied.
    #[error(
        "{} is written all the time, so that it could not be copied as a whole; try again",
        path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It could not be written, as on a full disk. The file has what was written before; open it
    /// again to go on.
    #[error("{} cannot be written: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// It has as many peers as it can.
    #[error("{} has as many peers as it can; give a new file with --db", path.display())]
    TooManyPeers {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong with the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is something else.
    Foreign(String),
    /// It contradicts itself.
    Damaged(String),
}
