//! Changes of a running node: tunables, interfaces, peers, counters.
//!
//! Each is made completely between two turns of the loop. Operations that a change ends have their
//! final event like all others.

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

/// The change was not made, as the table of peers is full of peers in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTableFull;

impl Shard {
    /// Changes the tunables, for everything that begins from now on. What is in flight keeps its
    /// deadlines.
    pub fn set_tunables(&mut self, now: Time, memory: &mut impl Memory, tunables: Tunables) {
        let wanted = self.wants_discovery();
        self.topology.tunables = tunables;
        let seconds = self.topology.tunables.message_timeout() as u64;
        self.msgs.set_timeout(Nanos::from_secs(seconds));
        if self.wants_discovery() != wanted {
            self.publish_again(now, memory);
        }
    }

    /// Resets the counters that tools show; messages that are alive stay counted. Totals are not
    /// reset: [`Shard::stats`], those of [`NiInfo`](super::NiInfo) and
    /// [`PeerInfo`](super::PeerInfo), [`Shard::ni_latencies_total`] and
    /// [`Shard::peer_latencies_total`].
    pub fn reset_stats(&mut self) {
        self.telemetry.reset();
        for ni in &mut self.nis {
            ni.before.take_over(&mut ni.counters, Some(&mut ni.latencies));
        }
        for ni in self.peers.nis.values_mut() {
            ni.before.take_over(&mut ni.counters, ni.latencies.as_deref_mut());
        }
    }

    /// Counters since the last reset.
    pub fn stats_since_reset(&self) -> Stats {
        self.telemetry.since_reset()
    }

    /// Adds or changes a peer that an administrator configures. A partition that is home to none of
    /// its NIDs ignores it.
    ///
    /// # Errors
    /// When the table of peers is full of peers in use.
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
            self.request_round(key, nid);
        }
        self.resume_messages(now, described.peer);
        Ok(())
    }

    /// Removes configurations, by primary NID: from now on the NIDs of these peers count as
    /// discovered. Nothing that is in flight ends.
    pub fn unconfigure_peers(&mut self, primaries: &[Nid]) {
        for primary in primaries {
            self.peers.unconfigure(primary);
        }
    }

    /// Begins to remove remote NIDs: ends messages that wait for them and answers that are awaited
    /// of them. Messages to other NIDs of a peer wait on: its discovery begins again through one of
    /// these. The driver has to close their connections next; then call
    /// [`Shard::finish_nid_removal`].
    pub fn begin_nid_removal(&mut self, now: Time, nids: &[Nid]) {
        let mut here: Vec<_> = nids.iter().filter_map(|nid| self.peers.find(nid)).collect();
        here.sort_unstable();
        let of_them =
            |peer_ni: Option<_>| peer_ni.is_some_and(|ni| here.binary_search(&ni).is_ok());
        self.interrupt_tasks_to(|ni| here.binary_search(&ni).is_ok());
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

    /// Removes remote NIDs from the table of peers, after [`Shard::begin_nid_removal`].
    pub fn finish_nid_removal(&mut self, nids: &[Nid]) {
        for nid in nids {
            self.peers.remove_nid(nid);
        }
    }

    /// Adds an interface and pushes the new ping information to peers; returns its index.
    ///
    /// # Panics
    /// When there are 65,536 interfaces already.
    pub fn add_ni(&mut self, now: Time, memory: &mut impl Memory, ni: Ni) -> NiIndex {
        let (state, net) = (NiState::new(&ni), ni.nid.net());
        let index = self.topology.nis.push(ni);
        match self.nis.get_mut(usize::from(index.0)) {
            Some(place) => *place = state,
            None => self.nis.push(state),
        }
        self.grant_anew(net);
        self.publish_again(now, memory);
        index
    }

    /// Begins to remove an interface: ends messages that wait to leave by it, and requests that
    /// left by it and are not answered; a discovery begins again over another one. The driver has
    /// to close its connections next; then call [`Shard::finish_ni_removal`].
    pub fn begin_ni_removal(&mut self, now: Time, index: NiIndex) {
        let net = self.topology.ni(index).nid.net();
        self.topology.nis.remove(index);
        self.interrupt_tasks_by(index);
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

    /// Finishes the removal of an interface whose connections the driver has closed, and pushes the
    /// new ping information to peers.
    ///
    /// # Panics
    /// When messages still hold credits of it.
    pub fn finish_ni_removal(&mut self, now: Time, memory: &mut impl Memory, index: NiIndex) {
        let state = &self.nis[usize::from(index.0)];
        assert!(state.credits.idle(), "credits of a removed interface are out");
        self.publish_again(now, memory);
    }

    /// Gives the peers on a network the credits of the first interface there, once none of their
    /// credits is held.
    fn grant_anew(&mut self, net: Net) {
        let credits = self.topology.peer_credits_on(net);
        for ni in self.peers.nis.values_mut().filter(|ni| ni.nid.net() == net) {
            ni.resize_credits(credits);
        }
    }

    fn end_waiting(&mut self, now: Time, waiting: Vec<OpKey>, status: Status) {
        for op in waiting {
            // Ending one may continue, and end, others of the list.
            if self.msgs.get(op).is_some_and(|msg| msg.stage.waits()) {
                self.retire(now, op, status);
            }
        }
    }

    /// Publishes changed ping information, and pushes it to all peers that have an older copy
    /// ([PING-16]).
    fn publish_again(&mut self, now: Time, memory: &mut impl Memory) {
        self.republish(now, memory);
        let informed = |key: &PeerKey| {
            let peer = &self.peers.peers[*key];
            peer.phase == Phase::Ready && peer.confirmed.is_some()
        };
        let informed: Vec<PeerKey> = self.peers.peers.keys().filter(informed).collect();
        for key in informed {
            let contact = self.peers.contact_nid(key);
            self.push_update(now, memory, key, contact);
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
