//! Pushes of others: what follows from a peer's word about itself that nobody asked for.

use lustrine_wire::header::Header;
use lustrine_wire::nid::{Nid, PID_USERLAND};
use lustrine_wire::ping::{DEFAULT_BUFFER_LEN, Features, PingError, PingInfo};

use crate::event::Event;
use crate::lnd::Arrival;
use crate::memory::{Memory, Span};
use crate::peer::{MergeOutcome, PeerKey, Phase, Round};
use crate::shard::Shard;
use crate::time::Time;
use crate::topology::Identity;

impl Shard {
    /// Whether a push may be received: not beyond any legal size, one per peer at a time, and of
    /// the peer that brings it: others do not speak for it.
    pub(in crate::shard) fn admits_push(&mut self, arrival: &Arrival, header: &Header) -> bool {
        let Some(key) = self.peers.find(&arrival.from.nid) else { return false };
        header.src.nid == arrival.from.nid
            && !self.peers.nis[key].pushing
            && header.payload_len <= self.info_len_max()
    }

    /// Largest ping information we take: short and long entries for every interface allowed.
    pub(super) fn info_len_max(&self) -> u32 {
        64 + 40 * self.topology.tunables.max_interfaces as u32
    }

    /// Somebody told us about itself (wire 6.3). Answers with the buffer for the next one: a
    /// larger one when this push did not fit.
    pub(super) fn push_arrived(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        event: &Event,
        span: Span,
    ) -> Span {
        let mut bytes = vec![0; event.moved.min(span.len) as usize];
        memory.read(span, &mut bytes);
        let limit = self.topology.tunables.max_interfaces as u32;
        let parsed = PingInfo::parse_limited(&bytes, limit);
        if let Some(peer_ni) = self.peers.find(&event.peer.nid) {
            // A renamed userland process speaks for itself, not for the node at its address.
            let userland = event.peer.pid & PID_USERLAND != 0;
            let key = match userland {
                true => self.peers.peer_of(peer_ni),
                false => self.peers.separate(peer_ni),
            };
            match &parsed {
                Ok(info) if info.features().contains(Features::MULTI_RAIL) => {
                    self.take_push(now, memory, key, info, event.peer.nid, userland);
                }
                Ok(_) => {}
                Err(_) if userland => {}
                Err(_) => self.force_round(now, memory, key, event.peer.nid),
            }
        }
        let room = match parsed {
            Err(PingError::Truncated { announced, .. }) => {
                (announced as u32).min(self.info_len_max())
            }
            _ => DEFAULT_BUFFER_LEN as u32,
        };
        if room <= span.len {
            return span;
        }
        // Without memory for a larger one the old one goes on.
        let Some(larger) = memory.alloc(room) else { return span };
        memory.free(span);
        larger
    }

    fn take_push(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        info: &PingInfo<'_>,
        contact: Nid,
        userland: bool,
    ) {
        let peer = &mut self.peers.peers[key];
        if userland {
            peer.features.get_or_insert(info.features().bits());
            return;
        }
        let told = Features::from_bits_retain(peer.features.unwrap_or(0));
        let withdrawn =
            told.contains(Features::DISCOVERY) && !info.features().contains(Features::DISCOVERY);
        let Some(learned) = self.learn(now, memory, contact, info) else { return };
        let peer = &mut self.peers.peers[learned.peer];
        if withdrawn && matches!(peer.phase, Phase::Unknown | Phase::Ready) {
            // It is forgotten and made anew; its next push finds the new one ([PING-13]).
            peer.contact = contact;
            peer.features = None;
            peer.confirmed = None;
            peer.phase = Phase::Unknown;
        } else {
            self.has_spoken(now, memory, &learned, contact);
        }
    }

    /// A peer has told us about itself without a round of ours: it shall know of us too before
    /// messages may flow, or while they do (wire 6.3, 6.4). Not before a claim it makes is decided:
    /// the peer it turns out to belong to mostly knows.
    pub(super) fn has_spoken(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        learned: &MergeOutcome,
        contact: Nid,
    ) {
        if learned.conflicting.is_some() {
            return;
        }
        let key = learned.peer;
        let must_push = self.must_push(key);
        let peer = &mut self.peers.peers[key];
        match peer.phase {
            Phase::Pinging { .. } | Phase::Pushing { .. } => {}
            Phase::Ready if must_push => self.tell(now, memory, key, contact),
            Phase::Ready => {}
            Phase::Unknown if must_push => {
                peer.contact = contact;
                peer.wanted = Some(Round::Tell);
                self.undecided.push_back(key);
            }
            Phase::Unknown => {
                peer.contact = contact;
                if peer.wanted.is_none() {
                    peer.phase = Phase::Ready;
                    self.release(now, key);
                }
            }
        }
    }

    /// What a peer pushed made no sense or was cut: ask it. Messages that flow go on: whoever
    /// sends garbage and then keeps silent must not stop them.
    fn force_round(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey, from: Nid) {
        let node = self.topology.identity == Identity::Node;
        match self.peers.peers[key].phase {
            Phase::Ready if node => self.check_by(now, memory, key, from),
            Phase::Unknown | Phase::Ready => self.ask(key, from),
            Phase::Pinging { .. } | Phase::Pushing { .. } => {}
        }
    }
}
