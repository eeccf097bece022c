//! Groups of nodes, and what a file sets for all of them.

use lustrine_lnet::time::Nanos;
use lustrine_lnet::tunables::Tunable;
use lustrine_partition::tunables::{TABLE, Tunables};
use lustrine_sim::CpuCost;
use lustrine_sim::fabric::Rate;
use lustrine_sim::tcp::{Algorithm, IdleRestart, TcpSpec};
use lustrine_wire::nid::Net;
use lustrine_yaml::clipped;

use super::links::{GivenQueue, link_spec};
use super::{Names, name_is_good, named, named_items};
use crate::model::{Group, NODES_MAX};
use lustrine_document::Node;
use lustrine_document::{BYTES, DURATION};
use lustrine_document::{Fields, Reader, Section, decimal, nearest, read_keys};
use lustrine_document::{Location, Problem};

/// Largest number of groups.
const GROUPS_MAX: usize = 1000;

/// The interface of a group that does not describe one: 10 Gb/s, 5 us.
const INTERFACE_BITS: u64 = 10_000_000_000;
const INTERFACE_DELAY: Nanos = Nanos(5_000);

/// Tunables of the machine, which have no meaning in virtual time.
const OF_MACHINES: [&str; 2] = ["cpu_npartitions", "spin_us"];

pub(super) const GROUP: Section = Section::new(
    "a group",
    &read_keys([
        "count",
        "site",
        "interface",
        "delay",
        "queue",
        "loss",
        "jitter",
        "net",
        "tunables",
        "cost",
        "tcp",
    ]),
    "\"clients: {count: 30, interface: 10 Gb/s}\"",
);

pub(super) const COST: Section =
    Section::new("cost", &read_keys(["message", "MiB"]), "\"cost: {message: 2 us, MiB: 80 us}\"");

pub(super) const TCP: Section = Section::new(
    "tcp",
    &read_keys([
        "congestion",
        "send_buffer",
        "receive_buffer",
        "segment",
        "initial_window",
        "hystart",
        "txqueuelen",
        "idle_restart",
    ]),
    "\"tcp: {congestion: cubic, send_buffer: 64 MiB}\"",
);

/// The words for congestion control.
const CONGESTIONS: [(&str, Algorithm); 5] = [
    ("cubic", Algorithm::Cubic),
    ("bic", Algorithm::Bic),
    ("bic-paper", Algorithm::BicPaper),
    ("bbr", Algorithm::Bbr),
    ("fixed", Algorithm::Fixed),
];

/// The words for a switch.
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// The words for what an idle time does to the congestion window.
const IDLE_RESTARTS: [(&str, IdleRestart); 2] =
    [("shrink", IdleRestart::Shrink), ("keep", IdleRestart::Keep)];

/// The values of groups that do not set their own.
pub(super) struct Defaults {
    tunables: Tunables,
    tcp: TcpSpec,
}

impl Defaults {
    pub(super) fn read(reader: &mut Reader, file: &Fields<'_>) -> Defaults {
        let tunables = tunables(reader, file.value("tunables"), Tunables::default());
        Defaults { tunables, tcp: read_tcp(reader, file.value("tcp"), TcpSpec::default()) }
    }
}

pub(super) fn read(
    reader: &mut Reader,
    file: &Fields<'_>,
    sites: &Names,
    defaults: &Defaults,
    queues: &mut Vec<GivenQueue>,
) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut nodes = 0;
    for (name, at, node) in
        named_items(reader, file.value("groups"), "groups", "\"groups: {clients: {count: 30}}\"")
    {
        if groups.len() == GROUPS_MAX {
            let what = format!(
                "too many groups; allowed: {GROUPS_MAX}; for example groups with a \"count\""
            );
            reader.report(Problem::new(at, what));
            break;
        }
        name_is_good(reader, at, "a group's name", name);
        if TABLE.iter().any(|row| row.name == name || row.lnet_name == name) {
            let what = format!(
                "a group cannot be called {name:?}, which is a tunable; allowed: other names; \
                 for example \"clients\""
            );
            reader.report(Problem::new(at, what));
        }
        let group = group(reader, (name, at, node), sites, defaults, queues);
        nodes += u64::from(group.count);
        groups.push(group);
        if nodes > u64::from(NODES_MAX) {
            let what = format!(
                "{nodes} nodes up to this group are too many; allowed: {NODES_MAX} in all; for \
                 example a smaller count"
            );
            reader.report(Problem::new(at, what));
            break;
        }
    }
    if groups.is_empty() {
        reader.missing(file, "groups", "\"groups: {clients: {count: 30}, servers: {count: 16}}\"");
    }
    groups
}

fn group(
    reader: &mut Reader,
    (name, at, node): (&str, &Location, &Node),
    sites: &Names,
    defaults: &Defaults,
    queues: &mut Vec<GivenQueue>,
) -> Group {
    let fields = reader.fields(node, GROUP);
    let count = reader
        .count(&fields, "count", 1..=u64::from(NODES_MAX), "\"count: 30\"")
        .map_or(1, |count| u32::try_from(count).expect("within its range"));
    let site = match fields.value("site") {
        Some(node) => named(reader, node, "site", "site", sites).unwrap_or_default(),
        None if sites.len() > 1 => {
            let what = format!(
                "group {name:?} without \"site\"; allowed: only with it, as there are {} sites; \
                 for example \"site: {}\"",
                sites.len(),
                sites.keys().next().map_or("", String::as_str)
            );
            reader.report(Problem::new(at, what));
            0
        }
        None => 0,
    };
    let mut interface = link_spec(reader, &fields, "interface", queues);
    if !fields.has("interface") {
        interface.rate = Rate::from_bits(INTERFACE_BITS);
    }
    if !fields.has("delay") {
        interface.delay = INTERFACE_DELAY;
    }
    let tcp = read_tcp(reader, fields.value("tcp"), defaults.tcp);
    Group {
        name: name.to_owned(),
        count,
        site,
        net: net(reader, &fields).unwrap_or_else(|| "tcp".parse().expect("a net")),
        interface,
        tunables: tunables(reader, fields.value("tunables"), defaults.tunables.clone()),
        cost: cost(reader, fields.value("cost")),
        tcp,
    }
}

