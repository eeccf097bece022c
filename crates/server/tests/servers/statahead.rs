//! Files that are asked for before a program does, when it lists a directory.

use bytes::Bytes;
use lustrine_client::{Attr, CacheTunables, Caller, OpenArgs, OpenFile};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::time::Nanos;
use lustrine_server::TargetTunables;
use proptest::prelude::*;

use crate::world::*;

/// A client that lists, one that writes, and one that keeps nothing.
const LISTS: usize = 0;
const WRITES: usize = 1;
const KEEPS_NOTHING: usize = 2;

fn mounted(cache: CacheTunables) -> World {
    let caches = [cache, CacheTunables::of(4 << 20), CacheTunables::NONE];
    let mut world = World::with_objects(TargetTunables::default(), &caches, 1);
    for client in 0..caches.len() {
        world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
    }
    world
}

fn keeping(attrs: usize, statahead_max: usize) -> CacheTunables {
    CacheTunables { attrs, statahead_max, ..CacheTunables::of(4 << 20) }
}

fn make(world: &mut World, name: &str) -> OpenFile {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
    let args = OpenArgs { flags, mode: 0o644, umask: 0 };
    let root = world.root;
    let name = name.as_bytes();
    world.wait(WRITES, |c, t, done| c.create(t, CALLER, root, name, args, done)).unwrap()
}

fn write(world: &mut World, file: &OpenFile, len: usize) {
    let (attr, layout) = (&file.attr, &file.layout);
    let data = Bytes::from(vec![7; len]);
    let written = world.wait(WRITES, |c, t, done| {
        c.write(t, CALLER, (attr.fid, attr.owner()), layout, (0, data), done);
    });
    written.unwrap();
}

/// Files of different sizes; the number of each is its name.
fn files(world: &mut World, count: usize) -> Vec<OpenFile> {
    (0..count)
        .map(|number| {
            let file = make(world, &number.to_string());
            write(world, &file, number + 1);
            file
        })
        .collect()
}

/// The names of the root in the order of the listing.
fn list(world: &mut World, client: usize) -> Vec<Vec<u8>> {
    let root = world.root;
    let page = world.wait(client, |c, t, done| c.readdir(t, CALLER, root, 0, done)).unwrap();
    assert_eq!(page.next, None, "all are in one part");
    let names = page.entries.into_iter().map(|entry| entry.name);
    names.filter(|name| !name.starts_with(b".")).collect()
}

/// What `ls -l` asks for.
fn stat(world: &mut World, client: usize, caller: Caller, name: &[u8]) -> Result<Attr, i32> {
    let dir = world.root;
    let found = world.wait(client, |c, t, done| c.lookup(t, caller, dir, name, done));
    let attr = found.map_err(|error| error.errno())?;
    let whole = world.wait(client, |c, t, done| c.complete(t, caller, attr, done));
    whole.map_err(|error| error.errno())
}

/// Has the client keep the attributes of the root, as the look at a path to it does.
fn look_at_root(world: &mut World) {
    let root = world.root;
    world.wait(LISTS, |c, t, done| c.getattr(t, CALLER, root, done)).unwrap();
}

/// How long it takes to look at all files of a listing, and how many requests are sent for it.
fn look_at_all(world: &mut World, count: usize) -> (Nanos, u64) {
    let names = list(world, LISTS);
    assert_eq!(names.len(), count);
    let sent = |world: &World| world.clients[LISTS].counters().requests_sent;
    let (began, before) = (world.now, sent(world));
    for name in &names {
        let number: u64 = String::from_utf8_lossy(name).parse().unwrap();
        assert_eq!(stat(world, LISTS, CALLER, name).unwrap().size, Some(number + 1));
    }
    (Nanos(world.now.0 - began.0), sent(world) - before)
}

const RTT: Nanos = Nanos::from_millis(10);

