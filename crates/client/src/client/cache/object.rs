//! One object: its locks, its bytes, and what is known of it.

use core::ops::{Deref, DerefMut, Range};
use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::OstLvb;
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::Obdo;
use lustrine_lnet::time::Time;
use rangemap::{RangeMap, RangeSet};

use super::read_op::ReadOp;
use super::streams::Streams;
use crate::attr::FileOwner;
use crate::client::data_attr::{DataAttr, Times};
use crate::client::{Caller, Done};
use crate::error::ClientError;
use crate::few::FewMap;
use crate::lru::LruKey;
use crate::pages::{Pages, chunk_range};

/// What a lock is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::client) enum Mode {
    /// Others may read too.
    Read,
    /// Nobody else has a lock there.
    Write,
}

/// A lock that the client has.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) mode: Mode,
    /// The bytes that it covers.
    pub(super) extent: Range<u64>,
    /// Operations and requests that use it.
    pub(super) users: u32,
    /// Whether somebody else wants it: nothing new begins under it.
    pub(super) blocked: bool,
    /// Its place among the locks that are not in use, if it is one of them.
    pub(super) idle: Option<LruKey>,
}

impl Held {
    /// A lock that is not in use yet.
    pub(super) fn new(mode: Mode, extent: Range<u64>, blocked: bool) -> Held {
        Held { mode, extent, users: 0, blocked, idle: None }
    }
}

/// When a chunk was used, as numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// Its place in the order of all chunks.
    pub(super) place: u64,
    /// The last time, which may be later.
    pub(super) last: u64,
}

/// A lock that is asked for, and what waits for it.
pub(super) struct AskedLock {
    pub(super) handle: Handle,
    pub(super) mode: Mode,
    pub(super) range: Range<u64>,
    pub(super) caller: Caller,
    pub(super) waiters: Vec<Done<Handle>>,
    /// Others, whose ranges it may cover too when it is granted.
    pub(super) behind: Vec<Behind>,
}

/// A lock that is wanted and not asked for yet.
pub(super) type Behind = (Mode, Range<u64>, Caller, Done<Handle>);

/// A read that is in flight.
#[derive(Debug)]
pub(super) struct Reading {
    /// The lock under which it was asked for.
    pub(super) handle: Handle,
    pub(super) range: Range<u64>,
    /// What its answer is good for: without what was written meanwhile.
    pub(super) valid: RangeSet<u64>,
}

/// What waits until bytes are at the server.
pub(super) struct Flush {
    /// Those that are not on their way.
    pub(super) dirty: RangeSet<u64>,
    /// Requests in flight that have others of them.
    pub(super) in_flight: BTreeSet<u64>,
    /// The bytes that only the write that waits has written; its caller learns from it that they
    /// are not stored. `None` if the errors of all earlier writes are reported.
    pub(super) own: Option<RangeSet<u64>>,
    /// The error of a write of these bytes.
    pub(super) error: Option<ClientError>,
    pub(super) done: Done<()>,
}

/// The error of a write.
#[derive(Debug)]
pub(super) struct WriteError {
    pub(super) error: ClientError,
    /// Whether a close has reported it.
    pub(super) reported: bool,
    /// The bytes that are lost, and were not written since. Of many ranges only the first and the
    /// last byte are kept.
    pub(super) lost: RangeSet<u64>,
}

/// Most ranges of lost bytes that are kept for an object.
const LOST_RANGES_MAX: usize = 1000;

/// In whose name data are written, and to whom they belong.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct Writer {
    pub(in crate::client) caller: Caller,
    pub(in crate::client) owner: FileOwner,
}

/// One object. Clients keep many of which they know only the attributes.
#[derive(Default)]
pub(super) struct CachedObject {
    pub(super) locks: FewMap<Handle, Held>,
    /// Bytes, as far as the locks show, and what was written.
    pub(super) size: u64,
    /// Bytes that the server has: what is behind them and was not written is zeros.
    pub(super) stored: u64,
    /// Units of 512 bytes at the server.
    pub(super) blocks: u64,
    pub(super) times: Option<Times>,
    pub(super) data: ObjectDataBox,
}

