//! Two drivers exchange messages.

use lustrine_lnet::lnd::{Action, HeaderViolation, LinkEvent, NiIndex, Verdict};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_wire::header::Body;
use lustrine_wire::hello::Version;
use lustrine_wire::nid::{Net, Nid, PID_USERLAND, ProcessId};

use crate::config::NiConfig;
use crate::driver::PeerConnections;
use crate::io::SockId;
use crate::peer::Side;
use crate::testing::{Chaos, Node, Plan, World, config, ip4, process};

fn pair(chaos: Chaos) -> World {
    let mut world = World::new(1, chaos);
    world.add(config(1));
    world.add(config(2));
    world
}

fn only_peer(world: &World, node: usize) -> PeerConnections {
    let peers: Vec<PeerConnections> = world.driver(node).peers().collect();
    assert_eq!(peers.len(), 1, "{peers:?}");
    peers[0]
}

fn at_rest(world: &mut World) {
    for node in 0..world.nodes.len() {
        assert!(!world.driver(node).has_work());
        assert_eq!(world.core(node).open_ops(), 0);
    }
}

#[test]
fn a_put_each_way_over_three_connections() {
    let mut world = pair(Chaos::None);
    let op = world.put(0, process(2), 7, b"hello");
    world.run();
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert_eq!(world.core(1).payload(0), b"hello");
    let arrived = world.core(1).arrived[0].clone();
    assert_eq!((arrived.from, arrived.status), (process(1), Some(Status::Ok)));
    assert!(matches!(arrived.header.body, Body::Put { match_bits: 7, .. }));
    let back = world.put(1, process(1), 8, &[5; 100_000]);
    world.run();
    assert_eq!(world.status(1, back), Some(Status::Ok));
    assert_eq!(world.core(0).payload(0), [5; 100_000]);
    for node in [0, 1] {
        let peer = only_peer(&world, node);
        assert_eq!((peer.control, peer.bulk_in, peer.bulk_out, peer.any), (1, 1, 1, 0));
        assert_eq!(peer.version, Some(Version::V3));
        assert_eq!(world.events(node), [LinkEvent::Up]);
    }
    at_rest(&mut world);
}

#[test]
fn sixty_four_small_messages_cost_one_write_and_two_reads() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 0, b"");
    world.run();
    let before = world.net.calls();
    for bits in 0..64 {
        world.put(0, process(2), bits, &[1; 128]);
    }
    world.run();
    let after = world.net.calls();
    // In reads of 32 messages, so that answers are sent meanwhile.
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 2));
    assert_eq!(world.core(1).arrived.len(), 65);
    at_rest(&mut world);
}

/// A message that comes alone is written by the call that submits it, and the next flush has
/// nothing to write.
#[test]
fn a_message_alone_is_written_at_once() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 0, b"");
    world.run();
    let before = world.net.calls();
    let op = world.put_alone(0, process(2), 1, &[1; 4096]);
    assert_eq!(world.net.calls().0 - before.0, 1);
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert_eq!(only_peer(&world, 0).tx_queued, 0);
    assert!(!world.driver(0).has_work());
    world.run();
    assert_eq!(world.net.calls().0 - before.0, 1);
    assert_eq!(world.core(1).payload(1), [1; 4096]);
    at_rest(&mut world);
}

/// A large message is done when it has been written, so it has no reason to leave at once; and a
/// message does not overtake others.
#[test]
fn a_message_alone_waits_for_those_before_it() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 0, b"");
    world.put(0, process(2), 0, &[0; 5000]);
    world.run();
    let before = world.net.calls();
    let first = world.put(0, process(2), 1, b"first");
    let second = world.put_alone(0, process(2), 2, b"second");
    let large = world.put_alone(0, process(2), 3, &[3; 5000]);
    assert_eq!(world.net.calls(), before);
    assert_eq!([first, second].map(|op| world.status(0, op)), [Some(Status::Ok); 2]);
    assert_eq!(world.status(0, large), None);
    world.run();
    // One for the small ones, one for the large one on its own connection.
    assert_eq!(world.net.calls().0 - before.0, 2);
    assert_eq!(world.status(0, large), Some(Status::Ok));
    assert_eq!(world.core(1).payload(2), b"first");
    assert_eq!(world.core(1).payload(3), b"second");
    at_rest(&mut world);
}

