//! What each command comes to: an answer at once, or orders for nodes.

use std::collections::BTreeSet;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    BatchOp, BatchRequest, Body, CLIENT_STATS_LEN_MAX, ClientStatsRequest, DebugRequest,
    MakeSessionRequest, RemoveSessionRequest, Service, Sid, StatRequest,
};

use super::command::{Answer, BatchSide, Command, NewTest};
use super::refusal::Refusal;
use super::session::{self, Session};
use super::times::{ACTION, QUERY_MAX, QUESTION_MAX, QUESTION_MIN};
use super::work::{Goal, Work};
use super::{Console, load};

/// The request that takes a node into a session; `force` ends another one that it is in.
pub(super) fn invitation(session: &Session, force: bool) -> Body {
    let (sid, name) = (session.sid, session.name);
    let force = u32::from(force);
    Body::MakeSessionRequest(MakeSessionRequest { reply_bits: 0, sid, force, name })
}

impl Console {
    /// Begins a command; `None` when its answer has to wait for nodes.
    pub(super) fn begin(
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
            self.end_session(now, Some(ticket), Goal::NewSession(Box::new(session)));
            return Ok(None);
        }
        let session = self.session.as_mut().ok_or(Refusal::NoSession)?;
        if command == Command::ShowSession {
            // It shows the key, and does not count as use of the session.
            return Ok(Some(Answer::Session(session.view())));
        }
        if session.key != key {
            return Err(Refusal::OtherKey);
        }
        self.ends_at = match session.timeout {
            0 => Time::NEVER,
            seconds => now + Nanos::from_secs(u64::from(seconds)),
        };
        Ok(Some(match command {
            Command::NewSession { .. } | Command::ShowSession => unreachable!("begun above"),
            Command::EndSession => {
                self.end_session(now, Some(ticket), Goal::EndSession);
                return Ok(None);
            }
            Command::EndSessionAtOnce => {
                self.end_session_at_once(now, Some(ticket), Goal::EndSession);
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
                let mut clients = session.nodes_of(found, BatchSide::Clients);
                // A client that did not answer before may still send.
                clients.retain(|nid| session.may_be_in(nid));
                let id = found.id;
                let stop = |_: &Nid| (BatchOp::Stop, 0, u32::from(force));
                let work = Work::new(Some(ticket), Goal::Report, ACTION).brief();
                return Ok(self.batch_work(work, id, clients, stop));
            }
            Command::Query { batch, test, timeout } => {
                return self.query(ticket, batch, test, timeout);
            }
            Command::ClientStats { batch, test, timeout } => {
                return self.client_stats(ticket, &batch, test, timeout);
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
        let body = invitation(session, session.force);
        let mut work = Work::new(Some(ticket), Goal::Report, ACTION);
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
        let work = self.leave(Work::new(Some(ticket), Goal::Report, ACTION), leaving);
        self.put_to_work(work)
    }

    /// Lets all nodes leave the session, which is over then; also those that did not answer, as
    /// they may answer now. `ticket` names the caller that waits for it.
    pub(super) fn leave_all(&mut self, now: Time, ticket: Option<u64>, goal: Goal) {
        let unreached = core::mem::take(&mut self.unreached);
        let mut nids = self.session.as_ref().map(Session::members_to_leave).unwrap_or_default();
        nids.retain(|nid| !unreached.contains(nid));
        let work = self.leave(Work::new(ticket, goal, ACTION).brief(), nids);
        let over = work.is_over();
        self.work = Some(work);
        if over {
            self.finish(now);
        }
    }

    fn leave(&mut self, mut work: Work, nids: Vec<Nid>) -> Work {
        let sid = self.session.as_ref().map_or(Sid::NONE, |session| session.sid);
        let body = Body::RemoveSessionRequest(RemoveSessionRequest { reply_bits: 0, sid });
        self.give_all(&mut work, Service::RemoveSession, nids, |_, _| (body, Vec::new()));
        work
    }

    fn add_test(&mut self, ticket: u64, test: NewTest) -> Result<(), Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NoSession)?;
        test.examine(session.features)?;
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
        if let (1.., Some(nid)) = (test.rate, clients.iter().find(|nid| !session.is_ours(nid))) {
            return Err(Refusal::NotOurs { what: "a rate".to_owned(), nid: *nid });
        }
        let fields = self.session_fields(batch.id);
        let request = load::to_server(&test, fields, clients.len(), servers.len());
        let goal = Goal::Servers { test: Box::new(test) };
        let mut work = Work::new(Some(ticket), goal, ACTION);
        let body = Body::TestRequest(request);
        self.give_all(&mut work, Service::Test, servers, |_, _| (body, Vec::new()));
        self.work = Some(work);
        Ok(())
    }

    /// The servers of a test are ready: its clients are next.
    pub(super) fn add_clients(&mut self, mut work: Work, test: &NewTest) {
        let Some(session) = &self.session else { return };
        let Ok(batch) = session.batch(&test.batch) else { return };
        let fields = self.session_fields(batch.id);
        let servers = session.members(&test.to).to_vec();
        let clients = session.members(&test.from).to_vec();
        let body = Body::TestRequest(load::to_client(test, fields));
        work.goal = Goal::Report;
        self.give_all(&mut work, Service::Test, clients, |index, _| {
            (body, load::destinations(test, index, &servers))
        });
        self.work = Some(work);
    }

    fn session_fields(&self, batch: u64) -> load::SessionFields {
        let session = self.session.as_ref();
        load::SessionFields {
            sid: session.map_or(Sid::NONE, |session| session.sid),
            batch,
            features: session.map_or(0, |session| session.features),
        }
    }

    fn run(&mut self, ticket: u64, batch: String, timeout: u32) -> Result<Option<Answer>, Refusal> {
        let session = self.session.as_mut().ok_or(Refusal::NoSession)?;
        let found = session.batch(&batch)?;
        let clients = session.nodes_of(found, BatchSide::Clients);
        if clients.is_empty() {
            return Err(Refusal::EmptyBatch(batch));
        }
        session.all_active(&clients)?;
        let found = session.batch_mut(&batch)?;
        found.running = true;
        let id = found.id;
        let run = |_: &Nid| (BatchOp::Run, 0, timeout);
        let work = Work::new(Some(ticket), Goal::Report, ACTION);
        Ok(self.batch_work(work, id, clients, run))
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
        let mut clients = session.nodes_of(found, BatchSide::Clients);
        let places = session.client_places(found, test);
        if test > 0 {
            clients.retain(|nid| places.contains_key(nid));
        }
        let id = found.id;
        let goal = if test == 0 { Goal::SeenIdle { batch } } else { Goal::Report };
        let wait = Nanos::from_secs(u64::from(timeout)).clamp(QUESTION_MIN, QUERY_MAX);
        let ask = |nid: &Nid| (BatchOp::Query, places.get(nid).copied().unwrap_or(0), 0);
        Ok(self.batch_work(Work::new(Some(ticket), goal, wait), id, clients, ask))
    }

    fn client_stats(
        &mut self,
        ticket: u64,
        batch: &str,
        test: u32,
        timeout: u32,
    ) -> Result<Option<Answer>, Refusal> {
        let session = self.session.as_ref().ok_or(Refusal::NoSession)?;
        let found = session.batch(batch)?;
        let tests = found.tests.len() as u32;
        if !(1..=tests).contains(&test) {
            return Err(Refusal::NoTest { batch: batch.to_owned(), test, tests });
        }
        let places = session.client_places(found, test);
        let (sid, id) = (session.sid, found.id);
        let clients: Vec<Nid> = places
            .keys()
            .copied()
            .filter(|nid| session.is_active(nid) && session.is_ours(nid))
            .collect();
        let wait = Nanos::from_secs(u64::from(timeout)).clamp(QUESTION_MIN, QUESTION_MAX);
        let mut work = Work::new(Some(ticket), Goal::Report, wait);
        self.give_all(&mut work, Service::ClientStats, clients, |_, nid| {
            let test = places.get(nid).copied().unwrap_or(0);
            let (reply_bits, bulk_bits, room) = (0, 0, CLIENT_STATS_LEN_MAX);
            let request = ClientStatsRequest { reply_bits, bulk_bits, sid, batch: id, test, room };
            (Body::ClientStatsRequest(request), Vec::new())
        });
        Ok(self.put_to_work(work))
    }

    /// Sends a BATCH request to nodes: the operation, the test and the argument for each.
    fn batch_work(
        &mut self,
        mut work: Work,
        batch: u64,
        nids: Vec<Nid>,
        each: impl Fn(&Nid) -> (BatchOp, u32, u32),
    ) -> Option<Answer> {
        let sid = self.session.as_ref().map_or(Sid::NONE, |session| session.sid);
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
        let mut work = Work::new(Some(ticket), Goal::Report, wait);
        self.give_all(&mut work, service, nids, |_, _| (body, Vec::new()));
        self.put_to_work(work)
    }
}
