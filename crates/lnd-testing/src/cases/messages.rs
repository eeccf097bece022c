//! Messages arrive whole, once, in order, and where the core wants them.

use lustrine_lnet::lnd::OpKey;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;

use crate::model::PlannedVerdict;
use crate::testbed::{Setup, Testbed};
use crate::world::{Kind, Message, World};

/// Lengths of payloads: none, one byte, around the limits of copies and buffers, the longest.
const LENS: [u32; 6] = [0, 1, 4096, (64 << 10) - 1, 64 << 10, 1 << 20];

/// Payloads of all lengths arrive whole, in PUTs and REPLYs, from one span and from several, into
/// one span and into several; GETs and ACKs arrive with their headers.
pub fn messages_of_all_types_and_lengths_arrive_whole<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    let mut sent: Vec<(u64, u32, OpKey)> = Vec::new();
    for (kind, lens) in [
        (Kind::Put, &LENS[..]),
        (Kind::Reply, &LENS[..]),
        (Kind::Get, &LENS[..1]),
        (Kind::Ack, &LENS[..1]),
    ] {
        for len in lens {
            for (from_piece, to_piece) in
                [(u32::MAX, u32::MAX), (len / 3 + 1, u32::MAX), (u32::MAX, len / 4 + 1)]
            {
                let key = sent.len() as u64 + 1;
                let plan = world.sink(1, *len, to_piece);
                world.plan(1, key, plan);
                let message = Message::put(0, 1, key, *len);
                let op = world.send(Message { kind, piece: from_piece, ..message });
                sent.push((key, *len, op));
            }
        }
    }
    world.run(Nanos::from_secs(5));
    for (key, len, op) in sent {
        assert_eq!(world.status(0, op), Some(Status::Ok), "message {key}");
        world.assert_stored(1, key, len, len);
    }
    world.finish();
}

/// A header arrives as it was sent, with the previous hop and the interface beside it.
pub fn headers_arrive_as_they_were_sent<T: Testbed>() {
    let mut world = World::<T>::new(&Setup { nis: 2, ..Setup::default() });
    for (key, kind) in (1..).zip([Kind::Put, Kind::Get, Kind::Ack, Kind::Reply]) {
        let message = Message { kind, ..Message::put(0, 1, key, 0) }.by(1, 1);
        world.send_expected(message, 1);
    }
    world.settle();
    for key in 1..=4 {
        let received = world.received(1, key);
        assert_eq!(received.ni.0, 1, "message {key}");
        assert_eq!(received.from, crate::world::process(0, 1), "message {key}");
        let header = received.header;
        assert_eq!((header.src, header.dst), (received.from, crate::world::process(1, 1)));
        let hdr_data = match header.body {
            lustrine_wire::header::Body::Put { hdr_data, .. } => Some(hdr_data),
            _ => None,
        };
        assert_eq!(hdr_data, (key == 1).then_some(!key));
    }
    world.finish();
}

/// Messages of one class to a peer arrive in the order in which they were submitted: small ones,
/// and large ones. Small ones may pass large ones.
pub fn messages_keep_their_order<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    for round in 0..2 {
        for key in round * 200..round * 200 + 100 {
            world.send_expected(Message::put(0, 1, key, 64), 1);
        }
        for key in round * 200 + 100..round * 200 + 130 {
            world.send_expected(Message::put(0, 1, key, 100_000), 1);
        }
        // The second round finds the connections open.
        world.run(Nanos::from_secs(3));
    }
    let keys = world.keys(1);
    let class = |large: bool| -> Vec<u64> {
        keys.iter().copied().filter(|key| (key % 200 >= 100) == large).collect()
    };
    assert_eq!(class(false), (0..100).chain(200..300).collect::<Vec<_>>());
    assert_eq!(class(true), (100..130).chain(300..330).collect::<Vec<_>>());
    world.finish();
}

