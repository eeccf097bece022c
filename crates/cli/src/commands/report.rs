//! `lustrine report`: pages, comparisons and limits from results that were written as JSON.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use lustrine_plan::{
    Checked, Comparison, Limit, Results, Sense, compare, figures_of_runs, page_of_runs, table,
};
use serde::Serialize;

use crate::output::{Failure, print, print_json};
use crate::report_file::{ReportFile, check_distinct};

mod document;

/// Longest file that is read, in bytes.
const FILE_MAX: u64 = 256 << 20;

/// Make pages from results, compare runs, and check limits for scripts and CI.
///
/// Reads what `lustrine selftest --json` wrote, with or without a plan. With several files each is
/// compared with the first one. A limit concerns every file, and of the lines that it selects the
/// one with the largest value. The exit status is 1 if a limit is not held.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Results as JSON; the first one is the base of comparisons
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Write a page with plots, as one HTML file
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,

    /// Write each plot into this directory as SVG, 16:9, in light colours
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Fail unless this is reached, such as 'read >= 9 GiB/s' or 'read 1M c8 >= 9 GiB/s'; may be
    /// given several times. Words before the sign select lines: ping, read or write, a size, a
    /// concurrency; without a value, it is the rate
    #[arg(long, value_name = "LIMIT")]
    fail_below: Vec<String>,

    /// Fail if this is exceeded, such as 'p99 <= 2 ms', 'ping p50 <= 40 us' or 'errors <= 0'; may
    /// be given several times. Values: p50, p90, p99, p99.9, max, errors
    #[arg(long, value_name = "LIMIT")]
    fail_above: Vec<String>,

    /// Print comparisons and limits as JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Findings<'a> {
    comparisons: &'a [Comparison],
    limits: &'a [Checked],
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
    let runs: Vec<Results> = args.files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    let html = args.html.as_deref().map(ReportFile::open).transpose()?;
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
    let checked: Vec<Checked> = limits.iter().flat_map(of_runs).collect();
    let tables: Vec<String> = runs.iter().map(table).collect();
    if let Some(dir) = &args.plots {
        write_plots(dir, &runs)?;
    }
    if let Some(html) = html {
        html.write(&page_of_runs(&runs.iter().collect::<Vec<_>>(), &tables, &comparisons))?;
    }
    match args.json {
        true => print_json(&Findings { comparisons: &comparisons, limits: &checked })?,
        false => print(&text(&tables, &comparisons, &checked))?,
    }
    let broken: Vec<&str> =
        checked.iter().filter(|one| !one.held).map(|one| one.sentence.as_str()).collect();
    match broken.is_empty() {
        true => Ok(()),
        false => Err(broken.join("\n").into()),
    }
}

/// Writes the plots into a directory, which is made if it is not there.
fn write_plots(dir: &Path, runs: &[Results]) -> Result<(), Failure> {
    let cannot = |error| format!("cannot make the directory {}: {error}", dir.display());
    fs::create_dir_all(dir).map_err(cannot)?;
    for figure in figures_of_runs(&runs.iter().collect::<Vec<_>>()) {
        ReportFile::open(&dir.join(format!("{}.svg", figure.name)))?.write(&figure.svg)?;
    }
    Ok(())
}

/// The tables of the runs or their comparisons, and the limits that are held.
fn text(tables: &[String], comparisons: &[Comparison], checked: &[Checked]) -> String {
    let mut parts: Vec<String> = match comparisons {
        [] => tables.to_vec(),
        comparisons => comparisons.iter().map(Comparison::text).collect(),
    };
    let held = checked.iter().filter(|one| one.held);
    let held: String = held.map(|one| format!("{}\n", one.sentence)).collect();
    parts.extend((!held.is_empty()).then_some(held));
    parts.join("\n")
}

/// The limits, or everything that is wrong with them.
fn limits(args: &ReportArgs) -> Result<Vec<Limit>, Failure> {
    let below = args.fail_below.iter().map(|text| ("--fail-below", text, Sense::AtLeast));
    let above = args.fail_above.iter().map(|text| ("--fail-above", text, Sense::AtMost));
    let mut limits = Vec::new();
    let mut wrong = Vec::new();
    for (option, text, sense) in below.chain(above) {
        match Limit::parse(text, sense) {
            Ok(limit) => limits.push(limit),
            Err(why) => wrong.push(format!("{option} {why}")),
        }
    }
    match wrong.is_empty() {
        true => Ok(limits),
        false => Err(Failure::Usage(wrong.join("\n"))),
    }
}

fn read(path: &Path) -> Result<Results, Failure> {
    let cannot = |error| format!("cannot read {}: {error}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > FILE_MAX {
        let most = FILE_MAX >> 20;
        return Err(format!("{} has more than {most} MiB", path.display()).into());
    }
    document::read(&text).map_err(|why| Failure::Failed(format!("{}:{why}", path.display())))
}
