//! What the client keeps of attributes and names, each entry under a lock of the metadata server.
//!
//! An entry is there only while the client has a lock on the file with the bits LOOKUP, UPDATE and
//! PERM, and for a regular file LAYOUT [LOCK-3]: any change at the server first has the lock given
//! back, and the entry goes before the lock does. With it go
//!
//! - the names that lead to the file: a server takes LOOKUP of a file whose name it changes,
//! - the names that a directory is known not to have: a server takes UPDATE of a directory in which
//!   it makes a name,
//! - the users who may search a directory: a server takes PERM of a file whose permissions it
//!   changes [LOCK-20].
//!
//! A lock that was converted to LOOKUP and PERM protects the names that lead to the file and who
//! may search it, and no more [LOCK-23].
//!
//! Nothing is given to a user whom the server itself has not answered while the locks were held,
//! and within the last ten minutes: no lock is called back when a user leaves a group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lustrine_fswire::fid::{Fid, Handle};
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
    /// Files whose attributes are kept, each with a lock.
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

    /// Whether the answer to a caller still counts.
    fn has(&self, caller: &Caller, now: Time) -> bool {
        let lasts = |at: &Time| now < *at + ANSWER_AGE_MAX;
        self.0.iter().any(|(other, at)| other == caller && lasts(at))
    }
}

/// Attributes, and the lock that they are kept under.
struct Entry {
    import: ImportKey,
    handle: Handle,
    attr: Attr,
    callers: Answered,
    /// Names that lead here, each with its directory.
    names: SmallVec<[(Fid, Box<[u8]>); 1]>,
    /// Of a directory in which somebody may search, or a file whose lock was converted.
    dir: Option<Box<Searched>>,
}

/// What is known of a directory.
#[derive(Default)]
struct Searched {
    /// Who may search it.
    searchers: Answered,
    /// Names that it does not have, each with its number.
    missing: BTreeMap<Arc<[u8]>, u64>,
    /// Whether the lock has only LOOKUP and PERM, after it was converted: then it protects the
    /// names that lead here and who may search, and neither attributes nor what is missing.
    is_narrow: bool,
}

