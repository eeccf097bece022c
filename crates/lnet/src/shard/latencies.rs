//! Measuring the latency of operations.

use lustrine_wire::header::{Body, MdHandle};

use super::{Msg, Purpose, Shard};
use crate::latency::{Operation, Sample};
use crate::lnd::NiIndex;
use crate::peer::PeerNiKey;
use crate::time::Time;

impl Msg {
    /// Whether it is a request of this node that expects an answer.
    #[inline]
    pub(super) fn expects_answer(&self) -> bool {
        let wants = match self.header.body {
            Body::Get { .. } => true,
            Body::Put { ack_md, .. } => ack_md != MdHandle::NONE,
            Body::Ack { .. } | Body::Reply { .. } | Body::Hello { .. } => false,
        };
        wants && self.purpose == Purpose::Request
    }

    /// The operation that ends with this message, if it succeeds.
    #[inline]
    pub(super) fn completes(&self) -> Option<Operation> {
        match (self.purpose, &self.header.body) {
            (Purpose::Request, Body::Put { .. }) => Some(Operation::PutEgress),
            (Purpose::ReplyIn, _) => Some(Operation::GetRtt),
            _ => None,
        }
    }
}

impl Shard {
    /// Counts the duration of an operation for the interface and the peer NID.
    #[inline]
    pub(super) fn record_latency(
        &mut self,
        now: Time,
        since: Time,
        operation: Operation,
        ni: NiIndex,
        peer_ni: PeerNiKey,
    ) {
        // Latencies are not measured, or the answer arrived before the request was sent.
        if since == Time::NEVER {
            return;
        }
        let sample = Sample::new(now.since(since));
        self.nis[usize::from(ni.0)].latencies.record(operation, sample);
        match self.peers.latencies(peer_ni) {
            Some(latencies) => latencies.record(operation, sample),
            None => self.telemetry.stats.latencies_left_out += 1,
        }
    }
}
