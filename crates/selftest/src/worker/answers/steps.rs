//! The course of one answer: data from or to the client, then the reply [LST-8].

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{Md, MdKey, MdOptions};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::shard::{AckWanted, GetArgs, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{
    Body, BrwOp, BrwReply, ClientStatsReply, MESSAGE_LEN, Message, REPLY_PORTAL, VERSION,
};
use smallvec::smallvec;

use super::requests::{Requester, Transfer, read_list};
use super::{Answer, Answers, Progress, Stage};
use crate::bulk::{Budget, Grant, Source, Term, charge};
use crate::cpt_message::FetchError;
use crate::errno;
use crate::mark::{Mark, Part, Role};
use crate::pattern::{self, OUR_ORDER};
use crate::turn::Turn;
use crate::worker::request::{Request, Served};

impl Answers {
    /// Starts the data transfer of a BRW request, if there is memory for it.
    pub(super) fn transfer<M: Memory>(
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
                let peer = &request.hop;
                if !self.shares.may_hold(peer, charge(len), budget) {
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
    pub(in crate::worker) fn fetch<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        budget: &mut Budget,
        slot: u32,
        bulk_bits: u64,
        (count, len, order): (u32, u32, ByteOrder),
    ) -> Result<(), FetchError> {
        let Some(answer) = self.answers.get(slot) else { return Err(FetchError::Failed) };
        let peer = answer.requester.hop;
        if !self.shares.may_hold(&peer, charge(len), budget) {
            return Err(FetchError::NoMemory);
        }
        let sink = budget.take(turn.memory, len, Term::Rpc).ok_or(FetchError::NoMemory)?;
        self.shares.hold(&peer, charge(len));
        self.set_stage(slot, Stage::Fetching { sink, count, order });
        self.pull(turn, slot, sink.span, bulk_bits);
        Ok(())
    }

    /// Sends a reply. Its slot is free after the last event of it.
    pub(in crate::worker) fn reply<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        slot: u32,
        features: u32,
        body: Body,
    ) {
        let Some(answer) = self.answers.get_mut(slot) else { return };
        let bits = answer.requester.reply_bits;
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
    pub(in crate::worker) fn handle<M: Memory>(
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
        let (requester, moved) = (answer.requester, answer.moved);
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
                self.reply(turn, slot, requester.features, body);
            }
            Stage::StatsGather { grant, sid } if good => {
                let len = grant.span.len;
                self.give_back(turn, budget, &requester.hop, grant);
                let body = Body::ClientStatsReply(ClientStatsReply { status: 0, sid, len });
                self.reply(turn, slot, requester.features, body);
            }
            // The last event of a GET is the REPLY's or, if that was faster, the request's.
            Stage::Pulling { sink, check } if good => {
                self.totals.bulk_get += u64::from(moved);
                let whole = moved == sink.span.len
                    && pattern::verify(turn.memory, sink.span, check, requester.order).is_ok();
                self.give_back(turn, budget, &requester.hop, sink);
                let status = if whole { 0 } else { errno::EBADMSG };
                let body = Body::BrwReply(BrwReply { status });
                self.reply(turn, slot, requester.features, body);
            }
            Stage::Fetching { sink, count, order } => {
                let list = if good && moved == sink.span.len {
                    self.totals.bulk_get += u64::from(moved);
                    read_list(turn.memory, sink.span, count, order)
                } else {
                    Err(FetchError::Failed)
                };
                answer.stage = Stage::Asked;
                self.give_back(turn, budget, &requester.hop, sink);
                return Progress::Fetched(slot, list);
            }
            _ => self.end(turn, budget, slot),
        }
        Progress::None
    }

    /// Ends an answer whose data transfer failed: no reply [LST-8].
    fn end<M: Memory>(&mut self, turn: &mut Turn<'_, M>, budget: &mut Budget, slot: u32) {
        self.totals.dropped += 1;
        if let Some(&Answer { stage, requester, .. }) = self.answers.get(slot)
            && let Stage::Pulling { sink: grant, .. } | Stage::StatsGather { grant, .. } = stage
        {
            self.give_back(turn, budget, &requester.hop, grant);
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

    /// PUTs data or a reply to the client.
    pub(super) fn push<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        slot: u32,
        span: Span,
        bits: u64,
    ) {
        let Some((md, requester)) = self.bind(turn, slot, span, 1) else { return };
        let sent = turn.shard.put(
            turn.now,
            PutArgs {
                md,
                local: Some(requester.local),
                target: requester.from,
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
        let Some((md, requester)) = self.bind(turn, slot, span, 2) else { return };
        let sent = turn.shard.get(
            turn.now,
            GetArgs {
                md,
                local: Some(requester.local),
                target: requester.from,
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
    ) -> Option<(MdKey, Requester)> {
        let answer = self.answers.get_mut(slot)?;
        let md = Md {
            spans: smallvec![span],
            threshold: Some(operations),
            max_size: None,
            options: MdOptions::empty(),
            owner: turn.owner,
            user: Mark { role: Role::Answer, part: Part::Bulk, slot }.encode(),
        };
        let md = turn.shard.bind(md).expect("one fragment of at most 1 MiB");
        answer.md = Some(md);
        Some((md, answer.requester))
    }
}
