//! Mounting: the configuration log, the targets, the root.

use lustrine_fswire::codec::Writer;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::llog::{CHUNK_SIZE, LlogBody, LlogFlags, LlogHeader, LogId};
use lustrine_fswire::mdt::MdtBody;
use lustrine_fswire::opcode::Target;
use lustrine_fswire::rpc::{Request, mds, obd};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{Reply, RpcError};

use super::{CallArgs, Client, Done};
use crate::config::{ConfigError, ConfigReader};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// Most chunks of a configuration log that are read: a log has at most 64,767 records, and a
/// record has at least 80 bytes.
const CHUNKS_MAX: u32 = 1 << 12;

/// A configuration log that is being read.
struct LogWalk {
    log: LogId,
    /// The bitmap of the records that are live, as received.
    header: Vec<u8>,
    reader: ConfigReader,
    /// Where the next chunk starts.
    offset: u64,
    saved_index: u32,
    chunks: u32,
}

impl Client {
    /// Mounts the file system: reads its configuration, connects to its targets, and finds its
    /// root. The requests wait for the servers; the caller limits the time.
    pub fn mount(&mut self, turn: &mut Turn<'_>, done: Done<Fid>) {
        self.started = turn.now;
        let nids = self.args.mgs.clone();
        let mgs = self.add_import(turn, Target::Mgs, "MGS", &nids);
        self.mgs = Some(mgs);
        let name = format!("{}-client", self.args.fsname);
        let create = obd::LlogCreate {
            body: LlogBody::default(),
            name: Some(Text::new(name.as_bytes())),
            caller: Some(MdtBody::default()),
        };
        self.call(turn, mgs, Request::LlogCreate(create), move |client, turn, answer| {
            let opened = answer.and_then(|answer| {
                let reply = reply_of!(&answer.reply, LlogCreate)?;
                Ok(reply.body.log)
            });
            match opened {
                Ok(log) => client.read_log_header(turn, log, done),
                Err(ClientError::Errno(errno::ENOENT)) => {
                    let name = client.args.fsname.clone();
                    done(client, turn, Err(ClientError::NoFileSystem(name)));
                }
                Err(error) => done(client, turn, Err(error)),
            }
        });
    }

    fn read_log_header(&mut self, turn: &mut Turn<'_>, log: LogId, done: Done<Fid>) {
        let Some(mgs) = self.mgs else { return };
        let body = LlogBody { log, flags: LlogFlags::PLAIN, ..LlogBody::default() };
        let mut call = CallArgs::from(Request::LlogReadHeader(obd::Llog { body }));
        call.reply_len = CHUNK_SIZE as u32 + 256;
        self.call(turn, mgs, call, move |client, turn, answer| {
            let header = answer.and_then(|answer| {
                let reply = reply_of!(&answer.reply, LlogReadHeader)?;
                let header = reply.header;
                let header = header.ok_or_else(|| malformed("a log without a header"))?;
                let mut bytes = Vec::new();
                header.write(&mut Writer::new(&mut bytes));
                Ok(bytes)
            });
            match header {
                Ok(header) => {
                    let walk = LogWalk {
                        log,
                        header,
                        reader: ConfigReader::default(),
                        offset: CHUNK_SIZE as u64,
                        saved_index: 0,
                        chunks: 0,
                    };
                    client.read_log(turn, walk, done);
                }
                Err(error) => done(client, turn, Err(error)),
            }
        });
    }

    /// Reads the log from where the walk stands to its end.
    fn read_log(&mut self, turn: &mut Turn<'_>, mut walk: LogWalk, done: Done<Fid>) {
        let last = LlogHeader::parse(&walk.header).map_or(0, |header| header.last_index);
        if walk.reader.last() >= last {
            return match walk.reader.finish() {
                Ok(config) => {
                    self.config = config;
                    self.connect_targets(turn, done);
                }
                Err(error) => done(self, turn, Err(error.into())),
            };
        }
        walk.chunks += 1;
        let Some(mgs) = self.mgs else { return };
        if walk.chunks > CHUNKS_MAX {
            return done(self, turn, Err(malformed("the configuration log does not end")));
        }
        let body = LlogBody {
            log: walk.log,
            flags: LlogFlags::PLAIN,
            index: walk.reader.last() + 1,
            saved_index: walk.saved_index,
            len: CHUNK_SIZE as u32,
            cur_offset: walk.offset,
            ..LlogBody::default()
        };
        let mut call = CallArgs::from(Request::LlogNextBlock(obd::Llog { body }));
        call.reply_len = CHUNK_SIZE as u32 + 512;
        self.call(turn, mgs, call, move |client, turn, answer| {
            let read = answer.and_then(|answer| walk.take(&answer.reply));
            match read {
                Ok(()) => client.read_log(turn, walk, done),
                Err(error) => done(client, turn, Err(error)),
            }
        });
    }

    fn connect_targets(&mut self, turn: &mut Turn<'_>, done: Done<Fid>) {
        // New imports would not be closed.
        if self.unmounted {
            return done(self, turn, Err(ClientError::Rpc(RpcError::Closed)));
        }
        let config = self.config.clone();
        for (index, target) in &config.mdts {
            if !target.nids.is_empty() {
                let import = self.add_import(turn, Target::Mdt, &target.uuid, &target.nids);
                self.mdts.insert(*index, import);
            }
        }
        for (index, target) in &config.osts {
            if !target.nids.is_empty() {
                let import = self.add_import(turn, Target::Ost, &target.uuid, &target.nids);
                self.osts.insert(*index, import);
            }
        }
        let import = match self.mdt(0) {
            Ok(import) => import,
            Err(error) => return done(self, turn, Err(error)),
        };
        let fileset = self.args.fileset.clone();
        let fileset = (!fileset.is_empty()).then(|| Text::new(fileset.as_bytes()));
        let request = mds::GetRoot { body: MdtBody::default(), fileset };
        self.call(turn, import, Request::MdsGetRoot(request), move |client, turn, answer| {
            let root = answer.and_then(|answer| {
                let reply = reply_of!(&answer.reply, MdsGetRoot)?;
                let root = reply.body.fid1;
                if root.is_sane() { Ok(root) } else { Err(malformed("the root has no FID")) }
            });
            done(client, turn, root);
        });
    }
}

impl LogWalk {
    /// Takes the reply to NEXT_BLOCK.
    fn take(&mut self, reply: &Reply) -> Outcome<()> {
        let header = LlogHeader::parse(&self.header).map_err(ConfigError::Log)?;
        let before = self.reader.last();
        let block = reply_of!(reply, LlogNextBlock)?;
        self.saved_index = block.body.saved_index;
        self.offset = block.body.cur_offset;
        self.reader.read(block.chunk, |index| header.is_live(index))?;
        match self.reader.last() > before {
            true => Ok(()),
            false => Err(malformed("a chunk of the configuration log has nothing new")),
        }
    }
}
