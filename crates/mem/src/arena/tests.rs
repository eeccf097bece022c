use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Arena, Block};
use crate::class::{BLOCK_LEN_MAX, REGION_LEN};

const MIB: u32 = 1 << 20;
const WORD: [u8; 8] = *b"lustrine";

fn arena() -> Arena {
    Arena::new(4 * u64::from(REGION_LEN))
}

#[test]
fn nothing_is_mapped_before_it_is_needed() {
    let mut arena = arena();
    assert_eq!(arena.stats().mapped, 0);
    arena.alloc(100).unwrap();
    let stats = arena.stats();
    assert_eq!((stats.mapped, stats.in_use, stats.blocks), (u64::from(REGION_LEN), 128, 1));
}

#[test]
fn the_block_freed_last_is_allocated_first() {
    let mut arena = arena();
    let blocks: Vec<_> = (0..6).map(|_| arena.alloc(MIB).unwrap()).collect();
    for i in [3, 0, 5, 1, 2] {
        arena.free(blocks[i]);
        assert_eq!(arena.alloc(MIB), Some(blocks[i]));
        arena.free(blocks[i]);
    }
    let small: Vec<_> = (0..6).map(|_| arena.alloc(64).unwrap()).collect();
    small.iter().for_each(|&block| arena.free(block));
    for &block in small.iter().rev() {
        assert_eq!(arena.alloc(64), Some(block), "a stack inside one region");
    }
}

#[test]
fn the_limit_is_kept_and_freed_memory_is_available_again() {
    let mut arena = arena();
    let blocks: Vec<_> = (0..8).map(|_| arena.alloc(MIB).unwrap()).collect();
    assert_eq!(arena.alloc(MIB), None);
    assert_eq!(arena.alloc(64), None, "another class, the same limit");
    assert_eq!(arena.stats().mapped, arena.stats().limit);
    arena.free(blocks[4]);
    assert!(arena.alloc(MIB).is_some());
    assert_eq!(arena.stats().high_water, 8 * u64::from(MIB));
}

#[test]
fn a_limit_below_one_region_holds_nothing() {
    let mut arena = Arena::new(u64::from(REGION_LEN) - 1);
    assert_eq!(arena.stats().limit, 0);
    assert_eq!(arena.alloc(1), None);
}

#[test]
fn idle_regions_serve_other_sizes() {
    let mut arena = arena();
    for len in [64, 4096, MIB, 64, 3 * MIB, 8 * MIB, 2 * MIB, 100] {
        let room = arena.stats().limit as u32 / len.next_power_of_two().max(64);
        let blocks: Vec<_> = (0..room.min(64)).map(|_| arena.alloc(len).unwrap()).collect();
        assert!(arena.stats().mapped <= arena.stats().limit);
        blocks.into_iter().for_each(|block| arena.free(block));
        assert_eq!(arena.stats().in_use, 0);
    }
}

#[test]
fn regions_are_unmapped_only_if_that_makes_enough_room() {
    let mut arena = arena();
    let small = arena.alloc(64).unwrap();
    let large = arena.alloc(4 * MIB).unwrap();
    arena.free(large);
    assert_eq!(arena.alloc(8 * MIB), None);
    assert_eq!(arena.stats().mapped, 6 * u64::from(MIB), "the idle region stayed");
    arena.free(small);
    assert!(arena.alloc(8 * MIB).is_some());
}

#[test]
fn blocks_of_a_page_and_more_begin_on_a_page() {
    let mut arena = Arena::new(u64::from(BLOCK_LEN_MAX));
    for len in [4096, 5000, 65536, MIB, 2 * MIB + 1] {
        for _ in 0..3 {
            let block = arena.alloc(len).unwrap();
            assert_eq!(block.len, len);
            assert_eq!(arena.bytes(block).as_ptr() as usize % 4096, 0);
        }
    }
}

