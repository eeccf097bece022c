//! One interface as the machine has it.

use core::net::{IpAddr, SocketAddr};

use lustrine_partition::tunables::Tunables;
use lustrine_wire::nid::Nid;

use crate::{InterfaceChoice, NetConfig};

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

    /// Its configuration with every value given, except a port that is the tunable `accept_port`.
    pub fn explicit(&self, net: &NetConfig, tunables: &Tunables) -> NetConfig {
        let place = match (&net.place, &self.interface) {
            (InterfaceChoice::Default, Some(name)) => InterfaceChoice::Interface(name.clone()),
            (InterfaceChoice::Default, None) => InterfaceChoice::Address(self.ip),
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
