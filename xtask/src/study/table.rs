//! Tables of a sweep's runs, in Markdown.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::list::{List, Metric, Table};
use super::results::{Kept, Results, Run};
use super::settings;

/// The table that is computed from settings.
const SETTINGS: &str = "settings";

/// A table by name.
pub(super) fn of(list: &List, results: &Results, name: &str) -> Result<String> {
    if name == SETTINGS {
        return settings::table(results);
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
                let _ = write!(out, " {} |", self.word(name, value));
            }
            for value in &columns {
                let run = self.cell(sweep, &runs, &row, value.as_deref())?;
                for (metric, _) in &self.show {
                    let text = run.map_or("-".to_owned(), |run| text(run, *metric));
                    let _ = write!(out, " {text} |");
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

    fn cell<'a>(
        &self,
        sweep: &Kept,
        runs: &[&'a Run],
        row: &[String],
        column: Option<&str>,
    ) -> Result<Option<&'a Run>> {
        for run in runs {
            let fits = match (column, &self.across) {
                (Some(value), Some((name, _))) => sweep.value(run, name)? == value,
                _ => true,
            };
            if fits && self.row_of(sweep, run)? == row {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }
}

fn text(run: &Run, metric: Metric) -> String {
    let value = run.metric(metric);
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
