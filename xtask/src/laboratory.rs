//! Laboratories (`lustrine lab`) in which measurements run: two hosts and a link, and on them
//! iperf3 and nodes. They need root.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use crate::process::{self, ChildGuard};

/// The first host of [`Link::text`], from which loads go.
pub(crate) const EAST: &str = "east";
/// The second one, with servers.
pub(crate) const WEST: &str = "west";
/// The address that a laboratory gives to the second host of its first link.
const WEST_ADDRESS: &str = "10.99.0.2";

/// Numbers of iperf3's streams of which the better counts.
const STREAMS: [u32; 2] = [1, 4];
/// How long a command that starts or ends a laboratory may take, and a load beyond its time.
const COMMAND_MAX: Duration = Duration::from_secs(30);
/// How often a client tries until its server listens.
const ATTEMPTS: u32 = 50;
const ATTEMPT_EVERY: Duration = Duration::from_millis(100);
/// A client that ran this long has reached its server.
const REACHED: Duration = Duration::from_secs(2);

/// A link between two hosts.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) round_trip_ms: f64,
    pub(crate) gigabits: f64,
    pub(crate) mtu: u32,
    /// Bytes of packets that may wait; `None`: what the link carries in a round trip.
    pub(crate) queue: Option<u64>,
    /// The largest TCP buffers of the hosts, in bytes. All buffers of the machine together should
    /// stay below net.ipv4.tcp_mem.
    pub(crate) buffer: u64,
    /// TCP's congestion control; `None`: the machine's.
    pub(crate) congestion: Option<String>,
}

impl Link {
    /// What TCP with timestamps can carry at most, in Gb/s of its payload.
    pub(crate) fn limit(&self) -> f64 {
        self.gigabits * f64::from(self.mtu - 52) / f64::from(self.mtu + 38)
    }

    /// Twice what this link carries in a round trip, because half of a buffer is window.
    pub(crate) fn enough_buffer(gigabits: f64, round_trip_ms: f64) -> u64 {
        (gigabits * 1e9 / 8.0 * round_trip_ms / 1e3 * 2.0).clamp(4e6, 1e9) as u64
    }

    /// The laboratory's file: the hosts [`EAST`] and [`WEST`].
    fn text(&self) -> String {
        let Link { round_trip_ms, gigabits, mtu, queue, buffer, congestion } = self;
        let mut sysctl = format!(
            "  net.ipv4.tcp_rmem: 4096 131072 {buffer}\n  net.ipv4.tcp_wmem: 4096 65536 {buffer}\n"
        );
        if let Some(name) = congestion {
            sysctl += &format!("  net.ipv4.tcp_congestion_control: {name}\n");
        }
        let delay = round_trip_ms / 2.0;
        let queue = queue.map_or(String::new(), |bytes| format!(", queue: {bytes} B"));
        format!(
            "sysctl:\n{sysctl}hosts: {{{EAST}: {{}}, {WEST}: {{}}}}\nlinks:\n  - {{between: \
             [{EAST}, {WEST}], rate: {gigabits} Gb/s, delay: {delay} ms, mtu: {mtu}{queue}}}\n"
        )
    }
}

/// A laboratory that is up; dropping it ends it.
pub(crate) struct Laboratory<'p> {
    program: &'p Path,
    name: String,
    /// For its file and the control sockets of nodes.
    dir: TempDir,
}

impl Laboratory<'_> {
    /// Starts one; `name` should be the measurement's own.
    pub(crate) fn up<'p>(program: &'p Path, name: &str, link: &Link) -> Result<Laboratory<'p>> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("laboratory.yaml");
        fs::write(&file, link.text()).with_context(|| file.display().to_string())?;
        lab(program, &["up", "--name", name, &file.to_string_lossy()])?;
        Ok(Laboratory { program, name: name.to_owned(), dir })
    }

    /// A command on a host.
    pub(crate) fn at(&self, host: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(["lab", "exec", "--lab", &self.name, host, "--"]).args(words);
        command
    }

    /// What the first link has done so far, from east to west.
    pub(crate) fn link(&self) -> Result<Direction> {
        let printed = lab(self.program, &["status", &self.name, "--json"])?;
        let status: Status = serde_json::from_str(&printed)?;
        let lab = status.up.into_iter().next();
        let link = lab.and_then(|lab| lab.links.into_iter().next()).context("no link")?;
        let [there, _] = link.directions;
        Ok(there)
    }

    /// Starts an iperf3 that serves on the second host.
    pub(crate) fn iperf3_server(&self) -> Result<ChildGuard> {
        ChildGuard::silent(&mut self.at(WEST, &["iperf3", "-s"]))
    }

    /// Runs iperf3 from east to west, for `seconds` in all.
    pub(crate) fn iperf3(&self, options: &[&str], seconds: u32) -> Result<Iperf3> {
        let words = [&["iperf3", "-J", "-c", WEST], options].concat();
        self.tried(&words, Duration::from_secs(seconds.into()), printed_by_iperf3)
    }

    /// What iperf3 carries from east to west, in Gb/s of payload: the better of one and four
    /// streams, in `seconds` that begin `before` seconds after its start.
    pub(crate) fn iperf3_best(&self, seconds: u32, before: u32) -> Result<f64> {
        let _server = self.iperf3_server()?;
        let (time, omit) = (seconds.to_string(), before.to_string());
        let mut best = 0.0_f64;
        for streams in STREAMS {
            let options = ["-P", &streams.to_string(), "-t", &time, "-O", &omit];
            let end = self.iperf3(&options, seconds + before).context("iperf3")?;
            best = best.max(end.sum_received.bits_per_second / 1e9);
        }
        Ok(best)
    }

    /// Starts a node on the second host.
    pub(crate) fn node(&self, options: &[&str]) -> Result<ChildGuard> {
        let control = self.dir.path().join("node.sock");
        // A node that was killed leaves it.
        let _ = fs::remove_file(&control);
        let (program, control) = (self.program.to_string_lossy(), control.to_string_lossy());
        let words = [&*program, "node", "--net", "tcp=eth0", "--control", &control];
        ChildGuard::silent(&mut self.at(WEST, &[&words[..], options].concat()))
    }

    /// Measures that node from the first host with `lustrine selftest`; `seconds` is about how long
    /// that takes.
    pub(crate) fn selftest(&self, options: &[&str], seconds: u32) -> Result<Vec<Measured>> {
        let nid = format!("{WEST_ADDRESS}@tcp");
        let program = self.program.to_string_lossy();
        let words = [&program, "selftest", "--no-node", "--json", "-", "--to", &nid];
        let words = [&words[..], options].concat();
        self.tried(&words, Duration::from_secs(seconds.into()), |printed| {
            let printed: Results = serde_json::from_str(printed)?;
            ensure!(!printed.results.is_empty(), "no results");
            Ok(printed.results)
        })
    }

    /// Runs a client on the first host, and returns what `parse` finds in its standard output. Its
    /// server may not listen yet, or may still serve the client before.
    fn tried<T>(
        &self,
        words: &[&str],
        time: Duration,
        parse: impl Fn(&str) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            let begin = Instant::now();
            let finished = process::capture(&mut self.at(EAST, words), COMMAND_MAX + time)?;
            let parsed = match finished.status.success() {
                true => parse(&finished.stdout),
                false => Err(anyhow!((finished.stdout + &finished.stderr).trim().to_owned())),
            };
            attempts += 1;
            match parsed {
                Err(_) if attempts < ATTEMPTS && begin.elapsed() < REACHED => {
                    std::thread::sleep(ATTEMPT_EVERY);
                }
                parsed => return parsed.with_context(|| words.join(" ")),
            }
        }
    }
}

