//! Converts bytes to values and back, for every message that Lustre's network puts on the wire.
//!
//! Every parser here is total: for any bytes, the result is a value or a named error, never a
//! panic. Nothing allocates except where the caller passes a `Vec` to append to, and the two text
//! notations for sets of NIDs ([`nid_range`], [`text_range`]), which belong to configuration.
//!
//! The protocol itself is described, rule by rule, in `docs/protocol/`; tests cite rules by number,
//! such as `[HDR-3]`.
#![forbid(unsafe_code)]

pub mod acceptor;
pub mod byte_order;
pub mod crc;
pub mod frame;
#[cfg(test)]
mod golden;
pub mod header;
pub mod hello;
pub mod nid;
pub mod nid_range;
pub mod ping;
pub mod srpc;
pub mod text_range;

pub use byte_order::ByteOrder;
pub use header::Header;
pub use nid::{Net, NetKind, Nid, PID_ANY, PID_LUSTRE, PID_USERLAND, ProcessId};

/// The first word of HELLO V2 to V4: the magic number common to all LNet drivers [HEL-1].
pub const LNET_MAGIC: u32 = 0x4572_6963;

/// The first word of HELLO V1: the magic number of the TCP driver [HEL-3].
pub const TCP_MAGIC: u32 = 0xeebc_0ded;

/// The match bits of a ping (GET) and of a push (PUT), both on portal 0 [PING-1].
pub const PING_MATCH_BITS: u64 = 0x8000_0000_0000_0000;

/// LNet's own portal: ping and push [HDR-8].
pub const PING_PORTAL: u32 = 0;

/// The result of parsing the first message of a byte stream that may not have arrived completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<T> {
    /// The message is not complete. The number is how many bytes, counted from the start of the
    /// buffer, the parser needs to continue; it is larger than the buffer. The parser may need more
    /// after that.
    Need(usize),
    /// The message, and the number of bytes that it took up at the start of the buffer.
    Got(T, usize),
}
