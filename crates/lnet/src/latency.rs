//! How long operations take: a histogram per operation of each peer NID and each interface.
//!
//! The operations and their names are those that lnetctl has since 2.17.55 (cli-habits 3.2). Where
//! it has the least, the greatest and the average, here are percentiles too: of how many samples,
//! and within which range, does not matter to what a histogram costs.

use crate::time::Nanos;

/// An operation whose time is taken. All begin when the message has its credits and is handed to
/// the driver: what it waited for before shows in credits and queues. What fails is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// A PUT of ours, until the driver needs its memory no more: it was copied to be sent, or has
    /// left.
    PutEgress,
    /// A GET of ours, until its REPLY is stored as a whole.
    GetRtt,
    /// A PUT of ours that wants an ACK, until the ACK is here.
    PutAck,
}

impl Operation {
    /// All of them, in lnetctl's order.
    pub const ALL: [Operation; 3] = [Operation::PutEgress, Operation::GetRtt, Operation::PutAck];

    /// As lnetctl begins its keys.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::PutEgress => "put_egress",
            Operation::GetRtt => "get_rtt",
            Operation::PutAck => "put_ack",
        }
    }
}

/// Width of the first buckets, as a power of two: 128 ns. A clock that is read once per round of a
/// loop tells nothing finer.
const UNIT: u32 = 7;

/// Buckets between a time and its double, as a power of two: 8, none wider than 12.5 % of what it
/// begins with.
const FINE: u32 = 3;
const STEPS: usize = 1 << FINE;

/// Doublings beyond the first [`STEPS`] buckets, which are of [`UNIT`] each.
const DOUBLINGS: usize = 31;

/// Buckets of a histogram: as many as a byte counts.
pub const BUCKETS: usize = STEPS * (DOUBLINGS + 1);

/// Marks at which [`Histogram::cumulative`] counts.
pub const MARKS: usize = DOUBLINGS + 1;

const _: () = assert!(size_of::<Histogram>() == 8 * (BUCKETS + 4), "2080 bytes (docs/metrics.md)");
const _: () = assert!(BUCKETS == u8::MAX as usize + 1, "no index is out of range");

/// How often which times were seen; of one size, whatever is recorded.
///
/// A time of up to 1.024 us is known to 128 ns, a longer one to 12.5 % of itself, one of 2199 s or
/// more only as such. Number, sum, least and greatest are exact.
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
    /// Counts one time.
    #[inline]
    pub fn record(&mut self, took: Nanos) {
        self.record_in(took, bucket_of(took));
    }

    /// On the way of every message: what is rare is a branch that is not taken.
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

    /// Adds what another one has seen.
    pub fn add(&mut self, other: &Histogram) {
        self.samples += other.samples;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Number, least, greatest and sum.
    pub fn summary(&self) -> Summary {
        let min = if self.samples == 0 { 0 } else { self.min };
        Summary { samples: self.samples, sum: self.sum, min: Nanos(min), max: Nanos(self.max) }
    }

    /// The time that so many thousandths of the samples do not exceed: 500 for the median, 999 for
    /// p99.9. Never less than the true one, and more by no more than a bucket's width. `None`
    /// without samples; thousandths above 1000 count as 1000.
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

    /// The buckets that are not empty: from when, up to but without when, how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, Nanos, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| {
            let begin = if bucket == 0 { Nanos::ZERO } else { end_of(bucket - 1) };
            let end = if bucket == BUCKETS - 1 { Nanos(u64::MAX) } else { end_of(bucket) };
            (begin, end, *count)
        })
    }

    /// How many samples took less than each mark: 1.024 us, the double, and so on; without those
    /// beyond the last, of 2199 s, which are the rest of all.
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

/// What can be said of a histogram in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many.
    pub samples: u64,
    /// All together, in nanoseconds.
    pub sum: u64,
    /// The least; 0 without samples.
    pub min: Nanos,
    /// The greatest; 0 without samples.
    pub max: Nanos,
}

impl Summary {
    /// The average, rounded down; 0 without samples.
    pub fn average(&self) -> Nanos {
        Nanos(self.sum.checked_div(self.samples).unwrap_or(0))
    }

    /// Adds another one.
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
    /// Of one operation.
    pub fn of(&self, operation: Operation) -> &Summary {
        &self.0[operation as usize]
    }

    /// Adds others.
    pub fn add(&mut self, other: &Summaries) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| sum.add(more));
    }
}

/// A histogram of each operation, from its first sample on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies([Option<Box<Histogram>>; Operation::ALL.len()]);

impl Latencies {
    /// Of one operation, if there is any sample.
    pub fn of(&self, operation: Operation) -> Option<&Histogram> {
        self.0[operation as usize].as_deref()
    }

    /// Whether no operation has a sample.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Of each operation.
    pub fn summaries(&self) -> Summaries {
        let summary = |histogram: &Option<Box<Histogram>>| {
            histogram.as_ref().map(|histogram| histogram.summary()).unwrap_or_default()
        };
        Summaries([summary(&self.0[0]), summary(&self.0[1]), summary(&self.0[2])])
    }

    /// Adds what others have seen.
    pub fn add(&mut self, other: &Latencies) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            if let Some(theirs) = theirs {
                ours.get_or_insert_default().add(theirs);
            }
        }
    }

    /// The same, without a copy of those of which there is none yet.
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

/// A time and its bucket, found once for all histograms that it belongs to.
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

/// The first time that is too long for a bucket.
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
