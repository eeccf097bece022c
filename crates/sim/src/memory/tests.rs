//! Compares the memory with a model that stores all bytes.

use proptest::prelude::*;

use super::region::block_ends;
use super::*;

/// One vector per span.
#[derive(Default)]
struct Model {
    spans: Vec<Option<Vec<u8>>>,
}

impl Model {
    fn bytes(&self, place: Place) -> &[u8] {
        &self.spans[place.which].as_ref().unwrap()[place.from..][..place.len]
    }

    fn bytes_mut(&mut self, place: Place) -> &mut [u8] {
        &mut self.spans[place.which].as_mut().unwrap()[place.from..][..place.len]
    }

    fn ends(place: Place, which: Words) -> Vec<usize> {
        match which {
            Words::All => (0..place.len).step_by(8).collect(),
            Words::BlockEnds { block } => {
                block_ends(place.len as u32, block).map(|at| at as usize).collect()
            }
        }
    }

    fn fill(&mut self, place: Place, word: [u8; 8], which: Words) {
        for at in Model::ends(place, which) {
            self.bytes_mut(place)[at..at + 8].copy_from_slice(&word);
        }
    }

    fn check(&self, place: Place, word: [u8; 8], which: Words) -> Result<(), u32> {
        let bytes = self.bytes(place);
        let wrong = Model::ends(place, which).into_iter().find(|at| bytes[*at..*at + 8] != word);
        wrong.map_or(Ok(()), |at| Err(at as u32))
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    which: usize,
    from: usize,
    len: usize,
}

/// Places are chosen among the allocated spans when they are needed.
type Choice = (u16, u16, u16);

#[derive(Clone, Debug)]
enum Op {
    Alloc(u16),
    Free(u16),
    Write(Choice, u8),
    Copy(Choice, Choice),
    Fill(Choice, bool, Words),
    Check(Choice, bool, Words),
    Read(Choice),
    TakeAndPut(Choice, Choice, u16),
}

fn words() -> impl Strategy<Value = Words> {
    prop_oneof![
        2 => Just(Words::All),
        1 => Just(Words::BlockEnds { block: 64 }),
        2 => Just(Words::BlockEnds { block: 256 }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let place = || any::<Choice>();
    prop_oneof![
        2 => any::<u16>().prop_map(Op::Alloc),
        1 => any::<u16>().prop_map(Op::Free),
        4 => (place(), any::<u8>()).prop_map(|(place, byte)| Op::Write(place, byte)),
        3 => (place(), place()).prop_map(|(from, to)| Op::Copy(from, to)),
        5 => (place(), any::<bool>(), words())
            .prop_map(|(at, one, which)| Op::Fill(at, one, which)),
        5 => (place(), any::<bool>(), words())
            .prop_map(|(at, one, which)| Op::Check(at, one, which)),
        3 => place().prop_map(Op::Read),
        3 => (place(), place(), any::<u16>())
            .prop_map(|(from, to, cut)| Op::TakeAndPut(from, to, cut)),
    ]
}

/// A model, the memory, and the spans of both.
struct Both {
    model: Model,
    memory: RopeMemory,
    spans: Vec<Option<Span>>,
}

impl Both {
    fn new() -> Both {
        Both { model: Model::default(), memory: RopeMemory::new(1 << 30), spans: Vec::new() }
    }

    fn alloc(&mut self, len: u32) {
        self.spans.push(self.memory.alloc(len));
        self.model.spans.push(Some(vec![0xa5; len as usize]));
    }

    /// A part of an allocated span; often all of it, or whole words.
    fn place(&self, (which, from, len): Choice) -> Option<Place> {
        let alive: Vec<usize> =
            (0..self.spans.len()).filter(|at| self.spans[*at].is_some()).collect();
        let which = *alive.get(usize::from(which) % alive.len().max(1))?;
        let whole = self.spans[which]?.len as usize;
        let (from, len) = (usize::from(from), usize::from(len));
        if len % 4 == 0 {
            return Some(Place { which, from: 0, len: whole });
        }
        let from = from % (whole + 1);
        let from = if len % 4 == 1 { from } else { from / 8 * 8 };
        let rest = whole - from;
        Some(Place { which, from, len: len % (rest + 1) })
    }

    fn span(&self, place: Place) -> Span {
        self.spans[place.which].unwrap().part(place.from as u32, place.len as u32)
    }

    fn whole_words(&self, choice: Choice) -> Option<Place> {
        let place = self.place(choice)?;
        Some(Place { len: place.len / 8 * 8, ..place }).filter(|place| place.len != 0)
    }

    fn act(&mut self, op: &Op) -> Option<()> {
        let word =
            |one: &bool| if *one { *b"LUSTRINE" } else { [0xa5, 0xa5, 0xa5, 0xa5, 0, 1, 2, 3] };
        match op {
            Op::Alloc(len) => self.alloc(u32::from(len % 3000)),
            Op::Free(which) => {
                let place = self.place((*which, 0, 0))?;
                self.memory.free(self.spans[place.which].take()?);
                self.model.spans[place.which] = None;
            }
            Op::Write(at, byte) => {
                let mut place = self.place(*at)?;
                place.len = place.len.min(200);
                let bytes: Vec<u8> =
                    (0..place.len).map(|at| (at as u8).wrapping_mul(*byte)).collect();
                self.memory.write(self.span(place), &bytes);
                self.model.bytes_mut(place).copy_from_slice(&bytes);
            }
            Op::Copy(from, to) => {
                let (from, to) = self.pair(*from, *to)?;
                self.memory.copy(self.span(from), self.span(to));
                let bytes = self.model.bytes(from).to_vec();
                self.model.bytes_mut(to).copy_from_slice(&bytes);
            }
            Op::Fill(at, one, which) => {
                let place = self.whole_words(*at)?;
                self.memory.fill_words(self.span(place), word(one), *which);
                self.model.fill(place, word(one), *which);
            }
            Op::Check(at, one, which) => {
                let place = self.whole_words(*at)?;
                let found = self.memory.compare_words(self.span(place), word(one), *which);
                assert_eq!(found, self.model.check(place, word(one), *which));
            }
            Op::Read(at) => {
                let place = self.place(*at)?;
                self.compare(place);
            }
            Op::TakeAndPut(from, to, cut) => {
                let (from, to) = self.pair(*from, *to)?;
                let mut rope = self.memory.rope(self.span(from));
                let front = rope.split_to(u64::from(*cut) % (rope.len() + 1));
                let (first, second) = (front.len() as u32, rope.len() as u32);
                self.memory.put(self.span(to).part(first, second), &rope);
                self.memory.put(self.span(to).part(0, first), &front);
                let bytes = self.model.bytes(from).to_vec();
                self.model.bytes_mut(to).copy_from_slice(&bytes);
            }
        }
        Some(())
    }

    /// Two places of the same length in different spans.
    fn pair(&self, from: Choice, to: Choice) -> Option<(Place, Place)> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        let len = from.len.min(to.len);
        (from.which != to.which).then_some((Place { len, ..from }, Place { len, ..to }))
    }

    fn compare(&self, place: Place) {
        let mut found = vec![0; place.len];
        self.memory.read(self.span(place), &mut found);
        assert_eq!(found, self.model.bytes(place), "{place:?}");
        let rope = self.memory.rope(self.span(place));
        let mut copy = vec![0; place.len];
        rope.read(&mut copy);
        assert_eq!(copy, found);
        assert_eq!(rope.digest(), Rope::from_bytes(&found).digest());
        assert_eq!(self.memory.digest(self.span(place)), Some(rope.digest()));
        assert!(self.memory.holds(self.span(place), &rope));
        if let Some(last) = found.last_mut() {
            *last ^= 1;
            assert!(!self.memory.holds(self.span(place), &Rope::from_bytes(&found)));
        }
    }

    fn compare_all(&self) {
        for (which, span) in self.spans.iter().enumerate() {
            if let Some(span) = span {
                self.compare(Place { which, from: 0, len: span.len as usize });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn it_behaves_like_memory_with_all_bytes(ops in prop::collection::vec(op(), 1..80)) {
        let mut both = Both::new();
        both.alloc(1000);
        both.alloc(640);
        for op in &ops {
            both.act(op);
        }
        both.compare_all();
        let alive = both.spans.iter().flatten().count();
        prop_assert_eq!(both.memory.usage().spans, alive);
    }
}

const PATTERN: [u8; 8] = *b"LUSTRINE";
const POISON: [u8; 8] = *b"poisoned";
const SIMPLE: Words = Words::BlockEnds { block: 64 << 10 };

#[test]
fn a_read_of_a_mebibyte_is_always_one_part() {
    let mut memory = RopeMemory::new(1 << 30);
    let (source, sink) = (memory.alloc((1 << 20) + 4096).unwrap(), memory.alloc(1 << 20).unwrap());
    memory.fill_words(source, PATTERN, Words::All);
    for _ in 0..3 {
        memory.fill_words(sink, POISON, SIMPLE);
        assert_eq!(memory.compare_words(sink, PATTERN, SIMPLE), Err(0));
        memory.copy(source.part(24, 1 << 20), sink);
        assert_eq!(memory.compare_words(sink, PATTERN, SIMPLE), Ok(()));
        assert_eq!(memory.compare_words(sink, PATTERN, Words::All), Ok(()));
        assert_eq!(memory.region(sink).parts(), 1);
    }
}

#[test]
fn data_that_arrives_in_pieces_becomes_one_part() {
    let mut memory = RopeMemory::new(1 << 30);
    let (source, sink) = (memory.alloc(1 << 20).unwrap(), memory.alloc(1 << 20).unwrap());
    memory.fill_words(source, PATTERN, Words::All);
    memory.fill_words(sink, POISON, SIMPLE);
    let mut stream = memory.rope(source);
    let mut at = 0;
    while !stream.is_empty() {
        let piece = stream.split_to(1448.min(stream.len()));
        let len = piece.len() as u32;
        memory.put(sink.part(at, len), &piece);
        at += len;
    }
    assert_eq!(memory.compare_words(sink, PATTERN, Words::All), Ok(()));
    assert_eq!(memory.region(sink).parts(), 1);
}

#[test]
fn messages_in_cells_and_in_a_row_are_kept_together() {
    let mut memory = RopeMemory::new(1 << 30);
    for stride in [192, 160] {
        let block = memory.alloc(16_320).unwrap();
        for cell in 0..16_320 / stride {
            memory.write(block.part(cell * stride, 160), &[7; 160]);
        }
        assert!(memory.region(block).parts() < 12, "{}", memory.region(block).parts());
    }
}

#[test]
fn the_limit_holds_and_usage_is_counted() {
    let mut memory = RopeMemory::new(100);
    let span = memory.alloc(60).unwrap();
    assert!(memory.alloc(41).is_none());
    let other = memory.alloc(40).unwrap();
    assert_eq!(memory.usage(), Usage { spans: 2, bytes: 100, bytes_max: 100 });
    memory.free(span);
    memory.free(other);
    assert_eq!(memory.usage(), Usage { spans: 0, bytes: 0, bytes_max: 100 });
}

#[test]
fn a_read_of_unwritten_memory_is_noticed() {
    let mut memory = RopeMemory::new(1 << 20);
    let span = memory.alloc(64).unwrap();
    memory.write(span.part(8, 8), &[0; 8]);
    let mut out = [0; 24];
    memory.read(span, &mut out);
    assert_eq!(out[..8], [0xa5; 8]);
    assert_eq!(out[16..], [0xa5; 8]);
}

#[test]
#[should_panic(expected = "allocated")]
fn a_freed_span_cannot_be_read_even_after_others_were_made() {
    let mut memory = RopeMemory::new(1 << 20);
    let span = memory.alloc(8).unwrap();
    memory.free(span);
    assert_eq!(memory.digest(span), None);
    let _other = memory.alloc(8).unwrap();
    memory.read(span, &mut [0; 8]);
}

#[test]
#[should_panic(expected = "twice")]
fn a_span_is_freed_once() {
    let mut memory = RopeMemory::new(1 << 20);
    let span = memory.alloc(8).unwrap();
    memory.free(span);
    memory.free(span);
}

#[test]
#[should_panic(expected = "not inside")]
fn nothing_is_written_beyond_the_end() {
    let mut memory = RopeMemory::new(1 << 20);
    let span = memory.alloc(8).unwrap();
    memory.write(Span { len: 16, ..span }, &[0; 16]);
}

#[test]
fn words_are_checked_where_they_were_filled() {
    let mut memory = RopeMemory::new(1 << 20);
    let span = memory.alloc(5000).unwrap();
    let ends = Words::BlockEnds { block: 4096 };
    memory.fill_words(span, PATTERN, ends);
    assert_eq!(memory.compare_words(span, PATTERN, ends), Ok(()));
    assert_eq!(memory.compare_words(span, PATTERN, Words::All), Err(8));
    memory.write(span.part(4088, 8), b"differs!");
    assert_eq!(memory.compare_words(span, PATTERN, ends), Err(4088));
    memory.fill_words(span, PATTERN, Words::All);
    assert_eq!(memory.compare_words(span, PATTERN, Words::All), Ok(()));
}
