//! Requests for data of objects: one read, one write.

use core::ops::Range;

use bytes::Bytes;
use lustrine_fswire::checksum::{Checksum, ChecksumKind, ChecksumTypes};
use lustrine_fswire::connect::ConnectFlags;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::message::Message;
use lustrine_fswire::opcode::portal;
use lustrine_fswire::ost::{BULK_FRAGMENT, IoObj, Niobuf, NiobufFlags, Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Kind, Reply as ReplyBuffers, Request, ost};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{Import, ImportKey, Keep, Reply, RpcError};

use super::bulk::Parts;
use super::later::pause_after;
use super::{Answer, CallArgs, CallKey, Caller, Client, Data, Done};
use crate::attr::FileOwner;
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// A range of an object to read.
#[derive(Clone)]
pub(super) struct ObjectRange {
    pub(super) import: ImportKey,
    pub(super) oi: Fid,
    pub(super) range: Range<u64>,
    /// The server's handle of the client's lock; none if the server is to take one.
    pub(super) lock: Option<Handle>,
    pub(super) caller: Caller,
}

/// Ranges of an object to write in one request.
#[derive(Clone)]
pub(super) struct ObjectWrite {
    pub(super) import: ImportKey,
    pub(super) oi: Fid,
    /// In order, at least one.
    pub(super) parts: Vec<Range<u64>>,
    /// The server's handle of the client's lock; none if the server is to take one.
    pub(super) lock: Option<Handle>,
    pub(super) caller: Caller,
}

/// What a write says beside the data.
#[derive(Clone, Copy)]
pub(super) struct WriteArgs {
    pub(super) owner: FileOwner,
    /// When a program wrote, in seconds since 1970.
    pub(super) time: i64,
    /// Whether the space is paid from the client's grant.
    pub(super) paid: bool,
    /// The version of the layout of a file with mirrors [LAYOUT-12].
    pub(super) version: Option<u32>,
    /// Whether the server commits before it answers. Otherwise the request is kept until it has
    /// [OST-24].
    pub(super) commit: bool,
}

/// What came of a write.
pub(super) struct WriteAnswer {
    pub(super) outcome: Outcome<()>,
    /// The obdo of the reply, also of a write that failed, if there is one.
    pub(super) body: Option<Obdo>,
    /// The call and the checksum of its data, if its request is kept.
    pub(super) kept: Option<(CallKey, Option<(ChecksumKind, u32)>)>,
}

/// Says that an obdo names an object.
pub(super) const OBJECT: MdValid = MdValid::ID.union(MdValid::GROUP);

/// Most bytes within a reply (`short_io_bytes`).
const SHORT_MAX: u64 = 16 << 10;

/// An attempt to move data that may be repeated [OST-23].
#[derive(Clone, Copy)]
struct Attempt {
    /// How many there were before.
    before: u32,
    /// How often the target had evicted the client when the first one began.
    evictions: u64,
}

/// So often data are moved again.
const REDO_MAX: u32 = 10;

/// Errors that may be gone when data are moved again: EIO, which is also that of data which do not
/// fit their checksum, EAGAIN, ENOMEM and EROFS.
const TEMPORARY: [i32; 4] = [5, 11, 12, 30];

