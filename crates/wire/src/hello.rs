//! HELLO: how the two ends of a TCP connection introduce themselves [HEL-1].
//!
//! ```
//! use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
//! use lustrine_wire::{ByteOrder, ProcessId, Progress};
//!
//! let hello = Hello {
//!     version: Version::V3,
//!     order: ByteOrder::Little,
//!     src: ProcessId::lustre("10.0.0.1@tcp".parse().unwrap()),
//!     dst: ProcessId::lustre("10.0.0.2@tcp".parse().unwrap()),
//!     src_incarnation: 7,
//!     dst_incarnation: 0,
//!     kind: ConnType::Control,
//!     ips: Ips::NONE,
//! };
//! let mut bytes = Vec::new();
//! hello.encode(&mut bytes).unwrap();
//! // The error of an incomplete HELLO contains the number of bytes needed next.
//! assert_eq!(Hello::parse(&bytes[..4]), Ok(Progress::Need(8)));
//! assert_eq!(Hello::parse(&bytes), Ok(Progress::Got(hello, bytes.len())));
//! ```

#[cfg(test)]
mod tests;
mod v1;

use crate::byte_order::{ByteOrder, array_at};
use crate::nid::{Nid, NidError, NidTooLong, ProcessId};
use crate::{LNET_MAGIC, Progress, TCP_MAGIC};

/// The most IP addresses that a HELLO may list.
pub const IPS_MAX: usize = 16;

/// Bytes of a HELLO V2 or V3 before its list of IP addresses.
const SHORT_LEN: usize = 56;
/// Bytes of a HELLO V4.
const LONG_LEN: usize = 80;

/// A version of the protocol that the TCP driver speaks on a connection [FRM-1].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// LNet headers without frame headers; no zero-copy, no keepalive.
    V1,
    /// Frame headers, with checksums if the sender wants them.
    V2,
    /// As V2, with keepalives and merged zero-copy acknowledgements; the normal one.
    V3,
    /// As V3 with long NIDs.
    V4,
}

impl Version {
    /// The number as it stands in HELLO.
    pub const fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
            Version::V3 => 3,
            Version::V4 => 4,
        }
    }

    /// Length of the LNet header of every message: 72, or 96 bytes from V4 on.
    pub const fn header_len(self) -> usize {
        match self {
            Version::V1 | Version::V2 | Version::V3 => crate::Header::SHORT_LEN,
            Version::V4 => crate::Header::LONG_LEN,
        }
    }

    /// Length of the frame header before every message: 24 bytes, none in V1.
    pub const fn frame_len(self) -> usize {
        match self {
            Version::V1 => 0,
            Version::V2 | Version::V3 | Version::V4 => crate::frame::FrameHeader::LEN,
        }
    }
}

/// The purpose of a connection, as the sender of the HELLO sees it [HEL-8].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ConnType {
    /// All messages, both ways.
    Any = 0,
    /// Small messages, both ways.
    Control = 1,
    /// Large messages towards the sender of the HELLO.
    BulkIn = 2,
    /// Large messages away from the sender of the HELLO.
    BulkOut = 3,
    /// Not a connection: "not now, try again", or an answer to an unknown version.
    None = 0xffff_ffff,
}

impl ConnType {
    /// The same connection seen from the other end.
    pub const fn inverse(self) -> ConnType {
        match self {
            ConnType::BulkIn => ConnType::BulkOut,
            ConnType::BulkOut => ConnType::BulkIn,
            other => other,
        }
    }

    /// The type with this number on the wire.
    pub const fn from_number(number: u32) -> Option<ConnType> {
        match number {
            0 => Some(ConnType::Any),
            1 => Some(ConnType::Control),
            2 => Some(ConnType::BulkIn),
            3 => Some(ConnType::BulkOut),
            0xffff_ffff => Some(ConnType::None),
            _ => None,
        }
    }

    /// The number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// The IP addresses listed in a HELLO: at most 16, none of them zero. Kernels send none, and
/// receivers ignore them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ips {
    count: u8,
    ips: [u32; IPS_MAX],
}

impl Ips {
    /// An empty list.
    pub const NONE: Ips = Ips { count: 0, ips: [0; IPS_MAX] };

