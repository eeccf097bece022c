//! A read of a program that waits for bytes.

use core::ops::Range;

use bytes::Bytes;
use lustrine_fswire::fid::Handle;
use rangemap::RangeSet;

use crate::client::{Caller, Done};
use crate::pages::Pages;

/// Bytes of an object.
pub(in crate::client) struct ObjectBytes {
    /// The bytes, as far as the object is known to go.
    pub(in crate::client) bytes: Bytes,
    /// So many from the start are before the end of the object.
    pub(in crate::client) present: u64,
}

/// A read of a program that lacks something.
pub(super) struct ReadOp {
    pub(super) range: Range<u64>,
    pub(super) bytes: Vec<u8>,
    pub(super) missing: RangeSet<u64>,
    pub(super) handle: Handle,
    pub(super) caller: Caller,
    pub(super) done: Done<ObjectBytes>,
}

impl ReadOp {
    /// Copies what is in memory now. What is behind `stored`, the end of the object at the server,
    /// is zeros.
    pub(super) fn advance(&mut self, pages: &Pages, stored: u64) {
        for gap in self.missing.iter().cloned().collect::<Vec<_>>() {
            let at = |position: u64| (position - self.range.start) as usize;
            let bytes = &mut self.bytes[at(gap.start)..at(gap.end)];
            for part in pages.read(&gap, bytes) {
                self.missing.remove(part);
            }
        }
        if stored < self.range.end {
            self.missing.remove(stored.max(self.range.start)..self.range.end);
        }
    }
}
