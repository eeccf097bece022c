//! The world as a [`Simulation`].

use core::net::IpAddr;

use lustrine_lnet::time::Time;
use lustrine_selftest::{Client, ClientArgs, ClientSlot};

use super::{Actor, Death, World};
use crate::check;
use crate::fabric::Fabric;
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{Recorder, Recording, Wanted};
use crate::script::Script;
use crate::simulation::{Place, Simulation, Waits};
use crate::trace::Trace;

impl World {
    /// Adds a scripted peer whose host stands somewhere: its streams take links, under TCP. Working
    /// costs it nothing.
    pub fn place_script(
        &mut self,
        addresses: &[IpAddr],
        place: Place,
        script: impl Script,
    ) -> HostId {
        let host = self.network.add_host(addresses, true);
        self.network.fabric.place(host, place.site, place.interface);
        self.network.set_tcp(host, place.tcp);
        self.add(Actor::Script(Box::new(script)))
    }
}

impl Simulation for World {
    fn now(&self) -> Time {
        World::now(self)
    }

    fn fabric(&mut self) -> &mut Fabric {
        &mut self.network.fabric
    }

    fn add_placed(&mut self, spec: NodeSpec, place: Place) -> HostId {
        let host = self.add_host(&spec);
        self.network.fabric.place(host, place.site, place.interface);
        self.network.set_tcp(host, place.tcp);
        self.inhabit(host, spec);
        self.costs[host.0 as usize].0 = place.cost;
        host
    }

    fn stop(&mut self, host: HostId, death: Death) -> NodeSpec {
        World::stop(self, host, death)
    }

    fn start(&mut self, host: HostId, spec: NodeSpec) {
        World::start(self, host, spec);
    }

    fn start_client(&mut self, host: HostId, args: ClientArgs) {
        let now = World::now(self);
        self.wake(host, now);
        let partition = self.node_mut(host).partition_of(&args.target.nid);
        partition.start_client(now, args).expect("no client of this slot");
    }

    fn client(&mut self, host: HostId, slot: ClientSlot) -> Option<&mut Client> {
        if !matches!(self.actors[host.0 as usize], Actor::Node(_)) {
            return None;
        }
        self.wake(host, World::now(self));
        self.node_mut(host).client(slot)
    }

    fn run_to(&mut self, time: Time) {
        while self.next_event() <= time {
            self.step();
        }
        self.advance(time.max(World::now(self)));
    }

    fn waits(&self, host: HostId) -> Option<Waits> {
        match &self.actors[host.0 as usize] {
            Actor::Node(node) => Some(node.waits(World::now(self))),
            _ => None,
        }
    }

    fn trace(&self) -> &Trace {
        World::trace(self)
    }

    fn record(&mut self, wanted: Wanted) {
        assert!(self.actors.is_empty(), "a recording begins with an empty world");
        self.recorder = Some(Recorder::new(World::now(self), wanted));
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

    fn unquiet(&self) -> Vec<String> {
        check::unquiet(self)
    }
}
