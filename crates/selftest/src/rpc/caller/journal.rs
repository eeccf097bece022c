//! The journal entries of an RPC.

use lustrine_lnet::journal::{RpcStarted, Step};
use lustrine_lnet::md::MdKey;
use lustrine_lnet::memory::Span;
use lustrine_lnet::shard::Shard;
use lustrine_wire::srpc::Service;

use super::super::RpcIds;
use super::{Bulk, Call, Completion};
use crate::body::status;

/// An RPC starts; its request is sent from `request`.
#[cold]
pub(super) fn rpc_started(call: &Call, ids: RpcIds, request: MdKey) -> Step {
    let (bulk_bits, bulk_len) = match call.bulk {
        Bulk::None => (None, 0),
        Bulk::Sink(Span { len, .. }) | Bulk::Source(Span { len, .. }) => (Some(ids.bulk), len),
    };
    Step::RpcStarted(Box::new(RpcStarted {
        reply_bits: ids.reply,
        bulk_bits,
        service: word_for(call),
        peer: call.peer,
        bulk_len,
        request: Shard::journal_number(request),
    }))
}

/// An RPC has ended.
#[cold]
pub(super) fn rpc_ended(reply_bits: u64, completion: &Completion) -> Step {
    let error = match &completion.outcome {
        Err(failure) => Some(failure.to_string()),
        Ok(reply) => match status(&reply.body) {
            None | Some(0) => None,
            Some(status) => Some(format!("the peer answered with status {status}")),
        },
    };
    Step::RpcEnded { reply_bits, error: error.map(String::into_boxed_str) }
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
        (Service::ClientStats, _) => "client statistics",
    }
}
