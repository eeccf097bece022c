//! Registered memory for the 160-byte messages, carved from blocks and reused.

use lustrine_lnet::memory::{Memory, Span};

use crate::limits::MESSAGE_LEN;

/// Bytes from one cell to the next: whole cache lines, so that two messages never share one.
const STRIDE: u32 = 192;

/// MessagePool of one block.
const PER_BLOCK: u32 = 85;

/// Length of one block: just under four pages.
const BLOCK_LEN: u32 = STRIDE * PER_BLOCK;

/// A store of message buffers. It grows by blocks as far as its users' own limits let it, and
/// keeps what it has: the next load needs it again.
#[derive(Debug, Default)]
pub(crate) struct MessagePool {
    blocks: Vec<Span>,
    free: Vec<Span>,
}

impl MessagePool {
    /// A buffer of [`MESSAGE_LEN`] bytes, or `None` when memory is used up.
    #[inline]
    pub(crate) fn take(&mut self, memory: &mut impl Memory) -> Option<Span> {
        if self.free.is_empty() {
            let block = memory.alloc(BLOCK_LEN)?;
            self.blocks.push(block);
            let cells = (0..PER_BLOCK).rev();
            self.free.extend(cells.map(|cell| block.part(cell * STRIDE, MESSAGE_LEN)));
        }
        self.free.pop()
    }

    /// Gives a buffer back.
    pub(crate) fn give(&mut self, cell: Span) {
        self.free.push(cell);
    }

    /// Whether it has no memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns all blocks to the memory.
    ///
    /// # Panics
    /// When a buffer is still in use.
    pub(crate) fn release(&mut self, memory: &mut impl Memory) {
        assert_eq!(self.free.len(), self.blocks.len() * PER_BLOCK as usize, "a cell is in use");
        self.free.clear();
        for block in self.blocks.drain(..) {
            memory.free(block);
        }
    }
}
