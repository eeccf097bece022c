use super::{STRIPE, fill, first_difference};

const WORD: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn a_cut_repetition_is_filled_and_checked_too() {
    for len in 0..40 {
        let mut bytes = vec![0xff; len];
        fill(&mut bytes, WORD);
        for (i, &byte) in bytes.iter().enumerate() {
            assert_eq!(byte, WORD[i % 8], "byte {i} of {len}");
        }
        assert_eq!(first_difference(&bytes, WORD), None, "length {len}");
    }
}

#[test]
fn the_first_difference_is_found_at_any_position() {
    let len = 2 * STRIPE + 13;
    let mut bytes = vec![0; len];
    fill(&mut bytes, WORD);
    let step = if cfg!(miri) { 97 } else { 1 };
    for at in (0..len).step_by(step) {
        bytes[at] ^= 0x10;
        assert_eq!(first_difference(&bytes, WORD), Some(at));
        bytes[at] ^= 0x10;
    }
    bytes[7] = 0;
    bytes[STRIPE + 1] = 0;
    assert_eq!(first_difference(&bytes, WORD), Some(7), "the first of two");
}
