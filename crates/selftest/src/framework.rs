//! The framework services: session, batches, tests, counters. They live on CPU partition 0 and
//! reach the workers by values [LST-12] to [LST-15].

mod access;
mod batch;
mod client_stats;
mod reply;
mod session;

use std::collections::VecDeque;

use crate::tunables::Tunables;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::home_of;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{
    BatchOp, BatchReply, BatchRequest, Body, BrwCheck, BrwOp, CONCURRENCY_MAX, Counters,
    DebugReply, FEATURE_BULK_LEN, FEATURES_KNOWN, FrameworkCounters, JoinReply, MakeSessionReply,
    MakeSessionRequest, Message, Name, RemoveSessionReply, RemoveSessionRequest, Role, Service,
    Sid, StatReply, StatRequest, TestParams, TestReply, TestRequest, VERSION,
};

use crate::counters::lnet_to_wire;
use crate::cpt_message::{
    FetchError, FrameworkRequest, InstanceId, OnError, Share, Stop, Ticket, ToFramework, ToWorker,
    Work,
};
use crate::errno;
use crate::limits::{
    CLIENT_TESTS_MAX, DESTINATIONS_MAX, FRAMEWORK_MAX, PAGE, STATS_GATHERS_MAX, UNITS_MAX,
};
use crate::load::{Plan, Test};
use crate::policy::ServicePolicy;
use crate::slab::Slab;
use batch::{Batch, Client};
use client_stats::StatsGather;
use session::{EndedSessions, Maker, Session};

/// The framework of one node.
#[derive(Debug)]
pub(crate) struct Framework {
    cpts: u16,
    policy: ServicePolicy,
    /// Seconds without a framework request after which the session is dropped; 0 never.
    timeout: u32,
    session: Option<Session>,
    expires: Time,
    epochs: u64,
    instances: u64,
    zombies: EndedSessions,
    /// TEST requests whose destinations are being fetched.
    fetches: Vec<Fetch>,
    /// STAT requests whose counters are being collected.
    gathers: Slab<Gather>,
    /// Requests for client statistics whose shares are being collected.
    stats_gathers: Slab<StatsGather>,
    /// Whether statistics of clients are kept and reported.
    reports_stats: bool,
    orders: VecDeque<(u16, ToWorker)>,
}

/// What becomes of a request.
enum Outcome {
    /// This is the reply.
    Reply(Body),
    /// There is none.
    Silence,
    /// It comes later.
    Later,
}

/// A client TEST without its destinations yet.
#[derive(Debug)]
struct Fetch {
    ticket: Ticket,
    epoch: u64,
    batch: u64,
    work: Work,
}

/// A STAT without all workers' shares yet.
#[derive(Debug)]
struct Gather {
    ticket: Ticket,
    missing: u16,
    sum: Share,
}

/// What the world may know of a node's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub sid: Sid,
    /// Its name.
    pub name: Name,
    /// Its features.
    pub features: u32,
    /// Batches that run.
    pub active_batches: u32,
}

impl Framework {
    pub(crate) fn new(cpts: u16, tunables: &Tunables) -> Framework {
        Framework {
            cpts: cpts.max(1),
            policy: ServicePolicy::default(),
            timeout: tunables.session_timeout.clamp(0, i64::from(u32::MAX)) as u32,
            session: None,
            expires: Time::NEVER,
            epochs: 0,
            instances: 0,
            zombies: EndedSessions::new(),
            fetches: Vec::new(),
            gathers: Slab::new(FRAMEWORK_MAX.saturating_mul(u32::from(cpts.max(1)))),
            stats_gathers: Slab::new(STATS_GATHERS_MAX),
            reports_stats: tunables.selftest_client_stats != 0,
            orders: VecDeque::new(),
        }
    }

    /// The session in force.
    pub(crate) fn session(&self) -> Option<SessionInfo> {
        self.session.as_ref().map(|session| SessionInfo {
            sid: session.sid,
            name: session.name,
            features: session.features,
            active_batches: session.active_batches(),
        })
    }

