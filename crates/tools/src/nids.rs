//! Expressions for many nodes: `10.7.0.[4-9,12]@tcp`, `oss[1-3]@o2ib` (cli-habits 2).
//!
//! Brackets hold numbers and ranges, several of them multiply out, and the order is kept. What is
//! no address is the name of a host. Without a network, `tcp` is meant.

#[cfg(test)]
mod tests;

use core::net::Ipv4Addr;

use lustrine_wire::nid::{Net, Nid, ParseNidError};
use lustrine_wire::text_range::{TextRange, TextRangeError};

/// Most NIDs that one expression may stand for.
pub const NIDS_MAX: u64 = 16_384;

/// Longest name of a host.
const HOST_MAX: usize = 253;

/// Why an expression stands for no NIDs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NidsError {
    /// Its brackets are wrong.
    #[error("{0}")]
    Range(TextRangeError),
    /// Not a NID.
    #[error("{nid}: {why}")]
    Nid {
        /// What stands in its place.
        nid: String,
        /// What is wrong.
        why: ParseNidError,
    },
    /// A host that is not known.
    #[error("{nid}: {why}")]
    Host {
        /// The NID with the host's name.
        nid: String,
        /// Why it has no address.
        why: String,
    },
    /// More than one command takes.
    #[error("more than {NIDS_MAX} NIDs at once")]
    TooMany,
    /// The wildcard.
    #[error("<?> stands for no node")]
    Any,
}

/// All NIDs of an expression; `resolve` looks the names of hosts up.
///
/// # Errors
/// [`NidsError`], the first there is.
pub fn expand(
    text: &str,
    mut resolve: impl FnMut(&str) -> Result<Ipv4Addr, String>,
) -> Result<Vec<Nid>, NidsError> {
    let range = TextRange::parse(text).map_err(NidsError::Range)?;
    let names = range.expand(NIDS_MAX).map_err(NidsError::Range)?;
    names.map(|name| one(&name, &mut resolve)).collect()
}

/// All NIDs of some words, each with expressions that commas part.
///
/// # Errors
/// [`NidsError`], the first there is.
pub fn list(
    words: &[String],
    mut resolve: impl FnMut(&str) -> Result<Ipv4Addr, String>,
) -> Result<Vec<Nid>, NidsError> {
    let mut nids = Vec::new();
    for text in words.iter().flat_map(|word| parted(word)) {
        nids.extend(expand(text, &mut resolve)?);
        if nids.len() as u64 > NIDS_MAX {
            return Err(NidsError::TooMany);
        }
    }
    Ok(nids)
}

/// A word parted at commas outside of brackets.
fn parted(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (place, char) in word.char_indices() {
        match char {
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&word[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&word[start..]);
    parts
}

fn one(
    text: &str,
    resolve: &mut impl FnMut(&str) -> Result<Ipv4Addr, String>,
) -> Result<Nid, NidsError> {
    let why = match text.parse::<Nid>() {
        Ok(nid) if nid.is_any() => return Err(NidsError::Any),
        Ok(nid) => return Ok(nid),
        Err(why) => why,
    };
    let bad = |why| NidsError::Nid { nid: text.to_owned(), why };
    let (host, net) = text.split_once('@').unwrap_or((text, "tcp"));
    let net: Net = net.parse().map_err(bad)?;
    if !is_host(host) || !has_addresses(net) {
        return Err(bad(why));
    }
    match resolve(host) {
        Ok(address) => Ok(Nid::new4(net, address.to_bits())),
        Err(why) => Err(NidsError::Host { nid: text.to_owned(), why }),
    }
}

/// Whether a text can be the name of a host: an address, right or wrong, has no letter in it, or
/// a colon.
fn is_host(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.len() <= HOST_MAX
        && text.bytes().all(allowed)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether NIDs of a network hold IP addresses.
fn has_addresses(net: Net) -> bool {
    format!("10.0.0.1@{net}").parse::<Nid>().is_ok()
}
