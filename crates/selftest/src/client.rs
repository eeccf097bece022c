//! The load generator: one node, at most one session, one step of load after the other.
//!
//! A step keeps a number of RPCs of one test outstanding for a time or a count. Connections,
//! discovery and the first RPC of every unit are over before its clock starts. A node that dies
//! and returns costs errors and time, both of which are reported; the load continues by itself.

mod link;
mod liveness;
mod run;
mod step_stats;
mod units;

use crate::tunables::Tunables;
use lustrine_congestion::View;
use lustrine_lnet::event::Event;
use lustrine_lnet::md::Owner;
use lustrine_lnet::memory::Memory;
use lustrine_lnet::shard::Shard;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{CONCURRENCY_MAX, Counters, FEATURES_KNOWN, Name, Sid};

use crate::bulk::{Budget, Source};
use crate::errno;
use crate::latencies::Latencies;
use crate::load::{HarmfulTest, Plan, Test, TestError};
use crate::mark::{ClientSlot, Mark, Role, console_number};
use crate::rpc::{PeerWindow, RpcClient, RpcError};
use crate::turn::Turn;
use link::{CONTROL, Link, LinkConfig};
use liveness::Liveness;
use run::WARM_UP_EXTRA;
use step_stats::StepStats;
use units::Units;

/// What to do about another's session on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    /// Leave it alone and give up.
    IfFree,
    /// End it.
    Force,
    /// Leave it alone, and make none: tests need no session [LST-29], so that several
    /// clients can load one node. Such a client counts as connected at once, does not make the node
    /// post request buffers, and does not ask for its counters.
    NoSession,
}

/// What a client is made with.
#[derive(Clone, Copy, Debug)]
pub struct ClientArgs {
    /// The node to load.
    pub target: ProcessId,
    /// The NID of ours to send from; `None` leaves the choice to LNet.
    pub local: Option<Nid>,
    /// This node's NID, which names the session. One with a 16-byte address does not fit there;
    /// a substitute made from it does; the name is never used as an address.
    pub console: Nid,
    /// Distinguishes the clients of one process; not [`ClientSlot::SERVICE`].
    pub slot: ClientSlot,
    /// The session's name, seen by others who want the node.
    pub name: Name,
    /// What to do about another's session.
    pub session: SessionMode,
    /// How long the node may be silent before the client gives up. Silence begins with the last
    /// message that arrived of it, or with the first request that it left without an answer.
    pub patience: Nanos,
    /// The wall clock at the start.
    pub wall: WallClock,
}

/// A load of one kind, until its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadStep {
    /// The RPC of the load.
    pub test: Test,
    /// RPCs outstanding, 1 to 1024.
    pub concurrency: u32,
    /// The duration or number of operations of the step.
    pub limit: StepLimit,
    /// Least time before the measurement begins. It waits until every unit's first RPC has ended,
    /// successfully or not, but at most 10 s longer.
    pub warm_up: Nanos,
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepLimit {
    /// After this much measured time.
    Time(Nanos),
    /// After this many measured RPCs, failed ones included.
    Count(u64),
}

/// Why a step is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadStepError {
    /// It would harm the node.
    #[error(transparent)]
    HarmfulTest(#[from] HarmfulTest),
    /// Outside 1 to 1024.
    #[error("concurrency {0} is outside 1..=1024")]
    Concurrency(u32),
    /// Another step runs, or the client is closing.
    #[error("the client is not ready for a step")]
    NotReady,
}

/// Why a client gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The node did not answer for as long as the client's patience lasts.
    #[error("the node did not answer{}", last_failure(.0))]
    NoAnswer(Option<RpcError>),
    /// The node did not answer when it should remove the session.
    #[error("the node did not end the session ({0}); it does so when the session expires")]
    NotRemoved(RpcError),
    /// Another session holds the node.
    #[error("the node is in session {name} of {holder}; end it there")]
    Busy {
        /// The identifier of that session.
        holder: Sid,
        /// The name of that session.
        name: Name,
    },
    /// The node refused a framework request.
    #[error("{}", refusal(service, *status))]
    Refused {
        /// The service.
        service: &'static str,
        /// The status, a positive errno.
        status: u32,
    },
    /// The step's buffers do not fit into `selftest_memory`.
    #[error(
        "the step needs {} MiB of memory for bulk data at this node: set selftest_memory to that, \
         or use less concurrency",
        .needed.div_ceil(1 << 20)
    )]
    Memory {
        /// The bytes that the step needs.
        needed: u64,
    },
    /// The node answers, but does not keep a session.
    #[error("the node does not keep the session")]
    Forgetful,
}

