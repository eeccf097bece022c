//! `lustrine selftest --plan`: nodes that it starts itself, and nodes that are already running.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Node, Running, Scratch, eventually, finish, loopback, lustrine};

/// A short plan: two clients, two servers, all tests at once.
const PLAN: &str = "\
name: short
groups: {clients: 2, servers: 2}
steps:
- name: mixed
  time: 300 ms
  warm_up: 100 ms
  tests:
  - {do: ping, from: clients, to: servers, spread: all, rate: 200}
  - {do: read, from: clients, to: servers, size: 4 KiB, concurrency: 2, check: full}
  - {do: write, from: servers, to: clients, size: 64 KiB, check: full}
- name: turns
  time: 200 ms
  warm_up: 50 ms
  tests: [{do: read, from: clients, to: servers, spread: rounds}]
";

fn selftest(scratch: &Scratch, plan: &str, args: &[&str]) -> Command {
    let file = scratch.file("plan.yaml");
    fs::write(&file, plan).expect("a plan");
    let mut command = lustrine();
    command.arg("selftest").arg("--plan").arg(file).args(args).env("TMPDIR", scratch.path());
    command
}

#[track_caller]
fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

#[test]
fn a_plan_with_local_nodes_writes_all_forms_of_results() {
    let scratch = Scratch::new();
    let (json, csv, page) = (scratch.file("r.json"), scratch.file("r.csv"), scratch.file("r.html"));
    let mut command = selftest(&scratch, PLAN, &["--local", "--set", "cpu_npartitions=1"]);
    command.arg("--json").arg(&json).arg("--csv").arg(&csv).arg("--report").arg(&page);
    let done = finish(&mut command).ok();
    for there in ["plan short", "clients: 2 nodes", "mixed\n", "ping ", "200 per second and client"]
    {
        assert!(done.stdout.contains(there), "{there}: {}", done.stdout);
    }
    assert!(done.stdout.contains(" 4 pairs (client -> server): slowest"), "{}", done.stdout);
    let results: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("JSON")).expect("it is JSON");
    let points = results["points"].as_array().expect("points");
    assert_eq!(points.len(), 3, "one, and two rounds");
    for row in points.iter().flat_map(|point| point["rows"].as_array().expect("rows")) {
        let (seconds, ops) = (number(row, "/seconds"), number(row, "/ops"));
        assert!(seconds >= 0.2 && ops >= 1.0, "{row}");
        assert_eq!((number(row, "/errors"), number(row, "/silent")), (0.0, 0.0), "{row}");
        assert_eq!(row["lost"].as_array().map(Vec::len), Some(0), "{row}");
        let parts = ["p50", "p90", "p99", "max"].map(|p| number(row, &format!("/latency_us/{p}")));
        assert!(parts[0] > 0.0 && parts.is_sorted(), "{row}");
        let clients = row["by_client"].as_array().expect("clients");
        let sum: f64 = clients.iter().map(|client| number(client, "/ops")).sum();
        assert_eq!(sum, ops, "{row}");
        let seen: u64 = row["histogram"]
            .as_array()
            .expect("a histogram")
            .iter()
            .filter_map(|bucket| bucket[1].as_u64())
            .sum();
        // Operations that ended after the point have latencies too: those that were in flight, and
        // with a limited rate those that were due, which wait on a busy machine.
        let clients = number(row, "/clients");
        let in_flight = clients * number(row, "/servers") * number(row, "/concurrency");
        let due = row["rate_limit"].as_f64().unwrap_or(0.0) * clients * seconds;
        assert!((ops..=ops.max(due) + in_flight).contains(&(seen as f64)), "{row}");
        assert_eq!(number(row, "/lost_ops"), 0.0, "{row}");
    }
    let (machine, nodes) = (&results["provenance"]["machine"], &results["provenance"]["nodes"]);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    assert_eq!(machine["kernel"].as_str(), Some(kernel.trim()), "{machine}");
    assert_eq!(nodes.as_array().map(Vec::len), Some(5), "the console and four nodes: {nodes}");
    for node in nodes.as_array().expect("nodes") {
        assert_eq!(node["devices"][0]["name"], "lo", "{node}");
        assert_eq!(node["changed_tunables"]["cpu_npartitions"]["value"], 1, "{node}");
    }
    assert_eq!(points[0]["nodes"].as_array().map(Vec::len), Some(4), "counters of each node");
    let csv = fs::read_to_string(&csv).expect("CSV");
    assert_eq!(csv.lines().count(), 1 + 3 * 3 + 2 * 3);
    let page = fs::read_to_string(&page).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{page}");
    let again = scratch.file("again.html");
    let limits = ["--require", "errors <= 0", "--require", "ping >= 1 /s"];
    let mut report = lustrine();
    let plots = scratch.file("plots");
    report.arg("report").arg(&json).arg("--html").arg(&again).args(limits);
    report.arg("--plots").arg(&plots);
    let said = finish(&mut report).ok().stdout;
    assert!(said.starts_with("plan short\n") && said.matches(": met, ").count() == 2, "{said}");
    assert_eq!(fs::read_to_string(&again).expect("a page"), page, "the same from JSON");
    let drawn = fs::read_dir(&plots).expect("a directory").count();
    assert_eq!(drawn, 2 * page.matches("<svg ").count(), "SVG and PNG of each plot");
    fs::remove_file(&again).expect("it was there");
    fs::remove_dir_all(&plots).expect("it was there");
    let left: Vec<_> = fs::read_dir(scratch.path()).expect("a directory").collect();
    assert_eq!(left.len(), 4, "the plan and its results: nothing else stays");
}

