//! The lines of results: all repetitions of one test with the same varied values, and what was
//! measured of it.

use std::collections::BTreeSet;
use std::fmt;

use lustrine_report::numbers::{counted, grouped, latency_text, size};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use crate::model::TestKind;
use crate::results::{Latency, OpCounts, Results, Row, named};

/// What identifies a line in several results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineKey {
    step: String,
    labels: Vec<(String, String)>,
    /// The test's index in its step.
    index: usize,
    pub(crate) test: TestKind,
    pub(crate) size: u32,
    pub(crate) concurrency: u32,
    rate: u32,
}

/// All repetitions of one test with the same varied values.
pub(crate) struct MeasuredLine<'r> {
    pub(crate) key: LineKey,
    rows: Vec<&'r Row>,
}

/// Something measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Payload, MiB per second.
    MibPerS,
    /// Operations per second.
    OpsPerS,
    /// Half of the operations took no longer, microseconds.
    P50,
    /// The same of 90 %.
    P90,
    /// The same of 99 %.
    P99,
    /// The same of 99.9 %.
    P999,
    /// The longest operation, microseconds.
    Max,
    /// Failed operations.
    Errors,
}

/// The median of several repetitions, and their range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The median; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// How many repetitions there are.
    pub samples: usize,
}

impl fmt::Display for LineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = vec![self.test.name().to_owned()];
        if self.size > 0 {
            words.push(size(self.size));
        }
        words.push(format!("c{}", self.concurrency));
        if self.rate > 0 {
            words.push(format!("{}/s", self.rate));
        }
        let named = ["size", "concurrency", "rate"];
        let others = self.labels.iter().filter(|(name, _)| !named.contains(&name.as_str()));
        words.extend(others.map(|(name, value)| format!("{name} {value}")));
        let words = words.join(" ");
        // The steps of a run without a plan are named as their tests.
        match words.starts_with(&self.step) {
            true => f.write_str(&words),
            false => write!(f, "{}: {words}", self.step),
        }
    }
}

impl Metric {
    /// The one by which lines of this size are compared first.
    pub(crate) fn rate_of(size: u32) -> Metric {
        if size > 0 { Metric::MibPerS } else { Metric::OpsPerS }
    }

    /// Its name in tables and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::MibPerS => "MiB/s",
            Metric::OpsPerS => "operations/s",
            Metric::P50 => "p50",
            Metric::P90 => "p90",
            Metric::P99 => "p99",
            Metric::P999 => "p99.9",
            Metric::Max => "max",
            Metric::Errors => "errors",
        }
    }

    /// A value with its unit.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Metric::MibPerS => format!("{} MiB/s", grouped(value)),
            Metric::OpsPerS => format!("{} operations/s", grouped(value)),
            Metric::Errors => format!("{value:.0} errors"),
            _ => latency_text(value),
        }
    }

    fn of(self, counts: &OpCounts) -> Option<f64> {
        let part = |of: fn(&Latency) -> f64| counts.latency_us.as_ref().map(of);
        match self {
            Metric::MibPerS => Some(counts.mib_per_s),
            Metric::OpsPerS => Some(counts.ops_per_s),
            Metric::P50 => part(|l| l.p50),
            Metric::P90 => part(|l| l.p90),
            Metric::P99 => part(|l| l.p99),
            Metric::P999 => counts.latency_us.and_then(|l| l.p999),
            Metric::Max => part(|l| l.max),
            Metric::Errors => Some(counts.errors as f64),
        }
    }
}

/// The median of sorted values; of an even number, the mean of the two in the middle. `None`
/// without values.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let (lower, upper) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted[sorted.len() / 2]);
    Some(f64::midpoint(*lower, upper))
}

/// What results of an earlier release do not say.
pub(crate) const UNKNOWN: &str = "unknown";

impl MeasuredLine<'_> {
    /// What failed in all repetitions together.
    pub(crate) fn errors(&self) -> u64 {
        self.rows.iter().map(|row| row.all.errors).sum()
    }

    /// Clients that did not answer in some repetition.
    pub(crate) fn lost(&self) -> Vec<Nid> {
        let lost = self.rows.iter().flat_map(|row| &row.lost).copied();
        lost.collect::<BTreeSet<Nid>>().into_iter().collect()
    }

    /// Most clients of a repetition that report no statistics.
    pub(crate) fn silent(&self) -> u32 {
        self.rows.iter().map(|row| row.silent).max().unwrap_or_default()
    }

    /// Clients and servers; of repetitions with several numbers, all.
    pub(crate) fn nodes(&self) -> String {
        let nodes = |count: u32, what: &str| counted(u64::from(count), what);
        self.all(|row| {
            format!("{}, {}", nodes(row.clients, "client"), nodes(row.servers, "server"))
        })
    }

    /// How data were checked.
    pub(crate) fn check(&self) -> String {
        self.all(|row| row.check.clone().unwrap_or_else(|| UNKNOWN.to_owned()))
    }

    /// What the repetitions have, each value once.
    fn all(&self, of: impl Fn(&&Row) -> String) -> String {
        let all: BTreeSet<String> = self.rows.iter().map(of).collect();
        all.into_iter().collect::<Vec<String>>().join(" or ")
    }

    /// What was to be measured and was not, as the end of a sentence about the line; `None` if
    /// nothing was, or if no repetition measured it. Errors are of all repetitions together, so
    /// each has to have them.
    pub(crate) fn gap(&self, metric: Metric) -> Option<String> {
        let (lost, silent) = (self.lost(), self.silent());
        if !lost.is_empty() {
            return Some(format!("is without {}: no answer", named(&lost)));
        }
        if silent > 0 {
            return Some(format!("is without {silent} of its clients, which report no statistics"));
        }
        let all = self.rows.len();
        let has_it = |row: &&&Row| !row.by_client.is_empty() && metric.of(&row.all).is_some();
        let measured = self.rows.iter().filter(has_it).count();
        let least = if metric == Metric::Errors { 0 } else { 1 };
        (least..all)
            .contains(&measured)
            .then(|| format!("was measured in {measured} of {all} repetitions"))
    }

    /// The values of the repetitions of which clients reported them; `None` if one of these lacks
    /// this value.
    pub(crate) fn range(&self, metric: Metric) -> Option<Range> {
        let known = |row: &&&Row| !row.by_client.is_empty();
        let values = self.rows.iter().filter(known).map(|row| metric.of(&row.all));
        let mut values: Vec<f64> = values.collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let median = median(&values)?;
        Some(Range { median, low, high, samples: values.len() })
    }
}

/// All lines, in the order of the results. Pairs and rounds are lines of their own.
pub(crate) fn lines(results: &Results) -> Vec<MeasuredLine<'_>> {
    let mut lines: Vec<MeasuredLine<'_>> = Vec::new();
    for point in &results.points {
        for (index, row) in point.rows.iter().enumerate() {
            let key = LineKey {
                step: point.name.clone(),
                labels: point.labels.clone(),
                index,
                test: row.test,
                size: row.size,
                concurrency: row.concurrency,
                rate: row.rate_limit,
            };
            match lines.iter_mut().find(|line| line.key == key) {
                Some(line) => line.rows.push(row),
                None => lines.push(MeasuredLine { key, rows: vec![row] }),
            }
        }
    }
    lines
}
