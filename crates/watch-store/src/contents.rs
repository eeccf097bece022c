//! Everything that is in a file.

use std::collections::BTreeMap;

use lustrine_watch::{Alarm, Detector, Row, Sample};
use redb::{Database, ReadableTable, TableError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::Wrong;
use crate::tables::{
    ALARMS, FORMAT, FORMAT_VALUE, HOURS, META, PEERS, SAMPLES, STATES, StoredAlarm, StoredState,
};

/// All that a file has of a peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerHistory {
    /// Its NID.
    pub nid: String,
    /// Its samples, in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// Rows of the hours before.
    pub hours: Vec<Row>,
    /// Its alarms, in the order in which they were raised.
    pub alarms: Vec<Alarm>,
}

/// All rows of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contents {
    pub(crate) peers: BTreeMap<String, u32>,
    pub(crate) samples: BTreeMap<u32, Vec<(u64, Sample)>>,
    pub(crate) hours: BTreeMap<u32, Vec<(u64, Row)>>,
    pub(crate) alarms: BTreeMap<u64, StoredAlarm>,
    pub(crate) states: BTreeMap<u32, StoredState>,
    /// The largest number of a state.
    last_state: Option<u64>,
    /// Peers whose state cannot be read.
    pub(crate) unread: Vec<u32>,
}

/// The part of a state that every release writes.
#[derive(Deserialize)]
struct StateNumber {
    number: u64,
}

fn damaged(what: &str) -> impl Fn(redb::StorageError) -> Wrong {
    let what = what.to_owned();
    move |error| Wrong::Damaged(format!("{what}: {error}"))
}

/// The words for a table that is not there, or has other types.
fn foreign(error: TableError) -> Wrong {
    match error {
        TableError::Storage(error) => Wrong::Damaged(error.to_string()),
        other => Wrong::Foreign(other.to_string()),
    }
}

fn parsed<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Wrong> {
    serde_json::from_slice(bytes).map_err(|error| Wrong::Damaged(format!("{what}: {error}")))
}

impl Contents {
    /// Reads every row but the detectors.
    pub(crate) fn read(database: &Database) -> Result<Contents, Wrong> {
        let transaction =
            database.begin_read().map_err(|error| Wrong::Damaged(error.to_string()))?;
        let meta = transaction.open_table(META).map_err(foreign)?;
        let format = meta.get(FORMAT).map_err(damaged("meta"))?;
        match format.as_ref().map(|value| value.value()) {
            Some(FORMAT_VALUE) => {}
            Some(other) => {
                let why = format!("its format is {other:?}, and this program's {FORMAT_VALUE:?}");
                return Err(Wrong::Foreign(why));
            }
            None => return Err(Wrong::Foreign("it does not name its format".to_owned())),
        }
        let mut contents = Contents::default();
        let table = transaction.open_table(PEERS).map_err(foreign)?;
        for row in table.iter().map_err(damaged("peers"))? {
            let (nid, number) = row.map_err(damaged("peers"))?;
            contents.peers.insert(nid.value().to_owned(), number.value());
        }
        let table = transaction.open_table(SAMPLES).map_err(foreign)?;
        for row in table.iter().map_err(damaged("samples"))? {
            let (key, value) = row.map_err(damaged("samples"))?;
            let (peer, number) = key.value();
            let sample = parsed("a sample", value.value())?;
            contents.samples.entry(peer).or_default().push((number, sample));
        }
        let table = transaction.open_table(HOURS).map_err(foreign)?;
        for row in table.iter().map_err(damaged("hours"))? {
            let (key, value) = row.map_err(damaged("hours"))?;
            let (peer, number) = key.value();
            let hour = parsed("an hour", value.value())?;
            contents.hours.entry(peer).or_default().push((number, hour));
        }
        let table = transaction.open_table(ALARMS).map_err(foreign)?;
        for row in table.iter().map_err(damaged("alarms"))? {
            let (number, value) = row.map_err(damaged("alarms"))?;
            contents.alarms.insert(number.value(), parsed("an alarm", value.value())?);
        }
        Ok(contents)
    }

    /// Reads the detectors. One of another release, which this one cannot read, is no damage: the
    /// peer is learnt again.
    pub(crate) fn read_states(&mut self, database: &Database) -> Result<(), Wrong> {
        let transaction =
            database.begin_read().map_err(|error| Wrong::Damaged(error.to_string()))?;
        let table = transaction.open_table(STATES).map_err(foreign)?;
        for row in table.iter().map_err(damaged("states"))? {
            let (peer, value) = row.map_err(damaged("states"))?;
            if let Ok(StateNumber { number }) = serde_json::from_slice(value.value()) {
                self.last_state = self.last_state.max(Some(number));
            }
            match serde_json::from_slice(value.value()) {
                Ok(state) => {
                    self.states.insert(peer.value(), state);
                }
                Err(_) => self.unread.push(peer.value()),
            }
        }
        Ok(())
    }

    /// A number that no sample has had.
    pub(crate) fn next_number(&self) -> u64 {
        let samples = self.samples.values().flatten().map(|(number, _)| *number);
        let hours = self.hours.values().flatten().map(|(number, _)| *number);
        samples.chain(hours).chain(self.last_state).max().map_or(0, |last| last.saturating_add(1))
    }

    /// The detector of a peer, after all of its samples. It is a function of them, so that of the
    /// samples after its last state the same comes as before.
    pub(crate) fn detector(&self, peer: u32) -> Option<Detector> {
        let StoredState { number, mut detector } = self.states.get(&peer)?.clone();
        let samples = self.samples.get(&peer).map_or(&[][..], Vec::as_slice);
        for (_, sample) in samples.iter().filter(|(at, _)| *at > number) {
            detector.observe(sample);
        }
        Some(detector)
    }

    /// What is known of each peer, by NID.
    pub(crate) fn histories(mut self) -> Vec<PeerHistory> {
        let peers = std::mem::take(&mut self.peers);
        let history = |(nid, peer): (String, u32)| {
            let samples = self.samples.remove(&peer).unwrap_or_default();
            let hours = self.hours.remove(&peer).unwrap_or_default();
            let alarms = self.alarms.values().filter(|stored| stored.peer == peer);
            PeerHistory {
                nid,
                samples: samples.into_iter().map(|(_, sample)| sample).collect(),
                hours: hours.into_iter().map(|(_, hour)| hour).collect(),
                alarms: alarms.map(|stored| stored.alarm.clone()).collect(),
            }
        };
        peers.into_iter().map(history).collect()
    }
}