    /// Adds an IPv4 address as a number.
    ///
    /// # Errors
    /// [`HelloError::ZeroIp`], or [`HelloError::TooManyIps`] if 16 are listed already.
    pub fn push(&mut self, ip: u32) -> Result<(), HelloError> {
        if ip == 0 {
            return Err(HelloError::ZeroIp);
        }
        let slot = self
            .ips
            .get_mut(usize::from(self.count))
            .ok_or(HelloError::TooManyIps(u32::from(self.count) + 1))?;
        *slot = ip;
        self.count += 1;
        Ok(())
    }

    /// The addresses as numbers.
    pub fn as_slice(&self) -> &[u32] {
        &self.ips[..usize::from(self.count)]
    }

    /// Reads `count` addresses at `at`; the caller has checked that the bytes exist.
    fn read(order: ByteOrder, buf: &[u8], at: usize, count: usize) -> Result<Ips, HelloError> {
        let mut ips = Ips::NONE;
        for i in 0..count {
            ips.push(order.u32_at(buf, at + 4 * i))?;
        }
        Ok(ips)
    }
}

/// One end's introduction.
///
/// In a HELLO V1 there is no room for the destination's NID and incarnation: they read as
/// [`Nid::ANY`] and 0 and are not written. V4 lists no IP addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Protocol version.
    pub version: Version,
    /// Byte order of the sender; of V1, always little.
    pub order: ByteOrder,
    /// The sender. It is trusted only from source ports up to 1023 [HEL-10].
    pub src: ProcessId,
    /// The receiver; kernels send pid 0 and ignore the field.
    pub dst: ProcessId,
    /// Distinguishes one run of the sender from the next.
    pub src_incarnation: u64,
    /// The receiver's incarnation as the sender knows it; kernels send 0.
    pub dst_incarnation: u64,
    /// What the sender wants to use the connection for.
    pub kind: ConnType,
    /// IP addresses of the sender; receivers ignore them.
    pub ips: Ips,
}

/// Why bytes are not an acceptable HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Not a HELLO: close silently.
    #[error("{0:#010x} is not the magic number of a HELLO")]
    BadMagic(u32),
    /// A HELLO of an unknown version: the passive side answers with its own highest version and
    /// type NONE, then closes [HEL-6].
    #[error("HELLO of unknown version {raw}")]
    UnknownVersion {
        /// The version that the peer speaks. From a V1-style HELLO: major << 16 | minor.
        raw: u32,
        /// Byte order of the peer.
        order: ByteOrder,
    },
    /// The connection type is none of the known ones.
    #[error("HELLO with unknown connection type {raw}")]
    UnknownKind {
        /// The number found.
        raw: u32,
    },
    /// More than 16 IP addresses announced.
    #[error("HELLO with {0} IP addresses; 16 are allowed")]
    TooManyIps(u32),
    /// An IP address is zero.
    #[error("HELLO lists the IP address 0")]
    ZeroIp,
    /// A long NID is malformed.
    #[error("HELLO: {0}")]
    BadNid(#[from] NidError),
    /// The header that carries a HELLO V1 is of another message type.
    #[error("message of type {0} in place of HELLO V1")]
    NotHello(u32),
    /// The payload of a HELLO V1 is not a list of 4-byte IP addresses.
    #[error("HELLO V1 with a payload of {0} bytes, not a multiple of 4")]
    BadPayload(u32),
}

impl Hello {
    /// Parses the HELLO at the start of a stream. A wrong magic number is recognised in the first
    /// four bytes, an unknown version in the first eight.
    ///
    /// In a reversed V2 or V3 the short NIDs are swapped like every other number, as releases up to
    /// 2.14 do; later kernels do not swap them and so misread them [HEL-4].
    ///
    /// # Errors
    /// [`HelloError`], one variant per reason.
    pub fn parse(buf: &[u8]) -> Result<Progress<Hello>, HelloError> {
        if buf.len() < 4 {
            return Ok(Progress::Need(4));
        }
        let word = array_at(buf, 0);
        if u32::from_le_bytes(word) == TCP_MAGIC {
            return v1::parse(buf);
        }
        let order = ByteOrder::of_magic(word, LNET_MAGIC)
            .ok_or(HelloError::BadMagic(u32::from_le_bytes(word)))?;
        if buf.len() < 8 {
            return Ok(Progress::Need(8));
        }
        match order.u32_at(buf, 4) {
            2 => Hello::parse_short(buf, order, Version::V2),
            3 => Hello::parse_short(buf, order, Version::V3),
            4 => Hello::parse_long(buf, order),
            raw => Err(HelloError::UnknownVersion { raw, order }),
        }
    }

