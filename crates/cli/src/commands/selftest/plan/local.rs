//! Nodes that a plan starts on this machine: processes, each with its own loopback address.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Child;

use lustrine_config::{InterfaceChoice, NetConfig};
use lustrine_control::Request;
use lustrine_node::control;
use lustrine_plan::NodeSettings;
use lustrine_wire::nid::{Net, Nid};

use crate::commands::selftest::children::{free_port, node_command, spawn, stop, wait_for};
use crate::commands::selftest::run_dir::RunDir;
use crate::common::NodeOptions;
use crate::interrupt::Interrupt;
use crate::output::Failure;
use crate::provenance;

/// The address of the console.
const OWN_IP: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// The first node's address; 127.0.0.0/24 is left to others.
const FIRST_IP: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// Largest number of nodes: more would only measure this machine's scheduler.
pub(super) const NODES_MAX: u32 = 64;

/// Nodes that end when this is dropped.
pub(super) struct LocalNodes {
    children: Vec<Child>,
    port: u16,
    /// The directory with the nodes' control sockets.
    dir: RunDir,
}

impl LocalNodes {
    /// Starts this number of nodes.
    ///
    /// # Errors
    /// When one does not start.
    pub(super) fn start(
        count: u32,
        options: &NodeOptions,
        interrupt: &Interrupt,
    ) -> Result<LocalNodes, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot find the file of this program: {error}"))?;
        let port = free_port(address(0)).map_err(|error| format!("no free TCP port: {error}"))?;
        let dir = RunDir::new()?;
        let mut nodes = LocalNodes { children: Vec::new(), port, dir };
        let mut guards = Vec::new();
        for index in 0..count {
            let control = nodes.control(index);
            let place = (address(index), port);
            let mut command = node_command(&program, options, place, &control);
            // Only this plan's console may make them send load.
            match options.basic.net.is_empty() && options.basic.config.is_none() {
                true => {
                    let console = Nid::from_ip(Net::TCP, OWN_IP.into());
                    command.arg("--selftest-consoles").arg(console.to_string())
                }
                // The user may choose the console's address.
                false => command.args(["--selftest", "full"]),
            };
            guards.push(spawn(&mut command)?);
        }
        for (index, mut guard) in (0..count).zip(guards) {
            wait_for(&nodes.control(index), &mut guard, interrupt)?;
            nodes.children.push(guard.keep());
        }
        Ok(nodes)
    }

    /// Their NIDs.
    pub(super) fn nids(&self) -> impl Iterator<Item = Nid> {
        nids().take(self.children.len())
    }

    /// Their settings.
    pub(super) fn settings(&self) -> Vec<NodeSettings> {
        let of = |(index, nid): (u32, Nid)| {
            let control = self.control(index);
            let mut ask = |request: &Request| control::ask(&control, request).ok();
            provenance::of_node(nid, Some(provenance::own_version()), &mut ask)
        };
        (0..).zip(self.nids()).map(of).collect()
    }

    /// The network of the console's node.
    pub(super) fn own_net(&self) -> NetConfig {
        let mut net = NetConfig::new(Net::TCP, InterfaceChoice::Address(IpAddr::V4(OWN_IP)));
        net.port = Some(self.port);
        net
    }

    fn control(&self, index: u32) -> std::path::PathBuf {
        self.dir.path().join(format!("{index}.sock"))
    }
}

impl Drop for LocalNodes {
    fn drop(&mut self) {
        // All are started first, because each takes some time.
        self.children.iter_mut().for_each(|child| drop(child.stdin.take()));
        self.children.iter_mut().for_each(stop);
    }
}

/// Whether this number of nodes can be started.
pub(super) fn check(count: u32) -> Result<(), Failure> {
    match count <= NODES_MAX {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "--local starts at most {NODES_MAX} nodes; the plan's groups have {count}"
        ))),
    }
}

/// The NIDs that nodes get, in order.
pub(super) fn nids() -> impl Iterator<Item = Nid> {
    (0..).map(|index| Nid::from_ip(Net::TCP, address(index).into()))
}

fn address(index: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_IP.to_bits() + index)
}
