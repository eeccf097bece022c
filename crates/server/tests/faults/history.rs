//! What clients did, and whether one order of it explains what they saw.

use std::collections::BTreeSet;

use lustrine_lnet::time::Time;

/// What an operation did to a register, or to a name, and what came of it. Values are unique; none
/// is the absence of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It was set.
    Set(Option<u64>),
    /// It was seen.
    Saw(Option<u64>),
    /// A name was made: it was missing before.
    Made(u64),
    /// It was not made: there was one.
    NotMade,
    /// A name was taken away: it was there before.
    Removed,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) start: Time,
    /// None if its outcome is not known: it may be done at any time after its start, or never.
    pub(crate) end: Option<Time>,
    pub(crate) effect: Effect,
}

impl Effect {
    /// The value after it, if it is possible with this one before it.
    fn apply(self, before: Option<u64>) -> Option<Option<u64>> {
        match self {
            Effect::Set(value) => Some(value),
            Effect::Saw(Some(value)) if before == Some(ANY) => Some(Some(value)),
            Effect::Saw(value) => (value == before).then_some(before),
            Effect::Made(value) => before.is_none().then_some(Some(value)),
            Effect::NotMade => before.is_some().then_some(before),
            Effect::Removed => before.is_some().then_some(None),
        }
    }
}

/// The value of a name that an operation has made of whose outcome nothing is known.
pub(crate) const ANY: u64 = 0;

/// Most operations of a history.
const EVENTS_MAX: usize = 128;

/// Whether one order of all operations explains what was seen: each at some time between its start
/// and its end.
pub(crate) fn is_explained(events: &[Event], initial: Option<u64>) -> bool {
    assert!(events.len() <= EVENTS_MAX, "a history of {} operations", events.len());
    let known: u128 = mask(events, |event| event.end.is_some());
    let mut seen: BTreeSet<(u128, Option<u64>)> = BTreeSet::new();
    let mut open = vec![(0u128, initial)];
    while let Some((done, value)) = open.pop() {
        if known & !done == 0 {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        // What has ended before another begins comes first.
        let left = events.iter().enumerate().filter(|(at, _)| done >> at & 1 == 0);
        let first_end = left.clone().filter_map(|(_, event)| event.end).min();
        for (at, event) in left {
            if first_end.is_some_and(|end| event.start > end) {
                continue;
            }
            if let Some(after) = event.effect.apply(value) {
                open.push((done | 1 << at, after));
            }
        }
    }
    false
}

fn mask(events: &[Event], which: impl Fn(&Event) -> bool) -> u128 {
    let chosen = events.iter().enumerate().filter(|(_, event)| which(event));
    chosen.fold(0, |mask, (at, _)| mask | 1 << at)
}

/// Whether there is room for another operation.
pub(crate) fn has_room(events: &[Event]) -> bool {
    events.len() + 16 < EVENTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start: u64, end: u64, effect: Effect) -> Event {
        let end = (end != 0).then_some(Time(end));
        Event { start: Time(start), end, effect }
    }

    #[test]
    fn what_was_written_is_read_until_it_is_overwritten() {
        let write = |start, end, value| event(start, end, Effect::Set(Some(value)));
        let read = |start, end, value| event(start, end, Effect::Saw(Some(value)));
        assert!(is_explained(&[write(1, 2, 7), read(3, 4, 7)], None));
        assert!(!is_explained(&[write(1, 2, 7), read(3, 4, 8)], None));
        // Two that overlap can be in any order, and not in both.
        let both = [write(1, 9, 7), write(1, 9, 8), read(10, 11, 7), read(12, 13, 8)];
        assert!(!is_explained(&both, None) && is_explained(&both[..3], None));
        // One that comes again after another was read was written twice.
        let twice = [write(1, 9, 7), read(2, 3, 7), write(4, 5, 8), read(6, 7, 7)];
        assert!(!is_explained(&twice, None));
        // One whose outcome is not known may be done late, or never.
        let late = [write(1, 0, 7), write(2, 3, 8), read(4, 5, 8), read(6, 7, 7)];
        assert!(is_explained(&late, None) && is_explained(&late[..3], None));
    }

    #[test]
    fn a_name_is_made_once() {
        let made = [event(1, 2, Effect::Made(7)), event(3, 4, Effect::NotMade)];
        assert!(is_explained(&made, None));
        // It was made, and the answer says that it was there: it was done twice.
        assert!(!is_explained(&[event(1, 2, Effect::NotMade)], None));
        let removed = [event(1, 2, Effect::Removed), event(3, 4, Effect::Saw(None))];
        assert!(is_explained(&removed, Some(5)) && !is_explained(&removed, None));
    }
}
