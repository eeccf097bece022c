//! What a driver reports about itself, for logs, tools and metrics: plain data, the same for every
//! driver.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use lustrine_wire::nid::{Nid, ProcessId};
use smallvec::SmallVec;

use crate::lnd::NiIndex;
use crate::status::Status;
use crate::time::Nanos;

/// A metric that a driver declares: counters of one unit, distinguished by a label if there are
/// several.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverMetric {
    /// Its name in Prometheus; it ends in `_total`.
    pub name: &'static str,
    /// The name of its label, if it has one.
    pub label: Option<&'static str>,
    /// What it counts, in one sentence.
    pub help: &'static str,
}

/// A counter of a driver, since the driver was made. Counters only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCounter {
    /// The driver, as it is named in `lustrine show stats`.
    pub driver: &'static str,
    /// Its name, which is unique among the counters of its driver.
    pub name: &'static str,
    /// The value.
    pub value: u64,
    /// The metric that it is part of.
    pub metric: &'static DriverMetric,
    /// The value of the metric's label.
    pub label: Option<&'static str>,
    /// What the log says when it grows; `None` is nothing.
    pub log: Option<&'static str>,
}

/// How far a driver has come with connecting to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialPhase {
    /// The peer's host has not answered.
    Connecting,
    /// The peer's host has answered; the peer has not.
    AwaitingPeer,
    /// The peer has answered that it takes no connection now; another attempt follows.
    Refused,
    /// The last attempt failed for this reason; another one follows after a pause.
    Failed(Status),
}

/// A peer as its driver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverPeer {
    /// Its NID and pid; a userland peer has its new identity ([USR-2]).
    pub id: ProcessId,
    /// The interface.
    pub ni: NiIndex,
    /// The version of the driver's protocol, once it is known.
    pub version: Option<&'static str>,
    /// Open connections by type: all types of the driver, in its order.
    pub connections: SmallVec<[(&'static str, u32); 4]>,
    /// Bytes that wait to be sent on its connections.
    pub queued_bytes: u64,
    /// Messages that wait for a connection, or to be sent on one.
    pub queued_messages: u64,
    /// How far a connection to it is that is being made.
    pub dialling: Option<DialPhase>,
}

impl DriverPeer {
    /// The number of open connections of all types.
    pub fn open(&self) -> u32 {
        self.connections.iter().map(|(_, count)| count).sum()
    }
}

/// An open connection of a driver whose connections are streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverConn {
    /// The NID and pid of its peer; a userland peer has its new identity ([USR-2]).
    pub id: ProcessId,
    /// The interface.
    pub ni: NiIndex,
    /// Its type, one of the driver's.
    pub kind: &'static str,
    /// The version of the driver's protocol.
    pub version: Option<&'static str>,
    /// Whether this node made it.
    pub dialled: bool,
    /// The local address, if it was chosen.
    pub local: Option<IpAddr>,
    /// The address of the other end.
    pub remote: SocketAddr,
    /// What the system counts of it; `None` if it does not.
    pub stream: Option<StreamStats>,
}

/// What the system counts of a stream, since it was made. Numbers of segments are modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// The port of this end; `None` if the system does not say it.
    pub local_port: Option<u16>,
    /// Longest packet that the path is believed to take, in bytes.
    pub path_mtu: u32,
    /// Payload of the longest segment that is sent, in bytes.
    pub segment_out: u32,
    /// Payload of the longest segment that has arrived, in bytes, as the system estimates it.
    pub segment_in: u32,
    /// The smoothed round trip.
    pub rtt: Nanos,
    /// The shortest round trip of the last minutes; `None` before there is one.
    pub rtt_min: Option<Nanos>,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// What arrived at the other end in the last measured round trip, in bits per second.
    pub delivery_rate: u64,
    /// Segments with data that were sent, those sent again included.
    pub segments_sent: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Those of them that had arrived already, as the other end says.
    pub duplicates: u32,
    /// How often acknowledgements showed that segments had overtaken others.
    pub reorderings: u32,
    /// Segments with data that have arrived.
    pub segments_received: u32,
    /// Those of them that arrived before an earlier one.
    pub out_of_order: u32,
    /// How long there was something to send.
    pub busy: Nanos,
    /// The part of it in which the window of the other end held it back.
    pub window_limited: Nanos,
    /// The part of it in which the send buffer was too small.
    pub send_buffer_limited: Nanos,
}

/// What happened to connections of one address, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverNotice {
    /// What happened, and why.
    pub what: &'static str,
    /// The address at the other end; `None` sums up the addresses that were too many to remember.
    pub address: Option<IpAddr>,
    /// How often since the last report.
    pub count: u64,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEnd {
    /// A peer.
    Peer(Nid),
    /// The address of a stranger, or of a peer that has not said its NID.
    Address(IpAddr),
}

impl fmt::Display for OtherEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OtherEnd::Peer(nid) => nid.fmt(f),
            OtherEnd::Address(address) => address.fmt(f),
        }
    }
}

/// Whom a line of the log about counters concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverOffender {
    /// The line: [`DriverCounter::log`] of the counter that grew.
    pub what: &'static str,
    /// With whom it happened.
    pub who: OtherEnd,
}
