//! Requests and replies as typed lists of buffers.
//!
//! [`Request`] and [`Reply`] have one variant for each operation: each opcode, each kind of
//! metadata change, each intent. Which one a request is follows from its opcode and its first
//! buffers; a reply is read by the kind of its request. Buffers that are missing at the end are
//! read as empty, buffers that no list knows are ignored [RPC-6].

#[macro_use]
mod lists;
mod block;
mod buffer;
mod dispatch;
pub mod dlm;
pub mod mds;
pub mod obd;
pub mod ost;
mod table;
#[cfg(test)]
mod tests;
mod views;

pub use block::BlockBuilder;
pub use buffer::{Buffer, BufferError, BufferList, RpcError};
pub use table::{Kind, RawBuffers, Reply, Request};
pub use views::{AclBytes, Lvb, LvbValue, Names};
