//! The server's side of the RPC layer: connections of clients, recovery after a restart, and
//! requests, replies, bulk and callbacks on LNet.
//!
//! An [`RpcServer`] is a part of a service, as [`Ptlrpc`](crate::Ptlrpc) is on the other side. It
//! knows nothing of targets: [`Exports`] has the clients of one target, and [`Recovery`] decides
//! what of them is executed when after a restart.

mod exports;
mod recovery;
#[cfg(test)]
mod tests;
mod transport;

pub use exports::{ConnectArgs, Connected, Export, Exports};
pub use recovery::{Phase, Recovery, RecoveryTunables};
pub use transport::{BulkKey, CallKey, Received, RpcServer, ServerEvent};
