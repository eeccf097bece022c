//! Our own programs: `lustrine selftest` between two processes on the loopback, as a user runs it,
//! and the lower layers by themselves (`crates/node/examples/rungs`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::peers::{Direction, Placement, Waiting};
use crate::process;
use crate::repository::{cargo, target_dir};

/// A release build from nothing, with optimisation across crates, on a small machine.
pub(super) const BUILD_MAX: Duration = Duration::from_secs(20 * 60);
/// Beyond its time a measurement gets this long for its nodes to start and end.
const GRACE: Duration = Duration::from_secs(30);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Small RPCs per second with 64 in flight.
    PingRate,
    /// The median of one small RPC at a time, in microseconds.
    PingLatency,
    /// The 99th percentile of the same.
    PingTail,
    /// MiB per second in RPCs of 1 MiB, 8 in flight.
    Bulk { direction: Direction, checks: Checks },
}

/// What is done to the data besides moving them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// Data are not checked.
    Off,
    /// Every word is written before and compared after.
    Words,
    /// Checksums of protocol version 2 on every message.
    Checksums,
}

/// How much of ours is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The TCP driver, with next to nothing on it.
    Socklnd,
    /// The LNet core on the driver.
    Lnet,
    /// All of it.
    Selftest,
}

impl Layer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Layer::Socklnd => "socklnd",
            Layer::Lnet => "lnet",
            Layer::Selftest => "selftest",
        }
    }
}

/// What is run.
pub(crate) struct Programs {
    /// The program of users.
    pub(crate) lustrine: PathBuf,
    /// The lower layers by themselves.
    pub(crate) rungs: PathBuf,
}

impl Programs {
    /// Builds them.
    pub(crate) fn build() -> Result<Programs> {
        let what = ["--package", "lustrine-cli", "--package", "lustrine-node"];
        let mut command = cargo();
        command.args(["build", "--release", "--locked"]).args(what);
        command.args(["--bins", "--example", "rungs"]);
        let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
        ensure!(status.success(), "lustrine does not build");
        let release = target_dir().join("release");
        Ok(Programs {
            lustrine: release.join("lustrine"),
            rungs: release.join("examples").join("rungs"),
        })
    }
}

#[derive(Deserialize)]
struct Run {
    results: Vec<Measured>,
}

/// One measurement; other fields are for people.
#[derive(Debug, Deserialize)]
pub(crate) struct Measured {
    mib_per_s: f64,
    ops_per_s: f64,
    ops: u64,
    latency_us: Latency,
    errors: u64,
    cpu_s: Cpu,
    raw_tcp_mib_per_s: Option<f64>,
    raw_tcp_polling_mib_per_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Latency {
    p50: f64,
    #[serde(default)]
    p99: f64,
}

#[derive(Debug, Deserialize)]
struct Cpu {
    client: f64,
    server: f64,
}

impl Measured {
    /// The number that the load is about.
    pub(crate) fn value(&self, load: Load) -> f64 {
        match load {
            Load::PingRate => self.ops_per_s,
            Load::PingLatency => self.latency_us.p50,
            Load::PingTail => self.latency_us.p99,
            Load::Bulk { .. } => self.mib_per_s,
        }
    }

    /// MiB per second.
    pub(crate) fn mib_per_s(&self) -> f64 {
        self.mib_per_s
    }

    /// Operations per second.
    pub(crate) fn ops_per_s(&self) -> f64 {
        self.ops_per_s
    }

    /// What plain TCP moved between two processes that waited in this way right before, where that
    /// was measured.
    pub(crate) fn raw_mib_per_s(&self, waiting: Waiting) -> Option<f64> {
        match waiting {
            Waiting::Polling => self.raw_tcp_polling_mib_per_s,
            Waiting::Sleeping => self.raw_tcp_mib_per_s,
        }
    }

    /// CPU time of both ends per operation, in microseconds.
    pub(crate) fn cpu_us_per_op(&self) -> f64 {
        (self.cpu_s.client + self.cpu_s.server) * 1e6 / self.ops.max(1) as f64
    }
}

/// One measurement of about `seconds`.
pub(crate) fn measure(
    programs: &Programs,
    layer: Layer,
    load: Load,
    waiting: Waiting,
    seconds: u32,
) -> Result<Measured> {
    if layer == Layer::Selftest {
        let settings: &[&str] = match waiting {
            Waiting::Polling => &[],
            Waiting::Sleeping => &["spin_us=0"],
        };
        return measure_with(programs, load, seconds, settings, "apart");
    }
    let mut command = Command::new(&programs.rungs);
    command.args([layer.name(), "--seconds", &seconds.to_string()]).args(shape(load)?);
    result(command, layer.name(), seconds)
}

/// One measurement of all there is, both nodes with these tunables (`name=value`) and on the CPUs
/// that `--placement` says.
pub(crate) fn measure_with(
    programs: &Programs,
    load: Load,
    seconds: u32,
    settings: &[&str],
    placement: &str,
) -> Result<Measured> {
    selftest(&programs.lustrine, &arguments(load), seconds, settings, placement)
}

/// One measurement by `lustrine selftest` with these arguments; the rest as for [`measure_with`].
pub(crate) fn selftest(
    lustrine: &Path,
    arguments: &[&str],
    seconds: u32,
    settings: &[&str],
    placement: &str,
) -> Result<Measured> {
    let mut command = Command::new(lustrine);
    command.args(["selftest", "--json", "-", "--time", &seconds.to_string()]);
    command.args(["--placement", placement]).args(arguments);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    result(command, "lustrine selftest", seconds)
}

fn result(mut command: Command, what: &str, seconds: u32) -> Result<Measured> {
    let limit = Duration::from_secs(u64::from(seconds)) + GRACE;
    parse(&process::capture(&mut command, limit)?.output(what)?)
}

/// The same load as messages: a request and its answer, one of which carries the bulk.
fn shape(load: Load) -> Result<Vec<&'static str>> {
    let (slots, bulk) = match load {
        Load::PingRate => ("64", None),
        Load::PingLatency => ("1", None),
        Load::PingTail => bail!("the lower layers report medians"),
        Load::Bulk { direction, checks: Checks::Off } => ("8", Some(direction)),
        Load::Bulk { .. } => bail!("the lower layers know no checks"),
    };
    let (send, recv) = match bulk {
        None => ("160", "160"),
        Some(Direction::Write) => ("1048576", "160"),
        Some(Direction::Read) => ("160", "1048576"),
    };
    Ok(vec!["--slots", slots, "--send", send, "--recv", recv])
}

