//! `cargo xtask bench console`: the CPU time that a session of many nodes costs its console.
//!
//! Nodes run as processes at loopback addresses and load each other. The console, a separate
//! process, collects their counters once per second, as `lst stat` does.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::ours::Programs;
use super::ports;
use super::results::{self, Conditions};
use super::statistics::Summary;
use crate::process::{ChildGuard, capture};
use crate::repository::target_dir;

/// Longest time of one call of `lst` beyond its requested duration.
const CALL_MAX: Duration = Duration::from_secs(120);

/// Longest time that a node may take to start together with all the others.
const START_MAX: Duration = Duration::from_secs(60);

/// Clock ticks of a process per second, the unit of CPU time in /proc.
pub(super) const TICKS: f64 = 100.0;

/// The session's key, which names the console's socket.
const KEY: &str = "6464";

/// A console and its nodes.
#[derive(Args)]
pub(crate) struct ConsoleArgs {
    /// Nodes, each of which loads the next one
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u8).range(2..=250))]
    nodes: u8,

    /// Rounds; each measures once with `lst stat` and once without
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    seconds: u32,

    /// Write the results here [default: bench/results/console-DATE-MACHINE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Console {
    #[serde(flatten)]
    conditions: Conditions,
    nodes: u8,
    seconds: u32,
    goal: &'static str,
    /// Percent of one core while counters are collected every second.
    with_stat: Summary,
    /// The same without any commands.
    alone: Summary,
    /// Seconds for adding all nodes to the session.
    add_group_s: f64,
    /// LNet messages that each node received per second, the average of the last poll.
    messages_per_node: f64,
}

const GOAL: &str = "goal: less than 5 % of one core";

pub(crate) fn run(args: &ConsoleArgs) -> Result<()> {
    let programs = Programs::build()?;
    let conditions = Conditions::here(&[]);
    let mut session = Session::begin(&programs.lustrine, args.nodes)?;
    let (mut with_stat, mut alone) = (Vec::new(), Vec::new());
    let (seconds, mut messages_per_node) = (args.seconds, 0.0);
    for _ in 0..args.rounds {
        let count = seconds.to_string();
        let mut said = String::new();
        with_stat.push(session.percent(|session| {
            said = session.lst(&["stat", "--rate", "--delay", "1", "--count", &count, "all"])?;
            Ok(())
        })?);
        messages_per_node = rate_in(&said)?;
        alone.push(session.percent(|_| {
            thread::sleep(Duration::from_secs(u64::from(seconds)));
            Ok(())
        })?);
    }
    let summary = |values: &[f64]| Summary::of(values).context("no rounds");
    let console = Console {
        conditions,
        nodes: args.nodes,
        seconds,
        goal: GOAL,
        with_stat: summary(&with_stat)?,
        alone: summary(&alone)?,
        add_group_s: session.add_group_s,
        messages_per_node,
    };
    session.lst(&["stop"])?;
    session.lst(&["end_session"])?;
    let table = render(&console);
    let Conditions { date, machine, .. } = &console.conditions;
    let name = format!("console-{date}-{}.json", machine.short_name());
    let file = args.json.clone().unwrap_or_else(|| console.conditions.kept(&name));
    results::write(Some(&file), &table, &console)
}

/// A session in which all nodes read from each other.
struct Session {
    lustrine: PathBuf,
    directory: PathBuf,
    port: u16,
    add_group_s: f64,
    /// Ended with the session.
    _nodes: Vec<ChildGuard>,
}

impl Session {
    fn begin(lustrine: &Path, nodes: u8) -> Result<Session> {
        let port = ports::free()?;
        let directory = target_dir().join("bench-console");
        fs::create_dir_all(&directory)?;
        let mut running = Vec::new();
        for node in 1..=nodes {
            let mut command = Command::new(lustrine);
            command.args(["node", "--accept", "all", "--set", "spin_us=0"]);
            command.args(["--net", &format!("tcp=127.64.0.{node}:{port}")]);
            command.arg("--control").arg(directory.join(format!("{node}.sock")));
            running.push(ChildGuard::silent(&mut command)?);
        }
        let mut session = Session {
            lustrine: lustrine.to_owned(),
            directory,
            port,
            add_group_s: 0.0,
            _nodes: running,
        };
        for node in 1..=nodes {
            session.wait_for(node)?;
        }
        session.lst(&["new_session", "bench"])?;
        let begin = Instant::now();
        session.lst(&["add_group", "all", &format!("127.64.0.[1-{nodes}]@tcp")])?;
        session.add_group_s = begin.elapsed().as_secs_f64();
        let test =
            ["add_test", "--from", "all", "--to", "all", "--concurrency", "1", "brw", "read"];
        session.lst(&test)?;
        session.lst(&["run"])?;
        Ok(session)
    }

