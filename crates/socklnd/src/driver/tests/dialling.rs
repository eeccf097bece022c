//! The dialling side against scripted peers and refusing hosts.

use core::net::SocketAddr;

use lustrine_lnet::lnd::LinkEvent;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_wire::hello::{ConnType, Hello, Version};

use crate::driver::DialPhase;
use crate::testing::{
    Chaos, NODE, Rogue, World, config, hello, hello_bytes, ip4, nid, process, request_bytes,
};

/// The node under test, and a host 10.0.0.`last` whose listener the test answers for.
fn world(last: u8) -> World {
    let mut world = World::new(1, Chaos::None);
    world.add(config(NODE));
    world.net.listen(SocketAddr::new(ip4(last), 988), None);
    world
}

/// Accepts the node's connection and reads its HELLO.
fn called(world: &mut World) -> (Rogue, Hello) {
    let mut rogue = Rogue::accept(world).expect("the node calls");
    rogue.request(world);
    let hello = rogue.hello(world);
    rogue.version = hello.version;
    (rogue, hello)
}

/// Answers with this type.
fn answer(world: &mut World, rogue: &Rogue, last: u8, version: Version, kind: ConnType) {
    rogue.say(world, &hello_bytes(&hello(last, version, kind)));
}

/// Accepts a connection and answers it.
fn accept(world: &mut World, last: u8, kind: ConnType) -> Rogue {
    let (rogue, hello) = called(world);
    assert_eq!(hello.kind, kind);
    answer(world, &rogue, last, hello.version, kind.inverse());
    rogue
}

const SECOND: Nanos = Nanos::from_secs(1);

/// [SOCK-1], [ACC-1], [ACC-9]
#[test]
fn a1_control_bulk_in_bulk_out_and_data_before_the_set_is_complete() {
    let mut world = world(3);
    let op = world.put(0, process(3), 1, b"hello");
    let mut control = Rogue::accept(&mut world).expect("the node calls");
    let request = control.request(&mut world);
    assert_eq!((request.version, request.target), (1, nid(3)));
    let said = control.hello(&mut world);
    assert_eq!(
        (said.version, said.kind, said.src, said.dst.nid, said.dst.pid),
        (Version::V3, ConnType::Control, process(NODE), nid(3), 0)
    );
    assert_eq!((said.src_incarnation, said.dst_incarnation), (1000 + u64::from(NODE), 0));
    assert!(control.heard.is_empty() && world.status(0, op).is_none(), "nothing before HELLO");
    answer(&mut world, &control, 3, Version::V3, ConnType::Control);
    assert_eq!(control.messages(&mut world)[0].payload, b"hello");
    assert_eq!(world.status(0, op), Some(Status::Ok));
    accept(&mut world, 3, ConnType::BulkIn);
    accept(&mut world, 3, ConnType::BulkOut);
    assert!(Rogue::accept(&mut world).is_none());
    assert_eq!(world.events(0), [LinkEvent::Up]);
}

#[test]
fn a_silent_connected_peer_differs_from_an_absent_one() {
    let mut world = world(3);
    let dialling = |world: &World| world.driver(0).peers().next().map(|peer| peer.dialling);
    world.put(0, process(3), 1, b"");
    let (rogue, hello) = called(&mut world);
    assert_eq!(dialling(&world), Some(Some(DialPhase::AwaitingHello)));
    answer(&mut world, &rogue, 3, hello.version, ConnType::Control);
    accept(&mut world, 3, ConnType::BulkIn);
    accept(&mut world, 3, ConnType::BulkOut);
    world.run();
    assert_eq!(dialling(&world), Some(None));
}

/// A node with so many connections per peer that dials node 3.
fn dialling_with(conns_per_peer: u16) -> World {
    let mut world = World::new(1, Chaos::None);
    let mut config = config(NODE);
    config.nis[0].conns_per_peer = conns_per_peer;
    world.add(config);
    world.net.listen(SocketAddr::new(ip4(3), 988), None);
    world.put(0, process(3), 1, b"");
    world
}

