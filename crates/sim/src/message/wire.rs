//! Carries packets from host to host.
//!
//! A message passes link after link as a whole, but cut through: it enters the next link with its
//! first bit, and counts as arrived with its last. Small messages have separate connections and do
//! not wait behind large ones: at each link a small message waits for other small ones, and for at
//! most [`BURST`] bytes of the rest. A full queue delays a message instead of losing it, which is
//! the effect that TCP achieves. Of a large message, packets that are lost by chance are sent again
//! from there, all those of a round trip together, as after TCP's fast retransmit. A small message
//! that is lost by chance, and any message at a cut, is sent again as a whole after a time-out.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_lnet::lnd::OpKey;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::tunables::Tunables;
use lustrine_wire::nid::Nid;

use super::calendar::{Calendar, Event, Place};
use super::packet::{Content, LinkId, Packet, PacketId, Packets};
use crate::fabric::{Burst, Fabric, Hop, Hops, Transit};
use crate::memory::Digests;
use crate::network::HostId;
use crate::rng::Rng;
use crate::tcp::TcpSpec;

/// Bytes of large messages that a small one waits for: what a host sends at once.
const BURST: u64 = 64 << 10;

/// The smallest part of a message that is assumed to take room in a queue.
const PACKET: u64 = 1500;

/// The shortest time from one host to another, and through a link.
const QUICKEST: Nanos = Nanos(1000);

/// The shortest time after which a lost message is sent again when nothing reported the loss.
const AGAIN: Nanos = Nanos::from_millis(200);

/// How often packets of a large message are sent again before all of it has to wait for a time-out.
/// Of a thousand packets, half of which are lost each time, one needs ten.
const ROUNDS_MAX: u64 = 16;

/// The state of one direction of a link in addition to that of the fabric.
#[derive(Debug)]
struct LinkDirection {
    /// When all small messages have been sent.
    small_until: Time,
    rng: Rng,
}

/// How a message left a link.
struct Through {
    head: Time,
    tail: Time,
}

/// How a host is reached.
#[derive(Clone, Copy, Debug)]
struct Stand {
    up: Hop,
    /// Bytes of a full packet on a link.
    packet: u64,
    /// How long its driver waits for progress.
    patience: Nanos,
    /// Packets sent so far.
    packets: u32,
    /// Whether nothing gets in or out.
    silent: bool,
}

/// Links, and the packets in flight.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) fabric: Fabric,
    pub(super) calendar: Calendar,
    pub(super) packets: Packets,
    /// Digests of payloads.
    pub(super) digests: Digests,
    /// New events happen at this time at the earliest.
    pub(super) earliest: Time,
    homes: HashMap<Nid, HostId, FixedState>,
    stands: Vec<Stand>,
    directions: Vec<Option<LinkDirection>>,
    /// Links between sites that packets have used.
    between: Vec<Hop>,
    width: Nanos,
    seed: u64,
    /// Messages that arrived.
    pub(super) arrived: u64,
}

impl Wire {
    pub(super) fn new(seed: u64, now: Time) -> Wire {
        Wire {
            fabric: Fabric::default(),
            calendar: Calendar::new(QUICKEST),
            packets: Packets::default(),
            digests: Digests::default(),
            earliest: now,
            homes: HashMap::default(),
            stands: Vec::new(),
            directions: Vec::new(),
            between: Vec::new(),
            width: QUICKEST,
            seed,
            arrived: 0,
        }
    }

    /// Adds a host, which the fabric has already.
    pub(super) fn add_host(&mut self, nids: &[Nid], tunables: &Tunables, tcp: TcpSpec) {
        let host = HostId(self.stands.len() as u32);
        let (up, _) = self.fabric.interface(host).expect("it was placed");
        let patience = Nanos::from_secs(tunables.socklnd.sock_timeout as u64);
        let packet = tcp.packet();
        self.stands.push(Stand { up, packet, patience, packets: 0, silent: false });
        for nid in nids {
            let before = self.homes.insert(*nid, host);
            assert!(before.is_none(), "{nid} has a host already");
        }
    }