/// The data of an object, and what is in flight or waits.
pub(super) struct ObjectData {
    pub(super) pages: Pages,
    pub(super) asked: Vec<AskedLock>,
    pub(super) reading: BTreeMap<u64, Reading>,
    pub(super) writing: BTreeMap<u64, Vec<Range<u64>>>,
    pub(super) readers: Vec<ReadOp>,
    pub(super) flushes: Vec<Flush>,
    /// The error of a write that fsync has not reported yet.
    pub(super) error: Option<WriteError>,
    /// Since when bytes could not be written that may be written later, and until when nothing is
    /// sent because of that.
    pub(super) failing: RangeMap<u64, Time>,
    pub(super) pause: Option<Time>,
    /// The file that was written to.
    pub(super) fid: Option<Fid>,
    /// Who wrote last, and to whom the file belonged then.
    pub(super) writer: Option<Writer>,
    /// Who has written the bytes that are dirty.
    pub(super) writers: RangeMap<u64, Caller>,
    /// When data were last written, in seconds since 1970.
    pub(super) written: i64,
    pub(super) dirty_since: Option<Time>,
    /// When chunks were last used.
    pub(super) used: BTreeMap<u64, Used>,
    /// Who reads it one piece after another.
    pub(super) streams: Streams,
}

impl ObjectData {
    const fn new() -> ObjectData {
        ObjectData {
            pages: Pages::new(),
            asked: Vec::new(),
            reading: BTreeMap::new(),
            writing: BTreeMap::new(),
            readers: Vec::new(),
            flushes: Vec::new(),
            error: None,
            failing: RangeMap::new(),
            pause: None,
            fid: None,
            writer: None,
            writers: RangeMap::new(),
            written: 0,
            dirty_since: None,
            used: BTreeMap::new(),
            streams: Streams::new(),
        }
    }

    /// Whether nothing is in flight or waits, and no error is left for an fsync to report. What is
    /// dirty is in flight.
    fn is_idle(&self) -> bool {
        self.asked.is_empty()
            && self.reading.is_empty()
            && self.writing.is_empty()
            && self.readers.is_empty()
            && self.flushes.is_empty()
            && self.error.is_none()
            && self.pages.is_clean()
    }
}

/// [`ObjectData`] that take memory only if they were changed since the last time that there was
/// nothing of them.
#[derive(Default)]
pub(super) struct ObjectDataBox(Option<Box<ObjectData>>);

impl Deref for ObjectDataBox {
    type Target = ObjectData;

    fn deref(&self) -> &ObjectData {
        const NOTHING: &ObjectData = &ObjectData::new();
        self.0.as_deref().unwrap_or(NOTHING)
    }
}

impl DerefMut for ObjectDataBox {
    fn deref_mut(&mut self) -> &mut ObjectData {
        self.0.get_or_insert_with(|| Box::new(ObjectData::new()))
    }
}

impl ObjectDataBox {
    /// Gives the memory back if there is nothing to remember. Who reads on without data in memory
    /// is taken for one who reads somewhere.
    fn tidy(&mut self) {
        let unused = |data: &ObjectData| data.is_idle() && data.pages.is_empty();
        if self.0.as_deref().is_some_and(unused) {
            self.0 = None;
        }
    }
}

impl CachedObject {
    /// A lock under which an operation on a range may begin.
    pub(super) fn usable(&self, mode: Mode, range: &Range<u64>) -> Option<Handle> {
        let fits = |held: &Held| !held.blocked && held.mode >= mode && covers(&held.extent, range);
        self.locks.iter().find(|(_, held)| fits(held)).map(|(handle, _)| *handle)
    }

    /// A lock for writing that covers the first byte of a range, and how far it does.
    pub(super) fn write_lock_at(&self, range: &Range<u64>) -> Option<(Handle, u64)> {
        let covering = self
            .locks
            .iter()
            .find(|(_, held)| held.mode == Mode::Write && held.extent.contains(&range.start));
        covering.map(|(handle, held)| (*handle, held.extent.end.min(range.end)))
    }

    /// The parts of a range that no lock covers.
    pub(super) fn uncovered(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut rest = RangeSet::new();
        if !range.is_empty() {
            rest.insert(range.clone());
        }
        for held in self.locks.values() {
            rest.remove(held.extent.clone());
        }
        rest.into_iter().collect()
    }