/// [SOCK-1]
#[test]
fn f11_conns_per_peer_multiplies_the_bulk_types() {
    let mut world = dialling_with(4);
    accept(&mut world, 3, ConnType::Control);
    for _ in 0..4 {
        accept(&mut world, 3, ConnType::BulkIn);
        accept(&mut world, 3, ConnType::BulkOut);
    }
    assert!(Rogue::accept(&mut world).is_none());
}

/// [FRM-18]
#[test]
fn messages_avoid_a_connection_whose_socket_holds_what_was_written() {
    let mut world = dialling_with(2);
    accept(&mut world, 3, ConnType::Control);
    accept(&mut world, 3, ConnType::BulkIn);
    let mut held = accept(&mut world, 3, ConnType::BulkOut);
    accept(&mut world, 3, ConnType::BulkIn);
    let mut read = accept(&mut world, 3, ConnType::BulkOut);
    let heard = (0..6).map(|bits| {
        world.put(0, process(3), bits, &[7; 2000]);
        world.run();
        read.messages(&mut world).len()
    });
    assert_eq!(heard.sum::<usize>(), 5);
    assert_eq!(held.messages(&mut world).len(), 1);
}

/// [SOCK-6], [SOCK-2]
#[test]
fn f12_after_three_refusals_the_set_is_complete() {
    let mut world = dialling_with(4);
    accept(&mut world, 3, ConnType::Control);
    accept(&mut world, 3, ConnType::BulkIn);
    accept(&mut world, 3, ConnType::BulkOut);
    for _ in 0..3 {
        let (rogue, hello) = called(&mut world);
        assert_eq!(hello.kind, ConnType::BulkIn);
        answer(&mut world, &rogue, 3, Version::V3, ConnType::None);
        assert!(Rogue::accept(&mut world).is_none());
        world.pass(SECOND);
    }
    world.put(0, process(3), 2, b"");
    world.pass(Nanos::from_secs(10));
    assert!(Rogue::accept(&mut world).is_none());
    assert_eq!(world.driver(0).counters().none_received, 3);
    assert_eq!(world.driver(0).peers().next().unwrap().bulk_in, 1);
}

/// [ACC-11]
#[test]
fn f14_other_types_go_to_the_bulk_port() {
    let mut world = World::new(1, Chaos::None);
    let mut bulk = config(NODE);
    bulk.nis[0].port_bulk = 989;
    world.add(bulk);
    world.net.listen(SocketAddr::new(ip4(3), 988), None);
    world.put(0, process(3), 1, b"");
    accept(&mut world, 3, ConnType::Control);
    assert!(Rogue::accept(&mut world).is_none());
    assert_eq!(world.driver(0).counters().dials_failed, 1, "port 989 has no listener");
    // The existing connections are still used.
    let op = world.put(0, process(3), 1, &[1; 9000]);
    world.run();
    assert_eq!(world.status(0, op), Some(Status::Ok));
}

/// [SOCK-8]
#[test]
fn b6_a_refusing_host_fails_messages_at_once_and_is_dialled_with_back_off() {
    let mut world = world(3);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let before = world.driver(0).counters().dialled;
        let start = world.now;
        let op = world.put(0, process(9), 1, b"");
        world.run();
        while world.status(0, op).is_none() {
            let peer = world.driver(0).peers().next().expect("a peer with a message");
            assert_eq!(peer.dialling, Some(DialPhase::Failed(Status::Refused)));
            world.pass(Nanos::from_millis(100));
        }
        assert_eq!(world.status(0, op), Some(Status::Refused));
        assert_eq!(world.driver(0).counters().dialled, before + 1);
        assert_eq!(world.driver(0).peers().count(), 0);
        waits.push(world.now.since(start).0 / 1_000_000_000);
    }
    let counters = world.driver(0).counters();
    assert_eq!((counters.dials_failed, counters.broken), (8, 0), "no peer was lost");
    assert_eq!(waits[0], 0);
    for (index, wait) in [1, 2, 4, 8, 16, 32, 60].into_iter().enumerate() {
        let got = waits[index + 1];
        assert!((wait..=wait + wait / 8 + 1).contains(&got), "{waits:?}");
    }
}

