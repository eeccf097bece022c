//! What happened to each message, step by step: for simulations and for whoever debugs.
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

/// Most entries kept for an owner that does not take them; what comes then is counted and lost.
pub const ENTRIES_MAX: usize = 1 << 18;

/// The number of a message or descriptor. Numbers of messages out and in are drawn from one series
/// and never used twice in one life of a shard; those of descriptors are another series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number(pub u64);

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// What.
    pub step: Step,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message out was made.
    Made(Box<Made>),
    /// A message out waits.
    Waits {
        /// Which.
        msg: Number,
        /// For what.
        wait: Wait,
    },
    /// A message out has its credits and was handed to the driver.
    Handed {
        /// Which.
        msg: Number,
    },
    /// The first bytes of a message out have left the driver. May come after its end, when the
    /// driver has copied it.
    Leaves {
        /// Which.
        msg: Number,
    },
    /// A message is over: one out when the driver needs its memory no more, one in when its
    /// payload is stored; or it failed.
    Ended {
        /// Which.
        msg: Number,
        /// How.
        status: Status,
    },
    /// A header has come in.
    Came(Box<Came>),
    /// A parked PUT goes on.
    Resumed {
        /// The mark it was parked under.
        rx: RxId,
        /// What became of it.
        fate: Fate,
    },
    /// A descriptor was withdrawn: its owner gave up, or an answer did not come in time.
    Withdrawn {
        /// Which.
        md: Number,
        /// Why.
        status: Status,
    },
    /// A user began an RPC.
    Called(Box<Called>),
    /// A user took a request up that was made to it.
    Taken {
        /// Match bits of the reply: with the caller's NID, the name of the RPC.
        reply_bits: u64,
        /// The caller.
        from: ProcessId,
        /// The descriptor it came into.
        md: Number,
        /// Where in the descriptor, in bytes.
        offset: u32,
    },
    /// A user lets an RPC that it answers wait.
    Held {
        /// As in [`Step::Taken`].
        reply_bits: u64,
        /// The caller.
        from: ProcessId,
        /// What for.
        reason: &'static str,
    },
    /// An RPC that a user began is over.
    Over {
        /// As in [`Step::Called`].
        reply_bits: u64,
        /// What went wrong, if anything did.
        trouble: Option<Box<str>>,
    },
}

/// A message out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its number.
    pub msg: Number,
    /// What will be on the wire.
    pub header: Header,
    /// The descriptor of the operation.
    pub md: Option<Number>,
}

/// For what a message out waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// Discovery of its peer.
    Discovery,
    /// A credit of its peer.
    PeerCredit,
    /// A credit of the interface; it holds a peer credit.
    NiCredit,
}

/// A message in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// Whose connection it came by.
    pub hop: ProcessId,
    /// What was on the wire.
    pub header: Header,
    /// What became of it.
    pub fate: Fate,
}

/// What becomes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It matched; its payload is being stored.
    Into {
        /// Number of the message in.
        msg: Number,
        /// Where it goes.
        md: Number,
        /// Where in the descriptor, in bytes.
        offset: u32,
    },
    /// All there is to do was done: a GET matched and its REPLY was made, an ACK was awaited.
    Done,
    /// It matched nothing on a lazy portal and waits, its connection with it.
    Parked {
        /// The mark it waits under.
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
    /// There is no room for another peer.
    TooManyPeers,
    /// Nothing matches.
    NoMatch,
    /// What matches has too little room and may not cut.
    TooLong,
    /// Too many responses wait.
    TooManyResponses,
    /// A REPLY or ACK that nobody awaits, or not from there.
    NotAwaited,
    /// A push of ping information that is not wanted.
    UnwantedPush,
    /// It was parked, and its connection went.
    ConnectionGone,
}

/// An RPC that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// Match bits of its reply: with the caller's NID, its name.
    pub reply_bits: u64,
    /// Match bits of its bulk transfer, if there is one.
    pub bulk_bits: Option<u64>,
    /// What is called, in a word.
    pub service: &'static str,
    /// Whom.
    pub peer: ProcessId,
    /// Bytes of the bulk transfer.
    pub bulk_len: u32,
    /// The descriptor its request is sent from.
    pub request: Number,
}

/// Entries on their way to the owner.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    lost: u64,
    /// Steps whose time is not known yet: that of the next one.
    untimed: Vec<Step>,
    /// Why the message that is being received is dropped.
    pub(crate) drop_reason: Option<DropReason>,
}

impl Journal {
    /// Out of line: shards that keep no journal never come here.
    #[cold]
    pub(crate) fn note(&mut self, at: Time, step: Step) {
        self.time(at);
        self.push(at, step);
    }

    /// Notes a step whose time whoever makes it does not know.
    pub(crate) fn note_untimed(&mut self, step: Step) {
        if self.untimed.len() < ENTRIES_MAX {
            self.untimed.push(step);
        }
    }

    /// It is so late.
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
