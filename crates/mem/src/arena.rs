//! The memory of one event loop.

use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::block::Block;
use crate::chains::Chains;
use crate::class::{CLASSES, Class, REGION_LEN};
use crate::idle::Idle;
use crate::mapping::Mapping;
use crate::region::Region;
use crate::taken::{Returns, Taken};
use crate::words;

/// Number of slices passed to one system call without a heap allocation: 16 blocks and the extra
/// buffer.
const SLICES_INLINE: usize = 17;

/// Shorter blocks are not given away: a copy costs less.
const TAKEN_MIN: u32 = 16 << 10;

/// Set in the region numbers of blocks that were lent.
const LENT: u32 = 1 << 31;

/// The memory of an [`Arena`]. All values are in bytes unless another unit is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArenaStats {
    /// Mapped from the operating system: at most `limit` plus `taken_limit`.
    pub mapped: u64,
    /// Bytes in allocated slots. A slot counts with its whole length, even if less was requested.
    pub in_use: u64,
    /// The largest value that `in_use` has had.
    pub high_water: u64,
    /// The most that is mapped for the event loop. What was taken and comes back may be above it,
    /// until it is idle and [released](Arena::release).
    pub limit: u64,
    /// Blocks that were allocated or lent, and those that were taken.
    pub blocks: u64,
    /// Mapped for regions that have blocks which were taken.
    pub taken: u64,
    /// The largest value that `taken` can have.
    pub taken_limit: u64,
    /// Bytes that were lent; never more than half of `limit`.
    pub lent: u64,
}

/// The memory of one event loop: blocks of 64 bytes to 64 MiB, mapped lazily up to a limit.
///
/// It may move to another thread but not be shared (`Send`, not `Sync`). Blocks up to 1 MiB have
/// lengths that are powers of two and come from regions of 2 MiB; a longer block has its own
/// region. Blocks of 4096 bytes and more begin on a page. The block that was freed last is
/// allocated first, while its bytes are still in the cache. Regions without users serve any size.
///
/// Bytes of a block that was not written yet are zero or left over from its last user.
///
/// ```
/// let mut arena = lustrine_mem::Arena::new(64 << 20);
/// let block = arena.alloc(4096).expect("nothing is in use yet");
/// arena.fill_words(block, *b"lustrine");
/// assert_eq!(arena.check_words(block, *b"lustrine"), Ok(()));
/// arena.free(block);
/// ```
///
/// Sharing it does not compile:
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: T) {}
/// share(lustrine_mem::Arena::new(0));
/// ```
#[derive(Debug)]
pub struct Arena {
    /// `None`: the number is vacant, because its region was unmapped.
    regions: Vec<Option<Region>>,
    vacant: Vec<u32>,
    /// One list per class: its regions with a free slot.
    open: Chains,
    idle: Idle,
    /// Regions that the arena has no room for any more, until they are unmapped.
    surplus: Vec<Region>,
    surplus_bytes: u64,
    /// What was lent, by region number without [`LENT`]. `None`: the number is vacant.
    lent: Vec<Option<Bytes>>,
    vacant_lent: Vec<u32>,
    /// Blocks that were taken and have come back.
    returns: Arc<Returns>,
    /// Without the surplus.
    stats: ArenaStats,
    /// It belongs to one event loop.
    not_sync: PhantomData<Cell<()>>,
}

impl Arena {
    /// An arena that maps at most `limit` bytes (rounded down to a multiple of [`REGION_LEN`]), and
    /// at most half as much again for what was [taken](Self::take).
    pub fn new(limit: u64) -> Arena {
        Arena::with_taken(limit, limit / 2)
    }

    /// An arena that maps at most `limit` bytes, and at most `taken_limit` in addition for what was
    /// [taken](Self::take); both are rounded down to a multiple of [`REGION_LEN`].
    pub fn with_taken(limit: u64, taken_limit: u64) -> Arena {
        let whole = |limit: u64| limit - limit % u64::from(REGION_LEN);
        let (limit, taken_limit) = (whole(limit), whole(taken_limit));
        Arena {
            regions: Vec::new(),
            vacant: Vec::new(),
            open: Chains::new(CLASSES),
            idle: Idle::new(),
            surplus: Vec::new(),
            surplus_bytes: 0,
            lent: Vec::new(),
            vacant_lent: Vec::new(),
            returns: Arc::default(),
            stats: ArenaStats { limit, taken_limit, ..ArenaStats::default() },
            not_sync: PhantomData,
        }
    }

