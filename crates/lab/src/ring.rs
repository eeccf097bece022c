//! Memory of packets that are in flight: a ring of bytes, filled in order and freed when every
//! packet before is free.

use std::collections::VecDeque;

use crate::packet::READ_MAX;

/// The place of one read in a ring, by its number.
pub(crate) type Slot = u64;

#[derive(Debug)]
struct Record {
    start: usize,
    len: usize,
    /// Parts of it that are in flight.
    users: u32,
}

/// Bytes of reads in their order. Its memory is not touched, and so takes no room in RAM, before
/// it is used.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    /// Where the next read goes.
    head: usize,
    records: VecDeque<Record>,
    /// Number of the first record.
    base: Slot,
}

impl Ring {
    /// Memory for this many bytes, and at least for two reads.
    pub(crate) fn new(bytes: usize) -> Ring {
        let bytes = bytes.max(2 * READ_MAX);
        Ring { bytes: vec![0; bytes], head: 0, records: VecDeque::new(), base: 0 }
    }

    /// Memory for one more read, of any length, if there is some.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        let start = self.start()?;
        Some(&mut self.bytes[start..start + READ_MAX])
    }

    /// Where a read of any length can go.
    fn start(&self) -> Option<usize> {
        let Some(first) = self.records.front() else { return Some(0) };
        let tail = first.start;
        // A ring whose head has come to its tail is full: records are never empty.
        if self.head > tail {
            if self.bytes.len() - self.head >= READ_MAX {
                return Some(self.head);
            }
            return (tail >= READ_MAX).then_some(0);
        }
        (tail - self.head >= READ_MAX).then_some(self.head)
    }

    /// Keeps the bytes that are now at the beginning of [`Ring::room`], for so many users.
    ///
    /// # Panics
    /// When there was no room, or nobody uses it.
    pub(crate) fn keep(&mut self, len: usize, users: u32) -> Slot {
        let slot = self.next();
        assert!(len <= READ_MAX && len > 0 && users > 0, "a read of {len} bytes");
        let start = self.start().expect("there was room");
        self.records.push_back(Record { start, len, users });
        self.head = start + len;
        slot
    }

    /// The place of the next read that is kept.
    pub(crate) fn next(&self) -> Slot {
        self.base + self.records.len() as u64
    }

    fn index(&self, slot: Slot) -> usize {
        usize::try_from(slot - self.base).expect("it is in memory")
    }

    /// The bytes of a read.
    pub(crate) fn bytes(&self, slot: Slot) -> &[u8] {
        let record = &self.records[self.index(slot)];
        &self.bytes[record.start..record.start + record.len]
    }

    /// One user less.
    pub(crate) fn release(&mut self, slot: Slot) {
        let index = self.index(slot);
        let record = &mut self.records[index];
        assert!(record.users > 0, "released more often than used");
        record.users -= 1;
        while self.records.front().is_some_and(|record| record.users == 0) {
            self.records.pop_front();
            self.base += 1;
        }
        if self.records.is_empty() {
            self.head = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_ring_has_no_room_until_its_first_read_is_released() {
        let mut ring = Ring::new(0);
        let first = ring.keep(READ_MAX, 1);
        let second = ring.keep(READ_MAX, 1);
        assert!(ring.room().is_none());
        ring.release(second);
        assert!(ring.room().is_none());
        ring.release(first);
        assert!(ring.room().is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every read keeps its bytes whatever is kept and released around it.
        #[test]
        fn reads_keep_their_bytes(
            steps in vec((any::<bool>(), 1usize..READ_MAX, any::<u8>()), 1..100),
            size in 0usize..400_000,
        ) {
            let mut ring = Ring::new(size);
            let mut model: Vec<(Slot, usize, u8)> = Vec::new();
            for (keep, len, fill) in steps {
                if keep {
                    if let Some(room) = ring.room() {
                        prop_assert_eq!(room.len(), READ_MAX);
                        room[..len].fill(fill);
                        model.push((ring.keep(len, 1), len, fill));
                    } else {
                        prop_assert!(!model.is_empty(), "an empty ring has room");
                    }
                } else if !model.is_empty() {
                    let (slot, ..) = model.remove(len % model.len());
                    ring.release(slot);
                }
                for (slot, len, fill) in &model {
                    let bytes = ring.bytes(*slot);
                    prop_assert_eq!(bytes.len(), *len);
                    prop_assert!(bytes.iter().step_by(97).all(|byte| byte == fill));
                    prop_assert_eq!(bytes.last(), Some(fill));
                }
            }
        }
    }
}
