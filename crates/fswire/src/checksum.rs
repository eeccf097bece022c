//! Checksums of file data and of early replies [OST-8].

mod crc32c;
#[cfg(test)]
mod tests;

use crc::{CRC_16_T10_DIF, Crc};

wire_flags! {
    /// The kinds of checksums that connect data offer and grant.
    pub struct ChecksumTypes: u32 {
        /// See [`ChecksumKind::Crc32`].
        CRC32 = 0x1;
        /// See [`ChecksumKind::Adler32`].
        ADLER = 0x2;
        /// See [`ChecksumKind::Crc32c`].
        CRC32C = 0x4;
        /// See [`ChecksumKind::T10Ip512`].
        T10IP512 = 0x10;
        /// See [`ChecksumKind::T10Ip4k`].
        T10IP4K = 0x20;
        /// See [`ChecksumKind::T10Crc512`].
        T10CRC512 = 0x40;
        /// See [`ChecksumKind::T10Crc4k`].
        T10CRC4K = 0x80;
    }
}

/// A kind of checksum [OST-8].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// CRC-32 of zlib without the final inversion.
    Crc32,
    /// Adler-32 of zlib.
    Adler32,
    /// CRC-32C.
    Crc32c,
    /// Adler-32 over the Internet checksums of 512-byte sectors.
    T10Ip512,
    /// Adler-32 over the Internet checksums of 4096-byte sectors.
    T10Ip4k,
    /// Adler-32 over the T10 CRC-16 of 512-byte sectors.
    T10Crc512,
    /// Adler-32 over the T10 CRC-16 of 4096-byte sectors.
    T10Crc4k,
}

impl ChecksumKind {
    /// All kinds.
    pub const ALL: [ChecksumKind; 7] = [
        ChecksumKind::Crc32,
        ChecksumKind::Adler32,
        ChecksumKind::Crc32c,
        ChecksumKind::T10Ip512,
        ChecksumKind::T10Ip4k,
        ChecksumKind::T10Crc512,
        ChecksumKind::T10Crc4k,
    ];

    /// The number in bits 12 to 15 of the flags of an obdo.
    pub const fn number(self) -> u32 {
        match self {
            ChecksumKind::Crc32 => 1,
            ChecksumKind::Adler32 => 2,
            ChecksumKind::Crc32c => 4,
            ChecksumKind::T10Ip512 => 5,
            ChecksumKind::T10Ip4k => 6,
            ChecksumKind::T10Crc512 => 7,
            ChecksumKind::T10Crc4k => 8,
        }
    }

    /// The kind that the flags of an obdo name: a number in bits 12 to 15, not a mask. Without a
    /// number it is Adler-32; none for a number without meaning.
    pub fn from_obdo_flags(flags: u32) -> Option<ChecksumKind> {
        let number = flags >> 12 & 0xf;
        if number == 0 {
            return Some(ChecksumKind::Adler32);
        }
        ChecksumKind::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// These bits in the flags of an obdo.
    pub const fn obdo_flags(self) -> u32 {
        self.number() << 12
    }

    /// The bit in connect data.
    pub const fn mask(self) -> ChecksumTypes {
        match self {
            ChecksumKind::Crc32 => ChecksumTypes::CRC32,
            ChecksumKind::Adler32 => ChecksumTypes::ADLER,
            ChecksumKind::Crc32c => ChecksumTypes::CRC32C,
            ChecksumKind::T10Ip512 => ChecksumTypes::T10IP512,
            ChecksumKind::T10Ip4k => ChecksumTypes::T10IP4K,
            ChecksumKind::T10Crc512 => ChecksumTypes::T10CRC512,
            ChecksumKind::T10Crc4k => ChecksumTypes::T10CRC4K,
        }
    }
}

/// A checksum that is computed piece by piece.
///
/// ```
/// use lustrine_fswire::checksum::{Checksum, ChecksumKind};
///
/// let mut sum = Checksum::new(ChecksumKind::Crc32c);
/// sum.range(0, &[b"1234", b"56789"]);
/// assert_eq!(sum.value(), 0xe306_9283);
/// ```
#[derive(Debug, Clone)]
pub struct Checksum {
    state: State,
}

#[derive(Clone)]
enum State {
    Crc32(crc32fast::Hasher),
    Adler(simd_adler32::Adler32),
    Crc32c(u32),
    Sectors { guard: Guard, size: u64, adler: simd_adler32::Adler32 },
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            State::Crc32(_) => "Crc32",
            State::Adler(_) => "Adler",
            State::Crc32c(_) => "Crc32c",
            State::Sectors { .. } => "Sectors",
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Guard {
    Internet,
    T10,
}

impl Checksum {
    /// Of no data yet.
    pub fn new(kind: ChecksumKind) -> Checksum {
        let sectors =
            |guard, size| State::Sectors { guard, size, adler: simd_adler32::Adler32::new() };
        let state = match kind {
            ChecksumKind::Crc32 => State::Crc32(crc32fast::Hasher::new()),
            ChecksumKind::Adler32 => State::Adler(simd_adler32::Adler32::new()),
            ChecksumKind::Crc32c => State::Crc32c(0),
            ChecksumKind::T10Ip512 => sectors(Guard::Internet, 512),
            ChecksumKind::T10Ip4k => sectors(Guard::Internet, 4096),
            ChecksumKind::T10Crc512 => sectors(Guard::T10, 512),
            ChecksumKind::T10Crc4k => sectors(Guard::T10, 4096),
        };
        Checksum { state }
    }

