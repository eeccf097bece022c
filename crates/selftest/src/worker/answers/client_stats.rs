//! A client's statistics on their way to the console (docs/protocol/client-stats.md).

use lustrine_lnet::memory::Memory;
use lustrine_wire::srpc::{Body, ClientStatsReply, Sid};

use super::{Answers, Stage};
use crate::bulk::{Budget, Term, charge};
use crate::errno;
use crate::turn::Turn;

/// Where statistics go, and what their reply says.
#[derive(Clone, Copy, Debug)]
pub(in crate::worker) struct StatsTransfer {
    pub(in crate::worker) bulk_bits: u64,
    pub(in crate::worker) features: u32,
    pub(in crate::worker) sid: Sid,
}

impl Answers {
    /// Puts statistics to the console; the reply follows when they are sent.
    pub(in crate::worker) fn put_client_stats<M: Memory>(
        &mut self,
        turn: &mut Turn<'_, M>,
        budget: &mut Budget,
        slot: u32,
        transfer: StatsTransfer,
        stats: &[u8],
    ) {
        let StatsTransfer { bulk_bits, features, sid } = transfer;
        let Some(answer) = self.answers.get(slot) else { return };
        let (peer, len) = (answer.requester.hop, stats.len() as u32);
        let grant = match self.shares.may_hold(&peer, charge(len), budget) {
            true => budget.take(turn.memory, len, Term::Rpc),
            false => None,
        };
        let Some(grant) = grant else {
            let refused = ClientStatsReply { status: errno::ENOMEM, sid, len: 0 };
            return self.reply(turn, slot, features, Body::ClientStatsReply(refused));
        };
        self.shares.hold(&peer, charge(len));
        turn.memory.write(grant.span, stats);
        self.set_stage(slot, Stage::StatsGather { grant, sid });
        self.push(turn, slot, grant.span, bulk_bits);
    }
}
