//! Network ids: the source and destination of a message.

mod process_id;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use process_id::{PID_ANY, PID_LUSTRE, PID_USERLAND, ProcessId};
pub use text::ParseNidError;
pub(crate) use text::{decimal, is_ip_kind, parse_number};

/// The kind of a network: the driver that serves it [NID-7]. Unknown numbers are legal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetKind(pub u8);

impl NetKind {
    /// TCP (`tcp`).
    pub const TCP: NetKind = NetKind(2);
    /// InfiniBand and RoCE (`o2ib`).
    pub const O2IB: NetKind = NetKind(5);
    /// The node itself (`lo`).
    pub const LO: NetKind = NetKind(9);
    /// Gemini and Aries (`gni`).
    pub const GNI: NetKind = NetKind(13);
    /// Gemini over IP (`gip`).
    pub const GIP: NetKind = NetKind(14);
    /// Portals 4 (`ptlf`).
    pub const PTLF: NetKind = NetKind(15);
    /// Slingshot's kernel fabric interface (`kfi`).
    pub const KFI: NetKind = NetKind(16);
    /// Tofu; it has no text name.
    pub const TOFU: NetKind = NetKind(17);
    /// Elastic Fabric Adapter (`efa`).
    pub const EFA: NetKind = NetKind(18);
    /// BXI (`bxi3f`).
    pub const BXI3F: NetKind = NetKind(19);
    /// The kind of [`Nid::ANY`].
    pub const ANY: NetKind = NetKind(0xff);
}

/// One network: a kind and a number, such as `tcp` (number 0) or `o2ib3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net {
    /// The driver.
    pub kind: NetKind,
    /// The number that distinguishes networks of one kind; 0 is not printed.
    pub number: u16,
}

impl Net {
    /// The network `tcp`, which is the default where a NID's text names none.
    pub const TCP: Net = Net { kind: NetKind::TCP, number: 0 };
    /// The network of the node itself.
    pub const LO: Net = Net { kind: NetKind::LO, number: 0 };
    /// The network of [`Nid::ANY`].
    pub const ANY: Net = Net { kind: NetKind::ANY, number: 0xffff };

    /// A network from its two parts.
    pub const fn new(kind: NetKind, number: u16) -> Net {
        Net { kind, number }
    }

    /// The upper half of a short NID: kind << 16 | number [NID-1].
    pub const fn id(self) -> u32 {
        (self.kind.0 as u32) << 16 | self.number as u32
    }

    /// The network with this [`id`](Net::id); the topmost eight bits are ignored.
    pub const fn from_id(id: u32) -> Net {
        Net { kind: NetKind((id >> 16) as u8), number: id as u16 }
    }
}

/// A network id: an address on a network, or the wildcard [`Nid::ANY`].
///
/// Held as the canonical 20 bytes of the long form [NID-2]: bytes that the form does not use are
/// zero, and the wildcard is all ones. Hence equality is that of the protocol, and the order is the
/// plain byte order that decides connection races [NID-3].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nid([u8; 20]);

impl Hash for Nid {
    /// As numbers: every message looks its peer up, and hashing bytes takes much longer. The half
    /// with the size and the network, which a peer cannot choose, comes first and is mixed with the
    /// next eight bytes: if those were mixed with a constant of the hasher alone, a peer that knows
    /// the constant could create any number of NIDs with the same hash.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.0;
        let [i, j, k, l, m, n, o, p, end @ ..] = rest;
        let first = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let second = u64::from_ne_bytes([i, j, k, l, m, n, o, p]);
        state.write_u128(u128::from(first) << 64 | u128::from(second));
        state.write_u32(u32::from_ne_bytes(end));
    }
}

/// Value of the long form's size byte for a 4-byte address.
const SIZE_4: u8 = 0;
/// Value of the long form's size byte for a 16-byte address.
const SIZE_16: u8 = 12;

/// Why 20 bytes are not a NID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NidError {
    /// The size byte names neither a 4-byte nor a 16-byte address.
    #[error("a NID of {0} + 8 bytes: only 0 and 12 have a meaning")]
    BadSize(u8),
}

/// A NID with a 16-byte address met a structure that has room for the short form only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} does not fit the short form of a NID")]
pub struct NidTooLong(pub Nid);

impl Nid {
    /// Length of the long form in bytes.
    pub const LONG_LEN: usize = 20;
    /// The wildcard; also what "no NID" is written as.
    pub const ANY: Nid = Nid([0xff; 20]);
    /// `0@lo`: the node itself.
    pub const LO: Nid = Nid::new4(Net::LO, 0);

    /// A NID with a 4-byte address: an IPv4 address as a number (10.0.0.1 is 0x0a000001), or a
    /// plain number. On the wildcard's network this is [`Nid::ANY`].
    pub const fn new4(net: Net, addr: u32) -> Nid {
        Nid::from_short((net.id() as u64) << 32 | addr as u64)
    }

