//! Injected faults.

use lustrine_lnet::time::Nanos;
use lustrine_socklnd::io::{IoError, SockId};

use super::end::{Packet, State};
use super::event_queue::NetworkEvent;
use super::{HANGUP, HostId, Network, other, pair, place};
use crate::event_log::EventKind;

impl Network {
    /// Nothing passes between two hosts any more; data is delayed, as TCP would repeat it.
    pub fn sever(&mut self, one: HostId, two: HostId) {
        self.cuts.insert(pair(one, two));
    }

    /// Requests for connections from one host to another one are lost, as by a firewall, and TCP
    /// repeats them; connections of the other direction are not concerned.
    pub fn lose_dials(&mut self, from: HostId, to: HostId) {
        self.deaf.insert((from, to));
    }

    /// Requests for connections pass again when they are repeated.
    pub fn pass_dials(&mut self, from: HostId, to: HostId) {
        self.deaf.remove(&(from, to));
    }

    /// Restores a cut connection; delayed data arrives.
    pub fn restore(&mut self, one: HostId, two: HostId) {
        if !self.cuts.remove(&pair(one, two)) {
            return;
        }
        let latency = self.link(one, two).latency();
        let mut socks: Vec<SockId> = self
            .connections
            .keys()
            .flat_map(|number| [SockId(number << 1), SockId(number << 1 | 1)])
            .filter(|sock| self.is_between(*sock, pair(one, two)))
            .collect();
        socks.sort();
        for sock in socks {
            let at = self.now + latency + Nanos(self.rng.below(latency.0 + 1));
            let Some(end) = self.end_mut(sock) else { continue };
            let held = core::mem::take(&mut end.held);
            let at = at.max(end.last_arrival);
            end.last_arrival = at;
            for _ in 0..held {
                self.event_queue.add(at, NetworkEvent::Deliver(sock));
            }
        }
    }

    /// Breaks a stream in the middle: both ends see a reset, and what was in flight is lost.
    pub fn break_stream(&mut self, sock: SockId) {
        for sock in [sock, other(sock)] {
            let Some(end) = self.end_mut(sock) else { continue };
            if end.state == State::Closed {
                continue;
            }
            end.error = Some(IoError::Reset);
            if let Some(flow) = end.flow.as_deref_mut() {
                flow.clear();
            }
            end.flight.clear();
            end.held = 0;
            let host = end.host;
            self.note(host, sock, EventKind::Reset, 1);
            self.raise(sock, HANGUP);
        }
        let (connection, _) = place(sock);
        self.forget_if_over(connection);
    }

    /// Takes a host down with all its streams. A silent host sends nothing and nothing answers in
    /// its place until it is back; another one resets its streams.
    pub(crate) fn fell(&mut self, host: HostId, silently: bool) {
        self.note(host, SockId(0), EventKind::Died, u64::from(silently));
        for sock in self.streams_of(host) {
            if let Some(end) = self.end_mut(sock) {
                end.lost = silently;
            }
            self.leave(sock, (!silently).then_some(Packet::Reset));
        }
        self.hellos.forget_host(host);
        self.listeners.retain(|_, owner| *owner != host);
        let own = &mut self.hosts[host.0 as usize];
        own.up = !silently;
        own.incoming.clear();
        own.ready.clear();
    }

    /// Brings a host back.
    pub(crate) fn raise_host(&mut self, host: HostId) {
        self.note(host, SockId(0), EventKind::Born, 0);
        self.hosts[host.0 as usize].up = true;
    }
}
