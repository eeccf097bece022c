//! A file that is imported by a running node: the configuration that it asks for.
//!
//! Pure: [`plan_import`] makes the new configuration out of the one in force, and [`steps`]
//! compares the two. So a change is made, shown and exported from the same values, and one with a
//! part that is not possible is refused as a whole.
//!
//! [`steps`]: crate::steps()

use std::collections::{BTreeMap, BTreeSet};

use lustrine_control::ImportMode;
use lustrine_document::Location;
use lustrine_lnet::tunables::Change;
use lustrine_partition::tunables::{TABLE, Tunables};
use lustrine_selftest::ServicePolicy;
use lustrine_wire::nid::Nid;

use super::draft::Draft;
use super::lnetctl;
use super::nets::{PEER_BUFFER_CREDITS, PEER_TIMEOUT};
use super::steps::{ConfigPart, INSTEAD, RefusedChange, same};
use super::{NetConfig, NodeConfig, PeerConfig, Strictness};

/// An interface of a file on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedNi {
    /// Its NID on this machine.
    pub nid: Nid,
    /// Its configuration with every value given.
    pub explicit: NetConfig,
}

/// What a file asks of a running node.
pub struct ImportPlan {
    /// The new configuration.
    pub config: NodeConfig,
    /// NIDs of discovered peers to be removed.
    pub forget: Vec<Nid>,
    /// What is left out, each with its place in the file.
    pub warnings: Vec<String>,
    /// Why the file cannot be imported, each with its place: all that is wrong, but for what
    /// [`steps`](crate::steps()) refuses.
    pub problems: Vec<String>,
    source_name: String,
    draft: Draft,
    /// Which net of the file each net of the configuration is from.
    from: Vec<Option<usize>>,
}

impl ImportPlan {
    /// The message of a refusal, with its place in the file.
    pub fn message(&self, refused: &RefusedChange) -> String {
        if let ConfigPart::Tunable(name) = refused.part
            && let Some((tuning, at)) = self.draft.tuned_at(name)
        {
            // The same for all tunables that it sets: they are not in the file.
            return format!(
                "{}:{at}: tuning of a running node cannot change to {tuning}: {INSTEAD}",
                self.source_name
            );
        }
        let at = match refused.part {
            ConfigPart::Tunable(name) => self.draft.tunable_at(name),
            ConfigPart::Lustrine(key) => self.draft.own_at(key),
            ConfigPart::Net(index) => {
                let from = self.from.get(index).copied().flatten();
                from.and_then(|from| self.draft.nets_at.get(from))
            }
        };
        let at = at.unwrap_or(&Location::START);
        format!("{}:{at}: {}", self.source_name, refused.text)
    }

    /// Whether the first interface is another one than in the file.
    pub fn is_reordered(&self) -> bool {
        self.from.first().is_some_and(|from| *from != Some(0))
    }

    /// Leaves out what is refused: it keeps its value.
    pub fn leave_out(&mut self, base: &NodeConfig, refused: &RefusedChange) {
        let config = &mut self.config;
        match refused.part {
            ConfigPart::Tunable(name) => {
                let value = base.tunables.value(name);
                let set = value.map(|value| config.tunables.set(name, value));
                debug_assert!(matches!(set, Some(Ok(()))), "{name} is a tunable");
            }
            ConfigPart::Lustrine("identity") => config.identity = base.identity,
            ConfigPart::Lustrine("accept") => config.accept = base.accept,
            ConfigPart::Lustrine("cpu_pattern") => config.cpu_pattern = base.cpu_pattern.clone(),
            ConfigPart::Lustrine("metrics") => config.metrics = base.metrics.clone(),
            ConfigPart::Lustrine(_) => config.control = base.control.clone(),
            ConfigPart::Net(index) => {
                let net = &mut config.nets[index];
                if let Some(old) = base.nets.iter().find(|old| same(old, net)) {
                    (net.port, net.credits) = (old.port, old.credits);
                    net.peer_credits = old.peer_credits;
                }
            }
        }
    }
}

/// The running node that a file is imported by.
pub struct ImportContext<'a> {
    /// The configuration in force.
    pub base: &'a NodeConfig,
    /// The NIDs of its interfaces.
    pub nids: &'a [Nid],
    /// The number of CPU partitions, each of which serves every interface.
    pub partitions: usize,
    /// Finds an interface on this machine.
    pub place: &'a dyn Fn(&NetConfig) -> Result<PlacedNi, String>,
    /// All NIDs of a discovered peer, by its primary one.
    pub learned: &'a dyn Fn(&Nid) -> Vec<Nid>,
}

impl ImportContext<'_> {
    /// The list of all CPU partitions, as in exports.
    fn all_cpts(&self) -> String {
        let all: Vec<String> = (0..self.partitions).map(|cpt| cpt.to_string()).collect();
        format!("[{}]", all.join(","))
    }
}

