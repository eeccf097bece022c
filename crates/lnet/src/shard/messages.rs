//! The messages of a shard: what they are, and what they wait for.

use std::collections::VecDeque;

use core::ops::{Deref, DerefMut};

use lustrine_wire::header::Header;
use lustrine_wire::nid::ProcessId;
use slotmap::SlotMap;

use super::SCAN_INTERVAL;
use crate::lnd::{NiIndex, OpKey};
use crate::md::MdKey;
use crate::memory::Spans;
use crate::peer::PeerNiKey;
use crate::time::{Nanos, Time};
use crate::wait_queue::WaitQueues;

/// Most messages alive in one shard. This limits what peers that send requests and read no answers
/// can make it hold to about 100 MB.
pub(super) const MSGS_MAX: usize = 262_144;

/// Most boxes that are kept for messages to come.
const SPARE_MAX: usize = 1024;

/// Most responses (ACKs, REPLYs) alive in one shard; the rest is for requests of this node.
pub(super) const RESPONSES_MAX: usize = MSGS_MAX / 2;

/// Most responses that wait for the credits of one peer NID; further requests of it are dropped.
pub(super) const RESPONSES_WAITING_MAX: usize = 8192;

/// Most responses that wait for one NID when half of [`RESPONSES_MAX`] is used: NIDs that read no
/// answers leave room for a thousand others.
pub(super) const RESPONSES_KEPT: usize = 64;

/// What a message is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Discovery of its peer.
    Discovery,
    /// A credit of its peer NID.
    PeerCredit,
    /// A credit of the local interface; it holds a credit of its peer NID.
    NiCredit,
    /// The driver; it holds both credits.
    Sending,
    /// The driver, to store its payload; it holds no credit.
    Receiving,
    /// The driver, which answers a GET in place; it holds no credit.
    ReplyInPlace,
    /// The next `drive`: source and target are this node.
    Loopback,
    /// Nothing: there is no path, and it ends at once.
    Refused,
}

/// What the end of a message means for the owner of its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A PUT or GET of ours: a SEND event.
    Request,
    /// The REPLY to a GET: a GET event.
    Reply,
    /// An ACK: no event.
    Ack,
    /// A PUT for us: a PUT event, and an ACK if it was requested.
    PutIn,
    /// The REPLY to a GET of ours: a REPLY event.
    ReplyIn,
}

impl Purpose {
    #[inline]
    pub(super) fn is_response(self) -> bool {
        matches!(self, Purpose::Reply | Purpose::Ack)
    }
}

#[derive(Debug)]
pub(super) struct Msg {
    pub(super) stage: Stage,
    pub(super) purpose: Purpose,
    pub(super) header: Header,
    pub(super) ni: NiIndex,
    /// Next hop of a message out, previous hop of one in.
    pub(super) hop: ProcessId,
    pub(super) peer_ni: Option<PeerNiKey>,
    pub(super) md: Option<MdKey>,
    pub(super) payload: Spans,
    pub(super) offset: u32,
    /// Payload bytes that are transferred.
    pub(super) moved: u32,
    /// While it waits: its deadline. For a request in the driver: when the driver got it, and for
    /// an incoming REPLY: when the driver got the GET; [`Time::NEVER`] if latencies are not
    /// measured. (One field for both, as the size of a message affects speed.)
    pub(super) time: Time,
    /// For the target's event: portal, match bits, requested bytes.
    pub(super) portal: u32,
    pub(super) match_bits: u64,
    pub(super) requested: u32,
}

/// A message that got a credit and continues.
#[derive(Clone, Copy, Debug)]
pub(super) enum CreditGrant {
    PeerCredit(OpKey),
    NiCredit(OpKey),
}

/// All messages of a shard, and the queues that they wait in.
#[derive(Debug)]
pub(super) struct Messages {
    /// In boxes, which are used again: a message is not copied when it comes and goes.
    slots: SlotMap<OpKey, Box<Msg>>,
    /// Boxes of messages that have ended; what those have on the heap is dropped with the next use.
    #[expect(clippy::vec_box, reason = "the boxes go into `slots` as they are")]
    spare: Vec<Box<Msg>>,
    /// Number of responses among them.
    responses: usize,
    /// Queues of messages that wait for discovery or for a credit.
    pub(super) queues: WaitQueues<OpKey>,
    /// Messages that got a credit, and whether they are being continued.
    granted: VecDeque<CreditGrant>,
    continuing: bool,
    /// Number of messages that wait for a credit of their peer.
    pub(super) peer_waiting: u64,
    /// No waiting message has its deadline before this, or it is too early to check again.
    next_expiry: Time,
    /// How long a message may wait to be sent; computed once, as it takes divisions.
    timeout: Nanos,
}

