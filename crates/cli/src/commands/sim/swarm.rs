//! `lustrine sim swarm`: random cases, until one fails.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_report::numbers::counted;
use lustrine_sim::swarm::{
    Expectation, Failure as Wrong, FailureKind, RunSummary, SwarmCase, generate, run as run_case,
    run_recorded, run_with_log, shrink,
};
use lustrine_sim::{RecordFilter, Recording};
use lustrine_trace::{LIMIT_DEFAULT, Trace};

use super::progress::Bar;
use super::{head_of, read};
use crate::interrupt::Interrupt;
use crate::output::{Failure, print};
use crate::report_file::{ReportFile, check_distinct};
use crate::values;

/// How often the command checks for interruptions and for the end of its time.
const LOOK: Duration = Duration::from_millis(50);

/// Generate random cases from seeds, run them with faults, and check the results
#[derive(Args, Debug)]
pub(super) struct SwarmArgs {
    /// Seeds to run; the last one is not included
    #[arg(long, value_name = "A..B", default_value = "0..100", conflicts_with = "case")]
    seeds: Seeds,

    /// Continue with the seeds that follow for this many minutes
    #[arg(long, value_name = "M", conflicts_with = "case",
          value_parser = whole_minutes)]
    minutes: Option<u64>,

    /// Run the case in this file instead, and print its last events if it fails
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,

    /// Write a trace of the messages of --case to a file, for lustrine sim replay
    #[arg(long, value_name = "FILE", requires = "case", conflicts_with_all = ["seeds", "minutes"])]
    trace: Option<PathBuf>,

    /// Folder for cases that failed, reduced to what makes them fail
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,

    /// Number of attempts to reduce a case that failed
    #[arg(long, value_name = "N", default_value_t = 300)]
    tries: u32,

    /// Scenarios to run at once [default: the number of CPUs]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = values::whole::<u16>(1..=1024))]
    threads: Option<u16>,
}

/// A range of seeds.
#[derive(Clone, Copy, Debug)]
struct Seeds {
    from: u64,
    to: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let bounds = text.split_once("..").ok_or("two numbers, such as 0..1000")?;
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        let (from, to) = (number(bounds.0)?, number(bounds.1)?);
        if from >= to {
            return Err(format!("{from} is not less than {to}: there is no seed in this range"));
        }
        Ok(Seeds { from, to })
    }
}

/// Kinds of cases, by what is expected of them.
const KINDS: [&str; 2] = ["recovery", "safety"];

/// Totals of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    runs: u64,
    events: u64,
    time: Duration,
    /// Operations of the load.
    well: u64,
    failed: u64,
    /// The largest number of events of a case, and its seed.
    longest: (u64, u64),
}

impl Tally {
    fn add(&mut self, seed: u64, tried: &Result<RunSummary, String>, took: Duration) {
        self.runs += 1;
        self.time += took;
        if let Ok(summary) = tried {
            self.events += summary.events;
            self.longest = self.longest.max((summary.events, seed));
            self.well += summary.operations.0;
            self.failed += summary.operations.1;
        }
    }
}

