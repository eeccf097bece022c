//! The answerer's side of an RPC: who is answered when. PING and BRW are served here, framework
//! requests wait here for the framework [LST-8].

use lustrine_lnet::md::MdKey;
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::time::Nanos;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::ProcessId;
use lustrine_wire::srpc::{Body, BrwCheck, BrwReply, PING_MAGIC, PingReply, Sid};

use super::quota::Shares;
use super::request::{Request, Served};
use super::waiting::Waiting;
use crate::bulk::{Budget, Grant, Source};
use crate::counters::RpcTotals;
use crate::cpt_message::FetchError;
use crate::limits::{ANSWERS_MAX, FRAMEWORK_MAX, WAITING_CROWDED};
use crate::message_pool::MessagePool;
use crate::slab::Slab;
use crate::turn::Turn;

pub(super) use client_stats::StatsTransfer;
use requests::{Kind, Requester, agreement, examine};

mod client_stats;
mod requests;
mod steps;

/// What an answer is at.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The framework thinks about it.
    Asked,
    /// A list of destinations is on its way to us.
    Fetching { sink: Grant, count: u32, order: ByteOrder },
    /// Data are on their way to the client.
    Pushing { len: u32 },
    /// ClientStats are on their way to the requester.
    StatsGather { grant: Grant, sid: Sid },
    /// Data are on their way to us.
    Pulling { sink: Grant, check: BrwCheck },
    /// The reply is on its way.
    Replying { cell: Span },
    /// Something failed: it ends without a reply.
    Failed,
}

#[derive(Debug)]
struct Answer {
    requester: Requester,
    stage: Stage,
    md: Option<MdKey>,
    /// Bytes of data that came.
    moved: u32,
}

/// What became of an answer after an event.
#[derive(Debug)]
pub(super) enum Progress {
    /// Nothing the framework needs to know.
    None,
    /// A list of destinations is here, or will never be.
    Fetched(u32, Result<Vec<ProcessId>, FetchError>),
}

/// All RPCs being answered on one CPU partition.
#[derive(Debug)]
pub(super) struct Answers {
    answers: Slab<Answer>,
    /// Of them, framework requests.
    framework: u32,
    cells: MessagePool,
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
            answers: Slab::new(ANSWERS_MAX + FRAMEWORK_MAX),
            framework: 0,
            cells: MessagePool::default(),
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

    pub(super) fn count_received(&mut self) {
        self.totals.received += 1;
    }

    pub(super) fn count_dropped(&mut self) {
        self.totals.dropped += 1;
    }

    /// Takes a framework request; the answer is the slot it waits in. It is dropped if its peer has
    /// its share already: a slot is free again when the reply has left, and that is up to the peer.
    pub(super) fn admit_framework(&mut self, request: Request) -> Option<u32> {
        let has_share = !self.shares.may_ask(&request.hop, self.framework);
        if self.framework == FRAMEWORK_MAX || has_share {
            self.totals.dropped += 1;
            return None;
        }
        let requester = Requester::of(&request, Kind::Framework);
        let answer = Answer { requester, stage: Stage::Asked, md: None, moved: 0 };
        let slot = self.answers.insert(answer).ok()?;
        self.framework += 1;
        self.shares.request_began(&request.hop);
        Some(slot)
    }

    /// Serves a test request, or lets it wait for a slot or memory, in the order of its peer's.
    /// Of a crowd that waits, the peer with most requests loses its newest.
    pub(super) fn serve<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        source: &mut Source,
        budget: &mut Budget,
        request: &Request,
    ) {
        let peer = request.hop;
        let outcome = match self.queue(request).must_queue(&peer) {
            true => Served::PeerWaits,
            false => self.try_serve(turn, source, budget, request),
        };
        if outcome == Served::Done {
            return;
        }
        if turn.shard.journal_enabled() {
            turn.shard.note(turn.now, request.deferred(outcome));
        }
        self.queue(request).push(*request, outcome);
        if self.waiting() > WAITING_CROWDED {
            let pings_give_way = self.pings.longest() > self.brws.longest();
            let queue = if pings_give_way { &mut self.pings } else { &mut self.brws };
            queue.drop_one();
            self.totals.dropped += 1;
        }
    }

    /// Serves requests that waited, as far as it goes.
    pub(super) fn serve_waiting<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        source: &mut Source,
        budget: &mut Budget,
    ) {
        // Called in every turn, and most of the time no request waits.
        if self.pings.len() != 0 {
            let mut pings = core::mem::take(&mut self.pings);
            pings.serve(|request| self.serve_in_time(turn, source, budget, request));
            self.pings = pings;
        }
        if self.brws.len() != 0 {
            let mut brws = core::mem::take(&mut self.brws);
            brws.serve(|request| self.serve_in_time(turn, source, budget, request));
            self.brws = brws;
        }
    }

    /// Serves a request that waited, unless it waited for longer than an RPC may take here: its
    /// sender has given it up if its time-out is not longer, and waiting for its data would take
    /// one time-out for each request.
    fn serve_in_time<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        source: &mut Source,
        budget: &mut Budget,
        request: &Request,
    ) -> Served {
        if turn.now.since(request.since) < self.timeout {
            return self.try_serve(turn, source, budget, request);
        }
        self.totals.dropped += 1;
        Served::Done
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
        let taken = self.answers.len() - self.framework;
        if taken >= ANSWERS_MAX {
            return Served::AllWait;
        }
        if !self.shares.may_answer(&request.hop, taken) {
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

    /// Ends a framework request without a reply.
    pub(super) fn drop_framework(&mut self, slot: u32) {
        self.totals.dropped += 1;
        self.remove(slot);
    }

    /// Gives up waiting for data of a peer that was lost: the memory for them is wanted. What it
    /// wanted done with its memory is not begun any more: it would be waited for in vain, for a
    /// time-out each, while requests of its next life wait behind.
    pub(super) fn peer_lost<M: Memory>(&mut self, turn: &mut Turn<'_, M>, lost: &ProcessId) {
        for (_, answer) in self.answers.iter() {
            let waits = matches!(answer.stage, Stage::Pulling { .. } | Stage::Fetching { .. });
            if let (Some(md), true) = (answer.md, waits && answer.requester.from.is_lost_with(lost))
            {
                turn.shard.unlink(turn.now, md);
            }
        }
        let gone = self.brws.withdraw(&lost.nid, |request| request.from.is_lost_with(lost));
        self.totals.dropped += u64::from(gone);
    }

    fn insert(&mut self, request: &Request) -> u32 {
        let requester = Requester::of(request, Kind::Test);
        let answer = Answer { requester, stage: Stage::Failed, md: None, moved: 0 };
        self.shares.answer_began(&request.hop);
        self.answers.insert(answer).expect("slots were counted")
    }

    fn remove(&mut self, slot: u32) {
        if let Some(answer) = self.answers.get(slot) {
            match answer.requester.kind {
                Kind::Framework => {
                    self.framework -= 1;
                    self.shares.request_ended(&answer.requester.hop);
                }
                Kind::Test => self.shares.answer_ended(&answer.requester.hop),
            }
            self.answers.free(slot);
        }
    }

    fn set_stage(&mut self, slot: u32, stage: Stage) {
        if let Some(answer) = self.answers.get_mut(slot) {
            answer.stage = stage;
        }
    }
}

#[cfg(test)]
mod tests;
