//! Packets as a TUN device with segmentation offload gives them: one read may be a whole train of
//! TCP segments with one header, which the wire carries as that many packets.
//!
//! [`Train::parse`] finds out how many; [`Train::cut`] writes the header of a part of the train,
//! for example of the segments that were not lost. Nothing here trusts the bytes: what cannot be
//! understood is one packet, or is refused when it claims to be many.

use crate::rng::mix;

/// Length of the header that a TUN device puts before a packet (`struct virtio_net_hdr`).
pub(crate) const OFFLOAD_HEADER: usize = 10;

/// Longest read of a TUN device: the offload header and the longest IP packet.
pub const READ_MAX: usize = OFFLOAD_HEADER + 65_535;

/// What an IP packet needs on Ethernet in addition to its own bytes: preamble 8, header 14,
/// checksum 4, gap 12.
pub const FRAME_EXTRA: u64 = 38;

/// Shortest payload of an Ethernet frame; shorter packets are padded.
const FRAME_PAYLOAD_MIN: u64 = 46;

/// Longest headers of IPv4 or IPv6 and TCP that are cut: both with all options, and IPv6 with
/// some extension headers.
const HEADERS_MAX: usize = 192;

/// Room that [`Train::cut`] needs.
pub(crate) const CUT_MAX: usize = OFFLOAD_HEADER + HEADERS_MAX;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// Bytes on the wire of an IP packet of this length.
pub(crate) fn wire_bytes(ip_packet: u64) -> u64 {
    ip_packet.max(FRAME_PAYLOAD_MIN) + FRAME_EXTRA
}

/// One read of a TUN device: one packet, or a train of TCP segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Train {
    /// Bytes of the headers that every segment has; the whole packet if it is not a train.
    headers: usize,
    /// Bytes of payload of all segments; 0 if it is not a train.
    payload: usize,
    /// Bytes of payload of each segment but the last.
    segment: usize,
    /// What chooses among parallel links: the addresses, and the ports.
    hosts: u64,
    streams: u64,
}

/// A read of a TUN device that is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Where the parts of a TCP packet are, counted from the beginning of the IP header.
struct TcpLayout {
    version: u8,
    /// Where the TCP header begins.
    tcp: usize,
    /// Where the payload begins.
    payload: usize,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A field of the offload header, which has the machine's byte order.
fn native_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Protocol, and where its header begins; `None` for fragments after the first.
fn transport(ip: &[u8]) -> Option<(u8, usize)> {
    match ip.first()? >> 4 {
        4 => {
            let header = usize::from(ip[0] & 15) * 4;
            let fragment = u16_at(ip, 6)? & 0x1fff;
            (fragment == 0 && header >= 20).then_some((*ip.get(9)?, header))
        }
        // Extension headers are not followed: such packets are told apart by their addresses.
        6 => Some((*ip.get(6)?, 40)),
        _ => None,
    }
}

/// Numbers of the flow of a packet, by its addresses, and by its ports too.
fn flow(ip: &[u8]) -> (u64, u64) {
    let addresses = match ip.first().map_or(0, |first| first >> 4) {
        4 => ip.get(12..20),
        6 => ip.get(8..40),
        _ => None,
    };
    let words = addresses.unwrap_or_default().chunks(4);
    let hosts = words.fold(0, |sum, word| {
        let word = word.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        mix(sum ^ word)
    });
    let ports = match transport(ip) {
        Some((TCP | UDP, at)) => u32_at(ip, at),
        _ => None,
    };
    (hosts, mix(hosts ^ u64::from(ports.unwrap_or_default())))
}

fn tcp_layout(ip: &[u8], tcp: usize) -> Option<TcpLayout> {
    let version = ip.first()? >> 4;
    let payload = tcp + usize::from(ip.get(tcp + 12)? >> 4) * 4;
    let long_enough = tcp >= if version == 6 { 40 } else { 20 } && payload >= tcp + 20;
    let known = matches!(version, 4 | 6);
    (known && long_enough && payload <= ip.len() && payload <= HEADERS_MAX).then_some(TcpLayout {
        version,
        tcp,
        payload,
    })
}

impl Train {
    /// Reads what a TUN device has given: offload header and packet.
    ///
    /// # Errors
    /// When it is shorter than its headers, or claims to be a train and is not one of TCP.
    pub(crate) fn parse(read: &[u8]) -> Result<Train, Malformed> {
        let (offload, ip) = read.split_at_checked(OFFLOAD_HEADER).ok_or(Malformed)?;
        if ip.is_empty() {
            return Err(Malformed);
        }
        let (hosts, streams) = flow(ip);
        let single = Train { headers: ip.len(), payload: 0, segment: 0, hosts, streams };
        match offload[1] & !GSO_ECN {
            GSO_NONE => return Ok(single),
            GSO_TCPV4 | GSO_TCPV6 => {}
            _ => return Err(Malformed),
        }
        let segment = usize::from(native_at(offload, 4).ok_or(Malformed)?);
        let tcp = usize::from(native_at(offload, 6).ok_or(Malformed)?);
        let layout = tcp_layout(ip, tcp).ok_or(Malformed)?;
        let payload = ip.len() - layout.payload;
        if segment == 0 || payload == 0 || offload[0] & NEEDS_CHECKSUM == 0 {
            return Err(Malformed);
        }
        Ok(Train { headers: layout.payload, payload, segment, hosts, streams })
    }

