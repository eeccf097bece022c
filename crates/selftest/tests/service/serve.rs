//! PING and BRW as others send them, well-meant or not [LST-8] [LST-16] [LST-18].

use crate::common::{World, message};
use lustrine_lnet::lnd::{Arrival, Core, NiIndex, OpKey, RxId, Verdict};
use lustrine_lnet::memory::Memory;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_lnet_testing::test_nid;
use lustrine_selftest::Tunables;
use lustrine_selftest::{LoadStep, StepLimit, Test, errno};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::header::{Body as HeaderBody, Header, MdHandle};
use lustrine_wire::nid::{PID_USERLAND, ProcessId};
use lustrine_wire::srpc::{
    Body, BrwCheck, BrwReply, BrwRequest, DATA_MAGIC, DebugRequest, MESSAGE_LEN, Message,
    PING_MAGIC, PingReply, PingRequest, Sid,
};

const BRW: u64 = 11;
const PING: u64 = 12;

/// Node 0 is the test's, node 1 serves.
fn world() -> World {
    let mut world = World::new(2, Tunables::default());
    world.add_service(1);
    world.turns(Nanos::from_millis(1), 3);
    world
}

fn ping(world: &mut World, magic: u32) -> Body {
    let reply_bits = world.bits();
    Body::PingRequest(PingRequest { reply_bits, magic, seq: 77, time_s: 1, time_ns: 2 })
}

fn brw(world: &mut World, rw: u32, len: u32, check: u32) -> (Body, u64) {
    let (reply_bits, bulk_bits) = (world.bits(), world.bits());
    (Body::BrwRequest(BrwRequest { reply_bits, bulk_bits, rw, len, check }), bulk_bits)
}

fn pattern(order: ByteOrder, len: usize) -> Vec<u8> {
    order.u64_bytes(DATA_MAGIC).repeat(len / 8)
}

#[test]
fn a_ping_comes_back_with_magic_and_number() {
    let mut world = world();
    let request = ping(&mut world, PING_MAGIC);
    let pong = world.ask(0, 1, PING, &message(1, request));
    assert_eq!(pong, Some(Body::PingReply(PingReply { status: 0, magic: PING_MAGIC, seq: 77 })));
}

#[test]
fn a_ping_with_a_wrong_magic_is_dropped() {
    let mut world = world();
    let request = ping(&mut world, PING_MAGIC + 1);
    assert_eq!(world.ask(0, 1, PING, &message(1, request)), None);
    assert_eq!(world.service(1).totals().dropped, 1);
}

#[test]
fn unknown_features_and_versions_get_eproto() {
    let mut world = world();
    let request = ping(&mut world, PING_MAGIC);
    match world.ask(0, 1, PING, &message(2, request)) {
        Some(Body::PingReply(pong)) => assert_eq!((pong.status, pong.seq), (errno::EPROTO, 77)),
        other => panic!("{other:?}"),
    }
    let (request, _) = brw(&mut world, 1, 4096, 1);
    let refused = Some(Body::BrwReply(BrwReply { status: errno::EPROTO }));
    assert_eq!(world.ask(0, 1, BRW, &message(0x10, request)), refused);
    let (body, _) = brw(&mut world, 1, 4096, 1);
    let request = Message { order: ByteOrder::Little, version: 3, features: 1, body };
    assert_eq!(world.ask(0, 1, BRW, &request), refused);
}

#[test]
fn a_reply_carries_the_features_of_its_request() {
    let mut world = world();
    for features in [0, 1, 4] {
        let reply_bits = world.bits();
        let body = Body::PingRequest(PingRequest {
            reply_bits,
            magic: PING_MAGIC,
            seq: 1,
            time_s: 0,
            time_ns: 0,
        });
        let mut raw = [0; MESSAGE_LEN];
        message(features, body).encode(&mut raw);
        let reply = world.ask_raw(0, 1, 50, PING, reply_bits, &raw).unwrap();
        assert_eq!((reply.features, reply.order), (features, ByteOrder::Little));
    }
}

