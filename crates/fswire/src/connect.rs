//! Connect data: what both sides can do [RPC-18].

#[cfg(test)]
mod tests;

use crate::checksum::ChecksumTypes;
use crate::ldlm::Ibits;

wire_flags! {
    /// What a client offers and a server grants, first word [RPC-19].
    pub struct ConnectFlags: u64 {
        /// A read-only mount; no grant.
        RDONLY = 0x1;
        /// `index` is valid: the server checks it.
        INDEX = 0x2;
        /// The client is a metadata server; `group` is valid.
        MDS = 0x4;
        /// Grants of space: `grant` is valid.
        GRANT = 0x8;
        /// I/O without a lock of the client: the server locks.
        SRVLOCK = 0x10;
        /// `version` is valid.
        VERSION = 0x20;
        /// Registration with a list of NIDs (2.17).
        MGS_NIDLIST = 0x40;
        /// Access control lists.
        ACL = 0x80;
        /// User attributes.
        XATTR = 0x100;
        /// More than 32 entries of an access control list.
        LARGE_ACL = 0x200;
        /// Marks clients before 2.15 with another format of fallocate.
        OLD_FALLOC = 0x400;
        TRUNCLOCK = 0x800;
        /// Inode bit locks: `ibits_known` is valid.
        IBITS = 0x1000;
        BARRIER = 0x2000;
        /// Required by kernel clients of metadata servers.
        ATTRFID = 0x4000;
        /// Special files are opened without a handle.
        NODEVOH = 0x8000;
        RMT_CLIENT = 0x10000;
        RMT_CLIENT_FORCE = 0x20000;
        /// `brw_size` is valid.
        BRW_SIZE = 0x40000;
        QUOTA64 = 0x80000;
        MDS_CAPA = 0x100000;
        OSS_CAPA = 0x200000;
        /// Cancels of several locks at once, early cancels.
        CANCELSET = 0x400000;
        SOM = 0x800000;
        /// Adaptive time-outs and early replies.
        AT = 0x1000000;
        /// The server sends its lock volume.
        LRU_RESIZE = 0x2000000;
        /// Between metadata servers.
        MDS_MDS = 0x4000000;
        REAL = 0x8000000;
        CHANGE_QS = 0x10000000;
        /// `cksum_types` is valid.
        CKSUM = 0x20000000;
        /// FIDs; required by metadata servers.
        FID = 0x40000000;
        /// Recovery by versions of objects.
        VBR = 0x80000000;
        /// Layouts with pools.
        LOV_V3 = 0x100000000;
        /// The client gives back grants.
        GRANT_SHRINK = 0x200000000;
        /// Of a metadata server that counts objects itself.
        SKIP_ORPHAN = 0x400000000;
        /// `max_easize` is valid.
        MAX_EASIZE = 0x800000000;
        /// Required by every server.
        FULL20 = 0x1000000000;
        /// Layout locks.
        LAYOUTLOCK = 0x2000000000;
        /// 64-bit hashes of directories.
        HASH64 = 0x4000000000;
        /// `maxbytes` is valid.
        MAXBYTES = 0x8000000000;
        /// Tables of NIDs for quick recovery; `instance` is valid.
        IMP_RECOV = 0x10000000000;
        /// Names of jobs.
        JOBSTATS = 0x20000000000;
        /// The server applies the umask.
        UMASK = 0x40000000000;
        /// The client understands EINPROGRESS.
        EINPROGRESS = 0x80000000000;
        /// The parameters of grants are valid.
        GRANT_PARAM = 0x100000000000;
        /// The server looks at the first handle of a cancel only.
        HPREQ_CHECK1 = 0x200000000000;
        /// Lock value blocks of 56 bytes.
        LVB_TYPE = 0x400000000000;
        NANOSEC_TIME = 0x800000000000;
        /// Between servers.
        LIGHTWEIGHT = 0x1000000000000;
        /// Data within requests and replies.
        SHORTIO = 0x2000000000000;
        /// The client sends no pings.
        PINGLESS = 0x4000000000000;
        /// Deadlocks of flocks are found.
        FLOCK_DEAD = 0x8000000000000;
        /// Disposition of striping.
        DISP_STRIPE = 0x10000000000000;
        /// Open by FID without a name.
        OPEN_BY_FID = 0x20000000000000;
        /// Online check.
        LFSCK = 0x40000000000000;
        UNLINK_CLOSE = 0x100000000000000;
        /// Several changes at a time: `maxmodrpcs` is valid.
        MULTIMODRPCS = 0x200000000000000;
        /// Striped directories.
        DIR_STRIPE = 0x400000000000000;
        /// Mount of a subdirectory.
        SUBTREE = 0x800000000000000;
        LOCKAHEAD_OLD = 0x1000000000000000;
        /// Match bits of bulk are in the body.
        BULK_MBITS = 0x2000000000000000;
        OBDOPACK = 0x4000000000000000;
        /// `flags2` is valid.
        FLAGS2 = 0x8000000000000000;
    }
}

