//! `cargo xtask bench library`: the library over the loopback against the model servers in another
//! process (`crates/fs/examples/library`), in turn with `lustrine selftest` with the same size and
//! number in flight; and what the client keeps: time and memory.

mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::ladder::{Goal, reached};
use super::ours::{self, Measured};
use super::results::{self, Conditions};
use super::statistics::Summary;
use crate::process;
use crate::repository::{cargo, target_dir};

/// The library beside selftest.
#[derive(Args)]
pub(crate) struct LibraryArgs {
    /// Two short rounds: to see that everything runs
    #[arg(long)]
    quick: bool,

    /// Rounds; each measures every row once
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// Seconds of each measurement that has no fixed number of files
    #[arg(long, default_value_t = 2)]
    seconds: u32,

    /// Files of the rows of metadata
    #[arg(long, default_value_t = 40_000)]
    files: u32,

    /// Files that are kept, and files that are open at once, while memory is measured
    #[arg(long, default_value_t = 100_000)]
    kept: u32,

    /// Only groups with this in their name: read, write, random-read, names, kept, memory, open
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Write the results here [default: bench/results/library-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A release build from nothing on a small machine.
const BUILD_MAX: Duration = Duration::from_secs(20 * 60);
/// A measurement of the library with all that it prepares.
const RUN_MAX: Duration = Duration::from_secs(300);

/// One measurement of selftest, and one of the library, which may have several results.
struct Group {
    name: &'static str,
    /// The arguments of selftest; none for what has no counterpart there.
    selftest: &'static [&'static str],
    /// The arguments of the library.
    library: &'static [&'static str],
    rows: &'static [Line],
}

/// A result of the library.
struct Line {
    /// Its name in the library's results.
    test: &'static str,
    name: &'static str,
    value: Value,
    goal: Goal,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    MibPerSecond,
    OpsPerSecond,
    /// Microseconds of an operation that asks no server.
    MicrosPerOp,
    /// Bytes of memory.
    BytesEach,
}

impl Value {
    fn unit(self) -> &'static str {
        match self {
            Value::MibPerSecond => "MiB/s",
            Value::OpsPerSecond => "op/s",
            Value::MicrosPerOp => "us",
            Value::BytesEach => "bytes",
        }
    }
}

const fn line(test: &'static str, name: &'static str, value: Value, goal: Goal) -> Line {
    Line { test, name, value, goal }
}

const METADATA: Goal = Goal::AtLeast(0.4);
const KEPT: Goal = Goal::AtMost(1.0);
const FREE: Goal = Goal::None;

