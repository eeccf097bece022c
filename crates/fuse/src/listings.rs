//! Parts of directories that are kept between the requests of a listing.

use std::collections::BTreeMap;

use lustrine_client::{DirEntry, DirPage};

/// Most bytes of all parts that are kept.
const LIMIT: u64 = 32 << 20;

/// Which open directories keep a part, and how many bytes it has. The part that was read first goes
/// first: it is read again if its listing goes on.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    bytes: u64,
    reads: u64,
    /// By the number of the read: the handle and the bytes.
    by_read: BTreeMap<u64, (u64, u64)>,
    by_handle: BTreeMap<u64, u64>,
}

impl Listings {
    /// An open directory keeps a part of so many bytes, or none. The outcome is those that have to
    /// drop theirs.
    pub(crate) fn keep(&mut self, handle: u64, bytes: u64) -> Vec<u64> {
        self.forget(handle);
        let mut dropped = Vec::new();
        if bytes == 0 {
            return dropped;
        }
        while self.bytes.saturating_add(bytes) > LIMIT {
            let Some((oldest, _)) = self.by_read.first_key_value().map(|(_, part)| *part) else {
                break;
            };
            self.forget(oldest);
            dropped.push(oldest);
        }
        self.reads += 1;
        self.bytes += bytes;
        self.by_read.insert(self.reads, (handle, bytes));
        self.by_handle.insert(handle, self.reads);
        dropped
    }

    fn forget(&mut self, handle: u64) {
        let read = self.by_handle.remove(&handle);
        if let Some((_, bytes)) = read.and_then(|read| self.by_read.remove(&read)) {
            self.bytes -= bytes;
        }
    }
}

/// The position behind the last entry.
pub(crate) const END: u64 = i64::MAX as u64;

/// The position that leads to entries with a hash. Position 0 is the start, whatever is there.
fn position_of(hash: u64) -> u64 {
    match hash.saturating_add(1) {
        position if position < END => position,
        position => position.saturating_add(1),
    }
}

/// The hash that a position leads to.
pub(crate) fn hash_of(position: u64) -> u64 {
    match position < END {
        true => position.saturating_sub(1),
        false => position.saturating_sub(2),
    }
}

/// The part of a directory that was read last, and where its listing is.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// The entries that are not yet listed start here.
    at: usize,
    /// The position that leads to the entry at `at`.
    position: u64,
    /// How many entries at this position were listed before the part was dropped.
    listed: usize,
    /// The entries.
    entries: Vec<DirEntry>,
    /// Where the part behind it starts; none at the end.
    next: Option<u64>,
}

impl Part {
    /// Whether the listing goes on at a position without a request. From the start everything is
    /// read again.
    pub(crate) fn goes_on(&self, position: u64) -> bool {
        position != 0 && position == self.position && self.at < self.entries.len()
    }

    /// Takes what was read from a position on.
    pub(crate) fn take(&mut self, position: u64, page: DirPage) {
        // A seek to the same position, without a drop in between, has every entry there again.
        let listed = if position == self.position { self.listed } else { 0 };
        let is_there = |entry: &&DirEntry| position_of(entry.hash) == position;
        let there = page.entries.iter().take_while(is_there).count();
        self.at = listed.min(there);
        (self.position, self.listed) = (position, 0);
        (self.entries, self.next) = (page.entries, page.next);
    }

    /// The next entry, and the position behind it.
    pub(crate) fn next(&self) -> Option<(&DirEntry, u64)> {
        let entry = self.entries.get(self.at)?;
        let next = match self.entries.get(self.at + 1) {
            Some(next) => position_of(next.hash),
            None => self.next.map_or(END, position_of),
        };
        Some((entry, next))
    }

    /// The next entry is listed.
    pub(crate) fn advance(&mut self) {
        let Some((_, next)) = self.next() else { return };
        self.position = next;
        self.at += 1;
        if self.at == self.entries.len() {
            // What is behind it begins with another hash.
            (self.at, self.entries) = (0, Vec::new());
        }
    }

