//! What a step measured.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::srpc::Counters;

use crate::latencies::Latencies;
use crate::load::TestError;
use crate::rpc::RpcError;

/// Kinds of errors kept apart; further kinds are counted together with the last one.
const ERROR_KINDS_MAX: usize = 32;

/// The statistics of a step while it runs and afterwards.
#[derive(Clone, Debug)]
pub(super) struct StepStats {
    pub(super) measured_from: Option<Time>,
    pub(super) measured_to: Option<Time>,
    pub(super) ops: u64,
    pub(super) bytes: u64,
    /// Of every phase of the step.
    pub(super) errors: Vec<(TestError, u64)>,
    /// RPCs that failed in the measured time.
    pub(super) failed: u64,
    /// Of every successful RPC that was in flight at some time of the measured time.
    pub(super) latencies: Latencies,
    /// RPCs of the measured time that never ended, and how old the oldest was when it was given up.
    pub(super) lost: u64,
    pub(super) lost_age_max: Nanos,
    pub(super) longest: Nanos,
    pub(super) before: Option<Counters>,
    pub(super) after: Option<Counters>,
    pub(super) down: Nanos,
}

impl StepStats {
    pub(super) fn new() -> StepStats {
        StepStats {
            measured_from: None,
            measured_to: None,
            ops: 0,
            bytes: 0,
            errors: Vec::new(),
            failed: 0,
            latencies: Latencies::default(),
            lost: 0,
            lost_age_max: Nanos(0),
            longest: Nanos(0),
            before: None,
            after: None,
            down: Nanos(0),
        }
    }

    pub(super) fn clear(&mut self) {
        *self = StepStats::new();
    }

    pub(super) fn is_measuring(&self) -> bool {
        self.measured_from.is_some() && self.measured_to.is_none()
    }

    /// An RPC succeeded. What it moved counts if it ends in the measured time. How long it took
    /// counts also if it ends later: one that stalls at the end of a step would be left out of
    /// the latencies otherwise, and those are the ones that matter.
    pub(super) fn success(&mut self, now: Time, took: Nanos, bytes: u32) {
        self.longest = self.longest.max(took);
        if self.is_measuring() {
            self.ops += 1;
            self.bytes += u64::from(bytes);
        }
        if self.was_measured(now, took) {
            self.latencies.record(took);
        }
    }

    /// An RPC was given up, without an answer, at this age.
    pub(super) fn never_ended(&mut self, now: Time, age: Nanos) {
        if self.was_measured(now, age) {
            self.lost += 1;
            self.lost_age_max = self.lost_age_max.max(age);
        }
    }

    /// Whether an RPC that took so long until now was in flight in the measured time.
    fn was_measured(&self, now: Time, took: Nanos) -> bool {
        let begun = Time(now.0.saturating_sub(took.0));
        self.measured_from.is_some() && self.measured_to.is_none_or(|to| begun < to)
    }

    /// Counts a failure in whatever phase of the step: a node that sends wrong data while it warms
    /// up, or answers nothing at the end, is not in order either.
    pub(super) fn failure(&mut self, error: TestError) {
        if self.is_measuring() {
            self.failed += 1;
        }
        let known = self.errors.iter().position(|(kind, _)| *kind == error);
        match known {
            Some(at) => self.errors[at].1 += 1,
            None if self.errors.len() < ERROR_KINDS_MAX => self.errors.push((error, 1)),
            None => self.errors[ERROR_KINDS_MAX - 1].1 += 1,
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
            RpcError::Send(_)
                | RpcError::Bulk(_)
                | RpcError::Receive(_)
                | RpcError::PeerLost(_)
                | RpcError::TimedOut
        )
    )
}

#[cfg(test)]
mod tests;