    /// Whether a write of a part of a range is in flight.
    pub(super) fn is_writing(&self, range: &Range<u64>) -> bool {
        is_among(&self.data.writing, range)
    }

    /// The parts of a range that were neither dirty nor on their way when `dirty` was.
    pub(super) fn stored_parts(&self, range: &Range<u64>, dirty: &[Range<u64>]) -> RangeSet<u64> {
        let mut parts = RangeSet::new();
        if !range.is_empty() {
            parts.insert(range.clone());
        }
        let lacking = dirty.iter().chain(self.data.writing.values().flatten());
        lacking.filter(|part| !part.is_empty()).for_each(|part| parts.remove(part.clone()));
        parts
    }

    /// Waits for what the server lacks of a range now. What is written later is not waited for.
    /// `own`: of a write that waits.
    pub(super) fn wait_for(
        &mut self,
        range: &Range<u64>,
        own: Option<RangeSet<u64>>,
        done: Done<()>,
    ) {
        let dirty = self.data.pages.dirty(range).into_iter().collect();
        let touches = |writing: &Vec<Range<u64>>| {
            writing.iter().any(|part| part.start < range.end && range.start < part.end)
        };
        let in_flight = self.data.writing.iter().filter(|(_, writing)| touches(writing));
        let in_flight = in_flight.map(|(number, _)| *number).collect();
        self.data.flushes.push(Flush { dirty, in_flight, own, error: None, done });
    }

    /// Waits until what was last written to a range is at the server. Errors are reported to
    /// others as well.
    pub(super) fn wait_for_last(&mut self, range: &Range<u64>, done: Done<()>) {
        let dirty: RangeSet<u64> = self.data.pages.dirty(range).into_iter().collect();
        // What is dirty again while an earlier write of it is in flight does not need that one.
        let mut sent = RangeSet::new();
        if !range.is_empty() {
            sent.insert(range.clone());
        }
        dirty.iter().for_each(|part| sent.remove(part.clone()));
        let has = |writing: &Vec<Range<u64>>| {
            writing.iter().any(|part| !part.is_empty() && sent.overlaps(part))
        };
        let in_flight = self.data.writing.iter().filter(|(_, writing)| has(writing));
        let in_flight = in_flight.map(|(number, _)| *number).collect();
        let own = Some(RangeSet::new());
        self.data.flushes.push(Flush { dirty, in_flight, own, error: None, done });
    }

    /// A request for ranges is on its way.
    pub(super) fn was_sent(&mut self, number: u64, ranges: &[Range<u64>]) {
        self.data.writing.insert(number, ranges.to_vec());
        for range in ranges {
            for flush in self.data.flushes.iter_mut().filter(|flush| flush.dirty.overlaps(range)) {
                flush.dirty.remove(range.clone());
                flush.in_flight.insert(number);
            }
        }
    }

    /// A request is over.
    pub(super) fn was_answered(&mut self, number: u64) {
        self.data.writing.remove(&number);
        for flush in &mut self.data.flushes {
            flush.in_flight.remove(&number);
        }
    }

    /// A request has failed: ranges of it are lost, and the others have to be sent again. Returns
    /// what is lost, except for the bytes of writes that wait, whose programs learn of the error.
    pub(super) fn was_refused(
        &mut self,
        number: u64,
        (lost, again): (&[Range<u64>], &[Range<u64>]),
        error: &ClientError,
    ) -> RangeSet<u64> {
        self.data.writing.remove(&number);
        let full = |ranges: &[Range<u64>]| -> RangeSet<u64> {
            ranges.iter().filter(|range| !range.is_empty()).cloned().collect()
        };
        let (mut taken, again) = (full(lost), full(again));
        for flush in &mut self.data.flushes {
            if !flush.in_flight.remove(&number) {
                continue;
            }
            flush.dirty.extend(again.iter().cloned());
            if !lost.is_empty() {
                flush.error.get_or_insert(error.clone());
                let own = flush.own.iter().flat_map(RangeSet::iter);
                own.for_each(|own| taken.remove(own.clone()));
            }
        }
        taken
    }

