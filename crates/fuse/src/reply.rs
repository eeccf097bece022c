//! Replies of all kinds, as outcomes of operations of the client.

use std::sync::Arc;
use std::time::Duration;

use fuser::{
    Errno, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request,
};
use lustrine_client::{Attr, Caller, Client, ClientError, Done, Space, Valid};
use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;

use crate::convert::{NOT_CACHED, duration, errno};
use crate::in_flight::{Interrupt, NO_THREAD, OnInterrupt, Slot};
use crate::shared::{Shared, moment};
use crate::signals::is_killed;

/// Longest name in bytes.
const NAME_MAX: u32 = 255;

/// A reply that can be an error.
pub(crate) trait Reply: Send + 'static {
    /// Answers that the operation failed.
    fn fail(self, error: Errno);
}

macro_rules! replies {
    ($($reply:ty)*) => {
        $(impl Reply for $reply {
            fn fail(self, error: Errno) {
                self.error(error);
            }
        })*
    };
}

replies! {
    ReplyAttr ReplyCreate ReplyData ReplyDirectory ReplyEmpty ReplyEntry ReplyLock ReplyLseek
    ReplyOpen ReplyStatfs ReplyWrite ReplyXattr
}

/// An operation that the kernel waits for: it is answered exactly once. If it is dropped, the
/// answer is an input/output error.
pub(crate) struct Asked<R> {
    /// What the threads of the mount share.
    pub(crate) shared: Arc<Shared>,
    /// What answers it.
    reply: Arc<Slot<R>>,
    /// It is counted until it is over.
    _ticket: Ticket,
    /// Whether it is about a file that the kernel knows, and not about a name.
    is_of_file: bool,
}

/// An operation that is in flight, until this is dropped.
struct Ticket {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.in_flight.end(self.number);
    }
}

impl<R: Reply> Asked<R> {
    /// An operation, which waits while too many are in flight.
    pub(crate) fn new(shared: &Arc<Shared>, request: &Request, reply: R) -> Asked<R> {
        Asked::by_thread(shared, request.pid(), reply, None)
    }

    /// An operation before whose answer as an interrupted one something has to be done.
    pub(crate) fn with_before(
        shared: &Arc<Shared>,
        request: &Request,
        reply: R,
        before: OnInterrupt,
    ) -> Asked<R> {
        Asked::by_thread(shared, request.pid(), reply, Some(before))
    }

    /// The same, about a file that the kernel knows. If the file is gone, another one may have its
    /// name by now: the kernel looks a path up again for ESTALE, and ENOENT would be the answer to
    /// the program.
    pub(crate) fn of_file(shared: &Arc<Shared>, request: &Request, reply: R) -> Asked<R> {
        Asked { is_of_file: true, ..Asked::new(shared, request, reply) }
    }

    /// An operation that has to be answered with its outcome, also if the thread that caused it is
    /// killed: others may depend on it.
    pub(crate) fn not_interrupted(shared: &Arc<Shared>, reply: R) -> Asked<R> {
        Asked::by_thread(shared, NO_THREAD, reply, None)
    }

    fn by_thread(
        shared: &Arc<Shared>,
        thread: u32,
        reply: R,
        before: Option<OnInterrupt>,
    ) -> Asked<R> {
        let reply = Slot::new(reply, |reply: R| reply.fail(Errno::EINTR), before);
        let interrupt: Arc<dyn Interrupt> = Arc::clone(&reply) as Arc<dyn Interrupt>;
        let (number, is_known) = shared.in_flight.begin(thread, Arc::downgrade(&interrupt));
        if is_known {
            shared.in_flight.interrupt_next(number, thread, is_killed);
        }
        let _ticket = Ticket { shared: Arc::clone(shared), number };
        Asked { shared: Arc::clone(shared), reply, _ticket, is_of_file: false }
    }

