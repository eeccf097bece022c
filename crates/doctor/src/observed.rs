//! What was observed. `None` is what could not be seen.

use serde::{Deserialize, Serialize};

/// Everything that was observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observed {
    /// This host.
    pub host: HostView,
    /// The node that runs on it.
    pub node: Option<NodeView>,
    /// The node that was to be asked, and does not answer.
    pub silent_node: Option<SilentNode>,
    /// The configuration that a node of it has or would have.
    pub config: Option<ConfigView>,
    /// The peers of `--to`.
    pub peers: Vec<PeerView>,
}

/// This host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostView {
    /// Nanoseconds since 1970 when it was looked at.
    pub wall_ns: u64,
    /// Whether this process may use source ports below 1024.
    pub privileged: bool,
    /// Version of the operating system's kernel.
    pub kernel: String,
    /// Version of Lustre's kernel modules, if they are loaded.
    pub lustre_modules: Option<String>,
    /// Its network interfaces.
    pub interfaces: Vec<InterfaceView>,
    /// `net.ipv4.tcp_rmem`, in bytes.
    pub tcp_rmem: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`, in bytes.
    pub tcp_wmem: Option<[u64; 3]>,
    /// `net.ipv4.tcp_window_scaling`.
    pub window_scaling: Option<bool>,
    /// Who listens at LNet's port.
    pub port_holder: Option<PortHolder>,
    /// TCP connections of LNet with data that no program reads.
    pub unread: Vec<Unread>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceView {
    /// Its name.
    pub name: String,
    /// Switched on, and the link is up.
    pub running: bool,
    /// Longest packet, in bytes.
    pub mtu: Option<u32>,
    /// Speed in Mb/s.
    pub speed_mbps: Option<u32>,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// Who listens at LNet's port of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortHolder {
    /// Nothing listens there.
    Free,
    /// Something that speaks LNet: a node or a kernel.
    Lnet,
    /// Something that takes a connection and says nothing: a node that is stopped, or no node.
    Silent,
    /// Something that answers, and does not speak LNet.
    Other,
}

/// A connection with data that no program reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The local address and port.
    pub local: String,
    /// The remote address and port.
    pub remote: String,
    /// Bytes that waited at the first and at the second look.
    pub bytes: [u64; 2],
    /// Milliseconds between the two.
    pub apart_ms: u64,
}

/// The running node of this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// `node` or `userland`; `kernel` if it is a kernel's LNet.
    pub identity: String,
    /// Its interfaces.
    pub nis: Vec<NiView>,
    /// Its peers whose credits were used up once.
    pub peers: Vec<PeerCredits>,
}

/// A node that does not answer at its control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentNode {
    /// The control socket.
    pub socket: String,
    /// Whether a program has the socket open; otherwise no node runs there.
    pub is_running: bool,
    /// The words of the operating system or of the protocol.
    pub why: String,
}

/// An interface of the running node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NiView {
    /// Its NID.
    pub nid: String,
    /// Its device.
    pub interface: Option<String>,
    /// Bulk connections to a peer in each direction; `None`: that is not known.
    #[serde(default)]
    pub conns_per_peer: Option<u16>,
    /// Credits for one peer.
    pub peer_credits: u32,
    /// Credits for all peers.
    pub credits: u32,
    /// The lowest number of free credits; below 0 as many messages waited.
    pub credits_min: i64,
}

/// Credits for a peer of the running node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCredits {
    /// The peer.
    pub nid: String,
    /// All credits.
    pub credits: u32,
    /// Free ones now; below 0 as many messages wait.
    pub available: i64,
    /// The lowest number of free ones.
    pub min: i64,
}

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigView {
    /// Where it is from.
    pub source: String,
    /// Why a node would refuse it.
    pub problem: Option<String>,
    /// Its interfaces.
    pub nis: Vec<PlannedNi>,
}

/// An interface of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedNi {
    /// Its LNet network.
    pub net: String,
    /// The name of a device, or an address.
    pub place: String,
    /// The address that it stands for.
    pub address: Option<String>,
    /// Whether the device is there, and up.
    pub running: bool,
}

/// A peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerView {
    /// Its NID.
    pub nid: String,
    /// Its IP address.
    pub address: String,
    /// The TCP port of LNet.
    pub port: u16,
    /// How packets to it leave this host; `None`: not at all.
    pub route: Option<RouteView>,
    /// Why there is no route.
    pub no_route: Option<String>,
    /// What ICMP shows.
    pub icmp: Option<IcmpView>,
    /// Handshake attempts with it, in order.
    pub dials: Vec<Dial>,
    /// Whether it closes a connection from a privileged port over which nothing was sent; `None` if
    /// that was not tried.
    pub closes_at_once: Option<bool>,
    /// Idle round trips of pings, in nanoseconds: the least and the median.
    pub rtt_ns: Option<[u64; 2]>,
    /// Pings that were not answered.
    pub pings_lost: Option<u32>,
    /// A connection to it, once data went over it.
    pub stream: Option<StreamView>,
    /// Full segments to it.
    pub out: Option<Carried>,
    /// Full segments from it.
    pub back: Option<Carried>,
    /// Many bytes to it.
    pub bulk: Option<Carried>,
    /// Its interfaces as it announces them, and whether they are up.
    pub nis: Vec<(String, bool)>,
    /// What was not looked at because the budget ended.
    pub left_out: Vec<String>,
    /// The rate that the path should carry, in bits per second.
    pub rate: Option<u64>,
    /// Where `rate` is from.
    pub rate_source: String,
    /// Credits of this host for it.
    pub peer_credits: Option<u32>,
    /// Bulk connections of this host to it in each direction.
    pub connections: Option<u16>,
    /// What its own end says.
    pub remote: Option<RemoteView>,
}

/// How packets to a peer leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteView {
    /// The source address.
    pub local: String,
    /// The interface by which they leave.
    pub interface: Option<String>,
    /// The interface that has the source address; another one with routing to the host.
    #[serde(default)]
    pub address_on: Option<String>,
    /// The next router; `None` if there is none, or the kernel did not say the route.
    #[serde(default)]
    pub gateway: Option<String>,
    /// Whether no router is between this host and the peer, as the route says.
    pub on_link: bool,
}

/// What ICMP shows of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IcmpView {
    /// Echo requests that were answered.
    pub answers: u32,
    /// Echo requests that were sent, without those for hops.
    pub asked: u32,
    /// Hops to the peer: 1 without a router.
    pub hops_out: Option<u8>,
    /// Hops from the peer, from the TTL of its answers.
    pub hops_back: Option<u8>,
    /// The interface at which its answers arrived.
    pub arrived_at: Option<String>,
    /// The peer's clock minus this host's, and how far that may be off, in milliseconds.
    pub clock_ms: Option<(i64, u64)>,
    /// Echoes in full packets; `None` if none were sent.
    pub full: Option<FullEcho>,
}

/// Echo requests in packets that fill the MTU of the interface, or the smaller one that a router
/// has named, and which no router may divide; and their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullEcho {
    /// Bytes of the packets.
    pub bytes: u32,
    /// How many were sent.
    pub asked: u32,
    /// Whether one was answered.
    pub is_answered: bool,
}

/// The source port of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Below 1024.
    Privileged,
    /// 1024 and above.
    Any,
}

/// An attempt of a handshake with a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dial {
    /// Its source port.
    pub source: Source,
    /// The NID that was asked for.
    pub target: String,
    /// What came of it.
    pub outcome: DialOutcome,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialOutcome {
    /// TCP refused the connection: with a reset, as far as the operating system says how.
    Refused,
    /// An ICMP message, or this host itself, said that the connection is not permitted.
    Rejected {
        /// Who said it, if that is known.
        by: Option<String>,
        /// The words of the message.
        why: String,
    },
    /// No answer to the connection request.
    TimedOut {
        /// How long it was waited, in milliseconds.
        ms: u64,
    },
    /// The host, or a router, said that the peer cannot be reached.
    Unreachable {
        /// The words of the operating system.
        why: String,
    },
    /// The attempt could not be made.
    NotMade {
        /// Why.
        why: String,
    },
    /// Connected, and closed before a HELLO.
    Closed,
    /// Connected, and no HELLO.
    Silent {
        /// How long it was waited, in milliseconds.
        ms: u64,
    },
    /// Connected, and an answer that is no HELLO.
    NotLnet {
        /// The first bytes of the answer, as text.
        begins: String,
    },
    /// A HELLO that says "not now".
    NotNow,
    /// A HELLO.
    Hello {
        /// The NID of the sender.
        nid: String,
        /// The version of the protocol, 1 to 4.
        version: u32,
        /// The incarnation of the sender.
        incarnation: u64,
        /// Nanoseconds since 1970 at its arrival.
        wall_ns: u64,
    },
}

/// A TCP connection to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamView {
    /// Payload of the largest segment to the peer, in bytes.
    pub segment_out: u32,
    /// Payload of the largest segment that the peer may send, in bytes.
    pub segment_back: u32,
    /// Payload of the largest segment that has arrived, as the kernel estimates it, in bytes; 0 if
    /// it is not known.
    #[serde(default)]
    pub segment_seen: u32,
    /// Longest packet that the kernel believes the path takes, in bytes.
    pub path_mtu: u32,
    /// Bytes of TCP options in each segment.
    pub options: u32,
    /// The window scale that the peer has chosen; `None`: no scaling.
    pub peer_scale: Option<u8>,
    /// Segments that were sent again.
    pub retransmits: u32,
}

impl StreamView {
    /// Payload of the largest segment that has arrived, in bytes, if segments that fill packets
    /// have: a peer with a smaller MTU sends shorter ones than it may.
    pub fn arrived(&self) -> u32 {
        match self.segment_seen {
            0 => self.segment_back,
            seen => seen.min(self.segment_back),
        }
    }
}

/// What became of data in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// They arrived.
    Yes {
        /// Bytes.
        bytes: u64,
        /// How long it took, in nanoseconds.
        ns: u64,
    },
    /// The peer acknowledges what it gets, and full segments never arrive.
    Lost {
        /// Payload of the segments that are lost, in bytes.
        segment: u32,
        /// Payload of the largest segment of those tried that arrives.
        arrives: Option<u32>,
        /// How long it was waited, in milliseconds.
        ms: u64,
    },
    /// The peer's host has taken all that it has room for, and the peer does not read it.
    Unread {
        /// Bytes that were taken.
        bytes: u64,
        /// How long it was waited, in milliseconds.
        ms: u64,
    },
    /// Not decided: the connection ended, the budget did, or the segments were not full.
    Unknown,
}

/// What the peer's end says of itself and of this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteView {
    /// The peer's host.
    pub host: HostView,
    /// Nanoseconds since 1970 here, before and after it was asked.
    pub queried_ns: [u64; 2],
    /// What ICMP shows of this host from there.
    pub icmp: Option<IcmpView>,
    /// How packets to this host leave there.
    pub route: Option<RouteView>,
    /// The node that runs there.
    pub node: Option<NodeView>,
    /// The configuration of it.
    pub config: Option<ConfigView>,
}

/// Bytes of the headers of IP and TCP, without options.
pub const fn header_bytes(is_ipv6: bool) -> u32 {
    if is_ipv6 { 60 } else { 40 }
}

/// Bytes of an answer to a ping of a peer with one interface: frame, header, ping information.
const PING_ANSWER: u32 = 24 + 72 + 48;
/// Answers that may go in a segment of their own, while the first window of the sender has room:
/// those after them are joined to full segments.
const FIRST_ANSWERS: u32 = 20;

/// The pings that are sent at once in a look for full segments from a peer, where a segment has at
/// most so many bytes. Their answers take credits of the peer's node.
pub const fn pings_at_once(segment: u32) -> u32 {
    FIRST_ANSWERS + 2 * segment.div_ceil(PING_ANSWER)
}

impl RemoteView {
    /// The interface through which packets to this host leave there.
    pub(crate) fn interface(&self) -> Option<&InterfaceView> {
        let name = self.route.as_ref()?.interface.as_deref()?;
        self.host.interfaces.iter().find(|interface| interface.name == name)
    }
}

impl PeerView {
    /// Whether it was seen what becomes of full packets: over a connection, or as echoes.
    pub fn shows_full_packets(&self) -> bool {
        let is_known =
            |carried| matches!(carried, Some(Carried::Yes { .. } | Carried::Lost { .. }));
        let full = self.icmp.as_ref().and_then(|icmp| icmp.full);
        is_known(self.out) || is_known(self.back) || full.is_some_and(|full| full.is_answered)
    }

    /// Bytes of the headers of IP and TCP in packets to it.
    pub fn header_bytes(&self) -> u32 {
        header_bytes(self.address.contains(':'))
    }

    /// The HELLOs that it answered with: NID, incarnation, time of arrival.
    pub(crate) fn hellos(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.dials.iter().filter_map(|dial| match &dial.outcome {
            DialOutcome::Hello { nid, incarnation, wall_ns, .. } if dial.target == self.nid => {
                Some((nid.as_str(), *incarnation, *wall_ns))
            }
            _ => None,
        })
    }

    /// The interface through which packets to it leave.
    pub(crate) fn interface<'a>(&self, host: &'a HostView) -> Option<&'a InterfaceView> {
        let name = self.route.as_ref()?.interface.as_deref()?;
        host.interfaces.iter().find(|interface| interface.name == name)
    }
}
