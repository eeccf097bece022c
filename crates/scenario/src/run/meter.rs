//! What links carried and messages waited for in the measured time; samples over the whole run.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::Simulation;
use lustrine_sim::fabric::{Hop, LinkSpec, LinkUsage};

use super::window::{Reading, Window};
use crate::model::Scenario;
use crate::outcome::{GroupWaits, LinkOutcome, QueueSamples, RateSamples, Samples};
use crate::stage::Stage;

/// Largest number of samples. When there are more, every second one is dropped.
const SAMPLES_MAX: usize = 400;

/// Largest number of directions of links that are listed and sampled individually.
const LINES_MAX: usize = 64;

/// Directions of links that have the same properties and are reported together.
#[derive(Debug)]
struct Line {
    name: String,
    hops: Vec<Hop>,
    spec: LinkSpec,
}

#[derive(Debug)]
pub(super) struct Meter {
    lines: Vec<Line>,
    samples: Samples,
    /// The previous sample: its time, and operations and bytes per load.
    before: (Time, Vec<(u64, u64)>),
    window: Window,
    /// When the present interval of the window ends; `NEVER` if no load measures.
    ends: Time,
}

impl Meter {
    pub(super) fn new(
        scenario: &Scenario,
        stage: &Stage,
        begin: Time,
        sim: &mut dyn Simulation,
    ) -> Meter {
        let lines = lines(scenario, stage, sim);
        let queues =
            lines.iter().map(|line| QueueSamples { name: line.name.clone(), bytes: Vec::new() });
        let samples = Samples {
            at_s: Vec::new(),
            loads: scenario.loads.iter().map(|_| RateSamples::default()).collect(),
            queues: queues.collect(),
        };
        let before = (begin, vec![(0, 0); scenario.loads.len()]);
        Meter { lines, samples, before, window: Window::default(), ends: Time::NEVER }
    }

    /// When [`Meter::follow`] is due.
    pub(super) fn window_ends(&self) -> Time {
        self.ends
    }

    /// From now on all clients of a load measure until `until`; of no load if it is `None`.
    pub(super) fn follow(
        &mut self,
        until: Option<Time>,
        scenario: &Scenario,
        stage: &Stage,
        sim: &mut dyn Simulation,
    ) {
        match (self.window.is_open(), until) {
            (false, Some(_)) => self.window.open(self.read(scenario, stage, sim)),
            (true, None) => self.window.close(&self.read(scenario, stage, sim)),
            (true, Some(_)) | (false, None) => {}
        }
        self.ends = until.unwrap_or(Time::NEVER);
    }

    fn read(&self, scenario: &Scenario, stage: &Stage, sim: &mut dyn Simulation) -> Reading {
        let at = sim.now();
        let fabric = sim.fabric();
        let used = |line: &Line| line.hops.iter().map(|hop| fabric.used(*hop, at)).collect();
        let links = self.lines.iter().map(used).collect();
        debug_assert_eq!(scenario.groups.len(), stage.hosts.len());
        let waits = |hosts: &Vec<_>| hosts.iter().map(|host| sim.waits(*host)).collect();
        Reading { at, links, waits: stage.hosts.iter().map(waits).collect() }
    }

    /// Takes a sample. Returns whether there are so many samples that the interval must be doubled.
    pub(super) fn sample(
        &mut self,
        counts: &[(u64, u64)],
        begin: Time,
        stage: &Stage,
        sim: &mut dyn Simulation,
    ) -> bool {
        debug_assert!(!stage.hosts.is_empty());
        let now = sim.now();
        let (then, before) = &self.before;
        let seconds = now.since(*then).as_secs_f64();
        self.samples.at_s.push(now.since(begin).as_secs_f64());
        for ((load, now), then) in self.samples.loads.iter_mut().zip(counts).zip(before) {
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            load.ops_per_s.push(rate(now.0, then.0));
            load.mib_per_s.push(rate(now.1, then.1) / f64::from(1 << 20));
        }
        self.before = (now, counts.to_vec());
        let fabric = sim.fabric();
        for (queue, line) in self.samples.queues.iter_mut().zip(&self.lines) {
            let waiting = line.hops.iter().map(|hop| {
                let spec = fabric.spec(*hop);
                let ahead = fabric.glance(&[*hop], now).unwrap_or(spec.delay);
                let wait = Nanos(ahead.0.saturating_sub(spec.delay.0));
                spec.rate.map_or(0, |rate| rate.bytes_in(wait))
            });
            queue.bytes.push(waiting.max().unwrap_or(0));
        }
        let too_many = self.samples.at_s.len() > SAMPLES_MAX;
        if too_many {
            self.thin();
        }
        too_many
    }

