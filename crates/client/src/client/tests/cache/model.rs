//! Any sequence of operations, of this client and of others, against an array of bytes.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, u8),
    Append(usize, u8),
    Read(usize, usize),
    Fsync,
    CallBack(u32),
    /// Somebody else writes, after the locks are called back.
    Other(usize, usize, u8),
    Pass(u64),
    Size,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0usize..400_000;
    let len = prop_oneof![1usize..200, 1usize..150_000];
    (at, len, proptest::arbitrary::any::<u8>(), 0..10).prop_map(
        |(at, len, byte, kind)| match kind {
            0..=2 => Step::Write(at, len, byte),
            3 => Step::Append(len, byte),
            4..=5 => Step::Read(at, len),
            6 => Step::Fsync,
            7 => Step::CallBack(u32::from(byte) % 2),
            8 if byte % 2 == 0 => Step::Other(at, len, byte),
            8 => Step::Pass(u64::from(byte) % 10),
            _ => Step::Size,
        },
    )
}

fn put(model: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    model.resize(model.len().max(at + bytes.len()), 0);
    model[at..at + bytes.len()].copy_from_slice(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    /// Whatever is written, read and called back: a program reads what a plain file would have, and
    /// so does everybody else once it is asked back.
    #[test]
    fn it_is_a_file(
        steps in prop::collection::vec(step(), 1..40),
        small in proptest::arbitrary::any::<bool>(),
        grows in prop::option::of(0u64..100_000),
    ) {
        let tunables = match small {
            true => CacheTunables { max_cached: 300_000, max_dirty: 120_000, ..CACHE },
            false => CACHE,
        };
        let (mut world, mut osts) = (World::caching(tunables), Osts { grows, ..Osts::default() });
        let mut model: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Write(at, len, byte) => {
                    let bytes = vec![byte; len];
                    let written = world.write(at as u64, &bytes);
                    osts.serve(&mut world);
                    prop_assert_eq!(written.outcome(), Ok(()));
                    put(&mut model, at, &bytes);
                }
                Step::Append(len, byte) => {
                    let bytes = vec![byte; len];
                    let appended = world.append(&bytes);
                    osts.serve(&mut world);
                    let end = model.len();
                    let offset = appended.outcome().map(|appended| appended.offset);
                    prop_assert_eq!(offset, Ok(end as u64));
                    put(&mut model, end, &bytes);
                }
                Step::Read(at, len) => {
                    let read = world.read(at as u64, len as u32);
                    osts.serve(&mut world);
                    let bytes = read.outcome().unwrap().0;
                    let expected = &model[at.min(model.len())..(at + len).min(model.len())];
                    prop_assert!(bytes == expected, "read {}..{}", at, at + len);
                }
                Step::Fsync => {
                    let synced = world.fsync();
                    osts.serve(&mut world);
                    prop_assert_eq!(synced.outcome(), Ok(()));
                    prop_assert!(osts.file() == model);
                }
                Step::CallBack(stripe) => {
                    osts.call_back(&mut world, stripe, LockFlags::empty());
                    osts.serve(&mut world);
                    prop_assert!(osts.locks.iter().all(|(_, _, of, _)| *of != stripe));
                }
                Step::Other(at, len, byte) => {
                    for stripe in [0, 1] {
                        osts.call_back(&mut world, stripe, LockFlags::empty());
                        osts.serve(&mut world);
                    }
                    prop_assert!(osts.file() == model);
                    let bytes = vec![byte; len];
                    put(&mut model, at, &bytes);
                    for piece in striped().pieces(at as u64, len as u64) {
                        let object = osts.objects.entry(piece.stripe.into()).or_default();
                        put(object, piece.object_offset as usize, &bytes[..piece.len as usize]);
                    }
                }
                Step::Pass(seconds) => {
                    world.pass(Nanos::from_secs(seconds));
                    osts.serve(&mut world);
                }
                Step::Size => {
                    let size = world.size();
                    osts.serve(&mut world);
                    prop_assert_eq!(size.outcome().unwrap().0, model.len() as u64);
                }
            }
            let counts = world.client.cache_counts();
            prop_assert!(counts.cached <= tunables.max_cached + tunables.max_dirty + 400_000);
            prop_assert_eq!(counts.lost, 0);
        }
        let flushed = world.start(|client, turn, done| client.flush_all(turn, done));
        osts.serve(&mut world);
        prop_assert_eq!(flushed.outcome(), Ok(()));
        prop_assert!(osts.file() == model);
    }
}
