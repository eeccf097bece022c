//! `lustrine tune` over a long link of a laboratory.

use std::fs;
use std::path::Path;
use std::process::Command;

use lustrine_config::{InterfaceChoice, NodeConfig, Strictness};
use rustix::process::Signal;
use serde_json::Value;

use super::lab::Laboratory;
use crate::common::{Running, finish};

/// 200 Mb/s and 20 ms: what is in flight in two round trips are 15.3 RPCs of 64 KiB.
const LONG: &str = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 200 Mb/s, delay: 10 ms}]
";
const RATE: u64 = 200_000_000;
const RTT: u64 = 20_000_000;
const RPC: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// The program on a host.
fn lustrine(lab: &Laboratory, host: &str, args: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_lustrine");
    let mut command = lab.command(&["exec", host, "--", program]);
    command.args(args);
    command
}

fn node(lab: &Laboratory) -> Running {
    node_at(lab, "west", &[])
}

fn node_at(lab: &Laboratory, host: &str, options: &[&str]) -> Running {
    let socket = lab.scratch(&format!("{host}.sock"));
    let args = ["node", "--net", "tcp=eth0", "--until-eof", "--control", &socket];
    let mut running = Running::start(&mut lustrine(lab, host, &[&args, options].concat()));
    running.wait_for("control socket");
    running
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn the_settings_follow_from_the_path_and_are_written() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let _node = node(&lab);
    let (to, directory) = ("10.99.0.2@tcp", lab.scratch("tuned"));
    let mut args = vec!["tune", "--to", to, "--json", "--rpc-size", "64k", "--write", &directory];
    // On a busy machine a step takes several times as long.
    args.extend(["--budget-bytes", "1G", "--budget-time", "120", "--peers", "40"]);
    let done = finish(&mut lustrine(&lab, "east", &args)).ok();
    assert!(done.stderr.contains("at most 1024 MiB in all"), "{}", done.stderr);
    let report = done.json();
    let peer = &report["peers"][0];
    let (path, settings) = (&peer["path"], &report["settings"]);
    let (rtt, rate) = (number(&path["rtt_idle_ns"]), number(&path["rate"]));
    assert!(rtt >= RTT, "no packet is faster than the link: {rtt}");
    // Other programs can hold the link up, which then brings at once what waited: a short step can
    // count more than the rate, as a busy machine showed. A wrong unit is a factor of 8.
    assert!((RATE / 10..=2 * RATE).contains(&rate), "{rate}: {peer:#}");
    let rpcs = number(&settings["max_rpcs_in_flight"]);
    let latency = path["rpc_latency_ns"].as_u64().unwrap_or(0).max(2 * rtt);
    assert_eq!(rpcs, (rate * (latency / 1000) / 8_000_000 / RPC + 1).max(8), "{peer:#}");
    let formula = 2 * (RATE / 8 * RTT / 1_000_000_000) / RPC + 1;
    assert!(rpcs <= 4 * formula && 4 * rpcs >= formula, "{rpcs}, not {formula}");
    assert!(number(&settings["credits"]) >= 40 * number(&settings["peer_credits"]));
    for (when, in_flight) in [("before", 8), ("after", rpcs)] {
        assert_eq!(number(&peer[when]["in_flight"]), in_flight, "{when}");
        assert!(peer[when]["write"].is_object(), "{when}: {peer:#}");
        assert!(number(&peer[when]["write"]["rate"]) > 0, "{when}: {peer:#}");
    }
    let (used, most) = (number(&peer["used"]["bytes"]), 1024 * MIB);
    assert!(used > 0 && used <= most, "{used}");
    files_are_read_back(Path::new(&directory), settings, &peer["host"]);
    // Files are not overwritten.
    finish(&mut lustrine(&lab, "east", &args))
        .expect_bad_input(&["has a file lnetctl.yaml already"]);
}

