//! What every step of this crate works with.

use lustrine_lnet::md::Owner;
use lustrine_lnet::shard::Shard;
use lustrine_lnet::time::Time;

/// The time, the partition's LNet and its memory, for the length of one call.
#[derive(Debug)]
pub(crate) struct Turn<'a, M> {
    /// The time of this turn of the event loop.
    pub(crate) now: Time,
    /// Whose descriptors are made.
    pub(crate) owner: Owner,
    /// The LNet of this CPU partition.
    pub(crate) shard: &'a mut Shard,
    /// The memory of this event loop.
    pub(crate) memory: &'a mut M,
}
