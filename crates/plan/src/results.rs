//! What came out of a plan.

use std::collections::BTreeMap;

use lustrine_selftest::Latencies;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::LnetCounters;
use serde::Serialize;

/// Fewer operations have no 99.9th percentile worth the name.
const OPS_FOR_P999: u64 = 1000;

/// Everything that a plan found out.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The release that measured.
    pub version: String,
    /// When it began, RFC 3339, UTC.
    pub date: String,
    /// The name of the machine that the console was on.
    pub host: String,
    /// The plan's name.
    pub plan: String,
    /// What it shows.
    pub about: String,
    /// Its text.
    pub source: String,
    /// The nodes of each group.
    pub groups: BTreeMap<String, Vec<Nid>>,
    /// What was measured, in order.
    pub points: Vec<PointResult>,
    /// How it ended.
    #[serde(flatten)]
    pub end: End,
}

/// How a run ended; what was measured before is good in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum End {
    /// With its last point.
    Complete,
    /// With an error.
    Failed {
        /// What went wrong, and what to do next.
        error: String,
    },
    /// With a signal.
    Interrupted {
        /// Always true.
        interrupted: bool,
    },
}

/// Tests that ran together once.
#[derive(Clone, Debug, Serialize)]
pub struct PointResult {
    /// The step's index.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// What varies, with its value here.
    pub labels: Vec<(String, String)>,
    /// Which repetition it is, from 0.
    pub repeat: u32,
    /// The tests, with their own operations.
    pub rows: Vec<Row>,
    /// What LNet of each node counted meanwhile, whoever caused it.
    pub nodes: Vec<NodeCounters>,
}

/// A test: what its clients measured of its own operations.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `ping`, `read` (clients read from servers) or `write`.
    pub test: &'static str,
    /// The group of the clients.
    pub from: String,
    /// The group of the servers.
    pub to: String,
    /// How many clients there are.
    pub clients: u32,
    /// How many servers there are.
    pub servers: u32,
    /// Bytes per operation; 0 for ping.
    pub size: u32,
    /// Operations under way of each client to each of its servers.
    pub concurrency: u32,
    /// Most operations per second of each client; 0 for as many as there can be.
    pub rate_limit: u32,
    /// All clients together.
    #[serde(flatten)]
    pub all: OpCounts,
    /// Failed operations by kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub error_kinds: Vec<Kind>,
    /// Clients whose figures are not in it, for they tell none: kernel nodes with several tests.
    pub silent: u32,
    /// Clients whose figures are not in it, for they did not answer.
    pub lost: Vec<Nid>,
    /// Operations by `latency_us`: the bucket's upper end in microseconds, and how many; empty if
    /// a client does not report latencies.
    pub histogram: Vec<(f64, u64)>,
    /// Each client by itself.
    pub by_client: Vec<ClientResult>,
}

/// One client of a test.
#[derive(Clone, Debug, Serialize)]
pub struct ClientResult {
    /// Its NID.
    pub nid: Nid,
    /// Its server, if it has one alone.
    pub server: Option<Nid>,
    /// What it measured.
    #[serde(flatten)]
    pub counted: OpCounts,
}

/// Operations and how long they took.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OpCounts {
    /// Seconds in which they were counted; of several clients, the longest.
    pub seconds: f64,
    /// Operations that went well.
    pub ops: u64,
    /// Of these, per second.
    pub ops_per_s: f64,
    /// Their payload per second; 0 for ping.
    pub mib_per_s: f64,
    /// How long the operations took that began in these seconds and succeeded, also those that
    /// ended later. In a test with a rate limit from when each was due: an operation that could
    /// not be sent in time has waited too, and one that could not be sent for 60 s counts with
    /// 60 s. Absent where the client does not report it.
    pub latency_us: Option<Latency>,
    /// The same from when each operation was sent; only in a test with a rate limit.
    pub latency_sent_us: Option<Latency>,
    /// Operations that failed, also those that failed after these seconds.
    pub errors: u64,
    /// Operations that were given up without an answer. They are among the errors too; 0 where the
    /// client does not report it.
    pub lost: u64,
    /// Seconds that the oldest of them was old when it was given up, of the whole test.
    pub lost_age_max_s: f64,
}

/// Latencies in microseconds, each to within 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Half of the operations took no longer.
    pub p50: f64,
    /// 90 % of the operations took no longer.
    pub p90: f64,
    /// 99 % of the operations took no longer.
    pub p99: f64,
    /// 99.9 % of the operations took no longer; absent below 1000 operations.
    pub p999: Option<f64>,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// Of these; `None` if there are none.
    pub fn of(latencies: &Latencies) -> Option<Latency> {
        let us = |nanos: lustrine_lnet::time::Nanos| nanos.0 as f64 / 1e3;
        let part = |part| us(latencies.quantile(part));
        (latencies.count() > 0).then(|| Latency {
            mean: us(latencies.mean()),
            p50: part(0.5),
            p90: part(0.9),
            p99: part(0.99),
            p999: (latencies.count() >= OPS_FOR_P999).then(|| part(0.999)),
            max: us(latencies.max()),
        })
    }
}

/// A kind of error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// A positive errno is the server's, a negative one the client's.
    pub errno: i32,
    /// The same for people.
    pub what: String,
    /// How often.
    pub count: u64,
}

/// What LNet of a node counted while a point was measured: all of its traffic, that of others
/// too.
#[derive(Clone, Debug, Serialize)]
pub struct NodeCounters {
    /// The node.
    pub nid: Nid,
    /// Differences; `msgs_alloc` and `msgs_max` are as they were at the end.
    pub lnet: LnetCounters,
}

impl Results {
    /// Clients that did not answer, each counted in every test.
    pub fn lost(&self) -> u64 {
        self.points.iter().flat_map(|point| &point.rows).map(|row| row.lost.len() as u64).sum()
    }

    /// Failed operations of all points.
    pub fn errors(&self) -> u64 {
        let errors = self.points.iter().flat_map(|point| &point.rows).map(|row| row.all.errors);
        errors.fold(0, u64::saturating_add)
    }
}
