//! `cargo xtask bench zero-copy`: what sending without a copy (tunable `zero_copy`) costs and
//! brings over links between two network namespaces, per byte and per second of CPU time.
//!
//! On the loopback nothing is gained, because the kernel copies there what it was to send without
//! a copy. It does the same on the way into another namespace and into a TUN device, so these links
//! show the cost, and whether the kernel says so; a gain needs an adapter that reads the sender's
//! memory itself.

mod completions;
mod counters;
mod hosts;
mod load;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use self::completions::Completions;
use self::hosts::{Hosts, Link};
use self::load::{Direction, Load, Measured, Sending, Size};
use super::machine;
use super::results::{self, Conditions};
use super::statistics::Summary;
use crate::process;
use crate::repository::{cargo, target_dir};

/// Zero copy on and off, over links between namespaces.
#[derive(Args)]
pub(crate) struct ZeroCopyArgs {
    /// Rounds; each measures every load once with zero copy and once without
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// Operations in flight
    #[arg(long, default_value_t = 8)]
    in_flight: u32,

    /// TCP's congestion control [default: the machine's]
    #[arg(long)]
    congestion: Option<String>,

    /// The program to run [default: built from this tree]
    #[arg(long, value_name = "FILE")]
    lustrine: Option<PathBuf>,

