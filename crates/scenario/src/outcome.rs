//! The results of a run, and their JSON document.

use lustrine_report::numbers::{operations, percent, three_digits};
use std::collections::BTreeMap;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::LoadProgress;
use serde::{Deserialize, Serialize};

use crate::model::Fidelity;

mod together;

pub use together::Together;

/// With fewer operations, a 99.9th percentile means nothing.
const OPS_FOR_P999: u64 = 1000;

/// All results of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// How finely the run was simulated.
    pub fidelity: Fidelity,
    /// Number of nodes.
    pub nodes: u64,
    /// A hash of all events. The same file, seed and release give the same hash on every machine.
    pub trace_hash: String,
    /// Virtual seconds that passed.
    pub virtual_s: f64,
    /// LNet messages that nodes sent and received; each message counts at both ends.
    pub messages: u64,
    /// The part of the run in which links and waits were measured, in virtual seconds from the
    /// beginning: the time in which all clients of a load were measuring, from the first to the
    /// last one. Time between loads is left out of the results. Null if there was no such time.
    pub window_s: Option<(f64, f64)>,
    /// In the order of the file.
    pub loads: Vec<LoadOutcome>,
    /// Links that limit several loads together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_links: Vec<SharedLinks>,
    /// Links between sites, each direction separately; then each group's interfaces.
    pub links: Vec<LinkOutcome>,
    /// What messages waited for, per group.
    pub waits: Vec<GroupWaits>,
    /// Values over time.
    pub samples: Samples,
    /// What a reader should know before trusting the results.
    pub hints: Vec<String>,
    /// What was not in order at the end, when all activity should have stopped.
    pub unquiet: Vec<String>,
    /// Whether the caller ended the run early.
    pub interrupted: bool,
}

/// One load.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LoadOutcome {
    /// The clients' group.
    pub from: String,
    /// The servers' group.
    pub to: String,
    /// `ping`, `read` or `write`.
    pub test: String,
    /// Bytes per operation; 0 for ping.
    pub size: u32,
    /// RPCs in flight per pair.
    pub concurrency: u32,
    /// Pairs of a client and a server.
    pub pairs: u64,
    /// Mean measured seconds per pair.
    pub seconds: f64,
    /// When the first client began to measure and the last one ended, in virtual seconds from the
    /// beginning of the run; null if none measured.
    #[serde(default)]
    pub window_s: Option<(f64, f64)>,
    /// Operations that succeeded.
    pub ops: u64,
    /// Sum over all pairs. What a client did before it ended early counts for the time of the
    /// client that measured longest.
    pub mib_per_s: f64,
    /// As `mib_per_s`.
    pub ops_per_s: f64,
    /// Over all pairs.
    pub latency_us: Latency,
    /// Operations that failed, and clients that gave up.
    pub errors: u64,
    /// The errors, each with its number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_kinds: Vec<(String, u64)>,
    /// Operations per second that the delay and the narrowest links allow; null without either.
    pub formula_ops_per_s: Option<f64>,
    /// Name of the link that is the narrowest; null if only the delay is the limit.
    pub formula_limit: Option<String>,
}

/// Links that the data of several loads pass.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SharedLinks {
    /// The loads, by index.
    pub loads: Vec<usize>,
    /// What these links carry together.
    pub bytes_per_s: f64,
}

/// Percentiles of the latency, in microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Latency {
    /// 50 %.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %; null below 1000 operations.
    pub p999: Option<f64>,
    /// The longest.
    pub max: f64,
}

/// One direction of links with the same properties.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LinkOutcome {
    /// For example `east -> west` or `clients up`.
    pub name: String,
    /// Number of links.
    pub links: u64,
    /// Bits per second of each link; null is unlimited.
    pub bits_per_s: Option<u64>,
    /// Part of the measured time in which the links were sending, 0 to 1; the mean of all of them.
    pub share: Option<f64>,
    /// The same of the busiest link.
    pub share_max: Option<f64>,
    /// Bytes sent in the measured time.
    pub bytes: u64,
    /// Bytes lost in the measured time.
    pub lost: u64,
    /// The largest number of bytes that waited at one link, at any time.
    pub queue_max: u64,
}

/// What a group's messages waited for: mean numbers of messages per node in the measured time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct GroupWaits {
    /// The group.
    pub group: String,
    /// Messages that waited for a credit of their peer.
    pub peer_credits: f64,
    /// Messages that waited for a credit of the interface.
    pub ni_credits: f64,
    /// In the driver: for a connection, or for room in its stream.
    pub driver: f64,
    /// Messages sent without copying that wait for the peer's acknowledgement and hold their
    /// credits.
    pub zero_copy: f64,
    /// Part of the time in which the CPU was busy, 0 to 1.
    pub cpu: f64,
    /// Messages per second of one node.
    pub messages_per_s: f64,
}

impl GroupWaits {
    /// Messages that waited for anything.
    pub fn all(&self) -> f64 {
        self.peer_credits + self.ni_credits + self.driver + self.zero_copy
    }

