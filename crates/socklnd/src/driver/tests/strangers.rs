//! Shares of places, and HELLOs that use the NID of another node.

use core::net::SocketAddr;

use lustrine_lnet::lnd::LinkEvent;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_wire::hello::{ConnType, Hello, Version};
use lustrine_wire::nid::{Net, Nid, PID_USERLAND, ProcessId};

use crate::config::NiConfig;
use crate::counters::Counters;
use crate::notices::{Incident, Notice};
use crate::testing::{
    Chaos, NODE, Rogue, World, config, hello, hello_bytes, ip4, nid, process, request_bytes,
};

const SECOND: Nanos = Nanos::from_secs(1);

fn world(set: fn(&mut crate::Config)) -> World {
    let mut world = World::new(1, Chaos::None);
    let mut node = config(NODE);
    set(&mut node);
    world.add(node);
    world
}

fn counters(world: &World) -> Counters {
    *world.driver(0).counters()
}

fn notices(world: &mut World) -> Vec<(Incident, u64)> {
    let notices = world.nodes[0].driver.take_notices();
    notices.iter().map(|Notice { incident, count, .. }| (*incident, *count)).collect()
}

/// A HELLO that claims to be 10.0.0.1, from 10.0.0.`from`, after its request.
fn claim(world: &mut World, from: u8, incarnation: u64, version: Version) -> Rogue {
    let rogue = Rogue::dial(world, from, 1000);
    rogue.say(world, &request_bytes(NODE));
    let claim = Hello { src_incarnation: incarnation, ..hello(1, version, ConnType::Control) };
    rogue.say(world, &hello_bytes(&claim));
    rogue
}

/// A userland peer of 10.0.0.`from` with this source port.
fn userland(world: &mut World, from: u8, port: u16) -> Rogue {
    let mut rogue = Rogue::dial(world, from, port);
    rogue.say(world, &request_bytes(NODE));
    rogue.say(world, &hello_bytes(&hello(from, Version::V3, ConnType::Control)));
    assert_eq!(rogue.hello(world).kind, ConnType::Control);
    rogue
}

/// [SOCK-17]
#[test]
fn handshakes_of_the_address_with_most_make_room() {
    let mut world = world(|node| node.tunables.handshakes_max = 4);
    let mut other = Rogue::dial(&mut world, 3, 2000);
    let mut crowd: Vec<Rogue> =
        (0..10).map(|index| Rogue::dial(&mut world, 1, 2000 + index)).collect();
    let open: Vec<bool> = crowd.iter_mut().map(|rogue| !rogue.closed(&mut world)).collect();
    assert_eq!(open, [false, false, false, false, false, false, false, true, true, true]);
    assert!(!other.closed(&mut world), "it holds one place only");
    // The node of the same host has its own allowance.
    Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    assert_eq!((counters(&world).handshakes_evicted, counters(&world).refused_full), (8, 0));
    assert_eq!(notices(&mut world), [(Incident::HandshakeEvicted, 8)]);
    assert_eq!(notices(&mut world), []);
}

/// [SOCK-17]
#[test]
fn idle_userland_peers_of_the_address_with_most_make_room() {
    let mut world = world(|node| {
        node.tunables.connections_max = 16;
        node.tunables.handshakes_max = 8;
    });
    let mut other = userland(&mut world, 3, 2000);
    let mut crowd: Vec<Rogue> =
        (0..13).map(|index| userland(&mut world, 1, 2000 + index)).collect();
    assert_eq!(counters(&world).userland_evicted, 0);
    world.pass(SECOND);
    // The oldest is in use, so the next one is closed.
    crowd[0].noop(&mut world, 0, 1);
    let mut newcomer = userland(&mut world, 4, 2000);
    assert_eq!(counters(&world).userland_evicted, 1);
    assert!(crowd[1].closed(&mut world));
    assert!(!crowd[0].closed(&mut world));
    // This node's own dials are admitted, too.
    let op = world.put(0, process(3), 1, b"hello");
    world.run();
    assert_eq!(counters(&world).userland_evicted, 2);
    assert_ne!(world.status(0, op), Some(Status::NoMemory));
    assert!(!other.closed(&mut world) && !newcomer.closed(&mut world));
    assert_eq!(notices(&mut world), [(Incident::UserlandEvicted, 2)]);
}