impl Client {
    /// Reads a range of an object: one request, which is repeated after errors that may be gone
    /// then.
    pub(super) fn read_rpc(
        &mut self,
        turn: &mut Turn<'_>,
        read: ObjectRange,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Outcome<Bytes>) + Send + 'static,
    ) {
        let attempt = self.first_attempt(read.import);
        self.try_read(turn, read, attempt, Box::new(then));
    }

    fn try_read(
        &mut self,
        turn: &mut Turn<'_>,
        read: ObjectRange,
        attempt: Attempt,
        then: Done<Bytes>,
    ) {
        let again = read.clone();
        self.read_once(turn, read, attempt.before > 0, move |client, turn, got| {
            let Err(error) = got else { return then(client, turn, got) };
            client.redo(
                turn,
                again.import,
                (attempt, error),
                then,
                move |client, turn, next, then| {
                    client.try_read(turn, again, next, then);
                },
            );
        });
    }

    /// Writes ranges of an object as [`Client::write_rpc`] does, and repeats that after errors that
    /// may be gone then.
    pub(super) fn write_until_stored(
        &mut self,
        turn: &mut Turn<'_>,
        write: ObjectWrite,
        args: WriteArgs,
        data: Bytes,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Outcome<()>) + Send + 'static,
    ) {
        let attempt = self.first_attempt(write.import);
        self.try_write(turn, (write, args, data), attempt, Box::new(then));
    }

    fn try_write(
        &mut self,
        turn: &mut Turn<'_>,
        (write, args, data): (ObjectWrite, WriteArgs, Bytes),
        attempt: Attempt,
        then: Done<()>,
    ) {
        let again = (write.clone(), args, data.clone());
        let report = move |body: &mut Obdo| mark_repeated(body, attempt.before > 0);
        self.write_rpc(turn, write, args, report, vec![data], move |client, turn, written| {
            let Err(error) = written.outcome else { return then(client, turn, Ok(())) };
            let import = again.0.import;
            client.redo(turn, import, (attempt, error), then, move |client, turn, next, then| {
                client.try_write(turn, again, next, then);
            });
        });
    }

    fn first_attempt(&self, import: ImportKey) -> Attempt {
        let evictions = self.rpc.import(import).map_or(0, Import::evictions);
        Attempt { before: 0, evictions }
    }

    /// Data could not be moved: it is done again after a pause, a second longer each time, unless
    /// that is of no use. The lock under which it began must be there still.
    fn redo<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        import: ImportKey,
        (attempt, error): (Attempt, ClientError),
        then: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, Attempt, Done<T>) + Send + 'static,
    ) {
        let is_temporary =
            matches!(&error, ClientError::Errno(number) if TEMPORARY.contains(number));
        let was_evicted =
            move |client: &Client| client.first_attempt(import).evictions != attempt.evictions;
        let is_over = attempt.before == REDO_MAX || self.unmounted;
        if !is_temporary || is_over || was_evicted(self) {
            return then(self, turn, Err(error));
        }
        let next = Attempt { before: attempt.before + 1, ..attempt };
        self.after(turn, pause_after(next.before), then, move |client, turn, then| {
            if was_evicted(client) {
                return then(client, turn, Err(ClientError::Rpc(RpcError::Evicted)));
            }
            act(client, turn, next, then);
        });
    }

    /// Reads a range of an object: one request.
    fn read_once(
        &mut self,
        turn: &mut Turn<'_>,
        read: ObjectRange,
        is_repeated: bool,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Outcome<Bytes>) + Send + 'static,
    ) {
        let ObjectRange { import, oi, range, lock, caller } = read;
        let (offset, len) = (range.start, range.end - range.start);
        let short = self.reads_short(import, &range);
        let mut body = caller.obdo(oi);
        if let Some(kind) = self.checksum_kind(import) {
            body.set_checksum(kind, 0);
        }
        let mut flags = NiobufFlags::READ;
        match lock {
            Some(lock) => {
                body.valid |= MdValid::HANDLE;
                body.handle = lock;
            }
            None => flags |= NiobufFlags::SRVLOCK,
        }
        let mut object = io_object(oi, &[range]);
        if short {
            body.valid |= MdValid::FLAGS;
            body.flags |= ObdoFlags::SHORT_IO;
            object.max_brw = IoObj::SHORT_IO;
        }
        mark_repeated(&mut body, is_repeated);
        let niobufs = [Niobuf { offset, len: len as u32, flags }];
        let brw = ost::Brw { body, object, niobufs: niobufs.as_slice().into(), data: &[] };
        let mut call = CallArgs::from(Request::OstRead(brw));
        // Those that count may all wait at the server for the lock of one that does not.
        call.counted = lock.is_none();
        call.caller = Some(caller);
        match short {
            true => call.reply_len += len as u32,
            // Also for data on a metadata target [OST-9].
            false => call.bulk = Some((portal::OST_BULK, Data::In { offset, len })),
        }
        self.call(turn, import, call, move |client, turn, answer| {
            let got = answer.and_then(|answer| {
                let Answer { reply: message, mut data, .. } = answer;
                let reply = reply_of!(&message, OstRead)?;
                if short {
                    data = Bytes::copy_from_slice(reply.data);
                }
                let sent = usize::try_from(message.status).unwrap_or_default();
                // No more than what came, and what was asked for; the rest is a hole.
                if data.len() < sent || sent as u64 > len {
                    return Err(malformed("not as much data as the reply says"));
                }
                // It does not keep much more than it has.
                match sent < data.len() / 2 {
                    true => data = Bytes::copy_from_slice(&data[..sent]),
                    false => data.truncate(sent),
                }
                check_sum(&reply.body, offset, &data)?;
                Ok(data)
            });
            then(client, turn, got);
        });
    }

    /// Writes ranges of an object, whose bytes follow each other in the parts of `data`, with one
    /// request. `report` adds to its obdo.
    pub(super) fn write_rpc(
        &mut self,
        turn: &mut Turn<'_>,
        write: ObjectWrite,
        args: WriteArgs,
        report: impl FnOnce(&mut Obdo),
        data: Vec<Bytes>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, WriteAnswer) + Send + 'static,
    ) {
        let ObjectWrite { import, oi, parts, lock, caller } = write;
        let WriteArgs { owner, time, paid, version, commit } = args;
        let mut body = caller.obdo(oi);
        (body.uid, body.gid, body.projid) = (owner.uid, owner.gid, owner.projid);
        // A file may have a project that the metadata server did not name.
        body.valid.set(MdValid::PROJID, owner.projid != 0);
        body.valid |= MdValid::MTIME | MdValid::CTIME;
        (body.mtime, body.ctime) = (time, time);
        body.set_version(version);
        report(&mut body);
        let sum = self.checksum_kind(import).map(|kind| {
            let mut sum = Checksum::new(kind);
            let mut rest = Parts::new(&data);
            for part in &parts {
                let now = rest.split_to((part.end - part.start) as usize);
                let now: Vec<&[u8]> = now.map(|(bytes, range)| &bytes[range]).collect();
                sum.range(part.start, &now);
            }
            (kind, sum.value())
        });
        if let Some((kind, sum)) = sum {
            body.set_checksum(kind, sum);
        }
        let mut flags = NiobufFlags::WRITE;
        flags |= if commit { NiobufFlags::SYNC } else { NiobufFlags::ASYNC };
        flags.set(NiobufFlags::FROM_GRANT, paid);
        // Quota and reserved space do not stop who may exceed them [OST-19].
        flags.set(NiobufFlags::SYS_RESOURCE, caller.may_exceed());
        match lock {
            // With SRVLOCK the server would wait for this client.
            Some(lock) => {
                body.valid |= MdValid::HANDLE;
                body.handle = lock;
            }
            None => flags |= NiobufFlags::SRVLOCK,
        }
        let niobuf = |part: &Range<u64>| Niobuf {
            offset: part.start,
            len: (part.end - part.start) as u32,
            flags,
        };
        let niobufs: Vec<Niobuf> = parts.iter().map(niobuf).collect();
        let brw = ost::Brw {
            body,
            object: io_object(oi, &parts),
            niobufs: niobufs.as_slice().into(),
            data: &[],
        };
        let mut call = CallArgs::from(Request::OstWrite(brw));
        // Those that count may all wait at the server for the lock of one that does not.
        call.counted = lock.is_none();
        call.caller = Some(caller);
        call.keep = if commit { Keep::No } else { Keep::UntilCommitted };
        call.bulk = Some((portal::OST_BULK, Data::Out { ranges: &parts, bytes: data }));
        let count = parts.len();
        // A result for each.
        call.reply_len += 4 * count as u32;
        self.call(turn, import, call, move |client, turn, answer| {
            let body = answer.as_ref().ok().and_then(|answer| write_obdo(&answer.reply));
            let import = client.rpc.import(import);
            let kept = answer
                .as_ref()
                .ok()
                .and_then(|answer| import?.is_kept(answer.request).then_some((answer.call, sum)));
            // The connection may have ended since the answer came, and with it what was kept. A
            // server that was asked to commit says what it likes of transactions.
            let is_committed = |transno| import.is_some_and(|import| import.is_committed(transno));
            let is_safe = |transno| commit || kept.is_some() || is_committed(transno);
            let outcome = answer.and_then(|answer| {
                check_stored(&answer.reply, sum, count)?;
                match is_safe(answer.reply.transno) {
                    true => Ok(()),
                    false => Err(ClientError::Rpc(RpcError::Evicted)),
                }
            });
            then(client, turn, WriteAnswer { outcome, body, kept });
        });
    }

    /// Whether the data of a read are to come within the reply, which saves a message: whole pages
    /// only, as kernels ask for them.
    fn reads_short(&self, import: ImportKey, range: &Range<u64>) -> bool {
        let granted = self.rpc.import(import).map(|import| import.granted().flags);
        let pages = [range.start, range.end].iter().all(|at| at.is_multiple_of(BULK_FRAGMENT));
        granted.is_some_and(|flags| flags.contains(ConnectFlags::SHORTIO))
            && pages
            && range.end - range.start <= SHORT_MAX
    }

    /// The kind of checksums that a target and the client use; none if they are switched off.
    fn checksum_kind(&self, import: ImportKey) -> Option<ChecksumKind> {
        let import = self.rpc.import(import)?;
        import.tunables().checksums.then(|| preferred(import.granted().cksum_types)).flatten()
    }
}

