//! Flocks: what is asked for, what the server may answer and call back, in which order.

use lustrine_fswire::body::BodyFlags;
use lustrine_fswire::ldlm::{
    Flock, LdlmReply, LdlmRequest, LockDesc, LockFlags, LockMode, LockType, Policy,
};
use lustrine_fswire::rpc::{Lvb, dlm};

use super::*;
use crate::client::{FlockArgs, FlockKey, FlockMode};
use crate::error::{ClientError, errno};

const WRITE: FlockArgs =
    FlockArgs { mode: FlockMode::Write, start: 10, end: 29, owner: 7, pid: 99 };
const UNLOCK: FlockArgs = FlockArgs { mode: FlockMode::Unlock, ..WRITE };
/// A handle of the server.
const REMOTE: Handle = Handle(0x99);

impl World {
    fn lock(&mut self, args: FlockArgs, wait: bool) -> (Slot<()>, FlockKey) {
        let (slot, done) = Slot::new();
        let key = self.act(|client, turn| {
            let key = client.flock(turn, Caller::ROOT, FILE, args, wait, done);
            client.settle(turn);
            key
        });
        (slot, key)
    }

    /// The next enqueue: its flags, its lock, its handle.
    fn enqueue(&mut self) -> (Asked, LockFlags, LockDesc, Handle) {
        let asked = self.next(Kind::Enqueue);
        let (flags, desc, handle) = asked.with(|request| match request {
            Request::Enqueue(dlm::Lock { lock }) => (lock.flags, lock.desc, lock.handle(0)),
            other => panic!("{other:?}"),
        });
        (asked, flags, desc, handle.expect("a handle"))
    }

    /// Answers an enqueue. Without a mode the lock has to wait.
    fn grant(&mut self, asked: &Asked, desc: LockDesc, mode: LockMode) {
        let mut flags = LockFlags::empty();
        flags.set(LockFlags::BLOCK_GRANTED, mode == LockMode::NONE);
        let desc = LockDesc { granted_mode: mode, ..desc };
        let reply = LdlmReply { flags, desc, handle: REMOTE, ..LdlmReply::default() };
        let reply = dlm::EnqueueReply { reply, lvb: None };
        self.answer(asked, 0, &ReplyBuffers::Enqueue(reply));
    }

    /// The server calls back: the lock is granted in a mode, or given up without one.
    fn complete(&mut self, handle: Handle, desc: LockDesc, mode: LockMode, flags: LockFlags) {
        let import = self.client.mdts[&0];
        let handles = [handle, REMOTE];
        let lock = LdlmRequest {
            flags,
            count: 0,
            desc: LockDesc { granted_mode: mode, ..desc },
            handles: handles.as_slice().into(),
        };
        let request = Request::LdlmCpCallback(dlm::Completion { lock, lvb: Lvb(&[]) });
        self.send_callback(import, &request);
    }

    /// Ranges of the flocks that the client has, in order.
    fn held(&mut self) -> Vec<(u64, u64)> {
        let mdt = self.client.mdts[&0];
        let ranges = self.client.locks.at(mdt).iter().map(|(_, lock)| match lock.desc.policy {
            Policy::Flock(flock) => (flock.start, flock.end),
            other => panic!("{other:?}"),
        });
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable();
        ranges
    }
}

#[test]
fn a_flock_is_asked_for_as_kernel_clients_do() {
    let mut world = World::new();
    let (slot, _) = world.lock(WRITE, true);
    let (asked, flags, desc, _) = world.enqueue();
    assert_eq!(
        (flags, desc.kind, desc.req_mode),
        (LockFlags::empty(), LockType::FLOCK, LockMode::PW)
    );
    assert_eq!(desc.resource.0, [FILE.seq, u64::from(FILE.oid), 0, 12]);
    let range = Flock { start: 10, end: 29, owner: Handle(7), pid: 99 };
    assert_eq!(desc.policy, Policy::Flock(range));
    assert!(asked.body.tag != 0, "it takes a slot of changes");
    world.grant(&asked, desc, LockMode::PW);
    slot.outcome().expect("it is granted");
    assert_eq!(world.held(), [(10, 29)]);
    // Unlocking a part leaves the rest.
    let (slot, _) = world.lock(FlockArgs { start: 15, end: 19, ..UNLOCK }, true);
    let (asked, _, desc, _) = world.enqueue();
    assert_eq!(desc.req_mode, LockMode::NL);
    world.grant(&asked, desc, LockMode::NL);
    slot.outcome().expect("it is unlocked");
    assert_eq!(world.held(), [(10, 14), (20, 29)]);
}

