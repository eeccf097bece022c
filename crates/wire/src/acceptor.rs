//! The connection request: the first bytes on every TCP connection [ACC-1].

#[cfg(test)]
mod tests;

use crate::byte_order::{ByteOrder, array_at};
use crate::nid::{Nid, NidError, NidTooLong};
use crate::{LNET_MAGIC, Progress};

/// First word of a connection request.
pub const MAGIC: u32 = 0xacce_7100;

/// Length of a request of version 1 in bytes.
const V1_LEN: usize = 16;
/// Length of a request of version 2 in bytes.
const V2_LEN: usize = 28;

/// "Connect me to the network interface `target`", sent by the side that dials. It does not wait
/// for an answer: there is none on success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// 1 (short NID) or 2 (long NID).
    pub version: u32,
    /// Byte order of the sender.
    pub order: ByteOrder,
    /// The NID that the dialler believes it is calling.
    pub target: Nid,
}

/// Why a connection request is not acceptable. [`AcceptorError::reaction`] says what to do then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AcceptorError {
    /// The generic magic number of LNet's drivers: the peer queries the version of this acceptor.
    #[error("generic LNet magic in place of a connection request")]
    LnetMagic(ByteOrder),
    /// A connection request of an unknown version.
    #[error("connection request of unknown version {version}")]
    UnknownVersion {
        /// The version that the peer speaks.
        version: u32,
        /// Byte order of the peer.
        order: ByteOrder,
    },
    /// Bytes that are not a connection request.
    #[error("{0:#010x} is not the magic number of a connection request")]
    BadMagic(u32),
    /// The target of a version 2 request is malformed.
    #[error("target of the connection request: {0}")]
    BadTarget(#[from] NidError),
}

/// How the accepting side treats a request that it does not grant [ACC-5] to [ACC-8].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Send [`Answer`], then close.
    Answer,
    /// Close without sending anything.
    CloseSilently,
}

impl AcceptorError {
    /// Whether an answer with this acceptor's version is sent before the connection is closed.
    pub fn reaction(&self) -> Reaction {
        match self {
            AcceptorError::LnetMagic(_) | AcceptorError::UnknownVersion { .. } => Reaction::Answer,
            AcceptorError::BadMagic(_) | AcceptorError::BadTarget(_) => Reaction::CloseSilently,
        }
    }
}

impl Request {
    /// A request in little-endian order, of version 1 wherever the target allows it.
    pub fn new(target: Nid) -> Request {
        let version = if target.to_short().is_some() { 1 } else { 2 };
        Request { version, order: ByteOrder::Little, target }
    }

    /// Parses the request at the start of a stream. A wrong magic number is recognised in the first
    /// four bytes.
    ///
    /// # Errors
    /// [`AcceptorError`], one variant per reason why the request is not acceptable.
    pub fn parse(buf: &[u8]) -> Result<Progress<Request>, AcceptorError> {
        if buf.len() < 4 {
            return Ok(Progress::Need(4));
        }
        let word = array_at(buf, 0);
        let Some(order) = ByteOrder::of_magic(word, MAGIC) else {
            return Err(match ByteOrder::of_magic(word, LNET_MAGIC) {
                Some(order) => AcceptorError::LnetMagic(order),
                None => AcceptorError::BadMagic(u32::from_le_bytes(word)),
            });
        };
        if buf.len() < 8 {
            return Ok(Progress::Need(8));
        }
        let version = order.u32_at(buf, 4);
        let (target, len) = match version {
            1 if buf.len() >= V1_LEN => (Nid::from_short(order.u64_at(buf, 8)), V1_LEN),
            1 => return Ok(Progress::Need(V1_LEN)),
            2 if buf.len() >= V2_LEN => (Nid::from_long(&array_at(buf, 8))?, V2_LEN),
            2 => return Ok(Progress::Need(V2_LEN)),
            _ => return Err(AcceptorError::UnknownVersion { version, order }),
        };
        Ok(Progress::Got(Request { version, order, target }, len))
    }

    /// Appends the request: 16 bytes for version 1, 28 for version 2.
    ///
    /// # Errors
    /// [`NidTooLong`] if the version is 1 and the target has no short form; nothing is appended.
    ///
    /// # Panics
    /// If the version is neither 1 nor 2: [`Request::new`] and [`Request::parse`] give no other.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), NidTooLong> {
        assert!(matches!(self.version, 1 | 2), "connection requests have versions 1 and 2");
        if self.version == 1 {
            let short = self.target.require_short()?;
            self.encode_start(out);
            out.extend_from_slice(&self.order.u64_bytes(short));
        } else {
            self.encode_start(out);
            out.extend_from_slice(&self.target.to_long());
        }
        Ok(())
    }

    fn encode_start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.order.u32_bytes(MAGIC));
        out.extend_from_slice(&self.order.u32_bytes(self.version));
    }
}

/// The answer to a peer that does not use a known version of the request: 16 bytes with the version
/// of this acceptor, which then closes the connection. A valid request gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Byte order of the acceptor.
    pub order: ByteOrder,
    /// The version that the acceptor offers; 1.
    pub version: u32,
    /// Raw short NID; 0.
    pub nid: u64,
}

impl Answer {
    /// Length of the answer in bytes.
    pub const LEN: usize = 16;
    /// The answer that every acceptor gives, in little-endian order.
    pub const OURS: Answer = Answer { order: ByteOrder::Little, version: 1, nid: 0 };

    /// Parses the answer of an acceptor that refused a request.
    ///
    /// # Errors
    /// [`AcceptorError::BadMagic`] if it does not start with the acceptor's magic number.
    pub fn parse(buf: &[u8]) -> Result<Progress<Answer>, AcceptorError> {
        if buf.len() < 4 {
            return Ok(Progress::Need(4));
        }
        let word = array_at(buf, 0);
        let order = ByteOrder::of_magic(word, MAGIC)
            .ok_or(AcceptorError::BadMagic(u32::from_le_bytes(word)))?;
        if buf.len() < Answer::LEN {
            return Ok(Progress::Need(Answer::LEN));
        }
        let answer = Answer { order, version: order.u32_at(buf, 4), nid: order.u64_at(buf, 8) };
        Ok(Progress::Got(answer, Answer::LEN))
    }

    /// Appends the 16 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.order.u32_bytes(MAGIC));
        out.extend_from_slice(&self.order.u32_bytes(self.version));
        out.extend_from_slice(&self.order.u64_bytes(self.nid));
    }
}
