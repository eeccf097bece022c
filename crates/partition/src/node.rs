//! A partition with the services that every node has.

use core::ops::{Deref, DerefMut};

use lustrine_lnet::memory::Memory;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_lnet::topology::Topology;
use lustrine_selftest::console::{ConsoleRpc, RpcOutcome};
use lustrine_selftest::{
    Client, ClientArgs, ClientSlot, ConsoleRpcs, CptMessage, PeerWindow, RpcTotals, Service,
    ServicePolicy, Tunables as SelftestTunables,
};
use lustrine_socklnd::{Config as DriverConfig, Socklnd};
use lustrine_wire::nid::Nid;

use crate::driver::Driver;
use crate::partition::Partition;
use crate::probes::{ProbeId, ProbeResult, Probes};
use crate::services::ServiceHandle;

/// What a partition of a node is made of.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// For the core.
    pub topology: Topology,
    /// For the driver.
    pub driver: DriverConfig,
    /// For its selftest service and clients.
    pub selftest_tunables: SelftestTunables,
    /// Which consoles its selftest service obeys.
    pub selftest: ServicePolicy,
    /// The wall clock at the start, the seed of selftest's match bits, so that they differ after a
    /// restart.
    pub wall: WallClock,
}

/// There is a selftest client of this slot that is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBusy;

/// A [`Partition`] with the services of a node: LNet selftest with its clients and the console's
/// RPCs, ping and discovery. Event loops and simulators run this same composition; it has no part
/// in their passes.
pub struct NodePartition<D = Socklnd> {
    partition: Partition<D>,
    selftest: ServiceHandle<Service>,
    probes: ServiceHandle<Probes>,
    /// By slot, at most one of each.
    clients: Vec<(ClientSlot, ServiceHandle<Client>)>,
    /// The RPCs of a console, once it has made one.
    console_rpcs: Option<ServiceHandle<ConsoleRpcs>>,
    selftest_tunables: SelftestTunables,
    wall: WallClock,
}

const REGISTERED: &str = "a service of a node stays registered";

impl NodePartition {
    /// A partition without peers or connections.
    pub fn new(config: PartitionConfig, memory: &mut impl Memory) -> NodePartition {
        let driver = Socklnd::new(config.driver);
        let (topology, tunables) = (config.topology, config.selftest_tunables);
        let wall = config.wall;
        let mut partition = NodePartition::with_driver(topology, driver, tunables, wall, memory);
        partition.set_selftest_policy(Time::ZERO, memory, &config.selftest);
        partition
    }
}

impl<D: Driver> NodePartition<D> {
    /// A partition without peers. `selftest_tunables` and `wall` are as in
    /// [`PartitionConfig`].
    pub fn with_driver(
        topology: Topology,
        driver: D,
        selftest_tunables: SelftestTunables,
        wall: WallClock,
        memory: &mut impl Memory,
    ) -> NodePartition<D> {
        let (cpt, cpts) = (topology.cpt, topology.cpts);
        let mut partition = Partition::new(topology, driver, memory);
        let selftest =
            partition.register(|owner| Service::new(owner, cpt, cpts, &selftest_tunables, wall));
        let probes = partition.register(Probes::new);
        NodePartition {
            partition,
            selftest,
            probes,
            clients: Vec::new(),
            console_rpcs: None,
            selftest_tunables,
            wall,
        }
    }

    /// The selftest client of a slot, while there is one.
    pub fn client(&mut self, slot: ClientSlot) -> Option<&mut Client> {
        let (_, handle) = self.clients.iter().find(|(of, _)| *of == slot)?;
        self.partition.service_mut(*handle)
    }

    /// Starts a selftest client, which takes the place of a finished one of its slot.
    ///
    /// # Errors
    /// When there is one of its slot that is not finished.
    pub fn start_client(&mut self, now: Time, args: ClientArgs) -> Result<(), ClientBusy> {
        if self.client(args.slot).is_some_and(|client| !client.finished()) {
            return Err(ClientBusy);
        }
        let at = self.clients.partition_point(|(slot, _)| *slot < args.slot);
        if let Some((slot, handle)) = self.clients.get(at).copied()
            && slot == args.slot
        {
            self.partition.unregister(handle);
            self.clients.remove(at);
        }
        let tunables = &self.selftest_tunables;
        let handle = self.partition.register(|owner| Client::new(owner, now, args, tunables));
        self.clients.insert(at, (args.slot, handle));
        Ok(())
    }