#[test]
fn a_flock_that_must_not_wait_fails() {
    let mut world = World::new();
    let (slot, _) = world.lock(WRITE, false);
    let (asked, flags, ..) = world.enqueue();
    assert_eq!(flags, LockFlags::BLOCK_NOWAIT);
    world.answer(&asked, -errno::EAGAIN, &ReplyBuffers::Bare);
    assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EAGAIN)));
    assert_eq!(world.held(), []);
}

#[test]
fn a_flock_waits_for_the_callback() {
    let mut world = World::new();
    let (slot, _) = world.lock(WRITE, true);
    let (asked, _, desc, handle) = world.enqueue();
    world.grant(&asked, desc, LockMode::NONE);
    assert!(slot.is_pending());
    world.complete(handle, desc, LockMode::PW, LockFlags::empty());
    slot.outcome().expect("it is granted");
    assert_eq!(world.callbacks.pop_front(), Some(0));
    // The handle is another lock's.
    world.complete(Handle(1), desc, LockMode::PW, LockFlags::empty());
    assert_eq!(world.callbacks.pop_front(), Some(-errno::EINVAL));
}

/// The operation is over when both are there: an enqueue whose reply is lost comes to a restarted
/// server later, and must not come after the unlock.
#[test]
fn a_callback_can_be_faster_than_the_reply() {
    let mut world = World::new();
    let (slot, _) = world.lock(WRITE, true);
    let (asked, _, desc, handle) = world.enqueue();
    world.complete(handle, desc, LockMode::PW, LockFlags::empty());
    assert!(slot.is_pending());
    world.grant(&asked, desc, LockMode::NONE);
    slot.outcome().expect("it is granted");
    assert_eq!(world.held(), [(10, 29)]);
}

#[test]
fn a_deadlock_ends_the_wait() {
    let mut world = World::new();
    let (slot, _) = world.lock(WRITE, true);
    let (asked, _, desc, handle) = world.enqueue();
    world.grant(&asked, desc, LockMode::NONE);
    world.complete(handle, desc, LockMode::NONE, LockFlags::FLOCK_DEADLOCK);
    assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EDEADLK)));
    assert_eq!((world.callbacks.pop_front(), world.held()), (Some(0), vec![]));
}

/// Another thread of the owner has unlocked the range, which takes what waits for it away too.
#[test]
fn a_flock_that_the_server_drops_is_asked_for_again() {
    let mut world = World::new();
    let (slot, _) = world.lock(WRITE, true);
    let (asked, _, desc, handle) = world.enqueue();
    world.grant(&asked, desc, LockMode::NONE);
    world.complete(handle, desc, LockMode::NONE, LockFlags::empty());
    let (asked, ..) = world.enqueue();
    world.grant(&asked, desc, LockMode::PW);
    slot.outcome().expect("it is granted");
    assert_eq!(world.held(), [(10, 29)]);
}

