//! Small and large RPCs at once under one controller.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use lustrine_congestion::{Class, Controller, Limits, Ticket, Wait};

const MIB: u64 = 1 << 20;

/// RPCs of one size that are always wanted, so many at most.
#[derive(Clone, Copy)]
struct Load {
    class: Class,
    most: usize,
    /// What an RPC takes when nothing queues, in nanoseconds.
    takes: u64,
}

/// A path of 10 Gb/s on which all RPCs queue together. Returns, from the second second on, the rate
/// of each load in bits per second.
fn carried(loads: &[Load], seconds: u64) -> Vec<f64> {
    const BYTES_PER_SECOND: u64 = 1_250_000_000;
    const SECOND: u64 = 1_000_000_000;
    let mut controller = Controller::new(Limits::default());
    let mut in_flight = vec![0; loads.len()];
    let mut bytes = vec![0u64; loads.len()];
    let mut ends: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
    let mut tickets: Vec<Option<Ticket>> = Vec::new();
    let (mut now, mut free_at) = (0u64, 0u64);
    // Turns: small ones do not go first.
    let mut next = 0;
    while now < seconds * SECOND {
        let mut refused = 0;
        let mut again = u64::MAX;
        while refused < loads.len() {
            next = (next + 1) % loads.len();
            let load = loads[next];
            if in_flight[next] == load.most {
                refused += 1;
                continue;
            }
            match controller.admit(Duration::from_nanos(now), load.class) {
                Ok(ticket) => {
                    free_at = free_at.max(now) + load.class.weight() * SECOND / BYTES_PER_SECOND;
                    ends.push(Reverse((free_at + load.takes, tickets.len() as u64, next)));
                    tickets.push(Some(ticket));
                    in_flight[next] += 1;
                    refused = 0;
                }
                Err(wait) => {
                    if let Wait::For(wait) = wait {
                        again = again.min(now + wait.as_nanos() as u64);
                    }
                    refused += 1;
                }
            }
        }
        let Some(Reverse((at, ..))) = ends.peek() else { break };
        if *at > again {
            now = again;
            continue;
        }
        let Some(Reverse((at, number, of))) = ends.pop() else { break };
        now = at;
        let ticket = tickets[number as usize].take().expect("it is in flight");
        controller.done(Duration::from_nanos(now), ticket);
        in_flight[of] -= 1;
        if now >= SECOND {
            bytes[of] += loads[of].class.weight();
        }
    }
    let took = (seconds - 1) as f64;
    bytes.into_iter().map(|bytes| bytes as f64 * 8.0 / took).collect()
}

/// Pings end much earlier than reads: they say little of how long a window of reads takes.
#[test]
fn pings_beside_reads_do_not_keep_the_window_small() {
    for reads_take in [100_000, 1_000_000, 5_000_000, 20_000_000] {
        let reads = Load { class: Class::new(1, MIB), most: 256, takes: reads_take };
        let alone = carried(&[reads], 5)[0];
        assert!(alone > 8e9, "{reads_take} ns: {alone}");
        for most in [1, 8, 32] {
            let pings = Load { class: Class::new(0, 0), most, takes: 100_000 };
            let rates = carried(&[reads, pings], 5);
            assert!(rates[0] > 0.8 * alone, "{reads_take} ns, {most} pings: {rates:?}");
        }
    }
}
