//! Byte streams and whole messages between the hosts of a testbed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lustrine_lnet::time::{Nanos, Time};

use super::super::calendar::Event;
use super::super::packet::{Content, Packet, PacketId};
use super::super::wire::Wire;
use crate::fabric::{LinkSpec, Rate, SiteId};
use crate::network::{HostId, Network};
use crate::node::NodeSpec;
use crate::rng::Rng;
use crate::stream::BEGIN;
use crate::tcp::TcpSpec;

/// The shortest step of time, which a turn of a node takes.
pub(super) const TURN: Nanos = Nanos(1000);

/// What carries between hosts: streams for socklnd, packets for the message driver.
pub(super) struct Links {
    pub(super) network: Network,
    pub(super) wire: Wire,
    /// Packets that are through their last link, by when they arrive.
    landing: BinaryHeap<Reverse<(Time, u64, PacketId)>>,
}

impl Links {
    pub(super) fn new() -> Links {
        let (network, wire) = (Network::new(BEGIN, Rng::new(1)), Wire::new(1, BEGIN));
        Links { network, wire, landing: BinaryHeap::new() }
    }

    pub(super) fn now(&self) -> Time {
        self.network.now()
    }

    /// Adds a host with the addresses of a node. The first one also makes the site for all of them.
    pub(super) fn add_host(&mut self, spec: &NodeSpec, is_first: bool, listens: bool) -> HostId {
        let host = self.network.add_host(&spec.addresses(), listens);
        let site = if is_first { self.wire.fabric.add_site() } else { SiteId(0) };
        let interface = LinkSpec {
            rate: Rate::from_bits(10_000_000_000),
            delay: Nanos::from_micros(25),
            ..LinkSpec::default()
        };
        self.wire.fabric.place(host, site, interface);
        self.wire.add_host(&spec.nids, &spec.tunables, TcpSpec::default());
        host
    }

    /// The next packet that has arrived at its host.
    pub(super) fn next_packet(&mut self, now: Time) -> Option<Box<Packet>> {
        let Reverse((at, ..)) = self.landing.peek()?;
        if *at > now {
            return None;
        }
        let Reverse((.., id)) = self.landing.pop()?;
        Some(self.wire.packets.take(id))
    }

    /// When something arrives next, as far as it is known now.
    pub(super) fn next_event(&self) -> Time {
        let landing = self.landing.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        landing.min(self.network.next_due())
    }

    /// Carries packets as far as they come before `next`, or before what arrives earlier.
    pub(super) fn carry_until(&mut self, next: Time) {
        while self.carry(self.step(next)) {}
    }

    /// Lets time pass until `next`, or until what arrives earlier.
    pub(super) fn advance(&mut self, next: Time) {
        self.network.advance(self.step(next));
    }

    fn step(&self, next: Time) -> Time {
        next.min(self.next_event().max(self.now() + TURN))
    }

    /// Carries what is on its way through the links until `end`, as far as it is known now;
    /// whether there was anything.
    fn carry(&mut self, end: Time) -> bool {
        let mut window: Vec<Event> = Vec::new();
        let Some(over) = self.wire.calendar.take(end, &mut window) else { return false };
        self.wire.earliest = over;
        for event in window {
            let Some(id) = event.packet else { continue };
            let packet = self.wire.packets.get_mut(id);
            let again = packet.at == 0 && !packet.hops.is_empty();
            if event.place.as_host().is_none() || again {
                self.wire.forward(id, event.at);
            } else if matches!(packet.content, Content::Room(_)) {
                self.landing.push(Reverse((event.at, event.order, id)));
            } else if let Some(at) = self.wire.land(id, event.at) {
                self.landing.push(Reverse((at, event.order, id)));
                self.wire.acknowledge(id);
            }
        }
        true
    }
}