/// An enqueue that is made anew has the handle of the first: its reply must not be mixed up with
/// the first one's.
#[test]
fn a_flock_that_is_dropped_before_the_reply_is_asked_for_again_after_it() {
    for given_up in [false, true] {
        let mut world = World::new();
        let (slot, key) = world.lock(WRITE, true);
        let (asked, _, desc, handle) = world.enqueue();
        world.complete(handle, desc, LockMode::NONE, LockFlags::empty());
        assert_eq!(world.callbacks.pop_front(), Some(0));
        assert!(slot.is_pending() && world.asked.is_empty());
        if given_up {
            world.act(|client, turn| client.give_up_flock(turn, key));
        }
        world.grant(&asked, desc, LockMode::NONE);
        // The reply can be one of a restarted server, which has the lock once more.
        let cancel = world.next(Kind::LdlmCancel);
        world.answer(&cancel, 0, &ReplyBuffers::Bare);
        if given_up {
            assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EINTR)));
        } else {
            let (asked, _, desc, _) = world.enqueue();
            world.grant(&asked, desc, LockMode::PW);
            slot.outcome().expect("it is granted");
            assert_eq!(world.held(), [(10, 29)]);
        }
        assert!(world.asked.is_empty() && world.client.flocks.is_empty());
    }
}

#[test]
fn a_flock_that_is_given_up_is_unlocked_at_the_server() {
    // Before the enqueue is answered, while it waits, and when it was granted meanwhile.
    for case in 0..3 {
        let mut world = World::new();
        let (slot, key) = world.lock(WRITE, true);
        let (asked, _, desc, handle) = world.enqueue();
        let give_up = |world: &mut World| {
            world.act(|client, turn| {
                client.give_up_flock(turn, key);
                client.give_up_flock(turn, key);
                client.settle(turn);
            });
        };
        if case == 0 {
            give_up(&mut world);
            assert!(world.asked.is_empty(), "an unlock could overtake the enqueue");
        }
        world.grant(&asked, desc, LockMode::NONE);
        if case > 0 {
            give_up(&mut world);
        }
        let (unlock, _, asked, _) = world.enqueue();
        assert_eq!((asked.req_mode, asked.policy), (LockMode::NL, desc.policy));
        assert!(slot.is_pending());
        if case == 2 {
            world.complete(handle, desc, LockMode::PW, LockFlags::empty());
            // What was granted is unlocked once more, after the callback.
            let (again, ..) = world.enqueue();
            world.grant(&again, asked, LockMode::NL);
        }
        world.grant(&unlock, asked, LockMode::NL);
        assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EINTR)), "case {case}");
        assert_eq!(world.held(), []);
        // The server's last word about it.
        world.complete(handle, desc, LockMode::NONE, LockFlags::empty());
        assert!(world.asked.is_empty() && world.client.flocks.is_empty());
    }
}

/// The server joins what is granted with what the owner has beside it.
#[test]
fn what_an_owner_had_before_survives_a_flock_that_is_given_up() {
    let mut world = World::new();
    let (before, _) = world.lock(FlockArgs { start: 0, end: 9, ..WRITE }, false);
    let (asked, _, desc, _) = world.enqueue();
    world.grant(&asked, desc, LockMode::PW);
    before.outcome().expect("it is granted");
    let (slot, key) = world.lock(WRITE, true);
    let (asked, _, desc, _) = world.enqueue();
    world.abandon(key);
    let close = world.close(WRITE.owner);
    world.grant(&asked, desc, LockMode::PW);
    assert_eq!(world.held(), [(0, 29), (10, 29)], "the unlock is on its way");
    let (unlock, _, desc, _) = world.enqueue();
    world.grant(&unlock, desc, LockMode::NL);
    assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EINTR)));
    assert_eq!(world.held()[0], (0, 9));
    // So there is something to unlock.
    let (all, _, desc, _) = world.enqueue();
    world.grant(&all, desc, LockMode::NL);
    close.outcome().expect("it is unlocked");
    assert!(world.held().is_empty() && world.client.flocks.is_empty());
}

impl World {
    fn abandon(&mut self, key: FlockKey) {
        self.act(|client, turn| {
            client.abandon_flock(turn, key);
            client.settle(turn);
        });
    }

    fn close(&mut self, owner: u64) -> Slot<()> {
        self.start(|client, turn, done| {
            client.unlock_all(turn, Caller::ROOT, FILE, owner, done);
        })
    }
}

