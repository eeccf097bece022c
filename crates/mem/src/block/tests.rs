use super::Block;

fn block(region: u32, offset: u32, len: u32) -> Block {
    Block { region, offset, len }
}

#[test]
fn a_part_is_counted_from_the_start_of_its_block() {
    assert_eq!(block(3, 128, 64).part(16, 8), block(3, 144, 8));
    assert_eq!(block(3, 128, 64).part(64, 0), block(3, 192, 0));
}

#[test]
#[should_panic(expected = "are not inside")]
fn a_part_may_not_reach_past_its_block() {
    block(0, 0, 64).part(60, 5);
}

#[test]
#[should_panic(expected = "are not inside")]
fn a_part_whose_end_does_not_fit_in_32_bits_is_refused() {
    block(0, 0, 64).part(u32::MAX, 2);
}

#[test]
fn overlap_needs_a_common_byte() {
    let b = block(1, 100, 50);
    assert!(b.overlaps(b));
    assert!(b.overlaps(block(1, 149, 1)) && block(1, 149, 1).overlaps(b));
    assert!(!b.overlaps(block(1, 150, 10)), "neighbours");
    assert!(!b.overlaps(block(2, 100, 50)), "another region");
    assert!(!b.overlaps(block(1, 120, 0)), "an empty block has no bytes");
    assert!(!block(1, 120, 0).overlaps(b));
    assert!(!block(0, u32::MAX, 4).overlaps(block(0, 0, 4)), "ends do not wrap around");
}