/// A connection that breaks while a message alone is written ends like any other, and what the
/// peer had said before is heard.
#[test]
fn a_message_alone_that_cannot_be_written_ends_the_connection() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 0, b"");
    world.put(1, process(1), 0, b"");
    world.run();
    world.put(1, process(1), 1, b"last words");
    while world.turn(1) {}
    for sock in world.net.streams_of(1) {
        world.net.hang_up(sock);
    }
    let op = world.put_alone(0, process(2), 2, b"too late");
    assert_eq!(world.status(0, op), Some(Status::Ok));
    assert!(matches!(world.events(0)[..], [LinkEvent::Up, LinkEvent::Down { .. }]));
    assert_eq!(world.core(0).payload(1), b"last words");
    assert_eq!(world.core(0).open_ops(), 0);
}

/// What the stream does not take at once follows when it can.
#[test]
fn a_message_alone_that_finds_little_room_is_written_in_parts() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 0, b"");
    world.run();
    world.net.set_window(1000);
    let ops = [1u8, 2, 3].map(|at| world.put_alone(0, process(2), at.into(), &[at; 3000]));
    assert!(only_peer(&world, 0).tx_queued > 0);
    world.run();
    assert_eq!(ops.map(|op| world.status(0, op)), [Some(Status::Ok); 3]);
    for at in [1u8, 2, 3] {
        assert_eq!(world.core(1).payload(at.into()), vec![at; 3000]);
    }
    at_rest(&mut world);
}

#[test]
fn staged_messages_are_done_before_anything_is_written() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 0, b"");
    world.run();
    let before = world.net.calls();
    let small = world.put(0, process(2), 1, &[1; 4096]);
    let large = world.put(0, process(2), 2, &[1; 4097]);
    assert!(world.nodes[0].driver.has_work());
    assert_eq!(world.status(0, small), Some(Status::Ok));
    assert_eq!(world.status(0, large), None);
    assert_eq!(world.net.calls(), before);
    world.run();
    assert_eq!(world.status(0, large), Some(Status::Ok));
    at_rest(&mut world);
}

#[test]
fn a_large_payload_is_read_in_place_together_with_the_next_head() {
    let mut world = pair(Chaos::None);
    world.net.set_window(4 << 20);
    world.put(0, process(2), 0, b"");
    world.run();
    let before = world.net.calls().1;
    for bits in 0..3 {
        world.put(0, process(2), bits, &[2; 1 << 20]);
    }
    world.run();
    // The first head, then payload and next head together, then the last payload.
    assert_eq!(world.net.calls().1 - before, 4);
    assert_eq!(world.core(1).payload(3), [2; 1 << 20]);
    at_rest(&mut world);
}

/// [FRM-17]
#[test]
fn small_messages_go_on_control_and_large_ones_on_bulk() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 0, b"");
    world.run();
    world.net.set_window(0);
    world.put(0, process(2), 1, &[0; 900]);
    world.put(0, process(2), 2, &[0; 1000]);
    world.run();
    let key = world.driver(0).peers.find(NiIndex(0), process(2), Side::Own).unwrap();
    let driver = world.driver(0);
    let waiting: Vec<_> = driver.peers[key]
        .members
        .iter()
        .map(|member| (member.kind as u32, driver.conns[member.conn].tx.waiting()))
        .filter(|(_, waiting)| *waiting != 0)
        .collect();
    assert_eq!(waiting, [(1, 996), (3, 1096)]);
    assert_eq!(only_peer(&world, 0).tx_queued, 996 + 1096);
    // Both were copied, and are complete for their sender; a long one is not.
    assert_eq!(only_peer(&world, 0).tx_messages, 0);
    world.put(0, process(2), 3, &[0; 1 << 20]);
    world.run();
    assert_eq!(only_peer(&world, 0).tx_messages, 1);
}

#[test]
fn payload_that_the_core_does_not_want_is_drained() {
    for chaos in [Chaos::None, Chaos::Chunks] {
        let mut world = pair(chaos);
        world.core(1).plans =
            [Plan::Drop, Plan::Truncate(10), Plan::Done, Plan::Truncate(0), Plan::Truncate(40_000)]
                .into();
        for bits in 0..6 {
            world.put(0, process(2), bits, &[bits as u8 + 1; 100_000]);
        }
        world.run();
        let counters = *world.driver(1).counters();
        let core = world.core(1);
        assert_eq!(core.arrived.len(), 4);
        assert_eq!(core.payload(0), [2; 10]);
        assert_eq!(core.payload(1), []);
        assert_eq!(core.payload(2), [5; 40_000]);
        assert_eq!(core.payload(3), [6; 100_000]);
        assert!(core.arrived.iter().all(|arrived| arrived.status == Some(Status::Ok)));
        assert_eq!(counters.payload_received, 10 + 40_000 + 100_000);
        assert_eq!(counters.payload_discarded, 600_000 - counters.payload_received);
        at_rest(&mut world);
    }
}

