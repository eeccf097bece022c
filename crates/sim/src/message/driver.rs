//! The driver of the message level: hands messages over whole, when socklnd would have.
//!
//! A small message is done when it is handed over. A large one is when its stream has room for it,
//! or, sent without copying, when the peer has received it and says so. The first message to a
//! peer waits for a connection: two round trips, TCP's and the HELLO's.

mod peer;
mod receive;
mod regions;

use core::convert::Infallible;
use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_lnet::driver_report::{DriverCounter, DriverMetric, DriverNotice, DriverPeer};
use lustrine_lnet::lnd::{Action, Core, LinkEvent, NiIndex, SendAction};
use lustrine_lnet::memory::HasMemory;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::tunables::Tunables;
use lustrine_partition::{Driver, DriverOn};
use lustrine_wire::nid::Nid;

use super::packet::{Arrived, Content, LinkId, Packet, is_small};
use super::wire::Wire;
use crate::check;
use crate::memory::{Rope, RopeMemory};
use crate::network::HostId;
use crate::tcp::TcpSpec;
use peer::{Dial, Lent, Peer};
use regions::Regions;

/// Bytes of the headers of a message on the wire: socklnd's and LNet's.
const HEAD: u64 = 24 + 72;

/// Bytes of a HELLO, and of the word that closes a connection.
const HELLO: u64 = 80;

/// The one type of its connections.
const CONNECTION_TYPE: &str = "MESSAGE";

static CONNECTIONS: DriverMetric = DriverMetric {
    name: "lustrine_message_driver_connections_total",
    label: Some("event"),
    help: "Connections of the message driver; event is opened or closed.",
};

/// What a driver needs to know of its node.
#[derive(Debug)]
pub(super) struct DriverConfig {
    /// Of it the headers of segments count, and the send buffer, unless `tx_buffer_size` says
    /// otherwise: what a stream takes before any of it has arrived.
    pub(super) tcp: TcpSpec,
    pub(super) host: HostId,
    pub(super) nids: Vec<Nid>,
    pub(super) incarnation: u64,
    /// Whether it lets others in.
    pub(super) listens: bool,
    /// Whether it answers GETs in place, as drivers for RDMA networks do.
    pub(super) answers_gets: bool,
}

/// What lies outside of the driver for the length of one turn.
#[derive(Debug)]
pub(super) struct DriverIo<'a> {
    pub(super) memory: &'a mut RopeMemory,
    pub(super) wire: &'a mut Wire,
    /// What has arrived, first come first.
    pub(super) arrived: &'a mut Arrived,
}

/// The driver of one node.
#[derive(Debug)]
pub(super) struct MessageDriver {
    config: DriverConfig,
    reconnect: (Nanos, Nanos),
    buffer: u64,
    streams: u64,
    zero_copy: Option<u32>,
    regions: Regions,
    peers: Vec<Peer>,
    index: HashMap<(NiIndex, Nid), u32, FixedState>,
    /// The peer that was looked for last: mostly the next one too.
    recent: usize,
    review_at: Time,
    /// Messages that wait for a connection, or for room.
    waiting: u64,
    /// Messages that wait for the other end's word that it has them.
    lent: u64,
    /// Time that messages waited for their turn on the way out, in nanoseconds.
    pub(super) on_the_way_out: u64,
    shut: Option<Status>,
    /// Connections so far.
    opened: u64,
    closed: u64,
    /// What went wrong that never may.
    pub(super) complaints: Vec<String>,
}

/// What the tunables say.
struct Settings {
    reconnect: (Nanos, Nanos),
    buffer: u64,
    streams: u64,
    zero_copy: Option<u32>,
}

impl Settings {
    fn new(config: &DriverConfig, tunables: &Tunables) -> Settings {
        let streams = tunables.socklnd.conns_per_peer.max(1) as u64;
        let buffer = match tunables.socklnd.tx_buffer_size {
            0 => config.tcp.send_buffer,
            size => size as u64,
        };
        let min = Nanos::from_millis(tunables.socklnd.min_reconnectms as u64);
        let max = Nanos::from_millis(tunables.socklnd.max_reconnectms as u64).max(min);
        Settings {
            reconnect: (min, max),
            buffer: buffer * streams,
            streams,
            zero_copy: (tunables.socklnd.zero_copy != 0)
                .then_some(tunables.socklnd.zc_min_payload as u32),
        }
    }
}

