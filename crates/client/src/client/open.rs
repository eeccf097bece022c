//! Opening and closing, and the locks that come with it.

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Disposition, Ibits, IbitsPolicy, IntentOp, LdlmReply, LdlmRequest, LockDesc, LockFlags,
    LockMode, LockType, Policy, Resource,
};
use lustrine_fswire::mdt::{
    AttrFlags, Bias, CreateRecord, MdValid, MdtEpoch, OpenFlags, Reint, ReintOp, SetattrRecord,
};
use lustrine_fswire::rpc::{Request, dlm, mds};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{ImportKey, Keep, Replay, Reply, RequestKey, SlotKind};

use super::attr_cache::AskedBy;
use super::later::pause_after;
use super::metadata::{LOOKUPS_MAX, check_name, checked};
use super::striped::NameUse;
use super::{Answer, CallArgs, CallKey, Caller, Client, Done, or_again};
use crate::attr::{Attr, TYPE_MASK, TYPE_REGULAR};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::layout::FileLayout;
use crate::replay::{self, Choices};
use crate::reply::reply_of;

/// A file that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its attributes at that time.
    pub attr: Attr,
    /// Where its data are.
    pub layout: FileLayout,
    /// The time of the last access that the close is to set, in seconds since 1970; none if it
    /// stays. The server moves the time only forward.
    pub accessed: Option<i64>,
    /// The server's handle at that time.
    handle: Handle,
    /// The call that opened it.
    call: CallKey,
    /// Whether the open made the file.
    pub created: bool,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenArgs {
    /// [`OpenFlags::READ`], [`OpenFlags::WRITE`] and others.
    pub flags: OpenFlags,
    /// Type and permissions of a new file.
    pub mode: u32,
    /// Permissions that are taken away from a new file.
    pub umask: u32,
}

/// What a client writes to a file before it closes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The size of the file afterwards, in bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// When it was written last, in seconds since 1970; none for now. The server moves the time
    /// only forward.
    pub mtime: Option<i64>,
}

/// A file that a metadata target has open for this client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    import: ImportKey,
    /// The open, which is kept until it is committed and the close is answered.
    request: RequestKey,
    /// The server's handle, which is another one after a restart.
    handle: Handle,
    /// Whether the close was answered. The open is kept until it is committed.
    closed: bool,
}

impl Open {
    /// Whether the file has not been closed yet.
    pub(super) fn is_in_use(&self) -> bool {
        !self.closed
    }
}

