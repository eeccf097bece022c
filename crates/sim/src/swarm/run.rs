//! Runs a case, and reports what went wrong.

mod adversarial;
mod start;

use lustrine_lnet::time::{Nanos, WallClock};
use lustrine_partition::{ProbeId, ProbeResult};
use lustrine_selftest::{
    ClientArgs, ClientError, ClientSlot, LoadProgress, LoadStep, SessionMode, StepLimit, TestError,
};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::Name;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::case::{Expectation, Fault, Load, SwarmCase};
use crate::check;
use crate::event_log::LogEntry;
use crate::fabric::TrunkId;
use crate::memory::Usage;
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{RecordFilter, Recording};
use crate::simulation::Simulation;
use crate::stream::StreamSim;

const SECOND: Nanos = Nanos::from_secs(1);

/// The client slots of a node.
const SLOTS: [ClientSlot; 2] = [ClientSlot(1), ClientSlot(2)];

/// After this time, everything must work again when the faults have been repaired.
const RECOVERY: Nanos = Nanos::from_secs(300);

/// The limit of an undisturbed load.
const LOAD_LIMIT: Nanos = Nanos::from_secs(120);

/// After this number of equal loads, memory must have stopped growing: the last ones in a row have
/// not needed more. What a node keeps once it was needed, such as one more buffer for requests of
/// selftest, each node can need in another load.
const LOADS_MAX: u32 = 24;
const STILL: u32 = 2;

/// More events than this are no simulation but a loop. Most runs have less than a million, but a
/// load whose first RPC does not end warms up for ten seconds, and its others may pass a site of
/// two microseconds meanwhile: that is 2.5 million events per second.
const EVENTS_MAX: u64 = 100_000_000;

/// The number of further events for each second of a world: a node may have to dial each
/// millisecond for hours, with a `max_reconnectms` of 1.
const EVENTS_PER_SECOND: u64 = 20_000;

/// A run without failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The hash of the event log.
    pub hash: u64,
    /// The number of events in it.
    pub events: u64,
    /// Its length, in virtual time.
    pub length: Nanos,
    /// Operations of the load that succeeded, and that failed.
    pub operations: (u64, u64),
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The case cannot be simulated: it contradicts itself, or has values out of their ranges.
    Case,
    /// The run of the case.
    Run,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub kind: FailureKind,
    /// The reason, as text.
    pub what: String,
    /// The time since the beginning of the simulation.
    pub at: Nanos,
}

impl Failure {
    /// Whether both have the same reason, apart from numbers and from what else was wrong.
    pub fn is_like(&self, other: &Failure) -> bool {
        self.kind == other.kind && class(&self.what) == class(&other.what)
    }
}

/// A reason without its numbers; of several, the first.
fn class(what: &str) -> String {
    let first = what.split("; ").next().unwrap_or_default();
    first.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Runs a case.
///
/// # Errors
/// Why the run failed, including assertions that failed.
pub fn run(case: &SwarmCase) -> Result<RunSummary, Failure> {
    run_with_log(case).0
}

/// Runs a case, and returns the end of its event log as well.
pub fn run_with_log(case: &SwarmCase) -> (Result<RunSummary, Failure>, Vec<LogEntry>) {
    let (result, entries, _) = run_in(StreamSim::new(case.seed), case);
    (result, entries)
}

/// Runs a case, and records what happened to each message.
pub fn run_recorded(
    case: &SwarmCase,
    wanted: RecordFilter,
) -> (Result<RunSummary, Failure>, Vec<LogEntry>, Recording) {
    let mut world = StreamSim::new(case.seed);
    Simulation::record(&mut world, wanted);
    run_in(world, case)
}

fn run_in(
    world: StreamSim,
    case: &SwarmCase,
) -> (Result<RunSummary, Failure>, Vec<LogEntry>, Recording) {
    // What a case has wrong is said by the inner error; a panic is a defect of the program.
    let begun = guarded(|| Ok(Swarm::new(world, case)));
    let begun = begun
        .map_err(|what| (FailureKind::Run, what))
        .and_then(|swarm| swarm.map_err(|what| (FailureKind::Case, what)));
    let mut swarm = match begun {
        Ok(swarm) => swarm,
        Err((kind, what)) => {
            let failure = Failure { kind, what, at: Nanos::ZERO };
            return (Err(failure), Vec::new(), Recording::default());
        }
    };
    swarm.world.limit_events(EVENTS_MAX, EVENTS_PER_SECOND);
    let begin = swarm.world.now();
    let run_in = guarded(|| swarm.run(case));
    // The recording remains available after an assertion that failed.
    let trace = swarm.world.event_log();
    let (length, hash, events) = (swarm.world.now().since(begin), trace.hash(), trace.count());
    let result = match run_in {
        Ok(()) => Ok(RunSummary { hash, events, length, operations: swarm.operations }),
        Err(what) => Err(Failure { kind: FailureKind::Run, what, at: length }),
    };
    let last = trace.last().copied().collect();
    (result, last, swarm.world.take_recording().unwrap_or_default())
}

/// Turns an assertion that fails into a failure of the run.
fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|said| Err(format!("an assertion failed: {}", text_of(&*said))))
}

