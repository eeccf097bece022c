//! Byte streams between hosts, with delays, limits, cuts, refusals and resets.
//!
//! The network is passive: [`Network::advance`] processes what is due, everything else is called by
//! the hosts. Reports for a host are queued for it, edge-triggered, as [`lustrine_socklnd::io`]
//! describes.

mod carry;
mod end;
mod event_queue;
mod faults;
mod flow;
mod hellos;
mod hosts;
mod link;
mod transfer;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use foldhash::fast::FixedState;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_socklnd::io::{IoError, Readiness, SockId};

use crate::event_log::{EventKind, EventLog, LogEntry};
use crate::fabric::Fabric;
use crate::rng::Rng;
use end::{Connection, End, Packet, State};
use event_queue::{EventQueue, NetworkEvent};
use hellos::Hellos;
use hosts::Host;

pub use crate::host_id::HostId;
pub(crate) use end::{Lent, Report};
pub use hosts::Incoming;
pub use link::{Chunking, Link};
pub(crate) use transfer::Offer;
pub use transfer::StreamEnd;

/// How long a host tries to resolve an address on its own net that no host has.
const NO_SUCH_HOST: Nanos = Nanos::from_secs(3);
/// The first repetition of a connection request without an answer; each later one takes twice as
/// long. It is repeated after 1, 3, 7, 15, 31 and 63 s, and fails after 127 s, as in Linux
/// (`tcp_syn_retries`, 6).
const SYN_AGAIN: Nanos = Nanos::from_secs(1);
const SYN_RETRIES: u32 = 6;

/// All hosts and streams of a world.
#[derive(Debug)]
pub struct Network {
    now: Time,
    rng: Rng,
    event_log: EventLog,
    hosts: Vec<Host>,
    homes: HashMap<IpAddr, HostId, FixedState>,
    listeners: HashMap<SocketAddr, HostId, FixedState>,
    connections: HashMap<u64, Connection, FixedState>,
    /// Local and remote address of every dialled connection that is still remembered.
    dialled: HashSet<(SocketAddr, SocketAddr), FixedState>,
    next_connection: u64,
    pub(crate) fabric: Fabric,
    usual: Link,
    links: BTreeMap<(HostId, HostId), Link>,
    cuts: HashSet<(HostId, HostId), FixedState>,
    event_queue: EventQueue,
    dirty: VecDeque<HostId>,
    hellos: Hellos,
    /// Where connection requests from one host to another one are lost.
    deaf: HashSet<(HostId, HostId), FixedState>,
}

/// The connection of a stream's end, and which of its two ends it is.
fn place(sock: SockId) -> (u64, usize) {
    (sock.0 >> 1, (sock.0 & 1) as usize)
}

fn sock_of(connection: u64, side: usize) -> SockId {
    SockId(connection << 1 | side as u64)
}

fn other(sock: SockId) -> SockId {
    SockId(sock.0 ^ 1)
}

impl Network {
    /// A network without hosts, at time `now`.
    pub(crate) fn new(now: Time, rng: Rng) -> Network {
        Network {
            now,
            rng,
            event_log: EventLog::default(),
            hosts: Vec::new(),
            homes: HashMap::default(),
            listeners: HashMap::default(),
            connections: HashMap::default(),
            dialled: HashSet::default(),
            next_connection: 1,
            fabric: Fabric::default(),
            usual: Link::default(),
            links: BTreeMap::new(),
            cuts: HashSet::default(),
            event_queue: EventQueue::default(),
            dirty: VecDeque::new(),
            hellos: Hellos::default(),
            deaf: HashSet::default(),
        }
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The events so far.
    pub fn event_log(&self) -> &EventLog {
        &self.event_log
    }

    pub(crate) fn note(&mut self, host: HostId, end: SockId, what: EventKind, value: u64) {
        self.event_log.note(LogEntry { at: self.now, host, end: end.0, what, value });
    }

    /// When the next event is due.
    pub(crate) fn next_due(&self) -> Time {
        self.event_queue.next()
    }

    /// Processes everything that is due at `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time runs forward");
        self.now = now;
        while let Some(doing) = self.event_queue.take(now) {
            match doing {
                NetworkEvent::Syn { connection, repeated } => self.syn(connection, repeated),
                NetworkEvent::Deliver(sock) => self.deliver(sock),
                NetworkEvent::Room { sock, len } => self.room(sock, len),
                NetworkEvent::Acknowledged { sock, upto } => self.acknowledged(sock, upto),
                NetworkEvent::SegmentBurst { sock, sending, len, hop } => {
                    self.burst(sock, sending, len, hop)
                }
                NetworkEvent::Ack { sock, sending, edge } => self.ack(sock, sending, edge),
                NetworkEvent::Opened { sock, edge } => self.opened(sock, edge),
                NetworkEvent::SendEdge(sock) => self.tell_edge(sock),
                NetworkEvent::Pump(sock) => self.pump_now(sock),
                NetworkEvent::Timer(sock) => self.timer(sock),
                NetworkEvent::Report { sock, readiness } => self.raise(sock, readiness),
            }
        }
    }

    fn end(&self, sock: SockId) -> Option<&End> {
        let (connection, side) = place(sock);
        self.connections.get(&connection).map(|found| &found.ends[side])
    }

    fn end_mut(&mut self, sock: SockId) -> Option<&mut End> {
        let (connection, side) = place(sock);
        self.connections.get_mut(&connection).map(|found| &mut found.ends[side])
    }

