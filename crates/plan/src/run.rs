//! Runs a plan: a session for each point, its tests, and statistics before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::console::{Answer, Command, Detail, NodeReply, NodeState, Reply, Target};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{Counters, FEATURES_KNOWN};

pub use crate::measure::PlanProgress;
use crate::measure::{Mark, Silent, live, result};
use crate::model::Plan;
use crate::points::{BATCH, Flow, Point, from, new_test, to};
use crate::results::{End, OpCounts, PointResult, Row, named};

/// The session does not end for lack of commands, because warm-ups may be of any length. If this
/// process is killed, nodes use their own `session_timeout`.
const SESSION_TIMEOUT: u32 = 0;

/// How much longer than planned the tests warm up while a client has had no success, and the
/// interval at which this is looked at.
const WARM_UP_EXTRA: Nanos = Nanos::from_secs(10);
const WARM_LOOK: Nanos = Nanos::from_millis(100);

/// The interval at which results are shown while a point is measured.
const LOOK: Nanos = Nanos::from_secs(1);

/// Seconds that an answer is waited for.
///
/// A node that is silent for this long is down, and is not queried again while a point is measured.
const ANSWER: u32 = 6;

/// The interval of queries whether all units have ended. A unit in an RPC that is never answered
/// ends with the RPC's time-out, 64 s on most nodes.
const IDLE_LOOKS: u32 = 400;

/// After this number of queries the stop is sent again.
const IDLE_LOOKS_AGAIN: u32 = 25;

/// The time between two such queries.
const IDLE_PAUSE: Nanos = Nanos::from_millis(200);

/// Largest number of nodes named in an error.
const NAMED_MAX: usize = 3;

const GROUP: &str = "all";

/// The environment in which a plan runs.
pub trait Env {
    /// Passes a command to the console, and waits for the answer.
    ///
    /// # Errors
    /// When the console refuses, or has ended.
    fn command(&mut self, command: Command) -> Result<Answer, RunError>;

    /// The time, from an arbitrary start.
    fn now(&mut self) -> Time;

    /// Lets time pass.
    ///
    /// # Errors
    /// [`RunError::Interrupted`] when the user interrupts the run.
    fn sleep(&mut self, time: Nanos) -> Result<(), RunError>;

    /// Lets time pass also after the user has interrupted the run: tests have to be stopped then.
    ///
    /// # Errors
    /// [`RunError::Interrupted`] when the user has interrupted it twice.
    fn settle(&mut self, time: Nanos) -> Result<(), RunError>;

    /// Whether existing sessions of other consoles are ended.
    fn take_over(&self) -> bool;

    /// A point begins.
    fn on_point(&mut self, number: usize, of: usize, title: &str);

    /// A part of a point begins.
    fn on_stage(&mut self, stage: Stage);

    /// A point was measured: each test with its name, and what all its clients did, or `None` if
    /// no client reports it.
    fn on_result(&mut self, rows: &[(String, Option<OpCounts>)]);

    /// The live view of the present moment.
    fn on_progress(&mut self, live: &PlanProgress);

    /// A warning.
    fn warn(&mut self, text: &str);
}

/// The parts of a point, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The session is made, with all nodes.
    Session,
    /// The tests run, and are not measured yet.
    WarmUp,
    /// The tests are measured.
    Measuring,
    /// The tests are stopped, and the session is ended.
    Stopping,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Session => "making the session",
            Stage::WarmUp => "warming up",
            Stage::Measuring => "measuring",
            Stage::Stopping => "stopping the tests",
        })
    }
}

/// Why a plan does not continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// An error; a message for people.
    #[error("{0}")]
    Failed(String),
}

/// An unexpected answer of a console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the console answered another command")]
pub struct UnexpectedAnswer;

impl From<UnexpectedAnswer> for RunError {
    fn from(bug: UnexpectedAnswer) -> RunError {
        RunError::Failed(bug.to_string())
    }
}

/// Runs all points in order.
pub fn run(plan: &Plan, points: &[Point], env: &mut impl Env) -> (Vec<PointResult>, End) {
    let mut results = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let repeats = plan.steps.get(point.step).map_or(1, |step| step.repeat);
        env.on_point(index + 1, points.len(), &point.title(repeats));
        let mut how = SessionEnd::default();
        let measured = measure(plan, point, env, &mut how);
        // In any case, the nodes should not have to wait until their session expires.
        end(env, how);
        match measured {
            Ok((result, interrupted)) => {
                let rows = point.lines.iter().zip(&result.rows);
                let known = |row: &Row| (!row.by_client.is_empty()).then(|| row.all.clone());
                let rows: Vec<(String, Option<OpCounts>)> =
                    rows.map(|(line, row)| (line.title(), known(row))).collect();
                env.on_result(&rows);
                results.push(result);
                if interrupted {
                    return (results, End::Interrupted { interrupted: true });
                }
            }
            Err(RunError::Interrupted) => return (results, End::Interrupted { interrupted: true }),
            Err(RunError::Failed(error)) => return (results, End::Failed { error }),
        }
    }
    (results, End::Complete)
}

