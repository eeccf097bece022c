//! Clients and servers in one process, in virtual time.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

mod evictions;
mod links;

use std::sync::{Arc, Mutex};

use lustrine_client::{CacheTunables, Caller, Client, ClientArgs, ClientError, Done, MgcTunables};
use lustrine_fswire::fid::Fid;
use lustrine_lnet::md::Owner;
use lustrine_lnet::service::{AnyMemory, Service, Turn};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::tunables::Tunables;
use lustrine_lnet_testing::{Delivery, Net, test_nid};
use lustrine_ptlrpc::ImportTunables;
use lustrine_server::{Disk, FilesystemArgs, Server, ServerArgs, TargetTunables};

pub(crate) use evictions::{Evictions, Place};
pub(crate) use links::{Links, Rng};

pub(crate) const CALLER: Caller = Caller::ROOT;
const CLIENT: Owner = Owner(7);
const SERVER: Owner = Owner(8);
/// When the world begins, in seconds since 1970.
pub(crate) const WALL: u64 = 1_700_000_000;

/// The target indexes within the server.
pub(crate) const MGS: usize = 0;
pub(crate) const MDT: usize = 1;
pub(crate) const OST: usize = 2;

/// One server and some clients.
pub(crate) struct World {
    pub(crate) net: Net,
    pub(crate) clients: Vec<Client>,
    pub(crate) server: Server,
    pub(crate) now: Time,
    /// What becomes of a message from one node to another.
    pub(crate) fate: Box<dyn FnMut(&Net) -> Delivery>,
    pub(crate) root: Fid,
    /// How long messages take, and which are lost; without it they arrive at once.
    pub(crate) links: Option<Links>,
    /// When clients were evicted, once that is noted.
    pub(crate) evictions: Option<Evictions>,
    /// When a test has something to do next.
    pub(crate) alarm: Time,
    args: ServerArgs,
}

/// Where the outcome of an operation goes.
pub(crate) struct Slot<T>(Arc<Mutex<Option<Result<T, ClientError>>>>);

