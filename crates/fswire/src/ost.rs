//! Objects and their data: obdo, ioobj, niobufs, free space [OST-1].

mod bulk;
mod flags;
#[cfg(test)]
mod tests;

use crate::checksum::ChecksumKind;
use crate::codec::{Array, Wire};
use crate::fid::{Fid, Handle};
use crate::mdt::MdValid;
use crate::text::FixedText;

pub use bulk::{BULK_FRAGMENT, BULK_MD_FRAGMENTS, BulkError, BulkPiece, bulk_pieces};
pub use flags::{FallocMode, NiobufFlags, ObdoFlags, SeekWhence, StatfsState};

wire_struct! {
    /// Attributes of an object, or parameters of an operation on it [OST-1].
    ///
    /// Several fields have another meaning in some operations; the methods name them.
    pub struct Obdo [208] {
        /// The fields that are valid.
        valid: MdValid;
        /// The object's id; see [`Fid::old_object`] for its two forms.
        oi: Fid;
        /// Sequence of the file that it belongs to.
        parent_seq: u64 => hex;
        /// Bytes. Punch, fallocate and sync: start. Seek: offset and result.
        size: u64;
        /// Seconds since 1970.
        mtime: i64;
        /// Seconds since 1970.
        atime: i64;
        /// Seconds since 1970.
        ctime: i64;
        /// Units of 512 bytes. Reads and writes: see [`Obdo::dirty`]. Punch, fallocate and sync:
        /// end.
        blocks: u64;
        /// Request: bytes of grant that the client holds. Reply: bytes granted more.
        grant: u64;
        /// Preferred size of transfers in bytes.
        blksize: u32;
        /// Type and permissions. Reads and writes: see [`Obdo::undirty`]. Seek: what to find.
        mode: u32;
        /// Owner, for quota.
        uid: u32;
        /// Group, for quota.
        gid: u32;
        /// Flags.
        flags: ObdoFlags;
        /// Reads and writes: see [`Obdo::cksum`]. Fallocate: [`FallocMode`].
        nlink: u32 => hex;
        /// Object id of the file that it belongs to.
        parent_oid: u32 => hex;
        /// Reads and writes: see [`Obdo::dropped`]. Destroy: a number of objects.
        misc: u32;
        /// Unused.
        ioepoch: u64;
        /// Which stripe of the file it is.
        stripe_idx: u32;
        /// Version of the FID of the file that it belongs to.
        parent_ver: u32;
        /// The lock that covers the operation.
        handle: Handle;
        /// The layout of the file.
        layout: ObdoLayout;
        /// Version of the layout.
        layout_version: u32, pad 8;
        /// Version of the data. Reads and writes: see [`Obdo::grant_used`].
        data_version: u64 => hex;
        /// Project, for quota.
        projid: u32, pad 20;
    }
}

wire_struct! {
    /// What an object server is let know of the layout of a file.
    pub struct ObdoLayout [28] {
        /// Bytes.
        stripe_size: u32;
        /// The number of stripes.
        stripe_count: u32;
        /// First byte of the component.
        comp_start: u64;
        /// Behind the last byte of the component.
        comp_end: u64;
        /// Its id.
        comp_id: u32;
    }
}

impl Obdo {
    /// Read and write: dirty bytes that the client caches.
    pub const fn dirty(&self) -> u64 {
        self.blocks
    }

    /// Read and write: the grant in bytes that the client could use.
    pub const fn undirty(&self) -> u32 {
        self.mode
    }

    /// Read and write: checksum of the data.
    pub const fn cksum(&self) -> u32 {
        self.nlink
    }

    /// Read and write: bytes of grant that the client gives up.
    pub const fn dropped(&self) -> u32 {
        self.misc
    }

    /// Write: bytes of grant that this write uses.
    pub const fn grant_used(&self) -> u64 {
        self.data_version
    }

    /// The checksum and its kind, if there is one whose kind is known [OST-8].
    pub fn checksum(&self) -> Option<(ChecksumKind, u32)> {
        if !self.valid.contains(MdValid::CKSUM) {
            return None;
        }
        let flags = if self.valid.contains(MdValid::FLAGS) { self.flags.bits() } else { 0 };
        Some((ChecksumKind::from_obdo_flags(flags)?, self.cksum()))
    }

    /// Sets the checksum, its kind and the bits that say that they are valid.
    pub fn set_checksum(&mut self, kind: ChecksumKind, value: u32) {
        let other = self.flags.bits() & !ObdoFlags::CKSUM_MASK;
        self.flags = ObdoFlags::from_bits_retain(other | kind.obdo_flags());
        self.valid |= MdValid::CKSUM | MdValid::FLAGS;
        self.nlink = value;
    }

    /// The file that the object belongs to, if the bit says so.
    pub const fn parent(&self) -> Option<Fid> {
        if !self.valid.contains(MdValid::FID) {
            return None;
        }
        Some(Fid { seq: self.parent_seq, oid: self.parent_oid, ver: self.parent_ver })
    }
}

wire_struct! {
    /// The object of a read or a write [OST-4].
    pub struct IoObj [24] {
        /// The object's id.
        oi: Fid;
        /// Upper half: memory descriptors of the client's largest transfer less one, see
        /// [`IoObj::bulk_step`]. Lower half: offset of unaligned direct I/O.
        max_brw: u32 => hex;
        /// The number of niobufs.
        bufcnt: u32;
    }
}

impl IoObj {
    /// `max_brw` of a transfer within request and reply.
    pub const SHORT_IO: u32 = 0xffff_0000;

