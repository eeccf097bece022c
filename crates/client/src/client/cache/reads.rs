//! Reading objects under locks: what is not in memory is asked for, and for a program that reads on
//! also what follows.

use core::ops::Range;

use bytes::Bytes;
use lustrine_fswire::fid::Handle;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::{ImportKey, RpcError};
use rangemap::RangeSet;

use super::object::{Mode, Reading};
use super::read_op::{ObjectBytes, ReadOp};
use super::{Cache, ObjectKey, TargetIo};
use crate::client::transfer::ObjectRange;
use crate::client::{Caller, Client, Done};
use crate::error::{ClientError, Outcome};

/// Reads begin at multiples of this many bytes.
const PAGE: u64 = 4096;
/// How much is read ahead at first, and always allowed.
const WINDOW_MIN: u64 = 1 << 20;
/// So long after it was last read ahead, an object has no share of the memory for that any more.
const AHEAD_TIME: Nanos = Nanos::from_secs(5);

/// A request that waits for others.
#[derive(Clone, Copy)]
pub(super) struct QueuedRead {
    key: ObjectKey,
    number: u64,
    handle: Handle,
    caller: Caller,
}

impl Cache {
    /// Most bytes of an object to read ahead: all together have a quarter of the cache, since what
    /// is read ahead goes first when the cache is full, and would be read twice.
    fn max_read_ahead(&mut self, now: Time, key: ObjectKey) -> u64 {
        if self.ahead_since + AHEAD_TIME <= now {
            self.ahead_since = now;
            self.ahead.retain(|_, (last, _)| *last + AHEAD_TIME > now);
            self.ahead_streams = self.ahead.values().map(|(_, streams)| streams).sum();
        }
        let known = self.ahead.get(&key).map_or(0, |(_, streams)| *streams);
        let streams = self.ahead_streams - known + known.max(1);
        let share = self.tunables.max_cached / 4 / streams as u64;
        self.tunables.max_read_ahead.min(share.max(WINDOW_MIN))
    }

    /// An object was read ahead for so many readers.
    fn reads_ahead(&mut self, now: Time, key: ObjectKey, streams: usize) {
        let before = self.ahead.insert(key, (now, streams));
        self.ahead_streams += streams;
        self.ahead_streams -= before.map_or(0, |(_, streams)| streams);
    }
}

impl Client {
    /// Reads a range of an object under a lock that the client keeps.
    pub(in crate::client) fn read_object(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        caller: Caller,
        range: Range<u64>,
        done: Done<ObjectBytes>,
    ) {
        let wanted = (Mode::Read, range.clone());
        let then: Done<Handle> = Box::new(move |client, turn, lock| match lock {
            Ok(handle) => client.read_under(turn, key, (handle, caller), range, done),
            Err(error) => done(client, turn, Err(error)),
        });
        self.with_lock(turn, key, wanted, caller, then);
    }

    /// A range of an object, if there is a lock on it, all of it is in memory, and nothing is to be
    /// read ahead: no server is asked, and nothing waits.
    pub(in crate::client) fn read_kept(
        &mut self,
        now: Time,
        key: ObjectKey,
        range: &Range<u64>,
    ) -> Option<ObjectBytes> {
        if self.unmounted {
            return None;
        }
        let cache = &mut self.cache;
        let object = cache.objects.get_mut(&key)?;
        if range.end < object.stored && object.data.streams.continues(range.start) {
            return None;
        }
        let handle = object.usable(Mode::Read, range)?;
        let known = object.before_end(range);
        let bytes = object.data.pages.whole(&known)?;
        let present = object.size.saturating_sub(range.start).min(bytes.len() as u64);
        // An object without bytes takes no memory for them.
        if !known.is_empty() {
            object.data.streams.read(range);
        }
        let held = object.locks.get_mut(&handle)?;
        if let Some(idle) = held.idle {
            cache.idle.touch(idle, now);
        }
        cache.counts.hits += bytes.len() as u64;
        cache.touch(key, &known);
        Some(ObjectBytes { bytes, present })
    }

