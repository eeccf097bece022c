//! The programs we are measured against.

mod iperf3;
mod sockperf;
mod ucx;

use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::machine;
use super::ours::Waiting;
use crate::process;

/// Beyond the time of a measurement its program gets this long to start, warm up and end.
const GRACE: Duration = Duration::from_secs(30);

/// A program, and what it is asked to do. All of it on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Messages per second of UCX over TCP, tag matching, many in flight.
    UcxTagBw { bytes: u32 },
    /// Round-trip time of a TCP ping-pong whose ends wait so: the median, in microseconds.
    Sockperf { bytes: u32, placement: Placement, waiting: Waiting },
    /// MiB per second over one TCP connection.
    Iperf3(Direction),
}

/// Which way the bytes go, seen from the side that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// On which CPUs the two ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Wherever the system puts them, which may be one and the same CPU: a message then costs a
    /// change of process and no thread has to be woken on another CPU.
    Free,
    /// One on each of the first two CPUs that we may use.
    Apart,
}

impl Placement {
    /// The end that is measured against.
    fn server(self, program: &str) -> Command {
        self.on_cpu(program, 1)
    }

    /// The end that measures.
    fn client(self, program: &str) -> Command {
        self.on_cpu(program, 0)
    }

    fn on_cpu(self, program: &str, which: usize) -> Command {
        let cpus = machine::allowed_cpus();
        match (self, cpus.get(which)) {
            (Placement::Apart, Some(cpu)) if cpus.len() > 1 => {
                let mut command = Command::new("taskset");
                command.args(["-c", &cpu.to_string(), program]);
                command
            }
            _ => Command::new(program),
        }
    }
}

impl Peer {
    pub(crate) fn program(self) -> &'static str {
        match self {
            Peer::UcxTagBw { .. } => "ucx_perftest",
            Peer::Sockperf { .. } => "sockperf",
            Peer::Iperf3(_) => "iperf3",
        }
    }

    /// The Debian package that has it.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Peer::UcxTagBw { .. } => "ucx-utils",
            Peer::Sockperf { .. } => "sockperf",
            Peer::Iperf3(_) => "iperf3",
        }
    }

    pub(crate) fn is_installed(self) -> bool {
        process::installed(self.program())
    }

    /// One measurement of about `seconds`, in the peer's unit.
    pub(crate) fn measure(self, seconds: u32) -> Result<f64> {
        match self {
            Peer::UcxTagBw { bytes } => ucx::message_rate(bytes, seconds),
            Peer::Sockperf { bytes, placement, waiting } => {
                sockperf::round_trip_us(bytes, placement, waiting, seconds)
            }
            Peer::Iperf3(direction) => iperf3::mib_per_s(direction, seconds),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::UcxTagBw { bytes } => write!(f, "ucx_perftest tag_bw {bytes} B"),
            Peer::Sockperf { bytes, placement, waiting } => {
                let place = if *placement == Placement::Free { ", free" } else { "" };
                write!(f, "sockperf {bytes} B, {waiting}{place}")
            }
            Peer::Iperf3(Direction::Read) => write!(f, "iperf3 -R -P 1, sleeping"),
            Peer::Iperf3(Direction::Write) => write!(f, "iperf3 -P 1, sleeping"),
        }
    }
}

/// Runs a client to its end and gives what it printed.
fn client(command: &mut Command, seconds: u32, what: &str) -> Result<String> {
    let limit = Duration::from_secs(u64::from(seconds)) + GRACE;
    process::capture(command, limit)?.output(what)
}
