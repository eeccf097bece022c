//! Requests as they come, and what becomes of attempts to serve them.

use lustrine_lnet::event::Event;
use lustrine_lnet::journal::Step;
use lustrine_lnet::shard::Shard;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::Message;

use crate::body::reply_bits;

/// What became of an attempt to serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// It is dealt with.
    Done,
    /// Its peer has its share already.
    PeerWaits,
    /// There is nothing left for anybody.
    AllWait,
}

/// A request and whom its answer is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) message: Message,
    /// The source seen in the request [LST-8].
    pub(super) from: ProcessId,
    /// Whose connection it came by. What a peer may have is counted for this one: the source is
    /// the sender's own word, and there may be many of them on one connection.
    pub(super) hop: Nid,
    /// Our NID it was addressed to; the answer comes from there.
    pub(super) local: Nid,
    /// When it came.
    pub(super) since: Time,
}

impl Request {
    /// The journal entry when it is accepted; `event` brought it.
    #[cold]
    pub(super) fn accepted(&self, event: &Event) -> Step {
        Step::RequestAccepted {
            reply_bits: reply_bits(&self.message.body).unwrap_or(0),
            from: self.from,
            md: Shard::journal_number(event.md),
            offset: event.offset,
        }
    }

    /// The journal entry when it has to wait.
    #[cold]
    pub(super) fn deferred(&self, outcome: Served) -> Step {
        let reason = match outcome {
            Served::AllWait => "selftest memory or a free slot",
            Served::PeerWaits | Served::Done => "its peer's share of selftest memory and slots",
        };
        let reply_bits = reply_bits(&self.message.body).unwrap_or(0);
        Step::RequestDeferred { reply_bits, from: self.from, reason }
    }
}
