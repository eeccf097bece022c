use lustrine_lnet::memory::VecMemory;
use lustrine_wire::srpc::BrwCheck;

use super::*;

const LEN: u32 = 160 * 1024 + 24;

/// Writes `word` where a writer with this page size does, for check `simple`, with its data
/// beginning at `offset` of a page.
fn write_simple(memory: &mut VecMemory, span: Span, page: u32, word: [u8; 8]) {
    let mut at = 0;
    while at < span.len {
        let end = (at + page).min(span.len);
        memory.write(span.part(at, 8), &word);
        memory.write(span.part(end - 8, 8), &word);
        at = end;
    }
}

fn memory() -> (VecMemory, Span) {
    let mut memory = VecMemory::default();
    let span = memory.alloc(LEN).unwrap();
    (memory, span)
}

#[test]
fn the_word_of_a_little_endian_writer_is_that_of_the_captures() {
    // c01: data begin with b3 ee b2 ee b1 ee b0 ee.
    assert_eq!(word(ByteOrder::Little), [0xb3, 0xee, 0xb2, 0xee, 0xb1, 0xee, 0xb0, 0xee]);
    assert_eq!(word(ByteOrder::Big), [0xee, 0xb0, 0xee, 0xb1, 0xee, 0xb2, 0xee, 0xb3]);
}

#[test]
fn simple_agrees_with_writers_of_every_page_size() {
    for page in [4096, 8192, 16_384, 65_536] {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let (mut memory, span) = memory();
            poison(&mut memory, span, BrwCheck::Simple);
            assert!(verify(&memory, span, BrwCheck::Simple, order).is_err());
            write_simple(&mut memory, span, page, word(order));
            assert_eq!(verify(&memory, span, BrwCheck::Simple, order), Ok(()), "{page}");
        }
    }
}

#[test]
fn one_filled_buffer_satisfies_every_check() {
    let (mut memory, span) = memory();
    fill(&mut memory, span);
    for check in [BrwCheck::None, BrwCheck::Simple, BrwCheck::Full, BrwCheck::Discard] {
        assert_eq!(verify(&memory, span, check, ByteOrder::Little), Ok(()));
    }
    assert_eq!(verify(&memory, span, BrwCheck::Full, ByteOrder::Big), Err(0));
}

#[test]
fn full_finds_any_wrong_word_and_none_finds_nothing() {
    for at in [0, 8, 4088, 70_000, LEN - 8] {
        let (mut memory, span) = memory();
        fill(&mut memory, span);
        memory.write(span.part(at, 1), &[0]);
        assert_eq!(verify(&memory, span, BrwCheck::Full, ByteOrder::Little), Err(at / 8 * 8));
        assert_eq!(verify(&memory, span, BrwCheck::None, ByteOrder::Little), Ok(()));
    }
}

#[test]
fn data_that_never_came_are_noticed() {
    for check in [BrwCheck::Simple, BrwCheck::Full] {
        let (mut memory, span) = memory();
        fill(&mut memory, span);
        poison(&mut memory, span, check);
        assert_eq!(verify(&memory, span, check, ByteOrder::Little), Err(0));
    }
}

#[test]
fn the_shortest_data_have_one_word_at_both_ends() {
    let mut memory = VecMemory::default();
    let span = memory.alloc(8).unwrap();
    poison(&mut memory, span, BrwCheck::Simple);
    assert!(verify(&memory, span, BrwCheck::Simple, ByteOrder::Little).is_err());
    fill(&mut memory, span);
    assert_eq!(verify(&memory, span, BrwCheck::Simple, ByteOrder::Little), Ok(()));
}
