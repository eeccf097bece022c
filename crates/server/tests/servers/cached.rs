//! Clients that keep data, on real servers' rules: whatever happens, they see one file.

use bytes::Bytes;
use lustrine_client::{
    CacheTunables, Caller, Changes, Client, ClientError, Done, FileLayout, FileOwner, OpenArgs,
    OpenFile,
};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::time::Nanos;
use lustrine_server::{CommitTunables, ConfigChange, QuotaHolder, QuotaLimits, TargetTunables};
use proptest::prelude::*;

use crate::world::*;

const CLIENTS: usize = 3;
const CACHE: CacheTunables = CacheTunables::of(32 << 20);
const OWNER: FileOwner = FileOwner { uid: 0, gid: 0, projid: 0 };

/// A file that all clients use.
struct Shared {
    world: World,
    file: OpenFile,
    layout: FileLayout,
    model: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Op {
    Write { at: usize, len: usize, byte: u8 },
    Scatter { at: usize, count: usize, byte: u8 },
    Append { len: usize, byte: u8 },
    Read { at: usize, len: usize },
    Size,
    Truncate { size: usize },
    Fsync,
}

#[derive(Clone, Debug)]
enum Step {
    /// A client does something, and waits for it.
    Do(usize, Op),
    /// Each client writes to a part of its own, all at the same time.
    Together(Vec<(usize, usize, u8)>),
    /// An object target loses power, and starts again.
    Crash(usize),
    Pass(u64),
}

const LEN: usize = 300_000;

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![1usize..300, 1usize..120_000];
    (0..LEN, len, any::<u8>(), 0..10).prop_map(|(at, len, byte, kind)| match kind {
        0..=2 => Op::Write { at, len, byte },
        3 => Op::Scatter { at: at / 2, count: len % 30 + 1, byte },
        4 => Op::Append { len: len % 5000 + 1, byte },
        5..=6 => Op::Read { at, len },
        7 => Op::Size,
        8 => Op::Truncate { size: at },
        _ => Op::Fsync,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..CLIENTS, op()).prop_map(|(client, op)| Step::Do(client, op)),
        2 => prop::collection::vec((0..60_000usize, 1..40_000usize, any::<u8>()), CLIENTS)
            .prop_map(Step::Together),
        1 => (0usize..2).prop_map(Step::Crash),
        1 => (1u64..10).prop_map(Step::Pass),
    ]
}

impl Shared {
    fn new(cache: CacheTunables) -> Shared {
        Shared::at(TargetTunables::default(), cache)
    }

    /// At targets with these settings, which commit rarely.
    fn at(tunables: TargetTunables, cache: CacheTunables) -> Shared {
        let commit = CommitTunables { interval: Nanos::from_secs(1000), latency: Nanos(0) };
        Shared::of(TargetTunables { commit, ..tunables }, cache)
    }

    fn of(tunables: TargetTunables, cache: CacheTunables) -> Shared {
        let mut world = World::caching(CLIENTS, tunables, cache);
        for client in 0..CLIENTS {
            world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
        }
        let root = world.root;
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
        let args = OpenArgs { flags, mode: 0o644, umask: 0 };
        let file = world.wait(0, |c, t, done| c.create(t, CALLER, root, b"f", args, done)).unwrap();
        let layout = file.layout.clone();
        Shared { world, file, layout, model: Vec::new() }
    }

    fn put(&mut self, at: usize, len: usize, byte: u8) {
        self.model.resize(self.model.len().max(at + len), 0);
        self.model[at..at + len].fill(byte);
    }

