//! What bulk data look like and how they are checked [LST-16].

use lustrine_lnet::memory::{Memory, Span, Words};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::srpc::{BrwCheck, DATA_MAGIC, DATA_POISON};

use crate::limits::PAGE_MAX;

/// The order in which this node writes: every known deployment's.
pub(crate) const OUR_ORDER: ByteOrder = ByteOrder::Little;

/// The 8 bytes a writer of this byte order repeats.
pub(crate) fn word(writer: ByteOrder) -> [u8; 8] {
    writer.u64_bytes(DATA_MAGIC)
}

/// The words a check looks at, or `None` when it looks at nothing.
///
/// `simple` covers both ends of every page of the *writer*, whose size the reader does not know.
/// Pages of every size agree at multiples of the largest one and at both ends of the data, so only
/// those are looked at.
fn words(check: BrwCheck) -> Option<Words> {
    match check {
        BrwCheck::None | BrwCheck::Discard => None,
        BrwCheck::Simple => Some(Words::BlockEnds { block: PAGE_MAX }),
        BrwCheck::Full => Some(Words::All),
    }
}

/// Fills a source with the pattern, every word of it: data that satisfy every check of every
/// reader, so that one buffer serves all.
pub(crate) fn fill(memory: &mut impl Memory, span: Span) {
    memory.fill_words(span, word(OUR_ORDER), Words::All);
}

/// Poisons the places that [`verify`] will look at.
pub(crate) fn poison(memory: &mut impl Memory, span: Span, check: BrwCheck) {
    if let Some(words) = words(check) {
        memory.fill_words(span, OUR_ORDER.u64_bytes(DATA_POISON), words);
    }
}

/// Looks at what a writer of this byte order sent.
///
/// # Errors
/// The offset of the first word that is wrong.
pub(crate) fn verify(
    memory: &impl Memory,
    span: Span,
    check: BrwCheck,
    writer: ByteOrder,
) -> Result<(), u32> {
    match words(check) {
        Some(words) => memory.compare_words(span, word(writer), words),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
