//! The results of a run, and their JSON document.

use std::collections::BTreeMap;
use std::fs;

use lustrine_control::{LoadRow, NetInfo, NetRow};
use lustrine_plan::Provenance;
use lustrine_wire::nid::Nid;
use serde::Serialize;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::target::Target;
use super::{Row, SelftestArgs};
use crate::access::UsedNode;

/// With fewer operations, the 99.9th percentile would be nearly the slowest operation.
const OPS_FOR_P999: u64 = 1000;

/// As [`OPS_FOR_P999`], for the 99.99th percentile.
const OPS_FOR_P9999: u64 = 10_000;

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    /// When the run began, RFC 3339, UTC.
    pub(super) date: String,
    /// The name of this machine.
    pub(super) host: String,
    /// The node of this side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<UsedNode>,
    pub(super) from: String,
    pub(super) to: String,
    /// The identity of this side: `node` or `userland`.
    pub(super) identity: String,
    /// How data were checked: `none`, `simple` or `full`.
    pub(super) check: &'static str,
    /// Bulk connections of this side per peer and direction.
    pub(super) conns_per_peer: u16,
    /// How the loops wait, and so which rate of plain TCP the table compares with: `polling` if
    /// `spin_us` is not 0, otherwise `sleeping`.
    pub(super) waiting: &'static str,
    /// Number of TCP connections of the measurement of plain TCP.
    pub(super) plain_tcp_connections: usize,
    /// CPUs of each partition of this side.
    pub(super) cpts: Vec<Vec<u32>>,
    /// Where two nodes on this machine ran: `apart`, each on one half of the CPUs, or `shared`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) placement: Option<&'static str>,
    /// How many CPUs were busy before the run, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) busy_cpus_before: Option<f64>,
    /// All tunables of this side, by name; a node started for the run has the same from `--set`.
    pub(super) tunables: BTreeMap<String, i64>,
    /// This machine, this side, and a node started for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provenance: Option<Provenance>,
    pub(super) results: Vec<RowResult>,
    /// How the run ended.
    #[serde(flatten)]
    pub(super) end: End,
}

/// How a run ended; the rows measured before are valid in any case.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum End {
    /// All rows were measured.
    Complete,
    /// With an error.
    Failed { error: String },
    /// With a signal.
    Interrupted { interrupted: bool },
}

/// One row.
#[derive(Debug, Serialize)]
pub(super) struct RowResult {
    pub(super) test: &'static str,
    /// Bytes per operation; 0 for ping.
    pub(super) size: u32,
    pub(super) concurrency: u32,
    pub(super) seconds: f64,
    pub(super) ops: u64,
    pub(super) mib_per_s: f64,
    pub(super) ops_per_s: f64,
    pub(super) latency_us: Latency,
    pub(super) errors: u64,
    /// The errors, each with its number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) error_kinds: Vec<(String, u64)>,
    pub(super) cpu_s: Cpu,
    /// The rate of plain TCP right before this row, with blocking sockets.
    pub(super) raw_tcp_mib_per_s: Option<f64>,
    /// The same with polling sockets.
    pub(super) raw_tcp_polling_mib_per_s: Option<f64>,
    /// Operations of the row that never ended: they were given up without an answer. They are also
    /// counted as errors.
    pub(super) lost: u64,
    /// The age of the oldest of them when it was given up.
    pub(super) lost_age_max_s: f64,
    /// The part of `seconds` in which the node was not reachable.
    pub(super) unreachable_s: f64,
    /// Bytes that might be in flight at the end, if a window limited them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window_bytes: Option<u64>,
    /// Whether the run failed during this row.
    pub(super) cut_short: bool,
}

/// The rate of plain TCP, in MiB per second; `None` if it was not measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawTcp {
    pub(super) sleeping: Option<f64>,
    pub(super) polling: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    /// Null below 1000 operations.
    pub(super) p999: Option<f64>,
    /// Null below 10,000 operations.
    pub(super) p9999: Option<f64>,
    pub(super) max: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cpu {
    pub(super) client: f64,
    /// Absent when the other side does not report it.
    pub(super) server: Option<f64>,
}

