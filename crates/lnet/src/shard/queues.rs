//! Queues of actions and events, which are mostly empty.

use std::collections::VecDeque;

use super::Shard;
use crate::event::Event;
use crate::lnd::Action;

/// Actions for drivers and events for users.
#[derive(Debug, Default)]
pub struct Queues {
    pub(super) outbox: VecDeque<Action>,
    pub(super) events: VecDeque<Event>,
}

impl Queues {
    pub(super) fn are_empty(&self) -> bool {
        self.events.is_empty() && self.outbox.is_empty()
    }
}

impl Shard {
    /// Swaps the shard's queues with others if all are empty. A simulator that runs thousands of
    /// shards in turn uses the same queues for all of them, which stay in the processor's caches.
    pub fn swap_queues(&mut self, others: &mut Queues) {
        if self.queues.are_empty() && others.are_empty() {
            core::mem::swap(&mut self.queues, others);
        }
    }
}
