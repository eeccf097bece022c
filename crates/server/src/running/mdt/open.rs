//! Opening and closing.

use std::sync::Arc;

use lustrine_fswire::body::BodyFlags;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::layout::Ea;
use lustrine_fswire::ldlm::{
    Disposition, ELDLM, Ibits, IntentOp, LdlmReply, LockDesc, LockFlags, LockMode, Resource,
};
use lustrine_fswire::mdt::{
    AttrFlags, CreateRecord, MdValid, MdtBody, OpenFlags, Reint, SetattrRecord,
};
use lustrine_fswire::rpc::{AclBytes, Reply, dlm, mds};
use lustrine_lnet::time::Time;

use super::access::{Access, Caller};
use super::reading::{Described, describe};
use super::{Open, check_name, without_lock};
use crate::errno;
use crate::layout::FileLayout;
use crate::offers::EASIZE_MAX;
use crate::running::{Job, Step, Target, ibits, in_order};
use crate::store::files::{Inode, TYPE_MASK};

/// What an open finds.
enum Found {
    /// The file is there.
    File(Fid),
    /// It is to be made.
    New(Fid),
    /// It is missing.
    Missing,
}

/// Bytes of the buffer for data in the reply to an open: a niobuf of zeros.
const INLINE: [u8; 16] = [0; 16];

