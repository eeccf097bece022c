//! Data that servers have, and have not committed [OST-24].

use lustrine_fswire::body::BodyFlags;
use lustrine_lnet::status::Status;

use super::*;

/// A client whose servers answer writes before they commit them.
fn scene() -> (World, Osts) {
    let (mut world, osts) = super::scene();
    world.transactions = (1, 0);
    (world, osts)
}

/// The flags of a write.
fn flags(asked: &Asked) -> NiobufFlags {
    asked.with(|request| match request {
        Request::OstWrite(write) => write.niobufs.get(0).expect("a range").flags,
        other => panic!("{other:?}"),
    })
}

/// Has data at the first server, which has not committed them.
fn unstable() -> (World, Osts) {
    let (mut world, mut osts) = scene();
    let written = world.write(10, b"hello");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    world.act(|client, turn| client.start_flush(turn, FILE));
    let asked = world.next(Kind::OstWrite);
    assert_eq!(flags(&asked) & (NiobufFlags::SYNC | NiobufFlags::ASYNC), NiobufFlags::ASYNC);
    osts.answer(&mut world, &asked);
    let counts = world.client.cache_counts();
    assert_eq!((counts.dirty, counts.unstable), (0, 5));
    (world, osts)
}

fn unstable_bytes(world: &World) -> u64 {
    world.client.cache_counts().unstable
}

#[test]
fn it_is_forgotten_when_the_server_has_committed_it() {
    let (mut world, mut osts) = unstable();
    // A ping asks for that.
    world.pass(Nanos::from_secs(5));
    osts.serve(&mut world);
    assert_eq!(unstable_bytes(&world), 5);
    world.transactions.1 = 2;
    world.pass(Nanos::from_secs(5));
    osts.serve(&mut world);
    assert_eq!(unstable_bytes(&world), 0);
    assert!(world.client.calls.is_empty(), "nothing is kept");
}

#[test]
fn fsync_has_it_committed() {
    let (mut world, mut osts) = unstable();
    let synced = world.fsync();
    world.transactions.1 = 2;
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    let syncs = osts.seen.iter().filter(|kind| **kind == Kind::OstSync).count();
    assert_eq!(syncs, 2, "one for each object");
    assert_eq!(unstable_bytes(&world), 0);
}

#[test]
fn an_unmount_has_all_of_it_committed() {
    let (mut world, mut osts) = unstable();
    osts.seen.clear();
    let flushed = world.start(|client, turn, done| client.flush_all(turn, done));
    assert!(flushed.is_pending());
    osts.serve(&mut world);
    assert_eq!(flushed.outcome(), Ok(()));
    assert_eq!(osts.seen, [Kind::OstSync]);
}

#[test]
fn who_writes_through_waits_for_the_disk() {
    let (mut world, mut osts) = scene();
    let through = |world: &mut World| {
        world.start(|client, turn, done| {
            client.write_through(turn, FILE, &striped(), (10, 5), done);
        })
    };
    let written = world.write(10, b"hello");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    let stored = through(&mut world);
    let asked = world.next(Kind::OstWrite);
    assert!(flags(&asked).contains(NiobufFlags::SYNC));
    world.transactions = (2, 2);
    osts.answer(&mut world, &asked);
    assert_eq!(stored.outcome(), Ok(()));
    // What is on its way already need not be committed.
    world.transactions = (3, 2);
    assert_eq!(world.write(10, b"HELLO").outcome(), Ok(()));
    world.act(|client, turn| client.start_flush(turn, FILE));
    let asked = world.next(Kind::OstWrite);
    assert!(flags(&asked).contains(NiobufFlags::ASYNC));
    let stored = through(&mut world);
    osts.answer(&mut world, &asked);
    assert!(stored.is_pending());
    let asked = world.next(Kind::OstSync);
    osts.answer(&mut world, &asked);
    assert_eq!(stored.outcome(), Ok(()));
}