#[test]
fn the_longest_block_can_be_used_to_its_end() {
    let mut arena = Arena::new(u64::from(BLOCK_LEN_MAX));
    let block = arena.alloc(BLOCK_LEN_MAX).unwrap();
    arena.fill_word_at(block, BLOCK_LEN_MAX - 8, WORD);
    assert_eq!(arena.word_at(block, BLOCK_LEN_MAX - 8), WORD);
    assert_eq!(arena.alloc(BLOCK_LEN_MAX + 1), None);
}

#[test]
#[should_panic(expected = "freeing a free block")]
fn freeing_twice_is_noticed() {
    let mut arena = arena();
    let block = arena.alloc(64).unwrap();
    arena.alloc(64).unwrap();
    arena.free(block);
    arena.free(block);
}

#[test]
#[should_panic(expected = "freeing a foreign block")]
fn freeing_the_middle_of_a_block_is_noticed() {
    let mut arena = arena();
    let block = arena.alloc(128).unwrap();
    arena.free(block.part(64, 64));
}

#[test]
#[should_panic(expected = "freeing a foreign block")]
fn freeing_in_a_region_that_is_not_there_is_noticed() {
    arena().free(Block { region: 0, offset: 0, len: 64 });
}

#[test]
#[should_panic(expected = "out of range")]
fn reaching_past_a_region_is_noticed() {
    let mut arena = arena();
    arena.alloc(64).unwrap();
    arena.bytes(Block { region: 0, offset: REGION_LEN - 8, len: 9 });
}

#[test]
fn blocks_are_copied_within_and_across_regions() {
    let mut arena = arena();
    let near = arena.alloc(64).unwrap();
    let far = arena.alloc(4096).unwrap();
    assert_ne!(near.region, far.region);
    arena.write(near, b"0123456789");
    arena.copy(near.part(0, 10), far.part(100, 10));
    arena.copy(near.part(0, 8), near.part(2, 8));
    let mut found = [0; 10];
    arena.read(far.part(100, 10), &mut found);
    assert_eq!(&found, b"0123456789");
    arena.read(near, &mut found);
    assert_eq!(&found, b"0101234567", "an overlapping copy moves");
}

#[test]
fn words_are_checked_to_the_byte() {
    let mut arena = arena();
    let block = arena.alloc(5003).unwrap();
    arena.fill_words(block, WORD);
    assert_eq!(arena.check_words(block, WORD), Ok(()));
    arena.fill_word_at(block, 4104, *b"lustrinE");
    assert_eq!(arena.word_at(block, 4104), *b"lustrinE");
    assert_eq!(arena.check_words(block, WORD), Err(4111));
}

#[test]
fn several_blocks_and_an_extra_buffer_are_borrowed_at_once() {
    for count in [1, 16, 40] {
        let mut arena = arena();
        let blocks: Vec<_> = (0..count).map(|_| arena.alloc(64).unwrap()).collect();
        let mut extra = [0; 7];
        let total = arena.with_io_slices_mut(&blocks, &mut extra, |slices| {
            for (i, slice) in slices.iter_mut().enumerate() {
                slice.fill(i as u8 + 1);
            }
            slices.iter().map(|slice| slice.len()).sum::<usize>()
        });
        assert_eq!(total, count * 64 + 7);
        assert_eq!(extra, [count as u8 + 1; 7]);
        for (i, &block) in blocks.iter().enumerate() {
            assert_eq!(arena.check_words(block, [i as u8 + 1; 8]), Ok(()));
            assert_eq!(&*arena.io_slice(block), &[i as u8 + 1; 64]);
        }
        let slices = arena.with_io_slices_mut(&blocks, &mut [], |slices| slices.len());
        assert_eq!(slices, count, "no slice for an empty extra buffer");
    }
}

#[test]
#[should_panic(expected = "overlapping blocks")]
fn overlapping_blocks_are_refused() {
    let mut arena = arena();
    let block = arena.alloc(128).unwrap();
    arena.with_io_slices_mut(&[block, block.part(127, 1)], &mut [], |_| ());
}