    /// Sets which consoles the selftest service of this partition obeys. All partitions of a node
    /// are to be given the same policy.
    pub fn set_selftest_policy(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        policy: &ServicePolicy,
    ) {
        let (partition, selftest) = (&mut self.partition, self.selftest);
        partition.call(now, memory, selftest, |service, turn| {
            service.set_policy(turn.now, turn.shard, &mut turn.memory, policy);
        });
    }

    /// Counters of this partition's selftest service since it began.
    pub fn selftest_totals(&self) -> RpcTotals {
        self.partition.service(self.selftest).expect(REGISTERED).totals()
    }

    /// The windows of selftest to peers to which RPCs are in flight, those of this partition's
    /// clients and of its work for consoles: several may be to one peer.
    pub fn windows_in_use(&self) -> impl Iterator<Item = PeerWindow> + '_ {
        let selftest = self.partition.service(self.selftest).expect(REGISTERED);
        let clients = self.clients.iter();
        let client = |(_, handle): &(ClientSlot, ServiceHandle<Client>)| {
            self.partition.service(*handle)?.window_in_use()
        };
        selftest.windows_in_use().chain(clients.filter_map(client))
    }

    /// A message for the selftest service of another partition, and which.
    pub fn take_cpt_message(&mut self) -> Option<(u16, CptMessage)> {
        self.partition.service_mut(self.selftest).expect(REGISTERED).take_cpt_message()
    }

    /// A message from the selftest service of another partition.
    pub fn accept_cpt_message(&mut self, message: CptMessage) {
        self.partition.service_mut(self.selftest).expect(REGISTERED).accept_cpt_message(message);
    }

    /// Pings a peer; the result comes from [`next_result`](NodePartition::next_result) under the
    /// same id.
    pub fn ping(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        id: ProbeId,
        nid: &Nid,
        timeout: Nanos,
    ) {
        let (partition, probes) = (&mut self.partition, self.probes);
        partition.call(now, memory, probes, |probes, turn| probes.ping(turn, id, nid, timeout));
    }

    /// Discovers a peer, also one that is known; the result comes from
    /// [`next_result`](NodePartition::next_result).
    pub fn discover(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        id: ProbeId,
        nid: &Nid,
        timeout: Nanos,
    ) {
        let (partition, probes) = (&mut self.partition, self.probes);
        partition.call(now, memory, probes, |probes, turn| probes.discover(turn, id, nid, timeout));
    }

    /// The next ping or discovery that has ended.
    pub fn next_result(&mut self) -> Option<(ProbeId, ProbeResult)> {
        self.partition.service_mut(self.probes).expect(REGISTERED).next_result()
    }

    /// Makes an RPC of a console to a node whose NID belongs to this partition; how it ended comes
    /// from [`next_rpc_outcome`](NodePartition::next_rpc_outcome).
    pub fn start_console_rpc(&mut self, rpc: ConsoleRpc) {
        let (partition, wall) = (&mut self.partition, self.wall);
        let register = || partition.register(|owner| ConsoleRpcs::new(owner, wall.start_secs()));
        let handle = *self.console_rpcs.get_or_insert_with(register);
        self.partition.service_mut(handle).expect(REGISTERED).take(rpc);
    }

    /// Gives up an RPC of a console, if it is in flight.
    pub fn cancel_console_rpc(&mut self, order: u64) {
        if let Some(handle) = self.console_rpcs {
            self.partition.service_mut(handle).expect(REGISTERED).cancel(order);
        }
    }

    /// The next RPC of a console that has ended: its number, and the reply or why there is none.
    pub fn next_rpc_outcome(&mut self) -> Option<RpcOutcome> {
        self.partition.service_mut(self.console_rpcs?)?.next_rpc_outcome()
    }
}

impl<D> Deref for NodePartition<D> {
    type Target = Partition<D>;

    fn deref(&self) -> &Partition<D> {
        &self.partition
    }
}

impl<D> DerefMut for NodePartition<D> {
    fn deref_mut(&mut self) -> &mut Partition<D> {
        &mut self.partition
    }
}
