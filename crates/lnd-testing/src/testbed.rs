//! What the author of a driver writes: a few nodes with the driver, in virtual time.

use std::collections::VecDeque;

use lustrine_lnet::driver_report::{DriverCounter, DriverPeer};
use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_partition::tunables::Tunables;
use lustrine_partition::{Driver, DriverOn, PASSES_MAX};
use lustrine_wire::nid::{Net, Nid};

use crate::model::ModelCore;

/// The NID of node `node` on network `net`, both counted from 0: 10.0.`net`.`node + 1`@tcp`net`.
/// A testbed gives each node these addresses on [`NETS`] networks.
pub fn nid_of(node: usize, net: usize) -> Nid {
    let address = 0x0a00_0001 + ((net as u32) << 8) + node as u32;
    Nid::new4(Net { number: net as u16, ..Net::TCP }, address)
}

/// How many networks there are.
pub const NETS: usize = 3;

/// What the nodes of a testbed are like.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many interfaces each has at the start: interface `n` has the NID of network `n`.
    pub nis: usize,
    /// CPU partitions of node 1; every other node has one.
    pub cpts: u16,
    /// Whether node 0 is a userland node.
    pub userland: bool,
    /// What the drivers begin with. There is one connection of each kind to a peer.
    pub tunables: Tunables,
}

impl Default for Setup {
    /// Two nodes with one interface.
    fn default() -> Setup {
        let mut tunables = Tunables::default();
        tunables.set("conns_per_peer", 1).expect("a tunable");
        Setup { nodes: 2, nis: 1, cpts: 1, userland: false, tunables }
    }
}

impl Setup {
    /// As this one with a tunable changed.
    ///
    /// # Panics
    /// When there is no such tunable, or the value is out of range.
    #[must_use]
    pub fn with(mut self, tunable: &str, value: i64) -> Setup {
        self.tunables.set(tunable, value).expect("a tunable and a value of it");
        self
    }
}

/// What an event loop would do with a driver.
#[derive(Clone, Debug)]
pub enum Command {
    /// [`set_tunables`](Driver::set_tunables).
    SetTunables(Box<Tunables>),
    /// [`add_ni`](Driver::add_ni) with the NID of a network.
    AddNi(NiIndex, Nid),
    /// [`set_conns_per_peer`](Driver::set_conns_per_peer).
    SetConnsPerPeer(NiIndex, u16),
    /// [`remove_ni`](DriverOn::remove_ni).
    RemoveNi(NiIndex, Status),
    /// [`close_nids`](DriverOn::close_nids).
    CloseNids(Vec<Nid>, Status),
    /// [`close_all`](DriverOn::close_all).
    CloseAll(Status),
}

/// What a driver says about itself.
#[derive(Clone, Debug)]
pub struct DriverView {
    /// Whether it has work to do without a report.
    pub has_work: bool,
    /// When it wants to be called next.
    pub next_deadline: Time,
    /// The types of its connections.
    pub connection_types: Vec<&'static str>,
    /// Its counters.
    pub counters: Vec<DriverCounter>,
    /// Its peers.
    pub peers: Vec<DriverPeer>,
}

impl DriverView {
    /// What this driver says.
    pub fn of<D: Driver>(driver: &D) -> DriverView {
        DriverView {
            has_work: driver.has_work(),
            next_deadline: driver.next_deadline(),
            connection_types: driver.connection_types(),
            counters: driver.counter_rows(),
            peers: driver.peer_rows().collect(),
        }
    }
}

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// Its process is killed: its host lives on, and closes its connections.
    Killed,
    /// Its host is switched off.
    Silent,
}

/// A network of nodes with a driver, in virtual time.
pub trait Testbed: Sized {
    /// The nodes at work, each with a new driver and a new [`ModelCore`].
    fn new(setup: &Setup) -> Self;

    /// The time.
    fn now(&self) -> Time;

    /// Lets everything happen that happens until `end`. Each partition of a node has [`turn`]s
    /// when something is reported to it, at its driver's deadline, and after it was touched by the
    /// three methods below.
    fn run_until(&mut self, end: Time);

