//! What a kernel uses of a mount without asking holds: a kernel that uses all that it may.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lustrine_client::{
    Attr, CacheTunables, Cached, Changes, Client, OpenArgs, OpenFile, SetTime, Sharing, Valid,
};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_server::TargetTunables;
use proptest::prelude::*;

use crate::world::*;

mod at_once;

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
    attrs: Arc<Mutex<Attrs>>,
    /// Answers that processes have not used yet, each with the time when they will.
    answers: Vec<(Time, Answer)>,
    /// How many answers the mount gave at once.
    cached: usize,
}

/// Attributes of files, and how often each was to be forgotten.
#[derive(Clone, Default)]
struct Attrs {
    known: BTreeMap<Fid, (Attr, Time)>,
    versions: BTreeMap<Fid, u64>,
}

struct Answer {
    name: Option<(Fid, Vec<u8>)>,
    attr: Attr,
    valid: Valid,
    /// The version when it was asked for.
    version: u64,
}

impl Kernel {
    fn new(attrs: usize) -> Kernel {
        Kernel::of(attrs, false)
    }

    fn of(attrs: usize, is_for_one_user: bool) -> Kernel {
        let cache = CacheTunables { attrs, ..CacheTunables::of(4 << 20) };
        let caches = [cache, cache, CacheTunables::NONE];
        let mut world = World::with_objects(TargetTunables::default(), &caches, 2);
        for client in 0..caches.len() {
            world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
        }
        let root = world.root;
        let made = world.wait(OTHER, |c, t, done| c.mkdir(t, CALLER, root, b"d", (0o755, 0), done));
        let attrs = Arc::new(Mutex::new(Attrs::default()));
        let known = Arc::clone(&attrs);
        world.at_client(MOUNT, |client, _| {
            let sharing = Sharing { entry_valid: ENTRY_VALID, is_for_one_user };
            client.share_validity(sharing, move |fid| {
                let mut attrs = known.lock().unwrap();
                attrs.known.remove(&fid);
                *attrs.versions.entry(fid).or_default() += 1;
            });
        });
        let dirs = [root, made.unwrap().fid];
        let (entries, answers) = (BTreeMap::new(), Vec::new());
        Kernel { world, dirs, entries, attrs, answers, cached: 0 }
    }

    fn version(&self, fid: Fid) -> u64 {
        self.attrs.lock().unwrap().versions.get(&fid).copied().unwrap_or_default()
    }

    fn valid(&mut self, name: Option<(Fid, &[u8])>, attr: &Attr) -> Valid {
        self.world.at_client(MOUNT, |client, turn| client.valid(turn.now, name, attr))
    }

    /// Has the mount look a name up. A process uses the answer after a delay.
    fn look_up(&mut self, dir: Fid, name: &[u8], delay: Nanos) -> Option<(Attr, Valid)> {
        // The second name that it is asked for has it ask for the directory.
        stat(&mut self.world, MOUNT, dir).ok()?;
        // What the file is, the kernel knows from an earlier look-up.
        let before = look_up(&mut self.world, KEEPS_NOTHING, dir, name).map(|attr| attr.fid);
        let version = before.map_or(0, |fid| self.version(fid));
        let (attr, valid) = match self.cached_lookup(dir, name, before) {
            Some(cached) => {
                let Cached { attr, valid } = cached.ok()?;
                (attr, valid)
            }
            None => {
                let attr = look_up(&mut self.world, MOUNT, dir, name).ok()?;
                let valid = self.valid(Some((dir, name)), &attr);
                (attr, valid)
            }
        };
        let name = Some((dir, name.to_vec()));
        self.answers
            .push((self.world.now + delay, Answer { name, attr: attr.clone(), valid, version }));
        self.use_answers();
        Some((attr, valid))
    }

