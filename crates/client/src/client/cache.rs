//! Data that the client keeps, coherent with all others by locks of their objects.
//!
//! What was read is kept under locks for reading. What is written is kept under locks for writing,
//! and reaches the servers later: when a transfer is full, after a while, when a program asks for
//! it, or when somebody else wants the lock. A lock is given back when its data are at the server.

mod gather;
mod grants;
mod locks;
mod losses;
mod memory;
mod object;
mod quota;
mod read_op;
mod reads;
mod streams;
mod unstable;
mod writes;

#[cfg(test)]
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lustrine_fswire::connect::ConnectData;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ost::Obdo;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::{Import, ImportKey, RpcError};

use super::{Client, Done, TargetKey};
use crate::error::ClientError;
use crate::layout::FileLayout;
use crate::lru::Lru;
use crate::offers;
use grants::Grant;
use losses::Losses;
pub use losses::LostWrites;
use object::CachedObject;
pub(super) use object::{Mode, Writer};
use quota::OverQuota;
pub(super) use read_op::ObjectBytes;
use reads::QueuedRead;
use unstable::Unstable;
use writes::{QueuedWrites, ThrottledWrite};

/// How much a client keeps of files. The names are those of Lustre's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheTunables {
    /// Bytes of memory for data (`max_cached_mb`): beyond that, what the servers have is forgotten,
    /// and writes wait. Data of requests in flight come on top. 0: nothing is kept, and each
    /// request takes its locks at the servers.
    pub max_cached: u64,
    /// Most bytes that programs have written and that were not sent (`max_dirty_mb`); one target
    /// gets half of them. Beyond that, writes wait.
    pub max_dirty: u64,
    /// Most bytes of an object that are read before a program asks for them, when it reads one
    /// part after another (`max_read_ahead_mb`).
    pub max_read_ahead: u64,
    /// Most locks that are kept and not in use (`lru_size`).
    pub lru_size: usize,
    /// How long a lock is kept that is not in use (`lru_max_age`).
    pub lru_max_age: Nanos,
    /// How long what was written may wait before it is sent.
    pub max_dirty_age: Nanos,
    /// Most files whose attributes and names are kept, each with a lock, for at most `lru_max_age`
    /// after their last use; as many names that are missing. 0: servers are asked each time.
    pub attrs: usize,
    /// Most files of a directory that are asked for before a program does, when it asks for one
    /// after another (`statahead_max`). 0: none, as if no attributes are kept.
    pub statahead_max: usize,
}

impl CacheTunables {
    /// Nothing is kept.
    pub const NONE: CacheTunables = CacheTunables::of(0);

    /// Settings for so many bytes of memory; the others follow from it.
    pub const fn of(max_cached: u64) -> CacheTunables {
        CacheTunables {
            max_cached,
            max_dirty: max_cached / 4,
            max_read_ahead: if max_cached / 8 < 8 << 20 { max_cached / 8 } else { 8 << 20 },
            lru_size: 10_000,
            lru_max_age: Nanos::from_secs(600),
            max_dirty_age: Nanos::from_secs(5),
            attrs: 0,
            statahead_max: 128,
        }
    }
}

impl Default for CacheTunables {
    /// Nothing is kept.
    fn default() -> CacheTunables {
        CacheTunables::NONE
    }
}

/// What a client keeps now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Bytes of memory for data.
    pub cached: u64,
    /// Bytes that the servers do not have.
    pub dirty: u64,
    /// Bytes that servers have, and have not committed: they are kept for servers that restart.
    pub unstable: u64,
    /// Objects of which there are data or locks.
    pub objects: usize,
    /// Bytes of reads that were in memory.
    pub hits: u64,
    /// Bytes of reads that were asked for.
    pub misses: u64,
    /// Bytes that were asked for before a program did.
    pub read_ahead: u64,
    /// Bytes that could not be written: a program learns of it at its next fsync or close.
    pub lost: u64,
}

