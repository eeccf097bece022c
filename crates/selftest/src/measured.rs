//! What the units of a test measured on one CPU partition of a client node.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::srpc::{ClientStats, ERROR_KINDS_MAX};

use crate::errno;
use crate::latencies::Latencies;
use crate::load::TestError;
use crate::rpc::{LnetErrorKind, RpcError};

/// Counts that only grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// When the units first ran.
    pub(crate) since: Option<Time>,
    /// Units that are active.
    pub(crate) active: u32,
    ops: u64,
    bytes: u64,
    failed: Vec<(i32, u64)>,
    latencies: Latencies,
}

impl Measured {
    /// An RPC went well.
    #[inline]
    pub(crate) fn success(&mut self, took: Nanos, bytes: u32) {
        self.ops += 1;
        self.bytes += u64::from(bytes);
        self.latencies.record(took);
    }

    /// An RPC failed.
    pub(crate) fn failure(&mut self, error: TestError) {
        self.count(errno_of(error), 1);
    }

    /// Adds what another partition measured.
    pub(crate) fn add(&mut self, other: &Measured) {
        self.since = match (self.since, other.since) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        self.active += other.active;
        self.ops += other.ops;
        self.bytes += other.bytes;
        other.failed.iter().for_each(|(kind, count)| self.count(*kind, *count));
        self.latencies.merge(&other.latencies);
    }

    /// In the form in which it travels.
    pub(crate) fn figures(&self, now: Time) -> ClientStats {
        ClientStats {
            age: self.since.map_or(0, |since| now.since(since).0.max(1)),
            active: self.active,
            ops: self.ops,
            bytes: self.bytes,
            failed: self.failed.clone(),
            latencies: self.latencies.coarse(),
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
        (one.since, two.since) = (Some(Time(500)), Some(Time(300)));
        (one.active, two.active) = (1, 2);
        one.success(Nanos(1000), 8);
        two.success(Nanos(3000), 8);
        two.failure(TestError::Corrupt);
        two.failure(TestError::Remote(5));
        one.failure(TestError::Echo);
        one.add(&two);
        let figures = one.figures(Time(1300));
        let ClientStats { age, active, ops, bytes, failed, latencies } = figures;
        assert_eq!((age, active, ops, bytes), (1000, 3, 2, 16));
        assert_eq!(failed, [(-74, 2), (5, 1)]);
        assert_eq!(latencies.iter().map(|(_, count)| count).sum::<u64>(), 2);
    }

    #[test]
    fn kinds_of_errors_are_limited() {
        let mut measured = Measured::default();
        (1..=100).for_each(|status| measured.failure(TestError::Remote(status)));
        let failed = measured.figures(Time(1)).failed;
        assert_eq!((failed.len(), failed[ERROR_KINDS_MAX - 1].1), (ERROR_KINDS_MAX, 69));
    }
}