#[test]
fn not_more_is_kept_than_may_be_dirty() {
    // One target has half.
    let most = 2 * 65_536;
    let tunables = CacheTunables { max_dirty: 2 * most, ..CACHE };
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    world.transactions = (1, 0);
    let mut synchronous = Vec::new();
    for number in 0..6 {
        // Chunks of the first object.
        let written = world.write(number * 2 * 65_536, &[7; 65_536]);
        osts.serve(&mut world);
        assert_eq!(written.outcome(), Ok(()));
        world.act(|client, turn| client.start_flush(turn, FILE));
        let asked = world.next(Kind::OstWrite);
        let is_synchronous = flags(&asked).contains(NiobufFlags::SYNC);
        synchronous.push(is_synchronous);
        if is_synchronous {
            // With what came before.
            world.transactions.1 = world.transactions.0;
        }
        osts.answer(&mut world, &asked);
        world.transactions.0 += u64::from(is_synchronous);
        assert!(unstable_bytes(&world) <= most);
    }
    assert_eq!(synchronous, [false, false, true, false, false, true]);
}

/// A server that restarts, and what it says of the write that it gets again.
fn restart(world: &mut World, osts: &mut Osts, status: i32) {
    world.recovering = true;
    world.transactions = (world.transactions.0, 0);
    world.pass(Nanos::from_secs(5));
    world.refuse(Kind::ObdPing, crate::error::errno::ENOTCONN);
    let asked = world.next(Kind::OstConnect);
    let granted = obd::ConnectReply { data: offers::of(Target::Ost, true, false) };
    world.answer(&asked, 0, &ReplyBuffers::OstConnect(granted));
    // Its data were not on the disk.
    osts.objects.remove(&0);
    let replay = world.next(Kind::OstWrite);
    assert!(replay.body.flags.contains(BodyFlags::REPLAY) && replay.body.transno == 2);
    world.transactions = (1, 0);
    osts.status = status;
    osts.answer(world, &replay);
    osts.status = 0;
    let lock = world.next(Kind::Enqueue);
    let desc = LockDesc { granted_mode: LockMode::PW, ..extent_desc(0) };
    let reply = LdlmReply { handle: osts.locks[0].1, desc, ..LdlmReply::default() };
    let reply = dlm::EnqueueReply { reply, lvb: None };
    world.answer(&lock, 0, &ReplyBuffers::Enqueue(reply));
    let ping = world.next(Kind::ObdPing);
    world.answer(&ping, 0, &ReplyBuffers::Bare);
}

#[test]
fn a_server_that_restarts_gets_it_again() {
    let (mut world, mut osts) = unstable();
    restart(&mut world, &mut osts, 0);
    assert_eq!(&osts.objects[&0][10..], b"hello");
    assert_eq!(world.client.cache_counts().lost, 0);
    let synced = world.fsync();
    world.transactions.1 = 10;
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
    assert_eq!(unstable_bytes(&world), 0);
}

#[test]
fn what_a_server_that_has_restarted_does_not_take_is_lost_and_reported_once() {
    let (mut world, mut osts) = unstable();
    restart(&mut world, &mut osts, -ENOSPC);
    assert_eq!((world.client.cache_counts().lost, unstable_bytes(&world)), (5, 0));
    let lost = LostWrites { fid: FILE, uid: 0, error: ClientError::Errno(ENOSPC), bytes: 5 };
    assert_eq!(world.client.take_losses(), [lost]);
    assert_eq!(world.fsync().outcome(), Err(ClientError::Errno(ENOSPC)));
    let synced = world.fsync();
    osts.serve(&mut world);
    assert_eq!(synced.outcome(), Ok(()));
}

