//! A running node: starts the event loops and talks to them.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use lustrine_config::{AcceptPolicy, IdentityChoice, NodeConfig, ResolvedNi, own_peer};
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_lnet::topology::{Identity, Topology};
use lustrine_mem::Arena;
use lustrine_partition::tunables::loops;
use lustrine_partition::{NodePartition, PartitionConfig};
use lustrine_socklnd::{Accept, Config as DriverConfig};
use lustrine_sys::{
    Clock, CpuSet, Machine, Mailbox, Poller, PushError, Sender, Sleeper, mailbox,
    thread as sys_thread,
};

use crate::console::ConsoleSlot;
use crate::error::StartError;
use crate::event_loop::EventLoop;
use crate::handle::{Current, NodeContext, NodeHandle, NodeInfo};
use crate::idle::IdlePolicy;
use crate::kernel_lnet::{KernelNid, kernel_has};
use crate::listener::{Bound, address_in_use, leads_to, listen_error, socket_options};
use crate::loop_io::LoopIo;
use crate::mailbox::LoopMessage;
use crate::outbox::Outbox;
use crate::resolve::{ResolvedIdentity, resolve_identity, resolve_nis};
use crate::watch::Watch;

/// [`NodeInfo::identity_reason`] of a command that could be a node and is not.
pub const NID_IN_USE: &str = "another program of this machine has our address and port";

/// Capacity of a loop's mailbox.
const MAILBOX_LEN: usize = 4096;

/// Memory in addition to the selftest's buffers, per loop: ping information, request buffers,
/// sinks.
const BASE_MEMORY: u64 = 256 << 20;

/// A running node. Dropping it stops it.
pub struct Node {
    handle: NodeHandle,
    threads: Vec<JoinHandle<()>>,
}

/// A node has all methods of its handle.
impl Deref for Node {
    type Target = NodeHandle;

    fn deref(&self) -> &NodeHandle {
        &self.handle
    }
}

impl Node {
    /// Reads the machine's configuration, opens the listeners, starts one event loop per CPU
    /// partition.
    ///
    /// # Errors
    /// When the configuration does not fit the machine, or the system refuses; nothing is left
    /// running then.
    pub fn start(config: &NodeConfig) -> Result<Node, StartError> {
        let nis = resolve_nis(config)?;
        let identity = resolve_identity(config.identity, &nis)?;
        if identity.identity == Identity::Node {
            not_of_kernel(&nis, &[KernelNid::Has])?;
        }
        let bound = Bound::open_patiently(config, &nis, identity.identity)?;
        Node::start_with(config, nis, identity, bound, Clock::Wall.now())
    }

