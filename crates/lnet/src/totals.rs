//! Totals that go on while tools reset what they show.

use crate::latency::Latencies;
use crate::stats::MessageCounters;

/// What an interface or a peer NID had counted when tools last began anew; together with what was
/// counted since, that is the total. Extremes of latencies cannot be computed from two totals, so
/// the two parts are kept.
///
/// A word until the first reset. Then 48 bytes, for those that had counted anything, and the
/// histograms they had: 2080 bytes each, again from the first sample after it (docs/metrics.md).
#[derive(Debug, Default)]
pub(crate) struct CounterBaseline(Option<Box<Part>>);

#[derive(Debug, Default)]
struct Part {
    counters: MessageCounters,
    latencies: Latencies,
}

impl CounterBaseline {
    /// Takes over what was counted since; it begins anew.
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

    /// All messages, with those counted since.
    pub(crate) fn counters(&self, since: &MessageCounters) -> MessageCounters {
        let mut all = *since;
        if let Some(part) = &self.0 {
            all.add(&part.counters);
        }
        all
    }

    /// All latencies, with those taken since.
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
