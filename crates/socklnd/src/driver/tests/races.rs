//! Two nodes that dial each other: who is served, who waits, and how often a dialler is refused.

use core::net::SocketAddr;

use lustrine_lnet::lnd::LinkEvent;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::{ConnType, Hello, Version};

use crate::driver::{DialPhase, PeerConnections};
use crate::testing::{
    Chaos, NODE, Rogue, World, config, hello, hello_bytes, ip4, process, put_header, request_bytes,
};

const SECOND: Nanos = Nanos::from_secs(1);

/// What a node does with a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Accepted,
    None,
    /// Closed without a HELLO.
    Closed,
}

/// The node under test with so many connections per peer, and a host 10.0.0.`last` whose listener
/// the test answers for.
fn world(last: u8, conns_per_peer: u16, identity: Identity) -> World {
    let mut world = World::new(1, Chaos::None);
    let mut node = config(NODE);
    node.nis[0].conns_per_peer = conns_per_peer;
    node.identity = identity;
    world.add(node);
    world.net.listen(SocketAddr::new(ip4(NODE), 988), Some(0));
    world.net.listen(at(last), None);
    world
}

fn at(last: u8) -> SocketAddr {
    SocketAddr::new(ip4(last), 988)
}

/// 10.0.0.`from` dials the node as a kernel does.
fn dial(world: &mut World, from: u8, kind: ConnType) -> (Rogue, Answered) {
    dial_as(world, from, hello(from, Version::V3, kind))
}

fn dial_as(world: &mut World, from: u8, hello: Hello) -> (Rogue, Answered) {
    let mut rogue = Rogue::dial(world, from, 1000);
    rogue.say(world, &[request_bytes(NODE), hello_bytes(&hello)].concat());
    if rogue.closed_silently(world) {
        return (rogue, Answered::Closed);
    }
    let none = rogue.hello(world).kind == ConnType::None;
    (rogue, if none { Answered::None } else { Answered::Accepted })
}

/// Accepts a connection of the node and reads its HELLO.
fn called(world: &mut World) -> (Rogue, Hello) {
    let mut rogue = Rogue::accept(world).expect("the node dials");
    rogue.request(world);
    let hello = rogue.hello(world);
    (rogue, hello)
}

fn answer(world: &mut World, rogue: &Rogue, last: u8, kind: ConnType) {
    rogue.say(world, &hello_bytes(&hello(last, Version::V3, kind)));
}

/// Accepts a connection that the node dials.
fn accept(world: &mut World, last: u8, kind: ConnType) -> Rogue {
    let (rogue, hello) = called(world);
    assert_eq!(hello.kind, kind);
    answer(world, &rogue, last, kind.inverse());
    rogue
}

fn peers(world: &World) -> Vec<PeerConnections> {
    world.driver(0).peers().collect()
}

fn get(from: u8, object: u64) -> Header {
    let return_md = MdHandle { interface: 7, object };
    let body = Body::Get { return_md, match_bits: 1, portal: 30, offset: 0, sink_len: 8 };
    Header { dst: process(NODE), src: process(from), payload_len: 0, body }
}

/// [SOCK-18]: a kernel's `lnetctl ping` crashes at the third NONE in a row.
#[test]
fn a_dialler_is_not_refused_three_times_in_a_row() {
    let mut world = world(3, 1, Identity::Node);
    let (first, _) = dial(&mut world, 3, ConnType::Control);
    let again: Vec<Answered> = (0..6).map(|_| dial(&mut world, 3, ConnType::Control).1).collect();
    assert_eq!(again[..2], [Answered::None; 2]);
    assert_eq!(again[2..], [Answered::Closed; 4], "until one is accepted");
    world.net.hang_up(first.sock);
    assert_eq!(dial(&mut world, 3, ConnType::Control).1, Answered::Accepted);
    assert_eq!(dial(&mut world, 3, ConnType::Control).1, Answered::None, "counted anew");
}

/// [SOCK-18]: the count outlives the peer's connections.
#[test]
fn refusals_are_counted_while_the_peer_has_no_connection() {
    let mut world = world(3, 1, Identity::Node);
    let mut answers = Vec::new();
    for incarnation in 0..4 {
        // Each is another incarnation, so that the one before it has just restarted.
        let (_, answered) = dial(&mut world, 3, ConnType::Control);
        assert_eq!(answered, Answered::Accepted);
        let hello =
            Hello { src_incarnation: 78 + incarnation, ..hello(3, Version::V3, ConnType::Control) };
        answers.push(dial_as(&mut world, 3, hello).1);
        assert!(peers(&world).is_empty());
        world.pass(SECOND);
        answers.push(dial_as(&mut world, 3, hello).1);
        answers.push(dial(&mut world, 3, ConnType::Control).1);
    }
    let round = [Answered::None, Answered::Accepted, Answered::None];
    assert_eq!(answers, [round; 4].concat());
}

