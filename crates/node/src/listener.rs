//! Listening sockets, and how the sockets of a node are set up.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use lustrine_config::{AcceptPolicy, NodeConfig, ResolvedNi};
use lustrine_partition::tunables::Tunables;
use lustrine_sys::{Keepalive, Listener, SocketOptions};

use crate::error::StartError;

/// A listening socket, for all interfaces at its address.
pub(crate) struct BoundListener {
    pub(crate) socket: Listener,
    pub(crate) local: SocketAddr,
}

pub(crate) fn open_listeners(
    config: &NodeConfig,
    nis: &[ResolvedNi],
) -> Result<Vec<BoundListener>, StartError> {
    let mut listeners = Vec::new();
    if config.accept == AcceptPolicy::None {
        return Ok(listeners);
    }
    for addr in nis.iter().flat_map(ResolvedNi::addrs) {
        if !leads_to(&listeners, &addr) {
            listeners.push(open_listener(config, addr)?);
        }
    }
    Ok(listeners)
}

pub(crate) fn leads_to(listeners: &[BoundListener], addr: &SocketAddr) -> bool {
    listeners.iter().any(|listener| listener.local == *addr)
}

/// A listener for all interfaces at an address.
pub(crate) fn open_listener(
    config: &NodeConfig,
    addr: SocketAddr,
) -> Result<BoundListener, StartError> {
    let backlog = config.tunables.socklnd.accept_backlog as u16;
    let socket = Listener::bind(addr, backlog, socket_options(&config.tunables));
    Ok(BoundListener { socket: socket.map_err(|error| listen_error(addr, error))?, local: addr })
}

fn listen_error(addr: SocketAddr, error: io::Error) -> StartError {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE: run with them, choose another \
             port (--net tcp=ADDR:PORT), or do not listen (--accept none)"
        }
        io::ErrorKind::AddrInUse => {
            "; another node, or a kernel's LNet, listens there: choose another address or port"
        }
        _ => "",
    };
    StartError::Listen { addr, error, hint }
}

pub(crate) fn socket_options(tunables: &Tunables) -> SocketOptions {
    let buffer = |bytes: i64| (bytes > 0).then_some(bytes as u32);
    let keepalive = (tunables.socklnd.keepalive_idle > 0).then(|| Keepalive {
        idle: Duration::from_secs(tunables.socklnd.keepalive_idle as u64),
        interval: Duration::from_secs(tunables.socklnd.keepalive_intvl as u64),
        count: std::num::NonZeroU32::new(tunables.socklnd.keepalive_count as u32)
            .unwrap_or(std::num::NonZeroU32::MIN),
    });
    SocketOptions {
        nodelay: true,
        send_buffer: buffer(tunables.socklnd.tx_buffer_size),
        recv_buffer: buffer(tunables.socklnd.rx_buffer_size),
        tos: u8::try_from(tunables.socklnd.tos).ok(),
        keepalive,
        // Data that the driver has written is no longer in its queues, and has the same time limit
        // [SOCK-11].
        unacknowledged_max: Some(Duration::from_secs(tunables.socklnd.sock_timeout as u64)),
        paced_from: u64::try_from(tunables.socklnd.tcp_pacing).ok().map(Duration::from_millis),
        segment_max: None,
    }
}
