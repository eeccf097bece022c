//! Enqueues without an intent, cancels and converts.

use lustrine_fswire::connect::{ConnectFlags, ConnectFlags2};
use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{Ibits, LdlmReply, LdlmRequest, LockFlags, LockType, Policy};
use lustrine_fswire::opcode::Target as Kind;
use lustrine_fswire::rpc::{Lvb, Reply, dlm};
use lustrine_ldlm::server::{EnqueueArgs, Holder};
use lustrine_lnet::time::Time;

use crate::errno;
use crate::running::{Job, Step, Target};

impl Target {
    /// LDLM_ENQUEUE without an intent.
    pub(super) fn enqueue(&mut self, now: Time, job: &mut Job, lock: &LdlmRequest<'_>) -> Step {
        let desc = lock.desc;
        let Some(client_handle) = lock.handle(0) else { return job.refuse(errno::EFAULT) };
        if !lock.count_fits() {
            return job.refuse(errno::EFAULT);
        }
        let fits = match (self.kind, desc.kind) {
            (Kind::Mgs, kind) => kind == LockType::PLAIN,
            (Kind::Mdt, kind) => matches!(kind, LockType::IBITS | LockType::FLOCK),
            (Kind::Ost, kind) => kind == LockType::EXTENT,
        };
        if !fits {
            return job.refuse(errno::EFAULT);
        }
        self.early_cancel(now, job, lock, 1);
        let has_value = self.has_value(&desc.policy);
        if lock.flags.contains(LockFlags::HAS_INTENT) && has_value && self.gives_sizes(job) {
            return self.glimpse(now, job, lock);
        }
        let export = self.exports.get(job.export);
        let finds_deadlocks =
            export.is_some_and(|export| export.granted.flags.contains(ConnectFlags::FLOCK_DEAD));
        let args = EnqueueArgs {
            holder: Holder::Client(job.export),
            client_handle,
            desc,
            flags: lock.flags,
            finds_deadlocks,
        };
        let enqueued = match self.locks.enqueue(now.0, args) {
            Ok(enqueued) => enqueued,
            Err(error) => {
                let buffers =
                    dlm::EnqueueReply { reply: LdlmReply::default(), lvb: Some(Lvb(&[])) };
                return job.answer(-error, &Reply::Enqueue(buffers));
            }
        };
        let reply = LdlmReply {
            flags: enqueued.flags,
            desc: enqueued.desc,
            handle: enqueued.handle,
            ..LdlmReply::default()
        };
        if has_value && self.gives_sizes(job) && !lock.flags.contains(LockFlags::REPLAY) {
            return self.answer_with_lvb(job, 0, reply, self.lvb(desc.resource));
        }
        job.answer(0, &Reply::Enqueue(dlm::EnqueueReply { reply, lvb: Some(Lvb(&[])) }))
    }

    /// Whether a lock has the size of data as its value.
    pub(super) fn has_value(&self, policy: &Policy) -> bool {
        match policy {
            Policy::Extent(_) => true,
            Policy::Ibits(policy) => policy.bits.contains(Ibits::DOM),
            _ => false,
        }
    }

    /// Whether a client gets the sizes of data: those on metadata targets only if it knows them.
    fn gives_sizes(&self, job: &Job) -> bool {
        let export = self.exports.get(job.export);
        self.kind == Kind::Ost
            || export.is_some_and(|export| export.granted.flags2.contains(ConnectFlags2::DOM_LVB))
    }

    /// LDLM_CANCEL.
    pub(super) fn cancel_locks(&mut self, now: Time, job: &Job, lock: &LdlmRequest<'_>) -> Step {
        let found = self.locks.cancel(now.0, job.export, lock.counted(0));
        // That there are none is said by a positive number, which clients ignore.
        job.answer(if found { 0 } else { errno::ESTALE }, &Reply::Bare)
    }

    /// LDLM_CONVERT: some bits of a lock are given back.
    pub(super) fn convert_lock(&mut self, now: Time, job: &Job, lock: &LdlmRequest<'_>) -> Step {
        let handle = lock.handle(0).unwrap_or(Handle::NONE);
        let keep = lock.desc.policy.ibits().unwrap_or_default();
        match self.locks.convert(now.0, (job.export, handle), keep) {
            Ok(converted) => {
                let mut reply = LdlmReply { handle: converted.client_handle, ..Default::default() };
                reply.desc.policy = Policy::Other([keep.bits(), 0, 0, 0]);
                job.answer(0, &Reply::LdlmConvert(dlm::ConvertReply { reply }))
            }
            Err(errno::EINVAL) => {
                let reply = LdlmReply::default();
                let status = lustrine_fswire::ldlm::ELDLM::NO_LOCK_DATA;
                job.answer(status, &Reply::LdlmConvert(dlm::ConvertReply { reply }))
            }
            Err(error) => job.refuse(error),
        }
    }
}
