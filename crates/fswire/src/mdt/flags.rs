//! Flags of metadata requests and replies.

wire_flags! {
    /// Which fields of an `mdt_body` or an obdo hold values, or are wanted [MDT-4].
    pub struct MdValid: u64 {
        /// The FID or the object id.
        ID = 0x1;
        ATIME = 0x2;
        MTIME = 0x4;
        CTIME = 0x8;
        /// The size.
        SIZE = 0x10;
        BLOCKS = 0x20;
        BLKSZ = 0x40;
        /// The permissions.
        MODE = 0x80;
        /// The type.
        TYPE = 0x100;
        UID = 0x200;
        GID = 0x400;
        /// The flags.
        FLAGS = 0x800;
        /// Size and blocks on the metadata server.
        DOM_SIZE = 0x1000;
        NLINK = 0x2000;
        /// The parent.
        PARENT = 0x4000;
        LAYOUT_VERSION = 0x8000;
        RDEV = 0x10000;
        /// The layout of a file.
        EASIZE = 0x20000;
        /// The target of a symbolic link.
        LINKNAME = 0x40000;
        /// The handle of an open file, or of a lock.
        HANDLE = 0x80000;
        /// The checksum.
        CKSUM = 0x100000;
        PRJQUOTA0 = 0x200000;
        /// The flag of project quota is valid.
        PRJQUOTA = 0x400000;
        /// The sequence of the object.
        GROUP = 0x1000000;
        /// The FID of the file that an object belongs to.
        FID = 0x2000000;
        /// The grant.
        GRANT = 0x8000000;
        /// The layout of a directory.
        DIREA = 0x10000000;
        /// The flag of user quota is valid.
        USRQUOTA = 0x20000000;
        /// The flag of group quota is valid.
        GRPQUOTA = 0x40000000;
        /// The largest layout.
        MODEASIZE = 0x80000000;
        /// The object is on another metadata server.
        MDS = 0x100000000;
        /// The layout of a striped directory.
        MEA = 0x400000000;
        TSTATE = 0x800000000;
        /// A value of an attribute.
        XATTR = 0x1000000000;
        /// The names of attributes.
        XATTRLS = 0x2000000000;
        /// Remove an attribute.
        XATTRRM = 0x4000000000;
        /// The access control list.
        ACL = 0x8000000000;
        /// Free space of all servers.
        AGSTATFS = 0x10000000000;
        /// The second half of an operation on two servers.
        CROSSREF = 0x100000000000;
        GETATTRLOCK = 0x200000000000;
        /// A number of objects.
        OBJCOUNT = 0x400000000000;
        /// The version of the data.
        DATAVERSION = 0x10000000000000;
        /// The intent of a close was executed.
        CLOSE_INTENT_EXECED = 0x20000000000000;
        /// The default layout of new directories.
        DEFAULT_MEA = 0x40000000000000;
        /// The layout of an object's file.
        OSTLAYOUT = 0x80000000000000;
        PROJID = 0x100000000000000;
        SECCTX = 0x200000000000000;
        /// The size is a hint.
        LAZYSIZE = 0x400000000000000;
        /// The number of blocks is a hint.
        LAZYBLOCKS = 0x800000000000000;
        BTIME = 0x1000000000000000;
        ENCCTX = 0x2000000000000000;
        NAMEHASH = 0x4000000000000000;
    }
}

impl MdValid {
    /// What a client asks for with every getattr [MDT-4].
    pub const GETATTR: MdValid = MdValid::from_bits_retain(0x1100_0000_0101_6fdf);
    /// What the intent getattr of kernel clients asks for.
    pub const INTENT_GETATTR: MdValid = MdValid::from_bits_retain(0x1140_0084_9103_6fdf);
}

wire_flags! {
    /// Which fields of a setattr record are to be set [MDT-6].
    pub struct AttrFlags: u64 {
        MODE = 0x1;
        UID = 0x2;
        GID = 0x4;
        SIZE = 0x8;
        ATIME = 0x10;
        MTIME = 0x20;
        CTIME = 0x40;
        /// To the value given, not to now.
        ATIME_SET = 0x80;
        /// To the value given, not to now.
        MTIME_SET = 0x100;
        /// A normal write: no more checks.
        FORCE = 0x200;
        /// The attributes of the file.
        ATTR_FLAG = 0x400;
        /// Clear the set-user-id bit.
        KILL_SUID = 0x800;
        /// Clear the set-group-id bit.
        KILL_SGID = 0x1000;
        /// To the value given, not to now.
        CTIME_SET = 0x2000;
        /// Of an open that truncates: permission was checked.
        FROM_OPEN = 0x4000;
        BLOCKS = 0x8000;
        PROJID = 0x10000;
        /// The size is a hint.
        LSIZE = 0x20000;
        /// The number of blocks is a hint.
        LBLOCKS = 0x40000;
        /// Without the owner's rights.
        OVERRIDE = 0x2000000;
    }
}

