//! `lustrine sim run`: one scenario.

use std::ops::ControlFlow;
use std::time::Instant;

use clap::Args;
use lustrine_scenario::report::{Single, run_page};
use lustrine_scenario::{Outcome, run as run_scenario, simulation};
use serde::Serialize;

use super::progress::{Bar, STEPS};
use super::{Prepared, ScenarioOptions, table, verdict};
use crate::interrupt::Interrupt;
use crate::output::{Failure, json, print};
use crate::report_file::ReportFile;

/// Run a scenario: throughput, latency, link use, and where messages waited
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    scenario: ScenarioOptions,
}

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    scenario: &'a str,
    /// What was given beside the file.
    changes: Vec<String>,
    /// Seconds of this machine.
    real_s: f64,
    /// Messages sent and received per second of this machine.
    messages_per_real_s: f64,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let mut prepared = args.scenario.prepare()?;
    let scenario = prepared.scenario(&[])?;
    args.scenario.open(&mut prepared)?;
    let interrupt = Interrupt::catch()?;
    let started = Instant::now();
    let mut bar = Bar::new(&format!("simulating {}", prepared.source_name), STEPS);
    let mut sim = simulation(&scenario);
    let outcome = run_scenario(&scenario, &mut *sim, &mut |progress| {
        bar.show(progress);
        match interrupt.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    bar.clear();
    finish(prepared, &outcome, started.elapsed().as_secs_f64())?;
    verdict(&[&outcome], &interrupt)
}

/// Writes everything there is to write.
fn finish(prepared: Prepared, outcome: &Outcome, real_s: f64) -> Result<(), Failure> {
    let changes = prepared.change_words();
    let printed = match &prepared.json {
        Some(ReportFile::Stdout) => Ok(()),
        _ => print(&table::single(&prepared.source_name, outcome, real_s)),
    };
    if let Some(file) = prepared.report {
        let page = run_page(&Single {
            source_name: &prepared.source_name,
            source: &prepared.text,
            changes: &changes,
            version: env!("CARGO_PKG_VERSION"),
            outcome,
        });
        file.write(&page)?;
    }
    if let Some(file) = prepared.json {
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            scenario: &prepared.source_name,
            changes,
            real_s,
            messages_per_real_s: outcome.messages as f64 / real_s.max(1e-9),
            outcome,
        };
        file.write(&json(&document)?)?;
    }
    printed
}
