//! The bytes of one object that a client has in memory: which ones are there, and which of them the
//! server does not have yet.

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
mod tests;

use core::ops::Range;
use std::collections::BTreeMap;

use rangemap::RangeSet;

/// Bytes are kept in chunks of this length, at multiples of it.
pub(crate) const CHUNK_LEN: u64 = 64 << 10;
/// The memory of a chunk grows in steps of this length.
const STEP: usize = 4096;

/// The memory of a chunk: from its first page that is in use to the last one.
#[derive(Debug, Default)]
struct Chunk {
    /// Where the memory begins within the chunk.
    start: usize,
    bytes: Vec<u8>,
}

impl Chunk {
    /// Puts bytes at a place within the chunk, with zeros behind them up to a length. Returns how
    /// much memory was taken for that.
    fn store(&mut self, within: usize, known: &[u8], len: usize) -> u64 {
        let is_behind = self.bytes.is_empty() || within >= self.start + self.bytes.len();
        if !is_behind {
            let taken = self.grow(&(within..within + len));
            let within = within - self.start;
            let (head, tail) = self.bytes[within..within + len].split_at_mut(known.len());
            head.copy_from_slice(known);
            tail.fill(0);
            return taken;
        }
        // Memory that is not there yet need not be cleared first.
        let before = self.bytes.capacity();
        if self.bytes.is_empty() {
            self.start = within / STEP * STEP;
        }
        let whole = (within + len).next_multiple_of(STEP) - self.start;
        self.bytes.reserve_exact(whole - self.bytes.len());
        self.bytes.resize(within - self.start, 0);
        self.bytes.extend_from_slice(known);
        self.bytes.resize(whole, 0);
        (self.bytes.capacity() - before) as u64
    }

    /// Has memory for a range within the chunk. Returns how much was taken for that.
    fn grow(&mut self, range: &Range<usize>) -> u64 {
        let before = self.bytes.capacity();
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
        (self.bytes.capacity() - before) as u64
    }

    /// The bytes of a range within the chunk, if there is memory for them.
    fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.bytes.get(range.start.checked_sub(self.start)?..range.end.checked_sub(self.start)?)
    }
}

/// The bytes of an object that are in memory.
///
/// A byte is *present* if its value is known. A present byte is *dirty* if the server does not have
/// its value yet. Memory is counted by its users: each change says how much was taken or given
/// back.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    chunks: BTreeMap<u64, Chunk>,
    present: RangeSet<u64>,
    dirty: RangeSet<u64>,
}

/// The numbers of the chunks that a range touches.
pub(crate) fn chunks_of(range: &Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / CHUNK_LEN..(range.end - 1) / CHUNK_LEN + 1
}

impl Pages {
    pub(crate) const fn new() -> Pages {
        Pages { chunks: BTreeMap::new(), present: RangeSet::new(), dirty: RangeSet::new() }
    }

