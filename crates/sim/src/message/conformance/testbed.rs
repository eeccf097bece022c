//! Nodes with one or two drivers, over the simulator's byte streams and its whole messages.

use core::net::SocketAddr;

use lustrine_lnd_testing::{
    Command, DriverView, Input, ModelCore, NETS, Setup, StopKind, Testbed, nid_of, turn,
};
use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Identity;
use lustrine_partition::{Driver, StreamReport};
use lustrine_socklnd::Accept;
use lustrine_wire::nid::Nid;

use super::super::packet::Content;
use super::kinds::{BothIo, Kind, Make};
use super::links::{Links, TURN};
use crate::io::VirtualIo;
use crate::memory::RopeMemory;
use crate::network::HostId;
use crate::node::NodeSpec;

/// Most turns of one run: more of them are a driver that asks for turns without end.
const TURNS_MAX: usize = 2_000_000;

/// Port of every listener.
const PORT: u16 = 988;

/// The network in which nodes with a kind of driver are.
pub(super) struct Bed<K: Kind> {
    links: Links,
    nodes: Vec<Node<K>>,
}

struct Node<K: Kind> {
    host: HostId,
    spec: NodeSpec,
    /// By index of interface; [`Nid::ANY`] where there is none.
    nis: Vec<Nid>,
    /// None while it is away.
    cpts: Vec<Cpt<K>>,
    silent: bool,
}

struct Cpt<K: Kind> {
    driver: K::Driver,
    core: ModelCore,
    memory: RopeMemory,
    input: Input<K::Driver>,
    touched: bool,
}

impl<K: Kind> Cpt<K> {
    fn has_reason(&self, now: Time) -> bool {
        self.touched
            || !self.input.is_empty()
            || self.core.has_actions()
            || self.driver.has_work()
            || self.driver.next_deadline() <= now
    }
}

impl<K: Kind> Bed<K> {
    fn add_node(&mut self, node: usize, setup: &Setup) {
        let nids: Vec<Nid> = (0..NETS).map(|net| nid_of(node, net)).collect();
        let userland = setup.userland && node == 0;
        let spec = NodeSpec {
            identity: if userland { Identity::Userland } else { Identity::Node },
            accept: (!userland).then_some(Accept::All),
            tunables: setup.tunables.clone(),
            cpts: if node == 1 { setup.cpts } else { 1 },
            nids,
            ..NodeSpec::new(nid_of(node, 0))
        };
        let host = self.links.add_host(&spec, node == 0, !userland);
        let nis = spec.nids[..setup.nis].to_vec();
        self.nodes.push(Node { host, spec, nis, cpts: Vec::new(), silent: false });
        self.begin(node);
    }

    /// A node comes to life with its interfaces.
    fn begin(&mut self, node: usize) {
        let Node { host, spec, nis, cpts, .. } = &mut self.nodes[node];
        *cpts = (0..spec.cpts)
            .map(|cpt| {
                let mut driver = K::driver(&Make { spec, cpt, host: *host });
                for (index, nid) in nis.iter().enumerate() {
                    let ni = NiIndex(index as u16);
                    driver.add_ni(ni, K::ni_config(spec, ni, *nid));
                }
                let mut memory = RopeMemory::new(1 << 30);
                if K::REGISTERS {
                    memory.track_regions();
                }
                Cpt {
                    driver,
                    core: ModelCore::default(),
                    memory,
                    input: Input::default(),
                    touched: true,
                }
            })
            .collect();
        if spec.accept.is_some() {
            for nid in nis {
                self.links.network.listen(*host, listener(nid));
            }
        }
    }

    fn others(&self, node: usize) -> Vec<HostId> {
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        others.map(|(_, other)| other.host).collect()
    }

    /// Hands what has come over streams to the partitions.
    fn take_streams(&mut self) {
        for Node { host, nis, cpts, .. } in &mut self.nodes {
            while let Some(incoming) = self.links.network.next_incoming(*host) {
                let found = nis.iter().position(|nid| nid.ip() == Some(incoming.local.ip()));
                let (Some(ni), Some(cpt)) = (found, cpts.first_mut()) else {
                    self.links.network.close(incoming.sock);
                    continue;
                };
                let (sock, local, remote) = (incoming.sock, incoming.local, incoming.remote);
                let ni = NiIndex(ni as u16);
                let report = StreamReport::Accepted { sock, ni, local, remote };
                cpt.input.reports.push(K::stream(report));
            }
            while let Some((sock, report)) = self.links.network.next_report(*host) {
                let Some(cpt) = cpts.get_mut(usize::from(self.links.network.cpt_of(sock))) else {
                    continue;
                };
                for lent in &report.returned {
                    let held = cpt.memory.digest(lent.span);
                    assert_eq!(held, Some(lent.digest), "{lent:?} was changed while in use");
                }
                let readiness = report.readiness;
                cpt.input.reports.push(K::stream(StreamReport::Ready { sock, readiness }));
            }
        }
    }

    /// Hands packets that have arrived to the partitions.
    fn take_packets(&mut self, now: Time) {
        while let Some(packet) = self.links.next_packet(now) {
            let node = &mut self.nodes[packet.to.0 as usize];
            match (node.cpts.first_mut(), &packet.content) {
                (Some(cpt), _) => cpt.input.reports.push(K::packet(packet)),
                (None, _) if node.silent => {}
                (None, Content::Dial { .. }) => {
                    self.links.wire.turn_away(now, packet, Content::Refused(Status::Refused));
                }
                (None, Content::Message { .. }) => {
                    self.links.wire.turn_away(now, packet, Content::Closed)
                }
                (None, _) => {}
            }
        }
    }

