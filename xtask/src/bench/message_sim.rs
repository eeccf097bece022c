//! `cargo xtask bench message-sim`: the speed of the simulator's message fidelity by number of
//! nodes.
//!
//! One program runs each measurement in a separate process, so that each begins without memory
//! (`crates/sim/examples/message_sim`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::machine::{self, Machine};
use super::results;
use super::statistics::Summary;
use crate::process;
use crate::repository::{cargo, target_dir};

/// A release build from nothing, on a small machine.
const BUILD_MAX: Duration = Duration::from_secs(20 * 60);

/// The limit of a run.
const RUN_MAX: Duration = Duration::from_secs(600);

/// Nodes: clients and servers.
const SIZES: [(u32, u32); 5] = [(90, 10), (900, 100), (4900, 100), (9800, 200), (19_800, 200)];

/// The sizes of a short run.
const QUICK_SIZES: [(u32, u32); 2] = [(90, 10), (9800, 200)];

const TESTS: [&str; 2] = ["ping", "read"];

/// RPCs that each client has in flight.
const CONCURRENCY: u32 = 8;

/// The goal of the message fidelity for ten thousand nodes (docs/simulator.md).
const GOAL: &str = "goal: 500,000 messages/s and at most 2 GB with 10,000 nodes";

/// The simulator's message level by number of nodes.
#[derive(Args)]
pub(crate) struct MessageSimArgs {
    /// Rounds; each measures every size and test once
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Messages of each measurement, beside those of its beginning
    #[arg(long, default_value_t = 3_000_000)]
    messages: u64,

    /// Two sizes, one round, fewer messages; nothing is written unless --json names a file
    #[arg(long, conflicts_with_all = ["rounds", "messages"])]
    quick: bool,

    /// Write the results here [default: bench/results/message-sim-DATE-MACHINE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The result of one run.
#[derive(Debug, Deserialize)]
struct Run {
    messages: u64,
    took_ns: u64,
    /// CPU time in user mode.
    cpu_ns: u64,
    memory_bytes: u64,
    virtual_ns: u64,
    /// Equal for equal runs.
    trace: String,
}

/// One test of one size.
#[derive(Debug, Serialize)]
struct Row {
    test: &'static str,
    clients: u32,
    servers: u32,
    messages_per_second: Summary,
    /// CPU time of a message, which other programs on the machine disturb less.
    cpu_ns_per_message: Summary,
    memory_mib: u64,
    virtual_ms: f64,
    trace: String,
}

#[derive(Debug, Serialize)]
struct MessageSim {
    date: String,
    machine: Machine,
    versions: BTreeMap<String, String>,
    rounds: u32,
    messages: u64,
    concurrency: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &MessageSimArgs) -> Result<()> {
    let program = build()?;
    let machine = Machine::here();
    let (rounds, messages) = if args.quick { (1, 500_000) } else { (args.rounds, args.messages) };
    let sizes: &[_] = if args.quick { &QUICK_SIZES } else { &SIZES };
    let cases: Vec<_> =
        TESTS.iter().flat_map(|test| sizes.iter().map(move |size| (*test, *size))).collect();
    let mut found: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for ((test, (clients, servers)), runs) in cases.iter().zip(&mut found) {
            eprintln!("round {round} of {rounds}: {clients} clients x {servers} servers, {test}");
            runs.push(measure(&program, test, (*clients, *servers), messages)?);
        }
    }
    let rows = cases.iter().zip(&found).map(|((test, size), runs)| row(test, *size, runs));
    let crowd = MessageSim {
        date: machine::today(),
        machine,
        versions: machine::versions(&[]),
        rounds,
        messages,
        concurrency: CONCURRENCY,
        rows: rows.collect::<Result<_>>()?,
    };
    let table = render(&crowd);
    let name = format!("message-sim-{}-{}.json", crowd.date, crowd.machine.short_name());
    let named = (!args.quick).then(|| results::kept(&crowd.versions, &name));
    let file = args.json.clone().or(named);
    results::write(file.as_deref(), &table, &crowd)
}

