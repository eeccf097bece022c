//! The console: what `lst` drives, as a state machine (selftest-wire 16).
//!
//! Commands come in one by one, each with the caller's ticket; what they need of nodes goes out as
//! [`Order`]s, all those of one command at once; what becomes of these comes back. A command is
//! answered when all its orders are over. Whoever runs a console carries the orders out, with
//! [`Calls`](crate::Calls), and calls [`Console::tick`] in time: it keeps nodes from leaving a
//! session in which nothing happens, and ends a session that nobody uses.

mod command;
mod load;
mod refusal;
mod session;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    BatchOp, BatchRequest, Body, DebugRequest, Destination, MakeSessionRequest, Message,
    RemoveSessionRequest, Service, Sid, StatRequest,
};

use crate::mark::console_number;
use crate::rpc::Failure;
use session::Session;
use work::{Goal, Work};

pub use command::{
    Answer, BatchView, Command, Detail, NewTest, NodeState, NodeView, Part, Reply, Said,
    SessionView, Spread, Target, TestView,
};
pub use refusal::Refusal;

/// How often it is looked at who has to be kept from leaving (selftest-wire 16).
const ROUND: Nanos = Nanos::from_secs(8);

/// How long nodes have to do what they are told, and to say that they are still there.
const ACTION: Nanos = Nanos::from_secs(30);

/// Shortest time that is waited for an answer to a question, and the longest to most of them.
const QUESTION_MIN: Nanos = Nanos::from_secs(3);
const QUESTION_MAX: Nanos = Nanos::from_secs(30);

/// Longest time that an answer about a batch is waited for.
const QUERY_MAX: Nanos = Nanos::from_secs(3600);

/// Most commands that wait for the one under way.
const WAITING_MAX: usize = 64;

/// An RPC that a console needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
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
    /// How long it may take.
    pub timeout: Nanos,
}

