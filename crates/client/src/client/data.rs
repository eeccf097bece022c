//! Operations on data, under locks that the servers take for the time of a request.

#[cfg(test)]
mod tests;

use core::ops::Range;
use std::collections::BTreeMap;

use bytes::Bytes;
use lustrine_fswire::connect::ConnectFlags;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::Ea;
use lustrine_fswire::ldlm::{Ibits, IntentOp, LayoutIntent, LayoutOp, LockMode};
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::Obdo;
use lustrine_fswire::rpc::{Request, dlm};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;
use lustrine_ptlrpc::{ImportKey, RpcError};

use super::cache::{ObjectBytes, ObjectKey, Writer, brw_of};
use super::end_locks::ObjectLock;
use super::io::{Io, IoKey, ReadData, Work};
use super::later::pause_after;
use super::open::intent_lock;
use super::transfer::{ObjectRange, ObjectWrite, WriteArgs};
use super::{CallArgs, Caller, Client, Done};
use crate::attr::FileOwner;
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::layout::{FileLayout, Piece};
use crate::offers;
use crate::replay::Choices;
use crate::reply::reply_of;

/// A run of bytes of one object, and the pieces of the file that it holds, in order.
struct Run {
    pieces: Vec<Piece>,
    object_offset: u64,
    len: u64,
}

/// Where a request for data goes.
pub(super) struct Target {
    pub(super) import: ImportKey,
    pub(super) oi: Fid,
    pub(super) on_ost: bool,
    brw: u64,
}

impl Client {
    /// Reads a range of a file. What no object holds is zeros: the caller knows the size, and asks
    /// for nothing behind it. The bytes, and each slice of them, keep memory of the node until they
    /// are dropped; at most a part of it can be kept so, and more is copied.
    #[allow(clippy::too_many_arguments, reason = "the file, the range, and whom to answer")]
    pub fn read(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        range: (u64, u32),
        done: Done<Bytes>,
    ) {
        let len = range.1 as usize;
        let then: Done<ReadData> = Box::new(move |client, turn, read| {
            done(client, turn, read.map(|read| read.padded(len)));
        });
        self.read_objects(turn, caller, fid, layout, range, then);
    }

