//! What a node did between two samples.

use std::collections::BTreeMap;

use lustrine_control::{BucketRow, LatencyRow, Messages, OperationLatency, StatsRow};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use crate::rate::{growth, per_second};
use crate::sample::NodeSample;

/// Counters that grow when something went wrong.
const ERRORS: [&str; 9] = [
    "errors",
    "drop_count",
    "response_timeout_count",
    "local_error_count",
    "remote_dropped_count",
    "remote_error_count",
    "network_timeout_count",
    "responses_refused",
    "misbehaved",
];

/// Operations whose time is a round trip, the preferred one first.
const ROUND_TRIPS: [&str; 2] = ["get_rtt", "put_ack"];

/// What a node did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeView {
    /// How it dials its peers.
    pub identity: String,
    /// Whether it was started again since the sample before: there are no rates then.
    pub restarted: bool,
    /// CPU time in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// Open connections.
    pub connections: u64,
    /// Memory mapped for messages, in bytes.
    pub memory_mapped: u64,
    /// Bytes of payload received per second.
    pub received_bytes_per_s: Option<f64>,
    /// Bytes of payload sent per second.
    pub sent_bytes_per_s: Option<f64>,
    /// Messages received per second.
    pub received_per_s: Option<f64>,
    /// Messages sent per second.
    pub sent_per_s: Option<f64>,
    /// Counters of errors that have grown, and by how much.
    pub new_errors: BTreeMap<String, u64>,
    /// Counters of errors that are not 0.
    pub errors: BTreeMap<String, u64>,
    /// Its interfaces.
    pub nets: Vec<Line>,
    /// Its peers.
    pub peers: Vec<Line>,
}

/// An interface, or a peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its NID.
    pub nid: Nid,
    /// The network device of an interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The state of discovery of a peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Open connections of a peer.
    pub connections: Option<u32>,
    /// Messages received per second.
    pub received_per_s: Option<f64>,
    /// Messages sent per second.
    pub sent_per_s: Option<f64>,
    /// Messages received and dropped, per second.
    pub dropped_per_s: Option<f64>,
    /// Messages received and dropped so far.
    pub dropped: u64,
    /// Send credits.
    pub credits: u32,
    /// Free send credits, or minus the messages that wait for one.
    pub credits_available: i64,
    /// The lowest value of `credits_available` so far.
    pub credits_min: i64,
    /// Messages that wait for a credit.
    pub queued: u64,
    /// Bytes of selftest's RPCs that may be in flight to a peer, with `tuning: auto` and while any
    /// are.
    pub window_bytes: Option<u64>,
    /// Bytes of them that are.
    pub window_used_bytes: Option<u64>,
    /// How long round trips take, if that is measured.
    pub round_trip: Option<RoundTrip>,
}

/// How long an operation took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundTrip {
    /// The operation: `get_rtt` or `put_ack`.
    pub operation: String,
    /// Whether these are the operations since the sample before; otherwise, if there were none,
    /// all since the last reset.
    pub recent: bool,
    /// How many.
    pub samples: u64,
    /// The median, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
}

impl NodeView {
    pub(crate) fn between(then: Option<&NodeSample>, now: &NodeSample, seconds: f64) -> NodeView {
        let cpu = |stats: &StatsRow| stats.cpu_s.0;
        // LNet's counters also go down when they are reset.
        let restarted =
            then.is_some_and(|then| then.start != now.start || cpu(&now.stats) < cpu(&then.stats));
        let then = then.filter(|_| !restarted);
        let count = |sample: &NodeSample, name: &str| sample.stats.lnet.get(name).copied();
        let rate = |name: &str| per_second(count(then?, name)?, count(now, name)?, seconds);
        let used = then.map(|then| cpu(&now.stats) - cpu(&then.stats));
        let errors = ERRORS.iter().filter_map(|name| Some((*name, count(now, name)?)));
        let new = |name: &str, value: u64| growth(count(then?, name)?, value);
        NodeView {
            identity: now.net.identity.clone(),
            restarted,
            cpu_percent: used.filter(|_| seconds > 0.0).map(|used| used * 100.0 / seconds),
            connections: now.stats.connections,
            memory_mapped: now.stats.memory_mapped,
            received_bytes_per_s: rate("recv_length"),
            sent_bytes_per_s: rate("send_length"),
            received_per_s: rate("recv_count"),
            sent_per_s: rate("send_count"),
            new_errors: errors
                .clone()
                .filter_map(|(name, value)| Some((name.to_owned(), new(name, value)?)))
                .filter(|(_, new)| *new > 0)
                .collect(),
            errors: errors
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            nets: nets(then, now, seconds),
            peers: peers(then, now, seconds),
        }
    }
}

fn nets(then: Option<&NodeSample>, now: &NodeSample, seconds: f64) -> Vec<Line> {
    let latencies = Latencies::new(then, now);
    let line = |row: &lustrine_control::NetRow| {
        let old = then.and_then(|then| then.net.nets.iter().find(|old| old.nid == row.nid));
        let rates = Rates::between(old.map(|old| &old.messages), &row.messages, seconds);
        Line {
            interface: row.interface.clone(),
            connections: None,
            credits: row.credits,
            credits_available: row.credits_available,
            credits_min: row.credits_min,
            ..rates.line(row.nid, row.credits_available, latencies.of(&row.nid))
        }
    };
    now.net.nets.iter().map(line).collect()
}

