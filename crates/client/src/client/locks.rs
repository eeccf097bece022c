//! The locks that the client has or asks for, the callbacks about them, and their replay.

use std::collections::{BTreeMap, VecDeque};

use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::codec::Wire;
use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{ELDLM, LdlmReply, LdlmRequest, LockDesc, LockFlags, LockType, OstLvb};
use lustrine_fswire::message::{Header, Message};
use lustrine_fswire::rpc::{Lvb, Reply as ReplyBuffers, Request, dlm};
use lustrine_ldlm::{Completed, Lock, LockReplay, LockState, Namespace, Progress};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{Import, ImportKey, Incoming, RpcError, SlotKind};

use super::{Answer, CallArgs, Caller, Client, Done};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// Locks of objects begin and end at multiples of this many bytes [LOCK-18].
pub(super) const PAGE: u64 = 4096;
/// Most locks that one request gives back: kernel clients have sent 111.
pub(super) const CANCELS_MAX: usize = 64;
/// Most replays of locks in flight at a target [LOCK-17].
const REPLAYS_MAX: usize = 8;

/// The locks at all targets.
#[derive(Default)]
pub(super) struct Locks {
    namespaces: BTreeMap<ImportKey, Namespace>,
    /// What goes on when a lock is granted, by the client's handle.
    waiters: BTreeMap<Handle, (ImportKey, Done<Granted>)>,
    replays: BTreeMap<ImportKey, Replays>,
    /// Locks that are not used any more, and that no server wants back: they go back together.
    useless: BTreeMap<ImportKey, Vec<Handle>>,
    /// Replays of a target's locks so far: each restart of a target begins a new one.
    rounds: u64,
}

/// Locks that a target gets again after its restart.
struct Replays {
    round: u64,
    pending: VecDeque<LockReplay>,
    in_flight: usize,
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granted {
    /// The size and the times of the object, of a lock that has them.
    pub(super) lvb: Option<OstLvb>,
}

/// Number of locks at a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Those that the client has.
    pub granted: usize,
    /// Those that it has asked for and does not have.
    pub waiting: usize,
}

/// A lock to ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockArgs {
    pub(super) desc: LockDesc,
    pub(super) flags: LockFlags,
    pub(super) slot: SlotKind,
    pub(super) caller: Caller,
}

impl Locks {
    pub(super) fn at(&mut self, import: ImportKey) -> &mut Namespace {
        self.namespaces.entry(import).or_default()
    }

    /// Forgets a lock that the server has not granted.
    pub(super) fn forget(&mut self, import: ImportKey, handle: Handle) {
        self.at(import).remove(handle);
        self.waiters.remove(&handle);
    }

    pub(super) fn get(&self, import: ImportKey, handle: Handle) -> Option<Lock> {
        self.namespaces.get(&import)?.get(handle)
    }

    /// Where a lock is; none if it is not known.
    pub(super) fn state(&self, import: ImportKey, handle: Handle) -> Option<LockState> {
        Some(self.get(import, handle)?.state)
    }

    /// The server's handle of a lock that is granted.
    pub(super) fn remote(&self, import: ImportKey, handle: Handle) -> Option<Handle> {
        let lock = self.get(import, handle)?;
        (lock.state == LockState::Granted).then_some(lock.remote)
    }

    /// Number of locks at a target.
    pub(super) fn count(&self, import: ImportKey) -> LockCounts {
        let mut counts = LockCounts::default();
        let locks = self.namespaces.get(&import).into_iter().flat_map(Namespace::iter);
        for (_, lock) in locks {
            match lock.state {
                LockState::Granted => counts.granted += 1,
                LockState::Enqueued | LockState::Waiting => counts.waiting += 1,
                LockState::Canceling => {}
            }
        }
        counts
    }
}

impl Client {
    /// A lock is asked for, with an intent or without: callbacks can name it from now on.
    pub(super) fn lock_asked(&mut self, import: ImportKey, lock: &LdlmRequest<'_>) {
        let handle = lock.handle(0).expect("an enqueue has a handle");
        self.locks.at(import).enqueue(handle, lock.desc);
    }

    /// Gives back what the answer to an enqueue granted; none for an enqueue that failed.
    pub(super) fn give_back(
        &mut self,
        import: ImportKey,
        handle: Handle,
        reply: Option<&LdlmReply>,
    ) {
        let namespace = self.locks.at(import);
        match reply {
            Some(reply) => {
                namespace.answered(handle, reply);
            }
            None => {
                namespace.remove(handle);
            }
        }
        self.cancel_soon(import, handle);
    }

    /// Cancels a lock that no server wants back, at the end of the turn: one request for all such
    /// locks at the target.
    pub(super) fn cancel_soon(&mut self, import: ImportKey, handle: Handle) {
        if self.locks.at(import).cancel(handle).is_some() {
            self.locks.useless.entry(import).or_default().push(handle);
        }
    }