/// The message of a panic.
fn text_of(said: &(dyn Any + Send)) -> &str {
    match (said.downcast_ref::<String>(), said.downcast_ref::<&str>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a message",
    }
}

/// A load that was started.
struct Started {
    host: HostId,
    slot: ClientSlot,
    /// RPCs that it is to do.
    count: u64,
}

/// What a client has done when its load is over.
struct Ended {
    host: HostId,
    slot: ClientSlot,
    progress: LoadProgress,
    error: Option<ClientError>,
}

impl Started {
    /// Whether its client has done all of its RPCs without any error.
    fn has_succeeded(&self, all: &[Ended]) -> Result<(), String> {
        let Started { host, slot, count } = *self;
        let Some(ended) = all.iter().find(|ended| (ended.host, ended.slot) == (host, slot)) else {
            return Err(format!("a load in load_after_recovery is missing: {host:?} {slot:?}"));
        };
        let Ended { progress, error, .. } = ended;
        if let Some(error) = error {
            return Err(format!("a load in load_after_recovery gave up: {host:?}: {error}"));
        }
        if !progress.errors.is_empty() || progress.lost != 0 {
            let summary = summary(progress);
            return Err(format!("a load in load_after_recovery had errors: {summary}"));
        }
        // Several may end in one turn.
        if progress.ops < count {
            let ops = progress.ops;
            return Err(format!("a load in load_after_recovery did {ops} of {count} RPCs"));
        }
        Ok(())
    }
}

/// Whether memory grows from load to load.
#[derive(Default)]
struct Growth {
    before: Option<BTreeMap<HostId, Usage>>,
    /// Loads in a row after which no node had more than before.
    still: u32,
    grown: Vec<String>,
}

impl Growth {
    /// Takes account of a load. Returns whether memory has stopped growing: one load may need none
    /// although every second one does.
    fn is_over(&mut self, world: &StreamSim) -> bool {
        let now = check::spans(world.nodes());
        let Some(before) = self.before.replace(now) else { return false };
        let grown = check::leaks(world.nodes(), &before);
        self.still = if grown.is_empty() { self.still + 1 } else { 0 };
        if !grown.is_empty() {
            self.grown = grown;
        }
        self.still == STILL
    }

    fn reason(&self) -> String {
        format!("memory grows with every load: {}", self.grown.join("; "))
    }
}

struct Swarm {
    world: StreamSim,
    nodes: Vec<(HostId, Nid)>,
    /// Between sites, if a case has some.
    ways: Vec<TrunkId>,
    runs: u64,
    sessions: u64,
    operations: (u64, u64),
}

impl Swarm {
    fn run(&mut self, case: &SwarmCase) -> Result<(), String> {
        self.start_load(&case.load_under_faults)?;
        for (index, fault) in case.faults.iter().enumerate() {
            self.world.run_for(fault.after());
            self.disturb(fault);
            if case.expect == Expectation::Safety {
                self.probe(index);
            }
        }
        self.heal();
        if case.expect == Expectation::Safety {
            return self.rest_of_wild_life(case);
        }
        for ended in self.finish_load(RECOVERY)? {
            nothing_corrupt(&ended.progress)?;
        }
        self.all_nodes_answer()?;
        self.after_the_faults(case)
    }

