//! Layouts under locks: components get their objects when they are first written to.

use std::sync::Arc;

use lustrine_fswire::layout::Ea;
use lustrine_fswire::ldlm::{Disposition, Ibits, LayoutOp, LdlmReply, LockFlags, LockMode, Policy};
use lustrine_fswire::rpc::{Lvb, Reply, dlm};
use lustrine_lnet::time::Time;

use crate::errno;
use crate::layout::FileLayout;
use crate::running::{Job, Step, Target, ibits};

impl Target {
    /// LDLM_ENQUEUE with the intent layout: the layout and a lock on it, after the components of a
    /// range that is to be written have their objects [LOCK-12].
    pub(super) fn layout_intent(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &dlm::LayoutIntentRequest<'_>,
    ) -> Step {
        self.early_cancel(now, job, &request.lock, 1);
        let fid = request.lock.desc.resource.fid();
        let Some(inode) = self.files().get(fid) else {
            self.release(now, job);
            return job.refuse(errno::ENOENT);
        };
        if !inode.is_file() {
            self.release(now, job);
            return job.refuse(errno::EINVAL);
        }
        let asked = request.layout;
        let writes = match asked.op {
            LayoutOp::ACCESS => false,
            LayoutOp::WRITE | LayoutOp::TRUNC => true,
            _ => {
                self.release(now, job);
                return job.refuse(errno::EOPNOTSUPP);
            }
        };
        let layout = inode.layout.clone();
        let lacks = match &layout {
            None => writes,
            Some(layout) => writes && layout.lacks(asked.start, asked.end),
        };
        let (mode, bits) = match lacks {
            true => (LockMode::EX, Ibits::LAYOUT | Ibits::UPDATE),
            false => (LockMode::CR, Ibits::LAYOUT),
        };
        if !self.hold(now, job, vec![ibits(fid, mode, bits)]) {
            return Step::Wait;
        }
        if lacks {
            let replayed = job.replayed().is_some();
            let given = FileLayout::given(request.ea).filter(|_| replayed);
            let changed = given.unwrap_or_else(|| {
                let defaults = self.files().defaults().clone();
                let mut changed = match layout {
                    Some(layout) => FileLayout::clone(&layout),
                    None => FileLayout::plain(&defaults),
                };
                let range = (asked.start, asked.end.max(asked.start.saturating_add(1)));
                self.files_mut().make_objects(&mut changed, range);
                changed
            });
            let step = self.begin(now, job).step;
            let changed = Arc::new(changed);
            self.files_mut().change(step, fid, |inode| inode.layout = Some(changed));
        }
        // The lock becomes the client's, in a mode that others can have too.
        let mut reply = LdlmReply::default();
        if let Some(handle) = job.held.pop()
            && let Some(client_handle) = request.lock.handle(0)
        {
            let client = (job.export, client_handle);
            let given = self.locks.give(now.0, handle, client, (LockMode::CR, bits));
            if let Some(given) = given {
                let same = matches!(request.lock.desc.policy, Policy::Ibits(asked)
                    if asked.bits == bits && request.lock.desc.req_mode == LockMode::CR);
                reply.flags = given.flags | LockFlags::HAS_INTENT;
                reply.flags.set(LockFlags::LOCK_CHANGED, !same);
                reply.desc = given.desc;
                reply.handle = given.handle;
            }
        }
        self.release(now, job);
        reply.policy_res1 = Disposition::EXECD.bits();
        let layout = self.files().get(fid).and_then(|inode| inode.layout.clone());
        let ea = layout.map(|layout| layout.encode(fid)).unwrap_or_default();
        debug_assert!(Ea(&ea).layout().is_ok());
        let buffers = dlm::EnqueueReply { reply, lvb: Some(Lvb(&ea)) };
        job.answer(0, &Reply::EnqueueLayout(buffers))
    }
}
