//! What a kernel uses of a mount without asking holds: a kernel that uses all that it may.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lustrine_client::{Attr, CacheTunables, Changes, OpenArgs, OpenFile, SetTime, Valid};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_server::TargetTunables;
use proptest::prelude::*;

use crate::world::*;

/// The client of the mount, another one, and one that keeps nothing.
const MOUNT: usize = 0;
const OTHER: usize = 1;
const KEEPS_NOTHING: usize = 2;

const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
const ENTRY_VALID: Nanos = Nanos::from_millis(100);

/// What the kernel has, and until when.
struct Kernel {
    world: World,
    dirs: [Fid; 2],
    entries: BTreeMap<(Fid, Vec<u8>), (Fid, Time)>,
    attrs: Arc<Mutex<BTreeMap<Fid, (Attr, Time)>>>,
}

impl Kernel {
    fn new(attrs: usize) -> Kernel {
        let cache = CacheTunables { attrs, ..CacheTunables::of(4 << 20) };
        let caches = [cache, cache, CacheTunables::NONE];
        let mut world = World::with_objects(TargetTunables::default(), &caches, 2);
        for client in 0..caches.len() {
            world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
        }
        let root = world.root;
        let made = world.wait(OTHER, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done));
        let known = Arc::new(Mutex::new(BTreeMap::<Fid, (Attr, Time)>::new()));
        let attrs = Arc::clone(&known);
        world.at_client(MOUNT, |client, _| {
            client.share_validity(ENTRY_VALID, move |fid| {
                known.lock().unwrap().remove(&fid);
            });
        });
        let dirs = [root, made.unwrap().fid];
        Kernel { world, dirs, entries: BTreeMap::new(), attrs }
    }

    fn valid(&mut self, name: Option<(Fid, &[u8])>, attr: &Attr) -> Valid {
        self.world.at_client(MOUNT, |client, turn| client.valid(turn.now, name, attr))
    }

    fn told(&mut self, attr: Attr, valid: Nanos) {
        // Without a time it is not used.
        if valid > Nanos(0) {
            let until = self.world.now + valid;
            self.attrs.lock().unwrap().insert(attr.fid, (attr, until));
        } else {
            self.attrs.lock().unwrap().remove(&attr.fid);
        }
    }

    /// Has the mount look a name up.
    fn look_up(&mut self, dir: Fid, name: &[u8]) -> Option<(Attr, Valid)> {
        let attr = look_up(&mut self.world, MOUNT, dir, name).ok()?;
        let valid = self.valid(Some((dir, name)), &attr);
        if valid.entry > Nanos(0) {
            let until = self.world.now + valid.entry;
            self.entries.insert((dir, name.to_vec()), (attr.fid, until));
        }
        self.told(attr.clone(), valid.attr);
        Some((attr, valid))
    }

    /// Has the mount ask for the attributes of a directory.
    fn getattr(&mut self, fid: Fid) -> Option<Valid> {
        let attr = stat(&mut self.world, MOUNT, fid).ok()?;
        let valid = self.valid(None, &attr);
        self.told(attr, valid.attr);
        Some(valid)
    }

    /// Compares what the kernel may use with what the servers have.
    fn check(&mut self) -> Result<(), String> {
        let now = self.world.now;
        for ((dir, name), (fid, _)) in self.entries.iter().filter(|(_, (_, until))| *until > now) {
            let found = look_up(&mut self.world, KEEPS_NOTHING, *dir, name).map(|attr| attr.fid);
            if found != Ok(*fid) {
                return Err(format!("{dir} {name:?} leads to {found:?} and not to {fid}"));
            }
        }
        let attrs = self.attrs.lock().unwrap().clone();
        for (fid, (attr, _)) in attrs.into_iter().filter(|(_, (_, until))| *until > now) {
            let found = stat(&mut self.world, KEEPS_NOTHING, fid).map(exact);
            if found != Ok(exact(attr.clone())) {
                return Err(format!("{found:?} is not {attr:?}"));
            }
        }
        Ok(())
    }

    /// The kernel has changed something by itself, or has tried to: it forgets the attributes of
    /// directories if it has.
    fn has_changed(&mut self, succeeded: bool) {
        self.entries.clear();
        let mut attrs = self.attrs.lock().unwrap();
        attrs.retain(|fid, _| self.dirs.contains(fid) && !succeeded);
    }
}

