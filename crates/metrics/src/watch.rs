//! The metrics of `lustrine watch`, which serves a page of its own; `docs/watch.md` lists them.

use crate::table::metrics;

metrics! {
    WatchMetric WATCH_TABLE
    Up Gauge "lustrine_watch_peer_up" ["peer"]
        "1 when the latest sample had an answer, otherwise 0."
    Samples Counter "lustrine_watch_samples_total" ["peer"]
        "Samples since the program was started."
    LastSample Gauge "lustrine_watch_last_sample_timestamp_seconds" ["peer"]
        "When the latest sample began, as Unix time."
    Pings Counter "lustrine_watch_pings_total" ["peer" "event"]
        "Pings; event is answered or lost."
    Rtt Gauge "lustrine_watch_rtt_seconds" ["peer" "value"]
        "Round trips of the latest sample with an answer; value is min, median, p99 or max."
    Loss Gauge "lustrine_watch_loss_ratio" ["peer"]
        "The part of the latest sample's pings that were not answered in time."
    Mtu Gauge "lustrine_watch_mtu_bytes" ["peer" "direction"]
        "The longest IP packets that arrive, at the latest look; direction is out or back."
    Hops Gauge "lustrine_watch_hops" ["peer" "direction"]
        "Hops at the latest look; direction is out or back."
    Bandwidth Gauge "lustrine_watch_bandwidth_bytes_per_second" ["peer" "direction"]
        "What the latest measurement carried; direction is read or write."
    AlarmActive Gauge "lustrine_watch_alarm_active" ["peer" "kind"]
        "1 while an alarm of this kind lasts, otherwise 0."
    Alarms Counter "lustrine_watch_alarms_total" ["peer" "kind"]
        "Alarms that were raised since the program was started."
    Unstored Gauge "lustrine_watch_unstored_samples" []
        "Samples that wait in memory because the file cannot be written."
}

#[cfg(test)]
mod tests {
    use lustrine_yaml::{Content, Limits, Node, Position, load};

    use super::*;
    use crate::table::{MetricKind, TABLE};

    #[test]
    fn names_follow_the_conventions_and_are_no_names_of_nodes() {
        for (index, row) in WATCH_TABLE.iter().enumerate() {
            assert!(row.name.starts_with("lustrine_watch_") && row.help.ends_with('.'));
            assert_eq!(row.kind == MetricKind::Counter, row.name.ends_with("_total"));
            let others = TABLE.iter().chain(&WATCH_TABLE[index + 1..]);
            assert!(others.into_iter().all(|other| other.name != row.name), "{}", row.name);
        }
    }

    #[test]
    fn the_reference_lists_all_of_them() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watch.md");
        let reference = std::fs::read_to_string(path).unwrap();
        for row in WATCH_TABLE {
            let labels: Vec<String> = row.labels.iter().map(|one| format!("`{one}`")).collect();
            let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
            let line =
                format!("| `{}` | {} | {labels} | {} |", row.name, row.kind.name(), row.help);
            assert!(reference.contains(&line), "docs/watch.md lacks this line: {line}");
        }
    }

    /// The example of alerts is YAML of the shape that Prometheus reads, and its expressions name
    /// metrics, labels and kinds that there are. Braces, brackets and quotes are in pairs.
    #[test]
    fn the_example_of_alerts_names_what_there_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prometheus/watch.rules.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let limits = Limits { bytes: 64 << 10, depth: 16, values: 1000 };
        let root = load::<Position>(&text, &limits).expect("it is YAML");
        let word = |node: &Node, key: &str| match node.value(key).map(|value| &value.content) {
            Some(Content::Scalar(word)) => word.clone(),
            other => panic!("{key}: {other:?}"),
        };
        let list = |node: &Node, key: &str| match node.value(key).map(|value| &value.content) {
            Some(Content::List(items)) => items.clone(),
            other => panic!("{key}: {other:?}"),
        };
        let [group] = &list(&root, "groups")[..] else { panic!("one group") };
        assert!(!word(group, "name").is_empty());
        let rules = list(group, "rules");
        assert_eq!(rules.len(), 5);
        for rule in &rules {
            let (alert, expr) = (word(rule, "alert"), word(rule, "expr"));
            assert!(alert.starts_with("Lustrine"), "{alert}");
            let names: Vec<&str> = expr
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|name| name.starts_with("lustrine_"))
                .collect();
            assert_eq!(names.len(), 1, "{expr}");
            let row = WATCH_TABLE.iter().find(|row| row.name == names[0]);
            let row = row.unwrap_or_else(|| panic!("{alert}: no metric is called {}", names[0]));
            for (open, close) in [('{', '}'), ('(', ')')] {
                assert_eq!(expr.matches(open).count(), expr.matches(close).count(), "{expr}");
            }
            if let Some((_, rest)) = expr.split_once('{') {
                let label = rest.split(['=', '~']).next().unwrap();
                assert!(row.labels.contains(&label), "{expr}: no label is called {label}");
                let kinds = rest.split('"').nth(1).expect("a value in quotes");
                for kind in kinds.split('|') {
                    assert!(KINDS.contains(&kind), "{expr}: no kind is called {kind}");
                }
            }
            let annotations = rule.value("annotations").expect("annotations");
            for key in ["summary", "description"] {
                let text = word(annotations, key);
                for variable in text.split("$labels.").skip(1) {
                    let end = variable.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let label = &variable[..end.expect("closing braces")];
                    let known = label == "instance" || row.labels.contains(&label);
                    assert!(known, "{alert}: no label is called {label}");
                }
            }
            assert!(
                ["critical", "warning"]
                    .contains(&word(rule.value("labels").expect("labels"), "severity").as_str())
            );
        }
    }

    /// The kinds of alarms, as crate `watch` names them.
    const KINDS: [&str; 7] = ["unreachable", "rtt", "queue", "loss", "mtu", "route", "bandwidth"];
}
