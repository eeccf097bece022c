//! Messages out: path, discovery, peer credit, interface credit, driver ([CORE-12], [CORE-16]).

use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::{Nid, PID_LUSTRE, PID_USERLAND, ProcessId};

use super::matching::Found;
use super::{Msg, Purpose, Shard, Stage};
use crate::credits::Acquire;
use crate::error::LnetError;
use crate::journal::Wait;
use crate::lnd::{NiIndex, OpKey, SendAction};
use crate::md::{MdKey, MdOptions};
use crate::memory::{Spans, copy_of, part_of};
use crate::path::{self, Candidate};
use crate::peer::PeerNiKey;
use crate::portal::Waiter;
use crate::status::Status;
use crate::time::{Nanos, Time};

/// Whether the target of a PUT confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckWanted {
    /// An ACK event follows the SEND event, in either order.
    Yes,
    /// The SEND event is the last one.
    No,
}

/// A PUT.
#[derive(Clone, Copy, Debug)]
pub struct PutArgs {
    /// The bytes to send: the whole descriptor.
    pub md: MdKey,
    /// The local NID to send from; `None` leaves the choice to the core.
    pub local: Option<Nid>,
    /// The process that it is sent to.
    pub target: ProcessId,
    /// Portal at the target.
    pub portal: u32,
    /// Match bits at the target.
    pub match_bits: u64,
    /// Offset in the target's descriptor, in bytes; used if that has `MANAGE_REMOTE`.
    pub offset: u32,
    /// Out-of-band data for the target's event.
    pub hdr_data: u64,
    /// Whether an ACK is wanted.
    pub ack: AckWanted,
    /// How long to wait for the ACK; `None` is the transaction timeout.
    pub timeout: Option<Nanos>,
}

/// A GET; the reply is stored at the start of the descriptor.
#[derive(Clone, Copy, Debug)]
pub struct GetArgs {
    /// Where the reply goes; its length is the sink length.
    pub md: MdKey,
    /// The local NID to send from; `None` leaves the choice to the core.
    pub local: Option<Nid>,
    /// The target process.
    pub target: ProcessId,
    /// Portal at the target.
    pub portal: u32,
    /// Match bits at the target.
    pub match_bits: u64,
    /// Offset in the target's descriptor, in bytes; used if that has `MANAGE_REMOTE`.
    pub offset: u32,
    /// How long to wait for the reply; `None` is the transaction timeout.
    pub timeout: Option<Nanos>,
}

/// A message out, before it has a path.
struct OutgoingMsg {
    purpose: Purpose,
    md: Option<MdKey>,
    local: Option<Nid>,
    target: ProcessId,
    body: Body,
    payload: Spans,
    payload_len: u32,
    portal: u32,
    match_bits: u64,
    requested: u32,
}

impl Shard {
    /// Sends the bytes of a descriptor. Later failures are reported by events.
    ///
    /// # Errors
    /// When the descriptor is gone, exhausted, attached to a portal or awaits an answer already, or
    /// when too many messages are in flight. Nothing has changed then.
    pub fn put(&mut self, now: Time, args: PutArgs) -> Result<(), LnetError> {
        self.check_sendable(args.md)?;
        let state = &mut self.mds[args.md];
        state.count_operation();
        let (payload, length) = (copy_of(&state.md.spans), state.length);
        let ack_md = match args.ack {
            AckWanted::Yes => self.mds.handle_of(args.md),
            AckWanted::No => MdHandle::NONE,
        };
        if args.ack == AckWanted::Yes {
            let by = self.answer_deadline(now, args.timeout);
            self.await_answer(args.md, hop_of(args.target), by, false);
        }
        let draft = OutgoingMsg {
            purpose: Purpose::Request,
            md: Some(args.md),
            local: args.local,
            target: args.target,
            body: Body::Put {
                ack_md,
                match_bits: args.match_bits,
                hdr_data: args.hdr_data,
                portal: args.portal,
                offset: args.offset,
            },
            payload,
            payload_len: length,
            portal: args.portal,
            match_bits: args.match_bits,
            requested: length,
        };
        self.start_request(now, draft);
        Ok(())
    }

