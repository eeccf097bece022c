//! Appending: the end of a file stays where it is while the client has locks to the ends of all its
//! objects, so that clients of several machines can append to one file.

use bytes::Bytes;
use lustrine_fswire::connect::ConnectFlags2;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Extent, Ibits, IbitsPolicy, LockDesc, LockFlags, LockMode, LockType, Policy, Resource,
};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, RpcError, SlotKind};
use slotmap::new_key_type;

use super::cache::{Mode, ObjectKey};
use super::locks::{Granted, LockArgs};
use super::{Caller, Client, Done, TargetKey};
use crate::attr::FileOwner;
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::layout::FileLayout;

/// Most times that a file can get objects for the bytes of one append: each time another client may
/// have moved the end to where there are none.
const LAYOUTS_MAX: u32 = 16;

/// So often an append gives its locks back to others while it asks for the layout. The metadata
/// server has just answered then, so it is hardly away.
const YIELDS_MAX: u32 = 1;

/// What an append has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where the bytes are in the file.
    pub offset: u64,
    /// The layout, if another one was needed than the caller had.
    pub layout: Option<FileLayout>,
}

/// A lock of an object, by component and stripe of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectLock {
    pub(super) place: (usize, u16),
    pub(super) import: ImportKey,
    pub(super) handle: Handle,
}

/// An append that is under way.
struct Append {
    caller: Caller,
    fid: Fid,
    owner: FileOwner,
    layout: FileLayout,
    /// How often the layout has changed.
    layouts: u32,
    /// Whether it is that of the time when the locks were there already.
    is_of_now: bool,
    /// How often locks went back while the layout was asked for.
    yields: u32,
    /// Objects that are to be locked, the next one last.
    places: Vec<(usize, u16)>,
    locks: Vec<ObjectLock>,
    /// The size of the file, as far as the locked objects know it.
    size: u64,
    bytes: Bytes,
    done: Done<Appended>,
}

impl Client {
    /// Writes at the end of a file, wherever that is when the client has the locks. Where the data
    /// are when it is over, [`Client::write`] says.
    pub fn append(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner): (Fid, FileOwner),
        layout: FileLayout,
        bytes: Bytes,
        done: Done<Appended>,
    ) {
        let append = Append {
            caller,
            fid,
            owner,
            layout,
            layouts: 0,
            is_of_now: false,
            yields: 0,
            places: Vec::new(),
            locks: Vec::new(),
            size: 0,
            bytes,
            done,
        };
        let len = append.bytes.len() as u64;
        match self.cache.is_on() {
            true => match append.first_target(self) {
                Some(import) => {
                    self.with_room(turn, import, len, move |client, turn| {
                        append.start(client, turn)
                    });
                }
                None => append.start(self, turn),
            },
            false => append.start(self, turn),
        }
    }
}

new_key_type! {
    /// An append that waits for a lock.
    pub(super) struct WaitingAppendKey;
}

/// An append that waits for a lock, and has others.
pub(super) struct WaitingAppend {
    locks: Vec<(ObjectKey, Handle)>,
    /// Where the lock is that it waits for.
    target: ImportKey,
    /// Whether it does not use the others now, so that they go back if their servers want them.
    has_lent: bool,
}

impl Client {
    /// Appends that wait for a target that is away do not use their other locks.
    pub(super) fn lend_of_appends(&mut self, turn: &mut Turn<'_>) {
        let lends = |(_, waiting): &(WaitingAppendKey, &WaitingAppend)| {
            !waiting.has_lent && !self.is_connected(TargetKey(waiting.target))
        };
        let lending: Vec<_> = self.appends.iter().filter(lends).map(|(key, _)| key).collect();
        let mut lent = Vec::new();
        for key in lending {
            let Some(waiting) = self.appends.get_mut(key) else { continue };
            waiting.has_lent = true;
            lent.extend(waiting.locks.iter().copied());
        }
        for (key, handle) in lent {
            self.unlock(turn, key, handle);
        }
    }
}

impl Append {
    /// A target of the file: that of its last object that exists.
    fn first_target(&self, client: &Client) -> Option<ImportKey> {
        let (component, stripe, _) = self.layout.objects().last()?;
        Some(client.target_of(self.fid, &self.layout, (component, stripe)).ok()?.import)
    }

    /// Asks for the locks one after another, all clients in the order of the stripes: so none waits
    /// for one that waits for it.
    fn start(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        let objects = self.layout.objects().map(|(component, stripe, _)| (component, stripe));
        let on_mdt = self.layout.component_on_mdt().map(|component| (component, 0));
        self.places = on_mdt.into_iter().chain(objects).collect();
        self.places.reverse();
        self.size = 0;
        self.is_of_now = self.layout.is_complete();
        self.lock_next(client, turn);
    }

