//! A console drives nodes as `lst` does: sessions, tests, batches, counters [LST-12] to [LST-14].
//! Node 0 is the console; it only sends raw requests.

use crate::common::{World, message, short};
use lustrine_lnet::time::Nanos;
use lustrine_selftest::Tunables;
use lustrine_selftest::errno;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::srpc::{
    BatchOp, BatchReply, BatchRequest, Body, BrwCheck, BrwOp, Counters, Destination,
    MakeSessionRequest, Name, RemoveSessionRequest, Role, Service, Sid, StatRequest, TestParams,
    TestReply, TestRequest, destination_at,
};

const STEP: Nanos = Nanos::from_millis(1);
const BATCH: u64 = 2;

fn sid() -> Sid {
    Sid { nid: short(0), stamp: 1_594_454 }
}

/// `nodes` nodes, all but the console with a service, all in the session.
fn world(nodes: usize) -> World {
    let mut world = World::new(nodes, Tunables::default());
    for node in 1..nodes {
        world.add_service(node);
    }
    for node in 1..nodes {
        join(&mut world, node);
    }
    world
}

fn join(world: &mut World, node: usize) {
    let reply_bits = world.bits();
    let name = Name::new("mix").unwrap();
    let make =
        Body::MakeSessionRequest(MakeSessionRequest { reply_bits, sid: sid(), force: 0, name });
    assert_eq!(status(world.ask(0, node, 1, &message(1, make))), Some(0));
}

fn status(reply: Option<Body>) -> Option<u32> {
    match reply? {
        Body::MakeSessionReply(reply) => Some(reply.status),
        Body::TestReply(TestReply { status, .. }) => Some(status),
        Body::BatchReply(BatchReply { status, .. }) => Some(status),
        Body::RemoveSessionReply(reply) => Some(reply.status),
        other => panic!("{other:?}"),
    }
}

fn brw(op: BrwOp, check: BrwCheck, len: u32) -> TestParams {
    TestParams::BrwV1 { rw: op as u16, check: check as u16, len, offset: 0 }
}

const PING: TestParams = TestParams::Ping { size: 0, flags: 0, unused: [0; 4] };

/// A TEST with these destinations; none is the server's role.
fn add_test(
    world: &mut World,
    node: usize,
    destinations: &[u64],
    edit: impl FnOnce(&mut TestRequest),
) -> Option<u32> {
    let (reply_bits, bulk_bits) = (world.bits(), world.bits());
    let mut request = TestRequest {
        reply_bits,
        bulk_bits,
        sid: sid(),
        batch: BATCH,
        service: Service::Brw.id(),
        loops: 5,
        concurrency: 2,
        role: if destinations.is_empty() { Role::Server } else { Role::Client },
        stop_on_error: 1,
        destinations: destinations.len() as u32,
        params: brw(BrwOp::Read, BrwCheck::Full, 4096),
        rate: 0,
    };
    edit(&mut request);
    if !destinations.is_empty() {
        let mut list = vec![0xff; destination_at(destinations.len() - 1, 4096) + 12];
        for (index, nid) in destinations.iter().enumerate() {
            let at = destination_at(index, 4096);
            let entry = Destination { nid: *nid, pid: 12345 };
            list[at..at + 12].copy_from_slice(&entry.encode(ByteOrder::Little));
        }
        list.truncate(destinations.len() * 12);
        world.offer(0, node, bulk_bits, &list);
    }
    status(world.ask(0, node, 4, &message(1, Body::TestRequest(request))))
}

fn batch(world: &mut World, node: usize, op: BatchOp, test: u32, arg: u32) -> (u32, u32) {
    let reply_bits = world.bits();
    let request = BatchRequest { reply_bits, sid: sid(), batch: BATCH, op: op as u32, test, arg };
    match world.ask(0, node, 3, &message(1, Body::BatchRequest(request))) {
        Some(Body::BatchReply(reply)) => (reply.status, reply.active),
        other => panic!("{other:?}"),
    }
}

fn active(world: &mut World, node: usize, test: u32) -> u32 {
    let (status, active) = batch(world, node, BatchOp::Query, test, 0);
    assert_eq!(status, 0);
    active
}

