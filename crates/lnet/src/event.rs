//! What the core tells its users (lnet-core 2.2).

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
    /// The descriptor is gone: unlinked by hand with nothing pending, or its answer never came.
    Unlink,
}

/// One event. Of the events of one descriptor exactly one, the last, has `unlinked` set.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// How it went.
    pub status: Status,
    /// Whose event it is.
    pub owner: Owner,
    /// The user's mark of the descriptor.
    pub user: u64,
    /// The descriptor.
    pub md: MdKey,
    /// Whether the descriptor is gone with this event; its memory is free again.
    pub unlinked: bool,
    /// The other side: who sent the PUT or GET to us, or whom we sent ours to.
    pub peer: ProcessId,
    /// Who handed the message to us, or whom we handed ours: the peer at the other end of the
    /// connection. Of all that is told of a sender it is what the sender did not write itself.
    pub hop: ProcessId,
    /// The NID of ours that was addressed or used.
    pub local: ProcessId,
    /// Portal index of the operation.
    pub portal: u32,
    /// Match bits of the operation.
    pub match_bits: u64,
    /// Out-of-band word of a PUT.
    pub hdr_data: u64,
    /// Bytes the initiator asked to move.
    pub requested: u32,
    /// Bytes that were moved.
    pub moved: u32,
    /// Offset in the descriptor, in bytes.
    pub offset: u32,
}
