//! The configuration of a file system, read from the management server's log.

use std::collections::BTreeMap;

use lustrine_fswire::llog::{CfgCommand, Chunk, LlogError, LustreCfg, MarkerFlags, RecordKind};
use lustrine_wire::nid::Nid;

/// The targets of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsConfig {
    /// The metadata targets by index.
    pub mdts: BTreeMap<u32, TargetConfig>,
    /// The object targets by index. Indexes may have gaps.
    pub osts: BTreeMap<u32, TargetConfig>,
}

/// A target as the configuration describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetConfig {
    /// The name that servers know, such as `lustre-MDT0000_UUID`.
    pub uuid: String,
    /// The NIDs of its nodes, in the order in which they are to be tried.
    pub nids: Vec<Nid>,
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A chunk of the log is malformed.
    #[error("the configuration log is malformed: {0}")]
    Log(#[from] LlogError),
    /// A command that every client has to carry out is malformed or unknown.
    #[error("record {index} of the configuration log cannot be carried out: {reason}")]
    Required {
        /// The number of the record.
        index: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no metadata target.
    #[error("the configuration names no metadata target")]
    NoMdt,
}

/// Most targets of one kind: their indexes have 16 bits.
const INDEX_MAX: u32 = 0xffff;
/// Most NIDs of a target, and groups of a device, that are used. Others are left out.
const NIDS_MAX: usize = 64;

/// Reads the records of a configuration log, one chunk after the other [MGS-8] [MGS-9].
#[derive(Debug, Default)]
pub struct ConfigReader {
    /// The NIDs of each group.
    groups: BTreeMap<Vec<u8>, Vec<Nid>>,
    /// Target and groups of each device.
    devices: BTreeMap<Vec<u8>, Device>,
    mdts: BTreeMap<u32, Vec<u8>>,
    osts: BTreeMap<u32, Vec<u8>>,
    /// The last record that was carried out.
    last: u32,
    /// Whether records count: between the start of a group and its end, unless it is withdrawn.
    active: bool,
}

#[derive(Debug, Default)]
struct Device {
    target: Vec<u8>,
    groups: Vec<Vec<u8>>,
}

impl ConfigReader {
    /// The number of the last record that was read.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Takes the records of a chunk that are live and were not read before.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(
        &mut self,
        chunk: Chunk<'_>,
        is_live: impl Fn(u32) -> bool,
    ) -> Result<(), ConfigError> {
        for record in chunk.records() {
            let record = record?;
            if record.index <= self.last {
                continue;
            }
            self.last = record.index;
            if record.kind != RecordKind::CONFIG || !is_live(record.index) {
                continue;
            }
            let required = |reason: String| ConfigError::Required { index: record.index, reason };
            let config =
                LustreCfg::parse(record.payload).map_err(|error| required(error.to_string()))?;
            if let Some(marker) = config.marker() {
                self.active = marker.flags.contains(MarkerFlags::START)
                    && !marker.flags.intersects(MarkerFlags::SKIP | MarkerFlags::EXCLUDE);
            } else if self.active {
                self.carry_out(&config).map_err(|reason| required(reason.to_owned()))?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, config: &LustreCfg<'_>) -> Result<(), &'static str> {
        let text = |index: usize| {
            let argument: &[u8] = config.arguments().get(index).copied().unwrap_or_default();
            let end = argument.iter().position(|byte| *byte == 0).unwrap_or(argument.len());
            argument[..end].to_vec()
        };
        let device = text(0);
        match config.header.command {
            CfgCommand::ADD_UUID => {
                let long = || String::from_utf8(text(2)).ok()?.parse().ok();
                // A NID of a kind that this client does not know is of no use to it.
                if let Some(nid) = config.nid().or_else(long) {
                    let group = self.groups.entry(text(1)).or_default();
                    if group.len() < NIDS_MAX && !group.contains(&nid) {
                        group.push(nid);
                    }
                }
            }
            CfgCommand::DEL_UUID => {
                self.groups.remove(&text(1));
            }
            // The devices for all files and all directories have a description, and no target.
            CfgCommand::SETUP if config.lov_desc().is_none() && config.arguments().len() > 2 => {
                let setup = Device { target: text(1), groups: vec![text(2)] };
                self.devices.insert(device, setup);
            }
            CfgCommand::ADD_CONN => {
                let device = self.devices.get_mut(&device).ok_or("an unknown device")?;
                if device.groups.len() < NIDS_MAX {
                    device.groups.push(text(1));
                }
            }
            CfgCommand::DEL_CONN => {
                if let Some(device) = self.devices.get_mut(&device) {
                    device.groups.retain(|group| *group != text(1));
                }
            }
            CfgCommand::ADD_MDC => {
                self.mdts.insert(index_of(&text(2))?, text(1));
            }
            CfgCommand::DEL_MDC => {
                self.mdts.remove(&index_of(&text(2))?);
            }
            CfgCommand::LOV_ADD_OBD | CfgCommand::LOV_ADD_INA => {
                self.osts.insert(index_of(&text(2))?, text(1));
            }
            CfgCommand::LOV_DEL_OBD => {
                self.osts.remove(&index_of(&text(2))?);
            }
            CfgCommand::ATTACH
            | CfgCommand::DETACH
            | CfgCommand::SETUP
            | CfgCommand::CLEANUP
            | CfgCommand::MOUNTOPT
            | CfgCommand::DEL_MOUNTOPT
            | CfgCommand::SET_TIMEOUT
            | CfgCommand::PARAM => {}
            other if other.is_required() => return Err("an unknown command"),
            _ => {}
        }
        Ok(())
    }

    /// The targets.
    ///
    /// # Errors
    /// When there is no metadata target.
    pub fn finish(self) -> Result<FsConfig, ConfigError> {
        let devices: BTreeMap<&[u8], &Device> =
            self.devices.values().map(|device| (device.target.as_slice(), device)).collect();
        let target = |uuid: &Vec<u8>| {
            let device = devices.get(uuid.as_slice());
            let groups = device.map(|device| device.groups.as_slice()).unwrap_or_default();
            let mut nids = Vec::new();
            for nid in groups.iter().filter_map(|group| self.groups.get(group)).flatten() {
                if nids.len() < NIDS_MAX && !nids.contains(nid) {
                    nids.push(*nid);
                }
            }
            TargetConfig { uuid: String::from_utf8_lossy(uuid).into_owned(), nids }
        };
        let all = |uuids: &BTreeMap<u32, Vec<u8>>| {
            uuids.iter().map(|(index, uuid)| (*index, target(uuid))).collect()
        };
        let config = FsConfig { mdts: all(&self.mdts), osts: all(&self.osts) };
        if config.mdts.is_empty() { Err(ConfigError::NoMdt) } else { Ok(config) }
    }
}

fn index_of(text: &[u8]) -> Result<u32, &'static str> {
    let text = core::str::from_utf8(text).map_err(|_| "an index that is no number")?;
    let index: u32 = text.parse().map_err(|_| "an index that is no number")?;
    if index > INDEX_MAX { Err("an index above 65535") } else { Ok(index) }
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::codec::{Wire, Writer};
    use lustrine_fswire::llog::{Marker, Record};

    use super::*;

    /// Builds a chunk of a log.
    #[derive(Default)]
    struct Log {
        bytes: Vec<u8>,
        index: u32,
    }

    impl Log {
        fn add(&mut self, config: &LustreCfg<'_>) {
            let mut payload = Vec::new();
            config.write(&mut Writer::new(&mut payload));
            self.index += 1;
            let record =
                Record { index: self.index, kind: RecordKind::CONFIG, id: 0, payload: &payload };
            record.write(&mut Writer::new(&mut self.bytes));
        }

        fn command(&mut self, command: CfgCommand, arguments: &[&[u8]]) {
            self.add(&LustreCfg::new(command, arguments));
        }

        fn nid(&mut self, group: &[u8], nid: &str) {
            let nid: Nid = nid.parse().expect("a NID");
            let mut config = LustreCfg::new(CfgCommand::ADD_UUID, &[b"", group]);
            config.header.nid = nid.to_short().expect("a short form");
            self.add(&config);
        }

        fn marker(&mut self, flags: MarkerFlags) {
            let marker = Marker { flags, ..Marker::default() }.to_bytes();
            self.command(CfgCommand::MARKER, &[b"", &marker]);
        }

        /// A target with its group of NIDs, as the management server writes it.
        fn target(&mut self, start: MarkerFlags, uuid: &[u8], index: &[u8], nid: &str) {
            self.marker(start);
            self.nid(nid.as_bytes(), nid);
            self.command(CfgCommand::ATTACH, &[uuid, b"osc\0", b"x\0"]);
            self.command(CfgCommand::SETUP, &[uuid, uuid, nid.as_bytes()]);
            let add = match uuid.windows(3).any(|part| part == b"MDT") {
                true => CfgCommand::ADD_MDC,
                false => CfgCommand::LOV_ADD_OBD,
            };
            self.command(add, &[b"dev\0", uuid, index, b"1\0"]);
            self.marker(MarkerFlags::END);
        }

        fn read(&self, is_live: impl Fn(u32) -> bool) -> Result<FsConfig, ConfigError> {
            let mut reader = ConfigReader::default();
            reader.read(Chunk(&self.bytes), is_live)?;
            reader.finish()
        }
    }

    fn two_targets(start: MarkerFlags) -> Log {
        let mut log = Log::default();
        log.target(MarkerFlags::START, b"lab-MDT0000_UUID\0", b"0\0", "10.0.0.2@tcp");
        log.target(start, b"lab-OST0003_UUID\0", b"3\0", "10.0.0.3@tcp");
        log
    }

    #[test]
    fn targets_are_found_with_their_nids() {
        let mut log = two_targets(MarkerFlags::START);
        log.marker(MarkerFlags::START);
        log.nid(b"spare", "10.0.0.4@tcp");
        log.command(CfgCommand::ADD_CONN, &[b"lab-OST0003_UUID\0", b"spare"]);
        log.marker(MarkerFlags::END);
        let config = log.read(|_| true).expect("a configuration");
        assert_eq!(config.mdts[&0].uuid, "lab-MDT0000_UUID");
        assert_eq!(config.osts.keys().copied().collect::<Vec<_>>(), [3]);
        let nids: Vec<String> = config.osts[&3].nids.iter().map(ToString::to_string).collect();
        assert_eq!(nids, ["10.0.0.3@tcp", "10.0.0.4@tcp"]);
    }

    #[test]
    fn withdrawn_groups_and_dead_records_do_not_count() {
        let log = two_targets(MarkerFlags::START | MarkerFlags::SKIP);
        assert!(log.read(|_| true).expect("a configuration").osts.is_empty());
        let log = two_targets(MarkerFlags::START);
        let dead = log.index - 1;
        assert!(log.read(|index| index != dead).expect("a configuration").osts.is_empty());
    }

    #[test]
    fn records_that_were_read_are_not_read_again() {
        let log = two_targets(MarkerFlags::START);
        let mut reader = ConfigReader::default();
        for _ in 0..2 {
            reader.read(Chunk(&log.bytes), |_| true).expect("good records");
        }
        assert_eq!(reader.last(), log.index);
        assert_eq!(reader.finish().expect("a configuration").osts[&3].nids.len(), 1);
    }

    #[test]
    fn bad_logs_are_refused() {
        assert_eq!(Log::default().read(|_| true), Err(ConfigError::NoMdt));
        let mut log = two_targets(MarkerFlags::START);
        log.marker(MarkerFlags::START);
        log.command(CfgCommand(0xcf0ff), &[]);
        let error = log.read(|_| true).expect_err("an unknown command");
        assert!(error.to_string().contains("an unknown command"), "{error}");
        // One that no client has to know is left out.
        let mut log = two_targets(MarkerFlags::START);
        log.marker(MarkerFlags::START);
        log.command(CfgCommand(0xce0ff), &[]);
        log.read(|_| true).expect("a configuration");
        let mut log = two_targets(MarkerFlags::START);
        log.marker(MarkerFlags::START);
        log.command(CfgCommand::LOV_ADD_OBD, &[b"", b"x\0", b"65536\0"]);
        assert!(log.read(|_| true).is_err());
    }
}
