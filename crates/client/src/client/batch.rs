//! Several names of a directory that are looked up with one request [MDT-19].

use std::collections::BTreeMap;
use std::iter::Peekable;

use lustrine_fswire::batch::{BatchHeader, BatchHeaderFields, Block, BulkBuffer, BulkBuffers};
use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::ConnectFlags2;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::ldlm::{Ibits, IntentOp, LdlmReply, LdlmRequest, LockMode};
use lustrine_fswire::mdt::MdtBody;
use lustrine_fswire::message::{Header, Message};
use lustrine_fswire::rpc::{BlockBuilder, BufferList, Request, dlm, mds};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::ImportKey;

use super::attr_cache::Named;
use super::attr_locks::{Described, GetattrAsked, GetattrBy, read};
use super::metadata::{check_name, wanted};
use super::open::intent_lock;
use super::{CallArgs, Caller, Client, Done};
use crate::attr::Attr;
use crate::error::{ClientError, Outcome, errno};

/// Longest block that is sent in the request itself: kernel clients send longer ones by bulk
/// (`fs/s11_readdir`).
const BLOCK_MAX: usize = 3584;
/// Bytes of the reply to one name, without the layout.
const REPLY_LEN: u32 = 968;

/// A name, and what goes on with the file that it leads to.
type Wanted = (Vec<u8>, Done<Attr>);

/// What is done with the names that a batch does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// They are asked for one by one.
    AskAlone,
    /// They fail with ECANCELED.
    Leave,
}

impl Client {
    /// Looks several names of a directory up. If the client keeps names and the server can do it
    /// (BATCH_RPC), several go with one request.
    pub fn lookup_all(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        names: Vec<Wanted>,
    ) {
        let together = self.attrs.is_on() && !self.unmounted;
        let mut unknown: BTreeMap<Fid, Vec<Wanted>> = BTreeMap::new();
        for (name, done) in names {
            let home = self.home_of(dir, &name).filter(|home| {
                let known =
                    |home| self.attrs.peek_name((dir, home), &name, Some(&caller), turn.now);
                together && check_name(&name).is_ok() && known(*home) == Named::Unknown
            });
            match home {
                Some(home) => unknown.entry(home).or_default().push((name, done)),
                None => self.lookup(turn, caller, dir, &name, done),
            }
        }
        for (home, names) in unknown {
            self.ask_names(turn, caller, home, names, Unanswered::AskAlone);
        }
    }

    /// Asks a server for names of a directory, for several with one request if it can do that.
    pub(super) fn ask_names(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        dir: Fid,
        names: Vec<Wanted>,
        unanswered: Unanswered,
    ) {
        let target = self.known_mdt_of(dir).and_then(Result::ok);
        let target = target.filter(|import| self.takes_batches(*import));
        // A name with a lock on its file is asked for in another way.
        let (mut together, mut alone): (Vec<Wanted>, Vec<Wanted>) = names
            .into_iter()
            .partition(|(name, _)| target.is_some() && self.attrs.named(dir, name).is_none());
        if together.len() == 1 {
            alone.append(&mut together);
        }
        for (name, done) in alone {
            self.ask_name(turn, caller, dir, name, done);
        }
        let mut together = together.into_iter().peekable();
        while let Some(import) = target
            && together.peek().is_some()
        {
            self.ask_batch(turn, import, caller, dir, (&mut together, unanswered));
        }
    }

    /// Whether a target looks up several names with one request.
    fn takes_batches(&self, import: ImportKey) -> bool {
        let granted = self.rpc.import(import).map(|import| import.granted().flags2);
        granted.is_some_and(|flags| flags.contains(ConnectFlags2::BATCH_RPC))
            && self.attrs.is_on()
            && !self.unmounted
    }

