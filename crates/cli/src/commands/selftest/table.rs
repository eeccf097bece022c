//! The table for people: 80 columns on whatever it is printed, one line for each row, whose words
//! are what `grep` and `awk` find.

use lustrine_report::figures::{self, count, latency, operations, rate};

use super::report::{Latency, Report, RowResult};
use super::{TestWord, describe};
use crate::commands::raw_tcp;

const HEAD: &str = "
                                 latency                     CPU seconds  plain
test  size conc MiB/s  ops/s   p50   p90   p99 p99.9   max err  here there  TCP
";

const LEGEND: &str = "\
latency in u, m, s: micro-, milli-, whole seconds; p99.9 from 1000 operations on
CPU seconds of this process (here) and of the other node's (there)
";

/// The whole table, with a line under it for each kind of error.
pub(super) fn table(report: &Report) -> String {
    let Report { from, to, identity, check, .. } = report;
    let mut out = format!("{from} -> {to}, {identity} identity, check {check}");
    out += HEAD;
    report.results.iter().for_each(|row| out += &line(row));
    out += LEGEND;
    out += &plain_tcp(report);
    for row in &report.results {
        for (kind, count) in &row.error_kinds {
            let what = describe(row.test, row.size, row.concurrency);
            out += &format!("{what}: {count} x {kind}\n");
        }
    }
    out
}

fn line(row: &RowResult) -> String {
    let size = figures::size(row.size);
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let mib = or_dash((row.size > 0).then(|| rate(row.mib_per_s)));
    let Latency { p50, p90, p99, p999, max } = row.latency_us;
    let there = or_dash(row.cpu_s.server.map(cpu));
    let raw = row.raw_tcp_mib_per_s.filter(|raw| *raw > 0.0);
    let share = or_dash(raw.map(|raw| format!("{:.0}%", row.mib_per_s / raw * 100.0)));
    format!(
        "{:<5} {size:>4} {:>4} {mib:>5} {:>6} {:>5} {:>5} {:>5} {:>5} {:>5} {:>3} {:>5} {there:>5} \
         {share:>4}\n",
        row.test,
        row.concurrency,
        operations(row.ops_per_s),
        latency(p50),
        latency(p90),
        latency(p99),
        or_dash(p999.map(latency)),
        latency(max),
        count(row.errors),
        cpu(row.cpu_s.client),
    )
}

/// How the figures were measured that the last column compares with.
fn plain_tcp(report: &Report) -> String {
    let bulk = |row: &&RowResult| row.size > 0;
    if report.results.iter().filter(bulk).count() == 0 {
        return String::new();
    }
    let figure = |test: TestWord| {
        let mut rows = report.results.iter().filter(|row| row.test == test.name());
        let rate = rows.find_map(|row| row.raw_tcp_mib_per_s)?;
        Some(format!("{} {}", test.name(), figures::rate(rate)))
    };
    let figures: Vec<_> =
        [TestWord::Read, TestWord::Write].into_iter().filter_map(figure).collect();
    if figures.is_empty() {
        return "plain TCP: not measured; only a node started for the run offers it\n".to_owned();
    }
    let connections = match report.plain_tcp_connections {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    };
    let block = raw_tcp::BLOCK >> 10;
    format!(
        "plain TCP, measured before the first such row: {} MiB/s:\n\
         blocking sockets, {connections}, {block} KiB a call. They sleep where a node polls\n\
         (spin_us), so a share can exceed 100%\n",
        figures.join(", ")
    )
}

/// CPU seconds; five columns below a day.
fn cpu(seconds: f64) -> String {
    if seconds < 99.995 { format!("{seconds:.2}") } else { format!("{seconds:.0}") }
}

#[cfg(test)]
mod tests;
