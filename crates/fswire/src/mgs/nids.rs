//! Tables of the NIDs of targets [MGS-13].

use lustrine_wire::Nid;

use crate::codec::{Reader, Wire, Writer};
use crate::describe::{Describe, Value};

wire_enum! {
    /// The kind of a target.
    pub struct TargetKind: u8 {
        /// Metadata.
        MDT = 1, "mdt";
        /// Objects.
        OST = 2, "ost";
    }
}

wire_enum! {
    /// The form of NIDs.
    pub struct NidForm: u8 {
        /// 8 bytes.
        SHORT = 0, "short";
        /// 20 bytes.
        LONG = 1, "long";
    }
}

wire_struct! {
    /// The head of an entry; the NIDs follow.
    pub struct NidEntryHeader [24] {
        /// Version of the table with this entry.
        version: u64;
        /// How many times the target was mounted.
        instance: u32;
        /// Its index.
        index: u32;
        /// Bytes of the entry, with slack behind the NIDs.
        len: u32;
        /// The kind of the target.
        kind: TargetKind;
        /// The form of the NIDs.
        form: NidForm;
        /// Bytes of a NID: 8 or 20.
        nid_size: u8;
        /// The number of NIDs.
        nid_count: u8;
    }
}

/// Why a table cannot be read on. A client refuses it with EINVAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NidTableError {
    /// The head of an entry does not fit.
    #[error("the table ends within the entry at {0}")]
    Short(usize),
    /// The length of an entry is below that of its NIDs, above a page, or beyond the table.
    #[error("the entry at {at} has {len} bytes")]
    BadLength {
        /// Where it starts.
        at: usize,
        /// Its length.
        len: u32,
    },
    /// An entry has no NIDs.
    #[error("the entry at {0} has no NIDs")]
    NoNids(usize),
    /// NIDs are neither 8 nor 20 bytes long.
    #[error("the entry at {at} has NIDs of {size} bytes")]
    BadNidSize {
        /// Where it starts.
        at: usize,
        /// The size.
        size: u8,
    },
}

/// The largest entry in bytes.
const ENTRY_MAX: usize = 4096;

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NidEntry<'a> {
    /// Its head.
    pub header: NidEntryHeader,
    /// All NIDs.
    raw: &'a [u8],
}

impl<'a> NidEntry<'a> {
    /// An entry with NIDs as bytes, as many as the head says.
    pub const fn new(header: NidEntryHeader, raw: &'a [u8]) -> NidEntry<'a> {
        NidEntry { header, raw }
    }

    /// The NIDs; a NID that no node can have is left out.
    pub fn nids(&self) -> impl Iterator<Item = Nid> + use<'a> {
        self.raw.chunks_exact(usize::from(self.header.nid_size).max(1)).filter_map(|raw| match raw
            .len()
        {
            8 => Some(Nid::from_short(u64::from_le_bytes(raw.try_into().ok()?))),
            _ => Nid::from_long(raw.try_into().ok()?).ok(),
        })
    }

    /// Appends the entry, with zeros as slack.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.header);
        to.bytes(self.raw);
        let used = NidEntryHeader::SIZE + self.raw.len();
        to.zeros((self.header.len as usize).saturating_sub(used));
    }
}

impl Describe for NidEntry<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.header.describe() else {
            unreachable!("structures have fields")
        };
        fields.push(("nids", Value::List(self.nids().map(Value::text).collect())));
        Value::Fields(fields)
    }
}

/// The entries of a table. The iterator ends with the first error.
pub const fn nid_table(bytes: &[u8]) -> NidEntries<'_> {
    NidEntries { bytes, at: 0 }
}

/// The entries of a table.
#[derive(Debug, Clone)]
pub struct NidEntries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> NidEntries<'a> {
    fn parse(&self) -> Result<NidEntry<'a>, NidTableError> {
        let at = self.at;
        let bytes = &self.bytes[at..];
        let mut from = Reader::new(bytes);
        let header: NidEntryHeader = from.value().map_err(|_| NidTableError::Short(at))?;
        if !matches!(header.nid_size, 8 | 20) {
            return Err(NidTableError::BadNidSize { at, size: header.nid_size });
        }
        if header.nid_count == 0 {
            return Err(NidTableError::NoNids(at));
        }
        let nids = usize::from(header.nid_size) * usize::from(header.nid_count);
        let (len, bad) = (header.len as usize, NidTableError::BadLength { at, len: header.len });
        if len < NidEntryHeader::SIZE + nids || len > ENTRY_MAX || len > bytes.len() {
            return Err(bad);
        }
        let raw = from.take(nids).map_err(|_| bad)?;
        Ok(NidEntry { header, raw })
    }
}

impl<'a> Iterator for NidEntries<'a> {
    type Item = Result<NidEntry<'a>, NidTableError>;

    fn next(&mut self) -> Option<Result<NidEntry<'a>, NidTableError>> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let entry = self.parse();
        self.at = match &entry {
            Ok(entry) => self.at + entry.header.len as usize,
            Err(_) => self.bytes.len(),
        };
        Some(entry)
    }
}
