//! What clients did, and whether one order of it explains what they saw.
//!
//! A client that keeps what it writes can lose it: when the server has forgotten the client, the
//! others see what the server has, which is what the client wrote last or something before it, but
//! nothing that is older than an fsync. The client itself sees what it kept, apart from all others,
//! until it learns that it was forgotten; what it writes meanwhile is lost for certain. After that
//! it sees what all see, and the next fsync or close reports what was lost.

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
    /// What the client wrote is not lost any more, and nothing was lost that was not reported.
    Synced,
    /// The client has reported that something was lost, or may be.
    Reported,
    /// The server has forgotten the client.
    Evicted,
    /// The client knows that.
    Learned,
}

/// An operation, or what happened to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) client: usize,
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// Whether its outcome is known: otherwise it was done between its start and its end, or never.
    pub(crate) sure: bool,
    pub(crate) effect: Effect,
}

impl core::fmt::Display for Event {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let seconds = |time: Time| time.since(Time::ZERO).as_secs_f64();
        let (start, end) = (seconds(self.start), seconds(self.end));
        let (client, effect) = (self.client, self.effect);
        let failed = if self.sure { "" } else { ", or not" };
        write!(f, "{start:.6} to {end:.6} client {client}: {effect:?}{failed}")
    }
}

/// A history, in the order of time, one event a line.
pub(crate) fn listed(events: &[Event]) -> String {
    let mut events = events.to_vec();
    events.sort_by_key(|event| (event.start, event.end));
    events.iter().map(|event| format!("\n  {event}")).collect()
}

/// The value of a name that an operation has made of whose outcome nothing is known.
pub(crate) const ANY: u64 = 0;

/// Most operations of a history.
const EVENTS_MAX: usize = 512;

/// A set of events, by their places in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Places([u64; EVENTS_MAX / 64]);

impl Places {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn with(mut self, at: usize) -> Places {
        self.0[at / 64] |= 1 << (at % 64);
        self
    }
}

/// What is true after some events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// What all clients see that the server knows.
    value: Option<u64>,
    /// The client that has written it and may not have sent it, and what the server has otherwise.
    unsent: Option<(usize, BTreeSet<Option<u64>>)>,
    /// What clients see that the server has forgotten and that do not know it.
    apart: Vec<(usize, Option<u64>)>,
    /// Clients that have lost something and did not report it.
    losers: BTreeSet<usize>,
}

/// The history of a register, or of a name.
struct History<'a> {
    events: &'a [Event],
    /// Clients whose writes can be lost.
    losing: BTreeSet<usize>,
    /// Values of writes that failed: the programs know that they may be lost.
    failed: BTreeSet<Option<u64>>,
}

/// A value, if it can be what was seen.
fn matching(value: Option<u64>, seen: Option<u64>) -> Option<Option<u64>> {
    match (value, seen) {
        (Some(ANY), Some(_)) => Some(seen),
        _ => (value == seen).then_some(value),
    }
}

impl State {
    fn apart(&self, client: usize) -> Option<usize> {
        self.apart.iter().position(|(other, _)| *other == client)
    }

    /// Somebody else than the one who wrote sees or changes the value: the server has it.
    fn taken_over_by(&mut self, client: usize) {
        if self.unsent.as_ref().is_some_and(|(writer, _)| *writer != client) {
            self.unsent = None;
        }
    }
}