    /// Takes in what a worker says.
    pub(crate) fn accept(&mut self, now: Time, news: ToFramework) {
        match news {
            ToFramework::Request(request) => self.request(now, request),
            ToFramework::Compared { console, same_node, request } => {
                self.compared(now, console, same_node, &request);
            }
            ToFramework::Fetched { ticket, list } => self.fetched(ticket, list),
            ToFramework::Ended { instance, units } => {
                let mine =
                    self.session.as_mut().is_some_and(|session| session.ended(instance, units));
                if !mine {
                    self.zombies.ended(instance, units);
                }
            }
            ToFramework::Counted { gather, share } => self.counted(now, gather, &share),
            ToFramework::Measured { gather, share } => self.measured(gather, &share),
        }
    }

    /// Once per loop turn: drops a session that got no request in time. No node is informed
    /// [LST-12]. And stops batches that have run for as long as they were to [LST-27].
    pub(crate) fn drive(&mut self, now: Time) {
        if self.expires <= now {
            self.end_session();
        }
        let Some(session) = &mut self.session else { return };
        while let Some(batch) = session.take_overdue(now) {
            let how = Stop::Gently;
            order_clients(&mut self.orders, batch, |instance| ToWorker::Stop { instance, how });
        }
    }

    /// When the session, or a batch of it, ends by itself.
    pub(crate) fn next_deadline(&self) -> Time {
        let next_stop = self.session.as_ref().map_or(Time::NEVER, Session::next_stop);
        self.expires.min(next_stop)
    }

    /// The next value for a worker.
    pub(crate) fn take_order(&mut self) -> Option<(u16, ToWorker)> {
        self.orders.pop_front()
    }

    fn request(&mut self, now: Time, request: FrameworkRequest) {
        self.drive(now);
        match self.to_compare(&request.from) {
            None => self.answer(now, &request),
            Some((console, home)) => {
                let request = Box::new(request);
                self.order(home, ToWorker::Compare { console, request });
            }
        }
    }

    /// Whether a request came from another NID of the console's node is known.
    fn compared(&mut self, now: Time, console: Nid, same_node: bool, request: &FrameworkRequest) {
        self.drive(now);
        if let Some(session) = self.session.as_mut().filter(|session| session.console == console)
            && same_node
        {
            session.note_nid(request.from);
        }
        self.answer(now, request);
    }

    fn answer(&mut self, now: Time, request: &FrameworkRequest) {
        let FrameworkRequest { ticket, from, message } = request;
        let ticket = *ticket;
        let outcome = match self.disagreement(message) {
            Some(body) => {
                self.send(ticket, FEATURES_KNOWN, body);
                self.arm_timer(now, from);
                return;
            }
            None => match self.forbidden(from, &message.body) {
                Some(body) => Outcome::Reply(body),
                None => self.serve(now, ticket, from, message),
            },
        };
        self.arm_timer(now, from);
        match outcome {
            Outcome::Reply(body) => self.send(ticket, self.features(), body),
            Outcome::Silence => self.order(ticket.cpt, ToWorker::Silence { ticket }),
            Outcome::Later => {}
        }
    }

    fn serve(&mut self, now: Time, ticket: Ticket, from: &Nid, message: &Message) -> Outcome {
        match &message.body {
            Body::MakeSessionRequest(wanted) => {
                let controlled = self.policy.allows_control(from);
                let maker = Maker { console: *from, home: ticket.cpt, controlled };
                Outcome::Reply(self.make_session(now, maker, message.features, wanted))
            }
            Body::RemoveSessionRequest(wanted) => Outcome::Reply(self.remove_session(wanted)),
            Body::DebugRequest(_) => Outcome::Reply(self.debug()),
            Body::TestRequest(wanted) => self.test(ticket, message.features, message.order, wanted),
            Body::BatchRequest(wanted) => self.batch(now, wanted),
            Body::StatRequest(wanted) => self.stat(ticket, wanted),
            Body::ClientStatsRequest(wanted) => self.client_stats(ticket, wanted),
            // This node is no console.
            Body::JoinRequest(_) => Outcome::Reply(Body::JoinReply(JoinReply {
                status: errno::ESRCH,
                sid: Sid::NONE,
                timeout: 0,
                name: Name::EMPTY,
            })),
            _ => Outcome::Silence,
        }
    }