    /// What the mount answers at once: it is what the servers have, `before` among it, and anyone
    /// may know only what is in directories that all may search.
    fn cached_lookup(
        &mut self,
        dir: Fid,
        name: &[u8],
        before: Result<Fid, i32>,
    ) -> Option<Result<Cached, i32>> {
        let [anyone, caller] = [None, Some(CALLER)].map(|caller| {
            self.world.at_client(MOUNT, |client, turn| {
                let (found, _) = client.cached_lookup(turn.now, caller, (dir, name))?;
                Some(found.map_err(|error| error.errno()))
            })
        });
        if anyone.is_some() {
            let mode = stat(&mut self.world, KEEPS_NOTHING, dir).map(|attr| attr.mode & 0o111);
            assert_eq!(mode, Ok(0o111), "anyone may know names of {dir}");
        }
        for cached in anyone.iter().chain(&caller) {
            self.cached += 1;
            assert_eq!(cached.as_ref().map(|cached| cached.attr.fid), before.as_ref().copied());
            if let Ok(Cached { attr, .. }) = cached {
                let now = stat(&mut self.world, KEEPS_NOTHING, attr.fid).map(exact);
                assert_eq!(now, Ok(exact(attr.clone())), "{dir} {name:?}");
            }
        }
        caller.or(anyone)
    }

    /// Has the mount ask for the attributes of a directory.
    fn getattr(&mut self, fid: Fid, delay: Nanos) -> Option<Valid> {
        let version = self.version(fid);
        let cached = self.world.at_client(MOUNT, |client, turn| client.cached_attr(turn.now, fid));
        let (attr, valid) = match cached {
            Some(Cached { attr, valid }) => {
                self.cached += 1;
                let now = stat(&mut self.world, KEEPS_NOTHING, fid).map(exact);
                assert_eq!(now, Ok(exact(attr.clone())), "it is known");
                (attr, valid)
            }
            None => {
                let attr = stat(&mut self.world, MOUNT, fid).ok()?;
                let valid = self.valid(None, &attr);
                (attr, valid)
            }
        };
        self.answers.push((self.world.now + delay, Answer { name: None, attr, valid, version }));
        self.use_answers();
        Some(valid)
    }

    /// Uses the answers whose time has come: how long they are valid counts from there.
    fn use_answers(&mut self) {
        let now = self.world.now;
        let due: Vec<_> = self.answers.extract_if(.., |(at, _)| *at <= now).collect();
        for (at, Answer { name, attr, valid, version }) in due {
            let fid = attr.fid;
            if let Some(name) = name {
                self.entries.insert(name, (fid, at + valid.entry));
            }
            if self.version(fid) == version {
                self.attrs.lock().unwrap().known.insert(fid, (attr, at + valid.attr));
            }
        }
    }

    /// Compares what the kernel may use with what the servers have.
    fn check(&mut self) -> Result<(), String> {
        self.use_answers();
        let now = self.world.now;
        for ((dir, name), (fid, _)) in self.entries.iter().filter(|(_, (_, until))| *until > now) {
            let found = look_up(&mut self.world, KEEPS_NOTHING, *dir, name).map(|attr| attr.fid);
            if found != Ok(*fid) {
                return Err(format!("{dir} {name:?} leads to {found:?} and not to {fid}"));
            }
            let mode = stat(&mut self.world, KEEPS_NOTHING, *dir).map(|attr| attr.mode & 0o111);
            if mode != Ok(0o111) {
                return Err(format!("names of {dir} are used, which is closed: {mode:?}"));
            }
        }
        let known = self.attrs.lock().unwrap().known.clone();
        for (fid, (attr, _)) in known.into_iter().filter(|(_, (_, until))| *until > now) {
            let found = stat(&mut self.world, KEEPS_NOTHING, fid).map(exact);
            if found != Ok(exact(attr.clone())) {
                return Err(format!("{found:?} is not {attr:?}"));
            }
        }
        Ok(())
    }