    /// The values as a row of a table: the group; the means for peer credits, NI credits, the
    /// driver and zero-copy acknowledgements, each with its share of all waiting messages; the load
    /// of the CPU; and messages per second.
    pub fn row(&self) -> [String; 7] {
        let all = self.all();
        let cell = |mean: f64| match all {
            0.0 => "0".to_owned(),
            all => format!("{} ({})", three_digits(mean), percent(mean / all)),
        };
        [
            self.group.clone(),
            cell(self.peer_credits),
            cell(self.ni_credits),
            cell(self.driver),
            cell(self.zero_copy),
            percent(self.cpu),
            operations(self.messages_per_s),
        ]
    }
}

/// Values over time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Samples {
    /// Virtual seconds from the beginning.
    pub at_s: Vec<f64>,
    /// Per load. A point covers the time since the previous point.
    pub loads: Vec<RateSamples>,
    /// Per direction of a link.
    pub queues: Vec<QueueSamples>,
}

/// Values of one load over time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct RateSamples {
    /// Payload, in the measured time.
    pub mib_per_s: Vec<f64>,
    /// Operations, in the measured time.
    pub ops_per_s: Vec<f64>,
}

/// A queue over time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct QueueSamples {
    /// As in [`LinkOutcome`].
    pub name: String,
    /// Bytes that wait; of several links, those of the longest queue.
    pub bytes: Vec<u64>,
}

impl Outcome {
    /// Failed operations of all loads.
    pub fn errors(&self) -> u64 {
        self.loads.iter().fold(0, |all, load| all.saturating_add(load.errors))
    }
}

impl LoadOutcome {
    /// What the formula allows, in MiB per second; `None` for ping, or without a limit.
    pub fn formula_mib_per_s(&self) -> Option<f64> {
        let size = (self.size > 0).then(|| f64::from(self.size) / f64::from(1 << 20))?;
        Some(self.formula_ops_per_s? * size)
    }
}

/// How much of its load's time a client has measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All that the run had for it.
    Whole,
    /// Its node ended, or it gave up, and others continued.
    CutShort,
}

/// The results of many clients, merged as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    pub(crate) clients: u64,
    elapsed: f64,
    pub(crate) ops: u64,
    ops_per_s: f64,
    bytes_per_s: f64,
    /// The time of the client that measured longest, in seconds.
    longest: f64,
    /// Operations and bytes of clients that were cut short. Rates of different times do not add up,
    /// so these count for the time of the others.
    short: (u64, u64),
    errors: BTreeMap<String, u64>,
    /// Latencies in nanoseconds, each with its number of operations.
    latencies: BTreeMap<u64, u64>,
}

impl Merged {
    pub(crate) fn add(&mut self, snapshot: &LoadProgress, part: Part) {
        let seconds = snapshot.elapsed.as_secs_f64();
        self.clients += 1;
        self.elapsed += seconds;
        self.ops += snapshot.ops;
        self.longest = self.longest.max(seconds);
        if part == Part::CutShort {
            self.short = (self.short.0 + snapshot.ops, self.short.1 + snapshot.bytes);
        } else if seconds > 0.0 {
            self.ops_per_s += snapshot.ops as f64 / seconds;
            self.bytes_per_s += snapshot.bytes as f64 / seconds;
        }
        for (kind, count) in &snapshot.errors {
            self.fail(&kind.to_string(), *count);
        }
        for (took, count) in snapshot.latencies.buckets() {
            *self.latencies.entry(took.0).or_default() += count;
        }
    }

    pub(crate) fn fail(&mut self, what: &str, count: u64) {
        *self.errors.entry(what.to_owned()).or_default() += count;
    }

    fn quantiles<const N: usize>(&self, parts: [f64; N]) -> [Nanos; N] {
        let count: u64 = self.latencies.values().sum();
        parts.map(|part| {
            let wanted = (part * count as f64).ceil() as u64;
            let mut sum = 0;
            let found = self.latencies.iter().find(|(_, count)| {
                sum += **count;
                sum >= wanted
            });
            Nanos(found.map_or(0, |(took, _)| *took))
        })
    }

    /// Fills in the results; the caller sets names and plan.
    pub(crate) fn into_outcome(self, plan: LoadOutcome) -> LoadOutcome {
        let [p50, p90, p99, p999] = self.quantiles([0.5, 0.9, 0.99, 0.999]);
        let max = self.latencies.last_key_value().map_or(0, |(took, _)| *took);
        let micros = |time: Nanos| time.0 as f64 / 1e3;
        let short = |count: u64| if self.longest > 0.0 { count as f64 / self.longest } else { 0.0 };
        LoadOutcome {
            seconds: if self.clients == 0 { 0.0 } else { self.elapsed / self.clients as f64 },
            ops: self.ops,
            mib_per_s: (self.bytes_per_s + short(self.short.1)) / f64::from(1 << 20),
            ops_per_s: self.ops_per_s + short(self.short.0),
            latency_us: Latency {
                p50: micros(p50),
                p90: micros(p90),
                p99: micros(p99),
                p999: (self.ops >= OPS_FOR_P999).then(|| micros(p999)),
                max: micros(Nanos(max)),
            },
            errors: self.errors.values().sum(),
            error_kinds: self.errors.into_iter().collect(),
            ..plan
        }
    }
}
