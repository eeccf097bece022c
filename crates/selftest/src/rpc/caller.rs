//! The caller's side of an RPC [LST-7] [LST-10].
//!
//! An RPC has up to three parts, each with a descriptor of its own: the request, the reply sink,
//! the bulk buffer. A part is over when its descriptor's last event has come; the RPC is over when
//! all its parts are, in whatever order. Trouble in one part withdraws the others, and their last
//! events follow. So there is exactly one completion per RPC, and no memory is reused too early.

use lustrine_congestion::{Class, Ticket, View};
use lustrine_lnet::error::LnetError;
use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{MatchId, Md, MdKey, MdOptions, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{Body, MESSAGE_LEN, Message, REPLY_PORTAL, Service, VERSION};
use smallvec::smallvec;

use super::windows::{NoRoom, PeerWindow, Windows};
use super::{Ids, RpcIds};
use crate::body::status;
use crate::counters::RpcTotals;
use crate::limits::MESSAGE_LEN as CELL;
use crate::mark::{ClientSlot, Mark, Part, Role};
use crate::message_pool::MessagePool;
use crate::pattern::OUR_ORDER;
use crate::slab::Slab;
use crate::tunables::Tunables;
use crate::turn::Turn;

/// The bulk buffer an RPC brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bulk {
    /// The RPC has no bulk transfer.
    None,
    /// The answerer will PUT into it.
    Sink(Span),
    /// The answerer will GET from it.
    Source(Span),
}

/// An RPC to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Whom to call.
    pub(crate) peer: ProcessId,
    /// The NID of ours to call from; `None` leaves the choice to LNet.
    pub(crate) local: Option<Nid>,
    /// What to call.
    pub(crate) service: Service,
    /// Session features.
    pub(crate) features: u32,
    /// The bulk buffer.
    pub(crate) bulk: Bulk,
    /// How long it may take in all.
    pub(crate) timeout: Nanos,
    /// The caller's own mark, returned in the completion.
    pub(crate) user: u32,
}

/// Why an RPC has no (usable) reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RpcError {
    /// LNet did not take it.
    #[error("LNet refused the RPC: {0}")]
    Local(LnetErrorKind),
    /// The request could not be sent.
    #[error("the request could not be sent: {0}")]
    Send(Status),
    /// The bulk transfer failed.
    #[error("the bulk transfer failed: {0}")]
    Bulk(Status),
    /// The reply could not be received.
    #[error("the reply could not be received: {0}")]
    Receive(Status),
    /// What came back is not a reply to this request.
    #[error("the reply is not a selftest reply to this request")]
    BadReply,
    /// No reply within the RPC time-out.
    #[error("no reply within the RPC time-out")]
    TimedOut,
    /// The last connection to the peer went, or the peer restarted, while its reply was awaited.
    #[error("the peer was lost: {0}")]
    PeerLost(Status),
    /// Given up by its owner.
    #[error("given up")]
    Aborted,
}

/// The kinds of refusal by LNet, without their details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LnetErrorKind {
    /// Too many messages in flight.
    #[error("too many messages in flight")]
    Full,
    /// A rule of LNet's was broken.
    #[error("the descriptor was not accepted")]
    Rejected,
}

impl From<LnetError> for LnetErrorKind {
    fn from(error: LnetError) -> LnetErrorKind {
        match error {
            LnetError::Full => LnetErrorKind::Full,
            _ => LnetErrorKind::Rejected,
        }
    }
}

/// An RPC that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The mark of [`Call::user`].
    pub(crate) user: u32,
    /// From the call to the last event.
    pub(crate) took: Nanos,
    /// Bytes that the bulk transfer moved.
    pub(crate) bulk_moved: u32,
    /// The reply, whatever status it holds.
    pub(crate) outcome: Result<Message, RpcError>,
}

