//! The results of a plan.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_selftest::Latencies;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::LnetCounters;
use serde::{Deserialize, Serialize};

use crate::model::TestKind;
use crate::provenance::Provenance;
use crate::start::Started;

/// With fewer operations, a 99.9th percentile means nothing.
const OPS_FOR_P999: u64 = 1000;

/// As [`OPS_FOR_P999`], for 99.99 %.
const OPS_FOR_P9999: u64 = 10_000;

/// All results of a plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The release that measured.
    pub version: String,
    /// When it began, RFC 3339, UTC.
    pub date: String,
    /// The name of the console's machine.
    pub host: String,
    /// The plan's name; empty for a run of `lustrine selftest` without a plan.
    pub plan: String,
    /// Its description.
    pub about: String,
    /// Its text.
    pub source: String,
    /// The nodes of each group.
    pub groups: BTreeMap<String, Vec<Nid>>,
    /// The hosts on which nodes were started; absent if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Started>,
    /// Where they were measured; absent in results of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The points, in order.
    pub points: Vec<PointResult>,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
}

/// How a run ended; the points measured before are valid in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, from = "EndFields")]
pub enum End {
    /// All of the plan was measured.
    Complete,
    /// With an error.
    Failed {
        /// The error, and what to do next.
        error: String,
    },
    /// With a signal.
    Interrupted {
        /// Always true.
        interrupted: bool,
    },
}

/// The fields of a document that say how the run ended; without any it was complete.
#[derive(Deserialize)]
struct EndFields {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    interrupted: bool,
}

impl From<EndFields> for End {
    fn from(fields: EndFields) -> End {
        match fields {
            EndFields { error: Some(error), .. } => End::Failed { error },
            EndFields { interrupted: true, .. } => End::Interrupted { interrupted: true },
            EndFields { .. } => End::Complete,
        }
    }
}

/// Tests that ran together, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PointResult {
    /// The step's index.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// The varied names, with their values in this point.
    pub labels: Vec<(String, String)>,
    /// The number of the repetition.
    pub repeat: u32,
    /// The tests, with their own operations.
    pub rows: Vec<Row>,
    /// The LNet counters of each node in the point, for traffic from any source.
    pub nodes: Vec<NodeCounters>,
}

/// A test: what its clients measured of its own operations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// `ping`, `read` (clients read from servers) or `write`.
    pub test: TestKind,
    /// The group of the clients.
    pub from: String,
    /// The group of the servers.
    pub to: String,
    /// Number of clients.
    pub clients: u32,
    /// Number of servers.
    pub servers: u32,
    /// Bytes per operation; 0 for ping.
    pub size: u32,
    /// Operations in flight of each client to each of its servers.
    pub concurrency: u32,
    /// Largest number of operations per second of each client; 0 for no limit.
    pub rate_limit: u32,
    /// How data were checked: `none`, `simple` or `full`; absent for ping, and in results of
    /// earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// All clients together.
    #[serde(flatten)]
    pub all: OpCounts,
    /// Failed operations by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_kinds: Vec<ErrorCount>,
    /// Clients that are missing because they report no statistics: kernel nodes with several tests.
    pub silent: u32,
    /// Clients that are missing because they did not answer.
    pub lost: Vec<Nid>,
    /// Whether the run failed during this row, so that it is shorter than the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
    /// The part of its seconds in which the node was not reachable; 0 where that is not measured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreachable_s: f64,
    /// MiB/s that plain TCP moved between the same two ends right before; only where that was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_tcp_mib_per_s: Option<f64>,
    /// Operations by `latency_us`: the bucket's upper end in microseconds, and how many; empty if
    /// a client does not report latencies.
    pub histogram: Vec<(f64, u64)>,
    /// Each client separately.
    pub by_client: Vec<ClientResult>,
}

/// One client of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientResult {
    /// Its NID.
    pub nid: Nid,
    /// Its server, if it has only one.
    pub server: Option<Nid>,
    /// Its results.
    #[serde(flatten)]
    pub counted: OpCounts,
}

