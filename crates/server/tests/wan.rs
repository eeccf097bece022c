//! How many RPCs of a file fill a long path. `cargo run --release -p lustrine-server --example wan`
//! measures more of them, over longer paths.

mod long_path;

use long_path::{Access, Load, Path, Setup, World};
use lustrine_lnet::time::Nanos;
use lustrine_sim::fabric::Rate;
use lustrine_sim::tcp::Algorithm;

/// The product is 2.4 MiB, so 4.8 RPCs fill it if each takes two round trips.
const PATH: (u64, Nanos) = (1_000_000_000, Nanos::from_millis(20));

/// The part of a link that segments of 8948 bytes leave for payload.
const PAYLOAD: f64 = 0.99;

/// Bits per second of writes and of reads with so many RPCs in flight, and the part of the time in
/// which the link was sending.
fn rates(path: Path, in_flight: u16) -> [(f64, f64); 2] {
    let setup = Setup { max_rpcs_in_flight: in_flight, targets: 1 };
    let mut world = World::new(path, setup);
    let load = Load { in_flight, warm_up: Nanos::from_millis(200), rounds: 3 };
    [Access::Write, Access::Read].map(|access| {
        let measured = world.run(access, load);
        assert_eq!(measured.lost, 0);
        assert!(measured.waiting < 0.1, "{access:?}: {} wait for credits", measured.waiting);
        (measured.rate(), measured.link_busy)
    })
}

fn path() -> Path {
    let rate = Rate::from_bits(PATH.0).expect("a rate");
    Path { rate, round_trip: PATH.1, algorithm: Algorithm::Fixed }
}

/// An RPC takes two round trips and the time of its own data on the link, 8.5 ms; those of others
/// are hardly in its way. The next one begins at once. Interfaces, too, have the rate of the link,
/// and pass bursts of 64 KiB on as a whole: 0.5 ms each, and as much behind another RPC.
#[test]
fn below_twice_the_product_the_window_is_the_limit() {
    let path = path();
    for in_flight in [1, 2, 4] {
        let on_link = (long_path::SIZE * 8) as f64 / path.rate.bits() as f64 / PAYLOAD;
        let two_trips = 2.0 * path.round_trip.as_secs_f64();
        let expected = path.of_window(in_flight, 2) * two_trips / (two_trips + on_link);
        for (rate, busy) in rates(path, in_flight) {
            let share = rate / expected;
            assert!((0.94..1.005).contains(&share), "{in_flight}: {rate} of {expected} bits/s");
            assert!(busy < 0.75, "{in_flight}: the link is busy for {busy} of the time");
        }
    }
}

/// Twice the product and the RPC that is being sent: 2 x 2.4 + 1, and some more.
#[test]
fn above_twice_the_product_the_link_is_full() {
    let path = path();
    let in_flight = (2 * path.product()).div_ceil(long_path::SIZE) as u16 + 3;
    for (rate, busy) in rates(path, in_flight) {
        let share = rate / path.rate.bits() as f64 / PAYLOAD;
        assert!((0.98..1.01).contains(&share), "{in_flight}: {rate} bits/s");
        assert!(busy > 0.98, "{in_flight}: the link is busy for {busy} of the time");
    }
}