#[test]
fn the_directory_of_a_run_that_was_killed_is_removed_by_the_next_one() {
    let scratch = Scratch::new();
    // Other users could write to the test's directory itself.
    let private = scratch.file("tmp");
    fs::create_dir(&private).expect("a directory");
    let start = |time: &str, plan: &str| {
        let args = ["--local", "--set", "cpu_npartitions=1", "--time", time];
        let mut command = selftest(&scratch, plan, &args);
        command.env("TMPDIR", &private);
        command
    };
    let left = || fs::read_dir(&private).expect("a directory").count();
    let mut killed = Running::start(&mut start("3600", PLAN));
    killed.wait_for("  1 s  ping");
    killed.signal(Signal::KILL);
    killed.end();
    assert_eq!(left(), 1, "a process that is killed removes nothing");
    let mut other = lustrine();
    other.args(["selftest", "--test", "ping", "--concurrency", "1", "--time", "3600"]);
    let mut other = Running::start(other.env("TMPDIR", &private));
    other.wait_for("ping");
    assert_eq!(left(), 1, "the new one only");
    // The directory of a run that goes on stays.
    finish(&mut start("0.2", PLAN)).ok();
    assert_eq!(left(), 1);
    other.signal(Signal::INT);
    other.end().expect_code(130);
    assert_eq!(left(), 0);
}

#[test]
fn a_dry_run_shows_the_plan_and_a_time_applies_to_all_points() {
    let scratch = Scratch::new();
    let args = ["--dry-run", "--time", "3", "--group", "clients=10.0.0.[1-2]@tcp"];
    let said = finish(&mut selftest(&scratch, PLAN, &args)).ok().stdout;
    for there in [
        "plan short\n",
        "clients: 10.0.0.1@tcp 10.0.0.2@tcp\n",
        "servers: 2, from --group servers=NIDS or --local\n",
        "mixed: 3 s for each point, after 0.1 s\n    1  mixed\n",
        "       - read: 2 of clients, 2 of servers, size 4k, concurrency 2\n",
        "    3  turns, round 2\n",
        "\n3 points, at least 10 s\n",
    ] {
        assert!(said.contains(there), "{there}: {said}");
    }
    let args = ["--time", "1.1", "--local", "--json", "-", "--set", "cpu_npartitions=1"];
    let results = finish(&mut selftest(&scratch, PLAN, &args)).ok().json();
    let row = &results["points"][0]["rows"][0];
    assert!(number(row, "/seconds") >= 1.1, "the file says 0.3: {row}");
}

/// A client with two partitions, whose servers belong to both, divides its rate between them.
#[test]
fn a_rate_limits_the_client_and_not_each_partition() {
    let scratch = Scratch::new();
    let plan = "name: slow\ngroups: {clients: 1, servers: 4}\nsteps:\n- time: 1 s\n  tests: [{do: \
                ping, from: clients, to: servers, spread: all, concurrency: 4, rate: 200}]\n";
    let args = ["--local", "--json", "-", "--set", "cpu_npartitions=2"];
    let results = finish(&mut selftest(&scratch, plan, &args)).ok().json();
    let row = &results["points"][0]["rows"][0];
    let (ops, seconds) = (number(row, "/ops"), number(row, "/seconds"));
    // A delay is made up for, 10 ms of it on each partition, and what was sent before the measured
    // time can end in it.
    let late = number(row, "/latency_us/max") / 1e6;
    assert!(ops > 0.0 && ops <= 200.0 * (seconds + 0.1 + late), "{row}");
}

