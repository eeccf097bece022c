//! Data that servers have, and have not committed: a server that restarts gets them again
//! [OST-24].

use core::ops::Range;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::checksum::ChecksumKind;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::Obdo;
use lustrine_fswire::rpc::{Request, ost};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, Reply, RpcError};

use super::{Cache, ObjectKey};
use crate::client::io::{Work, part_of};
use crate::client::transfer::{OBJECT, check_stored};
use crate::client::{CallArgs, CallKey, Client, Done};
use crate::error::{ClientError, Outcome, errno};
use crate::reply::reply_of;

/// Most bytes that are kept for servers that restart, if not less may be dirty; half of that for
/// one target, so that one that is down leaves room for the others. They are beside the cache. When
/// there are so many, a write has its server commit what came before.
const UNSTABLE_MAX: u64 = 64 << 20;
/// Most requests that are kept: those for small files are more than their data.
const WRITES_MAX: usize = 4096;

/// Bytes of ranges.
pub(super) fn total(parts: &[Range<u64>]) -> u64 {
    parts.iter().map(|part| part.end - part.start).sum()
}

/// The writes that are not committed.
#[derive(Default)]
pub(super) struct Unstable {
    writes: BTreeMap<CallKey, Kept>,
    /// How many there are of an object.
    objects: BTreeMap<ObjectKey, usize>,
    /// Their bytes, and those of writes in flight that will be among them, by target.
    bytes: BTreeMap<ImportKey, u64>,
}

/// A write that its server has answered, and has not committed.
pub(super) struct UnstableWrite {
    /// The number of the request of the cache.
    pub(super) number: u64,
    pub(super) key: ObjectKey,
    /// Who has written.
    pub(super) uid: u32,
    pub(super) parts: Vec<Range<u64>>,
    pub(super) sum: Option<(ChecksumKind, u32)>,
    /// Whether the data are not needed: they are written once more, or the file was removed. Then
    /// they are not lost.
    pub(super) is_discarded: bool,
}

/// What is kept of it.
struct Kept {
    write: UnstableWrite,
    fid: Option<Fid>,
    /// How often the server had been started; 0 if it did not say.
    instance: u32,
}

impl Unstable {
    /// Bytes that are kept for servers that restart.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.values().sum()
    }

    /// A write is on its way that its server need not commit.
    pub(super) fn begins(&mut self, import: ImportKey, bytes: u64) {
        if bytes > 0 {
            *self.bytes.entry(import).or_default() += bytes;
        }
    }

    /// Such a write is over, and is not kept.
    pub(super) fn ends(&mut self, import: ImportKey, bytes: u64) {
        if let Entry::Occupied(mut there) = self.bytes.entry(import) {
            *there.get_mut() = there.get().saturating_sub(bytes);
            if *there.get() == 0 {
                there.remove();
            }
        }
    }

    /// Whether so many more bytes of a target may be kept.
    fn has_room(&self, import: ImportKey, bytes: u64, max_dirty: u64) -> bool {
        let most = max_dirty.min(UNSTABLE_MAX);
        let there = self.bytes.get(&import).copied().unwrap_or(0);
        self.writes.len() < WRITES_MAX
            && self.bytes().saturating_add(bytes) <= most
            && there.saturating_add(bytes) <= most / 2
    }

    fn insert(&mut self, call: CallKey, kept: Kept) {
        *self.objects.entry(kept.write.key).or_default() += 1;
        self.writes.insert(call, kept);
    }

    /// A request is not kept any more.
    fn remove(&mut self, call: CallKey) -> Option<Kept> {
        let kept = self.writes.remove(&call)?;
        let key = kept.write.key;
        self.ends(key.import, total(&kept.write.parts));
        if let Entry::Occupied(mut count) = self.objects.entry(key) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(kept)
    }

    /// Those whose data are needed, with their files.
    pub(super) fn needed(&self) -> impl Iterator<Item = (Option<Fid>, &UnstableWrite)> {
        let needed = self.writes.values().filter(|kept| !kept.write.is_discarded);
        needed.map(|kept| (kept.fid, &kept.write))
    }
}

impl Cache {
    /// An object is destroyed, and what its server has not committed of it is not needed. The
    /// request is kept for as long as before.
    pub(super) fn discard_unstable(&mut self, key: ObjectKey) {
        if self.unstable.objects.contains_key(&key) {
            let kept = self.unstable.writes.values_mut().filter(|kept| kept.write.key == key);
            kept.for_each(|kept| kept.write.is_discarded = true);
        }
    }
}

impl Client {
    /// A server has answered a write, and has not committed it.
    pub(super) fn note_unstable(&mut self, call: CallKey, write: UnstableWrite) {
        let fid = self.cache.objects.get(&write.key).and_then(|object| object.data.fid);
        let instance = self.instance(write.key.import);
        self.cache.unstable.insert(call, Kept { write, fid, instance });
    }

    /// How often a target had been started when it was connected; 0 if it did not say.
    fn instance(&self, import: ImportKey) -> u32 {
        self.rpc.import(import).map_or(0, |import| import.granted().instance)
    }

    /// Whether the server has to commit a write before it answers: a program waits for that, or
    /// there is too much already that is kept. An fsync has everything committed afterwards.
    pub(super) fn has_to_commit(&self, key: ObjectKey, bytes: u64) -> bool {
        let awaited = self
            .cache
            .objects
            .get(&key)
            .is_some_and(|object| object.data.flushes.iter().any(|flush| flush.own.is_some()));
        let max_dirty = self.cache.tunables.max_dirty;
        awaited || !self.cache.unstable.has_room(key.import, bytes, max_dirty)
    }