wire_flags! {
    /// How a file is opened, or created [MDT-12].
    pub struct OpenFlags: u64 {
        READ = 0x1;
        WRITE = 0x2;
        EXEC = 0x4;
        CREATED = 0x8;
        EXECUTE = 0x10;
        /// Create it if it is missing.
        CREAT = 0x40;
        /// Fail if it is there.
        EXCL = 0x80;
        /// Truncate it.
        TRUNC = 0x200;
        APPEND = 0x400;
        SYNC = 0x1000;
        /// It must be a directory.
        DIRECTORY = 0x10000;
        /// By its FID, without a name.
        BY_FID = 0x800000;
        /// Without a layout for now.
        DELAY_CREATE = 0x1000000;
        OWNEROVERRIDE = 0x2000000;
        /// An open lock is wanted.
        LOCK = 0x20000000;
        /// A layout is given.
        HAS_EA = 0x40000000;
        /// A layout with objects is given.
        HAS_OBJS = 0x80000000;
        /// Do not restore it from an archive.
        NORESTORE = 0x200000000;
        /// It gets a new layout.
        NEWSTRIPE = 0x400000000;
        /// A file without a name.
        VOLATILE = 0x800000000;
        /// A lease is wanted.
        LEASE = 0x1000000000;
        /// The data of the file are released.
        RELEASE = 0x2000000000;
        /// The reply shall have the layout of the new directory.
        MKDIR_LMV = 0x4000000000;
        OP_WITH_FID = 0x10000000000;
        /// The default layout of the parent is given.
        DEFAULT_LMV = 0x20000000000;
    }
}

wire_flags! {
    /// How a change is made [MDT-6].
    pub struct Bias: u32 {
        /// The second half of an operation on two servers.
        CROSS_REF = 0x2;
        /// Data were written.
        DATA_MODIFIED = 0x200;
        CREATE_VOLATILE = 0x400;
        /// A close that releases the data.
        HSM_RELEASE = 0x1000;
        CLOSE_MIGRATE = 0x2000;
        /// A close that exchanges layouts.
        LAYOUT_SWAP = 0x4000;
        /// A close that adds a mirror.
        LAYOUT_MERGE = 0x8000;
        /// A close after mirrors were made equal.
        RESYNC_DONE = 0x10000;
        /// A close that takes a mirror away.
        SPLIT = 0x20000;
        TRUNC_KEEP_LEASE = 0x40000;
        PCC_ATTACH = 0x80000;
        /// A directory with a layout.
        SETSTRIPE_CREATE = 0x200000;
        FID_OP = 0x400000;
        /// The default layout of the parent is given.
        CREATE_DEFAULT_LMV = 0x1000000;
    }
}

wire_flags! {
    /// Attributes of a file [MDT-3].
    pub struct FileFlags: u32 {
        /// Changes are durable at once.
        SYNC = 0x8;
        /// Nothing may be changed.
        IMMUTABLE = 0x10;
        /// Data may be appended only.
        APPEND = 0x20;
        /// Not for dumps.
        NODUMP = 0x40;
        /// No access times.
        NOATIME = 0x80;
        /// Encrypted, as users see it.
        ENCRYPT = 0x800;
        /// Deleted, but open.
        ORPHAN = 0x2000;
        /// Data are journaled.
        JOURNAL = 0x4000;
        /// Changes of the directory are durable at once.
        DIRSYNC = 0x1_0000;
        /// Top of a tree of directories.
        TOPDIR = 0x2_0000;
        /// Set synchronously.
        SET_SYNC = 0x4_0000;
        /// Stored in extents.
        EXTENTS = 0x8_0000;
        /// Its data are authenticated.
        VERITY = 0x10_0000;
        /// Encrypted.
        ENCRYPTED = 0x80_0000;
        /// Data within the inode.
        INLINE = 0x1000_0000;
        /// New files get the project of the directory.
        PROJINHERIT = 0x2000_0000;
        /// Names of any case are equal.
        CASEFOLD = 0x4000_0000;
    }
}

wire_flags! {
    /// What a directory entry holds [MDT-14].
    pub struct LudaFlags: u32 {
        /// The FID.
        FID = 0x1;
        /// The type.
        TYPE = 0x2;
        /// A hash of 64 bits.
        HASH64 = 0x4;
    }
}

wire_flags! {
    /// How an attribute is set.
    pub struct XattrFlags: u32 {
        /// It must be new.
        CREATE = 0x1;
        /// It must be there.
        REPLACE = 0x2;
    }
}
