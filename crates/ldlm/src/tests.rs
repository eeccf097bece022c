//! The races of lock management one by one, and flocks against an array of bytes.

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Extent, Flock, Ibits, IbitsPolicy, LdlmReply, LdlmRequest, LockDesc, LockFlags, LockMode,
    LockType, Policy, Resource,
};
use proptest::prelude::*;

use crate::{Completed, LockState, Namespace, Progress};

const OURS: Handle = Handle(0x11);
const SERVERS: Handle = Handle(0x99);
const FILE: Fid = Fid { seq: 0x2_0000_0401, oid: 3, ver: 0 };

fn extent() -> LockDesc {
    LockDesc {
        kind: LockType::EXTENT,
        resource: Resource::of_fid(FILE),
        req_mode: LockMode::PW,
        policy: Policy::Extent(Extent { start: 0, end: 4095, gid: 0 }),
        ..LockDesc::default()
    }
}

fn enqueued() -> Namespace {
    let mut namespace = Namespace::default();
    namespace.enqueue(OURS, extent());
    namespace
}

/// The server's answer to the enqueue.
fn reply(granted: LockMode, flags: LockFlags) -> LdlmReply {
    let desc = LockDesc { granted_mode: granted, ..extent() };
    LdlmReply { flags, desc, handle: SERVERS, ..LdlmReply::default() }
}

/// A callback about a lock.
fn callback(handles: &[Handle], granted: LockMode, flags: LockFlags) -> LdlmRequest<'_> {
    let desc = LockDesc { granted_mode: granted, ..extent() };
    LdlmRequest { flags, count: 0, desc, handles: handles.into() }
}

const BOTH: [Handle; 2] = [OURS, SERVERS];

#[test]
fn a_lock_is_granted_with_what_the_server_made_of_it() {
    let mut namespace = enqueued();
    let mut granted = reply(LockMode::PW, LockFlags::LOCK_CHANGED);
    granted.desc.policy = Policy::Extent(Extent::WHOLE);
    assert_eq!(namespace.answered(OURS, &granted), Progress::Granted);
    let lock = namespace.get(OURS).unwrap();
    assert_eq!(lock.desc.policy, Policy::Extent(Extent::WHOLE));
    assert_eq!((lock.state, lock.remote), (LockState::Granted, SERVERS));
    // Without the flag it is as it was asked for.
    let mut namespace = enqueued();
    granted.flags = LockFlags::empty();
    assert_eq!(namespace.answered(OURS, &granted), Progress::Granted);
    assert_eq!(namespace.get(OURS).unwrap().desc.policy, extent().policy);
}

#[test]
fn a_lock_that_moves_to_another_resource_is_found_there() {
    let mut namespace = enqueued();
    let mut granted = reply(LockMode::PW, LockFlags::LOCK_CHANGED);
    granted.desc.resource = Resource::of_fid(Fid { oid: 4, ..FILE });
    namespace.answered(OURS, &granted);
    assert_eq!(namespace.get(OURS).unwrap().desc.resource, granted.desc.resource);
    // Flocks are looked for by their resource.
    let mut namespace = Namespace::default();
    let (here, there) = (Resource::of_flock(FILE), Resource::of_flock(Fid { oid: 4, ..FILE }));
    let policy = Policy::Flock(flock(1, 0, 9));
    let desc = LockDesc { kind: LockType::FLOCK, resource: here, policy, ..extent() };
    namespace.enqueue(OURS, desc);
    assert!(namespace.has_flocks(here, Handle(1)));
    granted.desc = LockDesc { resource: there, granted_mode: LockMode::PW, ..desc };
    assert_eq!(namespace.answered(OURS, &granted), Progress::Granted);
    assert!(!namespace.has_flocks(here, Handle(1)) && namespace.has_flocks(there, Handle(1)));
    namespace.remove(OURS);
    assert!(!namespace.has_flocks(there, Handle(1)));
}

#[test]
fn a_completion_before_the_reply_grants() {
    let mut namespace = enqueued();
    let granted = callback(&BOTH, LockMode::PW, LockFlags::empty());
    assert_eq!(namespace.completed(&granted), Completed::Granted(OURS));
    // The reply is older than the callback, and says that the lock waits.
    let late = reply(LockMode::NONE, LockFlags::BLOCK_GRANTED);
    assert_eq!(namespace.answered(OURS, &late), Progress::Unchanged);
    assert_eq!(namespace.get(OURS).unwrap().state, LockState::Granted);
    assert_eq!(namespace.completed(&granted), Completed::Unchanged);
}

