//! Changes of names.

use std::sync::Arc;

use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::Ea;
use lustrine_fswire::ldlm::Ibits;
use lustrine_fswire::mdt::{MdtBody, NameRecord, Reint};
use lustrine_fswire::rpc::{Reply, mds};
use lustrine_lnet::time::Time;

use super::access::{Access, Caller};
use super::check_name;
use crate::errno;
use crate::running::{Job, Step, Target};
use crate::store::files::{Inode, TYPE_DIRECTORY, TYPE_MASK, TYPE_REGULAR, TYPE_SYMLINK};

/// Most names of a file.
const LINKS_MAX: u32 = 65000;
/// Most bytes of the target of a symbolic link.
const LINK_LEN_MAX: usize = 4095;

/// What others may know of a file that goes, or that changes in every way.
const ALL_BITS: Ibits = Ibits::FULL;

impl Target {
    /// MDS_REINT/create.
    pub(super) fn create(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintCreate<'_>,
    ) -> Step {
        if let Some(locks) = &request.locks {
            self.early_cancel(now, job, locks, 0);
        }
        match self.try_create(now, job, request) {
            Ok(step) => step,
            Err(error) => self.refused(now, job, error),
        }
    }

    /// A change that cannot be made.
    fn refused(&mut self, now: Time, job: &mut Job, errno: i32) -> Step {
        self.release(now, job);
        job.refuse(errno)
    }

    fn try_create(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintCreate<'_>,
    ) -> Result<Step, i32> {
        let Reint::Create(record) = request.record else { return Err(errno::EPROTO) };
        let name = request.name.as_bytes();
        check_name(name)?;
        let (kind, dir) = (record.mode & TYPE_MASK, record.parent);
        if !self.hold_all(now, job, &[(dir, Ibits::UPDATE)]) {
            return Ok(Step::Wait);
        }
        self.check_dir(&Caller::from(&record), dir)?;
        if self.files().lookup(dir, name).is_some() || self.files().get(record.fid).is_some() {
            return Err(errno::EEXIST);
        }
        if !record.fid.is_sane() {
            return Err(errno::EPROTO);
        }
        let mut inode = self.new_inode(&record, record.mode);
        match kind {
            TYPE_DIRECTORY => {
                inode.nlink = 2;
                inode.size = 4096;
                inode.blocks = 8;
            }
            TYPE_SYMLINK => {
                let target = request.ea.0.strip_suffix(b"\0").unwrap_or(request.ea.0);
                if target.is_empty() || target.len() > LINK_LEN_MAX || target.contains(&0) {
                    return Err(errno::EINVAL);
                }
                inode.mode = TYPE_SYMLINK | 0o777;
                inode.size = target.len() as u64;
                inode.link = Arc::from(target);
            }
            TYPE_REGULAR | 0o010_000 | 0o020_000 | 0o060_000 | 0o140_000 => {}
            _ => return Err(errno::EOPNOTSUPP),
        }
        let body = inode.body(record.fid);
        let step = self.begin(now, job).step;
        self.files_mut().put(step, record.fid, inode);
        self.add_name(step, dir, name, record.fid, record.time);
        if kind == TYPE_DIRECTORY {
            self.files_mut().change(step, dir, |dir| dir.nlink += 1);
        }
        self.release(now, job);
        // Symbolic links have a form of their own [MDT-7].
        let ea = (kind != TYPE_SYMLINK).then_some(Ea::NONE);
        let reply = mds::ReintCreateReply { body, ea };
        Ok(job.answer(0, &Reply::ReintCreate(reply)))
    }

    fn body_of(&self, fid: Fid) -> MdtBody {
        self.files().get(fid).map(|inode| inode.body(fid)).unwrap_or_default()
    }

    /// Whether names of a directory may be changed.
    fn check_dir(&self, caller: &Caller, dir: Fid) -> Result<(), i32> {
        let inode = self.files().get(dir).ok_or(errno::ENOENT)?;
        if !inode.is_dir() {
            return Err(errno::ENOTDIR);
        }
        if inode.nlink == 0 {
            return Err(errno::ENOENT);
        }
        caller.check(inode, Access::CHANGE)
    }

    /// MDS_REINT/link.
    pub(super) fn link(&mut self, now: Time, job: &mut Job, request: &mds::ReintLink<'_>) -> Step {
        if let Some(locks) = &request.locks {
            self.early_cancel(now, job, locks, 0);
        }
        match self.try_link(now, job, request) {
            Ok(step) => step,
            Err(error) => self.refused(now, job, error),
        }
    }

