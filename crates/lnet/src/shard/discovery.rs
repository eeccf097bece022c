//! Ping service and discovery in both roles (wire 6, lnet-core 7; userland: lab-findings F4).
//!
//! Before the first message to a peer that is not portal-0 traffic, a node pings it and, when both
//! sides want discovery, pushes its own information. A userland node pushes twice instead, with
//! DISCOVERY clear: then a kernel sends its replies over the connection we opened.

use lustrine_wire::header::Header;
use lustrine_wire::nid::{Nid, PID_ANY, PID_LUSTRE, PID_USERLAND, ProcessId};
use lustrine_wire::ping::{Features, NiStatus, PingEntry, PingError, PingInfo, USUAL_SINK_LEN};

use super::{AckWanted, GetArgs, PutArgs, Shard};
use crate::event::{Event, EventKind};
use crate::md::{MatchId, Md, MdKey, MdOptions, Owner, Position, Unlink};
use crate::memory::{Memory, Span};
use crate::peer::{PeerKey, PeerNiKey, Phase, Round, Word};
use crate::portal::{Entry, Laziness};
use crate::seam::{Arrival, NiIndex, OpKey};
use crate::status::Status;
use crate::time::{Nanos, Time};
use crate::topology::Identity;

/// LNet's own portal.
pub const PING_PORTAL: u32 = 0;
/// Match bits of pings and pushes (wire 6).
pub const PING_BITS: u64 = 0x8000_0000_0000_0000;

/// Pushes a userland node sends before anything else: one makes a kernel that knew us as a node
/// delete the peer, the next is taken by the new one (lab-findings, table under F5).
const USERLAND_PUSHES: u8 = 2;

/// A ping or push of ours that is under way.
#[derive(Debug)]
pub(super) struct Errand {
    peer: PeerKey,
    /// The NID it goes to.
    contact: Nid,
    buffer: Span,
    kind: ErrandKind,
    /// The first failure seen.
    failure: Option<Status>,
    /// Bytes of the reply, or of the push the peer stored, once it has come.
    answered: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrandKind {
    Ping,
    /// A ping to a peer whose NIDs another one claims; messages flow meanwhile.
    Check,
    Push {
        sequence: u32,
    },
}

/// What others find on portal 0.
#[derive(Debug, Default)]
pub(super) struct PingTarget {
    info: Option<Span>,
    push: Vec<(MdKey, Span)>,
    sequence: u32,
}

/// Buffers for pushes. Each takes one, and one peer fills one at a time, so this many peers would
/// have to stop in the middle of theirs before those of others wait.
pub(super) const PUSH_BUFFERS: usize = 64;

impl Shard {
    /// Publishes the ping information and posts the buffer for pushes.
    pub(super) fn start_ping_service(&mut self, memory: &mut impl Memory) {
        self.set_lazy(PING_PORTAL, Laziness::Lazy).expect("portal 0 exists");
        self.publish(memory);
        for _ in 0..PUSH_BUFFERS {
            let span = memory.alloc(USUAL_SINK_LEN as u32).expect("memory for pushes");
            self.post_push_buffer(Time::ZERO, span);
        }
    }

    /// Writes the current information to fresh memory and attaches it for everybody's GETs.
    fn publish(&mut self, memory: &mut impl Memory) {
        self.ping.sequence += 1;
        let bytes = self.own_info();
        let span = memory.alloc(bytes.len() as u32).expect("memory for ping information");
        memory.write(span, &bytes);
        self.ping.info = Some(span);
        let md = Md {
            spans: [span].into_iter().collect(),
            threshold: None,
            max_size: None,
            options: MdOptions::OP_GET | MdOptions::MANAGE_REMOTE | MdOptions::TRUNCATE,
            owner: Owner::LNET,
            user: 0,
        };
        self.attach(Time::ZERO, PING_PORTAL, ping_entry(Unlink::Retain), md)
            .expect("portal 0 takes wildcard entries");
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
            .map(|ni| PingEntry { nid: ni.nid, status: NiStatus::Up })
            .collect();
        let mut bytes = Vec::new();
        PingInfo::build(features, PID_LUSTRE, self.ping.sequence, &entries, &mut bytes);
        bytes
    }

