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
        assert_eq!(pages.gather(std::slice::from_ref(part)).concat(), found[range]);
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
    let all: Vec<u8> = present
        .iter()
        .flat_map(|part| &found[part.start as usize..part.end as usize])
        .copied()
        .collect();
    assert_eq!(pages.gather(&present).concat(), all);
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
                    // As when a program has written some of it meanwhile.
                    let (from, wanted) = match byte % 4 {
                        0 => (at + len / 3, len / 2),
                        _ => (at, len),
                    };
                    pages.fill(&range(at, len), &bytes(at, sent, byte), &range(from, wanted));
                    for (place, known) in model.iter_mut().enumerate().skip(from).take(wanted) {
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
                Step::Evict(number, goes) => {
                    let chunk = |number: u64| {
                        let from = number as usize * CHUNK_LEN as usize;
                        from..(from + CHUNK_LEN as usize).min(LEN)
                    };
                    let is_dirty = |byte: &Byte| matches!(byte, Byte::Dirty(_));
                    prop_assert_eq!(
                        pages.is_dirty(number),
                        model[chunk(number)].iter().any(is_dirty)
                    );
                    if pages.is_dirty(number) || !pages.has_chunk(number) {
                        continue;
                    }
                    let with = match pages.piece_of(number) {
                        Some(piece) => pages.chunks_in(piece),
                        None => vec![number],
                    };
                    let before = pages.memory();
                    let gone = pages.evict(number, |other| goes && other % 2 == 0);
                    prop_assert!(gone.contains(&number) && pages.memory() < before);
                    for other in with {
                        let is_clean = !model[chunk(other)].iter().any(is_dirty);
                        let is_gone = other == number || goes && other % 2 == 0 && is_clean;
                        prop_assert_eq!(gone.contains(&other), is_gone);
                        prop_assert_eq!(pages.piece_of(other), None);
                        if is_gone {
                            model[chunk(other)].fill(Byte::Absent);
                        }
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
    pages.fill(&place, &page, &place);
    assert_eq!(pages.memory(), 24 << 10);
    assert_eq!(pages.whole(&place), Some(page));
    assert_eq!(pages.whole(&(60 << 10..(60 << 10) + 5)).as_deref(), Some(&b"hello"[..]));
    pages.write(0, &Bytes::from_static(b"x"));
    assert_eq!(pages.memory(), 64 << 10);
    pages.forget(0..CHUNK_LEN);
    assert_eq!(pages.memory(), 0);
}

/// A megabyte that came with one answer is kept where it is, and who reads it gets it from there.
/// When a chunk of it has to go, the others are copied, unless they go too.
#[test]
fn what_came_together_is_not_copied() {
    let (mut pages, whole) = (Pages::default(), 0..1 << 20);
    let sent = bytes(0, 1 << 20, 3);
    pages.fill(&whole, &sent, &whole);
    let read = pages.whole(&(64 << 10..512 << 10)).expect("it is present");
    assert_eq!(read.as_ptr(), sent[64 << 10..].as_ptr());
    let [gathered] = &pages.gather(&[0..128 << 10, 128 << 10..256 << 10])[..1] else { panic!() };
    assert_eq!(gathered.as_ptr(), sent.as_ptr());
    // A few bytes are copied: who keeps them does not keep all.
    let few = pages.whole(&(0..4096)).expect("it is present");
    assert_ne!(few.as_ptr(), sent.as_ptr());
    assert_eq!(pages.evict(2, |number| number < 13), (0..13).collect::<Vec<_>>());
    assert_eq!(pages.memory(), 3 * CHUNK_LEN);
    let rest = pages.whole(&(13 * CHUNK_LEN..1 << 20)).expect("it is present");
    assert_eq!(rest, sent[13 * CHUNK_LEN as usize..]);
    drop((read, gathered.clone()));
    assert_eq!(few, sent[..4096]);
}

/// One that is written over chunk by chunk gives its memory back when less than a quarter is left.
#[test]
fn what_is_replaced_does_not_keep_its_memory() {
    let (mut pages, whole) = (Pages::default(), 0..1 << 20);
    pages.fill(&whole, &bytes(0, 1 << 20, 3), &whole);
    for number in 0..13 {
        assert_eq!(pages.memory(), (1 << 20) + number * CHUNK_LEN);
        pages.write(number * CHUNK_LEN + 5, &Bytes::from_static(b"x"));
    }
    assert_eq!(pages.memory(), 1 << 20);
}

/// Bytes of which a part is not needed take as much memory as all of them, so they are copied.
#[test]
fn a_part_of_what_came_does_not_keep_the_rest() {
    let (mut pages, whole) = (Pages::default(), 0..1 << 20);
    pages.write(128 << 10, &Bytes::from(vec![1; 512 << 10]));
    assert_eq!(pages.memory(), 512 << 10);
    pages.fill(&whole, &bytes(0, 1 << 20, 3), &whole);
    assert_eq!(pages.memory(), 1 << 20);
    // So are those that have few whole chunks.
    let mut pages = Pages::default();
    pages.write(4096, &Bytes::from(vec![1; 128 << 10]));
    assert_eq!(pages.memory(), 128 << 10);
}