    /// The distance of the match bits of one transfer to those of the next: a power of two, or
    /// none if the client sent something else [RPC-15].
    pub const fn bulk_step(&self) -> Option<u64> {
        let step = (self.max_brw >> 16) as u64 + 1;
        if step.is_power_of_two() { Some(step) } else { None }
    }
}

wire_struct! {
    /// A range of an object to be read or written [OST-4].
    pub struct Niobuf [16] {
        /// First byte.
        offset: u64;
        /// Bytes.
        len: u32;
        /// Flags.
        flags: NiobufFlags;
    }
}

/// Why niobufs are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NiobufError {
    /// Their number is not that of the ioobj, or 0, or above 16384.
    #[error("{have} niobufs where {wanted} are announced")]
    BadCount {
        /// What is there.
        have: usize,
        /// What the ioobj says.
        wanted: u32,
    },
    /// A range is empty or ends behind 2^63 - 1.
    #[error("niobuf {0} is empty or ends behind the largest file")]
    BadRange(usize),
    /// A range starts before the end of the one before it.
    #[error("niobuf {0} overlaps the one before it")]
    Overlap(usize),
}

/// The most niobufs of a request.
pub const NIOBUFS_MAX: usize = 16384;

/// Checks that niobufs ascend without overlap, and gives their bytes in total [OST-4].
///
/// # Errors
/// [`NiobufError`].
pub fn check_niobufs(object: &IoObj, niobufs: &Array<'_, Niobuf>) -> Result<u64, NiobufError> {
    let have = niobufs.len();
    if have != object.bufcnt as usize || have == 0 || have > NIOBUFS_MAX {
        return Err(NiobufError::BadCount { have, wanted: object.bufcnt });
    }
    let (mut total, mut end) = (0, 0);
    for (index, niobuf) in niobufs.iter().enumerate() {
        if niobuf.offset < end {
            return Err(NiobufError::Overlap(index));
        }
        end = match niobuf.offset.checked_add(u64::from(niobuf.len)) {
            Some(end) if niobuf.len > 0 && end <= i64::MAX as u64 => end,
            _ => return Err(NiobufError::BadRange(index)),
        };
        total += u64::from(niobuf.len);
    }
    Ok(total)
}

wire_struct! {
    /// Space of a target [OST-3].
    pub struct Statfs [144] {
        /// Type of the back end.
        kind: u64 => hex;
        /// Blocks of `bsize` bytes.
        blocks: u64;
        /// Free blocks.
        bfree: u64;
        /// Free blocks for users.
        bavail: u64;
        /// Inodes, or objects.
        files: u64;
        /// Free ones.
        ffree: u64;
        /// Identifies the target.
        fsid: FixedText<40>;
        /// Bytes of a block.
        bsize: u32;
        /// Longest name in bytes.
        namelen: u32;
        /// Largest object in bytes.
        maxbytes: u64 => hex;
        /// State.
        state: StatfsState;
        /// Objects created in advance.
        fprecreated: u32;
        /// Granted to clients.
        granted: u32, pad 28;
    }
}

wire_struct! {
    /// The head of OST_LADVISE [OST-5].
    pub struct LadviseHeader [32] {
        /// [`LadviseHeader::MAGIC`].
        magic: u32 => hex;
        /// The number of pieces of advice.
        count: u32;
        /// Flags.
        flags: u64 => hex;
        /// Unused.
        value1: u32;
        /// Unused.
        value2: u32;
        /// Unused.
        value3: u64;
    }
}

impl LadviseHeader {
    /// The magic number.
    pub const MAGIC: u32 = 0x1adf_1ce0;
}

wire_struct! {
    /// One piece of advice [OST-5].
    pub struct Ladvise [32] {
        /// The advice.
        advice: u16;
        /// By the kind.
        value1: u16;
        /// By the kind.
        value2: u32;
        /// First byte.
        start: u64;
        /// Behind the last byte.
        end: u64;
        /// By the kind.
        value3: u32;
        /// By the kind.
        value4: u32;
    }
}

/// The key of a request for the extents of an object: its name in 8 bytes, an obdo, the head of
/// the list of extents [OST-5].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FiemapKey {
    /// The object.
    pub obdo: Obdo,
    /// What is asked.
    pub fiemap: Fiemap,
}

wire_struct! {
    /// The head of a list of extents.
    pub struct Fiemap [32] {
        /// First byte.
        start: u64;
        /// Bytes.
        length: u64;
        /// Flags.
        flags: u32 => hex;
        /// Reply: extents found.
        mapped: u32;
        /// Extents that there is room for.
        count: u32;
        /// Unused.
        reserved: u32;
    }
}

impl Fiemap {
    /// Bytes of an extent behind the head.
    pub const EXTENT_SIZE: usize = 56;
}

impl FiemapKey {
    /// The name of the key.
    pub const NAME: &'static [u8; 8] = b"fiemap\0\0";

    /// Reads a key, if it is this one.
    pub fn parse(key: &[u8]) -> Option<FiemapKey> {
        let rest = key.strip_prefix(FiemapKey::NAME)?;
        let obdo = Obdo::parse(rest).ok()?;
        let fiemap = Fiemap::parse(rest.get(Obdo::SIZE..)?).ok()?;
        Some(FiemapKey { obdo, fiemap })
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = FiemapKey::NAME.to_vec();
        out.extend(self.obdo.to_bytes());
        out.extend(self.fiemap.to_bytes());
        out
    }
}