#[derive(Debug)]
struct Rpc {
    /// Match bits of its reply: its name in a journal.
    reply_bits: u64,
    peer: ProcessId,
    service: Service,
    /// By [`Part`]; `None` when the part is over or never was.
    parts: [Option<MdKey>; 3],
    request: Span,
    sink: Span,
    started: Time,
    deadline: Time,
    /// How it ends, as far as that is known: with the reply, or with the first reason to give it
    /// up, which outweighs a reply. In one piece, as it is given away.
    ended: Completion,
    given_up: bool,
}

impl Rpc {
    fn is_over(&self) -> bool {
        self.parts.iter().all(Option::is_none)
    }

    fn reply(&self) -> Option<&Message> {
        self.ended.outcome.as_ref().ok()
    }
}

/// Makes RPCs. Each has a slot; buffers and slots are reused.
#[derive(Debug)]
pub(crate) struct RpcClient {
    client_slot: ClientSlot,
    ids: Ids,
    rpcs: Slab<Rpc>,
    cells: MessagePool,
    /// No deadline lies before this.
    next_scan: Time,
    /// How much may be in flight to each peer; without it, no more is known than the limit.
    windows: Option<Windows>,
    totals: RpcTotals,
}

impl RpcClient {
    /// At most `limit` RPCs at once. For `wall_seconds` see [`Ids`].
    pub(crate) fn new(client_slot: ClientSlot, wall_seconds: u64, limit: u32) -> RpcClient {
        RpcClient {
            client_slot,
            ids: Ids::new(wall_seconds, client_slot),
            rpcs: Slab::new(limit),
            cells: MessagePool::default(),
            next_scan: Time::NEVER,
            windows: None,
            totals: RpcTotals::default(),
        }
    }

    /// Limits what is in flight to each peer to what its path carries, with `selftest_auto`. This
    /// is for calls that were admitted; others are not counted.
    pub(crate) fn with_windows(self, wall: WallClock, tunables: &Tunables) -> RpcClient {
        let windows = (tunables.selftest_auto != 0).then(|| Windows::new(wall));
        RpcClient { windows, ..self }
    }

