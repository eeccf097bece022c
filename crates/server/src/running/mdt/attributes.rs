//! Changes of attributes.

use std::sync::Arc;

use lustrine_fswire::layout::Ea;
use lustrine_fswire::ldlm::Ibits;
use lustrine_fswire::mdt::{AttrFlags, MdtBody, Reint, SetattrRecord};
use lustrine_fswire::rpc::{AclBytes, Reply, mds};
use lustrine_lnet::time::Time;

use super::access::{Access, Caller};
use super::acl;
use crate::errno;
use crate::layout::FileLayout;
use crate::offers::EASIZE_MAX;
use crate::running::{Job, Step, Target};
use crate::store::files::{Inode, TYPE_MASK};

impl Target {
    /// MDS_REINT/setattr.
    pub(super) fn setattr(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintSetattr<'_>,
    ) -> Step {
        if let Some(locks) = &request.locks {
            self.early_cancel(now, job, locks, 0);
        }
        match self.try_setattr(now, job, request) {
            Ok(step) => step,
            Err(error) => {
                self.release(now, job);
                job.refuse(error)
            }
        }
    }

    fn try_setattr(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintSetattr<'_>,
    ) -> Result<Step, i32> {
        let Reint::Setattr(record) = request.record else { return Err(errno::EPROTO) };
        let fid = record.fid;
        let inode = self.files().get(fid).ok_or(errno::ENOENT)?;
        let caller = Caller::from(&record);
        if job.replayed().is_none() {
            check(&caller, inode, &record)?;
        }
        let default_layout = match inode.is_dir() && !request.ea.is_unused() {
            true => Some(self.checked_default(request.ea)?),
            false => None,
        };
        let access = AttrFlags::MODE | AttrFlags::UID | AttrFlags::GID;
        // [LOCK-20]
        let bits = match record.valid.intersects(access) {
            true => Ibits::UPDATE | Ibits::PERM,
            false => Ibits::UPDATE,
        };
        if !self.hold_all(now, job, &[(fid, bits)]) {
            return Ok(Step::Wait);
        }
        let step = self.begin(now, job).step;
        self.files_mut().change(step, fid, |inode| {
            apply(inode, &record, &caller);
            if let Some(layout) = default_layout {
                inode.default_layout = layout;
            }
        });
        self.release(now, job);
        let body = self.files().get(fid).map(|inode| inode.body(fid)).unwrap_or_default();
        Ok(setattr_answer(job, body))
    }

    /// A layout that a directory is to give its files; the default one takes it away.
    fn checked_default(&self, ea: Ea<'_>) -> Result<Arc<[u8]>, i32> {
        if ea.0.len() > EASIZE_MAX as usize {
            return Err(errno::EINVAL);
        }
        FileLayout::requested(ea, self.files().defaults())?;
        Ok(Arc::from(ea.0))
    }
}

/// Whether a caller may set attributes.
fn check(caller: &Caller, inode: &Inode, record: &SetattrRecord) -> Result<(), i32> {
    let valid = record.valid;
    if valid.contains(AttrFlags::MODE) && !caller.owns(inode) {
        let clears = valid.contains(AttrFlags::FORCE)
            && valid.intersects(AttrFlags::KILL_SUID | AttrFlags::KILL_SGID);
        if !clears {
            return Err(errno::EPERM);
        }
    }
    if valid.contains(AttrFlags::UID) && record.uid != inode.uid && !caller.may_chown() {
        return Err(errno::EPERM);
    }
    if valid.contains(AttrFlags::GID) && record.gid != inode.gid && !caller.may_chown() {
        let member = caller.uid == inode.uid && caller.in_group(record.gid);
        if !member {
            return Err(errno::EPERM);
        }
    }
    if valid.contains(AttrFlags::SIZE) {
        if inode.is_dir() {
            return Err(errno::EISDIR);
        }
        if record.size > i64::MAX as u64 {
            return Err(errno::EFBIG);
        }
        let open = valid.contains(AttrFlags::FROM_OPEN)
            || valid.contains(AttrFlags::OVERRIDE) && caller.owns(inode);
        if !open {
            caller.check(inode, Access::WRITE)?;
        }
    }
    let times = AttrFlags::ATIME | AttrFlags::MTIME;
    let of_size = valid.contains(AttrFlags::SIZE);
    if valid.intersects(times) && !of_size && !caller.owns(inode) {
        let explicit = valid.intersects(AttrFlags::ATIME_SET | AttrFlags::MTIME_SET);
        match explicit {
            // Who may write a file may set its times: clients check the rest [MDT-22].
            true => caller.check(inode, Access::WRITE)?,
            false => return Err(errno::EPERM),
        }
    }
    Ok(())
}

/// Sets what a record says.
fn apply(inode: &mut Inode, record: &SetattrRecord, caller: &Caller) {
    let valid = record.valid;
    let has = |flag| valid.contains(flag);
    if has(AttrFlags::MODE) {
        let mut mode = record.mode & 0o7777;
        if mode & 0o2000 != 0 && !caller.in_group(inode.gid) && !caller.keeps_setgid() {
            mode &= !0o2000;
        }
        inode.mode = inode.mode & TYPE_MASK | mode;
        acl::follow_mode(inode);
    }
    if has(AttrFlags::UID) {
        inode.uid = record.uid;
    }
    if has(AttrFlags::GID) {
        inode.gid = record.gid;
    }
    let changes_owner = valid.intersects(AttrFlags::UID | AttrFlags::GID);
    if changes_owner && has(AttrFlags::KILL_SUID) && !has(AttrFlags::MODE) && !inode.is_dir() {
        inode.mode &= !0o4000;
        if inode.mode & 0o010 != 0 {
            inode.mode &= !0o2000;
        }
    }
    if has(AttrFlags::SIZE) {
        inode.size = record.size;
    }
    if has(AttrFlags::LSIZE) {
        inode.size = record.size;
    }
    if has(AttrFlags::LBLOCKS) {
        inode.blocks = record.blocks;
    }
    if has(AttrFlags::ATIME) {
        inode.atime = record.atime;
    }
    if has(AttrFlags::MTIME) {
        inode.mtime = record.mtime;
    }
    if has(AttrFlags::CTIME) {
        inode.ctime = record.ctime;
    }
    if has(AttrFlags::ATTR_FLAG) {
        inode.flags = record.attr_flags;
    }
    if has(AttrFlags::PROJID) {
        inode.projid = record.projid;
    }
}

fn setattr_answer(job: &Job, body: MdtBody) -> Step {
    let reply = mds::ReintSetattrReply { body, ea: Ea::NONE, acl: AclBytes(&[]) };
    job.answer(0, &Reply::ReintSetattr(reply))
}
