//! Clients that keep attributes and names: what they show is what the metadata server has.

use lustrine_client::{Attr, CacheTunables, Caller, Changes, OpenArgs, SetTime};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::{OpenFlags, XattrFlags};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Nanos;
use lustrine_server::{CommitTunables, Server, TargetTunables};
use proptest::prelude::*;

use crate::world::*;

/// Clients that keep something. One more keeps nothing: it shows what the server says.
const CLIENTS: usize = 3;
const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
/// A user without rights of his own.
const USER: Caller = Caller { uid: 7, gid: 7, capabilities: 0, ..CALLER };

fn mounted(attrs: usize) -> World {
    let commit = CommitTunables { interval: Nanos::from_secs(1000), latency: Nanos(0) };
    let tunables = TargetTunables { commit, ..TargetTunables::default() };
    let mut caches = vec![CacheTunables { attrs, ..CacheTunables::NONE }; CLIENTS];
    caches.push(CacheTunables::NONE);
    let mut world = World::with_caches(tunables, &caches);
    for client in 0..=CLIENTS {
        world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
    }
    world
}

fn getattr(world: &mut World, client: usize, caller: Caller, fid: Fid) -> Result<Attr, i32> {
    let found = world.wait(client, |c, t, done| c.getattr(t, caller, fid, done));
    found.map_err(|error| error.errno())
}

fn lookup(
    world: &mut World,
    client: usize,
    caller: Caller,
    (dir, name): (Fid, &[u8]),
) -> Result<Attr, i32> {
    let found = world.wait(client, |c, t, done| c.lookup(t, caller, dir, name, done));
    found.map_err(|error| error.errno())
}

fn make(world: &mut World, client: usize, (dir, name): (Fid, &[u8])) -> Option<Fid> {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL;
    let args = OpenArgs { flags, mode: 0o644, umask: 0 };
    let file = world.wait(client, |c, t, done| c.create(t, CALLER, dir, name, args, done)).ok()?;
    let fid = file.attr.fid;
    world.wait(client, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    Some(fid)
}

fn mkdir(world: &mut World, client: usize, (dir, name): (Fid, &[u8])) -> Option<Fid> {
    let mode = (0o755, 0);
    let made = world.wait(client, |c, t, done| c.mkdir(t, CALLER, dir, name, mode, done));
    made.ok().map(|attr| attr.fid)
}

fn change(world: &mut World, client: usize, fid: Fid, changes: Changes) {
    let _ = world.wait(client, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done));
}

fn chmod(world: &mut World, client: usize, fid: Fid, mode: u32) {
    change(world, client, fid, Changes { mode: Some(mode), ..Changes::default() });
}

/// A directory, 0 for the root and 1 for one in it, and the number of a name.
type Place = (usize, usize);