    /// A NID with a 16-byte address. On the wildcard's network this is [`Nid::ANY`].
    pub const fn new6(net: Net, addr: [u8; 16]) -> Nid {
        if net.kind.0 == NetKind::ANY.0 {
            return Nid::ANY;
        }
        let number = net.number.to_be_bytes();
        let mut raw = [0; 20];
        raw[0] = SIZE_16;
        raw[1] = net.kind.0;
        raw[2] = number[0];
        raw[3] = number[1];
        let mut i = 0;
        while i < 16 {
            raw[4 + i] = addr[i];
            i += 1;
        }
        Nid(raw)
    }

    /// The NID of an IP address on `net`.
    pub const fn from_ip(net: Net, ip: IpAddr) -> Nid {
        match ip {
            IpAddr::V4(v4) => Nid::new4(net, v4.to_bits()),
            IpAddr::V6(v6) => Nid::new6(net, v6.octets()),
        }
    }

    /// Reads the short form [NID-1], already converted from its byte order. Total: kind 0xff, which
    /// includes all ones, is [`Nid::ANY`]; the topmost eight bits, which have no meaning, are
    /// ignored.
    #[inline]
    pub const fn from_short(short: u64) -> Nid {
        if (short >> 48) as u8 == NetKind::ANY.0 {
            return Nid::ANY;
        }
        // One wide store: this runs twice for every message.
        let mut raw = [0; 20];
        raw.split_at_mut(8).0.copy_from_slice(&(short & (u64::MAX >> 8)).to_be_bytes());
        Nid(raw)
    }

    /// The short form, or `None` for a 16-byte address, which has none.
    #[inline]
    pub const fn to_short(&self) -> Option<u64> {
        if self.0[0] == SIZE_16 {
            return None;
        }
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        Some(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The short form, or an error that names this NID.
    #[inline]
    pub const fn require_short(&self) -> Result<u64, NidTooLong> {
        match self.to_short() {
            Some(short) => Ok(short),
            None => Err(NidTooLong(*self)),
        }
    }

    /// The 20 bytes of the long form, which are never byte-swapped.
    #[inline]
    pub const fn to_long(&self) -> [u8; 20] {
        self.0
    }

    /// Reads the long form. Bytes beyond those that the size byte names as used are ignored.
    ///
    /// # Errors
    /// [`NidError::BadSize`] if the size byte is neither 0 nor 12 and the kind is not ANY.
    #[inline]
    pub const fn from_long(raw: &[u8; 20]) -> Result<Nid, NidError> {
        if raw[1] == NetKind::ANY.0 {
            return Ok(Nid::ANY);
        }
        match raw[0] {
            SIZE_4 => {
                let [a, b, c, d, e, f, g, h, ..] = *raw;
                Ok(Nid::from_short(u64::from_be_bytes([a, b, c, d, e, f, g, h])))
            }
            SIZE_16 => Ok(Nid(*raw)),
            other => Err(NidError::BadSize(other)),
        }
    }

    /// Whether this is the wildcard.
    #[inline]
    pub fn is_any(&self) -> bool {
        *self == Nid::ANY
    }

    /// Whether this is on the loopback network.
    #[inline]
    pub fn is_lo(&self) -> bool {
        self.net().kind == NetKind::LO
    }

    /// The network; [`Net::ANY`] for the wildcard.
    #[inline]
    pub const fn net(&self) -> Net {
        Net { kind: NetKind(self.0[1]), number: u16::from_be_bytes([self.0[2], self.0[3]]) }
    }

    /// The 4-byte address as a number, or `None` for the wildcard and for 16-byte addresses.
    pub const fn addr4(&self) -> Option<u32> {
        if self.0[0] != SIZE_4 {
            return None;
        }
        Some(u32::from_be_bytes([self.0[4], self.0[5], self.0[6], self.0[7]]))
    }

    /// The 16-byte address, or `None` for the wildcard and for 4-byte addresses.
    pub fn addr16(&self) -> Option<[u8; 16]> {
        (self.0[0] == SIZE_16).then(|| crate::byte_order::array_at(&self.0, 4))
    }

    /// The IP address, on the networks whose addresses are IP addresses (tcp, o2ib, gip, efa).
    pub fn ip(&self) -> Option<IpAddr> {
        if !text::is_ip_kind(self.net().kind) {
            return None;
        }
        match self.addr16() {
            Some(raw) => Some(IpAddr::V6(Ipv6Addr::from(raw))),
            None => self.addr4().map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        }
    }

    /// How many bytes of the long form are used: 8 or 20 (ping info writes only those).
    pub const fn used_len(&self) -> usize {
        if self.0[0] == SIZE_4 { 8 } else { 20 }
    }
}
