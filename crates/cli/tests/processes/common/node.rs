//! A node in a separate process.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use lustrine_control::{Answer, Request, StatsRow};
use lustrine_node::control;
use rustix::process::Signal;

use super::{Finished, Running, Scratch, Usage, free_port, loopback, lustrine};

/// `lustrine node` at its own address, with its own control socket.
#[derive(Debug)]
pub(crate) struct Node {
    running: Running,
    home: Home,
}

/// The parts of a node that remain when its process ends.
#[derive(Debug)]
pub(crate) struct Home {
    ip: Ipv4Addr,
    port: u16,
    args: Vec<String>,
    scratch: Scratch,
}

impl Home {
    fn command(&self) -> Command {
        let mut command = lustrine();
        command
            .args(["node", "--until-eof", "--net", &format!("tcp={}:{}", self.ip, self.port)])
            .arg("--control")
            .arg(self.control())
            .args(&self.args);
        command
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.scratch.file("node.sock")
    }

    /// Starts a node at the same place.
    pub(crate) fn start(self) -> Node {
        let mut running = Running::start(&mut self.command());
        // The last message before it serves.
        running.wait_for("control socket");
        Node { running, home: self }
    }
}

impl Node {
    /// Starts a node with more arguments; it answers when this returns.
    pub(crate) fn start(args: &[&str]) -> Node {
        let ip = loopback();
        Node::start_at(ip, free_port(ip), args)
    }

    fn start_at(ip: Ipv4Addr, port: u16, args: &[&str]) -> Node {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Home { ip, port, args, scratch: Scratch::new() }.start()
    }

    /// Starts another node that can reach this one: its port is the same.
    pub(crate) fn beside(&self, args: &[&str]) -> Node {
        Node::start_at(loopback(), self.home.port, args)
    }

    /// Starts a node that accepts all peers.
    pub(crate) fn open() -> Node {
        Node::start(&["--accept", "all"])
    }

    pub(crate) fn ip(&self) -> Ipv4Addr {
        self.home.ip
    }

    pub(crate) fn port(&self) -> u16 {
        self.home.port
    }

    pub(crate) fn nid(&self) -> String {
        format!("{}@tcp", self.home.ip)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.home.control()
    }

    /// The resources that its process uses.
    pub(crate) fn usage(&self) -> Usage {
        Usage::of(self.running.pid())
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// `ping`, `discover` or `selftest` towards it, from a temporary node at its own address.
    pub(crate) fn client(&self, command: &str) -> Command {
        self.client_at(command, loopback())
    }

    /// The same from a given address.
    pub(crate) fn client_at(&self, command: &str, ip: Ipv4Addr) -> Command {
        let mut client = lustrine();
        match command {
            "selftest" => client.args(["selftest", "--to", &self.nid()]),
            _ => client.args([command, &self.nid()]),
        };
        client.args(["--net", &format!("tcp={ip}:{}", self.home.port)]);
        client
    }

    /// A command for its control socket.
    pub(crate) fn controlled(&self, args: &[&str]) -> Command {
        let mut command = lustrine();
        command.args(args).arg("--control").arg(self.control());
        command
    }

    /// A tool's command for its control socket.
    pub(crate) fn controlled_tool(&self, tool: &str, words: &[&str]) -> Command {
        let mut command = lustrine();
        command.arg(tool).arg("--control").arg(self.control()).args(words);
        command.env("LUSTRINE_LST_DIR", self.home.scratch.path());
        command
    }

    /// Its counters.
    #[track_caller]
    pub(crate) fn stats(&self) -> StatsRow {
        match control::ask(&self.control(), &Request::ShowStats) {
            Ok(Answer::Stats { stats }) => *stats,
            other => panic!("{} does not return its counters: {other:?}", self.nid()),
        }
    }

    /// One counter of its driver.
    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.stats().drivers["socklnd"][name]
    }

    /// Ends it with SIGTERM and checks that it succeeds.
    #[track_caller]
    pub(crate) fn stop(self) -> Finished {
        self.running.signal(Signal::TERM);
        self.end().0
    }

    /// Waits until it ends for a reason of the test.
    #[track_caller]
    pub(crate) fn end(self) -> (Finished, Home) {
        (self.running.end(), self.home)
    }

    /// Kills it with SIGKILL.
    #[track_caller]
    pub(crate) fn kill(self) -> Home {
        self.running.signal(Signal::KILL);
        self.end().1
    }

    /// Kills it and starts it again with the same address and socket.
    #[track_caller]
    pub(crate) fn kill_and_restart(self) -> Node {
        self.kill().start()
    }
}
