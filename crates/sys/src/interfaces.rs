//! The network interfaces of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name, such as `eth0`. Aliases (`eth0:1`) are separate interfaces here.
    pub name: String,
    /// Its addresses, in the kernel's order; IPv6 includes link-local ones.
    pub addrs: Vec<InterfaceAddr>,
    /// Switched on by the administrator.
    pub up: bool,
    /// Switched on, and the link is up (a cable is connected, the other end answers).
    pub running: bool,
    /// Leads back to this machine.
    pub loopback: bool,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// Speed of the link in Mb/s (10^6); `None` if the driver does not report it, as with most
    /// virtual devices.
    pub speed_mbps: Option<u32>,
    /// NUMA node that the device is attached to.
    pub numa_node: Option<u32>,
}

/// An address of an [`Interface`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddr {
    /// The address.
    pub ip: IpAddr,
    /// Leading bits that all addresses of the subnet share: 0 to 32, or 0 to 128 for IPv6.
    pub prefix_len: u8,
}

impl InterfaceAddr {
    /// Whether `other` is in the same subnet.
    pub fn same_subnet(&self, other: IpAddr) -> bool {
        let shared = match (self.ip, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        shared >= self.prefix_len.into()
    }
}

/// All interfaces, by name.
///
/// # Errors
/// When the kernel does not list them (no netlink in this sandbox, no memory).
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found = BTreeMap::<String, Interface>::new();
    for report in getifaddrs()? {
        let interface = found
            .entry(report.interface_name.clone())
            .or_insert_with_key(|name| describe(name, report.flags, Path::new("/sys/class/net")));
        interface.addrs.extend(address(&report));
    }
    Ok(found.into_values().collect())
}

fn describe(name: &str, flags: InterfaceFlags, class: &Path) -> Interface {
    let device = class.join(name);
    Interface {
        name: name.to_owned(),
        addrs: Vec::new(),
        up: flags.contains(InterfaceFlags::IFF_UP),
        running: flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING),
        loopback: flags.contains(InterfaceFlags::IFF_LOOPBACK),
        mtu: read_number(&device.join("mtu")),
        // An unknown speed is an error, -1, or (from old kernels) -1 without its sign.
        speed_mbps: read_number(&device.join("speed"))
            .filter(|&mbps: &u32| mbps > 0 && mbps != u32::MAX),
        // -1: the machine has no NUMA nodes.
        numa_node: read_number(&device.join("device/numa_node")),
    }
}

fn address(report: &InterfaceAddress) -> Option<InterfaceAddr> {
    let ip = ip(report.address.as_ref()?)?;
    let mask = report.netmask.as_ref().and_then(self::ip);
    let prefix_len = match (ip, mask) {
        (_, Some(IpAddr::V4(mask))) => mask.to_bits().leading_ones(),
        (_, Some(IpAddr::V6(mask))) => mask.to_bits().leading_ones(),
        // An address without a mask is its own subnet.
        (IpAddr::V4(_), None) => 32,
        (IpAddr::V6(_), None) => 128,
    };
    Some(InterfaceAddr { ip, prefix_len: u8::try_from(prefix_len).ok()? })
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    if let Some(four) = address.as_sockaddr_in() {
        return Some(four.ip().into());
    }
    Some(address.as_sockaddr_in6()?.ip().into())
}

fn read_number<T: FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
