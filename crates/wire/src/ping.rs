//! Ping info: information about a node, in an answer to a ping or in a push [PING-4].

mod build;
#[cfg(test)]
mod tests;

use crate::byte_order::{ByteOrder, array_at};
use crate::nid::Nid;

/// First word of ping info.
pub const MAGIC: u32 = 0x7069_6E67;

/// The most short entries that a reader accepts unless configured otherwise
/// (`lnet_interfaces_max`).
pub const ENTRIES_MAX: u32 = 200;

/// The room that a requester usually offers: a header and 16 short entries.
pub const DEFAULT_BUFFER_LEN: usize = 272;

/// Bytes before the entries.
const HEADER_LEN: usize = 16;
/// Bytes of a short entry.
const SHORT_ENTRY_LEN: usize = 16;
/// Where entry 0 keeps the sequence number.
const SEQUENCE_AT: usize = 24;
/// Where entry 0 keeps the total size.
const SIZE_AT: usize = 28;

bitflags::bitflags! {
    /// The features of the sender of ping info.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Features: u32 {
        /// Never set by kernels.
        const BASE = 1;
        /// Status words are valid; a reader requires it.
        const NI_STATUS = 2;
        /// The node does not route.
        const RTE_DISABLED = 4;
        /// The NIDs belong to one node, and the node accepts pushes.
        const MULTI_RAIL = 8;
        /// Dynamic discovery is on.
        const DISCOVERY = 16;
        /// Long entries are present, and entry 0 holds the total size.
        const LARGE = 32;
        /// The first long entry is the primary NID.
        const PRIMARY_LARGE = 64;
        /// Driver data follow.
        const METADATA = 128;
        /// Bits that later releases may give a meaning are kept.
        const _ = !0;
    }
}

/// State of a network interface as its node announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NiStatus {
    /// In service.
    Up,
    /// Out of service.
    Down,
    /// Anything else; 0 is written for "invalid".
    Other(u32),
}

impl NiStatus {
    /// The word on the wire.
    pub const fn word(self) -> u32 {
        match self {
            NiStatus::Up => 0x15aa_c0de,
            NiStatus::Down => 0xdead_face,
            NiStatus::Other(word) => word,
        }
    }

    /// The meaning of a word on the wire.
    pub const fn from_word(word: u32) -> NiStatus {
        match word {
            0x15aa_c0de => NiStatus::Up,
            0xdead_face => NiStatus::Down,
            other => NiStatus::Other(other),
        }
    }
}

/// One network interface of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingEntry {
    /// Its address.
    pub nid: Nid,
    /// Its state.
    pub status: NiStatus,
}

/// Why bytes are not acceptable ping info.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PingError {
    /// Too short for the part that announces the rest.
    #[error("ping info of {0} bytes: at least 16 are needed")]
    TooShort(usize),
    /// The magic number is wrong.
    #[error("{0:#010x} is not the magic number of ping info")]
    BadMagic(u32),
    /// The feature NI_STATUS is missing.
    #[error("ping info without interface states (features {0:#x})")]
    NoStatus(u32),
    /// No entries; entry 0 is mandatory.
    #[error("ping info without entries")]
    NoEntries,
    /// More short entries than the reader accepts.
    #[error("ping info with {announced} entries; {limit} are allowed")]
    TooManyEntries {
        /// What it announces.
        announced: u32,
        /// What the reader accepts.
        limit: u32,
    },
    /// Entry 0 is not the loopback NID.
    #[error("ping info starts with {0} in place of 0@lo")]
    NotLoopback(Nid),
    /// The total size in entry 0 is impossible: shorter than the short entries, or not a multiple
    /// of 4.
    #[error("ping info announces a total size of {0} bytes")]
    BadSize(u32),
    /// Cut off: the requester offered too little room and should send a request for `announced`
    /// bytes.
    #[error("ping info of {announced} bytes cut off after {have}")]
    Truncated {
        /// Bytes present.
        have: usize,
        /// Total length in bytes.
        announced: usize,
    },
    /// A long entry is malformed or does not fit within the total size.
    #[error("ping info with a malformed entry at byte {at}")]
    BadEntry {
        /// Offset of the entry.
        at: usize,
    },
}

/// Checked view of ping info.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingInfo<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    total: usize,
}

impl<'a> PingInfo<'a> {
    /// The total length that the start of the ping info announces. Without the feature LARGE this
    /// needs 16 bytes, with it 32; given fewer, the result covers the short entries only.
    ///
    /// # Errors
    /// [`PingError::TooShort`], [`PingError::BadMagic`], [`PingError::BadSize`]. Other rules are
    /// not checked here.
    pub fn announced_len(bytes: &[u8]) -> Result<usize, PingError> {
        let order = read_order(bytes)?;
        let count = order.u32_at(bytes, 12);
        // 2^32 entries of 16 bytes: no overflow in 64 bits. `usize` has 64 bits on all supported
        // machines; saturate elsewhere.
        let short = (count as usize).saturating_mul(SHORT_ENTRY_LEN).saturating_add(HEADER_LEN);
        let features = Features::from_bits_retain(order.u32_at(bytes, 4));
        if !features.contains(Features::LARGE) || count == 0 || bytes.len() < SIZE_AT + 4 {
            return Ok(short);
        }
        let size = order.u32_at(bytes, SIZE_AT);
        if (size as usize) < short || !size.is_multiple_of(4) {
            return Err(PingError::BadSize(size));
        }
        Ok(size as usize)
    }

