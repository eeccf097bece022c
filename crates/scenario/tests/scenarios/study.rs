//! Rows of the SC11 study, run again and compared with the committed results.

use std::ops::ControlFlow;
use std::path::Path;

use lustrine_scenario::{Outcome, Override, ScenarioFile, run, simulation};
use serde_json::Value;

/// What all rows of the sweep have.
const SWEEP: [(&str, &str); 1] = [("jitter", "10 us")];

/// A row with losses all the time, so that its rate is that of the congestion control: four clients
/// overrun a queue of 256 KiB before the server.
const ROW: [(&str, &str); 6] = [
    ("servers.queue", "256 KiB"),
    ("clients.count", "4"),
    ("peer_credits", "32"),
    ("credits", "1024"),
    ("concurrency", "128"),
    ("seed", "1"),
];

fn repository_file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The simulator is deterministic: the same scenario gives the same result on every machine. A
/// change that moves one of these rows renews the study: `cargo xtask study`, about an hour.
#[test]
fn rows_come_out_as_committed() {
    let with_losses = committed("queues", &ROW);
    assert_ne!(with_losses["lost_mb"], 0.0, "without losses the row says nothing about BIC");
    assert_eq!(mb_per_s(&outcome(&[])), with_losses["mb_per_s"]);
    let without = [
        ("clients.count", "1"),
        ("peer_credits", "8"),
        ("credits", "64"),
        ("size", "1 MB"),
        ("concurrency", "32"),
    ];
    let now = mb_per_s(&run_of("scenarios/sc11/one-server.yaml", &without));
    assert_eq!(now, committed("one-server", &without)["mb_per_s"]);
}

/// The settings of the study have two streams at 400 Gb/s. The model does not need them.
#[test]
fn one_stream_fills_400_gigabits() {
    let row = [
        ("bandwidth", "400 Gb/s"),
        ("clients.interface", "400 Gb/s"),
        ("servers.interface", "400 Gb/s"),
        ("delay", "40 us"),
        ("concurrency", "15"),
        ("peer_credits", "11"),
        ("credits", "256"),
        ("conns_per_peer", "1"),
        ("send_buffer", "10 MiB"),
        ("receive_buffer", "10 MiB"),
        ("warm_up", "5 ms"),
        ("time", "10 ms"),
    ];
    let payload = 400.0 * 125.0 * 8948.0 / 9038.0;
    let share = mb_per_s(&run_of("scenarios/sc11/settings.yaml", &row)) / payload;
    assert!(share > 0.97, "{share}");
}

/// The committed result of a row.
fn committed(sweep: &str, row: &[(&str, &str)]) -> Value {
    let text = repository_file(&format!("docs/sc11/results/{sweep}.json"));
    let results: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
    assert_eq!(results["names"], serde_json::json!(names));
    let values: Vec<&str> = row.iter().map(|(_, value)| *value).collect();
    let runs = results["runs"].as_array().unwrap();
    runs.iter().find(|run| run["values"] == serde_json::json!(values)).unwrap().clone()
}

/// A row that came out alike with any congestion control would compare nothing.
#[test]
fn the_row_depends_on_the_congestion_control() {
    let paper = mb_per_s(&outcome(&[("congestion", "bic-paper")]));
    let linux = mb_per_s(&outcome(&[]));
    assert!((paper / linux - 1.0).abs() > 0.1, "{paper} MB/s with bic-paper, {linux} with bic");
}

/// Runs the row, with more changes.
fn outcome(more: &[(&str, &str)]) -> Outcome {
    let changes: Vec<(&str, &str)> = SWEEP.iter().chain(&ROW).chain(more).copied().collect();
    run_of("scenarios/sc11/one-server.yaml", &changes)
}

/// Runs a scenario with changes.
fn run_of(path: &str, changes: &[(&str, &str)]) -> Outcome {
    let file = ScenarioFile::parse(&repository_file(path), path).unwrap();
    let changes: Result<Vec<Override>, String> = (changes.iter())
        .map(|(name, value)| Override::parse("--set", &format!("{name}={value}")))
        .collect();
    let scenario = file.scenario(&changes.unwrap()).unwrap();
    let mut sim = simulation(&scenario);
    run(&scenario, &mut *sim, &mut |_| ControlFlow::Continue(()))
}

fn mb_per_s(outcome: &Outcome) -> f64 {
    let load = &outcome.loads[0];
    (load.ops_per_s * f64::from(load.size) / 1e4).round() / 100.0
}
