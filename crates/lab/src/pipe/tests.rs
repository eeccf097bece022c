use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::link::{Hashing, Order};
use crate::packet::tests::{tcp_train, udp};
use crate::packet::{READ_MAX, wire_bytes};

const MS: u64 = 1_000_000;

fn spec() -> Direction {
    Direction {
        rate: Some(1_000_000_000),
        delay_ns: 10 * MS,
        jitter_ns: 0,
        order: Order::Kept,
        queue: 1 << 20,
        loss: 0,
        drop_above: None,
        parallel: 1,
        hashing: Hashing::Streams,
    }
}

fn send(pipe: &mut Pipe, read: &[u8], now: u64) {
    pipe.room().expect("memory")[..read.len()].copy_from_slice(read);
    pipe.send(read.len(), now);
}

/// What arrives until the pipe is empty: when, and the bytes.
fn drain(pipe: &mut Pipe) -> Vec<(u64, Vec<u8>)> {
    let mut arrived = Vec::new();
    while let Some(due) = pipe.next_due() {
        assert!(due == 0 || pipe.arrived(due - 1).is_none(), "nothing arrives early");
        let packet = pipe.arrived(due).expect("it is due");
        arrived.push((due, [packet.headers, packet.rest].concat()));
        pipe.delivered(due);
    }
    arrived
}

#[test]
fn a_packet_takes_its_time_on_the_wire_and_the_delay() {
    let mut pipe = Pipe::new(spec(), 1);
    let read = udp(1500, (1, 2));
    send(&mut pipe, &read, 5);
    send(&mut pipe, &read, 5);
    // 1538 bytes at 1 Gb/s are 12,304 ns.
    let expected = [1, 2].map(|n| (5 + n * 12_304 + 10 * MS, read.clone()));
    assert_eq!(drain(&mut pipe), expected);
    let Counters { packets, bytes, queue_max, .. } = pipe.counters();
    assert_eq!((packets, bytes, queue_max), (2, 2 * 1538, 2 * 1538));
}

/// A train of 44 segments takes the time of 44 frames, and is delivered in parts of 250 us.
#[test]
fn a_train_takes_the_time_of_its_segments() {
    let mut pipe = Pipe::new(spec(), 1);
    let read = tcp_train(44 * 1448, 1448, (1, 2));
    send(&mut pipe, &read, 0);
    let arrived = drain(&mut pipe);
    assert_eq!(arrived.last().unwrap().0, 44 * 12_304 + 10 * MS);
    let payload: usize = arrived.iter().map(|(_, packet)| packet.len() - 62).sum();
    assert_eq!((arrived.len(), payload), (3, 44 * 1448));
    assert_eq!(pipe.counters().packets, 44);
}

#[test]
fn a_full_queue_drops_the_end_of_a_train() {
    let mut pipe = Pipe::new(Direction { queue: 10 * 1538, ..spec() }, 1);
    send(&mut pipe, &tcp_train(44 * 1448, 1448, (1, 2)), 0);
    let payload: usize = drain(&mut pipe).iter().map(|(_, packet)| packet.len() - 62).sum();
    assert_eq!(payload, 10 * 1448);
    assert_eq!((pipe.counters().packets, pipe.counters().queue_full), (10, 34));
}

#[test]
fn an_idle_wire_takes_a_packet_whatever_the_queue() {
    let mut pipe = Pipe::new(Direction { queue: 100, ..spec() }, 1);
    send(&mut pipe, &udp(1500, (1, 2)), 0);
    send(&mut pipe, &udp(1500, (1, 2)), 20_000);
    assert_eq!(drain(&mut pipe).len(), 2);
}

#[test]
fn a_black_hole_takes_large_packets_and_passes_small_ones() {
    let mut pipe = Pipe::new(Direction { drop_above: Some(1400), ..spec() }, 1);
    send(&mut pipe, &udp(1401, (1, 2)), 0);
    send(&mut pipe, &udp(1400, (1, 2)), 0);
    // Two full segments disappear; the short one at the end of the train arrives.
    send(&mut pipe, &tcp_train(3000, 1448, (1, 2)), 0);
    let lengths: Vec<usize> =
        drain(&mut pipe).iter().map(|(_, packet)| packet.len() - 10).collect();
    assert_eq!(lengths, [1400, 52 + 104]);
    assert_eq!(pipe.counters().too_large, 3);
}

#[test]
fn the_seed_decides_what_is_lost() {
    let lost = |seed| {
        let mut pipe = Pipe::new(Direction { loss: 100_000_000, ..spec() }, seed);
        let read = udp(100, (1, 2));
        (0..10_000).for_each(|at| send(&mut pipe, &read, at * MS));
        assert_eq!(pipe.counters().packets + pipe.counters().lost, 10_000);
        (drain(&mut pipe), pipe.counters().lost)
    };
    assert_eq!(lost(7), lost(7));
    assert_ne!(lost(7), lost(8));
    // 10 % of 10,000; the standard deviation is 30.
    assert!((850..1150).contains(&lost(7).1), "{}", lost(7).1);
}

#[test]
fn streams_spread_over_parallel_links() {
    let parallel = Direction { parallel: 2, ..spec() };
    let last = |spec: Direction, streams: u16| {
        let mut pipe = Pipe::new(spec, 1);
        (0..200).for_each(|at| send(&mut pipe, &udp(1500, (at % streams, 9)), 0));
        drain(&mut pipe).last().unwrap().0 - 10 * MS
    };
    let all = 200 * 12_304;
    assert_eq!(last(parallel, 1), all, "one stream has one link");
    assert!(last(parallel, 50) < all * 3 / 4, "fifty have both");
    assert_eq!(last(Direction { hashing: Hashing::Hosts, ..parallel }, 50), all);
}

