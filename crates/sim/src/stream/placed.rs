//! The stream fidelity as a [`Simulation`].

use core::net::IpAddr;

use lustrine_lnet::time::Time;
use lustrine_selftest::{Client, ClientArgs, ClientSlot};

use super::{Actor, StreamSim};
use crate::check;
use crate::costs::WaitTotals;
use crate::event_log::EventLog;
use crate::fabric::Fabric;
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{RecordFilter, Recorder, Recording};
use crate::script::Script;
use crate::simulation::{Placement, Simulation, StopKind};

impl StreamSim {
    /// Adds a scripted peer whose host has a place in the fabric: its streams use links, under TCP.
    /// Its work takes no CPU time.
    pub fn place_script(
        &mut self,
        addresses: &[IpAddr],
        place: Placement,
        script: impl Script,
    ) -> HostId {
        let host = self.network.add_host(addresses, true);
        self.network.fabric.place(host, place.site, place.interface);
        self.network.set_tcp(host, place.tcp);
        self.add(Actor::Script(Box::new(script)))
    }
}

impl Simulation for StreamSim {
    fn now(&self) -> Time {
        StreamSim::now(self)
    }

    fn fabric(&mut self) -> &mut Fabric {
        &mut self.network.fabric
    }

    fn add_node_at(&mut self, spec: NodeSpec, place: Placement) -> HostId {
        let host = self.add_host(&spec);
        self.network.fabric.place(host, place.site, place.interface);
        self.network.set_tcp(host, place.tcp);
        self.inhabit(host, spec);
        self.costs[host.0 as usize].0 = place.cost;
        host
    }

    fn stop(&mut self, host: HostId, stop_kind: StopKind) -> NodeSpec {
        StreamSim::stop(self, host, stop_kind)
    }

    fn start(&mut self, host: HostId, spec: NodeSpec) {
        StreamSim::start(self, host, spec);
    }

    fn start_client(&mut self, host: HostId, args: ClientArgs) {
        let now = StreamSim::now(self);
        self.wake(host, now);
        let partition = self.node_mut(host).partition_of(&args.target.nid);
        partition.start_client(now, args).expect("no client of this slot");
    }

    fn client(&mut self, host: HostId, slot: ClientSlot) -> Option<&mut Client> {
        if !matches!(self.actors[host.0 as usize], Actor::Node(_)) {
            return None;
        }
        self.wake(host, StreamSim::now(self));
        self.node_mut(host).client(slot)
    }

    fn run_to(&mut self, time: Time) {
        while self.next_event() <= time {
            self.step();
        }
        self.advance(time.max(StreamSim::now(self)));
    }

    fn waits(&self, host: HostId) -> Option<WaitTotals> {
        match &self.actors[host.0 as usize] {
            Actor::Node(node) => Some(node.waits(StreamSim::now(self))),
            _ => None,
        }
    }

    fn event_log(&self) -> &EventLog {
        StreamSim::event_log(self)
    }

    fn record(&mut self, wanted: RecordFilter) {
        assert!(self.actors.is_empty(), "a recording begins with an empty simulation");
        self.recorder = Some(Recorder::new(StreamSim::now(self), wanted));
    }

    fn take_recording(&mut self) -> Option<Recording> {
        let mut recorder = self.recorder.take()?;
        for actor in &mut self.actors {
            if let Actor::Node(node) = actor {
                node.report(&mut recorder);
            }
        }
        Some(recorder.finish())
    }

    fn leftovers(&self) -> Vec<String> {
        check::leftovers(self.nodes())
    }
}