    /// There are no more faults: nothing may fail, and after some loads a load must need no more
    /// memory than the one before (memory that was needed once is kept).
    fn after_the_faults(&mut self, case: &SwarmCase) -> Result<(), String> {
        let mut growth = Growth::default();
        for _ in 0..LOADS_MAX {
            let started = self.start_load(&case.load_after_recovery)?;
            let ended = self.finish_load(LOAD_LIMIT)?;
            for load in started {
                load.has_succeeded(&ended)?;
            }
            for _ in 0..LOAD_LIMIT.0 / SECOND.0 {
                self.world.run_for(SECOND);
                if check::leftovers(self.world.nodes()).is_empty() {
                    break;
                }
            }
            let mut wrong = check::leftovers(self.world.nodes());
            wrong.extend(self.world.nodes().flat_map(|(_, node)| check::rest(node)));
            if !wrong.is_empty() {
                return Err(format!("not quiet: {}", wrong.join("; ")));
            }
            if growth.is_over(&self.world) {
                return Ok(());
            }
        }
        Err(growth.reason())
    }

    /// Every node loads its neighbour and, if there are more loads than nodes, the node after that
    /// without a session.
    fn start_load(&mut self, load: &[Load]) -> Result<Vec<Started>, String> {
        let mut started = Vec::new();
        let count = self.nodes.len();
        for (index, load) in load.iter().take(SLOTS.len() * count).enumerate() {
            let (round, place) = (index / count, index % count);
            let (host, console) = self.nodes[place];
            let target = self.nodes[(place + 1 + round) % count].1;
            self.sessions += 1;
            let args = ClientArgs {
                target: ProcessId::lustre(target),
                local: None,
                console,
                slot: SLOTS[round],
                name: Name::new("swarm").expect("a short name"),
                session: if round == 0 { SessionMode::Force } else { SessionMode::NoSession },
                patience: Nanos::from_secs(3600),
                wall: WallClock::from_secs(0x6000_0000 + self.sessions * 7),
            };
            let step = LoadStep {
                test: load.test(),
                concurrency: load.concurrency,
                limit: StepLimit::Count(load.count),
                warm_up: Nanos::ZERO,
            };
            self.world.start_client(host, args);
            let client = Simulation::client(&mut self.world, host, args.slot).expect("just made");
            client.start_step(step).map_err(|error| error.to_string())?;
            started.push(Started { host, slot: args.slot, count: load.count });
        }
        Ok(started)
    }

    /// All client slots.
    fn clients(&self) -> Vec<(HostId, ClientSlot)> {
        self.nodes.iter().flat_map(|(host, _)| SLOTS.map(|slot| (*host, slot))).collect()
    }

    /// Waits until a condition holds for every running client.
    fn wait(
        &mut self,
        limit: Nanos,
        holds: impl Fn(&lustrine_selftest::Client) -> bool,
    ) -> Result<(), String> {
        let clients = self.clients();
        let over = self.world.run_until(limit, |world| {
            clients.iter().all(|(host, slot)| world.peek(*host, *slot).is_none_or(&holds))
        });
        if over {
            return Ok(());
        }
        let now = self.world.now();
        let late = clients.iter().filter_map(|(host, slot)| {
            let client = self.world.peek(*host, *slot).filter(|client| !holds(client))?;
            let (progress, error) = (summary(&client.progress(now)), client.error());
            Some(format!("{host:?} {slot:?}: {progress} {error:?}"))
        });
        Err(format!("after {} s a load is not over: {}", limit.as_secs_f64(), {
            late.collect::<Vec<_>>().join("; ")
        }))
    }

    /// Waits for the load, and returns what each client has done.
    fn finish_load(&mut self, limit: Nanos) -> Result<Vec<Ended>, String> {
        self.wait(limit, |client| client.step_finished())?;
        let mut seen = Vec::new();
        let now = self.world.now();
        for (host, slot) in self.clients() {
            if let Some(client) = Simulation::client(&mut self.world, host, slot) {
                let (progress, error) = (client.progress(now), client.error());
                self.operations = count(self.operations, &progress);
                seen.push(Ended { host, slot, progress, error });
                client.finish(now);
            }
        }
        self.wait(limit, |client| client.finished())?;
        Ok(seen)
    }

