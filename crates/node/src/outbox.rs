//! Messages to the other event loops that wait until there is room.

use std::collections::VecDeque;

use lustrine_sys::{PushError, Sender};

/// Largest number of values that wait for one mailbox. A loop that is this far behind is stuck;
/// later values are dropped, so that they do not use up the memory of the process.
const WAITING_MAX: usize = 65_536;

/// Sends to the other event loops: keeps what a full mailbox does not accept, in order.
pub(crate) struct Outbox<T> {
    others: Vec<Sender<T>>,
    waiting: Vec<VecDeque<T>>,
    /// Values dropped because too many were waiting.
    overflowed: u64,
}

impl<T> Outbox<T> {
    pub(crate) fn new(others: Vec<Sender<T>>) -> Outbox<T> {
        let waiting = others.iter().map(|_| VecDeque::new()).collect();
        Outbox { others, waiting, overflowed: 0 }
    }

    /// Sends a value to loop `to`, now or when there is room.
    pub(crate) fn send(&mut self, to: usize, value: T) {
        let waiting = &mut self.waiting[to];
        if waiting.len() >= WAITING_MAX {
            self.count_overflow(to);
            return;
        }
        waiting.push_back(value);
        self.deliver_to(to);
    }

    /// Tries again to send the waiting values.
    pub(crate) fn deliver(&mut self) {
        for to in 0..self.others.len() {
            self.deliver_to(to);
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    fn deliver_to(&mut self, to: usize) {
        let waiting = &mut self.waiting[to];
        while let Some(value) = waiting.pop_front() {
            match self.others[to].push(value) {
                Ok(()) => {}
                Err(PushError::Full(value)) => {
                    waiting.push_front(value);
                    return;
                }
                // The node is stopping, or that loop has failed and has logged it.
                Err(PushError::Closed(_)) => waiting.clear(),
            }
        }
    }

    /// Logs the first drop, and then at intervals.
    fn count_overflow(&mut self, to: usize) {
        if self.overflowed.is_multiple_of(WAITING_MAX as u64) {
            let dropped = self.overflowed + 1;
            tracing::warn!(cpt = to, dropped, "an event loop does not empty its mailbox");
        }
        self.overflowed += 1;
    }
}

#[cfg(test)]
mod tests;
