//! Keeps the loads of a case within what its links carry.
//!
//! A case that expects recovery demands that every operation succeeds. No node can satisfy that
//! when the data in flight take longer over the link than a time-out permits.

use crate::swarm::case::{Load, Node, SwarmCase, Transport, Wire};

/// Bytes of a segment, and the segments that BBR always has in flight.
const SEGMENT: u64 = 1448;
const BBR_LEAST: u64 = 4;

/// The part of the shortest time-out in which all data in flight must be through.
const PART_OF_TIMEOUT: u64 = 4;

/// The time in which a whole load must be through, in seconds.
const WHOLE_LOAD: u64 = 60;

/// Time-outs that an operation must meet.
const TIMEOUTS: [&str; 3] = ["sock_timeout", "transaction_timeout", "rpc_timeout"];

/// Reduces the loads of a case until its links carry them in time; most cases stay as they are.
pub(super) fn limit(case: &mut SwarmCase) {
    let tcp = case.transport != Transport::Plain;
    // Data may pass any of the links: the slowest one counts.
    let speed = case.links.iter().map(|wire| speed(wire, tcp)).min().unwrap_or(u64::MAX);
    let mut in_flight = speed.saturating_mul(shortest_timeout(&case.nodes)) / PART_OF_TIMEOUT;
    if case.transport == Transport::Bbr {
        let starved = case.links.iter().map(starved).min().unwrap_or(u64::MAX);
        let half = starved.saturating_mul(shortest_timeout(&case.nodes)) / 2;
        in_flight = in_flight.min(half);
    }
    limit_in_flight(&mut case.load_after_recovery, in_flight);
    let total = speed.saturating_mul(WHOLE_LOAD);
    limit_total(&mut case.load_under_faults, total);
    limit_total(&mut case.load_after_recovery, total);
}

/// The longest round trip of a link without a queue, in microseconds.
fn round_trip(wire: &Wire) -> u64 {
    (2 * (wire.latency_us + wire.jitter_us)).max(1)
}

/// Bytes per second that one stream carries over a link.
fn speed(wire: &Wire, tcp: bool) -> u64 {
    let per_second = |bytes: u64| bytes.saturating_mul(1_000_000) / round_trip(wire);
    let mut speed = per_second(wire.window);
    if tcp {
        speed = speed.min(wire.megabits * 1_000_000 / 8);
    }
    if tcp && wire.loss_ppm != 0 {
        // Mathis et al., 1997: a window of 1.22 / sqrt(loss) segments.
        let segments = 1220 / u64::from(wire.loss_ppm).isqrt();
        speed = speed.min(per_second(SEGMENT * segments));
    }
    speed.max(1)
}

/// Bytes per second of a BBR stream that met the queue of others when it began: until all of them
/// look for the lowest round trip, every 10 s, it has its least window. Found by the swarm, seed
/// 50086005: 3 of 108 Mb/s.
fn starved(wire: &Wire) -> u64 {
    // With the queue of the others, two times what the path holds, a round trip is three times as
    // long.
    (BBR_LEAST * SEGMENT * 1_000_000 / (3 * round_trip(wire))).max(1)
}

/// In seconds. A tunable that a node leaves at its default is longer than those drawn.
fn shortest_timeout(nodes: &[Node]) -> u64 {
    let set = nodes.iter().flat_map(|node| TIMEOUTS.map(|name| node.tunables.get(name)));
    set.flatten().map(|seconds| seconds.unsigned_abs()).min().unwrap_or(50)
}

/// Halves the largest load until all data in flight are no more than this number of bytes.
fn limit_in_flight(loads: &mut [Load], most: u64) {
    let bytes = |load: &Load| u64::from(load.bytes) * u64::from(load.concurrency);
    while loads.iter().map(bytes).sum::<u64>() > most {
        let Some(largest) = loads.iter_mut().max_by_key(|load| bytes(load)) else { return };
        if largest.concurrency > 1 {
            largest.concurrency /= 2;
        } else if largest.bytes > 8 {
            largest.bytes = halved(largest.bytes);
        } else {
            return;
        }
    }
}

/// Half of it, in whole pages if it is that large, in whole words otherwise.
fn halved(bytes: u32) -> u32 {
    match bytes / 2 {
        half @ 4096.. => half / 4096 * 4096,
        half => half / 8 * 8,
    }
}

/// Halves the longest load until all of it is no more than this number of bytes.
fn limit_total(loads: &mut [Load], most: u64) {
    let bytes = |load: &Load| u64::from(load.bytes) * load.count;
    while loads.iter().map(bytes).sum::<u64>() > most {
        let Some(longest) = loads.iter_mut().max_by_key(|load| bytes(load)) else { return };
        if longest.count == 1 {
            return;
        }
        longest.count /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::case::{Expectation, TestKind};
    use crate::swarm::generate;

    fn load(bytes: u32, concurrency: u32, count: u64) -> Load {
        Load { what: TestKind::Write, bytes, full_check: true, concurrency, count }
    }

    /// Seed 50036910: 16 MiB in flight need 10 s through 32 KiB per 20 ms; the time-out was 6 s.
    #[test]
    fn data_in_flight_fit_a_quarter_of_the_time_out() {
        let mut loads = [load(159_744, 1, 40), load(1 << 20, 16, 40)];
        limit_in_flight(&mut loads, 1_600_000 * 6 / 4);
        assert_eq!((loads[0].bytes, loads[0].concurrency), (159_744, 1));
        assert_eq!((loads[1].bytes, loads[1].concurrency), (1 << 20, 2));
        limit_in_flight(&mut loads, 10_000);
        assert_eq!((loads[0].bytes, loads[1].bytes), (4096, 4096));
    }

    #[test]
    fn a_whole_load_fits_its_time() {
        let mut loads = [load(1 << 20, 1, 200), load(8, 1, 200)];
        limit_total(&mut loads, 60 << 20);
        assert_eq!((loads[0].count, loads[1].count), (50, 200));
    }

    #[test]
    fn a_few_cases_are_reduced_and_most_are_not() {
        let mut reduced = 0;
        for seed in 0..3000 {
            let case = generate(seed);
            if case.expect == Expectation::Safety {
                continue;
            }
            let mut again = case.clone();
            limit(&mut again);
            assert_eq!(again, case, "seed {seed} is within its limits");
            let is_small = |load: &Load| load.what != TestKind::Ping && load.bytes < 8;
            assert!(!case.load_after_recovery.iter().any(is_small), "seed {seed}");
            reduced += u32::from(case.load_under_faults.iter().any(|load| load.count < 200));
        }
        assert!((1..1000).contains(&reduced), "{reduced}");
    }
}
