//! Attributes and names that are kept under locks: how they are asked for, and when they go.

use std::collections::BTreeMap;

use lustrine_fswire::connect::{ConnectFlags, ConnectFlags2};
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Disposition, Ibits, IntentOp, LdlmReply, LdlmRequest, LockDesc, LockMode, Policy, Resource,
};
use lustrine_fswire::mdt::{MdValid, MdtBody};
use lustrine_fswire::rpc::{Request, dlm};
use lustrine_fswire::text::Text;
use lustrine_ldlm::LockState;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;
use lustrine_ptlrpc::ImportKey;

use super::attr_cache::{AskedBy, AttrCounts, InodeLock, Named};
use super::locks::{CANCELS_MAX, cancels};
use super::metadata::{LOOKUPS_MAX, checked, wanted};
use super::open::intent_lock;
use super::{Answer, CallArgs, Caller, Client, Done, or_again};
use crate::attr::Attr;
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// Most locks of what is kept too long, or is too much, that an enqueue gives back.
const SURPLUS_MAX: usize = 4;

/// What protects the names that lead to a file, and who may search it.
const NAME_BITS: Ibits = Ibits::LOOKUP.union(Ibits::PERM);

/// How a getattr intent says which file it asks for.
#[derive(Clone, Debug)]
pub(super) enum GetattrBy {
    Fid(Fid),
    /// The directory, and a name in it.
    Name(Fid, Vec<u8>),
}

/// A getattr intent that a server was asked for.
pub(super) struct GetattrAsked {
    pub(super) import: ImportKey,
    /// The client's handle of the lock.
    pub(super) handle: Handle,
    pub(super) by: GetattrBy,
    pub(super) caller: Caller,
    /// The lock that there was on the permissions of the directory.
    pub(super) dir_lock: Option<Handle>,
    /// The lock that there was on the names of the file, if it was asked for by its FID.
    pub(super) name_lock: Option<Handle>,
}

/// What an answer to a getattr intent says.
pub(super) enum Described {
    /// The attributes of a file.
    Here(Attr),
    /// The directory does not have the name.
    Missing,
    /// The file is on another metadata target.
    Elsewhere(Fid),
}

impl Client {
    /// What the client keeps of attributes and names.
    pub fn attr_counts(&self) -> AttrCounts {
        AttrCounts { statahead: self.ahead.total(), ..self.attrs.counts() }
    }

    /// The attributes of a file, if they are kept: what [`Client::getattr`] answers at once.
    pub(super) fn kept_attr(&mut self, now: Time, caller: Caller, fid: Fid) -> Option<Attr> {
        let keeps = self.attrs.is_on() && !self.unmounted;
        keeps.then(|| self.attrs.find(fid, &caller, now)).flatten()
    }