#[test]
#[should_panic(expected = "overlapping blocks")]
fn one_overlap_among_many_blocks_is_noticed() {
    let mut arena = arena();
    let mut blocks: Vec<_> = (0..100).map(|_| arena.alloc(64).unwrap()).collect();
    blocks.push(blocks[50].part(0, 0));
    blocks.push(blocks[50].part(10, 1));
    arena.with_io_slices_mut(&blocks, &mut [], |_| ());
}

#[test]
#[should_panic(expected = "out of region")]
fn a_block_past_its_region_is_refused() {
    let mut arena = arena();
    arena.alloc(64).unwrap();
    let block = Block { region: 0, offset: REGION_LEN - 1, len: 2 };
    arena.with_io_slices_mut(&[block], &mut [], |_| ());
}

#[test]
fn lent_bytes_are_read_where_they_are_until_they_are_freed() {
    let mut arena = arena();
    let bytes = Bytes::from(vec![7; 100]);
    let block = arena.lend(bytes.clone()).unwrap();
    assert!(std::ptr::eq(arena.bytes(block), &bytes[..]));
    assert_eq!(arena.bytes(block.part(10, 20)).len(), 20);
    let other = arena.alloc(200).unwrap();
    arena.copy(block, other);
    assert_eq!(arena.bytes(other.part(0, 100)), bytes);
    let stats = arena.stats();
    assert_eq!((stats.blocks, stats.mapped, stats.in_use), (2, u64::from(REGION_LEN), 256));
    assert!(!bytes.is_unique());
    arena.free(block);
    assert!(bytes.is_unique());
    assert_eq!(arena.stats().blocks, 1);
    // Its number is used again.
    assert_eq!(arena.lend(bytes), Some(block));
}

#[test]
fn taken_bytes_stay_where_they_are_and_their_block_comes_back() {
    let mut arena = arena();
    let block = arena.alloc(100_000).unwrap();
    arena.bytes_mut(block).fill(7);
    let place = arena.bytes(block).as_ptr();
    let bytes = arena.take(block).unwrap();
    assert!(bytes.as_ptr() == place && bytes.len() == 100_000);
    let stats = arena.stats();
    assert_eq!((stats.blocks, stats.in_use), (1, 128 << 10));
    assert_eq!(stats.taken, u64::from(REGION_LEN));
    let part = bytes.slice(10..20);
    drop(bytes);
    // The rest of its region is in use as before, and written.
    let others: Vec<Block> = (0..15).map(|_| arena.alloc(100_000).unwrap()).collect();
    for other in &others {
        arena.bytes_mut(*other).fill(9);
    }
    assert_eq!(part, vec![7; 10]);
    std::thread::spawn(move || drop(part)).join().unwrap();
    // No other is free, so that this one is looked for.
    assert_eq!(arena.alloc(100_000), Some(block));
    assert_eq!(arena.stats().taken, 0);
    arena.bytes_mut(block).fill(1);
}

#[test]
fn taken_bytes_outlive_their_arena() {
    let mut arena = arena();
    let block = arena.alloc(MIB).unwrap();
    arena.bytes_mut(block).fill(7);
    let bytes = arena.take(block).unwrap();
    drop(arena);
    assert!(bytes.iter().all(|byte| *byte == 7));
}

#[test]
fn what_is_taken_has_a_limit() {
    let len = u64::from(REGION_LEN);
    for (taken_limit, count) in [(0, 0), (len - 1, 0), (len, 2), (5 * len, 4)] {
        let mut arena = Arena::with_taken(2 * len, taken_limit);
        let blocks: Vec<Block> = (0..4).map(|_| arena.alloc(MIB).unwrap()).collect();
        let taken: Vec<Bytes> = blocks.iter().filter_map(|block| arena.take(*block)).collect();
        assert_eq!(taken.len(), count, "{taken_limit}");
        assert_eq!(arena.stats().taken, count as u64 * len / 2);
    }
    // More than all blocks of the event loop.
    let mut arena = Arena::with_taken(len, 5 * len);
    let mut take = || arena.alloc(MIB).and_then(|block| arena.take(block));
    let taken: Vec<Bytes> = (0..10).map(|_| take().unwrap()).collect();
    assert_eq!(take(), None);
    assert_eq!((arena.stats().mapped, arena.stats().taken), (6 * len, 5 * len));
    drop(taken);
    // What comes back is too much.
    assert!(arena.alloc(MIB).is_some());
    assert_eq!(arena.alloc(MIB), None);
    assert_eq!((arena.stats().mapped, arena.stats().taken), (6 * len, 0));
    arena.release(3);
    assert_eq!(arena.stats().mapped, 3 * len);
    assert!(arena.has_surplus());
    arena.release(3);
    assert_eq!(arena.stats().mapped, len);
    assert!(!arena.has_surplus());
}

