//! Lock value blocks, and small structures of lock requests.

wire_struct! {
    /// Size and times of an object, sent with its locks [LOCK-11].
    pub struct OstLvb [56] {
        /// Bytes.
        size: u64;
        /// Seconds since 1970.
        mtime: i64;
        /// Seconds since 1970.
        atime: i64;
        /// Seconds since 1970.
        ctime: i64;
        /// Units of 512 bytes, or an error; see [`OstLvb::error`].
        blocks: u64;
        /// Nanoseconds.
        mtime_ns: u32;
        /// Nanoseconds.
        atime_ns: u32;
        /// Nanoseconds.
        ctime_ns: u32, pad 4;
    }
}

impl OstLvb {
    /// Its length for peers without the flag LVB_TYPE.
    pub const SIZE_V1: usize = 40;
    /// The value of `blocks` that stands for error 0.
    const ERROR_BASE: u64 = 0xffba_dbad_8000_0000;

    /// The negative errno that the server sent instead of values.
    pub const fn error(&self) -> Option<i32> {
        if self.blocks >> 32 == OstLvb::ERROR_BASE >> 32 {
            Some(self.blocks.wrapping_sub(OstLvb::ERROR_BASE) as i32)
        } else {
            None
        }
    }

    /// A block that holds a negative errno.
    pub fn from_error(errno: i32) -> OstLvb {
        let blocks = OstLvb::ERROR_BASE.wrapping_add(i64::from(errno) as u64);
        OstLvb { blocks, ..OstLvb::default() }
    }

    /// Reads a block of either length; nanoseconds are 0 in the short one. None for any other
    /// length, such as 0.
    pub fn parse_any(bytes: &[u8]) -> Option<OstLvb> {
        use crate::codec::Wire;
        if !matches!(bytes.len(), OstLvb::SIZE_V1 | OstLvb::SIZE) {
            return None;
        }
        let mut whole = [0; OstLvb::SIZE];
        whole[..bytes.len()].copy_from_slice(bytes);
        OstLvb::parse(&whole).ok()
    }
}

wire_struct! {
    /// The value block of a quota lock, between servers.
    pub struct QuotaLvb [40] {
        /// State of the id.
        flags: u64 => hex;
        /// What the server may release.
        id_may_rel: u64;
        /// What it must release.
        id_rel: u64;
        /// The unit of acquisition.
        id_qunit: u64, pad 8;
    }
}

wire_enum! {
    /// What a client wants to do with a layout [LOCK-12].
    pub struct LayoutOp: u32 {
        /// Read it.
        ACCESS = 0, "access";
        /// Not supported.
        READ = 1, "read";
        /// Write to the range: components are instantiated.
        WRITE = 2, "write";
        /// Not supported.
        GLIMPSE = 3, "glimpse";
        /// Truncate: as a write of the range.
        TRUNC = 4, "trunc";
        /// Not supported.
        RELEASE = 5, "release";
        /// Not supported.
        RESTORE = 6, "restore";
        /// Attach a copy in a cache.
        PCCRO_SET = 7, "pccro_set";
        /// Detach it.
        PCCRO_CLEAR = 8, "pccro_clear";
    }
}

wire_struct! {
    /// What a client wants to do with a layout [LOCK-12].
    pub struct LayoutIntent [24] {
        /// The operation.
        op: LayoutOp;
        /// Flags; 0.
        flags: u32 => hex;
        /// First byte of the range.
        start: u64;
        /// Behind the last byte; 2^64 - 1 for the end of the file.
        end: u64;
    }
}
