//! `lustrine doctor` in laboratories: every fault that is made is found, and nothing else is;
//! healthy paths have no finding.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use lustrine_doctor::{Code, Severity};
use serde_json::Value;

use super::lab::Laboratory;
use super::netns::NetNs;
use crate::common::{Finished, Running, finish};

mod controls;
mod faults;
mod peers;

pub(super) const WEST: &str = "10.99.0.2@tcp";

/// A short link; its rate is given by `--rate`, because a TUN device says 10 Gb/s.
const PAIR: &str = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 1 Gb/s}]
";
const RATE: [&str; 2] = ["--rate", "1G"];

/// The program on a host.
pub(super) fn lustrine(lab: &Laboratory, host: &str, args: &[&str]) -> Command {
    on(lab, host, &[&[env!("CARGO_BIN_EXE_lustrine")], args].concat())
}

/// A program on a host.
fn on(lab: &Laboratory, host: &str, words: &[&str]) -> Command {
    let mut command = lab.command(&[&["exec", host, "--"], words].concat());
    command.env_remove("XDG_RUNTIME_DIR");
    command
}

/// Runs a command line on a host; it must succeed.
#[track_caller]
pub(super) fn run(lab: &Laboratory, host: &str, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    finish(&mut on(lab, host, &words)).ok();
}

/// A node on a host, with its control socket.
pub(super) fn node(lab: &Laboratory, host: &str, args: &[&str]) -> (Running, String) {
    let socket = lab.scratch(&format!("{host}.sock"));
    let words = [&["node", "--until-eof", "--control", &socket], args].concat();
    let mut running = Running::start(&mut lustrine(lab, host, &words));
    running.wait_for("control socket");
    (running, socket)
}

pub(super) const TCP: [&str; 2] = ["--net", "tcp=eth0"];

/// What `doctor` on host `east` says. Without `--control` there is no running node: the machine
/// may have one at the default place, which is none of this laboratory's.
fn doctor(lab: &Laboratory, args: &[&str]) -> Finished {
    finish(&mut lustrine(lab, "east", &[&["doctor", "--json"], args].concat()))
}

fn to_west(lab: &Laboratory, args: &[&str]) -> Finished {
    doctor(lab, &[&["--to", WEST], args].concat())
}

fn codes(report: &Value) -> BTreeSet<&str> {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().map(|one| one["code"].as_str().expect("a name")).collect()
}

/// The one fault was found, and no other.
#[track_caller]
fn found(code: Code, done: &Finished) {
    let report = done.json();
    assert_eq!(codes(&report), BTreeSet::from([code.name()]), "{done:#?}");
    let finding = &report["findings"][0];
    let severity = finding["severity"].as_str().expect("a name");
    let at_least = |name: &str| {
        [Severity::Notice, Severity::Warning, Severity::Error]
            .into_iter()
            .find(|one| one.name() == name)
            .is_some_and(|one| one >= code.severity())
    };
    assert!(at_least(severity), "{finding}");
    for part in ["what", "evidence", "consequence", "remedy"] {
        assert!(!finding[part].as_str().expect("text").is_empty(), "{part}: {finding}");
    }
    let status = match severity {
        "error" => 4,
        "warning" => 3,
        _ => 0,
    };
    assert_eq!(done.code, Some(status), "{done:#?}");
}

/// Nothing was found, in a look that did not see everything.
#[track_caller]
fn partly_healthy(done: &Finished) -> Value {
    let report = done.json();
    assert_eq!((codes(&report), done.code), (BTreeSet::new(), Some(1)), "{done:#?}");
    report
}

/// Nothing was found.
#[track_caller]
fn healthy(done: &Finished) -> Value {
    let report = done.json();
    assert_eq!(codes(&report), BTreeSet::new(), "{done:#?}");
    assert_eq!(done.code, Some(0), "{done:#?}");
    report
}

#[test]
fn a_dry_run_sends_nothing() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let before = lab.status()["links"][0]["directions"][0]["packets"].clone();
    let done = to_west(&lab, &["--dry-run"]);
    assert_eq!(done.json()["used"]["bytes"], 0);
    assert!(done.stderr.contains("without --dry-run, for each peer: up to "), "{done:#?}");
    assert_eq!(lab.status()["links"][0]["directions"][0]["packets"], before);
    // It does not say that all is well with a peer that it did not look at.
    let unseen = done.json()["unseen"].to_string();
    assert!(unseen.contains(&format!("{WEST}: not looked at (--dry-run)")), "{unseen}");
    let text = finish(&mut lustrine(&lab, "east", &["doctor", "--dry-run", "--to", WEST])).ok();
    assert!(text.stdout.starts_with("no problem found at this host\n"), "{text:#?}");
}

