//! One command's RPCs, and what the answers of nodes mean for them.

use std::collections::BTreeMap;

use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{Body, ClientStats, EXTENSIONS_MAGIC, FEATURES_KNOWN, Message, Sid};

use super::RpcOutcome;
use super::command::{Detail, NodeReply, NodeState, Reply, SessionHolder};
use super::session::Session;
use super::times::DOWN_AFTER;
use crate::body::status;
use crate::errno;
use crate::limits::REMOVALS_MAX;
use crate::rpc::{LnetErrorKind, RpcError};

/// What is done when all nodes have answered.
#[derive(Debug)]
pub(super) enum Goal {
    /// The answers are reported.
    Report,
    /// The batch has stopped if nothing of it runs any more.
    SeenIdle { batch: String },
    /// The clients of a test receive it, if all servers are ready.
    Servers { test: Box<super::NewTest> },
    /// The next session begins.
    NewSession(Box<Session>),
    /// The clients of a session that ends have answered the stop.
    Stopped,
    /// They said what still runs.
    Looked,
    /// There is no session any more.
    EndSession,
}

/// The RPCs of one command.
#[derive(Debug)]
pub(super) struct Work {
    ticket: Option<u64>,
    pub(super) goal: Goal,
    pub(super) timeout: Nanos,
    /// Whether it changes nothing: it may be ended early.
    pub(super) is_question: bool,
    /// Whether nodes that are down have a short time only.
    pub(super) is_brief: bool,
    /// By order, where the answer goes.
    missing: BTreeMap<u64, Place>,
    said: Vec<NodeReply>,
}

/// Where an answer goes, and how often its node was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    index: usize,
    asked: u32,
}

impl Work {
    pub(super) fn new(ticket: Option<u64>, goal: Goal, timeout: Nanos) -> Work {
        let (missing, said) = (BTreeMap::new(), Vec::new());
        let (is_question, is_brief) = (false, false);
        Work { ticket, goal, timeout, is_question, is_brief, missing, said }
    }

    /// The same; nodes that are down have a short time only.
    pub(super) fn brief(self) -> Work {
        Work { is_brief: true, ..self }
    }

    pub(super) fn expect(&mut self, order: u64, nid: Nid) {
        self.missing.insert(order, Place { index: self.said.len(), asked: 1 });
        let reply = Reply::None { errno: 0, why: String::new(), status: None };
        self.said.push(NodeReply { nid, state: NodeState::Unknown, reply, holder: None });
    }

    /// Waits no longer. It says nothing about the nodes that have not answered: these, each with
    /// its order.
    pub(super) fn give_up(&mut self) -> Vec<(u64, Nid)> {
        let missing = core::mem::take(&mut self.missing).into_iter();
        let each = missing.map(|(order, place)| {
            let why = "another command ended this one".to_owned();
            let errno = errno_of(RpcError::Aborted, false);
            let said = &mut self.said[place.index];
            said.reply = Reply::None { errno, why, status: None };
            (order, said.nid)
        });
        each.collect()
    }

    /// Ends an order after which its node is to be asked again, unless it was asked often enough:
    /// the node, and where its answer goes.
    pub(super) fn once_more(&mut self, order: u64) -> Option<(Nid, Place)> {
        let Place { index, asked } = *self.missing.get(&order)?;
        if asked >= REMOVALS_MAX {
            return None;
        }
        self.missing.remove(&order);
        Some((self.said[index].nid, Place { index, asked: asked + 1 }))
    }

    /// The answer to this order goes there.
    pub(super) fn expect_in(&mut self, order: u64, place: Place) {
        self.missing.insert(order, place);
    }

    pub(super) fn is_over(&self) -> bool {
        self.missing.is_empty()
    }

    /// Takes in how an order ended; whether it was the last.
    pub(super) fn take(
        &mut self,
        session: Option<&mut Session>,
        now: Time,
        outcome: &RpcOutcome,
    ) -> bool {
        let Some(place) = self.missing.remove(&outcome.rpc) else { return false };
        let said = &mut self.said[place.index];
        (said.state, said.reply) = observe(session, now, &said.nid, outcome, self.timeout);
        said.holder = outcome.reply.as_ref().ok().and_then(|message| holder(&message.body));
        self.is_over()
    }

