//! Listening sockets, and how the sockets of a node are set up.

use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_config::{AcceptPolicy, NodeConfig, ResolvedNi};
use lustrine_lnet::topology::Identity;
use lustrine_partition::tunables::Tunables;
use lustrine_sys::{Claim, Keepalive, Listener, SocketOptions};

use crate::error::StartError;

/// How long a node waits for an address that another program has for a short time, and the wait
/// between two attempts.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(50);

/// A listening socket, for all interfaces at its address.
pub(crate) struct BoundListener {
    pub(crate) socket: Listener,
    pub(crate) local: SocketAddr,
}

/// An address and port of a node that does not listen. Others of this machine see by it that the
/// NID is in use: peers would mistake two nodes with one NID for one that restarts.
pub(crate) struct BoundClaim {
    /// Given back when it is dropped.
    _claim: Claim,
    pub(crate) local: SocketAddr,
}

/// An address and port that a program has for a short time, as `lustrine doctor` and `lustrine
/// watch` while they look at a path: nodes that are started meanwhile wait for it.
#[derive(Debug)]
pub struct BriefClaim {
    _claim: Claim,
    /// Says that it is for a short time. Without it nodes do not wait.
    _mark: Option<UnixDatagram>,
}

impl BriefClaim {
    /// Takes an address and port, until it is dropped.
    ///
    /// # Errors
    /// Those of bind(2); `AddrInUse` if another program has it.
    pub fn bind(addr: SocketAddr) -> io::Result<BriefClaim> {
        // First, so that nobody sees the claim without it.
        let mark = mark(&addr).ok();
        Ok(BriefClaim { _claim: Claim::bind(addr)?, _mark: mark })
    }
}

/// Says, while it lives, that a node gives its addresses back soon: nodes that are started
/// meanwhile wait for them, for 5 s at most, where they would otherwise be userland beside it
/// ([USR-10]).
#[derive(Debug)]
#[must_use = "it says so only while it lives"]
pub struct Leaving {
    _marks: Vec<UnixDatagram>,
}

impl Leaving {
    /// Of a node with these addresses. What the system refuses is left out.
    pub(crate) fn of(addrs: impl Iterator<Item = SocketAddr>) -> Leaving {
        Leaving { _marks: addrs.filter_map(|addr| patient_mark(&addr)).collect() }
    }
}

/// Marks an address. A program that tries in vain to claim it briefly has the mark for a moment.
fn patient_mark(addr: &SocketAddr) -> Option<UnixDatagram> {
    for _ in 0..10 {
        match mark(addr) {
            Ok(mark) => return Some(mark),
            Err(error) => tracing::debug!(%addr, %error, "the address cannot be marked"),
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Marks an address until the result is dropped.
fn mark(addr: &SocketAddr) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&mark_of(addr)?)
}

/// The name of the mark: an abstract one, which is the network namespace's, as addresses are.
fn mark_of(addr: &SocketAddr) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("lustrine-look/{addr}"))
}

/// Whether a program has an address for a short time.
fn is_claimed_briefly(addr: &SocketAddr) -> bool {
    let mark = mark_of(addr).and_then(|name| UnixDatagram::unbound()?.connect_addr(&name));
    mark.is_ok()
}

/// `AddrInUse`, with the text of the system.
pub(crate) fn address_in_use() -> io::Error {
    const EADDRINUSE: i32 = 98;
    io::Error::from_raw_os_error(EADDRINUSE)
}

/// The addresses and ports that a node has.
#[derive(Default)]
pub(crate) struct Bound {
    pub(crate) listeners: Vec<BoundListener>,
    pub(crate) claims: Vec<BoundClaim>,
}

impl Bound {
    /// Those of a node with these interfaces: it listens there, or claims them if it accepts no
    /// connections. One that is userland has no NID that another could have, too.
    pub(crate) fn open(
        config: &NodeConfig,
        nis: &[ResolvedNi],
        identity: Identity,
    ) -> Result<Bound, StartError> {
        let mut bound = Bound::default();
        for addr in nis.iter().flat_map(ResolvedNi::addrs) {
            bound.add(config, addr, identity)?;
        }
        Ok(bound)
    }

    /// The same. It waits for programs that have an address for a short time alone.
    pub(crate) fn open_patiently(
        config: &NodeConfig,
        nis: &[ResolvedNi],
        identity: Identity,
    ) -> Result<Bound, StartError> {
        let until = Instant::now() + PATIENCE;
        let mut is_last = false;
        loop {
            match Bound::open(config, nis, identity) {
                Err(StartError::Listen { addr, error, .. })
                    if error.kind() == io::ErrorKind::AddrInUse
                        && !is_last
                        && Instant::now() < until =>
                {
                    // Its mark may have gone with the address since the attempt.
                    is_last = !is_claimed_briefly(&addr);
                    if !is_last {
                        thread::sleep(AGAIN);
                    }
                }
                result => return result,
            }
        }
    }

    /// Listens at one more address, or claims it, unless that is done.
    pub(crate) fn add(
        &mut self,
        config: &NodeConfig,
        addr: SocketAddr,
        identity: Identity,
    ) -> Result<(), StartError> {
        let Bound { listeners, claims } = self;
        match (config.accept, identity) {
            (AcceptPolicy::None, Identity::Node) if claims.iter().all(|one| one.local != addr) => {
                claims.extend(claim(addr)?);
            }
            (AcceptPolicy::None, _) => {}
            _ if !leads_to(listeners, &addr) => listeners.push(open_listener(config, addr)?),
            _ => {}
        }
        Ok(())
    }
}

/// `None` where a node may have source ports below 1024, and not this one: nothing says then that
/// it has the address.
fn claim(addr: SocketAddr) -> Result<Option<BoundClaim>, StartError> {
    match Claim::bind(addr) {
        Ok(claim) => Ok(Some(BoundClaim { _claim: claim, local: addr })),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(listen_error(addr, error)),
        Err(error) => {
            tracing::debug!(%addr, %error, "cannot claim the address");
            Ok(None)
        }
    }
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

pub(crate) fn listen_error(addr: SocketAddr, error: io::Error) -> StartError {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE: run with them, choose another \
             port (--net tcp=ADDR:PORT), or do not listen (--accept none)"
        }
        io::ErrorKind::AddrInUse => {
            "; another node, or a kernel's LNet, has it: choose another address or port"
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
        keep_icmp_errors: false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_address_that_is_left_is_marked_until_it_is_free() {
        let ip = Ipv4Addr::new(127, 55, 0, 7);
        let free = std::net::TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
        let addr = free.expect("a free port");
        assert!(!is_claimed_briefly(&addr));
        let leaving = Leaving::of([addr].into_iter());
        assert!(is_claimed_briefly(&addr));
        drop(leaving);
        assert!(!is_claimed_briefly(&addr));
    }

    /// A node that does not listen has its address for long: nothing waits for it.
    #[test]
    fn only_brief_claims_are_waited_for() {
        let ip = Ipv4Addr::new(127, 55, 0, 6);
        let free = std::net::TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
        let addr = free.expect("a free port");
        let brief = BriefClaim::bind(addr).expect("it is free");
        assert!(is_claimed_briefly(&addr));
        let error = BriefClaim::bind(addr).expect_err("it is taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(is_claimed_briefly(&addr), "the first one has its mark");
        drop(brief);
        let node = Claim::bind(addr).expect("it is free again");
        assert!(!is_claimed_briefly(&addr));
        drop(node);
    }
}
