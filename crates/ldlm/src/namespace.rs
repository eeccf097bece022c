//! The locks of one target, and what the server says of them.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{
    Flock, Ibits, IbitsPolicy, LdlmReply, LdlmRequest, LockDesc, LockFlags, LockMode, LockType,
    Policy, Resource,
};

use crate::lock::{KeptLock, Lock, LockState};

/// What an answer to an enqueue means for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The client has the lock now.
    Granted,
    /// The lock has to wait; a completion callback follows.
    Waiting,
    /// Nothing new: a callback was faster than the reply.
    Unchanged,
    /// There is no lock.
    None,
    /// The client had it by a callback, and has given it up since. If the server has restarted in
    /// between, it has granted the lock anew: it has to be cancelled by the handle of the reply.
    Forgotten,
}

/// What a completion callback means for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The client has the lock now.
    Granted(Handle),
    /// The server has given the lock up, because of a deadlock of flocks or because its owner
    /// unlocked what it waited for. The namespace has forgotten it.
    Failed {
        /// The client's handle.
        handle: Handle,
        /// Whether the reason was a deadlock.
        deadlock: bool,
    },
    /// Nothing new.
    Unchanged,
    /// The client has no such lock: the answer is the errno EINVAL, and the server forgets it.
    Unknown,
}

/// A lock to be enqueued again after a restart of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockReplay {
    /// The client's handle.
    pub handle: Handle,
    /// The lock as it is.
    pub desc: LockDesc,
    /// The flags of the request.
    pub flags: LockFlags,
}

/// The locks that a client has at one target, or has asked for, by their handles of the client.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    locks: BTreeMap<Handle, KeptLock>,
    /// The flocks of resources.
    flocks: BTreeSet<(Resource, Handle)>,
}

impl Namespace {
    /// An enqueue is about to be sent. From now on callbacks can name the lock.
    ///
    /// # Panics
    /// When the handle is in use, or is 0.
    pub fn enqueue(&mut self, handle: Handle, desc: LockDesc) {
        assert!(handle != Handle::NONE, "0 is no handle");
        self.insert(handle, Lock::new(desc, Handle::NONE, LockState::Enqueued));
    }

    /// An enqueue is answered with a status that is not negative.
    pub fn answered(&mut self, handle: Handle, reply: &LdlmReply) -> Progress {
        let Some(lock) = self.locks.get_mut(&handle) else {
            return match reply.handle {
                Handle::NONE => Progress::Unchanged,
                _ => Progress::Forgotten,
            };
        };
        if lock.remote == Handle::NONE {
            lock.remote = reply.handle;
        }
        lock.blocked |= reply.flags.contains(LockFlags::AST_SENT);
        if lock.state != LockState::Enqueued {
            return Progress::Unchanged;
        }
        if reply.handle == Handle::NONE {
            self.remove(handle);
            return Progress::None;
        }
        // Whether it is granted follows from the mode; flags can be older [LOCK-8].
        let granted = reply.desc.granted_mode != LockMode::NONE;
        let waits = reply.flags.intersects(LockFlags::BLOCK_GRANTED | LockFlags::BLOCK_WAIT);
        if !granted && !waits {
            self.remove(handle);
            return Progress::None;
        }
        if reply.flags.contains(LockFlags::LOCK_CHANGED) {
            self.adopt(handle, &reply.desc);
        }
        let Some(lock) = self.locks.get_mut(&handle) else { return Progress::None };
        if granted {
            lock.granted_mode = reply.desc.granted_mode;
            lock.state = LockState::Granted;
            return Progress::Granted;
        }
        lock.state = LockState::Waiting;
        Progress::Waiting
    }

    /// CP_CALLBACK: the server grants a lock that had to wait, or gives it up. It can come before
    /// the reply to the enqueue [LOCK-15].
    pub fn completed(&mut self, callback: &LdlmRequest<'_>) -> Completed {
        let Some(handle) = callback.handle(0) else { return Completed::Unknown };
        let Some(lock) = self.locks.get_mut(&handle) else { return Completed::Unknown };
        if callback.desc.kind != lock.kind() {
            return Completed::Unknown;
        }
        if matches!(lock.state, LockState::Granted | LockState::Canceling) {
            return Completed::Unchanged;
        }
        let deadlock = callback.flags.contains(LockFlags::FLOCK_DEADLOCK);
        if deadlock || callback.desc.granted_mode == LockMode::NONE {
            self.remove(handle);
            return Completed::Failed { handle, deadlock };
        }
        if let Some(remote) = callback.handle(1) {
            lock.remote = remote;
        }
        lock.state = LockState::Granted;
        lock.blocked |= callback.flags.contains(LockFlags::AST_SENT);
        lock.granted_mode = callback.desc.granted_mode;
        self.adopt(handle, &callback.desc);
        Completed::Granted(handle)
    }

    /// BL_CALLBACK: somebody else wants what a lock covers. Returns the lock, which is marked: it
    /// is given back when what uses it is over, while the answer is given at once. None if the
    /// client has no such lock: the answer is the errno EINVAL [LOCK-15].
    pub fn blocked(&mut self, callback: &LdlmRequest<'_>) -> Option<Handle> {
        let handle = callback.handle(0)?;
        let lock = self.locks.get_mut(&handle)?;
        lock.blocked = true;
        lock.discard |= callback.flags.contains(LockFlags::DISCARD_DATA);
        Some(handle)
    }

