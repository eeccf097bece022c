//! An object target: what its requests do. Data of files on metadata targets are read and written
//! by the same requests.

mod glimpse;
mod grants;
mod io;

use std::collections::BTreeMap;

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{Ibits, LockDesc, LockMode, Policy};
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::opcode::Target as Kind;
use lustrine_fswire::ost::{FallocMode, Obdo, ObdoFlags, SeekWhence, Statfs};
use lustrine_fswire::rpc::{Reply, Request, ost};
use lustrine_fswire::text::FixedText;
use lustrine_lnet::time::Time;

use crate::disk::Store;
use crate::errno;
use crate::running::{Job, Step, Target, extent, ibits};
use crate::store::ObjectStore;
use crate::store::objects::Object;

/// Space of targets, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    pub(crate) capacity: u64,
    pub(crate) used: u64,
}

/// What an object target has in memory only.
#[derive(Debug, Default)]
pub(crate) struct Ost {
    /// Space that was promised to clients, in bytes.
    pub(crate) grants: BTreeMap<Handle, u64>,
    /// At a metadata target: the space of the object targets.
    pub(crate) peers: Space,
}

/// The end of a range that goes to the end of an object.
const TO_THE_END: u64 = u64::MAX;

impl Target {
    pub(crate) fn objects(&self) -> &ObjectStore {
        match &self.disk.store {
            Store::Ost(store) => store,
            Store::Mdt(store) => &store.data,
            Store::Mgs(_) => unreachable!("the management server has no objects"),
        }
    }

    pub(crate) fn objects_mut(&mut self) -> &mut ObjectStore {
        match &mut self.disk.store {
            Store::Ost(store) => store,
            Store::Mdt(store) => &mut store.data,
            Store::Mgs(_) => unreachable!("the management server has no objects"),
        }
    }

    /// Does what a request about objects asks for.
    pub(crate) fn do_objects(&mut self, now: Time, job: &mut Job, request: &Request<'_>) -> Step {
        match request {
            Request::OstRead(request) => self.read(now, job, request),
            Request::OstWrite(request) => self.write(now, job, request),
            Request::OstPunch(request) => self.punch(now, job, &request.body),
            Request::OstSync(request) => self.ost_sync(job, &request.body),
            _ if self.kind != Kind::Ost => job.refuse(errno::EOPNOTSUPP),
            Request::OstGetattr(request) => self.ost_getattr(now, job, &request.body),
            Request::OstSetattr(request) => self.ost_setattr(now, job, &request.body),
            Request::OstFallocate(request) => self.fallocate(now, job, &request.body),
            Request::OstSeek(request) => self.ost_seek(job, &request.body),
            Request::OstStatfs(_) => self.ost_statfs(job),
            Request::OstLadvise(request) => {
                let body = Obdo { valid: MdValid::ID | MdValid::GROUP, ..request.body };
                job.answer(0, &Reply::OstLadvise(ost::ObjectOnly { body }))
            }
            Request::OstSetInfo(request) => self.set_info(job, request),
            _ => job.refuse(errno::EOPNOTSUPP),
        }
    }

    /// The lock that the server needs on a range of an object, or on the data of a file.
    pub(crate) fn data_lock(&self, oi: Fid, mode: LockMode, range: (u64, u64)) -> LockDesc {
        match self.kind {
            Kind::Mdt => ibits(oi, mode, Ibits::DOM),
            _ => extent(oi, mode, range),
        }
    }

    /// Whether a client has locks that allow an operation, and that cover all bytes of some ranges
    /// together, each given by its first and last byte.
    fn has_locks(
        &mut self,
        now: Time,
        job: &Job,
        oi: Fid,
        mode: LockMode,
        ranges: &[(u64, u64)],
    ) -> bool {
        let resource = self.data_lock(oi, mode, (0, TO_THE_END)).resource;
        let allows = |granted: LockMode| match mode {
            LockMode::PW => matches!(granted, LockMode::PW | LockMode::EX | LockMode::GROUP),
            _ => matches!(granted, LockMode::PR | LockMode::PW | LockMode::EX | LockMode::GROUP),
        };
        let mut found: Vec<(u64, u64, Handle)> = Vec::new();
        for (handle, lock) in self.locks.granted_on(resource) {
            if lock.client() != Some(job.export) || !allows(lock.desc.granted_mode) {
                continue;
            }
            match &lock.desc.policy {
                Policy::Extent(extent) => found.push((extent.start, extent.end, handle)),
                Policy::Ibits(ibits) if ibits.bits.contains(Ibits::DOM) => {
                    found.push((0, TO_THE_END, handle));
                }
                _ => {}
            }
        }
        found.sort_unstable_by_key(|(start, end, _)| (*start, *end));
        let is_covered = |&(first, last): &(u64, u64)| {
            let mut next = Some(first);
            for (start, end, _) in &found {
                next = match next {
                    Some(at) if at <= last && *start <= at => match *end >= at {
                        true => end.checked_add(1),
                        false => Some(at),
                    },
                    other => other,
                };
            }
            next.is_none_or(|at| at > last)
        };
        if !ranges.iter().all(is_covered) {
            return false;
        }
        for (start, end, handle) in found {
            if ranges.iter().any(|(first, last)| start <= *last && *first <= end) {
                self.locks.refresh(now.0, handle);
            }
        }
        true
    }