impl MessageDriver {
    pub(super) fn new(config: DriverConfig, tunables: &Tunables) -> MessageDriver {
        let Settings { reconnect, buffer, streams, zero_copy } = Settings::new(&config, tunables);
        MessageDriver {
            config,
            reconnect,
            buffer,
            streams,
            zero_copy,
            regions: Regions::default(),
            peers: Vec::new(),
            index: HashMap::default(),
            recent: 0,
            review_at: Time::NEVER,
            waiting: 0,
            lent: 0,
            on_the_way_out: 0,
            shut: None,
            opened: 0,
            closed: 0,
            complaints: Vec::new(),
        }
    }

    /// Messages that wait for a connection, or for room in a stream.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Messages that wait for the other end's word that it has them.
    pub(super) fn lent(&self) -> u64 {
        self.lent
    }

    /// What is left although all should be quiet.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let busy = self.peers.iter().filter(|peer| peer.is_busy());
        busy.map(|peer| format!("{} has messages in the driver", peer.nid)).collect()
    }

    /// Messages that wait although their time is over.
    pub(super) fn overdue(&self, now: Time) -> Vec<String> {
        let queued = self.peers.iter().flat_map(|peer| &peer.queue);
        let late = queued.filter(|send| send.deadline + check::LATENESS < now);
        late.map(|send| format!("a message to {} waits in the driver", send.to.nid)).collect()
    }

    /// Messages of the core that it has.
    pub(super) fn operations(&self) -> usize {
        self.peers.iter().map(|peer| peer.queue.len() + peer.lent.len()).sum()
    }

    /// Who has to learn that this node is gone.
    pub(super) fn farewells(&self) -> Vec<Packet> {
        let mut packets = Vec::new();
        for peer in &self.peers {
            for link in &peer.links {
                let (from, content) = (&self.config, Content::Closed);
                packets.extend(peer.packet(from, *link, HELLO, content));
            }
        }
        packets
    }

    fn peer_of(&mut self, ni: NiIndex, nid: Nid) -> usize {
        if self.peers.get(self.recent).is_some_and(|peer| (peer.nid, peer.ni) == (nid, ni)) {
            return self.recent;
        }
        let next = self.peers.len() as u32;
        let slot = *self.index.entry((ni, nid)).or_insert(next);
        if slot == next {
            self.peers.push(Peer::new(ni, self.config.nids[usize::from(ni.0)], nid));
        }
        self.recent = slot as usize;
        self.recent
    }

    /// Looks at a peer again at this time at the latest.
    fn review(&mut self, at: Time) {
        self.review_at = self.review_at.min(at);
    }

    fn route<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        send: &SendAction,
    ) {
        self.regions.check(&send.payload);
        if let Some(status) = self.shut {
            return core.done(now, send.op, status);
        }
        let slot = self.peer_of(send.ni, send.to.nid);
        let peer = &mut self.peers[slot];
        if peer.takes(send.header.payload_len, self.buffer) {
            return self.hand_over(now, core, out, slot, send);
        }
        peer.queue.push_back(send.clone());
        self.waiting += 1;
        self.review(send.deadline);
        if self.peers[slot].links.is_empty() {
            self.dial(now, core, out, slot);
        }
    }

    /// A message leaves the host.
    fn hand_over<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        slot: usize,
        send: &SendAction,
    ) {
        let mut payload = Rope::default();
        for span in &send.payload {
            payload.append(out.memory.rope(*span));
        }
        let len = send.header.payload_len;
        let digest = if is_small(len) { 0 } else { out.wire.digests.of(&payload) };
        let lent = self.zero_copy.is_some_and(|min| len >= min) && !is_small(len);
        let content = Content::Message {
            header: send.header,
            payload,
            digest,
            lent: lent.then_some(send.op),
        };
        let size = self.config.tcp.on_link(HEAD + u64::from(len));
        let peer = &mut self.peers[slot];
        if !is_small(len) {
            peer.in_stream += size;
            peer.turn_streams();
        }
        if lent {
            let spans = send.payload.clone();
            peer.lent.push(Lent { op: send.op, spans, digest });
            self.lent += 1;
        }
        let link = peer.links[0];
        match peer.packet(&self.config, link, size, content) {
            Some(packet) => self.on_the_way_out += out.wire.send(now, packet).0,
            None => self.complaints.push(format!("{now:?}: {} has no way any more", peer.nid)),
        }
        core.tx_started(now, send.op);
        if !lent {
            core.done(now, send.op, Status::Ok);
        }
    }

    /// There is a connection: hands over what waited for one, as far as there is room, and small
    /// messages past large ones.
    fn pump<C: Core>(&mut self, now: Time, core: &mut C, out: &mut DriverIo<'_>, slot: usize) {
        for send in core::mem::take(&mut self.peers[slot].queue) {
            let peer = &mut self.peers[slot];
            let len = send.header.payload_len;
            let large_waits = !peer.queue.is_empty() && !is_small(len);
            if large_waits || !peer.takes(len, self.buffer) {
                peer.queue.push_back(send);
            } else {
                self.waiting -= 1;
                self.hand_over(now, core, out, slot, &send);
            }
        }
    }

    /// There is room in the stream, for which only large messages wait: small ones would be gone.
    fn refill<C: Core>(&mut self, now: Time, core: &mut C, out: &mut DriverIo<'_>, slot: usize) {
        while let Some(send) = self.peers[slot].next_with_room(self.buffer) {
            self.waiting -= 1;
            self.hand_over(now, core, out, slot, &send);
        }
    }

    fn dial<C: Core>(&mut self, now: Time, core: &mut C, out: &mut DriverIo<'_>, slot: usize) {
        let host = self.config.host;
        let peer = &mut self.peers[slot];
        match peer.dial {
            Dial::Active(_) => return,
            _ if peer.not_before > now => {
                peer.dial = Dial::Waiting(peer.not_before);
                let at = peer.not_before;
                return self.review(at);
            }
            Dial::Waiting(_) | Dial::Idle => {}
        }
        if !peer.find_way(out.wire, host, self.streams) {
            return self.dial_failed(now, core, slot, Status::Unreachable);
        }
        let link = out.wire.new_link(host);
        peer.dial = Dial::Active(link);
        let content = Content::Dial { incarnation: self.config.incarnation };
        let Some(mut packet) = peer.packet(&self.config, link, HELLO, content) else {
            return self.dial_failed(now, core, slot, Status::Unreachable);
        };
        // TCP's round trip comes first.
        packet.lag = Nanos(2 * out.wire.delay(&packet.hops).0);
        out.wire.send(now, packet);
    }

    /// What waits for a connection fails; the next attempt has to wait longer than the last one.
    fn dial_failed<C: Core>(&mut self, now: Time, core: &mut C, slot: usize, status: Status) {
        let (min, max) = self.reconnect;
        let peer = &mut self.peers[slot];
        peer.dial = Dial::Idle;
        peer.interval = Nanos(peer.interval.0 * 2).clamp(min, max);
        peer.not_before = now + peer.interval;
        self.fail_queue(now, core, slot, status);
    }

    fn fail_queue<C: Core>(&mut self, now: Time, core: &mut C, slot: usize, status: Status) {
        for send in core::mem::take(&mut self.peers[slot].queue) {
            self.waiting -= 1;
            core.done(now, send.op, status);
        }
    }

    /// The last connection of a peer is gone: what was in flight on it fails, what waits is tried
    /// again.
    fn down<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        slot: usize,
        status: Status,
    ) {
        let peer = &mut self.peers[slot];
        self.closed += peer.links.len() as u64;
        peer.links.clear();
        peer.in_stream = 0;
        for lent in core::mem::take(&mut peer.lent) {
            self.lent -= 1;
            core.done(now, lent.op, status);
        }
        for rx in peer.forget_parked(slot) {
            core.forget(peer.ni, rx);
        }
        core.link(now, peer.ni, peer.id(), LinkEvent::Down { status });
        if !self.peers[slot].queue.is_empty() {
            self.dial(now, core, out, slot);
        }
    }

    /// Closes all connections with a peer, and notifies the peer.
    fn close<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        slot: usize,
        status: Status,
    ) {
        self.peers[slot].dial = Dial::Idle;
        self.fail_queue(now, core, slot, status);
        for link in self.peers[slot].links.clone() {
            self.reply(now, out, slot, link, Content::Closed);
        }
        if !self.peers[slot].links.is_empty() {
            self.down(now, core, out, slot, status);
        }
    }

    fn reply(
        &mut self,
        now: Time,
        out: &mut DriverIo<'_>,
        slot: usize,
        link: LinkId,
        content: Content,
    ) {
        if let Some(packet) = self.peers[slot].packet(&self.config, link, HELLO, content) {
            out.wire.send(now, packet);
        }
    }
}

