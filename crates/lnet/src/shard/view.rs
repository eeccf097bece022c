//! What a node shows of itself: interfaces and peers, for `lustrine show`.

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
    /// Send credits of this CPU partition's share.
    pub credits: u32,
    /// Free ones, or minus the number of messages waiting.
    pub credits_available: i64,
    /// Lowest value seen.
    pub credits_low: i64,
    /// Messages since the counters were last reset.
    pub counters: MessageCounters,
    /// Messages since it is there.
    pub total: MessageCounters,
    /// How long operations by it took, since the counters were last reset.
    pub latency: Summaries,
}

/// Messages that wait for credits now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// For one of their peer NID.
    pub peer_credits: u64,
    /// For one of the interface; these hold one of their peer NID.
    pub ni_credits: u64,
}

/// How much is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It was never asked, or must be asked again.
    Unknown,
    /// It is being asked, or told about us.
    Discovering,
    /// Messages may flow.
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
    /// An administrator described it, and said whether it is multi-rail.
    pub configured: Option<bool>,
    /// Whether connections are open.
    pub linked: bool,
    /// Send credits to this NID.
    pub credits: u32,
    /// Free ones, or minus the number of messages waiting.
    pub credits_available: i64,
    /// Lowest value seen.
    pub credits_low: i64,
    /// Messages since the counters were last reset.
    pub counters: MessageCounters,
    /// Messages since it is known.
    pub total: MessageCounters,
    /// How long operations with it took, since the counters were last reset.
    pub latency: Summaries,
}

impl Shard {
    /// How many messages wait for credits.
    pub fn waiting(&self) -> Waiting {
        let ni_credits = self.nis.iter().map(|ni| ni.credits.waiting() as u64).sum();
        Waiting { peer_credits: self.peer_waiting, ni_credits }
    }

    /// How many descriptors await an answer: the ACK of a PUT, or the REPLY to a GET.
    pub fn pending_answers(&self) -> usize {
        self.awaited
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

    /// How long operations by an interface took since the counters were last reset.
    pub fn ni_latencies(&self, ni: NiIndex) -> &Latencies {
        &self.nis[usize::from(ni.0)].latencies
    }

    /// How long they took since the interface is there.
    pub fn ni_latencies_total(&self, ni: NiIndex) -> Latencies {
        let state = &self.nis[usize::from(ni.0)];
        state.before.latencies(Some(&state.latencies))
    }

    /// How long operations with a peer NID took since the counters were last reset; `None` when
    /// none was timed since it is known.
    pub fn peer_latencies(&self, nid: &Nid) -> Option<&Latencies> {
        self.peers.peek(nid)?.latencies.as_deref()
    }

    /// How long they took since it is known.
    pub fn peer_latencies_total(&self, nid: &Nid) -> Option<Latencies> {
        let ni = self.peers.peek(nid)?;
        // It keeps its place among those with latencies when they are reset.
        ni.latencies.as_deref().map(|since| ni.before.latencies(Some(since)))
    }

    /// How many peer NIDs are known.
    pub fn peer_count(&self) -> usize {
        self.peers.nis.len()
    }

    /// The peer NIDs with most messages in total, at most so many, in no particular order.
    pub fn busiest_peers(&self, most: usize) -> Vec<PeerInfo> {
        self.most_of(most, |ni| ni.before.counters(&ni.counters))
    }

    /// The same by messages since the counters were last reset.
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
        let told = |ni: &PeerNi| info(ni, &self.peers.peers[ni.peer]);
        ranked.into_iter().map(|(_, _, key)| told(known(key))).collect()
    }

    /// One peer NID, if it is known.
    pub fn peer(&self, nid: &Nid) -> Option<PeerInfo> {
        self.peers.peek(nid).map(|ni| info(ni, &self.peers.peers[ni.peer]))
    }

    /// Messages received from a NID so far: whoever awaits something of it sees there whether it
    /// is alive at all. 0 when it is not known, and anew after the table of peers forgot it.
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
        nids: peer.nids.iter().filter(|told| told.mine).map(|told| (told.nid, told.up)).collect(),
        features: peer.features,
        state: match peer.phase {
            Phase::Unknown => PeerState::Unknown,
            Phase::Pinging { .. } | Phase::Pushing { .. } => PeerState::Discovering,
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