/// The kind of checksums to use of those that a server has granted, if there is one.
fn preferred(granted: ChecksumTypes) -> Option<ChecksumKind> {
    PREFERRED_CHECKSUMS.into_iter().find(|kind| granted.contains(kind.mask()))
}

/// Whether a reply says that `count` ranges are stored whose data have this checksum.
pub(super) fn check_stored(
    reply: &Reply,
    sum: Option<(ChecksumKind, u32)>,
    count: usize,
) -> Outcome<()> {
    let reply = reply_of!(reply, OstWrite)?;
    // A server stores what arrived, and says what it was.
    let stored = reply.body.checksum();
    if stored.is_some() && stored != sum {
        return Err(ClientError::Errno(errno::EIO));
    }
    match reply.results.iter().find(|result| *result != 0) {
        None if reply.results.len() == count => Ok(()),
        Some(result @ ..0) => Err(ClientError::Errno(result.saturating_neg())),
        _ => Err(malformed("the results of a write")),
    }
}

/// The obdo in the reply to a write. One that quota has stopped has all its buffers, and a status
/// that says so [OST-21].
fn write_obdo(reply: &Reply) -> Option<Obdo> {
    let message = Message::parse(&reply.message).ok()?;
    match ReplyBuffers::parse(Kind::OstWrite, &message).ok()? {
        ReplyBuffers::OstWrite(written) => Some(written.body),
        _ => None,
    }
}

