//! Byte strings in compact form.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::digest::Sum;
use super::pattern::Pattern;

/// A byte string in pieces: patterns, which take the same room at any length, and bytes.
///
/// The data of selftest are patterns, so a rope of 1 MiB is nearly always one piece.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    /// The first `gone` of them are empty.
    pieces: SmallVec<[Piece; 1]>,
    gone: usize,
    len: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Pattern { pattern: Pattern, len: u32 },
    Bytes { bytes: Rc<[u8]>, from: u32, len: u32 },
}

impl Rope {
    /// A string of these bytes.
    ///
    /// # Panics
    /// When there are 4 GiB or more.
    pub fn from_bytes(bytes: &[u8]) -> Rope {
        let len = u32::try_from(bytes.len()).expect("less than 4 GiB");
        let mut rope = Rope::default();
        rope.push(Piece::Bytes { bytes: bytes.into(), from: 0, len });
        rope
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes the first `n` bytes and returns them.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn split_to(&mut self, n: u64) -> Rope {
        assert!(n <= self.len, "{n} of {} bytes", self.len);
        if n == self.len {
            return core::mem::take(self);
        }
        let mut front = Rope::default();
        while front.len < n {
            let left = n - front.len;
            let piece = &mut self.pieces[self.gone];
            let part = match left < u64::from(piece.len()) {
                true => piece.split_to(left as u32),
                false => {
                    self.gone += 1;
                    core::mem::replace(piece, Piece::EMPTY)
                }
            };
            front.push(part);
        }
        self.len -= n;
        if self.gone * 2 > self.pieces.len() {
            self.pieces.drain(..self.gone);
            self.gone = 0;
        }
        front
    }

    /// Appends another string.
    pub fn append(&mut self, other: Rope) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for piece in other.pieces.into_iter().skip(other.gone) {
            self.push(piece);
        }
    }

    /// Copies the first bytes.
    ///
    /// # Panics
    /// When `out` is longer than the string.
    pub fn read(&self, out: &mut [u8]) {
        let mut left = out;
        for piece in self.pieces() {
            let take = left.len().min(piece.len() as usize);
            let (front, back) = left.split_at_mut(take);
            piece.read(front);
            left = back;
        }
        assert!(left.is_empty(), "{} bytes more than the string has", left.len());
    }

    /// A hash that depends only on the bytes, not on the pieces.
    pub fn digest(&self) -> u64 {
        self.pieces().fold(Sum::EMPTY, |sum, piece| sum.then(piece.sum())).number()
    }

    /// Its piece, if it is one.
    pub(super) fn only(&self) -> Option<&Piece> {
        let mut pieces = self.pieces();
        pieces.next().filter(|_| pieces.next().is_none())
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces[self.gone..].iter()
    }

    pub(super) fn push(&mut self, piece: Piece) {
        if piece.len() == 0 {
            return;
        }
        self.len += u64::from(piece.len());
        if self.pieces.len() > self.gone
            && let Some(last) = self.pieces.last_mut()
            && last.absorb(&piece)
        {
            return;
        }
        match self.pieces.is_empty() {
            true => self.pieces = smallvec![piece],
            false => self.pieces.push(piece),
        }
    }
}

/// Computes digests of ropes and remembers that of the last pattern, since a load sends the same
/// one again and again.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    last: Option<(Pattern, u32)>,
    digest: u64,
}

impl Digests {
    /// As [`Rope::digest`].
    pub(crate) fn of(&mut self, rope: &Rope) -> u64 {
        let Some(Piece::Pattern { pattern, len }) = rope.only() else { return rope.digest() };
        let wanted = Some((*pattern, *len));
        if self.last != wanted {
            (self.last, self.digest) = (wanted, rope.digest());
        }
        self.digest
    }
}

impl From<&[u8]> for Rope {
    fn from(bytes: &[u8]) -> Rope {
        Rope::from_bytes(bytes)
    }
}

impl Piece {
    const EMPTY: Piece = Piece::Pattern { pattern: Pattern::NOTHING, len: 0 };

    pub(super) fn len(&self) -> u32 {
        match self {
            Piece::Pattern { len, .. } | Piece::Bytes { len, .. } => *len,
        }
    }

