//! The `net` section of a file: networks and the node's interfaces on them [CFG-8].

use std::rc::Rc;

use lustrine_document::{
    Content, Key, Location, Node, Pair, Problem, Reader, Section, Shape, nearest, word,
};
use lustrine_lnet::tunables::{Change, Tunable};
use lustrine_wire::nid::{Net, NetKind, Nid};

use super::check::{Inconsistency, row};
use super::draft::Draft;
use super::driver::NetDriver;
use super::reading::{entries_with, number};
use super::{InterfaceChoice, NetConfig, interface};

const NET_EXAMPLE: &str = "\"net: [{net type: tcp1, local NI(s): [{interfaces: {0: eth0}}]}]\"";
const INTERFACES_EXAMPLE: &str = "\"interfaces: {0: eth0}\"";
const NID_EXAMPLE: &str = "\"nid: 10.0.0.1@tcp1\"";
const CPT_EXAMPLE: &str = "'CPT: \"[0,2-3]\"'";

pub(super) const NET: Section = Section::new(
    "an entry of net",
    &[Key::read("net type"), Key::read("local NI(s)").or("local NI")],
    NET_EXAMPLE,
);

pub(super) const NI: Section = Section::new(
    "a local NI",
    &[
        Key::read("nid"),
        Key::read("interfaces"),
        Key::read("port"),
        Key::read("tunables"),
        Key::read("lnd tunables"),
        Key::read("CPT"),
        Key::shown("status"),
        Key::shown("statistics"),
        Key::shown("udsp info"),
        Key::shown("sent_stats"),
        Key::shown("received_stats"),
        Key::shown("dropped_stats"),
        Key::shown("health stats"),
        Key::shown("dev cpt"),
        // Until Lustre 2.14.
        Key::shown("tcp bonding"),
    ],
    INTERFACES_EXAMPLE,
);

pub(super) const TUNABLES: Section = Section::new(
    "the tunables of a local NI",
    &[
        Key::read("peer_timeout"),
        Key::read("peer_credits"),
        Key::read("peer_buffer_credits"),
        Key::read("credits"),
    ],
    "\"tunables: {peer_credits: 8, credits: 256}\"",
);

pub(super) const LND_TUNABLES: Section = Section::new(
    "the lnd tunables of a local NI on tcp",
    &[Key::read("conns_per_peer"), Key::read("timeout"), Key::read("tos")],
    "\"lnd tunables: {conns_per_peer: 2}\"",
);

/// Only a router uses it [CFG-5], so it is kept and is not in the table of tunables.
pub(super) const PEER_TIMEOUT: Tunable = Tunable {
    name: "peer_timeout",
    lnet_name: "peer_timeout",
    unit: "s",
    default: 180,
    min: i32::MIN as i64,
    max: i32::MAX as i64,
    change: Change::Start,
    help: "Silence after which a peer is taken for dead; 0 and less never.",
};
/// Kept as it was given; there is no routing yet.
pub(super) const PEER_BUFFER_CREDITS: Tunable = Tunable {
    name: "peer_buffer_credits",
    lnet_name: "peer_buffer_credits",
    unit: "messages",
    default: 0,
    min: 0,
    max: 65_535,
    change: Change::Start,
    help: "Messages forwarded at once for one peer; 0 is as many as peer_credits.",
};

/// Largest number of interfaces that any value of `max_interfaces` allows. Reading stops there, so
/// that aliases cannot make many nets out of a small file. The check at the end uses the value of
/// the file.
fn nets_max() -> usize {
    usize::try_from(row("max_interfaces").max - 1).unwrap_or(usize::MAX)
}

pub(super) fn read(reader: &mut Reader, draft: &mut Draft, node: &Node) {
    for item in reader.items(Some(node), "net", NET_EXAMPLE) {
        net(reader, draft, item);
        let (nets, max) = (draft.config.nets.len(), nets_max());
        if nets > max {
            let what = Inconsistency::TooManyNets { nets, max }.to_string();
            return reader.report(Problem::new(&item.at, what));
        }
    }
}