/// The kinds of checksums, the preferred one first [OST-8]. Processors have instructions for
/// CRC-32C; the sums of sectors cost little on any; then those for which code of vectors is in use.
const PREFERRED_CHECKSUMS: [ChecksumKind; 7] = [
    ChecksumKind::Crc32c,
    ChecksumKind::T10Ip4k,
    ChecksumKind::T10Ip512,
    ChecksumKind::Adler32,
    ChecksumKind::Crc32,
    ChecksumKind::T10Crc4k,
    ChecksumKind::T10Crc512,
];

/// The head of a request for ranges of an object.
pub(super) fn io_object(oi: Fid, ranges: &[Range<u64>]) -> IoObj {
    // The distance of match bits is the number of descriptors, rounded up to a power of two.
    let step = super::descriptor_lens(ranges).len().next_power_of_two() as u32;
    IoObj { oi, max_brw: (step - 1) << 16, bufcnt: ranges.len() as u32 }
}

/// Marks a request that moves the same data again, if it does [OST-23].
fn mark_repeated(body: &mut Obdo, is_repeated: bool) {
    if is_repeated {
        body.valid |= MdValid::FLAGS;
        body.flags |= ObdoFlags::RECOV_RESEND;
    }
}

/// Names the layout by which an object is changed.
pub(super) trait Versioned {
    /// If the file has mirrors, an object of a later layout refuses the request [LAYOUT-12].
    fn set_version(&mut self, version: Option<u32>);
}

impl Versioned for Obdo {
    fn set_version(&mut self, version: Option<u32>) {
        if let Some(version) = version {
            self.valid |= MdValid::LAYOUT_VERSION;
            self.layout_version = version;
        }
    }
}

/// Compares the checksum of a read with its data.
fn check_sum(body: &Obdo, offset: u64, data: &[u8]) -> Outcome<()> {
    let Some((kind, value)) = body.checksum() else { return Ok(()) };
    if data.is_empty() {
        return Ok(());
    }
    let mut sum = Checksum::new(kind);
    sum.range(offset, &[data]);
    if sum.value() == value { Ok(()) } else { Err(ClientError::Errno(errno::EIO)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What servers of 2.17 have granted, without code for CRC-32C and with it; the kernel's client
    /// beside the first one uses the same kind.
    #[test]
    fn the_cheapest_kind_of_checksums_that_is_granted_is_used() {
        let of = |bits| preferred(ChecksumTypes::from_bits_retain(bits));
        assert_eq!(of(0x32), Some(ChecksumKind::T10Ip4k));
        assert_eq!(of(0xf7), Some(ChecksumKind::Crc32c));
        assert_eq!(of(0x2), Some(ChecksumKind::Adler32));
        assert_eq!(of(0), None);
        assert!(ChecksumKind::ALL.iter().all(|kind| PREFERRED_CHECKSUMS.contains(kind)));
    }
}
