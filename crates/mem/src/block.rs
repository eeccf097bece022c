//! Identifies a piece of memory.

/// `len` bytes at `offset` in region `region` of one [`Arena`](crate::Arena).
///
/// A block is a plain value: copying it copies no bytes and owns nothing. It is valid until it is
/// passed to [`Arena::free`](crate::Arena::free) or [`Arena::take`](crate::Arena::take); a stale
/// one can reach bytes that now belong to another owner in the same arena, or are lent to it, but
/// never anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    /// Index of the region inside its arena.
    pub region: u32,
    /// First byte, counted from the start of the region.
    pub offset: u32,
    /// Length in bytes, as it was requested (its slot may be larger).
    pub len: u32,
}

impl Block {
    /// The `len` bytes that start `skip` bytes into this block.
    ///
    /// # Panics
    /// If they do not lie inside this block.
    pub fn part(self, skip: u32, len: u32) -> Block {
        let inside = skip.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "bytes {skip}+{len} are not inside {self:?}");
        Block { region: self.region, offset: self.offset + skip, len }
    }

    /// Whether any byte belongs to both blocks.
    pub fn overlaps(self, other: Block) -> bool {
        self.region == other.region
            && u64::from(self.offset) < other.end()
            && u64::from(other.offset) < self.end()
            && self.len > 0
            && other.len > 0
    }

    /// One past the last byte, counted from the start of the region.
    fn end(self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }
}

#[cfg(test)]
mod tests;
