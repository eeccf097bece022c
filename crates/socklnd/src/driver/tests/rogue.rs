//! The accepting side against scripted peers.

use core::net::SocketAddr;

use crate::tunables::Tunables;
use lustrine_lnet::lnd::{HeaderViolation, LinkEvent, NiIndex};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_wire::ByteOrder;
use lustrine_wire::acceptor::Request;
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::header::Header;
use lustrine_wire::hello::{ConnType, Version};
use lustrine_wire::nid::{Net, Nid, PID_ANY, ProcessId};

use crate::config::Accept;
use crate::testing::{
    Chaos, NODE, Node, Plan, Rogue, World, config, header_bytes, hello, hello_bytes, ip4, nid,
    process, put_header, request_bytes,
};

fn world() -> World {
    let mut world = World::new(1, Chaos::None);
    world.add(config(NODE));
    world
}

fn counters(world: &World) -> crate::counters::Counters {
    *world.driver(0).counters()
}

/// Sends `bytes` instead of a request; returns the answer before the node closes.
fn instead_of_request(world: &mut World, bytes: &[u8]) -> Vec<u8> {
    let mut rogue = Rogue::dial(world, 1, 999);
    rogue.say(world, bytes);
    assert!(rogue.closed(world));
    assert_eq!(world.driver(0).connections(), 0);
    rogue.heard
}

/// Sends `bytes` instead of a HELLO.
fn instead_of_hello(world: &mut World, bytes: &[u8]) -> Rogue {
    let mut rogue = Rogue::dial(world, 1, 999);
    rogue.say(world, &[request_bytes(NODE), bytes.to_vec()].concat());
    assert!(rogue.closed(world));
    assert_eq!(world.driver(0).connections(), 0);
    rogue
}

fn put(len: u32) -> Header {
    put_header(process(1), process(NODE), 1, len)
}

/// [FRM-16], [SOCK-10]
#[test]
fn r_ok() {
    let mut world = world();
    let mut rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    rogue.message(&mut world, FrameHeader::LNET, &put(5), b"hello");
    assert_eq!(world.core(0).payload(0), b"hello");
    world.put(0, process(1), 2, b"you too");
    let heard = rogue.messages(&mut world);
    assert_eq!((heard.len(), &heard[0].payload[..]), (1, &b"you too"[..]));
    world.net.hang_up(rogue.sock);
    world.run();
    assert_eq!(world.events(0)[1], LinkEvent::Down { status: Status::ConnectionLost });
    assert_eq!((counters(&world).closed_by_peer, counters(&world).closed_midway), (1, 0));
}

/// [SOCK-10]: unlike a peer that has ended, it is lost.
#[test]
fn a_peer_that_ends_while_messages_to_it_are_in_flight_is_counted() {
    let mut world = world();
    let rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.net.set_window(0);
    world.put(0, process(1), 2, &[7; 4096]);
    world.run();
    world.net.hang_up(rogue.sock);
    world.run();
    assert_eq!((counters(&world).closed_by_peer, counters(&world).closed_midway), (1, 1));
}

/// [ACC-4], [HEL-1], [HEL-2], [HEL-3], [HEL-11]
#[test]
fn r_hv1_r_hv2_r_hv4_and_r_connreqv2() {
    for version in [Version::V1, Version::V2, Version::V4] {
        let mut world = world();
        let mut rogue = Rogue::dial(&mut world, 1, 999);
        rogue.version = version;
        let request = Request { version: 2, order: ByteOrder::Little, target: nid(NODE) };
        let mut bytes = Vec::new();
        request.encode(&mut bytes).unwrap();
        bytes.extend(hello_bytes(&hello(1, version, ConnType::Control)));
        rogue.say(&mut world, &bytes);
        let answer = rogue.hello(&mut world);
        assert_eq!((answer.version, answer.kind), (version, ConnType::Control));
        assert_eq!(answer.src_incarnation, 1000 + u64::from(NODE));
        assert_eq!((answer.dst.pid, answer.dst_incarnation), (0, 0));
        rogue.message(&mut world, FrameHeader::LNET, &put(5), b"hello");
        assert_eq!(world.core(0).payload(0), b"hello");
        world.put(0, process(1), 2, &[3; 6000]);
        assert_eq!(rogue.messages(&mut world)[0].payload, [3; 6000]);
    }
}