#[test]
fn a_parked_connection_stops_and_continues() {
    for chaos in [Chaos::None, Chaos::Chunks] {
        let mut world = pair(chaos);
        world.core(1).plans = [Plan::Park, Plan::Park].into();
        for bits in 0..5 {
            world.put(0, process(2), bits, &[bits as u8; 300]);
        }
        world.run();
        assert_eq!((world.core(1).arrived.len(), world.core(1).parked.len()), (0, 1));
        world.core(1).resume(Plan::Store { piece: 100 });
        world.run();
        assert_eq!((world.core(1).arrived.len(), world.core(1).parked.len()), (1, 1));
        world.core(1).resume(Plan::Drop);
        world.run();
        let bits: Vec<u8> = (0..4).map(|index| world.core(1).payload(index)[0]).collect();
        assert_eq!(bits, [0, 2, 3, 4]);
        assert_eq!(world.driver(1).counters().parked, 2);
        // No memory remains.
        assert!(
            world
                .driver(1)
                .conns
                .values()
                .all(|conn| { conn.open().is_some_and(|open| open.backlog.capacity() == 0) })
        );
        at_rest(&mut world);
    }
}

#[test]
fn a_parked_message_ends_with_its_connection() {
    let mut world = pair(Chaos::None);
    world.core(1).plans = [Plan::Park].into();
    world.put(0, process(2), 1, &[1; 300]);
    world.run();
    let rx = world.core(1).parked[0].0;
    let sock = first_stream(&world);
    world.net.break_stream(sock);
    world.run();
    assert_eq!(world.core(1).forgotten, [rx]);
    assert_eq!(world.events(1)[1], LinkEvent::Down { status: Status::ConnectionLost });
    // A decision that comes too late has no effect; its operation ends nevertheless.
    let op = world.core(1).sending();
    let verdict = Verdict::Into { op, spans: Default::default() };
    world.core(1).outbox.push_back(Action::Resume { ni: NiIndex(0), rx, verdict });
    world.run();
    assert_eq!(world.driver(1).counters().stale_resumes, 1);
    assert_eq!(world.status(1, op), Some(Status::ConnectionLost));
    at_rest(&mut world);
}

fn first_stream(world: &World) -> SockId {
    world.net.streams_of(0)[0]
}

/// [SOCK-9]
#[test]
fn a_refused_header_closes_all_connections() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 1, b"fine");
    world.run();
    world.core(1).plans = [Plan::Refuse(HeaderViolation::WrongDestination)].into();
    world.put(0, process(2), 2, b"wrong");
    world.run();
    assert_eq!(world.driver(1).counters().wrong_destination, 1);
    assert_eq!(world.events(1)[1], LinkEvent::Down { status: Status::Protocol });
    assert_eq!(world.events(0)[1], LinkEvent::Down { status: Status::ConnectionLost });
    assert_eq!((world.driver(0).connections(), world.driver(1).connections()), (0, 0));
    assert_eq!(world.driver(0).peers().count(), 0);
    at_rest(&mut world);
}

#[test]
fn a_payload_that_ends_in_the_middle_fails() {
    let mut world = pair(Chaos::None);
    world.net.set_window(50_000);
    world.put(0, process(2), 1, b"first");
    world.run();
    let op = world.put(0, process(2), 2, &[3; 200_000]);
    for _ in 0..3 {
        world.turn(0);
    }
    world.turn(1);
    assert_eq!(world.core(1).arrived.len(), 2);
    for sock in world.net.streams_of(0) {
        world.net.break_stream(sock);
    }
    world.run();
    assert_eq!(world.status(0, op), Some(Status::ConnectionLost));
    assert_eq!(world.core(1).arrived[1].status, Some(Status::ConnectionLost));
    at_rest(&mut world);
}

#[test]
fn the_core_closes_a_peer() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 1, b"first");
    world.run();
    world.net.set_window(0);
    let op = world.put(0, process(2), 2, &[3; 200_000]);
    let status = Status::PeerRestarted;
    let close = Action::Close { ni: NiIndex(0), peer: process(2), status };
    world.core(0).outbox.push_back(close);
    world.run();
    assert_eq!(world.status(0, op), Some(status));
    assert_eq!(world.events(0)[1], LinkEvent::Down { status });
    assert_eq!(world.driver(0).connections(), 0);
}