    /// The kernel has asked for a change, and knows what becomes of it.
    fn has_changed(&mut self, op: Op, files: &[Fid], succeeded: bool) {
        self.use_answers();
        let name = |(dir, name): Place| (self.dirs[dir], NAMES[name].to_vec());
        let (names, dirs) = match op {
            Op::Make(_, at) | Op::Mkdir(_, at) | Op::Unlink(_, at) | Op::Write(_, at, _) => {
                (vec![name(at)], vec![at.0])
            }
            Op::Rename(_, from, to) => (vec![name(from), name(to)], vec![from.0, to.0]),
            _ => (vec![], vec![]),
        };
        for name in names {
            self.entries.remove(&name);
        }
        // For a moment after a change of a file by the mount, another one may be missed.
        self.entries.retain(|_, (fid, _)| !files.contains(fid));
        self.answers.retain(|(_, answer)| !files.contains(&answer.attr.fid));
        let mut attrs = self.attrs.lock().unwrap();
        let dirs = dirs.into_iter().filter(|_| succeeded).map(|dir| self.dirs[dir]);
        for fid in files.iter().copied().chain(dirs) {
            attrs.known.remove(&fid);
        }
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
    LookUp(Place, u64),
    Getattr(usize, u64),
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
    // Milliseconds until a process uses an answer.
    let delay = || prop_oneof![2 => Just(0u64), 1 => 0..200u64];
    prop_oneof![
        12 => (at(), delay()).prop_map(|(at, delay)| Op::LookUp(at, delay)),
        6 => (0..2usize, delay()).prop_map(|(dir, delay)| Op::Getattr(dir, delay)),
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
        Op::LookUp(..) | Op::Getattr(..) | Op::Pass(_) => unreachable!("it changes nothing"),
    }
}

/// The files that an operation changes.
fn changed(kernel: &mut Kernel, op: Op) -> Vec<Fid> {
    let places = match op {
        Op::Unlink(_, at)
        | Op::Chmod(_, at, _)
        | Op::Utimes(_, at, _)
        | Op::Make(_, at)
        | Op::Write(_, at, _) => vec![at],
        Op::Rename(_, from, to) => vec![from, to],
        Op::ChmodDir(_, dir, _) => return vec![kernel.dirs[dir]],
        _ => vec![],
    };
    let world = &mut kernel.world;
    let fid = |(dir, name): Place| {
        look_up(world, KEEPS_NOTHING, kernel.dirs[dir], NAMES[name]).map(|attr| attr.fid).ok()
    };
    places.into_iter().filter_map(fid).collect()
}

fn act(kernel: &mut Kernel, op: Op) {
    let (dirs, millis) = (kernel.dirs, Nanos::from_millis);
    match op {
        Op::LookUp((dir, name), delay) => {
            kernel.look_up(dirs[dir], NAMES[name], millis(delay));
        }
        Op::Getattr(dir, delay) => {
            kernel.getattr(dirs[dir], millis(delay));
        }
        Op::Pass(time) => pass(&mut kernel.world, millis(time)),
        Op::Make(client, _)
        | Op::Mkdir(client, _)
        | Op::Unlink(client, _)
        | Op::Rename(client, ..)
        | Op::Chmod(client, ..)
        | Op::ChmodDir(client, ..)
        | Op::Utimes(client, ..)
        | Op::Write(client, ..) => {
            let files = changed(kernel, op);
            let succeeded = change(&mut kernel.world, dirs, op);
            if client == MOUNT {
                kernel.has_changed(op, &files, succeeded);
            }
        }
    }
}

fn pass(world: &mut World, time: Nanos) {
    let end = world.now + time;
    world.alarm = end;
    while world.now < end {
        world.settle();
        world.advance();
    }
    world.alarm = Time::NEVER;
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
        // More than the limit are kept only while names are in use.
        pass(&mut kernel.world, Nanos::from_secs(1));
        prop_assert!(kernel.world.clients[MOUNT].attr_counts().entries <= attrs);
    }
}

