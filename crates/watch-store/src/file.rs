//! The bytes of a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::{StoreError, Wrong};

/// The least that a file may be limited to, in bytes.
pub const FILE_MIN: u64 = 8 << 20;
/// The most.
pub const FILE_MAX: u64 = 1 << 30;

/// All bytes of a file of a bounded size.
pub(crate) fn whole(path: &Path, file: &mut File) -> Result<Vec<u8>, StoreError> {
    let len = file.metadata().map_err(|error| io_error(path, error))?.len();
    let too_long = || StoreError::Foreign {
        path: path.to_owned(),
        why: format!("it has more than {} MiB", FILE_MAX >> 20),
    };
    // redb may double the size of a file at the limit.
    let most = 2 * FILE_MAX;
    if len > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.by_ref().take(most + 1).read_to_end(&mut bytes))
        .map_err(|error| io_error(path, error))?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

pub(crate) fn io_error(path: &Path, error: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), error }
}

pub(crate) fn not_usable(path: &Path, wrong: Wrong) -> StoreError {
    let path = path.to_owned();
    match wrong {
        Wrong::Foreign(why) => StoreError::Foreign { path, why },
        Wrong::Damaged(why) => StoreError::Damaged { path, why },
    }
}
