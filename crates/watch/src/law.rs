//! The law that distinguishes a change from noise, for one signal.
//!
//! A signal is compared with its baseline: the values before the latest few. Nothing is assumed of
//! the noise but that it goes on as before: a value is outside when it exceeds what 95 % of the
//! baseline did not exceed, plus a margin. One value in twenty is outside by chance, whatever the
//! noise, and more of a short baseline; that most of the latest values are, is no chance.

use serde::{Deserialize, Serialize};

use crate::sample::percentile;

/// Which values are outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Both,
    Above,
    Below,
}

/// The numbers of a law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    pub(crate) side: Side,
    /// Most values of a baseline.
    pub(crate) baseline: usize,
    /// Values without which there is no alarm.
    pub(crate) learn: usize,
    /// The latest values, which are not part of the baseline yet.
    pub(crate) window: usize,
    /// So many of them have to be outside, or have to be back.
    pub(crate) count: usize,
    /// The margin, as a part of the baseline's median.
    pub(crate) part: f64,
    /// The least margin, in the signal's unit.
    pub(crate) least: u64,
    /// After so many values the changed path is accepted.
    pub(crate) accept: u32,
}

/// From so many values on, the least and the largest one do not count.
const TRIMMED_FROM: usize = 8;

/// What a baseline comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Level {
    pub(crate) median: u64,
    /// 5 % of the values are below, 5 % above; of few values, as many as [`TRIMMED_FROM`] says.
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) margin: u64,
    /// How many values it was computed from.
    pub(crate) values: u32,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Below,
    Inside,
    Above,
}

impl Level {
    fn of(values: &[u64], law: &Law) -> Option<Level> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let median = percentile(&sorted, 50)?;
        // Of few values these would be the extremes: one bad measurement would hide a change.
        let rest = match sorted.len() {
            ..TRIMMED_FROM => &sorted[..],
            len => &sorted[1..len - 1],
        };
        Some(Level {
            median,
            low: percentile(&sorted, 5)?.max(*rest.first()?),
            high: percentile(&sorted, 95)?.min(*rest.last()?),
            margin: law.margin(median),
            values: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
        })
    }

    /// The limits beyond which a value is outside.
    pub(crate) fn limits(&self, margin: u64) -> (u64, u64) {
        (self.low.saturating_sub(margin), self.high.saturating_add(margin))
    }

    fn place(&self, value: u64, margin: u64) -> Place {
        let (low, high) = self.limits(margin);
        match value {
            _ if value < low => Place::Below,
            _ if value > high => Place::Above,
            _ => Place::Inside,
        }
    }
}

/// Values on one side of a level.
struct Deviation {
    median: u64,
    /// When the first of them was seen.
    since_ms: u64,
    /// How many they are.
    count: usize,
}

impl Law {
    fn margin(&self, median: u64) -> u64 {
        ((median as f64 * self.part) as u64).max(self.least)
    }

    /// The values that are outside a level on one side, if they are as many as the law requires.
    fn outside(&self, level: &Level, values: &[(u64, u64)]) -> Option<Deviation> {
        [Place::Above, Place::Below].into_iter().filter(|place| self.counts(*place)).find_map(
            |place| {
                let is = |(_, value): &&(u64, u64)| level.place(*value, level.margin) == place;
                let (since_ms, _) = values.iter().find(is).copied()?;
                let mut found: Vec<u64> = values.iter().filter(is).map(|one| one.1).collect();
                found.sort_unstable();
                let median = percentile(&found, 50)?;
                let count = found.len();
                (count >= self.count).then_some(Deviation { median, since_ms, count })
            },
        )
    }

    fn counts(&self, place: Place) -> bool {
        match place {
            Place::Inside => false,
            Place::Above => self.side != Side::Below,
            Place::Below => self.side != Side::Above,
        }
    }
}

/// A signal: its baseline, its latest values, and whether it has changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Signal {
    /// Oldest first.
    baseline: Vec<u64>,
    /// The values after it, oldest first, and when they were seen.
    latest: Vec<(u64, u64)>,
    changed: Option<Changed>,
}

/// A signal that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Changed {
    before: Level,
    /// The median of the values outside.
    after: u64,
    /// Values since then.
    seen: u32,
    /// What it is now: the values since then, oldest first, without the latest and without those
    /// that showed the change.
    #[serde(default)]
    since: Vec<u64>,
}

impl Changed {
    fn new(before: Level, after: u64) -> Changed {
        Changed { before, after, seen: 0, since: Vec::new() }
    }

    /// Takes values that do not belong to the latest any more.
    fn learn(&mut self, law: &Law, aged: &[u64]) {
        // The window that showed the change has values of before it.
        if self.seen as usize > law.window {
            self.since.extend(aged);
            let surplus = self.since.len().saturating_sub(law.baseline);
            self.since.drain(..surplus);
        }
    }

