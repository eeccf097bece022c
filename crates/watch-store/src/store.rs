//! The file of a daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use lustrine_watch::{AlarmEnd, AlarmKind, Detector, Event, Sample};
use redb::backends::FileBackend;
use redb::{Builder, Database, StorageBackend, WriteTransaction};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::backend::LengthFirst;
use crate::check::{CACHE, check};
use crate::contents::Contents;
use crate::error::StoreError;
use crate::file::{io_error, not_usable, whole};
use crate::tables::{self, ALARMS, PEERS, PEERS_MAX, SAMPLES, STATES, StoredAlarm, StoredState};

/// How long rows are kept, and how large the file may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples are kept for so many milliseconds, then rows of their hours.
    pub samples_ms: u64,
    /// Rows of hours, and alarms that are over, are kept for so many milliseconds.
    pub keep_ms: u64,
    /// The file has at most so many bytes, [`crate::FILE_MIN`] to [`crate::FILE_MAX`].
    pub bytes: u64,
}

/// A sample, and what it led to.
#[derive(Clone, Copy, Debug)]
pub struct NewSample<'a> {
    /// The peer's NID.
    pub peer: &'a str,
    /// The sample.
    pub sample: &'a Sample,
    /// What the peer's detector said of it.
    pub events: &'a [Event],
    /// The detector after it.
    pub detector: &'a Detector,
}

/// The rows of alarms that last, by peer, kind and part.
type Lasting = BTreeMap<(u32, AlarmKind, String), u64>;

/// States are written with this many samples, or with an event.
const STATE_EVERY: u64 = 60;

/// An open file.
#[derive(Debug)]
pub struct Store {
    pub(crate) path: PathBuf,
    pub(crate) database: Database,
    pub(crate) limits: Limits,
    pub(crate) peers: BTreeMap<String, u32>,
    /// The number of the next sample.
    next: u64,
    next_alarm: u64,
    lasting: Lasting,
    /// Rows of alarms that lasted in the file and do not any more, as they are to be written.
    ended: Vec<(u64, StoredAlarm)>,
    /// The detectors as they were when the file was opened.
    detectors: BTreeMap<String, Detector>,
    unread: Vec<u32>,
    /// Samples of each peer since its state was written.
    since_state: BTreeMap<u32, u64>,
    /// Bytes that were added since the last look at the size.
    pub(crate) added: u64,
}

