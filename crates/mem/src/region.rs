//! One mapping, divided into equal slots.

use crate::class::Class;
use crate::mapping::Mapping;

/// A mapping whose slots are allocated last-in first-out.
///
/// Slots are initialised lazily: giving an idle region to another class costs nothing per slot.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) mapping: Mapping,
    class: Class,
    /// Slots that were allocated at least once since the region got its class.
    carved: u32,
    used: u32,
    /// Initialised slots that are free; the last one freed is allocated first.
    free: Vec<u16>,
    /// One bit per slot: set while it is allocated.
    live: Vec<u64>,
}

impl Region {
    /// A region without users. The mapping has the length that the class needs.
    pub(crate) fn new(mapping: Mapping, class: Class) -> Region {
        let mut region =
            Region { mapping, class, carved: 0, used: 0, free: Vec::new(), live: Vec::new() };
        region.convert(class);
        region
    }

    /// Divides an idle region again, for another class of the same region length.
    pub(crate) fn convert(&mut self, class: Class) {
        assert_eq!(self.used, 0, "a region in use keeps its class");
        self.class = class;
        self.carved = 0;
        self.free.clear();
        self.live.resize(class.slots().div_ceil(64) as usize, 0);
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
    pub(crate) fn take(&mut self) -> u32 {
        let slot = match self.free.pop() {
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
    pub(crate) fn give(&mut self, offset: u32, len: u32) -> Result<(), &'static str> {
        let slot_len = self.class.slot_len();
        let slot = offset / slot_len;
        if slot >= self.class.slots() || !offset.is_multiple_of(slot_len) || len > slot_len {
            return Err("foreign block");
        }
        let (word, bit) = bit_of(slot);
        if self.live[word] & bit == 0 {
            return Err("free block");
        }
        self.live[word] &= !bit;
        self.used -= 1;
        self.free.push(u16::try_from(slot).expect("a region has at most 65536 slots"));
        Ok(())
    }
}

fn bit_of(slot: u32) -> (usize, u64) {
    ((slot / 64) as usize, 1 << (slot % 64))
}
