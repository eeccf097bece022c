//! The other side of a selftest: a node elsewhere, or one started for the run.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use lustrine_config::{InterfaceChoice, NetConfig};
use lustrine_control::{Answer, Request};
use lustrine_node::control;
use lustrine_plan::NodeSettings;
use lustrine_wire::nid::{Net, Nid};

use super::children::{Guard, free_port, node_command, spawn, stop, wait_for};
use super::run_dir::RunDir;
use crate::common::NodeOptions;
use crate::interrupt::Interrupt;
use crate::output::Failure;
use crate::provenance;

/// The addresses of the second node and of this one. Two nodes cannot share an address.
const TARGET_IP: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OWN_IP: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The node that is measured.
pub(super) struct Target {
    pub(super) nid: Nid,
    started: Option<Started>,
}

/// Processes started for this run. They end when their standard input closes, so they cannot
/// outlive this process, and are stopped when this is dropped. They are in separate process groups:
/// Ctrl-C on the terminal reaches only this process, which ends the session before it ends them.
struct Started {
    node: Child,
    raw: Child,
    raw_addr: SocketAddr,
    control: PathBuf,
    port: u16,
    /// The directory with the node's control socket.
    _dir: RunDir,
}

impl Target {
    /// A node that is running somewhere.
    pub(super) fn elsewhere(nid: Nid) -> Target {
        Target { nid, started: None }
    }

    /// Starts a node in a separate process, with the tunables of this one.
    pub(super) fn start(options: &NodeOptions, interrupt: &Interrupt) -> Result<Target, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot find the file of this program: {error}"))?;
        let port = free_port(TARGET_IP).map_err(|error| format!("no free TCP port: {error}"))?;
        let dir = RunDir::new()?;
        let control = dir.path().join("control.sock");
        let mut command = node_command(&program, options, (TARGET_IP, port), &control);
        // From here on, every error must stop the processes.
        let mut node = spawn(&mut command)?;
        // The plain TCP measurement may take any free port, also that of a node that does not
        // listen yet.
        wait_for(&control, &mut node, interrupt)?;
        let mut raw = Command::new(&program)
            .args(["raw-tcp", "--listen", &TARGET_IP.to_string()])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map(|child| Guard(Some(child)))
            .map_err(|error| format!("cannot start the plain TCP measurement: {error}"))?;
        let raw_addr = read_address(&mut raw)?;
        let (node, raw) = (node.keep(), raw.keep());
        let started = Started { node, raw, raw_addr, control, port, _dir: dir };
        Ok(Target { nid: Nid::from_ip(Net::TCP, TARGET_IP.into()), started: Some(started) })
    }

    /// Whether it was started for this run.
    pub(super) fn is_ours(&self) -> bool {
        self.started.is_some()
    }

    /// The network of the local node, if this command started the target.
    pub(super) fn own_net(&self) -> Option<NetConfig> {
        let started = self.started.as_ref()?;
        let mut net = NetConfig::new(Net::TCP, InterfaceChoice::Address(IpAddr::V4(OWN_IP)));
        net.port = Some(started.port);
        Some(net)
    }

    /// The address of the plain TCP measurement.
    pub(super) fn raw_addr(&self) -> Option<SocketAddr> {
        self.started.as_ref().map(|started| started.raw_addr)
    }

    /// Its settings, if this command started it.
    pub(super) fn settings(&self) -> Option<NodeSettings> {
        let started = self.started.as_ref()?;
        let mut ask = |request: &Request| control::ask(&started.control, request).ok();
        Some(provenance::of_node(self.nid, Some(provenance::own_version()), &mut ask))
    }

    /// CPU seconds that its process has used, if they are known.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        let started = self.started.as_ref()?;
        match control::ask(&started.control, &Request::ShowStats) {
            Ok(Answer::Stats { stats }) => Some(stats.cpu_s.0),
            _ => None,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for child in [&mut self.node, &mut self.raw] {
            stop(child);
        }
    }
}

fn read_address(raw: &mut Guard) -> Result<SocketAddr, Failure> {
    let stdout = raw.0.as_mut().and_then(|child| child.stdout.take());
    let mut line = String::new();
    stdout
        .ok_or("the plain TCP measurement has no output")
        .and_then(|stdout| {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(|_| "the plain TCP measurement ended early")
        })
        .map_err(str::to_owned)?;
    line.trim().parse().map_err(|_| "the plain TCP measurement did not start".to_owned().into())
}
