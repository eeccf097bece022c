//! What a node answers.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use lustrine_selftest::console::Refusal;
use lustrine_wire::nid::{Net, Nid};
use serde::{Deserialize, Serialize};

use crate::change::ChangeReport;
use crate::conn::ConnRow;
use crate::latency::{LatencyRow, SummaryRow};
use crate::load::LoadRow;

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Ping`](crate::Request::Ping).
    Ping {
        /// What the peer said about itself.
        #[serde(flatten)]
        identity: PeerIdentity,
        /// Feature bits.
        features: u32,
        /// Sequence number of the peer's information.
        sequence: u32,
        /// Round-trip time in microseconds; the first one to a peer includes connecting.
        rtt_us: f64,
    },
    /// To [`Request::Discover`](crate::Request::Discover).
    Discover {
        /// What is known of the peer now.
        peer: PeerRow,
    },
    /// To [`Request::ShowNet`](crate::Request::ShowNet).
    Net(NetInfo),
    /// To [`Request::ShowPeer`](crate::Request::ShowPeer).
    Peer {
        /// The peers, ordered by NID.
        peers: Vec<PeerRow>,
    },
    /// To [`Request::ShowConn`](crate::Request::ShowConn).
    Conn {
        /// The connections, ordered by NID and type.
        conns: Vec<ConnRow>,
        /// Connections that are not in `conns` because they are too many.
        #[serde(default)]
        conns_left_out: u64,
    },
    /// To [`Request::ShowStats`](crate::Request::ShowStats).
    Stats {
        /// Totals of all partitions.
        stats: Box<StatsRow>,
    },
    /// To [`Request::ShowLatency`](crate::Request::ShowLatency).
    Latency {
        /// The node's interfaces: all peers together, also those that were forgotten since.
        nets: Vec<LatencyRow>,
        /// Peers with samples, ordered by NID.
        peers: Vec<LatencyRow>,
        /// Peers that are not in `peers` because others exchanged more messages.
        peers_left_out: u64,
        /// Operations with peers beyond the tunable `latency_peers`, which have no histogram.
        samples_left_out: u64,
    },
    /// To [`Request::ShowTunables`](crate::Request::ShowTunables).
    Tunables {
        /// The values, by our names (docs/tunables.md).
        values: BTreeMap<String, i64>,
        /// The driver's share of the transaction time-out, in seconds; it follows from others.
        lnd_timeout: i64,
    },
    /// To [`Request::ShowConfig`](crate::Request::ShowConfig).
    Config {
        /// The configuration as lnetctl's YAML.
        text: String,
    },
    /// To [`Request::Change`](crate::Request::Change).
    Changed {
        /// What was done, or would be done.
        changed: ChangeReport,
    },
    /// To [`Request::Console`](crate::Request::Console).
    Console {
        /// The console's answer, or why it did not carry out the command.
        outcome: Result<lustrine_selftest::console::Answer, Refusal>,
    },
    /// To [`Request::Load`](crate::Request::Load).
    Load {
        /// Its progress.
        load: LoadRow,
    },
    /// The request failed.
    Error {
        /// LNet's number: a negative errno.
        errno: i32,
        /// What happened, where, and what to do next.
        message: String,
        /// The part of `message` that says what to do next, for tools that have their own words
        /// for the rest.
        #[serde(default)]
        hint: String,
    },
}

/// The node's interfaces and identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetInfo {
    /// How the node dials its peers: `node` or `userland`.
    #[serde(default)]
    pub identity: String,
    /// Why it has this identity.
    #[serde(default)]
    pub identity_reason: String,
    /// What its selftest service does for consoles: `off`, `serve` or `full`.
    #[serde(default)]
    pub selftest: String,
    /// The only consoles that it obeys; empty if there is no list.
    #[serde(default)]
    pub selftest_consoles: String,
    /// The CPUs of each CPU partition.
    #[serde(default)]
    pub cpts: Vec<Vec<u32>>,
    /// The interfaces, without the loopback, which every node has.
    #[serde(default)]
    pub nets: Vec<NetRow>,
}

impl NetInfo {
    /// The interfaces on a network.
    pub fn on(&self, net: Net) -> impl Iterator<Item = &NetRow> {
        self.nets.iter().filter(move |row| row.nid.net() == net)
    }
}

/// A local interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetRow {
    /// Its NID.
    pub nid: Nid,
    /// The name of its network device, if it has one.
    pub interface: Option<String>,
    /// Why it cannot be used now: its address or its link is gone. Absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<String>,
    /// Where it listens; absent if it does not.
    pub listening: Option<SocketAddr>,
    /// TCP port at which peers on its network are dialled.
    pub port: u16,
    /// Bulk connections per peer and direction.
    pub conns_per_peer: u16,
    /// Messages in flight to one peer.
    pub peer_credits: u32,
    /// Send credits as configured. Each partition has a share, which is never less than it needs,
    /// so that `credits` may be more.
    pub credits_configured: u32,
    /// Send credits of all partitions.
    pub credits: u32,
    /// Free send credits, or minus the number of messages that wait for one.
    pub credits_available: i64,
    /// The lowest value of `credits_available`, summed over the partitions.
    pub credits_min: i64,
    /// Its messages.
    #[serde(flatten)]
    pub messages: Messages,
}

impl NetRow {
    /// An interface without messages and credits, for tests and examples.
    pub fn new(nid: Nid) -> NetRow {
        NetRow {
            nid,
            interface: None,
            down: None,
            listening: None,
            port: 988,
            conns_per_peer: 1,
            peer_credits: 0,
            credits_configured: 0,
            credits: 0,
            credits_available: 0,
            credits_min: 0,
            messages: Messages::default(),
        }
    }
}

/// Messages of an interface or of a peer NID, since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Messages {
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Messages received and dropped.
    pub dropped: u64,
    /// How long operations took, by name; empty if the node measures no latencies.
    pub latency: BTreeMap<String, SummaryRow>,
}

/// The NIDs of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerIdentity {
    /// Its primary NID.
    pub primary_nid: Nid,
    /// Whether its NIDs belong to one multi-rail node.
    #[serde(default)]
    pub multi_rail: bool,
    /// Its NIDs; empty before it was discovered.
    #[serde(default)]
    pub peer_ni: Vec<PeerNiRow>,
}

/// One NID of a peer, as the peer advertises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerNiRow {
    /// The NID.
    pub nid: Nid,
    /// Whether its interface is up.
    pub up: bool,
}

/// How far the discovery of a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerState {
    /// Not begun.
    Unknown,
    /// In progress.
    Discovering,
    /// Ended: messages may flow.
    Ready,
}

impl PeerState {
    /// The state as a word.
    pub fn name(self) -> &'static str {
        match self {
            PeerState::Unknown => "unknown",
            PeerState::Discovering => "discovering",
            PeerState::Ready => "ready",
        }
    }
}

/// A NID of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRow {
    /// The NID.
    pub nid: Nid,
    /// The peer that it belongs to.
    #[serde(flatten)]
    pub identity: PeerIdentity,
    /// The CPU partition that owns it.
    #[serde(default)]
    pub cpt: u16,
    /// For a peer that an administrator configured: whether it was configured as multi-rail.
    #[serde(default)]
    pub configured: Option<bool>,
    /// The state of discovery.
    pub state: PeerState,
    /// Feature bits of its ping information.
    pub features: Option<u32>,
    /// Send credits.
    #[serde(default)]
    pub credits: u32,
    /// Free send credits, or minus the number of messages that wait for one.
    #[serde(default)]
    pub credits_available: i64,
    /// The lowest value of `credits_available`.
    #[serde(default)]
    pub credits_min: i64,
    /// Bytes of selftest's RPCs that may be in flight to it, with `tuning: auto` and while any are.
    #[serde(default)]
    pub window_bytes: Option<u64>,
    /// Bytes of them that are.
    #[serde(default)]
    pub window_used_bytes: Option<u64>,
    /// Its messages.
    #[serde(flatten)]
    pub messages: Messages,
    /// Userland processes at this address with open connections: they dialled from source ports
    /// above 1023.
    #[serde(default)]
    pub userland: u32,
    /// Open connections by type, such as `CONTROL`, including those of userland processes.
    #[serde(default)]
    pub connections: BTreeMap<String, u32>,
    /// The HELLO version of the connections.
    pub version: Option<String>,
}

impl PeerRow {
    /// A NID of which nothing else is known, for tests and examples.
    pub fn new(nid: Nid, identity: PeerIdentity) -> PeerRow {
        PeerRow {
            nid,
            identity,
            cpt: 0,
            configured: None,
            state: PeerState::Unknown,
            features: None,
            credits: 0,
            credits_available: 0,
            credits_min: 0,
            window_bytes: None,
            window_used_bytes: None,
            messages: Messages::default(),
            userland: 0,
            connections: BTreeMap::new(),
            version: None,
        }
    }

    /// The number of open connections of all types.
    pub fn connections_total(&self) -> u32 {
        self.connections.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// Counters of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatsRow {
    /// LNet's counters, by the names that lnetctl prints.
    pub lnet: BTreeMap<String, u64>,
    /// The counters of each driver, by its name: `socklnd` is the TCP driver.
    #[serde(flatten)]
    pub drivers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Open TCP connections.
    pub connections: u64,
    /// Memory mapped for messages, in bytes.
    pub memory_mapped: u64,
    /// CPU time of the process.
    pub cpu_s: CpuSeconds,
}

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds(pub f64);
