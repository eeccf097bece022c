//! Extracts the TCP segment from a captured frame.

#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TcpSlice, TransportSlice};

/// The first layer of a frame. The numbers are those of capture files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// An IP packet.
    Raw,
    /// BSD loopback: four bytes of address family, then an IP packet.
    Loopback,
    /// Linux "any" device, first version.
    LinuxCooked,
    /// Linux "any" device, second version.
    LinuxCooked2,
}

impl LinkType {
    /// The link type with this number in a capture file, if it is supported.
    pub const fn from_number(number: i32) -> Option<LinkType> {
        Some(match number {
            0 | 108 => LinkType::Loopback,
            1 => LinkType::Ethernet,
            12 | 14 | 101 | 228 | 229 => LinkType::Raw,
            113 => LinkType::LinuxCooked,
            276 => LinkType::LinuxCooked2,
            _ => return None,
        })
    }
}

/// One frame of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// What the bytes start with.
    pub link: LinkType,
    /// The captured bytes; the frame may have been longer.
    pub bytes: &'a [u8],
}

/// The fields of one frame that matter to a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) source: SocketAddr,
    pub(crate) target: SocketAddr,
    pub(crate) seq: u32,
    /// The acknowledgement number, if the ACK flag marks it as valid.
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The TCP segment in this frame; `None` if there is none, or only a fragment of one.
    pub(crate) fn segment(&self) -> Option<Segment<'a>> {
        let packet = self.slice()?;
        let (source, target) = match packet.net? {
            LaxNetSlice::Ipv4(ip) => {
                (IpAddr::V4(ip.header().source_addr()), IpAddr::V4(ip.header().destination_addr()))
            }
            LaxNetSlice::Ipv6(ip) => {
                (IpAddr::V6(ip.header().source_addr()), IpAddr::V6(ip.header().destination_addr()))
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else {
            return None;
        };
        Some(Segment::new(source, target, &tcp))
    }

    /// Splits the frame into its layers. Lengths are checked leniently: the capture may have cut
    /// the frame, and frames that the network card was to split announce wrong lengths.
    fn slice(&self) -> Option<LaxSlicedPacket<'a>> {
        match self.link {
            LinkType::Ethernet => LaxSlicedPacket::from_ethernet(self.bytes).ok(),
            LinkType::Raw => LaxSlicedPacket::from_ip(self.bytes).ok(),
            LinkType::Loopback => LaxSlicedPacket::from_ip(self.bytes.get(4..)?).ok(),
            LinkType::LinuxCooked => self.cooked(14, 16),
            LinkType::LinuxCooked2 => self.cooked(0, 20),
        }
    }

    /// A cooked header of `len` bytes with the ether type at `at`.
    fn cooked(&self, at: usize, len: usize) -> Option<LaxSlicedPacket<'a>> {
        let payload = self.bytes.get(len..)?;
        let number = u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        Some(LaxSlicedPacket::from_ether_type(EtherType(number), payload))
    }
}

impl<'a> Segment<'a> {
    fn new(source: IpAddr, target: IpAddr, tcp: &TcpSlice<'a>) -> Segment<'a> {
        Segment {
            source: SocketAddr::new(source, tcp.source_port()),
            target: SocketAddr::new(target, tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            syn: tcp.syn(),
            fin: tcp.fin(),
            rst: tcp.rst(),
            payload: tcp.payload(),
        }
    }
}
