//! The seam between the core and its users.
//!
//! A service is a protocol above LNet: LNet selftest, its load generator, ping and discovery, an
//! RPC layer. It sends with [`Shard::put`] and [`Shard::get`], attaches memory to portals, and is
//! called with what comes of it. Services are registered with the partition that runs the core;
//! the core knows them only as [`Owner`](crate::md::Owner)s of descriptors.

use core::any::Any;

use lustrine_wire::nid::ProcessId;

use crate::event::{Event, Stray};
use crate::memory::{HasMemory, Memory};
use crate::shard::Shard;
use crate::status::Status;
use crate::time::Time;

/// What a service works with for the length of one call.
pub struct Turn<'a> {
    /// The time.
    pub now: Time,
    /// The core.
    pub shard: &'a mut Shard,
    /// The memory of the partition.
    pub memory: AnyMemory<'a>,
}

/// A [`Memory`] of any type.
///
/// Services are called through a table of functions, so that any number of them can be registered;
/// the type of their memory is not known to them.
pub struct AnyMemory<'a>(pub &'a mut (dyn Memory + 'a));

impl<'a> HasMemory for AnyMemory<'a> {
    type Inner = dyn Memory + 'a;

    #[inline]
    fn memory(&self) -> &Self::Inner {
        self.0
    }

    #[inline]
    fn memory_mut(&mut self) -> &mut Self::Inner {
        self.0
    }
}

/// A user of the core that is registered with a partition.
///
/// A partition calls its services in the order in which they were registered. No method may wait
/// for anything: what a call causes comes back as events.
pub trait Service: Any + Send {
    /// An event of a descriptor that has this service as its owner.
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event);

    /// A peer lost its last connection, or restarted: answers that it owes will not come.
    /// Events from before the loss were delivered before this call.
    fn on_peer_down(&mut self, turn: &mut Turn<'_>, peer: &ProcessId, status: Status);

    /// Does what is due. Called once per round of the partition, after the events of the round.
    fn drive(&mut self, turn: &mut Turn<'_>);

    /// When [`Service::drive`] has something to do next although no event comes: a time that is
    /// over, such as [`Time::ZERO`], if there is something to do at once, [`Time::NEVER`] if there
    /// will be nothing.
    fn next_deadline(&self) -> Time;

    /// A message that another service received on a portal that both use, and passed on with
    /// [`Shard::pass_on`]. Whether this service takes it: then no other one is asked.
    fn on_stray(&mut self, _turn: &mut Turn<'_>, _stray: &Stray) -> bool {
        false
    }

    /// A message that this service has received and passed on, and that no other one takes.
    fn on_unclaimed(&mut self, _turn: &mut Turn<'_>, _stray: &Stray) {}

    /// The user of the service has gone. The service ends what it does, and gives its descriptors
    /// and memory back. It is called as before until [`Service::is_quiet`].
    fn retire(&mut self, _turn: &mut Turn<'_>) {}

    /// Whether the core and the memory have nothing of the service any more. It is asked after
    /// [`Service::retire`].
    fn is_quiet(&self) -> bool {
        true
    }
}
