//! From a request to the new configuration and its steps, and steps in words.

use std::collections::{BTreeSet, HashMap};

use lustrine_config::{
    Force, ImportContext, InterfaceChoice, NetConfig, NodeConfig, PeerConfig, PlacedNi,
    RefusedChange, RemoveError, Step, add_peers, nids_to_remove, own_peer, plan_import,
};
use lustrine_control::{ChangeRequest, ImportMode, NewNet, NiSelector};
use lustrine_partition::tunables::TABLE;
use lustrine_wire::nid::Nid;

use super::{ChangeError, EBUSY, EINVAL, Plan, steps, strictness};
use crate::error::CallError;
use crate::handle::{NodeHandle, NodeInfo};
use crate::ni_state::has_address;
use crate::resolve::{ResolveError, resolve_one};

const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const EOPNOTSUPP: i32 = -95;
const ENETDOWN: i32 = -100;

fn not(errno: i32, text: impl Into<String>) -> ChangeError {
    ChangeError { errno, text: text.into() }
}

impl NodeHandle {
    pub(super) fn plan(
        &self,
        info: &NodeInfo,
        change: &ChangeRequest,
    ) -> Result<Plan, ChangeError> {
        let before = &info.config;
        let mut after = before.clone();
        let (mut forget, mut reset, mut replaced) = (Vec::new(), false, Vec::new());
        match change {
            ChangeRequest::Set { name, value } => set(&mut after, name, *value)?,
            ChangeRequest::SetNet { which, conns_per_peer, lnd_timeout } => {
                set_net(info, &mut after, which, (*conns_per_peer, *lnd_timeout))?;
            }
            ChangeRequest::AddNet(new) => replaced = add_net(info, &mut after, new)?,
            ChangeRequest::DelNet { which, interfaces } => {
                del_net(info, &mut after, which, interfaces)?
            }
            ChangeRequest::AddPeer { nids, multi_rail, locked } => {
                let nids = peer_nids(nids)?;
                let (multi_rail, locked) = (*multi_rail, *locked);
                add_peers(&mut after, &[PeerConfig { nids, multi_rail, locked }]);
            }
            ChangeRequest::DelPeer { primary, nids, force } => {
                forget = self.del_peer(&mut after, *primary, nids, *force)?;
            }
            ChangeRequest::ResetStats {} => reset = true,
            ChangeRequest::Import { text, source_name, mode, lenient } => {
                return self.import(info, (text, source_name), *mode, *lenient);
            }
        }
        after.check().map_err(|what| not(EINVAL, what.to_string()))?;
        let mut compared = before.clone();
        for index in replaced {
            // By its address it is another interface than the one that takes its place.
            if let Some(ip) = info.nids[index].ip() {
                compared.nets[index].place = InterfaceChoice::Address(ip);
            }
        }
        let steps = steps(&compared, &after).map_err(|refused| {
            let texts: Vec<String> = refused.into_iter().map(|refused| refused.text).collect();
            not(EOPNOTSUPP, texts.join("; "))
        })?;
        no_own_peer(info, &after, &steps)?;
        Ok(Plan { after, steps, warnings: Vec::new(), forget, reset })
    }

    /// The NIDs of all peers of all event loops, by their primary NID.
    fn learned(&self) -> Result<HashMap<Nid, Vec<Nid>>, ChangeError> {
        let reports = self.reports();
        let reports = reports.map_err(|error: CallError| not(error.errno(), error.to_string()))?;
        let mut known: HashMap<Nid, Vec<Nid>> = HashMap::new();
        for peer in reports.iter().flat_map(|report| &report.peers) {
            let nids = known.entry(peer.primary).or_default();
            nids.push(peer.nid);
            nids.extend(peer.nids.iter().map(|(nid, _)| *nid));
        }
        Ok(known)
    }

