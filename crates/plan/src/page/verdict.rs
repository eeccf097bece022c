//! The most important result of a run, in one sentence.

use lustrine_report::numbers::{counted, percent};

use super::{longest_axis, name_of, value_on};
use crate::combination::{Combination, combinations};
use crate::lines::Metric;
use crate::pairs::Pairs;
use crate::results::{End, Results};

/// A value is full if it is at least this part of the most.
const FULL: f64 = 0.95;

/// Values of one test along an axis.
struct Series {
    name: String,
    axis: String,
    metric: Metric,
    /// Position, its label, and the value there.
    values: Vec<(f64, String, f64)>,
    one_sample: bool,
}

/// The sentence; `None` if nothing was measured that one could say.
pub(super) fn verdict(results: &Results) -> Option<String> {
    let mut sentence = String::new();
    if results.errors() > 0 {
        sentence = format!("{} failed; ", counted(results.errors(), "operation"));
    }
    if results.end != End::Complete {
        sentence += "the run is not complete; ";
    }
    let steps = combinations(results);
    let turns = steps.iter().flat_map(|(.., all)| all).filter(|all| all.is_in_turns());
    let all: Vec<Series> = steps.iter().flat_map(|(.., all)| series(all)).collect();
    let most = |series: &&Series| series.values.iter().map(|v| v.2).fold(0.0, f64::max);
    let bulk = all.iter().filter(|series| series.metric == Metric::MibPerS);
    let best = bulk.max_by(|one, two| most(one).total_cmp(&most(two)));
    let best = best.or_else(|| all.iter().max_by(|one, two| most(one).total_cmp(&most(two))));
    let pairs: Vec<Pairs> = turns.flat_map(Pairs::all_of).collect();
    let idle = pairs.iter().find(|pairs| pairs.median().is_some_and(|median| median <= 0.0));
    let slow = idle.or_else(|| pairs.iter().find(|pairs| pairs.slow().next().is_some()));
    let pairs = slow.or(pairs.first()).and_then(Pairs::verdict);
    let what = pairs.or_else(|| best.map(of_series));
    let text = match what {
        Some(what) => sentence + &what,
        None => sentence.trim_end_matches("; ").to_owned(),
    };
    let mut letters = text.chars();
    let first = letters.next()?;
    Some(format!("{}{}.", first.to_ascii_uppercase(), letters.as_str()))
}

/// The tests of a step along its longest axis; those with one value are none.
fn series(combinations: &[Combination<'_>]) -> Vec<Series> {
    let Some(axis) = longest_axis(combinations) else { return Vec::new() };
    let mut all: Vec<Series> = Vec::new();
    for combination in combinations.iter().filter(|all| !all.is_in_turns()) {
        let Some((x, label)) = value_on(combination, &axis) else { continue };
        for cell in combination.cells() {
            let row = cell.middle();
            let name = name_of(combination, row, &axis);
            let metric = Metric::rate_of(row.size);
            let rate = if row.size > 0 { row.all.mib_per_s } else { row.all.ops_per_s };
            let at = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
                let axis = axis.clone();
                let values = Vec::new();
                all.push(Series { name, axis, metric, values, one_sample: false });
                all.len() - 1
            });
            all[at].values.push((x, label.to_owned(), rate));
            all[at].one_sample |= cell.rows.len() == 1;
        }
    }
    all.retain(|series| series.values.len() > 1);
    // Values may be given, and run, in any order.
    for series in &mut all {
        series.values.sort_by(|one, two| one.0.total_cmp(&two.0));
    }
    all
}

/// From where on a test gets no faster, and how much it loses beyond.
fn of_series(series: &Series) -> String {
    let Series { name, axis, metric, values, one_sample } = series;
    let most = values.iter().map(|value| value.2).fold(0.0, f64::max);
    let full = values.iter().find(|value| value.2 >= FULL * most);
    let (Some((_, at, rate)), Some((_, last, end))) = (full, values.last()) else {
        return String::new();
    };
    let mut text = match at == last {
        true => format!("{name} still grows at {axis} {at}, to {}", metric.text(*rate)),
        false => format!("{name} saturates at {axis} {at}, with {}", metric.text(*rate)),
    };
    if *end < FULL * most {
        text += &format!(
            ", and falls {} below its maximum at {axis} {last}",
            percent(1.0 - end / most)
        );
    }
    if *one_sample {
        text += " (one sample each, noise unknown)";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::run;

    #[test]
    fn the_sentence_says_where_a_test_is_full() {
        let said = |lines: &[(u32, &[f64])]| verdict(&run(lines)).expect("a sentence");
        assert_eq!(
            said(&[(1, &[100.0]), (2, &[990.0]), (4, &[1000.0]), (8, &[500.0])]),
            "Read 4k saturates at concurrency 2, with 990 MiB/s, and falls 50% below its maximum \
             at concurrency 8 (one sample each, noise unknown)."
        );
        assert_eq!(
            said(&[(1, &[100.0, 100.0]), (2, &[200.0, 200.0])]),
            "Read 4k still grows at concurrency 2, to 200 MiB/s."
        );
        assert_eq!(
            said(&[(8, &[500.0]), (2, &[990.0]), (1, &[1000.0])]),
            "Read 4k saturates at concurrency 1, with 1,000 MiB/s, and falls 50% below its maximum \
             at concurrency 8 (one sample each, noise unknown).",
            "whatever the order is in which they ran"
        );
        assert_eq!(verdict(&run(&[(1, &[100.0])])), None, "one value has no course");
        let mut failed = run(&[(1, &[100.0])]);
        failed.points[0].rows[0].all.errors = 3;
        assert_eq!(verdict(&failed).as_deref(), Some("3 operations failed."));
    }
}