#[test]
fn a_close_before_the_stream_is_reported_open_is_a_rejection() {
    let mut world = world(3);
    let op = world.put(0, process(3), 1, b"");
    let incoming = loop {
        match world.net.take_incoming(None) {
            Some(incoming) => break incoming,
            None => assert!(world.turn(0), "the node calls"),
        }
    };
    world.net.break_stream(incoming.sock);
    world.run();
    assert_eq!(world.status(0, op), Some(Status::Rejected));
}

#[test]
fn b5_a_close_before_the_hello_is_a_rejection() {
    let mut world = world(3);
    let op = world.put(0, process(3), 1, b"");
    let (rogue, _) = called(&mut world);
    world.net.hang_up(rogue.sock);
    world.run();
    assert_eq!(world.status(0, op), Some(Status::Rejected));
    assert_eq!(world.driver(0).counters().rejected, 1);
    assert_eq!(world.events(0), []);
}

#[test]
fn missing_privilege_has_its_own_counter() {
    let mut world = world(3);
    world.nodes[0].io.privileged = false;
    let op = world.put(0, process(3), 1, b"");
    world.run();
    assert_eq!(world.status(0, op), Some(Status::Unreachable));
    assert_eq!(world.driver(0).counters().dials_without_privilege, 1);
}

/// [HEL-8], [HEL-12]
#[test]
fn an_answer_must_come_from_the_peer_dialled_with_the_inverse_type() {
    let cases: [(u8, Version, ConnType); 3] = [
        (4, Version::V3, ConnType::Control),
        (3, Version::V2, ConnType::Control),
        (3, Version::V3, ConnType::BulkIn),
    ];
    for (last, version, kind) in cases {
        let mut world = world(3);
        let op = world.put(0, process(3), 1, b"");
        let (mut rogue, _) = called(&mut world);
        answer(&mut world, &rogue, last, version, kind);
        assert!(rogue.closed_silently(&mut world));
        assert_eq!(world.status(0, op), Some(Status::Protocol));
        let counters = world.driver(0).counters();
        assert_eq!(counters.bad_answer_identity + counters.bad_answer_kind, 1);
    }
    let mut world = world(3);
    let op = world.put(0, process(3), 1, b"");
    let (rogue, _) = called(&mut world);
    rogue.say(&mut world, b"HTTP/1.1 400 Bad Request");
    assert_eq!(world.status(0, op), Some(Status::Protocol));
    assert_eq!(world.driver(0).counters().bad_hello_magic, 1);
}

/// [HEL-13], [HEL-14]
#[test]
fn a_peer_of_another_version_is_dialled_again_with_it() {
    for version in [Version::V1, Version::V2] {
        let mut world = world(3);
        world.put(0, process(3), 1, b"hello");
        let (rogue, _) = called(&mut world);
        answer(&mut world, &rogue, 3, version, ConnType::None);
        let (mut rogue, said) = called(&mut world);
        assert_eq!((said.version, said.kind), (version, ConnType::Control));
        answer(&mut world, &rogue, 3, version, ConnType::Control);
        assert_eq!(rogue.messages(&mut world)[0].payload, b"hello");
        assert_eq!(world.driver(0).counters().versions_negotiated, 1);
    }
}

#[test]
fn a_peer_that_keeps_changing_its_version_fails() {
    let mut world = world(3);
    let op = world.put(0, process(3), 1, b"hello");
    for round in 0..4 {
        let (rogue, said) = called(&mut world);
        let other = if said.version == Version::V3 { Version::V2 } else { Version::V3 };
        answer(&mut world, &rogue, 3, other, ConnType::None);
        assert_eq!(world.status(0, op), (round == 3).then_some(Status::Protocol));
    }
    assert!(Rogue::accept(&mut world).is_none());
}

