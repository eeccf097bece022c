//! From the configuration of a node that runs to another one: what to do, and what cannot be done.
//!
//! Pure: what is asked makes a configuration out of the one in force ([`wanted`] for a file),
//! and [`steps`] compares the two. So whatever can be changed is shown, exported, imported and
//! tried alike, and a change that has a part which cannot be is refused whole.

use std::collections::{HashMap, HashSet};

use lustrine_lnet::tunables::{Change, TABLE, Tunables};
use lustrine_wire::nid::Nid;

use super::lnetctl::{self, Draft};
use super::nets::{PEER_BUFFER_CREDITS, PEER_TIMEOUT};
use super::{ConfigError, NetConfig, NodeConfig, PeerConfig, Position, Problem, Strictness};

/// One thing to do. Indices are those of the configuration's nets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Put the new tunables in force; these have changed, from and to.
    Tunables(Vec<(&'static str, i64, i64)>),
    /// Add the interface with this index of the new configuration.
    AddNet(usize),
    /// Remove the one with this index of the old configuration.
    RemoveNet(usize),
    /// So many connections for the one with this index of the new configuration.
    ConnsPerPeer(usize, u16),
    /// These values of the one with this index of the new configuration are kept there; nothing
    /// else becomes of them.
    Noted(usize, Vec<&'static str>),
    /// The selftest service obeys the consoles of the new configuration.
    SelftestPolicy,
    /// Take in the description of this peer.
    ConfigurePeer(PeerConfig),
    /// Forget these NIDs.
    RemoveNids(Vec<Nid>),
}

impl Step {
    /// NIDs of others that go with it.
    pub(crate) fn removed(&self) -> impl Iterator<Item = Nid> {
        let nids: &[Nid] = match self {
            Step::RemoveNids(nids) => nids,
            _ => &[],
        };
        nids.iter().copied()
    }
}

/// Something that a node which runs cannot change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) about: About,
    /// What, why not, and what to do instead.
    pub(crate) text: String,
}

impl Refused {
    /// Whether it is about where the node itself is asked.
    pub(crate) fn is_a_place(&self) -> bool {
        matches!(self.about, About::Own("control" | "metrics"))
    }
}

/// What a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Tunable(&'static str),
    /// By index in the new configuration.
    Net(usize),
    /// A key of our own section.
    Own(&'static str),
}

/// What to do to come from one configuration to the other, described peers first: only they can
/// fail, and are undone then.
///
/// # Errors
/// All that cannot be done.
pub(crate) fn steps(before: &NodeConfig, after: &NodeConfig) -> Result<Vec<Step>, Vec<Refused>> {
    let mut refused = Vec::new();
    let mut steps = peers(before, after);
    let mut changed = Vec::new();
    for row in TABLE {
        let value = |config: &NodeConfig| config.tunables.value(row.name).unwrap_or(row.default);
        let (old, new) = (value(before), value(after));
        match row.change {
            _ if old == new => {}
            Change::Live => changed.push((row.name, old, new)),
            Change::Start => refused.push(Refused {
                about: About::Tunable(row.name),
                text: format!(
                    "{} is {old} and a node that runs cannot change it to {new}: {}",
                    row.name, INSTEAD
                ),
            }),
        }
    }
    if !changed.is_empty() {
        steps.push(Step::Tunables(changed));
    }
    if before.selftest != after.selftest {
        steps.push(Step::SelftestPolicy);
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
                "{key} is {old:?} and a node that runs cannot change it to {new:?}: {INSTEAD}"
            );
            refused.push(Refused { about: About::Own(key), text });
        }
    }
    nets(before, after, &mut steps, &mut refused);
    if refused.is_empty() { Ok(steps) } else { Err(refused) }
}

/// What to do about what only counts at the start.
const INSTEAD: &str = "write it into its configuration file and start it again with `lustrine \
                       node --config FILE`";

fn control(config: &NodeConfig) -> String {
    config.control.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}

fn metrics(config: &NodeConfig) -> String {
    config.metrics.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Whether two descriptions are of the same interface.
fn same(one: &NetConfig, other: &NetConfig) -> bool {
    one.net == other.net && one.place == other.place
}

fn nets(
    before: &NodeConfig,
    after: &NodeConfig,
    steps: &mut Vec<Step>,
    refused: &mut Vec<Refused>,
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
                refused.push(Refused { about: About::Net(index), text });
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
            steps.push(Step::Noted(index, noted));
        }
    }
}

