//! A node's memory, made of vectors.

use std::collections::VecDeque;

use lustrine_lnet::memory::{Memory, Span, Words};

/// Region numbers rest for so many frees before they are used again, so that a span used after it
/// was freed is found out.
const QUARANTINE: usize = 256;

/// How much memory a node has in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Spans alive.
    pub spans: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Most bytes alive at once.
    pub bytes_max: u64,
}

/// Memory with one vector per span, and a limit.
#[derive(Debug)]
pub struct ByteMemory {
    regions: Vec<Option<Box<[u8]>>>,
    freed: VecDeque<u32>,
    usage: Usage,
    limit: u64,
}

impl ByteMemory {
    /// Memory of `limit` bytes.
    pub fn new(limit: u64) -> ByteMemory {
        ByteMemory { regions: Vec::new(), freed: VecDeque::new(), usage: Usage::default(), limit }
    }

    /// How much is in use.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The bytes of a span.
    ///
    /// # Panics
    /// When the span is not alive.
    pub fn bytes(&self, span: Span) -> &[u8] {
        let region = self.regions[span.region as usize].as_ref().expect("a span that is alive");
        &region[span.offset as usize..][..span.len as usize]
    }

    /// The bytes of a span, to change.
    ///
    /// # Panics
    /// When the span is not alive.
    pub fn bytes_mut(&mut self, span: Span) -> &mut [u8] {
        let region = self.regions[span.region as usize].as_mut().expect("a span that is alive");
        &mut region[span.offset as usize..][..span.len as usize]
    }

    /// The bytes of a span, if its region has not been freed since.
    pub(crate) fn peek(&self, span: Span) -> Option<&[u8]> {
        let region = self.regions.get(span.region as usize)?.as_ref()?;
        region.get(span.offset as usize..)?.get(..span.len as usize)
    }
}

impl Memory for ByteMemory {
    fn alloc(&mut self, len: u32) -> Option<Span> {
        if self.usage.bytes + u64::from(len) > self.limit {
            return None;
        }
        let region = match self.freed.len() {
            rested if rested > QUARANTINE => self.freed.pop_front().expect("some are freed"),
            _ => {
                self.regions.push(None);
                self.regions.len() as u32 - 1
            }
        };
        // Not zero: whoever reads what was never written shall be seen.
        self.regions[region as usize] = Some(vec![0xa5; len as usize].into_boxed_slice());
        self.usage.spans += 1;
        self.usage.bytes += u64::from(len);
        self.usage.bytes_max = self.usage.bytes_max.max(self.usage.bytes);
        Some(Span { region, offset: 0, len })
    }

    fn free(&mut self, span: Span) {
        let region = self.regions[span.region as usize].take();
        let region = region.unwrap_or_else(|| panic!("freed twice: {span:?}"));
        assert_eq!(
            (span.offset, span.len as usize),
            (0, region.len()),
            "only whole spans are freed"
        );
        self.usage.spans -= 1;
        self.usage.bytes -= u64::from(span.len);
        self.freed.push_back(span.region);
    }

    fn write(&mut self, span: Span, bytes: &[u8]) {
        self.bytes_mut(span)[..bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self, span: Span, out: &mut [u8]) {
        out.copy_from_slice(&self.bytes(span)[..out.len()]);
    }

    fn copy(&mut self, from: Span, to: Span) {
        let bytes = self.bytes(from).to_vec();
        self.bytes_mut(to).copy_from_slice(&bytes);
    }

    fn fill(&mut self, span: Span, word: [u8; 8], which: Words) {
        let bytes = self.bytes_mut(span);
        match which {
            Words::All => bytes.as_chunks_mut::<8>().0.fill(word),
            Words::PageEnds { page } => {
                for at in page_ends(span.len, page) {
                    bytes[at..at + 8].copy_from_slice(&word);
                }
            }
        }
    }

    fn check(&self, span: Span, word: [u8; 8], which: Words) -> Result<(), u32> {
        let bytes = self.bytes(span);
        let wrong = match which {
            Words::All => {
                bytes.as_chunks::<8>().0.iter().position(|found| *found != word).map(|at| 8 * at)
            }
            Words::PageEnds { page } => {
                page_ends(span.len, page).find(|at| bytes[*at..*at + 8] != word)
            }
        };
        wrong.map_or(Ok(()), |at| Err(at as u32))
    }
}

/// Offsets of the first and last word of each page-sized fragment.
fn page_ends(len: u32, page: u32) -> impl Iterator<Item = usize> {
    let ends = move |start: u32| [start, (start + page).min(len) - 8];
    (0..len).step_by(page as usize).flat_map(ends).map(|at| at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_usage_is_counted() {
        let mut memory = ByteMemory::new(100);
        let span = memory.alloc(60).unwrap();
        assert!(memory.alloc(41).is_none());
        let other = memory.alloc(40).unwrap();
        assert_eq!(memory.usage(), Usage { spans: 2, bytes: 100, bytes_max: 100 });
        memory.free(span);
        memory.free(other);
        assert_eq!(memory.usage(), Usage { spans: 0, bytes: 0, bytes_max: 100 });
    }

    #[test]
    #[should_panic(expected = "alive")]
    fn a_freed_span_cannot_be_read_even_after_others_were_made() {
        let mut memory = ByteMemory::new(1 << 20);
        let span = memory.alloc(8).unwrap();
        memory.free(span);
        let _other = memory.alloc(8).unwrap();
        memory.read(span, &mut [0; 8]);
    }

    #[test]
    #[should_panic(expected = "twice")]
    fn a_span_is_freed_once() {
        let mut memory = ByteMemory::new(1 << 20);
        let span = memory.alloc(8).unwrap();
        memory.free(span);
        memory.free(span);
    }

    #[test]
    fn words_are_checked_where_they_were_filled() {
        let mut memory = ByteMemory::new(1 << 20);
        let span = memory.alloc(5000 / 8 * 8).unwrap();
        let word = *b"LUSTRINE";
        let ends = Words::PageEnds { page: 4096 };
        memory.fill(span, word, ends);
        assert_eq!(memory.check(span, word, ends), Ok(()));
        assert_eq!(memory.check(span, word, Words::All), Err(8));
        memory.write(span.part(4088, 8), b"different"[..8].as_ref());
        assert_eq!(memory.check(span, word, ends), Err(4088));
        memory.fill(span, word, Words::All);
        assert_eq!(memory.check(span, word, Words::All), Ok(()));
    }
}