    /// The bytes that are mapped and in use now.
    pub fn stats(&self) -> ArenaStats {
        ArenaStats { mapped: self.stats.mapped + self.surplus_bytes, ..self.stats }
    }

    /// Allocates a block of `len` bytes, in constant time unless memory has to be mapped.
    ///
    /// `None`: nothing of that size is left below the limit (or the operating system refused), and
    /// the caller has to wait for a [`free`](Self::free); or `len` is above
    /// [`BLOCK_LEN_MAX`](crate::BLOCK_LEN_MAX), and waiting does not help.
    pub fn alloc(&mut self, len: u32) -> Option<Block> {
        let class = Class::for_len(len)?;
        let id = match self.open.front(class.index()) {
            Some(id) => id,
            None => {
                self.collect();
                match self.open.front(class.index()) {
                    Some(id) => id,
                    None => self.open_region(class)?,
                }
            }
        };
        let region = live(&mut self.regions, id);
        if region.is_idle() {
            self.idle.remove(class.units(), id);
        }
        let offset = region.alloc();
        if region.is_full() {
            self.open.remove(class.index(), id);
        }
        self.stats.blocks += 1;
        self.stats.in_use += u64::from(class.slot_len());
        self.stats.high_water = self.stats.high_water.max(self.stats.in_use);
        Some(Block { region: id, offset, len })
    }

    /// A block of bytes that are somewhere else, to send them from there without a copy. They stay
    /// there until it is freed. `None`: the caller has to copy, since more than half of the limit
    /// would be lent.
    ///
    /// All methods that write panic for such a block.
    pub fn lend(&mut self, bytes: Bytes) -> Option<Block> {
        let len = u32::try_from(bytes.len()).ok()?;
        if self.stats.lent + u64::from(len) > self.stats.limit / 2 {
            return None;
        }
        let index = match self.vacant_lent.pop() {
            Some(index) => index,
            None => {
                let index =
                    u32::try_from(self.lent.len()).ok().filter(|index| index & LENT == 0)?;
                self.lent.push(None);
                index
            }
        };
        self.lent[index as usize] = Some(bytes);
        self.stats.blocks += 1;
        self.stats.lent += u64::from(len);
        Some(Block { region: index | LENT, offset: 0, len })
    }

    /// Gives the bytes of a block away, which [`alloc`](Self::alloc) or [`lend`](Self::lend)
    /// returned. They stay where they are, and when the last of them are dropped, in any thread,
    /// the block is free. Until then it counts as in use, and must not be used any more.
    ///
    /// `None`: the block stays as it is, and the caller has to copy. It is short, or the regions
    /// with blocks that were taken would have more than their limit: so much is mapped beyond the
    /// other limit at most, and who keeps what was taken cannot use the memory up.
    ///
    /// # Panics
    /// If it was freed or taken before, or is not a block of this arena.
    pub fn take(&mut self, block: Block) -> Option<Bytes> {
        self.collect();
        if let Some(bytes) = self.lent(block).cloned() {
            self.free_lent(block);
            return Some(bytes);
        }
        // SAFETY: it is only read from now on.
        unsafe { self.detach(block) }.map(Bytes::from_owner)
    }

    /// Allocates a block and gives it away before it is written. `None`: [`alloc`](Self::alloc) or
    /// [`take`](Self::take) would return `None`.
    ///
    /// # Safety
    /// As long as it is away, the caller does not read it through this arena.
    pub(crate) unsafe fn take_new(&mut self, len: u32) -> Option<Taken> {
        self.collect();
        let block = self.alloc(len)?;
        // SAFETY: the caller promises it.
        let taken = unsafe { self.detach(block) };
        if taken.is_none() {
            self.free(block);
        }
        taken
    }

    /// Gives an allocated block away, if it is long enough and the limit allows it.
    ///
    /// # Safety
    /// As long as it is away, it is not read through this arena, or it is only read by who has it.
    unsafe fn detach(&mut self, block: Block) -> Option<Taken> {
        let Some(Some(region)) = self.regions.get_mut(block.region as usize) else {
            panic!("taking a foreign block: {block:?}");
        };
        let more = if region.has_taken() { 0 } else { region.mapping.len() as u64 };
        if let Err(mistake) = region.take(block.offset, block.len) {
            panic!("taking a {mistake}: {block:?}");
        }
        if block.len < TAKEN_MIN || self.stats.taken + more > self.stats.taken_limit {
            region.put_back(block.offset);
            return None;
        }
        self.stats.taken += more;
        let (mapping, returns) = (Arc::clone(&region.mapping), Arc::clone(&self.returns));
        // SAFETY: it is an allocated block of this mapping; from now on all that write refuse it,
        // it is given away once, and it is not free before it has come back. The caller promises
        // the rest.
        Some(unsafe { Taken::new(mapping, block, returns) })
    }

