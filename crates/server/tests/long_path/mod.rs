//! A client and a server at both ends of a long path: reads and writes of a file, in virtual time,
//! with TCP and links as the simulator has them.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use lustrine_client::{
    CacheTunables, Caller, Client, ClientArgs, ClientError, Done, MgcTunables, OpenArgs, OpenFile,
};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::ImportTunables;
use lustrine_server::{Disk, FilesystemArgs, Server, ServerArgs, TargetTunables};
use lustrine_sim::fabric::{Hashing, LinkSpec, LinkUsage, Rate, TrunkId};
use lustrine_sim::tcp::{Algorithm, TcpSpec};
use lustrine_sim::{
    CpuCost, HostId, NodeService, NodeSpec, Placement, Simulation, StreamSim, WaitTotals,
};
use lustrine_wire::nid::{Net, Nid};

/// Bytes of an operation. Each is one RPC.
pub(crate) const SIZE: u64 = 1 << 20;

/// When the world begins, in seconds since 1970.
const WALL: u64 = 1_700_000_000;

/// Bytes of each object target.
const CAPACITY: u64 = 16 << 30;

/// Bytes that each end of a TCP stream buffers, and that a node may have in use: never a limit.
const BUFFERS: u64 = 2 << 30;
const MEMORY: u64 = 4 << 30;

/// Messages in flight to a peer, and through an interface: more than RPCs.
const PEER_CREDITS: i64 = 2048;
const CREDITS: i64 = 4096;

/// The longest wait for anything.
const PATIENCE: Nanos = Nanos::from_secs(300);

/// A path between two hosts, whose interfaces have its rate. Its queues lose nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Bits per second.
    pub(crate) rate: Rate,
    /// There and back, of a packet that takes no time on the link.
    pub(crate) round_trip: Nanos,
    /// What limits a stream beside its buffers.
    pub(crate) algorithm: Algorithm,
}

impl Path {
    /// Bytes that are on the way, there and back, when the link is full in one direction.
    pub(crate) fn product(&self) -> u64 {
        self.rate.bytes_in(self.round_trip)
    }

    /// Bits per second that so many RPCs carry if each takes so many round trips.
    pub(crate) fn of_window(&self, rpcs: u16, round_trips: u32) -> f64 {
        let bits = (u64::from(rpcs) * SIZE * 8) as f64;
        bits / (self.round_trip.as_secs_f64() * f64::from(round_trips))
    }
}

/// What is done with the file, by so many operations of [`SIZE`] bytes at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Operations in flight, over all object targets.
    pub(crate) in_flight: u16,
    /// What is over before this is not measured: TCP's slow start.
    pub(crate) warm_up: Nanos,
    /// `in_flight` operations times this are measured: whole rounds, as those that begin together
    /// end together.
    pub(crate) rounds: u64,
}

/// The outcome of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// The time that they took.
    pub(crate) time: Nanos,
    /// The part of that time in which the link was sending, in the direction of the data.
    pub(crate) link_busy: f64,
    /// Bytes that the link has lost in that direction, in that time.
    pub(crate) lost: u64,
    /// Mean number of messages that waited for credits, at both nodes together.
    pub(crate) waiting: f64,
}

impl Measured {
    /// Bits per second of the file's data.
    pub(crate) fn rate(&self) -> f64 {
        (self.bytes * 8) as f64 / self.time.as_secs_f64()
    }
}

/// Which way the data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// How the client and the file are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// RPCs in flight to each object target.
    pub(crate) max_rpcs_in_flight: u16,
    /// Object targets, all of the one server. The file is striped over them.
    pub(crate) targets: u16,
}

/// A client and a server at both ends of a path, and a file.
pub(crate) struct World {
    sim: StreamSim,
    hosts: [HostId; 2],
    trunk: TrunkId,
    client: NodeService<Client>,
    file: OpenFile,
}

/// The outcome of an operation, once there is one.
type Slot<T> = Arc<Mutex<Option<Result<T, ClientError>>>>;

