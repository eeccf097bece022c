//! Accepting TCP streams.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, SocketFlags, sockopt};
use thiserror::Error;

use crate::socket::{Socket, SocketOptions, stream_socket};

/// A listening TCP socket. No call on it ever waits.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    options: SocketOptions,
}

/// An address and port that is taken, and at which nothing listens: whoever connects is refused,
/// and no other socket of this machine can listen there or claim it.
#[derive(Debug)]
pub struct Claim {
    /// Closed with it.
    _fd: OwnedFd,
}

impl Claim {
    /// Takes `addr`, whose port is not 0. For a moment something listens there: only then does the
    /// kernel compare it with other claims, while connections of this port that are still closing
    /// do not matter.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind(addr: SocketAddr) -> io::Result<Claim> {
        let Listener { fd, .. } = Listener::bind(addr, 1, SocketOptions::default())?;
        // It stays bound: the port was asked for, so that the kernel keeps it.
        net::shutdown(&fd, net::Shutdown::Both)?;
        // Otherwise a socket that permits the same could be bound there.
        sockopt::set_socket_reuseaddr(&fd, false)?;
        Ok(Claim { _fd: fd })
    }
}

/// A stream that another host opened.
#[derive(Debug)]
pub struct Accepted {
    /// The stream.
    pub socket: Socket,
    /// The remote address. A port above 1023 means a userland peer.
    pub peer: SocketAddr,
}

/// Why nothing was accepted although a connection may be waiting.
#[derive(Debug, Error)]
pub enum AcceptError {
    /// The process (EMFILE) or the system (ENFILE, ENOBUFS, ENOMEM) has no descriptor or memory
    /// left. The connection stays in the backlog: pause, or the poller reports it again at once.
    #[error("no resources for one more connection: {0}")]
    NoResources(#[source] io::Error),
    /// The listener itself is unusable.
    #[error(transparent)]
    Failed(io::Error),
}

impl Listener {
    /// Listens on `addr` (port 0: any free one) with room for `backlog` connections that are not
    /// accepted yet. An IPv6 listener accepts no IPv4 connections. `options` apply to every stream.
    ///
    /// # Errors
    /// `PermissionDenied` for a privileged port without the right to it, `AddrInUse` when another
    /// socket listens there, `AddrNotAvailable` when the address is not one of this machine.
    pub fn bind(addr: SocketAddr, backlog: u16, options: SocketOptions) -> io::Result<Listener> {
        let fd = stream_socket(addr.ip())?;
        // Earlier connections of this port that are still closing do not prevent the bind.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if addr.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        options.apply_buffers(fd.as_fd())?;
        net::bind(&fd, &addr)?;
        net::listen(&fd, i32::from(backlog))?;
        Ok(Listener { fd, options })
    }

    /// Sets the options of streams that are accepted from now on; buffers keep the sizes they had.
    pub fn set_options(&mut self, options: SocketOptions) {
        self.options = options;
    }

    /// The address and port listened on.
    ///
    /// # Errors
    /// None on a valid socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(net::getsockname(&self.fd)?)?)
    }

    /// Accepts the next stream; `None` when none is waiting. Connections that broke while they
    /// waited are skipped.
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub fn accept(&self) -> Result<Option<Accepted>, AcceptError> {
        loop {
            match net::acceptfrom_with(&self.fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((fd, Some(peer))) => {
                    let Ok(peer) = SocketAddr::try_from(peer) else { continue };
                    // Fails only if the stream broke in the meantime; its first read reports that.
                    let _ = self.options.apply(fd.as_fd(), peer.ip());
                    self.options.apply_pacing(fd.as_fd());
                    return Ok(Some(Accepted { socket: Socket::from_fd(fd), peer }));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Ok((_, None)) => {}
                Err(error) if is_about_one_connection(error) => {}
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    return Err(AcceptError::NoResources(error.into()));
                }
                Err(error) => return Err(AcceptError::Failed(error.into())),
            }
        }
    }
}

/// Linux reports pending network errors of a new connection from `accept` (see accept(2)); they
/// say nothing about the listener, and the next call finds the next connection.
fn is_about_one_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::PERM
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::TIMEDOUT
    )
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests;
