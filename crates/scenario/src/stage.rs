//! A scenario's sites, links, nodes and clients in a simulation.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use lustrine_lnet::time::WallClock;
use lustrine_selftest::{ClientArgs, ClientSlot, LoadStep, SessionMode, StepLimit};
use lustrine_sim::fabric::{Hop, LinkSpec, SiteId, TrunkId};
use lustrine_sim::{HostId, MessageSim, NodeSpec, Placement, Simulation, StopKind, StreamSim};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::Name;

use crate::model::{Action, Event, Fidelity, Group, NodeRange, Scenario, Target};

/// The first node's address; the others follow.
const FIRST_ADDRESS: u32 = 0x0a00_0001;

/// The distance between the incarnations of two runs of a node. Different nodes are further apart.
const INCARNATION_STEP: u64 = 1 << 8;
const NODE: u64 = 1 << 24;

/// Memory of a node in addition to what its selftest may use, in bytes.
const MEMORY: u64 = 1 << 30;

/// An empty simulation for a scenario.
pub fn simulation(scenario: &Scenario) -> Box<dyn Simulation> {
    match scenario.fidelity {
        Fidelity::Stream => Box::new(StreamSim::new(scenario.seed)),
        Fidelity::Message => Box::new(MessageSim::new(scenario.seed)),
    }
}

/// Maps a scenario to the hosts and links of a simulation.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Per group, per member.
    pub(crate) hosts: Vec<Vec<HostId>>,
    /// As in the scenario.
    pub(crate) trunks: Vec<TrunkId>,
    nids: Vec<Vec<Nid>>,
    /// The specifications of nodes that are away.
    away: BTreeMap<HostId, NodeSpec>,
    /// Client slots used so far on each group's nodes; each client has its own slot.
    lanes: Vec<u8>,
}

/// One client of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAt {
    pub(crate) host: HostId,
    pub(crate) slot: ClientSlot,
}

impl Stage {
    /// Adds everything to an empty simulation.
    pub(crate) fn new(scenario: &Scenario, sim: &mut dyn Simulation) -> Stage {
        let fabric = sim.fabric();
        let sites: Vec<SiteId> = scenario.sites.iter().map(|_| fabric.add_site()).collect();
        let trunks = scenario.trunks.iter().map(|trunk| {
            let between = (sites[trunk.between.0], sites[trunk.between.1]);
            fabric.add_trunk(between, &vec![trunk.link; trunk.parallel as usize], trunk.hashing)
        });
        let trunks = trunks.collect();
        let mut stage = Stage {
            hosts: Vec::new(),
            trunks,
            nids: Vec::new(),
            away: BTreeMap::new(),
            lanes: vec![0; scenario.groups.len()],
        };
        let mut number = 0;
        for group in &scenario.groups {
            let nids: Vec<Nid> = (number..number + group.count).map(|n| nid(group, n)).collect();
            let hosts = nids.iter().zip(number..).map(|(nid, number)| {
                let place = Placement {
                    site: sites[group.site],
                    interface: group.interface,
                    cost: group.cost,
                    tcp: group.tcp,
                };
                sim.add_node_at(spec(group, *nid, number, scenario.seed), place)
            });
            stage.hosts.push(hosts.collect());
            stage.nids.push(nids);
            number += group.count;
        }
        stage
    }

    /// Starts the clients of a load, by index; the entry of a client whose node is away is `None`.
    pub(crate) fn start_load(
        &mut self,
        scenario: &Scenario,
        load: usize,
        sim: &mut dyn Simulation,
    ) -> Vec<Option<ClientAt>> {
        let load = &scenario.loads[load];
        let (from, to) = (&scenario.groups[load.from], &scenario.groups[load.to]);
        let first_slot = self.lanes[load.from];
        let lanes = u8::try_from(load.spread.servers).expect("checked when the file was read");
        self.lanes[load.from] += lanes;
        let step = LoadStep {
            test: load.test,
            concurrency: load.concurrency,
            limit: StepLimit::Time(load.time),
            warm_up: load.warm_up,
        };
        let name = Name::new("lustrine-sim").expect("a name that fits");
        let start = |(client, server): (u32, u32)| {
            let host = self.hosts[load.from][client as usize];
            if self.away.contains_key(&host) {
                return None;
            }
            let slot = first_slot + 1 + (server % load.spread.servers) as u8;
            let at = ClientAt { host, slot: ClientSlot(slot) };
            let own = self.nids[load.from][client as usize];
            let args = ClientArgs {
                target: ProcessId::lustre(self.nids[load.to][server as usize]),
                local: None,
                console: own,
                slot: at.slot,
                name,
                session: SessionMode::NoSession,
                patience: load.patience,
                wall: WallClock::from_secs(NodeSpec::new(own).wall_seconds),
            };
            sim.start_client(host, args);
            let client = sim.client(host, at.slot).expect("it was just started");
            client.start_step(step).expect("checked when the file was read");
            Some(at)
        };
        load.spread.pairs(from.count, to.count).map(start).collect()
    }

