//! `lustrine sim`: simulates networks of nodes in virtual time, as scenario files describe them.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use lustrine_lnet::time::Nanos;
use lustrine_report::FinishedPage;
use lustrine_report::numbers::counted;
use lustrine_scenario::{Outcome, Override, Problems, Scenario, ScenarioFile, parse_duration};
use lustrine_trace::{TraceHeader, VERSION};

use crate::interrupt::Interrupt;
use crate::output::Failure;
use crate::plots::PlotsDir;
use crate::report_file::{ReportFile, check_distinct};

mod progress;
mod replay;
pub(crate) mod saved;
mod single;
mod swarm;
mod sweep;
mod table;

/// Longest scenario file that is read, in bytes; the parser has its own limit.
const FILE_MAX: u64 = 16 << 20;

/// Simulate networks of nodes, to try settings and topologies
#[derive(Args, Debug)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand, Debug)]
enum SimCommand {
    Run(single::RunArgs),
    Sweep(sweep::SweepArgs),
    Swarm(swarm::SwarmArgs),
    Replay(replay::ReplayArgs),
}

/// Options of both commands.
#[derive(Args, Debug)]
struct ScenarioOptions {
    /// The scenario file (docs/simulator.md)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Seed of all random numbers, instead of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Level of detail, instead of the file's
    #[arg(long, value_enum)]
    fidelity: Option<FidelityArg>,

    /// Replace a value of the file: any tunable, a key of loads, links or tcp, or a key of a
    /// group such as clients.count; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<Setting>,

    /// Write the results as JSON to a file, or to standard output with "-" instead of tables
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    /// Write a page with plots, as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Write each plot into this directory as SVG and PNG, 16:9, in light colours
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// A duration, as in scenario files.
#[derive(Clone, Copy, Debug)]
struct Length(Nanos);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        parse_duration(text).map(Length)
    }
}

/// The fidelities by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FidelityArg {
    /// Bytes in TCP streams, with the complete socket driver
    Stream,
    /// Whole LNet messages: for many nodes
    Message,
}

/// A change of the file.
#[derive(Clone, Debug)]
struct Setting(Override);

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        Override::parse("--set", text).map(Setting)
    }
}

/// A scenario file that was read, and where the output goes.
struct Prepared {
    source_name: String,
    text: String,
    file: ScenarioFile,
    changes: Vec<Override>,
    json: Option<ReportFile>,
    report: Option<ReportFile>,
    plots: Option<PlotsDir>,
}

/// Runs the command.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    match &args.command {
        SimCommand::Run(args) => single::run(args),
        SimCommand::Sweep(args) => sweep::run(args),
        SimCommand::Swarm(args) => swarm::run(args),
        SimCommand::Replay(args) => replay::run(args),
    }
}

impl ScenarioOptions {
    /// Reads the file and opens the output files, so that errors are reported before the
    /// simulation.
    fn prepare(&self) -> Result<Prepared, Failure> {
        if self.report.as_deref() == Some(Path::new("-")) {
            let words = "--report writes a page for a browser to a file; --json can write to \
                         standard output with \"-\"";
            return Err(Failure::Usage(words.to_owned()));
        }
        let source_name = self.file.display().to_string();
        let text = read(&self.file)?;
        let file = ScenarioFile::parse(&text, &source_name).map_err(|problems| bad(&problems))?;
        Ok(Prepared {
            source_name,
            text,
            file,
            changes: self.changes(),
            json: None,
            report: None,
            plots: None,
        })
    }

    /// Values given in addition to the file, as they would be written in it.
    fn changes(&self) -> Vec<Override> {
        let change = |name: &str, value: String| Override {
            origin: format!("--{name} {value}"),
            name: name.to_owned(),
            value,
        };
        let mut changes: Vec<Override> = self.set.iter().map(|setting| setting.0.clone()).collect();
        changes.extend(self.seed.map(|seed| change("seed", seed.to_string())));
        let fidelity = self.fidelity.map(|fidelity| match fidelity {
            FidelityArg::Stream => "stream",
            FidelityArg::Message => "message",
        });
        changes.extend(fidelity.map(|fidelity| change("fidelity", fidelity.to_owned())));
        changes
    }

    /// Opens the output files.
    fn open(&self, prepared: &mut Prepared) -> Result<(), Failure> {
        prepared.json = self.json.as_deref().map(ReportFile::open).transpose()?;
        prepared.report = self.report.as_deref().map(ReportFile::open).transpose()?;
        prepared.plots = self.plots.as_deref().map(PlotsDir::open).transpose()?;
        check_distinct(&self.file, &[&prepared.json, &prepared.report])
    }
}

impl Prepared {
    /// The scenario with further changes.
    fn scenario(&self, more: &[Override]) -> Result<Scenario, Failure> {
        let changes: Vec<Override> = self.changes.iter().chain(more).cloned().collect();
        self.file.scenario(&changes).map_err(|problems| bad(&problems))
    }

    /// Writes the page and its plots, where they were asked for.
    fn write_page(
        report: Option<ReportFile>,
        plots: Option<PlotsDir>,
        page: impl FnOnce() -> FinishedPage,
    ) -> Result<(), Failure> {
        if report.is_none() && plots.is_none() {
            return Ok(());
        }
        let FinishedPage { html, figures } = page();
        report.map_or(Ok(()), |file| file.write(&html))?;
        plots.map_or(Ok(()), |dir| dir.write(&figures))
    }

    /// The changes as they were given.
    fn change_words(&self) -> Vec<String> {
        self.changes.iter().map(|change| change.origin.clone()).collect()
    }
}

fn bad(problems: &Problems) -> Failure {
    Failure::Input(problems.to_string())
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Input(format!("cannot read {}: {error}", path.display()))
    };
    let about = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if about.len() > FILE_MAX {
        return Err(failed(&format!("{} bytes are too many for a scenario file", about.len())));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|_| failed(&"the file is not UTF-8 text"))
}

/// The header of a trace.
fn head_of(scenario: String, changes: Vec<String>, seed: u64, fidelity: &str) -> TraceHeader {
    TraceHeader {
        lustrine_trace: VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        scenario,
        changes,
        seed,
        fidelity: fidelity.to_owned(),
        steps: 0,
        dropped: 0,
    }
}

/// The result of the command, after everything was written.
fn verdict(outcomes: &[&Outcome], interrupt: &Interrupt) -> Result<(), Failure> {
    interrupt.check()?;
    let errors: u64 = outcomes.iter().map(|outcome| outcome.errors()).sum();
    if errors > 0 {
        let failed = counted(errors, "operation");
        return Err(format!("{failed} failed; see the table").into());
    }
    let unquiet: usize = outcomes.iter().map(|outcome| outcome.unquiet.len()).sum();
    if unquiet > 0 {
        let failed = counted(unquiet as u64, "check");
        return Err(format!("{failed} failed at the end, see above").into());
    }
    if outcomes.iter().any(|outcome| outcome.loads.iter().any(|load| load.ops == 0)) {
        return Err("a load measured nothing, see above".to_owned().into());
    }
    Ok(())
}
