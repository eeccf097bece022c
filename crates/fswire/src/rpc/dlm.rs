//! Requests for locks [LOCK-7], and intents [LOCK-9].

use crate::codec::Array;
use crate::layout::Ea;
use crate::ldlm::{IntentOp, LayoutIntent, LdlmReply, LdlmRequest, QuotaLvb};
use crate::mdt::{MdtBody, Reint};
use crate::quota::QuotaBody;
use crate::rpc::{AclBytes, Lvb, Names};
use crate::text::Text;

buffers! {
    /// A lock: enqueue without an intent, convert, cancel, BL_CALLBACK.
    pub struct Lock<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
    }
}

buffers! {
    /// The answer to an enqueue without an intent.
    pub struct EnqueueReply<'a> {
        /// The lock.
        reply: LdlmReply;
        [
            /// Its value.
            lvb: Lvb<'a>;
        ]
    }
}

buffers! {
    /// The answer to a convert.
    pub struct ConvertReply {
        /// The lock.
        reply: LdlmReply;
    }
}

buffers! {
    /// CP_CALLBACK: grants a lock that had to wait.
    pub struct Completion<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
        /// Its value.
        lvb: Lvb<'a>;
    }
}

buffers! {
    /// GL_CALLBACK: asks for the size of an object.
    pub struct Glimpse<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
        [
            /// Quota locks only: what changed.
            desc: &'a [u8];
        ]
    }
}

buffers! {
    /// The answer to GL_CALLBACK.
    pub struct GlimpseReply<'a> {
        /// The value that the holder knows.
        lvb: Lvb<'a>;
    }
}

buffers! {
    /// Opens or creates a file [MDT-12].
    pub struct OpenIntent<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
        /// What is to be done: open, creat, or both.
        intent: IntentOp;
        /// The file and the flags.
        record: Reint, empty 2;
        /// The name; none in an open by FID.
        name: Text<'a>;
        /// A layout, or room for one.
        ea: Ea<'a>;
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
    /// The answer to an open.
    pub struct OpenReply<'a> {
        /// The lock, what was done, and its status.
        reply: LdlmReply;
        /// Attributes and handle.
        body: MdtBody;
        /// The layout.
        ea: Ea<'a>;
        /// Access control list.
        acl: AclBytes<'a>, empty 2;
        /// A niobuf, and data of the file or a page of the directory.
        inline: &'a [u8];
        [
            /// Security context.
            secctx: &'a [u8];
            /// Encryption context.
            encctx: &'a [u8];
            /// Default layout of new directories.
            default_ea: Ea<'a>;
        ]
    }
}

buffers! {
    /// Attributes, or a look-up; also the sub-request of a batch.
    pub struct GetattrIntent<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
        /// What is to be done: getattr or lookup.
        intent: IntentOp;
        /// Parent, child, what is wanted.
        body: MdtBody, empty 1;
        /// The name; an empty one for the object itself.
        name: Text<'a>;
        [
            /// Name of a security attribute.
            secctx_name: Text<'a>;
        ]
    }
}

buffers! {
    /// The answer to a getattr or a look-up; also the sub-reply of a batch.
    pub struct GetattrIntentReply<'a> {
        /// The lock, what was done, and its status.
        reply: LdlmReply;
        /// Attributes.
        body: MdtBody;
        /// The layout.
        ea: Ea<'a>;
        /// Access control list.
        acl: AclBytes<'a>, empty 1;
        [
            /// Security context.
            secctx: &'a [u8];
            /// Default layout of new directories.
            default_ea: Ea<'a>;
            /// Encryption context.
            encctx: &'a [u8];
        ]
    }
}

buffers! {
    /// All extended attributes.
    pub struct GetxattrIntent<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
        /// Getxattr.
        intent: IntentOp;
        /// The file.
        body: MdtBody, empty 1;
        [
            /// A policy of SELinux.
            selinux: Text<'a>;
        ]
    }
}

buffers! {
    /// All extended attributes.
    pub struct GetxattrIntentReply<'a> {
        /// The lock, what was done, and its status.
        reply: LdlmReply;
        /// Lengths.
        body: MdtBody;
        /// Room for a layout, not used.
        ea: Ea<'a>;
        /// Room for an access control list, not used.
        acl: AclBytes<'a>;
        /// The names.
        names: Names<'a>;
        /// The values, one behind the other.
        values: &'a [u8];
        /// The length of each value.
        lens: Array<'a, u32>;
    }
}

buffers! {
    /// A layout, perhaps changed for a write.
    pub struct LayoutIntentRequest<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
        /// Layout.
        intent: IntentOp;
        /// What is to be done with it.
        layout: LayoutIntent;
        /// Replay: the layout of the first reply.
        ea: Ea<'a>;
    }
}

buffers! {
    /// Quota for a server.
    pub struct QuotaIntent<'a> {
        /// The lock.
        lock: LdlmRequest<'a>;
        /// Quota.
        intent: IntentOp;
        /// How much.
        body: QuotaBody;
    }
}

buffers! {
    /// Quota for a server.
    pub struct QuotaIntentReply {
        /// The lock.
        reply: LdlmReply;
        /// Its value.
        lvb: Option<QuotaLvb>;
        /// How much.
        body: QuotaBody;
    }
}
