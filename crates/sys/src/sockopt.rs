//! Socket options that `rustix` does not offer.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// An option whose value is a C `int`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntOption {
    level: libc::c_int,
    name: libc::c_int,
}

/// Permits `MSG_ZEROCOPY`.
pub(crate) const SO_ZEROCOPY: IntOption =
    IntOption { level: libc::SOL_SOCKET, name: libc::SO_ZEROCOPY };

/// Binds the address only. `connect`, which knows the remote address, chooses the port and so can
/// use one port towards several of them. The option of the IP level works for IPv6 sockets, too.
pub(crate) const IP_BIND_ADDRESS_NO_PORT: IntOption =
    IntOption { level: libc::IPPROTO_IP, name: libc::IP_BIND_ADDRESS_NO_PORT };

/// Seconds that a closed connection waits for the other side's FIN; -1: not at all.
pub(crate) const TCP_LINGER2: IntOption =
    IntOption { level: libc::IPPROTO_TCP, name: libc::TCP_LINGER2 };

/// The longest segment, in bytes of payload and options.
pub(crate) const TCP_MAXSEG: IntOption =
    IntOption { level: libc::IPPROTO_TCP, name: libc::TCP_MAXSEG };

/// Sets `option` of `socket`.
pub(crate) fn set(socket: impl AsFd, option: IntOption, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer and length describe one `c_int` that outlives the call, and the
    // descriptor is open because it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            option.level,
            option.name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's statistics of a TCP stream. Fields that an old kernel does not have are 0.
pub(crate) fn tcp_info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    // SAFETY: all fields are integers, for which zeros are a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the pointer and length describe one structure that outlives the call, the kernel
    // writes at most `len` bytes, and the descriptor is open because it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}
