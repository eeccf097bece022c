//! What is known of a path, its ends, and what it is for.

use serde::{Deserialize, Serialize};

/// The path to a peer, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// Round trip of a small message while nothing else is in flight, in nanoseconds.
    pub rtt_idle_ns: u64,
    /// Payload that the path carries when more in flight brings no more, in bits per second.
    pub rate: u64,
    /// Whether one TCP stream carries all of it.
    pub streams: Streams,
    /// How long a bulk RPC took in a run with the settings that two round trips need, in
    /// nanoseconds, if that run did not reach the rate: hosts take time as well.
    pub rpc_latency_ns: Option<u64>,
}

/// What one TCP stream carries of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Streams {
    /// It was not measured.
    Unknown,
    /// As much as several together.
    OneIsEnough,
    /// Less than several together: these bits per second.
    One(u64),
}

/// The host at this end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Largest receive and send buffer that TCP chooses by itself: the third values of
    /// `net.ipv4.tcp_rmem` and `tcp_wmem`, in bytes.
    pub tcp_buffers: Option<[u64; 2]>,
    /// The first two values of the same: the least size of a receive and of a send buffer, and the
    /// size that it has at first, in bytes.
    pub tcp_first_buffers: Option<[[u64; 2]; 2]>,
    /// Speed of the interface, in bits per second.
    pub interface_rate: Option<u64>,
    /// Connections of each type to a peer, as they are set now.
    pub conns_per_peer: Option<u16>,
    /// `peer_credits` and `credits`, as they are set now.
    pub credits: Option<[u32; 2]>,
}

/// What the path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purpose {
    /// Bytes of one bulk RPC: 1 MiB for selftest, 4 MiB for Lustre's objects
    /// (`max_pages_per_rpc` of 1024 pages).
    pub rpc_bytes: u64,
    /// Peers that one interface talks to at the same time.
    pub peers: u32,
    /// Targets (OSTs) per peer among which the RPCs are divided: each has its own
    /// `max_rpcs_in_flight`.
    pub targets: u32,
    /// Clients that use a server at the same time.
    pub clients: u32,
    /// Bytes that a server has for the data of RPCs of all clients.
    pub server_memory: Option<u64>,
    /// Threads of a server that serve bulk RPCs.
    pub server_threads: Option<u32>,
}

impl Default for Purpose {
    /// One client, one server with one target, RPCs of 4 MiB.
    fn default() -> Purpose {
        Purpose {
            rpc_bytes: 4 << 20,
            peers: 1,
            targets: 1,
            clients: 1,
            server_memory: None,
            server_threads: None,
        }
    }
}