/// All of it. `SECONDS`, `FILES` and `KEPT` stand for numbers of the command line.
const GROUPS: [Group; 9] = [
    Group {
        name: "read",
        selftest: &["--test", "read", "--size", "1M", "--concurrency", "8", "--check", "none"],
        library: &["read", "--size", "1048576", "--slots", "8", "--seconds", "SECONDS"],
        rows: &[line("read", "read 1 MiB, 8", Value::MibPerSecond, Goal::AtLeast(0.9))],
    },
    Group {
        name: "write",
        selftest: &["--test", "write", "--size", "1M", "--concurrency", "8", "--check", "none"],
        library: &["write", "--size", "1048576", "--slots", "8", "--seconds", "SECONDS"],
        rows: &[line("write", "write 1 MiB, 8", Value::MibPerSecond, Goal::AtLeast(0.9))],
    },
    Group {
        name: "read-no-checksums",
        selftest: &["--test", "read", "--size", "1M", "--concurrency", "8", "--check", "none"],
        // 1 MiB, 8 in flight.
        library: &["read", "--checksums", "0", "--seconds", "SECONDS"],
        rows: &[line("read", "read 1 MiB, no checksums", Value::MibPerSecond, FREE)],
    },
    Group {
        name: "write-no-checksums",
        selftest: &["--test", "write", "--size", "1M", "--concurrency", "8", "--check", "none"],
        // 1 MiB, 8 in flight.
        library: &["write", "--checksums", "0", "--seconds", "SECONDS"],
        rows: &[line("write", "write 1 MiB, no checksums", Value::MibPerSecond, FREE)],
    },
    Group {
        name: "random-read",
        selftest: &["--test", "read", "--size", "4k", "--concurrency", "64", "--check", "none"],
        library: &["random-read", "--size", "4096", "--slots", "64", "--seconds", "SECONDS"],
        rows: &[line("random-read", "random read 4 KiB, 64", Value::OpsPerSecond, RANDOM)],
    },
    Group {
        name: "names",
        selftest: &["--test", "ping", "--concurrency", "64"],
        library: &["names", "--slots", "64", "--files", "FILES"],
        rows: &[
            line("create", "create and close, 64", Value::OpsPerSecond, METADATA),
            line("mknod", "create by mknod, 64", Value::OpsPerSecond, METADATA),
            line("lookup", "stat, no size, 64", Value::OpsPerSecond, METADATA),
            line("stat", "stat, with size, 64", Value::OpsPerSecond, METADATA),
            line("unlink", "unlink, 64", Value::OpsPerSecond, METADATA),
            line("unlink-empty", "unlink, no objects, 64", Value::OpsPerSecond, METADATA),
        ],
    },
    Group {
        name: "kept",
        selftest: &[],
        library: &["kept", "--files", "1000"],
        rows: &[
            line("kept-getattr", "kept: fstat, no size", Value::MicrosPerOp, KEPT),
            line("kept-lookup", "kept: stat, no size", Value::MicrosPerOp, KEPT),
            line("kept-stat", "kept: fstat, with size", Value::MicrosPerOp, KEPT),
            line("kept-read", "kept: read 4 KiB", Value::MicrosPerOp, KEPT),
            line("kept-lookup-blocking", "kept: stat, a thread", Value::MicrosPerOp, FREE),
        ],
    },
    Group {
        name: "memory",
        selftest: &[],
        library: &["memory", "--slots", "64", "--files", "KEPT"],
        rows: &[
            line("kept-inode", "inode, name, lock", Value::BytesEach, KIB),
            line("kept-object", "its object and lock", Value::BytesEach, FREE),
            line("kept-all", "both together", Value::BytesEach, KIB),
        ],
    },
    Group {
        name: "open",
        selftest: &[],
        library: &["open", "--slots", "64", "--files", "KEPT"],
        rows: &[
            line("open-file", "open file", Value::BytesEach, FREE),
            line("close", "close, 64", Value::OpsPerSecond, FREE),
        ],
    },
];

const RANDOM: Goal = Goal::AtLeast(0.7);
const KIB: Goal = Goal::AtMost(1024.0);

/// A result of the library as it prints it.
#[derive(Debug, Deserialize)]
struct Found {
    test: String,
    us_per_op: Option<f64>,
    bytes_each: Option<f64>,
    mib_per_s: Option<f64>,
    ops_per_s: Option<f64>,
    ops: Option<u64>,
    #[serde(default)]
    cpu_s: Cpu,
}

#[derive(Debug, Default, Deserialize)]
struct Cpu {
    client: f64,
    server: f64,
}

#[derive(Deserialize)]
struct Output {
    results: Vec<Found>,
}

impl Found {
    fn value(&self, value: Value) -> Option<f64> {
        match value {
            Value::MibPerSecond => self.mib_per_s,
            Value::OpsPerSecond => self.ops_per_s,
            Value::MicrosPerOp => self.us_per_op,
            Value::BytesEach => self.bytes_each,
        }
    }

    /// CPU microseconds of an operation, of the client and of the servers.
    fn cpu(&self) -> Option<(f64, f64)> {
        let ops = self.ops.filter(|ops| *ops > 0)? as f64;
        let Cpu { client, server } = self.cpu_s;
        (client > 0.0).then_some((client * 1e6 / ops, server * 1e6 / ops))
    }
}

