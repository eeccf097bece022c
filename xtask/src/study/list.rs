//! The list of sweeps, tables and plots, as it stands beside the scenarios.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// All of the study.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    pub(super) sweeps: Vec<Sweep>,
    /// Beside the one of settings, which is computed.
    pub(super) tables: Vec<Table>,
    pub(super) plots: Vec<Plot>,
}

/// One `lustrine sim sweep`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) name: String,
    /// The scenario, beside the list.
    pub(super) file: String,
    #[serde(default)]
    pub(super) set: Vec<String>,
    #[serde(default)]
    pub(super) vary: Vec<String>,
    /// Varies what [`super::settings`] recommends for these instead.
    #[serde(default)]
    pub(super) settings: Option<Traffic>,
}

impl Sweep {
    /// What `--vary` is given.
    pub(super) fn varied(&self) -> Vec<String> {
        let computed = self.settings.map(super::settings::varied);
        self.vary.iter().cloned().chain(computed).collect()
    }

    /// Its command line behind `lustrine`, from the top of the repository.
    pub(super) fn command(&self) -> Vec<String> {
        let mut words: Vec<String> = ["sim", "sweep"].iter().map(ToString::to_string).collect();
        words.push(format!("scenarios/sc11/{}", self.file));
        for set in &self.set {
            words.extend(["--set".to_owned(), set.clone()]);
        }
        for vary in self.varied() {
            words.extend(["--vary".to_owned(), vary]);
        }
        words
    }
}

/// What settings are recommended for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Traffic {
    /// Writes, and reads with zero-copy: two round trips, and credits are held for one.
    Zerocopy,
    /// Reads without zero-copy: one round trip, credits are held until data are in the send buffer.
    Copied,
}

/// Some runs of a sweep.
pub(super) type Where = BTreeMap<String, String>;

/// A table of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) sweep: String,
    #[serde(default, rename = "where")]
    pub(super) only: Where,
    /// Names of the sweep that tell rows apart, and what stands above them.
    pub(super) rows: Vec<(String, String)>,
    /// A name of the sweep whose values each have a column, and text for each, with `{}`.
    #[serde(default)]
    pub(super) across: Option<(String, String)>,
    /// What is shown: a figure and its heading.
    pub(super) show: Vec<(Figure, String)>,
    /// Words instead of values, by `name=value`.
    #[serde(default)]
    pub(super) words: BTreeMap<String, String>,
}

/// What can be shown of a run.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Figure {
    /// MB/s.
    Rate,
    /// MiB/s.
    RateMib,
    /// MB/s that the formula allows.
    Formula,
    /// The same in MiB/s.
    FormulaMib,
    /// Percent of it.
    OfFormula,
    /// Percent of what the lines between sites carry.
    LinkUse,
    /// Milliseconds.
    P50,
    P99,
    Max,
    /// MB.
    Lost,
    /// Messages.
    NeedCredit,
    HoldCredit,
    Errors,
}

/// A plot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plot {
    pub(super) name: String,
    pub(super) title: String,
    /// The name of the sweeps that goes to the right, and its text.
    pub(super) x: (String, String),
    pub(super) y: (Figure, String),
    pub(super) lines: Vec<Line>,
    #[serde(default)]
    pub(super) marks: Vec<Mark>,
    /// Levels with a text: what carries no more.
    #[serde(default)]
    pub(super) levels: Vec<(f64, String)>,
}

/// A line of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) sweep: String,
    #[serde(rename = "where")]
    pub(super) only: Where,
    /// Another figure than the plot's; drawn dashed.
    #[serde(default)]
    pub(super) figure: Option<Figure>,
    pub(super) colour: usize,
}

/// What somebody else measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) colour: usize,
}

impl List {
    pub(super) fn read(path: &Path) -> Result<List> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }
}
