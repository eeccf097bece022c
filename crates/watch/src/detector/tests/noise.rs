//! Paths with noise of several kinds, without a change.

use crate::sample::{Rtt, Sample};

/// Pings of a sample, if nothing else is said.
const PINGS: u32 = 10;

/// Numbers that look random, the same for the same seed (splitmix64).
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    pub(super) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (one, two) = (self.part().max(1e-12), self.part());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
    }

    fn exponential(&mut self) -> f64 {
        -self.part().max(1e-12).ln()
    }
}

/// A kind of noise.
#[derive(Clone, Copy)]
pub(super) struct Model {
    /// Its name in the documentation.
    pub(super) name: &'static str,
    /// The round trip without noise, in nanoseconds.
    base: f64,
    /// What comes on top of a ping, in nanoseconds: of this path, at this sample.
    noise: fn(&mut Path, u64) -> f64,
    loss: f64,
}

impl Model {
    pub(super) const STILL: Model =
        Model { name: "no noise", base: 10e6, noise: |_, _| 0.0, loss: 0.0 };
}

pub(super) const MODELS: &[Model] = &[
    Model::STILL,
    Model {
        name: "normal jitter of 1 %",
        base: 50e6,
        noise: |path, _| path.random.normal().abs() * 0.01 * 50e6,
        loss: 0.0,
    },
    Model {
        name: "exponential queueing of 20 % on average",
        base: 10e6,
        noise: |path, _| path.random.exponential() * 0.2 * 10e6,
        loss: 0.0,
    },
    Model {
        name: "heavy tails (Pareto, exponent 1.5)",
        base: 10e6,
        noise: |path, _| (path.random.part().max(1e-9).powf(-1.0 / 1.5) - 1.0) * 0.05 * 10e6,
        loss: 0.0,
    },
    Model {
        name: "a LAN with a busy host: 80 us, 2 % of the pings 5 ms late",
        base: 80e3,
        noise: |path, _| {
            let late = if path.random.part() < 0.02 { 5e6 } else { 0.0 };
            late + path.random.part() * 60e3
        },
        loss: 0.0,
    },
    Model {
        name: "packets that alternate between two paths, 10 and 12 ms",
        base: 10e6,
        noise: |path, _| if path.random.part() < 0.5 { 2e6 } else { 0.0 },
        loss: 0.0,
    },
    Model {
        name: "samples that alternate between two paths",
        base: 10e6,
        noise: |path, _| if path.coin { 2e6 } else { path.random.part() * 1e5 },
        loss: 0.0,
    },
    Model {
        name: "bursts of load: a minute in ten, two more round trips of queue",
        base: 10e6,
        noise: |path, at| {
            let on = if at % 60 < 6 { 2.0 } else { 0.1 };
            path.random.exponential() * on * 10e6
        },
        loss: 0.0,
    },
    Model {
        name: "load that comes and goes with the day",
        base: 10e6,
        noise: |path, at| {
            let hour = (at as f64 / 8640.0 * std::f64::consts::TAU).sin();
            path.random.exponential() * (1.0 + hour) * 0.5 * 10e6
        },
        loss: 0.0,
    },
    Model {
        name: "1 % of the pings lost",
        base: 10e6,
        noise: |path, _| path.random.exponential() * 0.05 * 10e6,
        loss: 0.01,
    },
    Model {
        name: "5 % of the pings lost",
        base: 10e6,
        noise: |path, _| path.random.exponential() * 0.05 * 10e6,
        loss: 0.05,
    },
];

/// A path.
#[derive(Clone)]
pub(super) struct Path {
    model: Model,
    random: Random,
    /// The number of samples so far.
    taken: u64,
    /// Of the present sample.
    coin: bool,
    pub(super) base: f64,
    /// What most pings wait on top, in nanoseconds.
    pub(super) queue: f64,
    pub(super) loss: f64,
    /// Pings of a sample.
    pub(super) pings: u32,
}

impl Path {
    pub(super) fn new(model: Model, seed: u64) -> Path {
        let random = Random::new(seed);
        let Model { base, loss, .. } = model;
        Path { model, random, taken: 0, coin: false, base, queue: 0.0, loss, pings: PINGS }
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Is as it was, and time goes on.
    pub(super) fn back(&mut self, before: &Path) {
        (self.base, self.queue, self.loss) = (before.base, before.queue, before.loss);
    }

    /// The next sample.
    pub(super) fn sample(&mut self, every: u64) -> Sample {
        let at = self.taken;
        self.taken += 1;
        self.coin = self.random.part() < 0.5;
        let (mut times, mut lost, mut sent) = (Vec::new(), 0, 0);
        for number in 0..self.pings {
            if times.is_empty() && lost >= 3 {
                break;
            }
            sent += 1;
            if self.random.part() < self.loss {
                lost += 1;
                continue;
            }
            // A queue is empty at times: four pings in ten find it so.
            let queue = if number % 3 == 0 { 0.0 } else { self.queue };
            let noise = (self.model.noise)(self, at);
            times.push((self.base + queue + noise) as u64);
        }
        Sample { at_ms: at * every, sent, lost, rtt: Rtt::of(times), ..Sample::default() }
    }
}