/// [SOCK-18]: a dialler that never received the HELLO that accepts it has not been accepted.
#[test]
fn refusals_are_counted_across_an_acceptance_that_never_left() {
    let mut world = world(1, 1, Identity::Node);
    let (first, _) = dial(&mut world, 1, ConnType::Control);
    let refused = [(); 2].map(|()| dial(&mut world, 1, ConnType::Control).1);
    assert_eq!(refused, [Answered::None; 2]);
    world.net.hang_up(first.sock);
    world.run();
    let broken = Rogue::dial(&mut world, 1, 1000);
    let asked = hello(1, Version::V3, ConnType::Control);
    world.net.say(broken.sock, &[request_bytes(NODE), hello_bytes(&asked)].concat());
    world.net.hang_up(broken.sock);
    world.run();
    assert!(peers(&world).is_empty());
    world.net.lose_dials_to(at(1), true);
    world.put(0, process(1), 1, b"hello");
    assert_eq!(dial(&mut world, 1, ConnType::Control).1, Answered::Closed, "this node dials");
}

/// [SOCK-18], [SOCK-6]: a kernel with more connections per peer takes the set as it is after three.
#[test]
fn a_dialler_with_a_complete_set_is_refused_as_often_as_it_asks() {
    let mut world = world(3, 1, Identity::Node);
    for kind in [ConnType::Control, ConnType::BulkIn, ConnType::BulkOut] {
        assert_eq!(dial(&mut world, 3, kind).1, Answered::Accepted);
    }
    for _ in 0..4 {
        assert_eq!(dial(&mut world, 3, ConnType::BulkIn).1, Answered::None);
    }
    assert_eq!(peers(&world)[0].control, 1);
}

/// [SOCK-18]: another host does not use up what a peer is allowed.
#[test]
fn refusals_from_another_address_are_counted_apart() {
    let mut world = world(3, 1, Identity::Node);
    dial(&mut world, 3, ConnType::Control);
    let stranger = hello(3, Version::V3, ConnType::Control);
    let stranger = Hello { src_incarnation: 78, ..stranger };
    for _ in 0..4 {
        let mut rogue = Rogue::dial(&mut world, 9, 1000);
        rogue.say(&mut world, &[request_bytes(NODE), hello_bytes(&stranger)].concat());
        world.pass(SECOND);
        assert!(rogue.closed(&mut world));
    }
    assert_eq!(dial(&mut world, 3, ConnType::Control).1, Answered::None);
}

/// [SOCK-18]: what a node refuses as a duplicate may be all that the dialler has: if the other
/// connection is dead, its host says so when something is sent on it.
#[test]
fn a_refused_duplicate_has_the_other_connection_tried() {
    let mut world = world(3, 1, Identity::Node);
    let (mut stale, _) = dial(&mut world, 3, ConnType::Control);
    assert_eq!(dial(&mut world, 3, ConnType::Control).1, Answered::None);
    assert_eq!(stale.messages(&mut world)[0].frame.kind, FrameKind::Noop);
    world.net.break_stream(stale.sock);
    assert_eq!(dial(&mut world, 3, ConnType::Control).1, Answered::Accepted);
}

/// [SOCK-19]. This node has the higher NID, and what it dials never arrives.
#[test]
fn a_race_is_claimed_once() {
    let mut world = world(1, 1, Identity::Node);
    world.net.lose_dials_to(at(1), true);
    let op = world.put(0, process(1), 1, b"hello");
    assert_eq!(dial(&mut world, 1, ConnType::Control).1, Answered::None);
    assert_eq!(world.driver(0).counters().races_won, 1);
    world.pass(SECOND);
    let (mut theirs, answered) = dial(&mut world, 1, ConnType::Control);
    assert_eq!(answered, Answered::Accepted);
    assert_eq!(theirs.messages(&mut world)[0].payload, b"hello");
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert_eq!(peers(&world)[0].dialling, None, "its own dial was given up");
    assert_eq!(dial(&mut world, 1, ConnType::BulkIn).1, Answered::Accepted);
    assert_eq!(dial(&mut world, 1, ConnType::BulkOut).1, Answered::Accepted);
    world.pass(Nanos::from_secs(100));
    assert_eq!(world.events(0), [LinkEvent::Up]);
}

