//! One row of the SC11 study, run again and compared with the committed result.

use std::ops::ControlFlow;
use std::path::Path;

use lustrine_scenario::{Override, ScenarioFile, run, simulation};
use serde_json::Value;

/// One client, 8 peer credits, RPCs of 1 MiB, 8 of them at a time.
const ROW: [(&str, &str); 5] = [
    ("clients.count", "1"),
    ("peer_credits", "8"),
    ("credits", "64"),
    ("size", "1 MiB"),
    ("concurrency", "8"),
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
        serde_json::from_str(&repository_file("docs/sc11/results/one-server.json")).unwrap();
    let names: Vec<&str> = ROW.iter().map(|(name, _)| *name).collect();
    assert_eq!(results["names"], serde_json::json!(names));
    let values: Vec<&str> = ROW.iter().map(|(_, value)| *value).collect();
    let runs = results["runs"].as_array().unwrap();
    let committed = runs.iter().find(|run| run["values"] == serde_json::json!(values)).unwrap();

    let path = "scenarios/sc11/one-server.yaml";
    let file = ScenarioFile::parse(&repository_file(path), path).unwrap();
    let changes = ROW.map(|(name, value)| Override::parse("--set", &format!("{name}={value}")));
    let scenario = file.scenario(&changes.map(Result::unwrap)).unwrap();
    let mut sim = simulation(&scenario);
    let outcome = run(&scenario, &mut *sim, &mut |_| ControlFlow::Continue(()));

    let load = &outcome.loads[0];
    let mb_per_s = (load.ops_per_s * f64::from(load.size) / 1e4).round() / 100.0;
    assert_eq!(committed["mb_per_s"].as_f64(), Some(mb_per_s), "run cargo xtask study");
    assert_eq!(committed["trace"], outcome.trace_hash.as_str(), "run cargo xtask study");
}
