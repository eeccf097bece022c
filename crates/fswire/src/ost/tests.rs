use proptest::prelude::*;

use super::*;

fn niobuf(offset: u64, len: u32) -> Niobuf {
    Niobuf { offset, len, flags: NiobufFlags::WRITE }
}

/// [OST-6]
#[test]
fn checksums_are_found_by_their_flags() {
    let mut obdo = Obdo::default();
    assert_eq!(obdo.checksum(), None);
    obdo.flags = ObdoFlags::SHORT_IO;
    obdo.set_checksum(ChecksumKind::T10Ip4k, 77);
    assert_eq!(obdo.checksum(), Some((ChecksumKind::T10Ip4k, 77)));
    assert_eq!(obdo.flags.bits(), 0x40_6000);
    obdo.set_checksum(ChecksumKind::Crc32c, 78);
    assert_eq!(obdo.flags.bits(), 0x40_4000);
    obdo.valid.remove(MdValid::FLAGS);
    assert_eq!(obdo.checksum(), Some((ChecksumKind::Adler32, 78)));
}

/// [OST-4]
#[test]
fn niobufs_ascend() {
    let check = |niobufs: &[Niobuf], bufcnt| {
        check_niobufs(&IoObj { bufcnt, ..IoObj::default() }, &niobufs.into())
    };
    assert_eq!(check(&[niobuf(0, 10), niobuf(10, 5)], 2), Ok(15));
    assert_eq!(check(&[], 0), Err(NiobufError::BadCount { have: 0, wanted: 0 }));
    let bad = NiobufError::BadCount { have: 1, wanted: 1 << 30 };
    assert_eq!(check(&[niobuf(0, 1)], 1 << 30), Err(bad));
    assert_eq!(check(&[niobuf(0, 10), niobuf(9, 5)], 2), Err(NiobufError::Overlap(1)));
    assert_eq!(check(&[niobuf(0, 0)], 1), Err(NiobufError::BadRange(0)));
    assert_eq!(check(&[niobuf(i64::MAX as u64, 1)], 1), Err(NiobufError::BadRange(0)));
    assert_eq!(check(&[niobuf(u64::MAX, 2)], 1), Err(NiobufError::BadRange(0)));
}

/// [RPC-15]
#[test]
fn data_are_cut_at_pages_of_the_object() {
    let pieces = |bits, step, niobufs: &[Niobuf]| {
        let pieces = bulk_pieces(bits, step, &niobufs.into())?;
        Ok(pieces.iter().map(|p| (p.match_bits, p.start, p.len)).collect::<Vec<_>>())
    };
    assert_eq!(pieces(0x280, 4, &[niobuf(0, 65536)]), Ok(vec![(0x280, 0, 65536)]));
    let four: Vec<_> = (0..4).map(|i| (0x280 + i, i << 20, 1 << 20)).collect();
    assert_eq!(pieces(0x283, 4, &[niobuf(0, 4 << 20)]), Ok(four));
    // An unaligned start takes one fragment more.
    assert_eq!(
        pieces(0x281, 4, &[niobuf(100, 1 << 20)]),
        Ok(vec![(0x280, 0, (1 << 20) - 100), (0x281, (1 << 20) - 100, 100)])
    );
    let bad = BulkError::BadCount { named: 1, needed: 2 };
    assert_eq!(pieces(0x280, 4, &[niobuf(100, 1 << 20)]), Err(bad));
    assert_eq!(pieces(0x280, 3, &[]), Err(BulkError::BadStep));
    let step = |max_brw| IoObj { max_brw, ..IoObj::default() }.bulk_step();
    assert_eq!((step(0x3_0000), step(0), step(0x2_0000)), (Some(4), Some(1), None));
    assert_eq!(step(IoObj::SHORT_IO), Some(0x1_0000));
}

#[test]
fn keys_of_extents_are_read() {
    let key =
        FiemapKey { obdo: Obdo::default(), fiemap: Fiemap { count: 32, ..Fiemap::default() } };
    let bytes = key.to_bytes();
    assert_eq!(bytes.len(), 248);
    assert_eq!(FiemapKey::parse(&bytes), Some(key));
    assert_eq!(FiemapKey::parse(&bytes[..247]), None);
}

proptest! {
    #[test]
    fn pieces_cover_all_data(
        ranges in prop::collection::vec((0u64..20_000, 1u32..3_000_000), 1..6),
    ) {
        let mut at = 0;
        let niobufs: Vec<_> = ranges
            .iter()
            .map(|&(gap, len)| {
                let start = at + gap;
                at = start + u64::from(len);
                niobuf(start, len)
            })
            .collect();
        let total: u64 = niobufs.iter().map(|n| u64::from(n.len)).sum();
        for last in 0..64u64 {
            if let Ok(pieces) = bulk_pieces(0x1000 + last, 64, &niobufs.as_slice().into()) {
                prop_assert_eq!(pieces.len() as u64, last + 1);
                prop_assert_eq!(pieces.iter().map(|p| p.len).sum::<u64>(), total);
                prop_assert!(pieces.iter().all(|p| p.len <= 1 << 20));
            }
        }
    }

    #[test]
    fn any_bytes_are_an_obdo(bytes: [u8; 208]) {
        let obdo = Obdo::parse(&bytes).unwrap();
        prop_assert_eq!(Obdo::parse(&obdo.to_bytes()), Ok(obdo));
        let _ = (obdo.checksum(), obdo.parent());
    }
}
