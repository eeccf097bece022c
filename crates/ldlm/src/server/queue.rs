//! Which locks are granted, and who has to give way. Of flocks, see `flock.rs`.

use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{
    Extent, Ibits, IbitsPolicy, LockDesc, LockFlags, LockMode, LockType, Policy, Resource,
};

use super::{EnqueueArgs, Enqueued, Holder, LockEvent, LockServer, errno};

/// Extents grow to multiples of this many bytes.
const EXTENT_STEP: u64 = 4096;

impl LockServer {
    pub(super) fn enqueue_plain(&mut self, now: u64, args: &EnqueueArgs) -> Result<Enqueued, i32> {
        let mut desc = args.desc;
        desc.granted_mode = LockMode::NONE;
        // What the server does for replays comes before all locks of clients.
        let held_back = self.replaying && matches!(args.holder, Holder::Client(_));
        if !held_back && self.is_free(&desc, None) {
            desc = self.grown(args, desc, None);
            desc.granted_mode = desc.req_mode;
            let handle = self.insert(args, desc);
            return Ok(self.described(handle, changed(&args.desc, &desc)));
        }
        if args.flags.intersects(LockFlags::BLOCK_NOWAIT | LockFlags::SPECULATIVE) {
            return Err(errno::EAGAIN);
        }
        let handle = self.insert(args, desc);
        if desc.kind == LockType::EXTENT
            && let Some(lock) = self.locks.get_mut(&handle)
        {
            lock.flags |= LockFlags::NO_TIMEOUT;
        }
        self.block_holders(now, handle);
        // One that may be dropped at once may have been all that stood in the way.
        self.reprocess(now, desc.resource);
        if self.locks.get(&handle).is_some_and(|lock| lock.is_granted()) {
            self.forget_grant(handle);
        }
        let changes = changed(&args.desc, &self.locks[&handle].desc);
        Ok(self.described(handle, changes))
    }

    /// The reply to the enqueue says that a lock is granted: nobody else has to.
    fn forget_grant(&mut self, granted: Handle) {
        self.events.retain(
            |event| !matches!(event, LockEvent::Granted { handle, .. } if *handle == granted),
        );
    }

