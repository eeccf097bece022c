//! The units of a step: each keeps one RPC outstanding.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lustrine_lnet::memory::Memory;
use lustrine_lnet::time::{Nanos, Time};

use crate::bulk::{Budget, Grant, Term};
use crate::rpc::RoomQueue;

/// Pause of a unit after its first failed RPC; doubled each time.
const PAUSE_MIN: Nanos = Nanos::from_millis(10);

/// Longest pause of a unit whose RPCs fail.
const PAUSE_MAX: Nanos = Nanos::from_secs(1);

/// What a unit is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It may send.
    Idle,
    /// In the RPC of this slot.
    Calling(u32),
    /// After a failure.
    Paused,
    /// It waits until the window to the node has room.
    Windowed,
}

#[derive(Debug)]
pub(super) struct Unit {
    pub(super) state: State,
    pub(super) seq: u32,
    pub(super) sink: Option<Grant>,
    pub(super) started: Time,
    pause: Nanos,
    /// Whether an RPC of this step has ended yet, well or not.
    warm: bool,
}

/// All units of the step that runs.
#[derive(Debug, Default)]
pub(super) struct Units {
    units: Vec<Unit>,
    paused: BinaryHeap<Reverse<(Time, u32)>>,
    /// Those that wait for room in the window.
    windowed: RoomQueue,
    calling: u32,
    cold: u32,
}

impl Units {
    /// Makes `count` units with memory of `sink_len` bytes each; `false` when there is not enough.
    pub(super) fn make<M: Memory>(
        &mut self,
        memory: &mut M,
        budget: &mut Budget,
        count: u32,
        sink_len: Option<u32>,
    ) -> bool {
        for _ in 0..count {
            let sink = match sink_len.map(|len| budget.take(memory, len, Term::Rpc)) {
                Some(None) => {
                    self.clear(memory, budget);
                    return false;
                }
                Some(grant) => grant,
                None => None,
            };
            self.units.push(Unit {
                state: State::Idle,
                seq: 0,
                sink,
                started: Time::ZERO,
                pause: PAUSE_MIN,
                warm: false,
            });
        }
        self.cold = count;
        true
    }

    /// Gives all memory back.
    ///
    /// # Panics
    /// When an RPC is in flight.
    pub(super) fn clear<M: Memory>(&mut self, memory: &mut M, budget: &mut Budget) {
        assert_eq!(self.calling, 0, "an RPC is in flight");
        for unit in self.units.drain(..) {
            if let Some(grant) = unit.sink {
                budget.give(memory, grant);
            }
        }
        self.paused.clear();
        self.windowed.clear();
        self.cold = 0;
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Unit> {
        self.units.get_mut(index as usize)
    }

    /// RPCs in flight.
    pub(super) fn calling(&self) -> u32 {
        self.calling
    }

    /// Whether every unit has had an RPC end.
    pub(super) fn are_warm(&self) -> bool {
        self.cold == 0
    }

    pub(super) fn len(&self) -> u32 {
        self.units.len() as u32
    }

    /// A unit's RPC has started.
    pub(super) fn called(&mut self, now: Time, index: u32, rpc: u32) {
        self.calling += 1;
        let unit = &mut self.units[index as usize];
        unit.state = State::Calling(rpc);
        unit.started = now;
    }

    /// A unit's RPC went well.
    #[inline]
    pub(super) fn succeeded(&mut self, index: u32) {
        self.calling -= 1;
        let unit = &mut self.units[index as usize];
        unit.state = State::Idle;
        unit.pause = PAUSE_MIN;
        self.warm(index);
    }

    #[inline]
    fn warm(&mut self, index: u32) {
        let unit = &mut self.units[index as usize];
        if !unit.warm {
            unit.warm = true;
            self.cold -= 1;
        }
    }

    /// A unit's RPC failed; it pauses.
    pub(super) fn failed(&mut self, now: Time, index: u32) {
        self.calling -= 1;
        self.pause(now, index);
    }

    /// A unit could not send; it pauses.
    pub(super) fn pause(&mut self, now: Time, index: u32) {
        let unit = &mut self.units[index as usize];
        unit.state = State::Paused;
        self.paused.push(Reverse((now + unit.pause, index)));
        unit.pause = Nanos((unit.pause.0 * 2).min(PAUSE_MAX.0));
        self.warm(index);
    }

    /// A unit waits, behind the others, until the window has room.
    pub(super) fn wait_for_room(&mut self, index: u32) {
        self.units[index as usize].state = State::Windowed;
        self.windowed.join(index);
    }

    /// The unit that was the first to wait for room found none.
    pub(super) fn waits_on(&mut self, index: u32) {
        self.units[index as usize].state = State::Windowed;
        self.windowed.first_again(index);
    }

    /// The unit that has waited for room for longest; it is idle from then on.
    pub(super) fn first_for_room(&mut self) -> Option<u32> {
        let index = self.windowed.first()?;
        self.units[index as usize].state = State::Idle;
        Some(index)
    }

    /// Whether a unit waits for room in the window.
    pub(super) fn any_waits_for_room(&self) -> bool {
        !self.windowed.is_empty()
    }

    /// The next unit whose pause is over; it is idle from then on.
    pub(super) fn wake_one(&mut self, now: Time) -> Option<u32> {
        let Reverse((until, index)) = *self.paused.peek()?;
        if until > now {
            return None;
        }
        self.paused.pop();
        let unit = &mut self.units[index as usize];
        unit.state = State::Idle;
        Some(index)
    }

    /// When the first pause is over.
    pub(super) fn next_wake(&self) -> Time {
        self.paused.peek().map_or(Time::NEVER, |Reverse((until, _))| *until)
    }

    pub(super) fn is_idle(&self, index: u32) -> bool {
        self.units.get(index as usize).is_some_and(|unit| unit.state == State::Idle)
    }

    /// The slots of all RPCs in flight, with their beginnings.
    pub(super) fn calls(&self) -> Vec<(u32, Time)> {
        self.units
            .iter()
            .filter_map(|unit| match unit.state {
                State::Calling(rpc) => Some((rpc, unit.started)),
                State::Idle | State::Paused | State::Windowed => None,
            })
            .collect()
    }
}
