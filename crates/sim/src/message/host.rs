//! A host of the message fidelity: its node, if there is one, and what is about to arrive there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::shard::Queues;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::NodePartition;

use super::calendar::Event;
use super::driver::{DriverConfig, DriverIo, MessageDriver};
use super::packet::{Arrived, Content, Packet, PacketId};
use super::wire::Wire;
use crate::costs::{CpuCost, WaitTotals};
use crate::event_log::{EventKind, EventLog, LogEntry};
use crate::memory::{RopeMemory, Usage};
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{Recorder, SourceId};
use crate::tcp::TcpSpec;

/// The shortest time of a loop turn, so that a loop with permanent work cannot stop the clock.
const TURN: Nanos = Nanos(1000);

/// The shortest time in which a loop notices that it has nothing to do.
const PAUSE: Nanos = Nanos(20_000);

/// A host, which may continue without a node. Events on its path that give it no turn touch only
/// this struct, not the node, because with thousands of nodes their memory is never in the cache.
pub(super) struct Host {
    id: HostId,
    pub(super) node: Option<Box<Node>>,
    /// When the node wants its next turn, and the earliest time at which it can have it.
    wanted: Time,
    free_at: Time,
    /// Whether messages of the node wait for room.
    wants_room: bool,
    /// Packets that have passed their last link, by their time of arrival.
    landing: BinaryHeap<Reverse<(Time, u64, PacketId)>>,
    /// Reports of room in streams, which need a turn only while something waits for room.
    rooms: Vec<(Time, u64, Box<Packet>)>,
    /// When it will be processed next, at the latest.
    alarms: Alarms,
    cost: CpuCost,
    tcp: TcpSpec,
    /// Whether its driver answers GETs in place.
    answers_gets: bool,
}

/// When a host will be processed: the next times, then one that is far away. The far one is before
/// many others, and must not be scheduled again after each of them.
#[derive(Debug)]
struct Alarms([Time; 4]);

/// What a node needs only during its turn. All nodes use the same value one after the other, so
/// that it is always in the cache.
#[derive(Debug, Default)]
pub(super) struct TurnScratch {
    arrived: Arrived,
    queues: Queues,
}

/// A running node.
pub(super) struct Node {
    pub(super) spec: NodeSpec,
    pub(super) partition: NodePartition<MessageDriver>,
    memory: RopeMemory,
    /// While its journal is recorded.
    source: Option<SourceId>,
    /// Memory in use when it had just started.
    baseline: Usage,
    waits: WaitTotals,
    /// The time up to which the sums of `waits` are complete.
    counted_to: Time,
    /// Messages and bytes whose CPU time has been accounted.
    paid: (u64, u64),
}

impl Host {
    pub(super) fn new(id: HostId, cost: CpuCost, tcp: TcpSpec, answers_gets: bool) -> Host {
        Host {
            id,
            node: None,
            wanted: Time::NEVER,
            free_at: Time::ZERO,
            wants_room: false,
            landing: BinaryHeap::new(),
            rooms: Vec::new(),
            alarms: Alarms([Time::NEVER; 4]),
            cost,
            tcp,
            answers_gets,
        }
    }

    /// Starts a node.
    pub(super) fn start(&mut self, now: Time, spec: NodeSpec, recorder: Option<&mut Recorder>) {
        assert!(self.node.is_none(), "{:?} is in use", self.id);
        let mut node = Box::new(Node::new(now, self.id, spec, self.tcp, self.answers_gets));
        let nid = node.spec.nids[0];
        node.source = recorder.map(|recorder| recorder.join(nid, 0, &mut node.partition));
        self.node = Some(node);
        (self.wanted, self.free_at, self.wants_room) = (now, now, false);
    }

    /// Hands over its journal.
    pub(super) fn report(&mut self, recorder: &mut Recorder) {
        if let Some(node) = &mut self.node {
            node.report(recorder);
        }
    }

    /// Gives its node a turn as soon as possible.
    pub(super) fn wake(&mut self, now: Time) {
        self.wanted = self.wanted.min(now);
    }

    /// Stops the loop from waking, for tests of the checks.
    #[cfg(test)]
    pub(super) fn forget_timers(&mut self) {
        self.wanted = Time::NEVER;
    }

    /// What has outlived its deadline here; see [`overdue`](crate::check::overdue).
    pub(super) fn overdue(&self, now: Time) -> Vec<String> {
        let Some(node) = &self.node else { return Vec::new() };
        node.overdue(if now <= self.free_at { node.counted_to } else { now })
    }

