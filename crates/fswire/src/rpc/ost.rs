//! Requests for objects [OST-3].

use crate::codec::Array;
use crate::ldlm::LdlmRequest;
use crate::ost::{IoObj, Ladvise, LadviseHeader, Niobuf, Obdo, Statfs};

buffers! {
    /// An operation on an object: getattr, setattr, punch, sync, fallocate.
    pub struct Object {
        /// The object and parameters.
        body: Obdo, empty 1;
    }
}

buffers! {
    /// An operation on an object, without room for a capability: create, seek, all replies.
    pub struct ObjectOnly {
        /// The object and parameters, or results.
        body: Obdo;
    }
}

buffers! {
    /// Destroys objects.
    pub struct Destroy<'a> {
        /// The first object.
        body: Obdo;
        /// Locks to be cancelled.
        locks: Option<LdlmRequest<'a>>, empty 1;
    }
}

buffers! {
    /// Reads or writes data [OST-4].
    pub struct Brw<'a> {
        /// Grant, checksum, lock.
        body: Obdo;
        /// The object.
        object: IoObj;
        /// The ranges.
        niobufs: Array<'a, Niobuf>, empty 1;
        /// Data of a short write; empty otherwise.
        data: &'a [u8];
    }
}

buffers! {
    /// The answer to a read.
    pub struct ReadReply<'a> {
        /// Checksum.
        body: Obdo;
        /// Data of a short read: as many bytes as the status says. Empty otherwise.
        data: &'a [u8];
    }
}

buffers! {
    /// The answer to a write.
    pub struct WriteReply<'a> {
        /// Grant, checksum, attributes.
        body: Obdo;
        /// For each niobuf 0 or a negative errno.
        results: Array<'a, i32>;
    }
}

buffers! {
    /// Free space.
    pub struct StatfsReply {
        /// The space of a target.
        statfs: Statfs;
    }
}

buffers! {
    /// Advice on the use of ranges.
    pub struct LadviseRequest<'a> {
        /// The object.
        body: Obdo;
        /// How many pieces.
        header: LadviseHeader;
        /// The pieces.
        advices: Array<'a, Ladvise>;
    }
}

buffers! {
    /// Asks for a value by its key.
    pub struct GetInfo<'a> {
        /// The key.
        key: &'a [u8];
        /// The value, with room for the answer.
        value: &'a [u8];
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
    /// The answer to a value that was set.
    pub struct SetInfoReply {
        [
            /// Key "grant_shrink": the grant.
            body: Obdo;
        ]
    }
}