fn files_are_read_back(directory: &Path, settings: &Value, host: &Value) {
    let read = |name: &str| fs::read_to_string(directory.join(name)).expect("a file");
    let yaml = read("lnetctl.yaml");
    let (config, warnings) =
        NodeConfig::from_yaml(&yaml, "lnetctl.yaml", Strictness::Strict).expect("it is valid");
    assert!(warnings.is_empty(), "{warnings:?}");
    let net = &config.nets[0];
    assert_eq!(net.place, InterfaceChoice::Interface("eth0".to_owned()));
    assert_eq!(net.peer_credits.map(u64::from), settings["peer_credits"].as_u64());
    assert_eq!(net.credits.map(u64::from), settings["credits"].as_u64());
    assert_eq!(net.conns_per_peer.map(u64::from), settings["conns_per_peer"].as_u64());
    let credits = format!("options ksocklnd peer_credits={} ", settings["peer_credits"]);
    assert!(read("ksocklnd.conf").starts_with(&credits));
    let rpcs = format!("set_to 'osc.*.max_rpcs_in_flight' {}\n", settings["max_rpcs_in_flight"]);
    assert!(read("set_param.sh").contains(&rpcs));
    // Buffers of this host that are larger stay as they are.
    let buffer = number(&settings["tcp_buffer"]).max(number(&host["tcp_rmem"][2]));
    let buffers = format!("net.ipv4.tcp_rmem = 4096 131072 {buffer}\n");
    assert!(read("sysctl.conf").contains(&buffers));
}

/// One packet in 50 is lost in each direction: of the thousands of a ramp some are.
#[test]
fn packets_are_measured() {
    let link = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 50 Mb/s, delay: 2 ms, mtu: 1400, loss: 2 %}]
";
    let Some(lab) = Laboratory::up(link) else { return };
    let _node = node(&lab);
    let args = ["tune", "--to", "10.99.0.2@tcp", "--budget-bytes", "96M", "--budget-time", "20"];
    let done = finish(&mut lustrine(&lab, "east", &[&args[..], &["--json"]].concat()));
    let report = done.json();
    let peer = &report["peers"][0];
    assert_eq!(peer["packets"]["path_mtu"], 1400, "{peer:#}");
    for way in ["segment_out", "segment_in"] {
        // 40 bytes of headers and 12 of time stamps.
        assert!((1000..=1360).contains(&number(&peer["packets"][way])), "{way}: {peer:#}");
    }
    let steps = peer["ramp"].as_array().expect("steps");
    let all = |what: &str| steps.iter().map(|step| number(&step["segments"][what])).sum::<u64>();
    assert!(all("sent") > 0 && all("received") > 0, "{peer:#}");
    assert!(all("retransmits") > 0 && all("out_of_order") > 0, "{peer:#}");
    let device = &peer["host"]["device"];
    assert!(device["tx_queue_len"].is_u64() && device["gro"].is_boolean(), "{device:#}");
    assert!(peer["dropped"]["sent"].is_u64(), "{peer:#}");
}

#[test]
fn a_small_budget_is_kept_and_the_report_says_what_it_ended() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let _node = node(&lab);
    let args = ["tune", "--to", "10.99.0.2@tcp", "--json", "--budget-bytes", "30M"];
    let done = finish(&mut lustrine(&lab, "east", &args));
    let words = ["INCOMPLETE: the budget ended too early for the path to 10.99.0.2@tcp"];
    let report = done.expect_error(&words).json();
    let peer = &report["peers"][0];
    let used = number(&peer["used"]["bytes"]);
    assert!((1..=30 * MIB).contains(&used), "{used}");
    // 8 RPCs of 4 MiB alone are more.
    assert!(peer["before"]["read"].is_null() && peer["after"]["write"].is_null(), "{peer:#}");
    assert_eq!(peer["path"]["streams"], "unknown");
    let notes = peer["notes"].to_string();
    assert!(notes.contains("the rate of writes stopped growing: it is a lower bound"), "{notes}");
    // What the link carried are these bytes, their headers, pings and HELLOs.
    let link = &lab.status()["links"][0]["directions"];
    let carried = number(&link[0]["bytes"]) + number(&link[1]["bytes"]);
    assert!(carried <= used + used / 4 + MIB, "{carried} of {used}");
    let why = peer["incomplete"].to_string();
    assert!(why.contains("the budget ended before the path was full"), "{why}");
    assert!(!report["settings"].is_null(), "{report:#}");
    // Too little for anything is no success.
    let args = ["tune", "--to", "10.99.0.2@tcp", "--budget-bytes", "1"];
    let nothing = finish(&mut lustrine(&lab, "east", &args));
    let nothing = nothing.expect_error(&["the budget ended too early for the path to 10.99.0.2"]);
    assert!(nothing.stdout.contains("INCOMPLETE: the budget was too small"), "{nothing:?}");
}