fn refusal(service: &str, status: u32) -> String {
    match (status, errno::name(status)) {
        (errno::EPERM, _) => format!(
            "the node refused {service}: it takes no load from this console. On that node add the \
             NID of this console to `selftest_consoles`, or set `selftest: full` without such a \
             list"
        ),
        (_, Some(name)) => format!("the node refused {service} with {name}"),
        (_, None) => format!("the node refused {service} with error {status}"),
    }
}

fn last_failure(failure: &Option<RpcError>) -> String {
    failure.map_or_else(String::new, |failure| format!(" ({failure})"))
}

/// What the client is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No step.
    Idle,
    /// A step waits for the session and for the node's counters, if there are to be any.
    Before,
    /// Units run; the clock may not run yet.
    Running,
    /// Units finish their RPCs until this time.
    Draining(Drain),
    /// Waiting for the node's counters.
    After,
}

/// What the end of a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// The last RPCs, which may end as long as anything arrives; silent until then, the node is
    /// asked whether it is there.
    Rpcs(Time),
    /// Its answer: the link has the patience, and ends the client if need be.
    Answer,
    /// It is there; what is silent until then is lost.
    Late(Time),
    /// The last events of what was given up.
    Events,
}

/// The progress of a client, available at any time.
#[derive(Clone, Debug)]
pub struct LoadProgress {
    /// Measured time so far: rates are `ops` and `bytes` over it.
    pub elapsed: Nanos,
    /// Successful RPCs that ended in the measured time.
    pub ops: u64,
    /// Payload bytes they moved.
    pub bytes: u64,
    /// Failed RPCs by kind, those of the warm-up and those still out at the end included.
    pub errors: Vec<(TestError, u64)>,
    /// Latencies of the successful RPCs that were in flight at some time of the measured time,
    /// from the start of each to its last event. It includes RPCs that end after the measured
    /// time, so it may hold up to `concurrency` more than [`ops`](LoadProgress::ops).
    pub latencies: Latencies,
    /// RPCs of the measured time that never ended: no answer came, and they were given up.
    pub lost: u64,
    /// How old the oldest of them was when it was given up; 0 if there is none.
    pub lost_age_max: Nanos,
    /// RPCs in flight.
    pub outstanding: u32,
    /// Part of the measured time in which the node was not known to be there.
    pub down: Nanos,
    /// What is known of the path to the node, with `selftest_auto`.
    pub window: Option<View>,
    /// The node's counters before and after, if it gave both.
    pub server: Option<(Counters, Counters)>,
}

/// Loads one node. It belongs beside the shard of the CPU partition that owns the target's NID
/// ([`home_of`](lustrine_lnet::topology::home_of)): replies arrive there.
#[derive(Debug)]
pub struct Client {
    owner: Owner,
    args: ClientArgs,
    link: Link,
    caller: RpcClient,
    source: Source,
    budget: Budget,
    wall: WallClock,
    timeout: Nanos,
    step: Option<(LoadStep, Plan)>,
    phase: Phase,
    units: Units,
    stats: StepStats,
    error: Option<ClientError>,
    /// When units were first started.
    started: Time,
    /// Whether the least time of the warm-up is over.
    warmed_up: bool,
    seq: u32,
    /// Whether a test RPC has succeeded yet.
    progressed: bool,
    /// What arrives of the node.
    signs: Liveness,
    /// The node fell silent then; since it was asked it has said that it is there, but no more.
    suspect_since: Option<Time>,
    /// How long its answer to that took.
    answer_took: Nanos,
    /// Since when the node has not been usable.
    down_since: Option<Time>,
    /// When it became usable; silence counts from here.
    up_since: Time,
    was_usable: bool,
    /// Since when the step has been unable to begin, or to go on.
    stuck_since: Option<Time>,
    /// Whether the step was ended from outside: RPCs that this cuts off did not fail.
    interrupted: bool,
}

