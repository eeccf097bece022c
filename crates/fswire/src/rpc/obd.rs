//! Requests that several services have: connections, logs, sequences, indexes, management.

use crate::codec::Array;
use crate::connect::ConnectData;
use crate::fid::{FldOp, Handle, SeqOp, SeqRange};
use crate::idx::IdxInfo;
use crate::llog::{Chunk, LlogBody, LlogHeader};
use crate::mdt::MdtBody;
use crate::mgs::{ConfigBody, ConfigRes, TargetInfo};
use crate::quota::{PoolQuotactl, QuotaBody};
use crate::text::{FixedText, Text};

pub use super::lists::Nothing;

buffers! {
    /// Connects to a target [RPC-17].
    pub struct Connect<'a> {
        /// The name of the target, such as `lab-OST0000_UUID`.
        target: FixedText<39>;
        /// The uuid of the client.
        client: FixedText<39>;
        /// The client's handle: callbacks name it.
        handle: Handle;
        /// What the client offers.
        data: ConnectData;
        [
            /// A policy of SELinux; empty.
            selinux: Text<'a>;
        ]
    }
}

buffers! {
    /// The reply to a connect: what the server granted.
    pub struct ConnectReply {
        /// The flags and values granted.
        data: ConnectData;
    }
}

buffers! {
    /// A key and its value, to be set.
    pub struct SetInfo<'a> {
        /// The key: a text with or without a zero byte, or a structure.
        key: &'a [u8];
        /// The value.
        value: &'a [u8];
    }
}

buffers! {
    /// Opens a log [MGS-4].
    pub struct LlogCreate<'a> {
        /// The log, if it is not opened by name.
        body: LlogBody;
        [
            /// The name.
            name: Text<'a>;
            /// Who opens it.
            caller: MdtBody;
        ]
    }
}

buffers! {
    /// A log, and what is wanted or found there [MGS-4].
    pub struct Llog {
        /// The log.
        body: LlogBody;
    }
}

buffers! {
    /// A block of a log.
    pub struct LlogBlock<'a> {
        /// Where it stands.
        body: LlogBody;
        /// Its records.
        chunk: Chunk<'a>;
    }
}

buffers! {
    /// The header of a log.
    pub struct LlogHead<'a> {
        /// The header; none if the request failed.
        header: Option<LlogHeader<'a>>;
    }
}

buffers! {
    /// Asks for sequences [MDT-2].
    pub struct SeqQuery {
        /// What is asked.
        op: SeqOp;
        /// Which kind of server; else zeros.
        range: SeqRange;
    }
}

buffers! {
    /// Asks which server owns a sequence [MDT-2].
    pub struct FldQuery {
        /// What is asked.
        op: FldOp;
        /// It starts with the sequence.
        range: SeqRange;
    }
}

buffers! {
    /// A range of sequences.
    pub struct Range {
        /// The range.
        range: SeqRange;
    }
}

buffers! {
    /// Ranges of sequences.
    pub struct Ranges<'a> {
        /// As received.
        data: &'a [u8];
    }
}

buffers! {
    /// Pages of an index [RPC-21].
    pub struct Idx {
        /// What is asked, or what was found.
        info: IdxInfo;
    }
}

buffers! {
    /// Registers a target [MGS-11].
    pub struct TargetReg<'a> {
        /// The target.
        info: TargetInfo<'a>;
        [
            /// Its NIDs (2.17).
            nids: &'a [u8];
        ]
    }
}

buffers! {
    /// A target as it was registered.
    pub struct TargetRegReply<'a> {
        /// The target.
        info: TargetInfo<'a>;
    }
}

buffers! {
    /// A parameter for all nodes.
    pub struct MgsSetInfo<'a> {
        /// As received.
        param: &'a [u8];
    }
}

buffers! {
    /// Reads a table of NIDs [MGS-12].
    pub struct ConfigRead {
        /// Which table.
        body: ConfigBody;
    }
}

buffers! {
    /// How much of a table was read.
    pub struct ConfigReadReply {
        /// Versions.
        res: ConfigRes;
    }
}

buffers! {
    /// Asks for quota [MDT-18].
    pub struct Quota {
        /// What is asked.
        quota: PoolQuotactl;
    }
}

buffers! {
    /// Quota.
    pub struct QuotaReply<'a> {
        /// What was found.
        quota: PoolQuotactl;
        [
            /// A list of quotas (2.17); empty.
            list: &'a [u8];
        ]
    }
}

buffers! {
    /// Quota that a server acquires or releases.
    pub struct QuotaAcquire {
        /// How much.
        body: QuotaBody;
    }
}

/// Numbers of 32 bits that fill a buffer.
pub type Words<'a> = Array<'a, u32>;
