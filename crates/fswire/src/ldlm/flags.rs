//! Flags of locks, intents and their dispositions.

wire_flags! {
    /// Flags of a lock in requests, replies and callbacks [LOCK-6].
    pub struct LockFlags: u32 {
        /// Reply: resource, mode or policy are not those of the request.
        LOCK_CHANGED = 0x1;
        /// Reply: not granted yet. Replay: it was granted.
        BLOCK_GRANTED = 0x2;
        /// Server: it is being converted.
        BLOCK_CONV = 0x4;
        /// Replay: it was waiting.
        BLOCK_WAIT = 0x8;
        /// Never wait, and send no callback to a holder.
        SPECULATIVE = 0x10;
        /// Reply and CP_CALLBACK: somebody wants this lock already.
        AST_SENT = 0x20;
        /// Reply: the resource is contended.
        CONTENTION = 0x40;
        /// A replay in recovery.
        REPLAY = 0x100;
        /// Execute the intent, no lock is needed.
        INTENT_ONLY = 0x200;
        /// An intent or a glimpse rides along.
        HAS_INTENT = 0x1000;
        /// CP_CALLBACK: cancelled because of a deadlock.
        FLOCK_DEADLOCK = 0x8000;
        /// The object is being destroyed: dirty data need not be written.
        DISCARD_DATA = 0x10000;
        /// Reply: wait without limit.
        NO_TIMEOUT = 0x20000;
        /// Fail instead of waiting.
        BLOCK_NOWAIT = 0x40000;
        /// Test only, nothing is granted.
        TEST_LOCK = 0x80000;
        /// The server may drop it at once on a conflict.
        CANCEL_ON_BLOCK = 0x80_0000;
        /// Server.
        COS_INCOMPAT = 0x100_0000;
        /// Grant exactly the extent asked.
        NO_EXPANSION = 0x2000_0000;
        /// Fail if the resource is contended.
        DENY_ON_CONTENTION = 0x4000_0000;
        /// Holders of conflicting locks may discard their data.
        AST_DISCARD_DATA = 0x8000_0000;
    }
}

/// The flags that servers of 2.17 accept in an enqueue; any other one is answered with EPROTO
/// [LOCK-6].
pub const ENQUEUE_FLAGS: LockFlags = LockFlags::from_bits_retain(
    LockFlags::BLOCK_GRANTED.bits()
        | LockFlags::BLOCK_WAIT.bits()
        | LockFlags::SPECULATIVE.bits()
        | LockFlags::REPLAY.bits()
        | LockFlags::INTENT_ONLY.bits()
        | LockFlags::HAS_INTENT.bits()
        | LockFlags::BLOCK_NOWAIT.bits()
        | LockFlags::TEST_LOCK.bits()
        | LockFlags::CANCEL_ON_BLOCK.bits()
        | LockFlags::NO_EXPANSION.bits()
        | LockFlags::DENY_ON_CONTENTION.bits()
        | LockFlags::AST_DISCARD_DATA.bits(),
);

/// The flags that clients of 2.17 accept in a callback [LOCK-6].
pub const CALLBACK_FLAGS: LockFlags = LockFlags::from_bits_retain(
    LockFlags::AST_SENT.bits() | LockFlags::FLOCK_DEADLOCK.bits() | LockFlags::DISCARD_DATA.bits(),
);

wire_enum! {
    /// What an enqueue asks for besides a lock: bits, of which OPEN and CREAT may stand together
    /// [LOCK-9].
    pub struct IntentOp: u64 {
        /// Open a file.
        OPEN = 0x1, "open";
        /// Create a file.
        CREAT = 0x2, "creat";
        /// Open a file, and create it if it is missing.
        OPEN_CREAT = 0x3, "open|creat";
        /// Read a directory.
        READDIR = 0x4, "readdir";
        /// Attributes.
        GETATTR = 0x8, "getattr";
        /// Find a name.
        LOOKUP = 0x10, "lookup";
        /// All extended attributes.
        GETXATTR = 0x80, "getxattr";
        /// The layout.
        LAYOUT = 0x400, "layout";
        /// Quota for a server.
        QUOTA_DQACQ = 0x800, "quota_dqacq";
        /// Quota settings for a server.
        QUOTA_CONN = 0x1000, "quota_conn";
        /// Size of a file on a metadata server; unused.
        GLIMPSE = 0x4000, "glimpse";
        /// Data of a file on a metadata server; unused.
        BRW = 0x8000, "brw";
    }
}

wire_flags! {
    /// Which steps of an intent were done: `policy_res1` of its reply [MDT-13].
    pub struct Disposition: u64 {
        /// The intent was executed.
        EXECD = 0x1;
        /// The name was looked up.
        LOOKUP_EXECD = 0x2;
        /// It is missing.
        LOOKUP_NEG = 0x4;
        /// It is there.
        LOOKUP_POS = 0x8;
        /// The file was created.
        OPEN_CREATE = 0x10;
        /// The file was opened: the reply has a handle.
        OPEN_OPEN = 0x20;
        /// The reply grants an open lock.
        OPEN_LOCK = 0x200_0000;
        /// The reply grants a lease.
        OPEN_LEASE = 0x400_0000;
        /// The file got a layout.
        OPEN_STRIPE = 0x800_0000;
        /// Permission was denied.
        OPEN_DENY = 0x1000_0000;
    }
}
