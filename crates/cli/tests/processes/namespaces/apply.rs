//! `lustrine tune --apply` and `--undo` on a host of a laboratory, with a running node. The path is
//! described with --rate, so that no load is sent and the values follow from the round trip.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use lustrine_testing::{Need, not_run};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::lab::Laboratory;
use crate::common::{Finished, Running, Scratch, eventually, finish, lustrine};

const LONG: &str = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 200 Mb/s, delay: 10 ms}]
";
const TO: [&str; 6] = ["tune", "--to", "10.99.0.2@tcp", "--json", "--rate", "10G"];

/// The host `east`, its node and the directory with the record.
struct Scene {
    lab: Laboratory,
    control: String,
    state: String,
    _nodes: [Running; 2],
}

impl Scene {
    fn new() -> Option<Scene> {
        let lab = Laboratory::up(LONG)?;
        let start = |host: &str, control: &str| {
            let program = env!("CARGO_BIN_EXE_lustrine");
            let mut command = lab.command(&["exec", host, "--", program, "node"]);
            command.args(["--net", "tcp=eth0", "--accept", "all", "--until-eof"]);
            // A TUN device claims 10 Gb/s, from which two connections would follow.
            command.args(["--set", "conns_per_peer=1"]);
            let mut running = Running::start(command.args(["--control", control]));
            running.wait_for("control socket");
            running
        };
        let (control, there) = (lab.scratch("east.sock"), lab.scratch("west.sock"));
        let nodes = [start("east", &control), start("west", &there)];
        let state = lab.scratch("state");
        Some(Scene { lab, control, state, _nodes: nodes })
    }

    /// The program on the host.
    fn east(&self, args: &[&str]) -> Finished {
        let program = env!("CARGO_BIN_EXE_lustrine");
        let mut command = self.lab.command(&["exec", "east", "--", program]);
        finish(command.args(args))
    }

    fn apply(&self, args: &[&str]) -> Finished {
        let own = ["--control", &self.control, "--state", &self.state];
        self.east(&[&TO[..], &own, args].concat())
    }

    fn undo(&self, args: &[&str]) -> Finished {
        self.east(&[&["tune", "--undo", "--json", "--state", &self.state], args].concat())
    }

    fn buffers(&self, name: &str) -> Vec<u64> {
        let file = format!("/proc/sys/net/ipv4/{name}");
        let read = self.lab.at("east", move || fs::read_to_string(file).expect("a sysctl"));
        let text = read.join().expect("it does not panic");
        text.split_whitespace().map(|value| value.parse().expect("a number")).collect()
    }

    fn both(&self) -> [Vec<u64>; 2] {
        [self.buffers("tcp_rmem"), self.buffers("tcp_wmem")]
    }

    fn conns(&self) -> u64 {
        let mut show = lustrine();
        let shown = finish(show.args(["show", "net", "--json", "--control", &self.control]));
        shown.ok().json()["nets"][0]["conns_per_peer"].as_u64().expect("a number")
    }

    /// As an administrator would, beside `tune`.
    fn set_conns(&self, count: &str) {
        let set = ["lnetctl", "net", "set", "--all", "--conns-per-peer", count];
        let mut command = Command::new(env!("CARGO_BIN_EXE_lustrine"));
        finish(command.env("LUSTRINE_CONTROL", &self.control).args(set)).ok();
    }
}

/// The settings of a report of `--undo`, or of `--apply`, and what became of them.
fn results(report: &Value) -> Vec<(String, String)> {
    let rows = report.get("settings").filter(|rows| rows.is_array());
    let rows = rows.unwrap_or(&report["applied"]["settings"]);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let rows = rows.as_array().expect("a list");
    rows.iter().map(|row| (text(&row["setting"]), text(&row["result"]))).collect()
}

fn expect(report: &Value, expected: &[(&str, &str)]) {
    let found = results(report);
    let found: Vec<_> = found.iter().map(|(name, result)| (&**name, &**result)).collect();
    assert_eq!(found, expected, "{report:#}");
}

