//! The servers of a node as a service of a partition.

mod callbacks;
mod connecting;
mod jobs;
mod locking;
mod management;
mod recovering;

use std::collections::{BTreeMap, BTreeSet};

use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::Resource;
use lustrine_fswire::opcode::Target as Kind;
use lustrine_lnet::event::Event;
use lustrine_lnet::md::Owner;
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::server::{BulkKey, CallKey, Received, RpcServer, ServerEvent};
use lustrine_wire::nid::{Nid, ProcessId};

use crate::disk::{Disk, Store};
use crate::running::{Job, Target, TargetTunables};
use crate::store::{QuotaHolder, QuotaLimits};
use callbacks::Callback;

/// A server to start.
#[derive(Clone, Debug)]
pub struct ServerArgs {
    /// The time since 1970 in seconds.
    pub wall_seconds: u64,
    /// A random number: handles of connections, locks and open files follow from it. Another one
    /// for each start.
    pub seed: u64,
    /// Settings of all targets.
    pub tunables: TargetTunables,
}

/// A summary of a target, for tests and tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// Its name, such as `lustre-MDT0000`.
    pub name: String,
    /// Whether it runs.
    pub running: bool,
    /// Clients that are connected.
    pub clients: usize,
    /// Locks of clients, with those that wait.
    pub locks: usize,
    /// Files that clients have open.
    pub opens: usize,
    /// Bytes that were promised to clients.
    pub granted: u64,
    /// Files, or objects.
    pub files: u64,
    /// Requests that are worked on.
    pub requests: usize,
    /// Replies that are kept for requests that are sent again.
    pub saved_replies: usize,
    /// Whether clients replay what was lost by a restart.
    pub recovering: bool,
    /// Clients that were evicted since the start.
    pub evictions: u64,
    /// Callbacks that were sent to clients since the start.
    pub callbacks: u64,
    /// The highest transaction on the disk.
    pub last_committed: u64,
    /// What clients did against the protocol, which a real server may or may not notice; the first
    /// few of it.
    pub violations: Vec<String>,
}

/// A lock, to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// The client, as it names itself; none for a lock of the server.
    pub client: Option<Vec<u8>>,
    /// What it covers.
    pub desc: lustrine_fswire::ldlm::LockDesc,
}

/// A target, or what it has left.
#[derive(Debug)]
enum Slot {
    Running(Box<Target>),
    Stopped(Box<Disk>),
}

/// What a job waits for.
#[derive(Debug)]
enum Waits {
    /// A lock of the server.
    Lock,
    /// Data of the client.
    Data,
    /// Data are on their way to the client, and then its reply is.
    Sent(Vec<u8>),
    /// A change is on the disk.
    Commit(u64),
    /// Answers of so many holders of locks.
    Glimpse(usize),
    /// Its turn among the replays of changes.
    Replay,
    /// The turn of replays of locks.
    LockReplay,
    /// The end of recovery.
    RecoveryEnd,
}

/// A job, its target, and what it waits for.
#[derive(Debug)]
struct Waiting {
    target: usize,
    waits: Waits,
    job: Job,
}

/// The servers of a node: management, metadata and object targets.
#[derive(Debug)]
pub struct Server {
    rpc: RpcServer,
    args: ServerArgs,
    slots: Vec<Slot>,
    jobs: BTreeMap<u64, Box<Waiting>>,
    next_job: u64,
    /// Transfers, by the jobs that wait for them.
    bulks: BTreeMap<BulkKey, u64>,
    calls: BTreeMap<CallKey, Callback>,
    /// Jobs that wait for the answer to a glimpse of a client that is gone.
    lost_glimpses: Vec<u64>,
    /// Objects that are being destroyed.
    destroying: BTreeSet<Fid>,
    /// The replay of each target that is worked on.
    replaying: BTreeMap<usize, u64>,
    starts: u64,
    /// Locks of configurations that are to be called back, with the index of the target.
    revocations: Vec<(usize, Resource)>,
    /// Whether clients are notified of targets that start.
    imperative_recovery: bool,
    retired: bool,
}

/// How long before a client gives up it is told that its request takes longer.
const EARLY_MARGIN: Nanos = Nanos::from_secs(5);
/// How much time is asked for then, in seconds.
const EARLY_EXTRA: u64 = 30;
/// What replies say of how long requests take, in seconds.
const ESTIMATE: u32 = 5;

