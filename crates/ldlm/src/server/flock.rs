//! Flocks: an owner has one lock on each byte, nobody is asked to give way, and deadlocks are found
//! [LOCK-16].

use std::collections::BTreeSet;

use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{Flock, LockDesc, LockFlags, LockMode, Policy, Resource};

use super::{EnqueueArgs, Enqueued, Holder, LockEvent, LockServer, errno};

/// Whose a flock is: the client, and its number of the owner.
type Owner = (Holder, Handle);

impl LockServer {
    pub(super) fn enqueue_flock(&mut self, now: u64, args: &EnqueueArgs) -> Result<Enqueued, i32> {
        let Policy::Flock(range) = args.desc.policy else { return Err(errno::EFAULT) };
        let owner = (args.holder, range.owner);
        let mut desc = args.desc;
        desc.granted_mode = LockMode::NONE;
        if desc.req_mode == LockMode::NL {
            return Ok(self.unlock(now, owner, desc));
        }
        let blocker = self.blockers(owner, &desc).first().copied();
        if args.flags.contains(LockFlags::TEST_LOCK) {
            return Ok(self.tested(desc, blocker));
        }
        let Some(_) = blocker.filter(|_| !self.replaying).or_else(|| self.replaying_blocker())
        else {
            desc.granted_mode = desc.req_mode;
            self.cut(owner, desc.resource, &range);
            let handle = self.insert(args, desc);
            self.join(handle);
            self.reprocess(now, desc.resource);
            return Ok(Enqueued { handle, desc, flags: args.flags & LockFlags::BLOCK_NOWAIT });
        };
        if args.flags.contains(LockFlags::BLOCK_NOWAIT) {
            return Err(errno::EAGAIN);
        }
        if args.finds_deadlocks && self.waits_for(owner, &desc) {
            return Err(errno::EDEADLK);
        }
        let handle = self.insert(args, desc);
        Ok(self.described(handle, LockFlags::empty()))
    }

    /// While locks are replayed, nothing new is granted.
    fn replaying_blocker(&self) -> Option<Handle> {
        self.replaying.then_some(Handle::NONE)
    }

    /// An owner gives up what it has in a range, and what it waits for there.
    fn unlock(&mut self, now: u64, owner: Owner, mut desc: LockDesc) -> Enqueued {
        let Policy::Flock(range) = desc.policy else { unreachable!("it was checked") };
        let waiting = self.resources.get(&desc.resource).into_iter();
        let waiting: Vec<Handle> = waiting.flat_map(|queue| queue.waiting.clone()).collect();
        for handle in waiting {
            let lock = &self.locks[&handle];
            let of_owner = owner_of(lock.holder, &lock.desc) == Some(owner);
            let overlaps = lock.desc.policy.intersects(&desc.policy);
            if of_owner && overlaps {
                self.give_up(handle, false);
            }
        }
        self.cut(owner, desc.resource, &range);
        self.reprocess(now, desc.resource);
        desc.granted_mode = LockMode::NL;
        Enqueued { handle: self.next_handle(), desc, flags: LockFlags::empty() }
    }

    /// The answer to a test: what is in the way, or NL.
    fn tested(&mut self, mut desc: LockDesc, blocker: Option<Handle>) -> Enqueued {
        let Policy::Flock(asked) = desc.policy else { unreachable!("it was checked") };
        match blocker.map(|handle| self.locks[&handle].desc) {
            Some(LockDesc { policy: Policy::Flock(other), req_mode, .. }) => {
                desc.req_mode = req_mode;
                desc.policy = Policy::Flock(Flock { owner: asked.owner, ..other });
            }
            _ => desc.req_mode = LockMode::NL,
        }
        let flags = LockFlags::LOCK_CHANGED | LockFlags::TEST_LOCK;
        Enqueued { handle: self.next_handle(), desc, flags }
    }

    /// A flock that waits is given up.
    fn give_up(&mut self, handle: Handle, deadlock: bool) {
        let Some(lock) = self.take(handle) else { return };
        let Holder::Client(client) = lock.holder else { return };
        let (client_handle, desc) = (lock.client_handle, lock.desc);
        self.events.push_back(LockEvent::GivenUp { client, handle, client_handle, desc, deadlock });
    }

    /// Granted flocks of others that are in the way.
    fn blockers(&self, owner: Owner, desc: &LockDesc) -> Vec<Handle> {
        let in_the_way = |handle: &&Handle| {
            let lock = &self.locks[*handle];
            owner_of(lock.holder, &lock.desc) != Some(owner)
                && lock.desc.policy.intersects(&desc.policy)
                && !desc.req_mode.is_compatible(lock.desc.granted_mode)
        };
        let queue = self.resources.get(&desc.resource).into_iter();
        queue.flat_map(|queue| queue.granted.iter().filter(in_the_way).copied()).collect()
    }