/// What became of a row.
#[derive(Debug, Serialize)]
struct Row {
    group: &'static str,
    name: &'static str,
    unit: &'static str,
    goal: Goal,
    ours: Option<Summary>,
    selftest: Option<Summary>,
    /// Ours by selftest's, round by round.
    ratio: Option<Summary>,
    /// CPU time per operation in microseconds, median of the rounds.
    cpu_us_client: Option<f64>,
    cpu_us_servers: Option<f64>,
    /// Whether the goal is reached, by the median; `None` without one.
    reached: Option<bool>,
    /// Why there are no numbers.
    absent: Option<String>,
}

#[derive(Debug, Serialize)]
struct Library {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    seconds: u32,
    files: u32,
    kept: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &LibraryArgs) -> Result<()> {
    let conditions = Conditions::here(&[]);
    let (lustrine, library) = build()?;
    let programs = Programs { lustrine, library };
    let (total, seconds) = if args.quick { (2, 1) } else { (args.rounds, args.seconds) };
    let is_chosen =
        |group: &&Group| args.only.as_deref().is_none_or(|word| group.name.contains(word));
    let chosen: Vec<&Group> = GROUPS.iter().filter(is_chosen).collect();
    ensure!(!chosen.is_empty(), "no group has this in its name");
    let mut found: Vec<Rounds> = chosen.iter().map(|_| Rounds::default()).collect();
    for round in 0..total {
        for (group, rounds) in chosen.iter().zip(&mut found) {
            if rounds.error.is_none() {
                eprintln!("round {} of {}: {}", round + 1, total, group.name);
                let outcome = one_round(&programs, group, (round, seconds), args, rounds);
                rounds.error = outcome.err().map(|error| format!("{error:#}"));
            }
        }
    }
    let rows = chosen.iter().zip(&found).flat_map(|(group, rounds)| rows(group, rounds)).collect();
    let (files, kept) = (args.files, args.kept);
    let library = Library { conditions, rounds: total, seconds, files, kept, rows };
    let named = library.conditions.kept(&format!("library-{}.json", library.conditions.date));
    let named = (!args.quick).then_some(named);
    let file = args.json.clone().or(named);
    results::write(file.as_deref(), &table::render(&library), &library)
}

/// What is run.
struct Programs {
    lustrine: PathBuf,
    library: PathBuf,
}

fn build() -> Result<(PathBuf, PathBuf)> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--package", "lustrine-cli"]);
    command.args(["--package", "lustrine-fs", "--bins", "--example", "library"]);
    let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
    ensure!(status.success(), "lustrine does not build");
    let release = target_dir().join("release");
    Ok((release.join("lustrine"), release.join("examples").join("library")))
}

/// The rounds of a group so far.
#[derive(Default)]
struct Rounds {
    selftest: Vec<Measured>,
    library: Vec<Vec<Found>>,
    error: Option<String>,
}

/// Measures a group once. Which of the two is first alternates.
fn one_round(
    programs: &Programs,
    group: &Group,
    (round, seconds): (u32, u32),
    args: &LibraryArgs,
    rounds: &mut Rounds,
) -> Result<()> {
    let theirs = |rounds: &mut Rounds| -> Result<()> {
        if !group.selftest.is_empty() {
            let (program, arguments) = (&programs.lustrine, group.selftest);
            rounds.selftest.push(ours::selftest(program, arguments, seconds, &[], "apart")?);
        }
        Ok(())
    };
    if round.is_multiple_of(2) {
        theirs(rounds)?;
    }
    rounds.library.push(measure(&programs.library, group, seconds, args)?);
    if !round.is_multiple_of(2) {
        theirs(rounds)?;
    }
    Ok(())
}