    /// Asks for the next names, as many as there is room for in one request.
    fn ask_batch(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        caller: Caller,
        dir: Fid,
        (names, unanswered): (&mut Peekable<impl Iterator<Item = Wanted>>, Unanswered),
    ) {
        let mut block = BlockBuilder::new(Block::REQUEST_MAGIC);
        let mut asked = Vec::new();
        let reply_len = REPLY_LEN + self.layout_room(import);
        let body = caller.body(MdtBody {
            fid1: dir,
            valid: wanted(),
            eadatasize: self.ea_room(import),
            ..MdtBody::default()
        });
        while let Some((name, done)) = names
            .next_if(|(name, _)| asked.is_empty() || block.len() + message_len(name) <= BLOCK_MAX)
        {
            let handle = self.next_handle();
            let handles = [handle];
            let lock = intent_lock(dir, LockMode::CR, Ibits::LOOKUP | Ibits::UPDATE, &handles);
            self.lock_asked(import, &lock);
            let message = dlm::GetattrIntent {
                // Kernel clients count no lock here.
                lock: LdlmRequest { count: 0, ..lock },
                intent: IntentOp::GETATTR,
                body,
                name: Text::new(&name),
                ..Default::default()
            };
            let header = Header { opc: Block::GETATTR, repsize: reply_len, ..Header::default() };
            block.push(&header, &message);
            let dir_lock = self.attrs.perm_lock_of(self.whole_of(dir));
            let by = GetattrBy::Name(dir, name);
            let name_lock = None;
            asked.push((GetattrAsked { import, handle, by, caller, dir_lock, name_lock }, done));
        }
        let count = asked.len() as u32;
        let block = block.finish();
        let fields = BatchHeaderFields {
            magic: BatchHeader::MAGIC,
            count: 1,
            inline_len: block.len() as u32,
            reply_size: count * reply_len + 8,
            updates: count,
        };
        let buffers = [BulkBuffer::default()];
        let mut call = CallArgs::from(Request::MdsBatch(mds::Batch {
            header: BatchHeader { fields, inline: &block },
            buffers: BulkBuffers::from(&buffers[..]),
        }));
        call.reply_len = 1024 + count * reply_len;
        call.caller = Some(caller);
        // A server that has done it, and gets it once more, would grant the locks once more.
        call.no_resend = true;
        self.call(turn, import, call, move |client, turn, answer| {
            let message = answer.as_ref().ok().and_then(|answer| {
                // Also that of a batch of which one name failed.
                Message::parse(&answer.reply.message).ok()
            });
            let block = message.and_then(|message| message.buffer(1));
            let mut replies = block.and_then(|block| Block::parse(block).ok());
            replies = replies.filter(|block| block.header.magic == Block::REPLY_MAGIC);
            let mut replies = replies.map(|block| block.messages());
            for (asked, done) in asked {
                let reply = replies.as_mut().and_then(Iterator::next).and_then(Result::ok);
                match reply.and_then(|reply| answered(&reply, &asked.by)) {
                    Some(found) => client.getattr_answered(turn, asked, Ok(found), done),
                    None => client.not_answered(turn, asked, (done, unanswered)),
                }
            }
        });
    }

    /// A server has not answered for a name of a batch: one before it has failed, or this one would
    /// have had to wait for a lock.
    fn not_answered(
        &mut self,
        turn: &mut Turn<'_>,
        asked: GetattrAsked,
        (done, unanswered): (Done<Attr>, Unanswered),
    ) {
        self.give_back(asked.import, asked.handle, None);
        if unanswered == Unanswered::Leave {
            return done(self, turn, Err(ClientError::Errno(errno::ECANCELED)));
        }
        match asked.by {
            GetattrBy::Name(dir, name) => self.ask_name(turn, asked.caller, dir, name, done),
            GetattrBy::Fid(fid) => self.getattr(turn, asked.caller, fid, done),
        }
    }
}

/// Bytes of the message for a name: the header of five buffers, and these.
fn message_len(name: &[u8]) -> usize {
    const HEADER: usize = 56;
    const LOCK: usize = 104;
    const INTENT: usize = 8;
    HEADER + LOCK + INTENT + MdtBody::SIZE + (name.len() + 1).next_multiple_of(8)
}

/// What the server says of a name of a batch; none if it has to be asked for again.
fn answered(message: &Message<'_>, by: &GetattrBy) -> Option<(LdlmReply, Outcome<Described>)> {
    let reply = dlm::GetattrIntentReply::parse_list(message, 0).ok()?;
    let found = read(&reply, by);
    // A batch does not describe what is on another server [MDT-19].
    const AGAIN: [i32; 3] = [errno::ECANCELED, errno::EINPROGRESS, errno::EREMOTE];
    let again = matches!(&found, Err(ClientError::Errno(errno)) if AGAIN.contains(errno));
    (!again).then_some((reply.reply, found))
}