/// Regions count as taken as a whole.
#[test]
fn the_event_loop_uses_what_is_left_of_regions_with_taken_blocks() {
    let len = u64::from(REGION_LEN);
    let mut arena = Arena::with_taken(len, 8 * len);
    let mut pair = || {
        let blocks = [arena.alloc(MIB).unwrap(), arena.alloc(MIB).unwrap()];
        (arena.take(blocks[0]).unwrap(), blocks[1])
    };
    let pairs: Vec<(Bytes, Block)> = (0..8).map(|_| pair()).collect();
    let (taken, own): (Vec<Bytes>, Vec<Block>) = pairs.into_iter().unzip();
    assert_eq!((arena.stats().mapped, arena.stats().taken), (8 * len, 8 * len));
    drop(taken);
    // All are busy with what is not taken: this is more than the limit, and not idle.
    arena.end_period();
    assert!(!arena.has_surplus());
    assert_eq!(arena.alloc(3 * MIB), None);
    own.into_iter().for_each(|block| arena.free(block));
    assert!(arena.has_surplus());
    arena.release(7);
    assert!(arena.stats().mapped == len && !arena.has_surplus());
}

#[test]
fn what_is_idle_for_a_period_is_released() {
    let mut arena = Arena::new(64 << 20);
    let (blocks, long): (Vec<Block>, _) =
        ((0..40).map(|_| arena.alloc(MIB).unwrap()).collect(), arena.alloc(4 * MIB).unwrap());
    assert!(!arena.may_have_surplus(), "all are in use");
    blocks.into_iter().for_each(|block| arena.free(block));
    arena.free(long);
    assert!(arena.may_have_surplus());
    arena.end_period();
    assert!(!arena.has_surplus());
    arena.end_period();
    assert!(arena.has_surplus());
    arena.release(5);
    assert_eq!(arena.stats().mapped, 34 << 20);
    arena.release(100);
    assert_eq!(arena.stats().mapped, 16 << 20);
    assert!(!arena.has_surplus() && !arena.may_have_surplus());
    // Taken blocks come back in any thread.
    let taken = [arena.alloc(MIB), arena.alloc(MIB)].map(|block| arena.take(block.unwrap()));
    assert!(arena.may_have_surplus());
    drop(taken);
    arena.end_period();
    assert!(!arena.may_have_surplus() && arena.stats().in_use == 0);
}

#[test]
fn surplus_is_used_again_before_more_is_mapped() {
    let len = u64::from(REGION_LEN);
    let mut arena = Arena::with_taken(2 * len, 8 * len);
    let mut take = || arena.alloc(MIB).and_then(|block| arena.take(block)).unwrap();
    let taken: Vec<Bytes> = (0..16).map(|_| take()).collect();
    let places: Vec<usize> = taken.iter().map(|bytes| bytes.as_ptr().addr()).collect();
    let own = arena.alloc(2 * REGION_LEN).unwrap();
    drop(taken);
    arena.end_period();
    assert_eq!((arena.stats().mapped, arena.stats().taken), (10 * len, 0));
    assert_eq!(arena.alloc(MIB), None, "the limit");
    arena.free(own);
    // One fits as it is.
    let short = arena.alloc(MIB).unwrap();
    assert!(places.contains(&arena.bytes(short).as_ptr().addr()));
    assert_eq!(arena.stats().mapped, 8 * len);
    arena.free(short);
    // A longer one takes the place of two.
    let long = arena.alloc(2 * REGION_LEN).unwrap();
    assert_eq!(arena.stats().mapped, 7 * len);
    arena.free(long);
    arena.release(usize::MAX);
    assert_eq!(arena.stats().mapped, 2 * len);
}