impl Client {
    /// A client that makes its session at once, if it is to have one.
    pub fn new(owner: Owner, now: Time, args: ClientArgs, tunables: &Tunables) -> Client {
        let timeout = Nanos::from_secs(tunables.rpc_timeout.max(1) as u64);
        let millis =
            args.wall.start_secs().wrapping_mul(1000).wrapping_add(now.0 / 1_000_000 % 1000);
        let terms = LinkConfig {
            peer: args.target,
            local: args.local,
            sid: Sid {
                nid: console_number(&args.console),
                stamp: (millis & i64::MAX as u64) as i64,
            },
            name: args.name,
            session: args.session,
            patience: args.patience,
            rpc_timeout: timeout,
        };
        Client {
            owner,
            link: Link::new(terms),
            // One more than units can have outstanding: the control RPC.
            caller: RpcClient::new(args.slot, args.wall.start_secs(), CONCURRENCY_MAX + 1)
                .with_windows(args.wall, tunables),
            source: Source::default(),
            budget: Budget::new(tunables.selftest_memory, 1),
            wall: args.wall,
            timeout,
            step: None,
            phase: Phase::Idle,
            units: Units::default(),
            stats: StepStats::new(),
            error: None,
            started: now,
            warmed_up: false,
            seq: 0,
            progressed: false,
            signs: Liveness::default(),
            suspect_since: None,
            answer_took: Nanos(0),
            down_since: None,
            up_since: now,
            was_usable: false,
            stuck_since: None,
            interrupted: false,
            args,
        }
    }

    /// Distinguishes it from the other clients of the node.
    pub fn slot(&self) -> ClientSlot {
        self.args.slot
    }

    /// Takes a step; it begins when the session is there.
    ///
    /// # Errors
    /// When the step is dangerous or out of range, or another one has not ended.
    pub fn start_step(&mut self, step: LoadStep) -> Result<(), LoadStepError> {
        let plan = Plan::new(step.test, FEATURES_KNOWN, 0)?;
        if !(1..=CONCURRENCY_MAX).contains(&step.concurrency) {
            return Err(LoadStepError::Concurrency(step.concurrency));
        }
        if self.phase != Phase::Idle || !self.link.is_open() {
            return Err(LoadStepError::NotReady);
        }
        self.stats.clear();
        self.progressed = false;
        self.suspect_since = None;
        self.answer_took = Nanos(0);
        self.down_since = None;
        self.stuck_since = None;
        self.interrupted = false;
        self.link.want_service(step.test.service(), step.concurrency);
        self.link.want_counters();
        self.step = Some((step, plan));
        self.phase = Phase::Before;
        Ok(())
    }

    /// Ends the step, if one runs, and then the session.
    pub fn finish(&mut self, now: Time) {
        match self.phase {
            Phase::Idle => {}
            Phase::Before | Phase::After => self.phase = Phase::Idle,
            Phase::Running | Phase::Draining(_) => {
                self.interrupted = true;
                self.end_measurement(now);
            }
        }
        self.link.close(now);
    }