    /// Asks for the attributes of a file, unless they are kept.
    pub fn getattr(&mut self, turn: &mut Turn<'_>, caller: Caller, fid: Fid, done: Done<Attr>) {
        if let Some(attr) = self.kept_attr(turn.now, caller, fid) {
            return done(self, turn, Ok(attr));
        }
        if !self.attrs.is_on() || self.unmounted {
            return self.getattr_uncached(turn, caller, fid, done);
        }
        // There is a lock, and this caller has not been answered yet.
        if let Some(lock) = self.attrs.whole_lock_of(fid) {
            let then: Done<Attr> = Box::new(move |client, turn, attr| {
                let attr = client.seen_under(turn, lock, caller, attr);
                done(client, turn, attr);
            });
            return self.getattr_uncached(turn, caller, fid, then);
        }
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            client.getattr_intent(turn, import, caller, GetattrBy::Fid(fid), done);
        });
    }

    /// Looks a name up in the directory or the stripe that has it, unless the answer is kept.
    pub(super) fn lookup_kept(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        name: Vec<u8>,
        done: Done<Attr>,
    ) {
        if !self.attrs.is_on() || self.unmounted {
            return self.lookup_uncached(turn, caller, dir, name, done);
        }
        self.after_name_ahead(turn, (dir, name), done, move |client, turn, name, done| {
            client.lookup_known(turn, caller, dir, name, done);
        });
    }

    /// Answers with what is kept of a name, or asks a server.
    fn lookup_known(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        name: Vec<u8>,
        done: Done<Attr>,
    ) {
        let whole = self.whole_of(dir);
        match self.attrs.find_name((whole, dir), &name, &caller, turn.now) {
            Named::File(attr) => done(self, turn, Ok(attr)),
            Named::Missing => {
                self.ahead.note_missing(&name);
                done(self, turn, Err(ClientError::Errno(errno::ENOENT)));
            }
            Named::Unknown => {
                self.ask_dir(turn, caller, dir);
                self.ask_name(turn, caller, dir, name, done);
            }
        }
    }

    /// Asks a server for a name that is not known, or not for this caller.
    pub(super) fn ask_name(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        name: Vec<u8>,
        done: Done<Attr>,
    ) {
        let (whole, named) = (self.whole_of(dir), self.attrs.named(dir, &name));
        // The name is known: only the target that has the file needs to be asked.
        if let Some(fid) = named.filter(|fid| self.attrs.is_away(*fid))
            && self.attrs.searches(whole, &caller, turn.now)
        {
            return self.getattr_elsewhere(turn, caller, (dir, name), fid, done);
        }
        // There is a lock on the file, and this caller has not been answered yet, or may not be
        // able to search the directory any more.
        if let Some(lock) = named.and_then(|fid| self.attrs.whole_lock_of(fid)) {
            let dir_lock = self.attrs.perm_lock_of(whole);
            let then: Done<Attr> = Box::new(move |client, turn, attr| {
                client.note_search(turn, (whole, dir_lock), caller, &attr);
                let attr = client.seen_under(turn, lock, caller, attr);
                done(client, turn, attr);
            });
            return self.lookup_uncached(turn, caller, dir, name, then);
        }
        self.at_mdt_of(turn, dir, done, move |client, turn, import, done| {
            client.getattr_intent(turn, import, caller, GetattrBy::Name(dir, name), done);
        });
    }

    /// The second name that a server is asked for has the attributes of the directory asked for,
    /// since names are shown only to those who could search it while there was a lock on it.
    fn ask_dir(&mut self, turn: &mut Turn<'_>, caller: Caller, dir: Fid) {
        let dir = self.whole_of(dir);
        let worth = self.attrs.note_lookup(dir) && self.attrs.perm_lock_of(dir).is_none();
        if !worth || !self.attrs.asked.insert(dir) {
            return;
        }
        let then: Done<Attr> = Box::new(move |client, _, _| {
            client.attrs.asked.remove(&dir);
            if client.attrs.perm_lock_of(dir).is_none() {
                client.attrs.forget_lookups(dir);
            }
        });
        self.getattr(turn, caller, dir, then);
    }

    /// A server has answered a caller without a lock. If the lock of the file's entry has been held
    /// all the time, the caller may be given what is kept. The answer with what is known besides.
    fn seen_under(
        &mut self,
        turn: &mut Turn<'_>,
        lock: Handle,
        caller: Caller,
        attr: Outcome<Attr>,
    ) -> Outcome<Attr> {
        let attr = attr?;
        if self.attrs.whole_lock_of(attr.fid) != Some(lock) {
            return Ok(attr);
        }
        self.attrs.allow(attr.fid, caller, turn.now);
        Ok(self.refresh_attr(lock, attr))
    }

    /// A server has looked a name up for a caller, or has refused. `lock` is the one that there was
    /// on the permissions of the directory before.
    fn note_search<T>(
        &mut self,
        turn: &Turn<'_>,
        (dir, lock): (Fid, Option<Handle>),
        caller: Caller,
        found: &Outcome<T>,
    ) {
        match (found, lock) {
            (Ok(_), Some(lock)) => self.attrs.allow_search((dir, lock), caller, turn.now),
            (Err(ClientError::Errno(errno::EACCES)), _) => self.attrs.forbid(dir, &caller),
            _ => {}
        }
    }

    /// Asks for attributes with an intent, which brings a lock on the file [LOCK-20].
    fn getattr_intent(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        caller: Caller,
        by: GetattrBy,
        done: Done<Attr>,
    ) {
        let handle = self.next_handle();
        let mut handles = vec![handle];
        handles.extend(self.surplus_of(import, turn.now));
        let (asked, name) = match by.clone() {
            GetattrBy::Fid(fid) => (fid, Vec::new()),
            GetattrBy::Name(dir, name) => (dir, name),
        };
        let lock = intent_lock(asked, LockMode::CR, Ibits::UPDATE, &handles);
        let body = caller.body(MdtBody {
            fid1: asked,
            fid2: if name.is_empty() { asked } else { Fid::ZERO },
            valid: wanted(),
            eadatasize: self.ea_room(import),
            ..MdtBody::default()
        });
        // Without a name there is still the zero byte.
        let (intent, name) = (IntentOp::GETATTR, Text::new(&name));
        let request = dlm::GetattrIntent { lock, intent, body, name, ..Default::default() };
        let mut call = CallArgs::from(Request::EnqueueGetattr(request));
        call.reply_len = 2048 + self.layout_room(import);
        call.caller = Some(caller);
        self.lock_asked(import, &lock);
        let dir_lock = self.attrs.perm_lock_of(self.whole_of(asked));
        let name_lock = self.attrs.lookup_lock_of(asked);
        let asked = GetattrAsked { import, handle, by, caller, dir_lock, name_lock };
        self.call(turn, import, call, move |client, turn, answer| {
            let found = answer.and_then(|answer| described(&answer, &asked.by));
            client.getattr_answered(turn, asked, found, done);
        });
    }

    /// A server has answered a getattr intent: with a lock, and what it says of the file.
    pub(super) fn getattr_answered(
        &mut self,
        turn: &mut Turn<'_>,
        asked: GetattrAsked,
        found: Outcome<(LdlmReply, Outcome<Described>)>,
        done: Done<Attr>,
    ) {
        let GetattrAsked { import, handle, by, caller, dir_lock, name_lock } = asked;
        let (reply, mut found) = match found {
            Ok((reply, found)) => (Some(reply), found),
            Err(error) => (None, Err(error)),
        };
        let name = match &by {
            GetattrBy::Name(dir, name) => Some((*dir, &name[..])),
            GetattrBy::Fid(_) => None,
        };
        if let Some((dir, _)) = name {
            self.note_search(turn, (self.whole_of(dir), dir_lock), caller, &found);
        }
        match (&mut found, &reply) {
            (Ok(Described::Here(attr)), Some(reply)) => {
                self.saw(attr);
                let asked_by = match name {
                    Some((dir, name)) => AskedBy::Name(dir, name),
                    None => AskedBy::Fid(name_lock),
                };
                let is_kept =
                    self.keep_attr(turn, (import, handle), reply, (attr, asked_by), caller);
                if is_kept && let Some(lock) = self.attrs.whole_lock_of(attr.fid) {
                    // The entry may have been there before, with later times.
                    *attr = self.refresh_attr(lock, attr.clone());
                }
            }
            (Ok(Described::Elsewhere(fid)), Some(reply)) => {
                self.keep_name(turn, (import, handle), reply, (name, *fid));
            }
            _ => self.give_back(import, handle, reply.as_ref()),
        }
        match found {
            Ok(Described::Here(attr)) => done(self, turn, Ok(attr)),
            Ok(Described::Elsewhere(fid)) => {
                // Only a name leads to another target.
                let GetattrBy::Name(dir, name) = by else {
                    return done(self, turn, Err(malformed("the attributes of another file")));
                };
                self.getattr_elsewhere(turn, caller, (dir, name), fid, done);
            }
            Ok(Described::Missing) => {
                if let GetattrBy::Name(dir, name) = &by {
                    self.ahead.note_missing(name);
                    if let Some(lock) = dir_lock {
                        self.attrs.add_missing((*dir, lock), name);
                    }
                }
                done(self, turn, Err(ClientError::Errno(errno::ENOENT)));
            }
            // Requests without an intent are sent again until the server has time.
            Err(ClientError::Errno(errno::EINPROGRESS)) => match by {
                GetattrBy::Fid(fid) => self.getattr_uncached(turn, caller, fid, done),
                GetattrBy::Name(dir, name) => {
                    self.lookup_uncached(turn, caller, dir, name, done);
                }
            },
            Err(error) => {
                // So a batch says that a name is missing.
                if let (GetattrBy::Name(_, name), ClientError::Errno(errno::ENOENT)) = (&by, &error)
                {
                    self.ahead.note_missing(name);
                }
                done(self, turn, Err(error));
            }
        }
    }

    /// Asks for the attributes of a file on another target than its name. If it is gone, the name
    /// is looked up again.
    fn getattr_elsewhere(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        name: (Fid, Vec<u8>),
        fid: Fid,
        done: Done<Attr>,
    ) {
        let again = or_again(done, move |client, turn, done| {
            client.lookup_again(turn, caller, name, LOOKUPS_MAX - 1, done);
        });
        self.getattr(turn, caller, fid, again);
    }

    /// Keeps attributes if the lock that came with them covers all of them and no other client
    /// waits for it; otherwise gives the lock back. If it covers the name too, that is kept with
    /// them. Of a file that was not asked for by a name, it is said which lock there was on its
    /// names. Whether something is kept.
    pub(super) fn keep_attr(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
        reply: &LdlmReply,
        (attr, asked_by): (&Attr, AskedBy<'_>),
        caller: Caller,
    ) -> bool {
        let mut bits = self.bits_granted((import, handle), reply, attr.fid);
        let mut needed = Ibits::UPDATE | Ibits::PERM;
        needed.set(Ibits::LAYOUT, attr.is_file());
        // A file without a name ends when the last program closes it, for which no server takes a
        // lock. What a stripe has is of use with that of the others alone.
        let is_stripe = self.whole_of(attr.fid) != attr.fid;
        if !bits.contains(needed) || attr.nlink == 0 || is_stripe {
            self.cancel_soon(import, handle);
            return false;
        }
        // A rename changes the time of change under LOOKUP alone if the name is on another target
        // [LOCK-24]: then that lock must have been held when the server was asked.
        let is_held = match asked_by {
            AskedBy::Fid(Some(lock)) => self.attrs.lookup_lock_of(attr.fid) == Some(lock),
            _ => false,
        };
        // What a striped directory has is at other targets.
        if !bits.contains(Ibits::LOOKUP) && !is_held || attr.is_striped_dir() {
            bits -= Ibits::UPDATE;
        }
        self.keep_inode_lock(turn, InodeLock { import, handle, bits }, attr);
        self.attrs.allow(attr.fid, caller, turn.now);
        if let AskedBy::Name(dir, name) = asked_by
            && bits.contains(Ibits::LOOKUP)
        {
            self.attrs.add_name(dir, name, attr.fid);
        }
        true
    }

    /// Keeps a name that leads to a file on another target, if the lock that came with it covers
    /// it; otherwise gives the lock back [LOCK-24].
    fn keep_name(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
        reply: &LdlmReply,
        (name, fid): (Option<(Fid, &[u8])>, Fid),
    ) {
        let bits = self.bits_granted((import, handle), reply, fid);
        let Some((dir, name)) = name.filter(|_| bits.contains(Ibits::LOOKUP)) else {
            return self.cancel_soon(import, handle);
        };
        let lock = InodeLock { import, handle, bits: Ibits::LOOKUP };
        self.keep_inode_lock(turn, lock, &Attr { fid, ..Attr::default() });
        self.attrs.add_name(dir, name, fid);
    }

    /// What a lock on a file protects that came with an answer; nothing if no lock came or it is
    /// not to be kept.
    fn bits_granted(
        &mut self,
        (import, handle): (ImportKey, Handle),
        reply: &LdlmReply,
        fid: Fid,
    ) -> Ibits {
        self.locks.at(import).answered(handle, reply);
        let keeps = self.attrs.is_on() && !self.unmounted;
        let lock = self.locks.get(import, handle).filter(|lock| {
            let on_it = lock.desc.resource == Resource::of_fid(fid);
            let protects = matches!(lock.desc.granted_mode, LockMode::PR | LockMode::PW);
            keeps && lock.state == LockState::Granted && !lock.blocked && protects && on_it
        });
        lock.and_then(|lock| lock.desc.policy.ibits()).unwrap_or_default()
    }

    /// Keeps a lock on a file, and gives back those that are of no use beside it. Entries that are
    /// too many now go at the end of the turn, together.
    fn keep_inode_lock(&mut self, turn: &Turn<'_>, lock: InodeLock, attr: &Attr) {
        let surplus = self.attrs.keep(lock, attr, turn.now);
        for lock in surplus {
            self.cancel_soon(lock.import, lock.handle);
        }
    }

    /// Whether only a part of a lock is given back if a server wants these bits of it: then the
    /// names that lead to the file, and who may search it, stay protected [LOCK-23]. A server wants
    /// such bits of a directory for each name that is made or removed there, and of any file for a
    /// change of its times. The names of a file with data are worth it only while they are in use.
    pub(super) fn converts(
        &mut self,
        now: Time,
        (import, handle): (ImportKey, Handle),
        wanted: Ibits,
    ) -> bool {
        let Some(lock) = self.locks.at(import).get(handle) else { return false };
        let fid = lock.desc.resource.fid();
        let kept = self.attrs.locks_of(fid).into_iter().find(|kept| kept.handle == handle);
        !wanted.is_empty()
            && !wanted.intersects(NAME_BITS)
            && lock.state == LockState::Granted
            && !lock.blocked
            && kept.is_some_and(|kept| kept.bits.intersects(NAME_BITS))
            && (self.attrs.is_dir(fid) || self.validity.entries_used(fid, now).is_some())
            && self.can_convert(import)
    }

    /// Gives back all of a lock but what protects names, if that is more.
    pub(super) fn convert(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
        wanted: Ibits,
    ) {
        let Some(lock) = self.locks.at(import).get(handle) else { return };
        // The callback may have been under way when the lock was converted for another one.
        let has = lock.desc.policy.ibits().unwrap_or_default();
        if !has.intersects(wanted) {
            return;
        }
        let fid = lock.desc.resource.fid();
        self.validity.end_attr(fid);
        let left = has & NAME_BITS;
        let Some(remote) = self.locks.at(import).convert(handle, left) else {
            return self.attrs_blocked(turn, (import, handle));
        };
        self.attrs.narrow(fid, handle, left);
        let handles = [remote];
        let mode = lock.desc.granted_mode;
        let policy = Policy::Other([left.bits(), 0, 0, 0]);
        let desc = LockDesc { req_mode: mode, granted_mode: mode, policy, ..LockDesc::default() };
        let handles = handles.as_slice().into();
        let lock = LdlmRequest { count: 1, desc, handles, ..LdlmRequest::default() };
        let request = Request::LdlmConvert(dlm::Lock { lock });
        self.call(turn, import, request, move |client, turn, answer| {
            // A server that refuses has no such lock, or wants all of it back.
            let refused = !matches!(&answer, Ok(answer) if answer.reply.status == 0);
            if refused {
                client.attrs_blocked(turn, (import, handle));
            }
        });
    }

    /// Whether a server takes a part of a lock back.
    pub(super) fn can_convert(&self, import: ImportKey) -> bool {
        let import = self.rpc.import(import);
        import.is_some_and(|import| import.granted().flags2.contains(ConnectFlags2::LOCK_CONVERT))
    }

    /// A server wants a lock back: what is kept under it goes, and then the lock.
    pub(super) fn attrs_blocked(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
    ) {
        let Some(lock) = self.locks.at(import).get(handle) else { return };
        let fid = lock.desc.resource.fid();
        let dirs = self.attrs.dirs_of(fid);
        if self.forget_attr(fid, handle).is_some() {
            self.cancel_when_unused(turn, (import, handle), (fid, dirs));
        }
    }

    /// A server has lost its locks. Those of attributes are not asked for again: a client that does
    /// not come back may have made the changes that were seen, and these are lost with it.
    pub(super) fn attrs_lost(&mut self, import: ImportKey) {
        for (fid, handle) in self.attrs.at(import) {
            self.forget_attr(fid, handle);
            self.locks.at(import).remove(handle);
        }
    }

    /// When an entry is too old, or one that was too many is not in use any more.
    pub(super) fn attrs_deadline(&self) -> Time {
        let surplus = self.attrs.surplus(0, Time::ZERO);
        let used = surplus.and_then(|fid| self.validity.entries_used(fid, Time::ZERO));
        used.unwrap_or_else(|| self.attrs.deadline())
    }

    /// Gives back the locks of entries that are too many or too old, many with one request.
    pub(super) fn drive_attrs(&mut self, turn: &mut Turn<'_>) {
        let mut surplus: BTreeMap<ImportKey, Vec<Handle>> = BTreeMap::new();
        while let Some(fid) = self.surplus(0, turn.now) {
            for lock in self.attrs.locks_of(fid) {
                surplus.entry(lock.import).or_default().extend(self.forget_lock(fid, lock));
            }
        }
        for (import, locks) in surplus {
            for handles in locks.chunks(CANCELS_MAX) {
                let lock = cancels(handles);
                let request = Request::LdlmCancel(dlm::Lock { lock });
                self.call(turn, import, request, |_, _, _| {});
            }
        }
    }

    /// The least recently used entry that is too old, or with `more` entries one too many. One that
    /// somebody else uses stays for that moment.
    fn surplus(&self, more: usize, now: Time) -> Option<Fid> {
        let surplus = self.attrs.surplus(more, now);
        surplus.filter(|fid| self.validity.entries_used(*fid, now).is_none())
    }

    /// Forgets the lock of a file, and what is kept under it, before a request gives it back. The
    /// server's handle of it, for that request. If the server calls the lock back before the
    /// request arrives, it learns that the lock is not there [LOCK-15].
    fn forget_lock(&mut self, fid: Fid, lock: InodeLock) -> Option<Handle> {
        self.forget_attr(fid, lock.handle);
        let lock = self.locks.at(lock.import).remove(lock.handle)?;
        (lock.remote != Handle::NONE).then_some(lock.remote)
    }

    /// Whether a server takes locks back with other requests.
    fn cancels_early(&self, import: ImportKey) -> bool {
        let import = self.rpc.import(import);
        import.is_some_and(|import| import.granted().flags.contains(ConnectFlags::CANCELSET))
    }

    /// Locks of a target that one more entry would be too much for: they go with its enqueue.
    fn surplus_of(&mut self, import: ImportKey, now: Time) -> Vec<Handle> {
        let mut handles = Vec::new();
        while handles.len() < SURPLUS_MAX
            && self.cancels_early(import)
            && let Some(fid) = self.surplus(1, now)
        {
            for lock in self.attrs.locks_of(fid) {
                if lock.import == import {
                    handles.extend(self.forget_lock(fid, lock));
                    self.attrs.count_early_cancel();
                } else {
                    self.forget_attr(fid, lock.handle);
                    self.cancel_soon(lock.import, lock.handle);
                }
            }
        }
        handles
    }

    /// The client is about to change files: what is kept of them goes, and the locks go with the
    /// request that makes the change, which the server would call back otherwise [LOCK-10].
    pub(super) fn early_cancels(
        &mut self,
        import: ImportKey,
        changed: impl IntoIterator<Item = Fid>,
    ) -> Vec<Handle> {
        let mut handles = Vec::new();
        for fid in changed {
            self.attrs.forget_lookups(fid);
            for lock in self.attrs.locks_of(fid) {
                if lock.import == import && self.cancels_early(import) {
                    handles.extend(self.forget_lock(fid, lock));
                    self.attrs.count_early_cancel();
                }
            }
        }
        handles
    }

    /// The client is about to rename files at a target. Locks on their names at other targets go
    /// too: servers would call them back, and wait until the names are not in use.
    pub(super) fn give_names_back(&mut self, import: ImportKey, renamed: &[Fid]) {
        for fid in renamed {
            for lock in self.attrs.locks_of(*fid) {
                if lock.import != import && lock.bits.contains(Ibits::LOOKUP) {
                    self.forget_attr(*fid, lock.handle);
                    self.cancel_soon(lock.import, lock.handle);
                }
            }
        }
    }

    /// The client is about to make or to remove names in directories. The same, but for locks that
    /// the server converts when it makes the change: what they protect besides is still of use.
    pub(super) fn early_cancels_of_dirs(
        &mut self,
        import: ImportKey,
        dirs: impl IntoIterator<Item = Fid>,
    ) -> Vec<Handle> {
        let converts = self.can_convert(import);
        let whole = dirs.into_iter().filter(|dir| {
            self.attrs.forget_lookups(self.whole_of(*dir));
            !converts && self.attrs.perm_lock_of(*dir).is_some()
        });
        let whole: Vec<Fid> = whole.collect();
        self.early_cancels(import, whole)
    }

    /// The file that a name leads to, if that is kept.
    pub(super) fn kept_name(&self, dir: Fid, name: &[u8]) -> Option<Fid> {
        self.attrs.named(dir, name)
    }

    /// The same, or if the name is in use by the user of the client: that does not ask for it again
    /// before it has the client change it.
    pub(super) fn known_name(&self, now: Time, dir: Fid, name: &[u8]) -> Option<Fid> {
        self.attrs.named(dir, name).or_else(|| self.validity.entry(dir, name, now))
    }
}

