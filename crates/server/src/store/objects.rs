//! Objects and their data.

use core::cell::OnceCell;

use bytes::Bytes;
use lustrine_fswire::checksum::crc32c;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::Obdo;

use super::quotas::{Quotas, Usage, Verdict};
use crate::table::OrderedTable;

/// A new object target.
#[derive(Clone, Debug)]
pub struct OstArgs {
    /// The name of the file system.
    pub fsname: String,
    /// Its index.
    pub index: u32,
    /// Bytes that objects may have.
    pub capacity: u64,
}

/// Data are kept in pieces of so many bytes.
pub(crate) const CHUNK: u64 = 64 << 10;
/// Bytes of a page: reads are answered with whole ones [OST-13].
pub(crate) const PAGE: u64 = 4096;

/// What is read where nothing was written.
static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];

/// An object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    pub(crate) size: u64,
    /// Units of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) atime: i64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) projid: u32,
    /// The last change of the data.
    pub(crate) version: u64,
    /// Pieces of data that there are.
    chunks: u64,
}

impl Object {
    fn usage(&self) -> Usage {
        let Object { uid, gid, projid, .. } = *self;
        Usage { uid, gid, projid, bytes: self.blocks * 512 }
    }
}

/// A piece of the data of an object; what is missing at its end is zeros.
#[derive(Clone, Debug)]
struct Chunk {
    bytes: Bytes,
    /// Known since it was written, or since it was first needed.
    crc32c: OnceCell<u32>,
}

/// Bytes that are read.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) bytes: Bytes,
    /// The whole chunk that they are.
    chunk: Option<&'a Chunk>,
}

/// The objects of a target, or the data of files on a metadata target.
#[derive(Clone, Debug)]
pub(crate) struct ObjectStore {
    index: u32,
    capacity: u64,
    objects: OrderedTable<Fid, Object>,
    chunks: OrderedTable<(Fid, u64), Chunk>,
    /// On the disk at once.
    pub(crate) quotas: Quotas,
}