impl Server {
    /// Starts the targets of some disks. `owner` is the owner of the service's descriptors.
    pub fn new(owner: Owner, args: ServerArgs, disks: Vec<Disk>) -> Server {
        let rpc = RpcServer::new(owner, args.wall_seconds);
        let mut server = Server {
            rpc,
            args,
            slots: disks.into_iter().map(|disk| Slot::Stopped(Box::new(disk))).collect(),
            jobs: BTreeMap::new(),
            next_job: 0,
            bulks: BTreeMap::new(),
            calls: BTreeMap::new(),
            lost_glimpses: Vec::new(),
            destroying: BTreeSet::new(),
            replaying: BTreeMap::new(),
            starts: 0,
            revocations: Vec::new(),
            imperative_recovery: true,
            retired: false,
        };
        for index in 0..server.slots.len() {
            server.start_target(index);
        }
        server
    }

    /// Starts a target that does not run.
    pub fn start_target(&mut self, index: usize) {
        self.starts += 1;
        let seed = self.args.seed.wrapping_add(self.starts.wrapping_mul(0xd134_2543_de82_ef95));
        if let Some(Slot::Stopped(disk)) = self.slots.get(index) {
            let target = Target::start(Disk::clone(disk), &self.args.tunables, seed);
            self.slots[index] = Slot::Running(Box::new(target));
            self.announce(index);
        }
    }

    /// A target crashes: what is not committed is lost, and what it was working on is not answered.
    /// It answers nothing until it is started.
    pub fn crash_target(&mut self, index: usize) {
        let Some(Slot::Running(target)) = self.slots.get_mut(index) else { return };
        let mut disk = target.disk.clone();
        disk.crash();
        self.slots[index] = Slot::Stopped(Box::new(disk));
        self.jobs.retain(|_, waiting| waiting.target != index);
        self.calls.retain(|_, call| call.target != index);
        self.bulks.retain(|_, job| self.jobs.contains_key(job));
        self.replaying.remove(&index);
        // What was to be destroyed is found again.
        self.destroying.clear();
    }

    /// Ends the server as a crash does. What is left are the disks.
    pub fn crash(mut self) -> Vec<Disk> {
        for index in 0..self.slots.len() {
            self.crash_target(index);
        }
        let disk = |slot| match slot {
            Slot::Stopped(disk) => *disk,
            Slot::Running(_) => unreachable!("all targets have crashed"),
        };
        self.slots.into_iter().map(disk).collect()
    }

    /// Summaries of all targets.
    pub fn targets(&self) -> Vec<TargetView> {
        self.slots.iter().enumerate().map(|(index, slot)| self.view(index, slot)).collect()
    }

    fn view(&self, index: usize, slot: &Slot) -> TargetView {
        let (disk, target) = match slot {
            Slot::Running(target) => (&target.disk, Some(target.as_ref())),
            Slot::Stopped(disk) => (disk.as_ref(), None),
        };
        let of_clients = |target: &Target| {
            target.locks.iter().filter(|(_, lock)| lock.client().is_some()).count()
        };
        let files = match &disk.store {
            Store::Mgs(_) => 0,
            Store::Mdt(store) => store.files(),
            Store::Ost(store) => store.len(),
        };
        TargetView {
            name: disk.name.clone(),
            running: target.is_some(),
            clients: target.map_or(0, |target| target.exports.len()),
            locks: target.map_or(0, of_clients),
            opens: target.map_or(0, |target| target.mdt.count()),
            granted: target.map_or(0, |target| target.ost.grants.values().sum()),
            files,
            requests: self.jobs.values().filter(|waiting| waiting.target == index).count(),
            saved_replies: disk.clients.replies(),
            recovering: target.is_some_and(|target| target.recovery.is_some()),
            evictions: target.map_or(0, |target| target.evictions),
            callbacks: target.map_or(0, |target| target.callbacks),
            last_committed: disk.journal.last_committed(),
            violations: disk.violations().to_vec(),
        }
    }

    /// The locks of a target.
    pub fn locks(&self, index: usize) -> Vec<LockView> {
        let Some(Slot::Running(target)) = self.slots.get(index) else { return Vec::new() };
        let view = |(_, lock): (Handle, &lustrine_ldlm::server::ServerLock)| LockView {
            client: lock.client().and_then(|client| Some(target.exports.get(client)?.uuid.clone())),
            desc: lock.desc,
        };
        target.locks.iter().map(view).collect()
    }

    /// Whether a target knows a client: it has what it got there, also after a restart.
    pub fn knows(&self, index: usize, uuid: &[u8]) -> bool {
        let disk = match self.slots.get(index) {
            Some(Slot::Running(target)) => &target.disk,
            Some(Slot::Stopped(disk)) => disk.as_ref(),
            None => return false,
        };
        disk.clients.knows(uuid)
    }

