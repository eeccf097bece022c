//! One CPU partition of a node, with its loop.

use std::collections::VecDeque;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::{NodePartition, StreamReport};
use lustrine_selftest::CptMessage;
use lustrine_socklnd::Handoff;
use lustrine_socklnd::io::{Readiness, SockId};

use super::NodeSpec;
use crate::io::VirtualIo;
use crate::memory::RopeMemory;
use crate::network::{HostId, Network};
use crate::rng::Rng;

/// The shortest time of a loop turn, so that a loop with permanent work cannot stop the clock.
const TURN: Nanos = Nanos(1000);

/// The shortest time in which a loop notices that it has nothing to do.
const PAUSE: Nanos = Nanos(20_000);

/// A message from one loop to another.
pub(super) enum LoopMessage {
    CptMessage(Box<CptMessage>),
    Handoff(Box<Handoff>),
}

/// A loop, and its partition.
pub(super) struct Cpt {
    number: u16,
    pub(super) partition: NodePartition,
    pub(super) memory: RopeMemory,
    /// Reports of the network about its streams.
    pub(super) reports: Vec<(SockId, Readiness)>,
    /// Messages in flight, by sender, each with its time of arrival.
    messages: Vec<VecDeque<(Time, LoopMessage)>>,
    /// The simulation gave it something to do.
    pub(super) stirred: bool,
    /// When its timer fires.
    alarm: Time,
    /// Consecutive turns without a reason, and the largest number of them.
    idle_turns: u64,
    pub(super) idle_turns_max: u64,
}

impl Cpt {
    pub(super) fn start(spec: &NodeSpec, cpt: u16, host: HostId, network: &mut Network) -> Cpt {
        let mut memory = RopeMemory::new(spec.memory);
        let mut io = VirtualIo { host, cpt, network, memory: &mut memory };
        let partition = NodePartition::new(spec.config(cpt), &mut io);
        Cpt {
            number: cpt,
            partition,
            memory,
            reports: Vec::new(),
            messages: (0..spec.cpts.max(1)).map(|_| VecDeque::new()).collect(),
            stirred: true,
            alarm: Time::ZERO,
            idle_turns: 0,
            idle_turns_max: 0,
        }
    }

    /// The partition, and its surroundings.
    pub(super) fn at_work<'a>(
        &'a mut self,
        host: HostId,
        network: &'a mut Network,
    ) -> (&'a mut NodePartition, VirtualIo<'a>) {
        self.stirred = true;
        let io = VirtualIo { host, cpt: self.number, network, memory: &mut self.memory };
        (&mut self.partition, io)
    }

    /// The partition, which has a turn afterwards.
    pub(super) fn stirred(&mut self) -> &mut NodePartition {
        self.stirred = true;
        &mut self.partition
    }

    /// A message is sent; it arrives after everything that the same loop sent before.
    pub(super) fn post(&mut self, from: usize, at: Time, message: LoopMessage) {
        let line = &mut self.messages[from];
        let at = line.back().map_or(at, |(before, _)| at.max(*before));
        line.push_back((at, message));
    }

    fn next_letter(&self) -> Time {
        let firsts = self.messages.iter().filter_map(|line| line.front());
        firsts.map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    /// Whether there is something to do now.
    pub(super) fn has_reason(&self, now: Time) -> bool {
        self.stirred
            || !self.reports.is_empty()
            || self.next_letter() <= now
            || self.alarm <= now
            || self.partition.has_work()
    }

    /// One turn of the loop. Returns the number of its reports.
    pub(super) fn turn(&mut self, host: HostId, network: &mut Network) -> u64 {
        let now = network.now();
        let reports = core::mem::take(&mut self.reports);
        let mut reasons = reports.len() as u64;
        for (sock, readiness) in reports {
            let (partition, mut io) = self.at_work(host, network);
            partition.report(now, &mut io, StreamReport::Ready { sock, readiness });
        }
        for line in 0..self.messages.len() {
            while self.messages[line].front().is_some_and(|(at, _)| *at <= now) {
                let (_, message) = self.messages[line].pop_front().expect("it was just there");
                reasons += 1;
                let (partition, mut io) = self.at_work(host, network);
                match message {
                    LoopMessage::CptMessage(cross) => partition.accept_cpt_message(*cross),
                    LoopMessage::Handoff(handoff) => {
                        let sock = handoff.sock;
                        partition.adopt(now, &mut io, *handoff);
                        // A new watcher of a stream gets a report of its present state.
                        network.tell_again(sock);
                    }
                }
            }
        }
        let (partition, mut io) = self.at_work(host, network);
        partition.turn(now, &mut io);
        self.stirred = false;
        let idle =
            reasons == 0 && !self.partition.has_work() && self.partition.next_deadline() <= now;
        self.idle_turns = if idle { self.idle_turns + 1 } else { 0 };
        self.idle_turns_max = self.idle_turns_max.max(self.idle_turns);
        reasons
    }

    /// When it wants its next turn; timers fire up to `skew` late.
    pub(super) fn next_turn(&mut self, now: Time, skew: u64, rng: &mut Rng) -> Time {
        let deadline = self.partition.next_deadline();
        self.alarm = match deadline {
            _ if self.partition.has_work() => now + TURN,
            Time::NEVER => Time::NEVER,
            deadline if deadline <= now => now + PAUSE,
            // Drawn at each turn of the node, as a loop that is woken often sleeps again.
            deadline => deadline + Nanos(rng.below(skew + 1)),
        };
        self.alarm.min(self.next_letter())
    }
}