/// What was written since, and is on its way, is not lost with it.
#[test]
fn what_is_lost_does_not_take_what_was_written_over_it() {
    let (mut world, mut osts) = unstable();
    assert_eq!(world.write(10, b"HELLO").outcome(), Ok(()));
    world.act(|client, turn| client.start_flush(turn, FILE));
    let newer = world.next(Kind::OstWrite);
    restart(&mut world, &mut osts, -ENOSPC);
    assert_eq!(world.client.cache_counts().lost, 5);
    let again = world.asked.iter().position(|asked| asked.kind == Kind::OstWrite);
    let newer = again.and_then(|at| world.asked.remove(at)).unwrap_or(newer);
    osts.fails = Some(-5);
    osts.answer(&mut world, &newer);
    assert_eq!(world.client.cache_counts().dirty, 5);
    for _ in 0..3 {
        world.pass(Nanos::from_secs(3));
        osts.serve(&mut world);
    }
    assert_eq!(&osts.objects[&0][10..], b"HELLO");
}

/// A server that evicts this client, and is connected again.
fn evict(world: &mut World, osts: &mut Osts, instance: u32) {
    world.pass(Nanos::from_secs(5));
    world.refuse(Kind::ObdPing, crate::error::errno::ENOTCONN);
    let asked = world.next(Kind::OstConnect);
    osts.locks.clear();
    let data = ConnectData { instance, ..offers::of(Target::Ost, true, false) };
    world.answer(&asked, 0, &ReplyBuffers::OstConnect(obd::ConnectReply { data }));
}

/// It has what it had, unless it has restarted.
#[test]
fn an_eviction_takes_what_the_server_has_lost_by_a_restart() {
    for (instance, lost) in [(INSTANCE, 0), (INSTANCE + 1, 5), (0, 5)] {
        let (mut world, mut osts) = unstable();
        evict(&mut world, &mut osts, instance);
        assert_eq!((world.client.cache_counts().lost, unstable_bytes(&world)), (lost, 0));
        let synced = world.fsync();
        osts.serve(&mut world);
        let error = ClientError::Rpc(RpcError::Evicted);
        assert_eq!(synced.outcome(), if lost == 0 { Ok(()) } else { Err(error) });
        let synced = world.fsync();
        osts.serve(&mut world);
        assert_eq!(synced.outcome(), Ok(()));
    }
}

/// The data of a file that was removed are not needed.
#[test]
fn what_was_written_to_a_file_that_is_removed_is_not_lost() {
    let (mut world, mut osts) = unstable();
    osts.call_back(&mut world, 0, LockFlags::DISCARD_DATA);
    osts.serve(&mut world);
    // The request takes its memory until the server has committed it.
    assert_eq!(unstable_bytes(&world), 5);
    assert!(world.client.unwritten().is_empty());
    evict(&mut world, &mut osts, INSTANCE + 1);
    assert_eq!((world.client.cache_counts().lost, unstable_bytes(&world)), (0, 0));
    let (mut world, mut osts) = unstable();
    restart(&mut world, &mut osts, -crate::error::errno::ENOENT);
    assert_eq!(world.client.cache_counts().lost, 0);
}

#[test]
fn an_fsync_that_waits_over_a_restart_reports_what_the_server_does_not_take_again() {
    let (mut world, mut osts) = unstable();
    let synced = world.fsync();
    let asked: Vec<Asked> = world.asked.drain(..).collect();
    let first = world.client.osts[&0];
    let of_first = |asked: &&Asked| asked.kind == Kind::OstSync && asked.object().oi == object(0);
    assert!(asked.iter().any(|asked| of_first(&asked)));
    for asked in asked.iter().filter(|asked| !of_first(asked)) {
        osts.answer(&mut world, asked);
    }
    world.recovering = true;
    world.act(|client, turn| {
        let peer = client.rpc.import(first).expect("it is there").peer();
        client.on_peer_down(turn, &peer, Status::ConnectionLost);
    });
    let mut replays = 0;
    for _ in 0..20 {
        let Some(asked) = world.asked.pop_front() else { break };
        match asked.kind {
            Kind::OstConnect | Kind::MdsConnect => {
                let target = if asked.kind == Kind::OstConnect { Target::Ost } else { Target::Mdt };
                let data = offers::of(target, true, false);
                let reply = obd::ConnectReply { data };
                let reply = match target {
                    Target::Ost => ReplyBuffers::OstConnect(reply),
                    _ => ReplyBuffers::MdsConnect(reply),
                };
                world.answer(&asked, 0, &reply);
            }
            Kind::OstWrite => {
                replays += 1;
                world.answer(&asked, -ENOSPC, &ReplyBuffers::Bare);
            }
            Kind::Enqueue => {
                let desc = LockDesc { granted_mode: LockMode::PW, ..extent_desc(0) };
                let handle = osts.locks[0].1;
                let reply = LdlmReply { handle, desc, ..LdlmReply::default() };
                let reply = dlm::EnqueueReply { reply, lvb: None };
                world.answer(&asked, 0, &ReplyBuffers::Enqueue(reply));
            }
            _ => osts.answer(&mut world, &asked),
        }
    }
    assert_eq!(replays, 1);
    assert_eq!(synced.outcome(), Err(ClientError::Errno(ENOSPC)));
}

