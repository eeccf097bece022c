//! The bytes of an object against an array.

use proptest::prelude::*;

use super::*;

const LEN: usize = 5 * CHUNK_LEN as usize;

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
    Redirty(usize, usize),
    Forget(usize, usize),
    Evict(u64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    // Both near the borders of chunks and anywhere.
    let at = prop_oneof![
        0..LEN,
        (0usize..6, 0usize..8).prop_map(|(chunk, beside)| {
            (chunk * CHUNK_LEN as usize + beside).saturating_sub(4).min(LEN - 1)
        })
    ];
    let len = prop_oneof![0usize..40, 0usize..5 * CHUNK_LEN as usize];
    (at, len, any::<u8>(), 0usize..101, 0..8).prop_map(|(at, len, byte, short, kind)| {
        let len = len.min(LEN - at);
        match kind {
            0 | 1 => Step::Write(at, len, byte),
            2 => Step::Fill(at, len, len * short / 100, byte),
            3 => Step::Fill(at, len, len, byte),
            4 => Step::Clean(at, len),
            5 => Step::Redirty(at, len),
            6 => Step::Forget(at, len),
            _ => Step::Evict((at as u64) / CHUNK_LEN, byte & 1 == 0),
        }
    })
}

fn range(at: usize, len: usize) -> Range<u64> {
    at as u64..(at + len) as u64
}

/// Bytes for a place: each differs from its neighbours.
fn bytes(at: usize, len: usize, byte: u8) -> Bytes {
    (at..at + len).map(|place| value(place, byte)).collect()
}

fn value(place: usize, byte: u8) -> u8 {
    byte.wrapping_add((place % 251) as u8)
}

/// The memory of the chunks and of the pieces.
fn memory_of(pages: &Pages) -> u64 {
    let mut memory = 0;
    let mut shared: BTreeMap<PieceNumber, u64> = BTreeMap::new();
    for (number, chunk) in &pages.chunks {
        match chunk {
            Chunk::Own(chunk) => memory += chunk.memory(),
            Chunk::Shared(piece) => {
                *shared.entry(*piece).or_default() += 1;
                assert!(pages.pieces[piece].chunks.contains(number));
            }
        }
    }
    assert_eq!(shared.len(), pages.pieces.len());
    for (number, piece) in &pages.pieces {
        assert_eq!(piece.left, shared[number]);
        memory += piece.bytes.len() as u64;
    }
    memory
}

