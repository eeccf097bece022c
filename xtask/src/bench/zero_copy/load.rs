//! One load over one link: how fast it is, and how much CPU time it takes.

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use super::completions::{self, Completions};
use super::counters;
use super::hosts::{End, Hosts, INTERFACE, SERVER_ADDRESS};
use crate::bench::{machine, ports};
use crate::laboratory;
use crate::process::{self, ChildGuard};

/// The load flows when the receiver has got this much: more than what precedes the first data.
const FLOWS: u64 = 256 << 10;
/// It flows for this long before the measurement, and at least as long after it.
const MARGIN: Duration = Duration::from_millis(250);
/// How long programs may take to start, and to end beyond their time.
const GRACE: Duration = Duration::from_secs(20);
/// The interval at which a program that starts is looked at.
const LOOK: Duration = Duration::from_millis(3);
/// How long strace observes a sender.
const OBSERVED: &str = "0.6";
/// Of that load, in seconds.
const OBSERVED_LOAD: u32 = 1;
/// The ports of a node and of iperf3.
const LNET_PORT: u16 = 988;
const IPERF3_PORT: u16 = 5201;

/// Tunables of both nodes. Polling would count as work; and iperf3 has one connection, too.
const SETTINGS: [&str; 4] = ["--set", "spin_us=0", "--set", "conns_per_peer=1"];

/// Which way the payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the client to the server.
    Write,
    Read,
}

/// Bytes of an operation, as options say it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(&'static str);

impl Size {
    pub(super) const MIB: Size = Size("1M");
    pub(super) const KIB64: Size = Size("64K");
}

/// How the sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Copied,
    ZeroCopy,
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sending::Copied => "copied",
            Sending::ZeroCopy => "zero copy",
        })
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Reads or writes of `lustrine selftest`.
    Selftest { direction: Direction, size: Size, in_flight: u32 },
    /// One TCP stream from the client to the server, written in pieces of 1 MiB; its zero copy is
    /// sendfile(2).
    Iperf3,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Selftest { direction, size: Size(size), in_flight } => {
                let test = direction.name();
                write!(f, "{test} of {size}, {in_flight} in flight")
            }
            Load::Iperf3 => write!(f, "one stream, without and with -Z"),
        }
    }
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Write => "write",
            Direction::Read => "read",
        }
    }

    fn sender(self) -> End {
        match self {
            Direction::Write => End::Client,
            Direction::Read => End::Server,
        }
    }
}

/// A measurement; CPU times are in seconds per GB (10^9 bytes) that the receiver's interface got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Gb/s of payload, as the program counts it.
    pub(super) gigabits: f64,
    pub(super) sender: f64,
    pub(super) receiver: f64,
    pub(super) machine: f64,
}

/// Counters at one time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    bytes: u64,
    sender: f64,
    receiver: f64,
    machine: f64,
}

impl Mark {
    fn since(&self, before: &Mark, gigabits: f64) -> Result<Measured> {
        let bytes = self.bytes.saturating_sub(before.bytes);
        ensure!(bytes > 0, "nothing was received while it was measured");
        let gigabytes = bytes as f64 / 1e9;
        Ok(Measured {
            gigabits,
            sender: (self.sender - before.sender) / gigabytes,
            receiver: (self.receiver - before.receiver) / gigabytes,
            machine: (self.machine - before.machine) / gigabytes,
        })
    }
}

/// A load that flows.
struct Flowing {
    client: ChildGuard,
    /// Absent once it has been ended.
    server: Option<ChildGuard>,
    /// The processes themselves, below what starts them on their hosts.
    client_pid: u32,
    server_pid: u32,
    /// Which of them sends the payload.
    sender: End,
    /// For the control socket of the server and what the client prints.
    dir: TempDir,
}

