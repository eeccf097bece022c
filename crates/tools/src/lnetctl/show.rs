//! The `show` commands: interfaces, peers, counters, settings [TOOL-13] [TOOL-14].

use std::collections::BTreeMap;

use lustrine_control::{Messages, NetInfo, NetRow, PeerNiRow, PeerRow};
use lustrine_wire::nid::{Net, Nid};

use super::{Lnetctl, REFUSED};
use crate::errno::{EINVAL, ENETDOWN};
use crate::node::Env;
use crate::parse::Parsed;
use crate::shell::{Compat, Exit};
use crate::yaml::{Dialect, Map, Yaml, entry};

/// What the real tool says of a network that no interface is on.
const NO_SUCH_NET: i32 = -3;

/// The counters of `stats show`, in its order, without those that Lustrine nodes do not have.
const COUNTERS: [&str; 14] = [
    "msgs_alloc",
    "msgs_max",
    "errors",
    "send_count",
    "response_timeout_count",
    "local_error_count",
    "remote_dropped_count",
    "remote_error_count",
    "network_timeout_count",
    "recv_count",
    "drop_count",
    "send_length",
    "recv_length",
    "drop_length",
];

/// The settings of `global show`, in its order, without those that Lustrine nodes do not have.
const GLOBAL: [&str; 5] =
    ["max_interfaces", "discovery", "retry_count", "transaction_timeout", "lnd_timeout"];

/// The operations whose latencies are shown, in lnetctl's order.
const OPERATIONS: [&str; 3] = ["put_egress", "get_rtt", "put_ack"];

impl<O: Env> Lnetctl<'_, O> {
    pub(super) fn show_net(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let wanted = match parsed.text("net").map(|text| (text, text.parse::<Net>())) {
            None => None,
            Some((_, Ok(net))) => Some(net),
            Some((text, Err(why))) => {
                let said = format!("cannot parse net '{text}': {why}");
                return Err(self.fail("show", "net", -(EINVAL as i32), said));
            }
        };
        let level = parsed.count("verbose");
        let nis = self.nis("net")?;
        let tunables = match level {
            0 => BTreeMap::new(),
            _ => self.tunables("net")?,
        };
        let mut nets = nets(&nis, &tunables, level);
        if let Some(wanted) = wanted {
            nets.retain(|(net, _)| *net == wanted);
            if nets.is_empty() {
                let said = crate::errno::text(-(ENETDOWN as i32)).into_owned();
                return Err(self.fail("show", "net", NO_SUCH_NET, said));
            }
        }
        self.print(&vec![entry("net", listed(nets))], self.dialect());
        Ok(())
    }

    pub(super) fn show_peer(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let wanted = match parsed.text("nid").map(|text| (text, text.parse::<Nid>())) {
            None => None,
            Some((_, Ok(nid))) => Some(nid),
            Some((text, Err(why))) => {
                let said = format!("cannot parse nid '{text}': {why}");
                return Err(self.fail("show", "peer", -(EINVAL as i32), said));
            }
        };
        let mut nodes = nodes(self.peers("peer")?);
        if let Some(wanted) = wanted {
            nodes.retain(|node| node.nis.iter().any(|ni| ni.nid == wanted));
            if nodes.is_empty() {
                // As recorded: no message, but an exit status.
                return Err(match self.settings.compat {
                    Compat::V2_15 => Exit::FAILURE,
                    Compat::V2_16 => REFUSED,
                });
            }
        }
        // An empty result prints nothing.
        if !nodes.is_empty() {
            let level = parsed.count("verbose");
            let items: Vec<Map> = nodes.iter().map(|node| node.shown(level)).collect();
            self.print(&vec![entry("peer", items)], self.dialect());
        }
        Ok(())
    }

    pub(super) fn list_peers(&mut self) -> Result<(), Exit> {
        let nodes = nodes(self.peers("peer")?);
        if !nodes.is_empty() {
            let items: Vec<Map> = nodes.iter().map(|n| vec![entry("nid", n.primary)]).collect();
            self.print(&vec![entry("peer list", items)], self.dialect());
        }
        Ok(())
    }

    pub(super) fn show_stats(&mut self) -> Result<(), Exit> {
        let counters = match self.env.counters() {
            Ok(counters) => counters,
            Err(trouble) => return Err(self.fail_with("show", "statistics", trouble)),
        };
        let known = |name: &str| Some(entry(name, *counters.get(name)?));
        let map: Map = COUNTERS.into_iter().filter_map(known).collect();
        self.print(&vec![entry("statistics", map)], Dialect::A);
        Ok(())
    }

    pub(super) fn show_global(&mut self) -> Result<(), Exit> {
        let global = global(&self.tunables("global")?);
        self.print(&vec![entry("global", global)], Dialect::A);
        Ok(())
    }

    /// Shows an empty table, of a feature that is not supported, if there is a node.
    pub(super) fn show_none(&mut self, noun: &str) -> Result<(), Exit> {
        self.nis(noun).map(|_| ())
    }

    pub(super) fn nis(&mut self, noun: &str) -> Result<NetInfo, Exit> {
        let rows = self.env.nis();
        let mut nis = rows.map_err(|trouble| self.fail_with("show", noun, trouble))?;
        nis.nets.iter_mut().for_each(|ni| self.leave_out(&mut ni.messages));
        Ok(nis)
    }

    pub(super) fn peers(&mut self, noun: &str) -> Result<Vec<PeerRow>, Exit> {
        let rows = self.env.peers();
        let mut peers = rows.map_err(|trouble| self.fail_with("show", noun, trouble))?;
        peers.iter_mut().for_each(|peer| self.leave_out(&mut peer.messages));
        Ok(peers)
    }

    /// Removes what the selected release does not have [TOOL-13].
    fn leave_out(&self, messages: &mut Messages) {
        if self.settings.compat == Compat::V2_15 {
            messages.latency.clear();
        }
    }

    pub(super) fn tunables(&mut self, noun: &str) -> Result<BTreeMap<String, i64>, Exit> {
        self.env.tunables().map_err(|trouble| self.fail_with("show", noun, trouble))
    }
}