    /// Removes a peer, configured or discovered.
    fn del_peer(
        &self,
        after: &mut NodeConfig,
        primary: Nid,
        nids: &[Nid],
        force: bool,
    ) -> Result<Vec<Nid>, ChangeError> {
        let learned = self.learned()?.remove(&primary).unwrap_or_default();
        let configured = after.peers.iter().find(|peer| peer.nids[0] == primary);
        let force = if force { Force::Yes } else { Force::No };
        let known = nids_to_remove(&primary, configured, learned, force).map_err(|why| {
            let errno = match why {
                RemoveError::Unknown(_) => ENOENT,
                RemoveError::Locked(_) => EBUSY,
            };
            not(errno, why.to_string())
        })?;
        if nids.is_empty() {
            after.peers.retain(|peer| peer.nids[0] != primary);
            return Ok(known);
        }
        let mut gone = Vec::new();
        for nid in nids.iter().copied() {
            if nid == primary {
                let text = format!(
                    "{nid} is the peer's primary NID and cannot be removed alone: without --nid, \
                     the whole peer is removed"
                );
                return Err(not(EINVAL, text));
            }
            if known.binary_search(&nid).is_err() {
                return Err(not(ENOENT, format!("{nid} is not a NID of peer {primary}")));
            }
            gone.push(nid);
        }
        for peer in &mut after.peers {
            if peer.nids[0] == primary {
                peer.nids.retain(|nid| !gone.contains(nid));
            }
        }
        Ok(gone)
    }

    fn import(
        &self,
        info: &NodeInfo,
        file: (&str, &str),
        mode: ImportMode,
        lenient: bool,
    ) -> Result<Plan, ChangeError> {
        let before = &info.config;
        let place = |net: &NetConfig| {
            let ni = resolve_one(net, &before.tunables).map_err(|error| error.to_string())?;
            Ok(PlacedNi { nid: ni.nid, explicit: ni.explicit(net, &before.tunables) })
        };
        let learned = match mode {
            ImportMode::Add | ImportMode::Exact => HashMap::new(),
            ImportMode::Del => self.learned()?,
        };
        let context = ImportContext {
            base: before,
            nids: &info.nids,
            partitions: info.partitions.len(),
            place: &place,
            learned: &|primary| learned.get(primary).cloned().unwrap_or_default(),
        };
        let planned = plan_import(&context, file, (mode, strictness(lenient)));
        let mut planned = planned.map_err(|text| not(EINVAL, text))?;
        let mut warnings = std::mem::take(&mut planned.warnings);
        let made = match steps(before, &planned.config) {
            // `control` and `metrics` are addresses of one node: a file of another node has others.
            Err(refused) if lenient || refused.iter().all(RefusedChange::is_own_address) => {
                for refused in &refused {
                    let text = planned.message(refused).replacen(": ", ": ignored: ", 1);
                    // One key can set several tunables.
                    if !warnings.contains(&text) {
                        warnings.push(text);
                    }
                    planned.leave_out(before, refused);
                }
                steps(before, &planned.config)
            }
            made => made,
        };
        let refused = made.as_ref().err().map(Vec::as_slice).unwrap_or_default();
        let refused = refused.iter().map(|refused| planned.message(refused));
        let mut texts: Vec<String> = Vec::new();
        for text in planned.problems.iter().cloned().chain(refused) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let steps = match made {
            Ok(steps) if texts.is_empty() => steps,
            _ if planned.problems.is_empty() => return Err(not(EOPNOTSUPP, texts.join("; "))),
            _ => return Err(not(EINVAL, texts.join("; "))),
        };
        if planned.config.nets.is_empty() {
            let why = match mode {
                ImportMode::Exact => "it has no interface (net:), and the node would have none",
                ImportMode::Add | ImportMode::Del => "the node would have no interface left",
            };
            let lost = warnings.iter().map(|warning| format!("; {warning}")).collect::<String>();
            let text = format!("{}: {why}: a node needs one{lost}", file.1);
            return Err(not(EBUSY, text));
        }
        if mode == ImportMode::Exact && planned.is_reordered() {
            warnings.push(format!(
                "{}: existing interfaces stay before new ones, so the primary NID is not the \
                 same as in a node that is started with the file",
                file.1
            ));
        }
        no_own_peer(info, &planned.config, &steps)
            .map_err(|why| not(why.errno, format!("{}: {}", file.1, why.text)))?;
        Ok(Plan { after: planned.config, steps, warnings, forget: planned.forget, reset: false })
    }
}

/// A NID that the node has, or will have, cannot belong to a peer.
fn no_own_peer(info: &NodeInfo, after: &NodeConfig, steps: &[Step]) -> Result<(), ChangeError> {
    let mut own: BTreeSet<Nid> = info.nids.iter().copied().collect();
    for step in steps {
        match step {
            Step::RemoveNet(index) => drop(own.remove(&info.nids[*index])),
            Step::AddNet(index) => {
                let ni = resolve_one(&after.nets[*index], &after.tunables).map_err(unresolved)?;
                own.insert(ni.nid);
            }
            _ => {}
        }
    }
    match own_peer(after, &own) {
        Some(text) => Err(not(EINVAL, text)),
        None => Ok(()),
    }
}

