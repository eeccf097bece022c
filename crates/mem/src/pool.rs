//! Memory for data that threads copy and keep for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::arena::{Arena, ArenaStats};
use crate::class::Class;

/// Shorter data are on the heap: they cost few page faults.
const POOLED_MIN: usize = 64 << 10;

/// Memory for copies that are kept for a while, such as the data of a cache, in any thread.
///
/// The heap would give each large copy new pages, which the kernel has to clear, with one fault for
/// each 4 KiB. Here copies are in regions of 2 MiB, which the kernel can map as huge pages, and
/// which are used again.
///
/// ```
/// let pool = lustrine_mem::Pool::new(64 << 20);
/// let copy = pool.copy(&[7; 1 << 20]);
/// assert_eq!(copy[..3], [7, 7, 7]);
/// ```
#[derive(Debug)]
pub struct Pool {
    arena: Mutex<Arena>,
}

impl Pool {
    /// A pool whose regions with copies have at most `limit` bytes together.
    pub fn new(limit: u64) -> Pool {
        // All of it is taken, apart from what is idle.
        Pool { arena: Mutex::new(Arena::with_taken(limit, limit)) }
    }

    /// A copy of bytes. It is on the heap if there are fewer than 64 KiB or more than 1 MiB, if
    /// they would leave more than a quarter of a block unused, or if the limit is reached.
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        let Some(len) = pooled_len(bytes) else { return Bytes::copy_from_slice(bytes) };
        // Other threads wait for the allocation, but not for the copy.
        // SAFETY: no block of this arena is ever read through it.
        let taken = unsafe { self.arena().take_new(len) };
        match taken {
            Some(mut taken) => {
                taken.bytes_mut().copy_from_slice(bytes);
                Bytes::from_owner(taken)
            }
            None => Bytes::copy_from_slice(bytes),
        }
    }

    /// Ends a period, such as a minute: what was in use at no time of it goes back to the operating
    /// system, apart from 16 MiB.
    pub fn end_period(&self) {
        self.arena().end_period();
        loop {
            // Unmapped without the lock.
            let surplus = self.arena().take_surplus();
            if surplus.is_none() {
                break;
            }
        }
    }

    /// The bytes that are mapped and in use now.
    pub fn stats(&self) -> ArenaStats {
        self.arena().stats()
    }

    /// A thread that panicked with the arena has found a mistake of this crate, and the next one
    /// finds it as well.
    fn arena(&self) -> MutexGuard<'_, Arena> {
        self.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The length of bytes that fill a block well.