    /// Gets what an operation on ranges needs: a lock of the server if the request wants that, or
    /// those that the client has. `None` if it waits.
    ///
    /// # Errors
    /// ESTALE if the client has none.
    pub(crate) fn lock_ranges(
        &mut self,
        now: Time,
        job: &mut Job,
        body: &Obdo,
        (mode, by_server): (LockMode, bool),
        ranges: &[(u64, u64)],
    ) -> Result<Option<()>, i32> {
        // What is replayed was allowed when it was done first.
        if job.replayed().is_some() {
            return Ok(Some(()));
        }
        if by_server {
            let first = ranges.first().map_or(0, |range| range.0);
            let last = ranges.last().map_or(TO_THE_END, |range| range.1);
            let wanted_lock = self.data_lock(body.oi, mode, (first, last));
            return Ok(self.hold(now, job, vec![wanted_lock]).then_some(()));
        }
        match self.has_locks(now, job, body.oi, mode, ranges) {
            true => Ok(Some(())),
            false => Err(errno::ESTALE),
        }
    }

    fn ost_getattr(&mut self, now: Time, job: &mut Job, asked: &Obdo) -> Step {
        let flags =
            if asked.valid.contains(MdValid::FLAGS) { asked.flags } else { ObdoFlags::empty() };
        if flags.contains(ObdoFlags::SRVLOCK) {
            let mode = match flags.contains(ObdoFlags::FLUSH) {
                true => LockMode::PW,
                false => LockMode::PR,
            };
            let wanted_lock = extent(asked.oi, mode, (0, TO_THE_END));
            if !self.hold(now, job, vec![wanted_lock]) {
                return Step::Wait;
            }
        }
        self.release(now, job);
        let mut body = Obdo {
            valid: MdValid::ID | MdValid::GROUP | MdValid::FLAGS | MdValid::TYPE | MdValid::MODE,
            oi: asked.oi,
            mode: 0o100_666,
            flags: flags & ObdoFlags::FLUSH,
            ..Obdo::default()
        };
        let object = self.objects().get(asked.oi).cloned().unwrap_or_default();
        object.describe(&mut body);
        job.answer(0, &Reply::OstGetattr(ost::ObjectOnly { body }))
    }

    fn ost_setattr(&mut self, now: Time, job: &mut Job, asked: &Obdo) -> Step {
        if asked.valid.contains(MdValid::SIZE) && asked.size != u64::MAX {
            return job.refuse(errno::EPERM);
        }
        let step = self.begin(now, job).step;
        self.objects_mut().change(step, asked.oi, |object| set_attributes(object, asked));
        let mut body = *asked;
        let object = self.objects().get(asked.oi).cloned().unwrap_or_default();
        object.describe(&mut body);
        job.answer(0, &Reply::OstSetattr(ost::ObjectOnly { body }))
    }

    /// OST_PUNCH: cuts an object, or lets it grow [OST-10].
    fn punch(&mut self, now: Time, job: &mut Job, asked: &Obdo) -> Step {
        let needed = MdValid::SIZE | MdValid::BLOCKS;
        if !asked.valid.contains(needed) || asked.blocks != TO_THE_END {
            return job.refuse(errno::EPROTO);
        }
        if asked.size > i64::MAX as u64 {
            return job.refuse(errno::EFBIG);
        }
        let flags = asked.valid.contains(MdValid::FLAGS);
        let by_server = flags && asked.flags.contains(ObdoFlags::SRVLOCK);
        let range = (asked.size, TO_THE_END);
        match self.lock_ranges(now, job, asked, (LockMode::PW, by_server), &[range]) {
            Ok(Some(())) => {}
            Ok(None) => return Step::Wait,
            Err(error) => return job.refuse(error),
        }
        let step = self.begin(now, job).step;
        self.objects_mut().truncate(step, asked.oi, asked.size);
        self.objects_mut().change(step, asked.oi, |object| set_times(object, asked));
        self.release(now, job);
        let mut body =
            Obdo { valid: MdValid::ID | MdValid::GROUP, oi: asked.oi, ..Obdo::default() };
        let object = self.objects().get(asked.oi).cloned().unwrap_or_default();
        object.describe(&mut body);
        job.answer(0, &Reply::OstPunch(ost::ObjectOnly { body }))
    }

    /// OST_SYNC: everything so far is on the disk.
    fn ost_sync(&mut self, job: &Job, asked: &Obdo) -> Step {
        let mut body =
            Obdo { valid: MdValid::ID | MdValid::GROUP, oi: asked.oi, ..Obdo::default() };
        let object = self.objects().get(asked.oi).cloned().unwrap_or_default();
        object.describe(&mut body);
        match job.answer(0, &Reply::OstSync(ost::ObjectOnly { body })) {
            Step::Reply(reply) => Step::ReplyAfterCommit(reply),
            other => other,
        }
    }

