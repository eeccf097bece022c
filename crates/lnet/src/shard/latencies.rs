//! Taking the time of operations.

use lustrine_wire::header::{Body, MdHandle};

use super::{Msg, Purpose, Shard};
use crate::latency::{Operation, Sample};
use crate::lnd::NiIndex;
use crate::peer::PeerNiKey;
use crate::time::Time;

impl Msg {
    /// Whether it is a request of ours that wants an answer.
    #[inline]
    pub(super) fn asks(&self) -> bool {
        let wants = match self.header.body {
            Body::Get { .. } => true,
            Body::Put { ack_md, .. } => ack_md != MdHandle::NONE,
            Body::Ack { .. } | Body::Reply { .. } | Body::Hello { .. } => false,
        };
        wants && self.purpose == Purpose::Request
    }

    /// The operation whose last step it is, if it ends well.
    #[inline]
    pub(super) fn ends(&self) -> Option<Operation> {
        match (self.purpose, &self.header.body) {
            (Purpose::Request, Body::Put { .. }) => Some(Operation::PutEgress),
            (Purpose::ReplyIn, _) => Some(Operation::GetRtt),
            _ => None,
        }
    }
}

impl Shard {
    /// Counts what an operation took for the interface and the peer NID.
    #[inline]
    pub(super) fn took(
        &mut self,
        now: Time,
        since: Time,
        operation: Operation,
        ni: NiIndex,
        peer_ni: PeerNiKey,
    ) {
        // Latencies are not taken, or the answer came before the question.
        if since == Time::NEVER {
            return;
        }
        let sample = Sample::new(now.since(since));
        self.nis[usize::from(ni.0)].latencies.record(operation, sample);
        match self.peers.latencies(peer_ni) {
            Some(latencies) => latencies.record(operation, sample),
            None => self.stats.latencies_left_out += 1,
        }
    }
}