    /// Waits until a node answers at its control socket.
    fn wait_for(&self, node: u8) -> Result<()> {
        let socket = self.directory.join(format!("{node}.sock"));
        let give_up = Instant::now() + START_MAX;
        loop {
            let mut command = Command::new(&self.lustrine);
            command.args(["show", "net", "--control"]).arg(&socket);
            if capture(&mut command, START_MAX)?.output("show net").is_ok() {
                return Ok(());
            }
            ensure!(Instant::now() < give_up, "node {node} does not answer");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn lst(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.lustrine);
        command.args(["lst", "--set", "spin_us=0"]);
        command.args(["--net", &format!("tcp=127.64.1.1:{}", self.port)]).args(words);
        command.env("LST_SESSION", KEY).env("LUSTRINE_LST_DIR", &self.directory);
        let what = format!("lst {}", words.join(" "));
        capture(&mut command, CALL_MAX)?.output(&what)
    }

    /// Percent of one core that the console uses during an action.
    fn percent(&mut self, act: impl FnOnce(&Session) -> Result<()>) -> Result<f64> {
        let console = self.console()?;
        let (before, begin) = (ticks_of(console)?, Instant::now());
        act(self)?;
        let (after, took) = (ticks_of(console)?, begin.elapsed().as_secs_f64());
        Ok((after - before) / TICKS / took * 100.0)
    }

    /// The process of the console.
    fn console(&self) -> Result<u32> {
        let socket = self.directory.join(format!("lustrine-lst-{KEY}.sock"));
        let socket = socket.display().to_string();
        let entries = fs::read_dir("/proc")?.filter_map(Result::ok);
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_it = |pid: &u32| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.contains("lst-console") && words.contains(&socket)
        };
        pids.find(is_it).context("there is no process of the console")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // No console may outlive its nodes.
        let _ = self.lst(&["end_session"]);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// CPU time of a process, in ticks.
pub(super) fn ticks_of(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks_in(&stat).context("/proc/PID/stat has another form")
}

/// User and system time in a line of /proc/PID/stat; the name before may hold blanks.
fn ticks_in(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    let (user, system) = (words.next()?, words.next()?);
    Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
}

/// The average of what nodes received in the last block of `lst stat`.
fn rate_in(said: &str) -> Result<f64> {
    let line = said.lines().rfind(|line| line.starts_with("[R]")).context("no values")?;
    let rate = line.split_whitespace().nth(2).context("no average")?;
    let rate: f64 = rate.parse().context("the average is not a number")?;
    ensure!(rate > 0.0, "the nodes do nothing");
    Ok(rate)
}

fn render(console: &Console) -> String {
    let run = format!("{} nodes, {} s a measurement", console.nodes, console.seconds);
    let mut out = console.conditions.heading(&run);
    let _ = writeln!(out, "  {GOAL}\n");
    for (what, summary) in
        [("lst stat every second", &console.with_stat), ("no commands", &console.alone)]
    {
        let Summary { median, min, max, .. } = summary;
        let _ = writeln!(out, "{what:24} {median:.1} % of one core ({min:.1}..{max:.1})");
    }
    let _ = writeln!(out, "{:24} {:.2} s", "add_group of all", console.add_group_s);
    let _ =
        writeln!(out, "{:24} {:.0} messages/s", "each node receives", console.messages_per_node);
    out
}

#[test]
fn counters_are_parsed() {
    let stat = "12 (a name) with) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 4 0 9";
    assert_eq!(ticks_in(stat), Some(100.0));
    let said = "[LNet Rates of all]\n[R] Avg: 12       RPC/s Min: 1\n[W] Avg: 3\n\
                [LNet Rates of all]\n[R] Avg: 34       RPC/s Min: 1\n";
    assert_eq!(rate_in(said).ok(), Some(34.0));
    assert!(rate_in("").is_err());
}
