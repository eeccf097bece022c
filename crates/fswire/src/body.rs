//! The first buffer of every message: `ptlrpc_body` [RPC-7].

#[cfg(test)]
mod tests;

use crate::checksum;
use crate::codec::{Short, Wire};
use crate::fid::Handle;
use crate::opcode::Opcode;
use crate::text::FixedText;

wire_enum! {
    /// The type of a message.
    pub struct MessageType: u32 {
        /// A request.
        REQUEST = 4711, "request";
        /// A reply to a request that failed early. The status decides, not this [RPC-8].
        ERROR = 4712, "error";
        /// A reply.
        REPLY = 4713, "reply";
    }
}

wire_flags! {
    /// State of a request in recovery, and which fields are valid [RPC-7].
    pub struct BodyFlags: u32 {
        /// The same request was sent before, with the same xid.
        RESENT = 0x2;
        /// Replays a change that the server had executed.
        REPLAY = 0x4;
        /// The client has replayed all requests.
        REQ_REPLAY_DONE = 0x40;
        /// The client has replayed all locks.
        LOCK_REPLAY_DONE = 0x80;
        /// The client is not served (2.17).
        CLIENT_BANNED = 0x100;
        /// `uid` and `gid` are valid (2.16).
        UID_GID = 0x200;
        /// `projid` is valid (2.17).
        PROJID = 0x400;
    }
}

wire_flags! {
    /// Of a connect request or its reply [RPC-7].
    pub struct OpFlags: u32 {
        /// Reply: the target recovers.
        RECOVERING = 0x1;
        /// Reply: the client was connected before.
        RECONNECT = 0x2;
        /// Reply: changes can be replayed.
        REPLAYABLE = 0x4;
        /// Obsolete.
        PEER = 0x8;
        /// Request of a client without a kernel part; refused.
        LIBCLIENT = 0x10;
        /// Request: the first one of this import.
        INITIAL = 0x20;
        /// Obsolete.
        ASYNC = 0x40;
        /// Obsolete.
        NEXT_VER = 0x80;
        /// Request: the transno of the connect data is valid.
        TRANSNO = 0x100;
    }
}

/// The low half of the version word.
pub const VERSION: u32 = 3;

wire_struct! {
    /// What every request and every reply carries [RPC-7].
    pub struct PtlrpcBody [184] {
        /// Request: the handle of the connection; 0 in a first connect. Reply to a connect: the
        /// handle to use from then on; else 0.
        handle: Handle;
        /// The type of the message.
        kind: MessageType;
        /// The service in the high half, [`VERSION`] in the low one; no service in replies.
        version: u32 => hex;
        /// The operation, also in replies.
        opcode: Opcode;
        /// Request: process id of the caller. Reply: 0, a negative errno, or a number that the
        /// operation returns.
        status: i32;
        /// Request: replies to all requests with an xid up to this have arrived [RPC-13].
        last_xid: u64 => hex;
        /// Request: slot of a change of metadata, from 1; 0 for none [RPC-13].
        tag: u16, pad 2;
        /// The project of the caller, with [`BodyFlags::PROJID`].
        projid: u32;
        /// Reply: the highest transno of this client on stable storage.
        last_committed: u64 => hex;
        /// Reply: number of the change; 0 for none. Request: that of a change that is replayed.
        transno: u64 => hex;
        /// State in recovery, valid fields.
        flags: BodyFlags;
        /// Of connects.
        op_flags: OpFlags;
        /// Request: how many connects the import has made.
        conn_cnt: u32;
        /// Request: seconds until the client gives up; never 0. Reply: estimate of the service
        /// time in seconds; 0 for none.
        timeout: u32;
        /// Reply: seconds that the request spent in the server, at least 1.
        service_time: u32;
        /// Reply: locks that the client may keep; 0 for no limit.
        limit: u32;
        /// Reply: the server's lock volume; 0 for none.
        slv: u64 => hex;
        /// Versions of the objects before the change: from the reply, repeated in a replay.
        pre_versions: [u64; 4] => hex;
        /// Request: the last of the match bits of bulk, and match bits of the reply [RPC-15].
        mbits: u64 => hex, pad 16;
        /// The caller's user, with [`BodyFlags::UID_GID`].
        uid: u32;
        /// The caller's group.
        gid: u32;
        /// Names the job of the caller; may be empty.
        jobid: FixedText<32>;
    }
}

impl PtlrpcBody {
    /// The shortest one that is accepted: without the name of the job.
    pub const SIZE_MIN: usize = 152;

    /// The body of a request: type, version and opcode are set, everything else is 0.
    pub fn request(opcode: Opcode) -> PtlrpcBody {
        PtlrpcBody {
            kind: MessageType::REQUEST,
            version: opcode.version_word(),
            opcode,
            ..PtlrpcBody::default()
        }
    }

    /// The body of a reply with status 0, everything else 0.
    pub fn reply(opcode: Opcode) -> PtlrpcBody {
        PtlrpcBody { kind: MessageType::REPLY, version: VERSION, opcode, ..PtlrpcBody::default() }
    }

    /// Reads a body of any accepted length; what is missing is 0.
    ///
    /// # Errors
    /// [`Short`] if there are fewer than [`PtlrpcBody::SIZE_MIN`] bytes.
    pub fn parse_any(bytes: &[u8]) -> Result<PtlrpcBody, Short> {
        if bytes.len() >= PtlrpcBody::SIZE {
            return PtlrpcBody::parse(bytes);
        }
        if bytes.len() < PtlrpcBody::SIZE_MIN {
            return Err(Short { wanted: PtlrpcBody::SIZE_MIN, have: bytes.len() });
        }
        let mut whole = [0; PtlrpcBody::SIZE];
        whole[..bytes.len()].copy_from_slice(bytes);
        PtlrpcBody::parse(&whole)
    }

    /// The service that the version word names.
    pub const fn service(&self) -> u16 {
        (self.version >> 16) as u16
    }

    /// Whether the low half of the version word is 3.
    pub const fn version_is_known(&self) -> bool {
        self.version & 0xffff == VERSION
    }
}

/// The checksum in the header of an early reply: of the bytes of its body [RPC-16].
pub fn early_reply_checksum(body: &[u8]) -> u32 {
    checksum::crc32(body)
}