    /// The node of an order that has not ended.
    pub(super) fn node_of(&self, order: u64) -> Option<Nid> {
        self.missing.get(&order).map(|place| self.said[place.index].nid)
    }

    /// What each node said, in the order in which they were asked.
    pub(super) fn said(&self) -> &[NodeReply] {
        &self.said
    }

    /// Nodes have left the session; of these, so many tests ran until then.
    pub(super) fn note_running(&mut self, running: &BTreeMap<Nid, u32>) {
        for said in &mut self.said {
            if let (Reply::Good(detail), Some(active)) = (&mut said.reply, running.get(&said.nid)) {
                *detail = Detail::Active(*active);
            }
        }
    }

    pub(super) fn all_good(&self) -> bool {
        self.said.iter().all(NodeReply::is_good)
    }

    /// Whether every node said that nothing runs.
    pub(super) fn all_idle(&self) -> bool {
        self.said.iter().all(|said| said.reply == Reply::Good(Detail::Active(0)))
    }

    pub(super) fn answer(self) -> (Option<u64>, Vec<NodeReply>) {
        (self.ticket, self.said)
    }
}

/// What an answer, or its absence, says of a node that had so much time; the session learns of it.
pub(super) fn observe(
    mut session: Option<&mut Session>,
    now: Time,
    nid: &Nid,
    outcome: &RpcOutcome,
    timeout: Nanos,
) -> (NodeState, Reply) {
    let long = timeout >= DOWN_AFTER;
    let before = session.as_ref().map_or(NodeState::Unknown, |session| session.state(nid));
    let (state, reply) = match &outcome.reply {
        Ok(message) => {
            let disagrees = match &mut session {
                Some(session) => !agrees(session, message),
                None => false,
            };
            let ours = session.as_ref().map(|session| session.sid);
            let state = match sid(&message.body) {
                Some(sid) if sid.is_any() => NodeState::Unknown,
                Some(sid) if Some(sid) == ours => NodeState::Active,
                Some(_) => NodeState::Busy,
                None => before,
            };
            (state, reply(message, &outcome.put, disagrees, ours))
        }
        Err(failure) => {
            let absent = is_absence(*failure, long);
            let why = failure.to_string();
            let state = if absent { NodeState::Down } else { before };
            let (errno, status) = (errno_of(*failure, long), status_of(*failure));
            (state, Reply::None { errno, why, status })
        }
    };
    if let Some(node) = session.and_then(|session| session.nodes.get_mut(nid)) {
        node.state = state;
        // A node is one of ours only if its reply says so. After it was away, or was taken into a
        // session again, another node may have its NID, so its next reply decides.
        match &outcome.reply {
            Ok(Message { body: Body::DebugReply(reply), .. }) => {
                node.ours = reply.batches == EXTENSIONS_MAGIC;
                node.was_ours = node.ours;
            }
            Ok(Message { body: Body::MakeSessionReply(_), .. }) | Err(_) => node.ours = false,
            Ok(_) => node.ours &= state == NodeState::Active,
        }
        if let Ok(message) = &outcome.reply {
            node.heard_at = now;
            node.timeout = stays_for(&message.body).unwrap_or(node.timeout);
        }
    }
    (state, reply)
}

/// Whether a node's features are the session's. The first answer of a node that makes a session
/// may lower them, and then they stay [LST-15].
fn agrees(session: &mut Session, message: &Message) -> bool {
    if message.features & !FEATURES_KNOWN != 0 {
        return false;
    }
    let joins = matches!(&message.body, Body::MakeSessionReply(reply) if reply.status == 0);
    if joins && !session.agreed {
        session.features = message.features;
        session.agreed = true;
    }
    !joins || message.features == session.features
}

/// The session a node says it is in; `None` where 0 stands for "not filled in".
fn sid(body: &Body) -> Option<Sid> {
    let sid = match body {
        Body::MakeSessionReply(reply) => reply.sid,
        Body::RemoveSessionReply(reply) => reply.sid,
        Body::DebugReply(reply) => reply.sid,
        Body::ClientStatsReply(reply) => reply.sid,
        Body::BatchReply(reply) => reply.sid,
        Body::StatReply(reply) => reply.sid,
        Body::TestReply(reply) => reply.sid,
        _ => return None,
    };
    (sid.nid != 0).then_some(sid)
}

