//! The values of locks on data: sizes and times, and what holders of locks know of them.

use lustrine_fswire::codec::Wire;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{
    ELDLM, LdlmReply, LdlmRequest, LockFlags, LockMode, OstLvb, Policy, Resource,
};
use lustrine_fswire::rpc::{Lvb, Reply, dlm};
use lustrine_ldlm::server::{EnqueueArgs, Holder};
use lustrine_lnet::time::Time;

use crate::errno;
use crate::running::{Job, Step, Target};
use crate::store::objects::Object;

impl Target {
    /// The value of a lock on the data of an object.
    pub(crate) fn lvb(&self, resource: Resource) -> OstLvb {
        let oi = object_of(resource);
        let Object { size, blocks, atime, mtime, ctime, .. } =
            self.objects().get(oi).cloned().unwrap_or_default();
        OstLvb { size, mtime, atime, ctime, blocks, ..OstLvb::default() }
    }

    /// LDLM_ENQUEUE for the size of an object: without a lock if somebody else may know a larger
    /// one [LOCK-9].
    pub(crate) fn glimpse(&mut self, now: Time, job: &mut Job, lock: &LdlmRequest<'_>) -> Step {
        let resource = lock.desc.resource;
        if job.glimpsed.is_none() {
            let args = EnqueueArgs {
                holder: Holder::Client(job.export),
                client_handle: lock.handle(0).unwrap_or(Handle::NONE),
                desc: lock.desc,
                flags: lock.flags | LockFlags::BLOCK_NOWAIT,
                finds_deadlocks: false,
            };
            match self.locks.enqueue(now.0, args) {
                Ok(enqueued) => {
                    let reply = LdlmReply {
                        flags: enqueued.flags | LockFlags::HAS_INTENT,
                        desc: enqueued.desc,
                        handle: enqueued.handle,
                        ..LdlmReply::default()
                    };
                    return self.answer_with_lvb(job, 0, reply, self.lvb(resource));
                }
                Err(errno::EAGAIN) => {}
                Err(error) => return job.refuse(error),
            }
            let asked = self.holders_to_glimpse(resource);
            if !asked.is_empty() && !lock.flags.contains(LockFlags::BLOCK_NOWAIT) {
                return Step::Glimpse(asked);
            }
        }
        let mut lvb = self.lvb(resource);
        for known in job.glimpsed.take().into_iter().flatten() {
            lvb.size = lvb.size.max(known.size);
            lvb.blocks = lvb.blocks.max(known.blocks);
            lvb.mtime = lvb.mtime.max(known.mtime);
            lvb.atime = lvb.atime.max(known.atime);
            lvb.ctime = lvb.ctime.max(known.ctime);
        }
        self.answer_with_lvb(job, ELDLM::LOCK_ABORTED, LdlmReply::default(), lvb)
    }

    /// The locks under which data may be behind the end of the object: of each client the one that
    /// goes furthest.
    fn holders_to_glimpse(&self, resource: Resource) -> Vec<Handle> {
        let size = self.lvb(resource).size;
        let mut furthest: std::collections::BTreeMap<Handle, (u64, Handle)> =
            std::collections::BTreeMap::new();
        for (handle, lock) in self.locks.granted_on(resource) {
            let Some(client) = lock.client() else { continue };
            let writes = matches!(lock.desc.granted_mode, LockMode::PW | LockMode::GROUP);
            let end = match lock.desc.policy {
                Policy::Extent(extent) => extent.end,
                _ => u64::MAX,
            };
            if writes && end >= size {
                let best = furthest.entry(client).or_insert((end, handle));
                *best = (*best).max((end, handle));
            }
        }
        furthest.into_values().map(|(_, handle)| handle).collect()
    }

    /// The answer to an enqueue with the value of the lock.
    pub(crate) fn answer_with_lvb(
        &self,
        job: &Job,
        status: i32,
        reply: LdlmReply,
        lvb: OstLvb,
    ) -> Step {
        let bytes = lvb.to_bytes();
        let long = self.exports.get(job.export).is_none_or(|export| {
            export.granted.flags.contains(lustrine_fswire::connect::ConnectFlags::LVB_TYPE)
        });
        let len = if long { OstLvb::SIZE } else { OstLvb::SIZE_V1 };
        let buffers = dlm::EnqueueReply { reply, lvb: Some(Lvb(&bytes[..len])) };
        job.answer(status, &Reply::Enqueue(buffers))
    }
}

/// The object of a resource.
fn object_of(resource: Resource) -> Fid {
    match resource.0 {
        // An old object has its number alone.
        [id, 0, 0, 0] => Fid { seq: id, oid: 0, ver: 0 },
        _ => resource.fid(),
    }
}
