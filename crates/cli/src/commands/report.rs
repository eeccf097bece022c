//! `lustrine report`: pages, comparisons and limits from results that were written as JSON.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use lustrine_plan::{Comparison, End, Limit, LimitResult, Results, compare, page_of_runs, table};
use lustrine_report::FinishedPage;
use serde::Serialize;

use crate::commands::sim::saved::Saved;
use crate::output::{Failure, print, print_json};
use crate::plots::PlotsDir;
use crate::report_file::{ReportFile, check_distinct};

pub(super) mod document;

use document::Read;

/// Longest file that is read, in bytes.
const FILE_MAX: u64 = 256 << 20;

/// Make pages from results, compare runs, and check limits for scripts and CI.
///
/// Reads what `lustrine selftest --json` wrote, with or without a plan, and one file of `lustrine
/// sim run --json` or `sim sweep --json`. With several files each is compared with the first one. A
/// limit is checked in every file, against the largest value of the lines that it selects. The exit
/// status is 1 if a limit is not met.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Results as JSON; the first one is the base of comparisons
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Write a page with plots, as one HTML file
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,

    /// Write each plot into this directory as SVG and PNG, 16:9, in light colours
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Fail unless this holds, such as 'read >= 9 GiB/s', 'read 1M c8 p99 <= 2 ms' or
    /// 'errors <= 0'; may be repeated. Words before the sign select lines (ping, read or write, a
    /// size, a concurrency) and the value: p50, p90, p99, p99.9, max or errors; if no value is
    /// named, the rate
    #[arg(long, value_name = "LIMIT")]
    require: Vec<String>,

    /// Print comparisons and limits as JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Findings<'a> {
    comparisons: &'a [Comparison],
    limits: &'a [LimitResult],
    /// Of runs that did not come to their end.
    ended_early: &'a [String],
}

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    if args.html.as_deref() == Some(Path::new("-")) {
        let words =
            "--html writes a page for a browser to a file; --json prints to standard output";
        return Err(Failure::Usage(words.to_owned()));
    }
    let limits = limits(args)?;
    let names: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let mut runs: Vec<Results> = Vec::new();
    for file in &args.files {
        match read(file)? {
            Read::Selftest(results) => runs.push(*results),
            Read::Sim(saved) => return simulated(args, file, saved),
        }
    }
    let html = args.html.as_deref().map(ReportFile::open).transpose()?;
    let plots = args.plots.as_deref().map(PlotsDir::open).transpose()?;
    for file in &args.files {
        check_distinct(file, &[&html])?;
    }
    let base = (names[0].as_str(), &runs[0]);
    let others = names.iter().zip(&runs).skip(1);
    let comparisons: Vec<Comparison> =
        others.map(|(name, other)| compare(base, (name, other))).collect();
    let of_runs = |limit: &Limit| {
        names.iter().zip(&runs).map(|(name, run)| limit.check(name, run)).collect::<Vec<_>>()
    };
    let checked: Vec<LimitResult> = limits.iter().flat_map(of_runs).collect();
    let tables: Vec<String> = runs.iter().map(table).collect();
    let early = names.iter().zip(&runs).filter_map(|(name, run)| ended_early(name, run));
    let early: Vec<String> = early.collect();
    if html.is_some() || plots.is_some() {
        let all: Vec<&Results> = runs.iter().collect();
        write_page(html, plots, &page_of_runs(&all, &tables, &comparisons))?;
    }
    match args.json {
        true => print_json(&Findings {
            comparisons: &comparisons,
            limits: &checked,
            ended_early: &early,
        })?,
        false => print(&text(&early, &tables, &comparisons, &checked))?,
    }
    let broken: Vec<&str> =
        checked.iter().filter(|one| !one.met).map(|one| one.sentence.as_str()).collect();
    match broken.is_empty() {
        true => Ok(()),
        false => Err(broken.join("\n").into()),
    }
}

/// The page and the plots of a simulation, which has neither limits nor comparisons.
fn simulated(args: &ReportArgs, file: &Path, saved: Saved) -> Result<(), Failure> {
    let has_limits = !args.require.is_empty();
    if args.files.len() > 1 || has_limits || args.json {
        return Err(Failure::Usage(format!(
            "{} is a result of lustrine sim, and comparisons, limits and --json are for results of \
             lustrine selftest: give it by itself, with --html or --plots. `lustrine sim sweep` \
             compares simulations",
            file.display()
        )));
    }
    let html = args.html.as_deref().map(ReportFile::open).transpose()?;
    check_distinct(file, &[&html])?;
    let plots = args.plots.as_deref().map(PlotsDir::open).transpose()?;
    let (table, page) = saved.show();
    write_page(html, plots, &page)?;
    print(&table)
}

fn write_page(
    html: Option<ReportFile>,
    plots: Option<PlotsDir>,
    page: &FinishedPage,
) -> Result<(), Failure> {
    html.map_or(Ok(()), |file| file.write(&page.html))?;
    plots.map_or(Ok(()), |dir| dir.write(&page.figures))
}

/// The tables of the runs or their comparisons, and the limits that are met.
fn text(
    early: &[String],
    tables: &[String],
    comparisons: &[Comparison],
    checked: &[LimitResult],
) -> String {
    let mut parts: Vec<String> = early.iter().map(|said| format!("{said}\n")).collect();
    match comparisons {
        [] => parts.extend(tables.iter().cloned()),
        comparisons => parts.extend(comparisons.iter().map(Comparison::text)),
    }
    let met = checked.iter().filter(|one| one.met);
    let met: String = met.map(|one| format!("{}\n", one.sentence)).collect();
    parts.extend((!met.is_empty()).then_some(met));
    parts.join("\n")
}

/// What is to be said of a run that did not come to its end.
fn ended_early(name: &str, run: &Results) -> Option<String> {
    match &run.end {
        End::Complete => None,
        End::Failed { error } => Some(format!("{name}: the run ended early: {error}")),
        End::Interrupted { .. } => Some(format!(
            "{name}: the run was interrupted; the results are of what was measured before"
        )),
    }
}

/// The limits, or everything that is wrong with them.
fn limits(args: &ReportArgs) -> Result<Vec<Limit>, Failure> {
    let (mut limits, mut wrong) = (Vec::new(), Vec::new());
    for text in &args.require {
        match Limit::parse(text) {
            Ok(limit) => limits.push(limit),
            Err(why) => wrong.push(format!("--require {why}")),
        }
    }
    match wrong.is_empty() {
        true => Ok(limits),
        false => Err(Failure::Usage(wrong.join("\n"))),
    }
}

fn read(path: &Path) -> Result<Read, Failure> {
    let cannot = |error| Failure::Input(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > FILE_MAX {
        let most = FILE_MAX >> 20;
        return Err(Failure::Input(format!("{} has more than {most} MiB", path.display())));
    }
    document::read_any(&text).map_err(|why| Failure::Input(format!("{}:{why}", path.display())))
}
