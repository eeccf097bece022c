//! The results: one table for people, one JSON document for programs.

use std::fmt;

use lustrine_reactor::NodeInfo;
use lustrine_selftest::Snapshot;
use serde::Serialize;

use super::partner::Partner;
use super::{Row, TestWord};

/// Everything a run found out.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    from: String,
    to: String,
    /// How our side appeared to the other: `node` or `userland`.
    identity: String,
    pub(super) results: Vec<Result>,
    /// How the run ended.
    #[serde(flatten)]
    pub(super) end: End,
}

/// How a run ended; the rows measured before are good in any case.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum End {
    /// With its last row.
    Complete,
    /// With an error.
    Failed { error: String },
    /// With a signal.
    Interrupted { interrupted: bool },
}

/// One row.
#[derive(Debug, Serialize)]
pub(super) struct Result {
    test: &'static str,
    /// Bytes per operation; 0 for ping.
    size: u32,
    concurrency: u32,
    seconds: f64,
    ops: u64,
    mib_per_s: f64,
    ops_per_s: f64,
    latency_us: Latency,
    errors: u64,
    /// What the errors were, with how often.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    error_kinds: Vec<(String, u64)>,
    cpu_s: Cpu,
    raw_tcp_mib_per_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
struct Cpu {
    client: f64,
    /// Absent when the other side does not tell.
    server: Option<f64>,
}

impl Report {
    pub(super) fn new(info: &NodeInfo, partner: &Partner) -> Report {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            from: info.nids[0].to_string(),
            to: partner.nid.to_string(),
            identity: format!("{:?}", info.identity).to_lowercase(),
            results: Vec::new(),
            end: End::Complete,
        }
    }

    /// Failed operations in all rows.
    pub(super) fn errors(&self) -> u64 {
        self.results.iter().map(|row| row.errors).sum()
    }

    /// The table, with a line under it for each kind of error.
    pub(super) fn table(&self) -> String {
        let mut out = format!("{} -> {}, {} identity\n", self.from, self.to, self.identity);
        out += "test    size  conc     MiB/s     ops/s       p50       p90       p99     p99.9";
        out += "       max  errors  CPU client/server  of plain TCP\n";
        for row in &self.results {
            out += &row.line();
        }
        out += "latency in microseconds; CPU in seconds of each process";
        out += "; plain TCP: a raw socket, as many connections\n";
        for row in &self.results {
            for (kind, count) in &row.error_kinds {
                let what = Row::describe(row.test, row.size, row.concurrency);
                out += &format!("{what}: {count} x {kind}\n");
            }
        }
        out
    }
}

impl Result {
    pub(super) fn new(
        row: &Row,
        snapshot: &Snapshot,
        (client, server): (f64, Option<f64>),
        raw: Option<f64>,
    ) -> Result {
        let seconds = snapshot.elapsed.as_secs_f64();
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let micros = |part: f64| snapshot.latencies.quantile(part).0 as f64 / 1e3;
        Result {
            test: row.test.name(),
            size: row.size,
            concurrency: row.concurrency,
            seconds,
            ops: snapshot.ops,
            mib_per_s: per_second(snapshot.bytes as f64) / f64::from(1 << 20),
            ops_per_s: per_second(snapshot.ops as f64),
            latency_us: Latency {
                p50: micros(0.5),
                p90: micros(0.9),
                p99: micros(0.99),
                p999: micros(0.999),
                max: snapshot.latencies.max().0 as f64 / 1e3,
            },
            errors: snapshot.errors.iter().map(|(_, count)| count).sum(),
            error_kinds: snapshot
                .errors
                .iter()
                .map(|(kind, count)| (kind.to_string(), *count))
                .collect(),
            cpu_s: Cpu { client, server },
            raw_tcp_mib_per_s: raw,
        }
    }

    fn line(&self) -> String {
        let size = match self.size {
            0 => "-".to_owned(),
            size if size % (1 << 20) == 0 => format!("{}M", size >> 20),
            size if size % (1 << 10) == 0 => format!("{}k", size >> 10),
            size => size.to_string(),
        };
        let mib = if self.size == 0 { "-".to_owned() } else { format!("{:.1}", self.mib_per_s) };
        let server = self.cpu_s.server.map_or("-".to_owned(), |cpu| format!("{cpu:.2}"));
        let share = match self.raw_tcp_mib_per_s {
            Some(raw) if raw > 0.0 => format!("{:.0} %", self.mib_per_s / raw * 100.0),
            _ => "-".to_owned(),
        };
        let Latency { p50, p90, p99, p999, max } = self.latency_us;
        format!(
            "{:<6} {size:>5} {:>5} {mib:>9} {:>9.0} {p50:>9.1} {p90:>9.1} {p99:>9.1} {p999:>9.1} \
             {max:>9.1} {:>7} {:>9.2} / {server:<6} {share:>13}\n",
            self.test, self.concurrency, self.ops_per_s, self.errors, self.cpu_s.client,
        )
    }
}

impl TestWord {
    /// Its name in tables and JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            TestWord::Ping => "ping",
            TestWord::Read => "read",
            TestWord::Write => "write",
        }
    }
}

impl Row {
    fn describe(test: &str, size: u32, concurrency: u32) -> String {
        match size {
            0 => format!("{test}, concurrency {concurrency}"),
            size => format!("{test} of {size} bytes, concurrency {concurrency}"),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Row::describe(self.test.name(), self.size, self.concurrency))
    }
}
