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

/// Prints the table of a benchmark. If there is a file to write, writes the table and the values
/// beside each other: `FILE.txt` and `FILE.json`.
///
/// # Errors
///
/// A file cannot be written; the message names it.
pub(crate) fn write(file: Option<&Path>, table: &str, values: &impl Serialize) -> Result<()> {
    print!("{table}");
    let Some(file) = file else { return Ok(()) };
    let json = serde_json::to_string_pretty(values)? + "\n";
    for (extension, text) in [("txt", table), ("json", &json)] {
        let file = file.with_extension(extension);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        eprintln!("written: {}", file.display());
    }
    Ok(())
}
