//! Requests: how they are taken in, worked on, and answered.

use std::sync::Arc;

use bytes::Bytes;
use lustrine_fswire::body::{BodyFlags, PtlrpcBody};
use lustrine_fswire::connect::ConnectFlags;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{LockDesc, LockMode, LockType};
use lustrine_fswire::mdt::{OpenFlags, Reint};
use lustrine_fswire::message::Message;
use lustrine_fswire::opcode::{Opcode, Target as Kind, portal};
use lustrine_fswire::rpc::{Reply, Request, obd};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;
use lustrine_ptlrpc::server::{BulkKey, Received};
use lustrine_wire::nid::{Nid, ProcessId};

use super::{Server, Slot, Waiting, Waits};
use crate::clients::SavedReply;
use crate::disk::Store;
use crate::running::{Job, Open, Space, Step, Target, Work, with_handle};
use crate::{answer, errno};

impl Server {
    pub(super) fn on_request(&mut self, turn: &mut Turn<'_>, received: Box<Received>) {
        let body = received.body;
        if body.opcode.is_connect() {
            return self.on_connect(turn, &received);
        }
        let of_target = |slot: &Slot| match slot {
            Slot::Running(target) => target.exports.get(body.handle).is_some(),
            Slot::Stopped(_) => false,
        };
        let Some(index) = self.slots.iter().position(of_target) else {
            // Without a connection it is not known where the client wants the reply.
            let mbits = if body.mbits == 0 { received.xid } else { body.mbits };
            return self.refuse(turn, &received, mbits, errno::ENOTCONN);
        };
        let replay = body.flags.contains(BodyFlags::REPLAY);
        let Some(target) = self.running(index) else { return };
        let heard = (body.conn_cnt, received.xid, body.last_xid);
        let (bits, uuid) = match target.exports.heard(turn.now, body.handle, heard, replay) {
            None => return,
            Some(Err(error)) => {
                let export = target.exports.get(body.handle);
                let bits = export.map_or(received.xid, |export| {
                    export.reply_bits(received.xid, body.mbits, body.opcode)
                });
                return self.refuse(turn, &received, bits, error);
            }
            Some(Ok(export)) => {
                if export.peer.nid != received.peer.nid {
                    return;
                }
                let bits = export.reply_bits(received.xid, body.mbits, body.opcode);
                (bits, &export.uuid)
            }
        };
        // Who was evicted has learnt it now. If it was known earlier, and the answer to its connect
        // was lost, it would replay void locks after a restart.
        if !target.disk.clients.received(uuid, body.last_xid) {
            target.disk.clients.add(uuid);
        }
        if body.opcode.is_disconnect() {
            return self.on_disconnect(turn, index, &received, bits);
        }
        // The same request is worked on: its reply goes where the client waits now.
        let same = self.jobs.values().find(|waiting| {
            let job = &waiting.job;
            job.export == body.handle && job.received.xid == received.xid
        });
        let same = same
            .map(|waiting| (waiting.job.id, matches!(waiting.waits, Waits::Data | Waits::Sent(_))));
        if let Some((id, true)) = same {
            // The memory for its data is another one now: it begins anew.
            self.abandon(turn, id);
        } else if let Some((id, _)) = same
            && let Some(waiting) = self.jobs.get_mut(&id)
        {
            waiting.job.reply_bits = bits;
            let timeout = lustrine_lnet::time::Nanos::from_secs(u64::from(body.timeout));
            waiting.job.deadline = turn.now + timeout;
            waiting.job.received.peer = received.peer;
            waiting.job.received.local = received.local;
            return;
        }
        self.next_job += 1;
        let job = Job::new(self.next_job, Work::Rpc, received, bits);
        if self.answer_again(turn, index, &job) {
            return;
        }
        self.check_slot(index, &job);
        self.start_job(turn, index, job);
    }

