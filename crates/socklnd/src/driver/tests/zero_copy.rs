//! Cookies on open connections [FRM-6].

use lustrine_lnet::lnd::LinkEvent;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::hello::{ConnType, Version};

use crate::testing::{Chaos, Plan, Rogue, World, config, process, put_header};

fn zero_copy_pair(chaos: Chaos) -> World {
    let mut world = World::new(1, chaos);
    for last in [1, 2] {
        let mut config = config(last);
        config.tunables.zero_copy = 1;
        world.add(config);
    }
    world
}

/// [FRM-6], [FRM-11]
#[test]
fn large_payloads_are_acknowledged_both_ways() {
    for chaos in [Chaos::None, Chaos::Chunks] {
        let mut world = zero_copy_pair(chaos);
        world.put(0, process(2), 1, b"");
        world.run();
        world.core(1).plans = [Plan::Drop, Plan::Truncate(5)].into();
        for round in 0..20 {
            let len = 10_000 + 1000 * round;
            world.put(0, process(2), 1, &vec![1; len]);
            world.put(1, process(1), 1, &vec![2; len]);
            if round % 5 == 0 {
                world.run();
            }
        }
        world.run();
        world.pass(Nanos::from_secs(10));
        for node in [0, 1] {
            assert_eq!(world.core(node).open_ops(), 0);
            let counters = world.driver(node).counters();
            let large = (0..20).filter(|round| 10_000 + 1000 * round >= 16_384).count() as u64;
            assert_eq!(counters.zero_copy_sent, large);
            assert_eq!(counters.zero_copy_acks_received, large);
            assert_eq!(counters.zero_copy_acks_sent + counters.zero_copy_acks_carried, large);
            assert_eq!(counters.closed, 0);
            assert_eq!(world.driver(node).peers().next().unwrap().zero_copy, 0);
        }
    }
}

fn node_with(seed: u64) -> World {
    let mut world = World::new(seed, Chaos::None);
    world.add(config(2));
    world
}

fn put(cookie: u64, len: u32) -> (FrameHeader, lustrine_wire::Header) {
    let frame = FrameHeader { zc_request: cookie, ..FrameHeader::LNET };
    (frame, put_header(process(1), process(2), 1, len))
}

/// [FRM-14]
#[test]
fn r_zcreq_is_answered_even_without_a_bulk_connection() {
    // The kernel closed the connection here: its NOOP may only use BULK_IN. This driver uses
    // CONTROL.
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let (frame, header) = put(77, 0);
    control.message(&mut world, frame, &header, b"");
    let heard = control.messages(&mut world);
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].frame, FrameHeader::noop(77));
}

/// [FRM-14]
#[test]
fn r_zcreq3_is_answered_on_bulk_in() {
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut bulk_in = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkIn);
    let mut bulk_out = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkOut);
    let (frame, header) = put(77, 0);
    control.message(&mut world, frame, &header, b"");
    // The peer's BULK_OUT is BULK_IN here.
    assert_eq!(bulk_out.messages(&mut world)[0].frame, FrameHeader::noop(77));
    assert_eq!(bulk_in.messages(&mut world), []);
    assert_eq!(control.messages(&mut world), []);
}

/// [FRM-7]
#[test]
fn a_dropped_message_is_acknowledged_before_its_rest_arrives() {
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.core(0).plan = Plan::Drop;
    let (frame, header) = put(5, 100_000);
    control.message(&mut world, frame, &header, &[0; 10]);
    assert_eq!(control.messages(&mut world)[0].frame, FrameHeader::noop(5));
}

/// [FRM-11], [FRM-15]
#[test]
fn acknowledgements_are_paired_on_v3_and_single_on_v2() {
    for (version, expected) in
        [(Version::V3, vec![(4, 3), (0, 5)]), (Version::V2, vec![(0, 3), (0, 4), (0, 5)])]
    {
        let mut world = node_with(1);
        let mut control = Rogue::open(&mut world, 1, version, ConnType::Control);
        let mut bytes = Vec::new();
        for cookie in 3..6 {
            let (frame, header) = put(cookie, 0);
            bytes.extend(frame.encode(control.order));
            bytes.extend(crate::testing::header_bytes(version, &header));
        }
        control.say(&mut world, &bytes);
        let heard: Vec<(u64, u64)> = control
            .messages(&mut world)
            .iter()
            .map(|message| (message.frame.zc_request, message.frame.zc_ack))
            .collect();
        assert_eq!(heard, expected, "the form of captures f6 and f7");
    }
}

/// [FRM-11]
#[test]
fn an_acknowledgement_is_sent_in_a_message() {
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let (frame, header) = put(9, 0);
    let mut bytes = frame.encode(control.order).to_vec();
    bytes.extend(crate::testing::header_bytes(Version::V3, &header));
    world.net.say(control.sock, &bytes);
    world.turn(0);
    world.put(0, process(1), 1, b"answer");
    let heard = control.messages(&mut world);
    assert_eq!(heard.len(), 1);
    assert_eq!((heard[0].frame.kind, heard[0].frame.zc_ack), (FrameKind::Lnet, 9));
    assert_eq!(world.driver(0).counters().zero_copy_acks_carried, 1);
}