impl World {
    /// Mounts, and makes a file.
    pub(crate) fn new(path: Path, setup: Setup) -> World {
        let Setup { max_rpcs_in_flight, targets } = setup;
        let mut sim = StreamSim::new(1);
        let sites = (sim.fabric().add_site(), sim.fabric().add_site());
        let delay = Nanos(path.round_trip.0 / 2);
        let link = LinkSpec { rate: Some(path.rate), delay, ..LinkSpec::default() };
        let trunk = sim.fabric().add_trunk(sites, &[link], Hashing::Hosts);
        let tcp = TcpSpec {
            algorithm: path.algorithm,
            send_buffer: BUFFERS,
            receive_buffer: BUFFERS,
            segment: 8948,
            ..TcpSpec::default()
        };
        let nids = [1, 2].map(|last| Nid::from_ip(Net::TCP, Ipv4Addr::new(10, 0, 0, last).into()));
        let hosts = [(nids[0], sites.0), (nids[1], sites.1)].map(|(nid, site)| {
            let spec = NodeSpec { memory: MEMORY, ..NodeSpec::new(nid) };
            let spec = spec.with("peer_credits", PEER_CREDITS).with("credits", CREDITS);
            // Data wait at their sender, where they hold up no other data.
            let interface = LinkSpec { rate: Some(path.rate), ..LinkSpec::default() };
            let cost = CpuCost::default();
            sim.add_node_at(spec, Placement { site, interface, cost, tcp })
        });
        let disks = Disk::format_filesystem(FilesystemArgs {
            name: "lustre".to_owned(),
            nid: nids[1],
            osts: u32::from(targets),
            capacity: CAPACITY,
            stripe_count: targets,
            stripe_size: SIZE as u32,
            created: WALL as i64,
        });
        let args = ServerArgs { wall_seconds: WALL, seed: 99, tunables: TargetTunables::default() };
        sim.register(hosts[1], &nids[0], |owner| Server::new(owner, args, disks));
        let args = ClientArgs {
            mgs: vec![nids[1]],
            fsname: "lustre".to_owned(),
            fileset: String::new(),
            mgc_uuid: "mgc".to_owned(),
            uuid: "client".to_owned(),
            seed: 1,
            number: 0,
            wall_seconds: WALL,
            wall_nanos: 0,
            imports: ImportTunables { max_rpcs_in_flight, ..ImportTunables::default() },
            cache: CacheTunables::NONE,
            mgc: MgcTunables::default(),
        };
        let client = sim.register(hosts[0], &nids[1], |owner| Client::new(owner, args));
        let root = wait(&mut sim, client, |client, turn, done| client.mount(turn, done));
        let file = wait(&mut sim, client, move |client, turn, done| {
            let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
            let args = OpenArgs { flags, mode: 0o644, umask: 0 };
            client.create(turn, Caller::ROOT, root, b"file", args, done);
        });
        World { sim, hosts, trunk, client, file }
    }

    /// Reads or writes the file from its start to its end, again and again, and measures a part
    /// of that. What is read was written before.
    pub(crate) fn run(&mut self, access: Access, load: Load) -> Measured {
        let now = self.sim.now();
        let job = Arc::new(Job {
            access,
            file: self.file.clone(),
            data: data(),
            // Ranges that are in flight do not overlap.
            places: 2 * u64::from(load.in_flight),
            measured: u64::from(load.in_flight) * load.rounds,
            progress: Mutex::new(Progress {
                next: 0,
                unfinished: 0,
                warm_until: now + load.warm_up,
                counted: 0,
                begin: None,
                end: None,
                error: None,
            }),
        });
        let first = Arc::clone(&job);
        self.sim
            .call(self.client, |client, turn| {
                (0..load.in_flight).for_each(|_| issue(client, turn, &first));
            })
            .expect("the client is there");
        self.until(|| job.progress().begin.is_some());
        let before = self.totals(access);
        self.until(|| job.progress().end.is_some());
        let after = self.totals(access);
        self.until(|| job.progress().unfinished == 0);
        let progress = job.progress();
        assert_eq!(progress.error, None);
        let (begin, end) = (progress.begin, progress.end);
        let time = end.expect("it is over").since(begin.expect("it began"));
        let (link, waits) = (after.0, after.1 - before.1);
        Measured {
            bytes: job.measured * SIZE,
            time,
            link_busy: (link.busy.0 - before.0.busy.0) as f64 / time.0 as f64,
            lost: link.lost - before.0.lost,
            waiting: waits as f64 / time.0 as f64,
        }
    }