#[test]
fn bulk_requests_are_refused_by_number() {
    // Kernels from 2.16 on crash on most of these.
    let rows = [
        ("rw 0", 1, 0, 4096, 1),
        ("rw 3", 1, 3, 4096, 1),
        ("check 0", 1, 1, 4096, 0),
        ("check 5", 1, 2, 4096, 5),
        ("length 0", 1, 1, 0, 1),
        ("over 1 MiB", 1, 2, (1 << 20) + 1, 1),
        ("4 GiB", 1, 2, u32::MAX, 2),
        ("partial words to be checked", 1, 2, 4095, 3),
        ("partial words to be filled", 1, 1, 12, 2),
        ("version 0 with a partial page", 0, 1, 4088, 1),
    ];
    let mut world = world();
    for (what, features, rw, len, check) in rows {
        let (request, _) = brw(&mut world, rw, len, check);
        let reply = world.ask(0, 1, BRW, &message(features, request));
        assert_eq!(reply, Some(Body::BrwReply(BrwReply { status: errno::EINVAL })), "{what}");
    }
    assert_eq!(world.service(1).totals().bulk_get + world.service(1).totals().bulk_put, 0);
}

#[test]
fn reads_and_writes_move_data_for_every_check() {
    let mut world = world();
    for (features, len, check) in
        [(1, 8, 2), (1, 4096, 3), (0, 8192, 2), (1, 13, 1), (1, 65_544, 4), (1, 1 << 20, 3)]
    {
        let done = Some(Body::BrwReply(BrwReply { status: 0 }));
        let (request, bulk_bits) = brw(&mut world, 1, len, check);
        let span = world.offer(0, 1, bulk_bits, &vec![0; len as usize]);
        assert_eq!(world.ask(0, 1, BRW, &message(features, request)), done);
        let mut got = vec![0; len as usize];
        world.net.nodes[0].memory.read(span, &mut got);
        let whole = (len / 8 * 8) as usize;
        assert_eq!(got[..whole], pattern(ByteOrder::Little, whole)[..], "{len} {check}");

        let (request, bulk_bits) = brw(&mut world, 2, len, check);
        let mut data = pattern(ByteOrder::Little, len as usize);
        data.resize(len as usize, 0);
        world.offer(0, 1, bulk_bits, &data);
        assert_eq!(world.ask(0, 1, BRW, &message(features, request)), done);
    }
    let totals = world.service(1).totals();
    assert_eq!(totals.bulk_get, 8 + 4096 + 8192 + 13 + 65_544 + (1 << 20));
    assert_eq!(totals.bulk_put, totals.bulk_get);
}

#[test]
fn wrong_data_are_told_and_only_where_they_are_looked_for() {
    let mut world = world();
    let mut middle = pattern(ByteOrder::Little, 4096);
    middle[2048] ^= 1;
    let mut end = pattern(ByteOrder::Little, 4096);
    end[4095] ^= 1;
    let rows = [
        (&middle, 3, errno::EBADMSG),
        (&middle, 2, 0),
        (&middle, 1, 0),
        (&end, 2, errno::EBADMSG),
        (&end, 1, 0),
    ];
    for (data, check, status) in rows {
        let (request, bulk_bits) = brw(&mut world, 2, 4096, check);
        world.offer(0, 1, bulk_bits, data);
        let reply = world.ask(0, 1, BRW, &message(1, request));
        assert_eq!(reply, Some(Body::BrwReply(BrwReply { status })), "check {check}");
    }
}

#[test]
fn a_big_endian_peer_is_understood() {
    let mut world = world();
    let body = ping(&mut world, PING_MAGIC);
    let big = |body| Message { order: ByteOrder::Big, version: 1, features: 1, body };
    let pong = world.ask(0, 1, PING, &big(body));
    assert_eq!(pong, Some(Body::PingReply(PingReply { status: 0, magic: PING_MAGIC, seq: 77 })));
    for (order, status) in [(ByteOrder::Big, 0), (ByteOrder::Little, errno::EBADMSG)] {
        let (body, bulk_bits) = brw(&mut world, 2, 4096, 3);
        world.offer(0, 1, bulk_bits, &pattern(order, 4096));
        let reply = world.ask(0, 1, BRW, &big(body));
        assert_eq!(reply, Some(Body::BrwReply(BrwReply { status })), "{order:?}");
    }
}