/// [SOCK-17]: busy ones stay as long as there is an idle one, and no longer.
#[test]
fn busy_userland_peers_of_the_address_with_most_are_closed_last() {
    let mut world = world(|node| node.tunables.connections_max = 16);
    let mut crowd: Vec<Rogue> =
        (0..14).map(|index| userland(&mut world, 1, 2000 + index)).collect();
    world.pass(SECOND);
    for rogue in &crowd {
        rogue.noop(&mut world, 0, 1);
    }
    let mut newcomer = userland(&mut world, 4, 2000);
    let closed = crowd.iter_mut().filter_map(|rogue| rogue.closed(&mut world).then_some(()));
    assert_eq!(closed.count(), 1);
    assert!(!newcomer.closed(&mut world));
}

/// [SOCK-15]
#[test]
fn a_claim_from_another_address_is_refused_while_the_peer_is_alive() {
    for version in [Version::V2, Version::V3] {
        let mut world = world(|_| ());
        let mut friend = Rogue::open(&mut world, 1, version, ConnType::Control);
        let other = if version == Version::V2 { Version::V3 } else { Version::V2 };
        for (incarnation, version) in [(78, version), (77, other)] {
            let mut stranger = claim(&mut world, 9, incarnation, version);
            assert!(!stranger.closed(&mut world), "the friend is tried first");
            // A second claim does not wait.
            let mut second = claim(&mut world, 8, 79, version);
            if incarnation == 78 {
                assert_eq!(second.hello(&mut world).kind, ConnType::None);
            }
            assert!(second.closed_silently(&mut world), "two are answered [SOCK-18]");
            world.pass(SECOND);
            if incarnation == 78 {
                assert_eq!(stranger.hello(&mut world).kind, ConnType::None);
            }
            assert!(stranger.closed_silently(&mut world));
        }
        assert!(!friend.closed(&mut world));
        assert_eq!(friend.messages(&mut world).len(), 2, "a NOOP for each trial");
        let counters = counters(&world);
        assert_eq!((counters.claims_probed, counters.claims_refused), (2, 4));
        assert_eq!((counters.restarts_seen, counters.renegotiated), (0, 0));
        assert_eq!(world.events(0), [LinkEvent::Up]);
        assert_eq!(notices(&mut world).iter().map(|(_, count)| count).sum::<u64>(), 4);
    }
}

/// [SOCK-15]: a host that was switched off and returned under another of its addresses.
#[test]
fn a_claim_from_another_address_is_accepted_when_the_peer_is_silent() {
    let mut world = world(|_| ());
    let friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.net.mute(friend.sock);
    let mut reborn = claim(&mut world, 9, 78, Version::V3);
    world.pass(SECOND);
    assert_eq!(reborn.hello(&mut world).kind, ConnType::None, "it is to try again");
    assert_eq!(world.events(0)[1..2], [LinkEvent::Restarted]);
    let mut again = claim(&mut world, 9, 78, Version::V3);
    assert_eq!(again.hello(&mut world).kind, ConnType::Control);
}

/// [SOCK-15]: the bytes that test the connection are answered with a reset.
#[test]
fn a_claim_is_accepted_when_the_connections_break_meanwhile() {
    let mut world = world(|_| ());
    let friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut reborn = claim(&mut world, 9, 78, Version::V3);
    world.net.break_stream(friend.sock);
    world.pass(SECOND);
    assert_eq!(reborn.hello(&mut world).kind, ConnType::Control);
    assert_eq!(counters(&world).claims_refused, 0);
}

/// [SOCK-15]: as by a kernel; its own address needs no test.
#[test]
fn a_claim_from_the_peers_own_address_is_accepted_at_once() {
    let mut world = world(|_| ());
    let mut friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut reborn = claim(&mut world, 1, 78, Version::V3);
    assert_eq!(reborn.hello(&mut world).kind, ConnType::None);
    assert!(friend.closed(&mut world));
    assert_eq!(counters(&world).claims_probed, 0);
}