    /// Checks ping info against the rules of a reader [PING-7], with the usual limit of
    /// [`ENTRIES_MAX`] short entries. Bytes after the end are allowed.
    ///
    /// # Errors
    /// [`PingError`], one variant per rule.
    pub fn parse(bytes: &'a [u8]) -> Result<PingInfo<'a>, PingError> {
        PingInfo::parse_limited(bytes, ENTRIES_MAX)
    }

    /// As [`PingInfo::parse`] with another limit on the number of short entries.
    ///
    /// # Errors
    /// [`PingError`], one variant per rule.
    pub fn parse_limited(bytes: &'a [u8], limit: u32) -> Result<PingInfo<'a>, PingError> {
        let order = read_order(bytes)?;
        let features = Features::from_bits_retain(order.u32_at(bytes, 4));
        if !features.contains(Features::NI_STATUS) {
            return Err(PingError::NoStatus(features.bits()));
        }
        let announced = order.u32_at(bytes, 12);
        if announced < 1 {
            return Err(PingError::NoEntries);
        }
        if announced > limit {
            return Err(PingError::TooManyEntries { announced, limit });
        }
        if bytes.len() >= HEADER_LEN + 8 {
            let first = Nid::from_short(order.u64_at(bytes, HEADER_LEN));
            if first != Nid::LO {
                return Err(PingError::NotLoopback(first));
            }
        }
        let total = PingInfo::announced_len(bytes)?;
        if bytes.len() < total {
            return Err(PingError::Truncated { have: bytes.len(), announced: total });
        }
        let info = PingInfo { bytes, order, total };
        let mut at = info.long_start();
        while at < total {
            at += long_entry(order, &bytes[..total], at).ok_or(PingError::BadEntry { at })?.1;
        }
        Ok(info)
    }

    /// Byte order of the sender.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// The features of the sender.
    pub fn features(&self) -> Features {
        Features::from_bits_retain(self.order.u32_at(self.bytes, 4))
    }

    /// The LNet pid of the sender.
    pub fn pid(&self) -> u32 {
        self.order.u32_at(self.bytes, 8)
    }

    /// Grows by one each time the sender's configuration or the state of an interface changes.
    pub fn sequence(&self) -> u32 {
        self.order.u32_at(self.bytes, SEQUENCE_AT)
    }

    /// Length in bytes, without the bytes after the end.
    pub fn total_len(&self) -> usize {
        self.total
    }

    /// The bytes after the end: driver data, or additions of later releases.
    pub fn trailing(&self) -> &'a [u8] {
        &self.bytes[self.total..]
    }

    /// The interfaces of the node: short entries without the loopback entry, then long ones.
    pub fn entries(&self) -> Entries<'a> {
        Entries { info: *self, at: HEADER_LEN + SHORT_ENTRY_LEN }
    }

    /// The NID that stands for the node: the first entry, or with PRIMARY_LARGE the first long one.
    /// `None` if there is no such entry.
    pub fn primary(&self) -> Option<Nid> {
        let at = if self.features().contains(Features::PRIMARY_LARGE) {
            self.long_start()
        } else {
            HEADER_LEN + SHORT_ENTRY_LEN
        };
        Entries { info: *self, at }.next().map(|entry| entry.nid)
    }

    fn long_start(&self) -> usize {
        HEADER_LEN + SHORT_ENTRY_LEN * self.order.u32_at(self.bytes, 12) as usize
    }
}

/// Iterator over the interfaces in ping info.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    info: PingInfo<'a>,
    at: usize,
}

impl Iterator for Entries<'_> {
    type Item = PingEntry;

    fn next(&mut self) -> Option<PingEntry> {
        let PingInfo { bytes, order, total } = self.info;
        if self.at >= total {
            return None;
        }
        if self.at < self.info.long_start() {
            let nid = Nid::from_short(order.u64_at(bytes, self.at));
            let status = NiStatus::from_word(order.u32_at(bytes, self.at + 8));
            self.at += SHORT_ENTRY_LEN;
            return Some(PingEntry { nid, status });
        }
        let (entry, len) = long_entry(order, &bytes[..total], self.at)?;
        self.at += len;
        Some(entry)
    }
}

fn read_order(bytes: &[u8]) -> Result<ByteOrder, PingError> {
    if bytes.len() < HEADER_LEN {
        return Err(PingError::TooShort(bytes.len()));
    }
    let word = array_at(bytes, 0);
    ByteOrder::of_magic(word, MAGIC).ok_or(PingError::BadMagic(u32::from_le_bytes(word)))
}

/// Length of a long entry whose NID uses `used` bytes.
const fn long_entry_len(used: usize) -> usize {
    (4 + used).next_multiple_of(4)
}

/// The long entry at `at`, which must end within `bytes`, and its length.
fn long_entry(order: ByteOrder, bytes: &[u8], at: usize) -> Option<(PingEntry, usize)> {
    let size = usize::from(*bytes.get(at + 4)?);
    let used = size.checked_add(8).filter(|&used| used <= Nid::LONG_LEN)?;
    let mut raw = [0; Nid::LONG_LEN];
    raw[..used].copy_from_slice(bytes.get(at + 4..at + 4 + used)?);
    let len = long_entry_len(used);
    if bytes.len() < at + len {
        return None;
    }
    let nid = Nid::from_long(&raw).ok()?;
    let status = NiStatus::from_word(order.u32_at(bytes, at));
    Some((PingEntry { nid, status }, len))
}
