//! How long the user of the client, such as the kernel in which a file system is mounted, may use
//! names and attributes from a cache of its own.
//!
//! Both are valid while the client has the locks that protect them, and have to end before a lock
//! is given back:
//!
//! - **Attributes** end at once: the user of the client is asked to invalidate them.
//! - **Entries** (a name, and that it leads to a file) expire, a fraction of a second after the
//!   answer. A kernel invalidates an entry on request only when no operation in its directory is
//!   under way, and such an operation can wait for the server that waits for the lock. So a server
//!   that wants the lock of a file waits until its entries have expired. The entries of that
//!   directory are not valid for a while then, since another client works there.
//!
//! An entry is valid only if all users may search its directory: the kernel does not check who uses
//! it. So the lock of a directory stays until the entries in it have expired, since it protects who
//! may search.
//!
//! The client's own changes of a file do not wait. The program that makes the change knows of it,
//! and what others see while it is under way may be from before it.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::ImportKey;

use super::attr_cache::number_of;
use super::cache::ObjectKey;
use super::data_attr::DataAttr;
use super::{Client, Done};
use crate::attr::Attr;
use crate::layout::FileLayout;

/// How long after an answer a process may begin to use it: it has to be scheduled first.
const DELAY_MAX: Nanos = Nanos::from_millis(200);
/// How long attributes are valid, unless they are invalidated before.
const ATTR_VALID: Nanos = Nanos::from_secs(1);
/// How long those of a file are that has data which are not written: as long as the system call
/// takes that has asked. Its space is an estimate until they are.
const ATTR_VALID_UNWRITTEN: Nanos = Nanos(1);
/// How long no entries of a directory are valid after a server had to wait for one.
const QUIET_TIME: Nanos = Nanos::from_secs(10);
/// The permission to search, of the owner, the group and others.
const SEARCH_BY_ALL: u32 = 0o111;

/// How long the user of the client may use an answer; 0 if it has to ask each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Valid {
    /// The name, and that it leads to this file.
    pub entry: Nanos,
    /// The attributes.
    pub attr: Nanos,
}

/// How the user of the client uses names and attributes without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How long entries are valid, at most a second; 0 for never.
    pub entry_valid: Nanos,
    /// Whether only one user of the machine has access. Otherwise entries are valid only in
    /// directories that all users may search.
    pub is_for_one_user: bool,
}

/// Something that is in use until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Used {
    /// Entries of a file.
    Entry(Fid),
    /// Entries in a directory.
    EntriesIn(Fid),
    /// One entry: the name by its [number](number_of).
    Name(u64),
    /// Attributes of a file.
    Attr(Fid),
    /// What an object says of a file.
    Object(ObjectKey),
    /// Not in use: a directory in which no entries are valid.
    Quiet(Fid),
}

/// Has the user of the client invalidate the attributes of a file.
type Invalidate = Box<dyn FnMut(Fid) + Send>;

/// What is in use, and until when.
#[derive(Default)]
pub(super) struct Validity {
    /// How the user of the client uses them. None: it has to ask each time.
    shared: Option<(Sharing, Invalidate)>,
    /// Until when, and of which file it is.
    until: BTreeMap<Used, (Time, Fid)>,
    by_time: BTreeSet<(Time, Used)>,
}

impl Validity {
    fn sharing(&self) -> Option<Sharing> {
        self.shared.as_ref().map(|(sharing, _)| *sharing)
    }

    /// Something is in use until a time, or a later one that was noted before.
    fn use_until(&mut self, used: Used, fid: Fid, until: Time, now: Time) {
        let before = self.until.get(&used).map(|(before, _)| *before);
        if before.is_some_and(|before| before >= until) {
            return;
        }
        if let Some(before) = before {
            self.by_time.remove(&(before, used));
        }
        self.until.insert(used, (until, fid));
        self.by_time.insert((until, used));
        while let Some(first) = self.by_time.first().copied().filter(|(until, _)| *until <= now) {
            self.by_time.remove(&first);
            self.until.remove(&first.1);
        }
    }

    /// Until when something is in use, if it is.
    fn used(&self, used: Used, now: Time) -> Option<Time> {
        self.until.get(&used).map(|(until, _)| *until).filter(|until| *until > now)
    }

    /// Until when entries of a file, or entries in it, are in use, if they are.
    pub(super) fn entries_used(&self, fid: Fid, now: Time) -> Option<Time> {
        self.used(Used::Entry(fid), now).max(self.used(Used::EntriesIn(fid), now))
    }

