//! Opcodes, services and portals.

#[cfg(test)]
mod tests;

wire_enum! {
    /// The operation of an RPC [RPC-9].
    pub struct Opcode: u32 {
        /// Attributes of an object.
        OST_GETATTR = 1, "OST_GETATTR";
        /// Sets attributes of an object.
        OST_SETATTR = 2, "OST_SETATTR";
        /// Reads data.
        OST_READ = 3, "OST_READ";
        /// Writes data.
        OST_WRITE = 4, "OST_WRITE";
        /// Creates objects for a metadata server.
        OST_CREATE = 5, "OST_CREATE";
        /// Destroys objects.
        OST_DESTROY = 6, "OST_DESTROY";
        /// A value by its key.
        OST_GET_INFO = 7, "OST_GET_INFO";
        /// Connects to an object server.
        OST_CONNECT = 8, "OST_CONNECT";
        /// Disconnects from an object server.
        OST_DISCONNECT = 9, "OST_DISCONNECT";
        /// Truncates an object.
        OST_PUNCH = 10, "OST_PUNCH";
        /// Free space.
        OST_STATFS = 13, "OST_STATFS";
        /// Makes data durable.
        OST_SYNC = 16, "OST_SYNC";
        /// Sets a value by its key.
        OST_SET_INFO = 17, "OST_SET_INFO";
        /// Quota of a user, a group or a project.
        OST_QUOTACTL = 19, "OST_QUOTACTL";
        /// Advice on the use of a range.
        OST_LADVISE = 21, "OST_LADVISE";
        /// Allocates or frees space of a range.
        OST_FALLOCATE = 22, "OST_FALLOCATE";
        /// Finds data or a hole.
        OST_SEEK = 23, "OST_SEEK";
        /// Attributes of a file by its FID.
        MDS_GETATTR = 33, "MDS_GETATTR";
        /// Attributes of a file by its name.
        MDS_GETATTR_NAME = 34, "MDS_GETATTR_NAME";
        /// Closes a file.
        MDS_CLOSE = 35, "MDS_CLOSE";
        /// Changes metadata.
        MDS_REINT = 36, "MDS_REINT";
        /// Reads a directory.
        MDS_READPAGE = 37, "MDS_READPAGE";
        /// Connects to a metadata server.
        MDS_CONNECT = 38, "MDS_CONNECT";
        /// Disconnects from a metadata server.
        MDS_DISCONNECT = 39, "MDS_DISCONNECT";
        /// The FID of the root.
        MDS_GET_ROOT = 40, "MDS_GET_ROOT";
        /// Free space.
        MDS_STATFS = 41, "MDS_STATFS";
        /// Makes metadata durable.
        MDS_SYNC = 44, "MDS_SYNC";
        /// Sets a value by its key.
        MDS_SET_INFO = 46, "MDS_SET_INFO";
        /// Quota of a user, a group or a project.
        MDS_QUOTACTL = 48, "MDS_QUOTACTL";
        /// An extended attribute, or the list of them.
        MDS_GETXATTR = 49, "MDS_GETXATTR";
        /// A value by its key.
        MDS_GET_INFO = 53, "MDS_GET_INFO";
        /// The archive state of a file.
        MDS_HSM_STATE_GET = 54, "MDS_HSM_STATE_GET";
        /// Sets the archive state of a file.
        MDS_HSM_STATE_SET = 55, "MDS_HSM_STATE_SET";
        /// What the archive is doing with a file.
        MDS_HSM_ACTION = 56, "MDS_HSM_ACTION";
        /// Progress of a copy tool.
        MDS_HSM_PROGRESS = 57, "MDS_HSM_PROGRESS";
        /// Asks for archiving or restoring.
        MDS_HSM_REQUEST = 58, "MDS_HSM_REQUEST";
        /// Registers a copy tool.
        MDS_HSM_CT_REGISTER = 59, "MDS_HSM_CT_REGISTER";
        /// Removes a copy tool.
        MDS_HSM_CT_UNREGISTER = 60, "MDS_HSM_CT_UNREGISTER";
        /// Exchanges the layouts of two files.
        MDS_SWAP_LAYOUTS = 61, "MDS_SWAP_LAYOUTS";
        /// Removes files by their FIDs.
        MDS_RMFID = 62, "MDS_RMFID";
        /// Several requests in one.
        MDS_BATCH = 63, "MDS_BATCH";
        /// The data version of a file in the archive.
        MDS_HSM_DATA_VERSION = 64, "MDS_HSM_DATA_VERSION";
        /// Asks for a lock.
        LDLM_ENQUEUE = 101, "LDLM_ENQUEUE";
        /// Gives up some bits of a lock.
        LDLM_CONVERT = 102, "LDLM_CONVERT";
        /// Gives up locks.
        LDLM_CANCEL = 103, "LDLM_CANCEL";
        /// Asks the holder to give up a lock.
        LDLM_BL_CALLBACK = 104, "LDLM_BL_CALLBACK";
        /// Grants a lock that had to wait.
        LDLM_CP_CALLBACK = 105, "LDLM_CP_CALLBACK";
        /// Asks the holder of a lock for the size of an object.
        LDLM_GL_CALLBACK = 106, "LDLM_GL_CALLBACK";
        /// Sets a value by its key, for security contexts.
        LDLM_SET_INFO = 107, "LDLM_SET_INFO";
        /// Connects to the management server.
        MGS_CONNECT = 250, "MGS_CONNECT";
        /// Disconnects from the management server.
        MGS_DISCONNECT = 251, "MGS_DISCONNECT";
        /// Unused.
        MGS_EXCEPTION = 252, "MGS_EXCEPTION";
        /// Registers a target.
        MGS_TARGET_REG = 253, "MGS_TARGET_REG";
        /// Unused.
        MGS_TARGET_DEL = 254, "MGS_TARGET_DEL";
        /// Sets a parameter for all nodes.
        MGS_SET_INFO = 255, "MGS_SET_INFO";
        /// Reads a table of NIDs, or a configuration of nodes.
        MGS_CONFIG_READ = 256, "MGS_CONFIG_READ";
        /// Shows that the connection is in use.
        OBD_PING = 400, "OBD_PING";
        /// Reads pages of an index.
        OBD_IDX_READ = 403, "OBD_IDX_READ";
        /// Opens a log.
        LLOG_CREATE = 501, "LLOG_CREATE";
        /// Reads a block of a log.
        LLOG_NEXT_BLOCK = 502, "LLOG_NEXT_BLOCK";
        /// Reads the header of a log.
        LLOG_READ_HEADER = 503, "LLOG_READ_HEADER";
        /// Reads a block of a log, backwards.
        LLOG_PREV_BLOCK = 508, "LLOG_PREV_BLOCK";
        /// Acquires quota for a server.
        QUOTA_DQACQ = 601, "QUOTA_DQACQ";
        /// Releases quota of a server.
        QUOTA_DQREL = 602, "QUOTA_DQREL";
        /// Asks for a sequence.
        SEQ_QUERY = 700, "SEQ_QUERY";
        /// Asks which server owns a sequence.
        FLD_QUERY = 900, "FLD_QUERY";
        /// Reads the ranges that a server owns.
        FLD_READ = 901, "FLD_READ";
        /// Changes that one server makes on another.
        OUT_UPDATE = 1000, "OUT_UPDATE";
        /// Notifies a consistency check.
        LFSCK_NOTIFY = 1101, "LFSCK_NOTIFY";
        /// Asks for the state of a consistency check.
        LFSCK_QUERY = 1102, "LFSCK_QUERY";
    }
}