    /// The hosts that an event ends.
    pub(crate) fn ended_by(&self, event: &Event) -> Vec<HostId> {
        match event.action {
            Action::End(members, _) => self.members(members).collect(),
            _ => Vec::new(),
        }
    }

    /// Applies an event. Returns what could not be done, as a message for users.
    pub(crate) fn act(
        &mut self,
        scenario: &Scenario,
        event: &Event,
        sim: &mut dyn Simulation,
    ) -> Option<String> {
        let now = sim.now();
        match event.action {
            Action::Cut(target) => {
                for (hop, _) in self.hops(scenario, target, sim) {
                    sim.fabric().cut(hop, true);
                }
                None
            }
            Action::Restore(target) => {
                for (hop, link) in self.hops(scenario, target, sim) {
                    sim.fabric().cut(hop, false);
                    sim.fabric().change(hop, now, link);
                }
                None
            }
            Action::Degrade(target, change) => {
                for (hop, _) in self.hops(scenario, target, sim) {
                    let link = sim.fabric().spec(hop);
                    sim.fabric().change(hop, now, change.of(link));
                }
                None
            }
            Action::End(members, death) => self.end(scenario, members, death, sim),
            Action::Restart(members) => self.restart(scenario, members, sim),
        }
    }

    fn end(
        &mut self,
        scenario: &Scenario,
        members: NodeRange,
        death: StopKind,
        sim: &mut dyn Simulation,
    ) -> Option<String> {
        let hosts: Vec<HostId> = self.members(members).collect();
        let mut already = 0;
        for host in hosts {
            match self.away.contains_key(&host) {
                true => already += 1,
                false => {
                    let spec = sim.stop(host, death);
                    self.away.insert(host, spec);
                }
            }
        }
        let name = &scenario.groups[members.group].name;
        (already > 0).then(|| format!("{already} of {name} were away already"))
    }

    fn restart(
        &mut self,
        scenario: &Scenario,
        members: NodeRange,
        sim: &mut dyn Simulation,
    ) -> Option<String> {
        let hosts: Vec<HostId> = self.members(members).collect();
        let mut there = 0;
        for host in hosts {
            match self.away.remove(&host) {
                None => there += 1,
                Some(spec) => {
                    let next =
                        NodeSpec { incarnation: spec.incarnation + INCARNATION_STEP, ..spec };
                    sim.start(host, next);
                }
            }
        }
        let name = &scenario.groups[members.group].name;
        (there > 0).then(|| format!("{there} of {name} were there already"))
    }

    fn members(&self, members: NodeRange) -> impl Iterator<Item = HostId> + '_ {
        self.hosts[members.group][members.first as usize..=members.last as usize].iter().copied()
    }

    /// Both directions of a target's links, with the properties that they had in the beginning.
    fn hops(
        &self,
        scenario: &Scenario,
        target: Target,
        sim: &mut dyn Simulation,
    ) -> Vec<(Hop, LinkSpec)> {
        let fabric = sim.fabric();
        match target {
            Target::Trunk { trunk, link } => {
                let links = fabric.links(self.trunks[trunk]);
                let which = match link {
                    Some(one) => &links[one as usize..=one as usize],
                    None => links,
                };
                let spec = scenario.trunks[trunk].link;
                which.iter().flat_map(|(there, back)| [(*there, spec), (*back, spec)]).collect()
            }
            Target::Interfaces(members) => {
                let spec = scenario.groups[members.group].interface;
                let hosts = self.members(members).filter_map(|host| fabric.interface(host));
                hosts.flat_map(|(up, down)| [(up, spec), (down, spec)]).collect()
            }
        }
    }
}

fn nid(group: &Group, number: u32) -> Nid {
    let ip = IpAddr::V4(Ipv4Addr::from(FIRST_ADDRESS + number));
    Nid::from_ip(group.net, ip)
}

fn spec(group: &Group, nid: Nid, number: u32, seed: u64) -> NodeSpec {
    let usual = NodeSpec::new(nid);
    let bulk = u64::try_from(group.tunables.selftest.selftest_memory).expect("in its range") << 20;
    NodeSpec {
        tunables: group.tunables.clone(),
        incarnation: usual.incarnation + u64::from(number) * NODE,
        // Any values will do, as long as no two nodes have the same.
        seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(number + 1),
        memory: MEMORY + 2 * bulk,
        ..usual
    }
}