    /// The file that an entry leads to which is in use. Its name may not be kept any more: a change
    /// of the client gives the lock back that protects it.
    pub(super) fn entry(&self, dir: Fid, name: &[u8], now: Time) -> Option<Fid> {
        let used = self.until.get(&Used::Name(number_of(dir, name)));
        used.filter(|(until, _)| *until > now).map(|(_, fid)| *fid)
    }

    /// Has the user of the client invalidate the attributes of a file, if they are in use.
    pub(super) fn end_attr(&mut self, fid: Fid) {
        let Some((until, _)) = self.until.remove(&Used::Attr(fid)) else { return };
        self.by_time.remove(&(until, Used::Attr(fid)));
        if let Some((_, invalidate)) = &mut self.shared {
            invalidate(fid);
        }
    }

    /// What an object says of its file does not hold any more.
    pub(super) fn end_object(&mut self, key: ObjectKey) {
        if let Some((until, fid)) = self.until.remove(&Used::Object(key)) {
            self.by_time.remove(&(until, Used::Object(key)));
            self.end_attr(fid);
        }
    }
}

impl Client {
    /// From now on [`Client::valid`] says how long answers are valid. `invalidate` is called with
    /// the FID of a file whose attributes are not valid any more. It must not wait for an operation
    /// of this client.
    pub fn share_validity(
        &mut self,
        sharing: Sharing,
        invalidate: impl FnMut(Fid) + Send + 'static,
    ) {
        let entry_valid = sharing.entry_valid.min(Nanos::from_secs(1));
        let sharing = Sharing { entry_valid, ..sharing };
        self.validity.shared = Some((sharing, Box::new(invalidate)));
    }

    /// How long an answer of now is valid: the attributes of a file, and the name in a directory
    /// that leads to it. Until then the client keeps the locks.
    pub fn valid(&mut self, now: Time, name: Option<(Fid, &[u8])>, attr: &Attr) -> Valid {
        if self.validity.sharing().is_none() {
            return Valid::default();
        }
        let entry = name.map_or(Nanos(0), |name| self.entry_valid(now, name, attr.fid));
        let known = self.attrs.known(attr.fid).and_then(|known| self.with_objects(known));
        let attr = match known {
            // An answer that took longer may be older than the lock.
            Some((known, objects)) if known == *attr => self.attr_valid(now, &known, objects),
            _ => Nanos(0),
        };
        Valid { entry, attr }
    }

    /// How long a name that leads to a file is valid.
    pub(super) fn entry_valid(&mut self, now: Time, (dir, name): (Fid, &[u8]), fid: Fid) -> Nanos {
        let sharing = self.validity.sharing().filter(|_| !self.unmounted);
        let (Some(sharing), Some(home)) = (sharing, self.home_of(dir, name)) else {
            return Nanos(0);
        };
        if !self.may_cache_entry(now, sharing, (dir, home), (name, fid)) {
            return Nanos(0);
        }
        let until = now + sharing.entry_valid + DELAY_MAX;
        self.validity.use_until(Used::Entry(fid), fid, until, now);
        self.validity.use_until(Used::EntriesIn(dir), dir, until, now);
        self.validity.use_until(Used::Name(number_of(home, name)), fid, until, now);
        sharing.entry_valid
    }

    /// Has the user of the client invalidate the attributes of a file, if they are valid: an
    /// earlier request to do so may not have reached it.
    pub fn invalidate(&mut self, fid: Fid) {
        self.validity.end_attr(fid);
    }

    /// Whether an entry holds as long as the client has the lock of the file, and all who use it
    /// may search the directory as long as the client has the lock of that; and no other client has
    /// waited for an entry there lately.
    fn may_cache_entry(
        &self,
        now: Time,
        sharing: Sharing,
        (dir, home): (Fid, Fid),
        (name, fid): (&[u8], Fid),
    ) -> bool {
        sharing.entry_valid > Nanos(0)
            && self.attrs.named(home, name) == Some(fid)
            && [dir, home].iter().all(|dir| self.validity.used(Used::Quiet(*dir), now).is_none())
            && (sharing.is_for_one_user || self.is_open_to_all(dir))
            && self.attrs.permissions_of(dir).is_some_and(|(import, ..)| {
                // Otherwise the lock would go with each change of the client in the directory.
                self.can_convert(import)
            })
    }

    /// Whether all users may search a directory, as long as the lock on its permissions is held.
    pub(super) fn is_open_to_all(&self, dir: Fid) -> bool {
        self.attrs
            .permissions_of(dir)
            .is_some_and(|(_, mode, has_acl)| !restricts_search(mode) && has_acl == Some(false))
    }

