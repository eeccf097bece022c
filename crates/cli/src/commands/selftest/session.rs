//! Runs the rows of a selftest, one after the other, with live progress.

use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lustrine_control::{Answer, LoadFailure, LoadFailureKind, LoadOrder, LoadRow, Request};
use lustrine_plan::Provenance;
use lustrine_report::numbers::{latency_text, operations, rate, three_digits};
use lustrine_selftest::Test;
use lustrine_sys::Clock;

use super::report::{End, RawTcp, Report, RowResult, Side};
use super::target::Target;
use super::{Row, SelftestArgs, TestWord};
use crate::access::Link;
use crate::commands::raw_tcp::{self, Direction, Waiting};
use crate::interrupt::Interrupt;
use crate::output::{Failure, note, print_error};
use crate::provenance;
use crate::values::millis;

/// The interval of progress updates.
const LOOK: Duration = Duration::from_millis(50);
/// How long plain TCP is measured before each bulk row, in each way of waiting.
const RAW_TIME: Duration = Duration::from_millis(250);
/// How much longer than the sum of its parts a row may take.
const ROW_SLACK: Duration = Duration::from_secs(30);
/// The time-out for the end of the session, longer than the load takes for its removal.
const FAREWELL: Duration = Duration::from_secs(15);
/// The same after an interruption: its sender waits.
const FAREWELL_INTERRUPTED: Duration = Duration::from_secs(3);

/// Runs all rows, or those before an interruption.
pub(super) fn run(
    args: &SelftestArgs,
    target: &Target,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let link = match target.own_net() {
        Some(net) => {
            let mut config = args.node.node_config(print_error)?;
            config.nets = vec![net];
            config.accept = lustrine_config::AcceptPolicy::None;
            Link::own(&config)?
        }
        None => Link::open(&args.node, &args.choice, &target.nid, args.port)?,
    };
    let patience =
        args.patience.unwrap_or(if is_ipv6(target) && !target.is_ours() { 5.0 } else { 30.0 });
    reach(&link, target, patience, interrupt)?;
    let progress = Progress::new();
    if is_ipv6(target) && !target.is_ours() {
        let nid = target.nid;
        progress.say(&format!(
            "{nid}: a kernel node does not answer a selftest at an IPv6 NID, only Lustrine does; \
             for a kernel node, give its IPv4 NID"
        ));
    }
    let mut run = Run {
        args,
        target,
        patience,
        interrupt,
        link,
        progress,
        userland: None,
        raw_failed: false,
        had_session: false,
    };
    let outcome = run.start().and_then(|side| run.rows(side));
    run.progress.clear();
    // In any case, the node should not have to wait until its session expires.
    run.say_farewell();
    run.link.stop();
    outcome
}

/// The messages of the selftest hold IPv4 addresses. Lustrine's service answers to the address that
/// a request came from; that of a kernel node takes another peer from the message.
fn is_ipv6(target: &Target) -> bool {
    target.nid.ip().is_some_and(|ip| ip.is_ipv6())
}

/// Discovers the target. The load would do this too, but it retries for a long time, because a node
/// may come back; this call reports at once that a node was never there.
fn reach(
    link: &Link,
    target: &Target,
    patience: f64,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let request = Request::Discover { nid: target.nid, timeout_ms: millis(patience) };
    let requester = link.requester();
    let asking = thread::spawn(move || requester.ask(&request));
    while !asking.is_finished() {
        // If the run is interrupted here, the thread ends with this process.
        interrupt.check()?;
        thread::sleep(LOOK / 10);
    }
    match asking.join() {
        Ok(answer) => answer.map(|_| ()),
        Err(_) => Err("the local node did not answer".to_owned().into()),
    }
}

/// The results of a row that failed, and the reason.
type BrokenRow = (Option<Box<RowResult>>, Failure);

struct Run<'a> {
    args: &'a SelftestArgs,
    target: &'a Target,
    /// Seconds without any answer after which the run ends.
    patience: f64,
    interrupt: &'a Interrupt,
    link: Link,
    /// The NID of the node that sends the load, if it has the userland identity.
    userland: Option<String>,
    progress: Progress,
    /// Whether plain TCP could not be measured, which is reported once.
    raw_failed: bool,
    /// Whether the target has made a session.
    had_session: bool,
}

