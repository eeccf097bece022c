//! The client library on the servers: names, data, attributes.

use crate::world::{CALLER, MDT, World};
use lustrine_client::{Allocate, CacheTunables, Changes, ClientError, FileOwner, OpenArgs};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::{OpenFlags, XattrFlags};
use lustrine_server::TargetTunables;

const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);
const OWNER: FileOwner = FileOwner { uid: 0, gid: 0, projid: 0 };

fn create_args() -> OpenArgs {
    OpenArgs { flags: READ_WRITE | OpenFlags::CREAT, mode: 0o644, umask: 0o022 }
}

fn errno<T: core::fmt::Debug>(result: Result<T, ClientError>) -> i32 {
    result.expect_err("it fails").errno()
}

#[test]
fn a_client_mounts_and_finds_the_root() {
    let mut world = World::mounted(1);
    assert_eq!(world.root, Fid::ROOT);
    let root = world.root;
    let attr = world.wait(0, |c, t, done| c.getattr(t, CALLER, root, done)).unwrap();
    assert_eq!((attr.mode, attr.nlink), (0o040_755, 2));
    let space = world.wait(0, |c, t, done| c.statfs(t, done)).unwrap();
    assert_eq!(space.blocks, (2 << 30) / 4096);
    let args = lustrine_client::ClientArgs {
        mgs: vec![lustrine_lnet_testing::test_nid(1)],
        fsname: "other".to_owned(),
        fileset: String::new(),
        mgc_uuid: "m".to_owned(),
        uuid: "u".to_owned(),
        seed: 5,
        number: 1,
        wall_seconds: crate::world::WALL,
        wall_nanos: 0,
        imports: Default::default(),
        cache: lustrine_client::CacheTunables::NONE,
        mgc: lustrine_client::MgcTunables::default(),
    };
    world.clients[0] = lustrine_client::Client::new(lustrine_lnet::md::Owner(7), args);
    let refused = world.wait(0, |c, t, done| c.mount(t, done));
    assert_eq!(refused, Err(ClientError::NoFileSystem("other".to_owned())));
}

#[test]
fn names_are_made_listed_changed_and_removed() {
    let mut world = World::mounted(1);
    let root = world.root;
    let dir =
        world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"dir", (0o777, 0o022), done)).unwrap();
    assert_eq!((dir.mode, dir.nlink), (0o040_755, 2));
    let twice = world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"dir", (0o777, 0), done));
    assert_eq!(errno(twice), 17);
    let link =
        world.wait(0, |c, t, done| c.symlink(t, CALLER, dir.fid, b"link", b"../x", done)).unwrap();
    let target = world.wait(0, |c, t, done| c.readlink(t, CALLER, link.fid, done)).unwrap();
    assert_eq!(target, b"../x");
    let file = world
        .wait(0, |c, t, done| c.create(t, CALLER, dir.fid, b"file", create_args(), done))
        .unwrap();
    assert!(file.created && file.attr.mode == 0o100_644);
    let fid = file.attr.fid;
    let in_use = |world: &mut World| world.clients[0].in_use();
    assert_eq!(in_use(&mut world), (1, 0));
    world.wait(0, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    assert_eq!(in_use(&mut world), (0, 0), "also before the open is committed");
    world.wait(0, |c, t, done| c.link(t, CALLER, fid, root, b"second", done)).unwrap();
    let attr = world.wait(0, |c, t, done| c.lookup(t, CALLER, root, b"second", done)).unwrap();
    assert_eq!((attr.fid, attr.nlink), (fid, 2));
    let page = world.wait(0, |c, t, done| c.readdir(t, CALLER, dir.fid, 0, done)).unwrap();
    let mut names: Vec<&[u8]> = page.entries.iter().map(|entry| entry.name.as_slice()).collect();
    names.sort_unstable();
    assert_eq!(names, [&b"."[..], b"..", b"file", b"link"]);
    // A directory that is not empty stays, and does not go into itself.
    let busy = world.wait(0, |c, t, done| c.unlink(t, CALLER, root, b"dir", true, done));
    assert_eq!(errno(busy), 39);
    let (from, to) = ((root, &b"dir"[..]), (dir.fid, &b"in"[..]));
    let into = world.wait(0, |c, t, done| c.rename(t, CALLER, from, to, 0o040_000, done));
    assert_eq!(errno(into), 22);
    let (from, to) = ((dir.fid, &b"file"[..]), (root, &b"moved"[..]));
    world.wait(0, |c, t, done| c.rename(t, CALLER, from, to, 0o100_000, done)).unwrap();
    let gone = world.wait(0, |c, t, done| c.lookup(t, CALLER, dir.fid, b"file", done));
    assert_eq!(errno(gone), 2);
    for (parent, name, is_dir) in [
        (dir.fid, &b"link"[..], false),
        (root, b"dir", true),
        (root, b"moved", false),
        (root, b"second", false),
    ] {
        world.wait(0, |c, t, done| c.unlink(t, CALLER, parent, name, is_dir, done)).unwrap();
    }
    let page = world.wait(0, |c, t, done| c.readdir(t, CALLER, root, 0, done)).unwrap();
    assert_eq!(page.entries.len(), 2);
    // Objects of files that are gone go too, once that is on the disk.
    world.pass(20);
    assert_eq!(world.server.targets()[crate::world::MDT].files, 1);
}

