//! Expressions for many nodes: `10.7.0.[4-9,12]@tcp`, `oss[1-3]@o2ib` [TOOL-5].
//!
//! Brackets contain numbers and ranges; several brackets multiply out, and the order is kept. Text
//! that is not an address is a host name. The default network is `tcp`.

#[cfg(test)]
mod tests;

use core::net::Ipv4Addr;

use lustrine_wire::nid::{Net, Nid, ParseNidError};
use lustrine_wire::text_range::{TextRange, TextRangeError};

/// The largest number of NIDs of one expression.
pub const NIDS_MAX: u64 = 16_384;

/// The longest host name, in bytes.
const HOST_MAX: usize = 253;

/// Why an expression is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NidsError {
    /// Its brackets are invalid.
    #[error("{0}")]
    Range(TextRangeError),
    /// Not a NID.
    #[error("{nid}: {why}")]
    Nid {
        /// The text.
        nid: String,
        /// What is wrong.
        why: ParseNidError,
    },
    /// The host name cannot be resolved.
    #[error("{nid}: {why}")]
    Host {
        /// The NID with the host's name.
        nid: String,
        /// Why it has no address.
        why: String,
    },
    /// More NIDs than a command accepts.
    #[error("more than {NIDS_MAX} NIDs at once")]
    TooMany,
    /// The wildcard.
    #[error("<?> does not name a node")]
    Any,
}

/// All NIDs of an expression; `resolve` looks up host names.
///
/// # Errors
/// The first [`NidsError`].
pub fn expand(
    text: &str,
    mut resolve: impl FnMut(&str) -> Result<Ipv4Addr, String>,
) -> Result<Vec<Nid>, NidsError> {
    let range = TextRange::parse(text).map_err(NidsError::Range)?;
    let names = range.expand(NIDS_MAX).map_err(NidsError::Range)?;
    names.map(|name| one(&name, &mut resolve)).collect()
}

/// All NIDs of some arguments, each with expressions separated by commas.
///
/// # Errors
/// The first [`NidsError`].
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

/// An argument split at the commas outside of brackets.
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

/// Whether a text can be a host name. An IPv4 address has no letter, an IPv6 address has colons.
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
