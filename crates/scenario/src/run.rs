//! Runs a scenario: loads start, events happen, samples are taken, and the activity ends.

mod clients;
mod meter;
mod window;

use core::ops::ControlFlow;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::Simulation;

use crate::formula::{Bounds, bounds};
use crate::model::Scenario;
use crate::outcome::Outcome;
use crate::stage::Stage;
use clients::Clients;
use meter::Meter;

/// Number of samples in the planned time of a run.
const SAMPLES: u64 = 100;

/// Slices of a sample, after each of which `watch` is called; and the longest slice, in ns.
const SLICES: u64 = 10;
const SLICE_MAX: u64 = 10_000_000;

/// How much longer than planned a run may take: the extra warm-up, and RPCs that time out.
const GRACE: Nanos = Nanos::from_secs(310);

/// How long the nodes may take to become quiet: the first wait, which is doubled each time, and the
/// number of waits. Afterwards the outcome lists what is not quiet.
const REST_FIRST: Nanos = Nanos::from_millis(100);
const RESTS: u32 = 8;

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// Virtual time that has passed.
    pub now: Nanos,
    /// Virtual time that the run takes if nothing delays it.
    pub planned: Nanos,
    /// Operations measured so far, as of the last sample.
    pub ops: u64,
}

/// Runs a scenario in an empty simulation. `watch` is called regularly and may end the run early;
/// the outcome then holds what was measured so far.
pub fn run(
    scenario: &Scenario,
    sim: &mut dyn Simulation,
    watch: &mut dyn FnMut(&RunProgress) -> ControlFlow<()>,
) -> Outcome {
    let stage = Stage::new(scenario, sim);
    let bounds = bounds(scenario, &stage, sim);
    let begin = sim.now();
    let planned = scenario.loads.iter().map(|load| load.nominal_end()).max().unwrap_or_default();
    let tick = Nanos((planned.0 / SAMPLES).max(1));
    let run = Run {
        scenario,
        clients: Clients::new(scenario),
        meter: Meter::new(scenario, &stage, begin, sim),
        stage,
        sim,
        begin,
        planned,
        tick,
        next_event: 0,
        hints: Vec::new(),
        ops: 0,
    };
    run.go(watch, bounds)
}

struct Run<'a> {
    scenario: &'a Scenario,
    sim: &'a mut dyn Simulation,
    stage: Stage,
    clients: Clients,
    meter: Meter,
    begin: Time,
    planned: Nanos,
    /// Between two samples.
    tick: Nanos,
    next_event: usize,
    hints: Vec<String>,
    ops: u64,
}