fn peers(before: &NodeConfig, after: &NodeConfig) -> Vec<Step> {
    let mut steps = Vec::new();
    // A change rarely touches peers, and there may be thousands.
    if before.peers == after.peers {
        return steps;
    }
    let old: HashMap<Nid, &PeerConfig> =
        before.peers.iter().map(|peer| (peer.nids[0], peer)).collect();
    for new in &after.peers {
        if old.get(&new.nids[0]) != Some(&new) {
            steps.push(Step::ConfigurePeer(new.clone()));
        }
    }
    let stays: HashSet<Nid> = after.peers.iter().flat_map(|peer| peer.nids.clone()).collect();
    let mut gone: Vec<Nid> = before.peers.iter().flat_map(|peer| peer.nids.clone()).collect();
    gone.retain(|nid| !stays.contains(nid));
    if !gone.is_empty() {
        steps.push(Step::RemoveNids(gone));
    }
    steps
}

/// An interface of a file, with what this machine makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) nid: Nid,
    /// Every value that it would have is there.
    pub(crate) explicit: NetConfig,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportMode {
    /// What it has shall be there.
    Add,
    /// The interfaces and peers that it has shall be gone.
    Del,
    /// What it has shall be there and nothing else: other interfaces and described peers go, and
    /// settings that it does not have get their defaults, but for those that count at the start.
    Exact,
}

/// What a file asks of a node that runs.
pub(crate) struct Wanted {
    /// The configuration to be.
    pub(crate) config: NodeConfig,
    /// NIDs of peers to be forgotten that nobody described.
    pub(crate) forget: Vec<Nid>,
    /// What was left out, each with its place.
    pub(crate) warnings: Vec<String>,
    source_name: String,
    draft: Draft,
    /// Which net of the file each net of the configuration is from.
    from: Vec<Option<usize>>,
}

impl Wanted {
    /// A refusal with its place in the file.
    pub(crate) fn placed(&self, refused: &Refused) -> String {
        let at = match refused.about {
            About::Tunable(name) => self.draft.tunable_at(name),
            About::Own(key) => self.draft.own_at(key),
            About::Net(index) => {
                let from = self.from.get(index).copied().flatten();
                from.and_then(|from| self.draft.nets_at.get(from).copied())
            }
        };
        let at = at.unwrap_or(Position::START);
        format!("{}:{at}: {}", self.source_name, refused.text)
    }

    /// Whether the first interface is not that of the file.
    pub(crate) fn is_reordered(&self) -> bool {
        self.from.first().is_some_and(|from| *from != Some(0))
    }

    /// As it is, but for something that is left out.
    pub(crate) fn leave(&mut self, base: &NodeConfig, refused: &Refused) {
        let config = &mut self.config;
        match refused.about {
            About::Tunable(name) => {
                let value = base.tunables.value(name);
                let set = value.map(|value| config.tunables.set(name, value));
                debug_assert!(matches!(set, Some(Ok(()))), "{name} is a tunable");
            }
            About::Own("identity") => config.identity = base.identity,
            About::Own("accept") => config.accept = base.accept,
            About::Own("cpu_pattern") => config.cpu_pattern = base.cpu_pattern.clone(),
            About::Own("metrics") => config.metrics = base.metrics.clone(),
            About::Own(_) => config.control = base.control.clone(),
            About::Net(index) => {
                let net = &mut config.nets[index];
                if let Some(old) = base.nets.iter().find(|old| same(old, net)) {
                    (net.port, net.credits) = (old.port, old.credits);
                    net.peer_credits = old.peer_credits;
                }
            }
        }
    }
}

/// What a file for a node that runs is read against.
pub(crate) struct Outside<'a> {
    /// The configuration in force.
    pub(crate) base: &'a NodeConfig,
    /// The NIDs of its nets.
    pub(crate) nids: &'a [Nid],
    /// How many CPU partitions there are, each of which serves every interface.
    pub(crate) partitions: usize,
    /// What this machine makes of an interface.
    pub(crate) place: &'a dyn Fn(&NetConfig) -> Result<Placed, String>,
    /// All NIDs that the node has learned of a peer, by its primary one.
    pub(crate) learned: &'a dyn Fn(&Nid) -> Vec<Nid>,
}

impl Outside<'_> {
    /// The list of all CPU partitions, as exports have it.
    fn all_cpts(&self) -> String {
        let all: Vec<String> = (0..self.partitions).map(|cpt| cpt.to_string()).collect();
        format!("[{}]", all.join(","))
    }
}

