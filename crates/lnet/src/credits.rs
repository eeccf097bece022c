//! One type for every kind of credit: of peer NIDs and of interfaces ([CORE-12]).

use crate::lnd::OpKey;
use crate::wait_queue::{WaitQueue, WaitQueues};

/// A number of messages that may be in flight, and the queue of those that wait for a credit.
///
/// A message either holds a credit or waits in the queue, in the order of arrival.
#[derive(Debug)]
pub(crate) struct Credits {
    max: u32,
    free: u32,
    /// The next `max`, which applies as soon as no message holds a credit.
    wanted: u32,
    /// Lowest value of `free - waiting` so far; LNet's "min" watermark.
    low: i64,
    waiting: WaitQueue<OpKey>,
}

/// What [`Credits::take`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquire {
    Granted,
    Queued,
}

impl Credits {
    pub(crate) fn new(max: u32) -> Credits {
        Credits { max, free: max, wanted: max, low: i64::from(max), waiting: WaitQueue::default() }
    }

    /// Changes the number of credits, as soon as no message holds one.
    pub(crate) fn resize(&mut self, max: u32) {
        self.wanted = max;
        self.settle();
    }

    fn settle(&mut self) {
        if self.wanted != self.max && self.idle() {
            (self.max, self.free) = (self.wanted, self.wanted);
            self.low = i64::from(self.wanted);
        }
    }

    /// Takes a credit for `op`, or queues it.
    #[inline]
    pub(crate) fn take(&mut self, lines: &mut WaitQueues<OpKey>, op: OpKey) -> Acquire {
        let taken = if self.free > 0 {
            self.free -= 1;
            Acquire::Granted
        } else {
            lines.push_back(&mut self.waiting, op);
            Acquire::Queued
        };
        self.low = self.low.min(self.available());
        taken
    }

    /// Gives a credit back. When a message waits, the credit passes to it and it is returned.
    #[inline]
    pub(crate) fn give(&mut self, lines: &mut WaitQueues<OpKey>) -> Option<OpKey> {
        let next = lines.pop_front(&mut self.waiting);
        if next.is_none() {
            assert!(self.free < self.max, "a credit was given back twice");
            self.free += 1;
            self.settle();
        }
        next
    }

    /// Takes a message out of the queue that will not be sent; whether it was there.
    pub(crate) fn leave(&mut self, lines: &mut WaitQueues<OpKey>, op: OpKey) -> bool {
        lines.remove(&mut self.waiting, op)
    }

    /// Free credits, or minus the length of the queue, as LNet shows it.
    pub(crate) fn available(&self) -> i64 {
        i64::from(self.free) - self.waiting.len() as i64
    }

    pub(crate) fn low(&self) -> i64 {
        self.low
    }

    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no message holds a credit and none waits.
    pub(crate) fn idle(&self) -> bool {
        self.free == self.max && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
