//! How long messages take, and which of them are lost.

use std::collections::{BTreeSet, VecDeque};

use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet_testing::{Delivery, Net, test_nid};

/// A stream of numbers that its seed determines; splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.draw() % bound }
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }
}

/// The links between all nodes.
#[derive(Debug)]
pub(crate) struct Links {
    rng: Rng,
    /// When each message that is in flight arrives, in the order in which they were sent.
    due: VecDeque<Time>,
    /// The shortest time of a message, and what can be added to it.
    pub(crate) latency: (Nanos, Nanos),
    /// Messages of a thousand that are lost.
    pub(crate) loss: u64,
    /// Nodes that nothing reaches or leaves.
    pub(crate) cut: BTreeSet<usize>,
}

impl Links {
    pub(crate) fn new(seed: u64, latency: (Nanos, Nanos)) -> Links {
        let (rng, cut) = (Rng::new(seed), BTreeSet::new());
        Links { rng, due: VecDeque::new(), latency, loss: 0, cut }
    }

    /// The place of the next message that is due, and what becomes of it.
    pub(crate) fn next_due(&mut self, net: &Net, now: Time) -> Option<(usize, Delivery)> {
        while self.due.len() < net.packets.len() {
            let extra = self.rng.below(self.latency.1.0 + 1);
            self.due.push_back(now + Nanos(self.latency.0.0 + extra));
        }
        let first = self.due.iter().enumerate().min_by_key(|(at, due)| (**due, *at));
        let (at, _) = first.filter(|(_, due)| **due <= now)?;
        self.due.remove(at);
        let header = &net.packets[at].header;
        let is_cut = |node: &usize| {
            let nid = test_nid(*node);
            header.src.nid == nid || header.dst.nid == nid
        };
        let fate = match self.cut.iter().any(is_cut) || self.rng.chance(self.loss, 1000) {
            true => Delivery::Lose,
            false => Delivery::Deliver,
        };
        Some((at, fate))
    }

    /// When the next message arrives.
    pub(crate) fn next_time(&self) -> Time {
        self.due.iter().min().copied().unwrap_or(Time::NEVER)
    }
}
