//! Requests and replies of the lock manager.

use crate::codec::{Array, Reader, Short, Wire, Writer};
use crate::describe::{Describe, Value};
use crate::fid::Handle;
use crate::ldlm::{LockDesc, LockFlags};

/// Statuses of lock requests that are no errno: positive in the body of a reply, negative in the
/// answer to a callback [LOCK-8].
#[allow(non_snake_case)]
pub mod ELDLM {
    /// The intent was executed, there is no lock.
    pub const LOCK_ABORTED: i32 = 301;
    /// The lock was replaced; not on the wire.
    pub const LOCK_REPLACED: i32 = 302;
    /// The lock has no data.
    pub const NO_LOCK_DATA: i32 = 303;
    /// The lock would have to wait.
    pub const LOCK_WOULDBLOCK: i32 = 304;
}

/// A request about locks: an enqueue, a cancel, a callback [LOCK-7].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LdlmRequest<'a> {
    /// Flags.
    pub flags: LockFlags,
    /// The number of handles that count. 0 counts as 1 in an enqueue, and is sent in callbacks.
    pub count: u32,
    /// The lock.
    pub desc: LockDesc,
    /// Enqueue: the client's own, then locks to be cancelled. Callback: the client's, then the
    /// server's. Cancel and convert: the server's. There is room for two at least on the wire;
    /// handles that are missing there are written as 0.
    pub handles: Array<'a, Handle>,
}

impl<'a> LdlmRequest<'a> {
    /// The shortest one, with two handles.
    pub const SIZE_MIN: usize = 8 + LockDesc::SIZE + 16;

    /// Reads the buffer. Bytes behind the last whole handle are ignored.
    ///
    /// # Errors
    /// [`Short`] if there are fewer than [`LdlmRequest::SIZE_MIN`] bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<LdlmRequest<'a>, Short> {
        if bytes.len() < LdlmRequest::SIZE_MIN {
            return Err(Short { wanted: LdlmRequest::SIZE_MIN, have: bytes.len() });
        }
        let mut from = Reader::new(bytes);
        let (flags, count, desc) = (from.value()?, from.value()?, from.value()?);
        let rest = from.rest();
        let whole = rest.len() / Handle::SIZE * Handle::SIZE;
        let handles = Array::parse(&rest[..whole]).unwrap_or_default();
        Ok(LdlmRequest { flags, count, desc, handles })
    }

    /// Appends the buffer.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.flags);
        to.put(&self.count);
        to.put(&self.desc);
        self.handles.write(to);
        to.zeros(Handle::SIZE * 2usize.saturating_sub(self.handles.len()));
    }

    /// Handle `index`; none if it is missing or 0.
    pub fn handle(&self, index: usize) -> Option<Handle> {
        self.handles.get(index).filter(|&handle| handle != Handle::NONE)
    }

    /// Whether `count` handles are there.
    pub fn count_fits(&self) -> bool {
        self.count as usize <= self.handles.len().max(2)
    }

    /// The handles that count, from `first` on: those to be cancelled early start at 1 in an
    /// enqueue and at 0 in a change of metadata [LOCK-10].
    pub fn counted(&self, first: usize) -> impl Iterator<Item = Handle> + use<'a> {
        let count = (self.count as usize).min(self.handles.len());
        self.handles.iter().take(count).skip(first)
    }
}

impl Describe for LdlmRequest<'_> {
    fn describe(&self) -> Value {
        Value::Fields(vec![
            ("flags", self.flags.describe()),
            ("count", self.count.describe()),
            ("desc", self.desc.describe()),
            ("handles", self.handles.describe()),
        ])
    }
}

wire_struct! {
    /// The answer to an enqueue or a convert [LOCK-7].
    pub struct LdlmReply [112] {
        /// Flags.
        flags: LockFlags, pad 4;
        /// The lock as it is.
        desc: LockDesc;
        /// The server's handle; none if there is no lock.
        handle: Handle;
        /// Intents: a [`Disposition`](super::Disposition). Glimpses: a status.
        policy_res1: u64 => hex;
        /// Intents: 0 or a negative errno.
        policy_res2: i64;
    }
}

impl LdlmReply {
    /// What was done for an intent.
    pub const fn disposition(&self) -> super::Disposition {
        super::Disposition::from_bits_retain(self.policy_res1)
    }

    /// Whether the lock is granted: its mode says so, never the flags alone [LOCK-8].
    pub fn is_granted(&self) -> bool {
        self.desc.granted_mode != super::LockMode::NONE && self.handle != Handle::NONE
    }
}
