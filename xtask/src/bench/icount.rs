//! `cargo xtask bench icount`: instructions per message of the logic alone.
//!
//! Each workload runs N and 2 N times under callgrind; the difference divided by N is the cost of
//! one iteration, without start and set-up. Unlike time, this is the same on a busy machine, so a
//! change of a few per cent is significant. Instructions also depend on compiler and C library:
//! compare results of one toolchain.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{machine, results};
use crate::process;
use crate::repository::{cargo, root};

/// The file of the results.
const NAME: &str = "icount.json";
/// Iterations of the first run; the second does twice as many.
const ITERATIONS: u64 = 2000;
/// A release build from nothing on a small machine.
const BUILD_MAX: Duration = Duration::from_secs(20 * 60);
/// One run under callgrind.
const RUN_MAX: Duration = Duration::from_secs(300);

/// Instruction counts.
#[derive(Args)]
pub(crate) struct IcountArgs {
    /// Only workloads with this in their name; nothing is written then
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Write the results here [default: bench/results/icount.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Results {
    date: String,
    versions: BTreeMap<String, String>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    name: String,
    /// What is counted.
    unit: String,
    instructions: u64,
}

pub(crate) fn run(args: &IcountArgs) -> Result<()> {
    ensure!(process::installed("valgrind"), "valgrind is absent: install valgrind");
    let program = build()?;
    let before = previous(&root().join(machine::RESULTS).join(NAME));
    // The commit of what is measured: the tree can change while it is.
    let versions = machine::versions(&[("valgrind", "--version")]);
    println!("{:20} {:>12} {:>12} {:>8}  unit", "workload", "instructions", "before", "change");
    let mut rows = Vec::new();
    for (name, unit) in workloads(&program)? {
        if args.only.as_ref().is_some_and(|word| !name.contains(word.as_str())) {
            continue;
        }
        let instructions = instructions(&program, &name, &[])?;
        let row = Row { name, unit, instructions };
        println!("{}", line(&row, before.get(&row.name).copied()));
        rows.push(row);
    }
    ensure!(!rows.is_empty(), "no workload has that in its name");
    if args.only.is_some() {
        return Ok(());
    }
    let results = Results { date: machine::today(), versions, rows };
    let file = args.json.clone().unwrap_or_else(|| results::kept(&results.versions, NAME));
    results::write_json(&file, &results)
}

/// Instructions of one iteration of a workload, with nodes that have these tunables (`name=value`).
pub(crate) fn instructions(program: &Path, workload: &str, settings: &[&str]) -> Result<u64> {
    let once = collected(program, workload, ITERATIONS, settings)?;
    let twice = collected(program, workload, 2 * ITERATIONS, settings)?;
    per_iteration(once, twice)
}

/// Builds the workloads. Returns the program, whose name cargo chooses.
pub(crate) fn build() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--package", "xtask", "--bench", "icount"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let finished = process::capture(&mut command, BUILD_MAX)?;
    let output = finished.output("cargo build")?;
    executable(&output).context("cargo built no program")
}

#[derive(Deserialize)]
struct Built {
    target: Option<BuiltTarget>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct BuiltTarget {
    name: String,
}

fn executable(messages: &str) -> Option<PathBuf> {
    let built = messages.lines().filter_map(|line| serde_json::from_str::<Built>(line).ok());
    let mut ours = built.filter(|built| built.target.as_ref().is_some_and(|t| t.name == "icount"));
    ours.find_map(|built| built.executable)
}

/// Name and unit of each workload.
fn workloads(program: &Path) -> Result<Vec<(String, String)>> {
    let list = process::capture(&mut Command::new(program), RUN_MAX)?.output("icount")?;
    let pairs = list.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs.map(|(name, unit)| (name.to_owned(), unit.to_owned())).collect())
}

/// Instructions of a whole run.
fn collected(program: &Path, workload: &str, iterations: u64, settings: &[&str]) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).arg(workload).arg(iterations.to_string()).args(settings);
    let finished = process::capture(&mut command, RUN_MAX)?;
    if !finished.status.success() {
        bail!("{workload}: {}", finished.stderr.lines().last().unwrap_or_default());
    }
    parse(&finished.stderr).with_context(|| format!("{workload}: callgrind counted nothing"))
}

/// Reads `==123== Collected : 4567`.
fn parse(log: &str) -> Option<u64> {
    let line = log.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

fn per_iteration(once: u64, twice: u64) -> Result<u64> {
    let more = twice.checked_sub(once).context("twice the work took fewer instructions")?;
    Ok(more / ITERATIONS)
}

fn previous(file: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let rows = serde_json::from_str::<Results>(&text).map(|results| results.rows);
    rows.unwrap_or_default().into_iter().map(|row| (row.name, row.instructions)).collect()
}

fn line(row: &Row, before: Option<u64>) -> String {
    let Row { name, unit, instructions } = row;
    let (before, change) = match before {
        Some(before) if before > 0 => {
            let change = (*instructions as f64 / before as f64 - 1.0) * 100.0;
            (before.to_string(), format!("{change:+.1} %"))
        }
        _ => ("-".to_owned(), "-".to_owned()),
    };
    format!("{name:20} {instructions:>12} {before:>12} {change:>8}  {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_parsed() {
        let log = "==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n";
        assert_eq!(parse(log), Some(1_234_567));
        assert_eq!(parse("valgrind: no such file"), None);
        assert_eq!(per_iteration(1000, 1000 + 300 * ITERATIONS).expect("more"), 300);
        assert!(per_iteration(10, 9).is_err());
    }

    #[test]
    fn the_program_is_found_among_cargo_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"anyhow\"},\
            \"executable\":null}\n{\"reason\":\"compiler-artifact\",\
            \"target\":{\"name\":\"icount\"},\"executable\":\"/t/icount-1\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/icount-1")));
    }

    #[test]
    fn changes_are_shown() {
        let row = Row { name: "x".into(), unit: "thing".into(), instructions: 110 };
        assert!(line(&row, Some(100)).contains("+10.0 %"));
        assert!(line(&row, None).contains(" - "));
    }
}
