//! Logs: headers, chunks, records [MGS-5].

mod changelog;
mod config;
#[cfg(test)]
mod tests;

use crate::codec::{Wire, Writer};
use crate::describe::{Describe, Value};
use crate::text::FixedText;

pub use changelog::{
    Changelog, ChangelogExtra, ChangelogFlags, ChangelogHeader, ChangelogNid, ChangelogRename,
    ChangelogUser,
};
pub use config::{
    CfgBuffers, CfgCommand, CfgError, CfgHeader, LmvDesc, LovDesc, LustreCfg, MARKER_LEN, Marker,
    MarkerFlags,
};

/// Bytes of a chunk: of the header of a log, and of a block that is read.
pub const CHUNK_SIZE: usize = 8192;
/// The shortest record.
pub const RECORD_MIN: usize = RecordHeader::SIZE + RecordTail::SIZE;

wire_struct! {
    /// Names a log.
    pub struct LogId [20] {
        /// As the server chose it.
        id: u64 => hex;
        /// As the server chose it.
        seq: u64 => hex;
        /// Generation.
        ogen: u32;
    }
}

wire_flags! {
    /// The kind of a log.
    pub struct LlogFlags: u32 {
        /// Removed when it is empty.
        ZAP_WHEN_EMPTY = 0x1;
        /// Names other logs.
        CATALOG = 0x2;
        /// Holds records.
        PLAIN = 0x4;
    }
}

wire_struct! {
    /// What requests for logs say, and what their replies answer [MGS-4].
    pub struct LlogBody [48] {
        /// The log; zeros in a request to open one by its name.
        log: LogId;
        /// The context: 0 for configurations, 12 for changelogs.
        ctxt: u32;
        /// The kind of the log.
        flags: LlogFlags;
        /// The record wanted.
        index: u32;
        /// Reply: the last record in the data.
        saved_index: u32;
        /// Bytes wanted.
        len: u32;
        /// Where the data stand in the log.
        cur_offset: u64;
    }
}

wire_enum! {
    /// The type of a record.
    pub struct RecordKind: u32 {
        /// Fills the rest of a chunk.
        PADDING = 0x1060_0000, "padding";
        /// A command of a configuration.
        CONFIG = 0x1062_0000, "config";
        /// A change of metadata.
        CHANGELOG = 0x1066_0000, "changelog";
        /// The header of a log.
        HEADER = 0x1064_5539, "header";
        /// Another log, in a catalog.
        LOGID = 0x1064_553b, "logid";
    }
}

wire_struct! {
    /// The head of a record.
    pub struct RecordHeader [16] {
        /// Bytes of the record with head and tail, a multiple of 8.
        len: u32;
        /// Its number in the log, from 1.
        index: u32;
        /// Its type.
        kind: RecordKind;
        /// Unused.
        id: u32;
    }
}

wire_struct! {
    /// The end of a record.
    pub struct RecordTail [8] {
        /// As in the head.
        len: u32;
        /// As in the head.
        index: u32;
    }
}

/// The header of a log: one chunk [MGS-6].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LlogHeader<'a> {
    /// Its fields.
    pub fields: LlogHeaderFields,
    /// A bit for each record, the lowest bit of the first byte for record 0: set if it is live.
    pub bitmap: &'a [u8],
    /// The number of the last record that was written.
    pub last_index: u32,
}

wire_struct! {
    /// The fields of the header of a log.
    pub struct LlogHeaderFields [88] {
        /// Its head as a record: length [`CHUNK_SIZE`], number 0.
        record: RecordHeader;
        /// When it was made, seconds since 1970.
        timestamp: i64;
        /// Live records and this header.
        count: u32;
        /// Where the bitmap starts: 88.
        bitmap_offset: u32;
        /// The shortest record so far.
        size: u32;
        /// The kind of the log.
        flags: LlogFlags;
        /// Its place in a catalog.
        cat_idx: u32;
        /// What it belongs to.
        tgtuuid: FixedText<40>, pad 4;
    }
}

impl<'a> LlogHeader<'a> {
    /// Reads a header.
    ///
    /// # Errors
    /// [`LlogError`] if it is not a whole chunk.
    pub fn parse(bytes: &'a [u8]) -> Result<LlogHeader<'a>, LlogError> {
        let bytes = bytes.get(..CHUNK_SIZE).ok_or(LlogError::TooShort(bytes.len()))?;
        let short = |_| LlogError::TooShort(bytes.len());
        let (rest, tail) = bytes.split_at(CHUNK_SIZE - RecordTail::SIZE);
        let fields = LlogHeaderFields::parse(rest).map_err(short)?;
        let tail = RecordTail::parse(tail).map_err(short)?;
        let bitmap = &rest[LlogHeaderFields::SIZE..];
        Ok(LlogHeader { fields, bitmap, last_index: tail.index })
    }

    /// Whether a record is live. Others are to be left out.
    pub fn is_live(&self, index: u32) -> bool {
        let byte = self.bitmap.get(index as usize / 8);
        byte.is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }

    /// Appends the header. A bitmap of another length is cut or filled with zeros.
    pub fn write(&self, to: &mut Writer<'_>) {
        const BITMAP_LEN: usize = CHUNK_SIZE - RecordTail::SIZE - LlogHeaderFields::SIZE;
        to.put(&self.fields);
        let bitmap = &self.bitmap[..self.bitmap.len().min(BITMAP_LEN)];
        to.bytes(bitmap);
        to.zeros(BITMAP_LEN - bitmap.len());
        to.put(&RecordTail { len: CHUNK_SIZE as u32, index: self.last_index });
    }
}

impl Describe for LlogHeader<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.fields.describe() else {
            unreachable!("structures have fields")
        };
        let live: u32 = self.bitmap.iter().map(|byte| byte.count_ones()).sum();
        fields.push(("live", live.describe()));
        fields.push(("last_index", self.last_index.describe()));
        Value::Fields(fields)
    }
}

