//! Ping service and discovery ([PING-14], [USR-4]).

use lustrine_wire::ping::{Features, PingInfo};

use super::*;
use crate::shard::PeerState;

#[test]
fn before_the_first_put_ping_then_push_then_the_message() {
    let mut net = Net::new(2, &Tunables::default());
    let (source, sink) = (net.span(0, 8, 1), net.span(1, 8, 0));
    net.attach(1, 30, anybody(1, 0), md(sink, Some(1), MdOptions::OP_PUT, 0));
    let from = net.bind(0, source, 1, 0);
    net.put(0, put_args(from, process(1), 30, 1));
    let mut seen = Vec::new();
    net.settle(NOW);
    while !net.packets.is_empty() {
        seen.extend(net.in_flight().first().copied());
        net.deliver(NOW, 0, Delivery::Deliver);
        net.settle(NOW);
    }
    // As in capture a3: GET and REPLY, a PUSH with its ACK each way, then the message.
    assert_eq!(
        seen,
        [("GET", 0), ("REPLY", 0), ("PUT", 0), ("ACK", 0), ("PUT", 0), ("PUT", 30), ("ACK", 0)]
    );
    for (here, there) in [(0, 1), (1, 0)] {
        let peer = net.nodes[here].shard.peer(&test_nid(there)).unwrap();
        assert_eq!(peer.state, PeerState::Ready);
        assert_eq!(peer.features, Some(0x1e));
        assert_eq!(peer.nids, [(test_nid(there), true)]);
    }
    net.assert_quiet();
}

#[test]
fn without_discovery_a_ping_but_no_push() {
    let mut net = Net::new(2, &Tunables { discovery: 0, ..Tunables::default() });
    let source = net.span(0, 8, 1);
    let from = net.bind(0, source, 1, 0);
    net.put(0, put_args(from, process(1), 30, 1));
    net.settle(NOW);
    assert_eq!(net.in_flight(), [("GET", 0)]);
    net.deliver(NOW, 0, Delivery::Deliver);
    net.settle(NOW);
    net.deliver(NOW, 0, Delivery::Deliver);
    net.settle(NOW);
    assert_eq!(net.in_flight(), [("PUT", 30)]);
}

#[test]
fn a_userland_node_pushes_twice_and_is_never_pinged() {
    let mut net = Net::new(1, &Tunables::default());
    let user = net.add(test_topology(test_nid(1), Identity::Userland, Tunables::default()));
    let (source, sink) = (net.span(user, 8, 1), net.span(0, 8, 0));
    net.attach(0, 51, anybody(1, 0), md(sink, Some(1), MdOptions::OP_PUT, 0));
    let from = net.bind(user, source, 1, 0);
    net.put(user, put_args(from, process(0), 51, 1));
    let sent_until_quiet = |net: &mut Net, now| {
        let mut sent = Vec::new();
        net.settle(now);
        while !net.packets.is_empty() {
            sent.extend(net.in_flight().first().copied());
            net.deliver(now, 0, Delivery::Deliver);
            net.settle(now);
        }
        sent
    };
    assert_eq!(sent_until_quiet(&mut net, NOW), [("PUT", 0), ("ACK", 0)]);
    // A kernel that knew the node by a discovery deletes the peer some time after its ACK.
    let pause = NOW + Nanos::from_millis(100);
    assert_eq!(net.nodes[user].shard.next_deadline(), pause);
    assert_eq!(sent_until_quiet(&mut net, pause - Nanos(1)), []);
    assert_eq!(sent_until_quiet(&mut net, pause), [("PUT", 0), ("ACK", 0), ("PUT", 51)]);
    let known = net.nodes[0].shard.peer(&test_nid(1)).unwrap();
    assert_eq!((known.state, known.features), (PeerState::Ready, Some(0x0e)));
    // The answer needs no discovery: it is sent at once.
    let back = net.span(0, 8, 1);
    let from = net.bind(0, back, 1, 0);
    net.put(0, put_args(from, process(user), 52, 1));
    net.settle(NOW);
    assert_eq!(net.in_flight(), [("PUT", 52)]);
    net.run(NOW);

    // Connections lost: the next message pushes again.
    let lost = LinkEvent::Down { status: Status::ConnectionLost };
    net.nodes[user].shard.link(NOW, NiIndex(0), process(0), lost);
    let again = net.span(user, 8, 1);
    let from = net.bind(user, again, 1, 0);
    net.put(user, put_args(from, process(0), 51, 1));
    net.settle(NOW);
    assert_eq!(net.in_flight(), [("PUT", 0)]);
}

