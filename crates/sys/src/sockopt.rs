//! Socket options that `rustix` does not offer.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};

/// An option whose value is a `T`: a C `int`, or an integer of another size.
#[derive(Debug)]
pub(crate) struct SocketOption<T> {
    level: libc::c_int,
    name: libc::c_int,
    value: PhantomData<T>,
}

impl<T> SocketOption<T> {
    const fn new(level: libc::c_int, name: libc::c_int) -> SocketOption<T> {
        SocketOption { level, name, value: PhantomData }
    }
}

/// Integers: all of their bytes are initialized, and any bytes are a value.
pub(crate) trait OptionValue: Copy {}

impl OptionValue for libc::c_int {}
impl OptionValue for u64 {}

/// Permits `MSG_ZEROCOPY`.
pub(crate) const SO_ZEROCOPY: SocketOption<libc::c_int> =
    SocketOption::new(libc::SOL_SOCKET, libc::SO_ZEROCOPY);

/// Binds the address only. `connect`, which knows the remote address, chooses the port and so can
/// use one port towards several of them. The option of the IP level works for IPv6 sockets, too.
pub(crate) const IP_BIND_ADDRESS_NO_PORT: SocketOption<libc::c_int> =
    SocketOption::new(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);

/// Keeps errors in the error queue, with the ICMP messages that they are from, and the same for
/// IPv6. An error that would pass ends a connection that is established.
pub(crate) const IP_RECVERR: SocketOption<libc::c_int> =
    SocketOption::new(libc::IPPROTO_IP, libc::IP_RECVERR);
pub(crate) const IPV6_RECVERR: SocketOption<libc::c_int> =
    SocketOption::new(libc::IPPROTO_IPV6, libc::IPV6_RECVERR);

/// Seconds that a closed connection waits for the other side's FIN; -1: not at all.
pub(crate) const TCP_LINGER2: SocketOption<libc::c_int> =
    SocketOption::new(libc::IPPROTO_TCP, libc::TCP_LINGER2);

/// The longest segment, in bytes of payload and options.
pub(crate) const TCP_MAXSEG: SocketOption<libc::c_int> =
    SocketOption::new(libc::IPPROTO_TCP, libc::TCP_MAXSEG);

/// Bytes per second of the stream at most. Any limit turns TCP pacing on.
pub(crate) const SO_MAX_PACING_RATE: SocketOption<u64> =
    SocketOption::new(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);

/// Sets `option` of `socket`.
pub(crate) fn set<T: OptionValue>(
    socket: impl AsFd,
    option: SocketOption<T>,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer and length describe one value, initialized as a whole, that outlives the
    // call, and the descriptor is open because it is borrowed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            option.level,
            option.name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The value of `option` of `socket`.
#[cfg(test)]
pub(crate) fn get<T: OptionValue + Default>(socket: impl AsFd, option: SocketOption<T>) -> T {
    let (mut value, mut len) = (T::default(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer and length describe one value that outlives the call, any bytes are a
    // valid value, and the descriptor is open because it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            option.level,
            option.name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    value
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