    /// Evicts a client from a target, as an administrator can. Whether it was connected.
    pub fn evict(&mut self, turn: &mut Turn<'_>, index: usize, uuid: &[u8]) -> bool {
        let cookie = self.running(index).and_then(|target| Some(target.exports.find(uuid)?.cookie));
        if let Some(cookie) = cookie {
            self.evict_client(turn.now, index, cookie);
            self.settle(turn);
        }
        cookie.is_some()
    }

    /// Limits what a user, a group or a project may have on an object target.
    pub fn set_quota(&mut self, index: usize, holder: QuotaHolder, limits: QuotaLimits) {
        let disk = match self.slots.get_mut(index) {
            Some(Slot::Running(target)) => &mut target.disk,
            Some(Slot::Stopped(disk)) => disk.as_mut(),
            None => return,
        };
        if let Store::Ost(store) = &mut disk.store {
            store.quotas.set(holder, limits);
        }
    }

    fn running(&mut self, index: usize) -> Option<&mut Target> {
        match self.slots.get_mut(index)? {
            Slot::Running(target) => Some(target),
            Slot::Stopped(_) => None,
        }
    }

    fn running_indexes(&self) -> Vec<usize> {
        let running = |(index, slot): (usize, &Slot)| match slot {
            Slot::Running(_) => Some(index),
            Slot::Stopped(_) => None,
        };
        self.slots.iter().enumerate().filter_map(running).collect()
    }

    /// Forgets a client, with all that it has.
    fn evict_client(&mut self, now: Time, index: usize, cookie: Handle) {
        if let Some(target) = self.running(index) {
            target.evictions += 1;
        }
        self.remove_client(now, index, cookie);
    }

    fn remove_client(&mut self, now: Time, index: usize, cookie: Handle) {
        let Some(target) = self.running(index) else { return };
        let Some(export) = target.exports.remove(cookie) else { return };
        target.disk.clients.remove(&export.uuid);
        target.locks.remove_client(now.0, cookie);
        target.drop_grant(cookie);
        if target.kind == Kind::Mdt {
            target.close_all(now, cookie);
        }
        if let Some(recovery) = &mut target.recovery {
            recovery.remove(&export.uuid);
        }
        self.drop_jobs(now, index, cookie);
        self.drop_calls(index, cookie);
    }

    /// Gives up what is worked on for a client.
    fn drop_jobs(&mut self, now: Time, index: usize, cookie: Handle) {
        let of_client = |waiting: &Waiting| waiting.target == index && waiting.job.export == cookie;
        let ids = self.jobs.iter().filter(|(_, waiting)| of_client(waiting)).map(|(id, _)| *id);
        let ids: Vec<u64> = ids.collect();
        for id in ids {
            self.drop_job(now, id);
        }
    }

    fn drop_job(&mut self, now: Time, id: u64) {
        let Some(mut waiting) = self.jobs.remove(&id) else { return };
        let index = waiting.target;
        if let Some(target) = self.running(index) {
            target.release(now, &mut waiting.job);
        }
        self.bulks.retain(|_, job| *job != id);
        if self.replaying.get(&index) == Some(&id) {
            self.replaying.remove(&index);
        }
    }