fn set(after: &mut NodeConfig, name: &str, value: i64) -> Result<(), ChangeError> {
    after.tunables.set(name, value).map_err(|why| not(EINVAL, why.to_string()))
}

fn set_net(
    info: &NodeInfo,
    after: &mut NodeConfig,
    which: &NiSelector,
    (conns_per_peer, lnd_timeout): (Option<u16>, Option<u32>),
) -> Result<(), ChangeError> {
    let chosen = chosen(info, which)?;
    for index in conns_per_peer.iter().flat_map(|_| &chosen) {
        let own = NetConfig { conns_per_peer, ..after.nets[*index].clone() };
        after.nets[*index].conns_per_peer = match conns_per_peer {
            // By the speed of the device, which has to be there.
            Some(0) => {
                let ni = resolve_one(&own, &after.tunables).map_err(unresolved)?;
                Some(ni.conns_per_peer)
            }
            given => given,
        };
    }
    if let Some(seconds) = lnd_timeout {
        if chosen.len() < info.nids.len() {
            let text = "all interfaces of a node have the same timeout: give it with --all, or use \
                        `lnetctl set sock_timeout SECONDS`";
            return Err(not(EOPNOTSUPP, text));
        }
        set(after, "sock_timeout", i64::from(seconds))?;
    }
    Ok(())
}

/// The indices of the selected interfaces; at least one.
fn chosen(info: &NodeInfo, which: &NiSelector) -> Result<Vec<usize>, ChangeError> {
    let all = info.nids.iter().enumerate();
    let chosen: Vec<usize> = match which {
        NiSelector::All => all.map(|(index, _)| index).collect(),
        NiSelector::Nid(nid) => {
            all.filter(|(_, known)| *known == nid).map(|(index, _)| index).collect()
        }
        NiSelector::Net(net) => {
            all.filter(|(_, known)| known.net() == *net).map(|(index, _)| index).collect()
        }
    };
    if chosen.is_empty() {
        let what = match which {
            NiSelector::All => "an interface".to_owned(),
            NiSelector::Nid(nid) => nid.to_string(),
            NiSelector::Net(net) => net.to_string(),
        };
        let text = format!("this node has no {what}; `lnetctl net show` shows what it has");
        return Err(not(ENOENT, text));
    }
    Ok(chosen)
}

/// Adds interfaces. Returns the indices of those whose place they take: of the same device, which
/// has another address now.
fn add_net(
    info: &NodeInfo,
    after: &mut NodeConfig,
    new: &NewNet,
) -> Result<Vec<usize>, ChangeError> {
    if new.nid.is_some() && !new.interfaces.is_empty() {
        let text = "give the interface with --if or its NID with --nid, not both";
        return Err(not(EINVAL, text));
    }
    let mut places = Vec::new();
    let mut on = new.net;
    if let Some(nid) = new.nid {
        let ip = nid.ip().filter(|_| on.is_none_or(|net| net == nid.net()));
        let text = format!("{nid} is not the NID of an interface on the requested network");
        places.push(InterfaceChoice::Address(ip.ok_or_else(|| not(EINVAL, text))?));
        on = Some(nid.net());
    }
    places.extend(new.interfaces.iter().cloned().map(InterfaceChoice::Interface));
    if places.is_empty() {
        places.push(InterfaceChoice::Default);
    }
    let Some(on) = on else {
        return Err(not(EINVAL, "give the network with --net, or the NID with --nid"));
    };
    if new.tos.is_some_and(|tos| i64::from(tos) != after.tunables.socklnd.tos) {
        let text = "all interfaces of a node follow the tunable tos: start it with `--set tos=N`";
        return Err(not(EOPNOTSUPP, text));
    }
    let mut nids = info.nids.clone();
    let mut replaced = Vec::new();
    for place in places {
        let net = NetConfig {
            credits: new.credits,
            peer_credits: new.peer_credits,
            conns_per_peer: new.conns_per_peer,
            ..NetConfig::new(on, place)
        };
        let ni = resolve_one(&net, &after.tunables).map_err(unresolved)?;
        if nids.contains(&ni.nid) {
            return Err(not(EEXIST, format!("this node has {} already", ni.nid)));
        }
        nids.push(ni.nid);
        let net = ni.explicit(&net, &after.tunables);
        let there = info.config.nets.iter().position(|old| is_same_place(old, &net));
        if let Some(old) = there {
            let nid = info.nids[old];
            if nid.ip().is_some_and(has_address) {
                let text = format!(
                    "this node has {nid} on that device already: give the NID of another address \
                     with --nid"
                );
                return Err(not(EEXIST, text));
            }
            replaced.push(old);
        }
        after.nets.push(net);
    }
    replaced.sort_unstable();
    for index in replaced.iter().rev() {
        after.nets.remove(*index);
    }
    Ok(replaced)
}