    /// Whether nothing is in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.present.is_empty() && self.dirty.is_empty()
    }

    /// Takes bytes that a program writes: they are present and dirty. Returns the memory that was
    /// taken for them, in bytes.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> u64 {
        let range = offset..offset + bytes.len() as u64;
        if range.is_empty() {
            return 0;
        }
        self.present.insert(range.clone());
        self.dirty.insert(range.clone());
        self.store(&range, bytes)
    }

    /// Takes bytes that the server sent for a range. Behind them are zeros up to the end of the
    /// range. What is present stays as it is: it is newer. Returns the memory that was taken.
    pub(crate) fn fill(&mut self, range: &Range<u64>, bytes: &[u8]) -> u64 {
        let gaps: Vec<Range<u64>> = self.gaps(range);
        let mut taken = 0;
        for gap in gaps {
            self.present.insert(gap.clone());
            let at = |position: u64| ((position - range.start) as usize).min(bytes.len());
            let known = &bytes[at(gap.start)..at(gap.end)];
            taken += self.store(&gap, known);
        }
        taken
    }

    /// Copies bytes into the chunks of a range, and zeros behind them.
    fn store(&mut self, range: &Range<u64>, bytes: &[u8]) -> u64 {
        let mut taken = 0;
        let mut at = range.start;
        while at < range.end {
            let (number, within) = (at / CHUNK_LEN, (at % CHUNK_LEN) as usize);
            let len = (range.end - at).min(CHUNK_LEN - at % CHUNK_LEN) as usize;
            let from = ((at - range.start) as usize).min(bytes.len());
            let known = &bytes[from..(from + len).min(bytes.len())];
            taken += self.chunks.entry(number).or_default().store(within, known, len);
            at += len as u64;
        }
        taken
    }

    /// Copies what is present of a range to the same places of `bytes`, which stand for the range.
    /// Returns the parts that were copied.
    pub(crate) fn read(&self, range: &Range<u64>, bytes: &mut [u8]) -> Vec<Range<u64>> {
        let present: Vec<Range<u64>> = parts(&self.present, range);
        for part in &present {
            let mut at = part.start;
            while at < part.end {
                let (number, within) = (at / CHUNK_LEN, (at % CHUNK_LEN) as usize);
                let len = (part.end - at).min(CHUNK_LEN - at % CHUNK_LEN) as usize;
                let to = (at - range.start) as usize;
                let chunk = self.chunks.get(&number);
                if let Some(known) = chunk.and_then(|chunk| chunk.get(within..within + len)) {
                    bytes[to..to + len].copy_from_slice(known);
                }
                at += len as u64;
            }
        }
        present
    }

    /// The bytes of a range, if all of them are present.
    pub(crate) fn whole(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        if range.is_empty() {
            return Some(Vec::new());
        }
        self.present.get(&range.start).filter(|present| range.end <= present.end)?;
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        self.append_to(range, &mut bytes);
        Some(bytes)
    }

    /// Appends the bytes of a range, all of which are present.
    pub(crate) fn append_to(&self, range: &Range<u64>, bytes: &mut Vec<u8>) {
        let end = bytes.len() + (range.end - range.start) as usize;
        let mut at = range.start;
        while at < range.end {
            let (number, within) = (at / CHUNK_LEN, (at % CHUNK_LEN) as usize);
            let len = (range.end - at).min(CHUNK_LEN - at % CHUNK_LEN) as usize;
            let chunk = self.chunks.get(&number);
            let Some(known) = chunk.and_then(|chunk| chunk.get(within..within + len)) else {
                break;
            };
            bytes.extend_from_slice(known);
            at += len as u64;
        }
        debug_assert_eq!(bytes.len(), end, "a part of {range:?} is not present");
        bytes.resize(end, 0);
    }

    /// The parts of a range that are not present, in order.
    pub(crate) fn gaps(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        if range.is_empty() { Vec::new() } else { self.present.gaps(range).collect() }
    }

    /// The parts of a range that are dirty, in order.
    pub(crate) fn dirty(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        parts(&self.dirty, range)
    }

    /// The dirty ranges that touch or overlap a range, whole.
    pub(crate) fn dirty_around(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let wider = range.start.saturating_sub(1)..range.end.saturating_add(1);
        self.dirty.overlapping(wider).cloned().collect()
    }

    /// Whether nothing is dirty.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Behind the last dirty byte; 0 if there is none.
    pub(crate) fn dirty_end(&self) -> u64 {
        self.dirty.last().map_or(0, |range| range.end)
    }

    /// Number of dirty bytes.
    pub(crate) fn dirty_len(&self) -> u64 {
        self.dirty.iter().map(|range| range.end - range.start).sum()
    }

    /// A range is on its way to the server: it is not dirty any more.
    pub(crate) fn clean(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.dirty.remove(range);
        }
    }

    /// Forgets a range, also what is dirty. Returns the memory that was given back.
    pub(crate) fn forget(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        self.present.remove(range.clone());
        self.dirty.remove(range.clone());
        let numbers = chunks_of(&range);
        let touched: Vec<u64> = self.chunks.range(numbers).map(|(number, _)| *number).collect();
        let mut given = 0;
        for number in touched {
            let chunk = number * CHUNK_LEN..(number + 1).saturating_mul(CHUNK_LEN);
            if !self.present.overlaps(&chunk) {
                let memory = |chunk: Chunk| chunk.bytes.capacity() as u64;
                given += self.chunks.remove(&number).map_or(0, memory);
            }
        }
        given
    }

    /// Forgets a chunk unless something in it is dirty. Returns the memory that was given back;
    /// none if it has to stay.
    pub(crate) fn evict(&mut self, number: u64) -> Option<u64> {
        let chunk = number * CHUNK_LEN..(number + 1).saturating_mul(CHUNK_LEN);
        if self.dirty.overlaps(&chunk) {
            return None;
        }
        Some(self.forget(chunk))
    }

    /// Those of some chunks that there are.
    pub(crate) fn chunks_within(&self, numbers: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        self.chunks.range(numbers).map(|(number, _)| *number)
    }

    /// Whether there is a chunk of this number.
    pub(crate) fn has_chunk(&self, number: u64) -> bool {
        self.chunks.contains_key(&number)
    }
}

/// The parts of a range that are in a set, in order.
fn parts(set: &RangeSet<u64>, range: &Range<u64>) -> Vec<Range<u64>> {
    if range.is_empty() {
        return Vec::new();
    }
    let cut = |part: &Range<u64>| part.start.max(range.start)..part.end.min(range.end);
    set.overlapping(range.clone()).map(cut).filter(|part| !part.is_empty()).collect()
}
