//! The console: what `lst` drives, as a state machine [LST-20].
//!
//! Commands come in one by one, each with the caller's ticket; what they need of nodes goes out as
//! [`ConsoleRpc`]s, all those of one command at once; what becomes of these comes back. A command
//! is answered when all its orders are over. The owner of a console carries the orders out, with
//! [`ConsoleRpcs`](crate::ConsoleRpcs), and calls [`Console::tick`] in time: it keeps nodes from
//! leaving a session in which nothing happens, and ends a session that is not used.
//!
//! ```
//! use lustrine_lnet::time::Time;
//! use lustrine_selftest::console::{Answer, Command, Console};
//! use lustrine_wire::Nid;
//!
//! let own: Nid = "10.0.0.1@tcp".parse().unwrap();
//! let mut console = Console::new(&own, 1_700_000_000);
//! let (now, key) = (Time(1), 7);
//! let name = "demo".to_owned();
//! let new = Command::NewSession { name, timeout: 300, force: false, features: 1 };
//! console.command(now, 1, key, new);
//! let (ticket, answer) = console.next_answer().unwrap();
//! assert!(ticket == 1 && matches!(answer, Ok(Answer::Session(_))));
//!
//! // A command that concerns nodes comes to RPCs, which the caller carries out.
//! let group = "servers".to_owned();
//! console.command(now, 2, key, Command::AddGroup { group: group.clone() });
//! assert_eq!(console.next_answer(), Some((2, Ok(Answer::Done))));
//! let nids = vec!["10.0.0.2@tcp".parse().unwrap()];
//! console.command(now, 3, key, Command::AddNodes { group, nids });
//! let rpc = console.next_rpc().unwrap();
//! assert_eq!(rpc.peer.to_string(), "10.0.0.2@tcp");
//! assert_eq!(console.next_answer(), None);
//! ```

mod command;
mod commands;
mod ending;
mod load;
mod refusal;
mod session;
mod times;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    Body, CLIENT_STATS_LEN_MAX, DebugRequest, Destination, Message, RemoveSessionRequest, Service,
    Sid,
};

use crate::errno;
use crate::mark::console_number;
use crate::rpc::RpcError;
use ending::Ending;
use session::{BatchTest, NODES_MAX, Session};
use times::{ACTION, DOWN_ACTION};
use work::{Goal, Work};

pub use command::{
    Answer, BatchSide, BatchView, Command, Detail, Distribution, NewTest, NodeReply, NodeState,
    NodeView, Reply, SessionHolder, SessionView, Target, TestView,
};
pub use refusal::Refusal;

/// How often it is looked at who has to be kept from leaving [LST-25].
const ROUND: Nanos = Nanos::from_secs(8);

/// Most commands that wait for the one in flight.
const WAITING_MAX: usize = 64;

/// An RPC that a console needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleRpc {
    /// Names it in [`Console::completed`].
    pub id: u64,
    /// The node.
    pub peer: Nid,
    /// The service.
    pub service: Service,
    /// Session features.
    pub features: u32,
    /// The request, without its match bits.
    pub body: Body,
    /// What the node will fetch; empty for most.
    pub list: Vec<Destination>,
    /// Bytes that the node may put; 0 for most.
    pub room: u32,
    /// The time-out of the RPC.
    pub timeout: Nanos,
}

/// How an order ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcOutcome {
    /// The order.
    pub rpc: u64,
    /// The reply, whatever status it holds, or why there is none.
    pub reply: Result<Message, RpcError>,
    /// What the node put; empty for most.
    pub put: Vec<u8>,
}

/// A console. Times are those of its owner, and never go back.
#[derive(Debug)]
pub struct Console {
    /// Its short NID, which names its sessions.
    number: u64,
    /// The wall clock's seconds when its time was zero.
    wall_seconds: u64,
    session: Option<Session>,
    /// Batches made so far, in all sessions [LST-30].
    batches: u64,
    /// Orders given so far.
    orders_given: u64,
    work: Option<Work>,
    /// The session ends, and its tests are waited for.
    ending: Option<Ending>,
    /// Nodes that leave the session that ends while so many tests run.
    unstopped: BTreeMap<Nid, u32>,
    /// Kernel nodes whose tests were not seen to end, and which did not answer: they get no
    /// REMOVE_SESSION, which could arrive while a test runs. Their own time-out ends the session.
    unreached: BTreeSet<Nid>,
    /// Lustrine nodes that may still be in these sessions of this console, which have ended: they
    /// did not confirm that they left.
    left_behind: BTreeMap<Nid, Sid>,
    waiting: VecDeque<Asked>,
    /// Questions that only keep a node from leaving, by order.
    reminders: BTreeMap<u64, Nid>,
    orders: VecDeque<ConsoleRpc>,
    /// Orders that nothing waits for any more, and their nodes.
    canceled: VecDeque<(u64, Nid)>,
    answers: VecDeque<(u64, Result<Answer, Refusal>)>,
    next_round: Time,
    /// When the session ends unless a command comes.
    ends_at: Time,
    /// The stamp of the last session: no two have the same.
    last_stamp: i64,
}

