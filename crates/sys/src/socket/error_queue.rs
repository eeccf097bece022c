//! The error queue of a stream: reports of the kernel, and ICMP messages.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::{Errno, retry_on_intr};

use super::Socket;
use crate::sockopt::{IP_RECVERR, IPV6_RECVERR, set};

/// Room for control data of one report: the message itself is 48 bytes at most.
pub(super) const CONTROL_LEN: usize = 128;

// linux/errqueue.h
const SO_EE_ORIGIN_ICMP: u8 = 2;
const SO_EE_ORIGIN_ICMP6: u8 = 3;

/// An ICMP message about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// Who sent it; `None` if the kernel does not say so.
    pub from: Option<IpAddr>,
    /// Whether it is one of ICMP for IPv6, whose types and codes are others.
    pub is_v6: bool,
    /// Its type: 3 is "destination unreachable", of IPv6 that is 1.
    pub kind: u8,
    /// Its code.
    pub code: u8,
}

impl Socket {
    /// The ICMP message that ended the attempt to connect, with
    /// [`keep_icmp_errors`](super::SocketOptions::keep_icmp_errors). Kernels before 5.11 keep none.
    pub fn take_icmp_error(&self) -> Option<IcmpError> {
        let mut control = [0; CONTROL_LEN];
        loop {
            // The loop ends: each turn takes a report out of the queue, or there is none.
            let len = retry_on_intr(|| receive(self.as_fd(), &mut control)).ok()?;
            if let Some(error) = reports(&control[..len]).find_map(icmp_error) {
                return Some(error);
            }
        }
    }

    /// Ends what [`keep_icmp_errors`](super::SocketOptions::keep_icmp_errors) has begun: the
    /// connection is made, and would be ended by messages that TCP otherwise survives.
    ///
    /// # Errors
    /// If the kernel rejects it.
    pub fn established(&self) -> io::Result<()> {
        keep(self.as_fd(), self.local_addr()?.ip(), false)
    }
}

/// Switches it on or off for a stream with addresses of this kind.
pub(super) fn keep(socket: BorrowedFd<'_>, ip: IpAddr, is_kept: bool) -> io::Result<()> {
    match ip {
        IpAddr::V4(_) => set(socket, IP_RECVERR, is_kept.into()),
        IpAddr::V6(_) => set(socket, IPV6_RECVERR, is_kept.into()),
    }
}

/// Fetches the control data of the next message in the error queue, and returns its length.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    control: &mut [u8; CONTROL_LEN],
) -> Result<usize, Errno> {
    // SAFETY: all zeroes is a valid `msghdr`: no address, no data, no control buffer.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_LEN as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points at nothing but `control`, with its true length.
    let result = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok((header.msg_controllen as usize).min(CONTROL_LEN))
}

/// The reports in control data: messages of a `cmsghdr` (length, level, type) and, here, a
/// `sock_extended_err` with an address behind it. Other messages are skipped.
pub(super) fn reports(control: &[u8]) -> impl Iterator<Item = &[u8]> + '_ {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const WORD: usize = size_of::<usize>();
    let mut rest = control;
    std::iter::from_fn(move || {
        loop {
            let (header, _) = rest.split_at_checked(HEADER)?;
            let len = usize::from_ne_bytes(*header.first_chunk()?);
            let level = int(header, WORD)?;
            let kind = int(header, WORD + 4)?;
            let data = rest.get(HEADER..len)?;
            rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
            if matches!(
                (level, kind),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            ) {
                return Some(data);
            }
        }
    })
}

/// A `sock_extended_err`: errno (4 bytes), origin, type, code, padding, info, data (4 bytes each);
/// then the `sockaddr` of the sender.
fn icmp_error(report: &[u8]) -> Option<IcmpError> {
    const FROM: usize = 16;
    let [origin, kind, code, _] = *report.get(4..)?.first_chunk()?;
    let is_v6 = match origin {
        SO_EE_ORIGIN_ICMP => false,
        SO_EE_ORIGIN_ICMP6 => true,
        _ => return None,
    };
    let family = report.get(FROM..).and_then(|rest| rest.first_chunk());
    let from = match family.map(|family| i32::from(u16::from_ne_bytes(*family))) {
        Some(libc::AF_INET) => report
            .get(FROM + 4..)
            .and_then(|rest| Some(IpAddr::from(Ipv4Addr::from(*rest.first_chunk::<4>()?)))),
        Some(libc::AF_INET6) => report
            .get(FROM + 8..)
            .and_then(|rest| Some(IpAddr::from(Ipv6Addr::from(*rest.first_chunk::<16>()?)))),
        _ => None,
    };
    Some(IcmpError { from, is_v6, kind, code })
}

pub(super) fn int(bytes: &[u8], offset: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}
