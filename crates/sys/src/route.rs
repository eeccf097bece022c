//! The route that the kernel chooses for packets to an address.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::net::if_::if_indextoname;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{self, AddressFamily as Family, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::time::{TimeVal, TimeValLike};

/// The answer of the kernel is one message of a few attributes; this is far more.
const ANSWER_MAX: usize = 16 << 10;

/// How packets to an address leave this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The interface by which they leave.
    pub interface: Option<String>,
    /// The next router; `None` if the address is on the link.
    pub gateway: Option<IpAddr>,
    /// Longest packets that the path takes, in bytes, where a router has said so or an
    /// administrator has set it; `None` if that of the interface counts.
    pub mtu: Option<u32>,
}

impl Route {
    /// The route to an address, of packets from `from` if that is given. Rules of policy routing
    /// count; nothing is sent.
    ///
    /// # Errors
    /// When there is no route, and when the kernel does not answer (no netlink in this sandbox).
    pub fn to(to: IpAddr, from: Option<IpAddr>) -> io::Result<Route> {
        let socket = socket::socket(
            Family::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        // The kernel answers at once; a sandbox may not.
        socket::setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(1))?;
        let request = request(to, from);
        socket::send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
        let mut answer = vec![0; ANSWER_MAX];
        let len = socket::recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let name = |index| if_indextoname(index).ok()?.into_string().ok();
        answered(&answer[..len], name)
    }
}

/// The message that asks for a route.
fn request(to: IpAddr, from: Option<IpAddr>) -> Vec<u8> {
    let mut route = RouteMessage::default();
    let bits = if to.is_ipv4() { 32 } else { 128 };
    route.header.address_family =
        if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    route.header.destination_prefix_length = bits;
    route.attributes.push(RouteAttribute::Destination(address(to)));
    if let Some(from) = from {
        route.header.source_prefix_length = bits;
        route.attributes.push(RouteAttribute::Source(address(from)));
    }
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, RouteNetlinkMessage::GetRoute(route).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// The route that an answer says; `name` says the name of an interface by its number.
fn answered(answer: &[u8], name: impl Fn(u32) -> Option<String>) -> io::Result<Route> {
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(answer);
    let answer = answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let attributes = match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => route.attributes,
        NetlinkPayload::Error(error) => return Err(error.to_io()),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is no route")),
    };
    let mut route = Route::default();
    for attribute in attributes {
        match attribute {
            RouteAttribute::Oif(index) => route.interface = name(index),
            RouteAttribute::Gateway(gateway) => route.gateway = ip(&gateway),
            // Of IPv4 behind a router of IPv6.
            RouteAttribute::Via(RouteVia::Inet6(gateway)) => route.gateway = Some(gateway.into()),
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(bytes) => Some(*bytes),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    Ok(route)
}

fn address(ip: IpAddr) -> RouteAddress {
    match ip {
        IpAddr::V4(ip) => RouteAddress::Inet(ip),
        IpAddr::V6(ip) => RouteAddress::Inet6(ip),
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_loopback_needs_no_router() {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let route = Route::to(here, None).expect("a route");
        let expected = Route { interface: Some("lo".to_owned()), ..Route::default() };
        assert_eq!(route, expected);
        let other = Ipv4Addr::new(127, 0, 0, 9).into();
        assert_eq!(Route::to(here, Some(other)).expect("a route"), expected);
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error() {
        // An address of documentation, which no host has.
        let from = Some(Ipv4Addr::new(203, 0, 113, 77).into());
        let refused = Route::to(Ipv4Addr::LOCALHOST.into(), from);
        assert!(refused.is_err_and(|error| error.raw_os_error().is_some()), "it is not here");
    }
}
