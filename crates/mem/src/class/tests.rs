use super::{BLOCK_LEN_MAX, CLASSES, Class, REGION_LEN, REGION_SIZES};

#[test]
fn lengths_get_the_smallest_class_that_holds_them() {
    let slot = |len| Class::for_len(len).map(Class::slot_len);
    assert_eq!(slot(0), Some(64));
    assert_eq!(slot(64), Some(64));
    assert_eq!(slot(65), Some(128));
    assert_eq!(slot(4096), Some(4096));
    assert_eq!(slot(4097), Some(8192));
    assert_eq!(slot(1 << 20), Some(1 << 20));
    assert_eq!(slot((1 << 20) + 1), Some(2 << 20));
    assert_eq!(slot((2 << 20) + 1), Some(4 << 20));
    assert_eq!(slot(BLOCK_LEN_MAX), Some(BLOCK_LEN_MAX));
    assert_eq!(slot(BLOCK_LEN_MAX + 1), None);
    assert_eq!(slot(u32::MAX), None);
}

#[test]
fn every_class_fills_its_regions_without_remainder_and_has_its_own_index() {
    let mut next = 0;
    let mut len = 0;
    while let Some(class) = Class::for_len(len) {
        assert_eq!(class.index(), next);
        assert!((1..=REGION_SIZES as u32).contains(&class.units()));
        assert_eq!(class.slots() * class.slot_len(), class.units() * REGION_LEN);
        assert!(class.slots() - 1 <= u32::from(u16::MAX), "a slot number fits 16 bits");
        len = class.slot_len() + 1;
        next += 1;
    }
    assert_eq!(next, CLASSES);
}
