//! What links carried and messages waited for in the measured time; samples over the whole run.

use lustrine_lnet::time::{Nanos, Time};
use lustrine_sim::fabric::{Hop, LinkSpec, LinkUsage};
use lustrine_sim::{Simulation, WaitTotals};

use crate::model::Scenario;
use crate::outcome::{GroupWaits, LinkOutcome, QueueSamples, RateSamples, Samples};
use crate::stage::Stage;

/// Largest number of samples. When there are more, every second one is dropped.
const SAMPLES_MAX: usize = 400;

/// Largest number of directions of links that are listed and sampled individually.
const LINES_MAX: usize = 64;

/// The measured time of a load, from the moment when all its clients are measuring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// When it ends.
    pub(super) end: Time,
}

/// Directions of links that have the same properties and are reported together.
#[derive(Debug)]
struct Line {
    name: String,
    hops: Vec<Hop>,
    spec: LinkSpec,
}

/// All counters at one moment.
#[derive(Debug)]
struct Reading {
    at: Time,
    links: Vec<Vec<LinkUsage>>,
    waits: Vec<Vec<Option<WaitTotals>>>,
}

#[derive(Debug)]
pub(super) struct Meter {
    lines: Vec<Line>,
    samples: Samples,
    /// The previous sample: its time, and operations and bytes per load.
    before: (Time, Vec<(u64, u64)>),
    /// The measured time of all loads together: its beginning, and its end so far.
    window: Option<(Reading, Option<Reading>)>,
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
        Meter { lines, samples, before, window: None, ends: Time::NEVER }
    }

    /// When [`Meter::end_window`] is due.
    pub(super) fn window_ends(&self) -> Time {
        self.ends
    }

    /// All clients of a load are measuring from now on.
    pub(super) fn note_window(
        &mut self,
        mark: Mark,
        scenario: &Scenario,
        stage: &Stage,
        sim: &mut dyn Simulation,
    ) {
        if self.window.is_none() {
            self.window = Some((self.read(scenario, stage, sim), None));
        }
        self.ends = if self.ends == Time::NEVER { mark.end } else { self.ends.max(mark.end) };
    }

    /// The measured time of all loads so far is over.
    pub(super) fn end_window(
        &mut self,
        scenario: &Scenario,
        stage: &Stage,
        sim: &mut dyn Simulation,
    ) {
        let reading = self.read(scenario, stage, sim);
        if let Some((_, end)) = &mut self.window {
            *end = Some(reading);
        }
        self.ends = Time::NEVER;
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
        let Some((start, Some(end))) = &self.window else { return (None, Vec::new(), Vec::new()) };
        let window = Nanos(end.at.since(start.at).0.max(1));
        let since = |at: Time| at.since(begin).as_secs_f64();
        let links = self
            .lines
            .iter()
            .enumerate()
            .map(|(index, line)| line.outcome(&start.links[index], &end.links[index], window));
        let links = links.collect();
        let waits = scenario.groups.iter().enumerate().map(|(index, group)| {
            group_waits(&group.name, &start.waits[index], &end.waits[index], window)
        });
        (Some((since(start.at), since(end.at))), links, waits.collect())
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
    fn outcome(&self, start: &[LinkUsage], end: &[LinkUsage], window: Nanos) -> LinkOutcome {
        let pairs = || end.iter().zip(start);
        let share = |(end, start): (&LinkUsage, &LinkUsage)| {
            end.busy.0.saturating_sub(start.busy.0) as f64 / window.0 as f64
        };
        let mean = pairs().map(share).sum::<f64>() / self.hops.len() as f64;
        let most = pairs().map(share).fold(0.0, f64::max);
        let limited = self.spec.rate.is_some();
        LinkOutcome {
            name: self.name.clone(),
            links: self.hops.len() as u64,
            bits_per_s: self.spec.rate.map(|rate| rate.bits()),
            share: limited.then_some(mean),
            share_max: limited.then_some(most),
            bytes: pairs().map(|(end, start)| end.bytes.saturating_sub(start.bytes)).sum(),
            lost: pairs().map(|(end, start)| end.lost.saturating_sub(start.lost)).sum(),
            queue_max: end.iter().map(|used| used.queue_max).max().unwrap_or(0),
        }
    }
}

fn group_waits(
    group: &str,
    start: &[Option<WaitTotals>],
    end: &[Option<WaitTotals>],
    window: Nanos,
) -> GroupWaits {
    // Nodes that were away, or were restarted in the meantime, are left out.
    let both = start.iter().zip(end).filter_map(|(start, end)| Some(((*start)?, (*end)?)));
    let both: Vec<_> = both.filter(|(start, end)| end.messages >= start.messages).collect();
    let nodes = both.len().max(1) as f64;
    let mean = |of: fn(&WaitTotals) -> u64| {
        let sum: f64 = both.iter().map(|(a, b)| of(b).saturating_sub(of(a)) as f64).sum();
        sum / nodes / window.0 as f64
    };
    GroupWaits {
        group: group.to_owned(),
        peer_credits: mean(|waits| waits.peer_credits),
        ni_credits: mean(|waits| waits.ni_credits),
        driver: mean(|waits| waits.driver),
        zero_copy: mean(|waits| waits.zero_copy),
        cpu: mean(|waits| waits.cpu),
        messages_per_s: mean(|waits| waits.messages) * 1e9,
    }
}
