//! Replies, and their absence.

use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::ConnectData;
use lustrine_fswire::message::{BARE_LEN, Message};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};

use super::window::Outcome;
use super::{Action, Import, ImportState, class};
use crate::adaptive::allowance;
use crate::request::{Keep, Purpose, Reply, RequestKey, RpcError, Stage};
use crate::xid::XidSource;

/// Linux's error numbers that an import acts on.
pub(crate) mod errno {
    pub(crate) const EAGAIN: i32 = 11;
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const EBUSY: i32 = 16;
    pub(crate) const ENODEV: i32 = 19;
    pub(crate) const EROFS: i32 = 30;
    pub(crate) const ENOTCONN: i32 = 107;
    pub(crate) const EALREADY: i32 = 114;
    pub(crate) const EINPROGRESS: i32 = 115;
}

/// What arrived in the reply descriptor of a request.
#[derive(Clone, Debug)]
pub struct ReplyEvent {
    /// Where the sender put it: 0 for an early reply.
    pub offset: u32,
    /// Its bytes, as many as there was room for.
    pub bytes: Vec<u8>,
    /// How many the sender sent.
    pub sent: u32,
    /// Bytes that the bulk transfer has moved.
    pub bulk_moved: u32,
}

impl Import {
    /// Takes what arrived in the reply descriptor of a request. Whatever it is, the descriptor is
    /// still in use unless an action says otherwise or the request is over.
    pub fn on_reply(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        key: RequestKey,
        arrived: ReplyEvent,
    ) {
        let Some(request) = self.requests.get(key) else { return };
        let Stage::Sent { .. } = request.stage else { return };
        let at = request.asks_early_replies;
        if arrived.sent as usize > arrived.bytes.len() {
            return self.too_long(now, xids, key, arrived.sent);
        }
        let parsed = Message::parse_reply(&arrived.bytes);
        let Ok((message, body)) = parsed else { return self.bad_reply(now, xids, key) };
        if at && arrived.offset == 0 {
            if message.early_reply_is_intact() && body.status == 0 {
                self.on_early_reply(now, key, body.timeout);
            }
            return;
        }
        let place = if at { BARE_LEN as u32 } else { 0 };
        let asked = request.opcode;
        if arrived.offset != place || body.opcode != asked {
            return self.bad_reply(now, xids, key);
        }
        self.observe(now, key, &body);
        // A request that the server refuses because it has lost the connection is sent again with
        // its xid: no `last_xid` may say meanwhile that it was answered [RPC-13].
        if !self.requests[key].replaying && !lost(body.status) {
            let xid = self.requests[key].xid;
            self.unanswered.remove(&xid);
        }
        let data = match self.requests[key].purpose {
            Purpose::Connect => message.buffer(1).and_then(|data| ConnectData::parse(data).ok()),
            _ => None,
        };
        let reply = Reply {
            message: arrived.bytes,
            status: body.status,
            transno: body.transno,
            bulk_moved: arrived.bulk_moved,
        };
        match self.requests[key].purpose {
            Purpose::Connect => {
                self.finish(key, Err(RpcError::Closed));
                self.connect = None;
                self.on_connect_reply(now, xids, &body, data);
            }
            Purpose::Disconnect => {
                self.finish(key, Err(RpcError::Closed));
                self.disconnect_over(now, xids, !lost(body.status));
            }
            Purpose::Ping => {
                self.finish(key, Err(RpcError::Closed));
                self.awaits_ping = false;
                match lost(body.status) {
                    true => self.disconnected(now, xids),
                    false => self.committed(body.last_committed),
                }
            }
            Purpose::FinalPing => {
                self.finish(key, Err(RpcError::Closed));
                self.awaits_ping = false;
                if body.status < 0 {
                    return self.disconnected(now, xids);
                }
                self.committed(body.last_committed);
                self.recover(now, xids);
            }
            Purpose::Owner | Purpose::LockReplay => {
                self.leave_window(now, key, Outcome::Answered);
                self.on_answer(now, xids, key, &body, reply);
            }
        }
    }

