//! The management server: the configuration logs that clients mount from, and the tables of NIDs.

mod log;
mod nids;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use lustrine_fswire::codec::Wire;
use lustrine_fswire::ldlm::{LockDesc, LockMode, LockType, Policy, Resource};
use lustrine_fswire::llog::{
    CHUNK_SIZE, CfgCommand, Chunk, LlogBody, LlogHeader, LogId, LovDesc, LustreCfg,
};
use lustrine_fswire::mgs::{ConfigBody, ConfigKind, ConfigRes};
use lustrine_fswire::opcode::{Opcode, Target};
use lustrine_fswire::rpc::{Reply, obd};
use lustrine_fswire::text::FixedText;
use lustrine_wire::nid::Nid;

use crate::{answer, errno};
use log::{Log, terminated};
use nids::NidTable;

/// A file system that a management server configures.
#[derive(Clone, Debug)]
pub struct Filesystem {
    /// Its name, 1 to 8 characters.
    pub name: String,
    /// Its targets.
    pub targets: Vec<FsTarget>,
}

/// A target of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsTarget {
    /// A metadata target or an object target.
    pub kind: Target,
    /// Its index.
    pub index: u32,
    /// The NIDs of its node.
    pub nids: Vec<Nid>,
}

impl FsTarget {
    /// Its name in a file system, such as `lustre-OST0001`.
    pub fn name(&self, fsname: &str) -> String {
        let letters = if self.kind == Target::Ost { "OST" } else { "MDT" };
        format!("{fsname}-{letters}{:04x}", self.index)
    }
}

/// A change of a configuration that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// `lctl conf_param`: a parameter of a device, such as `lustre-OST0001-osc` and
    /// `osc.active=0`, in the log of the clients.
    ConfParam {
        /// The device.
        device: String,
        /// The parameter: subsystem, name and value.
        parameter: String,
    },
    /// `lctl set_param -P`: a parameter by its path, such as `osc.lustre-*.max_rpcs_in_flight=7`,
    /// in the log `params`.
    SetParam(String),
    /// A target is registered.
    AddTarget(FsTarget),
    /// A target can also be at a node with these NIDs.
    AddConn {
        /// The kind of the target.
        kind: Target,
        /// Its index.
        index: u32,
        /// The NIDs of the node.
        nids: Vec<Nid>,
    },
}

/// What the management server has stored.
#[derive(Clone, Debug)]
pub(crate) struct MgsStore {
    logs: BTreeMap<String, Log>,
    /// The targets that are registered, by file system.
    targets: BTreeMap<String, Vec<FsTarget>>,
    tables: BTreeMap<String, NidTable>,
}

/// The log of permanent parameters of all file systems.
const PARAMS: &str = "params";

/// The lock of a configuration [MGS-2].
pub(crate) fn config_lock(name: &str, kind: ConfigKind, mode: LockMode) -> LockDesc {
    LockDesc {
        kind: LockType::PLAIN,
        resource: Resource::of_config(name.as_bytes(), kind.0.into()),
        req_mode: mode,
        policy: Policy::default(),
        ..LockDesc::default()
    }
}

impl MgsStore {
    pub(crate) fn new(filesystems: &[Filesystem]) -> MgsStore {
        let mut logs = BTreeMap::from([(PARAMS.to_owned(), Log::new(1))]);
        let (mut targets, mut tables) = (BTreeMap::new(), BTreeMap::new());
        for (number, fs) in (2..).zip(filesystems) {
            logs.insert(format!("{}-client", fs.name), client_log(fs, number));
            tables.insert(fs.name.clone(), NidTable::default());
            targets.insert(fs.name.clone(), fs.targets.clone());
        }
        MgsStore { logs, targets, tables }
    }

    /// Where a target is that is registered.
    pub(crate) fn nids_of(&self, fsname: &str, kind: Target, index: u32) -> Option<Vec<Nid>> {
        let mut targets = self.targets.get(fsname)?.iter();
        let target = targets.find(|target| target.kind == kind && target.index == index)?;
        Some(target.nids.clone())
    }