    /// The EPROTO reply, when version or features do not agree [LST-2] [LST-15].
    fn disagreement(&self, message: &Message) -> Option<Body> {
        let unset = Sid { nid: 0, stamp: 0 };
        let unknown = message.features & !FEATURES_KNOWN != 0;
        let sid = match (&message.body, &self.session) {
            _ if message.version != VERSION => unset,
            (Body::DebugRequest(_) | Body::MakeSessionRequest(_), _) if unknown => unset,
            (Body::DebugRequest(_) | Body::MakeSessionRequest(_) | Body::JoinRequest(_), _) => {
                return None;
            }
            (_, Some(session)) if session.features != message.features => session.sid,
            _ => return None,
        };
        reply::refusal(&message.body, errno::EPROTO, sid)
    }

    /// Any framework request of its console, even one that failed, gives the session its full time
    /// again [LST-12] [LST-31].
    fn arm_timer(&mut self, now: Time, from: &Nid) {
        if !self.may_change_session(from) {
            return;
        }
        self.expires = match (&self.session, self.timeout) {
            (Some(_), timeout @ 1..) => now + Nanos::from_secs(u64::from(timeout)),
            _ => Time::NEVER,
        };
    }

    fn sid(&self) -> Sid {
        self.session.as_ref().map_or(Sid::NONE, |session| session.sid)
    }

    /// Features of a reply [LST-15].
    fn features(&self) -> u32 {
        self.session.as_ref().map_or(FEATURES_KNOWN, |session| session.features)
    }

    fn make_session(
        &mut self,
        now: Time,
        maker: Maker,
        features: u32,
        wanted: &MakeSessionRequest,
    ) -> Body {
        let timeout = self.timeout;
        let takes_over = wanted.force != 0 && self.may_take_over(&maker.console);
        let answer = |status, sid, name| {
            Body::MakeSessionReply(MakeSessionReply { status, sid, timeout, name })
        };
        if wanted.sid.is_any() || !wanted.name.is_terminated() {
            return answer(errno::EINVAL, self.sid(), Name::EMPTY);
        }
        match &mut self.session {
            Some(session) if session.sid == wanted.sid => {
                session.references = session.references.saturating_add(1);
                return answer(0, wanted.sid, Name::EMPTY);
            }
            Some(session) if !takes_over => {
                return answer(errno::EBUSY, session.sid, session.name);
            }
            _ => {}
        }
        self.end_session();
        self.epochs += 1;
        self.session = Some(Session::new(now, self.epochs, features, maker, wanted));
        for cpt in 0..self.cpts {
            self.order(cpt, ToWorker::NewSession);
        }
        answer(0, wanted.sid, Name::EMPTY)
    }

    fn remove_session(&mut self, wanted: &RemoveSessionRequest) -> Body {
        let status = match &mut self.session {
            _ if wanted.sid.is_any() => errno::EINVAL,
            None => errno::ESRCH,
            Some(session) if session.sid != wanted.sid => errno::EBUSY,
            Some(session) if session.references > 1 => {
                session.references -= 1;
                0
            }
            Some(_) => {
                self.end_session();
                0
            }
        };
        Body::RemoveSessionReply(RemoveSessionReply { status, sid: self.sid() })
    }

    /// Ends the session; units that are in an RPC make it linger as a zombie.
    fn end_session(&mut self) {
        self.expires = Time::NEVER;
        let Some(session) = self.session.take() else { return };
        self.zombies.adopt(&session);
        for client in session.batches().iter().flat_map(Batch::clients) {
            for cpt in &client.cpts {
                self.orders.push_back((*cpt, ToWorker::Remove { instance: client.instance }));
            }
        }
    }