/// [SOCK-3]
#[test]
fn r_race_the_higher_nids_connection_survives() {
    // This node is 10.0.0.2. A lower peer dials while this node dials it: it is refused.
    let mut world = world(1);
    world.put(0, process(1), 1, b"hello");
    let (ours, _) = called(&mut world);
    let mut theirs = Rogue::dial(&mut world, 1, 1000);
    let bytes = hello_bytes(&hello(1, Version::V3, ConnType::Control));
    theirs.say(&mut world, &[request_bytes(NODE), bytes].concat());
    assert_eq!(theirs.hello(&mut world).kind, ConnType::None);
    assert!(theirs.closed(&mut world));
    assert_eq!(world.driver(0).counters().races_won, 1);
    answer(&mut world, &ours, 1, Version::V3, ConnType::Control);
    assert_eq!(world.events(0), [LinkEvent::Up]);
    drop(ours);

    // A higher peer dials while this node dials it: its connection is accepted, this node's is
    // refused, and the message is sent on the peer's at once.
    let mut world = self::world(3);
    let op = world.put(0, process(3), 1, b"hello");
    let (ours, _) = called(&mut world);
    let mut theirs = Rogue::open(&mut world, 3, Version::V3, ConnType::Control);
    assert_eq!(theirs.messages(&mut world)[0].payload, b"hello");
    assert_eq!(world.status(0, op), Some(Status::Ok));
    answer(&mut world, &ours, 3, Version::V3, ConnType::None);
    assert!(Rogue::accept(&mut world).is_none(), "the next look is a second later");
    world.pass(SECOND);
    accept(&mut world, 3, ConnType::BulkIn);
}

#[test]
fn r_race_accept_keeps_both() {
    let mut world = world(3);
    world.put(0, process(3), 1, b"hello");
    let (ours, _) = called(&mut world);
    Rogue::open(&mut world, 3, Version::V3, ConnType::Control);
    answer(&mut world, &ours, 3, Version::V3, ConnType::Control);
    assert_eq!(world.driver(0).peers().next().unwrap().control, 2);
    assert_eq!(world.events(0), [LinkEvent::Up]);
}

/// [SOCK-6]
#[test]
fn three_refusals_with_a_part_of_the_set_fail_the_round() {
    let mut world = world(3);
    let op = world.put(0, process(3), 1, b"hello");
    accept(&mut world, 3, ConnType::Control);
    for refused in 0..3 {
        assert_eq!(world.driver(0).counters().busy, 0, "after {refused}");
        let (rogue, hello) = called(&mut world);
        assert_eq!(hello.kind, ConnType::BulkIn);
        answer(&mut world, &rogue, 3, Version::V3, ConnType::None);
        world.pass(Nanos::from_millis(999));
        assert!(Rogue::accept(&mut world).is_none());
        world.pass(Nanos::from_millis(1));
    }
    assert_eq!(world.driver(0).counters().busy, 1);
    // What the connection carries is not concerned.
    assert_eq!(world.status(0, op), Some(Status::Ok));
}

/// [SOCK-7]
#[test]
fn a_peer_that_just_dialled_is_not_dialled_at_once() {
    let mut world = world(3);
    let mut control = Rogue::open(&mut world, 3, Version::V3, ConnType::Control);
    world.put(0, process(3), 1, b"hello");
    assert_eq!(control.messages(&mut world).len(), 1);
    assert!(Rogue::accept(&mut world).is_none(), "it may be opening the others itself");
    world.pass(SECOND);
    accept(&mut world, 3, ConnType::BulkIn);
    accept(&mut world, 3, ConnType::BulkOut);
    assert!(Rogue::accept(&mut world).is_none());
}

