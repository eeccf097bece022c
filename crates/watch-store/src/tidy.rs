//! What is kept of old samples, and how large a file may become.

use lustrine_watch::{HOUR_MS, Row, Sample, thin};
use redb::{Durability, ReadableTable, WriteTransaction};
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::store::{Store, json, write_error};
use crate::tables::{ALARMS, HOURS, SAMPLES, StoredAlarm};

/// Most samples of a peer that are thinned in one transaction.
const CHUNK: usize = 40_000;
/// A sample that is later than now by more than this was taken while the clock was ahead.
const AHEAD_MS: u64 = HOUR_MS;
/// One alarm is kept for so many bytes of the limit: an alarm takes some hundred bytes, so that all
/// of them together take a small part of it.
const BYTES_PER_ALARM: u64 = 8192;
/// A part of the limit that may be added before the size is looked at again.
const LOOK: u64 = 32;

/// How many rows were dropped to keep the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Samples that became parts of hourly rows.
    pub thinned: u64,
    /// Hourly rows, samples without one, and alarms for their number or the size, that were
    /// dropped.
    pub dropped: u64,
    /// Whether the size was the reason for some of it.
    pub was_full: bool,
}

impl Store {
    /// Whether so much was added that [`Store::tidy`] has to be called now, and not after its usual
    /// time.
    pub fn is_due(&self) -> bool {
        self.added > self.limits.bytes / LOOK
    }

    /// Thins old samples and drops what is older than it may be, by the wall clock: `now_ms` is
    /// `None` if this may not be trusted. Keeps the size within its limit in any case.
    ///
    /// # Errors
    /// When the file cannot be written; then it has to be opened again.
    pub fn tidy(&mut self, now_ms: Option<u64>) -> Result<Tidied, StoreError> {
        let path = self.path.clone();
        let mut done = Tidied::default();
        self.tidied(now_ms, &mut done).map_err(|error| write_error(&path, error))?;
        Ok(done)
    }

    fn tidied(&mut self, now_ms: Option<u64>, done: &mut Tidied) -> Result<(), redb::Error> {
        if let Some(now_ms) = now_ms {
            let until_ms = now_ms.saturating_sub(self.limits.samples_ms);
            self.thin_until(until_ms, now_ms.saturating_add(AHEAD_MS), done)?;
        }
        let oldest = now_ms.map_or(0, |now_ms| now_ms.saturating_sub(self.limits.keep_ms));
        let transaction = self.begin()?;
        done.dropped += drop_hours(&transaction, |_, row| row.at_ms < oldest)?;
        let over = |alarm: &StoredAlarm| alarm.alarm.over.is_some_and(|(at, _)| at < oldest);
        let most = usize::try_from(self.limits.bytes / BYTES_PER_ALARM).unwrap_or(usize::MAX);
        done.dropped += drop_alarms(&transaction, most, over)?;
        transaction.commit()?;
        self.added = 0;
        if self.is_small_enough()? {
            return Ok(());
        }
        done.was_full = true;
        // Rows of hours first, then less and less of the oldest: alarms, rows, samples.
        self.thin_until(u64::MAX, u64::MAX, done)?;
        while !self.is_small_enough()? {
            let transaction = self.begin()?;
            let dropped = drop_oldest(&transaction)?;
            transaction.commit()?;
            if dropped == 0 {
                break;
            }
            done.dropped += dropped;
        }
        Ok(())
    }

