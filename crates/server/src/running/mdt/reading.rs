//! Requests that read metadata.

use lustrine_fswire::batch::Block;
use lustrine_fswire::codec::Wire;
use lustrine_fswire::dir::{HASH_END, PAGE_SIZE, PageBuilder, PageFlags};
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::layout::Ea;
use lustrine_fswire::ldlm::{Disposition, ELDLM, Ibits, IntentOp, LdlmReply, LockMode, Policy};
use lustrine_fswire::mdt::{MdValid, MdtBody};
use lustrine_fswire::message::Header;
use lustrine_fswire::opcode::portal;
use lustrine_fswire::ost::{Statfs, StatfsState};
use lustrine_fswire::rpc::{AclBytes, BlockBuilder, BufferList, Reply, dlm, mds, ost};
use lustrine_fswire::text::FixedText;
use lustrine_lnet::time::Time;

use super::access::{Access, Caller};
use super::acl::ACL;
use super::without_lock;
use crate::errno;
use crate::offers::EASIZE_MAX;
use crate::running::{Job, Step, Target, ibits};
use crate::store::files::{Inode, TYPE_DIRECTORY, TYPE_MASK, TYPE_SYMLINK};
use crate::store::names::HASH_FIRST;

/// What is said of a file in a reply, with the buffers beside its attributes.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub(super) body: MdtBody,
    pub(super) ea: Vec<u8>,
    pub(super) acl: Vec<u8>,
}

/// Describes a file, with what a request wants of it.
pub(super) fn describe(fid: Fid, inode: &Inode, wanted: MdValid, room: u32) -> Described {
    let mut body = inode.body(fid);
    body.max_mdsize = EASIZE_MAX;
    body.valid |= wanted & MdValid::MODEASIZE;
    let mut ea = Vec::new();
    if inode.is(TYPE_SYMLINK) && wanted.contains(MdValid::LINKNAME) {
        ea = inode.link.to_vec();
        ea.push(0);
        body.valid |= MdValid::LINKNAME;
    } else if inode.is_file() && wanted.contains(MdValid::EASIZE) {
        if let Some(layout) = &inode.layout {
            ea = layout.encode(fid);
            body.valid |= MdValid::EASIZE;
        }
    } else if inode.is_dir()
        && wanted.contains(MdValid::DIREA)
        && !inode.default_layout.is_empty()
        && !wanted.contains(MdValid::MEA)
    {
        ea = inode.default_layout.to_vec();
        body.valid |= MdValid::DIREA;
    }
    if ea.len() > room as usize {
        ea.clear();
        body.valid.remove(MdValid::EASIZE | MdValid::LINKNAME | MdValid::DIREA);
    }
    body.eadatasize = ea.len() as u32;
    let mut acl = Vec::new();
    if wanted.contains(MdValid::ACL) {
        body.valid |= MdValid::ACL;
        acl = inode.xattrs.get(ACL).cloned().unwrap_or_default();
        body.aclsize = acl.len() as u32;
    }
    Described { body, ea, acl }
}

impl Described {
    pub(super) fn getattr(&self) -> mds::GetattrReply<'_> {
        let (ea, acl) = (Ea(&self.ea), AclBytes(&self.acl));
        mds::GetattrReply { body: self.body, ea, acl, encctx: Some(&[]) }
    }
}

