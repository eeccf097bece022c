//! Ping service and discovery in both roles (wire 6, lnet-core 7; userland: lab-findings F4).
//!
//! Before the first message to a peer that is not portal-0 traffic, a node pings it and, when both
//! sides want discovery, pushes its own information. A userland node pushes twice instead, with
//! DISCOVERY clear: then a kernel sends its replies over the connection we opened.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_wire::nid::{Nid, PID_ANY, PID_LUSTRE, ProcessId};
use lustrine_wire::ping::{DEFAULT_BUFFER_LEN, Features, NiStatus, PingEntry, PingInfo};

use super::Shard;
use crate::event::{Event, EventKind};
use crate::lnd::OpKey;
use crate::md::{MatchId, Md, MdKey, MdOptions, Owner, Position, Unlink};
use crate::memory::{Memory, Span};
use crate::peer::{MergeOutcome, PeerClaim, PeerKey, PeerNiKey, Phase, Round};
use crate::portal::{Laziness, MatchEntry};
use crate::status::Status;
use crate::time::Time;
use crate::topology::Identity;

mod pushed;
mod task;

pub(super) use task::PingPushTask;

/// LNet's own portal.
pub const PING_PORTAL: u32 = 0;
/// Match bits of pings and pushes (wire 6).
pub const PING_BITS: u64 = 0x8000_0000_0000_0000;

/// Pushes a userland node sends before anything else: one makes a kernel that knew us as a node
/// delete the peer, the next is taken by the new one (lab-findings, table under F5).
const USERLAND_PUSHES: u8 = 2;

/// What others find on portal 0.
#[derive(Debug)]
pub(super) struct PingTarget {
    info: Option<(MdKey, Span)>,
    /// Earlier information that is still being read.
    outdated: Vec<(MdKey, Span)>,
    /// Buffers for pushes, those that are being filled included.
    push: HashMap<MdKey, Span, FixedState>,
    sequence: u32,
    /// There was no memory for the current information: another try then.
    again: Option<Time>,
}

impl PingTarget {
    pub(super) fn new(seed: u64) -> PingTarget {
        PingTarget {
            info: None,
            outdated: Vec::new(),
            push: HashMap::with_hasher(FixedState::with_seed(seed)),
            sequence: 0,
            again: None,
        }
    }

    /// What others find is not what there is.
    pub(super) fn stale(&self) -> bool {
        self.again.is_some()
    }

    /// When to try again to mend that.
    pub(super) fn again(&self) -> Time {
        self.again.unwrap_or(Time::NEVER)
    }
}

/// Free buffers for pushes that portal 0 has at the beginning of each turn. A buffer that is being
/// filled is not free: a peer that stops in the middle of its push keeps that buffer, and a new one
/// takes its place. Since each NID sends one push at a time, at most `peers_max` buffers are in
/// use.
pub(super) const PUSH_BUFFERS: usize = 64;

impl Shard {
    /// Publishes the ping information and posts the buffer for pushes.
    pub(super) fn start_ping_service(&mut self, memory: &mut impl Memory) {
        self.set_lazy(PING_PORTAL, Laziness::Lazy).expect("portal 0 exists");
        self.ping.sequence = 1;
        self.publish(Time::ZERO, memory).expect("memory for ping information");
        self.post_push_buffers(Time::ZERO, memory);
        assert!(self.free_push_buffers() == PUSH_BUFFERS, "memory for pushes");
    }

    /// Push buffers that no payload is arriving in: all entries of portal 0 but that of the ping
    /// information.
    fn free_push_buffers(&self) -> usize {
        self.portals[PING_PORTAL as usize].len() - usize::from(self.ping.info.is_some())
    }

    /// Replaces the push buffers that are being filled. Without memory there are fewer for a while,
    /// and pushes wait on the lazy portal.
    pub(super) fn post_push_buffers(&mut self, now: Time, memory: &mut impl Memory) {
        while self.free_push_buffers() < PUSH_BUFFERS {
            let Some(span) = memory.alloc(DEFAULT_BUFFER_LEN as u32) else { return };
            self.post_push_buffer(now, span);
        }
    }