    /// Starts a temporary node for one command.
    ///
    /// If it has the node identity, it listens as every node does: peers may dial it back, and no
    /// second process of this machine can use the same NID at the same time. Peers would mistake
    /// two of them for one that restarts, and end what is in flight. So if the address is in use,
    /// by a node, another command or a kernel, it is userland. A program that says that
    /// it has the address for a short time, as `lustrine doctor` during a look and a mount that
    /// ends, is waited for, for at most 5 s.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_for_command(config: &NodeConfig) -> Result<Node, StartError> {
        Node::start_for_command_as(config, Clock::Wall.now())
    }

    /// The same with the incarnation that peers see: a node that follows an earlier one of the same
    /// command, which has ended and had nothing in flight, does not pass for one that was started
    /// again.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_for_command_as(config: &NodeConfig, hello: u64) -> Result<Node, StartError> {
        let nis = resolve_nis(config)?;
        let mut identity = resolve_identity(config.identity, &nis)?;
        let mut bound = Bound::default();
        if config.accept != AcceptPolicy::None || identity.identity == Identity::Node {
            let listening = match config.accept {
                AcceptPolicy::None => AcceptPolicy::Secure,
                asked_for => asked_for,
            };
            let listening = NodeConfig { accept: listening, ..config.clone() };
            // What was not asked for is not done if it could harm another node.
            let gives_way =
                config.accept == AcceptPolicy::None && config.identity == IdentityChoice::Auto;
            let is_free = match (identity.identity, gives_way) {
                (Identity::Userland, _) => Ok(()),
                (Identity::Node, false) => not_of_kernel(&nis, &[KernelNid::Has]),
                // It may have the address without listening there.
                (Identity::Node, true) => {
                    not_of_kernel(&nis, &[KernelNid::Has, KernelNid::Unknown])
                }
            };
            let open = || Bound::open_patiently(&listening, &nis, identity.identity);
            match is_free.and_then(|()| open()) {
                Ok(open) => bound = open,
                Err(StartError::Listen { error, .. })
                    if error.kind() == io::ErrorKind::AddrInUse && gives_way =>
                {
                    let reason = NID_IN_USE;
                    identity = ResolvedIdentity { identity: Identity::Userland, reason };
                }
                Err(other) => return Err(other),
            }
        }
        Node::start_with(config, nis, identity, bound, hello)
    }

    fn start_with(
        config: &NodeConfig,
        nis: Vec<ResolvedNi>,
        identity: ResolvedIdentity,
        bound: Bound,
        hello_incarnation: u64,
    ) -> Result<Node, StartError> {
        // A machine with many peers needs many descriptors; the default of 1024 is too few.
        let descriptors = lustrine_sys::limits::raise_descriptor_limit().unwrap_or(1024);
        let own = nis.iter().map(|ni| ni.nid).collect();
        own_peer(config, &own).map_or(Ok(()), |text| Err(StartError::OwnPeer(text)))?;
        let partitions = partitions(config)?;
        let info = Arc::new(NodeInfo {
            nids: nis.iter().map(|ni| ni.nid).collect(),
            interfaces: nis.iter().map(|ni| ni.interface.clone()).collect(),
            listening: nis
                .iter()
                .map(|ni| Some(ni.addrs()[0]).filter(|addr| leads_to(&bound.listeners, addr)))
                .collect(),
            ports: nis.iter().map(|ni| ni.port).collect(),
            conns_per_peer: nis.iter().map(|ni| ni.conns_per_peer).collect(),
            peer_credits: nis.iter().map(|ni| ni.peer_credits).collect(),
            tunables: config.tunables.clone(),
            config: settings(config, &nis),
            identity: identity.identity,
            identity_reason: identity.reason,
            partitions: partitions.iter().map(|partition| partition.cpus.clone()).collect(),
        });
        let cpts = partitions.len() as u16;
        let context = NodeContext {
            cpts,
            incarnation: Clock::Wall.now(),
            hello_incarnation,
            connections_max: connections_max(descriptors, cpts),
        };
        let builder = Builder { config, nis: &nis, identity: identity.identity, context };
        let node = builder.start(&partitions, bound, info)?;
        node.describe_peers(&config.peers)?;
        Ok(node)
    }

    /// A handle for others.
    pub fn handle(&self) -> NodeHandle {
        self.handle.clone()
    }

    /// Closes all connections and waits for the event loops to end.
    pub fn stop(mut self) {
        self.stop_all();
    }

    fn stop_all(&mut self) {
        self.handle.console.close();
        for sender in self.handle.loops.iter() {
            // A full mailbox empties within a turn; that of a loop that panicked is closed.
            while let Err(PushError::Full(_)) = sender.push(LoopMessage::Stop) {
                std::thread::yield_now();
            }
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("an event loop ended with a panic");
            }
        }
    }

    /// Whether all event loops are running. One that panicked ends the node.
    pub fn is_sound(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.stop_all();
        }
    }
}

/// Refuses a NID that the kernel's LNet has in one of these ways.
pub(crate) fn not_of_kernel(nis: &[ResolvedNi], refused: &[KernelNid]) -> Result<(), StartError> {
    let taken = nis.iter().find(|ni| refused.contains(&kernel_has(&ni.nid)));
    taken.map_or(Ok(()), |ni| Err(listen_error(ni.addrs()[0], address_in_use())))
}

fn partitions(config: &NodeConfig) -> Result<Vec<CpuSet>, StartError> {
    let machine = Machine::detect();
    let count = config.tunables.loops.cpu_npartitions as u32;
    Ok(lustrine_sys::cpt::partitions(count, &config.cpu_pattern, &machine)?)
}

/// What all loops of one node share while they are created.
struct Builder<'a> {
    config: &'a NodeConfig,
    nis: &'a [ResolvedNi],
    identity: Identity,
    context: NodeContext,
}

