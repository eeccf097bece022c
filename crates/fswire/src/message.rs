//! The framing of messages: a header, and up to 32 buffers [RPC-5].

mod build;
#[cfg(test)]
mod tests;

use crate::body::{MessageType, PtlrpcBody};
use crate::codec::{Reader, Wire, Writer};
use crate::describe::{Describe, Fields};

pub use build::MessageBuilder;

/// The magic number of a message in little-endian order.
pub const MAGIC: u32 = 0x0bd0_0bd3;
/// The most buffers of a message.
pub const BUFFERS_MAX: usize = 32;
/// Length of the header without the lengths of the buffers.
pub const HEADER_LEN: usize = 32;
/// Length of a message of one buffer with a whole body: the reply to most failed requests, and
/// the room for early replies in front of a reply [RPC-14].
pub const BARE_LEN: usize = HEADER_LEN + 8 + PtlrpcBody::SIZE;

wire_flags! {
    /// Flags of the header [RPC-5].
    pub struct HeaderFlags: u32 {
        /// Request: the reply is to be put behind the room for early replies.
        AT_SUPPORT = 0x1;
        /// Request: set by clients once they are connected; no meaning.
        CKSUM_INCOMPAT18 = 0x2;
    }
}

wire_enum! {
    /// Who sends a message: the highest byte of the security flavor [RPC-5].
    pub struct SenderRole: u8 {
        /// A client of metadata and objects; also every reply and callback.
        CLIENT = 0, "client";
        /// A metadata server.
        MDT = 1, "mdt";
        /// An object server.
        OST = 2, "ost";
        /// A client of the management server.
        MGC = 3, "mgc";
        /// The management server.
        MGS = 4, "mgs";
        /// Any.
        ANY = 0xff, "any";
    }
}

wire_struct! {
    /// The words of the header that a sender chooses.
    pub struct RawHeader [32] {
        /// The number of buffers.
        count: u32;
        /// The security flavor in bits 0 to 19, the sender's role in bits 24 to 31.
        secflvr: u32 => hex;
        /// [`MAGIC`].
        magic: u32 => hex;
        /// Request: the size of the reply that the client expects, without room for early
        /// replies; no limit. Reply: 0.
        repsize: u32;
        /// Early reply: checksum of the body; else 0.
        cksum: u32 => hex;
        /// Flags.
        flags: HeaderFlags;
        /// Within a batch: the opcode of the sub-request, or the result of a sub-reply; else 0.
        opc: u32, pad 4;
    }
}

/// The words of the header that a sender chooses; see [`RawHeader`] for their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The security flavor in bits 0 to 19, the sender's role in bits 24 to 31.
    pub secflvr: u32,
    /// Request: the size of the reply that the client expects in bytes. Reply: 0.
    pub repsize: u32,
    /// Early reply: checksum of the body; else 0.
    pub cksum: u32,
    /// Flags.
    pub flags: HeaderFlags,
    /// Within a batch: the opcode of the sub-request, or the result of a sub-reply; else 0.
    pub opc: u32,
}

impl Header {
    /// The flavor without security, for a sender of this role.
    pub const fn null_flavor(role: SenderRole) -> u32 {
        (role.0 as u32) << 24
    }

    /// The flavor without the role.
    pub const fn flavor(&self) -> u32 {
        self.secflvr & 0xf_ffff
    }

    /// The role of the sender.
    pub const fn role(&self) -> SenderRole {
        SenderRole((self.secflvr >> 24) as u8)
    }
}

/// Why bytes are not a message. A receiver drops such a request in silence [RPC-5].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Shorter than a header.
    #[error("a message of {0} bytes: a header has 32")]
    TooShort(usize),
    /// The sender has the other byte order, which this node does not read.
    #[error("a message in big-endian order")]
    OtherByteOrder,
    /// The magic number is wrong.
    #[error("{0:#010x} is not the magic number of a message")]
    BadMagic(u32),
    /// The number of buffers is 0 or above 32.
    #[error("a message of {0} buffers: 1 to 32 are allowed")]
    BadCount(u32),
    /// A buffer ends behind the message.
    #[error("buffer {index} of {len} bytes ends behind the message")]
    BufferTooLong {
        /// Its number.
        index: usize,
        /// Its length.
        len: u32,
    },
    /// The security flavor is not "null", the only one known.
    #[error("unknown security flavor {0:#x}")]
    UnknownFlavor(u32),
    /// The first buffer is too short for a body.
    #[error("a body of {0} bytes: 152 are needed")]
    BodyTooShort(usize),
    /// The low half of the version word is not 3.
    #[error("version word {0:#x} does not end in 3")]
    BadVersion(u32),
    /// The type is wrong: a reply where a request must be, or the other way round.
    #[error("a message of type {0} where one of another type must be")]
    BadType(MessageType),
    /// A request whose client waits for 0 seconds.
    #[error("a request with time-out 0")]
    NoTimeout,
}

/// A message whose framing was checked: a view of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    bytes: &'a [u8],
    header: Header,
    count: usize,
}

/// The buffers of a message one after another, without padding: [`Message::buffers`].
#[derive(Clone, Debug)]
pub struct Buffers<'a> {
    message: Message<'a>,
    /// The next one, and where it starts.
    index: usize,
    start: usize,
}

impl<'a> Iterator for Buffers<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let len = self.message.buffer_len(self.index)?;
        let buffer = self.message.bytes.get(self.start..self.start + len)?;
        self.index += 1;
        self.start += len.next_multiple_of(8);
        Some(buffer)
    }
}