fn net(reader: &mut Reader, draft: &mut Draft, node: &Node) {
    let mut net = None;
    let mut nis: &[Rc<Node>] = &[];
    for entry in entries_with(reader, node, &NET, "net type") {
        match entry.key {
            "net type" => {
                net = reader.accept(net_type(entry.value)).map(|net| (net, &entry.value.at));
            }
            _ => nis = reader.items(Some(entry.value), "local NI(s)", NET_EXAMPLE),
        }
    }
    let Some((net, net_at)) = net else { return };
    if net.kind == NetKind::LO {
        // Every node has it, so it is in every export and in no configuration.
        return;
    }
    if NetDriver::of(net.kind).is_none() {
        let what = net.to_string();
        return reader.not_implemented(net_at, &what, "it needs another driver", &NET);
    }
    if nis.is_empty() {
        draft.add(NetConfig::new(net, InterfaceChoice::Default), &node.at);
    }
    for ni in nis {
        local_ni(reader, draft, net, ni);
        if draft.config.nets.len() > nets_max() {
            return;
        }
    }
}

fn net_type(node: &Node) -> Result<Net, Problem> {
    let example = "\"net type: tcp1\"";
    let text = word(node, "net type", example)?;
    text.parse().map_err(|_| {
        let allowed = match nearest(text, ["tcp", "o2ib", "kfi", "gni", "efa"]) {
            Some(kind) => format!("tcp, or tcp1 to tcp65535 (did you mean {kind}?)"),
            None => "tcp, or tcp1 to tcp65535".to_owned(),
        };
        Problem::value(&node.at, "net type", text, &allowed, example)
    })
}

/// Reads one item of `local NI(s)`. With several interfaces it stands for one NI on each
/// [CFG-1].
fn local_ni(reader: &mut Reader, draft: &mut Draft, net: Net, node: &Node) {
    let mut ni = NetConfig::new(net, InterfaceChoice::Default);
    let mut address: Option<(InterfaceChoice, &Location)> = None;
    let mut names: Vec<InterfaceChoice> = Vec::new();
    for entry in reader.entries(node, &NI) {
        let value = entry.value;
        match entry.key {
            "nid" => address = reader.accept(nid(value, net)).map(|place| (place, &value.at)),
            "interfaces" => names = interfaces(reader, value),
            "port" => ni.port = reader.accept(port(value)),
            "tunables" => tunables(reader, &mut ni, value),
            "lnd tunables" => lnd_tunables(reader, &mut ni, value),
            _ => ni.cpts = reader.accept(cpts(value)),
        }
    }
    let places = match address {
        Some((_, at)) if names.len() > 1 => {
            let found = format!("given for {} interfaces", names.len());
            let allowed = "one interface with a nid";
            return reader.report(Problem::value(at, "nid", &found, allowed, NID_EXAMPLE));
        }
        // An interface can have several addresses; the NID says which one is meant.
        Some((place, _)) => vec![place],
        None if names.is_empty() => vec![InterfaceChoice::Default],
        None => names,
    };
    for place in places {
        draft.add(NetConfig { place, ..ni.clone() }, &node.at);
    }
}

impl Draft {
    fn add(&mut self, ni: NetConfig, at: &Location) {
        self.config.nets.push(ni);
        self.nets_at.push(at.clone());
    }
}

fn nid(node: &Node, net: Net) -> Result<InterfaceChoice, Problem> {
    let text = word(node, "nid", NID_EXAMPLE)?;
    let nid = text.parse::<Nid>().ok().filter(|nid| nid.net() == net);
    let host = nid.and_then(|nid| nid.ip()).filter(|ip| interface::is_host(*ip));
    host.map(InterfaceChoice::Address).ok_or_else(|| {
        let allowed = format!("an address of this node and @{net}");
        let example = format!("\"nid: 10.0.0.1@{net}\"");
        Problem::value(&node.at, "nid", text, &allowed, &example)
    })
}

