//! `lustrine sim sweep`: all combinations of some values, in parallel.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_report::numbers::counted;
use lustrine_scenario::report::{Row, SweepReport, sweep_page};
use lustrine_scenario::{Dimension, Outcome, Scenario, Sweep, run as run_scenario, simulation};
use serde::Serialize;

use super::progress::Bar;
use super::{Prepared, ScenarioOptions, table, verdict};
use crate::interrupt::Interrupt;
use crate::output::{Failure, json, print};
use crate::report_file::ReportFile;
use crate::values;

/// How often signals and the progress are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Run a scenario with all combinations of some values, in parallel
#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    scenario: ScenarioOptions,

    /// Values for a name, as --set takes it: a list (peer_credits=8,32), a range
    /// (concurrency=1..256*2, delay=10..50+10 ms), or names that go together
    /// (peer_credits,credits=8:64,32:1024); may be given several times
    #[arg(long, required = true, value_name = "NAME=VALUES")]
    vary: Vec<String>,

    /// Number of runs at once [default: the number of CPUs]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = values::whole::<u16>(1..=1024))]
    threads: Option<u16>,
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
    /// The names that vary.
    names: Vec<&'a str>,
    /// The same with the values of each; names that vary together are one of them.
    axes: &'a [Dimension],
    runs: Vec<Run<'a>>,
}

#[derive(Serialize)]
struct Run<'a> {
    /// A value for each name.
    values: &'a [String],
    #[serde(flatten)]
    outcome: &'a Outcome,
}

pub(super) fn run(args: &SweepArgs) -> Result<(), Failure> {
    let texts = args.vary.iter().map(String::as_str);
    let sweep = Sweep::parse(texts).map_err(|error| Failure::Usage(format!("--vary {error}")))?;
    let mut prepared = args.scenario.prepare()?;
    // All combinations are valid, or none is run.
    let scenarios: Vec<Scenario> = (0..sweep.len())
        .map(|index| prepared.scenario(&sweep.point(index)))
        .collect::<Result<_, _>>()?;
    args.scenario.open(&mut prepared)?;
    let interrupt = Interrupt::catch()?;
    let started = Instant::now();
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let times = counted(scenarios.len() as u64, "time");
    let what = format!("simulating {} {times}", prepared.source_name);
    let bar = Bar::new(&what, scenarios.len() as u64);
    let outcomes = run_all(&scenarios, threads, &interrupt, bar);
    let rows = outcomes.into_iter().enumerate().filter_map(|(index, outcome)| {
        let values = sweep.point(index).into_iter().map(|change| change.value).collect();
        Some(Row { values, outcome: outcome? })
    });
    let rows: Vec<Row> = rows.collect();
    if rows.len() == scenarios.len() {
        finish(prepared, &sweep, &rows, started.elapsed().as_secs_f64())?;
    } else {
        // A part of a sweep could be mistaken for all of it, so only the table is written.
        print(&table::sweep(&prepared.source_name, &sweep, &rows))?;
    }
    let outcomes: Vec<&Outcome> = rows.iter().map(|row| &row.outcome).collect();
    verdict(&outcomes, &interrupt)
}

/// Runs all combinations; `None` for those that an interruption left out.
fn run_all(
    scenarios: &[Scenario],
    threads: usize,
    interrupt: &Interrupt,
    mut bar: Bar,
) -> Vec<Option<Outcome>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; scenarios.len()]);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(scenario) = scenarios.get(index) else { return };
            let mut sim = simulation(scenario);
            let outcome =
                run_scenario(scenario, &mut *sim, &mut |_| match stop.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                });
            done.fetch_add(1, Ordering::Relaxed);
            if !outcome.interrupted {
                outcomes.lock().expect("no thread has panicked")[index] = Some(outcome);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads.min(scenarios.len())).map(|_| scope.spawn(work)).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(LOOK);
            bar.count(done.load(Ordering::Relaxed), scenarios.len());
            if interrupt.check().is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        bar.clear();
    });
    outcomes.into_inner().expect("no thread has panicked")
}

fn finish(prepared: Prepared, sweep: &Sweep, rows: &[Row], real_s: f64) -> Result<(), Failure> {
    let changes = prepared.change_words();
    let printed = match &prepared.json {
        Some(ReportFile::Stdout) => Ok(()),
        _ => print(&table::sweep(&prepared.source_name, sweep, rows)),
    };
    Prepared::write_page(prepared.report, prepared.plots, || {
        sweep_page(&SweepReport {
            source_name: &prepared.source_name,
            source: &prepared.text,
            changes: &changes,
            version: env!("CARGO_PKG_VERSION"),
            sweep,
            rows,
        })
    })?;
    if let Some(file) = prepared.json {
        let runs = rows.iter().map(|row| Run { values: &row.values, outcome: &row.outcome });
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            scenario: &prepared.source_name,
            source: &prepared.text,
            changes,
            real_s,
            names: sweep.names(),
            axes: &sweep.axes,
            runs: runs.collect(),
        };
        file.write(&json(&document)?)?;
    }
    printed
}
