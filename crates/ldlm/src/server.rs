//! The server's side of locks: what clients have of one target, who waits for what, and what of it
//! clients have to be told.
//!
//! A [`LockServer`] sends nothing. It says by [`LockEvent`]s which callbacks are due. What its user
//! itself needs for the time of a request it enqueues as [`Holder::Server`].

mod flock;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque, btree_map};

use foldhash::fast::FixedState;
use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{
    Ibits, IbitsPolicy, LockDesc, LockFlags, LockMode, LockType, Policy, Resource,
};
use smallvec::SmallVec;

/// Errors of Linux with which enqueues are refused.
mod errno {
    pub(super) const EAGAIN: i32 = 11;
    pub(super) const EFAULT: i32 = 14;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const EDEADLK: i32 = 35;
    pub(super) const EPROTO: i32 = 71;
}

/// Who has a lock, or waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A client, by the handle of its connection.
    Client(Handle),
    /// The server itself, for the time of a request with this number.
    Server(u64),
}

/// A lock of a target.
#[derive(Clone, Debug)]
pub struct ServerLock {
    /// Who has it, or waits for it.
    pub holder: Holder,
    /// The client's handle; none for locks of the server, and for parts of flocks.
    pub client_handle: Handle,
    /// What it covers. It waits if there is no granted mode.
    pub desc: LockDesc,
    /// The flags of the enqueue that it keeps.
    pub flags: LockFlags,
    /// When the client has to have cancelled it, in the unit of the times given; none if it was not
    /// asked to.
    pub cancel_by: Option<u64>,
}

impl ServerLock {
    /// Whether it is granted.
    pub fn is_granted(&self) -> bool {
        self.desc.granted_mode != LockMode::NONE
    }

    /// The client that has it.
    pub fn client(&self) -> Option<Handle> {
        match self.holder {
            Holder::Client(cookie) => Some(cookie),
            Holder::Server(_) => None,
        }
    }
}

/// A lock that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct EnqueueArgs {
    /// Who asks.
    pub holder: Holder,
    /// The client's handle; none for the server.
    pub client_handle: Handle,
    /// What is asked for.
    pub desc: LockDesc,
    /// The flags of the request.
    pub flags: LockFlags,
    /// Whether deadlocks of flocks are looked for: the client knows what they are.
    pub finds_deadlocks: bool,
}

/// The answer to an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The server's handle. An unlock and a test of a flock leave no lock behind.
    pub handle: Handle,
    /// The lock as it is.
    pub desc: LockDesc,
    /// The flags of the reply.
    pub flags: LockFlags,
}

impl Enqueued {
    /// Whether the lock is granted.
    pub fn is_granted(&self) -> bool {
        self.desc.granted_mode != LockMode::NONE
    }
}

/// A message that the lock server has to send to a client, or an outcome for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// A client has to give a lock back: BL_CALLBACK.
    Blocking {
        /// The connection of the client.
        client: Handle,
        /// The lock.
        handle: Handle,
        /// The client's handle.
        client_handle: Handle,
        /// What somebody else wants.
        wanted: LockDesc,
        /// Whether unwritten data need not be written.
        discard: bool,
    },
    /// A lock that waited is granted: CP_CALLBACK to a client, or a request of the server goes on.
    Granted {
        /// The lock.
        handle: Handle,
        /// Whether somebody wants it already, so that no BL_CALLBACK follows.
        wanted: bool,
    },
    /// A flock that waited is given up: CP_CALLBACK without a granted mode.
    GivenUp {
        /// The connection of the client.
        client: Handle,
        /// The server's handle.
        handle: Handle,
        /// The client's handle.
        client_handle: Handle,
        /// What was asked for.
        desc: LockDesc,
        /// Whether a deadlock is the reason.
        deadlock: bool,
    },
    /// A client has not given a lock back in time: it is to be evicted.
    Overdue {
        /// The connection of the client.
        client: Handle,
    },
}

/// The locks of a resource, by their handles: most often one, that is granted.
#[derive(Clone, Debug, Default)]
struct Queue {
    granted: SmallVec<[Handle; 2]>,
    waiting: VecDeque<Handle>,
}

