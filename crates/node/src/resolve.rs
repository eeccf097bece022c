//! Applies a configuration to this machine: its addresses, identity, numbers of connections.

use std::io;
use std::net::IpAddr;

use lustrine_config::{
    IdentityChoice, InterfaceChoice, NetConfig, NetDriver, NodeConfig, ResolvedNi,
};
use lustrine_lnet::topology::Identity;
use lustrine_partition::tunables::Tunables;
use lustrine_sys::{Interface, InterfaceAddr, interfaces, privileged_ports_usable};
use lustrine_wire::nid::Nid;

/// Why a configuration does not fit this machine.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No net at all.
    #[error("no net is configured; give one, for example --net tcp=eth0 or --net tcp=127.0.0.1")]
    NoNet,
    /// This kind of network has no driver, see [`NetDriver`].
    #[error("net {0}: only tcp nets have a driver in this release")]
    NoDriver(lustrine_wire::nid::Net),
    /// There is no such interface.
    #[error("net {net}: no interface is called {name:?}; this machine has {known}")]
    NoInterface {
        /// The net.
        net: lustrine_wire::nid::Net,
        /// The name given.
        name: String,
        /// The interfaces of this machine.
        known: String,
    },
    /// The interface has no address.
    #[error("net {net}: interface {name} has no IP address, or is down")]
    NoAddress {
        /// The net.
        net: lustrine_wire::nid::Net,
        /// The interface.
        name: String,
    },
    /// Nothing but the loopback is up.
    #[error(
        "net {0}: no interface is up but the loopback; name an address, for example \
         --net tcp=127.0.0.1"
    )]
    NothingUp(lustrine_wire::nid::Net),
    /// The address is not on this machine.
    #[error("net {net}: {ip} is not an address of this machine; it has {known}")]
    NotOurs {
        /// The net.
        net: lustrine_wire::nid::Net,
        /// The address given.
        ip: IpAddr,
        /// The addresses of this machine.
        known: String,
    },
    /// The same NID twice.
    #[error("{0} is configured twice")]
    Twice(Nid),
    /// The node identity was requested and is not possible.
    #[error(
        "node identity needs source ports below 1024, which this process may not bind: run as \
         root, grant CAP_NET_BIND_SERVICE, set net.ipv4.ip_unprivileged_port_start=0 in its \
         container, or use --identity userland"
    )]
    NoPrivilege,
    /// A net whose port, credits or connections are invalid.
    #[error("net {net}: {what}")]
    BadValue {
        /// The net.
        net: lustrine_wire::nid::Net,
        /// What is wrong.
        what: String,
    },
    /// The interfaces cannot be listed.
    #[error("cannot list this machine's interfaces: {0}")]
    System(#[from] io::Error),
}

/// The effective identity and the reason for it, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedIdentity {
    pub(crate) identity: Identity,
    pub(crate) reason: &'static str,
}

/// The properties of one more interface on this machine.
pub(crate) fn resolve_one(
    net: &NetConfig,
    tunables: &Tunables,
) -> Result<ResolvedNi, ResolveError> {
    resolve_ni(net, tunables, &interfaces::interfaces()?)
}

pub(crate) fn resolve_nis(config: &NodeConfig) -> Result<Vec<ResolvedNi>, ResolveError> {
    if config.nets.is_empty() {
        return Err(ResolveError::NoNet);
    }
    let machine = interfaces::interfaces()?;
    let mut nis: Vec<ResolvedNi> = Vec::new();
    for net in &config.nets {
        let ni = resolve_ni(net, &config.tunables, &machine)?;
        if net.place == InterfaceChoice::Default {
            log_default(&ni, &machine);
        }
        if nis.iter().any(|other| other.nid == ni.nid) {
            return Err(ResolveError::Twice(ni.nid));
        }
        nis.push(ni);
    }
    Ok(nis)
}

fn resolve_ni(
    config: &NetConfig,
    tunables: &Tunables,
    machine: &[Interface],
) -> Result<ResolvedNi, ResolveError> {
    let net = config.net;
    match NetDriver::of(net.kind) {
        None => Err(ResolveError::NoDriver(net)),
        Some(NetDriver::Socklnd) => resolve_socklnd(config, tunables, machine),
    }
}

