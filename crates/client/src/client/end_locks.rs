//! Locks to the ends of all objects of a file: while a client has them, the end of the file stays
//! where it is, so that clients of several machines can append to one file, and truncate it.

use lustrine_fswire::connect::ConnectFlags2;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Extent, Ibits, IbitsPolicy, LockDesc, LockFlags, LockMode, LockType, Policy, Resource,
};
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::{Obdo, ObdoFlags};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, RpcError, SlotKind};
use slotmap::new_key_type;

use super::cache::{Mode, ObjectKey};
use super::locks::{Granted, LockArgs, PAGE};
use super::{Caller, Client, Done, TargetKey};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::layout::FileLayout;

/// An object of a file, as component and stripe.
pub(super) type Place = (usize, u16);

/// A lock of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectLock {
    pub(super) place: Place,
    pub(super) import: ImportKey,
    pub(super) handle: Handle,
}

/// What the locks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To find the end. They are locks of the cache, if the client keeps data of the file.
    Append,
    /// To set the end at the servers. Pages behind it are not to stay in any cache, this client's
    /// included, so its cache gives its locks back, as those of other clients do.
    SetEnd,
}

/// Locks that are asked for, or there.
pub(super) struct EndLocks {
    purpose: Purpose,
    caller: Caller,
    fid: Fid,
    layout: FileLayout,
    /// The objects, and the first byte of each that is to be locked.
    wanted: Vec<(Place, u64)>,
    /// The locks of the first ones of these.
    pub(super) held: Vec<ObjectLock>,
    /// The size of the file, as far as the locked objects know it.
    pub(super) size: u64,
}

new_key_type! {
    /// An operation that waits for a target, and has locks of others.
    pub(super) struct WaitingKey;
}

/// An operation that waits for a lock of an object or for a layout, and has locks.
pub(super) struct Waiting {
    locks: Vec<ObjectLock>,
    /// The target that it waits for.
    target: ImportKey,
    /// Whether it does without the others now, so that servers get those that they want back.
    has_lent: bool,
}

