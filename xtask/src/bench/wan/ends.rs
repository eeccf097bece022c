//! Streams over real sockets (`crates/sys/examples/long_streams`) and in the simulator
//! (`crates/sim/examples/streams`), with the same arguments and the same output.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::LinkSpec;
use super::lab::{self, Lab};
use crate::process;
use crate::repository::{cargo, target_dir};

/// A release build from nothing, on a small machine.
const BUILD_MAX: Duration = Duration::from_secs(20 * 60);

/// The limit for loading a module.
const MODPROBE_MAX: Duration = Duration::from_secs(10);

/// The limit of a run.
const RUN_MAX: Duration = Duration::from_secs(120);

const PORT: u16 = 5000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Congestion {
    Cubic,
    Bbr,
    Bic,
}

/// The algorithms that the kernel has, in words.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

impl Congestion {
    pub(super) const ALL: [Congestion; 3] = [Congestion::Cubic, Congestion::Bbr, Congestion::Bic];

    pub(super) fn name(self) -> &'static str {
        match self {
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
            Congestion::Bic => "bic",
        }
    }

    /// Whether this kernel has it, if need be as a module that can be loaded.
    pub(super) fn is_available(self) -> Result<bool> {
        if self.is_listed(&fs::read_to_string(AVAILABLE).context(AVAILABLE)?) {
            return Ok(true);
        }
        // It fails where there are no modules; the list says what came of it.
        let mut load = Command::new("modprobe");
        load.args(["--quiet", &format!("tcp_{}", self.name())]);
        let _ = process::capture(&mut load, MODPROBE_MAX);
        Ok(self.is_listed(&fs::read_to_string(AVAILABLE).context(AVAILABLE)?))
    }

    fn is_listed(self, available: &str) -> bool {
        available.split_whitespace().any(|name| name == self.name())
    }
}

/// Streams that begin at the same time.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) streams: u32,
    /// The bytes on each stream, or the time after its first write.
    pub(super) bytes: u64,
    pub(super) until_ns: u64,
    /// The socket's limit, in the kernel's count; `None` leaves it to the kernel.
    pub(super) send_buffer: Option<u64>,
    /// The times after the first write at which the received bytes are counted.
    pub(super) marks_ns: Vec<u64>,
}

impl Run {
    fn marks(&self) -> String {
        let marks: Vec<String> = self.marks_ns.iter().map(u64::to_string).collect();
        marks.join(",")
    }
}

/// The results of the streams.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    pub(super) streams: Vec<Stream>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Stream {
    /// Bytes that had arrived at each mark, and in total.
    pub(super) at: Vec<u64>,
    pub(super) total: u64,
    /// When the last byte came.
    pub(super) last_ns: u64,
}

/// The two programs.
pub(super) struct Programs {
    pub(super) link: PathBuf,
    real: PathBuf,
    simulated: PathBuf,
}

impl Programs {
    /// Builds them.
    pub(super) fn build() -> Result<Programs> {
        let mut command = cargo();
        command.args(["build", "--release", "--locked"]);
        command.args(["--package", "lustrine-sys", "--package", "lustrine-sim"]);
        command.args(["--example", "long_link", "--example", "long_streams"]);
        command.args(["--example", "streams"]);
        let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
        ensure!(status.success(), "the examples do not build");
        let examples = target_dir().join("release").join("examples");
        let [link, real, simulated] =
            ["long_link", "long_streams", "streams"].map(|name| examples.join(name));
        Ok(Programs { link, real, simulated })
    }

    /// Over real sockets.
    pub(super) fn measure(&self, lab: &Lab, by: Congestion, run: &Run) -> Result<Outcome> {
        let (door, streams) = (format!("{}:{PORT}", Lab::RECEIVER), run.streams.to_string());
        let mut receiver = lab.receiver(&self.real);
        receiver.args(["receive", &door, &streams, &run.marks()]);
        receiver.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut receiver = process::ChildGuard::piped(&mut receiver)?;
        let mut lines = BufReader::new(receiver.stdout().context("the receiver's output")?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        ensure!(line == "ready\n", "the receiver does not start");

        let mut sender = lab.sender(&self.real);
        sender.args(["send", &door, &streams, by.name()]);
        sender.args([run.bytes, run.until_ns].map(|number| number.to_string()));
        // The kernel reserves twice the requested size, for its own use.
        sender.arg((run.send_buffer.unwrap_or(0) / 2).to_string());
        process::capture(&mut sender, RUN_MAX)?.output("the sender")?;
        let status = receiver.wait(RUN_MAX)?;
        ensure!(status.success(), "the receiver: {status}");
        let mut text = String::new();
        lines.read_to_string(&mut text)?;
        understand(&text, run)
    }

    /// In the simulator.
    pub(super) fn simulate(&self, link: &LinkSpec, by: Congestion, run: &Run) -> Result<Outcome> {
        let mut command = Command::new(&self.simulated);
        let send_buffer = run.send_buffer.unwrap_or(lab::SEND_BUFFER);
        command.args([link.bits(), link.round_trip_ns() / 2, link.queue()].map(|n| n.to_string()));
        command.args([by.name(), &run.streams.to_string()]);
        command.args(
            [run.bytes, run.until_ns, send_buffer, lab::RECEIVE_BUFFER].map(|n| n.to_string()),
        );
        command.arg(run.marks());
        let text = process::capture(&mut command, RUN_MAX)?.output("the simulator")?;
        understand(&text, run)
    }
}

fn understand(text: &str, run: &Run) -> Result<Outcome> {
    let outcome: Outcome =
        serde_json::from_str(text).with_context(|| format!("it printed {text:?}"))?;
    let marks = outcome.streams.iter().all(|stream| stream.at.len() == run.marks_ns.len());
    ensure!(
        outcome.streams.len() == run.streams as usize && marks,
        "unexpected number of streams or marks: {text}"
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_found_by_whole_names() {
        assert!(Congestion::Bic.is_listed("reno bbr bic cubic\n"));
        assert!(!Congestion::Bic.is_listed("reno bbr cubic\n"));
        assert!(!Congestion::Bic.is_listed("bictcp\n"), "a part of a name is not it");
    }
}
