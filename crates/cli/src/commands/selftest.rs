//! `lustrine selftest`: how good is the network between two nodes?
//!
//! Without `--to` it starts a second node, a process of its own on this machine's loopback, and
//! measures it: the demonstration, and a check of the machine. With `--to` it measures a node
//! that is running anywhere, ours or a kernel's.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::BrwCheck;

use crate::common::{NodeOptions, fail};

mod interrupt;
mod partner;
mod report;
mod session;

use interrupt::{Broken, Interrupt};
use report::{End, Report};

/// Exit status after SIGINT or SIGTERM, as shells write the first of them.
const INTERRUPTED: u8 = 130;

/// Sizes of bulk tests unless told otherwise, in bytes.
const SIZES: [u32; 2] = [4 << 10, 1 << 20];
/// Concurrencies unless told otherwise.
const CONCURRENCIES: [u32; 3] = [1, 8, 64];

/// Measure the network between two nodes: rate, throughput, latency percentiles.
#[derive(Args, Debug)]
pub(crate) struct SelftestArgs {
    /// The node to measure; without it a second node is started on this machine's loopback
    #[arg(long, value_name = "NID")]
    to: Option<Nid>,

    /// What to do; may be given several times [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    test: Vec<TestWord>,

    /// Bytes per read or write, such as 4k or 1M [default: 4k,1M]
    #[arg(long, value_delimiter = ',', value_parser = size)]
    size: Vec<u32>,

    /// Operations under way at once [default: 1,8,64]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: Vec<u32>,

    /// Seconds for each row of the table
    #[arg(long, default_value_t = 1.4, value_parser = super::ping::seconds)]
    time: f64,

    /// How the data of reads and writes are checked
    #[arg(long, value_enum, default_value_t = CheckWord::Simple)]
    check: CheckWord,

    /// Write the results as JSON to a file, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,

    /// TCP port of the node [default: 988, or the port of --net]
    #[arg(long, requires = "to")]
    port: Option<u16>,

    /// End another's session on the node
    #[arg(long)]
    force: bool,

    /// Seconds without any answer after which the node is given up
    #[arg(long, default_value_t = 30.0, value_parser = super::ping::seconds)]
    patience: f64,

    #[command(flatten)]
    node: NodeOptions,
}

/// The tests by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TestWord {
    /// A small request and a small reply
    Ping,
    /// Data from the node to us
    Read,
    /// Data from us to the node
    Write,
}

/// The checks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckWord {
    /// Not at all
    None,
    /// The first and last word of each page
    Simple,
    /// Every word
    Full,
}

impl CheckWord {
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
    let (digits, unit) = match lower.strip_suffix(['k', 'm']) {
        Some(digits) if lower.ends_with('k') => (digits, 1u64 << 10),
        Some(digits) => (digits, 1 << 20),
        None => (lower.as_str(), 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    match bytes {
        Some(bytes) if (8..=1 << 20).contains(&bytes) && bytes % 8 == 0 => Ok(bytes as u32),
        Some(_) => Err("bytes per operation: a multiple of 8 from 8 to 1M, such as 4k".to_owned()),
        None => Err("not a size; examples are 4096, 64k, 1M".to_owned()),
    }
}

/// One row of the table to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    test: TestWord,
    /// Bytes per operation; 0 for ping.
    size: u32,
    concurrency: u32,
}

impl SelftestArgs {
    /// Every combination that was asked for, ping once per concurrency.
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

/// Runs the command.
pub(crate) fn run(args: &SelftestArgs) -> ExitCode {
    match measure(args) {
        Ok(report) => finish(args, &report),
        Err(Broken::Failed(error)) => fail(&error),
        Err(Broken::Interrupted) => interrupted(),
    }
}

fn measure(args: &SelftestArgs) -> Result<Report, Broken> {
    let interrupt = Interrupt::catch()?;
    let partner = match &args.to {
        Some(nid) => partner::Partner::elsewhere(*nid),
        None => partner::Partner::start(&args.node, &interrupt)?,
    };
    session::run(args, &partner, &interrupt)
}

fn interrupted() -> ExitCode {
    fail("interrupted");
    ExitCode::from(INTERRUPTED)
}

fn finish(args: &SelftestArgs, report: &Report) -> ExitCode {
    let to_stdout = args.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if !to_stdout {
        print!("{}", report.table());
    }
    if let Some(path) = &args.json {
        let mut text = match serde_json::to_string_pretty(report) {
            Ok(text) => text,
            Err(error) => return fail(&format!("cannot write JSON: {error}")),
        };
        text.push('\n');
        if to_stdout {
            print!("{text}");
        } else if let Err(error) = std::fs::write(path, text) {
            return fail(&format!("cannot write {}: {error}", path.display()));
        }
    }
    match &report.end {
        End::Complete => {}
        End::Failed { error } => return fail(error),
        End::Interrupted { .. } => return interrupted(),
    }
    let errors = report.errors();
    if errors > 0 {
        return fail(&format!("{errors} operations failed; the table says which"));
    }
    ExitCode::SUCCESS
}

/// How long a rung runs before its figures begin, at least.
fn warm_up(time: Duration) -> Duration {
    (time / 8).min(Duration::from_millis(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("1M"), Ok(1 << 20));
        assert_eq!(size("8"), Ok(8));
        for wrong in ["", "0", "7", "4", "4097", "2M", "1025k", "x", "k", "99999999999999999999M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