#[test]
fn shutdown_ends_everything_once() {
    let mut world = pair(Chaos::None);
    world.put(0, process(2), 1, b"first");
    world.run();
    world.core(1).plans = [Plan::Park].into();
    world.net.set_window(30_000);
    let sent = world.put(0, process(2), 2, &[3; 200_000]);
    let queued = world.put(0, process(3), 3, b"no listener there");
    world.turn(0);
    // Copied to its connection: like bytes in TCP's own buffer, and lost like them.
    let staged = world.put(0, process(2), 4, b"never written");
    assert_eq!(world.status(0, staged), Some(Status::Ok));
    let Node { driver, io, core } = &mut world.nodes[0];
    driver.close_all(world.now, core, io, Status::Shutdown);
    for op in [sent, queued] {
        assert_eq!(world.status(0, op), Some(Status::Shutdown));
    }
    assert_eq!(world.driver(0).connections(), 0);
    assert!(world.driver(0).peers().next().is_none());
    let after = world.put(0, process(2), 5, b"too late");
    world.run();
    assert_eq!(world.status(0, after), Some(Status::Shutdown));
    let deadline = world.now + Nanos::from_millis(1500);
    let knock = world.put_until(1, process(1), 6, b"anybody there?", deadline);
    world.pass(Nanos::from_secs(2));
    assert_eq!(world.status(1, knock), Some(Status::Rejected));
    at_rest(&mut world);
}

#[test]
fn a_node_sends_to_itself() {
    let mut world = World::new(1, Chaos::None);
    world.add(config(1));
    for bits in 0..3 {
        world.put(0, process(1), bits, &[9; 5000]);
    }
    world.run();
    assert_eq!(world.core(0).arrived.len(), 3);
    let peer = only_peer(&world, 0);
    // Both ends of each connection belong to the same peer: what is BULK_IN at one end is
    // BULK_OUT at the other.
    assert_eq!((peer.control, peer.bulk_in, peer.bulk_out), (2, 1, 1));
    let world_now = world.now;
    assert!(world.driver(0).next_deadline() > world_now);
    at_rest(&mut world);
}

/// [USR-2], [USR-5]
#[test]
fn a_userland_node_uses_one_connection_and_is_renamed() {
    let mut world = World::new(1, Chaos::None);
    let mut userland = config(1);
    userland.identity = Identity::Userland;
    world.add(userland);
    world.add(config(2));
    world.put(0, process(2), 1, b"small");
    world.put(0, process(2), 2, &[1; 100_000]);
    world.run();
    let peer = only_peer(&world, 1);
    assert_eq!((peer.control, peer.bulk_in, peer.bulk_out), (1, 0, 0));
    assert!(peer.id.is_userland() && peer.id.pid & !PID_USERLAND >= 40_000);
    assert_eq!(peer.id.nid, process(1).nid);
    let arrived = &world.core(1).arrived[1];
    assert_eq!((arrived.from, arrived.header.src), (peer.id, peer.id));
    // Answers go to the renamed peer over its own connection, large ones too.
    let back = world.put(1, peer.id, 3, &[2; 50_000]);
    world.run();
    assert_eq!(world.status(1, back), Some(Status::Ok));
    assert_eq!(world.core(0).payload(0), [2; 50_000]);
    assert_eq!(world.driver(1).counters().dialled, 0);
    // Once it is gone no message can reach it.
    let sock = first_stream(&world);
    world.net.break_stream(sock);
    world.run();
    let lost = world.put(1, peer.id, 4, b"gone");
    world.run();
    assert_eq!(world.status(1, lost), Some(Status::Unreachable));
    assert_eq!(world.driver(1).peers().count(), 0);
    at_rest(&mut world);
}

/// Two networks at one address: the connection request names the NID that is meant.
#[test]
fn networks_share_an_address() {
    let mut world = World::new(1, Chaos::None);
    let mut both = config(1);
    let other_net = Net { number: 1, ..Net::TCP };
    let second = Nid::from_ip(other_net, both.nis[0].local_ip.expect("an address"));
    both.nis.push(NiConfig { nid: second, ..both.nis[0].clone() });
    world.add(both);
    let mut dialler = config(2);
    let local = Nid::from_ip(other_net, dialler.nis[0].local_ip.expect("an address"));
    dialler.nis[0].nid = local;
    world.add(dialler);
    world.put(1, ProcessId::lustre(second), 1, b"to the second");
    world.run();
    assert_eq!(world.core(0).payload(0), b"to the second");
    let peer = only_peer(&world, 0);
    assert_eq!(
        (peer.id.nid, world.driver(0).peers().next().map(|p| p.ni)),
        (local, Some(NiIndex(1)))
    );
    // A NID that belongs to neither of them is refused, as with one network.
    let absent = Nid::from_ip(Net { number: 2, ..Net::TCP }, ip4(1));
    let lost = world.put(1, ProcessId::lustre(absent), 2, b"");
    world.pass(Nanos::from_secs(70));
    assert_ne!(world.status(1, lost), Some(Status::Ok));
    at_rest(&mut world);
}