/// [FRM-6], [FRM-14]
#[test]
fn a_message_with_a_cookie_ends_when_it_is_acknowledged() {
    let mut world = World::new(1, Chaos::None);
    let mut config = config(2);
    config.tunables.zero_copy = 1;
    world.add(config);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    // A kernel that had only this connection would close it (r_zcreq), so no cookie is sent.
    let op = world.put(0, process(1), 1, &[7; 20_000]);
    assert_eq!(control.messages(&mut world)[0].frame.zc_request, 0);
    assert_eq!(world.status(0, op), Some(Status::Ok));
    let mut bulk = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkIn);
    let op = world.put(0, process(1), 1, &[7; 20_000]);
    let heard = bulk.messages(&mut world);
    assert_eq!((heard.len(), heard[0].frame.zc_request), (1, 2));
    assert_eq!(world.status(0, op), None);
    bulk.noop(&mut world, 0, 2);
    assert_eq!(world.status(0, op), Some(Status::Ok));
    // V1 has no cookies.
    let mut control = Rogue::open(&mut world, 3, Version::V1, ConnType::Control);
    let op = world.put(0, process(3), 1, &[7; 20_000]);
    assert_eq!(control.messages(&mut world).len(), 1);
    assert_eq!(world.status(0, op), Some(Status::Ok));
}

#[test]
fn acknowledgements_without_room_are_sent_later() {
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.net.set_window(0);
    // So much waits for the peer to read that no more may be queued.
    for _ in 0..80 {
        world.put(0, process(1), 1, &[7; 4096]);
    }
    world.run();
    assert_ne!(world.driver(0).peers().next().unwrap().waiting, 0);
    let (frame, header) = put(9, 0);
    control.message(&mut world, frame, &header, b"");
    let key = world.driver(0).peers.keys()[0];
    assert_eq!(world.driver(0).peers[key].acks, [9]);
    world.net.set_window(1 << 20);
    let heard: Vec<_> = (0..3).flat_map(|_| control.messages(&mut world)).collect();
    assert!(heard.iter().any(|message| message.frame.zc_ack == 9));
    assert_eq!(heard.iter().filter(|message| message.header.is_some()).count(), 80);
    assert_eq!(world.core(0).open_ops(), 0);
}

/// [FRM-7], [SOCK-11]
#[test]
fn an_unacknowledged_message_closes_all_connections() {
    let mut world = World::new(1, Chaos::None);
    let mut config = config(2);
    config.tunables.zero_copy = 1;
    world.add(config);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut bulk = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkIn);
    let op = world.put(0, process(1), 1, &[7; 20_000]);
    assert_eq!(bulk.messages(&mut world).len(), 1);
    world.pass(Nanos::from_secs(49));
    assert_eq!(world.status(0, op), None);
    world.pass(Nanos::from_secs(15));
    assert_eq!(world.status(0, op), Some(Status::TimedOut));
    assert!(control.closed(&mut world) && bulk.closed(&mut world));
    assert_eq!(world.driver(0).counters().timeouts_zero_copy, 1);
}

/// [FRM-12]
#[test]
fn r_noop_with_an_unknown_cookie_closes_all_connections() {
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut bulk = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkOut);
    control.noop(&mut world, 0, 1);
    assert_eq!(world.driver(0).counters().keepalives_received, 1);
    assert!(!control.closed(&mut world));
    control.noop(&mut world, 0, 55_555);
    assert!(control.closed(&mut world) && bulk.closed(&mut world));
    assert_eq!(world.driver(0).counters().unknown_cookie, 1);
    assert_eq!(world.events(0)[1], LinkEvent::Down { status: Status::Protocol });
}

/// [FRM-11], [FRM-13]
#[test]
fn r_noopzero_has_no_effect_and_a_false_keepalive_has() {
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    control.noop(&mut world, 0, 0);
    control.noop(&mut world, 9, 0);
    assert!(!control.closed(&mut world));
    control.noop(&mut world, 2, 1);
    assert!(control.closed(&mut world));
    assert_eq!(world.driver(0).counters().bad_keepalive, 1);
}

#[test]
fn a_peer_that_never_reads_its_acknowledgements_is_closed() {
    let mut world = node_with(1);
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.net.set_window(0);
    let mut closed = false;
    for round in 0..2000 {
        let mut bytes = Vec::new();
        for cookie in 0..64 {
            let (frame, header) = put(2 + round * 64 + cookie, 0);
            bytes.extend(frame.encode(control.order));
            bytes.extend(crate::testing::header_bytes(Version::V3, &header));
        }
        world.net.say(control.sock, &bytes);
        world.run();
        closed = world.net.ended(control.sock);
        if closed {
            break;
        }
    }
    assert!(closed && control.closed(&mut world));
    assert_eq!(world.driver(0).counters().ack_backlog, 1);
}