fn measure(library: &Path, group: &Group, seconds: u32, args: &LibraryArgs) -> Result<Vec<Found>> {
    let mut command = Command::new(library);
    for word in group.library {
        match *word {
            "SECONDS" => command.arg(seconds.to_string()),
            "FILES" => command.arg(args.files.to_string()),
            "KEPT" => command.arg(args.kept.to_string()),
            word => command.arg(word),
        };
    }
    let text = process::capture(&mut command, RUN_MAX)?.output("the library")?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Found>> {
    let output: Output =
        serde_json::from_str(text).with_context(|| format!("not a result: {text}"))?;
    let mut found = output.results;
    let each = |test: &str| found.iter().find(|found| found.test == test)?.bytes_each;
    if let (Some(inode), Some(object)) = (each("kept-inode"), each("kept-object")) {
        found.push(Found {
            test: "kept-all".to_owned(),
            us_per_op: None,
            bytes_each: Some(inode + object),
            mib_per_s: None,
            ops_per_s: None,
            ops: None,
            cpu_s: Cpu::default(),
        });
    }
    Ok(found)
}

fn rows(group: &Group, rounds: &Rounds) -> Vec<Row> {
    group.rows.iter().map(|line| row(group, line, rounds)).collect()
}

fn row(group: &Group, line: &Line, rounds: &Rounds) -> Row {
    let of_line = |found: &Vec<Found>| found.iter().position(|found| found.test == line.test);
    let found: Vec<&Found> =
        rounds.library.iter().filter_map(|round| round.get(of_line(round)?)).collect();
    let values: Vec<f64> = found.iter().filter_map(|found| found.value(line.value)).collect();
    let theirs: Vec<f64> = rounds
        .selftest
        .iter()
        .map(|measured| match line.value {
            Value::MibPerSecond => measured.mib_per_s(),
            _ => measured.ops_per_s(),
        })
        .collect();
    let (ours, selftest) = (Summary::of(&values), Summary::of(&theirs));
    let ratio = match (&ours, &selftest) {
        (Some(ours), Some(theirs)) => Summary::ratio(ours, theirs),
        _ => None,
    };
    let compared = if group.selftest.is_empty() { &ours } else { &ratio };
    let cpu: Vec<(f64, f64)> = found.iter().filter_map(|found| found.cpu()).collect();
    let median = |part: fn(&(f64, f64)) -> f64| {
        Summary::of(&cpu.iter().map(part).collect::<Vec<_>>()).map(|summary| summary.median)
    };
    Row {
        group: group.name,
        name: line.name,
        unit: line.value.unit(),
        goal: line.goal,
        reached: compared.as_ref().and_then(|found| reached(line.goal, found.median)),
        cpu_us_client: median(|cpu| cpu.0),
        cpu_us_servers: median(|cpu| cpu.1),
        ours,
        selftest,
        ratio,
        absent: rounds.error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"{"results": [
        {"test": "kept-inode", "files": 10, "mib": 1.0, "bytes_each": 700.0},
        {"test": "kept-object", "files": 10, "mib": 1.0, "bytes_each": 300.0},
        {"test": "read", "size": 4096, "concurrency": 8, "seconds": 1.0, "ops": 100,
         "ops_per_s": 100.0, "mib_per_s": 400.0, "latency_us": {"p50": 1.0, "p99": 2.0},
         "errors": 0, "cpu_s": {"client": 0.01, "server": 0.02}}]}"#;

    #[test]
    fn results_are_read_and_memory_is_summed() {
        let found = parse(OUTPUT).expect("results");
        assert_eq!(found[3].value(Value::BytesEach), Some(1000.0));
        assert_eq!(found[2].value(Value::MibPerSecond), Some(400.0));
        assert_eq!(found[2].cpu(), Some((100.0, 200.0)));
        let rounds = Rounds { library: vec![found], ..Rounds::default() };
        let memory = GROUPS.iter().find(|group| group.name == "memory").expect("a group");
        assert_eq!(rows(memory, &rounds)[2].reached, Some(true));
        let read = &GROUPS[0];
        // Without selftest's number there is no ratio.
        assert_eq!(rows(read, &rounds)[0].reached, None);
    }

    #[test]
    fn numbers_of_the_command_line_are_filled_in() {
        let words = GROUPS.iter().flat_map(|group| group.library);
        let upper = |word: &&&str| word.chars().all(|c| c.is_ascii_uppercase());
        let stand_ins: Vec<&&str> = words.filter(upper).collect();
        assert!(stand_ins.iter().all(|word| ["SECONDS", "FILES", "KEPT"].contains(word)));
    }
}
