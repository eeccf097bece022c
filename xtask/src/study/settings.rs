//! Settings for any rate and distance, by formula, and the sweep that checks them.
//!
//! A write takes two round trips: request and GET are one, data and reply the other. So does a read
//! with zero-copy, whose server answers when its data are acknowledged. So twice the
//! bandwidth-delay product must be in flight in RPCs. A peer credit is held while data are sent and
//! their acknowledgement comes back, one round trip, so that half as many suffice. Without
//! zero-copy a read takes one round trip, and a credit is free when the data are in the send
//! buffer. To each value a margin is added that evens out bursts.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::list::Traffic;
use super::results::Results;

/// Round trips, in microseconds.
const TRIPS_US: [u64; 6] = [100, 1_000, 10_000, 50_000, 100_000, 200_000];
/// Gb/s.
const RATES: [u64; 4] = [1, 10, 100, 400];

const MIB: u64 = 1 << 20;
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
struct Point {
    trip_us: u64,
    /// Gb/s.
    rate: u64,
}

fn points() -> impl Iterator<Item = Point> {
    RATES.into_iter().flat_map(|rate| TRIPS_US.map(|trip_us| Point { trip_us, rate }))
}

impl Point {
    /// Bandwidth times delay, in bytes.
    fn product(self) -> u64 {
        self.rate * 1000 / 8 * self.trip_us
    }

    /// RPCs of 1 MiB in flight: as many as the link and its queue hold, plus a twentieth and four.
    fn rpcs(self, traffic: Traffic) -> u64 {
        let trips = match traffic {
            Traffic::Zerocopy => 2,
            Traffic::Copied => 1,
        };
        (self.product() * trips * 21).div_ceil(MIB * 20) + 4
    }

    fn peer_credits(self, traffic: Traffic) -> u64 {
        match traffic {
            Traffic::Zerocopy => (self.rpcs(traffic) / 2 + 4).max(PEER_CREDITS_MIN),
            Traffic::Copied => PEER_CREDITS_MIN,
        }
    }

    fn credits(self, traffic: Traffic) -> u64 {
        self.peer_credits(traffic).max(CREDITS_MIN)
    }

    /// Buffer of one stream, in MiB: a quarter more than the product, and four messages.
    fn buffer_mib(self) -> u64 {
        (self.product() * 5).div_ceil(MIB * 4) + 4
    }

    fn streams(self) -> u64 {
        if self.rate >= TWO_STREAMS_FROM { 2 } else { 1 }
    }

    fn is_checked(self, traffic: Traffic) -> bool {
        self.rpcs(traffic) <= CONCURRENCY_MAX
    }

    /// The values that identify its run.
    fn values(self, traffic: Traffic) -> Vec<String> {
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

/// The table of settings, with how much of the interfaces' payload rate its checks reached.
pub(super) fn table(results: &Results) -> Result<String> {
    let mut out = String::from(
        "| link | RTT | product | RPCs, writes or zero-copy | `peer_credits`, zero-copy | RPCs, \
         reads without | `peer_credits` without | buffers | memory | writes reach | reads reach \
         |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for point in points() {
        let rpcs = point.rpcs(Traffic::Zerocopy);
        let _ = writeln!(
            out,
            "| {} Gb/s | {} ms | {} | {rpcs} | {} | {} | {} | {} | {} | {} | {} |",
            point.rate,
            point.trip_us as f64 / 1e3,
            size(point.product() as f64 / MIB as f64),
            point.peer_credits(Traffic::Zerocopy),
            point.rpcs(Traffic::Copied),
            point.peer_credits(Traffic::Copied),
            size(point.buffer_mib() as f64),
            size((rpcs + point.buffer_mib()) as f64),
            reached(point, Traffic::Zerocopy, results)?,
            reached(point, Traffic::Copied, results)?,
        );
    }
    Ok(out)
}

fn reached(point: Point, traffic: Traffic, results: &Results) -> Result<String> {
    if !point.is_checked(traffic) {
        return Ok("not run".to_owned());
    }
    let sweep = results.of(match traffic {
        Traffic::Zerocopy => "settings-zerocopy",
        Traffic::Copied => "settings-copied",
    })?;
    let values = point.values(traffic);
    let run = sweep.runs.iter().find(|run| run.values == values);
    let run = run.with_context(|| format!("no run of {point:?}, {traffic:?}"))?;
    Ok(format!("{:.1} %", run.mb_per_s / payload_mb_per_s(point.rate) * 100.0))
}

/// MB/s of payload that a link carries: packets of 9000 bytes take 9038 on an Ethernet and carry
/// 8948 bytes of data.
fn payload_mb_per_s(rate: u64) -> f64 {
    rate as f64 * 125.0 * 8948.0 / 9038.0
}

fn size(mib: f64) -> String {
    match mib {
        10240.0.. => format!("{:.1} GiB", mib / 1024.0),
        10.0.. => format!("{mib:.0} MiB"),
        _ => format!("{mib:.1} MiB"),
    }
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
