//! Appending: the bytes go to where the end of the file is while the client has locks of all its
//! objects.

use bytes::Bytes;
use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, RpcError};

use super::end_locks::{EndLocks, ObjectLock, Purpose};
use super::{Caller, Client, Done};
use crate::attr::FileOwner;
use crate::error::{ClientError, Outcome, errno};
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

impl Append {
    /// A target of the file: that of its last object that exists.
    fn first_target(&self, client: &Client) -> Option<ImportKey> {
        let (component, stripe, _) = self.layout.objects().last()?;
        Some(client.target_of(self.fid, &self.layout, (component, stripe)).ok()?.import)
    }

    fn start(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        let objects = self.layout.objects().map(|(component, stripe, _)| (component, stripe));
        let on_mdt = self.layout.component_on_mdt().map(|component| (component, 0));
        let wanted = on_mdt.into_iter().chain(objects).map(|place| (place, 0)).collect();
        self.is_of_now = self.layout.is_complete();
        let file = (self.fid, self.layout.clone());
        let locks = EndLocks::new(Purpose::Append, self.caller, file, wanted);
        let then: Done<EndLocks> = Box::new(move |client, turn, locks| match locks {
            Ok(locks) => {
                (self.locks, self.size) = (locks.held, locks.size);
                self.write(client, turn);
            }
            Err(error) => self.end(client, turn, Err(error)),
        });
        locks.ask(client, turn, then);
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
    /// The metadata server can be away for long: a server of objects that wants a lock of the cache
    /// back meanwhile gets it, or it would evict the client. Then all begins anew, and the locks
    /// stay, so that others who append do not keep this one from it.
    fn check_layout(mut self, client: &mut Client, turn: &mut Turn<'_>) {
        let (caller, fid) = (self.caller, self.fid);
        let keeps = self.yields == YIELDS_MAX || client.kept_attr(turn.now, caller, fid).is_some();
        let lent = if keeps { Vec::new() } else { client.cached_locks(&self.locks) };
        client.unlock_objects(turn, lent.clone());
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| match layout {
            Ok(layout) if layout == self.layout => {
                if !client.take_locks_back(turn, &lent, &mut self.locks) {
                    self.yields += 1;
                    return self.start(client, turn);
                }
                self.is_of_now = true;
                self.write(client, turn);
            }
            Ok(layout) => {
                client.take_locks_back(turn, &lent, &mut self.locks);
                self.unlock(client, turn);
                self.start_with(client, turn, layout);
            }
            Err(error) => {
                client.take_locks_back(turn, &lent, &mut self.locks);
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

    fn unlock(&mut self, client: &mut Client, turn: &mut Turn<'_>) {
        client.unlock_objects(turn, core::mem::take(&mut self.locks));
    }

    fn end(mut self, client: &mut Client, turn: &mut Turn<'_>, outcome: Outcome<Appended>) {
        self.unlock(client, turn);
        (self.done)(client, turn, outcome);
    }
}