#[test]
fn the_budget_is_kept_and_what_it_left_out_is_said() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let _node = node(&lab, "west", &TCP);
    let done = to_west(&lab, &[&RATE[..], &["--budget-bytes", "2k"]].concat());
    let report = partly_healthy(&done);
    let used = report["used"]["bytes"].as_u64().expect("bytes");
    assert!(used > 0 && used <= 2048, "{used}");
    let unseen = report["unseen"].to_string();
    assert!(unseen.contains("not seen before the budget ended: full segments to it, "), "{unseen}");
    assert!(!unseen.contains("no answer to ICMP"), "{unseen}");
    let left_out = report["observed"]["peers"][0]["left_out"].to_string();
    assert!(left_out.contains("routes and the clock"), "{left_out}");
    // It does not say that all is well.
    let args = ["doctor", "--to", WEST, "--rate", "1G", "--budget-bytes", "2k"];
    let words = format!("{WEST}: not all of it was seen; \"not seen\" says what");
    let text = finish(&mut lustrine(&lab, "east", &args)).expect_error(&[&words]).stdout;
    let words = format!("no problem found in what was looked at, which is not all of {WEST}\n");
    assert!(text.contains(&words), "{text}");
}

/// What a longer look would find is not found, and nothing else is said to be wrong.
#[test]
fn a_look_that_is_cut_short_has_no_finding() {
    let Some(lab) = Laboratory::up(include_str!("../../../../../labs/black-hole.yaml")) else {
        return;
    };
    let _node = node(&lab, "west", &TCP);
    let report = partly_healthy(&to_west(&lab, &[&RATE[..], &["--budget-time", "1"]].concat()));
    let unseen = report["unseen"].to_string();
    assert!(unseen.contains("not seen before the budget ended"), "{unseen}");
}

#[test]
fn a_bundle_has_what_it_lists_and_overwrites_nothing() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let (_node, socket) = node(&lab, "east", &TCP);
    let _west = node(&lab, "west", &TCP);
    let bundle = lab.scratch("bundle.tar.gz");
    let args = [&RATE[..], &["--control", &socket, "--bundle", &bundle]].concat();
    let done = to_west(&lab, &args);
    healthy(&done);
    let directory = lab.scratch("opened");
    fs::create_dir(&directory).expect("a directory");
    finish(Command::new("tar").args(["-xzf", &bundle, "-C", &directory])).ok();
    let read = |name: &str| {
        let path = format!("{directory}/lustrine-doctor/{name}");
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let list = read("README.txt");
    for name in ["report.json", "sysctl.txt", "node/peer.json", "node/config.yaml", "net/snmp"] {
        assert!(list.contains(&format!("\n{name}: ")), "{name} is not in {list}");
        assert!(!read(name).is_empty(), "{name}");
    }
    let report: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    assert_eq!(report["observed"]["peers"][0]["nid"], WEST);
    assert!(!read("sysctl.txt").contains("fastopen_key"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(&bundle).expect("a file").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    to_west(&lab, &args).expect_bad_input(&["is there already"]);
}

/// Two namespaces, a node in the second, and `doctor` in both of them, twice: the second look sees
/// what the first one has done to the node's credits.
fn from_both_ends(here: &NetNs, there: &NetNs, args: &[&str]) -> Finished {
    here.connect(there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    let node = there.node(&TCP);
    let (pid, program) = (there.pid(), env!("CARGO_BIN_EXE_lustrine"));
    let control = format!("LUSTRINE_LAB_CONTROL={}", node.control().display());
    let command = format!("nsenter --target {pid} --net --mount env {control} {program}");
    let words = ["doctor", "--json", "--to", "10.213.0.2@tcp", "--both-ends", &command];
    let look = || finish(&mut here.lustrine(&[&words, args].concat()));
    look();
    look()
}

/// `nsenter --net` leaves /sys as it is, which is that of another namespace.
#[test]
fn an_mtu_is_that_of_the_network_namespace() {
    let Some([here, there]) = NetNs::several() else { return };
    here.connect(&there, "eth0", 1340, ["10.213.0.1/24", "10.213.0.2/24"]);
    let mut command = Command::new("nsenter");
    command.args(["--target", &here.pid().to_string(), "--net", env!("CARGO_BIN_EXE_lustrine")]);
    let report = finish(command.args(["doctor", "--json"])).json();
    let interfaces = report["observed"]["host"]["interfaces"].as_array().expect("a list");
    let eth0 = interfaces.iter().find(|one| one["name"] == "eth0").expect("the interface");
    assert_eq!((&eth0["mtu"], &eth0["speed_mbps"]), (&1340.into(), &Value::Null), "{eth0}");
}

/// The other end runs the same program, and the two views are put together.
#[test]
fn both_ends_are_asked() {
    let Some([here, there]) = NetNs::several() else { return };
    let report = healthy(&from_both_ends(&here, &there, &RATE));
    let remote = &report["observed"]["peers"][0]["remote"];
    assert_eq!(remote["icmp"]["hops_out"], 1, "{remote}");
    assert_eq!(remote["node"]["nis"][0]["nid"], "10.213.0.2@tcp", "{remote}");
    assert_eq!(remote["route"]["interface"], "eth0", "{remote}");
}

#[test]
fn an_end_that_cannot_be_asked_is_not_seen() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let _node = node(&lab, "west", &TCP);
    let fails = "sh -c 'echo no route to oss1 >&2; exit 255' sh";
    let done = to_west(&lab, &[&RATE[..], &["--both-ends", fails]].concat());
    let unseen = partly_healthy(&done)["unseen"].to_string();
    assert!(unseen.contains("gave no report (exit status: 255): no route to oss1"), "{unseen}");
    assert!(done.stderr.contains("the other end could not be asked"), "{done:#?}");
}