/// Operations and how long they took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpCounts {
    /// Seconds in which they were counted; of several clients, the longest.
    pub seconds: f64,
    /// Operations that succeeded.
    pub ops: u64,
    /// The same per second.
    pub ops_per_s: f64,
    /// Their payload per second; 0 for ping.
    pub mib_per_s: f64,
    /// How long the operations took that were in flight in these seconds and succeeded, also those
    /// that ended later; those that began before count from their beginning. In a test with a rate
    /// limit from when each was due: an operation that could not be sent in time has waited too,
    /// and one that could not be sent for 60 s counts with 60 s. Absent where the client does not
    /// report it.
    pub latency_us: Option<Latency>,
    /// The same from when each operation was sent; only in a test with a rate limit.
    pub latency_sent_us: Option<Latency>,
    /// Operations that failed, also those that failed after these seconds.
    pub errors: u64,
    /// Operations that were given up without an answer. They are among the errors too; 0 where the
    /// client does not report it.
    pub lost_ops: u64,
    /// Seconds that the oldest of them was old when it was given up, of the whole test.
    pub lost_age_max_s: f64,
}

/// Latencies in microseconds, each to within 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean; absent in results of `lustrine selftest` without a plan.
    pub mean: Option<f64>,
    /// Half of the operations took no longer.
    pub p50: f64,
    /// 90 % of the operations took no longer.
    pub p90: f64,
    /// 99 % of the operations took no longer.
    pub p99: f64,
    /// 99.9 % of the operations took no longer; absent below 1000 operations.
    pub p999: Option<f64>,
    /// 99.99 % of the operations took no longer; absent below 10,000 operations, and in results of
    /// earlier versions.
    #[serde(default)]
    pub p9999: Option<f64>,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// The percentiles of a histogram; `None` if it is empty.
    pub fn of(latencies: &Latencies) -> Option<Latency> {
        let us = |nanos: lustrine_lnet::time::Nanos| nanos.0 as f64 / 1e3;
        let part = |part| us(latencies.quantile(part));
        (latencies.count() > 0).then(|| Latency {
            mean: Some(us(latencies.mean())),
            p50: part(0.5),
            p90: part(0.9),
            p99: part(0.99),
            p999: (latencies.count() >= OPS_FOR_P999).then(|| part(0.999)),
            p9999: (latencies.count() >= OPS_FOR_P9999).then(|| part(0.9999)),
            max: us(latencies.max()),
        })
    }
}

/// A kind of error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// A positive errno is the server's, a negative one the client's.
    pub errno: i32,
    /// Its meaning for people.
    pub what: String,
    /// Its number.
    pub count: u64,
}

/// The LNet counters of a node while a point was measured: all of its traffic, also that of other
/// programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeCounters {
    /// The node.
    pub nid: Nid,
    /// Differences; `msgs_alloc` and `msgs_max` are as they were at the end.
    pub lnet: LnetCounters,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Results {
    /// `plan` and its name, or `selftest` for a run without a plan.
    pub(crate) fn title(&self) -> String {
        match self.plan.as_str() {
            "" => "selftest".to_owned(),
            name => format!("plan {name}"),
        }
    }

    /// Clients that did not answer to the end of a test, each counted once.
    pub fn lost(&self) -> u64 {
        let rows = self.points.iter().flat_map(|point| &point.rows);
        rows.flat_map(|row| &row.lost).collect::<BTreeSet<&Nid>>().len() as u64
    }

    /// Failed operations of all points.
    pub fn errors(&self) -> u64 {
        let errors = self.points.iter().flat_map(|point| &point.rows).map(|row| row.all.errors);
        errors.fold(0, u64::saturating_add)
    }
}

/// Number of nodes, and of slowest pairs, that are named.
pub(crate) const SLOWEST: usize = 3;

/// The first of some nodes, and the number of the others.
pub(crate) fn named(nids: &[Nid]) -> String {
    let mut words: Vec<String> = nids.iter().take(SLOWEST).map(Nid::to_string).collect();
    if nids.len() > SLOWEST {
        words.push(format!("and {} more", nids.len() - SLOWEST));
    }
    words.join(", ")
}
