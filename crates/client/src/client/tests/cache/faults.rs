//! What can go wrong on the way: errors, late answers, faulty servers, no memory.

mod failing;

use super::*;

impl Osts {
    /// Grants what was asked, with this policy and value, whatever stands in the way.
    fn grant_as(
        &mut self,
        world: &mut World,
        asked: &Asked,
        (extent, lvb): (Option<Extent>, OstLvb),
    ) {
        let change = |desc: &mut LockDesc| {
            desc.policy = extent.map_or(desc.policy, Policy::Extent);
        };
        self.grant_changed(world, asked, lvb, change);
    }

    /// Grants a lock that is not quite the one that was asked for.
    fn grant_changed(
        &mut self,
        world: &mut World,
        asked: &Asked,
        lvb: OstLvb,
        change: impl FnOnce(&mut LockDesc),
    ) {
        let (desc, handle) = asked.with(|request| match request {
            Request::Enqueue(dlm::Lock { lock }) => (lock.desc, lock.handle(0).expect("a handle")),
            other => panic!("{other:?}"),
        });
        self.last += 1;
        let remote = Handle(0x9000 + self.last);
        let mode = desc.req_mode;
        let mut desc = LockDesc { granted_mode: mode, ..desc };
        self.locks.push((handle, remote, stripe_of(object_of(&desc)), mode));
        change(&mut desc);
        let flags = LockFlags::LOCK_CHANGED;
        let reply = LdlmReply { flags, desc, handle: remote, ..LdlmReply::default() };
        let lvb = lustrine_fswire::codec::Wire::to_bytes(&lvb);
        let reply = dlm::EnqueueReply { reply, lvb: Some(Lvb(&lvb)) };
        world.answer(asked, 0, &ReplyBuffers::Enqueue(reply));
    }

    /// Answers everything but transfers of one stripe.
    fn serve_all_but(&mut self, world: &mut World, silent: u32) {
        let mut later = VecDeque::new();
        while let Some(asked) = world.asked.pop_front() {
            match asked.kind {
                Kind::OstWrite | Kind::OstRead if self.transfer(&asked).0 == silent => {
                    later.push_back(asked);
                }
                _ => self.answer(world, &asked),
            }
        }
        world.asked = later;
    }
}

fn start_flush(world: &mut World) {
    world.act(|client, turn| {
        client.start_flush(turn, FILE);
        client.settle(turn);
    });
}

/// Another program goes on writing to the file.
#[test]
fn fsync_does_not_wait_for_what_is_written_after_it() {
    let (mut world, mut osts) = dirty();
    let _synced = world.fsync();
    for round in 0..50 {
        assert_eq!(world.write(20 + round, b"x").outcome(), Ok(()));
        if let Some(asked) = world.asked.pop_front() {
            osts.answer(&mut world, &asked);
        }
    }
    assert!(osts.seen.contains(&Kind::MdsSync), "{:?}", osts.seen);
}

/// The reply to an enqueue was made before the server stored a write, and arrives after its answer.
#[test]
fn an_old_lvb_does_not_shorten_what_another_lock_covers() {
    let (mut world, mut osts) = scene();
    let written = world.write(131_072, b"tail");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    let old = osts.lvb(0);
    let read = world.read(0, 10);
    let enqueue = world.next(Kind::Enqueue);
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    osts.grant_as(&mut world, &enqueue, (None, old));
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0, [0; 10]);
    let size = world.size();
    osts.serve(&mut world);
    assert_eq!(size.outcome().unwrap().0, 131_076);
}

#[test]
fn a_silent_target_does_not_hold_up_writes_to_others() {
    let tunables = CacheTunables { max_dirty: 100_000, ..CACHE };
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    let first = world.write(0, &[1; 60_000]);
    osts.serve(&mut world);
    assert_eq!(first.outcome(), Ok(()));
    let second = world.write(131_072, &[2; 60_000]);
    osts.serve_all_but(&mut world, 0);
    let other = world.write(65_536, b"other");
    osts.serve_all_but(&mut world, 0);
    assert!(second.is_pending());
    assert_eq!(other.outcome(), Ok(()));
}

