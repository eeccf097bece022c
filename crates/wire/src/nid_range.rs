//! Sets of NIDs in the notation of nodemaps, path selection policies and fault rules [NID-5]:
//! `10.0.[1-4].*@tcp 10.1.0.0/16@o2ib 2001:db8::/32@tcp [1-8]@kfi *@tcp1 *`.
//!
//! ```
//! use lustrine_wire::Nid;
//! use lustrine_wire::nid_range::NidRanges;
//!
//! let nid: Nid = "10.0.0.7@tcp1".parse().unwrap();
//! assert_eq!(nid.net().to_string(), "tcp1");
//!
//! let ranges: NidRanges = "10.0.0.[1-9]@tcp1 10.1.0.0/16@o2ib".parse().unwrap();
//! assert!(ranges.matches(&nid));
//! assert!(!ranges.matches(&"10.0.0.7@tcp".parse().unwrap()));
//! ```

#[cfg(test)]
mod tests;

use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use crate::nid::{Net, Nid, ParseNidError, is_ip_kind, parse_number};
use crate::text_range::{Span, nth_of};

/// The most patterns in one list.
const RANGES_MAX: usize = 1024;
/// The most numbers and ranges in one pair of brackets.
const SPANS_MAX: usize = 256;

/// Why a text is not a list of NID patterns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NidRangeError {
    /// The part after `@` names no network.
    #[error("{pattern}: {source}")]
    BadNet {
        /// The invalid pattern.
        pattern: String,
        /// What is wrong.
        source: ParseNidError,
    },
    /// The part before `@` is not a pattern of this network's addresses.
    #[error("{0}: not a pattern of addresses of this network")]
    BadAddress(String),
    /// More patterns than the limit.
    #[error("more than {RANGES_MAX} patterns in one list")]
    TooMany,
    /// Expansion would give more NIDs than the caller allows, or a range without an end.
    #[error("stands for more than {0} NIDs")]
    TooManyNids(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Addresses {
    /// Every address of the network.
    All,
    /// One set for each of the four bytes of an IPv4 address.
    Bytes([Vec<Span>; 4]),
    /// All IPv4 addresses with this prefix.
    Prefix4 { addr: u32, len: u8 },
    /// All IPv6 addresses with this prefix.
    Prefix6 { addr: u128, len: u8 },
    /// Numbers, on networks whose addresses are numbers.
    Numbers(Vec<Span>),
}

/// One pattern: which addresses of which network; without a network, of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NidRange {
    net: Option<Net>,
    addresses: Addresses,
}

/// A list of patterns; a NID belongs to it if any of them matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NidRanges {
    ranges: Vec<NidRange>,
}

impl NidRanges {
    /// Whether any pattern matches.
    pub fn matches(&self, nid: &Nid) -> bool {
        self.ranges.iter().any(|range| range.matches(nid))
    }

    /// The patterns.
    pub fn ranges(&self) -> &[NidRange] {
        &self.ranges
    }

    /// All NIDs of all patterns, in their order; a NID of two patterns occurs twice.
    ///
    /// # Errors
    /// [`NidRangeError::TooManyNids`] if there are more than `limit`, or one pattern has `*` for
    /// the whole address.
    pub fn expand(&self, limit: u64) -> Result<impl Iterator<Item = Nid> + '_, NidRangeError> {
        let mut total = 0u64;
        for range in &self.ranges {
            let count = range.count().ok_or(NidRangeError::TooManyNids(limit))?;
            total = total.saturating_add(count);
        }
        if total > limit {
            return Err(NidRangeError::TooManyNids(limit));
        }
        Ok(self.ranges.iter().flat_map(|range| {
            (0..range.count().unwrap_or(0)).filter_map(move |index| range.nth(index))
        }))
    }
}

impl FromStr for NidRanges {
    type Err = NidRangeError;

    fn from_str(text: &str) -> Result<NidRanges, NidRangeError> {
        let mut ranges = Vec::new();
        for pattern in text.split_whitespace() {
            if ranges.len() >= RANGES_MAX {
                return Err(NidRangeError::TooMany);
            }
            ranges.push(pattern.parse()?);
        }
        Ok(NidRanges { ranges })
    }
}

impl NidRange {
    /// Whether the pattern matches. The wildcard NID matches only `*`.
    pub fn matches(&self, nid: &Nid) -> bool {
        let Some(net) = self.net else {
            return true;
        };
        if nid.net() != net {
            return false;
        }
        match &self.addresses {
            Addresses::All => true,
            Addresses::Bytes(sets) => nid.addr4().is_some_and(|addr| {
                sets.iter().zip(addr.to_be_bytes()).all(|(set, b)| contains(set, u32::from(b)))
            }),
            Addresses::Prefix4 { addr, len } => {
                nid.addr4().is_some_and(|a| (a ^ addr).leading_zeros() >= u32::from(*len))
            }
            Addresses::Prefix6 { addr, len } => nid.addr16().is_some_and(|a| {
                (u128::from_be_bytes(a) ^ addr).leading_zeros() >= u32::from(*len)
            }),
            Addresses::Numbers(set) => nid.addr4().is_some_and(|addr| contains(set, addr)),
        }
    }

