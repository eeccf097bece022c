//! Interfaces and routes of the hosts of a laboratory.

use core::net::Ipv4Addr;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::Lab;

/// An end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name, such as `eth0`: a host's interfaces are numbered in the order of the file's links.
    pub name: String,
    /// The link, by its index.
    pub link: usize,
    /// Which end: 0 or 1.
    pub end: usize,
    /// Its address.
    pub address: Ipv4Addr,
    /// The host at the other end, by its index.
    pub peer: usize,
    /// The address of the other end.
    pub peer_address: Ipv4Addr,
    /// In bytes.
    pub mtu: u32,
}

/// A route of a host to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination.
    pub to: Ipv4Addr,
    /// The host's interface, by its index.
    pub interface: usize,
}

/// Interfaces and routes of every host, by the index of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The interfaces of each host.
    pub interfaces: Vec<Vec<Interface>>,
    /// The routes of each host to the addresses of all others that it can reach.
    pub routes: Vec<Vec<Route>>,
    /// For each host and each destination, the link that packets leave by.
    next: Vec<Vec<Option<usize>>>,
}

impl Layout {
    /// Routes are shortest paths by the number of links, of which the first in the file is taken,
    /// unless the file sets another next hop.
    pub fn new(lab: &Lab) -> Layout {
        let hosts = lab.hosts.len();
        let interfaces: Vec<Vec<Interface>> = (0..hosts).map(|host| ends(lab, host)).collect();
        let to_each: Vec<Vec<Option<usize>>> = (0..hosts).map(|to| towards(lab, to)).collect();
        let of = |from: usize| to_each.iter().map(|links| links[from]).collect();
        let mut next: Vec<Vec<Option<usize>>> = (0..hosts).map(of).collect();
        for hop in &lab.routes {
            next[hop.from][hop.to] = Some(hop.link);
        }
        let routes = (0..hosts).map(|from| {
            let own = &interfaces[from];
            let to_host = |to: usize| {
                let link = next[from][to].filter(|_| to != from);
                let interface = link.and_then(|link| own.iter().position(|end| end.link == link));
                let addresses = interfaces[to].iter().map(|end| end.address);
                let route = |interface| move |to| Route { to, interface };
                interface.map(|interface| addresses.map(route(interface)))
            };
            (0..hosts).filter_map(to_host).flatten().collect()
        });
        let routes = routes.collect();
        Layout { interfaces, routes, next }
    }

    /// The hosts that a packet passes on its way, the first and the last included; `None` if it
    /// does not arrive: there is no route, or a circle.
    pub fn path(&self, lab: &Lab, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut path = vec![from];
        let mut at = from;
        while at != to {
            let between = lab.links[self.next[at][to]?].between;
            at = if between[0] == at { between[1] } else { between[0] };
            path.push(at);
            if path.len() > self.next.len() {
                return None;
            }
        }
        Some(path)
    }

    /// The address by which a host is known to all others: that of its first interface.
    pub fn address(&self, host: usize) -> Option<Ipv4Addr> {
        self.interfaces[host].first().map(|end| end.address)
    }

    /// Lines for `/etc/hosts`: each host by its name, and each interface as `HOST.INTERFACE`.
    pub fn hosts_file(&self, lab: &Lab) -> String {
        let mut text = String::from("127.0.0.1 localhost\n");
        for (host, ends) in lab.hosts.iter().zip(&self.interfaces) {
            for (index, end) in ends.iter().enumerate() {
                let name = &host.name;
                let alone = if index == 0 { format!(" {name}") } else { String::new() };
                text += &format!("{}{alone} {name}.{}\n", end.address, end.name);
            }
        }
        text
    }
}

fn ends(lab: &Lab, host: usize) -> Vec<Interface> {
    let mut ends = Vec::new();
    for (index, link) in lab.links.iter().enumerate() {
        let Some(end) = link.between.iter().position(|other| *other == host) else { continue };
        ends.push(Interface {
            name: format!("eth{}", ends.len()),
            link: index,
            end,
            address: link.addresses[end],
            peer: link.between[1 - end],
            peer_address: link.addresses[1 - end],
            mtu: link.mtu,
        });
    }
    ends
}

/// For each host, the link that a shortest path to `to` begins with.
fn towards(lab: &Lab, to: usize) -> Vec<Option<usize>> {
    let mut next = vec![None; lab.hosts.len()];
    let mut seen = vec![false; lab.hosts.len()];
    seen[to] = true;
    let mut open = VecDeque::from([to]);
    while let Some(at) = open.pop_front() {
        for (index, link) in lab.links.iter().enumerate() {
            let Some(end) = link.between.iter().position(|host| *host == at) else { continue };
            let other = link.between[1 - end];
            if !seen[other] {
                seen[other] = true;
                next[other] = Some(index);
                open.push_back(other);
            }
        }
    }
    next
}

#[cfg(test)]
mod tests;
