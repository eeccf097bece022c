//! Flocks: locks of programs on ranges of files, which hold between machines [LOCK-16].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Flock, LdlmRequest, LockDesc, LockFlags, LockMode, LockType, Policy, Resource,
};
use lustrine_fswire::rpc::{Request, dlm};
use lustrine_ldlm::LockState;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, RpcError, SlotKind};

use super::locks::{Granted, LockArgs};
use super::{CallArgs, Caller, Client, Done};
use crate::error::{ClientError, Outcome, errno};
use crate::reply::reply_of;

/// What a flock is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlockMode {
    /// To read: others may have such a lock too.
    Read,
    /// To write: no one else has a lock.
    Write,
    /// To give up what the owner has in the range.
    Unlock,
}

/// A flock to ask for, or one that stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlockArgs {
    /// What it is for.
    pub mode: FlockMode,
    /// First byte.
    pub start: u64,
    /// Last byte; 2^63 - 1 for the end of the file, however long it gets.
    pub end: u64,
    /// Whose it is: a number that stands for an owner in this client, not 0.
    pub owner: u64,
    /// The process, for people who look at locks.
    pub pid: u32,
}

/// A flock that was asked for and is not granted; see [`Client::give_up_flock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlockKey(Handle);

/// A flock that was asked for and is not granted.
struct AskedFlock {
    fid: Fid,
    args: FlockArgs,
    wait: bool,
    caller: Caller,
    /// Its place among the requests of its owner on the file.
    place: i64,
    /// Whether it is asked for only if its owner has something of the file.
    only_if_held: bool,
    /// Whether it does not wait for earlier requests of its owner any more.
    started: bool,
    /// Whether its owner has given it up.
    given_up: bool,
    /// Whether its caller does not wait for the outcome any more.
    abandoned: bool,
    /// Whether its enqueue is not answered.
    unanswered: bool,
    /// Whether the server has dropped it before it answered the enqueue.
    dropped: bool,
    done: Done<()>,
}

/// An owner, on a file.
type OwnerKey = (Fid, u64);

/// The flocks that are asked for and are not granted.
#[derive(Default)]
pub(super) struct AskedFlocks {
    by_handle: BTreeMap<Handle, AskedFlock>,
    by_owner: BTreeMap<OwnerKey, OwnerRequests>,
    /// The places that were given in front of all others and behind them.
    places: (i64, i64),
    /// The owners of whom requests may be started.
    ready: VecDeque<OwnerKey>,
    /// Whether requests are being started.
    starting: bool,
}

/// What decides which requests of an owner may be started, by their places.
#[derive(Default)]
struct OwnerRequests {
    /// Those that are not started.
    waiting: BTreeMap<i64, Handle>,
    /// Those that are started and abandoned: no later one is started before they are over.
    abandoned: BTreeSet<i64>,
}

impl AskedFlocks {
    fn get(&self, handle: Handle) -> Option<&AskedFlock> {
        self.by_handle.get(&handle)
    }

    fn get_mut(&mut self, handle: Handle) -> Option<&mut AskedFlock> {
        self.by_handle.get_mut(&handle)
    }

    /// Adds a request behind the others of its owner; but if it is started, as the unlock is that
    /// makes up for one which was given up, in front of them.
    fn insert(&mut self, handle: Handle, mut asked: AskedFlock) {
        asked.place = if asked.started { self.front() } else { self.back() };
        self.by_handle.insert(handle, asked);
        self.index(handle);
    }

    fn remove(&mut self, handle: Handle) -> Option<AskedFlock> {
        let asked = self.by_handle.remove(&handle)?;
        let requests = self.by_owner.entry(asked.owner()).or_default();
        requests.waiting.remove(&asked.place);
        requests.abandoned.remove(&asked.place);
        self.drop_if_empty(asked.owner());
        Some(asked)
    }

    /// The request is in flight.
    fn start(&mut self, handle: Handle) {
        if let Some(asked) = self.by_handle.get_mut(&handle) {
            asked.started = true;
            self.index(handle);
        }
    }

    /// The caller does not wait for the outcome any more.
    fn abandon(&mut self, handle: Handle) {
        if let Some(asked) = self.by_handle.get_mut(&handle) {
            asked.abandoned = true;
            self.index(handle);
        }
    }