thread_local! {
    /// The message of the last panic of this thread.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a case; an assertion that fails is treated as any other failure.
fn try_case(case: &SwarmCase) -> Result<RunSummary, String> {
    let message = |wrong: Wrong| format!("after {:.1} s: {}", wrong.at.as_secs_f64(), what(wrong));
    run_case(case).map_err(message)
}

/// The error; for an assertion that failed, with its place in the source.
fn what(wrong: Wrong) -> String {
    let said = LAST_PANIC.take();
    if said.is_empty() { wrong.what } else { format!("an assertion failed: {said}") }
}

pub(super) fn run(args: &SwarmArgs) -> Result<(), Failure> {
    std::panic::set_hook(Box::new(|info| LAST_PANIC.set(info.to_string())));
    match &args.case {
        Some(path) => run_one(path, args.trace.as_deref()),
        None => run_seeds(args),
    }
}

/// Runs one case, and prints the last events if it fails.
fn run_one(path: &Path, trace_path: Option<&Path>) -> Result<(), Failure> {
    let text = read(path)?;
    let case: SwarmCase = serde_json::from_str(&text)
        .map_err(|error| format!("{}: not a case of sim swarm: {error}", path.display()))
        .map_err(Failure::Input)?;
    let mut out = String::new();
    let trace_file = trace_path.map(ReportFile::open).transpose()?;
    check_distinct(path, &[&trace_file])?;
    let recorded = trace_file.is_some();
    let (result, trace, recording) = match recorded {
        true => run_recorded(&case, RecordFilter::newest(LIMIT_DEFAULT as usize)),
        false => {
            let (result, trace) = run_with_log(&case);
            (result, trace, Recording::default())
        }
    };
    if let Err(wrong) = &result
        && wrong.kind == FailureKind::Case
    {
        let what = what(wrong.clone());
        return Err(Failure::Input(format!("{}: {what}", path.display())));
    }
    if let Some(file) = trace_file {
        let head = head_of(path.display().to_string(), Vec::new(), case.seed, "stream");
        file.write(&Trace::of(&recording, head).to_text())?;
    }
    let result = match result {
        Ok(summary) => {
            let length = summary.length.as_secs_f64();
            let (events, hash) = (summary.events, summary.hash);
            print(&format!("passed: {length:.1} s, {events} events, hash {hash:016x}\n"))?;
            return Ok(());
        }
        Err(wrong) => what(wrong),
    };
    for entry in trace {
        let at = entry.at.0 as f64 / 1e9;
        let (host, end, what, value) = (entry.host.0, entry.end, entry.what, entry.value);
        let _ = writeln!(out, "{at:14.6} host {host} end {end:4} {what:?} {value:#x}");
    }
    print(&out)?;
    Err(result.into())
}

fn run_seeds(args: &SwarmArgs) -> Result<(), Failure> {
    // Before the work, which may take hours, and not after it.
    std::fs::create_dir_all(&args.out)
        .map_err(|error| format!("{}: {error}", args.out.display()))?;
    let interrupt = Interrupt::catch()?;
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let (next, done_count) = (AtomicU64::new(args.seeds.from), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let tally: Mutex<[Tally; 2]> = Mutex::default();
    let failed: Mutex<Vec<(u64, String)>> = Mutex::default();
    let end = if args.minutes.is_some() { u64::MAX } else { args.seeds.to };
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let case = generate(seed);
            let began = Instant::now();
            let tried = try_case(&case);
            let kind = usize::from(case.expect == Expectation::Safety);
            tally.lock().expect("no thread has panicked")[kind].add(seed, &tried, began.elapsed());
            match tried {
                Ok(_) => {}
                Err(what) => failed.lock().expect("no thread has panicked").push((seed, what)),
            }
            done_count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let started = Instant::now();
    let length = args.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let total = match length {
        Some(length) => length.as_secs(),
        None => args.seeds.to - args.seeds.from,
    };
    let mut bar = Bar::new("simulating", total);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(LOOK);
            let done = match length {
                Some(_) => started.elapsed().as_secs().min(total),
                None => done_count.load(Ordering::Relaxed),
            };
            bar.count(done as usize, total as usize);
            let over = length.is_some_and(|length| started.elapsed() >= length);
            if over || interrupt.check().is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        bar.clear();
    });
    let mut failed = failed.into_inner().expect("no thread has panicked");
    failed.sort();
    let (from, count) = (args.seeds.from, done_count.load(Ordering::Relaxed));
    let seconds = started.elapsed().as_secs_f64();
    let tally = tally.into_inner().expect("no thread has panicked");
    let events: u64 = tally.iter().map(|tally| tally.events).sum();
    print(&format!(
        "{count} cases from seed {from} on, {events} events, {seconds:.0} s: {} failed\n",
        failed.len()
    ))?;
    for (kind, Tally { runs, time, well, failed, longest, .. }) in KINDS.iter().zip(&tally) {
        print(&format!(
            "  {kind}: {}, {:.0} s of all threads; operations: {well} succeeded, {failed} failed\n",
            counted(*runs, "case"),
            time.as_secs_f64()
        ))?;
        let (events, seed) = longest;
        if *events > 0 {
            print(&format!("    the longest: seed {seed}, {events} events\n"))?;
        }
    }
    for (seed, what) in &failed {
        print(&format!("seed {seed} {what}\n"))?;
    }
    for (seed, _) in &failed {
        keep(args, *seed, &interrupt)?;
    }
    interrupt.check()?;
    match failed.len() {
        0 => Ok(()),
        count => {
            Err(format!("{count} of {} cases failed", done_count.load(Ordering::Relaxed)).into())
        }
    }
}

/// Reduces a case that fails and writes it to a file.
fn keep(args: &SwarmArgs, seed: u64, interrupt: &Interrupt) -> Result<(), Failure> {
    let case = generate(seed);
    // A smaller case may fail for another reason, and would say nothing of this one.
    let fail = |case: &SwarmCase| {
        let failure = run_case(case).err();
        // The text of its panic is not that of a later failure.
        LAST_PANIC.take();
        failure
    };
    let first = fail(&case);
    let fails = |case: &SwarmCase| {
        let Some(first) = first.as_ref().filter(|_| interrupt.check().is_ok()) else {
            return false;
        };
        fail(case).is_some_and(|failure| failure.is_like(first))
    };
    let small = shrink(&case, args.tries, fails);
    let path = args.out.join(format!("swarm-{seed}.json"));
    let text = serde_json::to_string_pretty(&small).map_err(|error| error.to_string())?;
    lustrine_sys::files::write(&path, &(text + "\n"))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    print(&format!(
        "  reduced to {} and {}; to run it again with its events:\n  \
         lustrine sim swarm --case {}\n",
        counted(small.nodes.len() as u64, "node"),
        counted(small.faults.len() as u64, "fault"),
        path.display()
    ))?;
    Ok(())
}

/// Parses a number of minutes.
fn whole_minutes(text: &str) -> Result<u64, String> {
    let minutes = text.parse().ok().filter(|minutes| (1..=10_000).contains(minutes));
    minutes.ok_or_else(|| "a whole number of minutes from 1 to 10000".to_owned())
}
