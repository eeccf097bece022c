//! What the client keeps of attributes and names, each entry under locks of metadata servers.
//!
//! What an entry says holds while the client has a lock on the file with the bits that protect it
//! [LOCK-3]: any change at the server first has the lock given back, and what the lock protects
//! goes before the lock does.
//!
//! - UPDATE, PERM and for a regular file LAYOUT, all in one lock, protect the attributes, as long
//!   as LOOKUP is held too.
//! - LOOKUP protects the names that lead to the file: a server takes it if it changes a name.
//! - UPDATE protects the names that a directory is known not to have: a server takes it if it makes
//!   a name.
//! - PERM protects who may search a directory: a server takes it if it changes permissions
//!   [LOCK-20].
//!
//! Most files have one lock with all of these. Of a lock that was converted only LOOKUP and PERM
//! are left [LOCK-23]. A directory whose name is on another metadata target has two: one with
//! LOOKUP there, and one with the rest on its own target [LOCK-24].
//!
//! Nothing is given to a user whom the server itself has not answered while the locks were held,
//! and within the last ten minutes: no lock is called back when a user leaves a group. The user of
//! the client may know better what anybody may see, and asks for that; the server must have
//! answered somebody in that time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::Ibits;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::ImportKey;
use smallvec::SmallVec;

use super::Caller;
use crate::attr::Attr;
use crate::lru::{Lru, LruKey};

#[cfg(test)]
mod tests;

/// Most callers that an entry is given to, and who may search a directory; for the oldest one the
/// server is asked again.
const CALLERS_MAX: usize = 4;
/// Most names of a file; the oldest one is looked up again.
const NAMES_MAX: usize = 4;
/// Directories of the latest names that a server was asked for.
const LOOKED_UP_MAX: usize = 16;
/// How long the server's answer to a caller counts. What a user may do depends on more than the
/// locks protect, such as the groups that the server's database of users has for him; servers keep
/// these for some minutes too, so that a change there takes minutes in any case.
const ANSWER_AGE_MAX: Nanos = Nanos::from_secs(600);

/// What a client keeps of attributes and names, and what that was good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrCounts {
    /// Files of which something is kept, each with a lock or more.
    pub entries: usize,
    /// Names of these files.
    pub names: usize,
    /// Names that directories are known not to have.
    pub missing: usize,
    /// Requests of programs for attributes that were answered without a server.
    pub hits: u64,
    /// Requests for attributes for which a server was asked.
    pub misses: u64,
    /// Names that were found, or found missing, without a server.
    pub name_hits: u64,
    /// Names for which a server was asked.
    pub name_misses: u64,
    /// Locks that were given back with other requests.
    pub early_cancels: u64,
    /// Names that servers were asked for before a program did.
    pub statahead: u64,
}

/// What the lock that protects attributes has; of a regular file it has LAYOUT too.
const ATTR_BITS: Ibits = Ibits::UPDATE.union(Ibits::PERM);

/// How the file of an answer was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum AskedBy<'a> {
    /// By a name in a directory.
    Name(Fid, &'a [u8]),
    /// By its FID, with the lock that there was on its names.
    Fid(Option<Handle>),
}

/// What is known of a name for a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The file that it leads to.
    File(Attr),
    /// The directory does not have it.
    Missing,
    /// The server has to be asked.
    Unknown,
}

/// Callers whom the server has answered, each with when it last did, the latest answer last.
#[derive(Default)]
struct Answered(SmallVec<[(Caller, Time); 1]>);

impl Answered {
    fn add(&mut self, caller: Caller, now: Time) {
        self.forget(&caller);
        if self.0.len() == CALLERS_MAX {
            self.0.remove(0);
        }
        self.0.push((caller, now));
    }

    fn forget(&mut self, caller: &Caller) {
        self.0.retain(|(other, _)| other != caller);
    }

    /// Whether the answer to a caller still counts; without one, that to anybody.
    fn has(&self, caller: Option<&Caller>, now: Time) -> bool {
        let lasts = |at: &Time| now < *at + ANSWER_AGE_MAX;
        let is = |other: &Caller| caller.is_none_or(|caller| caller == other);
        self.0.iter().any(|(other, at)| is(other) && lasts(at))
    }
}

