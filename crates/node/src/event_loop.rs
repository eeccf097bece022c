//! One event loop per CPU partition: the only place where logic meets I/O.
//!
//! A turn: collect reports of the poller and messages of other threads, let the driver read, let
//! the core and its users work on what came, queue everything to be sent, let the driver write.
//! Whatever many peers caused in one turn leaves in one system call per connection.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use lustrine_lnet::lnd::PollOutcome;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_partition::{
    ClientBusy, Driver, NodePartition, PASSES_MAX, ProbeId, ProbeResult, StreamReport,
};
use lustrine_selftest::Client;
use lustrine_socklnd::Handoff;
use lustrine_sys::{Clock, Interest, Mailbox, Ready, Sleeper};

use crate::error::LoadError;
use crate::idle::{IdlePolicy, LOOK_INTERVAL, Wait};
use crate::listener::{BoundClaim, BoundListener};
use crate::loop_io::{LoopIo, OTHER_TOKEN};
use crate::mailbox::{ConsoleMessage, LOAD_SLOT, LoadId, LoadReport, LoadRequest, LoopMessage};
use crate::outbox::Outbox;
use crate::watch::Watch;

mod changes;
mod report;

/// Most connections accepted per listener and turn.
const ACCEPTS_MAX: usize = 64;

/// How long a listener rests when descriptors or memory are used up.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);

const WAKE_TOKEN: u64 = u64::MAX;

/// Everything one event loop owns.
pub(crate) struct EventLoop {
    pub(crate) cpt: u16,
    pub(crate) partition: NodePartition,
    pub(crate) io: LoopIo,
    /// Tokens count here, so a listener that is closed leaves its place empty.
    pub(crate) listeners: Vec<Option<BoundListener>>,
    /// Its addresses, if it does not listen.
    pub(crate) claims: Vec<BoundClaim>,
    pub(crate) mailbox: Mailbox<LoopMessage>,
    /// The way to the other loops.
    pub(crate) outbox: Outbox<LoopMessage>,
    pub(crate) sleeper: Sleeper,
    pub(crate) waiting: IdlePolicy,
    /// When the poller was asked last.
    pub(crate) looked_at: Time,
    /// Listeners stay closed until then.
    pub(crate) accept_paused_until: Time,
    pub(crate) stopping: bool,
    /// The callers that wait for pings and discoveries.
    pub(crate) replies: HashMap<u64, mpsc::Sender<ProbeResult>>,
    pub(crate) tickets: u64,
    /// The latest selftest load.
    pub(crate) load: Option<LoadId>,
    /// Where outcomes of a console's orders go, once it has given one.
    pub(crate) console: Option<mpsc::Sender<ConsoleMessage>>,
    /// Logs events of the network.
    pub(crate) watch: Watch,
}