/// Settings for a part of what the path carries are shown, and not applied.
#[test]
fn nothing_is_applied_when_the_budget_ended_too_early() {
    let Some(scene) = Scene::new() else { return };
    let (before, conns) = (scene.both(), scene.conns());
    let budget = ["tune", "--to", "10.99.0.2@tcp", "--json", "--budget-bytes", "30M", "--apply"];
    let own = ["--control", &scene.control, "--state", &scene.state];
    let tuned = scene.east(&[&budget[..], &own].concat());
    let words = ["the budget ended too early", "and nothing is applied"];
    let report = tuned.expect_error(&words).json();
    assert!(!report["settings"].is_null() && report["applied"].is_null(), "{report:#}");
    assert_eq!((scene.both(), scene.conns()), (before, conns));
    expect(&scene.undo(&[]).ok().json(), &[]);
}

#[test]
fn what_is_applied_is_in_force_and_is_undone() {
    let Some(scene) = Scene::new() else { return };
    let (first, conns) = (scene.both(), scene.conns());
    assert_eq!(conns, 1);
    // Shown only.
    let args = ["--apply", "--dry-run", "--stream-rate", "3G"];
    let shown = scene.apply(&args).ok().json();
    let would = "would_change";
    expect(&shown, &[("tcp_rmem", would), ("tcp_wmem", would), ("conns_per_peer", would)]);
    assert_eq!((scene.both(), scene.conns()), (first.clone(), 1));
    assert!(!Path::new(&scene.state).exists());
    // Changed.
    let report = scene.apply(&["--apply", "--stream-rate", "3G"]).ok().json();
    let did = "changed";
    expect(&report, &[("tcp_rmem", did), ("tcp_wmem", did), ("conns_per_peer", did)]);
    let buffer = report["settings"]["tcp_buffer"].as_u64().expect("a number");
    assert!(buffer >= 2 * 25_000_000, "two round trips of 20 ms at 10 Gb/s: {buffer}");
    let raised = |values: &[u64]| vec![values[0], values[1], buffer];
    assert_eq!(scene.both(), [raised(&first[0]), raised(&first[1])]);
    assert_eq!(scene.conns(), 4, "10 Gb/s are more than three streams of 3 Gb/s");
    let record = Path::new(&scene.state).join("tune.json");
    assert_eq!(fs::metadata(&record).expect("a record").mode() & 0o777, 0o600);
    // Once more, with other values: the first ones stay in the record.
    let again = ["--apply=node,sysctl", "--stream-rate", "2G"];
    let report = scene.apply(&again).ok().json();
    // On a busy machine the round trip is perhaps longer now.
    let is_longer = report["settings"]["tcp_buffer"].as_u64().expect("a number") > buffer;
    let both = if is_longer { did } else { "unchanged" };
    expect(&report, &[("tcp_rmem", both), ("tcp_wmem", both), ("conns_per_peer", did)]);
    assert_eq!(scene.conns(), 5);
    let shown = scene.undo(&["--dry-run"]).ok().json();
    let would = "would_restore";
    expect(&shown, &[("conns_per_peer", would), ("tcp_wmem", would), ("tcp_rmem", would)]);
    assert_eq!(scene.conns(), 5);
    let did = "restored";
    let report = scene.undo(&[]).ok().json();
    expect(&report, &[("conns_per_peer", did), ("tcp_wmem", did), ("tcp_rmem", did)]);
    assert_eq!((scene.both(), scene.conns()), (first, conns));
    assert!(!record.exists());
    expect(&scene.undo(&[]).ok().json(), &[]);
}

#[test]
fn changes_of_others_stay_unless_forced() {
    let Some(scene) = Scene::new() else { return };
    let first = scene.both();
    scene.apply(&["--apply", "--stream-rate", "3G"]).ok();
    scene.set_conns("7");
    let report = scene.undo(&[]).expect_error(&["1 of 3 settings are not as asked"]).json();
    let did = "restored";
    expect(&report, &[("conns_per_peer", "foreign"), ("tcp_wmem", did), ("tcp_rmem", did)]);
    assert_eq!((scene.both(), scene.conns()), (first, 7));
    // It stays the administrator's for --apply as well.
    let again = ["--apply=node", "--stream-rate", "1G"];
    let report = scene.apply(&again).expect_error(&["1 of 1 settings"]).json();
    expect(&report, &[("conns_per_peer", "foreign")]);
    assert_eq!(scene.conns(), 7);
    expect(&scene.undo(&["--force"]).ok().json(), &[("conns_per_peer", did)]);
    assert_eq!(scene.conns(), 1);
}

