//! What has to go when there is too much: what was not used for the longest time.

use super::*;

const CHUNK: u64 = 65_536;

/// Reads a chunk of the first object. What the server was asked for.
fn read_chunk(world: &mut World, osts: &mut Osts, number: u64) -> Vec<Kind> {
    osts.seen.clear();
    let read = world.read(number * 2 * CHUNK, CHUNK as u32);
    osts.serve(world);
    assert_eq!(read.outcome().unwrap().0, vec![number as u8; CHUNK as usize]);
    osts.seen.clone()
}

#[test]
fn a_chunk_that_was_used_again_stays_and_the_other_one_goes() {
    let tunables = CacheTunables { max_cached: 2 * CHUNK, ..CACHE };
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    osts.objects.insert(0, (0..20).flat_map(|chunk| [chunk; CHUNK as usize]).collect());
    // With gaps: nothing is read ahead.
    for (number, asked) in [
        (4, &[Kind::Enqueue, Kind::OstRead][..]),
        (8, &[Kind::OstRead]),
        (4, &[]),
        // There is room for two.
        (12, &[Kind::OstRead]),
        (4, &[]),
        (8, &[Kind::OstRead]),
        // It had to go for the 8, since the 4 was used after it.
        (12, &[Kind::OstRead]),
    ] {
        assert_eq!(read_chunk(&mut world, &mut osts, number), asked, "{number}");
    }
}

#[test]
fn a_lock_that_was_used_again_stays_and_the_other_one_goes() {
    let tunables = CacheTunables { lru_size: 1, ..CACHE };
    let (mut world, mut osts) = (World::caching(tunables), Osts::default());
    for stripe in [0, 1] {
        osts.objects.insert(stripe, vec![7; 1000]);
    }
    for place in [0, CHUNK, 0] {
        let read = world.read(place, 10);
        osts.serve(&mut world);
        assert_eq!(read.outcome().unwrap().0, [7; 10]);
    }
    assert_eq!(osts.locks.len(), 2, "nothing goes before the end of a turn");
    world.pass(Nanos(0));
    osts.serve(&mut world);
    let stripes: Vec<u32> = osts.locks.iter().map(|(_, _, stripe, _)| *stripe).collect();
    assert_eq!(stripes, [0]);
}

#[test]
fn locks_that_nobody_has_used_for_long_go_back_together() {
    let (mut world, mut osts) = scene();
    osts.grows = Some(0);
    osts.objects.insert(0, vec![7; 60_000]);
    for place in [0, 20_000, 40_000] {
        let read = world.read(place, 10);
        osts.serve(&mut world);
        assert_eq!(read.outcome().unwrap().0, [7; 10]);
    }
    assert_eq!(osts.locks.len(), 3);
    osts.seen.clear();
    world.pass(Nanos::from_secs(700));
    osts.serve(&mut world);
    let cancels = osts.seen.iter().filter(|kind| **kind == Kind::LdlmCancel).count();
    assert_eq!((osts.locks.len(), cancels), (0, 1));
}
