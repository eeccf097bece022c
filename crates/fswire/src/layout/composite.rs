//! Layouts of several components: progressive files, files with data on the metadata server,
//! mirrors [LAYOUT-4].

use super::{COMPONENTS_MAX, LayoutError, LayoutFault, PlainLayout, magic};
use crate::codec::{Array, Wire, Writer};
use crate::describe::{Describe, Value};

wire_enum! {
    /// The state of the mirrors.
    pub struct CompositeFlags: u16 {
        /// No mirrors.
        NONE = 0, "none";
        /// All mirrors are equal.
        RDONLY = 1, "rdonly";
        /// One mirror is written to.
        WRITE_PENDING = 2, "write_pending";
        /// The mirrors are made equal.
        SYNC_PENDING = 3, "sync_pending";
        /// Read-only in a cache of a client.
        PCC_RDONLY = 8, "pcc_rdonly";
    }
}

wire_flags! {
    /// The state of a component.
    pub struct EntryFlags: u32 {
        /// Another mirror has newer data.
        STALE = 0x1;
        /// Preferred for reading.
        PREF_RD = 0x2;
        /// Preferred for writing.
        PREF_WR = 0x4;
        /// Its servers are down.
        OFFLINE = 0x8;
        /// Its objects exist.
        INIT = 0x10;
        /// Not to be made equal.
        NOSYNC = 0x20;
        /// Space into which the component before it extends.
        EXTENSION = 0x40;
        /// It holds parity.
        PARITY = 0x80;
        /// Compressed.
        COMPRESS = 0x100;
        /// Compressed in part.
        PARTIAL = 0x200;
        /// Not to be compressed.
        NOCOMPR = 0x400;
        /// Request: the flags are to be cleared.
        NEG = 0x8000_0000;
    }
}

wire_struct! {
    /// The head of a composite layout.
    pub struct CompositeHeader [32] {
        /// [`magic::COMPOSITE`] or [`magic::EXTENDING`].
        magic: u32 => hex;
        /// Bytes of the layout.
        size: u32;
        /// The generation.
        generation: u32;
        /// The state of the mirrors.
        flags: CompositeFlags;
        /// The number of components.
        count: u16;
        /// The number of mirrors less one.
        mirrors_more: u16;
        /// The number of components with parity, pad at the end.
        ec_count: u8, pad 13;
    }
}

wire_struct! {
    /// A component: the range that it holds, and where its plain layout stands.
    pub struct ComponentEntry [48] {
        /// The mirror in bits 16 to 30, a number in the low 16; never 0 once a server made it.
        id: u32 => hex;
        /// State.
        flags: EntryFlags;
        /// First byte of the file.
        start: u64;
        /// Behind the last byte; 2^64 - 1 for the end of the file.
        end: u64;
        /// Where its plain layout starts, from the start of the composite one.
        offset: u32;
        /// Bytes of its plain layout.
        size: u32;
        /// The generation.
        generation: u32;
        /// When mirrors were made equal: 48 bits; the mirror it is linked to above.
        timestamp: u64 => hex;
        /// Data stripes of a component with parity.
        ec_data: u8;
        /// Parity stripes.
        ec_code: u8;
        /// Kind of compression.
        compr_kind: u8;
        /// Level of compression.
        compr_level: u8;
    }
}

impl ComponentEntry {
    /// The number of the mirror.
    pub const fn mirror(&self) -> u16 {
        (self.id >> 16 & 0x7fff) as u16
    }
}

/// A component with its plain layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component<'a> {
    /// Range and state.
    pub entry: ComponentEntry,
    /// Its plain layout; none if its data are held elsewhere.
    pub layout: Option<PlainLayout<'a>>,
}

/// A composite layout, whose components were checked to lie within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompositeLayout<'a> {
    /// Its head.
    pub header: CompositeHeader,
    /// The whole layout.
    bytes: &'a [u8],
}

