//! Flags of requests for objects.

wire_flags! {
    /// Flags of an obdo [OST-6].
    ///
    /// Bits 12 to 15 are a number, the kind of checksum; see
    /// [`ChecksumKind`](crate::checksum::ChecksumKind).
    pub struct ObdoFlags: u32 {
        /// Destroy objects that no file uses.
        DELORPHAN = 0x4;
        /// Nothing is to be read.
        NORPC = 0x8;
        /// Create a missing object again.
        RECREATE_OBJS = 0x20;
        /// The project is over its quota.
        NO_PRJQUOTA = 0x80;
        /// The user is over the quota.
        NO_USRQUOTA = 0x100;
        /// The group is over its quota.
        NO_GRPQUOTA = 0x200;
        /// The server takes the lock.
        SRVLOCK = 0x800;
        /// Grant is given back.
        SHRINK_GRANT = 0x20000;
        /// Of mapped memory.
        MMAP = 0x40000;
        /// Sent again after a recoverable failure.
        RECOV_RESEND = 0x80000;
        /// Wait for space.
        NOSPC_BLK = 0x100000;
        /// Make clients write their data.
        FLUSH = 0x200000;
        /// Data are within request or reply.
        SHORT_IO = 0x400000;
        /// Root has no rights.
        ROOT_SQUASH = 0x800000;
        /// Root has a project quota.
        ROOT_PRJQUOTA = 0x1000000;
    }
}

impl ObdoFlags {
    /// The bits of the kind of checksum.
    pub const CKSUM_MASK: u32 = 0xf000;
}

wire_flags! {
    /// Flags of a niobuf [OST-4].
    pub struct NiobufFlags: u32 {
        READ = 0x1;
        WRITE = 0x2;
        NDELAY = 0x4;
        /// Synchronous.
        SYNC = 0x8;
        /// Paid from the grant.
        FROM_GRANT = 0x20;
        /// Within a server.
        GRANTED = 0x40;
        /// Not cached.
        NOCACHE = 0x80;
        /// Without a check of quota.
        NOQUOTA = 0x100;
        /// The server takes the lock.
        SRVLOCK = 0x200;
        /// Of a cache.
        ASYNC = 0x400;
        MEMALLOC = 0x800;
        /// The user is over the quota.
        OVER_USR = 0x1000;
        /// The group is over its quota.
        OVER_GRP = 0x2000;
        SOFT_SYNC = 0x4000;
        /// The project is over its quota.
        OVER_PRJ = 0x8000;
        ROOT_PRJ = 0x10000;
        /// In memory of a device.
        RDMA_ONLY = 0x20000;
        /// The caller may use reserved space.
        SYS_RESOURCE = 0x40000;
        /// Compressed.
        COMPRESSED = 0x80000;
    }
}

wire_flags! {
    /// State of a target.
    pub struct StatfsState: u32 {
        /// Slow for now.
        DEGRADED = 0x1;
        /// Read-only.
        READONLY = 0x2;
        /// No new objects.
        NOCREATE = 0x4;
        /// No space.
        NOSPACE = 0x20;
        /// No inodes.
        NOINODES = 0x40;
        /// The sum of all targets.
        SUM = 0x100;
        /// No rotating disks.
        NONROT = 0x200;
    }
}

wire_flags! {
    /// How OST_FALLOCATE changes a range; no bit allocates it.
    pub struct FallocMode: u32 {
        /// The size stays.
        KEEP_SIZE = 0x1;
        /// Space is freed.
        PUNCH_HOLE = 0x2;
        /// The range becomes zeros.
        ZERO_RANGE = 0x10;
    }
}

wire_enum! {
    /// What OST_SEEK finds.
    pub struct SeekWhence: u32 {
        /// Data.
        DATA = 3, "data";
        /// A hole.
        HOLE = 4, "hole";
    }
}