    /// The same, with whether objects had all of it.
    #[allow(clippy::too_many_arguments, reason = "the file, the range, and whom to answer")]
    pub(super) fn read_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        (offset, len): (u64, u32),
        done: Done<ReadData>,
    ) {
        if let Some(kept) = self.kept(turn.now, fid, layout, (offset, len)) {
            return done(self, turn, Ok(kept));
        }
        let runs = match self.runs(fid, layout, offset, u64::from(len)) {
            Ok(runs) => runs,
            Err(error) => return done(self, turn, Err(error)),
        };
        let present = covered_from(layout, offset, u64::from(len));
        let (data, len) = (Vec::new(), len as usize);
        let work = Work::Read { offset, len, data, whole: None, present, done };
        let Some(io) = self.start_io(turn, runs.len(), work) else { return };
        for (target, run) in runs {
            let range = run.range();
            let (import, oi) = (target.import, target.oi);
            if self.caches(layout) && target.on_ost {
                let key = ObjectKey { import, oi };
                let then: Done<ObjectBytes> = Box::new(move |client, turn, read| {
                    let read = read.map(|read| (read.bytes, read.present));
                    client.run_read(turn, io, &run, read);
                });
                self.read_object(turn, key, caller, range, then);
                continue;
            }
            let read = ObjectRange { import, oi, range, lock: None, caller };
            self.read_rpc(turn, read, move |client, turn, read| {
                let read = read.map(|bytes| {
                    let certain = (bytes.len() - padding(&bytes)) as u64;
                    (bytes, certain)
                });
                client.run_read(turn, io, &run, read);
            });
        }
    }

    /// A range of a file that is in one object and in memory, under a lock.
    fn kept(
        &mut self,
        now: Time,
        fid: Fid,
        layout: &FileLayout,
        (offset, len): (u64, u32),
    ) -> Option<ReadData> {
        if !self.caches(layout) {
            return None;
        }
        let pieces = layout.pieces(offset, len.into());
        let [piece] = pieces.as_slice() else { return None };
        if (piece.offset, piece.len) != (offset, len.into()) {
            return None;
        }
        let target = self.target_of(fid, layout, (piece.component, piece.stripe)).ok()?;
        let key = ObjectKey { import: target.import, oi: target.oi };
        let range = piece.object_offset..piece.object_offset + piece.len;
        let read = self.read_kept(now, key, &range)?;
        Some(ReadData { bytes: read.bytes, present: read.present })
    }

    /// A run of an operation was read, so many bytes of it for certain before the end of its
    /// object.
    fn run_read(&mut self, turn: &mut Turn<'_>, io: IoKey, run: &Run, read: Outcome<(Bytes, u64)>) {
        let (bytes, certain) = match read {
            Ok(read) => read,
            Err(error) => return self.io_failed(turn, io, error),
        };
        if let Some(Io { work: Work::Read { offset, len, data, whole, present, .. }, .. }) =
            self.ios.get_mut(io)
        {
            if let Some(missing) = run.first_behind(certain) {
                *present = (*present).min(missing - *offset);
            }
            match run.pieces.as_slice() {
                // One object has the whole range.
                [piece] if piece.offset == *offset && piece.len == *len as u64 => {
                    *whole = Some(bytes);
                }
                _ => scatter(run, &bytes, *offset, data),
            }
        }
        self.io_answered(turn, io);
    }

    /// Has the metadata server make the objects that a write of a range needs: components of a
    /// layout get theirs when they are first written to. The outcome is the layout as it is then.
    pub fn instantiate(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        range: (u64, u64),
        done: Done<FileLayout>,
    ) {
        self.layout_intent(turn, caller, fid, (LayoutOp::WRITE, range), done);
    }

    /// Has the metadata server prepare the layout of a file for an operation on a range of bytes.
    pub(super) fn layout_intent(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        change: (LayoutOp, (u64, u64)),
        done: Done<FileLayout>,
    ) {
        self.ask_for_layout(turn, caller, fid, (change, 0), done);
    }

    /// The same, after the server had no time for it so many times.
    fn ask_for_layout(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        (change, refusals): ((LayoutOp, (u64, u64)), u32),
        done: Done<FileLayout>,
    ) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let (op, (start, end)) = change;
            let handle = client.next_handle();
            let mut handles = vec![handle];
            handles.extend(client.early_cancels(import, [fid]));
            let lock = intent_lock(fid, LockMode::EX, Ibits::LAYOUT, &handles);
            client.lock_asked(import, &lock);
            let request = dlm::LayoutIntentRequest {
                lock,
                intent: IntentOp::LAYOUT,
                layout: LayoutIntent { op, start, end, ..Default::default() },
                ea: Ea::NONE,
            };
            let mut call = CallArgs::change(Request::EnqueueLayout(request), &caller);
            call.reply_len = 1024 + client.ea_room(import);
            client.call(turn, import, call, move |client, turn, answer| {
                let found = answer.and_then(|answer| {
                    let reply = reply_of!(&answer.reply, EnqueueLayout)?;
                    if let Some(lvb) = reply.lvb {
                        let choices = Choices::Layout(lvb.0.to_vec());
                        client.keep_choices(turn, import, answer.request, choices);
                    }
                    let errno = i32::try_from(reply.reply.policy_res2).unwrap_or(-errno::EPROTO);
                    let layout = match (errno < 0, reply.lvb) {
                        (true, _) => Err(ClientError::Errno(errno.saturating_neg())),
                        (false, Some(lvb)) => FileLayout::parse(lvb.0),
                        (false, None) => Err(malformed("a layout lock without a layout")),
                    };
                    Ok((reply.reply, layout))
                });
                let reply = found.as_ref().ok().map(|(reply, _)| reply);
                client.give_back(import, handle, reply);
                match found.and_then(|(_, layout)| layout) {
                    Err(ClientError::Errno(errno::EINPROGRESS)) if !client.unmounted => {
                        let refusals = refusals + 1;
                        let act = move |client: &mut Client, turn: &mut Turn<'_>, done| {
                            client.ask_for_layout(turn, caller, fid, (change, refusals), done);
                        };
                        client.after(turn, pause_after(refusals), done, act);
                    }
                    layout => done(client, turn, layout),
                }
            });
        });
    }

    /// Writes a range of a file. When it is over, the data are on stable storage, or, if the client
    /// keeps data, in its memory under a lock; see [`Client::flush`]. The bytes are kept where they
    /// are: those that are a small part of larger memory are best copied before. An object belongs
    /// to the owner that its first write names [OST-14].
    #[allow(clippy::too_many_arguments, reason = "the file, the range, and whom to answer")]
    pub fn write(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner): (Fid, FileOwner),
        layout: &FileLayout,
        data: (u64, Bytes),
        done: Done<()>,
    ) {
        if layout.mirrors.is_some() {
            return self.write_mirrored(turn, caller, (fid, owner), layout, data, done);
        }
        self.write_objects(turn, caller, (fid, owner), layout, data, &[], done);
    }

    /// The same under locks that the client has. Objects that are not among them are locked by
    /// their servers for the time of the request.
    #[allow(clippy::too_many_arguments, reason = "the file, the range, and whom to answer")]
    pub(super) fn write_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner): (Fid, FileOwner),
        layout: &FileLayout,
        (offset, bytes): (u64, Bytes),
        locks: &[ObjectLock],
        done: Done<()>,
    ) {
        let len = bytes.len() as u64;
        if !layout.may_change((offset, offset.saturating_add(len))) {
            let error = ClientError::Layout("other mirrors would not be stale".to_owned());
            return done(self, turn, Err(error));
        }
        let runs = match self.runs(fid, layout, offset, len) {
            Ok(runs) => runs,
            Err(error) => return done(self, turn, Err(error)),
        };
        let covered: u64 = runs.iter().map(|(_, run)| run.len).sum();
        if covered != len {
            let error = ClientError::Layout("a part of the file has no objects yet".to_owned());
            return done(self, turn, Err(error));
        }
        let ends = runs.iter().map(|(target, run)| (target.import, run.range().end));
        if let Err(error) = self.check_ends(ends) {
            return done(self, turn, Err(error));
        }
        let time = self.wall(turn);
        let Some(io) = self.start_io(turn, runs.len(), Work::Change { done }) else { return };
        for (target, run) in runs {
            let data = gather(&run, &bytes, offset);
            let range = run.range();
            let (import, oi) = (target.import, target.oi);
            let lock = locks.iter().find(|lock| lock.place == run.place());
            if lock.is_none() && self.caches(layout) && target.on_ost {
                let writer = Writer { caller, owner };
                let part = super::io::part_of(io);
                let key = ObjectKey { import, oi };
                // A small part of what was written does not keep all of it.
                let is_small = data.len() < bytes.len() / 2;
                let data = if is_small { Bytes::copy_from_slice(&data) } else { data };
                self.write_object(turn, (key, fid), writer, (range.start, data), part);
                continue;
            }
            if let Some(key) = lock.and_then(|lock| self.object_of(lock.import, lock.handle)) {
                let part = super::io::part_of(io);
                let writer = Writer { caller, owner };
                self.write_under(turn, (key, fid), writer, (range, &data), part);
                continue;
            }
            let lock = match lock.map(|lock| self.locks.remote(lock.import, lock.handle)) {
                // The server has evicted this client since.
                Some(None) => {
                    self.io_failed(turn, io, ClientError::Rpc(RpcError::Evicted));
                    continue;
                }
                Some(lock) => lock,
                None => None,
            };
            let write = ObjectWrite { import, oi, parts: vec![range], lock, caller };
            let args =
                WriteArgs { owner, time, paid: false, version: layout.version(), commit: true };
            self.write_until_stored(turn, write, args, data, move |client, turn, written| {
                match written {
                    Ok(()) => client.io_answered(turn, io),
                    Err(error) => client.io_failed(turn, io, error),
                }
            });
        }
    }

    /// Waits until the servers have a range of a file that a program has written just now. It fails
    /// if that cannot be stored, which an fsync reports too. Errors of other writes are left to
    /// those who made them.
    pub fn write_through(
        &mut self,
        turn: &mut Turn<'_>,
        fid: Fid,
        layout: &FileLayout,
        (offset, len): (u64, u64),
        done: Done<()>,
    ) {
        let runs = match self.runs(fid, layout, offset, len) {
            Ok(runs) => runs,
            Err(error) => return done(self, turn, Err(error)),
        };
        let parts = runs
            .into_iter()
            .map(|(target, run)| (ObjectKey { import: target.import, oi: target.oi }, run.range()));
        self.flush_parts(turn, parts.collect(), done);
    }

    /// The requests that a range of a file needs: runs of bytes of one object each.
    fn runs(
        &self,
        fid: Fid,
        layout: &FileLayout,
        offset: u64,
        len: u64,
    ) -> Outcome<Vec<(Target, Run)>> {
        let mut open: BTreeMap<(usize, u16), Run> = BTreeMap::new();
        let mut runs = Vec::new();
        for piece in layout.pieces(offset, len) {
            let place = (piece.component, piece.stripe);
            let brw = self.target_of(fid, layout, place)?.brw;
            let mut rest = piece;
            while rest.len > 0 {
                let run = open.entry(place).or_insert_with(|| Run::at(&rest));
                let room = brw - run.len;
                if room == 0 || run.object_offset + run.len != rest.object_offset {
                    let full = core::mem::replace(run, Run::at(&rest));
                    runs.push((self.target_of(fid, layout, place)?, full));
                    continue;
                }
                let len = rest.len.min(room);
                run.pieces.push(Piece { len, ..rest });
                run.len += len;
                rest.offset += len;
                rest.object_offset += len;
                rest.len -= len;
            }
        }
        for (place, run) in open {
            runs.push((self.target_of(fid, layout, place)?, run));
        }
        Ok(runs)
    }

    /// Whether the servers allow objects that end there: each by its target and its end [OST-22].
    ///
    /// # Errors
    /// EFBIG.
    pub(super) fn check_ends(
        &self,
        mut ends: impl Iterator<Item = (ImportKey, u64)>,
    ) -> Outcome<()> {
        /// The limit of a server that names none.
        const DEFAULT_MAX: u64 = 1 << 44;
        let most = |import: ImportKey| {
            let granted = self.rpc.import(import)?.granted();
            let named = granted.flags.contains(ConnectFlags::MAXBYTES).then_some(granted.maxbytes);
            named.filter(|most| *most > 0)
        };
        match ends.all(|(import, end)| end <= most(import).unwrap_or(DEFAULT_MAX)) {
            true => Ok(()),
            false => Err(ClientError::Errno(errno::EFBIG)),
        }
    }

    /// The same for a file of a size, as far as its objects are known.
    pub(super) fn check_size(&self, fid: Fid, layout: &FileLayout, size: u64) -> Outcome<()> {
        let ends = layout.object_sizes(size).into_iter();
        self.check_ends(ends.filter_map(|(component, stripe, end)| {
            Some((self.target_of(fid, layout, (component, stripe)).ok()?.import, end))
        }))
    }

    /// Where requests for the data of a stripe go.
    pub(super) fn target_of(
        &self,
        fid: Fid,
        layout: &FileLayout,
        (component, stripe): (usize, u16),
    ) -> Outcome<Target> {
        let object = layout.object(component, stripe);
        let on_ost = object.is_some();
        let (import, oi, most) = match object {
            Some(object) => (self.ost(object.ost)?, object.oi, offers::OST_BRW),
            None if layout.component_on_mdt() != Some(component) => {
                return Err(ClientError::Layout("an object is missing".to_owned()));
            }
            // The target is known: the file was opened there.
            None => {
                let import = self.known_mdt_of(fid).unwrap_or_else(|| self.mdt(0))?;
                (import, fid, offers::MDT_BRW)
            }
        };
        let brw = self.rpc.import(import).map_or(4096, |import| brw_of(import, most));
        Ok(Target { import, oi, on_ost, brw })
    }
}