#[test]
fn a_large_directory_is_read_in_parts() {
    let mut world = World::mounted(1);
    let root = world.root;
    for number in 0..3000 {
        let name = format!("a-name-that-is-long-enough-for-many-pages-{number:06}");
        let mode = (0o100_644, 0);
        world
            .wait(0, |c, t, done| c.mknod(t, CALLER, root, name.as_bytes(), mode, 0, done))
            .unwrap();
    }
    let (mut from, mut seen, mut parts) = (0, std::collections::BTreeSet::new(), 0);
    loop {
        let page = world.wait(0, |c, t, done| c.readdir(t, CALLER, root, from, done)).unwrap();
        parts += 1;
        for entry in page.entries {
            assert!(seen.insert(entry.name), "a name comes twice");
        }
        match page.next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!((seen.len(), parts), (3002, 2));
}

#[test]
fn data_are_written_read_cut_and_sized_over_stripes() {
    let mut world = World::mounted(2);
    let root = world.root;
    let file = world
        .wait(0, |c, t, done| c.create(t, CALLER, root, b"data", create_args(), done))
        .unwrap();
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    assert_eq!(layout.objects().count(), 2);
    // More than a megabyte and not aligned: several descriptors, both objects.
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    world
        .wait(0, |c, t, done| {
            c.write(t, CALLER, (fid, OWNER), &layout, (777, bytes.clone().into()), done);
        })
        .unwrap();
    let (size, _) = world.wait(1, |c, t, done| c.size(t, CALLER, fid, &layout, done)).unwrap();
    assert_eq!(size, 3_000_777);
    let read = world
        .wait(1, |c, t, done| c.read(t, CALLER, fid, &layout, (700, 2_999_000), done))
        .unwrap();
    assert!(read[..77].iter().all(|byte| *byte == 0) && read[77..] == bytes[..2_998_923]);
    // Behind the end there is nothing.
    let (tail, _) = world
        .wait(1, |c, t, done| {
            c.read_to_end(t, CALLER, fid, &layout, (3_000_000, 10_000), done);
        })
        .unwrap();
    assert_eq!(tail.len(), 777);
    let changes = Changes { size: Some(100_000), ..Changes::default() };
    let attr = world.wait(0, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done)).unwrap();
    assert_eq!(attr.size, Some(100_000));
    let (size, _) = world.wait(1, |c, t, done| c.size(t, CALLER, fid, &layout, done)).unwrap();
    assert_eq!(size, 100_000);
    let appended = world
        .wait(1, |c, t, done| {
            c.append(t, CALLER, (fid, OWNER), layout.clone(), b"the end"[..].into(), done);
        })
        .unwrap();
    assert_eq!(appended.offset, 100_000);
    world.wait(0, |c, t, done| c.fsync(t, CALLER, fid, &layout, done)).unwrap();
    world.wait(0, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    // Nothing is left of locks.
    world.pass(5);
    let targets = world.server.targets();
    // Only those of its configuration.
    assert_eq!(targets[crate::world::MGS].locks, 2 * 4);
    let others = &targets[crate::world::MDT..];
    assert!(others.iter().all(|target| target.locks == 0 && target.opens == 0));
}

/// Also with a cache, where a write that fails later would be reported by the next fsync(2).
#[test]
fn what_objects_cannot_hold_is_refused_at_once() {
    const EFBIG: i32 = 27;
    let cache =
        CacheTunables { max_cached: 8 << 20, max_dirty: 4 << 20, ..CacheTunables::default() };
    let mut world = World::with_caches(TargetTunables::default(), &[cache, CacheTunables::NONE]);
    for client in 0..2 {
        world.root = world.wait(client, |c, t, done| c.mount(t, done)).unwrap();
    }
    let root = world.root;
    let file = world
        .wait(0, |c, t, done| c.create(t, CALLER, root, b"large", create_args(), done))
        .unwrap();
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    // Each object ends a page before 2^44: this is in the last stripe of the last one.
    let most = ((layout.objects().count() as u64) << 44) - 4096;
    for client in 0..2 {
        let write = |world: &mut World, at: u64| {
            let data = b"four".to_vec().into();
            world.wait(client, |c, t, done| {
                c.write(t, CALLER, (fid, OWNER), &layout, (at, data), done);
            })
        };
        assert_eq!(errno(write(&mut world, 1 << 60)), EFBIG);
        assert_eq!(errno(write(&mut world, most)), EFBIG);
        write(&mut world, 5).unwrap();
        let resize = |world: &mut World, size| {
            let changes = Changes { size: Some(size), ..Changes::default() };
            world.wait(client, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done))
        };
        assert_eq!(errno(resize(&mut world, 1 << 60)), EFBIG);
        // One more stripe of each object is too much.
        let stripes = layout.objects().count() << 20;
        resize(&mut world, most + 4096 - stripes as u64).unwrap();
        let appended = world.wait(client, |c, t, done| {
            let data = vec![1; stripes].into();
            c.append(t, CALLER, (fid, OWNER), layout.clone(), data, done);
        });
        assert_eq!(errno(appended), EFBIG);
        assert_eq!(resize(&mut world, 1 << 40).unwrap().size, Some(1 << 40));
        let allocate = |world: &mut World, what, range| {
            world.wait(client, |c, t, done| {
                c.allocate(t, CALLER, (fid, OWNER), &layout, what, range, done);
            })
        };
        assert_eq!(errno(allocate(&mut world, Allocate::Reserve, (1 << 60, 1))), EFBIG);
        allocate(&mut world, Allocate::PunchHole, (1 << 60, 1)).unwrap();
        let end = world.wait(client, |c, t, done| c.size(t, CALLER, fid, &layout, done)).unwrap();
        assert_eq!(end.0, 1 << 40, "nothing has changed");
    }
}

