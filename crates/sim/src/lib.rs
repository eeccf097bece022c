//! Whole nodes in virtual time.
//!
//! A [`StreamSim`] runs the very [`Partition`](lustrine_partition::Partition)s of production, each
//! with its own [`RopeMemory`] and with streams through a common [`Network`], beside scripted peers
//! that own raw ends of streams. Time is virtual, everything random comes from one seed: the same
//! seed gives the same [`EventLog`] on every machine.
//!
//! | module | what is in it |
//! |---|---|
//! | `stream` | [`StreamSim`]: time, nodes, scripts, faults |
//! | `node` | [`NodeSpec`], [`Node`]: a partition with what surrounds it |
//! | `script` | [`Script`], [`ScriptIo`]: peers that are not ours |
//! | [`fabric`] | sites, links, what they carry and lose |
//! | `message` | [`MessageSim`]: thousands of nodes at message level |
//! | [`swarm`] | random worlds, what must hold in them, smaller ones |
//! | [`tcp`] | windows, losses and their repair |
//! | `simulation` | [`Simulation`]: what both depths can do |
//! | `network` | [`Network`]: byte streams with latency, limits and faults |
//! | `io` | [`VirtualIo`]: what a partition is given |
//! | `memory` | [`RopeMemory`], [`Rope`]: memory whose payload costs nothing |
//! | [`check`] | what must hold in a world that has become quiet |
//! | [`frames`] | streams as frames of a capture |
//! | `recording` | [`Recording`]: what happened to each message, of all nodes |
//! | `trace`, `rng` | [`EventLog`], [`Rng`] |
#![forbid(unsafe_code)]

pub mod check;
mod event_log;
pub mod fabric;
pub mod frames;
mod io;
mod memory;
mod message;
mod network;
mod node;
mod recording;
mod rng;
mod script;
mod simulation;
mod stream;
pub mod swarm;
pub mod tcp;

pub use event_log::{EventKind, EventLog, LogEntry};
pub use io::VirtualIo;
pub use memory::{Rope, RopeMemory, Usage};
pub use message::MessageSim;
pub use network::{Chunking, HostId, Incoming, Link, Network};
pub use node::{Node, NodeSpec};
pub use recording::{RecordFilter, RecordSource, Recording};
pub use rng::Rng;
pub use script::{Script, ScriptIo, StreamEnd};
pub use simulation::{CpuCost, Placement, Simulation, StopKind, WaitTotals};
pub use stream::StreamSim;