    /// Asks for as many of some bits as nobody else has or waits for, in a mode. None if there are
    /// none of them.
    pub fn try_bits(
        &mut self,
        (client, client_handle): (Handle, Handle),
        resource: Resource,
        (mode, bits): (LockMode, Ibits),
    ) -> Option<Enqueued> {
        if self.replaying || self.of_client(client, client_handle).is_some() {
            return None;
        }
        let bits = self.free_bits(resource, mode, bits, None);
        if bits.is_empty() {
            return None;
        }
        let desc = LockDesc {
            kind: LockType::IBITS,
            resource,
            req_mode: mode,
            granted_mode: mode,
            policy: Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() }),
        };
        let args = EnqueueArgs {
            holder: Holder::Client(client),
            client_handle,
            desc,
            flags: LockFlags::empty(),
            finds_deadlocks: false,
        };
        let handle = self.insert(&args, desc);
        Some(self.described(handle, LockFlags::LOCK_CHANGED))
    }

    /// Of some bits those that could be granted in a mode now.
    fn free_bits(
        &self,
        resource: Resource,
        mode: LockMode,
        bits: Ibits,
        besides: Option<Handle>,
    ) -> Ibits {
        let Some(queue) = self.resources.get(&resource) else { return bits };
        let others = queue.granted.iter().chain(&queue.waiting);
        let others = others.filter(|other| Some(**other) != besides);
        let taken = others.filter_map(|other| {
            let desc = &self.locks[other].desc;
            let conflicts = !mode.is_compatible(desc.req_mode);
            conflicts.then(|| desc.policy.ibits()).flatten()
        });
        taken.fold(bits, |bits, taken| bits - taken)
    }

    /// Whether a lock could be granted beside those that are, and those that wait: all, or only
    /// those in front of `waiting`, which is the lock itself.
    fn is_free(&self, desc: &LockDesc, waiting: Option<Handle>) -> bool {
        let Some(queue) = self.resources.get(&desc.resource) else { return true };
        let before = queue.waiting.iter().take_while(|other| Some(**other) != waiting);
        let mut others = queue.granted.iter().chain(before);
        others.all(|other| !conflict(desc, &self.locks[other].desc))
    }

    /// The lock as it is granted: extents grow to what nobody else has, and bits that were to be
    /// tried are added.
    fn grown(&self, args: &EnqueueArgs, desc: LockDesc, own: Option<Handle>) -> LockDesc {
        let mut desc = desc;
        match &mut desc.policy {
            Policy::Ibits(policy) => {
                let wanted = policy.try_bits - policy.bits;
                let free = self.free_bits(desc.resource, desc.req_mode, wanted, own);
                *policy = IbitsPolicy {
                    bits: policy.bits | free,
                    gid: policy.gid,
                    ..IbitsPolicy::default()
                };
            }
            Policy::Extent(extent)
                if matches!(args.holder, Holder::Client(_))
                    && !args.flags.contains(LockFlags::NO_EXPANSION)
                    && desc.req_mode != LockMode::GROUP =>
            {
                *extent = self.largest(desc.resource, desc.req_mode, *extent, own);
            }
            _ => {}
        }
        desc
    }

    /// The largest extent around one that overlaps none in the way of a mode.
    fn largest(
        &self,
        resource: Resource,
        mode: LockMode,
        asked: Extent,
        own: Option<Handle>,
    ) -> Extent {
        let Some(queue) = self.resources.get(&resource) else { return Extent::WHOLE };
        let (mut start, mut end) = (0, u64::MAX);
        let others = queue.granted.iter().chain(&queue.waiting);
        for other in others.filter(|other| Some(**other) != own) {
            let desc = &self.locks[other].desc;
            let Some(extent) = desc.policy.extent() else { continue };
            if mode.is_compatible(desc.req_mode) {
                continue;
            }
            if extent.end < asked.start {
                start = start.max(extent.end + 1);
            } else if extent.start > asked.end {
                end = end.min(extent.start - 1);
            } else {
                // It waits for this one: what it wants is not taken in addition.
                return asked;
            }
        }
        let start = start.checked_next_multiple_of(EXTENT_STEP).unwrap_or(u64::MAX);
        let start = start.min(asked.start);
        let whole_steps = (end as u128 + 1) / u128::from(EXTENT_STEP) * u128::from(EXTENT_STEP);
        let end = match end {
            u64::MAX => end,
            _ => (whole_steps.saturating_sub(1) as u64).max(asked.end),
        };
        Extent { start, end, gid: 0 }
    }

    /// Asks the clients whose locks are in the way of one that waits to cancel them.
    fn block_holders(&mut self, now: u64, waiting: Handle) {
        for (handle, drop) in self.holders_to_block(waiting) {
            let wanted = self.locks[&waiting].desc;
            let discard = self.locks[&waiting].flags.contains(LockFlags::AST_DISCARD_DATA);
            self.set_timer(now, handle);
            let lock = &self.locks[&handle];
            let Holder::Client(client) = lock.holder else { continue };
            let client_handle = lock.client_handle;
            let wanted = seen_by_holder(wanted);
            self.events.push_back(LockEvent::Blocking {
                client,
                handle,
                client_handle,
                wanted,
                discard,
            });
            if drop {
                self.take(handle);
            }
        }
    }

    /// Granted locks of clients that are in the way of one that waits and were not asked for, and
    /// whether they may be dropped at once.
    fn holders_to_block(&self, waiting: Handle) -> Vec<(Handle, bool)> {
        let desc = &self.locks[&waiting].desc;
        let Some(queue) = self.resources.get(&desc.resource) else { return Vec::new() };
        let in_the_way = |handle: &&Handle| {
            let lock = &self.locks[*handle];
            lock.client().is_some() && lock.cancel_by.is_none() && conflict(desc, &lock.desc)
        };
        let in_the_way = queue.granted.iter().filter(in_the_way);
        let at_once =
            |handle: &Handle| self.locks[handle].flags.contains(LockFlags::CANCEL_ON_BLOCK);
        in_the_way.map(|handle| (*handle, at_once(handle))).collect()
    }

    fn set_timer(&mut self, now: u64, handle: Handle) {
        let at = now.saturating_add(self.cancel_timeout);
        if let Some(lock) = self.locks.get_mut(&handle) {
            lock.cancel_by = Some(at);
            self.timers.insert((at, handle));
        }
    }

    /// Something has changed at a resource: grants what can be granted, in the order of asking.
    pub(super) fn reprocess(&mut self, now: u64, resource: Resource) {
        if self.replaying {
            return;
        }
        let Some(queue) = self.resources.get(&resource) else { return };
        let waiting: Vec<Handle> = queue.waiting.iter().copied().collect();
        if waiting.is_empty() {
            return;
        }
        if self.locks[&waiting[0]].desc.kind == LockType::FLOCK {
            return self.reprocess_flocks(resource);
        }
        for handle in waiting.iter().copied() {
            let lock = &self.locks[&handle];
            if !self.is_free(&lock.desc, Some(handle)) {
                continue;
            }
            let args = EnqueueArgs {
                holder: lock.holder,
                client_handle: lock.client_handle,
                desc: lock.desc,
                flags: lock.flags,
                finds_deadlocks: false,
            };
            let mut desc = self.grown(&args, lock.desc, Some(handle));
            desc.granted_mode = desc.req_mode;
            self.grant(handle, desc);
            // Who waits behind may want this one: that is said with the grant.
            let queue = &self.resources[&resource];
            let wanted = queue.waiting.iter().any(|other| conflict(&self.locks[other].desc, &desc));
            let wanted = wanted && matches!(args.holder, Holder::Client(_));
            if wanted {
                self.set_timer(now, handle);
            }
            self.events.push_back(LockEvent::Granted { handle, wanted });
        }
        let Some(queue) = self.resources.get(&resource) else { return };
        for handle in queue.waiting.clone() {
            self.block_holders(now, handle);
        }
    }

    /// A lock that waited is granted.
    pub(super) fn grant(&mut self, handle: Handle, desc: LockDesc) {
        let Some(lock) = self.locks.get_mut(&handle) else { return };
        lock.desc = desc;
        if let Some(queue) = self.resources.get_mut(&desc.resource) {
            queue.waiting.retain(|other| *other != handle);
            queue.granted.push(handle);
        }
    }
}

