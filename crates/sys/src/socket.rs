//! Non-blocking TCP streams.

use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{self, AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer};
use rustix::net::{SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use crate::sockopt::{SO_MAX_PACING_RATE, TCP_LINGER2, TCP_MAXSEG, set, tcp_info};

mod connect;
mod error_queue;
mod zerocopy;

pub use connect::{ConnectError, SourcePort, privileged_ports_usable};
pub use error_queue::IcmpError;
pub use zerocopy::ZeroCopyOutcome;

/// The largest number of slices for one system call; of more slices, the first ones are used.
pub const SLICES_MAX: usize = 1024;

/// More than any link carries, in bytes per second: pacing needs a limit. Kernels before 5.1 read
/// four bytes, so that it is 4 GiB/s (34 Gb/s) for each connection there; before 4.13 only the fq
/// queue keeps to the pace.
const PACE_MAX: u64 = (1 << 40) | 0xffff_fffe;

/// A connected or connecting TCP stream. No call on it ever waits.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// Number of the next zero-copy send; `None` until the feature was enabled.
    zerocopy_id: Cell<Option<u32>>,
}

/// The result of a read or write.
#[derive(Debug)]
pub enum IoOutcome {
    /// This many bytes were moved. Fewer than requested means that the stream had no more (or no
    /// more room), and that a report of readiness will follow when it has; unless the last report
    /// was [`hangup`](crate::Ready::hangup): then read on until [`Closed`](Self::Closed).
    Bytes(usize),
    /// Nothing now; a report of readiness will follow.
    WouldBlock,
    /// The other side has closed its half of the stream (reads only).
    Closed,
    /// The stream is broken.
    Failed(io::Error),
}

/// TCP keepalive: probes sent on an idle connection. The kernel rounds down to seconds and requires
/// values from 1 s to 32767 s and 1 to 127 probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes after which the connection is dead.
    pub count: NonZeroU32,
}

/// Options of streams. The default is the operating system's, but without Nagle's algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOptions {
    /// Send small segments at once (TCP_NODELAY; LNet's `nagle` = 0).
    pub nodelay: bool,
    /// Send buffer in bytes; `None` leaves it to the kernel, which then adapts the size. The kernel
    /// doubles the value, and caps it for a process without CAP_NET_ADMIN.
    pub send_buffer: Option<u32>,
    /// Receive buffer in bytes; as [`send_buffer`](Self::send_buffer).
    pub recv_buffer: Option<u32>,
    /// Type-of-service byte of IPv4, traffic class of IPv6.
    pub tos: Option<u8>,
    /// Keepalive probes on idle connections.
    pub keepalive: Option<Keepalive>,
    /// A connection whose peer acknowledges none of the bytes in flight for this long, or has no
    /// room for any, is dead (TCP_USER_TIMEOUT, in milliseconds); `None` leaves it to the kernel:
    /// about a quarter of an hour.
    pub unacknowledged_max: Option<Duration>,
    /// TCP pacing for streams whose round trip takes at least so long, as the handshake measured
    /// it; `None`: for none. It spreads what is sent over the round trip, instead of sending it in
    /// bursts as it was written. The rate is that of TCP's window times
    /// `net.ipv4.tcp_pacing_ca_ratio` percent, in slow start `tcp_pacing_ss_ratio`. BBR always
    /// does.
    pub paced_from: Option<Duration>,
    /// Longest segment in both directions, in bytes of payload and options (TCP_MAXSEG); `None`:
    /// what the path takes. It has an effect only before connecting.
    pub segment_max: Option<u16>,
    /// Keep the ICMP message that ends the attempt to connect, for
    /// [`Socket::take_icmp_error`]; see [`Socket::established`].
    pub keep_icmp_errors: bool,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            nodelay: true,
            send_buffer: None,
            recv_buffer: None,
            tos: None,
            keepalive: None,
            unacknowledged_max: None,
            paced_from: None,
            segment_max: None,
            keep_icmp_errors: false,
        }
    }
}

