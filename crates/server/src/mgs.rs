//! The management server: the configuration logs that clients mount from.

use std::collections::BTreeMap;

use lustrine_fswire::codec::{Wire, Writer};
use lustrine_fswire::llog::{
    CHUNK_SIZE, CfgCommand, Chunk, LlogBody, LlogFlags, LlogHeader, LlogHeaderFields, LogId,
    LovDesc, LustreCfg, Marker, MarkerFlags, Record, RecordHeader, RecordKind,
};
use lustrine_fswire::opcode::{Opcode, Target};
use lustrine_fswire::rpc::{Reply, obd};
use lustrine_fswire::text::FixedText;
use lustrine_wire::nid::Nid;

use crate::{answer, errno};

/// A file system that a management server configures.
#[derive(Clone, Debug)]
pub struct Filesystem {
    /// Its name, 1 to 8 characters.
    pub name: String,
    /// Its targets.
    pub targets: Vec<FsTarget>,
}

/// A target of a file system.
#[derive(Clone, Debug)]
pub struct FsTarget {
    /// A metadata target or an object target.
    pub kind: Target,
    /// Its index.
    pub index: u32,
    /// The NIDs of its node.
    pub nids: Vec<Nid>,
}

/// A configuration log: records in chunks, the header first.
#[derive(Clone, Debug)]
struct Log {
    bytes: Vec<u8>,
    /// The number of the last record of each chunk.
    last: Vec<u32>,
}

/// What the management server has stored.
#[derive(Clone, Debug)]
pub(crate) struct MgsStore {
    logs: BTreeMap<String, Log>,
}

/// The release in markers.
const RELEASE: u32 = 0x0211_0000;

impl MgsStore {
    pub(crate) fn new(filesystems: &[Filesystem]) -> MgsStore {
        let named = |fs: &Filesystem| (format!("{}-client", fs.name), client_log(fs));
        MgsStore { logs: filesystems.iter().map(named).collect() }
    }

    /// LLOG_CREATE: finds a log by its name, or by its id.
    pub(crate) fn open(&self, request: &obd::LlogCreate<'_>) -> Vec<u8> {
        let name = request.name.map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let at = match name.is_empty() {
            true => self.index_of(request.body.log),
            false => self.logs.keys().position(|log| log.as_bytes() == name),
        };
        let Some(at) = at else { return answer::failure(Opcode::LLOG_CREATE, errno::ENOENT) };
        let body = LlogBody { log: id_of(at), ..LlogBody::default() };
        answer::encode(Opcode::LLOG_CREATE, 0, 0, &Reply::LlogCreate(obd::Llog { body }))
    }

    fn index_of(&self, id: LogId) -> Option<usize> {
        let at = usize::try_from(id.id.checked_sub(1)?).ok()?;
        (at < self.logs.len() && id == id_of(at)).then_some(at)
    }

    fn log(&self, id: LogId) -> Option<&Log> {
        self.logs.values().nth(self.index_of(id)?)
    }

    /// LLOG_READ_HEADER.
    pub(crate) fn header(&self, body: &LlogBody) -> Vec<u8> {
        let opcode = Opcode::LLOG_READ_HEADER;
        let Some(log) = self.log(body.log) else { return answer::failure(opcode, errno::ENOENT) };
        let header = LlogHeader::parse(&log.bytes).expect("it was built so");
        let reply = obd::LlogHead { header: Some(header) };
        answer::encode(opcode, 0, 0, &Reply::LlogReadHeader(reply))
    }

    /// LLOG_NEXT_BLOCK: the chunk that has a record.
    pub(crate) fn block(&self, asked: &LlogBody) -> Vec<u8> {
        let opcode = Opcode::LLOG_NEXT_BLOCK;
        let Some(log) = self.log(asked.log) else { return answer::failure(opcode, errno::ENOENT) };
        let zeros = [0; CHUNK_SIZE];
        let Some(at) = log.last.iter().position(|last| *last >= asked.index) else {
            let reply = obd::LlogBlock { body: *asked, chunk: Chunk(&zeros) };
            return answer::encode(opcode, -errno::EBADR, 0, &Reply::LlogNextBlock(reply));
        };
        let start = (at + 1) * CHUNK_SIZE;
        let end = (start + CHUNK_SIZE).min(log.bytes.len());
        let mut chunk = log.bytes[start..end].to_vec();
        chunk.resize(CHUNK_SIZE, 0);
        let body = LlogBody { saved_index: log.last[at], cur_offset: end as u64, ..*asked };
        let reply = obd::LlogBlock { body, chunk: Chunk(&chunk) };
        answer::encode(opcode, 0, 0, &Reply::LlogNextBlock(reply))
    }
}

fn id_of(at: usize) -> LogId {
    LogId { id: at as u64 + 1, seq: 10, ogen: 0 }
}

/// Writes a log.
struct LogBuilder {
    chunks: Vec<Vec<u8>>,
    last: Vec<u32>,
    index: u32,
    live: Vec<u8>,
    step: u32,
}

