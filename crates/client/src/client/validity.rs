//! What somebody else may use of names and attributes without asking the client, such as the kernel
//! in which a file system is mounted.
//!
//! Both hold while the client has the locks that protect them, and have to end before a lock is
//! given back:
//!
//! - **Attributes** end at once: who uses them is told to forget them.
//! - **Names** end by themselves, a fraction of a second after they were told. A kernel forgets a
//!   name on request only when no operation in its directory is under way, and such an operation
//!   can wait for the server that waits for the lock. So a server that wants the lock of a file
//!   whose name is in use waits for that time; the names of that directory are not told for a while
//!   then, since somebody else works there.
//!
//! The client's own changes do not wait. The program that makes the change knows of it, and what
//! others are shown while it is under way may be from before it.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::ImportKey;

use super::cache::ObjectKey;
use super::data_attr::DataAttr;
use super::{Client, Done};
use crate::attr::Attr;
use crate::layout::FileLayout;

/// How long after an answer a process may still begin to use it: it has to run for that.
const DELAY_MAX: Nanos = Nanos::from_millis(200);
/// How long attributes are valid, unless somebody is told to forget them before.
const ATTR_VALID: Nanos = Nanos::from_secs(1);
/// How long those of a file are that has data which are not written: as long as the system call
/// takes that has asked. Its space is an estimate until they are.
const ATTR_VALID_UNWRITTEN: Nanos = Nanos(1);
/// How long no names of a directory are told after a server had to wait for one.
const QUIET_TIME: Nanos = Nanos::from_secs(10);

/// How long the user of the client may use what it is told; 0 if it has to ask each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Valid {
    /// The name, and that it leads to this file.
    pub entry: Nanos,
    /// The attributes.
    pub attr: Nanos,
}

/// Something that is in use until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Used {
    /// Names of a file.
    Entry(Fid),
    /// Attributes of a file.
    Attr(Fid),
    /// What an object says of a file.
    Object(ObjectKey),
    /// A directory whose names are not told. Nobody uses it.
    Quiet(Fid),
}

/// Tells the user of the client to forget the attributes of a file.
type Invalidate = Box<dyn FnMut(Fid) + Send>;

/// What others use, and until when.
#[derive(Default)]
pub(super) struct Validity {
    /// How long names are valid; 0 for never.
    entry_valid: Nanos,
    invalidate: Option<Invalidate>,
    /// Until when, and of which file it is.
    until: BTreeMap<Used, (Time, Fid)>,
    by_time: BTreeSet<(Time, Used)>,
    /// Directories in which the client is about to change names, and how many times.
    changing: BTreeMap<Fid, u32>,
}

