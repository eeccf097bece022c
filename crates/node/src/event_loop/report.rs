//! What a loop reports about itself.

use std::collections::{HashMap, HashSet};

use lustrine_lnet::driver_report::DriverPeer;
use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::shard::PeerInfo;
use lustrine_partition::{Driver, DriverOn};
use lustrine_selftest::PeerWindow;
use lustrine_wire::nid::Nid;

use super::EventLoop;
use crate::snapshot::{
    LoopConns, LoopReport, LoopSnapshot, Since, SnapshotPeers, SnapshotQuery, Window,
};

/// Most connections of a loop in one answer: each one is a call of the system.
const CONNS_MAX: usize = 1024;

impl EventLoop {
    pub(super) fn report(&self) -> LoopReport {
        let (shard, driver) = (self.partition.shard(), self.partition.driver());
        let nis: Vec<NiIndex> = shard.topology().nis.iter().map(|(index, _)| index).collect();
        self.report_with(&nis, shard.peers().collect(), driver.peer_rows().collect())
    }

    fn report_with(
        &self,
        nis: &[NiIndex],
        peers: Vec<PeerInfo>,
        links: Vec<DriverPeer>,
    ) -> LoopReport {
        let (shard, driver) = (self.partition.shard(), self.partition.driver());
        LoopReport {
            cpt: self.cpt,
            nis: nis.iter().map(|ni| shard.ni_info(*ni)).collect(),
            windows: self.windows(&peers),
            peers,
            links,
            stats: shard.stats_since_reset(),
            driver: driver.counter_rows(),
            connections: self.io.open,
            memory_mapped: self.io.memory_mapped(),
        }
    }

    /// What selftest may have in flight to these peers, those that it is loading only.
    fn windows(&self, peers: &[PeerInfo]) -> HashMap<Nid, Window> {
        let mut windows: HashMap<Nid, Window> = HashMap::new();
        for PeerWindow { peer, bytes, in_flight } in self.partition.windows_in_use() {
            let all = windows.entry(peer).or_default();
            all.bytes = all.bytes.saturating_add(bytes);
            all.in_flight = all.in_flight.saturating_add(in_flight);
        }
        if !windows.is_empty() {
            let listed: HashSet<Nid> = peers.iter().map(|peer| peer.nid).collect();
            windows.retain(|peer, _| listed.contains(peer));
        }
        windows
    }

    pub(super) fn conns(&self, only: Option<Nid>) -> LoopConns {
        let (shard, driver) = (self.partition.shard(), self.partition.driver());
        let (rows, all) = driver.conn_rows(&self.io, only, CONNS_MAX);
        let left_out = all - rows.len();
        let rows = rows.into_iter().map(|row| (shard.ni_info(row.ni).nid, row)).collect();
        LoopConns { cpt: self.cpt, rows, left_out }
    }

    pub(super) fn snapshot(&self, query: SnapshotQuery) -> LoopSnapshot {
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
