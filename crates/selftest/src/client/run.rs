//! The course of a step: its units start, are measured and drain, and the silence of the node is
//! noticed on the way.

use lustrine_lnet::memory::Memory;
use lustrine_lnet::time::{Nanos, Time};

use super::link::LinkEvent;
use super::step_stats::is_outage;
use super::{Client, ClientError, Drain, LoadStep, Phase, StepLimit};
use crate::bulk::charge;
use crate::load::{self, TestError, TestRpc, Unsent};
use crate::rpc::{Completion, RpcError};
use crate::turn::Turn;

/// How long the node may be silent at the end of a step before RPCs that are still out are given
/// up. As long as anything arrives they may end, or reach their own time-out.
const DRAIN: Nanos = Nanos::from_secs(5);

/// How much longer than asked a step warms up when the first RPC of a unit does not end.
pub(super) const WARM_UP_EXTRA: Nanos = Nanos::from_secs(10);

/// A step that cannot begin, or cannot go on, for this many times the client's patience ends the
/// client. A node that is silent does so earlier; this is for one that answers, but forgets the
/// session again and again.
const FORGETFUL_FACTOR: u64 = 2;

/// Nothing arrives of the node for this long, and for [`STALL_FACTOR`] times the longest test RPC
/// so far: then it is asked whether it is there. If it is, but still sends nothing else for as
/// long again, and for [`STALL_FACTOR`] times what its answer took, what was in flight is lost.
/// It is asked before half of the client's patience is over, so that it has the other half to say
/// something.
const STALL_MIN: Nanos = Nanos::from_secs(3);

/// See [`STALL_MIN`].
const STALL_FACTOR: u64 = 8;

impl Client {
    /// A unit's RPC is over.
    pub(super) fn complete<M: Memory>(&mut self, turn: &mut Turn<'_, M>, completion: &Completion) {
        let index = completion.user;
        let (Some((_, plan)), Some(unit)) = (self.step, self.units.get_mut(index)) else { return };
        let sink = unit.sink.map(|grant| grant.span);
        match load::judge(turn.memory, &plan, sink, unit.seq, completion) {
            Ok(()) => {
                self.units.succeeded(index);
                self.stats.success(turn.now, completion.took, plan.test().len());
                self.progressed = true;
                if self.phase == Phase::Running {
                    self.send_next(turn, index);
                }
            }
            Err(error) => {
                self.units.failed(turn.now, index);
                if !(self.interrupted && error == TestError::Rpc(RpcError::Aborted)) {
                    self.stats.failure(error);
                    if error.is_lost() {
                        self.stats.never_ended(turn.now, completion.took);
                    }
                }
                if is_outage(error) {
                    let begun = Time(turn.now.0.saturating_sub(completion.took.0));
                    let heard_at = self.signs.heard_at().unwrap_or(begun);
                    self.link.doubt(turn.now, heard_at.max(begun));
                }
            }
        }
        if self.units.any_waits_for_room() {
            self.pump(turn);
        }
    }

