//! The LNet header: 72 bytes with short NIDs, 96 with long ones [HDR-1] [HDR-2].
//!
//! ```
//! use lustrine_wire::header::{Body, Header, MdHandle};
//! use lustrine_wire::{PING_MATCH_BITS, PING_PORTAL, ProcessId};
//!
//! // A ping: a GET of the ping information on portal 0.
//! let header = Header {
//!     dst: ProcessId::lustre("10.0.0.2@tcp".parse().unwrap()),
//!     src: ProcessId::lustre("10.0.0.1@tcp".parse().unwrap()),
//!     payload_len: 0,
//!     body: Body::Get {
//!         return_md: MdHandle { interface: 1, object: 2 },
//!         match_bits: PING_MATCH_BITS,
//!         portal: PING_PORTAL,
//!         offset: 0,
//!         sink_len: 272,
//!     },
//! };
//! let mut raw = [0; Header::SHORT_LEN];
//! header.encode_short(&mut raw).unwrap();
//! assert_eq!(Header::parse_short(&raw), Ok(header));
//! ```

#[cfg(test)]
mod tests;

use crate::byte_order::{ByteOrder, array_at};
use crate::nid::{Nid, NidError, NidTooLong, ProcessId};

/// The largest payload of a message, 1 MiB.
pub const PAYLOAD_MAX: u32 = 1 << 20;

/// Portals are numbered from 0 to 63.
pub const PORTAL_MAX: u32 = 63;

const LE: ByteOrder = ByteOrder::Little;

/// Length of the part after NIDs and pids that differs by message type.
const BODY_LEN: usize = 40;

/// Length of everything after the NIDs: pids, type, payload length and body.
const REST_LEN: usize = 16 + BODY_LEN;

/// Identifies a memory descriptor to the node that created it. Other nodes copy it unchanged and
/// never swap its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MdHandle {
    /// Distinguishes one run of the node from the next.
    pub interface: u64,
    /// Identifies the descriptor.
    pub object: u64,
}

impl MdHandle {
    /// All ones: no descriptor, in a PUT "no acknowledgement wanted".
    pub const NONE: MdHandle = MdHandle { interface: u64::MAX, object: u64::MAX };

    /// Whether this is [`MdHandle::NONE`].
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.interface == u64::MAX && self.object == u64::MAX
    }

    #[inline]
    fn read(raw: &[u8; BODY_LEN]) -> MdHandle {
        MdHandle { interface: LE.u64_at(raw, 0), object: LE.u64_at(raw, 8) }
    }

    #[inline]
    fn write(&self, raw: &mut [u8; BODY_LEN]) {
        LE.put_u64(raw, 0, self.interface);
        LE.put_u64(raw, 8, self.object);
    }
}

/// The part of a header that depends on the message type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// Confirms that a PUT was stored.
    Ack {
        /// Handle copied from the PUT.
        md: MdHandle,
        /// Match bits of the PUT.
        match_bits: u64,
        /// Bytes that were stored.
        mlength: u32,
    },
    /// Stores the payload at the target.
    Put {
        /// Handle for the acknowledgement, [`MdHandle::NONE`] if none is wanted.
        ack_md: MdHandle,
        /// Selects the match entry at the target.
        match_bits: u64,
        /// 64 bits for the receiver; their byte order is never converted.
        hdr_data: u64,
        /// Portal, 0 to 63.
        portal: u32,
        /// Where in the target's memory to store.
        offset: u32,
    },
    /// Requests bytes of the target's memory.
    Get {
        /// Handle for the REPLY.
        return_md: MdHandle,
        /// Selects the match entry at the target.
        match_bits: u64,
        /// Portal, 0 to 63.
        portal: u32,
        /// Where in the target's memory to read.
        offset: u32,
        /// How many bytes the requester has room for.
        sink_len: u32,
    },
    /// Carries the bytes that a GET requested.
    Reply {
        /// Handle copied from the GET.
        md: MdHandle,
    },
    /// Only as HELLO V1 at the start of a connection; within the message stream it is an error.
    Hello {
        /// Incarnation of the sender.
        incarnation: u64,
        /// Connection type.
        kind: u32,
    },
}