impl Load {
    pub(super) fn program(&self) -> &'static str {
        match self {
            Load::Selftest { .. } => "lustrine",
            Load::Iperf3 => "iperf3",
        }
    }

    fn sender(&self) -> End {
        match self {
            Load::Selftest { direction, .. } => direction.sender(),
            Load::Iperf3 => End::Client,
        }
    }

    /// A measurement of this many seconds.
    pub(super) fn measure(
        &self,
        program: &Path,
        hosts: &Hosts<'_>,
        sending: Sending,
        seconds: u32,
    ) -> Result<Measured> {
        let mut flowing = self.start(program, hosts, sending, seconds)?;
        thread::sleep(MARGIN);
        let before = flowing.mark()?;
        thread::sleep(Duration::from_secs(seconds.into()));
        let after = flowing.mark()?;
        let printed = flowing.printed()?;
        let gigabits = match self {
            Load::Selftest { .. } => selftest_gigabits(&printed),
            Load::Iperf3 => iperf3_gigabits(&printed),
        };
        after.since(&before, gigabits.with_context(|| flowing.said())?)
    }

    /// What the kernel says about zero-copy sends: strace observes the sender for a moment, and
    /// slows it down, so this is a run of its own.
    pub(super) fn completions(&self, program: &Path, hosts: &Hosts<'_>) -> Result<Completions> {
        let mut flowing = self.start(program, hosts, Sending::ZeroCopy, OBSERVED_LOAD)?;
        let trace = flowing.dir.path().join("trace");
        let mut strace = Command::new("timeout");
        strace.args(["--signal=INT", OBSERVED, "strace", "-f", "-qq", "-s", "0"]);
        strace.args(["-e", "trace=sendto,sendmsg,recvmsg", "-p", &flowing.sender().to_string()]);
        let finished = process::capture(strace.arg("-o").arg(&trace), GRACE)?;
        let text = fs::read_to_string(&trace)
            .with_context(|| format!("strace: {}", finished.stderr.trim()))?;
        flowing.printed()?;
        let found = completions::read(&text);
        ensure!(found != Completions::default(), "no zero-copy send was seen");
        Ok(found)
    }

    /// Starts the server and the client, and waits until data flow.
    fn start(
        &self,
        program: &Path,
        hosts: &Hosts<'_>,
        sending: Sending,
        seconds: u32,
    ) -> Result<Flowing> {
        let dir = tempfile::tempdir()?;
        let name = program.to_string_lossy();
        let (server_words, client_words, port) = match self {
            Load::Selftest { direction, size, in_flight } => {
                let zero_copy = |end| {
                    let is_on = sending == Sending::ZeroCopy && direction.sender() == end;
                    format!("zero_copy={}", u8::from(is_on))
                };
                let node = format!(
                    "{name} node --net tcp={INTERFACE} --control {}/node.sock --set {}",
                    dir.path().display(),
                    zero_copy(End::Server)
                );
                let time = f64::from(seconds) + 2.0 * MARGIN.as_secs_f64();
                let Size(size) = size;
                let selftest = format!(
                    "{name} selftest --no-node --net tcp={INTERFACE} --to {SERVER_ADDRESS}@tcp \
                     --json - --check none --test {} --size {size} --concurrency {in_flight} \
                     --time {time} --warm-up 0.1 --set {}",
                    direction.name(),
                    zero_copy(End::Client)
                );
                (node, selftest, LNET_PORT)
            }
            Load::Iperf3 => {
                let time = seconds + 1;
                let zero_copy = if sending == Sending::ZeroCopy { "-Z" } else { "" };
                let client =
                    format!("iperf3 -J -c {SERVER_ADDRESS} -P 1 -l 1M -t {time} {zero_copy}");
                ("iperf3 -s".to_owned(), client, IPERF3_PORT)
            }
        };
        let command = |end, words: &str| {
            let pinned = pinned(end);
            let words = pinned.iter().map(String::as_str).chain(words.split_whitespace());
            let mut words: Vec<&str> = words.collect();
            if matches!(self, Load::Selftest { .. }) {
                words.extend(SETTINGS);
            }
            hosts.at(end, &words)
        };
        let server = ChildGuard::silent(&mut command(End::Server, &server_words))?;
        let server_pid = listening(&server, port).context("the server does not start")?;
        let mut client = command(End::Client, &client_words);
        client.stdin(Stdio::null());
        client.stdout(File::create(dir.path().join("out"))?);
        client.stderr(File::create(dir.path().join("error"))?);
        let client = ChildGuard::piped(&mut client)?;
        let mut flowing = Flowing {
            client_pid: client.id(),
            server_pid,
            client,
            server: Some(server),
            sender: self.sender(),
            dir,
        };
        flowing.wait()?;
        Ok(flowing)
    }
}

