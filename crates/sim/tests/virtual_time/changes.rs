//! Nodes that are changed while they are running, in virtual time.

use lustrine_lnet::ConfiguredPeer;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_partition::tunables::Tunables;
use lustrine_partition::{Change, ProbeResult};
use lustrine_selftest::{ClientArgs, ClientSlot, LoadStep, SessionMode, StepLimit, Test};
use lustrine_sim::{HostId, NodeSpec, Simulation, StopKind, StreamSim};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{BrwCheck, Name};
use proptest::prelude::*;

const SECOND: Nanos = Nanos::from_secs(1);

const SLOT: ClientSlot = ClientSlot(1);

fn nid(index: u64) -> Nid {
    format!("10.0.0.{}@tcp", index + 1).parse().expect("a NID")
}

/// Two nodes with this number of partitions.
fn two_nodes(cpts: u16) -> (StreamSim, [HostId; 2]) {
    let mut world = StreamSim::new(1);
    let hosts = [0, 1].map(|index| {
        let (incarnation, seed) = (0x1000 + index, index + 1);
        world.add_node(NodeSpec { incarnation, seed, cpts, ..NodeSpec::new(nid(index)) })
    });
    (world, hosts)
}

fn tuned(tunables: &Tunables) -> Change {
    Change::Tunables(Box::new(tunables.clone()))
}

fn configured(index: u64) -> Change {
    let nids = vec![nid(index), nid(index + 100)];
    Change::ConfigurePeer(ConfiguredPeer {
        primary: nids[0],
        nids,
        multi_rail: true,
        locked: false,
    })
}

/// How long the discovery of a node that became silent takes to fail after a change.
fn patience(change: &Change) -> Nanos {
    let (mut world, [one, two]) = two_nodes(1);
    world.ping(one, &nid(1), SECOND);
    world.run_for(SECOND);
    world.change(one, change).expect("there is room");
    world.stop(two, StopKind::Silence);
    let (begin, limit) = (world.now(), Nanos::from_secs(1000));
    let ticket = world.discover(one, &nid(1), limit);
    assert!(world.run_until(limit, |world| world.node(one).result(ticket).is_some()));
    let result = world.node(one).result(ticket).cloned();
    assert_eq!(result, Some(ProbeResult::Discover(Err(Status::TimedOut))));
    world.now().since(begin)
}

#[test]
fn a_new_transaction_timeout_changes_how_long_a_failure_takes() {
    let mut shorter = Tunables::default();
    (shorter.lnet.transaction_timeout, shorter.lnet.retry_count) = (10, 0);
    // The driver's share: (150 - 1) / 3 and (10 - 1) / 1 seconds, and the interval of its checks.
    for (change, seconds) in [(Change::ResetStats, 49), (tuned(&shorter), 9)] {
        let (least, most) = (Nanos::from_secs(seconds), Nanos::from_secs(seconds + 1));
        let took = patience(&change);
        assert!(least <= took && took < most, "{took:?}");
    }
}

#[test]
fn connections_are_opened_as_conns_per_peer_says() {
    let (mut world, hosts) = two_nodes(2);
    world.ping(hosts[0], &nid(1), SECOND);
    world.run_for(Nanos::from_secs(5));
    let bulk = |world: &StreamSim| {
        let partitions = world.node(hosts[0]).partitions();
        partitions.flat_map(|p| p.driver().peers()).map(|p| (p.bulk_in, p.bulk_out)).max()
    };
    assert_eq!(bulk(&world), Some((1, 1)));
    for (host, index) in hosts.into_iter().zip(0..) {
        let change = Change::ConnsPerPeer { nid: nid(index), conns_per_peer: 4 };
        world.change(host, &change).expect("there is room");
    }
    world.run_for(Nanos::from_secs(5));
    assert_eq!(bulk(&world), Some((4, 4)));
    world.assert_idle();
}

