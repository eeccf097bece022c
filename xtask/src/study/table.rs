//! Tables of a sweep's runs, in Markdown.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::list::{List, Metric, Table};
use super::results::{Kept, Results, Run};
use super::settings_table;

/// The name whose values are random numbers.
const SEED: &str = "seed";

/// The table that is computed from settings.
const SETTINGS: &str = "settings";

/// A table by name.
pub(super) fn of(list: &List, results: &Results, name: &str) -> Result<String> {
    if name == SETTINGS {
        return settings_table::table(results);
    }
    let table = list.tables.iter().find(|table| table.name == name);
    let table = table.with_context(|| format!("there is no table {name:?} in the list"))?;
    table.markdown(results.of(&table.sweep)?).with_context(|| format!("table {name}"))
}

impl Table {
    fn markdown(&self, sweep: &Kept) -> Result<String> {
        let runs = sweep.select(&self.only)?;
        let columns = self.columns(sweep, &runs)?;
        let mut out = String::from("|");
        for (_, heading) in &self.rows {
            let _ = write!(out, " {heading} |");
        }
        for value in &columns {
            for (_, heading) in &self.show {
                let _ = write!(out, " {} |", self.heading(value.as_deref(), heading));
            }
        }
        let count = self.rows.len() + columns.len() * self.show.len();
        let _ = writeln!(out, "\n|{}", "---:|".repeat(count));
        for row in self.row_values(sweep, &runs)? {
            out.push('|');
            for ((name, _), value) in self.rows.iter().zip(&row) {
                let word =
                    if self.is_meaningless(name, &row) { "-" } else { self.word(name, value) };
                let _ = write!(out, " {word} |");
            }
            for value in &columns {
                let cell = self.cell(sweep, &runs, &row, value.as_deref())?;
                for (metric, _) in &self.show {
                    let _ = write!(out, " {} |", text(&cell, *metric));
                }
            }
            out.push('\n');
        }
        Ok(out)
    }

    /// Values that have separate columns; one empty value if there are none.
    fn columns(&self, sweep: &Kept, runs: &[&Run]) -> Result<Vec<Option<String>>> {
        let Some((name, _)) = &self.across else { return Ok(vec![None]) };
        let mut found = Vec::new();
        for run in runs {
            let value = Some(sweep.value(run, name)?.to_owned());
            if !found.contains(&value) {
                found.push(value);
            }
        }
        Ok(found)
    }

    fn heading(&self, value: Option<&str>, metric: &str) -> String {
        let (Some(value), Some((name, pattern))) = (value, &self.across) else {
            return metric.to_owned();
        };
        let value = pattern.replace("{}", self.word(name, value));
        if self.show.len() > 1 { format!("{value}: {metric}") } else { value }
    }

    /// The text of a value of a name.
    fn word<'a>(&'a self, name: &str, value: &'a str) -> &'a str {
        self.words.get(&format!("{name}={value}")).map_or(value, String::as_str)
    }

    /// Whether a name has no meaning in a row.
    fn is_meaningless(&self, name: &str, row: &[String]) -> bool {
        let Some((other, values)) = self.meaningless.get(name) else { return false };
        let at = self.rows.iter().position(|(name, _)| name == other);
        at.is_some_and(|at| values.contains(&row[at]))
    }

    fn row_values(&self, sweep: &Kept, runs: &[&Run]) -> Result<Vec<Vec<String>>> {
        let mut found = Vec::new();
        for run in runs {
            let row = self.row_of(sweep, run)?;
            if !found.contains(&row) {
                found.push(row);
            }
        }
        Ok(found)
    }

    fn row_of(&self, sweep: &Kept, run: &Run) -> Result<Vec<String>> {
        self.rows.iter().map(|(name, _)| Ok(sweep.value(run, name)?.to_owned())).collect()
    }

    /// The runs of a cell: at most one, or one of each seed.
    fn cell<'a>(
        &self,
        sweep: &Kept,
        runs: &[&'a Run],
        row: &[String],
        column: Option<&str>,
    ) -> Result<Vec<&'a Run>> {
        let mut found = Vec::new();
        for run in runs {
            let fits = match (column, &self.across) {
                (Some(value), Some((name, _))) => sweep.value(run, name)? == value,
                _ => true,
            };
            if fits && self.row_of(sweep, run)? == row {
                found.push(*run);
            }
        }
        if self.over_seeds {
            let mut seeds: Vec<&str> = Vec::new();
            for run in &found {
                seeds.push(sweep.value(run, SEED)?);
            }
            seeds.sort_unstable();
            seeds.dedup();
            ensure!(seeds.len() == found.len(), "{row:?}: runs differ in more than the seed");
        } else {
            found.truncate(1);
        }
        Ok(found)
    }
}

