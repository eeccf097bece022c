//! Fields that many messages have in the same place [LST-4].

use lustrine_wire::srpc::Body;

/// The match bits of one RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RpcIds {
    /// Where the reply goes.
    pub(crate) reply: u64,
    /// Where the bulk transfer goes; 0 without one.
    pub(crate) bulk: u64,
}

/// The match bits a request wants its reply under; `None` for a reply.
pub(crate) fn reply_bits(body: &Body) -> Option<u64> {
    Some(match body {
        Body::MakeSessionRequest(request) => request.reply_bits,
        Body::RemoveSessionRequest(request) => request.reply_bits,
        Body::BatchRequest(request) => request.reply_bits,
        Body::StatRequest(request) => request.reply_bits,
        Body::TestRequest(request) => request.reply_bits,
        Body::DebugRequest(request) => request.reply_bits,
        Body::JoinRequest(request) => request.reply_bits,
        Body::BrwRequest(request) => request.reply_bits,
        Body::PingRequest(request) => request.reply_bits,
        Body::ClientStatsRequest(request) => request.reply_bits,
        _ => return None,
    })
}

/// The status of a reply; `None` for a request.
pub(crate) fn status(body: &Body) -> Option<u32> {
    Some(match body {
        Body::MakeSessionReply(reply) => reply.status,
        Body::RemoveSessionReply(reply) => reply.status,
        Body::BatchReply(reply) => reply.status,
        Body::StatReply(reply) => reply.status,
        Body::TestReply(reply) => reply.status,
        Body::DebugReply(reply) => reply.status,
        Body::JoinReply(reply) => reply.status,
        Body::BrwReply(reply) => reply.status,
        Body::PingReply(reply) => reply.status,
        Body::ClientStatsReply(reply) => reply.status,
        _ => return None,
    })
}

/// A request of the framework with its match bits in place; others stay as they are.
pub(crate) fn with_bits(mut body: Body, ids: RpcIds) -> Body {
    match &mut body {
        Body::MakeSessionRequest(request) => request.reply_bits = ids.reply,
        Body::RemoveSessionRequest(request) => request.reply_bits = ids.reply,
        Body::BatchRequest(request) => request.reply_bits = ids.reply,
        Body::StatRequest(request) => request.reply_bits = ids.reply,
        Body::DebugRequest(request) => request.reply_bits = ids.reply,
        Body::JoinRequest(request) => request.reply_bits = ids.reply,
        Body::TestRequest(request) => {
            (request.reply_bits, request.bulk_bits) = (ids.reply, ids.bulk);
        }
        Body::ClientStatsRequest(request) => {
            (request.reply_bits, request.bulk_bits) = (ids.reply, ids.bulk);
        }
        _ => {}
    }
    body
}