    /// A request could not be sent, or its bulk descriptors failed.
    pub fn on_send_failed(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        key: RequestKey,
        status: Status,
    ) {
        let Some(request) = self.requests.get(key) else { return };
        let Stage::Sent { .. } = request.stage else { return };
        match request.purpose {
            Purpose::Connect => self.connect_over(now, xids, key, None),
            Purpose::Disconnect => {
                self.retract(key);
                self.finish(key, Err(RpcError::Closed));
                self.disconnect_over(now, xids, false);
            }
            Purpose::Owner if request.args.no_resend && request.tag == 0 => {
                self.retract(key);
                self.finish(key, Err(RpcError::Send(status)));
                self.disconnected(now, xids);
            }
            _ => self.disconnected(now, xids),
        }
    }

    /// The timer of a request is over.
    pub(super) fn overdue(&mut self, now: Time, xids: &mut XidSource, key: RequestKey) {
        let Some(request) = self.requests.get_mut(key) else { return };
        match (request.stage, request.purpose) {
            (Stage::Postponed { .. }, _) => {
                request.stage = Stage::Waiting;
                let class = class(&request.args);
                self.waiting[class].push_front(key);
                self.pump(now, xids);
            }
            (Stage::Sent { .. }, _) => {
                self.on_send_failed_by_time(now, xids, key);
            }
            (Stage::Waiting | Stage::Kept, _) => {}
        }
    }

    fn on_send_failed_by_time(&mut self, now: Time, xids: &mut XidSource, key: RequestKey) {
        self.leave_window(now, key, Outcome::Lost);
        let request = &self.requests[key];
        if request.purpose == Purpose::Owner && request.args.no_resend && request.tag == 0 {
            self.actions.push_back(Action::Withdraw { key });
            self.finish(key, Err(RpcError::TimedOut));
            return self.disconnected(now, xids);
        }
        self.on_send_failed(now, xids, key, Status::TimedOut);
    }

    /// The server needs more time [IMP-8].
    fn on_early_reply(&mut self, now: Time, key: RequestKey, estimate: u32) {
        let request = &self.requests[key];
        let portal = request.args.portal;
        let latency = self.latency.current(now);
        let seconds = u64::from(allowance(estimate)) + u64::from(latency);
        let deadline = (request.sent_at + Nanos::from_secs(seconds)).max(now);
        if estimate != 0 {
            self.estimate(portal).observe(now, estimate);
        }
        self.set_stage(key, Stage::Sent { deadline });
    }

    /// Learns from a reply how long the service and the network take.
    fn observe(&mut self, now: Time, key: RequestKey, body: &PtlrpcBody) {
        let request = &self.requests[key];
        let (portal, elapsed) = (request.args.portal, request.elapsed(now));
        if body.timeout != 0 {
            self.estimate(portal).observe(now, body.timeout);
        }
        self.latencies.record(body.opcode, elapsed);
        let elapsed = (elapsed.0 / 1_000_000_000) as u32;
        self.latency.observe(now, elapsed.saturating_sub(body.service_time) + 1);
    }

    /// The reply to a request of the owner's.
    fn on_answer(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        key: RequestKey,
        body: &PtlrpcBody,
        reply: Reply,
    ) {
        let request = self.requests.get_mut(key).expect("the caller looked");
        if lost(body.status) {
            if request.args.no_resend && !request.replaying {
                self.finish(key, Ok(reply));
            }
            return self.disconnected(now, xids);
        }
        if request.replaying {
            return self.on_replayed(key, reply);
        }
        if request.purpose == Purpose::LockReplay && body.status != 0 {
            // The server has no time or no memory for the lock now: the recovery begins anew, a few
            // times. After that its owner learns that the lock is lost [IMP-12].
            if self.lock_rounds < LOCK_ROUNDS_MAX {
                self.lock_rounds += 1;
                return self.recovery_failed(now);
            }
            return self.finish(key, Ok(reply));
        }
        if body.status == -errno::EINPROGRESS && !request.args.no_resend {
            // Again with another xid, a second later each time [IMP-9].
            request.patience += 1;
            let limit = allowance(self.tunables.at.at_min);
            let pause = Nanos::from_secs(u64::from(request.patience.min(limit)));
            request.xid = 0;
            request.resent = false;
            return self.set_stage(key, Stage::Postponed { until: now + pause });
        }
        self.committed(body.last_committed);
        let request = self.requests.get_mut(key).expect("the caller looked");
        request.transno = body.transno;
        request.pre_versions = body.pre_versions;
        let lasting = match request.args.keep {
            Keep::No => false,
            Keep::UntilCommitted => body.transno > self.last_committed,
            Keep::UntilReleased => true,
        };
        if !lasting || body.transno == 0 || body.status < 0 {
            self.finish(key, Ok(reply));
        } else {
            let user = request.args.user;
            let was_done = core::mem::replace(&mut request.done, true);
            self.set_stage(key, Stage::Kept);
            self.give_back(key);
            // Before a release, which may follow at once.
            if !was_done {
                self.actions.push_back(Action::Done { key, user, result: Ok(reply) });
            }
            if let Some(other) = self.keep(body.transno, key) {
                // Two changes never have one number: the server is wrong, and nothing is replayed.
                self.drop_kept(other);
                self.drop_kept(key);
            }
        }
        self.pump(now, xids);
    }

