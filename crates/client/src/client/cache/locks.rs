//! The locks of objects: they are asked for when an operation needs one, kept when it is over, and
//! given back when somebody else wants them, or when they were not used for a while.

use core::ops::Range;

use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{
    Extent, LdlmRequest, LockDesc, LockFlags, LockMode, LockType, OstLvb, Policy, Resource,
};
use lustrine_fswire::rpc::{Request, dlm};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, RpcError, SlotKind};

use super::ObjectKey;
use super::object::{AskedLock, Behind, Held, Mode, covers};
use crate::client::data_attr::{DataAttr, Times};
use crate::client::locks::{Granted, LockArgs, PAGE};
use crate::client::{Caller, Client, Done};
use crate::error::{ClientError, Outcome, malformed};
use crate::reply::reply_of;

impl Client {
    /// Goes on when the client has a lock of an object that covers a range. Whoever gets it gives
    /// it back with [`Client::unlock`].
    pub(in crate::client) fn with_lock(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        (mode, range): (Mode, Range<u64>),
        caller: Caller,
        then: Done<Handle>,
    ) {
        if self.unmounted {
            return then(self, turn, Err(ClientError::Rpc(RpcError::Closed)));
        }
        let object = self.cache.object(key);
        if let Some(handle) = object.usable(mode, &range) {
            self.use_lock(key, handle, 1);
            return then(self, turn, Ok(handle));
        }
        let fits = |asked: &&mut AskedLock| asked.mode >= mode && covers(&asked.range, &range);
        if let Some(asked) = object.data.asked.iter_mut().find(fits) {
            return asked.waiters.push(then);
        }
        // A server may grant more than is asked for, also the range of this one: to ask for both
        // would have it call the first one back, which the client itself would be in the way of.
        // If it does not, the second one is asked for then. Locks of objects are asked for in one
        // order, so nothing waits for itself.
        if let Some(asked) = object.data.asked.iter_mut().find(|asked| asked.mode >= mode) {
            asked.behind.push((mode, range, caller, then));
            return;
        }
        let range =
            range.start / PAGE * PAGE..range.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let handle = self.next_handle();
        let (policy, req_mode) = (
            Policy::Extent(Extent {
                start: range.start,
                end: if range.end == u64::MAX { u64::MAX } else { range.end - 1 },
                gid: 0,
            }),
            if mode == Mode::Write { LockMode::PW } else { LockMode::PR },
        );
        let (waiters, behind) = (vec![then], Vec::new());
        let asked = AskedLock { handle, mode, range, caller, waiters, behind };
        self.cache.object(key).data.asked.push(asked);
        let desc = LockDesc { req_mode, policy, ..object_lock(key) };
        let args = LockArgs { desc, flags: LockFlags::empty(), slot: SlotKind::None, caller };
        let then: Done<Granted> = Box::new(move |client, turn, granted| {
            client.lock_granted(turn, key, handle, granted);
        });
        self.enqueue(turn, key.import, handle, args, then);
    }

