//! Runs a sweep with the `lustrine` program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::list::Sweep;
use super::results::{Kept, Run, Simulated, digest};
use crate::process;
use crate::repository::{cargo, root, target_dir};

/// A release build from nothing, on a small machine.
const BUILD_MAX: Duration = Duration::from_secs(30 * 60);

pub(super) struct Runner {
    lustrine: PathBuf,
    threads: Option<u32>,
}

impl Runner {
    /// Builds the program unless one is given.
    pub(super) fn new(lustrine: Option<PathBuf>, threads: Option<u32>) -> Result<Runner> {
        let lustrine = match lustrine {
            Some(path) => path,
            None => {
                let mut build = cargo();
                build.args(["build", "--release", "--locked", "--package", "lustrine-cli"]);
                let status = process::shown(&mut build, BUILD_MAX, |_| {})?;
                ensure!(status.success(), "lustrine does not build");
                target_dir().join("release/lustrine")
            }
        };
        Ok(Runner { lustrine, threads })
    }

    pub(super) fn program(&self) -> &Path {
        &self.lustrine
    }

    /// Runs a sweep; its progress is shown.
    pub(super) fn run(&self, sweep: &Sweep, scenarios: &Path) -> Result<Kept> {
        let name = &sweep.name;
        let scenario = fs::read_to_string(scenarios.join(&sweep.file))
            .with_context(|| format!("the scenario of {name}: {}", sweep.file))?;
        let mut command = Command::new(&self.lustrine);
        command.current_dir(root()).args(sweep.command()).args(["--json", "-"]);
        if let Some(threads) = self.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        eprintln!("{name}: lustrine {}", sweep.command().join(" "));
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", self.lustrine.display()))?;
        // Failed operations under a load are a result too; a sweep without runs is an error.
        let printed: Printed = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{name}: {}: no results", output.status))?;
        eprintln!("{name}: {} runs in {:.0} s", printed.runs.len(), printed.real_s);
        Ok(Kept {
            sweep: name.clone(),
            command: sweep.command(),
            scenario: digest(&scenario),
            version: printed.version,
            names: printed.names,
            about: None,
            runs: printed.runs.iter().map(PrintedRun::kept).collect(),
        })
    }
}

/// The relevant part of the program's output.
#[derive(Deserialize)]
struct Printed {
    version: String,
    real_s: f64,
    names: Vec<String>,
    runs: Vec<PrintedRun>,
}

#[derive(Deserialize)]
struct PrintedRun {
    values: Vec<String>,
    trace_hash: String,
    loads: Vec<PrintedLoad>,
    links: Vec<PrintedLink>,
    waits: Vec<PrintedWaits>,
}

/// Of a group.
#[derive(Deserialize)]
struct PrintedWaits {
    group: String,
    peer_credits: f64,
    zero_copy: f64,
}

#[derive(Deserialize)]
struct PrintedLoad {
    size: f64,
    ops_per_s: f64,
    formula_ops_per_s: Option<f64>,
    latency_us: Option<PrintedLatency>,
    errors: u64,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct PrintedLatency {
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Deserialize)]
struct PrintedLink {
    name: String,
    share: f64,
    lost: f64,
}

impl PrintedRun {
    fn kept(&self) -> Run {
        let rate = |of: fn(&PrintedLoad) -> f64| {
            rounded(self.loads.iter().map(|load| of(load) * load.size / 1e6).sum())
        };
        let slowest = |of: fn(&PrintedLatency) -> f64| {
            let latencies = self.loads.iter().filter_map(|load| load.latency_us.as_ref());
            rounded(latencies.map(of).fold(0.0, f64::max) / 1e3)
        };
        Run {
            values: self.values.clone(),
            mb_per_s: rate(|load| load.ops_per_s),
            formula_mb_per_s: rate(|load| load.formula_ops_per_s.unwrap_or_default()),
            p50_ms: slowest(|latency| latency.p50),
            p99_ms: slowest(|latency| latency.p99),
            max_ms: slowest(|latency| latency.max),
            errors: self.loads.iter().map(|load| load.errors).sum(),
            simulated: Some(Simulated {
                link_use: self.link_use(),
                lost_mb: rounded(self.links.iter().map(|link| link.lost).sum::<f64>() / 1e6),
                need_credit: self.at_clients(|waits| waits.peer_credits),
                hold_credit: self.at_clients(|waits| waits.zero_copy),
                trace: self.trace_hash.clone(),
            }),
        }
    }

    /// The study's scenarios have one group of clients with this name.
    fn at_clients(&self, of: fn(&PrintedWaits) -> f64) -> f64 {
        let clients = self.waits.iter().filter(|waits| waits.group == "clients");
        rounded(clients.map(of).sum())
    }

    /// Only links between sites have both names; parallel ones are added up.
    fn link_use(&self) -> f64 {
        let mut ways: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for link in self.links.iter().filter(|link| link.name.contains(" -> ")) {
            let way = link.name.split(',').next().unwrap_or_default();
            let sum = ways.entry(way).or_default();
            *sum = (sum.0 + link.share, sum.1 + 1.0);
        }
        let most = ways.values().map(|(share, links)| share / links).fold(0.0, f64::max);
        (most * 1e4).round() / 1e4
    }
}

/// Rounds to the digits that are significant.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
