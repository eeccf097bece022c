//! The memory of an event loop: regions, allocation, spans to pointers.
//!
//! An event loop owns one [`Arena`]. Everything that is sent or received is in its [`Block`]s,
//! which the protocol core passes around as three plain numbers: payload never enters the core.
//! This crate turns those numbers back into bytes, and into slices for system calls. What is to be
//! sent can also stay where it is: it is [lent](Arena::lend), and has a block for that time. What
//! was received can be [taken](Arena::take) out without a copy. Threads that keep copies of data
//! have a [`Pool`] for them.
//!
//! Two rules make it dependable:
//!
//! * **Limits are strict.** An arena maps no more than its limit for what is allocated, and no more
//!   than another one for regions with blocks that were taken. When there is no room,
//!   [`Arena::alloc`] returns `None` and the caller waits, or [`Arena::take`] does and the caller
//!   copies. Overload becomes back-pressure, never growth. Half of the limit may be lent.
//! * **A wrong block is a bug.** Freeing twice, freeing what was never allocated, or reaching past
//!   the end of a region panics at once, in release builds too.
//!
//! `unsafe` is confined to `mapping.rs`, and to the places of `arena.rs` and `taken.rs` that borrow
//! parts of mappings.

mod arena;
mod block;
mod chains;
mod class;
mod idle;
mod mapping;
mod pool;
mod region;
mod taken;
mod words;

pub use arena::{Arena, ArenaStats};
pub use block::Block;
pub use class::{BLOCK_LEN_MAX, REGION_LEN};
pub use pool::Pool;
