//! The checksum of protocol version 2 [FRM-8].
//!
//! CRC-32 with the reflected polynomial 0xEDB88320 and the initial value 0xFFFFFFFF, but without
//! the final inversion that other users of this polynomial apply.

/// The state before the first byte.
pub const INIT: u32 = 0xffff_ffff;

/// Continues a checksum over `bytes`. Start from [`INIT`]; the state is itself the checksum of what
/// was fed so far.
pub fn update(state: u32, bytes: &[u8]) -> u32 {
    // The library keeps its state inverted, which is the final inversion that LNet leaves out.
    let mut hasher = crc32fast::Hasher::new_with_initial(!state);
    hasher.update(bytes);
    !hasher.finalize()
}

/// A checksum being computed over several pieces.
#[derive(Debug, Clone)]
pub struct Crc(u32);

impl Crc {
    /// A checksum of nothing yet.
    pub fn new() -> Crc {
        Crc(INIT)
    }

    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = update(self.0, bytes);
    }

    /// The checksum of all pieces so far.
    pub fn value(&self) -> u32 {
        self.0
    }
}

impl Default for Crc {
    fn default() -> Crc {
        Crc::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value() {
        // [FRM-8]
        assert_eq!(update(INIT, b"123456789"), 0x340b_c6d9);
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let mut crc = Crc::new();
        crc.update(b"1234");
        crc.update(b"");
        crc.update(b"56789");
        assert_eq!(crc.value(), 0x340b_c6d9);
        assert_eq!(Crc::default().value(), INIT);
    }
}