fn wait_idle(world: &mut World, node: usize) {
    for _ in 0..200 {
        if active(world, node, 0) == 0 {
            return;
        }
    }
    panic!("the batch does not end");
}

fn counters(world: &mut World, node: usize) -> Counters {
    let reply_bits = world.bits();
    let request = StatRequest { reply_bits, sid: sid(), kind: 0 };
    match world.ask(0, node, 5, &message(1, Body::StatRequest(request))) {
        Some(Body::StatReply(reply)) => {
            assert_eq!((reply.status, reply.sid), (0, sid()));
            reply.counters
        }
        other => panic!("{other:?}"),
    }
}

fn leave(world: &mut World, node: usize) -> Option<u32> {
    let reply_bits = world.bits();
    let request = RemoveSessionRequest { reply_bits, sid: sid() };
    status(world.ask(0, node, 2, &message(1, Body::RemoveSessionRequest(request))))
}

#[test]
fn a_mixed_batch_between_two_nodes_runs_to_its_end() {
    // As capture c01: write full, read simple and ping in one batch.
    let mut world = world(3);
    let server = 2;
    let destinations = [short(server)];
    let tests = [
        (Service::Brw, brw(BrwOp::Write, BrwCheck::Full, 4096)),
        (Service::Brw, brw(BrwOp::Read, BrwCheck::Simple, 1 << 20)),
        (Service::Ping, PING),
    ];
    for (service, params) in tests {
        let edit = |test: &mut TestRequest| {
            (test.service, test.params) = (service.id(), params);
        };
        assert_eq!(add_test(&mut world, server, &[], edit), Some(0));
        assert_eq!(add_test(&mut world, 1, &destinations, edit), Some(0));
    }
    let before = counters(&mut world, server);
    assert_eq!(batch(&mut world, 1, BatchOp::Run, 0, 0), (0, 0));
    wait_idle(&mut world, 1);
    assert_eq!(batch(&mut world, 1, BatchOp::Stop, 0, 0), (0, 0));

    let client = counters(&mut world, 1);
    assert_eq!((client.framework.brw_errors, client.framework.ping_errors), (0, 0));
    // 3 tests, 2 units each, 5 RPCs per unit.
    assert_eq!((client.rpc.sent, client.rpc.errors, client.rpc.expired), (30, 0, 0));
    let after = counters(&mut world, server);
    assert_eq!(after.rpc.received - before.rpc.received, 30 + 1);
    assert_eq!(after.rpc.bulk_get - before.rpc.bulk_get, 10 * 4096);
    assert_eq!(after.rpc.bulk_put - before.rpc.bulk_put, 10 << 20);
    // Ping 1 recv 1 send, read 1 and 2, write 2 and 2, and the STAT [LST-11]; besides,
    // the server's discovery of a new peer: a ping each way.
    let (sent, received) = (
        after.lnet.send_count - before.lnet.send_count,
        after.lnet.recv_count - before.lnet.recv_count,
    );
    assert!((51..=55).contains(&sent), "{sent}");
    assert!((41..=45).contains(&received), "{received}");
    for node in [1, 2] {
        assert_eq!(leave(&mut world, node), Some(0));
    }
}

#[test]
fn a_batch_can_run_again() {
    let mut world = world(3);
    let to = [short(2)];
    assert_eq!(add_test(&mut world, 1, &to, |_| {}), Some(0));
    for round in 1..=3 {
        batch(&mut world, 1, BatchOp::Run, 0, 0);
        wait_idle(&mut world, 1);
        assert_eq!(counters(&mut world, 1).rpc.sent, round * 10);
    }
}

#[test]
fn an_endless_batch_is_stopped_gently_and_at_once() {
    let mut world = world(3);
    let to = [short(2)];
    assert_eq!(add_test(&mut world, 1, &to, |test| test.loops = -1), Some(0));
    for force in [0, 1] {
        batch(&mut world, 1, BatchOp::Run, 0, 0);
        world.turns(STEP, 100);
        assert_eq!((active(&mut world, 1, 0), active(&mut world, 1, 1)), (1, 2));
        assert_eq!(add_test(&mut world, 1, &to, |_| {}), Some(errno::EBUSY));
        assert_eq!(batch(&mut world, 1, BatchOp::Stop, 0, force), (0, 0));
        wait_idle(&mut world, 1);
        let sent = counters(&mut world, 1).rpc.sent;
        world.turns(STEP, 50);
        assert_eq!(counters(&mut world, 1).rpc.sent, sent, "it is really stopped");
    }
    assert_eq!(counters(&mut world, 1).framework.brw_errors, 0, "stopping is no error");
}

