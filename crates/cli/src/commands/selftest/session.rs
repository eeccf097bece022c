//! Runs the rows of a selftest, one after the other, with live progress.

use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lustrine_control::{Answer, Request};
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_node::{Load, LoadReport, Node};
use lustrine_partition::tunables::Tunables;
use lustrine_selftest::{ClientError, LoadStep, SessionMode, StepLimit, Test};
use lustrine_sys::Clock;
use lustrine_wire::srpc::Name;

use super::report::{End, RawTcp, Report, RowResult};
use super::target::Target;
use super::{Row, SelftestArgs, TestWord, warm_up};
use crate::commands::raw_tcp::{self, Direction, Waiting};
use crate::common::start_for_command;
use crate::interrupt::Interrupt;
use crate::output::{Failure, note, print_error};
use crate::values::millis;

/// The interval of progress updates.
const LOOK: Duration = Duration::from_millis(50);
/// How long plain TCP is measured before each bulk row, in each way of waiting.
const RAW_TIME: Duration = Duration::from_millis(250);
/// How much longer than the sum of its parts a row may take.
const ROW_SLACK: Duration = Duration::from_secs(30);
/// The time-out for the end of the session.
const FAREWELL: Duration = Duration::from_secs(3);

/// Runs all rows, or those before an interruption.
pub(super) fn run(
    args: &SelftestArgs,
    target: &Target,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let config = match target.own_net() {
        Some(net) => {
            let mut config = args.node.node_config(print_error)?;
            config.nets = vec![net];
            config.accept = lustrine_config::AcceptPolicy::None;
            config
        }
        None => args.node.short_lived(&target.nid, args.port)?,
    };
    let node = start_for_command(&config)?;
    reach(&node, target, args.patience, interrupt)?;
    let session = if args.force { SessionMode::Force } else { SessionMode::IfFree };
    let patience = Nanos((args.patience * 1e9) as u64);
    let name = Name::new("lustrine-selftest").map_err(|error| error.to_string())?;
    let load =
        node.start_load(&target.nid, name, session, patience).map_err(|error| error.to_string())?;
    let progress = Progress::new();
    let mut run = Run { args, target, interrupt, load, progress, raw_failed: false };
    let outcome = run.rows(&node, &config.tunables);
    run.progress.clear();
    // In any case, the node should not have to wait until its session expires.
    run.say_farewell();
    drop(run);
    node.stop();
    outcome
}

/// Discovers the target. The load would do this too, but it retries for a long time, because a node
/// may come back; this call reports at once that a node was never there.
fn reach(
    node: &Node,
    target: &Target,
    patience: f64,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let request = Request::Discover { nid: target.nid, timeout_ms: millis(patience) };
    let handle = node.handle();
    let asking = thread::spawn(move || handle.call(&request));
    while !asking.is_finished() {
        // If the run is interrupted here, the call fails as soon as the node stops.
        interrupt.check()?;
        thread::sleep(LOOK / 10);
    }
    match asking.join() {
        Ok(Answer::Error { message, .. }) => Err(message.into()),
        Ok(_) => Ok(()),
        Err(_) => Err("the local node did not answer".to_owned().into()),
    }
}

/// The results of a row that failed, and the reason.
type BrokenRow = (Option<Box<RowResult>>, Failure);

struct Run<'a> {
    args: &'a SelftestArgs,
    target: &'a Target,
    interrupt: &'a Interrupt,
    load: Load,
    progress: Progress,
    /// Whether plain TCP could not be measured, which is reported once.
    raw_failed: bool,
}

