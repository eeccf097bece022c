//! What a rung measured.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::srpc::Counters;

use crate::latencies::Latencies;
use crate::load::TestError;
use crate::rpc::RpcError;

/// Kinds of errors kept apart; further kinds are counted together with the last one.
const ERROR_KINDS_MAX: usize = 32;

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
            latencies: Latencies::default(),
            longest: Nanos(0),
            before: None,
            after: None,
            down: Nanos(0),
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Figures::new();
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
