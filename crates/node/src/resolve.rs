//! Applies a configuration to this machine: its addresses, identity, numbers of connections.

use std::io;
use std::net::IpAddr;

use lustrine_config::{
    IdentityChoice, InterfaceChoice, NetConfig, NetDriver, NodeConfig, ResolvedNi,
};
use lustrine_lnet::topology::Identity;
use lustrine_partition::tunables::Tunables;
use lustrine_sys::{Interface, interfaces, privileged_ports_usable};
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
        InterfaceChoice::Default => machine
            .iter()
            .filter(|interface| interface.up && !interface.loopback)
            .find_map(|interface| Some((first_address(interface)?, Some(interface))))
            .ok_or(ResolveError::NothingUp(net)),
    }
}

/// IPv4 first: IPv6 NIDs are rare in this field.
fn first_address(interface: &Interface) -> Option<IpAddr> {
    let usable = |ip: &IpAddr| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    let mut ips = interface.addrs.iter().map(|addr| addr.ip).filter(usable);
    let all: Vec<IpAddr> = ips.by_ref().collect();
    all.iter().find(|ip| ip.is_ipv4()).or(all.first()).copied().filter(|_| interface.up)
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
    use super::*;

    #[test]
    fn connections_follow_the_speed_of_the_link() {
        let rows = [(1, 1), (10, 2), (25, 3), (40, 3), (100, 4), (200, 4), (400, 5)];
        for (gigabits, conns) in rows {
            assert_eq!(conns_for_speed(Some(gigabits * 1000)), conns, "{gigabits} Gb/s");
        }
        assert_eq!((conns_for_speed(None), conns_for_speed(Some(100))), (1, 1));
    }
}