#[test]
fn half_of_the_limit_is_never_taken() {
    let mut arena = arena();
    let blocks: Vec<Block> = (0..6).map(|_| arena.alloc(MIB).unwrap()).collect();
    let taken: Vec<Option<Bytes>> = blocks.iter().map(|block| arena.take(*block)).collect();
    assert_eq!(taken.iter().filter(|bytes| bytes.is_some()).count(), 4);
    assert_eq!(arena.stats().taken, arena.stats().limit / 2);
    // The others are still the caller's.
    for (block, _) in blocks.iter().zip(&taken).filter(|(_, bytes)| bytes.is_none()) {
        arena.bytes_mut(*block).fill(1);
        arena.free(*block);
    }
    drop(taken);
    let block = arena.alloc(MIB).unwrap();
    assert!(arena.take(block).is_some());
    assert_eq!(arena.stats().taken, u64::from(REGION_LEN));
}

/// What others keep leaves all of the limit to the event loop.
#[test]
fn what_was_taken_does_not_count() {
    let mut arena = arena();
    let blocks: Vec<Block> = (0..4).map(|_| arena.alloc(MIB).unwrap()).collect();
    let taken: Vec<Bytes> = blocks.into_iter().map(|block| arena.take(block).unwrap()).collect();
    let all = arena.alloc(4 * REGION_LEN).expect("the limit");
    let stats = arena.stats();
    assert_eq!((stats.mapped, stats.taken), (stats.limit / 2 * 3, stats.limit / 2));
    assert_eq!(arena.alloc(MIB), None);
    // What comes back is too much, and can be unmapped.
    drop(taken);
    assert_eq!(arena.alloc(MIB), None);
    arena.release(usize::MAX);
    let stats = arena.stats();
    assert_eq!((stats.mapped, stats.taken, stats.blocks), (stats.limit, 0, 1));
    arena.free(all);
    assert!(arena.alloc(MIB).is_some());
}

#[test]
fn half_of_the_limit_can_be_lent() {
    let mut arena = arena();
    let piece = Bytes::from(vec![1; REGION_LEN as usize]);
    let lent = [arena.lend(piece.clone()).unwrap(), arena.lend(piece.clone()).unwrap()];
    assert_eq!(arena.lend(piece.slice(..1)), None);
    assert_eq!(arena.stats().lent, arena.stats().limit / 2);
    arena.free(lent[0]);
    assert!(arena.lend(piece).is_some());
}

#[test]
fn a_short_block_is_not_taken_and_lent_bytes_are_given_back() {
    let mut arena = arena();
    let block = arena.alloc(1000).unwrap();
    assert_eq!(arena.take(block), None);
    arena.free(block);
    let lent = arena.lend(Bytes::from_static(b"data")).unwrap();
    assert_eq!(arena.take(lent).unwrap(), b"data"[..]);
    assert_eq!(arena.stats().blocks, 0);
}

/// An arena with a block of 100,000 bytes that was taken.
fn with_taken() -> (Arena, Block, Bytes) {
    let mut arena = arena();
    let block = arena.alloc(100_000).unwrap();
    let bytes = arena.take(block).unwrap();
    (arena, block, bytes)
}

#[test]
#[should_panic(expected = "not to be written")]
fn a_taken_block_is_not_written() {
    let (mut arena, block, _bytes) = with_taken();
    arena.write(block.part(99_999, 1), b"x");
}

#[test]
#[should_panic(expected = "not to be written")]
fn nothing_is_received_into_a_taken_block() {
    let (mut arena, block, _bytes) = with_taken();
    arena.with_io_slices_mut(&[block.part(5, 10)], &mut [], |_| ());
}