    /// Removes the first `n` bytes; there are more.
    fn split_to(&mut self, n: u32) -> Piece {
        let mut front = self.clone();
        match (&mut front, self) {
            (Piece::Pattern { len: first, .. }, Piece::Pattern { pattern, len }) => {
                *first = n;
                *pattern = pattern.from(n);
                *len -= n;
            }
            (Piece::Bytes { len: first, .. }, Piece::Bytes { from, len, .. }) => {
                *first = n;
                *from += n;
                *len -= n;
            }
            _ => unreachable!("a piece and its copy"),
        }
        front
    }

    /// Joins this piece with the next one, if one piece can represent both.
    fn absorb(&mut self, next: &Piece) -> bool {
        match (self, next) {
            (Piece::Pattern { pattern, len }, Piece::Pattern { pattern: other, len: more }) => {
                let whole = len.checked_add(*more).filter(|_| pattern.from(*len) == *other);
                *len = whole.unwrap_or(*len);
                whole.is_some()
            }
            (
                Piece::Bytes { bytes, from, len },
                Piece::Bytes { bytes: other, from: other_from, len: more },
            ) => {
                let one = Rc::ptr_eq(bytes, other) && *from + *len == *other_from;
                *len += if one { *more } else { 0 };
                one
            }
            _ => false,
        }
    }

    fn read(&self, out: &mut [u8]) {
        match self {
            Piece::Pattern { pattern, .. } => pattern.write_to(out),
            Piece::Bytes { .. } => out.copy_from_slice(&self.bytes()[..out.len()]),
        }
    }

    /// The bytes, if it is not a pattern.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Piece::Pattern { .. } => &[],
            Piece::Bytes { bytes, from, len } => &bytes[*from as usize..][..*len as usize],
        }
    }

    fn sum(&self) -> Sum {
        match self {
            Piece::Pattern { pattern, len } => pattern.sum(*len),
            Piece::Bytes { .. } => Sum::of(self.bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(word: [u8; 8], len: u32) -> Rope {
        let mut rope = Rope::default();
        rope.push(Piece::Pattern { pattern: Pattern::word(word), len });
        rope
    }

    fn bytes(rope: &Rope) -> Vec<u8> {
        let mut out = vec![0; rope.len() as usize];
        rope.read(&mut out);
        out
    }

    #[test]
    fn a_rope_that_is_cut_and_joined_has_the_same_bytes() {
        let mut rope = Rope::from_bytes(b"header");
        rope.append(pattern(*b"abcdefgh", 21));
        rope.append(Rope::from_bytes(b"trailer"));
        let whole = bytes(&rope);
        assert_eq!(whole, b"headerabcdefghabcdefghabcdetrailer");
        for cut in 0..=rope.len() {
            let mut back = rope.clone();
            let mut front = back.split_to(cut);
            assert_eq!((front.len(), back.len()), (cut, rope.len() - cut));
            assert_eq!([bytes(&front), bytes(&back)].concat(), whole);
            front.append(back);
            assert_eq!((bytes(&front), front.digest()), (whole.clone(), rope.digest()));
            assert_eq!(front.pieces().count(), 3, "cut at {cut}");
        }
    }

    #[test]
    fn a_digest_does_not_depend_on_the_pieces() {
        let rope = pattern(*b"abcdefgh", 1003);
        assert_eq!(rope.digest(), Rope::from_bytes(&bytes(&rope)).digest());
        assert_ne!(rope.digest(), pattern(*b"abcdefgh", 1004).digest());
        assert_ne!(rope.digest(), pattern(*b"bcdefgha", 1003).digest());
    }

    #[test]
    fn a_remembered_digest_is_that_of_the_same_bytes() {
        let mut digests = Digests::default();
        let ropes = [pattern(*b"abcdefgh", 1003), pattern(*b"abcdefgh", 1004), Rope::default()];
        for rope in ropes.iter().chain([&Rope::from_bytes(b"other")]).cycle().take(12) {
            assert_eq!((digests.of(rope), digests.of(rope)), (rope.digest(), rope.digest()));
        }
    }

    #[test]
    fn a_rope_releases_what_was_taken_from_it() {
        let mut rope = Rope::default();
        for round in 0..10_000_u32 {
            rope.append(Rope::from_bytes(&round.to_le_bytes()));
            rope.append(Rope::from_bytes(&round.to_be_bytes()));
            if round >= 10 {
                assert_eq!(bytes(&rope.split_to(4)), (round - 10).to_le_bytes());
                assert_eq!(bytes(&rope.split_to(4)), (round - 10).to_be_bytes());
            }
        }
        assert!(rope.pieces.len() < 50);
    }
}