impl Driver for MessageDriver {
    type NiConfig = Nid;
    type Report = Box<Packet>;
    /// A host has one partition: nothing is handed to another.
    type Handoff = Infallible;

    fn has_work(&self) -> bool {
        false
    }

    fn next_deadline(&self) -> Time {
        self.review_at
    }

    fn set_tunables(&mut self, _now: Time, tunables: &Tunables) {
        let Settings { reconnect, buffer, streams, zero_copy } =
            Settings::new(&self.config, tunables);
        (self.reconnect, self.buffer) = (reconnect, buffer);
        (self.streams, self.zero_copy) = (streams, zero_copy);
    }

    fn add_ni(&mut self, index: NiIndex, nid: Nid) {
        let (nids, place) = (&mut self.config.nids, usize::from(index.0));
        nids.resize(nids.len().max(place + 1), Nid::ANY);
        assert!(nids[place].is_any(), "{index:?} is an interface already");
        nids[place] = nid;
    }

    fn set_conns_per_peer(&mut self, _: NiIndex, conns_per_peer: u16) {
        self.streams = u64::from(conns_per_peer);
    }

    fn next_handoff(&mut self) -> Option<(u16, Infallible)> {
        None
    }

    fn connection_types(&self) -> Vec<&'static str> {
        vec![CONNECTION_TYPE]
    }

    fn counter_rows(&self) -> Vec<DriverCounter> {
        let row = |name, value| DriverCounter {
            driver: "message",
            name,
            value,
            metric: &CONNECTIONS,
            label: Some(name),
            log: None,
        };
        vec![row("opened", self.opened), row("closed", self.closed)]
    }

    fn peer_rows(&self) -> impl Iterator<Item = DriverPeer> + '_ {
        self.peers.iter().filter(|peer| !peer.links.is_empty() || peer.is_busy()).map(Peer::row)
    }

    fn take_notices(&mut self) -> Vec<DriverNotice> {
        Vec::new()
    }
}