    /// Write the results here [default: bench/results/zero-copy-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How long a build may take.
const BUILD_MAX: Duration = Duration::from_secs(3600);
/// Programs without which nothing can be measured, and their Debian packages.
const NEEDED: [(&str, &str); 3] =
    [("ip", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux")];

const LINKS: [Link; 3] = [Link::Veth { mtu: 9000 }, Link::Veth { mtu: 1500 }, Link::Tun];

/// One load over one link.
#[derive(Debug, Serialize)]
struct Row {
    link: String,
    program: &'static str,
    load: String,
    off: Values,
    on: Values,
    /// With zero copy by without, round by round.
    ratio: Values,
    /// What the kernel said about the sends without a copy, in a run of its own.
    completions: Option<Completions>,
}

/// What was measured in all rounds.
#[derive(Debug, Serialize)]
struct Values {
    /// Gb/s of payload.
    gigabits: Summary,
    /// CPU time, in seconds per GB (10^9 bytes), of the process that sends the payload.
    sender_cpu_s_per_gb: Summary,
    /// The same of the process that receives it.
    receiver_cpu_s_per_gb: Summary,
    /// The same of the whole machine.
    machine_cpu_s_per_gb: Summary,
}

impl Values {
    fn of(rounds: &[Measured]) -> Result<Values> {
        let summary = |value: fn(&Measured) -> f64| {
            let values: Vec<f64> = rounds.iter().map(value).collect();
            Summary::of(&values).context("no rounds")
        };
        Ok(Values {
            gigabits: summary(|one| one.gigabits)?,
            sender_cpu_s_per_gb: summary(|one| one.sender)?,
            receiver_cpu_s_per_gb: summary(|one| one.receiver)?,
            machine_cpu_s_per_gb: summary(|one| one.machine)?,
        })
    }

    fn ratio(on: &Values, off: &Values) -> Result<Values> {
        let ratio = |value: fn(&Values) -> &Summary| {
            Summary::ratio(value(on), value(off)).context("no rounds")
        };
        Ok(Values {
            gigabits: ratio(|one| &one.gigabits)?,
            sender_cpu_s_per_gb: ratio(|one| &one.sender_cpu_s_per_gb)?,
            receiver_cpu_s_per_gb: ratio(|one| &one.receiver_cpu_s_per_gb)?,
            machine_cpu_s_per_gb: ratio(|one| &one.machine_cpu_s_per_gb)?,
        })
    }
}

#[derive(Debug, Serialize)]
struct ZeroCopy {
    #[serde(flatten)]
    conditions: Conditions,
    /// TCP's congestion control.
    congestion: String,
    rounds: u32,
    seconds: u32,
    in_flight: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &ZeroCopyArgs) -> Result<()> {
    ensure!(
        machine::is_root()?,
        "bench zero-copy makes network namespaces and devices, and needs root"
    );
    for (program, package) in NEEDED {
        ensure!(process::installed(program), "{program} is not installed (Debian: {package})");
    }
    let program = match &args.lustrine {
        Some(file) => fs::canonicalize(file).with_context(|| file.display().to_string())?,
        None => {
            let mut build = cargo();
            build.args(["build", "--release", "--locked", "--package", "lustrine-cli"]);
            let built = process::shown(&mut build, BUILD_MAX, |_| {})?;
            ensure!(built.success(), "lustrine does not build");
            target_dir().join("release/lustrine")
        }
    };
    let conditions = Conditions::here(&[("iperf3", "--version"), ("strace", "--version")]);
    let congestion = match &args.congestion {
        Some(name) => name.clone(),
        None => hosts::machines_congestion()?,
    };
    for (program, without) in [
        ("iperf3", "plain TCP is not measured beside it"),
        ("strace", "nothing is known of what the kernel copied after all"),
    ] {
        if !process::installed(program) {
            eprintln!("{program} is not installed: {without}");
        }
    }
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for link in LINKS {
        eprintln!("{link}");
        let measured = Hosts::up(&program, link, &congestion)
            .and_then(|hosts| measure(args, &program, &hosts, link));
        match measured {
            Ok(measured) => rows.extend(measured),
            // The others are still worth something.
            Err(error) => failed.push(format!("{link}: {error:#}")),
        }
    }
    let file = args.json.clone();
    let file =
        file.unwrap_or_else(|| conditions.kept(&format!("zero-copy-{}.json", conditions.date)));
    let ZeroCopyArgs { rounds, seconds, in_flight, .. } = *args;
    let zero_copy = ZeroCopy { conditions, congestion, rounds, seconds, in_flight, rows };
    results::write(Some(&file), &table::render(&zero_copy), &zero_copy)?;
    ensure!(failed.is_empty(), "not measured: {}", failed.join("; "));
    Ok(())
}

/// All loads over one link.
fn measure(args: &ZeroCopyArgs, program: &Path, hosts: &Hosts<'_>, link: Link) -> Result<Vec<Row>> {
    let mut loads = Vec::new();
    for direction in [Direction::Write, Direction::Read] {
        for size in [Size::MIB, Size::KIB64] {
            loads.push(Load::Selftest { direction, size, in_flight: args.in_flight });
        }
    }
    if process::installed("iperf3") {
        loads.push(Load::Iperf3);
    }
    // Of each load: without zero copy, and with it.
    let mut found: Vec<[Vec<Measured>; 2]> = loads.iter().map(|_| Default::default()).collect();
    for round in 0..args.rounds {
        for (load, found) in loads.iter().zip(&mut found) {
            // Off, on, on, off: what changes steadily affects both alike.
            let order = [Sending::Copied, Sending::ZeroCopy];
            for turn in 0..order.len() {
                let sending = order[(turn + round as usize) % order.len()];
                let measured = load
                    .measure(program, hosts, sending, args.seconds)
                    .with_context(|| format!("{load}, {sending}"))?;
                eprintln!("  {load}, {sending}: {:.2} Gb/s", measured.gigabits);
                found[usize::from(sending == Sending::ZeroCopy)].push(measured);
            }
        }
    }
    let mut rows = Vec::new();
    for (load, [off, on]) in loads.iter().zip(&found) {
        let (off, on) = (Values::of(off)?, Values::of(on)?);
        let completions = match load {
            Load::Selftest { .. } if process::installed("strace") => {
                let seen = load.completions(program, hosts);
                Some(seen.with_context(|| format!("{load}, observed by strace"))?)
            }
            _ => None,
        };
        rows.push(Row {
            link: link.to_string(),
            program: load.program(),
            load: load.to_string(),
            ratio: Values::ratio(&on, &off)?,
            off,
            on,
            completions,
        });
    }
    Ok(rows)
}
