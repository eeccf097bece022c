//! Kinds of RPC that have the same latency when nothing queues.

/// Bytes that an RPC counts for beyond its payload: its messages, and the work that each makes.
pub const OVERHEAD: u64 = 4096;

/// Kinds that are distinguished.
const KINDS: usize = 4;
/// Sizes that are distinguished: powers of two up to 2^27 bytes, so that there are 112 classes.
const SIZES: usize = 28;

/// What an RPC is, as far as its latency goes: its kind, and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    index: u8,
    weight: u64,
}

impl Class {
    /// An RPC of a kind (such as ping, read, write: the user's own numbers; those above 3 are taken
    /// modulo 4) with a payload of `len` bytes.
    pub fn new(kind: u8, len: u64) -> Class {
        let size = (u64::BITS - len.leading_zeros()).min(SIZES as u32 - 1) as usize;
        let index = usize::from(kind) % KINDS * SIZES + size;
        Class { index: index as u8, weight: len.saturating_add(OVERHEAD) }
    }

    /// The bytes it counts for.
    pub fn weight(self) -> u64 {
        self.weight
    }

    pub(crate) fn index(self) -> u8 {
        self.index
    }
}
