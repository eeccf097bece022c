//! The clients of all loads, while they run and afterwards.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::{HostId, Simulation};

use crate::formula::Bound;
use crate::model::Scenario;
use crate::outcome::{LoadOutcome, Merged, Part};
use crate::stage::ClientAt;

#[derive(Debug, Default)]
pub(super) struct Clients {
    loads: Vec<LoadState>,
}

#[derive(Debug, Default)]
struct LoadState {
    started: bool,
    /// Those that have not ended.
    running: Vec<ClientAt>,
    /// Those whose step is over, but whose session is not.
    ended: Vec<ClientAt>,
    merged: Merged,
    /// Operations and bytes of the clients that have ended.
    done: (u64, u64),
    /// The end of the first client's measured time; known when all of them are measuring.
    measured_until: Option<Time>,
    /// When the first client began to measure, and the last one ended.
    measured: Option<(Time, Time)>,
}

/// A load, as observed at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) ops: u64,
    pub(super) bytes: u64,
}

impl Clients {
    pub(super) fn new(scenario: &Scenario) -> Clients {
        Clients { loads: scenario.loads.iter().map(|_| LoadState::default()).collect() }
    }

    pub(super) fn has_started(&self, load: usize) -> bool {
        self.loads[load].started
    }

    pub(super) fn started(&mut self, load: usize, clients: Vec<Option<ClientAt>>) {
        let state = &mut self.loads[load];
        state.started = true;
        let away = clients.iter().filter(|client| client.is_none()).count() as u64;
        if away > 0 {
            state.merged.fail("the client's node was away", away);
        }
        state.running = clients.into_iter().flatten().collect();
    }

    pub(super) fn all_ended(&self) -> bool {
        self.loads.iter().all(|load| load.started && load.running.is_empty())
    }

    /// How long all clients of a load will be measuring; `None` if there is no such load.
    pub(super) fn measured_until(&self, now: Time) -> Option<Time> {
        let loads = self.loads.iter().filter(|load| !load.running.is_empty());
        loads.filter_map(|load| load.measured_until).filter(|until| *until > now).max()
    }

    /// Nodes are about to end. What their clients have measured is taken now, because it is lost
    /// with the node.
    pub(super) fn lose(&mut self, hosts: &[HostId], sim: &mut dyn Simulation) {
        if hosts.is_empty() {
            return;
        }
        for state in &mut self.loads {
            let (gone, left): (Vec<_>, Vec<_>) =
                state.running.drain(..).partition(|client| hosts.contains(&client.host));
            state.running = left;
            state.ended.retain(|client| !hosts.contains(&client.host));
            for client in gone {
                state.take(client, Part::CutShort, sim);
                state.merged.fail("the client's node ended", 1);
            }
        }
    }

    /// Polls every client, and merges the results of those that have ended.
    pub(super) fn look(&mut self, scenario: &Scenario, sim: &mut dyn Simulation) -> Vec<Seen> {
        let now = sim.now();
        let loads = self.loads.iter_mut().zip(&scenario.loads);
        loads.map(|(state, load)| state.look(now, load.time, sim)).collect()
    }

    /// Ends all remaining clients, and the sessions.
    pub(super) fn close(
        &mut self,
        scenario: &Scenario,
        sim: &mut dyn Simulation,
        hints: &mut Vec<String>,
    ) {
        let now = sim.now();
        for (state, load) in self.loads.iter_mut().zip(&scenario.loads) {
            let late = state.running.len();
            if late > 0 {
                let from = &scenario.groups[load.from].name;
                hints.push(format!("clients of {from} that were ended by force: {late}"));
            }
            for client in core::mem::take(&mut state.running) {
                state.take(client, Part::Whole, sim);
                state.ended.push(client);
            }
            for client in &state.ended {
                if let Some(client) = sim.client(client.host, client.slot) {
                    client.finish(now);
                }
            }
        }
    }

    pub(super) fn into_outcomes(
        self,
        scenario: &Scenario,
        bounds: Vec<Option<Bound>>,
        begin: Time,
    ) -> Vec<LoadOutcome> {
        let seconds = |at: Time| at.since(begin).as_secs_f64();
        let loads = self.loads.into_iter().zip(&scenario.loads).zip(bounds);
        let outcome = |((state, load), bound): ((LoadState, _), Option<Bound>)| {
            let load: &crate::model::Load = load;
            let (from, to) = (&scenario.groups[load.from], &scenario.groups[load.to]);
            let plan = LoadOutcome {
                from: from.name.clone(),
                to: to.name.clone(),
                test: load.test_name().to_owned(),
                size: load.test.len(),
                concurrency: load.concurrency,
                pairs: load.spread.pairs(from.count, to.count).count() as u64,
                seconds: 0.0,
                window_s: state.measured.map(|(from, to)| (seconds(from), seconds(to))),
                ops: 0,
                mib_per_s: 0.0,
                ops_per_s: 0.0,
                latency_us: crate::outcome::Latency::default(),
                errors: 0,
                error_kinds: Vec::new(),
                formula_ops_per_s: bound.as_ref().map(|bound| bound.ops_per_s),
                formula_limit: bound.map(|bound| bound.limit),
            };
            state.merged.into_outcome(plan)
        };
        loads.map(outcome).collect()
    }
}

impl LoadState {
    fn look(&mut self, now: Time, time: Nanos, sim: &mut dyn Simulation) -> Seen {
        let mut seen = Seen { ops: self.done.0, bytes: self.done.1 };
        let mut first_end = Time::NEVER;
        let mut still = Vec::with_capacity(self.running.len());
        for at in core::mem::take(&mut self.running) {
            let Some(client) = sim.client(at.host, at.slot) else {
                self.merged.fail("the client's node ended", 1);
                continue;
            };
            let (ops, bytes) = client.counts();
            seen.ops += ops;
            seen.bytes += bytes;
            if client.step_finished() || client.error().is_some() {
                self.take(at, Part::Whole, sim);
                self.ended.push(at);
                continue;
            }
            let elapsed = client.elapsed(now);
            if elapsed == Nanos::ZERO {
                // It is not measuring yet.
                first_end = Time::ZERO;
            } else {
                self.has_measured(now - elapsed, now);
            }
            first_end = first_end.min(now - elapsed + time);
            still.push(at);
        }
        self.running = still;
        let all_measure = first_end > now && first_end != Time::NEVER;
        if all_measure && self.measured_until.is_none() {
            self.measured_until = Some(first_end);
        }
        seen
    }

    /// A client has measured from one time to another.
    fn has_measured(&mut self, from: Time, to: Time) {
        let (first, last) = self.measured.unwrap_or((from, to));
        self.measured = Some((first.min(from), last.max(to)));
    }

    /// Merges a client's results, and the reason if it gave up.
    fn take(&mut self, at: ClientAt, mut part: Part, sim: &mut dyn Simulation) {
        let now = sim.now();
        let Some(client) = sim.client(at.host, at.slot) else { return };
        let (snapshot, error) = (client.progress(now), client.error());
        if snapshot.elapsed > Nanos::ZERO {
            // It may have ended some time ago; all clients begin at about the same time.
            let known = self.measured.map_or(now - snapshot.elapsed, |(from, _)| from);
            self.has_measured(known, (known + snapshot.elapsed).min(now));
        }
        if let Some(error) = error {
            self.merged.fail(&format!("gave up: {error}"), 1);
            part = Part::CutShort;
        }
        self.done.0 += snapshot.ops;
        self.done.1 += snapshot.bytes;
        self.merged.add(&snapshot, part);
    }
}