/// How a session ends.
#[derive(Clone, Copy, Debug, Default)]
struct SessionEnd {
    /// Without waiting for tests that run.
    at_once: bool,
    /// Whether clients are kernel nodes.
    has_kernel_clients: bool,
}

/// Measures a point, and says how its session is to end. Who interrupts the run need not wait for
/// the tests of Lustrine nodes: a client can take a minute to give up a server that is gone.
fn measure(
    plan: &Plan,
    point: &Point,
    env: &mut impl Env,
    how: &mut SessionEnd,
) -> Result<(PointResult, bool), RunError> {
    env.on_stage(Stage::Session);
    let silent = gather(plan, point, env)?;
    for (index, flow) in point.flows.iter().enumerate() {
        add(index, flow, env)?;
    }
    let outcome = start(env).and_then(|()| watch(point, &silent, env));
    env.on_stage(Stage::Stopping);
    let is_interrupted = matches!(outcome, Ok((_, _, true)) | Err(RunError::Interrupted));
    how.has_kernel_clients = silent.has_clients();
    how.at_once = is_interrupted && !how.has_kernel_clients;
    // Also if they failed to start on some nodes: others may have started.
    let stopped = stop(env, how.at_once);
    // They were waited for: to do it once more would be no use.
    how.at_once |= matches!(stopped, Err(RunError::Failed(_)));
    let (before, mut after, interrupted) = outcome?;
    // Operations that were in flight at the end have ended since then; they count with their
    // latencies. Where a client cannot say this any more, its last answer stands.
    if let Ok(last) = mark(point, env) {
        after.add_late(last);
    }
    match stopped {
        // The results are valid all the same; the next point will report the error.
        Err(RunError::Failed(why)) => env.warn(&why),
        Err(RunError::Interrupted) | Ok(()) => {}
    }
    Ok((result(point, &silent, &before, &after), interrupted))
}

/// Makes the session, with all nodes and groups; returns the nodes that report no client
/// statistics.
fn gather(plan: &Plan, point: &Point, env: &mut impl Env) -> Result<Silent, RunError> {
    let (name, force) = (plan.name.clone(), env.take_over());
    let (timeout, features) = (SESSION_TIMEOUT, FEATURES_KNOWN);
    ask(env, Command::NewSession { name, timeout, force, features })?;
    let nodes = point.nodes();
    group(GROUP, &nodes, env)?;
    let target = Target::Session;
    all_good(ask(env, Command::Ping { target, timeout: ANSWER })?, "asked")?;
    let Answer::Nodes(views) = ask(env, Command::ShowGroup { group: GROUP.to_owned() })? else {
        return Err(UnexpectedAnswer.into());
    };
    for (index, flow) in point.flows.iter().enumerate() {
        group(&from(index), &flow.clients, env)?;
        group(&to(index), &flow.servers, env)?;
    }
    ask(env, Command::AddBatch { batch: BATCH.to_owned() })?;
    let clients = |nid: &Nid| point.flows.iter().filter(|f| f.clients.contains(nid)).count();
    let silent = views.iter().filter(|view| !view.ours);
    Ok(silent.map(|view| (view.nid, clients(&view.nid))).collect())
}

/// Passes a command to the console, unless the user has interrupted the run.
fn ask(env: &mut impl Env, command: Command) -> Result<Answer, RunError> {
    env.sleep(Nanos::ZERO)?;
    env.command(command)
}

fn group(name: &str, nids: &[Nid], env: &mut impl Env) -> Result<(), RunError> {
    let group = name.to_owned();
    ask(env, Command::AddGroup { group: group.clone() })?;
    let answer = ask(env, Command::AddNodes { group, nids: nids.to_vec() })?;
    all_good(answer, "added to the session")
}

fn add(index: usize, flow: &Flow, env: &mut impl Env) -> Result<(), RunError> {
    let test = new_test(index, flow);
    all_good(ask(env, Command::AddTest(test))?, "set up for the test")
}

