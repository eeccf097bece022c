//! Replies as typed lists of their buffers.

use lustrine_fswire::message::Message;
use lustrine_fswire::rpc::{Kind, Reply as ReplyBuffers};
use lustrine_ptlrpc::Reply;

use crate::error::{ClientError, Outcome, malformed};

/// The buffers of a reply; its error if it has one. Positive statuses belong to the operation.
pub(crate) fn parse(reply: &Reply, kind: Kind) -> Outcome<ReplyBuffers<'_>> {
    if reply.status < 0 {
        return Err(ClientError::Errno(reply.status.saturating_neg()));
    }
    let message = Message::parse(&reply.message).map_err(|error| malformed(&error.to_string()))?;
    Ok(ReplyBuffers::parse(kind, &message)?)
}

/// The buffers of a reply of one kind: `reply_of!(reply, MdsGetattr)`.
macro_rules! reply_of {
    ($reply:expr, $kind:ident) => {
        match crate::reply::parse($reply, lustrine_fswire::rpc::Kind::$kind) {
            Ok(lustrine_fswire::rpc::Reply::$kind(buffers)) => Ok(buffers),
            Ok(_) => Err(crate::error::malformed("a reply without its buffers")),
            Err(error) => Err(error),
        }
    };
}
pub(crate) use reply_of;