    /// A userland peer cannot be dialled, so it must not ask to be discovered.
    fn wants_discovery(&self) -> bool {
        self.topology.identity == Identity::Node && self.topology.tunables.discovery != 0
    }

    /// One push fits; when all buffers are taken, more wait on the lazy portal.
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
        self.ping.push.push((md, span));
    }

    /// Whether a push may be received: not beyond any legal size, one per peer at a time, and of
    /// the peer that brings it: others do not speak for it.
    pub(super) fn admits_push(&mut self, arrival: &Arrival, header: &Header) -> bool {
        let Some(key) = self.peers.find(&arrival.from.nid) else { return false };
        header.src.nid == arrival.from.nid
            && !self.peers.nis[key].pushing
            && header.payload_len <= self.info_len_max()
    }

    /// Largest ping information we take: short and long entries for every interface allowed.
    fn info_len_max(&self) -> u32 {
        64 + 40 * self.topology.tunables.max_interfaces as u32
    }

    /// Whether messages to this peer must wait for its discovery.
    pub(super) fn must_discover(&self, peer_ni: PeerNiKey) -> bool {
        self.peers.peers[self.peers.peer_of(peer_ni)].phase != Phase::Ready
    }

    pub(super) fn park_for_discovery(&mut self, peer_ni: PeerNiKey, op: OpKey) {
        let ni = &mut self.peers.nis[peer_ni];
        self.lines.push_back(&mut ni.parked, op);
        let (key, nid) = (ni.peer, ni.nid);
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
        let key = self.peers.peer_of(peer_ni);
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
    pub(super) fn link_lost(&mut self, now: Time, peer: ProcessId) {
        self.abandon_answers(now, peer, Status::ConnectionLost);
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
                self.start_ping(now, memory, key, USUAL_SINK_LEN as u32)
            }
            (Identity::Node, Round::Tell) => self.start_push(now, memory, key, 0),
            (Identity::Userland, _) => self.start_push(now, memory, key, USERLAND_PUSHES - 1),
        };
        if let Err(status) = started {
            self.discovery_failed(now, key, status);
        }
    }

    fn start_ping(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        sink: u32,
    ) -> Result<(), Status> {
        let contact = self.peers.peers[key].contact;
        self.peers.peers[key].phase = Phase::Pinging { sink };
        self.send_ping(now, memory, key, contact, ErrandKind::Ping, sink)
    }

    fn send_ping(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        contact: Nid,
        kind: ErrandKind,
        sink: u32,
    ) -> Result<(), Status> {
        let buffer = memory.alloc(sink).ok_or(Status::NoMemory)?;
        let md = self.errand(key, contact, buffer, kind);
        let target = ProcessId { nid: contact, pid: PID_LUSTRE };
        let args = GetArgs {
            md,
            local: None,
            target,
            portal: PING_PORTAL,
            match_bits: PING_BITS,
            offset: 0,
            timeout: Some(self.errand_timeout()),
        };
        self.get(now, args).map_err(|_| self.abandon_errand(memory, md))
    }

    fn start_push(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        left: u8,
    ) -> Result<(), Status> {
        let bytes = self.own_info();
        let buffer = memory.alloc(bytes.len() as u32).ok_or(Status::NoMemory)?;
        memory.write(buffer, &bytes);
        let sequence = self.ping.sequence;
        let contact = self.peers.peers[key].contact;
        let md = self.errand(key, contact, buffer, ErrandKind::Push { sequence });
        self.peers.peers[key].phase = Phase::Pushing { left };
        let target = ProcessId { nid: contact, pid: PID_LUSTRE };
        let args = PutArgs {
            md,
            local: None,
            target,
            portal: PING_PORTAL,
            match_bits: PING_BITS,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::Yes,
            timeout: Some(self.errand_timeout()),
        };
        self.put(now, args).map_err(|_| self.abandon_errand(memory, md))
    }

    /// The held messages must fail while they still have a chance elsewhere: a driver's share of
    /// the transaction timeout, not the whole.
    fn errand_timeout(&self) -> Nanos {
        Nanos::from_secs(self.topology.tunables.lnd_timeout() as u64)
    }

    fn errand(&mut self, peer: PeerKey, contact: Nid, buffer: Span, kind: ErrandKind) -> MdKey {
        let md = Md {
            spans: [buffer].into_iter().collect(),
            threshold: Some(2),
            max_size: None,
            options: MdOptions::empty(),
            owner: Owner::LNET,
            user: 0,
        };
        let md = self.bind(md).expect("ping information fits a message");
        let errand = Errand { peer, contact, buffer, kind, failure: None, answered: None };
        self.discoveries.insert(md, errand);
        md
    }

    /// The errand could not even be queued.
    fn abandon_errand(&mut self, memory: &mut impl Memory, md: MdKey) -> Status {
        if let Some(errand) = self.discoveries.remove(&md) {
            memory.free(errand.buffer);
        }
        self.remove_md(md);
        Status::NoMemory
    }

    /// An event of a descriptor of the core's own.
    pub(super) fn own_event(&mut self, now: Time, memory: &mut impl Memory, event: &Event) {
        if let Some(at) = self.ping.push.iter().position(|(md, _)| *md == event.md) {
            let (_, span) = self.ping.push.swap_remove(at);
            let mut next = span;
            if event.kind == EventKind::Put && event.status.is_ok() {
                next = self.push_arrived(now, memory, event, span);
            }
            self.post_push_buffer(now, next);
            return;
        }
        let Some(errand) = self.discoveries.get_mut(&event.md) else { return };
        if !event.status.is_ok() {
            errand.failure.get_or_insert(event.status);
        } else if matches!(event.kind, EventKind::Reply | EventKind::Ack) {
            errand.answered = Some(event.moved);
        }
        if !event.unlinked {
            return;
        }
        let errand = self.discoveries.remove(&event.md).expect("it was just there");
        let mut bytes = vec![0; errand.answered.unwrap_or(0).min(errand.buffer.len) as usize];
        if matches!(errand.kind, ErrandKind::Ping | ErrandKind::Check) {
            memory.read(errand.buffer, &mut bytes);
        }
        memory.free(errand.buffer);
        if !self.peers.peers.contains_key(errand.peer) {
            return;
        }
        match (errand.answered, errand.kind) {
            (Some(_), ErrandKind::Ping) => self.ping_answered(now, memory, &errand, &bytes),
            (Some(_), ErrandKind::Check) => self.check_answered(now, memory, &errand, &bytes),
            (None, ErrandKind::Check) => self.peers.peers[errand.peer].checking = false,
            (Some(_), ErrandKind::Push { sequence }) => {
                self.push_confirmed(now, memory, errand.peer, sequence);
            }
            (None, kind) => {
                let status = errand.failure.unwrap_or(Status::TimedOut);
                let known = self.peers.peers[errand.peer].features.is_some();
                let essential = self.topology.identity == Identity::Userland;
                if matches!(kind, ErrandKind::Push { .. }) && known && !essential {
                    // The ping went well, so the peer can be talked to; it will ask for itself.
                    self.discovered(now, errand.peer, status);
                } else {
                    self.discovery_failed(now, errand.peer, status);
                }
            }
        }
    }

    fn ping_answered(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        errand: &Errand,
        bytes: &[u8],
    ) {
        let mut key = errand.peer;
        let Phase::Pinging { sink } = self.peers.peers[key].phase else { return };
        let limit = self.topology.tunables.max_interfaces as u32;
        match PingInfo::parse_limited(bytes, limit) {
            Ok(info) => {
                let learned = self.learn(now, memory, errand.contact, &info);
                if !self.peers.peers.contains_key(key) {
                    // It is a NID of another peer, whose own round goes on if there is one.
                    let Some(other) = learned else { return };
                    if !self.peers.peers[other].settled() {
                        return;
                    }
                    key = other;
                    self.peers.peers[key].contact = errand.contact;
                }
            }
            Err(PingError::Truncated { announced, .. })
                if announced > sink as usize && announced <= self.info_len_max() as usize =>
            {
                if let Err(status) = self.start_ping(now, memory, key, announced as u32) {
                    self.discovery_failed(now, key, status);
                }
                return;
            }
            Err(_) => {
                self.discovery_failed(now, key, Status::Protocol);
                return;
            }
        }
        if self.must_push(key) {
            if let Err(status) = self.start_push(now, memory, key, 0) {
                self.discovered(now, key, status);
            }
        } else {
            self.discovered(now, key, Status::Ok);
        }
    }

    /// A peer whose NIDs were claimed has spoken for itself.
    fn check_answered(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        errand: &Errand,
        bytes: &[u8],
    ) {
        self.peers.peers[errand.peer].checking = false;
        let limit = self.topology.tunables.max_interfaces as u32;
        let (key, contact) = (errand.peer, errand.contact);
        match PingInfo::parse_limited(bytes, limit) {
            Ok(info) => {
                let learned = self.learn(now, memory, contact, &info);
                if let Some(key) = learned.filter(|key| self.peers.peers[*key].settled()) {
                    self.peers.peers[key].phase = Phase::Ready;
                    self.release(now, key);
                }
            }
            Err(PingError::Truncated { announced, .. })
                if announced > errand.buffer.len as usize
                    && announced <= self.info_len_max() as usize =>
            {
                self.peers.peers[key].checking = true;
                let room = announced as u32;
                let asked = self.send_ping(now, memory, key, contact, ErrandKind::Check, room);
                self.peers.peers[key].checking = asked.is_ok();
            }
            Err(_) => {}
        }
    }

    /// The peer takes pushes, wants discovery, and has an older copy of our information.
    fn must_push(&self, key: PeerKey) -> bool {
        let peer = &self.peers.peers[key];
        let both = Features::MULTI_RAIL | Features::DISCOVERY;
        let willing =
            peer.features.is_some_and(|bits| Features::from_bits_retain(bits).contains(both));
        self.wants_discovery() && willing && peer.confirmed != Some(self.ping.sequence)
    }

    fn push_confirmed(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey, sequence: u32) {
        let peer = &mut self.peers.peers[key];
        peer.confirmed = Some(sequence);
        let Phase::Pushing { left } = peer.phase else { return };
        if left == 0 {
            self.discovered(now, key, Status::Ok);
        } else if let Err(status) = self.start_push(now, memory, key, left - 1) {
            self.discovery_failed(now, key, status);
        }
    }

    /// Takes in what a NID says of its node; the peer it belongs to from now on. `None`: it was
    /// forgotten meanwhile.
    fn learn(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        contact: Nid,
        info: &PingInfo<'_>,
    ) -> Option<PeerKey> {
        let both = Features::MULTI_RAIL | Features::DISCOVERY;
        let several = self.wants_discovery() && info.features().contains(both);
        let nids: Vec<(Nid, bool)> = info
            .entries()
            .map(|entry| (entry.nid, entry.status != NiStatus::Down))
            // Nobody else is us, or everybody.
            .filter(|(nid, _)| !nid.is_any() && !self.is_local(nid))
            .filter(|(nid, _)| several || *nid == contact)
            .collect();
        let named = info.primary().filter(|nid| nids.iter().any(|(listed, _)| listed == nid));
        let primary = named.unwrap_or(contact);
        let learned = self.peers.learn(Word { contact, primary, nids: &nids })?;
        let peer = &mut self.peers.peers[learned.peer];
        peer.features = Some(info.features().bits());
        peer.sequence = info.sequence();
        for ni in learned.stranded {
            let (key, nid) = (self.peers.nis[ni].peer, self.peers.nis[ni].nid);
            self.ask(key, nid);
        }
        if let Some(doubted) = learned.doubted {
            self.check(now, memory, doubted);
        }
        self.carry_on(now, learned.peer);
        Some(learned.peer)
    }

    /// Messages may have come to a peer with NIDs of another one: they go on too.
    fn carry_on(&mut self, now: Time, key: PeerKey) {
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
    fn ask(&mut self, key: PeerKey, contact: Nid) {
        let peer = &mut self.peers.peers[key];
        peer.phase = Phase::Unknown;
        peer.contact = contact;
        peer.wanted = Some(Round::Ask);
        self.undecided.push_back(key);
    }

    /// Another peer claims NIDs of this one, which is there: it shall say itself whether they are
    /// one node. One question at a time, and messages to it flow meanwhile.
    fn check(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey) {
        let Some(peer) = self.peers.peers.get(key) else { return };
        if peer.checking || !peer.settled() {
            return;
        }
        let linked = peer.members.iter().map(|ni| &self.peers.nis[*ni]).find(|ni| ni.linked());
        let contact = linked.map_or(self.peers.nis[peer.members[0]].nid, |ni| ni.nid);
        let room = USUAL_SINK_LEN as u32;
        let asked = self.send_ping(now, memory, key, contact, ErrandKind::Check, room);
        self.peers.peers[key].checking = asked.is_ok();
    }

    /// The primary NID of the peer a NID belongs to, as far as is known now. With
    /// `lock_prim_nid` it stays the peer's primary NID from now on (lnet-core 7).
    ///
    /// # Errors
    /// When no interface of ours is on the peer's net, or the table of peers is full.
    pub fn primary_nid(&mut self, now: Time, nid: &Nid) -> Result<Nid, Status> {
        let peer_ni = self.obtain_peer(now, nid)?;
        let peer = &mut self.peers.peers[self.peers.nis[peer_ni].peer];
        peer.locked |= self.topology.tunables.lock_prim_nid != 0;
        Ok(peer.primary)
    }

    fn obtain_peer(&mut self, now: Time, nid: &Nid) -> Result<PeerNiKey, Status> {
        let on_net = self.topology.nis.iter().position(|ni| ni.nid.net() == nid.net());
        let ni = NiIndex(on_net.ok_or(Status::Unreachable)? as u16);
        let max = self.topology.ni(ni).peer_credits;
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

    /// Somebody told us about itself (wire 6.3). Answers with the buffer for the next one: a
    /// larger one when this push did not fit.
    fn push_arrived(
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
            let key = self.peers.peer_of(peer_ni);
            // A renamed userland process speaks for itself, not for the node at its address.
            let userland = event.peer.pid & PID_USERLAND != 0;
            match &parsed {
                Ok(info) if info.features().contains(Features::MULTI_RAIL) => {
                    self.take_push(now, memory, key, info, event.peer.nid, userland);
                }
                Ok(_) => {}
                Err(_) => self.force_round(key, event.peer),
            }
        }
        let room = match parsed {
            Err(PingError::Truncated { announced, .. }) => {
                (announced as u32).min(self.info_len_max())
            }
            _ => USUAL_SINK_LEN as u32,
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
        let Some(key) = self.learn(now, memory, contact, info) else { return };
        let must_push = self.must_push(key);
        let peer = &mut self.peers.peers[key];
        if !matches!(peer.phase, Phase::Unknown | Phase::Ready) {
            return;
        }
        peer.contact = contact;
        if withdrawn {
            // It is forgotten and made anew; its next push finds the new one ([PING-13]).
            peer.features = None;
            peer.confirmed = None;
            if peer.phase == Phase::Ready {
                peer.phase = Phase::Unknown;
            }
        } else if must_push {
            peer.phase = Phase::Unknown;
            peer.wanted = Some(Round::Tell);
            self.undecided.push_back(key);
        } else if peer.phase == Phase::Unknown && peer.wanted.is_none() {
            peer.phase = Phase::Ready;
            self.release(now, key);
        }
    }

    /// What a peer pushed made no sense or was cut: ask it. Userland peers cannot be asked.
    fn force_round(&mut self, key: PeerKey, from: ProcessId) {
        let idle = matches!(self.peers.peers[key].phase, Phase::Unknown | Phase::Ready);
        if idle && from.pid & PID_USERLAND == 0 {
            self.ask(key, from.nid);
        }
    }
}

/// Anybody, any process.
fn ping_entry(unlink: Unlink) -> Entry {
    Entry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits: PING_BITS,
        ignore_bits: 0,
        position: Position::After,
        unlink,
    }
}