impl EventLoop {
    /// Registers listeners and the waker.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        self.io.poller.add(&self.sleeper, WAKE_TOKEN, Interest::WakeUp)?;
        for (index, listener) in self.listeners.iter().enumerate() {
            let Some(listener) = listener else { continue };
            self.io.poller.add(&listener.socket, OTHER_TOKEN | index as u64, Interest::Readable)?;
        }
        Ok(())
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self) {
        if let Err(error) = lustrine_sys::thread::minimize_timer_slack() {
            tracing::debug!(%error, "timers stay coarse");
        }
        let mut ready = Vec::with_capacity(256);
        while !self.stopping {
            ready.clear();
            let now = self.wait(&mut ready);
            self.turn(now, &ready);
        }
        self.log_events(None);
        let now = Time(Clock::Monotonic.now());
        self.partition.close(now, &mut self.io, Status::Shutdown);
    }

    /// Waits until there is something to do, and collects the poller's reports. Returns the time.
    fn wait(&mut self, ready: &mut Vec<Ready>) -> Time {
        let deadline = self.next_deadline();
        let mut now = Time(Clock::Monotonic.now());
        let busy = self.partition.has_work() || !self.outbox.is_empty();
        if busy || now >= deadline || !self.mailbox.is_empty() {
            self.waiting.found();
            return self.look(Some(Duration::ZERO), ready);
        }
        while now < deadline && self.mailbox.is_empty() {
            match self.waiting.next(now) {
                Wait::Look => {}
                Wait::Yield => {
                    std::thread::yield_now();
                    let start = std::mem::replace(&mut now, Time(Clock::Monotonic.now()));
                    self.waiting.yielded(start, now);
                }
                Wait::Sleep => {
                    let limit = (deadline != Time::NEVER)
                        .then(|| Duration::from_nanos(deadline.since(now).0));
                    now = self.sleep(limit, ready);
                    break;
                }
            }
            let polled = if now.since(self.looked_at) < LOOK_INTERVAL {
                self.partition.poll(now, &mut self.io)
            } else {
                PollOutcome::NotPolled
            };
            now = match polled {
                PollOutcome::Found => break,
                PollOutcome::Nothing => Time(Clock::Monotonic.now()),
                PollOutcome::NotPolled => self.look(Some(Duration::ZERO), ready),
            };
            if !ready.is_empty() {
                break;
            }
        }
        self.waiting.found();
        now
    }

    /// Sleeps until there is a report or a message of another thread.
    fn sleep(&mut self, limit: Option<Duration>, ready: &mut Vec<Ready>) -> Time {
        self.sleeper.arm();
        let limit = if self.mailbox.is_empty() { limit } else { Some(Duration::ZERO) };
        let now = self.look(limit, ready);
        self.sleeper.disarm();
        now
    }

    fn look(&mut self, limit: Option<Duration>, ready: &mut Vec<Ready>) -> Time {
        if let Err(error) = self.io.wait(limit, ready) {
            // Only our own mistakes end a poller: the node cannot go on without it.
            panic!("the poller of CPT {} failed: {error}", self.cpt);
        }
        self.looked_at = Time(Clock::Monotonic.now());
        self.looked_at
    }

    /// When there is something to do although nothing is reported.
    fn next_deadline(&self) -> Time {
        let rest = if self.accept_paused_until == Time::ZERO {
            Time::NEVER
        } else {
            self.accept_paused_until
        };
        let others = rest.min(self.watch.deadline()).min(self.io.release_deadline());
        self.partition.next_deadline().min(others)
    }

    fn turn(&mut self, now: Time, ready: &[Ready]) {
        self.outbox.deliver();
        for report in ready {
            if report.token == WAKE_TOKEN {
                continue;
            }
            if report.token & OTHER_TOKEN != 0 {
                self.accept_pending(now, (report.token & !OTHER_TOKEN) as usize);
            } else if let Some((sock, readiness)) = self.io.readiness(report) {
                self.partition.report(now, &mut self.io, StreamReport::Ready { sock, readiness });
            }
        }
        self.read_mailbox(now);
        self.resume_accepting(now);
        let mut pass_at = now;
        for _ in 0..PASSES_MAX {
            if !self.partition.pass(pass_at, &mut self.io) {
                break;
            }
            pass_at = Time(Clock::Monotonic.now());
        }
        while let Some((sock, readiness)) = self.io.next_copied() {
            self.partition.report(now, &mut self.io, StreamReport::Ready { sock, readiness });
        }
        self.pass_on_handoffs();
        while let Some((cpt, cross)) = self.partition.take_cpt_message() {
            self.outbox.send(usize::from(cpt), LoopMessage::CptMessage(Box::new(cross)));
        }
        while let Some((ticket, result)) = self.partition.next_result() {
            if let Some(reply) = self.replies.remove(&ticket.0) {
                // The caller may have given up.
                let _ = reply.send(result);
            }
        }
        while let Some(outcome) = self.partition.next_rpc_outcome() {
            if let Some(console) = &self.console {
                // A console that has stopped wants nothing any more.
                let _ = console.send(ConsoleMessage::RpcOutcome(outcome));
            }
        }
        if self.watch.is_due(now) {
            self.log_events(Some(now));
        }
        self.io.release_memory(now);
    }

    /// Logs what is due; everything, if there is no time, as the loop ends.
    fn log_events(&mut self, now: Option<Time>) {
        let counters = self.partition.driver().counter_rows();
        let offenders = self.partition.take_offenders();
        self.watch.log_changes(now, self.cpt, &counters, &offenders);
        Watch::report_strangers(self.cpt, &self.partition.take_notices());
    }

    fn accept_pending(&mut self, now: Time, index: usize) {
        if self.accept_paused_until != Time::ZERO {
            return;
        }
        for _ in 0..ACCEPTS_MAX {
            let Some(Some(listener)) = self.listeners.get(index) else { return };
            let accepted = match listener.socket.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, local = %listener.local, "cannot accept; resting");
                    self.pause_accepting(now);
                    return;
                }
            };
            let local = listener.local;
            let Some(ni) = self.partition.driver().ni_at(local) else { return };
            match self.io.adopt(accepted.socket) {
                Ok(sock) => {
                    let report = StreamReport::Accepted { sock, ni, local, remote: accepted.peer };
                    self.partition.report(now, &mut self.io, report);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot watch an accepted connection; closed");
                    return;
                }
            }
        }
    }

    /// Takes the listeners out of the poller, which would report them again and again.
    fn pause_accepting(&mut self, now: Time) {
        self.accept_paused_until = now + ACCEPT_PAUSE;
        for listener in self.listeners.iter().flatten() {
            let _ = self.io.poller.remove(&listener.socket);
        }
    }

    fn resume_accepting(&mut self, now: Time) {
        if self.accept_paused_until == Time::ZERO || now < self.accept_paused_until {
            return;
        }
        self.accept_paused_until = Time::ZERO;
        for (index, listener) in self.listeners.iter().enumerate() {
            let Some(listener) = listener else { continue };
            let token = OTHER_TOKEN | index as u64;
            if let Err(error) = self.io.poller.add(&listener.socket, token, Interest::Readable) {
                tracing::error!(%error, local = %listener.local, "cannot listen any more");
            }
        }
    }

    /// Accepted connections whose peer lives on another CPU partition.
    fn pass_on_handoffs(&mut self) {
        while let Some((home, handoff)) = self.partition.next_handoff() {
            if let Some(socket) = self.io.release(handoff.sock) {
                self.outbox
                    .send(usize::from(home), LoopMessage::Handoff(Box::new((socket, handoff))));
            }
        }
    }

    fn read_mailbox(&mut self, now: Time) {
        let mut messages = Vec::new();
        self.mailbox.drain(|message| messages.push(message));
        for message in messages {
            self.handle_message(now, message);
        }
    }

    fn handle_message(&mut self, now: Time, message: LoopMessage) {
        match message {
            LoopMessage::Stop => self.stopping = true,
            LoopMessage::Heartbeat(reply) => {
                // The caller may have given up.
                let _ = reply.send(self.cpt);
            }
            LoopMessage::CptMessage(cross) => self.partition.accept_cpt_message(*cross),
            LoopMessage::Handoff(parcel) => {
                let (socket, handoff) = *parcel;
                self.adopt_handoff(now, socket, handoff);
            }
            LoopMessage::Ping { nid, timeout, reply } => {
                let ticket = self.ticket(reply);
                self.partition.ping(now, &mut self.io, ticket, &nid, timeout);
            }
            LoopMessage::Discover { nid, timeout, reply } => {
                let ticket = self.ticket(reply);
                self.partition.discover(now, &mut self.io, ticket, &nid, timeout);
            }
            LoopMessage::Report(reply) => {
                // The caller may have given up.
                let _ = reply.send(self.report());
            }
            LoopMessage::Change(order) => {
                let changed = self.change(now, *order);
                tracing::debug!(cpt = self.cpt, ?changed, "changed");
            }
            LoopMessage::Snapshot(query, reply) => {
                let _ = reply.send(self.snapshot(query));
            }
            LoopMessage::Conns(only, reply) => {
                let _ = reply.send(self.conns(only));
            }
            LoopMessage::Load(order) => self.obey(now, order),
            LoopMessage::ConsoleRpc(order, console) => {
                self.console = Some(console);
                self.partition.start_console_rpc(*order);
            }
            LoopMessage::CancelConsoleRpc(order) => self.partition.cancel_console_rpc(order),
            LoopMessage::Work(work) => work(now, &mut self.partition, &mut self.io),
        }
    }

    /// Orders about a selftest load; the caller may have given up.
    fn obey(&mut self, now: Time, order: LoadRequest) {
        match order {
            LoadRequest::Start { args, load, reply } => {
                let started = self.partition.start_client(now, *args);
                if started.is_ok() {
                    self.load = Some(load);
                }
                let answered = reply.send(started.map_err(|ClientBusy| LoadError::Busy));
                // A caller that has given up would never end the load.
                if answered.is_err()
                    && let Some(client) = self.client_of(load)
                {
                    client.finish(now);
                }
            }
            LoadRequest::LoadStep { step, load, reply } => {
                let taken = match self.client_of(load) {
                    Some(client) => client.start_step(step).map_err(LoadError::LoadStep),
                    None => Err(LoadError::None),
                };
                let _ = reply.send(taken);
            }
            LoadRequest::Progress { load, reply } => {
                let report = self.client_of(load).map(|client| LoadReport {
                    connected: client.is_connected(),
                    step_finished: client.step_finished(),
                    has_progressed: client.has_progressed(),
                    finished: client.finished(),
                    error: client.error(),
                    snapshot: client.progress(now),
                });
                let _ = reply.send(report.ok_or(LoadError::None));
            }
            LoadRequest::Finish { load } => {
                if let Some(client) = self.client_of(load) {
                    client.finish(now);
                }
            }
        }
    }

    /// The client of a load, unless another load has taken its place.
    fn client_of(&mut self, load: LoadId) -> Option<&mut Client> {
        if self.load == Some(load) { self.partition.client(LOAD_SLOT) } else { None }
    }

    fn ticket(&mut self, reply: mpsc::Sender<ProbeResult>) -> ProbeId {
        self.tickets += 1;
        self.replies.insert(self.tickets, reply);
        ProbeId(self.tickets)
    }

    fn adopt_handoff(&mut self, now: Time, socket: lustrine_sys::Socket, handoff: Handoff) {
        match self.io.adopt(socket) {
            Ok(sock) => {
                let handoff = Handoff { sock, ..handoff };
                self.partition.adopt(now, &mut self.io, handoff);
            }
            Err(error) => tracing::warn!(%error, "cannot watch a connection handed over; closed"),
        }
    }
}