#[test]
fn a_reply_with_a_granted_mode_grants_whatever_its_flags_say() {
    let mut namespace = enqueued();
    let both = reply(LockMode::PW, LockFlags::BLOCK_GRANTED);
    assert_eq!(namespace.answered(OURS, &both), Progress::Granted);
}

#[test]
fn a_lock_waits_for_its_completion() {
    let mut namespace = enqueued();
    let waits = reply(LockMode::NONE, LockFlags::BLOCK_GRANTED);
    assert_eq!(namespace.answered(OURS, &waits), Progress::Waiting);
    let granted = callback(&BOTH, LockMode::PW, LockFlags::AST_SENT);
    assert_eq!(namespace.completed(&granted), Completed::Granted(OURS));
    // Somebody else waits for it already.
    assert!(namespace.get(OURS).is_some_and(|lock| lock.blocked));
}

#[test]
fn a_lock_can_be_wanted_by_others_when_it_is_granted() {
    for (flags, blocked) in [(LockFlags::empty(), false), (LockFlags::AST_SENT, true)] {
        let mut namespace = enqueued();
        assert_eq!(namespace.answered(OURS, &reply(LockMode::PW, flags)), Progress::Granted);
        assert_eq!(namespace.get(OURS).unwrap().blocked, blocked);
    }
}

/// The enqueue was sent again after a restart of the server, which granted it once more.
#[test]
fn a_late_answer_for_a_lock_that_was_given_up_is_noticed() {
    let mut namespace = enqueued();
    namespace.completed(&callback(&BOTH, LockMode::PW, LockFlags::empty()));
    namespace.cancel(OURS);
    namespace.remove(OURS);
    let late = reply(LockMode::PW, LockFlags::empty());
    assert_eq!(namespace.answered(OURS, &late), Progress::Forgotten);
    assert_eq!(namespace.answered(OURS, &LdlmReply::default()), Progress::Unchanged);
}

#[test]
fn an_answer_without_a_lock_leaves_none() {
    for handle in [Handle::NONE, SERVERS] {
        let mut namespace = enqueued();
        let none = LdlmReply { handle, ..LdlmReply::default() };
        assert_eq!(namespace.answered(OURS, &none), Progress::None);
        assert!(namespace.is_empty());
    }
}

#[test]
fn a_lock_that_the_server_gives_up_has_failed() {
    for (flags, deadlock) in [(LockFlags::empty(), false), (LockFlags::FLOCK_DEADLOCK, true)] {
        let mut namespace = enqueued();
        namespace.answered(OURS, &reply(LockMode::NONE, LockFlags::BLOCK_GRANTED));
        let failed = namespace.completed(&callback(&BOTH, LockMode::NONE, flags));
        assert_eq!(failed, Completed::Failed { handle: OURS, deadlock });
        assert!(namespace.is_empty());
    }
}

#[test]
fn callbacks_for_unknown_locks_are_refused() {
    let mut namespace = enqueued();
    let none = LockFlags::empty();
    for handles in [&[][..], &[Handle::NONE], &[SERVERS, OURS]] {
        let unknown = callback(handles, LockMode::PW, none);
        assert_eq!(namespace.completed(&unknown), Completed::Unknown);
        assert_eq!(namespace.blocked(&unknown), None);
    }
    let mut other = callback(&BOTH, LockMode::PW, none);
    other.desc.kind = LockType::FLOCK;
    assert_eq!(namespace.completed(&other), Completed::Unknown);
    // This one is known, although its enqueue is not answered.
    let known = callback(&[OURS], LockMode::NONE, none);
    assert_eq!(namespace.blocked(&known), Some(OURS));
    assert!(namespace.get(OURS).is_some_and(|lock| lock.blocked && !lock.discard));
}

#[test]
fn a_cancel_names_the_handle_of_the_server() {
    let mut namespace = enqueued();
    namespace.answered(OURS, &reply(LockMode::PW, LockFlags::empty()));
    assert_eq!(namespace.cancel(OURS), Some(SERVERS));
    // It is known until the cancel is answered.
    let destroyed = callback(&BOTH, LockMode::NONE, LockFlags::DISCARD_DATA);
    assert_eq!(namespace.blocked(&destroyed), Some(OURS));
    assert!(namespace.get(OURS).is_some_and(|lock| lock.discard));
    assert!(namespace.replays().is_empty());
    assert!(namespace.remove(OURS).is_some());
    assert_eq!(namespace.cancel(OURS), None);
    assert!(namespace.is_empty());
    // One that the server does not know needs none.
    let mut namespace = enqueued();
    assert_eq!(namespace.cancel(OURS), None);
    assert!(namespace.is_empty());
}

