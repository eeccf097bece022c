//! The histogram against a sorted list.

use proptest::prelude::*;

use super::*;

/// How far above the true value a percentile may be.
fn allowance(value: u64) -> u64 {
    (value / 8).max(1 << UNIT)
}

/// Times as they are: short ones, and now and then very long ones.
fn times() -> impl Strategy<Value = Vec<u64>> {
    let time = prop_oneof![
        0..2000u64,
        0..1_000_000u64,
        (0..42u32).prop_flat_map(|bits| (1u64 << bits).saturating_sub(2)..(1u64 << bits) + 2),
        0..1u64 << 44,
    ];
    proptest::collection::vec(time, 1..300)
}

fn of(times: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    times.iter().for_each(|time| histogram.record(Nanos(*time)));
    histogram
}

proptest! {
    #[test]
    fn percentiles_are_those_of_a_sorted_list_within_the_stated_error(
        times in times(),
        thousandths in 0..1001u64,
    ) {
        let histogram = of(&times);
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() as u64 * thousandths).div_ceil(1000).max(1);
        let exact = sorted[rank as usize - 1];
        let found = histogram.percentile(thousandths).expect("there are samples").0;
        prop_assert!(found >= exact, "{found} < {exact}");
        if exact < 1 << (UNIT + FINE + DOUBLINGS as u32 - 1) {
            prop_assert!(found - exact <= allowance(exact), "{found} for {exact}");
        }
        prop_assert!((sorted[0]..=sorted[sorted.len() - 1]).contains(&found));
    }

    #[test]
    fn counts_sums_and_extremes_are_exact(times in times(), more in times()) {
        let mut histogram = of(&times);
        histogram.add(&of(&more));
        let all: Vec<u64> = times.into_iter().chain(more).collect();
        prop_assert_eq!(&histogram, &of(&all));
        let summary = histogram.summary();
        prop_assert_eq!(summary.samples, all.len() as u64);
        prop_assert_eq!(summary.sum, all.iter().sum::<u64>());
        prop_assert_eq!(Some(summary.min.0), all.iter().min().copied());
        prop_assert_eq!(Some(summary.max.0), all.iter().max().copied());
        prop_assert_eq!(summary.average().0, summary.sum / summary.samples);
        for (begin, end, count) in histogram.buckets() {
            let inside = all.iter().filter(|time| (begin.0..end.0).contains(time)).count();
            prop_assert_eq!(inside as u64, count, "from {:?} to {:?}", begin, end);
        }
        for (mark, below) in histogram.cumulative().take(MARKS - 1) {
            let exact = all.iter().filter(|time| **time < mark.0).count();
            prop_assert_eq!(exact as u64, below, "below {:?}", mark);
        }
        let (mark, below) = histogram.cumulative().last().expect("there are marks");
        let long = all.iter().filter(|time| **time >= mark.0).count() as u64;
        prop_assert!(below <= summary.samples - long);
    }
}

#[test]
fn every_bucket_begins_where_the_one_before_ends() {
    for bucket in 0..BUCKETS - 1 {
        let end = end_of(bucket);
        assert_eq!(usize::from(bucket_of(Nanos(end.0 - 1))), bucket);
        assert_eq!(usize::from(bucket_of(end)), bucket + 1);
    }
    assert_eq!(bucket_of(Nanos(u64::MAX)), u8::MAX);
    let marks: Vec<u64> = of(&[1]).cumulative().map(|(mark, _)| mark.0).collect();
    assert_eq!((marks[0], marks[1], marks[MARKS - 1]), (1024, 2048, 1024 << 31));
}

#[test]
fn nothing_is_said_of_no_samples() {
    let none = Histogram::default();
    assert_eq!(none.percentile(500), None);
    assert_eq!(none.summary(), Summary::default());
    assert_eq!(none.summary().average(), Nanos::ZERO);
    let mut sum = Summary::default();
    sum.add(&of(&[5]).summary());
    sum.add(&none.summary());
    assert_eq!((sum.samples, sum.min, sum.max), (1, Nanos(5), Nanos(5)));
}

#[test]
fn a_sum_beyond_its_range_stays_there() {
    let histogram = of(&[u64::MAX, 7]);
    assert_eq!(histogram.summary().sum, u64::MAX);
    assert_eq!(histogram.percentile(1000), Some(Nanos(u64::MAX)));
}
