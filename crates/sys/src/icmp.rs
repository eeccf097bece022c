//! A socket for ICMP over IPv4, which needs root or CAP_NET_RAW.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::net::if_::if_indextoname;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, setsockopt, sockopt::Ipv4PacketInfo,
};
use rustix::net::sockopt::Ipv4PathMtuDiscovery;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

/// The longest packet of IPv4.
const PACKET: usize = 65_535;

/// Sends messages of ICMP, and receives all that arrive at this host.
#[derive(Debug)]
pub struct IcmpSocket {
    fd: OwnedFd,
}

/// A packet of ICMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcmpPacket {
    /// The packet with its IP header.
    pub bytes: Vec<u8>,
    /// The interface at which it arrived, if that is known.
    pub interface: Option<String>,
}

impl IcmpSocket {
    /// Opens one.
    ///
    /// # Errors
    /// Without the privilege, and where there is no IPv4.
    pub fn open() -> io::Result<IcmpSocket> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let protocol = Some(ipproto::ICMP);
        let fd = net::socket_with(AddressFamily::INET, SocketType::RAW, flags, protocol)?;
        setsockopt(&fd, Ipv4PacketInfo, &true)?;
        sockopt::set_ip_mtu_discover(&fd, Ipv4PathMtuDiscovery::DO)?;
        Ok(IcmpSocket { fd })
    }

    /// Sends a message, which may pass at most `ttl` - 1 routers, and which none of them divides.
    ///
    /// # Errors
    /// When there is no route, when the path is known to take no packet of this length, and when
    /// the kernel refuses the packet.
    pub fn send(&self, message: &[u8], to: Ipv4Addr, ttl: u8) -> io::Result<()> {
        sockopt::set_ip_ttl(&self.fd, ttl.into())?;
        let to = SocketAddr::V4(SocketAddrV4::new(to, 0));
        net::sendto(&self.fd, message, SendFlags::DONTWAIT, &to)?;
        Ok(())
    }

    /// The next packet; `None` if there is none.
    ///
    /// # Errors
    /// When the socket has an error.
    pub fn receive(&self) -> io::Result<Option<IcmpPacket>> {
        let mut bytes = vec![0; PACKET];
        let mut space = nix::cmsg_space!(nix::libc::in_pktinfo);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = self.fd.as_raw_fd();
        let (len, index) = match recvmsg::<SockaddrIn>(fd, &mut slices, Some(&mut space), flags) {
            Ok(message) => {
                let index = message.cmsgs()?.find_map(|part| match part {
                    ControlMessageOwned::Ipv4PacketInfo(info) => Some(info.ipi_ifindex),
                    _ => None,
                });
                (message.bytes, index)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        bytes.truncate(len);
        let index = index.and_then(|index| u32::try_from(index).ok());
        let name = index.and_then(|index| if_indextoname(index).ok());
        Ok(Some(IcmpPacket { bytes, interface: name.and_then(|name| name.into_string().ok()) }))
    }

    /// Waits until a packet may be there.
    ///
    /// # Errors
    /// When the wait is not possible.
    pub fn wait(&self, most: Duration) -> io::Result<()> {
        crate::poller::wait_for_one(&self.fd, false, most)
    }
}

impl AsFd for IcmpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use lustrine_testing::{Need, not_run};

    use super::*;

    /// An echo of this machine to itself. The answer is one among all packets that arrive.
    #[test]
    fn this_machine_answers_itself() {
        let socket = match IcmpSocket::open() {
            Ok(socket) => socket,
            Err(error) => return not_run(Need::Root, &format!("raw sockets: {error}")),
        };
        // Type 8, a checksum for these words, and the identity 0x1d2c.
        let message = [8, 0, 0xda, 0xd0, 0x1d, 0x2c, 0, 3];
        socket.send(&message, Ipv4Addr::LOCALHOST, 64).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            socket.wait(Duration::from_secs(1)).unwrap();
            while let Some(packet) = socket.receive().unwrap() {
                if packet.bytes.get(20) == Some(&0) && packet.bytes.get(24..) == Some(&message[4..])
                {
                    assert_eq!(packet.interface.as_deref(), Some("lo"));
                    return;
                }
            }
        }
        panic!("no answer");
    }
}
