//! Starts connections, from any port or from a privileged one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, sockopt};
use thiserror::Error;

use super::{Socket, SocketOptions, error_queue, stream_socket};
use crate::sockopt::{IP_BIND_ADDRESS_NO_PORT, set};

/// Source ports of a node [ACC-13], tried from the highest.
const PRIVILEGED_PORTS: RangeInclusive<u16> = 512..=1023;

/// Which source port a connection is dialled from. The peer derives our identity from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePort {
    /// Any port that the system chooses: a userland peer.
    Any,
    /// 1023 downwards to 512: a node.
    Privileged,
}

/// Why a connection could not even be started.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// This process may not bind a privileged port.
    #[error(
        "binding a source port below 1024 is not permitted: run as root, grant \
         CAP_NET_BIND_SERVICE, or lower net.ipv4.ip_unprivileged_port_start"
    )]
    NoPrivilege,
    /// Every permitted source port is in use towards this remote address.
    #[error("no source port is left towards {0}")]
    PortsExhausted(SocketAddr),
    /// The address to dial from is not an address of this machine.
    #[error("{0} is not an address of this machine")]
    NoSuchLocalAddress(IpAddr),
    /// The address to dial from and the one to dial are not both IPv4 or both IPv6.
    #[error("cannot dial {remote} from {local}: not the same version of IP")]
    FamilyMismatch {
        /// The address to dial from.
        local: IpAddr,
        /// The address to dial.
        remote: SocketAddr,
    },
    /// The process or the system is out of descriptors or memory.
    #[error("no resources for one more socket: {0}")]
    NoResources(#[source] io::Error),
    /// Anything else, such as refused or unreachable.
    #[error(transparent)]
    Failed(io::Error),
}

impl Socket {
    /// Starts a connection from `local` (`None`: the system chooses) to `remote`.
    /// [`connected`](Socket::connected) says when it is established; register the socket with a
    /// poller first.
    ///
    /// A privileged source port is sought from 1023 downwards to 512, moving on only when a port is
    /// in use or not available [ACC-13]. Several connections share a port as long as their remote
    /// addresses differ.
    ///
    /// See [`ConnectError`]. A refusal that comes later is reported by `connected`.
    pub fn connect(
        local: Option<IpAddr>,
        source: SourcePort,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> Result<Socket, ConnectError> {
        if let Some(local) = local.filter(|local| local.is_ipv4() != remote.is_ipv4()) {
            return Err(ConnectError::FamilyMismatch { local, remote });
        }
        let dial = Dial { local, remote, options };
        match source {
            SourcePort::Any => dial.with_any_port(),
            SourcePort::Privileged => dial.with_privileged_port(),
        }
    }
}

struct Dial<'a> {
    local: Option<IpAddr>,
    remote: SocketAddr,
    options: &'a SocketOptions,
}

impl Dial<'_> {
    fn with_any_port(&self) -> Result<Socket, ConnectError> {
        let fd = self.socket()?;
        if let Some(local) = self.local {
            // This only saves ports; kernels before 4.2 choose one now.
            let _ = set(&fd, IP_BIND_ADDRESS_NO_PORT, 1);
            net::bind(&fd, &SocketAddr::new(local, 0)).map_err(|e| match e {
                Errno::ADDRNOTAVAIL => ConnectError::NoSuchLocalAddress(local),
                Errno::ADDRINUSE => ConnectError::PortsExhausted(self.remote),
                e => failed(e),
            })?;
        }
        match self.start(&fd) {
            Ok(()) => Ok(Socket::from_fd(fd)),
            Err(Errno::ADDRNOTAVAIL) => Err(ConnectError::PortsExhausted(self.remote)),
            Err(e) => Err(failed(e)),
        }
    }

    fn with_privileged_port(&self) -> Result<Socket, ConnectError> {
        let local = self.local.unwrap_or_else(|| unspecified(self.remote));
        // One socket is used until it is bound; only a new one can then try the next port.
        let mut unbound = None;
        let mut bound_once = false;
        for port in PRIVILEGED_PORTS.rev() {
            let fd = match unbound.take() {
                Some(fd) => fd,
                None => self.shareable_socket()?,
            };
            match net::bind(&fd, &SocketAddr::new(local, port)) {
                Ok(()) => {}
                Err(Errno::ADDRINUSE) => {
                    bound_once = true;
                    unbound = Some(fd);
                    continue;
                }
                Err(Errno::ADDRNOTAVAIL) => {
                    unbound = Some(fd);
                    continue;
                }
                // Above the first forbidden port, all were permitted but in use.
                Err(Errno::ACCESS) if bound_once => break,
                Err(Errno::ACCESS) => return Err(ConnectError::NoPrivilege),
                Err(e) => return Err(failed(e)),
            }
            bound_once = true;
            match self.start(&fd) {
                Ok(()) => return Ok(Socket::from_fd(fd)),
                // This port is connected to that remote address already.
                Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
                Err(e) => return Err(failed(e)),
            }
        }
        // An address that is not local fails in the same way on every port.
        Err(if bound_once {
            ConnectError::PortsExhausted(self.remote)
        } else {
            ConnectError::NoSuchLocalAddress(local)
        })
    }

    fn socket(&self) -> Result<OwnedFd, ConnectError> {
        let fd = stream_socket(self.remote.ip()).map_err(failed)?;
        self.options.apply_buffers(fd.as_fd()).map_err(ConnectError::Failed)?;
        self.options.apply(fd.as_fd(), self.remote.ip()).map_err(ConnectError::Failed)?;
        if self.options.keep_icmp_errors {
            error_queue::keep(fd.as_fd(), self.remote.ip(), true).map_err(ConnectError::Failed)?;
        }
        Ok(fd)
    }

    /// A socket that may bind a port which other connections use towards other remote addresses.
    fn shareable_socket(&self) -> Result<OwnedFd, ConnectError> {
        let fd = self.socket()?;
        sockopt::set_socket_reuseaddr(&fd, true).map_err(failed)?;
        sockopt::set_socket_reuseport(&fd, true).map_err(failed)?;
        Ok(fd)
    }

    fn start(&self, fd: &OwnedFd) -> Result<(), Errno> {
        match net::connect(fd, &self.remote) {
            // A non-blocking connect continues by itself, even if it was interrupted.
            Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
            result => result,
        }
    }
}

/// Whether this process may bind ports below 1024, and so be a node: it is root, has
/// CAP_NET_BIND_SERVICE, or such ports need no privilege here. The function tries to bind one.
///
/// # Errors
/// If this cannot be determined: `local` is not an address of this machine, or no socket could be
/// created.
pub fn privileged_ports_usable(local: Option<IpAddr>) -> io::Result<bool> {
    let local = local.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let fd = stream_socket(local)?;
    match net::bind(&fd, &SocketAddr::new(local, *PRIVILEGED_PORTS.end())) {
        // The kernel checks the privilege first: a port that is in use was permitted.
        Ok(()) | Err(Errno::ADDRINUSE) => Ok(true),
        Err(Errno::ACCESS) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn unspecified(remote: SocketAddr) -> IpAddr {
    match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn failed(error: Errno) -> ConnectError {
    match error {
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
            ConnectError::NoResources(error.into())
        }
        error => ConnectError::Failed(error.into()),
    }
}
