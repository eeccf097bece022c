//! Whether the values of a configuration are in range and agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::tunables::Tunable;
use lustrine_partition::tunables::TABLE;
use lustrine_wire::nid::{Net, Nid};

use super::driver::NetDriver;
use super::{InterfaceChoice, NetConfig, NodeConfig, PEER_NIDS_MAX, interface};

/// Values that LNet does not allow, or not together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A value outside the range of its tunable.
    #[error("{name} = {value}; allowed: {min} to {max} {unit}; for example {default}")]
    OutOfRange {
        /// Which net it belongs to; `None`: the tunables for all.
        net: Option<usize>,
        /// The tunable.
        name: &'static str,
        /// Its value.
        value: i64,
        /// Smallest legal value.
        min: i64,
        /// Largest legal value.
        max: i64,
        /// Unit of the value.
        unit: &'static str,
        /// The default.
        default: i64,
    },
    /// A network whose driver is not here.
    #[error(
        "net {net} needs a driver that is not implemented yet; allowed: tcp and tcp1 to \
         tcp65535; for example tcp1"
    )]
    NoDriver {
        /// The index of the net, from 0.
        index: usize,
        /// The network.
        net: Net,
    },
    /// An address no interface has, or a name no interface has.
    #[error(
        "net {net}: {place} is not an interface; allowed: the address or the name of one \
         interface; for example 10.0.0.1 or eth0"
    )]
    BadPlace {
        /// The index of the net, from 0.
        index: usize,
        /// The network.
        net: Net,
        /// The address or name.
        place: String,
    },
    /// The text for CPU partitions is no list of them.
    #[error(
        "net {net}: CPT {cpts:?} is not a list of CPU partitions; allowed: numbers and ranges; for \
         example [0,2-3]"
    )]
    BadPartitions {
        /// The index of the net, from 0.
        index: usize,
        /// The network.
        net: Net,
        /// The text.
        cpts: String,
    },
    /// The same interface twice on one network [CFG-1].
    #[error(
        "net {net} has {place} twice; allowed: each interface once per net; for example the \
         second one as {}", other_net(*net)
    )]
    SameInterface {
        /// Which net is the second one, counted from 0.
        index: usize,
        /// The network.
        net: Net,
        /// The address or name.
        place: String,
    },
    /// More interfaces than ping information can hold.
    #[error(
        "{nets} interfaces are too many; allowed: {max}, so that they fit, with lo, into \
         max_interfaces; for example a larger max_interfaces"
    )]
    TooManyNets {
        /// The number in the configuration.
        nets: usize,
        /// The limit.
        max: usize,
    },
    /// `peer_credits` above `credits` [CFG-4].
    #[error(
        "peer_credits = {peer_credits} is more than credits = {credits}; allowed: at most the \
         credits; for example peer_credits: {credits}"
    )]
    PeerCreditsAboveCredits {
        /// Which net has it; `None`: the tunables for all.
        net: Option<usize>,
        /// Messages in flight to one peer.
        peer_credits: i64,
        /// Messages in flight to all peers.
        credits: i64,
    },
    /// `retry_count` not below `transaction_timeout` [CFG-4].
    #[error(
        "retry_count = {retry_count} with transaction_timeout = {transaction_timeout} s; \
         allowed: a transaction timeout larger than the retry count; for example \
         transaction_timeout: {}", (retry_count + 1).max(150)
    )]
    RetriesExceedTimeout {
        /// Resends of a message.
        retry_count: i64,
        /// Seconds for all of them.
        transaction_timeout: i64,
    },
    /// `min_reconnectms` above `max_reconnectms`.
    #[error(
        "min_reconnectms = {min} is more than max_reconnectms = {max}; allowed: at most that; \
         for example min_reconnectms: {max}"
    )]
    ReconnectOrder {
        /// Shortest wait in milliseconds.
        min: i64,
        /// Longest wait in milliseconds.
        max: i64,
    },
    /// A peer without NIDs, or with one that no other node can have, or that it has twice, or that
    /// another peer has.
    #[error(
        "peer {primary}: {nid} {why}; allowed: NIDs of other nodes, each once; for example \
         10.0.0.2@tcp"
    )]
    BadPeer {
        /// The index of the peer, from 0.
        index: usize,
        /// Its primary NID.
        primary: Nid,
        /// The NID.
        nid: Nid,
        /// The problem.
        why: String,
    },
    /// Several NIDs of a peer that is not multi-rail.
    #[error(
        "peer {primary} has {nids} NIDs and is not multi-rail; allowed: one; for example \
         \"Multi-Rail: true\""
    )]
    SeveralNids {
        /// The index of the peer, from 0.
        index: usize,
        /// Its primary NID.
        primary: Nid,
        /// The number in the configuration.
        nids: usize,
    },
    /// More NIDs of peers than are kept by hand.
    #[error(
        "the peers have too many NIDs; allowed: {max} in all; for example leave peers out that \
             discovery finds"
    )]
    TooManyPeerNids {
        /// The limit.
        max: usize,
    },
    /// A control socket without a name.
    #[error("the control socket has no path; allowed: a path, or none; for example /run/lustrine")]
    EmptyControl,
}

