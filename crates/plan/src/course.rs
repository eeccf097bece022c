//! The course of a plan: a session for each point, its tests, and figures before and after.

use std::collections::BTreeSet;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::console::{
    Answer, Command, Detail, NewTest, NodeReply, NodeState, Reply, Target,
};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::FEATURES_KNOWN;

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
pub trait Outside {
    /// Gives the console a command, and waits for the answer.
    ///
    /// # Errors
    /// When the console refuses, or is gone.
    fn tell(&mut self, command: Command) -> Result<Answer, Stopped>;

    /// The time, from any beginning.
    fn now(&mut self) -> Time;

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
        end(outside);
        match measured {
            Ok((result, interrupted)) => {
                results.push(result);
                if interrupted {
                    return (results, End::Interrupted { interrupted: true });
                }
            }
            Err(Stopped::Interrupted) => return (results, End::Interrupted { interrupted: true }),
            Err(Stopped::Failed(error)) => return (results, End::Failed { error }),
        }
    }
    (results, End::Complete)
}

fn measure(
    plan: &Plan,
    point: &Point,
    outside: &mut impl Outside,
) -> Result<(PointResult, bool), Stopped> {
    let silent = gather(plan, point, outside)?;
    for (index, flow) in point.flows.iter().enumerate() {
        add(index, flow, outside)?;
    }
    let run = Command::Run { batch: BATCH.to_owned(), timeout: 0 };
    all_good(ask(outside, run)?, "started")?;
    let outcome = watch(point, &silent, outside);
    let stopped = stop(outside);
    let (before, after, interrupted) = outcome?;
    match stopped {
        // What was measured is good all the same; the next point will say what is wrong.
        Err(Stopped::Failed(why)) => outside.warns(&why),
        Err(Stopped::Interrupted) | Ok(()) => {}
    }
    Ok((result(point, &silent, &before, &after), interrupted))
}

/// Makes the session, with all nodes and groups; the answer is which nodes tell no figures.
fn gather(plan: &Plan, point: &Point, outside: &mut impl Outside) -> Result<Silent, Stopped> {
    let (name, force) = (plan.name.clone(), outside.takes_over());
    let (timeout, features) = (SESSION_TIMEOUT, FEATURES_KNOWN);
    ask(outside, Command::NewSession { name, timeout, force, features })?;
    let nodes = point.nodes();
    group(GROUP, &nodes, outside)?;
    let target = Target::Session;
    all_good(ask(outside, Command::Ping { target, timeout: ANSWER })?, "asked")?;
    let Answer::Nodes(views) = ask(outside, Command::ShowGroup { group: GROUP.to_owned() })? else {
        return Err(Bug.into());
    };
    for (index, flow) in point.flows.iter().enumerate() {
        group(&from(index), &flow.clients, outside)?;
        group(&to(index), &flow.servers, outside)?;
    }
    ask(outside, Command::AddBatch { batch: BATCH.to_owned() })?;
    let clients = |nid: &Nid| point.flows.iter().filter(|f| f.clients.contains(nid)).count();
    let silent = views.iter().filter(|view| !view.ours);
    Ok(silent.map(|view| (view.nid, clients(&view.nid))).collect())
}

/// Gives the console a command, unless somebody wants an end.
fn ask(outside: &mut impl Outside, command: Command) -> Result<Answer, Stopped> {
    outside.pass(Nanos::ZERO)?;
    outside.tell(command)
}

fn from(flow: usize) -> String {
    format!("from{flow}")
}

fn to(flow: usize) -> String {
    format!("to{flow}")
}

fn group(name: &str, nids: &[Nid], outside: &mut impl Outside) -> Result<(), Stopped> {
    let group = name.to_owned();
    ask(outside, Command::AddGroup { group: group.clone() })?;
    let answer = ask(outside, Command::AddNodes { group, nids: nids.to_vec() })?;
    all_good(answer, "taken into the session")
}

