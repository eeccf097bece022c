//! A selftest load that a node sends for a caller.

use lustrine_selftest::Test;
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

/// An order about the load of a connection. A connection has at most one load, which ends with it;
/// a later one can start when the progress of the earlier one shows that it is finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoadOrder {
    /// Make a session with a node.
    Start {
        /// The node to load.
        target: Nid,
        /// The name of the session, at most 31 bytes.
        name: String,
        /// Whether to end a session of another console there.
        force: bool,
        /// The load ends after this many milliseconds without any answer of the target.
        patience_ms: u64,
    },
    /// Run a step, which waits for the session if necessary.
    Step {
        /// The RPC of the load.
        test: Test,
        /// RPCs outstanding, 1 to 1024.
        concurrency: u32,
        /// Measured time, in nanoseconds.
        time_ns: u64,
        /// Least time before the measurement begins, in nanoseconds.
        warm_up_ns: u64,
    },
    /// Report the progress.
    Progress,
    /// End the step and the session.
    Finish,
}

/// The progress of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadRow {
    /// Whether the session with the target is established.
    pub connected: bool,
    /// Whether no step is running.
    pub step_finished: bool,
    /// Whether an RPC of the running step, or of the last one, has succeeded, also before the
    /// measured time.
    #[serde(default)]
    pub has_progressed: bool,
    /// Whether the session is removed, or the load was given up.
    pub finished: bool,
    /// Why it was given up.
    #[serde(default)]
    pub failure: Option<LoadFailure>,
    /// Measured time of the running step or the last one, in nanoseconds.
    pub elapsed_ns: u64,
    /// Successful RPCs that ended in the measured time.
    pub ops: u64,
    /// Payload bytes that they moved.
    pub bytes: u64,
    /// Failed RPCs by kind, those of the warm-up included.
    pub errors: Vec<(String, u64)>,
    /// Latencies of the successful RPCs.
    pub latency: LoadLatency,
    /// RPCs that never ended.
    pub lost: u64,
    /// The age of the oldest of them when it was given up, in nanoseconds.
    pub lost_age_max_ns: u64,
    /// The part of the measured time in which the target was not reachable, in nanoseconds.
    pub down_ns: u64,
    /// Bytes that may be in flight to the target now, if its window limits them.
    #[serde(default)]
    pub window_bytes: Option<u64>,
}

/// Percentiles in nanoseconds, to three digits; 0 without RPCs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the percentiles")]
pub struct LoadLatency {
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub p9999_ns: u64,
    pub max_ns: u64,
}

/// Why a load was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadFailure {
    /// What happened, for tools.
    pub kind: LoadFailureKind,
    /// What happened, for people.
    pub message: String,
}

/// What ended a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadFailureKind {
    /// The target did not answer for as long as the patience lasts.
    NoAnswer,
    /// Another session holds the target.
    Busy,
    /// Anything else.
    Other,
}
