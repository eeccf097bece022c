//! The page about a sweep.

use super::footer;
use crate::outcome::Outcome;
use crate::sweep::Sweep;
use lustrine_report::Scale;
use lustrine_report::numbers::{counted, grouped, grouped_count, latency_text, percent};
use lustrine_report::{Axis, Line, LineStyle, Plot, coinciding};
use lustrine_report::{FinishedPage, Page};

/// The name that is the horizontal axis wherever it is varied.
const USUAL: &str = "concurrency";

/// Largest number of hints on the page.
const HINTS_MAX: usize = 12;

/// The axis is logarithmic from this ratio of the largest to the smallest value.
const LOG_FROM: f64 = 12.0;

/// Throughputs that differ by more than this factor have a logarithmic axis.
const WIDE: f64 = 20.0;

/// One combination.
#[derive(Clone, Debug)]
pub struct Row {
    /// A value for each name, in the order of [`Sweep::names`].
    pub values: Vec<String>,
    /// The results.
    pub outcome: Outcome,
}

/// The content of a page.
#[derive(Clone, Copy, Debug)]
pub struct SweepReport<'a> {
    /// The file, as messages call it.
    pub source_name: &'a str,
    /// The text of the file; empty if it is not known.
    pub source: &'a str,
    /// Changes to the file for all combinations.
    pub changes: &'a [String],
    /// The release.
    pub version: &'a str,
    /// What was varied.
    pub sweep: &'a Sweep,
    /// Every combination, in the order of [`Sweep::point`].
    pub rows: &'a [Row],
}

/// Writes the page.
pub fn sweep_page(sweeping: &SweepReport<'_>) -> FinishedPage {
    let SweepReport { source_name, sweep, rows, .. } = *sweeping;
    let axes =
        sweep.axes.iter().map(|axis| format!("{} {}", axis.steps.len(), axis.names.join(",")));
    let mut under = format!(
        "{}: {} values; fidelity {}",
        counted(rows.len() as u64, "run"),
        axes.collect::<Vec<_>>().join(" x "),
        rows.first().map_or("", |row| row.outcome.fidelity.name())
    );
    for change in sweeping.changes {
        under += &format!(", {change}");
    }
    let mut page = Page::new(source_name, &under);
    if let Some(best) = best(rows) {
        page.verdict(&verdict(sweep, rows, best));
    }
    page.tiles(&tiles(sweep, rows));
    page.hints(&hints(sweep, rows));
    let layout = Layout::of(sweep);
    for plot in [layout.throughput(sweep, rows), layout.latency(sweep, rows)] {
        page.figure(&plot);
        let solid: Vec<Line> = plot.lines.iter().filter(|line| !is_dashed(line)).cloned().collect();
        if let Some(alike) = coinciding(&solid) {
            page.paragraph(&alike);
        }
    }
    page.heading("Every combination");
    table(&mut page, sweep, rows);
    if !sweeping.source.is_empty() {
        page.text("The scenario", sweeping.source);
    }
    page.end(&footer(source_name, sweeping.version))
}

/// Whether payload was moved; then bytes are shown, otherwise operations.
fn moved(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.outcome.loads.iter().any(|load| load.size > 0))
}

fn worst_p99(outcome: &Outcome) -> f64 {
    outcome.loads.iter().map(|load| load.latency_us.p99).fold(0.0, f64::max)
}

