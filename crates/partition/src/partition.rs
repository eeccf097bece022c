//! How core, driver and services work together in one turn of a loop.

use core::net::SocketAddr;

use lustrine_lnet::event::Event;
use lustrine_lnet::journal::Entry;
use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::shard::{Queues, Shard};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::Topology;
use lustrine_selftest::console::{ConsoleRpc, RpcOutcome};
use lustrine_selftest::{
    Client, ClientArgs, ClientSlot, ConsoleRpcs, CptMessage, RpcTotals, Service, ServicePolicy,
};
use lustrine_socklnd::io::{Io, Readiness, SockId};
use lustrine_socklnd::{Config as DriverConfig, Handoff, Notice, Socklnd};
use lustrine_wire::nid::Nid;

use crate::driver::{Driver, DriverOn};
use crate::probes::{ProbeId, ProbeResult, Probes};

mod changes;

pub use changes::Change;

/// Most rounds of work in one turn before the caller looks at its streams again.
const ROUNDS_MAX: usize = 32;

/// What a partition is made of.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// For the core.
    pub topology: Topology,
    /// For the driver.
    pub driver: DriverConfig,
    /// Which consoles its selftest service obeys.
    pub selftest: ServicePolicy,
    /// Wall-clock seconds, the seed of selftest's match bits (selftest-wire 6).
    pub wall_seconds: u64,
}

/// There is a selftest client of this slot that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBusy;

/// One CPU partition. Production's driver is [`Socklnd`]; a simulator may bring another one.
pub struct Partition<D = Socklnd> {
    shard: Shard,
    driver: D,
    service: Service,
    /// By slot, at most one of each.
    clients: Vec<Client>,
    probes: Probes,
    /// Of a console, once it has given an order.
    calls: Option<Box<ConsoleRpcs>>,
    wall_seconds: u64,
}

impl Partition {
    /// A partition without peers or connections.
    pub fn new(config: PartitionConfig, io: &mut impl Io) -> Partition {
        let driver = Socklnd::new(config.driver);
        let (topology, wall_seconds) = (config.topology, config.wall_seconds);
        let mut partition = Partition::with_driver(topology, driver, wall_seconds, io);
        partition.set_selftest_policy(Time::ZERO, io, &config.selftest);
        partition
    }

    /// A listener's new stream.
    pub fn accepted(
        &mut self,
        now: Time,
        io: &mut impl Io,
        sock: SockId,
        ni: NiIndex,
        (local, remote): (SocketAddr, SocketAddr),
    ) {
        self.driver.accepted(now, io, sock, ni, local, remote);
    }

    /// A report about a stream.
    pub fn ready(&mut self, now: Time, io: &mut impl Io, sock: SockId, readiness: Readiness) {
        self.driver.ready(now, &mut self.shard, io, sock, readiness);
    }

    /// Who was refused or evicted since the last call, and how often.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.driver.take_notices()
    }

    /// An accepted stream whose peer lives on another partition.
    pub fn next_handoff(&mut self) -> Option<Handoff> {
        self.driver.next_handoff()
    }

    /// Takes over a stream whose peer lives here; `handoff.sock` is this loop's number for it.
    pub fn adopt(&mut self, now: Time, io: &mut impl Io, handoff: Handoff) {
        self.driver.adopt(now, &mut self.shard, io, handoff);
    }
}

impl<D: Driver> Partition<D> {
    /// A partition without peers. `wall_seconds` is as in [`PartitionConfig`].
    pub fn with_driver(
        topology: Topology,
        driver: D,
        wall_seconds: u64,
        memory: &mut impl Memory,
    ) -> Partition<D> {
        let (cpt, cpts) = (topology.cpt, topology.cpts);
        let service = Service::new(cpt, cpts, &topology.tunables, wall_seconds);
        Partition {
            shard: Shard::new(topology, memory),
            driver,
            service,
            clients: Vec::new(),
            probes: Probes::default(),
            calls: None,
            wall_seconds,
        }
    }