    /// Adds the data of one niobuf: `pieces` one after the other, the first byte at `offset` of
    /// the object. The kinds with sectors cut at multiples of their size in the object; a sector
    /// may be partial at either end.
    pub fn range(&mut self, offset: u64, pieces: &[&[u8]]) {
        match &mut self.state {
            State::Crc32(hasher) => pieces.iter().for_each(|piece| hasher.update(piece)),
            State::Adler(adler) => pieces.iter().for_each(|piece| adler.write(piece)),
            State::Crc32c(crc) => {
                *crc = pieces.iter().fold(*crc, |crc, piece| crc32c::followed_by(crc, piece));
            }
            State::Sectors { guard, size, adler } => {
                sectors(*guard, *size, offset, pieces, &mut |guard| adler.write(&guard));
            }
        }
    }

    /// Adds 64 KiB of which only the CRC-32C is known. Whether that was possible: it is if this is
    /// the kind.
    pub fn add_64k_with_crc32c(&mut self, of_64k: u32) -> bool {
        let State::Crc32c(crc) = &mut self.state else { return false };
        *crc = crc32c::followed_by_64k(*crc, of_64k);
        true
    }

    /// The checksum so far.
    pub fn value(&self) -> u32 {
        match &self.state {
            State::Crc32(hasher) => !hasher.clone().finalize(),
            State::Adler(adler) | State::Sectors { adler, .. } => adler.finish(),
            State::Crc32c(crc) => *crc,
        }
    }
}

/// CRC-32C.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::followed_by(0, bytes)
}

/// CRC-32 of zlib without the final inversion [RPC-16].
pub fn crc32(bytes: &[u8]) -> u32 {
    !crc32fast::hash(bytes)
}

/// Calls `found` with the guard of each sector.
fn sectors(guard: Guard, size: u64, offset: u64, pieces: &[&[u8]], found: &mut dyn FnMut([u8; 2])) {
    let mut at = offset;
    let mut state = GuardState::new(guard);
    let mut open = false;
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let left = usize::try_from(size - at % size).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(left.min(rest.len()));
            state.update(now);
            open = true;
            // Offsets of objects end below 2^64; a wrong one does no harm.
            at = at.wrapping_add(now.len() as u64);
            if at.is_multiple_of(size) {
                found(state.value());
                state = GuardState::new(guard);
                open = false;
            }
            rest = later;
        }
    }
    if open {
        found(state.value());
    }
}

const T10: Crc<u16, crc::Table<16>> = Crc::<u16, crc::Table<16>>::new(&CRC_16_T10_DIF);
static T10_TABLE: Crc<u16, crc::Table<16>> = T10;

enum GuardState {
    /// The sum of the words in the order of the machine's bytes, which commutes with a swap of each
    /// word's bytes, and the odd byte of the last piece.
    Internet {
        sum: u64,
        odd: Option<u8>,
    },
    T10(u16),
}

impl GuardState {
    fn new(guard: Guard) -> GuardState {
        match guard {
            Guard::Internet => GuardState::Internet { sum: 0, odd: None },
            Guard::T10 => GuardState::T10(0),
        }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        match self {
            GuardState::T10(crc) => {
                let mut digest = T10_TABLE.digest_with_initial(*crc);
                digest.update(bytes);
                *crc = digest.finalize();
            }
            GuardState::Internet { sum, odd } => {
                if let (Some(first), Some((second, rest))) = (*odd, bytes.split_first()) {
                    *sum += u64::from(u16::from_ne_bytes([first, *second]));
                    *odd = None;
                    bytes = rest;
                }
                // Eight bytes at a time: a sector has 512 of these at most; the sum has room.
                let (words, rest) = bytes.as_chunks::<8>();
                let halves = |word: &[u8; 8]| {
                    let word = u64::from_ne_bytes(*word);
                    (word & 0xffff_ffff) + (word >> 32)
                };
                *sum += words.iter().map(halves).sum::<u64>();
                let (words, rest) = rest.as_chunks::<2>();
                *sum += words.iter().map(|word| u64::from(u16::from_ne_bytes(*word))).sum::<u64>();
                if let [last] = rest {
                    *odd = Some(*last);
                }
            }
        }
    }

    /// The guard, stored in big-endian order.
    fn value(&self) -> [u8; 2] {
        match self {
            GuardState::T10(crc) => crc.to_be_bytes(),
            GuardState::Internet { sum, odd } => {
                let mut sum = sum + u64::from(u16::from_ne_bytes([odd.unwrap_or_default(), 0]));
                while sum > 0xffff {
                    sum = (sum & 0xffff) + (sum >> 16);
                }
                (!(sum as u16)).to_ne_bytes()
            }
        }
    }
}
