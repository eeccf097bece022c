//! JSON documents of `lustrine sim run` and `sim sweep`, for `lustrine report`.

use lustrine_report::FinishedPage;
use lustrine_scenario::report::{Row, RunReport, SweepReport, run_page, sweep_page};
use lustrine_scenario::{Dimension, Outcome, Sweep};
use serde::Deserialize;

use super::table;

/// A document that was read.
#[derive(Debug)]
pub(crate) enum Saved {
    /// Of one run.
    Run(Box<SavedRun>),
    /// Of a sweep.
    Sweep(Box<SavedSweep>),
}

/// What both have.
#[derive(Debug, Deserialize)]
pub(crate) struct Head {
    version: String,
    scenario: String,
    /// Absent in results of earlier releases.
    #[serde(default)]
    source: String,
    changes: Vec<String>,
    real_s: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SavedRun {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SavedSweep {
    #[serde(flatten)]
    head: Head,
    axes: Vec<Dimension>,
    runs: Vec<SavedPoint>,
}

#[derive(Debug, Deserialize)]
struct SavedPoint {
    values: Vec<String>,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Saved {
    /// Reads the document of a run.
    ///
    /// # Errors
    /// When it is not one.
    pub(crate) fn run(text: &str) -> Result<Saved, serde_json::Error> {
        Ok(Saved::Run(serde_json::from_str(text)?))
    }

    /// Reads the document of a sweep.
    ///
    /// # Errors
    /// When it is not one, or its runs are not all combinations of its values.
    pub(crate) fn sweep(text: &str) -> Result<Saved, serde_json::Error> {
        let wrong = <serde_json::Error as serde::de::Error>::custom;
        let saved: Box<SavedSweep> = serde_json::from_str(text)?;
        let names = saved.axes.iter().map(|axis| axis.names.len()).sum::<usize>();
        let is_whole = |axis: &Dimension| {
            !axis.steps.is_empty() && axis.steps.iter().all(|step| step.len() == axis.names.len())
        };
        let sizes = saved.axes.iter().map(|axis| axis.steps.len());
        let wanted = sizes.fold(1, usize::saturating_mul);
        if names == 0 || !saved.axes.iter().all(is_whole) || wanted != saved.runs.len() {
            return Err(wrong("\"runs\" are not all combinations of \"axes\""));
        }
        if saved.runs.iter().any(|run| run.values.len() != names) {
            return Err(wrong("a run does not have one value for each name"));
        }
        Ok(Saved::Sweep(saved))
    }

    /// The table that the simulation printed, and its page.
    pub(crate) fn show(self) -> (String, FinishedPage) {
        match self {
            Saved::Run(saved) => {
                let SavedRun { head, outcome } = *saved;
                let page = run_page(&RunReport {
                    source_name: &head.scenario,
                    source: &head.source,
                    changes: &head.changes,
                    version: &head.version,
                    outcome: &outcome,
                });
                (table::single(&head.scenario, &outcome, head.real_s), page)
            }
            Saved::Sweep(saved) => {
                let SavedSweep { head, axes, runs } = *saved;
                let row = |SavedPoint { values, outcome }| Row { values, outcome };
                let rows: Vec<Row> = runs.into_iter().map(row).collect();
                let sweep = Sweep { axes };
                let page = sweep_page(&SweepReport {
                    source_name: &head.scenario,
                    source: &head.source,
                    changes: &head.changes,
                    version: &head.version,
                    sweep: &sweep,
                    rows: &rows,
                });
                (table::sweep(&head.scenario, &sweep, &rows), page)
            }
        }
    }
}
