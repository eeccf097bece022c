//! The laboratory: machines with Lustre's kernel modules in a namespace of their own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::process::{Finished, capture};

/// A machine boots in 7 to 10 s; a busy host takes many times as long.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// A command inside a machine.
const COMMAND_LIMIT: Duration = Duration::from_secs(200);

/// A laboratory that this process made and takes down when it is dropped.
pub(crate) struct Lab {
    program: PathBuf,
    namespace: String,
    state: TempDir,
    /// Where this host mounts the laboratory's file system, once that was asked for.
    mounts: Option<PathBuf>,
}

/// Options of a machine's modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modules {
    /// Of `lnet`.
    pub(crate) lnet: &'static str,
    /// Of `ksocklnd`.
    pub(crate) ksocklnd: &'static str,
}

impl Modules {
    /// One network `tcp`, one connection of each type: the same on every machine, whatever rate the
    /// emulated interface claims.
    pub(crate) const USUAL: Modules = Modules { lnet: "", ksocklnd: "conns_per_peer=1" };
}

impl Lab {
    pub(crate) fn new(dir: &Path) -> Result<Lab> {
        let program = dir.join("lab");
        ensure!(program.is_file(), "{} is not the program of a laboratory", program.display());
        let program = fs::canonicalize(&program)?;
        let state = tempfile::Builder::new().prefix("lustrine-lab-").tempdir()?;
        let namespace = format!("lstri{}", process::id());
        let (place, at) = (state.path().display(), program.display());
        eprintln!("if this is interrupted: LAB_STATE={place} LAB_NET={namespace} {at} down -a");
        Ok(Lab { program, namespace, state, mounts: None })
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A file that goes with the laboratory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.state.path().join(name)
    }

    /// A directory on which this host can mount the laboratory's file system.
    ///
    /// A machine that is started later has a copy of the mount, as any `ip netns exec`, and the
    /// program of the mount would stay for as long as the machine. The copies of what is below a
    /// shared mount are unmounted with it.
    pub(crate) fn mount_point(&mut self) -> Result<PathBuf> {
        let dir = self.file("mounts");
        let point = dir.join("mount");
        if self.mounts.is_none() {
            fs::create_dir_all(&point).with_context(|| point.display().to_string())?;
            let bind = [OsStr::new("--bind"), dir.as_os_str(), dir.as_os_str()];
            let share = [OsStr::new("--make-shared"), dir.as_os_str()];
            for args in [&bind[..], &share] {
                let done = capture(Command::new("mount").args(args), COMMAND_LIMIT)?;
                done.output(&format!("mount {args:?}"))?;
            }
            self.mounts = Some(dir);
        }
        Ok(point)
    }

    fn lab(&self, args: &[&str], modules: Modules, limit: Duration) -> Result<Finished> {
        let mut command = Command::new(&self.program);
        command.args(args).env("LAB_STATE", self.state.path()).env("LAB_NET", &self.namespace);
        command.env("LAB_LNET_OPTS", modules.lnet).env("LAB_KSOCK_OPTS", modules.ksocklnd);
        capture(&mut command, limit)
    }

    pub(crate) fn up(&self, machine: &str, modules: Modules) -> Result<()> {
        // The server has two metadata targets, so that there are directories on both.
        let args: &[&str] = match machine {
            "server" => &["up", machine, "--mdts", "2"],
            _ => &["up", machine],
        };
        let done = self.lab(args, modules, BOOT_LIMIT)?;
        done.output(&format!("lab up {machine}")).map(drop)
    }

    /// Ends a machine at once: it sends no FIN.
    pub(crate) fn crash(&self, machine: &str) -> Result<()> {
        let done = self.lab(&["crash", machine], Modules::USUAL, COMMAND_LIMIT)?;
        done.output(&format!("lab crash {machine}")).map(drop)
    }

    /// Connects a machine to the network, or takes it off.
    pub(crate) fn link(&self, machine: &str, state: &str) -> Result<()> {
        let done = self.lab(&["link", machine, state], Modules::USUAL, COMMAND_LIMIT)?;
        done.output(&format!("lab link {machine} {state}")).map(drop)
    }

    /// Runs a shell command inside a machine.
    ///
    /// # Errors
    /// When the machine does not answer; a command that fails is no error.
    pub(crate) fn sh(&self, machine: &str, command: &str) -> Result<Finished> {
        let done = self.lab(&["sh", machine, command], Modules::USUAL, COMMAND_LIMIT)?;
        ensure!(
            done.status.code() != Some(254),
            "{machine} does not answer: {}",
            done.stderr.trim()
        );
        Ok(done)
    }

    /// Copies a file into a machine.
    pub(crate) fn put(&self, machine: &str, file: &Path, to: &str) -> Result<()> {
        let file = file.to_str().context("the path is not UTF-8")?;
        let done = self.lab(&["put", machine, file, to], Modules::USUAL, COMMAND_LIMIT)?;
        done.output(&format!("lab put {machine} {file}")).map(drop)
    }

    /// Runs a command on this host, inside the namespace.
    pub(crate) fn on_host(&self, command: &str) -> Result<String> {
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
        if let Some(dir) = &self.mounts
            && let Err(error) = capture(Command::new("umount").arg(dir), COMMAND_LIMIT)
                .and_then(|done| done.output("umount"))
        {
            eprintln!("{} was not unmounted: {error:#}", dir.display());
        }
    }
}