/// Single bytes at the ends of chunks take 64 KiB each.
#[test]
fn memory_is_bounded_whatever_is_written() {
    let tunables = CacheTunables::of(4 << 20);
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    let import = world.client.osts[&0];
    world.act(|client, _| client.with_grant_for_tests(import, 1 << 30));
    for at in 0..500 {
        for end in [0, 65_535] {
            let written = world.write(at * 131_072 + end, b"x");
            osts.serve(&mut world);
            assert_eq!(written.outcome(), Ok(()));
        }
    }
    let cached = world.client.cache_counts().cached;
    assert!(cached <= 8 << 20, "{cached} bytes for 1000 bytes that were written");
}

#[test]
fn a_write_that_had_no_memory_costs_no_grant() {
    let (mut world, _) = dirty();
    world.net.nodes[0].memory.limit = world.net.nodes[0].memory.live;
    start_flush(&mut world);
    for _ in 0..10 {
        // A program waits for it.
        start_flush(&mut world);
        world.pass(Nanos::from_millis(6000));
    }
    world.net.nodes[0].memory.limit = 0;
    world.pass(Nanos::from_millis(6000));
    let asked = loop {
        let asked = world.asked.pop_front().expect("a write");
        if asked.kind == Kind::OstWrite {
            break asked;
        }
    };
    let left = asked.with(|request| match request {
        Request::OstWrite(brw) => brw.body.grant,
        other => panic!("{other:?}"),
    });
    assert_eq!(left, (8 << 20) - 4096);
}

#[test]
fn an_error_is_told_to_whom_it_concerns() {
    let (mut world, mut osts) = scene();
    let import = world.client.osts[&0];
    world.act(|client, _| client.with_grant_for_tests(import, 5000));
    let first = world.write(0, &[1; 4096]);
    osts.serve(&mut world);
    assert_eq!(first.outcome(), Ok(()));
    osts.fails = Some(-ENOSPC);
    start_flush(&mut world);
    osts.serve(&mut world);
    assert_eq!(world.client.cache_counts().lost, 4096);
    let lost = LostWrites { fid: FILE, uid: 0, error: ClientError::Errno(ENOSPC), bytes: 4096 };
    assert_eq!(world.client.take_losses(), [lost]);
    assert_eq!(world.client.take_losses(), []);
    // Of another program; it waits because there is no grant, and is stored.
    let second = world.write(20_000, &[2; 4096]);
    osts.serve(&mut world);
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!((second.outcome(), synced.outcome()), (Ok(()), Err(ClientError::Errno(ENOSPC))));
}

/// The error of write(2) says that its bytes are not stored. Lost is what write(2) had taken.
#[test]
fn what_a_write_itself_has_reported_is_not_lost() {
    let (mut world, mut osts) = scene();
    let import = world.client.osts[&0];
    world.act(|client, _| client.with_grant_for_tests(import, 0));
    osts.fails = Some(-ENOSPC);
    let refused = world.write(0, &[1; 4096]);
    osts.serve(&mut world);
    assert_eq!(refused.outcome(), Err(ClientError::Errno(ENOSPC)));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!((synced.outcome(), world.client.cache_counts().lost), (Ok(()), 0));
    // Bytes that were taken before are written again with new ones for which there is no grant.
    world.act(|client, _| client.with_grant_for_tests(import, 5000));
    let taken = world.write(8192, &[2; 4096]);
    osts.serve(&mut world);
    assert_eq!(taken.outcome(), Ok(()));
    let refused = world.write(8192 + 2048, &[3; 40_000]);
    osts.fails = Some(-ENOSPC);
    osts.serve(&mut world);
    assert_eq!(refused.outcome(), Err(ClientError::Errno(ENOSPC)));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Err(ClientError::Errno(ENOSPC)));
    assert_eq!(world.client.cache_counts().lost, 2048);
}

