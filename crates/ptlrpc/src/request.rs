//! A request, from its submission to its last answer.

use lustrine_congestion::Ticket;
use lustrine_fswire::message::Message;
use lustrine_fswire::opcode::Opcode;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use slotmap::new_key_type;

use crate::slots::SlotKind;

new_key_type! {
    /// A request of an import. It is good until the request's [`Action::Release`].
    ///
    /// [`Action::Release`]: crate::Action::Release
    pub struct RequestKey;
}

/// How long a request is kept after its reply, to be sent again if the server restarts [IMP-10].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Until the reply: the server changes nothing, or its owner repeats it.
    #[default]
    No,
    /// Until the server has committed it.
    UntilCommitted,
    /// Until its owner releases it, also if it is committed: an open, until its close.
    UntilReleased,
}

/// A request to make.
#[derive(Clone, Debug, Default)]
pub struct RequestArgs {
    /// The portal of the service.
    pub portal: u32,
    /// The message. The import writes the fields of its header and its body that depend on the
    /// connection.
    pub message: Vec<u8>,
    /// Length of the largest reply expected, in bytes. A longer one is asked for again.
    pub reply_len: u32,
    /// Number of memory descriptors of the bulk transfer; 0 for none, at most 64.
    pub bulk_descriptors: u16,
    /// The slot that it needs.
    pub slot: SlotKind,
    /// Whether it counts against `max_rpcs_in_flight`.
    pub counted: bool,
    /// Bytes of payload that it moves, in bulk or in the message: requests that move as much take
    /// as long.
    pub payload: u32,
    /// How long it is kept.
    pub keep: Keep,
    /// Least time that the server is allowed, in seconds, such as that of lock enqueues.
    pub least_timeout: u32,
    /// Whether it fails at once if the import is not connected.
    pub no_delay: bool,
    /// Whether it fails instead of being sent again.
    pub no_resend: bool,
    /// Where in the message the handle of an open file is, if it has one. It changes when the
    /// open is replayed.
    pub open_handle_at: Option<u32>,
    /// The open of the file that it closes. Once it was sent, a restarted server may have executed
    /// it, and then answers it without closing the file again: an open that the server has
    /// committed is not replayed from then on.
    pub closes: Option<RequestKey>,
    /// A value of the owner's, returned in each action.
    pub user: u64,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The whole message.
    pub message: Vec<u8>,
    /// Its status: 0, a negative errno or a positive value of the service.
    pub status: i32,
    /// The transaction number of a change; 0 for none.
    pub transno: u64,
    /// Bytes that the bulk transfer moved.
    pub bulk_moved: u32,
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RpcError {
    /// The server has evicted this client: its locks, open files and unwritten data are lost.
    #[error("the server evicted this client")]
    Evicted,
    /// The import is not connected, and the request must not wait.
    #[error("the target is not connected")]
    NotConnected,
    /// An administrator has deactivated the target (`active=0`).
    #[error("the target is deactivated")]
    Inactive,
    /// The target refuses this client, until an administrator acts; the errno is positive.
    #[error("the target refuses this client (error {0})")]
    Refused(i32),
    /// No reply in time, and the request must not be sent again.
    #[error("no reply in time")]
    TimedOut,
    /// The request could not be sent, and must not be sent again.
    #[error("the request could not be sent: {0}")]
    Send(Status),
    /// The reply is not a message of the protocol.
    #[error("the reply is malformed")]
    BadReply,
    /// The reply is longer than the room for it, and the request must not be sent again.
    #[error("the reply of {0} bytes is longer than expected")]
    TooLong(u32),
    /// Its owner gave it up.
    #[error("given up")]
    Canceled,
    /// The import is closed.
    #[error("the import is closed")]
    Closed,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for the connection, a credit or a slot.
    Waiting,
    /// It waits for a time: the server asked for patience.
    Postponed {
        /// When it goes on.
        until: Time,
    },
    /// It was sent, and its reply is awaited.
    Sent {
        /// When the reply is overdue.
        deadline: Time,
    },
    /// It was answered and is kept for a replay.
    Kept,
}

/// What a request of the import's own is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request of its owner.
    Owner,
    /// A lock that is enqueued again after a restart of the server.
    LockReplay,
    /// CONNECT.
    Connect,
    /// DISCONNECT.
    Disconnect,
    /// A ping.
    Ping,
    /// The ping that ends a replay.
    FinalPing,
}