/// Most bytes of one transfer with a target, of those that are possible at all.
pub(super) fn brw_of(import: &Import, most: u32) -> u64 {
    import.granted().brw_size.min(import.tunables().max_transfer).clamp(4096, most).into()
}

/// Most objects of which an error is kept for the next fsync that a close has reported: programs
/// that never call fsync must not fill the memory.
const REPORTED_MAX: usize = 1000;

/// Most bytes of requests of the cache in flight, at all targets: those of reads are in the node's
/// memory, those of small writes are copies beside the cache. One target gets less, so that it
/// leaves room for the others when it is down. A target that has none in flight may begin one
/// beyond the limit, so that several targets that are down do not stop it either.
const IN_FLIGHT_MAX: u64 = 96 << 20;
const IN_FLIGHT_MAX_OF_TARGET: u64 = IN_FLIGHT_MAX / 4 * 3;
const IN_FLIGHT_MAX_FOR_FIRST: u64 = IN_FLIGHT_MAX / 2 * 3;

/// An object, and the target that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectKey {
    pub(super) import: ImportKey,
    pub(super) oi: Fid,
}

/// Requests for data at one target, and its grant.
#[derive(Default)]
struct TargetIo {
    grant: Grant,
    over_quota: OverQuota,
    /// Bytes that are not written, and the most that there may be, if that was set.
    dirty: u64,
    max_dirty: Option<u64>,
    /// Requests in flight, and their bytes.
    reading: usize,
    writing: usize,
    in_flight: u64,
    /// Requests that wait for others.
    reads: VecDeque<QueuedRead>,
    writes: QueuedWrites,
    /// When a request for data was last made.
    last_io: Time,
}

/// All data that the client keeps.
pub(super) struct Cache {
    tunables: CacheTunables,
    /// In boxes, since a tree has room for more than are in it.
    objects: BTreeMap<ObjectKey, Box<CachedObject>>,
    targets: BTreeMap<ImportKey, TargetIo>,
    /// Objects with dirty data.
    dirty_objects: BTreeSet<ObjectKey>,
    /// Objects of files of which the servers lack something, or with an error that fsync has not
    /// reported.
    unwritten: BTreeMap<Fid, BTreeSet<ObjectKey>>,
    /// Objects with an error that a close has reported, the oldest first.
    reported: VecDeque<ObjectKey>,
    /// Writes that wait until less is dirty, and whether all that is dirty is queued for them.
    throttled: VecDeque<ThrottledWrite>,
    all_queued: bool,
    /// Chunks of objects in the order of their use. One that was used again takes its new place
    /// when it is its turn to go.
    chunks: BTreeMap<u64, (ObjectKey, u64)>,
    /// Objects of which something was read ahead lately, when that was, and for how many readers;
    /// the sum of these; and when objects were last left out that are not read ahead any more.
    ahead: BTreeMap<ObjectKey, (Time, usize)>,
    ahead_streams: usize,
    ahead_since: Time,
    /// Locks that are not in use, and where they are.
    idle: Lru<(ImportKey, Handle)>,
    /// The number of the last use of a chunk, and of the last request.
    last_use: u64,
    last_io: u64,
    /// When dirty data are looked at again.
    flush_at: Option<Time>,
    /// Bytes of requests in flight, and whether others wait for them.
    in_flight: u64,
    held_up: bool,
    /// Targets whose grants have changed: their imports do not know yet what they have to claim.
    grants_changed: BTreeSet<ImportKey>,
    /// When it is looked whether grants are too much.
    shrink_at: Option<Time>,
    /// Whether there was no memory for a write: it is tried again at `flush_at`.
    starved: bool,
    /// Whether a target has said that anybody is over quota, and has not taken it back.
    quota_is_used_up: bool,
    counts: CacheCounts,
    losses: Losses,
    /// What servers have, and have not committed.
    unstable: Unstable,
}

