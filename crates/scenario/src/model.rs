//! A scenario after reading: defaults are filled in, and every value is within its range.

use lustrine_lnet::time::Nanos;
use lustrine_partition::tunables::Tunables;
use lustrine_selftest::Test;
use lustrine_sim::fabric::{Hashing, LinkSpec, Rate};
use lustrine_sim::tcp::TcpSpec;
use lustrine_sim::{CpuCost, StopKind};
use lustrine_wire::nid::Net;
use serde::{Deserialize, Serialize};

/// Largest number of nodes in a scenario.
pub const NODES_MAX: u32 = 100_000;

/// A simulation as a scenario file describes it: network, nodes, loads and events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The seed of all that is random.
    pub seed: u64,
    /// How finely it is simulated.
    pub fidelity: Fidelity,
    /// Names of the sites, at least one.
    pub sites: Vec<String>,
    /// The links between them.
    pub trunks: Vec<Trunk>,
    /// The nodes.
    pub groups: Vec<Group>,
    /// The loads.
    pub loads: Vec<Load>,
    /// The events, ordered by time.
    pub events: Vec<Event>,
}

/// How finely something is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// TCP streams of bytes, with the whole driver.
    Stream,
    /// LNet messages.
    Message,
}

impl Fidelity {
    /// The word in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Fidelity::Stream => "stream",
            Fidelity::Message => "message",
        }
    }
}

/// Parallel links between two sites, all with the same properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The two sites, by index.
    pub between: (usize, usize),
    /// The properties of each link in each direction.
    pub link: LinkSpec,
    /// The number of links, 1 to 64.
    pub parallel: u32,
    /// How a stream is assigned to one of the parallel links.
    pub hashing: Hashing,
}

/// Nodes with the same properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How many nodes, at least 1.
    pub count: u32,
    /// Their site, by index.
    pub site: usize,
    /// Their LNet network.
    pub net: Net,
    /// Their interfaces.
    pub interface: LinkSpec,
    /// Their tunables.
    pub tunables: Tunables,
    /// What processing costs them in CPU time.
    pub cost: CpuCost,
    /// The properties of their TCP.
    pub tcp: TcpSpec,
}

/// What one group does to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The clients, by index of their group.
    pub from: usize,
    /// The servers, by index of their group.
    pub to: usize,
    /// Which clients work with which servers.
    pub spread: Spread,
    /// The test to run.
    pub test: Test,
    /// RPCs in flight between one client and one server, 1 to 1024.
    pub concurrency: u32,
    /// When it starts.
    pub start: Nanos,
    /// The shortest time before measurement begins.
    pub warm_up: Nanos,
    /// The length of the measurement.
    pub time: Nanos,
    /// How long a server may be silent before its client gives up.
    pub patience: Nanos,
}

impl Load {
    /// When the load ends if nothing delays it.
    pub fn nominal_end(&self) -> Nanos {
        Nanos(self.start.0 + self.warm_up.0 + self.time.0)
    }

    /// Its test in tables and files.
    pub fn test_name(&self) -> &'static str {
        match self.test {
            Test::Ping => "ping",
            Test::Read { .. } => "read",
            Test::Write { .. } => "write",
        }
    }
}

/// Which clients work with which servers, as in `lst add_test --distribute n:m`: the clients are
/// divided into batches of n and the servers into batches of m, and each client of a batch works
/// with each server of the batch of the same number. After the last batch of servers, the first one
/// is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Clients in a batch.
    pub clients: u32,
    /// Servers in a batch.
    pub servers: u32,
}

impl Spread {
    /// Every pair of a client and a server, given the number of servers.
    pub fn pairs(self, clients: u32, servers: u32) -> impl Iterator<Item = (u32, u32)> {
        (0..clients).flat_map(move |client| {
            let lot = client / self.clients % (servers / self.servers);
            (0..self.servers).map(move |server| (client, lot * self.servers + server))
        })
    }
}

/// Something that happens during the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, from the beginning of the run.
    pub at: Nanos,
    /// The event itself.
    pub action: Action,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The links carry nothing any more.
    Cut(Target),
    /// The links carry data again, with the properties that they had in the beginning.
    Restore(Target),
    /// The links have other properties.
    Degrade(Target, LinkChange),
    /// Nodes end.
    End(NodeRange, StopKind),
    /// Nodes that have ended start again.
    Restart(NodeRange),
}

/// The links that an event changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Those of a trunk, or one of them.
    Trunk {
        /// The trunk, by index.
        trunk: usize,
        /// One of its links, by index.
        link: Option<u32>,
    },
    /// The interfaces of nodes.
    Interfaces(NodeRange),
}

/// Some nodes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRange {
    /// The group, by index.
    pub group: usize,
    /// The first one, from 0.
    pub first: u32,
    /// The last one.
    pub last: u32,
}

/// New properties of a link; `None` leaves a property as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Bits per second; `Some(None)` is unlimited.
    pub rate: Option<Option<Rate>>,
    /// Propagation delay, one way.
    pub delay: Option<Nanos>,
    /// The largest random addition to the delay.
    pub jitter: Option<Nanos>,
    /// Room for packets that wait, in bytes.
    pub queue: Option<u64>,
    /// Packets lost out of 1,000,000,000.
    pub loss: Option<u32>,
}

impl LinkChange {
    /// A link with these properties.
    pub fn of(self, link: LinkSpec) -> LinkSpec {
        LinkSpec {
            rate: self.rate.unwrap_or(link.rate),
            delay: self.delay.unwrap_or(link.delay),
            jitter: self.jitter.unwrap_or(link.jitter),
            queue: self.queue.unwrap_or(link.queue),
            loss: self.loss.unwrap_or(link.loss),
        }
    }
}
