//! What the units of a test measured on one CPU partition of a client node.

use lustrine_lnet::time::Nanos;
use lustrine_wire::srpc::{ClientStats, ClientStatsDetails, ERROR_KINDS_MAX};

use crate::errno;
use crate::latencies::{LATENCY_MAX, Latencies};
use crate::load::TestError;
use crate::rpc::{LnetErrorKind, RpcError};

/// RPCs that are not sent are counted in so many parts: there can be millions.
const UNSENT_PARTS: u64 = 1000;

/// Counts that only grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// How long the test has run.
    pub(crate) age: Nanos,
    /// Units that are active.
    pub(crate) active: u32,
    ops: u64,
    bytes: u64,
    failed: Vec<(i32, u64)>,
    latencies: Latencies,
    /// Of a test with a rate: from when each RPC was due.
    due_latencies: Latencies,
    /// RPCs that were given up without an answer, and the greatest age of one.
    lost: u64,
    lost_age_max: Nanos,
}

impl Measured {
    /// An RPC succeeded while the test ran.
    #[inline]
    pub(crate) fn success(&mut self, took: Nanos, bytes: u32) {
        self.ops += 1;
        self.bytes += u64::from(bytes);
        self.latencies.record(took);
    }

    /// An RPC succeeded after the test was stopped. It began before, so it has a latency: those
    /// that stall at the end would be left out otherwise.
    pub(crate) fn late_success(&mut self, took: Nanos) {
        self.latencies.record(took);
    }

    /// The RPC that has just succeeded took so long from when it was due.
    pub(crate) fn success_since_due(&mut self, took: Nanos) {
        self.due_latencies.record(took);
    }

    /// So many RPCs were due and were not sent, because they could not be for too long.
    pub(crate) fn never_sent(&mut self, count: u64) {
        self.due_latencies.record_many(Nanos(LATENCY_MAX), count);
    }

    /// So many RPCs are due since `age` and less, at even distances, and will not be sent.
    pub(crate) fn unsent(&mut self, count: u64, age: Nanos) {
        let parts = count.min(UNSENT_PARTS);
        let until =
            |part: u64, of: u64| (u128::from(of) * u128::from(part) / u128::from(parts)) as u64;
        for part in 0..parts {
            let share = until(part + 1, count) - until(part, count);
            self.due_latencies.record_many(Nanos(age.0 - until(part, age.0)), share);
        }
    }

    /// An RPC of this age failed.
    pub(crate) fn failure(&mut self, error: TestError, age: Nanos) {
        self.count(errno_of(error), 1);
        if error.is_lost() {
            self.lost += 1;
            self.lost_age_max = self.lost_age_max.max(age);
        }
    }

    /// Adds what another partition measured.
    pub(crate) fn add(&mut self, other: &Measured) {
        self.age = self.age.max(other.age);
        self.active += other.active;
        self.ops += other.ops;
        self.bytes += other.bytes;
        other.failed.iter().for_each(|(kind, count)| self.count(*kind, *count));
        self.latencies.merge(&other.latencies);
        self.due_latencies.merge(&other.due_latencies);
        self.lost += other.lost;
        self.lost_age_max = self.lost_age_max.max(other.lost_age_max);
    }

    /// In the form in which it travels.
    pub(crate) fn to_wire(&self) -> ClientStats {
        ClientStats {
            age: self.age.0,
            active: self.active,
            ops: self.ops,
            bytes: self.bytes,
            failed: self.failed.clone(),
            latencies: self.latencies.coarse(),
            details: Some(ClientStatsDetails {
                lost: self.lost,
                lost_age_max: self.lost_age_max.0,
                due_latencies: self.due_latencies.coarse(),
            }),
        }
    }

    fn count(&mut self, kind: i32, count: u64) {
        match self.failed.iter().position(|(known, _)| *known == kind) {
            Some(at) => self.failed[at].1 += count,
            None if self.failed.len() < ERROR_KINDS_MAX => self.failed.push((kind, count)),
            None => self.failed[ERROR_KINDS_MAX - 1].1 += count,
        }
    }
}

/// The number that stands for an error: positive is the server's, negative our own.
fn errno_of(error: TestError) -> i32 {
    const EIO: i32 = -5;
    const ENODATA: i32 = -61;
    const ETIMEDOUT: i32 = -110;
    const ECANCELED: i32 = -125;
    let own = |errno: u32| -(errno as i32);
    match error {
        TestError::Remote(status) => i32::try_from(status).unwrap_or(i32::MAX),
        TestError::Corrupt | TestError::Echo => own(errno::EBADMSG),
        TestError::Short => EIO,
        TestError::NoneEnded => ENODATA,
        TestError::Rpc(failure) => match failure {
            RpcError::TimedOut => ETIMEDOUT,
            RpcError::Aborted => ECANCELED,
            RpcError::BadReply => own(errno::EPROTO),
            RpcError::Send(status) | RpcError::Receive(status) => status.errno(),
            RpcError::Bulk(status) | RpcError::PeerLost(status) => status.errno(),
            RpcError::Local(LnetErrorKind::Full) => own(errno::ENOMEM),
            RpcError::Local(LnetErrorKind::Rejected) => own(errno::EINVAL),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        let (mut one, mut two) = (Measured::default(), Measured::default());
        (one.age, two.age) = (Nanos(800), Nanos(1000));
        (one.active, two.active) = (1, 2);
        one.success(Nanos(1000), 8);
        two.success(Nanos(3000), 8);
        two.late_success(Nanos(9000));
        one.success_since_due(Nanos(1500));
        two.never_sent(3);
        two.failure(TestError::Corrupt, Nanos(1));
        two.failure(TestError::Remote(5), Nanos(1));
        one.failure(TestError::Echo, Nanos(1));
        one.failure(TestError::Rpc(RpcError::Aborted), Nanos(60));
        two.failure(TestError::Rpc(RpcError::TimedOut), Nanos(70));
        one.add(&two);
        let ClientStats { age, active, ops, bytes, failed, latencies, details } = one.to_wire();
        let count = |buckets: &[(u32, u64)]| buckets.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!((age, active, ops, bytes), (1000, 3, 2, 16));
        assert_eq!(failed, [(-74, 2), (-125, 1), (5, 1), (-110, 1)]);
        assert_eq!(count(&latencies), 3, "the late one has a latency");
        let details = details.expect("this release sends them");
        assert_eq!((details.lost, details.lost_age_max), (2, 70));
        assert_eq!(count(&details.due_latencies), 4);
    }

    #[test]
    fn kinds_of_errors_are_limited() {
        let mut measured = Measured::default();
        (1..=100).for_each(|status| measured.failure(TestError::Remote(status), Nanos(1)));
        let failed = measured.to_wire().failed;
        assert_eq!((failed.len(), failed[ERROR_KINDS_MAX - 1].1), (ERROR_KINDS_MAX, 69));
    }
}