    /// Takes a range away from what an owner has.
    fn cut(&mut self, owner: Owner, resource: Resource, range: &Flock) {
        let queue = self.resources.get(&resource).into_iter();
        let granted: Vec<Handle> = queue.flat_map(|queue| queue.granted.clone()).collect();
        for handle in granted {
            let lock = self.locks[&handle].clone();
            let Policy::Flock(own) = lock.desc.policy else { continue };
            if owner_of(lock.holder, &lock.desc) != Some(owner) || !own.overlaps(range) {
                continue;
            }
            let left = (own.start < range.start).then(|| Flock { end: range.start - 1, ..own });
            let right = (own.end > range.end).then(|| Flock { start: range.end + 1, ..own });
            let part = |part: Flock| LockDesc { policy: Policy::Flock(part), ..lock.desc };
            match (left, right) {
                (None, None) => {
                    self.take(handle);
                }
                (Some(one), None) | (None, Some(one)) => self.set_desc(handle, part(one)),
                (Some(left), Some(right)) => {
                    self.set_desc(handle, part(left));
                    let args = EnqueueArgs {
                        holder: lock.holder,
                        client_handle: Handle::NONE,
                        desc: part(right),
                        flags: lock.flags,
                        finds_deadlocks: false,
                    };
                    self.insert(&args, part(right));
                }
            }
        }
    }

    fn set_desc(&mut self, handle: Handle, desc: LockDesc) {
        if let Some(lock) = self.locks.get_mut(&handle) {
            lock.desc = desc;
        }
    }

    /// Joins a new lock with those of the same owner and mode that it touches.
    fn join(&mut self, handle: Handle) {
        loop {
            let lock = &self.locks[&handle];
            let Policy::Flock(own) = lock.desc.policy else { return };
            let (owner, mode) = (owner_of(lock.holder, &lock.desc), lock.desc.granted_mode);
            let touches = |other: &&Handle| {
                let other_lock = &self.locks[*other];
                let Policy::Flock(range) = other_lock.desc.policy else { return false };
                **other != handle
                    && owner_of(other_lock.holder, &other_lock.desc) == owner
                    && other_lock.desc.granted_mode == mode
                    && range.start <= own.end.saturating_add(1)
                    && own.start <= range.end.saturating_add(1)
            };
            let queue = &self.resources[&lock.desc.resource];
            let Some(other) = queue.granted.iter().find(touches).copied() else { return };
            let desc = lock.desc;
            let Some(gone) = self.take(other) else { return };
            let Policy::Flock(range) = gone.desc.policy else { return };
            let (start, end) = (own.start.min(range.start), own.end.max(range.end));
            let policy = Policy::Flock(Flock { start, end, ..own });
            self.set_desc(handle, LockDesc { policy, ..desc });
        }
    }

    /// Whether an owner that waited for what is in the way of a lock would wait for itself.
    fn waits_for(&self, owner: Owner, desc: &LockDesc) -> bool {
        let mut seen = BTreeSet::new();
        let mut open: Vec<Handle> = self.blockers(owner, desc);
        while let Some(handle) = open.pop() {
            let lock = &self.locks[&handle];
            let Some(other) = owner_of(lock.holder, &lock.desc) else { continue };
            if other == owner {
                return true;
            }
            if !seen.insert(other) {
                continue;
            }
            // An owner may wait at any file.
            for lock in self.locks.values() {
                if !lock.is_granted() && owner_of(lock.holder, &lock.desc) == Some(other) {
                    open.extend(self.blockers(other, &lock.desc));
                }
            }
        }
        false
    }

    /// Something was unlocked: flocks that wait are tried again, in the order of asking.
    pub(super) fn reprocess_flocks(&mut self, resource: Resource) {
        let queue = self.resources.get(&resource).into_iter();
        let waiting: Vec<Handle> = queue.flat_map(|queue| queue.waiting.clone()).collect();
        for handle in waiting {
            let Some(lock) = self.locks.get(&handle) else { continue };
            let mut desc = lock.desc;
            let Policy::Flock(range) = desc.policy else { continue };
            let Some(owner) = owner_of(lock.holder, &desc) else { continue };
            if !self.blockers(owner, &desc).is_empty() {
                continue;
            }
            self.cut(owner, resource, &range);
            desc.granted_mode = desc.req_mode;
            self.grant(handle, desc);
            self.events.push_back(LockEvent::Granted { handle, wanted: false });
            self.join(handle);
        }
        self.end_deadlocks(resource);
    }

    /// What a grant has led to may be a circle.
    fn end_deadlocks(&mut self, resource: Resource) {
        let queue = self.resources.get(&resource).into_iter();
        let waiting: Vec<Handle> = queue.flat_map(|queue| queue.waiting.clone()).collect();
        for handle in waiting {
            let Some(lock) = self.locks.get(&handle) else { continue };
            let Some(owner) = owner_of(lock.holder, &lock.desc) else { continue };
            if self.waits_for(owner, &lock.desc) {
                self.give_up(handle, true);
            }
        }
    }
}

fn owner_of(holder: Holder, desc: &LockDesc) -> Option<Owner> {
    match desc.policy {
        Policy::Flock(range) => Some((holder, range.owner)),
        _ => None,
    }
}