/// The types of messages, with their numbers on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum MessageKind {
    /// See [`Body::Ack`].
    Ack = 0,
    /// See [`Body::Put`].
    Put = 1,
    /// See [`Body::Get`].
    Get = 2,
    /// See [`Body::Reply`].
    Reply = 3,
    /// See [`Body::Hello`].
    Hello = 4,
}

impl MessageKind {
    /// The name in capitals, as LNet writes it.
    pub const fn name(self) -> &'static str {
        match self {
            MessageKind::Ack => "ACK",
            MessageKind::Put => "PUT",
            MessageKind::Get => "GET",
            MessageKind::Reply => "REPLY",
            MessageKind::Hello => "HELLO",
        }
    }
}

impl Body {
    /// The message type.
    #[inline]
    pub const fn kind(&self) -> MessageKind {
        match self {
            Body::Ack { .. } => MessageKind::Ack,
            Body::Put { .. } => MessageKind::Put,
            Body::Get { .. } => MessageKind::Get,
            Body::Reply { .. } => MessageKind::Reply,
            Body::Hello { .. } => MessageKind::Hello,
        }
    }

    #[inline]
    fn read(kind: u32, raw: &[u8; BODY_LEN]) -> Option<Body> {
        Some(match kind {
            0 => Body::Ack {
                md: MdHandle::read(raw),
                match_bits: LE.u64_at(raw, 16),
                mlength: LE.u32_at(raw, 24),
            },
            1 => Body::Put {
                ack_md: MdHandle::read(raw),
                match_bits: LE.u64_at(raw, 16),
                hdr_data: LE.u64_at(raw, 24),
                portal: LE.u32_at(raw, 32),
                offset: LE.u32_at(raw, 36),
            },
            2 => Body::Get {
                return_md: MdHandle::read(raw),
                match_bits: LE.u64_at(raw, 16),
                portal: LE.u32_at(raw, 24),
                offset: LE.u32_at(raw, 28),
                sink_len: LE.u32_at(raw, 32),
            },
            3 => Body::Reply { md: MdHandle::read(raw) },
            4 => Body::Hello { incarnation: LE.u64_at(raw, 0), kind: LE.u32_at(raw, 8) },
            _ => return None,
        })
    }

    /// Fills in the body; bytes that the type does not use become 0.
    #[inline]
    fn write(&self, raw: &mut [u8; BODY_LEN]) {
        *raw = [0; BODY_LEN];
        match *self {
            Body::Ack { md, match_bits, mlength } => {
                md.write(raw);
                LE.put_u64(raw, 16, match_bits);
                LE.put_u32(raw, 24, mlength);
            }
            Body::Put { ack_md, match_bits, hdr_data, portal, offset } => {
                ack_md.write(raw);
                LE.put_u64(raw, 16, match_bits);
                LE.put_u64(raw, 24, hdr_data);
                LE.put_u32(raw, 32, portal);
                LE.put_u32(raw, 36, offset);
            }
            Body::Get { return_md, match_bits, portal, offset, sink_len } => {
                return_md.write(raw);
                LE.put_u64(raw, 16, match_bits);
                LE.put_u32(raw, 24, portal);
                LE.put_u32(raw, 28, offset);
                LE.put_u32(raw, 32, sink_len);
            }
            Body::Reply { md } => md.write(raw),
            Body::Hello { incarnation, kind } => {
                LE.put_u64(raw, 0, incarnation);
                LE.put_u32(raw, 8, kind);
            }
        }
    }
}

/// What every LNet message starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Final destination, also through routers.
    pub dst: ProcessId,
    /// Originator, also through routers.
    pub src: ProcessId,
    /// Bytes that follow the header: 0 for ACK and GET, at most 1 MiB otherwise.
    pub payload_len: u32,
    /// The type of the message and its fields.
    pub body: Body,
}

