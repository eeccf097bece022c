//! `cargo xtask bench ladder`: each rung of ours in turn with the program it is held against.

mod table;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::machine;
use super::ours::{self, Checks, Layer, Load, Measured, Programs};
use super::peers::{Direction, Peer, Percentile, Placement, Waiting};
use super::results::{self, Conditions};
use super::statistics::Summary;

/// The speed ladder.
#[derive(Args)]
pub(crate) struct LadderArgs {
    /// Two short rounds: to see that everything runs
    #[arg(long)]
    quick: bool,

    /// Only rungs with this in their name
    #[arg(long, value_name = "WORD")]
    only: Option<String>,

    /// Write the results here [default: bench/results/ladder-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What a rung of ours is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Peer(Peer),
    /// Plain TCP between two processes of ours that wait as our nodes do, measured by the same
    /// `lustrine selftest`.
    RawTcp,
    /// The same load of ours without checks, of the same round.
    Unchecked(Direction),
    /// The same load on a lower layer of ours, of the same round.
    Below(Layer),
}

/// Which ratio, ours by theirs, is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Reported, with nothing promised.
    None,
}

struct Rung {
    name: &'static str,
    unit: &'static str,
    layer: Layer,
    load: Load,
    /// How our nodes wait.
    waiting: Waiting,
    against: Against,
    goal: Goal,
}

const fn bulk(direction: Direction, checks: Checks) -> Load {
    Load::Bulk { direction, checks }
}

/// A rung of all there is, as a user runs it.
const fn rung(
    name: &'static str,
    unit: &'static str,
    load: Load,
    against: Against,
    goal: Goal,
) -> Rung {
    Rung { name, unit, layer: Layer::Selftest, load, waiting: Waiting::Polling, against, goal }
}

/// The same with nodes that sleep while they wait.
const fn sleeping(rung: Rung) -> Rung {
    Rung { waiting: Waiting::Sleeping, ..rung }
}

