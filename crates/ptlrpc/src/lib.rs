//! Lustre's RPC layer: how requests reach a server, come back answered, and survive its restarts.
//!
//! An [`Import`] is a client's connection to one target. It takes requests, sends them when the
//! connection stands and a credit is free, sends them again when no reply comes, keeps those that
//! a server could lose, and replays them after a restart. It has no I/O, no clock and no thread:
//! time is an argument, and what has to be done comes out as [`Action`]s. The same import runs in
//! a node and in the simulator.
//!
//! A [`Ptlrpc`] binds the imports of a node to LNet. It is a part of a service of a partition.
//!
//! Rules are cited by number from `docs/protocol`.
#![forbid(unsafe_code)]

pub mod adaptive;
pub mod import;
pub mod ptlrpc;
pub mod request;
pub mod server;
pub mod slots;
mod sorted;
pub mod statistics;
pub mod xid;

pub use import::{
    Action, Deactivated, Import, ImportArgs, ImportState, ImportTunables, ImportView, ReplyEvent,
    SendArgs,
};
pub use ptlrpc::{Bulk, BulkDirection, ImportKey, Incoming, Ptlrpc, RpcEvent};
pub use request::{Keep, Replay, Reply, RequestArgs, RequestKey, RpcError};
pub use slots::SlotKind;
pub use sorted::SortedMap;
pub use statistics::Latencies;
pub use xid::XidSource;