/// Starts the tests.
fn start(env: &mut impl Env) -> Result<(), RunError> {
    let run = Command::Run { batch: BATCH.to_owned(), timeout: 0 };
    all_good(ask(env, run)?, "started")
}

/// Warms up, then collects statistics, shows progress, and collects statistics again. Returns them,
/// and whether the run was interrupted before the end of the time.
fn watch(
    point: &Point,
    silent: &Silent,
    env: &mut impl Env,
) -> Result<(Mark, Mark, bool), RunError> {
    env.on_stage(Stage::WarmUp);
    env.sleep(point.warm_up)?;
    // A kernel may have replaced a node in the meantime; Lustrine nodes identify themselves again.
    let target = Target::Session;
    said(ask(env, Command::Ping { target, timeout: ANSWER })?)?;
    let mut before = warm(point, env)?;
    before.counters = counters(env)?;
    env.on_stage(Stage::Measuring);
    let (begin, mut last) = (env.now(), before.clone());
    let mut pause = LOOK;
    let interrupted = loop {
        let left = point.time.0.saturating_sub(env.now().since(begin).0);
        // The results until an interruption are kept.
        let interrupted = env.sleep(pause.min(Nanos(left))).is_err();
        if interrupted || left <= pause.0 {
            break interrupted;
        }
        let asked = env.now();
        let now = mark(point, env)?;
        env.on_progress(&live(point, silent, (&last, &now), asked.since(begin)));
        warn_of(last.clients_missing_in(&now), env);
        last = now;
        // Progress queries must not keep the nodes busy, and some nodes may answer late, or never.
        pause = LOOK.max(Nanos(4 * env.now().since(asked).0));
    };
    let mut after = mark(point, env)?;
    warn_of(last.clients_missing_in(&after), env);
    if !silent.has_clients() {
        // A server that does not answer would make the row longer: clients of ours count until
        // they are stopped. Others do not, so that their counters come first.
        request_stop(env, false)?;
    }
    after.counters = counters(env)?;
    // Clients that report no statistics are not asked before.
    let gone = before.counters.keys().filter(|nid| !after.counters.contains_key(nid)).copied();
    warn_of(gone.filter(|nid| silent.is_client(nid)).collect(), env);
    Ok((before, after, interrupted))
}

/// Warns of clients that have answered before.
fn warn_of(gone: BTreeSet<Nid>, env: &mut impl Env) {
    let gone: Vec<Nid> = gone.into_iter().collect();
    if let Some(others) = gone.len().checked_sub(1) {
        let verb = if others == 0 { "does" } else { "do" };
        env.warn(&format!("{} {verb} not answer any more", named(&gone)));
    }
}

/// The statistics of clients at the end of the warm-up, which lasts until each of them has had an
/// operation succeed, or for some time longer than planned: the first one opens connections.
fn warm(point: &Point, env: &mut impl Env) -> Result<Mark, RunError> {
    let begin = env.now();
    loop {
        let asked = env.now();
        let mark = mark(point, env)?;
        let now = env.now();
        if !mark.has_cold_clients() || now.since(begin) >= WARM_UP_EXTRA {
            return Ok(mark);
        }
        // As while it is measured, queries must not keep the nodes busy.
        env.sleep(WARM_LOOK.max(Nanos(4 * now.since(asked).0)))?;
    }
}

/// Queries all clients that report statistics.
fn mark(point: &Point, env: &mut impl Env) -> Result<Mark, RunError> {
    let mut mark = Mark::default();
    for flow in 0..point.flows.len() {
        let (batch, test) = (BATCH.to_owned(), flow as u32 + 1);
        for said in said(env.command(Command::ClientStats { batch, test, timeout: ANSWER })?)? {
            if let Reply::Good(Detail::ClientStats(stats)) = said.reply {
                mark.stats.insert((flow, said.nid), *stats);
            }
        }
    }
    Ok(mark)
}

/// The counters of all nodes.
fn counters(env: &mut impl Env) -> Result<BTreeMap<Nid, Counters>, RunError> {
    let mut all = BTreeMap::new();
    let target = Target::Session;
    for said in said(env.command(Command::Stat { target, timeout: ANSWER })?)? {
        if let Reply::Good(Detail::Counters(counters)) = said.reply {
            all.insert(said.nid, *counters);
        }
    }
    Ok(all)
}

/// Sends the stop of all tests; `force` gives up RPCs in flight.
fn request_stop(env: &mut impl Env, force: bool) -> Result<(), RunError> {
    let stop = Command::Stop { batch: BATCH.to_owned(), force };
    said(env.command(stop)?).map(|_| ())
}

