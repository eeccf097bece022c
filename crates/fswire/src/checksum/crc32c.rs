//! The CRC-32C of data, and of data whose parts have known ones.

use crc_fast::{CrcAlgorithm, Digest};

/// The polynomial, with the bits in the order of the checksum.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// A linear map of the 32 bits of a checksum: what becomes of each of them.
type Map = [u32; 32];

/// What 64 KiB of further data do to a checksum, beside their own.
const OVER_64K: Map = over_64k();

/// The CRC-32C of data, of which `before` is that of the first part, and `rest` are the others.
pub(super) fn followed_by(before: u32, rest: &[u8]) -> u32 {
    // A CRC-32C is the inverted state of its computation.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, (!before).into());
    digest.update(rest);
    digest.finalize() as u32
}

/// The CRC-32C of data followed by 64 KiB: of the data, and of the 64 KiB.
pub(super) fn followed_by_64k(before: u32, of_64k: u32) -> u32 {
    apply(&OVER_64K, before) ^ of_64k
}

const fn over_64k() -> Map {
    // One bit moves all others.
    let mut map = [0; 32];
    map[0] = POLYNOMIAL;
    let mut bit = 1;
    while bit < 32 {
        map[bit] = 1 << (bit - 1);
        bit += 1;
    }
    // 2^19 bits are 64 KiB.
    let mut doublings = 0;
    while doublings < 19 {
        map = twice(&map);
        doublings += 1;
    }
    map
}

const fn twice(map: &Map) -> Map {
    let mut result = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        result[bit] = apply(map, map[bit]);
        bit += 1;
    }
    result
}

const fn apply(map: &Map, sum: u32) -> u32 {
    let (mut left, mut result, mut bit) = (sum, 0, 0);
    while left != 0 {
        if left & 1 != 0 {
            result ^= map[bit];
        }
        left >>= 1;
        bit += 1;
    }
    result
}
