//! The files that a benchmark leaves.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::repository::root;

/// Where the results of a benchmark are kept.
pub(crate) fn kept(name: &str) -> PathBuf {
    root().join("bench/results").join(name)
}

/// Prints the table of a benchmark. If there is a file to write, writes the values to it as JSON,
/// and the table beside it, as `.txt`.
///
/// # Errors
///
/// A file cannot be written; the message names it.
pub(crate) fn write(file: Option<&Path>, table: &str, values: &impl Serialize) -> Result<()> {
    print!("{table}");
    let Some(file) = file else { return Ok(()) };
    let json = serde_json::to_string_pretty(values)? + "\n";
    for (file, text) in [(&*file.with_extension("txt"), table), (file, &json)] {
        fs::write(file, text).with_context(|| file.display().to_string())?;
        eprintln!("written: {}", file.display());
    }
    Ok(())
}
