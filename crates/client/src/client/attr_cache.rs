//! Attributes that the client keeps, each under a lock of the metadata server on the file.
//!
//! An entry is there only while the client has a lock of the bits LOOKUP, UPDATE and PERM, and for
//! a regular file LAYOUT [LOCK-3]: any change at the server first has the lock given back, and the
//! entry goes before the lock does. An entry is given only to callers whom the server itself has
//! answered while the lock was held.

use std::collections::BTreeMap;

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{Disposition, Ibits, IntentOp, LdlmReply, LockMode};
use lustrine_fswire::mdt::MdtBody;
use lustrine_fswire::rpc::{Request, dlm};
use lustrine_fswire::text::Text;
use lustrine_ldlm::LockState;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::ImportKey;

use super::metadata::{checked, wanted};
use super::open::intent_lock;
use super::{Answer, CallArgs, Caller, Client, Done};
use crate::attr::Attr;
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// Most callers that an entry is given to; the oldest one is asked for again.
const CALLERS_MAX: usize = 4;

/// What a client keeps of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrCounts {
    /// Files whose attributes are kept, each with a lock.
    pub entries: usize,
    /// Requests of programs that were answered without a server.
    pub hits: u64,
    /// Requests for which a server was asked.
    pub misses: u64,
}

/// Attributes, and the lock that they are kept under.
struct Entry {
    import: ImportKey,
    handle: Handle,
    attr: Attr,
    callers: Vec<Caller>,
    /// The number of the last use.
    used: u64,
}

/// All attributes that are kept.
pub(super) struct AttrCache {
    /// Most entries; 0 keeps none.
    max: usize,
    max_age: Nanos,
    entries: BTreeMap<Fid, Entry>,
    /// Files by the locks of their entries.
    locks: BTreeMap<Handle, Fid>,
    /// Files by their last use, the least recently used first, and when that was.
    lru: BTreeMap<u64, (Fid, Time)>,
    last_use: u64,
    hits: u64,
    misses: u64,
}

impl AttrCache {
    pub(super) fn new(max: usize, max_age: Nanos) -> AttrCache {
        AttrCache {
            max,
            max_age,
            entries: BTreeMap::new(),
            locks: BTreeMap::new(),
            lru: BTreeMap::new(),
            last_use: 0,
            hits: 0,
            misses: 0,
        }
    }

    fn touch(&mut self, fid: Fid, now: Time) {
        let Some(entry) = self.entries.get_mut(&fid) else { return };
        self.last_use += 1;
        self.lru.remove(&entry.used);
        entry.used = self.last_use;
        self.lru.insert(entry.used, (fid, now));
    }

    /// Attributes that a caller may be given.
    fn find(&mut self, fid: Fid, caller: &Caller, now: Time) -> Option<Attr> {
        let attr = match self.entries.get(&fid) {
            Some(entry) if entry.callers.contains(caller) => entry.attr.clone(),
            _ => {
                self.misses += 1;
                return None;
            }
        };
        self.hits += 1;
        self.touch(fid, now);
        Some(attr)
    }

    /// The server has answered one more caller. Whether there is an entry.
    fn allow(&mut self, fid: Fid, caller: Caller, now: Time) -> bool {
        let Some(entry) = self.entries.get_mut(&fid) else { return false };
        if !entry.callers.contains(&caller) {
            if entry.callers.len() == CALLERS_MAX {
                entry.callers.remove(0);
            }
            entry.callers.push(caller);
        }
        self.touch(fid, now);
        true
    }

    fn insert(&mut self, (import, handle): (ImportKey, Handle), attr: Attr, now: Time) {
        let fid = attr.fid;
        self.locks.insert(handle, fid);
        let entry = Entry { import, handle, attr, callers: Vec::new(), used: 0 };
        self.entries.insert(fid, entry);
        self.touch(fid, now);
    }

    /// Forgets the entry of a lock, and says where the lock is.
    fn remove(&mut self, handle: Handle) -> Option<ImportKey> {
        let entry = self.entries.remove(&self.locks.remove(&handle)?)?;
        self.lru.remove(&entry.used);
        Some(entry.import)
    }

