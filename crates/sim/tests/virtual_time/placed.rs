//! Nodes on a long link, under TCP, compared with the usual formula: RPCs in flight times size, in
//! two round trips.

use lustrine_lnet::time::{Nanos, WallClock};
use lustrine_selftest::{ClientArgs, ClientSlot, LoadStep, SessionMode, StepLimit, Test};
use lustrine_sim::fabric::{Hashing, LinkSpec, Rate};
use lustrine_sim::tcp::{Algorithm, TcpSpec};
use lustrine_sim::{CpuCost, HostId, NodeSpec, Placement, Simulation, StreamSim};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{BrwCheck, Name};

const SLOT: ClientSlot = ClientSlot(1);
const MIB: u32 = 1 << 20;

fn nid(index: u32) -> Nid {
    format!("10.1.0.{}@tcp", index + 1).parse().expect("a NID")
}

fn gigabit(gigabits: u64, delay: Nanos) -> LinkSpec {
    let rate = Rate::from_bits(gigabits * 1_000_000_000);
    LinkSpec { rate, delay, ..LinkSpec::default() }
}

/// Two nodes, 10 Gb/s each, with a faster link between them.
fn two_nodes(round_trip: Nanos, tcp: TcpSpec, tune: &[(&str, i64)]) -> (StreamSim, [HostId; 2]) {
    let way = gigabit(100, Nanos(round_trip.0 / 2));
    two_nodes_on(way, gigabit(10, Nanos::ZERO), tcp, tune)
}

/// Two nodes with these interfaces and this link between them.
fn two_nodes_on(
    way: LinkSpec,
    interface: LinkSpec,
    tcp: TcpSpec,
    tune: &[(&str, i64)],
) -> (StreamSim, [HostId; 2]) {
    let mut world = StreamSim::new(1);
    let fabric = Simulation::fabric(&mut world);
    let sites = [fabric.add_site(), fabric.add_site()];
    fabric.add_trunk((sites[0], sites[1]), &[way], Hashing::Hosts);
    let mut add = |index: u32| {
        let spec = NodeSpec { seed: u64::from(index), ..NodeSpec::new(nid(index)) };
        let spec = tune.iter().fold(spec, |spec, (name, value)| spec.with(name, *value));
        let site = sites[index as usize];
        world.add_node_at(spec, Placement { site, interface, cost: CpuCost::default(), tcp })
    };
    let hosts = [add(0), add(1)];
    (world, hosts)
}

/// MiB/s of a load of the first node on the second.
fn throughput(world: &mut StreamSim, host: HostId, test: Test, concurrency: u32) -> f64 {
    let args = ClientArgs {
        target: ProcessId::lustre(nid(1)),
        local: None,
        console: nid(0),
        slot: SLOT,
        name: Name::new("placed").expect("a short name"),
        session: SessionMode::Force,
        patience: Nanos::from_secs(60),
        wall: WallClock::from_secs(0x6000_0000),
    };
    world.start_client(host, args);
    let limit = StepLimit::Time(Nanos::from_secs(10));
    let step = LoadStep { test, concurrency, limit, warm_up: Nanos::from_secs(5) };
    Simulation::client(world, host, SLOT).expect("it runs").start_step(step).expect("harmless");
    let finished = |world: &mut StreamSim| {
        Simulation::client(world, host, SLOT).is_some_and(|client| client.step_finished())
    };
    while !finished(world) {
        let next = Simulation::now(world) + Nanos::from_secs(1);
        world.run_to(next);
    }
    let now = Simulation::now(world);
    let snapshot = Simulation::client(world, host, SLOT).expect("it runs").progress(now);
    assert!(snapshot.errors.is_empty(), "{:?}", snapshot.errors);
    snapshot.bytes as f64 / f64::from(MIB) / snapshot.elapsed.as_secs_f64()
}

#[test]
fn few_rpcs_move_their_size_in_two_round_trips() {
    let round_trip = Nanos(50_500_000);
    let tcp = TcpSpec {
        algorithm: Algorithm::Fixed,
        send_buffer: 256 << 20,
        receive_buffer: 256 << 20,
        ..TcpSpec::default()
    };
    let check = BrwCheck::None;
    for test in [Test::Read { len: MIB, check }, Test::Write { len: MIB, check }] {
        for concurrency in [1, 4, 8] {
            let tune = [("peer_credits", 8), ("credits", 64), ("zero_copy", 1)];
            let (mut world, hosts) = two_nodes(round_trip, tcp, &tune);
            let found = throughput(&mut world, hosts[0], test, concurrency);
            let formula = f64::from(concurrency) / (2.0 * round_trip.as_secs_f64());
            assert!((found / formula - 1.0).abs() < 0.02, "{test:?} {concurrency}: {found}");
        }
    }
}

/// A connection that has lost packets is slow for seconds. New messages take the other one as long
/// as the socket holds much of what was written before [FRM-18].
#[test]
fn a_second_connection_over_a_lossy_path_does_no_harm() {
    let tcp = TcpSpec {
        algorithm: Algorithm::Cubic,
        send_buffer: 128 << 20,
        receive_buffer: 128 << 20,
        segment: 8948,
        ..TcpSpec::default()
    };
    let [one, two] = [1, 2].map(|conns_per_peer| {
        let tune = [
            ("conns_per_peer", conns_per_peer),
            ("peer_credits", 128),
            ("credits", 256),
            ("zero_copy", 1),
            ("selftest_memory", 2048),
        ];
        let way = LinkSpec { queue: 32 << 20, loss: 1000, ..gigabit(10, Nanos::from_millis(15)) };
        let (mut world, hosts) = two_nodes_on(way, gigabit(40, Nanos::ZERO), tcp, &tune);
        let test = Test::Write { len: MIB, check: BrwCheck::None };
        throughput(&mut world, hosts[0], test, 64)
    });
    assert!(two > one, "{two} MiB/s over two connections per type, {one} over one");
}