impl Target {
    /// LDLM_ENQUEUE with the intent open.
    pub(super) fn open(&mut self, now: Time, job: &mut Job, request: &dlm::OpenIntent<'_>) -> Step {
        let Reint::Create(record) = request.record else { return job.refuse(errno::EPROTO) };
        self.early_cancel(now, job, &request.lock, 1);
        let mut done = Disposition::EXECD | Disposition::LOOKUP_EXECD;
        match self.try_open(now, job, request, &record, &mut done) {
            Ok(step) => step,
            Err(error) => {
                self.release(now, job);
                let reply = without_lock(done, error);
                open_answer(job, request, ELDLM::LOCK_ABORTED, reply, &Described::default())
            }
        }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The errno of Linux that the intent is answered with, positive.
    fn try_open(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &dlm::OpenIntent<'_>,
        record: &CreateRecord,
        done: &mut Disposition,
    ) -> Result<Step, i32> {
        let replayed = job.replayed().is_some();
        let caller = Caller::from(record);
        let flags = record.flags;
        let name = request.name.as_bytes();
        let fid = match self.find_for_open(record, name, replayed)? {
            Found::File(fid) => fid,
            Found::Missing => {
                *done |= Disposition::LOOKUP_NEG;
                self.release(now, job);
                let reply = without_lock(*done, 0);
                let nothing = Described::default();
                return Ok(open_answer(job, request, ELDLM::LOCK_ABORTED, reply, &nothing));
            }
            Found::New(fid) => {
                let wanted_lock = ibits(record.parent, LockMode::EX, Ibits::UPDATE);
                if !self.hold(now, job, vec![wanted_lock]) {
                    return Ok(Step::Wait);
                }
                *done |= Disposition::LOOKUP_NEG | Disposition::OPEN_CREATE;
                self.create_for_open(now, job, (record, name), request.ea)?;
                return Ok(self.opened(now, job, request, record, (fid, *done)));
            }
        };
        *done |= Disposition::LOOKUP_POS;
        if flags.contains(OpenFlags::EXCL) && flags.contains(OpenFlags::CREAT) && !replayed {
            return Err(errno::EEXIST);
        }
        let inode = self.files().get(fid).ok_or(errno::ENOENT)?;
        if !inode.is_file() && !inode.is_dir() {
            // Attributes, and no handle [MDT-12].
            let found = describe(fid, inode, wanted(), EASIZE_MAX);
            self.release(now, job);
            let reply = without_lock(*done, 0);
            return Ok(open_answer(job, request, ELDLM::LOCK_ABORTED, reply, &found));
        }
        if !replayed {
            check_open(&caller, inode, flags, done)?;
        }
        let writes = flags.contains(OpenFlags::WRITE);
        let bare = inode.is_file() && inode.layout.is_none();
        if bare && writes && !flags.contains(OpenFlags::DELAY_CREATE) {
            if !self.hold(now, job, vec![ibits(fid, LockMode::EX, Ibits::LAYOUT)]) {
                return Ok(Step::Wait);
            }
            *done |= Disposition::OPEN_STRIPE;
            let parent = record.parent;
            let layout = self.new_layout(parent, flags, request.ea, replayed)?;
            let step = self.begin(now, job).step;
            self.files_mut().change(step, fid, |inode| inode.layout = layout);
        }
        Ok(self.opened(now, job, request, record, (fid, *done)))
    }

    /// Which file an open is about.
    fn find_for_open(
        &self,
        record: &CreateRecord,
        name: &[u8],
        replayed: bool,
    ) -> Result<Found, i32> {
        let creates = record.flags.contains(OpenFlags::CREAT);
        if record.flags.contains(OpenFlags::BY_FID) || (name.is_empty() && !creates) {
            return match self.files().get(record.fid) {
                Some(_) => Ok(Found::File(record.fid)),
                None => Err(errno::ENOENT),
            };
        }
        // A replay names the file that the first attempt has opened or made [MDT-21].
        if replayed && self.files().get(record.fid).is_some() {
            return Ok(Found::File(record.fid));
        }
        check_name(name)?;
        let caller = Caller::from(record);
        match self.child(&caller, record.parent, name)? {
            Some(fid) => Ok(Found::File(fid)),
            None if creates => {
                let dir = self.files().get(record.parent).ok_or(errno::ENOENT)?;
                if dir.nlink == 0 {
                    return Err(errno::ENOENT);
                }
                if !replayed {
                    caller.check(dir, Access::CHANGE)?;
                }
                if !record.fid.is_sane() {
                    return Err(errno::EPROTO);
                }
                match self.files().get(record.fid) {
                    Some(_) => Err(errno::EEXIST),
                    None => Ok(Found::New(record.fid)),
                }
            }
            None => Ok(Found::Missing),
        }
    }

    /// Makes a file that an open is to open.
    fn create_for_open(
        &mut self,
        now: Time,
        job: &mut Job,
        (record, name): (&CreateRecord, &[u8]),
        ea: Ea<'_>,
    ) -> Result<(), i32> {
        let replayed = job.replayed().is_some();
        let delayed = record.flags.contains(OpenFlags::DELAY_CREATE);
        let writes = record.flags.contains(OpenFlags::WRITE);
        let layout = match delayed || !writes && ea.is_unused() {
            true => None,
            false => self.new_layout(record.parent, record.flags, ea, replayed)?,
        };
        let step = self.begin(now, job).step;
        let mut inode = self.new_inode(record, record.mode);
        inode.layout = layout;
        self.files_mut().put(step, record.fid, inode);
        self.add_name(step, record.parent, name, record.fid, record.time);
        Ok(())
    }

    /// The layout of a file that gets one.
    fn new_layout(
        &mut self,
        parent: Fid,
        flags: OpenFlags,
        ea: Ea<'_>,
        replayed: bool,
    ) -> Result<Option<Arc<FileLayout>>, i32> {
        // The replay of an open has the layout of the reply, with its objects.
        if let Some(given) = FileLayout::given(ea).filter(|_| replayed) {
            return Ok(Some(Arc::new(given)));
        }
        let files = self.files();
        let defaults = files.defaults();
        let mut layout = None;
        if flags.contains(OpenFlags::HAS_EA) {
            layout = FileLayout::requested(ea, defaults)?;
        }
        if layout.is_none() {
            let of_parent = files.get(parent).map_or(&[][..], |inode| &inode.default_layout);
            layout = FileLayout::requested(Ea(of_parent), defaults)?;
        }
        let mut layout = layout.unwrap_or_else(|| FileLayout::plain(defaults));
        self.files_mut().make_objects(&mut layout, (0, 1));
        Ok(Some(Arc::new(layout)))
    }

    /// A file is open: its handle, its attributes, and a lock if one is free.
    fn opened(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &dlm::OpenIntent<'_>,
        record: &CreateRecord,
        (fid, mut done): (Fid, Disposition),
    ) -> Step {
        self.release(now, job);
        if job.transaction.is_none() {
            self.begin(now, job);
        }
        job.opened = Some(fid);
        done |= Disposition::OPEN_OPEN;
        let before = job.replayed().map_or(Handle::NONE, |_| record.old_handle);
        let (client, xid) = (job.export, job.received.xid);
        let open = Open { client, fid, flags: record.flags, before, xid };
        let handle = self.mdt.opened(open);
        let mut reply = LdlmReply::default();
        let mut status = ELDLM::LOCK_ABORTED;
        if let Some((lock, opens)) = self.lock_for_open(job, request, record, fid) {
            reply = lock;
            status = 0;
            done.set(Disposition::OPEN_LOCK, opens);
        }
        reply.policy_res1 = done.bits();
        let mut found = Described::default();
        if let Some(inode) = self.files().get(fid) {
            found = describe(fid, inode, wanted(), EASIZE_MAX);
            self.add_data_attributes(inode, &mut found.body);
        }
        found.body.open_handle = handle;
        open_answer(job, request, status, reply, &found)
    }

    /// The lock that an open is answered with, and whether it lets the client keep the handle.
    fn lock_for_open(
        &mut self,
        job: &Job,
        request: &dlm::OpenIntent<'_>,
        record: &CreateRecord,
        fid: Fid,
    ) -> Option<(LdlmReply, bool)> {
        let inode = self.files().get(fid)?;
        let flags = record.flags;
        let (mode, bits) = match (flags.contains(OpenFlags::LOCK), inode.is_file()) {
            _ if job.replayed().is_some() => return None,
            (true, true) if flags.contains(OpenFlags::WRITE) => {
                (LockMode::CW, Ibits::LOOKUP | Ibits::OPEN)
            }
            (true, true) => (LockMode::CR, Ibits::LOOKUP | Ibits::OPEN | Ibits::LAYOUT),
            (false, true) if inode.layout.is_some() => {
                (LockMode::PR, Ibits::LOOKUP | Ibits::LAYOUT | Ibits::UPDATE | Ibits::PERM)
            }
            _ => return None,
        };
        let client = (job.export, request.lock.handle(0)?);
        let given = self.locks.try_bits(client, Resource::of_fid(fid), (mode, bits))?;
        let opens = given.desc.policy.ibits().is_some_and(|bits| bits.contains(Ibits::OPEN));
        let flags = given.flags | LockFlags::HAS_INTENT;
        let reply =
            LdlmReply { flags, desc: given.desc, handle: given.handle, ..LdlmReply::default() };
        Some((reply, opens))
    }

    /// MDS_CLOSE.
    pub(super) fn close(&mut self, now: Time, job: &mut Job, request: &mds::Close<'_>) -> Step {
        let mut handle = request.epoch.open_handle;
        let again = BodyFlags::REPLAY | BodyFlags::RESENT;
        if job.body().flags.intersects(again)
            && let Some(present) = self.mdt.by_old_handle(job.export, handle)
        {
            handle = present;
        }
        let own = self.mdt.opens.get(&handle).filter(|open| open.client == job.export).copied();
        let Some(open) = own else {
            // What a restarted target does not know is closed.
            return match job.replayed() {
                Some(_) => {
                    self.begin(now, job);
                    close_answer(job, MdtBody::default())
                }
                None => job.refuse(errno::ESTALE),
            };
        };
        let step = self.begin(now, job).step;
        let body = match request.record {
            Reint::Setattr(record) => self.files_mut().change(step, open.fid, |inode| {
                set_at_close(inode, &record, open.flags);
                inode.body(open.fid)
            }),
            _ => self.files().get(open.fid).map(|inode| inode.body(open.fid)),
        };
        self.close_handle(now, handle, Some(step));
        close_answer(job, body.unwrap_or_default())
    }
}

/// Sets what a client knows of a file that it closes.
fn set_at_close(inode: &mut Inode, record: &SetattrRecord, flags: OpenFlags) {
    let valid = record.valid;
    // Times only move forward.
    if valid.contains(AttrFlags::ATIME) {
        inode.atime = inode.atime.max(record.atime);
    }
    if !flags.contains(OpenFlags::WRITE) {
        return;
    }
    if valid.contains(AttrFlags::MTIME) {
        inode.mtime = inode.mtime.max(record.mtime);
    }
    if valid.contains(AttrFlags::CTIME) {
        inode.ctime = inode.ctime.max(record.ctime);
    }
    if valid.contains(AttrFlags::LSIZE) && inode.is_file() {
        inode.size = record.size;
    }
    if valid.contains(AttrFlags::LBLOCKS) && inode.is_file() {
        inode.blocks = record.blocks;
    }
}

/// Whether a file may be opened so.
fn check_open(
    caller: &Caller,
    inode: &Inode,
    flags: OpenFlags,
    done: &mut Disposition,
) -> Result<(), i32> {
    if inode.is_dir() && flags.intersects(OpenFlags::WRITE | OpenFlags::CREAT) {
        return Err(errno::EISDIR);
    }
    if !inode.is_dir() && flags.contains(OpenFlags::DIRECTORY) {
        return Err(errno::ENOTDIR);
    }
    let mut access = 0;
    if flags.contains(OpenFlags::READ) {
        access |= Access::READ.0;
    }
    if flags.intersects(OpenFlags::WRITE | OpenFlags::TRUNC) {
        access |= Access::WRITE.0;
    }
    if flags.intersects(OpenFlags::EXEC | OpenFlags::EXECUTE) {
        access |= Access::EXECUTE.0;
    }
    if flags.contains(OpenFlags::OWNEROVERRIDE) && caller.owns(inode) {
        return Ok(());
    }
    caller.check(inode, Access(access)).inspect_err(|_| *done |= Disposition::OPEN_DENY)
}

/// What an open says of a file.
fn wanted() -> MdValid {
    MdValid::EASIZE | MdValid::MODEASIZE | MdValid::ACL
}

/// The answer to an open.
fn open_answer(
    job: &Job,
    request: &dlm::OpenIntent<'_>,
    status: i32,
    reply: LdlmReply,
    found: &Described,
) -> Step {
    let buffers = dlm::OpenReply {
        reply,
        body: found.body,
        ea: Ea(&found.ea),
        acl: AclBytes(&found.acl),
        inline: &INLINE,
        secctx: Some(&[]),
        encctx: Some(&[]),
        default_ea: Some(Ea::NONE),
    };
    let reply = match request.intent {
        IntentOp::OPEN => Reply::EnqueueOpen(buffers),
        IntentOp::CREAT => Reply::EnqueueCreat(buffers),
        _ => Reply::EnqueueOpenCreat(buffers),
    };
    job.answer(status, &reply)
}

fn close_answer(job: &Job, body: MdtBody) -> Step {
    let reply = mds::CloseReply { body, ea: Ea::NONE, cookies: &[] };
    job.answer(0, &Reply::MdsClose(reply))
}

impl Target {
    /// A new file or directory, as its maker wants it.
    pub(super) fn new_inode(&self, record: &CreateRecord, mode: u32) -> Inode {
        let parent = self.files().get(record.parent);
        let (mut mode, mut gid) = (mode & !(record.umask & 0o777), record.fsgid);
        if let Some(parent) = parent.filter(|parent| parent.mode & 0o2000 != 0) {
            gid = parent.gid;
            if mode & TYPE_MASK == crate::store::files::TYPE_DIRECTORY {
                mode |= 0o2000;
            }
        }
        let inherited = match mode & TYPE_MASK == crate::store::files::TYPE_DIRECTORY {
            true => parent.map(|parent| parent.default_layout.clone()).unwrap_or_default(),
            false => Arc::default(),
        };
        Inode {
            mode,
            uid: record.fsuid,
            gid,
            nlink: 1,
            atime: record.time,
            mtime: record.time,
            ctime: record.time,
            btime: record.time,
            rdev: record.rdev as u32,
            parent: record.parent,
            default_layout: inherited,
            ..Inode::default()
        }
    }

