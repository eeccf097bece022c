use std::path::PathBuf;

use lustrine_lnet::latency::Operation;
use lustrine_socklnd::{Counters, METRICS};

use super::*;
use crate::page::HISTOGRAM_LINES;
use crate::{NIS_MAX, PEERS_MAX};

#[test]
fn the_reference_page_matches_the_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, metrics_page(METRICS)).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == metrics_page(METRICS),
        "docs/metrics.md is not what the table says; run this test with UPDATE_DOCS=1"
    );
}

#[test]
fn names_are_unique_and_follow_the_conventions() {
    for (index, row) in TABLE.iter().enumerate() {
        let rest = row.name.strip_prefix("lustrine_").expect("all are ours");
        assert!(rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", row.name);
        assert_eq!(row.kind == MetricKind::Counter, row.name.ends_with("_total"), "{}", row.name);
        assert!(
            row.kind != MetricKind::Histogram || row.name.ends_with("_seconds"),
            "{}",
            row.name
        );
        assert!(row.help.ends_with('.'), "{}", row.name);
        assert!(row.labels.iter().all(|label| *label != "le"), "{}", row.name);
        assert!(TABLE[index + 1..].iter().all(|other| other.name != row.name), "{}", row.name);
    }
    for metric in METRICS {
        assert!(metric.name.starts_with("lustrine_") && metric.name.ends_with("_total"));
        assert!(metric.help.ends_with('.'), "{}", metric.name);
        assert!(TABLE.iter().all(|row| row.name != metric.name), "{}", metric.name);
    }
    assert!(Metric::PeersLeftOut.row().help.contains(&PEERS_MAX.to_string()));
    assert!(TAIL.contains(&format!("the {PEERS_MAX} NIDs")));
    assert!(Metric::NisLeftOut.row().help.contains(&NIS_MAX.to_string()));
    assert!(TAIL.contains(&format!("the {NIS_MAX} that the node had first")));
}

#[test]
fn a_page_has_at_most_the_documented_number_of_lines() {
    let values = |label: &str| match label {
        "nid" => NIS_MAX,
        "peer" => PEERS_MAX,
        "version" | "identity" => 1,
        "operation" => Operation::ALL.len(),
        "direction" | "credit" => 2,
        "type" => 4,
        "event" | "class" => 5,
        other => panic!("how many values has {other}?"),
    };
    let lines: usize = TABLE
        .iter()
        .map(|row| {
            let lines = if row.kind == MetricKind::Histogram { HISTOGRAM_LINES } else { 1 };
            2 + lines * row.labels.iter().map(|label| values(label)).product::<usize>()
        })
        .sum();
    let lines = lines + 2 * METRICS.len() + Counters::default().iter().count();
    assert!(TAIL.contains("at most 18,000 lines") && lines <= 18_000, "{lines}");
}

#[test]
fn lines_of_the_page_have_a_readable_length() {
    for line in metrics_page(METRICS).lines().filter(|line| !line.starts_with('|')) {
        assert!(line.len() <= 120, "{line}");
    }
}