impl Entry {
    /// Whether the lock protects all of the attributes.
    fn is_whole(&self) -> bool {
        self.dir.as_ref().is_none_or(|dir| !dir.is_narrow)
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
fn number_of(dir: Fid, name: &[u8]) -> u64 {
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

    /// The lock of a file's entry. If it is the same before a request and after the answer, it was
    /// held when the server did what it was asked for.
    pub(super) fn lock_of(&self, fid: Fid) -> Option<Handle> {
        self.entry(fid).map(|entry| entry.handle)
    }

    /// The same if the lock protects all of the attributes.
    pub(super) fn whole_lock_of(&self, fid: Fid) -> Option<Handle> {
        self.entry(fid).filter(|entry| entry.is_whole()).map(|entry| entry.handle)
    }

    /// Attributes, if the lock protects all of them, for any caller.
    pub(super) fn known(&self, fid: Fid) -> Option<Attr> {
        self.entry(fid).filter(|entry| entry.is_whole()).map(|entry| entry.attr.clone())
    }

    /// Permissions of a file and whether it has an access control list, as long as its lock is
    /// held, and where that is.
    pub(super) fn permissions_of(&self, fid: Fid) -> Option<(ImportKey, u32, Option<bool>)> {
        self.entry(fid).map(|entry| (entry.import, entry.attr.mode, entry.attr.has_acl))
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

    /// The lock of a file protects only the names that lead to it, and who may search it, from now
    /// on.
    pub(super) fn narrow(&mut self, fid: Fid, lock: Handle) {
        let Some(entry) = self.entry_mut(fid).filter(|entry| entry.handle == lock) else { return };
        let searched = entry.searched();
        searched.is_narrow = true;
        for number in core::mem::take(&mut searched.missing).values() {
            self.missing.remove(number);
        }
        self.looked_up.retain(|other| *other != fid);
    }

    /// A file has a lock on all of its attributes again, and still the one that protects only a
    /// part: the entry goes on under the new one. The lock that is not needed any more.
    pub(super) fn widen(
        &mut self,
        lock: (ImportKey, Handle),
        attr: &Attr,
    ) -> Option<(ImportKey, Handle)> {
        let entry = self.entry_mut(attr.fid).filter(|entry| !entry.is_whole())?;
        let before = (entry.import, entry.handle);
        ((entry.import, entry.handle), entry.attr) = (lock, attr.clone());
        entry.searched().is_narrow = false;
        Some(before)
    }

    /// The file that a name leads to, and the lock of its entry.
    pub(super) fn named(&self, dir: Fid, name: &[u8]) -> Option<(Fid, Handle)> {
        let fid = *self.names.get(&number_of(dir, name))?;
        let entry = self.entry(fid).filter(|entry| entry.has_name(dir, name))?;
        Some((fid, entry.handle))
    }

    fn touch(&mut self, fid: Fid, now: Time) {
        if let Some(key) = self.files.get(&fid) {
            self.entries.touch(*key, now);
        }
    }

    /// Attributes that a caller may be given.
    pub(super) fn find(&mut self, fid: Fid, caller: &Caller, now: Time) -> Option<Attr> {
        let attr = self.shown(fid, caller, now);
        match attr {
            Some(_) => self.counts.hits += 1,
            None => self.counts.misses += 1,
        }
        self.touch(fid, now);
        attr
    }

    fn shown(&self, fid: Fid, caller: &Caller, now: Time) -> Option<Attr> {
        let entry = self.entry(fid).filter(|entry| entry.is_whole())?;
        entry.callers.has(caller, now).then(|| entry.attr.clone())
    }

    /// What a caller may see of a name.
    pub(super) fn find_name(&mut self, dir: Fid, name: &[u8], caller: &Caller, now: Time) -> Named {
        let found = self.shown_name(dir, name, caller, now);
        match &found {
            Named::Unknown => self.counts.name_misses += 1,
            Named::Missing => self.counts.name_hits += 1,
            Named::File(attr) => {
                self.counts.name_hits += 1;
                self.touch(attr.fid, now);
            }
        }
        self.touch(dir, now);
        found
    }

    /// The same, without a note that it was used.
    pub(super) fn shown_name(&self, dir: Fid, name: &[u8], caller: &Caller, now: Time) -> Named {
        let Some(parent) = self.entry(dir) else { return Named::Unknown };
        let Some(searched) = parent.dir.as_ref().filter(|dir| dir.searchers.has(caller, now))
        else {
            return Named::Unknown;
        };
        if searched.missing.contains_key(name) {
            return Named::Missing;
        }
        let file = self.named(dir, name).and_then(|(fid, _)| self.shown(fid, caller, now));
        file.map_or(Named::Unknown, Named::File)
    }

    /// The server has answered a caller. Whether there is an entry.
    pub(super) fn allow(&mut self, fid: Fid, caller: Caller, now: Time) -> bool {
        let Some(entry) = self.entry_mut(fid) else { return false };
        entry.callers.add(caller, now);
        self.touch(fid, now);
        true
    }

    /// The server has let a caller search a directory, while this lock was held.
    pub(super) fn allow_search(&mut self, (dir, lock): (Fid, Handle), caller: Caller, now: Time) {
        if let Some(entry) = self.entry_mut(dir).filter(|entry| entry.handle == lock) {
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

    /// Keeps attributes under a lock. There is no entry of this file.
    pub(super) fn insert(&mut self, (import, handle): (ImportKey, Handle), attr: Attr, now: Time) {
        let fid = attr.fid;
        let entry = Entry {
            import,
            handle,
            attr,
            callers: Answered::default(),
            names: SmallVec::new(),
            dir: None,
        };
        let before = self.files.insert(fid, self.entries.insert(entry, now));
        assert!(before.is_none(), "the file has an entry");
    }

    /// The server has said more of a file under the lock of its entry, such as times that call no
    /// lock back. The attributes as they are known now: under the same lock times go only forward,
    /// since who sets them back takes it away. An answer can be older than a close, and the server
    /// may keep a time of access that is older than the one a close has sent. Whether they are
    /// others than before.
    pub(super) fn refresh(&mut self, lock: Handle, mut attr: Attr) -> (Attr, bool) {
        let mut has_changed = false;
        let entry = self.entry_mut(attr.fid);
        if let Some(entry) = entry.filter(|entry| entry.handle == lock && entry.is_whole()) {
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
        if let Some(entry) = entry.filter(|entry| entry.handle == lock && entry.is_whole()) {
            if let Some(atime) = accessed {
                entry.attr.atime = entry.attr.atime.max(atime);
            }
            if let Some((mtime, ctime)) = changed {
                entry.attr.mtime = entry.attr.mtime.max(mtime);
                entry.attr.ctime = entry.attr.ctime.max(ctime);
            }
        }
    }

    /// A name leads to a file that has an entry.
    pub(super) fn add_name(&mut self, dir: Fid, name: &[u8], fid: Fid) {
        self.forget_missing(dir, name);
        if self.named(dir, name).is_some_and(|(known, _)| known == fid) {
            return;
        }
        self.forget_name(dir, name);
        let Some(entry) = self.entry_mut(fid) else { return };
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

    /// Forgets the entry that a file has under a lock, with all that is known under it, and says
    /// where the lock is.
    pub(super) fn remove(&mut self, fid: Fid, lock: Handle) -> Option<ImportKey> {
        let key = *self.files.get(&fid)?;
        self.entries.get(key).filter(|entry| entry.handle == lock)?;
        self.files.remove(&fid);
        let entry = self.entries.remove(key)?;
        for (dir, name) in &entry.names {
            self.names.remove(&number_of(*dir, name));
        }
        for number in entry.dir.iter().flat_map(|dir| dir.missing.values()) {
            self.missing.remove(number);
        }
        self.looked_up.retain(|dir| *dir != fid);
        Some(entry.import)
    }

    /// The least recently used entry: its file, its lock, and where that is; if it is too old, or
    /// with `more` entries it would be one too many.
    pub(super) fn surplus(&self, more: usize, now: Time) -> Option<(ImportKey, Fid, Handle)> {
        let (entry, used) = self.entries.oldest()?;
        let goes = self.entries.len() + more > self.max || used + self.max_age <= now;
        goes.then_some((entry.import, entry.attr.fid, entry.handle))
    }

    /// When the least recently used entry is too old.
    pub(super) fn deadline(&self) -> Time {
        self.entries.oldest().map_or(Time::NEVER, |(_, used)| used + self.max_age)
    }

    /// The files of the entries whose locks are at a target, and the locks.
    pub(super) fn at(&self, import: ImportKey) -> Vec<(Fid, Handle)> {
        let entries = self.entries.values().filter(|entry| entry.import == import);
        entries.map(|entry| (entry.attr.fid, entry.handle)).collect()
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