    /// What this node says of itself has changed: it has a new number, and whoever asks gets it.
    pub(super) fn republish(&mut self, now: Time, memory: &mut impl Memory) {
        if !self.ping.stale() {
            self.ping.sequence += 1;
        }
        self.ping.again = match self.publish(now, memory) {
            Ok(()) => None,
            Err(_) => Some(now + super::SCAN_INTERVAL),
        };
    }

    /// Writes the current information to fresh memory and attaches it for everybody's GETs.
    fn publish(&mut self, now: Time, memory: &mut impl Memory) -> Result<(), Status> {
        let bytes = self.own_info();
        let span = memory.alloc(bytes.len() as u32).ok_or(Status::NoMemory)?;
        memory.write(span, &bytes);
        let md = Md {
            spans: [span].into_iter().collect(),
            threshold: None,
            max_size: None,
            options: MdOptions::OP_GET | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE,
            owner: Owner::LNET,
            user: 0,
        };
        let md = self
            .attach(now, PING_PORTAL, ping_entry(Unlink::Retain), md)
            .expect("portal 0 takes wildcard entries");
        if let Some((before, span)) = self.ping.info.replace((md, span)) {
            self.ping.outdated.push((before, span));
            self.unlink(now, before);
        }
        Ok(())
    }

    fn own_info(&self) -> Vec<u8> {
        let mut features = Features::NI_STATUS | Features::RTE_DISABLED | Features::MULTI_RAIL;
        if self.wants_discovery() {
            features |= Features::DISCOVERY;
        }
        let entries: Vec<PingEntry> = self
            .topology
            .nis
            .iter()
            .map(|(_, ni)| PingEntry { nid: ni.nid, status: NiStatus::Up })
            .collect();
        let mut bytes = Vec::new();
        PingInfo::build(features, PID_LUSTRE, self.ping.sequence, &entries, &mut bytes);
        bytes
    }

    /// A userland peer cannot be dialled, so it must not ask to be discovered.
    pub(super) fn wants_discovery(&self) -> bool {
        self.topology.identity == Identity::Node && self.topology.tunables.discovery != 0
    }

    /// Posts a buffer that takes one push.
    fn post_push_buffer(&mut self, now: Time, span: Span) {
        let md = Md {
            spans: [span].into_iter().collect(),
            threshold: Some(1),
            max_size: None,
            options: MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE,
            owner: Owner::LNET,
            user: 0,
        };
        let md = self
            .attach(now, PING_PORTAL, ping_entry(Unlink::Auto), md)
            .expect("portal 0 takes wildcard entries");
        self.ping.push.insert(md, span);
    }

    /// Whether messages to this NID must wait for its peer's discovery, or for its own: what
    /// others say of it does not count.
    pub(super) fn must_discover(&self, peer_ni: PeerNiKey) -> bool {
        let ni = &self.peers.nis[peer_ni];
        ni.unverified || self.peers.peers[ni.peer].phase != Phase::Ready
    }

    pub(super) fn park_for_discovery(&mut self, peer_ni: PeerNiKey, op: OpKey) {
        let key = self.peers.separate(peer_ni);
        let ni = &mut self.peers.nis[peer_ni];
        self.lines.push_back(&mut ni.parked, op);
        let nid = ni.nid;
        if self.peers.peers[key].phase == Phase::Unknown {
            self.ask(key, nid);
        }
    }

    /// Learns (again) about a peer. [`Shard::peer`] shows when a round has ended, and how.
    ///
    /// # Errors
    /// When no interface of ours is on the peer's net, or the table of peers is full.
    pub fn discover(&mut self, now: Time, nid: &Nid) -> Result<(), Status> {
        let peer_ni = self.obtain_peer(now, nid)?;
        let key = self.peers.separate(peer_ni);
        if matches!(self.peers.peers[key].phase, Phase::Unknown | Phase::Ready) {
            self.ask(key, *nid);
        }
        Ok(())
    }