/// So many files on servers that are [`RTT`] away; nothing of them is with the client that wrote.
fn far_away(count: usize, statahead_max: usize) -> World {
    let mut world = mounted(keeping(1000, statahead_max));
    files(&mut world, count);
    world.pass(700);
    world.links = Some(Links::new(1, (Nanos(RTT.0 / 2), Nanos(RTT.0 / 2))));
    look_at_root(&mut world);
    world
}

#[test]
fn who_looks_at_all_files_of_a_directory_waits_for_few_of_them() {
    const FILES: usize = 300;
    let look = |statahead_max| {
        let mut world = far_away(FILES, statahead_max);
        let cold = look_at_all(&mut world, FILES);
        let warm = look_at_all(&mut world, FILES);
        (cold, warm, world.clients[LISTS].attr_counts().statahead)
    };
    let (asked, warm, ahead) = look(0);
    // One after the other, and for each its size. The object target was not connected.
    assert_eq!((asked.1, ahead), (2 * FILES as u64 + 1, 0));
    assert!(asked.0 >= Nanos(2 * FILES as u64 * RTT.0), "{asked:?}");
    assert_eq!(warm, (Nanos(0), 0));
    let (asked, warm, ahead) = look(128);
    // Nearly all before the program needed the answer, and eight names or nine with one request.
    assert_eq!(ahead, FILES as u64 - 2);
    let for_names = asked.1 - FILES as u64;
    assert!((FILES as u64 / 9..=FILES as u64 / 7).contains(&for_names), "{for_names}");
    // LNet has 8 messages to a peer under way.
    assert!(asked.0 <= Nanos(80 * RTT.0), "{asked:?}");
    assert_eq!(warm, (Nanos(0), 0));
}

/// Programs that make up the names themselves are followed too. What they ask for last is asked for
/// ahead in vain, and once.
#[test]
fn who_looks_at_numbered_files_waits_for_few_of_them() {
    const FILES: usize = 300;
    let look = |statahead_max| {
        let mut world = far_away(FILES, statahead_max);
        let sent = |world: &World| world.clients[LISTS].counters().requests_sent;
        let (began, before) = (world.now, sent(&world));
        for number in 0..FILES {
            let attr = stat(&mut world, LISTS, CALLER, number.to_string().as_bytes()).unwrap();
            assert_eq!(attr.size, Some(number as u64 + 1));
        }
        assert_eq!(stat(&mut world, LISTS, CALLER, b"300"), Err(2));
        let cold = (Nanos(world.now.0 - began.0), sent(&world) - before);
        let before = sent(&world);
        for number in 0..FILES {
            stat(&mut world, LISTS, CALLER, number.to_string().as_bytes()).unwrap();
        }
        assert_eq!(sent(&world), before, "the end is known");
        cold
    };
    let (time, requests) = look(0);
    assert!(time >= Nanos(2 * FILES as u64 * RTT.0), "{time:?}");
    assert_eq!(requests, 2 * FILES as u64 + 2);
    let (time, requests) = look(128);
    assert!(time <= Nanos(90 * RTT.0), "{time:?}");
    // The first ones alone, the others together, and those that were in flight when one was found
    // missing; and the size of each file.
    let for_names = requests - FILES as u64;
    assert!((FILES as u64 / 9..=7 + (FILES as u64 + 128) / 8).contains(&for_names), "{for_names}");
}

/// The number of the directory's files does not fit: what is asked for ahead is not kept for
/// long enough to be of use, and is not asked for without end.
#[test]
fn few_places_are_no_reason_to_ask_without_end() {
    const FILES: usize = 100;
    let requests = |statahead_max| {
        let mut world = mounted(keeping(16, statahead_max));
        files(&mut world, FILES);
        world.pass(700);
        look_at_root(&mut world);
        let (_, requests) = look_at_all(&mut world, FILES);
        assert!(world.clients[LISTS].attr_counts().entries <= 16);
        requests
    };
    let (without, with) = (requests(0), requests(128));
    assert!(with <= without + 20, "{with} with, {without} without");
}