/// [SOCK-19]: the peer may have accepted a dial whose HELLO it has, so that one goes on.
#[test]
fn a_dial_that_has_said_hello_goes_on_beside_the_peers() {
    for answered_with in [ConnType::None, ConnType::Control] {
        let mut world = world(1, 2, Identity::Node);
        world.put(0, process(1), 1, b"hello");
        let (mut ours, _) = called(&mut world);
        assert_eq!(dial(&mut world, 1, ConnType::Control).1, Answered::None);
        world.pass(SECOND);
        let (mut theirs, answered) = dial(&mut world, 1, ConnType::Control);
        assert_eq!(answered, Answered::Accepted);
        assert_eq!(theirs.messages(&mut world).len(), 1);
        answer(&mut world, &ours, 1, answered_with);
        assert_eq!(ours.closed(&mut world), answered_with == ConnType::None);
        assert!(!theirs.closed(&mut world));
        assert_eq!(world.events(0), [LinkEvent::Up]);
    }
}

/// [SOCK-20]. The peer refuses because it dials this node, and its dial is late.
#[test]
fn a_lost_race_is_waited_for() {
    let mut world = world(3, 1, Identity::Node);
    let op = world.put(0, process(3), 1, b"hello");
    for _ in 0..8 {
        let (rogue, _) = called(&mut world);
        answer(&mut world, &rogue, 3, ConnType::None);
        world.pass(SECOND);
        assert_eq!(world.status(0, op), None);
        assert_eq!(peers(&world)[0].dialling, Some(DialPhase::Refused));
    }
    let (mut theirs, _) = dial(&mut world, 3, ConnType::Control);
    assert_eq!(theirs.messages(&mut world)[0].payload, b"hello");
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert_eq!(world.driver(0).counters().dials_failed, 0);
    assert_ne!(peers(&world)[0].dialling, Some(DialPhase::Refused));
}

/// [SOCK-20]
#[test]
fn a_message_refused_until_its_deadline_says_so() {
    let mut world = world(3, 1, Identity::Node);
    let deadline = world.now + Nanos::from_millis(7500);
    let op = world.put_until(0, process(3), 1, b"hello", deadline);
    for round in 0..8 {
        assert_eq!(world.status(0, op), None);
        let (rogue, _) = called(&mut world);
        // A peer of this program closes the third and later ones without a HELLO.
        if round < 2 {
            answer(&mut world, &rogue, 3, ConnType::None);
        } else {
            world.net.hang_up(rogue.sock);
        }
        world.pass(SECOND);
    }
    assert_eq!(world.status(0, op), Some(Status::Busy));
    assert!(peers(&world).is_empty() && Rogue::accept(&mut world).is_none());
}

/// [SOCK-20]: the peer refused in earlier rounds, and now has no NONE left for a race that it wins.
#[test]
fn a_known_peer_that_closes_without_a_hello_is_dialled_again() {
    for accepted in [true, false] {
        let mut world = world(3, 1, Identity::Node);
        world.put(0, process(3), 1, b"known");
        let kinds = [ConnType::Control, ConnType::BulkIn, ConnType::BulkOut];
        let theirs = kinds.map(|kind| accept(&mut world, 3, kind));
        world.net.hang_up(theirs[0].sock);
        world.run();
        let deadline = world.now + Nanos::from_millis(2500);
        let op = world.put_until(0, process(3), 1, b"hello", deadline);
        let (rogue, _) = called(&mut world);
        world.net.hang_up(rogue.sock);
        world.run();
        assert_eq!(world.status(0, op), None);
        if accepted {
            let (mut theirs, _) = dial(&mut world, 3, ConnType::Control);
            assert_eq!(theirs.messages(&mut world)[0].payload, b"hello");
        }
        for _ in 0..3 {
            world.pass(SECOND);
            if let Some(rogue) = Rogue::accept(&mut world) {
                world.net.hang_up(rogue.sock);
                world.run();
            }
        }
        let status = if accepted { Status::Ok } else { Status::Rejected };
        assert_eq!(world.status(0, op), Some(status), "accepted: {accepted}");
    }
}

/// [SOCK-20]: a round ends all the same, before the deadline of a patient message.
#[test]
fn a_round_of_refusals_ends_as_every_round_does() {
    let mut world = world(3, 1, Identity::Node);
    let op = world.put(0, process(3), 1, b"hello");
    for _ in 0..50 {
        assert_eq!(world.status(0, op), None);
        let (rogue, _) = called(&mut world);
        answer(&mut world, &rogue, 3, ConnType::None);
        world.pass(SECOND);
    }
    assert_eq!(world.status(0, op), Some(Status::Busy));
    assert_eq!(world.driver(0).counters().busy, 1);
}