    /// How many NIDs the pattern stands for, at most `u64::MAX`; `None` for a whole network.
    pub fn count(&self) -> Option<u64> {
        match &self.addresses {
            Addresses::All => None,
            Addresses::Bytes(sets) => {
                Some(sets.iter().map(|set| count(set)).fold(1, u64::saturating_mul))
            }
            Addresses::Prefix4 { len, .. } => Some(1 << (32 - len)),
            Addresses::Prefix6 { len, .. } => {
                Some(1u64.checked_shl(u32::from(128 - len)).unwrap_or(u64::MAX))
            }
            Addresses::Numbers(set) => Some(count(set)),
        }
    }

    /// The NID at `index`; `None` beyond the last.
    fn nth(&self, mut index: u64) -> Option<Nid> {
        let net = self.net?;
        if index >= self.count()? {
            return None;
        }
        match &self.addresses {
            Addresses::All => None,
            Addresses::Bytes(sets) => {
                let mut bytes = [0; 4];
                for (byte, set) in bytes.iter_mut().zip(sets).rev() {
                    *byte = nth_of(set, index % count(set)) as u8;
                    index /= count(set);
                }
                Some(Nid::new4(net, u32::from_be_bytes(bytes)))
            }
            Addresses::Prefix4 { addr, .. } => Some(Nid::new4(net, addr | index as u32)),
            Addresses::Prefix6 { addr, .. } => {
                Some(Nid::new6(net, (addr | u128::from(index)).to_be_bytes()))
            }
            Addresses::Numbers(set) => Some(Nid::new4(net, nth_of(set, index))),
        }
    }
}

impl FromStr for NidRange {
    type Err = NidRangeError;

    fn from_str(pattern: &str) -> Result<NidRange, NidRangeError> {
        if pattern == "*" {
            return Ok(NidRange { net: None, addresses: Addresses::All });
        }
        let (address, net) = match pattern.split_once('@') {
            Some((address, net)) => {
                let net = net.parse().map_err(|source| NidRangeError::BadNet {
                    pattern: pattern.to_owned(),
                    source,
                })?;
                (address, net)
            }
            None => (pattern, Net::TCP),
        };
        let addresses = parse_addresses(address, net)
            .ok_or_else(|| NidRangeError::BadAddress(pattern.to_owned()))?;
        Ok(NidRange { net: Some(net), addresses })
    }
}

fn parse_addresses(text: &str, net: Net) -> Option<Addresses> {
    if text == "*" {
        return Some(Addresses::All);
    }
    if !is_ip_kind(net.kind) {
        return Some(Addresses::Numbers(parse_set(text, u32::MAX)?));
    }
    if text.contains(':') {
        let (addr, len) = parse_prefix::<Ipv6Addr>(text, 128)?;
        let mask = u128::MAX.checked_shl(u32::from(128 - len)).unwrap_or(0);
        return Some(Addresses::Prefix6 { addr: addr.to_bits() & mask, len });
    }
    if !text.contains('[') && text.contains('/') {
        let (addr, len) = parse_prefix::<Ipv4Addr>(text, 32)?;
        let mask = u32::MAX.checked_shl(u32::from(32 - len)).unwrap_or(0);
        return Some(Addresses::Prefix4 { addr: addr.to_bits() & mask, len });
    }
    let mut sets = text.split('.').map(|byte| match byte {
        "*" => Some(vec![Span { low: 0, high: 255, stride: 1 }]),
        other => parse_set(other, 255),
    });
    let bytes = [sets.next()??, sets.next()??, sets.next()??, sets.next()??];
    sets.next().is_none().then_some(Addresses::Bytes(bytes))
}

/// An address and a number of leading bits; without `/`, all of them.
fn parse_prefix<A: FromStr>(text: &str, bits: u8) -> Option<(A, u8)> {
    let (addr, len) = match text.split_once('/') {
        Some((addr, len)) => (addr, u8::try_from(crate::nid::decimal(len)?).ok()?),
        None => (text, bits),
    };
    (len <= bits).then_some((addr.parse().ok()?, len))
}

/// One number, or a list in brackets, with no number above `max`.
fn parse_set(text: &str, max: u32) -> Option<Vec<Span>> {
    let spans = match text.strip_prefix('[') {
        None => {
            let n = parse_number(text)?;
            vec![Span { low: n, high: n, stride: 1 }]
        }
        Some(rest) => {
            let list = rest.strip_suffix(']')?;
            list.split(',')
                .take(SPANS_MAX + 1)
                .map(|item| Span::parse(item, parse_number))
                .collect::<Option<Vec<_>>>()?
        }
    };
    let legal = |s: &Span| s.stride > 0 && s.low <= s.high && s.high <= max;
    (spans.len() <= SPANS_MAX && spans.iter().all(legal)).then_some(spans)
}

fn contains(set: &[Span], number: u32) -> bool {
    set.iter().any(|span| span.contains(number))
}

fn count(set: &[Span]) -> u64 {
    set.iter().map(Span::count).fold(0, u64::saturating_add)
}