    /// Has a request wait behind the others of its owner, who is returned, to be started again.
    /// None for an unlock: others may wait for that.
    fn move_back(&mut self, handle: Handle) -> Option<OwnerKey> {
        let asked = self.get(handle)?;
        if asked.args.mode == FlockMode::Unlock {
            return None;
        }
        let owner = asked.owner();
        let mut asked = self.remove(handle)?;
        asked.started = false;
        self.insert(handle, asked);
        Some(owner)
    }

    /// The next request of an owner that is to be started; none while one before it is abandoned.
    fn next_to_start(&self, owner: OwnerKey) -> Option<Handle> {
        let requests = self.by_owner.get(&owner)?;
        let (place, handle) = requests.waiting.first_key_value()?;
        let is_held_up = requests.abandoned.first().is_some_and(|abandoned| abandoned < place);
        (!is_held_up).then_some(*handle)
    }

    fn front(&mut self) -> i64 {
        self.places.0 -= 1;
        self.places.0
    }

    fn back(&mut self) -> i64 {
        self.places.1 += 1;
        self.places.1
    }

    /// Keeps what is known of the requests of an owner up to date with one of them.
    fn index(&mut self, handle: Handle) {
        let Some(asked) = self.by_handle.get(&handle) else { return };
        let (owner, place) = (asked.owner(), asked.place);
        let requests = self.by_owner.entry(owner).or_default();
        match (asked.started, asked.abandoned) {
            (false, _) => {
                requests.waiting.insert(place, handle);
            }
            (true, false) => {
                requests.waiting.remove(&place);
            }
            (true, true) => {
                requests.waiting.remove(&place);
                requests.abandoned.insert(place);
            }
        }
        self.drop_if_empty(owner);
    }

    fn drop_if_empty(&mut self, owner: OwnerKey) {
        let requests = self.by_owner.get(&owner);
        if requests.is_some_and(|it| it.waiting.is_empty() && it.abandoned.is_empty()) {
            self.by_owner.remove(&owner);
        }
    }

    /// Whether nothing is asked for.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_handle.is_empty() && self.by_owner.is_empty()
    }
}

impl AskedFlock {
    /// One for root that waits for others, and for earlier requests of its owner.
    fn new(fid: Fid, args: FlockArgs, done: Done<()>) -> AskedFlock {
        AskedFlock {
            fid,
            args,
            wait: true,
            caller: Caller::ROOT,
            place: 0,
            only_if_held: false,
            started: false,
            given_up: false,
            abandoned: false,
            unanswered: true,
            dropped: false,
            done,
        }
    }

    fn owner(&self) -> OwnerKey {
        (self.fid, self.args.owner)
    }
}

impl FlockArgs {
    /// The last byte of a file that has no end.
    pub const END: u64 = i64::MAX as u64;

    fn desc(&self, fid: Fid) -> LockDesc {
        let range =
            Flock { start: self.start, end: self.end, owner: Handle(self.owner), pid: self.pid };
        LockDesc {
            kind: LockType::FLOCK,
            resource: Resource::of_flock(fid),
            req_mode: match self.mode {
                FlockMode::Read => LockMode::PR,
                FlockMode::Write => LockMode::PW,
                FlockMode::Unlock => LockMode::NL,
            },
            policy: Policy::Flock(range),
            ..LockDesc::default()
        }
    }
}

impl Client {
    /// Asks for a flock, or gives one up. If others have what it needs, it waits for them with
    /// `wait`, and fails with EAGAIN without. EDEADLK if they wait for its owner.
    ///
    /// The owner keeps it until it is unlocked, also over a restart of the server. An eviction ends
    /// it without notice. Requests of an owner are in flight side by side, but none overtakes one
    /// that was abandoned before; see [`Client::abandon_flock`].
    pub fn flock(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        args: FlockArgs,
        wait: bool,
        done: Done<()>,
    ) -> FlockKey {
        let asked = AskedFlock { caller, wait, ..AskedFlock::new(fid, args, done) };
        self.ask_flock(turn, asked)
    }