wire_flags! {
    /// What a client offers and a server grants, second word [RPC-19].
    pub struct ConnectFlags2: u64 {
        FILE_SECCTX = 0x1;
        /// Locks asked for in advance.
        LOCKAHEAD = 0x2;
        /// Directories that migrate.
        DIR_MIGRATE = 0x4;
        /// The server sums the free space of all.
        SUM_STATFS = 0x8;
        /// Several objects of a file on one target.
        OVERSTRIPING = 0x10;
        /// Mirrored files.
        FLR = 0x20;
        WBC_INTENTS = 0x40;
        /// LDLM_CONVERT.
        LOCK_CONVERT = 0x80;
        ARCHIVE_ID_ARRAY = 0x100;
        /// Xids of one slot rise.
        INC_XID = 0x200;
        SELINUX_POLICY = 0x400;
        /// Lazy sizes.
        LSOM = 0x800;
        PCC = 0x1000;
        /// CRUSH hashes of striped directories.
        CRUSH = 0x2000;
        ASYNC_DISCARD = 0x4000;
        /// Encryption.
        ENCRYPT = 0x8000;
        FIDMAP = 0x10000;
        GETATTR_PFID = 0x20000;
        /// OST_SEEK.
        LSEEK = 0x40000;
        /// Lock value blocks of files on metadata servers.
        DOM_LVB = 0x80000;
        /// Replies go to the match bits in the body.
        REP_MBITS = 0x100000;
        MODE_CONVERT = 0x200000;
        /// MDS_BATCH.
        BATCH_RPC = 0x400000;
        PCCRO = 0x800000;
        MNE_TYPE = 0x1000000;
        LOCK_CONTENTION = 0x2000000;
        /// An open lock with the first open.
        ATOMIC_OPEN_LOCK = 0x4000000;
        ENCRYPT_NAME = 0x8000000;
        MKDIR_REPLAY = 0x10000000;
        /// Inheritance of default directory layouts.
        DMV_IMP_INHERIT = 0x20000000;
        ENCRYPT_FID2PATH = 0x40000000;
        /// Creation of objects can be replayed.
        REPLAY_CREATE = 0x80000000;
        /// Long NIDs.
        LARGE_NID = 0x100000000;
        /// Compression: `compr_type` is valid.
        COMPRESS = 0x200000000;
        /// Unaligned direct I/O.
        UNALIGNED_DIO = 0x400000000;
        /// `conn_policy` is valid.
        CONN_POLICY = 0x800000000;
        SPARSE = 0x1000000000;
        MIRROR_ID_FIX = 0x2000000000;
        UPDATE_LAYOUT = 0x4000000000;
        /// A directory page with the reply to an open.
        READDIR_OPEN = 0x8000000000;
    }
}

wire_struct! {
    /// What a client offers, and what the server grants of it [RPC-18].
    ///
    /// A field means something only if a flag says so; see [`ConnectData::valid`]. Others may hold
    /// rubbish.
    pub struct ConnectData [192] {
        /// Offered, or granted.
        flags: ConnectFlags;
        /// The release: major, minor, patch, fix, one byte each from the highest.
        version: u32 => hex;
        /// Bytes of space wanted, or granted in total.
        grant: u32;
        /// Index of the object server.
        index: u32;
        /// Largest bulk transfer in bytes.
        brw_size: u32;
        /// The inode bits of locks that are understood; the upper half is 0.
        ibits_known: Ibits;
        /// Client: bits of its page size. Server: bits of its block size.
        grant_blkbits: u8;
        /// Server: bits of the space of an inode.
        grant_inobits: u8;
        /// Server: KiB charged for each extent.
        grant_tax_kb: u16;
        /// Server: blocks of an extent at most.
        grant_max_blks: u32;
        /// Client: the first transno that it will replay.
        transno: u64 => hex;
        /// Index of the metadata server that connects.
        group: u32;
        /// Checksums offered, or in common.
        cksum_types: ChecksumTypes;
        /// Server: largest extended attribute in bytes.
        max_easize: u32;
        /// Server: how many times the target was mounted.
        instance: u32;
        /// Server: largest object in bytes.
        maxbytes: u64 => hex;
        /// Server: changes of metadata at a time.
        maxmodrpcs: u16;
        /// Policy of connections.
        conn_policy: u8, pad 5;
        /// Offered, or granted.
        flags2: ConnectFlags2;
        /// Kinds of compression.
        compr_type: u64 => hex, pad 96;
    }
}

