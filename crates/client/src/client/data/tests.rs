//! Pieces and objects, and what is certain of a short answer.

use proptest::prelude::*;

use super::*;
use crate::client::transfer::io_object;
use crate::layout::{FileComponent, ObjectPlace, Place};
use lustrine_fswire::layout::Striping;

/// The bytes of a file, spread over the objects of a layout by `gather`.
fn spread(layout: &FileLayout, bytes: &Bytes, offset: u64) -> BTreeMap<(usize, u16), Vec<u8>> {
    let mut objects: BTreeMap<(usize, u16), Vec<u8>> = BTreeMap::new();
    for piece in layout.pieces(offset, bytes.len() as u64) {
        let object = objects.entry((piece.component, piece.stripe)).or_default();
        let end = (piece.object_offset + piece.len) as usize;
        object.resize(object.len().max(end), 0);
        let run = Run { pieces: vec![piece], object_offset: 0, len: piece.len };
        object[piece.object_offset as usize..end].copy_from_slice(&gather(&run, bytes, offset));
    }
    objects
}

proptest! {
    /// What is gathered from a range and scattered again is the range.
    #[test]
    fn data_come_back_as_they_were(
        size in 1u32..50,
        count in 1u16..5,
        split in 1u64..200,
        offset in 0u64..300,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let objects = |base: u32| -> Vec<ObjectPlace> {
            let oi = |stripe| Fid::new(1 << 33, base + stripe);
            let place = |stripe| ObjectPlace { oi: oi(stripe), ost: stripe };
            (0..u32::from(count)).map(place).collect()
        };
        let place = |base| Place::Objects {
            striping: Striping::new(size, count).expect("stripes"),
            objects: objects(base),
        };
        let layout = FileLayout {
            components: vec![
                FileComponent { start: 0, end: split, place: place(0) },
                FileComponent { start: split, end: u64::MAX, place: place(100) },
            ],
            generation: 1,
            mirrors: None,
        };
        let stored = spread(&layout, &Bytes::copy_from_slice(&bytes), offset);
        let mut back = vec![0; bytes.len()];
        for piece in layout.pieces(offset, bytes.len() as u64) {
            let object = &stored[&(piece.component, piece.stripe)];
            let start = piece.object_offset as usize;
            let run = Run { pieces: vec![piece], object_offset: 0, len: piece.len };
            scatter(&run, &object[start..start + piece.len as usize], offset, &mut back);
        }
        prop_assert_eq!(back, bytes);
    }
}

#[test]
fn zeros_at_the_end_are_not_certain() {
    assert_eq!((padding(b""), padding(b"a"), padding(b"a\0\0")), (0, 0, 2));
    assert_eq!((padding(&[0; 5000]), padding(&[0; 70_000])), (5000, PAGE_MAX));
}

#[test]
fn the_first_missing_byte_is_found() {
    let piece = |offset, len| Piece { component: 0, stripe: 0, offset, object_offset: offset, len };
    let run = Run { pieces: vec![piece(10, 4), piece(20, 4)], object_offset: 10, len: 8 };
    let behind = |len| run.first_behind(len);
    assert_eq!((behind(0), behind(3), behind(4)), (Some(10), Some(13), Some(20)));
    assert_eq!((behind(7), behind(8)), (Some(23), None));
}

#[test]
fn a_short_answer_leaves_a_hole() {
    let piece = |offset, len| Piece { component: 0, stripe: 0, offset, object_offset: offset, len };
    let run = Run { pieces: vec![piece(10, 4), piece(20, 4)], object_offset: 10, len: 8 };
    let mut data = Vec::new();
    scatter(&run, &[1; 3], 8, &mut data);
    assert_eq!(data, [0, 0, 1, 1, 1]);
    scatter(&run, &[2; 6], 8, &mut data);
    assert_eq!(data, [0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 2, 2]);
    data.resize(20, 9);
    scatter(&run, &[1; 5], 8, &mut data);
    assert_eq!(data[2..6], [1; 4]);
    assert_eq!(data[12..16], [1, 2, 9, 9]);
}

#[test]
fn the_step_of_match_bits_is_a_power_of_two() {
    let step = |object_offset, len| {
        let run = Run { pieces: Vec::new(), object_offset, len };
        io_object(Fid::ROOT, &[run.range()]).bulk_step()
    };
    assert_eq!(step(0, 1), Some(1));
    assert_eq!(step(0, 1 << 20), Some(1));
    assert_eq!(step(100, 1 << 20), Some(2));
    assert_eq!(step(0, 3 << 20), Some(4));
}
