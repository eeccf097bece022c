use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::sample::{Bandwidth, PathSample};

fn sample() -> impl Strategy<Value = Sample> {
    let times = proptest::collection::vec(1_u64..1_000_000, 0..12);
    let path = proptest::option::of((576_u32..9001, 576_u32..9001));
    let rates = proptest::option::of((1_u64..1000, 1_u64..1000));
    // Mostly a few minutes later, now and then a step of the clock.
    let step = prop_oneof![9 => 0_i64..1_800_000, 1 => -20_000_000_i64..20_000_000];
    (times, 0_u32..5, path, rates, step).prop_map(|(times, lost, path, rates, step)| Sample {
        at_ms: step.cast_unsigned(),
        sent: times.len() as u32 + lost,
        lost,
        rtt: Rtt::of(times),
        path: path.map(|(out, back)| PathSample {
            mtu_out: Some(out),
            mtu_back: Some(back),
            ..PathSample::default()
        }),
        bandwidth: rates.map(|(read, write)| Bandwidth { read: Some(read), write: Some(write) }),
    })
}

/// Samples with numbers, and clocks that step in both directions.
fn samples() -> impl Strategy<Value = Vec<(u64, Sample)>> {
    proptest::collection::vec(sample(), 0..60).prop_map(|list| {
        let mut now = 1_000_000_000_i64;
        let list = list.into_iter().zip(0..).map(|(mut sample, number)| {
            now = (now + sample.at_ms.cast_signed()).max(0);
            sample.at_ms = now.cast_unsigned();
            (number * 3, sample)
        });
        list.collect()
    })
}

/// Everything in one row.
fn whole(rows: impl Iterator<Item = Row>) -> Row {
    Row::of(0, &rows.collect::<Vec<_>>())
}

proptest! {
    /// What a row keeps exactly is the same before and after, and nothing is in two places.
    #[test]
    fn thinning_keeps_counts_and_extremes(samples in samples(), until in 0_u64..2_000_000_000) {
        let thinned = thin(&samples, until);
        let kept = samples.iter().filter(|(number, _)| !thinned.replaced.contains(number));
        let after = whole(
            kept.map(|(_, sample)| Row::from(sample))
                .chain(thinned.rows.iter().map(|(_, row)| row.clone())),
        );
        let before = whole(samples.iter().map(|(_, sample)| Row::from(sample)));
        let exact = |row: &Row| (row.samples, row.answered, row.sent, row.lost, row.mtu_out,
            row.read, row.write, row.rtt.map(|rtt| (rtt.min_ns, rtt.max_ns)));
        prop_assert_eq!(exact(&before), exact(&after));
        if let Some((last, _)) = samples.last() {
            prop_assert!(!thinned.replaced.contains(last), "the latest hour may go on");
        }
        for (first, row) in &thinned.rows {
            let has_ended = row.at_ms + HOUR_MS <= until;
            let is_old = |(number, sample): &(u64, Sample)| number > first && sample.at_ms < until;
            prop_assert!(has_ended || samples.iter().any(is_old), "an older one came later");
            prop_assert!(row.at_ms % HOUR_MS == 0);
        }
        let distinct: BTreeSet<_> = thinned.rows.iter().map(|(at, _)| at).collect();
        prop_assert_eq!(distinct.len(), thinned.rows.len());
    }

    /// A second time there is nothing to do.
    #[test]
    fn thinning_twice_is_thinning_once(samples in samples(), until in 0_u64..2_000_000_000) {
        let first = thin(&samples, until);
        let mut left = samples;
        left.retain(|(number, _)| !first.replaced.contains(number));
        prop_assert_eq!(thin(&left, until), Thinned::default());
    }

    /// Percentiles lie between what they are of.
    #[test]
    fn rows_of_rows_are_consistent(samples in samples(), period in 1_u64..100_000_000) {
        let rows: Vec<Row> = samples.iter().map(|(_, sample)| Row::from(sample)).collect();
        let periods = by_period(rows.clone(), period);
        prop_assert!(periods.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms));
        let (before, after) = (whole(rows.into_iter()), whole(periods.iter().cloned()));
        let counts = |row: &Row| (row.samples, row.sent, row.lost);
        prop_assert_eq!(counts(&before), counts(&after));
        for rtt in periods.iter().filter_map(|row| row.rtt) {
            prop_assert!(rtt.min_ns <= rtt.median_ns && rtt.median_ns <= rtt.max_ns);
            prop_assert!(rtt.median_ns <= rtt.p99_ns && rtt.p99_ns <= rtt.max_ns);
        }
    }
}

/// The clock was a year ahead for a while, and was corrected.
#[test]
fn samples_of_a_clock_that_was_ahead_are_replaced_with_those_around_them() {
    let year = 365 * 24 * HOUR_MS;
    let at = |number: u64| number * HOUR_MS / 4 + if (5..7).contains(&number) { year } else { 0 };
    let list = |count| -> Vec<(u64, Sample)> {
        (0..count)
            .map(|number| (number, Sample { at_ms: at(number), ..Sample::default() }))
            .collect()
    };
    // As long as all that follow are young, it may be the present clock that is wrong.
    assert_eq!(thin(&list(12), HOUR_MS).replaced, [0, 1, 2, 3]);
    let thinned = thin(&list(24), 4 * HOUR_MS);
    assert_eq!(thinned.replaced, (0..16).collect::<Vec<_>>());
    let rows: Vec<(u64, u64)> =
        thinned.rows.iter().map(|(first, row)| (*first, row.at_ms / HOUR_MS)).collect();
    assert_eq!(rows, [(0, 0), (4, 1), (5, 8761), (7, 1), (8, 2), (12, 3)]);
}

#[test]
fn a_median_is_weighted() {
    let row = |median_ns, answered| Row {
        answered,
        rtt: Some(Rtt { min_ns: 1, median_ns, p99_ns: median_ns, max_ns: 9 }),
        ..Row::default()
    };
    let all = Row::of(7, &[row(3, 1), row(5, 10), row(4, 2)]);
    assert_eq!(all.rtt.map(|rtt| (rtt.min_ns, rtt.median_ns, rtt.max_ns)), Some((1, 5, 9)));
    assert_eq!((all.at_ms, Row::of(7, &[])), (7, Row { at_ms: 7, ..Row::default() }));
}
