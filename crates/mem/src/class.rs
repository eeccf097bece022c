//! Size classes: which slot in a region a length gets.

/// Unit of mapping in bytes: the size of a huge page, of every region that holds blocks up to
/// 1 MiB, and the granule of the larger ones.
pub const REGION_LEN: u32 = 2 << 20;

/// Longest block in bytes: 64 MiB.
pub const BLOCK_LEN_MAX: u32 = 64 << 20;

const SMALLEST_SHIFT: u32 = 6; // 64 B
const SHARED_SHIFT_MAX: u32 = 20; // 1 MiB
const SHARED_CLASSES: u32 = SHARED_SHIFT_MAX - SMALLEST_SHIFT + 1;
const UNITS_MAX: u32 = BLOCK_LEN_MAX / REGION_LEN;

/// Number of size classes.
pub(crate) const CLASSES: usize = (SHARED_CLASSES + UNITS_MAX) as usize;

/// Number of different region sizes, see [`Class::units`].
pub(crate) const REGION_SIZES: usize = UNITS_MAX as usize;

/// One size of slot. Classes up to 1 MiB (powers of two from 64 bytes) divide a region of
/// [`REGION_LEN`] into several slots; a slot of a larger class is a whole region, a multiple of
/// [`REGION_LEN`] long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u32);

impl Class {
    /// The smallest class whose slots hold `len` bytes; `None` above [`BLOCK_LEN_MAX`].
    pub(crate) fn for_len(len: u32) -> Option<Class> {
        if len <= 1 << SHARED_SHIFT_MAX {
            let shift = len.max(1).next_power_of_two().trailing_zeros();
            Some(Class(shift.saturating_sub(SMALLEST_SHIFT)))
        } else if len <= BLOCK_LEN_MAX {
            Some(Class(SHARED_CLASSES + len.div_ceil(REGION_LEN) - 1))
        } else {
            None
        }
    }

    /// Bytes per slot.
    pub(crate) fn slot_len(self) -> u32 {
        if self.0 < SHARED_CLASSES {
            1 << (SMALLEST_SHIFT + self.0)
        } else {
            self.units() * REGION_LEN
        }
    }

    /// Slots per region.
    pub(crate) fn slots(self) -> u32 {
        self.units() * REGION_LEN / self.slot_len()
    }

    /// Length of a region of this class, in multiples of [`REGION_LEN`].
    pub(crate) fn units(self) -> u32 {
        if self.0 < SHARED_CLASSES { 1 } else { self.0 - SHARED_CLASSES + 1 }
    }

    /// Position among all classes, below [`CLASSES`].
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests;
