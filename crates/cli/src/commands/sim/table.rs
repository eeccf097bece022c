//! Tables for people: 80 columns for loads as `lustrine selftest` prints them, then links, then
//! what messages waited for.

use lustrine_report::numbers::{
    count, counted, latency, operations, percent, rate, size, three_digits,
};
use lustrine_scenario::report::Row;
use lustrine_scenario::{
    GroupWaits, Latency, LinkOutcome, LoadOutcome, Outcome, Sweep, format_bytes,
};

const HEAD: &str = "
                                 latency                                 of
test  size conc MiB/s  ops/s   p50   p90   p99 p99.9   max err  pairs formula
";

const LEGEND: &str = "\
latency in microseconds (u), milliseconds (m) or seconds (s); p99.9 needs 1000
operations
conc: RPCs in flight per pair of a client and a server; MiB/s, ops/s: all pairs
formula: RPCs x size / (2 x round trip; 1 x for ping), limited by the links
";

/// The tables of one run.
pub(super) fn single(source_name: &str, outcome: &Outcome, real_s: f64) -> String {
    let mut out = format!(
        "{source_name}: {}, fidelity {}, seed {}",
        counted(outcome.nodes, "node"),
        outcome.fidelity.name(),
        outcome.seed
    );
    out += HEAD;
    let mut before = ("", "");
    for load in &outcome.loads {
        // The groups of a row are left out if there is only one pair of them.
        let ends = (load.from.as_str(), load.to.as_str());
        if outcome.loads.len() > 1 && ends != before {
            out += &format!("{} -> {}\n", ends.0, ends.1);
        }
        before = ends;
        out += &line(load);
    }
    out += LEGEND;
    for load in &outcome.loads {
        for (kind, times) in &load.error_kinds {
            out += &format!("{} {} -> {}: {times} x {kind}\n", load.test, load.from, load.to);
        }
    }
    if !outcome.links.is_empty() {
        out += &links(&outcome.links);
        out += &waits(&outcome.waits);
    }
    out += &format!(
        "\n{} s of virtual time in {real_s:.2} s: {}, {} a second; trace {}\n",
        three_digits(outcome.virtual_s),
        counted(outcome.messages, "message"),
        operations(outcome.messages as f64 / real_s.max(1e-9)),
        outcome.trace_hash
    );
    for hint in &outcome.hints {
        out += &format!("note: {hint}\n");
    }
    for odd in &outcome.unquiet {
        out += &format!("check failed at the end: {odd}\n");
    }
    out
}

fn line(load: &LoadOutcome) -> String {
    let Latency { p50, p90, p99, p999, max } = load.latency_us;
    let formula = load.formula_ops_per_s.filter(|formula| *formula > 0.0);
    format!(
        "{:<5} {:>4} {:>4} {:>5} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>3} {:>6} {:>7}\n",
        load.test,
        size(load.size),
        load.concurrency,
        or_dash((load.size > 0).then(|| rate(load.mib_per_s))),
        operations(load.ops_per_s),
        latency(p50),
        latency(p90),
        latency(p99),
        or_dash(p999.map(latency)),
        latency(max),
        count(load.errors),
        load.pairs,
        or_dash(formula.map(|formula| percent(load.ops_per_s / formula))),
    )
}

fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

fn links(links: &[LinkOutcome]) -> String {
    let heads = ["link", "links", "Gb/s", "used", "most", "carried", "lost", "queue max"];
    let row = |link: &LinkOutcome| {
        [
            link.name.clone(),
            link.links.to_string(),
            or_dash(link.bits_per_s.map(|bits| three_digits(bits as f64 / 1e9))),
            or_dash(link.share.map(percent)),
            or_dash(link.share_max.map(percent)),
            format_bytes(link.bytes),
            format_bytes(link.lost),
            format_bytes(link.queue_max),
        ]
    };
    columns(&heads, &links.iter().map(row).map(Vec::from).collect::<Vec<_>>())
}

fn waits(groups: &[GroupWaits]) -> String {
    let heads = [
        "waited for",
        "peer credits",
        "NI credits",
        "driver",
        "zero-copy ack",
        "CPU busy",
        "messages/s",
    ];
    let rows: Vec<_> = groups.iter().map(|group| group.row().to_vec()).collect();
    let mut out = columns(&heads, &rows);
    out += "mean messages that waited at one node, and their part of all that waited\n";
    out
}

/// The table of a sweep: a line for each combination.
pub(super) fn sweep(source_name: &str, sweep: &Sweep, rows: &[Row]) -> String {
    let mut heads = sweep.names();
    heads.extend(["MiB/s", "ops/s", "p50", "p90", "p99", "max", "err", "formula", "busiest link"]);
    let cells = |row: &Row| {
        let outcome = &row.outcome;
        let worst = |of: fn(&Latency) -> f64| {
            outcome.loads.iter().map(|load| of(&load.latency_us)).fold(0.0, f64::max)
        };
        let sum = outcome.together();
        let formula = sum.and_then(|sum| {
            let formula = sum.formula_ops_per_s.filter(|formula| *formula > 0.0)?;
            Some(percent(sum.ops_per_s / formula))
        });
        let payload = sum.map(|sum| sum.mib_per_s).filter(|rate| *rate > 0.0);
        let busiest = outcome.links.iter().filter_map(|link| Some((link.share_max?, &link.name)));
        let busiest = busiest.max_by(|one, two| one.0.total_cmp(&two.0));
        let mut cells = row.values.clone();
        cells.extend([
            or_dash(payload.map(rate)),
            or_dash(sum.map(|sum| operations(sum.ops_per_s))),
            latency(worst(|at| at.p50)),
            latency(worst(|at| at.p90)),
            latency(worst(|at| at.p99)),
            latency(worst(|at| at.max)),
            count(outcome.errors()),
            or_dash(formula),
            or_dash(busiest.map(|(share, name)| format!("{} {name}", percent(share)))),
        ]);
        cells
    };
    let nodes = rows.first().map_or(0, |row| row.outcome.nodes);
    let (runs, nodes) = (counted(rows.len() as u64, "run"), counted(nodes, "node"));
    let mut out = format!("{source_name}: {runs}, {nodes} in the first\n");
    out += columns(&heads, &rows.iter().map(cells).collect::<Vec<_>>()).trim_start();
    out += "all loads together, - if they were measured at different times; latencies of the\n\
            slowest load; formula: see sim run\n";
    let mut shown: Vec<&String> = Vec::new();
    for row in rows {
        for hint in row.outcome.hints.iter().chain(&row.outcome.unquiet) {
            if !shown.contains(&hint) {
                shown.push(hint);
                out += &format!("note: {}: {hint}\n", row.values.join(" "));
            }
        }
    }
    out
}

/// Longest cell that the others of its column are aligned with. Saved results can have any names,
/// and formatting fails beyond 65,535.
const WIDTH_MAX: usize = 200;

/// Columns as wide as necessary; the first and the last one are aligned to the left.
pub(super) fn columns(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0).min(WIDTH_MAX)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut out = "\n".to_owned();
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    for row in [&heads].into_iter().chain(rows) {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