    fn debug(&self) -> Body {
        let (status, timeout, name) = match &self.session {
            Some(session) => (0, self.timeout, session.name),
            None => (errno::ESRCH, 0, Name::EMPTY),
        };
        Body::DebugReply(DebugReply {
            status,
            sid: self.sid(),
            timeout,
            batches: self.mark(),
            name,
        })
    }

    fn test(
        &mut self,
        ticket: Ticket,
        features: u32,
        order: ByteOrder,
        wanted: &TestRequest,
    ) -> Outcome {
        match self.examine_test(features, wanted) {
            Err(status) => self.test_reply(status),
            Ok(None) => {
                let Some(batch) = self.session.as_mut().and_then(|s| s.obtain_batch(wanted.batch))
                else {
                    return self.test_reply(errno::ENOMEM);
                };
                // Request buffers are posted all the time: nothing to reserve.
                batch.add_server();
                self.test_reply(0)
            }
            Ok(Some((epoch, work))) => {
                let count = wanted.destinations;
                self.fetches.push(Fetch { ticket, epoch, batch: wanted.batch, work });
                let fetch = ToWorker::Fetch {
                    ticket,
                    bulk_bits: wanted.bulk_bits,
                    count,
                    len: list_len(count, features),
                    order,
                };
                self.order(ticket.cpt, fetch);
                Outcome::Later
            }
        }
    }

    /// All checks of a TEST, in the order in which kernels make them [LST-14]. `Ok(None)` is a
    /// server instance.
    fn examine_test(
        &self,
        features: u32,
        wanted: &TestRequest,
    ) -> Result<Option<(u64, Work)>, u32> {
        let service = match Service::from_id(wanted.service) {
            Some(service @ (Service::Brw | Service::Ping)) => service,
            _ => return Err(errno::EINVAL),
        };
        let client = wanted.role == Role::Client;
        if wanted.loops == 0
            || !(1..=CONCURRENCY_MAX).contains(&wanted.concurrency)
            || wanted.sid.is_any()
            || wanted.destinations > DESTINATIONS_MAX
            || (client && wanted.destinations == 0)
        {
            return Err(errno::EINVAL);
        }
        let session = match &self.session {
            Some(session) if session.sid == wanted.sid => session,
            _ => return Err(errno::ENOENT),
        };
        if let Some(batch) = session.batch(wanted.batch) {
            if batch.is_active() {
                return Err(errno::EBUSY);
            }
            if batch.is_full() {
                return Err(errno::ENOMEM);
            }
        }
        if !client {
            return Ok(None);
        }
        let plan = plan_of(service, features, &wanted.params).ok_or(errno::EINVAL)?;
        let units = u64::from(wanted.destinations) * u64::from(wanted.concurrency);
        let taken = u64::from(session.units()) + u64::from(self.zombies.units());
        if taken + units > u64::from(UNITS_MAX) || session.client_tests() >= CLIENT_TESTS_MAX {
            return Err(errno::ENOMEM);
        }
        let work = Work {
            plan,
            loops: u32::try_from(wanted.loops).ok(),
            concurrency: wanted.concurrency,
            interval: interval_of(wanted.rate),
            on_error: if wanted.stop_on_error == 0 { OnError::GoOn } else { OnError::Stop },
        };
        Ok(Some((session.epoch, work)))
    }

    /// The destinations of a TEST are here: makes its units on the partitions that own the
    /// destinations.
    fn fetched(&mut self, ticket: Ticket, list: Result<Vec<ProcessId>, FetchError>) {
        let Some(at) = self.fetches.iter().position(|fetch| fetch.ticket == ticket) else { return };
        let fetch = self.fetches.swap_remove(at);
        let status = match list {
            Ok(list) => self.add_client(&fetch, list),
            Err(FetchError::Failed) => None,
            Err(FetchError::NoMemory) => Some(errno::ENOMEM),
            Err(FetchError::Bad) => Some(errno::EINVAL),
        };
        match status {
            Some(status) => {
                let body = Body::TestReply(TestReply { status, sid: self.sid() });
                self.send(ticket, self.features(), body);
            }
            None => self.order(ticket.cpt, ToWorker::Silence { ticket }),
        }
    }