    fn parse_short(
        buf: &[u8],
        order: ByteOrder,
        version: Version,
    ) -> Result<Progress<Hello>, HelloError> {
        if buf.len() < SHORT_LEN {
            return Ok(Progress::Need(SHORT_LEN));
        }
        let kind = read_kind(order.u32_at(buf, 48))?;
        let count = order.u32_at(buf, 52);
        if count as usize > IPS_MAX {
            return Err(HelloError::TooManyIps(count));
        }
        let len = SHORT_LEN + 4 * count as usize;
        if buf.len() < len {
            return Ok(Progress::Need(len));
        }
        let hello = Hello {
            version,
            order,
            src: ProcessId {
                nid: Nid::from_short(order.u64_at(buf, 8)),
                pid: order.u32_at(buf, 24),
            },
            dst: ProcessId {
                nid: Nid::from_short(order.u64_at(buf, 16)),
                pid: order.u32_at(buf, 28),
            },
            src_incarnation: order.u64_at(buf, 32),
            dst_incarnation: order.u64_at(buf, 40),
            kind,
            ips: Ips::read(order, buf, SHORT_LEN, count as usize)?,
        };
        Ok(Progress::Got(hello, len))
    }

    fn parse_long(buf: &[u8], order: ByteOrder) -> Result<Progress<Hello>, HelloError> {
        if buf.len() < LONG_LEN {
            return Ok(Progress::Need(LONG_LEN));
        }
        let hello = Hello {
            version: Version::V4,
            order,
            src: ProcessId { nid: Nid::from_long(&array_at(buf, 8))?, pid: order.u32_at(buf, 48) },
            dst: ProcessId { nid: Nid::from_long(&array_at(buf, 28))?, pid: order.u32_at(buf, 52) },
            src_incarnation: order.u64_at(buf, 56),
            dst_incarnation: order.u64_at(buf, 64),
            kind: read_kind(order.u32_at(buf, 72))?,
            ips: Ips::NONE,
        };
        Ok(Progress::Got(hello, LONG_LEN))
    }

    /// Appends the HELLO in its version and order.
    ///
    /// # Errors
    /// [`NidTooLong`] if the version has short NIDs and one of the NIDs has no short form; nothing
    /// is appended then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), NidTooLong> {
        match self.version {
            Version::V1 => v1::encode(self, out),
            Version::V2 | Version::V3 => self.encode_short(out),
            Version::V4 => {
                self.encode_long(out);
                Ok(())
            }
        }
    }

    fn encode_short(&self, out: &mut Vec<u8>) -> Result<(), NidTooLong> {
        let order = self.order;
        let (src, dst) = (self.src.nid.require_short()?, self.dst.nid.require_short()?);
        out.extend_from_slice(&order.u32_bytes(LNET_MAGIC));
        out.extend_from_slice(&order.u32_bytes(self.version.number()));
        out.extend_from_slice(&order.u64_bytes(src));
        out.extend_from_slice(&order.u64_bytes(dst));
        self.encode_common(out);
        let ips = self.ips.as_slice();
        out.extend_from_slice(&order.u32_bytes(ips.len() as u32));
        for &ip in ips {
            out.extend_from_slice(&order.u32_bytes(ip));
        }
        Ok(())
    }

    fn encode_long(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.order.u32_bytes(LNET_MAGIC));
        out.extend_from_slice(&self.order.u32_bytes(self.version.number()));
        out.extend_from_slice(&self.src.nid.to_long());
        out.extend_from_slice(&self.dst.nid.to_long());
        self.encode_common(out);
        out.extend_from_slice(&self.order.u32_bytes(0));
    }

    /// Pids, incarnations and type, which follow the NIDs in the same order in V2 to V4.
    fn encode_common(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.order.u32_bytes(self.src.pid));
        out.extend_from_slice(&self.order.u32_bytes(self.dst.pid));
        out.extend_from_slice(&self.order.u64_bytes(self.src_incarnation));
        out.extend_from_slice(&self.order.u64_bytes(self.dst_incarnation));
        out.extend_from_slice(&self.order.u32_bytes(self.kind.number()));
    }
}

fn read_kind(raw: u32) -> Result<ConnType, HelloError> {
    ConnType::from_number(raw).ok_or(HelloError::UnknownKind { raw })
}
