//! Everything about a random world, as data.

use std::collections::BTreeMap;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::Test;
use lustrine_wire::srpc::BrwCheck;
use serde::{Deserialize, Serialize};

use crate::fabric::{Hashing, LinkSpec, Rate};
use crate::network::{Chunking, Link};

/// A world and what happens in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Of all that the plan leaves to chance: jitter, losses, pieces, lateness.
    pub seed: u64,
    /// What must hold.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub expect: Expectation,
    /// How streams are made.
    pub transport: Transport,
    /// Who is there; each loads the next one.
    pub nodes: Vec<Node>,
    /// At which site each node stands; none: each at one of its own. TCP's transport only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<usize>,
    /// Between two nodes, by their places in `nodes`; others have the first one's values. Where
    /// there are `sites`, between two of those, and data may pass several.
    pub links: Vec<Wire>,
    /// What each node does to the next while there is trouble; behind that, what each does to the
    /// one after the next (with two nodes: itself).
    pub load_under_faults: Vec<Load>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// The same when all is well again.
    pub load_after_recovery: Vec<Load>,
}

/// What must hold in a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// When the faults have healed everybody answers and all of the load goes well.
    #[default]
    Recovery,
    /// Nothing wrong is taken for right, and whatever was begun ends, well or not, within what
    /// the time-outs in force allow.
    Safety,
}

/// How streams are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// They have a latency and a window.
    Plain,
    /// They are TCP's, over links with a rate, a queue and losses.
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
    /// Whom others take it for, and whom it lets in.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub role: Role,
    /// CPU partitions.
    pub cpts: u16,
    /// Memory of each of its partitions, in MiB; 0 is plenty.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub memory_mib: u64,
    /// How late its timers and its messages between partitions may be, in microseconds.
    pub skew_us: u64,
    /// Values in force instead of the defaults.
    pub tunables: BTreeMap<String, i64>,
}

/// Whom others take a node for, and whom it lets in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A node that lets in nodes.
    #[default]
    Node,
    /// A node that lets in userland processes, too.
    Host,
    /// A userland process, which lets in nobody.
    Userland,
}

/// Whether a value is what it is where a plan does not say.
fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The way between two nodes, or sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// Which nodes.
    pub between: (usize, usize),
    /// One way, in microseconds.
    pub latency_us: u64,
    /// Up to so much more.
    pub jitter_us: u64,
    /// Bytes under way at most (`plain`), or buffers of so many bytes (TCP).
    pub window: u64,
    /// Most bytes that a call moves; 0 moves a random part, none all there is.
    pub call_max: Option<usize>,
    /// Megabits per second; TCP's transport only.
    pub megabits: u64,
    /// Bytes that wait at most; TCP's transport only.
    pub queue: u64,
    /// Packets lost of a million; TCP's transport only.
    pub loss_ppm: u32,
    /// So many more links that are alike; TCP's transport only.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub extra_links: u8,
    /// What chooses among them.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub hash_by: HashBy,
}

/// What chooses among links that are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashBy {
    /// Each stream takes its own.
    #[default]
    Streams,
    /// All streams of two hosts take one.
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

    /// For streams that have a latency and a window.
    pub(super) fn link(&self) -> Link {
        Link {
            latency: self.latency(),
            jitter: Nanos::from_micros(self.jitter_us),
            window: self.window as usize,
            chunking: self.chunking(),
        }
    }

    /// For TCP's.
    pub(super) fn spec(&self) -> LinkSpec {
        LinkSpec {
            rate: Rate::from_bits(self.megabits * 1_000_000),
            delay: self.latency(),
            jitter: Nanos::from_micros(self.jitter_us),
            queue: self.queue,
            loss: self.loss_ppm.saturating_mul(1000),
            ..LinkSpec::default()
        }
    }
}

/// What one node does to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// What.
    pub what: TestKind,
    /// Bytes per RPC; 0 for a ping.
    pub bytes: u32,
    /// Whether every word is checked, or the ends of pages.
    pub full_check: bool,
    /// RPCs under way.
    pub concurrency: u32,
    /// RPCs in all.
    pub count: u64,
}

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestKind {
    /// A small request and a small reply.
    Ping,
    /// Data come from the other node.
    Read,
    /// Data go to the other node.
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

/// Something that goes wrong, some time after the thing before it. Nodes are named by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// A stream of a node breaks: the so-manieth, modulo how many it has.
    Break {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Whose stream.
        node: usize,
        /// Which.
        stream: u64,
    },
    /// Nothing passes between two nodes any more.
    Sever {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Which nodes.
        between: (usize, usize),
    },
    /// It passes again.
    Mend {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Which nodes.
        between: (usize, usize),
    },
    /// A node takes no new streams any more.
    Refuse {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Which.
        node: usize,
    },
    /// It takes them again.
    Admit {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Which.
        node: usize,
    },
    /// The links between two sites are cut, all of them.
    Cut {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Which, by its place among the links, modulo how many there are.
        link: usize,
    },
    /// They are whole again.
    Splice {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Which.
        link: usize,
    },
    /// A node ends and comes back.
    Restart {
        /// Milliseconds after the trouble before.
        after_ms: u64,
        /// Which.
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
        | Fault::Mend { after_ms, .. }
        | Fault::Refuse { after_ms, .. }
        | Fault::Admit { after_ms, .. }
        | Fault::Cut { after_ms, .. }
        | Fault::Splice { after_ms, .. }
        | Fault::Restart { after_ms, .. }) = self;
        Nanos::from_millis(*after_ms)
    }
}

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// Its host resets its streams.
    Crash,
    /// Nothing more is heard of it.
    Silence,
    /// It closes its connections.
    Orderly,
}

impl From<StopKind> for crate::simulation::StopKind {
    fn from(stop_kind: StopKind) -> crate::simulation::StopKind {
        match stop_kind {
            StopKind::Crash => crate::simulation::StopKind::Crash,
            StopKind::Silence => crate::simulation::StopKind::Silence,
            StopKind::Orderly => crate::simulation::StopKind::Orderly,
        }
    }
}
