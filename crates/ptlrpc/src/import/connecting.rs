//! Connecting, and the loss of a connection [IMP-5] [IMP-6].

use lustrine_fswire::body::{OpFlags, PtlrpcBody};
use lustrine_fswire::codec::{Wire, Writer};
use lustrine_fswire::connect::{ConnectData, ConnectFlags};
use lustrine_fswire::message::{Header, MessageBuilder};
use lustrine_fswire::opcode::{Opcode, Target, portal};
use lustrine_lnet::time::{Nanos, Time};

use super::replies::errno;
use super::{Action, Deactivated, Import, ImportState};
use crate::request::{Purpose, Request, RequestArgs, RequestKey, RpcError, Stage};
use crate::slots::SlotKind;
use crate::xid::XidSource;

/// Length of the text of a UUID on the wire in bytes, with its zero [RPC-17].
const UUID_LEN: usize = 39;

/// Room for the second buffer of a reply to a connect, as kernels offer it, in bytes.
const CONNECT_REPLY_LEN: u32 = 192 + 320;

impl Import {
    /// Connects, if the import is new, idle or disconnected.
    pub fn connect(&mut self, now: Time, xids: &mut XidSource) {
        if matches!(self.state, ImportState::New | ImportState::Idle | ImportState::Disconn) {
            self.deactivated = None;
            self.reconnect_at = Time::NEVER;
            self.try_connect(now, xids);
        }
    }

    /// Disconnects for good. Requests that are not answered fail; [`ImportState::Closed`] follows
    /// when the server has answered, or does not within the time-out of a connect.
    pub fn disconnect(&mut self, now: Time, xids: &mut XidSource) {
        let connected = self.state == ImportState::Full;
        self.fail_all(RpcError::Closed, false);
        self.reconnect_at = Time::NEVER;
        self.going_idle = false;
        match connected {
            true => self.send_disconnect(now, xids),
            false => self.set_state(ImportState::Closed),
        }
    }

    /// Disconnects until the next request, if the owner waits for nothing [IMP-14]. It must hold no
    /// locks of the target: the server ends them.
    pub fn become_idle(&mut self, now: Time, xids: &mut XidSource) {
        if !self.is_unused() {
            return;
        }
        self.fail_all(RpcError::Closed, false);
        self.going_idle = true;
        self.send_disconnect(now, xids);
    }

    fn send_disconnect(&mut self, now: Time, xids: &mut XidSource) {
        let opcode = self.args.kind.disconnect();
        let key = self.own_request(Purpose::Disconnect, opcode);
        self.transmit(now, xids, key);
        let deadline = now + self.tunables.connect_timeout;
        self.set_stage(key, Stage::Sent { deadline });
    }

    /// Sends CONNECT to the present peer.
    pub(super) fn try_connect(&mut self, now: Time, xids: &mut XidSource) {
        if self.state == ImportState::Closed || self.connect.is_some() {
            return;
        }
        self.set_state(ImportState::Connecting);
        self.conn_cnt += 1;
        self.tried += 1;
        let opcode = self.args.kind.connect();
        let key = self.own_request(Purpose::Connect, opcode);
        self.connect = Some(key);
        self.transmit(now, xids, key);
    }

