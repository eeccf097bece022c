//! The stream fidelity: time, nodes, scripts and faults.

mod placed;

use core::any::Any;
use core::net::IpAddr;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lustrine_lnet::md::Owner;
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::shard::PeerTableFull;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::{Change, NodePartition, ProbeId};
use lustrine_selftest::{Client, ClientSlot};
use lustrine_wire::nid::Nid;

use crate::check;
use crate::costs::CpuCost;
use crate::event_log::EventLog;
use crate::network::{HostId, Network};
use crate::node::{Node, NodeService, NodeSpec};
use crate::recording::Recorder;
use crate::rng::Rng;
use crate::script::{Script, ScriptIo};
use crate::simulation::StopKind;

/// When simulations begin: not at [`Time::ZERO`], which some code uses for "never".
pub(crate) const BEGIN: Time = Time(1_000_000_000);

/// The shortest time of a script's action.
const TURN: Nanos = Nanos(1000);

enum Actor {
    Node(Box<Node>),
    Script(Box<dyn Script>),
    /// A node that is away, or a script that is being called.
    Vacant,
}

/// A network with its nodes and scripts.
pub struct StreamSim {
    network: Network,
    actors: Vec<Actor>,
    /// When each of them wants to be woken, and the entries in `alarms` that are valid.
    wanted: Vec<Time>,
    /// The CPU time of each host's work, and until when it is busy.
    costs: Vec<(CpuCost, Time)>,
    alarms: BinaryHeap<Reverse<(Time, u32)>>,
    rng: Rng,
    /// The recorder of the nodes' journals, if there is one.
    recorder: Option<Recorder>,
    /// When the next check for overdue messages is due.
    next_review: Time,
    /// The number of events that a simulation may have, and that for each second of it.
    events_max: (u64, u64),
}

impl StreamSim {
    /// An empty simulation.
    pub fn new(seed: u64) -> StreamSim {
        let mut rng = Rng::new(seed);
        let network = Network::new(BEGIN, rng.fork());
        StreamSim {
            network,
            actors: Vec::new(),
            wanted: Vec::new(),
            costs: Vec::new(),
            alarms: BinaryHeap::new(),
            rng,
            recorder: None,
            next_review: BEGIN,
            events_max: (u64::MAX, 0),
        }
    }

    /// Sets the number of events that a simulation may have, and how many more for each second of
    /// its time: it panics when there are more.
    pub fn limit_events(&mut self, most: u64, per_second: u64) {
        self.events_max = (most, per_second);
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// The events so far.
    pub fn event_log(&self) -> &EventLog {
        self.network.event_log()
    }

    /// The network, for inspection and for faults.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Random numbers for the caller; drawing them does not affect the simulation.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Adds a node.
    pub fn add_node(&mut self, spec: NodeSpec) -> HostId {
        let host = self.add_host(&spec);
        self.inhabit(host, spec)
    }

    fn add_host(&mut self, spec: &NodeSpec) -> HostId {
        let privileged = spec.identity == lustrine_lnet::topology::Identity::Node;
        self.network.add_host(&spec.addresses(), privileged)
    }

    /// A node starts on a host that was just added.
    fn inhabit(&mut self, host: HostId, spec: NodeSpec) -> HostId {
        let node = Node::start(spec, host, &mut self.network, self.recorder.as_mut());
        self.add(Actor::Node(Box::new(node)))
    }

    /// Adds a scripted peer.
    pub fn add_script(&mut self, addresses: &[IpAddr], script: impl Script) -> HostId {
        self.network.add_host(addresses, true);
        self.add(Actor::Script(Box::new(script)))
    }

    fn add(&mut self, actor: Actor) -> HostId {
        let host = HostId(self.actors.len() as u32);
        self.actors.push(actor);
        self.wanted.push(Time::NEVER);
        self.costs.push((CpuCost::default(), Time::ZERO));
        self.wake(host, self.now());
        host
    }

    /// A node.
    ///
    /// # Panics
    /// When the host has no running node.
    pub fn node(&self, host: HostId) -> &Node {
        match &self.actors[host.0 as usize] {
            Actor::Node(node) => node,
            _ => panic!("{host:?} has no running node"),
        }
    }

    /// All running nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (HostId, &Node)> {
        self.actors.iter().enumerate().filter_map(|(index, actor)| match actor {
            Actor::Node(node) => Some((HostId(index as u32), &**node)),
            _ => None,
        })
    }

    /// Checks that nothing is in flight and that nothing was lost: see [`check::leftovers`].
    ///
    /// # Panics
    /// When a check fails, with all violations.
    pub fn assert_idle(&self) {
        let wrong = check::leftovers(self.nodes());
        assert!(wrong.is_empty(), "violations:\n{}", wrong.join("\n"));
    }