    /// The request of a call is not kept any more.
    pub(in crate::client) fn write_released(&mut self, call: CallKey) {
        self.cache.unstable.remove(call);
    }

    /// A server that has restarted got a write again. Whether the call was one.
    pub(in crate::client) fn write_replayed(&mut self, call: CallKey, reply: &Reply) -> bool {
        let Some(kept) = self.cache.unstable.writes.get_mut(&call) else { return false };
        let UnstableWrite { sum, ref parts, .. } = kept.write;
        match check_stored(reply, sum, parts.len()) {
            Ok(()) => {}
            // The file was removed meanwhile.
            Err(ClientError::Errno(errno::ENOENT)) => kept.write.is_discarded = true,
            Err(error) => {
                if let Some(kept) = self.cache.unstable.remove(call) {
                    self.unstable_lost(kept, &error);
                }
            }
        }
        true
    }

    /// A server has evicted this client, which cannot write again what the server has lost:
    /// nothing, unless it has restarted since.
    pub(in crate::client) fn unstable_evicted(&mut self, import: ImportKey) {
        let now = self.instance(import);
        let there = self.cache.unstable.writes.iter();
        let there = there.filter(|(_, kept)| kept.write.key.import == import);
        let calls: Vec<CallKey> = there.map(|(call, _)| *call).collect();
        for call in calls {
            let Some(kept) = self.cache.unstable.remove(call) else { continue };
            if kept.instance == 0 || kept.instance != now {
                self.unstable_lost(kept, &ClientError::Rpc(RpcError::Evicted));
            }
        }
    }

    /// What a server had is lost, or may be. A program learns of it when it asks, and sees what the
    /// server has.
    fn unstable_lost(&mut self, kept: Kept, error: &ClientError) {
        let Kept { write: UnstableWrite { key, uid, parts, is_discarded, .. }, fid, .. } = kept;
        if is_discarded {
            return;
        }
        let object = self.cache.object(key);
        object.data.fid = object.data.fid.or(fid);
        object.fails(error.clone(), parts.iter().cloned());
        if let Some(fid) = fid {
            self.cache.unwritten.entry(fid).or_default().insert(key);
        }
        self.note_losses(key, uid, error, &parts);
        for part in &parts {
            self.forget_sent(key, part);
        }
    }

    /// Goes on when the servers of some objects have committed what they have of them.
    pub(super) fn commit_objects(
        &mut self,
        turn: &mut Turn<'_>,
        mut keys: BTreeSet<ObjectKey>,
        done: Done<()>,
    ) {
        keys.retain(|key| self.cache.unstable.objects.contains_key(key));
        let Some(io) = self.start_io(turn, keys.len(), Work::Change { done }) else { return };
        for ObjectKey { import, oi } in keys {
            let valid = OBJECT | MdValid::SIZE | MdValid::BLOCKS;
            let body = Obdo { oi, valid, size: 0, blocks: u64::MAX, ..Obdo::default() };
            let call = CallArgs::from(Request::OstSync(ost::Object { body }));
            self.call_for(turn, import, call, part_of(io), |answer| -> Outcome<()> {
                match reply_of!(&answer.reply, OstSync).map(drop) {
                    // The file was removed meanwhile.
                    Err(ClientError::Errno(errno::ENOENT)) => Ok(()),
                    other => other,
                }
            });
        }
    }

    /// The same for all objects of a file, whatever its layout was when they were written, but for
    /// some.
    pub(in crate::client) fn commit_file(
        &mut self,
        turn: &mut Turn<'_>,
        fid: Fid,
        others: &BTreeSet<ObjectKey>,
        done: Done<()>,
    ) {
        let writes = self.cache.unstable.needed().filter(|(of, _)| *of == Some(fid));
        let keys = writes.map(|(_, write)| write.key).filter(|key| !others.contains(key));
        let keys = keys.collect();
        self.commit_objects(turn, keys, done);
    }

    /// Goes on when all servers have committed what they have. Most commit everything for the
    /// object that was written last.
    pub(super) fn commit_all(&mut self, turn: &mut Turn<'_>, done: Done<()>) {
        self.commit_others(turn, BTreeSet::new(), Ok(()), done);
    }

    /// The same, for objects that were not asked for yet.
    fn commit_others(
        &mut self,
        turn: &mut Turn<'_>,
        mut asked: BTreeSet<ObjectKey>,
        so_far: Outcome<()>,
        done: Done<()>,
    ) {
        let mut last: BTreeMap<ImportKey, (u64, ObjectKey)> = BTreeMap::new();
        for (_, write) in self.cache.unstable.needed().filter(|(_, w)| !asked.contains(&w.key)) {
            let known = last.entry(write.key.import).or_insert((write.number, write.key));
            *known = (*known).max((write.number, write.key));
        }
        if last.is_empty() {
            return done(self, turn, so_far);
        }
        let keys: BTreeSet<ObjectKey> = last.into_values().map(|(_, key)| key).collect();
        asked.extend(&keys);
        let then: Done<()> = Box::new(move |client, turn, outcome| {
            client.commit_others(turn, asked, so_far.and(outcome), done);
        });
        self.commit_objects(turn, keys, then);
    }
}
