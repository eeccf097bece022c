//! Events: what the core reports to its users ([CORE-10], [CORE-11]).

use lustrine_wire::nid::ProcessId;

use crate::md::{MdKey, Owner};
use crate::status::Status;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Target: a GET was served, its REPLY has left.
    Get,
    /// Target: a payload is stored completely.
    Put,
    /// Initiator: the reply's payload is stored.
    Reply,
    /// Initiator: the target confirmed a PUT.
    Ack,
    /// Initiator: the request left, or failed to.
    Send,
    /// The descriptor is gone: its owner unlinked it with nothing pending, or its answer did not
    /// arrive in time.
    Unlink,
}

/// A message that a service has received and that may be for another one: portals can be shared.
#[derive(Clone, Debug)]
pub struct Stray {
    /// The event with which it came.
    pub event: Event,
    /// What was received.
    pub message: Vec<u8>,
}

/// One event. Of the events of one descriptor exactly one, the last, has `unlinked` set.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Success, or why it failed.
    pub status: Status,
    /// The owner of the descriptor.
    pub owner: Owner,
    /// The value that the user gave the descriptor.
    pub user: u64,
    /// The descriptor.
    pub md: MdKey,
    /// Whether the descriptor is gone with this event; its memory is free again.
    pub unlinked: bool,
    /// The other side: the sender of a PUT or GET to us, or the target of ours.
    pub peer: ProcessId,
    /// The peer at the other end of the connection that the message came or left by. A sender can
    /// write anything into its headers, but not this.
    pub hop: ProcessId,
    /// The local NID that was addressed or used.
    pub local: ProcessId,
    /// Portal index of the operation.
    pub portal: u32,
    /// Match bits of the operation.
    pub match_bits: u64,
    /// Out-of-band data of a PUT; 0 for other messages.
    pub hdr_data: u64,
    /// Bytes that the initiator asked to transfer.
    pub requested: u32,
    /// Bytes that were transferred; 0 when it failed.
    pub moved: u32,
    /// Offset in the descriptor, in bytes.
    pub offset: u32,
}