/// Reads a file that a running node imports.
///
/// # Errors
/// All errors of the file's text, with their places. What does not fit the machine or the node is
/// in [`ImportPlan::problems`].
pub fn plan_import(
    context: &ImportContext<'_>,
    (text, source_name): (&str, &str),
    (mode, strictness): (ImportMode, Strictness),
) -> Result<ImportPlan, String> {
    let base = context.base;
    let defaults;
    let over = match mode {
        ImportMode::Add | ImportMode::Del => base,
        ImportMode::Exact => {
            defaults = NodeConfig {
                tunables: default_tunables(&base.tunables),
                selftest: ServicePolicy::default(),
                ..base.clone()
            };
            &defaults
        }
    };
    let read = lnetctl::read_over(over, (text, source_name), strictness, &context.all_cpts());
    let (draft, warnings) = read.map_err(|problems| problems.to_string())?;
    let config = match mode {
        ImportMode::Add => NodeConfig {
            nets: base.nets.clone(),
            peers: base.peers.clone(),
            ..draft.config.clone()
        },
        ImportMode::Del => base.clone(),
        ImportMode::Exact => {
            NodeConfig { nets: Vec::new(), peers: Vec::new(), ..draft.config.clone() }
        }
    };
    let mut plan = ImportPlan {
        from: vec![None; config.nets.len()],
        config,
        forget: Vec::new(),
        warnings: warnings.iter().map(ToString::to_string).collect(),
        problems: Vec::new(),
        source_name: source_name.to_owned(),
        draft,
    };
    match mode {
        ImportMode::Add => {
            let own = plan.add_nets(context);
            let peers = plan.take_peers(&own, strictness);
            add_peers(&mut plan.config, &peers);
        }
        ImportMode::Exact => {
            let own = plan.take_nets(context);
            plan.config.peers = plan.take_peers(&own, strictness);
            plan.name_locked_peers(context);
        }
        ImportMode::Del => {
            let mut left_out = Vec::new();
            left_out.extend(plan.del_nets(context));
            left_out.extend(plan.del_peers(context));
            match strictness {
                Strictness::Strict => plan.problems.extend(left_out),
                Strictness::Lenient => plan.warnings.extend(left_out),
            }
        }
    }
    if let Err(what) = plan.config.check() {
        let draft = &plan.draft;
        let at = draft.peers_at.first().or(draft.nets_at.first());
        let text = format!("{source_name}:{}: {what}", at.unwrap_or(&Location::START));
        plan.problems.push(text);
    }
    Ok(plan)
}

impl ImportPlan {
    /// Returns the NIDs that the node has then.
    fn add_nets(&mut self, context: &ImportContext<'_>) -> Vec<Nid> {
        let mut nids = context.nids.to_vec();
        for (index, net) in self.draft.config.nets.iter().enumerate() {
            let placed = match self.placed_at(context, index) {
                Ok(placed) => placed,
                Err(why) => {
                    self.problems.push(why);
                    continue;
                }
            };
            match nids.iter().position(|nid| *nid == placed.nid) {
                Some(known) => {
                    let net = changed_values(net, context.base, &context.all_cpts());
                    merge_net(&mut self.config.nets[known], &net, &placed.explicit);
                    self.from[known] = Some(index);
                }
                None => {
                    self.config.nets.push(placed.explicit);
                    nids.push(placed.nid);
                    self.from.push(Some(index));
                }
            }
        }
        nids
    }

    /// Takes the interfaces of the file and no others: existing ones first, in their order. Returns
    /// the NIDs that the node has then.
    fn take_nets(&mut self, context: &ImportContext<'_>) -> Vec<Nid> {
        let mut kept: Vec<Option<(NetConfig, usize)>> = vec![None; context.nids.len()];
        let (mut fresh, mut nids) = (Vec::new(), Vec::new());
        for index in 0..self.draft.config.nets.len() {
            let placed = match self.placed_at(context, index) {
                Ok(placed) => placed,
                Err(why) => {
                    self.problems.push(why);
                    continue;
                }
            };
            match context.nids.iter().position(|nid| *nid == placed.nid) {
                Some(known) if kept[known].is_none() => {
                    let (old, file) = (&context.base.nets[known], &self.draft.config.nets[index]);
                    kept[known] = Some((kept_net(old, file, placed.explicit), index));
                }
                None if !nids.contains(&placed.nid) => {
                    nids.push(placed.nid);
                    fresh.push((placed.explicit, index));
                }
                _ => {
                    let at = self.draft.nets_at[index].clone();
                    let nid = placed.nid;
                    self.problems.push(format!("{}:{at}: {nid} is given twice", self.source_name));
                }
            }
        }
        let stay = kept.iter().zip(context.nids).filter(|(kept, _)| kept.is_some());
        nids.extend(stay.map(|(_, nid)| *nid));
        for (net, index) in kept.into_iter().flatten().chain(fresh) {
            self.config.nets.push(net);
            self.from.push(Some(index));
        }
        nids
    }

