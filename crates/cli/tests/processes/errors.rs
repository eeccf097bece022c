//! Processes that are killed or stopped while they are working.

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Finished, Node, Running, eventually, finish, loopback};

/// Loads a node with 1 MiB operations, 8 at once.
struct Traffic {
    client: Running,
}

impl Traffic {
    /// Starts it, and waits until data flows.
    fn start(node: &Node, test: &str, seconds: &str, more: &[&str]) -> Traffic {
        let mut command = node.client("selftest");
        command.args(["--test", test, "--size", "1M", "--concurrency", "8", "--check", "full"]);
        command.args(["--time", seconds, "--json", "-"]).args(more);
        let traffic = Traffic { client: Running::start(&mut command) };
        traffic.flows(node);
        traffic
    }

    /// Waits until more data arrives.
    fn flows(&self, node: &Node) {
        let moved = || {
            let stats = node.stats();
            stats.lnet["recv_length"] + stats.lnet["send_length"]
        };
        let before = moved();
        eventually("traffic", || (moved() > before + (8 << 20)).then_some(()));
    }

    fn end(self) -> Finished {
        self.client.end()
    }
}

/// The only row of a report.
fn only_row(report: &Value) -> &Value {
    let rows = report["results"].as_array().expect("a list of results");
    assert_eq!(rows.len(), 1, "{report:#}");
    &rows[0]
}

fn count(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row:#}"))
}

/// Waits until a node has no connections and no messages.
fn idle(node: &Node) {
    eventually("no connections and no messages", || {
        let stats = node.stats();
        (stats.connections == 0 && stats.lnet["msgs_alloc"] == 0).then_some(())
    });
}

#[test]
fn a_node_that_is_killed_and_restarted_causes_errors_only() {
    for test in ["read", "write"] {
        let node = Node::open();
        let traffic = Traffic::start(&node, test, "4", &["--patience", "60"]);
        let node = node.kill_and_restart();
        // The client finds the new process, and makes its session there again.
        traffic.flows(&node);
        let done = traffic.end().expect_error(&["operations failed; the table says which"]);
        let report = done.json();
        let row = only_row(&report);
        // The operations in flight are lost, and nothing else: eight of them.
        let errors = count(row, "errors");
        assert!((1..=8).contains(&errors), "{row:#}");
        assert!(count(row, "ops") > 0, "{row:#}");
        let mut counted = 0;
        for kind in row["error_kinds"].as_array().expect("a list of kinds") {
            // Whichever part of an operation was on the connection when it broke.
            let name = kind[0].as_str().expect("a name");
            let parts = ["the peer was lost", "could not be sent", "bulk transfer failed"];
            assert!(parts.iter().any(|part| name.contains(part)), "{row:#}");
            counted += kind[1].as_u64().expect("a count");
        }
        assert_eq!(counted, errors, "{row:#}");
        idle(&node);
    }
}

#[test]
fn a_node_that_stays_away_ends_the_run() {
    let node = Node::open();
    // In userland, RPCs are sent after pushes that failed, so they wait until it dials again.
    let soon = ["--patience", "1", "--set", "min_reconnectms=50"];
    let traffic = Traffic::start(&node, "read", "3600", &soon);
    let home = node.kill();
    let done = traffic.end().expect_error(&["the node did not answer", "connection refused"]);
    // The results so far are kept, and marked.
    let report = done.json();
    assert_eq!(only_row(&report)["cut_short"], true, "{report:#}");
    drop(home);
}

#[test]
fn rows_measured_before_a_node_crashed_are_reported() {
    let node = Node::open();
    let mut command = node.client("selftest");
    command.args(["--test", "ping,write", "--size", "1M", "--concurrency", "8"]);
    command.args(["--time", "0.5", "--patience", "1"]);
    let mut run = Running::start(&mut command);
    run.wait_for("[2/2] write");
    let home = node.kill();
    // The row ends in time; if it did not even begin, the run ends with the reason.
    let done = run.end().expect_code(1);
    assert!(done.stdout.lines().any(|line| line.starts_with("ping ")), "{done:#?}");
    drop(home);
}