#[test]
fn rubbish_is_counted_and_dropped() {
    let mut world = world();
    let mut good = [0; MESSAGE_LEN];
    let body = ping(&mut world, PING_MAGIC);
    message(1, body).encode(&mut good);
    let mut bad_magic = good;
    bad_magic[0] ^= 1;
    let mut bad_type = good;
    bad_type[8] = 99;
    let mut reply_type = good;
    reply_type[8] = 15;
    let rows: [(u32, u64, &[u8]); 11] = [
        (50, PING, &[]),
        (50, PING, &good[..159]),
        (50, PING, &bad_magic),
        (50, PING, &bad_type),
        (50, PING, &reply_type),
        (50, BRW, &good),
        (50, 10, &good),
        (50, u64::MAX, &good),
        (51, 0, &good),
        (51, PING, &good),
        (51, 9, &good),
    ];
    for (portal, match_bits, bytes) in rows {
        let got = world.ask_raw(0, 1, portal, match_bits, 1, bytes);
        assert!(got.is_none(), "{portal} {match_bits} {}", bytes.len());
    }
    let totals = world.service(1).totals();
    assert_eq!((totals.received, totals.dropped), (11, 11));
    // Longer ones never get here: LNet has no room for them.
    let mut long = good.to_vec();
    long.push(0);
    assert!(world.ask_raw(0, 1, 50, PING, 1, &long).is_none());
    let request = ping(&mut world, PING_MAGIC);
    assert!(world.ask(0, 1, PING, &message(1, request)).is_some());
}

#[test]
fn many_empty_messages_do_not_wear_the_request_buffers_out() {
    let mut world = world();
    for _ in 0..3000 {
        world.send_raw(0, 1, 50, PING, &[]);
        world.turn();
    }
    let request = ping(&mut world, PING_MAGIC);
    assert!(world.ask(0, 1, PING, &message(1, request)).is_some());
}

/// The header of a PING to node 1 arrives there, its payload is awaited.
fn begin_request(world: &mut World, rx: u64) -> OpKey {
    let reference = ProcessId::lustre(test_nid(0));
    let (match_bits, hdr_data, portal, offset) = (PING, 0, 50, 0);
    let put = HeaderBody::Put { ack_md: MdHandle::NONE, match_bits, hdr_data, portal, offset };
    let header = Header {
        dst: ProcessId::lustre(test_nid(1)),
        src: reference,
        payload_len: MESSAGE_LEN as u32,
        body: put,
    };
    let arrival = Arrival { ni: NiIndex(0), from: reference, rx: RxId(rx) };
    match world.net.nodes[1].shard.recv_header(world.now, arrival, &header) {
        Verdict::Into { op, .. } => op,
        other => panic!("request {rx} finds no buffer: {other:?}"),
    }
}

#[test]
fn requests_that_stall_do_not_keep_the_request_buffers() {
    let mut world = world();
    let live = world.net.nodes[1].memory.live;
    let mut stalled = Vec::new();
    for number in 0..20 * 409 {
        let op = begin_request(&mut world, 1 << 32 | number);
        // The last one of each buffer.
        if number % 409 == 408 {
            stalled.push(op);
        } else {
            let now = world.now;
            world.net.nodes[1].shard.done(now, op, Status::Ok);
        }
        world.turn();
    }
    let request = ping(&mut world, PING_MAGIC);
    assert!(world.ask(0, 1, PING, &message(1, request)).is_some());
    assert!(world.net.nodes[1].memory.live <= live + 20 + 1, "one buffer for each, and no more");
    for op in stalled {
        let now = world.now;
        world.net.nodes[1].shard.done(now, op, Status::Ok);
    }
    for _ in 0..30 * 409 {
        world.send_raw(0, 1, 50, PING, &[0; MESSAGE_LEN]);
        world.turn();
    }
    assert!(world.net.nodes[1].memory.live <= live + 20 + 1, "they are used again");
    world.turns(Nanos::from_millis(1), 2);
    assert_eq!(world.service(1).totals().received, 50 * 409 + 1);
}

