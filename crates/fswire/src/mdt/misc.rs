//! Smaller structures of metadata requests.

use crate::codec::{Reader, Wire};
use crate::fid::{Fid, Handle};
use crate::text::{FixedText, Text};

wire_struct! {
    /// The handle that a close gives back [MDT-11].
    pub struct MdtEpoch [24] {
        /// Of the open file.
        open_handle: Handle, pad 16;
    }
}

wire_struct! {
    /// What a close does besides closing [MDT-11].
    pub struct CloseData [96] {
        /// Handle of the lease.
        handle: Handle;
        /// The other file.
        fid: Fid;
        /// Version of the data that the caller saw.
        data_version: u64 => hex;
        /// By the bias of the record.
        rest: [u64; 8] => hex;
    }
}

wire_flags! {
    /// The state of a file in an archive [MDT-16].
    pub struct HsmStates: u32 {
        /// A copy is in the archive.
        EXISTS = 0x1;
        /// The copy is old.
        DIRTY = 0x2;
        /// Data are in the archive only.
        RELEASED = 0x4;
        /// The copy is whole.
        ARCHIVED = 0x8;
        /// May not be released.
        NORELEASE = 0x10;
        /// May not be archived.
        NOARCHIVE = 0x20;
        /// The copy is lost.
        LOST = 0x40;
        /// In a writable cache of a client.
        PCCRW = 0x80;
        /// In a read-only cache of a client.
        PCCRO = 0x100;
    }
}

wire_struct! {
    /// Flags of an exchange of layouts. Newer releases send more bytes.
    pub struct SwapLayouts [8] {
        /// Flags.
        flags: u64 => hex;
    }
}

/// The key, and the value, of the path of a FID [MDT-16].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FidPath<'a> {
    /// The file, or in a reply the directory that the path starts from.
    pub fid: Fid,
    /// A record number; -1 for none.
    pub recno: u64,
    /// Which of the names; in a reply the next one.
    pub linkno: u32,
    /// Room for the path in bytes.
    pub room: u32,
    /// Request: the root, 16 bytes. Reply: the path.
    pub rest: &'a [u8],
}

impl<'a> FidPath<'a> {
    /// The name of the key, filled to 16 bytes.
    pub const KEY: FixedText<16> = FixedText(*b"fid2path\0\0\0\0\0\0\0\0");

    /// Reads a key, if it is this one.
    pub fn parse_key(key: &'a [u8]) -> Option<FidPath<'a>> {
        let (name, rest) = key.split_at_checked(16)?;
        if name != FidPath::KEY.0 { None } else { FidPath::parse_value(rest) }
    }

    /// Reads a value.
    pub fn parse_value(value: &'a [u8]) -> Option<FidPath<'a>> {
        let mut from = Reader::new(value);
        Some(FidPath {
            fid: from.value().ok()?,
            recno: from.value().ok()?,
            linkno: from.value().ok()?,
            room: from.value().ok()?,
            rest: from.rest(),
        })
    }

    /// Reply: the path, up to the zero byte.
    pub fn path(&self) -> Text<'a> {
        let end = self.rest.iter().position(|&byte| byte == 0).unwrap_or(self.rest.len());
        Text::new(&self.rest[..end])
    }

    /// Request: the directory that the path shall start from.
    pub fn root(&self) -> Option<Fid> {
        Fid::parse(self.rest).ok()
    }
}
