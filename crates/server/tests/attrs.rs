//! Clients that keep attributes: what they show is what the metadata server has.

mod world;

use lustrine_client::{Attr, CacheTunables, Caller, Changes, OpenArgs, SetTime};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Nanos;
use lustrine_server::{CommitTunables, Server, TargetTunables};
use proptest::prelude::*;

use world::*;

const CLIENTS: usize = 3;
const CACHE: CacheTunables = CacheTunables { attrs: 4, ..CacheTunables::NONE };
const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

fn mounted(attrs: usize) -> World {
    let commit = CommitTunables { interval: Nanos::from_secs(1000), latency: Nanos(0) };
    let tunables = TargetTunables { commit, ..TargetTunables::default() };
    let mut world = World::caching(CLIENTS, tunables, CacheTunables { attrs, ..CACHE });
    for client in 0..CLIENTS {
        world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
    }
    world
}

fn getattr(world: &mut World, client: usize, caller: Caller, fid: Fid) -> Result<Attr, i32> {
    let found = world.wait(client, |c, t, done| c.getattr(t, caller, fid, done));
    found.map_err(|error| error.errno())
}

/// What the server says, whatever the client keeps.
fn truth(world: &mut World, fid: Fid) -> Result<Attr, i32> {
    let found = world.wait(0, |c, t, done| c.getattr_with_acl(t, CALLER, fid, done));
    found.map(|(attr, _)| attr).map_err(|error| error.errno())
}

