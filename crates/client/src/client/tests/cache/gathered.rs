//! What goes together in one write, in whose name, and whose quota it is.

use super::*;

/// Each kept its pages to itself until the fsync.
#[test]
fn small_writes_go_together() {
    let (mut world, mut osts) = scene();
    for at in 0..300u64 {
        // With two object servers and 64 KiB to each in turn.
        let place = at / 8 * 131_072 + at % 8 * 8192;
        let written = world.write(place, &[1; 10]);
        osts.serve(&mut world);
        assert_eq!(written.outcome(), Ok(()));
    }
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    let requests = osts.seen.iter().filter(|kind| **kind == Kind::OstWrite).count();
    assert_eq!((osts.writes.len(), requests), (300, 2));
    assert!(osts.writes.iter().all(|(stripe, range, paid)| {
        *stripe == 0 && range.start % 8192 == 0 && range.end - range.start == 10 && *paid
    }));
}

/// The flags of replies, which say so before the limit is reached, and the status beyond it: as a
/// real server has it (`fs-c/c09_quota`).
#[test]
fn who_is_over_quota_learns_it_when_it_writes() {
    let (mut world, mut osts) = scene();
    let write = |world: &mut World, caller, at: u64| {
        let layout = striped();
        world.start(move |client, turn, done| {
            client.write(
                turn,
                caller,
                (FILE, OWNER),
                &layout,
                (at * 8192, vec![1; 100].into()),
                done,
            );
        })
    };
    let first = write(&mut world, ALICE, 0);
    osts.serve(&mut world);
    assert_eq!((first.outcome(), osts.writes.len()), (Ok(()), 0));
    osts.over_quota = true;
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!((synced.outcome(), osts.writes.len()), (Ok(()), 1));
    // Each waits for the server now, and is not paid from the grant.
    let second = write(&mut world, ALICE, 1);
    assert!(second.is_pending());
    osts.serve(&mut world);
    assert_eq!(second.outcome(), Ok(()));
    assert_eq!(osts.writes[1], (0, 8192..8292, false));
    // It is one quota for all targets: the other one has it from this one, for a minute.
    let other = write(&mut world, ALICE, 8);
    assert!(other.is_pending() || !world.asked.is_empty());
    osts.serve(&mut world);
    assert_eq!((other.outcome(), osts.writes.pop()), (Ok(()), Some((1, 0..100, false))));
    // Beyond the limit the write of the program fails at once, and nothing is left for the others.
    osts.status = -EDQUOT;
    let third = write(&mut world, ALICE, 2);
    osts.serve(&mut world);
    assert_eq!(third.outcome(), Err(ClientError::Errno(EDQUOT)));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    // Root may write, and what it writes can wait.
    assert_eq!(write(&mut world, Caller::ROOT, 3).outcome(), Ok(()));
    // There is room again: the reply to the next write says so, and what the other target has said
    // is old.
    (osts.status, osts.over_quota) = (0, false);
    world.pass(Nanos::from_secs(60));
    osts.serve(&mut world);
    let fourth = write(&mut world, ALICE, 4);
    osts.serve(&mut world);
    assert_eq!((fourth.outcome(), write(&mut world, ALICE, 5).outcome()), (Ok(()), Ok(())));
    let read = world.read(0, 8);
    assert_eq!(read.outcome().unwrap().0, [1; 8]);
}

/// Each goes to the server in the name of who has written it, and belongs to the owner of the file.
#[test]
fn data_of_two_users_go_by_themselves() {
    let (mut world, mut osts) = dirty();
    let layout = striped();
    let written = world.start(|client, turn, done| {
        client.write(turn, ALICE, (FILE, OWNER), &layout, (20_000, b"more"[..].into()), done);
    });
    assert_eq!(written.outcome(), Ok(()));
    let synced = world.fsync();
    let mut seen = Vec::new();
    while let Some(asked) = world.asked.pop_front() {
        if asked.kind == Kind::OstWrite {
            let (owner, flags) = asked.with(|request| match request {
                Request::OstWrite(brw) => (brw.body.uid, brw.niobufs.get(0).expect("one").flags),
                other => panic!("{other:?}"),
            });
            let may_exceed = flags.contains(NiobufFlags::SYS_RESOURCE);
            seen.push((asked.body.uid, owner, may_exceed));
        }
        osts.answer(&mut world, &asked);
    }
    assert_eq!(synced.outcome(), Ok(()));
    assert_eq!(seen, [(0, 1000, true), (1000, 1000, false)]);
}

/// The error of one range is that of the request, and all of it is written once more.
#[test]
fn a_request_of_several_ranges_fails_as_a_whole() {
    let (mut world, mut osts) = dirty();
    let written = world.write(20_000, b"more");
    assert_eq!(written.outcome(), Ok(()));
    // EIO, such as after a checksum that is wrong.
    osts.fails = Some(-5);
    let synced = world.fsync();
    for _ in 0..5 {
        osts.serve(&mut world);
        world.pass(Nanos::from_secs(1));
    }
    assert_eq!(synced.outcome(), Ok(()));
    let both = [(0, 10..15, true), (0, 20_000..20_004, true)];
    assert_eq!(osts.writes, [both.clone(), both].concat());
    assert_eq!(world.client.cache_counts().dirty, 0);
}
