//! How long operations take: a histogram per operation of each peer NID and each interface.
//!
//! The operations and their names are those that lnetctl has since 2.17.55. Besides minimum,
//! maximum and average there are percentiles. The size of a histogram depends neither on the number
//! of samples nor on their range.

use crate::time::Nanos;

/// An operation whose time is measured. Each begins when its message has its credits and is given
/// to the driver; the time that it waited for credits is not part of it. Operations that fail are
/// not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// A PUT of ours, until the driver no longer needs its memory: the payload was copied or sent.
    PutEgress,
    /// A GET of ours, until its REPLY is stored completely.
    GetRtt,
    /// A PUT of ours that wants an ACK, until the ACK arrives.
    PutAck,
}

impl Operation {
    /// All of them, in lnetctl's order.
    pub const ALL: [Operation; 3] = [Operation::PutEgress, Operation::GetRtt, Operation::PutAck];

    /// The prefix of lnetctl's keys.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::PutEgress => "put_egress",
            Operation::GetRtt => "get_rtt",
            Operation::PutAck => "put_ack",
        }
    }
}

/// Width of the first buckets, as a power of two: 128 ns. The clock is read once per round of a
/// loop, which is not finer.
const UNIT: u32 = 7;

/// Buckets between a time and its double, as a power of two: 8. None is wider than 12.5 % of its
/// lower bound.
const FINE: u32 = 3;
const STEPS: usize = 1 << FINE;

/// Doublings beyond the first [`STEPS`] buckets, whose width is [`UNIT`].
const DOUBLINGS: usize = 31;

/// Buckets of a histogram: a byte is enough for an index.
pub const BUCKETS: usize = STEPS * (DOUBLINGS + 1);

/// Marks at which [`Histogram::cumulative`] counts.
pub const MARKS: usize = DOUBLINGS + 1;

const _: () = assert!(size_of::<Histogram>() == 8 * (BUCKETS + 4), "2080 bytes (docs/metrics.md)");
const _: () = assert!(BUCKETS == u8::MAX as usize + 1, "no index is out of range");

/// A histogram of durations. Its size is constant.
///
/// The resolution is 128 ns up to 1.024 us, and 12.5 % of the duration above that; durations of
/// 2199 s or more share one bucket. Number, sum, minimum and maximum are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    samples: u64,
    /// In nanoseconds; saturates.
    sum: u64,
    min: u64,
    max: u64,
    counts: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { samples: 0, sum: 0, min: u64::MAX, max: 0, counts: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, took: Nanos) {
        self.record_in(took, bucket_of(took));
    }

    /// Called for every message: what is rare is a branch that is not taken.
    #[inline]
    fn record_in(&mut self, took: Nanos, bucket: u8) {
        self.counts[usize::from(bucket)] += 1;
        self.samples += 1;
        self.sum = self.sum.saturating_add(took.0);
        if took.0 < self.min {
            self.min = took.0;
        }
        if took.0 > self.max {
            self.max = took.0;
        }
    }

    /// Adds the samples of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.samples += other.samples;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Number, minimum, maximum and sum.
    pub fn summary(&self) -> Summary {
        let min = if self.samples == 0 { 0 } else { self.min };
        Summary { samples: self.samples, sum: self.sum, min: Nanos(min), max: Nanos(self.max) }
    }

    /// The time that so many thousandths of the samples do not exceed: 500 for the median, 999 for
    /// p99.9. It is never less than the exact value, and exceeds it by at most the width of a
    /// bucket.
    /// `None` without samples; thousandths above 1000 count as 1000.
    pub fn percentile(&self, thousandths: u64) -> Option<Nanos> {
        let wanted = u128::from(self.samples) * u128::from(thousandths.min(1000));
        let rank = wanted.div_ceil(1000).max(1);
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += u128::from(*count);
            below >= rank
        })?;
        // The last bucket has no end.
        let last = if bucket == BUCKETS - 1 { self.max } else { end_of(bucket).0 - 1 };
        Some(Nanos(last.clamp(self.min, self.max)))
    }

    /// The buckets that are not empty: lower bound, exclusive upper bound, number of samples.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, Nanos, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| {
            let begin = if bucket == 0 { Nanos::ZERO } else { end_of(bucket - 1) };
            let end = if bucket == BUCKETS - 1 { Nanos(u64::MAX) } else { end_of(bucket) };
            (begin, end, *count)
        })
    }

    /// The number of samples below each mark: 1.024 us, its double, and so on. Samples beyond the
    /// last mark, 2199 s, are in none.
    pub fn cumulative(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let mut below = 0;
        (0..MARKS).map(move |mark| {
            let buckets = mark * STEPS..(mark + 1) * STEPS;
            below += self.counts[buckets.clone()].iter().sum::<u64>();
            // What is in the last bucket may be longer than its mark.
            let beyond = if mark == MARKS - 1 { self.counts[BUCKETS - 1] } else { 0 };
            (end_of(buckets.end - 1), below - beyond)
        })
    }
}

