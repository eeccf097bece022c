//! The 24 bytes before every message of protocol versions 2 to 4 [FRM-2].

#[cfg(test)]
mod tests;

use crate::byte_order::ByteOrder;
use crate::crc;

/// What follows the frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FrameKind {
    /// Nothing: the frame header itself is the message (acknowledgement of zero-copy, keepalive).
    Noop = 0xC0,
    /// An LNet header and its payload.
    Lnet = 0xC1,
}

/// The cookie that marks a NOOP as keepalive.
pub const KEEPALIVE_COOKIE: u64 = 1;

/// The lowest cookie that asks for a zero-copy acknowledgement; 0 and 1 have other meanings.
pub const FIRST_ZC_COOKIE: u64 = 2;

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The type of the frame.
    pub kind: FrameKind,
    /// Checksum, or 0 for none; only V2 uses it.
    pub csum: u32,
    /// Cookie A. In an LNET frame: non-zero asks for an acknowledgement. In a NOOP: one end of a
    /// range of acknowledged cookies.
    pub zc_request: u64,
    /// Cookie B: the acknowledged cookie, or 0.
    pub zc_ack: u64,
}

/// Why 24 bytes are not an acceptable frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Neither NOOP nor LNET.
    #[error("frame of unknown type {0:#x}")]
    UnknownKind(u32),
    /// A keepalive with a value in the field that a keepalive leaves 0.
    #[error("keepalive with {0} as cookie A")]
    BadKeepalive(u64),
}

/// Which zero-copy requests a frame acknowledges [FRM-11].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZcAck {
    /// No request is acknowledged.
    Nothing,
    /// No request is acknowledged; the peer shows that it is alive.
    Keepalive,
    /// One request, by its cookie.
    One(u64),
    /// Two, in the order of the fields A and B; A is the larger.
    Pair(u64, u64),
    /// All from the first to the second, both included. A sender may name a huge range: test the
    /// pending cookies against it instead of iterating over it.
    Range(u64, u64),
}

impl ZcAck {
    /// How many requests are acknowledged, at most `u64::MAX`.
    pub const fn count(self) -> u64 {
        match self {
            ZcAck::Nothing | ZcAck::Keepalive => 0,
            ZcAck::One(_) => 1,
            ZcAck::Pair(..) => 2,
            ZcAck::Range(low, high) => (high - low).saturating_add(1),
        }
    }

    /// Whether `cookie` is acknowledged.
    pub const fn covers(self, cookie: u64) -> bool {
        match self {
            ZcAck::Nothing | ZcAck::Keepalive => false,
            ZcAck::One(one) => cookie == one,
            ZcAck::Pair(a, b) => cookie == a || cookie == b,
            ZcAck::Range(low, high) => low <= cookie && cookie <= high,
        }
    }
}

impl FrameHeader {
    /// Length in bytes.
    pub const LEN: usize = 24;

    /// The header of an ordinary message: no checksum, no cookies.
    pub const LNET: FrameHeader =
        FrameHeader { kind: FrameKind::Lnet, csum: 0, zc_request: 0, zc_ack: 0 };

    /// The keepalive of V3 and V4.
    pub const KEEPALIVE: FrameHeader = FrameHeader::noop(KEEPALIVE_COOKIE);

    /// A NOOP that acknowledges one cookie.
    pub const fn noop(zc_ack: u64) -> FrameHeader {
        FrameHeader { kind: FrameKind::Noop, csum: 0, zc_request: 0, zc_ack }
    }

    /// Parses a frame header.
    ///
    /// # Errors
    /// [`FrameError::UnknownKind`]: the receiver closes the connection.
    #[inline]
    pub fn parse(raw: &[u8; 24], order: ByteOrder) -> Result<FrameHeader, FrameError> {
        let kind = match order.u32_at(raw, 0) {
            0xC0 => FrameKind::Noop,
            0xC1 => FrameKind::Lnet,
            other => return Err(FrameError::UnknownKind(other)),
        };
        Ok(FrameHeader {
            kind,
            csum: order.u32_at(raw, 4),
            zc_request: order.u64_at(raw, 8),
            zc_ack: order.u64_at(raw, 16),
        })
    }

    /// The 24 bytes.
    #[inline]
    pub fn encode(&self, order: ByteOrder) -> [u8; 24] {
        let mut raw = [0; 24];
        order.put_u32(&mut raw, 0, self.kind as u32);
        order.put_u32(&mut raw, 4, self.csum);
        order.put_u64(&mut raw, 8, self.zc_request);
        order.put_u64(&mut raw, 16, self.zc_ack);
        raw
    }

    /// What this frame acknowledges. In an LNET frame only cookie B acknowledges; cookie A is then
    /// an independent request.
    ///
    /// # Errors
    /// [`FrameError::BadKeepalive`] for a NOOP whose cookie B is 1 and whose cookie A is neither 0
    /// nor 1.
    #[inline]
    pub fn acknowledged(&self) -> Result<ZcAck, FrameError> {
        let (a, b) = match self.kind {
            FrameKind::Lnet => (0, self.zc_ack),
            FrameKind::Noop => (self.zc_request, self.zc_ack),
        };
        match (a, b) {
            (_, 0) => Ok(ZcAck::Nothing),
            (0 | 1, KEEPALIVE_COOKIE) if self.kind == FrameKind::Noop => Ok(ZcAck::Keepalive),
            (_, KEEPALIVE_COOKIE) if self.kind == FrameKind::Noop => {
                Err(FrameError::BadKeepalive(a))
            }
            (0, b) => Ok(ZcAck::One(b)),
            (a, b) if a > b => Ok(ZcAck::Pair(a, b)),
            (a, b) => Ok(ZcAck::Range(a, b)),
        }
    }

    /// The checksum of this frame header with its checksum field taken as 0; continue it over the
    /// LNet header and the payload with [`crc::update`].
    pub fn csum_start(&self, order: ByteOrder) -> u32 {
        crc::update(crc::INIT, &FrameHeader { csum: 0, ..*self }.encode(order))
    }
}