impl Target {
    pub(super) fn get_root(&mut self, job: &Job, request: &mds::GetRoot<'_>) -> Step {
        let mut at = Fid::ROOT;
        let path = request.fileset.map(|path| path.as_bytes()).unwrap_or_default();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let Some(fid) = self.files().lookup(at, name) else {
                return job.refuse(errno::ENOENT);
            };
            at = fid;
        }
        // What is no directory is answered as well, as by servers of 2.17: clients have to look.
        let body = MdtBody { fid1: at, valid: MdValid::ID, ..MdtBody::default() };
        job.answer(0, &Reply::MdsGetRoot(mds::GetRootReply { body }))
    }

    pub(super) fn getattr(&mut self, job: &Job, request: &mds::Getattr) -> Step {
        let asked = &request.body;
        let Some(inode) = self.files().get(asked.fid1) else { return job.refuse(errno::ENOENT) };
        let mut found = describe(asked.fid1, inode, asked.valid, asked.eadatasize);
        self.add_data_attributes(inode, &mut found.body);
        job.answer(0, &Reply::MdsGetattr(found.getattr()))
    }

    /// Data on this target have a size that it knows.
    pub(super) fn add_data_attributes(&self, inode: &Inode, body: &mut MdtBody) {
        if inode.layout.as_ref().is_some_and(|layout| layout.on_mdt().is_some()) {
            let object = self.files().data.get(body.fid1).cloned().unwrap_or_default();
            body.valid |= MdValid::DOM_SIZE;
            body.dom_size = object.size;
            body.dom_blocks = object.blocks;
        }
    }

    pub(super) fn getattr_name(&mut self, job: &Job, request: &mds::GetattrName<'_>) -> Step {
        let asked = &request.body;
        let found = self.child(&Caller::from(asked), asked.fid1, request.name.as_bytes());
        let fid = match found {
            Ok(Some(fid)) => fid,
            Ok(None) => return job.refuse(errno::ENOENT),
            Err(error) => return job.refuse(error),
        };
        let Some(inode) = self.files().get(fid) else { return job.refuse(errno::ENOENT) };
        let mut found = describe(fid, inode, asked.valid, asked.eadatasize);
        self.add_data_attributes(inode, &mut found.body);
        job.answer(0, &Reply::MdsGetattrName(found.getattr()))
    }

    /// Finds a name in a directory that the caller may search.
    pub(super) fn child(&self, caller: &Caller, dir: Fid, name: &[u8]) -> Result<Option<Fid>, i32> {
        let inode = self.files().get(dir).ok_or(errno::ENOENT)?;
        if !inode.is_dir() {
            return Err(errno::ENOTDIR);
        }
        caller.check(inode, Access::EXECUTE)?;
        if name == b".." {
            return Ok(Some(inode.parent));
        }
        Ok(self.files().lookup(dir, name))
    }

    /// LDLM_ENQUEUE with the intent getattr or lookup: the attributes, and a lock on them.
    pub(super) fn getattr_intent(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &dlm::GetattrIntent<'_>,
    ) -> Step {
        self.early_cancel(now, job, &request.lock, 1);
        let Some((status, reply, found)) = self.looked_up(now, job, request) else {
            return Step::Wait;
        };
        let buffers = intent_answer(reply, &found);
        let reply = match request.intent {
            IntentOp::LOOKUP => Reply::EnqueueLookup(buffers),
            _ => Reply::EnqueueGetattr(buffers),
        };
        job.answer(status, &reply)
    }

    /// MDS_BATCH: one look-up after another, up to the first that fails or would have to wait.
    pub(super) fn batch(&mut self, now: Time, job: &mut Job, request: &mds::Batch<'_>) -> Step {
        let Ok(block) = Block::parse(request.header.inline) else {
            return job.refuse(errno::EPROTO);
        };
        let mut replies = BlockBuilder::new(Block::REPLY_MAGIC);
        let mut status = 0;
        for message in block.messages().take(usize::from(block.header.count)) {
            let request = message.ok().filter(|message| message.header().opc == Block::GETATTR);
            let request =
                request.and_then(|message| dlm::GetattrIntent::parse_list(&message, 0).ok());
            let Some(request) = request else {
                status = -errno::EPROTO;
                break;
            };
            let looked = self.looked_up(now, job, &request);
            let (_, reply, found) = looked.unwrap_or_else(|| {
                self.release(now, job);
                let done = Disposition::EXECD;
                (0, without_lock(done, errno::ECANCELED), Described::default())
            });
            let missing = reply.disposition().contains(Disposition::LOOKUP_NEG);
            status = match i32::try_from(reply.policy_res2) {
                Ok(0) if missing => -errno::ENOENT,
                Ok(status) => status,
                Err(_) => -errno::EPROTO,
            };
            let reply = LdlmReply { policy_res2: i64::from(status), ..reply };
            let header = Header { opc: status as u32, ..Header::default() };
            let answer = intent_answer(reply, &found);
            if status != 0 {
                replies.push_failed(&header, &answer);
                break;
            }
            replies.push(&header, &answer);
        }
        let reply = replies.finish();
        job.answer(status, &Reply::MdsBatch(mds::BlockReply { reply: &reply }))
    }

    /// What a getattr or lookup intent finds: the status, the lock, and the file. None if it waits
    /// for a lock.
    fn looked_up(
        &mut self,
        now: Time,
        job: &mut Job,
        request: &dlm::GetattrIntent<'_>,
    ) -> Option<(i32, LdlmReply, Described)> {
        let asked = &request.body;
        let name = request.name.as_bytes();
        let looked = Disposition::EXECD | Disposition::LOOKUP_EXECD;
        let found = match name.is_empty() {
            true => Ok(Some(if asked.fid2.is_zero() { asked.fid1 } else { asked.fid2 })),
            false => self.child(&Caller::from(asked), asked.fid1, name),
        };
        let fid = match found {
            Ok(Some(fid)) if self.files().get(fid).is_some() => fid,
            Ok(_) => {
                let reply = without_lock(looked | Disposition::LOOKUP_NEG, 0);
                self.release(now, job);
                return Some((ELDLM::LOCK_ABORTED, reply, Described::default()));
            }
            Err(error) => {
                let reply = without_lock(looked, error);
                self.release(now, job);
                return Some((ELDLM::LOCK_ABORTED, reply, Described::default()));
            }
        };
        let bits = match request.intent {
            IntentOp::LOOKUP => Ibits::LOOKUP | Ibits::PERM,
            _ => Ibits::LOOKUP | Ibits::PERM | Ibits::UPDATE,
        };
        let mut wanted_lock = ibits(fid, LockMode::PR, bits);
        if let Policy::Ibits(policy) = &mut wanted_lock.policy
            && self.files().get(fid).is_some_and(Inode::is_file)
        {
            policy.try_bits = Ibits::LAYOUT;
        }
        if !self.hold(now, job, vec![wanted_lock]) {
            return None;
        }
        let done = looked | Disposition::LOOKUP_POS;
        let reply = self.give_held(now, job, request.lock.handle(0), done);
        let inode = self.files().get(fid).expect("the file was there");
        let mut found = describe(fid, inode, asked.valid, asked.eadatasize);
        self.add_data_attributes(inode, &mut found.body);
        Some((0, reply, found))
    }

    /// The lock that a request has becomes one of its client.
    pub(super) fn give_held(
        &mut self,
        now: Time,
        job: &mut Job,
        client_handle: Option<Handle>,
        done: Disposition,
    ) -> LdlmReply {
        let handle = job.held.pop();
        let lock = handle.and_then(|handle| self.locks.get(handle));
        let bits = lock.and_then(|lock| lock.desc.policy.ibits()).unwrap_or_default();
        let mode = lock.map_or(LockMode::NONE, |lock| lock.desc.req_mode);
        let client = (job.export, client_handle.unwrap_or(Handle::NONE));
        let given = handle.and_then(|handle| self.locks.give(now.0, handle, client, (mode, bits)));
        self.release(now, job);
        let mut reply = LdlmReply { policy_res1: done.bits(), ..LdlmReply::default() };
        if let Some(given) = given {
            reply.flags = given.flags | lustrine_fswire::ldlm::LockFlags::HAS_INTENT;
            reply.desc = given.desc;
            reply.handle = given.handle;
        }
        reply
    }

    /// READPAGE: names from a hash on, page by page.
    pub(super) fn readpage(&mut self, job: &Job, request: &mds::Getattr) -> Step {
        let asked = &request.body;
        let Some(inode) = self.files().get(asked.fid1) else { return job.refuse(errno::ENOENT) };
        if !inode.is_dir() {
            return job.refuse(errno::ENOTDIR);
        }
        let room = (asked.nlink as usize / PAGE_SIZE).clamp(1, 256);
        let data = self.pages(asked.fid1, inode, asked.size, room);
        let body = MdtBody { fid1: asked.fid1, valid: MdValid::ID, ..MdtBody::default() };
        let Step::Reply(reply) = job.answer(0, &Reply::MdsReadpage(mds::Body { body })) else {
            unreachable!("it is a reply")
        };
        Step::Put(portal::MDS_BULK, vec![(job.body().mbits, vec![data.into()])], reply)
    }

    fn pages(&self, dir: Fid, inode: &Inode, from: u64, room: usize) -> Vec<u8> {
        let kind = |fid: Fid| self.files().get(fid).map_or(0, |inode| inode.mode & TYPE_MASK);
        let own = [(1, &b"."[..], dir), (2, &b".."[..], inode.parent)];
        let own = own.into_iter().filter(|(hash, ..)| *hash >= from);
        let own = own.map(|(hash, name, fid)| (hash, name, fid, TYPE_DIRECTORY));
        let names = self.files().names_from(dir, from.max(HASH_FIRST));
        let names = names.map(|(hash, name, fid)| (hash, name, fid, kind(fid)));
        let mut data = Vec::new();
        let mut page = PageBuilder::new(from);
        let mut last = None;
        for (hash, name, fid, mode) in own.chain(names) {
            if page.push(fid, hash, name, mode as u16) {
                last = Some(hash);
                continue;
            }
            let mut flags = PageFlags::empty();
            flags.set(PageFlags::COLLIDE, last == Some(hash));
            data.extend(page.finish(hash, flags));
            if data.len() / PAGE_SIZE == room {
                return data;
            }
            page = PageBuilder::new(hash);
            let fits = page.push(fid, hash, name, mode as u16);
            assert!(fits, "a name fits an empty page");
            last = Some(hash);
        }
        data.extend(page.finish(HASH_END, PageFlags::empty()));
        data
    }

    /// Space of all targets, as far as this one knows it.
    pub(super) fn mdt_statfs(&mut self, job: &Job, request: &mds::Statfs) -> Step {
        let sum = request.body.is_some_and(|body| body.valid.contains(MdValid::AGSTATFS));
        let files = self.files().files();
        let mut statfs = Statfs {
            kind: 0xef53,
            blocks: 1 << 20,
            bfree: 1 << 20,
            bavail: 1 << 20,
            files: FILES_MAX,
            ffree: FILES_MAX.saturating_sub(files),
            fsid: FixedText::new(self.disk.name().as_bytes()).unwrap_or_default(),
            bsize: 4096,
            namelen: 255,
            maxbytes: i64::MAX as u64,
            ..Statfs::default()
        };
        if sum {
            let space = self.ost.peers;
            statfs.blocks = space.capacity / 4096;
            statfs.bfree = space.capacity.saturating_sub(space.used) / 4096;
            statfs.bavail = statfs.bfree;
            statfs.state = StatfsState::SUM;
        }
        job.answer(0, &Reply::MdsStatfs(ost::StatfsReply { statfs }))
    }

    /// MDS_SYNC: everything so far is on the disk. A file that has been removed is an error
    /// [MDT-27].
    pub(super) fn mdt_sync(&mut self, job: &Job, fid: Fid) -> Step {
        if !fid.is_zero() && self.files().get(fid).is_none() {
            return job.refuse(errno::ENOENT);
        }
        let Ok(body) = MdtBody::parse(&[0; MdtBody::SIZE]) else { return Step::Over };
        match job.answer(0, &Reply::MdsSync(mds::Body { body })) {
            Step::Reply(reply) => Step::ReplyAfterCommit(reply),
            other => other,
        }
    }
}

/// Files that a metadata target may have.
const FILES_MAX: u64 = 1 << 32;

/// The answer to a getattr or lookup intent.
fn intent_answer(reply: LdlmReply, found: &Described) -> dlm::GetattrIntentReply<'_> {
    dlm::GetattrIntentReply {
        reply,
        body: found.body,
        ea: Ea(&found.ea),
        acl: AclBytes(&found.acl),
        secctx: Some(&[]),
        default_ea: Some(Ea::NONE),
        encctx: Some(&[]),
    }
}