/// Summary of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of samples.
    pub samples: u64,
    /// Sum, in nanoseconds; saturates.
    pub sum: u64,
    /// Minimum; 0 without samples.
    pub min: Nanos,
    /// Maximum; 0 without samples.
    pub max: Nanos,
}

impl Summary {
    /// The average, rounded down; 0 without samples.
    pub fn average(&self) -> Nanos {
        Nanos(self.sum.checked_div(self.samples).unwrap_or(0))
    }

    /// Adds another summary.
    pub fn add(&mut self, other: &Summary) {
        self.min = match (self.samples, other.samples) {
            (0, _) => other.min,
            (_, 0) => self.min,
            _ => self.min.min(other.min),
        };
        self.samples += other.samples;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }
}

/// A summary of each operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summaries([Summary; Operation::ALL.len()]);

impl Summaries {
    /// The summary of one operation.
    pub fn of(&self, operation: Operation) -> &Summary {
        &self.0[operation as usize]
    }

    /// Adds other summaries.
    pub fn add(&mut self, other: &Summaries) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| sum.add(more));
    }
}

/// A histogram of each operation, from its first sample on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies([Option<Box<Histogram>>; Operation::ALL.len()]);

impl Latencies {
    /// The histogram of one operation; `None` without samples.
    pub fn of(&self, operation: Operation) -> Option<&Histogram> {
        self.0[operation as usize].as_deref()
    }

    /// Whether no operation has a sample.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// A summary of each operation.
    pub fn summaries(&self) -> Summaries {
        let summary = |histogram: &Option<Box<Histogram>>| {
            histogram.as_ref().map(|histogram| histogram.summary()).unwrap_or_default()
        };
        Summaries([summary(&self.0[0]), summary(&self.0[1]), summary(&self.0[2])])
    }

    /// Adds the samples of others.
    pub fn add(&mut self, other: &Latencies) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            if let Some(theirs) = theirs {
                ours.get_or_insert_default().add(theirs);
            }
        }
    }

    /// Adds the samples of others, and moves histograms that are missing here.
    pub(crate) fn take_over(&mut self, other: Latencies) {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            match (ours.as_mut(), theirs) {
                (Some(ours), Some(theirs)) => ours.add(&theirs),
                (None, Some(theirs)) => *ours = Some(theirs),
                (_, None) => {}
            }
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, operation: Operation, sample: Sample) {
        let histogram = match &mut self.0[operation as usize] {
            Some(histogram) => histogram,
            none => begun(none),
        };
        histogram.record_in(sample.took, sample.bucket);
    }
}

/// The first sample is rare.
#[cold]
#[inline(never)]
fn begun(place: &mut Option<Box<Histogram>>) -> &mut Box<Histogram> {
    place.get_or_insert_default()
}

/// A duration and its bucket, computed once for all histograms that count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    took: Nanos,
    bucket: u8,
}

impl Sample {
    #[inline]
    pub(crate) fn new(took: Nanos) -> Sample {
        Sample { took, bucket: bucket_of(took) }
    }
}

#[inline]
fn bucket_of(took: Nanos) -> u8 {
    let units = took.0 >> UNIT;
    if units < STEPS as u64 {
        return units as u8;
    }
    let doubling = units.ilog2() - FINE;
    // The step has the bit of its doubling in it: together they count from 1.
    let bucket = (u64::from(doubling) << FINE) + (units >> doubling);
    bucket.min(u64::from(u8::MAX)) as u8
}

/// The exclusive upper bound of a bucket.
fn end_of(bucket: usize) -> Nanos {
    let (doubling, step) = (bucket / STEPS, bucket % STEPS);
    let units = match doubling {
        0 => step as u64 + 1,
        _ => ((STEPS + step + 1) as u64) << (doubling - 1),
    };
    Nanos(units << UNIT)
}

#[cfg(test)]
mod tests;
