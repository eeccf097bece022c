//! Reads: what they wait for, and what is read before a program asks for it.

use super::*;

/// Two programs read a file from two places, one piece after another.
#[test]
fn two_who_read_one_file_are_both_read_ahead() {
    const PIECE: u64 = 4096;
    let (mut world, mut osts) = scene();
    for stripe in [0, 1] {
        osts.objects.insert(stripe, vec![7; 20 << 20]);
    }
    for piece in 0..64 {
        for start in [0, 20 << 20] {
            let read = world.read(start + piece * PIECE, PIECE as u32);
            osts.serve(&mut world);
            assert_eq!(read.outcome().unwrap().0, [7; PIECE as usize]);
        }
    }
    let asked = osts.seen.iter().filter(|kind| **kind == Kind::OstRead).count();
    assert!(asked < 40, "{asked} requests for 128 pieces");
    let counts = world.client.cache_counts();
    assert_eq!(counts.hits + counts.misses, 128 * PIECE);
    // All but the first pieces, and what lies ahead of both.
    assert!(counts.read_ahead >= counts.hits, "{counts:?}");
}

/// Programs ask for more than a small file has: what is behind its end takes no memory and is not
/// counted.
#[test]
fn what_is_behind_the_end_is_not_read() {
    const ASKED: u32 = 1 << 20;
    let (mut world, mut osts) = scene();
    osts.objects.insert(0, vec![7; 100]);
    for hits in [0, 100] {
        let read = world.read(0, ASKED);
        osts.serve(&mut world);
        assert_eq!(read.outcome().unwrap().0, [7; 100]);
        let counts = world.client.cache_counts();
        assert_eq!((counts.misses, counts.hits), (100, hits));
        assert!(counts.cached <= 4096, "{}", counts.cached);
    }
    let rest = world.read(100, ASKED);
    osts.serve(&mut world);
    assert_eq!(rest.outcome().unwrap().0, []);
    assert_eq!(world.client.cache_counts().hits, 100);
}

/// Another program writes while it waits, to all that it waits for or to some of it.
#[test]
fn a_read_has_all_of_a_write_or_nothing_of_it() {
    let tunables = CacheTunables { max_read_ahead: 0, ..CACHE };
    for end in [8_000, 20_000] {
        let (mut world, mut osts) = (World::caching(tunables), Osts::default());
        osts.objects.insert(0, vec![b'o'; 10_000]);
        let written = world.write(0, b"o");
        osts.serve(&mut world);
        assert_eq!(written.outcome(), Ok(()));
        let first = world.read(0, 100);
        osts.serve(&mut world);
        assert_eq!(first.outcome().unwrap().0, [b'o'; 100]);
        let read = world.read(0, 10_000);
        let asked = world.next(Kind::OstRead);
        assert_eq!(world.write(100, &vec![b'n'; end - 100]).outcome(), Ok(()));
        osts.answer(&mut world, &asked);
        let mut expected = vec![b'o'; 10_000];
        expected[100..end.min(10_000)].fill(b'n');
        assert_eq!(read.outcome().unwrap().0, expected);
    }
}