/// What is exact: times of access call no lock back, and the space of what the mount has not
/// written is an estimate.
fn exact(attr: Attr) -> Attr {
    Attr { atime: 0, blocks: None, ..attr }
}

fn look_up(world: &mut World, client: usize, dir: Fid, name: &[u8]) -> Result<Attr, i32> {
    let found = world.wait(client, |c, t, done| c.lookup(t, CALLER, dir, name, done));
    let attr = found.map_err(|error| error.errno())?;
    let whole = world.wait(client, |c, t, done| c.complete(t, CALLER, attr, done));
    whole.map_err(|error| error.errno())
}

fn stat(world: &mut World, client: usize, fid: Fid) -> Result<Attr, i32> {
    let found = world.wait(client, |c, t, done| c.stat(t, CALLER, fid, done));
    found.map_err(|error| error.errno())
}

type Place = (usize, usize);

#[derive(Clone, Copy, Debug)]
enum Op {
    LookUp(Place),
    Getattr(usize),
    /// By the mount or another client.
    Make(usize, Place),
    Mkdir(usize, Place),
    Unlink(usize, Place),
    Rename(usize, Place, Place),
    Chmod(usize, Place, u32),
    ChmodDir(usize, usize, u32),
    Write(usize, Place, usize),
    Utimes(usize, Place, i64),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let at = || (0..2usize, 0..NAMES.len());
    let client = || prop_oneof![1 => Just(MOUNT), 3 => Just(OTHER)];
    let mode = || prop::sample::select(vec![0o700u32, 0o755]);
    prop_oneof![
        12 => at().prop_map(Op::LookUp),
        6 => (0..2usize).prop_map(Op::Getattr),
        3 => (client(), at()).prop_map(|(client, at)| Op::Make(client, at)),
        1 => (client(), at()).prop_map(|(client, at)| Op::Mkdir(client, at)),
        2 => (client(), at()).prop_map(|(client, at)| Op::Unlink(client, at)),
        2 => (client(), at(), at()).prop_map(|(client, from, to)| Op::Rename(client, from, to)),
        1 => (client(), at(), mode()).prop_map(|(client, at, mode)| Op::Chmod(client, at, mode)),
        1 => (client(), 0..2usize, mode()).prop_map(|(c, dir, mode)| Op::ChmodDir(c, dir, mode)),
        3 => (client(), at(), 1..9999usize).prop_map(|(c, at, len)| Op::Write(c, at, len)),
        1 => (client(), at(), 1..9i64).prop_map(|(c, at, time)| Op::Utimes(c, at, time)),
        2 => (1u64..150).prop_map(Op::Pass),
        1 => (5_000u64..20_000).prop_map(Op::Pass),
    ]
}

fn open(world: &mut World, client: usize, dir: Fid, name: &[u8]) -> Result<OpenFile, i32> {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
    let args = OpenArgs { flags, mode: 0o644, umask: 0 };
    let file = world.wait(client, |c, t, done| c.create(t, CALLER, dir, name, args, done));
    file.map_err(|error| error.errno())
}

fn close(world: &mut World, client: usize, file: OpenFile) {
    world.wait(client, |c, t, done| c.close(t, CALLER, file, None, done)).unwrap();
}

fn chmod(world: &mut World, client: usize, fid: Fid, mode: u32) {
    let changes = Changes { mode: Some(mode), ..Changes::default() };
    let _ = world.wait(client, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done));
}