#[test]
fn writes_nobody_provides_for_hold_no_more_than_the_budget() {
    let mut tunables = Tunables::default();
    tunables.set("selftest_memory", 4).unwrap();
    tunables.set("rpc_timeout", 5).unwrap();
    let mut world = World::new(2, tunables);
    world.add_service(1);
    world.turns(Nanos::from_millis(1), 3);
    let live = world.net.nodes[1].memory.live;
    for _ in 0..6000 {
        let (body, _) = brw(&mut world, 2, 1 << 20, 1);
        let mut raw = [0; MESSAGE_LEN];
        message(1, body).encode(&mut raw);
        world.send_raw(0, 1, 50, BRW, &raw);
        world.turn();
        world.now = world.now + Nanos(1000);
        let held = world.net.nodes[1].memory.live - live;
        assert!(held <= 4 + 8, "{held} blocks are held");
    }
    // Pings do not wait behind them, and framework requests neither.
    let body = Body::DebugRequest(DebugRequest { reply_bits: 5, sid: Sid::NONE, flags: 0 });
    assert!(world.ask(0, 1, 0, &message(1, body)).is_some());
    let request = ping(&mut world, PING_MAGIC);
    assert!(world.ask(0, 1, PING, &message(1, request)).is_some());
}

#[test]
fn memory_of_writes_that_failed_is_used_again() {
    let mut tunables = Tunables::default();
    // The peer's share is just enough for its four.
    tunables.set("selftest_memory", 16).unwrap();
    tunables.set("rpc_timeout", 5).unwrap();
    let mut world = World::new(2, tunables);
    world.add_service(1);
    world.turns(Nanos::from_millis(1), 3);
    for round in 1..=5 {
        for _ in 0..4 {
            let (request, _) = brw(&mut world, 2, 1 << 20, 1);
            assert_eq!(world.ask(0, 1, BRW, &message(1, request)), None);
        }
        world.turns(Nanos::from_millis(100), 60);
        assert_eq!(world.service(1).totals().dropped, 4 * round);
        let (request, bulk_bits) = brw(&mut world, 2, 1 << 20, 3);
        world.offer(0, 1, bulk_bits, &pattern(ByteOrder::Little, 1 << 20));
        let reply = world.ask(0, 1, BRW, &message(1, request));
        assert_eq!(reply, Some(Body::BrwReply(BrwReply { status: 0 })), "round {round}");
    }
}

#[test]
fn a_lost_peer_gives_back_the_memory_held_for_it() {
    let mut world = world();
    let live = world.net.nodes[1].memory.live;
    for _ in 0..10 {
        let (request, _) = brw(&mut world, 2, 1 << 20, 1);
        assert_eq!(world.ask(0, 1, BRW, &message(1, request)), None);
    }
    assert!(world.net.nodes[1].memory.live >= live + 10);
    let process = ProcessId { nid: test_nid(0), pid: PID_USERLAND | 1 };
    let [stranger, peer] = [5, 0].map(|node| ProcessId::lustre(test_nid(node)));
    for (lost, held) in [(stranger, 10), (process, 10), (peer, 0)] {
        let (node, place) = (&mut world.nodes[1], &mut world.net.nodes[1]);
        let service = node.service.as_mut().unwrap();
        let why = Status::ConnectionLost;
        service.peer_lost(world.now, &mut place.shard, &mut place.memory, &lost, why);
        world.turns(Nanos::from_millis(1), 3);
        assert_eq!(world.net.nodes[1].memory.live, live + held);
    }
    assert_eq!(world.service(1).totals().dropped, 10);
}