/// A console. Times are those of whoever runs it, and never go back.
#[derive(Debug)]
pub struct Console {
    /// Its short NID, which names its sessions.
    number: u64,
    /// The wall clock's seconds when its time was zero.
    wall_seconds: u64,
    session: Option<Session>,
    /// Batches made so far, in all sessions (selftest-wire 6).
    batches: u64,
    /// Orders given so far.
    orders_given: u64,
    work: Option<Work>,
    waiting: VecDeque<Asked>,
    /// Questions that only keep a node from leaving, by order.
    reminders: BTreeMap<u64, Nid>,
    orders: VecDeque<Order>,
    answers: VecDeque<(u64, Result<Answer, Refusal>)>,
    next_round: Time,
    /// When the session ends unless somebody says something.
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
            waiting: VecDeque::new(),
            reminders: BTreeMap::new(),
            orders: VecDeque::new(),
            answers: VecDeque::new(),
            next_round: Time::NEVER,
            ends_at: Time::NEVER,
            last_stamp: i64::MIN,
        }
    }

    /// Takes a command. Its answer comes from [`Console::next_answer`] under the same ticket.
    /// `key` is the caller's; only a session's own is heard.
    pub fn command(&mut self, now: Time, ticket: u64, key: u32, command: Command) {
        if self.waiting.len() >= WAITING_MAX {
            let busy = Refusal::Busy(self.waiting.len() as u32);
            self.answers.push_back((ticket, Err(busy)));
            return;
        }
        self.waiting.push_back(Asked { ticket, key, command });
        self.go_on(now);
    }

    /// Takes in how an order ended: the reply, whatever status it holds, or why there is none.
    pub fn completed(&mut self, now: Time, id: u64, outcome: Result<Message, Failure>) {
        if let Some(nid) = self.reminders.remove(&id) {
            let long = true;
            work::observe(self.session.as_mut(), now, &nid, &outcome, long);
            return;
        }
        let Some(work) = &mut self.work else { return };
        if work.take(self.session.as_mut(), now, id, &outcome) {
            self.finish(now);
            self.go_on(now);
        }
    }

    /// The next RPC that is needed.
    pub fn next_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
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
        if now >= self.ends_at && self.work.is_none() {
            self.ends_at = Time::NEVER;
            self.leave_all(now, Goal::Idle);
        }
    }

    /// When [`Console::tick`] has something to do at the latest.
    pub fn next_deadline(&self) -> Time {
        // With work under way the session is in use.
        let end = if self.work.is_none() { self.ends_at } else { Time::NEVER };
        self.next_round.min(end)
    }

    /// The session, if there is one.
    pub fn session(&self) -> Option<SessionView> {
        self.session.as_ref().map(Session::view)
    }

    /// Whether commands wait, or one is under way.
    pub fn is_busy(&self) -> bool {
        self.work.is_some() || !self.waiting.is_empty()
    }

    /// Begins commands until one has to wait for nodes.
    fn go_on(&mut self, now: Time) {
        while self.work.is_none() {
            let Some(Asked { ticket, key, command }) = self.waiting.pop_front() else { return };
            match self.begin(now, ticket, key, command) {
                Ok(Some(answer)) => self.answers.push_back((ticket, Ok(answer))),
                Ok(None) => {}
                Err(refusal) => self.answers.push_back((ticket, Err(refusal))),
            }
        }
    }

    /// Begins a command; `None` when its answer has to wait for nodes.
    fn begin(
        &mut self,
        now: Time,
        ticket: u64,
        key: u32,
        command: Command,
    ) -> Result<Option<Answer>, Refusal> {
        if let Command::NewSession { name, timeout, force, features } = command {
            let name = session::named(&name)?;
            if let (Some(session), false) = (&self.session, force) {
                return Err(Refusal::SessionExists(session.name.to_string()));
            }
            let mut session = Session::new(Sid::NONE, name, key, 0);
            (session.timeout, session.force, session.features) = (timeout, force, features);
            self.leave_all(now, Goal::NewSession { ticket, session: Box::new(session) });
            return Ok(None);
        }
        let session = self.session.as_mut().ok_or(Refusal::NoSession)?;
        if session.key != key {
            return Err(Refusal::OtherKey);
        }
        self.ends_at = match session.timeout {
            0 => Time::NEVER,
            seconds => now + Nanos::from_secs(u64::from(seconds)),
        };
        Ok(Some(match command {
            Command::NewSession { .. } => unreachable!("begun above"),
            Command::ShowSession => Answer::Session(session.view()),
            Command::EndSession => {
                self.leave_all(now, Goal::EndSession { ticket });
                return Ok(None);
            }
            Command::AddGroup { group } => {
                session.add_group(&group)?;
                Answer::Done
            }
            Command::ListGroups => Answer::Names(session.group_names()),
            Command::ShowGroup { group } => {
                Answer::Nodes(session.views(&session.group(&group)?.nodes))
            }
            Command::AddNodes { group, nids } => {
                let joined = session.join(now, &group, &nids)?;
                return self.invite(ticket, joined);
            }
            Command::RefreshGroup { group } => {
                let members = session.free_group(&group)?.nodes.clone();
                return self.invite(ticket, members);
            }
            Command::CleanGroup { group, states } => {
                let members = session.free_group(&group)?.nodes.clone();
                let stays = |nid: &Nid| !states.contains(&session.state(nid));
                let members: Vec<Nid> = members.into_iter().filter(stays).collect();
                session.free_group(&group)?.nodes = members;
                session.sweep();
                Answer::Done
            }
            Command::RemoveNodes { group, nids } => {
                let members = &mut session.free_group(&group)?.nodes;
                let nids: BTreeSet<Nid> = nids.into_iter().collect();
                let gone: Vec<Nid> =
                    members.iter().copied().filter(|nid| nids.contains(nid)).collect();
                members.retain(|nid| !nids.contains(nid));
                return Ok(self.dismiss(ticket, &group, &gone));
            }
            Command::DeleteGroup { group } => {
                let gone = core::mem::take(&mut session.free_group(&group)?.nodes);
                session.remove_group(&group);
                return Ok(self.dismiss(ticket, &group, &gone));
            }
            Command::AddBatch { batch } => {
                session.add_batch(&batch, self.batches + 1)?;
                self.batches += 1;
                Answer::Done
            }
            Command::ListBatches => Answer::Names(session.batch_names()),
            Command::ShowBatch { batch } => Answer::Batch(session.batch_view(&batch)?),
            Command::AddTest(test) => {
                self.add_test(ticket, test)?;
                return Ok(None);
            }
            Command::Run { batch, timeout } => return self.run(ticket, batch, timeout),
            Command::Stop { batch, force } => {
                let found = session.batch(&batch)?;
                let mut clients = session.nodes_of(found, Part::Clients);
                clients.retain(|nid| session.is_active(nid));
                let id = found.id;
                let stop = |_: &Nid| (BatchOp::Stop, 0, u32::from(force));
                return Ok(self.batch_work(ticket, id, Goal::Tell, clients, ACTION, stop));
            }
            Command::Query { batch, test, timeout } => {
                return self.query(ticket, batch, test, timeout);
            }
            Command::Ping { target, timeout } => {
                let (nids, sid) = (session.target(target)?, session.sid);
                let body = Body::DebugRequest(DebugRequest { reply_bits: 0, sid, flags: 0 });
                return Ok(self.question(ticket, Service::Debug, nids, body, timeout));
            }
            Command::Stat { target, timeout } => {
                let (nids, sid) = (session.target(target)?, session.sid);
                let body = Body::StatRequest(StatRequest { reply_bits: 0, sid, kind: 0 });
                return Ok(self.question(ticket, Service::Stat, nids, body, timeout));
            }
        }))
    }

    /// Takes nodes into the session that are not.
    fn invite(&mut self, ticket: u64, mut nids: Vec<Nid>) -> Result<Option<Answer>, Refusal> {
        let Some(session) = &self.session else { return Err(Refusal::NoSession) };
        nids.retain(|nid| !session.is_active(nid));
        let body = Body::MakeSessionRequest(MakeSessionRequest {
            reply_bits: 0,
            sid: session.sid,
            force: u32::from(session.force),
            name: session.name,
        });
        let mut work = Work::new(Some(ticket), Goal::Tell, ACTION);
        self.give_all(&mut work, Service::MakeSession, nids, |_, _| (body, Vec::new()));
        Ok(self.put_to_work(work))
    }

    /// Lets nodes leave the session that left a group and are in no other.
    fn dismiss(&mut self, ticket: u64, group: &str, gone: &[Nid]) -> Option<Answer> {
        let mut leaving = Vec::new();
        if let Some(session) = &self.session {
            leaving = session.only_in(group, gone);
            leaving.retain(|nid| session.is_active(nid));
        }
        self.leave(Goal::Tell, Some(ticket), leaving)
    }

    /// Lets all nodes leave the session.
    fn leave_all(&mut self, now: Time, goal: Goal) {
        let active = self.session.as_ref().map(Session::active).unwrap_or_default();
        let ticket = goal.ticket();
        if self.leave(goal, ticket, active).is_some() {
            unreachable!("such work is finished by `finish`")
        }
        if self.work.as_ref().is_some_and(Work::is_over) {
            self.finish(now);
        }
    }

    fn leave(&mut self, goal: Goal, ticket: Option<u64>, nids: Vec<Nid>) -> Option<Answer> {
        let sid = self.session.as_ref().map_or(Sid::NONE, |session| session.sid);
        let body = Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits: 0, sid });
        let mut work = Work::new(ticket, goal, ACTION);
        self.give_all(&mut work, Service::RemoveSession, nids, |_, _| (body, Vec::new()));
        self.put_to_work(work)
    }

    fn add_test(&mut self, ticket: u64, test: NewTest) -> Result<(), Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NoSession)?;
        load::examine(&test, session.features)?;
        let batch = session.batch(&test.batch)?;
        batch.takes_test()?;
        let clients = session.group(&test.from)?.nodes.clone();
        let servers = session.group(&test.to)?.nodes.clone();
        for (group, nodes) in [(&test.from, &clients), (&test.to, &servers)] {
            if nodes.is_empty() {
                return Err(Refusal::EmptyGroup(group.clone()));
            }
        }
        if test.spread.servers as usize > servers.len() {
            return Err(Refusal::OutOfRange {
                what: "servers for each client".to_owned(),
                value: i64::from(test.spread.servers),
                allowed: format!("1 to {}, as many as group {} has", servers.len(), test.to),
            });
        }
        session.all_active(clients.iter().chain(&servers))?;
        let terms = self.terms(batch.id);
        let request = load::to_server(&test, terms, clients.len(), servers.len());
        let goal = Goal::Servers { test: Box::new(test) };
        let mut work = Work::new(Some(ticket), goal, ACTION);
        let body = Body::TestRequest(request);
        self.give_all(&mut work, Service::Test, servers, |_, _| (body, Vec::new()));
        self.work = Some(work);
        Ok(())
    }

    /// The servers of a test are ready: its clients are next.
    fn add_clients(&mut self, mut work: Work, test: &NewTest) {
        let Some(session) = &self.session else { return };
        let Ok(batch) = session.batch(&test.batch) else { return };
        let terms = self.terms(batch.id);
        let servers = session.members(&test.to).to_vec();
        let clients = session.members(&test.from).to_vec();
        let body = Body::TestRequest(load::to_client(test, terms));
        work.goal = Goal::Tell;
        self.give_all(&mut work, Service::Test, clients, |index, _| {
            (body, load::destinations(test, index, &servers))
        });
        self.work = Some(work);
    }

    fn terms(&self, batch: u64) -> load::Terms {
        let session = self.session.as_ref();
        load::Terms {
            sid: session.map_or(Sid::NONE, |session| session.sid),
            batch,
            features: session.map_or(0, |session| session.features),
        }
    }

    fn run(&mut self, ticket: u64, batch: String, timeout: u32) -> Result<Option<Answer>, Refusal> {
        let session = self.session.as_mut().ok_or(Refusal::NoSession)?;
        let found = session.batch(&batch)?;
        let clients = session.nodes_of(found, Part::Clients);
        if clients.is_empty() {
            return Err(Refusal::EmptyBatch(batch));
        }
        session.all_active(&clients)?;
        let found = session.batch_mut(&batch)?;
        found.running = true;
        let id = found.id;
        let run = |_: &Nid| (BatchOp::Run, 0, timeout);
        Ok(self.batch_work(ticket, id, Goal::Tell, clients, ACTION, run))
    }

    fn query(
        &mut self,
        ticket: u64,
        batch: String,
        test: u32,
        timeout: u32,
    ) -> Result<Option<Answer>, Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NoSession)?;
        let found = session.batch(&batch)?;
        let tests = found.tests.len() as u32;
        if test > tests {
            return Err(Refusal::NoTest { batch, test, tests });
        }
        let mut clients = session.nodes_of(found, Part::Clients);
        let mut places = BTreeMap::new();
        if test > 0 {
            let place = |nid: &Nid| Some((*nid, session.client_place(found, test, nid)?));
            places = clients.iter().filter_map(place).collect();
            clients.retain(|nid| places.contains_key(nid));
        }
        let id = found.id;
        let goal = if test == 0 { Goal::SeenIdle { batch } } else { Goal::Tell };
        let wait = Nanos::from_secs(u64::from(timeout)).clamp(QUESTION_MIN, QUERY_MAX);
        let ask = |nid: &Nid| (BatchOp::Query, places.get(nid).copied().unwrap_or(0), 0);
        Ok(self.batch_work(ticket, id, goal, clients, wait, ask))
    }

    /// Sends a BATCH request to nodes: the operation, the test and the argument for each.
    fn batch_work(
        &mut self,
        ticket: u64,
        batch: u64,
        goal: Goal,
        nids: Vec<Nid>,
        timeout: Nanos,
        each: impl Fn(&Nid) -> (BatchOp, u32, u32),
    ) -> Option<Answer> {
        let sid = self.session.as_ref().map_or(Sid::NONE, |session| session.sid);
        let mut work = Work::new(Some(ticket), goal, timeout);
        self.give_all(&mut work, Service::Batch, nids, |_, nid| {
            let (op, test, arg) = each(nid);
            let request = BatchRequest { reply_bits: 0, sid, batch, op: op as u32, test, arg };
            (Body::BatchRequest(request), Vec::new())
        });
        self.put_to_work(work)
    }

    fn question(
        &mut self,
        ticket: u64,
        service: Service,
        nids: Vec<Nid>,
        body: Body,
        timeout: u32,
    ) -> Option<Answer> {
        let wait = Nanos::from_secs(u64::from(timeout)).clamp(QUESTION_MIN, QUESTION_MAX);
        let mut work = Work::new(Some(ticket), Goal::Tell, wait);
        self.give_all(&mut work, service, nids, |_, _| (body, Vec::new()));
        self.put_to_work(work)
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
            let id = self.give(nid, service, body, list, work.timeout);
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
        self.orders.push_back(Order { id, peer, service, features, body, list, timeout });
        id
    }

    /// Waits for the nodes that were asked; if there are none, this is the answer.
    fn put_to_work(&mut self, work: Work) -> Option<Answer> {
        if !work.is_over() || !work.goal.only_tells() {
            self.work = Some(work);
            return None;
        }
        if let Some(session) = &mut self.session {
            session.sweep();
        }
        Some(Answer::Said(Vec::new()))
    }

    /// All nodes that were asked have answered.
    fn finish(&mut self, now: Time) {
        let Some(mut work) = self.work.take() else { return };
        match core::mem::replace(&mut work.goal, Goal::Tell) {
            Goal::Tell => {}
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
                    // Also if nodes failed: it is in their lists now, and counts there.
                    batch.tests.push((*test).clone());
                }
                if good {
                    return self.add_clients(work, &test);
                }
            }
            Goal::NewSession { ticket, session } => {
                let view = self.open(now, *session);
                return self.answers.push_back((ticket, Ok(Answer::Session(view))));
            }
            Goal::EndSession { .. } | Goal::Idle => self.shut(),
        }
        if let Some(session) = &mut self.session {
            session.sweep();
        }
        let (ticket, said) = work.answer();
        self.answers.extend(ticket.map(|ticket| (ticket, Ok(Answer::Said(said)))));
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

    fn shut(&mut self) {
        self.session = None;
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
