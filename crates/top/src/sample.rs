//! What a node and mounts say at one moment.

use lustrine_control::{LatencyRow, NetInfo, PeerRow, StatsRow};

/// All that was asked at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, in UTC.
    pub date: String,
    /// When, in nanoseconds of a clock that never goes back.
    pub at_ns: u64,
    /// The running node; `None` if none answers.
    pub node: Option<NodeSample>,
    /// Whether a node was asked that has neither answered so far nor taken too long.
    pub node_is_awaited: bool,
    /// The mounts, in the order in which they are shown.
    pub mounts: Vec<MountSample>,
    /// Whether the list of the mounts, or one of them, was asked for and has neither come so far
    /// nor taken too long.
    pub mounts_are_awaited: bool,
    /// What did not answer, and why.
    pub notes: Vec<String>,
}

/// What a node says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSample {
    /// Another text after each start of the node; empty if that is not known.
    pub start: String,
    /// Its interfaces.
    pub net: NetInfo,
    /// Its peers, ordered by NID.
    pub peers: Vec<PeerRow>,
    /// Its counters.
    pub stats: StatsRow,
    /// Histograms of its interfaces and its peers.
    pub latencies: Vec<LatencyRow>,
}

/// What a mount says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountSample {
    /// The mount point.
    pub dir: String,
    /// What is mounted.
    pub source: String,
    /// The process ID of its program: another one is another mount.
    pub pid: u32,
    /// How long it has been mounted, in seconds.
    pub mounted_s: f64,
    /// Most reads and writes at a target at once; 0 if it does not say so, or finds it by itself.
    pub max_rpcs_in_flight: u16,
    /// Whether it finds that by itself.
    pub max_rpcs_in_flight_auto: bool,
    /// RPCs whose outcome is awaited.
    pub rpcs: u64,
    /// RPCs sent so far.
    pub rpcs_sent: u64,
    /// Bytes that servers have sent in bulk.
    pub bulk_received: u64,
    /// Bytes that servers have fetched in bulk.
    pub bulk_sent: u64,
    /// Bytes that programs have written and the servers do not have.
    pub dirty: u64,
    /// Bytes of memory for data of files.
    pub cached: u64,
    /// Open files.
    pub open_files: u64,
    /// Its targets.
    pub targets: Vec<TargetSample>,
    /// Targets that it has and that are not in `targets`.
    pub targets_left_out: usize,
    /// The operations at all targets together.
    pub operations: Vec<OperationSample>,
}

/// What a mount says of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetSample {
    /// Its name.
    pub name: String,
    /// The state of its import.
    pub state: String,
    /// The NID of its server.
    pub nid: String,
    /// RPCs sent and not answered.
    pub in_flight: u64,
    /// RPCs that wait to be sent.
    pub waiting: u64,
    /// How often the server has evicted the client.
    pub evictions: u64,
    /// Its own operations; `None` if they were not asked for.
    pub operations: Option<Vec<OperationSample>>,
}

/// What a mount says of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationSample {
    /// Its name.
    pub name: String,
    /// Replies so far.
    pub count: u64,
    /// The sum of all times, in microseconds.
    pub sum_us: f64,
    /// The median of all times so far, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
}