    /// A lock was granted, or is not going to be.
    fn lock_granted(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        handle: Handle,
        granted: Outcome<Granted>,
    ) {
        let object = self.cache.object(key);
        let Some(at) = object.data.asked.iter().position(|asked| asked.handle == handle) else {
            return;
        };
        let asked = object.data.asked.swap_remove(at);
        if object.data.asked.is_empty() {
            // Most objects ask for one lock, and there are many objects.
            object.data.asked = Vec::new();
        }
        if matches!(granted, Ok(Granted { lvb: None })) {
            // It was granted while the server got its locks again, which does not say the size.
            self.cancel_lock(turn, key.import, handle);
            for then in asked.waiters {
                let wanted = (asked.mode, asked.range.clone());
                self.with_lock(turn, key, wanted, asked.caller, then);
            }
            self.ask_behind(turn, key, asked.behind);
            return self.cache.tidy(key);
        }
        let lock = granted.and_then(|granted| {
            let held = self.held_lock(key, handle)?;
            let lvb =
                granted.lvb.ok_or_else(|| malformed("the lock of an object without its size"))?;
            match (lvb.error(), held.mode >= asked.mode && covers(&held.extent, &asked.range)) {
                (Some(error), _) => Err(ClientError::Errno(error.saturating_neg())),
                (None, true) => Ok((held, lvb)),
                (None, false) => Err(malformed("a lock of less than was asked for")),
            }
        });
        match lock {
            Ok((held, lvb)) => {
                self.keep_lock(key, handle, held, &lvb);
                self.use_lock(key, handle, asked.waiters.len() as u32);
                for then in asked.waiters {
                    then(self, turn, Ok(handle));
                }
                self.release(turn, key, handle);
                self.ask_behind(turn, key, asked.behind);
            }
            Err(error) => {
                // The server may have granted it all the same.
                self.cancel_lock(turn, key.import, handle);
                for then in asked.waiters {
                    then(self, turn, Err(error.clone()));
                }
                self.ask_behind(turn, key, asked.behind);
                self.cache.tidy(key);
            }
        }
    }

    /// Goes on with what has waited for a lock that may have covered it too.
    fn ask_behind(&mut self, turn: &mut Turn<'_>, key: ObjectKey, behind: Vec<Behind>) {
        for (mode, range, caller, then) in behind {
            self.with_lock(turn, key, (mode, range), caller, then);
        }
    }

    /// A lock of an object as the server granted it.
    fn held_lock(&mut self, key: ObjectKey, handle: Handle) -> Outcome<Held> {
        let lock = self.locks.at(key.import).get(handle);
        let lock = lock.ok_or(ClientError::Rpc(RpcError::Evicted))?;
        let Policy::Extent(Extent { start, end, .. }) = lock.desc.policy else {
            return Err(malformed("a lock of another kind than was asked for"));
        };
        let mode = match lock.desc.granted_mode {
            LockMode::PW | LockMode::EX => Mode::Write,
            LockMode::PR => Mode::Read,
            _ => return Err(malformed("a lock of a mode that nobody asked for")),
        };
        if lock.desc.resource != Resource::of_object(key.oi) {
            return Err(malformed("a lock of another object than was asked for"));
        }
        let extent = start..end.saturating_add(1);
        if extent.is_empty() {
            return Err(malformed("a lock that ends before it begins"));
        }
        Ok(Held::new(mode, extent, lock.blocked))
    }

    fn keep_lock(&mut self, key: ObjectKey, handle: Handle, held: Held, lvb: &OstLvb) {
        let object = self.cache.object(key);
        object.take_lvb(lvb);
        object.locks.insert(handle, held);
    }

    pub(super) fn use_lock(&mut self, key: ObjectKey, handle: Handle, users: u32) {
        let Some(held) = self.cache.object(key).locks.get_mut(&handle) else { return };
        held.users += users;
        if let Some(idle) = held.idle.take() {
            self.cache.idle.remove(idle);
        }
    }

    /// An operation does not use a lock any more.
    pub(in crate::client) fn unlock(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        handle: Handle,
    ) {
        // It is gone if the server has evicted the client.
        let Some(object) = self.cache.objects.get_mut(&key) else { return };
        let Some(held) = object.locks.get_mut(&handle) else { return };
        held.users -= 1;
        if held.users == 0 {
            held.idle = Some(self.cache.idle.insert((key.import, handle), turn.now));
            self.cache.tidy(key);
        }
        self.release(turn, key, handle);
    }

    /// Uses a lock again that an operation did not use for a while. Whether it is there, and nobody
    /// wants it back.
    pub(in crate::client) fn use_again(&mut self, key: ObjectKey, handle: Handle) -> bool {
        let Some(object) = self.cache.objects.get(&key) else { return false };
        let is_usable = object.locks.get(&handle).is_some_and(|held| !held.blocked);
        if is_usable {
            self.use_lock(key, handle, 1);
        }
        is_usable
    }

