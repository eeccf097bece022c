//! The contents of one allocation.

use core::num::NonZeroU32;

use super::digest::Sum;
use super::pattern::Pattern;
use super::rope::{Piece, Rope};

/// Adjacent bytes are kept together up to this length.
const BYTES_TOGETHER: usize = 4096;

/// Patterns this short between bytes become bytes.
const GAP: u32 = 64;

/// The contents of memory that was never written: not zero, so that a read of it is noticed.
const NEVER_WRITTEN: [u8; 8] = [0xa5; 8];

/// An allocation as a list of pieces without gaps, by offset.
#[derive(Debug)]
pub(super) struct Region {
    len: u32,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    start: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Pattern(Pattern),
    Bytes(Vec<u8>),
}

impl Region {
    pub(super) fn new(len: u32) -> Region {
        let part = Part { start: 0, content: Content::Pattern(Pattern::word(NEVER_WRITTEN)) };
        Region { len, parts: if len == 0 { Vec::new() } else { vec![part] } }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let index = self.index_of(at);
        let part = &mut self.parts[index];
        let skip = (at - part.start) as usize;
        if let Content::Bytes(held) = &mut part.content
            && let Some(place) = held.get_mut(skip..skip + bytes.len())
        {
            place.copy_from_slice(bytes);
            return;
        }
        self.replace(at, bytes.len() as u32, Content::Bytes(bytes.to_vec()));
    }

    pub(super) fn read(&self, at: u32, out: &mut [u8]) {
        let mut done = 0;
        for view in self.views(at, out.len() as u32) {
            view.read(&mut out[done..done + view.len() as usize]);
            done += view.len() as usize;
        }
    }

    pub(super) fn take(&self, at: u32, len: u32) -> Rope {
        let mut rope = Rope::default();
        for view in self.views(at, len) {
            rope.push(match view {
                View::Pattern(pattern, len) => Piece::Pattern { pattern, len },
                View::Bytes(bytes) => {
                    Piece::Bytes { bytes: bytes.into(), from: 0, len: bytes.len() as u32 }
                }
            });
        }
        rope
    }

    pub(super) fn put(&mut self, at: u32, rope: &Rope) {
        let mut at = at;
        for piece in rope.pieces() {
            match piece {
                Piece::Pattern { pattern, len } => self.set(at, *len, *pattern),
                Piece::Bytes { .. } => self.write(at, piece.bytes()),
            }
            at += piece.len();
        }
    }

    pub(super) fn digest(&self, at: u32, len: u32) -> u64 {
        self.views(at, len).fold(Sum::EMPTY, |sum, view| sum.then(view.sum())).number()
    }

    pub(super) fn holds(&self, at: u32, rope: &Rope) -> bool {
        let len = rope.len() as u32;
        match (self.views(at, len).next(), rope.only()) {
            (Some(View::Bytes(held)), Some(Piece::Bytes { .. })) if held.len() == len as usize => {
                rope.only().is_some_and(|piece| piece.bytes() == held)
            }
            (Some(View::Pattern(held, there)), Some(Piece::Pattern { pattern, .. }))
                if there == len && held == *pattern =>
            {
                true
            }
            _ => len == 0 || self.digest(at, len) == rope.digest(),
        }
    }

    /// Stores a word repeatedly; `len` is a multiple of 8.
    pub(super) fn fill(&mut self, at: u32, len: u32, word: [u8; 8]) {
        self.set(at, len, Pattern::word(word));
    }

    /// Stores a word at both ends of every block; the last block may be shorter.
    pub(super) fn fill_ends(&mut self, at: u32, len: u32, word: [u8; 8], block: u32) {
        let whole = len - len % block;
        for (at, len, block) in [(at, whole, block), (at + whole, len - whole, len - whole)] {
            let Some(size) = NonZeroU32::new(block).filter(|_| len != 0) else { continue };
            match self.pattern_of(at, len).and_then(|pattern| pattern.marked(word, size)) {
                Some(pattern) => self.set(at, len, pattern),
                None => {
                    for end in block_ends(len, block) {
                        self.set(at + end, 8, Pattern::word(word));
                    }
                }
            }
        }
    }

    /// The offset of the first word that is not this one; `len` is a multiple of 8.
    pub(super) fn differs(&self, at: u32, len: u32, word: [u8; 8]) -> Option<u32> {
        let mut offset = 0;
        while offset < len {
            let view = self.views(at + offset, len - offset).next()?;
            match view {
                View::Pattern(pattern, len) if len >= 8 && pattern.only() == Some(word) => {
                    offset += len - len % 8;
                }
                _ if self.word_at(at + offset) == word => offset += 8,
                _ => return Some(offset),
            }
        }
        None
    }

    /// The offset of the first end of a block that is not this word.
    pub(super) fn ends_differ(&self, at: u32, len: u32, word: [u8; 8], block: u32) -> Option<u32> {
        let whole = len - len % block;
        for (from, len, block) in [(0, whole, block), (whole, len - whole, len - whole)] {
            let Some(size) = NonZeroU32::new(block).filter(|_| len != 0) else { continue };
            if self.pattern_of(at + from, len).and_then(|pattern| pattern.mark(size)) == Some(word)
            {
                continue;
            }
            let mut ends = block_ends(len, block).map(|end| from + end);
            if let Some(wrong) = ends.find(|end| self.word_at(at + end) != word) {
                return Some(wrong);
            }
        }
        None
    }

