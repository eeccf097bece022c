//! Servers that crash and start again: what was not on their disks is lost there, and clients
//! bring it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::world::{CALLER, Links, MDT, OST, World};
use lustrine_client::{Changes, ClientError, FileOwner, FlockArgs, FlockMode, OpenArgs};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::time::Nanos;
use lustrine_lnet_testing::Delivery;
use lustrine_server::{CommitTunables, TargetTunables};

const OWNER: FileOwner = FileOwner { uid: 0, gid: 0, projid: 0 };

fn create_args() -> OpenArgs {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
    OpenArgs { flags, mode: 0o644, umask: 0o022 }
}

/// Clients of targets that commit seldom.
fn lagging(clients: usize) -> World {
    let commit = CommitTunables { interval: Nanos::from_secs(1000), latency: Nanos(0) };
    let tunables = TargetTunables { commit, ..TargetTunables::default() };
    let mut world = World::new(clients, tunables);
    for client in 0..clients {
        world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
    }
    world
}

fn crash(world: &mut World, target: usize) {
    world.server.crash_target(target);
    world.server.start_target(target);
}

#[test]
fn what_a_crash_loses_is_replayed() {
    let mut world = lagging(2);
    let root = world.root;
    let dir = world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done)).unwrap();
    let file = world
        .wait(1, |c, t, done| c.create(t, CALLER, dir.fid, b"f", create_args(), done))
        .unwrap();
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    let (from, to) = ((dir.fid, &b"f"[..]), (root, &b"g"[..]));
    world.wait(0, |c, t, done| c.rename(t, CALLER, from, to, 0o100_000, done)).unwrap();
    let changes = Changes { mode: Some(0o600), ..Changes::default() };
    world.wait(1, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done)).unwrap();
    let before = world.server.targets()[MDT].clone();
    crash(&mut world, MDT);
    let after = world.server.targets()[MDT].clone();
    assert_eq!((before.files, after.files), (3, 1), "the crash loses what is not committed");
    assert!(after.recovering);
    let attr = world.wait(0, |c, t, done| c.lookup(t, CALLER, root, b"g", done)).unwrap();
    assert_eq!((attr.fid, attr.mode), (fid, 0o100_600));
    assert_eq!(world.server.targets()[MDT].files, 3);
    // The file is still open, with the same objects and another handle.
    world
        .wait(1, |c, t, done| {
            c.write(t, CALLER, (fid, OWNER), &layout, (0, b"data"[..].into()), done)
        })
        .unwrap();
    let again = world.wait(0, |c, t, done| c.getattr(t, CALLER, fid, done)).unwrap();
    assert_eq!(again.layout, file.attr.layout);
    world.wait(1, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    let view = world.server.targets()[MDT].clone();
    assert_eq!((view.opens, view.evictions, view.recovering), (0, 0, false));
}

#[test]
fn what_is_on_the_disk_is_not_done_again() {
    let mut world = lagging(1);
    let root = world.root;
    world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done)).unwrap();
    world.wait(0, |c, t, done| c.sync(t, CALLER, root, done)).unwrap();
    crash(&mut world, MDT);
    assert_eq!(world.server.targets()[MDT].files, 2);
    world.wait(0, |c, t, done| c.unlink(t, CALLER, root, b"d", true, done)).unwrap();
    assert_eq!(world.server.targets()[MDT].files, 1);
}

/// The change is on the disk, its reply is lost, and the server crashes: the client sends it again
/// and gets the reply that was kept.
#[test]
fn a_change_whose_reply_is_lost_is_made_once() {
    for lose_by_crash in [false, true] {
        let mut world = World::mounted(1);
        let root = world.root;
        world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"a", (0o755, 0), done)).unwrap();
        // Whatever the server sends from now on is lost.
        let server = world.net.nodes[1].nid;
        world.fate = Box::new(move |net| match net.packets[0].header.src.nid == server {
            true => Delivery::Lose,
            false => Delivery::Deliver,
        });
        let slot = world.start(0, |c, t, done| {
            c.mkdir(t, CALLER, root, b"b", (0o755, 0), done);
        });
        let opened = world.start(0, |c, t, done| {
            c.create(t, CALLER, root, b"f", create_args(), done);
        });
        world.settle();
        assert!(slot.is_pending() && opened.is_pending());
        assert_eq!(world.server.targets()[MDT].files, 4);
        if lose_by_crash {
            // Long enough for a commit.
            world.pass(6);
            crash(&mut world, MDT);
            assert_eq!(world.server.targets()[MDT].files, 4);
        }
        world.fate = Box::new(|_| Delivery::Deliver);
        assert_eq!(world.outcome(&slot).map(|attr| attr.nlink), Ok(2));
        let file = world.outcome(&opened).unwrap();
        assert!(file.created);
        assert_eq!(world.server.targets()[MDT].opens, 1);
        world.wait(0, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
        let view = world.server.targets()[MDT].clone();
        assert_eq!((view.files, view.opens), (4, 0));
    }
}

