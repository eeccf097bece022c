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

/// A simulation that a test runs in a moment.
const SHORT: &str = "\
groups: {clients: {jitter: 1 us}, servers: {}}
fidelity: stream
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
fn pages_can_be_made_again_from_json() {
    let scratch = Scratch::new();
    let short = scratch.write("short.yaml", SHORT);
    for words in [&["run"][..], &["sweep", "--vary", "concurrency=1,2,4"]] {
        let name = words[0];
        let file = |end: &str| scratch.file(&format!("{name}{end}"));
        let mut command = sim(words, &short);
        command.arg("--json").arg(file(".json")).arg("--report").arg(file(".html"));
        finish(command.arg("--plots").arg(file("-plots"))).ok();
        let mut again = lustrine();
        again.arg("report").arg(file(".json")).arg("--html").arg(file("2.html"));
        finish(again.arg("--plots").arg(file("2-plots"))).ok();
        let read = |path: PathBuf| fs::read(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        assert!(read(file(".html")) == read(file("2.html")), "{name}");
        let names = |dir: PathBuf| {
            let all = fs::read_dir(dir).expect("a directory");
            let mut all: Vec<_> = all.map(|entry| entry.expect("a file").file_name()).collect();
            all.sort();
            all
        };
        let plots = names(file("-plots"));
        assert!(plots.len() >= 4 && plots == names(file("2-plots")), "{plots:?}");
        for plot in plots {
            let bytes = read(file("-plots").join(&plot));
            assert!(bytes == read(file("2-plots").join(&plot)), "{plot:?}");
            let start: &[u8] =
                if plot.to_string_lossy().ends_with("png") { b"\x89PNG" } else { b"<svg" };
            assert!(bytes.starts_with(start), "{plot:?}");
        }
    }
}

#[test]
fn a_seed_determines_a_run_and_overrides_apply() {
    let scratch = Scratch::new();
    let file = scratch.write("short.yaml", SHORT);
    let json = |more: &[&str]| finish(sim(&["run", "--json", "-"], &file).args(more)).ok().json();
    let (one, two) = (json(&["--seed", "5"]), json(&["--seed", "5"]));
    assert_eq!(one["trace_hash"], two["trace_hash"]);
    assert_eq!((&one["seed"], &one["fidelity"]), (&5.into(), &"stream".into()));
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
fn all_errors_of_a_bad_file_are_reported_and_no_file_is_changed() {
    let scratch = Scratch::new();
    let file =
        scratch.write("bad.yaml", &SHORT.replace("1 ms", "1").replace("concurrency: 2", "x: 1"));
    let json = scratch.write("old.json", "yesterday");
    let mut command = sim(&["run", "--json"], &file);
    finish(command.arg(&json)).expect_bad_input(&[
        "bad.yaml:3:50: \"x\" is not known in a load; allowed: from, to,",
        "bad.yaml:3:65: warm_up cannot be \"1\": the unit is missing; allowed:",
    ]);
    assert_eq!(fs::read_to_string(&json).unwrap(), "yesterday");
    let good = scratch.write("good.yaml", SHORT);
    finish(&mut sim(&["run", "--set", "concurrency=0"], &good))
        .expect_bad_input(&["--set concurrency=0: concurrency cannot be \"0\""]);
    finish(&mut sim(&["run"], &scratch.file("none.yaml")))
        .expect_bad_input(&["cannot read", "none.yaml"]);
    finish(&mut sim(&["run", "--report", "-"], &good))
        .expect_code(2)
        .expect_stderr(&["--report writes a page for a browser to a file"]);
    finish(&mut sim(&["sweep"], &good)).expect_code(2).expect_stderr(&["--vary"]);
    finish(&mut sim(&["sweep", "--vary", "concurrency=4..1"], &good))
        .expect_code(2)
        .expect_stderr(&["ends before it begins", "examples are"]);
    // One of several is invalid: none is run.
    finish(&mut sim(&["sweep", "--vary", "concurrency=1,2000"], &good))
        .expect_bad_input(&["--vary concurrency=2000: concurrency cannot be \"2000\""]);
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
fn a_signal_ends_a_run_with_the_results_so_far() {
    let scratch = Scratch::new();
    let long = SHORT.replace("20 ms", "24 h").replace("1 ms", "0 s");
    let file = scratch.write("long.yaml", &long);
    let mut running = Running::start(&mut sim(&["run"], &file));
    running.wait_for("simulating");
    running.signal(Signal::INT);
    let done = running.end().expect_code(130);
    assert!(done.stdout.contains("ping"), "{done:#?}");
}

#[test]
fn the_swarm_runs_seeds_and_cases() {
    let seeds = |words: &[&str]| {
        let mut command = lustrine();
        finish(command.args(["sim", "swarm"]).args(words))
    };
    let done = seeds(&["--seeds", "0..3"]).ok();
    assert!(done.stdout.starts_with("3 cases from seed 0 on, "), "{done:#?}");
    assert!(done.stdout.contains(": 0 failed\n  recovery: 2 cases"), "{done:#?}");

    let known = scenario("defects/requests-of-a-lost-peer.json");
    let done = seeds(&["--case", known.to_str().expect("UTF-8")]).ok();
    assert!(done.stdout.starts_with("passed: "), "{done:#?}");

    // A case that must fail: no message arrives in time.
    let scratch = Scratch::new();
    let (bad, slow) = (scratch.file("bad.json"), scratch.file("slow.json"));
    let text = fs::read_to_string(&known).expect("a case");
    fs::write(&slow, text.replace("10000,", "60000000,")).expect("a file");
    let done = seeds(&["--case", slow.to_str().expect("UTF-8")]);
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.stdout.contains("host 0") && done.stderr.contains("is not over"), "{done:#?}");
    let trace = scratch.file("slow.trace");
    let words = ["--case", slow.to_str().expect("UTF-8"), "--trace"];
    let again = seeds(&[&words[..], &[trace.to_str().expect("UTF-8")]].concat());
    assert_eq!((again.code, &again.stdout), (Some(1), &done.stdout), "{again:#?}");
    let replayed = finish(lustrine().args(["sim", "replay", "--failed"]).arg(&trace)).ok();
    assert!(replayed.stdout.contains("unfinished at the end of the trace"), "{replayed:#?}");

    fs::write(&bad, text.replace("\"links\"", "\"linkz\"")).expect("a file");
    let done = seeds(&["--case", bad.to_str().expect("UTF-8")]);
    assert_eq!(done.code, Some(2), "{done:#?}");
    assert!(done.stderr.contains("unknown field `linkz`"), "{done:#?}");
    fs::write(&bad, text.replace("fd77::2@tcp", "fd77::1@tcp")).expect("a file");
    let done = seeds(&["--case", bad.to_str().expect("UTF-8")]);
    assert_eq!(done.code, Some(2), "{done:#?}");
    assert!(done.stderr.contains("fd77::1@tcp: two nodes have this address"), "{done:#?}");
    assert_eq!(seeds(&["--seeds", "5..5"]).code, Some(2));
}

#[test]
fn a_trace_is_written_and_replayed() {
    let scratch = Scratch::new();
    let file = scratch.write("short.yaml", SHORT);
    let trace = scratch.file("short.trace");
    let plain = finish(&mut sim(&["run", "--json", "-"], &file)).ok().json();
    let mut command = sim(&["run", "--json", "-", "--trace"], &file);
    let mut traced = finish(command.arg(&trace)).ok().json();
    for own in ["real_s", "messages_per_real_s"] {
        traced[own] = plain[own].clone();
    }
    assert_eq!(plain, traced, "a trace changes nothing");

    let replay = |words: &[&str]| {
        let mut command = lustrine();
        finish(command.args(["sim", "replay"]).arg(&trace).args(words))
    };
    let done = replay(&[]).ok();
    for words in ["short.yaml, fidelity stream, seed 1", "\nping ", "\nLNet ping ", "in transit"] {
        assert!(done.stdout.contains(words), "{words:?} is not in {done:#?}");
    }
    assert!(done.stdout.contains("step by step: lustrine sim replay "), "{done:#?}");
    let list = replay(&["--json", "--what", "ping", "--slowest", "3", "--from", "10.0.0.1@tcp"]);
    let list = list.ok().json();
    let rpcs = list["rpcs"].as_array().expect("a list");
    assert_eq!((rpcs.len(), &rpcs[0]["outcome"]), (3, &"ok".into()), "{list}");
    assert_eq!(list["trace"]["lustrine_trace"], 2);
    let id = rpcs[0]["id"].to_string();
    let one = replay(&["--rpc", &id]).ok();
    for words in ["request PUT to 10.0.0.2@tcp, portal 50", "complete: no errors", "in total"] {
        assert!(one.stdout.contains(words), "{words:?} is not in {one:#?}");
    }
    let lines = done.stdout.lines().chain(one.stdout.lines());
    let mut lines = lines.filter(|line| !line.starts_with("step by step"));
    assert!(lines.all(|line| line.len() <= 100), "{done:#?} {one:#?}");
    let one = replay(&["--rpc", &id, "--json"]).ok().json();
    let sum = |one: &serde_json::Value| -> u64 {
        let phases = one["rpcs"][0]["phases"].as_array().expect("a list");
        phases.iter().filter_map(|phase| phase["ns"].as_u64()).sum()
    };
    let took =
        one["rpcs"][0]["ended"].as_u64().unwrap() - one["rpcs"][0]["began"].as_u64().unwrap();
    assert_eq!(sum(&one), took, "{one}");
    let none = replay(&["--since", "1 h"]).ok();
    for words in
        ["it covers 0.000000 s to ", "no RPC matches", "kinds in it: ping (", "10.0.0.2@tcp"]
    {
        assert!(none.stdout.contains(words), "{words:?} is not in {none:#?}");
    }
    let none = replay(&["--failed", "--what", "lnet PING"]).ok();
    assert!(none.stdout.contains("\nnone failed: "), "{none:#?}");
    let twice = replay(&["--rpc", "1", "--rpc", "1"]).ok();
    assert_eq!(twice.stdout.matches("RPC 1: ").count(), 1, "{twice:#?}");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" sim replay - < \"$1\""]);
    let piped = finish(command.arg(lustrine().get_program()).arg(&trace)).ok();
    assert!(piped.stdout.contains("step by step: lustrine sim replay - "), "{piped:#?}");

    replay(&["--rpc", "0"]).expect_error(&["there is no RPC 0 in", "it has 1 to "]);
    replay(&["--rpc", "1", "--to", "10.0.0.2@tcp"])
        .expect_code(2)
        .expect_stderr(&["cannot be used with"]);
    replay(&["--since", "5"])
        .expect_code(2)
        .expect_stderr(&["the unit is missing", "\"25.25 ms\""]);
    let mut command = sim(&["run", "--trace", "-"], &file);
    finish(&mut command).expect_code(2).expect_stderr(&["goes to a file", "give it a name"]);
    let before = fs::read_to_string(&file).expect("the scenario");
    let over = file.to_str().expect("UTF-8").to_owned();
    let mut command = sim(&["run", "--trace", &over], &file);
    finish(&mut command).expect_code(2).expect_stderr(&["is given twice"]);
    assert_eq!(fs::read_to_string(&file).expect("the scenario"), before);
    let mut command = sim(&["run", "--trace-limit", "5"], &file);
    finish(&mut command).expect_code(2).expect_stderr(&["--trace"]);
}

