//! `lustrine fs set`: settings of a mount.

use std::path::PathBuf;

use clap::Args;

use crate::output::Failure;

/// Change settings of a mount while it is mounted, as `lctl set_param` does for a kernel client.
///
/// The changes last until the file system is unmounted; use mount options to set the values from
/// the start.
#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    /// The mount point
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// max_rpcs_in_flight=N: maximum number of read and write RPCs in flight to a target, or `auto`
    /// for as many as the path and the target carry; max_mod_rpcs_in_flight=N: maximum number of
    /// RPCs in flight that change metadata; both 1 to 512; checksums=0 or 1: whether data have
    /// checksums on the network
    #[arg(value_name = "NAME=VALUE", required = true)]
    settings: Vec<String>,
}

pub(super) fn run(args: &SetArgs) -> Result<(), Failure> {
    for setting in &args.settings {
        lustrine_fuse::set(&args.dir, setting).map_err(|error| error.to_string())?;
    }
    Ok(())
}