    /// What was known of a peer may be wrong: ask again before the next message.
    pub(super) fn distrust(&mut self, nid: &Nid) {
        let Some(peer_ni) = self.peers.find(nid) else { return };
        let peer = &mut self.peers.peers[self.peers.nis[peer_ni].peer];
        if peer.phase == Phase::Ready {
            peer.phase = Phase::Unknown;
            peer.confirmed = None;
        }
    }

    /// The last connection of a peer is gone, and with it every answer we waited for: LNet keeps
    /// idle connections for ever, so this is always trouble, and failing now beats a kernel's
    /// 184 s (capture b2).
    pub(super) fn link_lost(&mut self, now: Time, peer_ni: PeerNiKey, peer: ProcessId) {
        self.abandon_answers(now, peer_ni, peer, Status::ConnectionLost);
        if self.topology.identity == Identity::Userland {
            self.distrust(&peer.nid);
        }
    }

    /// Starts a peer's discovery if there is a reason to.
    pub(super) fn advance_discovery(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey) {
        let Some(peer) = self.peers.peers.get_mut(key) else { return };
        if peer.phase != Phase::Unknown {
            return;
        }
        let Some(round) = peer.wanted.take() else { return };
        let started = match (self.topology.identity, round) {
            (Identity::Node, Round::Ask) => {
                self.start_ping(now, memory, key, DEFAULT_BUFFER_LEN as u32)
            }
            (Identity::Node, Round::Tell) => self.start_push(now, memory, key, 0),
            (Identity::Userland, _) => self.start_push(now, memory, key, USERLAND_PUSHES - 1),
        };
        if let Err(status) = started {
            self.discovery_failed(now, key, status);
        }
    }

    /// An event of a descriptor of the core's own.
    pub(super) fn own_event(&mut self, now: Time, memory: &mut impl Memory, event: &Event) {
        if let Some(span) = self.ping.push.remove(&event.md) {
            let mut next = span;
            if event.kind == EventKind::Put && event.status.is_ok() {
                next = self.push_arrived(now, memory, event, span);
            }
            match self.free_push_buffers() < PUSH_BUFFERS {
                true => self.post_push_buffer(now, next),
                false => memory.free(next),
            }
            return;
        }
        if let Some(at) = self.ping.outdated.iter().position(|(md, _)| *md == event.md) {
            if event.unlinked {
                let (_, span) = self.ping.outdated.swap_remove(at);
                memory.free(span);
            }
            return;
        }
        self.errand_event(now, memory, event);
    }

    /// The peer takes pushes, wants discovery, and has an older copy of our information.
    fn must_push(&self, key: PeerKey) -> bool {
        let peer = &self.peers.peers[key];
        let both = Features::MULTI_RAIL | Features::DISCOVERY;
        let willing =
            peer.features.is_some_and(|bits| Features::from_bits_retain(bits).contains(both));
        self.wants_discovery() && willing && peer.confirmed != Some(self.ping.sequence)
    }

    /// Takes in what a NID says of its node, and asks whoever else it makes claims about. `None`:
    /// it was forgotten meanwhile.
    fn learn(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        contact: Nid,
        info: &PingInfo<'_>,
    ) -> Option<MergeOutcome> {
        let both = Features::MULTI_RAIL | Features::DISCOVERY;
        let several = self.wants_discovery() && info.features().contains(both);
        let nids: Vec<(Nid, bool)> = info
            .entries()
            .map(|entry| (entry.nid, entry.status != NiStatus::Down))
            // Nobody else is us, or everybody.
            .filter(|(nid, _)| !nid.is_any() && !self.is_local(nid))
            .filter(|(nid, _)| several || *nid == contact)
            .collect();
        if !self.wants_discovery()
            && let Some(peer) = self.peers.described(&contact)
        {
            // Only discovery changes the NIDs that an administrator gave (lnet-core 7).
            self.peers.peers[peer].features = Some(info.features().bits());
            self.peers.peers[peer].sequence = info.sequence();
            return Some(MergeOutcome { peer, conflicting: None, stranded: Default::default() });
        }
        let named = info.primary().filter(|nid| nids.iter().any(|(listed, _)| listed == nid));
        let primary = named.unwrap_or(contact);
        let learned = self.peers.learn(PeerClaim { contact, primary, nids: &nids })?;
        let peer = &mut self.peers.peers[learned.peer];
        peer.features = Some(info.features().bits());
        peer.sequence = info.sequence();
        for ni in learned.stranded.iter().copied() {
            let (key, nid) = (self.peers.nis[ni].peer, self.peers.nis[ni].nid);
            self.ask(key, nid);
        }
        if let Some(conflicting) = learned.conflicting {
            self.check(now, memory, conflicting);
        }
        self.carry_on(now, learned.peer);
        Some(learned)
    }