#[test]
fn a_failing_rpc_ends_its_unit_only() {
    let mut tunables = Tunables::default();
    tunables.set("rpc_timeout", 2).unwrap();
    let mut world = World::new(4, tunables);
    for node in 1..4 {
        world.add_service(node);
    }
    join(&mut world, 1);
    let to = [short(2), short(3)];
    let endless = |test: &mut TestRequest| {
        (test.loops, test.service, test.params) = (-1, Service::Ping.id(), PING);
    };
    assert_eq!(add_test(&mut world, 1, &to, endless), Some(0));
    batch(&mut world, 1, BatchOp::Run, 0, 0);
    world.turns(STEP, 50);
    assert_eq!(active(&mut world, 1, 1), 4);
    world.nodes[3].dead = true;
    world.turns(Nanos::from_millis(50), 100);
    assert_eq!(active(&mut world, 1, 1), 2, "the units towards the dead node have ended");
    let found = counters(&mut world, 1);
    assert_eq!((found.framework.ping_errors, found.rpc.expired), (2, 2));
}

#[test]
fn without_stop_on_error_a_unit_goes_on() {
    let mut world = world(2);
    // There is no peer: every RPC fails at once.
    let to = [0x0002_0005_0a00_0009];
    let edit = |test: &mut TestRequest| {
        (test.loops, test.stop_on_error, test.concurrency) = (20, 0, 1);
    };
    assert_eq!(add_test(&mut world, 1, &to, edit), Some(0));
    batch(&mut world, 1, BatchOp::Run, 0, 0);
    world.turns(STEP, 30);
    assert_eq!(active(&mut world, 1, 1), 1);
    world.turns(STEP, 300);
    assert_eq!(active(&mut world, 1, 1), 0);
    assert_eq!(counters(&mut world, 1).framework.brw_errors, 20);
}

#[test]
fn a_session_taken_over_in_mid_test_becomes_a_zombie_and_leaves() {
    let mut world = world(3);
    let to = [short(2)];
    assert_eq!(add_test(&mut world, 1, &to, |test| test.loops = -1), Some(0));
    batch(&mut world, 1, BatchOp::Run, 0, 0);
    world.turns(STEP, 20);
    let live = world.net.nodes[1].memory.live;
    assert_eq!(leave(&mut world, 1), Some(0));
    join(&mut world, 1);
    world.turns(STEP, 20);
    let fresh = counters(&mut world, 1);
    assert_eq!((fresh.framework.zombie_sessions, fresh.framework.brw_errors), (0, 0));
    assert_eq!(world.net.nodes[1].memory.live, live - 2, "the buffers of two units are free");
    assert_eq!(batch(&mut world, 1, BatchOp::Query, 0, 0).0, errno::ENOENT);
}

#[test]
fn a_forgotten_session_ends_with_its_units() {
    let mut world = world(3);
    let to = [short(2)];
    assert_eq!(add_test(&mut world, 1, &to, |test| test.loops = -1), Some(0));
    batch(&mut world, 1, BatchOp::Run, 0, 0);
    // The units' own RPCs do not keep it alive.
    world.turns(Nanos::from_millis(200), 520);
    assert!(world.service(1).session().is_none());
    let sent = world.service(1).totals().sent;
    world.turns(Nanos::from_millis(200), 50);
    assert_eq!(world.service(1).totals().sent, sent);
}

#[test]
fn destinations_are_read_across_pages() {
    let mut world = world(3);
    // 342 entries: a kernel console sends 12 bytes each, which cuts the last one's pid.
    let to = vec![short(2); 342];
    let edit = |test: &mut TestRequest| (test.concurrency, test.loops) = (1, 1);
    assert_eq!(add_test(&mut world, 1, &to, edit), Some(0));
    batch(&mut world, 1, BatchOp::Run, 0, 0);
    wait_idle(&mut world, 1);
    assert_eq!(counters(&mut world, 1).rpc.sent, 342);
    assert_eq!(counters(&mut world, 1).framework.brw_errors, 0);
    // 683 entries: the last one's NID is cut too.
    let to = vec![short(2); 683];
    assert_eq!(add_test(&mut world, 1, &to, edit), Some(errno::EINVAL));
}