/// A connection breaks while a message alone is written to a peer that lacks others, which are to
/// be dialled: the peer is gone then.
#[test]
fn a_message_alone_to_an_incomplete_peer_that_breaks_ends_the_connection() {
    let mut world = world();
    let rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    rogue.message(&mut world, FrameHeader::LNET, &put(0), b"");
    world.run();
    assert_eq!(world.core(0).arrived.len(), 1);
    for sock in world.net.streams_of(0) {
        world.net.break_stream(sock);
    }
    let op = world.put_alone(0, process(1), 2, b"too late");
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert!(matches!(world.events(0)[..], [LinkEvent::Up, LinkEvent::Down { .. }]));
    world.run();
    assert_eq!(world.core(0).open_ops(), 0);
}

/// [FRM-16], [FRM-17]
#[test]
fn r_okbulk_answers_on_control_for_requests_on_any_type() {
    let mut world = world();
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut bulk_in = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkIn);
    let mut bulk_out = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkOut);
    bulk_out.message(&mut world, FrameHeader::LNET, &put(0), b"");
    assert_eq!(world.core(0).arrived.len(), 1);
    world.put(0, process(1), 1, b"small");
    assert_eq!(control.messages(&mut world).len(), 1);
    world.put(0, process(1), 1, &[1; 2000]);
    assert_eq!(bulk_in.messages(&mut world).len(), 1);
    assert_eq!((control.messages(&mut world), bulk_out.messages(&mut world)), (vec![], vec![]));
    assert_eq!(counters(&world).dialled, 0, "the set is complete");
}

/// [ACC-15]
#[test]
fn r_partial_any_cut_of_the_handshake_is_the_same() {
    let bytes =
        [request_bytes(NODE), hello_bytes(&hello(1, Version::V3, ConnType::Control))].concat();
    let message = [
        FrameHeader::LNET.encode(ByteOrder::Little).to_vec(),
        header_bytes(Version::V3, &put(3)),
        b"abc".to_vec(),
    ]
    .concat();
    let stream = [bytes, message].concat();
    for step in [1, 2, 3, 7, 16, 17, 60, 72, 100, stream.len()] {
        let mut world = world();
        let mut rogue = Rogue::dial(&mut world, 1, 999);
        for chunk in stream.chunks(step) {
            rogue.say(&mut world, chunk);
        }
        assert_eq!(rogue.hello(&mut world).kind, ConnType::Control);
        assert_eq!(world.core(0).payload(0), b"abc", "in steps of {step}");
    }
}

/// [ACC-7]
#[test]
fn r_badmagic_and_a_malformed_target_are_closed_silently() {
    let mut world = world();
    let bad_magic = [&0xdead_beef_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0; 8]].concat();
    assert_eq!(instead_of_request(&mut world, &bad_magic), []);
    assert_eq!(counters(&world).bad_request_magic, 1);
    let mut bytes = Vec::new();
    Request { version: 2, order: ByteOrder::Little, target: nid(NODE) }.encode(&mut bytes).unwrap();
    bytes[8] = 3;
    assert_eq!(instead_of_request(&mut world, &bytes), []);
    assert_eq!(counters(&world).bad_request_target, 1);
}

