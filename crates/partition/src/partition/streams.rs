//! What only a partition of the TCP driver has: streams.

use core::net::SocketAddr;

use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::time::Time;
use lustrine_socklnd::io::{Io, Readiness, SockId};
use lustrine_socklnd::{Handoff, Notice, Socklnd};

use super::Partition;

impl Partition<Socklnd> {
    /// A listener's new stream.
    pub fn accepted(
        &mut self,
        now: Time,
        io: &mut impl Io,
        sock: SockId,
        ni: NiIndex,
        (local, remote): (SocketAddr, SocketAddr),
    ) {
        self.driver.accepted(now, io, sock, ni, local, remote);
    }

    /// A report about a stream.
    pub fn ready(&mut self, now: Time, io: &mut impl Io, sock: SockId, readiness: Readiness) {
        self.driver.ready(now, &mut self.shard, io, sock, readiness);
    }

    /// The refusals and evictions since the last call, and how often each happened.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.driver.take_notices()
    }

    /// An accepted stream whose peer belongs to another partition.
    pub fn next_handoff(&mut self) -> Option<Handoff> {
        self.driver.next_handoff()
    }

    /// Takes over a stream whose peer belongs here; `handoff.sock` is this loop's number for it.
    pub fn adopt(&mut self, now: Time, io: &mut impl Io, handoff: Handoff) {
        self.driver.adopt(now, &mut self.shard, io, handoff);
    }
}
