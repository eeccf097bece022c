//! What the kernel does with writes of O_DIRECT: that it cuts the file after one that has failed,
//! and sends the parts of a large one side by side.
//!
//! A write through libaio or io_uring with O_DIRECT that fails, and that would have made the file
//! larger, makes Linux set the size that it knows. That size can be older than what another client
//! has written behind it, and the request looks like that of ftruncate(2).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long after the answer to a write the kernel's request may come. It follows at once, unless
/// the machine has no time for the thread.
const SOON: Duration = Duration::from_secs(10);

/// When a write with O_DIRECT through an open file has failed last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailedWrite(Option<Instant>);

impl FailedWrite {
    /// A write is about to be answered with an error.
    pub(crate) fn note(&mut self, now: Instant) {
        self.0 = Some(now);
    }

    /// Whether a request that sets the size may be the kernel's own. There is one for each write at
    /// most, so the next one is that of a program.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.0.take().is_some_and(|failed| now.saturating_duration_since(failed) < SOON)
    }
}

/// Where the parts of appends with O_DIRECT through an open file have gone.
///
/// The kernel divides an append of libaio or io_uring that is larger than 1 MiB, and sends the
/// parts side by side, each with the place that it is meant for. Each goes to the end of the file,
/// and threads of this program race with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppendOrder(VecDeque<Part>);

/// A part of an append: the place that the kernel means, the one that it has got, and when.
type Part = (u64, u64, Instant);

/// Parts that are remembered, at most. The kernel sends 12 at a time.
const PARTS_MAX: usize = 64;

impl AppendOrder {
    /// A part that the kernel meant for one place is at another one. Whether its order with those
    /// before is that of the kernel.
    pub(crate) fn keeps(&mut self, meant: u64, at: u64, now: Instant) -> bool {
        self.0.retain(|(.., then)| now.saturating_duration_since(*then) < SOON);
        let agrees = |(before, before_at, _): &Part| {
            meant == *before || (meant > *before) == (at > *before_at)
        };
        let keeps = self.0.iter().all(agrees);
        if self.0.len() == PARTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((meant, at, now));
        keeps
    }
}

/// The size of a file up to which this mount knows who has written it: what the kernel was told,
/// and what programs have added to that through this mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownSize(u64);

impl KnownSize {
    /// The kernel is told that the file has this size.
    pub(crate) fn told(&mut self, size: u64) {
        self.0 = size;
    }

    /// A range was written through this mount. Behind a gap it does not count: another client may
    /// have filled that.
    pub(crate) fn written(&mut self, start: u64, end: u64) {
        if start <= self.0 {
            self.0 = self.0.max(end);
        }
    }

    /// Whether a file of this size now may get a size that the kernel has asked for: not if others
    /// have made it longer since, nor if they have cut it and this would undo that.
    pub(crate) fn allows(self, now: u64, wanted: u64) -> bool {
        let is_cut_by_others = now < wanted && wanted <= self.0;
        now <= self.0 && !is_cut_by_others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_explains_one_request_that_comes_soon() {
        let mut failed = FailedWrite::default();
        let now = Instant::now();
        assert!(!failed.take(now));
        failed.note(now);
        assert!(failed.take(now + SOON / 2));
        assert!(!failed.take(now + SOON / 2), "the next one is that of a program");
        failed.note(now);
        assert!(!failed.take(now + SOON));
    }

    #[test]
    fn parts_in_another_order_are_noticed() {
        let now = Instant::now();
        let keeps = |parts: &[(u64, u64)]| {
            let mut order = AppendOrder::default();
            parts.iter().all(|(meant, at)| order.keeps(*meant, *at, now))
        };
        assert!(keeps(&[(0, 100), (10, 110), (20, 120)]));
        assert!(keeps(&[(0, 100), (10, 150), (20, 160)]), "another one has appended in between");
        assert!(keeps(&[(10, 110), (0, 100), (20, 120)]), "answers may come in another order");
        assert!(keeps(&[(100, 100), (50, 50)]), "the file was cut");
        assert!(keeps(&[(0, 100), (0, 110)]), "the kernel does not know the size");
        assert!(!keeps(&[(0, 110), (10, 100)]));
        assert!(!keeps(&[(20, 100), (0, 110), (10, 120)]));
        assert!(!keeps(&[(0, 110), (20, 120), (10, 100)]), "not of two that follow each other");
        let mut order = AppendOrder::default();
        assert!(order.keeps(10, 100, now) && order.keeps(0, 110, now + SOON));
    }

    #[test]
    fn what_others_have_written_is_not_cut() {
        let mut known = KnownSize::default();
        known.told(100);
        assert!(known.allows(100, 100));
        assert!(!known.allows(101, 100), "another client has appended");
        known.written(100, 150);
        known.written(120, 130);
        assert!(known.allows(150, 100), "the rest of a write that failed");
        known.written(180, 200);
        assert!(!known.allows(200, 100), "others may have written in the gap");
        known.told(200);
        assert!(known.allows(200, 0), "a program knows what it cuts");
    }

    #[test]
    fn what_others_have_cut_is_not_made_longer() {
        let mut known = KnownSize::default();
        known.told(100);
        assert!(!known.allows(50, 100));
        // A program makes it longer than it ever was.
        assert!(known.allows(50, 101));
    }
}