/// A name that is in use is given back when its time is over, and no sooner; and those of this
/// directory are not valid for a while.
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
    let (_, valid) = kernel.look_up(root, b"a", Nanos(0)).unwrap();
    assert_eq!(valid.entry, ENTRY_VALID);
    let (_, valid) = kernel.look_up(root, b"b", Nanos(0)).unwrap();
    assert_eq!(valid.entry, ENTRY_VALID);
    let waited = remove(&mut kernel, b"a");
    assert!(waited >= ENTRY_VALID && waited <= Nanos(4 * ENTRY_VALID.0), "{waited:?}");
    // Time has passed for this one, too.
    assert_eq!(remove(&mut kernel, b"b"), Nanos(0));
    let (_, valid) = kernel.look_up(root, b"c", Nanos(0)).unwrap();
    assert_eq!(valid.entry, Nanos(0), "somebody works there");
    assert_eq!(remove(&mut kernel, b"c"), Nanos(0));
    kernel.world.pass(11);
    let file = open(&mut kernel.world, OTHER, root, b"c").unwrap();
    close(&mut kernel.world, OTHER, file);
    let (_, valid) = kernel.look_up(root, b"c", Nanos(0)).unwrap();
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
    let (_, valid) = kernel.look_up(root, b"a", Nanos(0)).unwrap();
    assert_eq!(valid.entry, ENTRY_VALID);
    let began = kernel.world.now;
    let time = Some(SetTime::At(77));
    let changes = Changes { mtime: time, atime: time, ..Changes::default() };
    let world = &mut kernel.world;
    world.wait(OTHER, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done)).unwrap();
    assert_eq!(kernel.world.now, began);
    kernel.check().unwrap();
    // The name is still valid, and the times are those of now.
    let (attr, valid) = kernel.look_up(root, b"a", Nanos(0)).unwrap();
    assert_eq!((attr.mtime, valid.entry), (77, ENTRY_VALID));
}

/// A change gives the lock of a file back, and with it the name that the kernel still uses. The
/// next one knows the file all the same, and gives back the lock that it has got since.
#[test]
fn who_changes_a_file_twice_does_not_wait() {
    let mut kernel = Kernel::new(100);
    let root = kernel.dirs[0];
    for first in 0..2 {
        for second in 0..2 {
            let file = open(&mut kernel.world, MOUNT, root, b"a").unwrap();
            let fid = file.attr.fid;
            close(&mut kernel.world, MOUNT, file);
            let (_, valid) = kernel.look_up(root, b"a", Nanos(0)).unwrap();
            assert_eq!(valid.entry, ENTRY_VALID);
            let world = &mut kernel.world;
            let began = world.now;
            if first == 0 {
                let linked =
                    world.wait(MOUNT, |c, t, done| c.link(t, CALLER, fid, root, b"b", done));
                linked.unwrap();
            } else {
                chmod(world, MOUNT, fid, 0o600);
            }
            // The kernel has the attributes of the file again.
            stat(world, MOUNT, fid).unwrap();
            let (from, to): (_, (_, &[u8])) = ((root, &b"a"[..]), (root, b"c"));
            match second {
                0 => world.wait(MOUNT, |c, t, done| c.unlink(t, CALLER, root, b"a", false, done)),
                _ => world.wait(MOUNT, |c, t, done| c.rename(t, CALLER, from, to, 0o100_644, done)),
            }
            .unwrap();
            assert_eq!(world.now, began, "{first} {second}");
            pass(world, Nanos::from_secs(1));
            for name in [b"b", b"c"] {
                let unlink = |c: &mut Client, t: &mut Turn<'_>, done| {
                    c.unlink(t, CALLER, root, name, false, done);
                };
                let _ = world.wait(MOUNT, unlink);
            }
        }
    }
}