    /// Ends the node; what was in flight to it is lost.
    pub(super) fn stop(
        &mut self,
        now: Time,
        wire: &mut Wire,
        recorder: Option<&mut Recorder>,
        orderly: bool,
    ) -> NodeSpec {
        let mut node = self.node.take().unwrap_or_else(|| panic!("{:?} has no node", self.id));
        (self.wanted, self.free_at, self.wants_room) = (Time::NEVER, Time::ZERO, false);
        if orderly {
            let Node { partition, memory, .. } = &mut *node;
            let arrived = &mut Vec::new();
            partition.close(now, &mut DriverIo { memory, wire, arrived }, Status::Shutdown);
        }
        if let Some(recorder) = recorder {
            node.report(recorder);
        }
        if !wire.is_silent(self.id) {
            for packet in node.partition.driver().farewells() {
                wire.send(now, packet);
            }
        }
        node.spec
    }

    /// Does everything that happens here before `end`: the events of a window, and their
    /// consequences.
    pub(super) fn act(
        &mut self,
        events: &[Event],
        end: Time,
        wire: &mut Wire,
        trace: &mut EventLog,
        scratch: &mut TurnScratch,
    ) {
        let mut events = events.iter().peekable();
        loop {
            let turn_at = self.next_turn();
            match events.next_if(|event| event.at <= turn_at) {
                Some(event) => self.notice(event, wire),
                None if turn_at < end => self.turn(turn_at, wire, trace, scratch),
                None => break,
            }
        }
        let next = self.next_turn();
        if self.alarms.set(next) {
            wire.wake(self.id, next);
        }
    }

    /// When it acts next if nothing else happens.
    fn next_turn(&self) -> Time {
        let landing = self.landing.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        self.wanted.min(landing).min(self.room_at()).max(self.free_at)
    }

    /// When a report arrives of room that the node waits for.
    fn room_at(&self) -> Time {
        if self.rooms.is_empty() || !self.wants_room {
            return Time::NEVER;
        }
        self.rooms.iter().map(|(at, ..)| *at).min().unwrap_or(Time::NEVER)
    }

    fn notice(&mut self, event: &Event, wire: &mut Wire) {
        let Some(id) = event.packet else {
            return self.alarms.rang(event.at);
        };
        let packet = wire.packets.get_mut(id);
        if packet.at == 0 && !packet.hops.is_empty() {
            // Sent again.
            return wire.forward(id, event.at);
        }
        if matches!(packet.content, Content::Room(_)) {
            self.rooms.push((event.at, event.order, wire.packets.take(id)));
        } else if let Some(at) = wire.land(id, event.at) {
            self.landing.push(Reverse((at, event.order, id)));
            wire.acknowledge(id);
        }
    }

    fn turn(
        &mut self,
        now: Time,
        wire: &mut Wire,
        trace: &mut EventLog,
        scratch: &mut TurnScratch,
    ) {
        if !self.rooms.is_empty() {
            self.rooms.sort_unstable_by_key(|(at, order, _)| (*at, *order));
            let due = self.rooms.partition_point(|(at, ..)| *at <= now);
            let due = self.rooms.drain(..due).map(|(.., packet)| packet);
            scratch.arrived.extend(due.filter(|_| self.node.is_some()));
        }
        while let Some(Reverse((at, order, id))) = self.landing.peek().copied() {
            if at > now {
                break;
            }
            self.landing.pop();
            let packet = wire.packets.take(id);
            if let Some(value) = packet.essence() {
                wire.arrived += 1;
                let host = self.id;
                trace.note_apart(LogEntry {
                    at,
                    host,
                    end: order,
                    what: EventKind::Message,
                    value,
                });
            }
            match (&self.node, &packet.content) {
                (Some(_), _) => scratch.arrived.push(packet),
                _ if wire.is_silent(self.id) => {}
                (None, Content::Dial { .. }) => {
                    wire.turn_away(now, packet, Content::Refused(Status::Refused));
                }
                (None, Content::Message { .. }) => wire.turn_away(now, packet, Content::Closed),
                (None, _) => {}
            }
        }
        if let Some(node) = &mut self.node {
            (self.wanted, self.free_at) = node.turn(now, self.cost, wire, scratch);
            self.wants_room = node.partition.driver().waiting() != 0;
        }
        scratch.arrived.clear();
    }
}

impl Alarms {
    /// Whether an event has to be scheduled, so that the host is processed in time.
    fn set(&mut self, at: Time) -> bool {
        let [first, second, third, far] = self.0;
        if at >= first {
            return false;
        }
        self.0 = [at, first, second, if far == Time::NEVER { third } else { far }];
        true
    }

