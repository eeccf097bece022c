//! Latencies by percentile.

use lustrine_report::{Axis, Line, LineStyle, Page, Plot, Scale};

use super::{LINES_MAX, in_time_unit, name_of};
use crate::combination::{Cell, Combination};
use crate::results::Latency;

/// Percentiles of the axis of latencies.
const PERCENTILES: [(f64, &str); 5] =
    [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];

/// Where a part of all operations is on the axis: every nine is as wide.
fn nines(part: f64) -> f64 {
    -(1.0 - part).log10()
}

/// Latency by percentile: the tests of up to this number of combinations.
pub(super) fn distribution(page: &mut Page, cells: &[(&Combination<'_>, Cell<'_>)]) {
    let mut lines = Vec::new();
    let step = cells.len().div_ceil(LINES_MAX / 2).max(1);
    for (combination, cell) in cells.iter().step_by(step) {
        let row = cell.middle();
        let points = match row.histogram.is_empty() {
            true => row.all.latency_us.iter().flat_map(few_percentiles).collect(),
            false => all_percentiles(&row.histogram),
        };
        if points.len() > 1 {
            let (name, colour) = (name_of(combination, row, ""), lines.len());
            lines.push(Line::new(name, points, LineStyle::Solid, colour));
        }
    }
    if lines.is_empty() {
        return;
    }
    let unit = in_time_unit(&mut lines);
    let end = lines.iter().flat_map(|line| &line.points).map(|p| p.0).fold(0.0, f64::max);
    let marks = PERCENTILES.iter().map(|(part, name)| (nines(*part), (*name).to_owned()));
    let marks = marks.filter(|(at, _)| *at <= end + 0.01);
    let label = "part of the operations that took no longer";
    let x = Axis { names: marks.collect(), ..Axis::new(label, Scale::Linear) };
    let y = Axis::new(unit, Scale::Log);
    let title = "Latency by percentile".to_owned();
    page.figure(&Plot { title, x, y, key: String::new(), lines });
    if step > 1 {
        page.paragraph(&format!("One of {step} lines of the table is shown, from the first one."));
    }
}

/// The percentiles of a histogram from the median on, as far as an operation is above them.
fn all_percentiles(histogram: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let all = histogram.iter().fold(0, |all: u64, (_, count)| all.saturating_add(*count));
    let mut seen: u64 = 0;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (us, count) in histogram {
        // A bucket's latency holds from the part below it to the part with it.
        let before = seen as f64 / all.max(1) as f64;
        seen = seen.saturating_add(*count);
        let part = (seen as f64).min(all as f64 - 1.0) / all.max(1) as f64;
        for part in [before.max(0.5), part] {
            if seen as f64 >= 0.5 * all as f64
                && points.last().is_none_or(|last| nines(part) > last.0)
            {
                points.push((nines(part), *us));
            }
        }
    }
    points
}

fn few_percentiles(latency: &Latency) -> Vec<(f64, f64)> {
    let Latency { p50, p90, p99, p999, p9999, .. } = *latency;
    let values = [Some(p50), Some(p90), Some(p99), p999, p9999];
    let parts = PERCENTILES.iter().map(|(part, _)| nines(*part));
    parts.zip(values).filter_map(|(at, value)| Some((at, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_without_a_histogram_have_each_mark_that_is_known() {
        let latency = Latency {
            mean: None,
            p50: 1.0,
            p90: 2.0,
            p99: 3.0,
            p999: Some(4.0),
            p9999: None,
            max: 9.0,
        };
        let us = |latency| few_percentiles(&latency).iter().map(|(_, us)| *us).collect::<Vec<_>>();
        assert_eq!(us(latency), [1.0, 2.0, 3.0, 4.0]);
        let all = few_percentiles(&Latency { p9999: Some(5.0), ..latency });
        assert!(all.len() == 5 && (all[4].0 - 4.0).abs() < 1e-9, "{all:?}");
    }

    #[test]
    fn percentiles_end_where_one_operation_is_above_them() {
        let points = all_percentiles(&[(10.0, 600), (20.0, 300), (50.0, 99), (900.0, 1)]);
        let near = |(at, us): (f64, f64), part: f64, wanted: f64| {
            assert!((at - nines(part)).abs() < 1e-9 && us == wanted, "{at} {us}: {points:?}");
        };
        near(points[0], 0.5, 10.0);
        near(points[1], 0.6, 10.0);
        near(points[2], 0.9, 20.0);
        near(points[3], 0.999, 50.0);
        assert_eq!(points.len(), 4, "99.9 % is as far as 1000 operations show: {points:?}");
        assert_eq!(all_percentiles(&[]), []);
    }
}