/// Names that are made in a directory take its attributes, at once, and not its own name.
#[test]
fn who_makes_names_in_a_directory_does_not_wait() {
    let mut kernel = Kernel::new(100);
    let [root, dir] = kernel.dirs;
    let (_, valid) = kernel.look_up(root, b"d", Nanos(0)).unwrap();
    assert!(valid.entry > Nanos(0) && valid.attr > Nanos(0), "{valid:?}");
    let began = kernel.world.now;
    let file = open(&mut kernel.world, OTHER, dir, b"a").unwrap();
    assert_eq!(kernel.world.now, began);
    close(&mut kernel.world, OTHER, file);
    assert!(!kernel.attrs.lock().unwrap().known.contains_key(&dir));
    // By the mount itself too: the kernel would take an answer that is older than the change.
    assert!(kernel.getattr(dir, Nanos(0)).unwrap().attr > Nanos(0));
    let file = open(&mut kernel.world, MOUNT, dir, b"b").unwrap();
    close(&mut kernel.world, MOUNT, file);
    assert_eq!(kernel.world.now, began);
    assert!(!kernel.attrs.lock().unwrap().known.contains_key(&dir));
}

/// Names are valid in directories that all users may search, or if only one user has access.
#[test]
fn names_in_closed_directories_are_not_valid() {
    for is_for_one_user in [false, true] {
        let mut kernel = Kernel::of(100, is_for_one_user);
        let [_, dir] = kernel.dirs;
        let file = open(&mut kernel.world, OTHER, dir, b"a").unwrap();
        close(&mut kernel.world, OTHER, file);
        let is_valid = |kernel: &mut Kernel| {
            kernel.getattr(dir, Nanos(0));
            let (_, valid) = kernel.look_up(dir, b"a", Nanos(0)).unwrap();
            valid.entry > Nanos(0)
        };
        for (mode, is_open) in [(0o711, true), (0o710, false), (0o700, false), (0o755, true)] {
            chmod(&mut kernel.world, OTHER, dir, mode);
            assert_eq!(is_valid(&mut kernel), is_open || is_for_one_user, "{mode:o}");
            // Somebody has waited for who used the name.
            pass(&mut kernel.world, Nanos::from_secs(11));
        }
        // The mount itself waits too, before it closes a directory in use, and only then.
        for (mode, waits) in [(0o711, false), (0o700, true)] {
            assert!(is_valid(&mut kernel), "{mode:o}");
            let began = kernel.world.now;
            chmod(&mut kernel.world, MOUNT, dir, mode);
            assert_eq!(kernel.world.now > began, waits, "{mode:o}");
        }
    }
}

/// An answer that took so long that the lock was given back and is another one now.
#[test]
fn attributes_that_are_older_than_the_lock_are_not_valid() {
    let mut kernel = Kernel::new(100);
    let [root, dir] = kernel.dirs;
    let file = open(&mut kernel.world, OTHER, root, b"a").unwrap();
    let fid = file.attr.fid;
    let (attr, layout) = (file.attr.clone(), file.layout.clone());
    let write = |world: &mut World, byte| {
        let (owner, data) = (attr.owner(), Bytes::from(vec![byte; 10]));
        let written = world
            .wait(OTHER, |c, t, done| c.write(t, CALLER, (fid, owner), &layout, (0, data), done));
        written.unwrap();
        // Its lock goes when it was not used for ten minutes.
        world.pass(700);
    };
    write(&mut kernel.world, 1);
    let old = [fid, dir].map(|fid| stat(&mut kernel.world, MOUNT, fid).unwrap());
    for attr in &old {
        assert!(kernel.valid(None, attr).attr > Nanos(0));
    }
    write(&mut kernel.world, 2);
    chmod(&mut kernel.world, OTHER, dir, 0o711);
    let new = [fid, dir].map(|fid| stat(&mut kernel.world, MOUNT, fid).unwrap());
    for (old, new) in old.iter().zip(&new) {
        assert_eq!(kernel.valid(None, old).attr, Nanos(0));
        assert!(kernel.valid(None, new).attr > Nanos(0));
    }
    assert_eq!(old[0].size, new[0].size, "the times differ");
}
