//! The compared values, and how they are computed.

use anyhow::{Result, ensure};
use serde::Serialize;

use super::LinkSpec;
use super::ends::{Outcome, Run, Stream};

const SECOND: u64 = 1_000_000_000;

/// The goodput of a bulk stream is that of the time between these, in seconds.
const BULK: (u64, u64) = (3, 10);

/// The same for a stream that its send buffer limits.
const LIMITED: (u64, u64) = (1, 4);

/// Round trips after which the received bytes are counted.
const RAMP: [u64; 6] = [1, 2, 4, 8, 16, 32];

const TRANSFERS: [u64; 2] = [1 << 20, 16 << 20];

/// Values of one kind have the same sources of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Bulk,
    Ramp,
    Together,
    Fairness,
    Transfer,
    Limited,
}

impl Kind {
    pub(super) const ALL: [Kind; 6] =
        [Kind::Bulk, Kind::Ramp, Kind::Together, Kind::Fairness, Kind::Transfer, Kind::Limited];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Bulk => "one stream",
            Kind::Ramp => "ramp",
            Kind::Together => "4 streams",
            Kind::Fairness => "fairness",
            Kind::Transfer => "transfer",
            Kind::Limited => "send buffer",
        }
    }
}

/// One value.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) kind: Kind,
    pub(super) what: String,
    pub(super) unit: &'static str,
    pub(super) value: f64,
}

/// All values of one link with one algorithm.
pub(super) fn all(
    link: &LinkSpec,
    mut perform: impl FnMut(&Run) -> Result<Outcome>,
) -> Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    let mut add = |kind, what: String, unit, value| {
        measurements.push(Measurement { kind, what, unit, value });
    };
    let unlimited = Run {
        streams: 1,
        bytes: u64::MAX / 2,
        until_ns: BULK.1 * SECOND,
        send_buffer: None,
        marks_ns: vec![BULK.0 * SECOND, BULK.1 * SECOND],
    };

    let ramp = RAMP.map(|count| count * link.round_trip_ns());
    let marks_ns = [&unlimited.marks_ns[..], &ramp].concat();
    let one = perform(&Run { marks_ns, ..unlimited.clone() })?;
    let stream = &one.streams[0];
    let goodput = |stream: &Stream, times: (u64, u64)| {
        (stream.at[1] - stream.at[0]) as f64 * 8.0 / 1e6 / (times.1 - times.0) as f64
    };
    add(Kind::Bulk, "goodput of one stream".to_owned(), "Mb/s", goodput(stream, BULK));
    for (count, arrived) in RAMP.iter().zip(&stream.at[2..]) {
        let what = format!("arrived after {count} round trips");
        add(Kind::Ramp, what, "KiB", *arrived as f64 / 1024.0);
    }

    let four = perform(&Run { streams: 4, ..unlimited.clone() })?;
    let shares: Vec<f64> = four.streams.iter().map(|stream| goodput(stream, BULK)).collect();
    add(Kind::Together, "goodput of 4 streams".to_owned(), "Mb/s", shares.iter().sum());
    add(Kind::Fairness, "Jain's index of 4 streams".to_owned(), "", jain(&shares));

    for bytes in TRANSFERS {
        let until_ns = u64::MAX / 2;
        let done = perform(&Run { bytes, until_ns, marks_ns: vec![0], ..unlimited.clone() })?;
        let stream = &done.streams[0];
        ensure!(stream.total == bytes, "{} of {bytes} bytes arrived", stream.total);
        let what = format!("transfer of {} MiB", bytes >> 20);
        add(Kind::Transfer, what, "ms", stream.last_ns as f64 / 1e6);
    }

    let limited = Run {
        until_ns: LIMITED.1 * SECOND,
        send_buffer: Some(link.product() / 2),
        marks_ns: vec![LIMITED.0 * SECOND, LIMITED.1 * SECOND],
        ..unlimited
    };
    let goodput = goodput(&perform(&limited)?.streams[0], LIMITED);
    add(Kind::Limited, "send buffer of half a product".to_owned(), "Mb/s", goodput);
    Ok(measurements)
}

/// 1 when all have the same share, 1/n when one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[test]
fn jain_is_one_for_equal_shares_and_less_for_others() {
    assert_eq!(jain(&[2.0, 2.0, 2.0, 2.0]), 1.0);
    assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
    assert_eq!(jain(&[0.0, 0.0]), 0.0);
}

#[test]
fn every_value_is_computed_from_the_received_bytes() {
    let link = LinkSpec { megabits: 100, round_trip_ms: 10, queue_products: 1.0 };
    // 10 MB per second on each stream, from the first write.
    let steady = |run: &Run| {
        let sent = |ns: u64| (ns / 100).min(run.bytes);
        let streams = (0..run.streams).map(|_| Stream {
            at: run.marks_ns.iter().map(|mark| sent(*mark)).collect(),
            total: sent(run.until_ns),
            last_ns: run.bytes.min(run.until_ns / 100) * 100,
        });
        Ok(Outcome { streams: streams.collect() })
    };
    let measurements = all(&link, steady).expect("all arrives");
    let value = |what: &str| {
        let found = measurements.iter().find(|one| one.what == what);
        found.unwrap_or_else(|| panic!("no {what}")).value
    };
    assert_eq!(value("goodput of one stream"), 80.0);
    assert_eq!(value("goodput of 4 streams"), 320.0);
    assert_eq!(value("Jain's index of 4 streams"), 1.0);
    assert_eq!(value("arrived after 4 round trips"), 400_000.0 / 1024.0);
    assert_eq!(value("transfer of 1 MiB"), 104.8576);
    assert!(Kind::ALL.iter().all(|kind| measurements.iter().any(|one| one.kind == *kind)));
}