fn is_same_place(one: &NetConfig, other: &NetConfig) -> bool {
    one.net == other.net && one.place == other.place
}

fn del_net(
    info: &NodeInfo,
    after: &mut NodeConfig,
    which: &NiSelector,
    interfaces: &[String],
) -> Result<(), ChangeError> {
    let mut chosen = chosen(info, which)?;
    if !interfaces.is_empty() {
        for name in interfaces {
            let has = |index: &usize| info.interfaces[*index].as_ref() == Some(name);
            if !chosen.iter().any(has) {
                return Err(not(ENOENT, format!("no interface of that network is on {name}")));
            }
        }
        let named = |name: &String| interfaces.contains(name);
        chosen.retain(|index| info.interfaces[*index].as_ref().is_some_and(named));
    }
    if chosen.len() == info.nids.len() {
        let text = "a node needs an interface: add another one first, or stop the node";
        return Err(not(EBUSY, text));
    }
    for index in chosen.into_iter().rev() {
        after.nets.remove(index);
    }
    Ok(())
}

/// The NIDs of a peer, each once.
fn peer_nids(given: &[Nid]) -> Result<Vec<Nid>, ChangeError> {
    let mut nids: Vec<Nid> = Vec::new();
    for nid in given {
        if nid.is_any() || nid.is_lo() {
            let text = format!("{nid} is not the NID of a peer; an example is 10.0.0.1@tcp");
            return Err(not(EINVAL, text));
        }
        if !nids.contains(nid) {
            nids.push(*nid);
        }
    }
    match nids.is_empty() {
        true => Err(not(EINVAL, "a peer needs at least one NID")),
        false => Ok(nids),
    }
}

pub(super) fn unresolved(error: ResolveError) -> ChangeError {
    let errno = match error {
        ResolveError::BadValue { .. } => EINVAL,
        _ => ENETDOWN,
    };
    not(errno, error.to_string())
}

/// A step in words, one phrase for each value.
pub(super) fn describe(step: &Step, info: &NodeInfo, after: &NodeConfig) -> Vec<String> {
    let place = |net: &NetConfig| match &net.place {
        InterfaceChoice::Default => "the first interface".to_owned(),
        InterfaceChoice::Address(ip) => ip.to_string(),
        InterfaceChoice::Interface(name) => name.clone(),
    };
    let one = match step {
        Step::Tunables(changed) => {
            let each = changed.iter().map(|(name, old, new)| {
                let unit = TABLE.iter().find(|row| row.name == *name).map_or("", |row| row.unit);
                let unit = if unit == "0/1" || unit.is_empty() { "" } else { unit };
                format!("set {name} to {new} {unit}").trim_end().to_owned()
                    + &format!(" (was {old})")
            });
            return each.collect();
        }
        Step::AddNet(index) => {
            let net = &after.nets[*index];
            format!("add an interface to {}: {}", net.net, place(net))
        }
        Step::RemoveNet(index) => format!("remove interface {}", info.nids[*index]),
        Step::ConnsPerPeer(index, count) => {
            let net = &after.nets[*index];
            format!("set conns_per_peer of {} on {} to {count}", net.net, place(net))
        }
        Step::KeepOnly(index, keys) => {
            let net = &after.nets[*index];
            let keys = keys.join(", ");
            let (net, place) = (net.net, place(net));
            format!("keep {keys} of {net} on {place} in the configuration, without effect")
        }
        Step::ConfigurePeer(peer) => {
            let others = match &peer.nids[1..] {
                [] => String::new(),
                others => format!(" with {}", list(others)),
            };
            format!("configure peer {}{others}", peer.nids[0])
        }
        Step::SelftestPolicy => {
            let policy = &after.selftest;
            let list = match policy.consoles.is_empty() {
                true => String::new(),
                false => format!(", selftest_consoles to {}", policy.consoles),
            };
            format!("set selftest to {}{list}", policy.mode)
        }
        Step::RemoveNids(nids) => format!("remove {}", list(nids)),
    };
    vec![one]
}

/// NIDs, separated by commas.
pub(super) fn list(nids: &[Nid]) -> String {
    nids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
