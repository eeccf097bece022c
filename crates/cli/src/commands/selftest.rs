//! `lustrine selftest`: measures the network between two nodes.
//!
//! Without `--to` it starts a second node, a separate process on this machine's loopback, and
//! measures it: a demonstration, and a check of the machine. With `--to` it measures a running
//! node, which may be a kernel node.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use lustrine_report::{FinishedPage, numbers};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::BrwCheck;

use crate::access::NodeChoice;
use crate::commands::report::document;
use crate::common::NodeOptions;
use crate::interrupt::Interrupt;
use crate::output::{Failure, json, note, print};
use crate::plots::PlotsDir;
use crate::report_file::{ReportFile, check_distinct};
use crate::values::{self, PORTS, seconds};

mod children;
mod placement;
mod plan;
mod report;
mod run_dir;
mod session;
mod table;
mod target;

use placement::{Placement, PlacementWord};
use report::{End, Report};
use target::Target;

/// Default sizes of bulk tests, in bytes.
const SIZES: [u32; 2] = [4 << 10, 1 << 20];
/// Default concurrencies.
const CONCURRENCIES: [u32; 3] = [1, 8, 64];

/// Default seconds per row.
const ROW_TIME: f64 = 1.1;

/// The longest warm-up of a row, unless another is asked for.
const WARM_UP_MAX: Duration = Duration::from_millis(500);

/// Measure the network between two nodes: rate, throughput, latency percentiles.
#[derive(Args, Debug)]
pub(crate) struct SelftestArgs {
    /// The node to measure; without it a second node is started on this machine's loopback
    #[arg(long, value_name = "NID", value_parser = values::nid)]
    to: Option<Nid>,

    /// Tests to run; may be given several times [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    test: Vec<TestWord>,

    /// Bytes per read or write, such as 4k or 1M [default: 4k,1M]
    #[arg(long, value_delimiter = ',', value_parser = size)]
    size: Vec<u32>,

    /// Operations in flight at once [default: 1,8,64]
    #[arg(long, value_delimiter = ',', value_parser = values::whole::<u32>(1..=1024))]
    concurrency: Vec<u32>,

    /// Seconds for each row of the table [default: 1.1]; with --plan, overrides the plan's
    /// time per point
    #[arg(long, value_parser = seconds, allow_negative_numbers = true)]
    time: Option<f64>,

    /// Seconds that each row runs before its measurement begins: TCP needs several on long paths
    /// [default: an eighth of --time, 0.5 at most]; with --plan, overrides the plan's warm-up
    #[arg(long, value_parser = seconds, allow_negative_numbers = true)]
    warm_up: Option<f64>,

    /// How the data of reads and writes are checked
    #[arg(long, value_enum, default_value_t = CheckWord::Simple)]
    check: CheckWord,

    /// Write the results as JSON to a file, or to standard output with "-". latency_us.p999 is null
    /// below 1000 operations, p9999 below 10,000
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    /// Write the results as a page with plots, as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Write each plot into this directory as SVG and PNG, 16:9, in light colours
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// TCP port of the node [default: 988, or the port of --net]
    #[arg(long, requires = "to", value_parser = values::whole::<u16>(PORTS))]
    port: Option<u16>,

    /// Take over an existing session of another console on the node. A Lustrine node permits this
    /// only to the consoles that its setting `selftest_consoles` lists (docs/lst.md)
    #[arg(long)]
    force: bool,

    /// End the run if the peer sends no answer for this many seconds [default: 30, or 5 for an IPv6
    /// NID, where the selftest of a kernel node never answers]
    #[arg(long, value_parser = seconds, allow_negative_numbers = true)]
    patience: Option<f64>,

    /// CPUs of the two nodes when both are on this machine
    #[arg(long, value_enum, default_value_t = PlacementWord::Auto, conflicts_with = "to")]
    placement: PlacementWord,

    #[command(flatten)]
    plan: plan::PlanArgs,

    #[command(flatten)]
    node: NodeOptions,

    #[command(flatten)]
    choice: NodeChoice,
}