/// Reads a file for a node that runs.
///
/// # Errors
/// The first thing that is wrong with the file, with its place.
pub(crate) fn wanted(
    outside: &Outside<'_>,
    (text, source_name): (&str, &str),
    (manner, strictness): (ImportMode, Strictness),
) -> Result<Wanted, String> {
    let base = outside.base;
    let anew;
    let over = match manner {
        ImportMode::Add | ImportMode::Del => base,
        ImportMode::Exact => {
            anew = NodeConfig { tunables: untuned(&base.tunables), ..base.clone() };
            &anew
        }
    };
    let read = lnetctl::read_over(over, text, source_name, strictness);
    let (draft, mut warnings) = read.map_err(|error: ConfigError| error.to_string())?;
    let all_cpts = outside.all_cpts();
    let all = draft.config.nets.iter().zip(&draft.nets_at);
    let all: HashSet<Position> =
        all.filter(|(net, _)| net.cpts.as_ref() == Some(&all_cpts)).map(|(_, at)| *at).collect();
    warnings.retain(|warning| {
        let of_cpts = matches!(warning.problem, Problem::NoEffect { what: "CPT", .. });
        !(of_cpts && all.contains(&warning.at))
    });
    let config = match manner {
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
    let mut wanted = Wanted {
        from: vec![None; config.nets.len()],
        config,
        forget: Vec::new(),
        warnings: warnings.iter().map(ToString::to_string).collect(),
        source_name: source_name.to_owned(),
        draft,
    };
    match manner {
        ImportMode::Add => {
            wanted.add_nets(outside)?;
            add_peers(&mut wanted.config, &wanted.draft.config.peers);
        }
        ImportMode::Exact => {
            wanted.take_nets(outside)?;
            wanted.config.peers = wanted.draft.config.peers.clone();
        }
        ImportMode::Del => {
            let mut left_out = Vec::new();
            left_out.extend(wanted.del_nets(outside));
            left_out.extend(wanted.del_peers(outside));
            match (strictness, left_out.is_empty()) {
                (Strictness::Strict, false) => return Err(left_out.swap_remove(0)),
                _ => wanted.warnings.extend(left_out),
            }
        }
    }
    if let Err(what) = wanted.config.check() {
        let draft = &wanted.draft;
        let at = draft.peers_at.first().or(draft.nets_at.first()).copied();
        return Err(format!("{source_name}:{}: {what}", at.unwrap_or(Position::START)));
    }
    Ok(wanted)
}

impl Wanted {
    fn add_nets(&mut self, outside: &Outside<'_>) -> Result<(), String> {
        let mut nids = outside.nids.to_vec();
        for (index, net) in self.draft.config.nets.iter().enumerate() {
            let placed = self.placed_at(outside, index)?;
            match nids.iter().position(|nid| *nid == placed.nid) {
                Some(known) => {
                    let net = news(net, outside.base, &outside.all_cpts());
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
        Ok(())
    }

    /// The interfaces of the file, and no others; those that are there first, in their order.
    fn take_nets(&mut self, outside: &Outside<'_>) -> Result<(), String> {
        let mut kept: Vec<Option<(NetConfig, usize)>> = vec![None; outside.nids.len()];
        let (mut fresh, mut nids) = (Vec::new(), Vec::new());
        for index in 0..self.draft.config.nets.len() {
            let placed = self.placed_at(outside, index)?;
            match outside.nids.iter().position(|nid| *nid == placed.nid) {
                Some(known) if kept[known].is_none() => {
                    let place = outside.base.nets[known].place.clone();
                    kept[known] = Some((NetConfig { place, ..placed.explicit }, index));
                }
                None if !nids.contains(&placed.nid) => {
                    nids.push(placed.nid);
                    fresh.push((placed.explicit, index));
                }
                _ => {
                    let at = self.draft.nets_at[index];
                    let nid = placed.nid;
                    return Err(format!("{}:{at}: {nid} is given twice", self.source_name));
                }
            }
        }
        for (net, index) in kept.into_iter().flatten().chain(fresh) {
            self.config.nets.push(net);
            self.from.push(Some(index));
        }
        Ok(())
    }

    /// What this machine makes of an interface of the file.
    fn placed_at(&self, outside: &Outside<'_>, index: usize) -> Result<Placed, String> {
        let net = &self.draft.config.nets[index];
        let placed = (outside.place)(net);
        // One that is there keeps its NID, though its device may be gone or have another address.
        match (outside.base.nets.iter().position(|old| same(old, net)), placed) {
            (Some(known), Ok(placed)) => Ok(Placed { nid: outside.nids[known], ..placed }),
            (Some(known), Err(_)) => {
                let mut explicit = outside.base.nets[known].clone();
                merge_net(&mut explicit, net, net);
                Ok(Placed { nid: outside.nids[known], explicit })
            }
            (None, Ok(placed)) => Ok(placed),
            (None, Err(why)) => {
                let at = self.draft.nets_at[index];
                Err(format!("{}:{at}: {why}", self.source_name))
            }
        }
    }

    /// What of the file could not be, each with its place.
    fn del_nets(&mut self, outside: &Outside<'_>) -> Vec<String> {
        let mut nids = outside.nids.to_vec();
        let mut left_out = Vec::new();
        for (index, net) in self.draft.config.nets.iter().enumerate() {
            let placed = (outside.place)(net);
            let by_place = self.config.nets.iter().position(|old| same(old, net));
            let by_nid = |placed: &Placed| nids.iter().position(|nid| *nid == placed.nid);
            let known = by_place.or_else(|| placed.as_ref().ok().and_then(by_nid));
            let Some(known) = known else {
                let why = match placed {
                    Ok(placed) => format!("this node has no {}", placed.nid),
                    Err(why) => why,
                };
                let at = self.draft.nets_at[index];
                left_out.push(format!("{}:{at}: {why}", self.source_name));
                continue;
            };
            self.config.nets.remove(known);
            nids.remove(known);
            self.from.remove(known);
        }
        left_out
    }

    /// What of the file could not be, each with its place.
    fn del_peers(&mut self, outside: &Outside<'_>) -> Vec<String> {
        let mut left_out = Vec::new();
        let mut described: HashMap<Nid, PeerConfig> =
            self.config.peers.drain(..).map(|peer| (peer.nids[0], peer)).collect();
        for (index, peer) in self.draft.config.peers.iter().enumerate() {
            let primary = peer.nids[0];
            let learned = (outside.learned)(&primary);
            match going(&primary, described.get(&primary), learned, Force::No) {
                Ok(nids) => {
                    described.remove(&primary);
                    self.forget.extend(nids);
                }
                Err(why) => {
                    let at = self.draft.peers_at[index];
                    left_out.push(format!("{}:{at}: {why}", self.source_name));
                }
            }
        }
        let order = outside.base.peers.iter();
        self.config.peers = order.filter_map(|peer| described.remove(&peer.nids[0])).collect();
        left_out
    }
}

/// What a running node can change at its defaults, the rest as it is.
fn untuned(tunables: &Tunables) -> Tunables {
    let mut untuned = tunables.clone();
    for row in TABLE.iter().filter(|row| row.change == Change::Live) {
        let set = untuned.set(row.name, row.default);
        debug_assert!(set.is_ok(), "{} has a default in its range", row.name);
    }
    untuned
}

/// Why a peer does not go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RemoveError {
    /// Nobody knows it.
    #[error("no peer has the primary NID {0}; `lnetctl peer list` shows them")]
    Unknown(Nid),
    /// Whoever described it wants it to stay.
    #[error("the primary NID of {0} is locked; `lnetctl peer del --force` removes it anyway")]
    Locked(Nid),
}

/// Whether a peer goes though its primary NID is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    Yes,
    No,
}

/// All NIDs that go with a peer, those that were described and those that were learned.
pub(crate) fn going(
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

/// What a file says of an interface but for what is the case anyway, as most of an export is: the
/// values that have no effect, and are only kept for whoever reads them.
fn news(file: &NetConfig, base: &NodeConfig, all_cpts: &str) -> NetConfig {
    let tunables = &base.tunables;
    NetConfig {
        timeout: file.timeout.filter(|own| i64::from(*own) != tunables.sock_timeout),
        tos: file.tos.filter(|own| i64::from(*own) != tunables.tos),
        peer_timeout: file.peer_timeout.filter(|own| i64::from(*own) != PEER_TIMEOUT.default),
        peer_buffer_credits: file
            .peer_buffer_credits
            .filter(|own| i64::from(*own) != PEER_BUFFER_CREDITS.default),
        cpts: file.cpts.clone().filter(|own| own != all_cpts),
        ..file.clone()
    }
}

/// What a file says of an interface that is there counts; the rest stays.
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

/// Adds peers, or NIDs to those that are there.
pub(crate) fn add_peers(config: &mut NodeConfig, peers: &[PeerConfig]) {
    let places = config.peers.iter().enumerate();
    let mut places: HashMap<Nid, usize> = places.map(|(at, peer)| (peer.nids[0], at)).collect();
    for peer in peers {
        let Some(place) = places.get(&peer.nids[0]) else {
            places.insert(peer.nids[0], config.peers.len());
            config.peers.push(peer.clone());
            continue;
        };
        let known = &mut config.peers[*place];
        let there: HashSet<Nid> = known.nids.iter().copied().collect();
        known.nids.extend(peer.nids.iter().filter(|nid| !there.contains(nid)));
        known.multi_rail = peer.multi_rail;
        known.locked |= peer.locked;
    }
}

#[cfg(test)]
mod tests;