/// The core wants less than a payload: the first bytes are stored, the rest is discarded, and the
/// next message is found behind it.
pub fn payloads_are_truncated_to_their_spans<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    let cases = [(4096, 100), (4096, 0), (100_000, 5000), (1 << 20, 1), (1 << 20, 0)];
    for (key, (len, wanted)) in (1..).zip(cases) {
        let plan = world.sink(1, wanted, wanted / 2 + 1);
        world.plan(1, key, plan);
        world.send(Message::put(0, 1, key, len));
        world.send_expected(Message::put(0, 1, 100 + key, 3000), 1);
        world.send_expected(Message::put(0, 1, 200 + key, 30_000), 1);
    }
    world.run(Nanos::from_secs(5));
    for (key, (len, wanted)) in (1..).zip(cases) {
        world.assert_stored(1, key, len, wanted);
        world.assert_stored(1, 100 + key, 3000, 3000);
        world.assert_stored(1, 200 + key, 30_000, 30_000);
    }
    world.finish();
}

/// A payload that is not wanted is discarded, and the next message is found after it.
pub fn unwanted_payloads_are_discarded<T: Testbed>() {
    for zero_copy in [0, 1] {
        let mut world = World::<T>::new(&Setup::default().with("zero_copy", zero_copy));
        let mut ops = Vec::new();
        for (key, len) in (1..).zip(LENS) {
            for (base, plan) in [(0, PlannedVerdict::Done), (100, PlannedVerdict::Drop)] {
                world.plan(1, base + key, plan);
                ops.push(world.send(Message::put(0, 1, base + key, len)));
            }
            ops.push(world.send_expected(Message::put(0, 1, 200 + key, len), 1));
        }
        world.run(Nanos::from_secs(5));
        for (key, len) in (1..).zip(LENS) {
            world.assert_stored(1, 200 + key, len, len);
            assert_eq!(world.received(1, key).bytes, None);
            assert_eq!(world.received(1, 100 + key).bytes, None);
        }
        for op in ops {
            assert_eq!(world.status(0, op), Some(Status::Ok), "the sender learns nothing of it");
        }
        world.finish();
    }
}

/// More messages than any buffer holds, in both directions at once: each one ends once and arrives
/// once.
pub fn a_flood_in_both_directions_arrives<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    let mut ops = Vec::new();
    for key in 0..1500 {
        let len = if key % 50 == 0 { 1 << 20 } else { 200 };
        for (from, to) in [(0, 1), (1, 0)] {
            ops.push((from, world.send_expected(Message::put(from, to, key, len), to)));
        }
    }
    world.run(Nanos::from_secs(30));
    for node in 0..2 {
        for key in 0..1500 {
            let len = if key % 50 == 0 { 1 << 20 } else { 200 };
            world.assert_stored(node, key, len, len);
        }
    }
    for (node, op) in ops {
        assert_eq!(world.status(node, op), Some(Status::Ok));
    }
    world.finish();
}

/// The memory of a message belongs to its owner again when the message has ended: what is written
/// there then is not sent. The testbed's memory panics when the driver uses it later; this holds
/// for sending with and without copies.
pub fn memory_is_free_when_a_message_has_ended<T: Testbed>() {
    for zero_copy in [0, 1] {
        let mut world = World::<T>::new(&Setup::default().with("zero_copy", zero_copy));
        let mut key = 0;
        for _ in 0..20 {
            for len in LENS {
                // The memory that is free comes back with the next message, and other bytes.
                world.send_expected(Message::put(0, 1, key, len), 1);
                key += 1;
            }
            world.run(Nanos::from_millis(3));
        }
        world.run(Nanos::from_secs(5));
        for key in 0..key {
            let len = LENS[key as usize % LENS.len()];
            world.assert_stored(1, key, len, len);
        }
        world.finish();
    }
}

/// A driver at rest does not ask for turns: it has no work, and its deadline is in the future.
pub fn a_driver_at_rest_has_no_work<T: Testbed>() {
    let mut world = World::<T>::new(&Setup::default());
    for node in 0..2 {
        assert!(!world.bed.view(node, 0).has_work, "a new driver has work");
    }
    world.assert_passes(Message::put(0, 1, 1, 1 << 20), 1);
    for node in 0..2 {
        let view = world.bed.view(node, 0);
        assert!(!view.has_work, "node {node} has work with nothing to do");
        assert!(view.next_deadline > world.bed.now(), "node {node} has missed its deadline");
    }
    world.finish();
}