impl Cache {
    pub(super) fn new(tunables: CacheTunables) -> Cache {
        Cache {
            tunables,
            objects: BTreeMap::new(),
            targets: BTreeMap::new(),
            dirty_objects: BTreeSet::new(),
            unwritten: BTreeMap::new(),
            reported: VecDeque::new(),
            throttled: VecDeque::new(),
            all_queued: false,
            chunks: BTreeMap::new(),
            ahead: BTreeMap::new(),
            ahead_streams: 0,
            ahead_since: Time(0),
            idle: Lru::default(),
            last_use: 0,
            last_io: 0,
            flush_at: None,
            in_flight: 0,
            held_up: false,
            grants_changed: BTreeSet::new(),
            shrink_at: None,
            starved: false,
            quota_is_used_up: false,
            counts: CacheCounts::default(),
            losses: Losses::default(),
            unstable: Unstable::default(),
        }
    }

    /// Whether data are kept at all.
    pub(super) fn is_on(&self) -> bool {
        self.tunables.max_cached > 0
    }

    /// Sets how much of an object is read before a program asks for it, if anything is kept.
    pub(super) fn set_max_read_ahead(&mut self, most: u64) {
        self.tunables.max_read_ahead = most.min(self.tunables.max_cached / 8);
    }

    pub(super) fn counts(&self) -> CacheCounts {
        let (objects, unstable) = (self.objects.len(), self.unstable.bytes());
        CacheCounts { objects, unstable, ..self.counts }
    }

    /// Whether so many more bytes for a target may be dirty. If nothing is, any number. Few dirty
    /// bytes can keep much memory in use. One target gets half, so that one that is down leaves
    /// room for the others.
    fn may_be_dirty(&self, import: ImportKey, len: u64) -> bool {
        let dirty = self.counts.dirty;
        let target = self.targets.get(&import);
        let there = target.map_or(0, |target| target.dirty);
        let max_dirty = target.and_then(|target| target.max_dirty).unwrap_or(u64::MAX);
        let fits = dirty.saturating_add(len) <= self.tunables.max_dirty;
        let share = (self.tunables.max_dirty / 2).min(max_dirty);
        let shared = there == 0 || there.saturating_add(len) <= share;
        dirty == 0 || fits && shared && self.counts.cached <= self.tunables.max_cached
    }

    fn count_dirty(&mut self, import: ImportKey, len: u64) {
        self.counts.dirty += len;
        self.targets.entry(import).or_default().dirty += len;
    }

    fn uncount_dirty(&mut self, import: ImportKey, len: u64) {
        self.counts.dirty -= len;
        self.targets.entry(import).or_default().dirty -= len;
    }

    /// There was no memory for a request: nothing is sent for a moment.
    fn starve(&mut self, now: Time) {
        self.starved = true;
        let at = now + Nanos::from_millis(100);
        let before = self.flush_at.filter(|before| *before > now);
        self.flush_at = Some(before.map_or(at, |before| before.min(at)));
    }

    fn object(&mut self, key: ObjectKey) -> &mut CachedObject {
        self.objects.entry(key).or_default()
    }

    /// Whether there may be one more request to a target in flight. A request that may not begin
    /// waits until another one is over.
    fn has_room(&mut self, import: ImportKey) -> bool {
        let there = self.targets.get(&import).map_or(0, |target| target.in_flight);
        let most = if there == 0 { IN_FLIGHT_MAX_FOR_FIRST } else { IN_FLIGHT_MAX };
        let room = self.in_flight < most && there < IN_FLIGHT_MAX_OF_TARGET;
        self.held_up |= !room;
        room
    }

    /// A request to a target that moves so many bytes is in flight.
    fn begins(&mut self, import: ImportKey, bytes: u64) {
        self.in_flight += bytes;
        self.targets.entry(import).or_default().in_flight += bytes;
    }

    /// One is over.
    fn ends(&mut self, import: ImportKey, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let target = self.targets.entry(import).or_default();
        target.in_flight = target.in_flight.saturating_sub(bytes);
    }

