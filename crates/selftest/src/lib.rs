//! LNet selftest as state machines: the service and a client.
//!
//! [`Service`] answers kernel consoles and clients as a kernel node does; [`Client`] loads a node
//! and measures it; a [`Console`](console::Console) drives many nodes, by orders that [`Calls`]
//! carries out. Service, clients and calls live beside a [`Shard`](lustrine_lnet::shard::Shard) and
//! are run by its event loop; none of them does I/O or knows a clock.
//!
//! "selftest-wire 9" in a comment is section 9 of the selftest specification, "c03" a capture of
//! kernel nodes.
#![forbid(unsafe_code)]

mod body;
mod bulk;
mod calls;
mod cells;
mod client;
pub mod console;
mod counters;
mod cross;
mod engine;
pub mod errno;
mod front;
mod latencies;
mod limits;
mod load;
mod lost;
mod mark;
mod measured;
mod pattern;
mod rpc;
mod service;
mod slots;
mod turn;

pub use calls::Calls;
pub use client::{Client, ClientArgs, ClientError, Limit, Rung, RungError, Snapshot, Takeover};
pub use counters::RpcTotals;
pub use cross::Cross;
pub use front::SessionInfo;
pub use latencies::Latencies;
pub use load::{Danger, Test, TestError};
pub use mark::Lane;
pub use rpc::{Failure, LnetErrorKind};
pub use service::Service;