/// A release number as connect data carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Release(pub u32);

impl Release {
    /// Major, minor, patch and fix number.
    pub const fn new(major: u8, minor: u8, patch: u8, fix: u8) -> Release {
        Release(u32::from_be_bytes([major, minor, patch, fix]))
    }
}

impl core::fmt::Display for Release {
    /// `2.17.0`, with the fix number only if it is not 0.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [major, minor, patch, fix] = self.0.to_be_bytes();
        write!(f, "{major}.{minor}.{patch}")?;
        if fix == 0 { Ok(()) } else { write!(f, ".{fix}") }
    }
}

/// Why a reply to a connect is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Flags were granted that were not offered; a kernel client fails with EPROTO.
    #[error("granted but not offered: {flags} {flags2}")]
    NotOffered {
        /// Of the first word.
        flags: ConnectFlags,
        /// Of the second word.
        flags2: ConnectFlags2,
    },
    /// A flag that this kind of connection needs is missing.
    #[error("not granted: {0}")]
    Missing(ConnectFlags),
    /// A flag was granted whose field is 0.
    #[error("{0} is granted with the value 0")]
    Zero(ConnectFlags),
}

impl ConnectData {
    /// The fields that are valid by the flags, all others 0 [RPC-18]. `instance` has no flag of
    /// its own; it is kept with [`ConnectFlags::IMP_RECOV`].
    #[must_use]
    pub fn valid(&self) -> ConnectData {
        use ConnectFlags as F;
        let has = |flag| self.flags.contains(flag);
        let keep = |flag, value: u32| if has(flag) { value } else { 0 };
        let param = has(F::GRANT_PARAM);
        let flags2 = if has(F::FLAGS2) { self.flags2 } else { ConnectFlags2::empty() };
        ConnectData {
            flags: self.flags,
            version: keep(F::VERSION, self.version),
            grant: keep(F::GRANT, self.grant),
            index: keep(F::INDEX, self.index),
            brw_size: keep(F::BRW_SIZE, self.brw_size),
            ibits_known: if has(F::IBITS) { self.ibits_known } else { Ibits::empty() },
            grant_blkbits: if param { self.grant_blkbits } else { 0 },
            grant_inobits: if param { self.grant_inobits } else { 0 },
            grant_tax_kb: if param { self.grant_tax_kb } else { 0 },
            grant_max_blks: keep(F::GRANT_PARAM, self.grant_max_blks),
            // Valid by a flag of the body.
            transno: self.transno,
            group: keep(F::MDS, self.group),
            cksum_types: if has(F::CKSUM) { self.cksum_types } else { ChecksumTypes::empty() },
            max_easize: keep(F::MAX_EASIZE, self.max_easize),
            instance: keep(F::IMP_RECOV, self.instance),
            maxbytes: if has(F::MAXBYTES) { self.maxbytes } else { 0 },
            maxmodrpcs: if has(F::MULTIMODRPCS) { self.maxmodrpcs } else { 0 },
            conn_policy: match flags2.contains(ConnectFlags2::CONN_POLICY) {
                true => self.conn_policy,
                false => 0,
            },
            flags2,
            compr_type: match flags2.contains(ConnectFlags2::COMPRESS) {
                true => self.compr_type,
                false => 0,
            },
        }
    }

    /// Checks what a server granted of what `offered`, as a client must [RPC-20].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn check_granted(&self, offered: &ConnectData) -> Result<(), ConnectError> {
        use ConnectFlags as F;
        let (given, wanted) = (self.valid(), offered.valid());
        let flags = given.flags.difference(wanted.flags);
        let flags2 = given.flags2.difference(wanted.flags2);
        if !flags.is_empty() || !flags2.is_empty() {
            return Err(ConnectError::NotOffered { flags, flags2 });
        }
        if !given.flags.contains(F::FULL20) {
            return Err(ConnectError::Missing(F::FULL20));
        }
        let zero = [
            (F::BRW_SIZE, given.brw_size == 0),
            (F::CKSUM, given.cksum_types.is_empty()),
            (F::MULTIMODRPCS, given.maxmodrpcs == 0),
        ];
        match zero.into_iter().find(|(flag, zero)| given.flags.contains(*flag) && *zero) {
            Some((flag, _)) => Err(ConnectError::Zero(flag)),
            None => Ok(()),
        }
    }
}