impl Run<'_> {
    /// Begins the load, and finds out which node sends it.
    fn start(&mut self) -> Result<Side, Failure> {
        let Answer::Net(info) = self.link.ask(&Request::ShowNet)? else { return Err(unexpected()) };
        let Answer::Tunables { values, .. } = self.link.ask(&Request::ShowTunables)? else {
            return Err(unexpected());
        };
        self.order(LoadOrder::Start {
            target: self.target.nid,
            name: "lustrine-selftest".to_owned(),
            force: self.args.force,
            patience_ms: millis(self.patience),
        })?;
        let node = self.link.used().clone();
        let ours = info.on(self.target.nid.net()).next().or(info.nets.first());
        if info.identity == "userland" {
            self.userland = ours.map(|net| net.nid.to_string());
        }
        Ok(Side { node, info, tunables: values })
    }

    /// Gives an order about the load.
    fn order(&mut self, order: LoadOrder) -> Result<LoadRow, Failure> {
        match self.link.ask(&Request::Load { order })? {
            Answer::Load { load } => Ok(load),
            _ => Err(unexpected()),
        }
    }

    fn rows(&mut self, side: Side) -> Result<Report, Failure> {
        let rows = self.args.rows();
        let connections = match side.info.identity.as_str() {
            // All data use one connection.
            "userland" => 1,
            _ => side.net(&self.target.nid).map_or(1, |net| usize::from(net.conns_per_peer)),
        };
        let mut report = Report::new(self.args, side, self.target, connections);
        let nodes = [provenance::of_link(&mut self.link), self.target.settings()];
        let nodes = nodes.into_iter().flatten().collect();
        report.provenance = Some(Provenance { machine: provenance::machine(), nodes });
        if self.target.raw_addr().is_none() && rows.iter().any(|row| row.test != TestWord::Ping) {
            self.progress
                .say("plain TCP is not measured: only a node started for the run offers it");
        }
        for (index, row) in rows.iter().enumerate() {
            self.progress.begin(index + 1, rows.len(), row);
            let raw = self.raw_tcp(row, connections);
            match self.row(row, raw) {
                Ok(result) => {
                    self.progress.finished(&result);
                    report.results.push(result);
                }
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
        let (time, warm_up) = (self.args.row_time(), self.args.row_warm_up());
        let step = LoadOrder::Step {
            test: match row.test {
                TestWord::Ping => Test::Ping,
                TestWord::Read => Test::Read { len: row.size, check },
                TestWord::Write => Test::Write { len: row.size, check },
            },
            concurrency: row.concurrency,
            time_ns: time.as_nanos() as u64,
            warm_up_ns: warm_up.as_nanos() as u64,
        };
        let before = self.cpu_mark();
        if let Err(error) = self.order(step) {
            // A client that has given up takes no further step; its reason is more useful.
            let gave_up = self.order(LoadOrder::Progress).ok().and_then(|load| load.failure);
            return Err((None, gave_up.map_or(error, |why| self.explain(&why).into())));
        }
        let patience = Duration::from_secs_f64(self.patience);
        let waited = self.wait(time + warm_up + patience + ROW_SLACK);
        let cpu = before.until(&self.cpu_mark());
        match waited {
            Ok(load) => Ok(RowResult::new(row, &load, cpu, raw, false)),
            Err(broken) => {
                let load = self.order(LoadOrder::Progress).ok();
                let measured = load.filter(|load| load.elapsed_ns > 0);
                let partial = measured.map(|load| RowResult::new(row, &load, cpu, raw, true));
                Err((partial.map(Box::new), broken))
            }
        }
    }

    /// Waits for the end of a row. The client itself gives up a silent node; `limit` is for a node
    /// that answers but never ends the row.
    fn wait(&mut self, limit: Duration) -> Result<LoadRow, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            thread::sleep(LOOK);
            let load = self.order(LoadOrder::Progress)?;
            self.had_session |= load.connected;
            if let Some(failure) = &load.failure {
                return Err(self.explain(failure).into());
            }
            if load.step_finished {
                return Ok(load);
            }
            self.interrupt.check()?;
            if Instant::now() >= deadline {
                let nid = self.target.nid;
                return Err(format!("{nid}: the row did not end within {limit:.0?}").into());
            }
            self.progress.show(&load);
        }
    }

    /// Why the client gave up, and advice.
    fn explain(&self, failure: &LoadFailure) -> String {
        let hint = match failure.kind {
            LoadFailureKind::Busy if self.args.force => {
                ", or wait until it expires. --force was refused: the node ends the session of \
                 another console only for the consoles that its setting `selftest_consoles` lists"
                    .to_owned()
            }
            LoadFailureKind::Busy => ", or end it from here with --force".to_owned(),
            LoadFailureKind::NoAnswer => self.why_silent(),
            LoadFailureKind::Other => String::new(),
        };
        format!("{}: {}{hint}", self.target.nid, failure.message)
    }

    /// Reasons why a node does not answer the selftest.
    fn why_silent(&self) -> String {
        if self.target.is_ours() {
            return String::new();
        }
        if self.had_session {
            let nid = self.target.nid;
            return format!(
                "; `lustrine ping {nid}` shows whether it can still be reached. If it can, large \
                 packets may disappear on the way: `lustrine doctor --to {nid}` looks for that"
            );
        }
        if is_ipv6(self.target) {
            return "; a kernel node does not answer a selftest at an IPv6 NID: give its IPv4 NID"
                .to_owned();
        }
        let mut hint = "; `lustrine ping` shows whether it can still be reached. If it can: a \
                        kernel node needs the module lnet_selftest"
            .to_owned();
        if let Some(ours) = &self.userland {
            // A kernel node remembers a NID whose discovery failed, and answers none of its RPCs.
            hint += &format!(
                ", and it answers no RPC of {ours} if it tried to discover this NID before and \
                 failed. Then run `lustrine discover {}` here with node identity, or `lnetctl peer \
                 del --prim_nid {ours}` there",
                self.target.nid
            );
        }
        hint
    }

    fn cpu_mark(&mut self) -> CpuMark {
        let client = match self.link.ask(&Request::ShowStats) {
            Ok(Answer::Stats { stats }) => stats.cpu_s.0,
            _ => Clock::ProcessCpu.now() as f64 / 1e9,
        };
        CpuMark { client, server: self.target.cpu_seconds() }
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

    /// Ends the session, and waits for that. What ended the load before was reported already.
    fn say_farewell(&mut self) {
        let before = self.order(LoadOrder::Progress).map(|load| load.failure.is_some());
        if self.order(LoadOrder::Finish).is_err() {
            return;
        }
        let begun = Instant::now();
        let mut limit = FAREWELL;
        while begun.elapsed() < limit {
            let Ok(load) = self.order(LoadOrder::Progress) else { return };
            match load.failure {
                Some(failure) if matches!(before, Ok(false)) => {
                    return self.progress.say(&format!("{}: {}", self.target.nid, failure.message));
                }
                Some(failure) if failure.kind == LoadFailureKind::NoAnswer => return,
                _ if load.finished => return,
                _ => {}
            }
            if self.interrupt.check().is_err() {
                limit = FAREWELL_INTERRUPTED;
            }
            thread::sleep(LOOK / 5);
        }
        let nid = self.target.nid;
        self.progress.say(&format!("{nid}: the session is still there, and ends when it expires"));
    }
}

