//! Reading a file that another process may be writing.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::check::check_history;
use crate::contents::{Contents, PeerHistory};
use crate::error::{StoreError, Wrong};
use crate::file::{io_error, not_usable, whole};

/// Bytes at the beginning that say which transaction is the latest.
const HEADER: usize = 512;
/// Attempts to copy a file that is being written, and the wait between them.
const ATTEMPTS: u32 = 10;
const AGAIN: Duration = Duration::from_millis(100);

/// What a file has of all peers, by NID.
///
/// The file is copied into memory, and the copy is checked. A transaction that a daemon ends
/// meanwhile makes the copy useless, which shows at its header or by its checksums; then it is
/// copied again.
///
/// # Errors
/// When it cannot be read, is not a file of this program, is damaged, or is written all the time.
pub fn read(path: &Path) -> Result<Vec<PeerHistory>, StoreError> {
    let mut file = File::open(path).map_err(|error| io_error(path, error))?;
    let contents = settled(path, AGAIN, || copy(path, &mut file))?;
    Ok(contents.histories())
}

/// The contents of a copy that is sound, of at most [`ATTEMPTS`].
pub(crate) fn settled(
    path: &Path,
    again: Duration,
    mut copy: impl FnMut() -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Contents, StoreError> {
    let mut attempt = 0;
    let mut changes = false;
    loop {
        attempt += 1;
        let wrong = match copy()?.map(check_history) {
            Some(Ok(contents)) => return Ok(contents),
            Some(Err(wrong @ Wrong::Foreign(_))) => return Err(not_usable(path, wrong)),
            Some(Err(wrong)) => Some(wrong),
            None => None,
        };
        changes |= wrong.is_none();
        if attempt >= ATTEMPTS {
            return Err(match wrong {
                // What changes meanwhile is not known to be damaged.
                Some(wrong) if !changes => not_usable(path, wrong),
                _ => StoreError::Busy { path: path.to_owned() },
            });
        }
        thread::sleep(again);
    }
}

/// The bytes of a file; `None` if a transaction ended meanwhile.
fn copy(path: &Path, file: &mut File) -> Result<Option<Vec<u8>>, StoreError> {
    let bytes = whole(path, file)?;
    let mut header = vec![0; HEADER.min(bytes.len())];
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_exact(&mut header))
        .map_err(|error| io_error(path, error))?;
    Ok(bytes.starts_with(&header).then_some(bytes))
}