/// [SOCK-15]
#[test]
fn strict_source_refuses_a_nid_that_is_not_the_address() {
    let mut world = world(|node| node.tunables.strict_source = 1);
    assert!(claim(&mut world, 9, 77, Version::V3).closed_silently(&mut world));
    assert_eq!(counters(&world).foreign_address, 1);
    assert_eq!(notices(&mut world), [(Incident::ForeignAddress, 1)]);
    // An unprivileged peer is renamed, so its HELLO may name any NID.
    let mut renamed = Rogue::dial(&mut world, 9, 2000);
    renamed.say(&mut world, &request_bytes(NODE));
    renamed.say(&mut world, &hello_bytes(&hello(1, Version::V3, ConnType::Control)));
    assert_eq!(renamed.hello(&mut world).kind, ConnType::Control);
    let id: ProcessId = world.driver(0).peers().next().expect("a peer").id;
    assert_eq!(id.nid.ip(), Some(ip4(9)));
    claim(&mut world, 1, 77, Version::V3);
    assert_eq!(world.driver(0).peers().count(), 2);
}

/// [SOCK-22]: with the incarnation that the friend's own answers give away.
#[test]
fn a_connection_from_another_address_is_refused_while_the_peer_is_connected() {
    let mut world = world(|_| ());
    let mut friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut stranger = claim(&mut world, 9, 77, Version::V3);
    assert!(!stranger.closed(&mut world), "the friend is tried first");
    world.pass(SECOND);
    assert_eq!(stranger.hello(&mut world).kind, ConnType::None);
    // Nor does it count as an address of the friend's from now on.
    let mut restarted = claim(&mut world, 9, 78, Version::V3);
    world.pass(SECOND);
    assert!(restarted.closed(&mut world));
    assert!(!friend.closed(&mut world));
    let counters = counters(&world);
    assert_eq!((counters.opened_passive, counters.claims_refused, counters.closed), (1, 2, 0));
    assert_eq!(world.events(0), [LinkEvent::Up]);
}

/// [SOCK-22]: what a stranger opened before the friend connects carries nothing of the friend's.
#[test]
fn the_address_in_the_nid_displaces_others() {
    let mut world = world(|_| ());
    let mut stranger = claim(&mut world, 9, 77, Version::V3);
    assert_eq!(stranger.hello(&mut world).kind, ConnType::Control);
    let mut second = claim(&mut world, 8, 77, Version::V3);
    assert_eq!(
        second.hello(&mut world).kind,
        ConnType::Control,
        "not from the NID's address either"
    );
    let mut friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    assert!(stranger.closed(&mut world) && second.closed(&mut world));
    let op = world.put(0, process(1), 1, b"hello");
    world.run();
    assert_eq!(friend.messages(&mut world).len(), 1);
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert_eq!(counters(&world).displaced, 1);
}

/// [SOCK-22]: this node has dialled the address in the NID.
#[test]
fn a_dialled_connection_displaces_others() {
    let mut world = world(|_| ());
    let mut stranger = claim(&mut world, 9, 77, Version::V3);
    assert_eq!(stranger.hello(&mut world).kind, ConnType::Control);
    world.add(config(1));
    world.put(0, process(1), 1, b"this goes to the stranger");
    world.pass(SECOND);
    assert_eq!(counters(&world).displaced, 1);
    assert!(stranger.closed(&mut world));
}

/// A node of 10.0.0.`nid` that connects from 10.0.0.`from`.
fn foreign(world: &mut World, nid: u8, from: u8, port: u16) -> Rogue {
    let rogue = Rogue::dial(world, from, port);
    rogue.say(world, &request_bytes(NODE));
    rogue.say(world, &hello_bytes(&hello(nid, Version::V3, ConnType::Control)));
    rogue
}