/// The reply to an open is lost, and after a restart the one that the server gives again as well:
/// the file is open once.
#[test]
fn an_open_whose_reply_is_lost_before_and_after_a_restart_is_made_once() {
    let mut world = World::mounted(1);
    let root = world.root;
    // The client has FIDs after it.
    world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done)).unwrap();
    let server = world.net.nodes[1].nid;
    // The reply to an open is longer than all others.
    let (longest, lost) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let of_open = Arc::clone(&longest);
    world.fate = Box::new(move |net| {
        let header = &net.packets[0].header;
        if header.src.nid != server {
            return Delivery::Deliver;
        }
        of_open.fetch_max(header.payload_len, Relaxed);
        Delivery::Lose
    });
    let opened = world.start(0, |c, t, done| {
        c.create(t, CALLER, root, b"f", create_args(), done);
    });
    world.settle();
    // Long enough for a commit.
    world.pass(6);
    crash(&mut world, MDT);
    let times = Arc::clone(&lost);
    world.fate = Box::new(move |net| {
        let header = &net.packets[0].header;
        let is_open = header.src.nid == server && header.payload_len == longest.load(Relaxed);
        match is_open && times.fetch_add(1, Relaxed) == 0 {
            true => Delivery::Lose,
            false => Delivery::Deliver,
        }
    });
    let file = world.outcome(&opened).unwrap();
    assert!(lost.load(Relaxed) > 1, "the reply came at the second attempt after the restart");
    assert_eq!(world.server.targets()[MDT].opens, 1);
    world.wait(0, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    assert_eq!(world.server.targets()[MDT].opens, 0);
}

/// A server answers a close that it has executed before it restarted, and does not execute it
/// again: the client must not open the file once more.
#[test]
fn a_file_whose_close_was_not_answered_before_a_restart_is_closed() {
    let mut world = World::mounted(1);
    let root = world.root;
    let file =
        world.wait(0, |c, t, done| c.create(t, CALLER, root, b"f", create_args(), done)).unwrap();
    let other =
        world.wait(0, |c, t, done| c.create(t, CALLER, root, b"o", create_args(), done)).unwrap();
    // Long enough for a commit, and a ping whose answer says so.
    world.pass(60);
    let server = world.net.nodes[1].nid;
    world.fate = Box::new(move |net| match net.packets[0].header.src.nid == server {
        true => Delivery::Lose,
        false => Delivery::Deliver,
    });
    let closed = world.start(0, |c, t, done| c.close(t, CALLER, file, None, done));
    world.settle();
    assert!(closed.is_pending());
    assert_eq!(world.server.targets()[MDT].opens, 1, "the close is executed");
    world.pass(6);
    crash(&mut world, MDT);
    world.fate = Box::new(|_| Delivery::Deliver);
    world.outcome(&closed).unwrap();
    assert_eq!(world.server.targets()[MDT].opens, 1, "only the other file is open again");
    world.wait(0, |c, t, done| c.close(t, CALLER, other, None, done)).unwrap();
    assert_eq!(world.server.targets()[MDT].opens, 0);
}