    /// Notes a request whose slot the client may not use: changes of metadata have one each, as
    /// many as the server allows and one for CLOSE, until they are answered [RPC-13] [IMP-4].
    /// Replays have those of the requests that were answered [IMP-10].
    fn check_slot(&mut self, index: usize, job: &Job) {
        let (tag, opcode, xid) = (job.body().tag, job.opcode(), job.received.xid);
        let of_job = |other: &Job| other.export == job.export && other.body().tag == tag;
        let busy = self.jobs.values().any(|other| {
            of_job(&other.job) && other.job.replayed().is_none() && other.job.received.xid != xid
        });
        let Some(target) = self.running(index).filter(|target| target.kind == Kind::Mdt) else {
            return;
        };
        let Some(export) = target.exports.get(job.export) else { return };
        let granted = &export.granted;
        if !granted.flags.contains(ConnectFlags::MULTIMODRPCS) {
            return;
        }
        let most = granted.maxmodrpcs + 1;
        let needs_one = matches!(opcode, Opcode::MDS_REINT | Opcode::MDS_CLOSE);
        let what = match tag {
            0 if needs_one => "has no slot",
            1.. if tag > most => "has a slot beyond those that there are",
            1.. if busy && job.replayed().is_none() => "has a slot that another one uses",
            _ => return,
        };
        target.disk.violated(|| format!("{opcode:?}, xid {xid:#x}, {what}: {tag} of {most}"));
    }

    /// Gives a job up whose data do not come.
    fn abandon(&mut self, turn: &mut Turn<'_>, id: u64) {
        let keys = self.bulks.iter().filter(|(_, job)| **job == id).map(|(key, _)| *key);
        for key in keys.collect::<Vec<_>>() {
            self.rpc.abandon_bulk(turn, key);
        }
        self.drop_job(turn.now, id);
    }

    /// Answers a request whose reply is kept.
    fn answer_again(&mut self, turn: &mut Turn<'_>, index: usize, job: &Job) -> bool {
        let xid = job.received.xid;
        let Some(target) = self.running(index) else { return false };
        let Some(export) = target.exports.get(job.export) else { return false };
        let saved = target.disk.clients.reply(&export.uuid, xid).cloned();
        let Some(saved) = saved else { return false };
        if saved.of_locks && saved.life != target.disk.lives {
            return false;
        }
        let again = BodyFlags::RESENT | BodyFlags::REPLAY;
        if !job.body().flags.intersects(again) {
            let message = answer::failure(job.opcode(), errno::ENOTCONN);
            self.send(turn, index, job, message);
            return true;
        }
        let mut message = saved.message.to_vec();
        if let Some(fid) = saved.opened
            && (saved.life != target.disk.lives || job.replayed().is_some())
        {
            // The handle of that time is void: it is opened again.
            let before = job.replayed().and_then(|_| old_handle(job)).unwrap_or(Handle::NONE);
            let open = Open { client: job.export, fid, flags: OpenFlags::WRITE, before, xid };
            let Some(reopened) = target.open_again(open, &message) else {
                return false;
            };
            message = reopened;
        }
        self.send(turn, index, job, message);
        true
    }

    /// Begins a request, or has it wait for recovery.
    fn start_job(&mut self, turn: &mut Turn<'_>, index: usize, job: Job) {
        let flags = job.body().flags;
        let Some(target) = self.running(index) else { return };
        let Some(uuid) = target.exports.get(job.export).map(|export| &export.uuid) else { return };
        let Some(recovery) = &mut target.recovery else {
            if job.replayed().is_some() {
                // It is too late for that.
                let message = answer::failure(job.opcode(), errno::ENODEV);
                self.send(turn, index, &job, message);
                return self.evict_client(turn.now, index, job.export);
            }
            return self.run(turn, index, job);
        };
        let mut void = None;
        let waits = if let Some(transno) = job.replayed() {
            if recovery.is_out_of_turn(uuid, transno) {
                let (opcode, xid) = (job.opcode(), job.received.xid);
                target.disk.violated(|| {
                    format!("{opcode:?}, xid {xid:#x}, replays {transno} out of its turn")
                });
            }
            void = recovery.queue(uuid, transno, job.id);
            Waits::Replay
        } else if flags.contains(BodyFlags::LOCK_REPLAY_DONE) {
            recovery.locks_done(uuid);
            Waits::RecoveryEnd
        } else if flags.contains(BodyFlags::REQ_REPLAY_DONE) {
            recovery.requests_done(uuid);
            Waits::LockReplay
        } else {
            Waits::RecoveryEnd
        };
        self.jobs.insert(job.id, Box::new(Waiting { target: index, waits, job }));
        if let Some(id) = void {
            self.drop_job(turn.now, id);
        }
    }

