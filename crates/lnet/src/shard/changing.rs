//! Changes to a node that runs: settings, interfaces, peers, counters.
//!
//! Each is done whole between two turns of the loop. What must end for it ends with a final event
//! like everything else.

use lustrine_wire::nid::{Net, Nid};

use super::{NiState, Shard};
use crate::credits::Credits;
use crate::latency::Latencies;
use crate::lnd::{NiIndex, OpKey};
use crate::md::MdKey;
use crate::memory::Memory;
use crate::peer::{ConfiguredPeer, PeerKey, Phase};
use crate::stats::{MessageCounters, Stats};
use crate::status::Status;
use crate::time::{Nanos, Time};
use crate::topology::{Ni, Topology, home_of};
use crate::totals::CounterBaseline;
use crate::tunables::Tunables;

/// A change could not be made, for a table or memory is full; nothing was changed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTableFull;

impl Shard {
    /// Other values are in force for everything that begins from now on; what is under way keeps
    /// its deadlines.
    pub fn set_tunables(&mut self, now: Time, memory: &mut impl Memory, tunables: Tunables) {
        let wanted = self.wants_discovery();
        self.topology.tunables = tunables;
        let seconds = self.topology.tunables.message_timeout() as u64;
        self.message_timeout = Nanos::from_secs(seconds);
        if self.wants_discovery() != wanted {
            self.publish_anew(now, memory);
        }
    }

    /// What tools show counts from here on; what is alive now stays counted. Totals go on:
    /// [`Shard::stats`], those of [`NiInfo`](super::NiInfo) and [`PeerInfo`](super::PeerInfo),
    /// [`Shard::ni_latencies_total`] and [`Shard::peer_latencies_total`].
    pub fn reset_stats(&mut self) {
        self.stats.msgs_max = self.stats.msgs_alloc;
        self.counted_before = self.stats;
        for ni in &mut self.nis {
            ni.before.take_over(&mut ni.counters, Some(&mut ni.latencies));
        }
        for ni in self.peers.nis.values_mut() {
            ni.before.take_over(&mut ni.counters, ni.latencies.as_deref_mut());
        }
    }

    /// Counters since they were last reset.
    pub fn stats_since_reset(&self) -> Stats {
        self.stats.since(&self.counted_before)
    }

    /// Takes in what an administrator says of a peer; on a partition where none of its NIDs is at
    /// home there is nothing to do.
    ///
    /// # Errors
    /// When the table of peers is full of others that are in use.
    pub fn configure_peer(
        &mut self,
        now: Time,
        configured: &ConfiguredPeer,
    ) -> Result<(), PeerTableFull> {
        let Topology { cpt, cpts, .. } = self.topology;
        let topology = &self.topology;
        let credits = |nid: &Nid| topology.peer_credits_on(nid.net());
        let lives_here = |nid: &Nid| home_of(nid, cpts) == cpt;
        let described = self.peers.configure(now, configured, lives_here, credits);
        let Some(described) = described.map_err(|_| PeerTableFull)? else { return Ok(()) };
        for ni in described.stranded {
            let (key, nid) = (self.peers.nis[ni].peer, self.peers.nis[ni].nid);
            self.ask(key, nid);
        }
        self.carry_on(now, described.peer);
        Ok(())
    }

    /// Takes descriptions back, by primary NID: what is known of these peers counts from here on as
    /// if they had said it themselves. Nothing that is under way ends.
    pub fn unconfigure_peers(&mut self, primaries: &[Nid]) {
        for primary in primaries {
            self.peers.unconfigure(primary);
        }
    }

    /// Ends what waits here for these NIDs of others, and what they should have answered. The
    /// driver is to close their connections next; then [`Shard::finish_nid_removal`] forgets them.
    pub fn begin_nid_removal(&mut self, now: Time, nids: &[Nid]) {
        let mut here: Vec<_> = nids.iter().filter_map(|nid| self.peers.find(nid)).collect();
        here.sort_unstable();
        let of_them =
            |peer_ni: Option<_>| peer_ni.is_some_and(|ni| here.binary_search(&ni).is_ok());
        let waiting = self.msgs.iter().filter(|(_, msg)| of_them(msg.peer_ni) && msg.stage.waits());
        let waiting: Vec<OpKey> = waiting.map(|(op, _)| op).collect();
        self.end_waiting(now, waiting, Status::ConnectionLost);
        let mut awaited: Vec<MdKey> =
            here.iter().flat_map(|ni| self.awaiting_answers_of(*ni)).collect();
        awaited.sort_unstable();
        for md in awaited {
            self.abort_md(now, md, Status::ConnectionLost);
        }
    }