    fn lock_next(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        let Some(place) = self.places.pop() else { return self.write(client, turn) };
        let target = match client.target_of(self.fid, &self.layout, place) {
            Ok(target) => target,
            Err(error) => return self.end(client, turn, Err(error)),
        };
        if client.caches(&self.layout) && target.on_ost {
            let key = ObjectKey { import: target.import, oi: target.oi };
            return self.lock_cached(client, turn, place, key);
        }
        let (import, handle) = (target.import, client.next_handle());
        let desc = match self.layout.object(place.0, place.1) {
            Some(object) => LockDesc {
                kind: LockType::EXTENT,
                resource: Resource::of_object(object.oi),
                req_mode: LockMode::PW,
                policy: Policy::Extent(Extent::WHOLE),
                ..LockDesc::default()
            },
            None => {
                // Without DOM_LVB the size does not come with the lock [LOCK-13].
                let granted = client.rpc.import(import).map(|import| import.granted().flags2);
                if !granted.is_some_and(|flags| flags.contains(ConnectFlags2::DOM_LVB)) {
                    let text = "the server gives no sizes of data on metadata targets".to_owned();
                    return self.end(client, turn, Err(ClientError::Layout(text)));
                }
                LockDesc {
                    kind: LockType::IBITS,
                    resource: Resource::of_fid(self.fid),
                    req_mode: LockMode::PW,
                    policy: Policy::Ibits(IbitsPolicy { bits: Ibits::DOM, ..Default::default() }),
                    ..LockDesc::default()
                }
            }
        };
        let args =
            LockArgs { desc, flags: LockFlags::empty(), slot: SlotKind::None, caller: self.caller };
        let then: Done<Granted> = Box::new(move |client, turn, granted| {
            let size = match granted {
                Ok(granted) => {
                    self.locks.push(ObjectLock { place, import, handle });
                    object_size(&granted)
                }
                Err(error) => Err(error),
            };
            match size {
                Ok(size) => {
                    let end = self.layout.file_size(place.0, place.1, size);
                    self.size = self.size.max(end);
                    self.lock_next(client, turn);
                }
                Err(error) => self.end(client, turn, Err(error)),
            }
        });
        client.enqueue(turn, import, handle, args, then);
    }

    /// The same for an object whose locks the client keeps.
    ///
    /// Its target can be away for long: servers that want other locks of the cache back meanwhile
    /// get them, or they would evict the client. Then all begins anew. Locks of data on a metadata
    /// target, and of files that are not cached, stay until the end.
    fn lock_cached(
        mut self,
        client: &mut Client,
        turn: &mut Turn<'_>,
        place: (usize, u16),
        key: ObjectKey,
    ) {
        let (wanted, caller) = ((Mode::Write, 0..u64::MAX), self.caller);
        let locks = self.kept(client);
        let waiting =
            client.appends.insert(WaitingAppend { locks, target: key.import, has_lent: false });
        client.lend_of_appends(turn);
        let then: Done<Handle> = Box::new(move |client, turn, lock| {
            let waiting = client.appends.remove(waiting);
            let lent = waiting.filter(|waiting| waiting.has_lent).map(|waiting| waiting.locks);
            if let Ok(handle) = lock {
                self.locks.push(ObjectLock { place, import: key.import, handle });
            }
            let has_all = self.take_back(client, turn, &lent.unwrap_or_default());
            match lock {
                Err(error) => self.end(client, turn, Err(error)),
                Ok(_) if has_all => self.lock_next(client, turn),
                Ok(_) => self.start(client, turn),
            }
        });
        client.with_lock(turn, key, wanted, caller, then);
    }

