//! The most important numbers of a run, each with the test that it belongs to.

use std::collections::BTreeSet;

use lustrine_report::numbers::{grouped, grouped_count, latency_text};
use lustrine_wire::nid::Nid;

use super::name_of;
use crate::combination::combinations;
use crate::pairs::Pairs;
use crate::results::{Results, Row};

/// A value and the test that it belongs to.
type Best = Option<(f64, String)>;

/// Keeps the larger value, of equal ones the first.
fn keep(best: &mut Best, value: f64, name: &str) {
    if value > 0.0 && best.as_ref().is_none_or(|(most, _)| value > *most) {
        *best = Some((value, name.to_owned()));
    }
}

/// The numbers, and what they are. As in the tables the median one of several repetitions counts;
/// rates are those of all clients of one test together.
pub(super) fn tiles(results: &Results) -> Vec<(String, String)> {
    let (mut bytes, mut operations, mut least): (Best, Best, Best) = (None, None, None);
    let mut pairs: Vec<Pairs> = Vec::new();
    for combination in combinations(results).iter().flat_map(|(.., all)| all) {
        // One pair is no measure of all of them.
        if combination.is_in_turns() {
            pairs.extend(Pairs::all_of(combination));
            continue;
        }
        for cell in combination.cells() {
            let row: &Row = cell.middle();
            let name = name_of(combination, row, "");
            keep(&mut bytes, row.all.mib_per_s, &name);
            keep(&mut operations, row.all.ops_per_s, &name);
            if let Some(latency) = row.all.latency_us.filter(|latency| latency.p50 > 0.0) {
                keep(&mut least, 1.0 / latency.p50, &name);
            }
        }
    }
    let nodes: BTreeSet<&Nid> = results.groups.values().flatten().collect();
    let counted = |count: usize, one: &str, many: &str| {
        let what = if count == 1 { one } else { many };
        (grouped_count(count as u64), what.to_owned())
    };
    let mut tiles = vec![
        counted(nodes.len(), "node", "nodes"),
        counted(results.points.len(), "point measured", "points measured"),
    ];
    if let Some((value, name)) = bytes {
        tiles.push((format!("{} MiB/s", grouped(value)), format!("most: {name}")));
    }
    if let Some((value, name)) = operations {
        tiles.push((format!("{}/s", grouped(value)), format!("most operations: {name}")));
    }
    if let Some((value, name)) = least {
        tiles.push((latency_text(1.0 / value), format!("least median latency: {name}")));
    }
    for pairs in pairs.iter().take(PAIRS_MAX) {
        let (Some(median), name) = (pairs.median(), pairs.name()) else { continue };
        let text = pairs.metric().text(median);
        tiles.push((text, format!("median of {} pairs: {name}", pairs.count())));
        let least = pairs.values.values().copied().fold(f64::INFINITY, f64::min);
        tiles.push((pairs.metric().text(least), format!("slowest pair: {name}")));
    }
    tiles.push((grouped_count(results.errors()), "errors".to_owned()));
    if results.lost() > 0 {
        let lost = results.lost() as usize;
        tiles.push(counted(lost, "client without answer", "clients without answer"));
    }
    tiles
}

/// Largest number of tests whose pairs have tiles.
const PAIRS_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::run;

    fn shown(results: &Results) -> Vec<String> {
        tiles(results).into_iter().map(|(number, what)| format!("{number} {what}")).collect()
    }

    #[test]
    fn the_most_is_that_of_one_test_and_says_which() {
        // The best repetition of concurrency 2 is above all others, its middle one is not.
        let mut results = run(&[(1, &[100.0]), (2, &[150.0, 2000.0, 140.0]), (8, &[900.0, 800.0])]);
        let tiles = shown(&results);
        for wanted in [
            "6 points measured",
            "800 MiB/s most: read 4k c8",
            "204,800/s most operations: read 4k c8",
            "500 us least median latency: read 4k c1",
            "0 errors",
        ] {
            assert!(tiles.iter().any(|tile| tile == wanted), "{wanted}: {tiles:?}");
        }
        // Two tests at once are not added.
        let more = results.points[0].rows[0].clone();
        results.points[0].rows.push(more);
        assert_eq!(shown(&results)[2..4], tiles[2..4]);
        // A node of two groups is one node.
        let nid: Nid = "10.0.0.1@tcp".parse().expect("a NID");
        results.groups.insert("clients".to_owned(), vec![nid]);
        results.groups.insert("servers".to_owned(), vec![nid]);
        assert_eq!(shown(&results)[0], "1 node");
    }

    #[test]
    fn a_client_that_did_not_answer_is_counted_once() {
        let mut results = run(&[(1, &[100.0, 100.0]), (8, &[900.0])]);
        for (point, last) in results.points.iter_mut().zip([2, 2, 3]) {
            let nids = (2..=last).map(|last| format!("10.0.0.{last}@tcp"));
            point.rows[0].lost = nids.map(|nid| nid.parse().expect("a NID")).collect();
        }
        assert_eq!(results.lost(), 2);
        assert!(shown(&results).contains(&"2 clients without answer".to_owned()));
    }

    #[test]
    fn clients_without_results_have_no_rates() {
        let mut results = run(&[(1, &[0.0])]);
        results.points[0].rows[0].all.latency_us = None;
        assert_eq!(shown(&results), ["0 nodes", "1 point measured", "0 errors"]);
    }
}