impl Builder<'_> {
    fn start(
        &self,
        partitions: &[CpuSet],
        bound: Bound,
        info: Arc<NodeInfo>,
    ) -> Result<Node, StartError> {
        let mut posts = Vec::new();
        let mut senders = Vec::new();
        for _ in partitions {
            let sleeper = Sleeper::new()?;
            let (sender, messages) = mailbox(MAILBOX_LEN, sleeper.waker());
            senders.push(sender);
            posts.push((sleeper, messages));
        }
        // A node that fails while starting stops the loops that it has: see `Drop`.
        let (loops, console) = (senders.as_slice().into(), Arc::new(ConsoleSlot::default()));
        let current =
            Current { info: RwLock::new(info), changing: Mutex::default(), context: self.context };
        let loads = Arc::default();
        let handle = NodeHandle { current: Arc::new(current), loops, console, loads };
        let mut node = Node { handle, threads: Vec::new() };
        let mut bound = Some(bound);
        for (index, (partition, post)) in partitions.iter().zip(posts).enumerate() {
            // The first loop has all listeners; it hands connections to the peer's home.
            let bound = bound.take().unwrap_or_default();
            let event_loop = self.event_loop(index as u16, bound, post, &senders)?;
            let cpus = (partitions.len() > 1).then(|| partition.cpus.clone());
            let thread = std::thread::Builder::new().name(format!("lustrine-cpt{index}")).spawn(
                move || {
                    if let Some(cpus) = cpus
                        && let Err(error) = sys_thread::pin(&cpus)
                    {
                        tracing::warn!(%error, ?cpus, "cannot pin an event loop");
                    }
                    event_loop.run();
                },
            )?;
            node.threads.push(thread);
        }
        Ok(node)
    }

    fn event_loop(
        &self,
        cpt: u16,
        bound: Bound,
        (sleeper, mailbox): (Sleeper, Mailbox<LoopMessage>),
        others: &[Sender<LoopMessage>],
    ) -> Result<EventLoop, StartError> {
        let tunables = self.context.limited(&self.config.tunables);
        let bytes = |mib: i64| (mib as u64) << 20;
        let memory = BASE_MEMORY + bytes(tunables.selftest.selftest_memory);
        let kept = match tunables.loops.kept_memory {
            ..0 => loops::KEPT_MEMORY,
            kept => kept,
        };
        let arena = Arena::with_taken(memory, bytes(kept));
        let options = socket_options(&self.config.tunables);
        let mut io = LoopIo::new(Poller::new(256)?, arena, options);
        let topology = Topology {
            nis: self.nis.iter().map(|ni| self.context.core_ni(ni)).collect(),
            identity: self.identity,
            incarnation: self.context.incarnation,
            hash_seed: drawn(),
            cpt,
            cpts: self.context.cpts,
            tunables: tunables.lnet.clone(),
        };
        let incarnation = self.context.hello_incarnation;
        let driver = DriverConfig {
            nis: self.nis.iter().map(|ni| self.context.driver_ni(ni, incarnation)).collect(),
            identity: self.identity,
            accept: match self.config.accept {
                AcceptPolicy::All => Accept::All,
                AcceptPolicy::Secure | AcceptPolicy::None => Accept::Secure,
            },
            tunables: tunables.socklnd.clone(),
            lnet_tunables: tunables.lnet.clone(),
            cpt,
            cpts: self.context.cpts,
            seed: drawn(),
        };
        let config = PartitionConfig {
            topology,
            driver,
            selftest_tunables: tunables.selftest.clone(),
            selftest: self.config.selftest.clone(),
            wall: wall_clock(),
        };
        let partition = NodePartition::new(config, &mut io);
        let mut event_loop = EventLoop {
            cpt,
            partition,
            io,
            listeners: bound.listeners.into_iter().map(Some).collect(),
            claims: bound.claims,
            mailbox,
            outbox: Outbox::new(others.to_vec()),
            sleeper,
            waiting: IdlePolicy::new(tunables.loops.spin_us),
            looked_at: Time::ZERO,
            accept_paused_until: Time::ZERO,
            stopping: false,
            replies: HashMap::new(),
            tickets: 0,
            load: None,
            console: None,
            watch: Watch::default(),
        };
        event_loop.prepare()?;
        Ok(event_loop)
    }
}

/// No more connections of the node than descriptors: some are reserved for files, listeners and
/// pipes, and some for each loop, which has a poller and a wake-up, and rounds its share up.
fn connections_max(descriptors: u64, cpts: u16) -> i64 {
    let descriptors = i64::try_from(descriptors).unwrap_or(i64::MAX);
    let spare = 64 + 4 * i64::from(cpts);
    (descriptors - spare).max(16)
}

/// A configuration with the values that this machine determines.
fn settings(config: &NodeConfig, nis: &[ResolvedNi]) -> NodeConfig {
    let nets = config.nets.iter().zip(nis);
    let nets = nets.map(|(net, ni)| ni.explicit(net, &config.tunables)).collect();
    NodeConfig { nets, ..config.clone() }
}

/// The wall clock now, and where it stands on the clock of the event loops.
pub(crate) fn wall_clock() -> WallClock {
    WallClock::new(Time(Clock::Monotonic.now()), Nanos(Clock::Wall.now()))
}

/// A random number from the system that is not predictable from outside.
fn drawn() -> u64 {
    // The standard library seeds the hashers of its maps with it, and offers no other access.
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver of each loop takes its share of what this function returns.
    #[test]
    fn all_loops_together_have_nearly_as_many_connections_as_descriptors() {
        for (descriptors, cpts) in [(1024, 1), (4096, 8), (65_536, 32)] {
            let most = connections_max(descriptors, cpts);
            let rest = descriptors as i64 - most;
            assert!((64..=64 + 8 * i64::from(cpts)).contains(&rest), "{most} of {descriptors}");
        }
        assert_eq!(connections_max(10, 8), 16);
    }
}