/// A lock on a file at a metadata target, and what it protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InodeLock {
    pub(super) import: ImportKey,
    pub(super) handle: Handle,
    pub(super) bits: Ibits,
}

impl InodeLock {
    /// Whether the lock protects all that another one does. LOOKUP protects the names that are on
    /// the same target.
    fn replaces(&self, other: &InodeLock) -> bool {
        let same_names = self.import == other.import || !other.bits.contains(Ibits::LOOKUP);
        self.bits.contains(other.bits) && same_names
    }
}

/// What is known of a file, and the locks that protect it.
struct Entry {
    /// At least one.
    locks: SmallVec<[InodeLock; 1]>,
    /// As they were when a lock last protected them, or the permissions among them; only the FID
    /// before that.
    attr: Attr,
    callers: Answered,
    /// Names that lead here, each with its directory.
    names: SmallVec<[(Fid, Box<[u8]>); 1]>,
    /// Of a directory in which somebody may search.
    dir: Option<Box<Searched>>,
}

/// What is known of a directory.
#[derive(Default)]
struct Searched {
    /// Who may search it.
    searchers: Answered,
    /// Names that it does not have, each with its number.
    missing: BTreeMap<Arc<[u8]>, u64>,
}

impl Entry {
    /// The lock that protects all of these.
    fn lock_with(&self, bits: Ibits) -> Option<&InodeLock> {
        self.locks.iter().find(|lock| lock.bits.contains(bits))
    }

    /// The lock that protects all of the attributes.
    fn whole_lock(&self) -> Option<Handle> {
        self.lock_with(ATTR_BITS).map(|lock| lock.handle)
    }

    /// Whether names that lead to the file can be known.
    fn has_lookup(&self) -> bool {
        self.lock_with(Ibits::LOOKUP).is_some()
    }

    fn searched(&mut self) -> &mut Searched {
        self.dir.get_or_insert_default()
    }

    fn has_name(&self, dir: Fid, name: &[u8]) -> bool {
        self.names.iter().any(|(of, other)| *of == dir && **other == *name)
    }
}