    /// The peers of the file. Leniently those that are this node itself are left out: exports of a
    /// node that has pinged itself have one.
    fn take_peers(&mut self, own: &[Nid], strictness: Strictness) -> Vec<PeerConfig> {
        let mut peers = self.draft.config.peers.clone();
        if strictness == Strictness::Strict {
            return peers;
        }
        let own: BTreeSet<Nid> = own.iter().copied().collect();
        let mut places = self.draft.peers_at.iter();
        peers.retain(|peer| {
            let at = places.next().unwrap_or(&Location::START);
            let same = peer.nids.iter().find(|nid| own.contains(nid));
            if let Some(nid) = same {
                let primary = peer.nids[0];
                self.warnings.push(format!(
                    "{}:{at}: ignored: peer {primary}: {nid} is this node itself",
                    self.source_name
                ));
            }
            same.is_none()
        });
        peers
    }

    /// Finds an interface of the file on this machine.
    fn placed_at(&self, context: &ImportContext<'_>, index: usize) -> Result<PlacedNi, String> {
        let net = &self.draft.config.nets[index];
        let placed = (context.place)(net);
        // An existing interface keeps its NID, also if its device is gone or has another address.
        match (context.base.nets.iter().position(|old| same(old, net)), placed) {
            (Some(known), Ok(placed)) => Ok(PlacedNi { nid: context.nids[known], ..placed }),
            (Some(known), Err(_)) => {
                let mut explicit = context.base.nets[known].clone();
                // By the speed of the device, which is not known now: the count in force stays.
                let conns_per_peer = net.conns_per_peer.filter(|count| *count > 0);
                let net = NetConfig { conns_per_peer, ..net.clone() };
                merge_net(&mut explicit, &net, &net);
                Ok(PlacedNi { nid: context.nids[known], explicit })
            }
            (None, Ok(placed)) => Ok(placed),
            (None, Err(why)) => {
                let at = self.draft.nets_at[index].clone();
                Err(format!("{}:{at}: {why}", self.source_name))
            }
        }
    }

    /// Says which locked peers go, because the file does not have them.
    fn name_locked_peers(&mut self, context: &ImportContext<'_>) {
        let named: BTreeSet<Nid> = self.config.peers.iter().map(|peer| peer.nids[0]).collect();
        for peer in context.base.peers.iter().filter(|peer| peer.locked) {
            let primary = peer.nids[0];
            if !named.contains(&primary) {
                self.warnings.push(format!(
                    "{}: the file lacks the peer {primary}, which is removed although its primary \
                     NID is locked",
                    self.source_name
                ));
            }
        }
    }

    /// What of the file is not there, each with its place.
    fn del_nets(&mut self, context: &ImportContext<'_>) -> Vec<String> {
        let mut nids = context.nids.to_vec();
        let mut left_out = Vec::new();
        for (index, net) in self.draft.config.nets.iter().enumerate() {
            let placed = (context.place)(net);
            let by_place = self.config.nets.iter().position(|old| same(old, net));
            let by_nid = |placed: &PlacedNi| nids.iter().position(|nid| *nid == placed.nid);
            let known = by_place.or_else(|| placed.as_ref().ok().and_then(by_nid));
            let Some(known) = known else {
                let why = match placed {
                    Ok(placed) => format!("this node has no {}", placed.nid),
                    Err(why) => why,
                };
                let at = self.draft.nets_at[index].clone();
                left_out.push(format!("{}:{at}: {why}", self.source_name));
                continue;
            };
            self.config.nets.remove(known);
            nids.remove(known);
            self.from.remove(known);
        }
        left_out
    }

    /// What of the file is not there, each with its place.
    fn del_peers(&mut self, context: &ImportContext<'_>) -> Vec<String> {
        let mut left_out = Vec::new();
        let mut described: BTreeMap<Nid, PeerConfig> =
            self.config.peers.drain(..).map(|peer| (peer.nids[0], peer)).collect();
        for (index, peer) in self.draft.config.peers.iter().enumerate() {
            let primary = peer.nids[0];
            let learned = (context.learned)(&primary);
            match nids_to_remove(&primary, described.get(&primary), learned, Force::No) {
                Ok(nids) => {
                    described.remove(&primary);
                    self.forget.extend(nids);
                }
                Err(why) => {
                    let at = self.draft.peers_at[index].clone();
                    left_out.push(format!("{}:{at}: {why}", self.source_name));
                }
            }
        }
        let order = context.base.peers.iter();
        self.config.peers = order.filter_map(|peer| described.remove(&peer.nids[0])).collect();
        left_out
    }
}