    /// Applies a fault.
    fn disturb(&mut self, fault: &Fault) {
        let host = |node: usize| self.nodes[node % self.nodes.len()].0;
        match *fault {
            Fault::Break { node, stream, .. } => {
                let host = host(node);
                let streams = self.world.network().streams_of(host);
                if !streams.is_empty() {
                    let stream = streams[stream as usize % streams.len()];
                    self.world.network().break_stream(stream);
                }
            }
            Fault::Sever { between: (one, two), .. } => {
                let (one, two) = (host(one), host(two));
                self.world.network().sever(one, two);
            }
            Fault::Restore { between: (one, two), .. } => {
                let (one, two) = (host(one), host(two));
                self.world.network().restore(one, two);
            }
            Fault::LoseDials { from_to: (from, to), .. } => {
                let (from, to) = (host(from), host(to));
                self.world.network().lose_dials(from, to);
            }
            Fault::PassDials { from_to: (from, to), .. } => {
                let (from, to) = (host(from), host(to));
                self.world.network().pass_dials(from, to);
            }
            Fault::Cut { link, .. } => self.cut(link, true),
            Fault::Splice { link, .. } => self.cut(link, false),
            Fault::Refuse { node, .. } => self.world.refuse(host(node)),
            Fault::Admit { node, .. } => self.world.admit(host(node)),
            Fault::Restart { node, stop_kind, away_ms, .. } => {
                let host = host(node);
                let spec = StreamSim::stop(&mut self.world, host, stop_kind);
                self.world.run_for(Nanos::from_millis(away_ms));
                self.runs += 1;
                let incarnation = spec.incarnation + 0x100;
                let wall_seconds = spec.wall_seconds + 10;
                let spec = NodeSpec { incarnation, wall_seconds, ..spec };
                StreamSim::start(&mut self.world, host, spec);
            }
        }
    }

    fn cut(&mut self, link: usize, cut: bool) {
        if self.ways.is_empty() {
            return;
        }
        let way = self.ways[link % self.ways.len()];
        let fabric = Simulation::fabric(&mut self.world);
        for (there, back) in fabric.links(way).to_vec() {
            fabric.cut(there, cut);
            fabric.cut(back, cut);
        }
    }

    fn heal(&mut self) {
        (0..self.ways.len()).for_each(|link| self.cut(link, false));
        let nodes = self.nodes.clone();
        for one in &nodes {
            self.world.admit(one.0);
            for two in &nodes {
                self.world.network().restore(one.0, two.0);
                self.world.network().pass_dials(one.0, two.0);
            }
        }
    }

    /// The first message after a fault may be lost on a broken stream; later ones must succeed.
    fn all_nodes_answer(&mut self) -> Result<(), String> {
        self.ping_all();
        for (host, ticket) in self.ping_all() {
            let result = self.world.node(host).result(ticket);
            if !matches!(result, Some(ProbeResult::Ping(Ok(_)))) {
                return Err(format!("{host:?} has pinged in load_after_recovery: {result:?}"));
            }
        }
        Ok(())
    }

    fn ping_all(&mut self) -> Vec<(HostId, ProbeId)> {
        let mut tickets = Vec::new();
        for (host, _) in &self.nodes {
            for (other, nid) in &self.nodes {
                if host != other {
                    tickets.push((*host, self.world.ping(*host, nid, Nanos::from_secs(20))));
                }
            }
        }
        self.world.run_for(Nanos::from_secs(25));
        tickets
    }
}

/// Adds the operations of a load.
fn count((succeeded, failed): (u64, u64), snapshot: &LoadProgress) -> (u64, u64) {
    let errors: u64 = snapshot.errors.iter().map(|(_, count)| count).sum();
    (succeeded + snapshot.ops, failed + errors)
}

/// Progress without its histogram.
fn summary(snapshot: &LoadProgress) -> String {
    let LoadProgress { elapsed, ops, errors, outstanding, down, latencies, .. } = snapshot;
    let longest = latencies.max();
    format!("{elapsed:?} {ops} {errors:?} {outstanding} out, down {down:?}, longest {longest:?}")
}