/// Does something that may change something, by the mount or by another client. Whether it has
/// succeeded.
fn change(world: &mut World, dirs: [Fid; 2], op: Op) -> bool {
    let name = |(dir, name): Place| (dirs[dir], NAMES[name]);
    match op {
        Op::Make(client, at) => {
            let (dir, name) = name(at);
            let opened = open(world, client, dir, name);
            opened.map(|file| close(world, client, file)).is_ok()
        }
        Op::Mkdir(client, at) => {
            let ((dir, name), mode) = (name(at), (0o755, 0));
            world.wait(client, |c, t, done| c.mkdir(t, CALLER, dir, name, mode, done)).is_ok()
        }
        Op::Unlink(client, at) => {
            let (dir, name) = name(at);
            let is_dir = look_up(world, KEEPS_NOTHING, dir, name).is_ok_and(|attr| attr.is_dir());
            world.wait(client, |c, t, done| c.unlink(t, CALLER, dir, name, is_dir, done)).is_ok()
        }
        Op::Rename(client, from, to) => {
            let (from, to) = (name(from), name(to));
            let mode = look_up(world, KEEPS_NOTHING, from.0, from.1).map_or(0, |attr| attr.mode);
            world.wait(client, |c, t, done| c.rename(t, CALLER, from, to, mode, done)).is_ok()
        }
        Op::Chmod(client, at, mode) => {
            let (dir, name) = name(at);
            if let Ok(Attr { fid, .. }) = look_up(world, KEEPS_NOTHING, dir, name) {
                chmod(world, client, fid, mode);
            }
            true
        }
        Op::ChmodDir(client, dir, mode) => {
            chmod(world, client, dirs[dir], mode);
            true
        }
        Op::Utimes(client, at, time) => {
            let (dir, name) = name(at);
            let Ok(Attr { fid, .. }) = look_up(world, KEEPS_NOTHING, dir, name) else {
                return false;
            };
            let time = Some(SetTime::At(time));
            let changes = Changes { mtime: time, atime: time, ..Changes::default() };
            let set =
                world.wait(client, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done));
            set.is_ok()
        }
        Op::Write(client, at, len) => {
            let (dir, name) = name(at);
            let Ok(file) = open(world, client, dir, name) else { return false };
            let OpenFile { attr, layout, .. } = file.clone();
            let data = Bytes::from(vec![7; len]);
            let _ = world.wait(client, |c, t, done| {
                c.write(t, CALLER, (attr.fid, attr.owner()), &layout, (0, data), done);
            });
            close(world, client, file);
            true
        }
        Op::LookUp(_) | Op::Getattr(_) | Op::Pass(_) => unreachable!("it changes nothing"),
    }
}