fn check(pages: &Pages, model: &[Byte]) {
    let whole = 0..LEN as u64;
    let mut found = vec![0; LEN];
    let present = pages.present(&whole);
    let mut dirty = vec![false; LEN];
    for part in pages.dirty(&whole) {
        dirty[part.start as usize..part.end as usize].fill(true);
    }
    let mut seen = vec![false; LEN];
    for part in &present {
        let range = part.start as usize..part.end as usize;
        seen[range.clone()].fill(true);
        found[range.clone()].copy_from_slice(&pages.whole(part).expect("all of it is present"));
        let mut known = Vec::new();
        pages.append_to(part, &mut known);
        assert_eq!(known, found[range]);
        assert_eq!(pages.whole(&(part.start..part.end + 1)), None);
    }
    for at in 0..LEN {
        let found = match (seen[at], dirty[at]) {
            (false, false) => Byte::Absent,
            (true, false) => Byte::Clean(found[at]),
            (true, true) => Byte::Dirty(found[at]),
            (false, true) => panic!("byte {at} is dirty and not present"),
        };
        assert_eq!(found, model[at], "byte {at}");
    }
    let absent: u64 = pages.gaps(&whole).iter().map(|gap| gap.end - gap.start).sum();
    assert_eq!(absent, model.iter().filter(|byte| **byte == Byte::Absent).count() as u64);
    assert_eq!(pages.memory(), memory_of(pages), "the memory that was counted");
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
        // Who reads keeps the bytes, whatever is written later.
        let mut read: Vec<(Bytes, Vec<u8>)> = Vec::new();
        for step in steps {
            match step {
                Step::Write(at, len, byte) => {
                    pages.write(at as u64, &bytes(at, len, byte));
                    for (place, known) in model.iter_mut().enumerate().skip(at).take(len) {
                        *known = Byte::Dirty(value(place, byte));
                    }
                }
                Step::Fill(at, len, sent, byte) => {
                    pages.fill(&range(at, len), &bytes(at, sent, byte));
                    for (place, known) in model.iter_mut().enumerate().skip(at).take(len) {
                        if *known == Byte::Absent {
                            let was_sent = place < at + sent;
                            *known = Byte::Clean(if was_sent { value(place, byte) } else { 0 });
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
                Step::Redirty(at, len) => {
                    pages.redirty(&range(at, len));
                    for known in &mut model[at..at + len] {
                        if let Byte::Clean(byte) = *known {
                            *known = Byte::Dirty(byte);
                        }
                    }
                }
                Step::Forget(at, len) => {
                    pages.forget(range(at, len));
                    model[at..at + len].fill(Byte::Absent);
                }
                Step::Evict(number, settles) => {
                    let from = number as usize * CHUNK_LEN as usize;
                    let part = &mut model[from..(from + CHUNK_LEN as usize).min(LEN)];
                    let stays = part.iter().any(|byte| matches!(byte, Byte::Dirty(_)));
                    let piece = pages.piece_of(number);
                    prop_assert_eq!(pages.evict(number), !stays);
                    if let Some(piece) = piece.filter(|_| settles) {
                        pages.settle(piece);
                        let few = |piece: &Piece| {
                            piece.left * 4 < piece.chunks.end - piece.chunks.start
                        };
                        prop_assert!(!pages.pieces.get(&piece).is_some_and(few));
                    }
                    if !stays {
                        part.fill(Byte::Absent);
                    }
                }
            }
            check(&pages, &model);
            for part in pages.present(&(0..LEN as u64)) {
                let known = pages.whole(&part).expect("all of it is present");
                read.push((known.clone(), known.to_vec()));
            }
        }
        for (kept, then) in read {
            prop_assert_eq!(kept, then);
        }
        pages.forget(0..LEN as u64);
        prop_assert_eq!(pages.memory(), 0);
    }
}

#[test]
fn a_small_file_takes_little_memory() {
    let mut pages = Pages::default();
    pages.write(0, &Bytes::from_static(b"hello"));
    assert_eq!(pages.memory(), 4096);
    pages.write(4094, &Bytes::from_static(b"hello"));
    assert_eq!(pages.memory(), 8192);
    assert_eq!(pages.dirty_around(&(5..6)), [0..5]);
    assert_eq!(pages.dirty_around(&(6..7)), []);
    assert_eq!(pages.chunks_within(0..9).collect::<Vec<_>>(), [0]);
    assert!(pages.has_chunk(0) && !pages.has_chunk(1));
}

#[test]
fn a_page_anywhere_takes_the_memory_of_a_page() {
    let mut pages = Pages::default();
    pages.write(60 << 10, &Bytes::from_static(b"hello"));
    assert_eq!(pages.memory(), 4096);
    let (page, place) = (Bytes::from(vec![7; 1 << 10]), 40 << 10..41 << 10);
    pages.fill(&place, &page);
    assert_eq!(pages.memory(), 24 << 10);
    assert_eq!(pages.whole(&place), Some(page));
    assert_eq!(pages.whole(&(60 << 10..(60 << 10) + 5)).as_deref(), Some(&b"hello"[..]));
    pages.write(0, &Bytes::from_static(b"x"));
    assert_eq!(pages.memory(), 64 << 10);
    pages.forget(0..CHUNK_LEN);
    assert_eq!(pages.memory(), 0);
}

/// A megabyte that came with one answer is kept where it is, and who reads it gets it from there.
/// When less than a quarter of it is needed, the rest is given back.
#[test]
fn what_came_together_is_not_copied() {
    let mut pages = Pages::default();
    let sent = bytes(0, 1 << 20, 3);
    pages.fill(&(0..1 << 20), &sent);
    let read = pages.whole(&(64 << 10..512 << 10)).expect("it is present");
    assert_eq!(read.as_ptr(), sent[64 << 10..].as_ptr());
    // A few bytes are copied: who keeps them does not keep all.
    let few = pages.whole(&(0..4096)).expect("it is present");
    assert_ne!(few.as_ptr(), sent.as_ptr());
    let piece = pages.piece_of(0).expect("it is not copied");
    for number in 0..12 {
        assert!(pages.evict(number));
        pages.settle(piece);
        assert_eq!(pages.memory(), 1 << 20);
    }
    assert!(pages.evict(12));
    pages.settle(piece);
    assert_eq!(pages.memory(), 3 * CHUNK_LEN);
    let rest = pages.whole(&(13 * CHUNK_LEN..1 << 20)).expect("it is present");
    assert_eq!(rest, sent[13 * CHUNK_LEN as usize..]);
    drop((read, rest));
    assert!(sent.is_unique());
}
