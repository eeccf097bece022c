//! The course of a plan: a session for each point, its tests, and figures before and after.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::console::{
    Answer, Command, Detail, NewTest, NodeReply, NodeState, Reply, Target,
};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{Counters, FEATURES_KNOWN};

use crate::measure::{Mark, Silent, live, result};
use crate::model::Plan;
use crate::points::{Flow, Point};
use crate::results::{End, PointResult};
use crate::table::named;

/// The session does not end for want of commands: warm-ups are as long as anybody likes. Should
/// this process be killed, nodes go by their own `session_timeout`.
const SESSION_TIMEOUT: u32 = 0;

/// How often figures are shown while a point is measured.
const LOOK: Nanos = Nanos::from_secs(1);

/// Seconds that an answer is waited for.
///
/// Who is silent for so long is down, and not asked again while a point is measured.
const ANSWER: u32 = 6;

/// How often it is asked whether all units have ended. One that is in an RPC which is never
/// answered ends with the RPC's time-out, 64 s on most nodes.
const IDLE_LOOKS: u32 = 400;

/// After so many it is said again that they are to stop.
const IDLE_LOOKS_AGAIN: u32 = 25;

/// How long between two such questions.
const IDLE_PAUSE: Nanos = Nanos::from_millis(200);

/// Nodes named in an error.
const NAMED_MAX: usize = 3;

const GROUP: &str = "all";
const BATCH: &str = "plan";

/// What running a plan needs of the world.
pub trait Env {
    /// Gives the console a command, and waits for the answer.
    ///
    /// # Errors
    /// When the console refuses, or is gone.
    fn command(&mut self, command: Command) -> Result<Answer, RunError>;

    /// The time, from any beginning.
    fn now(&mut self) -> Time;

    /// Lets time pass.
    ///
    /// # Errors
    /// [`RunError::Interrupted`] when somebody wants an end.
    fn sleep(&mut self, time: Nanos) -> Result<(), RunError>;

    /// Whether sessions of others are ended where nodes are in one.
    fn take_over(&self) -> bool;

    /// A point begins.
    fn on_point(&mut self, number: usize, of: usize, title: &str);

    /// What can be seen now.
    fn on_progress(&mut self, live: &Progress);

    /// Something worth knowing that is no error.
    fn warn(&mut self, text: &str);
}

/// Why a plan does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Somebody wanted it.
    #[error("interrupted")]
    Interrupted,
    /// Something went wrong; for people.
    #[error("{0}")]
    Failed(String),
}

/// What has not been expected of a console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the console answered another question")]
pub struct UnexpectedAnswer;

impl From<UnexpectedAnswer> for RunError {
    fn from(bug: UnexpectedAnswer) -> RunError {
        RunError::Failed(bug.to_string())
    }
}

/// A point while it is measured: figures of the last moment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// How long it has been measured.
    pub elapsed: Nanos,
    /// How long it will be.
    pub of: Nanos,
    /// Each test: its name, and what all its clients do.
    pub rows: Vec<(String, crate::results::OpCounts)>,
    /// Each client of each test.
    pub clients: Vec<(Nid, crate::results::OpCounts)>,
}