impl ObjectStore {
    pub(crate) fn new(index: u32, capacity: u64) -> ObjectStore {
        ObjectStore {
            index,
            capacity,
            objects: OrderedTable::default(),
            chunks: OrderedTable::default(),
            quotas: Quotas::default(),
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that the data take.
    pub(crate) fn used(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK
    }

    pub(crate) fn len(&self) -> u64 {
        self.objects.len() as u64
    }

    /// An object. One that was never written to is not there.
    pub(crate) fn get(&self, oi: Fid) -> Option<&Object> {
        self.objects.get(&oi)
    }

    /// Whether all data would take more than a limit after a write.
    pub(crate) fn is_full_for(&self, oi: Fid, offset: u64, len: u64, limit: u64) -> bool {
        let touched = offset / CHUNK..(offset + len).div_ceil(CHUNK);
        let new = touched.filter(|chunk| !self.chunks.contains(&(oi, *chunk))).count() as u64;
        new > 0 && self.used() + new * CHUNK > limit
    }

    /// What quota says of a write up to an offset, of a file of these owners.
    pub(crate) fn check_quota(&self, oi: Fid, owner: &Obdo, end: u64) -> Verdict {
        let size = self.get(oi).map_or(0, |object| object.size);
        let usage = self.objects.iter().map(|(_, object)| object.usage());
        self.quotas.check(owner, usage, end.saturating_sub(size))
    }

    /// A range, in parts that follow each other; what was not written is zeros. Nothing is copied.
    pub(crate) fn read(&self, oi: Fid, offset: u64, len: u64) -> Vec<Part<'_>> {
        let (mut at, end) = (offset, offset + len);
        let mut parts = Vec::with_capacity((end.div_ceil(CHUNK) - offset / CHUNK) as usize);
        let chunks = self.chunks.range((oi, offset / CHUNK)..(oi, end.div_ceil(CHUNK)));
        for ((_, index), chunk) in chunks {
            let start = index * CHUNK;
            let (from, to) = (offset.max(start), end.min(start + chunk.bytes.len() as u64));
            if from < to {
                push_zeros(&mut parts, from - at);
                parts.push(Part {
                    bytes: chunk.bytes.slice((from - start) as usize..(to - start) as usize),
                    chunk: (to - from == CHUNK).then_some(chunk),
                });
                at = to;
            }
        }
        push_zeros(&mut parts, end - at);
        parts
    }

    /// Changes an object, which is made if it is not there.
    pub(crate) fn change(&mut self, step: u64, oi: Fid, change: impl FnOnce(&mut Object)) {
        let mut object = self.objects.get(&oi).cloned().unwrap_or_default();
        change(&mut object);
        let allocated = object.chunks * CHUNK;
        object.blocks = object.size.min(allocated).div_ceil(PAGE) * (PAGE / 512);
        self.objects.set(step, oi, Some(object));
    }

    /// Writes bytes in blocks, whose CRC-32C may be known. One that is a whole chunk is kept as it
    /// is.
    pub(crate) fn write_blocks(
        &mut self,
        step: u64,
        oi: Fid,
        offset: u64,
        blocks: impl IntoIterator<Item = (Bytes, Option<u32>)>,
    ) {
        let (mut at, mut added) = (offset, 0);
        for (block, crc32c) in blocks {
            let end = at + block.len() as u64;
            match at.is_multiple_of(CHUNK) && block.len() as u64 == CHUNK {
                true => {
                    let chunk = Chunk {
                        crc32c: crc32c.map(OnceCell::from).unwrap_or_default(),
                        ..Chunk::from(block)
                    };
                    added += self.put_chunk(step, (oi, at / CHUNK), chunk);
                }
                false => self.write(step, oi, at, &block),
            }
            at = end;
        }
        self.written(step, oi, (at, added));
    }

    /// Keeps a chunk. How many more there are.
    fn put_chunk(&mut self, step: u64, key: (Fid, u64), chunk: Chunk) -> u64 {
        let added = u64::from(!self.chunks.contains(&key));
        self.chunks.set(step, key, Some(chunk));
        added
    }

    /// An object has bytes up to an end, and so many more chunks.
    fn written(&mut self, step: u64, oi: Fid, (end, added): (u64, u64)) {
        self.change(step, oi, |object| {
            object.size = object.size.max(end);
            object.version = step;
            object.chunks += added;
        });
    }

    /// Writes bytes.
    pub(crate) fn write(&mut self, step: u64, oi: Fid, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let (mut at, mut added) = (offset, 0);
        while !rest.is_empty() {
            let (chunk, within) = (at / CHUNK, (at % CHUNK) as usize);
            let len = rest.len().min(CHUNK as usize - within);
            let (now, others) = rest.split_at(len);
            let new = match len == CHUNK as usize {
                true => now.to_vec(),
                false => {
                    let mut new = self.chunks.get(&(oi, chunk)).map(|old| old.bytes.to_vec());
                    let new = new.get_or_insert_default();
                    if new.len() < within + len {
                        new.resize(within + len, 0);
                    }
                    new[within..within + len].copy_from_slice(now);
                    core::mem::take(new)
                }
            };
            added += self.put_chunk(step, (oi, chunk), new.into());
            rest = others;
            at += len as u64;
        }
        self.written(step, oi, (offset + bytes.len() as u64, added));
    }

    /// Frees a range: it reads as zeros.
    pub(crate) fn clear(&mut self, step: u64, oi: Fid, start: u64, end: u64) {
        let last = if end == u64::MAX { u64::MAX } else { end.div_ceil(CHUNK) };
        let touched = self.chunks.range((oi, start / CHUNK)..(oi, last));
        let touched: Vec<(u64, Bytes)> =
            touched.map(|((_, index), chunk)| (*index, chunk.bytes.clone())).collect();
        let mut removed = 0;
        for (chunk, bytes) in touched {
            let first = chunk * CHUNK;
            let (from, to) = (start.max(first), end.min(first + bytes.len() as u64));
            if from >= to {
                continue;
            }
            if from == first && to == first + bytes.len() as u64 {
                self.chunks.set(step, (oi, chunk), None);
                removed += 1;
                continue;
            }
            let mut new = bytes.to_vec();
            let (from, to) = ((from - first) as usize, (to - first) as usize);
            match to == new.len() {
                true => new.truncate(from),
                false => new[from..to].fill(0),
            }
            self.chunks.set(step, (oi, chunk), Some(new.into()));
        }
        self.change(step, oi, |object| {
            object.version = step;
            object.chunks -= removed;
        });
    }

    /// Cuts an object, or lets it grow by a hole.
    pub(crate) fn truncate(&mut self, step: u64, oi: Fid, size: u64) {
        self.clear(step, oi, size, u64::MAX);
        self.change(step, oi, |object| object.size = size);
    }

    /// The next byte from an offset on that is data, or that is a hole.
    pub(crate) fn seek(&self, oi: Fid, from: u64, data: bool) -> Option<u64> {
        let size = self.get(oi)?.size;
        let mut at = from;
        while at < size {
            if self.chunks.contains(&(oi, at / CHUNK)) == data {
                return Some(at);
            }
            at = (at / CHUNK + 1) * CHUNK;
        }
        // The end of a file counts as a hole.
        (!data && from < size).then_some(size)
    }

    /// An object is gone.
    pub(crate) fn destroy(&mut self, step: u64, oi: Fid) {
        let chunks = self.chunks.range((oi, 0)..=(oi, u64::MAX));
        for key in chunks.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.chunks.set(step, key, None);
        }
        if self.objects.contains(&oi) {
            self.objects.set(step, oi, None);
        }
    }

    pub(crate) fn commit(&mut self, upto: u64) {
        self.objects.commit(upto);
        self.chunks.commit(upto);
    }

    pub(crate) fn roll_back(&mut self) {
        self.objects.roll_back();
        self.chunks.roll_back();
    }
}