impl Client {
    /// Opens a file by its FID. The server checks whether the caller may.
    pub fn open(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        args: OpenArgs,
        done: Done<OpenFile>,
    ) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let record = caller.create_record(CreateRecord {
                op: ReintOp::OPEN,
                parent: fid,
                fid,
                flags: args.flags | OpenFlags::BY_FID,
                ..CreateRecord::default()
            });
            client.open_by(turn, import, caller, (record, Vec::new()), Tries::default(), done);
        });
    }

    /// Opens a name, and makes the file if the flags say so.
    pub fn create(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        args: OpenArgs,
        done: Done<OpenFile>,
    ) {
        if let Err(error) = check_name(name) {
            return done(self, turn, Err(error));
        }
        let new = name.to_vec();
        self.at_name(turn, (parent, name), NameUse::Make, done, move |client, turn, dir, done| {
            client.create_in(turn, caller, dir, (new, args), done);
        });
    }

    /// Opens a name in a directory or a stripe.
    fn create_in(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        (name, args): (Vec<u8>, OpenArgs),
        done: Done<OpenFile>,
    ) {
        self.with_new_fid(turn, parent, done, move |client, turn, import, fid, done| {
            let record = caller.create_record(CreateRecord {
                op: ReintOp::OPEN,
                parent,
                fid,
                time: client.wall(turn),
                mode: TYPE_REGULAR | args.mode & !TYPE_MASK,
                flags: args.flags,
                umask: args.umask,
                ..CreateRecord::default()
            });
            let tries = Tries { lookups: LOOKUPS_MAX, ..Tries::default() };
            client.open_by(turn, import, caller, (record, name), tries, done);
        });
    }

    /// Opens a file by its FID, with no lookups, or by a name. While the file that the name leads
    /// to is gone, the name is looked up again.
    fn open_by(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        caller: Caller,
        (record, name): (CreateRecord, Vec<u8>),
        tries: Tries,
        done: Done<OpenFile>,
    ) {
        let creates = record.flags.contains(OpenFlags::CREAT);
        let (mode, bits, op) = match creates {
            true => (LockMode::CW, Ibits::UPDATE, IntentOp::OPEN_CREAT),
            false => (LockMode::CR, Ibits::LOOKUP, IntentOp::OPEN),
        };
        let handle = self.next_handle();
        let mut handles = vec![handle];
        // A name that is there is not made.
        if creates && self.kept_name(record.parent, &name).is_none() {
            handles.extend(self.early_cancels_of_dirs(import, [record.parent]));
        }
        let lock = intent_lock(record.parent, mode, bits, &handles);
        let text = name.clone();
        let intent = dlm::OpenIntent {
            lock,
            intent: op,
            record: Reint::Create(record),
            // Without a name there is still the zero byte.
            name: Text::new(&text),
            ..dlm::OpenIntent::default()
        };
        let room = self.layout_room(import);
        let request = match creates {
            true => Request::EnqueueOpenCreat(intent),
            false => Request::EnqueueOpen(intent),
        };
        let mut call = CallArgs::change(request, &caller);
        call.reply_len = 2048 + room;
        call.keep = Keep::UntilReleased;
        self.lock_asked(import, &lock);
        let exclusive = OpenFlags::CREAT | OpenFlags::EXCL;
        self.call(turn, import, call, move |client, turn, answer| {
            let opened = answer.and_then(|answer| {
                let opened = opened(&answer, creates);
                let file = opened.as_ref().ok().and_then(|(_, file)| file.as_ref().ok());
                client.note_open(turn, import, &answer, file);
                opened
            });
            match &opened {
                Ok((reply, Ok(Opened::Here(file, _)))) => {
                    let asked_by = match name.is_empty() {
                        true => AskedBy::Fid(None),
                        false => AskedBy::Name(record.parent, &name),
                    };
                    let found = (&file.attr, asked_by);
                    client.keep_attr(turn, (import, handle), reply, found, caller);
                }
                other => {
                    let reply = other.as_ref().ok().map(|(reply, _)| reply);
                    client.give_back(import, handle, reply);
                }
            }
            match opened.and_then(|(_, file)| file) {
                Ok(Opened::Here(file, Ok(layout))) => {
                    client.saw(&file.attr);
                    done(client, turn, Ok(OpenFile { layout, ..*file }));
                }
                Ok(Opened::Elsewhere(_)) if tries.lookups == 0 => {
                    done(client, turn, Err(malformed("an open of another file")));
                }
                // It exists, and is on another metadata target [MDT-26].
                Ok(Opened::Elsewhere(_)) if record.flags.contains(exclusive) => {
                    done(client, turn, Err(ClientError::Errno(errno::EEXIST)));
                }
                Ok(Opened::Elsewhere(fid)) => {
                    let flags = record.flags.difference(OpenFlags::CREAT);
                    let args = OpenArgs { flags, mode: 0, umask: 0 };
                    let done = match tries.lookups {
                        1 => done,
                        _ => or_again(done, move |client, turn, done| {
                            let by = (record, name);
                            let tries = Tries { lookups: tries.lookups - 1, ..tries };
                            client.open_by(turn, import, caller, by, tries, done);
                        }),
                    };
                    client.open(turn, caller, fid, args, done);
                }
                // It is open at the server all the same.
                Ok(Opened::Here(file, Err(error))) => {
                    let then = move |client: &mut Client, turn: &mut Turn<'_>, _| {
                        done(client, turn, Err(error));
                    };
                    client.close(turn, caller, *file, None, Box::new(then));
                }
                Err(ClientError::Errno(errno::EINPROGRESS)) if !client.unmounted => {
                    let tries = Tries { refusals: tries.refusals + 1, ..tries };
                    let pause = pause_after(tries.refusals);
                    client.after(turn, pause, done, move |client, turn, done| {
                        client.open_by(turn, import, caller, (record, name), tries, done);
                    });
                }
                Err(error) => done(client, turn, Err(error)),
            }
        });
    }

    /// An open was answered: what the server has open is opened again if it restarts.
    fn note_open(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        answer: &Answer,
        file: Option<&Opened>,
    ) {
        let request = answer.request;
        let Some(Opened::Here(file, _)) = file else {
            self.rpc.with(turn, import, |import, _, _| import.release(request));
            return;
        };
        if let Some(call) = self.calls.get_mut(answer.call) {
            call.open = Some(Open { import, request, handle: file.handle, closed: false });
        }
        let (fid, handle, layout) = (file.attr.fid, file.handle, file.attr.layout.clone());
        self.keep_choices(turn, import, request, Choices::Open { fid, handle, layout });
    }

    /// A request is replayed with what the server chose for it [MDT-21].
    pub(super) fn keep_choices(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        request: RequestKey,
        choices: Choices,
    ) {
        let replay = Replay::new(move |sent| replay::with_choices(sent, &choices));
        self.rpc.with(turn, import, |import, _, _| import.set_replay(request, replay));
    }

    /// What a call has opened, if that is open.
    fn open_of(&self, call: CallKey) -> Option<&Open> {
        self.calls.get(call)?.open.as_ref()
    }

    /// A server has restarted, and has done a request again.
    pub(super) fn replayed(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        request: RequestKey,
        call: CallKey,
        reply: &Reply,
    ) {
        if self.write_replayed(call, reply) {
            return;
        }
        if let Some(open) = self.calls.get_mut(call).and_then(|call| call.open.as_mut()) {
            // A server that could not open the file does not know the handle of the close.
            let Ok(answer) = reply_of!(reply, EnqueueOpen) else { return };
            if answer.body.open_handle == Handle::NONE {
                return;
            }
            let (fid, handle) = (answer.body.fid1, answer.body.open_handle);
            let before = core::mem::replace(&mut open.handle, handle);
            self.rpc.with(turn, import, |import, _, _| {
                import.replace_open_handle(before.0, handle.0);
            });
            let layout: &[u8] = if answer.ea.is_unused() { &[] } else { answer.ea.0 };
            let layout = layout.into();
            return self.keep_choices(turn, import, request, Choices::Open { fid, handle, layout });
        }
        let sent = self.rpc.import(import).map_or(&[][..], |import| import.message(request));
        if !replay::is_layout_intent(sent) {
            return;
        }
        // It comes with a lock, although none was asked for [MDT-21].
        let Ok(answer) = reply_of!(reply, EnqueueLayout) else { return };
        let handle = self.next_handle();
        self.locks.at(import).enqueue(handle, answer.reply.desc);
        self.give_back(import, handle, Some(&answer.reply));
    }

    /// Closes a file.
    pub fn close(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        file: OpenFile,
        written: Option<Written>,
        done: Done<()>,
    ) {
        let fid = file.attr.fid;
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let now = client.wall(turn);
            let mtime = match &written {
                Some(written) => written.mtime.unwrap_or(now),
                None => file.attr.mtime,
            };
            let mut valid = AttrFlags::MODE;
            // The time at the open would undo what others have set since.
            if file.accessed.is_some() {
                valid |= AttrFlags::ATIME | AttrFlags::ATIME_SET;
            }
            if written.is_some() {
                valid |= AttrFlags::MTIME
                    | AttrFlags::MTIME_SET
                    | AttrFlags::CTIME
                    | AttrFlags::CTIME_SET
                    | AttrFlags::LSIZE
                    | AttrFlags::LBLOCKS;
            }
            let size = written.unwrap_or_default();
            let record = caller.setattr_record(SetattrRecord {
                op: ReintOp::SETATTR,
                fid,
                valid,
                size: size.size,
                blocks: size.blocks,
                mtime,
                atime: file.accessed.unwrap_or(file.attr.atime),
                ctime: if written.is_some() { now } else { file.attr.ctime },
                mode: file.attr.mode,
                bias: if written.is_some() { Bias::DATA_MODIFIED } else { Bias::empty() },
                ..SetattrRecord::default()
            });
            let sent = written.is_some().then_some((record.mtime, record.ctime));
            let lock = client.attrs.whole_lock_of(fid);
            let handle = client.open_of(file.call).map_or(file.handle, |open| open.handle);
            let close = mds::Close {
                epoch: MdtEpoch { open_handle: handle },
                record: Reint::Setattr(record),
                ..mds::Close::default()
            };
            let mut call = CallArgs::from(Request::MdsClose(close));
            call.slot = SlotKind::Close;
            call.keep = Keep::UntilCommitted;
            call.names_open_file = true;
            call.closes = client.open_of(file.call).map(|open| open.request);
            call.caller = Some(caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let closed = answer.and_then(|answer| {
                    reply_of!(&answer.reply, MdsClose)?;
                    if let Some(lock) = lock {
                        client.closed_attr((fid, lock), file.accessed, sent);
                    }
                    Ok(())
                });
                let open = client.calls.get_mut(file.call).and_then(|call| call.open.as_mut());
                if let Some(open) = open {
                    open.closed = true;
                    let open = *open;
                    client.rpc.with(turn, open.import, |import, _, _| {
                        import.release(open.request);
                    });
                }
                // A handle that a restarted server does not know is closed.
                let closed = match closed {
                    Err(ClientError::Errno(errno::ESTALE)) => Ok(()),
                    other => other,
                };
                done(client, turn, closed);
            });
        });
    }
}