#[test]
fn b1_a_restarted_peer_is_reached_again_and_reported() {
    let mut world = world(3);
    world.put(0, process(3), 1, b"");
    let control = accept(&mut world, 3, ConnType::Control);
    world.net.hang_up(control.sock);
    world.run();
    assert_eq!(world.events(0)[1..], [LinkEvent::Down { status: Status::ConnectionLost }]);
    while let Some(rogue) = Rogue::accept(&mut world) {
        world.net.hang_up(rogue.sock);
    }
    world.pass(Nanos::from_secs(2));
    let op = world.put(0, process(3), 2, b"again");
    let (rogue, _) = called(&mut world);
    let reborn = Hello { src_incarnation: 78, ..hello(3, Version::V3, ConnType::Control) };
    rogue.say(&mut world, &hello_bytes(&reborn));
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert_eq!(world.events(0)[2..], [LinkEvent::Restarted, LinkEvent::Up]);
}

/// [SOCK-13]
#[test]
fn b2_a_stale_connection_that_is_reset_goes_down_at_once() {
    let mut world = world(3);
    world.put(0, process(3), 1, b"");
    let control = accept(&mut world, 3, ConnType::Control);
    let bulk = accept(&mut world, 3, ConnType::BulkIn);
    accept(&mut world, 3, ConnType::BulkOut);
    let op = world.put(0, process(3), 2, b"into the void");
    world.run();
    assert_eq!(world.status(0, op), Some(Status::Ok), "TCP took it");
    world.net.break_stream(control.sock);
    world.run();
    assert_eq!(world.events(0)[1..], [LinkEvent::Down { status: Status::ConnectionLost }]);
    assert!(world.net.ended(bulk.sock));
    // The next message is sent on a new connection, without any wait.
    world.put(0, process(3), 3, b"");
    let (_, said) = called(&mut world);
    assert_eq!(said.kind, ConnType::Control);
}

#[test]
fn a_new_incarnation_in_an_answer_closes_the_others() {
    let mut world = world(3);
    world.put(0, process(3), 1, b"");
    let mut control = accept(&mut world, 3, ConnType::Control);
    let (mut bulk, _) = called(&mut world);
    let reborn = Hello { src_incarnation: 78, ..hello(3, Version::V3, ConnType::BulkOut) };
    bulk.say(&mut world, &hello_bytes(&reborn));
    assert!(control.closed(&mut world) && bulk.closed(&mut world));
    let down = LinkEvent::Down { status: Status::PeerRestarted };
    assert_eq!(world.events(0), [LinkEvent::Up, LinkEvent::Restarted, down]);
}

#[test]
fn messages_outlive_the_connections_they_wait_for() {
    let mut world = world(3);
    world.put(0, process(3), 1, b"");
    let (rogue, _) = called(&mut world);
    // While the first dial is answered with NONE the message waits, and is sent on the second.
    answer(&mut world, &rogue, 3, Version::V3, ConnType::None);
    let second = world.put(0, process(3), 2, b"second");
    world.pass(SECOND);
    let mut control = accept(&mut world, 3, ConnType::Control);
    assert_eq!(control.messages(&mut world).len(), 2);
    assert_eq!(world.status(0, second), Some(Status::Ok));
}

/// [USR-5]
#[test]
fn a_userland_node_dials_once() {
    let mut world = World::new(1, Chaos::None);
    let mut userland = config(NODE);
    userland.identity = Identity::Userland;
    world.add(userland);
    world.net.listen(SocketAddr::new(ip4(3), 988), None);
    world.put(0, process(3), 1, &[1; 100_000]);
    let mut control = accept(&mut world, 3, ConnType::Control);
    assert_eq!(control.messages(&mut world)[0].payload.len(), 100_000);
    assert!(Rogue::accept(&mut world).is_none());
    world.pass(Nanos::from_secs(20));
    assert!(Rogue::accept(&mut world).is_none());
}
