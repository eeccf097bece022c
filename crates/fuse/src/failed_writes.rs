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
pub(crate) struct AppendOrder {
    /// Parts that are in flight.
    in_flight: usize,
    /// Those that have ended since there was none: the places that the kernel meant, and those that
    /// they have got.
    parts: VecDeque<(u64, u64)>,
    /// Whether one of these is not where the kernel meant it, or has failed.
    is_broken: bool,
    /// The first part of those before, by the place that the kernel meant.
    before: Option<(u64, u64)>,
}

/// Parts that are remembered, at most. The kernel sends 12 at a time.
const PARTS_MAX: usize = 64;

impl AppendOrder {
    /// The mount has got a part.
    pub(crate) fn begun(&mut self) {
        self.in_flight += 1;
    }

    /// A part that the kernel meant for one place is at another one, or has failed. Whether its
    /// order is that of the kernel, with those that were in flight together with it, and with one
    /// that directly follows it: that may have ended before the mount had this one. write(2) has
    /// one part in flight at a time.
    pub(crate) fn ended(&mut self, (meant, len): (u64, u64), at: Option<u64>) -> bool {
        let is_turned = |at: u64, (other, other_at): (u64, u64)| {
            (meant > other && at < other_at) || (meant < other && at > other_at)
        };
        let follows = self.before.filter(|(other, _)| meant.checked_add(len) == Some(*other));
        let mut others = self.parts.iter().copied().chain(follows);
        let keeps = at.is_none_or(|at| !others.any(|other| is_turned(at, other)));
        if self.parts.len() == PARTS_MAX {
            self.parts.pop_front();
        }
        self.parts.extend(at.map(|at| (meant, at)));
        self.is_broken |= !keeps || at.is_none();
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            // After a failure the kernel cuts the file, and the program may try again.
            let is_broken = core::mem::take(&mut self.is_broken);
            self.before = self.parts.drain(..).min().filter(|_| !is_broken);
        }
        keeps
    }
}

/// The size of a file up to which this mount knows who has written it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownSize {
    /// The size in the last reply to the kernel, which ignores it if a write was in flight
    /// meanwhile.
    replied: u64,
    /// The same, and what programs have added to it through this mount.
    end: u64,
}

impl KnownSize {
    /// A reply to the kernel has this size.
    pub(crate) fn replied(&mut self, size: u64) {
        (self.replied, self.end) = (size, size);
    }

    /// A range was written through this mount. Behind a gap it does not count: another client may
    /// have filled that.
    pub(crate) fn written(&mut self, start: u64, end: u64) {
        if start <= self.end {
            self.end = self.end.max(end);
        }
    }

    /// Whether a file of this size now may get a size that the kernel has asked for: not if others
    /// have made it longer since, nor if the kernel knows an older size than that of the last
    /// reply, nor if others have cut the file and this would undo that.
    pub(crate) fn allows(self, now: u64, wanted: u64) -> bool {
        let is_cut_by_others = now < wanted && wanted <= self.end;
        now <= self.end && self.replied <= wanted && !is_cut_by_others
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
        // All are in flight together.
        let keeps = |parts: &[(u64, u64)]| {
            let mut order = AppendOrder::default();
            parts.iter().for_each(|_| order.begun());
            let kept = parts.iter().filter(|(meant, at)| order.ended((*meant, 10), Some(*at)));
            kept.count() == parts.len()
        };
        assert!(keeps(&[(0, 100), (10, 110), (20, 120)]));
        assert!(keeps(&[(0, 100), (10, 150), (20, 160)]), "another one has appended in between");
        assert!(keeps(&[(10, 110), (0, 100), (20, 120)]), "answers may come in another order");
        assert!(!keeps(&[(0, 110), (10, 100)]));
        assert!(!keeps(&[(20, 100), (0, 110), (10, 120)]));
        assert!(!keeps(&[(0, 110), (20, 120), (10, 100)]), "not of two that follow each other");
    }

    /// Each is in flight alone.
    fn one_by_one(parts: &[(u64, Option<u64>)]) -> Vec<bool> {
        let mut order = AppendOrder::default();
        let each = parts.iter().map(|(meant, at)| {
            order.begun();
            order.ended((*meant, 10), *at)
        });
        each.collect()
    }

    #[test]
    fn a_part_that_comes_when_the_next_one_is_stored_is_noticed() {
        assert_eq!(one_by_one(&[(10, Some(0)), (0, Some(10))]), [true, false]);
        // What follows is another append.
        let parts = [(10, Some(0)), (0, Some(10)), (0, Some(0)), (10, Some(10))];
        assert_eq!(one_by_one(&parts), [true, false, true, true]);
    }

    #[test]
    fn appends_one_after_the_other_are_not_compared() {
        // The last one fails, is cut, and is made again; then another client cuts the file.
        let parts = [(0, Some(100)), (10, None), (0, Some(50)), (4096, Some(0)), (20, Some(4096))];
        assert_eq!(one_by_one(&parts), [true; 5]);
    }

    #[test]
    fn what_others_have_written_is_not_cut() {
        let mut known = KnownSize::default();
        known.replied(100);
        assert!(known.allows(100, 100));
        assert!(!known.allows(101, 100), "another client has appended");
        known.written(100, 150);
        known.written(120, 130);
        assert!(known.allows(150, 100), "the rest of a write that failed");
        known.written(180, 200);
        assert!(!known.allows(200, 100), "others may have written in the gap");
        known.replied(200);
        assert!(known.allows(200, 200));
        assert!(!known.allows(200, 100), "the kernel has ignored the last reply");
    }

    #[test]
    fn what_others_have_cut_is_not_made_longer() {
        let mut known = KnownSize::default();
        known.replied(100);
        assert!(!known.allows(50, 100));
        // A program makes it longer than it ever was.
        assert!(known.allows(50, 101));
    }
}