/// The close that is replayed directly after its open closes what that has opened.
#[test]
fn a_file_that_was_closed_before_a_restart_is_not_open_after_it() {
    let mut world = lagging(1);
    let root = world.root;
    for name in [b"f", b"g"] {
        let file = world.wait(0, |c, t, done| c.create(t, CALLER, root, name, create_args(), done));
        let file = file.unwrap();
        world.wait(0, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    }
    assert_eq!(world.server.targets()[MDT].opens, 0);
    crash(&mut world, MDT);
    world.pass(200);
    for name in [b"f", b"g"] {
        world.wait(0, |c, t, done| c.lookup(t, CALLER, root, name, done)).unwrap();
    }
    assert_eq!(world.server.targets()[MDT].opens, 0);
}

#[test]
fn locks_come_back_after_a_restart() {
    let mut world = lagging(2);
    let root = world.root;
    let args = FlockArgs { mode: FlockMode::Write, start: 0, end: 9, owner: 5, pid: 1 };
    let lock = |world: &mut World, client, wait| {
        world.start(client, |c, t, done| {
            c.flock(t, CALLER, root, args, wait, done);
        })
    };
    let slot = lock(&mut world, 0, true);
    world.outcome(&slot).unwrap();
    let waits = lock(&mut world, 1, true);
    world.settle();
    crash(&mut world, MDT);
    // Both notice, at the latest, with their next pings.
    world.pass(200);
    assert!(waits.is_pending());
    assert_eq!(world.server.targets()[MDT].locks, 2);
    let refused = lock(&mut world, 1, false);
    assert_eq!(world.outcome(&refused).unwrap_err().errno(), 11);
    let unlock = FlockArgs { mode: FlockMode::Unlock, ..args };
    world
        .wait(0, |c, t, done| {
            c.flock(t, CALLER, root, unlock, true, done);
        })
        .unwrap();
    world.outcome(&waits).unwrap();
}

#[test]
fn a_client_that_does_not_come_back_is_given_up() {
    let mut world = lagging(2);
    let root = world.root;
    world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done)).unwrap();
    crash(&mut world, MDT);
    // The second client is cut off.
    let cut = world.net.nodes[1].nid;
    world.fate = Box::new(move |net| match net.packets[0].header.src.nid == cut {
        true => Delivery::Lose,
        false => Delivery::Deliver,
    });
    let start = world.now;
    let attr = world.wait(0, |c, t, done| c.lookup(t, CALLER, root, b"d", done)).unwrap();
    assert_eq!(attr.mode, 0o040_755);
    assert!(world.now.since(start) >= Nanos::from_secs(300));
    assert_eq!(world.server.targets()[MDT].evictions, 1);
    // It comes late: what it had is void, and it goes on.
    world.fate = Box::new(|_| Delivery::Deliver);
    let again = world.wait(1, |c, t, done| c.lookup(t, CALLER, root, b"d", done));
    match again {
        Ok(attr) => assert_eq!(attr.mode, 0o040_755),
        Err(error) => assert_eq!(error.errno(), 5),
    }
    world.wait(1, |c, t, done| c.lookup(t, CALLER, root, b"d", done)).unwrap();
}

/// Its last ping is answered when recovery is over, and until then it says nothing more.
#[test]
fn a_client_that_waits_long_for_the_others_is_not_silent() {
    let mut world = lagging(2);
    crash(&mut world, MDT);
    let cut = world.net.nodes[1].nid;
    world.fate = Box::new(move |net| match net.packets[0].header.src.nid == cut {
        true => Delivery::Lose,
        false => Delivery::Deliver,
    });
    // Longer than a silence may last, and shorter than recovery may.
    world.pass(250);
    assert!(world.server.targets()[MDT].recovering);
    world.fate = Box::new(|_| Delivery::Deliver);
    world.pass(100);
    let view = world.server.targets()[MDT].clone();
    assert_eq!((view.recovering, view.clients, view.evictions), (false, 2, 0));
}