impl<'a> CompositeLayout<'a> {
    /// Reads a composite layout.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn parse(bytes: &'a [u8]) -> Result<CompositeLayout<'a>, LayoutError> {
        let header = CompositeHeader::parse(bytes)?;
        if !matches!(header.magic, magic::COMPOSITE | magic::EXTENDING) {
            return Err(LayoutError::BadMagic(header.magic));
        }
        let bad_size = LayoutError::BadSize { wanted: header.size, have: bytes.len() };
        let bytes = bytes.get(..header.size as usize).ok_or(bad_size)?;
        let count = usize::from(header.count);
        if !(1..=COMPONENTS_MAX).contains(&count) {
            return Err(LayoutError::BadCount(header.count));
        }
        let entries_end = CompositeHeader::SIZE + count * ComponentEntry::SIZE;
        if bytes.len() < entries_end {
            return Err(bad_size);
        }
        let layout = CompositeLayout { header, bytes };
        for (index, entry) in layout.entries().iter().enumerate() {
            let outside = LayoutError::ComponentOutside(index);
            if (entry.offset as usize) < entries_end {
                return Err(outside);
            }
            let part = layout.part(&entry).ok_or(outside)?;
            let word = u32::parse(part)?;
            match word {
                magic::V1 | magic::V3 => {
                    PlainLayout::parse(part)?;
                }
                magic::FOREIGN => {}
                magic => return Err(LayoutError::ComponentMagic { index, magic }),
            }
        }
        Ok(layout)
    }

    /// All bytes of the layout.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Appends the layout: head and components, each part at its place.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.bytes(self.bytes);
    }

    fn entries(&self) -> Array<'a, ComponentEntry> {
        let end = CompositeHeader::SIZE + usize::from(self.header.count) * ComponentEntry::SIZE;
        let bytes = self.bytes.get(CompositeHeader::SIZE..end).unwrap_or_default();
        Array::parse(bytes).unwrap_or_default()
    }

    fn part(&self, entry: &ComponentEntry) -> Option<&'a [u8]> {
        let start = entry.offset as usize;
        self.bytes.get(start..start.checked_add(entry.size as usize)?)
    }

    /// The number of components.
    pub fn len(&self) -> usize {
        usize::from(self.header.count)
    }

    /// Whether there are none, which no layout is that was read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The components in order: by mirror, then by range.
    pub fn components(&self) -> impl ExactSizeIterator<Item = Component<'a>> + use<'a> {
        let layout = *self;
        self.entries().iter().map(move |entry| {
            let part = layout.part(&entry).unwrap_or_default();
            Component { entry, layout: PlainLayout::parse(part).ok() }
        })
    }

    /// The component of a mirror that holds a byte of the file.
    pub fn at(&self, mirror: u16, offset: u64) -> Option<Component<'a>> {
        self.components().find(|component| {
            let entry = &component.entry;
            entry.mirror() == mirror
                && (entry.start..entry.end).contains(&offset)
                && !entry.flags.contains(EntryFlags::EXTENSION)
        })
    }

    /// Checks that data can be read and written by it: ranges in order within each mirror, and
    /// every component whose objects exist fit for the arithmetic of stripes.
    ///
    /// # Errors
    /// [`LayoutFault`].
    pub fn validate(&self) -> Result<(), LayoutFault> {
        let mut before: Option<ComponentEntry> = None;
        for (index, component) in self.components().enumerate() {
            let entry = component.entry;
            if entry.start >= entry.end {
                return Err(LayoutFault::EmptyComponent(index));
            }
            if let Some(before) = before
                && before.mirror() == entry.mirror()
                && entry.start < before.end
            {
                return Err(LayoutFault::Order(index));
            }
            before = Some(entry);
            // The stripe size of an extension is in KiB and used by servers only.
            if entry.flags.contains(EntryFlags::EXTENSION) {
                continue;
            }
            let layout = component.layout.ok_or(LayoutFault::Foreign)?;
            layout.validate(entry.flags.contains(EntryFlags::INIT))?;
        }
        Ok(())
    }

    /// Writes a composite layout from its parts: offsets, sizes and the head's counts are
    /// computed.
    pub fn build(
        header: &CompositeHeader,
        parts: &[(ComponentEntry, PlainLayout<'_>)],
        to: &mut Writer<'_>,
    ) {
        let mut offset = CompositeHeader::SIZE + parts.len() * ComponentEntry::SIZE;
        let end = parts.iter().fold(offset, |end, (_, part)| end + part.len().next_multiple_of(8));
        let count = parts.len() as u16;
        to.put(&CompositeHeader { size: end as u32, count, ..*header });
        for (entry, part) in parts {
            let size = part.len();
            to.put(&ComponentEntry { offset: offset as u32, size: size as u32, ..*entry });
            offset += size.next_multiple_of(8);
        }
        for (_, part) in parts {
            part.write(to);
            to.zeros(part.len().next_multiple_of(8) - part.len());
        }
    }
}

impl Describe for CompositeLayout<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.header.describe() else {
            unreachable!("structures have fields")
        };
        let components = self.components().map(|component| {
            let Value::Fields(mut fields) = component.entry.describe() else {
                unreachable!("structures have fields")
            };
            fields.push(("layout", component.layout.describe()));
            Value::Fields(fields)
        });
        fields.push(("components", Value::List(components.collect())));
        Value::Fields(fields)
    }
}
