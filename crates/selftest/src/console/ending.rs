//! The end of a session whose tests run: they are stopped, and waited for, before nodes leave.
//!
//! The selftest of a kernel node can hang until that node is rebooted if its session ends while a
//! test runs (docs/live-kernels.md). So whoever ends a session of this console, also its time-out,
//! has that done first. Clients that do not answer are not waited for, and others for a bounded
//! time: the session ends in any case.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{BatchOp, BatchRequest, Body, Service, Sid};

use super::Console;
use super::command::{Detail, NodeReply, Reply};
use super::session::Session;
use super::times::{ANSWER, STOPS_MAX};
use super::work::{Goal, Work};

/// The time between two queries whether tests have ended.
const LOOK_PAUSE: Nanos = Nanos::from_millis(200);

/// The interval at which the stop is sent again, as it may have been lost.
const STOP_AGAIN: Nanos = Nanos::from_secs(5);

/// A batch at one of its clients.
type Part = (u64, Nid);

/// A session that ends.
#[derive(Debug)]
pub(super) struct Ending {
    /// Who waits for it.
    ticket: Option<u64>,
    /// What comes after it.
    goal: Goal,
    /// What may run, with the tests that were active when the client last said so.
    running: BTreeMap<Part, u32>,
    /// What clients were asked about and did not answer. They are stopped again with the others,
    /// and not waited for.
    silent: BTreeSet<Part>,
    /// What the RPCs in flight are about, in the order of the answers.
    asked: Vec<Part>,
    /// When it is looked again; never while RPCs are in flight.
    look_at: Time,
    /// When the stop is sent again.
    stop_at: Time,
    /// When nothing is waited for any more.
    until: Time,
}

impl Console {
    /// Ends the session once its tests have stopped. `ticket` names the caller that waits for it.
    pub(super) fn end_session(&mut self, now: Time, ticket: Option<u64>, goal: Goal) {
        let running = self.session.as_ref().map(Session::may_run).unwrap_or_default();
        if running.is_empty() {
            return self.leave_all(now, ticket, goal);
        }
        self.ending = Some(Ending {
            ticket,
            goal,
            running,
            silent: BTreeSet::new(),
            asked: Vec::new(),
            look_at: Time::NEVER,
            stop_at: Time::ZERO,
            until: now + STOPS_MAX,
        });
        self.look_at_ending(now);
    }

    /// Ends the session without waiting for its tests.
    pub(super) fn end_session_at_once(&mut self, now: Time, ticket: Option<u64>, goal: Goal) {
        self.note_unstopped(self.session.as_ref().map(Session::may_run).unwrap_or_default());
        self.leave_all(now, ticket, goal);
    }

    /// The tests of the session that ends are not waited for any longer.
    pub(super) fn hasten_end(&mut self, now: Time) {
        if self.ending.is_none() {
            return;
        }
        if let Some(mut work) = self.work.take() {
            self.withdraw(&mut work);
        }
        self.leave_stopped(now);
    }

    /// When [`Console::look_at_ending`] is due.
    pub(super) fn next_look(&self) -> Time {
        self.ending.as_ref().map_or(Time::NEVER, |ending| ending.look_at)
    }

    /// Sends the next stop or query to the clients whose tests may run.
    pub(super) fn look_at_ending(&mut self, now: Time) {
        let Some(ending) = &mut self.ending else { return };
        let (op, goal) = match now >= ending.stop_at {
            true => (BatchOp::Stop, Goal::Stopped),
            false => (BatchOp::Query, Goal::Looked),
        };
        let mut asked: Vec<Part> = ending.running.keys().copied().collect();
        if op == BatchOp::Stop {
            ending.stop_at = now + STOP_AGAIN;
            asked.extend(&ending.silent);
        }
        ending.look_at = Time::NEVER;
        ending.asked.clone_from(&asked);
        let sid = self.session.as_ref().map_or(Sid::NONE, |session| session.sid);
        let mut work = Work::new(None, goal, ANSWER).brief();
        let nids = asked.iter().map(|(_, nid)| *nid).collect();
        self.give_all(&mut work, Service::Batch, nids, |index, _| {
            let (batch, op) = (asked[index].0, op as u32);
            let request = BatchRequest { reply_bits: 0, sid, batch, op, test: 0, arg: 0 };
            (Body::BatchRequest(request), Vec::new())
        });
        self.work = Some(work);
    }

    /// The clients have answered the stop.
    pub(super) fn stopped(&mut self, now: Time, said: &[NodeReply]) {
        let Some(ending) = &mut self.ending else { return };
        for (part, said) in core::mem::take(&mut ending.asked).into_iter().zip(said) {
            ending.heard(part, said);
        }
        match ending.is_over(now) {
            true => self.leave_stopped(now),
            false => self.look_at_ending(now),
        }
    }

    /// The clients said what still runs.
    pub(super) fn looked(&mut self, now: Time, said: &[NodeReply]) {
        let Some(ending) = &mut self.ending else { return };
        for (part, said) in core::mem::take(&mut ending.asked).into_iter().zip(said) {
            ending.heard(part, said);
            if said.reply == Reply::Good(Detail::Active(0)) {
                ending.running.remove(&part);
            }
        }
        match ending.is_over(now) {
            true => self.leave_stopped(now),
            false => ending.look_at = now + LOOK_PAUSE,
        }
    }

    /// The tests have ended, or are waited for no longer: the nodes leave.
    fn leave_stopped(&mut self, now: Time) {
        let Some(Ending { ticket, goal, mut running, silent, .. }) = self.ending.take() else {
            return;
        };
        let was_ours =
            |nid: &Nid| self.session.as_ref().is_some_and(|session| session.was_ours(nid));
        self.unreached = silent.iter().map(|(_, nid)| *nid).filter(|nid| !was_ours(nid)).collect();
        for part in silent {
            running.entry(part).or_insert(1);
        }
        self.note_unstopped(running);
        self.leave_all(now, ticket, goal);
    }

    fn note_unstopped(&mut self, running: BTreeMap<Part, u32>) {
        self.unstopped.clear();
        for ((_, nid), active) in running {
            let sum = self.unstopped.entry(nid).or_default();
            *sum = u32::saturating_add(*sum, active);
        }
    }
}

impl Ending {
    fn heard(&mut self, part: Part, said: &NodeReply) {
        match &said.reply {
            Reply::None { .. } => {
                self.running.remove(&part);
                self.silent.insert(part);
            }
            // It knows no such batch, or is in no session of ours.
            Reply::Refused(_) => {
                self.running.remove(&part);
                self.silent.remove(&part);
            }
            Reply::Good(detail) => {
                let active = self.running.entry(part).or_insert(1);
                if let Detail::Active(now @ 1..) = detail {
                    *active = *now;
                }
                self.silent.remove(&part);
            }
        }
    }

    fn is_over(&self, now: Time) -> bool {
        self.running.is_empty() || now >= self.until
    }
}