/// [SOCK-17]: privileged ports and made-up NIDs hold no place for ever.
#[test]
fn nids_that_are_not_their_address_make_room() {
    let mut world = world(|node| node.tunables.connections_max = 16);
    let mut crowd: Vec<Rogue> =
        (0..14).map(|index| foreign(&mut world, 100 + index, 9, 500 + u16::from(index))).collect();
    for rogue in &mut crowd {
        assert_eq!(rogue.hello(&mut world).kind, ConnType::Control);
        rogue.noop(&mut world, 0, 1);
    }
    let mut friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    assert!(!friend.closed(&mut world));
    assert_eq!((counters(&world).nodes_evicted, counters(&world).refused_full), (1, 0));
    assert_eq!(notices(&mut world), [(Incident::NodeEvicted, 1)]);
}

/// [SOCK-17]: nodes that have something to do are not closed, idle ones are.
#[test]
fn idle_nodes_of_the_address_with_most_make_room() {
    let mut world = world(|node| {
        node.tunables.connections_max = 16;
        node.tunables.handshakes_max = 2;
    });
    let mut crowd: Vec<Rogue> = (0..14)
        .map(|index| Rogue::open(&mut world, 101 + index, Version::V3, ConnType::Control))
        .collect();
    let refused = foreign(&mut world, 1, 1, 500).hello(&mut world).kind;
    assert_eq!(refused, ConnType::None, "all have just been in use");
    world.pass(SECOND);
    for rogue in &crowd[..13] {
        rogue.noop(&mut world, 0, 1);
    }
    let accepted = foreign(&mut world, 1, 1, 501).hello(&mut world).kind;
    assert_eq!(accepted, ConnType::Control);
    assert!(crowd[13].closed(&mut world));
    assert_eq!(counters(&world).nodes_evicted, 1);
    assert!(crowd[..13].iter_mut().all(|rogue| !rogue.closed(&mut world)));
}

/// [SOCK-17]: connections that this node has dialled make room as well. Found by the swarm, seed
/// 3001970: a node full of its own connections, all of them idle, accepted no other any more.
#[test]
fn idle_connections_that_this_node_dialled_make_room() {
    let mut world = world(|node| {
        node.tunables.connections_max = 16;
        node.tunables.handshakes_max = 2;
    });
    for peer in 101..=105 {
        world.add(config(peer));
        world.put(0, process(peer), 1, b"hello");
    }
    world.run();
    assert_eq!(world.driver(0).connections(), 14, "it is full");
    assert_eq!(counters(&world).opened_passive, 0);
    let refused = foreign(&mut world, 1, 1, 500).hello(&mut world).kind;
    assert_eq!(refused, ConnType::None, "all have just been in use");
    world.pass(SECOND);
    let accepted = foreign(&mut world, 1, 1, 501).hello(&mut world).kind;
    assert_eq!(accepted, ConnType::Control);
    assert_ne!(counters(&world).nodes_evicted, 0);
}

/// [SOCK-15]: it would be a peer of its own, which no connection of the real one stands for.
#[test]
fn a_node_has_one_pid() {
    let mut world = world(|_| {});
    Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    for pid in [1, PID_USERLAND | 1] {
        let mut rogue = Rogue::dial(&mut world, 9, 1000);
        rogue.say(&mut world, &request_bytes(NODE));
        let own = hello(1, Version::V3, ConnType::Control);
        let claim = Hello { src: ProcessId { pid, ..own.src }, ..own };
        rogue.say(&mut world, &hello_bytes(&claim));
        assert!(rogue.closed(&mut world), "{pid:#x}");
    }
    assert_eq!(counters(&world).bad_hello_source, 2);
}

