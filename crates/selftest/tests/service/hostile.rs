//! Whatever arrives in whatever order: the service does not panic, does not grow without bound,
//! and serves the next honest peer.

use crate::common::{World, message, short};
use lustrine_lnet::lnd::{Arrival, Core, NiIndex, RxId, Verdict};
use lustrine_lnet::memory::Memory;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_selftest::Tunables;
use lustrine_selftest::{LoadStep, StepLimit, Test};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::header::{Body::Put, Header, MdHandle};
use lustrine_wire::nid::{Net, Nid, ProcessId};
use lustrine_wire::srpc::{
    BatchRequest, Body, BrwCheck, BrwRequest, DebugRequest, Destination, JoinRequest, MESSAGE_LEN,
    MakeSessionRequest, Message, Name, PING_MAGIC, PingReply, PingRequest, RemoveSessionRequest,
    Role, Sid, StatRequest, TestParams, TestRequest,
};
use proptest::prelude::*;

/// Numbers that are often legal, and often at an edge.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        0_u32..5,
        Just(8),
        Just(11),
        Just(12),
        Just(1024),
        Just(4096),
        Just(1 << 20),
        Just(i32::MAX as u32),
        Just(1 << 31),
        Just(u32::MAX),
        any::<u32>(),
    ]
}

fn sid() -> impl Strategy<Value = Sid> {
    prop_oneof![
        4 => Just(Sid { nid: short(0), stamp: 1 }),
        1 => Just(Sid { nid: short(0), stamp: 2 }),
        1 => Just(Sid::NONE),
    ]
}

fn params() -> impl Strategy<Value = TestParams> {
    prop_oneof![
        (0_u16..4, 0_u16..6, number(), number())
            .prop_map(|(rw, check, len, offset)| TestParams::BrwV1 { rw, check, len, offset }),
        Just(TestParams::BrwV1 { rw: 1, check: 3, len: 4096, offset: 0 }),
        (number(), number(), number()).prop_map(|(rw, pages, check)| TestParams::BrwV0 {
            rw,
            pages,
            check
        }),
        Just(TestParams::Ping { size: 0, flags: 0, unused: [0; 4] }),
    ]
}

/// A request with reply bits 1 and bulk bits 2.
fn body() -> impl Strategy<Value = Body> {
    let reply_bits = 1;
    prop_oneof![
        (sid(), 0_u32..3).prop_map(move |(sid, force)| {
            let name = Name::new("x").unwrap();
            Body::MakeSessionRequest(MakeSessionRequest { reply_bits, sid, force, name })
        }),
        sid().prop_map(move |sid| {
            Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits, sid })
        }),
        sid().prop_map(move |sid| Body::DebugRequest(DebugRequest { reply_bits, sid, flags: 0 })),
        sid().prop_map(move |sid| Body::StatRequest(StatRequest { reply_bits, sid, kind: 0 })),
        sid().prop_map(move |sid| {
            Body::JoinRequest(JoinRequest { reply_bits, sid, group: Name([0xff; 32]) })
        }),
        (sid(), 0_u64..3, 0_u32..5, number(), 0_u32..2).prop_map(
            move |(sid, batch, op, test, arg)| {
                Body::BatchRequest(BatchRequest { reply_bits, sid, batch, op, test, arg })
            }
        ),
        (sid(), 0_u64..3, any::<bool>(), number(), number(), number(), params(), 0_u32..14)
            .prop_map(move |(sid, batch, client, loops, concurrency, count, params, service)| {
                let role = if client { Role::Client } else { Role::Server };
                Body::TestRequest(TestRequest {
                    reply_bits,
                    bulk_bits: 2,
                    sid,
                    batch,
                    service,
                    loops: loops as i32,
                    // Few enough units for a quick test, and now and then far too many.
                    concurrency: if concurrency < 5000 { concurrency % 8 } else { concurrency },
                    role,
                    stop_on_error: (loops % 2) as u8,
                    destinations: if count < 5000 { count % 4 } else { count },
                    params,
                    rate: 0,
                })
            }),
        (number(), number(), number()).prop_map(move |(rw, len, check)| {
            Body::BrwRequest(BrwRequest { reply_bits, bulk_bits: 2, rw, len, check })
        }),
        number().prop_map(move |seq| {
            let (magic, time) = (PING_MAGIC, 0);
            let ping = PingRequest { reply_bits, magic, seq, time_s: time, time_ns: time };
            Body::PingRequest(ping)
        }),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    /// A request, with some bytes changed.
    Send { body: Body, big: bool, features: u32, damage: Vec<(usize, u8)>, from: usize },
    /// Anything at all.
    Rubbish { portal: u32, match_bits: u64, bytes: Vec<u8> },
    /// Offers a list of destinations, or data.
    Offer { len: usize },
    /// So many milliseconds.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let damage = proptest::collection::vec((0_usize..MESSAGE_LEN, any::<u8>()), 0..3);
    let features = prop_oneof![8 => Just(1_u32), 1 => Just(0), 1 => any::<u32>()];
    prop_oneof![
        12 => (body(), any::<bool>(), features, damage, any::<bool>(), 0_usize..2).prop_map(
            |(body, big, features, damage, whole, from)| {
                let damage = if whole { Vec::new() } else { damage };
                Step::Send { body, big, features, damage, from: from * 2 }
            }
        ),
        1 => (50_u32..52, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..170))
            .prop_map(|(portal, match_bits, bytes)| Step::Rubbish { portal, match_bits, bytes }),
        3 => (0_usize..50).prop_map(|entries| Step::Offer { len: entries * 12 }),
        2 => prop_oneof![Just(1), Just(100), Just(120_000)].prop_map(Step::Wait),
    ]
}

