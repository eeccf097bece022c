//! Operations of two clients on one striped file at the same time: the file ends as if one had come
//! after the other.

use lustrine_client::{
    Allocate, CacheTunables, Changes, Client, Done, FileLayout, FileOwner, OpenArgs, OpenFile,
};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Nanos;
use lustrine_server::TargetTunables;

use crate::world::*;

const OWNER: FileOwner = FileOwner { uid: 0, gid: 0, projid: 0 };
const OSTS: u16 = 4;
/// Bytes of a stripe.
const STRIPE: usize = 65536;
/// The two clients that have used the file, and one that has not.
const CLIENTS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Append {
        len: usize,
        byte: u8,
    },
    Truncate {
        size: usize,
    },
    /// Space for the range from `at` on; the file does not end before its end.
    Reserve {
        at: usize,
        len: usize,
    },
}

impl Op {
    /// Does it to a file in memory.
    fn apply(self, file: &mut Vec<u8>) {
        match self {
            Op::Append { len, byte } => file.extend(vec![byte; len]),
            Op::Truncate { size } => file.resize(size, 0),
            Op::Reserve { at, len } => file.resize(file.len().max(at + len), 0),
        }
    }

    fn start(
        self,
        file: &OpenFile,
        layout: FileLayout,
    ) -> impl FnOnce(&mut Client, &mut Turn<'_>, Done<()>) + use<> {
        let fid = file.attr.fid;
        move |client, turn, done| match self {
            Op::Append { len, byte } => {
                let data = vec![byte; len].into();
                client.append(turn, CALLER, (fid, OWNER), layout, data, ended(done));
            }
            Op::Truncate { size } => {
                let changes = Changes { size: Some(size as u64), ..Changes::default() };
                client.set_attributes(turn, CALLER, fid, changes, ended(done));
            }
            Op::Reserve { at, len } => {
                let (what, range) = (Allocate::Reserve, (at as u64, len as u64));
                client.allocate(turn, CALLER, (fid, OWNER), &layout, what, range, done);
            }
        }
    }
}

/// An operation whose value does not matter.
fn ended<T: 'static>(done: Done<()>) -> Done<T> {
    Box::new(move |client, turn, outcome| done(client, turn, outcome.map(drop)))
}

/// A file of `len` bytes, which the first client has in its cache, and the second one a part of it,
/// if they keep data.
fn shared(seed: u64, cache: CacheTunables, len: usize) -> (World, OpenFile, FileLayout, Vec<u8>) {
    let caches = [cache; CLIENTS];
    let mut world = World::with_objects(TargetTunables::default(), &caches, OSTS);
    for client in 0..CLIENTS {
        world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
    }
    let root = world.root;
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
    let args = OpenArgs { flags, mode: 0o644, umask: 0 };
    let file = world.wait(0, |c, t, done| c.create(t, CALLER, root, b"f", args, done)).unwrap();
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    let data: Vec<u8> = (0..len).map(|at| (at / STRIPE + 1) as u8).collect();
    let bytes = data.clone().into();
    let write = |c: &mut Client, t: &mut Turn<'_>, done: Done<()>| {
        c.write(t, CALLER, (fid, OWNER), &layout, (0, bytes), done);
    };
    world.wait(0, write).unwrap();
    world.wait(1, |c, t, done| c.read(t, CALLER, fid, &layout, (0, 1), done)).unwrap();
    world.links = Some(Links::new(seed, (Nanos::from_micros(50), Nanos::from_micros(400))));
    (world, file, layout, data)
}