    /// How many packets it is on the wire.
    pub(crate) fn segments(&self) -> u32 {
        match self.segment {
            0 => 1,
            segment => self.payload.div_ceil(segment) as u32,
        }
    }

    /// Bytes of the IP packet of one segment, by its place in the train.
    pub(crate) fn packet_bytes(&self, segment: u32) -> u64 {
        let before = self.segment.saturating_mul(segment as usize);
        let payload = self.payload.saturating_sub(before).min(self.segment);
        (self.headers + payload) as u64
    }

    /// Where the headers of the read end.
    pub(crate) fn headers_end(&self) -> usize {
        OFFLOAD_HEADER + self.headers
    }

    /// Where the payload of some segments is in the read.
    pub(crate) fn bytes(&self, first: u32, count: u32) -> std::ops::Range<usize> {
        let until = |segment: u32| {
            let payload = self.segment.saturating_mul(segment as usize).min(self.payload);
            self.headers_end() + payload
        };
        until(first)..until(first + count)
    }

    /// A number that is the same for all packets between the same two hosts in one direction.
    pub(crate) fn hosts(&self) -> u64 {
        self.hosts
    }

    /// A number that is the same for all packets of a TCP or UDP stream in one direction.
    pub(crate) fn streams(&self) -> u64 {
        self.streams
    }

    /// Makes a part of the train a packet of its own: writes its headers to `out` and returns
    /// their length, and where its payload is in `read`. For a whole train that is all of it,
    /// unchanged.
    ///
    /// # Panics
    /// When the segments are not part of the train, which was read from other bytes.
    pub(crate) fn cut(
        &self,
        read: &[u8],
        first: u32,
        count: u32,
        out: &mut [u8; CUT_MAX],
    ) -> (usize, std::ops::Range<usize>) {
        assert!(count > 0 && first + count <= self.segments(), "segments of the train");
        if count == self.segments() {
            return (0, 0..read.len());
        }
        let headers = self.headers_end();
        let bytes = self.bytes(first, count);
        let (begin, end) = (bytes.start - headers, bytes.end - headers);
        out[..headers].copy_from_slice(&read[..headers]);
        let tcp = usize::from(native_at(read, 6).unwrap_or_default());
        let layout = TcpLayout { version: read[OFFLOAD_HEADER] >> 4, tcp, payload: self.headers };
        let (offload, ip) = out[..headers].split_at_mut(OFFLOAD_HEADER);
        if end - begin <= self.segment {
            offload[1] = GSO_NONE;
            offload[4..6].copy_from_slice(&0u16.to_ne_bytes());
        }
        offload[2..4].copy_from_slice(&(self.headers as u16).to_ne_bytes());
        layout.becomes(ip, begin, end - begin, first, end == self.payload);
        (headers, bytes)
    }
}

impl TcpLayout {
    /// Changes the headers of a train to those of a part: `len` bytes from `begin`.
    fn becomes(&self, ip: &mut [u8], begin: usize, len: usize, first: u32, is_last: bool) {
        let segment_len = (self.payload - self.tcp + len) as u16;
        if self.version == 4 {
            let total = (self.payload + len) as u16;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            // The kernel counts the identification up from segment to segment.
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let check = !folded(sum(&ip[..self.tcp.min(60)]));
            ip[10..12].copy_from_slice(&check.to_be_bytes());
        } else {
            let after_header = (self.payload - 40 + len) as u16;
            ip[4..6].copy_from_slice(&after_header.to_be_bytes());
        }
        let addresses = if self.version == 4 { 12..20 } else { 8..40 };
        // The checksum of the pseudo header, which whoever completes it adds to.
        let pseudo = sum(&ip[addresses]) + u32::from(TCP) + u32::from(segment_len);
        let tcp = &mut ip[self.tcp..];
        let number = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        tcp[4..8].copy_from_slice(&number.wrapping_add(begin as u32).to_be_bytes());
        if !is_last {
            tcp[13] &= !(TCP_FIN | TCP_PSH);
        }
        if first > 0 {
            tcp[13] &= !TCP_CWR;
        }
        tcp[16..18].copy_from_slice(&folded(pseudo).to_be_bytes());
    }
}

/// The sum of 16-bit words.
fn sum(bytes: &[u8]) -> u32 {
    let word = |word: &[u8]| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

/// A sum with its carries added.
fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub(crate) mod tests;