    /// The status of the TEST, or `None` when its session is over: no reply.
    fn add_client(&mut self, fetch: &Fetch, list: Vec<ProcessId>) -> Option<u32> {
        let zombies = self.zombies.units();
        let session = self.session.as_mut().filter(|session| session.epoch == fetch.epoch)?;
        let units = list.len() as u32 * fetch.work.concurrency;
        // Other tests may have come while the list was fetched.
        if session.units() + zombies + units > UNITS_MAX {
            return Some(errno::ENOMEM);
        }
        let Some(batch) = session.obtain_batch(fetch.batch) else { return Some(errno::ENOMEM) };
        if batch.is_active() {
            return Some(errno::EBUSY);
        }
        if batch.is_full() {
            return Some(errno::ENOMEM);
        }
        self.instances += 1;
        let instance = InstanceId(self.instances);
        let all = list.len() as u64;
        let mut by_home: Vec<Vec<ProcessId>> = vec![Vec::new(); usize::from(self.cpts)];
        for process in list {
            by_home[usize::from(home_of(&process.nid, self.cpts))].push(process);
        }
        let mut cpts = Vec::new();
        for (cpt, destinations) in (0..self.cpts).zip(by_home) {
            if !destinations.is_empty() {
                // Partitions share the rate by what they have to do.
                let interval = Nanos(fetch.work.interval.0 * all / destinations.len() as u64);
                let work = Work { interval, ..fetch.work };
                let add = ToWorker::Add { instance, work, destinations };
                self.orders.push_back((cpt, add));
                cpts.push(cpt);
            }
        }
        batch.add_client(Client { instance, cpts, units, active: 0 });
        session.controlled = true;
        Some(0)
    }

    fn test_reply(&self, status: u32) -> Outcome {
        Outcome::Reply(Body::TestReply(TestReply { status, sid: self.sid() }))
    }

    fn batch(&mut self, now: Time, wanted: &BatchRequest) -> Outcome {
        let reply = |status, sid, active| {
            Outcome::Reply(Body::BatchReply(BatchReply { status, sid, active, time: 0 }))
        };
        let sid = self.sid();
        let Some(session) = self.session.as_mut().filter(|session| session.sid == wanted.sid)
        else {
            return reply(errno::ESRCH, sid, 0);
        };
        let Some(batch) = session.batch_mut(wanted.batch) else {
            return reply(errno::ENOENT, sid, 0);
        };
        match BatchOp::from_number(wanted.op) {
            None => Outcome::Silence,
            Some(BatchOp::Query) => match batch.query(wanted.test as i32) {
                Ok(active) => reply(0, sid, active),
                Err(status) => reply(status, sid, 0),
            },
            Some(BatchOp::Run) => {
                let stops_at = match wanted.arg {
                    0 => Time::NEVER,
                    seconds => now + Nanos::from_secs(u64::from(seconds)),
                };
                let active = batch.is_active();
                // A batch that runs goes on, up to the time that is asked for now, if one is.
                if !active || wanted.arg > 0 {
                    batch.stops_at = stops_at;
                }
                if !active {
                    batch.activate();
                    let run = |instance| ToWorker::Run { instance };
                    order_clients(&mut self.orders, batch, run);
                }
                reply(0, sid, 0)
            }
            Some(BatchOp::Stop) => {
                batch.stops_at = Time::NEVER;
                let how = if wanted.arg == 0 { Stop::Gently } else { Stop::AtOnce };
                let stop = |instance| ToWorker::Stop { instance, how };
                order_clients(&mut self.orders, batch, stop);
                reply(0, sid, 0)
            }
        }
    }

