use lustrine_fswire::fid::Fid;
use lustrine_fswire::ldlm::{Extent, Flock};

use super::*;

const A: Handle = Handle(0xa);
const B: Handle = Handle(0xb);
const C: Handle = Handle(0xc);
const FID: Fid = Fid::new(0x2_0000_0401, 5);
/// How long clients may take.
const PATIENCE: u64 = 100;

struct World {
    server: LockServer,
    handles: u64,
    now: u64,
}

impl World {
    fn new() -> World {
        World { server: LockServer::new(1, PATIENCE), handles: 0, now: 0 }
    }

    fn ask(
        &mut self,
        client: Handle,
        desc: LockDesc,
        flags: LockFlags,
    ) -> Result<(Handle, Enqueued), i32> {
        self.handles += 1;
        let client_handle = Handle(self.handles);
        let holder = Holder::Client(client);
        let args = EnqueueArgs { holder, client_handle, desc, flags, finds_deadlocks: true };
        self.server.enqueue(self.now, args).map(|enqueued| (client_handle, enqueued))
    }

    fn get(&mut self, client: Handle, desc: LockDesc) -> Enqueued {
        self.ask(client, desc, LockFlags::empty()).expect("no error").1
    }

    /// The clients that are asked to give a lock back.
    fn blocked(&mut self) -> Vec<(Handle, Handle)> {
        let mut blocked = Vec::new();
        while let Some(event) = self.server.next_event() {
            match event {
                LockEvent::Blocking { client, handle, .. } => blocked.push((client, handle)),
                other => panic!("{other:?}"),
            }
        }
        blocked
    }

    fn events(&mut self) -> Vec<LockEvent> {
        core::iter::from_fn(|| self.server.next_event()).collect()
    }
}

fn extent(mode: LockMode, start: u64, end: u64) -> LockDesc {
    LockDesc {
        kind: LockType::EXTENT,
        resource: Resource::of_object(FID),
        req_mode: mode,
        policy: Policy::Extent(Extent { start, end, gid: 0 }),
        ..LockDesc::default()
    }
}

fn bits(mode: LockMode, bits: Ibits) -> LockDesc {
    LockDesc {
        kind: LockType::IBITS,
        resource: Resource::of_fid(FID),
        req_mode: mode,
        policy: Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() }),
        ..LockDesc::default()
    }
}

fn flock(mode: LockMode, owner: u64, start: u64, end: u64) -> LockDesc {
    LockDesc {
        kind: LockType::FLOCK,
        resource: Resource::of_flock(FID),
        req_mode: mode,
        policy: Policy::Flock(Flock { start, end, owner: Handle(owner), pid: 1 }),
        ..LockDesc::default()
    }
}

