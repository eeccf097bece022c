//! Whether more pings are lost than before. Samples without any answer are none of its: then the
//! peer is not reachable.

use serde::{Deserialize, Serialize};

use crate::sample::Sample;

/// The latest samples, which are judged.
const WINDOW: usize = 12;
/// So many of them have to have losses.
const WITH_LOSSES: usize = 3;
/// Samples before them, which they are compared with.
const BASELINE: usize = 120;
/// Samples without which there is no alarm.
const LEARN: usize = 30;
/// The part of lost pings that has to come on top.
const MORE: f64 = 0.1;
/// The same in standard deviations.
const DEVIATIONS: f64 = 5.0;

/// Pings of a sample, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Pings {
    at_ms: u64,
    lost: u32,
    sent: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Losses {
    baseline: Vec<Pings>,
    latest: Vec<Pings>,
    changed: Option<Changed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Changed {
    /// Lost and sent before.
    before: (u64, u64),
    seen: u32,
}

/// Pairs are numbers of pings: lost, and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossVerdict {
    Same,
    Changed { before: (u64, u64), now: (u64, u64), samples: usize, since_ms: u64 },
    Back,
    Accepted,
}

fn sum(list: &[Pings]) -> (u64, u64) {
    let lost = list.iter().map(|one| u64::from(one.lost)).sum();
    (lost, list.iter().map(|one| u64::from(one.sent)).sum())
}

fn part((lost, sent): (u64, u64)) -> f64 {
    lost as f64 / sent.max(1) as f64
}

/// What has to come on top of the part before, for so many pings.
fn margin(before: f64, pings: u64) -> f64 {
    MORE.max(DEVIATIONS * (before * (1.0 - before) / pings.max(1) as f64).sqrt())
}

impl Losses {
    /// `accept`: after so many samples with more losses these are accepted.
    pub(super) fn observe(&mut self, sample: &Sample, accept: u32) -> LossVerdict {
        let Sample { at_ms, lost, sent, .. } = *sample;
        self.latest.push(Pings { at_ms, lost, sent });
        let surplus = self.latest.len().saturating_sub(WINDOW);
        let aged: Vec<Pings> = self.latest.drain(..surplus).collect();
        let now = sum(&self.latest);
        let Some(changed) = &mut self.changed else {
            self.baseline.extend(aged);
            let surplus = self.baseline.len().saturating_sub(BASELINE);
            self.baseline.drain(..surplus);
            return self.quiet(now);
        };
        changed.seen = changed.seen.saturating_add(1);
        let (before, seen) = (part(changed.before), changed.seen);
        if seen >= WINDOW as u32 && part(now) <= before + margin(before, now.1) / 2.0 {
            self.changed = None;
            return LossVerdict::Back;
        }
        if seen >= accept {
            self.changed = None;
            self.baseline = std::mem::take(&mut self.latest);
            return LossVerdict::Accepted;
        }
        LossVerdict::Same
    }

    fn quiet(&mut self, now: (u64, u64)) -> LossVerdict {
        let mut with = self.latest.iter().filter(|one| one.lost > 0);
        let Some(first) = with.next() else { return LossVerdict::Same };
        let (samples, since_ms) = (1 + with.count(), first.at_ms);
        let before = sum(&self.baseline);
        let many = part(now) > part(before) + margin(part(before), now.1);
        if self.baseline.len() < LEARN || samples < WITH_LOSSES || !many {
            return LossVerdict::Same;
        }
        self.changed = Some(Changed { before, seen: 0 });
        LossVerdict::Changed { before, now, samples, since_ms }
    }
}