    /// Calls a function with a node's partition; it has a turn afterwards.
    ///
    /// # Panics
    /// When the host has no running node.
    pub fn with<T>(&mut self, host: HostId, act: impl FnOnce(Time, &mut NodePartition) -> T) -> T {
        let now = self.now();
        self.wake(host, now);
        act(now, self.node_mut(host).partition_mut())
    }

    /// Calls a function with a node's partition without giving it a turn.
    ///
    /// # Panics
    /// When the host has no running node.
    pub fn look<T>(&mut self, host: HostId, look: impl FnOnce(&mut NodePartition) -> T) -> T {
        look(self.node_mut(host).partition_mut())
    }

    /// Registers a service with a node, in the partition that is the home of a peer: that with
    /// which the service will have to do. `make` gets the owner of the service's descriptors. The
    /// node drives it as it drives its own.
    ///
    /// # Panics
    /// When the host has no running node.
    pub fn register<S: Service>(
        &mut self,
        host: HostId,
        peer: &Nid,
        make: impl FnOnce(Owner) -> S,
    ) -> NodeService<S> {
        self.wake(host, self.now());
        self.node_mut(host).register(peer, make)
    }

    /// Calls into a service with the core and the memory of its node; the node has a turn
    /// afterwards. `None` when the node is away, or has started again since.
    pub fn call<S: Service, T>(
        &mut self,
        service: NodeService<S>,
        act: impl FnOnce(&mut S, &mut Turn<'_>) -> T,
    ) -> Option<T> {
        let host = service.host;
        let Actor::Node(node) = &mut self.actors[host.0 as usize] else { return None };
        let called = node.call(&mut self.network, service, act);
        self.wake(host, self.now());
        called
    }

    /// A node's client, for inspection; `None` when the node is away or has none in this slot.
    pub fn peek(&mut self, host: HostId, slot: ClientSlot) -> Option<&Client> {
        match &mut self.actors[host.0 as usize] {
            Actor::Node(node) => node.peek(slot),
            _ => None,
        }
    }

    fn node_mut(&mut self, host: HostId) -> &mut Node {
        match &mut self.actors[host.0 as usize] {
            Actor::Node(node) => node,
            _ => panic!("{host:?} has no running node"),
        }
    }

    /// A script.
    ///
    /// # Panics
    /// When the host has no script of this type.
    pub fn script<T: Script>(&mut self, host: HostId) -> &mut T {
        let Actor::Script(script) = &mut self.actors[host.0 as usize] else {
            panic!("{host:?} has no script");
        };
        let script: &mut dyn Any = &mut **script;
        script.downcast_mut().expect("a script of this type")
    }

    /// A host's streams, for a scripted peer that is driven from outside.
    pub fn script_io(&mut self, host: HostId) -> ScriptIo<'_> {
        ScriptIo { host, network: &mut self.network }
    }

    /// Pings from a node; [`Node::result`] returns the answer.
    pub fn ping(&mut self, host: HostId, nid: &Nid, timeout: Nanos) -> ProbeId {
        self.wake(host, self.now());
        let Actor::Node(node) = &mut self.actors[host.0 as usize] else {
            panic!("{host:?} has no running node");
        };
        node.ping(&mut self.network, nid, timeout)
    }

    /// Discovers from a node; [`Node::result`] returns the answer.
    pub fn discover(&mut self, host: HostId, nid: &Nid, timeout: Nanos) -> ProbeId {
        self.wake(host, self.now());
        let Actor::Node(node) = &mut self.actors[host.0 as usize] else {
            panic!("{host:?} has no running node");
        };
        node.discover(&mut self.network, nid, timeout)
    }

    /// Changes a running node.
    ///
    /// # Errors
    /// When a table of peers has no room for a configured peer.
    ///
    /// # Panics
    /// When the host has no running node.
    pub fn change(&mut self, host: HostId, change: &Change) -> Result<(), PeerTableFull> {
        self.wake(host, self.now());
        let Actor::Node(node) = &mut self.actors[host.0 as usize] else {
            panic!("{host:?} has no running node");
        };
        node.change(&mut self.network, change)
    }

    /// A node's host refuses new streams from now on.
    pub fn refuse(&mut self, host: HostId) {
        for door in self.node(host).spec().doors() {
            self.network.unlisten(door);
        }
    }

    /// A node's host accepts new streams again.
    pub fn admit(&mut self, host: HostId) {
        for door in self.node(host).spec().doors() {
            self.network.listen(host, door);
        }
    }

