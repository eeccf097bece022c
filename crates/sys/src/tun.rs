//! TUN devices: network interfaces whose packets are read and written by a program.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::interface_setup::request;

/// The device from which TUN devices are made.
pub const TUN_DEVICE: &str = "/dev/net/tun";

/// A TUN device of this process. It exists until it is dropped, or the process ends in any way.
///
/// Reads and writes are an offload header (`struct virtio_net_hdr`, 10 bytes) and an IP packet,
/// which may be a train of TCP segments, and whose checksum may be left out.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

/// What a device takes and gives as a whole: checksums that are not computed, and trains of TCP
/// segments over IPv4 and IPv6, also with congestion marks.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

impl Tun {
    /// Makes a device of this name in the network namespace of this thread. The name must be free:
    /// a device that exists, whoever made it, is not opened.
    ///
    /// # Errors
    /// When there is no `/dev/net/tun`, or this process may not make devices, or the name is taken.
    pub fn new(name: &str) -> io::Result<Tun> {
        let mut options = OpenOptions::new();
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = options.read(true).write(true).custom_flags(flags).open(TUN_DEVICE)?;
        let mut request = request(name)?;
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the request is a whole `ifreq` that outlives the call, and the descriptor is
        // open because the file is.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the argument of this request is a number.
        let set = unsafe {
            libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(OFFLOADS))
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Tun { file })
    }

    /// Reads one packet; `None` if there is none.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(into) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The interface is down.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes one packet, whose bytes are in two pieces.
    ///
    /// # Errors
    /// Those of write(2), for example when the interface is down or the packet is none.
    pub fn write(&self, one: &[u8], two: &[u8]) -> io::Result<()> {
        match one.is_empty() {
            true => (&self.file).write(two).map(drop),
            false => (&self.file).write_vectored(&[IoSlice::new(one), IoSlice::new(two)]).map(drop),
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
