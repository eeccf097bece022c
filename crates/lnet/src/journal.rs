//! What happens to each message, step by step: for simulations and debugging.
//!
//! A shard keeps no journal unless [`Shard::enable_journal`](crate::shard::Shard::enable_journal)
//! asks for one; then it notes what it does, and changes nothing in what it does. Users of the core
//! add which messages are one RPC: the core does not read payloads and cannot know.

use std::collections::VecDeque;

use lustrine_wire::header::Header;
use lustrine_wire::nid::ProcessId;

use crate::lnd::{HeaderViolation, RxId};
use crate::status::Status;
use crate::time::Time;

/// Most entries that are kept until they are taken; further entries are counted and discarded.
pub const ENTRIES_MAX: usize = 1 << 18;

/// Names a message or descriptor in the journal. A shard uses each number for one message, out or
/// in; those of descriptors are another series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JournalId(pub u64);

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub step: Step,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An outgoing message was created.
    TxCreated(Box<TxCreated>),
    /// An outgoing message was queued: it waits for something.
    TxQueued {
        /// The number of the message.
        msg: JournalId,
        /// What the message waits for.
        wait: Wait,
    },
    /// An outgoing message has its credits and was given to the driver.
    TxSubmitted {
        /// The number of the message.
        msg: JournalId,
    },
    /// The first bytes of an outgoing message have left the driver. May come after its
    /// [`Step::Completed`], when the driver has copied the message.
    TxStarted {
        /// The number of the message.
        msg: JournalId,
    },
    /// A message is complete: an outgoing one when the driver no longer needs its memory, an
    /// incoming one when its payload is stored; or it failed.
    Completed {
        /// The number of the message.
        msg: JournalId,
        /// The result of the message.
        status: Status,
    },
    /// A header was received.
    RxHeader(Box<RxHeader>),
    /// A parked PUT continues.
    RxResumed {
        /// The identifier that it was parked under.
        rx: RxId,
        /// What LNet did with it.
        outcome: HeaderOutcome,
    },
    /// A descriptor was unlinked: by its owner, or because an answer did not arrive in time.
    MdUnlinked {
        /// The number of the descriptor.
        md: JournalId,
        /// The reason: cancelled, or an error.
        status: Status,
    },
    /// A user started an RPC.
    RpcStarted(Box<RpcStarted>),
    /// A service accepted a request.
    RequestAccepted {
        /// Match bits of the reply; together with the caller's NID they identify the RPC.
        reply_bits: u64,
        /// The caller.
        from: ProcessId,
        /// The descriptor that the request was stored in.
        md: JournalId,
        /// The offset in the descriptor, in bytes.
        offset: u32,
    },
    /// A service defers a request.
    RequestDeferred {
        /// As in [`Step::RequestAccepted`].
        reply_bits: u64,
        /// The caller.
        from: ProcessId,
        /// What the request waits for.
        reason: &'static str,
    },
    /// An RPC that a user started has ended.
    RpcEnded {
        /// As in [`Step::RpcStarted`].
        reply_bits: u64,
        /// The error; `None` if the RPC succeeded.
        error: Option<Box<str>>,
    },
}

/// An outgoing message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxCreated {
    /// The number of the message.
    pub msg: JournalId,
    /// The header that is sent.
    pub header: Header,
    /// The descriptor of the operation.
    pub md: Option<JournalId>,
}

/// What a message out waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// Discovery of its peer.
    Discovery,
    /// A credit of its peer.
    PeerCredit,
    /// A credit of the interface; it holds a credit of its peer.
    NiCredit,
}

/// A header that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxHeader {
    /// The peer from whose connection it was read.
    pub hop: ProcessId,
    /// The header.
    pub header: Header,
    /// What LNet did with it.
    pub outcome: HeaderOutcome,
}

/// What LNet did with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderOutcome {
    /// It matched; its payload is being stored.
    Into {
        /// Number of the incoming message.
        msg: JournalId,
        /// The descriptor that it is stored in.
        md: JournalId,
        /// The offset in the descriptor, in bytes.
        offset: u32,
    },
    /// It was handled completely: a GET matched and its REPLY was created, or an ACK was awaited.
    Done,
    /// It matched nothing on a lazy portal and waits; its connection is not read meanwhile.
    Parked {
        /// The identifier that it waits under.
        rx: RxId,
    },
    /// It was dropped.
    Dropped(DropReason),
    /// The peer broke the protocol; its connections are closed.
    Refused(HeaderViolation),
}

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// It is for another node.
    NotForUs,
    /// The table of peers is full.
    TooManyPeers,
    /// Nothing matches.
    NoMatch,
    /// The descriptor that matches has too little space and does not truncate.
    TooLong,
    /// Too many responses wait.
    TooManyResponses,
    /// A REPLY or ACK that is not awaited, or not from this peer.
    NotAwaited,
    /// A push of ping information that is not accepted.
    UnwantedPush,
    /// It was parked, and its connection was closed.
    ConnectionGone,
}

/// An RPC that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcStarted {
    /// Match bits of its reply; together with the caller's NID they identify the RPC.
    pub reply_bits: u64,
    /// Match bits of its bulk transfer, if there is one.
    pub bulk_bits: Option<u64>,
    /// Name of the service.
    pub service: &'static str,
    /// The peer that is called.
    pub peer: ProcessId,
    /// Bytes of the bulk transfer.
    pub bulk_len: u32,
    /// The descriptor that its request is sent from.
    pub request: JournalId,
}

/// Entries that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    lost: u64,
    /// Steps whose time is not known; they get the time of the next step.
    untimed: Vec<Step>,
    /// Why the message that is being received will be dropped.
    pub(crate) drop_reason: Option<DropReason>,
}

impl Journal {
    /// Out of line: a shard without a journal does not call it.
    #[cold]
    pub(crate) fn note(&mut self, at: Time, step: Step) {
        self.time(at);
        self.push(at, step);
    }

    /// Adds a step where the time is not known.
    pub(crate) fn note_untimed(&mut self, step: Step) {
        if self.untimed.len() < ENTRIES_MAX {
            self.untimed.push(step);
        }
    }

    /// Adds the steps without a time: they happened at `now`.
    pub(crate) fn time(&mut self, now: Time) {
        for step in core::mem::take(&mut self.untimed) {
            self.push(now, step);
        }
    }

    fn push(&mut self, at: Time, step: Step) {
        if self.entries.len() == ENTRIES_MAX {
            self.lost += 1;
        } else {
            self.entries.push_back(Entry { at, step });
        }
    }

    pub(crate) fn next(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    pub(crate) fn take_lost(&mut self) -> u64 {
        core::mem::take(&mut self.lost)
    }
}