impl History<'_> {
    /// What is possible after an event.
    fn apply(&self, event: &Event, before: &State) -> Vec<State> {
        let client = event.client;
        let mut after = before.clone();
        match (event.effect, before.apart(client)) {
            (Effect::Evicted, Some(_)) | (Effect::Learned, None) => {}
            (Effect::Evicted, None) => return self.evict(client, before),
            (Effect::Learned, Some(at)) => {
                after.apart.remove(at);
            }
            (Effect::Reported, _) => {
                after.losers.remove(&client);
            }
            (Effect::Saw(seen), Some(at)) => match matching(after.apart[at].1, seen) {
                Some(value) => after.apart[at].1 = value,
                None => return Vec::new(),
            },
            (Effect::Set(value), Some(at)) => {
                after.apart[at].1 = value;
                if !self.failed.contains(&value) {
                    after.losers.insert(client);
                }
            }
            // These are done by the server alone.
            (Effect::Made(_) | Effect::NotMade | Effect::Removed | Effect::Synced, Some(_)) => {
                return Vec::new();
            }
            (Effect::Synced, None) => {
                if before.losers.contains(&client) {
                    return Vec::new();
                }
                if before.unsent.as_ref().is_some_and(|(writer, _)| *writer == client) {
                    after.unsent = None;
                }
            }
            (Effect::Saw(seen), None) => {
                after.taken_over_by(client);
                match matching(before.value, seen) {
                    Some(value) => after.value = value,
                    None => return Vec::new(),
                }
            }
            (Effect::Set(value), None) => {
                after.taken_over_by(client);
                after.value = value;
                if self.losing.contains(&client) {
                    let (_, older) = after.unsent.get_or_insert((client, BTreeSet::new()));
                    older.insert(before.value);
                }
            }
            (Effect::Made(value), None) => {
                if before.value.is_some() {
                    return Vec::new();
                }
                after.value = Some(value);
            }
            (Effect::NotMade, None) => {
                if before.value.is_none() {
                    return Vec::new();
                }
            }
            (Effect::Removed, None) => {
                if before.value.is_none() {
                    return Vec::new();
                }
                after.value = None;
            }
        }
        vec![after]
    }

    /// The server forgets a client: it has what the client wrote last, or something before that.
    fn evict(&self, client: usize, before: &State) -> Vec<State> {
        let mut after = before.clone();
        after.apart.push((client, before.value));
        after.apart.sort();
        let unsent = after.unsent.take_if(|(writer, _)| *writer == client);
        let mut all = vec![after.clone()];
        for older in unsent.into_iter().flat_map(|(_, older)| older) {
            let mut lost = State { value: older, ..after.clone() };
            if !self.failed.contains(&before.value) {
                lost.losers.insert(client);
            }
            all.push(lost);
        }
        all
    }

    fn is_explained(&self, initial: Option<u64>) -> bool {
        let mut seen: BTreeSet<(Places, State)> = BTreeSet::new();
        let unsent = None;
        let first = State { value: initial, unsent, apart: Vec::new(), losers: BTreeSet::new() };
        let mut open = vec![(Places::default(), first)];
        while let Some((done, state)) = open.pop() {
            let left = || self.events.iter().enumerate().filter(|(at, _)| !done.has(*at));
            // What has ended before another begins comes first.
            let Some(first_end) = left().filter(|(_, e)| e.sure).map(|(_, e)| e.end).min() else {
                return true;
            };
            if !seen.insert((done, state.clone())) {
                continue;
            }
            let begun = self.events.iter().enumerate().filter(|(at, _)| done.has(*at));
            let begun = begun.map(|(_, event)| event.start).max().unwrap_or(Time::ZERO);
            let mut next = Vec::new();
            for (at, event) in left() {
                if event.start > first_end || event.end < begun {
                    continue;
                }
                let after = self.apply(event, &state);
                // What changes nothing can as well be done now.
                let idle = matches!(event.effect, Effect::Saw(_) | Effect::Synced);
                if event.sure && idle && after.first() == Some(&state) {
                    next = vec![(done.with(at), state)];
                    break;
                }
                next.extend(after.into_iter().map(|after| (done.with(at), after)));
            }
            open.extend(next);
        }
        false
    }
}

/// Whether one order of all operations explains what was seen: each at some time between its start
/// and its end. `keeps` says whether clients keep what they write.
pub(crate) fn is_explained(events: &[Event], initial: Option<u64>, keeps: bool) -> bool {
    assert!(events.len() <= EVENTS_MAX, "a history of {} operations", events.len());
    let mut losing = BTreeSet::new();
    let mut failed = BTreeSet::new();
    for event in events {
        match event.effect {
            Effect::Evicted if keeps => {
                losing.insert(event.client);
            }
            Effect::Set(value) if !event.sure => {
                failed.insert(value);
            }
            _ => {}
        }
    }
    History { events, losing, failed }.is_explained(initial)
}