fn make(world: &mut World, client: usize, name: &[u8]) -> Option<Fid> {
    let root = world.root;
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL;
    let args = OpenArgs { flags, mode: 0o644, umask: 0 };
    let file = world.wait(client, |c, t, done| c.create(t, CALLER, root, name, args, done)).ok()?;
    let fid = file.attr.fid;
    world.wait(client, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
    Some(fid)
}

#[derive(Clone, Debug)]
enum Op {
    Make(usize),
    Mkdir(usize),
    Mknod(usize),
    Unlink(usize, bool),
    Rename(usize, usize),
    Link(usize, usize),
    Chmod(usize, u32),
    Chown(usize, u32),
    Utimes(usize, i64),
    Truncate(usize, u64),
    Setxattr(usize),
    Crash,
    Evict(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let name = || 0..NAMES.len();
    prop_oneof![
        3 => name().prop_map(Op::Make),
        2 => name().prop_map(Op::Mkdir),
        1 => name().prop_map(Op::Mknod),
        2 => (name(), any::<bool>()).prop_map(|(name, dir)| Op::Unlink(name, dir)),
        2 => (name(), name()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => (name(), name()).prop_map(|(from, to)| Op::Link(from, to)),
        3 => (name(), 0..0o1000u32).prop_map(|(name, mode)| Op::Chmod(name, mode)),
        1 => (name(), 0..9u32).prop_map(|(name, uid)| Op::Chown(name, uid)),
        2 => (name(), 1..9i64).prop_map(|(name, time)| Op::Utimes(name, time)),
        2 => (name(), 0..200_000u64).prop_map(|(name, size)| Op::Truncate(name, size)),
        1 => name().prop_map(Op::Setxattr),
        1 => Just(Op::Crash),
        1 => (0..CLIENTS).prop_map(Op::Evict),
        1 => (1u64..400).prop_map(Op::Pass),
    ]
}

fn evict(world: &mut World, client: usize) {
    let uuid = format!("client-{client}");
    let act = |server: &mut Server, turn: &mut Turn<'_>| server.evict(turn, MDT, uuid.as_bytes());
    assert!(world.at_server(act));
}

/// Does something. Whether it can be done is the server's affair.
fn act(world: &mut World, client: usize, op: &Op) {
    let root = world.root;
    let set = |world: &mut World, name: usize, changes: Changes| {
        let found = world.wait(client, |c, t, done| c.lookup(t, CALLER, root, NAMES[name], done));
        if let Ok(Attr { fid, .. }) = found {
            let _ =
                world.wait(client, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done));
        }
    };
    match *op {
        Op::Make(name) => {
            make(world, client, NAMES[name]);
        }
        Op::Mkdir(name) => {
            let mode = (0o755, 0);
            let _ =
                world.wait(client, |c, t, done| c.mkdir(t, CALLER, root, NAMES[name], mode, done));
        }
        Op::Mknod(name) => {
            let mode = (0o100_600, 0);
            let _ = world
                .wait(client, |c, t, done| c.mknod(t, CALLER, root, NAMES[name], mode, 0, done));
        }
        Op::Unlink(name, dir) => {
            let _ =
                world.wait(client, |c, t, done| c.unlink(t, CALLER, root, NAMES[name], dir, done));
        }
        Op::Rename(from, to) => {
            let found =
                world.wait(client, |c, t, done| c.lookup(t, CALLER, root, NAMES[from], done));
            if let Ok(Attr { mode, .. }) = found {
                let (from, to) = ((root, NAMES[from]), (root, NAMES[to]));
                let _ = world.wait(client, |c, t, done| c.rename(t, CALLER, from, to, mode, done));
            }
        }
        Op::Link(from, to) => {
            let found =
                world.wait(client, |c, t, done| c.lookup(t, CALLER, root, NAMES[from], done));
            if let Ok(Attr { fid, .. }) = found {
                let _ =
                    world.wait(client, |c, t, done| c.link(t, CALLER, fid, root, NAMES[to], done));
            }
        }
        Op::Chmod(name, mode) => {
            set(world, name, Changes { mode: Some(mode), ..Changes::default() });
        }
        Op::Chown(name, uid) => set(world, name, Changes { uid: Some(uid), ..Changes::default() }),
        Op::Utimes(name, time) => {
            let time = Some(SetTime::At(time));
            set(world, name, Changes { mtime: time, atime: time, ..Changes::default() });
        }
        Op::Truncate(name, size) => {
            set(world, name, Changes { size: Some(size), ..Changes::default() });
        }
        Op::Setxattr(name) => {
            let found =
                world.wait(client, |c, t, done| c.lookup(t, CALLER, root, NAMES[name], done));
            if let Ok(Attr { fid, .. }) = found {
                let flags = lustrine_fswire::mdt::XattrFlags::empty();
                let set = world.wait(client, |c, t, done| {
                    c.setxattr(t, CALLER, fid, b"trusted.x", b"1", flags, done);
                });
                set.unwrap();
            }
        }
        Op::Crash => {
            world.server.crash_target(MDT);
            world.server.start_target(MDT);
        }
        Op::Evict(victim) => {
            evict(world, victim);
            // It learns of it by its next request to the server, or a ping.
            for _ in 0..2 {
                let _ = world.wait(victim, |c, t, done| c.getattr_with_acl(t, CALLER, root, done));
            }
        }
        Op::Pass(seconds) => world.pass(seconds),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// After each change by any client, all of them show what the server has.
    #[test]
    fn all_clients_show_what_the_server_has(
        ops in prop::collection::vec((0..CLIENTS, op()), 1..30),
        attrs in 1usize..6,
    ) {
        let mut world = mounted(attrs);
        let mut seen = vec![world.root];
        for (client, op) in &ops {
            act(&mut world, *client, op);
            for name in NAMES {
                let root = world.root;
                let found = world.wait(0, |c, t, done| c.lookup(t, CALLER, root, name, done));
                if let Ok(attr) = found && !seen.contains(&attr.fid) {
                    seen.push(attr.fid);
                }
            }
            for fid in seen.clone() {
                let expected = truth(&mut world, fid);
                for client in 0..CLIENTS {
                    let shown = getattr(&mut world, client, CALLER, fid);
                    prop_assert_eq!(&shown, &expected, "client {} after {:?}", client, op);
                }
            }
            for client in &world.clients {
                prop_assert!(client.attr_counts().entries <= attrs);
            }
        }
        // Nothing is left when the locks have aged.
        world.pass(700);
        prop_assert!(world.clients.iter().all(|client| client.attr_counts().entries == 0));
        prop_assert_eq!(world.server.targets()[MDT].locks, 0);
    }
}

#[test]
fn what_is_kept_is_shown_without_a_request_until_somebody_changes_it() {
    let mut world = mounted(100);
    let fid = make(&mut world, 0, b"a").unwrap();
    getattr(&mut world, 0, CALLER, fid).unwrap();
    let sent = world.clients[0].counters().requests_sent;
    for _ in 0..100 {
        getattr(&mut world, 0, CALLER, fid).unwrap();
    }
    assert_eq!(world.clients[0].counters().requests_sent, sent);
    act(&mut world, 1, &Op::Chmod(0, 0o600));
    assert_eq!(world.clients[0].attr_counts().entries, 0);
    assert_eq!(getattr(&mut world, 0, CALLER, fid).unwrap().mode, 0o100_600);
    act(&mut world, 1, &Op::Unlink(0, false));
    assert_eq!(getattr(&mut world, 0, CALLER, fid), Err(2));
}

#[test]
fn each_user_is_answered_by_the_server_first() {
    let mut world = mounted(100);
    let fid = make(&mut world, 0, b"a").unwrap();
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
fn an_evicted_client_keeps_nothing() {
    let mut world = mounted(100);
    let fid = make(&mut world, 0, b"a").unwrap();
    getattr(&mut world, 0, CALLER, fid).unwrap();
    act(&mut world, 0, &Op::Evict(0));
    assert_eq!(world.clients[0].attr_counts().entries, 0);
    act(&mut world, 1, &Op::Chmod(0, 0o600));
    assert_eq!(getattr(&mut world, 0, CALLER, fid).unwrap().mode, 0o100_600);
}