fn net(reader: &mut Reader, fields: &Fields<'_>) -> Option<Net> {
    let node = fields.value("net")?;
    let text = reader.word(node, "net", "\"net: tcp1\"")?;
    let net = text.parse::<Net>().ok().filter(|net| net.to_string().starts_with("tcp"));
    if net.is_none() {
        let allowed = "tcp, or tcp with a number up to 65535";
        reader.report(Problem::value(&node.at, "net", text, allowed, "\"net: tcp1\""));
    }
    net
}

fn tunables(reader: &mut Reader, node: Option<&Node>, mut values: Tunables) -> Tunables {
    const EXAMPLE: &str = "\"tunables: {peer_credits: 32, credits: 1024}\"";
    for (name, at, node) in named_items(reader, node, "tunables", EXAMPLE) {
        let Some(row) = tunable(reader, name, at) else { continue };
        let example = format!("\"{}: {}\"", row.name, row.default);
        let Some(text) = reader.word(node, name, &example) else { continue };
        let value = match text {
            "true" | "True" if row.unit == "0/1" => Some(1),
            "false" | "False" if row.unit == "0/1" => Some(0),
            _ => decimal(text),
        };
        match value.map(|value| values.set(row.name, value)) {
            Some(Ok(())) => {}
            _ => {
                let unit = match row.unit {
                    "" | "0/1" => String::new(),
                    unit => format!(" (in {unit}, written without the unit)"),
                };
                let allowed = format!("a whole number from {} to {}{unit}", row.min, row.max);
                reader.report(Problem::value(&node.at, name, text, &allowed, &example));
            }
        }
    }
    values
}

/// The row of a tunable. `None`, after a problem was reported, if the name is unknown.
fn tunable(reader: &mut Reader, name: &str, at: &Location) -> Option<&'static Tunable> {
    let found = TABLE.iter().find(|row| row.name == name || row.lnet_name == name);
    let simulated = found.filter(|row| !OF_MACHINES.contains(&row.name));
    if simulated.is_some() {
        return simulated;
    }
    let what = match found {
        Some(row) => format!(
            "{:?} is about the CPUs of a machine and changes nothing here; allowed: what \
             docs/tunables.md lists but for {}; for example \"cost: {{message: 2 us}}\"",
            row.name,
            OF_MACHINES.join(", ")
        ),
        None => {
            let names = TABLE.iter().flat_map(|row| [row.name, row.lnet_name]);
            let hint = match nearest(name, names.filter(|name| !name.is_empty())) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "for example \"peer_credits: 32\"".to_owned(),
            };
            let name = clipped(name);
            format!("no tunable is called {name:?}; allowed: those of docs/tunables.md; {hint}")
        }
    };
    reader.report(Problem::new(at, what));
    None
}

fn cost(reader: &mut Reader, node: Option<&Node>) -> CpuCost {
    let Some(node) = node else { return CpuCost::default() };
    let fields = reader.fields(node, COST);
    let mut time = |key| {
        let time = reader.quantity(&fields, key, &DURATION, 0..=1_000_000_000);
        Nanos(time.unwrap_or_default())
    };
    CpuCost { per_message: time("message"), per_mib: time("MiB") }
}

fn read_tcp(reader: &mut Reader, node: Option<&Node>, usual: TcpSpec) -> TcpSpec {
    let Some(node) = node else { return usual };
    let fields = reader.fields(node, TCP);
    let mut buffer = |key| reader.quantity(&fields, key, &BYTES, 4096..=16 << 30);
    let (send, receive) = (buffer("send_buffer"), buffer("receive_buffer"));
    let small = |value: Option<u64>| value.map(|v| u32::try_from(v).expect("within its range"));
    let segment = small(reader.quantity(&fields, "segment", &BYTES, 536..=65_483));
    let window =
        small(reader.count(&fields, "initial_window", 1..=10_000, "\"initial_window: 10\""));
    let txqueuelen =
        small(reader.count(&fields, "txqueuelen", 1..=1_000_000, "\"txqueuelen: 10000\""));
    TcpSpec {
        algorithm: reader.choice(&fields, "congestion", &CONGESTIONS).unwrap_or(usual.algorithm),
        send_buffer: send.unwrap_or(usual.send_buffer),
        receive_buffer: receive.unwrap_or(usual.receive_buffer),
        segment: segment.unwrap_or(usual.segment),
        initial_window: window.unwrap_or(usual.initial_window),
        hystart: reader.choice(&fields, "hystart", &SWITCH).unwrap_or(usual.hystart),
        txqueuelen: txqueuelen.or(usual.txqueuelen),
        idle_restart: reader
            .choice(&fields, "idle_restart", &IDLE_RESTARTS)
            .unwrap_or(usual.idle_restart),
    }
}