    /// The core, to look at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Says which consoles the selftest service obeys, here: all partitions of a node are to be
    /// given the same policy.
    pub fn set_selftest_policy(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        policy: &ServicePolicy,
    ) {
        self.service.set_policy(now, &mut self.shard, memory, policy);
    }

    /// Exchanges the core's queues; see [`Shard::swap_queues`].
    pub fn swap_queues(&mut self, others: &mut Queues) {
        self.shard.swap_queues(others);
    }

    /// Has the core keep a journal of what happens to each message from now on.
    pub fn enable_journal(&mut self) {
        self.shard.enable_journal();
    }

    /// The oldest entry of the core's journal that was not taken yet.
    pub fn next_journal_entry(&mut self) -> Option<Entry> {
        self.shard.next_journal_entry()
    }

    /// How many entries were lost since this was asked last, as nobody took them in time.
    pub fn take_journal_entries_lost(&mut self) -> u64 {
        self.shard.take_journal_overflow()
    }

    /// The driver, to look at.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The selftest client of a slot, while there is one.
    pub fn client(&mut self, slot: ClientSlot) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.slot() == slot)
    }

    /// Starts a selftest client, which takes the place of a finished one of its slot.
    ///
    /// # Errors
    /// When there is one of its slot that is not finished.
    pub fn start_client(&mut self, now: Time, args: ClientArgs) -> Result<(), ClientBusy> {
        if self.client(args.slot).is_some_and(|client| !client.finished()) {
            return Err(ClientBusy);
        }
        self.clients.retain(|client| client.slot() != args.slot);
        let place = self.clients.partition_point(|client| client.slot() < args.slot);
        let client = Client::new(now, args, &self.shard.topology().tunables);
        self.clients.insert(place, client);
        Ok(())
    }

    /// Works until nothing is left to do without a new report, or for as long as is fair. The
    /// clock is read for each round: under load one turn is long, and latencies are measured by it.
    pub fn turn<O: Memory>(&mut self, mut clock: impl FnMut() -> Time, outside: &mut O)
    where
        D: DriverOn<O>,
    {
        for _ in 0..ROUNDS_MAX {
            let now = clock();
            if now >= self.driver.next_deadline() {
                self.driver.tick(now, &mut self.shard, outside);
            }
            self.round(now, outside);
            if !self.has_work() {
                break;
            }
        }
    }

    /// Reads, thinks, writes. What the events lead to is handed to the driver before the services
    /// look around: what becomes of it is mostly known then, which saves them another round.
    fn round<O: Memory>(&mut self, now: Time, outside: &mut O)
    where
        D: DriverOn<O>,
    {
        self.driver.flush(now, &mut self.shard, outside);
        self.shard.drive(now, outside);
        self.dispatch(now, outside);
        let mut staged = false;
        // What follows from what: not for ever, as others wait; what is left has its turn below.
        for _ in 0..ROUNDS_MAX {
            if !self.stage(now, outside) {
                break;
            }
            staged = true;
            self.dispatch(now, outside);
        }
        self.service.drive(now, &mut self.shard, outside);
        for client in &mut self.clients {
            client.drive(now, &mut self.shard, outside);
        }
        if let Some(calls) = &mut self.calls {
            calls.drive(now, &mut self.shard, outside);
        }
        self.probes.drive(now, &mut self.shard);
        self.dispatch(now, outside);
        if self.stage(now, outside) | staged {
            self.driver.flush(now, &mut self.shard, outside);
        }
    }

    /// Hands everything the core has to the driver. Staging gives credits back, which lets the
    /// core have more: only when it has no more is anything written, all in one call per
    /// connection.
    fn stage<O: Memory>(&mut self, now: Time, outside: &mut O) -> bool
    where
        D: DriverOn<O>,
    {
        let mut staged = false;
        while let Some(action) = self.shard.next_action() {
            self.driver.submit(now, &mut self.shard, outside, &action);
            staged = true;
        }
        staged
    }

    /// Events and lost peers in the order in which they came: what was in good order before a
    /// connection broke still counts, and what is sent after a peer restarted is not lost with it.
    fn dispatch(&mut self, now: Time, memory: &mut impl Memory) {
        loop {
            if let Some((peer, status)) = self.shard.next_lost_peer() {
                self.service.peer_lost(now, &mut self.shard, memory, &peer, status);
                for client in &mut self.clients {
                    client.peer_lost(now, &mut self.shard, memory, &peer, status);
                }
                if let Some(calls) = &mut self.calls {
                    calls.peer_lost(now, &mut self.shard, memory, &peer, status);
                }
                continue;
            }
            let Some(event) = self.shard.next_event() else { return };
            self.deliver(now, memory, &event);
        }
    }

    fn deliver(&mut self, now: Time, memory: &mut impl Memory, event: &Event) {
        match event.owner {
            Owner::SELFTEST => {
                // Each knows its own by the descriptor's mark.
                self.service.handle(now, &mut self.shard, memory, event);
                for client in &mut self.clients {
                    client.handle(now, &mut self.shard, memory, event);
                }
                if let Some(calls) = &mut self.calls {
                    calls.handle(now, &mut self.shard, memory, event);
                }
            }
            Owner::APP => self.probes.handle(now, memory, event),
            other => panic!("nobody here has owner mark {other:?}"),
        }
    }

    /// Whether [`Partition::turn`] has something to do at once.
    pub fn has_work(&self) -> bool {
        self.driver.has_work() || self.shard.has_work()
    }

    /// When [`Partition::turn`] must be called again at the latest, if nothing else happens.
    pub fn next_deadline(&self) -> Time {
        let clients = self.clients.iter().map(Client::next_deadline);
        let calls = self.calls.as_ref().map_or(Time::NEVER, |calls| calls.next_deadline());
        self.driver
            .next_deadline()
            .min(self.shard.next_deadline())
            .min(self.service.next_deadline())
            .min(self.probes.next_deadline())
            .min(clients.min().unwrap_or(Time::NEVER))
            .min(calls)
    }

    /// Counters of this partition's selftest service since it began.
    pub fn selftest_totals(&self) -> RpcTotals {
        self.service.totals()
    }

    /// A letter for another partition's selftest service.
    pub fn take_cpt_message(&mut self) -> Option<(u16, CptMessage)> {
        self.service.take_cpt_message()
    }

    /// A letter from another partition's selftest service.
    pub fn accept_cpt_message(&mut self, cross: CptMessage) {
        self.service.accept_cpt_message(cross);
    }

    /// Pings a peer; the result comes from [`Partition::next_result`] under the same ticket.
    pub fn ping(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        ticket: ProbeId,
        nid: &Nid,
        timeout: Nanos,
    ) {
        self.probes.ping(now, &mut self.shard, memory, ticket, nid, timeout);
    }

    /// Learns (again) about a peer; the result comes from [`Partition::next_result`].
    pub fn discover(&mut self, now: Time, ticket: ProbeId, nid: &Nid, timeout: Nanos) {
        self.probes.discover(now, &mut self.shard, ticket, nid, timeout);
    }

    /// Takes an order of a console for a node whose NID is at home here; how it ended comes from
    /// [`Partition::next_rpc_outcome`].
    pub fn order(&mut self, order: ConsoleRpc) {
        let wall_seconds = self.wall_seconds;
        self.calls.get_or_insert_with(|| Box::new(ConsoleRpcs::new(wall_seconds))).take(order);
    }

    /// The next order that is over: its number, and the reply or why there is none.
    pub fn next_rpc_outcome(&mut self) -> Option<RpcOutcome> {
        self.calls.as_mut()?.next_rpc_outcome()
    }

    /// The next ping or discovery that has ended.
    pub fn next_result(&mut self) -> Option<(ProbeId, ProbeResult)> {
        self.probes.next_result()
    }

    /// Closes every connection; what was queued fails with `status`.
    pub fn close<O: Memory>(&mut self, now: Time, outside: &mut O, status: Status)
    where
        D: DriverOn<O>,
    {
        self.driver.close_all(now, &mut self.shard, outside, status);
    }
}