/// What the kernel knows of a connected stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamInfo {
    /// Payload of the longest segment that is sent, in bytes, without options.
    pub segment_out: u32,
    /// The same of the longest segment that this side has asked for.
    pub segment_asked: u32,
    /// Estimated payload of the longest segment that has arrived, in bytes.
    pub segment_seen: u32,
    /// Longest packet that the path is believed to take, in bytes.
    pub path_mtu: u32,
    /// Whether every segment carries timestamps, which take 12 bytes.
    pub timestamps: bool,
    /// The other side's window scale; `None` if windows are not scaled.
    pub peer_scale: Option<u8>,
    /// Segments in flight.
    pub in_flight: u32,
    /// How often in a row the oldest of them was sent again because of a time-out.
    pub timeouts: u8,
    /// Segments that were sent again since the beginning.
    pub retransmits: u32,
    /// Those of them that had arrived already, as the other side says (DSACK, RFC 2883).
    pub duplicates: u32,
    /// How often acknowledgements showed that segments had overtaken others.
    pub reorderings: u32,
    /// Segments with data that were sent, those sent again included; modulo 2^32.
    pub segments_sent: u32,
    /// Segments with data that have arrived; modulo 2^32.
    pub segments_received: u32,
    /// Those of them that arrived before an earlier one, which was lost or overtaken. Linux 5.4 has
    /// it.
    pub out_of_order: u32,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The shortest round trip of the last minutes; `None` before there is one.
    pub rtt_min: Option<Duration>,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// What arrived at the other side in the last round trip that was measured, in bits per second.
    pub delivery_rate: u64,
    /// How long there was something to send.
    pub busy: Duration,
    /// The part of it in which the other side's window held it back.
    pub window_limited: Duration,
    /// The part of it in which this side's send buffer was too small.
    pub send_buffer_limited: Duration,
}

/// Effective buffer sizes in bytes, as the kernel counts them (twice the requested sizes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// For bytes to send.
    pub send: usize,
    /// For bytes received.
    pub recv: usize,
}

impl SocketOptions {
    /// Buffer sizes determine the window scale, which is agreed in the first segment, as the
    /// longest segment is, so they have to be set before connecting or listening.
    pub(crate) fn apply_buffers(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(size) = self.segment_max {
            set(fd, TCP_MAXSEG, size.into())?;
        }
        if let Some(size) = self.send_buffer {
            sockopt::set_socket_send_buffer_size_force(fd, size as usize)
                .or_else(|_| sockopt::set_socket_send_buffer_size(fd, size as usize))?;
        }
        if let Some(size) = self.recv_buffer {
            sockopt::set_socket_recv_buffer_size_force(fd, size as usize)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, size as usize))?;
        }
        Ok(())
    }

    /// Sets all options that can be set at any time. Linger is off, and a closed connection does
    /// not wait for the other side's FIN, so that its source port is free at once.
    pub(crate) fn apply(&self, fd: BorrowedFd<'_>, remote: IpAddr) -> io::Result<()> {
        sockopt::set_tcp_nodelay(fd, self.nodelay)?;
        sockopt::set_socket_linger(fd, None)?;
        set(fd, TCP_LINGER2, -1)?;
        if let Some(tos) = self.tos {
            match remote {
                IpAddr::V4(_) => sockopt::set_ip_tos(fd, tos)?,
                IpAddr::V6(_) => sockopt::set_ipv6_tclass(fd, tos.into())?,
            }
        }
        sockopt::set_socket_keepalive(fd, self.keepalive.is_some())?;
        if let Some(Keepalive { idle, interval, count }) = self.keepalive {
            sockopt::set_tcp_keepidle(fd, idle)?;
            sockopt::set_tcp_keepintvl(fd, interval)?;
            sockopt::set_tcp_keepcnt(fd, count.get())?;
        }
        if let Some(limit) = self.unacknowledged_max {
            let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(fd, millis)?;
        }
        Ok(())
    }

    /// Turns pacing on if the path is long. The kernel knows how long once the stream is
    /// established, unless it could not measure the handshake (SYN cookies, a SYN sent twice).
    pub(crate) fn apply_pacing(&self, fd: BorrowedFd<'_>) {
        let Some(from) = self.paced_from else { return };
        let is_long = |info: libc::tcp_info| Duration::from_micros(info.tcpi_rtt.into()) >= from;
        if from.is_zero() || tcp_info(fd).is_ok_and(is_long) {
            // Without it, the stream is slower over some paths, and no worse.
            let _ = set(fd, SO_MAX_PACING_RATE, PACE_MAX);
        }
    }
}

