//! The message fidelity: thousands of nodes whose LNet messages pass over a [`Fabric`] as a whole.
//!
//! A node is the [`Partition`](lustrine_partition::Partition) of production with another driver,
//! which passes whole messages to the links of the fabric. The stream fidelity also has socklnd's
//! frames and races, and TCP's congestion control. Here a stream is as fast as its links permit,
//! shares them in the order in which messages arrive, and loses nothing to a full queue.
//!
//! Time passes in windows no longer than the shortest path from one host to another. Hosts cannot
//! influence each other within a window, so each does all of its work for a window at once, which
//! keeps caches warm. The order in which the hosts do so does not affect the result.

mod calendar;
mod driver;
mod host;
mod packet;
mod wire;

use lustrine_lnet::time::Time;
use lustrine_lnet::topology::Identity;
use lustrine_selftest::{Client, ClientArgs, ClientSlot};

use crate::costs::WaitTotals;
use crate::event_log::{EventKind, EventLog, LogEntry};
use crate::fabric::Fabric;
use crate::memory::Usage;
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{RecordFilter, Recorder, Recording};
use crate::simulation::{Placement, Simulation, StopKind};
use crate::stream::BEGIN;
use calendar::Event;
use host::{Host, TurnScratch};
use wire::Wire;

/// A network of nodes at message fidelity.
pub struct MessageSim {
    now: Time,
    hosts: Vec<Host>,
    wire: Wire,
    event_log: EventLog,
    /// The recorder of the nodes' journals, if there is one.
    recorder: Option<Recorder>,
    /// Kept to reuse their memory.
    window: Vec<Event>,
    scratch: TurnScratch,
    /// When the next check for overdue messages is due.
    next_review: Time,
    /// Whether drivers answer GETs in place.
    answers_gets: bool,
}

impl MessageSim {
    /// A network without sites and nodes.
    pub fn new(seed: u64) -> MessageSim {
        MessageSim {
            now: BEGIN,
            hosts: Vec::new(),
            wire: Wire::new(seed, BEGIN),
            event_log: EventLog::default(),
            recorder: None,
            window: Vec::new(),
            scratch: TurnScratch::default(),
            next_review: BEGIN,
            answers_gets: false,
        }
    }

    /// Has the drivers of nodes that are added from now on answer GETs in place, as drivers for
    /// RDMA networks do: a REPLY then takes no credits. Off by default.
    pub fn answer_gets_in_place(&mut self) {
        self.answers_gets = true;
    }

    /// LNet messages that have arrived somewhere.
    pub fn messages(&self) -> u64 {
        self.wire.arrived
    }

    /// Memory that a node has in use, now and when it had just started; `None` while it is away.
    pub fn usage(&self, host: HostId) -> Option<(Usage, Usage)> {
        self.hosts[host.0 as usize].node.as_ref().map(|node| node.usage())
    }

    fn note(&mut self, host: HostId, what: EventKind) {
        self.event_log.note_apart(LogEntry { at: self.now, host, end: 0, what, value: 0 });
    }

    /// Lets a node take a turn now.
    fn wake(&mut self, host: HostId) {
        let stands = &mut self.hosts[host.0 as usize];
        if stands.node.is_some() {
            stands.wake(self.now);
            self.wire.wake(host, self.now);
        }
    }

    /// At intervals, when all hosts have done their work before `now`, checks their deadlines.
    fn review(&mut self, now: Time) {
        if now < self.next_review {
            return;
        }
        self.next_review = now + crate::check::REVIEW;
        for (index, host) in self.hosts.iter().enumerate() {
            let wrong = host.overdue(now);
            assert!(wrong.is_empty(), "{now:?}: node {index}: overdue: {}", wrong.join("; "));
        }
    }

    /// Calls from outside take effect now.
    fn open_moment(&mut self) {
        self.wire.earliest = Time(self.now.0 + 1);
    }
}

impl Simulation for MessageSim {
    fn now(&self) -> Time {
        self.now
    }