    /// Ends a period, such as a minute: regions that were idle in all of it are
    /// [surplus](Self::has_surplus), apart from 16 MiB.
    pub fn end_period(&mut self) {
        self.collect();
        self.idle.end_period();
    }

    /// Whether a region should be unmapped: it was taken, and now that it is idle there is no room
    /// for it, or it was not needed for a while.
    pub fn has_surplus(&self) -> bool {
        !self.surplus.is_empty() || self.idle.has_due()
    }

    /// Whether [`end_period`](Self::end_period) may find a surplus later, even if nothing else is
    /// done until then.
    pub fn may_have_surplus(&self) -> bool {
        self.stats.taken > 0 || self.idle.has_more_than_stays()
    }

    /// Unmaps surplus regions, at most so many: each is a call of the operating system that can
    /// take 0.1 ms.
    pub fn release(&mut self, most: usize) {
        (0..most).map_while(|_| self.take_surplus()).for_each(drop);
    }

    /// A surplus region, which is unmapped when it is dropped.
    pub(crate) fn take_surplus(&mut self) -> Option<Region> {
        if let Some(region) = self.surplus.pop() {
            self.surplus_bytes -= region.mapping.len() as u64;
            return Some(region);
        }
        let id = self.idle.take_due()?;
        Some(self.remove_region(id))
    }

    /// Frees the blocks that have come back.
    fn collect(&mut self) {
        for block in self.returns.collect() {
            let region = live(&mut self.regions, block.region);
            region.put_back(block.offset);
            if !region.has_taken() {
                self.stats.taken -= region.mapping.len() as u64;
            }
            self.free(block);
        }
    }

    fn lent(&self, block: Block) -> Option<&Bytes> {
        let index = block.region.checked_sub(LENT)?;
        self.lent.get(index as usize)?.as_ref()
    }

    fn free_lent(&mut self, block: Block) {
        let whole = |bytes: &Bytes| block.offset == 0 && bytes.len() == block.len as usize;
        if !self.lent(block).is_some_and(whole) {
            panic!("freeing a foreign block: {block:?}");
        }
        let index = block.region - LENT;
        self.lent[index as usize] = None;
        self.vacant_lent.push(index);
        self.stats.blocks -= 1;
        self.stats.lent -= u64::from(block.len);
    }

    /// Frees a block that [`alloc`](Self::alloc) or [`lend`](Self::lend) returned.
    ///
    /// # Panics
    /// If it was freed before, or is not a block of this arena.
    pub fn free(&mut self, block: Block) {
        let Some(Some(region)) = self.regions.get_mut(block.region as usize) else {
            return self.free_lent(block);
        };
        let class = region.class();
        let was_full = region.is_full();
        if let Err(mistake) = region.free(block.offset, block.len) {
            panic!("freeing a {mistake}: {block:?}");
        }
        // To the front even if it is in the list already: last in, first out.
        if self.open.front(class.index()) != Some(block.region) {
            if !was_full {
                self.open.remove(class.index(), block.region);
            }
            self.open.push_front(class.index(), block.region);
        }
        if region.is_idle() {
            self.idle.push(class.units(), block.region);
            // So it is when what was taken has come back.
            if self.stats.mapped - self.stats.taken > self.stats.limit {
                let region = self.remove_region(block.region);
                self.surplus_bytes += region.mapping.len() as u64;
                self.surplus.push(region);
            }
        }
        self.stats.blocks -= 1;
        self.stats.in_use -= u64::from(class.slot_len());
    }

    /// The bytes of `block`.
    ///
    /// Panics, like all methods that follow, if the block is not inside a region of this arena.
    pub fn bytes(&self, block: Block) -> &[u8] {
        match self.regions.get(block.region as usize) {
            Some(Some(region)) => {
                // SAFETY: `self` keeps the mapping, and who writes has `self` exclusively.
                let part =
                    unsafe { region.mapping.part(block.offset as usize, block.len as usize) };
                part.unwrap_or_else(|| out_of_range(block))
            }
            _ => match self.lent(block) {
                Some(lent) => &lent[range(block)],
                None => panic!("no such region: {block:?}"),
            },
        }
    }

