//! What a program can ask a node.

use lustrine_selftest::console::Command;
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

use crate::change::ChangeRequest;
use crate::load::LoadOrder;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Ping a peer.
    Ping {
        /// The peer.
        nid: Nid,
        /// How long to wait, in milliseconds; at most one day is used.
        timeout_ms: u64,
    },
    /// Discover a peer, also if it is known, and push our own information to it if that is due.
    Discover {
        /// The peer.
        nid: Nid,
        /// How long to wait, in milliseconds; at most one day is used.
        timeout_ms: u64,
    },
    /// The node's interfaces and identity.
    ShowNet,
    /// The node's peers.
    ShowPeer,
    /// The node's open connections.
    ShowConn {
        /// Only those of this peer NID.
        #[serde(default)]
        nid: Option<Nid>,
    },
    /// The node's counters.
    ShowStats,
    /// How long operations take: percentiles and histograms.
    ShowLatency {
        /// Only of this NID, a peer's or one of the node's own.
        #[serde(default)]
        nid: Option<Nid>,
    },
    /// The tunables in force.
    ShowTunables,
    /// The node's configuration, with every value that is set.
    ShowConfig,
    /// Change the node.
    Change {
        /// The change.
        change: Box<ChangeRequest>,
        /// Whether to report only what the change would do.
        dry_run: bool,
    },
    /// Give a command to the node's selftest console.
    Console {
        /// The key of the session, `LST_SESSION`.
        key: u32,
        /// The command.
        command: Box<Command>,
        /// Whether the session of this key ends when the connection closes.
        #[serde(default, skip_serializing_if = "is_false")]
        held: bool,
    },
    /// Send a selftest load to another node.
    Load {
        /// The order.
        order: LoadOrder,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}
