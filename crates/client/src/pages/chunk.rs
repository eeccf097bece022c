//! A chunk with memory of its own.

use core::ops::Range;

use super::CHUNK_LEN;

/// The memory grows in steps of this length.
const STEP: usize = 4096;

/// The memory of a chunk: from its first page that is in use to the last one.
#[derive(Debug, Default)]
pub(super) struct OwnChunk {
    /// Where the memory begins within the chunk.
    start: usize,
    bytes: Vec<u8>,
}

impl OwnChunk {
    /// One with these bytes, which are as long as a chunk.
    pub(super) fn whole(bytes: &[u8]) -> OwnChunk {
        debug_assert_eq!(bytes.len() as u64, CHUNK_LEN);
        OwnChunk { start: 0, bytes: bytes.to_vec() }
    }

    /// Its memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Puts bytes at a place within the chunk, with zeros behind them up to a length.
    pub(super) fn store(&mut self, within: usize, known: &[u8], len: usize) {
        let is_behind = self.bytes.is_empty() || within >= self.start + self.bytes.len();
        if !is_behind {
            self.grow(&(within..within + len));
            let within = within - self.start;
            let (head, tail) = self.bytes[within..within + len].split_at_mut(known.len());
            head.copy_from_slice(known);
            tail.fill(0);
            return;
        }
        // Memory that is not there yet need not be cleared first.
        if self.bytes.is_empty() {
            self.start = within / STEP * STEP;
        }
        let whole = (within + len).next_multiple_of(STEP) - self.start;
        self.bytes.reserve_exact(whole - self.bytes.len());
        self.bytes.resize(within - self.start, 0);
        self.bytes.extend_from_slice(known);
        self.bytes.resize(whole, 0);
    }

    /// Has memory for a range within the chunk.
    fn grow(&mut self, range: &Range<usize>) {
        let (start, end) = (range.start / STEP * STEP, range.end.next_multiple_of(STEP));
        if self.bytes.is_empty() {
            self.start = start;
        } else if start < self.start {
            let len = end.max(self.start + self.bytes.len()) - start;
            let mut grown = Vec::with_capacity(len);
            grown.resize(self.start - start, 0);
            grown.append(&mut self.bytes);
            (self.start, self.bytes) = (start, grown);
        }
        let len = end - self.start;
        if self.bytes.len() < len {
            self.bytes.reserve_exact(len - self.bytes.len());
            self.bytes.resize(len, 0);
        }
    }

    /// The bytes of a range within the chunk, if there is memory for them.
    pub(super) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.bytes.get(range.start.checked_sub(self.start)?..range.end.checked_sub(self.start)?)
    }
}
