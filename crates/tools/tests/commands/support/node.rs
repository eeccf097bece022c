//! A node, as a console sees it [LST-12] to [LST-15].

use std::collections::BTreeMap;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::srpc::{
    BatchOp, BatchReply, BatchRequest, Body, Counters, DebugReply, FrameworkCounters, LnetCounters,
    MakeSessionReply, MakeSessionRequest, Message, Name, RemoveSessionReply, Role, RpcCounters,
    Sid, StatReply, TestReply, TestRequest, VERSION,
};

const ESRCH: u32 = 3;
const EBUSY: u32 = 16;

/// Seconds without a request after which a node would leave the session.
const TIMEOUT: u32 = 100;

/// A node with selftest.
pub struct Node {
    /// Whether it answers.
    pub up: bool,
    /// From when on it answers again.
    pub back_at: Time,
    /// The features it has.
    pub features: u32,
    /// Whether tests get wrong data.
    pub corrupt: bool,
    session: Option<Session>,
    sent: u32,
    received: u32,
}

struct Session {
    sid: Sid,
    name: Name,
    since: Time,
    errors: u32,
    batches: BTreeMap<u64, Vec<Instance>>,
}

struct Instance {
    role: Role,
    endless: bool,
    units: u32,
    runs_until: Time,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            up: true,
            back_at: Time::NEVER,
            features: 1,
            corrupt: false,
            session: None,
            sent: 0,
            received: 0,
        }
    }
}

impl Node {
    /// A second of work: sends and receives for the running tests.
    pub fn second(&mut self, now: Time) {
        let Some(session) = &self.session else { return };
        let instances = session.batches.values().flatten();
        let running = instances.filter(|one| one.runs_until >= now).count() as u32;
        self.sent += 1 + 300 * running;
        self.received += 1 + 200 * running;
    }

    /// The reply to a request.
    pub fn answer(&mut self, now: Time, request: &Body) -> Option<Message> {
        self.up |= now >= self.back_at;
        if !self.up {
            return None;
        }
        self.sent += 1;
        self.received += 1;
        let body = match request {
            Body::MakeSessionRequest(request) => self.make(now, request),
            Body::RemoveSessionRequest(request) => {
                let status = self.check(request.sid);
                if status == 0 {
                    self.session = None;
                }
                Body::RemoveSessionReply(RemoveSessionReply { status, sid: self.sid() })
            }
            Body::DebugRequest(_) => Body::DebugReply(DebugReply {
                status: if self.session.is_some() { 0 } else { ESRCH },
                sid: self.sid(),
                timeout: TIMEOUT,
                batches: 0,
                name: self.session.as_ref().map_or(Name::EMPTY, |session| session.name),
            }),
            Body::BatchRequest(request) => self.batch(now, request),
            Body::TestRequest(request) => self.test(request),
            Body::StatRequest(request) => Body::StatReply(StatReply {
                status: self.check(request.sid),
                sid: self.sid(),
                counters: self.counters(now),
            }),
            other => panic!("no console asks {other:?}"),
        };
        Some(Message { order: ByteOrder::Little, version: VERSION, features: self.features, body })
    }

    fn sid(&self) -> Sid {
        self.session.as_ref().map_or(Sid::NONE, |session| session.sid)
    }

    fn check(&self, sid: Sid) -> u32 {
        match &self.session {
            None => ESRCH,
            Some(session) if session.sid != sid => EBUSY,
            Some(_) => 0,
        }
    }

    fn make(&mut self, now: Time, request: &MakeSessionRequest) -> Body {
        let held = self.session.as_ref().filter(|session| session.sid != request.sid);
        let (status, name) = match held {
            Some(session) if request.force == 0 => (EBUSY, session.name),
            _ => {
                self.session = Some(Session {
                    sid: request.sid,
                    name: request.name,
                    since: now,
                    errors: 0,
                    batches: BTreeMap::new(),
                });
                (0, Name::EMPTY)
            }
        };
        let sid = self.sid();
        Body::MakeSessionReply(MakeSessionReply { status, sid, timeout: TIMEOUT, name })
    }

    fn test(&mut self, request: &TestRequest) -> Body {
        let status = self.check(request.sid);
        let sid = self.sid();
        if let (0, Some(session)) = (status, &mut self.session) {
            session.batches.entry(request.batch).or_default().push(Instance {
                role: request.role,
                endless: request.loops < 0,
                units: request.concurrency * request.destinations,
                runs_until: Time::ZERO,
            });
        }
        Body::TestReply(TestReply { status, sid })
    }

    fn batch(&mut self, now: Time, request: &BatchRequest) -> Body {
        let status = self.check(request.sid);
        let mut reply = BatchReply { status, sid: self.sid(), active: 0, time: 0 };
        let (0, Some(session)) = (status, &mut self.session) else {
            return Body::BatchReply(reply);
        };
        let instances = session.batches.entry(request.batch).or_default();
        let clients = instances.iter_mut().filter(|one| one.role == Role::Client);
        let a_second = now + Nanos::from_secs(1);
        if request.op == BatchOp::Run as u32 {
            for one in clients {
                one.runs_until = if one.endless { Time::NEVER } else { a_second };
                session.errors += u32::from(self.corrupt);
            }
        } else if request.op == BatchOp::Stop as u32 {
            clients.for_each(|one| one.runs_until = one.runs_until.min(a_second));
        } else if request.test == 0 {
            reply.active = clients.filter(|one| one.runs_until > now).count() as u32;
        } else {
            let one = &instances[request.test as usize - 1];
            reply.active = if one.runs_until > now { one.units } else { 0 };
        }
        Body::BatchReply(reply)
    }

    fn counters(&self, now: Time) -> Counters {
        let (since, brw_errors) =
            self.session.as_ref().map_or((now, 0), |session| (session.since, session.errors));
        let Counters { framework, rpc, lnet } = Counters::ZERO;
        let running_ms = (now.since(since).0 / 1_000_000) as u32;
        Counters {
            framework: FrameworkCounters { running_ms, brw_errors, ..framework },
            rpc: RpcCounters { sent: self.sent, received: self.received, ..rpc },
            lnet: LnetCounters {
                send_count: self.sent,
                recv_count: self.received,
                send_length: u64::from(self.sent) * 4096,
                recv_length: u64::from(self.received) * 160,
                ..lnet
            },
        }
    }
}
