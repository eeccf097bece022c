//! What this host says of itself.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use lustrine_doctor::{HostView, InterfaceView, PortHolder, Unread};
use lustrine_partition::tunables::Tunables;
use lustrine_sys::tcp_table::{TcpSocket, tcp_sockets};
use lustrine_sys::{Clock, Interface, privileged_ports_usable};
use lustrine_wire::LNET_MAGIC;
use lustrine_wire::acceptor::MAGIC;

use crate::host_limits::HostLimits;

/// LNet's port.
pub(super) const PORT: u16 = 988;
/// Where Lustre's modules say their version.
const VERSIONS: [&str; 2] = ["/sys/fs/lustre/version", "/proc/fs/lustre/version"];
/// Unread bytes of a connection that are looked at again, how often, and the wait before. Of a busy
/// node that reads they are other ones each time.
const UNREAD: u64 = 16 << 10;
const LOOKS: u32 = 4;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long a program at LNet's port may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// No more connections are listed.
const LISTED: usize = 100;

/// Looks at everything but LNet's port.
pub(super) fn look() -> HostView {
    let interfaces = lustrine_sys::interfaces::interfaces().unwrap_or_default();
    let limits = HostLimits::read(None);
    HostView {
        wall_ns: Clock::Wall.now(),
        privileged: privileged_ports_usable(None).unwrap_or(false),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        lustre_modules: VERSIONS.into_iter().find_map(read),
        interfaces: interfaces.iter().map(interface).collect(),
        tcp_rmem: limits.tcp_rmem,
        tcp_wmem: limits.tcp_wmem,
        window_scaling: read("/proc/sys/net/ipv4/tcp_window_scaling").map(|text| text != "0"),
        port_holder: None,
        unread: unread(),
    }
}

/// Looks at the interfaces alone.
pub(super) fn look_at_interfaces() -> HostView {
    let interfaces = lustrine_sys::interfaces::interfaces().unwrap_or_default();
    HostView { interfaces: interfaces.iter().map(interface).collect(), ..HostView::default() }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn interface(found: &Interface) -> InterfaceView {
    InterfaceView {
        name: found.name.clone(),
        running: found.running,
        mtu: found.mtu,
        speed_mbps: found.speed_mbps,
        addresses: found.addrs.iter().map(|addr| addr.ip.to_string()).collect(),
    }
}

/// Connections of LNet with unread data that stay the same, first and last.
fn unread() -> Vec<Unread> {
    let full = || -> Vec<TcpSocket> {
        let all = tcp_sockets().unwrap_or_default();
        let of_lnet = |one: &TcpSocket| one.local.port() == PORT || one.remote.port() == PORT;
        all.into_iter()
            .filter(|one| one.established && of_lnet(one) && one.unread >= UNREAD)
            .take(LISTED)
            .collect()
    };
    let first = full();
    if first.is_empty() {
        return Vec::new();
    }
    let mut later = Vec::new();
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK_AGAIN);
        later.push(full());
    }
    let stays = |one: &TcpSocket| {
        let same = |other: &&TcpSocket| (other.local, other.remote) == (one.local, one.remote);
        let count = |all: &Vec<TcpSocket>| all.iter().find(same).map_or(0, |one| one.unread);
        let counts: Vec<u64> = [one.unread].into_iter().chain(later.iter().map(count)).collect();
        stays_unread(&counts).then(|| Unread {
            local: one.local.to_string(),
            remote: one.remote.to_string(),
            bytes: [one.unread, counts[counts.len() - 1]],
            apart_ms: (LOOK_AGAIN * LOOKS).as_millis() as u64,
        })
    };
    first.iter().filter_map(stays).collect()
}

/// Whether nothing was read between looks at the number of unread bytes. They grow at first, as the
/// peer sends what its credits allow, and are the same in the last two looks.
fn stays_unread(counts: &[u64]) -> bool {
    let [.., before, last] = counts else { return false };
    before == last && counts.is_sorted()
}

/// Who listens at LNet's port: a node, as far as is known, or something else. `node_runs`: there is
/// one, which need not be asked, and may be stopped.
pub(super) fn port_holder(tunables: &Tunables, node_runs: bool) -> Option<PortHolder> {
    let port = u16::try_from(tunables.socklnd.accept_port).ok()?;
    let all = tcp_sockets().ok()?;
    let Some(listener) = all.iter().find(|one| one.listens && one.local.port() == port) else {
        return Some(PortHolder::Free);
    };
    if node_runs || Path::new("/sys/module/lnet").exists() {
        return Some(PortHolder::Lnet);
    }
    Some(holder(listener))
}

/// Whether a program that is no LNet node for certain listens at this address.
pub(super) fn is_other_program(at: SocketAddr) -> bool {
    let has = |one: &&TcpSocket| {
        let ip = one.local.ip();
        one.listens && one.local.port() == at.port() && (ip == at.ip() || ip.is_unspecified())
    };
    // A kernel has all addresses, and writes a line to its log for a question.
    !Path::new("/sys/module/lnet").exists()
        && tcp_sockets().is_ok_and(|all| {
            all.iter().find(has).is_some_and(|listener| holder(listener) == PortHolder::Other)
        })
}

/// Who listens there.
fn holder(listener: &TcpSocket) -> PortHolder {
    let ip = match listener.local.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    ask_version(SocketAddr::new(ip, listener.local.port()))
}

/// Asks for the version of an acceptor [ACC-5]. One that closes without an answer may be an
/// acceptor that takes privileged ports only.
fn ask_version(at: SocketAddr) -> PortHolder {
    let mut answer = [0; 4];
    let asked = TcpStream::connect_timeout(&at, ANSWER).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(&LNET_MAGIC.to_le_bytes())?;
        stream.read_exact(&mut answer)
    });
    match asked {
        Ok(()) if answer == MAGIC.to_le_bytes() => PortHolder::Lnet,
        Ok(()) => PortHolder::Other,
        Err(error) => match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => PortHolder::Silent,
            _ => PortHolder::Lnet,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_read_do_not_stay_unread() {
        let stuck: [&[u64]; 3] = [&[70_000; 5], &[20_000, 50_000, 70_000, 70_000, 70_000], &[1, 1]];
        assert!(stuck.iter().all(|counts| stays_unread(counts)));
        let read: [&[u64]; 5] = [
            &[70_000, 30_000, 70_000, 70_000, 70_000],
            &[20_000, 30_000, 40_000, 50_000, 60_000],
            &[70_000, 70_000, 70_000, 70_000, 0],
            &[70_000],
            &[],
        ];
        assert!(!read.iter().any(|counts| stays_unread(counts)));
    }
}
