//! How messages look on one connection: what its HELLO settled [FRM-1], [FRM-4].

use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::hello::Version;

/// Agreed at the end of the handshake, constant afterwards.
///
/// Byte order is a property of the connection. We dial little-endian, always. When a big-endian
/// node dials us, we answer and frame in *its* order, as if we were big-endian too: kernels from
/// 2.15 on misread the NIDs of a HELLO in the other order ([HEL-4], captures `r_be*`), and this
/// way they never meet one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) version: Version,
    /// Byte order of frame headers we send.
    pub(crate) sent: ByteOrder,
    /// Byte order of frame headers we receive.
    pub(crate) received: ByteOrder,
    /// Whether our frames carry checksums: V2 with `enable_csum` [FRM-8], [FRM-9].
    pub(crate) csum: bool,
}

/// Longest frame and LNet header together.
pub(crate) const HEAD_MAX: usize = 24 + 96;

impl Format {
    /// Bytes before the payload of a message.
    pub(crate) fn head_len(&self) -> usize {
        self.version.frame_len() + self.version.header_len()
    }

    /// Whether messages have frame headers, and so cookies and NOOPs.
    pub(crate) fn framed(&self) -> bool {
        self.version >= Version::V2
    }
}
