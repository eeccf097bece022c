//! The `net` section of a file: networks and the node's interfaces on them [CFG-8].

use std::rc::Rc;

use lustrine_lnet::tunables::{Change, Tunable};
use lustrine_wire::nid::{Net, NetKind, Nid};
use lustrine_yaml::{Content, Node, Position, Shape, clipped};

use super::check::{Inconsistency, row};
use super::driver::NetDriver;
use super::lnetctl::Draft;
use super::problem::{Failure, Problem};
use super::reading::{Key, Reading, Section, items, nearest, number, word, wrong_shape};
use super::{InterfaceChoice, NetConfig, interface};

const NET_EXAMPLE: &str = "\"net: [{net type: tcp1, local NI(s): [{interfaces: {0: eth0}}]}]\"";
const INTERFACES_EXAMPLE: &str = "\"interfaces: {0: eth0}\"";
const NID_EXAMPLE: &str = "\"nid: 10.0.0.1@tcp1\"";
const CPT_EXAMPLE: &str = "'CPT: \"[0,2-3]\"'";

pub(super) const NET: Section = Section {
    name: "an entry of net",
    keys: &[&[Key::read("net type"), Key { also: Some("local NI"), ..Key::read("local NI(s)") }]],
    example: NET_EXAMPLE,
};

pub(super) const NI: Section = Section {
    name: "a local NI",
    keys: &[&[
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
    ]],
    example: INTERFACES_EXAMPLE,
};

pub(super) const TUNABLES: Section = Section {
    name: "the tunables of a local NI",
    keys: &[&[
        Key::read("peer_timeout"),
        Key::read("peer_credits"),
        Key::read("peer_buffer_credits"),
        Key::read("credits"),
    ]],
    example: "\"tunables: {peer_credits: 8, credits: 256}\"",
};

pub(super) const LND_TUNABLES: Section = Section {
    name: "the lnd tunables of a local NI on tcp",
    keys: &[&[Key::read("conns_per_peer"), Key::read("timeout"), Key::read("tos")]],
    example: "\"lnd tunables: {conns_per_peer: 2}\"",
};

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
/// Likewise.
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

pub(super) fn read(
    reading: &mut Reading<'_>,
    draft: &mut Draft,
    node: &Node,
) -> Result<(), Failure> {
    for item in items(node, "net", NET_EXAMPLE)? {
        net(reading, draft, item)?;
    }
    Ok(())
}

fn net(reading: &mut Reading<'_>, draft: &mut Draft, node: &Node) -> Result<(), Failure> {
    let mut net = None;
    let mut nis: &[Rc<Node>] = &[];
    for entry in reading.entries(node, &NET)? {
        match entry.key {
            "net type" => net = Some((net_type(entry.value)?, entry.value.at)),
            _ => nis = items(entry.value, "local NI(s)", NET_EXAMPLE)?,
        }
    }
    let Some((net, net_at)) = net else {
        let (key, within) = ("net type", "an entry of net");
        return Err((node.at, Problem::Missing { key, within, example: NET_EXAMPLE }));
    };
    if net.kind == NetKind::LO {
        // Every node has it, so it is in every export and in no configuration.
        return Ok(());
    }
    if NetDriver::of(net.kind).is_none() {
        return reading.not_yet(net_at, &net.to_string(), "it needs another driver", &NET);
    }
    if nis.is_empty() {
        add(draft, NetConfig::new(net, InterfaceChoice::Default), node.at)?;
    }
    for ni in nis {
        local_ni(reading, draft, net, ni)?;
    }
    Ok(())
}

fn net_type(node: &Node) -> Result<Net, Failure> {
    let example = "\"net type: tcp1\"";
    let text = word(node, "net type", example)?;
    text.parse().map_err(|_| {
        let hint = match nearest(text, ["tcp", "o2ib", "kfi", "gni", "efa"]) {
            Some(kind) => format!("tcp, or tcp1 to tcp65535 (did you mean {kind}?)"),
            None => "tcp, or tcp1 to tcp65535".to_owned(),
        };
        let (what, found, example) = ("net type".to_owned(), clipped(text), example.to_owned());
        (node.at, Problem::BadValue { what, found, allowed: hint, example })
    })
}

/// Reads one item of `local NI(s)`. With several interfaces it stands for one NI on each
/// [CFG-1].
fn local_ni(
    reading: &mut Reading<'_>,
    draft: &mut Draft,
    net: Net,
    node: &Node,
) -> Result<(), Failure> {
    let mut ni = NetConfig::new(net, InterfaceChoice::Default);
    let mut address: Option<(InterfaceChoice, Position)> = None;
    let mut names: Vec<InterfaceChoice> = Vec::new();
    for entry in reading.entries(node, &NI)? {
        let value = entry.value;
        match entry.key {
            "nid" => address = Some((nid(value, net)?, value.at)),
            "interfaces" => names = interfaces(value)?,
            "port" => ni.port = Some(port(value)?),
            "tunables" => tunables(reading, &mut ni, value)?,
            "lnd tunables" => lnd_tunables(reading, &mut ni, value)?,
            _ => ni.cpts = Some(cpts(value)?),
        }
    }
    let places = match address {
        Some((_, at)) if names.len() > 1 => {
            let (what, found) = ("nid".to_owned(), format!("given for {} interfaces", names.len()));
            let allowed = "one interface with a nid".to_owned();
            let example = NID_EXAMPLE.to_owned();
            return Err((at, Problem::BadValue { what, found, allowed, example }));
        }
        // An interface can have several addresses; the NID says which one is meant.
        Some((place, _)) => vec![place],
        None if names.is_empty() => vec![InterfaceChoice::Default],
        None => names,
    };
    for place in places {
        add(draft, NetConfig { place, ..ni.clone() }, node.at)?;
    }
    Ok(())
}