wire_enum! {
    /// The service that an opcode belongs to: the high half of the version word [RPC-10].
    pub struct Service: u16 {
        /// Connections, pings, indexes.
        OBD = 1, "obd";
        /// Metadata, sequences.
        MDS = 2, "mds";
        /// Objects.
        OST = 3, "ost";
        /// Locks.
        DLM = 4, "dlm";
        /// Logs.
        LOG = 5, "log";
        /// Management.
        MGS = 6, "mgs";
    }
}

impl Opcode {
    /// The service whose number the request carries; none for opcodes that no service has.
    pub const fn service(self) -> Option<Service> {
        Some(match self.0 {
            8 | 9 | 38 | 39 | 250 | 251 | 400 | 403 => Service::OBD,
            0..=23 => Service::OST,
            33..=64 => Service::MDS,
            101..=107 => Service::DLM,
            252..=256 => Service::MGS,
            501..=508 => Service::LOG,
            601 | 602 | 700 | 900 | 901 | 1000 | 1101 | 1102 => Service::MDS,
            _ => return None,
        })
    }

    /// The version word of a request: the service and 3 [RPC-10].
    pub const fn version_word(self) -> u32 {
        match self.service() {
            Some(service) => (service.0 as u32) << 16 | 3,
            None => 3,
        }
    }

