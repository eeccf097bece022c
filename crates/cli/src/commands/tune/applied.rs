//! What `--apply` and `--undo` have changed.

use std::path::PathBuf;

use clap::ValueEnum;
use lustrine_tune::apply::Outcome;
use serde::Serialize;

use crate::output::Failure;

/// What can be changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum What {
    /// `conns_per_peer` of the running node.
    Node,
    /// `max_rpcs_in_flight` of mounts.
    Mounts,
    /// `tcp_rmem` and `tcp_wmem`.
    Sysctl,
}

/// What was applied or undone.
#[derive(Debug, Serialize)]
pub(super) struct Applied {
    /// The file with the values before.
    pub(super) record: PathBuf,
    pub(super) settings: Vec<Outcome>,
    /// What else there is to know.
    pub(super) notes: Vec<String>,
    /// The directory of the file, if the user has named it.
    #[serde(skip)]
    pub(super) state: Option<PathBuf>,
}

impl Applied {
    /// # Errors
    /// When not all was done.
    pub(super) fn whole(&self) -> Result<(), Failure> {
        let failed = self.settings.iter().filter(|outcome| outcome.result.is_failure()).count();
        match failed {
            0 => Ok(()),
            _ => {
                let all = self.settings.len();
                Err(format!("{failed} of {all} settings are not as asked; see above why").into())
            }
        }
    }
}