    /// Forgets these NIDs of others.
    pub fn finish_nid_removal(&mut self, nids: &[Nid]) {
        for nid in nids {
            self.peers.strike(nid);
        }
    }

    /// One more interface; its index. Peers are told.
    ///
    /// # Panics
    /// When there are 65,536 already.
    pub fn add_ni(&mut self, now: Time, memory: &mut impl Memory, ni: Ni) -> NiIndex {
        let (state, net) = (NiState::new(&ni), ni.nid.net());
        let index = self.topology.nis.push(ni);
        match self.nis.get_mut(usize::from(index.0)) {
            Some(place) => *place = state,
            None => self.nis.push(state),
        }
        self.grant_anew(net);
        self.publish_anew(now, memory);
        index
    }

    /// Takes an interface away: what waits to leave by it ends, and what was asked by it and not
    /// answered. The driver is to close its connections next; then [`Shard::finish_ni_removal`].
    pub fn begin_ni_removal(&mut self, now: Time, index: NiIndex) {
        let net = self.topology.ni(index).nid.net();
        self.topology.nis.remove(index);
        let waiting = self.msgs.iter().filter(|(_, msg)| msg.ni == index && msg.stage.waits());
        let waiting: Vec<OpKey> = waiting.map(|(op, _)| op).collect();
        self.end_waiting(now, waiting, Status::Unreachable);
        let awaited = self
            .mds
            .iter()
            .filter(|(_, state)| state.answer_by != Time::NEVER && state.left_by == Some(index));
        let awaited: Vec<MdKey> = awaited.map(|(md, _)| md).collect();
        for md in awaited {
            self.abort_md(now, md, Status::Unreachable);
        }
        self.grant_anew(net);
    }

    /// The driver has closed everything of an interface. Peers are told that it is gone.
    ///
    /// # Panics
    /// When messages still hold credits of it.
    pub fn finish_ni_removal(&mut self, now: Time, memory: &mut impl Memory, index: NiIndex) {
        let state = &self.nis[usize::from(index.0)];
        assert!(state.credits.idle(), "credits of a removed interface are out");
        self.publish_anew(now, memory);
    }

    /// Peers on a network get the credits of the interface that is the first one there now; those
    /// with messages under way, when these are over.
    fn grant_anew(&mut self, net: Net) {
        let credits = self.topology.peer_credits_on(net);
        for ni in self.peers.nis.values_mut().filter(|ni| ni.nid.net() == net) {
            ni.credits.resize(credits);
        }
    }

    fn end_waiting(&mut self, now: Time, waiting: Vec<OpKey>, status: Status) {
        for op in waiting {
            // Ending one may wake, and end, others of the list.
            if self.msgs.get(op).is_some_and(|msg| msg.stage.waits()) {
                self.retire(now, op, status);
            }
        }
    }

    /// What this node says of itself has changed: those who ask get it, and those who were told
    /// are told again (wire 6.3, 6.4).
    fn publish_anew(&mut self, now: Time, memory: &mut impl Memory) {
        self.republish(now, memory);
        let told = |key: &PeerKey| {
            let peer = &self.peers.peers[*key];
            peer.phase == Phase::Ready && peer.confirmed.is_some()
        };
        let told: Vec<PeerKey> = self.peers.peers.keys().filter(told).collect();
        for key in told {
            let contact = self.peers.contact_nid(key);
            self.tell(now, memory, key, contact);
        }
    }
}

impl NiState {
    pub(super) fn new(ni: &Ni) -> NiState {
        NiState {
            credits: Credits::new(ni.credits),
            sequence: 0,
            counters: MessageCounters::default(),
            latencies: Latencies::default(),
            before: CounterBaseline::default(),
        }
    }
}
