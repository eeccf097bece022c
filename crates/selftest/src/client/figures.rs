//! What a rung measured.

use hdrhistogram::Histogram;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::srpc::Counters;

use crate::load::TestError;
use crate::rpc::Failure;

/// Longest latency told apart, in nanoseconds; longer ones count as this.
const LATENCY_MAX: u64 = 60_000_000_000;

/// Significant decimal digits of a latency.
const DIGITS: u8 = 3;

/// Kinds of errors kept apart; further kinds are counted together with the last one.
const KINDS_MAX: usize = 32;

/// Latencies of RPCs that went well, in nanoseconds. Up to 2 us each nanosecond has its own
/// bucket, above that three digits count.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Latencies {
        Latencies(Histogram::new_with_bounds(1, LATENCY_MAX, DIGITS).expect("legal bounds"))
    }

    pub(super) fn record(&mut self, took: Nanos) {
        self.0.saturating_record(took.0);
    }

    pub(super) fn reset(&mut self) {
        self.0.reset();
    }

    /// Number of RPCs.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that this part of the RPCs, 0 to 1, did not exceed; 0 when there are none.
    pub fn quantile(&self, part: f64) -> Nanos {
        Nanos(if self.0.is_empty() { 0 } else { self.0.value_at_quantile(part) })
    }

    /// The shortest; 0 when there are none.
    pub fn min(&self) -> Nanos {
        Nanos(if self.0.is_empty() { 0 } else { self.0.min() })
    }

    /// The longest; 0 when there are none.
    pub fn max(&self) -> Nanos {
        Nanos(self.0.max())
    }

    /// The mean; 0 when there are none.
    pub fn mean(&self) -> Nanos {
        Nanos(self.0.mean() as u64)
    }

    /// Every latency that occurred, rounded to its bucket, with how often.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|bucket| (Nanos(bucket.value_iterated_to()), bucket.count_since_last_iteration()))
    }
}

/// A rung's figures while it runs and after.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) measured_from: Option<Time>,
    pub(super) measured_to: Option<Time>,
    pub(super) ops: u64,
    pub(super) bytes: u64,
    /// Of every phase of the rung.
    pub(super) errors: Vec<(TestError, u64)>,
    /// RPCs that failed in the measured time.
    pub(super) failed: u64,
    pub(super) latencies: Latencies,
    pub(super) longest: Nanos,
    pub(super) before: Option<Counters>,
    pub(super) after: Option<Counters>,
    pub(super) down: Nanos,
}

impl Figures {
    pub(super) fn new() -> Figures {
        Figures {
            measured_from: None,
            measured_to: None,
            ops: 0,
            bytes: 0,
            errors: Vec::new(),
            failed: 0,
            latencies: Latencies::new(),
            longest: Nanos(0),
            before: None,
            after: None,
            down: Nanos(0),
        }
    }

    pub(super) fn clear(&mut self) {
        self.latencies.reset();
        let latencies = core::mem::replace(&mut self.latencies, Latencies::new());
        *self = Figures { latencies, ..Figures::new() };
    }

    pub(super) fn is_measuring(&self) -> bool {
        self.measured_from.is_some() && self.measured_to.is_none()
    }

    pub(super) fn success(&mut self, took: Nanos, bytes: u32) {
        self.longest = self.longest.max(took);
        if self.is_measuring() {
            self.ops += 1;
            self.bytes += u64::from(bytes);
            self.latencies.record(took);
        }
    }

    /// Counts a failure in whatever phase of the rung: a node that sends wrong data while it warms
    /// up, or answers nothing at the end, is not in order either.
    pub(super) fn failure(&mut self, error: TestError) {
        if self.is_measuring() {
            self.failed += 1;
        }
        let known = self.errors.iter().position(|(kind, _)| *kind == error);
        match known {
            Some(at) => self.errors[at].1 += 1,
            None if self.errors.len() < KINDS_MAX => self.errors.push((error, 1)),
            None => self.errors[KINDS_MAX - 1].1 += 1,
        }
    }

    /// RPCs that ended in the measured time, however.
    pub(super) fn ended(&self) -> u64 {
        self.ops + self.failed
    }

    pub(super) fn elapsed(&self, now: Time) -> Nanos {
        match self.measured_from {
            Some(from) => self.measured_to.unwrap_or(now).since(from),
            None => Nanos(0),
        }
    }
}

/// Whether an error says that the node or the way to it is in trouble.
pub(super) fn is_outage(error: TestError) -> bool {
    matches!(
        error,
        TestError::Rpc(
            Failure::Send(_)
                | Failure::Bulk(_)
                | Failure::Receive(_)
                | Failure::PeerLost(_)
                | Failure::TimedOut
        )
    )
}

#[cfg(test)]
mod tests;
