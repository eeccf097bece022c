//! What links carried and messages waited for in the intervals in which loads measured.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::WaitTotals;
use lustrine_sim::fabric::LinkUsage;

use crate::outcome::GroupWaits;

/// All counters at one moment.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: Time,
    /// Per line, per link.
    pub(super) links: Vec<Vec<LinkUsage>>,
    /// Per group, per node; `None` for a node that is away.
    pub(super) waits: Vec<Vec<Option<WaitTotals>>>,
}

/// The sums of all intervals.
#[derive(Debug)]
pub(super) struct Measured {
    /// When the first interval began, and the last one ended.
    pub(super) from: Time,
    pub(super) to: Time,
    /// Their length without the time between them.
    pub(super) length: Nanos,
    /// Per line, per link: what happened in the intervals.
    pub(super) links: Vec<Vec<LinkUsage>>,
    groups: Vec<GroupSums>,
}

#[derive(Clone, Debug, Default)]
struct GroupSums {
    /// The length of the intervals, added up over the nodes that were there.
    node_time: f64,
    /// As in [`values`].
    waits: [f64; 6],
}

/// The intervals in which a load measured: those that are over, and the beginning of the present
/// one.
#[derive(Debug, Default)]
pub(super) struct Window {
    begun: Option<Reading>,
    measured: Option<Measured>,
}

impl Window {
    pub(super) fn is_open(&self) -> bool {
        self.begun.is_some()
    }

    /// An interval begins.
    pub(super) fn open(&mut self, reading: Reading) {
        self.begun = Some(reading);
    }

    /// The present interval is over.
    pub(super) fn close(&mut self, end: &Reading) {
        let Some(start) = self.begun.take() else { return };
        if end.at > start.at {
            self.measured.get_or_insert_with(|| Measured::new(&start)).add(&start, end);
        }
    }

    /// `None` if no load has measured.
    pub(super) fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }
}

impl Measured {
    fn new(start: &Reading) -> Measured {
        let unused = |line: &Vec<LinkUsage>| vec![LinkUsage::default(); line.len()];
        Measured {
            from: start.at,
            to: start.at,
            length: Nanos::ZERO,
            links: start.links.iter().map(unused).collect(),
            groups: vec![GroupSums::default(); start.waits.len()],
        }
    }

    fn add(&mut self, start: &Reading, end: &Reading) {
        let length = end.at.since(start.at);
        self.to = end.at;
        self.length = Nanos(self.length.0 + length.0);
        let links = self.links.iter_mut().flatten();
        let pairs = start.links.iter().flatten().zip(end.links.iter().flatten());
        for (sum, (start, end)) in links.zip(pairs) {
            sum.busy = Nanos(sum.busy.0 + end.busy.0.saturating_sub(start.busy.0));
            sum.bytes += end.bytes.saturating_sub(start.bytes);
            sum.lost += end.lost.saturating_sub(start.lost);
            sum.queue_max = end.queue_max;
        }
        for ((sums, start), end) in self.groups.iter_mut().zip(&start.waits).zip(&end.waits) {
            // Nodes that were away, or were restarted in the meantime, are left out.
            let both = start.iter().zip(end).filter_map(|(start, end)| Some(((*start)?, (*end)?)));
            for (start, end) in both.filter(|(start, end)| end.messages >= start.messages) {
                sums.node_time += length.0 as f64;
                let values = values(&start).into_iter().zip(values(&end));
                for (sum, (start, end)) in sums.waits.iter_mut().zip(values) {
                    *sum += end.saturating_sub(start) as f64;
                }
            }
        }
    }

    /// What the messages of a group waited for.
    pub(super) fn group_waits(&self, index: usize, name: &str) -> GroupWaits {
        let GroupSums { node_time, waits } = &self.groups[index];
        let mean = |sum: f64| if *node_time > 0.0 { sum / node_time } else { 0.0 };
        let [peer_credits, ni_credits, driver, zero_copy, cpu, messages] = waits.map(mean);
        GroupWaits {
            group: name.to_owned(),
            peer_credits,
            ni_credits,
            driver,
            zero_copy,
            cpu,
            messages_per_s: messages * 1e9,
        }
    }
}

fn values(waits: &WaitTotals) -> [u64; 6] {
    let WaitTotals { peer_credits, ni_credits, driver, zero_copy, cpu, messages } = *waits;
    [peer_credits, ni_credits, driver, zero_copy, cpu, messages]
}