impl Flowing {
    /// Waits until the receiver gets data.
    fn wait(&mut self) -> Result<()> {
        let mut first = None;
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            thread::sleep(LOOK);
            self.client_pid = counters::descendant(self.client.id());
            if !counters::is_on_a_host(self.client_pid) {
                continue;
            }
            let Ok(bytes) = counters::received(self.receiver(), INTERFACE) else { continue };
            let first = *first.get_or_insert(bytes);
            if bytes.saturating_sub(first) >= FLOWS {
                return Ok(());
            }
        }
        bail!("no data flow; the client said: {}", self.said())
    }

    fn sender(&self) -> u32 {
        match self.sender {
            End::Client => self.client_pid,
            End::Server => self.server_pid,
        }
    }

    fn receiver(&self) -> u32 {
        match self.sender {
            End::Client => self.server_pid,
            End::Server => self.client_pid,
        }
    }

    fn mark(&self) -> Result<Mark> {
        let marked = || -> Result<Mark> {
            Ok(Mark {
                bytes: counters::received(self.receiver(), INTERFACE)?,
                sender: counters::process_cpu(self.sender())?,
                receiver: counters::process_cpu(self.receiver())?,
                machine: counters::machine_cpu()?,
            })
        };
        marked().with_context(|| format!("the client said: {}", self.said()))
    }

    /// Waits for the client's end, and returns what it has printed.
    fn printed(&mut self) -> Result<String> {
        let status = self.client.wait(GRACE)?;
        ensure!(status.success(), "the client: {status}: {}", self.said());
        Ok(fs::read_to_string(self.dir.path().join("out"))?)
    }

    /// What the client said on its standard error, or else on its standard output.
    fn said(&self) -> String {
        let text = |name| fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        let (error, out) = (text("error"), text("out"));
        let said = if error.trim().is_empty() { out } else { error };
        said.trim().to_owned()
    }
}

impl Drop for Flowing {
    /// Waits for the end of the server: what starts it on its host ends before it, and the next one
    /// needs its port.
    fn drop(&mut self) {
        self.server = None;
        let (server, begin) = (format!("/proc/{}", self.server_pid), Instant::now());
        while Path::new(&server).exists() && begin.elapsed() < GRACE {
            thread::sleep(LOOK);
        }
    }
}

/// Waits until a program listens, and returns the process that does.
fn listening(server: &ChildGuard, port: u16) -> Result<u32> {
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline {
        let pid = counters::descendant(server.id());
        let is_there = counters::is_on_a_host(pid);
        if is_there && ports::is_listening_in(&format!("/proc/{pid}/net"), port) {
            return Ok(pid);
        }
        thread::sleep(LOOK);
    }
    bail!("nothing listens on port {port}")
}

/// Each end has a CPU of its own if there are two, as two machines would.
fn pinned(end: End) -> Vec<String> {
    let cpus = machine::allowed_cpus();
    let (Some(first), Some(second)) = (cpus.first(), cpus.get(1)) else { return Vec::new() };
    let cpu = match end {
        End::Client => first,
        End::Server => second,
    };
    vec!["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]
}

/// What `lustrine selftest --json` prints, as far as it is used.
#[derive(Deserialize)]
struct Selftest {
    results: Vec<laboratory::Measured>,
}

fn selftest_gigabits(json: &str) -> Result<f64> {
    let Selftest { results } = serde_json::from_str(json)?;
    let row = results.first().context("no result")?;
    ensure!(row.errors == 0, "{} operations failed", row.errors);
    Ok(row.gigabits())
}

/// What `iperf3 -J` prints, as far as it is used.
#[derive(Deserialize)]
struct Iperf3 {
    end: laboratory::Iperf3,
}

fn iperf3_gigabits(json: &str) -> Result<f64> {
    let Iperf3 { end } = serde_json::from_str(json)?;
    Ok(end.sum_received.bits_per_second / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_per_gigabyte_of_the_time_between_two_marks() {
        let before = Mark { bytes: 1_000, sender: 1.0, receiver: 2.0, machine: 10.0 };
        let after = Mark { bytes: 2_000_001_000, sender: 2.0, receiver: 5.0, machine: 18.0 };
        let measured = after.since(&before, 8.0).expect("a measurement");
        let Measured { gigabits, sender, receiver, machine } = measured;
        assert_eq!([gigabits, sender, receiver, machine], [8.0, 0.5, 1.5, 4.0]);
        assert!(before.since(&after, 8.0).is_err());
    }

    #[test]
    fn rates_are_read() {
        let selftest = r#"{"results": [{"test": "write", "concurrency": 8, "mib_per_s": 1000.0,
            "latency_us": {"p50": 1.0, "p99": 2.0, "max": 3.0}, "errors": 0}]}"#;
        assert_eq!(selftest_gigabits(selftest).expect("a rate"), 8.388608);
        assert!(selftest_gigabits(&selftest.replace("\"errors\": 0", "\"errors\": 1")).is_err());
        assert!(selftest_gigabits(r#"{"results": []}"#).is_err());
        let iperf3 = r#"{"start": {}, "end": {"streams": [], "sum_sent": {"bits_per_second": 3e9},
            "sum_received": {"bits_per_second": 2e9}}}"#;
        assert_eq!(iperf3_gigabits(iperf3).expect("a rate"), 2.0);
        assert!(iperf3_gigabits(r#"{"end": {}, "error": "busy"}"#).is_err());
    }
}
