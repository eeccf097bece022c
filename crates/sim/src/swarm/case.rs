//! A random simulation, as data.

use std::collections::BTreeMap;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::Test;
use lustrine_wire::srpc::BrwCheck;
use serde::{Deserialize, Serialize};

use crate::fabric::{Hashing, LinkSpec, Rate};
use crate::network::{Chunking, Link};
use crate::simulation::StopKind;

/// A network and what happens in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwarmCase {
    /// The seed of everything that the case leaves to chance: jitter, losses, sizes of pieces,
    /// delays of timers.
    pub seed: u64,
    /// What must hold.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub expect: Expectation,
    /// The kind of the streams.
    pub transport: Transport,
    /// The nodes; each one loads the next.
    pub nodes: Vec<Node>,
    /// The site of each node; empty: each has its own site. With TCP transports only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<usize>,
    /// The connections between two nodes, by their indices in `nodes`; other pairs have the values
    /// of the first entry. With `sites`, the connections between two sites, and data may pass
    /// several of them.
    pub links: Vec<Wire>,
    /// The load of each node on the next during the faults; further entries are the load of each
    /// node on the one after the next (with two nodes: itself).
    pub load_under_faults: Vec<Load>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// The same load after recovery.
    pub load_after_recovery: Vec<Load>,
}

/// What must hold in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// After the faults have been repaired, all nodes answer and the whole load succeeds.
    #[default]
    Recovery,
    /// No corrupt data is accepted, and every operation ends, with success or not, within the time
    /// that the time-outs permit.
    Safety,
}

/// The kind of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Streams with a latency and a window.
    Plain,
    /// TCP with CUBIC, over links with a rate, a queue and losses.
    Cubic,
    /// As `Cubic`, with BBR.
    Bbr,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its NID.
    pub nid: String,
    /// How others see it, and which peers it accepts.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub role: Role,
    /// CPU partitions.
    pub cpts: u16,
    /// Memory of each of its partitions, in MiB; 0 is ample.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub memory_mib: u64,
    /// The largest delay of its timers and of messages between its partitions, in microseconds.
    pub skew_us: u64,
    /// Tunables that differ from their defaults.
    pub tunables: BTreeMap<String, i64>,
}

/// How others see a node, and which peers it accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A node that accepts nodes.
    #[default]
    Node,
    /// A node that accepts userland peers, too.
    Host,
    /// A userland peer, which accepts none.
    Userland,
}

/// Whether a value is the default that a case leaves out.
fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The connection of two nodes, or of two sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// The two nodes or sites.
    pub between: (usize, usize),
    /// One-way delay, in microseconds.
    pub latency_us: u64,
    /// The largest random addition to the delay.
    pub jitter_us: u64,
    /// The limit of bytes in flight (`plain`), or the size of buffers (TCP).
    pub window: u64,
    /// The largest number of bytes that a call moves; 0 moves a random part; without it, everything
    /// that is there.
    pub call_max: Option<usize>,
    /// Megabits per second; with TCP transports only.
    pub megabits: u64,
    /// The limit of bytes that wait; with TCP transports only.
    pub queue: u64,
    /// Packets lost per million; with TCP transports only.
    pub loss_ppm: u32,
    /// Number of additional parallel links with the same values; with TCP transports only.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub extra_links: u8,
    /// How a stream is assigned to one of the parallel links.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub hash_by: HashBy,
}

/// What chooses among parallel links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashBy {
    /// The stream: each one takes its own link.
    #[default]
    Streams,
    /// The hosts: all streams of two hosts take one link.
    Hosts,
}

impl From<HashBy> for Hashing {
    fn from(hash_by: HashBy) -> Hashing {
        match hash_by {
            HashBy::Streams => Hashing::Streams,
            HashBy::Hosts => Hashing::Hosts,
        }
    }
}

impl Wire {
    fn chunking(&self) -> Chunking {
        match self.call_max {
            None => Chunking::Whole,
            Some(0) => Chunking::Random,
            Some(most) => Chunking::AtMost(most),
        }
    }

    fn latency(&self) -> Nanos {
        Nanos::from_micros(self.latency_us)
    }

    /// The link of streams that have a latency and a window.
    pub(super) fn link(&self) -> Link {
        Link {
            latency: self.latency(),
            jitter: Nanos::from_micros(self.jitter_us),
            window: self.window as usize,
            chunking: self.chunking(),
        }
    }

    /// The link of TCP streams.
    pub(super) fn spec(&self) -> LinkSpec {
        LinkSpec {
            rate: Rate::from_bits(self.megabits * 1_000_000),
            delay: self.latency(),
            jitter: Nanos::from_micros(self.jitter_us),
            queue: self.queue,
            loss: self.loss_ppm.saturating_mul(1000),
        }
    }
}

/// The load of one node on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The kind of test.
    pub what: TestKind,
    /// Bytes per RPC; 0 for a ping.
    pub bytes: u32,
    /// Whether every word is checked, or only the ends of pages.
    pub full_check: bool,
    /// RPCs in flight.
    pub concurrency: u32,
    /// Total number of RPCs.
    pub count: u64,
}

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestKind {
    /// A small request and a small reply.
    Ping,
    /// Data is read from the other node.
    Read,
    /// Data is written to the other node.
    Write,
}

impl Load {
    pub(super) fn test(&self) -> Test {
        let check = if self.full_check { BrwCheck::Full } else { BrwCheck::Simple };
        match self.what {
            TestKind::Ping => Test::Ping,
            TestKind::Read => Test::Read { len: self.bytes, check },
            TestKind::Write => Test::Write { len: self.bytes, check },
        }
    }
}

/// A fault, some time after the previous one. Nodes are identified by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// A stream of a node is reset: the one of this index, modulo the number of its streams.
    Break {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The node.
        node: usize,
        /// The index of the stream.
        stream: u64,
    },
    /// Nothing passes between two nodes any more.
    Sever {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The two nodes.
        between: (usize, usize),
    },
    /// The connection of two nodes is restored.
    Restore {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The two nodes.
        between: (usize, usize),
    },
    /// What a node sends to another one to open a stream is lost.
    LoseDials {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The node that dials, and the one that does not hear of it.
        from_to: (usize, usize),
    },
    /// It arrives again.
    PassDials {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The two nodes.
        from_to: (usize, usize),
    },
    /// A node accepts no new streams any more.
    Refuse {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The node.
        node: usize,
    },
    /// A node accepts new streams again.
    Admit {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The node.
        node: usize,
    },
    /// All links between two sites are cut.
    Cut {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The index of the connection, modulo the number of connections.
        link: usize,
    },
    /// All links between two sites are restored.
    Splice {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The index of the connection.
        link: usize,
    },
    /// A node ends and is started again.
    Restart {
        /// Milliseconds after the previous fault.
        after_ms: u64,
        /// The node.
        node: usize,
        /// How it ends.
        stop_kind: StopKind,
        /// How long it is away, in milliseconds.
        away_ms: u64,
    },
}

impl Fault {
    pub(super) fn after(&self) -> Nanos {
        let (Fault::Break { after_ms, .. }
        | Fault::Sever { after_ms, .. }
        | Fault::Restore { after_ms, .. }
        | Fault::LoseDials { after_ms, .. }
        | Fault::PassDials { after_ms, .. }
        | Fault::Refuse { after_ms, .. }
        | Fault::Admit { after_ms, .. }
        | Fault::Cut { after_ms, .. }
        | Fault::Splice { after_ms, .. }
        | Fault::Restart { after_ms, .. }) = self;
        Nanos::from_millis(*after_ms)
    }
}