    fn read_under(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        (handle, caller): (Handle, Caller),
        range: Range<u64>,
        done: Done<ObjectBytes>,
    ) {
        let asked = range;
        let range = self.cache.object(key).before_end(&asked);
        if let Some(bytes) = self.cache.object(key).data.pages.whole(&range) {
            self.cache.counts.hits += range.end - range.start;
            self.cache.touch(key, &range);
            self.read_ahead(turn.now, key, (handle, caller), &asked);
            self.pump(turn, key.import);
            return self.read_over(turn, key, (handle, &range), Ok(bytes), done);
        }
        let mut op = ReadOp::new(range.clone(), (handle, caller), done);
        let object = self.cache.object(key);
        op.advance(&object.data.pages, object.stored);
        let missed: u64 = op.missing.iter().map(|gap| gap.end - gap.start).sum();
        self.cache.counts.misses += missed;
        self.cache.counts.hits += range.end - range.start - missed;
        self.cache.touch(key, &range);
        let gaps: Vec<Range<u64>> = op.missing.iter().cloned().collect();
        let finished = gaps.is_empty();
        if !finished {
            self.cache.object(key).data.readers.push(op);
            for gap in gaps {
                self.fetch(key, (handle, caller), gap);
            }
            self.read_ahead(turn.now, key, (handle, caller), &asked);
            return self.pump(turn, key.import);
        }
        self.read_ahead(turn.now, key, (handle, caller), &asked);
        self.pump(turn, key.import);
        let bytes = op.bytes();
        self.read_over(turn, key, (handle, &range), Ok(bytes), op.done);
    }

    /// A read of a range has all its bytes, or cannot have them.
    fn read_over(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        (handle, range): (Handle, &Range<u64>),
        outcome: Outcome<Bytes>,
        done: Done<ObjectBytes>,
    ) {
        let size = self.cache.object(key).size;
        let present = size.saturating_sub(range.start).min(range.end - range.start);
        self.unlock(turn, key, handle);
        done(self, turn, outcome.map(|bytes| ObjectBytes { bytes, present }));
    }

    /// Asks for a range of an object that is not in memory, apart from what is asked for already.
    /// How many bytes it asks for.
    fn fetch(
        &mut self,
        key: ObjectKey,
        (handle, caller): (Handle, Caller),
        range: Range<u64>,
    ) -> u64 {
        let brw = self.object_brw(key.import);
        let object = self.cache.object(key);
        let Some(held) = object.locks.get(&handle) else { return 0 };
        let mut wanted = RangeSet::new();
        let start = (range.start / PAGE * PAGE).max(held.extent.start);
        let end = range.end.next_multiple_of(PAGE).min(held.extent.end);
        for gap in object.data.pages.gaps(&(start..end)) {
            wanted.insert(gap);
        }
        for reading in object.data.reading.values() {
            for part in reading.valid.iter() {
                wanted.remove(part.clone());
            }
        }
        let mut asked = 0;
        for part in wanted {
            asked += part.end - part.start;
            let mut at = part.start;
            while at < part.end {
                let end = part.end.min((at / brw + 1).saturating_mul(brw));
                let number = self.cache.next_io();
                let mut valid = RangeSet::new();
                valid.insert(at..end);
                let reading = Reading { handle, range: at..end, valid };
                self.cache.object(key).data.reading.insert(number, reading);
                self.use_lock(key, handle, 1);
                let queued = QueuedRead { key, number, handle, caller };
                self.cache.targets.entry(key.import).or_default().reads.push_back(queued);
                at = end;
            }
        }
        asked
    }