/// [ACC-5], [ACC-6]
#[test]
fn r_badver_and_r_protomagic_are_answered_with_the_acceptors_version() {
    let answer = [0x00, 0x71, 0xce, 0xac, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut world = world();
    let version_9 = [&0xacce_7100_u32.to_le_bytes()[..], &[9, 0, 0, 0], &[0; 8]].concat();
    assert_eq!(instead_of_request(&mut world, &version_9), answer);
    let magic = [&0x4572_6963_u32.to_le_bytes()[..], &[1, 0, 0, 0]].concat();
    assert_eq!(instead_of_request(&mut world, &magic), answer);
    let swapped = [&0x4572_6963_u32.to_be_bytes()[..], &[0, 0, 0, 1]].concat();
    assert_eq!(instead_of_request(&mut world, &swapped), answer);
    assert_eq!(counters(&world).bad_request_version, 3);
}

/// [ACC-8]
#[test]
fn r_wrongnid_r_wrongnet_and_r_anynid_are_closed_silently() {
    let targets =
        [nid(77), Nid::from_ip(Net { number: 7, ..Net::TCP }, ip4(NODE)), Nid::ANY, Nid::LO];
    let mut world = world();
    for target in targets {
        let mut bytes = Vec::new();
        Request::new(target).encode(&mut bytes).unwrap();
        assert_eq!(instead_of_request(&mut world, &bytes), []);
    }
    assert_eq!(counters(&world).wrong_target, 4);
}

/// [ACC-14]
#[test]
fn r_badport_is_closed_without_a_byte_when_secure() {
    let mut world = World::new(1, Chaos::None);
    let mut secure = config(NODE);
    secure.accept = Accept::Secure;
    world.add(secure);
    let mut rogue = Rogue::dial(&mut world, 1, 1024);
    assert!(rogue.closed_silently(&mut world));
    assert_eq!(counters(&world).bad_source_port, 1);
    assert_eq!(world.driver(0).connections(), 0);
    Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
}

/// [USR-2], [HEL-10]
#[test]
fn a_peer_from_a_high_port_is_renamed() {
    let mut world = world();
    let mut rogue = Rogue::dial(&mut world, 1, 36_570);
    rogue.say(&mut world, &request_bytes(NODE));
    // Its HELLO names 10.0.0.200.
    rogue.say(&mut world, &hello_bytes(&hello(200, Version::V3, ConnType::Control)));
    assert_eq!(rogue.hello(&mut world).dst.nid, nid(200));
    let id = ProcessId { nid: nid(1), pid: 0x8000_0000 | 36_570 };
    rogue.message(&mut world, FrameHeader::LNET, &put(0), b"");
    let arrived = &world.core(0).arrived[0];
    assert_eq!((arrived.from, arrived.header.src), (id, id));
}

/// [ACC-10]
#[test]
fn r_slow_and_r_slowhello_have_five_seconds_each() {
    let mut world = world();
    let mut silent = Rogue::dial(&mut world, 1, 999);
    world.pass(Nanos::from_millis(4900));
    assert!(!silent.closed(&mut world));
    world.pass(Nanos::from_millis(200));
    assert!(silent.closed_silently(&mut world));
    let mut slow = Rogue::dial(&mut world, 1, 999);
    world.pass(Nanos::from_millis(4900));
    slow.say(&mut world, &request_bytes(NODE));
    world.pass(Nanos::from_millis(4900));
    assert!(!slow.closed(&mut world));
    world.pass(Nanos::from_millis(200));
    assert!(slow.closed_silently(&mut world));
    assert_eq!(counters(&world).slow_handshake, 2);
}

#[test]
fn a_new_accept_timeout_applies_to_later_connections() {
    let mut world = world();
    let mut before = Rogue::dial(&mut world, 1, 999);
    world.run();
    let now = world.now;
    let tunables = Tunables { accept_timeout: 2, ..Tunables::default() };
    world.nodes[0].driver.set_tunables(now, tunables, Default::default());
    let mut after = Rogue::dial(&mut world, 1, 998);
    world.pass(Nanos::from_millis(2100));
    assert!(after.closed_silently(&mut world) && !before.closed(&mut world));
    world.pass(Nanos::from_millis(3000));
    assert!(before.closed_silently(&mut world));
}

#[test]
fn no_state_remains_of_a_removed_interface() {
    let mut world = world();
    let mut silent = Rogue::dial(&mut world, 1, 999);
    let mut known = Rogue::dial(&mut world, 2, 998);
    known.say(&mut world, &request_bytes(NODE));
    known.say(&mut world, &hello_bytes(&hello(2, Version::V3, ConnType::Control)));
    assert_eq!(known.hello(&mut world).kind, ConnType::Control);
    let now = world.now;
    let Node { driver, io, core } = &mut world.nodes[0];
    assert_eq!(driver.connections(), 2);
    driver.remove_ni(now, core, io, NiIndex(0), Status::Unreachable);
    assert_eq!((driver.connections(), driver.peers().count()), (0, 0));
    assert_eq!(driver.ni_at(SocketAddr::new(ip4(NODE), 988)), None);
    let next = config(5).nis.remove(0);
    driver.add_ni(NiIndex(0), next);
    assert!(silent.closed(&mut world) && known.closed(&mut world));
}

/// [HEL-5], [HEL-7]
#[test]
fn r_hbadmagic_and_r_hbadtype_are_closed_silently() {
    let mut world = world();
    let mut bad = hello_bytes(&hello(1, Version::V3, ConnType::Control));
    bad[..4].copy_from_slice(&0xdead_beef_u32.to_le_bytes());
    assert_eq!(instead_of_hello(&mut world, &bad).heard, []);
    assert_eq!(counters(&world).bad_hello_magic, 1);
    let mut bad = hello_bytes(&hello(1, Version::V3, ConnType::Control));
    bad[48] = 9;
    assert_eq!(instead_of_hello(&mut world, &bad).heard, []);
    let none = hello_bytes(&hello(1, Version::V3, ConnType::None));
    assert_eq!(instead_of_hello(&mut world, &none).heard, []);
    assert_eq!(counters(&world).bad_hello_kind, 2);
}

/// [HEL-7]
#[test]
fn a_hello_without_a_source_is_closed_silently() {
    let mut world = world();
    for src in [
        ProcessId::lustre(Nid::ANY),
        ProcessId::lustre(Nid::LO),
        ProcessId { pid: PID_ANY, ..process(1) },
    ] {
        let hello = lustrine_wire::hello::Hello { src, ..hello(1, Version::V3, ConnType::Control) };
        assert_eq!(instead_of_hello(&mut world, &hello_bytes(&hello)).heard, []);
    }
    assert_eq!(counters(&world).bad_hello_source, 3);
    let mut ips = hello_bytes(&hello(1, Version::V3, ConnType::Control));
    ips[52] = 17;
    assert_eq!(instead_of_hello(&mut world, &ips).heard, []);
    assert_eq!(counters(&world).bad_hello, 1);
}

/// [HEL-6]
#[test]
fn r_hver99_is_answered_with_our_version() {
    let mut world = world();
    let mut bytes = hello_bytes(&hello(1, Version::V3, ConnType::Control));
    bytes[4] = 99;
    let mut rogue = instead_of_hello(&mut world, &bytes);
    let answer = rogue.hello(&mut world);
    assert_eq!((answer.version, answer.kind), (Version::V3, ConnType::None));
    assert_eq!((answer.src, answer.dst.nid), (process(NODE), nid(NODE)));
    assert_eq!(counters(&world).bad_hello_version, 1);
}

/// [HEL-10], [HEL-11]
#[test]
fn r_hsrcother_and_r_hwrongdst_are_accepted() {
    let mut world = world();
    let mut rogue = Rogue::dial(&mut world, 1, 999);
    let mut other = hello(200, Version::V3, ConnType::Control);
    other.dst.nid = nid(77);
    rogue.say(&mut world, &[request_bytes(NODE), hello_bytes(&other)].concat());
    let answer = rogue.hello(&mut world);
    assert_eq!((answer.kind, answer.dst.nid), (ConnType::Control, nid(200)));
    world.put(0, process(200), 1, b"over the connection it opened");
    assert_eq!(rogue.messages(&mut world).len(), 1);
}

/// [HEL-4], [FRM-4]
#[test]
fn r_be_is_answered_in_its_own_byte_order() {
    let mut world = world();
    let mut rogue = Rogue::dial(&mut world, 1, 999);
    rogue.order = ByteOrder::Big;
    let request = Request { order: ByteOrder::Big, ..Request::new(nid(NODE)) };
    let mut bytes = Vec::new();
    request.encode(&mut bytes).unwrap();
    let hello = lustrine_wire::hello::Hello {
        order: ByteOrder::Big,
        ..hello(1, Version::V3, ConnType::Control)
    };
    bytes.extend(hello_bytes(&hello));
    rogue.say(&mut world, &bytes);
    let answer = rogue.hello(&mut world);
    assert_eq!((answer.order, answer.kind), (ByteOrder::Big, ConnType::Control));
    assert_eq!((answer.src, answer.dst.nid), (process(NODE), nid(1)));
    let frame = FrameHeader { zc_request: 7, ..FrameHeader::LNET };
    rogue.message(&mut world, frame, &put(5), b"hello");
    assert_eq!(world.core(0).payload(0), b"hello");
    assert_eq!(rogue.messages(&mut world)[0].frame, FrameHeader::noop(7));
}

/// [ACC-3]
#[test]
fn r_be_connreq_only_is_accepted() {
    let mut world = world();
    let mut rogue = Rogue::dial(&mut world, 1, 999);
    let request = Request { order: ByteOrder::Big, ..Request::new(nid(NODE)) };
    let mut bytes = Vec::new();
    request.encode(&mut bytes).unwrap();
    bytes.extend(hello_bytes(&hello(1, Version::V3, ConnType::Control)));
    rogue.say(&mut world, &bytes);
    assert_eq!(rogue.hello(&mut world).order, ByteOrder::Little);
}

/// [SOCK-3], [SOCK-4]: a kernel answers NONE to each of the four.
#[test]
fn r_dup_and_r_dup3_are_refused() {
    let mut world = world();
    let mut first = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    for round in 0..4 {
        let mut again = Rogue::dial(&mut world, 1, 999);
        let hello = hello_bytes(&hello(1, Version::V3, ConnType::Control));
        again.say(&mut world, &[request_bytes(NODE), hello].concat());
        if round < 2 {
            let answer = again.hello(&mut world);
            assert_eq!((answer.kind, answer.version), (ConnType::None, Version::V3));
        }
        assert!(again.closed_silently(&mut world));
    }
    assert!(!first.closed(&mut world));
    assert_eq!(counters(&world).duplicates_refused, 4);
    assert_eq!(world.driver(0).connections(), 1);
}

/// [SOCK-4]
#[test]
fn several_connections_of_a_type_up_to_the_limit() {
    let mut world = World::new(1, Chaos::None);
    let mut four = config(NODE);
    four.nis[0].conns_per_peer = 4;
    world.add(four);
    for _ in 0..4 {
        Rogue::open(&mut world, 1, Version::V3, ConnType::BulkIn);
    }
    let mut fifth = Rogue::dial(&mut world, 1, 999);
    let hello = hello_bytes(&hello(1, Version::V3, ConnType::BulkIn));
    fifth.say(&mut world, &[request_bytes(NODE), hello].concat());
    assert_eq!(fifth.hello(&mut world).kind, ConnType::None);
}

/// [SOCK-3], [HEL-9]
#[test]
fn r_newinc_closes_the_old_connections_and_is_accepted_at_the_next_dial() {
    let mut world = world();
    let mut old = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let again = lustrine_wire::hello::Hello {
        src_incarnation: 78,
        ..hello(1, Version::V3, ConnType::Control)
    };
    let bytes = [request_bytes(NODE), hello_bytes(&again)].concat();
    let mut second = Rogue::dial(&mut world, 1, 998);
    second.say(&mut world, &bytes);
    assert_eq!(second.hello(&mut world).kind, ConnType::None);
    assert!(second.closed(&mut world) && old.closed_silently(&mut world));
    let down = LinkEvent::Down { status: Status::PeerRestarted };
    assert_eq!(world.events(0), [LinkEvent::Up, LinkEvent::Restarted, down]);
    let mut third = Rogue::dial(&mut world, 1, 997);
    third.say(&mut world, &bytes);
    assert_eq!(third.hello(&mut world).kind, ConnType::Control);
    assert_eq!(world.events(0)[3..], [LinkEvent::Up]);
    assert_eq!((counters(&world).restarts_seen, counters(&world).restarts_between), (1, 0));
    // Nothing is lost with a peer that has ended before.
    world.net.hang_up(third.sock);
    world.run();
    let mut fourth = Rogue::dial(&mut world, 1, 996);
    let anew = lustrine_wire::hello::Hello { src_incarnation: 79, ..again };
    fourth.say(&mut world, &[request_bytes(NODE), hello_bytes(&anew)].concat());
    assert_eq!(fourth.hello(&mut world).kind, ConnType::Control);
    assert_eq!((counters(&world).restarts_seen, counters(&world).restarts_between), (1, 1));
}

/// [SOCK-3]
#[test]
fn another_version_closes_the_old_connections() {
    let mut world = world();
    let mut old = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut second = Rogue::dial(&mut world, 1, 998);
    let hello = hello_bytes(&hello(1, Version::V2, ConnType::BulkIn));
    second.say(&mut world, &[request_bytes(NODE), hello].concat());
    let answer = second.hello(&mut world);
    assert_eq!((answer.kind, answer.version), (ConnType::None, Version::V2));
    assert!(old.closed(&mut world));
    assert_eq!(world.events(0)[1..], [LinkEvent::Down { status: Status::ConnectionLost }]);
    Rogue::open(&mut world, 1, Version::V2, ConnType::Control);
}

#[test]
fn a_peer_that_restarted_while_away_is_reported() {
    let mut world = world();
    let rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.net.hang_up(rogue.sock);
    world.run();
    let again = lustrine_wire::hello::Hello {
        src_incarnation: 78,
        ..hello(1, Version::V3, ConnType::Control)
    };
    let mut second = Rogue::dial(&mut world, 1, 998);
    second.say(&mut world, &[request_bytes(NODE), hello_bytes(&again)].concat());
    assert_eq!(second.hello(&mut world).kind, ConnType::Control);
    assert_eq!(world.events(0)[2..], [LinkEvent::Restarted, LinkEvent::Up]);
}

/// [FRM-3], [SOCK-9]
#[test]
fn r_badksm_r_badtype_and_r_put1m1_close() {
    let kind_7 = {
        let mut bytes = header_bytes(Version::V3, &put(0));
        bytes[24] = 7;
        [FrameHeader::LNET.encode(ByteOrder::Little).to_vec(), bytes].concat()
    };
    let long = {
        let header = header_bytes(Version::V3, &put((1 << 20) + 1));
        [FrameHeader::LNET.encode(ByteOrder::Little).to_vec(), header].concat()
    };
    for bytes in [vec![0xc5; 24], kind_7, long] {
        let mut world = world();
        let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
        let mut bulk = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkIn);
        control.say(&mut world, &bytes);
        assert!(control.closed_silently(&mut world) && bulk.closed_silently(&mut world));
        let counters = counters(&world);
        assert_eq!(counters.bad_frame + counters.bad_header + counters.payload_too_long, 1);
        assert_eq!(world.core(0).arrived.len(), 0);
        assert_eq!(world.driver(0).peers().count(), 0);
    }
}