impl Store {
    /// Opens a file, or makes it if there is none.
    ///
    /// # Errors
    /// When another process has it open, and when it is damaged or no file of this program.
    pub fn open(path: &Path, limits: Limits) -> Result<Store, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let mut file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(path)?;
                options.open(path)
            }
            other => other,
        }
        .map_err(|error| io_error(path, error))?;
        lock(path, &file)?;
        let contents = check(whole(path, &mut file)?).map_err(|wrong| not_usable(path, wrong))?;
        // The lock is this descriptor's already.
        let database = FileBackend::new(file)
            .map_err(|error| write_error(path, error))
            .and_then(|backend| open_database(backend).map_err(|error| write_error(path, error)))?;
        Ok(Store::with(path, database, limits, &contents))
    }

    /// Opens a database at another place than a file, of which `bytes` are the contents.
    #[cfg(test)]
    pub(crate) fn on(
        backend: impl StorageBackend,
        bytes: Option<Vec<u8>>,
        limits: Limits,
    ) -> Result<Store, StoreError> {
        let path = Path::new("test");
        let contents = match bytes {
            Some(bytes) => check(bytes).map_err(|wrong| not_usable(path, wrong))?,
            None => Contents::default(),
        };
        let database = match contents.peers.is_empty() {
            true => make_database(backend).map_err(|why| write_error(path, why))?,
            false => open_database(backend).map_err(|error| write_error(path, error))?,
        };
        Ok(Store::with(path, database, limits, &contents))
    }

    fn with(path: &Path, database: Database, limits: Limits, contents: &Contents) -> Store {
        let detectors = contents.peers.iter();
        let detectors: BTreeMap<String, Detector> = detectors
            .filter_map(|(nid, peer)| Some((nid.clone(), contents.detector(*peer)?)))
            .collect();
        let (lasting, ended) = reconciled(contents, &detectors);
        Store {
            path: path.to_owned(),
            database,
            limits,
            peers: contents.peers.clone(),
            next: contents.next_number(),
            next_alarm: contents.alarms.keys().next_back().map_or(0, |last| last + 1),
            lasting,
            ended,
            detectors,
            unread: contents.unread.clone(),
            since_state: BTreeMap::new(),
            // What is there may be too much for the present limits.
            added: u64::MAX,
        }
    }

    /// Peers whose detectors are of another release and cannot be read: they are learnt again.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        let is = |number: &u32| self.unread.contains(number);
        self.peers.iter().filter(move |(_, number)| is(number)).map(|(nid, _)| nid.as_str())
    }

    /// The detector of a peer as its samples left it, once; `None` for a new peer.
    pub fn take_detector(&mut self, nid: &str) -> Option<Detector> {
        self.detectors.remove(nid)
    }

    /// Whether the file has room for these peers beside those that it has.
    ///
    /// # Errors
    /// [`StoreError::TooManyPeers`] if it has not.
    pub fn has_room_for(&self, nids: &[String]) -> Result<(), StoreError> {
        let new: BTreeSet<&String> =
            nids.iter().filter(|nid| !self.peers.contains_key(*nid)).collect();
        match new.len() + self.peers.len() <= PEERS_MAX {
            true => Ok(()),
            false => Err(StoreError::TooManyPeers { path: self.path.clone() }),
        }
    }

    /// Stores samples, all or none of them. They are on the disk when this returns.
    ///
    /// # Errors
    /// When they could not be written; then the file has to be opened again.
    pub fn append(&mut self, samples: &[NewSample<'_>]) -> Result<(), StoreError> {
        // Numbers are used up also by what fails.
        let transaction = self.database.begin_write();
        let transaction = transaction.map_err(|error| write_error(&self.path, error))?;
        let path = self.path.clone();
        self.end_alarms(&transaction).map_err(|error| write_error(&path, error))?;
        for new in samples {
            let peer = self.peer(&transaction, new.peer)?;
            self.insert(&transaction, peer, new).map_err(|error| write_error(&path, error))?;
        }
        transaction.commit().map_err(|error| write_error(&path, error))
    }

    /// Ends the alarms that no detector has any more. If this fails, they are found again when the
    /// file is opened again.
    fn end_alarms(&mut self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let mut alarms = transaction.open_table(ALARMS)?;
        for (at, stored) in self.ended.drain(..) {
            alarms.insert(at, json(&stored).as_slice())?;
        }
        Ok(())
    }

    fn peer(&mut self, transaction: &WriteTransaction, nid: &str) -> Result<u32, StoreError> {
        if let Some(peer) = self.peers.get(nid) {
            return Ok(*peer);
        }
        if self.peers.len() >= PEERS_MAX {
            return Err(StoreError::TooManyPeers { path: self.path.clone() });
        }
        let peer = self.peers.values().max().map_or(0, |last| last + 1);
        let insert = || -> Result<(), redb::Error> {
            transaction.open_table(PEERS)?.insert(nid, peer)?;
            Ok(())
        };
        insert().map_err(|error| write_error(&self.path, error))?;
        self.peers.insert(nid.to_owned(), peer);
        Ok(peer)
    }

    fn insert(
        &mut self,
        transaction: &WriteTransaction,
        peer: u32,
        new: &NewSample<'_>,
    ) -> Result<(), redb::Error> {
        let number = self.next;
        self.next += 1;
        let bytes = json(new.sample);
        self.added = self.added.saturating_add(2 * bytes.len() as u64);
        transaction.open_table(SAMPLES)?.insert((peer, number), bytes.as_slice())?;
        let mut alarms = transaction.open_table(ALARMS)?;
        for event in new.events {
            let alarm = event.alarm().clone();
            let key = (peer, alarm.kind.clone(), alarm.part.clone());
            let at = match event {
                Event::Raised(_) => {
                    self.next_alarm += 1;
                    self.lasting.insert(key, self.next_alarm - 1);
                    self.next_alarm - 1
                }
                Event::Over(_) => match self.lasting.remove(&key) {
                    Some(at) => at,
                    None => continue,
                },
            };
            let bytes = json(&StoredAlarm { peer, alarm });
            self.added = self.added.saturating_add(2 * bytes.len() as u64);
            alarms.insert(at, bytes.as_slice())?;
        }
        let since = self.since_state.entry(peer).or_insert(STATE_EVERY);
        *since += 1;
        if *since > STATE_EVERY || !new.events.is_empty() {
            *since = 0;
            let bytes = json(&StoredState { number, detector: new.detector.clone() });
            transaction.open_table(STATES)?.insert(peer, bytes.as_slice())?;
        }
        Ok(())
    }
}