/// Arguments of a node that lets every console end the session of another.
const TAKEN_OVER: &[&str] = &["--accept", "all", "--selftest-consoles", "*@tcp"];

#[test]
fn a_client_that_is_killed_leaves_nothing_at_the_node() {
    let node = Node::start(&[TAKEN_OVER, &["--set", "selftest_memory=32"]].concat());
    for test in ["read", "write"] {
        let traffic = Traffic::start(&node, test, "3600", &["--force"]);
        traffic.client.signal(Signal::KILL);
        assert_eq!(traffic.end().code, None);
        idle(&node);
        // Memory stays mapped for the next client, within the configured limit.
        let mapped = node.stats().memory_mapped;
        assert!(mapped <= (32 + 64) << 20, "{mapped} bytes are mapped");

        // The session of the killed client has some time left; a client that cannot wait takes it
        // over.
        let mut polite = node.client("selftest");
        finish(&mut polite).expect_error(&["is in session lustrine-selftest of", "with --force"]);
        let mut next = node.client("selftest");
        next.args(["--force", "--time", "0.1", "--concurrency", "8"]);
        finish(&mut next).ok();
    }
    // After a session was ended properly, force is not necessary.
    finish(node.client("selftest").args(["--time", "0.1", "--test", "ping"])).ok();
    idle(&node);
}

#[test]
fn a_node_that_is_stopped_for_a_while_causes_delay_only() {
    let mut node = Node::open();
    let traffic = Traffic::start(&node, "write", "4", &[]);
    node.running().signal(Signal::STOP);
    eventually("data that wait for the stopped node", || (unread(&node) > 0).then_some(()));
    node.running().signal(Signal::CONT);
    traffic.flows(&node);
    let report = traffic.end().ok().json();
    let row = only_row(&report);
    assert_eq!(count(row, "errors"), 0, "{row:#}");
    idle(&node);
}

/// Bytes that this machine has received for a node, and that the node has not read.
fn unread(node: &Node) -> u64 {
    let ip = u32::from_ne_bytes(node.ip().octets());
    let local = format!("{ip:08X}:{:04X}", node.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let queues = rows.filter(|row| row.get(1) == Some(&&*local)).filter_map(|row| {
        let (_, unread) = row.get(4)?.split_once(':')?;
        u64::from_str_radix(unread, 16).ok()
    });
    queues.sum()
}

#[test]
fn a_client_that_is_stopped_disturbs_no_other_client() {
    let node = Node::start(TAKEN_OVER);
    let traffic = Traffic::start(&node, "read", "3600", &[]);
    traffic.client.signal(Signal::STOP);
    // Its socket buffer fills and its credits are used up; other clients have their own.
    let mut other = node.client("selftest");
    other.args(["--force", "--time", "0.2", "--concurrency", "8", "--check", "full"]);
    finish(&mut other).ok();
    let mut ping = node.client_at("ping", loopback());
    finish(ping.args(["--count", "10"])).ok();
}

#[test]
fn a_node_does_not_end_a_session_for_a_console_that_is_not_on_its_list() {
    for mode in ["serve", "full"] {
        let node = Node::start(&["--accept", "all", "--selftest", mode]);
        let traffic = Traffic::start(&node, "read", "3600", &[]);
        let mut other = node.client("selftest");
        other.args(["--force", "--time", "0.2", "--concurrency", "8"]);
        finish(&mut other).expect_error(&[
            "is in session lustrine-selftest of",
            "only for the consoles that its setting `selftest_consoles` lists",
        ]);
        traffic.flows(&node);
        traffic.client.signal(Signal::KILL);
        assert_eq!(traffic.end().code, None);
    }
}
