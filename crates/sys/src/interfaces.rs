//! The network interfaces of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockaddrStorage;

use crate::interface_setup::{DeviceSocket, request};

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name, such as `eth0`. Aliases (`eth0:1`) are separate interfaces here.
    pub name: String,
    /// The kernel's number for the device, which grows with every new one; an alias has that of its
    /// device. `u32::MAX` if the device has gone in the meantime.
    pub index: u32,
    /// Whether hardware is behind it, also through a bond, a bridge or a VLAN: not a bridge of
    /// containers, one end of a veth pair or a tunnel. Drivers of virtual machines count as
    /// hardware. False where /sys shows another network namespace.
    pub hardware: bool,
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
    /// virtual devices, and where /sys shows another network namespace.
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
    /// Whether it is there to stay and in use: not a temporary address of IPv6, which privacy
    /// extensions replace, and none that is deprecated, tentative or a duplicate.
    pub stable: bool,
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

/// All interfaces, the oldest device first; aliases follow their device.
///
/// # Errors
/// When the kernel does not list them (no netlink in this sandbox, no memory).
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut found = BTreeMap::<String, Interface>::new();
    // Of the thread, which may be in another network namespace than the process.
    let table = fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let socket = DeviceSocket::new().ok();
    for report in getifaddrs()? {
        let describe = |name: &String| {
            let class = Path::new("/sys/class/net");
            let link = socket.as_ref().map(|socket| KernelLink::of(socket, name));
            describe(name, report.flags, class).corrected(link.as_ref(), class)
        };
        let interface = found.entry(report.interface_name.clone()).or_insert_with_key(describe);
        interface.addrs.extend(address(&report, &table));
    }
    let mut found: Vec<Interface> = found.into_values().collect();
    // A stable sort: those of one device stay in the order of their names.
    found.sort_by_key(|interface| interface.index);
    Ok(found)
}

/// What changes of an interface while the machine runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    /// Its name.
    pub name: String,
    /// Switched on by the administrator.
    pub up: bool,
    /// Switched on, and the link is up.
    pub running: bool,
    /// Its addresses.
    pub ips: Vec<IpAddr>,
}

/// The same interfaces as [`interfaces`], by name. No driver is asked for anything, so that this
/// can be called every few seconds.
///
/// # Errors
/// As [`interfaces`].
pub fn link_states() -> io::Result<Vec<LinkState>> {
    let mut found = BTreeMap::<String, LinkState>::new();
    for report in getifaddrs()? {
        let link = found.entry(report.interface_name).or_insert_with_key(|name| LinkState {
            name: name.clone(),
            up: report.flags.contains(InterfaceFlags::IFF_UP),
            running: report.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING),
            ips: Vec::new(),
        });
        link.ips.extend(report.address.as_ref().and_then(ip));
    }
    Ok(found.into_values().collect())
}

/// The device of an interface: an alias is named after it.
fn device_of(name: &str) -> &str {
    name.split_once(':').map_or(name, |(device, _)| device)
}

/// What the kernel says of a device in the network namespace of this thread. The files of /sys are
/// those of the namespace in which it was mounted: `nsenter --net` alone leaves it as it is.
#[derive(Debug, PartialEq, Eq)]
struct KernelLink {
    mtu: Option<u32>,
    /// The hardware's address.
    address: Option<[u8; 6]>,
}

impl KernelLink {
    fn of(socket: &DeviceSocket, name: &str) -> KernelLink {
        let ask = |what| {
            let mut request = request(device_of(name)).ok()?;
            socket.call(what, &mut request).ok()?;
            Some(request)
        };
        let mtu = ask(libc::SIOCGIFMTU).and_then(|answer| {
            // SAFETY: after this request the kernel has set this field of the union.
            u32::try_from(unsafe { answer.ifr_ifru.ifru_mtu }).ok()
        });
        let address = ask(libc::SIOCGIFHWADDR).and_then(|answer| {
            // SAFETY: after this request the kernel has set this field of the union.
            let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
            let bytes = address.sa_data.first_chunk::<6>()?.map(|byte| byte as u8);
            (address.sa_family == libc::ARPHRD_ETHER).then_some(bytes)
        });
        KernelLink { mtu, address }
    }
}

