//! A target that is running: its clients, its locks, and the requests that it works on.

mod mdt;
mod ost;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Extent, Ibits, IbitsPolicy, LdlmRequest, LockDesc, LockFlags, LockMode, LockType, OstLvb,
    Policy, Resource,
};
use lustrine_fswire::message::Message;
use lustrine_fswire::opcode::{Opcode, Target as Kind};
use lustrine_fswire::rpc::{Reply, Request};
use lustrine_ldlm::server::{EnqueueArgs, Holder, LockServer};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::server::{Exports, Received, Recovery, RecoveryTunables};
use smallvec::SmallVec;

use crate::answer;
use crate::disk::{Disk, Store};
use crate::journal::{CommitTunables, Transaction};
use mdt::Mdt;
pub(crate) use mdt::{Open, with_handle};
use ost::Ost;
pub(crate) use ost::Space;

/// Settings of targets.
#[derive(Clone, Copy, Debug)]
pub struct TargetTunables {
    /// When transactions are on the disk.
    pub commit: CommitTunables,
    /// How long clients are awaited after a restart.
    pub recovery: RecoveryTunables,
    /// How long a client may take to cancel a lock, and to answer any callback.
    pub lock_callback_timeout: Nanos,
    /// After so long without a word a client is evicted.
    pub silence_max: Nanos,
    /// Most changes of metadata of a client at a time (`max_mod_rpcs_per_client`): 1 to 512.
    /// What is less or more is taken as 1 or 512.
    pub max_mod_rpcs: u16,
}

impl Default for TargetTunables {
    fn default() -> TargetTunables {
        TargetTunables {
            commit: CommitTunables::default(),
            recovery: RecoveryTunables::default(),
            lock_callback_timeout: Nanos::from_secs(100),
            silence_max: Nanos::from_secs(150),
            max_mod_rpcs: 8,
        }
    }
}

/// A target that is running.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) disk: Disk,
    pub(crate) kind: Kind,
    pub(crate) index: u32,
    pub(crate) exports: Exports,
    pub(crate) locks: LockServer,
    /// Until the clients that were known at the start are done.
    pub(crate) recovery: Option<Recovery>,
    pub(crate) mdt: Mdt,
    pub(crate) ost: Ost,
    /// Before this no client has been silent for too long.
    pub(crate) silent_at: Time,
    pub(crate) evictions: u64,
    pub(crate) callbacks: u64,
}

impl Target {
    /// Starts a target. `seed` makes its handles other ones than those of an earlier life.
    pub(crate) fn start(mut disk: Disk, tunables: &TargetTunables, seed: u64) -> Target {
        disk.start(tunables.commit);
        let (kind, index) = match &disk.store {
            Store::Mgs(_) => (Kind::Mgs, 0),
            Store::Mdt(store) => (Kind::Mdt, store.index()),
            Store::Ost(store) => (Kind::Ost, store.index()),
        };
        let known: Vec<Vec<u8>> = disk.clients.iter().cloned().collect();
        let recovers = !known.is_empty() && kind != Kind::Mgs;
        let recovery = recovers.then(|| Recovery::new(tunables.recovery, known));
        let mut locks = LockServer::new(seed ^ 0x10c5, tunables.lock_callback_timeout.0);
        match recovers {
            true => locks.begin_replay(),
            false => disk.journal.begin_epoch(),
        }
        Target {
            disk,
            kind,
            index,
            exports: Exports::new(seed),
            locks,
            recovery,
            mdt: Mdt::new(seed ^ 0x09e4),
            ost: Ost::default(),
            silent_at: Time::ZERO,
            evictions: 0,
            callbacks: 0,
        }
    }