/// The locks of one target.
#[derive(Debug)]
pub struct LockServer {
    /// By handles, which are this server's own choice: no client makes two fall together.
    locks: HashMap<Handle, ServerLock, FixedState>,
    resources: BTreeMap<Resource, Queue>,
    /// The server's handle of each lock of a client.
    of_clients: BTreeMap<(Handle, Handle), Handle>,
    /// Locks that are to be cancelled, by the time.
    timers: BTreeSet<(u64, Handle)>,
    events: VecDeque<LockEvent>,
    handles: u64,
    /// How long a client may take to cancel a lock.
    cancel_timeout: u64,
    /// Whether locks are replayed: nothing that waits is granted until that is over.
    replaying: bool,
}

impl LockServer {
    /// No locks. `seed` makes the handles other ones than those of an earlier life;
    /// `cancel_timeout` is how long a client may take to cancel a lock, in the unit of the times
    /// given.
    pub fn new(seed: u64, cancel_timeout: u64) -> LockServer {
        LockServer {
            locks: HashMap::default(),
            resources: BTreeMap::new(),
            of_clients: BTreeMap::new(),
            timers: BTreeSet::new(),
            events: VecDeque::new(),
            handles: seed,
            cancel_timeout,
            replaying: false,
        }
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<LockEvent> {
        self.events.pop_front()
    }

    /// Whether there is an event, or [`LockServer::drive`] has something to do.
    pub fn is_due(&self, now: u64) -> bool {
        !self.events.is_empty() || self.next_deadline().is_some_and(|at| at <= now)
    }

    /// Number of locks, with those that wait and those of the server.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// All locks, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &ServerLock)> {
        self.locks.iter().map(|(handle, lock)| (*handle, lock))
    }

    /// A lock.
    pub fn get(&self, handle: Handle) -> Option<&ServerLock> {
        self.locks.get(&handle)
    }

    /// The lock of a client with this handle of the client.
    pub fn of_client(&self, client: Handle, client_handle: Handle) -> Option<Handle> {
        self.of_clients.get(&(client, client_handle)).copied()
    }

    /// The locks on a resource that are granted.
    pub fn granted_on(&self, resource: Resource) -> impl Iterator<Item = (Handle, &ServerLock)> {
        let handles = self.resources.get(&resource).into_iter().flat_map(|queue| &queue.granted);
        handles.filter_map(|handle| Some((*handle, self.locks.get(handle)?)))
    }

