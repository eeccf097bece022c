//! Whether a peer answers at all.

use serde::{Deserialize, Serialize};

use crate::sample::Sample;

/// Samples in a row without an answer that raise the alarm.
const SILENT: u32 = 3;
/// Samples in a row with answers that end it.
const ANSWERED: u32 = 2;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Reach {
    /// Samples in a row that say the opposite of `is_lost`.
    run: u32,
    /// When the first of them began, and their pings.
    since_ms: u64,
    pings: u32,
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReachVerdict {
    Same,
    Lost { since_ms: u64, samples: u32, pings: u32 },
    Back,
}

impl Reach {
    pub(super) fn observe(&mut self, sample: &Sample) -> ReachVerdict {
        if sample.sent == 0 || sample.is_answered() != self.is_lost {
            if sample.sent > 0 {
                self.run = 0;
            }
            return ReachVerdict::Same;
        }
        if self.run == 0 {
            (self.since_ms, self.pings) = (sample.at_ms, 0);
        }
        self.run += 1;
        self.pings = self.pings.saturating_add(sample.sent);
        match (self.is_lost, self.run) {
            (false, SILENT..) => {
                let (since_ms, samples, pings) = (self.since_ms, self.run, self.pings);
                *self = Reach { is_lost: true, ..Reach::default() };
                ReachVerdict::Lost { since_ms, samples, pings }
            }
            (true, ANSWERED..) => {
                *self = Reach::default();
                ReachVerdict::Back
            }
            _ => ReachVerdict::Same,
        }
    }
}