    /// The message of a connect.
    fn connect_message(&self, opcode: Opcode) -> Vec<u8> {
        let mut body = PtlrpcBody { service_time: 4, ..PtlrpcBody::request(opcode) };
        let mut data = self.args.offer;
        if self.export != 0 && data.flags.contains(ConnectFlags::GRANT) {
            data.grant = match self.grant_claim {
                0 => self.granted.brw_size.saturating_mul(2),
                claim => claim,
            };
        }
        if let Some(first) = self.first_replay() {
            data.transno = first;
            body.op_flags |= OpFlags::TRANSNO;
        }
        let mut out = Vec::new();
        let mut message = MessageBuilder::new(&mut out, &Header::default(), 6);
        message.value(&body);
        message.bytes(&uuid(&self.args.target));
        message.bytes(&uuid(&self.args.client_uuid));
        message.bytes(&self.args.client_handle.to_le_bytes());
        message.buffer(|to: &mut Writer<'_>| data.write(to));
        message.bytes(&[]);
        message.finish();
        out
    }

    /// A request of the import's own.
    pub(super) fn own_request(&mut self, purpose: Purpose, opcode: Opcode) -> RequestKey {
        let message = match purpose {
            Purpose::Connect => self.connect_message(opcode),
            _ => {
                let mut out = Vec::new();
                let mut message = MessageBuilder::new(&mut out, &Header::default(), 1);
                message.value(&PtlrpcBody::request(opcode));
                message.finish();
                out
            }
        };
        let args = RequestArgs {
            portal: self.args.kind.main_portal(),
            message,
            reply_len: CONNECT_REPLY_LEN,
            no_resend: true,
            ..RequestArgs::default()
        };
        debug_assert!(portal::reply_to(args.portal).is_some() && args.slot == SlotKind::None);
        self.requests.insert(Request::new(args, purpose))
    }

    /// The answer to a connect.
    pub(super) fn on_connect_reply(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        body: &PtlrpcBody,
        data: Option<ConnectData>,
    ) {
        if body.status < 0 {
            return self.connect_failed(now, xids, Some(body.status));
        }
        let Some(data) = data.filter(|data| self.is_acceptable(data) && body.handle.0 != 0) else {
            return self.connect_failed(now, xids, None);
        };
        self.tried = 0;
        self.reconnect_delay = self.tunables.reconnect_delay_min;
        self.granted = data;
        self.has_slots = data.flags.contains(ConnectFlags::MULTIMODRPCS) && data.maxmodrpcs > 0;
        self.slots.resize(if self.has_slots { data.maxmodrpcs } else { 0 });
        let before = core::mem::replace(&mut self.export, body.handle.0);
        let flags = body.op_flags;
        let recovering = flags.contains(OpFlags::RECOVERING);
        let known = flags.contains(OpFlags::RECONNECT);
        self.last_used = now;
        match (before, known, recovering) {
            // The first connect.
            (0, _, true) => self.replay_locks(),
            (0, _, false) => self.recover(now, xids),
            (before, true, false) if before == self.export => {
                self.committed(body.last_committed);
                self.recover(now, xids);
            }
            (_, known, true) => {
                // A server that has restarted once more and knows the client already has answered a
                // connect, and the answer was lost: its handle for the client is another one.
                if !known || before != self.export {
                    self.replayed = 0;
                }
                self.committed(body.last_committed);
                self.replay(now, xids);
            }
            _ => self.evicted(now, xids),
        }
    }

    /// Whether the server has granted nothing that was not offered, and what is indispensable.
    fn is_acceptable(&self, data: &ConnectData) -> bool {
        let needed = match self.args.kind {
            Target::Mdt => ConnectFlags::FID | ConnectFlags::ATTRFID,
            Target::Mgs | Target::Ost => ConnectFlags::empty(),
        };
        data.check_granted(&self.args.offer).is_ok() && data.flags.contains(needed)
    }

    /// An attempt to connect has failed: the next one is with another peer, or later [IMP-6].
    pub(super) fn connect_failed(&mut self, now: Time, xids: &mut XidSource, status: Option<i32>) {
        self.set_state(ImportState::Disconn);
        let status = status.map(|status| -status);
        match status {
            Some(error @ (errno::EACCES | errno::EROFS)) => {
                self.deactivated = Some(Deactivated::Refused(error));
                // The server drops the locks of a client that it refuses.
                if self.export != 0 {
                    self.actions.push_back(Action::Evicted);
                }
                self.fail_all(RpcError::Refused(error), false);
            }
            Some(errno::EBUSY | errno::EAGAIN | errno::EALREADY) => {
                self.reconnect_at = now + self.tunables.reconnect_delay_min;
            }
            _ => {
                self.current = (self.current + 1) % self.args.peers.len();
                if self.tried < self.args.peers.len() {
                    return self.try_connect(now, xids);
                }
                self.tried = 0;
                self.reconnect_at = now + self.reconnect_delay;
                let doubled = Nanos(self.reconnect_delay.0.saturating_mul(2));
                self.reconnect_delay = doubled.min(self.tunables.reconnect_delay_max);
            }
        }
    }

    /// The connection is lost: what is not answered is sent again after the next connect.
    pub(super) fn disconnected(&mut self, now: Time, xids: &mut XidSource) {
        if self.break_off() {
            self.try_connect(now, xids);
        }
    }

    /// The server answers a part of the recovery with nonsense. The recovery begins anew after a
    /// pause: the answer may be the same again.
    pub(super) fn recovery_failed(&mut self, now: Time) {
        if self.break_off() {
            self.reconnect_at = now + self.tunables.reconnect_delay_min;
        }
    }

    /// Gives a connection up, if there is one.
    fn break_off(&mut self) -> bool {
        if matches!(
            self.state,
            ImportState::Closed
                | ImportState::New
                | ImportState::Disconn
                | ImportState::Connecting
                | ImportState::Idle
        ) {
            return false;
        }
        self.set_state(ImportState::Disconn);
        let sent = |request: &Request| matches!(request.stage, Stage::Sent { .. });
        let sent: Vec<RequestKey> =
            self.requests.iter().filter(|(_, request)| sent(request)).map(|(key, _)| key).collect();
        for key in sent {
            self.actions.push_back(Action::Withdraw { key });
            self.set_stage(key, Stage::Waiting);
            let request = &mut self.requests[key];
            match request.purpose {
                Purpose::Owner if request.replaying => {
                    request.replaying = false;
                    self.set_stage(key, Stage::Kept);
                }
                Purpose::Owner if request.args.no_resend && request.tag == 0 => {
                    self.finish(key, Err(RpcError::TimedOut));
                }
                Purpose::Owner => {
                    request.resent = true;
                    let xid = request.xid;
                    self.unsent.insert(xid, key);
                }
                Purpose::LockReplay => self.finish(key, Err(RpcError::Canceled)),
                Purpose::Connect | Purpose::Disconnect | Purpose::Ping | Purpose::FinalPing => {
                    self.finish(key, Err(RpcError::Closed));
                }
            }
        }
        self.awaits_ping = false;
        self.going_idle = false;
        true
    }

    /// Ends all requests of the owner, and forgets what was kept.
    pub(super) fn fail_all(&mut self, error: RpcError, evicted: bool) {
        self.kept.clear();
        self.opens.clear();
        let keys: Vec<RequestKey> = self.requests.keys().collect();
        for key in keys {
            let request = &self.requests[key];
            let own = matches!(request.purpose, Purpose::Connect);
            if own && evicted {
                continue;
            }
            match request.stage {
                Stage::Kept => self.drop_kept(key),
                Stage::Sent { .. } => {
                    self.actions.push_back(Action::Withdraw { key });
                    self.finish(key, Err(error));
                }
                Stage::Waiting | Stage::Postponed { .. } => self.finish(key, Err(error)),
            }
        }
        self.waiting.iter_mut().for_each(|queue| queue.clear());
        self.unsent.clear();
        self.unanswered.clear();
        self.lock_rounds = 0;
        self.awaits_ping = false;
        if !evicted {
            self.connect = None;
        }
    }

    /// The server has forgotten this client [IMP-7].
    fn evicted(&mut self, now: Time, xids: &mut XidSource) {
        self.evictions += 1;
        self.set_state(ImportState::Evicted);
        // The owner knows that its locks are void before it goes on with what fails.
        self.actions.push_back(Action::Evicted);
        self.fail_all(RpcError::Evicted, true);
        self.last_committed = 0;
        self.recover(now, xids);
    }
}

/// The text of a UUID in its field.
fn uuid(text: &str) -> [u8; UUID_LEN] {
    let mut field = [0; UUID_LEN];
    let len = text.len().min(UUID_LEN - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}
