//! Scenarios: what to simulate, as text, and the results.
//!
//! A [`ScenarioFile`] is read once; with [`Override`]s it becomes a [`Scenario`], or [`Problems`]
//! that list all of its errors. [`run`] runs it on a [`Simulation`](lustrine_sim::Simulation) and
//! returns an [`Outcome`]; [`report`] writes the outcome as a page. The crate maps text to values:
//! nothing here reads a file, reads a clock or starts a thread. `docs/simulator.md` is the
//! reference of the format.
//!
//! | module | content |
//! |---|---|
//! | `parse`, `model` | from tree to [`Scenario`] |
//! | `overrides`, `sweep` | values given beside the file; all combinations of several |
//! | `stage` | nodes, links and clients of a simulation |
//! | `run`, `outcome` | how a run proceeds; its results |
//! | `formula`, `hints` | the theoretical bound; what to know before trusting the results |
//! | [`report`] | pages with tables and plots |
#![forbid(unsafe_code)]

mod formula;
mod hints;
mod model;
mod outcome;
mod overrides;
mod parse;
pub mod report;
mod run;
mod stage;
mod sweep;
mod words;

use lustrine_document::{DocumentFormat, Limits};
pub use lustrine_document::{Location, Problem, Problems, format_bytes};
pub use model::{
    Action, Event, Fidelity, Group, LinkChange, Load, NODES_MAX, NodeRange, Scenario, Spread,
    Target, Trunk,
};
pub use outcome::{
    GroupWaits, Latency, LinkOutcome, LoadOutcome, Outcome, QueueSamples, RateSamples, Samples,
    SharedLinks, Together,
};
pub use overrides::Override;
pub use run::{RunProgress, run};
pub use stage::simulation;
pub use sweep::{Dimension, POINTS_MAX, Sweep, SweepError};
pub use words::{format_duration, parse_duration, rate_text};

/// Scenario files as documents.
const FORMAT: DocumentFormat = DocumentFormat {
    limits: Limits { bytes: 1 << 20, depth: 16, values: 1 << 16 },
    example: "groups: {clients: {count: 2}}",
    key: "groups:",
    smaller: "groups of many nodes instead of one group per node",
};

/// A scenario file that is valid YAML. Its content has not been checked yet.
#[derive(Debug)]
pub struct ScenarioFile {
    source_name: String,
    root: lustrine_document::Node,
}

impl ScenarioFile {
    /// Reads a text. `source_name` is what messages call it, usually its path.
    ///
    /// The work is bounded for any text: at most 1 MiB, 16 levels, and 65,536 values after aliases
    /// are expanded.
    ///
    /// # Errors
    /// When the text is not YAML.
    pub fn parse(text: &str, source_name: &str) -> Result<ScenarioFile, Problems> {
        let root = lustrine_document::load(text, &FORMAT)
            .map_err(|problem| Problems::new(source_name, vec![problem]))?;
        Ok(ScenarioFile { source_name: source_name.to_owned(), root })
    }

    /// The scenario that the file describes, with some values changed.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn scenario(&self, changes: &[Override]) -> Result<Scenario, Problems> {
        let mut reader = lustrine_document::Reader::default();
        let mut root = self.root.clone();
        for change in changes {
            if let Err(problem) = overrides::apply(&mut root, change) {
                reader.report(problem);
            }
        }
        let scenario = parse::scenario(&mut reader, &root);
        reader.finish(&self.source_name).map(|_| scenario)
    }
}
