//! Network namespaces without a name: each belongs to a process of the test and is removed with it,
//! even if the test is killed.

use std::path::PathBuf;
use std::process::Command;

use lustrine_control::{Answer, Request, StatsRow};
use lustrine_node::control;
use lustrine_testing::{Need, not_run};

use crate::common::{Running, Scratch, eventually, finish, lustrine};

/// Programs that the tests need, each with a harmless argument.
const TOOLS: [[&str; 2]; 3] = [["ip", "-V"], ["unshare", "--version"], ["nsenter", "--version"]];

/// A network namespace with a loopback that is up, and with its own view of /sys.
#[derive(Debug)]
pub(crate) struct NetNs {
    /// The process that holds the namespace until the end of its standard input.
    holder: Running,
}

impl NetNs {
    /// Creates this number of namespaces; `None`, with the reason recorded, if that is not
    /// possible.
    #[track_caller]
    pub(crate) fn several<const N: usize>() -> Option<[NetNs; N]> {
        if !lustrine_sys::process::is_root() {
            not_run(Need::Root, "network namespaces are made by root");
            return None;
        }
        for [tool, argument] in TOOLS {
            if Command::new(tool).arg(argument).output().is_err() {
                not_run(Need::Program, &format!("{tool} is not installed"));
                return None;
            }
        }
        let mut attempt = Command::new("unshare");
        let refused = finish(attempt.args(["--net", "--mount", "true"]));
        if refused.code != Some(0) {
            not_run(Need::Namespaces, refused.stderr.trim());
            return None;
        }
        Some(std::array::from_fn(|_| NetNs::new()))
    }

    fn new() -> NetNs {
        let mut command = Command::new("unshare");
        // The link's speed and MTU are read from /sys, which shows the namespace it was mounted in.
        let script = "mount -t sysfs sysfs /sys && ip link set lo up && echo held >&2 && exec cat";
        // Otherwise it would keep what other tests have mounted meanwhile.
        command.args(["--net", "--mount", "--propagation", "slave", "sh", "-c", script]);
        let mut holder = Running::start(&mut command);
        holder.wait_for("held");
        NetNs { holder }
    }

    /// The process that holds it.
    pub(crate) fn pid(&self) -> u32 {
        self.holder.pid()
    }

    /// The same command in this namespace.
    pub(crate) fn inside(&self, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        let holder = self.holder.pid().to_string();
        entered.args(["--target", &holder, "--net", "--mount"]).arg(command.get_program());
        entered.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => entered.env(name, value),
                None => entered.env_remove(name),
            };
        }
        entered
    }

    /// Runs a command line in this namespace; it must succeed.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) {
        self.attempt(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    /// The same of words that may have blanks in them.
    #[track_caller]
    pub(crate) fn run_words(&self, words: &[&str]) {
        self.attempt_words(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }

    /// As [`NetNs::run`]; returns the reason of a failure.
    pub(crate) fn attempt(&self, line: &str) -> Result<(), String> {
        self.attempt_words(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn attempt_words(&self, words: &[&str]) -> Result<(), String> {
        let (program, args) = words.split_first().expect("a command");
        let done = finish(&mut self.inside(Command::new(program).args(args)));
        if done.code == Some(0) { Ok(()) } else { Err(done.stderr.trim().to_owned()) }
    }

    /// What a file of /proc/net says of this namespace.
    #[track_caller]
    pub(crate) fn proc_net(&self, file: &str) -> String {
        let mut command = Command::new("cat");
        finish(&mut self.inside(command.arg(format!("/proc/net/{file}")))).ok().stdout
    }

    /// TCP segments that were sent again so far.
    #[track_caller]
    pub(crate) fn segments_retransmitted(&self) -> u64 {
        let text = self.proc_net("snmp");
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp: "));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        let (_, value) = pairs.find(|(name, _)| *name == "RetransSegs").expect("a counter");
        value.parse().expect("a number")
    }

    /// Established TCP connections, seen from this namespace.
    #[track_caller]
    pub(crate) fn established(&self) -> usize {
        const ESTABLISHED: &str = "01";
        let text = self.proc_net("tcp");
        let states = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
        states.filter(|state| *state == ESTABLISHED).count()
    }

    /// Connects two namespaces: an interface called `name` at both ends, with these addresses and
    /// this MTU in bytes.
    #[track_caller]
    pub(crate) fn connect(&self, other: &NetNs, name: &str, mtu: u32, addresses: [&str; 2]) {
        let there = other.holder.pid();
        self.run(&format!("ip link add {name} type veth peer name {name} netns {there}"));
        for (space, address) in [self, other].into_iter().zip(addresses) {
            // IPv6: an address that is usable at once, without duplicate address detection.
            let at_once = if address.contains(':') { "nodad" } else { "" };
            space.run(&format!("ip address add {address} dev {name} {at_once}"));
            space.run(&format!("ip link set {name} mtu {mtu} up"));
        }
        // Before, what is sent there is dropped.
        let state = format!("/sys/class/net/{name}/operstate");
        for space in [self, other] {
            eventually(&format!("{name} is up"), || {
                let seen = finish(&mut space.inside(Command::new("cat").arg(&state)));
                (seen.ok().stdout.trim() == "up").then_some(())
            });
        }
    }

    /// Starts a node in this namespace.
    pub(crate) fn node(&self, args: &[&str]) -> NetNsNode {
        let scratch = Scratch::new();
        let mut command = lustrine();
        command.args(["node", "--until-eof", "--accept", "all", "--control"]);
        command.arg(scratch.file("node.sock")).args(args);
        let mut running = Running::start(&mut self.inside(&command));
        // The last message before it serves.
        running.wait_for("control socket");
        NetNsNode { running, scratch }
    }

    /// The program with these arguments, in this namespace.
    pub(crate) fn lustrine(&self, args: &[&str]) -> Command {
        self.inside(lustrine().args(args))
    }
}

/// A node in a namespace.
#[derive(Debug)]
pub(crate) struct NetNsNode {
    running: Running,
    scratch: Scratch,
}

impl NetNsNode {
    /// An answer of its control socket, which can be reached from any namespace.
    #[track_caller]
    pub(crate) fn ask(&self, request: &Request) -> Answer {
        let answer = control::ask(&self.control(), request);
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Its control socket.
    pub(crate) fn control(&self) -> PathBuf {
        self.scratch.file("node.sock")
    }

    /// What it has logged.
    pub(crate) fn stderr(&self) -> String {
        self.running.stderr()
    }

    /// Its counters.
    #[track_caller]
    pub(crate) fn stats(&self) -> StatsRow {
        match self.ask(&Request::ShowStats) {
            Answer::Stats { stats } => *stats,
            other => panic!("a node does not return its counters: {other:?}"),
        }
    }

    /// Payload bytes received so far.
    #[track_caller]
    pub(crate) fn received(&self) -> u64 {
        self.stats().lnet["recv_length"]
    }
}

/// The arguments of a selftest with all tests, every word checked.
pub(crate) fn whole_selftest(nid: &str) -> Vec<&str> {
    let mut args = vec!["selftest", "--to", nid, "--check", "full", "--json", "-"];
    args.extend(["--size", "4k,1M", "--concurrency", "8", "--time", "0.2"]);
    args
}
