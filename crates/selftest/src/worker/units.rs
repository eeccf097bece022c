//! Client units: each has one destination and at most one RPC outstanding [LST-27].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use foldhash::fast::FixedState;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_wire::nid::ProcessId;

use crate::bulk::{Budget, Grant, Source, Term};
use crate::counters::SessionErrors;
use crate::cpt_message::{InstanceId, OnError, Stop, ToFramework, Work};
use crate::latencies::LATENCY_MAX;
use crate::limits::UNITS_MAX;
use crate::load::{self, Test, TestRpc, Unsent};
use crate::measured::Measured;
use crate::rpc::{Completion, LnetErrorKind, RoomQueue, RpcClient, RpcError};
use crate::slab::Slab;
use crate::turn::Turn;

/// Pause of a unit after a failed RPC that does not end it, and of one LNet had no room for:
/// failures can be instant, and a loop turn must end.
const PAUSE: Nanos = Nanos::from_millis(10);

/// For how long an RPC of an instance with a rate may wait until it can be sent. Those of a longer
/// outage are not sent; they count with this latency, which is the longest that is distinguished.
const LATE_MAX: Nanos = Nanos(LATENCY_MAX);

/// What a unit is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not running.
    Idle,
    /// On the list of those that wait for memory.
    Hungry,
    /// On the list of those that wait until the window to their peer has room.
    Windowed,
    /// On the list of those that pause.
    Paused,
    /// Waits until its RPC is due at this time, so that the instance keeps to its rate.
    NotDue(Time),
    /// In the RPC of this slot.
    Calling(u32),
}

/// Whether the window to a unit's peer had room for its RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// It had, or the RPC waits for something else.
    Enough,
    /// It is full, or its RPCs are spread over time.
    None,
}

#[derive(Debug)]
struct Unit {
    group: u32,
    peer: ProcessId,
    state: State,
    /// RPCs still to make in this run; `None` is without end.
    left: Option<u32>,
    seq: u32,
    sink: Option<Grant>,
    /// When the RPC that it is in, or that it makes next, was due; of groups with a rate alone.
    due: Option<Time>,
}

/// The units of one test instance.
#[derive(Debug)]
struct Group {
    instance: InstanceId,
    work: Work,
    units: Vec<u32>,
    active: u32,
    mode: Mode,
    /// Units that ended since the last report to the framework.
    ended: u32,
    /// Whether it is on the list of groups to be reported to the framework.
    reported: bool,
    /// When the next RPC is due; of groups with a rate alone.
    next_due: Time,
    /// When the units were started, while they run.
    started: Option<Time>,
    measured: Measured,
}

impl Group {
    /// When an RPC is due that a unit can send now.
    fn take_next_due(&mut self, now: Time) -> Time {
        self.skip_overdue(now);
        let due = self.next_due;
        self.next_due = due + self.work.interval;
        due
    }

    /// Counts the RPCs that are due for too long to be sent.
    fn skip_overdue(&mut self, now: Time) {
        let interval = self.work.interval.0.max(1);
        let late = now.since(self.next_due).0.saturating_sub(LATE_MAX.0);
        let never_sent = late.div_ceil(interval);
        if never_sent > 0 {
            self.measured.never_sent(never_sent);
            self.next_due = self.next_due + Nanos(never_sent * interval);
        }
    }

    /// Counts the RPCs that are due and will not be sent, as the run is over.
    fn count_unsent(&mut self, now: Time) {
        self.skip_overdue(now);
        if self.next_due <= now {
            let age = now.since(self.next_due);
            self.measured.unsent(age.0 / self.work.interval.0.max(1) + 1, age);
        }
        self.next_due = Time::NEVER;
    }

    /// The units are to run no more; their time is over.
    fn stop_clock(&mut self, now: Time) {
        if let Some(started) = self.started.take() {
            self.measured.age.0 += now.since(started).0;
        }
    }
}

/// What a group's active units are to do when their RPC is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The next one.
    Run,
    /// End; the node's error counters no longer count.
    Stop,
    /// End, and the group with its last unit.
    Remove,
}

/// What units work with; all of it belongs to the worker.
pub(super) struct Tools<'a> {
    pub(super) caller: &'a mut RpcClient,
    pub(super) source: &'a mut Source,
    pub(super) budget: &'a mut Budget,
    pub(super) wall: WallClock,
    pub(super) timeout: Nanos,
}