    /// The object of a lock that the cache has.
    pub(in crate::client) fn object_of(
        &self,
        import: ImportKey,
        handle: Handle,
    ) -> Option<ObjectKey> {
        let oi = self.locks.get(import, handle)?.desc.resource.fid();
        let key = ObjectKey { import, oi };
        self.cache.objects.get(&key).filter(|object| object.locks.contains_key(&handle))?;
        Some(key)
    }

    /// A server wants a lock back, or has said so before.
    pub(in crate::client) fn lock_blocked(
        &mut self,
        turn: &mut Turn<'_>,
        (import, handle): (ImportKey, Handle),
    ) {
        let Some(key) = self.object_of(import, handle) else { return };
        if let Some(held) = self.cache.object(key).locks.get_mut(&handle) {
            held.blocked = true;
            self.release(turn, key, handle);
        }
    }

    /// Gives a lock back, if somebody wants it and nothing uses it. What was written under it goes
    /// to the server first: this is called again when it is there.
    pub(super) fn release(&mut self, turn: &mut Turn<'_>, key: ObjectKey, handle: Handle) {
        let Some(object) = self.cache.objects.get(&key) else { return };
        let Some(held) = object.locks.get(&handle) else { return };
        if !held.blocked || held.users > 0 {
            return;
        }
        let extent = held.extent.clone();
        if held.mode == Mode::Write {
            let lock = self.locks.at(key.import).get(handle);
            if lock.is_some_and(|lock| lock.discard) {
                self.drop_dirty(turn, key, extent.clone(), None);
                self.cache.discard_unstable(key);
            }
            let object = self.cache.object(key);
            if !object.data.pages.dirty(&extent).is_empty() || object.is_writing(&extent) {
                return self.write_out(turn, key, extent, true);
            }
        }
        self.drop_lock(turn, key, handle);
    }

    /// Gives a lock back whose data are at the server.
    fn drop_lock(&mut self, turn: &mut Turn<'_>, key: ObjectKey, handle: Handle) {
        let Some(held) = self.cache.object(key).locks.remove(&handle) else { return };
        self.validity.end_object(key);
        if let Some(idle) = held.idle {
            self.cache.idle.remove(idle);
        }
        for part in self.cache.object(key).uncovered(&held.extent) {
            self.cache.forget(key, part);
        }
        // Without a blocking callback it goes with others: many locks become too old at once.
        let is_wanted = self.locks.get(key.import, handle).is_some_and(|lock| lock.blocked);
        match is_wanted {
            true => self.cancel_lock(turn, key.import, handle),
            false => self.cancel_soon(key.import, handle),
        }
        self.check_flushes(turn, key);
        self.cache.tidy(key);
    }

    /// Gives locks back that were not used for long, and those that are too many.
    pub(super) fn cancel_idle_locks(&mut self, turn: &mut Turn<'_>) {
        let (most, age) = (self.cache.tunables.lru_size, self.cache.tunables.lru_max_age);
        while let Some((_, since)) = self.cache.idle.oldest() {
            let old = since + age <= turn.now;
            if !old && self.cache.idle.len() <= most {
                return;
            }
            let Some((import, handle)) = self.cache.idle.remove_oldest() else { return };
            let Some(key) = self.object_of(import, handle) else { continue };
            if let Some(held) = self.cache.object(key).locks.get_mut(&handle) {
                held.idle = None;
                held.blocked = true;
                self.release(turn, key, handle);
            }
        }
    }

    /// Asks for the size and the times of an object. If nobody writes to it, the client gets a lock
    /// with the answer, and knows them until somebody does.
    pub(in crate::client) fn glimpse_object(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        caller: Caller,
        done: Done<DataAttr>,
    ) {
        self.after_object_ahead(turn, key, done, move |client, turn, done| {
            match client.known_object(key) {
                Some(known) => done(client, turn, Ok(known)),
                None => client.ask_object(turn, key, caller, done),
            }
        });
    }