    /// Asks for bytes. Later failures are reported by events.
    ///
    /// # Errors
    /// As [`Shard::put`].
    pub fn get(&mut self, now: Time, args: GetArgs) -> Result<(), LnetError> {
        self.check_sendable(args.md)?;
        let state = &mut self.mds[args.md];
        state.count_operation();
        let sink_len = state.length;
        let return_md = self.mds.handle_of(args.md);
        let by = self.answer_deadline(now, args.timeout);
        self.await_answer(args.md, hop_of(args.target), by, true);
        let draft = OutgoingMsg {
            purpose: Purpose::Request,
            md: Some(args.md),
            local: args.local,
            target: args.target,
            body: Body::Get {
                return_md,
                match_bits: args.match_bits,
                portal: args.portal,
                offset: args.offset,
                sink_len,
            },
            payload: Spans::new(),
            payload_len: 0,
            portal: args.portal,
            match_bits: args.match_bits,
            requested: sink_len,
        };
        self.start_request(now, draft);
        Ok(())
    }

    fn check_sendable(&self, md: MdKey) -> Result<(), LnetError> {
        let state = self.mds.get(md).ok_or(LnetError::NoSuchMd)?;
        if state.attached {
            return Err(LnetError::MdAttached);
        }
        if state.exhausted() || state.aborted.is_some() {
            return Err(LnetError::NoSuchMd);
        }
        if state.answer_by != Time::NEVER {
            return Err(LnetError::AnswerAwaited);
        }
        if !self.msgs.admits_request() {
            return Err(LnetError::Full);
        }
        Ok(())
    }

    fn answer_deadline(&self, now: Time, timeout: Option<Nanos>) -> Time {
        let seconds = self.topology.tunables.transaction_timeout as u64;
        now + timeout.unwrap_or(Nanos::from_secs(seconds))
    }

    fn start_request(&mut self, now: Time, draft: OutgoingMsg) {
        if draft.target.nid.is_lo() {
            let lo = ProcessId { nid: Nid::LO, pid: PID_LUSTRE };
            let op = self.insert_outgoing(now, draft, NiIndex(0), lo, lo, None, Stage::Loopback);
            self.loopback.push_back((op, None));
            return;
        }
        let nis = self.topology.nis.places().iter().zip(&self.nis).enumerate();
        let there = nis.filter(|(_, (config, _))| !config.nid.is_any());
        let candidates = there.map(|(index, (config, state))| Candidate {
            ni: NiIndex(index as u16),
            nid: config.nid,
            credits: state.credits.available(),
            sequence: state.sequence,
        });
        let chosen = path::choose(candidates, draft.local, &draft.target.nid);
        let Ok(ni) = chosen else {
            self.refuse_request(now, draft, Status::Unreachable);
            return;
        };
        self.nis[usize::from(ni.0)].sequence += 1;
        let max = || self.topology.peer_credits_of(ni);
        let Some(peer_ni) = self.peers.obtain(now, &draft.target.nid, max) else {
            self.refuse_request(now, draft, Status::NoMemory);
            return;
        };
        let src = self.topology.process(ni);
        let hop = hop_of(draft.target);
        let discover = draft.portal != 0 && hop.pid == PID_LUSTRE && self.must_discover(peer_ni);
        let stage = if discover { Stage::Discovery } else { Stage::PeerCredit };
        if let Some(md) = draft.md
            && self.mds[md].answer_by != Time::NEVER
        {
            self.join_answers(md, peer_ni);
        }
        let op = self.insert_outgoing(now, draft, ni, src, hop, Some(peer_ni), stage);
        if discover {
            self.note_tx_queued(now, op, Wait::Discovery);
            self.park_for_discovery(peer_ni, op);
        } else {
            self.take_credits(now, op);
        }
    }