/// A request for a lock on a file, with an intent. The first handle is that of the lock; locks with
/// the other ones, which are the server's, are given back.
pub(super) fn intent_lock(
    fid: Fid,
    mode: LockMode,
    bits: Ibits,
    handles: &[Handle],
) -> LdlmRequest<'_> {
    LdlmRequest {
        flags: LockFlags::HAS_INTENT,
        count: handles.len() as u32,
        desc: LockDesc {
            kind: LockType::IBITS,
            resource: Resource::of_fid(fid),
            req_mode: mode,
            policy: Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() }),
            ..LockDesc::default()
        },
        handles: handles.into(),
    }
}

/// The lock that came with an open, and what became of the open.
fn opened(answer: &Answer, creates: bool) -> Outcome<(LdlmReply, Outcome<Opened>)> {
    let reply = match creates {
        true => reply_of!(&answer.reply, EnqueueOpenCreat)?,
        false => reply_of!(&answer.reply, EnqueueOpen)?,
    };
    Ok((reply.reply, open_file(&reply, answer.call)))
}

/// How often an open is tried.
#[derive(Clone, Copy, Default)]
struct Tries {
    /// How often its name may be looked up, in all.
    lookups: u8,
    /// How often the server had no time for it.
    refusals: u32,
}

/// What became of an open.
enum Opened {
    /// An open file without its layout, and the layout.
    Here(Box<OpenFile>, Outcome<FileLayout>),
    /// The file is on another metadata target.
    Elsewhere(Fid),
}

