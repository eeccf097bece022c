//! `cargo xtask bench neighbours`: what is left beside programs that keep CPUs busy.
//!
//! Compute nodes are busy. Lustrine, which polls for a while before it sleeps, and the programs it
//! is measured against run wherever the system puts them, with so many others that compute without
//! end. At zero neighbours `lustrine selftest` separates its nodes by itself.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::ladder::{Goal, reached, ucx_version};
use super::ours::{self, Checks, Load, Programs};
use super::peers::{Direction, Peer, Percentile, Placement, Waiting};
use super::results::{self, Conditions};
use super::statistics::Summary;
use crate::process::ChildGuard;

/// Busy neighbours.
#[derive(Args)]
pub(crate) struct NeighboursArgs {
    /// Rounds of each measurement
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 2)]
    seconds: u32,

    /// Numbers of busy programs
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2])]
    busy: Vec<u32>,

    /// Write the results here [default: bench/results/neighbours-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One load beside a number of busy programs.
#[derive(Debug, Serialize)]
struct Row {
    busy: u32,
    load: &'static str,
    unit: &'static str,
    ours: Summary,
    against: String,
    theirs: Option<Summary>,
    /// Ours by theirs, round by round.
    ratio: Option<Summary>,
    goal: Goal,
    /// Whether the median ratio reaches the goal; `None` without the other program or a goal.
    reached: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Neighbours {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    seconds: u32,
    rows: Vec<Row>,
}

/// What a load is measured against.
#[derive(Clone, Copy)]
enum Against {
    /// Another program.
    Peer(Peer),
    /// One stream of plain TCP that sleeps, between as many buffers of 1 MiB as the load has:
    /// iperf3 moves the same 128 KiB again and again, which a CPU's cache holds.
    PlainTcp(Direction),
}

/// Operations in flight of the loads with data, and the buffers of plain TCP beside them.
const IN_FLIGHT: u32 = 8;

impl Against {
    fn is_installed(self) -> bool {
        match self {
            Against::Peer(peer) => peer.is_installed(),
            Against::PlainTcp(_) => true,
        }
    }

    fn measure(self, programs: &Programs, seconds: u32) -> Result<f64> {
        match self {
            Against::Peer(peer) => peer.measure(seconds),
            Against::PlainTcp(direction) => {
                let how = (Waiting::Sleeping, Placement::Free);
                let found = ours::measure_tcp(programs, direction, IN_FLIGHT, how, seconds)?;
                Ok(found.mib_per_s())
            }
        }
    }
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Against::Peer(peer) => peer.fmt(f),
            Against::PlainTcp(_) => write!(f, "plain TCP, {IN_FLIGHT} buffers, sleeping, free"),
        }
    }
}

/// A load, and what it is measured against in each round.
struct Comparison {
    name: &'static str,
    unit: &'static str,
    load: Load,
    against: Vec<(Against, Goal)>,
}

fn comparisons() -> [Comparison; 4] {
    let placement = Placement::Free;
    let bulk = |name, direction| {
        let iperf3 = Against::Peer(Peer::Iperf3 { direction, placement });
        let against =
            vec![(iperf3, Goal::AtLeast(1.0)), (Against::PlainTcp(direction), Goal::None)];
        let load = Load::Bulk { direction, checks: Checks::Off };
        Comparison { name, unit: "MiB/s", load, against }
    };
    let tail = Peer::Sockperf {
        bytes: 256,
        placement,
        waiting: Waiting::Sleeping,
        percentile: Percentile::P99,
    };
    let rate = Peer::UcxTagBw { bytes: 64, placement };
    [
        bulk("read 1 MiB, 8 in flight", Direction::Read),
        bulk("write 1 MiB, 8 in flight", Direction::Write),
        Comparison {
            name: "ping rate, 64 in flight",
            unit: "RPC/s",
            load: Load::PingRate,
            against: vec![(Against::Peer(rate), Goal::AtLeast(1.0))],
        },
        Comparison {
            name: "ping p99, 1 in flight",
            unit: "us",
            load: Load::PingTail,
            against: vec![(Against::Peer(tail), Goal::AtMost(2.0))],
        },
    ]
}

pub(crate) fn run(args: &NeighboursArgs) -> Result<()> {
    let programs = Programs::build()?;
    let mut conditions = Conditions::here(&[("iperf3", "--version"), ("sockperf", "--version")]);
    let ucx = ucx_version().map(|version| ("ucx_perftest".to_owned(), version));
    conditions.versions.extend(ucx);
    let mut rows = Vec::new();
    for busy in args.busy.iter().copied() {
        let _neighbours = (0..busy).map(|_| neighbour()).collect::<Result<Vec<ChildGuard>>>()?;
        for comparison in comparisons() {
            eprintln!("{busy} busy: {}", comparison.name);
            rows.extend(measure(&programs, args, busy, &comparison)?);
        }
    }
    let (rounds, seconds) = (args.rounds, args.seconds);
    let found = Neighbours { conditions, rounds, seconds, rows };
    let table = render(&found);
    let named = found.conditions.kept(&format!("neighbours-{}.json", found.conditions.date));
    let file = args.json.clone().unwrap_or(named);
    results::write(Some(&file), &table, &found)
}

