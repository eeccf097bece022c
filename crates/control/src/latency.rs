//! How long operations took.

use std::collections::BTreeMap;

use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

/// The operations of one NID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// The NID: a peer's, or one of the node's own.
    pub nid: Nid,
    /// The operations with samples, by name: `put_egress`, `get_rtt`, `put_ack`.
    #[serde(default)]
    pub operations: BTreeMap<String, OperationLatency>,
}

/// How long one operation took, in nanoseconds. A percentile is never below the true one and at
/// most 12.5 % above it, or 128 ns above it below 1.024 us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the percentiles")]
pub struct OperationLatency {
    /// Number, extremes and average.
    #[serde(flatten)]
    pub summary: SummaryRow,
    pub p50_nsec: u64,
    pub p90_nsec: u64,
    pub p99_nsec: u64,
    pub p999_nsec: u64,
    /// The buckets of the histogram that are not empty, in order.
    #[serde(default)]
    pub buckets: Vec<BucketRow>,
}

/// One bucket of a histogram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketRow {
    /// The lower bound, included, in nanoseconds.
    pub from_nsec: u64,
    /// The upper bound, excluded, in nanoseconds; absent for the last bucket.
    pub below_nsec: Option<u64>,
    /// The number of samples.
    pub samples: u64,
}

/// Number, extremes and average of an operation, in nanoseconds; all are 0 without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "lnetctl's names")]
pub struct SummaryRow {
    pub samples: u64,
    pub min_nsec: u64,
    pub max_nsec: u64,
    pub avg_nsec: u64,
}