    /// Has all partitions that have a reason take a turn; whether one did.
    fn take_turns(&mut self, now: Time) -> bool {
        let mut any = false;
        for Node { host, spec, cpts, .. } in &mut self.nodes {
            let mut handed_over = Vec::new();
            for (number, cpt) in (0..).zip(cpts.iter_mut()).filter(|(_, cpt)| cpt.has_reason(now)) {
                any = true;
                cpt.touched = false;
                let input = core::mem::take(&mut cpt.input);
                let adopted: Vec<_> = input.handoffs.iter().map(K::handed_over).collect();
                let (network, memory) = (&mut self.links.network, &mut cpt.memory);
                let streams = VirtualIo { host: *host, cpt: number, network, memory };
                let mut io = BothIo { streams, wire: &mut self.links.wire };
                let configure = |ni, nid| K::ni_config(spec, ni, nid);
                turn(now, &mut cpt.driver, &mut cpt.core, &mut io, input, configure);
                for sock in adopted {
                    self.links.network.tell_again(sock);
                }
                while let Some(handoff) = cpt.driver.next_handoff() {
                    handed_over.push(handoff);
                }
            }
            for (home, handoff) in handed_over {
                self.links.network.give_to(K::handed_over(&handoff), home);
                cpts[usize::from(home)].input.handoffs.push(handoff);
            }
        }
        any
    }

    fn next_event(&self) -> Time {
        let cpts = self.nodes.iter().flat_map(|node| &node.cpts);
        let deadlines = cpts.map(|cpt| cpt.driver.next_deadline()).min();
        deadlines.unwrap_or(Time::NEVER).min(self.links.next_event())
    }
}

fn listener(nid: &Nid) -> SocketAddr {
    SocketAddr::new(nid.ip().expect("an address"), PORT)
}

impl<K: Kind> Testbed for Bed<K> {
    fn new(setup: &Setup) -> Bed<K> {
        let mut bed = Bed { links: Links::new(), nodes: Vec::new() };
        (0..setup.nodes).for_each(|node| bed.add_node(node, setup));
        bed.links.wire.measure();
        bed
    }

    fn now(&self) -> Time {
        self.links.now()
    }

    fn run_until(&mut self, end: Time) {
        for _ in 0..TURNS_MAX {
            let now = self.now();
            self.links.wire.earliest = now + Nanos(1);
            self.take_streams();
            self.take_packets(now);
            let next = match self.take_turns(now) {
                true => now + TURN,
                false => self.next_event().max(now + TURN),
            };
            let next = next.min(end);
            // What is carried may arrive before that.
            self.links.carry_until(next);
            if now == end {
                return;
            }
            self.links.advance(next);
        }
        panic!("a driver asks for turns without end");
    }

    fn with<T>(
        &mut self,
        node: usize,
        cpt: u16,
        act: impl FnOnce(&mut ModelCore, &mut dyn Memory) -> T,
    ) -> T {
        let cpt = &mut self.nodes[node].cpts[usize::from(cpt)];
        cpt.touched = true;
        act(&mut cpt.core, &mut cpt.memory)
    }

    fn command(&mut self, node: usize, command: Command) {
        let Node { host, nis, cpts, .. } = &mut self.nodes[node];
        match &command {
            Command::AddNi(ni, nid) => {
                let place = usize::from(ni.0);
                nis.resize(nis.len().max(place + 1), Nid::ANY);
                nis[place] = *nid;
                self.links.network.listen(*host, listener(nid));
            }
            Command::RemoveNi(ni, _) => {
                let nid = core::mem::replace(&mut nis[usize::from(ni.0)], Nid::ANY);
                self.links.network.unlisten(listener(&nid));
            }
            _ => {}
        }
        for cpt in cpts {
            cpt.input.commands.push_back(command.clone());
        }
    }

    fn view(&self, node: usize, cpt: u16) -> DriverView {
        DriverView::of(&self.nodes[node].cpts[usize::from(cpt)].driver)
    }

    fn stop(&mut self, node: usize, kind: StopKind) {
        let (host, now) = (self.nodes[node].host, self.now());
        let silent = kind == StopKind::Silent;
        self.links.wire.earliest = now + Nanos(1);
        self.nodes[node].silent = silent;
        for cpt in core::mem::take(&mut self.nodes[node].cpts) {
            if !silent {
                for packet in K::farewells(&cpt.driver) {
                    self.links.wire.send(now, packet);
                }
            }
        }
        self.links.network.fell(host, silent);
        self.links.wire.set_silent(host, silent);
    }

    fn start(&mut self, node: usize) {
        let (host, spec) = (self.nodes[node].host, &mut self.nodes[node].spec);
        spec.incarnation += 1;
        self.links.network.raise_host(host);
        self.links.wire.set_silent(host, false);
        self.nodes[node].silent = false;
        self.begin(node);
    }

    fn sever(&mut self, node: usize) {
        let host = self.nodes[node].host;
        for other in self.others(node) {
            self.links.network.sever(host, other);
        }
        self.links.wire.set_silent(host, true);
    }

    fn heal(&mut self, node: usize) {
        let host = self.nodes[node].host;
        for other in self.others(node) {
            self.links.network.restore(host, other);
        }
        self.links.wire.set_silent(host, false);
    }
}
