//! Replies that say no more than a status and whose session the node is in.

use lustrine_wire::srpc::{
    BatchReply, Body, ClientStatsReply, Counters, DebugReply, JoinReply, MakeSessionReply, Name,
    RemoveSessionReply, Sid, StatReply, TestReply,
};

/// The reply to a framework request that is refused; `None` for anything else.
pub(super) fn refusal(request: &Body, status: u32, sid: Sid) -> Option<Body> {
    let (timeout, name) = (0, Name::EMPTY);
    Some(match request {
        Body::MakeSessionRequest(_) => {
            Body::MakeSessionReply(MakeSessionReply { status, sid, timeout, name })
        }
        Body::RemoveSessionRequest(_) => {
            Body::RemoveSessionReply(RemoveSessionReply { status, sid })
        }
        Body::DebugRequest(_) => {
            Body::DebugReply(DebugReply { status, sid, timeout, batches: 0, name })
        }
        Body::BatchRequest(_) => Body::BatchReply(BatchReply { status, sid, active: 0, time: 0 }),
        Body::StatRequest(_) => {
            Body::StatReply(StatReply { status, sid, counters: Counters::ZERO })
        }
        Body::TestRequest(_) => Body::TestReply(TestReply { status, sid }),
        Body::ClientStatsRequest(_) => {
            Body::ClientStatsReply(ClientStatsReply { status, sid, len: 0 })
        }
        Body::JoinRequest(_) => Body::JoinReply(JoinReply { status, sid, timeout, name }),
        _ => return None,
    })
}