    /// Whether locks are to be cancelled together.
    pub(super) fn has_cancels(&self) -> bool {
        !self.locks.useless.is_empty()
    }

    /// Cancels the locks that are of no use.
    pub(super) fn cancel_useless(&mut self, turn: &mut Turn<'_>) {
        while let Some((import, handles)) = self.locks.useless.pop_first() {
            for part in handles.chunks(CANCELS_MAX) {
                let namespace = self.locks.at(import);
                let remote = |handle: &Handle| Some((*handle, namespace.get(*handle)?.remote));
                let locks: Vec<(Handle, Handle)> = part.iter().filter_map(remote).collect();
                if !locks.is_empty() {
                    self.cancel_remotes(turn, import, locks);
                }
            }
        }
    }

    /// Cancels locks by the client's handles and those of the server.
    fn cancel_remotes(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        locks: Vec<(Handle, Handle)>,
    ) {
        if self.unmounted {
            return self.locks_disconnected(import, locks.iter().map(|(handle, _)| *handle));
        }
        let remotes: Vec<Handle> = locks.iter().map(|(_, remote)| *remote).collect();
        let request = Request::LdlmCancel(dlm::Lock { lock: cancels(&remotes) });
        self.call(turn, import, request, move |client, turn, _| {
            for (handle, remote) in locks {
                client.cancel_answered(turn, import, (handle, remote));
            }
        });
    }

    /// The server has answered the cancel of a lock by this handle of the server.
    fn cancel_answered(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        (handle, remote): (Handle, Handle),
    ) {
        // A server that restarted meanwhile got the lock again, and has another handle for it.
        let now = self.locks.at(import).get(handle).map(|lock| lock.remote);
        match now.is_some_and(|now| now != remote) && !self.unmounted {
            true => self.cancel_lock(turn, import, handle),
            false => {
                self.locks.at(import).remove(handle);
            }
        }
    }

    /// Cancels a lock, if the server has one. It is forgotten when the server has answered.
    pub(super) fn cancel_lock(&mut self, turn: &mut Turn<'_>, import: ImportKey, handle: Handle) {
        let Some(remote) = self.locks.at(import).cancel(handle) else { return };
        if self.unmounted {
            return self.locks_disconnected(import, [handle]);
        }
        self.cancel_remote(turn, import, remote, move |client, turn| {
            client.cancel_answered(turn, import, (handle, remote));
        });
    }

    /// A client that disconnects does not cancel locks any more: the server has all of them back
    /// with the disconnect, and does not answer what comes after it.
    fn locks_disconnected(&mut self, import: ImportKey, handles: impl IntoIterator<Item = Handle>) {
        for handle in handles {
            self.locks.at(import).remove(handle);
        }
    }

