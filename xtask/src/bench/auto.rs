//! `cargo xtask bench auto`: two nodes with `tuning: auto` over links of many rates and round
//! trips, real sockets, beside iperf3 over the same link (docs/auto-tuning.md).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::results::{self, Conditions};
use crate::laboratory::{Laboratory, Link, Measured};
use crate::process;
use crate::repository::{cargo, target_dir};

/// A node that tunes itself over links of laboratories.
#[derive(Args)]
pub(crate) struct AutoArgs {
    /// Round trips, in ms
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 1.0, 10.0, 50.0, 100.0, 200.0])]
    round_trips: Vec<f64>,

    /// Rates, in Gb/s
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 1.0, 10.0])]
    rates: Vec<f64>,

    /// Bytes of packets that a link holds, in MiB
    #[arg(long, default_value_t = 64)]
    queue: u64,

    /// Seconds that count
    #[arg(long, default_value_t = 20)]
    seconds: u32,

    /// TCP's congestion control [default: the machine's]
    #[arg(long)]
    congestion: Option<String>,

    /// More options of the two nodes, such as "--set spin_us=0"
    #[arg(long, allow_hyphen_values = true, default_value = "")]
    node: String,

    /// The program to run [default: built from this tree]
    #[arg(long, value_name = "FILE")]
    lustrine: Option<PathBuf>,

    /// Write the results here [default: bench/results/auto-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How long a build may take.
const BUILD_MAX: Duration = Duration::from_secs(3600);
/// The name of the laboratory.
const NAME: &str = "bench-auto";
/// With packets of this size links of 10 Gb/s cost a small machine least.
const MTU: u32 = 9000;
/// Measurements begin this many round trips after their load, and one second at least, those of
/// iperf3 too.
const WARM_UP: f64 = 20.0;
/// The RPCs that the window may use at most; their data need 512 MiB at each node.
const CONCURRENCY: &str = "512";

#[derive(Debug, Serialize)]
struct Row {
    round_trip_ms: f64,
    gigabits: f64,
    /// What TCP can carry at most, in Gb/s of its payload.
    limit: f64,
    /// What iperf3 carried, with its better number of streams.
    iperf3: f64,
    write: Load,
    read: Load,
}

#[derive(Debug, Serialize)]
struct Load {
    /// Gb/s of payload.
    carried: f64,
    p50_ms: f64,
    p99_ms: f64,
    errors: u64,
}

impl Load {
    fn of(measured: &[Measured], test: &str) -> Result<Load> {
        let row = measured.iter().find(|row| row.test == test);
        let row = row.with_context(|| format!("{test} was not measured"))?;
        let latency = &row.latency_us;
        Ok(Load {
            carried: row.gigabits(),
            p50_ms: latency.p50 / 1e3,
            p99_ms: latency.p99 / 1e3,
            errors: row.errors,
        })
    }
}

#[derive(Debug, Serialize)]
struct Auto {
    #[serde(flatten)]
    conditions: Conditions,
    /// TCP's congestion control, if another than the machine's.
    congestion: Option<String>,
    queue_mib: u64,
    seconds: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &AutoArgs) -> Result<()> {
    ensure!(process::installed("iperf3"), "iperf3 is not installed");
    let program = match &args.lustrine {
        Some(file) => file.clone(),
        None => {
            let mut build = cargo();
            build.args(["build", "--release", "--locked", "--package", "lustrine-cli"]);
            let built = process::shown(&mut build, BUILD_MAX, |_| {})?;
            ensure!(built.success(), "lustrine does not build");
            target_dir().join("release/lustrine")
        }
    };
    let conditions = Conditions::here(&[("iperf3", "--version")]);
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for round_trip_ms in &args.round_trips {
        for gigabits in &args.rates {
            match measure(&program, args, *round_trip_ms, *gigabits) {
                Ok(row) => {
                    eprint!("{}", line(&row));
                    rows.push(row);
                }
                // The others are still worth something. It is said now, too: a run may be ended.
                Err(error) => {
                    let why = format!("{round_trip_ms} ms, {gigabits} Gb/s: {error:#}");
                    eprintln!("not measured: {why}");
                    failed.push(why);
                }
            }
        }
    }
    let file = args.json.clone();
    let file = file.unwrap_or_else(|| conditions.kept(&format!("auto-{}.json", conditions.date)));
    let auto = Auto {
        conditions,
        congestion: args.congestion.clone(),
        queue_mib: args.queue,
        seconds: args.seconds,
        rows,
    };
    results::write(Some(&file), &table(&auto), &auto)?;
    ensure!(failed.is_empty(), "not measured: {}", failed.join("; "));
    Ok(())
}

fn measure(program: &Path, args: &AutoArgs, round_trip_ms: f64, gigabits: f64) -> Result<Row> {
    let link = Link {
        round_trip_ms,
        gigabits,
        mtu: MTU,
        queue: Some(args.queue << 20),
        buffer: Link::enough_buffer(gigabits, round_trip_ms),
        congestion: args.congestion.clone(),
    };
    let lab = Laboratory::up(program, NAME, &link)?;
    let warm_up = (WARM_UP * round_trip_ms / 1e3).max(1.0).ceil() as u32;
    let (time, before) = (args.seconds.to_string(), warm_up.to_string());
    let iperf3 = lab.iperf3_best(args.seconds, warm_up)?;
    let more: Vec<&str> = args.node.split_whitespace().collect();
    let _node = lab.node(&[&["--tuning", "auto"], &more[..]].concat())?;
    let options = [
        "--tuning",
        "auto",
        "--test",
        "write,read",
        "--size",
        "1M",
        "--concurrency",
        CONCURRENCY,
        "--time",
        &time,
        "--warm-up",
        &before,
    ];
    let whole = 2 * (args.seconds + warm_up);
    let measured = lab.selftest(&[&options, &more[..]].concat(), whole)?;
    Ok(Row {
        round_trip_ms,
        gigabits,
        limit: link.limit(),
        iperf3,
        write: Load::of(&measured, "write")?,
        read: Load::of(&measured, "read")?,
    })
}

fn table(auto: &Auto) -> String {
    let run = format!("{} s per load, in Gb/s of payload and ms", auto.seconds);
    let mut text = auto.conditions.heading(&run);
    if let Some(name) = &auto.congestion {
        let _ = writeln!(text, "  TCP: {name}");
    }
    text += "\nof all loads the percentages are of the lesser of the limit and of iperf3\n";
    let _ = writeln!(
        text,
        "{:>6} {:>5} {:>7} {:>7}  {:>7} {:>4} {:>7} {:>7}  {:>7} {:>4} {:>7} {:>7}",
        "RTT", "rate", "limit", "iperf3", "write", "%", "p50", "p99", "read", "%", "p50", "p99"
    );
    auto.rows.iter().for_each(|row| text += &line(row));
    text
}

fn line(row: &Row) -> String {
    let load = |load: &Load| {
        let part = load.carried / row.limit.min(row.iperf3) * 100.0;
        let Load { carried, p50_ms, p99_ms, errors } = load;
        let errors = if *errors == 0 { String::new() } else { format!(" ({errors} errors)") };
        format!("{carried:>7.3} {part:>4.0} {p50_ms:>7.1} {p99_ms:>7.1}{errors}")
    };
    let Row { round_trip_ms, gigabits, limit, iperf3, write, read } = row;
    format!(
        "{round_trip_ms:>6} {gigabits:>5} {limit:>7.3} {iperf3:>7.3}  {}  {}\n",
        load(write),
        load(read)
    )
}
