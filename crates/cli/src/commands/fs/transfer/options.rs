//! Options of all copies.

use clap::Args;

use crate::output::Failure;

/// Options of all copies.
#[derive(Args, Debug)]
pub(in crate::commands::fs) struct CopyOptions {
    /// Copy directories and everything in them
    #[arg(long, short)]
    pub(in crate::commands::fs) recursive: bool,

    /// Give copies the permissions and the times of the originals
    #[arg(long, short)]
    pub(in crate::commands::fs) preserve: bool,

    /// Continue an interrupted copy where it stopped
    #[arg(long)]
    pub(in crate::commands::fs) resume: bool,

    /// Read each copy back, and compare its SHA-256 checksum with that of the original
    #[arg(long)]
    pub(in crate::commands::fs) verify: bool,

    /// Show no progress
    #[arg(long, short)]
    pub(in crate::commands::fs) quiet: bool,
}

/// Refuses options that need a file to be read back, replaced or changed.
pub(in crate::commands::fs) fn check_options(
    what: &str,
    options: &CopyOptions,
) -> Result<(), Failure> {
    let CopyOptions { preserve, resume, verify, .. } = *options;
    let options = [("preserve", preserve), ("resume", resume), ("verify", verify)];
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(Failure::Usage(format!("{what} cannot be written with --{option}")))
        }
        None => Ok(()),
    }
}
