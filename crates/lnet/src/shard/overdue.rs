//! Deadlines of messages that wait in the core, and a report for checkers of what is overdue.

use super::queues::Queued;
use super::{Msg, SCAN_INTERVAL, Shard, Stage};
use crate::lnd::Verdict;
use crate::status::Status;
use crate::time::Time;

impl Stage {
    /// Whether a message waits in the core.
    pub(super) fn waits(self) -> bool {
        matches!(self, Stage::Discovery | Stage::PeerCredit | Stage::NiCredit)
    }

    /// Whether the driver has it.
    pub(super) fn is_in_driver(self) -> bool {
        matches!(self, Stage::Sending | Stage::Receiving | Stage::ReplyInPlace)
    }
}

impl Shard {
    /// Ends messages that have waited for discovery or for a credit until their deadline. The
    /// driver checks the deadlines of those that it was given.
    ///
    /// A credit that is granted after the deadline is not used ([CORE-14]). But other messages may
    /// hold the credits for long, and the sender has to learn of the failure in time.
    pub(super) fn expire_waiting(&mut self, now: Time) {
        let overdue = self.msgs.overdue(now);
        for op in overdue {
            // Ending one may wake, and end, others of the list.
            if self.msgs.get(op).is_some_and(|msg| msg.stage.waits()) {
                self.retire(now, op, Status::TimedOut);
            }
        }
    }

    /// Describes the messages and awaited answers that should have ended by now. Empty if
    /// [`Shard::drive`] was called whenever [`Shard::next_deadline`] was reached.
    pub fn overdue(&self, now: Time) -> Vec<String> {
        let is_late = |deadline: Time| deadline != Time::NEVER && deadline + SCAN_INTERVAL < now;
        let late = |deadline: Time| format!("{:?} after its deadline", now.since(deadline));
        let waiting = self.msgs.values().filter(|msg| msg.stage.waits() && is_late(msg.time));
        let waiting = waiting.map(|msg| {
            let Msg { stage, purpose, hop, time: deadline, .. } = &**msg;
            format!("a {purpose:?} of {} is in {stage:?} {}", hop.nid, late(*deadline))
        });
        let awaited = self.mds.values().filter(|state| is_late(state.answer_by));
        let awaited = awaited.map(|state| {
            format!("an answer of {} is awaited {}", state.answer_from.nid, late(state.answer_by))
        });
        waiting.chain(awaited).collect()
    }

    /// Number of messages in the driver: those that it sends, and those whose payload it stores.
    pub fn in_driver(&self) -> usize {
        let on_the_way = |action: &&Queued| match action {
            Queued::Send { .. } => true,
            Queued::Resume(resumed) => matches!(resumed.verdict, Verdict::Into { .. }),
        };
        let all = self.msgs.values().filter(|msg| msg.stage.is_in_driver()).count();
        all - self.reports.actions().filter(on_the_way).count()
    }
}