    /// Changes a configuration, and says whose locks are to be called back. None if there is no
    /// such file system.
    pub(crate) fn change(&mut self, fsname: &str, change: &ConfigChange) -> Option<LockDesc> {
        let log = self.logs.get_mut(&format!("{fsname}-client"))?;
        match change {
            ConfigChange::ConfParam { device, parameter } => {
                let comment = parameter.split('=').next().unwrap_or_default();
                log.group(device, comment, |log| {
                    log.command(CfgCommand::PARAM, &[device, parameter]);
                });
            }
            ConfigChange::SetParam(parameter) => {
                let comment = parameter.split('=').next().unwrap_or_default();
                let log = self.logs.get_mut(PARAMS)?;
                log.group(PARAMS, comment, |log| {
                    log.command(CfgCommand::SET_PARAM, &[fsname, parameter, "lctl"]);
                });
                return Some(config_lock(PARAMS, ConfigKind::PARAMS, LockMode::EX));
            }
            ConfigChange::AddTarget(target) => {
                add_target(log, fsname, target);
                self.targets.entry(fsname.to_owned()).or_default().push(target.clone());
            }
            ConfigChange::AddConn { kind, index, nids } => {
                let target = FsTarget { kind: *kind, index: *index, nids: nids.clone() };
                let name = target.name(fsname);
                let suffix = if *kind == Target::Ost { "osc" } else { "mdc" };
                log.group(&name, "add failnid", |log| {
                    let group = log.nids(nids);
                    log.command(CfgCommand::ADD_CONN, &[&format!("{name}-{suffix}"), &group]);
                });
            }
        }
        Some(config_lock(fsname, ConfigKind::CONFIG, LockMode::EX))
    }

    /// A target of a file system was started, for the `instance`th time, and says where it is: the
    /// lock to be called back [MGS-17]. None if there is no such file system.
    pub(crate) fn started(
        &mut self,
        fsname: &str,
        target: &FsTarget,
        instance: u32,
    ) -> Option<LockDesc> {
        self.tables.get_mut(fsname)?.set(target, instance);
        Some(config_lock(fsname, ConfigKind::RECOVER, LockMode::EX))
    }

    /// MGS_CONFIG_READ: the part of a table of NIDs that a client wants, as bytes for its memory
    /// and the reply.
    ///
    /// # Errors
    /// The errno of Linux, positive.
    pub(crate) fn table(&self, asked: &ConfigBody) -> Result<(Vec<u8>, ConfigRes), i32> {
        if asked.kind != ConfigKind::RECOVER {
            return Err(errno::EOPNOTSUPP);
        }
        let room = asked.room().filter(|room| *room >= 4096).ok_or(errno::EINVAL)?;
        let name = asked.name.as_bytes();
        let fsname = name.strip_suffix(b"-cliir").ok_or(errno::EINVAL)?;
        let fsname = core::str::from_utf8(fsname).map_err(|_| errno::EINVAL)?;
        let table = self.tables.get(fsname).ok_or(errno::ENOENT)?;
        let unit = 1u64 << asked.bits;
        Ok(table.read(asked.offset, asked.nid_size == 20, (room.into(), unit)))
    }

    /// LLOG_CREATE: finds a log by its name, or by its id.
    pub(crate) fn open(&self, request: &obd::LlogCreate<'_>) -> Vec<u8> {
        let name = request.name.map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let log = match name.is_empty() {
            true => self.log(request.body.log),
            false => self.logs.iter().find(|(log, _)| log.as_bytes() == name).map(|(_, log)| log),
        };
        let Some(log) = log else { return answer::failure(Opcode::LLOG_CREATE, errno::ENOENT) };
        let body = LlogBody { log: log.id, ..LlogBody::default() };
        answer::encode(Opcode::LLOG_CREATE, 0, 0, &Reply::LlogCreate(obd::Llog { body }))
    }

    fn log(&self, id: LogId) -> Option<&Log> {
        self.logs.values().find(|log| log.id == id)
    }

    /// LLOG_READ_HEADER.
    pub(crate) fn header(&self, body: &LlogBody) -> Vec<u8> {
        let opcode = Opcode::LLOG_READ_HEADER;
        let Some(log) = self.log(body.log) else { return answer::failure(opcode, errno::ENOENT) };
        let bytes = log.header();
        let header = LlogHeader::parse(&bytes).expect("it was built so");
        let reply = obd::LlogHead { header: Some(header) };
        answer::encode(opcode, 0, 0, &Reply::LlogReadHeader(reply))
    }

