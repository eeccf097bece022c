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
    /// What is there, with its place in the object; what comes later counts. The cache may forget
    /// it meanwhile.
    parts: Vec<(u64, Bytes)>,
    pub(super) missing: RangeSet<u64>,
    pub(super) handle: Handle,
    pub(super) caller: Caller,
    pub(super) done: Done<ObjectBytes>,
}

impl ReadOp {
    pub(super) fn new(
        range: Range<u64>,
        (handle, caller): (Handle, Caller),
        done: Done<ObjectBytes>,
    ) -> ReadOp {
        let mut missing = RangeSet::new();
        if !range.is_empty() {
            missing.insert(range.clone());
        }
        ReadOp { range, parts: Vec::new(), missing, handle, caller, done }
    }

    /// Takes what is in memory now. What is behind `stored`, the end of the object at the server,
    /// is zeros.
    pub(super) fn advance(&mut self, pages: &Pages, stored: u64) {
        for gap in self.missing.iter().cloned().collect::<Vec<_>>() {
            for part in pages.present(&gap) {
                // A part is copied: while it waits for others it does not keep more.
                let shared = pages.whole(&part).filter(|_| part == self.range);
                let bytes = shared.unwrap_or_else(|| pages.copy(&part));
                self.parts.push((part.start, bytes));
                self.missing.remove(part);
            }
        }
        if stored < self.range.end {
            self.missing.remove(stored.max(self.range.start)..self.range.end);
        }
    }

    /// A program has written bytes at a place: the read has all of them, or none.
    pub(super) fn overwrite(&mut self, offset: u64, bytes: &Bytes) {
        let (start, end) = (self.range.start.max(offset), self.range.end);
        let end = end.min(offset + bytes.len() as u64);
        if start < end {
            let within = (start - offset) as usize..(end - offset) as usize;
            self.parts.push((start, bytes.slice(within)));
            self.missing.remove(start..end);
        }
    }

    /// All bytes, which are copied unless they came together. Nothing is missing any more.
    pub(super) fn bytes(&mut self) -> Bytes {
        let len = (self.range.end - self.range.start) as usize;
        match self.parts.as_mut_slice() {
            [(_, bytes)] if bytes.len() == len => core::mem::take(bytes),
            parts => {
                let mut whole = vec![0; len];
                for (place, bytes) in parts {
                    let at = (*place - self.range.start) as usize;
                    whole[at..at + bytes.len()].copy_from_slice(bytes);
                }
                whole.into()
            }
        }
    }
}