#[test]
fn what_cannot_be_applied_is_reported_and_the_rest_is() {
    let Some(scene) = Scene::new() else { return };
    // Not measured: what one stream carries.
    let report = scene.apply(&["--apply=node"]).ok().json();
    expect(&report, &[]);
    let notes = report["applied"]["notes"].to_string();
    assert!(notes.contains("it is not known what one stream carries"), "{notes}");
    let mounts = |dir: &str| {
        let own = ["--state", &scene.state, "--apply=mounts", "--mount", dir];
        scene.east(&[&TO[..], &own].concat())
    };
    let (nowhere, plain) = (scene.lab.scratch("nowhere"), scene.lab.scratch(""));
    mounts(&nowhere).expect_error(&["No such file or directory"]);
    let words = "not the mount point of a file system mounted with `lustrine mount`";
    mounts(&plain).expect_error(&[words]);
    // A node that has ended takes its setting with it; the sysctls are of another namespace.
    scene.apply(&["--apply", "--stream-rate", "3G"]).ok();
    let Scene { lab, state, _nodes: nodes, .. } = scene;
    drop(nodes);
    let mut undo = lustrine();
    let elsewhere = finish(undo.args(["tune", "--undo", "--json", "--state", &state]));
    let elsewhere = elsewhere.expect_code(1).json();
    let left = "elsewhere";
    expect(&elsewhere, &[("conns_per_peer", "gone"), ("tcp_wmem", left), ("tcp_rmem", left)]);
    let program = env!("CARGO_BIN_EXE_lustrine");
    let mut undo = lab.command(&["exec", "east", "--", program, "tune", "--undo", "--json"]);
    let here = finish(undo.args(["--state", &state])).ok().json();
    expect(&here, &[("tcp_wmem", "restored"), ("tcp_rmem", "restored")]);
}

/// As of a mount in a container, whose mount point is not seen from outside.
#[test]
fn a_mount_in_another_mount_namespace_is_not_gone() {
    if !lustrine_sys::process::is_root() {
        return not_run(Need::Root, "mount namespaces are made by root");
    }
    let scratch = Scratch::new();
    let (state, pipe) = (scratch.file("state"), scratch.file("pipe"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut inside = Command::new("unshare");
    // It waits for the other end of the pipe.
    inside.args(["--mount", env!("CARGO_BIN_EXE_lustrine"), "pcap"]).arg(&pipe);
    let inside = Running::start(&mut inside);
    let own = fs::metadata("/proc/self/ns/mnt").unwrap().ino();
    let namespace = format!("/proc/{}/ns/mnt", inside.pid());
    let mntns = eventually("the namespace", || {
        let there = fs::metadata(&namespace).ok()?.ino();
        (there != own).then_some(there)
    });
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    let file = state.join("tune.json");
    let keep = |boot: &str| {
        let location = json!({
            "kind": "mount", "dir": "/not/here", "source": "10.0.0.9@tcp:/fs", "pid": 2,
            "mntns": mntns, "boot": boot,
        });
        let entry = json!({ "location": location, "first": "8", "set": ["64"] });
        fs::write(&file, json!({ "version": 3, "entries": [entry] }).to_string()).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    };
    keep(boot.trim());
    let undo = || {
        let mut undo = lustrine();
        finish(undo.args(["tune", "--undo", "--json", "--state"]).arg(&state))
    };
    expect(&undo().expect_code(1).json(), &[("max_rpcs_in_flight", "elsewhere")]);
    assert!(file.exists(), "the record stays for --undo in that namespace");
    keep("another boot");
    expect(&undo().ok().json(), &[("max_rpcs_in_flight", "gone")]);
}

#[test]
fn options_that_contradict_each_other() {
    let run = |args: &[&str]| finish(lustrine().arg("tune").args(args));
    run(&["--undo", "--to", "10.0.0.2@tcp"]).expect_code(2);
    run(&[]).expect_code(2).expect_stderr(&["--to"]);
    run(&["--to", "10.0.0.2@tcp", "--force"])
        .expect_bad_input(&["--force is for --apply or --undo"]);
    run(&["--to", "10.0.0.2@tcp", "--state", "/x"]).expect_bad_input(&["--state is for"]);
    run(&["--to", "10.0.0.2@tcp", "--apply=node", "--mount", "/"])
        .expect_bad_input(&["--mount is for --apply or --apply=mounts"]);
    run(&["--to", "10.0.0.2@tcp", "--stream-rate", "1G"]).expect_code(2);
}