/// A command and who waits for its answer.
#[derive(Debug)]
struct Asked {
    ticket: u64,
    key: u32,
    command: Command,
}

impl Console {
    /// A console without a session, at a node with this NID. `wall_seconds` is the wall clock at
    /// the zero of its time.
    pub fn new(nid: &Nid, wall_seconds: u64) -> Console {
        Console {
            number: console_number(nid),
            wall_seconds,
            session: None,
            batches: 0,
            orders_given: 0,
            work: None,
            ending: None,
            unstopped: BTreeMap::new(),
            unreached: BTreeSet::new(),
            left_behind: BTreeMap::new(),
            waiting: VecDeque::new(),
            reminders: BTreeMap::new(),
            orders: VecDeque::new(),
            canceled: VecDeque::new(),
            answers: VecDeque::new(),
            next_round: Time::NEVER,
            ends_at: Time::NEVER,
            last_stamp: i64::MIN,
        }
    }

    /// Takes a command. Its answer comes from [`Console::next_answer`] under the same ticket.
    /// `key` is the caller's; only a session's own is heard. Commands are carried out in order, but
    /// questions give way to a command that stops a batch or ends the session, and what the console
    /// knows itself waits for commands alone that change it.
    pub fn command(&mut self, now: Time, ticket: u64, key: u32, command: Command) {
        if command.is_look() && self.may_look() {
            let answer = self.begin(now, ticket, key, command);
            self.answers.extend(answer.transpose().map(|answer| (ticket, answer)));
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            let busy = Refusal::Busy(self.waiting.len() as u32);
            self.answers.push_back((ticket, Err(busy)));
            return;
        }
        let mut questions = VecDeque::new();
        let is_urgent = self.is_urgent(key, &command);
        if is_urgent || command.is_look() {
            if is_urgent {
                self.end_question(now);
                self.hasten_if_asked_again(now, &command);
            }
            let waiting = core::mem::take(&mut self.waiting).into_iter();
            (questions, self.waiting) = waiting.partition(|asked| asked.command.is_question());
        }
        self.waiting.push_back(Asked { ticket, key, command });
        self.waiting.append(&mut questions);
        self.go_on(now);
    }

    /// Whether a command does not wait for questions: nodes that do not answer these must not keep
    /// the user from stopping the load.
    fn is_urgent(&self, key: u32, command: &Command) -> bool {
        let session = self.session.as_ref();
        match command {
            Command::Stop { batch, .. } => {
                session.is_some_and(|session| session.key == key && session.batch(batch).is_ok())
            }
            Command::EndSession | Command::EndSessionAtOnce => {
                session.is_some_and(|session| session.key == key)
            }
            Command::NewSession { force, .. } => *force && session.is_some(),
            _ => false,
        }
    }

    /// Ends the question under way, if it is one, with what nodes have answered so far.
    fn end_question(&mut self, now: Time) {
        let Some(mut work) = self.work.take_if(|work| work.is_question) else { return };
        self.withdraw(&mut work);
        self.work = Some(work);
        self.finish(now);
    }

    /// Gives up the orders of a command.
    fn withdraw(&mut self, work: &mut Work) {
        let orders = work.give_up();
        self.orders.retain(|order| !orders.iter().any(|(id, _)| *id == order.id));
        self.canceled.extend(orders);
    }

    /// Whether nothing in flight, or before a command that comes now, changes what the console
    /// knows.
    fn may_look(&self) -> bool {
        let changes = self.work.as_ref().is_some_and(|work| !work.is_question);
        (!changes || self.ending.is_some())
            && self.waiting.iter().all(|asked| asked.command.is_question())
    }

    /// A second request to end the session ends the wait for its tests.
    fn hasten_if_asked_again(&mut self, now: Time, command: &Command) {
        if matches!(command, Command::EndSession | Command::EndSessionAtOnce) {
            self.hasten_end(now);
        }
    }

    /// Takes in how an order ended.
    pub fn completed(&mut self, now: Time, outcome: &RpcOutcome) {
        if let Some(nid) = self.reminders.remove(&outcome.rpc) {
            work::observe(self.session.as_mut(), now, &nid, outcome, ACTION);
            return;
        }
        if self.removes_again(outcome) || self.invites_again(outcome) {
            return;
        }
        let Some(work) = &mut self.work else { return };
        if work.take(self.session.as_mut(), now, outcome) {
            self.finish(now);
            self.go_on(now);
        }
    }

    /// The next RPC that is needed.
    pub fn next_rpc(&mut self) -> Option<ConsoleRpc> {
        self.orders.pop_front()
    }

