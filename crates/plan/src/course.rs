//! The course of a plan: a session for each point, its tests, and figures before and after.

use std::collections::BTreeMap;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::console::{
    Answer, Command, Detail, NewTest, NodeState, Reply, Said, Target,
};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::FEATURES_KNOWN;

use crate::measure::{Mark, Silent, live, result};
use crate::model::Plan;
use crate::points::{Flow, Point};
use crate::results::{End, PointResult};

/// Seconds without a command after which nodes are let go, should this process be killed.
const SESSION_TIMEOUT: u32 = 300;

/// How often figures are shown while a point is measured.
const LOOK: Nanos = Nanos::from_secs(1);

/// Seconds that an answer is waited for.
const ANSWER: u32 = 10;

/// How often it is asked whether all units have ended. One that is in an RPC which is never
/// answered ends with the RPC's time-out, 64 s on most nodes.
const IDLE_LOOKS: u32 = 400;

/// How long between two such questions.
const IDLE_PAUSE: Nanos = Nanos::from_millis(200);

/// Nodes named in an error.
const NAMED_MAX: usize = 3;

const GROUP: &str = "all";
const BATCH: &str = "plan";

/// What running a plan needs of the world.
pub trait Outside {
    /// Gives the console a command, and waits for the answer.
    ///
    /// # Errors
    /// When the console refuses, or is gone.
    fn tell(&mut self, command: Command) -> Result<Answer, Stopped>;

    /// Lets time pass.
    ///
    /// # Errors
    /// [`Stopped::Interrupted`] when somebody wants an end.
    fn pass(&mut self, time: Nanos) -> Result<(), Stopped>;

    /// Whether sessions of others are ended where nodes are in one.
    fn takes_over(&self) -> bool;

    /// A point begins.
    fn begins(&mut self, number: usize, of: usize, title: &str);

    /// What can be seen now.
    fn shows(&mut self, live: &Live);

    /// Something worth knowing that is no error.
    fn warns(&mut self, text: &str);
}

/// Why a plan does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
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
pub struct Bug;

impl From<Bug> for Stopped {
    fn from(bug: Bug) -> Stopped {
        Stopped::Failed(bug.to_string())
    }
}

/// A point while it is measured: figures of the last moment.
#[derive(Clone, Debug)]
pub struct Live {
    /// How long it has been measured.
    pub elapsed: Nanos,
    /// How long it will be.
    pub of: Nanos,
    /// Each test: its name, and what all its clients do.
    pub rows: Vec<(String, crate::results::Counted)>,
    /// Each client of each test.
    pub clients: Vec<(Nid, crate::results::Counted)>,
}

/// Runs all points in order.
pub fn run(plan: &Plan, points: &[Point], outside: &mut impl Outside) -> (Vec<PointResult>, End) {
    let mut results = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let repeats = plan.steps.get(point.step).map_or(1, |step| step.repeat);
        outside.begins(index + 1, points.len(), &point.title(repeats));
        let measured = measure(plan, point, outside);
        // Good or bad, nodes shall not wait for their session to expire.
        let ended = end(outside);
        match measured.and_then(|result| ended.map(|()| result)) {
            Ok(result) => results.push(result),
            Err(Stopped::Interrupted) => return (results, End::Interrupted { interrupted: true }),
            Err(Stopped::Failed(error)) => return (results, End::Failed { error }),
        }
    }
    (results, End::Complete)
}

fn measure(plan: &Plan, point: &Point, outside: &mut impl Outside) -> Result<PointResult, Stopped> {
    let silent = gather(plan, point, outside)?;
    for (index, flow) in point.flows.iter().enumerate() {
        add(index, flow, &silent, outside)?;
    }
    let run = Command::Run { batch: BATCH.to_owned(), timeout: 0 };
    all_good(outside.tell(run)?, "started")?;
    let outcome = watch(point, &silent, outside);
    let stopped = stop(outside);
    let (before, after) = outcome?;
    stopped?;
    Ok(result(point, &silent, &before, &after))
}

/// Makes the session, with all nodes and groups; the answer is which nodes tell no figures.
fn gather(plan: &Plan, point: &Point, outside: &mut impl Outside) -> Result<Silent, Stopped> {
    let (name, force) = (plan.name.clone(), outside.takes_over());
    let (timeout, features) = (SESSION_TIMEOUT, FEATURES_KNOWN);
    outside.tell(Command::NewSession { name, timeout, force, features })?;
    let nodes = point.nodes();
    group(GROUP, &nodes, outside)?;
    let target = Target::Session;
    all_good(outside.tell(Command::Ping { target, timeout: ANSWER })?, "asked")?;
    let Answer::Nodes(views) = outside.tell(Command::ShowGroup { group: GROUP.to_owned() })? else {
        return Err(Bug.into());
    };
    for (index, flow) in point.flows.iter().enumerate() {
        group(&from(index), &flow.clients, outside)?;
        group(&to(index), &flow.servers, outside)?;
    }
    outside.tell(Command::AddBatch { batch: BATCH.to_owned() })?;
    let clients = |nid: &Nid| point.flows.iter().filter(|f| f.clients.contains(nid)).count();
    let silent = views.iter().filter(|view| !view.ours);
    Ok(silent.map(|view| (view.nid, clients(&view.nid))).collect())
}

fn from(flow: usize) -> String {
    format!("from{flow}")
}

fn to(flow: usize) -> String {
    format!("to{flow}")
}