#[test]
fn a_list_that_is_not_there_gets_no_reply() {
    let mut world = world(2);
    let (reply_bits, bulk_bits) = (world.bits(), world.bits());
    let request = TestRequest {
        reply_bits,
        bulk_bits,
        sid: sid(),
        batch: BATCH,
        service: Service::Ping.id(),
        loops: 1,
        rate: 0,
        concurrency: 1,
        role: Role::Client,
        stop_on_error: 1,
        destinations: 1,
        params: PING,
    };
    assert!(world.ask(0, 1, 4, &message(1, Body::TestRequest(request))).is_none());
    world.turns(Nanos::from_secs(1), 80);
    join(&mut world, 1);
    assert_eq!(counters(&mut world, 1).rpc.dropped, 1);
}

#[test]
fn two_partitions_act_as_one_node() {
    // Nodes 1 and 2 stand for partitions 0 and 1 of one service; each has a NID of its own.
    let mut world = World::new(5, Tunables::default());
    for (node, cpt) in [(1, 0), (2, 1)] {
        world.add_partition(node, cpt, 2);
    }
    world.add_service(3);
    world.add_service(4);
    join(&mut world, 2);
    // Test NIDs 10.0.0.4 and 10.0.0.5 have different homes.
    let to = [short(3), short(4)];
    assert_eq!(add_test(&mut world, 2, &to, |_| {}), Some(0));
    assert_eq!(batch(&mut world, 1, BatchOp::Run, 0, 0), (0, 0));
    wait_idle(&mut world, 2);
    let counted = counters(&mut world, 1);
    assert_eq!((counted.rpc.sent, counted.framework.brw_errors), (20, 0));
    for partition in [1, 2] {
        assert_eq!(world.service(partition).totals().sent, 10);
    }
    assert_eq!(leave(&mut world, 1), Some(0));
}

#[test]
fn an_offset_moves_the_clients_data_only() {
    let mut world = world(3);
    let to = [short(2)];
    for op in [BrwOp::Read, BrwOp::Write] {
        for (check, len, offset) in [
            (BrwCheck::Simple, 4096, 8),
            (BrwCheck::Full, 1 << 20, 4088),
            (BrwCheck::Simple, 65_544, 4096 + 16),
        ] {
            let params = TestParams::BrwV1 { rw: op as u16, check: check as u16, len, offset };
            assert_eq!(add_test(&mut world, 1, &to, |test| test.params = params), Some(0));
        }
    }
    batch(&mut world, 1, BatchOp::Run, 0, 0);
    wait_idle(&mut world, 1);
    let counted = counters(&mut world, 1);
    assert_eq!((counted.rpc.sent, counted.framework.brw_errors), (6 * 10, 0));
}

#[test]
fn more_units_than_memory_take_turns() {
    let mut tunables = Tunables::default();
    tunables.set("selftest_memory", 8).unwrap();
    let mut world = World::new(3, tunables);
    for node in [1, 2] {
        world.add_service(node);
    }
    join(&mut world, 1);
    let to = [short(2)];
    let edit = |test: &mut TestRequest| {
        test.params = brw(BrwOp::Read, BrwCheck::Full, 1 << 20);
        (test.concurrency, test.loops) = (32, 4);
    };
    assert_eq!(add_test(&mut world, 1, &to, edit), Some(0));
    let live = world.net.nodes[1].memory.live;
    batch(&mut world, 1, BatchOp::Run, 0, 0);
    for _ in 0..40 {
        world.turn();
        // 4 sinks, and blocks of cells for messages.
        assert!(world.net.nodes[1].memory.live <= live + 4 + 4);
    }
    wait_idle(&mut world, 1);
    assert_eq!(counters(&mut world, 1).rpc.sent, 128);
    assert_eq!(counters(&mut world, 1).framework.brw_errors, 0);
}