#[test]
fn without_load_the_path_carries_pings_alone() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let _node = node(&lab);
    let args = ["tune", "--to", "10.99.0.2@tcp", "--json", "--rate", "10G", "--rpc-size", "1M"];
    let report = finish(&mut lustrine(&lab, "east", &args)).ok().json();
    let peer = &report["peers"][0];
    let rtt = number(&peer["path"]["rtt_idle_ns"]);
    let rpcs = number(&report["settings"]["max_rpcs_in_flight"]);
    assert_eq!(rpcs, (2 * 10_000 * (rtt / 1000) / 8 / MIB + 1).min(256));
    assert_eq!(peer["ramp"], serde_json::json!([]));
    assert_eq!(number(&peer["used"]["bytes"]), 0);
    let dry = ["tune", "--to", "10.99.0.2@tcp", "--dry-run", "--json"];
    let report = finish(&mut lustrine(&lab, "east", &dry)).ok().json();
    assert!(
        report["settings"].is_null() && number(&report["peers"][0]["rtt"]["idle_min_ns"]) >= RTT
    );
    // 34 pings, and what makes connections and discovers the peer.
    let moved = lab.status()["links"][0]["directions"][0]["bytes"].clone();
    assert!(number(&moved) < MIB, "{moved}");
    let nobody = ["tune", "--to", "10.99.0.77@tcp"];
    finish(&mut lustrine(&lab, "east", &nobody))
        .expect_error(&["no route from this machine to 10.99.0.77"]);
}

/// The other nodes are measured, and the settings are those of them.
#[test]
fn a_node_that_does_not_answer_does_not_end_the_measurement() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let _node = node(&lab);
    let directory = lab.scratch("tuned");
    let args = ["--rate", "1G", "--json", "--apply", "--state", &lab.scratch("state")];
    let tune = |to: &str, more: &[&str]| {
        finish(&mut lustrine(&lab, "east", &[&["tune", "--to", to], &args[..], more].concat()))
    };
    let done = tune("10.99.0.77@tcp,10.99.0.2@tcp", &["--write", &directory]);
    let done = done.expect_error(&[
        "no route from this machine to 10.99.0.77",
        "10.99.0.77@tcp could not be measured to the end; the settings are for the other nodes, \
         and nothing is applied",
    ]);
    let report = done.json();
    assert_eq!(report["not_measured"][0]["nid"], "10.99.0.77@tcp", "{report:#}");
    assert_eq!(report["peers"][0]["nid"], "10.99.0.2@tcp", "{report:#}");
    assert!(report["settings"].is_object() && report["applied"].is_null(), "{report:#}");
    files_are_read_back(Path::new(&directory), &report["settings"], &report["peers"][0]["host"]);
    let done = tune("10.99.0.77@tcp,10.99.0.78@tcp", &[]);
    done.expect_error(&["none of the nodes could be measured"]);
}

/// The session of a program that was killed stays at the peer.
#[test]
fn a_session_that_was_left_behind_is_taken_over() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let _node = node_at(&lab, "west", &["--selftest-consoles", "10.99.0.1@tcp"]);
    let tune = ["tune", "--to", "10.99.0.2@tcp"];
    let small = [&tune[..], &["--budget-time", "4"]].concat();
    // Its ramp goes on for much longer than its first step.
    let mut killed = Running::start(&mut lustrine(&lab, "east", &tune));
    killed.wait_for("x 1 MiB");
    killed.signal(Signal::KILL);
    drop(killed.end());
    finish(&mut lustrine(&lab, "east", &small))
        .expect_error(&["the node is in session lustrine-tune", "--take-over"]);
    let done = finish(&mut lustrine(&lab, "east", &[&small[..], &["--take-over"]].concat()));
    assert!(done.stderr.contains("x 1 MiB"), "{done:#?}");
}