#[test]
fn attributes_are_set_and_read() {
    let mut world = World::mounted(1);
    let root = world.root;
    let name = b"user.colour";
    let set = |world: &mut World, value: &'static [u8], flags| {
        world.wait(0, |c, t, done| c.setxattr(t, CALLER, root, name, value, flags, done))
    };
    set(&mut world, b"red", XattrFlags::CREATE).unwrap();
    assert_eq!(errno(set(&mut world, b"blue", XattrFlags::CREATE)), 17);
    set(&mut world, b"blue", XattrFlags::REPLACE).unwrap();
    let value = world.wait(0, |c, t, done| c.getxattr(t, CALLER, root, name, done)).unwrap();
    assert_eq!(value, b"blue");
    let names = world.wait(0, |c, t, done| c.listxattr(t, CALLER, root, done)).unwrap();
    assert_eq!(names, [name.to_vec()]);
    world.wait(0, |c, t, done| c.removexattr(t, CALLER, root, name, done)).unwrap();
    let gone = world.wait(0, |c, t, done| c.getxattr(t, CALLER, root, name, done));
    assert_eq!(errno(gone), 61);
    let user = lustrine_client::Caller { uid: 7, gid: 7, capabilities: 0, ..CALLER };
    let denied = world.wait(0, |c, t, done| c.mkdir(t, user, root, b"no", (0o755, 0), done));
    assert_eq!(errno(denied), 13);
    let changes = Changes { uid: Some(7), mode: Some(0o700), ..Changes::default() };
    let attr =
        world.wait(0, |c, t, done| c.set_attributes(t, CALLER, root, changes, done)).unwrap();
    assert_eq!((attr.uid, attr.mode), (7, 0o040_700));
    world.wait(0, |c, t, done| c.mkdir(t, user, root, b"yes", (0o755, 0), done)).unwrap();
}

