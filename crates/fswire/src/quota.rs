//! Quota [MDT-18].

#[cfg(test)]
mod tests;

use crate::codec::{Reader, Short, Writer};
use crate::describe::{Describe, Value};
use crate::fid::{Fid, Handle};
use crate::text::FixedText;

wire_enum! {
    /// Whose quota.
    pub struct QuotaKind: u32 {
        /// Of a user.
        USER = 0, "user";
        /// Of a group.
        GROUP = 1, "group";
        /// Of a project.
        PROJECT = 2, "project";
    }
}

wire_enum! {
    /// The command of a quota request.
    pub struct QuotaCommand: u32 {
        /// Times of grace.
        GET_INFO = 0x80_0005, "get_info";
        /// Sets times of grace.
        SET_INFO = 0x80_0006, "set_info";
        /// Limits and usage.
        GET_QUOTA = 0x80_0007, "get_quota";
        /// Sets limits.
        SET_QUOTA = 0x80_0008, "set_quota";
        /// Limits and usage of one target.
        GET_OST_QUOTA = 0x80_0103, "get_target_quota";
    }
}

wire_struct! {
    /// A question about quota, and its answer.
    pub struct Quotactl [112] {
        /// The command of a quota request.
        command: QuotaCommand;
        /// Whose quota.
        kind: QuotaKind;
        /// The number of the user, group or project.
        id: u32;
        /// State.
        stat: u32;
        /// Time of grace for blocks, in seconds.
        bgrace: u64;
        /// Time of grace for inodes, in seconds.
        igrace: u64;
        /// Flags of the times of grace.
        iflags: u32 => hex;
        /// Which times of grace are valid.
        ivalid: u32 => hex;
        /// Hard limit in KiB.
        bhardlimit: u64;
        /// Soft limit in KiB.
        bsoftlimit: u64;
        /// Usage in bytes.
        curspace: u64;
        /// Hard limit of inodes.
        ihardlimit: u64;
        /// Soft limit of inodes.
        isoftlimit: u64;
        /// Usage in inodes.
        curinodes: u64;
        /// When the grace period for blocks ends.
        btime: u64;
        /// When the grace period for inodes ends.
        itime: u64;
        /// Which limits are valid.
        valid: u32 => hex, pad 4;
    }
}

/// A question about quota with the name of a pool, which older releases do not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolQuotactl {
    /// The question, or its answer.
    pub control: Quotactl,
    /// The pool.
    pub pool: Option<FixedText<16>>,
}

impl PoolQuotactl {
    /// Reads the buffer.
    ///
    /// # Errors
    /// [`Short`].
    pub fn parse(bytes: &[u8]) -> Result<PoolQuotactl, Short> {
        let mut from = Reader::new(bytes);
        Ok(PoolQuotactl { control: from.value()?, pool: from.value().ok() })
    }

    /// Appends the buffer.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.control);
        if let Some(pool) = &self.pool {
            to.put(pool);
        }
    }
}

impl Describe for PoolQuotactl {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.control.describe() else {
            unreachable!("structures have fields")
        };
        fields.push(("pool", self.pool.describe()));
        Value::Fields(fields)
    }
}

wire_struct! {
    /// Quota that one server acquires from another.
    pub struct QuotaBody [112] {
        /// The index.
        fid: Fid;
        /// The id.
        id: Fid;
        /// What is done.
        flags: u32 => hex, pad 4;
        /// How much.
        count: u64;
        /// Usage.
        usage: u64;
        /// Version of the settings.
        slave_version: u64;
        /// The lock of the id.
        lock: Handle;
        /// The lock of the index.
        global_lock: Handle, pad 32;
    }
}