fn service_id(body: &Body) -> u64 {
    let kind = body.message_type();
    let found =
        lustrine_wire::srpc::Service::ALL.into_iter().find(|service| service.request() == kind);
    u64::from(found.expect("a request").id())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn nothing_brings_the_service_down(steps in proptest::collection::vec(step(), 1..80)) {
        let mut tunables = Tunables::default();
        tunables.set("selftest_memory", 4).unwrap();
        tunables.set("rpc_timeout", 3).unwrap();
        let mut world = World::new(3, tunables);
        world.add_service(1);
        for step in steps {
            match step {
                Step::Send { body, big, features, damage, from } => {
                    let order = if big { ByteOrder::Big } else { ByteOrder::Little };
                    let mut raw = [0; MESSAGE_LEN];
                    Message { order, version: 1, features, body }.encode(&mut raw);
                    for (at, value) in damage {
                        raw[at] = value;
                    }
                    let service = service_id(&body);
                    let portal = if service >= 10 { 50 } else { 51 };
                    world.send_raw(from, 1, portal, service, &raw);
                }
                Step::Rubbish { portal, match_bits, bytes } => {
                    world.send_raw(0, 1, portal, match_bits, &bytes);
                }
                Step::Offer { len } => {
                    let entry = Destination { nid: short(2), pid: 12345 };
                    let list = entry.encode(ByteOrder::Little).repeat(len / 12);
                    world.offer(0, 1, 2, &list);
                }
                Step::Wait(millis) => {
                    world.turn();
                    world.now = world.now + Nanos::from_millis(millis);
                }
            }
            world.turn();
            // LNet's own, 8 request buffers, the source, 4 bulk buffers, cells for messages.
            prop_assert!(world.net.nodes[1].memory.live < 2 + 8 + 1 + 5 + 100);
        }
        // Stop whatever runs, let all time-outs pass.
        let sid = Sid { nid: short(0), stamp: 77 };
        let (reply_bits, name) = (world.bits(), Name::EMPTY);
        let make = MakeSessionRequest { reply_bits, sid, force: 1, name };
        let reply = world.ask(0, 1, 1, &message(1, Body::MakeSessionRequest(make)));
        prop_assert!(matches!(reply, Some(Body::MakeSessionReply(made)) if made.status == 0));
        world.turns(Nanos::from_millis(500), 20);
        let reply_bits = world.bits();
        let stat = Body::StatRequest(StatRequest { reply_bits, sid, kind: 0 });
        match world.ask(0, 1, 5, &message(1, stat)) {
            Some(Body::StatReply(stat)) => {
                prop_assert_eq!(stat.counters.framework.zombie_sessions, 0);
                prop_assert_eq!(stat.counters.framework.active_batches, 0);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        let reply_bits = world.bits();
        let ping =
            PingRequest { reply_bits, magic: PING_MAGIC, seq: 3, time_s: 0, time_ns: 0 };
        let pong = PingReply { status: 0, magic: PING_MAGIC, seq: 3 };
        let reply = world.ask(0, 1, 12, &message(1, Body::PingRequest(ping)));
        prop_assert_eq!(reply, Some(Body::PingReply(pong)));
    }
}

/// A request for data that never come.
fn greedy_request() -> (Body, [u8; MESSAGE_LEN]) {
    let brw = BrwRequest { reply_bits: 1, bulk_bits: 2, rw: 2, len: 1 << 20, check: 1 };
    let body = Body::BrwRequest(brw);
    let mut raw = [0; MESSAGE_LEN];
    message(1, body).encode(&mut raw);
    (body, raw)
}

/// The client finishes 500 writes in time, without an error.
fn honest_writes_go_on(world: &mut World) {
    let write = Test::Write { len: 65_536, check: BrwCheck::Full };
    let limit = StepLimit::Count(500);
    let step = LoadStep { test: write, concurrency: 4, limit, warm_up: Nanos(0) };
    world.client().start_step(step).unwrap();
    world.until(Nanos::from_millis(5), 2000, |world| world.client().step_finished());
    let now = world.now;
    let figures = world.client().progress(now);
    assert_eq!((figures.errors, world.client().error()), (vec![], None));
}

/// 64 peers ask for more than there is and answer nothing themselves: one that answers goes on.
#[test]
fn sixty_four_greedy_peers_do_not_starve_an_honest_one() {
    let mut world = World::new(66, Tunables::default());
    world.add_client(0, 1, |_| {});
    world.add_service(1);
    world.until(Nanos::from_millis(5), 100, |world| world.client().is_connected());
    for round in 0..100 {
        for greedy in 2..66 {
            let (body, raw) = greedy_request();
            world.send_raw(greedy, 1, 50, service_id(&body), &raw);
        }
        if round % 10 == 9 {
            world.turns(Nanos::from_millis(1), 10);
        }
    }
    assert!(world.net.nodes[1].shard.stats().sent.get > 64, "data are asked for");
    honest_writes_go_on(&mut world);
}

/// A peer begins tests, and offers none of the lists of destinations that it announces, so that all
/// of its requests stay in flight for a time-out: those of other peers are answered as before.
#[test]
fn framework_requests_that_one_peer_leaves_unfinished_do_not_shut_out_others() {
    let mut world = World::new(4, Tunables::default());
    world.add_service(1);
    let (sid, name) = (Sid { nid: short(2), stamp: 1 }, Name::EMPTY);
    let make = MakeSessionRequest { reply_bits: world.bits(), sid, force: 0, name };
    let made = world.ask(2, 1, 1, &message(1, Body::MakeSessionRequest(make)));
    assert!(matches!(made, Some(Body::MakeSessionReply(reply)) if reply.status == 0), "{made:?}");
    let test = TestRequest {
        reply_bits: 1,
        bulk_bits: 2,
        sid,
        batch: 1,
        service: 12,
        loops: 1,
        concurrency: 1,
        role: Role::Client,
        stop_on_error: 0,
        destinations: 1,
        params: TestParams::Ping { size: 0, flags: 0, unused: [0; 4] },
        rate: 0,
    };
    let mut raw = [0; MESSAGE_LEN];
    message(1, Body::TestRequest(test)).encode(&mut raw);
    for _ in 0..30 {
        for _ in 0..100 {
            world.send_raw(2, 1, 51, 4, &raw);
        }
        world.turns(Nanos::from_millis(1), 10);
    }
    let totals = world.service(1).totals();
    assert!(totals.received > 2000 && totals.dropped > 1500, "{totals:?}");
    for from in [0, 3] {
        let request = DebugRequest { reply_bits: world.bits(), sid, flags: 0 };
        let reply = world.ask(from, 1, 0, &message(1, Body::DebugRequest(request)));
        assert!(matches!(reply, Some(Body::DebugReply(reply)) if reply.sid == sid), "{reply:?}");
    }
}

/// One connection sends requests in the names of 600 nodes. Answers would go to these nodes, and a
/// stranger must not be able to make us dial them.
#[test]
fn six_hundred_names_on_one_connection_are_not_answered() {
    let mut world = World::new(3, Tunables::default());
    world.add_client(0, 1, |_| {});
    world.add_service(1);
    world.until(Nanos::from_millis(5), 100, |world| world.client().is_connected());
    let from = ProcessId::lustre(world.net.nodes[2].nid);
    let dst = ProcessId::lustre(world.net.nodes[1].nid);
    let (body, raw) = greedy_request();
    for name in 0..600 {
        let ip = std::net::Ipv4Addr::from_bits(0x0b00_0000 + name);
        let put = Put {
            ack_md: MdHandle::NONE,
            match_bits: service_id(&body),
            hdr_data: 0,
            portal: 50,
            offset: 0,
        };
        let src = ProcessId::lustre(Nid::from_ip(Net::TCP, ip.into()));
        let header = Header { dst, src, payload_len: MESSAGE_LEN as u32, body: put };
        let arrival = Arrival { ni: NiIndex(0), from, rx: RxId(1 << 40 | u64::from(name)) };
        let (now, node) = (world.now, &mut world.net.nodes[1]);
        match node.shard.recv_header(now, arrival, &header) {
            Verdict::Into { op, spans } => {
                node.memory.write(spans[0], &raw);
                node.shard.done(now, op, Status::Ok);
            }
            other => panic!("a request is taken, not {other:?}"),
        }
        if name % 50 == 49 {
            world.turns(Nanos::from_millis(1), 3);
        }
    }
    world.turns(Nanos::from_millis(1), 3);
    assert_eq!(world.service(1).totals().dropped, 600);
    assert_eq!(world.net.nodes[1].shard.peers().count(), 2, "no name became a peer");
    honest_writes_go_on(&mut world);
}
