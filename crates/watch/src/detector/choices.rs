//! A value that is usually one and the same: a size, an interface, a number of hops.
//!
//! The value of most looks is the usual one. Another one in so many looks in a row that chance does
//! not explain it is a change: a path whose packets alternate between two routes has none, and a
//! lasting change is never missed.

use serde::{Deserialize, Serialize};

/// Looks that are remembered.
const KNOWN: usize = 48;
/// Looks without which there is no alarm.
const LEARN: usize = 2;
/// Least and most looks in a row that are a change.
const RUN: (u32, u32) = (3, 14);
/// The chance with which a run may come about without a change.
const CHANCE: f64 = 1e-4;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Choices<T> {
    /// Oldest first, without the present run.
    known: Vec<T>,
    /// Looks in a row that say the opposite of what is held now: another value, or, after a change,
    /// the value before.
    run: Vec<T>,
    since_ms: u64,
    changed: Option<Changed<T>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Changed<T> {
    before: T,
    /// Looks in a row that are needed to end it.
    needed: u32,
    seen: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen<T> {
    Same,
    Changed {
        before: T,
        after: T,
        since_ms: u64,
        /// Looks in a row with another value.
        run: usize,
        /// Looks before.
        looks: usize,
    },
    Back,
    Accepted,
}

impl<T> Default for Choices<T> {
    fn default() -> Choices<T> {
        Choices { known: Vec::new(), run: Vec::new(), since_ms: 0, changed: None }
    }
}

/// How long a run has to be where this part of the looks differs by chance.
fn needed(part: f64) -> u32 {
    let run = (CHANCE.ln() / part.clamp(1e-9, 0.99).ln()).ceil();
    // The range of a float that is out of range saturates.
    (run as u32).clamp(RUN.0, RUN.1)
}

impl<T: Clone + PartialEq> Choices<T> {
    /// The usual value, and the part of the looks that had another.
    fn usual(&self) -> Option<(T, f64)> {
        let count = |value: &T| self.known.iter().filter(|known| *known == value).count();
        let usual = self.known.iter().max_by_key(|value| count(value))?;
        let others = self.known.len() - count(usual);
        // Few looks without another value say little: half of one may have been missed.
        Some((usual.clone(), (others as f64 + 0.5) / (self.known.len() as f64 + 1.0)))
    }

    /// Whether a run has begun and has not led to anything yet.
    pub(super) fn is_undecided(&self) -> bool {
        !self.run.is_empty() || self.known.len() < LEARN && !self.known.is_empty()
    }

    /// `accept`: after so many looks a change is accepted.
    pub(super) fn observe(&mut self, value: T, at_ms: u64, accept: u32) -> Chosen<T> {
        match self.changed.take() {
            None => self.quiet(value, at_ms),
            Some(changed) => self.while_changed(changed, value, accept),
        }
    }

    fn remember(&mut self, value: T) {
        self.known.append(&mut self.run);
        self.known.push(value);
        let surplus = self.known.len().saturating_sub(KNOWN);
        self.known.drain(..surplus);
    }

    fn quiet(&mut self, value: T, at_ms: u64) -> Chosen<T> {
        let usual = self.usual().filter(|_| self.known.len() >= LEARN);
        let Some((before, part)) = usual.filter(|(usual, _)| *usual != value) else {
            self.remember(value);
            return Chosen::Same;
        };
        if self.run.is_empty() {
            self.since_ms = at_ms;
        }
        self.run.push(value.clone());
        let (run, needed) = (self.run.len(), needed(part));
        if run < needed as usize {
            return Chosen::Same;
        }
        self.run.clear();
        self.changed = Some(Changed { before: before.clone(), needed, seen: 0 });
        let (since_ms, looks) = (self.since_ms, self.known.len());
        Chosen::Changed { before, after: value, since_ms, run, looks }
    }

    fn while_changed(&mut self, mut changed: Changed<T>, value: T, accept: u32) -> Chosen<T> {
        changed.seen = changed.seen.saturating_add(1);
        if value == changed.before {
            self.run.push(value);
            if self.run.len() >= changed.needed as usize {
                self.run.clear();
                return Chosen::Back;
            }
        } else {
            self.run.clear();
            if changed.seen >= accept {
                self.known = vec![value; LEARN];
                return Chosen::Accepted;
            }
        }
        self.changed = Some(changed);
        Chosen::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_run_is_needed_where_values_take_turns() {
        assert_eq!([0.0, 0.01, 0.1, 0.25, 0.5, 1.0].map(needed), [3, 3, 4, 7, 14, 14]);
    }

    /// So many looks with these values; what the last one led to.
    fn observe(choices: &mut Choices<u32>, at: &mut u64, value: u32, times: u32) -> Chosen<u32> {
        let mut last = Chosen::Same;
        for _ in 0..times {
            assert_eq!(last, Chosen::Same);
            last = choices.observe(value, *at, 100);
            *at += 1;
        }
        last
    }

    #[test]
    fn two_looks_are_no_change_and_three_are() {
        let (mut choices, mut at) = (Choices::default(), 0);
        observe(&mut choices, &mut at, 1500, 20);
        assert!(!choices.is_undecided());
        assert_eq!(observe(&mut choices, &mut at, 1400, 2), Chosen::Same);
        assert!(choices.is_undecided());
        assert_eq!(observe(&mut choices, &mut at, 1500, 60), Chosen::Same);
        assert!(!choices.is_undecided());
        let changed =
            Chosen::Changed { before: 1500, after: 1400, since_ms: 82, run: 3, looks: 48 };
        assert_eq!(observe(&mut choices, &mut at, 1400, 3), changed);
        assert_eq!(observe(&mut choices, &mut at, 1400, 10), Chosen::Same);
        assert_eq!(observe(&mut choices, &mut at, 1500, 3), Chosen::Back);
        assert_eq!(observe(&mut choices, &mut at, 1500, 10), Chosen::Same);
    }

    #[test]
    fn what_lasts_is_accepted() {
        let (mut choices, mut at) = (Choices::default(), 0);
        observe(&mut choices, &mut at, 1, 20);
        assert!(matches!(observe(&mut choices, &mut at, 2, 3), Chosen::Changed { .. }));
        assert_eq!(observe(&mut choices, &mut at, 2, 100), Chosen::Accepted);
        let back = observe(&mut choices, &mut at, 1, 6);
        assert!(matches!(back, Chosen::Changed { before: 2, after: 1, .. }), "{back:?}");
    }
}