#[test]
fn a_refused_console_is_named_with_what_to_do() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let _node = node_at(&lab, "west", &["--selftest-consoles", "10.99.0.77@tcp"]);
    let words = [
        "10.99.0.2@tcp: the node refused MAKE_SESSION",
        "`selftest_consoles`, or set `selftest: full`",
    ];
    for command in ["tune", "selftest"] {
        let args = [command, "--to", "10.99.0.2@tcp"];
        finish(&mut lustrine(&lab, "east", &args)).expect_error(&words);
    }
}

/// The path drops large packets: pings are answered, bulk data are not.
#[test]
fn a_path_that_drops_large_packets_is_no_missing_module() {
    let file = include_str!("../../../../../labs/black-hole.yaml");
    let Some(lab) = Laboratory::up(file) else { return };
    let _node = node(&lab);
    finish(&mut lustrine(&lab, "east", &["tune", "--to", "10.99.0.2@tcp"])).expect_error(&[
        "10.99.0.2@tcp: no read has ended; pings are answered, bulk data are not",
        "`lustrine doctor --to 10.99.0.2@tcp`",
    ]);
}

/// The peer takes source ports below 1024 alone, which the nodes of `tune` do not have then.
#[test]
fn beside_a_running_node_it_is_said_what_can_be_done() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let (_node, _own) = (node(&lab), node_at(&lab, "east", &["--set", "conns_per_peer=1"]));
    let (control, state) = (lab.scratch("east.sock"), lab.scratch("state"));
    let tune = |args: &[&str]| {
        let mut tune = lustrine(&lab, "east", &["tune", "--to", "10.99.0.2@tcp", "--json"]);
        finish(tune.args(args).env("LUSTRINE_CONTROL", &control))
    };
    let refused = tune(&[]);
    let refused = refused.expect_error(&[
        "accepts only source ports below 1024",
        "tune measures with nodes of its own",
        "with --net",
        "with --rate it only sends pings, through the running node",
    ]);
    assert!(!refused.stderr.contains("--control"), "tune cannot: {}", refused.stderr);
    // Pings need no node with other values.
    let apply = ["--apply=node", "--state", &state, "--rate", "10G", "--stream-rate", "3G"];
    let report = tune(&apply).ok().json();
    assert_eq!(report["peers"][0]["values"]["identity"], "node");
    assert_eq!(report["applied"]["settings"][0]["result"], "changed", "{report:#}");
    assert_eq!(report["applied"]["settings"][0]["value"], "4", "{report:#}");
}

#[test]
fn beside_a_running_node_userland_is_said_once() {
    let Some(lab) = Laboratory::up(LONG) else { return };
    let own = node_at(&lab, "east", &[]);
    let _node = node_at(&lab, "west", &["--accept", "all"]);
    let (control, state) = (lab.scratch("east.sock"), lab.scratch("state"));
    let tune = |args: &[&str]| {
        let small = ["tune", "--to", "10.99.0.2@tcp", "--budget-bytes", "30M", "--state", &state];
        let mut tune = lustrine(&lab, "east", &[&small, args].concat());
        finish(tune.env("LUSTRINE_CONTROL", &control))
    };
    let done = tune(&["--apply"]);
    let done = done.expect_error(&["nothing is applied"]);
    let said = done.stderr.matches("tune measures as userland").count();
    assert_eq!((said, done.stderr.contains("--control")), (1, false), "{}", done.stderr);
    // Nothing is loaded for what cannot be known.
    let done = tune(&["--apply=node"]);
    let done = done.expect_error(&["what one connection carries cannot be measured"]);
    assert!(!done.stderr.contains("ramp"), "{}", done.stderr);
    drop(own);
}