impl Run {
    /// An empty run that starts where a piece does.
    fn at(piece: &Piece) -> Run {
        Run { pieces: Vec::new(), object_offset: piece.object_offset, len: 0 }
    }

    /// The bytes of the object.
    fn range(&self) -> Range<u64> {
        self.object_offset..self.object_offset + self.len
    }

    /// Component and stripe of the object.
    fn place(&self) -> (usize, u16) {
        self.pieces.first().map_or((0, 0), |piece| (piece.component, piece.stripe))
    }

    /// The first byte of the file that is not among the first `len` bytes of the run, if there is
    /// one.
    fn first_behind(&self, len: u64) -> Option<u64> {
        let mut left = len;
        for piece in &self.pieces {
            match left.checked_sub(piece.len) {
                Some(rest) => left = rest,
                None => return Some(piece.offset + left),
            }
        }
        None
    }
}

impl Caller {
    /// An object in a request of this caller.
    pub(super) fn obdo(&self, oi: Fid) -> Obdo {
        Obdo {
            valid: MdValid::ID | MdValid::GROUP | MdValid::UID | MdValid::GID,
            oi,
            uid: self.uid,
            gid: self.gid,
            ..Obdo::default()
        }
    }
}

/// How many bytes at the end of what a server sent may be behind the end of the object: it sends
/// whole pages, filled with zeros [OST-13].
fn padding(bytes: &[u8]) -> usize {
    bytes.iter().rev().take(PAGE_MAX).take_while(|byte| **byte == 0).count()
}

