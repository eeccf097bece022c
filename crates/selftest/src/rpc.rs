//! The RPC transport over LNet: a caller's side and an answerer's side [LST-7] [LST-8].

mod caller;
mod ids;
mod inbox;
mod room;
mod windows;

pub(crate) use crate::body::RpcIds;
pub(crate) use caller::{Bulk, Call, Completion, RpcClient};
pub use caller::{LnetErrorKind, RpcError};
pub(crate) use ids::Ids;
pub(crate) use inbox::{Arrived, RequestBuffers};
pub(crate) use room::RoomQueue;
pub(crate) use windows::NoRoom;
pub use windows::PeerWindow;