    /// Fails a request that has no path; its SEND event has the status.
    fn refuse_request(&mut self, now: Time, draft: OutgoingMsg, status: Status) {
        let no_process = ProcessId { nid: Nid::ANY, pid: PID_LUSTRE };
        let hop = draft.target;
        let op =
            self.insert_outgoing(now, draft, NiIndex(0), no_process, hop, None, Stage::Refused);
        self.retire(now, op, status);
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the one place where a draft becomes a message")]
    fn insert_outgoing(
        &mut self,
        now: Time,
        draft: OutgoingMsg,
        ni: NiIndex,
        src: ProcessId,
        hop: ProcessId,
        peer_ni: Option<PeerNiKey>,
        stage: Stage,
    ) -> OpKey {
        let deadline = self.msgs.deadline(now);
        let (md, purpose) = (draft.md, draft.purpose);
        let op = self.new_msg(Msg {
            stage,
            purpose: draft.purpose,
            header: Header {
                dst: draft.target,
                src,
                payload_len: draft.payload_len,
                body: draft.body,
            },
            ni,
            hop,
            peer_ni,
            md: draft.md,
            payload: draft.payload,
            offset: 0,
            moved: draft.payload_len,
            time: deadline,
            portal: draft.portal,
            match_bits: draft.match_bits,
            requested: draft.requested,
        });
        if let (Some(md), Purpose::Request | Purpose::Reply) = (md, purpose) {
            let state = &mut self.mds[md];
            state.left_by = peer_ni.map(|_| ni);
            // With two messages in flight from one descriptor, it names none of them.
            state.request = if state.pending == 1 { Some(op) } else { None };
        }
        self.note_tx_created(now, op);
        op
    }

    /// Takes the peer's credit, then the interface's, then gives the message to the driver
    /// ([CORE-12]).
    #[inline]
    pub(super) fn take_credits(&mut self, now: Time, op: OpKey) {
        let msg = &mut self.msgs[op];
        msg.stage = Stage::PeerCredit;
        let peer_ni = msg.peer_ni.expect("a message out has a peer");
        let hop = msg.hop;
        match self.peers.nis[peer_ni].credits_for(&hop).take(&mut self.msgs.queues, op) {
            Acquire::Granted => self.take_ni_credit(now, op),
            Acquire::Queued => {
                self.note_tx_queued(now, op, Wait::PeerCredit);
                self.msgs.peer_waiting += 1;
            }
        }
    }

    #[inline]
    pub(super) fn take_ni_credit(&mut self, now: Time, op: OpKey) {
        let msg = &mut self.msgs[op];
        msg.stage = Stage::NiCredit;
        match self.nis[usize::from(msg.ni.0)].credits.take(&mut self.msgs.queues, op) {
            Acquire::Granted => self.hand_to_driver(now, op),
            Acquire::Queued => self.note_tx_queued(now, op, Wait::NiCredit),
        }
    }

    /// Both credits are held.
    pub(super) fn hand_to_driver(&mut self, now: Time, op: OpKey) {
        let msg = &mut self.msgs[op];
        msg.stage = Stage::Sending;
        let aborted = msg.md.is_some_and(|md| self.mds[md].aborted.is_some());
        let deadline = msg.time;
        if aborted || deadline <= now {
            let status = if aborted { Status::Canceled } else { Status::TimedOut };
            self.retire(now, op, status);
            return;
        }
        msg.time = Time::NEVER;
        if self.telemetry.latencies {
            msg.time = now;
            if let (Some(md), true) = (msg.md, msg.expects_answer()) {
                self.mds[md].asked = now;
            }
        }
        self.reports.send(op, deadline, msg.header.payload_len);
        self.note_tx_submitted(now, op);
    }

    /// Whether one more response to this peer may be queued.
    pub(super) fn admits_response(&mut self, peer_ni: PeerNiKey, hop: &ProcessId) -> bool {
        let waiting = self.peers.nis[peer_ni].credits_for(hop).waiting();
        let fits = self.msgs.admits_response(waiting);
        if !fits {
            self.telemetry.stats.responses_refused += 1;
        }
        fits
    }

    /// Whether a REPLY to this peer may go without credits: a peer that sends GETs and takes no
    /// REPLYs must not use memory without limit.
    pub(super) fn admits_reply_in_place(&self, peer_ni: PeerNiKey, hop: &ProcessId) -> bool {
        self.msgs.admits_response(self.peers.nis[peer_ni].messages_with(hop) as usize)
    }

    /// Sends the REPLY to a GET that matched, from the descriptor's memory, back the way that the
    /// GET came ([CORE-16]).
    pub(super) fn send_reply(&mut self, now: Time, request: &Header, reply: ReplyPlan) {
        let op = self.insert_reply(now, request, reply, Stage::PeerCredit);
        self.take_credits(now, op);
    }

    /// The same for a driver that moves the bytes itself, without credits.
    pub(super) fn reply_in_place(
        &mut self,
        now: Time,
        request: &Header,
        reply: ReplyPlan,
    ) -> SendAction {
        let op = self.insert_reply(now, request, reply, Stage::ReplyInPlace);
        let msg = &mut self.msgs[op];
        let deadline = core::mem::replace(&mut msg.time, Time::NEVER);
        let (ni, to, header) = (msg.ni, msg.hop, msg.header);
        let payload = copy_of(&msg.payload);
        self.note_tx_submitted(now, op);
        SendAction { op, ni, to, header, payload, deadline }
    }

    #[inline(always)]
    fn insert_reply(
        &mut self,
        now: Time,
        request: &Header,
        reply: ReplyPlan,
        stage: Stage,
    ) -> OpKey {
        let draft = OutgoingMsg {
            purpose: Purpose::Reply,
            md: Some(reply.md),
            local: None,
            target: request.src,
            body: Body::Reply { md: reply.return_md },
            payload: part_of(&self.mds[reply.md].md.spans, reply.offset, reply.length),
            payload_len: reply.length,
            portal: reply.portal,
            match_bits: reply.match_bits,
            requested: reply.requested,
        };
        let src = ProcessId { nid: request.dst.nid, pid: PID_LUSTRE };
        let (hop, peer_ni) = (reply.hop, Some(reply.peer_ni));
        let op = self.insert_outgoing(now, draft, reply.ni, src, hop, peer_ni, stage);
        self.msgs[op].offset = reply.offset;
        op
    }

    pub(super) fn wants_ack(&self, msg: &Msg) -> bool {
        let Body::Put { ack_md, .. } = msg.header.body else { return false };
        let forbidden =
            msg.md.is_some_and(|md| self.mds[md].md.options.contains(MdOptions::ACK_DISABLE));
        ack_md != MdHandle::NONE && !forbidden
    }

    /// Confirms a stored PUT, back the way that it came ([HDR-9]).
    pub(super) fn send_ack(&mut self, now: Time, put: &Msg) {
        let Body::Put { ack_md, match_bits, .. } = put.header.body else { return };
        let Some(peer_ni) = put.peer_ni else { return };
        if !self.admits_response(peer_ni, &put.hop) {
            return;
        }
        let draft = OutgoingMsg {
            purpose: Purpose::Ack,
            md: None,
            local: None,
            target: put.header.src,
            body: Body::Ack { md: ack_md, match_bits, mlength: put.moved },
            payload: Spans::new(),
            payload_len: 0,
            portal: put.portal,
            match_bits,
            requested: 0,
        };
        let src = ProcessId { nid: put.header.dst.nid, pid: PID_LUSTRE };
        let op = self.insert_outgoing(
            now,
            draft,
            put.ni,
            src,
            put.hop,
            Some(peer_ni),
            Stage::PeerCredit,
        );
        self.take_credits(now, op);
    }

    /// Fails the descriptor's messages that are not in a driver. A message to 0@lo that has matched
    /// is delivered: the descriptor that it is for waits for that.
    pub(super) fn cancel_waiting(&mut self, now: Time, md: MdKey, reason: Status) {
        let has_matched = |op: OpKey| {
            let is_match = |found: &Option<Found>| matches!(found, Some(Found::Match { .. }));
            self.loopback.iter().any(|(other, found)| *other == op && is_match(found))
        };
        let waits = |op: OpKey, msg: &Msg| {
            msg.md == Some(md) && !msg.stage.is_in_driver() && !has_matched(op)
        };
        // A descriptor of one request knows its message; one on a portal may have served many GETs.
        let waiting: Vec<OpKey> = match self.mds[md].request {
            Some(op) => {
                self.msgs.get(op).filter(|msg| waits(op, msg)).map(|_| op).into_iter().collect()
            }
            None => {
                let all = self.msgs.iter().filter(|(op, msg)| waits(*op, msg));
                all.map(|(op, _)| op).collect()
            }
        };
        for op in waiting {
            // Ending one may continue, and end, others of the list.
            if !self.msgs.contains_key(op) {
                continue;
            }
            self.withdraw_parked(Waiter::Loopback(op));
            self.retire(now, op, reason);
        }
    }
}

/// The identity by which a driver knows a peer: only its NID counts, unless it is a userland
/// process.
pub(super) fn hop_of(target: ProcessId) -> ProcessId {
    let pid = if target.pid & PID_USERLAND != 0 { target.pid } else { PID_LUSTRE };
    ProcessId { nid: target.nid, pid }
}

/// The REPLY to a GET that matched.
pub(super) struct ReplyPlan {
    pub(super) md: MdKey,
    pub(super) return_md: MdHandle,
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) ni: NiIndex,
    pub(super) hop: ProcessId,
    pub(super) peer_ni: PeerNiKey,
    pub(super) portal: u32,
    pub(super) match_bits: u64,
    pub(super) requested: u32,
}
