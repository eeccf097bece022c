//! Which pairs of nodes are slow, and which nodes have their slow pairs in common.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_report::numbers::{grouped_count, percent, size};
use lustrine_wire::nid::Nid;

use crate::combination::Combination;
use crate::lines::{Metric, median};
use crate::model::TestKind;

/// A pair is slow below this part of the median.
const SLOW: f64 = 0.5;
pub(crate) const SLOW_WORDS: &str = "below half of the median";

/// A node is slow if at least this part of its pairs is, and at least so many of them.
const NODE_PART: f64 = 0.25;
const NODE_LEAST: usize = 2;

/// Largest number of nodes, and of pairs, that are named.
const NAMED_MAX: usize = 3;

/// The results of pairs that ran by themselves.
pub(crate) struct Pairs {
    /// By client and server; of several repetitions, the mean.
    pub(crate) values: BTreeMap<(Nid, Nid), f64>,
    test: TestKind,
    /// Bytes per operation; 0 for ping.
    size: u32,
}

/// A node that slow pairs have in common.
#[derive(Debug, PartialEq, Eq)]
struct SlowNode {
    nid: Nid,
    /// Its slow pairs, without those of slower nodes.
    slow: usize,
    /// All pairs that it has with other nodes than slower ones.
    of: usize,
}

impl Pairs {
    /// The pairs of a combination, each test and size by itself.
    pub(crate) fn all_of(combination: &Combination<'_>) -> Vec<Pairs> {
        let rows = || combination.points.iter().flat_map(|point| &point.rows);
        let mut tests: Vec<(TestKind, u32)> = Vec::new();
        for row in rows() {
            if !tests.contains(&(row.test, row.size)) {
                tests.push((row.test, row.size));
            }
        }
        let of_test = |(test, size)| {
            let mut sums: BTreeMap<(Nid, Nid), (f64, u32)> = BTreeMap::new();
            let own = rows().filter(|row| (row.test, row.size) == (test, size));
            for client in own.flat_map(|row| &row.by_client) {
                let Some(server) = client.server else { continue };
                let value = match size {
                    0 => client.counted.ops_per_s,
                    _ => client.counted.mib_per_s,
                };
                let sum = sums.entry((client.nid, server)).or_default();
                (sum.0, sum.1) = (sum.0 + value, sum.1 + 1);
            }
            let mean = |(pair, (sum, count)): (_, (f64, u32))| (pair, sum / f64::from(count));
            Pairs { test, size, values: sums.into_iter().map(mean).collect() }
        };
        tests.into_iter().map(of_test).collect()
    }

    /// Its test and size.
    pub(crate) fn name(&self) -> String {
        match self.size {
            0 => self.test.name().to_owned(),
            bytes => format!("{} {}", self.test.name(), size(bytes)),
        }
    }

    /// The metric that its values are of.
    pub(crate) fn metric(&self) -> Metric {
        Metric::rate_of(self.size)
    }

    /// All nodes of a side.
    pub(crate) fn side(&self, pick: fn(&(Nid, Nid)) -> Nid) -> Vec<Nid> {
        let all: BTreeSet<Nid> = self.values.keys().map(pick).collect();
        all.into_iter().collect()
    }

    /// Their number, as text.
    pub(crate) fn count(&self) -> String {
        grouped_count(self.values.len() as u64)
    }