    /// Whether the operation was interrupted. Then it need not be started.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.reply.is_sent()
    }

    /// From now on the operation is not interrupted. False if it has been: then its outcome reaches
    /// no program, and what the kernel was to keep has to be undone.
    #[must_use]
    pub(crate) fn claim(&self) -> bool {
        self.reply.claim()
    }

    /// Answers that it failed.
    pub(crate) fn fail(self, error: Errno) {
        self.answer(|reply| reply.fail(error));
    }

    /// Answers it, unless it was interrupted.
    fn answer(self, send: impl FnOnce(R)) {
        if let Some(reply) = self.reply.take() {
            send(reply);
        }
    }

    /// What answers it when an operation of the client is over: `ok` with its outcome, or the
    /// error.
    pub(crate) fn done<T: 'static>(
        self,
        ok: impl FnOnce(Asked<R>, &mut Client, &mut Turn<'_>, T) + Send + 'static,
    ) -> Done<T> {
        Box::new(move |client, turn, outcome| match outcome {
            Ok(value) => ok(self, client, turn, value),
            Err(error) => self.fail_with(&error),
        })
    }

    /// Answers with the error of the client.
    pub(crate) fn fail_with(self, error: &ClientError) {
        let error = match errno(error) {
            Errno::ENOENT if self.is_of_file => Errno::ESTALE,
            error => error,
        };
        self.fail(error);
    }

    /// Goes on with a value, or answers the error.
    pub(crate) fn with<T>(self, value: Result<T, Errno>) -> Option<(Asked<R>, T)> {
        match value {
            Ok(value) => Some((self, value)),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }
}

impl Asked<ReplyEmpty> {
    /// What answers an operation without a value.
    pub(crate) fn finish(self) -> Done<()> {
        self.done(|asked, _, _, ()| asked.ok())
    }

    /// Answers that it is done.
    pub(crate) fn ok(self) {
        self.answer(|reply| reply.ok());
    }
}

impl Asked<ReplyAttr> {
    /// What answers with attributes that were asked for, which still may lack what objects know.
    pub(crate) fn attributes(self, caller: Caller) -> Done<Attr> {
        self.with_attributes(caller, |shared, client, turn, attr| {
            shared.attr_valid(client.valid(turn.now, None, attr), attr)
        })
    }

    /// The same for attributes that were set. The kernel takes them also if it has invalidated
    /// others meanwhile, so it has to ask for them again.
    pub(crate) fn attributes_set(self, caller: Caller) -> Done<Attr> {
        self.with_attributes(caller, |_, _, _, _| NOT_CACHED)
    }

