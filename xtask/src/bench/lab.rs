//! `cargo xtask bench lab`: what the links of laboratories carry, and how long packets take,
//! against what was configured. iperf3 measures both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::machine::{self, Machine};
use super::results;
use crate::laboratory::{Laboratory, Link};
use crate::process;
use crate::repository::{cargo, target_dir};

/// The links of laboratories against their configuration.
#[derive(Args)]
pub(crate) struct LabArgs {
    /// Round trips, in ms
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 10.0, 50.6, 200.0])]
    round_trips: Vec<f64>,

    /// Rates, in Gb/s
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 1.0, 10.0])]
    rates: Vec<f64>,

    /// TCP streams at once
    #[arg(long, default_value_t = 4)]
    streams: u32,

    /// Seconds that count, after those of the beginning
    #[arg(long, default_value_t = 8)]
    seconds: u32,

    /// Write the results here [default: bench/results/lab-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How long a build may take.
const BUILD_MAX: Duration = Duration::from_secs(3600);
/// The time before the measurement: TCP has found the rate then.
const BEGIN_SHORT: u32 = 3;
const BEGIN_LONG: u32 = 12;
/// From this round trip on, in ms, TCP takes the longer time.
const LONG_MS: f64 = 50.0;
/// The name of the laboratory.
const NAME: &str = "bench-lab";

#[derive(Debug, Serialize)]
struct Row {
    round_trip_ms: f64,
    gigabits: f64,
    mtu: u32,
    /// What TCP with timestamps can carry at most, in Gb/s of its payload.
    limit: f64,
    /// What it carried.
    carried: f64,
    /// The shortest and the mean round trip of an idle stream, in ms.
    idle_min_ms: f64,
    idle_mean_ms: f64,
    /// The mean round trip under load, in ms: the queue is in it.
    loaded_ms: f64,
    retransmits: u64,
    /// 99 of 100 packets of the link were less late than this, in us.
    late_us: u64,
}

#[derive(Debug, Serialize)]
struct Lab {
    date: String,
    machine: Machine,
    versions: BTreeMap<String, String>,
    streams: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &LabArgs) -> Result<()> {
    ensure!(process::installed("iperf3"), "iperf3 is not installed");
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "lustrine-cli"]);
    let built = process::shown(&mut build, BUILD_MAX, |_| {})?;
    ensure!(built.success(), "lustrine does not build");
    let (date, machine) = (machine::today(), Machine::here());
    let versions = machine::versions(&[("iperf3", "--version")]);
    let program = target_dir().join("release/lustrine");
    let mut rows = Vec::new();
    for round_trip_ms in &args.round_trips {
        for gigabits in &args.rates {
            eprintln!("{round_trip_ms} ms, {gigabits} Gb/s");
            rows.push(measure(&program, args, *round_trip_ms, *gigabits)?);
        }
    }
    let lab = Lab { date, machine, versions, streams: args.streams, rows };
    let file = args.json.clone();
    let file =
        file.unwrap_or_else(|| results::kept(&lab.versions, &format!("lab-{}.json", lab.date)));
    results::write(Some(&file), &table(&lab), &lab)
}

fn measure(program: &Path, args: &LabArgs, round_trip_ms: f64, gigabits: f64) -> Result<Row> {
    let mtu = if gigabits >= 10.0 { 9000 } else { 1500 };
    let buffer = Link::enough_buffer(gigabits, round_trip_ms);
    let link = Link { round_trip_ms, gigabits, mtu, queue: None, buffer, congestion: None };
    let lab = Laboratory::up(program, NAME, &link)?;
    let _server = lab.iperf3_server()?;
    // Two full segments at a time: the receiver acknowledges each second one at once.
    let pair = (2 * (mtu - 52)).to_string();
    let idle = lab.iperf3(&["-b", "400K", "-l", &pair, "-t", "3"], args.seconds)?;
    let begin = if round_trip_ms < LONG_MS { BEGIN_SHORT } else { BEGIN_LONG };
    let (streams, seconds) = (args.streams.to_string(), args.seconds.to_string());
    let options = ["-P", &streams, "-t", &seconds, "-O", &begin.to_string()];
    let full = lab.iperf3(&options, args.seconds + begin)?;
    let late_us = lab.link()?.late.p99_us;
    let idle = &idle.streams.first().context("no stream")?.sender;
    let sent: Vec<f64> = full.streams.iter().map(|stream| stream.sender.mean_rtt / 1e3).collect();
    Ok(Row {
        round_trip_ms,
        gigabits,
        mtu,
        limit: link.limit(),
        carried: full.sum_received.bits_per_second / 1e9,
        idle_min_ms: idle.min_rtt / 1e3,
        idle_mean_ms: idle.mean_rtt / 1e3,
        loaded_ms: sent.iter().sum::<f64>() / sent.len().max(1) as f64,
        retransmits: full.sum_sent.retransmits.unwrap_or(0),
        late_us,
    })
}

fn table(lab: &Lab) -> String {
    let run = format!("{} TCP streams (iperf3), in Gb/s of payload and ms", lab.streams);
    let mut text = lab.machine.heading(&lab.date, &run, &lab.versions);
    let _ = writeln!(
        text,
        "\n{:>9} {:>6} {:>5} {:>8} {:>8} {:>6}  {:>9} {:>9} {:>9} {:>8} {:>8}",
        "RTT",
        "rate",
        "MTU",
        "limit",
        "carried",
        "%",
        "idle min",
        "idle",
        "loaded",
        "resent",
        "late us"
    );
    for row in &lab.rows {
        let _ = writeln!(
            text,
            "{:>9} {:>6} {:>5} {:>8.3} {:>8.3} {:>6.1}  {:>9.2} {:>9.2} {:>9.2} {:>8} {:>8}",
            row.round_trip_ms,
            row.gigabits,
            row.mtu,
            row.limit,
            row.carried,
            100.0 * row.carried / row.limit,
            row.idle_min_ms,
            row.idle_mean_ms,
            row.loaded_ms,
            row.retransmits,
            row.late_us,
        );
    }
    text
}
