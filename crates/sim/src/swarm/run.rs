//! Living a plan, and telling what went wrong.

mod adversarial;
mod start;

use lustrine_lnet::time::Nanos;
use lustrine_partition::{ProbeId, ProbeResult};
use lustrine_selftest::{
    ClientArgs, ClientSlot, LoadProgress, LoadStep, SessionMode, StepLimit, TestError,
};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::Name;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::plan::{Expectation, Fault, Load, Plan};
use crate::check;
use crate::event_log::LogEntry;
use crate::fabric::TrunkId;
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::recording::{RecordFilter, Recording};
use crate::simulation::Simulation;
use crate::stream::StreamSim;

const SECOND: Nanos = Nanos::from_secs(1);

/// Of a node's clients.
const SLOTS: [ClientSlot; 2] = [ClientSlot(1), ClientSlot(2)];

/// What healed must have caught up with everything after so long.
const RECOVERY: Nanos = Nanos::from_secs(300);

/// A session that nobody disturbs must end within so long.
const CALM: Nanos = Nanos::from_secs(120);

/// After so many equal loads memory must have stopped growing.
const LOADS_MAX: u32 = 6;

/// A run that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The trace's hash and length.
    pub hash: u64,
    /// Events in it.
    pub events: u64,
    /// How long it was, in virtual time.
    pub length: Nanos,
    /// Operations of the load that went well, and that failed.
    pub operations: (u64, u64),
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub what: String,
    /// When, since the beginning of the world.
    pub at: Nanos,
}

/// Lives a plan.
///
/// # Errors
/// What went wrong, a mistake of ours that an assertion caught among it.
pub fn run(plan: &Plan) -> Result<RunSummary, Failure> {
    run_with_log(plan).0
}

/// Lives a plan, and tells the end of its trace too.
pub fn run_with_log(plan: &Plan) -> (Result<RunSummary, Failure>, Vec<LogEntry>) {
    let (result, entries, _) = run_in(StreamSim::new(plan.seed), plan);
    (result, entries)
}

/// Lives a plan, and records what happened to each message.
pub fn run_recorded(
    plan: &Plan,
    wanted: RecordFilter,
) -> (Result<RunSummary, Failure>, Vec<LogEntry>, Recording) {
    let mut world = StreamSim::new(plan.seed);
    Simulation::record(&mut world, wanted);
    run_in(world, plan)
}

fn run_in(
    world: StreamSim,
    plan: &Plan,
) -> (Result<RunSummary, Failure>, Vec<LogEntry>, Recording) {
    let mut swarm = match Swarm::new(world, plan) {
        Ok(swarm) => swarm,
        Err(what) => {
            let failure = Failure { what, at: Nanos::ZERO };
            return (Err(failure), Vec::new(), Recording::default());
        }
    };
    let begin = swarm.world.now();
    let run_in = guarded(|| swarm.run(plan));
    // Whatever an assertion leaves behind, how it came to it is still there to be told.
    let trace = swarm.world.event_log();
    let (length, hash, events) = (swarm.world.now().since(begin), trace.hash(), trace.count());
    let told = match run_in {
        Ok(()) => Ok(RunSummary { hash, events, length, operations: swarm.operations }),
        Err(what) => Err(Failure { what, at: length }),
    };
    let last = trace.last().copied().collect();
    (told, last, swarm.world.take_recording().unwrap_or_default())
}

/// An assertion that fails is something wrong like any other.
fn guarded(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|said| Err(format!("an assertion failed: {}", text_of(&*said))))
}

/// What a panic said.
fn text_of(said: &(dyn Any + Send)) -> &str {
    match (said.downcast_ref::<String>(), said.downcast_ref::<&str>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "it said nothing",
    }
}

struct Swarm {
    world: StreamSim,
    nodes: Vec<(HostId, Nid)>,
    /// Between sites, where a plan has some.
    ways: Vec<TrunkId>,
    lives: u64,
    sessions: u64,
    operations: (u64, u64),
}

impl Swarm {
    fn run(&mut self, plan: &Plan) -> Result<(), String> {
        self.start_load(&plan.load_under_faults)?;
        for (index, fault) in plan.faults.iter().enumerate() {
            self.world.run_for(fault.after());
            self.disturb(fault);
            if plan.expect == Expectation::Safety {
                self.probe(index);
            }
        }
        self.heal();
        if plan.expect == Expectation::Safety {
            return self.rest_of_wild_life(plan);
        }
        let seen = self.finish_load(RECOVERY)?;
        for snapshot in &seen {
            nothing_corrupt(snapshot)?;
        }
        self.everybody_answers()?;
        self.rest_of_life(plan)
    }

