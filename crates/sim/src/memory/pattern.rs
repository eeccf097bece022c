//! Bytes that repeat: a word again and again, optionally with another word at both ends of every
//! page.

use core::num::NonZeroU32;

use super::digest::Sum;

const WORD: u32 = 8;

/// An unlimited run of bytes, of which a caller uses some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Without marks, the first eight bytes; with marks, those at the beginning of a page.
    word: [u8; 8],
    marks: Option<Marks>,
}

/// A different word as the first and the last one of every page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    word: [u8; 8],
    /// Bytes of a page: a multiple of 8.
    page: NonZeroU32,
    /// The offset in a page at which the run begins.
    phase: u32,
}

impl Pattern {
    /// A run of which no length is used.
    pub(super) const NOTHING: Pattern = Pattern { word: [0; 8], marks: None };

    pub(super) fn word(word: [u8; 8]) -> Pattern {
        Pattern { word, marks: None }
    }

    /// The same run from its byte `skip`.
    #[must_use]
    pub(super) fn from(mut self, skip: u32) -> Pattern {
        match &mut self.marks {
            None => self.word.rotate_left((skip % WORD) as usize),
            Some(marks) => {
                let phase =
                    (u64::from(marks.phase) + u64::from(skip)) % u64::from(marks.page.get());
                marks.phase = phase as u32;
            }
        }
        self
    }

    /// This run with the ends of its pages replaced, if one pattern can represent that. A page
    /// begins with the run; `page` is a multiple of 8.
    pub(super) fn marked(self, word: [u8; 8], page: NonZeroU32) -> Option<Pattern> {
        match self.marks {
            Some(marks) if (marks.page, marks.phase) != (page, 0) => None,
            _ if word == self.word => Some(Pattern { word, marks: None }),
            _ => Some(Pattern { word: self.word, marks: Some(Marks { word, page, phase: 0 }) }),
        }
    }

    /// The word at both ends of all pages, if there is only one and a page begins with the run.
    pub(super) fn mark(self, page: NonZeroU32) -> Option<[u8; 8]> {
        match self.marks {
            None => Some(self.word),
            Some(marks) => ((marks.page, marks.phase) == (page, 0)).then_some(marks.word),
        }
    }

    /// The word that it consists of, if there is only one.
    pub(super) fn only(self) -> Option<[u8; 8]> {
        self.marks.is_none().then_some(self.word)
    }

    /// The first bytes.
    pub(super) fn write_to(self, out: &mut [u8]) {
        let mut at = 0;
        for (word, len) in self.runs(out.len() as u32) {
            let (words, rest) = out[at..at + len as usize].as_chunks_mut::<8>();
            words.fill(word);
            rest.copy_from_slice(&word[..rest.len()]);
            at += len as usize;
        }
    }

    /// The digest of the first `len` bytes.
    pub(super) fn sum(self, len: u32) -> Sum {
        let Some(marks) = self.marks else { return sum_of_word(self.word, len) };
        let page = marks.page.get();
        let head = len.min((page - marks.phase) % page);
        let pages = (len - head) / page;
        let tail = len - head - pages * page;
        let whole = self.from(head);
        let middle = if pages == 0 { Sum::EMPTY } else { whole.sum_of_runs(page) };
        let middle = middle.repeated(u64::from(pages));
        self.sum_of_runs(head).then(middle).then(whole.sum_of_runs(tail))
    }

    fn sum_of_runs(self, len: u32) -> Sum {
        self.runs(len).fold(Sum::EMPTY, |sum, (word, len)| sum.then(sum_of_word(word, len)))
    }

    /// The first `len` bytes as single words that repeat.
    fn runs(self, len: u32) -> impl Iterator<Item = ([u8; 8], u32)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let left = len - at;
            if left == 0 {
                return None;
            }
            let Some(marks) = self.marks else {
                at = len;
                return Some((self.word, left));
            };
            let page = marks.page.get();
            let place = ((u64::from(marks.phase) + u64::from(at)) % u64::from(page)) as u32;
            let (mut word, until) = match place {
                _ if place < WORD => (marks.word, WORD),
                _ if place >= page - WORD => (marks.word, page),
                _ => (self.word, page - WORD),
            };
            word.rotate_left((place % WORD) as usize);
            let run = left.min(until - place);
            at += run;
            Some((word, run))
        })
    }
}

fn sum_of_word(word: [u8; 8], len: u32) -> Sum {
    let whole = Sum::of(&word).repeated(u64::from(len / WORD));
    whole.then(Sum::of(&word[..(len % WORD) as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pattern: Pattern, len: u32) -> Vec<u8> {
        let mut out = vec![0; len as usize];
        pattern.write_to(&mut out);
        out
    }

    #[test]
    fn a_run_can_be_read_from_any_offset() {
        let page = NonZeroU32::new(32).unwrap();
        let plain = Pattern::word(*b"abcdefgh");
        let marked = plain.marked(*b"12345678", page).unwrap();
        assert_eq!(bytes(marked, 40), b"12345678abcdefghabcdefgh1234567812345678");
        for pattern in [plain, marked, plain.marked(*b"abcdefgh", page).unwrap()] {
            let whole = bytes(pattern, 200);
            for skip in 0..100 {
                assert_eq!(bytes(pattern.from(skip), 100), whole[skip as usize..][..100]);
                let sum = pattern.from(skip).sum(100);
                assert_eq!(sum, Sum::of(&whole[skip as usize..][..100]), "from {skip}");
            }
        }
    }

    #[test]
    fn marks_are_replaced_in_place() {
        let page = NonZeroU32::new(32).unwrap();
        let marked = Pattern::word(*b"abcdefgh").marked(*b"12345678", page).unwrap();
        assert_eq!(marked.marked(*b"abcdefgh", page), Some(Pattern::word(*b"abcdefgh")));
        assert_eq!(marked.from(8).marked(*b"abcdefgh", page), None);
        assert_eq!(marked.marked(*b"abcdefgh", NonZeroU32::new(64).unwrap()), None);
        assert_eq!(marked.mark(page), Some(*b"12345678"));
    }
}
