//! `lustrine sim run`: one scenario.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use lustrine_scenario::report::{RunReport, run_page};
use lustrine_scenario::{Outcome, format_duration, run as run_scenario, simulation};
use lustrine_sim::{RecordFilter, Recording};
use lustrine_trace::{LIMIT_DEFAULT, LIMIT_MAX, Trace};
use serde::Serialize;

use super::progress::{Bar, STEPS};
use super::{Length, Prepared, ScenarioOptions, head_of, table, verdict};
use crate::interrupt::Interrupt;
use crate::output::{Failure, json, note, print};
use crate::report_file::{ReportFile, check_distinct};
use crate::values;

/// Run a scenario and show throughput, latency, link use, and what messages waited for
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    scenario: ScenarioOptions,

    /// Write a trace of all messages to a file, for lustrine sim replay
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Number of steps to keep in the trace, the newest ones; a read has about 20
    #[arg(long, value_name = "N", requires = "trace", default_value_t = LIMIT_DEFAULT,
          value_parser = values::whole::<u32>(1..=LIMIT_MAX.into()))]
    trace_limit: u32,

    /// Omit steps before this simulated time, such as "1.5 s"
    #[arg(long, value_name = "TIME", requires = "trace")]
    trace_since: Option<Length>,

    /// Omit steps after this simulated time
    #[arg(long, value_name = "TIME", requires = "trace")]
    trace_until: Option<Length>,
}

impl RunArgs {
    /// What the trace should hold.
    fn wanted(&self) -> RecordFilter {
        let mut wanted = RecordFilter::newest(self.trace_limit as usize);
        if let Some(Length(from)) = self.trace_since {
            wanted.from = from;
        }
        if let Some(Length(until)) = self.trace_until {
            wanted.until = until;
        }
        wanted
    }
}

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    scenario: &'a str,
    /// The text of the scenario file.
    source: &'a str,
    /// Changes to the file.
    changes: Vec<String>,
    /// Real seconds.
    real_s: f64,
    /// Messages sent and received per real second.
    messages_per_real_s: f64,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let mut prepared = args.scenario.prepare()?;
    let scenario = prepared.scenario(&[])?;
    if args.trace.as_deref() == Some(Path::new("-")) {
        let words = "--trace goes to a file, not to standard output: give it a name";
        return Err(Failure::Usage(words.to_owned()));
    }
    let wanted = args.wanted();
    if wanted.from >= wanted.until {
        let words = "--trace-until is not after --trace-since: nothing is between them";
        return Err(Failure::Usage(words.to_owned()));
    }
    args.scenario.open(&mut prepared)?;
    let trace_file = args.trace.as_deref().map(ReportFile::open).transpose()?;
    check_distinct(&args.scenario.file, &[&prepared.json, &prepared.report, &trace_file])?;
    let interrupt = Interrupt::catch()?;
    let started = Instant::now();
    let mut bar = Bar::new(&format!("simulating {}", prepared.source_name), STEPS);
    let mut sim = simulation(&scenario);
    if trace_file.is_some() {
        sim.record(wanted);
    }
    let outcome = run_scenario(&scenario, &mut *sim, &mut |progress| {
        bar.show(progress);
        match interrupt.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    bar.clear();
    let trace = sim.take_recording().map(|recording| {
        let (name, changes) = (prepared.source_name.clone(), prepared.change_words());
        let head = head_of(name, changes, outcome.seed, outcome.fidelity.name());
        note_gaps(&recording);
        Trace::of(&recording, head).to_text()
    });
    // A trace that cannot be written does not affect the results.
    finish(prepared, &outcome, started.elapsed().as_secs_f64())?;
    if let (Some(file), Some(trace)) = (trace_file, trace) {
        file.write(&trace)?;
    }
    verdict(&[&outcome], &interrupt)
}

/// Reports what a trace lacks, because it is not visible in the file.
fn note_gaps(recording: &Recording) {
    let Some((_, first)) = recording.entries.first() else {
        return note(&format!(
            "note: the trace is empty: nothing happened in the time it was kept for, {} steps \
             outside of it",
            recording.outside
        ));
    };
    if recording.outside != 0 {
        note(&format!(
            "note: {} steps outside of the requested time are not in the trace",
            recording.outside
        ));
    }
    if recording.dropped != 0 {
        note(&format!(
            "note: the trace begins at {}: {} older steps did not fit; --trace-limit keeps more, \
             --trace-since and --trace-until choose the time",
            format_duration(first.at.since(recording.begin)),
            recording.dropped
        ));
    }
}

/// Writes all output.
fn finish(prepared: Prepared, outcome: &Outcome, real_s: f64) -> Result<(), Failure> {
    let changes = prepared.change_words();
    let printed = match &prepared.json {
        Some(ReportFile::Stdout) => Ok(()),
        _ => print(&table::single(&prepared.source_name, outcome, real_s)),
    };
    Prepared::write_page(prepared.report, prepared.plots, || {
        run_page(&RunReport {
            source_name: &prepared.source_name,
            source: &prepared.text,
            changes: &changes,
            version: env!("CARGO_PKG_VERSION"),
            outcome,
        })
    })?;
    if let Some(file) = prepared.json {
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            scenario: &prepared.source_name,
            source: &prepared.text,
            changes,
            real_s,
            messages_per_real_s: outcome.messages as f64 / real_s.max(1e-9),
            outcome,
        };
        file.write(&json(&document)?)?;
    }
    printed
}