/// A request of an import.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) args: RequestArgs,
    pub(crate) purpose: Purpose,
    pub(crate) stage: Stage,
    /// 0 before it was first sent.
    pub(crate) xid: u64,
    /// The first match bits of its present bulk transfer; its xid at first.
    pub(crate) match_bits: u64,
    /// Its slot; 0 for none.
    pub(crate) tag: u16,
    /// Whether it has a credit of `max_rpcs_in_flight`.
    pub(crate) has_credit: bool,
    /// Its place in the window to the target.
    pub(crate) ticket: Option<Ticket>,
    /// Whether it was sent before.
    pub(crate) resent: bool,
    /// When it was last sent.
    pub(crate) sent_at: Time,
    /// How often the server asked for patience.
    pub(crate) patience: u32,
    /// Its transaction, once it has been answered.
    pub(crate) transno: u64,
    /// Versions of its objects before the change, from the first reply.
    pub(crate) pre_versions: [u64; 4],
    /// Whether it is being replayed now.
    pub(crate) replaying: bool,
    /// Whether its owner has the reply.
    pub(crate) done: bool,
    /// Whether the owner of an open has released it.
    pub(crate) released: bool,
    /// Whether the close of an open was sent.
    pub(crate) closing: bool,
    /// The room for a reply longer than expected; 0 at first.
    pub(crate) reply_room: u32,
    /// The opcode of its message, as it was sent.
    pub(crate) opcode: Opcode,
    /// Whether its message, as it was sent, has the flag of early replies.
    pub(crate) asks_early_replies: bool,
    /// What makes its message when it is replayed, if it is not the one that was sent.
    pub(crate) replay: Option<Replay>,
}

/// What makes the message of a replay from the one that was sent.
pub struct Replay(Box<MakeReplay>);

type MakeReplay = dyn FnOnce(&[u8]) -> Option<Vec<u8>> + Send;

impl Replay {
    /// `make` takes the message that was sent. If it returns none, that one is sent again.
    pub fn new(make: impl FnOnce(&[u8]) -> Option<Vec<u8>> + Send + 'static) -> Replay {
        Replay(Box::new(make))
    }

    pub(crate) fn make(self, sent: &[u8]) -> Option<Vec<u8>> {
        (self.0)(sent)
    }
}

impl core::fmt::Debug for Replay {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Replay")
    }
}

impl Request {
    pub(crate) fn new(args: RequestArgs, purpose: Purpose) -> Request {
        Request {
            opcode: Opcode(0),
            asks_early_replies: false,
            replay: None,
            args,
            purpose,
            stage: Stage::Waiting,
            xid: 0,
            match_bits: 0,
            tag: 0,
            has_credit: false,
            ticket: None,
            resent: false,
            sent_at: Time::ZERO,
            patience: 0,
            transno: 0,
            pre_versions: [0; 4],
            replaying: false,
            done: false,
            released: false,
            closing: false,
            reply_room: 0,
        }
    }

    /// The opcode in its message.
    pub(crate) fn opcode_to_send(&self) -> Opcode {
        Message::parse_with_body(&self.args.message).map_or(Opcode(0), |(_, body)| body.opcode)
    }

    /// How long the server has taken since the request was last sent.
    pub(crate) fn elapsed(&self, now: Time) -> Nanos {
        now.since(self.sent_at)
    }
}