    /// Asks for what follows a read of a program that reads one part after another.
    fn read_ahead(
        &mut self,
        now: Time,
        key: ObjectKey,
        lock: (Handle, Caller),
        range: &Range<u64>,
    ) {
        let most = self.cache.max_read_ahead(now, key);
        let object = self.cache.object(key);
        let stored = object.stored;
        let held = object.locks.get(&lock.0).filter(|held| !held.blocked);
        let end = held.map(|held| held.extent.end);
        let Some(stream) = object.data.streams.read(range) else { return };
        if stream.window == 0 {
            (stream.window, stream.ahead) = (WINDOW_MIN.min(most), range.end);
        }
        // More is asked for when half of it is used up.
        if stream.ahead.saturating_sub(range.end) > stream.window / 2 {
            return;
        }
        let (from, to) = (stream.ahead.max(range.end), range.end.saturating_add(stream.window));
        stream.window = stream.window.saturating_mul(2).min(most);
        let Some(end) = end else { return };
        let to = to.min(stored).min(end);
        if from < to {
            stream.ahead = to;
            let streams = object.data.streams.ahead();
            self.cache.reads_ahead(now, key, streams);
            self.cache.counts.read_ahead += self.fetch(key, lock, from..to);
        }
    }

    /// Sends what waits for a target, as far as there may be requests in flight.
    pub(in crate::client) fn pump(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        self.pump_writes(turn, import);
        let most = usize::from(self.rpcs_in_flight(import));
        while self.is_full(import)
            && let Some(target) = self.cache.targets.get_mut(&import)
        {
            let waits = target.reading >= most || target.reads.is_empty();
            if waits || self.cache.starved {
                return;
            }
            if !self.cache.has_room(import) {
                return;
            }
            let target = self.cache.targets.entry(import).or_default();
            let Some(queued) = target.reads.pop_front() else { return };
            target.reading += 1;
            self.send_read(turn, queued);
        }
    }

    fn send_read(&mut self, turn: &mut Turn<'_>, queued: QueuedRead) {
        let QueuedRead { key, number, handle, caller } = queued;
        let reading = self.cache.object(key).data.reading.get(&number);
        let Some(range) = reading.map(|reading| reading.range.clone()) else { return };
        self.cache.begins(key.import, range.end - range.start);
        self.cache.uses_grant(key.import, turn.now);
        let lock = self.locks.remote(key.import, handle);
        if lock.is_none() {
            let error = Err(ClientError::Rpc(RpcError::Evicted));
            return self.read_answered(turn, (key, number, handle), error);
        }
        let read = ObjectRange { import: key.import, oi: key.oi, range, lock, caller };
        self.read_rpc(turn, read, move |client, turn, got| match got {
            Err(ClientError::NoMemory) => client.read_later(turn, queued),
            got => client.read_answered(turn, (key, number, handle), got),
        });
    }

    /// There was no memory for a read: it is tried again soon.
    fn read_later(&mut self, turn: &mut Turn<'_>, queued: QueuedRead) {
        let reading = self.cache.object(queued.key).data.reading.get(&queued.number);
        let len = reading.map_or(0, |reading| reading.range.end - reading.range.start);
        self.cache.ends(queued.key.import, len);
        let target: &mut TargetIo = self.cache.targets.entry(queued.key.import).or_default();
        target.reading = target.reading.saturating_sub(1);
        target.reads.push_front(queued);
        self.cache.starve(turn.now);
    }

    /// Asks for what reads lack, apart from what is asked for already.
    fn fetch_missing(&mut self, key: ObjectKey) {
        let gaps = |op: &ReadOp| {
            let lock = (op.handle, op.caller);
            op.missing.iter().map(move |gap| (lock, gap.clone())).collect::<Vec<_>>()
        };
        let readers = self.cache.object(key).data.readers.iter();
        for (lock, gap) in readers.flat_map(gaps).collect::<Vec<_>>() {
            self.fetch(key, lock, gap);
        }
    }

    /// A lock is void: who reads under it fails, and what was asked for under it is good for
    /// nothing, also for those who have other locks.
    pub(super) fn reads_gone(&mut self, turn: &mut Turn<'_>, key: ObjectKey, handle: Handle) {
        let Some(object) = self.cache.objects.get_mut(&key) else { return };
        if let Some(target) = self.cache.targets.get_mut(&key.import) {
            target.reads.retain(|queued| {
                let stays = queued.handle != handle;
                if !stays {
                    object.data.reading.remove(&queued.number);
                }
                stays
            });
        }
        for reading in object.data.reading.values_mut().filter(|reading| reading.handle == handle) {
            reading.valid = RangeSet::new();
        }
        let readers = core::mem::take(&mut object.data.readers).into_iter();
        let (void, others) = readers.partition(|op| op.handle == handle);
        object.data.readers = others;
        self.fetch_missing(key);
        let void: Vec<ReadOp> = void;
        for op in void {
            let ReadOp { range, handle, done, .. } = op;
            let error = Err(ClientError::Rpc(RpcError::Evicted));
            self.read_over(turn, key, (handle, &range), error, done);
        }
        self.pump(turn, key.import);
    }

