//! FIDs, ranges of sequences, opaque handles and times.

#[cfg(test)]
mod tests;

use core::fmt;

use crate::codec::{Reader, Short, SliceWriter, Wire};
use crate::describe::{Describe, Value};

/// The identifier of a file, a directory or an object [MDT-1].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Fid {
    /// The sequence.
    pub seq: u64,
    /// The number within the sequence, from 1.
    pub oid: u32,
    /// Version; 0.
    pub ver: u32,
}

impl Fid {
    /// No object.
    pub const ZERO: Fid = Fid { seq: 0, oid: 0, ver: 0 };
    /// The root of the file system.
    pub const ROOT: Fid = Fid { seq: 0x2_0000_0007, oid: 1, ver: 0 };
    /// The first sequence that metadata servers give to clients.
    pub const SEQ_NORMAL: u64 = 0x2_0000_0400;
    /// Object ids of one sequence go from 1 to this.
    pub const OID_MAX: u32 = 0x2_0000;

    /// A FID of version 0.
    pub const fn new(seq: u64, oid: u32) -> Fid {
        Fid { seq, oid, ver: 0 }
    }

    /// Whether all fields are 0.
    pub const fn is_zero(&self) -> bool {
        self.seq == 0 && self.oid == 0 && self.ver == 0
    }

    /// What a sequence is for.
    pub const fn kind(&self) -> SeqKind {
        match self.seq {
            0 => SeqKind::OldObject,
            12..=0xffff_ffff => SeqKind::Igif,
            0x1_0000_0000..=0x1_ffff_ffff => SeqKind::Idif,
            Fid::SEQ_NORMAL.. => SeqKind::Normal,
            _ => SeqKind::Special,
        }
    }

    /// Whether a server accepts it: an object id that is not 0, in a sequence that holds files
    /// [MDT-1].
    pub const fn is_sane(&self) -> bool {
        self.oid != 0 && !matches!(self.kind(), SeqKind::OldObject)
    }

    /// The inode number that kernel clients show.
    pub const fn inode(&self) -> u64 {
        match self.kind() {
            SeqKind::Igif => self.seq,
            _ => (self.seq << 24)
                .wrapping_add((self.seq >> 24) & 0xff_ffff_0000)
                .wrapping_add(self.oid as u64),
        }
    }

    /// The 16 bytes of an object id, read as those of the old objects of MDT0: the id, if the
    /// second half is 0 [OST-2].
    pub const fn old_object(&self) -> Option<u64> {
        if self.oid == 0 && self.ver == 0 { Some(self.seq) } else { None }
    }
}

/// What a sequence is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeqKind {
    /// Sequence 0: objects of the first metadata server in their old form.
    OldObject,
    /// An inode of a file system that was upgraded: the sequence is the inode number.
    Igif,
    /// An old object id in the form of a FID.
    Idif,
    /// Logs, the root, locks and other special files.
    Special,
    /// Given to clients and servers on request.
    Normal,
}

impl fmt::Display for Fid {
    /// `[0x200000007:0x1:0x0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}:{:#x}:{:#x}]", self.seq, self.oid, self.ver)
    }
}

impl fmt::Debug for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is not a FID: `[0xSEQ:0xOID:0xVER]`, the brackets may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a FID, which looks like [0x200000007:0x1:0x0]")]
pub struct FidError;

impl core::str::FromStr for Fid {
    type Err = FidError;

    fn from_str(text: &str) -> Result<Fid, FidError> {
        let inner = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(FidError)?,
            None => text,
        };
        let mut parts = inner.split(':').map(|part| {
            let digits = part.strip_prefix("0x").ok_or(FidError)?;
            if digits.starts_with('+') {
                return Err(FidError);
            }
            u64::from_str_radix(digits, 16).map_err(|_| FidError)
        });
        let mut next = || parts.next().ok_or(FidError)?;
        let (seq, oid, ver) = (next()?, next()?, next()?);
        let narrow = |number: u64| u32::try_from(number).map_err(|_| FidError);
        let fid = Fid { seq, oid: narrow(oid)?, ver: narrow(ver)? };
        if parts.next().is_some() { Err(FidError) } else { Ok(fid) }
    }
}

impl Wire for Fid {
    const SIZE: usize = 16;

    fn read(from: &mut Reader<'_>) -> Result<Fid, Short> {
        Ok(Fid { seq: from.value()?, oid: from.value()?, ver: from.value()? })
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        to.put(&self.seq);
        to.put(&self.oid);
        to.put(&self.ver);
    }
}

impl Describe for Fid {
    fn describe(&self) -> Value {
        if self.is_zero() { Value::text("0") } else { Value::text(self) }
    }
}

/// A number that its owner chose and that means nothing to anybody else: of a connection, a lock,
/// an open file. 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Handle(pub u64);

impl Handle {
    /// None.
    pub const NONE: Handle = Handle(0);
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Wire for Handle {
    const SIZE: usize = 8;

    fn read(from: &mut Reader<'_>) -> Result<Handle, Short> {
        from.value().map(Handle)
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        to.put(&self.0);
    }
}

impl Describe for Handle {
    fn describe(&self) -> Value {
        Value::Hex(self.0)
    }
}

wire_enum! {
    /// Which servers own the sequences of a range.
    pub struct RangeKind: u32 {
        /// Metadata servers.
        MDT = 0, "mdt";
        /// Object servers.
        OST = 1, "ost";
        /// Either.
        ANY = 3, "any";
    }
}

wire_struct! {
    /// A range of sequences, and the server that owns them [MDT-2].
    pub struct SeqRange [24] {
        /// The first sequence.
        start: u64 => hex;
        /// Behind the last sequence.
        end: u64 => hex;
        /// The index of the server.
        index: u32;
        /// The kind of the server.
        kind: RangeKind;
    }
}

impl SeqRange {
    /// Whether it holds this sequence.
    pub const fn contains(&self, seq: u64) -> bool {
        self.start <= seq && seq < self.end
    }
}

wire_enum! {
    /// The operation of SEQ_QUERY [MDT-2].
    pub struct SeqOp: u32 {
        /// Sequences for another server.
        ALLOC_SUPER = 0, "alloc_super";
        /// A sequence for a client.
        ALLOC_META = 1, "alloc_meta";
    }
}

wire_enum! {
    /// The operation of FLD_QUERY [MDT-2].
    pub struct FldOp: u32 {
        /// Find the owner of a sequence.
        LOOKUP = 2, "lookup";
    }
}
