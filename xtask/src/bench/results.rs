//! The files that a benchmark leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::machine::{self, Machine};
use crate::repository::root;

/// The conditions of a benchmark, which its results begin with.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    /// The day, as 2026-01-31, in UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// Versions of the programs involved; of Lustrine, the commit.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Conditions {
    /// Those of this moment, with the versions of these programs, each with the option that prints
    /// it. A benchmark takes them before it runs: the tree can change meanwhile, and the load of
    /// the machine becomes its own.
    pub(crate) fn here(programs: &[(&str, &str)]) -> Conditions {
        Conditions {
            date: machine::today(),
            machine: Machine::here(),
            versions: machine::versions(programs),
        }
    }

    /// For tests of tables, which count lines.
    #[cfg(test)]
    pub(crate) fn without_versions() -> Conditions {
        Conditions {
            date: "2026-01-01".to_owned(),
            machine: Machine::here(),
            versions: BTreeMap::new(),
        }
    }

    /// The first lines of a table of results; `run` says what a run is.
    pub(crate) fn heading(&self, run: &str) -> String {
        self.machine.heading(&self.date, run, &self.versions)
    }
}

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