    /// The level that it has changed to. While that is not learnt, values vary as they did before,
    /// but by all of their range on either side, and with twice the margin.
    fn level(&self, law: &Law) -> Option<Level> {
        if self.since.len() >= law.learn {
            return Level::of(&self.since, law);
        }
        let Level { median, low, high, values, .. } = self.before;
        let ratio = (self.after as f64 / median.max(1) as f64).max(1.0);
        let range = ((high - low) as f64 * ratio) as u64;
        Some(Level {
            median: self.after,
            low: self.after.saturating_sub(range),
            high: self.after.saturating_add(range),
            margin: law.margin(self.after).saturating_mul(2),
            values,
        })
    }

    /// Whether a value is as before: within half of the margin, or with three quarters of the
    /// change undone.
    fn is_back(&self, law: &Law, value: u64) -> bool {
        let Level { median, margin, .. } = self.before;
        let place = self.before.place(value, margin / 2);
        let change = self.after.abs_diff(median);
        !law.counts(place) || value.abs_diff(median) <= change / 4
    }
}

/// What a value led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing new.
    Same,
    /// It has changed.
    Changed {
        before: Level,
        /// The median of the values outside.
        after: u64,
        /// When the first of them was seen.
        since_ms: u64,
        /// How many of the latest values are outside, and of how many.
        outside: (usize, usize),
    },
    /// It had changed, and has changed again. `outside` counts the values outside the level that
    /// it had before all of this.
    Again {
        before: Level,
        after: u64,
        /// When the first value outside the changed level was seen.
        since_ms: u64,
        outside: (usize, usize),
    },
    /// It is back.
    Back,
    /// It stays changed, and is the baseline now.
    Accepted,
}

impl Signal {
    /// Takes the next value.
    pub(crate) fn observe(&mut self, law: &Law, at_ms: u64, value: u64) -> Verdict {
        self.latest.push((at_ms, value));
        let surplus = self.latest.len().saturating_sub(law.window);
        let aged: Vec<u64> = self.latest.drain(..surplus).map(|(_, value)| value).collect();
        match &mut self.changed {
            None => {
                self.baseline.extend(aged);
                let surplus = self.baseline.len().saturating_sub(law.baseline);
                self.baseline.drain(..surplus);
                self.quiet(law)
            }
            Some(changed) => {
                changed.seen = changed.seen.saturating_add(1);
                changed.learn(law, &aged);
                let changed = changed.clone();
                self.while_changed(law, &changed)
            }
        }
    }

    fn quiet(&mut self, law: &Law) -> Verdict {
        if self.baseline.len() < law.learn {
            return Verdict::Same;
        }
        let Some(before) = Level::of(&self.baseline, law) else { return Verdict::Same };
        let Some(found) = law.outside(&before, &self.latest) else { return Verdict::Same };
        let Deviation { median: after, since_ms, count } = found;
        self.changed = Some(Changed::new(before, after));
        Verdict::Changed { before, after, since_ms, outside: (count, self.latest.len()) }
    }

    fn while_changed(&mut self, law: &Law, changed: &Changed) -> Verdict {
        let is_back = |value: u64| changed.is_back(law, value);
        let back = self.latest.iter().filter(|(_, value)| is_back(*value)).count();
        if self.latest.len() >= law.window && back >= law.count {
            self.changed = None;
            // The values of the change are no part of the baseline.
            self.latest.retain(|(_, value)| is_back(*value));
            return Verdict::Back;
        }
        if let Some(verdict) = self.again(law, changed) {
            return verdict;
        }
        if changed.seen >= law.accept {
            self.changed = None;
            self.baseline = self.latest.drain(..).map(|(_, value)| value).collect();
            return Verdict::Accepted;
        }
        Verdict::Same
    }

    /// A signal that has changed changes again when the values that are not back are outside the
    /// level that it has changed to.
    fn again(&mut self, law: &Law, changed: &Changed) -> Option<Verdict> {
        let not_back: Vec<(u64, u64)> =
            self.latest.iter().copied().filter(|one| !changed.is_back(law, one.1)).collect();
        let found = law.outside(&changed.level(law)?, &not_back)?;
        let (before, after) = (changed.before, found.median);
        let place = before.place(after, before.margin);
        if !law.counts(place) {
            return None;
        }
        let is = |(_, value): &&(u64, u64)| before.place(*value, before.margin) == place;
        let outside = (self.latest.iter().filter(is).count(), self.latest.len());
        self.changed = Some(Changed::new(before, after));
        Some(Verdict::Again { before, after, since_ms: found.since_ms, outside })
    }
}
