use super::*;

fn sum(kind: ChecksumKind, offset: u64, pieces: &[&[u8]]) -> u32 {
    let mut sum = Checksum::new(kind);
    sum.range(offset, pieces);
    sum.value()
}

/// [OST-8]
#[test]
fn known_values() {
    let data: &[u8] = b"123456789";
    assert_eq!(sum(ChecksumKind::Crc32, 0, &[data]), 0x340b_c6d9);
    assert_eq!(sum(ChecksumKind::Adler32, 0, &[data]), 0x091e_01de);
    assert_eq!(sum(ChecksumKind::Crc32c, 0, &[data]), 0xe306_9283);
    assert_eq!(crc32(data), 0x340b_c6d9);
    let page = [0x41; 4096];
    assert_eq!(sum(ChecksumKind::T10Ip4k, 0, &[&page]), 0x02e1_01eb);
}

#[test]
fn pieces_do_not_change_a_checksum() {
    let data: Vec<u8> = (0..20_000u32).map(|i| (i * 7 % 251) as u8).collect();
    for kind in ChecksumKind::ALL {
        let whole = sum(kind, 1000, &[&data]);
        for at in [0, 1, 7, 3096, 3097, 9999, 20_000] {
            let (a, b) = data.split_at(at);
            assert_eq!(sum(kind, 1000, &[a, b]), whole, "{kind:?} cut at {at}");
        }
        let thirds: Vec<&[u8]> = data.chunks(3).collect();
        assert_eq!(sum(kind, 1000, &thirds), whole, "{kind:?} in pieces of 3");
    }
}

/// Sectors are cut at multiples of their size in the object, so that the offset counts.
#[test]
fn the_offset_counts_for_sectors_only() {
    let data: Vec<u8> = (0..9000u32).map(|i| (i % 253) as u8).collect();
    for kind in ChecksumKind::ALL {
        let sectors = kind.number() >= 5;
        let same = sum(kind, 0, &[&data]) == sum(kind, 100, &[&data]);
        assert_eq!(same, !sectors, "{kind:?}");
    }
}

/// The Internet checksum by its definition, sector by sector.
#[test]
fn guards_of_internet_checksums() {
    let data: Vec<u8> = (0..1025u32).map(|i| (i * 31 % 256) as u8).collect();
    let guards: Vec<u8> = [&data[..412], &data[412..924], &data[924..]]
        .iter()
        .flat_map(|sector| {
            let mut total = 0u32;
            for word in sector.chunks(2) {
                total += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
            }
            while total >> 16 != 0 {
                total = (total & 0xffff) + (total >> 16);
            }
            (!(total as u16)).to_be_bytes()
        })
        .collect();
    let expected = sum(ChecksumKind::Adler32, 0, &[&guards]);
    assert_eq!(sum(ChecksumKind::T10Ip512, 100, &[&data]), expected);
}

#[test]
fn kinds_are_numbers_in_flags_and_bits_in_masks() {
    for kind in ChecksumKind::ALL {
        assert_eq!(ChecksumKind::from_obdo_flags(kind.obdo_flags() | 0x40_0000), Some(kind));
        assert_eq!(kind.mask().bits().count_ones(), 1);
    }
    assert_eq!(ChecksumKind::from_obdo_flags(0x6000), Some(ChecksumKind::T10Ip4k));
    assert_eq!(ChecksumKind::from_obdo_flags(0), Some(ChecksumKind::Adler32));
    assert_eq!(ChecksumKind::from_obdo_flags(0xf000), None);
}

/// A CRC-32C goes on with that of 64 KiB as with the bytes; other kinds cannot.
#[test]
fn a_known_crc32c_stands_for_64_kib() {
    let data: Vec<u8> = (0..200_000u64).map(|i| (i * i % 251) as u8).collect();
    for start in [0, 1, 1000, 65_536] {
        let (before, rest) = data.split_at(start);
        let (block, after) = rest.split_at(65_536);
        let mut joined = Checksum::new(ChecksumKind::Crc32c);
        joined.range(0, &[before]);
        assert!(joined.add_64k_with_crc32c(crc32c(block)));
        joined.range(0, &[after]);
        assert_eq!(joined.value(), crc32c(&data));
    }
    for kind in ChecksumKind::ALL.into_iter().filter(|kind| *kind != ChecksumKind::Crc32c) {
        let mut other = Checksum::new(kind);
        assert!(!other.add_64k_with_crc32c(1));
        assert_eq!(other.value(), Checksum::new(kind).value());
    }
}