    fn until(&mut self, holds: impl Fn() -> bool) {
        assert!(self.sim.run_until(PATIENCE, |_| holds()), "a load takes too long");
    }

    /// The use of the link in the direction of the data, and what messages have waited for credits.
    fn totals(&mut self, access: Access) -> (LinkUsage, u64) {
        let now = self.sim.now();
        let (there, back) = self.sim.fabric().links(self.trunk)[0];
        let hop = if access == Access::Write { there } else { back };
        let usage = self.sim.fabric().used(hop, now);
        let credits = |waits: WaitTotals| waits.peer_credits + waits.ni_credits;
        let waits = self.hosts.map(|host| self.sim.waits(host).map_or(0, credits));
        (usage, waits.iter().sum())
    }
}

/// Does an operation of the client.
fn wait<T: Send + 'static>(
    sim: &mut StreamSim,
    client: NodeService<Client>,
    operation: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>),
) -> T {
    let slot: Slot<T> = Slot::default();
    let inner = Arc::clone(&slot);
    let done: Done<T> = Box::new(move |_, _, outcome| *inner.lock().unwrap() = Some(outcome));
    sim.call(client, |client, turn| operation(client, turn, done)).expect("the client is there");
    assert!(sim.run_until(PATIENCE, |_| slot.lock().unwrap().is_some()), "it takes too long");
    let outcome = slot.lock().unwrap().take().expect("it is there");
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// A load that is running.
struct Job {
    access: Access,
    file: OpenFile,
    /// What is written everywhere.
    data: Bytes,
    /// Operations until the end of the file.
    places: u64,
    /// Operations that are measured.
    measured: u64,
    progress: Mutex<Progress>,
}

struct Progress {
    /// The number of the next operation.
    next: u64,
    unfinished: u64,
    warm_until: Time,
    /// Operations that have ended since `begin`.
    counted: u64,
    begin: Option<Time>,
    end: Option<Time>,
    error: Option<ClientError>,
}

impl Job {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap()
    }

    fn ended(&self, now: Time, outcome: Result<(), ClientError>) {
        let mut progress = self.progress();
        progress.unfinished -= 1;
        if let Err(error) = outcome {
            progress.error.get_or_insert(error);
            progress.begin.get_or_insert(now);
            progress.end.get_or_insert(now);
        }
        match progress.begin {
            None if now >= progress.warm_until => progress.begin = Some(now),
            None => {}
            Some(_) => {
                progress.counted += 1;
                if progress.counted == self.measured {
                    progress.end = Some(now);
                }
            }
        }
    }
}

/// Starts the next operation, and another one after each that ends.
fn issue(client: &mut Client, turn: &mut Turn<'_>, job: &Arc<Job>) {
    let mut progress = job.progress();
    if progress.end.is_some() {
        return;
    }
    let offset = progress.next % job.places * SIZE;
    progress.next += 1;
    progress.unfinished += 1;
    drop(progress);
    let (fid, layout) = (job.file.attr.fid, &job.file.layout);
    let next = Arc::clone(job);
    match job.access {
        Access::Write => {
            let file = (fid, job.file.attr.owner());
            let done: Done<()> = Box::new(move |client, turn, outcome| {
                next.ended(turn.now, outcome);
                issue(client, turn, &next);
            });
            client.write(turn, Caller::ROOT, file, layout, (offset, job.data.clone()), done);
        }
        Access::Read => {
            let done: Done<Bytes> = Box::new(move |client, turn, outcome| {
                let outcome =
                    outcome.map(|bytes| assert!(bytes == next.data, "wrong data at {offset}"));
                next.ended(turn.now, outcome);
                issue(client, turn, &next);
            });
            client.read(turn, Caller::ROOT, fid, layout, (offset, SIZE as u32), done);
        }
    }
}

/// Bytes without a pattern that a memory could keep in short.
fn data() -> Bytes {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_le_bytes()
    };
    (0..SIZE / 8).flat_map(|_| next()).collect::<Vec<u8>>().into()
}