impl Client {
    /// Does what sets the end of a file, and needs requests to several objects for it, under locks
    /// of these objects, each from its byte on: no client appends in between.
    pub(super) fn set_end(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, &FileLayout),
        wanted: Vec<(Place, u64)>,
        done: Done<()>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, &[ObjectLock], Done<()>) + Send + 'static,
    ) {
        let file = (fid, layout.clone());
        let locks = EndLocks::new(Purpose::SetEnd, caller, file, wanted);
        let then: Done<EndLocks> = Box::new(move |client, turn, locks| {
            let locks = match locks {
                Ok(locks) => locks.held,
                Err(error) => return done(client, turn, Err(error)),
            };
            let held = locks.clone();
            let then: Done<()> = Box::new(move |client, turn, outcome| {
                client.unlock_objects(turn, held);
                done(client, turn, outcome);
            });
            act(client, turn, &locks, then);
        });
        locks.ask(self, turn, then);
    }

    /// The layout that a file has now, asked for while the client has these locks, which are not
    /// the cache's. If the metadata server is away they go back, and the outcome is ESTALE.
    pub(super) fn layout_under(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        locks: &[ObjectLock],
        done: Done<FileLayout>,
    ) {
        if self.kept_attr(turn.now, caller, fid).is_some() {
            // The answer is at hand, even if the server is away.
            return self.layout_of(turn, caller, fid, done);
        }
        let waiting = self.known_mdt_of(fid).and_then(Result::ok).map(|target| {
            self.waiting.insert(Waiting { locks: locks.to_vec(), target, has_lent: false })
        });
        self.lend_locks(turn);
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| {
            let waiting = waiting.and_then(|waiting| client.waiting.remove(waiting));
            let layout = match waiting.is_some_and(|waiting| waiting.has_lent) {
                true => Err(ClientError::Errno(errno::ESTALE)),
                false => layout,
            };
            done(client, turn, layout);
        });
        self.layout_of(turn, caller, fid, then);
    }

    /// Says in a request for an object by which of these locks it is made, or without any, that the
    /// server is to lock the object.
    pub(super) fn name_lock(
        &self,
        body: &mut Obdo,
        place: Place,
        locks: &[ObjectLock],
    ) -> Outcome<()> {
        if locks.is_empty() {
            body.valid |= MdValid::FLAGS;
            body.flags |= ObdoFlags::SRVLOCK;
            return Ok(());
        }
        let lock = locks.iter().find(|lock| lock.place == place);
        let handle = lock.and_then(|lock| self.locks.remote(lock.import, lock.handle));
        // Without its lock the object may have another end by now.
        body.handle = handle.ok_or(ClientError::Rpc(RpcError::Evicted))?;
        body.valid |= MdValid::HANDLE;
        Ok(())
    }

    /// Operations that wait for a target that is away do not use the locks that they have.
    pub(super) fn lend_locks(&mut self, turn: &mut Turn<'_>) {
        let lends = |(_, waiting): &(WaitingKey, &Waiting)| {
            !waiting.has_lent && !self.is_connected(TargetKey(waiting.target))
        };
        let lending: Vec<_> = self.waiting.iter().filter(lends).map(|(key, _)| key).collect();
        for key in lending {
            let Some(waiting) = self.waiting.get_mut(key) else { continue };
            waiting.has_lent = true;
            let locks = waiting.locks.clone();
            self.unlock_objects(turn, locks);
        }
    }

    /// An operation does not use these locks any more.
    pub(super) fn unlock_objects(&mut self, turn: &mut Turn<'_>, locks: Vec<ObjectLock>) {
        for lock in locks {
            match self.object_of(lock.import, lock.handle) {
                Some(key) => self.unlock(turn, key, lock.handle),
                // It may be on its way back already.
                None if self.locks.remote(lock.import, lock.handle).is_none() => {}
                None => self.cancel_lock(turn, lock.import, lock.handle),
            }
        }
    }

    /// Those of these locks that the cache has.
    pub(super) fn cached_locks(&self, locks: &[ObjectLock]) -> Vec<ObjectLock> {
        let is_cached = |lock: &&ObjectLock| self.object_of(lock.import, lock.handle).is_some();
        locks.iter().filter(is_cached).copied().collect()
    }

    /// Uses locks again that an operation did without. If any of them is gone, or is going to be,
    /// all that the operation has are given back. Whether they are there.
    pub(super) fn take_locks_back(
        &mut self,
        turn: &mut Turn<'_>,
        lent: &[ObjectLock],
        held: &mut Vec<ObjectLock>,
    ) -> bool {
        let mut all = true;
        for lock in lent {
            let key = self.object_of(lock.import, lock.handle);
            if !key.is_some_and(|key| self.use_again(key, lock.handle)) {
                held.retain(|held| held.handle != lock.handle);
                all = false;
            }
        }
        if !all {
            self.unlock_objects(turn, core::mem::take(held));
        }
        all
    }
}

impl EndLocks {
    /// Locks of these objects of a file, each from its byte on.
    pub(super) fn new(
        purpose: Purpose,
        caller: Caller,
        (fid, layout): (Fid, FileLayout),
        wanted: Vec<(Place, u64)>,
    ) -> EndLocks {
        EndLocks { purpose, caller, fid, layout, wanted, held: Vec::new(), size: 0 }
    }

