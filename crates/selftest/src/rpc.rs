//! The RPC transport over LNet: a caller's side and an answerer's side [LST-7] [LST-8].

use lustrine_lnet::shard::Shard;
use lustrine_lnet::topology::Identity;
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

/// The NID by which a userland node keeps a session, always the same one: it does not announce its
/// NIDs, so that the other node knows the console by this one alone [LST-31]. `None` for a node,
/// which may use any of its NIDs.
pub(crate) fn session_nid(shard: &Shard, node: &Nid) -> Option<Nid> {
    let topology = shard.topology();
    if topology.identity == Identity::Node {
        return None;
    }
    topology.ni_on(node.net()).map(|ni| topology.ni(ni).nid)
}
