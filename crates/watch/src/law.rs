//! The law that distinguishes a change from noise, for one signal.
//!
//! A signal is compared with its baseline: the values before the latest few. Nothing is assumed of
//! the noise but that it goes on as before: a value is outside when it exceeds what 95 % of the
//! baseline did not exceed, plus a margin. One value in twenty is outside by chance, whatever the
//! noise; that most of the latest values are, is no chance.

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

/// What a baseline comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Level {
    pub(crate) median: u64,
    /// 5 % of the values are below, 5 % above.
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
        let part = (median as f64 * law.part) as u64;
        Some(Level {
            median,
            low: percentile(&sorted, 5)?,
            high: percentile(&sorted, 95)?,
            margin: part.max(law.least),
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

impl Law {
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
}

impl Changed {
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
        for place in [Place::Above, Place::Below] {
            if !law.counts(place) {
                continue;
            }
            let is = |(_, value): &&(u64, u64)| before.place(*value, before.margin) == place;
            let mut outside: Vec<u64> = self.latest.iter().filter(is).map(|one| one.1).collect();
            let Some((since_ms, _)) = self.latest.iter().find(is).copied() else { continue };
            if outside.len() >= law.count {
                outside.sort_unstable();
                let counted = (outside.len(), self.latest.len());
                let after = percentile(&outside, 50).unwrap_or(before.median);
                self.changed = Some(Changed { before, after, seen: 0 });
                return Verdict::Changed { before, after, since_ms, outside: counted };
            }
        }
        Verdict::Same
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
        if changed.seen >= law.accept {
            self.changed = None;
            self.baseline = self.latest.drain(..).map(|(_, value)| value).collect();
            return Verdict::Accepted;
        }
        Verdict::Same
    }
}
