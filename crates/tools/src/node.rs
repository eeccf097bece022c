//! What `lnetctl`, `lctl` and `routerstat` need of the world: a node that runs, and what it tells.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use lustrine_wire::nid::{Net, Nid};

use crate::shell::Terminal;

/// The world beyond these tools.
pub trait Env: Terminal {
    /// The node's interfaces.
    ///
    /// # Errors
    /// [`ToolError`]; so of all that ask the node.
    fn nis(&mut self) -> Result<LocalNis, ToolError>;

    /// The NIDs of peers that the node knows.
    ///
    /// # Errors
    /// [`ToolError`].
    fn peers(&mut self) -> Result<Vec<PeerNi>, ToolError>;

    /// The node's counters, by LNet's names.
    ///
    /// # Errors
    /// [`ToolError`].
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, ToolError>;

    /// The values in force for all of the node, by LNet's names where it has one.
    ///
    /// # Errors
    /// [`ToolError`].
    fn tunables(&mut self) -> Result<BTreeMap<String, i64>, ToolError>;

    /// Has the node ping a NID, within so many seconds.
    ///
    /// # Errors
    /// [`ToolError`].
    fn ping(&mut self, nid: Nid, seconds: u32) -> Result<PeerIdentity, ToolError>;

    /// Has the node ask a NID about its node, known or not.
    ///
    /// # Errors
    /// [`ToolError`].
    fn discover(&mut self, nid: Nid) -> Result<PeerIdentity, ToolError>;

    /// The address of a host.
    ///
    /// # Errors
    /// Why it has none, for people.
    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String>;

    /// Has the node change something; with `dry_run`, finds out what that would do.
    ///
    /// # Errors
    /// [`ToolError`]; nothing was changed then.
    fn change(&mut self, wish: &ChangeRequest, dry_run: bool) -> Result<ChangeReport, ToolError>;

    /// The node's settings, as a file for `lustrine node --config`.
    ///
    /// # Errors
    /// [`ToolError`].
    fn backup(&mut self) -> Result<String, ToolError>;

    /// Reads a file, or the standard input.
    ///
    /// # Errors
    /// Why it cannot, for people.
    fn read(&mut self, path: Option<&str>) -> Result<String, String>;

    /// Writes a file, over one that is there.
    ///
    /// # Errors
    /// Why it cannot, for people.
    fn write(&mut self, path: &str, text: &str) -> Result<(), String>;
}

/// Why a node did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ToolError {
    /// LNet's number: a negative errno.
    pub errno: i32,
    /// What happened and what to do next, for people; may be empty where the number says it.
    pub text: String,
}

/// A change that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRequest {
    /// Another value for all of the node.
    Set {
        /// Its name.
        name: String,
        /// The value.
        value: i64,
    },
    /// Other values for interfaces.
    SetNet {
        /// Which.
        which: NiSelector,
        /// Bulk connections per peer and direction.
        conns_per_peer: Option<u16>,
        /// The driver's time-out in seconds.
        lnd_timeout: Option<u32>,
    },
    /// More interfaces.
    AddNet(NewNet),
    /// Fewer interfaces.
    DelNet {
        /// Which.
        which: NiSelector,
        /// Of a network, those on interfaces of these names, if there are any.
        interfaces: Vec<String>,
    },
    /// A peer by hand, or more NIDs of one.
    AddPeer {
        /// Its NIDs, the primary one first.
        nids: Vec<String>,
        /// Whether they belong to one node.
        multi_rail: bool,
        /// Whether the primary NID stays.
        locked: bool,
    },
    /// Forget a peer, or some of its NIDs.
    DelPeer {
        /// Its primary NID.
        primary: String,
        /// These only, if there are any.
        nids: Vec<String>,
        /// Even if its primary NID shall stay.
        force: bool,
    },
    /// Counters begin anew.
    ResetStats,
    /// What a file says.
    Import {
        /// The file.
        text: String,
        /// Its name.
        source_name: String,
        /// What it is for.
        manner: ImportMode,
        /// Leave out what is not known, or cannot be.
        lenient: bool,
    },
}

/// Which interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NiSelector {
    /// All.
    All,
    /// The one of this NID.
    Nid(String),
    /// Those on this network.
    Net(String),
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
    /// What it has shall be there.
    Add,
    /// It shall be gone.
    Del,
    /// What it has shall be there, and nothing else.
    Exact,
}

/// An interface to be; what is not said is the node's to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the options")]
pub struct NewNet {
    pub net: Option<String>,
    pub interfaces: Vec<String>,
    pub nid: Option<String>,
    pub peer_credits: Option<u32>,
    pub credits: Option<u32>,
    pub conns_per_peer: Option<u16>,
    pub tos: Option<i16>,
}

/// What a change did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeReport {
    /// One by one, each in words that follow "would".
    pub steps: Vec<String>,
    /// What was left out.
    pub warnings: Vec<String>,
    /// The node's settings before, as a backup.
    pub before: String,
    /// The same afterwards.
    pub after: String,
}

/// The interfaces of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalNis {
    /// How many CPU partitions it has; each serves every interface.
    pub cpts: u32,
    /// The interfaces; the loopback, which every node has, is not among them.
    pub nis: Vec<Ni>,
}

/// A local interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ni {
    /// Its NID.
    pub nid: Nid,
    /// Its name, if it has one.
    pub interface: Option<String>,
    /// TCP port at which peers of its net are dialled.
    pub port: u16,
    /// Bulk connections per peer and direction.
    pub conns_per_peer: u16,
    /// Messages under way at once to one peer.
    pub peer_credits: u32,
    /// Messages under way at once to all peers.
    pub credits: u32,
    /// Messages sent, received and not wanted.
    pub messages: Messages,
}

/// Counts of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Received and not wanted.
    pub dropped: u64,
    /// How long operations took, in lnetctl's order; `None` while the node takes no latencies.
    pub latency: Option<[Latency; 3]>,
}

/// How long an operation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as lnetctl calls them")]
pub struct Latency {
    /// `put_egress`, `get_rtt` or `put_ack`.
    pub operation: &'static str,
    pub samples: u64,
    pub min_nsec: u64,
    pub max_nsec: u64,
    pub avg_nsec: u64,
}

/// A NID of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNi {
    /// The NID.
    pub nid: Nid,
    /// Whose node it is.
    pub node: PeerIdentity,
    /// The CPU partition it lives in.
    pub cpt: u16,
    /// Messages that may be under way to it at once.
    pub credits: u32,
    /// Free ones of these, or minus the number of messages waiting.
    pub credits_available: i64,
    /// Lowest value seen of that.
    pub credits_min: i64,
    /// Messages from and to it.
    pub messages: Messages,
    /// Open connections.
    pub connections: Connections,
}

/// What a node told about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its primary NID.
    pub primary: Nid,
    /// Whether its NIDs belong to one multi-rail node.
    pub multi_rail: bool,
    /// Its NIDs, and whether it says they are up; nothing before it was asked.
    pub nids: Vec<(Nid, bool)>,
}

/// Open connections by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the types")]
pub struct Connections {
    pub any: u32,
    pub control: u32,
    pub bulk_in: u32,
    pub bulk_out: u32,
}

impl Connections {
    /// All types together.
    pub fn total(&self) -> u32 {
        let of_types = [self.any, self.control, self.bulk_in, self.bulk_out];
        of_types.into_iter().fold(0, u32::saturating_add)
    }
}

impl LocalNis {
    /// The interfaces on a network.
    pub fn on(&self, net: Net) -> impl Iterator<Item = &Ni> {
        self.nis.iter().filter(move |ni| ni.nid.net() == net)
    }
}