    /// Whether it opens a connection: such requests carry no handle, and their replies stand at
    /// offset 0 and under the xid [RPC-14].
    pub const fn is_connect(self) -> bool {
        matches!(self, Opcode::OST_CONNECT | Opcode::MDS_CONNECT | Opcode::MGS_CONNECT)
    }

    /// Whether it closes a connection.
    pub const fn is_disconnect(self) -> bool {
        matches!(self, Opcode::OST_DISCONNECT | Opcode::MDS_DISCONNECT | Opcode::MGS_DISCONNECT)
    }

    /// The portal where kernel clients of 2.17 send this request to a target of this kind; none
    /// for requests that no client sends there [RPC-11].
    pub const fn request_portal(self, target: Target) -> Option<u32> {
        let main = target.main_portal();
        Some(match self {
            Opcode::LDLM_CANCEL | Opcode::LDLM_CONVERT => portal::LDLM_CANCEL,
            Opcode::LDLM_BL_CALLBACK | Opcode::LDLM_CP_CALLBACK | Opcode::LDLM_GL_CALLBACK => {
                portal::LDLM_CALLBACK
            }
            Opcode::OST_READ | Opcode::OST_WRITE | Opcode::OST_PUNCH => match target {
                Target::Mdt => portal::MDS_IO,
                _ => portal::OST_IO,
            },
            Opcode::OST_LADVISE | Opcode::OST_FALLOCATE => portal::OST_IO,
            Opcode::OST_STATFS => portal::OST_STATFS,
            Opcode::MDS_READPAGE
            | Opcode::MDS_GETATTR
            | Opcode::MDS_GETXATTR
            | Opcode::MDS_CLOSE => portal::MDS_READPAGE,
            Opcode::MDS_BATCH | Opcode::OUT_UPDATE => portal::OUT,
            Opcode::FLD_QUERY | Opcode::FLD_READ => portal::FLD,
            Opcode::SEQ_QUERY => portal::SEQ_METADATA,
            _ => match self.service() {
                Some(Service::OBD | Service::DLM | Service::LOG) => main,
                Some(Service::MDS) if matches!(target, Target::Mdt) => main,
                Some(Service::OST) if matches!(target, Target::Ost) => main,
                Some(Service::MGS) if matches!(target, Target::Mgs) => main,
                // A DoM file is made durable at its metadata server.
                Some(Service::OST) if matches!(self, Opcode::OST_SYNC) => main,
                _ => return None,
            },
        })
    }
}

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// The management server.
    Mgs,
    /// A metadata target.
    Mdt,
    /// An object storage target.
    Ost,
}

impl Target {
    /// The portal of connections, pings and most requests [RPC-11].
    pub const fn main_portal(self) -> u32 {
        match self {
            Target::Mgs => portal::MGS,
            Target::Mdt => portal::MDS,
            Target::Ost => portal::OST,
        }
    }