/// [SOCK-9]
#[test]
fn r_getwrongnid_is_rejected_by_the_core_and_closes() {
    let mut world = world();
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.core(0).plan = Plan::Refuse(HeaderViolation::WrongDestination);
    control.message(&mut world, FrameHeader::LNET, &put(0), b"");
    assert!(control.closed_silently(&mut world));
    assert_eq!(counters(&world).wrong_destination, 1);
}

#[test]
fn r_putnomatch_drains_and_continues() {
    let mut world = world();
    let control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.core(0).plans = [Plan::Drop].into();
    control.message(&mut world, FrameHeader::LNET, &put(100), &[0x79; 100]);
    control.message(&mut world, FrameHeader::LNET, &put(1), b"x");
    assert_eq!(world.core(0).payload(0), b"x");
}

/// [FRM-17], [USR-5]
#[test]
fn r_htypeany_is_accepted_and_never_used_to_send() {
    let mut world = world();
    let mut any = Rogue::open(&mut world, 1, Version::V3, ConnType::Any);
    any.message(&mut world, FrameHeader::LNET, &put(0), b"");
    assert_eq!(world.core(0).arrived.len(), 1);
    let op = world.put(0, process(1), 1, b"no way back");
    world.run();
    assert_eq!(any.messages(&mut world), []);
    assert_eq!(world.status(0, op), Some(Status::Refused), "10.0.0.1 has no listener");
    // On V2 the same connection carries everything [USR-5].
    let mut any = Rogue::open(&mut world, 3, Version::V2, ConnType::Any);
    let op = world.put(0, process(3), 1, &[1; 5000]);
    assert_eq!(any.messages(&mut world).len(), 1);
    assert_eq!(world.status(0, op), Some(Status::Ok));
}