    /// Cancels a lock by the server's handle.
    fn cancel_remote(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        remote: Handle,
        then: impl FnOnce(&mut Client, &mut Turn<'_>) + Send + 'static,
    ) {
        let remotes = [remote];
        let request = Request::LdlmCancel(dlm::Lock { lock: cancels(&remotes) });
        self.call(turn, import, request, move |client, turn, _| then(client, turn));
    }

    /// Asks for a lock. `done` is called when it is granted, however long that takes.
    pub(super) fn enqueue(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        handle: Handle,
        args: LockArgs,
        done: Done<Granted>,
    ) {
        if self.unmounted {
            return done(self, turn, Err(ClientError::Rpc(RpcError::Closed)));
        }
        let handles = [handle];
        let lock = LdlmRequest {
            flags: args.flags,
            // Kernels count no lock of a configuration (`fs/s01_client_mount`).
            count: u32::from(args.desc.kind != LockType::PLAIN),
            desc: args.desc,
            handles: handles.as_slice().into(),
        };
        self.lock_asked(import, &lock);
        self.locks.waiters.insert(handle, (import, done));
        let mut call = CallArgs::from(Request::Enqueue(dlm::Lock { lock }));
        call.slot = args.slot;
        call.caller = Some(args.caller);
        self.call(turn, import, call, move |client, turn, answer| {
            match answer.and_then(|answer| enqueued(&answer)) {
                Ok((reply, lvb)) => {
                    let progress = client.locks.at(import).answered(handle, &reply);
                    if progress == Progress::Forgotten {
                        client.cancel_remote(turn, import, reply.handle, |_, _| {});
                    }
                    client.lock_moved(turn, import, handle, progress, lvb);
                    client.flock_answered(turn, import, handle);
                }
                Err(error) => {
                    client.locks.at(import).remove(handle);
                    client.wake(turn, handle, Err(error));
                }
            }
        });
    }

    /// The server has said something of a lock.
    fn lock_moved(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        handle: Handle,
        progress: Progress,
        lvb: Option<OstLvb>,
    ) {
        match progress {
            Progress::Granted => self.wake(turn, handle, Ok(Granted { lvb })),
            Progress::Waiting => self.flock_waits(turn, import, handle),
            Progress::None => {
                let error = malformed("the answer to an enqueue has no lock");
                self.wake(turn, handle, Err(error));
            }
            Progress::Unchanged | Progress::Forgotten => {}
        }
        // The answer can say that somebody wants a lock that a callback has granted before.
        let lock = self.locks.at(import).get(handle);
        if lock.is_some_and(|lock| lock.blocked && lock.state == LockState::Granted) {
            self.lock_blocked(turn, (import, handle));
        }
    }

    /// Calls what waits for a lock.
    pub(super) fn wake(&mut self, turn: &mut Turn<'_>, handle: Handle, outcome: Outcome<Granted>) {
        if let Some((_, done)) = self.locks.waiters.remove(&handle) {
            done(self, turn, outcome);
        }
    }

    /// Answers a callback of a server, and does what follows from it.
    pub(super) fn answer_callback(&mut self, turn: &mut Turn<'_>, request: &Incoming) {
        let import = request.import;
        let message = Message::parse(&request.message).ok();
        let parsed = message.and_then(|message| Request::parse(&message, &request.body).ok());
        match &parsed {
            Some(Request::LdlmBlCallback(callback)) => {
                let wanted = callback.lock.desc.policy.ibits().unwrap_or_default();
                let handle = callback.lock.handle(0);
                let converts =
                    handle.filter(|handle| self.converts(turn.now, (import, *handle), wanted));
                if let Some(handle) = converts {
                    self.reply_to_callback(turn, request, 0, &ReplyBuffers::Bare);
                    return self.convert(turn, (import, handle), wanted);
                }
                let blocked = self.locks.at(import).blocked(&callback.lock);
                let status = if blocked.is_some() { 0 } else { -errno::EINVAL };
                self.reply_to_callback(turn, request, status, &ReplyBuffers::Bare);
                if let Some(handle) = blocked {
                    self.attrs_blocked(turn, (import, handle));
                    self.config_blocked(turn, handle);
                    self.lock_blocked(turn, (import, handle));
                }
            }
            Some(Request::LdlmGlCallback(callback)) => {
                let handle = callback.lock.handle(0);
                let namespace = self.locks.at(import);
                let known = handle.filter(|handle| namespace.get(*handle).is_some());
                match known.map(|handle| self.glimpsed(import, handle)) {
                    Some(Some(lvb)) => {
                        let lvb = lvb.to_bytes();
                        let reply = dlm::GlimpseReply { lvb: Lvb(&lvb) };
                        let reply = ReplyBuffers::LdlmGlCallback(reply);
                        self.reply_to_callback(turn, request, 0, &reply);
                    }
                    // The client has nothing that the server does not have.
                    Some(None) => {
                        let status = -ELDLM::NO_LOCK_DATA;
                        self.reply_to_callback(turn, request, status, &ReplyBuffers::Bare);
                    }
                    None => {
                        self.reply_to_callback(turn, request, -errno::EINVAL, &ReplyBuffers::Bare);
                    }
                }
            }
            Some(Request::LdlmCpCallback(callback)) => {
                let completed = self.locks.at(import).completed(&callback.lock);
                let status = if completed == Completed::Unknown { -errno::EINVAL } else { 0 };
                self.reply_to_callback(turn, request, status, &ReplyBuffers::Bare);
                self.lock_completed(turn, completed, callback.lvb.object());
            }
            _ => self.reply_to_callback(turn, request, -errno::EINVAL, &ReplyBuffers::Bare),
        }
    }

    fn reply_to_callback(
        &mut self,
        turn: &mut Turn<'_>,
        request: &Incoming,
        status: i32,
        reply: &ReplyBuffers<'_>,
    ) {
        let mut body = PtlrpcBody::reply(request.body.opcode);
        body.status = status;
        body.service_time = 1;
        let mut message = Vec::new();
        reply.encode(&Header::default(), &body, &mut message);
        self.rpc.reply(turn, request, &message);
    }

    fn lock_completed(&mut self, turn: &mut Turn<'_>, completed: Completed, lvb: Option<OstLvb>) {
        match completed {
            Completed::Granted(handle) if self.is_unanswered_flock(handle) => {}
            Completed::Granted(handle) => self.wake(turn, handle, Ok(Granted { lvb })),
            Completed::Failed { handle, deadlock: true } => {
                self.wake(turn, handle, Err(ClientError::Errno(errno::EDEADLK)));
            }
            Completed::Failed { handle, deadlock: false } => {
                if self.flock_dropped(handle) {
                    return;
                }
                self.wake(turn, handle, Err(ClientError::Rpc(RpcError::Canceled)));
            }
            Completed::Unchanged | Completed::Unknown => {}
        }
    }

    /// A server has evicted this client: all its locks there are void.
    pub(super) fn locks_evicted(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        self.locks.replays.remove(&import);
        let asked = self.locks.at(import).clear();
        self.attrs_lost(import);
        self.configs_lost(turn, import);
        self.cache_evicted(turn, import);
        self.unstable_evicted(import);
        for handle in asked {
            self.wake(turn, handle, Err(ClientError::Rpc(RpcError::Evicted)));
        }
        if self.rpc.import(import).is_some_and(Import::is_deactivated) {
            // It is not to be used any more: what waits for the connection fails now.
            self.pump(turn, import);
        }
    }

    /// The client is unmounted: what waits for a lock does not get it.
    pub(super) fn close_locks(&mut self, turn: &mut Turn<'_>) {
        for handle in self.locks.waiters.keys().copied().collect::<Vec<_>>() {
            self.wake(turn, handle, Err(ClientError::Rpc(RpcError::Closed)));
        }
    }

    /// A server has restarted: it gets its locks again [LOCK-17].
    pub(super) fn replay_locks(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        self.attrs_lost(import);
        self.configs_not_replayed(turn, import);
        self.locks.rounds += 1;
        let (round, pending) = (self.locks.rounds, self.locks.at(import).replays().into());
        self.locks.replays.insert(import, Replays { round, pending, in_flight: 0 });
        self.replay_more(turn, import);
    }

    fn replay_more(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        while let Some(replays) = self.locks.replays.get_mut(&import) {
            if replays.in_flight >= REPLAYS_MAX {
                return;
            }
            let Some(lock) = replays.pending.pop_front() else { break };
            replays.in_flight += 1;
            let round = replays.round;
            self.replay_lock(turn, import, round, &lock);
        }
        if self.locks.replays.get(&import).is_some_and(|replays| replays.in_flight == 0) {
            self.locks.replays.remove(&import);
            self.rpc.with(turn, import, |import, now, xids| import.locks_replayed(now, xids));
        }
    }

    fn replay_lock(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        round: u64,
        lock: &LockReplay,
    ) {
        let (handle, handles) = (lock.handle, [lock.handle]);
        let lock = LdlmRequest {
            flags: lock.flags,
            count: 0,
            desc: lock.desc,
            handles: handles.as_slice().into(),
        };
        let request = Request::Enqueue(dlm::Lock { lock });
        self.call_replay(turn, import, request, move |client, turn, answer| {
            let replays = client.locks.replays.get_mut(&import);
            let Some(replays) = replays.filter(|replays| replays.round == round) else { return };
            replays.in_flight -= 1;
            match answer {
                // The connection is lost: the next one begins anew.
                Err(ClientError::Rpc(RpcError::Canceled | RpcError::Closed)) => {
                    client.locks.replays.remove(&import);
                    return;
                }
                Err(error) => client.lock_lost(turn, import, handle, error),
                Ok(answer) => match enqueued(&answer) {
                    Ok((reply, _)) if reply.handle == Handle::NONE => {
                        let error = malformed("the answer to the replay of a lock has none");
                        client.lock_lost(turn, import, handle, error);
                    }
                    Ok((reply, lvb)) => {
                        let progress = client.locks.at(import).replayed(handle, &reply);
                        client.lock_moved(turn, import, handle, progress, lvb);
                    }
                    Err(error) => client.lock_lost(turn, import, handle, error),
                },
            }
            client.replay_more(turn, import);
        });
    }

    /// A server did not take a lock again.
    fn lock_lost(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        handle: Handle,
        error: ClientError,
    ) {
        let key = self.object_of(import, handle);
        self.locks.at(import).remove(handle);
        if let Some(key) = key {
            self.lock_gone(turn, key, handle);
        }
        self.wake(turn, handle, Err(error));
    }
}

/// A request that gives locks back, by the server's handles.
pub(super) fn cancels(handles: &[Handle]) -> LdlmRequest<'_> {
    LdlmRequest { count: handles.len() as u32, handles: handles.into(), ..LdlmRequest::default() }
}

/// The answer to an enqueue without an intent: the lock, and the value of an object's lock.
fn enqueued(answer: &Answer) -> Outcome<(LdlmReply, Option<OstLvb>)> {
    let reply = reply_of!(&answer.reply, Enqueue)?;
    match answer.reply.status {
        0 => Ok((reply.reply, reply.lvb.and_then(|lvb| lvb.object()))),
        ELDLM::LOCK_WOULDBLOCK => Err(ClientError::Errno(errno::EAGAIN)),
        _ => Err(malformed("an enqueue without an intent was not executed")),
    }
}
