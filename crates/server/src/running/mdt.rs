//! A metadata target: what its requests do.

mod access;
mod acl;
mod attributes;
mod changes;
mod layouts;
mod open;
mod reading;
mod xattr;

use std::collections::BTreeMap;

use lustrine_fswire::fid::{Fid, Handle, RangeKind, SeqOp, SeqRange};
use lustrine_fswire::ldlm::LdlmReply;
use lustrine_fswire::mdt::OpenFlags;
use lustrine_fswire::rpc::{Reply, Request, obd};
use lustrine_lnet::time::Time;

use crate::disk::Store;
use crate::errno;
use crate::running::{Job, Step, Target};
use crate::store::MdtStore;

pub(crate) use open::with_handle;

/// A file that a client has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) client: Handle,
    pub(crate) fid: Fid,
    pub(crate) flags: OpenFlags,
    /// The handle that the client had before a restart, by its replay of the open [MDT-21].
    pub(crate) before: Handle,
    /// The request that has opened it.
    pub(crate) xid: u64,
}

/// What a metadata target has in memory only.
#[derive(Debug)]
pub(crate) struct Mdt {
    opens: BTreeMap<Handle, Open>,
    /// How often files are open.
    files: BTreeMap<Fid, usize>,
    handles: u64,
}

impl Mdt {
    pub(crate) fn new(seed: u64) -> Mdt {
        Mdt { opens: BTreeMap::new(), files: BTreeMap::new(), handles: seed }
    }

    fn next_handle(&mut self) -> Handle {
        // A step of SplitMix64, which visits all numbers.
        self.handles = self.handles.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.handles;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Handle((mixed ^ (mixed >> 31)).max(1))
    }

    /// A file is open. Its handle.
    pub(crate) fn opened(&mut self, open: Open) -> Handle {
        let handle = self.next_handle();
        self.opens.insert(handle, open);
        *self.files.entry(open.fid).or_default() += 1;
        handle
    }

    /// A handle is closed. What it was.
    pub(crate) fn closed(&mut self, handle: Handle) -> Option<Open> {
        let open = self.opens.remove(&handle)?;
        if let Some(times) = self.files.get_mut(&open.fid) {
            *times -= 1;
            if *times == 0 {
                self.files.remove(&open.fid);
            }
        }
        Some(open)
    }

    /// The handle that a client has by a request: the reply to it may have been lost.
    pub(crate) fn by_request(&self, client: Handle, xid: u64) -> Option<Handle> {
        let same = |open: &Open| open.client == client && open.xid == xid;
        self.opens.iter().find(|(_, open)| same(open)).map(|(handle, _)| *handle)
    }

    /// The handle of a file that a client names by the handle that it had before a restart: the
    /// reply to its replay of the open may have been lost.
    pub(crate) fn by_old_handle(&self, client: Handle, before: Handle) -> Option<Handle> {
        let same = |open: &Open| open.client == client && open.before == before;
        if before == Handle::NONE {
            return None;
        }
        self.opens.iter().find(|(_, open)| same(open)).map(|(handle, _)| *handle)
    }

    pub(crate) fn is_open(&self, fid: Fid) -> bool {
        self.files.contains_key(&fid)
    }

    /// Number of files that clients have open; each as often as it is.
    pub(crate) fn count(&self) -> usize {
        self.opens.len()
    }
}

impl Target {
    pub(crate) fn files(&self) -> &MdtStore {
        match &self.disk.store {
            Store::Mdt(store) => store,
            _ => unreachable!("it is no metadata target"),
        }
    }

    pub(crate) fn files_mut(&mut self) -> &mut MdtStore {
        match &mut self.disk.store {
            Store::Mdt(store) => store,
            _ => unreachable!("it is no metadata target"),
        }
    }