    /// The client gives back all bits of a lock but these, in answer to a callback that wants none
    /// of them [LOCK-23]. Returns the server's handle, which CONVERT names; none if there is no
    /// such lock, or if it cannot be converted: then it has to be cancelled.
    pub fn convert(&mut self, handle: Handle, keep: Ibits) -> Option<Handle> {
        let lock = self.locks.get_mut(&handle)?;
        let usable = lock.state == LockState::Granted && !lock.blocked;
        let bits = lock.policy().ibits().unwrap_or_default();
        if !usable || lock.remote == Handle::NONE || keep.is_empty() || !bits.contains(keep) {
            return None;
        }
        let policy = Policy::Ibits(IbitsPolicy { bits: keep, ..IbitsPolicy::default() });
        lock.cover(lock.resource(), policy);
        Some(lock.remote)
    }

    /// The client gives a lock back. Returns the server's handle, which CANCEL names; none if the
    /// server has no such lock, and then it is forgotten.
    pub fn cancel(&mut self, handle: Handle) -> Option<Handle> {
        let lock = self.locks.get_mut(&handle)?;
        if lock.remote == Handle::NONE {
            self.remove(handle);
            return None;
        }
        lock.state = LockState::Canceling;
        Some(lock.remote)
    }

    /// Forgets a lock: its enqueue has failed, or its cancel is answered.
    pub fn remove(&mut self, handle: Handle) -> Option<Lock> {
        let lock = self.locks.remove(&handle)?;
        if lock.kind() == LockType::FLOCK {
            self.flocks.remove(&(lock.resource(), handle));
        }
        Some(lock.lock())
    }

    /// The server has evicted this client: it has no lock any more. Returns those that were not
    /// granted.
    pub fn clear(&mut self) -> Vec<Handle> {
        self.flocks.clear();
        let locks = core::mem::take(&mut self.locks).into_iter();
        let open = |lock: &KeptLock| matches!(lock.state, LockState::Enqueued | LockState::Waiting);
        locks.filter(|(_, lock)| open(lock)).map(|(handle, _)| handle).collect()
    }

    /// The locks that a server has lost by a restart and gets again [LOCK-17]. Enqueues that are
    /// not answered are sent again by the import; what is being cancelled is gone, unless the
    /// server may have got it again without an answer: then its handle is to be learnt.
    pub fn replays(&mut self) -> Vec<LockReplay> {
        let replay = |(handle, lock): (&Handle, &mut KeptLock)| {
            let state = match lock.state {
                LockState::Granted => LockFlags::BLOCK_GRANTED,
                LockState::Waiting => LockFlags::BLOCK_WAIT,
                LockState::Canceling if lock.uncertain => match lock.granted_mode {
                    LockMode::NONE => LockFlags::BLOCK_WAIT,
                    _ => LockFlags::BLOCK_GRANTED,
                },
                LockState::Enqueued | LockState::Canceling => return None,
            };
            lock.uncertain = true;
            let flags = LockFlags::REPLAY | state;
            Some(LockReplay { handle: *handle, desc: lock.desc(), flags })
        };
        self.locks.iter_mut().filter_map(replay).collect()
    }

    /// A replay of a lock is answered: the server has a new handle for it, and may have granted it.
    pub fn replayed(&mut self, handle: Handle, reply: &LdlmReply) -> Progress {
        let Some(lock) = self.locks.get_mut(&handle) else { return Progress::Unchanged };
        if reply.handle == Handle::NONE {
            self.remove(handle);
            return Progress::None;
        }
        lock.remote = reply.handle;
        lock.uncertain = false;
        lock.blocked |= reply.flags.contains(LockFlags::AST_SENT);
        if lock.state == LockState::Waiting && reply.desc.granted_mode != LockMode::NONE {
            lock.state = LockState::Granted;
            lock.granted_mode = reply.desc.granted_mode;
            return Progress::Granted;
        }
        Progress::Unchanged
    }

    /// A lock.
    pub fn get(&self, handle: Handle) -> Option<Lock> {
        self.locks.get(&handle).map(KeptLock::lock)
    }

    /// All locks.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, Lock)> {
        self.locks.iter().map(|(handle, lock)| (*handle, lock.lock()))
    }

    /// The flocks on a resource.
    pub(crate) fn flocks_on(&self, resource: Resource) -> impl Iterator<Item = (Handle, Lock)> {
        let all = (resource, Handle(0))..=(resource, Handle(u64::MAX));
        self.flocks.range(all).filter_map(|(_, handle)| Some((*handle, self.get(*handle)?)))
    }

    /// Number of locks, in all states.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    pub(crate) fn insert(&mut self, handle: Handle, lock: Lock) {
        if lock.desc.kind == LockType::FLOCK {
            self.flocks.insert((lock.desc.resource, handle));
        }
        assert!(self.locks.insert(handle, lock.into()).is_none(), "the handle is in use");
    }

    /// A flock covers another range now.
    pub(crate) fn set_range(&mut self, handle: Handle, range: Flock) {
        if let Some(lock) = self.locks.get_mut(&handle) {
            lock.cover(lock.resource(), Policy::Flock(range));
        }
    }

    /// Takes over what the server has made of a lock. The owner of a flock is the client's affair.
    fn adopt(&mut self, handle: Handle, desc: &LockDesc) {
        let Some(lock) = self.locks.get_mut(&handle) else { return };
        if desc.kind != lock.kind() {
            return;
        }
        let (before, after) = (lock.resource(), desc.resource);
        let policy = match (lock.policy(), desc.policy) {
            (Policy::Flock(own), Policy::Flock(given)) => {
                let (start, end) = (given.start, given.end.max(given.start));
                Policy::Flock(Flock { start, end, ..own })
            }
            (_, given) => given,
        };
        lock.cover(after, policy);
        if desc.req_mode != LockMode::NONE {
            lock.req_mode = desc.req_mode;
        }
        if desc.kind == LockType::FLOCK && before != after {
            self.flocks.remove(&(before, handle));
            self.flocks.insert((after, handle));
        }
    }
}