    /// Adds a name to a directory.
    pub(super) fn add_name(&mut self, step: u64, dir: Fid, name: &[u8], fid: Fid, time: i64) {
        self.files_mut().link(step, dir, name, fid);
        self.files_mut().change(step, dir, |dir| {
            dir.mtime = dir.mtime.max(time);
            dir.ctime = dir.ctime.max(time);
        });
    }

    /// Locks that a change needs, in the order of their names, in the mode EX.
    pub(super) fn hold_all(&mut self, now: Time, job: &mut Job, bits: &[(Fid, Ibits)]) -> bool {
        let wanted_locks: Vec<LockDesc> =
            bits.iter().map(|(fid, bits)| ibits(*fid, LockMode::EX, *bits)).collect();
        self.hold(now, job, in_order(wanted_locks))
    }
}

/// The handle of the file in the reply to an open, for one that is made anew after a restart.
pub(crate) fn with_handle(message: &[u8], handle: Handle) -> Option<Vec<u8>> {
    let parsed = lustrine_fswire::message::Message::parse(message).ok()?;
    let range = parsed.buffer_range(2)?;
    let body =
        <MdtBody as lustrine_fswire::codec::Wire>::parse(message.get(range.clone())?).ok()?;
    let body = MdtBody { open_handle: handle, ..body };
    let mut out = message.to_vec();
    out.get_mut(range.start..range.start + 216)?
        .copy_from_slice(&lustrine_fswire::codec::Wire::to_bytes(&body));
    // The lock of that time is gone.
    let lock = parsed.buffer_range(1)?;
    let reply =
        <LdlmReply as lustrine_fswire::codec::Wire>::parse(message.get(lock.clone())?).ok()?;
    let without = LdlmReply {
        policy_res1: reply.policy_res1,
        policy_res2: reply.policy_res2,
        ..LdlmReply::default()
    };
    out.get_mut(lock.start..lock.start + 112)?
        .copy_from_slice(&lustrine_fswire::codec::Wire::to_bytes(&without));
    Some(out)
}
