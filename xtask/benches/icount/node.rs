//! Two whole nodes over pipes, with a selftest client in one.

use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::memory::VecMemory;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_lnet::topology::Identity;
use lustrine_lnet_testing::test_topology;
use lustrine_partition::tunables::Tunables;
use lustrine_partition::{NodePartition, PartitionConfig, StreamReport};
use lustrine_selftest::{
    ClientArgs, ClientSlot, LoadStep, ServicePolicy, SessionMode, StepLimit, Test,
};
use lustrine_wire::nid::ProcessId;
use lustrine_wire::srpc::{BrwCheck, Name};

use crate::core::NOW;
use crate::driver::config;
use crate::pipe::{PipeIo, Pipes, nid};

/// Turns of both nodes per RPC after which the workload is considered stuck.
const TURNS_MAX: u64 = 10_000;

/// The slot of the only client.
const SLOT: ClientSlot = ClientSlot(1);

/// A node and its memory.
pub(crate) struct Node {
    pub(crate) partition: NodePartition,
    pub(crate) memory: VecMemory,
}

impl Node {
    pub(crate) fn new(host: usize, tunables: &Tunables, pipes: &mut Pipes) -> Node {
        let mut memory = VecMemory::default();
        let config = PartitionConfig {
            topology: test_topology(nid(host), Identity::Node, tunables.lnet.clone()),
            driver: config(host, tunables),
            selftest_tunables: tunables.selftest.clone(),
            selftest: ServicePolicy::full(),
            wall: WallClock::from_secs(0x6000_0000),
        };
        let mut io = PipeIo { host, pipes, memory: &mut memory };
        Node { partition: NodePartition::new(config, &mut io), memory }
    }

    pub(crate) fn turn(&mut self, host: usize, pipes: &mut Pipes, now: Time) {
        while let Some(incoming) = pipes.incoming[host].pop_front() {
            let mut io = PipeIo { host, pipes, memory: &mut self.memory };
            let (ni, local, remote) = (NiIndex(0), incoming.local, incoming.remote);
            let report = StreamReport::Accepted { sock: incoming.sock, ni, local, remote };
            self.partition.report(now, &mut io, report);
        }
        while let Some((sock, readiness)) = pipes.next_report(host) {
            let mut io = PipeIo { host, pipes, memory: &mut self.memory };
            self.partition.report(now, &mut io, StreamReport::Ready { sock, readiness });
        }
        let mut io = PipeIo { host, pipes, memory: &mut self.memory };
        self.partition.turn(now, &mut io);
    }
}

fn load(tunables: &Tunables, test: Test, concurrency: u32, count: u64) {
    let mut pipes = Pipes::default();
    let mut nodes = [Node::new(0, tunables, &mut pipes), Node::new(1, tunables, &mut pipes)];
    let args = ClientArgs {
        target: ProcessId::lustre(nid(1)),
        local: None,
        console: nid(0),
        slot: SLOT,
        name: Name::new("icount").expect("a short name"),
        session: SessionMode::IfFree,
        patience: Nanos::from_secs(30),
        wall: WallClock::from_secs(0x6000_0000),
    };
    nodes[0].partition.start_client(NOW, args).expect("the only one");
    let client = nodes[0].partition.client(SLOT).expect("it was just started");
    let limit = StepLimit::Count(count);
    let step = LoadStep { test, concurrency, limit, warm_up: Nanos(0) };
    client.start_step(step).expect("a good step");
    let mut now = NOW;
    for _ in 0..TURNS_MAX * count {
        now = now + Nanos(1000);
        nodes[0].turn(0, &mut pipes, now);
        nodes[1].turn(1, &mut pipes, now);
        let client = nodes[0].partition.client(SLOT).expect("it stays");
        if client.step_finished() {
            let snapshot = client.progress(now);
            assert!(snapshot.errors.is_empty(), "{:?}", snapshot.errors);
            assert!(snapshot.ops >= count, "{} of {count}", snapshot.ops);
            return;
        }
    }
    panic!("the load never ends");
}

pub(crate) fn ping_one(tunables: &Tunables, count: u64) {
    load(tunables, Test::Ping, 1, count);
}

pub(crate) fn ping_many(tunables: &Tunables, count: u64) {
    load(tunables, Test::Ping, 64, count);
}

pub(crate) fn read_4k(tunables: &Tunables, count: u64) {
    load(tunables, Test::Read { len: 4096, check: BrwCheck::None }, 8, count);
}

pub(crate) fn write_4k(tunables: &Tunables, count: u64) {
    load(tunables, Test::Write { len: 4096, check: BrwCheck::None }, 8, count);
}

pub(crate) fn read_4k_checked(tunables: &Tunables, count: u64) {
    load(tunables, Test::Read { len: 4096, check: BrwCheck::Full }, 8, count);
}