impl Drop for Laboratory<'_> {
    fn drop(&mut self) {
        if let Err(error) = lab(self.program, &["down", &self.name]) {
            eprintln!("{error:#}");
        }
    }
}

fn lab(program: &Path, words: &[&str]) -> Result<String> {
    let finished = process::capture(Command::new(program).arg("lab").args(words), COMMAND_MAX)?;
    ensure!(finished.status.success(), "lab {words:?}: {}", finished.stderr.trim());
    Ok(finished.stdout)
}

/// A row of `lustrine selftest --json`, as far as it is used.
#[derive(Debug, Deserialize)]
pub(crate) struct Measured {
    pub(crate) test: String,
    pub(crate) concurrency: u32,
    pub(crate) mib_per_s: f64,
    pub(crate) latency_us: Latency,
    pub(crate) errors: u64,
}

impl Measured {
    /// Payload in Gb/s.
    pub(crate) fn gigabits(&self) -> f64 {
        self.mib_per_s * f64::from(1 << 20) * 8.0 / 1e9
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Measured>,
}

/// What `iperf3 -J` measured. It exits with 0 if it failed as well, and says so in its JSON.
fn printed_by_iperf3(json: &str) -> Result<Iperf3> {
    let Printed { error, end } = serde_json::from_str(json)?;
    if let Some(error) = error {
        bail!("{error}");
    }
    Ok(serde_json::from_value(end)?)
}

/// What iperf3 prints, as far as it is used.
#[derive(Deserialize)]
struct Printed {
    error: Option<String>,
    end: serde_json::Value,
}

#[derive(Deserialize)]
pub(crate) struct Iperf3 {
    pub(crate) streams: Vec<Stream>,
    pub(crate) sum_sent: Sum,
    pub(crate) sum_received: Sum,
}

#[derive(Deserialize)]
pub(crate) struct Stream {
    pub(crate) sender: Sender,
}

/// Times in us.
#[derive(Deserialize)]
pub(crate) struct Sender {
    pub(crate) min_rtt: f64,
    pub(crate) mean_rtt: f64,
}

#[derive(Deserialize)]
pub(crate) struct Sum {
    pub(crate) bits_per_second: f64,
    pub(crate) retransmits: Option<u64>,
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
    directions: [Direction; 2],
}

/// One direction of a link.
#[derive(Deserialize)]
pub(crate) struct Direction {
    pub(crate) late: Late,
}

#[derive(Deserialize)]
pub(crate) struct Late {
    pub(crate) p99_us: u64,
}

#[test]
fn iperf3_that_failed_has_no_result() {
    // iperf3 3.12 whose server still serves the previous client; it exits with 0.
    let busy = r#"{"start": {"connected": [], "version": "iperf 3.12"}, "intervals": [],
        "end": {}, "error": "the server is busy running a test. try again later"}"#;
    let error = printed_by_iperf3(busy).err().expect("an error");
    assert_eq!(error.to_string(), "the server is busy running a test. try again later");
    let good = r#"{"start": {}, "intervals": [], "end": {
        "streams": [{"sender": {"min_rtt": 1000, "mean_rtt": 2000}}],
        "sum_sent": {"bits_per_second": 2.0, "retransmits": 3},
        "sum_received": {"bits_per_second": 1.0}}}"#;
    let end = printed_by_iperf3(good).expect("a result");
    assert_eq!(end.sum_received.bits_per_second, 1.0);
}