fn act(kernel: &mut Kernel, op: Op) {
    let (dirs, world) = (kernel.dirs, &mut kernel.world);
    match op {
        Op::LookUp((dir, name)) => {
            kernel.look_up(dirs[dir], NAMES[name]);
        }
        Op::Getattr(dir) => {
            kernel.getattr(dirs[dir]);
        }
        Op::Pass(millis) => {
            let end = world.now + Nanos::from_millis(millis);
            world.alarm = end;
            while world.now < end {
                world.settle();
                world.advance();
            }
            world.alarm = Time::NEVER;
        }
        Op::Make(client, _)
        | Op::Mkdir(client, _)
        | Op::Unlink(client, _)
        | Op::Rename(client, ..)
        | Op::Chmod(client, ..)
        | Op::ChmodDir(client, ..)
        | Op::Utimes(client, ..)
        | Op::Write(client, ..) => {
            let succeeded = change(world, dirs, op);
            if client == MOUNT {
                kernel.has_changed(succeeded);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_kernel_uses_nothing_that_does_not_hold(
        ops in prop::collection::vec(op(), 1..60),
        attrs in prop_oneof![1 => 1..6usize, 3 => Just(100)],
    ) {
        let mut kernel = Kernel::new(attrs);
        for (number, op) in ops.iter().enumerate() {
            act(&mut kernel, *op);
            if let Err(why) = kernel.check() {
                prop_assert!(false, "{} after {:?}, the {}th of {:?}", why, op, number, ops);
            }
        }
    }
}

/// A name that is in use is given back when its time is over, and no sooner; and those of this
/// directory are not told for a while.
#[test]
fn who_changes_a_name_waits_until_nobody_uses_it() {
    let mut kernel = Kernel::new(100);
    let root = kernel.dirs[0];
    for name in NAMES {
        let file = open(&mut kernel.world, OTHER, root, name).unwrap();
        close(&mut kernel.world, OTHER, file);
    }
    let remove = |kernel: &mut Kernel, name: &[u8]| {
        let began = kernel.world.now;
        let world = &mut kernel.world;
        world.wait(OTHER, |c, t, done| c.unlink(t, CALLER, root, name, false, done)).unwrap();
        kernel.world.now.since(began)
    };
    let (_, valid) = kernel.look_up(root, b"a").unwrap();
    assert_eq!(valid.entry, ENTRY_VALID);
    let (_, valid) = kernel.look_up(root, b"b").unwrap();
    assert_eq!(valid.entry, ENTRY_VALID);
    let waited = remove(&mut kernel, b"a");
    assert!(waited >= ENTRY_VALID && waited <= Nanos(4 * ENTRY_VALID.0), "{waited:?}");
    // Time has passed for this one, too.
    assert_eq!(remove(&mut kernel, b"b"), Nanos(0));
    let (_, valid) = kernel.look_up(root, b"c").unwrap();
    assert_eq!(valid.entry, Nanos(0), "somebody works there");
    assert_eq!(remove(&mut kernel, b"c"), Nanos(0));
    kernel.world.pass(11);
    let file = open(&mut kernel.world, OTHER, root, b"c").unwrap();
    close(&mut kernel.world, OTHER, file);
    let (_, valid) = kernel.look_up(root, b"c").unwrap();
    assert_eq!(valid.entry, ENTRY_VALID);
}

/// A change that leaves the names of a file alone does not wait for those who use them.
#[test]
fn who_changes_times_does_not_wait() {
    let mut kernel = Kernel::new(100);
    let root = kernel.dirs[0];
    let file = open(&mut kernel.world, OTHER, root, b"a").unwrap();
    let fid = file.attr.fid;
    close(&mut kernel.world, OTHER, file);
    let (_, valid) = kernel.look_up(root, b"a").unwrap();
    assert_eq!(valid.entry, ENTRY_VALID);
    let began = kernel.world.now;
    let time = Some(SetTime::At(77));
    let changes = Changes { mtime: time, atime: time, ..Changes::default() };
    let world = &mut kernel.world;
    world.wait(OTHER, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done)).unwrap();
    assert_eq!(kernel.world.now, began);
    kernel.check().unwrap();
    // The name is still told, and the times of now.
    let (attr, valid) = kernel.look_up(root, b"a").unwrap();
    assert_eq!((attr.mtime, valid.entry), (77, ENTRY_VALID));
}

/// Names that are made in a directory take its attributes, at once, and not its own name.
#[test]
fn who_makes_names_in_a_directory_does_not_wait() {
    let mut kernel = Kernel::new(100);
    let [root, dir] = kernel.dirs;
    let (_, valid) = kernel.look_up(root, b"d").unwrap();
    assert!(valid.entry > Nanos(0) && valid.attr > Nanos(0), "{valid:?}");
    let began = kernel.world.now;
    let file = open(&mut kernel.world, OTHER, dir, b"a").unwrap();
    assert_eq!(kernel.world.now, began);
    close(&mut kernel.world, OTHER, file);
    assert!(!kernel.attrs.lock().unwrap().contains_key(&dir));
    // By the mount itself: the kernel forgets by itself what changes, and keeps the permissions.
    assert!(kernel.getattr(dir).unwrap().attr > Nanos(0));
    let file = open(&mut kernel.world, MOUNT, dir, b"b").unwrap();
    close(&mut kernel.world, MOUNT, file);
    assert!(kernel.attrs.lock().unwrap().contains_key(&dir));
    chmod(&mut kernel.world, OTHER, dir, 0o700);
    assert!(!kernel.attrs.lock().unwrap().contains_key(&dir));
    // If nothing was changed the kernel would keep what the lock does not protect any more.
    assert!(kernel.getattr(dir).unwrap().attr > Nanos(0));
    let made =
        kernel.world.wait(MOUNT, |c, t, done| c.mkdir(t, CALLER, dir, b"a", (0o755, 0), done));
    assert_eq!(made.map_err(|error| error.errno()).err(), Some(17));
    assert!(!kernel.attrs.lock().unwrap().contains_key(&dir));
}