#[test]
fn a_client_unmounts_and_leaves_nothing() {
    let mut world = World::mounted(1);
    let root = world.root;
    let file = world
        .wait(0, |c, t, done| c.create(t, CALLER, root, b"open", create_args(), done))
        .unwrap();
    assert_eq!(world.server.targets()[crate::world::MDT].opens, 1);
    drop(file);
    world.wait(0, |c, t, done| c.unmount(t, done)).unwrap();
    for target in world.server.targets() {
        assert_eq!((target.clients, target.locks, target.opens), (0, 0, 0), "{}", target.name);
    }
}

/// Requests that a client has sent.
fn sent(world: &World, client: usize) -> u64 {
    world.clients[client].counters().requests_sent
}

/// Locks of clients, and open files, at the metadata target.
fn held(world: &World) -> (usize, usize) {
    let view = &world.server.targets()[MDT];
    (view.locks, view.opens)
}

/// Replies have room for layouts as long as those that were seen. What was done is not done again
/// when the reply is asked for again: with O_EXCL that would fail, and its lock would stay.
#[test]
fn a_layout_that_is_longer_than_the_room_is_asked_for_again_once() {
    // 100 are too many for the reply to a getattr, and not for that to an open.
    const STRIPES: u16 = 160;
    let keeps = CacheTunables { attrs: 100, ..CacheTunables::NONE };
    let caches = [keeps, keeps, CacheTunables::NONE];
    let mut world = World::with_objects(TargetTunables::default(), &caches, STRIPES);
    for client in 0..caches.len() {
        world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
    }
    let root = world.root;
    // A client asks for a sequence before it makes its first file.
    world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done)).unwrap();
    let args = OpenArgs { flags: create_args().flags | OpenFlags::EXCL, ..create_args() };
    let mut files = Vec::new();
    for (name, requests, held_then) in [(b"a", 2, (1, 1)), (b"b", 1, (2, 2))] {
        let before = sent(&world, 0);
        let file = world.wait(0, |c, t, done| c.create(t, CALLER, root, name, args, done)).unwrap();
        world.settle();
        assert!(file.created);
        assert_eq!(file.layout.objects().count(), usize::from(STRIPES));
        assert_eq!((sent(&world, 0) - before, held(&world)), (requests, held_then));
        files.push(file.attr);
    }
    // The first client has the locks of both; the last one keeps none.
    for (client, requests, locks) in [(0, [0, 0], [2, 2]), (1, [2, 1], [3, 4]), (2, [2, 1], [4, 4])]
    {
        for (index, file) in files.iter().enumerate() {
            let (before, fid) = (sent(&world, client), file.fid);
            let attr = world.wait(client, |c, t, done| c.getattr(t, CALLER, fid, done)).unwrap();
            world.settle();
            assert_eq!(attr.layout, file.layout);
            assert_eq!(sent(&world, client) - before, requests[index], "client {client}");
            assert_eq!(held(&world), (locks[index], 2), "client {client}");
        }
    }
}