/// Why a chunk cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LlogError {
    /// It is shorter than a chunk.
    #[error("a chunk of {0} bytes")]
    TooShort(usize),
    /// The length of a record is below 24, no multiple of 8, or beyond the chunk.
    #[error("the record at {at} has {len} bytes")]
    BadLength {
        /// Where it starts.
        at: usize,
        /// Its length.
        len: u32,
    },
    /// The end of a record does not repeat length and number.
    #[error("the record at {0} does not end as it starts")]
    BadTail(usize),
}

/// A record of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the log.
    pub index: u32,
    /// Its type.
    pub kind: RecordKind,
    /// Unused.
    pub id: u32,
    /// What stands between head and tail; a multiple of 8 bytes.
    pub payload: &'a [u8],
}

impl Record<'_> {
    /// Bytes with head and tail.
    pub const fn len(&self) -> usize {
        RECORD_MIN + self.payload.len()
    }

    /// Whether there is nothing between head and tail.
    pub const fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Appends the record.
    pub fn write(&self, to: &mut Writer<'_>) {
        let (len, index) = (self.len() as u32, self.index);
        to.put(&RecordHeader { len, index, kind: self.kind, id: self.id });
        to.bytes(self.payload);
        to.put(&RecordTail { len, index });
    }

    /// The log that a record of a catalog names.
    pub fn log_id(&self) -> Option<LogId> {
        (self.kind == RecordKind::LOGID).then(|| LogId::parse(self.payload).ok())?
    }
}

impl Describe for Record<'_> {
    fn describe(&self) -> Value {
        let mut fields = vec![("index", self.index.describe()), ("kind", self.kind.describe())];
        let content = match self.kind {
            RecordKind::CONFIG => {
                LustreCfg::parse(self.payload).map_or_else(Value::text, |config| config.describe())
            }
            RecordKind::CHANGELOG => Changelog::parse(self.payload)
                .map_or_else(Value::text, |changelog| changelog.describe()),
            RecordKind::LOGID => self.log_id().describe(),
            RecordKind::PADDING => Value::Number(self.payload.len() as u64),
            _ => self.payload.describe(),
        };
        fields.push(("content", content));
        Value::Fields(fields)
    }
}

/// Data of a log: records, then zeros [MGS-7].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Chunk<'a>(pub &'a [u8]);

impl<'a> Chunk<'a> {
    /// The records. The iterator ends with the first error.
    pub fn records(&self) -> Records<'a> {
        Records { bytes: self.0, at: 0 }
    }
}

impl core::fmt::Debug for Chunk<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Chunk({} bytes)", self.0.len())
    }
}

impl Describe for Chunk<'_> {
    fn describe(&self) -> Value {
        let records = self.records().map(|record| match record {
            Ok(record) => record.describe(),
            Err(error) => Value::text(error),
        });
        Value::List(records.collect())
    }
}

/// The records of a chunk.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    /// The next record and the bytes behind it; none where only zeros follow.
    fn parse(&self) -> Result<Option<(Record<'a>, &'a [u8])>, LlogError> {
        let Ok(header) = RecordHeader::parse(self.bytes) else { return Ok(None) };
        if header == RecordHeader::default() {
            return Ok(None);
        }
        let bad_length = LlogError::BadLength { at: self.at, len: header.len };
        let len = header.len as usize;
        if len < RECORD_MIN || !len.is_multiple_of(8) {
            return Err(bad_length);
        }
        let (bytes, rest) = self.bytes.split_at_checked(len).ok_or(bad_length)?;
        let (inner, tail) = bytes.split_at(len - RecordTail::SIZE);
        let tail = RecordTail::parse(tail).unwrap_or_default();
        if tail != (RecordTail { len: header.len, index: header.index }) {
            return Err(LlogError::BadTail(self.at));
        }
        let payload = &inner[RecordHeader::SIZE..];
        let (index, kind, id) = (header.index, header.kind, header.id);
        Ok(Some((Record { index, kind, id, payload }, rest)))
    }

    /// What follows the records taken so far.
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, LlogError>;

    fn next(&mut self) -> Option<Result<Record<'a>, LlogError>> {
        match self.parse() {
            Ok(None) => None,
            Ok(Some((record, rest))) => {
                self.at += record.len();
                self.bytes = rest;
                Some(Ok(record))
            }
            Err(error) => {
                self.bytes = &[];
                Some(Err(error))
            }
        }
    }
}