/// Bytes of the largest page of a server: 4 KiB on x86-64, up to 64 KiB on other machines.
const PAGE_MAX: usize = 65536;

/// How many bytes of a range have a place, without a gap from its start.
fn covered_from(layout: &FileLayout, offset: u64, len: u64) -> u64 {
    let mut at = offset;
    for piece in layout.pieces(offset, len) {
        if piece.offset != at {
            break;
        }
        at += piece.len;
    }
    at - offset
}

/// Copies what a run brought to the places of its pieces in the data of the operation, which become
/// as long as it takes.
fn scatter(run: &Run, bytes: &[u8], offset: u64, data: &mut Vec<u8>) {
    let mut rest = bytes;
    for piece in &run.pieces {
        let len = (piece.len as usize).min(rest.len());
        let (now, others) = rest.split_at(len);
        if now.is_empty() {
            break;
        }
        let at = (piece.offset - offset) as usize;
        if data.len() < at + len {
            data.resize(at + len, 0);
        }
        data[at..at + len].copy_from_slice(now);
        rest = others;
    }
}

/// The bytes of a run, in the order of its object.
fn gather(run: &Run, bytes: &Bytes, offset: u64) -> Bytes {
    if let [piece] = run.pieces.as_slice() {
        let at = (piece.offset - offset) as usize;
        return bytes.slice(at..at + piece.len as usize);
    }
    let mut data = Vec::with_capacity(run.len as usize);
    for piece in &run.pieces {
        let at = (piece.offset - offset) as usize;
        data.extend_from_slice(&bytes[at..at + piece.len as usize]);
    }
    data.into()
}
