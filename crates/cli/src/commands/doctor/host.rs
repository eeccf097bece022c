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
        let mut counts = later.iter().map(|all| all.iter().find(same).map(|one| one.unread));
        let last = counts.next_back()??;
        // What a peer still sends arrives before the last two looks.
        let is_still = counts.next_back()? == Some(last) && counts.all(|count| count <= Some(last));
        (is_still && last >= one.unread).then(|| Unread {
            local: one.local.to_string(),
            remote: one.remote.to_string(),
            bytes: [one.unread, last],
            apart_ms: (LOOK_AGAIN * LOOKS).as_millis() as u64,
        })
    };
    first.iter().filter_map(stays).collect()
}

/// Who listens at LNet's port: a node, as far as is known, or something else.
pub(super) fn port_holder(tunables: &Tunables, node_runs: bool) -> Option<PortHolder> {
    let port = u16::try_from(tunables.socklnd.accept_port).ok()?;
    let all = tcp_sockets().ok()?;
    let Some(listener) = all.iter().find(|one| one.listens && one.local.port() == port) else {
        return Some(PortHolder::Free);
    };
    if node_runs || Path::new("/sys/module/lnet").exists() {
        return Some(PortHolder::Lnet);
    }
    let ip = match listener.local.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    Some(ask_version(SocketAddr::new(ip, port)))
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
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => PortHolder::Other,
            _ => PortHolder::Lnet,
        },
    }
}
