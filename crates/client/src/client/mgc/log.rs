//! Reading a configuration log, from the first record that is not known [MGS-3].

use lustrine_fswire::codec::Writer;
use lustrine_fswire::llog::{CHUNK_SIZE, LlogBody, LlogFlags, LlogHeader, LogId};
use lustrine_fswire::mdt::MdtBody;
use lustrine_fswire::rpc::{Request, obd};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::Reply;

use super::Which;
use crate::client::{CallArgs, Client};
use crate::config::{ConfigError, ConfigReader};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// Most chunks of a log that are read at a time: a log has at most 64,767 records, and a record has
/// at least 80 bytes.
const CHUNKS_MAX: u32 = 1 << 12;

/// A log that is being read.
struct LogWalk {
    which: Which,
    log: LogId,
    /// The bitmap of the records that are live, as received.
    header: Vec<u8>,
    /// Where the next chunk starts.
    offset: u64,
    saved_index: u32,
    chunks: u32,
}

impl Client {
    pub(super) fn open_log(&mut self, turn: &mut Turn<'_>, which: Which) {
        let Some(mgs) = self.mgs else { return };
        let name = which.name(&self.args.fsname);
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
                Ok(log) => client.read_log_header(turn, which, log),
                // Only that of the targets has to exist.
                Err(ClientError::Errno(errno::ENOENT)) if which != Which::Client => {
                    client.config_settled(turn, which, Ok(()));
                }
                Err(error) => client.config_settled(turn, which, Err(error)),
            }
        });
    }

    fn read_log_header(&mut self, turn: &mut Turn<'_>, which: Which, log: LogId) {
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
                    let last = LlogHeader::parse(&header).map_or(0, |header| header.last_index);
                    client.mgc.begin_log(which, log, last);
                    let offset = CHUNK_SIZE as u64;
                    let walk = LogWalk { which, log, header, offset, saved_index: 0, chunks: 0 };
                    client.read_log(turn, walk);
                }
                Err(error) => client.config_settled(turn, which, Err(error)),
            }
        });
    }

    /// Reads the log from where the walk stands to its end.
    fn read_log(&mut self, turn: &mut Turn<'_>, mut walk: LogWalk) {
        let which = walk.which;
        let last = LlogHeader::parse(&walk.header).map_or(0, |header| header.last_index);
        let known = self.mgc.config(which).reader.last();
        if known >= last {
            let outcome = self.log_read(turn, which);
            return self.config_settled(turn, which, outcome);
        }
        walk.chunks += 1;
        let Some(mgs) = self.mgs else { return };
        if walk.chunks > CHUNKS_MAX {
            let error = malformed("the configuration log does not end");
            return self.config_settled(turn, which, Err(error));
        }
        let body = LlogBody {
            log: walk.log,
            flags: LlogFlags::PLAIN,
            index: known + 1,
            saved_index: walk.saved_index,
            len: CHUNK_SIZE as u32,
            cur_offset: walk.offset,
            ..LlogBody::default()
        };
        let mut call = CallArgs::from(Request::LlogNextBlock(obd::Llog { body }));
        call.reply_len = CHUNK_SIZE as u32 + 512;
        self.call(turn, mgs, call, move |client, turn, answer| {
            let reader = &mut client.mgc.config(which).reader;
            let read = answer.and_then(|answer| walk.take(reader, &answer.reply));
            match read {
                Ok(()) => client.read_log(turn, walk),
                Err(error) => {
                    // What was read up to the fault counts, if that is not at a mount. Nothing of a
                    // log that is read from its start counts before its end: it would be taken for
                    // all that there is.
                    if client.mgc.mounting.is_none() && !client.mgc.config(which).anew {
                        let _ = client.log_read(turn, which);
                    }
                    client.config_settled(turn, which, Err(error));
                }
            }
        });
    }
}

impl LogWalk {
    /// Takes the reply to NEXT_BLOCK.
    fn take(&mut self, reader: &mut ConfigReader, reply: &Reply) -> Outcome<()> {
        let header = LlogHeader::parse(&self.header).map_err(ConfigError::Log)?;
        let before = reader.last();
        let block = reply_of!(reply, LlogNextBlock)?;
        self.saved_index = block.body.saved_index;
        self.offset = block.body.cur_offset;
        reader.read(block.chunk, header.last_index, |index| header.is_live(index))?;
        match reader.last() > before {
            true => Ok(()),
            false => Err(malformed("a chunk of the configuration log has nothing new")),
        }
    }
}