impl Socket {
    /// Takes over a connected, non-blocking stream.
    pub(crate) fn from_fd(fd: OwnedFd) -> Socket {
        Socket { fd, zerocopy_id: Cell::new(None) }
    }

    /// Turns TCP pacing on, if the options want it for a round trip as long as that of this stream,
    /// which is established now. Accepted streams have it from the start.
    pub fn pace(&self, options: &SocketOptions) {
        options.apply_pacing(self.fd.as_fd());
    }

    /// Whether a started connection is established; `Ok(false)` as long as this is undecided.
    ///
    /// # Errors
    /// Why the connection failed (refused, unreachable, timed out ...).
    pub fn connected(&self) -> io::Result<bool> {
        self.take_error()?;
        match net::getpeername(&self.fd) {
            Ok(_) => Ok(true),
            Err(Errno::NOTCONN) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// The error that the kernel holds for this stream, which is thereby cleared.
    ///
    /// # Errors
    /// That error.
    pub fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.fd)??)
    }

    /// Sets the options of the stream again, except for the sizes of its buffers.
    ///
    /// # Errors
    /// If the stream is not connected (any more), or the kernel rejects a value.
    pub fn set_options(&self, options: &SocketOptions) -> io::Result<()> {
        options.apply(self.fd.as_fd(), self.peer_addr()?.ip())
    }

    /// The local address of the stream.
    ///
    /// # Errors
    /// If the kernel has none (any more).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(net::getsockname(&self.fd)?)?)
    }

    /// The remote address of the stream.
    ///
    /// # Errors
    /// If it is not connected (any more).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::try_from(net::getpeername(&self.fd)?.ok_or(Errno::NOTCONN)?)?)
    }

    /// From now on, closing the stream discards what was not sent yet, and resets the connection.
    ///
    /// # Errors
    /// None on a valid socket.
    pub fn abort_on_close(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO))?)
    }

    /// Closes one half or both.
    ///
    /// # Errors
    /// If it is not connected (any more).
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => net::Shutdown::Read,
            Shutdown::Write => net::Shutdown::Write,
            Shutdown::Both => net::Shutdown::Both,
        };
        Ok(net::shutdown(&self.fd, how)?)
    }

    /// How long ago the last segment arrived from the other side, whether data or an
    /// acknowledgement. Accurate to about 4 ms, the resolution of the kernel.
    ///
    /// # Errors
    /// None on a valid socket.
    pub fn last_heard(&self) -> io::Result<Duration> {
        let info = tcp_info(&self.fd)?;
        let millis = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
        Ok(Duration::from_millis(u64::from(millis)))
    }

    /// What the kernel knows of the stream.
    ///
    /// # Errors
    /// None on a valid socket.
    pub fn info(&self) -> io::Result<StreamInfo> {
        /// Bits of `tcpi_options`.
        const TIMESTAMPS: u8 = 1;
        const SCALED: u8 = 4;
        let info = tcp_info(&self.fd)?;
        // The peer's scale is in the four bits that C puts first.
        let scale = match cfg!(target_endian = "little") {
            true => info.tcpi_snd_rcv_wscale & 0xf,
            false => info.tcpi_snd_rcv_wscale >> 4,
        };
        Ok(StreamInfo {
            segment_out: info.tcpi_snd_mss,
            segment_asked: info.tcpi_advmss,
            segment_seen: info.tcpi_rcv_mss,
            path_mtu: info.tcpi_pmtu,
            timestamps: info.tcpi_options & TIMESTAMPS != 0,
            peer_scale: (info.tcpi_options & SCALED != 0).then_some(scale),
            in_flight: info.tcpi_unacked,
            timeouts: info.tcpi_retransmits,
            retransmits: info.tcpi_total_retrans,
            duplicates: info.tcpi_dsack_dups,
            reorderings: info.tcpi_reord_seen,
            segments_sent: info.tcpi_data_segs_out,
            segments_received: info.tcpi_data_segs_in,
            out_of_order: info.tcpi_rcv_ooopack,
            rtt: Duration::from_micros(info.tcpi_rtt.into()),
            rtt_min: (info.tcpi_min_rtt != u32::MAX)
                .then(|| Duration::from_micros(info.tcpi_min_rtt.into())),
            congestion_window: info.tcpi_snd_cwnd,
            delivery_rate: info.tcpi_delivery_rate.saturating_mul(8),
            busy: Duration::from_micros(info.tcpi_busy_time),
            window_limited: Duration::from_micros(info.tcpi_rwnd_limited),
            send_buffer_limited: Duration::from_micros(info.tcpi_sndbuf_limited),
        })
    }

    /// Bytes sent that the other side has not acknowledged, whether or not they have left
    /// (SIOCOUTQ).
    ///
    /// # Errors
    /// None on a valid socket.
    pub fn unacknowledged(&self) -> io::Result<u64> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: this request writes one `int`, and `bytes` is one.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// The effective buffer sizes.
    ///
    /// # Errors
    /// None on a valid socket.
    pub fn buffer_sizes(&self) -> io::Result<BufferSizes> {
        Ok(BufferSizes {
            send: sockopt::socket_send_buffer_size(&self.fd)?,
            recv: sockopt::socket_recv_buffer_size(&self.fd)?,
        })
    }

    /// Receives into `slices`, in order, at most [`SLICES_MAX`] of them.
    pub fn readv(&self, slices: &mut [IoSliceMut<'_>]) -> IoOutcome {
        let used = slices.len().min(SLICES_MAX);
        let slices = &mut slices[..used];
        let result = retry_on_intr(|| {
            if let [one] = &mut *slices {
                let (_, bytes) = net::recv(&self.fd, &mut **one, RecvFlags::DONTWAIT)?;
                return Ok(bytes);
            }
            let mut control = RecvAncillaryBuffer::default();
            let message = net::recvmsg(&self.fd, slices, &mut control, RecvFlags::DONTWAIT)?;
            Ok(message.bytes)
        });
        match result {
            // A request for no bytes gives no bytes, which must not look like an end of the stream.
            Ok(0) if slices.iter().any(|slice| !slice.is_empty()) => IoOutcome::Closed,
            result => result.into(),
        }
    }

    /// Sends `slices`, in order, at most [`SLICES_MAX`] of them. The kernel copies the bytes.
    pub fn writev(&self, slices: &[IoSlice<'_>]) -> IoOutcome {
        self.send(slices, SendFlags::empty()).into()
    }

    fn send(&self, slices: &[IoSlice<'_>], flags: SendFlags) -> Result<usize, Errno> {
        let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry_on_intr(|| match &slices[..slices.len().min(SLICES_MAX)] {
            [one] => net::send(&self.fd, one, flags),
            many => net::sendmsg(&self.fd, many, &mut SendAncillaryBuffer::default(), flags),
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Result<usize, Errno>> for IoOutcome {
    fn from(result: Result<usize, Errno>) -> IoOutcome {
        match result {
            Ok(bytes) => IoOutcome::Bytes(bytes),
            Err(Errno::AGAIN) => IoOutcome::WouldBlock,
            Err(e) => IoOutcome::Failed(e.into()),
        }
    }
}

/// A new non-blocking TCP socket for the family of `addr`.
pub(crate) fn stream_socket(addr: IpAddr) -> Result<OwnedFd, Errno> {
    let family = match addr {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

#[cfg(test)]
mod tests;
