//! The LNet protocol core: all state of one CPU partition, with no I/O, clock or thread.
#![forbid(unsafe_code)]

mod credits;
pub mod error;
pub mod event;
pub mod journal;
pub mod latency;
pub mod lnd;
mod lost;
pub mod md;
pub mod memory;
mod path;
mod peer;
pub mod portal;
pub mod service;
pub mod shard;
pub mod stats;
pub mod status;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "lustrine-lnet-testing has the same file")]
mod testing;
pub mod time;
pub mod topology;
mod totals;
pub mod tunables;
mod wait_queue;

pub use peer::ConfiguredPeer;