    fn write(
        &self,
        (at, len, byte): (usize, usize, u8),
    ) -> impl FnOnce(&mut Client, &mut Turn<'_>, Done<()>) + 'static {
        let (fid, layout) = (self.file.attr.fid, self.layout.clone());
        move |client, turn, done| {
            let data = vec![byte; len];
            client.write(turn, CALLER, (fid, OWNER), &layout, (at as u64, data.into()), done);
        }
    }

    fn read(&mut self, client: usize, at: usize, len: usize) -> Vec<u8> {
        let (fid, layout) = (self.file.attr.fid, self.layout.clone());
        let range = (at as u64, len as u32);
        let read = self.world.wait(client, |c, t, done| {
            c.read_to_end(t, CALLER, fid, &layout, range, done);
        });
        read.unwrap().0.to_vec()
    }

    fn act(&mut self, client: usize, op: &Op) {
        let (fid, layout) = (self.file.attr.fid, self.layout.clone());
        match *op {
            Op::Write { at, len, byte } => {
                let write = self.write((at, len, byte));
                self.world.wait(client, write).unwrap();
                self.put(at, len, byte);
            }
            Op::Scatter { at, count, byte } => {
                // With gaps, so that they go together later.
                for piece in 0..count {
                    self.act(client, &Op::Write { at: at + piece * 5000, len: 100, byte });
                }
            }
            Op::Append { len, byte } => {
                let bytes = vec![byte; len];
                let appended = self.world.wait(client, |c, t, done| {
                    c.append(t, CALLER, (fid, OWNER), layout, bytes.into(), done);
                });
                let end = self.model.len();
                assert_eq!(appended.unwrap().offset, end as u64);
                self.put(end, len, byte);
            }
            Op::Read { at, len } => {
                let bytes = self.read(client, at, len);
                let end = self.model.len();
                assert!(bytes == self.model[at.min(end)..(at + len).min(end)], "{at} {len}");
            }
            Op::Size => {
                let size =
                    self.world.wait(client, |c, t, done| c.size(t, CALLER, fid, &layout, done));
                assert_eq!(size.unwrap().0, self.model.len() as u64);
            }
            Op::Truncate { size } => {
                let changes = Changes { size: Some(size as u64), ..Changes::default() };
                let attr = self
                    .world
                    .wait(client, |c, t, done| c.set_attributes(t, CALLER, fid, changes, done));
                assert_eq!(attr.unwrap().size, Some(size as u64));
                self.model.resize(size, 0);
            }
            Op::Fsync => {
                let synced =
                    self.world.wait(client, |c, t, done| c.fsync(t, CALLER, fid, &layout, done));
                synced.unwrap();
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Do(client, op) => self.act(*client, op),
            Step::Together(writes) => {
                let parts = writes
                    .iter()
                    .enumerate()
                    .map(|(client, (at, len, byte))| (client * 100_000 + at, *len, *byte));
                let parts: Vec<_> = parts.collect();
                let mut slots = Vec::new();
                for (client, part) in parts.iter().enumerate() {
                    let write = self.write(*part);
                    slots.push(self.world.start(client, write));
                }
                for slot in &slots {
                    self.world.outcome(slot).unwrap();
                }
                parts.iter().for_each(|(at, len, byte)| self.put(*at, *len, *byte));
            }
            Step::Crash(target) => {
                self.world.server.crash_target(OST + target);
                self.world.server.start_target(OST + target);
            }
            Step::Pass(seconds) => self.world.pass(*seconds),
        }
        for client in &self.world.clients {
            assert_eq!(client.cache_counts().lost, 0);
        }
        let targets = self.world.server.targets();
        assert!(targets.iter().all(|target| target.evictions == 0), "{step:?}");
    }

    /// Everything is written, all see the same, and nothing is left when the locks have aged.
    fn end(&mut self) {
        for client in 0..CLIENTS {
            self.world.wait(client, |c, t, done| c.flush_all(t, done)).unwrap();
            let len = self.model.len();
            assert!(self.read(client, 0, len + 10) == self.model);
        }
        self.world.pass(700);
        for client in &self.world.clients {
            let counts = client.cache_counts();
            assert_eq!((counts.dirty, counts.cached, counts.objects), (0, 0, 0));
        }
        let targets = self.world.server.targets();
        // Besides the locks of configurations.
        let targets = &targets[MDT..];
        let left = targets.iter().map(|target| (target.locks, target.evictions));
        assert!(left.clone().all(|left| left == (0, 0)), "{:?}", left.collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Three clients, two object targets that lose power now and then, and one file.
    #[test]
    fn clients_see_one_file(
        steps in prop::collection::vec(step(), 1..25),
        small in any::<bool>(),
    ) {
        let cache = match small {
            true => CacheTunables { max_cached: 400_000, max_dirty: 100_000, ..CACHE },
            false => CACHE,
        };
        let mut shared = Shared::new(cache);
        steps.iter().for_each(|step| shared.step(step));
        shared.end();
    }
}

#[test]
fn a_client_that_is_gone_does_not_keep_its_locks_for_ever() {
    let mut shared = Shared::new(CACHE);
    shared.act(0, &Op::Write { at: 0, len: 1000, byte: 1 });
    // It says nothing any more: its packets get lost.
    let gone = lustrine_lnet_testing::test_nid(0);
    shared.world.fate = Box::new(move |net| {
        let packet = &net.packets[0];
        match packet.header.dst.nid == gone || packet.header.src.nid == gone {
            true => lustrine_lnet_testing::Delivery::Lose,
            false => lustrine_lnet_testing::Delivery::Deliver,
        }
    });
    // What it had not written is not there.
    assert_eq!(shared.read(1, 0, 1000), b"");
}

/// The server has nothing else to do then that would let it look at its locks again.
#[test]
fn a_lock_of_a_silent_client_goes_to_who_waits_for_it_at_once() {
    let tunables = TargetTunables {
        silence_max: Nanos::from_secs(50),
        // The eviction is not for a callback that is not answered.
        lock_callback_timeout: Nanos::from_secs(500),
        ..TargetTunables::default()
    };
    let mut shared = Shared::at(tunables, CACHE);
    shared.act(0, &Op::Write { at: 0, len: 1000, byte: 1 });
    let gone = lustrine_lnet_testing::test_nid(0);
    shared.world.fate = Box::new(move |net| {
        let header = &net.packets[0].header;
        match header.dst.nid == gone || header.src.nid == gone {
            true => lustrine_lnet_testing::Delivery::Lose,
            false => lustrine_lnet_testing::Delivery::Deliver,
        }
    });
    let (fid, layout) = (shared.file.attr.fid, shared.layout.clone());
    let read = shared.world.start(1, |c, t, done| {
        c.read_to_end(t, CALLER, fid, &layout, (0, 1000), done);
    });
    shared.world.settle();
    assert!(read.is_pending(), "the first client does not give its lock back");
    let mut callbacks = 0;
    while shared.world.server.knows(OST, b"client-0") {
        shared.world.settle();
        shared.world.advance();
        callbacks = shared.world.server.targets()[OST].callbacks;
        shared.world.at_server(|server, turn| server.drive(turn));
    }
    // The one that says that the lock is granted.
    assert_eq!(shared.world.server.targets()[OST].callbacks, callbacks + 1);
    assert_eq!(shared.world.outcome(&read).map(|(bytes, _)| bytes), Ok(Bytes::new()));
}

/// What was in flight when the client was evicted may have reached the server or not; what it had
/// not sent is lost.
#[test]
fn an_eviction_is_told_to_the_program_and_counted() {
    for sent in [false, true] {
        let mut shared = Shared::new(CACHE);
        shared.act(0, &Op::Write { at: 0, len: 1000, byte: 1 });
        if sent {
            shared.act(0, &Op::Fsync);
        }
        let evict = |server: &mut lustrine_server::Server, turn: &mut Turn<'_>| {
            server.evict(turn, OST, b"client-0")
        };
        assert!(shared.world.at_server(evict));
        let (fid, layout) = (shared.file.attr.fid, shared.layout.clone());
        let mut fsync =
            || shared.world.wait(0, |c, t, done| c.fsync(t, CALLER, fid, &layout, done));
        assert!(fsync().is_err(), "the first request after the eviction fails");
        assert_eq!(fsync(), Ok(()));
        let lost = shared.world.clients[0].cache_counts().lost;
        let there = shared.read(1, 0, 1000).len() as u64;
        assert_eq!((lost, there), if sent { (0, 1000) } else { (1000, 0) });
        shared.model.clear();
        shared.model.resize(there as usize, 1);
        shared.act(0, &Op::Write { at: 500, len: 1000, byte: 2 });
        shared.act(1, &Op::Read { at: 0, len: 3000 });
    }
}

/// The answer to its connect is lost, and then the server restarts: it has nothing to bring back.
#[test]
fn a_client_that_does_not_know_of_its_eviction_does_not_get_its_locks_again() {
    let mut shared = Shared::new(CACHE);
    shared.act(0, &Op::Write { at: 0, len: 1000, byte: 1 });
    shared.world.at_server(|server, turn| server.evict(turn, OST, b"client-0"));
    let deaf = lustrine_lnet_testing::test_nid(0);
    shared.world.fate = Box::new(move |net| match net.packets[0].header.dst.nid == deaf {
        true => lustrine_lnet_testing::Delivery::Lose,
        false => lustrine_lnet_testing::Delivery::Deliver,
    });
    let (fid, layout) = (shared.file.attr.fid, shared.layout.clone());
    let synced = shared.world.start(0, |c, t, done| c.fsync(t, CALLER, fid, &layout, done));
    while shared.world.server.targets()[OST].clients < CLIENTS {
        shared.world.advance();
        shared.world.settle();
    }
    shared.act(1, &Op::Write { at: 0, len: 2000, byte: 2 });
    shared.act(1, &Op::Fsync);
    shared.world.server.crash_target(OST);
    shared.world.server.start_target(OST);
    shared.world.fate = Box::new(|_| lustrine_lnet_testing::Delivery::Deliver);
    assert_eq!(shared.world.outcome(&synced).map_err(|error| error.errno()), Err(5));
    for client in 0..CLIENTS {
        shared.act(client, &Op::Read { at: 0, len: 3000 });
    }
}

/// The server asks who has a lock for what he knows of the object, and does not go on asking one
/// that it has evicted.
#[test]
fn who_asks_for_a_size_does_not_wait_for_an_evicted_client() {
    let mut shared = Shared::new(CACHE);
    shared.act(0, &Op::Write { at: 0, len: 1000, byte: 1 });
    let gone = lustrine_lnet_testing::test_nid(0);
    shared.world.fate = Box::new(move |net| match net.packets[0].header.dst.nid == gone {
        true => lustrine_lnet_testing::Delivery::Lose,
        false => lustrine_lnet_testing::Delivery::Deliver,
    });
    let (fid, layout) = (shared.file.attr.fid, shared.layout.clone());
    let size = shared.world.start(1, |c, t, done| c.size(t, CALLER, fid, &layout, done));
    shared.world.settle();
    assert!(size.is_pending(), "the first client is asked");
    shared.world.at_server(|server, turn| server.evict(turn, OST, b"client-0"));
    assert_eq!(shared.world.outcome(&size).map(|(size, _)| size), Ok(0));
}

/// What clients have of the promises of the first object target, in MiB.
fn granted(shared: &Shared) -> u64 {
    shared.world.server.targets()[OST].granted >> 20
}

/// A target that has little left takes grant back from clients that do not use it, and one that
/// has enough leaves it to them.
#[test]
fn grant_that_is_not_used_is_given_back() {
    let mut shared = Shared::new(CACHE);
    // Who is disconnected has no grant at all.
    let stay = ConfigChange::SetParam("osc.*.idle_timeout=0".to_owned());
    assert!(shared.world.at_server(|server, turn| server.configure(turn, "lustre", &stay)));
    shared.world.pass(11);
    for _ in 0..20 {
        for client in 0..CLIENTS {
            shared.act(client, &Op::Write { at: client * 4096, len: 4096, byte: 1 });
            shared.act(client, &Op::Fsync);
        }
    }
    assert_eq!(granted(&shared), 3 * 128);
    shared.world.pass(1100);
    assert_eq!(granted(&shared), 3 * 128);
    // Nine transfers of 4 MiB suffice for each; the target has enough when two have given back.
    shared.world.pass(200);
    assert_eq!(granted(&shared), 36 + 36 + 128);
    for client in 0..CLIENTS {
        shared.act(client, &Op::Write { at: client * 4096, len: 4096, byte: 2 });
        shared.act(client, &Op::Fsync);
    }
    assert!(granted(&shared) > 200);
    shared.end();
}

/// Writes that no program waits for do not wait for a slow disk. A power cut before they are
/// committed takes nothing.
#[test]
fn a_slow_disk_is_waited_for_by_fsync_alone() {
    let commit = CommitTunables { interval: Nanos::from_secs(5), latency: Nanos::from_millis(100) };
    let tunables = TargetTunables { commit, ..TargetTunables::default() };
    let mut shared = Shared::of(tunables, CACHE);
    // The file is on the disk.
    shared.world.pass(10);
    let fid = shared.file.attr.fid;
    let counts = |shared: &Shared| {
        let counts = shared.world.clients[0].cache_counts();
        (counts.dirty, counts.unstable)
    };
    let began = shared.world.now;
    for at in 0..20 {
        shared.act(0, &Op::Write { at: at * 10_000, len: 1000, byte: 7 });
        shared.world.at_client(0, |client, turn| client.start_flush(turn, fid));
        shared.world.settle();
    }
    assert_eq!((shared.world.now, counts(&shared)), (began, (0, 20_000)));
    shared.world.server.crash_target(OST);
    shared.world.server.start_target(OST);
    shared.act(1, &Op::Read { at: 0, len: 200_000 });
    assert_eq!(shared.world.clients[0].cache_counts().lost, 0);
    let before = shared.world.now;
    shared.act(0, &Op::Write { at: 0, len: 1000, byte: 8 });
    shared.act(0, &Op::Fsync);
    assert!(shared.world.now.since(before) >= commit.latency);
    assert_eq!(counts(&shared), (0, 0));
    shared.end();
}

/// A client that connects again claims what its unwritten data need, and has no more than that.
#[test]
fn a_restart_leaves_a_client_the_grant_that_its_data_need() {
    let mut shared = Shared::new(CACHE);
    for at in [0, 10, 15] {
        shared.act(0, &Op::Write { at: at * 4096, len: 100, byte: 1 });
    }
    shared.step(&Step::Crash(0));
    // It notices when it writes them, before the others do, and nothing is written until those are
    // there.
    while shared.world.server.targets()[OST].granted == 0 {
        shared.world.settle();
        shared.world.advance();
    }
    assert_eq!(shared.world.server.targets()[OST].granted, 3 * 4096);
    shared.world.pass(60);
    shared.end();
}

/// Beyond the soft limit each write waits for the server, so that the one beyond the hard limit
/// fails by itself, and no later fsync(2) or close(2) has to tell.
#[test]
fn a_program_over_quota_is_told_by_write() {
    const EDQUOT: i32 = 122;
    const ALICE: Caller = Caller { uid: 1000, gid: 100, capabilities: 0, ..Caller::ROOT };
    let owner = FileOwner { uid: 1000, gid: 100, projid: 0 };
    let mut shared = Shared::new(CACHE);
    let limits = QuotaLimits { soft: 8192, hard: 16_384 };
    shared.world.server.set_quota(OST, QuotaHolder::User(1000), limits);
    let (fid, layout) = (shared.file.attr.fid, shared.layout.clone());
    let write = |shared: &mut Shared, caller, at: u64| {
        let layout = layout.clone();
        shared.world.wait(0, move |c, t, done| {
            c.write(t, caller, (fid, owner), &layout, (at * 4096, vec![7; 4096].into()), done);
        })
    };
    let dirty = |shared: &Shared| shared.world.clients[0].cache_counts().dirty;
    for at in 0..3 {
        write(&mut shared, ALICE, at).unwrap();
    }
    assert_eq!(dirty(&shared), 3 * 4096);
    shared.act(0, &Op::Fsync);
    write(&mut shared, ALICE, 3).unwrap();
    assert_eq!(dirty(&shared), 0, "it was sent at once");
    assert_eq!(write(&mut shared, ALICE, 4), Err(ClientError::Errno(EDQUOT)));
    shared.act(0, &Op::Fsync);
    // What is there already can be written again, and root is not stopped.
    write(&mut shared, ALICE, 0).unwrap();
    write(&mut shared, Caller::ROOT, 4).unwrap();
    shared.act(0, &Op::Fsync);
    shared.put(0, 5 * 4096, 7);
    shared.act(1, &Op::Read { at: 0, len: 6 * 4096 });
}