/// The tunables that a running node can change at their defaults, the others unchanged.
fn default_tunables(tunables: &Tunables) -> Tunables {
    let mut default_tunables = tunables.clone();
    for row in TABLE.iter().filter(|row| row.change == Change::Live) {
        let set = default_tunables.set(row.name, row.default);
        debug_assert!(set.is_ok(), "{} has a default in its range", row.name);
    }
    default_tunables
}

/// Why a peer is not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// There is no such peer.
    #[error("no peer has the primary NID {0}; `lnetctl peer list` shows them")]
    Unknown(Nid),
    /// Its primary NID is locked.
    #[error("the primary NID of {0} is locked; `lnetctl peer del --force` removes it anyway")]
    Locked(Nid),
}

/// Whether a peer is removed although its primary NID is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It is removed.
    Yes,
    /// It is an error.
    No,
}

/// All NIDs that are removed with a peer, configured and discovered ones.
///
/// # Errors
/// When the peer is unknown or locked.
pub fn nids_to_remove(
    primary: &Nid,
    described: Option<&PeerConfig>,
    learned: Vec<Nid>,
    force: Force,
) -> Result<Vec<Nid>, RemoveError> {
    let mut nids = learned;
    nids.extend(described.iter().flat_map(|peer| &peer.nids));
    nids.sort_unstable();
    nids.dedup();
    match described {
        _ if nids.is_empty() => Err(RemoveError::Unknown(*primary)),
        Some(peer) if peer.locked && force == Force::No => Err(RemoveError::Locked(*primary)),
        _ => Ok(nids),
    }
}

/// The values of a file without those that have no effect and are what they would be anyway, as in
/// most exports.
fn changed_values(file: &NetConfig, base: &NodeConfig, all_cpts: &str) -> NetConfig {
    let tunables = &base.tunables;
    NetConfig {
        timeout: file.timeout.filter(|own| i64::from(*own) != tunables.socklnd.sock_timeout),
        tos: file.tos.filter(|own| i64::from(*own) != tunables.socklnd.tos),
        peer_timeout: file.peer_timeout.filter(|own| i64::from(*own) != PEER_TIMEOUT.default),
        peer_buffer_credits: file
            .peer_buffer_credits
            .filter(|own| i64::from(*own) != PEER_BUFFER_CREDITS.default),
        cpts: file.cpts.clone().filter(|own| own != all_cpts),
        ..file.clone()
    }
}

/// Applies the values of a file to an existing interface.
fn merge_net(net: &mut NetConfig, file: &NetConfig, explicit: &NetConfig) {
    net.port = if file.port.is_some() { explicit.port } else { net.port };
    net.credits = file.credits.or(net.credits);
    net.peer_credits = file.peer_credits.or(net.peer_credits);
    if file.conns_per_peer.is_some() {
        net.conns_per_peer = explicit.conns_per_peer;
    }
    net.timeout = file.timeout.or(net.timeout);
    net.tos = file.tos.or(net.tos);
    net.peer_timeout = file.peer_timeout.or(net.peer_timeout);
    net.peer_buffer_credits = file.peer_buffer_credits.or(net.peer_buffer_credits);
    net.cpts = file.cpts.clone().or(net.cpts.take());
}

/// An existing interface of an exact import: what cannot change while it is there keeps its value,
/// unless the file has another one, which is refused.
fn kept_net(old: &NetConfig, file: &NetConfig, explicit: NetConfig) -> NetConfig {
    NetConfig {
        place: old.place.clone(),
        port: if file.port.is_some() { explicit.port } else { old.port },
        credits: file.credits.or(old.credits),
        peer_credits: file.peer_credits.or(old.peer_credits),
        ..explicit
    }
}

/// Adds peers, or NIDs to existing peers.
pub fn add_peers(config: &mut NodeConfig, peers: &[PeerConfig]) {
    let places = config.peers.iter().enumerate();
    let mut places: BTreeMap<Nid, usize> = places.map(|(at, peer)| (peer.nids[0], at)).collect();
    for peer in peers {
        let Some(place) = places.get(&peer.nids[0]) else {
            places.insert(peer.nids[0], config.peers.len());
            config.peers.push(peer.clone());
            continue;
        };
        let known = &mut config.peers[*place];
        let there: BTreeSet<Nid> = known.nids.iter().copied().collect();
        known.nids.extend(peer.nids.iter().filter(|nid| !there.contains(nid)));
        known.multi_rail = peer.multi_rail;
        known.locked |= peer.locked;
    }
}

#[cfg(test)]
mod tests;
