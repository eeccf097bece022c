//! Streams between hosts with a place in the fabric: bursts over links, acknowledgements back.

use lustrine_lnet::time::Nanos;
use lustrine_socklnd::io::{Readiness, SockId};

use super::end::{Packet, State};
use super::event_queue::NetworkEvent;
use super::flow::{Flow, FlowPath, Next, Sending};
use super::{HostId, Network, other, pair, place, sock_of};
use crate::event_log::EventKind;
use crate::fabric::{Burst, Hop, Transit};
use crate::memory::Rope;
use crate::tcp::TcpSpec;

/// The delay from one process to another on the same host.
const WITHIN: Nanos = Nanos::from_micros(5);

/// The interval at which an update without a burst is repeated while a link is cut.
pub(super) const AGAIN: Nanos = Nanos::from_millis(200);

impl Network {
    /// The TCP properties of a host's streams, from the next one on.
    pub fn set_tcp(&mut self, host: HostId, tcp: TcpSpec) {
        self.hosts[host.0 as usize].tcp = tcp;
    }

    /// Whether streams of the two hosts use the fabric's links.
    pub(super) fn is_carried(&self, one: HostId, two: HostId) -> bool {
        self.fabric.has(one) && self.fabric.has(two)
    }

    /// Whether nothing passes from one host to the other at this time.
    pub(super) fn is_cut(&mut self, from: HostId, to: HostId, stream: u64) -> bool {
        if self.cuts.contains(&pair(from, to)) {
            return true;
        }
        self.is_carried(from, to) && self.carried_delay(from, to, stream).is_none()
    }

    /// The time from sending a small packet to its arrival.
    pub(super) fn delay(&mut self, from: HostId, to: HostId, stream: u64) -> Nanos {
        match self.is_carried(from, to) {
            false => self.link(from, to).latency(),
            true => self.carried_delay(from, to, stream).unwrap_or(AGAIN),
        }
    }

    fn carried_delay(&mut self, from: HostId, to: HostId, stream: u64) -> Option<Nanos> {
        let hops = self.fabric.hops(from, to, stream)?;
        match hops.is_empty() {
            true => Some(WITHIN),
            false => Some(self.fabric.glance(&hops, self.now)?.max(Nanos(1))),
        }
    }

    /// Gives a connection that was just accepted its flows, if its hosts have places in the fabric.
    pub(super) fn open_flows(&mut self, connection: u64) {
        let Some(found) = self.connections.get(&connection) else { return };
        let hosts = [found.ends[0].host, found.ends[1].host];
        if !self.is_carried(hosts[0], hosts[1]) {
            return;
        }
        for side in 0..2 {
            let (from, to) = (hosts[side], hosts[1 - side]);
            let there = self.fabric.hops(from, to, connection).unwrap_or_default();
            let back = self.fabric.hops(to, from, connection).unwrap_or_default();
            let queue = self.fabric.queue(there.get(1..).unwrap_or_default());
            let way = FlowPath { rate: self.fabric.rate(&there), there, back, queue };
            let flow = Flow::new(self.tcp(from), self.tcp(to).receive_buffer, way);
            let end = self.end_mut(sock_of(connection, side)).expect("it was just there");
            end.flow = Some(Box::new(flow));
        }
    }

    fn tcp(&self, host: HostId) -> TcpSpec {
        self.hosts[host.0 as usize].tcp
    }

    fn flow(&mut self, sock: SockId) -> Option<&mut Flow> {
        self.end_mut(sock)?.flow.as_deref_mut()
    }

    /// Appends bytes for the other end.
    pub(super) fn push(&mut self, sock: SockId, bytes: Rope) {
        let now = self.now;
        self.flow(sock).expect("a stream with a flow").push(now, bytes);
        self.pump(sock);
    }