    pub(super) fn home_of(&self, nid: &Nid) -> Option<HostId> {
        self.homes.get(nid).copied()
    }

    pub(super) fn set_silent(&mut self, host: HostId, silent: bool) {
        self.stands[host.0 as usize].silent = silent;
    }

    pub(super) fn is_silent(&self, host: HostId) -> bool {
        self.stands[host.0 as usize].silent
    }

    /// A new identifier of a connection.
    pub(super) fn new_link(&self, host: HostId) -> LinkId {
        // By host and its packets, so that the order in which hosts act does not matter.
        LinkId(u64::from(host.0) << 32 | u64::from(self.stands[host.0 as usize].packets))
    }

    /// The links from host to host for one of several streams.
    pub(super) fn hops(&mut self, from: HostId, to: HostId, stream: u64) -> Option<Hops> {
        let ends = u64::from(from.0.min(to.0)) << 32 | u64::from(from.0.max(to.0));
        let hops = self.fabric.hops(from, to, Rng::new(ends).draw() ^ stream)?;
        for hop in hops.iter().skip(1).rev().skip(1) {
            if !self.between.contains(hop) {
                self.between.push(*hop);
                self.narrow(*hop);
            }
        }
        Some(hops)
    }

    /// Makes windows no wider than the delay of a link.
    fn narrow(&mut self, hop: Hop) {
        let delay = self.fabric.spec(hop).delay.max(QUICKEST);
        if delay < self.width {
            self.width = delay;
            self.calendar.set_width(delay);
        }
    }

    /// Makes windows as wide as the delay of the shortest link: within a window, hosts and links
    /// cannot influence each other.
    pub(super) fn measure(&mut self) {
        let ups = self.stands.iter().map(|stand| &stand.up);
        let delays = ups.chain(&self.between).map(|hop| self.fabric.spec(*hop).delay);
        self.width = delays.min().unwrap_or(QUICKEST).max(QUICKEST);
        self.calendar.set_width(self.width);
    }

    /// Gives a host a turn then.
    pub(super) fn wake(&mut self, host: HostId, at: Time) {
        self.calendar.add(Event { place: Place::host(host.0), at, order: 0, packet: None });
    }

    /// Sends a packet, and returns how long it waits for the outgoing link of the host.
    pub(super) fn send(&mut self, now: Time, mut packet: Packet) -> Nanos {
        let stand = &mut self.stands[packet.from.0 as usize];
        packet.order = u64::from(packet.from.0) << 32 | u64::from(stand.packets);
        stand.packets = stand.packets.wrapping_add(1);
        (packet.sent, packet.tail, packet.at) = (now, now, 0);
        let wait = match packet.hops.first() {
            Some(up) if !packet.is_small() => {
                let whole = self.fabric.glance(&[*up], now).unwrap_or(Nanos::ZERO);
                Nanos(whole.0.saturating_sub(self.fabric.spec(*up).delay.0))
            }
            _ => Nanos::ZERO,
        };
        let id = self.packets.add_new(packet);
        self.forward(id, now);
        wait
    }

    /// A notification that reaches a host directly at a time, or soon after.
    pub(super) fn notify(&mut self, at: Time, mut packet: Box<Packet>) {
        packet.at = packet.hops.len() as u8;
        packet.tail = at.max(self.earliest);
        // In addition to the packet that it concerns.
        packet.order |= match packet.content {
            Content::Room(_) => 1 << 62,
            _ => 1 << 63,
        };
        let (to, order, at) = (packet.to, packet.order, packet.tail);
        let id = self.packets.add(packet);
        self.calendar.add(Event { place: Place::host(to.0), at, order, packet: Some(id) });
    }

