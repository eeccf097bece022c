//! Reading of indexes by pages, among servers [RPC-21].

use crate::fid::Fid;

wire_struct! {
    /// A request for pages of an index, and its answer.
    pub struct IdxInfo [80] {
        /// Magic number.
        magic: u32 => hex;
        /// Flags.
        flags: u32 => hex;
        /// Pages.
        count: u16, pad 2;
        /// What entries hold.
        attrs: u32 => hex;
        /// The index.
        fid: Fid;
        /// Its version.
        version: u64;
        /// The first hash.
        hash_start: u64 => hex;
        /// Where to continue.
        hash_end: u64 => hex;
        /// Bytes of a key.
        keysize: u16;
        /// Bytes of a record.
        recsize: u16, pad 20;
    }
}