    /// Queues a report for the owner of the end.
    fn raise(&mut self, sock: SockId, readiness: Readiness) {
        let Some(end) = self.end_mut(sock) else { return };
        if end.state == State::Closed {
            return;
        }
        let pending = &mut end.pending;
        pending.readable |= readiness.readable;
        pending.writable |= readiness.writable;
        pending.hangup |= readiness.hangup;
        pending.zero_copy_done += readiness.zero_copy_done;
        pending.zero_copy_copied += readiness.zero_copy_copied;
        let host = end.host;
        if !core::mem::replace(&mut end.listed, true) {
            self.hosts[host.0 as usize].ready.push_back(sock);
            self.touch(host);
        }
    }

    /// Sends something to an end; it arrives after everything that was sent there before.
    fn ship(&mut self, to: SockId, packet: Packet) {
        let (connection, side) = place(to);
        let Some(found) = self.connections.get(&connection) else { return };
        let hosts = (found.ends[0].host, found.ends[1].host);
        let at = match self.is_carried(hosts.0, hosts.1) {
            true => {
                let (from, to) = if side == 0 { (hosts.1, hosts.0) } else { hosts };
                self.now + self.delay(from, to, connection)
            }
            false => {
                let link = self.link(hosts.0, hosts.1);
                self.now + link.latency() + Nanos(self.rng.below(link.jitter.0 + 1))
            }
        };
        let found = self.connections.get_mut(&connection).expect("it was just there");
        let end = &mut found.ends[side];
        let at = at.max(end.last_arrival);
        end.last_arrival = at;
        end.flight.push_back(packet);
        self.event_queue.add(at, NetworkEvent::Deliver(to));
    }

    /// Something arrives at an end.
    fn deliver(&mut self, sock: SockId) {
        let (connection, side) = place(sock);
        let Some(found) = self.connections.get(&connection) else { return };
        let (from, to) = (found.ends[1 - side].host, found.ends[side].host);
        let repeats = self.is_carried(from, to) && self.is_cut(from, to, connection);
        let holds = self.cuts.contains(&pair(from, to));
        let found = self.connections.get_mut(&connection).expect("it was just there");
        let end = &mut found.ends[side];
        if repeats || holds {
            // TCP repeats everything but a reset: later segments are answered by another one.
            let place = if repeats { 0 } else { end.held as usize };
            if matches!(end.flight.get(place), Some(Packet::Reset)) {
                end.flight.remove(place);
                self.forget_if_over(connection);
            } else if repeats {
                self.event_queue.add(self.now + carry::AGAIN, NetworkEvent::Deliver(sock));
            } else {
                end.held += 1;
            }
            return;
        }
        // A stream that was reset in the meantime has nothing in flight any more.
        let Some(packet) = end.flight.pop_front() else { return };
        if end.state == State::Closed {
            // A host that is up answers segments of a stream that it does not have with a reset.
            let answer = match packet {
                Packet::Bytes(_) => true,
                Packet::Fin => end.lost || end.aborted,
                _ => false,
            };
            if answer && self.hosts[to.0 as usize].up {
                self.ship(other(sock), Packet::Reset);
            }
            self.forget_if_over(connection);
            return;
        }
        match packet {
            Packet::Established => {
                end.state = State::Open;
                self.note(to, sock, EventKind::Established, 0);
                self.raise(sock, Readiness { writable: true, ..Readiness::default() });
            }
            Packet::Failed(error) => {
                end.error = Some(error);
                self.note(to, sock, EventKind::Failed, error as u64);
                self.raise(sock, HANGUP);
            }
            Packet::Bytes(bytes) => {
                end.arrived += bytes.len();
                let (upto, digest) = (end.arrived, bytes.digest());
                end.inbox.append(bytes);
                self.note(to, sock, EventKind::Bytes, digest);
                self.raise(sock, Readiness { readable: true, ..Readiness::default() });
                self.acknowledge(sock, upto);
            }
            Packet::Fin => self.ended(sock),
            Packet::Reset => {
                end.error = Some(IoError::Reset);
                if let Some(flow) = end.flow.as_deref_mut() {
                    flow.clear();
                }
                self.note(to, sock, EventKind::Reset, 0);
                self.raise(sock, HANGUP);
            }
        }
    }

    /// The other side has closed its half.
    fn ended(&mut self, sock: SockId) {
        let Some(end) = self.end_mut(sock) else { return };
        end.ended = true;
        let host = end.host;
        self.note(host, sock, EventKind::Ended, 0);
        let report = Readiness { readable: true, hangup: true, ..Readiness::default() };
        self.raise(sock, report);
    }

    /// Forgets a connection without owners on which nothing travels.
    fn forget_if_over(&mut self, connection: u64) {
        let Some(found) = self.connections.get(&connection) else { return };
        let over = found.ends.iter().all(|end| {
            end.state == State::Closed
                && end.flight.is_empty()
                && end.held == 0
                && end.flow.as_ref().is_none_or(|flow| flow.is_idle())
        });
        if over {
            let dialler = &found.ends[0];
            self.dialled.remove(&(dialler.local, dialler.remote));
            self.connections.remove(&connection);
        }
    }
}

const HANGUP: Readiness = Readiness {
    readable: true,
    writable: true,
    hangup: true,
    zero_copy_done: 0,
    zero_copy_copied: 0,
};

/// Two hosts, in either order.
fn pair(one: HostId, two: HostId) -> (HostId, HostId) {
    (one.min(two), one.max(two))
}

#[cfg(test)]
mod tests;