/// What an [`Inconsistency`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The net with this index.
    Net(usize),
    /// These tunables; one of them at least was changed.
    Tunables(&'static [&'static str]),
    /// The peer with this index.
    Peer(usize),
    /// The control socket.
    Control,
}

impl Inconsistency {
    pub(super) fn subject(&self) -> Subject {
        match self {
            Inconsistency::OutOfRange { net: Some(index), .. }
            | Inconsistency::PeerCreditsAboveCredits { net: Some(index), .. }
            | Inconsistency::NoDriver { index, .. }
            | Inconsistency::BadPlace { index, .. }
            | Inconsistency::BadPartitions { index, .. }
            | Inconsistency::SameInterface { index, .. } => Subject::Net(*index),
            Inconsistency::TooManyNets { max, .. } => Subject::Net(*max),
            Inconsistency::OutOfRange { net: None, .. } => Subject::Tunables(&[]),
            Inconsistency::PeerCreditsAboveCredits { net: None, .. } => {
                Subject::Tunables(&["peer_credits", "credits"])
            }
            Inconsistency::RetriesExceedTimeout { .. } => {
                Subject::Tunables(&["retry_count", "transaction_timeout"])
            }
            Inconsistency::ReconnectOrder { .. } => {
                Subject::Tunables(&["min_reconnectms", "max_reconnectms"])
            }
            Inconsistency::BadPeer { index, .. } | Inconsistency::SeveralNids { index, .. } => {
                Subject::Peer(*index)
            }
            Inconsistency::TooManyPeerNids { .. } => Subject::Peer(usize::MAX),
            Inconsistency::EmptyControl => Subject::Control,
        }
    }
}

/// The row of a tunable that this crate names itself.
pub(super) fn row(name: &str) -> &'static Tunable {
    let found = TABLE.iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("{name} is a row of the table of tunables"))
}

pub(super) fn node(config: &NodeConfig) -> Result<(), Inconsistency> {
    tunables(config)?;
    // `lo` takes a place in the ping information, too.
    let max = usize::try_from(config.tunables.lnet.max_interfaces - 1).unwrap_or(0);
    if config.nets.len() > max {
        return Err(Inconsistency::TooManyNets { nets: config.nets.len(), max });
    }
    for index in 0..config.nets.len() {
        net(config, index)?;
    }
    peers(config)?;
    match &config.control {
        Some(path) if path.is_empty() => Err(Inconsistency::EmptyControl),
        _ => Ok(()),
    }
}

fn tunables(config: &NodeConfig) -> Result<(), Inconsistency> {
    let values = &config.tunables;
    for row in TABLE {
        let value = values.value(row.name).unwrap_or(row.default);
        in_range(None, row, value)?;
    }
    if values.lnet.peer_credits > values.lnet.credits {
        return Err(Inconsistency::PeerCreditsAboveCredits {
            net: None,
            peer_credits: values.lnet.peer_credits,
            credits: values.lnet.credits,
        });
    }
    if values.lnet.retry_count >= values.lnet.transaction_timeout {
        return Err(Inconsistency::RetriesExceedTimeout {
            retry_count: values.lnet.retry_count,
            transaction_timeout: values.lnet.transaction_timeout,
        });
    }
    if values.socklnd.min_reconnectms > values.socklnd.max_reconnectms {
        let (min, max) = (values.socklnd.min_reconnectms, values.socklnd.max_reconnectms);
        return Err(Inconsistency::ReconnectOrder { min, max });
    }
    Ok(())
}

