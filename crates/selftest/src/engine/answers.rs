//! The answerer's side of an RPC: PING and BRW are served here, framework requests wait here for
//! the front (selftest-wire 7, 12, 13).

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{Md, MdKey, MdOptions, Owner};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::shard::{AckWanted, GetArgs, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::order::Order;
use lustrine_wire::srpc::{
    BULK_MAX, Body, BrwCheck, BrwOp, BrwReply, BrwRequest, Destination, FEATURE_BULK_LEN,
    FEATURES_KNOWN, MESSAGE_LEN, Message, PING_MAGIC, PingReply, REPLY_PORTAL, VERSION,
    destination_at,
};
use smallvec::smallvec;

use crate::body::reply_bits;
use crate::bulk::{Budget, Grant, Source, Term, charge};
use crate::cells::Cells;
use crate::counters::RpcTotals;
use crate::cross::FetchError;
use crate::errno;
use crate::limits::{ANSWERS_MAX, FRAMEWORK_MAX, PAGE, PEER_PART, WAITING_CROWDED, WAITING_MAX};
use crate::lost::covers;
use crate::mark::{Mark, Part, Role};
use crate::pattern::{self, OUR_ORDER};
use crate::slots::Slots;
use crate::turn::Turn;

use super::shares::Shares;
use super::waiting::{Served, Waiting};

/// A request and whom its answer is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) message: Message,
    /// The source seen in the request (selftest-wire 7, LU-9119).
    pub(super) from: ProcessId,
    /// Our NID it was addressed to; the answer comes from there.
    pub(super) local: Nid,
}

/// What of a request its answer needs.
#[derive(Clone, Copy, Debug)]
struct Asker {
    from: ProcessId,
    local: Nid,
    reply_bits: u64,
    features: u32,
    order: Order,
    kind: Kind,
}

/// Which of the two limits an answer counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Test,
    Framework,
}

impl Asker {
    fn of(request: &Request, kind: Kind) -> Asker {
        Asker {
            from: request.from,
            local: request.local,
            reply_bits: reply_bits(&request.message.body).unwrap_or(0),
            features: request.message.features,
            order: request.message.order,
            kind,
        }
    }
}

/// What an answer is at.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The front thinks about it.
    Asked,
    /// A list of destinations is on its way to us.
    Fetching { sink: Grant, count: u32, order: Order },
    /// Data are on their way to the client.
    Pushing { len: u32 },
    /// Data are on their way to us.
    Pulling { sink: Grant, check: BrwCheck },
    /// The reply is on its way.
    Replying { cell: Span },
    /// Something failed: it ends without a reply.
    Failed,
}

#[derive(Debug)]
struct Answer {
    asker: Asker,
    stage: Stage,
    md: Option<MdKey>,
    /// Bytes of data that came.
    moved: u32,
}

/// What became of an answer after an event.
#[derive(Debug)]
pub(super) enum Progress {
    /// Nothing the front needs to know.
    None,
    /// A list of destinations is here, or will never be.
    Fetched(u32, Result<Vec<ProcessId>, FetchError>),
}

/// What a BRW request wants, after all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    op: BrwOp,
    len: u32,
    check: BrwCheck,
}

/// All RPCs being answered on one CPU partition.
#[derive(Debug)]
pub(super) struct Answers {
    answers: Slots<Answer>,
    /// Of them, framework requests.
    framework: u32,
    cells: Cells,
    shares: Shares,
    /// Requests that wait for a slot or, BRW, for memory. Kept apart: pings need no memory.
    pings: Waiting,
    brws: Waiting,
    timeout: Nanos,
    totals: RpcTotals,
}

impl Answers {
    pub(super) fn new(timeout: Nanos) -> Answers {
        Answers {
            answers: Slots::new(ANSWERS_MAX + FRAMEWORK_MAX),
            framework: 0,
            cells: Cells::default(),
            shares: Shares::default(),
            pings: Waiting::default(),
            brws: Waiting::default(),
            timeout,
            totals: RpcTotals::default(),
        }
    }