    /// Ends a node. Its specification is returned, to start it again.
    pub fn stop(&mut self, host: HostId, stop_kind: StopKind) -> NodeSpec {
        let actor = core::mem::replace(&mut self.actors[host.0 as usize], Actor::Vacant);
        let Actor::Node(mut node) = actor else { panic!("{host:?} has no running node") };
        if stop_kind == StopKind::Orderly {
            node.close(&mut self.network, Status::Shutdown);
        }
        if let Some(recorder) = &mut self.recorder {
            node.report(recorder);
        }
        self.network.fell(host, stop_kind == StopKind::Silence);
        self.wanted[host.0 as usize] = Time::NEVER;
        node.spec().clone()
    }

    /// Starts a node again. The caller changes the incarnation.
    pub fn start(&mut self, host: HostId, spec: NodeSpec) {
        assert!(matches!(self.actors[host.0 as usize], Actor::Vacant), "{host:?} is in use");
        self.network.raise_host(host);
        let node = Node::start(spec, host, &mut self.network, self.recorder.as_mut());
        self.actors[host.0 as usize] = Actor::Node(Box::new(node));
        self.wake(host, self.now());
    }

    /// Gives a node or script a turn at a time, if not before.
    fn wake(&mut self, host: HostId, at: Time) {
        let wanted = &mut self.wanted[host.0 as usize];
        if at < *wanted {
            *wanted = at;
            self.alarms.push(Reverse((at, host.0)));
        }
    }

    /// When the next event is due; [`Time::NEVER`] if there is none.
    pub fn next_event(&self) -> Time {
        let alarm = self.alarms.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        alarm.min(self.network.next_due())
    }

    /// Processes the next event; `false` when there is none.
    pub fn step(&mut self) -> bool {
        let next = self.next_event();
        if next == Time::NEVER {
            return false;
        }
        let now = next.max(self.now());
        let events = self.event_log().count();
        let (most, per_second) = self.events_max;
        let seconds = now.since(BEGIN).0 / 1_000_000_000;
        let most = most.saturating_add(per_second.saturating_mul(seconds));
        assert!(events <= most, "{now:?}: {events} events");
        self.advance(now);
        let mut due = Vec::new();
        while let Some(Reverse((at, host))) = self.alarms.peek().copied() {
            if at > now {
                break;
            }
            self.alarms.pop();
            if self.wanted[host as usize] == at {
                self.wanted[host as usize] = Time::NEVER;
                due.push(HostId(host));
            }
        }
        while let Some(host) = self.network.take_dirty() {
            due.push(host);
        }
        for (index, host) in due.iter().enumerate() {
            if !due[..index].contains(host) {
                self.run(*host);
            }
        }
        true
    }

    /// Advances the clock; at intervals, the deadlines of all nodes are checked.
    fn advance(&mut self, now: Time) {
        self.network.advance(now);
        if now < self.next_review {
            return;
        }
        self.next_review = now + check::REVIEW;
        for (index, actor) in self.actors.iter().enumerate() {
            let Actor::Node(node) = actor else { continue };
            let at_work = now <= self.costs[index].1;
            let looked = if at_work { node.last_turn() } else { now };
            let wrong = check::overdue(node, looked);
            assert!(wrong.is_empty(), "{now:?}: node {index}: overdue: {}", wrong.join("; "));
        }
    }

    fn run(&mut self, host: HostId) {
        let index = host.0 as usize;
        let next = match &mut self.actors[index] {
            Actor::Node(node) => {
                let (cost, busy_until) = &mut self.costs[index];
                let now = self.network.now();
                if now < *busy_until {
                    let until = *busy_until;
                    return self.wake(host, until);
                }
                let next = node.turn(&mut self.network);
                if let Some(recorder) = &mut self.recorder {
                    node.report(recorder);
                }
                *busy_until = now + node.work_done(cost);
                next
            }
            Actor::Script(_) => {
                let Actor::Script(mut script) =
                    core::mem::replace(&mut self.actors[index], Actor::Vacant)
                else {
                    unreachable!("it was just looked at");
                };
                script.act(&mut ScriptIo { host, network: &mut self.network });
                let alarm = script.alarm();
                self.actors[index] = Actor::Script(script);
                alarm
            }
            Actor::Vacant => return,
        };
        if next != Time::NEVER {
            self.wake(host, next.max(self.now() + TURN));
        }
    }

    /// Lets time pass until the condition holds, for `limit` at most. Returns whether it holds.
    pub fn run_until(
        &mut self,
        limit: Nanos,
        mut holds: impl FnMut(&mut StreamSim) -> bool,
    ) -> bool {
        let end = self.now() + limit;
        loop {
            if holds(self) {
                return true;
            }
            if self.next_event() > end {
                self.advance(end);
                return holds(self);
            }
            self.step();
        }
    }

    /// Lets this time pass.
    pub fn run_for(&mut self, length: Nanos) {
        self.run_until(length, |_| false);
    }
}

#[cfg(test)]
mod tests;