    fn ask_flock(&mut self, turn: &mut Turn<'_>, asked: AskedFlock) -> FlockKey {
        let handle = self.next_handle();
        let owner = asked.owner();
        self.flocks.insert(handle, asked);
        self.start_flocks(turn, owner);
        FlockKey(handle)
    }

    /// Starts the requests of an owner that may be started.
    fn start_flocks(&mut self, turn: &mut Turn<'_>, owner: OwnerKey) {
        self.flocks.ready.push_back(owner);
        // What is over at once comes back here; many of them must not fill the stack.
        if core::mem::replace(&mut self.flocks.starting, true) {
            return;
        }
        while let Some(owner) = self.flocks.ready.pop_front() {
            while let Some(handle) = self.flocks.next_to_start(owner) {
                self.start_asked(turn, handle);
            }
        }
        self.flocks.starting = false;
    }

    fn start_asked(&mut self, turn: &mut Turn<'_>, handle: Handle) {
        self.flocks.start(handle);
        let Some(asked) = self.flocks.get(handle) else { return };
        let (fid, owner) = (asked.fid, Handle(asked.args.owner));
        let only_if_held = asked.only_if_held;
        // A lock would have no user; but an unlock is due in any case.
        if asked.abandoned && asked.args.mode != FlockMode::Unlock {
            return self.flock_over(turn, handle, Err(ClientError::Errno(errno::EINTR)));
        }
        if only_if_held {
            let known = self.known_mdt_of(fid).and_then(Result::ok);
            let resource = Resource::of_flock(fid);
            let has = |import| self.locks.at(import).has_flocks(resource, owner);
            if !known.is_some_and(has) {
                return self.flock_over(turn, handle, Ok(()));
            }
        }
        self.start_flock(turn, handle);
    }

    /// The caller does not wait for the outcome of a request any more. The request stays in flight,
    /// and its owner gets the lock if it is granted; but one that may wait for others is given up,
    /// see [`Client::give_up_flock`]. Later requests of the owner on the file are not started
    /// before it is over, so that it does not undo them. A request that was not started yet is over
    /// with EINTR, at the latest when those before it are over; but an unlock is made.
    pub fn abandon_flock(&mut self, turn: &mut Turn<'_>, key: FlockKey) {
        self.flocks.abandon(key.0);
        let Some(asked) = self.flocks.get(key.0) else { return };
        if asked.wait && asked.args.mode != FlockMode::Unlock {
            self.give_up_flock(turn, key);
        }
    }

    fn start_flock(&mut self, turn: &mut Turn<'_>, handle: Handle) {
        let Some(asked) = self.flocks.get_mut(handle) else { return };
        (asked.unanswered, asked.dropped) = (true, false);
        let (fid, args, wait, caller) = (asked.fid, asked.args, asked.wait, asked.caller);
        let failed: Done<()> =
            Box::new(move |client, turn, outcome| client.flock_over(turn, handle, outcome));
        self.at_mdt_of(turn, fid, failed, move |client, turn, import, failed| {
            let given_up = client.flocks.get(handle).is_none_or(|asked| asked.given_up);
            if given_up {
                return failed(client, turn, Err(ClientError::Errno(errno::EINTR)));
            }
            let flags = if wait { LockFlags::empty() } else { LockFlags::BLOCK_NOWAIT };
            let lock = LockArgs { desc: args.desc(fid), flags, slot: SlotKind::Modify, caller };
            let then: Done<Granted> = Box::new(move |client, turn, granted| {
                client.flock_settled(turn, import, handle, granted);
            });
            client.enqueue(turn, import, handle, lock, then);
        });
    }

    /// Whether a flock that a callback has granted is not over yet: the server can get its enqueue
    /// once more, after a restart also long after it was granted, and takes it then for another
    /// one, which replaces what its owner has.
    pub(super) fn is_unanswered_flock(&self, handle: Handle) -> bool {
        self.flocks.get(handle).is_some_and(|asked| asked.unanswered)
    }

    /// A callback says that the server has dropped a flock. Returns whether its enqueue is not
    /// answered yet: then it is over only after that. An enqueue made anew before would have the
    /// same handle, and the reply to the old one would be taken for its reply.
    pub(super) fn flock_dropped(&mut self, handle: Handle) -> bool {
        let asked = self.flocks.get_mut(handle).filter(|asked| asked.unanswered);
        asked.map(|asked| asked.dropped = true).is_some()
    }