    /// Whether there is something to do without a request.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.recovery.is_some()
            || self.disk.journal.next_deadline() <= now
            || self.locks.is_due(now.0)
            || self.silent_at <= now
    }

    /// Begins a transaction for a request.
    pub(crate) fn begin(&mut self, now: Time, job: &mut Job) -> Transaction {
        let replayed = job.replayed();
        let transaction = self.disk.journal.begin(now, replayed);
        job.transaction = Some(transaction);
        transaction
    }

    /// Gets the locks that the server needs for a request, one after the other in the order of
    /// their names, so that no two requests wait for each other. Whether it has all of them.
    ///
    /// A request looks again, before it goes on, at what it needs: names may have changed while it
    /// waited. What it has is given back if that is something else.
    pub(crate) fn hold(&mut self, now: Time, job: &mut Job, wanted_locks: Vec<LockDesc>) -> bool {
        if wanted_locks != job.wanted_locks {
            self.release(now, job);
            job.wanted_locks = wanted_locks;
        }
        loop {
            if let Some(last) = job.held.last() {
                match self.locks.get(*last) {
                    Some(lock) if !lock.is_granted() => return false,
                    Some(_) => {}
                    // It was given to a client.
                    None => {}
                }
            }
            let Some(desc) = job.wanted_locks.get(job.held.len()).copied() else { return true };
            let flags = match job.discards {
                true => LockFlags::AST_DISCARD_DATA,
                false => LockFlags::empty(),
            };
            let args = EnqueueArgs {
                holder: Holder::Server(job.id),
                client_handle: Handle::NONE,
                desc,
                flags,
                finds_deadlocks: false,
            };
            match self.locks.enqueue(now.0, args) {
                Ok(enqueued) => job.held.push(enqueued.handle),
                Err(error) => unreachable!("the server asks for what is allowed: {error}"),
            }
        }
    }

    /// Gives the server's locks of a request back.
    pub(crate) fn release(&mut self, now: Time, job: &mut Job) {
        job.wanted_locks.clear();
        for handle in job.held.drain(..) {
            let of_server = |holder| matches!(holder, Holder::Server(id) if id == job.id);
            if self.locks.get(handle).is_some_and(|lock| of_server(lock.holder)) {
                self.locks.release(now.0, handle);
            }
        }
    }

    /// Cancels locks that a request gives back on the way [LOCK-10].
    pub(crate) fn early_cancel(
        &mut self,
        now: Time,
        job: &Job,
        locks: &LdlmRequest<'_>,
        first: usize,
    ) {
        if job.replayed().is_none() && job.runs == 1 {
            self.locks.cancel(now.0, job.export, locks.counted(first));
        }
    }
}

/// A lock that the server needs on properties of a metadata object.
pub(crate) fn ibits(fid: Fid, mode: LockMode, bits: Ibits) -> LockDesc {
    LockDesc {
        kind: LockType::IBITS,
        resource: Resource::of_fid(fid),
        req_mode: mode,
        policy: Policy::Ibits(IbitsPolicy { bits, ..IbitsPolicy::default() }),
        ..LockDesc::default()
    }
}

/// A lock that the server needs on a range of an object.
pub(crate) fn extent(oi: Fid, mode: LockMode, (start, end): (u64, u64)) -> LockDesc {
    LockDesc {
        kind: LockType::EXTENT,
        resource: Resource::of_object(oi),
        req_mode: mode,
        policy: Policy::Extent(Extent { start, end, gid: 0 }),
        ..LockDesc::default()
    }
}

/// Locks in the order of their names, one for each.
pub(crate) fn in_order(mut wanted_locks: Vec<LockDesc>) -> Vec<LockDesc> {
    wanted_locks.sort_by_key(|wanted_lock| wanted_lock.resource);
    wanted_locks.dedup_by(|wanted_lock, first| {
        if wanted_lock.resource != first.resource {
            return false;
        }
        if let (Policy::Ibits(all), Policy::Ibits(more)) = (&mut first.policy, wanted_lock.policy) {
            all.bits |= more.bits;
        }
        if wanted_lock.req_mode == LockMode::EX {
            first.req_mode = LockMode::EX;
        }
        true
    });
    wanted_locks
}

