//! The bytes of an object against an array.

use proptest::prelude::*;

use super::*;

const LEN: usize = 3 * CHUNK_LEN as usize;

/// What is known of each byte.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Byte {
    Absent,
    Clean(u8),
    Dirty(u8),
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, u8),
    Fill(usize, usize, usize, u8),
    Clean(usize, usize),
    Forget(usize, usize),
    Evict(u64),
}

fn step() -> impl Strategy<Value = Step> {
    // Both near the borders of chunks and anywhere.
    let at = prop_oneof![
        0..LEN,
        (0usize..4, 0usize..8).prop_map(|(chunk, beside)| {
            (chunk * CHUNK_LEN as usize + beside).saturating_sub(4).min(LEN - 1)
        })
    ];
    let len = prop_oneof![0usize..40, 0usize..2 * CHUNK_LEN as usize];
    (at, len, any::<u8>(), 0usize..100, 0..6).prop_map(|(at, len, byte, short, kind)| {
        let len = len.min(LEN - at);
        match kind {
            0 | 1 => Step::Write(at, len, byte),
            2 => Step::Fill(at, len, len * short / 100, byte),
            3 => Step::Clean(at, len),
            4 => Step::Forget(at, len),
            _ => Step::Evict((at as u64) / CHUNK_LEN),
        }
    })
}

fn range(at: usize, len: usize) -> Range<u64> {
    at as u64..(at + len) as u64
}

fn check(pages: &Pages, model: &[Byte], memory: u64) {
    let whole = 0..LEN as u64;
    let mut bytes = vec![0; LEN];
    let present = pages.read(&whole, &mut bytes);
    let mut dirty = vec![false; LEN];
    for part in pages.dirty(&whole) {
        dirty[part.start as usize..part.end as usize].fill(true);
    }
    let mut seen = vec![false; LEN];
    for part in &present {
        seen[part.start as usize..part.end as usize].fill(true);
        let known = &bytes[part.start as usize..part.end as usize];
        assert_eq!(pages.whole(part).as_deref(), Some(known));
        assert_eq!(pages.whole(&(part.start..part.end + 1)), None);
    }
    for at in 0..LEN {
        let found = match (seen[at], dirty[at]) {
            (false, false) => Byte::Absent,
            (true, false) => Byte::Clean(bytes[at]),
            (true, true) => Byte::Dirty(bytes[at]),
            (false, true) => panic!("byte {at} is dirty and not present"),
        };
        assert_eq!(found, model[at], "byte {at}");
    }
    let absent: u64 = pages.gaps(&whole).iter().map(|gap| gap.end - gap.start).sum();
    assert_eq!(absent, model.iter().filter(|byte| **byte == Byte::Absent).count() as u64);
    let held: u64 = pages.chunks.values().map(|chunk| chunk.bytes.capacity() as u64).sum();
    assert_eq!(held, memory, "the memory that was counted");
    let end = model.iter().rposition(|byte| matches!(byte, Byte::Dirty(_)));
    assert_eq!(pages.dirty_end(), end.map_or(0, |at| at as u64 + 1));
    assert_eq!(pages.dirty_len(), dirty.iter().filter(|dirty| **dirty).count() as u64);
    assert_eq!(pages.is_clean(), end.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn they_are_what_an_array_has(steps in prop::collection::vec(step(), 1..24)) {
        let mut pages = Pages::default();
        let mut model = vec![Byte::Absent; LEN];
        let mut memory = 0;
        for step in steps {
            match step {
                Step::Write(at, len, byte) => {
                    memory += pages.write(at as u64, &vec![byte; len]);
                    model[at..at + len].fill(Byte::Dirty(byte));
                }
                Step::Fill(at, len, sent, byte) => {
                    memory += pages.fill(&range(at, len), &vec![byte; sent]);
                    for (place, known) in model[at..at + len].iter_mut().enumerate() {
                        if *known == Byte::Absent {
                            *known = Byte::Clean(if place < sent { byte } else { 0 });
                        }
                    }
                }
                Step::Clean(at, len) => {
                    pages.clean(range(at, len));
                    for known in &mut model[at..at + len] {
                        if let Byte::Dirty(byte) = *known {
                            *known = Byte::Clean(byte);
                        }
                    }
                }
                Step::Forget(at, len) => {
                    memory -= pages.forget(range(at, len));
                    model[at..at + len].fill(Byte::Absent);
                }
                Step::Evict(number) => {
                    let from = number as usize * CHUNK_LEN as usize;
                    let part = &mut model[from..(from + CHUNK_LEN as usize).min(LEN)];
                    let stays = part.iter().any(|byte| matches!(byte, Byte::Dirty(_)));
                    let given = pages.evict(number);
                    prop_assert_eq!(given.is_none(), stays);
                    if let Some(given) = given {
                        memory -= given;
                        part.fill(Byte::Absent);
                    }
                }
            }
            check(&pages, &model, memory);
        }
    }
}

#[test]
fn a_small_file_takes_little_memory() {
    let mut pages = Pages::default();
    assert_eq!(pages.write(0, b"hello"), 4096);
    assert_eq!(pages.write(4094, b"hello"), 4096);
    assert_eq!(pages.dirty_around(&(5..6)), [0..5]);
    assert_eq!(pages.dirty_around(&(6..7)), []);
    assert_eq!(pages.chunks_within(0..9).collect::<Vec<_>>(), [0]);
    assert!(pages.has_chunk(0) && !pages.has_chunk(1));
}

#[test]
fn a_page_anywhere_takes_the_memory_of_a_page() {
    let mut pages = Pages::default();
    assert_eq!(pages.write(60 << 10, b"hello"), 4096);
    assert_eq!(pages.fill(&(40 << 10..41 << 10), &[7; 1 << 10]), 20 << 10);
    assert_eq!(pages.whole(&(40 << 10..41 << 10)), Some(vec![7; 1 << 10]));
    assert_eq!(pages.whole(&(60 << 10..(60 << 10) + 5)), Some(b"hello".to_vec()));
    assert_eq!(pages.write(0, b"x"), 40 << 10);
    assert_eq!(pages.forget(0..CHUNK_LEN), 64 << 10);
}