/// Servers are not to be trusted: by its resource the client finds what a lock protects.
#[test]
fn a_lock_of_another_object_is_refused_and_given_back() {
    let (mut world, mut osts) = scene();
    let read = world.read(0, 10);
    let asked = world.next(Kind::Enqueue);
    let lvb = osts.lvb(0);
    osts.grant_changed(&mut world, &asked, lvb, |desc| {
        let oi = object_of(desc);
        desc.resource = lustrine_fswire::ldlm::Resource::of_object(Fid { oid: oi.oid + 1, ..oi });
    });
    osts.serve(&mut world);
    let outcome = read.outcome();
    assert!(matches!(outcome, Err(ClientError::Malformed(_))), "{outcome:?}");
    assert!(osts.locks.is_empty(), "the server has it back");
}

/// The same.
#[test]
fn locks_that_end_before_they_begin_do_no_harm() {
    let (mut world, mut osts) = scene();
    let extent = Extent { start: 4096, end: 0, gid: 0 };
    for _ in 0..2 {
        let _size = world.size();
        while let Some(asked) = world.asked.pop_front() {
            match asked.kind {
                Kind::Enqueue => {
                    let lvb = osts.lvb(0);
                    osts.grant_as(&mut world, &asked, (Some(extent), lvb));
                }
                _ => osts.answer(&mut world, &asked),
            }
        }
    }
    osts.call_back(&mut world, 0, LockFlags::empty());
    osts.serve(&mut world);
}

/// The completion was faster than the reply, which says that somebody wants the lock.
#[test]
fn ast_sent_in_a_late_reply_is_honoured() {
    let (mut world, mut osts) = scene();
    let written = world.write(10, b"hello");
    let asked = world.next(Kind::Enqueue);
    let (desc, handle) = asked.with(|request| match request {
        Request::Enqueue(dlm::Lock { lock }) => (lock.desc, lock.handle(0).expect("a handle")),
        other => panic!("{other:?}"),
    });
    let remote = Handle(0x9001);
    let desc = LockDesc { granted_mode: desc.req_mode, ..desc };
    let lvb = lustrine_fswire::codec::Wire::to_bytes(&osts.lvb(0));
    let handles = [handle, remote];
    let (flags, count) = (LockFlags::empty(), 0);
    let lock = LdlmRequest { flags, count, desc, handles: handles.as_slice().into() };
    let request = Request::LdlmCpCallback(dlm::Completion { lock, lvb: Lvb(&lvb) });
    osts.locks.push((handle, remote, 0, LockMode::PW));
    assert_eq!(world.callback(0, &request), 0);
    assert_eq!(written.outcome(), Ok(()));
    let flags = LockFlags::BLOCK_GRANTED | LockFlags::AST_SENT;
    let reply = LdlmReply { flags, desc, handle: remote, ..LdlmReply::default() };
    let reply = dlm::EnqueueReply { reply, lvb: Some(Lvb(&lvb)) };
    world.answer(&asked, 0, &ReplyBuffers::Enqueue(reply));
    osts.serve(&mut world);
    assert_eq!(osts.seen, [Kind::OstWrite, Kind::LdlmCancel]);
}

/// tar(1) takes a file without blocks for a hole.
#[test]
fn blocks_of_data_on_their_way_count() {
    let (mut world, mut osts) = dirty();
    let size = world.size();
    osts.serve(&mut world);
    assert_eq!(size.outcome(), Ok((15, 1)));
    let _synced = world.fsync();
    assert_eq!(world.size().outcome(), Ok((15, 1)));
}

/// One that has no memory is not a reason for the others to fail, nor to call one another: with
/// some 700 of them the stack of a thread of 2 MiB is used up.
#[test]
fn reads_wait_for_memory_and_do_not_nest() {
    let (mut world, mut osts) = scene();
    // A lock of the first object, which is long at the server.
    osts.objects.insert(0, vec![0; 40 << 20]);
    let read = world.read(0, 10);
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0.len(), 10);
    // Backwards, so that nothing is read ahead. All but eight wait for those.
    let slots: Vec<_> = (200..500).rev().map(|at| world.read(131_072 * at, 10)).collect();
    let asked = world.next(Kind::OstRead);
    // Whatever is asked for now has no memory.
    world.net.nodes[0].memory.limit = world.net.nodes[0].memory.live;
    osts.answer(&mut world, &asked);
    let over = slots.iter().filter(|slot| !slot.is_pending()).count();
    assert_eq!(over, 1);
}

