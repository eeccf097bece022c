//! Callbacks to holders of locks, and what their answers mean.

use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::{ConnectFlags, ConnectFlags2};
use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{ELDLM, LdlmRequest, LockDesc, LockFlags, LockMode, OstLvb};
use lustrine_fswire::message::{Header, HeaderFlags, Message};
use lustrine_fswire::rpc::{Kind, Lvb, Reply, Request, dlm};
use lustrine_ldlm::server::{Holder, LockEvent};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::server::CallKey;

use super::{Server, Waits};
use crate::errno;

/// What a client is asked or told.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// To give a lock back.
    Blocking { discard: bool },
    /// That a lock is granted.
    Completion { wanted: bool },
    /// That a flock is given up.
    GivenUp { deadlock: bool },
    /// What it knows of an object; a job waits for it.
    Glimpse { job: u64 },
}

/// A callback that is not answered.
#[derive(Debug)]
pub(super) struct Callback {
    pub(super) target: usize,
    pub(super) client: Handle,
    /// The server's handle of the lock.
    lock: Handle,
    client_handle: Handle,
    desc: LockDesc,
    ask: Ask,
    /// When the client is given up.
    deadline: Time,
}

/// How long one attempt waits for its answer.
const ATTEMPT: Nanos = Nanos::from_secs(7);

impl Server {
    pub(super) fn on_lock_event(&mut self, turn: &mut Turn<'_>, target: usize, event: LockEvent) {
        match event {
            LockEvent::Blocking { client, handle, client_handle, wanted, discard } => {
                let ask = Ask::Blocking { discard };
                self.call_back(turn, target, (client, handle, client_handle), wanted, ask);
            }
            LockEvent::Granted { handle, wanted } => {
                let Some(running) = self.running(target) else { return };
                let Some(lock) = running.locks.get(handle).cloned() else { return };
                match lock.holder {
                    Holder::Server(job) => self.resume_if(turn, job),
                    Holder::Client(client) => {
                        let ask = Ask::Completion { wanted };
                        let names = (client, handle, lock.client_handle);
                        self.call_back(turn, target, names, lock.desc, ask);
                    }
                }
            }
            LockEvent::GivenUp { client, handle, client_handle, desc, deadlock } => {
                let ask = Ask::GivenUp { deadlock };
                self.call_back(turn, target, (client, handle, client_handle), desc, ask);
            }
            LockEvent::Overdue { client } => self.evict_client(turn.now, target, client),
        }
    }

    /// Goes on with a job that waits for a lock.
    fn resume_if(&mut self, turn: &mut Turn<'_>, id: u64) {
        let waits = self.jobs.get(&id).map(|waiting| &waiting.waits);
        if matches!(waits, Some(Waits::Lock)) {
            self.resume(turn, id);
        }
    }

    /// Asks the holders of locks what they know of an object.
    pub(super) fn glimpse_holders(
        &mut self,
        turn: &mut Turn<'_>,
        target: usize,
        job: u64,
        locks: &[Handle],
    ) {
        for handle in locks {
            let lock = self.running(target).and_then(|target| target.locks.get(*handle)).cloned();
            match lock.as_ref().and_then(|lock| Some((lock, lock.client()?))) {
                Some((lock, client)) => {
                    let names = (client, *handle, lock.client_handle);
                    let ask = Ask::Glimpse { job };
                    self.call_back(turn, target, names, lock.desc, ask);
                }
                None => self.glimpsed(turn, job, None),
            }
        }
    }

    /// A holder has said what it knows, or does not know anything.
    fn glimpsed(&mut self, turn: &mut Turn<'_>, job: u64, lvb: Option<OstLvb>) {
        let Some(waiting) = self.jobs.get_mut(&job) else { return };
        let Waits::Glimpse(left) = &mut waiting.waits else { return };
        *left -= 1;
        let over = *left == 0;
        waiting.job.glimpsed.get_or_insert_default().extend(lvb);
        if over {
            self.resume(turn, job);
        }
    }

    /// A client is gone: it does not answer any more. Who waits for what it knows goes on without.
    pub(super) fn drop_calls(&mut self, index: usize, client: Handle) {
        let lost = &mut self.lost_glimpses;
        self.calls.retain(|_, call| {
            let gone = call.target == index && call.client == client;
            if let (true, Ask::Glimpse { job }) = (gone, call.ask) {
                lost.push(job);
            }
            !gone
        });
    }

    /// Goes on with jobs that wait for clients that are gone. Whether there was anything.
    pub(super) fn lose_glimpses(&mut self, turn: &mut Turn<'_>) -> bool {
        let lost = core::mem::take(&mut self.lost_glimpses);
        let busy = !lost.is_empty();
        lost.into_iter().for_each(|job| self.glimpsed(turn, job, None));
        busy
    }

    fn call_back(
        &mut self,
        turn: &mut Turn<'_>,
        target: usize,
        (client, lock, client_handle): (Handle, Handle, Handle),
        desc: LockDesc,
        ask: Ask,
    ) {
        // A part of a flock that the server has divided is not known to the client by a name.
        if client_handle == Handle::NONE {
            return;
        }
        let deadline = turn.now + self.args.tunables.lock_callback_timeout;
        let callback = Callback { target, client, lock, client_handle, desc, ask, deadline };
        self.send_callback(turn, callback);
    }

