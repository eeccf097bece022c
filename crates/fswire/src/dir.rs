//! Directory pages [MDT-14].

#[cfg(test)]
mod tests;

use crate::codec::{Wire, Writer};
use crate::describe::{Describe, Value};
use crate::fid::Fid;
use crate::mdt::LudaFlags;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;
/// Where a listing continues when there is nothing left.
pub const HASH_END: u64 = 0xffff_ffff_ffff_fffe;
/// Longest name in bytes.
pub const NAME_MAX: usize = 255;

wire_flags! {
    /// State of a page.
    pub struct PageFlags: u32 {
        /// It has no entries.
        EMPTY = 0x1;
        /// The next page starts with the hash of the last entry here, so that entries with this
        /// hash come twice.
        COLLIDE = 0x2;
    }
}

wire_struct! {
    /// The head of a page.
    pub struct PageHeader [24] {
        /// The hash of its first entry, or the one asked for.
        hash_start: u64 => hex;
        /// Where to continue; [`HASH_END`] if there is nothing left.
        hash_end: u64 => hex;
        /// State.
        flags: PageFlags, pad 4;
    }
}

wire_struct! {
    /// The head of an entry; the name follows.
    pub struct EntryHeader [32] {
        /// The FID.
        fid: Fid;
        /// The hash of the name.
        hash: u64 => hex;
        /// Bytes to the next entry; 0 in the last one.
        reclen: u16;
        /// Bytes of the name.
        namelen: u16;
        /// What the entry holds.
        attrs: LudaFlags;
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its head.
    pub header: EntryHeader,
    /// The name, 1 to 255 bytes, without zero bytes or slashes.
    pub name: &'a [u8],
    /// The type as in the mode of a file, if the server could say.
    pub file_type: Option<u16>,
}

/// Why a page is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DirError {
    /// The data are not a whole number of pages.
    #[error("{0} bytes are not a whole number of directory pages")]
    BadLength(usize),
    /// An entry does not end within the page.
    #[error("the entry at {0} does not end within its page")]
    EntryTooLong(usize),
    /// The name of an entry is empty, too long, or has a zero byte or a slash.
    #[error("the entry at {0} has a name that no file can have")]
    BadName(usize),
    /// The next entry starts within this one.
    #[error("the entry at {0} is longer than the distance to the next one")]
    BadReclen(usize),
}

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<'a> {
    bytes: &'a [u8; PAGE_SIZE],
    /// Its head.
    pub header: PageHeader,
}

impl<'a> Page<'a> {
    /// Reads the head of a page.
    pub fn new(bytes: &'a [u8; PAGE_SIZE]) -> Page<'a> {
        let header = PageHeader::parse(bytes).unwrap_or_default();
        Page { bytes, header }
    }

    /// Its entries. The iterator ends with the first error.
    pub fn entries(&self) -> Entries<'a> {
        let empty = self.header.flags.contains(PageFlags::EMPTY);
        Entries { bytes: self.bytes, at: (!empty).then_some(PageHeader::SIZE) }
    }
}

/// The pages of a transfer.
///
/// # Errors
/// [`DirError::BadLength`] if the bytes are not a whole number of pages.
pub fn pages(bytes: &[u8]) -> Result<impl ExactSizeIterator<Item = Page<'_>>, DirError> {
    match bytes.as_chunks() {
        (pages, []) => Ok(pages.iter().map(Page::new)),
        _ => Err(DirError::BadLength(bytes.len())),
    }
}

/// The entries of a page.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    bytes: &'a [u8; PAGE_SIZE],
    at: Option<usize>,
}

/// Where the word with the type stands in an entry.
fn type_at(namelen: usize) -> usize {
    EntryHeader::SIZE + namelen.next_multiple_of(2)
}

/// The length of an entry with a type, up to the next one.
pub const fn reclen(namelen: usize) -> usize {
    ((EntryHeader::SIZE + namelen + 1).next_multiple_of(2) + 2).next_multiple_of(8)
}