fn push_zeros(parts: &mut Vec<Part<'_>>, mut len: u64) {
    while len > 0 {
        let now = len.min(CHUNK);
        parts.push(Part { bytes: Bytes::from_static(&ZEROS[..now as usize]), chunk: None });
        len -= now;
    }
}

impl<B: Into<Bytes>> From<B> for Chunk {
    fn from(bytes: B) -> Chunk {
        Chunk { bytes: bytes.into(), crc32c: OnceCell::new() }
    }
}

impl Part<'_> {
    /// The CRC-32C if these are the 64 KiB of a chunk: it is computed once, and kept with them.
    pub(crate) fn crc32c_of_64k(&self) -> Option<u32> {
        let chunk = self.chunk?;
        Some(*chunk.crc32c.get_or_init(|| crc32c(&chunk.bytes)))
    }
}

impl Object {
    /// The attributes as replies have them, beside what the request said.
    pub(crate) fn describe(&self, body: &mut Obdo) {
        body.valid |= MdValid::SIZE
            | MdValid::BLOCKS
            | MdValid::BLKSZ
            | MdValid::ATIME
            | MdValid::MTIME
            | MdValid::CTIME
            | MdValid::UID
            | MdValid::GID
            | MdValid::DATAVERSION;
        body.size = self.size;
        body.blocks = self.blocks;
        body.blksize = 4 << 20;
        (body.atime, body.mtime, body.ctime) = (self.atime, self.mtime, self.ctime);
        (body.uid, body.gid, body.projid) = (self.uid, self.gid, self.projid);
        body.data_version = self.version;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OI: Fid = Fid::new(0x2_4000_0400, 1);

    #[derive(Clone, Debug)]
    enum Op {
        Write(u64, Vec<u8>),
        /// Where it starts, the length of its first block, and how many whole chunks follow.
        Blocks(u64, usize, usize),
        Truncate(u64),
        Clear(u64, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let offset = || 0u64..3 * CHUNK;
        prop_oneof![
            (offset(), prop::collection::vec(any::<u8>(), 1..200))
                .prop_map(|(at, bytes)| Op::Write(at, bytes)),
            (0u64..3, 0u64..2, 0usize..2).prop_map(|(chunk, within, more)| {
                let first = CHUNK as usize - within as usize * 100;
                Op::Blocks(chunk * CHUNK + within * 100, first, more)
            }),
            offset().prop_map(Op::Truncate),
            (offset(), 1..2 * CHUNK).prop_map(|(at, len)| Op::Clear(at, len)),
        ]
    }

    proptest! {
        #[test]
        fn data_are_what_was_written(ops in prop::collection::vec(op(), 1..20)) {
            let mut store = ObjectStore::new(0, u64::MAX);
            let mut model: Vec<u8> = Vec::new();
            for (step, op) in ops.into_iter().enumerate() {
                let step = step as u64 + 1;
                match op {
                    Op::Write(at, bytes) => {
                        let end = at as usize + bytes.len();
                        if model.len() < end {
                            model.resize(end, 0);
                        }
                        model[at as usize..end].copy_from_slice(&bytes);
                        store.write(step, OI, at, &bytes);
                    }
                    Op::Blocks(at, first, more) => {
                        let mut blocks = vec![vec![step as u8; first]];
                        blocks.extend((0..more).map(|_| vec![step as u8 + 1; CHUNK as usize]));
                        let bytes = blocks.concat();
                        let end = at as usize + bytes.len();
                        if model.len() < end {
                            model.resize(end, 0);
                        }
                        model[at as usize..end].copy_from_slice(&bytes);
                        let blocks = blocks.into_iter().map(|block| {
                            let sum = crc32c(&block);
                            (block.into(), step.is_multiple_of(2).then_some(sum))
                        });
                        store.write_blocks(step, OI, at, blocks);
                    }
                    Op::Truncate(size) => {
                        model.resize(size as usize, 0);
                        store.truncate(step, OI, size);
                    }
                    Op::Clear(at, len) => {
                        let end = ((at + len) as usize).min(model.len());
                        if let Some(part) = model.get_mut(at as usize..end) {
                            part.fill(0);
                        }
                        store.clear(step, OI, at, at + len);
                    }
                }
                let size = store.get(OI).map_or(0, |object| object.size);
                prop_assert_eq!(size, model.len() as u64);
                let chunks = store.get(OI).map_or(0, |object| object.chunks);
                prop_assert_eq!(chunks * CHUNK, store.used());
                for (from, to) in [(0, size), (size / 3, size / 3 * 2)] {
                    let parts = store.read(OI, from, to - from);
                    let bytes: Vec<&[u8]> = parts.iter().map(|part| &*part.bytes).collect();
                    prop_assert!(bytes.concat() == model[from as usize..to as usize]);
                    for part in parts {
                        let known = part.crc32c_of_64k();
                        prop_assert!(known.is_none_or(|sum| sum == crc32c(&part.bytes)));
                    }
                }
            }
            store.roll_back();
            prop_assert!(store.get(OI).is_none() && store.used() == 0);
        }
    }
}