    /// What is known of the size and the times of an object without asking for them.
    pub(in crate::client) fn known_object(&self, key: ObjectKey) -> Option<DataAttr> {
        self.cache.objects.get(&key)?.known()
    }

    /// Whether the server has all that programs have written to an object.
    pub(in crate::client) fn is_written(&self, key: ObjectKey) -> bool {
        self.cache.objects.get(&key).is_none_or(|object| !object.has_unwritten())
    }

    /// Asks for what is not known of an object.
    pub(in crate::client) fn ask_object(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        caller: Caller,
        done: Done<DataAttr>,
    ) {
        let handles = [self.next_handle()];
        let policy = Policy::Extent(Extent::WHOLE);
        let desc = LockDesc { req_mode: LockMode::PR, policy, ..object_lock(key) };
        let flags = LockFlags::HAS_INTENT;
        let lock = LdlmRequest { flags, count: 1, desc, handles: handles.as_slice().into() };
        self.lock_asked(key.import, &lock);
        let [handle] = handles;
        let mut call = crate::client::CallArgs::from(Request::Enqueue(dlm::Lock { lock }));
        call.caller = Some(caller);
        self.call(turn, key.import, call, move |client, turn, answer| {
            let found = answer.and_then(|answer| {
                let reply = reply_of!(&answer.reply, Enqueue)?;
                let lvb = reply.lvb.and_then(|lvb| lvb.object());
                let lvb = lvb.ok_or_else(|| malformed("a glimpse without a size"))?;
                Ok((reply.reply, lvb))
            });
            let (reply, lvb) = match found {
                Ok((reply, lvb)) => (Some(reply), Ok(lvb)),
                Err(error) => (None, Err(error)),
            };
            let lvb = lvb.and_then(|lvb| match lvb.error() {
                Some(error) => Err(ClientError::Errno(error.saturating_neg())),
                None => Ok(lvb),
            });
            let granted = match (&reply, &lvb) {
                (Some(reply), Ok(_)) if !client.unmounted => {
                    client.locks.at(key.import).answered(handle, reply);
                    client.held_lock(key, handle).ok()
                }
                _ => None,
            };
            match (granted, &lvb) {
                (Some(held), Ok(lvb)) => {
                    client.keep_lock(key, handle, held, lvb);
                    client.use_lock(key, handle, 1);
                    client.unlock(turn, key, handle);
                }
                _ => {
                    client.give_back(key.import, handle, reply.as_ref());
                }
            }
            let found = lvb.map(|lvb| {
                let Times { atime, mtime, ctime } =
                    Times { atime: lvb.atime, mtime: lvb.mtime, ctime: lvb.ctime };
                let times = Some(Times { atime, mtime, ctime });
                DataAttr { size: lvb.size, blocks: lvb.blocks, times }
            });
            done(client, turn, found);
        });
    }

    /// The size of an object of which the client has a lock to its end.
    pub(in crate::client) fn locked_size(&self, key: ObjectKey) -> Option<u64> {
        Some(self.cache.objects.get(&key)?.known()?.size)
    }

    /// The answer to a glimpse of another client: what this one knows of the object. The server
    /// asks one lock of the client, which may be on its way back, or have come just now, while what
    /// was written under another one is not there yet.
    pub(in crate::client) fn glimpsed(&self, import: ImportKey, handle: Handle) -> Option<OstLvb> {
        let oi = self.locks.get(import, handle)?.desc.resource.fid();
        let object = self.cache.objects.get(&ObjectKey { import, oi })?;
        let knows = object.locks.contains_key(&handle) || object.may_be_ahead();
        knows.then(|| object.lvb())
    }
}

/// A lock of an object, without mode and range.
fn object_lock(key: ObjectKey) -> LockDesc {
    LockDesc {
        kind: LockType::EXTENT,
        resource: Resource::of_object(key.oi),
        ..LockDesc::default()
    }
}
