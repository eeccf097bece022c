//! Writes that fail, for now or for good.

use super::*;

#[test]
fn a_write_that_failed_for_now_is_tried_again() {
    let (mut world, mut osts) = dirty();
    // EIO, such as after a checksum that is wrong.
    osts.fails = Some(-5);
    let synced = world.fsync();
    for _ in 0..5 {
        osts.serve(&mut world);
        world.pass(Nanos::from_secs(1));
    }
    assert_eq!((synced.outcome(), world.client.cache_counts().lost), (Ok(()), 0));
}

/// As when a lock has gone meanwhile under which they were written.
#[test]
fn bytes_that_are_not_there_any_more_cannot_be_sent_again() {
    let (mut world, mut osts) = dirty();
    let synced = world.fsync();
    let asked = world.next(Kind::OstWrite);
    let first = (world.client.osts[&0], object(0));
    world.client.forget_for_tests(first, 10..12);
    osts.fails = Some(-5);
    osts.answer(&mut world, &asked);
    world.pass(Nanos::from_secs(1));
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Err(ClientError::Errno(5)));
    assert_eq!((world.client.cache_counts().lost, world.client.cache_counts().dirty), (2, 0));
    assert_eq!(&osts.objects[&0][12..], b"llo");
}

/// However many requests fail at the same time.
#[test]
fn writes_that_fail_for_now_are_tried_again_for_ten_seconds() {
    for seconds in [9, 11] {
        let (mut world, mut osts) = scene();
        for number in 0..8 {
            let written = world.write(number * 131_072, &[1; 100]);
            if number == 0 {
                osts.serve(&mut world);
            }
            assert_eq!(written.outcome(), Ok(()));
            start_flush(&mut world);
        }
        assert_eq!(world.asked.len(), 8);
        osts.status = -5;
        let synced = world.fsync();
        for _ in 0..seconds {
            osts.serve(&mut world);
            world.pass(Nanos::from_secs(1));
        }
        osts.status = 0;
        osts.serve(&mut world);
        let lost = world.client.cache_counts().lost;
        match seconds {
            9 => assert_eq!((synced.outcome(), lost), (Ok(()), 0)),
            _ => assert_eq!((synced.outcome(), lost), (Err(ClientError::Errno(5)), 800)),
        }
        // What fails later has its own time.
        let written = world.write(0, &[2; 100]);
        osts.serve(&mut world);
        assert_eq!(written.outcome(), Ok(()));
        osts.fails = Some(-5);
        let synced = world.fsync();
        osts.serve(&mut world);
        world.pass(Nanos::from_secs(1));
        osts.serve(&mut world);
        assert_eq!((synced.outcome(), world.client.cache_counts().lost), (Ok(()), lost));
    }
}

/// Another program may have had objects made since the file was opened.
#[test]
fn an_fsync_with_an_older_layout_reports_what_fails() {
    for is_answered in [false, true] {
        let (mut world, mut osts) = dirty();
        start_flush(&mut world);
        osts.fails = Some(-28);
        if is_answered {
            osts.serve(&mut world);
        }
        let before = FileLayout::default();
        let synced = world.start(|client, turn, done| {
            client.fsync(turn, Caller::ROOT, FILE, &before, done);
        });
        osts.serve(&mut world);
        assert_eq!(synced.outcome(), Err(ClientError::Errno(28)), "{is_answered}");
        assert_eq!(world.client.write_error(FILE), None, "it was reported");
    }
}

