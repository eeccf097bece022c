//! The arithmetic of stripes [LAYOUT-6].

/// How a component is striped. All offsets are those of the file, also in components that do not
/// start at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striping {
    size: u64,
    count: u64,
}

impl Striping {
    /// Stripes of `size` bytes over `count` objects; none if one of them is 0.
    pub const fn new(size: u32, count: u16) -> Option<Striping> {
        if size == 0 || count == 0 {
            return None;
        }
        Some(Striping { size: size as u64, count: count as u64 })
    }

    /// Bytes of one stripe on each object.
    const fn width(&self) -> u64 {
        self.size * self.count
    }

    /// The stripe that holds a byte of the file.
    pub const fn stripe_of(&self, offset: u64) -> u16 {
        // Below the count, which is a u16.
        (offset % self.width() / self.size) as u16
    }

    /// Where that byte is in the object of its stripe.
    pub const fn object_offset(&self, offset: u64) -> u64 {
        offset / self.width() * self.size + offset % self.size
    }

    /// Bytes from a byte of the file to the end of its stripe.
    pub const fn left_in_stripe(&self, offset: u64) -> u64 {
        self.size - offset % self.size
    }

    /// Where the first byte at or behind `offset` that belongs to `stripe` is in its object. For
    /// offsets close to 2^64 the result is that of the end.
    pub const fn object_offset_from(&self, stripe: u16, offset: u64) -> u64 {
        let at = self.stripe_of(offset);
        let row = offset / self.width();
        if stripe == at {
            self.object_offset(offset)
        } else if stripe > at {
            row * self.size
        } else {
            (row + 1) * self.size
        }
    }

    /// The bytes of an object, the last one included, that a range of the file touches; `last` is
    /// included too. None if it does not touch the stripe.
    pub const fn object_range(&self, stripe: u16, first: u64, last: u64) -> Option<(u64, u64)> {
        let start = self.object_offset_from(stripe, first);
        let end = match last.checked_add(1) {
            Some(end) => self.object_offset_from(stripe, end),
            None => return Some((start, u64::MAX)),
        };
        if start < end { Some((start, end - 1)) } else { None }
    }

    /// The size of a file by the size of one of its objects; none if it is above 2^64.
    pub const fn file_size(&self, stripe: u16, object_size: u64) -> Option<u64> {
        if object_size == 0 {
            return Some(0);
        }
        let last = object_size - 1;
        let (row, rest) = (last / self.size, last % self.size);
        let Some(start) = row.checked_mul(self.width()) else { return None };
        let Some(start) = start.checked_add(stripe as u64 * self.size) else { return None };
        start.checked_add(rest + 1)
    }
}