/// The settings that are global to LNet.
pub(super) fn global(tunables: &BTreeMap<String, i64>) -> Map {
    let known = |name: &str| Some(entry(name, *tunables.get(name)?));
    GLOBAL.into_iter().filter_map(known).collect()
}

/// Items of `net`, each with its interfaces.
pub(super) fn listed(nets: Vec<(Net, Vec<Map>)>) -> Vec<Map> {
    let item = |(net, nis): (Net, Vec<Map>)| {
        vec![entry("net type", net.to_string()), entry("local NI(s)", nis)]
    };
    nets.into_iter().map(item).collect()
}

/// Interfaces by network, the loopback first.
pub(super) fn nets(
    nis: &NetInfo,
    tunables: &BTreeMap<String, i64>,
    level: u32,
) -> Vec<(Net, Vec<Map>)> {
    let lo = vec![entry("nid", Nid::LO), entry("status", "up")];
    let mut nets = vec![(Net::LO, vec![lo])];
    for ni in &nis.nets {
        let status = if ni.down.is_none() { "up" } else { "down" };
        let mut shown = vec![entry("nid", ni.nid), entry("status", status)];
        shown.extend(interfaces(ni));
        if level > 0 {
            shown.push(statistics(&ni.messages));
            shown.extend(tuned(ni, tunables));
            let cpts: Vec<String> = (0..nis.cpts.len()).map(|cpt| cpt.to_string()).collect();
            shown.push(entry("CPT", format!("\"[{}]\"", cpts.join(","))));
        }
        add(&mut nets, ni.nid.net(), shown);
    }
    nets
}

/// Adds an interface to those of its network.
fn add(nets: &mut Vec<(Net, Vec<Map>)>, net: Net, ni: Map) {
    match nets.iter_mut().find(|(other, _)| *other == net) {
        Some((_, nis)) => nis.push(ni),
        None => nets.push((net, vec![ni])),
    }
}