    /// Nobody disturbs any more: nothing may fail, and sooner or later a load needs no more memory
    /// than the one before (what was needed once is kept).
    fn rest_of_life(&mut self, plan: &Plan) -> Result<(), String> {
        let mut before = None;
        for _ in 0..LOADS_MAX {
            self.start_load(&plan.load_after_recovery)?;
            for snapshot in &self.finish_load(CALM)? {
                if !snapshot.errors.is_empty() {
                    return Err(format!(
                        "a load in load_after_recovery had errors: {}",
                        told(snapshot)
                    ));
                }
            }
            for _ in 0..CALM.0 / SECOND.0 {
                self.world.run_for(SECOND);
                if check::leftovers(&self.world).is_empty() {
                    break;
                }
            }
            let mut wrong = check::leftovers(&self.world);
            wrong.extend(self.world.nodes().flat_map(|(_, node)| check::rest(node)));
            if !wrong.is_empty() {
                return Err(format!("not quiet: {}", wrong.join("; ")));
            }
            let now = check::spans(&self.world);
            let grown = before.replace(now).map(|before| check::leaks(&self.world, &before));
            if grown == Some(Vec::new()) {
                return Ok(());
            }
        }
        Err("memory grows with every load".to_owned())
    }

    /// Every node loads its neighbour and, if there is more load than nodes, the one behind that
    /// without a session.
    fn start_load(&mut self, load: &[Load]) -> Result<(), String> {
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
                wall_seconds: 0x6000_0000 + self.sessions * 7,
            };
            let rung = LoadStep {
                test: load.test(),
                concurrency: load.concurrency,
                limit: StepLimit::Count(load.count),
                warm_up: Nanos::ZERO,
            };
            self.world.start_client(host, args);
            let client = Simulation::client(&mut self.world, host, args.slot).expect("just made");
            client.start_step(rung).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// All places of clients.
    fn clients(&self) -> Vec<(HostId, ClientSlot)> {
        self.nodes.iter().flat_map(|(host, _)| SLOTS.map(|slot| (*host, slot))).collect()
    }

    /// WaitTotals until something holds for every client that is there.
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
            let (told, error) = (told(&client.progress(now)), client.error());
            Some(format!("{host:?} {slot:?}: {told} {error:?}"))
        });
        Err(format!("after {} s a load is not over: {}", limit.as_secs_f64(), {
            late.collect::<Vec<_>>().join("; ")
        }))
    }

    /// WaitTotals for the load; what each client saw.
    fn finish_load(&mut self, limit: Nanos) -> Result<Vec<LoadProgress>, String> {
        self.wait(limit, |client| client.step_finished())?;
        let mut seen = Vec::new();
        let now = self.world.now();
        for (host, slot) in self.clients() {
            if let Some(client) = Simulation::client(&mut self.world, host, slot) {
                let snapshot = client.progress(now);
                self.operations = count(self.operations, &snapshot);
                seen.push(snapshot);
                client.finish(now);
            }
        }
        self.wait(limit, |client| client.finished())?;
        Ok(seen)
    }

    /// Something goes wrong.
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
            Fault::Mend { between: (one, two), .. } => {
                let (one, two) = (host(one), host(two));
                self.world.network().mend(one, two);
            }
            Fault::Cut { link, .. } => self.cut(link, true),
            Fault::Splice { link, .. } => self.cut(link, false),
            Fault::Refuse { node, .. } => self.world.refuse(host(node)),
            Fault::Admit { node, .. } => self.world.admit(host(node)),
            Fault::Restart { node, stop_kind, away_ms, .. } => {
                let host = host(node);
                let spec = StreamSim::stop(&mut self.world, host, stop_kind.into());
                self.world.run_for(Nanos::from_millis(away_ms));
                self.lives += 1;
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
                self.world.network().mend(one.0, two.0);
            }
        }
    }

    /// The first message after a fault may find out that a stream is dead; then all is well.
    fn everybody_answers(&mut self) -> Result<(), String> {
        self.ping_everybody();
        for (host, ticket) in self.ping_everybody() {
            let result = self.world.node(host).result(ticket);
            if !matches!(result, Some(ProbeResult::Ping(Ok(_)))) {
                return Err(format!("{host:?} has pinged in load_after_recovery: {result:?}"));
            }
        }
        Ok(())
    }

    fn ping_everybody(&mut self) -> Vec<(HostId, ProbeId)> {
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

/// With what a load counted.
fn count((well, failed): (u64, u64), snapshot: &LoadProgress) -> (u64, u64) {
    let errors: u64 = snapshot.errors.iter().map(|(_, count)| count).sum();
    (well + snapshot.ops, failed + errors)
}

/// A snapshot without its histogram.
fn told(snapshot: &LoadProgress) -> String {
    let LoadProgress { elapsed, ops, errors, outstanding, down, latencies, .. } = snapshot;
    let longest = latencies.max();
    format!("{elapsed:?} {ops} {errors:?} {outstanding} out, down {down:?}, longest {longest:?}")
}

/// Whatever goes wrong, what arrives is right.
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
    use super::*;
    use crate::swarm::generate;

    #[test]
    fn how_a_life_came_to_an_assertion_that_failed_can_be_told() {
        let plan = generate(3);
        let mut world = StreamSim::new(plan.seed);
        Simulation::record(&mut world, RecordFilter::newest(1000));
        let mut swarm = Swarm::new(world, &plan).expect("a good plan");
        let ended = guarded(|| {
            swarm.run(&plan)?;
            panic!("{} is odd", 3)
        });
        assert_eq!(ended, Err("an assertion failed: 3 is odd".to_owned()));
        assert_ne!(swarm.world.event_log().count(), 0);
        let recording = swarm.world.take_recording().expect("it was recorded");
        assert!(!recording.entries.is_empty());
        assert_eq!(guarded(|| Ok(())), Ok(()));
    }
}