    /// The enqueue of a lock is answered. A callback can have granted or dropped it before.
    pub(super) fn flock_answered(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        handle: Handle,
    ) {
        let Some(asked) = self.flocks.get_mut(handle) else { return };
        let before = core::mem::replace(&mut asked.unanswered, false);
        if asked.dropped {
            return self.wake(turn, handle, Err(ClientError::Rpc(RpcError::Canceled)));
        }
        if before && self.locks.state(import, handle) == Some(LockState::Granted) {
            self.wake(turn, handle, Ok(Granted::default()));
        }
    }

    /// A flock was granted, or will not be.
    fn flock_settled(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        handle: Handle,
        granted: Outcome<Granted>,
    ) {
        let given_up = self.flocks.get(handle).is_none_or(|asked| asked.given_up);
        match granted {
            Ok(_) => {
                let spare = self.next_handle();
                self.locks.at(import).settle_flock(handle, spare);
                match given_up {
                    true => self.withdraw_flock(turn, import, handle),
                    false => self.flock_over(turn, handle, Ok(())),
                }
            }
            // Its owner unlocked the range, which ends what waits for it too.
            Err(ClientError::Rpc(RpcError::Canceled)) if !given_up => {
                match self.flocks.move_back(handle) {
                    Some(owner) => self.start_flocks(turn, owner),
                    None => self.start_flock(turn, handle),
                }
            }
            Err(_) if given_up => {
                self.flock_over(turn, handle, Err(ClientError::Errno(errno::EINTR)));
            }
            Err(error) => self.flock_over(turn, handle, Err(error)),
        }
    }

    fn flock_over(&mut self, turn: &mut Turn<'_>, handle: Handle, outcome: Outcome<()>) {
        if let Some(asked) = self.flocks.remove(handle) {
            let owner = asked.owner();
            (asked.done)(self, turn, outcome);
            self.start_flocks(turn, owner);
        }
    }

    /// The server says that a lock has to wait.
    pub(super) fn flock_waits(&mut self, turn: &mut Turn<'_>, import: ImportKey, handle: Handle) {
        if self.flocks.get(handle).is_some_and(|asked| asked.given_up) {
            self.withdraw_flock(turn, import, handle);
        }
    }

    /// Gives up a flock that is not granted. What was to be called when it is granted is called
    /// with EINTR when the server knows of it, or with what came before.
    pub fn give_up_flock(&mut self, turn: &mut Turn<'_>, key: FlockKey) {
        let FlockKey(handle) = key;
        let Some(asked) = self.flocks.get_mut(handle) else { return };
        if core::mem::replace(&mut asked.given_up, true) {
            return;
        }
        let (fid, started) = (asked.fid, asked.started);
        if !started {
            return self.flock_over(turn, handle, Err(ClientError::Errno(errno::EINTR)));
        }
        // Before the enqueue is answered, an unlock could overtake it.
        let Some(Ok(import)) = self.known_mdt_of(fid) else { return };
        if self.locks.state(import, handle) == Some(LockState::Waiting) {
            self.withdraw_flock(turn, import, handle);
        }
    }

    /// Unlocks the range of a flock that was given up, as kernel clients do.
    fn withdraw_flock(&mut self, turn: &mut Turn<'_>, import: ImportKey, handle: Handle) {
        let Some(asked) = self.flocks.get(handle) else { return };
        let (fid, args, caller) = (asked.fid, asked.args, asked.caller);
        let unlock = FlockArgs { mode: FlockMode::Unlock, ..args };
        let done: Done<()> = Box::new(move |client, turn, _| {
            // What is granted may be what its owner had before, which has been joined with it.
            if client.locks.state(import, handle) != Some(LockState::Granted) {
                client.locks.forget(import, handle);
            }
            client.flock_over(turn, handle, Err(ClientError::Errno(errno::EINTR)));
        });
        // It is a part of the request that was given up: it does not wait for that, but what came
        // later waits for both.
        let asked = AskedFlock::new(fid, unlock, done);
        let asked = AskedFlock { caller, started: true, abandoned: true, ..asked };
        let handle = self.next_handle();
        self.flocks.insert(handle, asked);
        self.start_flock(turn, handle);
    }

