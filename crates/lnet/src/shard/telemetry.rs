//! Counters, latencies and the journal of a shard.

use crate::journal::{DropReason, Journal, Step};
use crate::stats::Stats;
use crate::time::Time;

#[derive(Debug)]
pub(super) struct Telemetry {
    pub(super) stats: Stats,
    /// The counters at the last reset.
    baseline: Stats,
    /// Whether latencies are measured.
    pub(super) latencies: bool,
    /// Present while a journal is kept.
    pub(super) journal: Option<Box<Journal>>,
}

impl Telemetry {
    pub(super) fn new(latencies: bool) -> Telemetry {
        Telemetry { stats: Stats::default(), baseline: Stats::default(), latencies, journal: None }
    }

    /// Resets what [`Telemetry::since_reset`] counts.
    pub(super) fn reset(&mut self) {
        self.stats.msgs_max = self.stats.msgs_alloc;
        self.baseline = self.stats;
    }

    pub(super) fn since_reset(&self) -> Stats {
        self.stats.since(&self.baseline)
    }

    /// Counts the messages that are alive.
    #[inline]
    pub(super) fn alive(&mut self, messages: usize) {
        self.stats.msgs_alloc = messages as u64;
        self.stats.msgs_max = self.stats.msgs_max.max(self.stats.msgs_alloc);
    }

    #[inline]
    pub(super) fn journal_enabled(&self) -> bool {
        self.journal.is_some()
    }

    /// Adds an entry to the journal, if one is kept.
    #[inline]
    pub(super) fn note(&mut self, now: Time, step: Step) {
        if let Some(journal) = &mut self.journal {
            journal.note(now, step);
        }
    }

    /// Sets the reason for a verdict of `Verdict::Drop` to come.
    #[inline]
    pub(super) fn note_drop(&mut self, reason: DropReason) {
        if let Some(journal) = &mut self.journal {
            journal.drop_reason = Some(reason);
        }
    }
}
