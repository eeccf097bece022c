//! A scenario that was read: everything in it has its default, its range and its meaning.

use lustrine_lnet::time::Nanos;
use lustrine_lnet::tunables::Tunables;
use lustrine_selftest::Test;
use lustrine_sim::fabric::{Hashing, LinkSpec, Rate};
use lustrine_sim::tcp::TcpSpec;
use lustrine_sim::{CpuCost, StopKind};
use lustrine_wire::nid::Net;
use serde::Serialize;

/// Most nodes of a scenario.
pub const NODES_MAX: u32 = 100_000;

/// What is to be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What all that is random comes from.
    pub seed: u64,
    /// How finely it is simulated.
    pub fidelity: Fidelity,
    /// Names of the sites, at least one.
    pub sites: Vec<String>,
    /// What connects them.
    pub trunks: Vec<Trunk>,
    /// The nodes.
    pub groups: Vec<Group>,
    /// What they do.
    pub loads: Vec<Load>,
    /// What happens to them, in the order of time.
    pub events: Vec<Event>,
}

/// How finely something is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// Parallel links between two sites, all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// Which sites, by index.
    pub between: (usize, usize),
    /// What each link is like in each direction.
    pub link: LinkSpec,
    /// How many there are, 1 to 64.
    pub parallel: u32,
    /// What chooses among them.
    pub hashing: Hashing,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// How many nodes, at least 1.
    pub count: u32,
    /// Where they stand, by index.
    pub site: usize,
    /// Their LNet network.
    pub net: Net,
    /// Their interfaces.
    pub interface: LinkSpec,
    /// Values in force.
    pub tunables: Tunables,
    /// What working costs them.
    pub cost: CpuCost,
    /// How their TCP behaves.
    pub tcp: TcpSpec,
}

/// What one group does to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The clients, by index of their group.
    pub from: usize,
    /// The servers, by index of their group.
    pub to: usize,
    /// Who works with whom.
    pub spread: Spread,
    /// What to do.
    pub test: Test,
    /// RPCs under way between one client and one server, 1 to 1024.
    pub concurrency: u32,
    /// When it starts.
    pub start: Nanos,
    /// Least time before it is measured.
    pub warm_up: Nanos,
    /// How long it is measured.
    pub time: Nanos,
    /// How long a server may be silent before its client gives up.
    pub patience: Nanos,
}

impl Load {
    /// When it is over if nothing delays it.
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

/// Who works with whom, as `lst add_test --distribute n:m`: clients are taken n at a time, servers
/// m at a time; each client of one lot works with each server of the other. When the lots of
/// servers are used up, the first one is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Clients of a lot.
    pub clients: u32,
    /// Servers of a lot.
    pub servers: u32,
}

impl Spread {
    /// Every pair of a client and a server, when there are so many servers.
    pub fn pairs(self, clients: u32, servers: u32) -> impl Iterator<Item = (u32, u32)> {
        (0..clients).flat_map(move |client| {
            let lot = client / self.clients % (servers / self.servers);
            (0..self.servers).map(move |server| (client, lot * self.servers + server))
        })
    }
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, from the beginning.
    pub at: Nanos,
    /// What.
    pub action: Action,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Links carry nothing any more.
    Cut(Target),
    /// They do again, and are again as they were in the beginning.
    Mend(Target),
    /// They have other figures.
    Degrade(Target, LinkChange),
    /// Nodes end.
    End(NodeRange, StopKind),
    /// Nodes that ended start again.
    Restart(NodeRange),
}

/// Which links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Those of a way, or one of them.
    Trunk {
        /// Which way, by index.
        trunk: usize,
        /// Which of its links, by index.
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

/// New figures of a link; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// `Some(None)` is unlimited.
    pub rate: Option<Option<Rate>>,
    /// Propagation.
    pub delay: Option<Nanos>,
    /// At random up to so much more.
    pub jitter: Option<Nanos>,
    /// Bytes.
    pub queue: Option<u64>,
    /// Of 1,000,000,000 packets.
    pub loss: Option<u32>,
}

impl LinkChange {
    /// A link with these figures.
    pub fn of(self, link: LinkSpec) -> LinkSpec {
        LinkSpec {
            rate: self.rate.unwrap_or(link.rate),
            delay: self.delay.unwrap_or(link.delay),
            jitter: self.jitter.unwrap_or(link.jitter),
            queue: self.queue.unwrap_or(link.queue),
            loss: self.loss.unwrap_or(link.loss),
            packet: link.packet,
        }
    }
}