    fn next_io(&mut self) -> u64 {
        self.last_io += 1;
        self.last_io
    }

    /// Notes what is dirty in an object, and when it has to be written at the latest.
    fn note_dirty(&mut self, key: ObjectKey, now: Time) {
        let age = self.tunables.max_dirty_age;
        let Some(object) = self.objects.get_mut(&key) else { return };
        match object.data.pages.is_clean() {
            true => {
                object.data.dirty_since = None;
                self.dirty_objects.remove(&key);
            }
            false => {
                object.data.dirty_since.get_or_insert(now);
                self.dirty_objects.insert(key);
                // Until it is tidied up, when nothing is in flight any more.
                if let Some(fid) = object.data.fid {
                    self.unwritten.entry(fid).or_default().insert(key);
                }
                self.flush_at.get_or_insert(now + age);
            }
        }
    }
}

impl Client {
    /// What the client keeps of the data of files.
    pub fn cache_counts(&self) -> CacheCounts {
        self.cache.counts()
    }

    /// Whether data of a file are kept. Those of mirrors are not: each write of them says which
    /// layout it is for.
    pub(super) fn caches(&self, layout: &FileLayout) -> bool {
        self.cache.is_on() && layout.mirrors.is_none()
    }

    /// Sends what programs have written to a file and the servers do not have. `done` is called
    /// when they have it, with the first error of a write since the last time that this was asked.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>, fid: Fid, done: Done<()>) {
        let keys = self.written_objects(fid);
        self.flush_objects(turn, keys, done);
    }

    /// A server has set the times of the objects of a file.
    pub(super) fn note_times(&mut self, fid: Fid, layout: &FileLayout, set: &Obdo) {
        for (component, stripe, _) in layout.objects() {
            let Ok(target) = self.target_of(fid, layout, (component, stripe)) else { continue };
            let key = ObjectKey { import: target.import, oi: target.oi };
            if let Some(object) = self.cache.objects.get_mut(&key) {
                object.times_were_set(set);
            }
        }
    }

    /// The objects of a file with unwritten data or errors, whatever its layout was then.
    fn written_objects(&self, fid: Fid) -> Vec<ObjectKey> {
        self.cache.unwritten.get(&fid).into_iter().flatten().copied().collect()
    }

    /// An object that has something of a file to be written.
    #[cfg(test)]
    pub(super) fn written_object_for_tests(&self, fid: Fid) -> ObjectKey {
        self.written_objects(fid)[0]
    }

    /// The same for all files. Errors are those of all.
    pub fn flush_all(&mut self, turn: &mut Turn<'_>, done: Done<()>) {
        let keys = self.cache.objects.iter();
        let keys = keys.filter(|(_, object)| object.has_unwritten()).map(|(key, _)| *key).collect();
        // What some files have lost is no reason not to commit the rest.
        let then: Done<()> = Box::new(move |client, turn, flushed| {
            let then: Done<()> = Box::new(move |client, turn, committed| {
                let files = client.cache.unwritten.keys().copied().collect::<Vec<_>>();
                let lost = files.into_iter().find_map(|fid| client.take_loss(fid));
                done(client, turn, flushed.and(committed).and(lost.map_or(Ok(()), Err)));
            });
            client.commit_all(turn, then);
        });
        self.flush_objects(turn, keys, then);
    }

    /// The error of a write to a file that no fsync has reported yet; now one does.
    pub(super) fn take_loss(&mut self, fid: Fid) -> Option<ClientError> {
        let mut found = None;
        for key in self.written_objects(fid) {
            // A look through `&mut` would make the part that has data.
            let object = self.cache.object(key);
            if object.data.error.is_some()
                && let Some(error) = object.data.error.take()
            {
                found.get_or_insert(error.error);
                self.cache.tidy(key);
            }
        }
        found
    }

    /// Begins to send what programs have written to a file; nobody waits for it.
    pub fn start_flush(&mut self, turn: &mut Turn<'_>, fid: Fid) {
        for key in self.written_objects(fid) {
            self.write_out(turn, key, 0..u64::MAX, false);
        }
    }

    /// The error of a write that neither a close nor an fsync has reported. An fsync reports it
    /// once more: the program that closes the file may be another one than the one that wrote.
    pub fn write_error(&mut self, fid: Fid) -> Option<ClientError> {
        let mut found = None;
        for key in self.written_objects(fid) {
            let object = self.cache.object(key);
            // A look through `&mut` would make the part that has data.
            if object.data.error.as_ref().is_some_and(|error| !error.reported)
                && let Some(error) = &mut object.data.error
            {
                error.reported = true;
                found.get_or_insert(error.error.clone());
                // Once: an earlier error of the object is not to take this one with it.
                self.cache.reported.retain(|earlier| *earlier != key);
                self.cache.reported.push_back(key);
            }
        }
        while self.cache.reported.len() > REPORTED_MAX
            && let Some(key) = self.cache.reported.pop_front()
        {
            if let Some(object) = self.cache.objects.get_mut(&key)
                && object.data.error.as_ref().is_some_and(|error| error.reported)
            {
                object.data.error = None;
                self.cache.tidy(key);
            }
        }
        found
    }

    /// When the cache has something to do.
    pub(super) fn cache_deadline(&self) -> Time {
        let age = self.cache.tunables.lru_max_age;
        let idle = self.cache.idle.oldest().map_or(Time::NEVER, |(_, since)| since + age);
        let shrink = self.cache.shrink_at.unwrap_or(Time::NEVER);
        self.cache.flush_at.unwrap_or(Time::NEVER).min(idle).min(shrink)
    }

    /// Does what time demands: old data are written, and old locks given back.
    pub(super) fn drive_cache(&mut self, turn: &mut Turn<'_>) {
        if self.cache.flush_at.is_some_and(|at| at <= turn.now) {
            self.cache.flush_at = None;
            self.cache.starved = false;
            self.cache.all_queued = false;
            self.write_old(turn);
            for import in self.cache.targets.keys().copied().collect::<Vec<_>>() {
                self.pump(turn, import);
            }
        }
        self.wake_throttled(turn);
        self.cancel_idle_locks(turn);
        self.shrink_grants(turn);
    }

    /// A request of the cache is over, which had so many bytes: others may go on.
    fn request_over(&mut self, turn: &mut Turn<'_>, import: ImportKey, bytes: u64) {
        self.cache.ends(import, bytes);
        match core::mem::take(&mut self.cache.held_up) {
            true => {
                for import in self.cache.targets.keys().copied().collect::<Vec<_>>() {
                    self.pump(turn, import);
                }
            }
            false => self.pump(turn, import),
        }
    }

    /// Most bytes of one request for an object.
    fn object_brw(&self, import: ImportKey) -> u64 {
        self.rpc.import(import).map_or(4096, |import| brw_of(import, offers::OST_BRW))
    }

    /// Whether requests to a target would leave now, or fail at once. Others wait in the cache:
    /// they take no memory of the node there.
    fn is_full(&self, import: ImportKey) -> bool {
        self.is_connected(TargetKey(import))
    }

    /// Most requests for data in flight at a target, for reading and for writing each.
    fn rpcs_in_flight(&self, import: ImportKey) -> u16 {
        let import = self.rpc.import(import);
        import.map_or(1, |import| import.tunables().max_rpcs_in_flight).max(1)
    }

    /// A target is connected: its grant is what it says now.
    pub(super) fn target_connected(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        let granted = self.rpc.import(import).map(|import| *import.granted()).unwrap_or_default();
        if self.cache.is_on() {
            self.cache.grant(import).connected(&granted);
            self.pump(turn, import);
        }
    }

    /// A target is disconnected because nothing was to be done: its server promises nothing more.
    pub(super) fn grant_ended(&mut self, import: ImportKey) {
        if self.cache.is_on() {
            self.cache.grant(import).connected(&ConnectData::default());
        }
    }

    /// Settings of a target have changed.
    pub(super) fn tuned(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        let Some(most) = self.rpc.import(import).map(|import| import.tunables().max_dirty) else {
            return;
        };
        self.cache.targets.entry(import).or_default().max_dirty = Some(most);
        self.pump(turn, import);
    }

    /// A range of an object is not in memory any more.
    #[cfg(test)]
    pub(super) fn forget_for_tests(&mut self, (import, oi): (ImportKey, Fid), range: Range<u64>) {
        self.cache.forget(ObjectKey { import, oi }, range);
    }

    /// The grant of a target is as large as a test wants it.
    #[cfg(test)]
    pub(super) fn with_grant_for_tests(&mut self, import: ImportKey, bytes: u32) {
        use lustrine_fswire::connect::{ConnectData, ConnectFlags};
        let granted =
            ConnectData { flags: ConnectFlags::GRANT, grant: bytes, ..ConnectData::default() };
        self.cache.grant(import).connected(&granted);
    }

    /// A server has evicted this client, which loses what it had not written there. The locks are
    /// void.
    pub(super) fn cache_evicted(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        let keys = self.cache.objects.keys().filter(|key| key.import == import);
        let keys: Vec<ObjectKey> = keys.copied().collect();
        // All are void before anything goes on.
        let mut void = Vec::new();
        for key in keys {
            let locks = self.cache.objects.get(&key).map(|object| object.locks.keys().copied());
            for handle in locks.into_iter().flatten().collect::<Vec<_>>() {
                self.forget_void(turn, key, handle);
                void.push((key, handle));
            }
        }
        for (key, handle) in void {
            self.after_void(turn, key, handle);
        }
    }

    /// A lock is void: what was not written under it is lost.
    pub(super) fn lock_gone(&mut self, turn: &mut Turn<'_>, key: ObjectKey, handle: Handle) {
        self.forget_void(turn, key, handle);
        self.after_void(turn, key, handle);
    }

    fn forget_void(&mut self, turn: &mut Turn<'_>, key: ObjectKey, handle: Handle) {
        let Some(object) = self.cache.objects.get_mut(&key) else { return };
        let Some(held) = object.locks.remove(&handle) else { return };
        self.validity.end_object(key);
        if let Some(idle) = held.idle {
            self.cache.idle.remove(idle);
        }
        let dirty = object.data.pages.dirty(&held.extent);
        let error = ClientError::Rpc(RpcError::Evicted);
        if let Some(first) = dirty.first() {
            let uid = object.data.user_at(first.start);
            object.fails(error.clone(), dirty.clone());
            self.note_losses(key, uid, &error, &dirty);
        }
        self.drop_dirty(turn, key, held.extent.clone(), Some(&error));
        self.cache.object(key).was_lost();
        for part in self.cache.object(key).uncovered(&held.extent) {
            self.cache.forget(key, part);
        }
    }

    /// What used a lock that is void fails, and others go on.
    fn after_void(&mut self, turn: &mut Turn<'_>, key: ObjectKey, handle: Handle) {
        self.reads_gone(turn, key, handle);
        self.check_flushes(turn, key);
        self.cache.tidy(key);
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn targets_that_are_down_leave_room_for_others() {
        let mut imports: SlotMap<ImportKey, ()> = SlotMap::with_key();
        let [a, b, c, d] = [(); 4].map(|()| imports.insert(()));
        let mut cache = Cache::new(CacheTunables::of(1 << 20));
        cache.begins(a, 72 << 20);
        assert!(!cache.has_room(a) && cache.held_up);
        assert!(cache.has_room(b));
        cache.begins(b, 30 << 20);
        assert!(!cache.has_room(b));
        assert!(cache.has_room(c), "it has none in flight");
        cache.begins(c, 42 << 20);
        assert!(!cache.has_room(c) && !cache.has_room(d));
        cache.ends(b, 30 << 20);
        assert!(cache.has_room(b) && !cache.has_room(c));
    }
}