/// Otherwise an unlock could come to the server before a lock that was asked for earlier.
#[test]
fn a_request_that_was_abandoned_is_not_overtaken_by_its_owner() {
    let mut world = World::new();
    let (lock, key) = world.lock(WRITE, false);
    let (asked, _, desc, _) = world.enqueue();
    let (before, _) = world.lock(FlockArgs { start: 50, end: 59, ..WRITE }, false);
    let (other, _, other_desc, _) = world.enqueue();
    world.abandon(key);
    let (unlock, _) = world.lock(UNLOCK, true);
    assert!(world.asked.is_empty());
    // Another owner, and another range that was asked for before, do not wait.
    let (_, _) = world.lock(FlockArgs { owner: 8, start: 90, end: 99, ..WRITE }, false);
    let (third, _, third_desc, _) = world.enqueue();
    world.grant(&third, third_desc, LockMode::PW);
    world.grant(&other, other_desc, LockMode::PW);
    before.outcome().expect("it is granted");
    assert!(world.asked.is_empty() && unlock.is_pending());
    world.grant(&asked, desc, LockMode::PW);
    lock.outcome().expect("it is granted");
    let (asked, _, desc, _) = world.enqueue();
    assert_eq!(desc.req_mode, LockMode::NL);
    world.grant(&asked, desc, LockMode::NL);
    unlock.outcome().expect("it is unlocked");
    assert_eq!(world.held(), [(50, 59), (90, 99)]);
    assert!(world.client.flocks.is_empty());
}

#[test]
fn what_waits_for_an_abandoned_request_and_is_abandoned_too_is_not_asked_for() {
    let mut world = World::new();
    let (first, key) = world.lock(WRITE, false);
    let (asked, _, desc, _) = world.enqueue();
    world.abandon(key);
    // So many must not fill the stack.
    let later: Vec<_> = (0..20_000).map(|at| world.lock(WRITE, at % 2 == 0)).collect();
    later.iter().for_each(|(_, key)| world.abandon(*key));
    let close = world.close(WRITE.owner);
    assert!(world.asked.is_empty() && close.is_pending());
    world.grant(&asked, desc, LockMode::PW);
    first.outcome().expect("it is granted");
    for (slot, _) in later {
        assert_eq!(slot.outcome(), Err(ClientError::Errno(errno::EINTR)));
    }
    // But the unlock is made, now that there is something to unlock.
    let (asked, _, desc, _) = world.enqueue();
    assert_eq!(desc.req_mode, LockMode::NL);
    world.grant(&asked, desc, LockMode::NL);
    close.outcome().expect("it is unlocked");
    assert!(world.held().is_empty() && world.client.flocks.is_empty());
}

#[test]
fn a_close_behind_an_abandoned_request_that_fails_asks_for_nothing() {
    let mut world = World::new();
    let (first, key) = world.lock(WRITE, false);
    let (asked, ..) = world.enqueue();
    world.abandon(key);
    let close = world.close(WRITE.owner);
    assert!(close.is_pending());
    world.answer(&asked, -errno::EAGAIN, &ReplyBuffers::Bare);
    assert_eq!(first.outcome(), Err(ClientError::Errno(errno::EAGAIN)));
    close.outcome().expect("there is nothing to do");
    assert!(world.asked.is_empty() && world.client.flocks.is_empty());
}

/// Otherwise its owner would wait for the others as well, for whatever it asks.
#[test]
fn an_abandoned_request_that_waits_for_others_is_given_up() {
    let mut world = World::new();
    let (first, key) = world.lock(WRITE, true);
    let (asked, _, desc, handle) = world.enqueue();
    world.grant(&asked, desc, LockMode::NONE);
    world.abandon(key);
    let (later, _) = world.lock(WRITE, false);
    let (undo, _, undo_desc, _) = world.enqueue();
    assert_eq!(undo_desc.req_mode, LockMode::NL);
    // It is granted before the server knows: what was granted is unlocked once more.
    world.complete(handle, desc, LockMode::PW, LockFlags::empty());
    let (again, ..) = world.enqueue();
    world.grant(&undo, undo_desc, LockMode::NL);
    assert_eq!(first.outcome(), Err(ClientError::Errno(errno::EINTR)));
    assert!(world.asked.is_empty(), "the second unlock would undo the later request");
    world.grant(&again, undo_desc, LockMode::NL);
    let (asked, _, desc, _) = world.enqueue();
    world.grant(&asked, desc, LockMode::PW);
    later.outcome().expect("it is granted");
    assert_eq!(world.held(), [(10, 29)]);
    assert!(world.client.flocks.is_empty());
}

