//! Text forms of networks and NIDs [NID-4].

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use super::{Net, NetKind, Nid};

/// Why a text is not a network, a NID or a process id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseNidError {
    /// The part after `@` names no network.
    #[error("unknown network; expected a name such as tcp, o2ib1, or <type:number>")]
    BadNet,
    /// The part before `@` is not an address of that network.
    #[error("not an address of this network")]
    BadAddress,
    /// The part before `-` is not a pid.
    #[error("not a process id; expected a number such as 12345, or U and a number")]
    BadPid,
}

/// How the addresses of a kind of network are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressText {
    /// Dotted quad, or IPv6.
    Ip,
    /// A number.
    Number,
}

/// Names in the order in which they are tried as prefixes.
const NAMES: [(&str, NetKind, AddressText); 9] = [
    ("lo", NetKind::LO, AddressText::Number),
    ("tcp", NetKind::TCP, AddressText::Ip),
    ("o2ib", NetKind::O2IB, AddressText::Ip),
    ("gni", NetKind::GNI, AddressText::Number),
    ("gip", NetKind::GIP, AddressText::Ip),
    ("ptlf", NetKind::PTLF, AddressText::Number),
    ("kfi", NetKind::KFI, AddressText::Number),
    ("efa", NetKind::EFA, AddressText::Ip),
    ("bxi3f", NetKind::BXI3F, AddressText::Number),
];

fn name_of(kind: NetKind) -> Option<(&'static str, AddressText)> {
    NAMES.iter().find(|row| row.1 == kind).map(|row| (row.0, row.2))
}

/// Whether addresses of this kind of network are IP addresses.
pub(crate) fn is_ip_kind(kind: NetKind) -> bool {
    matches!(name_of(kind), Some((_, AddressText::Ip)))
}

/// A decimal number without sign, blanks or anything else that is not a digit.
pub(crate) fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn hex(text: &str) -> Option<u128> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if digits { u128::from_str_radix(text, 16).ok() } else { None }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name_of(self.kind) {
            Some((name, _)) if self.number == 0 => f.write_str(name),
            // `lo` takes no number, so one with a number has no name.
            Some((name, _)) if self.kind != NetKind::LO => write!(f, "{name}{}", self.number),
            _ => write!(f, "<{}:{}>", self.kind.0, self.number),
        }
    }
}

impl FromStr for Net {
    type Err = ParseNidError;

    fn from_str(text: &str) -> Result<Net, ParseNidError> {
        if let Some(inner) = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')) {
            let (kind, number) = inner.split_once(':').ok_or(ParseNidError::BadNet)?;
            let kind = decimal(kind).and_then(|n| u8::try_from(n).ok());
            let number = decimal(number).and_then(|n| u16::try_from(n).ok());
            return match (kind, number) {
                (Some(kind), Some(number)) => Ok(Net::new(NetKind(kind), number)),
                _ => Err(ParseNidError::BadNet),
            };
        }
        let (rest, kind) = NAMES
            .iter()
            .find_map(|row| Some((text.strip_prefix(row.0)?, row.1)))
            .ok_or(ParseNidError::BadNet)?;
        if rest.is_empty() {
            return Ok(Net::new(kind, 0));
        }
        if kind == NetKind::LO {
            return Err(ParseNidError::BadNet);
        }
        let number = decimal(rest).and_then(|n| u16::try_from(n).ok());
        number.map(|number| Net::new(kind, number)).ok_or(ParseNidError::BadNet)
    }
}

impl fmt::Display for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("<?>");
        }
        let net = self.net();
        if let Some(ip) = self.ip() {
            return write!(f, "{ip}@{net}");
        }
        match (name_of(net.kind), self.addr4(), self.addr16()) {
            // Only 0@lo has a name; other addresses of `lo` are shown as an unknown kind.
            (_, Some(addr), _) if net.kind == NetKind::LO && (addr != 0 || net.number != 0) => {
                write!(f, "{addr:x}@<{}:{}>", net.kind.0, net.number)
            }
            (Some(_), Some(addr), _) => write!(f, "{addr}@{net}"),
            (None, Some(addr), _) => write!(f, "{addr:x}@{net}"),
            (_, None, Some(addr)) => {
                let number = u128::from_be_bytes(addr);
                write!(f, "{number:032x}@<{}:{}>", net.kind.0, net.number)
            }
            (_, None, None) => f.write_str("<?>"),
        }
    }
}

impl fmt::Debug for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Nid {
    type Err = ParseNidError;

    /// Reads `address@net`; without `@` the network is `tcp`. `<?>` is the wildcard.
    fn from_str(text: &str) -> Result<Nid, ParseNidError> {
        if text == "<?>" {
            return Ok(Nid::ANY);
        }
        let (address, net, by_number) = match text.split_once('@') {
            Some((address, net)) => (address, net.parse()?, net.starts_with('<')),
            None => (text, Net::TCP, false),
        };
        let nid = match name_of(net.kind) {
            Some((_, AddressText::Ip)) if !by_number => parse_ip(address, net),
            Some((_, AddressText::Number)) if !by_number => {
                parse_number(address).map(|n| Nid::new4(net, n))
            }
            _ => parse_hex(address, net),
        };
        match nid {
            Some(nid) if net == Net::LO && !by_number && nid != Nid::LO => None,
            other => other,
        }
        .ok_or(ParseNidError::BadAddress)
    }
}

impl Nid {
    /// Reads a NID where a wildcard is legal: `*` is [`Nid::ANY`], all else as [`FromStr`].
    ///
    /// # Errors
    /// As [`FromStr`].
    pub fn parse_or_any(text: &str) -> Result<Nid, ParseNidError> {
        if text == "*" { Ok(Nid::ANY) } else { text.parse() }
    }
}

fn parse_ip(address: &str, net: Net) -> Option<Nid> {
    let ip = match address.parse::<Ipv4Addr>() {
        Ok(v4) => IpAddr::V4(v4),
        Err(_) => IpAddr::V6(address.parse::<Ipv6Addr>().ok()?),
    };
    Some(Nid::from_ip(net, ip))
}

/// Decimal, or hexadecimal after `0x`.
pub(crate) fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::try_from(hex(digits)?).ok(),
        None => decimal(text),
    }
}

/// The address of a kind without a name: 1 to 8 digits, or all 32 of a 16-byte address.
fn parse_hex(text: &str, net: Net) -> Option<Nid> {
    let number = hex(text)?;
    match text.len() {
        32 => Some(Nid::new6(net, number.to_be_bytes())),
        1..=8 => Some(Nid::new4(net, u32::try_from(number).ok()?)),
        _ => None,
    }
}

impl serde::Serialize for Nid {
    /// As its text.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Nid {
    /// From its text.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Nid, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(|error| serde::de::Error::custom(format!("{text:?}: {error}")))
    }
}
