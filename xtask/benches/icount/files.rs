//! A client and the servers of a file system on two nodes over pipes.

use std::sync::{Arc, Mutex};

use lustrine_client::{
    CacheTunables, Caller, Client, ClientArgs, Done, MgcTunables, OpenArgs, OpenFile,
};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Nanos;
use lustrine_partition::ServiceHandle;
use lustrine_partition::tunables::Tunables;
use lustrine_ptlrpc::ImportTunables;
use lustrine_server::{Disk, FilesystemArgs, Server, ServerArgs, TargetTunables};

use crate::core::NOW;
use crate::node::Node;
use crate::pipe::{PipeIo, Pipes, nid};

/// Turns of both nodes per operation after which the workload is considered stuck.
const TURNS_MAX: u64 = 10_000;
/// Operations in flight.
const SLOTS: u64 = 64;
/// Files that are looked up.
const FILES: u64 = 2000;
const WALL: u64 = 0x6000_0000;
const FSNAME: &str = "lustre";
const CALLER: Caller = Caller::ROOT;
const REGULAR: (u32, u32) = (0o100_644, 0);

/// Starts the operation with a number.
type Start = fn(&mut Client, &mut Turn<'_>, Fid, u64, Done<()>);

/// The nodes, with the client in the first and the servers in the second.
struct Pair {
    nodes: [Node; 2],
    pipes: Pipes,
    client: ServiceHandle<Client>,
    turns: u64,
}

impl Pair {
    fn new(tunables: &Tunables) -> Pair {
        let mut pipes = Pipes::default();
        let mut nodes = [Node::new(0, tunables, &mut pipes), Node::new(1, tunables, &mut pipes)];
        let limits = TargetTunables { max_mod_rpcs: SLOTS as u16, ..TargetTunables::default() };
        let args = ServerArgs { wall_seconds: WALL, seed: 1, tunables: limits };
        nodes[1].partition.register(|owner| Server::new(owner, args, disks()));
        let args = ClientArgs {
            mgs: vec![nid(1)],
            fsname: FSNAME.to_owned(),
            fileset: String::new(),
            mgc_uuid: "mgc".to_owned(),
            uuid: "client".to_owned(),
            seed: 2,
            number: 0,
            wall_seconds: WALL,
            wall_nanos: 0,
            imports: ImportTunables {
                max_rpcs_in_flight: SLOTS as u16,
                max_mod_rpcs_in_flight: SLOTS as u16,
                ..ImportTunables::default()
            },
            cache: CacheTunables::NONE,
            mgc: MgcTunables::default(),
        };
        let client = nodes[0].partition.register(|owner| Client::new(owner, args));
        Pair { nodes, pipes, client, turns: 0 }
    }

    fn turn(&mut self) {
        self.turns += 1;
        let now = NOW + Nanos(1000 * self.turns);
        for host in 0..2 {
            self.nodes[host].turn(host, &mut self.pipes, now);
        }
    }

    fn at_client(&mut self, act: impl FnOnce(&mut Client, &mut Turn<'_>)) {
        let now = NOW + Nanos(1000 * self.turns);
        let node = &mut self.nodes[0];
        let mut io = PipeIo { host: 0, pipes: &mut self.pipes, memory: &mut node.memory };
        node.partition.call(now, &mut io, self.client, act);
    }

    fn mount(&mut self) -> Fid {
        let root = Arc::new(Mutex::new(None));
        let found = Arc::clone(&root);
        let done: Done<Fid> =
            Box::new(move |_, _, outcome| *found.lock().expect("one thread") = Some(outcome));
        self.at_client(|client, turn| client.mount(turn, done));
        for _ in 0..TURNS_MAX {
            self.turn();
            if let Some(outcome) = root.lock().expect("one thread").take() {
                return outcome.expect("the servers answer");
            }
        }
        panic!("the file system is never mounted");
    }

    /// Does operations with numbers from 0 on, so many at once.
    fn run(&mut self, dir: Fid, count: u64, start: Start) {
        let load = Arc::new(Load { dir, count, start, counts: Mutex::new((0, 0)) });
        for _ in 0..SLOTS {
            let load = Arc::clone(&load);
            self.at_client(|client, turn| next(client, turn, &load));
        }
        for _ in 0..TURNS_MAX * count {
            if load.counts.lock().expect("one thread").1 == count {
                return;
            }
            self.turn();
        }
        panic!("the load never ends");
    }
}

/// What is done, and how many operations have begun and ended.
struct Load {
    dir: Fid,
    count: u64,
    start: Start,
    counts: Mutex<(u64, u64)>,
}

/// Starts the next operation of a slot.
fn next(client: &mut Client, turn: &mut Turn<'_>, load: &Arc<Load>) {
    let number = {
        let mut counts = load.counts.lock().expect("one thread");
        if counts.0 == load.count {
            return;
        }
        counts.0 += 1;
        counts.0 - 1
    };
    let this = Arc::clone(load);
    let done: Done<()> = Box::new(move |client, turn, outcome| {
        outcome.expect("nothing goes wrong");
        this.counts.lock().expect("one thread").1 += 1;
        next(client, turn, &this);
    });
    (load.start)(client, turn, load.dir, number, done);
}

fn disks() -> Vec<Disk> {
    Disk::format_filesystem(FilesystemArgs {
        name: FSNAME.to_owned(),
        nid: nid(1),
        osts: 2,
        capacity: 1 << 30,
        stripe_count: 1,
        stripe_size: 4 << 20,
        created: WALL as i64,
    })
}

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

fn ended<T: 'static>(done: Done<()>) -> Done<T> {
    Box::new(move |client, turn, outcome| done(client, turn, outcome.map(drop)))
}

fn start_lookup(client: &mut Client, turn: &mut Turn<'_>, dir: Fid, number: u64, done: Done<()>) {
    // Coprime to their number: all of them, in another order than that in which they were made.
    let number = number.wrapping_mul(1_597) % FILES;
    client.lookup(turn, CALLER, dir, &name(number), ended(done));
}

fn start_mknod(client: &mut Client, turn: &mut Turn<'_>, dir: Fid, number: u64, done: Done<()>) {
    client.mknod(turn, CALLER, dir, &name(number), REGULAR, 0, ended(done));
}

fn start_unlink(client: &mut Client, turn: &mut Turn<'_>, dir: Fid, number: u64, done: Done<()>) {
    client.unlink(turn, CALLER, dir, &name(number), false, done);
}

fn start_create(client: &mut Client, turn: &mut Turn<'_>, dir: Fid, number: u64, done: Done<()>) {
    let args = OpenArgs {
        flags: OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL,
        mode: 0o644,
        umask: 0,
    };
    let opened: Done<OpenFile> = Box::new(move |client, turn, outcome| {
        client.close(turn, CALLER, outcome.expect("nothing goes wrong"), None, done);
    });
    client.create(turn, CALLER, dir, &name(number), args, opened);
}

pub(crate) fn lookup(tunables: &Tunables, count: u64) {
    let mut pair = Pair::new(tunables);
    let root = pair.mount();
    pair.run(root, FILES, start_mknod);
    pair.run(root, count, start_lookup);
}

pub(crate) fn mknod(tunables: &Tunables, count: u64) {
    let mut pair = Pair::new(tunables);
    let root = pair.mount();
    pair.run(root, count, start_mknod);
    pair.run(root, count, start_unlink);
}

pub(crate) fn create(tunables: &Tunables, count: u64) {
    let mut pair = Pair::new(tunables);
    let root = pair.mount();
    pair.run(root, count, start_create);
    pair.run(root, count, start_unlink);
}
