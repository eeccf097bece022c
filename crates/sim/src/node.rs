//! A node of ours: a partition, and what an event loop would have around it.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::seam::NiIndex;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::{Identity, Ni, Topology};
use lustrine_lnet::tunables::Tunables;
use lustrine_node::{Partition, PartitionConfig, ProbeResult, Ticket};
use lustrine_selftest::{Client, Lane};
use lustrine_socklnd::{Accept, Config, NiConfig};
use lustrine_wire::nid::Nid;

use crate::io::VirtualIo;
use crate::memory::{RopeMemory, Usage};
use crate::network::{HostId, Network};
use crate::simulation::{Cost, Waits};
use crate::trace::What;

/// A loop turn takes at least so long; whoever always has work cannot stop the clock.
const TURN: Nanos = Nanos(1000);

/// A loop that has nothing to do takes at least so long to find that out.
const PAUSE: Nanos = Nanos(20_000);

/// Memory a node may have in use at once unless its specification says otherwise, in bytes.
const MEMORY: u64 = 1 << 30;

/// What a node is made from.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its NIDs; the addresses in them are its host's.
    pub nids: Vec<Nid>,
    /// From which ports it dials.
    pub identity: Identity,
    /// Whom it lets in; `None` has no listener.
    pub accept: Option<Accept>,
    /// Values in force.
    pub tunables: Tunables,
    /// Tells this life of it from others.
    pub incarnation: u64,
    /// The wall clock's seconds when it starts.
    pub wall_seconds: u64,
    /// Seed of what it draws at random.
    pub seed: u64,
    /// Memory it may use, in bytes.
    pub memory: u64,
}

impl NodeSpec {
    /// A node of the node identity with LNet's defaults.
    pub fn new(nid: Nid) -> NodeSpec {
        NodeSpec {
            nids: vec![nid],
            identity: Identity::Node,
            accept: Some(Accept::Secure),
            tunables: Tunables::default(),
            incarnation: 0x17a0_0000_0000_0000,
            wall_seconds: 0x6000_0000,
            seed: 1,
            memory: MEMORY,
        }
    }

    /// As this one with a tunable changed.
    ///
    /// # Panics
    /// When there is no such tunable or the value is out of range.
    #[must_use]
    pub fn with(mut self, tunable: &str, value: i64) -> NodeSpec {
        self.tunables.set(tunable, value).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    /// Addresses of its host.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> = Vec::new();
        for ip in self.nids.iter().filter_map(|nid| nid.ip()) {
            if !addresses.contains(&ip) {
                addresses.push(ip);
            }
        }
        addresses
    }

    fn ports(&self) -> (u16, u16) {
        let port = self.tunables.accept_port as u16;
        match self.tunables.accept_port_bulk {
            0 => (port, port),
            bulk => (port, bulk as u16),
        }
    }

    /// Where it listens.
    pub(crate) fn doors(&self) -> Vec<SocketAddr> {
        if self.accept.is_none() {
            return Vec::new();
        }
        let (port, port_bulk) = self.ports();
        let doors = |ip| [SocketAddr::new(ip, port), SocketAddr::new(ip, port_bulk)];
        self.addresses().into_iter().flat_map(doors).collect()
    }

    fn config(&self) -> PartitionConfig {
        let tunables = &self.tunables;
        let (port, port_bulk) = self.ports();
        let ni = |nid: &Nid| Ni {
            nid: *nid,
            credits: tunables.credits as u32,
            peer_credits: tunables.peer_credits as u32,
        };
        let driver_ni = |nid: &Nid| NiConfig {
            nid: *nid,
            local_ip: nid.ip(),
            port,
            port_bulk,
            conns_per_peer: tunables.conns_per_peer.max(1) as u16,
            incarnation: self.incarnation,
        };
        PartitionConfig {
            topology: Topology {
                nis: self.nids.iter().map(ni).collect(),
                identity: self.identity,
                incarnation: self.incarnation,
                cpt: 0,
                cpts: 1,
                tunables: tunables.clone(),
            },
            driver: Config {
                nis: self.nids.iter().map(driver_ni).collect(),
                identity: self.identity,
                accept: self.accept.unwrap_or(Accept::Secure),
                tunables: tunables.clone(),
                cpt: 0,
                cpts: 1,
                seed: self.seed,
            },
            wall_seconds: self.wall_seconds,
        }
    }
}

/// A node that runs.
pub struct Node {
    spec: NodeSpec,
    host: HostId,
    partition: Partition,
    memory: RopeMemory,
    baseline: Usage,
    tickets: u64,
    asked: BTreeSet<u64>,
    results: BTreeMap<u64, Vec<ProbeResult>>,
    complaints: Vec<String>,
    /// Messages and bytes that were paid for.
    worked: (u64, u64),
    waits: Waits,
    /// Turns in a row for which there was no reason, and the most there were.
    idle_turns: u64,
    idle_turns_max: u64,
}

impl Node {
    /// Comes to life on a host, and listens.
    pub(crate) fn start(spec: NodeSpec, host: HostId, network: &mut Network) -> Node {
        let mut memory = RopeMemory::new(spec.memory);
        let mut io = VirtualIo { host, network, memory: &mut memory };
        let partition = Partition::new(spec.config(), &mut io);
        for door in spec.doors() {
            network.listen(host, door);
        }
        let baseline = memory.usage();
        Node {
            spec,
            host,
            partition,
            memory,
            baseline,
            tickets: 0,
            asked: BTreeSet::new(),
            results: BTreeMap::new(),
            complaints: Vec::new(),
            worked: (0, 0),
            waits: Waits::default(),
            idle_turns: 0,
            idle_turns_max: 0,
        }
    }