fn setting(sweep: &Sweep, row: &Row) -> String {
    let pairs = sweep.names().into_iter().zip(&row.values);
    pairs.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// The throughput of all loads of a combination; `None` if they were not measured at the same time.
fn throughput(row: &Row, moved: bool) -> Option<f64> {
    let sum = row.outcome.together()?;
    Some(if moved { sum.mib_per_s } else { sum.ops_per_s })
}

/// The combination with the most throughput.
fn best(rows: &[Row]) -> Option<&Row> {
    let known = rows.iter().filter_map(|row| Some((row, row.outcome.together()?)));
    let best = known.max_by(|(_, one), (_, two)| {
        one.mib_per_s.total_cmp(&two.mib_per_s).then(one.ops_per_s.total_cmp(&two.ops_per_s))
    });
    best.map(|(row, _)| row)
}

/// A throughput that is this part of the most is as good.
const AS_GOOD: f64 = 0.97;

/// The most throughput and, if a single axis was varied, the first value on it that is as good.
fn verdict(sweep: &Sweep, rows: &[Row], best: &Row) -> String {
    let most = format!("{} at {}", most_of(rows, best), setting(sweep, best));
    let rate = |row: &Row| throughput(row, moved(rows)).unwrap_or_default();
    let first = rows.iter().find(|row| rate(row) >= AS_GOOD * rate(best));
    match first {
        Some(first) if sweep.axes.len() == 1 && first.values != best.values => format!(
            "{most}. {} reaches {} of that, with a p99 latency of {} instead of {}.",
            capitalised(&setting(sweep, first)),
            percent(rate(first) / rate(best)),
            latency_text(worst_p99(&first.outcome)),
            latency_text(worst_p99(&best.outcome))
        ),
        _ => most + ".",
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Its throughput, as text.
fn most_of(rows: &[Row], best: &Row) -> String {
    let all = if best.outcome.loads.len() > 1 { " of all loads together" } else { "" };
    let rate = grouped(throughput(best, moved(rows)).unwrap_or_default());
    match moved(rows) {
        true => format!("Most throughput{all}: {rate} MiB/s"),
        false => format!("Most operations{all}: {rate} a second"),
    }
}

fn tiles(sweep: &Sweep, rows: &[Row]) -> Vec<(String, String)> {
    let Some(best) = best(rows) else { return Vec::new() };
    let what = format!("most: {}", setting(sweep, best));
    let unit = if moved(rows) { "MiB/s" } else { "ops/s" };
    let rate = grouped(throughput(best, moved(rows)).unwrap_or_default());
    let number = format!("{rate} {unit}");
    let errors = rows.iter().fold(0, |all: u64, row| all.saturating_add(row.outcome.errors()));
    vec![
        (number, what),
        (latency_text(worst_p99(&best.outcome)), "p99 latency there".to_owned()),
        (grouped_count(errors), "errors in all runs".to_owned()),
    ]
}

/// Every hint once, with the first run that had it and the number of runs.
fn hints(sweep: &Sweep, rows: &[Row]) -> Vec<String> {
    let mut found: Vec<(&String, String, usize)> = Vec::new();
    for row in rows {
        for hint in row.outcome.hints.iter().chain(&row.outcome.unquiet) {
            match found.iter_mut().find(|(known, ..)| *known == hint) {
                Some((.., times)) => *times += 1,
                None => found.push((hint, setting(sweep, row), 1)),
            }
        }
    }
    let words = |(hint, first, times): (&String, String, usize)| match times {
        1 => format!("{first}: {hint}"),
        times => format!("{first}, and {} more: {hint}", times - 1),
    };
    let left_out = found.len().saturating_sub(HINTS_MAX);
    let mut hints: Vec<String> = found.into_iter().take(HINTS_MAX).map(words).collect();
    if left_out > 0 {
        hints.push(format!("{left_out} more hints: see the JSON"));
    }
    hints
}

/// The positions along the axis, and the result at each.
type Points<'r> = Vec<(f64, &'r Row)>;

/// The varied name on the horizontal axis.
struct Layout {
    /// By index of the sweep's dimensions.
    along: usize,
    /// The position of each of its steps.
    places: Vec<f64>,
    x: Axis,
}

impl Layout {
    fn of(sweep: &Sweep) -> Layout {
        let numeric: Vec<Option<Vec<f64>>> = sweep.axes.iter().map(numbers).collect();
        let usual = sweep.axes.iter().position(|axis| axis.names == [USUAL]);
        let longest = (0..sweep.axes.len())
            .filter(|index| numeric[*index].is_some())
            .max_by_key(|index| (sweep.axes[*index].steps.len(), core::cmp::Reverse(*index)));
        let along = usual.or(longest).unwrap_or(0);
        let axis = &sweep.axes[along];
        let mut x = Axis::new(&axis.names.join(", "), Scale::Linear);
        let places = match &numeric[along] {
            Some(values) => {
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                let high = values.iter().copied().fold(0.0, f64::max);
                if low > 0.0 && high / low >= LOG_FROM {
                    x.scale = Scale::Doubling;
                }
                let unit = axis.steps[0][0].split_once(' ').map_or("", |(_, unit)| unit);
                if !unit.is_empty() {
                    x.label = format!("{} ({unit})", x.label);
                }
                values.clone()
            }
            None => {
                let names = axis.steps.iter().map(|step| step.join(":"));
                x.names = names.enumerate().map(|(at, name)| (at as f64, name)).collect();
                (0..axis.steps.len()).map(|at| at as f64).collect()
            }
        };
        Layout { along, places, x }
    }

    /// Runs that differ in the horizontal axis only, and the values that they have in common.
    fn lines<'r>(&self, sweep: &Sweep, rows: &'r [Row]) -> Vec<(String, Points<'r>)> {
        let mut lines: Vec<(Vec<usize>, String, Points<'r>)> = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let mut steps = steps(sweep, index);
            let place = self.places[steps[self.along]];
            steps[self.along] = 0;
            match lines.iter_mut().find(|(key, ..)| *key == steps) {
                Some((.., points)) => points.push((place, row)),
                None => {
                    let name = self.name(sweep, &steps);
                    lines.push((steps, name, vec![(place, row)]));
                }
            }
        }
        lines.into_iter().map(|(_, name, points)| (name, points)).collect()
    }

    /// The names in which the lines differ.
    fn key(&self, sweep: &Sweep) -> String {
        let others = sweep.axes.iter().enumerate().filter(|(index, _)| *index != self.along);
        others.map(|(_, axis)| axis.names.join(":")).collect::<Vec<_>>().join(", ")
    }

    /// The values of a line for these names.
    fn name(&self, sweep: &Sweep, steps: &[usize]) -> String {
        let others = sweep.axes.iter().zip(steps).enumerate();
        let others = others.filter(|(index, _)| *index != self.along);
        let values = others.map(|(_, (axis, step))| axis.steps[*step].join(":"));
        values.collect::<Vec<_>>().join(", ")
    }

    fn throughput(&self, sweep: &Sweep, rows: &[Row]) -> Plot {
        let moved = moved(rows);
        let formula = |row: &Row| {
            let sum = row.outcome.together()?;
            if moved { sum.formula_mib_per_s } else { sum.formula_ops_per_s }
        };
        let mut lines = Vec::new();
        let mut formulas: Vec<Vec<(f64, f64)>> = Vec::new();
        for (colour, (name, points)) in self.lines(sweep, rows).into_iter().enumerate() {
            let theory: Vec<(f64, f64)> =
                points.iter().filter_map(|(x, row)| Some((*x, formula(row)?))).collect();
            let rates = points.iter().filter_map(|(x, row)| Some((*x, throughput(row, moved)?)));
            let points = rates.collect();
            let name = if name.is_empty() { "simulated".to_owned() } else { name };
            lines.push(Line::new(name, points, LineStyle::Solid, colour));
            // If the formula does not depend on what differs, one line of it is enough.
            if !theory.is_empty() && !formulas.contains(&theory) {
                formulas.push(theory.clone());
                let name = if formulas.len() == 1 { "formula".to_owned() } else { String::new() };
                lines.push(Line::new(name, theory, LineStyle::Dashed, colour));
            }
        }
        // It comes last in the legend beside the plot.
        lines.sort_by_key(is_dashed);
        if formulas.len() == 1 {
            // It belongs to all of the lines.
            let all = lines.iter_mut().filter(|line| line.stroke == LineStyle::Dashed);
            all.for_each(|line| line.colour = 7);
        }
        Plot {
            title: format!("Throughput over {}", self.x.label),
            x: self.x.clone(),
            y: Axis::new(if moved { "MiB/s" } else { "operations per second" }, scale_of(&lines)),
            key: self.key(sweep),
            lines,
        }
    }

    fn latency(&self, sweep: &Sweep, rows: &[Row]) -> Plot {
        let mut lines = Vec::new();
        for (colour, (name, points)) in self.lines(sweep, rows).into_iter().enumerate() {
            let p99 = points.iter().map(|(x, row)| (*x, worst_p99(&row.outcome) / 1e3)).collect();
            let p50 = points.iter().map(|(x, row)| {
                let loads = row.outcome.loads.iter().map(|load| load.latency_us.p50);
                (*x, loads.fold(0.0, f64::max) / 1e3)
            });
            let p50 = p50.collect();
            let name = if name.is_empty() { "p99".to_owned() } else { format!("p99, {name}") };
            lines.push(Line::new(name, p99, LineStyle::Solid, colour));
            let name = if colour == 0 { "p50".to_owned() } else { String::new() };
            lines.push(Line::new(name, p50, LineStyle::Dashed, colour));
        }
        lines.sort_by_key(is_dashed);
        Plot {
            title: format!("Latency over {}", self.x.label),
            x: self.x.clone(),
            y: Axis::new("ms", Scale::Log),
            key: self.key(sweep),
            lines,
        }
    }
}

fn is_dashed(line: &Line) -> bool {
    line.stroke == LineStyle::Dashed
}

/// The axis of throughputs: small values would be invisible beside large ones on a linear one.
fn scale_of(lines: &[Line]) -> Scale {
    let all = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    if low > 0.0 && high / low > WIDE { Scale::Log } else { Scale::Linear }
}

/// The values of a dimension, if they are numbers of one unit.
fn numbers(axis: &crate::sweep::Dimension) -> Option<Vec<f64>> {
    if axis.names.len() != 1 {
        return None;
    }
    let split = |text: &str| {
        let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
        Some((number.parse::<f64>().ok().filter(|n| n.is_finite())?, unit.to_owned()))
    };
    let values: Vec<_> = axis.steps.iter().map(|step| split(&step[0])).collect::<Option<_>>()?;
    let one_unit = values.iter().all(|(_, unit)| *unit == values[0].1);
    one_unit.then(|| values.into_iter().map(|(number, _)| number).collect())
}

/// The step of each dimension in a combination, by its index.
fn steps(sweep: &Sweep, index: usize) -> Vec<usize> {
    let mut rest = index;
    let mut steps = vec![0; sweep.axes.len()];
    for (step, axis) in steps.iter_mut().zip(&sweep.axes).rev() {
        *step = rest % axis.steps.len();
        rest /= axis.steps.len();
    }
    steps
}

fn table(page: &mut Page, sweep: &Sweep, rows: &[Row]) {
    let names = sweep.names();
    let mut heads = names.clone();
    heads.extend(["MiB/s", "ops/s", "p50", "p99", "max", "errors", "formula", "busiest link"]);
    let cells = |row: &Row| {
        let outcome = &row.outcome;
        let most = |of: fn(&crate::outcome::Latency) -> f64| {
            outcome.loads.iter().map(|load| of(&load.latency_us)).fold(0.0, f64::max)
        };
        let sum = outcome.together();
        let dash = || "-".to_owned();
        let formula = sum.and_then(|sum| {
            let formula = sum.formula_ops_per_s.filter(|formula| *formula > 0.0)?;
            Some(percent(sum.ops_per_s / formula))
        });
        let payload = sum.map(|sum| sum.mib_per_s).filter(|rate| *rate > 0.0);
        let busiest = outcome.links.iter().filter_map(|link| Some((link.share_max?, &link.name)));
        let busiest = busiest.max_by(|one, two| one.0.total_cmp(&two.0));
        let mut cells = row.values.clone();
        cells.extend([
            payload.map_or_else(dash, grouped),
            sum.map_or_else(dash, |sum| grouped(sum.ops_per_s)),
            latency_text(most(|at| at.p50)),
            latency_text(most(|at| at.p99)),
            latency_text(most(|at| at.max)),
            grouped_count(outcome.errors()),
            formula.unwrap_or_else(dash),
            busiest.map_or_else(dash, |(s, name)| format!("{name} {}", percent(s))),
        ]);
        cells
    };
    page.table(&heads, &rows.iter().map(cells).collect::<Vec<_>>());
}
