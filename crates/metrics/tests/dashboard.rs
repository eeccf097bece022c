//! `docs/grafana/lustrine.json` is a dashboard, and its queries use existing metrics.
//!
//! The schema was written after Grafana's documentation of the classic model; it covers only what
//! this dashboard uses, and refuses everything else.

use std::collections::BTreeSet;
use std::path::PathBuf;

use lustrine_metrics::{MetricKind, Row, rows};
use lustrine_socklnd::{Counters, METRICS};
use serde_json::Value;

/// Labels that Prometheus adds, and that a histogram's buckets have.
const ADDED: [&str; 3] = ["instance", "job", "le"];

/// The one query that chooses among all nodes.
const CHOOSER: &str = "label_values(lustrine_build_info, instance)";

fn json(path: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = std::fs::read_to_string(&path).expect("a file of ours");
    serde_json::from_str(&text).expect("JSON")
}

fn dashboard() -> Value {
    json("docs/grafana/lustrine.json")
}

/// Every text that is a query.
fn queries(dashboard: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let panels = list(&dashboard["panels"]);
    let asked = panels.iter().flat_map(|panel| list(&panel["targets"]));
    let asked = asked.map(|target| target["expr"].clone());
    let variables = list(&dashboard["templating"]["list"]);
    let variables = variables.iter().map(|variable| variable["query"]["query"].clone());
    asked.chain(variables).filter_map(|query| query.as_str().map(str::to_owned)).collect()
}

/// The words of a query, each with the text after it.
fn words(query: &str) -> Vec<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(is_word) {
        let from = &rest[start..];
        let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
        words.push((&from[..end], &from[end..]));
        rest = &from[end..];
    }
    words
}

/// The row of a series' name.
fn row_of(series: &str) -> Option<Row> {
    let parts = ["_bucket", "_sum", "_count"];
    rows(METRICS).into_iter().find(|row| match row.kind {
        MetricKind::Histogram => {
            parts.iter().any(|part| series.strip_suffix(part) == Some(row.name))
        }
        MetricKind::Counter | MetricKind::Gauge => row.name == series,
    })
}

/// The errors of a query with respect to the metrics.
fn mistakes(query: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let ours = words(query).into_iter().filter(|(word, _)| word.starts_with("lustrine_"));
    for (series, behind) in ours {
        let Some(row) = row_of(series) else {
            wrong.push(format!("{series} is no metric"));
            continue;
        };
        let braces = behind.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let Some((matchers, _)) = braces else {
            wrong.push(format!("{series} is not narrowed to the chosen nodes"));
            continue;
        };
        for matcher in matchers.split(',') {
            let label = matcher.split(['=', '!']).next().unwrap_or_default();
            if !ADDED.contains(&label) && !row.labels.contains(&label) {
                wrong.push(format!("{series} has no label {label}"));
            }
        }
    }
    // `by (..)` names labels of the series that it adds up.
    let rows: Vec<Row> = words(query).iter().filter_map(|(word, _)| row_of(word)).collect();
    let has =
        |label: &str| ADDED.contains(&label) || rows.iter().any(|row| row.labels.contains(&label));
    let groups = query.split("by (").skip(1).filter_map(|rest| rest.split_once(')'));
    for (labels, _) in groups {
        let labels: Vec<&str> = labels.split(", ").collect();
        for label in labels.iter().filter(|label| !has(label)) {
            wrong.push(format!("nothing has a label {label}"));
        }
        // A sum over all nodes is useful; a mixture of their peers, types and so on is not.
        if labels != ["le"] && !labels.contains(&"instance") {
            wrong.push(format!("{} of different nodes are mixed", labels.join(", ")));
        }
    }
    wrong
}

#[test]
fn the_file_is_a_dashboard() {
    let schema = jsonschema::validator_for(&json("testdata/grafana/dashboard.schema.json"));
    let schema = schema.expect("a good schema");
    let mut dashboard = dashboard();
    let wrong: Vec<String> = schema
        .iter_errors(&dashboard)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    dashboard["panels"][1]["gridPos"]["w"] = 25.into();
    assert!(!schema.is_valid(&dashboard), "the schema looks at panels");
}

#[test]
fn panels_have_unique_numbers_and_positions() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("a list");
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{}", panel["title"]);
        let side = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
        assert!(side("x") + side("w") <= 24, "{}", panel["title"]);
        for x in side("x")..side("x") + side("w") {
            for y in side("y")..side("y") + side("h") {
                assert!(cells.insert((x, y)), "{} lies on another", panel["title"]);
            }
        }
    }
}

#[test]
fn every_query_uses_existing_metrics() {
    let queries = queries(&dashboard());
    assert!(queries.len() > 30, "{}", queries.len());
    for query in queries.iter().filter(|query| *query != CHOOSER) {
        let wrong = mistakes(query);
        assert!(wrong.is_empty(), "{query}: {wrong:?}");
        assert!(query.contains("lustrine_"), "{query}");
    }
    let counters: Vec<&str> = Counters::default().iter().map(|(name, _)| name).collect();
    let events = "lustrine_socklnd_events_total{instance=~\"$instance\",event=~\"";
    let named = queries.iter().filter_map(|query| query.split_once(events));
    let named = named.filter_map(|(_, rest)| rest.split_once('"'));
    let named: Vec<&str> = named.flat_map(|(names, _)| names.split('|')).collect();
    assert!(!named.is_empty());
    for name in named {
        assert!(counters.contains(&name), "the driver counts no {name}");
    }
}

#[test]
fn a_wrong_query_is_detected() {
    for query in [
        "rate(lustrine_message_total{instance=\"a\"}[1m])",
        "lustrine_peers",
        "lustrine_peers{nid=\"a\"}",
        "lustrine_peer_latency_seconds{peer=\"a\"}",
        "sum by (instance, le, nid) (lustrine_peer_latency_seconds_bucket{peer=\"a\"})",
        "sum by (le, peer) (lustrine_peer_latency_seconds_bucket{peer=\"a\"})",
    ] {
        assert_eq!(mistakes(query).len(), 1, "{query}");
    }
}
