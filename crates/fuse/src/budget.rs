//! A limit on the data of reads and writes that are under way.

use std::collections::VecDeque;

use lustrine_client::Client;
use lustrine_lnet::service::Turn;

/// An operation of the client that is about to be started.
pub(crate) type Job = Box<dyn FnOnce(&mut Client, &mut Turn<'_>) + Send>;

/// Bytes that reads and writes hold in the node's memory, and the operations that wait for some.
///
/// The kernel limits how many wait: it has at most one request of each thread of a program, and a
/// fixed number of others.
#[derive(Default)]
pub(crate) struct Budget {
    used: u64,
    waiting: VecDeque<(u64, Job)>,
}

/// Most bytes under way: a quarter of the memory of a node without selftest, because descriptors
/// are rounded up, and the servers' requests need some too.
const LIMIT: u64 = 64 << 20;

impl Budget {
    /// Takes bytes for an operation, which is handed back if it may start now. Otherwise it waits.
    pub(crate) fn take(&mut self, bytes: u64, job: Job) -> Option<Job> {
        if self.waiting.is_empty() && self.fits(bytes) {
            self.used += bytes;
            return Some(job);
        }
        self.waiting.push_back((bytes, job));
        None
    }

    /// An operation is over. The outcome may start now.
    pub(crate) fn give(&mut self, bytes: u64) -> Vec<Job> {
        self.used = self.used.saturating_sub(bytes);
        let mut ready = Vec::new();
        while let Some((bytes, _)) = self.waiting.front() {
            let bytes = *bytes;
            if !self.fits(bytes) {
                break;
            }
            self.used += bytes;
            ready.extend(self.waiting.pop_front().map(|(_, job)| job));
        }
        ready
    }

    /// One operation always fits.
    fn fits(&self, bytes: u64) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Box::new(|_, _| {})
    }

    #[test]
    fn operations_wait_for_memory_in_their_order() {
        let mut budget = Budget::default();
        assert!(budget.take(LIMIT - 10, job()).is_some());
        assert!(budget.take(20, job()).is_none());
        // It would fit, and waits behind the one that does not.
        assert!(budget.take(5, job()).is_none());
        assert_eq!(budget.give(LIMIT - 10).len(), 2);
        assert_eq!(budget.used, 25);
    }

    #[test]
    fn one_that_is_larger_than_the_limit_starts_alone() {
        let mut budget = Budget::default();
        assert!(budget.take(LIMIT + 1, job()).is_some());
        assert!(budget.take(1, job()).is_none());
        assert_eq!(budget.give(LIMIT + 1).len(), 1);
    }
}
