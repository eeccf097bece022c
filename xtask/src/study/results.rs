//! The stored results of a sweep: the values that tables and plots need, one run per line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::list::{List, Metric, Where};

/// Megabytes in a MiB.
const MIB: f64 = 1.048_576;

/// A sweep's runs, and their origin.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Kept {
    pub(super) sweep: String,
    /// Command line after `lustrine`.
    pub(super) command: Vec<String>,
    /// FNV-1a of the scenario; after a change of the scenario the runs are out of date.
    pub(super) scenario: String,
    pub(super) version: String,
    pub(super) names: Vec<String>,
    /// Where and with what it was measured, if it was not simulated.
    #[serde(default)]
    pub(super) about: Option<String>,
    pub(super) runs: Vec<Run>,
}

/// One run, the sum of all its loads.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Run {
    pub(super) values: Vec<String>,
    pub(super) mb_per_s: f64,
    pub(super) formula_mb_per_s: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    pub(super) errors: u64,
    /// What only a simulation knows.
    #[serde(flatten)]
    pub(super) simulated: Option<Simulated>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Simulated {
    /// Part of the time that the links between sites were sending, in the busier direction.
    pub(super) link_use: f64,
    /// MB lost to full queues in the measured time.
    pub(super) lost_mb: f64,
    /// Mean numbers of messages at one client that wait for a peer credit, and that hold one until
    /// their data are acknowledged.
    #[serde(default)]
    pub(super) need_credit: f64,
    #[serde(default)]
    pub(super) hold_credit: f64,
    pub(super) trace: String,
}

impl Run {
    /// A value of the run; NaN if it is only known of simulations, and this is none.
    pub(super) fn metric(&self, metric: Metric) -> f64 {
        let simulated =
            |value: fn(&Simulated) -> f64| self.simulated.as_ref().map_or(f64::NAN, value);
        match metric {
            Metric::Rate => self.mb_per_s,
            Metric::RateMib => self.mb_per_s / MIB,
            Metric::Formula => self.formula_mb_per_s,
            Metric::FormulaMib => self.formula_mb_per_s / MIB,
            Metric::OfFormula => self.mb_per_s / self.formula_mb_per_s * 100.0,
            Metric::LinkUse => simulated(|run| run.link_use * 100.0),
            Metric::P50 => self.p50_ms,
            Metric::P99 => self.p99_ms,
            Metric::Max => self.max_ms,
            Metric::Lost => simulated(|run| run.lost_mb),
            Metric::NeedCredit => simulated(|run| run.need_credit),
            Metric::HoldCredit => simulated(|run| run.hold_credit),
            Metric::Errors => self.errors as f64,
        }
    }
}

impl Kept {
    /// The value of a name in one of its runs.
    pub(super) fn value<'a>(&self, run: &'a Run, name: &str) -> Result<&'a str> {
        let index = self.names.iter().position(|known| known == name);
        let index = index.with_context(|| format!("{}: no values of {name:?}", self.sweep))?;
        Ok(&run.values[index])
    }

    /// The runs in which names have given values; at least one.
    pub(super) fn select(&self, only: &Where) -> Result<Vec<&Run>> {
        let mut found = Vec::new();
        for run in &self.runs {
            let mut fits = true;
            for (name, wanted) in only {
                fits &= self.value(run, name)? == wanted;
            }
            if fits {
                found.push(run);
            }
        }
        ensure!(!found.is_empty(), "{}: no run where {only:?}", self.sweep);
        Ok(found)
    }

    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(format!("{}.json", self.sweep));
        let mut text = String::from("{\n");
        let about = self.about.as_ref().map(serde_json::to_string).transpose()?;
        for (name, value) in [
            ("sweep", Some(serde_json::to_string(&self.sweep)?)),
            ("command", Some(serde_json::to_string(&self.command)?)),
            ("scenario", Some(serde_json::to_string(&self.scenario)?)),
            ("version", Some(serde_json::to_string(&self.version)?)),
            ("about", about),
            ("names", Some(serde_json::to_string(&self.names)?)),
        ] {
            if let Some(value) = value {
                let _ = writeln!(text, "\"{name}\": {value},");
            }
        }
        let runs: Vec<String> =
            self.runs.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let _ = writeln!(text, "\"runs\": [\n{}\n]\n}}", runs.join(",\n"));
        fs::create_dir_all(dir)?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}

/// All sweeps, by name.
#[derive(Debug)]
pub(super) struct Results(BTreeMap<String, Kept>);

impl Results {
    pub(super) fn read_all(list: &List, dir: &Path) -> Result<Results> {
        let mut all = BTreeMap::new();
        for name in list.names() {
            let path = dir.join(format!("{name}.json"));
            let text = fs::read_to_string(&path).with_context(|| {
                format!("{}: run cargo xtask study --only {name}", path.display())
            })?;
            let kept = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            all.insert(name.to_owned(), kept);
        }
        Ok(Results(all))
    }

    pub(super) fn of(&self, sweep: &str) -> Result<&Kept> {
        self.0.get(sweep).with_context(|| format!("there is no sweep {sweep:?} in the list"))
    }
}

/// FNV-1a, 64 bits.
pub(super) fn digest(text: &str) -> String {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}
