//! Sending: what a request holds while it is in flight, and the fields that depend on the
//! connection.

use lustrine_fswire::body::{BodyFlags, OpFlags, PtlrpcBody};
use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::{ConnectFlags, ConnectFlags2};
use lustrine_fswire::fid::Handle;
use lustrine_fswire::message::{BARE_LEN, HeaderFlags, SenderRole, header_len};
use lustrine_fswire::opcode::{Target, portal};
use lustrine_fswire::xid::{bulk_mbits, last_xid};
use lustrine_lnet::time::{Nanos, Time};

use super::{Action, CLASSES, Import, ImportState, SendArgs};
use crate::adaptive::{Estimate, allowance};
use crate::request::{Purpose, RequestKey, Stage};
use crate::xid::XidSource;

/// The order in which classes of waiting requests get what there is. A close comes before other
/// changes: behind those that wait for slots too, only the slot that is kept for it would be left.
const ORDER: [usize; CLASSES] = [0, 1, 3, 2];

/// Where the header of a message has its fields [RPC-5].
const SECFLVR_AT: usize = 4;
const REPSIZE_AT: usize = 12;
const FLAGS_AT: usize = 20;

impl Import {
    /// Sends what waits, in its order, as far as credits, slots and the window permit.
    pub(super) fn pump(&mut self, now: Time, xids: &mut XidSource) {
        self.paced_until = Time::NEVER;
        if self.state != ImportState::Full || self.going_idle {
            return;
        }
        for class in ORDER {
            while let Some(&key) = self.waiting[class].front() {
                if !self.take_resources(now, key) {
                    break;
                }
                self.waiting[class].pop_front();
                self.transmit(now, xids, key);
            }
        }
    }

    /// Takes the slot, the credit and the place in the window that a request needs; `false` if it
    /// has to wait for them.
    fn take_resources(&mut self, now: Time, key: RequestKey) -> bool {
        let Some(request) = self.requests.get_mut(key) else { return true };
        let counts = request.args.counted && !request.has_credit;
        if counts && self.credits_used >= self.tunables.max_rpcs_in_flight.max(1) {
            return false;
        }
        let mut tag = request.tag;
        if tag == 0 {
            let limit = self.tunables.max_mod_rpcs_in_flight;
            let Some(free) = self.slots.take(request.args.slot, limit) else { return false };
            tag = free;
        }
        if counts && !self.enter_window(now, key) {
            if self.requests[key].tag == 0 {
                self.slots.give(tag);
            }
            return false;
        }
        let request = &mut self.requests[key];
        request.tag = tag;
        if counts {
            request.has_credit = true;
            self.credits_used += 1;
        }
        true
    }

    /// Sends a request, for the first time or again.
    pub(super) fn transmit(&mut self, now: Time, xids: &mut XidSource, key: RequestKey) {
        let peer = self.peer();
        let has_bulk_mbits = self.granted.flags.contains(ConnectFlags::BULK_MBITS);
        let rep_mbits = self.granted.flags2.contains(ConnectFlags2::REP_MBITS);
        if self.requests.get(key).is_some_and(|request| request.resent) {
            // Its latency would say nothing about the path.
            self.abandon_ticket(key);
        }
        let Some(request) = self.requests.get_mut(key) else { return };
        if request.xid == 0 {
            request.xid = xids.next_xid();
            request.match_bits = request.xid;
        } else if request.resent && !request.replaying {
            // The descriptors of the first attempt may still be written to [IMP-2].
            request.match_bits = xids.next_xid();
        }
        if !request.replaying {
            self.unanswered.insert(request.xid);
        }
        let closes = request.args.closes;
        let last = bulk_mbits(request.match_bits, u64::from(request.args.bulk_descriptors));
        let connect = request.purpose == Purpose::Connect;
        let service = request.args.portal;
        let reply_portal = portal::reply_to(service).unwrap_or(portal::OST_REPLY);
        let send = SendArgs {
            key,
            peer,
            portal: service,
            xid: if has_bulk_mbits { request.xid } else { last },
            reply_portal,
            reply_bits: if rep_mbits && !connect { last } else { request.xid },
            reply_room: BARE_LEN as u32 + request.args.reply_len.max(request.reply_room),
            bulk_bits: request.match_bits,
        };
        let timeout = self.timeout_of(now, key);
        let latency = self.latency.current(now);
        self.write_fields(key, timeout, last);
        let Some(request) = self.requests.get_mut(key) else { return };
        request.sent_at = now;
        let deadline = match connect {
            true => now + self.tunables.connect_timeout,
            false => now + Nanos::from_secs(u64::from(timeout) + u64::from(latency)),
        };
        self.last_sent = now;
        if request.purpose == Purpose::Owner {
            self.last_used = now;
        }
        if let Some(open) = closes.and_then(|open| self.requests.get_mut(open)) {
            open.closing = true;
        }
        self.set_stage(key, Stage::Sent { deadline });
        self.actions.push_back(Action::Send(send));
    }

