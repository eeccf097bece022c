//! Layouts of directories [LAYOUT-9].

use core::fmt;

use super::LayoutError;
use crate::codec::{Array, Reader, Short, SliceWriter, Wire, Writer};
use crate::describe::{Describe, Value};
use crate::fid::Fid;
use crate::text::FixedText;

wire_enum! {
    /// How names are spread: the low half of the word.
    pub struct HashKind: u16 {
        /// Unknown.
        NONE = 0, "none";
        /// The sum of the bytes.
        ALL_CHARS = 1, "all_chars";
        /// FNV-1a of 64 bits.
        FNV_1A_64 = 2, "fnv_1a_64";
        /// CRUSH.
        CRUSH = 3, "crush";
        /// CRUSH, with another rule for temporary names (2.16).
        CRUSH2 = 4, "crush2";
    }
}

wire_flags! {
    /// The state of a striped directory: the high half of the word.
    pub struct HashFlags: u16 {
        /// Several stripes on one server.
        OVERSTRIPED = 0x100;
        /// The kind of hash stays.
        FIXED = 0x200;
        /// Stripes are merged.
        MERGE = 0x400;
        /// Stripes are split.
        SPLIT = 0x800;
        /// The layout was lost.
        LOST = 0x1000;
        /// The kind of hash is unknown.
        BAD_TYPE = 0x2000;
        /// Entries move to other stripes.
        MIGRATION = 0x8000;
    }
}

/// How names are spread, and the state of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HashWord {
    /// The kind.
    pub kind: HashKind,
    /// The state.
    pub flags: HashFlags,
}

impl Wire for HashWord {
    const SIZE: usize = 4;

    fn read(from: &mut Reader<'_>) -> Result<HashWord, Short> {
        Ok(HashWord { kind: from.value()?, flags: from.value()? })
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        to.put(&self.kind);
        to.put(&self.flags);
    }
}

impl fmt::Display for HashWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flags.is_empty() {
            true => write!(f, "{}", self.kind),
            false => write!(f, "{}|{}", self.kind, self.flags),
        }
    }
}

impl Describe for HashWord {
    fn describe(&self) -> Value {
        Value::text(self)
    }
}

wire_struct! {
    /// The head of the layout of a striped directory.
    pub struct LmvHeader [56] {
        /// [`magic::LMV`](super::magic::LMV) or [`magic::LMV_STRIPE`](super::magic::LMV_STRIPE).
        magic: u32 => hex;
        /// The number of stripes.
        count: u32;
        /// Index of the server of the directory, or of the stripe.
        master_index: u32;
        /// How names are spread.
        hash: HashWord;
        /// Version of the layout.
        version: u32;
        /// Migration: the first stripe of the old layout.
        migrate_offset: u32;
        /// Migration: how names were spread.
        migrate_hash: HashWord, pad 12;
        /// The pool.
        pool: FixedText<16>;
    }
}

/// The layout of a striped directory, or of a stripe, which has no FIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LmvLayout<'a> {
    /// Its head.
    pub header: LmvHeader,
    /// The stripes.
    pub stripes: Array<'a, Fid>,
}

impl<'a> LmvLayout<'a> {
    /// Reads a layout.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn parse(bytes: &'a [u8]) -> Result<LmvLayout<'a>, LayoutError> {
        let mut from = Reader::new(bytes);
        let header = from.value()?;
        let rest = from.rest();
        let whole = rest.len() / Fid::SIZE * Fid::SIZE;
        let stripes = Array::parse(&rest[..whole]).unwrap_or_default();
        Ok(LmvLayout { header, stripes })
    }

    /// Appends the layout.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.header);
        self.stripes.write(to);
    }
}

impl Describe for LmvLayout<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.header.describe() else {
            unreachable!("structures have fields")
        };
        fields.push(("stripes", self.stripes.describe()));
        Value::Fields(fields)
    }
}

wire_struct! {
    /// The layout that a user asks for a directory, or the default of its new directories.
    pub struct LmvUser [48] {
        /// [`magic::LMV_USER`](super::magic::LMV_USER).
        magic: u32 => hex;
        /// The number of stripes; -1 for all servers.
        count: i32;
        /// Index of the first server; -1 for any.
        mdt: i32;
        /// How names are spread.
        hash: HashWord;
        /// The kind of the layout.
        kind: u32 => hex;
        /// Levels of directories that inherit it.
        max_inherit: u8;
        /// Levels of directories that are spread in turn.
        max_inherit_rr: u8, pad 10;
        /// The pool.
        pool: FixedText<16>;
    }
}

/// The layout that a user asks for a directory, with what follows it: zeros, or a list of servers
/// of 24 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LmvUserLayout<'a> {
    /// Its head.
    pub header: LmvUser,
    /// As received.
    pub rest: &'a [u8],
}

impl<'a> LmvUserLayout<'a> {
    /// Reads a requested layout.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn parse(bytes: &'a [u8]) -> Result<LmvUserLayout<'a>, LayoutError> {
        let mut from = Reader::new(bytes);
        let header = from.value()?;
        Ok(LmvUserLayout { header, rest: from.rest() })
    }

    /// Appends it.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.header);
        to.bytes(self.rest);
    }
}

impl Describe for LmvUserLayout<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.header.describe() else {
            unreachable!("structures have fields")
        };
        fields.push(("rest", self.rest.describe()));
        Value::Fields(fields)
    }
}