/// From the driver to the selftest, each layer against the one below; the lowest against a peer.
fn layers(
    names: [&'static str; 3],
    unit: &'static str,
    load: Load,
    peer: Peer,
) -> impl Iterator<Item = Rung> {
    let steps = [
        (Layer::Socklnd, Against::Peer(peer)),
        (Layer::Lnet, Against::Below(Layer::Socklnd)),
        (Layer::Selftest, Against::Below(Layer::Lnet)),
    ];
    names.into_iter().zip(steps).map(move |(name, (layer, against))| Rung {
        name,
        unit,
        layer,
        load,
        waiting: Waiting::Polling,
        against,
        goal: Goal::None,
    })
}

/// A small RPC moves 256 bytes each way: frame header 24, LNet header 72, message 160.
const RPC_BYTES: u32 = 24 + 72 + 160;

/// The rungs, with the goals of DESIGN's table of speed.
fn rungs() -> Vec<Rung> {
    use Direction::{Read, Write};
    let ucx = Peer::UcxTagBw { bytes: 64, placement: Placement::Apart };
    let sockperf = |placement, waiting| Peer::Sockperf {
        bytes: RPC_BYTES,
        placement,
        waiting,
        percentile: Percentile::Median,
    };
    let tail = |waiting| Peer::Sockperf {
        bytes: RPC_BYTES,
        placement: Placement::Apart,
        waiting,
        percentile: Percentile::P99,
    };
    let iperf3 = |direction| Peer::Iperf3 { direction, placement: Placement::Apart };
    // Two nodes are two machines: each end has a CPU of its own.
    let apart = |waiting| sockperf(Placement::Apart, waiting);
    let (off, words, sums) = (Checks::Off, Checks::Words, Checks::Checksums);
    let (free, most, close) = (Goal::None, Goal::AtLeast(0.95), Goal::AtMost(1.15));
    let peer = Against::Peer;
    let (rate, latency) = (Load::PingRate, Load::PingLatency);
    let mut rungs = vec![
        rung("ping rate, 64 in flight", "RPC/s", rate, peer(ucx), Goal::AtLeast(3.0)),
        rung("ping latency", "us", latency, peer(apart(Waiting::Polling)), close),
        sleeping(rung("ping latency", "us", latency, peer(apart(Waiting::Sleeping)), close)),
        rung("ping p99", "us", Load::PingTail, peer(tail(Waiting::Polling)), Goal::AtMost(2.0)),
        sleeping(rung(
            "ping p99",
            "us",
            Load::PingTail,
            peer(tail(Waiting::Sleeping)),
            Goal::AtMost(2.0),
        )),
        sleeping(rung(
            "ping latency, free",
            "us",
            latency,
            peer(sockperf(Placement::Free, Waiting::Sleeping)),
            close,
        )),
        // iperf3 can only sleep: the goals belong to the rows whose two programs wait alike.
        rung("read 1 MiB", "MiB/s", bulk(Read, off), peer(iperf3(Read)), free),
        rung("write 1 MiB", "MiB/s", bulk(Write, off), peer(iperf3(Write)), free),
        sleeping(rung("read 1 MiB", "MiB/s", bulk(Read, off), peer(iperf3(Read)), most)),
        sleeping(rung("write 1 MiB", "MiB/s", bulk(Write, off), peer(iperf3(Write)), most)),
        rung("read 1 MiB, raw", "MiB/s", bulk(Read, off), Against::RawTcp, most),
        rung("write 1 MiB, raw", "MiB/s", bulk(Write, off), Against::RawTcp, most),
        sleeping(rung("read 1 MiB, raw", "MiB/s", bulk(Read, off), Against::RawTcp, free)),
        sleeping(rung("write 1 MiB, raw", "MiB/s", bulk(Write, off), Against::RawTcp, free)),
        rung("read, full check", "MiB/s", bulk(Read, words), Against::Unchecked(Read), free),
        rung("write, full check", "MiB/s", bulk(Write, words), Against::Unchecked(Write), free),
        rung("read, V2 checksums", "MiB/s", bulk(Read, sums), Against::Unchecked(Read), most),
        rung("write, V2 checksums", "MiB/s", bulk(Write, sums), Against::Unchecked(Write), most),
    ];
    let names = ["rate: socklnd", "rate: lnet", "rate: selftest"];
    rungs.extend(layers(names, "msg/s", rate, ucx));
    let names = ["latency: socklnd", "latency: lnet", "latency: selftest"];
    rungs.extend(layers(names, "us", latency, apart(Waiting::Polling)));
    let names = ["read: socklnd", "read: lnet", "read: selftest"];
    rungs.extend(layers(names, "MiB/s", bulk(Read, off), iperf3(Read)));
    let names = ["write: socklnd", "write: lnet", "write: selftest"];
    rungs.extend(layers(names, "MiB/s", bulk(Write, off), iperf3(Write)));
    rungs
}

/// What became of a rung.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    /// How our nodes waited.
    waiting: Waiting,
    against: String,
    goal: Goal,
    ours: Option<Summary>,
    theirs: Option<Summary>,
    /// Ours by theirs, round by round.
    ratio: Option<Summary>,
    /// CPU time of both ends of ours per operation, in microseconds.
    cpu_us_per_op: Option<f64>,
    /// Whether the median ratio reaches the goal; `None` without a goal or a ratio.
    reached: Option<bool>,
    /// Why there are no numbers.
    absent: Option<String>,
}

#[derive(Debug, Serialize)]
struct Ladder {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    seconds: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &LadderArgs) -> Result<()> {
    let (rounds, seconds) = if args.quick { (2, 1) } else { (5, 3) };
    let programs = Programs::build()?;
    let mut conditions = Conditions::here(&[("iperf3", "--version"), ("sockperf", "--version")]);
    let ucx = ucx_version().map(|version| ("ucx_perftest".to_owned(), version));
    conditions.versions.extend(ucx);
    let chosen: Vec<Rung> = rungs()
        .into_iter()
        .filter(|rung| args.only.as_ref().is_none_or(|word| rung.name.contains(word.as_str())))
        .collect();
    let mut rows = Vec::new();
    for (number, rung) in chosen.iter().enumerate() {
        eprintln!("[{}/{}] {} against {}", number + 1, chosen.len(), rung.name, against(rung));
        rows.push(climb(&programs, rung, rounds, seconds));
    }
    let ladder = Ladder { conditions, rounds, seconds, rows };
    let table = table::render(&ladder);
    let named = ladder.conditions.kept(&format!("ladder-{}.json", ladder.conditions.date));
    let file = args.json.clone().unwrap_or(named);
    results::write(Some(&file), &table, &ladder)
}

/// ucx_perftest does not print its version; the library's own program does, if there is one.
pub(super) fn ucx_version() -> Option<String> {
    machine::versions(&[("ucx_info", "-v")]).remove("ucx_info")
}

