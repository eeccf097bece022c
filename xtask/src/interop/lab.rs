//! The laboratory: machines with Lustre's kernel modules in a namespace of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::process::{Finished, capture};

/// A machine boots in 7 to 10 s; a busy host takes many times as long.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// A command inside a machine.
const COMMAND_LIMIT: Duration = Duration::from_secs(200);

/// A laboratory that this process made and takes down when it is dropped.
pub(super) struct Lab {
    program: PathBuf,
    namespace: String,
    state: TempDir,
}

/// Options of a machine's modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modules {
    /// Of `lnet`.
    pub(super) lnet: &'static str,
    /// Of `ksocklnd`.
    pub(super) ksocklnd: &'static str,
}

impl Modules {
    /// One network `tcp`, one connection of each type: the same on every machine, whatever rate the
    /// emulated interface claims.
    pub(super) const USUAL: Modules = Modules { lnet: "", ksocklnd: "conns_per_peer=1" };
}

impl Lab {
    pub(super) fn new(dir: &Path) -> Result<Lab> {
        let program = dir.join("lab");
        ensure!(program.is_file(), "{} is not the program of a laboratory", program.display());
        let program = fs::canonicalize(&program)?;
        let state = tempfile::Builder::new().prefix("lustrine-interop-").tempdir()?;
        let namespace = format!("lstri{}", process::id());
        let (place, at) = (state.path().display(), program.display());
        eprintln!("if this is interrupted: LAB_STATE={place} LAB_NET={namespace} {at} down -a");
        Ok(Lab { program, namespace, state })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A file that goes with the laboratory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.state.path().join(name)
    }

    fn lab(&self, args: &[&str], modules: Modules, limit: Duration) -> Result<Finished> {
        let mut command = Command::new(&self.program);
        command.args(args).env("LAB_STATE", self.state.path()).env("LAB_NET", &self.namespace);
        command.env("LAB_LNET_OPTS", modules.lnet).env("LAB_KSOCK_OPTS", modules.ksocklnd);
        capture(&mut command, limit)
    }

    pub(super) fn up(&self, machine: &str, modules: Modules) -> Result<()> {
        let done = self.lab(&["up", machine], modules, BOOT_LIMIT)?;
        done.output(&format!("lab up {machine}")).map(drop)
    }

    /// Ends a machine at once: it sends no FIN.
    pub(super) fn crash(&self, machine: &str) -> Result<()> {
        let done = self.lab(&["crash", machine], Modules::USUAL, COMMAND_LIMIT)?;
        done.output(&format!("lab crash {machine}")).map(drop)
    }

    /// Connects a machine to the network, or takes it off.
    pub(super) fn link(&self, machine: &str, state: &str) -> Result<()> {
        let done = self.lab(&["link", machine, state], Modules::USUAL, COMMAND_LIMIT)?;
        done.output(&format!("lab link {machine} {state}")).map(drop)
    }

    /// Runs a shell command inside a machine.
    ///
    /// # Errors
    /// When the machine does not answer; a command that fails is no error.
    pub(super) fn sh(&self, machine: &str, command: &str) -> Result<Finished> {
        let done = self.lab(&["sh", machine, command], Modules::USUAL, COMMAND_LIMIT)?;
        ensure!(
            done.status.code() != Some(254),
            "{machine} does not answer: {}",
            done.stderr.trim()
        );
        Ok(done)
    }

    /// Runs a command on this host, inside the namespace.
    pub(super) fn on_host(&self, command: &str) -> Result<String> {
        let mut host = Command::new("ip");
        host.args(["netns", "exec", &self.namespace, "sh", "-c", command]);
        capture(&mut host, COMMAND_LIMIT)?.output(command)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = self.lab(&["down", "-a"], Modules::USUAL, BOOT_LIMIT) {
            eprintln!("the laboratory {} was not taken down: {error:#}", self.namespace);
        }
    }
}