    /// Takes an RPC into the window to a peer, for a call that follows at once. There is no ticket
    /// if there are no windows.
    ///
    /// # Errors
    /// When it does not fit; an RPC to that peer has to end before, or
    /// [`RpcClient::take_due_peer`] returns the peer.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        now: Time,
        peer: ProcessId,
        class: Class,
    ) -> Result<Option<Ticket>, NoRoom> {
        self.windows.as_mut().map(|windows| windows.admit(now, peer, class)).transpose()
    }

    /// A peer to which RPCs that did not fit may be sent now: windows spread them over time.
    pub(crate) fn take_due_peer(&mut self, now: Time) -> Option<ProcessId> {
        self.windows.as_mut()?.take_due_peer(now)
    }

    /// An RPC that was admitted is over, or is not sent.
    pub(crate) fn leave(
        &mut self,
        now: Time,
        peer: ProcessId,
        ticket: Option<Ticket>,
        outcome: &Result<Message, RpcError>,
    ) {
        if let (Some(windows), Some(ticket)) = (&mut self.windows, ticket) {
            windows.end(now, peer, ticket, outcome);
        }
    }

    /// What is known of the path to a peer, if there are windows.
    pub(crate) fn window(&self, peer: &ProcessId) -> Option<View> {
        self.windows.as_ref().and_then(|windows| windows.view(peer))
    }

    /// The windows to peers to which RPCs are in flight, in no order.
    pub(crate) fn windows_in_use(&self) -> impl Iterator<Item = PeerWindow> + '_ {
        self.windows.iter().flat_map(Windows::in_use)
    }

    /// Counters since it was made.
    pub(crate) fn totals(&self) -> &RpcTotals {
        &self.totals
    }

    /// RPCs in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.rpcs.len()
    }

    /// An RPC that was admitted has been called: its place is kept, or given back if it failed.
    #[inline]
    pub(crate) fn called(
        &mut self,
        now: Time,
        peer: ProcessId,
        ticket: Option<Ticket>,
        outcome: Result<u32, RpcError>,
    ) {
        let (Some(ticket), Some(windows)) = (ticket, &mut self.windows) else { return };
        match outcome {
            // Its end comes with an event, later.
            Ok(slot) => windows.hold(slot, ticket),
            Err(error) => windows.end(now, peer, ticket, &Err(error)),
        }
    }

    /// Starts an RPC; `body` makes the request for the match bits it is given. Returns its slot,
    /// good until its completion.
    ///
    /// # Errors
    /// When there is no slot, memory or place for it now: nothing was started.
    pub(crate) fn call<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        call: Call,
        body: impl FnOnce(RpcIds) -> Body,
    ) -> Result<u32, RpcError> {
        let full = RpcError::Local(LnetErrorKind::Full);
        if self.rpcs.is_full() {
            return Err(full);
        }
        let request = self.cells.take(turn.memory).ok_or(full)?;
        let Some(sink) = self.cells.take(turn.memory) else {
            self.cells.give(request);
            return Err(full);
        };
        let reply = self.ids.next();
        let bulk = if call.bulk == Bulk::None { 0 } else { self.ids.next() };
        let ids = RpcIds { reply, bulk };
        let message = Message {
            order: OUR_ORDER,
            version: VERSION,
            features: call.features,
            body: body(ids),
        };
        let mut raw = [0; MESSAGE_LEN];
        message.encode(&mut raw);
        turn.memory.write(request, &raw);
        let rpc = Rpc {
            reply_bits: ids.reply,
            peer: call.peer,
            service: call.service,
            parts: [None; 3],
            request,
            sink,
            started: turn.now,
            deadline: turn.now + call.timeout,
            // All descriptors go without a reply and without a reason: LNet shuts down.
            ended: Completion {
                user: call.user,
                took: Nanos::ZERO,
                bulk_moved: 0,
                outcome: Err(RpcError::Aborted),
            },
            given_up: false,
        };
        let Ok(slot) = self.rpcs.insert(rpc) else { unreachable!("checked above") };
        if let Err(error) = self.post(turn, slot, &call, ids) {
            self.fail(turn, slot, RpcError::Local(error.into()));
            // Parts that were posted end by events, and the completion comes with the last one.
            if self.rpcs.get(slot).is_some_and(Rpc::is_over) {
                self.release(slot);
                return Err(RpcError::Local(error.into()));
            }
        }
        self.next_scan = self.next_scan.min(turn.now + call.timeout);
        Ok(slot)
    }

    /// Posts the sinks first, then sends: the reply may be fast.
    fn post<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        slot: u32,
        call: &Call,
        ids: RpcIds,
    ) -> Result<(), LnetError> {
        let client_slot = self.client_slot;
        let Some(rpc) = self.rpcs.get_mut(slot) else { unreachable!("just inserted") };
        let md = |part: Part, span: Span, options: MdOptions| Md {
            spans: smallvec![span],
            threshold: Some(1),
            max_size: None,
            options,
            owner: turn.owner,
            user: Mark { role: Role::RpcClient(client_slot), part, slot }.encode(),
        };
        let entry = |match_bits: u64| MatchEntry {
            from: MatchId { nid: call.peer.nid, pid: call.peer.pid },
            match_bits,
            ignore_bits: 0,
            position: Position::After,
            unlink: Unlink::Auto,
        };
        let sink = md(Part::Reply, rpc.sink, MdOptions::OP_PUT);
        let key = turn.shard.attach(turn.now, REPLY_PORTAL, entry(ids.reply), sink)?;
        rpc.parts[Part::Reply as usize] = Some(key);
        let bulk = match call.bulk {
            Bulk::None => None,
            Bulk::Sink(span) => Some((span, MdOptions::OP_PUT)),
            Bulk::Source(span) => Some((span, MdOptions::OP_GET)),
        };
        if let Some((span, options)) = bulk {
            let md = md(Part::Bulk, span, options);
            let key = turn.shard.attach(turn.now, REPLY_PORTAL, entry(ids.bulk), md)?;
            rpc.parts[Part::Bulk as usize] = Some(key);
        }
        let key = turn.shard.bind(md(Part::Request, rpc.request, MdOptions::empty()))?;
        rpc.parts[Part::Request as usize] = Some(key);
        if turn.shard.journal_enabled() {
            turn.shard.note(turn.now, journal::rpc_started(call, ids, key));
        }
        turn.shard.put(
            turn.now,
            PutArgs {
                md: key,
                local: call.local,
                target: call.peer,
                portal: call.service.portal(),
                match_bits: u64::from(call.service.id()),
                offset: 0,
                hdr_data: 0,
                ack: AckWanted::No,
                timeout: None,
            },
        )
    }

    /// Takes in an event of one of the RPCs; the answer is the completion, if it was the last.
    pub(crate) fn handle<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        mark: Mark,
        event: &Event,
    ) -> Option<Completion> {
        let rpc = self.rpcs.get_mut(mark.slot)?;
        if rpc.parts[mark.part as usize] != Some(event.md) {
            return None;
        }
        if event.unlinked {
            rpc.parts[mark.part as usize] = None;
        }
        let withdrawn = event.kind == EventKind::Unlink || event.status == Status::Canceled;
        let counted = rpc.given_up && matches!(rpc.ended.outcome, Err(RpcError::PeerLost(_)));
        if !event.status.is_ok() && !withdrawn && !counted {
            self.totals.errors += 1;
        }
        let failure = match (mark.part, event.kind, event.status) {
            (Part::Request, EventKind::Send, Status::Ok) => {
                self.totals.sent += 1;
                None
            }
            // The reply may overtake bad news of its request [LST-7].
            (Part::Request, EventKind::Send, _) if rpc.reply().is_some() => None,
            (Part::Request, EventKind::Send, status) => Some(RpcError::Send(status)),
            (Part::Reply, EventKind::Put, Status::Ok) => read_reply(turn.memory, rpc, event),
            (Part::Reply, EventKind::Put, status) => Some(RpcError::Receive(status)),
            (Part::Bulk, EventKind::Put | EventKind::Get, Status::Ok) => {
                rpc.ended.bulk_moved = event.moved;
                None
            }
            (Part::Bulk, EventKind::Put | EventKind::Get, status) => Some(RpcError::Bulk(status)),
            _ => None,
        };
        let refused = rpc.reply().is_some_and(|reply| status(&reply.body) != Some(0));
        if let Some(failure) = failure {
            self.fail(turn, mark.slot, failure);
        } else if refused {
            // No bulk follows an error [LST-8].
            self.withdraw(turn, mark.slot, Part::Bulk);
        }
        self.finish(turn, mark.slot)
    }

    /// Gives an RPC up. Its completion follows with the last of its events.
    pub(crate) fn abort<M: Memory>(&mut self, turn: &mut Turn<'_, M>, slot: u32, why: RpcError) {
        self.fail(turn, slot, why);
    }

    /// Gives up all RPCs whose time is over.
    pub(crate) fn expire<M: Memory>(&mut self, turn: &mut Turn<'_, M>) {
        if turn.now < self.next_scan {
            return;
        }
        let mut next_scan = Time::NEVER;
        let mut overdue = Vec::new();
        for (slot, rpc) in self.rpcs.iter() {
            if rpc.given_up {
                continue;
            }
            if rpc.deadline <= turn.now {
                overdue.push(slot);
            } else {
                next_scan = next_scan.min(rpc.deadline);
            }
        }
        self.next_scan = next_scan;
        for slot in overdue {
            self.totals.expired += 1;
            self.fail(turn, slot, RpcError::TimedOut);
        }
    }

    /// Gives up all RPCs with a peer that was lost: LNet does not know that they await more than
    /// their request's departure. When the peer is there again, in another life, requests that have
    /// not left are for that one.
    pub(crate) fn peer_lost<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        lost: &ProcessId,
        status: Status,
    ) {
        let in_time = |rpc: &Rpc| {
            status == Status::PeerRestarted && rpc.parts[Part::Request as usize].is_some()
        };
        let with_it = |rpc: &Rpc| rpc.peer.is_lost_with(lost) && !rpc.given_up && !in_time(rpc);
        let lost: Vec<u32> =
            self.rpcs.iter().filter(|(_, rpc)| with_it(rpc)).map(|(slot, _)| slot).collect();
        for slot in lost {
            // A kernel client finds the loss by the time-out of its RPC [LST-11].
            self.totals.expired += 1;
            self.totals.errors += 1;
            self.fail(turn, slot, RpcError::PeerLost(status));
        }
    }

    /// When [`RpcClient::expire`] or [`RpcClient::take_due_peer`] has something to do at the
    /// earliest.
    pub(crate) fn next_deadline(&self) -> Time {
        let due = self.windows.as_ref().map_or(Time::NEVER, Windows::next_due);
        self.next_scan.min(due)
    }

    /// Whether it has message buffers.
    pub(crate) fn holds_memory(&self) -> bool {
        !self.cells.is_empty()
    }

    /// Returns its message buffers.
    ///
    /// # Panics
    /// When an RPC is in flight.
    pub(crate) fn release_memory(&mut self, memory: &mut impl Memory) {
        assert!(self.rpcs.is_empty(), "an RPC is in flight");
        self.cells.release(memory);
    }

    /// Notes the first reason and withdraws what is still out.
    fn fail<M: Memory>(&mut self, turn: &mut Turn<'_, M>, slot: u32, why: RpcError) {
        let Some(rpc) = self.rpcs.get_mut(slot) else { return };
        if !rpc.given_up {
            (rpc.given_up, rpc.ended.outcome) = (true, Err(why));
        }
        for part in [Part::Request, Part::Reply, Part::Bulk] {
            self.withdraw(turn, slot, part);
        }
    }

    fn withdraw<M: Memory>(&mut self, turn: &mut Turn<'_, M>, slot: u32, part: Part) {
        if let Some(md) = self.rpcs.get(slot).and_then(|rpc| rpc.parts[part as usize]) {
            turn.shard.unlink(turn.now, md);
        }
    }

    #[inline]
    fn finish<M: Memory>(&mut self, turn: &mut Turn<'_, M>, slot: u32) -> Option<Completion> {
        let rpc = self.rpcs.get_mut(slot)?;
        if !rpc.is_over() {
            return None;
        }
        rpc.ended.took = turn.now.since(rpc.started);
        if turn.shard.journal_enabled() {
            turn.shard.note(turn.now, journal::rpc_ended(rpc.reply_bits, &rpc.ended));
        }
        if let Some(windows) = &mut self.windows {
            windows.end_held(turn.now, rpc.peer, slot, &rpc.ended.outcome);
        }
        let completion = Some(rpc.ended);
        self.release(slot);
        completion
    }

    fn release(&mut self, slot: u32) {
        if let Some(rpc) = self.rpcs.get(slot) {
            self.cells.give(rpc.sink);
            self.cells.give(rpc.request);
            self.rpcs.free(slot);
        }
    }
}

/// Reads the reply; the answer is what is wrong with it.
fn read_reply(memory: &impl Memory, rpc: &mut Rpc, event: &Event) -> Option<RpcError> {
    if event.moved != CELL {
        return Some(RpcError::BadReply);
    }
    let mut raw = [0; MESSAGE_LEN];
    memory.read(rpc.sink, &mut raw);
    match Message::parse(&raw) {
        Ok(reply) if Some(reply.body.message_type()) == rpc.service.request().reply() => {
            if !rpc.given_up {
                rpc.ended.outcome = Ok(reply);
            }
            None
        }
        _ => Some(RpcError::BadReply),
    }
}

mod journal;
#[cfg(test)]
mod tests;
