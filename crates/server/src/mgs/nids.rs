//! Where the targets of a file system are, and how often they were started [MGS-13].

use std::collections::BTreeMap;

use lustrine_fswire::codec::{Wire, Writer};
use lustrine_fswire::mgs::{ConfigRes, NidEntry, NidEntryHeader, NidForm, TargetKind};
use lustrine_fswire::opcode::Target;
use lustrine_wire::nid::Nid;

use super::FsTarget;

/// The table of a file system.
#[derive(Clone, Debug)]
pub(super) struct NidTable {
    /// The version of the last change.
    version: u64,
    entries: BTreeMap<(u8, u32), Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    version: u64,
    instance: u32,
    nids: Vec<Nid>,
}

impl Default for NidTable {
    /// A new table has version 2.
    fn default() -> NidTable {
        NidTable { version: 2, entries: BTreeMap::new() }
    }
}

impl NidTable {
    /// A target says where it is.
    pub(super) fn set(&mut self, target: &FsTarget, instance: u32) {
        let kind = match target.kind {
            Target::Ost => TargetKind::OST,
            Target::Mdt | Target::Mgs => TargetKind::MDT,
        };
        self.version += 1;
        let entry = Entry { version: self.version, instance, nids: target.nids.clone() };
        self.entries.insert((kind.0, target.index), entry);
    }

    /// The entries from a version on, as far as there is room: bytes in all, and of a unit, which
    /// no entry crosses.
    pub(super) fn read(
        &self,
        from: u64,
        long: bool,
        (room, unit): (u64, u64),
    ) -> (Vec<u8>, ConfigRes) {
        let mut wanted: Vec<(&(u8, u32), &Entry)> =
            self.entries.iter().filter(|(_, entry)| entry.version >= from).collect();
        wanted.sort_unstable_by_key(|(_, entry)| entry.version);
        let mut bytes: Vec<u8> = Vec::new();
        let (mut offset, mut last_at, mut is_cut) = (0, None, false);
        for (place, entry) in wanted {
            let entry_bytes = encode(*place, entry, long);
            let Some(entry_bytes) = entry_bytes else { continue };
            let (at, len) = (bytes.len() as u64, entry_bytes.len() as u64);
            let mut start = at;
            if at % unit + len > unit {
                start = (at / unit + 1) * unit;
            }
            if start + len > room {
                is_cut = true;
                break;
            }
            if let Some(last) = last_at.filter(|_| start > at) {
                stretch(&mut bytes, last, start as usize);
            }
            last_at = Some(bytes.len());
            bytes.extend(entry_bytes);
            offset = entry.version;
        }
        let size = self.version;
        (bytes, ConfigRes { offset: if is_cut { offset } else { size }, size })
    }
}

/// An entry; none if no NID has a form that the client understands.
fn encode((kind, index): (u8, u32), entry: &Entry, long: bool) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    let mut count = 0u8;
    for nid in entry.nids.iter().take(32) {
        match (long, nid.to_short()) {
            (true, _) => raw.extend(nid.to_long()),
            (false, Some(short)) => raw.extend(short.to_le_bytes()),
            (false, None) => continue,
        }
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let header = NidEntryHeader {
        version: entry.version,
        instance: entry.instance,
        index,
        len: (NidEntryHeader::SIZE + raw.len()) as u32,
        kind: TargetKind(kind),
        form: if long { NidForm::LONG } else { NidForm::SHORT },
        nid_size: if long { 20 } else { 8 },
        nid_count: count,
    };
    let mut bytes = Vec::new();
    NidEntry::new(header, &raw).write(&mut Writer::new(&mut bytes));
    Some(bytes)
}

/// Lets the entry at a place reach to `end`.
fn stretch(bytes: &mut Vec<u8>, at: usize, end: usize) {
    bytes.resize(end, 0);
    let len = (end - at) as u32;
    bytes[at + 16..at + 20].copy_from_slice(&len.to_le_bytes());
}