/// Whether two locks of one resource cannot be granted together [LOCK-2].
fn conflict(a: &LockDesc, b: &LockDesc) -> bool {
    if !a.policy.intersects(&b.policy) {
        return false;
    }
    match (a.req_mode, b.req_mode) {
        (LockMode::GROUP, LockMode::GROUP) => group(&a.policy) != group(&b.policy),
        (a, b) => !a.is_compatible(b),
    }
}

fn group(policy: &Policy) -> u64 {
    match policy {
        Policy::Extent(extent) => extent.gid,
        Policy::Ibits(policy) => policy.gid,
        _ => 0,
    }
}

/// Whether the reply has to say what the lock covers.
fn changed(asked: &LockDesc, got: &LockDesc) -> LockFlags {
    let same = asked.policy == got.policy && asked.resource == got.resource;
    if same { LockFlags::empty() } else { LockFlags::LOCK_CHANGED }
}

/// What a holder is told of a lock that is wanted: the bits twice, of extents nothing.
fn seen_by_holder(mut desc: LockDesc) -> LockDesc {
    desc.granted_mode = LockMode::NONE;
    desc.policy = match desc.policy {
        Policy::Ibits(policy) => {
            Policy::Ibits(IbitsPolicy { bits: policy.bits, try_bits: policy.bits, ..policy })
        }
        Policy::Extent(_) => Policy::Extent(Extent::default()),
        other => other,
    };
    desc
}