/// Another program may have written to an object that this one does not know.
#[test]
fn fsync_has_all_objects_of_the_file_committed() {
    let (mut world, mut osts) = unstable();
    osts.seen.clear();
    let mut other = striped();
    let Place::Objects { objects, .. } = &mut other.components[0].place else { panic!() };
    objects.remove(0);
    let synced = world.start(|client, turn, done| {
        client.fsync(turn, Caller::ROOT, FILE, &other, done);
    });
    let asked: Vec<Asked> = world.asked.drain(..).collect();
    assert!(asked.iter().any(|one| one.kind == Kind::OstSync && one.object().oi == object(0)));
    asked.iter().for_each(|asked| osts.answer(&mut world, asked));
    assert_eq!(synced.outcome(), Ok(()));
}

/// Another file has lost something, and the server of this one says that it has no such object.
#[test]
fn an_unmount_has_everything_committed_that_can_be() {
    let (mut world, mut osts) = unstable();
    assert_eq!(world.client.unwritten().len(), 1);
    assert!(world.write(65_536, b"lost").is_pending());
    osts.serve(&mut world);
    osts.fails = Some(-ENOSPC);
    osts.seen.clear();
    let flushed = world.start(|client, turn, done| client.flush_all(turn, done));
    while let Some(asked) = world.asked.pop_front() {
        match asked.kind {
            Kind::OstSync => {
                osts.seen.push(asked.kind);
                world.answer(&asked, -crate::error::errno::ENOENT, &ReplyBuffers::Bare);
            }
            _ => osts.answer(&mut world, &asked),
        }
    }
    assert!(osts.seen.contains(&Kind::OstSync));
    assert_eq!(flushed.outcome(), Err(ClientError::Errno(ENOSPC)));
}

/// One of metadata may number a transaction that it has not committed, also if it is asked to.
#[test]
fn a_server_that_was_asked_to_commit_is_believed() {
    let mut world = World::new();
    world.transactions = (1, 0);
    let written = world.write(7, b"data");
    let asked = world.next(Kind::OstWrite);
    assert!(flags(&asked).contains(NiobufFlags::SYNC));
    let body = asked.with(|request| match request {
        Request::OstWrite(write) => write.body,
        other => panic!("{other:?}"),
    });
    let results = [0];
    let reply = ost::WriteReply { body, results: results.as_slice().into() };
    world.answer(&asked, 0, &ReplyBuffers::OstWrite(reply));
    assert_eq!(written.outcome(), Ok(()));
}

/// The server says that it could not store a part, which is dirty again.
#[test]
fn what_was_not_stored_is_lost_once() {
    let (mut world, mut osts) = scene();
    let written = world.write(10, b"hello");
    osts.serve(&mut world);
    assert_eq!(written.outcome(), Ok(()));
    world.act(|client, turn| client.start_flush(turn, FILE));
    osts.fails = Some(-crate::error::errno::EIO);
    osts.serve(&mut world);
    let counts = world.client.cache_counts();
    assert_eq!((counts.dirty, counts.unstable), (5, 5));
    assert_eq!(world.client.unwritten().iter().map(|loss| loss.bytes).sum::<u64>(), 5);
    world.evict(&mut osts);
    assert_eq!(world.client.cache_counts().lost, 5);
}