    /// The most turns in a row after which the node had nothing to do, and yet wanted the next one
    /// at once: a loop that spins.
    pub fn idle_turns_max(&self) -> u64 {
        self.idle_turns_max
    }

    /// What it was made from.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// Its partition, to look at.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Its selftest client of a lane, while there is one.
    pub fn client(&mut self, lane: Lane) -> Option<&mut Client> {
        self.partition.client(lane)
    }

    /// Memory in use.
    pub fn usage(&self) -> Usage {
        self.memory.usage()
    }

    /// Memory in use when it had just started.
    pub fn baseline(&self) -> Usage {
        self.baseline
    }

    /// What it did that no node may do: a driver that changes memory the system still refers to.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Tickets of probes that were asked for, and how many results each has.
    pub fn tickets(&self) -> impl Iterator<Item = (Ticket, usize)> + '_ {
        let count = |ticket: &u64| self.results.get(ticket).map_or(0, Vec::len);
        let known = self.asked.iter().map(move |ticket| (Ticket(*ticket), count(ticket)));
        let unasked = self.results.iter().filter(|(ticket, _)| !self.asked.contains(ticket));
        known.chain(unasked.map(|(ticket, results)| (Ticket(*ticket), results.len())))
    }

    /// The result of a probe, once it is there.
    pub fn result(&self, ticket: Ticket) -> Option<&ProbeResult> {
        self.results.get(&ticket.0)?.first()
    }

    pub(crate) fn ping(&mut self, network: &mut Network, nid: &Nid, timeout: Nanos) -> Ticket {
        let ticket = self.next_ticket();
        let Node { host, partition, memory, .. } = self;
        let now = network.now();
        let mut io = VirtualIo { host: *host, network, memory };
        partition.ping(now, &mut io, ticket, nid, timeout);
        ticket
    }

    pub(crate) fn discover(&mut self, now: Time, nid: &Nid, timeout: Nanos) -> Ticket {
        let ticket = self.next_ticket();
        self.partition.discover(now, ticket, nid, timeout);
        ticket
    }

    fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.asked.insert(self.tickets);
        Ticket(self.tickets)
    }

    pub(crate) fn partition_mut(&mut self) -> &mut Partition {
        &mut self.partition
    }

    /// One turn of its loop. Returns when it wants the next one at the latest.
    pub(crate) fn turn(&mut self, network: &mut Network) -> Time {
        let now = network.now();
        let Node { host, partition, memory, .. } = self;
        let host = *host;
        let mut reports = 0;
        while let Some(incoming) = network.next_incoming(host) {
            let ni = self.spec.nids.iter().position(|nid| nid.ip() == Some(incoming.local.ip()));
            let ni = NiIndex(ni.expect("a listener of this node") as u16);
            let mut io = VirtualIo { host, network, memory };
            let ends = (incoming.local, incoming.remote);
            partition.accepted(now, &mut io, incoming.sock, ni, ends);
        }
        while let Some((sock, report)) = network.next_report(host) {
            reports += 1;
            for lent in &report.returned {
                if memory.digest(lent.span) != Some(lent.digest) {
                    self.complaints.push(format!("{now:?}: {lent:?} was changed while in use"));
                }
            }
            let mut io = VirtualIo { host, network, memory };
            partition.ready(now, &mut io, sock, report.readiness);
        }
        let mut io = VirtualIo { host, network, memory };
        partition.turn(|| now, &mut io);
        assert!(partition.next_handoff().is_none(), "one partition has nobody to hand to");
        network.note(host, lustrine_socklnd::io::SockId(0), What::Turn, reports);
        while let Some((ticket, result)) = partition.next_result() {
            network.note(host, lustrine_socklnd::io::SockId(0), What::Result, ticket.0);
            self.results.entry(ticket.0).or_default().push(result);
        }
        let deadline = partition.next_deadline();
        let idle = reports == 0 && !partition.has_work() && deadline <= now;
        self.idle_turns = if idle { self.idle_turns + 1 } else { 0 };
        self.idle_turns_max = self.idle_turns_max.max(self.idle_turns);
        match partition.has_work() {
            true => now + TURN,
            false if deadline <= now => now + PAUSE,
            false => deadline,
        }
    }

    /// CPU time that what it did since it was last asked takes.
    pub(crate) fn work_done(&mut self, cost: &Cost) -> Nanos {
        let stats = self.partition.shard().stats();
        let messages = stats.sent.total() + stats.received.total();
        let now = (messages, stats.send_length + stats.recv_length);
        let before = core::mem::replace(&mut self.worked, now);
        let took = cost.of(now.0 - before.0, now.1 - before.1);
        self.waits.messages = now.0;
        self.waits.cpu += took.0;
        took
    }

    /// For what its messages have waited.
    pub(crate) fn waits(&self) -> Waits {
        self.waits
    }

    /// Orderly shutdown of its connections.
    pub(crate) fn close(&mut self, network: &mut Network, status: Status) {
        let now = network.now();
        let Node { host, partition, memory, .. } = self;
        let mut io = VirtualIo { host: *host, network, memory };
        partition.close(now, &mut io, status);
    }
}
