//! The running node, and the configuration that this host's node has or would have.

use std::time::Duration;

use lustrine_config::{InterfaceChoice, NetConfig};
use lustrine_control::{Answer, NetInfo, Request};
use lustrine_doctor::{
    ConfigView, HostView, InterfaceView, NiView, NodeView, PeerCredits, PlannedNi, SilentNode,
};
use lustrine_node::control::{self, ControlError};
use lustrine_node::kernel_file;
use lustrine_partition::tunables::Tunables;

use crate::access::ask_running;
use crate::common::{ControlOptions, NodeOptions};
use crate::output::Failure;

/// No more peers are listed.
const LISTED: usize = 1000;
/// Looks at messages that wait for credits, and the wait between them.
const LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What came of asking for the running node.
pub(super) enum Asked {
    Answered(NetInfo),
    /// The one of `--control` does not answer.
    Silent(SilentNode),
    /// Whether there is one is not known, or there is none.
    NotSeen(String),
}

/// Asks the running node.
///
/// # Errors
/// When the one of `--control` may not be asked, or is none.
pub(super) fn ask(options: &ControlOptions) -> Result<Asked, Failure> {
    let Some(socket) = &options.control else {
        return Ok(match ask_running(options, &Request::ShowNet) {
            Ok(Answer::Net(info)) => Asked::Answered(info),
            Ok(_) => Asked::NotSeen("it gave another answer".to_owned()),
            Err(why) => Asked::NotSeen(why.split(';').next().unwrap_or_default().to_owned()),
        });
    };
    let silent = |is_running, why: String| {
        Asked::Silent(SilentNode { socket: socket.display().to_string(), is_running, why })
    };
    match control::ask(socket, &Request::ShowNet) {
        Ok(Answer::Net(info)) => Ok(Asked::Answered(info)),
        Ok(_) => Ok(Asked::NotSeen("it gave another answer".to_owned())),
        Err(ControlError::NotRunning { error, .. }) => Ok(silent(false, error.to_string())),
        Err(error @ (ControlError::TimedOut(_) | ControlError::Closed(_))) => {
            Ok(silent(true, error.to_string()))
        }
        Err(error) => Err(error.to_string().into()),
    }
}

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
    let peers = || {
        let Ok(Answer::Peer { peers }) = ask_running(control, &Request::ShowPeer) else {
            return Vec::new();
        };
        let waited = peers.into_iter().filter(|row| row.credits_min < 0).take(LISTED);
        let credits = waited.map(|row| PeerCredits {
            nid: row.nid.to_string(),
            credits: row.credits,
            available: row.credits_available,
            min: row.credits_min,
        });
        credits.collect()
    };
    NodeView { identity: info.identity.clone(), nis: nis.collect(), peers: lasting(&peers) }
}

/// The same of a kernel's LNet, which only root can see.
pub(super) fn kernel() -> Option<NodeView> {
    let look = || NodeView::of_kernel(&kernel_file("nis")?, &kernel_file("peers")?);
    let first = look()?;
    Some(NodeView { peers: lasting(&|| look().map_or_else(Vec::new, |view| view.peers)), ..first })
}

/// The credits of peers. Where messages wait they are looked at again: a message waits for a moment
/// in every healthy node, and so do the answers to a look of another host.
fn lasting(look: &dyn Fn() -> Vec<PeerCredits>) -> Vec<PeerCredits> {
    let mut found = look();
    for _ in 1..LOOKS {
        if found.iter().all(|peer| peer.available >= 0) {
            break;
        }
        std::thread::sleep(LOOK_AGAIN);
        let later = look();
        for peer in &mut found {
            let now = later.iter().find(|one| one.nid == peer.nid);
            peer.available = peer.available.max(now.map_or(0, |one| one.available));
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn messages_wait_that_do_so_at_each_look() {
        let waits = |list: [[i64; 2]; 3]| {
            let look = Cell::new(0);
            let peers = lasting(&|| {
                let now = list[look.replace(look.get() + 1)];
                let peer = |(at, available): (usize, &i64)| PeerCredits {
                    nid: format!("10.0.0.{at}@tcp"),
                    credits: 8,
                    available: *available,
                    min: -20,
                };
                now.iter().enumerate().map(peer).collect()
            });
            (peers.iter().map(|peer| peer.available).collect::<Vec<_>>(), look.get())
        };
        assert_eq!(waits([[-3, 8], [-5, 8], [-1, 8]]), (vec![-1, 8], 3));
        assert_eq!(waits([[-3, -3], [-5, 2], [-7, -9]]), (vec![-3, 2], 3));
        assert_eq!(waits([[-3, 8], [4, 8], [0, 0]]), (vec![4, 8], 2));
        assert_eq!(waits([[1, 8], [0, 0], [0, 0]]), (vec![1, 8], 1));
    }
}
