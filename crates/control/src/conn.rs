//! The connections of a node.

use core::net::{IpAddr, SocketAddr};

use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

/// An open connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnRow {
    /// The NID of the peer.
    pub nid: Nid,
    /// The node's own NID.
    pub local_nid: Nid,
    /// Its type, such as `BULK_IN`, from this node's point of view.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HELLO version.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether this node dialled it.
    pub dialled: bool,
    /// The local address, if it was chosen.
    #[serde(default)]
    pub local: Option<IpAddr>,
    /// The address of the other end.
    pub remote: SocketAddr,
    /// What TCP counts of it; absent where the system does not say it.
    #[serde(default)]
    pub tcp: Option<TcpRow>,
}

/// What TCP counts of a connection, since it was made. Numbers of segments are modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpRow {
    /// The port of this end; absent where the system does not say it.
    pub local_port: Option<u16>,
    /// Longest packet that the path is believed to take, in bytes.
    pub path_mtu: u32,
    /// Payload of the longest segment that is sent, in bytes.
    pub segment_out: u32,
    /// Payload of the longest segment that has arrived, in bytes, as the kernel estimates it.
    pub segment_in: u32,
    /// The smoothed round trip, in nanoseconds.
    pub rtt_ns: u64,
    /// The shortest round trip of the last minutes, in nanoseconds.
    pub rtt_min_ns: Option<u64>,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// What arrived at the other end in the last measured round trip, in bits per second.
    pub delivery_rate: u64,
    /// Segments with data that were sent, those sent again included.
    pub segments_sent: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Those of them that had arrived already, as the other end says (DSACK, RFC 2883).
    pub duplicates: u32,
    /// How often acknowledgements showed that segments had overtaken others.
    pub reorderings: u32,
    /// Segments with data that have arrived.
    pub segments_received: u32,
    /// Those of them that arrived before an earlier one, which was lost or overtaken.
    pub out_of_order: u32,
    /// How long there was something to send, in nanoseconds.
    pub busy_ns: u64,
    /// The part of it in which the window of the other end held it back.
    pub window_limited_ns: u64,
    /// The part of it in which the send buffer was too small.
    pub send_buffer_limited_ns: u64,
}