/// RPCs of 1 MiB, with as many connections per direction as iperf3 gets: one.
const BULK: [&str; 4] = ["--size", "1M", "--set", "conns_per_peer=1"];

/// One measurement of reads or writes of 1 MiB, unchecked, with this many in flight.
pub(crate) fn measure_bulk(
    programs: &Programs,
    direction: Direction,
    in_flight: u32,
    seconds: u32,
) -> Result<Measured> {
    let test = match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    };
    let mut command = Command::new(&programs.lustrine);
    command.args(["selftest", "--json", "-", "--time", &seconds.to_string()]);
    command.args(["--placement", "apart", "--check", "none", "--test", test]);
    command.args(["--concurrency", &in_flight.to_string()]).args(BULK);
    result(command, "lustrine selftest", seconds)
}

/// One measurement of one stream of plain TCP whose data are in this many buffers of 1 MiB at each
/// end, in turn.
pub(crate) fn measure_tcp(
    programs: &Programs,
    direction: Direction,
    buffers: u32,
    (waiting, placement): (Waiting, Placement),
    seconds: u32,
) -> Result<Measured> {
    let (send, recv) = match direction {
        Direction::Write => ("1048576", "160"),
        Direction::Read => ("160", "1048576"),
    };
    let mut command = Command::new(&programs.rungs);
    command.args(["tcp", "--send", send, "--recv", recv, "--slots", &buffers.to_string()]);
    command.args(["--seconds", &seconds.to_string(), "--waiting", &waiting.to_string()]);
    let placement = match placement {
        Placement::Free => "free",
        Placement::Apart => "apart",
    };
    command.args(["--placement", placement]);
    result(command, "plain TCP", seconds)
}

fn arguments(load: Load) -> Vec<&'static str> {
    match load {
        Load::PingRate => vec!["--test", "ping", "--concurrency", "64"],
        Load::PingLatency | Load::PingTail => vec!["--test", "ping", "--concurrency", "1"],
        Load::Bulk { direction, checks } => {
            let test = match direction {
                Direction::Read => "read",
                Direction::Write => "write",
            };
            let mut list = vec!["--test", test, "--concurrency", "8"];
            list.extend(BULK);
            list.extend(match checks {
                Checks::Off => vec!["--check", "none"],
                Checks::Words => vec!["--check", "full"],
                Checks::Checksums => {
                    vec!["--check", "none", "--set", "protocol=2", "--set", "enable_csum=1"]
                }
            });
            list
        }
    }
}

fn parse(json: &str) -> Result<Measured> {
    let run: Run = serde_json::from_str(json).context("lustrine selftest printed no result")?;
    let measured = run.results.into_iter().next().context("lustrine selftest has no result")?;
    ensure!(measured.errors == 0, "{} operations failed", measured.errors);
    ensure!(measured.ops > 0, "no operation was completed");
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = r#"{"version": "0.1.0", "from": "127.0.0.1@tcp", "to": "127.0.0.2@tcp",
        "results": [{"test": "read", "size": 1048576, "concurrency": 8, "seconds": 1.0,
        "ops": 2958, "mib_per_s": 2957.9, "ops_per_s": 2957.8, "latency_us": {"p50": 2785.2,
        "p90": 4341.7, "p99": 8097.7, "p999": 10084.3, "max": 10747.9}, "errors": 0,
        "cpu_s": {"client": 0.65, "server": 0.41}, "raw_tcp_mib_per_s": 1695.7,
        "raw_tcp_polling_mib_per_s": 2210.5}]}"#;

    #[test]
    fn results_are_read() {
        let measured = parse(RUN).expect("a result");
        let bulk = Load::Bulk { direction: Direction::Read, checks: Checks::Off };
        assert_eq!(measured.value(bulk), 2957.9);
        assert_eq!(measured.value(Load::PingRate), 2957.8);
        assert_eq!(measured.value(Load::PingLatency), 2785.2);
        assert_eq!(measured.raw_mib_per_s(Waiting::Sleeping), Some(1695.7));
        assert_eq!(measured.raw_mib_per_s(Waiting::Polling), Some(2210.5));
        assert_eq!(measured.cpu_us_per_op().round(), 358.0);
    }

    #[test]
    fn failed_operations_are_no_result() {
        assert!(parse(&RUN.replace("\"errors\": 0", "\"errors\": 1")).is_err());
        assert!(parse(r#"{"results": []}"#).is_err());
    }
}