    /// The next order whose RPC is not needed any more, and its node. It may have ended.
    pub fn next_canceled(&mut self) -> Option<(u64, Nid)> {
        self.canceled.pop_front()
    }

    /// The next answer, and its ticket.
    pub fn next_answer(&mut self) -> Option<(u64, Result<Answer, Refusal>)> {
        self.answers.pop_front()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {
        if now >= self.next_round {
            self.next_round = now + ROUND;
            self.remind(now);
        }
        if now >= self.next_look() {
            self.look_at_ending(now);
        }
        if now >= self.ends_at && !self.is_at_work() {
            self.ends_at = Time::NEVER;
            self.end_session(now, None, Goal::EndSession);
        }
    }

    /// Whether a command is under way.
    fn is_at_work(&self) -> bool {
        self.work.is_some() || self.ending.is_some()
    }

    /// When [`Console::tick`] has something to do at the latest.
    pub fn next_deadline(&self) -> Time {
        // With work in flight the session is in use.
        let end = if self.is_at_work() { Time::NEVER } else { self.ends_at };
        self.next_round.min(end).min(self.next_look())
    }

    /// The session, if there is one.
    pub fn session(&self) -> Option<SessionView> {
        self.session.as_ref().map(Session::view)
    }

    /// Whether commands wait, or one is in flight.
    pub fn is_busy(&self) -> bool {
        self.is_at_work() || !self.waiting.is_empty()
    }

    /// Begins commands until one has to wait for nodes.
    fn go_on(&mut self, now: Time) {
        while !self.is_at_work() {
            let Some(Asked { ticket, key, command }) = self.waiting.pop_front() else { return };
            let is_question = command.is_question();
            let begun = self.begin(now, ticket, key, command);
            if let Some(work) = &mut self.work {
                work.is_question = is_question;
            }
            match begun {
                Ok(Some(answer)) => self.answers.push_back((ticket, Ok(answer))),
                Ok(None) => {}
                Err(refusal) => self.answers.push_back((ticket, Err(refusal))),
            }
        }
    }

    /// Asks a node once more to leave the session if it has only counted down [LST-13]; whether it
    /// was asked.
    fn removes_again(&mut self, outcome: &RpcOutcome) -> bool {
        let (Some(session), Some(work)) = (&self.session, &mut self.work) else { return false };
        let sid = session.sid;
        let stays = matches!(
            &outcome.reply,
            Ok(Message { body: Body::RemoveSessionReply(reply), .. })
                if reply.status == 0 && reply.sid == sid
        );
        let timeout = work.timeout;
        let Some((nid, place)) = stays.then(|| work.once_more(outcome.rpc)).flatten() else {
            return false;
        };
        let body = Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits: 0, sid });
        let id = self.give(nid, Service::RemoveSession, body, Vec::new(), timeout);
        if let Some(work) = &mut self.work {
            work.expect_in(id, place);
        }
        true
    }

    /// Asks a node once more that is still in an older session of this console, which it is to
    /// leave; whether it was asked.
    fn invites_again(&mut self, outcome: &RpcOutcome) -> bool {
        let (Some(session), Some(work)) = (&self.session, &mut self.work) else { return false };
        let Ok(Message { body: Body::MakeSessionReply(reply), .. }) = &outcome.reply else {
            return false;
        };
        let Some(nid) = work.node_of(outcome.rpc) else { return false };
        let Some(older) = self.left_behind.remove(&nid) else { return false };
        if reply.status != errno::EBUSY || reply.sid != older {
            return false;
        }
        let Some((nid, place)) = work.once_more(outcome.rpc) else { return false };
        let (body, timeout) = (commands::invitation(session, true), work.timeout);
        let id = self.give(nid, Service::MakeSession, body, Vec::new(), timeout);
        if let Some(work) = &mut self.work {
            work.expect_in(id, place);
        }
        true
    }

    /// Gives an order for each of the nodes.
    fn give_all(
        &mut self,
        work: &mut Work,
        service: Service,
        nids: Vec<Nid>,
        each: impl Fn(usize, &Nid) -> (Body, Vec<Destination>),
    ) {
        for (index, nid) in nids.into_iter().enumerate() {
            let (body, list) = each(index, &nid);
            let state = self.session.as_ref().map(|session| session.state(&nid));
            let timeout = match work.is_brief && state == Some(NodeState::Down) {
                true => DOWN_ACTION.min(work.timeout),
                false => work.timeout,
            };
            let id = self.give(nid, service, body, list, timeout);
            work.expect(id, nid);
        }
    }

    fn give(
        &mut self,
        peer: Nid,
        service: Service,
        body: Body,
        list: Vec<Destination>,
        timeout: Nanos,
    ) -> u64 {
        self.orders_given += 1;
        let id = self.orders_given;
        let features = self.session.as_ref().map_or(0, |session| session.features);
        let room = if service == Service::ClientStats { CLIENT_STATS_LEN_MAX } else { 0 };
        self.orders.push_back(ConsoleRpc {
            id,
            peer,
            service,
            features,
            body,
            list,
            room,
            timeout,
        });
        id
    }

    /// Waits for the nodes that were asked; if there are none, this is the answer.
    fn put_to_work(&mut self, work: Work) -> Option<Answer> {
        if !work.is_over() {
            self.work = Some(work);
            return None;
        }
        if let Some(session) = &mut self.session {
            session.sweep();
        }
        Some(Answer::Replies(Vec::new()))
    }

    /// All nodes that were asked have answered.
    fn finish(&mut self, now: Time) {
        let Some(mut work) = self.work.take() else { return };
        match core::mem::replace(&mut work.goal, Goal::Report) {
            Goal::Report => {}
            Goal::SeenIdle { batch } => {
                let batch =
                    self.session.as_mut().and_then(|session| session.batch_mut(&batch).ok());
                if let (Some(batch), true) = (batch, work.all_idle()) {
                    batch.running = false;
                }
            }
            Goal::Servers { test } => {
                let good = work.all_good();
                if let Some(session) = &mut self.session
                    && let Ok(batch) = session.batch_mut(&test.batch)
                {
                    // Also if nodes failed: it is in the lists of the others, and counts there.
                    batch.tests.push(BatchTest::new((*test).clone(), good));
                }
                if good {
                    return self.add_clients(work, &test);
                }
            }
            Goal::Stopped => return self.stopped(now, work.said()),
            Goal::Looked => return self.looked(now, work.said()),
            Goal::NewSession(session) => {
                self.shut(&mut work);
                let view = self.open(now, *session);
                let (ticket, _) = work.answer();
                return self.answers.extend(ticket.map(|one| (one, Ok(Answer::Session(view)))));
            }
            Goal::EndSession => self.shut(&mut work),
        }
        if let Some(session) = &mut self.session {
            session.sweep();
        }
        let (ticket, said) = work.answer();
        self.answers.extend(ticket.map(|ticket| (ticket, Ok(Answer::Replies(said)))));
    }

    fn open(&mut self, now: Time, session: Session) -> SessionView {
        self.batches += 1;
        let millis = self.wall_seconds.wrapping_mul(1000).wrapping_add(now.0 / 1_000_000);
        let stamp = ((millis & i64::MAX as u64) as i64).max(self.last_stamp.saturating_add(1));
        self.last_stamp = stamp;
        let sid = Sid { nid: self.number, stamp };
        let mut opened = Session::new(sid, session.name, session.key, self.batches);
        (opened.timeout, opened.force) = (session.timeout, session.force);
        opened.features = session.features;
        self.ends_at = match opened.timeout {
            0 => Time::NEVER,
            seconds => now + Nanos::from_secs(u64::from(seconds)),
        };
        self.next_round = now + ROUND;
        self.reminders.clear();
        self.session.insert(opened).view()
    }

    fn shut(&mut self, work: &mut Work) {
        if let Some(session) = self.session.take() {
            // A kernel node is not taken over without being asked to: its tests may run.
            let stay = work.said().iter().filter(|said| !said.is_good()).map(|said| said.nid);
            let stay = stay.filter(|nid| session.was_ours(nid));
            self.left_behind.extend(stay.map(|nid| (nid, session.sid)));
            while self.left_behind.len() > NODES_MAX {
                self.left_behind.pop_first();
            }
        }
        work.note_running(&core::mem::take(&mut self.unstopped));
        self.reminders.clear();
        (self.next_round, self.ends_at) = (Time::NEVER, Time::NEVER);
    }

    /// Asks nodes that would leave soon for lack of requests; and those that did not answer,
    /// whether they do again.
    fn remind(&mut self, now: Time) {
        let Some(session) = &self.session else { return };
        let waited_for: BTreeSet<Nid> = self.reminders.values().copied().collect();
        let due = session.nodes.iter().filter(|(nid, node)| {
            let asleep = now.since(node.heard_at).0 >= node.timeout.0 / 2;
            let due = match node.state {
                NodeState::Active => node.timeout != Nanos::ZERO && asleep,
                NodeState::Down => true,
                NodeState::Busy | NodeState::Unknown => false,
            };
            due && !waited_for.contains(nid)
        });
        let due: Vec<Nid> = due.map(|(nid, _)| *nid).collect();
        let request = DebugRequest { reply_bits: 0, sid: session.sid, flags: 0 };
        for nid in due {
            let body = Body::DebugRequest(request);
            let id = self.give(nid, Service::Debug, body, Vec::new(), ACTION);
            self.reminders.insert(id, nid);
        }
    }
}
