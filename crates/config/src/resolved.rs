//! One interface as the machine has it.

use core::net::{IpAddr, SocketAddr};

use lustrine_partition::tunables::Tunables;
use lustrine_wire::nid::Nid;

use crate::{InterfaceChoice, NetConfig, interface};

/// An interface with every value that a [`NetConfig`] may leave open.
#[derive(Clone, Debug)]
pub struct ResolvedNi {
    /// Its NID.
    pub nid: Nid,
    /// Its IP address.
    pub ip: IpAddr,
    /// The name of its network device, if it has one.
    pub interface: Option<String>,
    /// TCP port of CONTROL connections.
    pub port: u16,
    /// TCP port of all other connections; mostly the same.
    pub port_bulk: u16,
    /// Bulk connections per peer and direction, at least 1.
    pub conns_per_peer: u16,
    /// Messages in flight to all peers.
    pub credits: u32,
    /// Messages in flight to one peer, at most `credits`.
    pub peer_credits: u32,
}

impl ResolvedNi {
    /// The addresses to listen at: the port of CONTROL connections first, then the other one if
    /// it differs. A peer may use either.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        let mut ports = vec![self.port];
        ports.extend((self.port_bulk != self.port).then_some(self.port_bulk));
        ports.into_iter().map(|port| SocketAddr::new(self.ip, port)).collect()
    }

    /// Its configuration with every value given, except a port that is the tunable `accept_port`. A
    /// device that a file cannot name is given by its address.
    pub fn explicit(&self, net: &NetConfig, tunables: &Tunables) -> NetConfig {
        let place = match (&net.place, &self.interface) {
            (InterfaceChoice::Default, Some(name)) if interface::is_name(name) => {
                InterfaceChoice::Interface(name.clone())
            }
            (InterfaceChoice::Default, _) => InterfaceChoice::Address(self.ip),
            (named, _) => named.clone(),
        };
        NetConfig {
            place,
            port: (i64::from(self.port) != tunables.socklnd.accept_port).then_some(self.port),
            credits: Some(self.credits),
            peer_credits: Some(self.peer_credits),
            conns_per_peer: Some(self.conns_per_peer),
            ..net.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_wire::nid::Net;

    use super::*;

    /// The kernel takes more names than a file can have; with one of those, no change of the node
    /// and no backup of it would be possible.
    #[test]
    fn a_device_that_a_file_cannot_name_is_given_by_its_address() {
        let ip = "10.0.0.1".parse().unwrap();
        let tunables = Tunables::default();
        for (name, writable) in
            [("eth0", true), ("eth0:1", true), ("eth0:a:b", false), ("7", false)]
        {
            let ni = ResolvedNi {
                nid: Nid::from_ip(Net::TCP, ip),
                ip,
                interface: Some(name.to_owned()),
                port: 988,
                port_bulk: 988,
                conns_per_peer: 1,
                credits: 256,
                peer_credits: 8,
            };
            let net = NetConfig::new(Net::TCP, InterfaceChoice::Default);
            let explicit = ni.explicit(&net, &tunables);
            let expected = match writable {
                true => InterfaceChoice::Interface(name.to_owned()),
                false => InterfaceChoice::Address(ip),
            };
            assert_eq!(explicit.place, expected, "{name}");
            let config = crate::NodeConfig { nets: vec![explicit], ..Default::default() };
            assert_eq!(config.check(), Ok(()), "{name}");
        }
    }
}
