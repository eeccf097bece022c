//! The list of sweeps, tables and plots, as it is stored with the scenarios.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::drawing::Look;
use super::settings::{self, Traffic};

/// All of the study.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    pub(super) sweeps: Vec<Sweep>,
    /// Pairs of hosts with real sockets, which are measured only if they are asked for by name.
    pub(super) pairs: Vec<Pair>,
    /// The tables besides the one of settings, which is computed.
    pub(super) tables: Vec<Table>,
    pub(super) plots: Vec<Plot>,
}

/// Writes from one host to another, by credits and by RPCs in flight.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) round_trip_ms: f64,
    pub(super) gigabits: f64,
    pub(super) mtu: u32,
    pub(super) queue_mib: u64,
    /// TCP's buffers.
    pub(super) buffer_mib: u64,
    /// TCP's congestion control.
    pub(super) congestion: String,
    /// `peer_credits` and `credits` of both nodes; one with `tuning: auto` comes last.
    pub(super) settings: Vec<(u32, u32)>,
    /// Other tunables of both nodes, `NAME=VALUE`.
    pub(super) set: Vec<String>,
    /// RPCs in flight.
    pub(super) concurrency: Vec<u32>,
    /// Seconds of each before its measurement, and of that.
    pub(super) warm_up: u32,
    pub(super) time: u32,
}

/// One `lustrine sim sweep`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) name: String,
    /// The scenario, in the directory of the list.
    pub(super) file: String,
    #[serde(default)]
    pub(super) set: Vec<String>,
    #[serde(default)]
    pub(super) vary: Vec<String>,
    /// Varies the recommended [`super::settings`] of this kind instead.
    #[serde(default)]
    pub(super) settings: Option<Traffic>,
}

impl Sweep {
    /// The values of `--vary`.
    pub(super) fn varied(&self) -> Vec<String> {
        let computed = self.settings.map(settings::varied);
        self.vary.iter().cloned().chain(computed).collect()
    }

    /// Its command line after `lustrine`, in the top directory of the repository.
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
    /// Names of the sweep that distinguish rows, and their headings.
    pub(super) rows: Vec<(String, String)>,
    /// A name of the sweep whose values have one column each, and the heading of each, with `{}`.
    #[serde(default)]
    pub(super) across: Option<(String, String)>,
    /// The shown values with their headings.
    pub(super) show: Vec<(Metric, String)>,
    /// Text in place of values, by `name=value`.
    #[serde(default)]
    pub(super) words: BTreeMap<String, String>,
    /// Names of rows that mean nothing where another name has one of these values: "-" is shown.
    #[serde(default)]
    pub(super) meaningless: BTreeMap<String, (String, Vec<String>)>,
    /// Runs with different seeds make one cell: the median, the least and the greatest value.
    #[serde(default)]
    pub(super) over_seeds: bool,
}

/// The values of a run that can be shown.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// MB/s.
    Rate,
    /// MiB/s.
    RateMib,
    /// The limit of the formula in MB/s.
    Formula,
    /// The same in MiB/s.
    FormulaMib,
    /// Percent of the formula's limit.
    OfFormula,
    /// Percent of the capacity of the links between sites.
    LinkUse,
    /// Latencies in milliseconds.
    P50,
    P99,
    Max,
    /// Bytes that were lost, in MB.
    Lost,
    /// Messages that wait for a credit.
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
    /// The name of the sweeps on the horizontal axis, and its label.
    pub(super) x: (String, String),
    pub(super) y: (Metric, String),
    pub(super) lines: Vec<Line>,
    #[serde(default)]
    pub(super) marks: Vec<Mark>,
    /// Horizontal lines with a text: capacities.
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
    /// Another value than the plot's; it is drawn dashed, unless it says otherwise.
    #[serde(default)]
    pub(super) metric: Option<Metric>,
    #[serde(default)]
    pub(super) look: Option<Look>,
    pub(super) colour: usize,
}

/// Measurements from another source.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) colour: usize,
}

impl List {
    /// The names of all results.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let sweeps = self.sweeps.iter().map(|sweep| sweep.name.as_str());
        sweeps.chain(self.pairs.iter().map(|pair| pair.name.as_str()))
    }

    pub(super) fn read(path: &Path) -> Result<List> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }
}