    /// All values, the least first.
    fn sorted(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.values.values().copied().collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The median; of an even number, the mean of the two in the middle. `None` without pairs.
    pub(crate) fn median(&self) -> Option<f64> {
        median(&self.sorted())
    }

    /// The slow pairs.
    pub(crate) fn slow(&self) -> impl Iterator<Item = &(Nid, Nid)> {
        let least = SLOW * self.median().unwrap_or(0.0);
        self.values.iter().filter(move |(_, value)| **value < least).map(|(pair, _)| pair)
    }

    /// The nodes with the largest part of slow pairs, one after the other, and the slow pairs of no
    /// such node. A node that all pairs have in common is none: nothing shows that the others are
    /// not slow.
    fn attributed(&self) -> (Vec<SlowNode>, Vec<(Nid, Nid)>) {
        let mut left: BTreeSet<(Nid, Nid)> = self.slow().copied().collect();
        let mut all = self.values.len();
        let mut counts: BTreeMap<Nid, (usize, usize)> = BTreeMap::new();
        let mut pairs_of: BTreeMap<Nid, BTreeSet<(Nid, Nid)>> = BTreeMap::new();
        for pair in self.values.keys() {
            for nid in [pair.0, pair.1] {
                let (slow, of) = counts.entry(nid).or_default();
                (*slow, *of) = (*slow + usize::from(left.contains(pair)), *of + 1);
                pairs_of.entry(nid).or_default().insert(*pair);
            }
        }
        let mut nodes = Vec::new();
        loop {
            let many = |node: &SlowNode| {
                let enough = node.slow >= NODE_LEAST && node.of < all;
                enough && node.slow as f64 >= NODE_PART * node.of as f64
            };
            let worst =
                counts.iter().map(|(nid, (slow, of))| SlowNode { nid: *nid, slow: *slow, of: *of });
            let part = |node: &SlowNode| node.slow as f64 / node.of as f64;
            let worst = worst
                .filter(many)
                .max_by(|one, two| part(one).total_cmp(&part(two)).then(one.slow.cmp(&two.slow)));
            let Some(worst) = worst else { return (nodes, left.into_iter().collect()) };
            for pair in pairs_of.remove(&worst.nid).unwrap_or_default() {
                let was_slow = left.remove(&pair);
                all -= 1;
                let other = if pair.0 == worst.nid { pair.1 } else { pair.0 };
                if let Some((slow, of)) = counts.get_mut(&other) {
                    (*slow, *of) = (*slow - usize::from(was_slow), *of - 1);
                }
                if let Some(pairs) = pairs_of.get_mut(&other) {
                    pairs.remove(&pair);
                }
            }
            counts.remove(&worst.nid);
            nodes.push(worst);
        }
    }

    /// What is slow, as a part of a sentence.
    pub(crate) fn verdict(&self) -> Option<String> {
        let median = self.median()?;
        if median <= 0.0 {
            let none = self.values.values().filter(|value| **value <= 0.0).count();
            return Some(format!("{none} of {} pairs moved nothing", self.count()));
        }
        let (nodes, pairs) = self.attributed();
        if nodes.is_empty() && pairs.is_empty() {
            let least = self.sorted().first().copied().unwrap_or(0.0);
            return Some(format!(
                "no pair of {} is {SLOW_WORDS}; the slowest has {} of it",
                self.count(),
                percent(least / median)
            ));
        }
        let node = |node: &SlowNode| {
            let SlowNode { nid, slow, of } = node;
            format!("node {nid} is slow: {slow} of its {of} pairs are {SLOW_WORDS}")
        };
        let mut words: Vec<String> = nodes.iter().take(NAMED_MAX).map(node).collect();
        if nodes.len() > NAMED_MAX {
            words.push(format!("{} more nodes are slow", nodes.len() - NAMED_MAX));
        }
        if !pairs.is_empty() {
            let value = |pair: &(Nid, Nid)| self.values.get(pair).copied().unwrap_or(0.0) / median;
            let mut pairs: Vec<(f64, (Nid, Nid))> =
                pairs.into_iter().map(|pair| (value(&pair), pair)).collect();
            pairs.sort_by(|one, two| one.0.total_cmp(&two.0));
            let named = pairs.iter().take(NAMED_MAX).map(|(part, (from, to))| {
                format!("{from} -> {to} with {} of the median", percent(*part))
            });
            let mut named: Vec<String> = named.collect();
            if pairs.len() > NAMED_MAX {
                named.push(format!("{} more", pairs.len() - NAMED_MAX));
            }
            let what = match (pairs.len(), nodes.is_empty()) {
                (1, true) => "one pair is slow",
                (1, false) => "one more pair is slow",
                (_, true) => "single pairs are slow",
                (_, false) => "other pairs are slow",
            };
            words.push(format!("{what}: {}", named.join(", ")));
        }
        Some(words.join("; "))
    }

    /// The same as a sentence with the median.
    pub(crate) fn sentence(&self) -> String {
        let words = self.verdict().unwrap_or_default();
        let median = self.metric().text(self.median().unwrap_or(0.0));
        let mut letters = words.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        let rest = letters.as_str();
        format!("{}{rest}. The median is {median}.", first.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
