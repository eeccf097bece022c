//! A plan: the nodes, the tests, and their times.

use std::collections::BTreeSet;

use lustrine_lnet::time::Nanos;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::BrwCheck;
use serde::{Deserialize, Serialize};

use crate::start::Start;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name, which is the session's too: 1 to 31 letters, digits, `_` and `-`.
    pub name: String,
    /// What it shows, for people; may be empty.
    pub about: String,
    /// How nodes are started on other hosts, if the plan says so.
    pub start: Option<Start>,
    /// The groups of nodes; each name occurs once.
    pub groups: Vec<Group>,
    /// The steps, one after the other.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Limits the numbers of nodes that steps vary to the nodes that there are, for a plan that is
    /// to go on without some of its nodes. Values that become equal are measured once.
    pub fn limit_nodes(&mut self, nodes: &[Vec<Nid>]) {
        for step in &mut self.steps {
            for dimension in &mut step.sweep {
                if let Dimension::Nodes(group, values) = dimension {
                    let there = nodes.get(*group).map_or(0, Vec::len) as u32;
                    values.iter_mut().for_each(|value| *value = there.min(*value));
                    let mut seen = BTreeSet::new();
                    values.retain(|value| seen.insert(*value));
                }
            }
        }
    }
}

/// Nodes with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// The nodes.
    pub members: Members,
}

/// The nodes of a group, unless others are given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// These: expressions for NIDs, such as `10.0.0.[1-16]@tcp`.
    Nids(Vec<String>),
    /// Nodes that are started on these hosts: lists of hosts, `^FILE` or `$VARIABLE`.
    Hosts(Vec<String>),
    /// This number of nodes, 1 to 64, which are started on this machine or on other hosts on
    /// request.
    Count(u32),
}

/// Tests that run together, for each combination of what varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// How long the tests are measured.
    pub time: Nanos,
    /// How long the tests run before that.
    pub warm_up: Nanos,
    /// How often each combination is measured, 1 to 100.
    pub repeat: u32,
    /// The tests.
    pub tests: Vec<Test>,
    /// What varies; the last one fastest.
    pub sweep: Vec<Dimension>,
}

/// One test of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What each RPC does.
    pub what: TestKind,
    /// Index of the group of clients.
    pub from: usize,
    /// Index of the group of servers.
    pub to: usize,
    /// Which clients have which servers.
    pub spread: Spread,
    /// Bytes per RPC, with weights; empty for ping.
    pub sizes: Vec<Size>,
    /// RPCs in flight of each client to each of its servers, 1 to 1024.
    pub concurrency: u32,
    /// How data are checked.
    pub check: BrwCheck,
    /// Largest number of RPCs per second of each client; 0 for no limit.
    pub rate: u32,
    /// The offset in a page at which the clients' data begin, in bytes.
    pub offset: u32,
}

/// What an RPC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestKind {
    /// A small request and a small reply.
    Ping,
    /// The server puts data to the client.
    Read,
    /// The server gets data from the client.
    Write,
}

impl TestKind {
    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            TestKind::Ping => "ping",
            TestKind::Read => "read",
            TestKind::Write => "write",
        }
    }
}

/// A size and its share of the RPCs in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes, a multiple of 8 up to 1 MiB.
    pub bytes: u32,
    /// Its weight relative to the others', at least 1.
    pub weight: u32,
}

/// Which clients have which servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Consecutive clients share consecutive servers, in these numbers (`lst add_test
    /// --distribute`).
    Rows {
        /// The number of clients of a batch.
        clients: u32,
        /// The number of servers that each batch of clients uses.
        servers: u32,
    },
    /// Each client has all servers.
    All,
    /// Each client has all servers but itself.
    Others,
    /// One client and one server at a time: every pair of two nodes is measured separately.
    Pairs,
    /// As many pairs at once as possible, with no node in two of the same role, until every pair
    /// has run.
    Rounds,
}

impl Spread {
    /// Whether each point has its own pairs.
    pub(crate) fn is_in_turns(self) -> bool {
        matches!(self, Spread::Pairs | Spread::Rounds)
    }
}

/// A varied value, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Concurrency of all tests of the step.
    Concurrency(Vec<u32>),
    /// Size of all its reads and writes, in bytes.
    Size(Vec<u32>),
    /// Rate of all its tests, per client.
    Rate(Vec<u32>),
    /// Number of nodes of this group that take part, the first ones.
    Nodes(usize, Vec<u32>),
}

impl Dimension {
    /// The number of its values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Dimension::Concurrency(values) | Dimension::Size(values) | Dimension::Rate(values) => {
                values.len()
            }
            Dimension::Nodes(_, values) => values.len(),
        }
    }
}