/// Whether there is room for another operation.
pub(crate) fn has_room(events: &[Event]) -> bool {
    let operation = |event: &&Event| {
        use Effect::{Evicted, Learned, Reported, Synced};
        !matches!(event.effect, Synced | Reported | Evicted | Learned)
    };
    events.iter().filter(operation).count() < 112 && events.len() < EVENTS_MAX - 112
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: usize, start: u64, end: u64, effect: Effect) -> Event {
        Event { client, start: Time(start), end: Time(end), sure: true, effect }
    }

    fn event(start: u64, end: u64, effect: Effect) -> Event {
        of(0, start, end, effect)
    }

    fn holds(events: &[Event], initial: Option<u64>) -> bool {
        is_explained(events, initial, false)
    }

    #[test]
    fn what_was_written_is_read_until_it_is_overwritten() {
        let write = |start, end, value| event(start, end, Effect::Set(Some(value)));
        let read = |start, end, value| event(start, end, Effect::Saw(Some(value)));
        assert!(holds(&[write(1, 2, 7), read(3, 4, 7)], None));
        assert!(!holds(&[write(1, 2, 7), read(3, 4, 8)], None));
        // Two that overlap can be in any order, and not in both.
        let both = [write(1, 9, 7), write(1, 9, 8), read(10, 11, 7), read(12, 13, 8)];
        assert!(!holds(&both, None) && holds(&both[..3], None));
        // One that comes again after another was read was written twice.
        let twice = [write(1, 9, 7), read(2, 3, 7), write(4, 5, 8), read(6, 7, 7)];
        assert!(!holds(&twice, None));
        // One whose outcome is not known is done before its end, or never.
        let mut late = [write(1, 6, 7), write(2, 3, 8), read(4, 5, 8), read(6, 7, 7)];
        late[0].sure = false;
        assert!(holds(&late, None) && holds(&late[..3], None));
        late[0].end = Time(3);
        assert!(!holds(&late, None) && holds(&late[..3], None));
    }

    #[test]
    fn a_name_is_made_once() {
        let made = [event(1, 2, Effect::Made(7)), event(3, 4, Effect::NotMade)];
        assert!(holds(&made, None));
        // It was made, and the answer says that it was there: it was done twice.
        assert!(!holds(&[event(1, 2, Effect::NotMade)], None));
        let removed = [event(1, 2, Effect::Removed), event(3, 4, Effect::Saw(None))];
        assert!(holds(&removed, Some(5)) && !holds(&removed, None));
    }

    /// What clients 0 and 1 do and see; the server forgets client 0 at 10, which learns it at 20.
    fn evicted(events: &[Event]) -> bool {
        let mut all = vec![of(0, 10, 10, Effect::Evicted), of(0, 20, 20, Effect::Learned)];
        all.extend(events);
        is_explained(&all, Some(1), true)
    }

    #[test]
    fn an_eviction_loses_what_was_not_synced() {
        let (write, read) = (of(0, 2, 3, Effect::Set(Some(7))), Effect::Saw(Some(1)));
        let (sync, report) = (Effect::Synced, Effect::Reported);
        // The server has it or not, and the client itself sees it until it learns of the eviction.
        let own = of(0, 15, 16, Effect::Saw(Some(7)));
        assert!(evicted(&[write, own, of(1, 11, 12, read), of(0, 21, 22, read)]));
        assert!(evicted(&[write, own, of(1, 11, 12, Effect::Saw(Some(7)))]));
        assert!(!evicted(&[write, of(0, 21, 22, Effect::Saw(Some(7))), of(1, 23, 24, read)]));
        // Nothing is lost that was synced, or that another client has seen.
        assert!(!evicted(&[write, of(0, 4, 5, sync), of(1, 11, 12, read)]));
        assert!(!evicted(&[write, of(1, 4, 5, Effect::Saw(Some(7))), of(1, 11, 12, read)]));
        // The next fsync reports what is lost.
        let lost = [write, of(1, 11, 12, read), of(0, 21, 22, report), of(0, 23, 24, sync)];
        assert!(evicted(&lost) && evicted(&lost[..3]));
        assert!(!evicted(&[lost[0], lost[1], lost[3]]));
        // There is an earlier value only if the client has written it.
        let second = of(0, 4, 5, Effect::Set(Some(8)));
        assert!(evicted(&[write, second, of(1, 11, 12, Effect::Saw(Some(7)))]));
        assert!(!evicted(&[write, second, of(1, 11, 12, Effect::Saw(Some(9)))]));
    }

    #[test]
    fn what_is_written_after_an_eviction_is_lost_and_what_is_seen_may_be_old() {
        let (write, theirs) = (of(0, 12, 13, Effect::Set(Some(7))), Effect::Set(Some(9)));
        let saw = |value| Effect::Saw(Some(value));
        let old = [of(1, 11, 12, theirs), of(0, 14, 15, saw(1))];
        assert!(evicted(&old));
        // Not older than the eviction, and not after it is known.
        assert!(!evicted(&[of(1, 8, 9, theirs), of(0, 14, 15, saw(1))]));
        assert!(!evicted(&[of(1, 11, 12, theirs), of(0, 21, 22, saw(1))]));
        // It does not see what others have written before it learns of the eviction.
        assert!(!evicted(&[of(1, 11, 12, theirs), of(0, 14, 15, saw(9))]));
        assert!(evicted(&[write, of(0, 14, 15, saw(7)), of(1, 14, 15, saw(1))]));
        assert!(!evicted(&[write, of(1, 21, 22, saw(7))]));
        assert!(!evicted(&[write, of(0, 21, 22, Effect::Synced)]));
        // It is not necessary to report what a program knows to have failed.
        let failed = Event { sure: false, ..write };
        assert!(evicted(&[failed, of(0, 14, 15, saw(7)), of(0, 21, 22, Effect::Synced)]));
    }
}