/// The text of a cell: a value, or "median (least to greatest)" if they look different.
fn text(runs: &[&Run], metric: Metric) -> String {
    let mut values: Vec<f64> = runs.iter().map(|run| run.metric(metric)).collect();
    values.sort_by(f64::total_cmp);
    match &values[..] {
        [] => "-".to_owned(),
        [value] => number(*value, metric),
        [least, .., greatest] => {
            // Of an even number of values, the greater one of the two in the middle.
            let [median, least, greatest] =
                [values[values.len() / 2], *least, *greatest].map(|value| number(value, metric));
            match least == greatest {
                true => median,
                false => format!("{median} ({least} to {greatest})"),
            }
        }
    }
}

fn number(value: f64, metric: Metric) -> String {
    match metric {
        Metric::Rate
        | Metric::RateMib
        | Metric::Formula
        | Metric::FormulaMib
        | Metric::P50
        | Metric::P99
        | Metric::Max => match value {
            ..100.0 => format!("{value:.1}"),
            _ => format!("{value:.0}"),
        },
        Metric::OfFormula | Metric::LinkUse => format!("{value:.0} %"),
        Metric::Lost | Metric::NeedCredit | Metric::HoldCredit => format!("{value:.1}"),
        Metric::Errors => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep over these names with one run for each list of values and each rate.
    fn sweep(names: &[&str], runs: &[(&[&str], f64)]) -> Kept {
        let runs: Vec<_> = (runs.iter())
            .map(|(values, rate)| {
                serde_json::json!({
                    "values": values, "mb_per_s": rate, "formula_mb_per_s": 1, "p50_ms": 0,
                    "p99_ms": 0, "max_ms": 0, "errors": 0, "link_use": 0, "lost_mb": 0, "trace": "",
                })
            })
            .collect();
        let sweep = serde_json::json!({
            "sweep": "s", "command": [], "scenario": "", "version": "", "names": names,
            "runs": runs,
        });
        serde_json::from_value(sweep).expect("a sweep")
    }

    fn table(more: serde_json::Value) -> Table {
        let mut table = serde_json::json!({
            "name": "t", "sweep": "s", "rows": [["tcp", "TCP"]], "show": [["rate", "MB/s"]],
        });
        let fields = table.as_object_mut().expect("it is an object");
        fields.extend(more.as_object().expect("it is one, too").clone());
        serde_json::from_value(table).expect("a table")
    }

    fn body(table: &Table, sweep: &Kept) -> Vec<String> {
        let text = table.markdown(sweep).expect("a table");
        text.lines().skip(2).map(str::to_owned).collect()
    }

    #[test]
    fn a_cell_over_seeds_has_median_and_range() {
        let runs: [(&[&str], f64); 4] = [
            (&["bic", "1"], 300.0),
            (&["bic", "2"], 100.0),
            (&["bic", "3"], 110.0),
            (&["bbr", "1"], 50.0),
        ];
        let sweep = sweep(&["tcp", "seed"], &runs);
        let over = table(serde_json::json!({"over_seeds": true}));
        assert_eq!(body(&over, &sweep), ["| bic | 110 (100 to 300) |", "| bbr | 50.0 |"]);
        let lost = table(serde_json::json!({"over_seeds": true, "show": [["lost", "MB"]]}));
        assert_eq!(body(&lost, &sweep), ["| bic | 0.0 |", "| bbr | 0.0 |"], "all are alike");
        let first = table(serde_json::json!({}));
        assert_eq!(body(&first, &sweep), ["| bic | 300 |", "| bbr | 50.0 |"]);
    }

    #[test]
    fn only_seeds_are_summed_up() {
        let runs: [(&[&str], f64); 2] = [(&["bic", "1", "8"], 300.0), (&["bic", "1", "32"], 100.0)];
        let sweep = sweep(&["tcp", "seed", "credits"], &runs);
        let error = table(serde_json::json!({"over_seeds": true})).markdown(&sweep);
        let error = error.expect_err("the runs differ in credits").to_string();
        assert!(error.ends_with("differ in more than the seed"), "{error}");
    }

    #[test]
    fn a_name_without_meaning_is_a_dash() {
        let runs: [(&[&str], f64); 2] = [(&["cubic", "on"], 100.0), (&["bbr", "on"], 200.0)];
        let sweep = sweep(&["tcp", "hystart"], &runs);
        let table = table(serde_json::json!({
            "rows": [["tcp", "TCP"], ["hystart", "HyStart"]],
            "meaningless": {"hystart": ["tcp", ["bbr"]]},
        }));
        assert_eq!(body(&table, &sweep), ["| cubic | on | 100 |", "| bbr | - | 200 |"]);
    }
}