/// The tests by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TestWord {
    /// A small request and a small reply
    Ping,
    /// Data from the node to this machine
    Read,
    /// Data from this machine to the node
    Write,
}

/// The checks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckWord {
    /// Not at all
    None,
    /// The first and last word of the data, and of every 64 KiB of it
    Simple,
    /// Every word
    Full,
}

impl CheckWord {
    /// Its name on the command line and in JSON.
    fn name(self) -> &'static str {
        match self {
            CheckWord::None => "none",
            CheckWord::Simple => "simple",
            CheckWord::Full => "full",
        }
    }

    fn on_the_wire(self) -> BrwCheck {
        match self {
            CheckWord::None => BrwCheck::None,
            CheckWord::Simple => BrwCheck::Simple,
            CheckWord::Full => BrwCheck::Full,
        }
    }
}

/// A number of bytes with an optional k or M.
fn size(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(digits) if lower.ends_with('k') => (digits, 1u64 << 10),
        Some(digits) if lower.ends_with('g') => (digits, 1 << 30),
        Some(digits) => (digits, 1 << 20),
        None => (lower.as_str(), 1),
    };
    let bytes = digits.parse::<u64>().ok().map(|count| count.saturating_mul(unit));
    match bytes {
        Some(bytes) if (8..=1 << 20).contains(&bytes) && bytes % 8 == 0 => Ok(bytes as u32),
        Some(_) => {
            Err("expected the bytes per operation: a multiple of 8 from 8 to 1M, such as 4k"
                .to_owned())
        }
        None => Err("not a size; examples are 4096, 64k, 1M".to_owned()),
    }
}

/// A row of the table to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    test: TestWord,
    /// Bytes per operation; 0 for ping.
    size: u32,
    concurrency: u32,
}

impl SelftestArgs {
    /// How long each row of the table is measured.
    fn row_time(&self) -> Duration {
        Duration::from_secs_f64(self.time.unwrap_or(ROW_TIME))
    }

    /// The shortest time that a row runs before its measurement begins.
    fn row_warm_up(&self) -> Duration {
        match self.warm_up {
            Some(seconds) => Duration::from_secs_f64(seconds),
            None => (self.row_time() / 8).min(WARM_UP_MAX),
        }
    }

    /// Every requested combination; ping once per concurrency.
    fn rows(&self) -> Vec<Row> {
        let tests = if self.test.is_empty() {
            vec![TestWord::Ping, TestWord::Read, TestWord::Write]
        } else {
            self.test.clone()
        };
        let sizes = if self.size.is_empty() { SIZES.to_vec() } else { self.size.clone() };
        let concurrencies = if self.concurrency.is_empty() {
            CONCURRENCIES.to_vec()
        } else {
            self.concurrency.clone()
        };
        let mut rows = Vec::new();
        for test in tests {
            let sizes = if test == TestWord::Ping { &[0][..] } else { &sizes[..] };
            for size in sizes {
                for concurrency in &concurrencies {
                    rows.push(Row { test, size: *size, concurrency: *concurrency });
                }
            }
        }
        rows
    }
}

impl TestWord {
    /// Its name in tables and JSON.
    fn name(self) -> &'static str {
        match self {
            TestWord::Ping => "ping",
            TestWord::Read => "read",
            TestWord::Write => "write",
        }
    }
}

/// A row as text.
fn describe(test: &str, size: u32, concurrency: u32) -> String {
    match size {
        0 => format!("{test}, concurrency {concurrency}"),
        size => format!("{test} of {}, concurrency {concurrency}", numbers::size(size)),
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self.test.name(), self.size, self.concurrency))
    }
}