    pub(super) fn totals(&self) -> &RpcTotals {
        &self.totals
    }

    /// Test requests that wait.
    pub(super) fn waiting(&self) -> u32 {
        self.pings.len() + self.brws.len()
    }

    /// Framework requests under way.
    pub(super) fn framework(&self) -> u32 {
        self.framework
    }

    pub(super) fn count_received(&mut self) {
        self.totals.received += 1;
    }

    pub(super) fn count_dropped(&mut self) {
        self.totals.dropped += 1;
    }

    /// Takes a framework request; the answer is the slot it waits in. The posting of request
    /// buffers sees to it that there always is one.
    pub(super) fn admit_framework(&mut self, request: Request) -> Option<u32> {
        if self.framework == FRAMEWORK_MAX {
            self.totals.dropped += 1;
            return None;
        }
        let asker = Asker::of(&request, Kind::Framework);
        let answer = Answer { asker, stage: Stage::Asked, md: None, moved: 0 };
        let slot = self.answers.insert(answer).ok()?;
        self.framework += 1;
        Some(slot)
    }

    /// Serves a test request, or lets it wait for a slot or memory, in the order of its peer's.
    /// One too many of a peer that has a crowd waiting is dropped.
    pub(super) fn serve<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        source: &mut Source,
        budget: &mut Budget,
        request: Request,
    ) {
        let peer = request.from.nid;
        let outcome = match self.queue(&request).must_queue(&peer) {
            true => Served::PeerWaits,
            false => self.try_serve(turn, source, budget, &request),
        };
        if outcome == Served::Done {
            return;
        }
        let its_own = self.pings.of(&peer) + self.brws.of(&peer);
        if self.waiting() >= WAITING_CROWDED && its_own >= WAITING_MAX / PEER_PART {
            self.totals.dropped += 1;
        } else {
            self.queue(&request).push(request, outcome);
        }
    }

    /// Serves requests that waited, as far as it goes.
    pub(super) fn serve_waiting<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        source: &mut Source,
        budget: &mut Budget,
    ) {
        let mut pings = core::mem::take(&mut self.pings);
        pings.serve(|request| self.try_serve(turn, source, budget, request));
        self.pings = pings;
        let mut brws = core::mem::take(&mut self.brws);
        brws.serve(|request| self.try_serve(turn, source, budget, request));
        self.brws = brws;
    }

    fn queue(&mut self, request: &Request) -> &mut Waiting {
        match request.message.body {
            Body::BrwRequest(_) => &mut self.brws,
            _ => &mut self.pings,
        }
    }

    fn try_serve<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        source: &mut Source,
        budget: &mut Budget,
        request: &Request,
    ) -> Served {
        if self.answers.len() - self.framework >= ANSWERS_MAX {
            return Served::AllWait;
        }
        if !self.shares.may_answer(&request.from.nid) {
            return Served::PeerWaits;
        }
        let features = request.message.features;
        match &request.message.body {
            Body::PingRequest(ping) if ping.magic == PING_MAGIC => {
                let status = agreement(&request.message);
                let pong = PingReply { status, magic: ping.magic, seq: ping.seq };
                self.answer_at_once(turn, request, Body::PingReply(pong))
            }
            Body::BrwRequest(brw) => match agreement(&request.message) {
                0 => match examine(brw, features) {
                    Ok(transfer) => {
                        self.transfer(turn, source, budget, request, brw.bulk_bits, transfer)
                    }
                    Err(status) => self.refuse_brw(turn, request, status),
                },
                status => self.refuse_brw(turn, request, status),
            },
            // A ping with a wrong magic, or no test request at all.
            _ => {
                self.totals.dropped += 1;
                Served::Done
            }
        }
    }

    fn refuse_brw<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        request: &Request,
        status: u32,
    ) -> Served {
        self.answer_at_once(turn, request, Body::BrwReply(BrwReply { status }))
    }

    fn answer_at_once<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        request: &Request,
        body: Body,
    ) -> Served {
        let slot = self.insert(request);
        self.reply(turn, slot, request.message.features, body);
        Served::Done
    }

    /// Starts the data transfer of a BRW request, if there is memory for it.
    fn transfer<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        source: &mut Source,
        budget: &mut Budget,
        request: &Request,
        bulk_bits: u64,
        transfer: Transfer,
    ) -> Served {
        let Transfer { op, len, check } = transfer;
        match op {
            BrwOp::Read => {
                let Some(span) = source.part(turn.memory, 0, len) else { return Served::AllWait };
                let slot = self.insert(request);
                self.set_stage(slot, Stage::Pushing { len });
                self.push(turn, slot, span, bulk_bits);
            }
            BrwOp::Write => {
                let peer = &request.from.nid;
                if !self.shares.may_hold(peer, charge(len), budget.limit()) {
                    return Served::PeerWaits;
                }
                let Some(sink) = budget.take(turn.memory, len, Term::Rpc) else {
                    return Served::AllWait;
                };
                self.shares.hold(peer, charge(len));
                pattern::poison(turn.memory, sink.span, check);
                let slot = self.insert(request);
                self.set_stage(slot, Stage::Pulling { sink, check });
                self.pull(turn, slot, sink.span, bulk_bits);
            }
        }
        Served::Done
    }

    /// Gets the list of destinations of a TEST. The answer comes as [`Progress::Fetched`].
    ///
    /// # Errors
    /// When there is no memory for it now, or its peer has its share.
    pub(super) fn fetch<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        budget: &mut Budget,
        slot: u32,
        bulk_bits: u64,
        (count, len, order): (u32, u32, Order),
    ) -> Result<(), FetchError> {
        let Some(answer) = self.answers.get(slot) else { return Err(FetchError::Failed) };
        let peer = answer.asker.from.nid;
        if !self.shares.may_hold(&peer, charge(len), budget.limit()) {
            return Err(FetchError::NoMemory);
        }
        let sink = budget.take(turn.memory, len, Term::Rpc).ok_or(FetchError::NoMemory)?;
        self.shares.hold(&peer, charge(len));
        self.set_stage(slot, Stage::Fetching { sink, count, order });
        self.pull(turn, slot, sink.span, bulk_bits);
        Ok(())
    }

    /// Ends a framework request without a reply.
    pub(super) fn drop_framework(&mut self, slot: u32) {
        self.totals.dropped += 1;
        self.remove(slot);
    }

    /// Sends a reply. Its slot is free after the last event of it.
    pub(super) fn reply<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        slot: u32,
        features: u32,
        body: Body,
    ) {
        let Some(answer) = self.answers.get_mut(slot) else { return };
        let bits = answer.asker.reply_bits;
        let Some(cell) = self.cells.take(turn.memory) else {
            self.totals.dropped += 1;
            self.remove(slot);
            return;
        };
        let mut raw = [0; MESSAGE_LEN];
        Message { order: OUR_ORDER, version: VERSION, features, body }.encode(&mut raw);
        turn.memory.write(cell, &raw);
        answer.stage = Stage::Replying { cell };
        self.push(turn, slot, cell, bits);
    }

    /// Takes in an event of one of the answers.
    pub(super) fn handle<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        budget: &mut Budget,
        slot: u32,
        event: &Event,
    ) -> Progress {
        let Some(answer) = self.answers.get_mut(slot) else { return Progress::None };
        if answer.md != Some(event.md) {
            return Progress::None;
        }
        if !event.status.is_ok() && event.status != Status::Canceled {
            self.totals.errors += 1;
        }
        let good = event.status.is_ok() && event.kind != EventKind::Unlink;
        if good && event.kind == EventKind::Reply {
            answer.moved = event.moved;
        }
        if !event.unlinked {
            if !good {
                turn.shard.unlink(turn.now, event.md);
            }
            return Progress::None;
        }
        answer.md = None;
        let (asker, moved) = (answer.asker, answer.moved);
        match answer.stage {
            Stage::Replying { cell } => {
                self.cells.give(cell);
                if !good {
                    self.totals.dropped += 1;
                }
                self.remove(slot);
            }
            Stage::Pushing { len } if good => {
                self.totals.bulk_put += u64::from(len);
                let body = Body::BrwReply(BrwReply { status: 0 });
                self.reply(turn, slot, asker.features, body);
            }
            // The last event of a GET is the REPLY's or, if that was faster, the request's.
            Stage::Pulling { sink, check } if good => {
                self.totals.bulk_get += u64::from(moved);
                let whole = moved == sink.span.len
                    && pattern::verify(turn.memory, sink.span, check, asker.order).is_ok();
                self.give_back(turn, budget, &asker.from.nid, sink);
                let status = if whole { 0 } else { errno::EBADMSG };
                let body = Body::BrwReply(BrwReply { status });
                self.reply(turn, slot, asker.features, body);
            }
            Stage::Fetching { sink, count, order } => {
                let list = if good && moved == sink.span.len {
                    self.totals.bulk_get += u64::from(moved);
                    read_list(turn.memory, sink.span, count, order)
                } else {
                    Err(FetchError::Failed)
                };
                answer.stage = Stage::Asked;
                self.give_back(turn, budget, &asker.from.nid, sink);
                return Progress::Fetched(slot, list);
            }
            _ => self.end(turn, budget, slot),
        }
        Progress::None
    }

    /// Gives up waiting for data of a peer that was lost: the memory for them is wanted.
    pub(super) fn peer_lost<M: Memory>(&mut self, turn: &mut Turn<'_, M>, lost: &ProcessId) {
        for (_, answer) in self.answers.iter() {
            let waits = matches!(answer.stage, Stage::Pulling { .. } | Stage::Fetching { .. });
            if let (Some(md), true) = (answer.md, waits && covers(lost, &answer.asker.from)) {
                turn.shard.unlink(turn.now, md);
            }
        }
    }

    /// Ends an answer whose data transfer failed: no reply (selftest-wire 7).
    fn end<M: Memory>(&mut self, turn: &mut Turn<'_, M>, budget: &mut Budget, slot: u32) {
        self.totals.dropped += 1;
        if let Some(&Answer { stage: Stage::Pulling { sink, .. }, asker, .. }) =
            self.answers.get(slot)
        {
            self.give_back(turn, budget, &asker.from.nid, sink);
        }
        self.remove(slot);
    }

    fn give_back<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        budget: &mut Budget,
        peer: &Nid,
        sink: Grant,
    ) {
        self.shares.let_go(peer, charge(sink.span.len));
        budget.give(turn.memory, sink);
    }

    fn insert(&mut self, request: &Request) -> u32 {
        let asker = Asker::of(request, Kind::Test);
        let answer = Answer { asker, stage: Stage::Failed, md: None, moved: 0 };
        self.shares.answer_began(&request.from.nid);
        self.answers.insert(answer).expect("slots were counted")
    }

    fn remove(&mut self, slot: u32) {
        if let Some(answer) = self.answers.get(slot) {
            match answer.asker.kind {
                Kind::Framework => self.framework -= 1,
                Kind::Test => self.shares.answer_ended(&answer.asker.from.nid),
            }
            self.answers.free(slot);
        }
    }

    fn set_stage(&mut self, slot: u32, stage: Stage) {
        if let Some(answer) = self.answers.get_mut(slot) {
            answer.stage = stage;
        }
    }

    /// PUTs data or a reply to the client.
    fn push<M: Memory>(&mut self, turn: &mut Turn<'_, M>, slot: u32, span: Span, bits: u64) {
        let Some((md, asker)) = self.bind(turn, slot, span, 1) else { return };
        let sent = turn.shard.put(
            turn.now,
            PutArgs {
                md,
                local: Some(asker.local),
                target: asker.from,
                portal: REPLY_PORTAL,
                match_bits: bits,
                offset: 0,
                hdr_data: 0,
                ack: AckWanted::No,
                timeout: None,
            },
        );
        if sent.is_err() {
            // Its UNLINK event ends the answer.
            turn.shard.unlink(turn.now, md);
        }
    }

    /// GETs data from the client.
    fn pull<M: Memory>(&mut self, turn: &mut Turn<'_, M>, slot: u32, span: Span, bits: u64) {
        let Some((md, asker)) = self.bind(turn, slot, span, 2) else { return };
        let sent = turn.shard.get(
            turn.now,
            GetArgs {
                md,
                local: Some(asker.local),
                target: asker.from,
                portal: REPLY_PORTAL,
                match_bits: bits,
                offset: 0,
                timeout: Some(self.timeout),
            },
        );
        if sent.is_err() {
            turn.shard.unlink(turn.now, md);
        }
    }

    fn bind<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        slot: u32,
        span: Span,
        operations: u32,
    ) -> Option<(MdKey, Asker)> {
        let answer = self.answers.get_mut(slot)?;
        let md = Md {
            spans: smallvec![span],
            threshold: Some(operations),
            max_size: None,
            options: MdOptions::empty(),
            owner: Owner::SELFTEST,
            user: Mark { role: Role::Answer, part: Part::Bulk, slot }.encode(),
        };
        let md = turn.shard.bind(md).expect("one fragment of at most 1 MiB");
        answer.md = Some(md);
        Some((md, answer.asker))
    }
}

