//! The table for people: 80 columns on any terminal, one line per row, whose words `grep` and `awk`
//! can find.

use lustrine_report::numbers::{self, count, operations, rate};

use super::report::{End, Latency, Report, RowResult};
use super::{TestWord, describe};
use crate::commands::raw_tcp;

const HEAD: &str = "
                                 latency                     CPU seconds  plain
test  size conc MiB/s  ops/s   p50   p90   p99 p99.9   max err  here there  TCP
";

const LEGEND: &str = "\
latency in microseconds (u), milliseconds (m) or seconds (s), of all operations
in flight during the row, even if they ended later; p99.9 needs 1000 operations
CPU seconds: used by this process (here) and by that of the other node (there)
";

/// The whole table, with a line under it for each kind of error.
pub(super) fn table(report: &Report) -> String {
    let Report { from, to, identity, check, .. } = report;
    let mut out = format!("{from} -> {to}, {identity} identity, check {check}");
    out += HEAD;
    report.results.iter().for_each(|row| out += &line(report, row));
    out += LEGEND;
    out += &plain_tcp(report);
    for row in &report.results {
        out += &notes(report, row);
        for (kind, count) in &row.error_kinds {
            let what = describe(row.test, row.size, row.concurrency);
            out += &format!("{what}: {count} x {kind}\n");
        }
    }
    out
}

/// Remarks about a row that its numbers do not show.
fn notes(report: &Report, row: &RowResult) -> String {
    let what = describe(row.test, row.size, row.concurrency);
    let mut out = String::new();
    if row.cut_short {
        let how = match report.end {
            End::Interrupted { .. } => "was interrupted",
            End::Complete | End::Failed { .. } => "failed",
        };
        out += &format!("{what}: the run {how} after {:.1} s of this row\n", row.seconds);
    }
    if row.lost > 0 {
        let (lost, age) = (row.lost, row.lost_age_max_s);
        out += &format!("{what}: {lost} never ended; the oldest was given up after {age:.1} s\n");
    }
    if row.lost > 0 && row.ops == 0 && row.size > 0 {
        let to = &report.to;
        out += &format!(
            "{what}: no operation ended. If `lustrine ping {to}` is answered, large packets may \
             disappear on the way: `lustrine doctor --to {to}` looks for that\n"
        );
    }
    out
}

fn line(report: &Report, row: &RowResult) -> String {
    let size = numbers::size(row.size);
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let mib = or_dash((row.size > 0).then(|| rate(row.mib_per_s)));
    let Latency { p50, p90, p99, p999, max, .. } = row.latency_us;
    // Without an operation that ended there is no latency.
    let latency = |us| if row.ops > 0 { numbers::latency(us) } else { "-".to_owned() };
    let there = or_dash(row.cpu_s.server.map(cpu));
    let raw = report.plain_tcp(row);
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

/// One of the rates in a row.
type RateOf = fn(&RowResult) -> Option<f64>;

/// How the rates were measured that the last column compares with.
fn plain_tcp(report: &Report) -> String {
    let bulk = |row: &&RowResult| row.size > 0;
    if report.results.iter().filter(bulk).count() == 0 {
        return String::new();
    }
    let range = |test: TestWord, rate_of: RateOf| {
        let rows = report.results.iter().filter(|row| row.test == test.name());
        let rates: Vec<f64> = rows.filter_map(rate_of).collect();
        let least = rates.iter().copied().reduce(f64::min)?;
        let most = rates.iter().copied().reduce(f64::max)?;
        Some(format!("{} {} to {}", test.name(), numbers::rate(least), numbers::rate(most)))
    };
    let ways: [(&str, RateOf); 2] = [
        ("sleeping", |row| row.raw_tcp_mib_per_s),
        ("polling", |row| row.raw_tcp_polling_mib_per_s),
    ];
    let mut lines = String::new();
    for (name, way) in ways {
        let tests = [TestWord::Read, TestWord::Write].into_iter();
        let ranges: Vec<String> = tests.filter_map(|test| range(test, way)).collect();
        if !ranges.is_empty() {
            lines += &format!("  {name}: {}\n", ranges.join(", "));
        }
    }
    if lines.is_empty() {
        return "plain TCP: not measured; only a node started for the run offers it\n".to_owned();
    }
    let connections = match report.plain_tcp_connections {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    };
    let block = raw_tcp::BLOCK >> 10;
    let (waiting, why) = match report.waiting {
        "sleeping" => ("sleep", "spin_us 0"),
        _ => ("poll", "spin_us not 0"),
    };
    format!(
        "plain TCP: our rate as a share of that of plain sockets which {waiting}, as this node\n\
         does ({why}), just before the row: {connections}, {block} KiB per call.\n\
         Their rates in MiB/s:\n{lines}"
    )
}

/// CPU seconds; five columns below a day.
fn cpu(seconds: f64) -> String {
    if seconds < 99.995 { format!("{seconds:.2}") } else { format!("{seconds:.0}") }
}

#[cfg(test)]
mod tests;