fn range_of(desc: &LockDesc) -> (u64, u64) {
    match desc.policy {
        Policy::Extent(extent) => (extent.start, extent.end),
        Policy::Flock(flock) => (flock.start, flock.end),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_extent_grows_to_what_nobody_else_has() {
    let mut world = World::new();
    let first = world.get(A, extent(LockMode::PW, 4096, 8191));
    assert_eq!(range_of(&first.desc), (0, u64::MAX));
    assert!(first.flags.contains(LockFlags::LOCK_CHANGED) && first.is_granted());
    // Another one waits until that is given back.
    let second = world.get(B, extent(LockMode::PR, 0, 4095));
    assert!(second.flags.contains(LockFlags::BLOCK_GRANTED | LockFlags::NO_TIMEOUT));
    assert_eq!(world.blocked(), [(A, first.handle)]);
    let asked = extent(LockMode::PW, 1 << 20, (1 << 20) + 4095);
    let third = world.get(A, asked);
    assert!(!third.is_granted());
    assert!(world.server.cancel(0, A, [first.handle]));
    let granted: Vec<Handle> = world
        .events()
        .into_iter()
        .map(|event| match event {
            LockEvent::Granted { handle, .. } => handle,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(granted, [second.handle, third.handle]);
    let range = |world: &World, handle| range_of(&world.server.get(handle).unwrap().desc);
    assert_eq!(range(&world, second.handle), (0, (1 << 20) - 1));
    assert_eq!(range(&world, third.handle), (1 << 20, u64::MAX));
    // Exactly what was asked, if that is wanted.
    let exact = world.ask(C, extent(LockMode::PR, 10, 19), LockFlags::NO_EXPANSION).unwrap().1;
    assert_eq!(range_of(&exact.desc), (10, 19));
}

/// The end of what others have is the last page of all.
#[test]
fn an_extent_at_the_end_of_everything_is_not_more_than_was_asked() {
    let mut world = World::new();
    let near = u64::MAX - 4095;
    let first = world.ask(A, extent(LockMode::PW, 0, near), LockFlags::NO_EXPANSION).unwrap().1;
    let second = world.get(B, extent(LockMode::PW, near + 1, u64::MAX));
    assert!(first.is_granted() && second.is_granted());
    assert_eq!(range_of(&second.desc), (near + 1, u64::MAX));
}

#[test]
fn who_asks_first_gets_it_first() {
    let mut world = World::new();
    let reader = world.get(A, extent(LockMode::PR, 0, 99));
    let writer = world.get(B, extent(LockMode::PW, 0, 99));
    // Another reader would go well with the first one, and waits behind the writer.
    let late = world.get(C, extent(LockMode::PR, 0, 99));
    assert!(reader.is_granted() && !writer.is_granted() && !late.is_granted());
    assert_eq!(world.blocked(), [(A, reader.handle)]);
    world.server.cancel(0, A, [reader.handle]);
    // The grant says that somebody waits for it: no callback follows.
    let expected = LockEvent::Granted { handle: writer.handle, wanted: true };
    assert_eq!(world.events(), [expected]);
    world.server.cancel(0, B, [writer.handle]);
    assert_eq!(world.events(), [LockEvent::Granted { handle: late.handle, wanted: false }]);
}

/// A lock that was in use once would otherwise never be called back.
#[test]
fn a_lock_that_is_used_and_not_wanted_gets_no_deadline() {
    let mut world = World::new();
    let held = world.get(A, extent(LockMode::PW, 0, 4095));
    world.server.refresh(50, held.handle);
    assert!(!world.get(B, extent(LockMode::PR, 0, 4095)).is_granted());
    assert_eq!(world.blocked(), [(A, held.handle)]);
}

#[test]
fn a_client_that_does_not_give_back_is_overdue() {
    let mut world = World::new();
    let held = world.get(A, bits(LockMode::PR, Ibits::UPDATE));
    world.now = 10;
    world.get(B, bits(LockMode::EX, Ibits::UPDATE));
    assert_eq!(world.blocked(), [(A, held.handle)]);
    assert_eq!(world.server.next_deadline(), Some(10 + PATIENCE));
    // It writes under the lock meanwhile.
    world.server.refresh(50, held.handle);
    world.server.drive(10 + PATIENCE);
    assert_eq!(world.events(), []);
    world.server.drive(50 + PATIENCE);
    assert_eq!(world.events(), [LockEvent::Overdue { client: A }]);
    world.server.remove_client(0, A);
    assert!(matches!(world.events()[..], [LockEvent::Granted { .. }]));
    assert_eq!((world.server.len(), world.server.next_deadline()), (1, None));
}

#[test]
fn bits_are_tried_beside_those_of_others() {
    let mut world = World::new();
    world.get(A, bits(LockMode::EX, Ibits::LAYOUT));
    let wanted = Ibits::LOOKUP | Ibits::LAYOUT;
    let resource = Resource::of_fid(FID);
    let given = world.server.try_bits((B, Handle(77)), resource, (LockMode::PR, wanted)).unwrap();
    assert_eq!(given.desc.policy.ibits(), Some(Ibits::LOOKUP));
    assert!(
        world.server.try_bits((C, Handle(78)), resource, (LockMode::PR, Ibits::LAYOUT)).is_none()
    );
    // Some are given back, and the rest stays.
    let both = bits(LockMode::PR, Ibits::UPDATE | Ibits::PERM);
    let both = world.get(C, both);
    assert_eq!(world.server.convert(0, (C, both.handle), Ibits::LAYOUT).err(), Some(errno::EPROTO));
    world.server.convert(0, (C, both.handle), Ibits::PERM).unwrap();
    assert!(world.get(A, bits(LockMode::EX, Ibits::UPDATE)).is_granted());
}

#[test]
fn a_lock_of_the_server_becomes_one_of_a_client() {
    let mut world = World::new();
    let args = EnqueueArgs {
        holder: Holder::Server(5),
        client_handle: Handle::NONE,
        desc: bits(LockMode::EX, Ibits::LAYOUT),
        flags: LockFlags::empty(),
        finds_deadlocks: false,
    };
    let own = world.server.enqueue(0, args).unwrap();
    let waits = world.get(B, bits(LockMode::CR, Ibits::LAYOUT));
    assert!(!waits.is_granted());
    let client = (A, Handle(900));
    let given = world.server.give(0, own.handle, client, (LockMode::CR, Ibits::LAYOUT)).unwrap();
    assert!(given.flags.contains(LockFlags::LOCK_CHANGED) && given.is_granted());
    assert_eq!(world.events(), [LockEvent::Granted { handle: waits.handle, wanted: false }]);
    assert_eq!(world.server.of_client(A, Handle(900)), Some(own.handle));
}

#[test]
fn the_same_enqueue_again_is_the_same_lock() {
    let mut world = World::new();
    let (client_handle, first) =
        world.ask(A, extent(LockMode::PR, 0, 9), LockFlags::empty()).unwrap();
    let args = EnqueueArgs {
        holder: Holder::Client(A),
        client_handle,
        desc: extent(LockMode::PR, 0, 9),
        flags: LockFlags::empty(),
        finds_deadlocks: false,
    };
    let again = world.server.enqueue(0, args).unwrap();
    assert_eq!((again.handle, world.server.len()), (first.handle, 1));
}

#[test]
fn what_no_client_may_ask_is_refused() {
    let mut world = World::new();
    let mut refused = |desc| world.ask(A, desc, LockFlags::empty()).unwrap_err();
    assert_eq!(refused(bits(LockMode::PR, Ibits::empty())), errno::EPROTO);
    assert_eq!(refused(bits(LockMode(0x3), Ibits::LOOKUP)), errno::EFAULT);
    assert_eq!(refused(bits(LockMode::GROUP, Ibits::LOOKUP)), errno::EPROTO);
    assert_eq!(refused(extent(LockMode::PR, 5, 4)), errno::EPROTO);
    assert_eq!(refused(flock(LockMode::PR, 1, 5, 4)), errno::EINVAL);
    let kind = LockType(99);
    assert_eq!(refused(LockDesc { kind, ..extent(LockMode::PR, 0, 1) }), errno::EFAULT);
}

/// [LOCK-16]
#[test]
fn an_owner_has_one_flock_on_each_byte() {
    let mut world = World::new();
    world.get(A, flock(LockMode::PW, 1, 0, 99));
    world.get(A, flock(LockMode::NL, 1, 40, 59));
    let mut ranges: Vec<_> = world.server.iter().map(|(_, lock)| range_of(&lock.desc)).collect();
    ranges.sort_unstable();
    assert_eq!(ranges, [(0, 39), (60, 99)]);
    // Another owner fits between; the first one gets it when that is over.
    assert!(world.get(B, flock(LockMode::PW, 1, 45, 55)).is_granted());
    let busy = world.ask(A, flock(LockMode::PR, 1, 50, 50), LockFlags::BLOCK_NOWAIT);
    assert_eq!(busy.unwrap_err(), errno::EAGAIN);
    let tested = world.ask(A, flock(LockMode::PW, 1, 0, 99), LockFlags::TEST_LOCK).unwrap().1;
    assert_eq!((tested.desc.req_mode, range_of(&tested.desc)), (LockMode::PW, (45, 55)));
    let waits = world.get(A, flock(LockMode::PW, 1, 40, 59));
    assert!(!waits.is_granted());
    world.get(B, flock(LockMode::NL, 1, 0, u64::MAX));
    assert_eq!(world.events(), [LockEvent::Granted { handle: waits.handle, wanted: false }]);
    let all: Vec<_> = world.server.iter().map(|(_, lock)| range_of(&lock.desc)).collect();
    assert_eq!(all, [(0, 99)]);
}

#[test]
fn owners_of_flocks_do_not_wait_for_each_other() {
    let mut world = World::new();
    world.get(A, flock(LockMode::PW, 1, 0, 9));
    world.get(B, flock(LockMode::PW, 1, 10, 19));
    assert!(!world.get(A, flock(LockMode::PW, 1, 10, 19)).is_granted());
    let circle = world.ask(B, flock(LockMode::PW, 1, 0, 9), LockFlags::empty());
    assert_eq!(circle.unwrap_err(), errno::EDEADLK);
    // Who unlocks what it waits for has given up waiting.
    world.get(A, flock(LockMode::NL, 1, 10, 19));
    let given_up =
        |event: &LockEvent| matches!(event, LockEvent::GivenUp { client: A, deadlock: false, .. });
    assert!(world.events().iter().any(given_up));
}

#[test]
fn locks_are_taken_again_as_they_were() {
    let mut world = World::new();
    world.server.begin_replay();
    let replay = |desc: LockDesc, mode, flag| {
        (LockDesc { granted_mode: mode, ..desc }, LockFlags::REPLAY | flag)
    };
    let (desc, flags) = replay(extent(LockMode::PW, 0, 99), LockMode::PW, LockFlags::BLOCK_GRANTED);
    let held = world.ask(A, desc, flags).unwrap().1;
    let (desc, flags) = replay(extent(LockMode::PW, 0, 9), LockMode::NONE, LockFlags::BLOCK_WAIT);
    let waits = world.ask(B, desc, flags).unwrap().1;
    assert!(held.is_granted() && !waits.is_granted());
    assert_eq!(world.events(), []);
    world.server.end_replay(0);
    assert_eq!(world.blocked(), [(A, held.handle)]);
    world.server.cancel(0, A, [held.handle]);
    assert_eq!(world.events(), [LockEvent::Granted { handle: waits.handle, wanted: false }]);
}
