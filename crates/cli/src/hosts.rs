//! Names of hosts.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};

/// The IPv4 address of a host.
pub(crate) fn resolve(host: &str) -> Result<Ipv4Addr, String> {
    let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut found = found.filter_map(|address| match address.ip() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    });
    found
        .next()
        .ok_or_else(|| "the host has no IPv4 address; write an IPv6 NID as an address".to_owned())
}
