//! Requests for metadata [MDT-7].

use crate::batch::{BatchHeader, BulkBuffers, UpdateHeader};
use crate::codec::Array;
use crate::fid::Fid;
use crate::layout::Ea;
use crate::ldlm::LdlmRequest;
use crate::mdt::{CloseData, MdtBody, MdtEpoch, Reint};
use crate::rpc::AclBytes;
use crate::text::Text;

buffers! {
    /// Attributes of a file; a directory to read; a file to make durable.
    pub struct Getattr {
        /// The file, what is wanted.
        body: MdtBody, empty 1;
    }
}

buffers! {
    /// Attributes of a file by its name.
    pub struct GetattrName<'a> {
        /// The parent, what is wanted.
        body: MdtBody, empty 1;
        /// The name.
        name: Text<'a>;
    }
}

buffers! {
    /// Attributes.
    pub struct GetattrReply<'a> {
        /// Attributes.
        body: MdtBody;
        /// The layout, or the target of a symbolic link.
        ea: Ea<'a>;
        /// Access control list.
        acl: AclBytes<'a>, empty 2;
        [
            /// Encryption context.
            encctx: &'a [u8];
        ]
    }
}

buffers! {
    /// A body alone.
    pub struct Body {
        /// The body.
        body: MdtBody;
    }
}

buffers! {
    /// Closes a file [MDT-11].
    pub struct Close<'a> {
        /// The handle.
        epoch: MdtEpoch;
        /// Times, size, what else is done.
        record: Reint, empty 1;
        [
            /// Of a close that does more.
            close_data: Option<CloseData>;
            /// Components that were made equal.
            components: Array<'a, u32>;
        ]
    }
}

buffers! {
    /// The answer to a close, an unlink, a rename.
    pub struct CloseReply<'a> {
        /// Attributes.
        body: MdtBody;
        /// The layout; empty.
        ea: Ea<'a>;
        /// Empty.
        cookies: &'a [u8], empty 2;
    }
}

buffers! {
    /// Sets attributes, or the default layout of a directory [MDT-6].
    pub struct ReintSetattr<'a> {
        /// What is set.
        record: Reint, empty 1;
        /// An open handle.
        epoch: Option<MdtEpoch>;
        /// A layout.
        ea: Ea<'a>;
        /// Empty.
        cookies: &'a [u8];
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
    }
}

buffers! {
    /// The answer to a setattr.
    pub struct ReintSetattrReply<'a> {
        /// Attributes.
        body: MdtBody;
        /// The layout.
        ea: Ea<'a>;
        /// Access control list.
        acl: AclBytes<'a>, empty 2;
    }
}

buffers! {
    /// Makes a directory, a symbolic link, a special file.
    pub struct ReintCreate<'a> {
        /// What is made.
        record: Reint, empty 1;
        /// Its name.
        name: Text<'a>;
        /// A layout of a directory, or the target of a symbolic link with its zero byte.
        ea: Ea<'a>;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
        /// Name of a security attribute.
        secctx_name: Text<'a>;
        /// Its value.
        secctx: &'a [u8];
        /// A policy of SELinux.
        selinux: Text<'a>;
        /// Encryption context.
        encctx: &'a [u8];
    }
}

buffers! {
    /// The answer to a create.
    pub struct ReintCreateReply<'a> {
        /// Attributes.
        body: MdtBody, empty 1;
        [
            /// The layout of a new directory (2.16).
            ea: Ea<'a>;
        ]
    }
}

buffers! {
    /// Adds a name.
    pub struct ReintLink<'a> {
        /// The file and the parent.
        record: Reint, empty 2;
        /// The name.
        name: Text<'a>;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
        /// A policy of SELinux.
        selinux: Text<'a>;
    }
}

buffers! {
    /// Removes a name.
    pub struct ReintUnlink<'a> {
        /// The parent.
        record: Reint, empty 1;
        /// The name.
        name: Text<'a>;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
        /// A policy of SELinux.
        selinux: Text<'a>;
    }
}

buffers! {
    /// Changes a name.
    pub struct ReintRename<'a> {
        /// The parents.
        record: Reint, empty 2;
        /// The old name.
        name: Text<'a>;
        /// The new name.
        target: Text<'a>;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
        /// A policy of SELinux.
        selinux: Text<'a>;
    }
}

buffers! {
    /// Sets or removes an extended attribute.
    pub struct ReintSetxattr<'a> {
        /// The file.
        record: Reint, empty 1;
        /// The name of the attribute.
        name: Text<'a>;
        /// Its value.
        value: &'a [u8];
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
        /// A policy of SELinux.
        selinux: Text<'a>;
    }
}

