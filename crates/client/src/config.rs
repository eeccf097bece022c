//! The configuration of a file system, read from the management server's log.

mod parameters;

use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::llog::{CfgCommand, Chunk, LlogError, LustreCfg, MarkerFlags, RecordKind};
use lustrine_wire::nid::Nid;

pub(crate) use parameters::{DeviceName, Setting};
pub use parameters::{Parameter, Scope};

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
    /// Whether it was added as one that is not to be used.
    pub inactive: bool,
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
    /// The records that count have more bytes than any log needs.
    #[error("the configuration log is too large")]
    TooLarge,
}

/// A command that is not about targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A parameter.
    Parameter(Parameter),
    /// One that this client does not carry out, as text for people.
    Unused(String),
}

/// Most targets of one kind: their indexes have 16 bits.
const INDEX_MAX: u32 = 0xffff;
/// Most NIDs of a target, and groups of a device, that are used. Others are left out.
const NIDS_MAX: usize = 64;
/// Most bytes of records that count, of all readings of a log together: a log has at most 64,767
/// records, and those of targets have about 100 bytes.
const BYTES_MAX: usize = 32 << 20;

/// Reads the records of a configuration log, one chunk after the other [MGS-8] [MGS-9].
#[derive(Debug, Default)]
pub struct ConfigReader {
    /// The NIDs of each group.
    groups: BTreeMap<Vec<u8>, Vec<Nid>>,
    /// Target and groups of each device.
    devices: BTreeMap<Vec<u8>, Device>,
    mdts: BTreeMap<u32, Vec<u8>>,
    osts: BTreeMap<u32, Vec<u8>>,
    /// The object targets that are not to be used.
    inactive: BTreeSet<u32>,
    /// Commands that are to be carried out by others.
    commands: Vec<Command>,
    /// Whether records that cannot be carried out are left out, and the last of them. Otherwise
    /// they end the reading.
    lenient: bool,
    left_out: Option<ConfigError>,
    /// Bytes of records that counted.
    bytes: usize,
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

