//! Pushes of other nodes ([PING-13]).

use lustrine_wire::header::Header;
use lustrine_wire::nid::{Nid, PID_USERLAND};
use lustrine_wire::ping::{DEFAULT_BUFFER_LEN, Features, PingError, PingInfo};

use super::PUSH_BUFFERS;
use crate::event::Event;
use crate::lnd::Arrival;
use crate::memory::{Memory, Span};
use crate::peer::{MergeOutcome, PeerKey, Phase, Round};
use crate::shard::Shard;
use crate::time::Time;
use crate::topology::Identity;

impl Shard {
    /// Whether a push is accepted: within the legal size, and only over a connection of the NID
    /// that it names as its source ([PING-25]).
    pub(in crate::shard) fn admits_push(&self, arrival: &Arrival, header: &Header) -> bool {
        header.src.nid == arrival.from.nid && header.payload_len <= self.info_len_max()
    }

    /// Largest ping information that is accepted, in bytes: short and long entries for
    /// `max_interfaces` NIDs.
    pub(super) fn info_len_max(&self) -> u32 {
        64 + 40 * self.topology.tunables.max_interfaces as u32
    }

    /// Applies a push ([PING-13]). Returns the buffer for the next one, which is larger when this
    /// push did not fit.
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
            // A userland process is not the node at its address.
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
        if room <= span.len || self.discovery.ping.long_pushes() >= PUSH_BUFFERS {
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
        let reported = Features::from_bits_retain(peer.features.unwrap_or(0));
        let withdrawn = reported.contains(Features::DISCOVERY)
            && !info.features().contains(Features::DISCOVERY);
        let Some(learned) = self.learn(now, memory, contact, info) else { return };
        let peer = &mut self.peers.peers[learned.peer];
        if withdrawn && matches!(peer.phase, Phase::Unknown | Phase::Ready) {
            // The peer is created again ([PING-22]).
            peer.contact = contact;
            peer.features = None;
            peer.confirmed = None;
            peer.phase = Phase::Unknown;
        } else {
            self.on_unsolicited_info(now, memory, &learned, contact);
        }
    }

    /// Pushes to a peer that has sent its information outside of a round, before messages are sent
    /// to it or while they are ([PING-24]). Not while a claim of it is undecided: the peer that it
    /// may belong to mostly has our information already.
    pub(super) fn on_unsolicited_info(
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
            Phase::Pinging { .. } | Phase::Pushing { .. } | Phase::Pausing { .. } => {}
            Phase::Ready if must_push => self.push_update(now, memory, key, contact),
            Phase::Ready => {}
            Phase::Unknown if must_push => {
                peer.contact = contact;
                peer.wanted = Some(Round::Push);
                self.discovery.wanted.push_back(key);
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

    /// Pings a peer whose push was invalid or cut. Messages to a peer that is ready are sent
    /// meanwhile: an invalid push must not stop them ([PING-24]).
    fn force_round(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey, from: Nid) {
        let node = self.topology.identity == Identity::Node;
        match self.peers.peers[key].phase {
            Phase::Ready if node => self.recheck_by(now, memory, key, from),
            Phase::Unknown | Phase::Ready => self.request_round(key, from),
            Phase::Pinging { .. } | Phase::Pushing { .. } | Phase::Pausing { .. } => {}
        }
    }
}