    /// Ranges could not be written, and will be tried again.
    pub(super) fn fails_for_now(&mut self, ranges: &[Range<u64>], now: Time) {
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            for gap in self.data.failing.gaps(range).collect::<Vec<_>>() {
                self.data.failing.insert(gap, now);
            }
        }
    }

    /// The parts of ranges that could not be written at this time or before.
    pub(super) fn failing_since(&self, ranges: &[Range<u64>], time: Time) -> RangeSet<u64> {
        let mut found = RangeSet::new();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let failing = self.data.failing.overlapping(range);
            for (part, _) in failing.filter(|(_, since)| **since <= time) {
                found.insert(part.start.max(range.start)..part.end.min(range.end));
            }
        }
        found
    }

    /// A range is written, or is not going to be.
    pub(super) fn fails_no_more(&mut self, range: &Range<u64>) {
        if !range.is_empty() && !self.data.failing.is_empty() {
            self.data.failing.remove(range.clone());
        }
    }

    /// A range is not going to be written: because of an error, which those learn that wait for
    /// it, or because it is of no use any more.
    pub(super) fn was_dropped(&mut self, range: &Range<u64>, error: Option<&ClientError>) {
        self.fails_no_more(range);
        if range.is_empty() {
            return;
        }
        for flush in self.data.flushes.iter_mut().filter(|flush| flush.dirty.overlaps(range)) {
            flush.dirty.remove(range.clone());
            if let Some(error) = error {
                flush.error.get_or_insert_with(|| error.clone());
            }
        }
    }

    /// What was written is not going to be stored, so it does not make the object longer.
    pub(super) fn was_lost(&mut self) {
        let written = self.data.pages.dirty_end().max(self.writing_end());
        self.size = self.size.min(self.stored.max(written));
    }

    /// Where the writes that are in flight end.
    fn writing_end(&self) -> u64 {
        self.data.writing.values().flatten().map(|range| range.end).max().unwrap_or(0)
    }

    /// A write of ranges has failed, which is not reported yet, also if an earlier one was.
    pub(super) fn fails(
        &mut self,
        error: ClientError,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) {
        let known = self.data.error.take().filter(|known| !known.reported);
        let known =
            known.unwrap_or(WriteError { error, reported: false, lost: RangeSet::default() });
        let known = self.data.error.insert(known);
        known.lost.extend(ranges.into_iter().filter(|range| !range.is_empty()));
        if known.lost.len() > LOST_RANGES_MAX
            && let (Some(first), Some(last)) = (known.lost.first(), known.lost.last())
        {
            known.lost.insert(first.start..last.end);
        }
    }

    /// The error of a write of a part of a range that is lost, and was not written since.
    pub(super) fn lost_in(&self, range: &Range<u64>) -> Option<&ClientError> {
        let error = self.data.error.as_ref()?;
        let is_lost = !range.is_empty() && error.lost.overlaps(range);
        is_lost.then_some(&error.error)
    }

    /// Whether the server lacks something that was written.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.data.pages.is_clean() || !self.data.writing.is_empty() || self.data.error.is_some()
    }

    /// Whether the object may be longer here than at its server.
    pub(super) fn may_be_ahead(&self) -> bool {
        let is_unwritten = !self.data.pages.is_clean() || !self.data.writing.is_empty();
        is_unwritten || self.locks.values().any(|held| held.mode == Mode::Write)
    }

    /// Takes what the server said of the object with a lock. What was written and has not reached
    /// it is newer.
    pub(super) fn take_lvb(&mut self, lvb: &OstLvb) {
        // It may be older than what is known by other locks, which cover so much.
        let covered = self.locks.values().map(|held| held.extent.end).max().unwrap_or(0);
        self.stored = lvb.size.max(self.stored.min(covered));
        // A write that is in flight may be refused: it is not stored, and counts for the size.
        self.size = self.stored.max(self.data.pages.dirty_end()).max(self.writing_end());
        self.blocks = lvb.blocks;
        let written = if self.has_unwritten() { self.data.written } else { i64::MIN };
        let (mtime, ctime) = (lvb.mtime.max(written), lvb.ctime.max(written));
        self.times = Some(Times { atime: lvb.atime, mtime, ctime });
    }

    /// The part of a range before the end of the object, as far as that is known. Under a lock on
    /// the range, nothing is behind it.
    pub(super) fn before_end(&self, range: &Range<u64>) -> Range<u64> {
        range.start..range.end.min(self.size.max(self.stored)).max(range.start)
    }

    /// What is known of the object, if a lock keeps others from changing its end. With a lock that
    /// begins behind the end, others may write before it.
    pub(super) fn known(&self) -> Option<DataAttr> {
        let at_end = |held: &Held| held.extent.end == u64::MAX && held.extent.start <= self.size;
        self.locks.values().any(at_end).then(|| self.attributes())
    }

    /// What is known of the object.
    pub(super) fn attributes(&self) -> DataAttr {
        let writing = self.data.writing.values().flatten().map(|range| range.end - range.start);
        let unwritten = self.data.pages.dirty_len().saturating_add(writing.sum()).div_ceil(512);
        let blocks = self.blocks.saturating_add(unwritten);
        DataAttr { size: self.size, blocks, times: self.times }
    }

    /// The value that a glimpse is answered with.
    pub(super) fn lvb(&self) -> OstLvb {
        let DataAttr { size, blocks, times } = self.attributes();
        let Times { atime, mtime, ctime } = times.unwrap_or(Times { atime: 0, mtime: 0, ctime: 0 });
        OstLvb { size, mtime, atime, ctime, blocks, ..OstLvb::default() }
    }

    /// A program has written a range.
    pub(super) fn was_written_by(&mut self, range: &Range<u64>, writer: Writer) {
        self.data.writer = Some(writer);
        if !range.is_empty() {
            self.data.writers.insert(range.clone(), writer.caller);
        }
    }

    /// Bytes were written by a program.
    pub(super) fn was_written(&mut self, range: &Range<u64>, now: i64) {
        self.size = self.size.max(range.end);
        self.data.written = now;
        let times = self.times.get_or_insert(Times { atime: 0, mtime: 0, ctime: 0 });
        times.mtime = times.mtime.max(now);
        times.ctime = times.ctime.max(now);
        for reading in self.data.reading.values_mut() {
            reading.valid.remove(range.clone());
        }
    }

    /// The server has set times. What was written since has a later one.
    pub(super) fn times_were_set(&mut self, set: &Obdo) {
        let is_written = self.has_unwritten() || self.data.written > set.ctime;
        let Some(times) = &mut self.times else { return };
        // Another client may have changed the object since.
        let is_changed = is_written || times.ctime > set.ctime;
        if set.valid.contains(MdValid::ATIME) {
            times.atime = set.atime;
        }
        if set.valid.contains(MdValid::MTIME) && !is_changed {
            times.mtime = set.mtime;
        }
        times.ctime = times.ctime.max(set.ctime);
    }

    /// The server has stored a write, and says what it knows of the object.
    pub(super) fn was_stored(&mut self, range: &Range<u64>, body: &Obdo) {
        if let Some(error) = self.data.error.as_mut().filter(|_| !range.is_empty()) {
            error.lost.remove(range.clone());
        }
        self.stored = self.stored.max(range.end);
        if body.valid.contains(MdValid::BLOCKS) {
            self.blocks = body.blocks;
        }
        if body.valid.contains(MdValid::CTIME)
            && let Some(times) = &mut self.times
        {
            times.ctime = times.ctime.max(body.ctime);
        }
    }

    /// Forgets when chunks were used that are gone. Returns their places.
    pub(super) fn drop_unused_chunks(&mut self) -> Vec<u64> {
        let ObjectData { pages, used, .. } = &mut *self.data;
        let mut dropped = Vec::new();
        used.retain(|number, used| {
            let there = pages.has_chunk(*number);
            if !there {
                dropped.push(used.place);
            }
            there
        });
        dropped
    }

    /// Forgets a chunk, and those in the same piece that were not used since then. Returns the
    /// places of those that are gone; none if something in the chunk is not at the server.
    pub(super) fn evict(&mut self, number: u64, since: u64) -> Vec<u64> {
        if self.data.pages.is_dirty(number) || self.is_writing(&chunk_range(number)) {
            return Vec::new();
        }
        let ObjectData { pages, used, writing, .. } = &mut *self.data;
        let is_old = |number| used.get(&number).is_none_or(|used: &Used| used.last <= since);
        let gone =
            pages.evict(number, |other| is_old(other) && !is_among(writing, &chunk_range(other)));
        gone.iter().filter_map(|number| used.remove(number)).map(|used| used.place).collect()
    }

    /// Whether there is nothing to remember of it. Gives memory back that it does not need.
    pub(super) fn tidy(&mut self) -> bool {
        self.data.tidy();
        self.locks.is_empty() && self.data.is_idle()
    }
}

