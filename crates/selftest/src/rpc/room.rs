//! Those that wait for room in the window to one peer.

use std::collections::VecDeque;

/// Units that wait, in their order.
#[derive(Debug, Default)]
pub(crate) struct RoomQueue(VecDeque<u32>);

impl RoomQueue {
    /// A unit waits behind the others.
    pub(crate) fn join(&mut self, unit: u32) {
        self.0.push_back(unit);
    }

    /// The unit that has waited for longest.
    pub(crate) fn first(&mut self) -> Option<u32> {
        self.0.pop_front()
    }

    /// A unit that was the first found no room: it is the first again.
    pub(crate) fn first_again(&mut self, unit: u32) {
        self.0.push_front(unit);
    }

    /// Forgets those that `waits` does not hold for.
    pub(crate) fn retain(&mut self, waits: impl Fn(u32) -> bool) {
        self.0.retain(|unit| waits(*unit));
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
