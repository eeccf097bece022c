//! Child processes: nodes on this machine's loopback for the time of a run.
//!
//! They end when their standard input closes, so they cannot outlive this process. They are in
//! separate process groups: Ctrl-C on the terminal reaches only this process, which ends sessions
//! before it ends the children.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lustrine_control::Request;
use lustrine_node::control;

use crate::common::NodeOptions;
use crate::interrupt::Interrupt;
use crate::output::Failure;

/// How long a node may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The command that runs a node at an address, with the tunables and identity of these options.
pub(super) fn node_command(
    program: &Path,
    options: &NodeOptions,
    (ip, port): (Ipv4Addr, u16),
    control: &Path,
) -> Command {
    let mut command = Command::new(program);
    command
        .args(["node", "--until-eof", "--accept", "all"])
        .arg("--net")
        .arg(format!("tcp={ip}:{port}"))
        .arg("--control")
        .arg(control)
        .env("LUSTRINE_LOG", "warn")
        .process_group(0)
        .stdin(Stdio::piped());
    for pair in &options.basic.set {
        command.args(["--set", &pair.to_string()]);
    }
    if let Some(identity) = options.basic.identity {
        let word = clap::ValueEnum::to_possible_value(&identity)
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default();
        command.args(["--identity", &word]);
    }
    command
}

/// Starts a process that is stopped unless the guard is dismissed.
pub(super) fn spawn(command: &mut Command) -> Result<Guard, Failure> {
    let child = command.spawn().map_err(|error| format!("cannot start a node: {error}"))?;
    Ok(Guard(Some(child)))
}

/// A child that is stopped unless the guard is dismissed.
pub(super) struct Guard(pub(super) Option<Child>);

impl Guard {
    /// Hands the child over to its owner, who stops it.
    pub(super) fn keep(mut self) -> Child {
        self.0.take().expect("a guard holds its child until it is kept")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            stop(child);
        }
    }
}

/// Asks the process to end by closing its input, and kills it after a while.
pub(super) fn stop(child: &mut Child) {
    drop(child.stdin.take());
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A port that is free on an address at this moment.
pub(super) fn free_port(ip: Ipv4Addr) -> io::Result<u16> {
    let listener = TcpListener::bind((ip, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Waits until the node answers.
pub(super) fn wait_for(
    control: &Path,
    node: &mut Guard,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if control::ask(control, &Request::ShowNet).is_ok() {
            return Ok(());
        }
        interrupt.check()?;
        if let Some(child) = &mut node.0
            && let Ok(Some(status)) = child.try_wait()
        {
            let said = "it said why above";
            return Err(format!("a node that was started ended at once ({status}); {said}").into());
        }
        if Instant::now() >= deadline {
            return Err("a node did not start within 10 s".to_owned().into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
