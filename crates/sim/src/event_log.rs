//! The events of a run, as a hash and, for the last part, as entries.

use std::collections::VecDeque;

use lustrine_lnet::time::Time;

use crate::host_id::HostId;

/// Entries that are kept for inspection.
const KEPT: usize = 4096;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum EventKind {
    /// A host dialled; the value is the remote port.
    Dialled = 1,
    /// A stream arrived at a listener; the value is the remote port.
    Arrived,
    /// A dial was answered.
    Established,
    /// A dial failed; the value says how.
    Failed,
    /// Bytes arrived; the value is a digest of them.
    Bytes,
    /// The other side closed its half.
    Ended,
    /// The stream broke.
    Reset,
    /// A host closed its end.
    Closed,
    /// A host had its turn; the value is the number of its reports.
    Turn,
    /// A probe ended; the value is its ticket.
    Result,
    /// A host crashed or lost power.
    Died,
    /// A host started.
    Born,
    /// A whole message arrived; the value is a digest of its payload, `end` identifies it.
    Message,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The time.
    pub at: Time,
    /// The host.
    pub host: HostId,
    /// The stream's end, if the event concerns one; otherwise 0.
    pub end: u64,
    /// The kind of event.
    pub what: EventKind,
    /// A value of the kind, see [`EventKind`].
    pub value: u64,
}

/// All events of a world, folded into one number.
///
/// Two runs with equal hashes did the same things at the same times in the same order.
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    hash: u64,
    count: u64,
    last: VecDeque<LogEntry>,
}

impl EventLog {
    /// The hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of events in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last few thousand events.
    pub fn last(&self) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.last.iter()
    }

    pub(crate) fn note(&mut self, entry: LogEntry) {
        self.hash = fold(self.hash, &entry);
        self.keep(entry);
    }

    /// Records an event whose order relative to events of other hosts does not matter.
    pub(crate) fn note_apart(&mut self, entry: LogEntry) {
        self.hash = self.hash.wrapping_add(fold(0, &entry));
        self.keep(entry);
    }

    fn keep(&mut self, entry: LogEntry) {
        self.count += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(entry);
    }
}

fn fold(hash: u64, entry: &LogEntry) -> u64 {
    let words = [entry.at.0, u64::from(entry.host.0), entry.end, entry.what as u64, entry.value];
    words.into_iter().fold(hash, mix)
}

pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: u64, value: u64) -> LogEntry {
        LogEntry { at: Time(at), host: HostId(1), end: 2, what: EventKind::Bytes, value }
    }

    #[test]
    fn the_hash_depends_on_content_and_sequence() {
        let hash = |entries: &[LogEntry]| {
            let mut trace = EventLog::default();
            entries.iter().for_each(|entry| trace.note(*entry));
            trace.hash()
        };
        let (one, two) = (entry(1, 1), entry(2, 1));
        assert_eq!(hash(&[one, two]), hash(&[one, two]));
        assert_ne!(hash(&[one, two]), hash(&[two, one]));
        assert_ne!(hash(&[one]), hash(&[entry(1, 2)]));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut trace = EventLog::default();
        (0..10_000).for_each(|at| trace.note(entry(at, 0)));
        assert_eq!((trace.count(), trace.last().count()), (10_000, KEPT));
        assert_eq!(trace.last().next_back().unwrap().at, Time(9999));
    }
}