    fn try_link(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintLink<'_>,
    ) -> Result<Step, i32> {
        let Reint::Name(record) = request.record else { return Err(errno::EPROTO) };
        let name = request.name.as_bytes();
        check_name(name)?;
        let (fid, dir) = (record.fid1, record.fid2);
        if fid == dir {
            return Err(errno::EPERM);
        }
        if !self.hold_all(now, job, &[(dir, Ibits::UPDATE), (fid, Ibits::UPDATE)]) {
            return Ok(Step::Wait);
        }
        self.check_dir(&Caller::from(&record), dir)?;
        let inode = self.files().get(fid).ok_or(errno::ENOENT)?;
        match inode.nlink {
            _ if inode.is_dir() => return Err(errno::EPERM),
            0 => return Err(errno::ENOENT),
            LINKS_MAX.. => return Err(errno::EMLINK),
            _ => {}
        }
        if self.files().lookup(dir, name).is_some() {
            return Err(errno::EEXIST);
        }
        let step = self.begin(now, job).step;
        self.files_mut().change(step, fid, |inode| {
            inode.nlink += 1;
            inode.ctime = inode.ctime.max(record.time);
        });
        self.add_name(step, dir, name, fid, record.time);
        self.release(now, job);
        let body = self.body_of(fid);
        Ok(job.answer(0, &Reply::ReintLink(mds::Body { body })))
    }

    /// MDS_REINT/unlink.
    pub(super) fn unlink(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintUnlink<'_>,
    ) -> Step {
        if let Some(locks) = &request.locks {
            self.early_cancel(now, job, locks, 0);
        }
        match self.try_unlink(now, job, request) {
            Ok(step) => step,
            Err(error) => self.refused(now, job, error),
        }
    }

    fn try_unlink(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintUnlink<'_>,
    ) -> Result<Step, i32> {
        let Reint::Name(record) = request.record else { return Err(errno::EPROTO) };
        let (dir, name) = (record.fid1, request.name.as_bytes());
        check_name(name)?;
        let parent = self.files().get(dir).ok_or(errno::ENOENT)?;
        if !parent.is_dir() {
            return Err(errno::ENOTDIR);
        }
        let fid = self.files().lookup(dir, name).ok_or(errno::ENOENT)?;
        if !record.fid2.is_zero() && record.fid2 != fid {
            return Err(errno::ENOENT);
        }
        let victim = self.files().get(fid).ok_or(errno::ENOENT)?;
        Caller::from(&record).check_removal(parent, victim)?;
        self.check_victim((fid, victim), record.mode & TYPE_MASK == TYPE_DIRECTORY)?;
        let bits = bits_of_victim(victim);
        if !self.hold_all(now, job, &[(dir, Ibits::UPDATE), (fid, bits)]) {
            return Ok(Step::Wait);
        }
        let step = self.begin(now, job).step;
        self.files_mut().unlink(step, dir, name);
        self.touch_dir(step, dir, record.time);
        let body = self.drop_link(step, fid, record.time, dir);
        self.release(now, job);
        let reply = mds::CloseReply { body, ea: Ea::NONE, cookies: &[] };
        Ok(job.answer(0, &Reply::ReintUnlink(reply)))
    }

