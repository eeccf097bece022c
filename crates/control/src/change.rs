//! Changes of a running node.

use lustrine_wire::nid::{Net, Nid};
use serde::{Deserialize, Serialize};

/// A change of a running node. It is made as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeRequest {
    /// Set a tunable.
    Set {
        /// The tunable, by its name or LNet's.
        name: String,
        /// Its new value.
        value: i64,
    },
    /// Set values of interfaces.
    SetNet {
        /// The interfaces.
        which: NiSelector,
        /// Bulk connections per peer and direction; 0 follows the link's speed.
        conns_per_peer: Option<u16>,
        /// LNet's time-out of the driver, in seconds.
        lnd_timeout: Option<u32>,
    },
    /// Add interfaces.
    AddNet(NewNet),
    /// Remove interfaces.
    DelNet {
        /// The interfaces.
        which: NiSelector,
        /// If not empty: of `which`, only those on the network devices of these names.
        interfaces: Vec<String>,
    },
    /// Configure a peer, or add NIDs to a configured one.
    AddPeer {
        /// Its NIDs, the primary one first; at least one.
        nids: Vec<Nid>,
        /// Whether the NIDs belong to one multi-rail node.
        multi_rail: bool,
        /// Whether `DelPeer` needs `force` to remove the peer.
        locked: bool,
    },
    /// Remove a peer, or some of its NIDs.
    DelPeer {
        /// The peer's primary NID.
        primary: Nid,
        /// The NIDs to remove; empty: the whole peer.
        nids: Vec<Nid>,
        /// Whether to remove a peer whose primary NID is locked.
        force: bool,
    },
    /// Reset the counters that tools show.
    // Not a unit variant: serde would ignore unknown fields of one.
    ResetStats {},
    /// Apply a configuration file.
    Import {
        /// The file's text, in lnetctl's YAML.
        text: String,
        /// The file's name, for messages.
        source_name: String,
        /// How to apply the file.
        mode: ImportMode,
        /// Whether to leave out what is unknown or not possible, with a warning for each.
        lenient: bool,
    },
}

/// A selection of local interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NiSelector {
    /// All interfaces.
    All,
    /// The interface with this NID.
    Nid(Nid),
    /// The interfaces on this network.
    #[serde(with = "net_text")]
    Net(Net),
}

/// How a configuration file is applied to a running node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportMode {
    /// Add what the file has.
    Add,
    /// Remove the interfaces and peers that the file has.
    Del,
    /// Make the configuration equal to the file: other interfaces and configured peers are
    /// removed, and settings that the file does not have get their defaults, except those that
    /// cannot change while a node runs.
    Exact,
}

/// Interfaces to be added on one network; for a value that is not given the node uses its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewNet {
    /// The network; not needed beside `nid`.
    #[serde(default, with = "optional_net_text")]
    pub net: Option<Net>,
    /// Names of network devices, one interface on each; empty: the first one that is up.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// The interface's NID, instead of names of devices.
    #[serde(default)]
    pub nid: Option<Nid>,
    /// Messages in flight to one peer, instead of the tunable of this name.
    #[serde(default)]
    pub peer_credits: Option<u32>,
    /// Messages in flight to all peers, instead of the tunable of this name.
    #[serde(default)]
    pub credits: Option<u32>,
    /// Bulk connections per peer and direction, instead of the tunable of this name.
    #[serde(default)]
    pub conns_per_peer: Option<u16>,
    /// IP type of service, instead of the tunable of this name.
    #[serde(default)]
    pub tos: Option<i16>,
}

/// What a change did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// The single steps as phrases, such as `set retry_count to 3 (was 2)`.
    #[serde(default)]
    pub steps: Vec<String>,
    /// What was left out, and why.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The node's configuration before the change, as lnetctl's YAML.
    #[serde(default)]
    pub before: String,
    /// The node's configuration after the change.
    #[serde(default)]
    pub after: String,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ChangeError {
    /// LNet's number: a negative errno.
    pub errno: i32,
    /// What happened, why, and what to do instead.
    pub text: String,
}

/// A network as its name.
mod net_text {
    use lustrine_wire::nid::Net;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(net: &Net, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(net)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Net, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
    }
}

/// A network as its name, or null.
mod optional_net_text {
    use lustrine_wire::nid::Net;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(net: &Option<Net>, to: S) -> Result<S::Ok, S::Error> {
        match net {
            Some(net) => to.collect_str(net),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Net>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let parse = |text: String| {
            text.parse().map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
        };
        text.map(parse).transpose()
    }
}
