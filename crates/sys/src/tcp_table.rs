//! The TCP sockets of this network namespace, as /proc/net/tcp and tcp6 list them.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// The other end; unspecified if it listens.
    pub remote: SocketAddr,
    /// Whether it listens.
    pub listens: bool,
    /// Whether it is connected in both directions.
    pub established: bool,
    /// Bytes sent that were not acknowledged, as far as they have left or wait.
    pub unsent: u64,
    /// Bytes that arrived and that no program has read; of a listening socket, connections that
    /// were not accepted.
    pub unread: u64,
}

/// All of them.
///
/// # Errors
/// When /proc is not there.
pub fn tcp_sockets() -> io::Result<Vec<TcpSocket>> {
    let mut found = parse(&fs::read_to_string("/proc/self/net/tcp")?);
    // Without IPv6 the second file is missing.
    if let Ok(text) = fs::read_to_string("/proc/self/net/tcp6") {
        found.extend(parse(&text));
    }
    Ok(found)
}

fn parse(text: &str) -> Vec<TcpSocket> {
    text.lines().skip(1).filter_map(line).collect()
}

fn line(text: &str) -> Option<TcpSocket> {
    const ESTABLISHED: &str = "01";
    const LISTEN: &str = "0A";
    let mut words = text.split_whitespace().skip(1);
    let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
    let state = words.next()?;
    let (unsent, unread) = words.next()?.split_once(':')?;
    let count = |text| u64::from_str_radix(text, 16).ok();
    Some(TcpSocket {
        local,
        remote,
        listens: state == LISTEN,
        established: state == ESTABLISHED,
        unsent: count(unsent)?,
        unread: count(unread)?,
    })
}

/// An address is words of 32 bits in the order of this machine, as hexadecimal digits.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = [0; 16];
    if !(ip.len() == 8 || ip.len() == 32) || !ip.is_ascii() {
        return None;
    }
    for (at, bytes) in (0..ip.len()).step_by(8).zip(bytes.chunks_exact_mut(4)) {
        let word = u32::from_str_radix(&ip[at..at + 8], 16).ok()?;
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
        _ => Ipv6Addr::from(bytes).to_canonical(),
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_are_read_and_others_left_out() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n";
        let ip = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        let word = |ip: Ipv4Addr| format!("{:08X}", u32::from_ne_bytes(ip.octets()));
        let (here, there) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let text = format!(
            "{head}   0: {}:03DC {}:03FF 01 00000010:00012345 00:00000000 0\n\
             1: nonsense\n2: {}:03DC 00000000:0000 0A 00000000:00000000 0\n",
            word(here),
            word(there),
            word(here)
        );
        let found = parse(&text);
        let expected = TcpSocket {
            local: SocketAddr::new(here.into(), 988),
            remote: SocketAddr::new(there.into(), 1023),
            listens: false,
            established: true,
            unsent: 16,
            unread: 0x12345,
        };
        assert_eq!(found[0], expected);
        assert!(found[1].listens && found.len() == 2, "{found:?}");
    }

    #[test]
    fn a_listener_of_this_process_is_in_the_table() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let all = tcp_sockets().unwrap();
        assert!(all.iter().any(|one| one.listens && one.local == at), "{all:?}");
    }
}