fn group(name: &str, nids: &[Nid], outside: &mut impl Outside) -> Result<(), Stopped> {
    let group = name.to_owned();
    outside.tell(Command::AddGroup { group: group.clone() })?;
    let answer = outside.tell(Command::AddNodes { group, nids: nids.to_vec() })?;
    all_good(answer, "taken into the session")
}

fn add(
    index: usize,
    flow: &Flow,
    silent: &Silent,
    outside: &mut impl Outside,
) -> Result<(), Stopped> {
    if flow.rate > 0
        && let Some(nid) = flow.clients.iter().find(|nid| silent.has(nid))
    {
        return Err(Stopped::Failed(format!(
            "{nid} cannot keep to a rate: kernel nodes know none; leave out \"rate\""
        )));
    }
    let test = NewTest {
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
    };
    all_good(outside.tell(Command::AddTest(test))?, "given the test")
}

/// Warms up, then takes figures, looks on, and takes figures again.
fn watch(
    point: &Point,
    silent: &Silent,
    outside: &mut impl Outside,
) -> Result<(Mark, Mark), Stopped> {
    outside.pass(point.warm_up)?;
    let before = mark(point, outside, Depth::All)?;
    let (mut elapsed, mut last) = (Nanos::ZERO, before.clone());
    while elapsed < point.time {
        let step = LOOK.min(Nanos(point.time.0 - elapsed.0));
        outside.pass(step)?;
        elapsed = Nanos(elapsed.0 + step.0);
        if elapsed < point.time {
            let now = mark(point, outside, Depth::Figures)?;
            outside.shows(&live(point, silent, (&last, &now), elapsed));
            last = now;
        }
    }
    let after = mark(point, outside, Depth::All)?;
    let lost = before.figures.iter().flatten().filter(|(key, _)| !after.has(key)).count();
    if lost > 0 {
        outside.warns(&format!("{lost} clients that told figures did not answer at the end"));
    }
    Ok((before, after))
}

/// What is asked of nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Figures,
    All,
}

/// Asks all nodes.
fn mark(point: &Point, outside: &mut impl Outside, depth: Depth) -> Result<Mark, Stopped> {
    let mut mark = Mark::default();
    for flow in 0..point.flows.len() {
        let (batch, test) = (BATCH.to_owned(), flow as u32 + 1);
        let mut figures = BTreeMap::new();
        for said in said(outside.tell(Command::Figures { batch, test, timeout: ANSWER })?)? {
            if let Reply::Good(Detail::Figures(told)) = said.reply {
                figures.insert((flow, said.nid), *told);
            }
        }
        mark.figures.push(figures);
    }
    if depth == Depth::All {
        let target = Target::Session;
        for said in said(outside.tell(Command::Stat { target, timeout: ANSWER })?)? {
            if let Reply::Good(Detail::Counters(counters)) = said.reply {
                mark.counters.insert(said.nid, *counters);
            }
        }
    }
    Ok(mark)
}

/// Stops the tests, and waits until all units have ended.
fn stop(outside: &mut impl Outside) -> Result<(), Stopped> {
    let batch = || BATCH.to_owned();
    said(outside.tell(Command::Stop { batch: batch(), force: false })?)?;
    for look in 0..IDLE_LOOKS {
        let query = Command::Query { batch: batch(), test: 0, timeout: ANSWER };
        let busy = |said: &Said| !matches!(said.reply, Reply::Good(Detail::Active(0)));
        let said = said(outside.tell(query)?)?;
        let running = said.iter().filter(|said| said.is_good() && busy(said)).count();
        if running == 0 {
            return Ok(());
        }
        if look == IDLE_LOOKS / 2 {
            said_again(outside)?;
        }
        outside.pass(IDLE_PAUSE)?;
    }
    Err(Stopped::Failed("tests do not end; `lst end_session` and a look at the nodes".to_owned()))
}

/// Stops the tests once more, and gives up RPCs under way.
fn said_again(outside: &mut impl Outside) -> Result<(), Stopped> {
    outside.warns("some RPCs do not end by themselves; they are given up");
    let stop = Command::Stop { batch: BATCH.to_owned(), force: true };
    said(outside.tell(stop)?).map(|_| ())
}

/// Ends the session; that there is none is no error here.
fn end(outside: &mut impl Outside) -> Result<(), Stopped> {
    match outside.tell(Command::EndSession) {
        Ok(_) => Ok(()),
        Err(Stopped::Interrupted) => Err(Stopped::Interrupted),
        // What made it so was told already.
        Err(Stopped::Failed(_)) => Ok(()),
    }
}

fn said(answer: Answer) -> Result<Vec<Said>, Stopped> {
    match answer {
        Answer::Said(said) => Ok(said),
        _ => Err(Bug.into()),
    }
}

/// Refuses unless all nodes did what they were asked for, and are in the session.
fn all_good(answer: Answer, what: &str) -> Result<(), Stopped> {
    let said = said(answer)?;
    let bad: Vec<&Said> =
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
    Err(Stopped::Failed(text))
}

fn why(said: &Said) -> String {
    let nid = said.nid;
    match (&said.reply, &said.holder) {
        (_, Some(holder)) => {
            format!("{nid} is in session {} of {}; --force ends that", holder.name, holder.console)
        }
        (Reply::None { why, .. }, _) => format!("{nid}: {why}"),
        (Reply::Refused(errno), _) => match lustrine_selftest::errno::name(*errno) {
            Some(name) => format!("{nid} refused with {name}"),
            None => format!("{nid} refused with errno {errno}"),
        },
        (Reply::Good(_), None) => format!("{nid} is in another session; --force ends that"),
    }
}