#[test]
fn a_part_of_a_lock_is_given_back_while_nobody_wants_the_rest() {
    let all = Ibits::LOOKUP | Ibits::UPDATE | Ibits::PERM;
    let of = |bits| Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() });
    let desc = LockDesc {
        kind: LockType::IBITS,
        resource: Resource::of_fid(FILE),
        req_mode: LockMode::PR,
        policy: of(all),
        ..LockDesc::default()
    };
    let mut namespace = Namespace::default();
    namespace.enqueue(OURS, desc);
    assert_eq!(namespace.convert(OURS, Ibits::LOOKUP), None, "it is not granted");
    let granted = LockDesc { granted_mode: LockMode::PR, ..desc };
    let reply = LdlmReply { desc: granted, handle: SERVERS, ..LdlmReply::default() };
    assert_eq!(namespace.answered(OURS, &reply), Progress::Granted);
    for keep in [Ibits::empty(), Ibits::LAYOUT, Ibits::LOOKUP | Ibits::LAYOUT] {
        assert_eq!(namespace.convert(OURS, keep), None, "{keep:?}");
    }
    assert_eq!(namespace.convert(OURS, Ibits::LOOKUP | Ibits::PERM), Some(SERVERS));
    let lock = namespace.get(OURS).unwrap();
    assert_eq!(lock.desc.policy, of(Ibits::LOOKUP | Ibits::PERM));
    assert_eq!((lock.state, lock.blocked), (LockState::Granted, false));
    // Once somebody wants the rest, it is cancelled.
    assert_eq!(
        namespace.blocked(&callback(&[OURS], LockMode::NONE, LockFlags::empty())),
        Some(OURS)
    );
    assert_eq!(namespace.convert(OURS, Ibits::LOOKUP), None);
}

#[test]
fn a_restart_is_survived_by_what_was_granted_and_what_waits() {
    let mut namespace = enqueued();
    assert!(namespace.replays().is_empty(), "the import sends the enqueue again");
    namespace.answered(OURS, &reply(LockMode::NONE, LockFlags::BLOCK_GRANTED));
    let replay = &namespace.replays()[0];
    assert_eq!(replay.flags, LockFlags::REPLAY | LockFlags::BLOCK_WAIT);
    // It can be granted at the end of the recovery.
    let mut granted = reply(LockMode::PW, LockFlags::REPLAY | LockFlags::BLOCK_GRANTED);
    granted.handle = Handle(0x77);
    assert_eq!(namespace.replayed(OURS, &granted), Progress::Granted);
    assert_eq!(namespace.get(OURS).unwrap().remote, Handle(0x77));
    let replay = &namespace.replays()[0];
    assert_eq!(replay.flags, LockFlags::REPLAY | LockFlags::BLOCK_GRANTED);
    assert_eq!(replay.desc.granted_mode, LockMode::PW);
    assert_eq!(namespace.replayed(OURS, &granted), Progress::Unchanged);
    // A server that does not have it any more.
    assert_eq!(namespace.replayed(OURS, &LdlmReply::default()), Progress::None);
    assert!(namespace.is_empty());
}

/// The server got the lock again, and the client has not heard of it when it gives the lock back:
/// what it knows is the handle of the server's earlier life.
#[test]
fn a_lock_whose_replay_was_not_answered_is_replayed_before_it_is_given_back() {
    let mut namespace = enqueued();
    namespace.answered(OURS, &reply(LockMode::PW, LockFlags::empty()));
    let first = namespace.replays();
    assert_eq!(namespace.cancel(OURS), Some(SERVERS));
    assert_eq!(namespace.replays(), first);
    let mut granted = reply(LockMode::PW, LockFlags::REPLAY | LockFlags::BLOCK_GRANTED);
    granted.handle = Handle(0x77);
    assert_eq!(namespace.replayed(OURS, &granted), Progress::Unchanged);
    assert_eq!(namespace.cancel(OURS), Some(Handle(0x77)));
    assert!(namespace.replays().is_empty());
}

#[test]
fn an_eviction_takes_all_locks() {
    let mut namespace = enqueued();
    namespace.answered(OURS, &reply(LockMode::PW, LockFlags::empty()));
    namespace.enqueue(Handle(0x12), extent());
    assert_eq!(namespace.clear(), [Handle(0x12)]);
    assert!(namespace.is_empty());
}

fn flock(owner: u64, start: u64, end: u64) -> Flock {
    Flock { start, end, owner: Handle(owner), pid: 1 }
}