/// [SOCK-17]
#[test]
fn newcomers_have_room_when_the_largest_number_is_lowered() {
    let mut world = world(|node| node.tunables.connections_max = 64);
    let mut crowd: Vec<Rogue> = (0..30)
        .map(|index| Rogue::open(&mut world, 101 + index, Version::V3, ConnType::Control))
        .collect();
    let now = world.now;
    let tunables = crate::Tunables { connections_max: 16, ..config(NODE).tunables };
    world.nodes[0].driver.set_tunables(now, tunables, Default::default());
    // The first look finds them in use, and the second one idle.
    for (port, kind) in [(500, ConnType::None), (501, ConnType::Control)] {
        assert_eq!(foreign(&mut world, 1, 1, port).hello(&mut world).kind, kind);
        world.pass(SECOND);
    }
    let closed: Vec<bool> = crowd.iter_mut().map(|rogue| rogue.closed(&mut world)).collect();
    let closed = closed.into_iter().filter(|closed| *closed).count();
    assert_eq!((closed, counters(&world).nodes_evicted), (1, 1));
}

/// The last byte of the address of the node's other interface.
const OTHER: u8 = 7;

/// A node with two interfaces on one network.
fn world_of_two() -> World {
    world(|node| {
        let first = node.nis[0].clone();
        node.nis.push(NiConfig { nid: nid(OTHER), local_ip: Some(ip4(OTHER)), ..first });
    })
}

/// The same as [`claim`], at the other interface.
fn claim_other(world: &mut World, from: u8, incarnation: u64) -> Rogue {
    let (from, to) = (SocketAddr::new(ip4(from), 1000), SocketAddr::new(ip4(OTHER), 988));
    let sock = world.net.dial(from, to).expect("the node listens");
    let order = lustrine_wire::ByteOrder::Little;
    let rogue = Rogue { sock, heard: Vec::new(), order, version: Version::V3 };
    rogue.say(world, &request_bytes(OTHER));
    let own = hello(1, Version::V3, ConnType::Control);
    rogue.say(world, &hello_bytes(&Hello { src_incarnation: incarnation, ..own }));
    rogue
}

/// [SOCK-15], [SOCK-22]: the core knows a peer by its NID, whichever interface it is connected to.
#[test]
fn a_claim_at_another_interface_is_refused_while_the_peer_is_alive() {
    let mut world = world_of_two();
    let mut friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    for incarnation in [77, 78] {
        let mut stranger = claim_other(&mut world, 9, incarnation);
        assert!(!stranger.closed(&mut world), "the friend is tried first");
        world.pass(SECOND);
        assert_eq!(stranger.hello(&mut world).kind, ConnType::None);
        assert!(stranger.closed(&mut world));
    }
    assert!(!friend.closed(&mut world));
    let counters = counters(&world);
    assert_eq!((counters.claims_probed, counters.claims_refused), (2, 2));
    assert_eq!(world.events(0), [LinkEvent::Up]);
    assert_eq!(world.driver(0).peers().count(), 1, "nothing is kept of the stranger");
    // The friend itself is not in doubt.
    let mut second = claim_other(&mut world, 1, 77);
    assert_eq!(second.hello(&mut world).kind, ConnType::Control);
}

/// [SOCK-15]: it is refused at the first interface as well, when it goes.
#[test]
fn a_claim_at_another_interface_that_is_given_up_leaves_nothing() {
    let mut world = world_of_two();
    Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let stranger = claim_other(&mut world, 9, 78);
    world.net.hang_up(stranger.sock);
    world.pass(SECOND);
    assert_eq!((world.driver(0).peers().count(), world.driver(0).connections()), (1, 1));
    assert_eq!(world.events(0), [LinkEvent::Up]);
}

/// [SOCK-15]: the host was switched off and returns by another way, under another of its addresses.
#[test]
fn a_claim_at_another_interface_is_accepted_when_the_peer_is_silent() {
    for incarnation in [77, 78] {
        let mut world = world_of_two();
        let friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
        world.net.mute(friend.sock);
        let mut reborn = claim_other(&mut world, 9, incarnation);
        world.pass(SECOND);
        assert_eq!(reborn.hello(&mut world).kind, ConnType::Control);
        let restarts = world.events(0).iter().filter(|one| **one == LinkEvent::Restarted).count();
        assert_eq!(restarts, usize::from(incarnation == 78));
        assert_eq!(world.driver(0).peers().count(), 1);
    }
}

