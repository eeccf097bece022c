//! A node that tunes itself, over TCP streams: a part of the sweep of docs/auto-tuning.md.

use std::ops::ControlFlow;
use std::path::Path;

use lustrine_scenario::{Outcome, Override, ScenarioFile, run, simulation};

fn outcome(changes: &[String]) -> Outcome {
    let name = "scenarios/auto.yaml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let text = std::fs::read_to_string(path).expect("the repository has the scenario");
    let file = ScenarioFile::parse(&text, name).expect("a good file");
    let changes: Vec<Override> = changes
        .iter()
        .map(|change| Override::parse("--set", change).expect("a good setting"))
        .collect();
    let scenario = file.scenario(&changes).expect("a good scenario");
    let mut sim = simulation(&scenario);
    run(&scenario, &mut *sim, &mut |_| ControlFlow::Continue(()))
}

fn path(rate: &str, delay: &str) -> Vec<String> {
    let rates = ["bandwidth", "clients.interface", "servers.interface"];
    let rates = rates.map(|name| format!("{name}={rate}"));
    rates.into_iter().chain([format!("delay={delay}")]).collect()
}

/// What was carried of what the path or the formula allows.
fn share(outcome: &Outcome) -> f64 {
    let load = &outcome.loads[0];
    assert_eq!(load.errors, 0, "{:?}", outcome.hints);
    load.ops_per_s / load.formula_ops_per_s.expect("a limit")
}

/// Twenty round trips after the start, and then for 40 s.
#[test]
fn the_rate_is_full_without_a_setting_made_by_hand() {
    for (rate, delay) in [
        ("100 Mb/s", "45 us"),
        ("100 Mb/s", "100 ms"),
        ("1 Gb/s", "5 ms"),
        ("1 Gb/s", "100 ms"),
        ("10 Gb/s", "495 us"),
        ("10 Gb/s", "25 ms"),
    ] {
        let share = share(&outcome(&path(rate, delay)));
        assert!(share >= 0.9, "{rate}, {delay}: {share:.3}");
    }
}

/// On a path where startup takes longest: what is in flight at its end is the queue for seconds.
/// Once it was 128 MiB, for 10 s of latency; and probes, of which one is in these 12 s, took a
/// sixth of the path.
#[test]
fn startup_on_a_slow_and_long_path_leaves_no_long_queue() {
    for (rate, least) in [("100 Mb/s", 0.88), ("1 Gb/s", 0.9)] {
        for test in ["write", "read"] {
            let more = ["time=12 s".to_owned(), format!("test={test}")];
            let outcome = outcome(&[&path(rate, "100 ms")[..], &more].concat());
            let share = share(&outcome);
            assert!(share >= least, "{rate}, {test}: {share:.3}");
            let median = outcome.loads[0].latency_us.p50;
            assert!(median <= 1e6, "{rate}, {test}: {median} us");
        }
    }
}

/// Without it the window of the test is what it is: this is what the scenario compares with.
#[test]
fn eight_rpcs_do_not_fill_a_long_path() {
    let fixed = ["selftest_auto=0", "concurrency=8", "peer_credits=8", "credits=256"];
    let fixed = fixed.map(str::to_owned);
    let outcome = outcome(&[&path("10 Gb/s", "25 ms")[..], &fixed].concat());
    let carried = outcome.loads[0].ops_per_s * f64::from(1 << 20) * 8.0 / 1e9;
    assert!(carried < 2.0, "{carried} Gb/s");
}

#[test]
fn several_clients_fill_the_interface_of_one_server() {
    let more = ["clients.count=4", "time=20 s", "warm_up=40 s"].map(str::to_owned);
    let outcome = outcome(&[&path("10 Gb/s", "5 ms")[..], &more].concat());
    // 0.97, whenever it begins.
    assert!(share(&outcome) >= 0.9, "{}", share(&outcome));
}