    /// The pattern in a range, if it is only one.
    fn pattern_of(&self, at: u32, len: u32) -> Option<Pattern> {
        match self.views(at, len).next()? {
            View::Pattern(pattern, there) => (there == len).then_some(pattern),
            View::Bytes(_) => None,
        }
    }

    fn word_at(&self, at: u32) -> [u8; 8] {
        let mut word = [0; 8];
        self.read(at, &mut word);
        word
    }

    fn set(&mut self, at: u32, len: u32, pattern: Pattern) {
        // A pattern that is stored repeatedly is there already.
        if len != 0 && self.pattern_of(at, len) != Some(pattern) {
            self.replace(at, len, Content::Pattern(pattern));
        }
    }

    fn replace(&mut self, at: u32, len: u32, content: Content) {
        let first = self.cut(at);
        let end = self.cut(at + len);
        let part = Part { start: at, content };
        // Usually one piece replaces one piece.
        if end == first + 1 {
            self.parts[first] = part;
        } else {
            self.parts.splice(first..end, [part]);
        }
        self.join(first + 1);
        self.join(first);
        // There may be bytes in front, and a gap that was joined with them.
        if first > 1 && self.join(first - 1) {
            self.join(first - 1);
        }
    }

    /// The part that holds a byte.
    fn index_of(&self, at: u32) -> usize {
        self.parts.partition_point(|part| part.start <= at) - 1
    }

    /// Makes a part begin here, and returns its index; one past the last at the end.
    fn cut(&mut self, at: u32) -> usize {
        if at == self.len {
            return self.parts.len();
        }
        let index = self.index_of(at);
        let part = &mut self.parts[index];
        let skip = at - part.start;
        if skip == 0 {
            return index;
        }
        let content = match &mut part.content {
            Content::Pattern(pattern) => Content::Pattern(pattern.from(skip)),
            Content::Bytes(bytes) => Content::Bytes(bytes.split_off(skip as usize)),
        };
        self.parts.insert(index + 1, Part { start: at, content });
        index + 1
    }

    /// Joins a part with the one before it, if that is useful, and returns whether it did.
    fn join(&mut self, index: usize) -> bool {
        if index == 0 || index >= self.parts.len() {
            return false;
        }
        let len = self.end_of(index) - self.parts[index].start;
        let (before, behind) = self.parts.split_at_mut(index);
        let (before, part) = (&mut before[index - 1], &behind[0]);
        let joined = match (&mut before.content, &part.content) {
            (Content::Pattern(pattern), Content::Pattern(next)) => {
                pattern.from(part.start - before.start) == *next
            }
            (Content::Bytes(bytes), Content::Bytes(next)) => {
                let fits = bytes.len() + next.len() <= BYTES_TOGETHER;
                if fits {
                    bytes.extend_from_slice(next);
                }
                fits
            }
            // The cells of messages have a few bytes between them.
            (Content::Bytes(bytes), Content::Pattern(gap)) => {
                let fits = len <= GAP && bytes.len() + len as usize <= BYTES_TOGETHER;
                if fits {
                    let start = bytes.len();
                    bytes.resize(start + len as usize, 0);
                    gap.write_to(&mut bytes[start..]);
                }
                fits
            }
            (Content::Pattern(_), Content::Bytes(_)) => false,
        };
        if joined {
            self.parts.remove(index);
        }
        joined
    }

    fn end_of(&self, index: usize) -> u32 {
        self.parts.get(index + 1).map_or(self.len, |next| next.start)
    }

    /// The contents of a range, piece by piece.
    fn views(&self, at: u32, len: u32) -> impl Iterator<Item = View<'_>> {
        let end = at + len;
        let first = if len == 0 { self.parts.len() } else { self.index_of(at) };
        (first..self.parts.len()).take_while(move |index| self.parts[*index].start < end).map(
            move |index| {
                let part = &self.parts[index];
                let skip = at.saturating_sub(part.start);
                let len = self.end_of(index).min(end) - part.start - skip;
                match &part.content {
                    Content::Pattern(pattern) => View::Pattern(pattern.from(skip), len),
                    Content::Bytes(bytes) => View::Bytes(&bytes[skip as usize..][..len as usize]),
                }
            },
        )
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }
}

/// A piece of a part.
enum View<'a> {
    Pattern(Pattern, u32),
    Bytes(&'a [u8]),
}

impl View<'_> {
    fn len(&self) -> u32 {
        match self {
            View::Pattern(_, len) => *len,
            View::Bytes(bytes) => bytes.len() as u32,
        }
    }

    fn read(&self, out: &mut [u8]) {
        match self {
            View::Pattern(pattern, _) => pattern.write_to(out),
            View::Bytes(bytes) => out.copy_from_slice(bytes),
        }
    }

    fn sum(&self) -> Sum {
        match self {
            View::Pattern(pattern, len) => pattern.sum(*len),
            View::Bytes(bytes) => Sum::of(bytes),
        }
    }
}

/// Offsets of the first and last word of each block.
pub(super) fn block_ends(len: u32, block: u32) -> impl Iterator<Item = u32> {
    let ends = move |start: u32| [start, (start + block).min(len) - 8];
    (0..len).step_by(block as usize).flat_map(ends)
}
