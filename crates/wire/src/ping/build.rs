//! Writing ping info.

use super::{Features, HEADER_LEN, MAGIC, NiStatus, PingEntry, PingInfo, SIZE_AT};
use crate::byte_order::ByteOrder;
use crate::nid::Nid;

impl PingInfo<'_> {
    /// Appends the ping info of a node with these interfaces, in their order and without the
    /// loopback interface, which is written first. Short entries come first, then long ones.
    ///
    /// LARGE and PRIMARY_LARGE are set as the entries require, regardless of `features`: LARGE if
    /// there is a long entry, PRIMARY_LARGE if the first entry is one.
    pub fn build(
        features: Features,
        pid: u32,
        sequence: u32,
        entries: &[PingEntry],
        out: &mut Vec<u8>,
    ) {
        PingInfo::build_in(ByteOrder::Little, features, pid, sequence, entries, out);
    }

    /// As [`PingInfo::build`] in a given byte order.
    pub fn build_in(
        order: ByteOrder,
        mut features: Features,
        pid: u32,
        sequence: u32,
        entries: &[PingEntry],
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let is_long = |entry: &&PingEntry| entry.nid.to_short().is_none();
        let large = entries.iter().any(|e| is_long(&e));
        features.set(Features::LARGE, large);
        features.set(Features::PRIMARY_LARGE, entries.first().is_some_and(|e| is_long(&e)));
        let shorts = entries.iter().filter_map(|e| Some((e.nid.to_short()?, e.status.word())));
        let count = 1 + shorts.clone().count() as u32;
        for word in [MAGIC, features.bits(), pid, count] {
            out.extend_from_slice(&order.u32_bytes(word));
        }
        let loopback = Nid::LO.to_short().map(|nid| (nid, sequence));
        for (nid, status) in loopback.into_iter().chain(shorts) {
            out.extend_from_slice(&order.u64_bytes(nid));
            out.extend_from_slice(&order.u32_bytes(status));
            out.extend_from_slice(&[0; 4]);
        }
        for entry in entries.iter().filter(is_long) {
            write_long(order, entry.nid, entry.status, out);
        }
        if large {
            let size = (out.len() - start) as u32;
            order.put_u32(&mut out[start + SIZE_AT..], 0, size);
        }
        debug_assert!(out.len() - start >= HEADER_LEN);
    }
}

fn write_long(order: ByteOrder, nid: Nid, status: NiStatus, out: &mut Vec<u8>) {
    let used = nid.used_len();
    out.extend_from_slice(&order.u32_bytes(status.word()));
    out.extend_from_slice(&nid.to_long()[..used]);
    let padding = super::long_entry_len(used) - 4 - used;
    out.extend(core::iter::repeat_n(0, padding));
}
