//! What is dirty in an object and goes to its server in one request.

use core::ops::Range;

use lustrine_fswire::fid::Handle;
use lustrine_fswire::ost::BULK_FRAGMENT;

use super::object::CachedObject;
use crate::client::Caller;

/// Most ranges of one request.
const RANGES_MAX: usize = 256;

/// Dirty ranges for one request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gathered {
    /// In order, at least one, none of them within a page of another.
    pub(super) parts: Vec<Range<u64>>,
    /// The lock that covers all of them; none if no lock covers the first one.
    pub(super) lock: Option<Handle>,
    /// Who has written them.
    pub(super) caller: Caller,
}

/// The numbers of the first and the last page that a range touches.
fn pages(range: &Range<u64>) -> (u64, u64) {
    (range.start / BULK_FRAGMENT, range.end.saturating_sub(1) / BULK_FRAGMENT)
}

impl CachedObject {
    /// What of a range may be sent now, in one request of at most `brw` bytes: what one program
    /// has written, and what is not behind a write that is in flight, since two writes of the same
    /// bytes could change places. A request does not touch a page twice: servers lock pages.
    pub(super) fn gather(&self, range: &Range<u64>, brw: u64) -> Option<Gathered> {
        let mut found: Option<Gathered> = None;
        let (mut bytes, mut fragments) = (0, 0);
        for part in self.data.pages.dirty(range) {
            if self.is_writing(&part) {
                continue;
            }
            let (caller, end) = self.writer_at(&part)?;
            let end = end.min((part.start / brw + 1).saturating_mul(brw));
            let (lock, end) = match self.write_lock_at(&(part.start..end)) {
                Some((lock, end)) => (Some(lock), end),
                None => (None, end),
            };
            let cut = end < part.end;
            let part = part.start..end;
            let (first, last) = pages(&part);
            bytes += end - part.start;
            fragments += last - first + 1;
            match &mut found {
                None => found = Some(Gathered { parts: vec![part], lock, caller }),
                Some(found) => {
                    let before = found.parts.last().map_or(0, |before| pages(before).1);
                    let fits = bytes <= brw && fragments <= brw / BULK_FRAGMENT;
                    let alike = found.lock == lock && found.caller == caller;
                    if !fits || !alike || first <= before || found.parts.len() >= RANGES_MAX {
                        return Some(Gathered {
                            parts: core::mem::take(&mut found.parts),
                            ..*found
                        });
                    }
                    found.parts.push(part);
                }
            }
            // Without a lock nothing is sent.
            if cut || lock.is_none() {
                break;
            }
        }
        found
    }

    /// Who has written the first byte of a range that is dirty, and how far that goes within it.
    fn writer_at(&self, range: &Range<u64>) -> Option<(Caller, u64)> {
        if let Some((run, caller)) = self.data.writers.get_key_value(&range.start) {
            return Some((*caller, run.end.min(range.end)));
        }
        Some((self.data.writer?.caller, range.end))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
mod tests {
    use bytes::Bytes;

    use super::super::object::{Held, Mode, Writer};
    use super::*;
    use crate::attr::FileOwner;
    use crate::few::FewMap;

    const ALICE: Caller = Caller { uid: 1000, gid: 100, ..Caller::ROOT };
    const ALL: Range<u64> = 0..u64::MAX;

    /// An object with dirty ranges under a lock of all of it.
    fn dirty(ranges: &[(Range<u64>, Caller)]) -> CachedObject {
        let mut object = CachedObject::default();
        for (range, caller) in ranges {
            let bytes = Bytes::from(vec![1; (range.end - range.start) as usize]);
            object.data.pages.write(range.start, &bytes);
            let owner = FileOwner { uid: 0, gid: 0, projid: 0 };
            object.was_written_by(range, Writer { caller: *caller, owner });
        }
        let held = Held::new(Mode::Write, ALL, false);
        object.locks.insert(Handle(1), held);
        object
    }

    fn parts(object: &CachedObject, brw: u64) -> Vec<Range<u64>> {
        object.gather(&ALL, brw).map_or(Vec::new(), |gathered| gathered.parts)
    }

    #[test]
    fn ranges_in_pages_of_their_own_go_together() {
        let root = Caller::ROOT;
        let three = [(10..20, root), (4096..4100, root), (20_000..30_000, root)];
        assert_eq!(parts(&dirty(&three), 1 << 20), [10..20, 4096..4100, 20_000..30_000]);
        // The second one is within the page of the first.
        let close = [(10..20, root), (30..40, root), (4096..4100, root)];
        assert_eq!(parts(&dirty(&close), 1 << 20), [10..20]);
        assert_eq!(dirty(&[]).gather(&ALL, 1 << 20), None);
    }

    #[test]
    fn a_request_has_as_much_as_was_negotiated() {
        let root = Caller::ROOT;
        let object = dirty(&[(0..4096, root), (8192..12_288, root), (16_384..20_480, root)]);
        assert_eq!(parts(&object, 4096), [0..4096]);
        assert_eq!(parts(&object, 8192), [0..4096, 8192..12_288]);
        // A range is cut at a multiple of the largest transfer, and nothing follows it.
        let long = dirty(&[(5000..10_000, root), (16_384..16_390, root)]);
        assert_eq!(parts(&long, 8192), [5000..8192]);
        // Bytes are few, and pages are many: a descriptor has 256 of them.
        let bytes: Vec<_> = (0..10).map(|at| (at * 8192..at * 8192 + 1, root)).collect();
        assert_eq!(parts(&dirty(&bytes), 16_384).len(), 4);
        let many: Vec<_> = (0..300).map(|at| (at * 8192..at * 8192 + 1, root)).collect();
        assert_eq!(parts(&dirty(&many), 4 << 20).len(), RANGES_MAX);
    }

    #[test]
    fn what_others_have_written_and_what_is_behind_a_write_goes_by_itself() {
        let mut object = dirty(&[(0..10, Caller::ROOT), (5..9000, ALICE), (20_000..20_001, ALICE)]);
        let first = object.gather(&ALL, 1 << 20).expect("something");
        assert_eq!((first.parts, first.caller), (vec![0..5], Caller::ROOT));
        object.data.pages.clean(0..5);
        let second = object.gather(&ALL, 1 << 20).expect("something");
        assert_eq!((second.parts, second.caller), (vec![5..9000, 20_000..20_001], ALICE));
        object.was_sent(7, &[0..6]);
        assert_eq!(parts(&object, 1 << 20), [20_000..20_001]);
        object.locks = FewMap::default();
        let lost = object.gather(&ALL, 1 << 20).expect("something");
        assert_eq!((lost.parts, lost.lock), (vec![20_000..20_001], None));
    }
}