    /// Unlocks all that an owner has of a file, if it has anything there, after the requests of the
    /// owner that were abandoned.
    pub fn unlock_all(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        owner: u64,
        done: Done<()>,
    ) -> FlockKey {
        let mode = FlockMode::Unlock;
        let args = FlockArgs { mode, start: 0, end: FlockArgs::END, owner, pid: 0 };
        let asked = AskedFlock { caller, only_if_held: true, ..AskedFlock::new(fid, args, done) };
        self.ask_flock(turn, asked)
    }

    /// What stands in the way of a flock; none if it would be granted now. The owner is not told to
    /// other clients: it is 0.
    pub fn test_flock(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        args: FlockArgs,
        done: Done<Option<FlockArgs>>,
    ) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let handles = [client.next_handle()];
            let lock = LdlmRequest {
                flags: LockFlags::TEST_LOCK,
                count: 1,
                desc: args.desc(fid),
                handles: handles.as_slice().into(),
            };
            let mut call = CallArgs::from(Request::Enqueue(dlm::Lock { lock }));
            call.slot = SlotKind::Modify;
            call.caller = Some(caller);
            client.call_for(turn, import, call, done, |answer| {
                let reply = reply_of!(&answer.reply, Enqueue)?.reply;
                Ok(holder(&reply.desc))
            });
        });
    }
}

/// The flock that the answer to a test describes.
fn holder(desc: &LockDesc) -> Option<FlockArgs> {
    let mode = match desc.req_mode {
        LockMode::PR => FlockMode::Read,
        LockMode::PW => FlockMode::Write,
        _ => return None,
    };
    match desc.policy {
        Policy::Flock(Flock { start, end, pid, .. }) => {
            Some(FlockArgs { mode, start, end, owner: 0, pid })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The requests of an owner in their order, and whether each is started and abandoned.
    type Model = Vec<(Handle, bool, bool)>;

    fn next_of(model: &Model) -> Option<Handle> {
        for (handle, started, abandoned) in model {
            match (started, abandoned) {
                (false, _) => return Some(*handle),
                (true, true) => return None,
                (true, false) => {}
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// What is started next is what a plain list of the requests says.
        #[test]
        fn requests_of_an_owner_start_in_their_order(
            steps in prop::collection::vec((0..6, any::<prop::sample::Index>()), 1..60),
        ) {
            let args = FlockArgs { mode: FlockMode::Write, start: 0, end: 9, owner: 7, pid: 1 };
            let new = || AskedFlock::new(Fid::ROOT, args, Box::new(|_, _, _| {}));
            let owner = new().owner();
            let mut flocks = AskedFlocks::default();
            let mut model = Model::new();
            for (number, (step, index)) in (1..).zip(steps) {
                let at = (!model.is_empty()).then(|| index.index(model.len()));
                match (step, at) {
                    (0, _) => {
                        flocks.insert(Handle(number), new());
                        model.push((Handle(number), false, false));
                    }
                    (1, _) => {
                        let in_front = AskedFlock { started: true, abandoned: true, ..new() };
                        flocks.insert(Handle(number), in_front);
                        model.insert(0, (Handle(number), true, true));
                    }
                    (2, _) => {
                        if let Some(handle) = next_of(&model) {
                            flocks.start(handle);
                            let request = model.iter_mut().find(|(other, ..)| *other == handle);
                            request.expect("it is in the list").1 = true;
                        }
                    }
                    (3, Some(at)) => {
                        flocks.abandon(model[at].0);
                        model[at].2 = true;
                    }
                    (4, Some(at)) => {
                        prop_assert!(flocks.remove(model.remove(at).0).is_some());
                    }
                    (5, Some(at)) if model[at].1 => {
                        let (handle, _, abandoned) = model.remove(at);
                        prop_assert_eq!(flocks.move_back(handle), Some(owner));
                        model.push((handle, false, abandoned));
                    }
                    _ => {}
                }
                prop_assert_eq!(flocks.next_to_start(owner), next_of(&model));
            }
            for (handle, ..) in model {
                flocks.remove(handle);
            }
            prop_assert!(flocks.is_empty());
        }
    }
}