    /// Starts units that wait for room in the window, as far as there is room.
    pub(super) fn pump<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        while self.phase == Phase::Running && self.link.is_usable() {
            let Some(index) = self.units.first_for_room() else { return };
            if !self.send(turn, index) {
                return self.units.waits_on(index);
            }
        }
    }

    /// Starts a unit's next RPC, if the node is there; behind those that wait for the window.
    fn send_next<M: Memory>(&mut self, turn: &mut Turn<'_, M>, index: u32) {
        if self.units.any_waits_for_room() || !self.send(turn, index) {
            self.units.wait_for_room(index);
        }
    }

    /// Starts a unit's next RPC, if the node is there. `false` if the window has no room for it.
    #[inline]
    fn send<M: Memory>(&mut self, turn: &mut Turn<'_, M>, index: u32) -> bool {
        let (Some((_, plan)), true) = (self.step, self.link.is_usable()) else { return true };
        let Some(unit) = self.units.get_mut(index) else { return true };
        self.seq = self.seq.wrapping_add(1);
        unit.seq = self.seq;
        let shot = TestRpc {
            peer: self.args.target,
            local: self.args.local,
            sink: unit.sink.map(|grant| grant.span),
            seq: unit.seq,
            timeout: self.timeout,
            user: index,
        };
        let fired =
            load::send_test(turn, &mut self.caller, &mut self.source, self.wall, &plan, shot);
        match fired {
            Ok(rpc) => self.units.called(turn.now, index, rpc),
            Err(Unsent::NoRoom) => return false,
            Err(Unsent::Failed(failure)) => {
                self.stats.failure(TestError::Rpc(failure));
                self.units.pause(turn.now, index);
            }
        }
        true
    }

    /// The news of the session.
    pub(super) fn hear<M: Memory>(&mut self, turn: &mut Turn<'_, M>, news: LinkEvent) {
        match news {
            LinkEvent::Nothing => {}
            LinkEvent::Lost => {
                self.abort_calls(turn, |_| true);
                match self.phase {
                    Phase::Before => self.link.want_counters(),
                    Phase::After => self.phase = Phase::Idle,
                    Phase::Idle | Phase::Running | Phase::Draining(_) => {}
                }
            }
            LinkEvent::Counters(counters) => match self.phase {
                Phase::Before => {
                    self.stats.before = counters;
                    self.start_units(turn);
                }
                Phase::After => {
                    self.stats.after = counters;
                    self.phase = Phase::Idle;
                }
                Phase::Idle | Phase::Running | Phase::Draining(_) => {}
            },
        }
    }

    pub(super) fn start_units<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        let Some((step, plan)) = self.step else { return };
        let len = plan.sink_len();
        if !self.units.make(turn.memory, &mut self.budget, step.concurrency, len) {
            let needed = len.map_or(0, charge) * u64::from(step.concurrency);
            self.error = Some(ClientError::Memory { needed });
            self.phase = Phase::Idle;
            self.link.close(turn.now);
            return;
        }
        self.started = turn.now;
        self.warmed_up = false;
        self.stuck_since = None;
        self.phase = Phase::Running;
        self.was_usable = false;
    }

    /// Ends the client when a step neither begins nor goes on although the node answers.
    pub(super) fn mind_progress<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        let stuck = match self.phase {
            Phase::Before => true,
            Phase::Running => !self.link.is_usable(),
            Phase::Idle | Phase::Draining(_) | Phase::After => false,
        };
        if !stuck {
            self.stuck_since = None;
            return;
        }
        let since = *self.stuck_since.get_or_insert(turn.now);
        if turn.now.since(since).0 >= self.args.patience.0.saturating_mul(FORGETFUL_FACTOR) {
            self.give_up(turn, ClientError::Forgetful);
            self.link.close(turn.now);
        }
    }

    /// A turn of a step.
    pub(super) fn run<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        let Some((step, _)) = self.step else { return };
        let usable = self.link.is_usable();
        if usable && !self.was_usable {
            for index in 0..self.units.len() {
                if self.units.is_idle(index) {
                    self.send_next(turn, index);
                }
            }
            self.pump(turn);
        }
        self.was_usable = usable;
        while let Some(index) = self.units.wake_one(turn.now) {
            self.send_next(turn, index);
        }
        self.watch(turn, usable);
        let warm_at = self.started + step.warm_up;
        self.warmed_up = turn.now >= warm_at;
        let warm = self.units.are_warm() || turn.now >= warm_at + WARM_UP_EXTRA;
        if self.stats.measured_from.is_none() && self.warmed_up && warm {
            self.stats.measured_from = Some(turn.now);
        }
        let over = match step.limit {
            StepLimit::Time(length) => self.stats.elapsed(turn.now) >= length,
            StepLimit::Count(count) => self.stats.ended() >= count,
        };
        if self.stats.is_measuring() && over {
            self.end_measurement(turn.now);
        }
    }

    /// Keeps account of the time the node is away, and notices when it falls silent.
    fn watch<M: Memory>(&mut self, turn: &mut Turn<'_, M>, usable: bool) {
        let now = turn.now;
        match (usable, self.down_since) {
            (false, None) => self.down_since = Some(now),
            (true, Some(since)) => {
                if let Some(from) = self.stats.measured_from {
                    self.stats.down.0 += now.since(since.max(from)).0;
                }
                self.down_since = None;
                self.up_since = now;
                // It is there; whether what was in flight before comes back remains to be seen.
                self.suspect_since = Some(since);
                self.answer_took = self.link.answer_took();
            }
            _ => {}
        }
        if now < self.stall_deadline() {
            return;
        }
        match self.suspect_since.take() {
            Some(since) if self.signs.load_at() < since => {
                self.up_since = now;
                self.abort_calls(turn, |started| started < since);
            }
            _ => self.link.doubt(now, self.signs.load_at().max(self.up_since)),
        }
    }

    /// When silence becomes suspicious. Only after a first success: before, it is unknown how long
    /// an RPC takes here. Whatever arrives is a sign of life: the answer to a control RPC may
    /// stand behind megabytes of the load's own data.
    pub(super) fn stall_deadline(&self) -> Time {
        if !self.progressed || self.units.calling() == 0 || !self.link.is_usable() {
            return Time::NEVER;
        }
        // Once the load flows again nothing is suspect any more.
        let silence = match self.suspect_since.filter(|since| self.signs.load_at() < *since) {
            None => self.usual_silence().min(Nanos(self.args.patience.0 / 2)),
            Some(_) => self.usual_silence(),
        };
        self.signs.load_at().max(self.up_since) + silence
    }

    /// How long nothing of the load may arrive, given how slow the way has been.
    fn usual_silence(&self) -> Nanos {
        let slowest = self.stats.longest.max(self.answer_took);
        Nanos(slowest.0.saturating_mul(STALL_FACTOR)).max(STALL_MIN)
    }

    /// Notices what has arrived of the node, for whomever; `control` of it are replies to control
    /// RPCs.
    pub(super) fn look<M: Memory>(&mut self, turn: &Turn<'_, M>, control: u64) {
        let received = turn.shard.received_from(&self.args.target.nid);
        self.signs.look(turn.now, received, control);
    }

    pub(super) fn end_measurement(&mut self, now: Time) {
        if let (Some(since), Some(from)) = (self.down_since.take(), self.stats.measured_from) {
            self.stats.down.0 += now.since(since.max(from)).0;
        }
        self.stats.measured_to.get_or_insert(now);
        self.phase = Phase::Draining(Drain::Rpcs(now));
    }

    /// Waits for the last RPCs of a step.
    pub(super) fn drain<M: Memory>(&mut self, turn: &mut Turn<'_, M>, drain: Drain) {
        if self.units.calling() > 0 {
            self.phase = Phase::Draining(self.wait_for_the_last(turn, drain));
            return;
        }
        self.units.clear(turn.memory, &mut self.budget);
        let timed = matches!(self.step, Some((LoadStep { limit: StepLimit::Time(_), .. }, _)));
        if timed && !self.interrupted && self.stats.ops == 0 && self.stats.errors.is_empty() {
            self.stats.failure(TestError::NoneEnded);
        }
        if self.link.is_present() && self.link.has_session() {
            self.link.want_counters();
            self.phase = Phase::After;
        } else {
            self.phase = Phase::Idle;
        }
    }

    /// RPCs of a step that is over may end as long as anything arrives. What is waited for next.
    fn wait_for_the_last<M: Memory>(&mut self, turn: &mut Turn<'_, M>, drain: Drain) -> Drain {
        let now = turn.now;
        let silence = DRAIN.max(self.usual_silence()).min(Nanos(self.args.patience.0 / 2));
        let silent_at = self.signs.load_at() + silence;
        match drain {
            Drain::Events => {}
            _ if !self.is_patient() => self.abort_calls(turn, |_| true),
            _ if !self.link.is_present() => return Drain::Answer,
            Drain::Answer => return Drain::Late(now + silence),
            Drain::Rpcs(until) if now < until.max(silent_at) => {
                return Drain::Rpcs(until.max(silent_at));
            }
            Drain::Late(until) if now < until.max(silent_at) => {
                return Drain::Late(until.max(silent_at));
            }
            Drain::Late(_) => self.abort_calls(turn, |_| true),
            Drain::Rpcs(_) => {
                self.link.doubt(now, self.signs.load_at().max(self.up_since));
                return Drain::Answer;
            }
        }
        Drain::Events
    }

    /// Neither the user nor an error has ended the client.
    fn is_patient(&self) -> bool {
        !self.interrupted && self.error.is_none()
    }

    fn abort_calls<M: Memory>(&mut self, turn: &mut Turn<'_, M>, which: impl Fn(Time) -> bool) {
        for (rpc, started) in self.units.calls() {
            if which(started) {
                self.caller.abort(turn, rpc, RpcError::Aborted);
            }
        }
    }

    pub(super) fn give_up<M: Memory>(&mut self, turn: &mut Turn<'_, M>, error: ClientError) {
        self.error = Some(error);
        match self.phase {
            Phase::Running | Phase::Draining(_) => self.end_measurement(turn.now),
            Phase::Idle | Phase::Before | Phase::After => self.phase = Phase::Idle,
        }
    }
}