#[test]
fn a_write_that_is_stored_does_not_fail_for_an_earlier_one() {
    let (mut world, mut osts) = dirty();
    start_flush(&mut world);
    osts.fails = Some(-28);
    osts.serve(&mut world);
    let through = |world: &mut World, osts: &mut Osts| {
        let written = world.write(100, b"own");
        osts.serve(world);
        assert_eq!(written.outcome(), Ok(()));
        let layout = striped();
        let stored = world.start(|client, turn, done| {
            client.write_through(turn, FILE, &layout, (100, 3), done);
        });
        assert!(stored.is_pending());
        osts.serve(world);
        stored.outcome()
    };
    assert_eq!(through(&mut world, &mut osts), Ok(()));
    let failed = |world: &mut World, osts: &mut Osts| {
        let synced = world.fsync();
        osts.serve(world);
        synced.outcome()
    };
    assert_eq!(failed(&mut world, &mut osts), Err(ClientError::Errno(28)));
    osts.fails = Some(-28);
    assert_eq!(through(&mut world, &mut osts), Err(ClientError::Errno(28)));
    let fsync = failed(&mut world, &mut osts);
    assert_eq!(fsync, Err(ClientError::Errno(28)), "others may have written there too");
    // An earlier write of the same bytes fails while they are dirty again.
    let before = world.write(90, b"before and behind");
    assert_eq!(before.outcome(), Ok(()));
    start_flush(&mut world);
    let asked = world.asked.pop_front().expect("a write");
    let written = world.write(100, b"own");
    assert_eq!(written.outcome(), Ok(()));
    let layout = striped();
    let stored = world.start(|client, turn, done| {
        client.write_through(turn, FILE, &layout, (100, 3), done);
    });
    osts.fails = Some(-28);
    osts.answer(&mut world, &asked);
    osts.serve(&mut world);
    assert_eq!(stored.outcome(), Ok(()));
    assert_eq!(failed(&mut world, &mut osts), Err(ClientError::Errno(28)));
}

/// A part of it may be lost before another part has its lock.
#[test]
fn a_write_of_which_a_part_is_lost_fails() {
    let (mut world, mut osts) = dirty();
    assert_eq!(world.write(65_530, &[1; 6]).outcome(), Ok(()));
    let written = world.write(65_530, &[2; 12]);
    assert!(written.is_pending(), "the other object has to be locked");
    let enqueue = world.asked.pop_front().expect("an enqueue");
    start_flush(&mut world);
    osts.fails = Some(-28);
    osts.serve(&mut world);
    osts.answer(&mut world, &enqueue);
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    for _ in 0..2 {
        let layout = striped();
        let stored = world.start(|client, turn, done| {
            client.write_through(turn, FILE, &layout, (65_530, 12), done);
        });
        osts.serve(&mut world);
        assert_eq!(stored.outcome(), Err(ClientError::Errno(28)));
    }
    // Once it is written again, it is not lost any more.
    assert_eq!(world.write(65_520, &[3; 16]).outcome(), Ok(()));
    let layout = striped();
    let stored = world.start(|client, turn, done| {
        client.write_through(turn, FILE, &layout, (65_520, 16), done);
    });
    osts.serve(&mut world);
    assert_eq!(stored.outcome(), Ok(()));
}

/// A request has bytes that have failed for long and others.
#[test]
fn newer_bytes_are_tried_again_for_ten_seconds_of_their_own() {
    let (mut world, mut osts) = scene();
    osts.status = -5;
    let written = world.write(0, &[1; 100]);
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    start_flush(&mut world);
    for second in 0..12 {
        osts.serve(&mut world);
        if second == 9 {
            assert_eq!(world.write(100, &[2; 50]).outcome(), Ok(()));
        }
        start_flush(&mut world);
        world.pass(Nanos::from_secs(1));
    }
    assert_eq!(world.client.cache_counts().lost, 100);
    osts.status = 0;
    start_flush(&mut world);
    osts.serve(&mut world);
    let counts = world.client.cache_counts();
    assert_eq!((counts.lost, counts.dirty), (100, 0));
    assert_eq!(osts.objects[&0][100..], [2; 50]);
}

#[test]
fn writes_go_on_when_what_was_in_their_way_is_dropped() {
    let tunables = CacheTunables { max_dirty: 100_000, ..CACHE };
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    let first = world.write(0, &[1; 60_000]);
    osts.serve(&mut world);
    assert_eq!(first.outcome(), Ok(()));
    world.net.nodes[0].memory.limit = world.net.nodes[0].memory.live;
    start_flush(&mut world);
    world.net.nodes[0].memory.limit = 0;
    let second = world.write(65_536, &[2; 60_000]);
    assert!(second.is_pending());
    // The file of the first one is removed.
    osts.call_back(&mut world, 0, LockFlags::DISCARD_DATA);
    for _ in 0..20 {
        osts.serve(&mut world);
        world.pass(Nanos::from_secs(1));
    }
    assert_eq!(second.outcome(), Ok(()));
}