/// [FRM-10]
#[test]
fn f22_a_wrong_checksum_fails_the_message_and_closes() {
    let mut world = world();
    let mut control = Rogue::open(&mut world, 1, Version::V2, ConnType::Control);
    let frame = FrameHeader { csum: 0xbad, ..FrameHeader::LNET };
    control.message(&mut world, frame, &put(5), b"hello");
    assert_eq!(world.core(0).arrived[0].status, Some(Status::Corrupt));
    assert!(control.closed_silently(&mut world));
    assert_eq!(counters(&world).bad_checksum, 1);
}

/// [SOCK-10]
#[test]
fn the_end_of_the_stream_inside_a_message_is_a_violation() {
    let mut world = world();
    let control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    control.message(&mut world, FrameHeader::LNET, &put(500), b"not all of it");
    world.net.hang_up(control.sock);
    world.run();
    assert_eq!(world.core(0).arrived[0].status, Some(Status::Protocol));
    assert_eq!(counters(&world).truncated, 1);
    let half = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    half.say(&mut world, &[0xc1, 0, 0]);
    world.net.hang_up(half.sock);
    world.run();
    assert_eq!(counters(&world).truncated, 2);
}

#[test]
fn a_peer_that_leaves_a_parked_message_is_removed_with_it() {
    let mut world = world();
    let control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.core(0).plan = Plan::Park;
    let header = header_bytes(Version::V3, &put(5));
    let message = [FrameHeader::LNET.encode(ByteOrder::Little).to_vec(), header, b"hello".to_vec()];
    world.net.say(control.sock, &message.concat());
    world.net.hang_up(control.sock);
    world.run();
    assert_eq!(world.core(0).forgotten.len(), 1);
    assert_eq!(world.events(0)[1], LinkEvent::Down { status: Status::ConnectionLost });
    assert_eq!(world.driver(0).connections(), 0);
}