#[test]
fn what_an_owner_has_is_unlocked_when_it_closes_the_file() {
    let mut world = World::new();
    world.close(WRITE.owner).outcome().expect("there is nothing to do");
    assert!(world.asked.is_empty());
    let (_, _) = world.lock(WRITE, true);
    let (asked, _, desc, _) = world.enqueue();
    world.grant(&asked, desc, LockMode::PW);
    let slot = world.close(WRITE.owner);
    let (asked, _, desc, _) = world.enqueue();
    let Policy::Flock(range) = desc.policy else { panic!() };
    assert_eq!((desc.req_mode, range.start, range.end), (LockMode::NL, 0, i64::MAX as u64));
    world.grant(&asked, desc, LockMode::NL);
    slot.outcome().expect("it is unlocked");
    assert_eq!(world.held(), []);
}

#[test]
fn a_test_says_what_stands_in_the_way() {
    let mut world = World::new();
    let test = |world: &mut World| {
        world.start(|client, turn, done| {
            client.test_flock(turn, Caller::ROOT, FILE, WRITE, done);
        })
    };
    for (mode, found) in [(LockMode::NL, None), (LockMode::PR, Some(FlockMode::Read))] {
        let slot = test(&mut world);
        let (asked, flags, desc, _) = world.enqueue();
        assert_eq!(flags, LockFlags::TEST_LOCK);
        let policy = Policy::Flock(Flock { start: 5, end: 12, owner: Handle(7), pid: 4 });
        let desc = LockDesc { req_mode: mode, policy, ..desc };
        let reply = LdlmReply { flags, desc, ..LdlmReply::default() };
        let reply = dlm::EnqueueReply { reply, lvb: None };
        world.answer(&asked, 0, &ReplyBuffers::Enqueue(reply));
        let expected = found.map(|mode| FlockArgs { mode, start: 5, end: 12, owner: 0, pid: 4 });
        assert_eq!(slot.outcome(), Ok(expected));
        assert_eq!(world.held(), []);
    }
}