    /// LLOG_NEXT_BLOCK: the chunk that has a record.
    pub(crate) fn block(&self, asked: &LlogBody) -> Vec<u8> {
        let opcode = Opcode::LLOG_NEXT_BLOCK;
        let Some(log) = self.log(asked.log) else { return answer::failure(opcode, errno::ENOENT) };
        let zeros = [0; CHUNK_SIZE];
        let Some((saved_index, cur_offset, chunk)) = log.chunk(asked.index) else {
            let reply = obd::LlogBlock { body: *asked, chunk: Chunk(&zeros) };
            return answer::encode(opcode, -errno::EBADR, 0, &Reply::LlogNextBlock(reply));
        };
        let body = LlogBody { saved_index, cur_offset, ..*asked };
        let reply = obd::LlogBlock { body, chunk: Chunk(&chunk) };
        answer::encode(opcode, 0, 0, &Reply::LlogNextBlock(reply))
    }
}

/// The log of the clients of a file system, as a management server writes it.
fn client_log(fs: &Filesystem, number: u64) -> Log {
    let mut log = Log::new(number);
    let (lov, lmv) = (format!("{}-clilov", fs.name), format!("{}-clilmv", fs.name));
    log.group(&lov, "lov setup", |log| {
        let uuid = format!("{lov}_UUID");
        log.command(CfgCommand::ATTACH, &[&lov, "lov", &uuid]);
        let desc = LovDesc {
            magic: LovDesc::MAGIC,
            stripe_count: 1,
            pattern: 1,
            stripe_size: 4 << 20,
            offset: u64::MAX,
            qos_maxage: 60,
            uuid: FixedText::new(uuid.as_bytes()).unwrap_or_default(),
            ..LovDesc::default()
        };
        let name = terminated(&lov);
        log.add(&LustreCfg::new(CfgCommand::SETUP, &[&name, &desc.to_bytes()]));
    });
    log.group(&lmv, "lmv setup", |log| {
        let uuid = format!("{lmv}_UUID");
        log.command(CfgCommand::ATTACH, &[&lmv, "lmv", &uuid]);
        let mut desc = vec![0; 88];
        desc[48..48 + uuid.len().min(39)].copy_from_slice(&uuid.as_bytes()[..uuid.len().min(39)]);
        let name = terminated(&lmv);
        log.add(&LustreCfg::new(CfgCommand::SETUP, &[&name, &desc]));
    });
    for target in &fs.targets {
        add_target(&mut log, &fs.name, target);
    }
    log.group(&fs.name, "mount opts", |log| {
        log.command(CfgCommand::MOUNTOPT, &["", &format!("{}-client", fs.name), &lov, &lmv]);
    });
    log
}

/// The records that add a target.
fn add_target(log: &mut Log, fsname: &str, target: &FsTarget) {
    let (suffix, kind, comment) = match target.kind {
        Target::Ost => ("osc", "osc", "add osc"),
        _ => ("mdc", "mdc", "add mdc"),
    };
    let name = target.name(fsname);
    let (lov, lmv) = (format!("{fsname}-clilov"), format!("{fsname}-clilmv"));
    let (uuid, device) = (format!("{name}_UUID"), format!("{name}-{suffix}"));
    let index = target.index.to_string();
    log.group(&name, comment, |log| {
        let group = log.nids(&target.nids);
        let holder = if target.kind == Target::Ost { &lov } else { &lmv };
        log.command(CfgCommand::ATTACH, &[&device, kind, &format!("{holder}_UUID")]);
        log.command(CfgCommand::SETUP, &[&device, &uuid, &group]);
        match target.kind {
            Target::Ost => {
                log.command(CfgCommand::LOV_ADD_OBD, &[&lov, &uuid, &index, "1"]);
            }
            _ => {
                let client = format!("{device}_UUID");
                log.command(CfgCommand::ADD_MDC, &[&lmv, &uuid, &index, "1", &client]);
            }
        }
    });
}