/// Found by the swarm (seed 1383): requests that waited for memory when the connection broke were
/// served one after the other, each until its time-out, and the peer's new ones waited for minutes.
#[test]
fn what_a_lost_peer_wanted_does_not_hold_up_its_next_life() {
    let mut tunables = Tunables::default();
    tunables.set("selftest_memory", 8).unwrap();
    let mut world = World::new(2, tunables);
    world.add_service(1);
    world.turns(Nanos::from_millis(1), 3);
    for _ in 0..40 {
        let (request, _) = brw(&mut world, 2, 1 << 20, 1);
        assert_eq!(world.ask(0, 1, BRW, &message(1, request)), None);
    }
    let peer = ProcessId::lustre(test_nid(0));
    let (node, place) = (&mut world.nodes[1], &mut world.net.nodes[1]);
    let service = node.service.as_mut().unwrap();
    let why = Status::ConnectionLost;
    service.peer_lost(world.now, &mut place.shard, &mut place.memory, &peer, why);
    world.turns(Nanos::from_millis(1), 3);
    assert_eq!(world.service(1).totals().dropped, 40);
    let (request, bulk_bits) = brw(&mut world, 2, 1 << 20, 1);
    world.offer(0, 1, bulk_bits, &pattern(ByteOrder::Little, 1 << 20));
    let reply = world.ask(0, 1, BRW, &message(1, request));
    assert_eq!(reply, Some(Body::BrwReply(BrwReply { status: 0 })));
}

#[test]
fn writes_beyond_the_memory_wait_for_their_turn() {
    let mut tunables = Tunables::default();
    tunables.set("selftest_memory", 3).unwrap();
    let mut world = World::pair_with(tunables);
    let test = Test::Write { len: 1 << 20, check: BrwCheck::Full };
    let limit = StepLimit::Count(64);
    world
        .client()
        .start_step(LoadStep { test, concurrency: 32, limit, warm_up: Nanos(0) })
        .unwrap();
    world.until(Nanos::from_millis(1), 2000, |world| world.client().step_finished());
    let now = world.now;
    let figures = world.client().progress(now);
    assert_eq!(figures.errors, []);
    assert!(figures.ops >= 64);
}

#[test]
fn more_requests_than_fit_anywhere_wait_inside_lnet() {
    let mut world = World::new(2, Tunables::default());
    let reply_bits = 9;
    let body = PingRequest { reply_bits, magic: PING_MAGIC, seq: 0, time_s: 0, time_ns: 0 };
    let mut raw = [0; MESSAGE_LEN];
    message(1, Body::PingRequest(body)).encode(&mut raw);
    world.add_service(1);
    world.turns(Nanos::from_millis(1), 2);
    for _ in 0..20_000 {
        world.send_raw(0, 1, 50, PING, &raw);
    }
    world.turns(Nanos::from_millis(1), 6000);
    let totals = world.service(1).totals();
    assert_eq!((totals.received, totals.dropped), (20_000, 0));
}

#[test]
fn a_peer_that_provides_nothing_leaves_the_service_to_others() {
    let mut world = World::new(3, Tunables::default());
    world.add_service(1);
    world.turns(Nanos::from_millis(1), 3);
    let live = world.net.nodes[1].memory.live;
    for number in 0..14_000 {
        let (body, _) = brw(&mut world, 2, 1 << 20, 1);
        let mut raw = [0; MESSAGE_LEN];
        message(1, body).encode(&mut raw);
        world.send_raw(0, 1, 50, BRW, &raw);
        if number % 8 == 7 {
            world.turn();
        }
    }
    world.turns(Nanos::from_millis(1), 30);
    // A quarter of the 256 MiB serves 64 at once, 4920 wait, the rest is dropped.
    let totals = world.service(1).totals();
    assert_eq!((totals.received, totals.dropped), (14_000, 14_000 - 64 - 4920));
    assert!(world.net.nodes[1].memory.live <= live + 64 + 20);
    let (request, bulk_bits) = brw(&mut world, 2, 1 << 20, 3);
    world.offer(2, 1, bulk_bits, &pattern(ByteOrder::Little, 1 << 20));
    let reply = world.ask(2, 1, BRW, &message(1, request));
    assert_eq!(reply, Some(Body::BrwReply(BrwReply { status: 0 })));
    let request = ping(&mut world, PING_MAGIC);
    assert!(world.ask(2, 1, PING, &message(1, request)).is_some());
}