    /// Sends what the window permits.
    pub(super) fn pump(&mut self, sock: SockId) {
        let now = self.now;
        loop {
            let Some(flow) = self.flow(sock) else { return };
            match flow.next(now) {
                Next::Send(sending, len) => {
                    let (first, whole) = (flow.hops.first().copied(), flow.on_link(len));
                    let len = whole.len;
                    let burst = NetworkEvent::SegmentBurst { sock, sending, len, hop: 1 };
                    let (sent_at, at) = match first {
                        None => (now + WITHIN, now + WITHIN),
                        Some(hop) => match self.fabric.leave(hop, now, whole, &mut self.rng) {
                            Transit::At(at) => (self.fabric.free_at(hop), at),
                            // It is dropped in front of the link.
                            Transit::Lost => continue,
                        },
                    };
                    let flow = self.flow(sock).expect("it was just there");
                    flow.enters_interface(len, sent_at, at);
                    self.event_queue.add(at, burst);
                }
                Next::At(at) => {
                    if !core::mem::replace(&mut flow.pump_is_due, true) {
                        self.event_queue.add(at, NetworkEvent::Pump(sock));
                    }
                    break;
                }
                Next::Nothing => break,
            }
        }
        let Some(flow) = self.flow(sock) else { return };
        if let Some(at) = flow.next_timer() {
            self.event_queue.add(at, NetworkEvent::Timer(sock));
        }
    }

    pub(super) fn pump_now(&mut self, sock: SockId) {
        if let Some(flow) = self.flow(sock) {
            flow.pump_is_due = false;
            self.pump(sock);
        }
    }

    /// A burst has left a link.
    pub(super) fn burst(&mut self, sock: SockId, sending: Sending, len: u64, hop: u32) {
        let Some(flow) = self.flow(sock) else { return };
        match flow.hops.get(hop as usize).copied() {
            Some(link) => self.pass_on(sock, sending, len, hop, link),
            None => self.arrive(sock, sending),
        }
        if hop == 1 {
            self.pump(sock);
        }
    }

    /// A burst arrives at its next link.
    fn pass_on(&mut self, sock: SockId, sending: Sending, len: u64, hop: u32, link: Hop) {
        let now = self.now;
        let room = self.fabric.room(link, now);
        let Some(flow) = self.flow(sock) else { return };
        let packet = flow.packet();
        let kept = if room < len { flow.shorten(sending, room) } else { len };
        if kept < len {
            self.fabric.lose(link, len - kept);
        }
        if kept == 0 {
            return;
        }
        let kept = Burst::new(kept, packet);
        if let Transit::At(at) = self.fabric.pass(link, now, kept, &mut self.rng) {
            let burst = NetworkEvent::SegmentBurst { sock, sending, len: kept.len, hop: hop + 1 };
            self.event_queue.add(at, burst);
        }
    }

    /// A burst has arrived at the other host.
    fn arrive(&mut self, sock: SockId, sending: Sending) {
        let (connection, side) = place(sock);
        let Some(found) = self.connections.get_mut(&connection) else { return };
        let (from, to) = (found.ends[side].host, found.ends[1 - side].host);
        if self.cuts.contains(&pair(from, to)) || !self.hosts[to.0 as usize].up {
            return;
        }
        let far = other(sock);
        let [zero, one] = &mut found.ends;
        let (near, end) = if side == 0 { (zero, one) } else { (one, zero) };
        if end.state == State::Closed {
            // A host that is up answers segments of a stream that it does not have with a reset.
            return self.ship(sock, Packet::Reset);
        }
        let Some(flow) = near.flow.as_deref_mut() else { return };
        let mut digests = 0;
        let mut news = false;
        for bytes in flow.arrive(sending).into_iter().flatten() {
            news = true;
            end.arrived += bytes.len();
            digests = crate::event_log::mix(digests, bytes.digest());
            end.inbox.append(bytes);
        }
        let through = flow.finished && flow.is_through();
        let edge = flow.tell_edge(end.inbox.len());
        if news {
            self.note(to, far, EventKind::Bytes, digests);
            self.raise(far, Readiness { readable: true, ..Readiness::default() });
        }
        if news && through {
            self.ended(far);
        }
        self.answer(sock, NetworkEvent::Ack { sock, sending, edge });
    }