/// Whatever fails, data that arrives must be correct.
fn nothing_corrupt(snapshot: &LoadProgress) -> Result<(), String> {
    const EBADMSG: u32 = 74;
    for (error, count) in &snapshot.errors {
        let wrong = matches!(
            error,
            TestError::Corrupt | TestError::Short | TestError::Echo | TestError::Remote(EBADMSG)
        );
        if wrong {
            return Err(format!("{count} times {error:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lustrine_selftest::Latencies;

    use super::*;
    use crate::swarm::{Transport, generate};

    #[test]
    fn a_failed_assertion_leaves_the_recording() {
        let case = generate(3);
        let mut world = StreamSim::new(case.seed);
        Simulation::record(&mut world, RecordFilter::newest(1000));
        let mut swarm = Swarm::new(world, &case).expect("a good case");
        let ended: Result<(), String> = guarded(|| {
            swarm.run(&case)?;
            panic!("{} is odd", 3)
        });
        assert_eq!(ended, Err("an assertion failed: 3 is odd".to_owned()));
        assert_ne!(swarm.world.event_log().count(), 0);
        let recording = swarm.world.take_recording().expect("it was recorded");
        assert!(!recording.entries.is_empty());
        assert_eq!(guarded(|| Ok(())), Ok(()));
    }

    #[test]
    fn a_case_that_cannot_be_simulated_is_named_as_such() {
        let failure = |change: fn(&mut SwarmCase)| {
            let mut case = generate(3);
            change(&mut case);
            let failure = run(&case).expect_err("it cannot be simulated");
            assert_eq!((failure.kind, failure.at), (FailureKind::Case, Nanos::ZERO));
            failure.what
        };
        let twice = failure(|case| case.nodes[1].nid = case.nodes[0].nid.clone());
        assert!(twice.ends_with(": two nodes have this address"), "{twice}");
        assert_eq!(failure(|case| case.nodes.clear()), "a case without nodes");
        assert_eq!(failure(|case| case.links.clear()), "a case without links");
        let far = failure(|case| {
            case.transport = Transport::Cubic;
            case.links[0].between.1 = usize::MAX;
        });
        assert!(far.ends_with("allowed: 0 to 999"), "{far}");
    }

    #[test]
    fn a_load_that_did_nothing_has_not_succeeded() {
        let ended = |ops, error| {
            let progress = LoadProgress {
                elapsed: SECOND,
                ops,
                bytes: 0,
                errors: Vec::new(),
                latencies: Latencies::default(),
                lost: 0,
                lost_age_max: Nanos::ZERO,
                outstanding: 0,
                down: Nanos::ZERO,
                window: None,
                server: None,
            };
            vec![Ended { host: HostId(1), slot: SLOTS[0], progress, error }]
        };
        let load = Started { host: HostId(1), slot: SLOTS[0], count: 5 };
        let what = |all: &[Ended]| load.has_succeeded(all).expect_err("it has not");
        assert_eq!(load.has_succeeded(&ended(5, None)), Ok(()));
        assert!(what(&ended(0, None)).ends_with("did 0 of 5 RPCs"));
        assert!(what(&ended(5, Some(ClientError::NoAnswer(None)))).contains("gave up"));
        assert!(what(&[]).contains("is missing"));
        let mut wrong = ended(5, None);
        wrong[0].progress.errors.push((TestError::Corrupt, 1));
        assert!(what(&wrong).contains("had errors"));
    }

    #[test]
    fn failures_are_alike_apart_from_numbers() {
        let failure = |kind, what: &str| Failure { kind, what: what.to_owned(), at: Nanos(1) };
        let one = failure(FailureKind::Run, "not quiet: HostId(0): 3 messages exist; HostId(1): x");
        let two = failure(FailureKind::Run, "not quiet: HostId(12): 1 messages exist");
        assert!(one.is_like(&two) && two.is_like(&one));
        assert!(!one.is_like(&failure(FailureKind::Case, &one.what)));
        assert!(!one.is_like(&failure(FailureKind::Run, "memory grows with every load: x")));
    }

    #[test]
    fn too_many_events_are_a_failure() {
        let case = generate(3);
        let mut swarm = Swarm::new(StreamSim::new(case.seed), &case).expect("a good case");
        swarm.world.limit_events(1000, 0);
        let what = guarded(|| swarm.run(&case)).expect_err("it has more events");
        assert!(what.starts_with("an assertion failed: ") && what.ends_with(" events"), "{what}");
    }
}
