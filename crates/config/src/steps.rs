//! From one configuration of a running node to another: the steps, and what cannot be changed.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::tunables::Change;
use lustrine_partition::tunables::TABLE;
use lustrine_wire::nid::Nid;

use super::{NetConfig, NodeConfig, PeerConfig};

/// One step of a change. Indices are those of the configuration's networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Apply the new tunables. These have changed, from the first value to the second.
    Tunables(Vec<(&'static str, i64, i64)>),
    /// Add the interface with this index of the new configuration.
    AddNet(usize),
    /// Remove the interface with this index of the old configuration.
    RemoveNet(usize),
    /// Set `conns_per_peer` of the interface with this index of the new configuration.
    ConnsPerPeer(usize, u16),
    /// Keep these values of the interface with this index of the new configuration; they have no
    /// other effect.
    KeepOnly(usize, Vec<&'static str>),
    /// Apply the new policy of the selftest service.
    SelftestPolicy,
    /// Configure this peer.
    ConfigurePeer(PeerConfig),
    /// Remove these NIDs of peers.
    RemoveNids(Vec<Nid>),
}

impl Step {
    /// The NIDs of peers that it removes.
    pub fn removed(&self) -> impl Iterator<Item = Nid> {
        let nids: &[Nid] = match self {
            Step::RemoveNids(nids) => nids,
            _ => &[],
        };
        nids.iter().copied()
    }
}

/// A part of a change that is not possible while the node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedChange {
    /// The part.
    pub part: ConfigPart,
    /// What it is, why it is not possible, and what to do instead.
    pub text: String,
}

impl RefusedChange {
    /// Whether it is an address of the node itself.
    pub fn is_own_address(&self) -> bool {
        matches!(self.part, ConfigPart::Lustrine("control" | "metrics"))
    }
}

/// A part of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigPart {
    /// This tunable.
    Tunable(&'static str),
    /// By index in the new configuration.
    Net(usize),
    /// A key of the section `lustrine`.
    Lustrine(&'static str),
}

/// The steps from one configuration to the other. Configured peers come first: only they can fail,
/// and they are undone then.
///
/// # Errors
/// Everything that is not possible while the node runs.
pub fn steps(before: &NodeConfig, after: &NodeConfig) -> Result<Vec<Step>, Vec<RefusedChange>> {
    let mut refused = Vec::new();
    let mut steps = peers(before, after);
    let mut changed = Vec::new();
    for row in TABLE {
        let value = |config: &NodeConfig| config.tunables.value(row.name).unwrap_or(row.default);
        let (old, new) = (value(before), value(after));
        match row.change {
            _ if old == new => {}
            Change::Live => changed.push((row.name, old, new)),
            Change::Start => refused.push(RefusedChange {
                part: ConfigPart::Tunable(row.name),
                text: format!(
                    "{} is {old} and a running node cannot change it to {new}: {}",
                    row.name, INSTEAD
                ),
            }),
        }
    }
    if !changed.is_empty() {
        steps.push(Step::Tunables(changed));
    }
    for (key, old, new) in [
        ("identity", before.identity.to_string(), after.identity.to_string()),
        ("accept", before.accept.to_string(), after.accept.to_string()),
        ("cpu_pattern", before.cpu_pattern.clone(), after.cpu_pattern.clone()),
        ("control", control(before), control(after)),
        ("metrics", metrics(before), metrics(after)),
    ] {
        if old != new {
            let text = format!(
                "{key} is {old:?} and a running node cannot change it to {new:?}: {INSTEAD}"
            );
            refused.push(RefusedChange { part: ConfigPart::Lustrine(key), text });
        }
    }
    if before.selftest != after.selftest {
        steps.push(Step::SelftestPolicy);
    }
    nets(before, after, &mut steps, &mut refused);
    if refused.is_empty() { Ok(steps) } else { Err(refused) }
}

/// What to do about values that take effect only at the start.
pub(crate) const INSTEAD: &str = "write it into its configuration file and start it again with \
                                  `lustrine node --config FILE`";

fn control(config: &NodeConfig) -> String {
    config.control.clone().unwrap_or_default()
}

fn metrics(config: &NodeConfig) -> String {
    config.metrics.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Whether both configure the same interface.
pub(crate) fn same(one: &NetConfig, other: &NetConfig) -> bool {
    one.net == other.net && one.place == other.place
}

fn nets(
    before: &NodeConfig,
    after: &NodeConfig,
    steps: &mut Vec<Step>,
    refused: &mut Vec<RefusedChange>,
) {
    for (index, old) in before.nets.iter().enumerate() {
        if !after.nets.iter().any(|new| same(old, new)) {
            steps.push(Step::RemoveNet(index));
        }
    }
    for (index, new) in after.nets.iter().enumerate() {
        let Some(old) = before.nets.iter().find(|old| same(old, new)) else {
            steps.push(Step::AddNet(index));
            continue;
        };
        for (key, was, is) in [
            ("port", old.port.map(i64::from), new.port.map(i64::from)),
            ("credits", old.credits.map(i64::from), new.credits.map(i64::from)),
            ("peer_credits", old.peer_credits.map(i64::from), new.peer_credits.map(i64::from)),
        ] {
            let shown =
                |value: Option<i64>| value.map_or("its default".to_owned(), |v| v.to_string());
            if was != is {
                let text = format!(
                    "net {}: {key} is {} and cannot become {} while the interface is there: \
                     remove it and add it again with `lnetctl net del` and `net add`",
                    new.net,
                    shown(was),
                    shown(is)
                );
                refused.push(RefusedChange { part: ConfigPart::Net(index), text });
            }
        }
        if let Some(count) = new.conns_per_peer
            && old.conns_per_peer != new.conns_per_peer
        {
            steps.push(Step::ConnsPerPeer(index, count));
        }
        let noted = [
            ("timeout", old.timeout != new.timeout),
            ("tos", old.tos != new.tos),
            ("peer_timeout", old.peer_timeout != new.peer_timeout),
            ("peer_buffer_credits", old.peer_buffer_credits != new.peer_buffer_credits),
            ("CPT", old.cpts != new.cpts),
        ];
        let noted: Vec<&str> = noted.into_iter().filter(|key| key.1).map(|key| key.0).collect();
        if !noted.is_empty() {
            steps.push(Step::KeepOnly(index, noted));
        }
    }
}

fn peers(before: &NodeConfig, after: &NodeConfig) -> Vec<Step> {
    let mut steps = Vec::new();
    // A change rarely touches peers, and there may be thousands.
    if before.peers == after.peers {
        return steps;
    }
    let old: BTreeMap<Nid, &PeerConfig> =
        before.peers.iter().map(|peer| (peer.nids[0], peer)).collect();
    for new in &after.peers {
        if old.get(&new.nids[0]) != Some(&new) {
            steps.push(Step::ConfigurePeer(new.clone()));
        }
    }
    let stays: BTreeSet<Nid> = after.peers.iter().flat_map(|peer| peer.nids.clone()).collect();
    let mut gone: Vec<Nid> = before.peers.iter().flat_map(|peer| peer.nids.clone()).collect();
    gone.retain(|nid| !stays.contains(nid));
    if !gone.is_empty() {
        steps.push(Step::RemoveNids(gone));
    }
    steps
}