#[derive(Clone, Debug)]
enum Op {
    Make(Place),
    Open(Place),
    Mkdir(Place),
    Mknod(Place),
    Unlink(Place, bool),
    Rename(Place, Place),
    Link(Place, Place),
    Chmod(Place, u32),
    ChmodDir(usize, u32),
    Chown(Place, u32),
    Utimes(Place, i64),
    Truncate(Place, u64),
    Setxattr(Place),
    List(usize),
    Crash,
    Evict(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let at = || (0..2usize, 0..NAMES.len());
    let search = prop::sample::select(vec![0o700u32, 0o711, 0o755, 0o744]);
    prop_oneof![
        3 => at().prop_map(Op::Make),
        1 => at().prop_map(Op::Open),
        2 => at().prop_map(Op::Mkdir),
        1 => at().prop_map(Op::Mknod),
        3 => (at(), any::<bool>()).prop_map(|(at, dir)| Op::Unlink(at, dir)),
        3 => (at(), at()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => (at(), at()).prop_map(|(from, to)| Op::Link(from, to)),
        2 => (at(), 0..0o1000u32).prop_map(|(at, mode)| Op::Chmod(at, mode)),
        2 => (0..2usize, search).prop_map(|(dir, mode)| Op::ChmodDir(dir, mode)),
        1 => (at(), 0..9u32).prop_map(|(at, uid)| Op::Chown(at, uid)),
        1 => (at(), 1..9i64).prop_map(|(at, time)| Op::Utimes(at, time)),
        1 => (at(), 0..200_000u64).prop_map(|(at, size)| Op::Truncate(at, size)),
        1 => at().prop_map(Op::Setxattr),
        3 => (0..2usize).prop_map(Op::List),
        1 => Just(Op::Crash),
        1 => (0..CLIENTS).prop_map(Op::Evict),
        1 => (1u64..400).prop_map(Op::Pass),
    ]
}

fn evict(world: &mut World, client: usize) {
    let uuid = format!("client-{client}");
    let act = |server: &mut Server, turn: &mut Turn<'_>| server.evict(turn, MDT, uuid.as_bytes());
    assert!(world.at_server(act));
    // It learns of it by its next request to the server, or a ping.
    for _ in 0..2 {
        let _ = world.wait(client, |c, t, done| c.statfs(t, done));
    }
}

/// Does something. Whether it can be done is the server's affair.
fn act(world: &mut World, client: usize, dirs: [Fid; 2], op: &Op) {
    let name = |(dir, name): Place| (dirs[dir], NAMES[name]);
    let set = |world: &mut World, at: Place, changes: Changes| {
        if let Ok(Attr { fid, .. }) = lookup(world, client, CALLER, name(at)) {
            change(world, client, fid, changes);
        }
    };
    match *op {
        Op::Make(at) => {
            make(world, client, name(at));
        }
        Op::Open(at) => {
            let (dir, name) = name(at);
            let args =
                OpenArgs { flags: OpenFlags::READ | OpenFlags::CREAT, mode: 0o600, umask: 0 };
            let file = world.wait(client, |c, t, done| c.create(t, CALLER, dir, name, args, done));
            if let Ok(file) = file {
                world.wait(client, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
            }
        }
        Op::Mkdir(at) => {
            mkdir(world, client, name(at));
        }
        Op::Mknod(at) => {
            let ((dir, name), mode) = (name(at), (0o100_600, 0));
            let _ = world.wait(client, |c, t, done| c.mknod(t, CALLER, dir, name, mode, 0, done));
        }
        Op::Unlink(at, is_dir) => {
            let (dir, name) = name(at);
            let _ = world.wait(client, |c, t, done| c.unlink(t, CALLER, dir, name, is_dir, done));
        }
        Op::Rename(from, to) => {
            if let Ok(Attr { mode, .. }) = lookup(world, client, CALLER, name(from)) {
                let (from, to) = (name(from), name(to));
                let _ = world.wait(client, |c, t, done| c.rename(t, CALLER, from, to, mode, done));
            }
        }
        Op::Link(from, to) => {
            if let Ok(Attr { fid, .. }) = lookup(world, client, CALLER, name(from)) {
                let (dir, name) = name(to);
                let _ = world.wait(client, |c, t, done| c.link(t, CALLER, fid, dir, name, done));
            }
        }
        Op::Chmod(at, mode) => set(world, at, Changes { mode: Some(mode), ..Changes::default() }),
        Op::ChmodDir(dir, mode) => chmod(world, client, dirs[dir], mode),
        Op::Chown(at, uid) => set(world, at, Changes { uid: Some(uid), ..Changes::default() }),
        Op::Utimes(at, time) => {
            let time = Some(SetTime::At(time));
            set(world, at, Changes { mtime: time, atime: time, ..Changes::default() });
        }
        Op::Truncate(at, size) => {
            set(world, at, Changes { size: Some(size), ..Changes::default() });
        }
        Op::Setxattr(at) => {
            if let Ok(Attr { fid, .. }) = lookup(world, client, CALLER, name(at)) {
                let flags = XattrFlags::empty();
                let set = world.wait(client, |c, t, done| {
                    c.setxattr(t, CALLER, fid, b"trusted.x", b"1", flags, done);
                });
                set.unwrap();
            }
        }
        Op::List(dir) => {
            let _ = world.wait(client, |c, t, done| c.readdir(t, CALLER, dirs[dir], 0, done));
        }
        Op::Crash => {
            world.server.crash_target(MDT);
            world.server.start_target(MDT);
        }
        Op::Evict(victim) => evict(world, victim),
        Op::Pass(seconds) => world.pass(seconds),
    }
}

/// The same tests for clients that keep nothing, little, and enough.
fn attrs() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0usize), 3 => 1..6usize, 3 => Just(100)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// After each change by any client, all of them show what the server has, to each user.
    #[test]
    fn all_clients_show_what_the_server_has(
        ops in prop::collection::vec((0..=CLIENTS, op()), 1..24),
        attrs in attrs(),
    ) {
        let mut world = mounted(attrs);
        let root = world.root;
        let sub = mkdir(&mut world, CLIENTS, (root, b"sub")).unwrap();
        let dirs = [root, sub];
        let mut seen = dirs.to_vec();
        for (client, op) in &ops {
            act(&mut world, *client, dirs, op);
            for (dir, name) in dirs.iter().flat_map(|dir| NAMES.map(|name| (*dir, name))) {
                for caller in [CALLER, USER] {
                    let expected = lookup(&mut world, CLIENTS, caller, (dir, name));
                    if let Ok(attr) = &expected && !seen.contains(&attr.fid) {
                        seen.push(attr.fid);
                    }
                    for at in 0..CLIENTS {
                        let shown = lookup(&mut world, at, caller, (dir, name));
                        prop_assert_eq!(&shown, &expected, "client {} after {:?}", at, op);
                    }
                }
            }
            for fid in seen.clone() {
                let expected = getattr(&mut world, CLIENTS, CALLER, fid);
                for client in 0..CLIENTS {
                    let shown = getattr(&mut world, client, CALLER, fid);
                    prop_assert_eq!(&shown, &expected, "client {} after {:?}", client, op);
                }
            }
            for client in &world.clients {
                let counts = client.attr_counts();
                prop_assert!(counts.entries <= attrs && counts.missing <= attrs);
            }
        }
        // Nothing is left when the locks have aged.
        world.pass(700);
        for client in &world.clients {
            let counts = client.attr_counts();
            prop_assert_eq!((counts.entries, counts.names, counts.missing), (0, 0, 0));
        }
        prop_assert_eq!(world.server.targets()[MDT].locks, 0);
    }
}

/// What a client does while others do something else.
#[derive(Clone, Debug)]
enum Racing {
    Look(Place, bool),
    Getattr(usize),
    List(usize),
    Open(Place),
    Mknod(Place),
    Mkdir(Place),
    Unlink(Place, bool),
    Rename(Place, Place),
    Chmod(usize, u32),
}

fn racing() -> impl Strategy<Value = Racing> {
    // Few names, so that they meet.
    let at = || (0..2usize, 0..2usize);
    let search = prop::sample::select(vec![0o700u32, 0o755]);
    prop_oneof![
        8 => (at(), any::<bool>()).prop_map(|(at, user)| Racing::Look(at, user)),
        2 => (0..2usize).prop_map(Racing::Getattr),
        3 => (0..2usize).prop_map(Racing::List),
        3 => at().prop_map(Racing::Open),
        3 => at().prop_map(Racing::Mknod),
        2 => at().prop_map(Racing::Mkdir),
        3 => (at(), any::<bool>()).prop_map(|(at, dir)| Racing::Unlink(at, dir)),
        2 => (at(), at()).prop_map(|(from, to)| Racing::Rename(from, to)),
        1 => (0..2usize, search).prop_map(|(dir, mode)| Racing::Chmod(dir, mode)),
    ]
}

/// Starts something. The result says whether it is not over yet.
fn start(world: &mut World, client: usize, dirs: [Fid; 2], op: &Racing) -> Box<dyn Fn() -> bool> {
    fn pending<T: Send + 'static>(slot: Slot<T>) -> Box<dyn Fn() -> bool> {
        Box::new(move || slot.is_pending())
    }
    let name = |(dir, name): Place| (dirs[dir], NAMES[name]);
    match *op {
        Racing::Look(at, user) => {
            let ((dir, name), caller) = (name(at), if user { USER } else { CALLER });
            pending(world.start(client, |c, t, done| c.lookup(t, caller, dir, name, done)))
        }
        Racing::Getattr(dir) => {
            let fid = dirs[dir];
            pending(world.start(client, |c, t, done| c.getattr(t, CALLER, fid, done)))
        }
        Racing::List(dir) => {
            let fid = dirs[dir];
            pending(world.start(client, |c, t, done| c.readdir(t, CALLER, fid, 0, done)))
        }
        Racing::Open(at) => {
            let (dir, name) = name(at);
            let args =
                OpenArgs { flags: OpenFlags::READ | OpenFlags::CREAT, mode: 0o600, umask: 0 };
            pending(world.start(client, |c, t, done| c.create(t, CALLER, dir, name, args, done)))
        }
        Racing::Mknod(at) => {
            let ((dir, name), mode) = (name(at), (0o100_600, 0));
            pending(world.start(client, |c, t, done| c.mknod(t, CALLER, dir, name, mode, 0, done)))
        }
        Racing::Mkdir(at) => {
            let ((dir, name), mode) = (name(at), (0o755, 0));
            pending(world.start(client, |c, t, done| c.mkdir(t, CALLER, dir, name, mode, done)))
        }
        Racing::Unlink(at, is_dir) => {
            let (dir, name) = name(at);
            pending(world.start(client, |c, t, done| c.unlink(t, CALLER, dir, name, is_dir, done)))
        }
        Racing::Rename(from, to) => {
            let (from, to, mode) = (name(from), name(to), 0o100_600);
            pending(world.start(client, |c, t, done| c.rename(t, CALLER, from, to, mode, done)))
        }
        Racing::Chmod(dir, mode) => {
            let (fid, changes) = (dirs[dir], Changes { mode: Some(mode), ..Changes::default() });
            pending(world.start(client, |c, t, done| {
                c.set_attributes(t, CALLER, fid, changes, done);
            }))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// Messages cross: requests, replies, callbacks and cancels of several clients at once. When
    /// all is quiet, no client keeps what is not so.
    #[test]
    fn nothing_stale_is_left_when_requests_and_callbacks_cross(
        rounds in prop::collection::vec(
            prop::collection::vec((0..CLIENTS, racing()), 2..12),
            1..6,
        ),
        seed in any::<u64>(),
        attrs in attrs(),
    ) {
        let mut world = mounted(attrs);
        let root = world.root;
        let sub = mkdir(&mut world, CLIENTS, (root, b"sub")).unwrap();
        let dirs = [root, sub];
        world.links = Some(Links::new(seed, (Nanos::from_micros(100), Nanos::from_micros(5000))));
        for round in &rounds {
            let mut in_flight = Vec::new();
            for (client, op) in round {
                in_flight.push(start(&mut world, *client, dirs, op));
            }
            let end = world.now + Nanos::from_secs(1000);
            while in_flight.iter().any(|pending| pending()) {
                world.settle();
                world.advance();
                prop_assert!(world.now < end, "something does not end");
            }
            world.settle();
            for (dir, name) in dirs.iter().flat_map(|dir| NAMES.map(|name| (*dir, name))) {
                for caller in [CALLER, USER] {
                    let expected = lookup(&mut world, CLIENTS, caller, (dir, name));
                    for at in 0..CLIENTS {
                        let shown = lookup(&mut world, at, caller, (dir, name));
                        prop_assert_eq!(&shown, &expected, "client {} after {:?}", at, round);
                    }
                }
            }
        }
    }
}

fn sent(world: &World, client: usize) -> u64 {
    world.clients[client].counters().requests_sent
}

/// Has a client keep the attributes of the root, as a look at a mount point does.
fn look_at_root(world: &mut World, client: usize, caller: Caller) {
    getattr(world, client, caller, world.root).unwrap();
}

#[test]
fn what_is_kept_is_shown_without_a_request_until_somebody_changes_it() {
    let mut world = mounted(100);
    let root = world.root;
    let fid = make(&mut world, 0, (root, b"a")).unwrap();
    getattr(&mut world, 0, CALLER, fid).unwrap();
    let before = sent(&world, 0);
    for _ in 0..100 {
        getattr(&mut world, 0, CALLER, fid).unwrap();
    }
    assert_eq!(sent(&world, 0), before);
    chmod(&mut world, 1, fid, 0o600);
    assert_eq!(world.clients[0].attr_counts().entries, 0);
    assert_eq!(getattr(&mut world, 0, CALLER, fid).unwrap().mode, 0o100_600);
    act(&mut world, 1, [root; 2], &Op::Unlink((0, 0), false));
    assert_eq!(getattr(&mut world, 0, CALLER, fid), Err(2));
}

/// There and missing, through a directory on the way.
#[test]
fn names_are_kept_until_somebody_changes_them() {
    let mut world = mounted(100);
    let root = world.root;
    let sub = mkdir(&mut world, 1, (root, b"sub")).unwrap();
    let first = make(&mut world, 1, (sub, b"a")).unwrap();
    let walk = |world: &mut World, name: &[u8]| {
        look_at_root(world, 0, CALLER);
        let dir = lookup(world, 0, CALLER, (root, b"sub"))?;
        lookup(world, 0, CALLER, (dir.fid, name)).map(|attr| attr.fid)
    };
    assert_eq!((walk(&mut world, b"a"), walk(&mut world, b"b")), (Ok(first), Err(2)));
    let before = sent(&world, 0);
    for _ in 0..50 {
        assert_eq!((walk(&mut world, b"a"), walk(&mut world, b"b")), (Ok(first), Err(2)));
    }
    assert_eq!(sent(&world, 0), before);
    let counts = world.clients[0].attr_counts();
    assert_eq!((counts.entries, counts.names, counts.missing), (3, 2, 1));
    // A new name takes the missing one away, and not the other one.
    let second = make(&mut world, 1, (sub, b"b")).unwrap();
    assert_eq!((walk(&mut world, b"a"), walk(&mut world, b"b")), (Ok(first), Ok(second)));
    let moved = world.wait(1, |c, t, done| {
        c.rename(t, CALLER, (sub, b"b"), (sub, b"a"), 0o100_644, done);
    });
    moved.unwrap();
    assert_eq!((walk(&mut world, b"a"), walk(&mut world, b"b")), (Ok(second), Err(2)));
    let linked = world.wait(1, |c, t, done| c.link(t, CALLER, second, root, b"c", done));
    linked.unwrap();
    assert_eq!(lookup(&mut world, 0, CALLER, (root, b"c")).unwrap().nlink, 2);
    assert_eq!(walk(&mut world, b"a"), Ok(second));
    act(&mut world, 1, [root, sub], &Op::Unlink((1, 0), false));
    assert_eq!((walk(&mut world, b"a"), walk(&mut world, b"b")), (Err(2), Err(2)));
    assert_eq!(lookup(&mut world, 0, CALLER, (root, b"c")).unwrap().nlink, 1);
}

#[test]
fn each_user_is_answered_by_the_server_first() {
    let mut world = mounted(100);
    let root = world.root;
    let fid = make(&mut world, 0, (root, b"a")).unwrap();
    let user = |uid| Caller { uid, gid: uid, capabilities: 0, ..CALLER };
    for (uid, misses) in [(1, 1), (1, 1), (2, 2), (2, 2), (1, 2)] {
        let before = world.clients[0].attr_counts();
        getattr(&mut world, 0, user(uid), fid).unwrap();
        let after = world.clients[0].attr_counts();
        assert_eq!(after.misses, misses);
        assert_eq!(after.hits + after.misses, before.hits + before.misses + 1);
    }
    // One lock is enough for both.
    world.settle();
    let kept = world.server.locks(MDT).len();
    assert_eq!((kept, world.clients[0].attr_counts().entries), (1, 1));
}

#[test]
fn a_user_who_may_not_search_a_directory_learns_nothing_of_its_names() {
    let mut world = mounted(100);
    let root = world.root;
    let sub = mkdir(&mut world, 0, (root, b"sub")).unwrap();
    let fid = make(&mut world, 0, (sub, b"a")).unwrap();
    chmod(&mut world, 0, sub, 0o700);
    let look = |world: &mut World, caller, name: &[u8]| {
        getattr(world, 0, caller, sub).unwrap();
        lookup(world, 0, caller, (sub, name)).map(|attr| attr.fid)
    };
    for _ in 0..3 {
        assert_eq!(
            (look(&mut world, CALLER, b"a"), look(&mut world, CALLER, b"b")),
            (Ok(fid), Err(2))
        );
        assert_eq!(
            (look(&mut world, USER, b"a"), look(&mut world, USER, b"b")),
            (Err(13), Err(13))
        );
    }
    chmod(&mut world, 1, sub, 0o755);
    for _ in 0..3 {
        assert_eq!((look(&mut world, USER, b"a"), look(&mut world, USER, b"b")), (Ok(fid), Err(2)));
    }
    let before = sent(&world, 0);
    assert_eq!((look(&mut world, USER, b"a"), look(&mut world, USER, b"b")), (Ok(fid), Err(2)));
    assert_eq!(sent(&world, 0), before);
    // Somebody takes the right away: nothing is shown any more, from the first request on.
    chmod(&mut world, 1, sub, 0o700);
    assert_eq!((look(&mut world, USER, b"a"), look(&mut world, USER, b"b")), (Err(13), Err(13)));
}

/// [LOCK-21]: the server calls nothing back of a client that has kept the file which it changes. Of
/// a directory in which it makes or removes a name it calls back what the client cannot keep
/// [LOCK-23].
#[test]
fn own_changes_give_their_locks_back_with_the_request() {
    let mut world = mounted(100);
    let root = world.root;
    let fid = make(&mut world, 0, (root, b"a")).unwrap();
    let keep = |world: &mut World| {
        look_at_root(world, 0, CALLER);
        for name in NAMES {
            let _ = lookup(world, 0, CALLER, (root, name));
        }
    };
    let early = |world: &World| world.clients[0].attr_counts().early_cancels;
    let callbacks = |world: &World| world.server.targets()[MDT].callbacks;
    // What is changed, how many locks of files go with the request, and how many callbacks of
    // directories there are.
    type Change<'a> = (&'a dyn Fn(&mut World), u64, u64);
    let changes: [Change<'_>; 6] = [
        (&|world| chmod(world, 0, fid, 0o600), 1, 0),
        (&|world| act(world, 0, [root; 2], &Op::Link((0, 0), (0, 1))), 1, 1),
        (&|world| act(world, 0, [root; 2], &Op::Rename((0, 1), (0, 2))), 1, 1),
        (&|world| act(world, 0, [root; 2], &Op::Mkdir((0, 3))), 0, 1),
        (&|world| act(world, 0, [root; 2], &Op::Make((0, 1))), 0, 1),
        (&|world| act(world, 0, [root; 2], &Op::Unlink((0, 2), false)), 1, 1),
    ];
    for (number, (change, files, dirs)) in changes.iter().enumerate() {
        keep(&mut world);
        let before = (early(&world), callbacks(&world));
        change(&mut world);
        let after = (early(&world) - before.0, callbacks(&world) - before.1);
        assert_eq!(after, (*files, *dirs), "change {number}");
    }
    // Another client's locks are called back all the same.
    let callbacks = world.server.targets()[MDT].callbacks;
    keep(&mut world);
    chmod(&mut world, 1, fid, 0o644);
    assert!(world.server.targets()[MDT].callbacks > callbacks);
}

/// [LOCK-23]: the names that are there, and who may search, are known whatever is made and removed
/// beside them, by this client or another one.
#[test]
fn names_are_kept_while_others_are_made_beside_them() {
    let mut world = mounted(100);
    let root = world.root;
    let sub = mkdir(&mut world, 1, (root, b"sub")).unwrap();
    let fid = make(&mut world, 1, (sub, b"a")).unwrap();
    let look = |world: &mut World| {
        lookup(world, 0, CALLER, (root, b"sub"))?;
        lookup(world, 0, CALLER, (sub, b"a"))
    };
    look_at_root(&mut world, 0, CALLER);
    getattr(&mut world, 0, CALLER, sub).unwrap();
    look(&mut world).unwrap();
    assert_eq!(lookup(&mut world, 0, CALLER, (sub, b"b")), Err(2));
    for (client, name) in [(0, b"b"), (1, b"c"), (0, b"d")] {
        let nlink = |world: &mut World| getattr(world, 0, CALLER, root).unwrap().nlink;
        let before = nlink(&mut world);
        mkdir(&mut world, client, (root, name)).unwrap();
        make(&mut world, client, (sub, name)).unwrap();
        let asked = sent(&world, 0);
        assert_eq!(lookup(&mut world, 0, CALLER, (sub, b"a")).map(|attr| attr.fid), Ok(fid));
        assert_eq!(sent(&world, 0), asked, "it is known");
        // What the directories themselves say is not, and what they lack is not.
        assert_eq!(nlink(&mut world), before + 1);
        assert!(lookup(&mut world, 0, CALLER, (sub, name)).is_ok());
        look(&mut world).unwrap();
    }
    let counts = world.clients[0].attr_counts();
    // The other client has locks of the two files that it has made.
    assert_eq!((counts.entries, world.server.locks(MDT).len()), (6, 6 + 2), "one lock for each");
    // The right to search goes with PERM.
    chmod(&mut world, 1, sub, 0o700);
    assert_eq!(lookup(&mut world, 0, USER, (sub, b"a")), Err(13));
    act(&mut world, 1, [sub; 2], &Op::Unlink((0, 0), false));
    assert_eq!(lookup(&mut world, 0, CALLER, (sub, b"a")), Err(2));
}

/// What an open grants is kept too, and not cancelled.
#[test]
fn an_open_brings_the_attributes() {
    let mut world = mounted(100);
    let root = world.root;
    make(&mut world, 0, (root, b"a")).unwrap();
    let before = sent(&world, 0);
    let fid = make(&mut world, 0, (root, b"b")).unwrap();
    getattr(&mut world, 0, CALLER, fid).unwrap();
    world.settle();
    assert_eq!(sent(&world, 0), before + 2, "an open and a close");
    assert_eq!(world.server.locks(MDT).len(), 2);
}

#[test]
fn an_evicted_client_keeps_nothing() {
    let mut world = mounted(100);
    let root = world.root;
    let fid = make(&mut world, 0, (root, b"a")).unwrap();
    look_at_root(&mut world, 0, CALLER);
    lookup(&mut world, 0, CALLER, (root, b"a")).unwrap();
    assert_eq!(lookup(&mut world, 0, CALLER, (root, b"b")), Err(2));
    evict(&mut world, 0);
    let counts = world.clients[0].attr_counts();
    assert_eq!((counts.entries, counts.names, counts.missing), (0, 0, 0));
    chmod(&mut world, 1, fid, 0o600);
    assert_eq!(getattr(&mut world, 0, CALLER, fid).unwrap().mode, 0o100_600);
}
