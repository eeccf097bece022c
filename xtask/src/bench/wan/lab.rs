//! Two namespaces and the long link between them, from creation to removal.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::LinkSpec;
use crate::process;

/// The time-out of commands of `ip` and `sysctl`.
const COMMAND_MAX: Duration = Duration::from_secs(10);

/// A link that is not ended by its owner ends after this many seconds.
const LINK_MAX: u64 = 600;

/// Settings of both ends besides Linux's defaults: sufficient buffers for every link, and no
/// metrics of earlier connections.
const SETTINGS: [(&str, &str); 4] = [
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_wmem", "4096 16384 16777216"),
    ("ipv4/tcp_rmem", "4096 131072 33554432"),
    ("ipv6/conf/all/disable_ipv6", "1"),
];

/// Largest send and receive buffers of [`SETTINGS`].
pub(super) const SEND_BUFFER: u64 = 16 << 20;
pub(super) const RECEIVE_BUFFER: u64 = 32 << 20;

/// The statistics of a link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Carried {
    /// Packets in both directions: delivered, dropped at a full queue, refused by the kernel.
    pub(super) carried: u64,
    pub(super) dropped: u64,
    pub(super) refused: u64,
    /// How late packets were delivered; times are rounded up to powers of two.
    pub(super) late_us_p50: u64,
    pub(super) late_us_p99: u64,
    pub(super) late_us_p999: u64,
    pub(super) late_us_max: u64,
}

/// A long link whose ends are the namespaces [`Lab::sender`] and [`Lab::receiver`]. Everything is
/// removed when this is dropped.
pub(super) struct Lab {
    /// Namespaces of the link itself, the sender and the receiver.
    spaces: [String; 3],
    link: Option<(Child, BufReader<ChildStdout>)>,
}

impl Lab {
    /// Address of the receiver.
    pub(super) const RECEIVER: &str = "10.9.0.2";

    /// `number` distinguishes labs that exist at the same time.
    pub(super) fn new(number: u32, spec: &LinkSpec, program: &Path) -> Result<Lab> {
        let space = |role: &str| format!("lustrine-wan-{role}-{number}");
        let mut lab = Lab { spaces: ["link", "from", "to"].map(space), link: None };
        // Remains of a run that was killed.
        lab.remove_spaces();
        for space in &lab.spaces {
            ip(&["netns", "add", space]).context("namespaces need root")?;
        }
        lab.start_link(spec, program)?;
        let [middle, ends @ ..] = &lab.spaces;
        for (space, (device, (own, other))) in ends
            .iter()
            .zip([("wan0", ("10.9.0.1", Lab::RECEIVER)), ("wan1", (Lab::RECEIVER, "10.9.0.1"))])
        {
            let peer = format!("{other}/32");
            ip(&["-n", middle, "link", "set", device, "netns", space])?;
            ip(&["-n", space, "address", "add", own, "peer", &peer, "dev", device])?;
            ip(&["-n", space, "link", "set", device, "mtu", "1500", "txqueuelen", "20000", "up"])?;
            ip(&["-n", space, "link", "set", "lo", "up"])?;
            for (name, value) in SETTINGS {
                let script = format!("echo '{value}' > /proc/sys/net/{name}");
                output(inside(space).args(["sh", "-c", &script]))?;
            }
        }
        Ok(lab)
    }

    fn start_link(&mut self, spec: &LinkSpec, program: &Path) -> Result<()> {
        let mut command = inside(&self.spaces[0]);
        command.arg(program).args(["wan0", "wan1"]).args(
            [spec.bits(), spec.round_trip_ns() / 2, spec.queue(), LINK_MAX].map(|n| n.to_string()),
        );
        // The process ends with its standard input, and so with this process in any case.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot run ip")?;
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        let read = lines.read_line(&mut line);
        self.link = Some((child, lines));
        read?;
        ensure!(line == "ready\n", "the emulated link does not start");
        Ok(())
    }

    /// A program to be run at the sender's end.
    pub(super) fn sender(&self, program: &Path) -> Command {
        at(&self.spaces[1], program)
    }

    /// A program to be run at the receiver's end.
    pub(super) fn receiver(&self, program: &Path) -> Command {
        at(&self.spaces[2], program)
    }

    /// The statistics of the link, which has ended then.
    pub(super) fn end(&mut self) -> Result<Carried> {
        let (mut child, mut lines) = self.link.take().context("the link has ended before")?;
        drop(child.stdin.take());
        let deadline = Instant::now() + COMMAND_MAX;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                // Both fail if the process has just ended, which is the aim.
                let _ = child.kill();
                let _ = child.wait();
                bail!("the emulated link does not end");
            }
            thread::sleep(Duration::from_millis(5));
        }
        let mut text = String::new();
        lines.read_to_string(&mut text)?;
        serde_json::from_str(&text).with_context(|| format!("the emulated link said {text:?}"))
    }

    fn remove_spaces(&self) {
        for space in &self.spaces {
            if fs::exists(Path::new("/run/netns").join(space)).unwrap_or(false) {
                let _ = ip(&["netns", "delete", space]);
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.link.is_some() {
            let _ = self.end();
        }
        self.remove_spaces();
    }
}

/// A command to be run in a namespace with priority: delays would distort the measurement.
fn inside(space: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "-5", "ip", "netns", "exec", space]);
    command
}

fn at(space: &str, program: &Path) -> Command {
    let mut command = inside(space);
    command.arg(program);
    command
}

fn ip(words: &[&str]) -> Result<()> {
    output(Command::new("ip").args(words))
}

fn output(command: &mut Command) -> Result<()> {
    let what = format!("{command:?}");
    process::capture(command, COMMAND_MAX)?.output(&what).map(drop)
}