    /// How long attributes are valid that are known, and of which these objects know a part.
    pub(super) fn attr_valid(&mut self, now: Time, attr: &Attr, objects: Vec<ObjectKey>) -> Nanos {
        if self.validity.sharing().is_none() || self.unmounted {
            return Nanos(0);
        }
        let fid = attr.fid;
        let is_written = objects.iter().all(|key| self.is_written(*key));
        let valid = if is_written { ATTR_VALID } else { ATTR_VALID_UNWRITTEN };
        let until = now + valid + DELAY_MAX;
        for key in objects {
            self.validity.use_until(Used::Object(key), fid, until, now);
        }
        self.validity.use_until(Used::Attr(fid), fid, until, now);
        valid
    }

    /// Adds to what a metadata server knows of a file what its objects know, if that is known under
    /// locks; and the objects.
    pub(super) fn with_objects(&self, mut attr: Attr) -> Option<(Attr, Vec<ObjectKey>)> {
        let fid = attr.fid;
        let mut keys = Vec::new();
        if !attr.is_file() || attr.size.is_some() {
            return Some((attr, keys));
        }
        let layout = FileLayout::parse(&attr.layout).ok()?;
        if layout.component_on_mdt().is_some() || !self.caches(&layout) {
            return None;
        }
        let mut found = DataAttr::default();
        for (component, stripe, _) in layout.objects() {
            let target = self.target_of(fid, &layout, (component, stripe)).ok()?;
            let key = ObjectKey { import: target.import, oi: target.oi };
            let object = self.known_object(key)?;
            found.add(layout.file_size(component, stripe, object.size), &object);
            keys.push(key);
        }
        found.complete(&mut attr);
        Some((attr, keys))
    }

    /// The server has said more of a file under the lock of its entry. The attributes as they are
    /// known now; others are invalidated.
    pub(super) fn refresh_attr(&mut self, lock: Handle, attr: Attr) -> Attr {
        let (attr, has_changed) = self.attrs.refresh(lock, attr);
        if has_changed {
            self.validity.end_attr(attr.fid);
        }
        attr
    }

    /// A close has sent the server times of a file.
    pub(super) fn closed_attr(
        &mut self,
        (fid, lock): (Fid, Handle),
        accessed: Option<i64>,
        changed: Option<(i64, i64)>,
    ) {
        self.attrs.closed((fid, lock), accessed, changed);
        self.validity.end_attr(fid);
    }

    /// Forgets what is kept of a file under a lock, and has the user of the client invalidate it.
    /// Where the lock is.
    pub(super) fn forget_attr(&mut self, fid: Fid, lock: Handle) -> Option<ImportKey> {
        let import = self.attrs.remove(fid, lock)?;
        self.ahead.forget(fid);
        self.validity.end_attr(fid);
        Some(import)
    }

    /// Gives the lock of a file back that a server wants, once the entries of the file and those in
    /// it have expired. `dirs` are the directories of its entries.
    pub(super) fn cancel_when_unused(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
        (fid, dirs): (Fid, impl IntoIterator<Item = Fid>),
    ) {
        let Some(until) = self.validity.entries_used(fid, turn.now) else {
            return self.cancel_lock(turn, import, handle);
        };
        for dir in dirs {
            self.keep_quiet(turn.now, dir);
        }
        let then: Done<()> = Box::new(|_, _, _| {});
        self.after(turn, until.since(turn.now), then, move |client, turn, _| {
            client.cancel_lock(turn, import, handle);
        });
    }

    /// No entries of a directory are valid for a while.
    fn keep_quiet(&mut self, now: Time, dir: Fid) {
        self.validity.use_until(Used::Quiet(dir), dir, now + QUIET_TIME, now);
    }

    /// The client is about to change who may search a directory, if `restricts`. Goes on when the
    /// entries in it have expired.
    pub(super) fn before_permissions<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        (fid, restricts): (Fid, bool),
        done: Done<T>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
    ) {
        let used = self.validity.used(Used::EntriesIn(fid), turn.now);
        let Some(until) = used.filter(|_| restricts) else { return then(self, turn, done) };
        self.keep_quiet(turn.now, fid);
        self.after(turn, until.since(turn.now), done, then);
    }
}

/// Whether some users may not search a directory with these permissions.
pub(super) fn restricts_search(mode: u32) -> bool {
    mode & SEARCH_BY_ALL != SEARCH_BY_ALL
}
