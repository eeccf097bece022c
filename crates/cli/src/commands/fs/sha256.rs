//! SHA-256 checksums.

use sha2::{Digest, Sha256};

/// The SHA-256 checksum of bytes that come in pieces.
#[derive(Clone, Default)]
pub(super) struct Sha256Sum(Sha256);

impl Sha256Sum {
    /// Adds the next piece.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum as 64 hexadecimal digits.
    pub(super) fn text(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