#[test]
fn connections_and_handshakes_are_limited() {
    let mut world = World::new(1, Chaos::None);
    let mut limited = config(NODE);
    limited.tunables.handshakes_max = 3;
    limited.tunables.connections_max = 16;
    world.add(limited);
    let mut silent: Vec<Rogue> = (0..3).map(|_| Rogue::dial(&mut world, 1, 999)).collect();
    let fourth = Rogue::dial(&mut world, 1, 999);
    assert!(silent.remove(0).closed_silently(&mut world), "the oldest made room");
    silent.push(fourth);
    // Two of the sixteen are for handshakes only.
    let open: Vec<Rogue> = (10..24)
        .map(|last| Rogue::open(&mut world, last, Version::V3, ConnType::Control))
        .collect();
    assert_eq!((open.len(), world.driver(0).handshakes_held()), (14, 2));
    assert_eq!(world.driver(0).connections(), 16);
    assert_eq!(counters(&world).refused_full, 0);
    // Nodes that were in use a moment ago stay: one more is answered that there is no room.
    let mut late = Rogue::dial(&mut world, 30, 1000);
    late.say(&mut world, &request_bytes(NODE));
    late.say(&mut world, &hello_bytes(&hello(30, Version::V3, ConnType::Control)));
    assert_eq!(late.hello(&mut world).kind, ConnType::None);
    assert_eq!(counters(&world).refused_full, 1);
    let op = world.put(0, process(99), 1, b"no connection left to dial with");
    world.run();
    assert_eq!(world.status(0, op), Some(Status::NoMemory));
    drop(open);
}

#[test]
fn short_handshakes_leave_no_state() {
    let mut world = world();
    for _ in 0..500 {
        let rogue = Rogue::dial(&mut world, 1, 999);
        rogue.say(&mut world, &request_bytes(NODE)[..9]);
        world.net.hang_up(rogue.sock);
        world.run();
    }
    let driver = world.driver(0);
    assert_eq!((driver.connections(), driver.handshakes_held(), driver.peers().count()), (0, 0, 0));
    assert!(driver.run.is_empty());
}