/// The side that sends the load.
pub(super) struct Side {
    pub(super) node: UsedNode,
    pub(super) info: NetInfo,
    pub(super) tunables: BTreeMap<String, i64>,
}

impl Side {
    /// Its interface on the net of a peer, or else its first one.
    pub(super) fn net(&self, peer: &Nid) -> Option<&NetRow> {
        self.info.on(peer.net()).next().or(self.info.nets.first())
    }
}

impl Report {
    /// A report without rows, dated now.
    pub(super) fn new(
        args: &SelftestArgs,
        side: Side,
        target: &Target,
        plain_tcp_connections: usize,
    ) -> Report {
        let Side { node, info, tunables } = &side;
        let net = side.net(&target.nid);
        let spins = tunables.get("spin_us").is_some_and(|spin| *spin != 0);
        Report {
            date: now(),
            host: host_name(),
            node: Some(node.clone()),
            from: net.map_or_else(String::new, |net| net.nid.to_string()),
            to: target.nid.to_string(),
            identity: info.identity.clone(),
            check: args.check.name(),
            conns_per_peer: net.map_or(0, |net| net.conns_per_peer),
            waiting: if spins { "polling" } else { "sleeping" },
            plain_tcp_connections,
            cpts: info.cpts.clone(),
            tunables: tunables.clone(),
            ..Report::empty()
        }
    }

    /// An empty report.
    pub(super) fn empty() -> Report {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            date: String::new(),
            host: String::new(),
            node: None,
            from: String::new(),
            to: String::new(),
            identity: String::new(),
            check: "",
            conns_per_peer: 0,
            waiting: "polling",
            plain_tcp_connections: 0,
            cpts: Vec::new(),
            placement: None,
            busy_cpus_before: None,
            tunables: BTreeMap::new(),
            provenance: None,
            results: Vec::new(),
            end: End::Complete,
        }
    }

    /// Failed operations in all rows.
    pub(super) fn errors(&self) -> u64 {
        self.results.iter().map(|row| row.errors).sum()
    }
}

/// The current time in RFC 3339, UTC, as the node's log writes it.
pub(super) fn now() -> String {
    let mut text = String::new();
    SystemTime.format_time(&mut Writer::new(&mut text)).expect("a String takes all text");
    text
}

/// The name of this machine; empty if the system has none.
pub(super) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

impl Report {
    /// The rate of plain TCP for a row, with the way of waiting of the node.
    pub(super) fn plain_tcp(&self, row: &RowResult) -> Option<f64> {
        let rate = match self.waiting {
            "sleeping" => row.raw_tcp_mib_per_s,
            _ => row.raw_tcp_polling_mib_per_s,
        };
        rate.filter(|rate| *rate > 0.0)
    }
}

impl RowResult {
    pub(super) fn new(
        row: &Row,
        load: &LoadRow,
        (client, server): (f64, Option<f64>),
        raw: RawTcp,
        cut_short: bool,
    ) -> RowResult {
        let seconds = load.elapsed_ns as f64 / 1e9;
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let latency = &load.latency;
        let at_least = |ops| load.ops >= ops;
        RowResult {
            test: row.test.name(),
            size: row.size,
            concurrency: row.concurrency,
            seconds,
            ops: load.ops,
            mib_per_s: per_second(load.bytes as f64) / f64::from(1 << 20),
            ops_per_s: per_second(load.ops as f64),
            latency_us: Latency {
                p50: micros(latency.p50_ns),
                p90: micros(latency.p90_ns),
                p99: micros(latency.p99_ns),
                p999: at_least(OPS_FOR_P999).then(|| micros(latency.p999_ns)),
                p9999: at_least(OPS_FOR_P9999).then(|| micros(latency.p9999_ns)),
                max: micros(latency.max_ns),
            },
            errors: load.errors.iter().map(|(_, count)| count).sum(),
            error_kinds: load.errors.clone(),
            cpu_s: Cpu { client, server },
            raw_tcp_mib_per_s: raw.sleeping,
            raw_tcp_polling_mib_per_s: raw.polling,
            lost: load.lost,
            lost_age_max_s: load.lost_age_max_ns as f64 / 1e9,
            unreachable_s: load.down_ns as f64 / 1e9,
            window_bytes: load.window_bytes,
            cut_short,
        }
    }
}