fn unexpected() -> Failure {
    "unexpected reply from the node; the versions may differ".to_owned().into()
}

/// CPU seconds so far: of the process of this side's node, and of the target if it reports them.
struct CpuMark {
    client: f64,
    server: Option<f64>,
}

impl CpuMark {
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

    /// Prints the result of a row, which stays above the line.
    fn finished(&self, row: &RowResult) {
        let mib = (row.size > 0).then_some(row.mib_per_s);
        let p99 = (row.ops > 0).then_some(row.latency_us.p99);
        let mut text = figures(mib, row.ops_per_s, p99);
        if let Some(bytes) = row.window_bytes {
            let mib = three_digits(bytes as f64 / f64::from(1 << 20));
            text += &format!("  window {mib} MiB (may be in flight)");
        }
        if row.errors > 0 {
            text = format!("{text}  {} failed", row.errors);
        }
        let title = if self.bar.is_hidden() { " " } else { self.title.as_str() };
        self.bar.suspend(|| note(&format!("{title} {text}")));
    }

    fn note(&self, what: &str) {
        self.bar.set_message(format!("{}: {what}", self.title));
        self.bar.tick();
    }

    /// Prints a line that stays.
    fn say(&self, what: &str) {
        self.bar.suspend(|| print_error(what));
    }

    fn show(&self, load: &LoadRow) {
        let seconds = load.elapsed_ns as f64 / 1e9;
        if !load.connected {
            self.note("waiting for the node");
        } else if seconds > 0.0 {
            let rate = load.ops as f64 / seconds;
            let mib = load.bytes as f64 / seconds / f64::from(1 << 20);
            let p99 = (load.ops > 0).then_some(load.latency.p99_ns as f64 / 1e3);
            let failed: u64 = load.errors.iter().map(|(_, count)| count).sum();
            let mut text = figures((load.bytes > 0).then_some(mib), rate, p99);
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

/// Rates and a latency, as the table has them.
fn figures(mib_per_s: Option<f64>, ops_per_s: f64, p99_us: Option<f64>) -> String {
    let mib = mib_per_s.map_or_else(String::new, |mib| format!("{} MiB/s  ", rate(mib)));
    let p99 = p99_us.map_or_else(|| "-".to_owned(), latency_text);
    format!("{mib}{} ops/s  p99 {p99}", operations(ops_per_s))
}