impl Validity {
    fn is_on(&self) -> bool {
        self.invalidate.is_some()
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

    /// The attributes of a file are to be forgotten, if anybody may use them.
    pub(super) fn end_attr(&mut self, fid: Fid) {
        let Some((until, _)) = self.until.remove(&Used::Attr(fid)) else { return };
        self.by_time.remove(&(until, Used::Attr(fid)));
        if let Some(invalidate) = &mut self.invalidate {
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

    /// Whether the client is about to change names in a directory. Who has the directory's
    /// attributes forgets by itself those that change, when it gets the answer.
    pub(super) fn is_changing(&self, dir: Fid) -> bool {
        self.changing.contains_key(&dir)
    }
}

impl Client {
    /// From now on [`Client::valid`] says what its user may use without asking. Names are valid for
    /// `entry_valid`, at most a second; 0 for never. `invalidate` is called with a file whose
    /// attributes are to be forgotten at once.
    pub fn share_validity(
        &mut self,
        entry_valid: Nanos,
        invalidate: impl FnMut(Fid) + Send + 'static,
    ) {
        self.validity.entry_valid = entry_valid.min(Nanos::from_secs(1));
        self.validity.invalidate = Some(Box::new(invalidate));
    }

    /// How long the user of the client may use what it is told now: the attributes of a file, and a
    /// name in a directory that leads to it. Until then the client keeps the locks.
    pub fn valid(&mut self, now: Time, name: Option<(Fid, &[u8])>, attr: &Attr) -> Valid {
        if !self.validity.is_on() || self.unmounted {
            return Valid::default();
        }
        let entry = match name.is_some_and(|(dir, name)| self.may_tell(now, dir, name, attr.fid)) {
            true => self.validity.entry_valid,
            false => Nanos(0),
        };
        if entry > Nanos(0) {
            let until = now + entry + DELAY_MAX;
            self.validity.use_until(Used::Entry(attr.fid), attr.fid, until, now);
        }
        Valid { entry, attr: self.attr_valid(now, attr) }
    }

    /// Whether a name leads to a file as long as the client keeps a lock, and nobody else works in
    /// the directory.
    fn may_tell(&self, now: Time, dir: Fid, name: &[u8], fid: Fid) -> bool {
        let is_quiet = |fid| self.validity.used(Used::Quiet(fid), now).is_some();
        let named = self.attrs.named(dir, name);
        named.is_some_and(|(known, _)| known == fid) && !is_quiet(dir) && !is_quiet(fid)
    }

    /// Whether somebody else uses names of a file.
    pub(super) fn uses_names_of(&self, fid: Fid, now: Time) -> bool {
        self.validity.used(Used::Entry(fid), now).is_some()
    }

    fn attr_valid(&mut self, now: Time, attr: &Attr) -> Nanos {
        let fid = attr.fid;
        if self.attrs.whole_lock_of(fid).is_none() {
            return Nanos(0);
        }
        let objects = match attr.is_file() {
            true => self.objects_that_say(attr),
            false => Some(Vec::new()),
        };
        let Some(objects) = objects else { return Nanos(0) };
        let is_written = objects.iter().all(|key| self.is_written(*key));
        let valid = if is_written { ATTR_VALID } else { ATTR_VALID_UNWRITTEN };
        let until = now + valid + DELAY_MAX;
        for key in objects {
            self.validity.use_until(Used::Object(key), fid, until, now);
        }
        self.validity.use_until(Used::Attr(fid), fid, until, now);
        valid
    }

    /// The objects of a file if all of them are known, and say what these attributes do.
    fn objects_that_say(&self, attr: &Attr) -> Option<Vec<ObjectKey>> {
        let layout = FileLayout::parse(&attr.layout).ok()?;
        if layout.component_on_mdt().is_some() || !self.caches(&layout) {
            return None;
        }
        let (mut found, mut keys) = (DataAttr::default(), Vec::new());
        for (component, stripe, _) in layout.objects() {
            let target = self.target_of(attr.fid, &layout, (component, stripe)).ok()?;
            let key = ObjectKey { import: target.import, oi: target.oi };
            let object = self.known_object(key)?;
            found.add(layout.file_size(component, stripe, object.size), &object);
            keys.push(key);
        }
        (attr.size == Some(found.size)).then_some(keys)
    }

    /// The server has said more of a file under the lock of its entry. The attributes as they are
    /// known now; who was told others forgets them.
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

    /// Forgets what is kept of a file under a lock, and has others forget it. Where the lock is.
    pub(super) fn forget_attr(&mut self, fid: Fid, lock: Handle) -> Option<ImportKey> {
        let import = self.attrs.remove(fid, lock)?;
        self.validity.end_attr(fid);
        Some(import)
    }

    /// Gives the lock of a file back that a server wants, when nobody may use its names any more.
    pub(super) fn cancel_when_unused(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
        (fid, dirs): (Fid, impl IntoIterator<Item = Fid>),
    ) {
        let Some(until) = self.validity.used(Used::Entry(fid), turn.now) else {
            return self.cancel_lock(turn, import, handle);
        };
        let quiet = turn.now + QUIET_TIME;
        for fid in dirs.into_iter().chain([fid]) {
            self.validity.use_until(Used::Quiet(fid), fid, quiet, turn.now);
        }
        let then: Done<()> = Box::new(|_, _, _| {});
        self.after(turn, until.since(turn.now), then, move |client, turn, _| {
            client.cancel_lock(turn, import, handle);
        });
    }

    /// The client changes names in directories: `done` is called when it has.
    pub(super) fn changing<T: 'static>(&mut self, dirs: Vec<Fid>, done: Done<T>) -> Done<T> {
        if !self.validity.is_on() {
            return done;
        }
        for dir in &dirs {
            *self.validity.changing.entry(*dir).or_default() += 1;
        }
        Box::new(move |client, turn, outcome| {
            for dir in dirs {
                if let Some(count) = client.validity.changing.get_mut(&dir) {
                    *count -= 1;
                    if *count == 0 {
                        client.validity.changing.remove(&dir);
                    }
                }
                // Who was told the attributes forgets them only if something has changed.
                if outcome.is_err() {
                    client.validity.end_attr(dir);
                }
            }
            done(client, turn, outcome);
        })
    }
}