impl<'a> Message<'a> {
    /// Checks the framing: magic number, number of buffers, and that each lies within the bytes.
    /// Bytes behind the message are left out; messages within a batch follow each other so.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, MessageError> {
        let raw = RawHeader::parse(bytes).map_err(|_| MessageError::TooShort(bytes.len()))?;
        if raw.magic == MAGIC.swap_bytes() {
            return Err(MessageError::OtherByteOrder);
        }
        if raw.magic != MAGIC {
            return Err(MessageError::BadMagic(raw.magic));
        }
        let count = raw.count as usize;
        if !(1..=BUFFERS_MAX).contains(&count) {
            return Err(MessageError::BadCount(raw.count));
        }
        let mut lens = Reader::new(&bytes[HEADER_LEN..]);
        let mut end = header_len(count);
        if bytes.len() < end {
            return Err(MessageError::TooShort(bytes.len()));
        }
        for index in 0..count {
            let len = lens.value::<u32>().map_err(|_| MessageError::TooShort(bytes.len()))?;
            // At most 32 x 4 GiB: no overflow.
            end += (len as usize).next_multiple_of(8);
            if end > bytes.len() {
                return Err(MessageError::BufferTooLong { index, len });
            }
        }
        let header = Header {
            secflvr: raw.secflvr,
            repsize: raw.repsize,
            cksum: raw.cksum,
            flags: raw.flags,
            opc: raw.opc,
        };
        Ok(Message { bytes: &bytes[..end], header, count })
    }

    /// Checks the framing and what every request must have: a body, version, type, time-out.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse_request(bytes: &'a [u8]) -> Result<(Message<'a>, PtlrpcBody), MessageError> {
        let (message, body) = Message::parse_with_body(bytes)?;
        if body.kind != MessageType::REQUEST {
            return Err(MessageError::BadType(body.kind));
        }
        if body.timeout == 0 {
            return Err(MessageError::NoTimeout);
        }
        Ok((message, body))
    }

    /// Checks the framing and what every reply must have. A client fails the RPC with EPROTO if
    /// this does.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse_reply(bytes: &'a [u8]) -> Result<(Message<'a>, PtlrpcBody), MessageError> {
        let (message, body) = Message::parse_with_body(bytes)?;
        match body.kind {
            MessageType::REPLY | MessageType::ERROR => Ok((message, body)),
            other => Err(MessageError::BadType(other)),
        }
    }

    /// Checks the framing and what requests and replies have in common.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn parse_with_body(bytes: &'a [u8]) -> Result<(Message<'a>, PtlrpcBody), MessageError> {
        let message = Message::parse(bytes)?;
        if message.header.flavor() != 0 {
            return Err(MessageError::UnknownFlavor(message.header.flavor()));
        }
        let first = message.buffer(0).unwrap_or_default();
        let body =
            PtlrpcBody::parse_any(first).map_err(|_| MessageError::BodyTooShort(first.len()))?;
        if !body.version_is_known() {
            return Err(MessageError::BadVersion(body.version));
        }
        Ok((message, body))
    }

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The number of buffers, 1 to 32.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// All bytes of the message, with the padding of the last buffer.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The length of buffer `index` in bytes; none if there is no such buffer.
    pub fn buffer_len(&self, index: usize) -> Option<usize> {
        if index >= self.count {
            return None;
        }
        let raw = self.bytes.get(HEADER_LEN + 4 * index..)?.first_chunk()?;
        Some(u32::from_le_bytes(*raw) as usize)
    }

    /// Buffer `index` without padding; none if there is no such buffer.
    pub fn buffer(&self, index: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.buffer_range(index)?)
    }

    /// Where buffer `index` is in the message, without padding; none if there is no such buffer.
    pub fn buffer_range(&self, index: usize) -> Option<core::ops::Range<usize>> {
        let len = self.buffer_len(index)?;
        let before = (0..index).filter_map(|other| self.buffer_len(other));
        let start: usize = before.map(|len| len.next_multiple_of(8)).sum();
        let start = header_len(self.count) + start;
        Some(start..start + len)
    }

    /// All buffers in order.
    pub fn buffers(&self) -> Buffers<'a> {
        Buffers { message: *self, index: 0, start: header_len(self.count) }
    }

    /// The checksum of an early reply: whether the one in the header is that of the body
    /// [RPC-16]. A client ignores an early reply for which this is false.
    pub fn early_reply_is_intact(&self) -> bool {
        let body = self.buffer(0).unwrap_or_default();
        crate::body::early_reply_checksum(body) == self.header.cksum
    }

    /// The fields of the header by name.
    pub fn header_fields(&self) -> Fields {
        vec![
            ("role", self.header.role().describe()),
            ("flavor", self.header.flavor().describe().hex()),
            ("repsize", self.header.repsize.describe()),
            ("cksum", self.header.cksum.describe().hex()),
            ("flags", self.header.flags.describe()),
            ("opc", self.header.opc.describe()),
        ]
    }
}

/// The length of the header with the lengths of `count` buffers.
pub const fn header_len(count: usize) -> usize {
    (HEADER_LEN + 4 * count).next_multiple_of(8)
}

/// The length of a message with buffers of these lengths.
pub fn message_len(lens: impl IntoIterator<Item = usize>) -> usize {
    let (mut count, mut total) = (0, 0);
    for len in lens {
        count += 1;
        total += len.next_multiple_of(8);
    }
    header_len(count) + total
}

/// Writes the header of a message whose lengths of buffers follow.
fn write_header(header: &Header, count: usize, out: &mut Vec<u8>) {
    let raw = RawHeader {
        count: count as u32,
        secflvr: header.secflvr,
        magic: MAGIC,
        repsize: header.repsize,
        cksum: header.cksum,
        flags: header.flags,
        opc: header.opc,
    };
    raw.write(&mut Writer::new(out));
}
