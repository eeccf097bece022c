//! Writing objects under locks: what a program writes is in memory at once, and reaches the server
//! later.

use core::ops::Range;
use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ost::Obdo;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::{ImportKey, RpcError};
use rangemap::RangeSet;

use super::gather::Gathered;
use super::object::{Mode, Writer};
use super::unstable::{UnstableWrite, total};
use super::{Cache, ObjectKey, TargetIo};
use crate::attr::FileOwner;
use crate::client::transfer::{ObjectWrite, WriteAnswer, WriteArgs};
use crate::client::{Caller, Client, Done};
use crate::error::{ClientError, Outcome};

/// How long it takes until writes are tried again for which there was no memory.
const RETRY: Nanos = Nanos::from_millis(100);

/// How long after a failed write the next try is made, and for how long there are tries.
const TRY_AGAIN: Nanos = Nanos::from_secs(1);
const TRIES_END: Nanos = Nanos::from_secs(10);
/// Errors that can be gone the next time: EIO, which also is that of a checksum, EAGAIN, ENOMEM,
/// EROFS, EINPROGRESS.
const TEMPORARY: [i32; 5] = [5, 11, 12, 30, 115];

/// So long what a target says of a quota counts for the others.
const QUOTA_NEWS: Nanos = Nanos::from_secs(60);

/// A write of a program that waits until less is dirty.
pub(super) struct ThrottledWrite {
    import: ImportKey,
    len: u64,
    start: Start,
}

/// Ranges of objects to be written, in the order in which they were wanted, each of them once.
#[derive(Default)]
pub(super) struct QueuedWrites {
    order: VecDeque<(ObjectKey, Range<u64>)>,
    queued: BTreeSet<(ObjectKey, u64, u64)>,
}

impl QueuedWrites {
    fn push(&mut self, key: ObjectKey, range: Range<u64>) {
        if self.queued.insert((key, range.start, range.end)) {
            self.order.push_back((key, range));
        }
    }

    fn first(&self) -> Option<(ObjectKey, Range<u64>)> {
        self.order.front().cloned()
    }

    fn remove_first(&mut self) {
        if let Some((key, range)) = self.order.pop_front() {
            self.queued.remove(&(key, range.start, range.end));
        }
    }
}

/// A request that is in flight.
struct Sent {
    number: u64,
    parts: Vec<Range<u64>>,
    writer: Writer,
    /// What it cost of the grant.
    paid: Option<u64>,
}

