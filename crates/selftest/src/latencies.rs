//! Latencies, counted in buckets.

use lustrine_lnet::time::Nanos;
use lustrine_wire::srpc::LATENCY_BUCKETS;

/// Longest latency that is distinguished, in nanoseconds; longer ones count as this.
pub(crate) const LATENCY_MAX: u64 = 60_000_000_000;

/// Buckets of one width; of those with the smallest width there are twice as many.
const ROW: u64 = 1024;

/// Buckets to one of those that travel.
const COARSE: u32 = 16;

/// Buckets that are made together. A run's latencies are mostly near each other, and a simulator
/// has thousands of clients, so not all are made that there could be.
const PAGE: usize = 64;

/// Latencies of successful RPCs, in nanoseconds. Up to 2 us each nanosecond has its own
/// bucket, above that three digits count.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    pages: Vec<Option<Box<[u64; PAGE]>>>,
    count: u64,
    /// The lowest and the highest, as recorded.
    range: Option<(u64, u64)>,
}

impl Latencies {
    #[inline]
    pub(crate) fn record(&mut self, took: Nanos) {
        self.record_many(took, 1);
    }

    #[inline]
    pub(crate) fn record_many(&mut self, took: Nanos, count: u64) {
        let nanos = took.0.min(LATENCY_MAX);
        self.count_in(bucket_of(nanos), count);
        let (low, high) = self.range.unwrap_or((nanos, nanos));
        self.range = Some((low.min(nanos), high.max(nanos)));
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Latencies) {
        for (bucket, count) in other.filled() {
            self.count_in(bucket, count);
        }
        if let Some((low, high)) = other.range {
            let (lowest, highest) = self.range.unwrap_or((low, high));
            self.range = Some((lowest.min(low), highest.max(high)));
        }
    }

    fn count_in(&mut self, bucket: usize, count: u64) {
        let (page, place) = (bucket / PAGE, bucket % PAGE);
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        let bucket = &mut self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]))[place];
        *bucket = bucket.saturating_add(count);
        self.count = self.count.saturating_add(count);
    }

    /// In buckets sixteen times as wide, as
    /// [`ClientStats`](lustrine_wire::srpc::ClientStats) has them.
    pub(crate) fn coarse(&self) -> Vec<(u32, u64)> {
        let mut coarse: Vec<(u32, u64)> = Vec::new();
        for (bucket, count) in self.filled() {
            let bucket = bucket as u32 / COARSE;
            match coarse.last_mut() {
                Some((last, sum)) if *last == bucket => *sum += count,
                _ => coarse.push((bucket, count)),
            }
        }
        coarse
    }

    /// Adds latencies in the buckets of [`ClientStats`](lustrine_wire::srpc::ClientStats), each as
    /// if it were in the middle of its bucket: at most 0.8 % or 8 ns beside what it was.
    pub fn add_coarse(&mut self, buckets: impl IntoIterator<Item = (u32, u64)>) {
        for (bucket, count) in buckets {
            if count == 0 {
                continue;
            }
            let first = u64::from(bucket.min(LATENCY_BUCKETS - 1) * COARSE) as usize;
            let bottom = bottom_of(first);
            let top = top_of(first + COARSE as usize - 1);
            let middle = bottom.midpoint(top).min(LATENCY_MAX);
            self.count_in(bucket_of(middle), count);
            let (low, high) = self.range.unwrap_or((middle, middle));
            self.range = Some((low.min(middle), high.max(middle)));
        }
    }

    /// Number of RPCs.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latency that this part of the RPCs, 0 to 1, did not exceed; 0 when there are none.
    pub fn quantile(&self, part: f64) -> Nanos {
        // A product that is a whole number but for its last binary digit is that number.
        let wanted = part.clamp(0.0, 1.0) * self.count as f64 * (1.0 - f64::EPSILON);
        let wanted = (wanted.ceil() as u64).max(1);
        let mut seen = 0;
        let mut reached = self.filled().skip_while(|(_, count)| {
            seen = u64::saturating_add(seen, *count);
            seen < wanted
        });
        Nanos(reached.next().map_or(0, |(bucket, _)| top_of(bucket)))
    }

    /// The shortest; 0 when there are none.
    pub fn min(&self) -> Nanos {
        Nanos(self.range.map_or(0, |(low, _)| bottom_of(bucket_of(low))))
    }

    /// The longest; 0 when there are none.
    pub fn max(&self) -> Nanos {
        Nanos(self.range.map_or(0, |(_, high)| top_of(bucket_of(high))))
    }

    /// The mean; 0 when there are none.
    pub fn mean(&self) -> Nanos {
        let middle =
            |bucket| u128::from(bottom_of(bucket)).midpoint(u128::from(top_of(bucket) + 1));
        let sum: u128 =
            self.filled().map(|(bucket, count)| u128::from(count) * middle(bucket)).sum();
        Nanos((sum / u128::from(self.count.max(1))) as u64)
    }

    /// Every latency that occurred, rounded to its bucket, with how often.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.filled().map(|(bucket, count)| (Nanos(top_of(bucket)), count))
    }

    /// Buckets with something in them, in order.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let pages = self.pages.iter().enumerate();
        let pages = pages.filter_map(|(page, counts)| Some((page * PAGE, counts.as_ref()?)));
        let buckets = pages.flat_map(|(first, counts)| {
            counts.iter().enumerate().map(move |(place, count)| (first + place, *count))
        });
        buckets.filter(|(_, count)| *count != 0)
    }
}

