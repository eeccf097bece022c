//! From the configuration of a node that runs to another one: what to do, and what cannot be done.
//!
//! Pure: what is asked makes a configuration out of the one in force ([`wanted`] for a file),
//! and [`steps`] compares the two. So whatever can be changed is shown, exported, imported and
//! tried alike, and a change that has a part which cannot be is refused whole.

use lustrine_lnet::tunables::{Change, TABLE};
use lustrine_wire::nid::Nid;

use super::lnetctl::{self, Draft};
use super::{ConfigError, NetConfig, NodeConfig, PeerConfig, Position, Strictness, Warning};

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
    /// Take in the description of this peer.
    DescribePeer(PeerConfig),
    /// Forget these NIDs.
    RemoveNids(Vec<Nid>),
}

/// Something that a node which runs cannot change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) about: About,
    /// What, why not, and what to do instead.
    pub(crate) text: String,
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
    }
}

fn peers(before: &NodeConfig, after: &NodeConfig) -> Vec<Step> {
    let mut steps = Vec::new();
    for new in &after.peers {
        if !before.peers.contains(new) {
            steps.push(Step::DescribePeer(new.clone()));
        }
    }
    let mut gone: Vec<Nid> = before.peers.iter().flat_map(|peer| peer.nids.clone()).collect();
    gone.retain(|nid| !after.peers.iter().any(|peer| peer.nids.contains(nid)));
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
pub enum Manner {
    /// What it has shall be there.
    Add,
    /// The interfaces and peers that it has shall be gone.
    Del,
}

/// What a file asks of a node that runs.
pub(crate) struct Wanted {
    /// The configuration to be.
    pub(crate) config: NodeConfig,
    /// NIDs of peers to be forgotten that nobody described.
    pub(crate) forget: Vec<Nid>,
    pub(crate) warnings: Vec<Warning>,
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

/// Reads a file for a node that runs. `nids` are those of the configuration's nets; `place` says
/// what this machine makes of an interface.
///
/// # Errors
/// The first thing that is wrong with the file, with its place.
pub(crate) fn wanted(
    (base, nids): (&NodeConfig, &[Nid]),
    (text, source_name): (&str, &str),
    (manner, strictness): (Manner, Strictness),
    place: impl Fn(&NetConfig) -> Result<Placed, String>,
) -> Result<Wanted, String> {
    let read = lnetctl::read_over(base, text, source_name, strictness);
    let (draft, warnings) = read.map_err(|error: ConfigError| error.to_string())?;
    let mut config = match manner {
        Manner::Add => NodeConfig {
            nets: base.nets.clone(),
            peers: base.peers.clone(),
            ..draft.config.clone()
        },
        Manner::Del => base.clone(),
    };
    let mut from = vec![None; config.nets.len()];
    let mut nids = nids.to_vec();
    let mut forget = Vec::new();
    for (index, net) in draft.config.nets.iter().enumerate() {
        let at = draft.nets_at[index];
        let placed = place(net).map_err(|why| format!("{source_name}:{at}: {why}"))?;
        let known = nids.iter().position(|nid| *nid == placed.nid);
        match (manner, known) {
            (Manner::Add, Some(known)) => {
                merge_net(&mut config.nets[known], net, &placed.explicit);
                from[known] = Some(index);
            }
            (Manner::Add, None) => {
                config.nets.push(placed.explicit);
                nids.push(placed.nid);
                from.push(Some(index));
            }
            (Manner::Del, Some(known)) => {
                config.nets.remove(known);
                nids.remove(known);
                from.remove(known);
            }
            (Manner::Del, None) => {
                return Err(format!("{source_name}:{at}: this node has no {}", placed.nid));
            }
        }
    }
    for peer in &draft.config.peers {
        match manner {
            Manner::Add => add_peer(&mut config, peer),
            Manner::Del => forget.extend(del_peer(&mut config, peer)),
        }
    }
    if let Err(what) = config.check() {
        let at = draft.peers_at.first().or(draft.nets_at.first()).copied();
        return Err(format!("{source_name}:{}: {what}", at.unwrap_or(Position::START)));
    }
    let source_name = source_name.to_owned();
    Ok(Wanted { config, forget, warnings, source_name, draft, from })
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

/// Adds a peer, or NIDs to one that is there.
pub(crate) fn add_peer(config: &mut NodeConfig, peer: &PeerConfig) {
    let known = config.peers.iter_mut().find(|known| known.nids.first() == peer.nids.first());
    let Some(known) = known else {
        config.peers.push(peer.clone());
        return;
    };
    for nid in &peer.nids {
        if !known.nids.contains(nid) {
            known.nids.push(*nid);
        }
    }
    known.multi_rail = peer.multi_rail;
    known.locked |= peer.locked;
}

/// Takes a peer out of the descriptions; the NIDs that are to be forgotten.
pub(crate) fn del_peer(config: &mut NodeConfig, peer: &PeerConfig) -> Vec<Nid> {
    let is_it = |known: &PeerConfig| known.nids.first() == peer.nids.first();
    let mut nids = peer.nids.clone();
    for known in config.peers.iter().filter(|known| is_it(known)) {
        nids.extend(known.nids.iter().filter(|nid| !peer.nids.contains(nid)));
    }
    config.peers.retain(|known| !is_it(known));
    nids
}

#[cfg(test)]
mod tests;
