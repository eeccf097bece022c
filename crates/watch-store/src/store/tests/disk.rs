//! Disks for tests: one that remembers what was written when, one that fails, one with contents.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redb::StorageBackend;

/// What was done to a disk.
#[derive(Clone, Debug)]
enum Operation {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// A disk that remembers all operations, shared by its clones.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    now: Vec<u8>,
    operations: Vec<Operation>,
}

/// redb sets the length before it writes there. Where the length of a file was not on the disk yet,
/// what is beyond it is lost, too: a file has one length or the other.
fn apply(bytes: &mut Vec<u8>, operation: &Operation) {
    match operation {
        Operation::Write(offset, data) => {
            let begin = (*offset as usize).min(bytes.len());
            let end = (begin + data.len()).min(bytes.len());
            bytes[begin..end].copy_from_slice(&data[..end - begin]);
        }
        Operation::SetLen(len) => bytes.resize(*len as usize, 0),
        Operation::Sync => {}
    }
}

impl Disk {
    fn with<T>(&self, run: impl FnOnce(&mut Log) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of operations so far.
    pub(super) fn operations(&self) -> usize {
        self.with(|log| log.operations.len())
    }

    pub(super) fn now(&self) -> Vec<u8> {
        self.with(|log| log.now.clone())
    }

    /// What a power cut after so many operations leaves: all until the last sync, and of the later
    /// ones some, of which some in parts.
    pub(super) fn after_power_cut(&self, operations: usize, seed: u64) -> Vec<u8> {
        self.with(|log| {
            let done = &log.operations[..operations];
            let is_sync = |one: &Operation| matches!(one, Operation::Sync);
            let safe = done.iter().rposition(is_sync).map_or(0, |at| at + 1);
            let mut bytes = Vec::new();
            done[..safe].iter().for_each(|one| apply(&mut bytes, one));
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ operations as u64;
            for one in &done[safe..] {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                match (one, (state >> 33) % 3) {
                    (_, 0) => {}
                    // Sectors are written whole, pages are not.
                    (Operation::Write(offset, data), 1) if data.len() > 512 => {
                        let part = data[..data.len() / 1024 * 512].to_vec();
                        apply(&mut bytes, &Operation::Write(*offset, part));
                    }
                    (one, _) => apply(&mut bytes, one),
                }
            }
            bytes
        })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|log| log.now.len() as u64))
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.with(|log| {
            let begin = offset as usize;
            let bytes = log.now.get(begin..begin + len);
            bytes.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.record(Operation::SetLen(len))
    }

    fn sync_data(&self, _eventual: bool) -> io::Result<()> {
        self.record(Operation::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.record(Operation::Write(offset, data.to_vec()))
    }
}

impl Disk {
    fn record(&self, operation: Operation) -> io::Result<()> {
        self.with(|log| {
            apply(&mut log.now, &operation);
            log.operations.push(operation);
        });
        Ok(())
    }
}

/// A disk that takes nothing more after so many operations, shared by its clones.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    disk: Disk,
    left: Arc<AtomicU64>,
}

impl Failing {
    pub(super) fn new(disk: Disk) -> Failing {
        Failing { disk, left: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Fails after so many operations from now on; never for `u64::MAX`.
    pub(super) fn fail_after(&self, operations: u64) {
        self.left.store(operations, Ordering::Relaxed);
    }

    fn take(&self) -> io::Result<()> {
        match self.left.load(Ordering::Relaxed) {
            u64::MAX => Ok(()),
            0 => Err(io::ErrorKind::StorageFull.into()),
            left => {
                self.left.store(left - 1, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.disk.read(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.take().and_then(|()| self.disk.set_len(len))
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.take().and_then(|()| self.disk.sync_data(eventual))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.take().and_then(|()| self.disk.write(offset, data))
    }
}

/// A disk with contents.
#[derive(Debug)]
pub(super) struct Image(Disk);

impl Image {
    pub(super) fn of(bytes: Vec<u8>) -> Image {
        let disk = Disk::default();
        disk.with(|log| log.now = bytes);
        Image(disk)
    }
}

impl StorageBackend for Image {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.0.read(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.0.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}