/// The bucket of a latency: its number of binary digits beyond eleven says how wide it is.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    let shift = u64::from((nanos | 1).ilog2().saturating_sub(10));
    (shift * ROW + (nanos >> shift)) as usize
}

/// The shortest latency in a bucket.
fn bottom_of(bucket: usize) -> u64 {
    let row = (bucket as u64 / ROW).saturating_sub(1);
    (bucket as u64 - row * ROW) << row
}

/// The longest latency in a bucket.
fn top_of(bucket: usize) -> u64 {
    bottom_of(bucket + 1) - 1
}

#[cfg(test)]
mod tests {
    use lustrine_wire::srpc::bucket_start;

    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut last = 0;
        for nanos in (0..5000).chain((0..36).map(|bits| (1 << bits) + 12_345)) {
            let bucket = bucket_of(nanos);
            let (bottom, top) = (bottom_of(bucket), top_of(bucket));
            assert!((bottom..=top).contains(&nanos), "{nanos}: {bottom}..={top}");
            assert!((top - bottom) * 1000 <= nanos, "{nanos}: {bottom}..={top}");
            assert!(nanos >= 2048 || (bottom, top) == (nanos, nanos));
            last = last.max(bucket);
        }
        for bucket in 1..last {
            assert_eq!(bucket_of(bottom_of(bucket)), bucket);
            assert_eq!(top_of(bucket - 1) + 1, bottom_of(bucket));
        }
    }

    #[test]
    fn what_travels_is_near_enough() {
        let mut latencies = Latencies::default();
        let list: Vec<u64> = (0..3000_u64).map(|at| at * at * at).collect();
        list.iter().for_each(|nanos| latencies.record(Nanos(*nanos)));
        for bucket in 0..LATENCY_BUCKETS {
            let fine = (bucket * COARSE) as usize;
            assert_eq!(bottom_of(fine), bucket_start(bucket), "{bucket}");
        }
        let coarse = latencies.coarse();
        assert!(coarse.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(coarse.iter().all(|(bucket, _)| *bucket < LATENCY_BUCKETS));
        let mut again = Latencies::default();
        again.add_coarse(coarse);
        assert_eq!(again.count(), 3000);
        for part in [0.1, 0.5, 0.9, 0.999] {
            let (one, two) = (latencies.quantile(part).0, again.quantile(part).0);
            assert!(one.abs_diff(two) * 100 <= one, "{part}: {one} {two}");
        }
        let mut twice = latencies.clone();
        twice.merge(&latencies);
        assert_eq!((twice.count(), twice.max()), (6000, latencies.max()));
        // Nothing that may come from a peer is too large.
        again.add_coarse([(LATENCY_BUCKETS - 1, u64::MAX), (u32::MAX, u64::MAX), (0, u64::MAX)]);
        assert!(again.max().0 <= LATENCY_MAX * 101 / 100);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut latencies = Latencies::default();
        assert_eq!(
            (latencies.count(), latencies.quantile(0.5), latencies.max()),
            (0, Nanos(0), Nanos(0))
        );
        let mut list: Vec<u64> = (0..10_000_u64).map(|at| at * at % 7919 * at).collect();
        list.iter().for_each(|nanos| latencies.record(Nanos(*nanos)));
        list.sort_unstable();
        let near = |found: Nanos, right: u64| found.0.abs_diff(right) * 1000 <= right;
        for percent in 1..=100 {
            let found = latencies.quantile(percent as f64 / 100.0);
            assert!(near(found, list[percent * 100 - 1]), "{percent} %: {found:?}");
        }
        let mean = list.iter().sum::<u64>() / 10_000;
        assert!(near(latencies.mean(), mean));
        assert!(near(latencies.max(), list[9999]) && latencies.min() == Nanos(list[0]));
        assert_eq!(latencies.buckets().map(|(_, count)| count).sum::<u64>(), 10_000);
        latencies.record(Nanos(u64::MAX));
        assert!(near(latencies.max(), LATENCY_MAX));
    }
}