    fn begin(&self) -> Result<WriteTransaction, redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate);
        Ok(transaction)
    }

    /// Whether the pages in use leave room: redb doubles a file that is full, and a transaction
    /// needs new pages before it frees the old ones. The pages that a transaction gave up are free
    /// after the next one, so there is an empty one first.
    fn is_small_enough(&self) -> Result<bool, redb::Error> {
        self.begin()?.commit()?;
        let transaction = self.database.begin_write()?;
        let stats = transaction.stats()?;
        let used = stats.allocated_pages().saturating_mul(stats.page_size() as u64);
        transaction.abort()?;
        Ok(used <= self.limits.bytes / 2 - self.limits.bytes / 16)
    }

    /// Thins the samples of all peers until this time, by the wall clock. The clock was ahead when
    /// those after `ahead_ms` were taken.
    fn thin_until(
        &mut self,
        until_ms: u64,
        ahead_ms: u64,
        done: &mut Tidied,
    ) -> Result<(), redb::Error> {
        for peer in self.peers.values() {
            loop {
                let transaction = self.begin()?;
                let replaced = thin_some(&transaction, *peer, until_ms, ahead_ms)?;
                transaction.commit()?;
                done.thinned += replaced;
                if replaced == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Thins the oldest samples of a peer; how many were replaced.
fn thin_some(
    transaction: &WriteTransaction,
    peer: u32,
    until_ms: u64,
    ahead_ms: u64,
) -> Result<u64, redb::Error> {
    let mut table = transaction.open_table(SAMPLES)?;
    let mut samples: Vec<(u64, Sample)> = Vec::new();
    for row in table.range((peer, 0)..=(peer, u64::MAX))? {
        let (key, value) = row?;
        let sample: Sample = parsed(value.value())?;
        // One of a clock that was ahead says nothing of how old it is: the one after it does. That
        // one is found also behind more of them than a transaction takes.
        let is_ahead = sample.at_ms > ahead_ms;
        let is_full = samples.len() >= CHUNK;
        if is_full && is_ahead {
            continue;
        }
        let is_new = sample.at_ms >= until_ms && !is_ahead;
        samples.push((key.value().1, sample));
        // The first one that stays shows that the hour before is complete.
        if is_new || is_full {
            break;
        }
    }
    let thinned = thin(&samples, until_ms);
    let mut hours = transaction.open_table(HOURS)?;
    for (number, row) in &thinned.rows {
        hours.insert((peer, *number), json(row).as_slice())?;
    }
    for number in &thinned.replaced {
        table.remove((peer, *number))?;
    }
    Ok(thinned.replaced.len() as u64)
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, redb::Error> {
    serde_json::from_slice(bytes).map_err(|error| redb::Error::Corrupted(error.to_string()))
}

fn drop_hours(
    transaction: &WriteTransaction,
    is_old: impl Fn(u64, &Row) -> bool,
) -> Result<u64, redb::Error> {
    let mut table = transaction.open_table(HOURS)?;
    let mut old = Vec::new();
    for row in table.iter()? {
        let (key, value) = row?;
        if is_old(key.value().1, &parsed(value.value())?) {
            old.push(key.value());
        }
    }
    for key in &old {
        table.remove(*key)?;
    }
    Ok(old.len() as u64)
}

/// Drops old alarms, and the oldest that are over if there are more than `most`; how many for their
/// number.
fn drop_alarms(
    transaction: &WriteTransaction,
    most: usize,
    is_old: impl Fn(&StoredAlarm) -> bool,
) -> Result<u64, redb::Error> {
    let mut table = transaction.open_table(ALARMS)?;
    let (mut old, mut over, mut count) = (Vec::new(), Vec::new(), 0);
    for row in table.iter()? {
        let (key, value) = row?;
        let stored: StoredAlarm = parsed(value.value())?;
        count += 1;
        match stored.alarm.over {
            Some(_) if is_old(&stored) => old.push(key.value()),
            Some(_) => over.push(key.value()),
            None => {}
        }
    }
    let surplus = usize::saturating_sub(count - old.len(), most);
    let aged = old.len();
    old.extend(over.into_iter().take(surplus));
    let surplus = old.len() - aged;
    for key in old {
        table.remove(key)?;
    }
    Ok(surplus as u64)
}

/// Drops a quarter of the alarms that are over, the oldest; where there are none, of the hours, and
/// then of the samples, but never the latest ones; how many.
fn drop_oldest(transaction: &WriteTransaction) -> Result<u64, redb::Error> {
    let mut alarms = transaction.open_table(ALARMS)?;
    let mut over = Vec::new();
    for row in alarms.iter()? {
        let (key, value) = row?;
        if parsed::<StoredAlarm>(value.value())?.alarm.over.is_some() {
            over.push(key.value());
        }
    }
    let count = over.len().div_ceil(4).min(over.len().saturating_sub(KEPT));
    if count > 0 {
        for key in &over[..count] {
            alarms.remove(*key)?;
        }
        return Ok(count as u64);
    }
    let mut hours = transaction.open_table(HOURS)?;
    let mut samples = transaction.open_table(SAMPLES)?;
    for table in [&mut hours, &mut samples] {
        let mut keys = Vec::new();
        for row in table.iter()? {
            keys.push(row?.0.value());
        }
        // Numbers grow with time over all peers.
        keys.sort_unstable_by_key(|(_, number)| *number);
        let count = keys.len().div_ceil(4).min(keys.len().saturating_sub(KEPT));
        if count > 0 {
            for key in &keys[..count] {
                table.remove(*key)?;
            }
            return Ok(count as u64);
        }
    }
    Ok(0)
}

/// So many rows of a table stay whatever the limit is.
pub(crate) const KEPT: usize = 100;
