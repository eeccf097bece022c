//! The RPC transport over LNet: a caller's side and an answerer's side (selftest-wire 7).

mod caller;
mod ids;
mod inbox;

pub(crate) use caller::{Bulk, Call, Caller, Completion};
pub use caller::{LnetErrorKind, RpcError};
pub(crate) use ids::{Ids, RpcIds};
pub(crate) use inbox::{Arrived, Inbox};