/// A user who may not search the directory learns nothing from what was asked for ahead.
#[test]
fn nothing_is_asked_for_a_user_who_is_refused() {
    const USER: Caller = Caller { uid: 7, gid: 7, capabilities: 0, ..CALLER };
    let mut world = mounted(keeping(1000, 128));
    files(&mut world, 40);
    let root = world.root;
    let changes = lustrine_client::Changes { mode: Some(0o744), ..Default::default() };
    world.wait(WRITES, |c, t, done| c.set_attributes(t, CALLER, root, changes, done)).unwrap();
    look_at_root(&mut world);
    look_at_all(&mut world, 40);
    for name in list(&mut world, LISTS) {
        assert_eq!(stat(&mut world, LISTS, USER, &name), Err(13));
    }
}

/// What the other client does while this one looks at all files.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Write(usize, usize),
    Remove(usize),
    Make(usize),
}

fn meanwhile() -> impl Strategy<Value = Meanwhile> {
    prop_oneof![
        3 => (0..12usize, 1..5000usize).prop_map(|(file, len)| Meanwhile::Write(file, len)),
        1 => (0..12usize).prop_map(Meanwhile::Remove),
        1 => (0..12usize).prop_map(Meanwhile::Make),
    ]
}

/// Starts what the other client does. The result says whether it is not over yet.
fn start(world: &mut World, files: &[OpenFile], op: Meanwhile) -> Box<dyn Fn() -> bool> {
    let root = world.root;
    let name = |number: usize| number.to_string().into_bytes();
    match op {
        Meanwhile::Write(file, len) => {
            let OpenFile { attr, layout, .. } = files[file].clone();
            let data = Bytes::from(vec![7; len]);
            let slot = world.start(WRITES, |c, t, done| {
                c.write(t, CALLER, (attr.fid, attr.owner()), &layout, (0, data), done);
            });
            Box::new(move || slot.is_pending())
        }
        Meanwhile::Remove(file) => {
            let slot = world.start(WRITES, |c, t, done| {
                c.unlink(t, CALLER, root, &name(file), false, done);
            });
            Box::new(move || slot.is_pending())
        }
        Meanwhile::Make(file) => {
            let mode = (0o100_644, 0);
            let slot = world.start(WRITES, |c, t, done| {
                c.mknod(t, CALLER, root, &name(file), mode, 0, done);
            });
            Box::new(move || slot.is_pending())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Answers that were asked for ahead cross changes by another client. What a program is shown
    /// once these are over is what the servers have.
    #[test]
    fn nothing_stale_is_shown_of_what_was_asked_for_ahead(
        rounds in prop::collection::vec(prop::collection::vec(meanwhile(), 1..6), 1..5),
        seed in any::<u64>(),
        attrs in prop_oneof![Just(24usize), Just(100)],
    ) {
        let mut world = mounted(keeping(attrs, 128));
        let files = files(&mut world, 12);
        world.links = Some(Links::new(seed, (Nanos::from_micros(100), Nanos::from_micros(5000))));
        for round in rounds {
            look_at_root(&mut world);
            let names = list(&mut world, LISTS);
            let mut looked: Vec<Slot<Attr>> = Vec::new();
            let mut changes = round.into_iter();
            let mut in_flight = Vec::new();
            for name in names {
                let dir = world.root;
                looked.push(world.start(LISTS, |c, t, done| {
                    c.lookup(t, CALLER, dir, &name, done);
                }));
                if let Some(op) = changes.next() {
                    in_flight.push(start(&mut world, &files, op));
                }
                world.settle();
                world.advance();
            }
            while looked.iter().any(Slot::is_pending) || in_flight.iter().any(|is| is()) {
                world.settle();
                world.advance();
            }
            // No time of a file changes any more.
            let _ = world.wait(WRITES, |c, t, done| c.flush_all(t, done));
            for number in 0..12 {
                let name = number.to_string().into_bytes();
                let expected = stat(&mut world, KEEPS_NOTHING, CALLER, &name);
                let shown = stat(&mut world, LISTS, CALLER, &name);
                prop_assert_eq!(shown, expected, "{}", number);
            }
        }
    }
}