/// Objects whose files are gone are destroyed during the recovery of the metadata target: what it
/// notes of that must not pass for what a client has still to replay.
#[test]
fn what_a_target_does_by_itself_in_recovery_commits_no_replays() {
    let commit = CommitTunables { interval: Nanos::from_secs(1), latency: Nanos(0) };
    let mut world = World::new(2, TargetTunables { commit, ..TargetTunables::default() });
    for client in 0..2 {
        world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
    }
    let root = world.root;
    let file =
        world.wait(0, |c, t, done| c.create(t, CALLER, root, b"f", create_args(), done)).unwrap();
    world.wait(0, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    [OST, OST + 1].into_iter().for_each(|target| world.server.crash_target(target));
    world.wait(0, |c, t, done| c.unlink(t, CALLER, root, b"f", false, done)).unwrap();
    world.pass(10);
    for (client, name) in [(0, &b"a"[..]), (1, b"b")] {
        let mode = (0o755, 0);
        world.wait(client, |c, t, done| c.mkdir(t, CALLER, root, name, mode, done)).unwrap();
    }
    world.server.crash_target(MDT);
    [OST, OST + 1].into_iter().for_each(|target| world.server.start_target(target));
    world.pass(200);
    world.server.start_target(MDT);
    let until_there_are = |world: &mut World, files| {
        let end = world.now + Nanos::from_secs(200);
        while world.server.targets()[MDT].files < files {
            assert!(world.now < end, "nothing is replayed");
            world.settle();
            world.advance();
        }
    };
    // The first directory is there again, and its client does not hear of it and is silent.
    world.links = Some(Links::new(1, (Nanos::from_millis(10), Nanos(0))));
    until_there_are(&mut world, 2);
    world.links.as_mut().unwrap().cut.insert(0);
    world.pass(10);
    world.links.as_mut().unwrap().cut.clear();
    until_there_are(&mut world, 3);
    crash(&mut world, MDT);
    world.links = None;
    for name in [&b"a"[..], b"b"] {
        world.wait(0, |c, t, done| c.lookup(t, CALLER, root, name, done)).unwrap();
    }
}

#[test]
fn an_evicted_client_loses_what_it_had_and_goes_on() {
    let mut world = World::mounted(1);
    let root = world.root;
    let file =
        world.wait(0, |c, t, done| c.create(t, CALLER, root, b"f", create_args(), done)).unwrap();
    let args = FlockArgs { mode: FlockMode::Read, start: 0, end: 9, owner: 5, pid: 1 };
    world
        .wait(0, |c, t, done| {
            c.flock(t, CALLER, root, args, true, done);
        })
        .unwrap();
    assert!(world.at_server(|server, turn| server.evict(turn, MDT, b"client-0")));
    let view = world.server.targets()[MDT].clone();
    assert_eq!((view.clients, view.locks, view.opens), (0, 0, 0));
    let failed = world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done));
    assert!(matches!(failed, Err(ClientError::Rpc(_))), "{failed:?}");
    world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done)).unwrap();
    // The handle is void, and the close is no error.
    world.wait(0, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
}

/// What a client keeps from others it has to give back, or it is evicted.
#[test]
fn a_client_that_keeps_a_lock_is_evicted() {
    let mut world = World::mounted(2);
    let root = world.root;
    let file =
        world.wait(0, |c, t, done| c.create(t, CALLER, root, b"f", create_args(), done)).unwrap();
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    // The first client gets its locks, and nothing of it arrives from then on.
    let silent = world.net.nodes[0].nid;
    let append = world.start(0, |c, t, done| {
        c.append(t, CALLER, (fid, OWNER), layout.clone(), b"x"[..].into(), done);
    });
    world.fate = Box::new(move |net| match net.packets[0].header.src.nid == silent {
        true => Delivery::Lose,
        false => Delivery::Deliver,
    });
    drop(append);
    world.settle();
    let start = world.now;
    world
        .wait(1, |c, t, done| {
            c.write(t, CALLER, (fid, OWNER), &layout, (0, b"yy"[..].into()), done)
        })
        .unwrap();
    let waited = world.now.since(start);
    let view = world.server.targets()[OST].clone();
    assert!(waited < Nanos::from_secs(200) && view.locks == 0, "{waited:?} {view:?}");
}

#[test]
fn data_that_are_synced_survive_and_others_come_back() {
    let mut world = lagging(1);
    let root = world.root;
    let file =
        world.wait(0, |c, t, done| c.create(t, CALLER, root, b"f", create_args(), done)).unwrap();
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    let data = vec![7; 200_000];
    world
        .wait(0, |c, t, done| {
            c.write(t, CALLER, (fid, OWNER), &layout, (0, data.clone().into()), done)
        })
        .unwrap();
    let changes = Changes { size: Some(150_000), ..Changes::default() };
    world.wait(0, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done)).unwrap();
    for target in [OST, OST + 1] {
        crash(&mut world, target);
    }
    let (size, _) = world.wait(0, |c, t, done| c.size(t, CALLER, fid, &layout, done)).unwrap();
    assert_eq!(size, 150_000);
    let read =
        world.wait(0, |c, t, done| c.read(t, CALLER, fid, &layout, (0, 150_000), done)).unwrap();
    assert!(read == data[..150_000]);
}