    fn stat(&mut self, ticket: Ticket, wanted: &StatRequest) -> Outcome {
        let status = match &self.session {
            _ if wanted.sid.is_any() => errno::EINVAL,
            Some(session) if session.sid == wanted.sid => 0,
            _ => errno::ESRCH,
        };
        if status != 0 {
            return match reply::refusal(&Body::StatRequest(*wanted), status, self.sid()) {
                Some(body) => Outcome::Reply(body),
                None => Outcome::Silence,
            };
        }
        let gather = Gather { ticket, missing: self.cpts, sum: Share::default() };
        let Ok(gather) = self.gathers.insert(gather) else { return Outcome::Silence };
        for cpt in 0..self.cpts {
            self.order(cpt, ToWorker::Count { gather });
        }
        Outcome::Later
    }

    fn counted(&mut self, now: Time, index: u32, share: &Share) {
        let Some(gather) = self.gathers.get_mut(index) else { return };
        gather.sum.rpc.add(&share.rpc);
        gather.sum.errors.add(&share.errors);
        gather.sum.lnet.add(&share.lnet);
        gather.missing -= 1;
        if gather.missing > 0 {
            return;
        }
        let Some(Gather { ticket, sum, .. }) = self.gathers.remove(index) else { return };
        let framework = FrameworkCounters {
            running_ms: self
                .session
                .as_ref()
                .map_or(0, |session| (now.since(session.made).0 / 1_000_000) as u32),
            active_batches: self.session.as_ref().map_or(0, Session::active_batches),
            zombie_sessions: self.zombies.sessions(),
            brw_errors: sum.errors.brw as u32,
            ping_errors: sum.errors.ping as u32,
        };
        let counters =
            Counters { framework, rpc: sum.rpc.to_wire(), lnet: lnet_to_wire(&sum.lnet) };
        let body = Body::StatReply(StatReply { status: 0, sid: self.sid(), counters });
        self.send(ticket, self.features(), body);
    }

    fn send(&mut self, ticket: Ticket, features: u32, body: Body) {
        self.order(ticket.cpt, ToWorker::Reply { ticket, features, body });
    }

    fn order(&mut self, cpt: u16, order: ToWorker) {
        self.orders.push_back((cpt, order));
    }
}

/// Gives an order for every client instance to every partition that has units of it.
fn order_clients(
    orders: &mut VecDeque<(u16, ToWorker)>,
    batch: &Batch,
    order: impl Fn(InstanceId) -> ToWorker,
) {
    for client in batch.clients() {
        orders.extend(client.cpts.iter().map(|cpt| (*cpt, order(client.instance))));
    }
}

/// The time from one RPC to the next at so many per second; zero for no limit.
fn interval_of(rate: u32) -> Nanos {
    Nanos(1_000_000_000_u64.checked_div(u64::from(rate)).unwrap_or(0))
}

/// Bytes of a list of destinations on the wire [LST-6]: 12 per entry, or whole pages
/// in a session without the feature "bulk parameters in bytes".
fn list_len(count: u32, features: u32) -> u32 {
    if features & FEATURE_BULK_LEN != 0 {
        return count * 12;
    }
    count.div_ceil(PAGE / 12) * PAGE
}

/// What a client instance does; `None` when it is wrong or dangerous [LST-14] [LST-19].
fn plan_of(service: Service, features: u32, params: &TestParams) -> Option<Plan> {
    let (rw, len, check, offset) = match (service, *params) {
        (Service::Ping, _) => return Plan::new(Test::Ping, features, 0).ok(),
        (_, TestParams::BrwV1 { rw, check, len, offset }) => {
            (u32::from(rw), len, u32::from(check), offset)
        }
        (_, TestParams::BrwV0 { rw, pages, check }) => (rw, pages.checked_mul(PAGE)?, check, 0),
        _ => return None,
    };
    if offset % 8 != 0 {
        return None;
    }
    let check = BrwCheck::from_number(check)?;
    let test = match BrwOp::from_number(rw)? {
        BrwOp::Read => Test::Read { len, check },
        BrwOp::Write => Test::Write { len, check },
    };
    Plan::new(test, features, offset).ok()
}

#[cfg(test)]
mod tests;
