//! Byte order of the structures that LNet writes in the order of the sending machine.

/// The byte order in which a sender wrote a structure.
///
/// LNet's senders write HELLO, frame headers, ping info and selftest messages in their own order;
/// the reader derives it from the magic number. LNet headers are always [`ByteOrder::Little`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first: every known deployment.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Finds the order in which `bytes` spell `magic`, if they do so in either.
    #[inline]
    pub fn of_magic(bytes: [u8; 4], magic: u32) -> Option<ByteOrder> {
        if u32::from_le_bytes(bytes) == magic {
            Some(ByteOrder::Little)
        } else if u32::from_be_bytes(bytes) == magic {
            Some(ByteOrder::Big)
        } else {
            None
        }
    }

    /// Reads a `u16` at byte `at`. Panics if `buf` ends before it: the caller checks lengths.
    #[inline]
    pub fn u16_at(self, buf: &[u8], at: usize) -> u16 {
        let raw = array_at(buf, at);
        match self {
            ByteOrder::Little => u16::from_le_bytes(raw),
            ByteOrder::Big => u16::from_be_bytes(raw),
        }
    }

    /// Reads a `u32` at byte `at`. Panics if `buf` ends before it: the caller checks lengths.
    #[inline]
    pub fn u32_at(self, buf: &[u8], at: usize) -> u32 {
        let raw = array_at(buf, at);
        match self {
            ByteOrder::Little => u32::from_le_bytes(raw),
            ByteOrder::Big => u32::from_be_bytes(raw),
        }
    }

    /// Reads a `u64` at byte `at`. Panics if `buf` ends before it: the caller checks lengths.
    #[inline]
    pub fn u64_at(self, buf: &[u8], at: usize) -> u64 {
        let raw = array_at(buf, at);
        match self {
            ByteOrder::Little => u64::from_le_bytes(raw),
            ByteOrder::Big => u64::from_be_bytes(raw),
        }
    }

    /// The two bytes of `value` in this order.
    #[inline]
    pub fn u16_bytes(self, value: u16) -> [u8; 2] {
        match self {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    /// The four bytes of `value` in this order.
    #[inline]
    pub fn u32_bytes(self, value: u32) -> [u8; 4] {
        match self {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    /// The eight bytes of `value` in this order.
    #[inline]
    pub fn u64_bytes(self, value: u64) -> [u8; 8] {
        match self {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    /// Writes a `u16` at byte `at`. Panics if `buf` ends before it.
    #[inline]
    pub fn put_u16(self, buf: &mut [u8], at: usize, value: u16) {
        buf[at..at + 2].copy_from_slice(&self.u16_bytes(value));
    }

    /// Writes a `u32` at byte `at`. Panics if `buf` ends before it.
    #[inline]
    pub fn put_u32(self, buf: &mut [u8], at: usize, value: u32) {
        buf[at..at + 4].copy_from_slice(&self.u32_bytes(value));
    }

    /// Writes a `u64` at byte `at`. Panics if `buf` ends before it.
    #[inline]
    pub fn put_u64(self, buf: &mut [u8], at: usize, value: u64) {
        buf[at..at + 8].copy_from_slice(&self.u64_bytes(value));
    }
}

/// Copies `N` bytes at `at`. Panics if `buf` ends before them: the caller checks lengths.
#[inline]
pub(crate) fn array_at<const N: usize>(buf: &[u8], at: usize) -> [u8; N] {
    let mut raw = [0; N];
    raw.copy_from_slice(&buf[at..at + N]);
    raw
}
