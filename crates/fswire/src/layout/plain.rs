//! Layouts of one component.

use core::fmt;

use super::{LayoutError, LayoutFault, STRIPE_SIZE_STEP, STRIPES_MAX, magic};
use crate::codec::{Array, Reader, Short, SliceWriter, Wire, Writer};
use crate::describe::{Describe, Value};
use crate::fid::Fid;
use crate::layout::stripes::Striping;
use crate::text::FixedText;

/// How data are spread: a kind in the low bits, flags in the high ones [LAYOUT-3].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Pattern(pub u32);

impl Pattern {
    /// Request: the default.
    pub const DEFAULT: Pattern = Pattern(0);
    /// Over objects.
    pub const RAID0: Pattern = Pattern(1);
    /// On the metadata server.
    pub const MDT: Pattern = Pattern(0x100);
    /// Over objects, several of them on one server.
    pub const OVERSTRIPED: Pattern = Pattern(0x201);
    /// Bit: elsewhere.
    pub const FOREIGN: u32 = 0x400;
    /// Flag: a hole, without an object.
    pub const F_HOLE: u32 = 0x4000_0000;
    /// Flag: in an archive.
    pub const F_RELEASED: u32 = 0x8000_0000;

    /// The kind, without flags.
    pub const fn kind(self) -> Pattern {
        Pattern(self.0 & !(Pattern::F_HOLE | Pattern::F_RELEASED))
    }

    /// Whether the data are in an archive.
    pub const fn is_released(self) -> bool {
        self.0 & Pattern::F_RELEASED != 0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Pattern::DEFAULT => f.write_str("default")?,
            Pattern::RAID0 => f.write_str("raid0")?,
            Pattern::MDT => f.write_str("mdt")?,
            Pattern::OVERSTRIPED => f.write_str("raid0,overstriped")?,
            Pattern(other) => write!(f, "{other:#x}")?,
        }
        if self.0 & Pattern::F_HOLE != 0 {
            f.write_str(",hole")?;
        }
        if self.is_released() {
            f.write_str(",released")?;
        }
        Ok(())
    }
}

impl Wire for Pattern {
    const SIZE: usize = 4;

    fn read(from: &mut Reader<'_>) -> Result<Pattern, Short> {
        from.value().map(Pattern)
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        to.put(&self.0);
    }
}

impl Describe for Pattern {
    fn describe(&self) -> Value {
        Value::text(self)
    }
}

wire_struct! {
    /// The head of a layout; a pool follows in V3 [LAYOUT-2].
    pub struct LovHeader [32] {
        /// [`magic::V1`], [`magic::V3`] or [`magic::SPECIFIC`].
        magic: u32 => hex;
        /// How data are spread.
        pattern: Pattern;
        /// Object id of the file. It stands before the sequence, unlike in a FID.
        oid: u64 => hex;
        /// Sequence of the file.
        seq: u64 => hex;
        /// Bytes.
        stripe_size: u32;
        /// The number of stripes. Request: 0 for the default, 0xffff for all servers.
        stripe_count: u16;
        /// The generation. Request: index of the first server, 0xffff for any.
        generation: u16;
    }
}

wire_struct! {
    /// An object of a file.
    pub struct LovObject [24] {
        /// The object's id.
        oi: Fid;
        /// Generation of the server's index.
        generation: u32;
        /// Index of the server; [`LovObject::NO_INDEX`] if there is no object.
        index: u32 => or_none;
    }
}

impl LovObject {
    /// The index that stands for no object.
    pub const NO_INDEX: u32 = u32::MAX;

    /// Whether there is an object.
    pub const fn exists(&self) -> bool {
        self.index != LovObject::NO_INDEX
    }
}

/// A layout of one component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainLayout<'a> {
    /// Its head.
    pub header: LovHeader,
    /// The pool, in V3 and in requested ones with a list of servers.
    pub pool: Option<FixedText<16>>,
    /// The objects. Those of a component that was not written to yet are placeholders.
    pub objects: Array<'a, LovObject>,
    /// Room behind the last object that is not enough for one.
    pub rest: &'a [u8],
}

impl<'a> PlainLayout<'a> {
    /// Reads a layout: as many objects as there is room for.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn parse(bytes: &'a [u8]) -> Result<PlainLayout<'a>, LayoutError> {
        let mut from = Reader::new(bytes);
        let header: LovHeader = from.value()?;
        let pool = match header.magic {
            magic::V1 => None,
            magic::V3 | magic::SPECIFIC => Some(from.value()?),
            other => return Err(LayoutError::BadMagic(other)),
        };
        let rest = from.rest();
        let whole = rest.len() / LovObject::SIZE * LovObject::SIZE;
        let (objects, rest) = rest.split_at(whole);
        let objects = Array::parse(objects).unwrap_or_default();
        Ok(PlainLayout { header, pool, objects, rest })
    }

    /// Appends the layout.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.header);
        if let Some(pool) = &self.pool {
            to.put(pool);
        }
        self.objects.write(to);
        to.bytes(self.rest);
    }

    /// The FID of the file.
    pub const fn owner(&self) -> Fid {
        Fid {
            seq: self.header.seq,
            oid: self.header.oid as u32,
            ver: (self.header.oid >> 32) as u32,
        }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        let pool = if self.pool.is_some() { 16 } else { 0 };
        LovHeader::SIZE + pool + self.objects.len() * LovObject::SIZE + self.rest.len()
    }

    /// Whether it has no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Checks that data can be read and written by it. `instantiated`: its objects are there.
    ///
    /// # Errors
    /// [`LayoutFault`].
    pub fn validate(&self, instantiated: bool) -> Result<(), LayoutFault> {
        let header = &self.header;
        if header.pattern.is_released() {
            return Err(LayoutFault::Released);
        }
        match header.pattern.kind() {
            // One stripe on the metadata server.
            Pattern::MDT if header.stripe_size == 0 => {
                return Err(LayoutFault::StripeSize(header.stripe_size));
            }
            Pattern::MDT => return Ok(()),
            Pattern::RAID0 | Pattern::OVERSTRIPED => {}
            other => return Err(LayoutFault::Pattern(other)),
        }
        let size = header.stripe_size;
        if size == 0 || !size.is_multiple_of(STRIPE_SIZE_STEP) {
            return Err(LayoutFault::StripeSize(size));
        }
        let count = header.stripe_count;
        if !instantiated {
            return Ok(());
        }
        if count == 0 || usize::from(count) > STRIPES_MAX {
            return Err(LayoutFault::StripeCount(count));
        }
        if self.objects.len() < usize::from(count) {
            return Err(LayoutFault::Objects { objects: self.objects.len(), stripes: count });
        }
        Ok(())
    }

    /// The arithmetic of its stripes; none if the layout is not fit for it.
    pub fn striping(&self) -> Option<Striping> {
        Striping::new(self.header.stripe_size, self.header.stripe_count)
    }
}

impl Describe for PlainLayout<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.header.describe() else {
            unreachable!("structures have fields")
        };
        if let Some(pool) = &self.pool {
            fields.push(("pool", pool.describe()));
        }
        fields.push(("objects", self.objects.describe()));
        Value::Fields(fields)
    }
}