    /// Joins pairs of samples.
    fn thin(&mut self) {
        let mean = |values: &mut Vec<f64>| {
            *values = values.chunks(2).map(|p| p.iter().sum::<f64>() / p.len() as f64).collect();
        };
        for load in &mut self.samples.loads {
            mean(&mut load.mib_per_s);
            mean(&mut load.ops_per_s);
        }
        let at = &mut self.samples.at_s;
        *at = at.chunks(2).map(|pair| pair[pair.len() - 1]).collect();
        for queue in &mut self.samples.queues {
            let most = |pair: &[u64]| pair.iter().copied().max().unwrap_or(0);
            queue.bytes = queue.bytes.chunks(2).map(most).collect();
        }
    }

    /// The measured time in seconds from the beginning, what links did in it, and what messages
    /// waited for.
    pub(super) fn results(
        &self,
        scenario: &Scenario,
        begin: Time,
    ) -> (Option<(f64, f64)>, Vec<LinkOutcome>, Vec<GroupWaits>) {
        let Some(measured) = self.window.measured() else { return (None, Vec::new(), Vec::new()) };
        let since = |at: Time| at.since(begin).as_secs_f64();
        let links = self.lines.iter().zip(&measured.links);
        let links = links.map(|(line, used)| line.outcome(used, measured.length)).collect();
        let groups = scenario.groups.iter().enumerate();
        let waits = groups.map(|(index, group)| measured.group_waits(index, &group.name));
        let waits = waits.collect();
        (Some((since(measured.from), since(measured.to))), links, waits)
    }

    pub(super) fn into_samples(self) -> Samples {
        self.samples
    }
}

/// Links between sites, individually as long as they are few; then the interfaces of each group.
fn lines(scenario: &Scenario, stage: &Stage, sim: &mut dyn Simulation) -> Vec<Line> {
    let fabric = sim.fabric();
    let mut lines = Vec::new();
    for (way, id) in scenario.trunks.iter().zip(&stage.trunks) {
        let (one, two) = (&scenario.sites[way.between.0], &scenario.sites[way.between.1]);
        let links = fabric.links(*id);
        let singly = lines.len() + 2 * links.len() <= LINES_MAX;
        for (from, to, forward) in [(one, two, true), (two, one, false)] {
            let side = |(there, back): &(Hop, Hop)| if forward { *there } else { *back };
            let hops: Vec<Hop> = links.iter().map(side).collect();
            if hops.len() == 1 || !singly {
                lines.push(Line { name: format!("{from} -> {to}"), hops, spec: way.link });
                continue;
            }
            for (index, hop) in hops.into_iter().enumerate() {
                let name = format!("{from} -> {to}, link {}", index + 1);
                lines.push(Line { name, hops: vec![hop], spec: way.link });
            }
        }
    }
    for (group, hosts) in scenario.groups.iter().zip(&stage.hosts) {
        let ends: Vec<(Hop, Hop)> = hosts.iter().filter_map(|h| fabric.interface(*h)).collect();
        let (name, spec) = (&group.name, group.interface);
        let up = ends.iter().map(|(up, _)| *up).collect();
        let down = ends.iter().map(|(_, down)| *down).collect();
        lines.push(Line { name: format!("{name} out"), hops: up, spec });
        lines.push(Line { name: format!("{name} in"), hops: down, spec });
    }
    lines
}

impl Line {
    /// The use of its links in a time of this length.
    fn outcome(&self, used: &[LinkUsage], length: Nanos) -> LinkOutcome {
        let share = |used: &LinkUsage| used.busy.0 as f64 / length.0 as f64;
        let mean = used.iter().map(share).sum::<f64>() / self.hops.len() as f64;
        let most = used.iter().map(share).fold(0.0, f64::max);
        let limited = self.spec.rate.is_some();
        LinkOutcome {
            name: self.name.clone(),
            links: self.hops.len() as u64,
            bits_per_s: self.spec.rate.map(|rate| rate.bits()),
            share: limited.then_some(mean),
            share_max: limited.then_some(most),
            bytes: used.iter().map(|used| used.bytes).sum(),
            lost: used.iter().map(|used| used.lost).sum(),
            queue_max: used.iter().map(|used| used.queue_max).max().unwrap_or(0),
        }
    }
}
