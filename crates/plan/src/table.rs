//! Results as text: 80 columns, one line for each test of each combination.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_report::numbers::{count, latency, operations, percent, rate, size};
use lustrine_wire::nid::Nid;

use crate::combination::{Cell, Combination, combinations};
use crate::lines::Metric;
use crate::pairs::Pairs;
use crate::results::{Latency, Results, SLOWEST, named};

const HEAD: &str = concat!(
    "                                               latency\n",
    "test  size conc  from:to   MiB/s   ops/s   p50   p90   p99 p99.9   max err   +-\n",
);

const LEGEND: &str = "\
the clients' own operations, all clients together; read: clients read from servers
latency in microseconds (u), milliseconds (m) or seconds (s), of all operations that were
in flight in the measured time, even if they ended after it; p99.9 needs 1000 operations
";

const REPEATED: &str = "\
+-: half of the difference between the best and the worst repetition; the line is the median
repetition by operations per second, or the lower one of the two in the middle
";

const IN_TURNS: &str = "\
a pair's result is what its client measured; of several repetitions the mean
";

/// The whole table.
pub fn table(results: &Results) -> String {
    let mut out = results.title();
    if !results.about.is_empty() {
        out += &format!(": {}", results.about);
    }
    out.push('\n');
    for (name, nids) in &results.groups {
        let nodes = if nids.len() == 1 { "node" } else { "nodes" };
        out += &format!("{name}: {} {nodes}\n", nids.len());
    }
    if let Some(start) = results.start.as_ref().filter(|start| !start.missing.is_empty()) {
        out += &format!("not started, and not in these results:\n{}", start.missing_lines());
    }
    let steps = combinations(results);
    let all = || steps.iter().flat_map(|(.., combinations)| combinations);
    let in_lines = all().any(|combination| !combination.is_in_turns());
    if in_lines {
        out += HEAD;
    }
    for (_, name, combinations) in &steps {
        out += &format!("{name}\n");
        for combination in combinations {
            if !combination.labels.is_empty() && combination.points[0].rows.len() > 1 {
                out += &format!(" {}\n", combination.title());
            }
            if combination.is_in_turns() {
                out += &turns(combination);
            } else {
                combination.cells().iter().for_each(|cell| out += &line(cell));
            }
        }
    }
    let repeated = all().any(|c| !c.is_in_turns() && c.points.len() > 1);
    for (is_there, text) in
        [(in_lines, LEGEND), (repeated, REPEATED), (all().any(Combination::is_in_turns), IN_TURNS)]
    {
        if is_there {
            out += text;
        }
    }
    out + &errors(results)
}

fn line(cell: &Cell<'_>) -> String {
    let row = cell.middle();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let all = &row.all;
    let any_client = !row.by_client.is_empty();
    let mib = or_dash((row.size > 0 && any_client).then(|| rate(all.mib_per_s)));
    let part = |value: Option<f64>| or_dash(value.map(latency));
    let latencies = all.latency_us;
    let mut line = format!(
        "{:<5} {:>4} {:>4} {:>8} {mib:>7} {:>7} {:>5} {:>5} {:>5} {:>5} {:>5} {:>3}",
        row.test.name(),
        size(row.size),
        row.concurrency,
        format!("{}:{}", row.clients, row.servers),
        or_dash(any_client.then(|| operations(all.ops_per_s))),
        part(latencies.map(|l| l.p50)),
        part(latencies.map(|l| l.p90)),
        part(latencies.map(|l| l.p99)),
        part(latencies.and_then(|l| l.p999)),
        part(latencies.map(|l| l.max)),
        count(cell.errors()),
    );
    if cell.rows.len() > 1 {
        line += &format!(" {:>4}", percent(cell.spread()));
    }
    if row.rate_limit > 0 {
        line +=
            &format!("\n      {} per second and client, from when each was due", row.rate_limit);
        if let Some(Latency { p50, p90, p99, p999, max, .. }) = all.latency_sent_us {
            line += &format!(
                "\n{:>38} {:>5} {:>5} {:>5} {:>5} {:>5}",
                "from when each was sent",
                latency(p50),
                latency(p90),
                latency(p99),
                or_dash(p999.map(latency)),
                latency(max)
            );
        }
    }
    if all.lost_ops > 0 {
        let (lost, age) = (all.lost_ops, all.lost_age_max_s);
        line += &format!("\n      {lost} never ended; the oldest was given up after {age:.1} s");
    }
    if row.silent > 0 {
        line += &format!(
            "\n      without {} of {}, which report no statistics",
            row.silent, row.clients
        );
    }
    if !row.lost.is_empty() {
        line += &format!("\n      without {}: no answer", named(&row.lost));
    }
    line + "\n"
}

/// Single pairs, each test and size by itself: the median one, and the slowest.
fn turns(combination: &Combination<'_>) -> String {
    let tests = Pairs::all_of(combination);
    let mut out = String::new();
    if !combination.labels.is_empty() {
        out += &format!(" {}\n", combination.title());
    }
    for pairs in &tests {
        let mut all: Vec<(f64, String)> = pairs
            .values
            .iter()
            .map(|((from, to), value)| (*value, format!("{from} -> {to}")))
            .collect();
        all.sort_by(|one, two| one.0.total_cmp(&two.0));
        let Some((highest, _)) = all.last() else { continue };
        let unit = match pairs.metric() {
            Metric::MibPerS => "MiB/s",
            _ => "ops/s",
        };
        let name = match tests.len() {
            1 => String::new(),
            _ => format!("{}: ", pairs.name()),
        };
        out += &format!(
            " {name}{} pairs (client -> server): slowest {}, median {}, fastest {} {unit}\n",
            all.len(),
            rate(all[0].0),
            rate(all[(all.len() - 1) / 2].0),
            rate(*highest)
        );
        for (value, name) in all.iter().take(SLOWEST) {
            out += &format!("   {} {unit}  {name}\n", rate(*value));
        }
    }
    let rows = combination.points.iter().flat_map(|point| &point.rows);
    let lost: BTreeSet<Nid> = rows.flat_map(|row| &row.lost).copied().collect();
    if !lost.is_empty() {
        let lost: Vec<Nid> = lost.into_iter().collect();
        out += &format!("   without some pairs of {}: no answer\n", named(&lost));
    }
    out
}

/// A line for each kind of error of each test.
fn errors(results: &Results) -> String {
    let mut kinds: BTreeMap<(String, String), u64> = BTreeMap::new();
    for point in &results.points {
        for row in &point.rows {
            for kind in &row.error_kinds {
                let key = (format!("{}, {}", point.name, row.test.name()), kind.what.clone());
                *kinds.entry(key).or_default() += kind.count;
            }
        }
    }
    kinds.iter().map(|((test, what), count)| format!("{test}: {count} x {what}\n")).collect()
}