/// Stops at what no value of `max_interfaces` allows, lest aliases make a file of many nets out
/// of a small one. The check at the end knows the value in force.
fn add(draft: &mut Draft, ni: NetConfig, at: Position) -> Result<(), Failure> {
    let max = usize::try_from(row("max_interfaces").max - 1).unwrap_or(usize::MAX);
    draft.config.nets.push(ni);
    draft.nets_at.push(at);
    let nets = draft.config.nets.len();
    if nets > max { Err((at, Inconsistency::TooManyNets { nets, max }.into())) } else { Ok(()) }
}

fn nid(node: &Node, net: Net) -> Result<InterfaceChoice, Failure> {
    let text = word(node, "nid", NID_EXAMPLE)?;
    let nid = text.parse::<Nid>().ok().filter(|nid| nid.net() == net);
    let host = nid.and_then(|nid| nid.ip()).filter(|ip| interface::is_host(*ip));
    host.map(InterfaceChoice::Address).ok_or_else(|| {
        let (what, found) = ("nid".to_owned(), clipped(text));
        let allowed = format!("an address of this node and @{net}");
        let example = format!("\"nid: 10.0.0.1@{net}\"");
        (node.at, Problem::BadValue { what, found, allowed, example })
    })
}

/// Reads `{0: eth0, 1: eth1}`.
fn interfaces(node: &Node) -> Result<Vec<InterfaceChoice>, Failure> {
    let pairs = match &node.content {
        Content::Null => return Ok(Vec::new()),
        Content::Mapping(pairs) => pairs,
        _ => return Err(wrong_shape(node, "interfaces", Shape::Mapping, INTERFACES_EXAMPLE)),
    };
    let mut places = Vec::new();
    for pair in pairs {
        let bad = |at: Position, found: &str, allowed: &str| {
            let (what, found) = ("interfaces".to_owned(), clipped(found));
            let (allowed, example) = (allowed.to_owned(), INTERFACES_EXAMPLE.to_owned());
            (at, Problem::BadValue { what, found, allowed, example })
        };
        if pair.key.is_empty() || !pair.key.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad(pair.at, &pair.key, "numbers from 0 as keys"));
        }
        let name = word(&pair.value, "an interface", INTERFACES_EXAMPLE)?;
        if !interface::is_name(name) {
            return Err(bad(pair.value.at, name, "names of interfaces, at most 15 letters long"));
        }
        places.push(InterfaceChoice::Interface(name.to_owned()));
    }
    Ok(places)
}

fn port(node: &Node) -> Result<u16, Failure> {
    let row = Tunable { name: "port", ..*row("accept_port") };
    Ok(number(node, "port", &row)? as u16)
}

fn tunables(reading: &mut Reading<'_>, ni: &mut NetConfig, node: &Node) -> Result<(), Failure> {
    for entry in reading.entries(node, &TUNABLES)? {
        let value = |row: &Tunable| number(entry.value, entry.key, row);
        match entry.key {
            "credits" => ni.credits = Some(value(row("credits"))? as u32),
            "peer_credits" => ni.peer_credits = Some(value(row("peer_credits"))? as u32),
            "peer_timeout" => ni.peer_timeout = Some(value(&PEER_TIMEOUT)? as i32),
            _ => ni.peer_buffer_credits = Some(value(&PEER_BUFFER_CREDITS)? as u32),
        }
    }
    Ok(())
}

fn lnd_tunables(reading: &mut Reading<'_>, ni: &mut NetConfig, node: &Node) -> Result<(), Failure> {
    for entry in reading.entries(node, &LND_TUNABLES)? {
        let value = |row: &Tunable| number(entry.value, entry.key, row);
        match entry.key {
            "conns_per_peer" => ni.conns_per_peer = Some(value(row("conns_per_peer"))? as u16),
            "timeout" => ni.timeout = Some(value(row("sock_timeout"))? as u32),
            _ => ni.tos = Some(value(row("tos"))? as i16),
        }
    }
    Ok(())
}

fn cpts(node: &Node) -> Result<String, Failure> {
    let text = word(node, "CPT", CPT_EXAMPLE)?;
    if interface::is_cpt_list(text) {
        return Ok(text.to_owned());
    }
    let (what, found) = ("CPT".to_owned(), clipped(text));
    let allowed = "a list of partitions as quoted text".to_owned();
    Err((node.at, Problem::BadValue { what, found, allowed, example: CPT_EXAMPLE.to_owned() }))
}

/// Values of an interface that are kept and change nothing, unless they ask for what is the case
/// anyway, as most of those in an export do.
pub(super) fn warn_of_the_ineffective(reading: &mut Reading<'_>, draft: &Draft) {
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
            (ni.cpts.is_some(), "CPT", "every partition serves every interface"),
        ] {
            if idle {
                reading.warn(*at, Problem::NoEffect { what, reason });
            }
        }
    }
}