    /// Messages may have come to a peer with NIDs of another one: they go on too.
    pub(super) fn carry_on(&mut self, now: Time, key: PeerKey) {
        let peer = &self.peers.peers[key];
        if peer.phase == Phase::Ready {
            self.release(now, key);
        } else if peer.settled() {
            let mut members = peer.members.iter().map(|ni| &self.peers.nis[*ni]);
            if let Some(waiting) = members.find(|ni| !ni.parked.is_empty()) {
                self.ask(key, waiting.nid);
            }
        }
    }

    /// A round of discovery shall begin.
    pub(super) fn ask(&mut self, key: PeerKey, contact: Nid) {
        let peer = &mut self.peers.peers[key];
        peer.phase = Phase::Unknown;
        peer.contact = contact;
        peer.wanted = Some(Round::Ask);
        self.undecided.push_back(key);
    }

    /// The primary NID of the peer a NID belongs to, as far as is known now. With
    /// `lock_prim_nid` it stays the peer's primary NID from now on, and the peer in the table of
    /// peers (lnet-core 7). It is for a file system, which knows its servers by this name; pings,
    /// discoveries and the selftest do not lock, and nothing else is built on the node yet.
    ///
    /// # Errors
    /// When no interface of ours is on the peer's net, or the table of peers is full.
    pub fn primary_nid(&mut self, now: Time, nid: &Nid) -> Result<Nid, Status> {
        let peer_ni = self.obtain_peer(now, nid)?;
        let key = self.peers.separate(peer_ni);
        let peer = &mut self.peers.peers[key];
        peer.locked |= self.topology.tunables.lock_prim_nid != 0;
        Ok(peer.primary)
    }

    fn obtain_peer(&mut self, now: Time, nid: &Nid) -> Result<PeerNiKey, Status> {
        let ni = self.topology.ni_on(nid.net()).ok_or(Status::Unreachable)?;
        let max = || self.topology.ni(ni).peer_credits;
        self.peers.obtain(now, nid, max).ok_or(Status::NoMemory)
    }

    /// Messages may flow.
    fn discovered(&mut self, now: Time, key: PeerKey, outcome: Status) {
        let peer = &mut self.peers.peers[key];
        peer.phase = Phase::Ready;
        peer.wanted = None;
        peer.rounds += 1;
        peer.outcome = outcome;
        self.release(now, key);
    }

    /// Messages that waited for a peer's discovery go on.
    fn release(&mut self, now: Time, key: PeerKey) {
        for ni in self.peers.peers[key].members.clone() {
            while let Some(op) = self.lines.pop_front(&mut self.peers.nis[ni].parked) {
                self.take_credits(now, op);
            }
        }
    }

    fn discovery_failed(&mut self, now: Time, key: PeerKey, status: Status) {
        let peer = &mut self.peers.peers[key];
        peer.phase = Phase::Unknown;
        peer.rounds += 1;
        peer.outcome = status;
        for ni in self.peers.peers[key].members.clone() {
            while let Some(op) = self.lines.pop_front(&mut self.peers.nis[ni].parked) {
                self.retire(now, op, status);
            }
        }
    }
}

/// Anybody, any process.
fn ping_entry(unlink: Unlink) -> MatchEntry {
    MatchEntry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits: PING_BITS,
        ignore_bits: 0,
        position: Position::After,
        unlink,
    }
}