#[test]
fn a_server_that_restarts_gets_the_locks_again() {
    let mut world = World::new();
    for start in [0, 100] {
        let (_, _) = world.lock(FlockArgs { start, end: start + 9, ..WRITE }, true);
        let (asked, _, desc, _) = world.enqueue();
        world.grant(&asked, desc, LockMode::PW);
    }
    let (waits, _) = world.lock(FlockArgs { start: 200, end: 209, ..WRITE }, true);
    let (asked, _, desc, _) = world.enqueue();
    world.grant(&asked, desc, LockMode::NONE);
    // The server has restarted.
    world.recovering = true;
    let slot: Slot<()> = world.start(|client, turn, done| {
        client.sync(turn, Caller::ROOT, FILE, done);
    });
    world.refuse(Kind::MdsSync, errno::ENOTCONN);
    // The second one is not taken, also when the recovery has begun anew: it is lost. The one that
    // waited is granted.
    for round in 0..4 {
        let asked = world.next(Kind::MdsConnect);
        let granted = obd::ConnectReply { data: offers::of(Target::Mdt, false, false) };
        world.answer(&asked, 0, &ReplyBuffers::MdsConnect(granted));
        let mut replays: Vec<_> = (0..3).map(|_| world.enqueue()).collect();
        replays.sort_by_key(|(_, _, desc, _)| match desc.policy {
            Policy::Flock(flock) => flock.start,
            _ => panic!(),
        });
        let replay = LockFlags::REPLAY;
        for (at, (asked, flags, desc, _)) in replays.iter().enumerate() {
            let (state, mode) = match at {
                2 => (LockFlags::BLOCK_WAIT, LockMode::NONE),
                _ => (LockFlags::BLOCK_GRANTED, LockMode::PW),
            };
            assert_eq!((*flags, desc.granted_mode), (replay | state, mode));
            assert!(asked.body.flags.contains(BodyFlags::REQ_REPLAY_DONE));
        }
        assert!(world.asked.is_empty(), "the final ping comes after the last replay");
        world.grant(&replays[0].0, replays[0].2, LockMode::PW);
        world.answer(&replays[1].0, -errno::EIO, &ReplyBuffers::Bare);
        match round {
            3 => world.grant(&replays[2].0, replays[2].2, LockMode::PW),
            _ => world.pass(Nanos::from_secs(5)),
        }
    }
    waits.outcome().expect("it is granted");
    assert_eq!(world.held(), [(0, 9), (200, 209)]);
    let ping = world.next(Kind::ObdPing);
    assert!(ping.body.flags.contains(BodyFlags::LOCK_REPLAY_DONE));
    world.answer(&ping, 0, &ReplyBuffers::Bare);
    let sync = world.next(Kind::MdsSync);
    world.answer(&sync, -errno::EIO, &ReplyBuffers::Bare);
    assert!(slot.outcome().is_err());
}

#[test]
fn an_unmount_ends_what_waits() {
    let mut world = World::new();
    let (slot, _) = world.lock(WRITE, true);
    let (asked, _, desc, _) = world.enqueue();
    world.grant(&asked, desc, LockMode::NONE);
    world.act(|client, turn| client.unmount(turn, Box::new(|_, _, _| {})));
    assert!(slot.outcome().is_err());
    let (slot, _) = world.lock(WRITE, true);
    assert!(slot.outcome().is_err());
}

/// [LOCK-17]: the replay is on its way when the client gives the lock back by its old handle.
#[test]
fn a_lock_that_is_given_back_while_it_is_replayed_is_given_back_again() {
    let mut world = World::new();
    let (_, _) = world.lock(WRITE, true);
    let (asked, _, desc, handle) = world.enqueue();
    world.grant(&asked, desc, LockMode::PW);
    world.recovering = true;
    let _: Slot<()> = world.start(|client, turn, done| {
        client.sync(turn, Caller::ROOT, FILE, done);
    });
    world.refuse(Kind::MdsSync, errno::ENOTCONN);
    let asked = world.next(Kind::MdsConnect);
    let granted = obd::ConnectReply { data: offers::of(Target::Mdt, false, false) };
    world.answer(&asked, 0, &ReplyBuffers::MdsConnect(granted));
    let (asked, _, desc, _) = world.enqueue();
    let mdt = world.client.mdts[&0];
    world.act(|client, turn| client.cancel_lock(turn, mdt, handle));
    let desc = LockDesc { granted_mode: LockMode::PW, ..desc };
    let reply = LdlmReply { desc, handle: Handle(0x77), ..LdlmReply::default() };
    let reply = dlm::EnqueueReply { reply, lvb: None };
    world.answer(&asked, 0, &ReplyBuffers::Enqueue(reply));
    let ping = world.next(Kind::ObdPing);
    world.answer(&ping, 0, &ReplyBuffers::Bare);
    world.next(Kind::MdsSync);
    for remote in [REMOTE, Handle(0x77)] {
        let asked = world.next(Kind::LdlmCancel);
        let named = asked.with(|request| match request {
            Request::LdlmCancel(dlm::Lock { lock }) => lock.handle(0),
            other => panic!("{other:?}"),
        });
        assert_eq!(named, Some(remote));
        world.answer(&asked, 0, &ReplyBuffers::Bare);
    }
    assert!(world.asked.is_empty() && world.held().is_empty());
}