    /// OST_FALLOCATE: space is there when it is needed; a range can be freed or made zeros.
    fn fallocate(&mut self, now: Time, job: &mut Job, asked: &Obdo) -> Step {
        let mode = FallocMode::from_bits_retain(asked.nlink);
        let known = FallocMode::KEEP_SIZE | FallocMode::PUNCH_HOLE | FallocMode::ZERO_RANGE;
        let (start, end) = (asked.size, asked.blocks);
        if !known.contains(mode) {
            return job.refuse(errno::EOPNOTSUPP);
        }
        if start >= end || end > i64::MAX as u64 {
            return job.refuse(errno::EINVAL);
        }
        let flags = asked.valid.contains(MdValid::FLAGS);
        let by_server = flags && asked.flags.contains(ObdoFlags::SRVLOCK);
        match self.lock_ranges(now, job, asked, (LockMode::PW, by_server), &[(start, end - 1)]) {
            Ok(Some(())) => {}
            Ok(None) => return Step::Wait,
            Err(error) => return job.refuse(error),
        }
        let step = self.begin(now, job).step;
        if mode.intersects(FallocMode::PUNCH_HOLE | FallocMode::ZERO_RANGE) {
            self.objects_mut().clear(step, asked.oi, start, end);
        }
        self.objects_mut().change(step, asked.oi, |object| {
            if !mode.intersects(FallocMode::KEEP_SIZE | FallocMode::PUNCH_HOLE) {
                object.size = object.size.max(end);
            }
            set_times(object, asked);
        });
        self.release(now, job);
        let mut body =
            Obdo { valid: MdValid::ID | MdValid::GROUP, oi: asked.oi, ..Obdo::default() };
        let object = self.objects().get(asked.oi).cloned().unwrap_or_default();
        object.describe(&mut body);
        job.answer(0, &Reply::OstFallocate(ost::ObjectOnly { body }))
    }

    /// OST_SEEK: the next byte of data, or of a hole.
    fn ost_seek(&mut self, job: &Job, asked: &Obdo) -> Step {
        let data = match SeekWhence(asked.mode) {
            SeekWhence::DATA => true,
            SeekWhence::HOLE => false,
            _ => return job.refuse(errno::EINVAL),
        };
        let found = self.objects().seek(asked.oi, asked.size, data);
        // That there is none is not a status of the request.
        let none = (-i64::from(errno::ENXIO)) as u64;
        let valid = MdValid::ID | MdValid::GROUP | MdValid::SIZE;
        let body = Obdo { valid, oi: asked.oi, size: found.unwrap_or(none), ..Obdo::default() };
        job.answer(0, &Reply::OstSeek(ost::ObjectOnly { body }))
    }

    fn ost_statfs(&mut self, job: &Job) -> Step {
        let objects = self.objects();
        let (capacity, used) = (objects.capacity() / 4096, objects.used() / 4096);
        let free = capacity.saturating_sub(used);
        let statfs = Statfs {
            kind: 0xef53,
            blocks: capacity,
            bfree: free,
            bavail: free,
            files: 1 << 32,
            ffree: (1u64 << 32).saturating_sub(objects.len()),
            fsid: FixedText::new(self.disk.name().as_bytes()).unwrap_or_default(),
            bsize: 4096,
            namelen: 255,
            maxbytes: i64::MAX as u64,
            granted: u32::try_from(self.granted()).unwrap_or(u32::MAX),
            ..Statfs::default()
        };
        job.answer(0, &Reply::OstStatfs(ost::StatfsReply { statfs }))
    }

    /// An object that no file has any more goes, when all clients have given it back.
    pub(crate) fn destroy_object(&mut self, now: Time, job: &mut Job, oi: Fid) -> Step {
        job.discards = true;
        if !self.hold(now, job, vec![extent(oi, LockMode::EX, (0, TO_THE_END))]) {
            return Step::Wait;
        }
        let step = self.disk.journal.begin_local(now);
        self.objects_mut().destroy(step, oi);
        self.release(now, job);
        Step::Over
    }
}

/// The times that a request names.
fn set_times(object: &mut Object, asked: &Obdo) {
    if asked.valid.contains(MdValid::ATIME) {
        object.atime = asked.atime;
    }
    if asked.valid.contains(MdValid::MTIME) {
        object.mtime = asked.mtime;
    }
    if asked.valid.contains(MdValid::CTIME) {
        object.ctime = asked.ctime;
    }
}

/// What a request names.
fn set_attributes(object: &mut Object, asked: &Obdo) {
    set_times(object, asked);
    if asked.valid.contains(MdValid::UID) {
        object.uid = asked.uid;
    }
    if asked.valid.contains(MdValid::GID) {
        object.gid = asked.gid;
    }
    if asked.valid.contains(MdValid::PROJID) {
        object.projid = asked.projid;
    }
}