    /// Drops the entries. A listing that goes on reads them again.
    pub(crate) fn clear(&mut self) {
        if !self.entries.is_empty() {
            let before = self.entries.get(..self.at).unwrap_or_default();
            let is_there = |entry: &&DirEntry| position_of(entry.hash) == self.position;
            self.listed = before.iter().filter(is_there).count();
        }
        (self.at, self.entries) = (0, Vec::new());
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        /// What the allocator adds to a name.
        const OVERHEAD: usize = 16;
        let bytes = |entry: &DirEntry| size_of::<DirEntry>() + entry.name.len() + OVERHEAD;
        self.entries.iter().map(bytes).sum::<usize>() as u64
    }
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::fid::Fid;

    use super::*;

    /// A directory of entries with these hashes, in parts that end with a hash.
    fn read(hashes: &[u64], from: u64) -> DirPage {
        let name = |at: usize| at.to_string().into_bytes();
        let fid = Fid::new(1 << 34, 1);
        let entries = hashes.iter().enumerate().filter(|(_, hash)| **hash >= from);
        let entry = |(at, hash): (usize, &u64)| DirEntry {
            name: name(at),
            fid,
            hash: *hash,
            file_type: None,
        };
        let mut entries: Vec<DirEntry> = entries.map(entry).collect();
        let next = entries.get(6).map(|entry| entry.hash).filter(|hash| *hash != entries[0].hash);
        if let Some(next) = next {
            entries.retain(|entry| entry.hash < next);
        }
        DirPage { entries, next }
    }

    /// Parts are dropped at all moments, also between names with one hash.
    #[test]
    fn a_listing_has_each_name_once_whatever_is_dropped() {
        let hashes = [0, 0, 0, 0, 2, 5, 5, 5, 5, 7, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9, 12];
        for room in 1..5 {
            for drops in 0..32u32 {
                let (mut part, mut position, mut requests) = (Part::default(), 0, 0);
                let mut names = Vec::new();
                while position != END {
                    if !part.goes_on(position) {
                        part.take(position, read(&hashes, hash_of(position)));
                    }
                    for _ in 0..room {
                        let Some((entry, next)) = part.next() else { break };
                        names.push(String::from_utf8_lossy(&entry.name).into_owned());
                        position = next;
                        part.advance();
                    }
                    if drops >> (requests % 5) & 1 == 1 {
                        part.clear();
                    }
                    requests += 1;
                    assert!(requests < 100);
                }
                let all: Vec<String> = (0..hashes.len()).map(|at| at.to_string()).collect();
                assert_eq!(names, all, "{room} {drops:#b}");
            }
        }
    }

    #[test]
    fn positions_are_neither_the_start_nor_the_end() {
        let largest = u64::MAX - 2;
        for hash in [0, 1, 5, END - 3, END - 2, END - 1, END, END + 1, largest] {
            let position = position_of(hash);
            assert!(position != 0 && position != END, "{hash:#x}");
            assert_eq!(hash_of(position), hash);
        }
        assert_eq!(hash_of(0), 0);
    }

    #[test]
    fn a_seek_has_every_entry_of_its_hash() {
        let mut part = Part::default();
        part.take(0, read(&[5, 5, 5, 6], 0));
        part.advance();
        part.clear();
        part.take(6, read(&[5, 5, 5, 6], 5));
        assert_eq!(part.next().map(|(entry, _)| entry.name.clone()), Some(b"1".to_vec()));
        part.take(6, read(&[5, 5, 5, 6], 5));
        assert_eq!(part.next().map(|(entry, _)| entry.name.clone()), Some(b"0".to_vec()));
        assert!(part.bytes() > 4 * 56);
    }

    #[test]
    fn the_parts_that_are_kept_are_bounded() {
        let mut listings = Listings::default();
        let part = LIMIT / 4;
        for handle in 1..=4 {
            assert!(listings.keep(handle, part).is_empty());
        }
        // A directory whose next part is read counts as read last.
        assert!(listings.keep(1, part).is_empty());
        assert_eq!(listings.keep(5, part), [2]);
        assert_eq!(listings.keep(6, 2 * part), [3, 4]);
        assert_eq!(listings.bytes, LIMIT);
        for handle in 0..100 {
            assert!(listings.keep(handle, 0).is_empty());
        }
        assert_eq!(listings.bytes, 0);
        assert!(listings.by_read.is_empty() && listings.by_handle.is_empty());
    }

    #[test]
    fn one_part_is_always_kept() {
        let mut listings = Listings::default();
        listings.keep(1, 1);
        assert_eq!(listings.keep(2, LIMIT + 1), [1]);
        assert_eq!(listings.keep(3, 1), [2]);
    }
}
