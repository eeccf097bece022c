//! What a shard has for others to take, and mostly has none of.

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
    /// Exchanges the shard's queues for others, unless there is something in one of them. Whoever
    /// runs thousands of shards in turns lends all of them the same queues, which stay in the
    /// processor's caches.
    pub fn swap_queues(&mut self, others: &mut Queues) {
        if self.queues.are_empty() && others.are_empty() {
            core::mem::swap(&mut self.queues, others);
        }
    }
}