#[test]
fn messages_that_wait_for_a_peer_end_when_it_is_removed() {
    let (mut world, [one, two]) = two_nodes(2);
    world.stop(two, StopKind::Silence);
    let tickets: Vec<_> =
        (0..20).map(|_| world.ping(one, &nid(1), Nanos::from_secs(900))).collect();
    world.run_for(SECOND);
    world.change(one, &Change::RemoveNids(vec![nid(1)])).expect("there is room");
    world.run_for(SECOND);
    for ticket in tickets {
        let result = world.node(one).result(ticket);
        assert!(matches!(result, Some(ProbeResult::Ping(Err(_)))), "{result:?}");
    }
    let known = world.node(one).partitions().flat_map(|p| p.shard().peers()).count();
    assert_eq!(known, 0);
    world.assert_idle();
}

/// A load of the first node on the second.
fn start_load(world: &mut StreamSim, host: HostId, length: Nanos) {
    let args = ClientArgs {
        target: ProcessId::lustre(nid(1)),
        local: None,
        console: nid(0),
        slot: SLOT,
        name: Name::new("changes").expect("a short name"),
        session: SessionMode::Force,
        patience: Nanos::from_secs(60),
        wall: WallClock::from_secs(0x6000_0000),
    };
    world.start_client(host, args);
    let test = Test::Write { len: 4096, check: BrwCheck::Full };
    let step =
        LoadStep { test, concurrency: 4, limit: StepLimit::Time(length), warm_up: Nanos::ZERO };
    Simulation::client(world, host, SLOT).expect("it runs").start_step(step).expect("harmless");
}

fn finished(world: &mut StreamSim, host: HostId) -> bool {
    // The inspection must not give it a turn.
    world.peek(host, SLOT).is_some_and(|client| client.step_finished())
}

fn harmless() -> impl Strategy<Value = Change> {
    let tunables = (5i64..200, 0i64..3, 0i64..2, 1i64..4000, 0i64..2);
    prop_oneof![
        tunables.prop_map(|(transaction_timeout, retry_count, discovery, min_bulk, zero_copy)| {
            let mut tunables = Tunables::default();
            let (lnet, socklnd) = (&mut tunables.lnet, &mut tunables.socklnd);
            (lnet.transaction_timeout, lnet.retry_count) = (transaction_timeout, retry_count);
            lnet.discovery = discovery;
            (socklnd.min_bulk, socklnd.zero_copy) = (min_bulk, zero_copy);
            socklnd.keepalive = min_bulk % 20;
            tuned(&tunables)
        }),
        (1u16..6).prop_map(|conns_per_peer| Change::ConnsPerPeer { nid: nid(0), conns_per_peer }),
        (1u64..5).prop_map(configured),
        (2u64..5).prop_map(|index| Change::RemoveNids(vec![nid(index), nid(index + 100)])),
        Just(Change::ResetStats),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Changes that remove nothing disturb no load; those that remove something end it cleanly.
    #[test]
    fn a_load_goes_on_under_changes(
        changes in prop::collection::vec((harmless(), 1u64..30), 1..24),
        remove_at in prop::option::of(0usize..24),
        cpts in 1u16..3,
    ) {
        let (mut world, [one, _]) = two_nodes(cpts);
        start_load(&mut world, one, Nanos::from_millis(200));
        let mut removed = false;
        for (index, (change, millis)) in changes.iter().enumerate() {
            world.run_for(Nanos::from_millis(*millis));
            world.change(one, change).expect("there is room");
            if remove_at == Some(index) {
                removed = true;
                world.change(one, &Change::RemoveNids(vec![nid(1)])).expect("there is room");
            }
        }
        let limit = Nanos::from_secs(300);
        prop_assert!(world.run_until(limit, |world| finished(world, one)));
        let now: Time = world.now();
        let snapshot = Simulation::client(&mut world, one, SLOT).expect("it runs").progress(now);
        if !removed {
            prop_assert!(snapshot.errors.is_empty(), "{:?}", snapshot.errors);
            prop_assert!(snapshot.bytes > 0);
        }
        Simulation::client(&mut world, one, SLOT).expect("it runs").finish(now);
        world.run_for(Nanos::from_secs(200));
        world.assert_idle();
    }
}
