//! State of interfaces and peers, for tools.

use core::cmp::Reverse;

use lustrine_wire::nid::Nid;

use super::Shard;
use crate::latency::{Latencies, Summaries};
use crate::lnd::NiIndex;
use crate::peer::{Peer, PeerNi, Phase};
use crate::stats::MessageCounters;
use crate::status::Status;

/// A local interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiInfo {
    /// Its NID.
    pub nid: Nid,
    /// This CPU partition's share of the send credits.
    pub credits: u32,
    /// Free credits, or minus the number of messages that wait.
    pub credits_available: i64,
    /// Lowest value of the free credits so far.
    pub credits_low: i64,
    /// Messages since the last reset of the counters.
    pub counters: MessageCounters,
    /// Messages since the interface was added.
    pub total: MessageCounters,
    /// Latencies of operations by it, since the last reset of the counters.
    pub latency: Summaries,
}

/// Messages that wait for credits now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Messages that wait for a credit of their peer NID.
    pub peer_credits: u64,
    /// Messages that wait for a credit of the interface; they hold one of their peer NID.
    pub ni_credits: u64,
}

/// State of a peer's discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It is discovered before the next message to it.
    Unknown,
    /// A discovery is under way.
    Discovering,
    /// Messages can be sent.
    Ready,
}

/// A remote NID and what is known of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The remote NID.
    pub nid: Nid,
    /// Its node's primary NID.
    pub primary: Nid,
    /// Its node's NIDs and whether they are up, from its last ping information; without those
    /// that belong to another peer.
    pub nids: Vec<(Nid, bool)>,
    /// Feature bits of its last ping information; `None` before the first.
    pub features: Option<u32>,
    /// Discovery state.
    pub state: PeerState,
    /// Rounds of discovery that have ended.
    pub rounds: u64,
    /// How the last round ended.
    pub outcome: Status,
    /// Whether it is multi-rail, if an administrator configured it.
    pub configured: Option<bool>,
    /// Whether connections are open.
    pub linked: bool,
    /// Send credits to this NID.
    pub credits: u32,
    /// Free credits, or minus the number of messages that wait.
    pub credits_available: i64,
    /// Lowest value of the free credits so far.
    pub credits_low: i64,
    /// Messages since the last reset of the counters.
    pub counters: MessageCounters,
    /// Messages since it is in the table.
    pub total: MessageCounters,
    /// Latencies of operations with it, since the last reset of the counters.
    pub latency: Summaries,
}

impl Shard {
    /// Numbers of messages that wait for credits.
    pub fn waiting(&self) -> Waiting {
        let ni_credits = self.nis.iter().map(|ni| ni.credits.waiting() as u64).sum();
        Waiting { peer_credits: self.msgs.peer_waiting, ni_credits }
    }

    /// Number of descriptors that await an answer: the ACK of a PUT, or the REPLY to a GET.
    pub fn pending_answers(&self) -> usize {
        self.answers.awaited()
    }

    /// One interface.
    pub fn ni_info(&self, ni: NiIndex) -> NiInfo {
        let state = &self.nis[usize::from(ni.0)];
        NiInfo {
            nid: self.topology.ni(ni).nid,
            credits: state.credits.max(),
            credits_available: state.credits.available(),
            credits_low: state.credits.low(),
            counters: state.counters,
            total: state.before.counters(&state.counters),
            latency: state.latencies.summaries(),
        }
    }

    /// Latencies of operations by an interface since the last reset of the counters.
    pub fn ni_latencies(&self, ni: NiIndex) -> &Latencies {
        &self.nis[usize::from(ni.0)].latencies
    }

    /// Latencies of operations by an interface since it was added.
    pub fn ni_latencies_total(&self, ni: NiIndex) -> Latencies {
        let state = &self.nis[usize::from(ni.0)];
        state.before.latencies(Some(&state.latencies))
    }

    /// Latencies of operations with a peer NID since the last reset of the counters; `None` when
    /// none was measured since it is in the table.
    pub fn peer_latencies(&self, nid: &Nid) -> Option<&Latencies> {
        self.peers.peek(nid)?.latencies.as_deref()
    }