    /// Does what a request to a metadata target asks for.
    pub(crate) fn do_metadata(&mut self, now: Time, job: &mut Job, request: &Request<'_>) -> Step {
        match request {
            Request::MdsGetRoot(request) => self.get_root(job, request),
            Request::MdsGetattr(request) => self.getattr(job, request),
            Request::MdsGetattrName(request) => self.getattr_name(job, request),
            Request::MdsReadpage(request) => self.readpage(job, request),
            Request::MdsStatfs(request) => self.mdt_statfs(job, request),
            Request::MdsSync(request) => self.mdt_sync(job, request.body.fid1),
            Request::MdsGetxattr(request) => self.getxattr(job, request),
            Request::MdsClose(request) => self.close(now, job, request),
            Request::SeqQuery(request) => self.seq_query(job, request),
            Request::FldQuery(request) => self.fld_query(job, request),
            Request::ReintCreate(request) => self.create(now, job, request),
            Request::ReintLink(request) => self.link(now, job, request),
            Request::ReintUnlink(request) => self.unlink(now, job, request),
            Request::ReintRename(request) => self.rename(now, job, request),
            Request::ReintSetattr(request) => self.setattr(now, job, request),
            Request::ReintSetxattr(request) => self.setxattr(now, job, request),
            Request::EnqueueOpen(request)
            | Request::EnqueueOpenCreat(request)
            | Request::EnqueueCreat(request) => self.open(now, job, request),
            Request::EnqueueGetattr(request) | Request::EnqueueLookup(request) => {
                self.getattr_intent(now, job, request)
            }
            Request::MdsBatch(request) => self.batch(now, job, request),
            Request::EnqueueGetxattr(request) => self.getxattr_intent(now, job, request),
            Request::EnqueueLayout(request) => self.layout_intent(now, job, request),
            _ => job.refuse(errno::EOPNOTSUPP),
        }
    }

    /// A sequence, which is never given again.
    fn seq_query(&mut self, job: &Job, request: &obd::SeqQuery) -> Step {
        if request.op != SeqOp::ALLOC_META {
            return job.refuse(errno::EOPNOTSUPP);
        }
        let index = self.index;
        let Some(start) = self.files_mut().take_sequence() else {
            return job.refuse(errno::ENOSPC);
        };
        let range = SeqRange { start, end: start + 1, index, kind: RangeKind::MDT };
        job.answer(0, &Reply::SeqQuery(obd::Range { range }))
    }

    /// All files are on this target.
    fn fld_query(&mut self, job: &Job, request: &obd::FldQuery) -> Step {
        let start = request.range.start;
        let range = SeqRange { start, end: start + 1, index: self.index, kind: RangeKind::MDT };
        job.answer(0, &Reply::FldQuery(obd::Range { range }))
    }

    /// Recovery is over: files without a name that nobody has opened again are gone.
    pub(crate) fn remove_orphans(&mut self, now: Time) {
        let orphans: Vec<Fid> = self.files().orphans().collect();
        for fid in orphans {
            if !self.mdt.is_open(fid) {
                let step = self.disk.journal.begin_local(now);
                self.files_mut().bury(step, fid);
            }
        }
    }

    /// A client is gone: what it had open is closed.
    pub(crate) fn close_all(&mut self, now: Time, client: Handle) {
        let of_client = |(_, open): &(&Handle, &Open)| open.client == client;
        let handles: Vec<Handle> =
            self.mdt.opens.iter().filter(of_client).map(|(handle, _)| *handle).collect();
        for handle in handles {
            self.close_handle(now, handle, None);
        }
    }

    /// Closes a handle: a file without a name goes with the last one.
    fn close_handle(&mut self, now: Time, handle: Handle, step: Option<u64>) {
        let Some(open) = self.mdt.closed(handle) else { return };
        let nameless = self.files().get(open.fid).is_some_and(|inode| inode.nlink == 0);
        // Before recovery is over, somebody else may open it again.
        if nameless && !self.mdt.is_open(open.fid) && self.recovery.is_none() {
            let step = step.unwrap_or_else(|| self.disk.journal.begin_local(now));
            self.files_mut().bury(step, open.fid);
        }
    }
}

/// An answer to an intent without a lock: what was done, and a status, positive.
fn without_lock(disposition: lustrine_fswire::ldlm::Disposition, errno: i32) -> LdlmReply {
    LdlmReply {
        policy_res1: disposition.bits(),
        policy_res2: -i64::from(errno),
        ..LdlmReply::default()
    }
}

/// A name that a file can have.
fn check_name(name: &[u8]) -> Result<(), i32> {
    let bad = name.is_empty() || name == b"." || name == b"..";
    if bad || name.len() > lustrine_fswire::dir::NAME_MAX || name.iter().any(|b| b"\0/".contains(b))
    {
        return Err(errno::EPROTO);
    }
    Ok(())
}
