//! The RPC transport over LNet: a caller's side and an answerer's side [LST-7] [LST-8].

use lustrine_lnet::shard::Shard;
use lustrine_wire::nid::Nid;

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

/// The NID of ours that a session with a node is kept by, always the same one: the node knows the
/// console by it [LST-31]. `None` where there is nothing to choose.
pub(crate) fn session_nid(shard: &Shard, node: &Nid) -> Option<Nid> {
    let topology = shard.topology();
    topology.ni_on(node.net()).map(|ni| topology.ni(ni).nid)
}