#[test]
fn lateness_is_known() {
    let mut pipe = Pipe::new(Direction { rate: None, delay_ns: 0, ..spec() }, 1);
    for late in [0, 0, 5_000, 300_001] {
        send(&mut pipe, &udp(100, (1, 2)), 0);
        pipe.delivered(late);
    }
    assert_eq!(pipe.lateness(), Lateness { p50_us: 1, p99_us: 301, max_us: 301 });
    for _ in 0..400 {
        send(&mut pipe, &udp(100, (1, 2)), 0);
        pipe.delivered(5_000);
    }
    assert_eq!(pipe.lateness(), Lateness { p50_us: 8, p99_us: 8, max_us: 301 });
}

#[test]
fn without_memory_there_is_no_room() {
    let mut pipe = Pipe::new(Direction { delay_ns: MS, ..spec() }, 1);
    let read = tcp_train(60_000, 1448, (1, 2));
    let mut kept = 0;
    while pipe.room().is_some() {
        send(&mut pipe, &read, kept * 10 * MS);
        kept += 1;
        assert!(kept < 1000, "memory without end");
    }
    drain(&mut pipe);
    assert!(pipe.room().is_some());
}

proptest! {
    /// Whatever is sent: everything arrives or is counted, nothing before its delay and its time
    /// on the wire, never faster than the rate, and in order where order is kept.
    #[test]
    fn packets_are_conserved(
        sizes in vec((60usize..1500, 0u64..100_000), 1..200),
        jitter_ns in prop_oneof![Just(0), 0..5 * MS],
        free in any::<bool>(),
        loss in prop_oneof![Just(0u32), 0u32..500_000_000],
        queue in 2000u64..100_000,
    ) {
        let order = if free { Order::Free } else { Order::Kept };
        let spec = Direction { jitter_ns, order, loss, queue, ..spec() };
        let mut pipe = Pipe::new(spec, 3);
        let mut sent = Vec::new();
        let mut now = 0;
        for (number, (size, gap)) in sizes.iter().enumerate() {
            now += gap;
            let mut read = udp(*size, (1, 2));
            // The number of the packet, in its payload.
            read[40..48].copy_from_slice(&(number as u64).to_le_bytes());
            sent.push(now);
            send(&mut pipe, &read, now);
        }
        let arrived = drain(&mut pipe);
        let counters = pipe.counters();
        prop_assert_eq!(arrived.len() as u64, counters.packets);
        let all = counters.packets + counters.lost + counters.queue_full;
        prop_assert_eq!(all, sizes.len() as u64);
        let mut before = None;
        let mut on_wire = 0;
        for (due, packet) in &arrived {
            let number = u64::from_le_bytes(packet[40..48].try_into().unwrap());
            let bytes = wire_bytes(packet.len() as u64 - 10);
            on_wire += bytes;
            prop_assert!(*due >= sent[number as usize] + bytes * 8 + 10 * MS);
            if order == Order::Kept {
                prop_assert!(before < Some(number), "{before:?} before {number}");
                prop_assert!(*due >= sent[0] + on_wire * 8 + 10 * MS, "faster than the rate");
            }
            before = Some(number);
        }
        let within = counters.queue_max <= queue.max(wire_bytes(1500));
        prop_assert!(within, "{} waited in {queue}", counters.queue_max);
    }

    /// No train of TCP makes it panic, and every segment is accounted for.
    #[test]
    fn segments_are_conserved(
        trains in vec((1usize..20_000, 100u16..9000), 1..20),
        loss in prop_oneof![Just(0u32), 0u32..500_000_000],
        queue in 2000u64..200_000,
        drop_above in prop_oneof![Just(None), (100u64..9000).prop_map(Some)],
    ) {
        let mut pipe = Pipe::new(Direction { loss, queue, drop_above, ..spec() }, 5);
        let mut segments = 0;
        for (payload, segment) in trains {
            let read = tcp_train(payload, segment, (1, 2));
            segments += payload.div_ceil(usize::from(segment)) as u64;
            send(&mut pipe, &read, 0);
        }
        let counters = pipe.counters();
        let dropped = counters.lost + counters.queue_full + counters.too_large;
        prop_assert_eq!(counters.packets + dropped, segments);
        let mut arrived = 0;
        for (_, packet) in drain(&mut pipe) {
            arrived += u64::from(crate::packet::Train::parse(&packet).unwrap().segments());
            // Every byte is the one that has this place in its train.
            let number = u32::from_be_bytes(packet[34..38].try_into().unwrap());
            let at = number.wrapping_sub(0xffff_ff00) as usize;
            let right = |(index, byte): (usize, &u8)| *byte == ((at + index) % 251) as u8;
            prop_assert!(packet[62..].iter().enumerate().all(right), "wrong bytes at {at}");
        }
        prop_assert_eq!(arrived, counters.packets);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Memory is enough for whatever the queue and the delay hold, if packets are taken when they
    /// are due.
    #[test]
    fn memory_is_enough(
        payload in 1usize..62_000,
        segment in 500u16..8900,
        delay in 0u64..20,
        parallel in 1u32..4,
    ) {
        let spec = Direction { delay_ns: delay * MS, parallel, queue: 200_000, ..spec() };
        let mut pipe = Pipe::new(spec, 1);
        let mut now = 0;
        for at in 0u16..250 {
            prop_assert!(pipe.room().is_some(), "after {at} trains");
            send(&mut pipe, &tcp_train(payload, segment, (at, 1)), now);
            now += 20_000;
            while pipe.arrived(now).is_some() {
                pipe.delivered(now);
            }
        }
        prop_assert!(spec.memory() < (1 << 30) + 2 * READ_MAX as u64);
    }
}