fn pooled_len(bytes: &[u8]) -> Option<u32> {
    let len = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() >= POOLED_MIN)?;
    let class = Class::for_len(len).filter(|class| class.slots() > 1)?;
    (u64::from(len) * 4 >= u64::from(class.slot_len()) * 3).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn copies_are_reused_when_all_slices_are_gone() {
        let pool = Pool::new(8 << 20);
        let data: Vec<u8> = (0..MIB).map(|at| (at % 251) as u8).collect();
        let copy = pool.copy(&data);
        assert_eq!(copy, data);
        let (slice, place) = (copy.slice(5..100), copy.as_ptr().addr());
        drop(copy);
        let other = pool.copy(&data[..MIB - 1]);
        assert!(slice == data[5..100] && other.as_ptr().addr() != place, "a slice is in use");
        drop(slice);
        // In another thread as well.
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(pool.copy(&data[1..]).as_ptr().addr(), place));
        });
        assert_eq!(other, data[..MIB - 1]);
    }

    #[test]
    fn what_does_not_fill_a_block_is_on_the_heap() {
        let pool = Pool::new(8 << 20);
        let (kept, data) = (pool.copy(&vec![1; 96 << 10]), vec![2; 2 * MIB]);
        let in_use = pool.stats().in_use;
        assert_eq!(in_use, 128 << 10);
        let lens = [0, 1, 4096, (64 << 10) - 1, (96 << 10) - 1, MIB / 2 + 1, MIB + 1, 2 * MIB];
        for len in lens {
            let copy = pool.copy(&data[..len]);
            assert!(copy == data[..len] && pool.stats().in_use == in_use, "{len}");
        }
        drop(kept);
    }

    #[test]
    fn beyond_the_limit_copies_are_on_the_heap() {
        let pool = Pool::new(4 << 20);
        let copies: Vec<Bytes> = (0..9).map(|number| pool.copy(&vec![number; MIB])).collect();
        assert_eq!((pool.stats().in_use, pool.stats().taken), (4 << 20, 4 << 20));
        for (number, copy) in copies.iter().enumerate() {
            assert!(copy.iter().all(|byte| usize::from(*byte) == number));
        }
        drop(copies);
        let _copies: Vec<Bytes> = (0..4).map(|number| pool.copy(&vec![number; MIB])).collect();
        pool.end_period();
        assert_eq!(pool.stats().mapped, 4 << 20);
        assert!(Pool::new(0).copy(&[3; MIB]).iter().all(|byte| *byte == 3));
        assert!(Pool::new(u64::MAX).copy(&[3; MIB]).iter().all(|byte| *byte == 3));
    }

    #[test]
    fn memory_that_was_in_use_at_no_time_of_a_period_is_given_back() {
        let pool = Pool::new(64 << 20);
        let copies = |count| (0..count).map(|_| pool.copy(&vec![1; MIB])).collect::<Vec<Bytes>>();
        let mapped = || pool.stats().mapped >> 20;
        drop(copies(40));
        pool.end_period();
        assert_eq!(mapped(), 40, "they were in use in the first period");
        drop(copies(30));
        pool.end_period();
        assert_eq!(mapped(), 40, "ten were not, and sixteen stay");
        drop(copies(4));
        pool.end_period();
        assert_eq!(mapped(), 20, "four and sixteen");
        let kept = copies(1);
        (0..2).for_each(|_| pool.end_period());
        assert_eq!((mapped(), pool.stats().taken >> 20), (18, 2));
        drop(kept);
        (0..2).for_each(|_| pool.end_period());
        assert_eq!((mapped(), pool.stats().in_use), (16, 0));
    }

    #[test]
    fn threads_copy_while_memory_is_given_back() {
        let pool = Pool::new(8 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let pool = &pool;
                scope.spawn(move || {
                    let data: Vec<Vec<u8>> =
                        (0..8).map(|number| vec![thread * 8 + number; 100_000]).collect();
                    let mut copies: Vec<Bytes> = Vec::new();
                    for round in 0..200 {
                        let given = &data[round % 8];
                        copies.push(pool.copy(given));
                        if copies.len() > 20 {
                            copies.swap_remove(round % 20);
                        }
                        let same = |copy: &Bytes| data.iter().any(|data| copy == data);
                        assert!(round % 50 > 0 || copies.iter().all(same));
                    }
                });
            }
            scope.spawn(|| (0..100).for_each(|_| pool.end_period()));
        });
        (0..2).for_each(|_| pool.end_period());
        let stats = pool.stats();
        assert_eq!((stats.in_use, stats.taken, stats.blocks), (0, 0, 0));
        assert!(stats.mapped <= 16 << 20);
    }

    /// Blocks of all sizes, of which one of each region stays: the limit is for regions.
    #[test]
    fn a_region_counts_as_long_as_one_copy_is_in_it() {
        let pool = Pool::new(8 << 20);
        let mut copies: Vec<Bytes> = (0..128).map(|_| pool.copy(&[1; 64 << 10])).collect();
        assert_eq!((pool.stats().taken, pool.stats().in_use), (8 << 20, 8 << 20));
        let mut number = 0;
        copies.retain(|_| {
            number += 1;
            number % 32 == 1
        });
        // The others are used again, and a larger one has no room.
        let others: Vec<Bytes> = (0..124).map(|_| pool.copy(&[2; 64 << 10])).collect();
        assert_eq!((pool.stats().taken, pool.stats().in_use), (8 << 20, 8 << 20));
        drop(others);
        let larger = pool.copy(&[3; MIB]);
        assert!(larger.iter().all(|byte| *byte == 3) && pool.stats().in_use == 4 * (64 << 10));
    }
}
