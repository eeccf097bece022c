//! The bytes of one object that a client has in memory: which ones are there, and which of them the
//! server does not have yet.

mod chunk;
#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
mod tests;

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rangemap::RangeSet;

use chunk::OwnChunk;

/// Bytes are kept in chunks of this length, at multiples of it.
pub(crate) const CHUNK_LEN: u64 = 64 << 10;

/// The memory of a chunk.
#[derive(Debug)]
enum Chunk {
    Own(OwnChunk),
    /// Whole, in this piece.
    Shared(PieceNumber),
}

/// The number of a piece among those of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PieceNumber(u64);

/// Bytes that came together, and are the memory of several chunks: they are not copied.
#[derive(Debug)]
struct Piece {
    /// Where the bytes begin in the object.
    start: u64,
    bytes: Bytes,
    /// The chunks that had their memory in it at first.
    chunks: Range<u64>,
    /// How many of them have it there still.
    left: u64,
}

impl Piece {
    /// The bytes of a range of the object.
    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        self.bytes.get(self.within(range)?)
    }

    /// Where the bytes of a range of the object are.
    fn within(&self, range: &Range<u64>) -> Option<Range<usize>> {
        let place = |at: u64| usize::try_from(at.checked_sub(self.start)?).ok();
        Some(place(range.start)?..place(range.end)?)
    }
}

/// The bytes of an object that are in memory.
///
/// A byte is *present* if its value is known. A present byte is *dirty* if the server does not have
/// its value yet.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    chunks: BTreeMap<u64, Chunk>,
    pieces: BTreeMap<PieceNumber, Piece>,
    present: RangeSet<u64>,
    dirty: RangeSet<u64>,
    memory: u64,
}

/// The numbers of the chunks that a range touches.
pub(crate) fn chunks_of(range: &Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / CHUNK_LEN..(range.end - 1) / CHUNK_LEN + 1
}

/// The range of a chunk. The last one of an object is shorter.
pub(crate) fn chunk_range(number: u64) -> Range<u64> {
    number * CHUNK_LEN..(number + 1).saturating_mul(CHUNK_LEN)
}

impl Pages {
    pub(crate) const fn new() -> Pages {
        Pages {
            chunks: BTreeMap::new(),
            pieces: BTreeMap::new(),
            present: RangeSet::new(),
            dirty: RangeSet::new(),
            memory: 0,
        }
    }

