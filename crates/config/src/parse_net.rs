//! One net in a word: `--net tcp1=eth0:9988`, or LNet's `tcp1(eth0)`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use lustrine_document::clipped;
use lustrine_wire::nid::{Net, NetKind};

use super::driver::NetDriver;
use super::{InterfaceChoice, NetConfig, interface};

/// Why a word describes no net.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?}: {reason}; allowed: tcp[N][=ADDRESS|=INTERFACE][:PORT] with an IPv6 address in \
     brackets when a port follows, or tcp[N](INTERFACE); for example tcp, tcp1=eth0, \
     tcp=10.0.0.1:9988 or tcp=[fd77::1]:988"
)]
pub struct ParseNetError {
    /// The word, cut if it is very long.
    pub text: String,
    /// What is wrong with it.
    pub reason: ParseNetReason,
}

/// What is wrong with the word for a net.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseNetReason {
    /// The first part names no network.
    #[error("{0:?} is not a network")]
    UnknownNet(String),
    /// A network whose driver is not here.
    #[error("{0} needs a driver that is not implemented yet")]
    NoDriver(Net),
    /// `lo` was asked for.
    #[error("every node has lo")]
    Loopback,
    /// A NID instead of a net.
    #[error("this is a NID; give the network first, as in tcp=10.0.0.1")]
    NidForm,
    /// Not an IP address, though it looks like one.
    #[error("{0:?} is neither an IP address nor an interface")]
    BadPlace(String),
    /// An address that no interface can have.
    #[error("{0} is not the address of one interface")]
    NotAHost(IpAddr),
    /// More colons than an address and a port can have together.
    #[error("{0:?} has too many colons for an address and a port")]
    NeedsBrackets(String),
    /// A bracket or parenthesis is not closed.
    #[error("a closing {0:?} is missing")]
    Unclosed(char),
    /// Not a port.
    #[error("{0:?} is not a port from 1 to 65535")]
    BadPort(String),
    /// More than one interface in one word.
    #[error("one net has one interface here: give the option once for each of {0:?}")]
    SeveralInterfaces(String),
    /// Not a list of CPU partitions.
    #[error("{0:?} is not a list of CPU partitions such as [0,2-3]")]
    BadPartitions(String),
    /// Something stands behind the end.
    #[error("unexpected {0:?} at the end")]
    Trailing(String),
}

impl FromStr for NetConfig {
    type Err = ParseNetError;

    /// Reads `NET[=PLACE][:PORT]`, or one entry of LNet's `networks` [CFG-1] with one
    /// interface: `NET(INTERFACE[CPTS])[CPTS]`.
    fn from_str(text: &str) -> Result<NetConfig, ParseNetError> {
        parse(text).map_err(|reason| ParseNetError { text: clipped(text), reason })
    }
}

fn parse(text: &str) -> Result<NetConfig, ParseNetReason> {
    if text.contains('@') {
        return Err(ParseNetReason::NidForm);
    }
    let name_len = text.find(['=', '(', ':', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(name_len);
    let net = net(name)?;
    if let Some(rest) = rest.strip_prefix('=') {
        let (place, rest) = place(rest)?;
        return Ok(NetConfig { port: port_behind(rest)?, ..NetConfig::new(net, place) });
    }
    if let Some(rest) = rest.strip_prefix('(') {
        return networks_entry(net, rest);
    }
    Ok(NetConfig { port: port_behind(rest)?, ..NetConfig::new(net, InterfaceChoice::Default) })
}

fn net(name: &str) -> Result<Net, ParseNetReason> {
    let net: Net = name.parse().map_err(|_| ParseNetReason::UnknownNet(clipped(name)))?;
    match net.kind {
        NetKind::LO => Err(ParseNetReason::Loopback),
        kind if NetDriver::of(kind).is_none() => Err(ParseNetReason::NoDriver(net)),
        _ => Ok(net),
    }
}

/// Reads an address or an interface; returns what follows it, which is a port or nothing.
fn place(text: &str) -> Result<(InterfaceChoice, &str), ParseNetReason> {
    if let Some(inner) = text.strip_prefix('[') {
        let (address, rest) = inner.split_once(']').ok_or(ParseNetReason::Unclosed(']'))?;
        let address: Ipv6Addr =
            address.parse().map_err(|_| ParseNetReason::BadPlace(clipped(address)))?;
        return Ok((host(IpAddr::V6(address))?, rest));
    }
    // An IPv6 address without brackets takes the whole word: its last group is no port.
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok((host(IpAddr::V6(address))?, ""));
    }
    let (word, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
    if rest.matches(':').count() > 1 {
        return Err(ParseNetReason::NeedsBrackets(clipped(text)));
    }
    if let Ok(address) = word.parse::<Ipv4Addr>() {
        return Ok((host(IpAddr::V4(address))?, rest));
    }
    if !interface::is_name(word) {
        return Err(ParseNetReason::BadPlace(clipped(word)));
    }
    Ok((InterfaceChoice::Interface(word.to_owned()), rest))
}

fn host(ip: IpAddr) -> Result<InterfaceChoice, ParseNetReason> {
    if interface::is_host(ip) {
        Ok(InterfaceChoice::Address(ip))
    } else {
        Err(ParseNetReason::NotAHost(ip))
    }
}

/// What stands behind the opening parenthesis of `tcp1(eth0[0,1])[0,1]:PORT`.
fn networks_entry(net: Net, text: &str) -> Result<NetConfig, ParseNetReason> {
    let (inner, rest) = text.split_once(')').ok_or(ParseNetReason::Unclosed(')'))?;
    let (name, inner_cpts) = inner.split_at(inner.find('[').unwrap_or(inner.len()));
    if name.contains(',') || inner_cpts.contains("],") {
        return Err(ParseNetReason::SeveralInterfaces(clipped(inner)));
    }
    if !interface::is_name(name) {
        return Err(ParseNetReason::BadPlace(clipped(name)));
    }
    let (outer_cpts, rest) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
    let cpts = match (inner_cpts, outer_cpts) {
        ("", "") => None,
        (list, "") | ("", list) if interface::is_cpt_list(list) => Some(list.to_owned()),
        ("", list) if !list.starts_with('[') => {
            return Err(ParseNetReason::Trailing(clipped(list)));
        }
        (list, "") | (_, list) => return Err(ParseNetReason::BadPartitions(clipped(list))),
    };
    let place = InterfaceChoice::Interface(name.to_owned());
    Ok(NetConfig { port: port_behind(rest)?, cpts, ..NetConfig::new(net, place) })
}

fn port_behind(rest: &str) -> Result<Option<u16>, ParseNetReason> {
    if rest.is_empty() {
        return Ok(None);
    }
    let text = rest.strip_prefix(':').ok_or_else(|| ParseNetReason::Trailing(clipped(rest)))?;
    let port = interface::port(text).ok_or_else(|| ParseNetReason::BadPort(clipped(text)))?;
    Ok(Some(port))
}

#[cfg(test)]
mod tests;
