//! What the journal hears of an RPC.

use lustrine_lnet::journal::{Called, Step};
use lustrine_lnet::md::MdKey;
use lustrine_lnet::memory::Span;
use lustrine_lnet::shard::Shard;
use lustrine_wire::srpc::Service;

use super::super::RpcIds;
use super::{Bulk, Call, Completion};
use crate::body::status;

/// An RPC begins; its request is sent from `request`.
#[cold]
pub(super) fn called(call: &Call, ids: RpcIds, request: MdKey) -> Step {
    let (bulk_bits, bulk_len) = match call.bulk {
        Bulk::None => (None, 0),
        Bulk::Sink(Span { len, .. }) | Bulk::Source(Span { len, .. }) => (Some(ids.bulk), len),
    };
    Step::Called(Box::new(Called {
        reply_bits: ids.reply,
        bulk_bits,
        service: word_for(call),
        peer: call.peer,
        bulk_len,
        request: Shard::journal_number(request),
    }))
}

/// An RPC is over.
#[cold]
pub(super) fn over(reply_bits: u64, completion: &Completion) -> Step {
    let trouble = match &completion.outcome {
        Err(failure) => Some(failure.to_string()),
        Ok(reply) => match status(&reply.body) {
            None | Some(0) => None,
            Some(status) => Some(format!("the peer answered with status {status}")),
        },
    };
    Step::Over { reply_bits, trouble: trouble.map(String::into_boxed_str) }
}

fn word_for(call: &Call) -> &'static str {
    match (call.service, call.bulk) {
        (Service::Brw, Bulk::Source(_)) => "write",
        (Service::Brw, _) => "read",
        (Service::Ping, _) => "ping",
        (Service::MakeSession, _) => "make session",
        (Service::RemoveSession, _) => "remove session",
        (Service::Debug, _) => "debug",
        (Service::Batch, _) => "batch",
        (Service::Test, _) => "test",
        (Service::Stat, _) => "statistics",
        (Service::Join, _) => "join",
        (Service::ClientStats, _) => "figures",
    }
}
