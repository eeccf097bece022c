//! Ping service and discovery in both roles ([PING-1], [PING-14]; userland: [USR-4]).
//!
//! Before the first message to a peer on another portal than 0, a node pings the peer and, when
//! both sides want discovery, pushes its own information. A userland node pushes twice instead,
//! with DISCOVERY clear: then a kernel sends its replies over the connection that the node opened.

use std::collections::{HashMap, VecDeque};

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
use crate::time::{Nanos, Time};
use crate::topology::Identity;

mod pushed;
mod task;

pub(super) use task::PingPushTask;

/// LNet's own portal.
pub const PING_PORTAL: u32 = 0;
/// Match bits of pings and pushes ([PING-1], [PING-11]).
pub const PING_BITS: u64 = 0x8000_0000_0000_0000;

/// Pushes that a userland node sends before anything else: the first one makes a kernel that knew
/// it as a node delete the peer, the second one goes to the new peer ([USR-4]).
const USERLAND_PUSHES: u8 = 2;

/// Time between them. A kernel acknowledges the first push before it has deleted the peer: a second
/// one that arrives meanwhile is lost with the old peer ([USR-4]).
const USERLAND_PAUSE: Nanos = Nanos::from_millis(100);

/// The descriptors on portal 0.
#[derive(Debug)]
pub(super) struct PingTarget {
    info: Option<(MdKey, Span)>,
    /// Descriptors of earlier information that REPLYs still read.
    outdated: Vec<(MdKey, Span)>,
    /// Buffers for pushes, those that are being filled included.
    push: HashMap<MdKey, Span, FixedState>,
    /// The number of them that are longer than usual.
    long_pushes: usize,
    sequence: u32,
    /// When to publish again, as there was no memory for the current information.
    again: Option<Time>,
}

impl PingTarget {
    pub(super) fn new(seed: u64) -> PingTarget {
        PingTarget {
            info: None,
            outdated: Vec::new(),
            push: HashMap::with_hasher(FixedState::with_seed(seed)),
            long_pushes: 0,
            sequence: 0,
            again: None,
        }
    }

    /// The number of buffers for pushes that are longer than usual.
    pub(super) fn long_pushes(&self) -> usize {
        self.long_pushes
    }

    fn add_push_buffer(&mut self, md: MdKey, span: Span) {
        self.push.insert(md, span);
        self.long_pushes += usize::from(span.len > DEFAULT_BUFFER_LEN as u32);
    }

    fn remove_push_buffer(&mut self, md: MdKey) -> Option<Span> {
        let span = self.push.remove(&md)?;
        self.long_pushes -= usize::from(span.len > DEFAULT_BUFFER_LEN as u32);
        Some(span)
    }

    /// Whether the published information is outdated.
    pub(super) fn stale(&self) -> bool {
        self.again.is_some()
    }

    /// When to publish again.
    pub(super) fn again(&self) -> Time {
        self.again.unwrap_or(Time::NEVER)
    }
}

/// Discovery, and the core's own traffic for it.
#[derive(Debug)]
pub(super) struct Discovery {
    ping: PingTarget,
    /// Pings and pushes in flight, by their descriptors.
    tasks: HashMap<MdKey, PingPushTask, FixedState>,
    /// Events of the core's own descriptors, handled in `drive`.
    events: VecDeque<Event>,
    /// Peers whose discovery may have to begin.
    wanted: VecDeque<PeerKey>,
    /// Peers whose next push has to wait, and until when; the earliest is the first.
    pauses: VecDeque<(Time, PeerKey)>,
}

impl Discovery {
    pub(super) fn new(seed: u64) -> Discovery {
        Discovery {
            ping: PingTarget::new(seed),
            tasks: HashMap::with_hasher(FixedState::with_seed(seed)),
            events: VecDeque::new(),
            wanted: VecDeque::new(),
            pauses: VecDeque::new(),
        }
    }

    /// Queues an event of one of the core's own descriptors.
    pub(super) fn own_event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !(self.events.is_empty() && self.wanted.is_empty())
    }

    /// When outdated ping information is published again.
    #[inline]
    pub(super) fn publish_again(&self) -> Time {
        self.ping.again()
    }

    /// When outdated ping information is published again, or a pause between pushes is over.
    #[inline]
    pub(super) fn next_deadline(&self) -> Time {
        let pause = self.pauses.front().map_or(Time::NEVER, |(until, _)| *until);
        self.ping.again().min(pause)
    }
}

/// Free buffers for pushes that portal 0 has at the beginning of each turn ([PING-28]). A buffer
/// that is being filled is not free: a peer that stops in the middle of its push keeps that buffer,
/// and a new one takes its place. A connection sends one push at a time, so at most
/// `connections_max` buffers are in use. As many as these are longer than usual, no more.
pub(super) const PUSH_BUFFERS: usize = 64;