/// Why bytes are not an acceptable header. A receiver closes all connections to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The message type is none of the known ones.
    #[error("message of unknown type {0}")]
    UnknownType(u32),
    /// An ACK or a GET announces a payload.
    #[error("{} with a payload of {len} bytes", kind.name())]
    UnexpectedPayload {
        /// ACK or GET.
        kind: MessageKind,
        /// What it announces, in bytes.
        len: u32,
    },
    /// The payload is longer than 1 MiB.
    #[error("payload of {0} bytes; 1048576 are allowed")]
    PayloadTooLong(u32),
    /// A long NID is malformed.
    #[error("message header: {0}")]
    BadNid(#[from] NidError),
}

impl Header {
    /// Length of the form with short NIDs, in bytes.
    pub const SHORT_LEN: usize = 72;
    /// Length of the form with long NIDs, in bytes.
    pub const LONG_LEN: usize = 96;

    /// Parses the form with short NIDs.
    ///
    /// # Errors
    /// [`HeaderError`], one variant per reason.
    #[inline]
    pub fn parse_short(raw: &[u8; 72]) -> Result<Header, HeaderError> {
        let dst = Nid::from_short(LE.u64_at(raw, 0));
        let src = Nid::from_short(LE.u64_at(raw, 8));
        Header::parse_rest(dst, src, part(raw, 16))
    }

    /// Parses the form with long NIDs.
    ///
    /// # Errors
    /// [`HeaderError`], one variant per reason.
    #[inline]
    pub fn parse_long(raw: &[u8; 96]) -> Result<Header, HeaderError> {
        let dst = Nid::from_long(&array_at(raw, 0))?;
        let src = Nid::from_long(&array_at(raw, 20))?;
        Header::parse_rest(dst, src, part(raw, 40))
    }

    /// `rest` is the part after the NIDs, which is the same in both forms.
    #[inline]
    fn parse_rest(dst: Nid, src: Nid, rest: &[u8; REST_LEN]) -> Result<Header, HeaderError> {
        let number = LE.u32_at(rest, 8);
        let payload_len = LE.u32_at(rest, 12);
        let body = Body::read(number, part(rest, 16)).ok_or(HeaderError::UnknownType(number))?;
        if payload_len != 0 {
            let kind = body.kind();
            if matches!(kind, MessageKind::Ack | MessageKind::Get) {
                return Err(HeaderError::UnexpectedPayload { kind, len: payload_len });
            }
            if payload_len > PAYLOAD_MAX {
                return Err(HeaderError::PayloadTooLong(payload_len));
            }
        }
        Ok(Header {
            dst: ProcessId { nid: dst, pid: LE.u32_at(rest, 0) },
            src: ProcessId { nid: src, pid: LE.u32_at(rest, 4) },
            payload_len,
            body,
        })
    }

    /// Writes the form with short NIDs.
    ///
    /// # Errors
    /// [`NidTooLong`] if a NID has no short form; `raw` is then unchanged.
    #[inline]
    pub fn encode_short(&self, raw: &mut [u8; 72]) -> Result<(), NidTooLong> {
        let (dst, src) = (self.dst.nid.require_short()?, self.src.nid.require_short()?);
        LE.put_u64(raw, 0, dst);
        LE.put_u64(raw, 8, src);
        self.encode_rest(part_mut(raw, 16));
        Ok(())
    }

    /// Writes the form with long NIDs.
    #[inline]
    pub fn encode_long(&self, raw: &mut [u8; 96]) {
        raw[..20].copy_from_slice(&self.dst.nid.to_long());
        raw[20..40].copy_from_slice(&self.src.nid.to_long());
        self.encode_rest(part_mut(raw, 40));
    }

    #[inline]
    fn encode_rest(&self, rest: &mut [u8; REST_LEN]) {
        LE.put_u32(rest, 0, self.dst.pid);
        LE.put_u32(rest, 4, self.src.pid);
        LE.put_u32(rest, 8, self.body.kind() as u32);
        LE.put_u32(rest, 12, self.payload_len);
        self.body.write(part_mut(rest, 16));
    }
}

/// `N` bytes at `at`, in place. Panics if `bytes` ends before them; here all lengths are fixed.
#[inline]
fn part<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("headers have a fixed length")
}

/// As [`part`], to write to.
#[inline]
fn part_mut<const N: usize>(bytes: &mut [u8], at: usize) -> &mut [u8; N] {
    bytes[at..].first_chunk_mut().expect("headers have a fixed length")
}