impl Run<'_> {
    fn go(
        mut self,
        watch: &mut dyn FnMut(&RunProgress) -> ControlFlow<()>,
        bounds: Bounds,
    ) -> Outcome {
        let last = self.begin + self.planned + GRACE;
        let mut next_tick = self.begin + self.tick;
        let mut interrupted = false;
        loop {
            self.act();
            if self.sim.now() >= next_tick {
                self.look();
                next_tick = self.sim.now() + self.tick;
            }
            self.follow_window();
            if self.clients.all_ended() || self.sim.now() >= last {
                break;
            }
            let due = self.next_planned().min(next_tick).min(self.meter.window_ends());
            if self.advance(due, watch).is_break() {
                interrupted = true;
                break;
            }
        }
        self.meter.follow(None, self.scenario, &self.stage, self.sim);
        self.clients.close(self.scenario, self.sim, &mut self.hints);
        let unquiet = if interrupted { Vec::new() } else { self.rest() };
        self.outcome(bounds, unquiet, interrupted)
    }

    /// Starts the loads that are due, and applies the events that are due.
    fn act(&mut self) {
        let now = self.sim.now();
        while let Some(event) = self.scenario.events.get(self.next_event)
            && self.begin + event.at <= now
        {
            self.next_event += 1;
            let gone = self.stage.ended_by(event);
            self.clients.lose(&gone, self.sim);
            // While the counters of these nodes are there.
            self.follow_window();
            if let Some(odd) = self.stage.act(self.scenario, event, self.sim) {
                let at = crate::words::format_duration(event.at);
                self.hints
                    .push(format!("the event at {at} had less effect than it describes: {odd}"));
            }
        }
        for (index, load) in self.scenario.loads.iter().enumerate() {
            if self.begin + load.start <= now && !self.clients.has_started(index) {
                let started = self.stage.start_load(self.scenario, index, self.sim);
                self.clients.started(index, started);
            }
        }
    }

    /// Links and waits are measured while all clients of a load are.
    fn follow_window(&mut self) {
        let until = self.clients.measured_until(self.sim.now());
        self.meter.follow(until, self.scenario, &self.stage, self.sim);
    }

    /// When the next event or load is due.
    fn next_planned(&self) -> Time {
        let event = self.scenario.events.get(self.next_event).map(|event| event.at);
        let waiting = self.scenario.loads.iter().enumerate();
        let loads = waiting.filter(|(index, _)| !self.clients.has_started(*index));
        let load = loads.map(|(_, load)| load.start).min();
        let next = [event, load].into_iter().flatten().min();
        next.map_or(Time::NEVER, |next| self.begin + next)
    }

    /// Lets time pass in slices.
    fn advance(
        &mut self,
        due: Time,
        watch: &mut dyn FnMut(&RunProgress) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let slice = Nanos((self.tick.0 / SLICES).clamp(1, SLICE_MAX));
        while self.sim.now() < due {
            let until = due.min(self.sim.now() + slice);
            self.sim.run_to(until);
            let now = self.sim.now().since(self.begin);
            watch(&RunProgress { now, planned: self.planned, ops: self.ops })?;
        }
        ControlFlow::Continue(())
    }

    /// Takes a sample, and notices which clients have ended.
    fn look(&mut self) {
        let seen = self.clients.look(self.scenario, self.sim);
        self.ops = seen.iter().map(|load| load.ops).sum();
        let counts: Vec<_> = seen.iter().map(|load| (load.ops, load.bytes)).collect();
        if self.meter.sample(&counts, self.begin, &self.stage, self.sim) {
            self.tick = Nanos(self.tick.0 * 2);
        }
    }

    /// Lets time pass until all is quiet. Returns what is not quiet after some time.
    fn rest(&mut self) -> Vec<String> {
        let mut pause = REST_FIRST;
        let mut wrong = Vec::new();
        for _ in 0..RESTS {
            let until = self.sim.now() + pause;
            self.sim.run_to(until);
            wrong = self.sim.leftovers();
            if wrong.is_empty() {
                break;
            }
            pause = Nanos(pause.0 * 2);
        }
        wrong
    }

    fn outcome(mut self, bounds: Bounds, unquiet: Vec<String>, interrupted: bool) -> Outcome {
        let virtual_s = self.sim.now().since(self.begin).as_secs_f64();
        let hash = format!("{:016x}", self.sim.event_log().hash());
        let hosts = self.stage.hosts.iter().flatten();
        let messages = hosts.filter_map(|host| self.sim.waits(*host)).map(|w| w.messages).sum();
        let loads = self.clients.into_outcomes(self.scenario, bounds.loads, self.begin);
        crate::hints::of_loads(self.scenario, &loads, &mut self.hints);
        if self.next_event < self.scenario.events.len() && !interrupted {
            let left = self.scenario.events.len() - self.next_event;
            self.hints.push(format!(
                "{left} events were not reached: they are later than the end of the loads"
            ));
        }
        let (window_s, links, waits) = self.meter.results(self.scenario, self.begin);
        if !interrupted {
            crate::hints::of_window(window_s, &mut self.hints);
        }
        if loads.iter().any(|load| load.ops > 0) {
            let errors = loads.iter().map(|load| load.errors).sum();
            crate::hints::of_limit(&links, &waits, errors, &mut self.hints);
        }
        Outcome {
            seed: self.scenario.seed,
            fidelity: self.scenario.fidelity,
            nodes: self.scenario.groups.iter().map(|group| u64::from(group.count)).sum(),
            trace_hash: hash,
            virtual_s,
            messages,
            window_s,
            loads,
            shared_links: bounds.shared,
            links,
            waits,
            samples: self.meter.into_samples(),
            hints: self.hints,
            unquiet,
            interrupted,
        }
    }
}