/// Whether a range has all of another one.
pub(super) fn covers(range: &Range<u64>, other: &Range<u64>) -> bool {
    range.start <= other.start && other.end <= range.end
}

/// Whether a request for a part of a range is among these.
fn is_among(requests: &BTreeMap<u64, Vec<Range<u64>>>, range: &Range<u64>) -> bool {
    let mut parts = requests.values().flatten();
    parts.any(|part| part.start < range.end && range.start < part.end)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// There is one for each object that is kept. `cargo xtask bench library` measures all of it.
    #[test]
    fn an_object_without_data_is_small() {
        assert!(size_of::<CachedObject>() <= 120, "{}", size_of::<CachedObject>());
        let mut object = CachedObject::default();
        assert!(object.data.pages.is_empty() && object.data.0.is_none());
        assert!(object.data.streams.read(&(0..4096)).is_some());
        assert!(object.data.0.is_some() && object.tidy() && object.data.0.is_none());
        let pause = Some(Time(1));
        object.fails(ClientError::NoMemory, []);
        object.data.pause = pause;
        assert!(!object.tidy() && object.data.pause == pause);
        object.data.pages.write(0, &Bytes::from_static(&[1]));
        object.data.pages.clean(0..1);
        object.data.error = None;
        assert!(object.tidy(), "it is to be forgotten without a lock");
        object.locks.insert(Handle(1), Held::new(Mode::Read, 0..1, false));
        assert!(!object.tidy() && object.data.pages.has_chunk(0));
    }

    /// Somebody else may have the bytes before it, and be writing there.
    #[test]
    fn a_lock_that_begins_behind_the_end_does_not_show_the_size() {
        let mut object = CachedObject { size: 100, ..CachedObject::default() };
        object.locks.insert(Handle(1), Held::new(Mode::Read, 4096..u64::MAX, false));
        assert_eq!(object.known(), None);
        object.size = 4096;
        assert_eq!(object.known().map(|known| known.size), Some(4096));
    }

    #[test]
    fn few_ranges_of_lost_bytes_are_kept() {
        let mut object = CachedObject::default();
        for at in 0..5000 {
            object.fails(ClientError::NoMemory, core::iter::once(10 * at..10 * at + 1));
        }
        let ranges = object.data.error.as_ref().map(|error| error.lost.len());
        assert!(ranges.is_some_and(|ranges| ranges <= LOST_RANGES_MAX + 1), "{ranges:?}");
        assert!(object.lost_in(&(49_990..49_991)).is_some() && object.lost_in(&(0..1)).is_some());
        assert!(object.lost_in(&(50_000..60_000)).is_none());
    }

    #[test]
    fn times_that_were_set_replace_earlier_ones_but_not_those_of_writes_since() {
        let valid = MdValid::ATIME | MdValid::MTIME | MdValid::CTIME;
        let set = Obdo { valid, atime: 7, mtime: 5, ctime: 100, ..Obdo::default() };
        for (written, mtime) in [(100, 5), (101, 101)] {
            let mut object = CachedObject::default();
            object.was_written(&(0..9), written);
            object.times_were_set(&set);
            let times = object.times.expect("it has times");
            assert_eq!((times.atime, times.mtime, times.ctime), (7, mtime, written));
        }
        let mut unknown = CachedObject::default();
        unknown.times_were_set(&set);
        assert!(unknown.times.is_none());
    }

    #[test]
    fn a_refused_write_does_not_count_although_a_lock_came_meanwhile() {
        let mut object = CachedObject::default();
        object.data.pages.write(0, &Bytes::from_static(&[1; 100]));
        object.was_written(&(0..100), 1);
        object.data.pages.clean(0..100);
        object.was_sent(1, core::slice::from_ref(&(0..100)));
        // The lock brings the size that the server knows.
        object.take_lvb(&OstLvb::default());
        assert_eq!(object.size, 100);
        let all = core::slice::from_ref(&(0..100));
        object.was_refused(1, (all, &[]), &ClientError::Errno(28));
        object.was_lost();
        assert_eq!(object.size, 0);
    }
}
