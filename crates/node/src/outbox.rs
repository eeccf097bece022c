//! Messages to the other event loops that wait until there is room.

use std::collections::VecDeque;

use lustrine_sys::{PushError, Sender};

/// Most values that wait for one mailbox. A loop that is this far behind is stuck; what comes
/// after is dropped, so that it does not take the memory of the whole process with it.
const WAITING_MAX: usize = 65_536;

/// The way to the other event loops: keeps what a full mailbox does not take, in order.
pub(crate) struct Outbox<T> {
    others: Vec<Sender<T>>,
    waiting: Vec<VecDeque<T>>,
    /// Values dropped because too many waited already.
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

    /// Tries again what had to wait.
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
                // The node is stopping, or that loop has failed, which it has told itself.
                Err(PushError::Closed(_)) => waiting.clear(),
            }
        }
    }

    /// Tells the first time, and then every so often.
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
