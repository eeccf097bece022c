//! Memory as the core sees it: spans, never bytes.
//!
//! Payload never enters the core. A [`Span`] names a piece of memory; the event loop or
//! simulator that runs the core implements [`Memory`] and resolves spans. The core itself only
//! accesses the few hundred bytes of its own ping information through that trait.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

mod vec;

pub use vec::VecMemory;

/// A piece of memory: `len` bytes at `offset` of region `region`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Number of the region in the memory that allocated the span.
    pub region: u32,
    /// Offset of the first byte in the region, in bytes.
    pub offset: u32,
    /// Length in bytes; may be 0.
    pub len: u32,
}

impl Span {
    /// The part `[from, from + len)` of this span.
    ///
    /// # Panics
    /// When the part does not lie inside the span: that is a bug of the caller.
    #[must_use]
    pub fn part(self, from: u32, len: u32) -> Span {
        assert!(from <= self.len && len <= self.len - from, "{from}+{len} outside {self:?}");
        Span { region: self.region, offset: self.offset + from, len }
    }
}

/// A fragment list; nearly always one span.
pub type Spans = SmallVec<[Span; 2]>;

/// A copy of a fragment list. The `clone` of the list goes element by element, which is measurable
/// at a million messages per second.
pub fn copy_of(spans: &Spans) -> Spans {
    match spans.as_slice() {
        [] => Spans::new(),
        [span] => smallvec![*span],
        other => Spans::from_slice(other),
    }
}

const SHORT: &str = "fragment list shorter than";

/// Total length of a fragment list in bytes.
pub fn total_len(spans: &[Span]) -> u32 {
    spans.iter().map(|span| span.len).sum()
}

/// The part `[from, from + len)` of a fragment list, offsets in bytes from its start.
///
/// # Panics
/// When the list is shorter than `from + len`.
#[inline]
pub fn part_of(spans: &[Span], from: u32, len: u32) -> Spans {
    // Nearly always there is one fragment.
    if let ([span], 1..) = (spans, len)
        && from <= span.len
        && len <= span.len - from
    {
        return smallvec![span.part(from, len)];
    }
    part_of_several(spans, from, len)
}

fn part_of_several(spans: &[Span], from: u32, len: u32) -> Spans {
    let mut out = Spans::new();
    let (mut skip, mut want) = (from, len);
    for span in spans {
        if want == 0 {
            break;
        }
        if skip >= span.len {
            skip -= span.len;
            continue;
        }
        let take = want.min(span.len - skip);
        out.push(span.part(skip, take));
        skip = 0;
        want -= take;
    }
    assert!(want == 0, "{SHORT} {from} + {len}");
    out
}

/// Some 8-byte words of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Every word.
    All,
    /// The first and the last word of each block; the last block may be shorter.
    BlockEnds {
        /// Length of a block in bytes, a power of two.
        block: u32,
    },
}

/// The memory of one event loop. In production it consists of mapped pages, in the simulator of
/// models.
///
/// Implementations check the bounds of every access, and panic when a span was not allocated: that
/// is a bug of the caller.
pub trait Memory {
    /// Allocates a span of exactly `len` bytes, page aligned from 4096 bytes up. `None` when the
    /// limit is reached: the caller has to wait.
    fn alloc(&mut self, len: u32) -> Option<Span>;
    /// A span of bytes that are in memory already, to send them; nothing is written to it. They are
    /// sent from where they are if that is possible: a memory that is registered with a driver
    /// copies them, as does one that has lent enough. `None` as for [`Memory::alloc`].
    fn lend(&mut self, bytes: Bytes) -> Option<Span> {
        let span = self.alloc(u32::try_from(bytes.len()).ok()?)?;
        self.write(span, &bytes);
        Some(span)
    }
    /// Frees a span that [`Memory::alloc`] or [`Memory::lend`] returned.
    fn free(&mut self, span: Span);
    /// The bytes of a span that [`Memory::alloc`] or [`Memory::lend`] returned, which must not be
    /// used any more. They may stay where they are: then the memory is free when they are dropped.
    fn take(&mut self, span: Span) -> Bytes {
        let mut bytes = Vec::with_capacity(span.len as usize);
        self.append(span, &mut bytes);
        self.free(span);
        bytes.into()
    }
    /// Copies `bytes`, which must not be longer than `span`, to the start of `span`.
    fn write(&mut self, span: Span, bytes: &[u8]);
    /// Copies the start of `span` to `out`, which must not be longer than `span`.
    fn read(&self, span: Span, out: &mut [u8]);
    /// Appends all bytes of `span` to `out`.
    fn append(&self, span: Span, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + span.len as usize, 0);
        self.read(span, &mut out[at..]);
    }
    /// Copies `from` to `to`, which have the same length and do not overlap.
    fn copy(&mut self, from: Span, to: Span);
    /// Writes `word` to the chosen words of `span`, whose length must be a multiple of 8. A model
    /// of memory can keep such a span without its bytes.
    fn fill_words(&mut self, span: Span, word: [u8; 8], which: Words);
    /// Whether the chosen words of `span` all equal `word`.
    ///
    /// # Errors
    /// The offset of the first word that differs.
    fn compare_words(&self, span: Span, word: [u8; 8], which: Words) -> Result<(), u32>;
}

/// A value that contains a memory and can be used as one: drivers get streams and memory in one
/// value.
pub trait HasMemory {
    /// The memory.
    type Inner: Memory + ?Sized;
    /// The memory, to read from.
    fn memory(&self) -> &Self::Inner;
    /// The memory.
    fn memory_mut(&mut self) -> &mut Self::Inner;
}

impl<L: HasMemory> Memory for L {
    #[inline]
    fn alloc(&mut self, len: u32) -> Option<Span> {
        self.memory_mut().alloc(len)
    }

    #[inline]
    fn lend(&mut self, bytes: Bytes) -> Option<Span> {
        self.memory_mut().lend(bytes)
    }

    #[inline]
    fn free(&mut self, span: Span) {
        self.memory_mut().free(span);
    }

    #[inline]
    fn take(&mut self, span: Span) -> Bytes {
        self.memory_mut().take(span)
    }

    #[inline]
    fn write(&mut self, span: Span, bytes: &[u8]) {
        self.memory_mut().write(span, bytes);
    }

    #[inline]
    fn read(&self, span: Span, out: &mut [u8]) {
        self.memory().read(span, out);
    }

    #[inline]
    fn append(&self, span: Span, out: &mut Vec<u8>) {
        self.memory().append(span, out);
    }

    #[inline]
    fn copy(&mut self, from: Span, to: Span) {
        self.memory_mut().copy(from, to);
    }

    #[inline]
    fn fill_words(&mut self, span: Span, word: [u8; 8], which: Words) {
        self.memory_mut().fill_words(span, word, which);
    }

    #[inline]
    fn compare_words(&self, span: Span, word: [u8; 8], which: Words) -> Result<(), u32> {
        self.memory().compare_words(span, word, which)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: u32, len: u32) -> Span {
        Span { region: 0, offset, len }
    }

    #[test]
    fn part_of_crosses_fragments() {
        let list = [span(0, 10), span(100, 5), span(200, 20)];
        assert_eq!(part_of(&list, 8, 10).as_slice(), &[span(8, 2), span(100, 5), span(200, 3)]);
        assert_eq!(part_of(&list, 15, 20).as_slice(), &[span(200, 20)]);
        assert!(part_of(&list, 35, 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "shorter")]
    fn part_of_refuses_what_is_not_there() {
        part_of(&[span(0, 10)], 5, 6);
    }
}
