//! What outlives its deadline: messages that wait in the core end there, and whoever checks a
//! world can ask what did not.

use super::{Msg, SCAN_INTERVAL, Shard, Stage};
use crate::lnd::{Action, OpKey, Verdict};
use crate::status::Status;
use crate::time::Time;

impl Stage {
    /// Whether a message waits in the core for something that others must do.
    pub(super) fn waits(self) -> bool {
        matches!(self, Stage::Discovery | Stage::PeerCredit | Stage::NiCredit)
    }
}

impl Shard {
    /// Ends what waited for its peer's discovery or for a credit until its deadline. The driver
    /// looks after what it was given.
    ///
    /// A credit that is granted after the deadline is not taken (lnet-core 3); but credits may be
    /// held for long, by messages to others, and whoever sent a message wants to hear of it.
    pub(super) fn expire_waiting(&mut self, now: Time) {
        let mut overdue: Vec<OpKey> = Vec::new();
        let mut next = Time::NEVER;
        for (op, msg) in self.msgs.iter().filter(|(_, msg)| msg.stage.waits()) {
            if msg.time <= now {
                overdue.push(op);
            } else {
                next = next.min(msg.time);
            }
        }
        // Many that expire one after the other must not cost a search each.
        self.next_expiry = next.max(now + SCAN_INTERVAL);
        for op in overdue {
            // Ending one may wake, and end, others of the list.
            if self.msgs.get(op).is_some_and(|msg| msg.stage.waits()) {
                self.retire(now, op, Status::TimedOut);
            }
        }
    }

    /// What should have ended by now and has not, in words: messages that wait in the core and
    /// answers that are awaited. Empty in a shard that was driven whenever it asked for it.
    pub fn overdue(&self, now: Time) -> Vec<String> {
        let is_late = |deadline: Time| deadline != Time::NEVER && deadline + SCAN_INTERVAL < now;
        let late = |deadline: Time| format!("{:?} after its deadline", now.since(deadline));
        let waiting = self.msgs.values().filter(|msg| msg.stage.waits() && is_late(msg.time));
        let waiting = waiting.map(|Msg { stage, purpose, hop, time: deadline, .. }| {
            format!("a {purpose:?} of {} is in {stage:?} {}", hop.nid, late(*deadline))
        });
        let awaited = self.mds.values().filter(|state| is_late(state.answer_by));
        let awaited = awaited.map(|state| {
            format!("an answer of {} is awaited {}", state.answer_from.nid, late(state.answer_by))
        });
        waiting.chain(awaited).collect()
    }

    /// How many messages the driver has: those it was given to send, and those whose payload it
    /// stores.
    pub fn in_driver(&self) -> usize {
        let with_driver = |msg: &&Msg| matches!(msg.stage, Stage::Sending | Stage::Receiving);
        let on_the_way = |action: &&Action| match action {
            Action::Send(_) => true,
            Action::Resume { verdict, .. } => matches!(verdict, Verdict::Into { .. }),
            Action::Close { .. } => false,
        };
        let all = self.msgs.values().filter(with_driver).count();
        all - self.queues.outbox.iter().filter(on_the_way).count()
    }
}
