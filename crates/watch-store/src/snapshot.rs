//! Reading a file that another process may be writing.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::check::check;
use crate::contents::PeerHistory;
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
/// When it cannot be read, is no file of this program, or is damaged.
pub fn read(path: &Path) -> Result<Vec<PeerHistory>, StoreError> {
    let mut file = File::open(path).map_err(|error| io_error(path, error))?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let wrong = match copy(path, &mut file)? {
            Some(bytes) => match check(bytes) {
                Ok(contents) => return Ok(contents.histories()),
                Err(wrong) => wrong,
            },
            None => Wrong::Damaged("it changes all the time".to_owned()),
        };
        if attempt >= ATTEMPTS || matches!(wrong, Wrong::Foreign(_)) {
            return Err(not_usable(path, wrong));
        }
        thread::sleep(AGAIN);
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