fn against(rung: &Rung) -> String {
    match rung.against {
        Against::Peer(peer) => peer.to_string(),
        Against::RawTcp => format!("raw TCP, {}", rung.waiting),
        Against::Unchecked(_) => "ours, unchecked".to_owned(),
        Against::Below(layer) => format!("ours, {} alone", layer.name()),
    }
}

/// Measures one rung; what goes wrong becomes part of the row.
fn climb(programs: &Programs, rung: &Rung, rounds: u32, seconds: u32) -> Row {
    let mut row = Row {
        name: rung.name.to_owned(),
        unit: rung.unit,
        waiting: rung.waiting,
        against: against(rung),
        goal: rung.goal,
        ours: None,
        theirs: None,
        ratio: None,
        cpu_us_per_op: None,
        reached: None,
        absent: None,
    };
    let (mut ours, mut theirs, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        match one_round(programs, rung, seconds) {
            Ok(round) => {
                cpu.push(round.ours.cpu_us_per_op());
                ours.push(round.ours.value(rung.load));
                theirs.extend(round.theirs);
            }
            Err(error) => {
                row.absent = Some(format!("{error:#}"));
                break;
            }
        }
    }
    if let (Against::Peer(peer), true, None) = (rung.against, theirs.is_empty(), &row.absent) {
        row.absent = Some(format!("{} is absent: install {}", peer.program(), peer.package()));
    }
    row.ours = Summary::of(&ours);
    row.theirs = Summary::of(&theirs);
    row.cpu_us_per_op = Summary::of(&cpu).map(|summary| summary.median);
    if let (Some(ours), Some(theirs)) = (&row.ours, &row.theirs) {
        row.ratio = Summary::ratio(ours, theirs);
    }
    row.reached = row.ratio.as_ref().and_then(|ratio| reached(rung.goal, ratio.median));
    row
}

struct Round {
    theirs: Option<f64>,
    ours: Measured,
}

/// First theirs, then ours, right after each other.
fn one_round(programs: &Programs, rung: &Rung, seconds: u32) -> Result<Round> {
    let mut theirs = match rung.against {
        Against::Peer(peer) if peer.is_installed() => Some(peer.measure(seconds)?),
        Against::Peer(_) | Against::RawTcp => None,
        Against::Unchecked(direction) => {
            let load = bulk(direction, Checks::Off);
            let below = ours::measure(programs, rung.layer, load, rung.waiting, seconds)?;
            Some(below.value(load))
        }
        Against::Below(layer) => {
            let below = ours::measure(programs, layer, rung.load, rung.waiting, seconds)?;
            Some(below.value(rung.load))
        }
    };
    let ours = ours::measure(programs, rung.layer, rung.load, rung.waiting, seconds)?;
    if rung.against == Against::RawTcp {
        theirs = ours.raw_mib_per_s(rung.waiting);
    }
    Ok(Round { theirs, ours })
}

pub(super) fn reached(goal: Goal, ratio: f64) -> Option<bool> {
    match goal {
        Goal::AtLeast(least) => Some(ratio >= least),
        Goal::AtMost(most) => Some(ratio <= most),
        Goal::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_stands_on_the_one_below() {
        let rungs = rungs();
        for (upper, lower) in [(Layer::Selftest, Layer::Lnet), (Layer::Lnet, Layer::Socklnd)] {
            let stands =
                |rung: &&Rung| rung.layer == upper && rung.against == Against::Below(lower);
            assert_eq!(rungs.iter().filter(stands).count(), 4);
        }
    }

    #[test]
    fn a_latency_is_compared_with_a_program_that_waits_in_the_same_way() {
        for rung in rungs().iter().filter(|rung| rung.load == Load::PingLatency) {
            if let Against::Peer(Peer::Sockperf { waiting, .. }) = rung.against {
                assert_eq!(waiting, rung.waiting, "{}", rung.name);
            }
        }
    }

    #[test]
    fn goals() {
        assert_eq!(reached(Goal::AtLeast(3.0), 3.1), Some(true));
        assert_eq!(reached(Goal::AtLeast(3.0), 2.9), Some(false));
        assert_eq!(reached(Goal::AtMost(1.3), 1.4), Some(false));
        assert_eq!(reached(Goal::None, 1.0), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_told_in_its_row() {
        let [lustrine, rungs_program] = ["no-such-program", "nor-this"].map(PathBuf::from);
        let programs = Programs { lustrine, rungs: rungs_program };
        let row = climb(&programs, &rungs()[8], 1, 1);
        assert!(row.ours.is_none() && row.reached.is_none());
        assert!(row.absent.expect("a reason").contains("no-such-program"));
    }
}
