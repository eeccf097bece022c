//! One mapping, divided into equal slots.

use std::sync::Arc;

use crate::block::Block;
use crate::class::Class;
use crate::mapping::Mapping;

/// A mapping whose slots are allocated last-in first-out.
///
/// Slots are initialised lazily: giving an idle region to another class costs nothing per slot.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) mapping: Arc<Mapping>,
    class: Class,
    /// Slots that were allocated at least once since the region got its class.
    carved: u32,
    used: u32,
    /// Initialised slots that are free; the last one freed is allocated first.
    vacant: Vec<u16>,
    /// One bit per slot: set while it is allocated.
    live: Vec<u64>,
    /// One bit per slot: set while others have it.
    taken: Vec<u64>,
    taken_count: u32,
}

impl Region {
    /// A region without users. The mapping has the length that the class needs.
    pub(crate) fn new(mapping: Mapping, class: Class) -> Region {
        let mut region = Region {
            mapping: Arc::new(mapping),
            class,
            carved: 0,
            used: 0,
            vacant: Vec::new(),
            live: Vec::new(),
            taken: Vec::new(),
            taken_count: 0,
        };
        region.convert(class);
        region
    }

    /// Divides an idle region again, for another class of the same region length.
    pub(crate) fn convert(&mut self, class: Class) {
        assert_eq!(self.used, 0, "a region in use keeps its class");
        self.class = class;
        self.carved = 0;
        self.vacant.clear();
        self.live.resize(class.slots().div_ceil(64) as usize, 0);
        self.taken.resize(class.slots().div_ceil(64) as usize, 0);
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Whether no slot is allocated.
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0
    }

    /// Whether every slot is allocated.
    pub(crate) fn is_full(&self) -> bool {
        self.used == self.class.slots()
    }

    /// Allocates a slot and returns its offset in bytes. The region must not be full.
    pub(crate) fn alloc(&mut self) -> u32 {
        let slot = match self.vacant.pop() {
            Some(slot) => u32::from(slot),
            None => {
                assert!(self.carved < self.class.slots(), "a full region has no slot to hand out");
                self.carved += 1;
                self.carved - 1
            }
        };
        let (word, bit) = bit_of(slot);
        self.live[word] |= bit;
        self.used += 1;
        slot * self.class.slot_len()
    }

    /// Frees the slot that begins at `offset` and holds `len` bytes. An error is the caller's
    /// mistake, as text for the panic message.
    pub(crate) fn free(&mut self, offset: u32, len: u32) -> Result<(), &'static str> {
        let slot = self.live_slot(offset, len)?;
        let (word, bit) = bit_of(slot);
        if self.taken[word] & bit != 0 {
            return Err("taken block");
        }
        self.live[word] &= !bit;
        self.used -= 1;
        self.vacant.push(u16::try_from(slot).expect("a region has at most 65536 slots"));
        Ok(())
    }

    /// The slot of an allocated block.
    fn live_slot(&self, offset: u32, len: u32) -> Result<u32, &'static str> {
        let slot_len = self.class.slot_len();
        let slot = offset / slot_len;
        if slot >= self.class.slots() || !offset.is_multiple_of(slot_len) || len > slot_len {
            return Err("foreign block");
        }
        let (word, bit) = bit_of(slot);
        if self.live[word] & bit == 0 { Err("free block") } else { Ok(slot) }
    }

    /// From now on others have an allocated block. Errors are as in [`Region::free`].
    pub(crate) fn take(&mut self, offset: u32, len: u32) -> Result<(), &'static str> {
        let (word, bit) = bit_of(self.live_slot(offset, len)?);
        if self.taken[word] & bit != 0 {
            return Err("taken block");
        }
        self.taken[word] |= bit;
        self.taken_count += 1;
        Ok(())
    }

    /// A block that others had has come back. It is still allocated.
    pub(crate) fn put_back(&mut self, offset: u32) {
        let (word, bit) = bit_of(offset / self.class.slot_len());
        assert!(self.taken[word] & bit != 0, "the slot at {offset} was not taken");
        self.taken[word] &= !bit;
        self.taken_count -= 1;
    }

    /// Whether others have any of its blocks.
    pub(crate) fn has_taken(&self) -> bool {
        self.taken_count > 0
    }

    /// Whether others have any byte of a block of this region, which must not be written then.
    #[inline]
    pub(crate) fn is_taken(&self, block: Block) -> bool {
        self.taken_count > 0 && self.overlaps_taken(block)
    }

    fn overlaps_taken(&self, block: Block) -> bool {
        let slot = |at: u32| at / self.class.slot_len();
        let last = block.offset.saturating_add(block.len.saturating_sub(1));
        let slots = slot(block.offset)..=slot(last).min(self.class.slots() - 1);
        block.len > 0 && slots.map(bit_of).any(|(word, bit)| self.taken[word] & bit != 0)
    }
}

fn bit_of(slot: u32) -> (usize, u64) {
    ((slot / 64) as usize, 1 << (slot % 64))
}