/// Runs the command.
pub(crate) fn run(args: &SelftestArgs) -> Result<(), Failure> {
    if let Some(file) = args.plan.file() {
        return plan::run(args, file);
    }
    let node = &args.node;
    if args.to.is_none() && args.choice.control.control.is_some() {
        let words = "--control names the running node that measures another: name that one with \
                     --to NID";
        return Err(Failure::Usage(words.to_owned()));
    }
    if args.to.is_none()
        && (node.basic.config.is_some() || !node.basic.net.is_empty() || node.accept.is_some())
    {
        let words = "--net, --accept and --config need --to NID: they describe this command's \
                     own node while it measures another one. Without --to, both nodes run on this \
                     machine's loopback; --set and --identity apply to both";
        return Err(Failure::Usage(words.to_owned()));
    }
    // A path that cannot be written is reported before the measurement.
    let open = |path: &Option<PathBuf>| path.as_deref().map(ReportFile::open).transpose();
    let (file, page) = (open(&args.json)?, open(&args.report)?);
    if matches!(page, Some(ReportFile::Stdout)) {
        let words = "--report writes a page for a browser to a file; --json can write to standard \
                     output with \"-\"";
        return Err(Failure::Usage(words.to_owned()));
    }
    check_distinct(Path::new("/dev/null"), &[&file, &page])?;
    let plots = args.plots.as_deref().map(PlotsDir::open).transpose()?;
    let report = measure(args)?;
    let written = write_page(page, plots, &report);
    finish(file, &report).and(written)
}

/// Writes the page and its plots, where they were asked for: those that `lustrine report` makes of
/// the JSON.
fn write_page(
    page: Option<ReportFile>,
    plots: Option<PlotsDir>,
    report: &Report,
) -> Result<(), Failure> {
    if page.is_none() && plots.is_none() {
        return Ok(());
    }
    let results = document::read(&json(report)?)
        .map_err(|why| Failure::Failed(format!("the results as JSON: {why}")))?;
    let FinishedPage { html, figures } = lustrine_plan::page(&results, &table::table(report));
    page.map_or(Ok(()), |file| file.write(&html))?;
    plots.map_or(Ok(()), |dir| dir.write(&figures))
}

fn measure(args: &SelftestArgs) -> Result<Report, Failure> {
    let interrupt = Interrupt::catch()?;
    let (target, placement) = match &args.to {
        Some(nid) => (Target::elsewhere(*nid), None),
        None => {
            let placement = placement(args)?;
            if let Some(remark) = placement.remark() {
                note(&remark);
            }
            (start_partner(&args.node, &placement, &interrupt)?, Some(placement))
        }
    };
    let mut report = session::run(args, &target, &interrupt)?;
    report.placement = placement.as_ref().map(Placement::name);
    report.busy_cpus_before = placement.and_then(|placement| placement.busy_cpus);
    Ok(report)
}

/// Where the two nodes run; a user who places the loops has decided.
fn placement(args: &SelftestArgs) -> Result<Placement, Failure> {
    if args.node.basic.set.iter().any(|setting| setting.name == "cpu_npartitions") {
        return Ok(Placement::SHARED);
    }
    let failed = |error| format!("cannot find out which CPUs are free: {error}");
    Ok(Placement::choose(args.placement).map_err(failed)?)
}

/// Starts the second node, on its CPUs.
fn start_partner(
    options: &NodeOptions,
    placement: &Placement,
    interrupt: &Interrupt,
) -> Result<Target, Failure> {
    let start = || Target::start(options, interrupt);
    let failed = |error: io::Error| format!("cannot give each node separate CPUs: {error}");
    match &placement.split {
        Some(halves) => halves.apart(start).map_err(failed)?,
        None => start(),
    }
}

fn finish(file: Option<ReportFile>, report: &Report) -> Result<(), Failure> {
    let printed = match &file {
        Some(ReportFile::Stdout) => Ok(()),
        _ => print(&table::table(report)),
    };
    if let Some(file) = file {
        file.write(&json(report)?)?;
    }
    match &report.end {
        End::Complete => {}
        End::Failed { error } => return Err(error.clone().into()),
        End::Interrupted { .. } => return Err(Failure::Interrupted),
    }
    match report.errors() {
        0 => printed,
        errors => {
            let failed = numbers::counted(errors, "operation");
            Err(format!("{failed} failed; the table says which").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_suffixes_are_read() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("1M"), Ok(1 << 20));
        assert_eq!(size("8"), Ok(8));
        for wrong in ["", "0", "7", "4", "4097", "2M", "1025k", "x", "k", "99999999999999999999M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
