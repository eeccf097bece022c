use proptest::prelude::*;

use super::*;
use crate::fid::Fid;

fn hex(rows: &[&str]) -> Vec<u8> {
    let digits: String = rows.concat().split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Two stripes of 1 MiB.
fn plain() -> Vec<u8> {
    hex(&[
        "d00bd10b01000000 0500000000000000 0204000002000000 0000100002000000",
        "0104008002000000 f301000000000000 0000000000000000 020400c002000000",
        "8800000000000000 0000000001000000",
    ])
}

/// Up to 64 MiB one stripe, beyond four that do not exist yet.
fn composite() -> Vec<u8> {
    hex(&[
        "d00bd60bf0000000 0300000000000200 0000000000000000 0000000000000000",
        "0100000010000000 0000000000000000 0000000400000000 8000000038000000",
        "0000000000000000 0000000000000000 0200000000000000 0000000400000000",
        "ffffffffffffffff b800000038000000 0000000000000000 0000000000000000",
        "d00bd10b01000000 0500000000000000 0204000002000000 0000100001000000",
        "0104008002000000 f301000000000000 0000000000000000 d00bd10b01000000",
        "0500000000000000 0204000002000000 000010000400ffff 0000000000000000",
        "0000000000000000 00000000ffffffff",
    ])
}

fn again(layout: &Layout<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    layout.write(&mut Writer::new(&mut out));
    out
}

/// [LAYOUT-2]
#[test]
fn a_plain_layout_is_read() {
    let bytes = plain();
    let layout = Layout::parse(&bytes).unwrap();
    let Layout::Plain(plain) = layout else { panic!("{layout:?}") };
    assert_eq!(plain.owner(), Fid::new(0x2_0000_0402, 5));
    assert_eq!((plain.header.stripe_size, plain.header.stripe_count), (1 << 20, 2));
    let second = LovObject { oi: Fid::new(0x2_c000_0402, 0x88), generation: 0, index: 1 };
    assert_eq!(plain.objects.get(1), Some(second));
    assert_eq!(layout.validate(), Ok(()));
    assert_eq!((again(&layout), layout.generation()), (bytes, Some(0)));
}

/// [LAYOUT-4]
#[test]
fn a_composite_layout_is_read() {
    let bytes = composite();
    let layout = Layout::parse(&bytes).unwrap();
    assert_eq!((layout.validate(), layout.generation()), (Ok(()), Some(3)));
    assert_eq!(again(&layout), bytes);
    let Layout::Composite(composite) = layout else { panic!("{layout:?}") };
    let first = composite.at(0, (64 << 20) - 1).unwrap();
    assert!(first.entry.flags.contains(EntryFlags::INIT));
    let second = composite.at(0, 64 << 20).unwrap().layout.unwrap();
    assert_eq!((second.header.stripe_count, second.header.generation), (4, 0xffff));
    assert!(!second.objects.get(0).unwrap().exists());
    assert!(composite.at(1, 0).is_none());
    let parts: Vec<_> =
        composite.components().map(|part| (part.entry, part.layout.unwrap())).collect();
    let mut built = Vec::new();
    CompositeLayout::build(&composite.header, &parts, &mut Writer::new(&mut built));
    assert_eq!(built, bytes);
}

/// [LAYOUT-7]
#[test]
fn hostile_layouts_are_named_errors() {
    let mut bytes = plain();
    bytes[24..28].fill(0);
    assert_eq!(Layout::parse(&bytes).unwrap().validate(), Err(LayoutFault::StripeSize(0)));
    bytes[24..28].copy_from_slice(&[1, 0, 1, 0]);
    assert_eq!(Layout::parse(&bytes).unwrap().validate(), Err(LayoutFault::StripeSize(65537)));
    bytes = plain();
    bytes[28..30].fill(0xff);
    assert_eq!(Layout::parse(&bytes).unwrap().validate(), Err(LayoutFault::StripeCount(0xffff)));
    bytes[28..30].copy_from_slice(&[3, 0]);
    let few = LayoutFault::Objects { objects: 2, stripes: 3 };
    assert_eq!(Layout::parse(&bytes).unwrap().validate(), Err(few));
    bytes[28..30].fill(0);
    assert_eq!(Layout::parse(&bytes).unwrap().validate(), Err(LayoutFault::StripeCount(0)));
    bytes = plain();
    bytes[7] = 0x80;
    assert_eq!(Layout::parse(&bytes).unwrap().validate(), Err(LayoutFault::Released));
    bytes[4..8].copy_from_slice(&[4, 0, 0, 0]);
    assert_eq!(Layout::parse(&bytes).unwrap().validate(), Err(LayoutFault::Pattern(Pattern(4))));
    assert_eq!(Layout::parse(&[0; 64]), Err(LayoutError::BadMagic(0)));
    assert!(matches!(Layout::parse(&plain()[..20]), Err(LayoutError::Short(_))));
    // A million objects are no more than the buffer holds.
    assert_eq!(
        Layout::parse(&composite()[..200]),
        Err(LayoutError::BadSize { wanted: 240, have: 200 })
    );
}

#[test]
fn components_outside_are_named_errors() {
    let with = |at: usize, value: &[u8]| {
        let mut bytes = composite();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let parse = |bytes: &[u8]| Layout::parse(bytes).map(|_| ()).unwrap_err();
    assert_eq!(parse(&with(14, &[0])), LayoutError::BadCount(0));
    assert_eq!(parse(&with(14, &[0xff, 0xff])), LayoutError::BadCount(0xffff));
    assert_eq!(parse(&with(56, &[8])), LayoutError::ComponentOutside(0));
    assert_eq!(parse(&with(56, &[0xff; 4])), LayoutError::ComponentOutside(0));
    assert_eq!(parse(&with(60, &[0xff; 4])), LayoutError::ComponentOutside(0));
    let magic = LayoutError::ComponentMagic { index: 1, magic: 0x0bd1_0b00 };
    assert_eq!(parse(&with(184, &[0])), magic);
    let validate = |bytes: &[u8]| Layout::parse(bytes).unwrap().validate().unwrap_err();
    assert_eq!(validate(&with(40, &[0, 0, 0, 8])), LayoutFault::EmptyComponent(0));
    assert_eq!(validate(&with(88, &[0, 0, 0, 3])), LayoutFault::Order(1));
}

/// The examples of [LAYOUT-6].
#[test]
fn the_arithmetic_of_stripes() {
    let mib = 1 << 20;
    let striping = Striping::new(1 << 20, 2).unwrap();
    assert_eq!((striping.stripe_of(4 * mib), striping.object_offset(4 * mib)), (0, 2 * mib));
    assert_eq!((striping.stripe_of(5 * mib), striping.object_offset(5 * mib)), (1, 2 * mib));
    assert_eq!(striping.file_size(0, 3 * mib / 2), Some(5 * mib / 2));
    assert_eq!(striping.file_size(1, mib), Some(2 * mib));
    assert_eq!(striping.file_size(1, 0), Some(0));
    assert_eq!(striping.object_range(1, 0, mib - 1), None);
    assert_eq!(striping.object_range(1, 0, mib), Some((0, 0)));
    assert_eq!(striping.object_range(0, mib, u64::MAX), Some((mib, u64::MAX)));
    assert_eq!((Striping::new(0, 2), Striping::new(65536, 0)), (None, None));
    assert_eq!(striping.file_size(0, u64::MAX), None);
}

/// [LAYOUT-9]
#[test]
fn layouts_of_directories() {
    let header = LmvHeader {
        magic: magic::LMV,
        count: 2,
        hash: HashWord { kind: HashKind::FNV_1A_64, flags: HashFlags::FIXED },
        ..LmvHeader::default()
    };
    let stripes = [Fid::new(0x2_0000_0402, 1), Fid::new(0x2_4000_0402, 1)];
    let layout = Layout::Lmv(LmvLayout { header, stripes: stripes.as_slice().into() });
    let bytes = again(&layout);
    assert_eq!((bytes.len(), Layout::parse(&bytes)), (56 + 32, Ok(layout)));
    assert_eq!(bytes[12..16], [2, 0, 0, 2]);
    assert_eq!(header.hash.to_string(), "fnv_1a_64|FIXED");
    let header = LmvUser { magic: magic::LMV_USER, count: -1, mdt: -1, ..LmvUser::default() };
    let layout = Layout::LmvUser(LmvUserLayout { header, rest: &[0; 8] });
    let bytes = again(&layout);
    assert_eq!((bytes.len(), Layout::parse(&bytes)), (56, Ok(layout)));
}

/// [LAYOUT-8]
#[test]
fn unused_room_is_no_layout() {
    assert_eq!(Ea::NONE.layout(), Ok(None));
    assert_eq!(Ea(&[0; 128]).layout(), Ok(None));
    let room = [composite(), vec![0; 40]].concat();
    let Ok(Some(layout)) = Ea(&room).layout() else { panic!() };
    assert_eq!(again(&layout), composite());
}

proptest! {
    #[test]
    fn any_bytes_are_a_layout_or_an_error(
        first in prop::sample::select(vec![
            magic::V1, magic::V3, magic::SPECIFIC, magic::COMPOSITE, magic::FOREIGN, magic::LMV,
            magic::LMV_USER, 0,
        ]),
        mut bytes in prop::collection::vec(any::<u8>(), 4..400),
        size: bool,
    ) {
        bytes[..4].copy_from_slice(&first.to_le_bytes());
        if size && bytes.len() >= 16 {
            let len = (bytes.len() as u32).to_le_bytes();
            bytes[4..8].copy_from_slice(&len);
            bytes[14..16].copy_from_slice(&[2, 0]);
        }
        if let Ok(layout) = Layout::parse(&bytes) {
            let _ = (layout.validate(), layout.describe());
            let written = again(&layout);
            prop_assert_eq!(Layout::parse(&written), Ok(layout));
        }
    }

    /// What is changed in a real layout is read, or an error.
    #[test]
    fn changed_layouts_do_not_panic(
        changes in prop::collection::vec((0usize..240, any::<u8>()), 1..9),
    ) {
        let mut bytes = composite();
        changes.into_iter().for_each(|(at, value)| bytes[at] = value);
        if let Ok(layout) = Layout::parse(&bytes) {
            let _ = (layout.validate(), layout.describe());
        }
    }

    /// Every byte is on one object, in order, and sizes of objects give that of the file.
    #[test]
    fn stripes_hold_every_byte_once(
        size in 1u32..40, count in 1u16..6, first in 0u64..1000, len in 1u64..400,
    ) {
        let striping = Striping::new(size, count).unwrap();
        let last = first + len - 1;
        let mut total = 0;
        for stripe in 0..count {
            let bytes: Vec<u64> = (first..=last)
                .filter(|&at| striping.stripe_of(at) == stripe)
                .map(|at| striping.object_offset(at))
                .collect();
            prop_assert!(bytes.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            let range = bytes.first().map(|&start| (start, *bytes.last().unwrap()));
            prop_assert_eq!(striping.object_range(stripe, first, last), range);
            total += bytes.len() as u64;
        }
        prop_assert_eq!(total, len);
        let stripe = striping.stripe_of(last);
        let object = striping.object_offset(last) + 1;
        prop_assert_eq!(striping.file_size(stripe, object), Some(last + 1));
    }
}