fn build() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--package", "lustrine-sim"]);
    command.args(["--example", "message_sim"]);
    let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
    ensure!(status.success(), "the example does not build");
    Ok(target_dir().join("release/examples/message_sim"))
}

fn measure(program: &Path, test: &str, size: (u32, u32), messages: u64) -> Result<Run> {
    let (clients, servers) = size;
    let mut command = Command::new(program);
    command.args(["--json", &clients.to_string(), &servers.to_string(), test]);
    command.args([CONCURRENCY.to_string(), messages.to_string()]);
    let text = process::capture(&mut command, RUN_MAX)?.output("the message simulation")?;
    serde_json::from_str(&text).with_context(|| format!("not the result of a run: {text}"))
}

fn row(test: &'static str, (clients, servers): (u32, u32), runs: &[Run]) -> Result<Row> {
    let first = runs.first().context("no rounds")?;
    ensure!(
        runs.iter().all(|run| run.trace == first.trace),
        "{clients} clients x {servers} servers, {test}: rounds differ, which they never may"
    );
    let summary = |value: &dyn Fn(&Run) -> f64| {
        Summary::of(&runs.iter().map(value).collect::<Vec<_>>()).context("no rounds")
    };
    Ok(Row {
        test,
        clients,
        servers,
        messages_per_second: summary(&|run| run.messages as f64 / run.took_ns as f64 * 1e9)?,
        cpu_ns_per_message: summary(&|run| run.cpu_ns as f64 / run.messages as f64)?,
        memory_mib: runs.iter().map(|run| run.memory_bytes >> 20).max().unwrap_or(0),
        virtual_ms: first.virtual_ns as f64 / 1e6,
        trace: first.trace.clone(),
    })
}

fn render(crowd: &MessageSim) -> String {
    let run = format!(
        "{} rounds of {} messages, {} RPCs in flight per client",
        crowd.rounds, crowd.messages, crowd.concurrency
    );
    let mut out = crowd.machine.heading(&crowd.date, &run, &crowd.versions);
    let _ = writeln!(out, "  {GOAL}");
    let _ = writeln!(
        out,
        "\n{:4} {:>7} {:>7} {:>28} {:>24} {:>6} {:>10}  trace",
        "test",
        "clients",
        "servers",
        "messages/s (min..max)",
        "ns CPU per message",
        "MiB",
        "virtual ms"
    );
    for row in &crowd.rows {
        let spread = |Summary { median, min, max, .. }: &Summary| {
            format!("{median:.0} ({min:.0}..{max:.0})")
        };
        let _ = writeln!(
            out,
            "{:4} {:>7} {:>7} {:>28} {:>24} {:>6} {:>10.1}  {}",
            row.test,
            row.clients,
            row.servers,
            spread(&row.messages_per_second),
            spread(&row.cpu_ns_per_message),
            row.memory_mib,
            row.virtual_ms,
            row.trace
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(took_ns: u64, trace: &str) -> Run {
        let trace = trace.to_owned();
        let (messages, memory_bytes) = (1000, 3 << 20);
        Run { messages, took_ns, cpu_ns: took_ns / 2, memory_bytes, virtual_ns: 1_500_000, trace }
    }

    #[test]
    fn a_row_summarises_rounds_and_refuses_differing_ones() {
        let same = [run(4_000_000, "a"), run(1_000_000, "a"), run(2_000_000, "a")];
        let summed = row("ping", (90, 10), &same).expect("equal rounds");
        assert_eq!(summed.messages_per_second.median, 500_000.0);
        assert_eq!(summed.cpu_ns_per_message.max, 2000.0);
        assert_eq!((summed.memory_mib, summed.virtual_ms), (3, 1.5));
        assert!(row("ping", (90, 10), &[run(1, "a"), run(1, "b")]).is_err());
    }
}