    /// Passes a packet whose first bit is at a link on to the next link or to its host.
    pub(super) fn forward(&mut self, id: PacketId, head: Time) {
        let packet = self.packets.get_mut(id);
        let Some(hop) = packet.hops.get(usize::from(packet.at)).copied() else {
            // Within a host.
            let at = head.max(self.earliest);
            packet.tail = at;
            let event = Event {
                place: Place::host(packet.to.0),
                at,
                order: packet.order,
                packet: Some(id),
            };
            self.calendar.add(event);
            return;
        };
        let silent = packet.at == 0 && self.stands[packet.from.0 as usize].silent;
        let passed = if silent { None } else { self.pass(id, hop, head) };
        match passed {
            None => self.lose(id, head),
            Some(Through { head, tail }) => {
                let packet = self.packets.get_mut(id);
                packet.at += 1;
                let at = head.max(self.earliest);
                packet.tail = tail.max(at);
                let left = packet.hops.len() - usize::from(packet.at);
                let place = match left {
                    0 | 1 => Place::host(packet.to.0),
                    _ => Place::link(packet.hops[usize::from(packet.at)].0),
                };
                let order = packet.order;
                self.calendar.add(Event { place, at, order, packet: Some(id) });
            }
        }
    }

    /// A packet at the last link before its host passes it at once. Returns when it arrives, or
    /// `None` if it was lost.
    pub(super) fn land(&mut self, id: PacketId, head: Time) -> Option<Time> {
        let packet = self.packets.get_mut(id);
        let at = usize::from(packet.at);
        let Some(hop) = packet.hops.get(at).copied() else { return Some(packet.tail) };
        let silent = self.stands[packet.to.0 as usize].silent;
        match if silent { None } else { self.pass(id, hop, head) } {
            None => {
                self.lose(id, head);
                None
            }
            Some(Through { tail, .. }) => {
                let packet = self.packets.get_mut(id);
                packet.at += 1;
                packet.tail = tail + packet.lag;
                Some(packet.tail)
            }
        }
    }

    /// Answers a packet that the host does not accept, as the host's TCP would: at once.
    pub(super) fn turn_away(&mut self, now: Time, mut packet: Box<Packet>, content: Content) {
        core::mem::swap(&mut packet.from, &mut packet.to);
        core::mem::swap(&mut packet.local, &mut packet.remote);
        packet.content = content;
        self.notify(now + self.fabric.delay(&packet.hops), packet);
    }

    /// Notifies the sender of a large message that this number of its bytes has arrived.
    pub(super) fn acknowledge(&mut self, id: PacketId) {
        let packet = self.packets.get_mut(id);
        if packet.is_small() {
            return;
        }
        let at = packet.tail;
        let word = Packet {
            from: packet.to,
            to: packet.from,
            local: packet.remote,
            remote: packet.local,
            hops: Hops::from_slice(&packet.hops),
            content: Content::Room(packet.size),
            ..*packet
        };
        let word = self.packets.pack(word);
        self.notify(at + self.fabric.delay(&word.hops), word);
    }

    /// Notifies the sender of a large message that it is no longer needed.
    pub(super) fn confirm(&mut self, now: Time, packet: Box<Packet>, op: OpKey) {
        self.turn_away(now, packet, Content::Released(op));
    }

    /// Propagation delay along the path of a packet, and back.
    pub(super) fn delay(&self, hops: &[Hop]) -> Nanos {
        self.fabric.delay(hops)
    }

    /// A packet was lost; its sender sends it again until its time-out.
    fn lose(&mut self, id: PacketId, now: Time) {
        let packet = self.packets.get_mut(id);
        let patience = self.stands[packet.from.0 as usize].patience;
        let round = Nanos(2 * self.fabric.delay(&packet.hops).0);
        let wait = Nanos(round.max(AGAIN).0 << packet.losses.min(6));
        packet.losses = packet.losses.saturating_add(1);
        let at = (now + wait).max(self.earliest);
        let order = packet.order;
        if at.since(packet.sent) < patience {
            packet.tail = at;
            let place = match usize::from(packet.at) {
                0 => Place::host(packet.from.0),
                hop if hop + 1 == packet.hops.len() => Place::host(packet.to.0),
                hop => Place::link(packet.hops[hop].0),
            };
            self.calendar.add(Event { place, at, order, packet: Some(id) });
            return;
        }
        let mut packet = self.packets.take(id);
        let until = packet.sent + patience;
        core::mem::swap(&mut packet.from, &mut packet.to);
        core::mem::swap(&mut packet.local, &mut packet.remote);
        packet.content = Content::Broken;
        self.notify(until.max(now), packet);
    }

