//! Modes of locks, and inode bits.

wire_enum! {
    /// The mode of a lock: one bit each [LOCK-2].
    pub struct LockMode: u32 {
        /// Not granted.
        NONE = 0, "-";
        /// Exclusive.
        EX = 1, "EX";
        /// Protected write.
        PW = 2, "PW";
        /// Protected read.
        PR = 4, "PR";
        /// Concurrent write.
        CW = 8, "CW";
        /// Concurrent read.
        CR = 16, "CR";
        /// Null; a flock of this mode unlocks.
        NL = 32, "NL";
        /// Of a group, by its number.
        GROUP = 64, "GROUP";
        /// Commit on sharing, among servers.
        COS = 128, "COS";
        /// Of a transaction, among servers.
        TXN = 256, "TXN";
    }
}

impl LockMode {
    /// Whether this is one of the modes that a client may ask for.
    pub const fn is_valid_request(self) -> bool {
        matches!(
            self,
            LockMode::EX
                | LockMode::PW
                | LockMode::PR
                | LockMode::CW
                | LockMode::CR
                | LockMode::NL
                | LockMode::GROUP
        )
    }

    /// Whether a lock of this mode may be granted beside one of the `other` mode, if their
    /// policies intersect. Two groups are compatible if their numbers are equal, which the caller
    /// compares [LOCK-2].
    pub const fn is_compatible(self, other: LockMode) -> bool {
        self.compatible() & other.0 != 0
    }

    /// The bits of the modes that this one is compatible with.
    const fn compatible(self) -> u32 {
        const EX: u32 = LockMode::EX.0;
        const PW: u32 = LockMode::PW.0;
        const PR: u32 = LockMode::PR.0;
        const CW: u32 = LockMode::CW.0;
        const CR: u32 = LockMode::CR.0;
        const NL: u32 = LockMode::NL.0;
        const GROUP: u32 = LockMode::GROUP.0;
        const COS: u32 = LockMode::COS.0;
        const TXN: u32 = LockMode::TXN.0;
        match self.0 {
            EX => NL,
            PW => CR | NL,
            PR => PR | CR | NL | TXN,
            CW => CW | CR | NL,
            CR => PW | PR | CW | CR | NL | TXN,
            NL => EX | PW | PR | CW | CR | NL | GROUP | COS | TXN,
            GROUP => NL | GROUP,
            COS => NL | COS,
            TXN => PR | CR | NL | TXN,
            _ => 0,
        }
    }
}

wire_flags! {
    /// What a lock on a metadata object protects [LOCK-3].
    pub struct Ibits: u64 {
        /// The names that lead to it.
        LOOKUP = 0x1;
        /// Its attributes; of a directory the entries too.
        UPDATE = 0x2;
        /// An open handle that the client keeps.
        OPEN = 0x4;
        /// The layout.
        LAYOUT = 0x8;
        /// Owner, mode, access control list.
        PERM = 0x10;
        /// Extended attributes.
        XATTR = 0x20;
        /// Data on the metadata server.
        DOM = 0x40;
    }
}

impl Ibits {
    /// All bits that 2.15 to 2.17 know.
    pub const FULL: Ibits = Ibits::from_bits_retain(0x7f);
}
