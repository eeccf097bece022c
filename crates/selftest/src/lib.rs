//! LNet selftest as state machines: the service and a client.
//!
//! [`Service`] answers kernel consoles and clients as a kernel node does; [`Client`] loads a node
//! and measures it; a [`Console`](console::Console) drives many nodes, by orders that
//! [`ConsoleRpcs`] carries out. Service, clients and calls live beside a
//! [`Shard`](lustrine_lnet::shard::Shard) and are run by its event loop; none of them does I/O or
//! knows a clock.
//!
//! "selftest-wire 9" in a comment is section 9 of the selftest specification, "c03" a capture of
//! kernel nodes.
#![forbid(unsafe_code)]

mod body;
mod bulk;
mod cells;
mod client;
pub mod console;
mod console_rpcs;
mod counters;
mod cpt_message;
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
mod policy;
mod registered;
mod rpc;
mod service;
mod slots;
mod turn;

pub use client::{
    Client, ClientArgs, ClientError, LoadProgress, LoadStep, LoadStepError, SessionMode, StepLimit,
};
pub use console_rpcs::ConsoleRpcs;
pub use counters::RpcTotals;
pub use cpt_message::CptMessage;
pub use front::SessionInfo;
pub use latencies::Latencies;
pub use load::{HarmfulTest, Test, TestError};
pub use mark::ClientSlot;
pub use policy::{ConsoleList, ServiceMode, ServicePolicy, UnknownMode};
pub use rpc::{LnetErrorKind, RpcError};
pub use service::Service;