/// A request that a target works on.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) work: Work,
    pub(crate) received: Box<Received>,
    /// Where its reply goes: the match bits of its last attempt.
    pub(crate) reply_bits: u64,
    /// The client.
    pub(crate) export: Handle,
    /// How often it was worked on, this time included.
    pub(crate) runs: u32,
    /// The server's locks that it needs, and those that it has or waits for.
    pub(crate) wanted_locks: Vec<LockDesc>,
    pub(crate) held: SmallVec<[Handle; 2]>,
    /// Whether holders of locks in its way need not write what they have.
    pub(crate) discards: bool,
    /// What a transfer has brought, in blocks that follow each other.
    pub(crate) bulk: Option<Vec<Bytes>>,
    /// What holders of locks know of an object; none before they were asked.
    pub(crate) glimpsed: Option<Vec<OstLvb>>,
    pub(crate) transaction: Option<Transaction>,
    /// The reply, while something else has to happen before it is sent.
    pub(crate) reply: Option<Vec<u8>>,
    /// What is kept of the reply, if not all of it.
    pub(crate) kept_reply: Option<Vec<u8>>,
    /// The file that it has opened.
    pub(crate) opened: Option<Fid>,
    /// When the client gives it up.
    pub(crate) deadline: Time,
}

/// What a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A request of a client.
    Rpc,
    /// An object that no file has any more is destroyed.
    Destroy(Fid),
    /// Clients give the locks of a configuration back, because it has changed.
    Revoke(Resource),
}

/// What is next for a job.
#[derive(Debug)]
pub(crate) enum Step {
    /// Its reply.
    Reply(Vec<u8>),
    /// Its reply, when everything so far is on the disk.
    ReplyAfterCommit(Vec<u8>),
    /// It waits for a lock, and is run again then.
    Wait,
    /// Data are to be got from the client: pieces by match bits and length. It is run again then.
    Get(u32, Vec<(u64, u32)>),
    /// Data are to be put to the client, pieces by match bits, and then the reply.
    Put(u32, Vec<(u64, Vec<Bytes>)>, Vec<u8>),
    /// The holders of these locks are to be asked for what they know of an object. It is run again
    /// then.
    Glimpse(Vec<Handle>),
    /// There is nothing to answer.
    Over,
}

impl Job {
    pub(crate) fn new(id: u64, work: Work, received: Box<Received>, reply_bits: u64) -> Job {
        let timeout = Nanos::from_secs(u64::from(received.body.timeout));
        let deadline = received.arrived + timeout;
        let export = received.body.handle;
        Job {
            id,
            work,
            received,
            reply_bits,
            export,
            runs: 0,
            wanted_locks: Vec::new(),
            held: SmallVec::new(),
            discards: false,
            bulk: None,
            glimpsed: None,
            transaction: None,
            reply: None,
            kept_reply: None,
            opened: None,
            deadline,
        }
    }

    pub(crate) fn body(&self) -> &PtlrpcBody {
        &self.received.body
    }

    pub(crate) fn opcode(&self) -> Opcode {
        self.received.body.opcode
    }

    /// The number of the transaction that is replayed.
    pub(crate) fn replayed(&self) -> Option<u64> {
        let body = &self.received.body;
        let replay = body.flags.contains(lustrine_fswire::body::BodyFlags::REPLAY);
        (replay && body.transno != 0).then_some(body.transno)
    }

    /// The reply that does what was asked, or says in its buffers what was not.
    pub(crate) fn answer(&self, status: i32, reply: &Reply<'_>) -> Step {
        let transno = self.transaction.map_or(0, |transaction| transaction.transno);
        Step::Reply(answer::encode(self.opcode(), status, transno, reply))
    }

    /// The reply to a request that fails early; `errno` is positive.
    pub(crate) fn refuse(&self, errno: i32) -> Step {
        Step::Reply(answer::failure(self.opcode(), errno))
    }

    /// Reads the request. `act` gets it and the job without the message.
    pub(crate) fn with_request(
        &mut self,
        act: impl FnOnce(&mut Job, Result<Request<'_>, ()>) -> Step,
    ) -> Step {
        let bytes = core::mem::take(&mut self.received.message);
        let step = match Message::parse(&bytes) {
            Ok(message) => {
                let request = Request::parse(&message, &self.received.body).map_err(|_| ());
                act(self, request)
            }
            Err(_) => act(self, Err(())),
        };
        self.received.message = bytes;
        step
    }
}