#[test]
#[should_panic(expected = "not to be written")]
fn nothing_is_copied_to_a_block_that_reaches_into_a_taken_one() {
    let (mut arena, block, _bytes) = with_taken();
    let other = arena.alloc(100_000).unwrap();
    assert_eq!(other.offset, block.offset + (128 << 10));
    let from = arena.alloc(100_000).unwrap();
    // No allocated block reaches over its slot; a stale one may.
    arena.copy(from, Block { offset: other.offset - 40_000, ..other });
}

#[test]
#[should_panic(expected = "freeing a taken block")]
fn freeing_a_taken_block_is_noticed() {
    let (mut arena, block, _bytes) = with_taken();
    arena.free(block);
}

#[test]
#[should_panic(expected = "taking a taken block")]
fn taking_a_block_twice_is_noticed() {
    let (mut arena, block, _bytes) = with_taken();
    arena.take(block);
}

#[test]
#[should_panic(expected = "taking a free block")]
fn taking_a_free_block_is_noticed() {
    let mut arena = arena();
    let block = arena.alloc(MIB).unwrap();
    arena.free(block);
    arena.take(block);
}

#[test]
fn empty_bytes_can_be_lent() {
    let mut arena = arena();
    let block = arena.lend(Bytes::new()).unwrap();
    assert_eq!(arena.bytes(block), b"");
    arena.free(block);
}

#[test]
#[should_panic(expected = "not to be written")]
fn lent_bytes_are_not_written() {
    let mut arena = arena();
    let block = arena.lend(Bytes::from_static(b"data")).unwrap();
    arena.write(block, b"x");
}

#[test]
#[should_panic(expected = "not to be written")]
fn nothing_is_received_into_lent_bytes() {
    let mut arena = arena();
    let block = arena.lend(Bytes::from_static(b"data")).unwrap();
    arena.with_io_slices_mut(&[block], &mut [], |_| ());
}

#[test]
#[should_panic(expected = "freeing a foreign block")]
fn freeing_lent_bytes_twice_is_noticed() {
    let mut arena = arena();
    let block = arena.lend(Bytes::from_static(b"data")).unwrap();
    arena.free(block);
    arena.free(block);
}

#[test]
#[should_panic(expected = "freeing a foreign block")]
fn freeing_a_part_of_lent_bytes_is_noticed() {
    let mut arena = arena();
    let block = arena.lend(Bytes::from_static(b"data")).unwrap();
    arena.free(block.part(0, 3));
}

#[test]
fn an_arena_may_move_to_its_thread() {
    let mut arena = arena();
    let block = arena.alloc(64).unwrap();
    arena.fill_words(block, WORD);
    let there = std::thread::spawn(move || arena.check_words(block, WORD));
    assert_eq!(there.join().unwrap(), Ok(()));
}

#[derive(Debug, Clone)]
enum Step {
    Alloc(u32),
    Free(prop::sample::Index),
    Take(prop::sample::Index),
    /// Drops what was taken.
    Drop(prop::sample::Index),
    EndPeriod,
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        6 => 0..5000u32,
        2 => (1..=MIB).prop_map(|len| len),
        1 => MIB..=12 * MIB,
    ];
    prop_oneof![
        3 => len.prop_map(Step::Alloc),
        2 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => any::<prop::sample::Index>().prop_map(Step::Take),
        1 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => Just(Step::EndPeriod),
        1 => (0..4_usize).prop_map(Step::Release),
    ]
}

/// A block is marked at both ends (all of it if short), so that the model stays cheap.
fn mark(arena: &mut Arena, block: Block, seed: u8) {
    let edge = block.len.min(64);
    arena.bytes_mut(block.part(0, edge)).fill(seed);
    arena.bytes_mut(block.part(block.len - edge, edge)).fill(seed);
}