buffers! {
    /// Moves a directory to another server.
    pub struct ReintMigrate<'a> {
        /// The parent and the directory.
        record: Reint, empty 2;
        /// The name.
        name: Text<'a>;
        /// The new name.
        target: Text<'a>;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
        /// A policy of SELinux.
        selinux: Text<'a>;
        [
            /// An open handle.
            epoch: Option<MdtEpoch>;
            /// Of a close.
            close_data: Option<CloseData>;
            /// The layout wanted.
            ea: Ea<'a>;
        ]
    }
}

buffers! {
    /// Prepares mirrors to be made equal.
    pub struct ReintResync<'a> {
        /// The file.
        record: Reint;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
    }
}

buffers! {
    /// Finds the root.
    pub struct GetRoot<'a> {
        /// Who asks.
        body: MdtBody;
        [
            /// A directory to mount instead of the root.
            fileset: Text<'a>;
        ]
    }
}

buffers! {
    /// The root.
    pub struct GetRootReply {
        /// Its FID.
        body: MdtBody, empty 1;
    }
}

buffers! {
    /// Free space: of this server, or of all if there is a body that says so.
    pub struct Statfs {
        [
            /// What is wanted.
            body: MdtBody;
        ]
    }
}

buffers! {
    /// Sets a value by its key.
    pub struct SetInfo<'a> {
        /// The key: a text with or without a zero byte.
        key: Text<'a>;
        /// The value.
        value: &'a [u8];
        [
            /// Who sets it.
            body: MdtBody;
        ]
    }
}

buffers! {
    /// An extended attribute, or the list of their names.
    pub struct Getxattr<'a> {
        /// The file, room for the answer.
        body: MdtBody, empty 1;
        [
            /// The name of the attribute.
            name: Text<'a>;
            /// Empty.
            value: &'a [u8];
            /// A policy of SELinux.
            selinux: Text<'a>;
        ]
    }
}

buffers! {
    /// An extended attribute, or the list of their names.
    pub struct GetxattrReply<'a> {
        /// The length.
        body: MdtBody;
        /// The value, or names with a zero byte each.
        value: &'a [u8];
    }
}

buffers! {
    /// Asks for a value by its key.
    pub struct GetInfo<'a> {
        /// The key.
        key: &'a [u8];
        /// Room for the value in bytes.
        value_len: Array<'a, u32>;
    }
}

buffers! {
    /// A value.
    pub struct GetInfoReply<'a> {
        /// The value.
        value: &'a [u8];
    }
}

buffers! {
    /// Sets the archive state of a file.
    pub struct HsmStateSet<'a> {
        /// The file.
        body: MdtBody, empty 1;
        /// The state.
        state: &'a [u8];
    }
}

buffers! {
    /// The archive state of a file, or what the archive is doing with it.
    pub struct HsmReply<'a> {
        /// The file.
        body: MdtBody;
        /// The state, or the action.
        state: &'a [u8];
    }
}

buffers! {
    /// Exchanges the layouts of two files.
    pub struct SwapLayouts<'a> {
        /// The files.
        body: MdtBody;
        /// Flags, and in newer releases more.
        swap: &'a [u8], empty 2;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>;
    }
}

buffers! {
    /// Removes files by their FIDs.
    pub struct Rmfid<'a> {
        /// Who removes them.
        body: MdtBody;
        /// The files.
        fids: Array<'a, Fid>, empty 2;
    }
}

buffers! {
    /// What became of the files.
    pub struct RmfidReply<'a> {
        /// A body.
        body: MdtBody;
        /// The files.
        fids: Array<'a, Fid>;
        /// For each of them 0 or a negative errno.
        results: Array<'a, i32>;
    }
}

buffers! {
    /// Several requests in one [MDT-19].
    pub struct Batch<'a> {
        /// The block, if it is inline.
        header: BatchHeader<'a>;
        /// The blocks that come by bulk.
        buffers: BulkBuffers<'a>;
    }
}

buffers! {
    /// Updates that one server makes on another.
    pub struct OutUpdate<'a> {
        /// The updates, if they are inline.
        header: UpdateHeader<'a>;
        /// The buffers that come by bulk.
        buffers: BulkBuffers<'a>;
    }
}

buffers! {
    /// The answers of a batch: a [`Block`](crate::batch::Block), then zeros; or results of
    /// updates.
    pub struct BlockReply<'a> {
        /// As received.
        reply: &'a [u8];
    }
}