/// 0, or EPROTO when version or features do not agree (selftest-wire 7, 12, 13).
fn agreement(message: &Message) -> u32 {
    let agree = message.version == VERSION && message.features & !FEATURES_KNOWN == 0;
    if agree { 0 } else { errno::EPROTO }
}

/// Checks a BRW request (selftest-wire 12). `discard` is served like `none`.
fn examine(brw: &BrwRequest, features: u32) -> Result<Transfer, u32> {
    let (Some(op), Some(check)) = (BrwOp::from_number(brw.rw), BrwCheck::from_number(brw.check))
    else {
        return Err(errno::EINVAL);
    };
    let len = brw.len;
    let whole_words = len.is_multiple_of(8) || matches!(check, BrwCheck::None | BrwCheck::Discard);
    let whole_pages = len.is_multiple_of(PAGE) || features & FEATURE_BULK_LEN != 0;
    if len == 0 || len > BULK_MAX || !whole_words || !whole_pages {
        return Err(errno::EINVAL);
    }
    Ok(Transfer { op, len, check })
}

/// Reads a list of destinations: entries do not cross pages, and a kernel console cuts the list
/// to 12 bytes per entry, so that the end of a list over several pages is missing. A missing pid
/// is 12345, as everywhere; a missing NID cannot be helped (selftest-wire 11, 18).
fn read_list(
    memory: &impl Memory,
    span: Span,
    count: u32,
    order: Order,
) -> Result<Vec<ProcessId>, FetchError> {
    const NID_LEN: u32 = 8;
    const ENTRY_LEN: u32 = Destination::LEN as u32;
    let mut list = Vec::with_capacity(count as usize);
    for index in 0..count {
        let at = destination_at(index as usize, PAGE as usize) as u32;
        let len = ENTRY_LEN.min(span.len.saturating_sub(at));
        if len < NID_LEN {
            return Err(FetchError::Bad);
        }
        let mut raw = [0; Destination::LEN];
        memory.read(span.part(at, len), &mut raw[..len as usize]);
        let mut process = Destination::parse(&raw, order).process_id();
        if len < ENTRY_LEN {
            process.pid = PID_LUSTRE;
        }
        if process.nid.is_any() {
            return Err(FetchError::Bad);
        }
        list.push(process);
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