fn interfaces(ni: &NetRow) -> Option<(String, Yaml)> {
    let name = ni.interface.as_deref()?;
    Some(entry("interfaces", vec![entry("0", name)]))
}

/// The tunables of an interface; all interfaces share one time-out and one type of service.
fn tuned(ni: &NetRow, tunables: &BTreeMap<String, i64>) -> Map {
    let mut lnd = vec![entry("conns_per_peer", ni.conns_per_peer)];
    for (key, tunable) in [("timeout", "sock_timeout"), ("tos", "tos")] {
        lnd.extend(tunables.get(tunable).map(|value| entry(key, *value)));
    }
    let credits =
        vec![entry("peer_credits", ni.peer_credits), entry("credits", ni.credits_configured)];
    vec![entry("tunables", credits), entry("lnd tunables", lnd)]
}

fn statistics(messages: &Messages) -> (String, Yaml) {
    let mut counts = vec![
        entry("send_count", messages.sent),
        entry("recv_count", messages.received),
        entry("drop_count", messages.dropped),
    ];
    for operation in OPERATIONS {
        let Some(latency) = messages.latency.get(operation) else { continue };
        counts.extend([
            entry(&format!("{operation}_samples"), latency.samples),
            entry(&format!("{operation}_min_nsec"), latency.min_nsec),
            entry(&format!("{operation}_max_nsec"), latency.max_nsec),
            entry(&format!("{operation}_avg_nsec"), latency.avg_nsec),
        ]);
    }
    entry("statistics", counts)
}

/// A peer with all its NIDs.
pub(super) struct Node {
    pub(super) primary: Nid,
    multi_rail: bool,
    nis: Vec<NodeNi>,
}

/// A NID of a peer.
struct NodeNi {
    nid: Nid,
    /// The state that the peer announces.
    up: Option<bool>,
    /// What the node knows about it, after messages were exchanged with it.
    used: Option<PeerRow>,
}

/// Peers, in the order of their first NIDs.
pub(super) fn nodes(rows: Vec<PeerRow>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut places: BTreeMap<Nid, usize> = BTreeMap::new();
    for row in rows {
        let identity = &row.identity;
        let primary = identity.primary_nid;
        let place = *places.entry(primary).or_insert_with(|| {
            let advertised = identity.peer_ni.iter().filter(|ni| !ni.nid.is_lo());
            let ni = |&PeerNiRow { nid, up }: &PeerNiRow| NodeNi { nid, up: Some(up), used: None };
            nodes.push(Node { primary, multi_rail: false, nis: advertised.map(ni).collect() });
            nodes.len() - 1
        });
        let node = &mut nodes[place];
        node.multi_rail |= identity.multi_rail;
        match node.nis.iter_mut().find(|ni| ni.nid == row.nid) {
            Some(ni) => ni.used = Some(row),
            None => node.nis.push(NodeNi { nid: row.nid, up: None, used: Some(row) }),
        }
    }
    nodes
}

impl Node {
    /// All its NIDs.
    pub(super) fn nids(&self) -> impl Iterator<Item = Nid> {
        self.nis.iter().map(|ni| ni.nid).chain([self.primary])
    }

    /// As an item of `peer`.
    pub(super) fn shown(&self, level: u32) -> Map {
        let nis: Vec<Map> = self.nis.iter().map(|ni| ni.shown(level)).collect();
        vec![
            entry("primary nid", self.primary),
            entry("Multi-Rail", self.multi_rail),
            entry("peer ni", nis),
        ]
    }
}

impl NodeNi {
    fn shown(&self, level: u32) -> Map {
        let state = match self.up {
            Some(true) => "up",
            Some(false) => "down",
            None => "NA",
        };
        let mut shown = vec![entry("nid", self.nid), entry("state", state)];
        if let (1.., Some(used)) = (level, &self.used) {
            shown.extend([
                entry("max_ni_tx_credits", used.credits),
                entry("available_tx_credits", used.credits_available),
                entry("min_tx_credits", used.credits_min),
                statistics(&used.messages),
            ]);
        }
        shown
    }
}
