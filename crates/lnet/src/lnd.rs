//! The interface between the core and its drivers (LNDs): plain data in both directions.
//!
//! A driver calls the methods of [`Core`], which [`Shard`](crate::shard::Shard) implements, and
//! takes [`Action`]s from a queue. There are no callbacks, so the same values can pass through a
//! simulator.

use lustrine_wire::header::Header;
use lustrine_wire::nid::ProcessId;
use slotmap::new_key_type;

use crate::memory::Spans;
use crate::status::Status;
use crate::time::Time;

new_key_type! {
    /// A message that the core has given to a driver, or that a driver is receiving for the core.
    pub struct OpKey;
}

/// Index of a local network interface in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NiIndex(pub u16);

/// Names a received header whose payload the driver has not read yet. The driver chooses the number
/// and uses it for one header of an interface at a time; drivers of different interfaces may use
/// the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxId(pub u64);

/// Where a header comes from.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The local interface that it came to.
    pub ni: NiIndex,
    /// The previous hop as the driver knows it: a userland peer has its new identity ([USR-2]).
    pub from: ProcessId,
    /// The name that [`Action::Resume`] uses if the core parks the message.
    pub rx: RxId,
}

/// The core's answer to a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Store the first bytes of the payload in `spans`, discard the rest, then call
    /// [`Core::done`]; also when `spans` is empty.
    Into {
        /// The message, for [`Core::done`].
        op: OpKey,
        /// Where the bytes go, in order; their total length is at most that of the payload.
        spans: Spans,
    },
    /// Discard the payload, if there is one; do not call [`Core::done`].
    Done,
    /// As [`Verdict::Done`], and the message was dropped ([CORE-9], [HDR-13]).
    Drop,
    /// Leave the payload unread until [`Action::Resume`] names the header.
    Park,
    /// The peer broke the protocol: close its connections.
    Refuse(HeaderViolation),
}

/// The core's answer to a GET that the driver can answer in place.
#[derive(Clone, Debug)]
pub enum GetVerdict {
    /// Move `payload` to the sender of the GET and have the REPLY `header` arrive with it, then
    /// call [`Core::done`]: as for [`Action::Send`], but the message holds no credits.
    Reply(SendAction),
    /// As [`Core::recv_header`] would have answered; the REPLY, if there is one, comes as
    /// [`Action::Send`].
    Other(Verdict),
}

/// Violations in a header that cost a peer its connections ([HDR-12]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderViolation {
    /// The destination NID is on the network of arrival but not local, or local on another network.
    WrongDestination,
    /// A payload on an ACK or GET.
    PayloadOnAckOrGet,
    /// A payload over 1 MiB.
    PayloadTooLong,
    /// A HELLO inside the message stream.
    UnexpectedHello,
    /// The source NID is a wildcard or the loopback.
    BadSource,
}

/// What the core asks of a driver.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a message; call [`Core::done`] when its memory is free again, or when sending failed.
    Send(SendAction),
    /// Continue with a parked message. When its connection is gone by now, the driver calls
    /// [`Core::done`] for the operation of [`Verdict::Into`], with an error.
    Resume {
        /// The interface from [`Arrival`].
        ni: NiIndex,
        /// The name from [`Arrival`].
        rx: RxId,
        /// What to do with it now; never [`Verdict::Park`].
        verdict: Verdict,
    },
    /// Close all connections of a peer; queued messages fail with `status`.
    Close {
        /// Our interface.
        ni: NiIndex,
        /// The peer.
        peer: ProcessId,
        /// The status that queued messages fail with.
        status: Status,
    },
}

/// One message to send.
#[derive(Clone, Debug)]
pub struct SendAction {
    /// The message, for [`Core::done`].
    pub op: OpKey,
    /// The interface to leave by.
    pub ni: NiIndex,
    /// The next hop. If its PID has the userland flag, it can only be reached over a connection
    /// that it opened itself.
    pub to: ProcessId,
    /// The LNet header.
    pub header: Header,
    /// The payload, `header.payload_len` bytes in total.
    pub payload: Spans,
    /// When the driver must give up.
    pub deadline: Time,
}