    /// Asks for them one after another, all clients in the order of the stripes: so none waits for
    /// one that waits for it. If one of them cannot be had, none is kept.
    pub(super) fn ask(self, client: &mut Client, turn: &mut Turn<'_>, done: Done<EndLocks>) {
        let Some(&(place, start)) = self.wanted.get(self.held.len()) else {
            return done(client, turn, Ok(self));
        };
        let target = match client.target_of(self.fid, &self.layout, place) {
            Ok(target) => target,
            Err(error) => return self.fail(client, turn, error, done),
        };
        let import = target.import;
        let is_kept =
            self.purpose == Purpose::Append && client.caches(&self.layout) && target.on_ost;
        let desc = match is_kept {
            true => LockDesc::default(),
            false => match self.lock_of(client, import, (place, start)) {
                Ok(desc) => desc,
                Err(error) => return self.fail(client, turn, error, done),
            },
        };
        // The target can be away for long: servers that want other locks back meanwhile get them,
        // or they would evict the client. Then all begins anew.
        let locks = self.held.clone();
        let waiting = client.waiting.insert(Waiting { locks, target: import, has_lent: false });
        client.lend_locks(turn);
        if is_kept {
            let key = ObjectKey { import, oi: target.oi };
            let (wanted, caller) = ((Mode::Write, start..u64::MAX), self.caller);
            let then: Done<Handle> = Box::new(move |client, turn, lock| {
                let lock = lock.map(|handle| (ObjectLock { place, import, handle }, None));
                self.locked(client, turn, waiting, lock, done);
            });
            return client.with_lock(turn, key, wanted, caller, then);
        }
        let (handle, caller) = (client.next_handle(), self.caller);
        let args = LockArgs { desc, flags: LockFlags::empty(), slot: SlotKind::None, caller };
        let then: Done<Granted> = Box::new(move |client, turn, granted| {
            let lock = granted.map(|granted| {
                let lock = ObjectLock { place, import, handle };
                (lock, Some(granted))
            });
            self.locked(client, turn, waiting, lock, done);
        });
        client.enqueue(turn, import, handle, args, then);
    }

    /// The lock of an object, from a byte on.
    fn lock_of(
        &self,
        client: &Client,
        import: ImportKey,
        (place, start): (Place, u64),
    ) -> Outcome<LockDesc> {
        if let Some(object) = self.layout.object(place.0, place.1) {
            let extent = Extent { start: start / PAGE * PAGE, ..Extent::WHOLE };
            return Ok(LockDesc {
                kind: LockType::EXTENT,
                resource: Resource::of_object(object.oi),
                req_mode: LockMode::PW,
                policy: Policy::Extent(extent),
                ..LockDesc::default()
            });
        }
        // Without DOM_LVB the size does not come with the lock [LOCK-13].
        let granted = client.rpc.import(import).map(|import| import.granted().flags2);
        let has_size = granted.is_some_and(|flags| flags.contains(ConnectFlags2::DOM_LVB));
        if self.purpose == Purpose::Append && !has_size {
            let text = "the server gives no sizes of data on metadata targets".to_owned();
            return Err(ClientError::Layout(text));
        }
        Ok(LockDesc {
            kind: LockType::IBITS,
            resource: Resource::of_fid(self.fid),
            req_mode: LockMode::PW,
            policy: Policy::Ibits(IbitsPolicy { bits: Ibits::DOM, ..Default::default() }),
            ..LockDesc::default()
        })
    }

    /// A lock is there, with what it says of its object unless the cache has that, or it is not to
    /// be had.
    fn locked(
        mut self,
        client: &mut Client,
        turn: &mut Turn<'_>,
        waiting: WaitingKey,
        lock: Outcome<(ObjectLock, Option<Granted>)>,
        done: Done<EndLocks>,
    ) {
        let waiting = client.waiting.remove(waiting);
        let lent = waiting.filter(|waiting| waiting.has_lent).map(|waiting| waiting.locks);
        if let Ok((lock, _)) = &lock {
            self.held.push(*lock);
        }
        let lent = lent.unwrap_or_default();
        let has_all = client.take_locks_back(turn, &lent, &mut self.held);
        let size = lock.and_then(|(lock, granted)| match granted {
            Some(granted) if self.purpose == Purpose::Append => {
                let size = object_size(&granted)?;
                Ok(self.layout.file_size(lock.place.0, lock.place.1, size))
            }
            _ => Ok(0),
        });
        match size {
            Err(error) => self.fail(client, turn, error, done),
            Ok(size) => {
                self.size = if has_all { self.size.max(size) } else { 0 };
                self.ask(client, turn, done);
            }
        }
    }

    fn fail(
        self,
        client: &mut Client,
        turn: &mut Turn<'_>,
        error: ClientError,
        done: Done<EndLocks>,
    ) {
        client.unlock_objects(turn, self.held);
        done(client, turn, Err(error));
    }
}

/// The size of an object that came with its lock.
fn object_size(granted: &Granted) -> Outcome<u64> {
    let lvb = granted.lvb.ok_or_else(|| malformed("the lock of an object without its size"))?;
    match lvb.error() {
        Some(error) => Err(ClientError::Errno(error.saturating_neg())),
        None => Ok(lvb.size),
    }
}