/// tail(1), or a child that closes what it has inherited.
#[test]
fn a_close_of_another_program_does_not_take_the_error_of_a_write() {
    let (mut world, mut osts) = dirty();
    osts.fails = Some(-ENOSPC);
    start_flush(&mut world);
    osts.serve(&mut world);
    // What the mount does at a close of any descriptor.
    let other = world.act(|client, _| client.write_error(FILE));
    let synced = world.fsync();
    osts.serve(&mut world);
    println!("the other one got {other:?}");
    assert_eq!(synced.outcome(), Err(ClientError::Errno(ENOSPC)));
}

impl World {
    /// The server of the first object evicts the client.
    pub(super) fn evict(&mut self, osts: &mut Osts) {
        osts.locks.retain(|(_, _, stripe, _)| *stripe != 0);
        self.act(|client, turn| {
            let import = client.osts[&0];
            client.locks_evicted(turn, import);
            client.settle(turn);
        });
    }
}

/// A read that begins afterwards has a lock of its own, and must get what the server has then.
#[test]
fn what_was_asked_for_before_an_eviction_is_not_waited_for() {
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![7; 40 << 20]);
    let read = world.read(0, 10);
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0.len(), 10);
    // Backwards, so that nothing is read ahead. Eight are asked for, the others wait for those.
    let slots: Vec<_> = (200..210).rev().map(|at| world.read(131_072 * at, 10)).collect();
    let asked: Vec<Asked> = (0..8).map(|_| world.next(Kind::OstRead)).collect();
    world.evict(&mut osts);
    for slot in slots {
        assert_eq!(slot.outcome().unwrap_err(), ClientError::Rpc(RpcError::Evicted));
    }
    osts.objects.insert(0, vec![8; 40 << 20]);
    let again: Vec<_> = (200..210).map(|at| world.read(131_072 * at, 10)).collect();
    let enqueue = world.next(Kind::Enqueue);
    osts.answer(&mut world, &enqueue);
    for asked in &asked {
        world.answer(asked, -71, &ReplyBuffers::Bare);
    }
    osts.serve(&mut world);
    for slot in again {
        assert_eq!(slot.outcome().unwrap().0, [8; 10]);
    }
}

/// A server has restarted, says that the replay of a lock went well, and names no lock: it may
/// give the object to somebody else, so nothing of it is kept.
#[test]
fn data_are_not_kept_when_the_replay_of_their_lock_is_answered_without_one() {
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![7; 40 << 20]);
    let read = world.read(0, 10);
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0, [7; 10]);
    assert_eq!(world.read(0, 10).outcome().unwrap().0, [7; 10]);
    world.recovering = true;
    let _ = world.read(131_072 * 200, 10);
    world.refuse(Kind::OstRead, crate::error::errno::ENOTCONN);
    let asked = world.next(Kind::OstConnect);
    let granted = obd::ConnectReply { data: offers::of(Target::Ost, true, false) };
    world.answer(&asked, 0, &ReplyBuffers::OstConnect(granted));
    let replay = world.next(Kind::Enqueue);
    let flags = replay.with(|request| match request {
        Request::Enqueue(dlm::Lock { lock }) => lock.flags,
        other => panic!("{other:?}"),
    });
    assert!(flags.contains(LockFlags::REPLAY));
    osts.locks.clear();
    let reply = dlm::EnqueueReply { reply: LdlmReply::default(), lvb: None };
    world.answer(&replay, 0, &ReplyBuffers::Enqueue(reply));
    let ping = world.next(Kind::ObdPing);
    world.answer(&ping, 0, &ReplyBuffers::Bare);
    // What was in flight under the old lock ends.
    while let Some(asked) = world.asked.pop_front() {
        world.answer(&asked, -crate::error::errno::EIO, &ReplyBuffers::Bare);
    }
    osts.objects.insert(0, vec![8; 40 << 20]);
    let read = world.read(0, 10);
    osts.serve(&mut world);
    assert_eq!(read.outcome().unwrap().0, [8; 10]);
}

