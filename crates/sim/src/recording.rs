//! The journals of all nodes, merged, to show what happened to each message.

use std::collections::{BTreeMap, VecDeque};

use lustrine_lnet::journal::Entry;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::{Driver, Partition};
use lustrine_wire::nid::Nid;

/// One run of one CPU partition of a node: message numbers have no meaning outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordSource {
    /// The node's first NID.
    pub nid: Nid,
    /// The CPU partition.
    pub cpt: u16,
    /// The number of the node's run, from 0.
    pub boot: u32,
}

/// What to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFilter {
    /// The largest number of entries that are kept, about 100 bytes each: the newest ones.
    pub limit: usize,
    /// Nothing before this time is recorded.
    pub from: Nanos,
    /// Nothing after this time is recorded.
    pub until: Nanos,
}

impl RecordFilter {
    /// The newest entries of the whole run.
    pub fn newest(limit: usize) -> RecordFilter {
        RecordFilter { limit, from: Nanos::ZERO, until: Nanos(u64::MAX) }
    }
}

/// A source of journal entries in a [`Recorder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceId(u32);

/// The recorded entries.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// When the recorder began.
    pub begin: Time,
    /// Entries ordered by time; those of one source in the order in which they were made.
    pub entries: Vec<(RecordSource, Entry)>,
    /// Entries that were dropped because there were too many: the oldest ones.
    pub dropped: u64,
    /// Entries outside of the requested time.
    pub outside: u64,
}

/// Keeps the newest entries of all journals, up to its limit.
#[derive(Debug)]
pub(crate) struct Recorder {
    begin: Time,
    wanted: RecordFilter,
    sources: Vec<RecordSource>,
    entries: VecDeque<(SourceId, Entry)>,
    dropped: u64,
    outside: u64,
    /// How often each partition has started: the next run number.
    boots: BTreeMap<(Nid, u16), u32>,
}

impl Recorder {
    /// Keeps at most the requested number of entries, and at least 1.
    pub(crate) fn new(begin: Time, wanted: RecordFilter) -> Recorder {
        let wanted = RecordFilter { limit: wanted.limit.max(1), ..wanted };
        let (sources, entries) = (Vec::new(), VecDeque::new());
        Recorder { begin, wanted, sources, entries, dropped: 0, outside: 0, boots: BTreeMap::new() }
    }

    /// Lets a partition that just started keep a journal.
    pub(crate) fn join<D: Driver>(
        &mut self,
        nid: Nid,
        cpt: u16,
        partition: &mut Partition<D>,
    ) -> SourceId {
        partition.enable_journal();
        let boots = self.boots.entry((nid, cpt)).or_default();
        self.sources.push(RecordSource { nid, cpt, boot: *boots });
        *boots += 1;
        SourceId(self.sources.len() as u32 - 1)
    }

    /// Takes the journal of a partition.
    pub(crate) fn take<D: Driver>(&mut self, id: SourceId, partition: &mut Partition<D>) {
        while let Some(entry) = partition.next_journal_entry() {
            self.keep(id, entry);
        }
        // A turn can have more entries than a journal keeps.
        self.dropped += partition.take_journal_overflow();
    }

    fn keep(&mut self, id: SourceId, entry: Entry) {
        let RecordFilter { limit, from, until } = self.wanted;
        if !(from..=until).contains(&entry.at.since(self.begin)) {
            self.outside += 1;
            return;
        }
        if self.entries.len() == limit {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back((id, entry));
    }

    /// The recorded entries so far.
    pub(crate) fn finish(self) -> Recording {
        let named = |(id, entry): (SourceId, Entry)| (self.sources[id.0 as usize], entry);
        let mut entries: Vec<_> = self.entries.into_iter().map(named).collect();
        // The message fidelity processes all of a host's work in a window of time at once.
        entries.sort_by_key(|(_, entry)| entry.at);
        Recording { begin: self.begin, entries, dropped: self.dropped, outside: self.outside }
    }
}

#[cfg(test)]
mod tests;
