//! One row of the SC11 study, run again and compared with the committed result.

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

/// The simulator is deterministic: the same scenario gives the same events on every machine. A
/// change that moves results of the study must renew all of them: `cargo xtask study`.
#[test]
fn a_row_of_the_study_comes_out_as_committed() {
    let results: Value =
        serde_json::from_str(&repository_file("docs/sc11/results/queues.json")).unwrap();
    let sets = SWEEP.map(|(name, value)| format!("{name}={value}"));
    let command = results["command"].as_array().unwrap();
    let set: Vec<&Value> =
        command.windows(2).filter(|words| words[0] == "--set").map(|words| &words[1]).collect();
    assert_eq!(set, sets.each_ref().map(|set| set.as_str()));
    let names: Vec<&str> = ROW.iter().map(|(name, _)| *name).collect();
    assert_eq!(results["names"], serde_json::json!(names));
    let values: Vec<&str> = ROW.iter().map(|(_, value)| *value).collect();
    let runs = results["runs"].as_array().unwrap();
    let committed = runs.iter().find(|run| run["values"] == serde_json::json!(values)).unwrap();
    assert_ne!(committed["lost_mb"], 0.0, "without losses the row says nothing about BIC");

    let outcome = outcome(&[]);
    let mb_per_s = mb_per_s(&outcome);
    assert_eq!(committed["mb_per_s"].as_f64(), Some(mb_per_s), "run cargo xtask study");
    assert_eq!(committed["trace"], outcome.trace_hash.as_str(), "run cargo xtask study");
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
    let path = "scenarios/sc11/one-server.yaml";
    let file = ScenarioFile::parse(&repository_file(path), path).unwrap();
    let changes: Result<Vec<Override>, String> = (SWEEP.iter().chain(&ROW).chain(more))
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