/// [SOCK-22]: at whichever interface the peer opens it.
#[test]
fn the_address_in_the_nid_displaces_others_at_all_interfaces() {
    let mut world = world_of_two();
    let mut stranger = claim_other(&mut world, 9, 77);
    assert_eq!(stranger.hello(&mut world).kind, ConnType::Control);
    let mut friend = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    assert!(stranger.closed(&mut world) && !friend.closed(&mut world));
    assert_eq!(counters(&world).displaced, 1);
}

/// [SOCK-15], [USR-9]: a userland node has dialled the peer, and nothing has dialled the node yet.
#[test]
fn a_claim_to_a_userland_node_is_refused_while_the_peer_it_has_dialled_is_alive() {
    let mut world = world(|node| node.identity = Identity::Userland);
    world.net.listen(SocketAddr::new(ip4(NODE), 988), Some(0));
    world.add(config(1));
    world.put(0, process(1), 1, b"hello");
    world.run();
    for incarnation in [1001, 78] {
        let mut stranger = claim(&mut world, 9, incarnation, Version::V3);
        assert!(!stranger.closed(&mut world), "the peer is tried first");
        world.pass(SECOND);
        assert_eq!(stranger.hello(&mut world).kind, ConnType::None);
    }
    assert_eq!(world.events(0), [LinkEvent::Up]);
}

/// [HEL-15]
#[test]
fn a_nid_of_another_network_than_the_interface_is_refused() {
    let mut world = world(|_| ());
    for (port, accepted) in [(1000, false), (2000, true)] {
        let mut rogue = Rogue::dial(&mut world, 1, port);
        rogue.say(&mut world, &request_bytes(NODE));
        let own = hello(1, Version::V3, ConnType::Control);
        let elsewhere = Nid::from_ip(Net { number: 5, ..Net::TCP }, ip4(1));
        let claim = Hello { src: ProcessId::lustre(elsewhere), ..own };
        rogue.say(&mut world, &hello_bytes(&claim));
        assert_eq!(!rogue.closed(&mut world), accepted, "an unprivileged peer is renamed");
    }
    assert_eq!(counters(&world).bad_hello_source, 1);
}

/// A peer with connections to both interfaces restarts, and connects to one after the other.
#[test]
fn a_restart_is_reported_once_for_all_interfaces() {
    let mut world = world_of_two();
    Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    assert_eq!(claim_other(&mut world, 1, 77).hello(&mut world).kind, ConnType::Control);
    let down = LinkEvent::Down { status: Status::PeerRestarted };
    assert_eq!(claim(&mut world, 1, 78, Version::V3).hello(&mut world).kind, ConnType::None);
    assert_eq!(claim(&mut world, 1, 78, Version::V3).hello(&mut world).kind, ConnType::Control);
    assert_eq!(world.events(0)[2..], [LinkEvent::Restarted, down, LinkEvent::Up]);
    assert_eq!(claim_other(&mut world, 1, 78).hello(&mut world).kind, ConnType::None);
    assert_eq!(claim_other(&mut world, 1, 78).hello(&mut world).kind, ConnType::Control);
    assert_eq!(world.events(0)[5..], [down, LinkEvent::Up]);
    assert_eq!(counters(&world).restarts_seen, 2, "each set of connections is counted");
}

/// The interface that it connects to first after its restart has not seen it before.
#[test]
fn a_restart_is_reported_when_it_is_first_seen() {
    let mut world = world_of_two();
    Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    assert_eq!(claim_other(&mut world, 1, 78).hello(&mut world).kind, ConnType::Control);
    assert_eq!(world.events(0), [LinkEvent::Up, LinkEvent::Restarted, LinkEvent::Up]);
    assert_eq!(claim(&mut world, 1, 78, Version::V3).hello(&mut world).kind, ConnType::None);
    let down = LinkEvent::Down { status: Status::PeerRestarted };
    assert_eq!(world.events(0)[3..], [down]);
    // It was seen when connections of the earlier one were open.
    let counters = world.driver(0).counters();
    assert_eq!((counters.restarts_seen, counters.restarts_between), (1, 0));
}