impl Interface {
    /// With what the kernel says, and without what /sys says of another device of this name.
    fn corrected(self, link: Option<&KernelLink>, class: &Path) -> Interface {
        let Some(link) = link else { return self };
        let device = class.join(device_of(&self.name));
        let is_number =
            read_number(&device.join("ifindex")).is_none_or(|seen: u32| seen == self.index);
        let address = fs::read_to_string(device.join("address")).ok();
        let address = address.as_deref().and_then(hardware_address);
        // An MTU can have changed between the two looks: it decides where no address does.
        let same_mtu = || self.mtu.is_none() || link.mtu.is_none() || self.mtu == link.mtu;
        let same_address = address.zip(link.address).map(|(seen, link)| seen == link);
        let is_same = is_number && same_address.unwrap_or_else(same_mtu);
        let mtu = link.mtu.or(self.mtu.filter(|_| is_same));
        match is_same {
            true => Interface { mtu, ..self },
            false => Interface { mtu, speed_mbps: None, numa_node: None, hardware: false, ..self },
        }
    }
}

/// Reads `02:00:00:00:00:01`.
fn hardware_address(text: &str) -> Option<[u8; 6]> {
    let bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// Most devices on top of each other, as in Linux.
const NESTED_MAX: usize = 8;

/// Whether a device of sysfs is hardware, or leads to such a device.
fn is_hardware(class: &Path, name: &str, depth: usize) -> bool {
    let device = class.join(name);
    if device.join("device").exists() {
        return true;
    }
    let entries = fs::read_dir(&device).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut lower = names.filter_map(|name| Some(name.strip_prefix("lower_")?.to_owned()));
    depth < NESTED_MAX && lower.any(|name| is_hardware(class, &name, depth + 1))
}

fn describe(name: &str, flags: InterfaceFlags, class: &Path) -> Interface {
    let base = device_of(name);
    let device = class.join(base);
    Interface {
        name: name.to_owned(),
        index: if_nametoindex(base).unwrap_or(u32::MAX),
        hardware: is_hardware(class, base, 0),
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

fn address(report: &InterfaceAddress, table: &str) -> Option<InterfaceAddr> {
    let ip = ip(report.address.as_ref()?)?;
    let mask = report.netmask.as_ref().and_then(self::ip);
    let prefix_len = match (ip, mask) {
        (_, Some(IpAddr::V4(mask))) => mask.to_bits().leading_ones(),
        (_, Some(IpAddr::V6(mask))) => mask.to_bits().leading_ones(),
        // An address without a mask is its own subnet.
        (IpAddr::V4(_), None) => 32,
        (IpAddr::V6(_), None) => 128,
    };
    let stable = match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => is_stable(table, ip, device_of(&report.interface_name)),
    };
    Some(InterfaceAddr { ip, prefix_len: u8::try_from(prefix_len).ok()?, stable })
}

/// What the kernel's table of IPv6 addresses says of one. Each line has the address, and in
/// hexadecimal the index of the device, the length of the prefix, the scope and the lowest eight
/// flags; then the name of the device. An address that is not listed is taken for a stable one.
fn is_stable(table: &str, ip: Ipv6Addr, device: &str) -> bool {
    // IFA_F_TEMPORARY, IFA_F_DADFAILED, IFA_F_DEPRECATED and IFA_F_TENTATIVE of if_addr.h.
    const PASSING: u8 = 0x01 | 0x08 | 0x20 | 0x40;
    let passing = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let listed = u128::from_str_radix(words.next()?, 16).ok()?;
        let flags = u8::from_str_radix(words.nth(3)?, 16).ok()?;
        let is_this = listed == ip.to_bits() && words.next() == Some(device);
        is_this.then_some(flags & PASSING != 0)
    };
    !table.lines().find_map(passing).unwrap_or(false)
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