    fn send_callback(&mut self, turn: &mut Turn<'_>, callback: Callback) {
        let Some(place) = self.place_of(callback.target, callback.client) else { return };
        let Some(running) = self.running(callback.target) else { return };
        let Some(export) = running.exports.get(callback.client) else { return };
        let early = export.granted.flags.contains(ConnectFlags::AT);
        let rep_mbits = export.granted.flags2.contains(ConnectFlags2::REP_MBITS);
        let handle = export.client_handle;
        let mut lvb = Vec::new();
        if let Ask::Completion { .. } = callback.ask
            && running.has_value(&callback.desc.policy)
        {
            lvb = running.lvb(callback.desc.resource).to_bytes();
            if !export.granted.flags.contains(ConnectFlags::LVB_TYPE) {
                lvb.truncate(OstLvb::SIZE_V1);
            }
        }
        let attempt = (turn.now + ATTEMPT).min(callback.deadline);
        let key = self.rpc.call(turn, place, attempt, |xid| {
            let mut flags = HeaderFlags::CKSUM_INCOMPAT18;
            flags.set(HeaderFlags::AT_SUPPORT, early);
            let request = request_of(&callback, &lvb, xid);
            let body = PtlrpcBody {
                handle,
                timeout: (ATTEMPT.0 / 1_000_000_000) as u32,
                mbits: if rep_mbits { xid } else { 0 },
                ..PtlrpcBody::request(request.kind().opcode())
            };
            let header = Header { flags, repsize: 280, ..Header::default() };
            let mut bytes = Vec::new();
            // Handles live as long as the request is written.
            let handles = [callback.client_handle, callback.lock];
            with_handles(request, &handles).encode(&header, &body, &mut bytes);
            bytes
        });
        if let Some(running) = self.running(callback.target) {
            running.callbacks += 1;
        }
        self.calls.insert(key, callback);
    }

    /// A client has answered a callback, or has not.
    pub(super) fn on_answer(&mut self, turn: &mut Turn<'_>, key: CallKey, answer: Option<Vec<u8>>) {
        let Some(callback) = self.calls.remove(&key) else { return };
        let now = turn.now;
        let Some(answer) = answer else {
            // It may not have reached the client, or the answer was lost: both are harmless twice.
            let lives = self
                .running(callback.target)
                .is_some_and(|target| target.locks.get(callback.lock).is_some());
            let matters =
                lives || matches!(callback.ask, Ask::GivenUp { .. } | Ask::Glimpse { .. });
            match (matters, now >= callback.deadline) {
                (false, _) => {}
                (true, false) => return self.send_callback(turn, callback),
                (true, true) => self.evict_client(now, callback.target, callback.client),
            }
            if let Ask::Glimpse { job } = callback.ask {
                self.glimpsed(turn, job, None);
            }
            return;
        };
        let parsed = Message::parse_reply(&answer).ok();
        let status = parsed.as_ref().map_or(-errno::EPROTO, |(_, body)| body.status);
        let mut lvb = None;
        if let (Ask::Glimpse { .. }, Some((message, _)), 0) = (callback.ask, &parsed, status)
            && let Ok(Reply::LdlmGlCallback(reply)) = Reply::parse(Kind::LdlmGlCallback, message)
        {
            lvb = reply.lvb.object();
        }
        match status {
            0 => {}
            _ if status == -ELDLM::NO_LOCK_DATA => {}
            // The client does not have the lock.
            _ if status == -errno::EINVAL => {
                if let Some(target) = self.running(callback.target) {
                    target.locks.cancel(now.0, callback.client, [callback.lock]);
                }
            }
            _ => self.evict_client(now, callback.target, callback.client),
        }
        if let Ask::Glimpse { job } = callback.ask {
            self.glimpsed(turn, job, lvb);
        }
    }
}

/// A callback as a request, without its handles.
fn request_of<'a>(callback: &Callback, lvb: &'a [u8], _xid: u64) -> Request<'a> {
    let mut desc = callback.desc;
    let mut flags = LockFlags::empty();
    match callback.ask {
        Ask::Blocking { discard } => {
            flags.set(LockFlags::DISCARD_DATA, discard);
            let lock = LdlmRequest { flags, desc, ..LdlmRequest::default() };
            Request::LdlmBlCallback(dlm::Lock { lock })
        }
        Ask::Completion { wanted } => {
            flags.set(LockFlags::AST_SENT, wanted);
            let lock = LdlmRequest { flags, desc, ..LdlmRequest::default() };
            Request::LdlmCpCallback(dlm::Completion { lock, lvb: Lvb(lvb) })
        }
        Ask::GivenUp { deadlock } => {
            flags.set(LockFlags::FLOCK_DEADLOCK, deadlock);
            desc.granted_mode = LockMode::NONE;
            let lock = LdlmRequest { flags, desc, ..LdlmRequest::default() };
            Request::LdlmCpCallback(dlm::Completion { lock, lvb: Lvb(&[]) })
        }
        Ask::Glimpse { .. } => {
            let lock = LdlmRequest { flags, desc, ..LdlmRequest::default() };
            Request::LdlmGlCallback(dlm::Glimpse { lock, desc: Some(&[]) })
        }
    }
}

/// The request with the handles of its lock: the client's, and the server's.
fn with_handles<'a>(request: Request<'a>, handles: &'a [Handle]) -> Request<'a> {
    match request {
        Request::LdlmBlCallback(mut callback) => {
            callback.lock.handles = handles.into();
            Request::LdlmBlCallback(callback)
        }
        Request::LdlmCpCallback(mut callback) => {
            callback.lock.handles = handles.into();
            Request::LdlmCpCallback(callback)
        }
        Request::LdlmGlCallback(mut callback) => {
            callback.lock.handles = handles[..1].into();
            Request::LdlmGlCallback(callback)
        }
        other => other,
    }
}