#[test]
fn of_two_operations_at_the_same_time_one_comes_first() {
    let mut rng = Rng::new(1);
    let mut orders = [0; 2];
    for case in 0..160 {
        let cache = match case % 2 {
            0 => CacheTunables::NONE,
            _ => CacheTunables::of(32 << 20),
        };
        let whole = STRIPE * usize::from(OSTS);
        let len = rng.below(2 * whole as u64) as usize;
        let (mut world, file, layout, data) = shared(case, cache, len);
        let mut up_to = |most: usize| rng.below(most as u64) as usize;
        let truncate = Op::Truncate { size: up_to(3 * whole) };
        let append = Op::Append { len: 1 + up_to(whole), byte: 0xaa };
        let reserve = Op::Reserve { at: up_to(2 * whole), len: 1 + up_to(2 * whole) };
        let ops = match case % 8 {
            0 | 1 => [truncate, Op::Truncate { size: up_to(3 * whole) }],
            2 | 3 => [reserve, append],
            4 | 5 => [reserve, truncate],
            _ => [truncate, append],
        };
        let mut slots = Vec::new();
        for (client, op) in ops.iter().enumerate() {
            slots.push(world.start(client, op.start(&file, layout.clone())));
            // The other one begins a little later, often while this one is in flight.
            let begin = world.now + Nanos::from_micros(rng.below(3000));
            while rng.chance(2, 3) && world.now < begin {
                world.settle();
                world.now = world.now + Nanos::from_micros(100);
            }
        }
        for slot in &slots {
            world.outcome(slot).unwrap();
        }
        let fid = file.attr.fid;
        let (size, _) = world.wait(2, |c, t, done| c.size(t, CALLER, fid, &layout, done)).unwrap();
        let range = (0, 8 << 20);
        let read = |c: &mut Client, t: &mut Turn<'_>, done| {
            c.read_to_end(t, CALLER, fid, &layout, range, done);
        };
        let (bytes, _) = world.wait(2, read).unwrap();
        assert_eq!(bytes.len() as u64, size);
        let possible = [[0, 1], [1, 0]].map(|order| {
            let mut model = data.clone();
            order.iter().for_each(|op: &usize| ops[*op].apply(&mut model));
            model
        });
        let order = possible.iter().position(|model| bytes[..] == model[..]);
        let lens = possible.map(|model| model.len());
        let Some(order) = order else {
            panic!("case {case}: {ops:?} of {len} bytes: {size} instead of {lens:?}");
        };
        orders[order] += 1;
        let targets = world.server.targets();
        assert!(targets.iter().all(|target| target.evictions == 0), "case {case}");
    }
    // Both come first now and then, or the test would show nothing.
    assert!(orders.iter().all(|count| *count > 20), "{orders:?}");
}

/// A server would evict it otherwise.
#[test]
fn who_waits_for_a_target_that_is_away_keeps_no_lock_from_others() {
    let ops = [
        Op::Append { len: 10, byte: 1 },
        Op::Truncate { size: 100 },
        Op::Reserve { at: 0, len: 3 * STRIPE },
    ];
    for (op, cache) in
        ops.iter().flat_map(|op| [(op, CacheTunables::NONE), (op, CacheTunables::of(32 << 20))])
    {
        let (mut world, file, layout, _) = shared(1, cache, 2 * STRIPE);
        let fid = file.attr.fid;
        let (_, _, second) = layout.objects().nth(1).expect("a file of several objects");
        let away = OST + second.ost as usize;
        world.server.crash_target(away);
        // This client has no lock yet.
        let slot = world.start(2, op.start(&file, layout.clone()));
        // It finds out that the target is away.
        world.pass(100);
        let early = slot.take();
        assert!(early.is_none(), "{op:?}: {early:?}");
        let begin = world.now;
        let written = world.wait(1, |c, t, done| {
            c.write(t, CALLER, (fid, OWNER), &layout, (0, b"yy"[..].into()), done);
        });
        written.unwrap();
        let waited = world.now.since(begin);
        assert!(waited < Nanos::from_secs(5), "{op:?}: {waited:?}");
        world.server.start_target(away);
        world.outcome(&slot).unwrap();
        let targets = world.server.targets();
        assert!(targets.iter().all(|target| target.evictions == 0), "{op:?}");
    }
}

#[test]
fn a_truncation_whose_lock_is_lost_begins_anew() {
    let (mut world, file, layout, data) = shared(1, CacheTunables::NONE, 2 * STRIPE);
    let (_, _, first) = layout.objects().next().expect("a file of several objects");
    let (_, _, second) = layout.objects().nth(1).expect("a file of several objects");
    let (there, away) = (OST + first.ost as usize, OST + second.ost as usize);
    // The client waits for the second lock, and its server evicts it from the target of the first.
    world.server.crash_target(away);
    let slot = world.start(2, Op::Truncate { size: 100 }.start(&file, layout.clone()));
    let held = |world: &World| world.server.targets()[there].locks;
    while held(&world) == 0 {
        world.settle();
        world.advance();
    }
    assert!(world.at_server(|server, turn| server.evict(turn, there, b"client-2")));
    world.server.start_target(away);
    world.outcome(&slot).unwrap();
    let fid = file.attr.fid;
    let read = |c: &mut Client, t: &mut Turn<'_>, done| {
        c.read_to_end(t, CALLER, fid, &layout, (0, 1 << 20), done);
    };
    let (bytes, _) = world.wait(1, read).unwrap();
    assert!(bytes[..] == data[..100], "{} bytes", bytes.len());
}