impl Run<'_> {
    fn rows(&mut self, node: &Node, tunables: &Tunables) -> Result<Report, Failure> {
        let rows = self.args.rows();
        let connections = match node.info().identity {
            Identity::Node => usize::from(node.info().conns_per_peer[0]),
            // All data use one connection.
            Identity::Userland => 1,
        };
        let mut report = Report::new(self.args, tunables, &node.info(), self.target, connections);
        if self.target.raw_addr().is_none() && rows.iter().any(|row| row.test != TestWord::Ping) {
            self.progress
                .say("no plain TCP beside it: only a node started for the run offers that");
        }
        for (index, row) in rows.iter().enumerate() {
            self.progress.begin(index + 1, rows.len(), row);
            let raw = self.raw_tcp(row, connections);
            match self.row(row, raw) {
                Ok(result) => report.results.push(result),
                Err((None, broken)) if report.results.is_empty() => return Err(broken),
                // The results so far are kept, including those of the row that failed.
                Err((partial, broken)) => {
                    report.results.extend(partial.map(|partial| *partial));
                    report.end = match broken {
                        Failure::Failed(error) => End::Failed { error },
                        Failure::Interrupted => End::Interrupted { interrupted: true },
                        other => return Err(other),
                    };
                    break;
                }
            }
        }
        Ok(report)
    }

    /// Measures a row. An error holds the results so far, if there are any.
    fn row(&mut self, row: &Row, raw: RawTcp) -> Result<RowResult, BrokenRow> {
        let check = self.args.check.on_the_wire();
        let time = Duration::from_secs_f64(self.args.row_time());
        let step = LoadStep {
            test: match row.test {
                TestWord::Ping => Test::Ping,
                TestWord::Read => Test::Read { len: row.size, check },
                TestWord::Write => Test::Write { len: row.size, check },
            },
            concurrency: row.concurrency,
            limit: StepLimit::Time(Nanos(time.as_nanos() as u64)),
            warm_up: Nanos(warm_up(time).as_nanos() as u64),
        };
        let before = CpuMark::take(self.target);
        if let Err(error) = self.load.start_step(step) {
            // A client that has given up takes no further step; its reason is more useful.
            let gave_up = self.load.progress().ok().and_then(|report| report.error);
            let why = gave_up.map_or(error.to_string(), |error| self.explain(&error));
            return Err((None, why.into()));
        }
        let patience = Duration::from_secs_f64(self.args.patience);
        let waited = self.wait(time + warm_up(time) + patience + ROW_SLACK);
        let cpu = before.until(&CpuMark::take(self.target));
        match waited {
            Ok(report) => Ok(RowResult::new(row, &report.snapshot, cpu, raw, false)),
            Err(broken) => {
                let report = self.load.progress().ok();
                let measured = report.filter(|report| report.snapshot.elapsed > Nanos::ZERO);
                let partial =
                    measured.map(|report| RowResult::new(row, &report.snapshot, cpu, raw, true));
                Err((partial.map(Box::new), broken))
            }
        }
    }

    /// Waits for the end of a row. The client itself gives up a silent node; `limit` is for a node
    /// that answers but never ends the row.
    fn wait(&mut self, limit: Duration) -> Result<LoadReport, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            thread::sleep(LOOK);
            let report = self.load.progress().map_err(|error| error.to_string())?;
            if let Some(error) = report.error {
                return Err(self.explain(&error).into());
            }
            if report.step_finished {
                return Ok(report);
            }
            self.interrupt.check()?;
            if Instant::now() >= deadline {
                let nid = self.target.nid;
                return Err(format!("{nid}: the row did not end within {limit:.0?}").into());
            }
            self.progress.show(&report);
        }
    }

    /// Why the client gave up, and advice.
    fn explain(&self, error: &ClientError) -> String {
        let hint = match error {
            ClientError::Busy { .. } if self.args.force => {
                ", or wait until it expires. --force was refused: the node ends the session of \
                 another console only for consoles that its settings `selftest: full` or \
                 `selftest_consoles` allow"
            }
            ClientError::Busy { .. } => ", or end it from here with --force",
            ClientError::NoAnswer(_) if !self.target.is_ours() => {
                "; `lustrine ping` shows whether it can still be reached. If it can: a kernel node \
                 needs the module lnet_selftest"
            }
            _ => "",
        };
        format!("{}: {error}{hint}", self.target.nid)
    }

    /// The rate of the same number of connections without Lustrine, if it can be measured. It is
    /// measured right before the row, so that other programs affect both in the same way.
    fn raw_tcp(&mut self, row: &Row, connections: usize) -> RawTcp {
        let direction = match row.test {
            TestWord::Ping => return RawTcp::default(),
            TestWord::Read => Direction::Read,
            TestWord::Write => Direction::Write,
        };
        let Some(server) = self.target.raw_addr() else { return RawTcp::default() };
        self.progress.note("plain TCP");
        let mut rate =
            |waiting| match raw_tcp::measure(server, (direction, waiting), connections, RAW_TIME) {
                Ok(rate) => Some(rate),
                Err(error) => {
                    if !self.raw_failed {
                        self.progress.say(&format!("plain TCP is not measured: {error}"));
                    }
                    self.raw_failed = true;
                    None
                }
            };
        let sleeping = rate(Waiting::Sleeping);
        RawTcp { sleeping, polling: rate(Waiting::Polling) }
    }

    fn say_farewell(&self) {
        if self.load.finish().is_err() {
            return;
        }
        let deadline = Instant::now() + FAREWELL;
        while Instant::now() < deadline {
            match self.load.progress() {
                // The receiver is gone.
                Ok(LoadReport { error: Some(ClientError::NoAnswer(_)), .. }) => return,
                Ok(report) if !report.finished => thread::sleep(LOOK / 5),
                _ => return,
            }
        }
    }
}

/// CPU seconds so far: of this process, and of the target if it reports them.
struct CpuMark {
    client: f64,
    server: Option<f64>,
}

impl CpuMark {
    fn take(target: &Target) -> CpuMark {
        let client = Clock::ProcessCpu.now() as f64 / 1e9;
        CpuMark { client, server: target.cpu_seconds() }
    }

    fn until(&self, later: &CpuMark) -> (f64, Option<f64>) {
        let server = self.server.zip(later.server).map(|(before, after)| after - before);
        (later.client - self.client, server)
    }
}

/// One line on a terminal, rewritten; a plain line per row otherwise.
struct Progress {
    bar: ProgressBar,
    title: String,
}

impl Progress {
    fn new() -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Progress { bar, title: String::new() }
    }

    fn begin(&mut self, number: usize, of: usize, row: &Row) {
        self.title = format!("[{number}/{of}] {row}");
        if self.bar.is_hidden() {
            note(&self.title);
        }
        self.note("connecting");
    }

    fn note(&self, what: &str) {
        self.bar.set_message(format!("{}: {what}", self.title));
        self.bar.tick();
    }

    /// Prints a line that stays.
    fn say(&self, what: &str) {
        self.bar.suspend(|| print_error(what));
    }

    fn show(&self, report: &LoadReport) {
        let snapshot = &report.snapshot;
        let seconds = snapshot.elapsed.as_secs_f64();
        if !report.connected {
            self.note("waiting for the node");
        } else if seconds > 0.0 {
            let rate = snapshot.ops as f64 / seconds;
            let mib = snapshot.bytes as f64 / seconds / f64::from(1 << 20);
            let p99 = snapshot.latencies.quantile(0.99).0 as f64 / 1e3;
            let failed: u64 = snapshot.errors.iter().map(|(_, count)| count).sum();
            let mut text = format!("{rate:.0} ops/s  p99 {p99:.1} us");
            if snapshot.bytes > 0 {
                text = format!("{mib:.1} MiB/s  {text}");
            }
            if failed > 0 {
                text = format!("{text}  {failed} failed");
            }
            self.note(&text);
        }
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
