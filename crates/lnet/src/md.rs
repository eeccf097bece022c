//! Memory descriptors and match entries ([CORE-2], [CORE-6]).

use bitflags::bitflags;
use lustrine_wire::nid::{Nid, ProcessId};
use slotmap::new_key_type;

use crate::keys::PeerNiKey;
use crate::memory::{Spans, total_len};
use crate::time::Time;

new_key_type! {
    /// A memory descriptor. Its 64 bits are the object cookie on the wire: index and generation,
    /// so that a forged or replayed handle names nothing.
    pub struct MdKey;
    /// A match entry.
    pub struct MeKey;
}

bitflags! {
    /// Options of a memory descriptor; LNet's names and numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MdOptions: u32 {
        /// Incoming PUTs may use it.
        const OP_PUT = 0x1;
        /// Incoming GETs may use it.
        const OP_GET = 0x2;
        /// The initiator gives the offset; otherwise a local offset advances.
        const MANAGE_REMOTE = 0x4;
        /// A message longer than the space is cut instead of dropped.
        const TRUNCATE = 0x10;
        /// Never send an ACK, even when the PUT asks for one.
        const ACK_DISABLE = 0x20;
    }
}

/// Who gets the events of a descriptor: the core itself, or a service that is registered with the
/// partition, which hands out a number of its own to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u32);

impl Owner {
    /// The core: its own ping and discovery traffic. No service sees these events.
    pub const LNET: Owner = Owner(0);
}

/// What becomes of the answers that an owner awaits of a peer when the peer's last connection is
/// lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLinkLoss {
    /// They fail at once with [`Status::ConnectionLost`](crate::status::Status::ConnectionLost).
    #[default]
    Fail,
    /// They are awaited until their deadlines: the answer may come over a new connection. The owner
    /// learns of the loss from [`Shard::next_lost_peer`](crate::shard::Shard::next_lost_peer) and
    /// can withdraw its descriptors itself. A request that the driver still holds fails
    /// nevertheless, and so do all requests when the peer restarts: after a restart a peer answers
    /// none of the earlier requests.
    KeepUntilDeadline,
}

/// A memory descriptor, as a user binds or attaches it.
#[derive(Clone, Debug)]
pub struct Md {
    /// The memory, at most 256 fragments.
    pub spans: Spans,
    /// Number of operations that it accepts; `None` is unlimited. A PUT sent counts 1 and its ACK
    /// 1, a GET sent 1 and its REPLY 1, each incoming PUT or GET 1.
    pub threshold: Option<u32>,
    /// Largest single message, in bytes; the descriptor is exhausted when the local offset plus
    /// this exceeds the length.
    pub max_size: Option<u32>,
    /// Which operations the descriptor accepts, and how.
    pub options: MdOptions,
    /// The user that gets the events.
    pub owner: Owner,
    /// A value of the user's, returned in each event.
    pub user: u64,
}

/// Most fragments of one descriptor ([CORE-1]).
pub const FRAGMENTS_MAX: usize = 256;

/// The senders that a match entry accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchId {
    /// A NID, or [`Nid::ANY`] for all.
    pub nid: Nid,
    /// A process id, or `PID_ANY` for all.
    pub pid: u32,
}

/// Whether an exhausted descriptor is unlinked automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlink {
    /// Entry and descriptor go when the descriptor is exhausted.
    Auto,
    /// They stay until their owner unlinks them.
    Retain,
}

/// Where in the list an entry is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// In front of the others.
    Before,
    /// Behind the others.
    After,
}

/// A link in the list of the descriptors that await an answer of one NID. The list begins at the
/// entry of the NID in the table of peers: when the NID is lost, only those are looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Awaiting {
    /// The NID's entry, while the descriptor is on its list.
    pub(crate) of: Option<PeerNiKey>,
    /// The descriptor before it; null for the first one.
    pub(crate) before: MdKey,
    /// The descriptor behind it; null for the last one.
    pub(crate) behind: MdKey,
}

/// A descriptor in use.
#[derive(Debug)]
pub(crate) struct MdState {
    pub(crate) md: Md,
    pub(crate) length: u32,
    /// The local offset, in bytes.
    pub(crate) local_offset: u32,
    /// Operations left; `None` is unlimited.
    pub(crate) left: Option<u32>,
    /// Messages that refer to it now.
    pub(crate) pending: u32,
    /// Its match entry, while it is on a list.
    pub(crate) me: Option<MeKey>,
    pub(crate) unlink: Unlink,
    /// Unlinked by its owner or by a time-out; the last event carries the reason.
    pub(crate) aborted: Option<crate::status::Status>,
    /// Deadline of the answer, and the peer that owes it; [`Time::NEVER`] when none is awaited.
    pub(crate) answer_by: Time,
    pub(crate) answer_from: ProcessId,
    /// Whether the answer that is awaited is a REPLY, with data, rather than an ACK.
    pub(crate) awaits_reply: bool,
    /// Its place among the descriptors that await an answer of the same NID.
    pub(crate) awaiting: Awaiting,
    /// When the request was handed to the driver; [`Time::NEVER`] before that, and while latencies
    /// are not measured.
    pub(crate) asked: Time,
    /// The interface that the request left by; `None` for a loopback message.
    pub(crate) left_by: Option<crate::lnd::NiIndex>,
    /// The message from it that is in flight, if there is exactly one.
    pub(crate) request: Option<crate::lnd::OpKey>,
    /// Whether it was attached to a portal (passive) rather than bound (active).
    pub(crate) attached: bool,
}

impl MdState {
    #[inline]
    pub(crate) fn new(md: Md, unlink: Unlink) -> MdState {
        MdState {
            length: total_len(&md.spans),
            left: md.threshold,
            md,
            local_offset: 0,
            pending: 0,
            me: None,
            unlink,
            aborted: None,
            answer_by: Time::NEVER,
            awaits_reply: false,
            answer_from: ProcessId { nid: Nid::ANY, pid: 0 },
            awaiting: Awaiting::default(),
            asked: Time::NEVER,
            left_by: None,
            request: None,
            attached: false,
        }
    }

    /// Whether it accepts no further operation ([CORE-3]).
    pub(crate) fn exhausted(&self) -> bool {
        self.left == Some(0)
            || self.md.max_size.is_some_and(|max| {
                u64::from(self.local_offset) + u64::from(max) > u64::from(self.length)
            })
    }

    /// Whether it is exhausted and unlinks automatically.
    pub(crate) fn goes_when_idle(&self) -> bool {
        self.unlink == Unlink::Auto && self.exhausted()
    }

    /// Counts one operation. The caller must have checked [`MdState::exhausted`].
    pub(crate) fn count_operation(&mut self) {
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
    }
}