impl<'a> Entries<'a> {
    fn parse(&self, at: usize) -> Result<Entry<'a>, DirError> {
        let too_long = DirError::EntryTooLong(at);
        let bytes = self.bytes.get(at..).ok_or(too_long)?;
        let header = EntryHeader::parse(bytes).map_err(|_| too_long)?;
        let namelen = usize::from(header.namelen);
        let name = bytes.get(EntryHeader::SIZE..EntryHeader::SIZE + namelen).ok_or(too_long)?;
        if name.is_empty() || namelen > NAME_MAX || name.iter().any(|byte| b"\0/".contains(byte)) {
            return Err(DirError::BadName(at));
        }
        let mut len = EntryHeader::SIZE + namelen;
        let mut file_type = None;
        if header.attrs.contains(LudaFlags::TYPE) {
            let word = type_at(namelen);
            file_type = Some(u16::parse(bytes.get(word..).ok_or(too_long)?).map_err(|_| too_long)?);
            len = word + 2;
        }
        let reclen = usize::from(header.reclen);
        if reclen != 0 && reclen < len {
            return Err(DirError::BadReclen(at));
        }
        if reclen > bytes.len() {
            return Err(too_long);
        }
        Ok(Entry { header, name, file_type })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, DirError>;

    fn next(&mut self) -> Option<Result<Entry<'a>, DirError>> {
        let at = self.at.take()?;
        let entry = self.parse(at);
        if let Ok(Entry { header: EntryHeader { reclen: len @ 1.., .. }, .. }) = entry {
            self.at = Some(at + usize::from(len));
        }
        Some(entry)
    }
}

/// Builds a page.
#[derive(Debug)]
pub struct PageBuilder {
    bytes: Vec<u8>,
    /// Where the last entry starts.
    last: Option<usize>,
    hash_start: u64,
}

impl PageBuilder {
    /// A page whose entries start at a hash.
    pub fn new(hash_start: u64) -> PageBuilder {
        let mut bytes = Vec::with_capacity(PAGE_SIZE);
        bytes.resize(PageHeader::SIZE, 0);
        PageBuilder { bytes, last: None, hash_start }
    }

    /// Adds an entry with its type, if there is room for it; whether there was.
    ///
    /// # Panics
    /// If the name is empty or longer than [`NAME_MAX`].
    pub fn push(&mut self, fid: Fid, hash: u64, name: &[u8], file_type: u16) -> bool {
        assert!((1..=NAME_MAX).contains(&name.len()), "a name of {} bytes", name.len());
        let start = self.bytes.len();
        let len = reclen(name.len());
        if start + len > PAGE_SIZE {
            return false;
        }
        let attrs = LudaFlags::FID | LudaFlags::TYPE | LudaFlags::HASH64;
        let header =
            EntryHeader { fid, hash, reclen: len as u16, namelen: name.len() as u16, attrs };
        let mut to = Writer::new(&mut self.bytes);
        to.put(&header);
        to.bytes(name);
        self.bytes.resize(start + type_at(name.len()), 0);
        Writer::new(&mut self.bytes).put(&file_type);
        self.bytes.resize(start + len, 0);
        self.last = Some(start);
        true
    }

    /// The page. `hash_end` is where the listing continues.
    pub fn finish(mut self, hash_end: u64, collide: PageFlags) -> [u8; PAGE_SIZE] {
        let mut flags = collide & PageFlags::COLLIDE;
        match self.last {
            // The last entry says so with a length of 0.
            Some(start) => self.bytes[start + 24..start + 26].fill(0),
            None => flags |= PageFlags::EMPTY,
        }
        let header = PageHeader { hash_start: self.hash_start, hash_end, flags };
        self.bytes.splice(..PageHeader::SIZE, header.to_bytes());
        let mut page = [0; PAGE_SIZE];
        page[..self.bytes.len()].copy_from_slice(&self.bytes);
        page
    }
}

/// Describes all pages of a transfer.
pub fn describe(bytes: &[u8]) -> Value {
    let pages = match pages(bytes) {
        Ok(pages) => pages,
        Err(error) => return Value::text(error),
    };
    Value::List(
        pages
            .map(|page| {
                let Value::Fields(mut fields) = page.header.describe() else {
                    unreachable!("structures have fields")
                };
                let entries = page.entries().map(|entry| match entry {
                    Ok(entry) => entry.describe(),
                    Err(error) => Value::text(error),
                });
                fields.push(("entries", Value::List(entries.collect())));
                Value::Fields(fields)
            })
            .collect(),
    )
}

impl Describe for Entry<'_> {
    fn describe(&self) -> Value {
        Value::Fields(vec![
            ("name", Value::escaped(self.name)),
            ("fid", self.header.fid.describe()),
            ("hash", self.header.hash.describe().hex()),
            ("reclen", self.header.reclen.describe()),
            ("attrs", self.header.attrs.describe()),
            ("type", self.file_type.unwrap_or_default().describe().octal()),
        ])
    }
}
