//! The layer on the driver.

use lustrine_lnet::lnd::{Action, Core};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::time::Time;
use lustrine_lnet::topology::Identity;
use lustrine_node::loop_io::LoopIo;
use lustrine_wire::nid::{Nid, ProcessId};

/// The destination of all messages.
pub(crate) const PORTAL: u32 = 30;

/// Memory for the messages that may be in flight at once.
pub(crate) struct Buffers {
    incoming: Vec<Span>,
    outgoing: Vec<Span>,
}

impl Buffers {
    /// `slots` of `recv` bytes each to receive into, and as many of `send` bytes to send from.
    pub(crate) fn new(io: &mut LoopIo, slots: u32, send: u32, recv: u32) -> Buffers {
        let mut spans = |len| {
            let one = |_| io.alloc(len).expect("enough memory");
            (0..slots).map(one).collect()
        };
        Buffers { incoming: spans(recv), outgoing: spans(send) }
    }

    /// Where the message of a slot is received; `None` when there is no such slot.
    pub(crate) fn incoming(&self, slot: u64) -> Option<Span> {
        self.incoming.get(usize::try_from(slot).ok()?).copied()
    }

    /// The source of the message of a slot.
    pub(crate) fn outgoing(&self, slot: u64) -> Span {
        self.outgoing[slot as usize]
    }

    /// All slots to receive in.
    pub(crate) fn all_incoming(&self) -> impl Iterator<Item = (u64, Span)> + '_ {
        self.incoming.iter().enumerate().map(|(slot, span)| (slot as u64, *span))
    }
}

/// A message that has arrived completely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) from: ProcessId,
    pub(crate) slot: u64,
}

/// Sends messages of slots, and reports those that arrive. Match bits carry the slot.
pub(crate) trait Layer {
    /// The core as the driver sees it.
    type Core: Core;

    fn new(own: Nid, identity: Identity, buffers: Buffers, io: &mut LoopIo) -> Self;

    fn core(&mut self) -> &mut Self::Core;

    /// Sends the outgoing buffer of a slot.
    fn send(&mut self, now: Time, to: ProcessId, slot: u64);

    /// Processes what the driver delivered.
    fn drive(&mut self, now: Time, io: &mut LoopIo);

    fn next_action(&mut self) -> Option<Action>;

    fn next_arrived(&mut self) -> Option<Arrived>;

    /// Number of messages that failed.
    fn errors(&self) -> u64;

    fn next_deadline(&self) -> Time;
}