fn net(config: &NodeConfig, index: usize) -> Result<(), Inconsistency> {
    let NetConfig { net, place, cpts, .. } = &config.nets[index];
    if NetDriver::of(net.kind).is_none() {
        return Err(Inconsistency::NoDriver { index, net: *net });
    }
    let good_place = match place {
        InterfaceChoice::Default => true,
        InterfaceChoice::Address(ip) => interface::is_host(*ip),
        InterfaceChoice::Interface(name) => interface::is_name(name),
    };
    if !good_place {
        return Err(Inconsistency::BadPlace { index, net: *net, place: describe(place) });
    }
    if let Some(cpts) = cpts.as_ref().filter(|cpts| !interface::is_cpt_list(cpts)) {
        return Err(Inconsistency::BadPartitions { index, net: *net, cpts: cpts.clone() });
    }
    let same = |other: &NetConfig| other.net == *net && other.place == *place;
    if config.nets[..index].iter().any(same) {
        return Err(Inconsistency::SameInterface { index, net: *net, place: describe(place) });
    }
    own_values(config, index)
}

fn peers(config: &NodeConfig) -> Result<(), Inconsistency> {
    let all: usize = config.peers.iter().map(|peer| peer.nids.len()).sum();
    if all > PEER_NIDS_MAX {
        return Err(Inconsistency::TooManyPeerNids { max: PEER_NIDS_MAX });
    }
    let mut seen: BTreeMap<Nid, usize> = BTreeMap::new();
    for (index, peer) in config.peers.iter().enumerate() {
        let primary = peer.nids.first().copied().unwrap_or(Nid::ANY);
        let bad = |nid: Nid, why: &str| {
            let why = why.to_owned();
            Inconsistency::BadPeer { index, primary, nid, why }
        };
        if peer.nids.is_empty() {
            return Err(bad(primary, "stands for an empty list of NIDs"));
        }
        if peer.nids.len() > 1 && !peer.multi_rail {
            let nids = peer.nids.len();
            return Err(Inconsistency::SeveralNids { index, primary, nids });
        }
        for nid in &peer.nids {
            if !is_a_peers(nid) {
                return Err(bad(*nid, "is not the NID of another node"));
            }
            if let Some(other) = seen.insert(*nid, index) {
                let other = config.peers[other].nids[0];
                let why = match other == primary {
                    true => "is given twice".to_owned(),
                    false => format!("is a NID of peer {other} too"),
                };
                return Err(bad(*nid, &why));
            }
        }
    }
    Ok(())
}

/// What is wrong with a peer that has a NID of the node itself, if there is one.
pub fn own_peer(config: &NodeConfig, own: &BTreeSet<Nid>) -> Option<String> {
    let mut nids =
        config.peers.iter().flat_map(|peer| peer.nids.iter().map(move |nid| (peer.nids[0], nid)));
    let (primary, nid) = nids.find(|(_, nid)| own.contains(nid))?;
    Some(format!(
        "peer {primary}: {nid} is this node itself, or would be; allowed: NIDs of other nodes; for \
         example take it from the peer first with `lnetctl peer del`"
    ))
}

fn own_values(config: &NodeConfig, index: usize) -> Result<(), Inconsistency> {
    let own = &config.nets[index];
    for (name, value) in [
        ("accept_port", own.port.map(i64::from)),
        ("credits", own.credits.map(i64::from)),
        ("peer_credits", own.peer_credits.map(i64::from)),
        ("conns_per_peer", own.conns_per_peer.map(i64::from)),
        ("sock_timeout", own.timeout.map(i64::from)),
        ("tos", own.tos.map(i64::from)),
    ] {
        if let Some(value) = value {
            in_range(Some(index), row(name), value)?;
        }
    }
    let peer_credits = own.peer_credits.map_or(config.tunables.lnet.peer_credits, i64::from);
    let credits = own.credits.map_or(config.tunables.lnet.credits, i64::from);
    if peer_credits > credits {
        let net = Some(index);
        return Err(Inconsistency::PeerCreditsAboveCredits { net, peer_credits, credits });
    }
    Ok(())
}

fn in_range(net: Option<usize>, row: &'static Tunable, value: i64) -> Result<(), Inconsistency> {
    let Tunable { name, unit, default, min, max, .. } = *row;
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Inconsistency::OutOfRange { net, name, value, min, max, unit, default })
}

fn describe(place: &InterfaceChoice) -> String {
    match place {
        InterfaceChoice::Default => "the default interface".to_owned(),
        InterfaceChoice::Address(ip) => ip.to_string(),
        InterfaceChoice::Interface(name) => name.clone(),
    }
}

fn other_net(net: Net) -> Net {
    Net::new(net.kind, net.number.wrapping_add(1))
}

/// Whether a NID can be that of another node.
pub(super) fn is_a_peers(nid: &Nid) -> bool {
    !nid.is_any() && !nid.is_lo()
}

#[cfg(test)]
mod tests;