fn open_file(reply: &dlm::OpenReply<'_>, call: CallKey) -> Outcome<Opened> {
    let result = reply.reply.policy_res2;
    let done = reply.reply.disposition();
    if result < 0 {
        let errno = result.checked_neg().and_then(|errno| i32::try_from(errno).ok());
        let errno = errno.unwrap_or(errno::EPROTO);
        return Err(ClientError::Errno(errno));
    }
    if done.contains(Disposition::LOOKUP_NEG) && !done.contains(Disposition::OPEN_CREATE) {
        return Err(ClientError::Errno(errno::ENOENT));
    }
    if reply.body.valid.contains(MdValid::MDS) && reply.body.fid1.is_sane() {
        return Ok(Opened::Elsewhere(reply.body.fid1));
    }
    if !done.contains(Disposition::OPEN_OPEN) || reply.body.open_handle == Handle::NONE {
        // A symbolic link or a special file: its attributes, and no handle.
        return Err(ClientError::Errno(errno::ENXIO));
    }
    let attr = checked(Attr::of(&reply.body, reply.ea))?;
    let layout = match attr.is_file() {
        true => FileLayout::parse(&attr.layout),
        false => Ok(FileLayout::default()),
    };
    let file = OpenFile {
        attr,
        layout: FileLayout::default(),
        accessed: None,
        handle: reply.body.open_handle,
        call,
        created: done.contains(Disposition::OPEN_CREATE),
    };
    Ok(Opened::Here(Box::new(file), layout))
}
