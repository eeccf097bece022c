//! What the loops report in addition to their counters: histograms, and everything about some
//! peers.
//!
//! A node may have many thousands of peers; the amount of data copied for one query is bounded, so
//! that frequent queries do not stop the loops.

use std::collections::HashMap;

use lustrine_lnet::driver_report::{DriverConn, DriverCounter, DriverPeer};
use lustrine_lnet::latency::Latencies;
use lustrine_lnet::shard::{NiInfo, PeerInfo, Waiting};
use lustrine_lnet::stats::Stats;
use lustrine_selftest::RpcTotals;
use lustrine_wire::nid::Nid;

/// What a query requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotQuery {
    /// Largest number of interfaces, in their order.
    pub(crate) nis_max: usize,
    /// The peers.
    pub(crate) peers: SnapshotPeers,
    /// The beginning of the latencies.
    pub(crate) since: Since,
}

/// The peers of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SnapshotPeers {
    /// Those with most messages, up to this number.
    Busiest(usize),
    /// This one.
    Only(Nid),
}

/// The beginning of the reported latencies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    /// The start of the node.
    Start,
    /// The last reset of the counters, as tools show them.
    Reset,
}

/// The snapshot of one event loop.
#[derive(Debug)]
pub(crate) struct LoopSnapshot {
    /// The usual report, but with the interfaces and peers of the query only.
    pub(crate) report: LoopReport,
    /// The core's counters, which are never reset.
    pub(crate) totals: Stats,
    /// The histograms of each interface in the report.
    pub(crate) ni_latencies: Vec<Latencies>,
    /// The histograms of the peers in the report that have any, by NID.
    pub(crate) peer_latencies: Vec<(Nid, Latencies)>,
    /// Number of peers.
    pub(crate) peers_known: usize,
    /// Number of messages that wait for credits.
    pub(crate) waiting: Waiting,
    /// Connections of all peers, by type: all types of the driver.
    pub(crate) connections: Vec<(&'static str, u32)>,
    /// The counters of the selftest service.
    pub(crate) selftest: RpcTotals,
}

/// The windows of selftest to a peer NID, all loads together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// What may be in flight.
    pub(crate) bytes: u64,
    /// What is.
    pub(crate) in_flight: u64,
}

/// The report of one event loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopReport {
    /// The CPU partition.
    pub cpt: u16,
    /// Interfaces, with this partition's share of credits.
    pub nis: Vec<NiInfo>,
    /// Peers of this loop, as the core sees them.
    pub peers: Vec<PeerInfo>,
    /// The same, as the driver sees them.
    pub links: Vec<DriverPeer>,
    /// What selftest may have in flight to those peers that it is loading.
    pub windows: HashMap<Nid, Window>,
    /// The core's counters.
    pub stats: Stats,
    /// The driver's counters.
    pub driver: Vec<DriverCounter>,
    /// Number of open TCP connections.
    pub connections: usize,
    /// Memory mapped for messages, in bytes.
    pub memory_mapped: u64,
}

/// Open connections of one event loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopConns {
    /// The CPU partition.
    pub(crate) cpt: u16,
    /// The connections, with the NID of their interface.
    pub(crate) rows: Vec<(Nid, DriverConn)>,
    /// How many more there are.
    pub(crate) left_out: usize,
}

impl LoopSnapshot {
    /// The values of an interface, by its NID: interfaces may have been added or removed in the
    /// meantime.
    pub(crate) fn latencies_of(&self, nid: &Nid) -> Option<&Latencies> {
        let place = self.report.nis.iter().position(|ni| ni.nid == *nid)?;
        self.ni_latencies.get(place)
    }
}