/// What begins a write.
type Start = Box<dyn FnOnce(&mut Client, &mut Turn<'_>) + Send>;

impl Cache {
    /// Whether what is written to a target has to be there at once, since a quota is used up. It is
    /// one quota for all targets, so what another one has said lately counts too. Who may exceed it
    /// is not stopped.
    fn is_over_quota(&self, now: Time, import: ImportKey, writer: Writer) -> bool {
        let lately = Time((now.0 + 1).saturating_sub(QUOTA_NEWS.0));
        let is_over = |(key, target): (&ImportKey, &TargetIo)| match *key == import {
            true => target.over_quota.has(writer.owner),
            false => target.over_quota.has_since(writer.owner, lately),
        };
        self.quota_is_used_up && !writer.caller.may_exceed() && self.targets.iter().any(is_over)
    }

    /// Takes what the reply to a write says of the owners of the file.
    fn note_quota(&mut self, now: Time, import: ImportKey, owner: FileOwner, body: &Obdo) {
        if self.targets.entry(import).or_default().over_quota.update(now, owner, body) {
            self.quota_is_used_up = self.targets.values().any(|at| at.over_quota.has_any());
        }
    }
}

impl Client {
    /// Goes on when so many more bytes for a target may be dirty.
    pub(in crate::client) fn with_room(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        len: u64,
        start: impl FnOnce(&mut Client, &mut Turn<'_>) + Send + 'static,
    ) {
        // Behind others that wait for the target.
        let waits = self.cache.throttled.iter().any(|write| write.import == import);
        if !waits && self.cache.may_be_dirty(import, len) {
            return start(self, turn);
        }
        self.cache.throttled.push_back(ThrottledWrite { import, len, start: Box::new(start) });
        self.write_all(turn);
    }

    /// Sends everything that is dirty. With many files, it must not be looked at again for each
    /// reply: what was queued before is, except for what has failed, which has its own time.
    fn write_all(&mut self, turn: &mut Turn<'_>) {
        if core::mem::replace(&mut self.cache.all_queued, true) {
            return;
        }
        for key in self.cache.dirty_objects.iter().copied().collect::<Vec<_>>() {
            self.write_out(turn, key, 0..u64::MAX, false);
        }
    }

    /// Takes bytes that a program writes to an object. It is over when they are in memory under a
    /// lock, or, if the server has promised no space for them, when they are at the server.
    pub(in crate::client) fn write_object(
        &mut self,
        turn: &mut Turn<'_>,
        (key, fid): (ObjectKey, Fid),
        writer: Writer,
        (offset, bytes): (u64, Bytes),
        done: Done<()>,
    ) {
        let range = offset..offset + bytes.len() as u64;
        self.with_room(turn, key.import, bytes.len() as u64, move |client, turn| {
            let wanted = (Mode::Write, range.clone());
            let then: Done<Handle> = Box::new(move |client, turn, lock| match lock {
                Ok(handle) => {
                    client.write_under(turn, (key, fid), writer, (range, &bytes), done);
                    client.unlock(turn, key, handle);
                }
                Err(error) => done(client, turn, Err(error)),
            });
            client.with_lock(turn, key, wanted, writer.caller, then);
        });
    }

    /// Takes bytes under a lock that the caller holds.
    pub(in crate::client) fn write_under(
        &mut self,
        turn: &mut Turn<'_>,
        (key, fid): (ObjectKey, Fid),
        writer: Writer,
        (range, bytes): (Range<u64>, &Bytes),
        done: Done<()>,
    ) {
        let now = self.wall(turn);
        let object = self.cache.object(key);
        let before = object.data.pages.dirty_around(&range);
        let dirty = object.data.pages.dirty_len();
        self.cache.change_pages(key, |pages| pages.write(range.start, bytes));
        let object = self.cache.object(key);
        object.data.readers.iter_mut().for_each(|read| read.overwrite(range.start, bytes));
        let (after, added) =
            (object.data.pages.dirty_around(&range), object.data.pages.dirty_len() - dirty);
        object.was_written(&range, now);
        object.was_written_by(&range, writer);
        object.data.fid = Some(fid);
        self.cache.count_dirty(key.import, added);
        self.cache.touch(key, &range);
        self.cache.note_dirty(key, turn.now);
        self.cache.all_queued = false;
        let over_quota = self.cache.is_over_quota(turn.now, key.import, writer);
        let brw = self.object_brw(key.import);
        let grant = self.cache.grant(key.import);
        if !over_quota && grant.reserve(&before, &after, brw) {
            done(self, turn, Ok(()));
            // Whole transfers go at once.
            for part in after.into_iter().filter(|part| part.end - part.start >= brw) {
                let whole = part.start..part.start + (part.end - part.start) / brw * brw;
                self.write_out(turn, key, whole, false);
            }
        } else {
            // It counts, so that what follows knows of it; the server has to find the space now.
            grant.release(&before, &after);
            let object = self.cache.object(key);
            let own = object.stored_parts(&range, &before);
            object.wait_for(&range, Some(own), done);
            while self.send_write(turn, key, &range, !over_quota) {}
        }
        self.cache.trim();
    }

    /// Waits until objects have nothing that their servers lack.
    pub(super) fn flush_objects(
        &mut self,
        turn: &mut Turn<'_>,
        keys: Vec<ObjectKey>,
        done: Done<()>,
    ) {
        let work = crate::client::io::Work::Change { done };
        let Some(io) = self.start_io(turn, keys.len(), work) else { return };
        for key in keys {
            let part = crate::client::io::part_of(io);
            self.cache.object(key).wait_for(&(0..u64::MAX), None, part);
            self.write_out(turn, key, 0..u64::MAX, false);
            self.check_flushes(turn, key);
        }
    }

    /// Waits until the servers have committed what was last written to ranges of objects; fails if
    /// a part of it is lost.
    pub(in crate::client) fn flush_parts(
        &mut self,
        turn: &mut Turn<'_>,
        mut parts: Vec<(ObjectKey, Range<u64>)>,
        done: Done<()>,
    ) {
        // A part may have been on its way already, and the object may be forgotten since.
        let all = parts.clone();
        parts.retain(|(key, _)| self.cache.objects.contains_key(key));
        let then: Done<()> = Box::new(move |client, turn, flushed| {
            let keys: BTreeSet<ObjectKey> = all.iter().map(|(key, _)| *key).collect();
            let then: Done<()> = Box::new(move |client, turn, committed| {
                let lost = all.iter().find_map(|(key, range)| {
                    client.cache.objects.get(key).and_then(|object| object.lost_in(range)).cloned()
                });
                done(client, turn, flushed.and(committed).and(lost.map_or(Ok(()), Err)));
            });
            client.commit_objects(turn, keys, then);
        });
        let work = crate::client::io::Work::Change { done: then };
        let Some(io) = self.start_io(turn, parts.len(), work) else { return };
        for (key, range) in parts {
            let part = crate::client::io::part_of(io);
            self.cache.object(key).wait_for_last(&range, part);
            self.write_out(turn, key, range, false);
            self.check_flushes(turn, key);
        }
    }

    /// Sends what is dirty in a range of an object; at once, or when fewer requests are in flight.
    pub(super) fn write_out(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        range: Range<u64>,
        at_once: bool,
    ) {
        if self.cache.object(key).data.pages.dirty(&range).is_empty() {
            return;
        }
        if at_once {
            while self.send_write(turn, key, &range, true) {}
            return;
        }
        self.cache.targets.entry(key.import).or_default().writes.push(key, range);
        self.pump_writes(turn, key.import);
    }

    pub(super) fn pump_writes(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        let most = usize::from(self.rpcs_in_flight(import));
        while self.is_full(import)
            && let Some(target) = self.cache.targets.get_mut(&import)
        {
            if target.writing >= most || self.cache.starved {
                return;
            }
            let Some((key, range)) = target.writes.first() else { return };
            if !self.cache.has_room(import) {
                return;
            }
            if !self.send_write(turn, key, &range, true)
                && let Some(target) = self.cache.targets.get_mut(&import)
            {
                target.writes.remove_first();
            }
        }
    }

    /// Sends one request for what is dirty in a range and not behind a write that is in flight, as
    /// much as goes together. Whether there was something to send.
    /// It is paid from the grant if that may be and suffices.
    fn send_write(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        range: &Range<u64>,
        may_pay: bool,
    ) -> bool {
        let pause = self.cache.objects.get(&key).and_then(|object| object.data.pause);
        if self.cache.starved || pause.is_some_and(|until| turn.now < until) {
            return false;
        }
        let brw = self.object_brw(key.import);
        let Some(object) = self.cache.objects.get(&key) else { return false };
        let Some(Gathered { parts, lock, caller }) = object.gather(range, brw) else {
            return false;
        };
        let Some(owner) = object.data.writer.map(|writer| writer.owner) else { return false };
        // Without a lock of the client, the server would take one, and what is there may be newer.
        let Some(lock) = lock.and_then(|handle| self.locks.remote(key.import, handle)) else {
            // Nothing is dirty without a lock.
            for part in parts {
                self.lose(turn, key, part, ClientError::Rpc(RpcError::Evicted));
            }
            return true;
        };
        let bytes = object.data.pages.gather(&parts);
        let time = object.data.written;
        let number = self.cache.next_io();
        for part in &parts {
            self.take_dirty(key, part, turn.now);
        }
        self.cache.uses_grant(key.import, turn.now);
        let grant = self.cache.grant(key.import);
        let paid = if may_pay { grant.spend(&parts) } else { None };
        let grant = *grant;
        let connection = grant.connection();
        let report = move |body: &mut Obdo| grant.report(body, paid.unwrap_or(0));
        self.cache.targets.entry(key.import).or_default().writing += 1;
        self.cache.begins(key.import, total(&parts));
        self.cache.object(key).was_sent(number, &parts);
        let (import, oi) = (key.import, key.oi);
        let write = ObjectWrite { import, oi, parts: parts.clone(), lock: Some(lock), caller };
        let commit = self.has_to_commit(key, total(&parts));
        let unstable = if commit { 0 } else { total(&parts) };
        self.cache.unstable.begins(key.import, unstable);
        let args = WriteArgs { owner, time, paid: paid.is_some(), version: None, commit };
        let sent = Sent { number, parts, writer: Writer { caller, owner }, paid };
        self.write_rpc(
            turn,
            write,
            args,
            report,
            bytes,
            move |client, turn, WriteAnswer { outcome, body, kept }| {
                let of = (owner, connection);
                client.note_write_reply(turn.now, key.import, of, body.as_ref());
                match kept {
                    Some((call, sum)) => {
                        let (uid, parts) = (caller.uid, sent.parts.clone());
                        // What was not stored as it is here is sent again, or is lost already.
                        let is_discarded = outcome.is_err();
                        let write = UnstableWrite { number, key, uid, parts, sum, is_discarded };
                        client.note_unstable(call, write);
                    }
                    None => client.cache.unstable.ends(key.import, unstable),
                }
                client.write_answered(turn, key, sent, outcome.map(|()| body));
            },
        );
        true
    }

    /// A range is not dirty any more: it is on its way, or lost.
    fn take_dirty(&mut self, key: ObjectKey, range: &Range<u64>, now: Time) {
        let object = self.cache.object(key);
        let before = object.data.pages.dirty_around(range);
        let len: u64 =
            object.data.pages.dirty(range).iter().map(|part| part.end - part.start).sum();
        object.data.pages.clean(range.clone());
        if !range.is_empty() {
            object.data.writers.remove(range.clone());
        }
        let after: Vec<Range<u64>> = before
            .iter()
            .flat_map(|part| {
                [part.start..range.start.min(part.end), range.end.max(part.start)..part.end]
            })
            .filter(|part| part.start < part.end)
            .collect();
        self.cache.uncount_dirty(key.import, len);
        self.cache.grant(key.import).release(&before, &after);
        self.cache.note_dirty(key, now);
    }

    /// Forgets what is dirty in a range: it is not going to be written. `error`: if it is lost.
    pub(super) fn drop_dirty(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        range: Range<u64>,
        error: Option<&ClientError>,
    ) {
        for part in self.cache.object(key).data.pages.dirty(&range) {
            self.take_dirty(key, &part, turn.now);
            self.cache.object(key).was_dropped(&part, error);
            self.cache.forget(key, part);
        }
    }

    /// What was written to a range is lost. A program learns of it when it asks.
    fn lose(&mut self, turn: &mut Turn<'_>, key: ObjectKey, range: Range<u64>, error: ClientError) {
        let uid = self.cache.object(key).data.user_at(range.start);
        self.drop_dirty(turn, key, range.clone(), Some(&error));
        self.cache.forget(key, range.clone());
        self.note_losses(key, uid, &error, [&range]);
        let object = self.cache.object(key);
        object.was_lost();
        object.fails(error, [range]);
    }

    /// What the reply to a write says of its target, also to one that failed.
    fn note_write_reply(
        &mut self,
        now: Time,
        import: ImportKey,
        (owner, connection): (FileOwner, u32),
        body: Option<&Obdo>,
    ) {
        if let Some(body) = body {
            self.cache.grant(import).extended(body, connection);
            self.cache.note_quota(now, import, owner, body);
        }
    }

    fn write_answered(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        sent: Sent,
        outcome: Outcome<Option<Obdo>>,
    ) {
        let Sent { number, parts, writer, paid } = sent;
        let target: &mut TargetIo = self.cache.targets.entry(key.import).or_default();
        target.writing = target.writing.saturating_sub(1);
        self.cache.grant(key.import).settled(paid.unwrap_or(0));
        let object = self.cache.object(key);
        match outcome {
            Ok(body) => {
                object.was_answered(number);
                object.data.pause = None;
                let body = body.unwrap_or_default();
                for part in &parts {
                    object.fails_no_more(part);
                    object.was_stored(part, &body);
                }
            }
            Err(error) => {
                let (mut lost, again) = self.divide_refused(key, &parts, &error, turn.now);
                let object = self.cache.object(key);
                // What was forgotten meanwhile, such as with a lock, cannot be sent again.
                let pages = &object.data.pages;
                lost.extend(again.iter().flat_map(|part| pages.gaps(part)));
                let again: Vec<_> = again.iter().flat_map(|part| pages.present(part)).collect();
                let unreported = object.was_refused(number, (&lost, &again), &error);
                if !unreported.is_empty() {
                    object.fails(error.clone(), unreported.iter().cloned());
                }
                self.note_losses(key, writer.caller.uid, &error, unreported.iter());
                for part in &lost {
                    self.cache.object(key).fails_no_more(part);
                    self.forget_sent(key, part);
                }
                if !again.is_empty() {
                    self.write_again(turn, key, (&again, writer.caller), paid, &error);
                }
                if !lost.is_empty() {
                    self.cache.object(key).was_lost();
                }
            }
        }
        self.check_flushes(turn, key);
        self.continue_releases(turn, key);
        if self.cache.dirty_objects.contains(&key) {
            // What was behind this write.
            match self.cache.throttled.is_empty() {
                true => self.cache.all_queued = false,
                false => self.write_out(turn, key, 0..u64::MAX, false),
            }
        }
        self.wake_throttled(turn);
        self.cache.trim();
        self.cache.tidy(key);
        self.request_over(turn, key.import, total(&parts));
    }

    /// A range that was sent is not stored, and is not going to be. What a program has written
    /// there since stays.
    pub(super) fn forget_sent(&mut self, key: ObjectKey, range: &Range<u64>) {
        let object = self.cache.object(key);
        let dirty = object.data.pages.dirty(range);
        for part in object.stored_parts(range, &dirty) {
            self.cache.forget(key, part);
        }
    }

    fn redirty(&mut self, key: ObjectKey, range: &Range<u64>, caller: Caller, now: Time) {
        let object = self.cache.object(key);
        let before = object.data.pages.dirty_around(range);
        let dirty = object.data.pages.dirty_len();
        object.data.pages.redirty(range);
        // Others may have written there since.
        for gap in object.data.writers.gaps(range).collect::<Vec<_>>() {
            object.data.writers.insert(gap, caller);
        }
        let (after, added) =
            (object.data.pages.dirty_around(range), object.data.pages.dirty_len() - dirty);
        self.cache.count_dirty(key.import, added);
        self.cache.grant(key.import).release(&before, &after);
        self.cache.note_dirty(key, now);
    }

    /// Locks that others want, and whose data may be at the server now.
    fn continue_releases(&mut self, turn: &mut Turn<'_>, key: ObjectKey) {
        let locks = self.cache.objects.get(&key).map(|object| {
            let blocked = object.locks.iter().filter(|(_, held)| held.blocked && held.users == 0);
            blocked.map(|(handle, _)| *handle).collect::<Vec<_>>()
        });
        for handle in locks.unwrap_or_default() {
            self.release(turn, key, handle);
        }
    }

    /// Calls what waited for ranges that are at the server now.
    pub(super) fn check_flushes(&mut self, turn: &mut Turn<'_>, key: ObjectKey) {
        let Some(object) = self.cache.objects.get_mut(&key) else { return };
        let mut over = Vec::new();
        let mut wanted = Vec::new();
        for flush in core::mem::take(&mut object.data.flushes) {
            wanted.extend(flush.dirty.iter().cloned());
            match flush.dirty.is_empty() && flush.in_flight.is_empty() {
                true => over.push(flush),
                false => object.data.flushes.push(flush),
            }
        }
        // An fsync reports all that has failed; who waits for one write only that.
        let reports = over.iter().any(|flush| flush.own.is_none());
        let earlier = if reports { object.data.error.take() } else { None };
        // What was behind a write that was in flight.
        for range in wanted {
            self.write_out(turn, key, range, false);
        }
        for flush in over {
            let earlier = earlier.as_ref().filter(|_| flush.own.is_none());
            let error = flush.error.or_else(|| earlier.map(|earlier| earlier.error.clone()));
            (flush.done)(self, turn, error.map_or(Ok(()), Err));
        }
        self.cache.tidy(key);
    }

    /// Divides what a server has refused into what is lost, and what is to be sent again, because
    /// the error may be gone then.
    fn divide_refused(
        &self,
        key: ObjectKey,
        parts: &[Range<u64>],
        error: &ClientError,
        now: Time,
    ) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let all = || (parts.to_vec(), Vec::new());
        let Some(object) = self.cache.objects.get(&key) else { return all() };
        let is_locked = parts
            .iter()
            .all(|part| object.write_lock_at(part).is_some_and(|(_, end)| end >= part.end));
        let is_temporary = match error {
            ClientError::Errno(number) => TEMPORARY.contains(number),
            ClientError::NoMemory | ClientError::Malformed(_) => true,
            _ => false,
        };
        if !is_locked || !is_temporary {
            return all();
        }
        if *error == ClientError::NoMemory {
            return (Vec::new(), parts.to_vec());
        }
        // What has begun to fail so long ago; a request can have newer bytes as well.
        let Some(begin) = now.0.checked_sub(TRIES_END.0).map(Time) else {
            return (Vec::new(), parts.to_vec());
        };
        let lost = object.failing_since(parts, begin);
        let mut again: RangeSet<u64> =
            parts.iter().filter(|part| !part.is_empty()).cloned().collect();
        lost.iter().for_each(|part| again.remove(part.clone()));
        (lost.into_iter().collect(), again.into_iter().collect())
    }

    /// What could not be written is dirty again, and is sent after a pause.
    fn write_again(
        &mut self,
        turn: &mut Turn<'_>,
        key: ObjectKey,
        (ranges, caller): (&[Range<u64>], Caller),
        paid: Option<u64>,
        error: &ClientError,
    ) {
        let no_memory = *error == ClientError::NoMemory;
        let at = turn.now + if no_memory { RETRY } else { TRY_AGAIN };
        if no_memory {
            self.cache.starve(turn.now);
        } else {
            let object = self.cache.object(key);
            object.fails_for_now(ranges, turn.now);
            object.data.pause = Some(at);
        }
        self.cache.grant(key.import).refund(paid.unwrap_or(0), no_memory);
        for range in ranges {
            self.redirty(key, range, caller, turn.now);
        }
        let before = self.cache.flush_at.filter(|before| *before > turn.now);
        self.cache.flush_at = Some(before.map_or(at, |before| before.min(at)));
    }

    pub(super) fn wake_throttled(&mut self, turn: &mut Turn<'_>) {
        while !self.cache.throttled.is_empty() {
            let mut passed: BTreeSet<ImportKey> = BTreeSet::new();
            let may_start = |write: &ThrottledWrite| {
                // The order at a target stays.
                let first = passed.insert(write.import);
                first && self.cache.may_be_dirty(write.import, write.len)
            };
            let Some(at) = self.cache.throttled.iter().position(may_start) else {
                return self.write_all(turn);
            };
            let Some(write) = self.cache.throttled.remove(at) else { return };
            (write.start)(self, turn);
        }
    }

    /// Sends what was dirty for long.
    pub(super) fn write_old(&mut self, turn: &mut Turn<'_>) {
        let age = self.cache.tunables.max_dirty_age;
        let mut next: Option<Time> = None;
        for key in self.cache.dirty_objects.iter().copied().collect::<Vec<_>>() {
            let since = self.cache.object(key).data.dirty_since.unwrap_or(turn.now);
            let object = self.cache.object(key);
            let wanted =
                !object.data.flushes.is_empty() || object.locks.values().any(|held| held.blocked);
            if since + age <= turn.now || wanted {
                self.write_out(turn, key, 0..u64::MAX, false);
                self.continue_releases(turn, key);
            }
        }
        for key in &self.cache.dirty_objects {
            let object = self.cache.objects.get(key);
            let since = object.and_then(|object| object.data.dirty_since);
            let again = object.and_then(|object| object.data.pause).unwrap_or(Time::NEVER);
            let again = if again > turn.now { again } else { Time::NEVER };
            let due = (since.unwrap_or(turn.now) + age).min(again).max(turn.now + RETRY);
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        self.cache.flush_at = match (self.cache.flush_at, next) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn a_range_is_queued_once_until_it_was_its_turn() {
        let mut imports: SlotMap<ImportKey, ()> = SlotMap::with_key();
        let oi = Fid { seq: 1, oid: 2, ver: 0 };
        let key = ObjectKey { import: imports.insert(()), oi };
        let mut queue = QueuedWrites::default();
        for range in [5..6, 0..9, 5..6, 0..9] {
            queue.push(key, range);
        }
        assert_eq!(queue.first(), Some((key, 5..6)));
        queue.remove_first();
        assert_eq!(queue.first(), Some((key, 0..9)));
        queue.push(key, 5..6);
        queue.remove_first();
        assert_eq!(queue.first(), Some((key, 5..6)));
        queue.remove_first();
        assert_eq!((queue.first(), queue.queued.len()), (None, 0));
    }
}
