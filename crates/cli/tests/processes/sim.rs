//! Simulations: files in, tables, JSON and pages out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::common::{Running, Scratch, finish, lustrine};

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

fn sim(words: &[&str], file: &Path) -> Command {
    let mut command = lustrine();
    command.arg("sim").args(&words[..1]).arg(file).args(&words[1..]);
    command
}

/// What a test runs in a moment.
const SHORT: &str = "\
groups: {clients: {jitter: 1 us}, servers: {}}
depth: streams
loads: [{from: clients, to: servers, test: ping, concurrency: 2, warm_up: 1 ms, time: 20 ms}]
";

#[test]
fn a_run_prints_its_tables_and_writes_its_page() {
    let scratch = Scratch::new();
    let page = scratch.file("lan.html");
    let mut command = sim(&["run", "--report"], &scenario("lan.yaml"));
    let done = finish(command.arg(&page)).ok();
    for words in ["test  size conc MiB/s  ops/s", "read    1M    8 ", "servers out", "trace "] {
        assert!(done.stdout.contains(words), "{words:?} is not in {done:#?}");
    }
    assert!(done.stdout.lines().all(|line| line.len() <= 100), "{done:#?}");
    let page = fs::read_to_string(page).expect("the page was written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{page}");
}

#[test]
fn a_seed_is_a_run_and_values_beside_the_file_count() {
    let scratch = Scratch::new();
    let file = scratch.write("short.yaml", SHORT);
    let json = |more: &[&str]| finish(sim(&["run", "--json", "-"], &file).args(more)).ok().json();
    let (one, two) = (json(&["--seed", "5"]), json(&["--seed", "5"]));
    assert_eq!(one["trace_hash"], two["trace_hash"]);
    assert_eq!((&one["seed"], &one["depth"]), (&5.into(), &"streams".into()));
    assert_ne!(one["trace_hash"], json(&["--seed", "6"])["trace_hash"]);
    let more = json(&["--set", "concurrency=4", "--set", "servers.peer_credits=1"]);
    assert_eq!(more["loads"][0]["concurrency"], 4);
    assert_eq!(
        more["changes"],
        serde_json::json!(["--set concurrency=4", "--set servers.peer_credits=1"])
    );
    assert!(one["loads"][0]["ops"].as_u64() > Some(0), "{one}");
}

#[test]
fn a_bad_file_is_told_with_every_place_and_nothing_is_touched() {
    let scratch = Scratch::new();
    let file =
        scratch.write("bad.yaml", &SHORT.replace("1 ms", "1").replace("concurrency: 2", "x: 1"));
    let json = scratch.write("old.json", "yesterday");
    let mut command = sim(&["run", "--json"], &file);
    finish(command.arg(&json)).fails_with(&[
        "bad.yaml:3:50: \"x\" is not known in a load; allowed: from, to,",
        "bad.yaml:3:65: warm_up cannot be \"1\": its unit is missing; allowed:",
    ]);
    assert_eq!(fs::read_to_string(&json).unwrap(), "yesterday");
    let good = scratch.write("good.yaml", SHORT);
    finish(&mut sim(&["run", "--set", "concurrency=0"], &good))
        .fails_with(&["--set concurrency=0: concurrency cannot be \"0\""]);
    finish(&mut sim(&["run"], &scratch.file("none.yaml")))
        .fails_with(&["cannot read", "none.yaml"]);
    finish(&mut sim(&["run", "--report", "-"], &good)).with_code(2).says(&["goes to a file"]);
    finish(&mut sim(&["sweep"], &good)).with_code(2).says(&["--vary"]);
    finish(&mut sim(&["sweep", "--vary", "concurrency=4..1"], &good))
        .with_code(2)
        .says(&["ends before it begins", "examples are"]);
    // One of several is bad: none is run.
    finish(&mut sim(&["sweep", "--vary", "concurrency=1,2000"], &good))
        .fails_with(&["--vary concurrency=2000: concurrency cannot be \"2000\""]);
}

#[test]
fn a_sweep_is_the_same_with_any_number_of_threads() {
    let scratch = Scratch::new();
    let file = scratch.write("short.yaml", SHORT);
    let runs = |threads: &str| {
        let words = [
            "sweep",
            "--json",
            "-",
            "--threads",
            threads,
            "--vary",
            "concurrency=1..8*2",
            "--vary",
            "peer_credits,credits=8:64,1:8",
        ];
        finish(&mut sim(&words, &file)).ok().json()["runs"].clone()
    };
    let one = runs("1");
    assert_eq!(one, runs("3"));
    let runs = one.as_array().expect("a list");
    assert_eq!(runs.len(), 8);
    assert_eq!(runs[1]["values"], serde_json::json!(["1", "1", "8"]));
    let page = scratch.file("sweep.html");
    let mut command = sim(&["sweep", "--vary", "concurrency=1,2,4", "--report"], &file);
    let done = finish(command.arg(&page)).ok();
    let rows = done.stdout.lines().filter(|line| line.starts_with(['1', '2', '4']));
    assert_eq!(rows.count(), 3, "{done:#?}");
    assert!(fs::read_to_string(page).unwrap().contains("Throughput over concurrency"));
}

#[test]
fn a_signal_ends_a_run_with_what_it_has() {
    let scratch = Scratch::new();
    let long = SHORT.replace("20 ms", "24 h").replace("1 ms", "0 s");
    let file = scratch.write("long.yaml", &long);
    let mut running = Running::start(&mut sim(&["run"], &file));
    running.wait_for("simulating");
    running.signal(Signal::INT);
    let done = running.end().with_code(130);
    assert!(done.stdout.contains("ping"), "{done:#?}");
}

#[test]
fn the_swarm_lives_seeds_and_plans() {
    let seeds = |words: &[&str]| {
        let mut command = lustrine();
        finish(command.args(["sim", "swarm"]).args(words))
    };
    let done = seeds(&["--seeds", "0..3"]).ok();
    assert!(done.stdout.starts_with("3 lives from seed 0 on, "), "{done:#?}");
    assert!(done.stdout.ends_with(": 0 went wrong\n"), "{done:#?}");

    let known = scenario("defects/requests-of-a-lost-peer.json");
    let done = seeds(&["--plan", known.to_str().expect("UTF-8")]).ok();
    assert!(done.stdout.starts_with("went well: "), "{done:#?}");

    // A plan that cannot go well: nothing gets from one to the other in time.
    let scratch = Scratch::new();
    let (bad, slow) = (scratch.file("bad.json"), scratch.file("slow.json"));
    let text = fs::read_to_string(&known).expect("a plan");
    fs::write(&slow, text.replace("10000,", "60000000,")).expect("a file");
    let done = seeds(&["--plan", slow.to_str().expect("UTF-8")]);
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.stdout.contains("host 0") && done.stderr.contains("is not over"), "{done:#?}");

    fs::write(&bad, text.replace("\"wires\"", "\"wirez\"")).expect("a file");
    let done = seeds(&["--plan", bad.to_str().expect("UTF-8")]);
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.stderr.contains("unknown field `wirez`"), "{done:#?}");
    assert_eq!(seeds(&["--seeds", "5..5"]).code, Some(2));
}
