//! How data are cut into bulk transfers [RPC-15].

use crate::codec::Array;
use crate::ost::Niobuf;

/// Data are cut at multiples of this many bytes of the offset in the object.
pub const BULK_FRAGMENT: u64 = 4096;
/// The most fragments of one memory descriptor.
pub const BULK_MD_FRAGMENTS: usize = 256;

/// The part of a transfer that one memory descriptor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkPiece {
    /// Match bits.
    pub match_bits: u64,
    /// Where it starts within the data of the RPC, in bytes.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// Why match bits and data do not fit each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// The distance of match bits is not a power of two.
    #[error("the step of match bits is not a power of two")]
    BadStep,
    /// The body names another number of memory descriptors than the data need.
    #[error("{named} memory descriptors are named, {needed} are needed")]
    BadCount {
        /// By the match bits in the body.
        named: u64,
        /// By the data.
        needed: u64,
    },
}

/// The memory descriptors of a transfer. `last_bits` are the match bits in the body, which are
/// those of the last descriptor; `step` is [`IoObj::bulk_step`](super::IoObj::bulk_step), 1 for
/// transfers that are no data of objects. Client and server cut alike: at multiples of 4096 of the
/// offset, 256 fragments to each descriptor.
///
/// # Errors
/// [`BulkError`] if the number of descriptors differs from what the data need.
pub fn bulk_pieces(
    last_bits: u64,
    step: u64,
    niobufs: &Array<'_, Niobuf>,
) -> Result<Vec<BulkPiece>, BulkError> {
    if !step.is_power_of_two() {
        return Err(BulkError::BadStep);
    }
    let first = last_bits & !(step - 1);
    let named = last_bits - first + 1;
    let (mut start, mut len, mut fragments) = (0u64, 0u64, 0usize);
    let mut pieces: Vec<BulkPiece> = Vec::new();
    let mut finish = |start: &mut u64, len: &mut u64| {
        let match_bits = first.wrapping_add(pieces.len() as u64);
        pieces.push(BulkPiece { match_bits, start: *start, len: *len });
        *start += *len;
        *len = 0;
    };
    for niobuf in niobufs.iter() {
        let mut at = niobuf.offset;
        let mut left = u64::from(niobuf.len);
        while left > 0 {
            if fragments == BULK_MD_FRAGMENTS {
                finish(&mut start, &mut len);
                fragments = 0;
            }
            let now = (BULK_FRAGMENT - at % BULK_FRAGMENT).min(left);
            at = at.wrapping_add(now);
            left -= now;
            len += now;
            fragments += 1;
        }
    }
    if len > 0 {
        finish(&mut start, &mut len);
    }
    let needed = pieces.len() as u64;
    if needed == named { Ok(pieces) } else { Err(BulkError::BadCount { named, needed }) }
}