/// What a driver found when it looked for messages without a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOutcome {
    /// Something came: there is work to do now.
    Found,
    /// Nothing came by the connections that the driver polls.
    Nothing,
    /// The driver polls no connection now: only a report can say that something came.
    NotPolled,
}

impl PollOutcome {
    /// The outcome for two drivers that were both asked. A driver that was not polled has its
    /// messages reported, and these reports must not wait: it outweighs a driver that found
    /// nothing.
    #[must_use]
    pub fn and(self, other: PollOutcome) -> PollOutcome {
        match (self, other) {
            (PollOutcome::Found, _) | (_, PollOutcome::Found) => PollOutcome::Found,
            (PollOutcome::NotPolled, _) | (_, PollOutcome::NotPolled) => PollOutcome::NotPolled,
            (PollOutcome::Nothing, PollOutcome::Nothing) => PollOutcome::Nothing,
        }
    }
}

/// A change of a peer's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The first connection is open.
    Up,
    /// The last connection is closed.
    Down {
        /// Why it was closed.
        status: Status,
    },
    /// The peer has a new incarnation: it has restarted, and knows nothing of what was pending.
    /// Reported once, by the interface that learns of it first: what is sent after that is pending
    /// at the new one.
    Restarted,
}

/// The core as a driver sees it; [`Shard`](crate::shard::Shard) implements it.
///
/// Drivers are generic over it, so that each can be tested against a small model.
pub trait Core {
    /// A header has arrived.
    fn recv_header(&mut self, now: Time, arrival: Arrival, header: &Header) -> Verdict;
    /// As [`Core::recv_header`], for a GET that the driver can answer in place: it can move the
    /// bytes to where the sender wants them without a message of the core's, as RDMA networks do.
    /// A driver that cannot calls `recv_header` for all headers.
    fn recv_get(&mut self, now: Time, arrival: Arrival, header: &Header) -> GetVerdict {
        GetVerdict::Other(self.recv_header(now, arrival, header))
    }
    /// A message given by [`Action::Send`], [`Verdict::Into`] or [`GetVerdict::Reply`] is
    /// finished: the driver no longer uses its memory. Exactly once per [`OpKey`].
    ///
    /// # Panics
    /// When the driver has no such message.
    fn done(&mut self, now: Time, op: OpKey, status: Status);
    /// Whether a journal is kept: only then is [`Core::tx_started`] worth calling.
    fn journal_enabled(&self) -> bool {
        false
    }
    /// The first bytes of a message given by [`Action::Send`] have left the driver. May come after
    /// `done` of a message that was copied.
    fn tx_started(&mut self, _now: Time, _op: OpKey) {}
    /// The state of a peer's connections changed.
    fn link(&mut self, now: Time, ni: NiIndex, peer: ProcessId, event: LinkEvent);
    /// The connection of a parked message of interface `ni` is gone. The core does not resume it
    /// from now on. A [`Action::Resume`] that it has queued before still comes: the driver then
    /// calls [`Core::done`] for its operation, if there is one, with an error.
    fn forget(&mut self, ni: NiIndex, rx: RxId);
}

#[cfg(test)]
mod tests {
    use super::PollOutcome;

    #[test]
    fn two_drivers_wait_for_reports_unless_both_were_polled() {
        use PollOutcome::{Found, NotPolled, Nothing};
        for other in [Found, Nothing, NotPolled] {
            assert_eq!(Found.and(other), Found);
            assert_eq!(other.and(Found), Found);
        }
        assert_eq!(Nothing.and(Nothing), Nothing);
        assert_eq!(Nothing.and(NotPolled), NotPolled);
        assert_eq!(NotPolled.and(Nothing), NotPolled);
    }
}
