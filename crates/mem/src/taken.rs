//! Blocks that their arena has given away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::block::Block;
use crate::mapping::Mapping;

/// The bytes of a block until this is dropped, by any thread. Then the block goes back.
pub(crate) struct Taken {
    mapping: Arc<Mapping>,
    block: Block,
    returns: Arc<Returns>,
}

/// Blocks that came back and are not free yet.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    any: AtomicBool,
    blocks: Mutex<Vec<Block>>,
}

impl Taken {
    /// # Safety
    /// The block is inside the mapping. Others do not write it until it has come back, and do not
    /// read it while [`bytes_mut`](Self::bytes_mut) is used.
    pub(crate) unsafe fn new(mapping: Arc<Mapping>, block: Block, returns: Arc<Returns>) -> Taken {
        Taken { mapping, block, returns }
    }

    /// The bytes, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let (offset, len) = (self.block.offset as usize, self.block.len as usize);
        // SAFETY: `self` keeps the mapping and is borrowed exclusively, and the promise that `new`
        // got excludes all others.
        unsafe { self.mapping.part_mut(offset, len) }.expect("the block is inside the mapping")
    }
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        let (offset, len) = (self.block.offset as usize, self.block.len as usize);
        // SAFETY: `self` keeps the mapping, and the promise that `new` got excludes writers.
        unsafe { self.mapping.part(offset, len) }.expect("the block is inside the mapping")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // A vector of plain values is sound whenever a thread panicked.
        self.returns.blocks.lock().unwrap_or_else(PoisonError::into_inner).push(self.block);
        self.returns.any.store(true, Ordering::Release);
    }
}

impl Returns {
    /// The blocks that came back since the last call; without any this costs one load.
    pub(crate) fn collect(&self) -> Vec<Block> {
        if !self.any.load(Ordering::Relaxed) || !self.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut self.blocks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