    fn read_answered(
        &mut self,
        turn: &mut Turn<'_>,
        (key, number, handle): (ObjectKey, u64, Handle),
        got: Outcome<Bytes>,
    ) {
        let target: &mut TargetIo = self.cache.targets.entry(key.import).or_default();
        target.reading = target.reading.saturating_sub(1);
        let object = self.cache.object(key);
        let Some(reading) = object.data.reading.remove(&number) else { return };
        let range = reading.range;
        let partial = !reading.valid.gaps(&range).collect::<Vec<_>>().is_empty();
        let error: Option<ClientError> = match got {
            // Without the lock it would not be known how long they are good for.
            Ok(bytes) if object.locks.contains_key(&handle) => {
                self.cache.change_pages(key, |pages| {
                    reading.valid.iter().for_each(|part| pages.fill(&range, &bytes, part));
                });
                self.cache.touch(key, &range);
                None
            }
            Ok(_) => Some(ClientError::Rpc(RpcError::Evicted)),
            Err(error) => Some(error),
        };
        let mut over = Vec::new();
        let object = self.cache.object(key);
        for mut op in core::mem::take(&mut object.data.readers) {
            if !op.missing.is_empty() && !op.missing.overlaps(&range) {
                object.data.readers.push(op);
                continue;
            }
            op.advance(&object.data.pages, object.stored);
            // An error is that of who has asked; others ask under their own locks.
            let own = op.handle == handle && op.missing.overlaps(&range);
            let failed = error.clone().filter(|_| own);
            match (op.missing.is_empty(), failed) {
                (true, _) => over.push((op, Ok(()))),
                (false, Some(error)) => over.push((op, Err(error))),
                (false, None) => object.data.readers.push(op),
            }
        }
        // What was written meanwhile and given up again has to be asked for once more.
        if partial || error.is_some() {
            self.fetch_missing(key);
        }
        for (mut op, outcome) in over {
            let outcome = outcome.map(|()| op.bytes());
            self.read_over(turn, key, (op.handle, &op.range), outcome, op.done);
        }
        self.unlock(turn, key, handle);
        self.cache.trim();
        self.cache.tidy(key);
        self.request_over(turn, key.import, range.end - range.start);
    }
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::fid::Fid;
    use slotmap::SlotMap;

    use super::*;
    use crate::client::cache::CacheTunables;

    #[test]
    fn objects_that_are_read_ahead_share_a_quarter_of_the_memory() {
        let mut imports: SlotMap<ImportKey, ()> = SlotMap::with_key();
        let import = imports.insert(());
        let key = |oid| ObjectKey { import, oi: Fid { seq: 1, oid, ver: 0 } };
        let mut cache = Cache::new(CacheTunables::of(256 << 20));
        let (begin, later) = (Time(1), Time(1) + Nanos::from_secs(11));
        assert_eq!(cache.max_read_ahead(begin, key(0)), 8 << 20);
        for oid in 0..32 {
            cache.reads_ahead(begin, key(oid), 1);
        }
        assert_eq!(cache.max_read_ahead(begin, key(0)), 2 << 20);
        // Eight readers of one object are as many as of eight.
        for streams in [8, 1, 1] {
            cache.reads_ahead(begin, key(5), streams);
        }
        assert_eq!(cache.ahead_streams, 32);
        for oid in 32..500 {
            cache.reads_ahead(begin, key(oid), 1);
        }
        assert_eq!(cache.max_read_ahead(begin, key(0)), WINDOW_MIN);
        assert_eq!(cache.max_read_ahead(later, key(0)), 8 << 20);
        assert_eq!(cache.ahead.len(), 0);
    }
}
