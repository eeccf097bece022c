//! The programs we are measured against.

mod iperf3;
mod sockperf;
mod ucx;

use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::machine;
use crate::process;

/// Beyond the time of a measurement its program gets this long to start, warm up and end.
const GRACE: Duration = Duration::from_secs(30);

/// A program, and what it is asked to do. All of it on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Messages per second of UCX over TCP, tag matching, many in flight.
    UcxTagBw { bytes: u32, placement: Placement },
    /// Round-trip time of a TCP ping-pong whose ends wait so, in microseconds.
    Sockperf { bytes: u32, placement: Placement, waiting: Waiting, percentile: Percentile },
    /// MiB per second over one TCP connection.
    Iperf3 { direction: Direction, placement: Placement },
}

/// Which of the latencies of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Percentile {
    Median,
    P99,
}

/// Which way the bytes go, seen from the side that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// How a program waits for the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Waiting {
    /// It asks again and again.
    Polling,
    /// The system wakes it.
    Sleeping,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiting::Polling => "polling",
            Waiting::Sleeping => "sleeping",
        })
    }
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

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Free => write!(f, ", free"),
            Placement::Apart => Ok(()),
        }
    }
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
            Peer::Iperf3 { .. } => "iperf3",
        }
    }

    /// The Debian package that has it.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Peer::UcxTagBw { .. } => "ucx-utils",
            Peer::Sockperf { .. } => "sockperf",
            Peer::Iperf3 { .. } => "iperf3",
        }
    }

    pub(crate) fn is_installed(self) -> bool {
        process::installed(self.program())
    }

    /// One measurement of about `seconds`, in the peer's unit.
    pub(crate) fn measure(self, seconds: u32) -> Result<f64> {
        match self {
            Peer::UcxTagBw { bytes, placement } => ucx::message_rate(bytes, placement, seconds),
            Peer::Sockperf { bytes, placement, waiting, percentile } => {
                sockperf::round_trip_us(bytes, placement, waiting, percentile, seconds)
            }
            Peer::Iperf3 { direction, placement } => {
                iperf3::mib_per_s(direction, placement, seconds)
            }
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::UcxTagBw { bytes, placement } => {
                write!(f, "ucx_perftest tag_bw {bytes} B{placement}")
            }
            Peer::Sockperf { bytes, placement, waiting, .. } => {
                write!(f, "sockperf {bytes} B, {waiting}{placement}")
            }
            Peer::Iperf3 { direction, placement } => {
                let reverse = if *direction == Direction::Read { "-R " } else { "" };
                write!(f, "iperf3 {reverse}-P 1, sleeping{placement}")
            }
        }
    }
}

/// Runs a client to its end and gives what it printed.
fn client(command: &mut Command, seconds: u32, what: &str) -> Result<String> {
    let limit = Duration::from_secs(u64::from(seconds)) + GRACE;
    process::capture(command, limit)?.output(what)
}