#[test]
fn a_plan_runs_on_nodes_that_are_already_running() {
    let one = Node::start(&["--accept", "all", "--selftest", "full"]);
    let two = one.beside(&["--accept", "all", "--selftest", "full"]);
    let scratch = Scratch::new();
    let plan = PLAN.replace("rate: 200", "concurrency: 1");
    let (clients, servers) = (format!("clients={}", one.nid()), format!("servers={}", two.nid()));
    let plan = plan.replace("spread: all", "spread: 1:1").replace("spread: rounds", "spread: all");
    let args = ["--group", &clients, "--group", &servers, "--json", "-"];
    let mut command = selftest(&scratch, &plan, &args);
    command.args(["--net", &format!("tcp={}:{}", loopback(), one.port())]);
    let done = finish(&mut command).ok();
    let results = done.json();
    assert_eq!(results["groups"]["clients"][0], one.nid().as_str());
    assert_eq!(results["points"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_plan_runs_through_the_running_node() {
    let near = Node::open();
    let other = near.beside(&["--accept", "all", "--selftest", "full"]);
    let scratch = Scratch::new();
    let groups = [("clients", near.nid()), ("clients", other.nid()), ("servers", other.nid())];
    let groups = groups.map(|(group, nid)| format!("{group}={nid}"));
    let mut args = vec!["--json", "-"];
    groups.iter().for_each(|group| args.extend(["--group", group]));
    args.push("--control");
    let start = |time: &str| {
        let mut command = selftest(&scratch, PLAN, &args);
        command.arg(near.control()).args(["--time", time]);
        Running::start(&mut command)
    };
    let done = start("0.2").end().ok();
    assert_eq!(done.json()["node"]["nid"], near.nid());
    assert_eq!(done.json()["points"].as_array().map(Vec::len), Some(2), "{}", done.stdout);
    // The session of a process that is killed ends, and with it the load.
    let run = start("600");
    let lst = |words: &[&str]| finish(&mut near.controlled_tool("lst", words));
    eventually("the session", || (lst(&["show_session"]).code == Some(0)).then_some(()));
    let refused = start("0.2").end().expect_code(1);
    refused.expect_stderr(&["session short exists", "lst end_session, or use --no-node"]);
    run.signal(Signal::KILL);
    run.end();
    eventually("its end", || (lst(&["show_session"]).code == Some(255)).then_some(()));
    start("0.2").end().ok();
}

#[test]
fn errors_in_a_plan_are_reported_before_anything_runs() {
    let scratch = Scratch::new();
    let cases: [(&str, &[&str], i32, &str); 7] = [
        (
            "name: x\n",
            &["--local"],
            2,
            "plan.yaml:1:1: the required key \"groups\" of a plan is missing",
        ),
        (PLAN, &[], 2, "group clients has no nodes: name them with --group clients=NIDS"),
        (PLAN, &["--group", "client=1@tcp"], 2, "it has clients, servers"),
        (PLAN, &["--group", "clients"], 2, "no '='"),
        (
            PLAN,
            &["--local", "--group", "clients=127.0.0.9@tcp"],
            2,
            "name all groups' nodes, or none",
        ),
        (PLAN, &["--local", "--to", "10.0.0.1@tcp"], 2, "cannot be used with"),
        (PLAN, &["--local", "--csv", "/no/such/directory/r"], 1, "cannot write /no/such"),
    ];
    for (plan, args, status, said) in cases {
        let done =
            finish(&mut selftest(&scratch, plan, args)).expect_code(status).expect_stderr(&[said]);
        assert!(done.stdout.is_empty(), "{args:?}: {}", done.stdout);
    }
}

#[test]
fn a_signal_ends_the_session_and_the_nodes() {
    let scratch = Scratch::new();
    let plan = PLAN.replace("time: 300 ms", "time: 1 h");
    let args = ["--local", "--set", "cpu_npartitions=1", "--json", "-"];
    // The last one is that of a terminal that was closed.
    for signal in [Signal::INT, Signal::HUP] {
        let mut running = Running::start(&mut selftest(&scratch, &plan, &args));
        // The live view shows that the tests are running.
        running.wait_for("  1 s  ping");
        running.signal(signal);
        let ended = running.end().expect_code(130).expect_stderr(&["interrupted"]);
        let results = ended.json();
        assert_eq!(results["interrupted"], true);
        assert!(number(&results, "/points/0/rows/0/ops") > 0.0, "what was measured until then");
    }
    let left: Vec<_> = fs::read_dir(scratch.path()).expect("a directory").collect();
    assert_eq!(left.len(), 1, "only the plan stays");
}