/// An interface of the TCP driver: it needs an address.
fn resolve_socklnd(
    config: &NetConfig,
    tunables: &Tunables,
    machine: &[Interface],
) -> Result<ResolvedNi, ResolveError> {
    let net = config.net;
    let (ip, interface) = find_address(config, machine)?;
    let port = config.port.unwrap_or(tunables.socklnd.accept_port as u16);
    let port_bulk = match tunables.socklnd.accept_port_bulk {
        0 => port,
        bulk => bulk as u16,
    };
    let speed = interface.and_then(|interface| interface.speed_mbps);
    let conns = config.conns_per_peer.unwrap_or(tunables.socklnd.conns_per_peer as u16);
    let credits = config.credits.unwrap_or(tunables.lnet.credits as u32);
    let peer_credits = config.peer_credits.unwrap_or(tunables.lnet.peer_credits as u32);
    if port == 0 {
        let what = "peers cannot connect to port 0".to_owned();
        return Err(ResolveError::BadValue { net, what });
    }
    if peer_credits > credits {
        let what = format!("peer_credits {peer_credits} must not exceed credits {credits}");
        return Err(ResolveError::BadValue { net, what });
    }
    Ok(ResolvedNi {
        nid: Nid::from_ip(net, ip),
        ip,
        interface: interface.map(|interface| interface.name.clone()),
        port,
        port_bulk,
        conns_per_peer: if conns == 0 { conns_for_speed(speed) } else { conns },
        credits,
        peer_credits,
    })
}

fn find_address<'a>(
    config: &NetConfig,
    machine: &'a [Interface],
) -> Result<(IpAddr, Option<&'a Interface>), ResolveError> {
    let net = config.net;
    match &config.place {
        InterfaceChoice::Address(ip) => {
            let owner =
                machine.iter().find(|interface| interface.addrs.iter().any(|addr| addr.ip == *ip));
            // All of 127.0.0.0/8 belongs to this machine, though no interface lists it.
            let loopback = matches!(ip, IpAddr::V4(ip) if ip.is_loopback());
            if owner.is_none() && !loopback {
                return Err(ResolveError::NotOurs { net, ip: *ip, known: addresses(machine) });
            }
            Ok((*ip, owner))
        }
        InterfaceChoice::Interface(name) => {
            let Some(interface) = machine.iter().find(|interface| interface.name == *name) else {
                let names: Vec<&str> = machine.iter().map(|i| i.name.as_str()).collect();
                let known = names.join(", ");
                return Err(ResolveError::NoInterface { net, name: name.clone(), known });
            };
            let ip = first_address(interface)
                .ok_or_else(|| ResolveError::NoAddress { net, name: name.clone() })?;
            Ok((ip, Some(interface)))
        }
        InterfaceChoice::Default => {
            let (interface, ip) = candidates(machine)
                .min_by_key(|(interface, _)| rank(interface))
                .ok_or(ResolveError::NothingUp(net))?;
            Ok((ip, Some(interface)))
        }
    }
}

/// The interfaces that a net without a place can be on, in the machine's order, which is that of
/// their age.
fn candidates(machine: &[Interface]) -> impl Iterator<Item = (&Interface, IpAddr)> {
    let others = machine.iter().filter(|interface| !interface.loopback);
    others.filter_map(|interface| Some((interface, first_address(interface)?)))
}

/// The least one is the default. Bridges of containers and tunnels are hardly ever meant, also
/// while the hardware has no link yet; a namespace may have nothing else. An interface without a
/// link reaches no peer.
fn rank(interface: &Interface) -> (bool, bool) {
    (!interface.hardware, !interface.running)
}

/// Says which interface is the default, and which others could have been.
fn log_default(ni: &ResolvedNi, machine: &[Interface]) {
    let Some(name) = &ni.interface else { return };
    let others = candidates(machine).map(|(other, _)| other.name.as_str());
    let others: Vec<&str> = others.filter(|other| other != name).collect();
    tracing::info!(
        nid = %ni.nid,
        interface = name,
        others = others.join(", "),
        "no interface is named, so the default one is used"
    );
}

/// IPv4 first: IPv6 NIDs are rare in this field. Addresses that pass come last.
fn first_address(interface: &Interface) -> Option<IpAddr> {
    let usable = |addr: &&InterfaceAddr| match addr.ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    let first = interface.addrs.iter().filter(usable).filter(|_| interface.up);
    first.min_by_key(|addr| (addr.ip.is_ipv6(), !addr.stable)).map(|addr| addr.ip)
}

/// All addresses with their interfaces: a link-local one means nothing without.
fn addresses(machine: &[Interface]) -> String {
    let all: Vec<String> = machine
        .iter()
        .flat_map(|interface| {
            interface.addrs.iter().map(|addr| format!("{} ({})", addr.ip, interface.name))
        })
        .collect();
    all.join(", ")
}