/// Asks for a flock, which is granted at once.
fn lock(namespace: &mut Namespace, next: &mut u64, mode: LockMode, range: Flock) {
    *next += 1;
    let handle = Handle(*next);
    let desc = LockDesc {
        kind: LockType::FLOCK,
        resource: Resource::of_flock(FILE),
        req_mode: mode,
        policy: Policy::Flock(range),
        ..LockDesc::default()
    };
    namespace.enqueue(handle, desc);
    let desc = LockDesc { granted_mode: mode, ..desc };
    let reply = LdlmReply { desc, handle: SERVERS, ..LdlmReply::default() };
    assert_eq!(namespace.answered(handle, &reply), Progress::Granted);
    *next += 1;
    namespace.settle_flock(handle, Handle(*next));
}

/// Owner, first and last byte, and mode of all flocks, in order.
fn flocks(namespace: &Namespace) -> Vec<(u64, u64, u64, LockMode)> {
    let of = |lock: &crate::Lock| match lock.desc.policy {
        Policy::Flock(flock) => (flock.owner.0, flock.start, flock.end, lock.desc.granted_mode),
        other => panic!("{other:?}"),
    };
    let mut all: Vec<_> = namespace.iter().map(|(_, lock)| of(&lock)).collect();
    all.sort_by_key(|(owner, start, ..)| (*owner, *start));
    all
}

#[test]
fn a_flock_that_is_divided_leaves_two() {
    let (mut namespace, mut next) = (Namespace::default(), 0);
    let last = i64::MAX as u64;
    lock(&mut namespace, &mut next, LockMode::PW, flock(7, 0, last));
    lock(&mut namespace, &mut next, LockMode::NL, flock(7, 40, 59));
    let expected = [(7, 0, 39, LockMode::PW), (7, 60, last, LockMode::PW)];
    assert_eq!(flocks(&namespace), expected);
    assert_eq!(namespace.replays().len(), 2);
    // The other half is the client's own until the server gets it again.
    let remotes: Vec<_> = namespace.iter().map(|(_, lock)| lock.remote).collect();
    assert!(remotes.contains(&Handle::NONE) && remotes.contains(&SERVERS));
    lock(&mut namespace, &mut next, LockMode::NL, flock(7, 0, last));
    assert!(namespace.is_empty());
}

#[test]
fn owners_do_not_touch_each_other() {
    let (mut namespace, mut next) = (Namespace::default(), 0);
    lock(&mut namespace, &mut next, LockMode::PR, flock(7, 0, 9));
    lock(&mut namespace, &mut next, LockMode::PR, flock(8, 5, 14));
    lock(&mut namespace, &mut next, LockMode::NL, flock(8, 0, 99));
    assert_eq!(flocks(&namespace), [(7, 0, 9, LockMode::PR)]);
    let resource = Resource::of_flock(FILE);
    assert!(namespace.has_flocks(resource, Handle(7)));
    assert!(!namespace.has_flocks(resource, Handle(8)));
}

proptest! {
    /// What is left after any sequence of locks and unlocks is what an array of bytes has, without
    /// overlaps and without neighbours that are one lock.
    #[test]
    fn flocks_are_what_an_array_of_bytes_has(
        steps in prop::collection::vec((0u64..3, 0u64..20, 0u64..8, 0usize..3), 1..60),
    ) {
        let modes = [LockMode::NL, LockMode::PR, LockMode::PW];
        let (mut namespace, mut next) = (Namespace::default(), 0);
        let mut model = [[LockMode::NL; 32]; 3];
        for (owner, start, len, mode) in steps {
            let range = flock(owner, start, start + len);
            lock(&mut namespace, &mut next, modes[mode], range);
            model[owner as usize][start as usize..=(start + len) as usize].fill(modes[mode]);
            prop_assert_eq!(flocks(&namespace), runs(&model));
        }
    }
}

/// The locked ranges of each owner.
fn runs(model: &[[LockMode; 32]; 3]) -> Vec<(u64, u64, u64, LockMode)> {
    let mut runs: Vec<(u64, u64, u64, LockMode)> = Vec::new();
    for (owner, bytes) in model.iter().enumerate() {
        for (at, mode) in bytes.iter().enumerate() {
            let (owner, at) = (owner as u64, at as u64);
            match runs.last_mut() {
                _ if *mode == LockMode::NL => {}
                Some((last, _, end, same)) if *last == owner && *end + 1 == at && same == mode => {
                    *end = at;
                }
                _ => runs.push((owner, at, at, *mode)),
            }
        }
    }
    runs
}
