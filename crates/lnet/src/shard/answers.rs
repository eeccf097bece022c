//! The answers that descriptors await: their number, when deadlines are checked, and which of them
//! outlive a connection.

use std::collections::BTreeSet;

use super::SCAN_INTERVAL;
use crate::md::{OnLinkLoss, Owner};
use crate::time::Time;

#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Number of descriptors that await an answer.
    awaited: usize,
    /// When their deadlines are checked next.
    next_check: Time,
    /// Owners whose awaited answers outlive the connections to the peer.
    kept: BTreeSet<u32>,
    /// Links of lists of awaited answers read or written, for tests of the effort.
    #[cfg(test)]
    pub(super) touched: core::cell::Cell<u64>,
}

impl Answers {
    pub(super) fn awaited(&self) -> usize {
        self.awaited
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        self.awaited += 1;
    }

    #[inline]
    pub(super) fn end(&mut self) {
        self.awaited -= 1;
    }

    /// When deadlines have to be checked.
    #[inline]
    pub(super) fn next_check(&self) -> Time {
        if self.awaited > 0 { self.next_check } else { Time::NEVER }
    }

    /// Whether deadlines have to be checked now; then the next check is some time later.
    #[inline]
    pub(super) fn check_is_due(&mut self, now: Time) -> bool {
        let due = self.awaited > 0 && now >= self.next_check;
        if due {
            self.next_check = now + SCAN_INTERVAL;
        }
        due
    }

    pub(super) fn set_on_link_loss(&mut self, owner: Owner, policy: OnLinkLoss) {
        match policy {
            OnLinkLoss::Fail => self.kept.remove(&owner.0),
            OnLinkLoss::KeepUntilDeadline => self.kept.insert(owner.0),
        };
    }

    /// Whether an owner's answers outlive the connections to the peer.
    pub(super) fn keeps(&self, owner: Owner) -> bool {
        self.kept.contains(&owner.0)
    }

    #[inline]
    pub(super) fn touch(&self) {
        #[cfg(test)]
        self.touched.set(self.touched.get() + 1);
    }
}