/// After how long without a request the node leaves, where it says so.
fn stays_for(body: &Body) -> Option<Nanos> {
    let seconds = match body {
        Body::MakeSessionReply(reply) if reply.status == 0 => reply.timeout,
        Body::DebugReply(reply) if reply.status == 0 => reply.timeout,
        _ => return None,
    };
    Some(Nanos::from_secs(u64::from(seconds)))
}

fn reply(message: &Message, put: &[u8], disagrees: bool, ours: Option<Sid>) -> Reply {
    let body = &message.body;
    match (status(body), body) {
        _ if disagrees => Reply::Refused(errno::EPROTO),
        (Some(0), Body::DebugReply(reply)) => Reply::Good(Detail::Session(SessionHolder {
            name: reply.name.to_string(),
            console: reply.sid.console(),
        })),
        // It was asked as often as it may be.
        (Some(0), Body::RemoveSessionReply(reply)) if Some(reply.sid) == ours => {
            Reply::Refused(errno::EBUSY)
        }
        (Some(0), Body::BatchReply(reply)) => Reply::Good(Detail::Active(reply.active)),
        (Some(0), Body::StatReply(reply)) => {
            Reply::Good(Detail::Counters(Box::new(reply.counters)))
        }
        (Some(0), Body::ClientStatsReply(reply)) if Some(reply.sid) != ours => {
            Reply::Refused(errno::ESRCH)
        }
        (Some(0), Body::ClientStatsReply(_)) => match ClientStats::parse(put) {
            Ok(stats) => Reply::Good(Detail::ClientStats(Box::new(stats))),
            Err(error) => {
                let errno = -(errno::EBADMSG as i32);
                Reply::None { errno, why: error.to_string(), status: None }
            }
        },
        (Some(0), _) => Reply::Good(Detail::None),
        (Some(status), _) => Reply::Refused(status),
        (None, _) => Reply::Refused(errno::EBADMSG),
    }
}

/// The session that keeps a node from another one; only then its name is filled in
/// [LST-4].
fn holder(body: &Body) -> Option<SessionHolder> {
    match body {
        Body::MakeSessionReply(reply) if reply.status == errno::EBUSY => {
            Some(SessionHolder { name: reply.name.to_string(), console: reply.sid.console() })
        }
        _ => None,
    }
}

/// Whether a node that did not answer for this reason is away. Kernel consoles see only the first
/// reason; a node that refuses connections they take for active until a command needs it.
fn is_absence(failure: RpcError, long: bool) -> bool {
    match failure {
        RpcError::TimedOut => long,
        RpcError::Send(_) | RpcError::PeerLost(_) => true,
        RpcError::Bulk(_)
        | RpcError::Receive(_)
        | RpcError::BadReply
        | RpcError::Local(_)
        | RpcError::Aborted => false,
    }
}

/// The status of LNet that a failure has.
fn status_of(failure: RpcError) -> Option<Status> {
    match failure {
        RpcError::TimedOut => Some(Status::TimedOut),
        RpcError::Send(status) | RpcError::Receive(status) => Some(status),
        RpcError::Bulk(status) | RpcError::PeerLost(status) => Some(status),
        RpcError::BadReply | RpcError::Aborted | RpcError::Local(_) => None,
    }
}

/// The negative errno that stands for a failure [LST-20].
fn errno_of(failure: RpcError, long: bool) -> i32 {
    const EINTR: i32 = 4;
    const ETIMEDOUT: i32 = 110;
    match failure {
        RpcError::TimedOut if long => -ETIMEDOUT,
        RpcError::TimedOut | RpcError::Aborted => -EINTR,
        RpcError::Send(status) | RpcError::Receive(status) => status.errno(),
        RpcError::Bulk(status) | RpcError::PeerLost(status) => status.errno(),
        RpcError::BadReply => -(errno::EBADMSG as i32),
        RpcError::Local(LnetErrorKind::Full) => -(errno::ENOMEM as i32),
        RpcError::Local(LnetErrorKind::Rejected) => -(errno::EINVAL as i32),
    }
}
