//! The seam between core and drivers: plain data both ways.
//!
//! Driver to core: `recv_header`, `done`, `link`, `tick`, each a method of
//! [`Shard`](crate::shard::Shard). Core to driver: a bounded outbox of [`Action`]s. Nothing calls
//! back, so the same values can travel over a ring between CPU partitions or through a simulator.

use lustrine_wire::header::Header;
use lustrine_wire::nid::ProcessId;
use slotmap::new_key_type;

use crate::memory::Spans;
use crate::status::Status;
use crate::time::Time;

new_key_type! {
    /// A message the core has given to a driver, or that a driver is receiving for the core.
    pub struct OpKey;
}

/// Index of a local network interface in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NiIndex(pub u16);

/// A place where a driver waits with an unread payload; the driver chooses the number and never
/// uses one twice while it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxId(pub u64);

/// Where a header came from.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Our interface.
    pub ni: NiIndex,
    /// The previous hop as the driver knows it (after a userland peer was renamed, wire 4.4).
    pub from: ProcessId,
    /// The driver's mark, used again in [`Action::Resume`].
    pub rx: RxId,
}

/// The core's answer to a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Store the first bytes of the payload in `spans`, discard the rest, then call `done(op)`;
    /// also when `spans` is empty.
    Into {
        /// Name it in `done`.
        op: OpKey,
        /// Where the bytes go; at most the payload's length in all.
        spans: Spans,
    },
    /// Discard the payload, if any; there is no `done`.
    Done,
    /// As [`Verdict::Done`], and the message was not wanted (lnet-core 1.5, wire 5.4).
    Drop,
    /// Leave the payload where it is until [`Action::Resume`] names the same mark.
    Park,
    /// The peer broke the protocol: close its connections.
    Refuse(HeaderViolation),
}

/// The ways a header can be wrong that cost a peer its connections (wire 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderViolation {
    /// The destination NID is on the arrival net but is not mine, or is mine on another net.
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
    /// Send a message; answer with `done(op)` when its memory is free again, or with an error.
    Send(SendAction),
    /// Go on with a parked message.
    Resume {
        /// The mark given in [`Arrival`].
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
        /// What queued messages get.
        status: Status,
    },
}

/// One message to send.
#[derive(Clone, Debug)]
pub struct SendAction {
    /// Name it in `done`.
    pub op: OpKey,
    /// The interface to leave by.
    pub ni: NiIndex,
    /// The next hop. With the userland flag in its PID it can only be reached over a connection
    /// it opened itself.
    pub to: ProcessId,
    /// The LNet header.
    pub header: Header,
    /// The payload, `header.payload_len` bytes in all.
    pub payload: Spans,
    /// When the driver must give up.
    pub deadline: Time,
}

/// What a driver tells about a peer's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The first connection is open.
    Up,
    /// The last connection is closed.
    Down {
        /// Why.
        status: Status,
    },
    /// The peer's incarnation changed: it knows nothing of what was pending.
    Restarted,
}

/// The core as a driver sees it; [`Shard`](crate::shard::Shard) implements it.
///
/// Drivers are generic over it so that each can be tested against a small model.
pub trait Core {
    /// A header has arrived.
    fn recv_header(&mut self, now: Time, arrival: Arrival, header: &Header) -> Verdict;
    /// A message given by [`Action::Send`] or [`Verdict::Into`] is finished: its memory is no
    /// longer used by the driver. Exactly once per [`OpKey`].
    fn done(&mut self, now: Time, op: OpKey, status: Status);
    /// Whether [`Core::tx_started`] is worth calling: somebody keeps a journal.
    fn journal_enabled(&self) -> bool {
        false
    }
    /// The first bytes of a message given by [`Action::Send`] have left the driver. May come after
    /// `done` of a message that was copied.
    fn tx_started(&mut self, _now: Time, _op: OpKey) {}
    /// The state of a peer's connections changed.
    fn link(&mut self, now: Time, ni: NiIndex, peer: ProcessId, event: LinkEvent);
    /// The connection behind a parked message is gone; its mark will never be resumed.
    fn forget(&mut self, rx: RxId);
}