    /// Latencies of operations with a peer NID since it is in the table.
    pub fn peer_latencies_total(&self, nid: &Nid) -> Option<Latencies> {
        let ni = self.peers.peek(nid)?;
        // It keeps its place among those with latencies when they are reset.
        ni.latencies.as_deref().map(|since| ni.before.latencies(Some(since)))
    }

    /// Number of peer NIDs in the table.
    pub fn peer_count(&self) -> usize {
        self.peers.nis.len()
    }

    /// The peer NIDs with most messages in total, at most `most`, in no particular order.
    pub fn busiest_peers(&self, most: usize) -> Vec<PeerInfo> {
        self.most_of(most, |ni| ni.before.counters(&ni.counters))
    }

    /// The same by messages since the last reset of the counters.
    pub fn busiest_peers_since_reset(&self, most: usize) -> Vec<PeerInfo> {
        self.most_of(most, |ni| ni.counters)
    }

    fn most_of(&self, most: usize, of: impl Fn(&PeerNi) -> MessageCounters) -> Vec<PeerInfo> {
        let traffic = |ni: &PeerNi| {
            let counters = of(ni);
            counters.sent + counters.received
        };
        let entries = self.peers.nis.iter();
        let mut ranked: Vec<_> =
            entries.map(|(key, ni)| (Reverse(traffic(ni)), ni.nid, key)).collect();
        if most < ranked.len() {
            ranked.select_nth_unstable(most);
            ranked.truncate(most);
        }
        let known = |key| &self.peers.nis[key];
        let row = |ni: &PeerNi| info(ni, &self.peers.peers[ni.peer]);
        ranked.into_iter().map(|(_, _, key)| row(known(key))).collect()
    }

    /// One peer NID, if it is in the table.
    pub fn peer(&self, nid: &Nid) -> Option<PeerInfo> {
        self.peers.peek(nid).map(|ni| info(ni, &self.peers.peers[ni.peer]))
    }

    /// Whether the node of `nid` has the NID `other` too, by the last ping information that it gave
    /// of itself ([PING-23]).
    pub fn is_nid_of(&self, nid: &Nid, other: &Nid) -> bool {
        self.peers.owner(nid).is_some_and(|peer| self.peers.confirms(peer, other))
    }

    /// Number of messages received from a NID: shows a user that awaits something whether the peer
    /// is alive. 0 when it is not in the table, and counted from 0 after it was evicted.
    pub fn received_from(&self, nid: &Nid) -> u64 {
        self.peers.peek(nid).map_or(0, |ni| ni.before.counters(&ni.counters).received)
    }

    /// All peer NIDs, in no particular order.
    pub fn peers(&self) -> impl Iterator<Item = PeerInfo> + '_ {
        self.peers.nis.values().map(|ni| info(ni, &self.peers.peers[ni.peer]))
    }
}

fn info(ni: &PeerNi, peer: &Peer) -> PeerInfo {
    PeerInfo {
        nid: ni.nid,
        primary: peer.primary,
        nids: peer
            .nids
            .iter()
            .filter(|entry| entry.mine)
            .map(|entry| (entry.nid, entry.up))
            .collect(),
        features: peer.features,
        state: match peer.phase {
            Phase::Unknown => PeerState::Unknown,
            Phase::Pinging { .. } | Phase::Pushing { .. } | Phase::Pausing { .. } => {
                PeerState::Discovering
            }
            Phase::Ready => PeerState::Ready,
        },
        rounds: peer.rounds,
        outcome: peer.outcome,
        configured: peer.configured,
        linked: ni.linked(),
        credits: ni.credits.max(),
        credits_available: ni.credits.available(),
        credits_low: ni.credits.low(),
        counters: ni.counters,
        total: ni.before.counters(&ni.counters),
        latency: ni.latencies.as_ref().map(|some| some.summaries()).unwrap_or_default(),
    }
}