impl Shard {
    /// The part of [`Shard::drive`] that is about discovery.
    pub(super) fn drive_discovery(&mut self, now: Time, memory: &mut impl Memory) {
        while let Some(event) = self.discovery.events.pop_front() {
            self.own_event(now, memory, &event);
        }
        self.post_push_buffers(now, memory);
        while let Some((until, peer)) = self.discovery.pauses.front().copied()
            && until <= now
        {
            self.discovery.pauses.pop_front();
            self.end_pause(now, memory, peer);
        }
        while let Some(peer) = self.discovery.wanted.pop_front() {
            self.advance_discovery(now, memory, peer);
        }
    }

    /// Publishes the ping information and posts the buffers for pushes.
    pub(super) fn start_ping_service(&mut self, memory: &mut impl Memory) {
        self.set_lazy(PING_PORTAL, Laziness::Lazy).expect("portal 0 exists");
        self.discovery.ping.sequence = 1;
        self.publish(Time::ZERO, memory).expect("memory for ping information");
        self.post_push_buffers(Time::ZERO, memory);
        assert!(self.free_push_buffers() == PUSH_BUFFERS, "memory for pushes");
    }

    /// Push buffers that no payload is arriving in: all entries of portal 0 but that of the ping
    /// information.
    fn free_push_buffers(&self) -> usize {
        self.portals.entries_on(PING_PORTAL) - usize::from(self.discovery.ping.info.is_some())
    }

    /// Replaces the push buffers that are being filled. Without memory there are fewer for a while,
    /// and pushes wait on the lazy portal.
    pub(super) fn post_push_buffers(&mut self, now: Time, memory: &mut impl Memory) {
        while self.free_push_buffers() < PUSH_BUFFERS {
            let Some(span) = memory.alloc(DEFAULT_BUFFER_LEN as u32) else { return };
            self.post_push_buffer(now, span);
        }
    }

    /// Publishes changed ping information under a new sequence number ([PING-5]).
    pub(super) fn republish(&mut self, now: Time, memory: &mut impl Memory) {
        if !self.discovery.ping.stale() {
            self.discovery.ping.sequence += 1;
        }
        self.discovery.ping.again = match self.publish(now, memory) {
            Ok(()) => None,
            Err(_) => Some(now + super::SCAN_INTERVAL),
        };
    }

    /// Writes the current information to new memory and attaches it for GETs.
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
        if let Some((before, span)) = self.discovery.ping.info.replace((md, span)) {
            self.discovery.ping.outdated.push((before, span));
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
        PingInfo::build(features, PID_LUSTRE, self.discovery.ping.sequence, &entries, &mut bytes);
        bytes
    }