/// The rows of a load beside so many busy programs. Each round measures what it is compared with,
/// then ours.
fn measure(
    programs: &Programs,
    args: &NeighboursArgs,
    busy: u32,
    comparison: &Comparison,
) -> Result<Vec<Row>> {
    let &Comparison { name, unit, load, ref against } = comparison;
    let mut ours = Vec::new();
    let mut theirs = vec![Vec::new(); against.len()];
    for _ in 0..args.rounds {
        for ((against, _), theirs) in against.iter().zip(&mut theirs) {
            if against.is_installed() {
                theirs.push(against.measure(programs, args.seconds)?);
            }
        }
        let found = ours::measure_with(programs, load, args.seconds, &[], "auto")?;
        ours.push(found.value(load));
    }
    let ours = Summary::of(&ours).context("no rounds")?;
    let rows = against.iter().zip(theirs).map(|((against, goal), theirs)| {
        let (goal, theirs) = (*goal, Summary::of(&theirs));
        let ratio = theirs.as_ref().and_then(|theirs| Summary::ratio(&ours, theirs));
        let reached = ratio.as_ref().and_then(|ratio| reached(goal, ratio.median));
        let (against, ours) = (against.to_string(), ours.clone());
        Row { busy, load: name, unit, ours, against, theirs, ratio, goal, reached }
    });
    Ok(rows.collect())
}

/// Computes until the shell is killed, or the process of its first argument is gone: a benchmark
/// that is killed cannot end its children.
const COMPUTE: &str =
    "while kill -0 $1; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done";

/// A program that computes until it is killed.
fn neighbour() -> Result<ChildGuard> {
    let benchmark = std::process::id().to_string();
    ChildGuard::silent(Command::new("sh").args(["-c", COMPUTE, "sh", &benchmark]))
}

fn render(found: &Neighbours) -> String {
    let run = format!("{} rounds of {} s", found.rounds, found.seconds);
    let mut out = found.conditions.heading(&run);
    let _ = writeln!(
        out,
        "\n{:>4} {:24} {:>6} {:>30}  {:34} {:>30} {:>18} {:>6}",
        "busy", "load", "unit", "ours (min..max)", "against", "theirs", "ratio", "goal"
    );
    let spread = |summary: &Summary, digits: usize| {
        let Summary { median, min, max, .. } = summary;
        format!("{median:.digits$} ({min:.digits$}..{max:.digits$})")
    };
    for row in &found.rows {
        let Row { busy, load, unit, ours, against, .. } = row;
        let digits = usize::from(ours.median < 1000.0);
        let or_dash = |summary: &Option<Summary>, digits| {
            summary.as_ref().map_or("-".to_owned(), |summary| spread(summary, digits))
        };
        let (ours, theirs) = (spread(ours, digits), or_dash(&row.theirs, digits));
        let ratio = or_dash(&row.ratio, 2);
        let goal = match row.goal {
            Goal::AtLeast(least) => format!(">= {least}"),
            Goal::AtMost(most) => format!("<= {most}"),
            Goal::None => "-".to_owned(),
        };
        let verdict = match row.reached {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None if row.theirs.is_none() => "not installed",
            None => "-",
        };
        let _ = writeln!(
            out,
            "{busy:>4} {load:24} {unit:>6} {ours:>30}  {against:34} {theirs:>30} {ratio:>18} \
             {goal:>6} {verdict}"
        );
    }
    out
}

#[test]
fn a_busy_program_ends_with_the_benchmark() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    // The shell stands for the benchmark. Its child has the same standard output.
    let script = "sh -c \"$1\" sh $$ 2>/dev/null & echo started; wait";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", COMPUTE]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut shell = ChildGuard::piped(&mut shell).expect("a shell");
    let mut output = BufReader::new(shell.stdout().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "started\n");
    drop(shell);
    // The pipe ends when the last process that has it has ended.
    let begin = Instant::now();
    let reader = std::thread::spawn(move || output.read_line(&mut String::new()));
    while !reader.is_finished() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(reader.is_finished(), "the busy program still runs");
    assert_eq!(reader.join().expect("it read").expect("the end of the pipe"), 0);
}

#[test]
fn the_table_has_a_row_for_each() {
    let one = |value: f64| Summary::of(&[value]).expect("a value");
    let row = |theirs: Option<Summary>, goal: Goal| Row {
        busy: 1,
        load: "ping p99, 1 in flight",
        unit: "us",
        ours: one(30.0),
        against: "sockperf".to_owned(),
        ratio: theirs.as_ref().and_then(|theirs| Summary::ratio(&one(30.0), theirs)),
        reached: theirs.as_ref().and_then(|_| reached(goal, 3.0)),
        theirs,
        goal,
    };
    let shown = row(Some(one(10.0)), Goal::None);
    let found = Neighbours {
        conditions: Conditions::without_versions(),
        rounds: 1,
        seconds: 1,
        rows: vec![row(Some(one(10.0)), Goal::AtMost(2.0)), row(None, Goal::AtMost(2.0)), shown],
    };
    let table = render(&found);
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(table.contains("3.00 (3.00..3.00)") && table.contains("MISSED"), "{table}");
    assert_eq!(table.matches("not installed").count(), 1, "{table}");
    assert!(table.trim_end().ends_with(" - -"), "{table}");
}
