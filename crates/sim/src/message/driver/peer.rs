//! What a driver knows of one peer.

use std::collections::VecDeque;

use lustrine_lnet::driver_report::{DialPhase, DriverPeer};
use lustrine_lnet::lnd::{NiIndex, OpKey, RxId, SendAction};
use lustrine_lnet::memory::Spans;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::{Nid, ProcessId};
use smallvec::SmallVec;

use super::super::packet::{Content, LinkId, Packet, is_small};
use super::super::wire::Wire;
use super::{CONNECTION_TYPE, DriverConfig};
use crate::fabric::Hops;
use crate::network::HostId;

/// Streams of one connection for small messages and large ones.
const KINDS: usize = 2;

/// Where the dialler is with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    Idle,
    Waiting(Time),
    Active(LinkId),
}

/// A payload that the peer has not confirmed yet.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) op: OpKey,
    pub(super) spans: Spans,
    pub(super) digest: u64,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) ni: NiIndex,
    pub(super) local: Nid,
    pub(super) nid: Nid,
    /// Where it is and how to get there, once that was asked.
    host: Option<HostId>,
    /// For small messages, and for each stream of large ones.
    ways: SmallVec<[Hops; 2]>,
    chosen: usize,
    /// Open connections: one, or two when both sides dialled at once.
    pub(super) links: SmallVec<[LinkId; 2]>,
    pub(super) dial: Dial,
    pub(super) incarnation: Option<u64>,
    pub(super) interval: Nanos,
    pub(super) not_before: Time,
    /// Messages that wait for a connection, or for room.
    pub(super) queue: VecDeque<SendAction>,
    /// Bytes of large messages that have not arrived.
    pub(super) in_stream: u64,
    pub(super) lent: Vec<Lent>,
    /// By kind: what waits behind a parked message, which is the first.
    parked: [VecDeque<Box<Packet>>; KINDS],
    /// How often parked messages were dropped with their connection: what is parked later has
    /// other marks, and a decision that comes too late finds nothing.
    drops: u32,
}

impl Peer {
    pub(super) fn new(ni: NiIndex, local: Nid, nid: Nid) -> Peer {
        Peer {
            ni,
            local,
            nid,
            host: None,
            ways: SmallVec::new(),
            chosen: 0,
            links: SmallVec::new(),
            dial: Dial::Idle,
            incarnation: None,
            interval: Nanos::ZERO,
            not_before: Time::ZERO,
            queue: VecDeque::new(),
            in_stream: 0,
            lent: Vec::new(),
            parked: Default::default(),
            drops: 0,
        }
    }

    pub(super) fn id(&self) -> ProcessId {
        ProcessId::lustre(self.nid)
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.queue.is_empty()
            || !self.lent.is_empty()
            || self.parked.iter().any(|parked| !parked.is_empty())
    }

    /// What the driver reports of it.
    pub(super) fn row(&self) -> DriverPeer {
        DriverPeer {
            id: self.id(),
            ni: self.ni,
            version: None,
            connections: [(CONNECTION_TYPE, self.links.len() as u32)].into_iter().collect(),
            queued_bytes: self.in_stream,
            queued_messages: self.queue.len() as u64,
            dialling: match self.dial {
                Dial::Active(_) => Some(DialPhase::Connecting),
                Dial::Idle | Dial::Waiting(_) => None,
            },
        }
    }

    /// Whether a message can be handed over now.
    pub(super) fn takes(&self, payload_len: u32, buffer: u64) -> bool {
        let fits = self.in_stream == 0 || self.in_stream + u64::from(payload_len) <= buffer;
        !self.links.is_empty() && (is_small(payload_len) || fits)
    }

    /// The first message that waits, if it can be handed over now.
    pub(super) fn next_with_room(&mut self, buffer: u64) -> Option<SendAction> {
        let len = self.queue.front()?.header.payload_len;
        if self.takes(len, buffer) { self.queue.pop_front() } else { None }
    }

    /// Learns the way to the peer, if there is one.
    pub(super) fn find_way(&mut self, wire: &mut Wire, from: HostId, streams: u64) -> bool {
        self.ways.clear();
        self.host = wire.home_of(&self.nid).filter(|_| self.nid.net() == self.local.net());
        let Some(host) = self.host else { return false };
        self.ways.extend((0..=streams).map_while(|stream| wire.hops(from, host, stream)));
        !self.ways.is_empty()
    }

    /// Something for the peer; `None` when there is no way to it.
    pub(super) fn packet(
        &self,
        from: &DriverConfig,
        link: LinkId,
        size: u64,
        content: Content,
    ) -> Option<Packet> {
        let small = match &content {
            Content::Message { header, .. } => is_small(header.payload_len),
            _ => true,
        };
        let large = if self.ways.len() < 2 { 0 } else { 1 + self.chosen % (self.ways.len() - 1) };
        let hops = Hops::from_slice(self.ways.get(if small { 0 } else { large })?);
        Some(Packet {
            from: from.host,
            to: self.host?,
            local: self.local,
            remote: self.nid,
            link,
            size,
            hops,
            at: 0,
            losses: 0,
            order: 0,
            sent: Time::ZERO,
            tail: Time::ZERO,
            lag: Nanos::ZERO,
            content,
        })
    }

    /// The next large message takes the next stream.
    pub(super) fn turn_streams(&mut self) {
        self.chosen = self.chosen.wrapping_add(1);
    }

    /// The packets of a kind that wait behind a parked one, and that one itself.
    pub(super) fn parked(&mut self, kind: usize) -> &mut VecDeque<Box<Packet>> {
        &mut self.parked[kind]
    }

    /// What names the place where a message of this peer is parked; one of each kind can be.
    pub(super) fn mark(&self, slot: usize, kind: usize) -> RxId {
        RxId(u64::from(self.drops) << 32 | (slot * KINDS + kind) as u64)
    }

    /// Drops what is parked; the marks of the messages that were first.
    pub(super) fn forget_parked(&mut self, slot: usize) -> Vec<RxId> {
        let mut marks = Vec::new();
        for kind in 0..KINDS {
            if !self.parked[kind].is_empty() {
                self.parked[kind].clear();
                marks.push(self.mark(slot, kind));
            }
        }
        if !marks.is_empty() {
            self.drops = self.drops.wrapping_add(1);
        }
        marks
    }
}

/// The peer and the kind that a mark names.
pub(super) fn unmark(rx: RxId) -> (usize, usize) {
    let place = rx.0 as u32 as usize;
    (place / KINDS, place % KINDS)
}