    /// Works on a job that waited.
    pub(super) fn resume(&mut self, turn: &mut Turn<'_>, id: u64) {
        if let Some(waiting) = self.jobs.remove(&id) {
            self.run(turn, waiting.target, waiting.job);
        }
    }

    /// Works on a job until it is over, or has to wait.
    pub(super) fn run(&mut self, turn: &mut Turn<'_>, index: usize, mut job: Job) {
        let now = turn.now;
        if job.opcode() == Opcode::MDS_STATFS {
            let space = self.space();
            if let Some(target) = self.running(index) {
                target.ost.peers = space;
            }
        }
        let Some(target) = self.running(index) else { return };
        job.runs += 1;
        let step = target.execute(now, &mut job);
        if let Step::Reply(message) | Step::ReplyAfterCommit(message) = &step {
            target.save_reply(&job, message);
        }
        match step {
            Step::Reply(message) => self.finish(turn, index, job, message),
            Step::ReplyAfterCommit(message) => {
                let step = target.disk.journal.last_step();
                if step <= target.disk.journal.committed_step() {
                    return self.finish(turn, index, job, message);
                }
                target.disk.journal.sync();
                job.reply = Some(message);
                self.wait(index, job, Waits::Commit(step));
            }
            Step::Wait => self.wait(index, job, Waits::Lock),
            Step::Get(portal, pieces) => {
                let key = self.rpc.get_bulk(turn, &job.received, portal, &pieces);
                self.bulks.insert(key, job.id);
                self.wait(index, job, Waits::Data);
            }
            Step::Put(portal, pieces, reply) => {
                let key = self.rpc.put_bulk(turn, &job.received, portal, pieces);
                self.bulks.insert(key, job.id);
                self.wait(index, job, Waits::Sent(reply));
            }
            Step::Glimpse(locks) => {
                job.glimpsed = Some(Vec::new());
                let (id, count) = (job.id, locks.len());
                self.wait(index, job, Waits::Glimpse(count));
                self.glimpse_holders(turn, index, id, &locks);
            }
            Step::Over => self.over(now, index, job),
        }
    }

    fn wait(&mut self, index: usize, job: Job, waits: Waits) {
        self.jobs.insert(job.id, Box::new(Waiting { target: index, waits, job }));
    }

    /// Space of all object targets.
    fn space(&self) -> Space {
        let mut space = Space::default();
        for slot in &self.slots {
            let disk = match slot {
                Slot::Running(target) => &target.disk,
                Slot::Stopped(disk) => disk.as_ref(),
            };
            if let Store::Ost(store) = &disk.store {
                space.capacity = space.capacity.saturating_add(store.capacity());
                space.used += store.used();
            }
        }
        space
    }

    /// Sends the reply of a job.
    fn finish(&mut self, turn: &mut Turn<'_>, index: usize, mut job: Job, message: Vec<u8>) {
        let Some(target) = self.running(index) else { return };
        target.release(turn.now, &mut job);
        if job.work == Work::Rpc {
            self.send(turn, index, &job, message);
        }
        self.over(turn.now, index, job);
    }

    /// A job is over.
    fn over(&mut self, now: Time, index: usize, mut job: Job) {
        if let Some(target) = self.running(index) {
            target.release(now, &mut job);
        }
        if self.replaying.get(&index) == Some(&job.id) {
            self.replaying.remove(&index);
        }
        if let Work::Destroy(oi) = job.work {
            self.object_destroyed(now, oi);
        }
    }