/// The close of another program has reported the error, and then another client writes.
#[test]
fn an_error_is_reported_by_fsync_after_the_lock_is_gone() {
    let (mut world, mut osts) = dirty();
    osts.fails = Some(-ENOSPC);
    start_flush(&mut world);
    osts.serve(&mut world);
    assert!(world.act(|client, _| client.write_error(FILE)).is_some());
    osts.call_back(&mut world, 0, LockFlags::empty());
    osts.serve(&mut world);
    assert!(osts.locks.is_empty());
    for expected in [Err(ClientError::Errno(ENOSPC)), Ok(())] {
        let synced = world.fsync();
        osts.serve(&mut world);
        assert_eq!(synced.outcome(), expected);
    }
    assert_eq!(world.client.cache_counts().objects, 0);
}

/// Whose bytes are lost learns of it, also if an fsync of another program has the same news.
#[test]
fn who_waits_for_a_write_learns_of_an_eviction_beside_an_fsync() {
    let (mut world, mut osts) = dirty();
    // It is dirty again, and sent later.
    osts.fails = Some(-5);
    start_flush(&mut world);
    osts.serve(&mut world);
    let key = |client: &Client| client.written_object_for_tests(FILE);
    let written: Slot<()> = world.start(|client, turn, done| {
        let key = key(client);
        client.flush_parts(turn, vec![(key, 10..15)], done);
    });
    let synced = world.fsync();
    world.evict(&mut osts);
    osts.serve(&mut world);
    let lost = Err(ClientError::Rpc(RpcError::Evicted));
    assert_eq!((written.outcome(), synced.outcome()), (lost.clone(), lost));
}

#[test]
fn a_close_reports_each_write_that_is_lost() {
    let (mut world, mut osts) = dirty();
    for _ in 0..2 {
        osts.fails = Some(-ENOSPC);
        start_flush(&mut world);
        osts.serve(&mut world);
        for error in [Some(ClientError::Errno(ENOSPC)), None] {
            assert_eq!(world.act(|client, _| client.write_error(FILE)), error);
        }
        assert_eq!(world.write(10, b"again").outcome(), Ok(()));
    }
}

/// Its server would evict this client, with all that is not written there. Others append
/// meanwhile.
#[test]
fn an_append_that_waits_for_a_server_gives_its_other_lock_to_others() {
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![1; 100]);
    let appended = world.append(b"end");
    let first = world.next(Kind::Enqueue);
    osts.answer(&mut world, &first);
    // The second server has restarted, and takes its time.
    world.recovering = true;
    world.refuse(Kind::Enqueue, crate::error::errno::ENOTCONN);
    let connect = world.next(Kind::OstConnect);
    assert!(world.asked.is_empty());
    osts.call_back(&mut world, 0, LockFlags::empty());
    let cancel = world.next(Kind::LdlmCancel);
    osts.answer(&mut world, &cancel);
    osts.objects.insert(0, vec![1; 1000]);
    let granted = obd::ConnectReply { data: offers::of(Target::Ost, true, false) };
    world.answer(&connect, 0, &ReplyBuffers::OstConnect(granted));
    osts.serve(&mut world);
    assert_eq!(appended.outcome().map(|appended| appended.offset), Ok(1000));
}

/// The first object ends behind the second one, and its lock is gone.
#[test]
fn an_append_that_has_lost_a_lock_does_not_know_the_end() {
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![1; 65_536 + 100]);
    osts.objects.insert(1, vec![2; 100]);
    let appended = world.append(b"x");
    let first = world.next(Kind::Enqueue);
    osts.answer(&mut world, &first);
    let second = world.next(Kind::Enqueue);
    world.evict(&mut osts);
    osts.answer(&mut world, &second);
    assert_eq!(appended.outcome().unwrap_err(), ClientError::Rpc(RpcError::Evicted));
    assert_eq!(world.client.cache_counts().dirty, 0);
}

/// Somebody else may have written there since.
#[test]
fn data_are_not_written_when_their_lock_is_gone() {
    let (mut world, _) = dirty();
    let import = world.client.osts[&0];
    world.act(|client, _| drop(client.locks.at(import).clear()));
    start_flush(&mut world);
    assert!(world.asked.is_empty());
    assert_eq!(world.client.cache_counts().lost, 5);
}