    /// Whether this node takes part in discovery. A userland node cannot be dialled, so it must not
    /// ask others to discover it.
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
        self.discovery.ping.add_push_buffer(md, span);
    }

    /// Whether messages to this NID must wait for a discovery, of its peer or of the unverified
    /// NID.
    pub(super) fn must_discover(&self, peer_ni: PeerNiKey) -> bool {
        let ni = &self.peers.nis[peer_ni];
        ni.unverified || self.peers.peers[ni.peer].phase != Phase::Ready
    }

    pub(super) fn park_for_discovery(&mut self, peer_ni: PeerNiKey, op: OpKey) {
        let key = self.peers.separate(peer_ni);
        let ni = &mut self.peers.nis[peer_ni];
        self.msgs.queues.push_back(&mut ni.parked, op);
        let nid = ni.nid;
        if self.peers.peers[key].phase == Phase::Unknown {
            self.request_round(key, nid);
        }
    }

    /// Starts a discovery of a peer, if none is in flight. [`Shard::peer`] shows when a round has
    /// ended, and how.
    ///
    /// # Errors
    /// When no local interface is on the peer's network, or the table of peers is full.
    pub fn discover(&mut self, now: Time, nid: &Nid) -> Result<(), Status> {
        let peer_ni = self.obtain_peer(now, nid)?;
        let key = self.peers.separate(peer_ni);
        if matches!(self.peers.peers[key].phase, Phase::Unknown | Phase::Ready) {
            self.request_round(key, *nid);
        }
        Ok(())
    }

    /// Marks a peer's information as outdated: it is discovered again before the next message.
    pub(super) fn invalidate(&mut self, nid: &Nid) {
        let Some(peer_ni) = self.peers.find(nid) else { return };
        let peer = &mut self.peers.peers[self.peers.nis[peer_ni].peer];
        if peer.phase == Phase::Ready {
            peer.phase = Phase::Unknown;
            peer.confirmed = None;
        }
    }

    /// The last connection of a peer is closed. LNet keeps idle connections for ever, so this is
    /// always a failure; awaited answers fail now rather than after a kernel's 184 s (capture b2),
    /// unless their owner keeps them.
    pub(super) fn link_lost(&mut self, now: Time, peer_ni: PeerNiKey, peer: ProcessId) {
        self.fail_answers(now, peer_ni, peer, Status::ConnectionLost);
        if self.topology.identity == Identity::Userland {
            self.invalidate(&peer.nid);
        }
    }

    /// Starts a round of discovery if one is wanted.
    pub(super) fn advance_discovery(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey) {
        let Some(peer) = self.peers.peers.get_mut(key) else { return };
        if peer.phase != Phase::Unknown {
            return;
        }
        let Some(round) = peer.wanted.take() else { return };
        let started = match (self.topology.identity, round) {
            (Identity::Node, Round::Ping) => {
                self.start_ping(now, memory, key, DEFAULT_BUFFER_LEN as u32)
            }
            (Identity::Node, Round::Push) => self.start_push(now, memory, key, 0),
            (Identity::Userland, _) => self.start_push(now, memory, key, USERLAND_PUSHES - 1),
        };
        if let Err(status) = started {
            self.discovery_failed(now, key, status);
        }
    }

    /// Handles an event of one of the core's own descriptors.
    pub(super) fn own_event(&mut self, now: Time, memory: &mut impl Memory, event: &Event) {
        if let Some(span) = self.discovery.ping.remove_push_buffer(event.md) {
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
        if let Some(at) = self.discovery.ping.outdated.iter().position(|(md, _)| *md == event.md) {
            if event.unlinked {
                let (_, span) = self.discovery.ping.outdated.swap_remove(at);
                memory.free(span);
            }
            return;
        }
        self.task_event(now, memory, event);
    }

    /// Whether the peer accepts pushes and has an older copy of our information ([PING-11]).
    fn must_push(&self, key: PeerKey) -> bool {
        let peer = &self.peers.peers[key];
        let both = Features::MULTI_RAIL | Features::DISCOVERY;
        let willing =
            peer.features.is_some_and(|bits| Features::from_bits_retain(bits).contains(both));
        self.wants_discovery() && willing && peer.confirmed != Some(self.discovery.ping.sequence)
    }

    /// Applies the ping information of a NID, and pings a live peer whose NIDs it claims. `None`
    /// when the NID was removed meanwhile.
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
            // Local NIDs and the wildcard are left out ([PING-25]).
            .filter(|(nid, _)| !nid.is_any() && !self.is_local(nid))
            .filter(|(nid, _)| several || *nid == contact)
            .collect();
        if !self.wants_discovery()
            && let Some(peer) = self.peers.described(&contact)
        {
            // Only discovery changes the NIDs of a configured peer.
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
            self.request_round(key, nid);
        }
        if let Some(conflicting) = learned.conflicting {
            self.recheck(now, memory, conflicting);
        }
        self.resume_messages(now, learned.peer);
        Some(learned)
    }

    /// Continues messages that came to a peer with NIDs of another one.
    pub(super) fn resume_messages(&mut self, now: Time, key: PeerKey) {
        let peer = &self.peers.peers[key];
        if peer.phase == Phase::Ready {
            self.release(now, key);
        } else if peer.settled() {
            let mut members = peer.members.iter().map(|ni| &self.peers.nis[*ni]);
            if let Some(waiting) = members.find(|ni| !ni.parked.is_empty()) {
                self.request_round(key, waiting.nid);
            }
        }
    }

    /// Requests a round of discovery.
    pub(super) fn request_round(&mut self, key: PeerKey, contact: Nid) {
        let peer = &mut self.peers.peers[key];
        peer.phase = Phase::Unknown;
        peer.contact = contact;
        peer.wanted = Some(Round::Ping);
        self.discovery.wanted.push_back(key);
    }

    /// The primary NID of the peer that a NID belongs to, as far as is known now. With
    /// `lock_prim_nid` it stays the peer's primary NID from now on, and the peer stays in the table
    /// of peers ([PING-21]). This is for a file system, which knows its servers by this name;
    /// its client does not call it yet, since it knows a server by several NIDs, and two locked
    /// peers are never merged. Pings, discoveries and the selftest do not call it.
    ///
    /// # Errors
    /// When no local interface is on the peer's network, or the table of peers is full.
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

    /// Ends a round of discovery: messages can be sent.
    fn discovered(&mut self, now: Time, key: PeerKey, outcome: Status) {
        let peer = &mut self.peers.peers[key];
        peer.phase = Phase::Ready;
        peer.wanted = None;
        peer.rounds += 1;
        peer.outcome = outcome;
        self.release(now, key);
    }

    /// Continues the messages that waited for a peer's discovery.
    fn release(&mut self, now: Time, key: PeerKey) {
        for ni in self.peers.peers[key].members.clone() {
            while let Some(op) = self.msgs.queues.pop_front(&mut self.peers.nis[ni].parked) {
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
            while let Some(op) = self.msgs.queues.pop_front(&mut self.peers.nis[ni].parked) {
                self.retire(now, op, status);
            }
        }
    }
}

/// An entry that accepts all senders.
fn ping_entry(unlink: Unlink) -> MatchEntry {
    MatchEntry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits: PING_BITS,
        ignore_bits: 0,
        position: Position::After,
        unlink,
    }
}