/// [SOCK-20]. Found by the swarm, seed 3001970: 640 dials per second for a day and a half, to a
/// peer that was full.
#[test]
fn a_short_pause_after_a_refusal_grows_to_a_second() {
    let mut world = World::new(1, Chaos::None);
    let mut node = config(NODE);
    node.tunables.min_reconnectms = 1;
    world.add(node);
    world.net.listen(at(3), None);
    let op = world.put(0, process(3), 1, b"hello");
    let (begin, mut dials) = (world.now, Vec::new());
    while world.now.since(begin) < Nanos::from_millis(5000) {
        if let Some(mut rogue) = Rogue::accept(&mut world) {
            rogue.request(&mut world);
            rogue.hello(&mut world);
            dials.push(world.now.since(begin).0 / 1_000_000);
            answer(&mut world, &rogue, 3, ConnType::None);
        }
        world.pass(Nanos::from_millis(1));
    }
    assert_eq!(dials, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2024, 3024, 4024]);
    assert_eq!(world.status(0, op), None);
}

/// [SOCK-21]. The peer has one connection per type, this node two: the peer finds
/// out that it has too many when its dial is answered, and closes it.
#[test]
fn a_surplus_connection_that_the_peer_closes_ends_alone() {
    for kind in [ConnType::Control, ConnType::BulkIn, ConnType::BulkOut] {
        let mut world = world(1, 2, Identity::Node);
        world.put(0, process(1), 1, b"");
        let mut control = accept(&mut world, 1, ConnType::Control);
        let mut bulk_in = accept(&mut world, 1, ConnType::BulkIn);
        let mut bulk_out = accept(&mut world, 1, ConnType::BulkOut);
        for _ in 0..3 {
            let (rogue, _) = called(&mut world);
            answer(&mut world, &rogue, 1, ConnType::None);
            world.pass(SECOND);
        }
        let (surplus, answered) = dial(&mut world, 1, kind);
        assert_eq!(answered, Answered::Accepted);
        // Nothing is lost on it.
        let ops: Vec<_> = (0..4).map(|_| world.put(0, process(1), 2, &[5; 3000])).collect();
        let small: Vec<_> = (0..4).map(|_| world.put(0, process(1), 2, b"small")).collect();
        world.run();
        world.net.hang_up(surplus.sock);
        world.run();
        assert_eq!(world.events(0), [LinkEvent::Up], "{kind:?}");
        for op in ops.iter().chain(&small) {
            assert_eq!(world.status(0, *op), Some(Status::Ok));
        }
        assert_eq!(bulk_out.messages(&mut world).len(), 4);
        assert_eq!(control.messages(&mut world).len(), 1 + 4);
        assert!(!bulk_in.closed(&mut world));
    }
}

/// [SOCK-21]
#[test]
fn a_surplus_connection_is_used_at_once_when_the_other_has_gone() {
    let mut world = world(1, 2, Identity::Node);
    let (first, _) = dial(&mut world, 1, ConnType::Control);
    let (mut surplus, _) = dial(&mut world, 1, ConnType::Control);
    world.net.hang_up(first.sock);
    world.run();
    world.put(0, process(1), 1, b"first");
    assert_eq!(surplus.messages(&mut world).len(), 1);
}

/// [SOCK-21]
#[test]
fn a_surplus_connection_is_used_once_the_peer_has_used_it_or_a_second_later() {
    for early in [true, false] {
        let mut world = world(1, 2, Identity::Node);
        let (_, _) = dial(&mut world, 1, ConnType::Control);
        let (mut surplus, _) = dial(&mut world, 1, ConnType::Control);
        world.put(0, process(1), 1, b"first");
        assert_eq!(surplus.messages(&mut world).len(), 0);
        if early {
            surplus.message(
                &mut world,
                FrameHeader::LNET,
                &put_header(process(1), process(NODE), 1, 0),
                b"",
            );
        } else {
            world.pass(SECOND);
        }
        world.put(0, process(1), 1, b"second");
        assert_eq!(surplus.messages(&mut world).len(), 1);
        // What has carried something ends with all others.
        world.net.hang_up(surplus.sock);
        world.run();
        assert_eq!(world.events(0).len(), 2);
        assert_eq!(peers(&world).iter().map(|peer| peer.control).sum::<usize>(), 0);
    }
}