fn is_marked(arena: &Arena, block: Block, seed: u8) -> bool {
    let edge = block.len.min(64);
    [block.part(0, edge), block.part(block.len - edge, edge)]
        .into_iter()
        .all(|part| arena.bytes(part).iter().all(|&byte| byte == seed))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Allocated blocks never share a byte and keep their contents, also if they are taken; the
    /// limit holds; the counters are sums over the allocated blocks; and after all are freed, a
    /// block of any size that fits can be allocated.
    #[test]
    fn agrees_with_a_model(
        steps in prop::collection::vec(step(), 0..120),
        (regions, regions_taken) in (1..10_u64, 0..30_u64),
    ) {
        let len = u64::from(REGION_LEN);
        let mut arena = Arena::with_taken(regions * len, regions_taken * len);
        // Maps the start of an allocated block to the block and its mark.
        let mut model = BTreeMap::<(u32, u32), (Block, u8)>::new();
        let mut taken: Vec<(Block, Bytes, u8)> = Vec::new();
        let mut high_water = 0;
        for (seed, step) in steps.into_iter().enumerate() {
            match step {
                Step::Alloc(len) => {
                    let Some(block) = arena.alloc(len) else { continue };
                    prop_assert_eq!(block.len, len);
                    mark(&mut arena, block, seed as u8);
                    let key = (block.region, block.offset);
                    prop_assert!(model.insert(key, (block, seed as u8)).is_none());
                }
                Step::Free(index) if !model.is_empty() => {
                    let key = *model.keys().nth(index.index(model.len())).unwrap();
                    let (block, seed) = model.remove(&key).unwrap();
                    prop_assert!(is_marked(&arena, block, seed));
                    arena.free(block);
                }
                Step::Take(index) if !model.is_empty() => {
                    let key = *model.keys().nth(index.index(model.len())).unwrap();
                    let (block, seed) = model[&key];
                    if let Some(bytes) = arena.take(block) {
                        model.remove(&key);
                        taken.push((block, bytes, seed));
                    }
                }
                Step::Drop(index) if !taken.is_empty() => {
                    let (_, bytes, seed) = taken.swap_remove(index.index(taken.len()));
                    prop_assert!(bytes[0] == seed && bytes[bytes.len() - 1] == seed);
                }
                Step::EndPeriod => arena.end_period(),
                Step::Release(most) => {
                    let before = arena.stats().mapped;
                    let had_surplus = arena.has_surplus();
                    arena.release(most);
                    prop_assert_eq!(arena.stats().mapped < before, had_surplus && most > 0);
                }
                Step::Free(_) | Step::Take(_) | Step::Drop(_) => {}
            }
            let stats = arena.stats();
            high_water = high_water.max(stats.in_use);
            prop_assert!(stats.in_use <= stats.mapped);
            prop_assert!(stats.mapped <= stats.limit + stats.taken_limit);
            prop_assert_eq!(stats.high_water, high_water);
            prop_assert!(stats.taken <= stats.taken_limit);
            // Those that were dropped count until they are looked for.
            let mut all: Vec<Block> = model.values().map(|(block, _)| *block).collect();
            all.extend(taken.iter().map(|(block, ..)| *block));
            prop_assert!(stats.blocks >= all.len() as u64);
            let asked_for: u64 = all.iter().map(|block| u64::from(block.len)).sum();
            prop_assert!(asked_for <= stats.in_use);
            all.sort_by_key(|block| (block.region, block.offset));
            for pair in all.windows(2) {
                prop_assert!(!pair[0].overlaps(pair[1]));
            }
        }
        for (block, seed) in model.into_values() {
            prop_assert!(is_marked(&arena, block, seed));
            arena.free(block);
        }
        drop(taken);
        arena.collect();
        let stats = arena.stats();
        prop_assert_eq!((stats.in_use, stats.blocks, stats.taken), (0, 0, 0));
        let all = u32::try_from(stats.limit).unwrap();
        prop_assert!(arena.alloc(all).is_some(), "nothing is lost");
        arena.release(usize::MAX);
        prop_assert_eq!(arena.stats().mapped, stats.limit);
    }
}
