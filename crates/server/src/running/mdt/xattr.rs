//! Extended attributes.

use std::sync::Arc;

use lustrine_fswire::codec::Array;
use lustrine_fswire::layout::Ea;
use lustrine_fswire::ldlm::{Disposition, Ibits, LockMode};
use lustrine_fswire::mdt::{MdValid, MdtBody, Reint, XattrFlags};
use lustrine_fswire::rpc::{AclBytes, Names, Reply, dlm, mds};
use lustrine_lnet::time::Time;

use super::access::{Access, Caller};
use super::acl::{self, ACL};
use crate::errno;
use crate::offers::EASIZE_MAX;
use crate::running::{Job, Step, Target, ibits};
use crate::store::files::Inode;

/// Most bytes of the name of an attribute.
const NAME_MAX: usize = 255;
/// Most attributes of a file.
const XATTRS_MAX: usize = 256;

/// The layout of a file as an attribute.
const LOV: [&[u8]; 2] = [b"trusted.lov", b"lustre.lov"];

impl Target {
    /// MDS_GETXATTR.
    pub(super) fn getxattr(&mut self, job: &Job, request: &mds::Getxattr<'_>) -> Step {
        let asked = &request.body;
        let Some(inode) = self.files().get(asked.fid1) else { return job.refuse(errno::ENOENT) };
        let value = match request.name.map(|name| name.as_bytes()) {
            _ if asked.valid.contains(MdValid::XATTRLS) => Ok(names(inode)),
            Some(name) if LOV.contains(&name) => {
                let layout = inode.layout.as_ref();
                Ok(layout.map(|layout| layout.encode(asked.fid1)).unwrap_or_default())
            }
            Some(name) => inode.xattrs.get(name).cloned().ok_or(errno::ENODATA),
            None => Err(errno::EINVAL),
        };
        let value = match value {
            Ok(value) => value,
            Err(error) => return job.refuse(error),
        };
        let room = asked.eadatasize as usize;
        if room != 0 && value.len() > room {
            return job.refuse(errno::ERANGE);
        }
        let eadatasize = value.len() as u32;
        let valid = MdValid::ID | asked.valid & (MdValid::XATTR | MdValid::XATTRLS);
        let body = MdtBody { fid1: asked.fid1, valid, eadatasize, ..MdtBody::default() };
        let value = if room == 0 { &[][..] } else { &value };
        job.answer(0, &Reply::MdsGetxattr(mds::GetxattrReply { body, value }))
    }

    /// LDLM_ENQUEUE with the intent getxattr: all attributes, and a lock on them.
    pub(super) fn getxattr_intent(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &dlm::GetxattrIntent<'_>,
    ) -> Step {
        self.early_cancel(now, job, &request.lock, 1);
        let fid = request.body.fid1;
        if self.files().get(fid).is_none() {
            self.release(now, job);
            return job.refuse(errno::ENOENT);
        }
        if !self.hold(now, job, vec![ibits(fid, LockMode::PR, Ibits::XATTR)]) {
            return Step::Wait;
        }
        let reply = self.give_held(now, job, request.lock.handle(0), Disposition::empty());
        let Some(inode) = self.files().get(fid) else { return job.refuse(errno::ENOENT) };
        let names = names(inode);
        let values: Vec<u8> = inode.xattrs.values().flatten().copied().collect();
        let lens: Vec<u32> = inode.xattrs.values().map(|value| value.len() as u32).collect();
        let body = MdtBody {
            fid1: fid,
            valid: MdValid::ID | MdValid::XATTR,
            eadatasize: names.len() as u32,
            aclsize: values.len() as u32,
            max_mdsize: lens.len() as u32,
            ..MdtBody::default()
        };
        let buffers = dlm::GetxattrIntentReply {
            reply,
            body,
            ea: Ea::NONE,
            acl: AclBytes(&[]),
            names: Names(&names),
            values: &values,
            lens: Array::from(lens.as_slice()),
        };
        job.answer(0, &Reply::EnqueueGetxattr(buffers))
    }

