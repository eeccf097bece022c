//! Numbers of new files, and the owners of sequences.

use std::collections::BTreeMap;

use lustrine_fswire::fid::Fid;

/// The sequences that the client knows.
#[derive(Debug, Default)]
pub(crate) struct Fids {
    /// The next FID of each metadata target's sequence.
    next: BTreeMap<u32, Fid>,
    /// Ranges of sequences by their starts: the end, which is not included, and the target.
    owners: BTreeMap<u64, (u64, u32)>,
}

/// Most ranges that are remembered. A server that names more is asked again.
const OWNERS_MAX: usize = 65536;

impl Fids {
    /// A FID that was never used, of the sequence of a metadata target; none if a new sequence is
    /// needed.
    pub(crate) fn take(&mut self, mdt: u32) -> Option<Fid> {
        let next = self.next.get_mut(&mdt)?;
        if next.oid > Fid::OID_MAX {
            return None;
        }
        let fid = *next;
        next.oid += 1;
        Some(fid)
    }

    /// Takes FIDs from a sequence that a metadata target has given.
    pub(crate) fn give(&mut self, mdt: u32, sequence: u64) {
        self.next.insert(mdt, Fid::new(sequence, 1));
        self.learn(sequence, sequence + 1, mdt);
    }

    /// Notes the owner of a range of sequences.
    pub(crate) fn learn(&mut self, start: u64, end: u64, mdt: u32) {
        if self.owners.len() >= OWNERS_MAX {
            self.owners.clear();
        }
        self.owners.insert(start, (end, mdt));
    }

    /// The metadata target that has a file, if that is known.
    pub(crate) fn mdt_of(&self, fid: Fid) -> Option<u32> {
        let (_, (end, mdt)) = self.owners.range(..=fid.seq).next_back()?;
        (fid.seq < *end).then_some(*mdt)
    }
}