/// All client units of one CPU partition.
#[derive(Debug)]
pub(super) struct Units {
    units: Slab<Unit>,
    groups: Slab<Group>,
    by_instance: HashMap<InstanceId, u32, FixedState>,
    hungry: VecDeque<u32>,
    /// Those that wait for room in a window, by peer.
    windowed: HashMap<ProcessId, RoomQueue, FixedState>,
    /// All pauses are equally long, so the first one ends first.
    paused: VecDeque<(Time, u32)>,
    /// Those that wait until an RPC is due.
    not_due: BinaryHeap<Reverse<(Time, u32)>>,
    /// Whether statistics are kept.
    measures: bool,
    changed: Vec<u32>,
    errors: SessionErrors,
    /// One counter for all ping tests [LST-18].
    ping_seq: u32,
}

impl Units {
    /// `measures` says whether statistics are kept.
    pub(super) fn new(measures: bool) -> Units {
        Units {
            units: Slab::new(UNITS_MAX),
            groups: Slab::new(UNITS_MAX),
            by_instance: HashMap::with_hasher(FixedState::default()),
            hungry: VecDeque::new(),
            windowed: HashMap::with_hasher(FixedState::default()),
            paused: VecDeque::new(),
            not_due: BinaryHeap::new(),
            measures,
            changed: Vec::new(),
            errors: SessionErrors::default(),
            ping_seq: 0,
        }
    }

    /// Failed RPCs of this session.
    pub(super) fn errors(&self) -> SessionErrors {
        self.errors
    }

    /// A session begins.
    pub(super) fn new_session(&mut self) {
        self.errors = SessionErrors::default();
    }

    /// Makes the units of an instance; the framework has counted them.
    pub(super) fn add(&mut self, instance: InstanceId, work: Work, destinations: &[ProcessId]) {
        let group = Group {
            instance,
            work,
            units: Vec::new(),
            active: 0,
            mode: Mode::Stop,
            ended: 0,
            reported: false,
            next_due: Time::ZERO,
            started: None,
            measured: Measured::default(),
        };
        let Ok(index) = self.groups.insert(group) else { return };
        self.by_instance.insert(instance, index);
        if work.plan.test() == Test::Ping {
            self.ping_seq = 0;
        }
        let mut members = Vec::with_capacity(destinations.len() * work.concurrency as usize);
        for peer in destinations {
            for _ in 0..work.concurrency {
                let unit = Unit {
                    group: index,
                    peer: *peer,
                    state: State::Idle,
                    left: None,
                    seq: 0,
                    sink: None,
                    due: None,
                };
                members.push(self.units.insert(unit).expect("the framework counts units"));
            }
        }
        if let Some(group) = self.groups.get_mut(index) {
            group.units = members;
        }
    }

