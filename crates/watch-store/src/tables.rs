//! The tables of the file.

use lustrine_watch::{Alarm, Detector};
use redb::{TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

/// Facts about the file.
pub(crate) const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
/// NIDs, and the numbers that stand for them.
pub(crate) const PEERS: TableDefinition<'_, &str, u32> = TableDefinition::new("peers");
/// Samples as JSON, by peer and number. Numbers grow with each sample, whatever the clock says.
pub(crate) const SAMPLES: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("samples");
/// Hourly rows as JSON, by peer and the number of their first sample.
pub(crate) const HOURS: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("hours");
/// Alarms as JSON, by a number that grows.
pub(crate) const ALARMS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("alarms");
/// Detectors as JSON, by peer.
pub(crate) const STATES: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("states");

/// The key in [`META`] of the format, and its present value.
pub(crate) const FORMAT: &str = "format";
pub(crate) const FORMAT_VALUE: &str = "lustrine watch 1";

/// Most peers of a file.
pub(crate) const PEERS_MAX: usize = 1024;

/// An alarm with its peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredAlarm {
    pub(crate) peer: u32,
    pub(crate) alarm: Alarm,
}

/// A detector, and the number of the last sample that it has seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredState {
    pub(crate) number: u64,
    pub(crate) detector: Detector,
}

/// Makes the tables of a new file.
pub(crate) fn make(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(META)?.insert(FORMAT, FORMAT_VALUE)?;
    transaction.open_table(PEERS)?;
    transaction.open_table(SAMPLES)?;
    transaction.open_table(HOURS)?;
    transaction.open_table(ALARMS)?;
    transaction.open_table(STATES)?;
    Ok(())
}
