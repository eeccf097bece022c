//! Why a laboratory cannot be used.

use std::io;
use std::path::PathBuf;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// There is no directory for the state of laboratories.
    #[error(
        "there is no private directory for laboratories: XDG_RUNTIME_DIR is not set; set it, or \
         LUSTRINE_LAB_DIR to a directory that only you can enter"
    )]
    NoDirectory,
    /// A directory is not private.
    #[error(
        "{} is not used: it is not a directory, or another user owns it or can enter it; remove \
         it, or set LUSTRINE_LAB_DIR to another one",
        .0.display()
    )]
    NotPrivate(PathBuf),
    /// A directory holds files of something else.
    #[error(
        "{} holds files that no laboratory made; move them away, or choose another name with \
         --name",
        .0.display()
    )]
    Foreign(PathBuf),
    /// It runs already.
    #[error("laboratory {0} is up already; `lustrine lab down {0}` ends it")]
    Up(String),
    /// It does not run.
    #[error(
        "laboratory {0} is not up; `lustrine lab up FILE` starts one, `lustrine lab status` \
             lists them"
    )]
    NotUp(String),
    /// A file or directory of the laboratory.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A step of a host's making.
    #[error("host {host}: cannot {step}: {error}{hint}")]
    Host {
        /// The host.
        host: String,
        /// What was tried.
        step: String,
        /// What the system said.
        error: io::Error,
        /// What to do, after "; ".
        hint: &'static str,
    },
    /// A step that is not about one host.
    #[error("cannot {step}: {error}{hint}")]
    Step {
        /// What was tried.
        step: String,
        /// What the system said.
        error: io::Error,
        /// What to do, after "; ".
        hint: &'static str,
    },
    /// A program cannot be started.
    #[error("cannot start {program} on host {host}: {error}{hint}")]
    Program {
        /// The host.
        host: String,
        /// Its name.
        program: String,
        /// What the system said.
        error: io::Error,
        /// What to do, after "; ".
        hint: &'static str,
    },
    /// The daemon ended before the laboratory was up; its messages.
    #[error("{0}")]
    Daemon(String),
    /// There is no host of this name; the names of all.
    #[error("the laboratory has no host {0}; its hosts: {1}")]
    NoSuchHost(String, String),
    /// An answer that is not one of the protocol.
    #[error("unexpected answer of the laboratory's daemon: {0}")]
    Answer(String),
}

impl LabError {
    /// The exit status for this error: those of a shell for a program that is not found or cannot
    /// be executed, otherwise 1.
    pub fn exit_status(&self) -> u8 {
        match self {
            LabError::Program { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            LabError::Program { .. } => 126,
            _ => 1,
        }
    }

    /// About the start of a program.
    pub(crate) fn program(host: &str, program: String, error: io::Error) -> LabError {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => {
                "; hosts see this machine's files: give its path, or a name that is in PATH"
            }
            io::ErrorKind::PermissionDenied => "; is it a program, and may this user execute it?",
            _ => "",
        };
        LabError::Program { host: host.to_owned(), program, error, hint }
    }

    /// About a file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> LabError {
        let path = path.into();
        |error| LabError::File { path, error }
    }

    /// About a step.
    pub(crate) fn step(step: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let step = step.into();
        |error| LabError::Step { step, error, hint: "" }
    }
}
