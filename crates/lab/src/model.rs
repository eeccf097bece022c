//! A laboratory as a file describes it.

use core::net::Ipv4Addr;

use crate::link::Direction;

/// Hosts and the links between them. Everything in it was checked: names are unique, and indices
/// are in range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// Its name, if the file has one.
    pub name: Option<String>,
    /// Determines which packets are lost, and jitter.
    pub seed: u64,
    /// The hosts, in the order of the file.
    pub hosts: Vec<Host>,
    /// The links, in the order of the file.
    pub links: Vec<Link>,
    /// Next hops that differ from the shortest path.
    pub routes: Vec<NextHop>,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Settings of its network, in the order in which they are made.
    pub sysctl: Vec<Sysctl>,
}

/// A setting such as `net.ipv4.tcp_rmem`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// Its name; it begins with `net.`.
    pub name: String,
    /// Its value, as sysctl(8) takes it.
    pub value: String,
}

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The two hosts, by their index.
    pub between: [usize; 2],
    /// From the first host to the second, and back.
    pub directions: [Direction; 2],
    /// Longest IP packet that the hosts send, in bytes.
    pub mtu: u32,
    /// The addresses of the two hosts on this link.
    pub addresses: [Ipv4Addr; 2],
}

/// A next hop that the file sets: packets of `from` to any address of `to` go to `via` first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The host whose route this is.
    pub from: usize,
    /// The destination.
    pub to: usize,
    /// The link that is taken, by its index.
    pub link: usize,
}