impl LogBuilder {
    fn new() -> LogBuilder {
        LogBuilder { chunks: vec![Vec::new()], last: vec![0], index: 0, live: vec![1], step: 0 }
    }

    fn record(&mut self, kind: RecordKind, payload: &[u8]) {
        self.index += 1;
        let record = Record { index: self.index, kind, id: 0, payload };
        record.write(&mut Writer::new(self.chunks.last_mut().expect("there is one")));
        *self.last.last_mut().expect("there is one") = self.index;
        if kind == RecordKind::CONFIG {
            let byte = self.index as usize / 8;
            if self.live.len() <= byte {
                self.live.resize(byte + 1, 0);
            }
            self.live[byte] |= 1 << (self.index % 8);
        }
    }

    fn add(&mut self, config: &LustreCfg<'_>) {
        let mut payload = Vec::new();
        config.write(&mut Writer::new(&mut payload));
        let room = CHUNK_SIZE - self.chunks.last().map_or(0, Vec::len);
        let len = payload.len() + lustrine_fswire::llog::RECORD_MIN;
        // No record crosses a boundary of chunks [MGS-7].
        if room != len && room < len + lustrine_fswire::llog::RECORD_MIN {
            let filler = vec![0; room - lustrine_fswire::llog::RECORD_MIN];
            self.record(RecordKind::PADDING, &filler);
            self.chunks.push(Vec::new());
            self.last.push(0);
        }
        self.record(RecordKind::CONFIG, &payload);
        if self.chunks.last().is_some_and(|chunk| chunk.len() == CHUNK_SIZE) {
            self.chunks.push(Vec::new());
            self.last.push(self.index);
        }
    }

    fn command(&mut self, command: CfgCommand, arguments: &[&str]) {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| terminated(text)).collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        self.add(&LustreCfg::new(command, &arguments));
    }

    fn marker(&mut self, flags: MarkerFlags, target: &str, comment: &str) {
        let marker = Marker {
            step: self.step,
            flags,
            version: RELEASE,
            target: FixedText::new(target.as_bytes()).unwrap_or_default(),
            comment: FixedText::new(comment.as_bytes()).unwrap_or_default(),
            ..Marker::default()
        };
        self.add(&LustreCfg::new(CfgCommand::MARKER, &[&[], &marker.to_bytes()]));
    }

    /// Commands between their markers [MGS-9].
    fn group(&mut self, target: &str, comment: &str, commands: impl FnOnce(&mut LogBuilder)) {
        self.step += 1;
        self.marker(MarkerFlags::START, target, comment);
        commands(self);
        self.marker(MarkerFlags::END, target, comment);
    }

    fn nids(&mut self, nids: &[Nid]) -> String {
        let group = nids.first().map(ToString::to_string).unwrap_or_default();
        for nid in nids {
            let text = terminated(&nid.to_string());
            let name = terminated(&group);
            // A NID without a short form stands in a third argument.
            let short = nid.to_short();
            let mut config = match short {
                Some(_) => LustreCfg::new(CfgCommand::ADD_UUID, &[&[], &name]),
                None => LustreCfg::new(CfgCommand::ADD_UUID, &[&[], &name, &text]),
            };
            config.header.nid = short.unwrap_or_default();
            self.add(&config);
        }
        group
    }

    fn finish(self) -> Log {
        let fields = LlogHeaderFields {
            record: RecordHeader {
                len: CHUNK_SIZE as u32,
                index: 0,
                kind: RecordKind::HEADER,
                id: 0,
            },
            count: self.live.iter().map(|byte| byte.count_ones()).sum(),
            bitmap_offset: LlogHeaderFields::SIZE as u32,
            flags: LlogFlags::PLAIN,
            tgtuuid: FixedText::new(b"config_uuid").unwrap_or_default(),
            ..LlogHeaderFields::default()
        };
        let header = LlogHeader { fields, bitmap: &self.live, last_index: self.index };
        let mut bytes = Vec::new();
        header.write(&mut Writer::new(&mut bytes));
        for chunk in &self.chunks {
            bytes.extend(chunk);
        }
        Log { bytes, last: self.last }
    }
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    if !bytes.is_empty() {
        bytes.push(0);
    }
    bytes
}

/// The log of the clients of a file system, as a management server writes it.
fn client_log(fs: &Filesystem) -> Log {
    let mut log = LogBuilder::new();
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
        let (letters, suffix, kind) = match target.kind {
            Target::Ost => ("OST", "osc", "osc"),
            _ => ("MDT", "mdc", "mdc"),
        };
        let name = format!("{}-{letters}{:04x}", fs.name, target.index);
        let (uuid, device) = (format!("{name}_UUID"), format!("{name}-{suffix}"));
        let index = target.index.to_string();
        log.group(&name, if kind == "osc" { "add osc" } else { "add mdc" }, |log| {
            let group = log.nids(&target.nids);
            let holder = if kind == "osc" { &lov } else { &lmv };
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
    log.group(&fs.name, "mount opts", |log| {
        log.command(CfgCommand::MOUNTOPT, &["", &format!("{}-client", fs.name), &lov, &lmv]);
    });
    log.finish()
}
