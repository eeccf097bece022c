//! Files of this machine, read piece by piece.

use std::io::{self, Read};

use bytes::Bytes;

use crate::output::Failure;

/// Bytes of a piece of a file of this machine.
pub(super) const PIECE: u64 = 4 << 20;

/// Reads a file of this machine to its end.
pub(super) fn read_here(
    file: &mut impl Read,
    mut take: impl FnMut(Bytes) -> Result<(), Failure>,
) -> io::Result<Result<(), Failure>> {
    loop {
        let mut data = Vec::new();
        file.by_ref().take(PIECE).read_to_end(&mut data)?;
        if data.is_empty() {
            return Ok(Ok(()));
        }
        if let Err(failure) = take(data.into()) {
            return Ok(Err(failure));
        }
    }
}