#[test]
fn an_error_in_a_trace_is_reported_with_its_line() {
    let scratch = Scratch::new();
    let file = scratch.write("short.yaml", SHORT);
    let trace = scratch.file("short.trace");
    let mut command = sim(&["run", "--trace-limit", "50", "--trace"], &file);
    finish(command.arg(&trace)).ok();
    let replay = |file: &Path| finish(lustrine().args(["sim", "replay"]).arg(file));
    let done = replay(&trace).ok();
    assert!(done.stdout.contains(" 50 steps, "), "{done:#?}");
    assert!(done.stdout.contains(" older steps left out (--trace-limit)"), "{done:#?}");

    let part = scratch.file("part.trace");
    let window = ["run", "--trace-since", "5 ms", "--trace-until", "6 ms", "--trace"];
    finish(sim(&window, &file).arg(&part)).ok();
    let part = fs::read_to_string(part).expect("it was written");
    let times = part.lines().skip(1).map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["t"].as_u64().expect("a time")
    });
    let times: Vec<u64> = times.collect();
    assert!(times.len() > 10, "{part:.1000}");
    assert!(times.iter().all(|t| (5_000_000..=6_000_000).contains(t)), "{times:?}");

    let text = fs::read_to_string(&trace).expect("it was written");
    let mut lines: Vec<&str> = text.lines().collect();
    let cut = scratch.write("cut.trace", &lines[..40].join("\n"));
    replay(&cut).expect_bad_input(&["cut.trace: the file ends after 39 of 50 steps"]);
    lines[7] = "{\"t\":0}";
    let odd = scratch.write("odd.trace", &lines.join("\n"));
    replay(&odd).expect_bad_input(&["odd.trace: line 8: ", "expected a step such as {\"t\":1000,"]);
    let long = scratch.write("long.trace", &"x".repeat(100_000));
    replay(&long).expect_bad_input(&["long.trace: line 1: ", "a step has 4096 at most"]);
    let odd = scratch.file("bytes.trace");
    fs::write(&odd, [0xff, 0xfe, b'\n']).expect("a file");
    replay(&odd).expect_bad_input(&["line 1: not UTF-8 text"]);
    replay(&file).expect_bad_input(&["short.yaml: not a trace file"]);
    replay(&scratch.file("none.trace")).expect_bad_input(&["cannot read", "none.trace"]);
}
