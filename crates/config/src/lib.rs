//! The configuration of a node: networks, peers, identity and tunables.
//!
//! Text in, values out, and back: lnetctl's YAML ([`NodeConfig::from_yaml`],
//! [`NodeConfig::to_yaml`]) and the words of `--net` ([`NetConfig`]'s `FromStr`). [`steps`] says
//! what to do to bring a running node from one configuration to another, and [`plan_import`] what
//! a file asks of a running node. Nothing here looks at the machine: what it has is an argument
//! ([`ResolvedNi`]).
#![forbid(unsafe_code)]

mod address;
mod check;
mod choices;
mod draft;
mod driver;
mod import;
mod interface;
mod lnetctl;
mod lustrine_section;
mod nets;
mod parse_net;
mod peers;
mod problem;
mod reading;
mod reference;
mod resolved;
mod steps;
mod tuning;
mod write;

use core::net::IpAddr;

use lustrine_partition::tunables::Tunables;
use lustrine_selftest::ServicePolicy;
use lustrine_wire::nid::{Net, Nid};

pub use address::{Address, InvalidAddress};
pub use check::{Inconsistency, own_peer};
pub use choices::UnknownValue;
pub use driver::NetDriver;
pub use import::{
    Force, ImportContext, ImportPlan, PlacedNi, RemoveError, add_peers, nids_to_remove, plan_import,
};
pub use lustrine_document::{Problem, Problems, Strictness};
pub use parse_net::{ParseNetError, ParseNetReason};
pub use problem::{FILE_MAX, Warning};
pub use reference::tunables_page;
pub use resolved::ResolvedNi;
pub use steps::{ConfigPart, RefusedChange, Step, steps};
pub use tuning::{AUTO, Tuning};

/// A node's configuration, before anything is looked up on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its interfaces, in order; the first one gives the primary NID.
    pub nets: Vec<NetConfig>,
    /// Peers that an administrator describes; all others are learned.
    pub peers: Vec<PeerConfig>,
    /// The identity that it shows to its peers.
    pub identity: IdentityChoice,
    /// Whom it lets in.
    pub accept: AcceptPolicy,
    /// The consoles that its selftest service accepts.
    pub selftest: ServicePolicy,
    /// Values in force for all nets.
    pub tunables: Tunables,
    /// LNet's `cpu_pattern`.
    pub cpu_pattern: String,
    /// Where the control socket is; `None`: there is none.
    pub control: Option<String>,
    /// Where metrics are served; `None`: nowhere.
    pub metrics: Option<Address>,
}

/// One network interface to be.
///
/// Where a value of its own is `None`, the tunable of the same name holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetConfig {
    /// The LNet network.
    pub net: Net,
    /// How the address of the interface is found.
    pub place: InterfaceChoice,
    /// TCP port to listen on and to dial, 1..=65535; `None`: tunable `accept_port`.
    pub port: Option<u16>,
    /// Own value instead of the tunable of the same name.
    pub credits: Option<u32>,
    /// Own value instead of the tunable of the same name; at most the credits.
    pub peer_credits: Option<u32>,
    /// Own value instead of the tunable of the same name, 0..=127.
    pub conns_per_peer: Option<u16>,
    /// Own value instead of the tunable `sock_timeout`, in seconds.
    pub timeout: Option<u32>,
    /// Own value instead of the tunable of the same name, -1..=255.
    pub tos: Option<i16>,
    /// LNet's `peer_timeout` in seconds; 0 and less turn it off. Only a router uses it [CFG-5], so
    /// it is kept and exported, and has no effect.
    pub peer_timeout: Option<i32>,
    /// LNet's `peer_buffer_credits`; the same holds [CFG-5].
    pub peer_buffer_credits: Option<u32>,
    /// LNet's list of CPU partitions as written, such as `[0,2-3]` [CFG-2]. It is kept and exported
    /// and has no effect: every partition serves every interface.
    pub cpts: Option<String>,
}

/// A peer as an administrator describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its NIDs, at least one; the first one is its primary NID.
    pub nids: Vec<Nid>,
    /// Whether they belong to one multi-rail node; a peer that is none has one NID.
    pub multi_rail: bool,
    /// Whether its primary NID stays whatever it says itself.
    pub locked: bool,
}

/// Most NIDs of all described peers together.
pub const PEER_NIDS_MAX: usize = 16_384;

/// Which address an interface has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceChoice {
    /// That of the default interface: the oldest hardware with a link, or the next best.
    Default,
    /// This one.
    Address(IpAddr),
    /// The first one of this interface.
    Interface(String),
}

/// How a node shall appear to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityChoice {
    /// Node if this process may bind privileged ports, userland otherwise.
    Auto,
    /// Node; an error if this process may not bind privileged ports.
    Node,
    /// Userland, even if this process may bind privileged ports.
    Userland,
}

/// LNet's `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptPolicy {
    /// From privileged source ports only.
    Secure,
    /// From any port.
    All,
    /// No connections: there is no listener.
    None,
}

impl NodeConfig {
    /// Reads lnetctl's YAML in any of its layouts [CFG-6], with the additional section `lustrine:`;
    /// `docs/configuration.md` is the reference. `source_name` is the text's name in messages,
    /// usually its path.
    ///
    /// Any text is read in bounded time and memory: at most 4 MiB, 32 levels, and 262,144 values
    /// with every alias expanded.
    ///
    /// # Errors
    /// All errors, each with its place; nothing of the text is used then.
    pub fn from_yaml(
        text: &str,
        source_name: &str,
        strictness: Strictness,
    ) -> Result<(NodeConfig, Vec<Warning>), Problems> {
        lnetctl::read(text, source_name, strictness)
    }

    /// Writes lnetctl's YAML, in the dialect of `lnetctl export` since 2.16. Reading it back
    /// gives an equal configuration if this one passes [`check`](NodeConfig::check).
    pub fn to_yaml(&self) -> String {
        write::node(self, write::Globals::ChangeReport)
    }

    /// The same with all of lnetctl's `global` keys, whatever their values: what a node gives for
    /// `lnetctl export --backup`.
    pub fn to_backup(&self) -> String {
        write::node(self, write::Globals::All)
    }

    /// Whether the values are in their ranges and agree with each other. Everything
    /// [`from_yaml`](NodeConfig::from_yaml) returns does; ask after changing fields by hand.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Inconsistency> {
        check::node(self)
    }
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        NodeConfig {
            nets: Vec::new(),
            peers: Vec::new(),
            identity: IdentityChoice::Auto,
            accept: AcceptPolicy::Secure,
            selftest: ServicePolicy::default(),
            tunables: Tunables::default(),
            cpu_pattern: "N".to_owned(),
            control: None,
            metrics: None,
        }
    }
}

impl NetConfig {
    /// A net with the tunables' values.
    pub fn new(net: Net, place: InterfaceChoice) -> NetConfig {
        NetConfig {
            net,
            place,
            port: None,
            credits: None,
            peer_credits: None,
            conns_per_peer: None,
            timeout: None,
            tos: None,
            peer_timeout: None,
            peer_buffer_credits: None,
            cpts: None,
        }
    }
}