    /// Whether nothing is in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.present.is_empty() && self.dirty.is_empty()
    }

    /// The memory that the bytes take, in bytes. A piece counts as a whole for as long as a chunk
    /// is in it.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Takes bytes that a program writes: they are present and dirty.
    pub(crate) fn write(&mut self, offset: u64, bytes: &Bytes) {
        let range = offset..offset + bytes.len() as u64;
        if range.is_empty() {
            return;
        }
        self.present.insert(range.clone());
        self.dirty.insert(range.clone());
        self.keep(&range, bytes, range.clone());
    }

    /// Takes a part of the bytes that the server sent for a range. Behind them are zeros up to the
    /// end of the range. What is present stays as it is: it is newer.
    pub(crate) fn fill(&mut self, range: &Range<u64>, bytes: &Bytes, part: &Range<u64>) {
        for gap in self.gaps(part) {
            self.present.insert(gap.clone());
            self.keep(range, bytes, gap);
        }
    }

    /// Keeps a part of a range of which there are these bytes, and zeros behind them. Whole chunks
    /// of it are not copied.
    fn keep(&mut self, range: &Range<u64>, bytes: &Bytes, part: Range<u64>) {
        let shared = self.share(range.start, bytes, &part);
        for rest in [part.start..shared.start, shared.end..part.end] {
            let at = |place: u64| ((place - range.start) as usize).min(bytes.len());
            self.store(&rest, &bytes[at(rest.start)..at(rest.end)]);
        }
    }

    /// Has the whole chunks of a part share bytes that begin at `start`, if they are three quarters
    /// of these: all of them take memory. Returns the range of these chunks; an empty one at the
    /// start of the part if they are copied.
    fn share(&mut self, start: u64, bytes: &Bytes, part: &Range<u64>) -> Range<u64> {
        let len = bytes.len() as u64;
        let end = part.end.min(start + len);
        let chunks = part.start.div_ceil(CHUNK_LEN)..end / CHUNK_LEN;
        let count = chunks.end.saturating_sub(chunks.start);
        if count == 0 || count * CHUNK_LEN * 4 < len * 3 {
            return part.start..part.start;
        }
        let last = self.pieces.last_key_value();
        let piece = PieceNumber(last.map_or(0, |(PieceNumber(last), _)| last + 1));
        let before: BTreeSet<PieceNumber> = chunks
            .clone()
            .filter_map(|number| self.replace(number, Some(Chunk::Shared(piece))))
            .collect();
        before.into_iter().for_each(|piece| self.settle(piece));
        let range = chunks.start * CHUNK_LEN..chunks.end * CHUNK_LEN;
        self.memory += len;
        self.pieces.insert(piece, Piece { start, bytes: bytes.clone(), chunks, left: count });
        range
    }

    /// Copies bytes into the chunks of a range, and zeros behind them.
    fn store(&mut self, range: &Range<u64>, bytes: &[u8]) {
        let mut at = range.start;
        while at < range.end {
            let (number, within) = (at / CHUNK_LEN, (at % CHUNK_LEN) as usize);
            let len = (range.end - at).min(CHUNK_LEN - at % CHUNK_LEN) as usize;
            let from = ((at - range.start) as usize).min(bytes.len());
            let known = &bytes[from..(from + len).min(bytes.len())];
            match self.chunks.get_mut(&number) {
                Some(Chunk::Own(chunk)) => {
                    let before = chunk.memory();
                    chunk.store(within, known, len);
                    self.memory = self.memory - before + chunk.memory();
                }
                _ => {
                    let mut chunk = self.copied(number);
                    chunk.store(within, known, len);
                    if let Some(piece) = self.replace(number, Some(Chunk::Own(chunk))) {
                        self.settle(piece);
                    }
                }
            }
            at += len as u64;
        }
    }

    /// The bytes of a chunk that is in a piece; none of one that is not there.
    fn copied(&self, number: u64) -> OwnChunk {
        self.get(&chunk_range(number)).map_or_else(OwnChunk::default, OwnChunk::whole)
    }

    /// Gives a chunk other memory, or none. Returns the piece in which it was, if others are there
    /// still.
    fn replace(&mut self, number: u64, chunk: Option<Chunk>) -> Option<PieceNumber> {
        if let Some(Chunk::Own(chunk)) = &chunk {
            self.memory += chunk.memory();
        }
        let before = match chunk {
            Some(chunk) => self.chunks.insert(number, chunk),
            None => self.chunks.remove(&number),
        };
        match before {
            Some(Chunk::Own(chunk)) => self.memory -= chunk.memory(),
            Some(Chunk::Shared(number)) => {
                let piece = self.pieces.get_mut(&number)?;
                piece.left -= 1;
                if piece.left > 0 {
                    return Some(number);
                }
                self.memory -= piece.bytes.len() as u64;
                self.pieces.remove(&number);
            }
            None => {}
        }
        None
    }

    /// Chunks of a piece have other memory now, or are gone. If less than a quarter is left there,
    /// it gets memory of its own, so that it does not keep the rest.
    fn settle(&mut self, number: PieceNumber) {
        let few = |piece: &Piece| piece.left * 4 < piece.chunks.end - piece.chunks.start;
        if self.pieces.get(&number).is_some_and(few) {
            self.dissolve(number);
        }
    }

    /// The chunks of a piece get memory of their own.
    fn dissolve(&mut self, piece: PieceNumber) {
        for number in self.chunks_in(piece) {
            let own = self.copied(number);
            self.replace(number, Some(Chunk::Own(own)));
        }
    }

    /// The chunks that have their memory in a piece.
    pub(crate) fn chunks_in(&self, number: PieceNumber) -> Vec<u64> {
        let Some(piece) = self.pieces.get(&number) else { return Vec::new() };
        let chunks = self.chunks_within(piece.chunks.clone());
        chunks.filter(|chunk| self.piece_of(*chunk) == Some(number)).collect()
    }

    /// The bytes of a range that is within one chunk, if there is memory for them.
    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let within = (range.start % CHUNK_LEN) as usize;
        match self.chunks.get(&(range.start / CHUNK_LEN))? {
            Chunk::Own(chunk) => chunk.get(within..within + (range.end - range.start) as usize),
            Chunk::Shared(piece) => self.pieces.get(piece)?.get(range),
        }
    }

    /// The bytes of a range, if all of them are present. They are not copied if they are many and
    /// in one piece.
    pub(crate) fn whole(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        self.present.get(&range.start).filter(|present| range.end <= present.end)?;
        if range.end - range.start >= CHUNK_LEN
            && let Some(bytes) = self.shared(range)
        {
            return Some(bytes);
        }
        Some(self.copy(range))
    }

    /// A copy of the bytes of a range, all of which are present.
    pub(crate) fn copy(&self, range: &Range<u64>) -> Bytes {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        self.append_to(range, &mut bytes);
        bytes.into()
    }

    /// The bytes of a range if all of them are in one piece.
    fn shared(&self, range: &Range<u64>) -> Option<Bytes> {
        let mut chunks = self.chunks.range(chunks_of(range)).map(|(_, chunk)| chunk);
        let Some(Chunk::Shared(number)) = chunks.next() else { return None };
        if !chunks.all(|chunk| matches!(chunk, Chunk::Shared(other) if other == number)) {
            return None;
        }
        let piece = self.pieces.get(number)?;
        Some(piece.bytes.slice(piece.within(range)?))
    }

    /// The bytes of ranges, all of which are present, in parts that follow each other. What is in
    /// a piece is not copied.
    pub(crate) fn gather(&self, ranges: &[Range<u64>]) -> Vec<Bytes> {
        let mut gathered = Vec::new();
        // What is copied of the chunks before.
        let mut copied = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let (next, piece) = self.run(at, range.end);
                match piece.and_then(|piece| Some(piece.bytes.slice(piece.within(&(at..next))?))) {
                    Some(shared) => {
                        if !copied.is_empty() {
                            gathered.push(Bytes::from(core::mem::take(&mut copied)));
                        }
                        gathered.push(shared);
                    }
                    None => {
                        copied.reserve((next - at) as usize);
                        self.append_to(&(at..next), &mut copied);
                    }
                }
                at = next;
            }
        }
        if !copied.is_empty() {
            gathered.push(copied.into());
        }
        gathered
    }

    /// Up to where, and at most to `end`, the bytes from a place on are in one piece, and that
    /// piece; none if they are in chunks with memory of their own.
    fn run(&self, at: u64, end: u64) -> (u64, Option<&Piece>) {
        let chunks = chunks_of(&(at..end));
        let piece = self.piece_of(chunks.start);
        let mut others = chunks.skip(1).skip_while(|number| self.piece_of(*number) == piece);
        let next = others.next().map_or(end, |number| number * CHUNK_LEN);
        (next, piece.and_then(|piece| self.pieces.get(&piece)))
    }

    /// Appends the bytes of a range, all of which are present.
    fn append_to(&self, range: &Range<u64>, bytes: &mut Vec<u8>) {
        let end = bytes.len() + (range.end - range.start) as usize;
        let mut at = range.start;
        while at < range.end {
            let next = range.end.min(chunk_range(at / CHUNK_LEN).end);
            let Some(known) = self.get(&(at..next)) else { break };
            bytes.extend_from_slice(known);
            at = next;
        }
        debug_assert_eq!(bytes.len(), end, "a part of {range:?} is not present");
        bytes.resize(end, 0);
    }

    /// The parts of a range that are present, in order.
    pub(crate) fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        parts(&self.present, range)
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

    /// A range that was on its way to the server has to be sent again, as far as it is present.
    pub(crate) fn redirty(&mut self, range: &Range<u64>) {
        self.dirty.extend(parts(&self.present, range));
    }

    /// Forgets a range, also what is dirty.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.present.remove(range.clone());
        self.dirty.remove(range.clone());
        let mut unused: Vec<u64> = self.chunks_within(chunks_of(&range)).collect();
        unused.retain(|number| !self.present.overlaps(&chunk_range(*number)));
        let pieces: BTreeSet<PieceNumber> =
            unused.into_iter().filter_map(|number| self.replace(number, None)).collect();
        pieces.into_iter().for_each(|piece| self.settle(piece));
    }

    /// The piece in which a chunk has its memory; none if it has memory of its own.
    pub(crate) fn piece_of(&self, number: u64) -> Option<PieceNumber> {
        match self.chunks.get(&number)? {
            Chunk::Own(_) => None,
            Chunk::Shared(piece) => Some(*piece),
        }
    }

    /// Whether something in a chunk is dirty.
    pub(crate) fn is_dirty(&self, number: u64) -> bool {
        self.dirty.overlaps(&chunk_range(number))
    }

    /// Gives the memory of a chunk back, of which nothing is dirty. If it is in a piece, that goes:
    /// `goes` says which of the other chunks go with it, and the rest get memory of their own.
    /// Returns the chunks that are gone.
    pub(crate) fn evict(&mut self, number: u64, goes: impl Fn(u64) -> bool) -> Vec<u64> {
        let piece = self.piece_of(number);
        let mut gone = piece.map_or_else(Vec::new, |piece| self.chunks_in(piece));
        gone.retain(|other| *other == number || !self.is_dirty(*other) && goes(*other));
        if piece.is_none() {
            gone.push(number);
        }
        for number in &gone {
            self.present.remove(chunk_range(*number));
            self.replace(*number, None);
        }
        if let Some(piece) = piece {
            self.dissolve(piece);
        }
        gone
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
