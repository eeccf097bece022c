//! Totals that are not affected when tools reset their counters.

use crate::latency::Latencies;
use crate::stats::MessageCounters;

/// The counters of an interface or a peer NID at the last reset. Together with the counters since
/// then they are the total. Minimum and maximum of latencies cannot be computed from two totals, so
/// both parts are kept.
///
/// Needs one word until the first reset. After that it needs 48 bytes if anything was counted, and
/// 2080 bytes for each histogram (docs/metrics.md).
#[derive(Debug, Default)]
pub(crate) struct CounterBaseline(Option<Box<Part>>);

#[derive(Debug, Default)]
struct Part {
    counters: MessageCounters,
    latencies: Latencies,
}

impl CounterBaseline {
    /// Adds the counters since the last reset, and resets them.
    pub(crate) fn take_over(
        &mut self,
        counters: &mut MessageCounters,
        latencies: Option<&mut Latencies>,
    ) {
        let latencies = latencies.map(core::mem::take).unwrap_or_default();
        if *counters == MessageCounters::default() && latencies.is_empty() {
            return;
        }
        let part = self.0.get_or_insert_default();
        part.counters.add(&core::mem::take(counters));
        part.latencies.take_over(latencies);
    }

    /// The total, given the counters since the last reset.
    pub(crate) fn counters(&self, since: &MessageCounters) -> MessageCounters {
        let mut all = *since;
        if let Some(part) = &self.0 {
            all.add(&part.counters);
        }
        all
    }

    /// All latencies, given those since the last reset.
    pub(crate) fn latencies(&self, since: Option<&Latencies>) -> Latencies {
        let mut all = since.cloned().unwrap_or_default();
        if let Some(part) = &self.0 {
            all.add(&part.latencies);
        }
        all
    }
}

#[cfg(test)]
mod tests;
