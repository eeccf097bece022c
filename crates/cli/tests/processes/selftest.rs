//! `lustrine selftest`: two processes on this machine's loopback, one table or JSON document.

use std::fs;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{
    Node, Running, Scratch, eventually, finish, free_port, loopback, lustrine, own_identity,
    unprivileged,
};

/// The rows of a run without options, in order: test, size, concurrency.
const USUAL_ROWS: [(&str, u64, u64); 15] = [
    ("ping", 0, 1),
    ("ping", 0, 8),
    ("ping", 0, 64),
    ("read", 4096, 1),
    ("read", 4096, 8),
    ("read", 4096, 64),
    ("read", 1 << 20, 1),
    ("read", 1 << 20, 8),
    ("read", 1 << 20, 64),
    ("write", 4096, 1),
    ("write", 4096, 8),
    ("write", 4096, 64),
    ("write", 1 << 20, 1),
    ("write", 1 << 20, 8),
    ("write", 1 << 20, 64),
];

/// `lustrine selftest` with a directory for its temporary files.
fn selftest(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = lustrine();
    command.arg("selftest").args(args).env("TMPDIR", scratch.path());
    command
}

#[track_caller]
fn number(row: &Value, pointer: &str) -> f64 {
    row.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {row:#}"))
}

/// Asserts what must hold for every row of every run without failures.
#[track_caller]
fn check_row(row: &Value, seconds: f64) {
    let ops = number(row, "/ops");
    assert!(ops >= 1.0, "{row:#}");
    assert_eq!(number(row, "/errors"), 0.0, "{row:#}");
    assert!(row.get("error_kinds").is_none(), "{row:#}");
    let measured = number(row, "/seconds");
    assert!(measured >= seconds, "measured for less than {seconds} s: {row:#}");

    // A thousand operations and fewer have no 99.9th percentile.
    assert_eq!(row["latency_us"]["p999"].is_null(), ops < 1000.0, "{row:#}");
    assert_eq!(row["latency_us"]["p9999"].is_null(), ops < 10_000.0, "{row:#}");
    let names = ["p50", "p90", "p99", "p999", "p9999", "max"].iter();
    let percentiles: Vec<f64> = names
        .filter(|name| !row["latency_us"][name].is_null())
        .map(|name| number(row, &format!("/latency_us/{name}")))
        .collect();
    assert!(percentiles.len() >= 4 && percentiles[0] > 0.0, "{row:#}");
    assert!(percentiles.is_sorted(), "{row:#}");
    assert!(number(row, "/cpu_s/client") >= 0.0, "{row:#}");
    assert_eq!((&row["lost"], &row["cut_short"]), (&0.into(), &false.into()), "{row:#}");

    match row["test"].as_str() {
        Some("ping") => assert!(row["raw_tcp_mib_per_s"].is_null(), "{row:#}"),
        _ => {
            assert!(number(row, "/raw_tcp_mib_per_s") > 0.0, "{row:#}");
            assert!(number(row, "/raw_tcp_polling_mib_per_s") > 0.0, "{row:#}");
        }
    }
}

fn name_of(row: &Value) -> (&str, u64, u64) {
    let whole = |key: &str| row[key].as_u64().expect("a whole number");
    (row["test"].as_str().expect("a name"), whole("size"), whole("concurrency"))
}

#[track_caller]
fn rows(report: &Value) -> &[Value] {
    report["results"].as_array().expect("a list of results")
}

#[test]
fn all_rows_are_written_as_json() {
    let scratch = Scratch::new();
    let done =
        finish(&mut selftest(&scratch, &["--time", "0.4", "--json", "-", "--placement", "shared"]))
            .ok();
    let report = done.json();
    assert_eq!(report["placement"], "shared");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["from"], "127.0.0.1@tcp");
    assert_eq!(report["to"], "127.0.0.2@tcp");
    assert_eq!(report["identity"], own_identity());
    // The settings that a comparison with another run needs.
    let date = report["date"].as_str().expect("a date");
    assert!(date.starts_with("20") && date.contains('T') && date.ends_with('Z'), "{date:?}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux has it");
    assert_eq!((&report["host"], &report["check"]), (&host.trim_end().into(), &"simple".into()));
    assert_eq!(report["tunables"]["peer_credits"], 8, "{report:#}");
    assert_eq!(report["plain_tcp_connections"], 1, "{report:#}");
    let found: Vec<_> = rows(&report).iter().map(name_of).collect();
    assert_eq!(found, USUAL_ROWS);
    for row in rows(&report) {
        check_row(row, 0.4);
        assert!(number(row, "/cpu_s/server") >= 0.0, "{row:#}");
    }
    // Progress for people, on standard error.
    assert!(done.stderr.contains("[15/15] write of 1M, concurrency 64"), "{done:#?}");
    let left: Vec<_> = fs::read_dir(scratch.path()).expect("it is ours").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn a_page_and_its_plots_are_written() {
    let scratch = Scratch::new();
    let (page, plots) = (scratch.file("r.html"), scratch.file("plots"));
    let mut command =
        selftest(&scratch, &["--test", "ping", "--concurrency", "1,4", "--time", "0.1"]);
    finish(command.arg("--report").arg(&page).arg("--plots").arg(&plots)).ok();
    let page = fs::read_to_string(page).expect("the page was written");
    assert!(
        page.contains("class=\"verdict\"") && page.contains("most operations: ping c"),
        "{page}"
    );
    let all = fs::read_dir(plots).expect("the directory was made");
    let mut names: Vec<String> = all
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let wanted = ["01-ping-operations-of-all-clients.png", "01-ping-operations-of-all-clients.svg"];
    assert!(names.len() == 6 && names[..2] == wanted, "{names:?}");
}

/// Compares the report's rate with the bytes that the other node has sent, and the time that the
/// command took. What the row does not count is sent before and after it: a fifth of the bytes is
/// left for a machine that stops in between.
#[test]
fn a_report_shows_what_the_other_node_has_sent() {
    let node = Node::open();
    let sent = || node.stats().lnet["send_length"] as f64;
    let mut command = node.client("selftest");
    command.args(["--test", "read", "--size", "64k", "--concurrency", "4", "--time", "1"]);
    let (before, begin) = (sent(), Instant::now());
    let report = finish(command.args(["--json", "-"])).ok().json();
    let (elapsed, sent) = (begin.elapsed().as_secs_f64(), sent() - before);
    let row = &rows(&report)[0];
    assert_eq!(number(row, "/errors"), 0.0, "{row:#}");
    assert!(number(row, "/seconds") <= elapsed, "{elapsed} s: {row:#}");
    let fits = |claimed: f64| (sent / 5.0..=sent * (1.0 + 1e-9)).contains(&claimed);
    let claimed = number(row, "/mib_per_s") * number(row, "/seconds") * f64::from(1 << 20);
    assert!(fits(claimed), "{claimed} claimed, {sent} bytes sent: {row:#}");
    let claimed = number(row, "/ops_per_s") * number(row, "/seconds") * 65_536.0;
    assert!(fits(claimed), "{claimed} claimed, {sent} bytes sent: {row:#}");
}

#[test]
fn options_choose_the_rows() {
    let scratch = Scratch::new();
    let file = scratch.file("report.json");
    // Of 1024 operations some end in this time, also on a busy machine.
    let mut command = selftest(&scratch, &["--time", "0.1", "--test", "read", "--test", "write"]);
    command.args(["--size", "8,4k", "--concurrency", "2,1024", "--check", "none", "--json"]);
    let done = finish(command.arg(&file)).ok();
    let text = fs::read_to_string(&file).expect("the report was written");
    let report: Value = serde_json::from_str(&text).expect("the report is JSON");
    let found: Vec<_> = rows(&report).iter().map(name_of).collect();
    let sizes = [(8, 2), (8, 1024), (4096, 2), (4096, 1024)];
    let wanted = |test| sizes.map(|(size, concurrency)| (test, size, concurrency));
    assert_eq!(found, [wanted("read"), wanted("write")].concat());
    rows(&report).iter().for_each(|row| check_row(row, 0.1));

    // The table is printed as well, one line for each row; it fits a narrow terminal.
    let widest = done.stdout.lines().map(str::len).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{}", done.stdout);
    let lines: Vec<Vec<&str>> =
        done.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for (test, size, concurrency) in [("read", "8", "2"), ("write", "4k", "1024")] {
        let line = lines.iter().find(|words| words.starts_with(&[test, size, concurrency]));
        assert!(line.is_some(), "{test} {size} {concurrency} in\n{}", done.stdout);
    }
    let tests = lines.iter().filter(|words| matches!(words.first(), Some(&"read" | &"write")));
    assert_eq!(tests.count(), 8, "{}", done.stdout);
}

#[test]
fn every_word_can_be_checked() {
    let scratch = Scratch::new();
    for check in ["full", "simple"] {
        let mut command = selftest(&scratch, &["--test", "read,write", "--size", "1M"]);
        command.args(["--concurrency", "8", "--time", "0.3", "--json", "-", "--check", check]);
        command.args(["--set", "peer_credits=16"]);
        let report = finish(&mut command).ok().json();
        assert_eq!(
            (&report["check"], &report["tunables"]["peer_credits"]),
            (&check.into(), &16.into())
        );
        assert_eq!(rows(&report).len(), 2);
        rows(&report).iter().for_each(|row| check_row(row, 0.3));
    }
}

#[test]
fn bad_options_are_explained() {
    let cases: [(&[&str], &str); 13] = [
        (&["--test", "erase"], "possible values: ping, read, write"),
        (&["--check", "some"], "possible values: none, simple, full"),
        (&["--size", "7"], "a multiple of 8 from 8 to 1M, such as 4k"),
        (&["--size", "big"], "not a size; examples are 4096, 64k, 1M"),
        (&["--concurrency", "0"], "expected a whole number from 1 to 1024"),
        (&["--concurrency", "1025"], "expected a whole number from 1 to 1024"),
        (&["--time", "0"], "a number of seconds above 0"),
        (&["--to", "10.0.0"], "invalid value '10.0.0' for '--to <NID>'"),
        (&["--port", "988"], "--to <NID>"),
        (&["--time", "-1"], "a number of seconds above 0"),
        (&["--to", "10.0.0.1@tcp", "--port", "0"], "expected a whole number from 1 to 65535"),
        (&["--net", "tcp=127.0.0.9"], "need --to NID"),
        (&["--accept", "all"], "need --to NID"),
    ];
    for (args, words) in cases {
        let done = finish(lustrine().arg("selftest").args(args)).expect_code(2);
        assert_eq!(done.stdout, "");
        done.expect_stderr(&[words, "--help"]);
    }
}

#[test]
fn a_report_that_cannot_be_written_is_refused_at_once() {
    let scratch = Scratch::new();
    let mut command = selftest(&scratch, &["--time", "60", "--json", "/nowhere/at/all.json"]);
    let done = finish(&mut command).expect_error(&["/nowhere/at/all.json", "No such file"]);
    assert!(done.stdout.is_empty() && !done.stderr.contains("[1/"), "it ran: {done:#?}");
}

#[test]
fn a_run_that_fails_leaves_no_report() {
    let (scratch, ip) = (Scratch::new(), loopback());
    let file = scratch.file("report.json");
    let mut command = selftest(&scratch, &["--to", &format!("{ip}@tcp"), "--json"]);
    command.arg(&file).args(["--port", &free_port(ip).to_string()]);
    finish(&mut command).expect_error(&["connection refused"]);
    assert!(!file.exists());
}

#[test]
fn an_interrupted_run_is_marked_as_such() {
    let scratch = Scratch::new();
    let mut run = Running::start(&mut selftest(&scratch, &["--test", "ping", "--time", "60"]));
    run.wait_for("[1/");
    run.signal(Signal::INT);
    run.end().expect_code(130).expect_stderr(&["lustrine: interrupted"]);
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let mut run =
        Running::start(&mut selftest(&scratch, &["--test", "ping,write", "--time", "60"]));
    run.wait_for("[1/");
    eventually("the second node's control socket", || {
        fs::read_dir(scratch.path()).ok()?.next().map(|_| ())
    });
    run.signal(Signal::KILL);
    // The other node and the plain TCP process share its standard error: it ends when they have.
    assert_eq!(run.end().code, None);
    // A killed process cannot remove its private directory, with its lock; the next run does so.
    // The other node has removed its socket.
    for entry in fs::read_dir(scratch.path()).expect("it is ours").flatten() {
        let left = fs::read_dir(entry.path()).expect("a directory").flatten();
        let left: Vec<_> = left.map(|file| file.file_name()).collect();
        assert_eq!(left, ["lock"], "left behind");
    }
}

#[test]
fn the_running_node_measures_with_its_own_nid() {
    let server = Node::open();
    let near = server.beside(&["--accept", "all"]);
    let short = ["--test", "ping,read", "--size", "4k", "--concurrency", "2", "--time", "0.2"];
    let measure = |control: &[&str]| {
        let mut command = lustrine();
        command.args(["selftest", "--to", &server.nid(), "--json", "-"]).args(short).args(control);
        command.env("LUSTRINE_CONTROL", near.control());
        finish(&mut command)
    };
    // One load after the other, on the same event loop.
    for _ in 0..2 {
        let done = measure(&[]).ok();
        let report = done.json();
        assert!(rows(&report).iter().all(|row| number(row, "/ops") > 0.0), "{report:#}");
        assert_eq!(report["results"].as_array().map(Vec::len), Some(2));
        assert_eq!(done.json()["from"], near.nid());
        assert_eq!(done.json()["node"]["kind"], "running", "{}", done.stdout);
        assert_eq!(done.json()["node"]["nid"], near.nid());
        done.expect_stderr(&[&format!("through the running node {}", near.nid())]);
    }
    assert!(near.stats().lnet["recv_length"] > 0);
    let net = format!("tcp={}:{}", loopback(), server.port());
    let done = measure(&["--net", &net]).ok();
    assert_eq!(done.json()["node"]["kind"], "temporary", "{}", done.stdout);
    assert_ne!(done.json()["from"], near.nid());
    // Without options that describe a node.
    let mut command = lustrine();
    command.args(["selftest", "--to", &server.nid(), "--no-node", "--patience", "1"]);
    command.env("LUSTRINE_CONTROL", near.control());
    finish(&mut command)
        .expect_code(1)
        .expect_stderr(&["through a temporary node 127.", "nothing listens on TCP port 988"]);
}

#[test]
fn a_killed_run_leaves_nothing_at_the_running_node() {
    let server = Node::open();
    let near = server.beside(&["--accept", "all"]);
    let mut command = near.controlled(&["selftest", "--to", &server.nid(), "--time", "600"]);
    let run = Running::start(command.args(["--test", "read", "--size", "1M"]));
    eventually("load", || (near.stats().lnet["recv_length"] > 1 << 20).then_some(()));
    run.signal(Signal::KILL);
    run.end();
    // The session at the server ends too, so that others can have it without --force.
    eventually("the end of the session", || {
        let mut other = server.client("selftest");
        let done = finish(other.args(["--test", "ping", "--concurrency", "1", "--time", "0.1"]));
        (done.code == Some(0)).then_some(())
    });
    let mut again = near.controlled(&["selftest", "--to", &server.nid(), "--time", "0.1"]);
    finish(again.args(["--test", "ping", "--concurrency", "1"])).ok();
}

#[test]
fn no_privilege_is_needed() {
    let scratch = Scratch::new();
    let Some(mut command) = unprivileged(&scratch) else { return };
    command.args(["selftest", "--time", "0.1", "--concurrency", "8", "--json", "-"]);
    let report = finish(&mut command).ok().json();
    assert_eq!(report["identity"], "userland");
    assert_eq!(rows(&report).len(), 5);
    rows(&report).iter().for_each(|row| check_row(row, 0.1));
}
