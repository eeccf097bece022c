//! Two kinds of drivers in whole nodes: discovery, pings and selftest over the interfaces of both.

use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_partition::{
    Driver, DriverPair, Either, NodePartition, ProbeId, ProbeResult, StreamReport,
};
use lustrine_selftest::{Client, ClientArgs, ClientSlot, LoadStep, SessionMode, StepLimit, Test};
use lustrine_socklnd::{Accept, Socklnd};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{BrwCheck, Name};

use super::kinds::{BothIo, Kind, Make, OnBoth, StreamsThenMessages};
use super::links::{Links, TURN};
use crate::io::VirtualIo;
use crate::memory::RopeMemory;
use crate::network::HostId;
use crate::node::NodeSpec;

const READ: Test = Test::Read { len: 1 << 20, check: BrwCheck::Full };
const WRITE: Test = Test::Write { len: 1 << 20, check: BrwCheck::Full };
const SLOT: ClientSlot = ClientSlot(1);
const TIMEOUT: Nanos = Nanos::from_secs(5);
/// Turns of one run at most.
const TURNS_MAX: usize = 1_000_000;

type Pair = DriverPair<Socklnd, OnBoth>;

/// A node with an interface of socklnd in `tcp` and one of the message driver in `tcp1`.
struct Node {
    host: HostId,
    nids: [Nid; 2],
    partition: NodePartition<Pair>,
    memory: RopeMemory,
}

struct Nodes {
    links: Links,
    nodes: Vec<Node>,
}

impl Nodes {
    fn two() -> Nodes {
        let mut links = Links::new();
        let nodes = (1..=2).map(|number| {
            let nids = [(0, "tcp"), (1, "tcp1")]
                .map(|(third, net)| format!("10.0.{third}.{number}@{net}"))
                .map(|nid| nid.parse().expect("a NID"));
            let spec = NodeSpec {
                accept: Some(Accept::All),
                nids: nids.to_vec(),
                seed: number,
                ..NodeSpec::new(nids[0])
            };
            let host = links.add_host(&spec, number == 1, true);
            let mut driver = StreamsThenMessages::driver(&Make { spec: &spec, cpt: 0, host });
            for (ni, nid) in (0..).map(NiIndex).zip(nids) {
                driver.add_ni(ni, StreamsThenMessages::ni_config(&spec, ni, nid));
            }
            let listener = core::net::SocketAddr::new(nids[0].ip().expect("an address"), 988);
            links.network.listen(host, listener);
            let mut memory = RopeMemory::new(1 << 30);
            memory.track_regions();
            let config = spec.config(0);
            let (topology, tunables) = (config.topology, config.selftest_tunables);
            let partition =
                NodePartition::with_driver(topology, driver, tunables, config.wall, &mut memory);
            Node { host, nids, partition, memory }
        });
        let nodes = nodes.collect();
        links.wire.measure();
        Nodes { links, nodes }
    }