/// Bulk connections of each direction for a link's speed in Mb/s [SOCK-2].
pub fn conns_for_speed(mbps: Option<u32>) -> u16 {
    let gigabits = mbps.unwrap_or(1000).max(1000) / 1000;
    (gigabits.ilog2() / 2 + 1) as u16
}

pub(crate) fn resolve_identity(
    choice: IdentityChoice,
    nis: &[ResolvedNi],
) -> Result<ResolvedIdentity, ResolveError> {
    let usable = || -> io::Result<bool> {
        for ni in nis {
            if !privileged_ports_usable(Some(ni.ip))? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let (identity, reason) = match choice {
        IdentityChoice::Userland => (Identity::Userland, "asked for"),
        IdentityChoice::Node if usable()? => (Identity::Node, "asked for"),
        IdentityChoice::Node => return Err(ResolveError::NoPrivilege),
        IdentityChoice::Auto if usable()? => {
            (Identity::Node, "this process may bind source ports below 1024")
        }
        IdentityChoice::Auto => {
            (Identity::Userland, "this process may not bind source ports below 1024")
        }
    };
    Ok(ResolvedIdentity { identity, reason })
}

#[cfg(test)]
mod tests {
    use lustrine_wire::nid::Net;

    use super::*;

    /// A device that is up, in the order of their age.
    fn device(name: &str, (running, hardware): (bool, bool), ips: &[&str]) -> Interface {
        let stable = |ip: &&str| !ip.starts_with("2001:db8::bad");
        let addr = |ip: &&str| InterfaceAddr {
            ip: ip.parse().unwrap(),
            prefix_len: 24,
            stable: stable(ip),
        };
        Interface {
            name: name.to_owned(),
            index: 0,
            hardware,
            addrs: ips.iter().map(addr).collect(),
            up: true,
            running,
            loopback: name == "lo",
            mtu: None,
            speed_mbps: None,
            numa_node: None,
        }
    }

    fn default_of(machine: &[Interface]) -> Option<(String, String)> {
        let net = NetConfig::new(Net::TCP, InterfaceChoice::Default);
        let (ip, interface) = find_address(&net, machine).ok()?;
        Some((interface?.name.clone(), ip.to_string()))
    }

    #[test]
    fn the_default_is_the_oldest_hardware_with_a_link() {
        let lo = || device("lo", (true, false), &["127.0.0.1"]);
        let ens3 = |running| device("ens3", (running, true), &["10.0.0.3"]);
        let ens4 = || device("ens4", (true, true), &["10.0.0.4"]);
        let docker0 = |running| device("docker0", (running, false), &["172.17.0.1"]);
        let bare = || device("ens1", (true, true), &["fe80::1"]);
        let down = || Interface { up: false, running: false, ..ens4() };
        for (machine, expected) in [
            (vec![lo(), bare(), docker0(true), ens3(true), ens4()], Some("ens3")),
            (vec![lo(), ens3(false), ens4(), docker0(true)], Some("ens4")),
            (vec![lo(), ens3(false), docker0(false)], Some("ens3")),
            (vec![lo(), ens3(false), docker0(true)], Some("ens3")),
            (vec![lo(), device("eth0", (true, false), &["10.1.0.1"])], Some("eth0")),
            (vec![lo(), down()], None),
        ] {
            let chosen = default_of(&machine).map(|(name, _)| name);
            assert_eq!(chosen.as_deref(), expected, "{machine:?}");
        }
    }

    #[test]
    fn an_address_that_passes_is_taken_only_if_there_is_no_other() {
        let of = |ips: &[&str]| default_of(&[device("ens3", (true, true), ips)]).unwrap().1;
        assert_eq!(of(&["2001:db8::bad", "2001:db8::1", "2001:db8::2"]), "2001:db8::1");
        assert_eq!(of(&["fe80::1", "2001:db8::bad"]), "2001:db8::bad");
        assert_eq!(of(&["2001:db8::1", "10.0.0.2", "10.0.0.1"]), "10.0.0.2");
    }

    #[test]
    fn connections_follow_the_speed_of_the_link() {
        let rows = [(1, 1), (10, 2), (25, 3), (40, 3), (100, 4), (200, 4), (400, 5)];
        for (gigabits, conns) in rows {
            assert_eq!(conns_for_speed(Some(gigabits * 1000)), conns, "{gigabits} Gb/s");
        }
        assert_eq!((conns_for_speed(None), conns_for_speed(Some(100))), (1, 1));
    }
}