    /// Whether the last step is over; its statistics stay until the next one starts.
    pub fn step_finished(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether an RPC of the running step, or of the last one, has succeeded, be it before the
    /// measured time.
    pub fn has_progressed(&self) -> bool {
        self.progressed
    }

    /// Whether the session is there, or none is needed and nothing is wrong.
    pub fn is_connected(&self) -> bool {
        self.link.is_present()
    }

    /// Whether nothing is left to do: the session is removed, or the client gave up; and its memory
    /// is given back.
    pub fn finished(&self) -> bool {
        self.is_over() && !self.holds_memory()
    }

    /// Whether nothing is left to do but to give memory back.
    fn is_over(&self) -> bool {
        self.link.is_closed() && self.caller.in_flight() == 0 && self.phase == Phase::Idle
    }

    fn holds_memory(&self) -> bool {
        self.caller.holds_memory() || self.source.holds_memory()
    }

    /// Why the client gave up, if it did.
    pub fn error(&self) -> Option<ClientError> {
        self.error.or(self.link.error())
    }

    /// The statistics of the step that runs, or of the last one.
    pub fn progress(&self, now: Time) -> LoadProgress {
        let stats = &self.stats;
        let down_now = match self.down_since {
            Some(since) if stats.is_measuring() => now.since(since),
            _ => Nanos(0),
        };
        LoadProgress {
            elapsed: stats.elapsed(now),
            ops: stats.ops,
            bytes: stats.bytes,
            errors: stats.errors.clone(),
            latencies: stats.latencies.clone(),
            lost: stats.lost,
            lost_age_max: stats.lost_age_max,
            outstanding: self.units.calling(),
            down: Nanos(stats.down.0 + down_now.0),
            window: self.caller.window(&self.args.target),
            server: stats.before.zip(stats.after),
        }
    }

    /// The window to the node that it loads, with `selftest_auto` and while RPCs are in flight.
    pub fn window_in_use(&self) -> Option<PeerWindow> {
        self.caller.windows_in_use().next()
    }

    /// Successful RPCs and payload bytes so far; cheap, for a live view.
    pub fn counts(&self) -> (u64, u64) {
        (self.stats.ops, self.stats.bytes)
    }

    /// Measured time so far; cheap, for a live view.
    pub fn elapsed(&self, now: Time) -> Nanos {
        self.stats.elapsed(now)
    }

    /// Takes in an event; those of others are left alone.
    pub fn handle<M: Memory>(
        &mut self,
        now: Time,
        shard: &mut Shard,
        memory: &mut M,
        event: &Event,
    ) {
        let Some(mark) = Mark::of(event) else { return };
        if mark.role != Role::RpcClient(self.args.slot) {
            return;
        }
        let turn = &mut Turn { now, owner: self.owner, shard, memory };
        let completion = self.caller.handle(turn, mark, event);
        let Some(completion) = &completion else { return };
        if completion.user == CONTROL {
            self.look(turn, if completion.outcome.is_ok() { 1 } else { 0 });
            let news = self.link.complete(now, self.signs.heard_at(), completion);
            self.hear(turn, news);
        } else {
            self.complete(turn, completion);
        }
    }

    /// A peer lost its last connection, or restarted: what is awaited of it will not come.
    pub fn peer_lost<M: Memory>(
        &mut self,
        now: Time,
        shard: &mut Shard,
        memory: &mut M,
        peer: &ProcessId,
        status: Status,
    ) {
        let turn = &mut Turn { now, owner: self.owner, shard, memory };
        self.caller.peer_lost(turn, peer, status);
    }

    /// Once per loop turn, after the events.
    pub fn drive<M: Memory>(&mut self, now: Time, shard: &mut Shard, memory: &mut M) {
        let turn = &mut Turn { now, owner: self.owner, shard, memory };
        self.look(turn, 0);
        self.caller.expire(turn);
        self.link.drive(turn, &mut self.caller, self.signs.heard_at());
        if let (Some(error), None) = (self.link.error(), self.error) {
            self.give_up(turn, error);
        }
        if self.phase == Phase::Before && !self.link.has_session() {
            self.start_units(turn);
        }
        self.mind_progress(turn);
        match self.phase {
            Phase::Idle | Phase::Before | Phase::After => {}
            Phase::Running => self.run(turn),
            Phase::Draining(drain) => self.drain(turn, drain),
        }
        while self.caller.take_due_peer(turn.now).is_some() {
            self.pump(turn);
        }
        if self.is_over() {
            self.caller.release_memory(turn.memory);
            self.source.release(turn.memory);
        }
    }

    /// When [`Client::drive`] has something to do at the latest.
    pub fn next_deadline(&self) -> Time {
        if self.is_over() && self.holds_memory() {
            // The last event came behind the last turn.
            return Time::ZERO;
        }
        let load = match (self.phase, self.step) {
            (Phase::Running, Some((step, _))) => {
                let end = match (step.limit, self.stats.measured_from) {
                    (StepLimit::Time(length), Some(from)) => from + length,
                    // Once it is over, what is left are events, or the end of the extra time.
                    (_, None) if self.warmed_up => self.started + step.warm_up + WARM_UP_EXTRA,
                    (_, None) => self.started + step.warm_up,
                    (StepLimit::Count(_), _) => Time::NEVER,
                };
                end.min(self.units.next_wake()).min(self.stall_deadline())
            }
            (Phase::Draining(Drain::Rpcs(until) | Drain::Late(until)), _) => until,
            _ => Time::NEVER,
        };
        load.min(self.caller.next_deadline()).min(self.link.next_deadline())
    }
}
