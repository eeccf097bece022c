//! Whether the interfaces of a node are still what they were when it took them.
//!
//! A node keeps an interface whose address or link is gone: both may come back, and its connections
//! go on then. What is lost meanwhile is found out by time-outs. So this is only for people.

use std::net::IpAddr;

use lustrine_sys::interfaces::{LinkState, link_states};
use lustrine_wire::nid::Nid;

use crate::handle::{NodeHandle, NodeInfo};

impl NodeHandle {
    /// The NIDs of the node, each with the reason why it cannot be used now, if there is one. The
    /// reason names an interface and the state of the machine, such as `eth0 has no link`.
    pub fn interface_states(&self) -> Vec<(Nid, Option<String>)> {
        let info = self.info();
        let down = down(&info);
        info.nids.iter().copied().zip(down).collect()
    }
}

/// Why each interface of a node cannot be used, in order; `None`: it can, or the machine does not
/// say.
pub(crate) fn down(info: &NodeInfo) -> Vec<Option<String>> {
    let machine = link_states().ok();
    let nis = info.nids.iter().zip(&info.interfaces);
    let reason = |(nid, name): (&Nid, &Option<String>)| {
        reason(nid.ip()?, name.as_deref(), machine.as_deref()?)
    };
    nis.map(reason).collect()
}

/// Whether an address is on this machine; also if the machine does not say.
pub(crate) fn has_address(ip: IpAddr) -> bool {
    link_states().map_or(true, |machine| is_on(&machine, ip))
}

fn is_on(machine: &[LinkState], ip: IpAddr) -> bool {
    // All of 127.0.0.0/8 belongs to this machine, though no interface lists it.
    ip.is_loopback() || machine.iter().any(|link| link.ips.contains(&ip))
}

fn reason(ip: IpAddr, name: Option<&str>, machine: &[LinkState]) -> Option<String> {
    if !is_on(machine, ip) {
        let there = name.filter(|name| machine.iter().any(|link| link.name == *name));
        return Some(match (there, name) {
            (Some(name), _) => format!("{name} does not have this address any more"),
            (None, Some(name)) => format!("{name} does not exist any more, or has no address"),
            (None, None) => "no interface has this address any more".to_owned(),
        });
    }
    let link = machine.iter().find(|link| link.ips.contains(&ip))?;
    match link {
        LinkState { up: false, .. } => Some(format!("{} is switched off", link.name)),
        LinkState { running: false, .. } => Some(format!("{} has no link", link.name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_down_without_its_address_or_its_link() {
        let link = |name: &str, up, running, ip: &str| LinkState {
            name: name.to_owned(),
            up,
            running,
            ips: vec![ip.parse().unwrap()],
        };
        let machine = [
            link("eth0", true, true, "10.0.0.1"),
            link("eth1", true, false, "10.0.1.1"),
            link("eth2", false, false, "10.0.2.1"),
        ];
        let of = |ip: &str, name| reason(ip.parse().unwrap(), name, &machine);
        assert_eq!(of("10.0.0.1", Some("eth0")), None);
        assert_eq!(of("127.3.0.1", None), None);
        for (ip, name, expected) in [
            ("10.0.1.1", Some("eth1"), "eth1 has no link"),
            ("10.0.2.1", Some("eth2"), "eth2 is switched off"),
            ("10.0.0.9", Some("eth0"), "eth0 does not have this address any more"),
            ("10.0.0.9", Some("eth9"), "eth9 does not exist any more, or has no address"),
            ("10.0.0.9", None, "no interface has this address any more"),
        ] {
            assert_eq!(of(ip, name).as_deref(), Some(expected), "{ip} {name:?}");
        }
    }
}