    fn with_attributes(
        self,
        caller: Caller,
        valid: impl FnOnce(&Shared, &mut Client, &Turn<'_>, &Attr) -> Duration + Send + 'static,
    ) -> Done<Attr> {
        self.done(move |asked, client, turn, attr| {
            let whole = asked.done(|asked, client, turn, attr: Attr| {
                let valid = valid(&asked.shared, client, turn, &attr);
                let shared = Arc::clone(&asked.shared);
                asked.answer(|reply| send_attr(&shared, reply, &attr, valid));
            });
            client.complete(turn, caller, attr, whole);
        })
    }
}

/// Answers with a file that a name leads to, and how long both may be used.
pub(crate) fn send_entry(shared: &Shared, reply: ReplyEntry, attr: &Attr, valid: Valid) {
    // The kernel cannot invalidate attributes before it has taken the file from this answer, if it
    // does not know it yet.
    let is_known = shared.nodes().number_of(attr.fid).is_some();
    let attr_valid = match is_known {
        true => shared.attr_valid(valid, attr),
        false => moment(valid),
    };
    let number = shared.look_up(attr);
    let shown = shared.shown(attr, number);
    reply.entry_with_ttls(&attr_valid, &duration(valid.entry), &shown, Generation(0));
}

/// Answers with attributes of a file that the kernel knows, and how long they may be used.
pub(crate) fn send_attr(shared: &Shared, reply: ReplyAttr, attr: &Attr, valid: Duration) {
    let number = {
        let mut nodes = shared.nodes();
        nodes.replied(attr);
        nodes.shown_number(attr.fid)
    };
    reply.attr(&valid, &shared.shown(attr, number));
}

/// Answers with a value, or, if there is no room, with its length.
pub(crate) fn send_value(reply: ReplyXattr, value: &[u8], room: u32) {
    match room {
        0 => reply.size(value.len() as u32),
        room if value.len() > room as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

impl Asked<ReplyEntry> {
    /// What answers with a file that a name leads to. Its attributes still may lack what objects
    /// know.
    pub(crate) fn entry(self, caller: Caller) -> Done<Attr> {
        self.done(move |asked, client, turn, attr| {
            let whole = asked.done(|asked, _, _, attr: Attr| asked.found(&attr, Valid::default()));
            client.complete(turn, caller, attr, whole);
        })
    }

    /// The same for a look-up, which the kernel may repeat: the name was there.
    ///
    /// A file whose objects are lost or deactivated can still be looked up, so that it can be
    /// removed and renamed, which is done without them. A request for its attributes fails. The
    /// answer to the look-up has a size all the same, and the kernel drops cached pages behind it:
    /// a look-up of a file that a program has open, or has mapped, fails too.
    pub(crate) fn looked_up(self, caller: Caller, (dir, name): (Fid, Arc<[u8]>)) -> Done<Attr> {
        self.done(move |asked, client, turn, attr: Attr| {
            let asked = Asked { is_of_file: true, ..asked };
            let of_mdt = attr.clone();
            let whole: Done<Attr> = Box::new(move |client, turn, whole| match whole {
                Ok(attr) => {
                    let valid = client.valid(turn.now, Some((dir, &name)), &attr);
                    asked.found(&attr, valid);
                }
                Err(error) if error.lacks_objects() && !asked.shared.is_open(of_mdt.fid) => {
                    asked.found(&of_mdt, Valid::default());
                }
                Err(error) => asked.fail_with(&error),
            });
            client.complete(turn, caller, attr, whole);
        })
    }

    /// Answers with a file that a name leads to, and how long both may be used.
    fn found(self, attr: &Attr, valid: Valid) {
        // The kernel has the reference when it has the answer, and neither before nor without it.
        if !self.claim() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.answer(|reply| send_entry(&shared, reply, attr, valid));
    }
}

impl Asked<ReplyData> {
    /// Answers with bytes.
    pub(crate) fn data(self, data: &[u8]) {
        self.answer(|reply| reply.data(data));
    }
}

impl Asked<ReplyWrite> {
    /// Answers that so many bytes are written.
    pub(crate) fn written(self, bytes: u32) {
        self.answer(|reply| reply.written(bytes));
    }
}

impl Asked<ReplyLock> {
    /// Answers with a lock of another owner, by its first and last byte, its kind and its process.
    pub(crate) fn locked(self, (start, end): (u64, u64), kind: i32, pid: u32) {
        self.answer(|reply| reply.locked(start, end, kind, pid));
    }
}

impl Asked<ReplyLseek> {
    /// Answers with an offset in a file, which is below 2^63.
    pub(crate) fn found_at(self, at: u64) {
        self.answer(|reply| reply.offset(i64::try_from(at).unwrap_or(i64::MAX)));
    }
}

impl Asked<ReplyOpen> {
    /// Answers with the number of an open file or directory. It must have been claimed.
    pub(crate) fn opened(self, handle: u64, flags: FopenFlags) {
        self.answer(|reply| reply.opened(FileHandle(handle), flags));
    }
}

impl Asked<ReplyCreate> {
    /// Answers with a file that a name leads to, and the number under which it is open. It must
    /// have been claimed.
    pub(crate) fn created(self, attr: &Attr, handle: u64, flags: FopenFlags) {
        let shown = self.shared.shown(attr, self.shared.look_up(attr));
        let handle = FileHandle(handle);
        self.answer(|reply| reply.created(&NOT_CACHED, &shown, Generation(0), handle, flags));
    }
}

impl Asked<ReplyDirectory> {
    /// Answers with the entries that `add` adds.
    pub(crate) fn listed(self, add: impl FnOnce(&mut ReplyDirectory)) {
        self.answer(|mut reply| {
            add(&mut reply);
            reply.ok();
        });
    }
}

impl Asked<ReplyStatfs> {
    /// Answers with the space of the file system.
    pub(crate) fn space(self, space: &Space) {
        let Space { block_size: size, blocks, free, available, files, files_free } = *space;
        self.answer(|reply| {
            reply.statfs(blocks, free, available, files, files_free, size, NAME_MAX, size);
        });
    }
}

impl Asked<ReplyXattr> {
    /// Answers with a value, or, if there is no room, with its length.
    pub(crate) fn value(self, value: &[u8], room: u32) {
        self.answer(|reply| send_value(reply, value, room));
    }
}