/// Reads `{0: eth0, 1: eth1}`.
fn interfaces(reader: &mut Reader, node: &Node) -> Vec<InterfaceChoice> {
    let pairs = match &node.content {
        Content::Null => return Vec::new(),
        Content::Mapping(pairs) => pairs,
        _ => {
            reader.wrong_shape(node, "interfaces", Shape::Mapping, INTERFACES_EXAMPLE);
            return Vec::new();
        }
    };
    let bad = |at: &Location, found: &str, allowed: &str| {
        Problem::value(at, "interfaces", found, allowed, INTERFACES_EXAMPLE)
    };
    let place = |pair: &Pair| {
        if pair.key.is_empty() || !pair.key.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad(&pair.at, &pair.key, "numbers from 0 as keys"));
        }
        let name = word(&pair.value, "an interface", INTERFACES_EXAMPLE)?;
        if !interface::is_name(name) {
            let allowed = "names of interfaces, at most 15 letters long";
            return Err(bad(&pair.value.at, name, allowed));
        }
        Ok(InterfaceChoice::Interface(name.to_owned()))
    };
    pairs.iter().filter_map(|pair| reader.accept(place(pair))).collect()
}

fn port(node: &Node) -> Result<u16, Problem> {
    let row = Tunable { name: "port", ..*row("accept_port") };
    Ok(number(node, "port", &row)? as u16)
}

fn tunables(reader: &mut Reader, ni: &mut NetConfig, node: &Node) {
    for entry in reader.entries(node, &TUNABLES) {
        let row = match entry.key {
            "peer_timeout" => &PEER_TIMEOUT,
            "peer_buffer_credits" => &PEER_BUFFER_CREDITS,
            name => row(name),
        };
        let Some(value) = reader.accept(number(entry.value, entry.key, row)) else { continue };
        match entry.key {
            "credits" => ni.credits = Some(value as u32),
            "peer_credits" => ni.peer_credits = Some(value as u32),
            "peer_timeout" => ni.peer_timeout = Some(value as i32),
            _ => ni.peer_buffer_credits = Some(value as u32),
        }
    }
}

fn lnd_tunables(reader: &mut Reader, ni: &mut NetConfig, node: &Node) {
    for entry in reader.entries(node, &LND_TUNABLES) {
        let row = row(if entry.key == "timeout" { "sock_timeout" } else { entry.key });
        let Some(value) = reader.accept(number(entry.value, entry.key, row)) else { continue };
        match entry.key {
            "conns_per_peer" => ni.conns_per_peer = Some(value as u16),
            "timeout" => ni.timeout = Some(value as u32),
            _ => ni.tos = Some(value as i16),
        }
    }
}

fn cpts(node: &Node) -> Result<String, Problem> {
    let text = word(node, "CPT", CPT_EXAMPLE)?;
    match interface::is_cpt_list(text) {
        true => Ok(text.to_owned()),
        false => {
            let allowed = "a list of partitions as quoted text";
            Err(Problem::value(&node.at, "CPT", text, allowed, CPT_EXAMPLE))
        }
    }
}

/// Warns of values of an interface that are kept and have no effect, unless they ask for what holds
/// anyway, as most of those in an export do. `all_cpts` names all CPU partitions.
pub(super) fn warn_of_the_ineffective(reader: &mut Reader, draft: &Draft, all_cpts: Option<&str>) {
    let common = &draft.config.tunables.socklnd;
    for (ni, at) in draft.config.nets.iter().zip(&draft.nets_at) {
        let differs = |own: Option<i64>, in_force: i64| own.is_some_and(|own| own != in_force);
        let peer_timeout = ni.peer_timeout.map(i64::from);
        let peer_buffer_credits = ni.peer_buffer_credits.map(i64::from);
        for (idle, what, reason) in [
            (
                differs(ni.timeout.map(i64::from), common.sock_timeout),
                "timeout",
                "all interfaces follow the tunable sock_timeout",
            ),
            (
                differs(ni.tos.map(i64::from), common.tos),
                "tos",
                "all interfaces follow the tunable tos",
            ),
            (
                differs(peer_timeout, PEER_TIMEOUT.default),
                "peer_timeout",
                "it matters to routers only, and this release does not route",
            ),
            (
                differs(peer_buffer_credits, PEER_BUFFER_CREDITS.default),
                "peer_buffer_credits",
                "it matters to routers only, and this release does not route",
            ),
            (
                ni.cpts.is_some() && ni.cpts.as_deref() != all_cpts,
                "CPT",
                "every partition serves every interface",
            ),
        ] {
            if idle {
                let what = format!(
                    "{what} has no effect: {reason}; it is kept and exported, and can be removed \
                     from the file"
                );
                reader.warn(Problem::new(at, what));
            }
        }
    }
}