    /// The time that a request allows the server, in seconds [IMP-8].
    pub(super) fn timeout_of(&mut self, now: Time, key: RequestKey) -> u32 {
        let Some(request) = self.requests.get(key) else { return 1 };
        if request.purpose == Purpose::Connect {
            return (self.tunables.connect_timeout.0 / 1_000_000_000).clamp(1, 600) as u32;
        }
        let estimate = self.estimate(request.args.portal).current(now);
        let least = self.requests[key].args.least_timeout;
        allowance(estimate).max(least)
    }

    /// What is known of the service at a portal.
    pub(super) fn estimate(&mut self, portal: u32) -> &mut Estimate {
        let at = self.tunables.at;
        self.services.entry(portal).or_insert_with(|| Estimate::new(at))
    }

    /// Writes the fields of a message that depend on the connection.
    fn write_fields(&mut self, key: RequestKey, timeout: u32, mbits: u64) {
        let Some(request) = self.requests.get(key) else { return };
        let connect = matches!(request.purpose, Purpose::Connect);
        let at = self.granted.flags.contains(ConnectFlags::AT) && !connect;
        // Replies to all xids below have arrived [IMP-3].
        let last_xid = match request.purpose {
            Purpose::Connect | Purpose::Disconnect => 0,
            _ => last_xid(self.unanswered.first().copied().unwrap_or(request.xid).min(request.xid)),
        };
        let (export, conn_cnt, kind) = (self.export, self.conn_cnt, self.args.kind);
        let has_slots = self.has_slots;
        let Some(request) = self.requests.get_mut(key) else { return };
        let message = &mut request.args.message;
        let count = u32::from_le_bytes(*message.first_chunk().expect("a message has a header"));
        let start = header_len(count as usize);
        let range = start..start + PtlrpcBody::SIZE;
        let mut body = PtlrpcBody::parse(&message[range.clone()]).expect("requests have a body");
        body.handle = Handle(export);
        body.last_xid = last_xid;
        // A replay has the slot of the request that was answered: there the server looks for what
        // it has done before [IMP-10].
        body.tag = match (request.replaying, has_slots) {
            (true, _) => body.tag,
            (false, true) => request.tag,
            (false, false) => 0,
        };
        body.conn_cnt = conn_cnt;
        body.timeout = timeout;
        body.mbits = mbits;
        body.transno = if request.replaying { request.transno } else { 0 };
        body.pre_versions = if request.replaying { request.pre_versions } else { [0; 4] };
        let mut flags = BodyFlags::empty();
        flags.set(BodyFlags::RESENT, request.resent && !request.replaying);
        flags.set(BodyFlags::REPLAY, request.replaying);
        flags.set(
            BodyFlags::REQ_REPLAY_DONE,
            matches!(request.purpose, Purpose::LockReplay | Purpose::FinalPing),
        );
        flags.set(BodyFlags::LOCK_REPLAY_DONE, request.purpose == Purpose::FinalPing);
        let ids = BodyFlags::UID_GID | BodyFlags::PROJID;
        body.flags = flags | (body.flags & ids);
        if connect {
            body.op_flags.set(OpFlags::INITIAL, export == 0);
        }
        body.overwrite(&mut message[range]);
        let role = if kind == Target::Mgs { SenderRole::MGC } else { SenderRole::CLIENT };
        let mut flags = HeaderFlags::empty();
        flags.set(HeaderFlags::AT_SUPPORT, at);
        flags.set(HeaderFlags::CKSUM_INCOMPAT18, !connect);
        put(message, SECFLVR_AT, u32::from(role.0) << 24);
        put(message, REPSIZE_AT, request.args.reply_len);
        put(message, FLAGS_AT, flags.bits());
        (request.opcode, request.asks_early_replies) = (body.opcode, at);
    }
}

fn put(message: &mut [u8], at: usize, word: u32) {
    message[at..at + 4].copy_from_slice(&word.to_le_bytes());
}