    /// Has a node do something.
    fn with<T>(
        &mut self,
        node: usize,
        act: impl FnOnce(Time, &mut NodePartition<Pair>, &mut BothIo<'_>) -> T,
    ) -> T {
        let Links { network, wire, .. } = &mut self.links;
        let now = network.now();
        let Node { host, partition, memory, .. } = &mut self.nodes[node];
        let streams = VirtualIo { host: *host, cpt: 0, network, memory };
        act(now, partition, &mut BothIo { streams, wire })
    }

    /// Hands what has arrived to the nodes, and has them work on it. Whether there was anything.
    fn work(&mut self) -> bool {
        let now = self.links.now();
        self.links.wire.earliest = now + Nanos(1);
        let mut any = false;
        while let Some(packet) = self.links.next_packet(now) {
            any = true;
            let to = packet.to.0 as usize;
            self.with(to, |now, partition, io| partition.report(now, io, Either::Second(packet)));
        }
        for node in 0..self.nodes.len() {
            let host = self.nodes[node].host;
            let mut reports = Vec::new();
            while let Some(incoming) = self.links.network.next_incoming(host) {
                let (sock, local, remote) = (incoming.sock, incoming.local, incoming.remote);
                reports.push(StreamReport::Accepted { sock, ni: NiIndex(0), local, remote });
            }
            while let Some((sock, report)) = self.links.network.next_report(host) {
                for lent in &report.returned {
                    let held = self.nodes[node].memory.digest(lent.span);
                    assert_eq!(held, Some(lent.digest), "{lent:?} was changed while in use");
                }
                reports.push(StreamReport::Ready { sock, readiness: report.readiness });
            }
            any |= self.with(node, |now, partition, io| {
                let is_due =
                    !reports.is_empty() || partition.has_work() || partition.next_deadline() <= now;
                for report in reports {
                    partition.report(now, io, Either::First(report));
                }
                partition.turn(now, io);
                is_due
            });
        }
        any
    }

    fn run_until(&mut self, mut is_over: impl FnMut(&mut Nodes) -> bool) {
        for _ in 0..TURNS_MAX {
            if is_over(self) {
                return;
            }
            let now = self.links.now();
            let next = match self.work() {
                true => now + TURN,
                false => {
                    let deadlines = self.nodes.iter().map(|node| node.partition.next_deadline());
                    deadlines.fold(self.links.next_event(), Time::min).max(now + TURN)
                }
            };
            self.links.carry_until(next);
            self.links.advance(next);
        }
        panic!("it is never over");
    }

    /// The result of a ping or a discovery that the first node makes.
    fn probe(
        &mut self,
        make: impl FnOnce(Time, &mut NodePartition<Pair>, &mut BothIo<'_>),
    ) -> ProbeResult {
        self.with(0, make);
        let mut result = None;
        self.run_until(|nodes| {
            result = result.take().or_else(|| nodes.nodes[0].partition.next_result());
            result.is_some()
        });
        result.expect("it is over").1
    }

    fn client(&mut self) -> &mut Client {
        self.nodes[0].partition.client(SLOT).expect("it was started")
    }

    /// The first node does so many operations of a test with a NID of the second one.
    fn load(&mut self, to: Nid, test: Test, count: u64) {
        let console = self.nodes[0].nids[0];
        let args = ClientArgs {
            target: ProcessId::lustre(to),
            local: None,
            console,
            slot: SLOT,
            name: Name::EMPTY,
            session: SessionMode::Force,
            patience: TIMEOUT,
            wall: WallClock::from_secs(1),
        };
        self.with(0, |now, partition, _| partition.start_client(now, args)).expect("none is there");
        let limit = StepLimit::Count(count);
        let step = LoadStep { test, concurrency: 4, limit, warm_up: Nanos(0) };
        self.client().start_step(step).expect("harmless");
        self.run_until(|nodes| nodes.client().step_finished());
        let now = self.links.now();
        let progress = self.client().progress(now);
        assert_eq!((progress.errors.len(), progress.ops), (0, count), "{test:?} with {to}");
        self.client().finish(now);
        self.run_until(|nodes| nodes.client().finished());
        assert_eq!(self.client().error(), None, "{test:?} with {to}");
    }
}

#[test]
fn each_network_of_a_node_is_that_of_its_driver() {
    let mut nodes = Nodes::two();
    let [first, second] = nodes.nodes[1].nids;
    // What is discovered over one driver names the NID of the other.
    let found = nodes.probe(|now, partition, io| {
        partition.discover(now, io, ProbeId(1), &first, TIMEOUT);
    });
    let ProbeResult::Discover(Ok(peer)) = found else { panic!("{found:?}") };
    assert_eq!((peer.primary, peer.nids), (first, vec![(first, true), (second, true)]));
    for nid in [first, second] {
        let answer = nodes.probe(|now, partition, io| {
            partition.ping(now, io, ProbeId(2), &nid, TIMEOUT);
        });
        let ProbeResult::Ping(Ok(answer)) = answer else { panic!("{nid}: {answer:?}") };
        assert_eq!(answer.primary, first);
        for test in [Test::Ping, READ, WRITE] {
            nodes.load(nid, test, 40);
        }
    }
    // Each driver has a peer by the NID of its own network, and no other.
    for Node { partition, .. } in &nodes.nodes {
        let driver = partition.driver();
        let streams = driver.first().peer_rows().map(|row| row.id.nid.net());
        let messages = driver.second().peer_rows().map(|row| row.id.nid.net());
        let nets = [streams.collect::<Vec<_>>(), messages.collect()];
        assert_eq!(nets, [[first.net()], [second.net()]]);
    }
}

/// What is lost with one driver leaves the other one as it is.
#[test]
fn the_loss_of_one_network_is_not_that_of_the_other() {
    let mut nodes = Nodes::two();
    let [first, second] = nodes.nodes[1].nids;
    nodes.load(first, Test::Ping, 4);
    nodes.load(second, Test::Ping, 4);
    let (one, two) = (nodes.nodes[0].host, nodes.nodes[1].host);
    nodes.links.network.sever(one, two);
    let ping = |nodes: &mut Nodes, nid: Nid| {
        let make = |now: Time, partition: &mut NodePartition<Pair>, io: &mut BothIo<'_>| {
            partition.ping(now, io, ProbeId(3), &nid, TIMEOUT);
        };
        match nodes.probe(make) {
            ProbeResult::Ping(outcome) => outcome.map(|answer| answer.primary),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ping(&mut nodes, first), Err(Status::TimedOut));
    nodes.load(second, READ, 40);
    assert_eq!(ping(&mut nodes, second), Ok(first));
    nodes.links.network.restore(one, two);
    nodes.load(first, WRITE, 40);
}