    /// Whether a name can be taken away from an object of its type.
    fn check_victim(&self, (fid, victim): (Fid, &Inode), dir: bool) -> Result<(), i32> {
        match (victim.is_dir(), dir) {
            (true, false) => Err(errno::EISDIR),
            (false, true) => Err(errno::ENOTDIR),
            (true, true) if fid == Fid::ROOT => Err(errno::EBUSY),
            (true, true) if !self.files().is_empty_dir(fid) => Err(errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    fn touch_dir(&mut self, step: u64, dir: Fid, time: i64) {
        self.files_mut().change(step, dir, |dir| {
            dir.mtime = dir.mtime.max(time);
            dir.ctime = dir.ctime.max(time);
        });
    }

    /// A file loses a name; with the last one it goes, or waits for its last close. Returns its
    /// attributes.
    fn drop_link(&mut self, step: u64, fid: Fid, time: i64, dir: Fid) -> MdtBody {
        let changed = self.files_mut().change(step, fid, |inode| {
            inode.nlink = if inode.is_dir() { 0 } else { inode.nlink.saturating_sub(1) };
            inode.ctime = inode.ctime.max(time);
            (inode.body(fid), inode.is_dir())
        });
        let (body, was_dir) = changed.unwrap_or_default();
        if was_dir {
            self.files_mut().change(step, dir, |dir| dir.nlink = dir.nlink.saturating_sub(1));
        }
        if body.nlink == 0 {
            match self.mdt.is_open(fid) || self.recovery.is_some() {
                true => self.files_mut().orphan(step, fid),
                false => self.files_mut().bury(step, fid),
            }
        }
        body
    }

    /// MDS_REINT/rename.
    pub(super) fn rename(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintRename<'_>,
    ) -> Step {
        if let Some(locks) = &request.locks {
            self.early_cancel(now, job, locks, 0);
        }
        match self.try_rename(now, job, request) {
            Ok(step) => step,
            Err(error) => self.refused(now, job, error),
        }
    }

    fn try_rename(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintRename<'_>,
    ) -> Result<Step, i32> {
        let Reint::Name(record) = request.record else { return Err(errno::EPROTO) };
        let (old, new) = (request.name.as_bytes(), request.target.as_bytes());
        check_name(old)?;
        check_name(new)?;
        let (from, to) = (record.fid1, record.fid2);
        let (fid, victim) = self.check_rename(&record, (from, old), (to, new))?;
        let mut bits =
            vec![(from, Ibits::UPDATE), (to, Ibits::UPDATE), (fid, Ibits::LOOKUP | Ibits::UPDATE)];
        if let Some(victim) = victim.filter(|victim| *victim != fid)
            && let Some(inode) = self.files().get(victim)
        {
            bits.push((victim, bits_of_victim(inode)));
        }
        if !self.hold_all(now, job, &bits) {
            return Ok(Step::Wait);
        }
        let step = self.begin(now, job).step;
        let mut body = MdtBody::default();
        if victim != Some(fid) {
            self.files_mut().unlink(step, from, old);
            if let Some(victim) = victim {
                body = self.drop_link(step, victim, record.time, to);
            }
            self.files_mut().link(step, to, new, fid);
            let is_dir = self.files().get(fid).is_some_and(|inode| inode.is_dir());
            self.files_mut().change(step, fid, |inode| {
                inode.ctime = inode.ctime.max(record.time);
                inode.parent = if is_dir { to } else { inode.parent };
            });
            if is_dir && from != to {
                self.files_mut().change(step, from, |dir| dir.nlink = dir.nlink.saturating_sub(1));
                self.files_mut().change(step, to, |dir| dir.nlink += 1);
            }
            self.touch_dir(step, from, record.time);
            self.touch_dir(step, to, record.time);
        }
        self.release(now, job);
        let reply = mds::CloseReply { body, ea: Ea::NONE, cookies: &[] };
        Ok(job.answer(0, &Reply::ReintRename(reply)))
    }

    /// Whether a name may be changed. What has it, and what has the new one.
    fn check_rename(
        &self,
        record: &NameRecord,
        (from, old): (Fid, &[u8]),
        (to, new): (Fid, &[u8]),
    ) -> Result<(Fid, Option<Fid>), i32> {
        let caller = Caller::from(record);
        self.check_dir(&caller, to)?;
        let dir = self.files().get(from).ok_or(errno::ENOENT)?;
        if !dir.is_dir() {
            return Err(errno::ENOTDIR);
        }
        let fid = self.files().lookup(from, old).ok_or(errno::ENOENT)?;
        let inode = self.files().get(fid).ok_or(errno::ENOENT)?;
        caller.check_removal(dir, inode)?;
        // A directory does not go into itself.
        let mut at = to;
        while inode.is_dir() && at != Fid::ROOT {
            if at == fid {
                return Err(errno::EINVAL);
            }
            at = self.files().get(at).ok_or(errno::ENOENT)?.parent;
        }
        if fid == Fid::ROOT || fid == from {
            return Err(errno::EINVAL);
        }
        let victim = self.files().lookup(to, new);
        if let Some(victim) = victim.filter(|victim| *victim != fid) {
            let there = self.files().get(victim).ok_or(errno::ENOENT)?;
            caller.check_removal(self.files().get(to).ok_or(errno::ENOENT)?, there)?;
            if from == victim {
                return Err(errno::ENOTEMPTY);
            }
            self.check_victim((victim, there), inode.is_dir())?;
        }
        Ok((fid, victim))
    }
}

/// What others may not know any more of a file that loses a name.
fn bits_of_victim(victim: &Inode) -> Ibits {
    match victim.is_dir() || victim.nlink <= 1 {
        true => ALL_BITS,
        false => Ibits::LOOKUP | Ibits::UPDATE,
    }
}
