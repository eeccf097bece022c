//! `lustrine watch` towards nodes on the loopback: samples, alarms, metrics, reports, crashes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Node, Running, Scratch, eventually, finish, free_port, loopback, lustrine};

/// A daemon that watches these nodes, quickly.
fn watch(nodes: &[&Node], db: &Path, args: &[&str]) -> Command {
    let mut command = lustrine();
    command.args(["watch", "--no-node", "--until-eof", "--every", "100ms", "--pings", "3"]);
    let net = format!("tcp={}:{}", loopback(), nodes[0].port());
    command.args(["--net", &net]).arg("--db").arg(db);
    for node in nodes {
        command.args(["--to", &node.nid()]);
    }
    if !args.contains(&"--path-every") {
        command.args(["--path-every", "off"]);
    }
    command.args(args);
    command
}

fn report(db: &Path) -> Value {
    finish(lustrine().args(["watch", "report", "--json", "--db"]).arg(db)).ok().json()
}

/// Samples of a peer.
fn samples(report: &Value, nid: &str) -> u64 {
    let peers = report["peers"].as_array().expect("peers");
    let Some(peer) = peers.iter().find(|peer| peer["nid"] == nid) else { return 0 };
    let rows = peer["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["samples"].as_u64().expect("a number")).sum()
}

/// The first row of a peer with a value of this name.
fn value(report: &Value, nid: &str, name: &str) -> Option<u64> {
    let peers = report["peers"].as_array().expect("peers");
    let peer = peers.iter().find(|peer| peer["nid"] == nid)?;
    peer["rows"].as_array().expect("rows").iter().find_map(|row| row[name].as_u64())
}

fn page(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

#[test]
fn samples_are_taken_stored_served_and_shown() {
    let node = Node::open();
    let other = node.beside(&["--accept", "all"]);
    let scratch = Scratch::new();
    let (db, html) = (scratch.file("watch.db"), scratch.file("page.html"));
    let ip = loopback();
    let at = SocketAddr::from((ip, free_port(ip)));
    let mut args = vec!["--path-every", "1s", "--metrics"];
    let place = at.to_string();
    args.push(&place);
    let daemon = Running::start(&mut watch(&[&node, &other], &db, &args));
    for nid in [node.nid(), other.nid()] {
        eventually("samples of each peer, with a look at the path", || {
            let report = db.exists().then(|| report(&db))?;
            let looked = value(&report, &nid, "mtu_out").is_some();
            (looked && samples(&report, &nid) >= 5).then_some(())
        });
    }
    // A node that is ended for a look, and the look itself, are one node to the peer.
    assert_eq!((node.count("restarts_seen"), node.count("restarts_between")), (0, 0));
    let metrics = page(at);
    for line in [
        format!("lustrine_watch_peer_up{{peer=\"{}\"}} 1.0\n", node.nid()),
        format!("lustrine_watch_alarm_active{{peer=\"{}\",kind=\"mtu\"}} 0.0\n", other.nid()),
        "# TYPE lustrine_watch_samples_total counter\n".to_owned(),
        "lustrine_watch_unstored_samples 0.0\n".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    let before = samples(&report(&db), &node.nid());
    daemon.signal(Signal::TERM);
    let ended = daemon.end().ok();
    assert!(ended.stderr.contains("in an hour: "), "the budget is said: {ended:#?}");
    let after = report(&db);
    assert!(samples(&after, &node.nid()) >= before);
    assert!(value(&after, &node.nid(), "rtt_min_ns") > Some(0), "{after:#}");
    assert_eq!(value(&after, &node.nid(), "pings_lost"), Some(0), "{after:#}");

    let mut command = lustrine();
    command.args(["watch", "report", "--to", &node.nid(), "--from", "1h", "--db"]).arg(&db);
    let text = finish(command.arg("--html").arg(&html)).ok().stdout;
    assert!(text.starts_with(&format!("{}, hours\ntime (UTC) ", node.nid())), "{text}");
    assert!(text.contains("\nno alarms\n") && !text.contains(&other.nid()), "{text}");
    let html = fs::read_to_string(html).expect("a page");
    assert!(html.contains("Round trips") && html.contains("</html>"), "{html}");
    let none = ["watch", "report", "--to", "10.0.0.99@tcp", "--db"];
    finish(lustrine().args(none).arg(&db)).expect_bad_input(&["has nothing of 10.0.0.99@tcp"]);
}

#[test]
fn a_peer_that_ends_is_an_alarm_until_it_is_back() {
    let node = Node::open();
    let scratch = Scratch::new();
    let db = scratch.file("watch.db");
    let args = ["--timeout", "500ms", "--log", "json"];
    let mut daemon = Running::start(&mut watch(&[&node], &db, &args));
    let nid = node.nid();
    eventually("a sample", || (db.exists() && samples(&report(&db), &nid) > 0).then_some(()));
    let home = node.kill();
    daemon.wait_for("\"alarm\":\"unreachable\"");
    let node = home.start();
    daemon.wait_for("\"state\":\"over\"");
    daemon.signal(Signal::TERM);
    let said = daemon.end().ok().stderr;
    assert_eq!(said.matches("no answer: ").count(), 1, "it is said once: {said}");
    let lines = said.lines().filter(|line| line.contains("\"alarm\":"));
    let states: Vec<Value> = lines
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["fields"]["state"].clone())
        .collect();
    assert_eq!(states, ["raised", "over"], "{said}");
    let report = report(&db);
    let alarm = &report["peers"][0]["alarms"][0];
    assert_eq!((&alarm["kind"], &alarm["over"][1]), (&"unreachable".into(), &"back".into()));
    assert!(value(&report, &node.nid(), "pings_lost") > Some(0), "{report:#}");
}

/// The host of a peer is up, and its port is closed. The path is looked at, too: the node is ended
/// and started for it.
#[test]
fn a_peer_that_refuses_connections_takes_no_samples_from_others() {
    let (node, gone) = (Node::open(), Node::open());
    let ended = gone.nid();
    gone.kill();
    let scratch = Scratch::new();
    let db = scratch.file("watch.db");
    let args = ["--to", &ended, "--timeout", "1s", "--path-every", "1s"];
    let mut daemon = Running::start(&mut watch(&[&node], &db, &args));
    daemon.wait_for("unreachable: no ping was answered");
    let report = report(&db);
    let [healthy, dead] = [node.nid(), ended].map(|nid| samples(&report, &nid));
    assert!(healthy > 3 * dead, "{healthy} and {dead}: {report:#}");
    assert!(value(&report, &node.nid(), "mtu_out").is_some(), "{report:#}");
    assert_eq!(value(&report, &node.nid(), "pings_lost"), Some(0), "{report:#}");
}

/// What was stored is never lost, however often the daemon is killed.
#[test]
fn a_daemon_that_is_killed_loses_nothing_that_was_stored() {
    let node = Node::open();
    let scratch = Scratch::new();
    let db = scratch.file("watch.db");
    let mut stored = 0;
    for _ in 0..8 {
        let daemon = Running::start(&mut watch(&[&node], &db, &[]));
        let now = eventually("more samples", || {
            let now = db.exists().then(|| samples(&report(&db), &node.nid()))?;
            (now > stored + 1).then_some(now)
        });
        daemon.signal(Signal::KILL);
        daemon.end();
        stored = samples(&report(&db), &node.nid());
        assert!(stored >= now, "{stored} of {now}");
    }
    let files = fs::read_dir(scratch.path()).expect("a directory").count();
    assert_eq!(files, 1, "nothing is left beside it");
}

#[test]
fn a_file_belongs_to_one_daemon_and_others_are_left_alone() {
    let node = Node::open();
    let scratch = Scratch::new();
    let db = scratch.file("watch.db");
    let _daemon = Running::start(&mut watch(&[&node], &db, &[]));
    eventually("a sample", || {
        (db.exists() && samples(&report(&db), &node.nid()) > 0).then_some(())
    });
    let second = finish(&mut watch(&[&node], &db, &[]));
    second.expect_error(&["is in use by another process", "--db"]);
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let used = listener.local_addr().expect("it has one").to_string();
    let fresh = scratch.file("fresh.db");
    finish(&mut watch(&[&node], &fresh, &["--metrics", &used])).expect_error(&[&used]);
    assert!(!fresh.exists(), "a command that cannot run makes no file");
    let text = scratch.write("text", "not a database");
    finish(&mut watch(&[&node], &text, &[]))
        .expect_error(&["text is not a file of `lustrine watch`", "it is left as it is"]);
    assert_eq!(fs::read_to_string(&text).expect("a file"), "not a database");
    finish(lustrine().args(["watch", "report", "--db"]).arg(&text))
        .expect_bad_input(&["text is not a file of `lustrine watch`"]);
    // A copy that was cut short.
    let whole = fs::read(&db).expect("a file");
    let cut = scratch.file("cut");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    finish(&mut watch(&[&node], &cut, &[])).expect_error(&["cut is damaged", "move it away"]);
    assert_eq!(fs::read(&cut).expect("a file").len(), whole.len() / 2);
}

#[test]
fn a_dry_run_sends_and_stores_nothing() {
    let node = Node::open();
    let scratch = Scratch::new();
    let before = node.count("accepted");
    let args = ["watch", "--dry-run", "--to", &node.nid(), "--bandwidth-every", "1h"];
    let mut command = lustrine();
    command.args(args).args(["--bandwidth-bytes", "8M", "--db"]).arg(scratch.file("watch.db"));
    let said = finish(&mut command).ok().stdout;
    assert!(said.contains("1 peer: 10 pings every 10 s; the path every 5 min"), "{said}");
    assert!(said.contains("bandwidth every 1 h: 8.00 MiB"), "{said}");
    assert!(said.contains("\nin an hour: "), "{said}");
    assert_eq!(node.count("accepted"), before);
    assert_eq!(fs::read_dir(scratch.path()).expect("a directory").count(), 0);
}

/// Bandwidth is measured when it is asked for, and takes what was allowed.
#[test]
fn bandwidth_is_measured_within_its_bytes() {
    const MIB: u64 = 1 << 20;
    let node = Node::open();
    let scratch = Scratch::new();
    let db = scratch.file("watch.db");
    let args = ["--bandwidth-every", "1h", "--bandwidth-bytes", "32M"];
    let daemon = Running::start(&mut watch(&[&node], &db, &args));
    eventually("rates", || {
        let report = db.exists().then(|| report(&db))?;
        let rate = |name| value(&report, &node.nid(), name).filter(|rate| *rate > 0);
        rate("read_bits_per_s").and(rate("write_bits_per_s"))
    });
    daemon.signal(Signal::TERM);
    daemon.end().ok();
    let stats = node.stats();
    let moved = stats.lnet["recv_length"] + stats.lnet["send_length"];
    // What the loopback carries between two looks comes on top.
    assert!((16 * MIB..256 * MIB).contains(&moved), "{moved}");
}

#[test]
fn a_running_node_takes_the_samples() {
    let node = Node::open();
    let own = node.beside(&["--accept", "all"]);
    let scratch = Scratch::new();
    let db = scratch.file("watch.db");
    let mut command = lustrine();
    command.args(["watch", "--until-eof", "--every", "100ms", "--pings", "3", "--control"]);
    command.arg(own.control()).args(["--path-every", "off", "--to", &node.nid()]);
    let daemon = Running::start(command.arg("--db").arg(&db));
    eventually("samples", || (db.exists() && samples(&report(&db), &node.nid()) > 3).then_some(()));
    daemon.signal(Signal::TERM);
    daemon.end().ok().expect_stderr(&["through the running node"]);
}