    fn rang(&mut self, at: Time) {
        if at >= self.0[0] {
            self.0.rotate_left(1);
            self.0[3] = Time::NEVER;
        }
    }
}

impl Node {
    fn new(now: Time, host: HostId, spec: NodeSpec, tcp: TcpSpec, answers_gets: bool) -> Node {
        let mut config = NodeSpec { cpts: 1, ..spec.clone() }.config(0);
        // They are not read there, and with thousands of nodes each one would be another cache
        // miss.
        config.topology.tunables.latency_peers = 0;
        let driver_config = DriverConfig {
            tcp,
            host,
            nids: spec.nids.clone(),
            incarnation: spec.incarnation,
            listens: spec.accept.is_some(),
            answers_gets,
        };
        let driver = MessageDriver::new(driver_config, &spec.tunables);
        let mut memory = RopeMemory::new(spec.memory);
        memory.track_regions();
        let partition = NodePartition::with_driver(
            config.topology,
            driver,
            config.selftest_tunables,
            config.wall,
            &mut memory,
        );
        let baseline = memory.usage();
        Node {
            spec,
            partition,
            memory,
            source: None,
            baseline,
            waits: WaitTotals::default(),
            counted_to: now,
            paid: (0, 0),
        }
    }

    fn report(&mut self, recorder: &mut Recorder) {
        if let Some(source) = self.source {
            recorder.take(source, &mut self.partition);
        }
    }

    /// Takes a turn. Returns when the node wants the next one, and the earliest time at which it
    /// can have it.
    fn turn(
        &mut self,
        now: Time,
        cost: CpuCost,
        wire: &mut Wire,
        scratch: &mut TurnScratch,
    ) -> (Time, Time) {
        self.waits = self.waits_at(now);
        self.counted_to = now;
        let Node { partition, memory, .. } = self;
        partition.swap_queues(&mut scratch.queues);
        partition.turn(now, &mut DriverIo { memory, wire, arrived: &mut scratch.arrived });
        partition.swap_queues(&mut scratch.queues);
        let stats = partition.shard().stats();
        let messages = stats.sent.total() + stats.received.total();
        let bytes = stats.send_length + stats.recv_length + stats.drop_length;
        let price = cost.of(messages - self.paid.0, bytes - self.paid.1).0;
        self.paid = (messages, bytes);
        self.waits.cpu += price;
        self.waits.messages = messages;
        let deadline = self.partition.next_deadline();
        let wanted = match self.partition.has_work() {
            true => now + TURN,
            false if deadline <= now => now + PAUSE,
            false => deadline,
        };
        (wanted, now + Nanos(price).max(TURN))
    }

    /// What its messages have waited for until then.
    pub(super) fn waits_at(&self, now: Time) -> WaitTotals {
        let passed = now.since(self.counted_to).0;
        let shard = self.partition.shard();
        let waiting = shard.waiting();
        let driver = self.partition.driver();
        WaitTotals {
            peer_credits: self.waits.peer_credits + waiting.peer_credits * passed,
            ni_credits: self.waits.ni_credits + waiting.ni_credits * passed,
            driver: self.waits.driver + driver.waiting() * passed,
            zero_copy: self.waits.zero_copy + driver.lent() * passed,
            ..self.waits
        }
    }

    /// The result of [`waits_at`](Node::waits_at), with the wait for the outgoing link.
    pub(super) fn waits(&self, now: Time) -> WaitTotals {
        let waits = self.waits_at(now);
        WaitTotals { driver: waits.driver + self.partition.driver().on_the_way_out, ..waits }
    }

    /// What has outlived its deadline, if the node had the opportunity to check then.
    fn overdue(&self, looked: Time) -> Vec<String> {
        let driver = self.partition.driver();
        let mut wrong = driver.overdue(looked);
        let shard = self.partition.shard();
        wrong.extend(crate::check::overdue_in(shard, driver.operations(), looked));
        wrong
    }

    /// Violations of quiescence.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let shard = self.partition.shard();
        let mut wrong = crate::check::credits_of(shard);
        let driver = self.partition.driver();
        wrong.extend(driver.leftovers());
        wrong.extend(driver.complaints.iter().cloned());
        for index in 0..shard.topology().nis.places().len() {
            let waiting = -shard.ni_info(NiIndex(index as u16)).credits_available;
            if waiting > 0 {
                wrong.push(format!("{waiting} messages wait for credits of interface {index}"));
            }
        }
        if self.partition.has_work() {
            wrong.push("there is work to do".to_owned());
        }
        wrong
    }

    /// Memory in use now, and when it had just started.
    pub(super) fn usage(&self) -> (Usage, Usage) {
        (self.memory.usage(), self.baseline)
    }
}