/// Stops the tests, and waits until all units have ended, unless all is to end at once: the
/// selftest of a kernel node can hang if its session ends before. Only a second interruption ends
/// the waiting.
fn stop(env: &mut impl Env, at_once: bool) -> Result<(), RunError> {
    for look in 0..IDLE_LOOKS {
        // The stop is repeated if it was lost, and finally sent with `force`.
        let force = look >= IDLE_LOOKS / 2;
        if look % IDLE_LOOKS_AGAIN == 0 {
            if force {
                env.warn("some RPCs do not end; they are given up");
            }
            request_stop(env, force)?;
        }
        let query = Command::Query { batch: BATCH.to_owned(), test: 0, timeout: ANSWER };
        let busy = |said: &&NodeReply| matches!(said.reply, Reply::Good(Detail::Active(1..)));
        if said(env.command(query)?)?.iter().filter(busy).count() == 0 || at_once {
            return Ok(());
        }
        env.settle(IDLE_PAUSE)?;
    }
    Err(RunError::Failed("tests do not end; try `lst end_session` and check the nodes".to_owned()))
}

/// Ends the session. A missing session, or nodes that do not answer, are no error of the results;
/// the nodes leave the session at their own time-out, or when this console takes them into the next
/// one. The console waits for tests that still run, unless all is to end at once, or the user has
/// interrupted the run twice.
fn end(env: &mut impl Env, how: SessionEnd) {
    let command = match env.settle(Nanos::ZERO) {
        Ok(()) if !how.at_once => Command::EndSession,
        Ok(()) | Err(_) => Command::EndSessionAtOnce,
    };
    let Ok(Answer::Replies(said)) = env.command(command) else { return };
    let bad: Vec<&NodeReply> = said.iter().filter(|said| !said.is_good()).collect();
    if let Some(first) = bad.first() {
        let (count, of, first) = (bad.len(), said.len(), why(first));
        let text = format!("{count} of {of} nodes did not leave the session; {first}");
        env.warn(&text);
    }
    let ran = |said: &&NodeReply| matches!(said.reply, Reply::Good(Detail::Active(1..)));
    let ran: Vec<Nid> = said.iter().filter(ran).map(|said| said.nid).collect();
    if !ran.is_empty() && how.has_kernel_clients {
        env.warn(&format!(
            "nodes left the session while their tests were running: {}; the selftest of a kernel \
             node among them may hang until that node is rebooted",
            named(&ran)
        ));
    }
}

fn said(answer: Answer) -> Result<Vec<NodeReply>, RunError> {
    match answer {
        Answer::Replies(said) => Ok(said),
        _ => Err(UnexpectedAnswer.into()),
    }
}

/// Refuses unless all nodes carried out the request, and are in the session.
fn all_good(answer: Answer, what: &str) -> Result<(), RunError> {
    let said = said(answer)?;
    let bad: Vec<&NodeReply> =
        said.iter().filter(|said| !said.is_good() || said.state == NodeState::Busy).collect();
    if bad.is_empty() {
        return Ok(());
    }
    let mut named: Vec<String> = bad.iter().take(NAMED_MAX).map(|said| why(said)).collect();
    if bad.len() > NAMED_MAX {
        named.push(format!("and {} more", bad.len() - NAMED_MAX));
    }
    let of = said.len();
    let text = format!("{} of {of} nodes could not be {what}: {}", bad.len(), named.join("; "));
    Err(RunError::Failed(text))
}

/// How a session of another console ends.
const FORCE: &str = "--force takes the node over; a Lustrine node permits that only if its \
                     `selftest_consoles` lists this console";

fn why(said: &NodeReply) -> String {
    let nid = said.nid;
    match (&said.reply, &said.holder) {
        (_, Some(holder)) => {
            format!("{nid} is in session {} of {}; {FORCE}", holder.name, holder.console)
        }
        (Reply::None { why, .. }, _) => format!("{nid}: {why}"),
        (Reply::Refused(lustrine_selftest::errno::EPERM), _) => format!(
            "{nid} does not accept load requests from this console. On that node set `selftest: \
             full`, or add this console's NID to `selftest_consoles`"
        ),
        (Reply::Refused(errno), _) => match lustrine_selftest::errno::name(*errno) {
            Some(name) => format!("{nid} refused with {name}"),
            None => format!("{nid} refused with errno {errno}"),
        },
        (Reply::Good(_), None) => format!("{nid} is in another session; {FORCE}"),
    }
}
