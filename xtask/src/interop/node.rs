//! Nodes of Lustrine on the host's end of the laboratory's bridge.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{ChildGuard, Finished, capture};

/// A node answers within milliseconds; the host may be busy.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The interval at which a starting node is asked.
const LOOK: Duration = Duration::from_millis(50);
/// Any command of Lustrine that is not given a longer time.
pub(super) const COMMAND_LIMIT: Duration = Duration::from_secs(200);

/// A program and the namespace it runs in.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) file: PathBuf,
    pub(super) namespace: String,
}

impl Program {
    /// A command that uses no running node unless it is given one.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = super::in_namespace(&self.namespace, &self.file);
        command.args(args).env_remove("LUSTRINE_CONTROL");
        command
    }
}

/// A running node; dropping it kills it, as a power cut would.
pub(super) struct Node {
    program: Program,
    control: PathBuf,
    log: PathBuf,
    _process: ChildGuard,
}

impl Node {
    /// Starts a node and waits until it answers.
    pub(super) fn start(
        program: &Program,
        control: PathBuf,
        net: &str,
        settings: &[&str],
    ) -> Result<Node> {
        let log = control.with_extension("log");
        let _ = fs::remove_file(&control);
        let mut command = program.command(&["node", "--net", net]);
        command.args(settings).arg("--control").arg(&control);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        command.stderr(File::create(&log)?);
        let process = ChildGuard::piped(&mut command)?;
        let node = Node { program: program.clone(), control, log, _process: process };
        let deadline = Instant::now() + START_LIMIT;
        while !node.run(&["show", "net"])?.status.success() {
            if Instant::now() >= deadline {
                bail!("the node did not start: {}", node.log()?);
            }
            thread::sleep(LOOK);
        }
        Ok(node)
    }

    /// Runs a command through this node.
    pub(super) fn run(&self, args: &[&str]) -> Result<Finished> {
        capture(&mut self.command(args), COMMAND_LIMIT)
    }

    /// A command through this node, to be started.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program.command(args);
        command.env("LUSTRINE_CONTROL", &self.control);
        command
    }

    /// The path of its control socket.
    pub(super) fn control(&self) -> &Path {
        &self.control
    }

    /// What it wrote to its log.
    pub(super) fn log(&self) -> Result<String> {
        fs::read_to_string(&self.log).context("the log of the node")
    }
}