    /// Takes the records of a chunk that are live and were not read before, up to the last one that
    /// the header of the log names: whether later ones are live is not known.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(
        &mut self,
        chunk: Chunk<'_>,
        upto: u32,
        is_live: impl Fn(u32) -> bool,
    ) -> Result<(), ConfigError> {
        for record in chunk.records() {
            let record = record?;
            if record.index > upto {
                break;
            }
            if record.index <= self.last {
                continue;
            }
            self.last = record.index;
            if record.kind != RecordKind::CONFIG || !is_live(record.index) {
                continue;
            }
            self.bytes += record.len();
            if self.bytes > BYTES_MAX {
                return Err(ConfigError::TooLarge);
            }
            if let Err(reason) = self.take(record.payload) {
                let error = ConfigError::Required { index: record.index, reason };
                if !self.lenient {
                    return Err(error);
                }
                self.left_out = Some(error);
            }
        }
        Ok(())
    }

    fn take(&mut self, payload: &[u8]) -> Result<(), String> {
        let config = LustreCfg::parse(payload).map_err(|error| error.to_string())?;
        if let Some(marker) = config.marker() {
            self.active = marker.flags.contains(MarkerFlags::START)
                && !marker.flags.intersects(MarkerFlags::SKIP | MarkerFlags::EXCLUDE);
        } else if self.active {
            self.carry_out(&config).map_err(str::to_owned)?;
        }
        Ok(())
    }

    /// Leaves records out that cannot be carried out, from now on. At a mount they end the reading.
    pub fn be_lenient(&mut self) {
        self.lenient = true;
    }

    /// The last record that was left out, and why, since this was last asked.
    pub fn take_left_out(&mut self) -> Option<ConfigError> {
        self.left_out.take()
    }

    /// The commands that are to be carried out by others, since they were last taken.
    pub fn take_commands(&mut self) -> Vec<Command> {
        core::mem::take(&mut self.commands)
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
                let index = index_of(&text(2))?;
                self.osts.insert(index, text(1));
                match config.header.command == CfgCommand::LOV_ADD_INA {
                    true => self.inactive.insert(index),
                    false => self.inactive.remove(&index),
                };
            }
            CfgCommand::PARAM => {
                for argument in config.arguments().iter().skip(1) {
                    self.parameter(Parameter::of_device(&device, argument), argument);
                }
            }
            CfgCommand::SET_PARAM => {
                let argument = text(1);
                self.parameter(Parameter::of_path(&argument), &argument);
            }
            CfgCommand::SET_TIMEOUT => {
                let parameter = Parameter::timeout(config.header.num);
                self.commands.push(Command::Parameter(parameter));
            }
            CfgCommand::SPTLRPC_CONF => {
                let rule = String::from_utf8_lossy(&text(1)).escape_debug().take(100).collect();
                self.commands.push(Command::Unused(rule));
            }
            CfgCommand::LOV_DEL_OBD => {
                self.osts.remove(&index_of(&text(2))?);
            }
            CfgCommand::ATTACH
            | CfgCommand::DETACH
            | CfgCommand::SETUP
            | CfgCommand::CLEANUP
            | CfgCommand::MOUNTOPT
            | CfgCommand::DEL_MOUNTOPT => {}
            other if other.is_required() => return Err("an unknown command"),
            _ => {}
        }
        Ok(())
    }

    fn parameter(&mut self, parameter: Option<Parameter>, text: &[u8]) {
        self.commands.push(match parameter {
            Some(parameter) => Command::Parameter(parameter),
            None => {
                let text = String::from_utf8_lossy(text);
                Command::Unused(text.escape_debug().take(100).collect())
            }
        });
    }

    /// The targets, as far as the log was read.
    ///
    /// # Errors
    /// When there is no metadata target.
    pub fn finish(&self) -> Result<FsConfig, ConfigError> {
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
            let uuid = String::from_utf8_lossy(uuid).into_owned();
            TargetConfig { uuid, nids, inactive: false }
        };
        let all = |uuids: &BTreeMap<u32, Vec<u8>>| {
            uuids.iter().map(|(index, uuid)| (*index, target(uuid))).collect()
        };
        let mut config = FsConfig { mdts: all(&self.mdts), osts: all(&self.osts) };
        for index in &self.inactive {
            if let Some(target) = config.osts.get_mut(index) {
                target.inactive = true;
            }
        }
        if config.mdts.is_empty() { Err(ConfigError::NoMdt) } else { Ok(config) }
    }
}

fn index_of(text: &[u8]) -> Result<u32, &'static str> {
    let text = core::str::from_utf8(text).map_err(|_| "an index that is not a number")?;
    let index: u32 = text.parse().map_err(|_| "an index that is not a number")?;
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
            reader.read(Chunk(&self.bytes), u32::MAX, is_live)?;
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
            reader.read(Chunk(&log.bytes), u32::MAX, |_| true).expect("good records");
        }
        assert_eq!(reader.last(), log.index);
        assert_eq!(reader.finish().expect("a configuration").osts[&3].nids.len(), 1);
    }

    #[test]
    fn records_behind_the_header_are_left_for_the_next_header() {
        let mut log = two_targets(MarkerFlags::START);
        let known = log.index;
        log.target(MarkerFlags::START, b"lab-OST0004_UUID\0", b"4\0", "10.0.0.4@tcp");
        let mut reader = ConfigReader::default();
        reader.read(Chunk(&log.bytes), known, |index| index <= known).expect("good records");
        assert_eq!((reader.last(), reader.finish().expect("targets").osts.len()), (known, 1));
        reader.read(Chunk(&log.bytes), log.index, |_| true).expect("good records");
        assert_eq!(reader.finish().expect("targets").osts.len(), 2);
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
