//! The events that the dissector reports.

use core::net::SocketAddr;

use lustrine_fswire::message::MessageError;
use lustrine_fswire::rpc::{Kind, RpcError};
use lustrine_wire::acceptor::{AcceptorError, Answer, Request};
use lustrine_wire::frame::{FrameError, FrameHeader};
use lustrine_wire::header::HeaderError;
use lustrine_wire::hello::{Hello, HelloError, Version};
use lustrine_wire::ping::{Features, PingEntry, PingError};
use lustrine_wire::srpc::{self, Destination, SrpcError};
use lustrine_wire::{ByteOrder, Header};

/// The sender of the bytes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The side that opened the TCP connection.
    FromOpener,
    /// The side that listened.
    FromAcceptor,
}

impl Direction {
    /// The other direction.
    pub const fn reverse(self) -> Direction {
        match self {
            Direction::FromOpener => Direction::FromAcceptor,
            Direction::FromAcceptor => Direction::FromOpener,
        }
    }
}

/// An event on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The capture time of the frame that completed it, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Number of the TCP connection, from 1 in the order of appearance.
    pub stream: u32,
    /// The sender.
    pub direction: Direction,
    /// Where it starts, in bytes since the first known byte of this direction.
    pub offset: u64,
    /// Its bytes. Every byte of a stream is in exactly one event, except bytes of connections that
    /// are not LNet's.
    pub raw: Vec<u8>,
    /// What happened.
    pub item: Item,
}

/// The content of an [`Event`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A connection appears.
    Opened {
        /// The side that opened it.
        opener: SocketAddr,
        /// The side that listened.
        acceptor: SocketAddr,
        /// Whether its beginning was seen.
        start: Start,
    },
    /// A connection request.
    Request(Request),
    /// The answer to a request of an unknown version.
    Answer(Answer),
    /// A HELLO.
    Hello(Hello),
    /// A frame without a message.
    Noop(Noop),
    /// An LNet message.
    Message(Box<Message>),
    /// Bytes of this direction are missing from the capture.
    Gap {
        /// The number of missing bytes.
        missing: u64,
    },
    /// Bytes that could not be decoded.
    Undecoded(Undecoded),
    /// The sender closed its direction.
    Fin,
    /// The sender broke the connection.
    Reset,
}

/// Whether the beginning of a connection was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The opening handshake was seen.
    Handshake,
    /// The connection existed before the capture; the ports suggest which side opened it.
    MidStream,
}

/// A frame header without a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noop {
    /// How the stream is framed.
    pub format: StreamFormat,
    /// The frame.
    pub frame: FrameHeader,
    /// The state of its checksum.
    pub checksum: Checksum,
}

/// An LNet message with its frame header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How the stream is framed.
    pub format: StreamFormat,
    /// The frame header; none in protocol version 1.
    pub frame: Option<FrameHeader>,
    /// The state of its checksum.
    pub checksum: Checksum,
    /// The LNet header.
    pub header: Header,
    /// The decoded payload.
    pub content: Content,
}

impl Message {
    /// Where the payload starts in the raw bytes of the event.
    pub fn payload_at(&self) -> usize {
        self.format.version.frame_len() + self.format.version.header_len()
    }
}

/// How one direction of a stream is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFormat {
    /// Protocol version.
    pub version: Version,
    /// Byte order of frame headers.
    pub order: ByteOrder,
    /// How certain the version is.
    pub certainty: Certainty,
}

impl StreamFormat {
    /// Whether messages of both formats have the same layout.
    pub(crate) fn is_framed_like(&self, other: &StreamFormat) -> bool {
        self.version.header_len() == other.version.header_len()
            && self.version.frame_len() == other.version.frame_len()
            && self.order == other.order
    }
}

/// How a [`StreamFormat`] is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// From a HELLO.
    Announced,
    /// From a message: V2 and V3 look the same, all other versions are certain.
    Inferred,
    /// From a NOOP: only the byte order is certain.
    Assumed,
}

/// The state of a frame's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The frame has no checksum.
    Absent,
    /// It is correct.
    Good,
    /// It is wrong.
    Bad {
        /// What it should be.
        computed: u32,
    },
}

/// The decoded payload of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// There is no payload.
    Empty,
    /// Information about a node, in the answer to a ping or in a push.
    Ping(PingInfo),
    /// A selftest message.
    Srpc(srpc::Message),
    /// The destinations of a selftest client.
    Destinations(Vec<Destination>),
    /// Data of a bulk test.
    TestData,
    /// A request or a reply of the RPC layer; the payload holds its fields.
    Rpc(Rpc),
    /// Data that an RPC moves by bulk.
    Bulk(Bulk),
    /// Data that is not decoded.
    Opaque,
    /// The payload is not what belongs there.
    Malformed(ContentError),
}

/// Why a payload is not what belongs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// It should be ping info.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// It should be a selftest message.
    #[error(transparent)]
    Srpc(#[from] SrpcError),
    /// It should be a request or a reply.
    #[error(transparent)]
    Rpc(#[from] MessageError),
    /// Its buffers should be those of its operation.
    #[error(transparent)]
    Buffers(#[from] RpcError),
}

/// A request or a reply of the RPC layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    /// Which of them.
    pub role: RpcRole,
    /// The operation. A reply whose request was not captured has only its opcode.
    pub kind: Kind,
    /// The request's xid; of a reply without request, its match bits.
    pub xid: u64,
    /// Of a reply: when its request was captured, in nanoseconds since 1970; none if it was not.
    pub request_ns: Option<u64>,
}

/// Which part of an RPC a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcRole {
    /// A request.
    Request,
    /// Its reply.
    Reply,
    /// A message that makes the client wait longer.
    EarlyReply,
}

/// Data that an RPC moves by bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// The operation.
    pub kind: Kind,
    /// The request's xid.
    pub xid: u64,
    /// Its number among the transfers of the RPC, from 0.
    pub index: u32,
}

/// The contents of ping info; see [`lustrine_wire::ping::PingInfo`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingInfo {
    /// Byte order of its sender.
    pub order: ByteOrder,
    /// The node's features.
    pub features: Features,
    /// Its pid.
    pub pid: u32,
    /// Its sequence number.
    pub sequence: u32,
    /// Its interfaces without the loopback.
    pub entries: Vec<PingEntry>,
    /// Bytes that follow, which are not decoded.
    pub trailing: usize,
}

/// Why bytes could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// Not an acceptable connection request, where one must be.
    #[error(transparent)]
    Request(AcceptorError),
    /// Not an acceptable HELLO, where one must be.
    #[error(transparent)]
    Hello(HelloError),
    /// Not a frame header, where one must be.
    #[error(transparent)]
    Frame(FrameError),
    /// Not an LNet header, where one must be.
    #[error(transparent)]
    Header(HeaderError),
    /// Follows a malformed item.
    #[error("follows a malformed item")]
    AfterError,
    /// The stream ends within a message.
    #[error("the stream ends within a message")]
    CutOff,
    /// Part of a message of which other bytes are missing from the capture.
    #[error("part of a message with bytes missing")]
    Incomplete,
    /// Neither a message nor within a known one: the search for the next boundary continues.
    #[error("no message boundary found yet")]
    Unsynchronized,
}