    /// A transfer is over.
    pub(super) fn on_bulk(
        &mut self,
        turn: &mut Turn<'_>,
        key: BulkKey,
        result: Option<Vec<Bytes>>,
    ) {
        let Some(id) = self.bulks.remove(&key) else { return };
        let Some(mut waiting) = self.jobs.remove(&id) else { return };
        match (result, waiting.waits) {
            (Some(_), Waits::Sent(reply)) => {
                self.finish(turn, waiting.target, waiting.job, reply);
            }
            (Some(pieces), Waits::Data) => {
                waiting.job.bulk = Some(pieces);
                self.run(turn, waiting.target, waiting.job);
            }
            // Without its data a request is not answered: the client sends it again.
            _ => self.over(turn.now, waiting.target, waiting.job),
        }
    }

    /// Changes of a target are on its disk.
    pub(super) fn committed(&mut self, turn: &mut Turn<'_>, index: usize, upto: u64) {
        let ready = |waiting: &Waiting| {
            waiting.target == index && matches!(waiting.waits, Waits::Commit(step) if step <= upto)
        };
        let ids = self.jobs.iter().filter(|(_, waiting)| ready(waiting)).map(|(id, _)| *id);
        let ids: Vec<u64> = ids.collect();
        for id in ids {
            let Some(mut waiting) = self.jobs.remove(&id) else { continue };
            let reply = waiting.job.reply.take().unwrap_or_default();
            self.finish(turn, index, waiting.job, reply);
        }
        self.destroy_objects(turn, index, upto);
    }

    /// Destroys the objects of files that are gone.
    fn destroy_objects(&mut self, turn: &mut Turn<'_>, index: usize, upto: u64) {
        let Some(target) = self.running(index).filter(|target| target.kind == Kind::Mdt) else {
            return;
        };
        let dead: Vec<(Fid, u32)> = target.files().dead(upto).collect();
        for (oi, ost) in dead {
            if self.destroying.contains(&oi) {
                continue;
            }
            let holder = self.slots.iter().position(|slot| match slot {
                Slot::Running(target) => {
                    target.kind == Kind::Ost && target.index == ost && target.recovery.is_none()
                }
                Slot::Stopped(_) => false,
            });
            let Some(holder) = holder else { continue };
            self.destroying.insert(oi);
            self.next_job += 1;
            let received = of_no_client(turn, Opcode::OST_DESTROY);
            let job = Job::new(self.next_job, Work::Destroy(oi), received, 0);
            self.run(turn, holder, job);
        }
    }

    /// The disk of an object target does not have an object any more.
    fn object_destroyed(&mut self, now: Time, oi: Fid) {
        self.destroying.remove(&oi);
        for index in self.running_indexes() {
            let Some(target) = self.running(index).filter(|target| target.kind == Kind::Mdt) else {
                continue;
            };
            let committed = target.disk.journal.committed_step();
            if target.files().is_dead(oi, committed) {
                let step = target.disk.journal.begin_local(now);
                target.files_mut().destroyed(step, oi);
            }
        }
    }
}

/// The handle that the replay of an open has in its record.
fn old_handle(job: &Job) -> Option<Handle> {
    let message = Message::parse(&job.received.message).ok()?;
    match Request::parse(&message, job.body()).ok()? {
        Request::EnqueueOpen(intent) | Request::EnqueueOpenCreat(intent) => match intent.record {
            Reint::Create(record) => Some(record.old_handle),
            _ => None,
        },
        _ => None,
    }
}

/// What a job has in place of a request, if no client asked for it.
pub(super) fn of_no_client(turn: &Turn<'_>, opcode: Opcode) -> Box<Received> {
    Box::new(Received {
        peer: ProcessId::lustre(Nid::ANY),
        local: Nid::ANY,
        portal: 0,
        xid: 0,
        message: Vec::new(),
        body: PtlrpcBody::request(opcode),
        arrived: turn.now,
        early_replies: false,
    })
}