impl DriverOn<DriverIo<'_>> for MessageDriver {
    fn register_memory(&mut self, io: &mut DriverIo<'_>) {
        while let Some(change) = io.memory.next_region_change() {
            self.regions.change(change);
        }
    }

    fn report<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut DriverIo<'_>,
        packet: Box<Packet>,
    ) {
        self.arrive(now, core, io, packet);
    }

    fn adopt<C: Core>(&mut self, _: Time, _: &mut C, _: &mut DriverIo<'_>, handoff: Infallible) {
        match handoff {}
    }

    fn close_nids<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut DriverIo<'_>,
        nids: &[Nid],
        status: Status,
    ) {
        for slot in 0..self.peers.len() {
            if nids.contains(&self.peers[slot].nid) {
                self.close(now, core, io, slot, status);
            }
        }
    }

    fn remove_ni<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut DriverIo<'_>,
        ni: NiIndex,
        status: Status,
    ) {
        for slot in 0..self.peers.len() {
            if self.peers[slot].ni == ni {
                self.close(now, core, io, slot, status);
            }
        }
        // Another interface may get the index: its peers are others.
        self.index.retain(|(of, _), _| *of != ni);
        self.recent = usize::MAX;
        self.config.nids[usize::from(ni.0)] = Nid::ANY;
    }

    fn tick<C: Core>(&mut self, now: Time, core: &mut C, io: &mut DriverIo<'_>) {
        if now < self.review_at {
            return;
        }
        self.review_at = Time::NEVER;
        for slot in 0..self.peers.len() {
            let peer = &mut self.peers[slot];
            let dial = peer.dial;
            let (mut next, waiting) = (Time::NEVER, &mut self.waiting);
            peer.queue.retain(|send| {
                let waits = send.deadline > now;
                if waits {
                    next = next.min(send.deadline);
                } else {
                    *waiting -= 1;
                    core.done(now, send.op, Status::TimedOut);
                }
                waits
            });
            self.review(next);
            match dial {
                Dial::Waiting(due) if due <= now => self.dial(now, core, io, slot),
                Dial::Waiting(due) => self.review(due),
                Dial::Idle | Dial::Active(_) => {}
            }
        }
    }

    fn submit<C: Core>(&mut self, now: Time, core: &mut C, io: &mut DriverIo<'_>, action: &Action) {
        match action {
            Action::Send(send) => self.route(now, core, io, send),
            Action::Resume { rx, verdict, .. } => self.resume(now, core, io, *rx, verdict),
            Action::Close { ni, peer, status } => {
                let slot = self.peer_of(*ni, peer.nid);
                self.close(now, core, io, slot, *status);
            }
        }
    }

    fn flush<C: Core>(&mut self, now: Time, core: &mut C, io: &mut DriverIo<'_>) {
        let mut arrived = core::mem::take(io.arrived);
        for packet in arrived.drain(..) {
            self.arrive(now, core, io, packet);
        }
        *io.arrived = arrived;
    }

    fn close_all<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        io: &mut DriverIo<'_>,
        status: Status,
    ) {
        self.shut = Some(status);
        for slot in 0..self.peers.len() {
            self.close(now, core, io, slot, status);
        }
    }
}

impl HasMemory for DriverIo<'_> {
    type Inner = RopeMemory;

    fn memory(&self) -> &RopeMemory {
        self.memory
    }

    fn memory_mut(&mut self) -> &mut RopeMemory {
        self.memory
    }
}