/// The rows of alarms that last, by peer, kind and part; and those that last in the file though the
/// peer's detector does not have them, with their end: it was lost, or the peer is learnt again.
fn reconciled(
    contents: &Contents,
    detectors: &BTreeMap<String, Detector>,
) -> (Lasting, Vec<(u64, StoredAlarm)>) {
    let mut lasting = Lasting::new();
    let active = contents.peers.iter().filter_map(|(nid, peer)| Some((peer, detectors.get(nid)?)));
    let active: BTreeSet<(u32, &AlarmKind, &str)> = active
        .flat_map(|(peer, detector)| {
            detector.active().iter().map(|alarm| (*peer, &alarm.kind, alarm.part.as_str()))
        })
        .collect();
    let mut ended = Vec::new();
    // The latest row of an alarm is the one that lasts.
    for (number, stored) in contents.alarms.iter().rev() {
        let StoredAlarm { peer, alarm } = stored;
        if alarm.over.is_some() {
            continue;
        }
        let key = (*peer, alarm.kind.clone(), alarm.part.clone());
        if active.contains(&(*peer, &alarm.kind, &alarm.part)) && !lasting.contains_key(&key) {
            lasting.insert(key, *number);
            continue;
        }
        let mut stored = stored.clone();
        let samples = contents.samples.get(peer);
        let last = samples.and_then(|samples| samples.last()).map_or(0, |(_, last)| last.at_ms);
        // How it ended is not known. What later samples are compared with is what there is now.
        stored.alarm.over = Some((last.max(alarm.raised_ms), AlarmEnd::Accepted));
        ended.push((*number, stored));
    }
    (lasting, ended)
}

/// A row as JSON.
pub(crate) fn json(row: &impl Serialize) -> Vec<u8> {
    // Maps with keys that are no text are what cannot be written; there are none.
    serde_json::to_vec(row).expect("rows can be written as JSON")
}

pub(crate) fn write_error(path: &Path, why: impl ToString) -> StoreError {
    StoreError::Write { path: path.to_owned(), why: why.to_string() }
}

/// Takes the lock that a daemon holds, which ends with the file's descriptor.
fn lock(path: &Path, file: &File) -> Result<(), StoreError> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => StoreError::InUse { path: path.to_owned() },
        other => io_error(path, other.into()),
    })
}

/// Makes a file: complete under another name, then under its own. A process that is killed
/// meanwhile leaves none under this name that is not complete.
fn create(path: &Path) -> Result<(), StoreError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let not_made = |why: String| {
        let (path, directory) = (path.to_owned(), directory.to_owned());
        StoreError::Make { path, directory, why }
    };
    directory.metadata().map_err(|error| not_made(error.to_string()))?;
    // The error of the other name's file has that name, which says nothing to the user.
    let new = tempfile::Builder::new()
        .prefix(".lustrine-watch-")
        .tempfile_in(directory)
        .map_err(|error| not_made(error.kind().to_string()))?;
    let file = new.as_file().try_clone().map_err(|error| io_error(path, error))?;
    let backend = FileBackend::new(file);
    let backend = backend.map_err(|error| write_error(path, error))?;
    drop(make_database(backend).map_err(|why| write_error(path, why))?);
    match new.persist_noclobber(path) {
        Ok(_) => {}
        // Another daemon was first; the lock decides.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(io_error(path, error.error)),
    }
    // The name is on the disk as well.
    File::open(directory).and_then(|dir| dir.sync_all()).map_err(|error| io_error(path, error))
}

fn open_database(backend: impl StorageBackend) -> Result<Database, redb::DatabaseError> {
    Builder::new()
        .set_cache_size(CACHE)
        // The format that later releases of redb read.
        .create_with_file_format_v3(true)
        .create_with_backend(LengthFirst(backend))
}

/// A database with its tables.
fn make_database(backend: impl StorageBackend) -> Result<Database, String> {
    let database = open_database(backend).map_err(|error| error.to_string())?;
    let transaction = database.begin_write().map_err(|error| error.to_string())?;
    tables::make(&transaction).map_err(|error| error.to_string())?;
    transaction.commit().map_err(|error| error.to_string())?;
    Ok(database)
}

#[cfg(test)]
mod tests;
