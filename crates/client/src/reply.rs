//! Replies as typed lists of their buffers.

use lustrine_fswire::codec::Wire;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::{MdValid, MdtBody};
use lustrine_fswire::message::Message;
use lustrine_fswire::rpc::{Kind, Reply as ReplyBuffers};
use lustrine_ptlrpc::Reply;

use crate::error::{ClientError, Outcome, errno, malformed};

/// The buffers of a reply; its error if it has one. Positive statuses belong to the operation.
pub(crate) fn parse(reply: &Reply, kind: Kind) -> Outcome<ReplyBuffers<'_>> {
    if reply.status < 0 {
        return Err(ClientError::Errno(reply.status.saturating_neg()));
    }
    let message = Message::parse(&reply.message).map_err(|error| malformed(&error.to_string()))?;
    Ok(ReplyBuffers::parse(kind, &message)?)
}

/// The file that a refused change of a name is about, if it is on another metadata target, which
/// has to be asked [MDT-26].
pub(crate) fn elsewhere(reply: &Reply) -> Option<Fid> {
    if !matches!(reply.status.checked_neg()?, errno::EREMOTE | errno::EXDEV) {
        return None;
    }
    let message = Message::parse(&reply.message).ok()?;
    let body: MdtBody = MdtBody::parse(message.buffer(1)?).ok()?;
    (body.valid.contains(MdValid::MDS) && body.fid1.is_sane()).then_some(body.fid1)
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
