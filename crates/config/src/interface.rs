//! What may stand for one interface: a name, an address, a list of CPU partitions.

use core::net::IpAddr;

/// Longest interface name of Linux in bytes (IFNAMSIZ less the final zero).
const NAME_LEN_MAX: usize = 15;
/// Longest list of partitions in bytes; one of 256 numbers fits.
const CPT_LIST_LEN_MAX: usize = 1024;
/// More partitions than any machine has; keeps a list of them short.
const CPT_MAX: u32 = 65_535;

/// Whether Linux could call an interface so: a device, or an alias such as `eth0:1`. A word of
/// digits and dots alone is taken for a mistyped address, and so is one with two colons.
pub(super) fn is_name(text: &str) -> bool {
    let (device, label) = text.split_once(':').unwrap_or((text, "0"));
    let letters = |b: u8| b.is_ascii_graphic() && !b"/:,=()[]@%".contains(&b);
    let some_letter = device.bytes().any(|b| !b.is_ascii_digit() && b != b'.');
    let all = |part: &str| !part.is_empty() && part.bytes().all(letters);
    text.len() <= NAME_LEN_MAX && all(device) && all(label) && some_letter
}

/// Whether one interface can have this address.
pub(super) fn is_host(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}

/// A decimal TCP port, 1..=65535.
pub(super) fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let port = if digits { text.parse().ok()? } else { 0 };
    (port != 0).then_some(port)
}

/// Whether this is a list of CPU partitions such as `[0,2-8/2]` [CFG-2].
pub(super) fn is_cpt_list(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    text.len() <= CPT_LIST_LEN_MAX && inner.is_some_and(|inner| inner.split(',').all(is_cpt_range))
}

fn is_cpt_range(text: &str) -> bool {
    let (range, stride) = match text.split_once('/') {
        Some((range, stride)) => (range, cpt_number(stride)),
        None => (text, Some(1)),
    };
    let bounds = match range.split_once('-') {
        Some((first, last)) => cpt_number(first).zip(cpt_number(last)),
        None if range.len() == text.len() => cpt_number(range).map(|only| (only, only)),
        None => None,
    };
    stride.is_some_and(|stride| stride > 0) && bounds.is_some_and(|(first, last)| first <= last)
}

fn cpt_number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok().filter(|number| *number <= CPT_MAX) } else { None }
}

#[cfg(test)]
mod tests;