    /// The lock of the least recently used entry, if it is one too many or too old.
    fn surplus(&self, now: Time) -> Option<Handle> {
        let (fid, used) = self.lru.values().next()?;
        let goes = self.entries.len() > self.max || *used + self.max_age <= now;
        self.entries.get(fid).filter(|_| goes).map(|entry| entry.handle)
    }

    fn at(&self, import: ImportKey) -> Vec<Handle> {
        let entries = self.entries.values().filter(|entry| entry.import == import);
        entries.map(|entry| entry.handle).collect()
    }
}

impl Client {
    /// What the client keeps of attributes.
    pub fn attr_counts(&self) -> AttrCounts {
        let AttrCache { entries, hits, misses, .. } = &self.attrs;
        AttrCounts { entries: entries.len(), hits: *hits, misses: *misses }
    }

    /// Asks for the attributes of a file, unless they are kept.
    pub fn getattr(&mut self, turn: &mut Turn<'_>, caller: Caller, fid: Fid, done: Done<Attr>) {
        if self.attrs.max == 0 || self.unmounted {
            return self.getattr_uncached(turn, caller, fid, done);
        }
        if let Some(attr) = self.attrs.find(fid, &caller, turn.now) {
            return done(self, turn, Ok(attr));
        }
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let handles = [client.next_handle()];
            let lock = intent_lock(fid, LockMode::CR, Ibits::UPDATE, &handles);
            let body = caller.body(MdtBody {
                fid1: fid,
                fid2: fid,
                valid: wanted(),
                eadatasize: client.ea_room(import),
                ..MdtBody::default()
            });
            let intent = IntentOp::GETATTR;
            // Without a name there is still the zero byte.
            let name = Text::new(b"");
            let request = dlm::GetattrIntent { lock, intent, body, name, ..Default::default() };
            let mut call = CallArgs::from(Request::EnqueueGetattr(request));
            call.reply_len = 2048 + body.eadatasize;
            call.caller = Some(caller);
            client.lock_asked(import, &lock);
            let [handle] = handles;
            client.call(turn, import, call, move |client, turn, answer| {
                let found = answer.and_then(|answer| described(&answer, fid));
                let (reply, attr) = match found {
                    Ok((reply, attr)) => (Some(reply), attr),
                    Err(error) => (None, Err(error)),
                };
                if let Ok(attr) = &attr {
                    client.dirs.seen(attr);
                }
                match (&reply, &attr) {
                    (Some(reply), Ok(attr)) => {
                        client.keep_attr(turn, (import, handle), reply, attr, caller);
                    }
                    _ => client.give_back(turn, import, handle, reply.as_ref()),
                }
                done(client, turn, attr);
            });
        });
    }

    /// Keeps attributes if the lock that came with them covers all of them and no other client
    /// waits for it.
    fn keep_attr(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
        reply: &LdlmReply,
        attr: &Attr,
        caller: Caller,
    ) {
        self.locks.at(import).answered(handle, reply);
        let mut needed = Ibits::LOOKUP | Ibits::UPDATE | Ibits::PERM;
        needed.set(Ibits::LAYOUT, attr.is_file());
        let covers = self.locks.at(import).get(handle).is_some_and(|lock| {
            let bits = lock.desc.policy.ibits().unwrap_or_default();
            let on_it = lock.desc.resource == lustrine_fswire::ldlm::Resource::of_fid(attr.fid);
            let protects = matches!(lock.desc.granted_mode, LockMode::PR | LockMode::PW);
            let granted = lock.state == LockState::Granted && !lock.blocked;
            granted && protects && on_it && bits.contains(needed)
        });
        // What a striped directory has is at other targets. A file without a name ends when the
        // last program closes it, for which no server takes a lock.
        let lasts = attr.nlink > 0 && !attr.is_striped_dir();
        if !covers || !lasts || self.unmounted {
            return self.cancel_lock(turn, import, handle);
        }
        // The lock that is there has been held all the time.
        if self.attrs.allow(attr.fid, caller, turn.now) {
            return self.cancel_lock(turn, import, handle);
        }
        self.attrs.insert((import, handle), attr.clone(), turn.now);
        self.attrs.allow(attr.fid, caller, turn.now);
        self.drive_attrs(turn);
    }

    /// A server wants a lock back: if attributes are kept under it, they go, and then the lock.
    pub(super) fn attrs_blocked(&mut self, turn: &mut Turn<'_>, handle: Handle) {
        if let Some(import) = self.attrs.remove(handle) {
            self.cancel_lock(turn, import, handle);
        }
    }

    /// A server has lost its locks. Those of attributes are not asked for again: a client that does
    /// not come back may have made the changes that were seen, and these are lost with it.
    pub(super) fn attrs_lost(&mut self, import: ImportKey) {
        for handle in self.attrs.at(import) {
            self.attrs.remove(handle);
            self.locks.at(import).remove(handle);
        }
    }

    /// When an entry is too old.
    pub(super) fn attrs_deadline(&self) -> Time {
        let oldest = self.attrs.lru.values().next();
        oldest.map_or(Time::NEVER, |(_, used)| *used + self.attrs.max_age)
    }

    /// Gives back the locks of entries that are too many or too old.
    pub(super) fn drive_attrs(&mut self, turn: &mut Turn<'_>) {
        while let Some(handle) = self.attrs.surplus(turn.now) {
            self.attrs_blocked(turn, handle);
        }
    }
}