    /// The core and the memory of a partition of a node that runs.
    fn with<T>(
        &mut self,
        node: usize,
        cpt: u16,
        act: impl FnOnce(&mut ModelCore, &mut dyn Memory) -> T,
    ) -> T;

    /// Has the driver of each partition of a node carry out a command in its next turn.
    fn command(&mut self, node: usize, command: Command);

    /// What the driver of a partition says about itself: [`DriverView::of`] it.
    fn view(&self, node: usize, cpt: u16) -> DriverView;

    /// Ends a node. Its driver, its core and its memory are gone.
    fn stop(&mut self, node: usize, kind: StopKind);

    /// Starts a node again that was stopped, with another incarnation.
    fn start(&mut self, node: usize);

    /// Nothing reaches a node or leaves it any more, until [`Testbed::heal`].
    fn sever(&mut self, node: usize);

    /// The end of [`Testbed::sever`].
    fn heal(&mut self, node: usize);
}

/// What a partition is given for a turn.
#[derive(Debug)]
pub struct Input<D: Driver> {
    /// What the event loop reports.
    pub reports: Vec<D::Report>,
    /// What the driver of another partition has handed over.
    pub handoffs: Vec<D::Handoff>,
    /// What the driver is to carry out.
    pub commands: VecDeque<Command>,
}

impl<D: Driver> Default for Input<D> {
    fn default() -> Input<D> {
        Input { reports: Vec::new(), handoffs: Vec::new(), commands: VecDeque::new() }
    }
}

impl<D: Driver> Input<D> {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.handoffs.is_empty() && self.commands.is_empty()
    }
}

/// One turn of a partition: what an event loop and the core would do with a driver. `configure`
/// makes what describes an interface.
pub fn turn<D: DriverOn<O>, O: Memory>(
    now: Time,
    driver: &mut D,
    core: &mut ModelCore,
    io: &mut O,
    input: Input<D>,
    configure: impl Fn(NiIndex, Nid) -> D::NiConfig,
) {
    driver.register_memory(io);
    // A loop that polls looks before it has reports. What is found is worked on below.
    driver.poll(now, core, io);
    core.settle(io);
    for report in input.reports {
        driver.report(now, core, io, report);
        core.settle(io);
    }
    for handoff in input.handoffs {
        driver.adopt(now, core, io, handoff);
        core.settle(io);
    }
    for command in input.commands {
        match command {
            Command::SetTunables(tunables) => driver.set_tunables(now, &tunables),
            Command::AddNi(ni, nid) => driver.add_ni(ni, configure(ni, nid)),
            Command::SetConnsPerPeer(ni, count) => driver.set_conns_per_peer(ni, count),
            Command::RemoveNi(ni, status) => {
                submit_all(now, driver, core, io);
                driver.remove_ni(now, core, io, ni, status);
            }
            Command::CloseNids(nids, status) => {
                submit_all(now, driver, core, io);
                driver.close_nids(now, core, io, &nids, status);
            }
            Command::CloseAll(status) => {
                driver.close_all(now, core, io, status);
                core.note_closed();
            }
        }
        core.settle(io);
    }
    if now >= driver.next_deadline() {
        driver.tick(now, core, io);
        core.settle(io);
    }
    for _ in 0..PASSES_MAX {
        driver.flush(now, core, io);
        core.settle(io);
        if submit_all(now, driver, core, io) {
            driver.flush(now, core, io);
            core.settle(io);
        }
        if !driver.has_work() && !core.has_actions() {
            break;
        }
    }
}

fn submit_all<D: DriverOn<O>, O: Memory>(
    now: Time,
    driver: &mut D,
    core: &mut ModelCore,
    io: &mut O,
) -> bool {
    let Some(first) = core.next_action() else { return false };
    if core.has_actions() {
        driver.submit(now, core, io, &first);
    } else {
        driver.submit_alone(now, core, io, &first);
    }
    core.settle(io);
    while let Some(action) = core.next_action() {
        driver.submit(now, core, io, &action);
        core.settle(io);
    }
    true
}