    /// MDS_REINT/setxattr.
    pub(super) fn setxattr(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintSetxattr<'_>,
    ) -> Step {
        if let Some(locks) = &request.locks {
            self.early_cancel(now, job, locks, 0);
        }
        match self.try_setxattr(now, job, request) {
            Ok(step) => step,
            Err(error) => {
                self.release(now, job);
                job.refuse(error)
            }
        }
    }

    fn try_setxattr(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &mds::ReintSetxattr<'_>,
    ) -> Result<Step, i32> {
        let Reint::Setxattr(record) = request.record else { return Err(errno::EPROTO) };
        let (fid, name) = (record.fid, request.name.as_bytes());
        let inode = self.files().get(fid).ok_or(errno::ENOENT)?;
        let caller = Caller::from(&record);
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(errno::ERANGE);
        }
        if name.starts_with(b"trusted.") && !caller.administers() {
            return Err(errno::EPERM);
        }
        if is_own(name) {
            // Accepted, and ignored [MDT-23].
            return Ok(answer(job, MdtBody::default()));
        }
        if name.starts_with(b"system.") && !caller.owns(inode) {
            return Err(errno::EPERM);
        }
        if name.starts_with(b"security.") {
            caller.check(inode, Access::WRITE)?;
        }
        let there = inode.xattrs.contains_key(name);
        let removes = record.valid.contains(MdValid::XATTRRM);
        if removes && !there {
            return Err(errno::ENODATA);
        }
        if !removes && record.flags.contains(XattrFlags::CREATE) && there {
            return Err(errno::EEXIST);
        }
        if !removes && record.flags.contains(XattrFlags::REPLACE) && !there {
            return Err(errno::ENODATA);
        }
        let full = !there && inode.xattrs.len() >= XATTRS_MAX;
        if !removes && (full || request.value.len() > EASIZE_MAX as usize) {
            return Err(errno::ENOSPC);
        }
        let list = match name == ACL && !removes {
            true => Some(acl::parse(request.value)?),
            false => None,
        };
        // [LOCK-20]
        let bits = Ibits::UPDATE | if name == ACL { Ibits::PERM } else { Ibits::XATTR };
        if !self.hold_all(now, job, &[(fid, bits)]) {
            return Ok(Step::Wait);
        }
        let step = self.begin(now, job).step;
        let value = request.value.to_vec();
        self.files_mut().change(step, fid, |inode| {
            let xattrs = &mut inode.xattrs;
            match list {
                Some(entries) => acl::set(inode, &entries),
                None if removes => {
                    Arc::make_mut(xattrs).remove(name);
                }
                None => {
                    Arc::make_mut(xattrs).insert(name.to_vec(), value);
                }
            }
            inode.ctime = inode.ctime.max(record.time);
        });
        self.release(now, job);
        let body = self.files().get(fid).map(|inode| inode.body(fid)).unwrap_or_default();
        Ok(answer(job, body))
    }
}

fn answer(job: &Job, body: MdtBody) -> Step {
    job.answer(0, &Reply::ReintSetxattr(mds::Body { body }))
}

/// The names of all attributes, each with a zero byte.
fn names(inode: &Inode) -> Vec<u8> {
    let mut names = Vec::new();
    for name in inode.xattrs.keys() {
        names.extend(name);
        names.push(0);
    }
    names
}

/// Attributes that targets keep for themselves.
fn is_own(name: &[u8]) -> bool {
    let own: [&[u8]; 10] = [
        b"trusted.lov",
        b"trusted.lma",
        b"trusted.lmv",
        b"trusted.link",
        b"trusted.fid",
        b"trusted.version",
        b"trusted.som",
        b"trusted.hsm",
        b"trusted.dmv",
        b"lustre.lov",
    ];
    own.contains(&name)
}
