//! Replies that say no more than a status and whose session the node is in.

use lustrine_wire::srpc::{
    BatchReply, Body, Counters, DebugReply, FiguresReply, FrameworkCounters, JoinReply,
    LnetCounters, MakeSessionReply, Name, RemoveSessionReply, RpcCounters, Sid, StatReply,
    TestReply,
};

/// All zero, as capture c03 shows them beside an error.
const NO_COUNTERS: Counters = Counters {
    framework: FrameworkCounters {
        running_ms: 0,
        active_batches: 0,
        zombie_sessions: 0,
        brw_errors: 0,
        ping_errors: 0,
    },
    rpc: RpcCounters {
        errors: 0,
        sent: 0,
        received: 0,
        dropped: 0,
        expired: 0,
        bulk_get: 0,
        bulk_put: 0,
    },
    lnet: LnetCounters {
        msgs_alloc: 0,
        msgs_max: 0,
        errors: 0,
        send_count: 0,
        recv_count: 0,
        route_count: 0,
        drop_count: 0,
        send_length: 0,
        recv_length: 0,
        route_length: 0,
        drop_length: 0,
    },
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
        Body::StatRequest(_) => Body::StatReply(StatReply { status, sid, counters: NO_COUNTERS }),
        Body::TestRequest(_) => Body::TestReply(TestReply { status, sid }),
        Body::FiguresRequest(_) => Body::FiguresReply(FiguresReply { status, sid, len: 0 }),
        Body::JoinRequest(_) => Body::JoinReply(JoinReply { status, sid, timeout, name }),
        _ => return None,
    })
}
