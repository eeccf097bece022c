//! What a check works with: kernel machines, which later checks use again, and nodes of Lustrine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::node::{COMMAND_LIMIT, Node, Program};
use crate::kernel_lab::{Lab, Modules};
use crate::process::{Finished, capture};

/// The NID of Lustrine's usual node: the host's own address, lower than those of the kernel nodes.
pub(super) const OURS: &str = "10.77.0.1@tcp";
/// Another address of the host, higher than those of the kernel nodes.
pub(super) const OURS_HIGHER: &str = "10.77.0.200@tcp";
/// The first kernel node.
pub(super) const KERNEL: &str = "10.77.0.2@tcp";
/// The second kernel node.
pub(super) const KERNEL_2: &str = "10.77.0.3@tcp";

pub(super) struct Testbed {
    lab: Lab,
    program: Program,
    /// How long the long run takes.
    pub(super) long: Duration,
    /// The machines that are up, with their options.
    machines: BTreeMap<&'static str, Modules>,
    nodes: u32,
    version: Option<String>,
}

impl Testbed {
    pub(super) fn new(lab: Lab, lustrine: PathBuf, long: Duration) -> Testbed {
        let program = Program { file: lustrine, namespace: lab.namespace().to_owned() };
        Testbed { lab, program, long, machines: BTreeMap::new(), nodes: 0, version: None }
    }

    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// A directory on which this host can mount the laboratory's file system.
    pub(super) fn mount_point(&mut self) -> Result<PathBuf> {
        self.lab.mount_point()
    }

    /// The program under test.
    pub(super) fn lustrine_file(&self) -> &Path {
        &self.program.file
    }

    /// Makes sure that a kernel node is up with these options; `node2` and `node3` exist.
    pub(super) fn kernel(&mut self, machine: &'static str, modules: Modules) -> Result<()> {
        if self.machines.get(machine) == Some(&modules) {
            return Ok(());
        }
        if self.machines.remove(machine).is_some() {
            self.lab.crash(machine)?;
        }
        self.lab.up(machine, modules)?;
        self.machines.insert(machine, modules);
        if self.version.is_none() {
            let release = self.sh(machine, "lnetctl --version; uname -sr")?;
            // "lnetctl 2.17.0" and "Linux 6.1.0"
            let mut words = release.split_whitespace().skip(1);
            let lustre = words.next().unwrap_or_default();
            let system = words.collect::<Vec<_>>().join(" ");
            self.version = Some(format!("Lustre {lustre} on {system}"));
        }
        Ok(())
    }

    /// As [`Testbed::kernel`], and the machine starts anew: it knows no peer.
    pub(super) fn fresh_kernel(&mut self, machine: &'static str, modules: Modules) -> Result<()> {
        if self.machines.remove(machine).is_some() {
            self.lab.crash(machine)?;
        }
        self.kernel(machine, modules)
    }

    /// Starts a kernel node anew whose only NID is an IPv6 one, fd77::2@tcp for `node2`. The check
    /// that wants it turns it off.
    pub(super) fn large_nid(&mut self, machine: &'static str) -> Result<()> {
        self.fresh_kernel(machine, Modules::USUAL)?;
        let address = machine.replace("node", "fd77::");
        let change = format!("lnetctl net del --net tcp; lnetctl net add --nid {address}@tcp");
        self.sh(machine, &change).map(drop)
    }

    /// Cuts the power of a machine; the next use starts it.
    pub(super) fn power_off(&mut self, machine: &str) -> Result<()> {
        self.machines.remove(machine);
        self.lab.crash(machine)
    }

    /// The next check starts all machines anew.
    pub(super) fn forget_machines(&mut self) {
        for machine in std::mem::take(&mut self.machines).into_keys() {
            // A machine that has died already is no obstacle.
            let _ = self.lab.crash(machine);
        }
    }

    /// Whether a machine is up.
    pub(super) fn is_up(&self, machine: &str) -> bool {
        self.machines.contains_key(machine)
    }

    /// Runs a command of Lustrine without a node that runs.
    pub(super) fn lustrine(&self, args: &[&str]) -> Result<Finished> {
        capture(&mut self.program.command(args), COMMAND_LIMIT)
    }

    /// Such a command, to be run by the caller.
    pub(super) fn lustrine_command(&self, args: &[&str]) -> Command {
        self.program.command(args)
    }

    /// Runs a command in a kernel node; its output, if it succeeded.
    pub(super) fn sh(&self, machine: &str, command: &str) -> Result<String> {
        let done = self.lab.sh(machine, command)?;
        ensure!(
            done.status.success(),
            "{machine}: `{command}` ended with {}: {}",
            done.status,
            (done.stdout + &done.stderr).trim()
        );
        Ok(done.stdout)
    }

    /// Starts a node of Lustrine with this NID.
    pub(super) fn node(&mut self, nid: &str, settings: &[&str]) -> Result<Node> {
        let Some((address, net)) = nid.split_once('@') else { bail!("{nid} is no NID") };
        self.own_address(address)?;
        self.node_on(&format!("{net}={address}"), settings)
    }

    /// Starts a node of Lustrine with this `--net`.
    pub(super) fn node_on(&mut self, net: &str, settings: &[&str]) -> Result<Node> {
        self.nodes += 1;
        let control = self.lab.file(&format!("node{}.sock", self.nodes));
        Node::start(&self.program, control, net, settings)
    }

    /// Gives the host an address, if it does not have it.
    pub(super) fn own_address(&self, address: &str) -> Result<()> {
        let (length, option) = if address.contains(':') { (64, "-6") } else { (24, "-4") };
        let add = format!(
            "ip -o addr show dev br0 | grep -qwF {address} || \
             ip {option} addr add {address}/{length} dev br0"
        );
        self.lab.on_host(&add).map(drop)
    }

    /// What the kernel nodes say of themselves.
    pub(super) fn kernel_version(&self) -> String {
        self.version.clone().unwrap_or_else(|| "no kernel node".to_owned())
    }
}