    /// When [`LockServer::drive`] has something to do next; none if never.
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Says which clients are overdue.
    pub fn drive(&mut self, now: u64) {
        while let Some((at, handle)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, handle));
            let client = self.locks.get(&handle).and_then(ServerLock::client);
            if let Some(client) = client {
                self.events.push_back(LockEvent::Overdue { client });
            }
        }
    }

    /// Locks are replayed from now on: nothing that waits is granted until
    /// [`LockServer::end_replay`].
    pub fn begin_replay(&mut self) {
        self.replaying = true;
    }

    /// All locks have been replayed: what can be granted is.
    pub fn end_replay(&mut self, now: u64) {
        self.replaying = false;
        for resource in self.resources.keys().copied().collect::<Vec<_>>() {
            self.reprocess(now, resource);
        }
    }

    /// Asks for a lock.
    ///
    /// # Errors
    /// The errno of Linux of the reply, positive: EAGAIN if it would have to wait and must not,
    /// EDEADLK, or EFAULT, EPROTO and EINVAL for what no client may ask.
    pub fn enqueue(&mut self, now: u64, args: EnqueueArgs) -> Result<Enqueued, i32> {
        check(&args)?;
        if let Holder::Client(client) = args.holder
            && let Some(handle) = self.of_client(client, args.client_handle)
        {
            // The reply was lost, and the same lock is asked for again.
            return Ok(self.described(handle, LockFlags::LOCK_CHANGED));
        }
        let is_replay = args.flags.contains(LockFlags::REPLAY);
        if is_replay && args.flags.intersects(LockFlags::BLOCK_GRANTED | LockFlags::BLOCK_WAIT) {
            return Ok(self.replay(&args));
        }
        match args.desc.kind {
            LockType::FLOCK => self.enqueue_flock(now, &args),
            _ => self.enqueue_plain(now, &args),
        }
    }

    /// Takes a lock again that the client had or waited for before a restart [LOCK-17].
    fn replay(&mut self, args: &EnqueueArgs) -> Enqueued {
        let mut desc = args.desc;
        let granted = args.flags.contains(LockFlags::BLOCK_GRANTED);
        desc.granted_mode = if granted { desc.req_mode } else { LockMode::NONE };
        if granted && args.desc.granted_mode != LockMode::NONE {
            desc.granted_mode = args.desc.granted_mode;
        }
        let handle = self.insert(args, desc);
        let echoed = LockFlags::REPLAY | LockFlags::BLOCK_GRANTED | LockFlags::BLOCK_WAIT;
        Enqueued { handle, desc, flags: args.flags & echoed }
    }

    /// The lock as the reply to an enqueue describes it.
    fn described(&self, handle: Handle, flags: LockFlags) -> Enqueued {
        let lock = &self.locks[&handle];
        let mut flags = flags | lock.flags & KEPT_FLAGS;
        if !lock.is_granted() {
            flags |= LockFlags::BLOCK_GRANTED;
        }
        if lock.cancel_by.is_some() {
            flags |= LockFlags::AST_SENT;
        }
        Enqueued { handle, desc: lock.desc, flags }
    }

    fn next_handle(&mut self) -> Handle {
        // A step of SplitMix64, which visits all numbers.
        self.handles = self.handles.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.handles;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Handle((mixed ^ (mixed >> 31)).max(1))
    }

    /// Adds a lock, as granted or at the end of those that wait.
    fn insert(&mut self, args: &EnqueueArgs, desc: LockDesc) -> Handle {
        let handle = self.next_handle();
        let lock = ServerLock {
            holder: args.holder,
            client_handle: args.client_handle,
            desc,
            flags: args.flags & KEPT_FLAGS,
            cancel_by: None,
        };
        let queue = self.resources.entry(desc.resource).or_default();
        match lock.is_granted() {
            true => queue.granted.push(handle),
            false => queue.waiting.push_back(handle),
        }
        if let Holder::Client(client) = lock.holder
            && lock.client_handle != Handle::NONE
        {
            self.of_clients.insert((client, lock.client_handle), handle);
        }
        self.locks.insert(handle, lock);
        handle
    }

    /// Takes a lock out, without a look at who waits.
    fn take(&mut self, handle: Handle) -> Option<ServerLock> {
        let lock = self.locks.remove(&handle)?;
        let resource = lock.desc.resource;
        if let btree_map::Entry::Occupied(mut entry) = self.resources.entry(resource) {
            let queue = entry.get_mut();
            queue.granted.retain(|other| *other != handle);
            queue.waiting.retain(|other| *other != handle);
            if queue.granted.is_empty() && queue.waiting.is_empty() {
                entry.remove();
            }
        }
        if let Holder::Client(client) = lock.holder
            && self.of_clients.get(&(client, lock.client_handle)) == Some(&handle)
        {
            self.of_clients.remove(&(client, lock.client_handle));
        }
        if let Some(at) = lock.cancel_by {
            self.timers.remove(&(at, handle));
        }
        Some(lock)
    }

    /// A client gives locks back. Returns whether it had any of them.
    pub fn cancel(
        &mut self,
        now: u64,
        client: Handle,
        handles: impl IntoIterator<Item = Handle>,
    ) -> bool {
        let mut found = false;
        for handle in handles {
            let of_client = |lock: &ServerLock| lock.holder == Holder::Client(client);
            if self.locks.get(&handle).is_some_and(of_client) {
                found = true;
                self.release(now, handle);
            }
        }
        found
    }

    /// Ends a lock: of the server when its request is over, or of a client that does not know it.
    pub fn release(&mut self, now: u64, handle: Handle) {
        if let Some(lock) = self.take(handle) {
            self.reprocess(now, lock.desc.resource);
        }
    }

    /// Ends all locks of a client that is gone.
    pub fn remove_client(&mut self, now: u64, client: Handle) {
        let of_client = |(_, lock): &(&Handle, &ServerLock)| lock.holder == Holder::Client(client);
        let handles: Vec<Handle> =
            self.locks.iter().filter(of_client).map(|(handle, _)| *handle).collect();
        let mut resources = BTreeSet::new();
        for handle in handles {
            if let Some(lock) = self.take(handle) {
                resources.insert(lock.desc.resource);
            }
        }
        for resource in resources {
            self.reprocess(now, resource);
        }
    }

    /// A lock of the server becomes one of a client, in a weaker mode and with these bits. It is
    /// what an intent is answered with.
    pub fn give(
        &mut self,
        now: u64,
        handle: Handle,
        (client, client_handle): (Handle, Handle),
        (mode, bits): (LockMode, Ibits),
    ) -> Option<Enqueued> {
        // The reply to an earlier attempt was lost, with the lock that it gave.
        if let Some(before) = self.of_client(client, client_handle)
            && before != handle
        {
            self.release(now, before);
        }
        let lock = self.locks.get_mut(&handle)?;
        lock.holder = Holder::Client(client);
        lock.client_handle = client_handle;
        lock.desc.req_mode = mode;
        lock.desc.granted_mode = mode;
        lock.desc.policy = Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() });
        let resource = lock.desc.resource;
        self.of_clients.insert((client, client_handle), handle);
        self.reprocess(now, resource);
        Some(self.described(handle, LockFlags::LOCK_CHANGED))
    }

    /// A client keeps only some bits of a lock. Returns those that it has then.
    ///
    /// # Errors
    /// EINVAL without such a lock, EPROTO if it does not have the bits.
    pub fn convert(
        &mut self,
        now: u64,
        (client, handle): (Handle, Handle),
        keep: Ibits,
    ) -> Result<ServerLock, i32> {
        let lock = self.locks.get_mut(&handle).ok_or(errno::EINVAL)?;
        if lock.holder != Holder::Client(client) || !lock.is_granted() {
            return Err(errno::EINVAL);
        }
        let Policy::Ibits(policy) = &mut lock.desc.policy else { return Err(errno::EPROTO) };
        if keep.is_empty() || !policy.bits.contains(keep) {
            return Err(errno::EPROTO);
        }
        policy.bits = keep;
        if let Some(at) = lock.cancel_by.take() {
            self.timers.remove(&(at, handle));
        }
        let (converted, resource) = (lock.clone(), lock.desc.resource);
        self.reprocess(now, resource);
        Ok(converted)
    }

    /// The client uses a lock that it is to cancel: it writes what it has under it. It gets the
    /// same time once more.
    pub fn refresh(&mut self, now: u64, handle: Handle) {
        let cancel_by = now.saturating_add(self.cancel_timeout);
        if let Some(lock) = self.locks.get_mut(&handle)
            && let Some(at) = lock.cancel_by
        {
            lock.cancel_by = Some(cancel_by);
            self.timers.remove(&(at, handle));
            self.timers.insert((cancel_by, handle));
        }
    }
}