impl<T: Send + 'static> Slot<T> {
    pub(crate) fn new() -> (Slot<T>, Done<T>) {
        let slot = Arc::new(Mutex::new(None));
        let inner = Arc::clone(&slot);
        let done = move |_: &mut Client, _: &mut Turn<'_>, outcome| {
            assert!(inner.lock().unwrap().replace(outcome).is_none(), "two outcomes");
        };
        (Slot(slot), Box::new(done))
    }

    pub(crate) fn take(&self) -> Option<Result<T, ClientError>> {
        self.0.lock().unwrap().take()
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

/// The disks of a file system with one metadata target and some object targets, all on one node.
pub(crate) fn disks(node: usize, osts: u16, stripe_size: u32) -> Vec<Disk> {
    Disk::format_filesystem(FilesystemArgs {
        name: "lustre".to_owned(),
        nid: test_nid(node),
        osts: osts.into(),
        capacity: 1 << 30,
        stripe_count: osts,
        stripe_size,
        created: WALL as i64,
    })
}

/// A client that is not mounted, and the node of its server.
fn client(number: usize, server: usize, cache: CacheTunables, mgc: MgcTunables) -> Client {
    let args = ClientArgs {
        mgs: vec![test_nid(server)],
        fsname: "lustre".to_owned(),
        fileset: String::new(),
        mgc_uuid: format!("mgc-{number}"),
        uuid: format!("client-{number}"),
        seed: number as u64 + 1,
        number: 0,
        wall_seconds: WALL,
        wall_nanos: 0,
        imports: ImportTunables::default(),
        cache,
        mgc,
    };
    Client::new(CLIENT, args)
}

impl World {
    /// So many clients, which are mounted and follow their configuration as the settings say.
    pub(crate) fn following(clients: usize, tunables: TargetTunables, mgc: MgcTunables) -> World {
        let mut world = World::new(clients, tunables);
        // None of them was driven yet: nothing is theirs.
        world.clients =
            (0..clients).map(|number| client(number, clients, CacheTunables::NONE, mgc)).collect();
        for client in 0..clients {
            world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
        }
        world
    }

    /// So many clients, which are mounted.
    pub(crate) fn mounted(clients: usize) -> World {
        let mut world = World::new(clients, TargetTunables::default());
        for client in 0..clients {
            world.root = world.wait(client, |client, turn, done| client.mount(turn, done)).unwrap();
        }
        world
    }

    /// So many clients that keep nothing and are not mounted.
    pub(crate) fn new(clients: usize, tunables: TargetTunables) -> World {
        World::caching(clients, tunables, CacheTunables::NONE)
    }

    /// The same with a cache.
    pub(crate) fn caching(clients: usize, tunables: TargetTunables, cache: CacheTunables) -> World {
        World::with_caches(tunables, &vec![cache; clients])
    }

    /// One client for each cache.
    pub(crate) fn with_caches(tunables: TargetTunables, caches: &[CacheTunables]) -> World {
        World::with_objects(tunables, caches, 2)
    }

    /// The same with so many object targets, over all of which each file is striped.
    pub(crate) fn with_objects(
        tunables: TargetTunables,
        caches: &[CacheTunables],
        osts: u16,
    ) -> World {
        World::with_stripes(tunables, caches, (osts, 65536))
    }

    /// The same with stripes of so many bytes.
    pub(crate) fn with_stripes(
        tunables: TargetTunables,
        caches: &[CacheTunables],
        (osts, stripe_size): (u16, u32),
    ) -> World {
        let clients = caches.len();
        let net = Net::new(clients + 1, &Tunables::default());
        let args = ServerArgs { wall_seconds: WALL, seed: 99, tunables };
        let server = Server::new(SERVER, args.clone(), disks(clients, osts, stripe_size));
        World {
            net,
            clients: caches
                .iter()
                .enumerate()
                .map(|(number, cache)| client(number, clients, *cache, MgcTunables::default()))
                .collect(),
            server,
            now: Time(1_000_000_000),
            fate: Box::new(|_| Delivery::Deliver),
            root: Fid::ROOT,
            links: None,
            evictions: None,
            alarm: Time::NEVER,
            args,
        }
    }

    /// Starts an operation of a client.
    pub(crate) fn start<T: Send + 'static>(
        &mut self,
        client: usize,
        operation: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>),
    ) -> Slot<T> {
        let (slot, done) = Slot::new();
        self.at_client(client, |client, turn| {
            operation(client, turn, done);
            client.drive(turn);
        });
        slot
    }

    /// Does an operation of a client, however long it takes.
    pub(crate) fn wait<T: Send + 'static>(
        &mut self,
        client: usize,
        operation: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>),
    ) -> Result<T, ClientError> {
        let slot = self.start(client, operation);
        self.outcome(&slot)
    }

    /// Waits for the outcome of an operation.
    pub(crate) fn outcome<T: Send + 'static>(&mut self, slot: &Slot<T>) -> Result<T, ClientError> {
        let end = self.now + Nanos::from_secs(3600);
        loop {
            self.settle();
            if let Some(outcome) = slot.take() {
                return outcome;
            }
            assert!(self.now < end, "an operation takes more than an hour");
            self.advance();
        }
    }

    pub(crate) fn at_client<T>(
        &mut self,
        client: usize,
        act: impl FnOnce(&mut Client, &mut Turn<'_>) -> T,
    ) -> T {
        let node = &mut self.net.nodes[client];
        let memory = AnyMemory(&mut node.memory);
        let mut turn = Turn { now: self.now, shard: &mut node.shard, memory };
        act(&mut self.clients[client], &mut turn)
    }

    pub(crate) fn at_server<T>(&mut self, act: impl FnOnce(&mut Server, &mut Turn<'_>) -> T) -> T {
        let node = &mut self.net.nodes[self.clients.len()];
        let memory = AnyMemory(&mut node.memory);
        let mut turn = Turn { now: self.now, shard: &mut node.shard, memory };
        let outcome = act(&mut self.server, &mut turn);
        if let Some(evictions) = &mut self.evictions {
            evictions.look_at_server(self.now, &self.server, self.clients.len());
        }
        outcome
    }

    /// Lets everything happen that happens at this time.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut busy = false;
            for client in 0..self.clients.len() {
                self.at_client(client, |client, turn| client.drive(turn));
            }
            self.at_server(|server, turn| server.drive(turn));
            self.net.settle(self.now);
            busy |= self.deliver();
            for index in 0..=self.clients.len() {
                for event in self.net.events(index) {
                    busy = true;
                    if event.owner == CLIENT {
                        self.at_client(index, |client, turn| client.on_event(turn, &event));
                    } else if event.owner == SERVER {
                        self.at_server(|server, turn| server.on_event(turn, &event));
                    }
                }
            }
            if !busy {
                break;
            }
        }
        if let Some(evictions) = &mut self.evictions {
            evictions.look_at_clients(self.now, &self.clients);
        }
    }

    /// Delivers what is due. Whether there was anything.
    fn deliver(&mut self) -> bool {
        let mut busy = false;
        loop {
            let (at, fate) = match &mut self.links {
                None if self.net.packets.is_empty() => return busy,
                None => (0, (self.fate)(&self.net)),
                Some(links) => match links.next_due(&self.net, self.now) {
                    Some(due) => due,
                    None => return busy,
                },
            };
            busy = true;
            self.net.deliver(self.now, at, fate);
            self.net.settle(self.now);
        }
    }

    /// Goes to the next time at which anything happens.
    pub(crate) fn advance(&mut self) {
        let next = self.next_time();
        assert!(next < Time::NEVER, "nothing will ever happen");
        self.now = next.max(self.now + Nanos(1));
    }

    fn next_time(&self) -> Time {
        let mut next = self.server.next_deadline().min(self.alarm);
        for client in &self.clients {
            next = next.min(client.next_deadline());
        }
        for node in &self.net.nodes {
            next = next.min(node.shard.next_deadline());
        }
        next.min(self.links.as_ref().map_or(Time::NEVER, Links::next_time))
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, seconds: u64) {
        let end = self.now + Nanos::from_secs(seconds);
        while self.now < end {
            self.settle();
            self.now = self.next_time().max(self.now + Nanos(1)).min(end);
        }
        self.settle();
    }
}
