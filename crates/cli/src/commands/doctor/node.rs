//! The running node, and the configuration that this host's node has or would have.

use lustrine_config::{InterfaceChoice, NetConfig};
use lustrine_control::{Answer, NetInfo, Request};
use lustrine_doctor::{
    ConfigView, HostView, InterfaceView, NiView, NodeView, PeerCredits, PlannedNi,
};
use lustrine_node::kernel_file;
use lustrine_partition::tunables::Tunables;

use crate::access::ask_running;
use crate::common::{ControlOptions, NodeOptions};
use crate::output::Failure;

/// No more peers are listed.
const LISTED: usize = 1000;

/// What the running node says of its credits.
pub(super) fn view(info: &NetInfo, control: &ControlOptions) -> NodeView {
    let nis = info.nets.iter().map(|row| NiView {
        nid: row.nid.to_string(),
        interface: row.interface.clone(),
        conns_per_peer: Some(row.conns_per_peer),
        peer_credits: row.peer_credits,
        credits: row.credits,
        credits_min: row.credits_min,
    });
    let peers = match ask_running(control, &Request::ShowPeer) {
        Ok(Answer::Peer { peers }) => peers,
        _ => Vec::new(),
    };
    let waited = peers.into_iter().filter(|row| row.credits_min < 0).take(LISTED);
    NodeView {
        identity: info.identity.clone(),
        nis: nis.collect(),
        peers: waited
            .map(|row| PeerCredits {
                nid: row.nid.to_string(),
                credits: row.credits,
                available: row.credits_available,
                min: row.credits_min,
            })
            .collect(),
    }
}

/// The same of a kernel's LNet, which only root can see.
pub(super) fn kernel() -> Option<NodeView> {
    NodeView::of_kernel(&kernel_file("nis")?, &kernel_file("peers")?)
}

/// The configuration of the options, or else of the running node, and the tunables of the options.
pub(super) fn config(
    options: &NodeOptions,
    running: Option<&NetInfo>,
    host: &HostView,
) -> (Option<ConfigView>, Tunables) {
    let given = options.basic.config.is_some() || !options.basic.net.is_empty();
    let source = match &options.basic.config {
        Some(path) => path.display().to_string(),
        None if given => "--net".to_owned(),
        None => "the running node".to_owned(),
    };
    // Warnings are of those who start a node with it.
    match options.node_config(|_| {}) {
        Ok(config) if given => {
            let nis = config.nets.iter().map(|net| planned(net, host)).collect();
            (Some(ConfigView { source, problem: None, nis }), config.tunables)
        }
        Ok(config) => {
            let view =
                running.map(|info| ConfigView { source, problem: None, nis: of_node(info, host) });
            (view, config.tunables)
        }
        Err(Failure::Failed(why) | Failure::Usage(why) | Failure::Input(why)) => {
            let view = ConfigView { source, problem: Some(why), nis: Vec::new() };
            (Some(view), Tunables::default())
        }
        Err(_) => (None, Tunables::default()),
    }
}

fn of_node(info: &NetInfo, host: &HostView) -> Vec<PlannedNi> {
    let planned = |row: &lustrine_control::NetRow| {
        let address = row.nid.ip()?.to_string();
        let device = host.interfaces.iter().find(|one| one.addresses.contains(&address));
        Some(PlannedNi {
            net: row.nid.net().to_string(),
            place: row.interface.clone().unwrap_or_else(|| address.clone()),
            running: device.is_some_and(|device| device.running),
            address: device.map(|_| address),
        })
    };
    info.nets.iter().filter_map(planned).collect()
}

fn planned(net: &NetConfig, host: &HostView) -> PlannedNi {
    let named = |name: &str| host.interfaces.iter().find(|one| one.name == name);
    let with = |ip: &str| host.interfaces.iter().find(|one| one.addresses.iter().any(|a| a == ip));
    let first = |device: &InterfaceView| {
        let four = device.addresses.iter().find(|address| !address.contains(':'));
        four.or(device.addresses.first()).cloned()
    };
    let (place, device, address) = match &net.place {
        InterfaceChoice::Interface(name) => {
            let device = named(name);
            (name.clone(), device, device.and_then(first))
        }
        InterfaceChoice::Address(ip) => {
            let ip = ip.to_string();
            let device = with(&ip);
            (ip.clone(), device, device.map(|_| ip))
        }
        InterfaceChoice::Default => {
            let usable = |one: &&InterfaceView| one.running && one.name != "lo";
            let device = host.interfaces.iter().find(usable);
            let name = device.map_or("the default interface", |device| &device.name);
            (name.to_owned(), device, device.and_then(first))
        }
    };
    PlannedNi {
        net: net.net.to_string(),
        place,
        running: device.is_some_and(|device| device.running) && address.is_some(),
        address,
    }
}
