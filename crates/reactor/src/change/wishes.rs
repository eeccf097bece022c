//! From what is asked for to a configuration, and steps in words.

use lustrine_lnet::tunables::TABLE;
use lustrine_wire::nid::{Net, Nid};

use super::{EBUSY, EINVAL, NewNet, NotChanged, Plan, Which, Wish, steps, strictness};
use crate::call::CallError;
use crate::config::{
    Manner, NetConfig, NodeConfig, PeerConfig, Place, Placed, Step, add_peer, del_peer, wanted,
};
use crate::node::{NodeHandle, NodeInfo};
use crate::resolve::{ResolveError, resolve_one};

const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const EOPNOTSUPP: i32 = -95;
const ENETDOWN: i32 = -100;

fn not(errno: i32, text: impl Into<String>) -> NotChanged {
    NotChanged { errno, text: text.into() }
}

impl NodeHandle {
    pub(super) fn plan(&self, info: &NodeInfo, wish: &Wish) -> Result<Plan, NotChanged> {
        let before = &info.config;
        let mut after = before.clone();
        let (mut forget, mut reset) = (Vec::new(), false);
        match wish {
            Wish::Set { name, value } => set(&mut after, name, *value)?,
            Wish::SetNet { which, conns_per_peer, lnd_timeout } => {
                set_net(info, &mut after, which, (*conns_per_peer, *lnd_timeout))?;
            }
            Wish::AddNet(new) => add_net(info, &mut after, new)?,
            Wish::DelNet { which, interfaces } => del_net(info, &mut after, which, interfaces)?,
            Wish::AddPeer { nids, multi_rail, locked } => {
                let nids = peer_nids(info, nids)?;
                let (multi_rail, locked) = (*multi_rail, *locked);
                add_peer(&mut after, &PeerConfig { nids, multi_rail, locked });
            }
            Wish::DelPeer { primary, nids, force } => {
                forget = self.del_peer(&mut after, primary, nids, *force)?;
            }
            Wish::ResetStats => reset = true,
            Wish::Import { text, source_name, manner, lenient } => {
                return import(info, (text, source_name), *manner, *lenient);
            }
        }
        after.check().map_err(|what| not(EINVAL, what.to_string()))?;
        let steps = steps(before, &after).map_err(|refused| {
            let texts: Vec<String> = refused.into_iter().map(|refused| refused.text).collect();
            not(EOPNOTSUPP, texts.join("; "))
        })?;
        Ok(Plan { after, steps, warnings: Vec::new(), forget, reset })
    }