    /// Sends a small packet back to the sender of a flow, behind those that were sent before; it is
    /// lost if a link is cut.
    fn answer(&mut self, sock: SockId, answer: NetworkEvent) {
        let now = self.now;
        let Some(back) = self.flow(sock).map(|flow| flow.back.clone()) else { return };
        let delay = match back.is_empty() {
            true => Some(WITHIN),
            false => self.fabric.glance(&back, now),
        };
        let (Some(delay), Some(flow)) = (delay, self.flow(sock)) else { return };
        // Also when the delay of a link has become shorter meanwhile.
        let at = (now + delay.max(Nanos(1))).max(flow.last_ack_arrival);
        flow.last_ack_arrival = at;
        self.event_queue.add(at, answer);
    }

    /// An acknowledgement has arrived.
    pub(super) fn ack(&mut self, sock: SockId, sending: Sending, edge: u64) {
        let now = self.now;
        let Some(end) = self.end_mut(sock) else { return };
        if end.lost {
            return;
        }
        let Some(flow) = end.flow.as_deref_mut() else { return };
        flow.opened(edge);
        flow.acknowledge(now, sending);
        let upto = flow.trains_start();
        let (room, idle) = (flow.room(), flow.is_idle());
        let third = flow.send_buffer() / 3;
        let has_pins = !end.pins.is_empty();
        if end.starved && room >= third {
            end.starved = false;
            self.raise(sock, Readiness { writable: true, ..Readiness::default() });
        }
        if has_pins {
            self.acknowledged(sock, upto);
        }
        if idle {
            self.forget_if_over(place(sock).0);
        }
        self.pump(sock);
    }

    /// The reader of `sock`'s stream has taken bytes, so its writer may need an update of the room.
    pub(super) fn mind_edge(&mut self, reader: SockId) {
        let writer = other(reader);
        let unread = self.end(reader).map_or(0, |end| end.inbox.len());
        let Some(flow) = self.flow(writer) else { return };
        if flow.should_tell(unread) {
            self.tell_edge(writer);
        }
    }

    /// Sends a writer an update of the room, and repeats it if a link is cut.
    pub(super) fn tell_edge(&mut self, writer: SockId) {
        let unread = self.end(other(writer)).map_or(0, |end| end.inbox.len());
        let now = self.now;
        let Some(flow) = self.flow(writer) else { return };
        let edge = flow.tell_edge(unread);
        let back = flow.back.clone();
        match self.fabric.glance(&back, now) {
            Some(delay) => {
                let at = now + delay.max(Nanos(1));
                self.event_queue.add(at, NetworkEvent::Opened { sock: writer, edge });
            }
            None => self.event_queue.add(now + AGAIN, NetworkEvent::SendEdge(writer)),
        }
    }

    /// A writer receives an update of the room.
    pub(super) fn opened(&mut self, sock: SockId, edge: u64) {
        if let Some(flow) = self.flow(sock) {
            flow.opened(edge);
            self.pump(sock);
        }
    }

    /// A flow's timer fires.
    pub(super) fn timer(&mut self, sock: SockId) {
        let now = self.now;
        let Some(end) = self.end_mut(sock) else { return };
        let orphaned = end.state == State::Closed;
        let Some(flow) = end.flow.as_deref_mut() else { return };
        if flow.timer_fired(now) && !flow.time_out(orphaned) {
            flow.clear();
            return self.forget_if_over(place(sock).0);
        }
        // This starts it again.
        self.pump(sock);
    }

    /// Closes the half of a flow after its last byte. `false` if the last byte has arrived and the
    /// caller must report the end.
    pub(super) fn finish_flow(&mut self, sock: SockId) -> bool {
        let Some(flow) = self.flow(sock) else { return false };
        flow.finished = true;
        !flow.is_through()
    }
}

#[cfg(test)]
mod tests;
