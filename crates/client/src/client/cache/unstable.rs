//! Data that servers have, and have not committed: a server that restarts gets them again
//! [OST-24].

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::opcode::Target;
use lustrine_fswire::ost::Obdo;
use lustrine_fswire::rpc::{Request, ost};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, Reply, RpcError};

use super::writes::total;
use super::{Cache, ObjectKey};
use crate::client::io::{Work, part_of};
use crate::client::transfer::OBJECT;
use crate::client::{CallArgs, CallKey, Client, Done};
use crate::error::{ClientError, Outcome};
use crate::reply::reply_of;

/// Most bytes that are kept for servers that restart, if not less may be dirty. They are beside the
/// cache, in the memory of the node. When there are so many, a write has its server commit what
/// came before.
const UNSTABLE_MAX: u64 = 64 << 20;

/// The writes that are not committed.
#[derive(Default)]
pub(super) struct Unstable {
    writes: BTreeMap<CallKey, UnstableWrite>,
    /// Their bytes, and those of writes in flight that will be among them.
    bytes: u64,
}

/// A write that its server has answered, and has not committed.
struct UnstableWrite {
    /// The number of the request of the cache.
    number: u64,
    key: ObjectKey,
    fid: Option<Fid>,
    /// Who has written.
    uid: u32,
    parts: Vec<Range<u64>>,
}

impl Unstable {
    /// Bytes that are kept for servers that restart.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A write is on its way that its server need not commit.
    pub(super) fn begins(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Such a write is over, and is not kept.
    pub(super) fn ends(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether a server has not committed what it has of an object.
    fn has(&self, key: ObjectKey) -> bool {
        self.writes.values().any(|write| write.key == key)
    }

    /// A request is not kept any more.
    fn remove(&mut self, call: CallKey) -> Option<UnstableWrite> {
        let write = self.writes.remove(&call)?;
        self.ends(total(&write.parts));
        Some(write)
    }
}

impl Cache {
    /// A server has answered a write, and has not committed it.
    pub(super) fn is_unstable(
        &mut self,
        call: CallKey,
        (key, number): (ObjectKey, u64),
        uid: u32,
        parts: &[Range<u64>],
    ) {
        let fid = self.objects.get(&key).and_then(|object| object.data.fid);
        let write = UnstableWrite { number, key, fid, uid, parts: parts.to_vec() };
        self.unstable.writes.insert(call, write);
    }
}

impl Client {
    /// Whether the server has to commit a write before it answers: a program waits for that, there
    /// is too much already that is kept, or the server is one of metadata, whose other transactions
    /// are not to wait for data when they are replayed.
    pub(super) fn has_to_commit(&self, key: ObjectKey, bytes: u64) -> bool {
        let awaited = self.cache.objects.get(&key).is_some_and(|object| {
            // An fsync has everything committed afterwards.
            object.data.flushes.iter().any(|flush| flush.own.is_some())
        });
        let is_ost = self.rpc.import(key.import).is_some_and(|import| import.kind() == Target::Ost);
        let most = self.cache.tunables.max_dirty.min(UNSTABLE_MAX);
        let fits = self.cache.unstable.bytes() + bytes <= most;
        awaited || !is_ost || !fits
    }

    /// The request of a call is not kept any more.
    pub(in crate::client) fn write_released(&mut self, call: CallKey) {
        self.cache.unstable.remove(call);
    }

    /// A server that has restarted got a write again. Whether the call was one.
    pub(in crate::client) fn write_replayed(&mut self, call: CallKey, reply: &Reply) -> bool {
        if !self.cache.unstable.writes.contains_key(&call) {
            return false;
        }
        let stored = reply_of!(reply, OstWrite).and_then(|reply| {
            match reply.results.iter().find(|result| *result < 0) {
                Some(result) => Err(ClientError::Errno(result.saturating_neg())),
                None => Ok(()),
            }
        });
        if let (Err(error), Some(write)) = (stored, self.cache.unstable.remove(call)) {
            self.unstable_lost(write, &error);
        }
        true
    }

    /// A server has evicted this client, which cannot write again what the server may have lost.
    pub(in crate::client) fn unstable_evicted(&mut self, import: ImportKey) {
        let writes = self.cache.unstable.writes.iter();
        let there = writes.filter(|(_, write)| write.key.import == import);
        for call in there.map(|(call, _)| *call).collect::<Vec<_>>() {
            if let Some(write) = self.cache.unstable.remove(call) {
                self.unstable_lost(write, &ClientError::Rpc(RpcError::Evicted));
            }
        }
    }

    /// What a server had may be lost. A program learns of it when it asks.
    fn unstable_lost(&mut self, write: UnstableWrite, error: &ClientError) {
        let UnstableWrite { number: _, key, fid, uid, parts } = write;
        let object = self.cache.object(key);
        object.data.fid = object.data.fid.or(fid);
        object.fails(error.clone(), parts.iter().cloned());
        if let Some(fid) = fid {
            self.cache.unwritten.entry(fid).or_default().insert(key);
        }
        self.note_losses(key, uid, error, &parts);
    }

    /// Goes on when the servers of some objects have committed what they have.
    pub(super) fn commit_objects(
        &mut self,
        turn: &mut Turn<'_>,
        keys: impl IntoIterator<Item = ObjectKey>,
        done: Done<()>,
    ) {
        let keys: BTreeSet<ObjectKey> = keys.into_iter().collect();
        let keys: Vec<ObjectKey> =
            keys.into_iter().filter(|key| self.cache.unstable.has(*key)).collect();
        let Some(io) = self.start_io(turn, keys.len(), Work::Change { done }) else { return };
        for ObjectKey { import, oi } in keys {
            let valid = OBJECT | MdValid::SIZE | MdValid::BLOCKS;
            let body = Obdo { oi, valid, size: 0, blocks: u64::MAX, ..Obdo::default() };
            let call = CallArgs::from(Request::OstSync(ost::Object { body }));
            self.call_for(turn, import, call, part_of(io), |answer| -> Outcome<()> {
                reply_of!(&answer.reply, OstSync).map(drop)
            });
        }
    }

    /// Goes on when all servers have committed what they have. Most commit everything for the
    /// object that was written last.
    pub(super) fn commit_all(&mut self, turn: &mut Turn<'_>, done: Done<()>) {
        self.commit_others(turn, BTreeSet::new(), done);
    }

    /// The same, for objects that are not among those that are committed.
    fn commit_others(
        &mut self,
        turn: &mut Turn<'_>,
        mut committed: BTreeSet<ObjectKey>,
        done: Done<()>,
    ) {
        let mut last: BTreeMap<ImportKey, &UnstableWrite> = BTreeMap::new();
        let writes = self.cache.unstable.writes.values();
        for write in writes.filter(|write| !committed.contains(&write.key)) {
            let known = last.entry(write.key.import).or_insert(write);
            if known.number < write.number {
                *known = write;
            }
        }
        let last: Vec<ObjectKey> = last.values().map(|write| write.key).collect();
        committed.extend(&last);
        if last.is_empty() {
            return done(self, turn, Ok(()));
        }
        let then: Done<()> = Box::new(move |client, turn, outcome| match outcome {
            Ok(()) => client.commit_others(turn, committed, done),
            Err(error) => done(client, turn, Err(error)),
        });
        self.commit_objects(turn, last, then);
    }
}