    /// Starts all units of an instance. The framework does so only while none is active.
    pub(super) fn run<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        instance: InstanceId,
    ) {
        let Some(group) = self.group_of(instance) else { return };
        if group.active > 0 {
            return;
        }
        group.mode = Mode::Run;
        group.active = group.units.len() as u32;
        group.started = Some(turn.now);
        group.next_due = turn.now;
        let loops = group.work.loops;
        for index in group.units.clone() {
            if let Some(unit) = self.units.get_mut(index) {
                unit.left = loops;
                self.next(turn, tools, index);
            }
        }
    }

    /// Stops the units of an instance.
    pub(super) fn stop<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        instance: InstanceId,
        how: Stop,
    ) {
        let Some(&of) = self.by_instance.get(&instance) else { return };
        let Some(group) = self.groups.get_mut(of) else { return };
        if group.mode == Mode::Run {
            group.mode = Mode::Stop;
        }
        let running = group.started.is_some();
        let has_rate = group.work.interval != Nanos::ZERO;
        if has_rate && running && self.measures {
            for index in &group.units {
                let Some(unit) = self.units.get_mut(*index) else { continue };
                let waits = matches!(unit.state, State::Hungry | State::Windowed | State::Paused);
                if waits && let Some(due) = unit.due.take_if(|due| *due <= turn.now) {
                    group.measured.unsent(1, turn.now.since(due));
                }
            }
            group.count_unsent(turn.now);
        }
        group.stop_clock(turn.now);
        let members = group.units.clone();
        if group.work.interval != Nanos::ZERO {
            // Times can be hours away; an entry of this run must not start an RPC of a later one.
            let units = &self.units;
            let other = |index: u32| units.get(index).is_some_and(|unit| unit.group != of);
            self.not_due.retain(|Reverse((_, index))| other(*index));
        }
        for index in members {
            match self.units.get(index).map(|unit| unit.state) {
                Some(State::Calling(rpc)) if how == Stop::AtOnce => {
                    tools.caller.abort(turn, rpc, RpcError::Aborted);
                }
                Some(State::Hungry | State::Windowed | State::Paused | State::NotDue(_)) => {
                    // Its entry on a list of those that wait for memory, or pause, is skipped when
                    // its turn comes.
                    self.end_unit(turn, tools, index);
                }
                _ => {}
            }
        }
        let units = &self.units;
        let waits = |index| units.get(index).is_some_and(|unit| unit.state == State::Windowed);
        self.windowed.values_mut().for_each(|waiting| waiting.retain(waits));
        self.windowed.retain(|_, waiting| !waiting.is_empty());
    }

    /// Stops the units of an instance at once and forgets it with the last one.
    pub(super) fn remove<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        instance: InstanceId,
    ) {
        let Some(group) = self.group_of(instance) else { return };
        group.mode = Mode::Remove;
        self.stop(turn, tools, instance, Stop::AtOnce);
        if let Some(&index) = self.by_instance.get(&instance) {
            self.forget_if_idle(index);
        }
    }

    /// A unit's RPC is over.
    pub(super) fn complete<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        completion: &Completion,
    ) {
        let index = completion.user;
        let Some(unit) = self.units.get_mut(index) else { return };
        unit.state = State::Idle;
        let peer = unit.peer;
        let Some(group) = self.groups.get_mut(unit.group) else { return };
        let sink = unit.sink.map(|grant| grant.span);
        let (plan, on_error, mode) = (group.work.plan, group.work.on_error, group.mode);
        let verdict = load::judge(turn.memory, &plan, sink, unit.seq, completion);
        if let Some(left) = &mut unit.left {
            *left = left.saturating_sub(1);
        }
        let due = unit.due.take();
        match verdict {
            Ok(()) if self.measures => {
                match mode {
                    Mode::Run => group.measured.success(completion.took, plan.test().len()),
                    Mode::Stop | Mode::Remove => group.measured.late_success(completion.took),
                }
                if let Some(due) = due {
                    group.measured.success_since_due(turn.now.since(due));
                }
            }
            Ok(()) => {}
            Err(error) => group.measured.failure(error, completion.took),
        }
        match (mode, verdict) {
            (Mode::Stop | Mode::Remove, _) => self.end_unit(turn, tools, index),
            (Mode::Run, Ok(())) => self.next(turn, tools, index),
            (Mode::Run, Err(_)) => {
                self.count_error(plan.test());
                self.after_error(turn, tools, index, on_error);
            }
        }
        if !self.windowed.is_empty() {
            self.pump(turn, tools, &peer);
        }
    }

    /// Starts units that wait for room in the window to a peer, as far as there is room. While
    /// others wait for memory, the peer keeps what it has in flight and gets no more.
    fn pump<M: Memory>(&mut self, turn: &mut Turn<'_, M>, tools: &mut Tools<'_>, peer: &ProcessId) {
        loop {
            let is_busy = tools.caller.window(peer).is_some_and(|window| window.in_flight > 0);
            if is_busy && !self.hungry.is_empty() {
                return;
            }
            let Some(waiting) = self.windowed.get_mut(peer) else { return };
            let Some(index) = waiting.first() else {
                self.windowed.remove(peer);
                return;
            };
            if self.send(turn, tools, index) == Room::None {
                self.windowed.entry(*peer).or_default().first_again(index);
                return;
            }
        }
    }

    /// Once per loop turn: pauses that are over, memory that has become free, news for the
    /// framework.
    pub(super) fn drive<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        news: &mut VecDeque<ToFramework>,
    ) {
        while let Some((until, index)) = self.paused.front().copied() {
            if until > turn.now {
                break;
            }
            self.paused.pop_front();
            if self.units.get(index).is_some_and(|unit| unit.state == State::Paused) {
                self.next(turn, tools, index);
            }
        }
        for _ in 0..self.hungry.len() {
            let Some(index) = self.hungry.pop_front() else { break };
            if self.units.get(index).is_none_or(|unit| unit.state != State::Hungry) {
                continue;
            }
            self.go(turn, tools, index);
            if self.units.get(index).is_some_and(|unit| unit.state == State::Hungry) {
                // Still no memory: it keeps its place at the head.
                self.hungry.pop_back();
                self.hungry.push_front(index);
                break;
            }
        }
        // While others wait for memory, a busy peer gets nothing: its next completion pumps it.
        while let Some(peer) = tools.caller.take_due_peer(turn.now) {
            self.pump(turn, tools, &peer);
        }
        while let Some(Reverse((due, index))) = self.not_due.peek().copied() {
            if due > turn.now {
                break;
            }
            self.not_due.pop();
            if let Some(unit) = self.units.get_mut(index)
                && unit.state == State::NotDue(due)
            {
                unit.state = State::Idle;
                self.go(turn, tools, index);
            }
        }
        for index in core::mem::take(&mut self.changed) {
            let Some(group) = self.groups.get_mut(index) else { continue };
            group.reported = false;
            let units = core::mem::take(&mut group.ended);
            news.push_back(ToFramework::Ended { instance: group.instance, units });
            self.forget_if_idle(index);
        }
    }

    /// Whether no unit waits for memory, and the framework knows all.
    pub(super) fn are_settled(&self) -> bool {
        self.hungry.is_empty() && self.changed.is_empty()
    }

    /// When the first pause is over, or a unit's turn comes.
    pub(super) fn next_deadline(&self) -> Time {
        let paused = self.paused.front().map_or(Time::NEVER, |(until, _)| *until);
        self.not_due.peek().map_or(paused, |Reverse((due, _))| paused.min(*due))
    }

    /// What the units of an instance measured here.
    pub(super) fn measured(&self, now: Time, instance: InstanceId) -> Measured {
        let index = self.by_instance.get(&instance);
        let Some(group) = index.and_then(|index| self.groups.get(*index)) else {
            return Measured::default();
        };
        let mut measured = group.measured.clone();
        measured.active = group.active;
        if let Some(started) = group.started {
            measured.age.0 += now.since(started).0;
        }
        measured
    }

    fn group_of(&mut self, instance: InstanceId) -> Option<&mut Group> {
        self.groups.get_mut(*self.by_instance.get(&instance)?)
    }

    /// Starts a unit's next RPC when it is due, or ends the unit when it has made all of them.
    fn next<M: Memory>(&mut self, turn: &mut Turn<'_, M>, tools: &mut Tools<'_>, index: u32) {
        let Some(unit) = self.units.get_mut(index) else { return };
        let Some(group) = self.groups.get_mut(unit.group) else { return };
        if unit.left == Some(0) {
            self.end_unit(turn, tools, index);
            return;
        }
        if group.work.interval != Nanos::ZERO && unit.due.is_none() {
            let due = group.take_next_due(turn.now);
            unit.due = Some(due);
            if due > turn.now {
                // Others may have its memory until then.
                if let Some(grant) = unit.sink.take() {
                    tools.budget.give(turn.memory, grant);
                }
                unit.state = State::NotDue(due);
                self.not_due.push(Reverse((due, index)));
                return;
            }
        }
        self.go(turn, tools, index);
    }

    /// Starts a unit's next RPC, if there is memory, and room in the window to its peer.
    fn go<M: Memory>(&mut self, turn: &mut Turn<'_, M>, tools: &mut Tools<'_>, index: u32) {
        let Some(unit) = self.units.get(index) else { return };
        // Room goes round: those that wait have their turn first.
        let others_first = self.windowed.get(&unit.peer).is_some_and(|units| !units.is_empty());
        if others_first || self.send(turn, tools, index) == Room::None {
            self.wait_for_room(turn, tools, index);
        }
    }

    /// Puts a unit at the end of those that wait for room in the window to their peer.
    fn wait_for_room<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        index: u32,
    ) {
        let Some(unit) = self.units.get_mut(index) else { return };
        if let Some(grant) = unit.sink.take() {
            tools.budget.give(turn.memory, grant);
        }
        unit.state = State::Windowed;
        self.windowed.entry(unit.peer).or_default().join(index);
    }

    /// Starts a unit's next RPC, if there is memory, and room in the window. Without room the unit
    /// has no memory, and its state is what it was.
    fn send<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        index: u32,
    ) -> Room {
        let Some(unit) = self.units.get_mut(index) else { return Room::Enough };
        let Some(group) = self.groups.get_mut(unit.group) else { return Room::Enough };
        let plan = group.work.plan;
        let on_error = group.work.on_error;
        if let Some(len) = plan.sink_len() {
            let others_first = unit.state == State::Idle && !self.hungry.is_empty();
            if others_first {
                // Memory goes round: those that wait have their turn first.
                if let Some(grant) = unit.sink.take() {
                    tools.budget.give(turn.memory, grant);
                }
                unit.state = State::Hungry;
                self.hungry.push_back(index);
                return Room::Enough;
            }
            if unit.sink.is_none() {
                unit.sink = tools.budget.take(turn.memory, len, Term::Test);
            }
            if unit.sink.is_none() {
                unit.state = State::Hungry;
                self.hungry.push_back(index);
                return Room::Enough;
            }
        }
        if plan.test() == Test::Ping {
            unit.seq = self.ping_seq;
        }
        let shot = TestRpc {
            peer: unit.peer,
            local: None,
            sink: unit.sink.map(|grant| grant.span),
            seq: unit.seq,
            timeout: tools.timeout,
            user: index,
        };
        let fired = load::send_test(turn, tools.caller, tools.source, tools.wall, &plan, shot);
        match fired {
            Ok(rpc) => unit.state = State::Calling(rpc),
            Err(Unsent::NoRoom) => {
                // Others may have its memory until there is.
                if let Some(grant) = unit.sink.take() {
                    tools.budget.give(turn.memory, grant);
                }
                return Room::None;
            }
            Err(Unsent::Failed(RpcError::Local(LnetErrorKind::Full))) => {
                unit.state = State::Paused;
                self.paused.push_back((turn.now + PAUSE, index));
            }
            Err(Unsent::Failed(failure)) => {
                unit.due = None;
                group.measured.failure(failure.into(), Nanos::ZERO);
                self.count_error(plan.test());
                self.after_error(turn, tools, index, on_error);
            }
        }
        if plan.test() == Test::Ping {
            self.ping_seq = self.ping_seq.wrapping_add(1);
        }
        Room::Enough
    }

    fn after_error<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        tools: &mut Tools<'_>,
        index: u32,
        on_error: OnError,
    ) {
        match on_error {
            OnError::Stop => self.end_unit(turn, tools, index),
            OnError::GoOn => {
                if let Some(unit) = self.units.get_mut(index) {
                    unit.state = State::Paused;
                    self.paused.push_back((turn.now + PAUSE, index));
                }
            }
        }
    }

    fn count_error(&mut self, test: Test) {
        match test {
            Test::Ping => self.errors.ping += 1,
            Test::Read { .. } | Test::Write { .. } => self.errors.brw += 1,
        }
    }

    fn end_unit<M: Memory>(&mut self, turn: &mut Turn<'_, M>, tools: &mut Tools<'_>, index: u32) {
        let Some(unit) = self.units.get_mut(index) else { return };
        unit.state = State::Idle;
        unit.due = None;
        if let Some(grant) = unit.sink.take() {
            tools.budget.give(turn.memory, grant);
        }
        let Some(group) = self.groups.get_mut(unit.group) else { return };
        group.active -= 1;
        group.ended += 1;
        if group.active == 0 {
            group.stop_clock(turn.now);
        }
        if !group.reported {
            group.reported = true;
            self.changed.push(unit.group);
        }
    }

    /// Forgets a removed group whose last unit has ended and been reported.
    fn forget_if_idle(&mut self, index: u32) {
        let Some(group) = self.groups.get(index) else { return };
        if group.mode != Mode::Remove || group.active > 0 || group.reported {
            return;
        }
        if let Some(group) = self.groups.remove(index) {
            self.by_instance.remove(&group.instance);
            for unit in group.units {
                self.units.remove(unit);
            }
        }
    }
}