    /// The bytes of `block`, for writing.
    pub fn bytes_mut(&mut self, block: Block) -> &mut [u8] {
        match self.regions.get_mut(block.region as usize) {
            Some(Some(region)) if !region.is_taken(block) => {
                let (offset, len) = (block.offset as usize, block.len as usize);
                // SAFETY: `self` keeps the mapping and is borrowed exclusively, and others have
                // none of these bytes.
                let part = unsafe { region.mapping.part_mut(offset, len) };
                part.unwrap_or_else(|| out_of_range(block))
            }
            _ => panic!("not to be written: {block:?}"),
        }
    }

    /// Copies `bytes` to the start of `block`.
    ///
    /// # Panics
    /// Also if they are more than the block holds.
    pub fn write(&mut self, block: Block, bytes: &[u8]) {
        self.bytes_mut(block)[..bytes.len()].copy_from_slice(bytes);
    }

    /// Copies the start of `block` to `bytes`, filling it.
    ///
    /// # Panics
    /// Also if they are more than the block holds.
    pub fn read(&self, block: Block, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes(block)[..bytes.len()]);
    }

    /// Copies all of `from` to the start of `to`. The two may overlap.
    ///
    /// # Panics
    /// Also if `to` is shorter than `from`.
    pub fn copy(&mut self, from: Block, to: Block) {
        let to = to.part(0, from.len);
        if from.overlaps(to) {
            let start = from.offset.min(to.offset);
            let both =
                Block { offset: start, len: from.offset.abs_diff(to.offset) + from.len, ..to };
            let (source, sink) = ((from.offset - start) as usize, (to.offset - start) as usize);
            self.bytes_mut(both).copy_within(source..source + from.len as usize, sink);
            return;
        }
        let Some(Some(region)) = self.regions.get(from.region as usize) else {
            let Some(lent) = self.lent(from).cloned() else { panic!("no such region: {from:?}") };
            return self.bytes_mut(to).copy_from_slice(&lent[range(from)]);
        };
        // SAFETY: `self` keeps the mapping, and only `to` is written: it has none of these bytes.
        let source = unsafe { region.mapping.part(from.offset as usize, from.len as usize) };
        self.bytes_mut(to).copy_from_slice(source.unwrap_or_else(|| out_of_range(from)));
    }

    /// Repeats `word` over the whole block; the last repetition is cut if the length is no
    /// multiple of 8.
    pub fn fill_words(&mut self, block: Block, word: [u8; 8]) {
        words::fill(self.bytes_mut(block), word);
    }

    /// Whether the block holds what [`fill_words`](Self::fill_words) wrote; if not, the offset in
    /// the block of the first byte that differs.
    pub fn check_words(&self, block: Block, word: [u8; 8]) -> Result<(), u32> {
        match words::first_difference(self.bytes(block), word) {
            None => Ok(()),
            Some(at) => Err(u32::try_from(at).expect("a block's length fits 32 bits")),
        }
    }

    /// Writes one word `offset` bytes into the block.
    ///
    /// # Panics
    /// Also if it does not fit there.
    pub fn fill_word_at(&mut self, block: Block, offset: u32, word: [u8; 8]) {
        self.write(block.part(offset, 8), &word);
    }

    /// The word `offset` bytes into the block.
    ///
    /// # Panics
    /// Also if the block ends before it does.
    pub fn word_at(&self, block: Block, offset: u32) -> [u8; 8] {
        let mut word = [0; 8];
        self.read(block.part(offset, 8), &mut word);
        word
    }

    /// The block as a slice for a system call that sends.
    pub fn io_slice(&self, block: Block) -> IoSlice<'_> {
        IoSlice::new(self.bytes(block))
    }

    /// Calls `f` with slices to receive into several blocks at once: one slice per block in the
    /// order given, then one for `extra` unless it is empty (for bytes after the wanted ones).
    ///
    /// # Panics
    /// Also if two of the blocks overlap.
    pub fn with_io_slices_mut<R>(
        &mut self,
        blocks: &[Block],
        extra: &mut [u8],
        f: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        assert_disjoint(blocks);
        let mut slices = SmallVec::<[IoSliceMut<'_>; SLICES_INLINE]>::new();
        for &block in blocks {
            let region = self.regions.get(block.region as usize).and_then(Option::as_ref);
            let Some(region) = region.filter(|region| !region.is_taken(block)) else {
                panic!("not to be written: {block:?}");
            };
            // SAFETY: `f` cannot keep a slice beyond this call, during which `self` stays
            // exclusively borrowed: the mapping stays valid and no slices exist but these, which
            // were just shown to be disjoint, and those of blocks that were taken, which are not
            // among them.
            let part =
                unsafe { region.mapping.part_mut(block.offset as usize, block.len as usize) };
            slices
                .push(IoSliceMut::new(part.unwrap_or_else(|| panic!("out of region: {block:?}"))));
        }
        if !extra.is_empty() {
            slices.push(IoSliceMut::new(extra));
        }
        f(&mut slices)
    }

    /// A region of `class` with a free slot, at the front of its list: an idle region of any former
    /// class, or else a new one.
    fn open_region(&mut self, class: Class) -> Option<u32> {
        if let Some(id) = self.idle.oldest(class.units()) {
            let region = live(&mut self.regions, id);
            self.open.remove(region.class().index(), id);
            region.convert(class);
            self.open.push_front(class.index(), id);
            return Some(id);
        }
        let len = u64::from(class.units()) * u64::from(REGION_LEN);
        self.make_room(len)?;
        let region = match self.reclaim(len) {
            Some(mut region) => {
                region.convert(class);
                region
            }
            None => Region::new(Mapping::new(len as usize, REGION_LEN as usize)?, class),
        };
        let id = match self.vacant.pop() {
            Some(id) => id,
            None => {
                self.regions.push(None);
                u32::try_from(self.regions.len() - 1).expect("fewer regions than 2^32")
            }
        };
        self.regions[id as usize] = Some(region);
        self.stats.mapped += len;
        self.open.admit(id);
        self.idle.admit(id);
        self.open.push_front(class.index(), id);
        self.idle.push(class.units(), id);
        Some(id)
    }

    /// Unmaps idle regions until `len` more bytes can be mapped; does nothing if that cannot be
    /// achieved.
    fn make_room(&mut self, len: u64) -> Option<()> {
        let busy = self.stats.mapped - self.idle.bytes() - self.stats.taken;
        if busy + len > self.stats.limit {
            return None;
        }
        while self.stats.mapped - self.stats.taken + len > self.stats.limit {
            let id = self.idle.longest()?;
            drop(self.remove_region(id));
        }
        Some(())
    }

    /// A surplus region of this length. Without one, as much of the surplus is unmapped, so that no
    /// more is mapped than before.
    fn reclaim(&mut self, len: u64) -> Option<Region> {
        let fits = |region: &Region| region.mapping.len() as u64 == len;
        if self.surplus.last().is_some_and(fits) {
            return self.take_surplus();
        }
        let before = self.surplus_bytes;
        while !self.surplus.is_empty() && before - self.surplus_bytes < len {
            drop(self.take_surplus());
        }
        None
    }

    /// An idle region, which is unmapped when it is dropped.
    fn remove_region(&mut self, id: u32) -> Region {
        let region = self.regions[id as usize].take().expect("idle regions are mapped");
        self.idle.remove(region.class().units(), id);
        self.open.remove(region.class().index(), id);
        self.stats.mapped -= region.mapping.len() as u64;
        self.vacant.push(id);
        region
    }
}

fn live(regions: &mut [Option<Region>], id: u32) -> &mut Region {
    regions[id as usize].as_mut().expect("a listed region is mapped")
}

#[cold]
fn out_of_range(block: Block) -> ! {
    panic!("out of range of its region: {block:?}")
}

fn range(block: Block) -> std::ops::Range<usize> {
    block.offset as usize..block.offset as usize + block.len as usize
}

fn assert_disjoint(blocks: &[Block]) {
    let check = |a: Block, b: Block| assert!(!a.overlaps(b), "overlapping blocks: {a:?}, {b:?}");
    if blocks.len() < SLICES_INLINE {
        for (i, a) in blocks.iter().enumerate() {
            blocks[..i].iter().for_each(|b| check(*b, *a));
        }
    } else {
        // In the order of their first byte, the earliest overlapping pair is adjacent.
        let mut sorted: Vec<Block> = blocks.iter().copied().filter(|b| b.len > 0).collect();
        sorted.sort_unstable_by_key(|b| (b.region, b.offset));
        sorted.windows(2).for_each(|pair| check(pair[0], pair[1]));
    }
}

#[cfg(test)]
mod tests;
