//! Events of the network, ordered by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lustrine_lnet::time::Time;
use lustrine_socklnd::io::{Readiness, SockId};

use super::flow::Sending;

/// An event of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkEvent {
    /// A connection request arrives, for the first time or after this number of repetitions.
    Syn {
        connection: u64,
        repeated: u32,
    },
    /// The first item in flight to this end arrives.
    Deliver(SockId),
    /// This number of bytes that this end wrote was read.
    Room {
        sock: SockId,
        len: usize,
    },
    /// The other host has all bytes up to here.
    Acknowledged {
        sock: SockId,
        upto: u64,
    },
    /// A burst of `sock` leaves the link before this one.
    SegmentBurst {
        sock: SockId,
        sending: Sending,
        len: u64,
        hop: u32,
    },
    /// An acknowledgement of a burst of `sock` arrives, with the room at the receiver.
    Ack {
        sock: SockId,
        sending: Sending,
        edge: u64,
    },
    /// `sock` receives an update of the room at the receiver.
    Opened {
        sock: SockId,
        edge: u64,
    },
    /// An update of the room is sent to `sock`.
    SendEdge(SockId),
    /// The timer of sending, and the retransmission time-out.
    Pump(SockId),
    Timer(SockId),
    /// A report that was delayed.
    Report {
        sock: SockId,
        readiness: Readiness,
    },
}

#[derive(Debug)]
struct Due {
    at: Time,
    sequence: u64,
    doing: NetworkEvent,
}

impl Due {
    fn key(&self) -> (Time, u64) {
        (self.at, self.sequence)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events by time; events of the same time in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<Due>>,
    sequence: u64,
}

impl EventQueue {
    pub(super) fn add(&mut self, at: Time, doing: NetworkEvent) {
        self.sequence += 1;
        self.heap.push(Reverse(Due { at, sequence: self.sequence, doing }));
    }

    /// When the first event is due.
    pub(super) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse(due)| due.at)
    }

    /// The next event that is due by `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<NetworkEvent> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due.doing)
    }
}