    /// A reply that is longer than the room for it: the request is sent again with more room.
    fn too_long(&mut self, now: Time, xids: &mut XidSource, key: RequestKey, sent: u32) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let room = sent.saturating_add(BARE_LEN as u32);
        if request.purpose != Purpose::Owner
            || request.args.no_resend
            || room > REPLY_MAX
            || request.reply_room >= room
        {
            if request.purpose != Purpose::Owner || request.replaying {
                return self.bad_reply(now, xids, key);
            }
            self.actions.push_back(Action::Withdraw { key });
            self.finish(key, Err(RpcError::TooLong(sent)));
            return self.pump(now, xids);
        }
        request.reply_room = room;
        request.resent = true;
        self.actions.push_back(Action::Withdraw { key });
        self.transmit(now, xids, key);
    }

    fn bad_reply(&mut self, now: Time, xids: &mut XidSource, key: RequestKey) {
        let request = &self.requests[key];
        match request.purpose {
            Purpose::Connect => self.connect_over(now, xids, key, None),
            // What is kept stays, and the next connect begins the replay anew.
            Purpose::Owner if !request.replaying => {
                self.actions.push_back(Action::Withdraw { key });
                self.finish(key, Err(RpcError::BadReply));
                self.pump(now, xids);
            }
            Purpose::Ping => self.disconnected(now, xids),
            // Whatever the server says, it is over.
            Purpose::Disconnect => {
                self.retract(key);
                self.finish(key, Err(RpcError::Closed));
                self.disconnect_over(now, xids, true);
            }
            Purpose::Owner | Purpose::LockReplay | Purpose::FinalPing => self.recovery_failed(now),
        }
    }

    /// Ends an attempt to connect without an answer.
    fn connect_over(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        key: RequestKey,
        status: Option<i32>,
    ) {
        self.retract(key);
        self.finish(key, Err(RpcError::Closed));
        self.connect = None;
        self.connect_failed(now, xids, status);
    }

    /// DISCONNECT is answered, or was sent in vain. Requests of an idle import that came meanwhile
    /// need a connection. So does an idle import if the server does not know the connection, or
    /// does not answer: it has restarted, and its recovery waits for this client [IMP-14].
    fn disconnect_over(&mut self, now: Time, xids: &mut XidSource, known: bool) {
        self.export = 0;
        if !core::mem::take(&mut self.going_idle) {
            return self.set_state(ImportState::Closed);
        }
        self.set_state(ImportState::Idle);
        // Nothing is kept. A target that is restored meanwhile begins with lower numbers.
        self.last_committed = 0;
        if !known || self.waiting.iter().any(|queue| !queue.is_empty()) {
            self.connect(now, xids);
        }
    }
}

/// So often a recovery begins anew because a server does not take a lock again.
const LOCK_ROUNDS_MAX: u32 = 3;

/// The longest reply that is asked for again.
const REPLY_MAX: u32 = 4 << 20;

/// Whether a status says that the server does not know the connection.
fn lost(status: i32) -> bool {
    status == -errno::ENOTCONN || status == -errno::ENODEV
}