    /// The opcode of its connect request.
    pub const fn connect(self) -> Opcode {
        match self {
            Target::Mgs => Opcode::MGS_CONNECT,
            Target::Mdt => Opcode::MDS_CONNECT,
            Target::Ost => Opcode::OST_CONNECT,
        }
    }

    /// The opcode of its disconnect request.
    pub const fn disconnect(self) -> Opcode {
        match self {
            Target::Mgs => Opcode::MGS_DISCONNECT,
            Target::Mdt => Opcode::MDS_DISCONNECT,
            Target::Ost => Opcode::OST_DISCONNECT,
        }
    }

    /// The portal of the client's memory for bulk transfers with this server [RPC-11].
    pub const fn bulk_portal(self) -> u32 {
        match self {
            Target::Mgs => portal::MGS_BULK,
            Target::Mdt => portal::MDS_BULK,
            Target::Ost => portal::OST_BULK,
        }
    }
}

/// The portals of the RPC layer [RPC-11].
pub mod portal {
    /// Replies of object servers, and of `OUT`.
    pub const OST_REPLY: u32 = 4;
    /// Data of objects.
    pub const OST_IO: u32 = 6;
    /// Free space of object servers.
    pub const OST_STATFS: u32 = 7;
    /// Bulk with object servers.
    pub const OST_BULK: u32 = 8;
    /// Replies of metadata servers.
    pub const MDS_REPLY: u32 = 10;
    /// Metadata and its locks.
    pub const MDS: u32 = 12;
    /// Data of files on metadata servers, renames.
    pub const MDS_IO: u32 = 13;
    /// Bulk with metadata servers.
    pub const MDS_BULK: u32 = 14;
    /// Callbacks to holders of locks.
    pub const LDLM_CALLBACK: u32 = 15;
    /// Replies to callbacks.
    pub const LDLM_CALLBACK_REPLY: u32 = 16;
    /// Cancels and converts.
    pub const LDLM_CANCEL: u32 = 17;
    /// Replies to cancels and converts.
    pub const LDLM_CANCEL_REPLY: u32 = 18;
    /// Directory pages, attributes, closes.
    pub const MDS_READPAGE: u32 = 23;
    /// Between metadata servers, and batches.
    pub const OUT: u32 = 24;
    /// Replies of the management server.
    pub const MGS_REPLY: u32 = 25;
    /// Management, logs.
    pub const MGS: u32 = 26;
    /// Objects and their locks.
    pub const OST: u32 = 28;
    /// Owners of sequences.
    pub const FLD: u32 = 29;
    /// Sequences of metadata.
    pub const SEQ_METADATA: u32 = 30;
    /// Sequences of objects.
    pub const SEQ_DATA: u32 = 31;
    /// Sequences for servers.
    pub const SEQ_CONTROLLER: u32 = 32;
    /// Bulk with the management server.
    pub const MGS_BULK: u32 = 33;

    /// Whether requests arrive here.
    pub const fn is_request(portal: u32) -> bool {
        reply_to(portal).is_some()
    }

    /// Whether replies arrive here.
    pub const fn is_reply(portal: u32) -> bool {
        matches!(
            portal,
            OST_REPLY | MDS_REPLY | LDLM_CALLBACK_REPLY | LDLM_CANCEL_REPLY | MGS_REPLY
        )
    }

    /// Whether a client's memory for bulk is here.
    pub const fn is_bulk(portal: u32) -> bool {
        matches!(portal, OST_BULK | MDS_BULK | MGS_BULK)
    }

    /// The portal of the reply to a request on this one [RPC-11].
    pub const fn reply_to(request: u32) -> Option<u32> {
        Some(match request {
            OST_IO | OST_STATFS | OUT | OST | SEQ_DATA => OST_REPLY,
            MDS | MDS_IO | MDS_READPAGE | FLD | SEQ_METADATA | SEQ_CONTROLLER => MDS_REPLY,
            LDLM_CALLBACK => LDLM_CALLBACK_REPLY,
            LDLM_CANCEL => LDLM_CANCEL_REPLY,
            MGS => MGS_REPLY,
            _ => return None,
        })
    }
}
