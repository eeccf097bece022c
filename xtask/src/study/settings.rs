//! Settings for any rate and distance, by formula, and the values of the sweep that checks them.
//!
//! A write takes two round trips: request and GET are one, data and reply the other. So does a read
//! with zero-copy, whose server answers when its data are acknowledged. So twice the
//! bandwidth-delay product must be in flight in RPCs. A peer credit is held while data are sent and
//! their acknowledgement comes back, one round trip, so that half as many suffice. Without
//! zero-copy a read takes one round trip, and a credit is free when the data are in the send
//! buffer. To each value a margin is added that evens out bursts.

use serde::Deserialize;

/// The kinds of loads for which settings are recommended.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Traffic {
    /// Writes, and reads with zero-copy: two round trips, and credits are held for one.
    Zerocopy,
    /// Reads without zero-copy: one round trip, credits are held until data are in the send buffer.
    Copied,
}

/// Round trips, in microseconds.
const TRIPS_US: [u64; 6] = [100, 1_000, 10_000, 50_000, 100_000, 200_000];
/// Gb/s.
const RATES: [u64; 4] = [1, 10, 100, 400];

pub(super) const MIB: u64 = 1 << 20;
/// Largest number of RPCs that selftest keeps in flight between two nodes.
const CONCURRENCY_MAX: u64 = 1024;
/// Credits beyond these are of no use to one peer, and other peers need some: LNet's default.
const CREDITS_MIN: u64 = 256;
const PEER_CREDITS_MIN: u64 = 8;
/// From this rate, one stream is not enough for a CPU. It was not enough for the model either when
/// these rows were computed: a delay of interfaces limited each stream.
const TWO_STREAMS_FROM: u64 = 400;

/// One client, one server, one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) trip_us: u64,
    /// Gb/s.
    pub(super) rate: u64,
}

pub(super) fn points() -> impl Iterator<Item = Point> {
    RATES.into_iter().flat_map(|rate| TRIPS_US.map(|trip_us| Point { trip_us, rate }))
}

impl Point {
    /// Bandwidth times delay, in bytes.
    pub(super) fn product(self) -> u64 {
        self.rate * 1000 / 8 * self.trip_us
    }

    /// RPCs of 1 MiB in flight: as many as the link and its queue hold, plus a twentieth and four.
    pub(super) fn rpcs(self, traffic: Traffic) -> u64 {
        let trips = match traffic {
            Traffic::Zerocopy => 2,
            Traffic::Copied => 1,
        };
        (self.product() * trips * 21).div_ceil(MIB * 20) + 4
    }

    pub(super) fn peer_credits(self, traffic: Traffic) -> u64 {
        match traffic {
            Traffic::Zerocopy => (self.rpcs(traffic) / 2 + 4).max(PEER_CREDITS_MIN),
            Traffic::Copied => PEER_CREDITS_MIN,
        }
    }

    fn credits(self, traffic: Traffic) -> u64 {
        self.peer_credits(traffic).max(CREDITS_MIN)
    }

    /// Buffer of one stream, in MiB: a quarter more than the product, and four messages.
    pub(super) fn buffer_mib(self) -> u64 {
        (self.product() * 5).div_ceil(MIB * 4) + 4
    }

    fn streams(self) -> u64 {
        if self.rate >= TWO_STREAMS_FROM { 2 } else { 1 }
    }

    pub(super) fn is_checked(self, traffic: Traffic) -> bool {
        self.rpcs(traffic) <= CONCURRENCY_MAX
    }

    /// The values that identify its run.
    pub(super) fn values(self, traffic: Traffic) -> Vec<String> {
        let rate = format!("{} Gb/s", self.rate);
        let buffer = format!("{} MiB", self.buffer_mib());
        // Interfaces add 5 us each, both ways.
        let delay = format!("{} us", self.trip_us / 2 - 10);
        let warm_up = format!("{} us", 1_000_000 + 50 * self.trip_us);
        let time = format!("{} us", 500_000 + 20 * self.trip_us);
        let numbers =
            [self.rpcs(traffic), self.peer_credits(traffic), self.credits(traffic), self.streams()];
        let mut values = vec![rate.clone(), rate.clone(), rate, delay];
        values.extend(numbers.map(|number| number.to_string()));
        values.extend([buffer.clone(), buffer, warm_up, time]);
        values
    }
}

const NAMES: &str = "bandwidth,clients.interface,servers.interface,delay,concurrency,\
                     peer_credits,credits,conns_per_peer,send_buffer,receive_buffer,warm_up,time";

/// The value of `--vary` that checks all points which one pair of nodes can reach.
pub(super) fn varied(traffic: Traffic) -> String {
    let checked = points().filter(|point| point.is_checked(traffic));
    let values: Vec<String> = checked.map(|point| point.values(traffic).join(":")).collect();
    format!("{NAMES}={}", values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_the_product() {
        let point = Point { trip_us: 50_000, rate: 10 };
        assert_eq!(point.product(), 62_500_000);
        // 2 x 62.5 MB / 1 MiB x 1.05 = 125.2.
        assert_eq!(point.rpcs(Traffic::Zerocopy), 126 + 4);
        assert_eq!(point.peer_credits(Traffic::Zerocopy), 69);
        assert_eq!(point.rpcs(Traffic::Copied), 63 + 4);
        assert_eq!(point.buffer_mib(), 75 + 4);
        assert!(point.is_checked(Traffic::Zerocopy));
        assert!(!Point { trip_us: 50_000, rate: 400 }.is_checked(Traffic::Copied));
        let near = Point { trip_us: 100, rate: 1 };
        assert_eq!((near.rpcs(Traffic::Zerocopy), near.peer_credits(Traffic::Zerocopy)), (5, 8));
    }

    #[test]
    fn all_names_have_values() {
        let count = NAMES.split(',').count();
        assert!(points().all(|point| point.values(Traffic::Copied).len() == count));
    }
}
