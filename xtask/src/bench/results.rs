//! The files that a benchmark leaves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::machine::{self, DIRTY, Machine, RESULTS};
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

    /// [`kept`] with the versions of these conditions.
    pub(crate) fn kept(&self, name: &str) -> PathBuf {
        kept(&self.versions, name)
    }

    /// The first lines of a table of results; `run` says what a run is.
    pub(crate) fn heading(&self, run: &str) -> String {
        self.machine.heading(&self.date, run, &self.versions)
    }
}

/// Where the results of a benchmark are kept: in the repository if a clean commit was measured,
/// since others cannot be repeated.
pub(crate) fn kept(versions: &BTreeMap<String, String>, name: &str) -> PathBuf {
    let commit = versions.get("lustrine").map_or("", String::as_str);
    let clean = !commit.is_empty() && !commit.ends_with(DIRTY);
    root().join(if clean { RESULTS } else { "target/bench" }).join(name)
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
    write_text(&file.with_extension("txt"), table)?;
    write_json(file, values)
}

/// Writes the values of a benchmark to a file as JSON.
///
/// # Errors
///
/// The file cannot be written; the message names it.
pub(crate) fn write_json(file: &Path, values: &impl Serialize) -> Result<()> {
    write_text(file, &(serde_json::to_string_pretty(values)? + "\n"))
}

fn write_text(file: &Path, text: &str) -> Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    fs::write(file, text).with_context(|| file.display().to_string())?;
    eprintln!("written: {}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_of_a_clean_commit_are_kept_in_the_repository() {
        let place = |commit: &str| {
            let versions = [("lustrine".to_owned(), commit.to_owned())].into();
            kept(&versions, "x.json").strip_prefix(root()).expect("below it").to_owned()
        };
        assert_eq!(place("0123abc"), Path::new("bench/results/x.json"));
        assert_eq!(place("0123abc-dirty"), Path::new("target/bench/x.json"));
        assert_eq!(place(""), Path::new("target/bench/x.json"));
        assert!(kept(&BTreeMap::new(), "x.json").starts_with(root().join("target")));
    }

    /// A result with uncommitted changes cannot be repeated.
    #[test]
    fn committed_results_are_of_clean_commits() {
        let mut seen = 0;
        for entry in fs::read_dir(root().join(RESULTS)).expect("a directory") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("text");
            assert!(!text.contains(DIRTY), "{}: measured with uncommitted changes", path.display());
            seen += 1;
        }
        assert!(seen > 10, "{seen} files");
    }
}