/// A name in a directory as a number. Of two names with the same number only one is kept: then a
/// server is asked for the other one.
pub(super) fn number_of(dir: Fid, name: &[u8]) -> u64 {
    let fid = [dir.seq, u64::from(dir.ver) << 32 | u64::from(dir.oid)];
    let (words, rest) = name.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    // Each step is a bijection of the number so far; the length keeps zeros at the end apart.
    let mix = |number: u64, word: u64| {
        let mixed = (number ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    };
    fid.into_iter().chain(words).fold(name.len() as u64, mix)
}

/// All attributes and names that are kept.
pub(super) struct AttrCache {
    /// Most entries, and most names that are missing; 0 keeps none.
    max: usize,
    pub(super) max_age: Nanos,
    entries: Lru<Entry>,
    /// Where the entries of files are.
    files: BTreeMap<Fid, LruKey>,
    /// Files by their names, whose numbers stand for them.
    names: BTreeMap<u64, Fid>,
    /// Names that directories do not have, the oldest one first.
    missing: BTreeMap<u64, (Fid, Arc<[u8]>)>,
    /// The number of the last name that was found missing.
    last: u64,
    /// Directories of the latest names that a server was asked for, the oldest one first.
    looked_up: VecDeque<Fid>,
    /// Directories whose attributes are asked for because names in them are.
    pub(super) asked: BTreeSet<Fid>,
    counts: AttrCounts,
}

impl AttrCache {
    pub(super) fn new(max: usize, max_age: Nanos) -> AttrCache {
        AttrCache {
            max,
            max_age,
            entries: Lru::default(),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            missing: BTreeMap::new(),
            last: 0,
            looked_up: VecDeque::new(),
            asked: BTreeSet::new(),
            counts: AttrCounts::default(),
        }
    }

    /// Whether anything is kept at all.
    pub(super) fn is_on(&self) -> bool {
        self.max > 0
    }

    pub(super) fn counts(&self) -> AttrCounts {
        AttrCounts {
            entries: self.entries.len(),
            names: self.entries.values().map(|entry| entry.names.len()).sum(),
            missing: self.missing.len(),
            ..self.counts
        }
    }

    fn entry(&self, fid: Fid) -> Option<&Entry> {
        self.entries.get(*self.files.get(&fid)?)
    }

    fn entry_mut(&mut self, fid: Fid) -> Option<&mut Entry> {
        self.entries.get_mut(*self.files.get(&fid)?)
    }

    /// The lock that protects all of a file's attributes. If it is the same before a request and
    /// after the answer, it was held when the server did what it was asked for.
    pub(super) fn whole_lock_of(&self, fid: Fid) -> Option<Handle> {
        self.entry(fid)?.whole_lock()
    }

    /// The same of the lock that protects the permissions of a file.
    pub(super) fn perm_lock_of(&self, fid: Fid) -> Option<Handle> {
        self.entry(fid)?.lock_with(Ibits::PERM).map(|lock| lock.handle)
    }

    /// The same of the lock that protects the names of a file.
    pub(super) fn lookup_lock_of(&self, fid: Fid) -> Option<Handle> {
        self.entry(fid)?.lock_with(Ibits::LOOKUP).map(|lock| lock.handle)
    }

    /// All locks of a file.
    pub(super) fn locks_of(&self, fid: Fid) -> SmallVec<[InodeLock; 2]> {
        self.entry(fid).into_iter().flat_map(|entry| entry.locks.iter().copied()).collect()
    }

    /// Attributes, if a lock protects all of them, for any caller.
    pub(super) fn known(&self, fid: Fid) -> Option<Attr> {
        let entry = self.entry(fid)?;
        entry.whole_lock().map(|_| entry.attr.clone())
    }

    /// Permissions of a file and whether it has an access control list, as long as the lock on them
    /// is held, and where that is.
    pub(super) fn permissions_of(&self, fid: Fid) -> Option<(ImportKey, u32, Option<bool>)> {
        let entry = self.entry(fid)?;
        let lock = entry.lock_with(Ibits::PERM)?;
        Some((lock.import, entry.attr.mode, entry.attr.has_acl))
    }

    /// The directories of the names that lead to a file.
    pub(super) fn dirs_of(&self, fid: Fid) -> SmallVec<[Fid; 2]> {
        let names = self.entry(fid).into_iter().flat_map(|entry| &entry.names);
        names.map(|(dir, _)| *dir).collect()
    }

    /// Whether a file that has an entry is a directory.
    pub(super) fn is_dir(&self, fid: Fid) -> bool {
        self.entry(fid).is_some_and(|entry| entry.attr.is_dir())
    }

    /// Whether a file is known as a directory that is not striped.
    pub(super) fn is_plain_dir(&self, fid: Fid) -> bool {
        let entry = self.entry(fid).filter(|entry| entry.lock_with(Ibits::PERM).is_some());
        entry.is_some_and(|entry| entry.attr.is_dir() && !entry.attr.is_striped_dir())
    }

    /// A lock of a file protects only these bits from now on.
    pub(super) fn narrow(&mut self, fid: Fid, handle: Handle, bits: Ibits) {
        let Some(entry) = self.entry_mut(fid) else { return };
        if let Some(lock) = entry.locks.iter_mut().find(|lock| lock.handle == handle) {
            lock.bits &= bits;
        }
        self.forget_unprotected(fid);
    }

    /// Keeps what an answer says of a file, with the lock that came with it: attributes that the
    /// lock protects, or that the file is there. The locks that are of no use beside the others.
    pub(super) fn keep(
        &mut self,
        lock: InodeLock,
        attr: &Attr,
        now: Time,
    ) -> SmallVec<[InodeLock; 2]> {
        let fid = attr.fid;
        let Some(entry) = self.entry_mut(fid) else {
            let entry = Entry {
                locks: SmallVec::from_iter([lock]),
                attr: attr.clone(),
                callers: Answered::default(),
                names: SmallVec::new(),
                dir: None,
            };
            self.files.insert(fid, self.entries.insert(entry, now));
            return SmallVec::new();
        };
        // What is known already is not older than the answer. Permissions count with PERM alone.
        if entry.whole_lock().is_none() && lock.bits.contains(Ibits::PERM) {
            entry.attr = attr.clone();
        }
        if entry.locks.iter().any(|held| held.replaces(&lock)) {
            return SmallVec::from_iter([lock]);
        }
        let is_surplus = |held: &InodeLock| lock.replaces(held);
        let surplus = entry.locks.iter().copied().filter(is_surplus).collect();
        entry.locks.retain(|held| !is_surplus(held));
        entry.locks.push(lock);
        surplus
    }

    /// The file that a name leads to.
    pub(super) fn named(&self, dir: Fid, name: &[u8]) -> Option<Fid> {
        let fid = *self.names.get(&number_of(dir, name))?;
        self.entry(fid)?.has_name(dir, name).then_some(fid)
    }

    fn touch(&mut self, fid: Fid, now: Time) {
        if let Some(key) = self.files.get(&fid) {
            self.entries.touch(*key, now);
        }
    }

    /// Attributes that a caller may be given.
    pub(super) fn find(&mut self, fid: Fid, caller: &Caller, now: Time) -> Option<Attr> {
        let attr = self.peek(fid, Some(caller), now);
        match attr {
            Some(_) => self.count_hit(fid, now),
            None => {
                self.counts.misses += 1;
                self.touch(fid, now);
            }
        }
        attr
    }

    /// Attributes were given to a program.
    pub(super) fn count_hit(&mut self, fid: Fid, now: Time) {
        self.counts.hits += 1;
        self.touch(fid, now);
    }

    /// Attributes that a caller may be given, or without one anybody, with no note that they were
    /// used.
    pub(super) fn peek(&self, fid: Fid, caller: Option<&Caller>, now: Time) -> Option<Attr> {
        let entry = self.entry(fid)?;
        entry.whole_lock()?;
        entry.callers.has(caller, now).then(|| entry.attr.clone())
    }

    /// What a caller may see of a name: in a directory, or in a stripe of it.
    pub(super) fn find_name(
        &mut self,
        (whole, dir): (Fid, Fid),
        name: &[u8],
        caller: &Caller,
        now: Time,
    ) -> Named {
        let found = self.peek_name((whole, dir), name, Some(caller), now);
        match &found {
            Named::Unknown => {
                self.counts.name_misses += 1;
                self.touch(whole, now);
            }
            Named::Missing => self.count_name_hit(whole, None, now),
            Named::File(attr) => self.count_name_hit(whole, Some(attr.fid), now),
        }
        found
    }

    /// What is known of a name was shown to a program: the file that it leads to, or that there is
    /// none.
    pub(super) fn count_name_hit(&mut self, dir: Fid, file: Option<Fid>, now: Time) {
        self.counts.name_hits += 1;
        if let Some(file) = file {
            self.touch(file, now);
        }
        self.touch(dir, now);
    }

    /// What a caller may see of a name, or without one anybody, with no note that it was used.
    pub(super) fn peek_name(
        &self,
        (whole, dir): (Fid, Fid),
        name: &[u8],
        caller: Option<&Caller>,
        now: Time,
    ) -> Named {
        let Some(searched) = self.searched(whole, caller, now) else { return Named::Unknown };
        if searched.missing.contains_key(name) {
            return Named::Missing;
        }
        let file = self.named(dir, name).and_then(|fid| self.peek(fid, caller, now));
        file.map_or(Named::Unknown, Named::File)
    }

    /// What is known of a directory, if a caller may search it, or without one anybody.
    fn searched(&self, dir: Fid, caller: Option<&Caller>, now: Time) -> Option<&Searched> {
        self.entry(dir)?.dir.as_deref().filter(|dir| dir.searchers.has(caller, now))
    }

    /// Whether a caller may search a directory, as far as is known.
    pub(super) fn searches(&self, dir: Fid, caller: &Caller, now: Time) -> bool {
        self.searched(dir, Some(caller), now).is_some()
    }

    /// Whether the names of a file are on another target than the file, as far as is known.
    pub(super) fn is_away(&self, fid: Fid) -> bool {
        let lock = self.entry(fid).and_then(|entry| entry.lock_with(Ibits::LOOKUP));
        lock.is_some_and(|lock| !lock.bits.contains(Ibits::PERM))
    }

    /// The server has answered a caller. Whether that counts, since there is a lock on the
    /// permissions.
    pub(super) fn allow(&mut self, fid: Fid, caller: Caller, now: Time) -> bool {
        let entry = self.entry_mut(fid).filter(|entry| entry.lock_with(Ibits::PERM).is_some());
        let Some(entry) = entry else { return false };
        entry.callers.add(caller, now);
        self.touch(fid, now);
        true
    }

    /// The server has let a caller search a directory, while this lock was held.
    pub(super) fn allow_search(&mut self, (dir, lock): (Fid, Handle), caller: Caller, now: Time) {
        if self.perm_lock_of(dir) == Some(lock)
            && let Some(entry) = self.entry_mut(dir)
        {
            entry.searched().searchers.add(caller, now);
        }
    }

    /// The server has refused a caller: it is asked again each time.
    pub(super) fn forbid(&mut self, fid: Fid, caller: &Caller) {
        if let Some(entry) = self.entry_mut(fid) {
            entry.callers.forget(caller);
            if let Some(dir) = &mut entry.dir {
                dir.searchers.forget(caller);
            }
        }
    }

    /// The server has said more of a file under the lock of its entry, such as times that call no
    /// lock back. The attributes as they are known now: under the same lock times go only forward,
    /// since who sets them back takes it away. An answer can be older than a close, and the server
    /// may keep a time of access that is older than the one a close has sent. Whether they are
    /// others than before.
    pub(super) fn refresh(&mut self, lock: Handle, mut attr: Attr) -> (Attr, bool) {
        let mut has_changed = false;
        let entry = self.entry_mut(attr.fid);
        if let Some(entry) = entry.filter(|entry| entry.whole_lock() == Some(lock)) {
            attr.atime = attr.atime.max(entry.attr.atime);
            attr.mtime = attr.mtime.max(entry.attr.mtime);
            attr.ctime = attr.ctime.max(entry.attr.ctime);
            has_changed = entry.attr != attr;
            entry.attr = attr.clone();
        }
        (attr, has_changed)
    }

    /// A close has sent the server times of a file, which moves its own only forward. The lock is
    /// the one that there was before: under another one, somebody may have set them back since.
    pub(super) fn closed(
        &mut self,
        (fid, lock): (Fid, Handle),
        accessed: Option<i64>,
        changed: Option<(i64, i64)>,
    ) {
        let entry = self.entry_mut(fid);
        if let Some(entry) = entry.filter(|entry| entry.whole_lock() == Some(lock)) {
            if let Some(atime) = accessed {
                entry.attr.atime = entry.attr.atime.max(atime);
            }
            if let Some((mtime, ctime)) = changed {
                entry.attr.mtime = entry.attr.mtime.max(mtime);
                entry.attr.ctime = entry.attr.ctime.max(ctime);
            }
        }
    }

    /// A name leads to a file that has an entry, with a lock on its names there.
    pub(super) fn add_name(&mut self, dir: Fid, name: &[u8], fid: Fid) {
        self.forget_missing(dir, name);
        if self.named(dir, name) == Some(fid) {
            return;
        }
        self.forget_name(dir, name);
        let Some(entry) = self.entry_mut(fid).filter(|entry| entry.has_lookup()) else { return };
        entry.names.push((dir, name.into()));
        let surplus = (entry.names.len() > NAMES_MAX).then(|| entry.names.remove(0));
        self.names.insert(number_of(dir, name), fid);
        if let Some((dir, name)) = surplus {
            self.names.remove(&number_of(dir, &name));
        }
    }

    /// Forgets a name, or the one that has its number.
    fn forget_name(&mut self, dir: Fid, name: &[u8]) {
        let number = number_of(dir, name);
        let Some(fid) = self.names.remove(&number) else { return };
        if let Some(entry) = self.entry_mut(fid) {
            entry.names.retain(|(dir, name)| number_of(*dir, name) != number);
        }
    }

    /// A directory does not have a name, while this lock is held.
    pub(super) fn add_missing(&mut self, (dir, lock): (Fid, Handle), name: &[u8]) {
        if self.whole_lock_of(dir) != Some(lock) {
            return;
        }
        self.forget_name(dir, name);
        self.forget_missing(dir, name);
        self.last += 1;
        let (name, number): (Arc<[u8]>, u64) = (name.into(), self.last);
        if let Some(entry) = self.entry_mut(dir) {
            entry.searched().missing.insert(Arc::clone(&name), number);
            self.missing.insert(number, (dir, name));
        }
        if self.missing.len() > self.max
            && let Some((_, (dir, name))) = self.missing.pop_first()
            && let Some(entry) = self.entry_mut(dir)
        {
            entry.searched().missing.remove(&name);
        }
    }

    fn forget_missing(&mut self, dir: Fid, name: &[u8]) {
        let searched = self.entry_mut(dir).and_then(|entry| entry.dir.as_mut());
        let number = searched.and_then(|dir| dir.missing.remove(name));
        if let Some(number) = number {
            self.missing.remove(&number);
        }
    }

    /// Forgets a lock of a file, with all that is known under it, and says where it is.
    pub(super) fn remove(&mut self, fid: Fid, handle: Handle) -> Option<ImportKey> {
        let entry = self.entry_mut(fid)?;
        let at = entry.locks.iter().position(|lock| lock.handle == handle)?;
        let lock = entry.locks.remove(at);
        if lock.bits.contains(Ibits::LOOKUP) {
            // A rename changes the time of change, for which no lock is taken if the file is on
            // another target [LOCK-24].
            entry.locks.iter_mut().for_each(|lock| lock.bits -= Ibits::UPDATE);
            // Other names may have had the lock of another target: they are looked up again.
            self.forget_names(fid);
        }
        self.forget_unprotected(fid);
        Some(lock.import)
    }

    fn forget_names(&mut self, fid: Fid) {
        let Some(entry) = self.entry_mut(fid) else { return };
        for (dir, name) in core::mem::take(&mut entry.names) {
            self.names.remove(&number_of(dir, &name));
        }
    }

    /// A file has lost a lock, or a part of it: what none protects any more goes.
    fn forget_unprotected(&mut self, fid: Fid) {
        let Some(entry) = self.entry_mut(fid) else { return };
        let [no_lock, no_names] = [entry.locks.is_empty(), !entry.has_lookup()];
        if entry.lock_with(Ibits::PERM).is_none() {
            entry.callers = Answered::default();
            if let Some(dir) = &mut entry.dir {
                dir.searchers = Answered::default();
            }
        }
        if entry.whole_lock().is_none() {
            let dir = entry.dir.as_mut();
            let missing = dir.map(|dir| core::mem::take(&mut dir.missing)).unwrap_or_default();
            for number in missing.values() {
                self.missing.remove(number);
            }
            self.looked_up.retain(|dir| *dir != fid);
        }
        if no_names {
            self.forget_names(fid);
        }
        if no_lock && let Some(key) = self.files.remove(&fid) {
            self.entries.remove(key);
        }
    }

    /// The file of the least recently used entry; if it is too old, or with `more` entries it would
    /// be one too many.
    pub(super) fn surplus(&self, more: usize, now: Time) -> Option<Fid> {
        let (entry, used) = self.entries.oldest()?;
        let goes = self.entries.len() + more > self.max || used + self.max_age <= now;
        goes.then_some(entry.attr.fid)
    }

    /// When the least recently used entry is too old.
    pub(super) fn deadline(&self) -> Time {
        self.entries.oldest().map_or(Time::NEVER, |(_, used)| used + self.max_age)
    }

    /// The locks at a target, with their files.
    pub(super) fn at(&self, import: ImportKey) -> Vec<(Fid, Handle)> {
        let locks = self
            .entries
            .values()
            .flat_map(|entry| entry.locks.iter().map(|lock| (entry.attr.fid, lock)));
        let there = locks.filter(|(_, lock)| lock.import == import);
        there.map(|(fid, lock)| (fid, lock.handle)).collect()
    }

    /// A server is asked for a name. Whether one was asked for a name of this directory lately, and
    /// nothing has changed in it since, as far as the client knows: then its attributes are worth a
    /// request.
    pub(super) fn note_lookup(&mut self, dir: Fid) -> bool {
        if self.looked_up.contains(&dir) {
            return true;
        }
        if self.looked_up.len() == LOOKED_UP_MAX {
            self.looked_up.pop_front();
        }
        self.looked_up.push_back(dir);
        false
    }

    /// The client changes a directory, or has got nothing that it can keep of it.
    pub(super) fn forget_lookups(&mut self, dir: Fid) {
        self.looked_up.retain(|other| *other != dir);
    }

    pub(super) fn count_early_cancel(&mut self) {
        self.counts.early_cancels += 1;
    }
}