    /// Passes a packet whose first bit is at a link through it; `None` if it is lost there.
    fn pass(&mut self, id: PacketId, hop: Hop, head: Time) -> Option<Through> {
        let packet = self.packets.get_mut(id);
        let (size, small, tail) = (packet.size, packet.is_small(), packet.tail);
        let full = self.stands[packet.from.0 as usize].packet;
        let index = hop.0 as usize;
        if self.directions.len() <= index {
            self.directions.resize_with(index + 1, || None);
        }
        let seed = self.seed ^ Rng::new(u64::from(hop.0)).draw();
        let new = || LinkDirection { small_until: Time::ZERO, rng: Rng::new(seed) };
        let lane = self.directions[index].get_or_insert_with(new);
        let spec = self.fabric.spec(hop);
        let glance = self.fabric.glance(&[hop], head)?;
        let tail = tail + spec.delay;
        // Of a large message only some packets are lost by chance.
        let burst = |len| if small { Burst::new(len, full) } else { Burst::sure(len) };
        let late = match small || spec.loss == 0 {
            true => Nanos::ZERO,
            false => {
                let rounds = rounds(&mut self.fabric, hop, Burst::new(size, full), &mut lane.rng)?;
                let packet = self.packets.get_mut(id);
                let trip = Nanos(2 * self.fabric.delay(&packet.hops).0).max(QUICKEST);
                Nanos(rounds * trip.0)
            }
        };
        let Some(rate) = spec.rate else {
            return match self.fabric.pass(hop, head, burst(size), &mut lane.rng) {
                Transit::At(out) => Some(Through { head: out, tail: out.max(tail) + late }),
                Transit::Lost => None,
            };
        };
        let mut backlog = Nanos(glance.0 - spec.delay.0);
        let part = size.min((spec.queue / 2).max(PACKET));
        let (mut left, mut first, mut out) = (size, None, head);
        let (queued, mut took) = (backlog, Nanos::ZERO);
        while left != 0 {
            let piece = left.min(part);
            // A full queue has room after enough of it has left.
            let wait = match spec.queue {
                u64::MAX => 0,
                queue => {
                    let room = rate.time_for(queue.saturating_sub(piece)).0;
                    if backlog.0 > room { backlog.0 - room.saturating_sub(1) } else { 0 }
                }
            };
            match self.fabric.pass(hop, head + Nanos(wait), burst(piece), &mut lane.rng) {
                Transit::At(at) => out = at,
                Transit::Lost => return None,
            }
            took = rate.time_for(piece);
            first.get_or_insert(Time(out.0.saturating_sub(took.0)));
            backlog = Nanos(backlog.0 + took.0);
            left -= piece;
        }
        if !small {
            return Some(Through { head: first.unwrap_or(out), tail: out.max(tail) + late });
        }
        let most = if queued == Nanos::ZERO { queued } else { rate.time_for(BURST) };
        let wait = queued.min(most).max(lane.small_until.since(head));
        lane.small_until = lane.small_until.max(head) + took;
        let jitter = Nanos(lane.rng.below(spec.jitter.0.saturating_add(1)));
        let start = head + wait + spec.delay + jitter;
        Some(Through { head: start, tail: (start + took).max(tail) })
    }
}

/// The number of round trips that a large message needs to repeat the packets of it that a link
/// loses by chance; `None` if they are too many.
fn rounds(fabric: &mut Fabric, hop: Hop, message: Burst, rng: &mut Rng) -> Option<u64> {
    let mut left = message.packets;
    for rounds in 0..=ROUNDS_MAX {
        let lost = fabric.losses(hop, left, rng);
        fabric.lose(hop, lost * message.len.div_ceil(message.packets.max(1)));
        if lost == 0 {
            return Some(rounds);
        }
        left = lost;
    }
    None
}
