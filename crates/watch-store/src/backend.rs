//! How redb reaches the disk.

use std::io;

use redb::StorageBackend;

/// A backend whose length is on the disk before anything is written that relies on it.
///
/// redb 2.6 writes a header with the new length of a file that grows in the same sync as the length
/// itself. A power cut may leave the header and not the length, and then it does not open the file
/// any more. A file becomes shorter only after its header is on the disk, which is harmless.
#[derive(Debug)]
pub(crate) struct LengthFirst<B>(pub(crate) B);

impl<B: StorageBackend> StorageBackend for LengthFirst<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.0.read(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let grows = len > self.0.len()?;
        self.0.set_len(len)?;
        if grows { self.0.sync_data(false) } else { Ok(()) }
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.0.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}