fn peers(then: Option<&NodeSample>, now: &NodeSample, seconds: f64) -> Vec<Line> {
    let latencies = Latencies::new(then, now);
    let rows = then.iter().flat_map(|then| &then.peers);
    let old: BTreeMap<Nid, &Messages> = rows.map(|row| (row.nid, &row.messages)).collect();
    let line = |row: &lustrine_control::PeerRow| {
        let rates = Rates::between(old.get(&row.nid).copied(), &row.messages, seconds);
        Line {
            state: Some(row.state.name().to_owned()),
            connections: Some(row.connections_total()),
            credits: row.credits,
            credits_available: row.credits_available,
            credits_min: row.credits_min,
            window_bytes: row.window_bytes,
            window_used_bytes: row.window_used_bytes,
            ..rates.line(row.nid, row.credits_available, latencies.of(&row.nid))
        }
    };
    now.peers.iter().map(line).collect()
}

/// Messages per second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    received_per_s: Option<f64>,
    sent_per_s: Option<f64>,
    dropped_per_s: Option<f64>,
    dropped: u64,
}

impl Rates {
    fn between(then: Option<&Messages>, now: &Messages, seconds: f64) -> Rates {
        let rate = |of: fn(&Messages) -> u64| per_second(of(then?), of(now), seconds);
        Rates {
            received_per_s: rate(|messages| messages.received),
            sent_per_s: rate(|messages| messages.sent),
            dropped_per_s: rate(|messages| messages.dropped),
            dropped: now.dropped,
        }
    }

    fn line(self, nid: Nid, available: i64, round_trip: Option<RoundTrip>) -> Line {
        let Rates { received_per_s, sent_per_s, dropped_per_s, dropped } = self;
        Line {
            nid,
            interface: None,
            state: None,
            connections: None,
            received_per_s,
            sent_per_s,
            dropped_per_s,
            dropped,
            credits: 0,
            credits_available: available,
            credits_min: 0,
            queued: available.min(0).unsigned_abs(),
            window_bytes: None,
            window_used_bytes: None,
            round_trip,
        }
    }
}

/// Histograms of two samples, by NID.
struct Latencies<'a> {
    then: BTreeMap<Nid, &'a LatencyRow>,
    now: BTreeMap<Nid, &'a LatencyRow>,
}

impl<'a> Latencies<'a> {
    fn new(then: Option<&'a NodeSample>, now: &'a NodeSample) -> Latencies<'a> {
        let by_nid = |sample: &'a NodeSample| {
            sample.latencies.iter().map(|row| (row.nid, row)).collect::<BTreeMap<_, _>>()
        };
        Latencies { then: then.map(by_nid).unwrap_or_default(), now: by_nid(now) }
    }

    fn of(&self, nid: &Nid) -> Option<RoundTrip> {
        let now = self.now.get(nid)?;
        let measured = ROUND_TRIPS.iter().filter_map(|name| {
            let all = now.operations.get(*name).filter(|all| all.summary.samples > 0)?;
            let old = self.then.get(nid).and_then(|then| then.operations.get(*name));
            Some(round_trip(name, old, all))
        });
        // One of this interval says more than the preferred one of some time ago.
        measured.reduce(|first, other| if other.recent && !first.recent { other } else { first })
    }
}

fn round_trip(name: &str, then: Option<&OperationLatency>, now: &OperationLatency) -> RoundTrip {
    let recent = then.map(|then| grown(&then.buckets, &now.buckets)).unwrap_or_default();
    let samples = recent.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.samples));
    let us = |nsec: u64| nsec as f64 / 1e3;
    let operation = name.to_owned();
    match (percentile(&recent, samples, 500), percentile(&recent, samples, 990)) {
        (Some(p50), Some(p99)) => {
            RoundTrip { operation, recent: true, samples, p50_us: us(p50), p99_us: us(p99) }
        }
        _ => RoundTrip {
            operation,
            recent: false,
            samples: now.summary.samples,
            p50_us: us(now.p50_nsec),
            p99_us: us(now.p99_nsec),
        },
    }
}

/// What was added to a histogram; nothing if it has begun again.
fn grown(then: &[BucketRow], now: &[BucketRow]) -> Vec<BucketRow> {
    let old: BTreeMap<u64, u64> =
        then.iter().map(|bucket| (bucket.from_nsec, bucket.samples)).collect();
    let reset = old.iter().any(|(from, samples)| {
        !now.iter().any(|bucket| bucket.from_nsec == *from && bucket.samples >= *samples)
    });
    if reset {
        return Vec::new();
    }
    let more = now.iter().map(|bucket| BucketRow {
        samples: bucket.samples.saturating_sub(old.get(&bucket.from_nsec).copied().unwrap_or(0)),
        ..bucket.clone()
    });
    more.filter(|bucket| bucket.samples > 0).collect()
}

/// The upper end of the bucket with this part of the samples, in thousandths; `None` without
/// samples.
fn percentile(buckets: &[BucketRow], samples: u64, thousandths: u64) -> Option<u64> {
    let rank = (u128::from(samples) * u128::from(thousandths)).div_ceil(1000).max(1);
    let mut below = 0_u128;
    let found = buckets.iter().find(|bucket| {
        below += u128::from(bucket.samples);
        below >= rank
    })?;
    Some(found.below_nsec.unwrap_or(found.from_nsec))
}

#[cfg(test)]
mod tests;