/// Flags that a lock keeps, and that replies repeat.
const KEPT_FLAGS: LockFlags = LockFlags::CANCEL_ON_BLOCK
    .union(LockFlags::NO_TIMEOUT)
    .union(LockFlags::TEST_LOCK)
    .union(LockFlags::NO_EXPANSION)
    .union(LockFlags::AST_DISCARD_DATA);

/// What no client may ask for.
fn check(args: &EnqueueArgs) -> Result<(), i32> {
    let desc = &args.desc;
    if !desc.req_mode.is_valid_request() {
        return Err(errno::EFAULT);
    }
    match (desc.kind, &desc.policy) {
        (LockType::EXTENT, Policy::Extent(extent)) if extent.start > extent.end => {
            Err(errno::EPROTO)
        }
        (LockType::FLOCK, Policy::Flock(range)) if range.start > range.end => Err(errno::EINVAL),
        (LockType::IBITS, Policy::Ibits(policy)) if policy.bits.is_empty() => Err(errno::EPROTO),
        (LockType::IBITS, Policy::Ibits(policy))
            if desc.req_mode == LockMode::GROUP && policy.bits != Ibits::DOM =>
        {
            Err(errno::EPROTO)
        }
        (LockType::PLAIN, _)
        | (LockType::EXTENT, Policy::Extent(_))
        | (LockType::FLOCK, Policy::Flock(_))
        | (LockType::IBITS, Policy::Ibits(_)) => Ok(()),
        _ => Err(errno::EFAULT),
    }
}