/// [USR-9]. The kernel dials a userland node that has dialled it.
#[test]
fn a_userland_node_serves_the_peer_that_it_has_dialled() {
    for conns_per_peer in [1, 2] {
        let mut world = world(3, conns_per_peer, Identity::Userland);
        world.put(0, process(3), 1, b"ours");
        let mut own = accept(&mut world, 3, ConnType::Control);
        own.messages(&mut world);
        let (mut control, answered) = dial(&mut world, 3, ConnType::Control);
        assert_eq!(answered, Answered::Accepted, "conns_per_peer {conns_per_peer}");
        let (mut bulk_in, answered) = dial(&mut world, 3, ConnType::BulkIn);
        assert_eq!(answered, Answered::Accepted);
        let (mut bulk_out, answered) = dial(&mut world, 3, ConnType::BulkOut);
        assert_eq!(answered, Answered::Accepted);
        // New messages are of the node that the peer has dialled.
        world.put(0, process(3), 2, b"small");
        world.put(0, process(3), 2, &[1; 9000]);
        assert_eq!(control.messages(&mut world).len(), 1);
        assert_eq!(bulk_in.messages(&mut world).len(), 1);
        assert!(own.messages(&mut world).is_empty() && bulk_out.messages(&mut world).is_empty());
        assert!(Rogue::accept(&mut world).is_none(), "it dials no more");
        assert_eq!(peers(&world).len(), 2);
        // Each of the two ends by itself.
        world.net.hang_up(control.sock);
        world.run();
        assert_eq!(peers(&world).len(), 1);
        world.put(0, process(3), 3, b"ours again");
        assert_eq!(own.messages(&mut world).len(), 1);
    }
}

/// [USR-9]: an answer, and the acknowledgement of a payload, take the way of their request.
#[test]
fn a_userland_node_answers_where_it_was_asked() {
    let mut world = world(3, 1, Identity::Userland);
    world.put(0, process(3), 1, b"ours");
    let mut own = accept(&mut world, 3, ConnType::Control);
    own.messages(&mut world);
    let (mut control, _) = dial(&mut world, 3, ConnType::Control);
    for (object, served) in [(1, true), (2, false), (3, true), (4, true), (5, false)] {
        let asked = if served { &control } else { &own };
        asked.message(&mut world, FrameHeader::LNET, &get(3, object), b"");
        let md = MdHandle { interface: 7, object };
        let reply = put_header(process(NODE), process(3), 0, 0);
        world.send(0, Header { body: Body::Reply { md }, ..reply }, process(3));
        let heard = [control.messages(&mut world).len(), own.messages(&mut world).len()];
        assert_eq!(heard, if served { [1, 0] } else { [0, 1] }, "request {object}");
    }
    let with_cookie = FrameHeader { zc_request: 9, ..FrameHeader::LNET };
    let put = put_header(process(3), process(NODE), 1, 0);
    own.message(&mut world, with_cookie, &put, b"");
    assert_eq!(own.messages(&mut world)[0].frame, FrameHeader::noop(9));
    assert!(control.messages(&mut world).is_empty());
}

/// [USR-9]
#[test]
fn the_core_closes_both_ways_of_a_userland_node() {
    let mut world = world(3, 1, Identity::Userland);
    world.put(0, process(3), 1, b"ours");
    let mut own = accept(&mut world, 3, ConnType::Control);
    let (mut control, _) = dial(&mut world, 3, ConnType::Control);
    world.close(0, process(3), Status::Canceled);
    assert!(own.closed(&mut world) && control.closed(&mut world));
    assert!(peers(&world).is_empty());
}

/// [USR-9]: what waits for room on the connections of a peer that has gone takes this node's own.
#[test]
fn what_waited_for_the_peers_connections_takes_the_own_one() {
    let mut world = world(3, 1, Identity::Userland);
    world.net.set_window(64 * 1024);
    let (control, _) = dial(&mut world, 3, ConnType::Control);
    let ops: Vec<_> = (0..200).map(|_| world.put(0, process(3), 1, &[1; 4000])).collect();
    world.run();
    let waiting = peers(&world)[0].waiting;
    assert!(waiting > 0);
    world.net.hang_up(control.sock);
    let mut own = accept(&mut world, 3, ConnType::Control);
    let mut heard = 0;
    for _ in 0..200 {
        heard += own.messages(&mut world).len();
    }
    assert_eq!(heard, waiting);
    assert!(ops.iter().all(|op| world.status(0, *op).is_some()));
}