    /// What is known of a peer by this name goes: by hand or learned.
    fn del_peer(
        &self,
        after: &mut NodeConfig,
        primary: &str,
        nids: &[String],
        force: bool,
    ) -> Result<Vec<Nid>, NotChanged> {
        let primary = nid(primary)?;
        let reports =
            self.reports().map_err(|error: CallError| not(error.errno(), error.to_string()))?;
        let mut known = Vec::new();
        for peer in reports.iter().flat_map(|report| &report.peers) {
            if peer.primary == primary {
                known.push(peer.nid);
                known.extend(peer.nids.iter().map(|(nid, _)| *nid));
            }
        }
        let by_hand = after.peers.iter().find(|peer| peer.nids[0] == primary);
        known.extend(by_hand.iter().flat_map(|peer| &peer.nids));
        known.sort_unstable();
        known.dedup();
        if known.is_empty() {
            return Err(not(
                ENOENT,
                format!("no peer has the primary NID {primary}; `lnetctl peer list` shows them"),
            ));
        }
        if by_hand.is_some_and(|peer| peer.locked) && !force {
            let text = format!("the primary NID of {primary} is locked; --force removes it anyway");
            return Err(not(EBUSY, text));
        }
        if nids.is_empty() {
            del_peer(after, &PeerConfig { nids: vec![primary], multi_rail: true, locked: false });
            return Ok(known);
        }
        let mut gone = Vec::new();
        for text in nids {
            let nid = nid(text)?;
            if nid == primary {
                let text =
                    format!("{nid} is its primary NID and goes with the peer: leave --nid out");
                return Err(not(EINVAL, text));
            }
            if !known.contains(&nid) {
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
}

fn set(after: &mut NodeConfig, name: &str, value: i64) -> Result<(), NotChanged> {
    after.tunables.set(name, value).map_err(|why| not(EINVAL, why.to_string()))
}

fn set_net(
    info: &NodeInfo,
    after: &mut NodeConfig,
    which: &Which,
    (conns_per_peer, lnd_timeout): (Option<u16>, Option<u32>),
) -> Result<(), NotChanged> {
    let chosen = chosen(info, which)?;
    if let Some(count) = conns_per_peer {
        for index in &chosen {
            let own = NetConfig { conns_per_peer: Some(count), ..after.nets[*index].clone() };
            let ni = resolve_one(&own, &after.tunables).map_err(unresolved)?;
            after.nets[*index].conns_per_peer = Some(ni.conns_per_peer);
        }
    }
    if let Some(seconds) = lnd_timeout {
        if chosen.len() < info.nids.len() {
            let text = "the interfaces of a node have one timeout: give it for --all, or with \
                        `lnetctl set sock_timeout SECONDS`";
            return Err(not(EOPNOTSUPP, text));
        }
        set(after, "sock_timeout", i64::from(seconds))?;
    }
    Ok(())
}

/// Indices of interfaces; never none.
fn chosen(info: &NodeInfo, which: &Which) -> Result<Vec<usize>, NotChanged> {
    let all = info.nids.iter().enumerate();
    let chosen: Vec<usize> = match which {
        Which::All => all.map(|(index, _)| index).collect(),
        Which::Nid(text) => {
            let nid = nid(text)?;
            all.filter(|(_, known)| **known == nid).map(|(index, _)| index).collect()
        }
        Which::Net(text) => {
            let net = net(text)?;
            all.filter(|(_, known)| known.net() == net).map(|(index, _)| index).collect()
        }
    };
    if chosen.is_empty() {
        let what = match which {
            Which::All => "an interface".to_owned(),
            Which::Nid(text) | Which::Net(text) => text.clone(),
        };
        let text = format!("this node has no {what}; `lnetctl net show` shows what it has");
        return Err(not(ENOENT, text));
    }
    Ok(chosen)
}

fn add_net(info: &NodeInfo, after: &mut NodeConfig, new: &NewNet) -> Result<(), NotChanged> {
    let mut places = Vec::new();
    let mut on = match &new.net {
        Some(text) => Some(net(text)?),
        None => None,
    };
    if let Some(text) = &new.nid {
        let nid = nid(text)?;
        let ip = nid.ip().filter(|_| on.is_none_or(|net| net == nid.net()));
        let text = format!("{nid} is no NID for an interface of the network asked for");
        places.push(Place::Address(ip.ok_or_else(|| not(EINVAL, text))?));
        on = Some(nid.net());
    }
    places.extend(new.interfaces.iter().cloned().map(Place::Interface));
    if places.is_empty() {
        places.push(Place::Default);
    }
    let Some(on) = on else {
        return Err(not(EINVAL, "say which network with --net, or which NID with --nid"));
    };
    if new.tos.is_some_and(|tos| i64::from(tos) != after.tunables.tos) {
        let text = "all interfaces of a node follow the tunable tos: start it with `--set tos=N`";
        return Err(not(EOPNOTSUPP, text));
    }
    for place in places {
        let net = NetConfig {
            credits: new.credits,
            peer_credits: new.peer_credits,
            conns_per_peer: new.conns_per_peer,
            ..NetConfig::new(on, place)
        };
        let ni = resolve_one(&net, &after.tunables).map_err(unresolved)?;
        let known = after.nets.iter().zip(&info.nids);
        if known.into_iter().any(|(_, nid)| *nid == ni.nid) {
            return Err(not(EEXIST, format!("this node has {} already", ni.nid)));
        }
        after.nets.push(ni.explicit(&net));
    }
    Ok(())
}

fn del_net(
    info: &NodeInfo,
    after: &mut NodeConfig,
    which: &Which,
    interfaces: &[String],
) -> Result<(), NotChanged> {
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
        let text = "a node needs an interface: add another one first, or end the node";
        return Err(not(EBUSY, text));
    }
    for index in chosen.into_iter().rev() {
        after.nets.remove(index);
    }
    Ok(())
}

fn peer_nids(info: &NodeInfo, texts: &[String]) -> Result<Vec<Nid>, NotChanged> {
    let mut nids: Vec<Nid> = Vec::new();
    for text in texts {
        let nid = nid(text)?;
        if info.nids.contains(&nid) {
            return Err(not(EINVAL, format!("{nid} is this node itself")));
        }
        if !nids.contains(&nid) {
            nids.push(nid);
        }
    }
    Ok(nids)
}

fn import(
    info: &NodeInfo,
    file: (&str, &str),
    manner: Manner,
    lenient: bool,
) -> Result<Plan, NotChanged> {
    let before = &info.config;
    let place = |net: &NetConfig| {
        let ni = resolve_one(net, &before.tunables).map_err(|error| error.to_string())?;
        Ok(Placed { nid: ni.nid, explicit: ni.explicit(net) })
    };
    let how = (manner, strictness(lenient));
    let mut wanted =
        wanted((before, &info.nids), file, how, place).map_err(|text| not(EINVAL, text))?;
    let mut warnings: Vec<String> = wanted.warnings.iter().map(ToString::to_string).collect();
    let made = match steps(before, &wanted.config) {
        Err(refused) if lenient => {
            for refused in &refused {
                let text = wanted.placed(refused);
                warnings.push(text.replacen(": ", ": ignored: ", 1));
                wanted.leave(before, refused);
            }
            steps(before, &wanted.config)
        }
        made => made,
    };
    let steps = made.map_err(|refused| {
        let texts: Vec<String> = refused.iter().map(|refused| wanted.placed(refused)).collect();
        not(EOPNOTSUPP, texts.join("; "))
    })?;
    if wanted.config.nets.is_empty() {
        let text = "a node needs an interface: add another one first, or end the node";
        return Err(not(EBUSY, text));
    }
    for nid in wanted.config.peers.iter().flat_map(|peer| &peer.nids) {
        if info.nids.contains(nid) {
            return Err(not(EINVAL, format!("{}: peer {nid} is this node itself", file.1)));
        }
    }
    Ok(Plan { after: wanted.config, steps, warnings, forget: wanted.forget, reset: false })
}

fn nid(text: &str) -> Result<Nid, NotChanged> {
    let nid = text.parse::<Nid>().ok().filter(|nid| !nid.is_any() && !nid.is_lo());
    nid.ok_or_else(|| not(EINVAL, format!("{text:?} is no NID; an example is 10.0.0.1@tcp")))
}

fn net(text: &str) -> Result<Net, NotChanged> {
    let net = text.parse::<Net>();
    net.map_err(|_| not(EINVAL, format!("{text:?} is no network; an example is tcp1")))
}

fn unresolved(error: ResolveError) -> NotChanged {
    let errno = match error {
        ResolveError::BadValue { .. } => EINVAL,
        _ => ENETDOWN,
    };
    not(errno, error.to_string())
}

/// A step in words, each thing by itself.
pub(super) fn tell(step: &Step, info: &NodeInfo, after: &NodeConfig) -> Vec<String> {
    let place = |net: &NetConfig| match &net.place {
        Place::Default => "the first interface".to_owned(),
        Place::Address(ip) => ip.to_string(),
        Place::Interface(name) => name.clone(),
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
        Step::DescribePeer(peer) => {
            let others = match &peer.nids[1..] {
                [] => String::new(),
                others => format!(" with {}", list(others)),
            };
            format!("describe peer {}{others}", peer.nids[0])
        }
        Step::RemoveNids(nids) => format!("forget {}", list(nids)),
    };
    vec![one]
}

/// NIDs, parted by commas.
pub(super) fn list(nids: &[Nid]) -> String {
    nids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