/// The lock that came with attributes, and the attributes of the file that was asked for.
fn described(answer: &Answer, fid: Fid) -> Outcome<(LdlmReply, Outcome<Attr>)> {
    let reply = reply_of!(&answer.reply, EnqueueGetattr)?;
    let result = reply.reply.policy_res2;
    let attr = if result < 0 {
        let errno = result.checked_neg().and_then(|errno| i32::try_from(errno).ok());
        Err(ClientError::Errno(errno.unwrap_or(errno::EPROTO)))
    } else if reply.reply.disposition().contains(Disposition::LOOKUP_NEG) {
        Err(ClientError::Errno(errno::ENOENT))
    } else {
        checked(Attr::of(&reply.body, reply.ea)).and_then(|attr| match attr.fid == fid {
            true => Ok(attr),
            false => Err(malformed("the attributes of another file")),
        })
    };
    Ok((reply.reply, attr))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(oid: u32) -> Attr {
        Attr { fid: Fid::new(1 << 34, oid), mode: 0o100_644, ..Attr::default() }
    }

    fn caller(uid: u32) -> Caller {
        Caller { uid, capabilities: 0, ..Caller::ROOT }
    }

    #[test]
    fn the_least_recently_used_goes_first_and_the_old_in_any_case() {
        let mut cache = AttrCache::new(2, Nanos(100));
        let import = ImportKey::default();
        for oid in 1..=3 {
            cache.insert((import, Handle(oid)), attr(oid as u32), Time(oid));
            assert!(cache.allow(attr(oid as u32).fid, caller(5), Time(oid)));
        }
        assert!(cache.find(attr(1).fid, &caller(5), Time(4)).is_some());
        assert_eq!(cache.surplus(Time(5)), Some(Handle(2)));
        assert_eq!(cache.remove(Handle(2)), Some(import));
        assert_eq!(cache.remove(Handle(2)), None);
        assert_eq!(cache.surplus(Time(102)), None);
        assert_eq!(cache.surplus(Time(103)), Some(Handle(3)));
        assert_eq!((cache.lru.len(), cache.locks.len(), cache.entries.len()), (2, 2, 2));
    }

    #[test]
    fn an_entry_is_given_to_those_whom_the_server_has_answered() {
        let mut cache = AttrCache::new(9, Nanos(100));
        let fid = attr(1).fid;
        assert!(!cache.allow(fid, caller(1), Time(1)));
        cache.insert((ImportKey::default(), Handle(1)), attr(1), Time(1));
        assert!(cache.find(fid, &caller(1), Time(1)).is_none());
        for uid in 1..=5 {
            assert!(cache.allow(fid, caller(uid), Time(1)));
        }
        // Others of the same user have other groups.
        let other = Caller { suppgid: 7, ..caller(5) };
        assert!(cache.find(fid, &other, Time(1)).is_none());
        assert!(cache.find(fid, &caller(1), Time(1)).is_none(), "there are five callers");
        assert_eq!(cache.find(fid, &caller(5), Time(1)), Some(attr(1)));
        assert_eq!((cache.hits, cache.misses), (1, 3));
    }
}