fn add(index: usize, flow: &Flow, outside: &mut impl Outside) -> Result<(), Stopped> {
    let test = new_test(index, flow);
    all_good(ask(outside, Command::AddTest(test))?, "given the test")
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
    outside: &mut impl Outside,
) -> Result<(Mark, Mark, bool), Stopped> {
    outside.pass(point.warm_up)?;
    // A node may have been replaced by a kernel meanwhile; ours say again that they are.
    let target = Target::Session;
    said(ask(outside, Command::Ping { target, timeout: ANSWER })?)?;
    let before = mark(point, outside, Depth::All)?;
    let (begin, mut last) = (outside.now(), before.clone());
    let mut pause = LOOK;
    let interrupted = loop {
        let left = point.time.0.saturating_sub(outside.now().since(begin).0);
        // What was measured until somebody wants an end is worth having.
        let interrupted = outside.pass(pause.min(Nanos(left))).is_err();
        if interrupted || left <= pause.0 {
            break interrupted;
        }
        let asked = outside.now();
        let now = mark(point, outside, Depth::ClientStats)?;
        outside.shows(&live(point, silent, (&last, &now), asked.since(begin)));
        let gone: BTreeSet<Nid> =
            last.figures.keys().filter(|key| !now.figures.contains_key(key)).map(|k| k.1).collect();
        if !gone.is_empty() {
            let gone: Vec<Nid> = gone.into_iter().collect();
            outside.warns(&format!("{} does not answer any more", named(&gone)));
        }
        last = now;
        // Looking on is not what nodes are to be busy with; and some may answer late, or never.
        pause = LOOK.max(Nanos(4 * outside.now().since(asked).0));
    };
    let after = mark(point, outside, Depth::All)?;
    Ok((before, after, interrupted))
}

/// What is asked of nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    ClientStats,
    All,
}

/// Asks all nodes.
fn mark(point: &Point, outside: &mut impl Outside, depth: Depth) -> Result<Mark, Stopped> {
    let mut mark = Mark::default();
    for flow in 0..point.flows.len() {
        let (batch, test) = (BATCH.to_owned(), flow as u32 + 1);
        for said in said(outside.tell(Command::ClientStats { batch, test, timeout: ANSWER })?)? {
            if let Reply::Good(Detail::ClientStats(told)) = said.reply {
                mark.figures.insert((flow, said.nid), *told);
            }
        }
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
    for look in 0..IDLE_LOOKS {
        // NodeReply again where it was not heard, and in the end without regard to RPCs under way.
        let force = look >= IDLE_LOOKS / 2;
        if look % IDLE_LOOKS_AGAIN == 0 {
            if force {
                outside.warns("some RPCs do not end by themselves; they are given up");
            }
            let stop = Command::Stop { batch: BATCH.to_owned(), force };
            said(outside.tell(stop)?)?;
        }
        let query = Command::Query { batch: BATCH.to_owned(), test: 0, timeout: ANSWER };
        let busy = |said: &&NodeReply| matches!(said.reply, Reply::Good(Detail::Active(1..)));
        if said(outside.tell(query)?)?.iter().filter(busy).count() == 0 {
            return Ok(());
        }
        outside.pass(IDLE_PAUSE)?;
    }
    Err(Stopped::Failed("tests do not end; `lst end_session` and a look at the nodes".to_owned()))
}

/// Ends the session. That there is none any more, or that nodes do not answer, is no error of what
/// was measured; they leave it by their own time-out.
fn end(outside: &mut impl Outside) {
    let Ok(Answer::Replies(said)) = outside.tell(Command::EndSession) else { return };
    let bad: Vec<&NodeReply> = said.iter().filter(|said| !said.is_good()).collect();
    if let Some(first) = bad.first() {
        let (count, of, first) = (bad.len(), said.len(), why(first));
        let text = format!("{count} of {of} nodes did not leave the session; {first}");
        outside.warns(&text);
    }
}

fn said(answer: Answer) -> Result<Vec<NodeReply>, Stopped> {
    match answer {
        Answer::Replies(said) => Ok(said),
        _ => Err(Bug.into()),
    }
}

/// Refuses unless all nodes did what they were asked for, and are in the session.
fn all_good(answer: Answer, what: &str) -> Result<(), Stopped> {
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
    Err(Stopped::Failed(text))
}

fn why(said: &NodeReply) -> String {
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