    /// Does what follows, until there is nothing more.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some(event) = self.rpc.next_event() {
                match event {
                    ServerEvent::Request(received) => self.on_request(turn, received),
                    ServerEvent::Bulk(key, result) => self.on_bulk(turn, key, result),
                    ServerEvent::Answer(key, answer) => self.on_answer(turn, key, answer),
                }
            }
            // What the events have made due is done here: only that can make more.
            let mut busy = self.revoke(turn);
            busy |= self.lose_glimpses(turn);
            for index in 0..self.slots.len() {
                busy |= self.drive_target(turn, index);
            }
            if !busy {
                return;
            }
        }
    }

    /// Does what is due at a target. Whether there was anything.
    fn drive_target(&mut self, turn: &mut Turn<'_>, index: usize) -> bool {
        let now = turn.now;
        let Some(target) = self.running(index).filter(|target| target.is_due(now)) else {
            return false;
        };
        let mut busy = false;
        if target.disk.journal.drive(now) {
            busy = true;
            let upto = target.disk.journal.committed_step();
            target.disk.commit(upto);
            self.committed(turn, index, upto);
        }
        let Some(target) = self.running(index) else { return busy };
        target.locks.drive(now.0);
        while let Some(event) = self.running(index).and_then(|target| target.locks.next_event()) {
            busy = true;
            self.on_lock_event(turn, index, event);
        }
        busy |= self.drive_recovery(turn, index);
        busy |= self.evict_silent(now, index);
        busy
    }

    /// Clients of which nothing is heard are gone. Whether there were any: others may wait for
    /// their locks.
    fn evict_silent(&mut self, now: Time, index: usize) -> bool {
        let silence_max = self.args.tunables.silence_max;
        let due = |target: &&mut Target| target.recovery.is_none() && target.silent_at <= now;
        let Some(target) = self.running(index).filter(due) else { return false };
        let silent = target.exports.iter().filter(|export| export.last_heard + silence_max <= now);
        let silent: Vec<Handle> = silent.map(|export| export.cookie).collect();
        let others = target.exports.iter().map(|export| export.last_heard);
        let oldest = others.filter(|heard| *heard + silence_max > now).min().unwrap_or(now);
        target.silent_at = oldest + silence_max;
        for cookie in &silent {
            self.evict_client(now, index, *cookie);
        }
        !silent.is_empty()
    }

    /// Tells clients whose requests take long that they shall wait longer.
    fn send_early_replies(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        for waiting in self.jobs.values_mut() {
            let job = &mut waiting.job;
            if !is_early(job) || early_at(job) > now {
                continue;
            }
            let elapsed = now.since(job.received.arrived).0 / 1_000_000_000;
            let estimate = elapsed + EARLY_EXTRA;
            self.rpc.early_reply(turn, &job.received, job.reply_bits, estimate as u32);
            let allowed = estimate + estimate / 4 + 5;
            job.deadline = job.received.arrived + Nanos::from_secs(allowed);
        }
    }

    /// Sends a reply, with what the target has on its disk.
    fn send(&mut self, turn: &mut Turn<'_>, index: usize, job: &Job, mut message: Vec<u8>) {
        let committed =
            self.running(index).map_or(0, |target| target.disk.journal.last_committed());
        let elapsed = turn.now.since(job.received.arrived).0 / 1_000_000_000;
        crate::answer::change_body(&mut message, |body: &mut PtlrpcBody| {
            body.last_committed = committed;
            body.timeout = ESTIMATE;
            body.service_time = (elapsed as u32).max(1);
        });
        self.rpc.reply(turn, &job.received, job.reply_bits, &message);
    }

    /// Answers a request that no target takes.
    fn refuse(&mut self, turn: &mut Turn<'_>, received: &Received, match_bits: u64, errno: i32) {
        let message = crate::answer::failure(received.body.opcode, errno);
        self.rpc.reply(turn, received, match_bits, &message);
    }

    /// Where a client is.
    fn place_of(&mut self, index: usize, client: Handle) -> Option<(ProcessId, Nid)> {
        let export = self.running(index)?.exports.get(client)?;
        Some((export.peer, export.local))
    }
}

/// Whether the client of a job can be told that it takes longer.
fn is_early(job: &Job) -> bool {
    job.received.early_replies
}

fn early_at(job: &Job) -> Time {
    Time(job.deadline.0.saturating_sub(EARLY_MARGIN.0).max(job.received.arrived.0 + 1))
}

impl Service for Server {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        self.rpc.on_event(turn, event);
        // Most events only say that a reply was sent.
        if !self.retired && self.rpc.has_events() {
            self.settle(turn);
        }
    }

    fn on_peer_down(&mut self, _turn: &mut Turn<'_>, _peer: &ProcessId, _status: Status) {
        // Transfers end by themselves, callbacks are sent again, and clients come back.
    }

    fn drive(&mut self, turn: &mut Turn<'_>) {
        self.rpc.drive(turn);
        if !self.retired {
            self.settle(turn);
            self.send_early_replies(turn);
        }
    }

    fn next_deadline(&self) -> Time {
        let mut next = self.rpc.next_deadline();
        if self.retired {
            return next;
        }
        if !self.revocations.is_empty() || !self.lost_glimpses.is_empty() {
            return Time::ZERO;
        }
        for slot in &self.slots {
            let Slot::Running(target) = slot else { continue };
            next = next.min(target.disk.journal.next_deadline());
            next = next.min(target.locks.next_deadline().map_or(Time::NEVER, Time));
            match &target.recovery {
                Some(recovery) => next = next.min(recovery.next_deadline()),
                None if target.exports.is_empty() => {}
                None => next = next.min(target.silent_at),
            }
        }
        let early = self.jobs.values().filter(|waiting| is_early(&waiting.job));
        early.map(|waiting| early_at(&waiting.job)).fold(next, Time::min)
    }

    fn retire(&mut self, turn: &mut Turn<'_>) {
        self.retired = true;
        self.rpc.close(turn);
    }

    fn is_quiet(&self) -> bool {
        self.rpc.is_quiet()
    }
}