#[test]
fn a_peer_that_never_answers_fails_the_held_messages() {
    let mut net = Net::new(2, &Tunables::default());
    let source = net.span(0, 8, 1);
    let from = net.bind(0, source, 1, 9);
    net.put(0, put_args(from, process(1), 30, 1));
    net.settle(NOW);
    net.deliver(NOW, 0, Delivery::Lose);
    net.settle(NOW + Nanos::from_secs(48));
    assert!(net.events(0).is_empty());
    net.settle(NOW + Nanos::from_secs(50));
    net.settle(NOW + Nanos::from_secs(51));
    let events = net.events(0);
    assert_eq!((events[0].user, events[0].status), (9, Status::TimedOut));
    assert!(events[0].unlinked);
    // Ping information, push buffers and the user's own span.
    assert_eq!(net.nodes[0].memory.live, 2 + super::super::discovery::PUSH_BUFFERS);
    net.assert_quiet();
}

#[test]
fn answers_every_ping_by_the_rules_of_wire_6() {
    let mut net = Net::new(2, &Tunables::default());
    let sink = net.span(0, 272, 0);
    let into = net.bind(0, sink, 2, 0);
    net.get(0, get_args(into, process(1), PING_PORTAL, PING_BITS));
    net.run(NOW);
    let reply = net.events(0)[1];
    assert_eq!(reply.moved, 48);
    let bytes = net.bytes(0, sink);
    let info = PingInfo::parse(&bytes[..48]).unwrap();
    assert_eq!(info.features().bits(), 0x1e);
    assert!(info.features().contains(Features::DISCOVERY));
    assert_eq!((info.sequence(), info.primary()), (1, Some(test_nid(1))));

    // Truncated to the sink, as by a kernel (capture r_getsmallsink).
    let small = net.span(0, 20, 0);
    let into = net.bind(0, small, 2, 0);
    net.get(0, get_args(into, process(1), PING_PORTAL, PING_BITS));
    net.run(NOW);
    assert_eq!(net.events(0)[1].moved, 20);
}

#[test]
fn a_long_list_is_requested_again_with_a_larger_sink() {
    let mut net = Net::new(1, &Tunables::default());
    let mut topology = test_topology(test_nid(1), Identity::Node, Tunables::default());
    let ni = topology.nis[NiIndex(0)].clone();
    for number in 1..30 {
        let net = NetId { number, ..NetId::TCP };
        topology.nis.push(crate::topology::Ni { nid: Nid::new4(net, 5), ..ni.clone() });
    }
    net.add(topology);
    net.nodes[0].shard.discover(NOW, &test_nid(1)).unwrap();
    net.run(NOW);
    let peer = net.nodes[0].shard.peer(&test_nid(1)).unwrap();
    // Its push in return does not fit the usual 272 bytes either, which forces a ping ([PING-13]),
    // but no round for which messages would have to wait.
    assert_eq!((peer.state, peer.nids.len(), peer.rounds), (PeerState::Ready, 30, 1));
    net.assert_quiet();
}

#[test]
fn garbage_pushes_force_a_ping_and_do_no_damage() {
    let mut net = Net::new(2, &Tunables::default());
    let source = net.span(0, 64, 0xff);
    let from = net.bind(0, source, 1, 0);
    net.put(0, put_args(from, process(1), PING_PORTAL, PING_BITS));
    net.settle(NOW);
    net.deliver(NOW, 0, Delivery::Deliver);
    net.settle(NOW);
    assert_eq!(net.in_flight(), [("GET", 0)]);
    net.run(NOW);
    assert_eq!(net.nodes[1].shard.peer(&test_nid(0)).unwrap().state, PeerState::Ready);
    net.assert_quiet();
}