impl Target {
    /// Keeps the reply to a change, in the same transaction: it is on the disk with the change, or
    /// both are lost.
    fn save_reply(&mut self, job: &Job, message: &[u8]) {
        // A lock that was granted by a callback may be given back before its enqueue, whose reply
        // is lost, comes again: it would be granted once more, and nobody would know it.
        let of_locks = job.transaction.is_none() && job.opcode() == Opcode::LDLM_ENQUEUE;
        let step = match job.transaction {
            Some(transaction) => transaction.step,
            None if of_locks => self.disk.journal.last_step(),
            None => return,
        };
        let Some(export) = self.exports.get(job.export) else { return };
        let saved = SavedReply {
            tag: job.body().tag,
            message: Arc::from(job.kept_reply.as_deref().unwrap_or(message)),
            life: self.disk.lives,
            of_locks,
            opened: job.opened,
        };
        self.disk.clients.save(step, &export.uuid, job.received.xid, saved);
    }

    /// Does what a job is for.
    pub(crate) fn execute(&mut self, now: Time, job: &mut Job) -> Step {
        if let Work::Destroy(oi) = job.work {
            return match self.destroy_object(now, job, oi) {
                Step::Over => Step::ReplyAfterCommit(answer::failure(job.opcode(), 0)),
                other => other,
            };
        }
        if let Work::Revoke(resource) = job.work {
            let wanted = LockDesc {
                kind: LockType::PLAIN,
                resource,
                req_mode: LockMode::EX,
                ..LockDesc::default()
            };
            return if self.hold(now, job, vec![wanted]) { Step::Over } else { Step::Wait };
        }
        job.with_request(|job, request| match request {
            Ok(request) => self.perform(now, job, &request),
            Err(()) => job.refuse(errno::EPROTO),
        })
    }

    fn perform(&mut self, now: Time, job: &mut Job, request: &Request<'_>) -> Step {
        match request {
            Request::ObdPing(_) => job.answer(0, &Reply::Bare),
            Request::LdlmCancel(request) => self.cancel_locks(now, job, &request.lock),
            Request::LdlmConvert(request) => self.convert_lock(now, job, &request.lock),
            Request::Enqueue(request) => self.enqueue(now, job, &request.lock),
            _ => match self.kind {
                Kind::Mgs => self.do_management(job, request),
                Kind::Ost => self.do_objects(now, job, request),
                Kind::Mdt => match request {
                    Request::OstRead(_)
                    | Request::OstWrite(_)
                    | Request::OstPunch(_)
                    | Request::OstSync(_) => self.do_objects(now, job, request),
                    _ => self.do_metadata(now, job, request),
                },
            },
        }
    }

    fn do_management(&mut self, job: &Job, request: &Request<'_>) -> Step {
        let Store::Mgs(store) = &self.disk.store else { return job.refuse(errno::EOPNOTSUPP) };
        match request {
            Request::LlogCreate(request) => Step::Reply(store.open(request)),
            Request::LlogReadHeader(request) => Step::Reply(store.header(&request.body)),
            Request::LlogNextBlock(request) => Step::Reply(store.block(&request.body)),
            Request::MgsConfigRead(request) => match store.table(&request.body) {
                Ok((bytes, res)) => {
                    let reply = Reply::MgsConfigRead(obd::ConfigReadReply { res });
                    let message = answer::encode(job.opcode(), 0, 0, &reply);
                    let bits = job.body().mbits;
                    match bytes.is_empty() {
                        true => Step::Reply(message),
                        false => {
                            Step::Put(portal::MGS_BULK, vec![(bits, vec![bytes.into()])], message)
                        }
                    }
                }
                Err(error) => job.refuse(error),
            },
            _ => job.refuse(errno::EOPNOTSUPP),
        }
    }

    /// Opens a file again that a client had opened before a restart: the reply of that time with
    /// another handle. None if the file is gone.
    fn open_again(&mut self, open: Open, message: &[u8]) -> Option<Vec<u8>> {
        self.files().get(open.fid)?;
        if let Some(handle) = self.mdt.by_request(open.client, open.xid) {
            return with_handle(message, handle);
        }
        let handle = self.mdt.opened(open);
        let reply = with_handle(message, handle);
        if reply.is_none() {
            self.mdt.closed(handle);
        }
        reply
    }
}
