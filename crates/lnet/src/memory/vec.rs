//! The simplest memory there is.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Memory, Span, Words};

/// Memory made of one vector per span. As in production, a span has what was in its memory before.
#[derive(Debug, Default)]
pub struct VecMemory {
    blocks: Vec<Option<Vec<u8>>>,
    free: Vec<u32>,
    /// Vectors of spans that were freed, by their length.
    spare: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Regions that are only read.
    lent: Vec<u32>,
    /// Spans alive.
    pub live: usize,
    /// Most spans alive at once; 0 is no limit.
    pub limit: usize,
}

impl VecMemory {
    fn block(&self, span: Span) -> &[u8] {
        let block = self.blocks[span.region as usize].as_ref().expect("the span is alive");
        &block[span.offset as usize..][..span.len as usize]
    }

    fn block_mut(&mut self, span: Span) -> &mut [u8] {
        assert!(!self.lent.contains(&span.region), "lent bytes are not written: {span:?}");
        let block = self.blocks[span.region as usize].as_mut().expect("the span is alive");
        &mut block[span.offset as usize..][..span.len as usize]
    }
}

/// Offsets of the chosen words.
fn word_offsets(len: u32, which: Words) -> Vec<u32> {
    match which {
        Words::All => (0..len).step_by(8).collect(),
        Words::BlockEnds { block } => {
            let starts = (0..len).step_by(block as usize);
            let mut all: Vec<u32> =
                starts.flat_map(|start| [start, (start + block).min(len) - 8]).collect();
            all.dedup();
            all
        }
    }
}

impl Memory for VecMemory {
    fn alloc(&mut self, len: u32) -> Option<Span> {
        if self.limit != 0 && self.live == self.limit {
            return None;
        }
        self.live += 1;
        let region = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(None);
            self.blocks.len() as u32 - 1
        });
        let spare = self.spare.get_mut(&len).and_then(Vec::pop);
        self.blocks[region as usize] = Some(spare.unwrap_or_else(|| vec![0; len as usize]));
        Some(Span { region, offset: 0, len })
    }

    fn lend(&mut self, bytes: Bytes) -> Option<Span> {
        let span = self.alloc(u32::try_from(bytes.len()).ok()?)?;
        self.write(span, &bytes);
        self.lent.push(span.region);
        Some(span)
    }

    fn free(&mut self, span: Span) {
        let block = self.blocks[span.region as usize].take();
        let block = block.unwrap_or_else(|| panic!("freed twice: {span:?}"));
        self.spare.entry(block.len() as u32).or_default().push(block);
        self.live -= 1;
        self.lent.retain(|region| *region != span.region);
        self.free.push(span.region);
    }

    #[inline]
    fn write(&mut self, span: Span, bytes: &[u8]) {
        self.block_mut(span)[..bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn read(&self, span: Span, out: &mut [u8]) {
        out.copy_from_slice(&self.block(span)[..out.len()]);
    }

    fn append(&self, span: Span, out: &mut Vec<u8>) {
        out.extend_from_slice(self.block(span));
    }

    fn copy(&mut self, from: Span, to: Span) {
        let bytes = self.block(from).to_vec();
        self.block_mut(to).copy_from_slice(&bytes);
    }

    fn fill_words(&mut self, span: Span, word: [u8; 8], which: Words) {
        let block = self.block_mut(span);
        for at in word_offsets(span.len, which) {
            block[at as usize..][..8].copy_from_slice(&word);
        }
    }

    fn compare_words(&self, span: Span, word: [u8; 8], which: Words) -> Result<(), u32> {
        let wrong = |at: &u32| self.block(span.part(*at, 8)) != word;
        word_offsets(span.len, which).into_iter().find(wrong).map_or(Ok(()), Err)
    }
}