/// Locks that a request gives back; none if there are none.
pub(super) fn early(handles: &[Handle]) -> Option<LdlmRequest<'_>> {
    (!handles.is_empty()).then(|| cancels(handles))
}

/// The lock that came with an answer, and what was asked for.
fn described(answer: &Answer, by: &GetattrBy) -> Outcome<(LdlmReply, Outcome<Described>)> {
    let reply = reply_of!(&answer.reply, EnqueueGetattr)?;
    Ok((reply.reply, read(&reply, by)))
}

/// What an answer to a getattr intent says of the file.
pub(super) fn read(reply: &dlm::GetattrIntentReply<'_>, by: &GetattrBy) -> Outcome<Described> {
    let result = reply.reply.policy_res2;
    if result < 0 {
        let errno = result.checked_neg().and_then(|errno| i32::try_from(errno).ok());
        return Err(ClientError::Errno(errno.unwrap_or(errno::EPROTO)));
    }
    if reply.reply.disposition().contains(Disposition::LOOKUP_NEG) {
        return match by {
            GetattrBy::Fid(_) => Err(ClientError::Errno(errno::ENOENT)),
            GetattrBy::Name(..) => Ok(Described::Missing),
        };
    }
    let elsewhere = reply.body.valid.contains(MdValid::MDS);
    let attr = checked(Attr::of(&reply.body, reply.ea))?;
    match by {
        GetattrBy::Fid(fid) if attr.fid != *fid => Err(malformed("the attributes of another file")),
        GetattrBy::Name(..) if elsewhere => Ok(Described::Elsewhere(attr.fid)),
        _ => Ok(Described::Here(attr)),
    }
}