/// Runs all points in order.
pub fn run(plan: &Plan, points: &[Point], env: &mut impl Env) -> (Vec<PointResult>, End) {
    let mut results = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let repeats = plan.steps.get(point.step).map_or(1, |step| step.repeat);
        env.on_point(index + 1, points.len(), &point.title(repeats));
        let measured = measure(plan, point, env);
        // Good or bad, nodes shall not wait for their session to expire.
        end(env);
        match measured {
            Ok((result, interrupted)) => {
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

fn measure(
    plan: &Plan,
    point: &Point,
    env: &mut impl Env,
) -> Result<(PointResult, bool), RunError> {
    let silent = gather(plan, point, env)?;
    for (index, flow) in point.flows.iter().enumerate() {
        add(index, flow, env)?;
    }
    let run = Command::Run { batch: BATCH.to_owned(), timeout: 0 };
    all_good(ask(env, run)?, "started")?;
    let outcome = watch(point, &silent, env);
    let stopped = stop(env);
    let (before, mut after, interrupted) = outcome?;
    // Operations that began in the measured time have ended since then; they count with their
    // latencies. Where a client cannot say this any more, its last answer stands.
    if let Ok(last) = mark(point, env, Depth::ClientStats) {
        after.add_late(last);
    }
    match stopped {
        // What was measured is good all the same; the next point will say what is wrong.
        Err(RunError::Failed(why)) => env.warn(&why),
        Err(RunError::Interrupted) | Ok(()) => {}
    }
    Ok((result(point, &silent, &before, &after), interrupted))
}

/// Makes the session, with all nodes and groups; the answer is which nodes tell no figures.
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

/// Gives the console a command, unless somebody wants an end.
fn ask(env: &mut impl Env, command: Command) -> Result<Answer, RunError> {
    env.sleep(Nanos::ZERO)?;
    env.command(command)
}

fn from(flow: usize) -> String {
    format!("from{flow}")
}

fn to(flow: usize) -> String {
    format!("to{flow}")
}

fn group(name: &str, nids: &[Nid], env: &mut impl Env) -> Result<(), RunError> {
    let group = name.to_owned();
    ask(env, Command::AddGroup { group: group.clone() })?;
    let answer = ask(env, Command::AddNodes { group, nids: nids.to_vec() })?;
    all_good(answer, "taken into the session")
}

fn add(index: usize, flow: &Flow, env: &mut impl Env) -> Result<(), RunError> {
    let test = new_test(index, flow);
    all_good(ask(env, Command::AddTest(test))?, "given the test")
}

/// What the console is told of a flow.
pub(crate) fn new_test(index: usize, flow: &Flow) -> NewTest {
    NewTest {
        batch: BATCH.to_owned(),
        from: from(index),
        to: to(index),
        test: flow.test,
        offset: flow.offset,
        loops: -1,
        concurrency: flow.concurrency,
        spread: flow.spread,
        stop_on_error: false,
        rate: flow.rate,
    }
}

/// Warms up, then takes figures, looks on, and takes figures again; and whether that was before its
/// time was over, for somebody wants an end.
fn watch(
    point: &Point,
    silent: &Silent,
    env: &mut impl Env,
) -> Result<(Mark, Mark, bool), RunError> {
    env.sleep(point.warm_up)?;
    // A node may have been replaced by a kernel meanwhile; ours say again that they are.
    let target = Target::Session;
    said(ask(env, Command::Ping { target, timeout: ANSWER })?)?;
    let before = mark(point, env, Depth::All)?;
    let (begin, mut last) = (env.now(), before.clone());
    let mut pause = LOOK;
    let interrupted = loop {
        let left = point.time.0.saturating_sub(env.now().since(begin).0);
        // What was measured until somebody wants an end is worth having.
        let interrupted = env.sleep(pause.min(Nanos(left))).is_err();
        if interrupted || left <= pause.0 {
            break interrupted;
        }
        let asked = env.now();
        let now = mark(point, env, Depth::ClientStats)?;
        env.on_progress(&live(point, silent, (&last, &now), asked.since(begin)));
        let gone: BTreeSet<Nid> =
            last.figures.keys().filter(|key| !now.figures.contains_key(key)).map(|k| k.1).collect();
        if !gone.is_empty() {
            let gone: Vec<Nid> = gone.into_iter().collect();
            env.warn(&format!("{} does not answer any more", named(&gone)));
        }
        last = now;
        // Looking on is not what nodes are to be busy with; and some may answer late, or never.
        pause = LOOK.max(Nanos(4 * env.now().since(asked).0));
    };
    let mut after = mark(point, env, Depth::ClientStats)?;
    if !silent.has_clients() {
        // A server that does not answer would make the row longer: clients of ours count until
        // they are stopped. Others do not, so that their counters come first.
        request_stop(env, false)?;
    }
    after.counters = counters(env)?;
    Ok((before, after, interrupted))
}

/// What is asked of nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    ClientStats,
    All,
}

/// Asks all nodes.
fn mark(point: &Point, env: &mut impl Env, depth: Depth) -> Result<Mark, RunError> {
    let mut mark = Mark::default();
    for flow in 0..point.flows.len() {
        let (batch, test) = (BATCH.to_owned(), flow as u32 + 1);
        for said in said(env.command(Command::ClientStats { batch, test, timeout: ANSWER })?)? {
            if let Reply::Good(Detail::ClientStats(told)) = said.reply {
                mark.figures.insert((flow, said.nid), *told);
            }
        }
    }
    if depth == Depth::All {
        mark.counters = counters(env)?;
    }
    Ok(mark)
}

/// What all nodes have counted.
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

/// Orders the tests to stop; `force` gives up RPCs under way.
fn request_stop(env: &mut impl Env, force: bool) -> Result<(), RunError> {
    let stop = Command::Stop { batch: BATCH.to_owned(), force };
    said(env.command(stop)?).map(|_| ())
}

/// Stops the tests, and waits until all units have ended.
fn stop(env: &mut impl Env) -> Result<(), RunError> {
    for look in 0..IDLE_LOOKS {
        // NodeReply again where it was not heard, and in the end without regard to RPCs under way.
        let force = look >= IDLE_LOOKS / 2;
        if look % IDLE_LOOKS_AGAIN == 0 {
            if force {
                env.warn("some RPCs do not end by themselves; they are given up");
            }
            request_stop(env, force)?;
        }
        let query = Command::Query { batch: BATCH.to_owned(), test: 0, timeout: ANSWER };
        let busy = |said: &&NodeReply| matches!(said.reply, Reply::Good(Detail::Active(1..)));
        if said(env.command(query)?)?.iter().filter(busy).count() == 0 {
            return Ok(());
        }
        env.sleep(IDLE_PAUSE)?;
    }
    Err(RunError::Failed("tests do not end; `lst end_session` and a look at the nodes".to_owned()))
}

/// Ends the session. That there is none any more, or that nodes do not answer, is no error of what
/// was measured; they leave it by their own time-out.
fn end(env: &mut impl Env) {
    let Ok(Answer::Replies(said)) = env.command(Command::EndSession) else { return };
    let bad: Vec<&NodeReply> = said.iter().filter(|said| !said.is_good()).collect();
    if let Some(first) = bad.first() {
        let (count, of, first) = (bad.len(), said.len(), why(first));
        let text = format!("{count} of {of} nodes did not leave the session; {first}");
        env.warn(&text);
    }
}

fn said(answer: Answer) -> Result<Vec<NodeReply>, RunError> {
    match answer {
        Answer::Replies(said) => Ok(said),
        _ => Err(UnexpectedAnswer.into()),
    }
}

/// Refuses unless all nodes did what they were asked for, and are in the session.
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

fn why(said: &NodeReply) -> String {
    let nid = said.nid;
    match (&said.reply, &said.holder) {
        (_, Some(holder)) => {
            format!("{nid} is in session {} of {}; --force ends that", holder.name, holder.console)
        }
        (Reply::None { why, .. }, _) => format!("{nid}: {why}"),
        (Reply::Refused(lustrine_selftest::errno::EPERM), _) => format!(
            "{nid} does not obey this console: set `selftest: full`, or this console's NID as \
             `selftest_consoles`, under `lustrine:` in that node's configuration"
        ),
        (Reply::Refused(errno), _) => match lustrine_selftest::errno::name(*errno) {
            Some(name) => format!("{nid} refused with {name}"),
            None => format!("{nid} refused with errno {errno}"),
        },
        (Reply::Good(_), None) => format!("{nid} is in another session; --force ends that"),
    }
}