    fn fabric(&mut self) -> &mut Fabric {
        &mut self.wire.fabric
    }

    /// # Panics
    /// When the node has the userland identity, which this driver does not have, or a NID twice.
    fn add_node_at(&mut self, spec: NodeSpec, place: Placement) -> HostId {
        assert_eq!(spec.identity, Identity::Node, "the message fidelity has nodes only");
        let host = HostId(self.hosts.len() as u32);
        self.wire.fabric.place(host, place.site, place.interface);
        self.wire.add_host(&spec.nids, &spec.tunables, place.tcp);
        self.hosts.push(Host::new(host, place.cost, place.tcp, self.answers_gets));
        self.start(host, spec);
        host
    }

    fn stop(&mut self, host: HostId, stop_kind: StopKind) -> NodeSpec {
        self.open_moment();
        self.note(host, EventKind::Died);
        self.wire.set_silent(host, stop_kind == StopKind::Silence);
        let orderly = stop_kind == StopKind::Orderly;
        let host = &mut self.hosts[host.0 as usize];
        host.stop(self.now, &mut self.wire, self.recorder.as_mut(), orderly)
    }

    fn start(&mut self, host: HostId, spec: NodeSpec) {
        self.note(host, EventKind::Born);
        self.wire.set_silent(host, false);
        self.hosts[host.0 as usize].start(self.now, spec, self.recorder.as_mut());
        self.wake(host);
    }

    fn start_client(&mut self, host: HostId, args: ClientArgs) {
        let now = self.now;
        let node = self.hosts[host.0 as usize].node.as_mut();
        let node = node.unwrap_or_else(|| panic!("{host:?} has no running node"));
        let slot = args.slot;
        let started = node.partition.start_client(now, args);
        started.unwrap_or_else(|_| panic!("{host:?} has a client of {slot:?}"));
        self.wake(host);
    }

    fn client(&mut self, host: HostId, slot: ClientSlot) -> Option<&mut Client> {
        self.wake(host);
        self.hosts[host.0 as usize].node.as_mut()?.partition.client(slot)
    }

    fn run_to(&mut self, time: Time) {
        self.wire.measure();
        let mut window = core::mem::take(&mut self.window);
        while let Some(end) = self.wire.calendar.take(time, &mut window) {
            self.wire.earliest = end;
            for events in window.chunk_by(|one, other| one.place == other.place) {
                if let Some(host) = events[0].place.as_host() {
                    let host = &mut self.hosts[host as usize];
                    host.act(events, end, &mut self.wire, &mut self.event_log, &mut self.scratch);
                    if let Some(recorder) = &mut self.recorder {
                        host.report(recorder);
                    }
                    continue;
                }
                for event in events {
                    let Some(id) = event.packet else { continue };
                    self.wire.forward(id, event.at);
                }
            }
            self.review(end);
        }
        self.window = window;
        self.now = self.now.max(time);
        self.review(self.now);
        self.open_moment();
    }

    fn waits(&self, host: HostId) -> Option<WaitTotals> {
        self.hosts[host.0 as usize].node.as_ref().map(|node| node.waits(self.now))
    }

    fn event_log(&self) -> &EventLog {
        &self.event_log
    }

    fn record(&mut self, wanted: RecordFilter) {
        assert!(self.hosts.is_empty(), "a recording begins with an empty simulation");
        self.recorder = Some(Recorder::new(self.now, wanted));
    }

    fn take_recording(&mut self) -> Option<Recording> {
        let mut recorder = self.recorder.take()?;
        for host in &mut self.hosts {
            host.report(&mut recorder);
        }
        Some(recorder.finish())
    }

    fn leftovers(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            let found = host.node.iter().flat_map(|node| node.leftovers());
            wrong.extend(found.map(|what| format!("{:?}: {what}", HostId(index as u32))));
        }
        let in_flight = self.wire.packets.len();
        if in_flight != 0 {
            wrong.push(format!("{in_flight} packets are on their way"));
        }
        wrong
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