impl Messages {
    pub(super) fn new(timeout: Nanos) -> Messages {
        Messages {
            slots: SlotMap::with_key(),
            spare: Vec::new(),
            responses: 0,
            queues: WaitQueues::new(),
            granted: VecDeque::new(),
            continuing: false,
            peer_waiting: 0,
            next_expiry: Time::NEVER,
            timeout,
        }
    }

    // Always inlined, so that the message is made where it stays.
    #[inline(always)]
    pub(super) fn add(&mut self, msg: Msg) -> OpKey {
        self.responses += usize::from(msg.purpose.is_response());
        let boxed = match self.spare.pop() {
            Some(mut boxed) => {
                *boxed = msg;
                boxed
            }
            None => Box::new(msg),
        };
        self.slots.insert(boxed)
    }

    /// Takes a message out; its box comes back with [`Messages::recycle`].
    #[inline]
    pub(super) fn take(&mut self, op: OpKey) -> Option<Box<Msg>> {
        let msg = self.slots.remove(op)?;
        self.responses -= usize::from(msg.purpose.is_response());
        Some(msg)
    }

    /// Keeps the box of a message that has ended, for another one; a few, as more are rarely
    /// needed and may hold memory.
    #[inline]
    pub(super) fn recycle(&mut self, msg: Box<Msg>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(msg);
        }
    }

    /// Whether a message waits in a queue: for credits, or for discovery.
    #[inline]
    pub(super) fn any_queued(&self) -> bool {
        !self.queues.are_empty()
    }

    /// Changes how long messages may wait, from now on.
    pub(super) fn set_timeout(&mut self, timeout: Nanos) {
        self.timeout = timeout;
    }

    /// The deadline of a message that begins to wait.
    #[inline]
    pub(super) fn deadline(&mut self, now: Time) -> Time {
        let deadline = now + self.timeout;
        self.next_expiry = self.next_expiry.min(deadline);
        deadline
    }

    /// The earliest time at which [`Messages::overdue`] may find one.
    #[inline]
    pub(super) fn next_expiry(&self) -> Time {
        self.next_expiry
    }

    /// The messages that have waited until their deadline.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<OpKey> {
        let mut overdue: Vec<OpKey> = Vec::new();
        let mut next = Time::NEVER;
        for (op, msg) in self.slots.iter().filter(|(_, msg)| msg.stage.waits()) {
            if msg.time <= now {
                overdue.push(op);
            } else {
                next = next.min(msg.time);
            }
        }
        // Many that expire one after the other must not cost a scan each.
        self.next_expiry = next.max(now + SCAN_INTERVAL);
        overdue
    }

    /// Whether there is room for one more request of this node.
    pub(super) fn admits_request(&self) -> bool {
        self.slots.len() < MSGS_MAX
    }

    /// Whether there is room for one more response to a NID for whose credits so many wait: peers
    /// that send requests and read no answers must not use memory without limit, or the share of
    /// others.
    #[inline]
    pub(super) fn admits_response(&self, waiting: usize) -> bool {
        let few = waiting < RESPONSES_KEPT
            || waiting < RESPONSES_WAITING_MAX && self.responses < RESPONSES_MAX / 2;
        few && self.responses < RESPONSES_MAX && self.slots.len() < MSGS_MAX
    }

    /// A message got a credit: it continues when [`Messages::next_granted`] returns it.
    #[inline]
    pub(super) fn grant(&mut self, grant: CreditGrant) {
        self.granted.push_back(grant);
    }

    /// Whether messages that got a credit have to be continued. Until the last one is, no other
    /// call continues any: a long queue of overdue messages must not become a deep stack.
    #[inline]
    pub(super) fn begin_continuing(&mut self) -> bool {
        !self.granted.is_empty() && !core::mem::replace(&mut self.continuing, true)
    }

    /// The next message to continue.
    #[inline]
    pub(super) fn next_granted(&mut self) -> Option<CreditGrant> {
        let next = self.granted.pop_front();
        self.continuing = next.is_some();
        next
    }

    #[cfg(test)]
    pub(super) fn responses(&self) -> usize {
        self.responses
    }
}

impl Deref for Messages {
    type Target = SlotMap<OpKey, Box<Msg>>;

    #[inline]
    fn deref(&self) -> &SlotMap<OpKey, Box<Msg>> {
        &self.slots
    }
}

impl DerefMut for Messages {
    #[inline]
    fn deref_mut(&mut self) -> &mut SlotMap<OpKey, Box<Msg>> {
        &mut self.slots
    }
}