    /// The end of the file stays where it is now.
    fn write(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        // Without one of its locks the end of the file is not known.
        let void = |lock: &ObjectLock| client.locks.remote(lock.import, lock.handle).is_none();
        if self.locks.iter().any(void) {
            return self.end(client, turn, Err(ClientError::Rpc(RpcError::Evicted)));
        }
        if !self.is_of_now {
            return self.check_layout(client, turn);
        }
        // Locks that the client keeps are shared by all that it does: until now others may have
        // written under them.
        for lock in &self.locks {
            let key = client.object_of(lock.import, lock.handle);
            if let Some(size) = key.and_then(|key| client.locked_size(key)) {
                let end = self.layout.file_size(lock.place.0, lock.place.1, size);
                self.size = self.size.max(end);
            }
        }
        let (offset, len) = (self.size, self.bytes.len() as u64);
        let Some(end) = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64) else {
            return self.end(client, turn, Err(ClientError::Errno(errno::EFBIG)));
        };
        if !self.layout.may_write(offset, len) {
            return self.get_objects(client, turn, (offset, end));
        }
        let bytes = core::mem::take(&mut self.bytes);
        let (caller, file, layout) = (self.caller, (self.fid, self.owner), self.layout.clone());
        let locks = self.locks.clone();
        let again = self.layout.mirrors.is_some().then(|| bytes.clone());
        let then: Done<()> = Box::new(move |client, turn, written| {
            if let (Err(ClientError::Errno(errno::ESTALE)), Some(bytes)) = (&written, again) {
                // The layout has changed since [LAYOUT-12].
                self.bytes = bytes;
                return self.get_objects(client, turn, (offset, end));
            }
            let layout = (self.layouts > 0).then(|| self.layout.clone());
            self.end(client, turn, written.map(|()| Appended { offset, layout }));
        });
        client.write_objects(turn, caller, file, &layout, (offset, bytes), &locks, then);
    }

    /// Has the metadata server make objects for a range. It takes locks for that, and others may
    /// write meanwhile: all begins anew.
    fn get_objects(mut self, client: &mut Client, turn: &mut Turn<'_>, range: (u64, u64)) {
        self.unlock(client, turn);
        let (caller, fid) = (self.caller, self.fid);
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| match layout {
            Ok(layout) => self.start_with(client, turn, layout),
            Err(error) => self.end(client, turn, Err(error)),
        });
        client.instantiate(turn, caller, fid, range, then);
    }

    /// Finds out whether the file has got other objects, which can hold its end. A client that has
    /// moved the end there had the locks of all earlier objects, which this one has now.
    ///
    /// The metadata server can be away for long: a server of objects that wants a lock back
    /// meanwhile gets it, or it would evict the client. Then all begins anew, and the locks stay,
    /// so that others who append do not keep this one from it.
    fn check_layout(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        let (caller, fid) = (self.caller, self.fid);
        let keeps = self.yields == YIELDS_MAX || client.keeps_attr(turn.now, caller, fid);
        let lent = if keeps { Vec::new() } else { self.lend(client, turn) };
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| match layout {
            Ok(layout) if layout == self.layout => {
                if !self.take_back(client, turn, &lent) {
                    self.yields += 1;
                    return self.start(client, turn);
                }
                self.is_of_now = true;
                self.write(client, turn);
            }
            Ok(layout) => {
                self.take_back(client, turn, &lent);
                self.unlock(client, turn);
                self.start_with(client, turn, layout);
            }
            Err(error) => {
                self.take_back(client, turn, &lent);
                self.end(client, turn, Err(error));
            }
        });
        client.layout_of(turn, caller, fid, then);
    }

    /// Begins anew, with another layout.
    fn start_with(mut self, client: &mut Client, turn: &mut Turn<'_>, layout: FileLayout) {
        self.layouts += 1;
        if self.layouts > LAYOUTS_MAX {
            return self.end(client, turn, Err(ClientError::Errno(errno::EIO)));
        }
        self.layout = layout;
        self.start(client, turn);
    }

    /// Does not use the locks that the client keeps, so that they go back if their servers want
    /// them. Which these are.
    fn lend(&self, client: &mut Client, turn: &mut Turn<'_>) -> Vec<(ObjectKey, Handle)> {
        let lent = self.kept(client);
        for (key, handle) in &lent {
            client.unlock(turn, *key, *handle);
        }
        lent
    }

    /// Those of its locks that the client keeps.
    fn kept(&self, client: &Client) -> Vec<(ObjectKey, Handle)> {
        let kept = self
            .locks
            .iter()
            .filter_map(|lock| Some((client.object_of(lock.import, lock.handle)?, lock.handle)));
        kept.collect()
    }

    /// Uses these locks again. If any of them is gone, or is going to be, the others are given
    /// back. Whether they are there.
    fn take_back(
        &mut self,
        client: &mut Client,
        turn: &mut Turn<'_>,
        lent: &[(ObjectKey, Handle)],
    ) -> bool {
        let mut all = true;
        for (key, handle) in lent {
            if !client.use_again(*key, *handle) {
                self.locks.retain(|lock| lock.handle != *handle);
                all = false;
            }
        }
        if !all {
            self.unlock(client, turn);
        }
        all
    }

    fn unlock(&mut self, client: &mut Client, turn: &mut Turn<'_>) {
        for lock in self.locks.drain(..) {
            match client.object_of(lock.import, lock.handle) {
                Some(key) => client.unlock(turn, key, lock.handle),
                None => client.cancel_lock(turn, lock.import, lock.handle),
            }
        }
    }

    fn end(mut self, client: &mut Client, turn: &mut Turn<'_>, outcome: Outcome<Appended>) {
        self.unlock(client, turn);
        (self.done)(client, turn, outcome);
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
