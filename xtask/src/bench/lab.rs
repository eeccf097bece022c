//! `cargo xtask bench lab`: what the links of laboratories carry, and how long packets take,
//! against what was configured. iperf3 measures both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::machine::{self, Machine};
use super::results;
use crate::process::{self, ChildGuard};
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
/// How long a command that starts or ends a laboratory may take.
const COMMAND_MAX: Duration = Duration::from_secs(30);
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
    let file = file.unwrap_or_else(|| results::kept(&format!("lab-{}.json", lab.date)));
    results::write(Some(&file), &table(&lab), &lab)
}

/// A laboratory that is up; dropping it ends it.
struct Up<'p> {
    program: &'p Path,
}

impl Up<'_> {
    fn new<'p>(program: &'p Path, text: &str) -> Result<Up<'p>> {
        let file =
            std::env::temp_dir().join(format!("lustrine-{NAME}-{}.yaml", std::process::id()));
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        let started = lab(program, &["up", "--name", NAME, &file.to_string_lossy()]);
        let _ = fs::remove_file(&file);
        started?;
        Ok(Up { program })
    }

    /// A command on a host.
    fn at(&self, host: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(["lab", "exec", "--lab", NAME, host, "--"]).args(words);
        command
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        if let Err(error) = lab(self.program, &["down", NAME]) {
            eprintln!("{error:#}");
        }
    }
}

fn lab(program: &Path, words: &[&str]) -> Result<String> {
    let finished = process::capture(Command::new(program).arg("lab").args(words), COMMAND_MAX)?;
    ensure!(finished.status.success(), "lab {words:?}: {}", finished.stderr.trim());
    Ok(finished.stdout)
}

fn measure(program: &Path, args: &LabArgs, round_trip_ms: f64, gigabits: f64) -> Result<Row> {
    let mtu = if gigabits >= 10.0 { 9000 } else { 1500 };
    // Twice what the link carries in a round trip: half of a buffer is window. All buffers of the
    // machine together should stay below net.ipv4.tcp_mem.
    let buffer = (gigabits * 1e9 / 8.0 * round_trip_ms / 1e3 * 2.0).clamp(4e6, 1e9) as u64;
    let delay = round_trip_ms / 2.0;
    let text = format!(
        "sysctl:\n  net.ipv4.tcp_rmem: 4096 131072 {buffer}\n  net.ipv4.tcp_wmem: 4096 65536 \
         {buffer}\nhosts: {{east: {{}}, west: {{}}}}\nlinks:\n  - {{between: [east, west], rate: \
         {gigabits} Gb/s, delay: {delay} ms, mtu: {mtu}}}\n"
    );
    let up = Up::new(program, &text)?;
    let _server = ChildGuard::silent(&mut up.at("west", &["iperf3", "-s"]))?;
    // Two full segments at a time: the receiver acknowledges each second one at once.
    let pair = (2 * (mtu - 52)).to_string();
    let idle = iperf3(&up, &["-b", "400K", "-l", &pair, "-t", "3"], args.seconds)?;
    let begin = if round_trip_ms < LONG_MS { BEGIN_SHORT } else { BEGIN_LONG };
    let (streams, seconds) = (args.streams.to_string(), args.seconds.to_string());
    let options = ["-P", &streams, "-t", &seconds, "-O", &begin.to_string()];
    let full = iperf3(&up, &options, args.seconds + begin)?;
    let status: Status = serde_json::from_str(&lab(program, &["status", NAME, "--json"])?)?;
    let link = status.up.first().and_then(|lab| lab.links.first()).context("no link")?;
    let idle = &idle.streams.first().context("no stream")?.sender;
    let sent: Vec<f64> = full.streams.iter().map(|stream| stream.sender.mean_rtt / 1e3).collect();
    Ok(Row {
        round_trip_ms,
        gigabits,
        mtu,
        limit: gigabits * f64::from(mtu - 52) / f64::from(mtu + 38),
        carried: full.sum_received.bits_per_second / 1e9,
        idle_min_ms: idle.min_rtt / 1e3,
        idle_mean_ms: idle.mean_rtt / 1e3,
        loaded_ms: sent.iter().sum::<f64>() / sent.len().max(1) as f64,
        retransmits: full.sum_sent.retransmits.unwrap_or(0),
        late_us: link.directions[0].late.p99_us,
    })
}

/// What iperf3 prints, as far as it is used.
#[derive(Deserialize)]
struct Printed {
    end: End,
}

#[derive(Deserialize)]
struct End {
    streams: Vec<Stream>,
    sum_sent: Sum,
    sum_received: Sum,
}

#[derive(Deserialize)]
struct Stream {
    sender: Sender,
}

/// Times in us.
#[derive(Deserialize)]
struct Sender {
    min_rtt: f64,
    mean_rtt: f64,
}

#[derive(Deserialize)]
struct Sum {
    bits_per_second: f64,
    retransmits: Option<u64>,
}

/// What `lustrine lab status --json` prints, as far as it is used.
#[derive(Deserialize)]
struct Status {
    up: Vec<LabStatus>,
}

#[derive(Deserialize)]
struct LabStatus {
    links: Vec<LinkStatus>,
}

#[derive(Deserialize)]
struct LinkStatus {
    directions: [DirectionStatus; 2],
}

#[derive(Deserialize)]
struct DirectionStatus {
    late: Late,
}

#[derive(Deserialize)]
struct Late {
    p99_us: u64,
}

/// Runs iperf3 from east to west. The server may not listen yet.
fn iperf3(up: &Up<'_>, options: &[&str], seconds: u32) -> Result<End> {
    const ATTEMPTS: u32 = 20;
    let limit = COMMAND_MAX + Duration::from_secs(u64::from(seconds));
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let mut command = up.at("east", &["iperf3", "-J", "-c", "west"]);
        let finished = process::capture(command.args(options), limit)?;
        if finished.status.success() {
            let printed: Printed = serde_json::from_str(&finished.stdout)?;
            return Ok(printed.end);
        }
        said = finished.stdout + &finished.stderr;
        std::thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("iperf3 measures nothing: {said}")
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
