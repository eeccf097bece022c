//! What the loops report in addition to their counters: histograms, and everything about some
//! peers.
//!
//! A node may have many thousands of peers; the amount of data copied for one query is bounded, so
//! that frequent queries do not stop the loops.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Instant;

use lustrine_lnet::latency::Latencies;
use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::shard::{PeerInfo, Waiting};
use lustrine_lnet::stats::Stats;
use lustrine_partition::Driver;
use lustrine_selftest::RpcTotals;
use lustrine_wire::nid::Nid;

use crate::call::{CallError, REPORT_TIMEOUT};
use crate::event_loop::EventLoop;
use crate::mailbox::{LoopMessage, LoopReport};
use crate::node::NodeHandle;

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

impl EventLoop {
    pub(crate) fn snapshot(&self, query: SnapshotQuery) -> LoopSnapshot {
        let (shard, driver) = (self.partition.shard(), self.partition.driver());
        let peers: Vec<PeerInfo> = match query.peers {
            SnapshotPeers::Busiest(most) => match query.since {
                Since::Start => shard.busiest_peers(most),
                Since::Reset => shard.busiest_peers_since_reset(most),
            },
            SnapshotPeers::Only(nid) => shard.peer(&nid).into_iter().collect(),
        };
        let listed: HashSet<Nid> = peers.iter().map(|peer| peer.nid).collect();
        let mut links = Vec::new();
        let mut connections: Vec<_> =
            driver.connection_types().into_iter().map(|name| (name, 0)).collect();
        for link in driver.peer_rows() {
            for (name, count) in &link.connections {
                let of_type = connections.iter_mut().find(|(other, _)| other == name);
                of_type.expect("the driver has named its types").1 += count;
            }
            if listed.contains(&link.id.nid) {
                links.push(link);
            }
        }
        let nis: Vec<NiIndex> =
            shard.topology().nis.iter().map(|(index, _)| index).take(query.nis_max).collect();
        let of_ni = |ni: &NiIndex| match query.since {
            Since::Start => shard.ni_latencies_total(*ni),
            Since::Reset => shard.ni_latencies(*ni).clone(),
        };
        let of_peer = |peer: &PeerInfo| {
            let latencies = match query.since {
                Since::Start => shard.peer_latencies_total(&peer.nid),
                Since::Reset => shard.peer_latencies(&peer.nid).cloned(),
            };
            Some((peer.nid, latencies.filter(|latencies| !latencies.is_empty())?))
        };
        LoopSnapshot {
            totals: *shard.stats(),
            ni_latencies: nis.iter().map(of_ni).collect(),
            peer_latencies: peers.iter().filter_map(of_peer).collect(),
            peers_known: shard.peer_count(),
            waiting: shard.waiting(),
            connections,
            selftest: self.partition.selftest_totals(),
            report: self.report_with(&nis, peers, links),
        }
    }
}

impl LoopSnapshot {
    /// The values of an interface, by its NID: interfaces may have been added or removed in the
    /// meantime.
    pub(crate) fn latencies_of(&self, nid: &Nid) -> Option<&Latencies> {
        let place = self.report.nis.iter().position(|ni| ni.nid == *nid)?;
        self.ni_latencies.get(place)
    }
}

impl NodeHandle {
    /// Queries all loops.
    pub(crate) fn snapshots(&self, query: SnapshotQuery) -> Result<Vec<LoopSnapshot>, CallError> {
        let (reply, answers) = mpsc::channel();
        for sender in self.loops.iter() {
            let message = LoopMessage::Snapshot(query, reply.clone());
            sender.push(message).map_err(|_| CallError::NotResponding)?;
        }
        drop(reply);
        let deadline = Instant::now() + REPORT_TIMEOUT;
        let mut snapshots = Vec::new();
        while snapshots.len() < self.loops.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            snapshots.push(answers.recv_timeout(left).map_err(|_| CallError::NotResponding)?);
        }
        snapshots.sort_by_key(|snapshot: &LoopSnapshot| snapshot.report.cpt);
        Ok(snapshots)
    }

    /// Whether latencies are measured at all.
    pub(crate) fn takes_latencies(&self) -> bool {
        self.info().tunables.lnet.latency_peers > 0
    }
}