/// [HEL-13], [USR-7]
#[test]
fn ipv6_peers_use_version_4() {
    let ip = |last: u8| format!("fd77::{last}").parse::<core::net::IpAddr>().unwrap();
    let process = |last| ProcessId::lustre(Nid::from_ip(Net::TCP, ip(last)));
    let mut world = World::new(1, Chaos::None);
    for last in [2, 3] {
        let mut config = config(last);
        config.nis[0].nid = process(last).nid;
        config.nis[0].local_ip = Some(ip(last));
        world.add(config);
    }
    world.put(0, process(3), 1, &[4; 9000]);
    world.run();
    assert_eq!(world.core(1).payload(0), [4; 9000]);
    assert_eq!(only_peer(&world, 1).version, Some(Version::V4));
    // Never from an unprivileged port.
    let mut userland = config(4);
    userland.nis[0].nid = process(4).nid;
    userland.identity = Identity::Userland;
    let node = world.add(userland);
    let op = world.put(node, process(3), 2, b"");
    world.run();
    assert_eq!(world.status(node, op), Some(Status::Unreachable));
    assert_eq!(world.driver(node).counters().dials_forbidden_ipv6, 1);
    assert_eq!(world.driver(node).counters().dialled, 0);
}

#[test]
fn versions_1_2_and_4_between_ipv4_nodes() {
    for (protocol, version) in [(1, Version::V1), (2, Version::V2), (4, Version::V4)] {
        for csum in [0, 1] {
            let mut world = World::new(1, Chaos::Chunks);
            let mut first = config(1);
            first.tunables.protocol = protocol;
            first.tunables.enable_csum = csum;
            let mut second = config(2);
            second.tunables = first.tunables.clone();
            world.add(first);
            world.add(second);
            // The last one is longer than one portion of the checksum.
            for len in [0, 100, 5000, 70_000, 300_000] {
                world.put(0, process(2), 1, &vec![1; len]);
                world.put(1, process(1), 1, &vec![2; len]);
            }
            world.run();
            world.pass(Nanos::from_secs(3));
            assert_eq!((world.core(0).arrived.len(), world.core(1).arrived.len()), (5, 5));
            assert_eq!(only_peer(&world, 1).version, Some(version));
            assert_eq!(world.driver(1).counters().bad_checksum, 0);
            at_rest(&mut world);
        }
    }
}

#[test]
fn a_connection_moves_to_the_home_of_its_peer() {
    // Nodes 0 and 1 of this network are the two CPU partitions of 10.0.0.2; its listener is on 0.
    let mut world = World::new(1, Chaos::Chunks);
    for cpt in 0..2 {
        let mut config = config(2);
        (config.cpt, config.cpts) = (cpt, 2);
        if cpt == 1 {
            config.identity = Identity::Userland;
        }
        world.add(config);
    }
    let lasts = [3, 4];
    for last in lasts {
        let node = world.add(config(last));
        world.put(node, process(2), u64::from(last), &[last; 3000]);
    }
    world.run();
    let homes = lasts.map(|last| lustrine_lnet::topology::home_of(&process(last).nid, 2));
    assert_ne!(homes[0], homes[1]);
    for (last, home) in lasts.into_iter().zip(homes) {
        let home = usize::from(home);
        let peers: Vec<_> = world.driver(home).peers().map(|peer| peer.id).collect();
        assert_eq!(peers, [process(last)]);
        assert_eq!(world.core(home).payload(0), [last; 3000]);
    }
    assert_eq!(world.driver(0).counters().handed_off, 3);
    assert_eq!(world.driver(1).counters().adopted, 3);
    assert_eq!(world.driver(0).connections(), 3);
    assert_eq!(world.driver(0).handshakes_held(), 0);
}

#[test]
fn a_local_address_of_another_net_is_unreachable() {
    let mut world = World::new(1, Chaos::None);
    world.add(config(1));
    let elsewhere = ProcessId::lustre(Nid::from_ip(Net { number: 5, ..Net::TCP }, ip4(2)));
    let op = world.put(0, elsewhere, 1, b"");
    world.run();
    assert_eq!(world.status(0, op), Some(Status::Unreachable));
}
