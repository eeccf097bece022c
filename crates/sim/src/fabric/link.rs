//! One direction of one link.

use core::fmt;

use lustrine_lnet::time::{Nanos, Time};

use crate::rng::Rng;

/// Bits in a byte times nanoseconds in a second.
const BITS: u64 = 8_000_000_000;

/// Bits per second, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// This number of bits per second; `None` for 0.
    pub fn from_bits(bits: u64) -> Option<Rate> {
        (bits != 0).then_some(Rate(bits))
    }

    /// Bits per second.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The time that this number of bytes takes.
    pub fn time_for(self, bytes: u64) -> Nanos {
        // Wide divisions are slow, and rarely needed.
        if let Some(scaled) = bytes.checked_mul(BITS) {
            return Nanos(scaled / self.0);
        }
        let nanos = u128::from(bytes) * u128::from(BITS) / u128::from(self.0);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The number of bytes that leave in this time.
    pub fn bytes_in(self, time: Nanos) -> u64 {
        if let Some(bits) = time.0.checked_mul(self.0) {
            return bits / BITS;
        }
        let bytes = u128::from(time.0) * u128::from(self.0) / u128::from(BITS);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "Gb/s"),
            1_000_000.. => (1_000_000, "Mb/s"),
            _ => (1000, "kb/s"),
        };
        write!(f, "{} {name}", self.0 as f64 / unit as f64)
    }
}

/// The properties of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// `None` has no limit, and so no queue.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Nanos,
    /// The largest random addition to the delay; packets stay in order.
    pub jitter: Nanos,
    /// Bytes that may wait in the queue; what does not fit is lost.
    pub queue: u64,
    /// Packets lost out of 1,000,000,000.
    pub loss: u32,
}

impl Default for LinkSpec {
    /// No limit, no delay, no loss.
    fn default() -> LinkSpec {
        LinkSpec { rate: None, delay: Nanos::ZERO, jitter: Nanos::ZERO, queue: u64::MAX, loss: 0 }
    }
}

/// Data that is passed to a link as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Its bytes on the link.
    pub len: u64,
    /// The number of packets that it consists of, each of which may be lost by chance.
    pub packets: u64,
}

impl Burst {
    /// Data in packets of `packet` bytes on the link, the last one of which may be shorter.
    pub fn new(len: u64, packet: u64) -> Burst {
        Burst { len, packets: len.div_ceil(packet.max(1)) }
    }

    /// Data of which nothing is lost by chance.
    pub fn sure(len: u64) -> Burst {
        Burst { len, packets: 0 }
    }
}

/// What happened to data at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// The time at which its last bit leaves the far end.
    At(Time),
    /// There was no room, it was lost by chance, or the link is cut.
    Lost,
}

/// The use of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Bytes that came in and were not lost.
    pub bytes: u64,
    /// Bytes that were lost: for lack of room, by chance, or because the link was cut.
    pub lost: u64,
    /// Time in which the link was sending.
    pub busy: Nanos,
    /// The largest number of bytes in the queue, including those being sent.
    pub queue_max: u64,
    /// The sum over all bytes of their time in the queue, in byte-microseconds.
    pub waited: u64,
}

/// The state of one direction.
#[derive(Debug)]
pub(super) struct Direction {
    spec: LinkSpec,
    cut: bool,
    /// When everything in the queue has been sent.
    free_at: Time,
    last_arrival: Time,
    used: LinkUsage,
}

impl Direction {
    pub(super) fn new(spec: LinkSpec) -> Direction {
        Direction {
            spec,
            cut: false,
            free_at: Time::ZERO,
            last_arrival: Time::ZERO,
            used: LinkUsage::default(),
        }
    }

    pub(super) fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// What is in the queue stays there, in bytes, and takes as long as the new rate needs for it.
    pub(super) fn change(&mut self, now: Time, spec: LinkSpec) {
        let (queue, before) = (self.waiting(now), self.free_at.since(now));
        let rate = core::mem::replace(&mut self.spec, spec).rate;
        if spec.rate == rate {
            // Divisions would make the queue shorter.
            return;
        }
        let after = spec.rate.map_or(Nanos::ZERO, |rate| rate.time_for(queue));
        self.free_at = now + after;
        // All of the queue was counted as busy time when it arrived.
        self.used.busy = Nanos((self.used.busy.0 + after.0).saturating_sub(before.0));
    }

    pub(super) fn cut(&mut self, cut: bool) {
        self.cut = cut;
    }

    pub(super) fn used(&self, now: Time) -> LinkUsage {
        // Bytes that are still to be sent were counted when they arrived.
        let ahead = self.free_at.since(now);
        LinkUsage { busy: Nanos(self.used.busy.0.saturating_sub(ahead.0)), ..self.used }
    }

    pub(super) fn pass(&mut self, now: Time, burst: Burst, rng: &mut Rng) -> Transit {
        if burst.len > self.room(now) {
            self.lose(burst.len);
            return Transit::Lost;
        }
        self.leave(now, burst, rng)
    }

    pub(super) fn room(&self, now: Time) -> u64 {
        self.spec.queue.saturating_sub(self.waiting(now))
    }

    pub(super) fn lose(&mut self, len: u64) {
        self.used.lost += len;
    }

    /// Bytes in the queue.
    fn waiting(&self, now: Time) -> u64 {
        self.spec.rate.map_or(0, |rate| rate.bytes_in(self.free_at.since(now)))
    }

    /// Passes data regardless of the length of the queue.
    pub(super) fn leave(&mut self, now: Time, burst: Burst, rng: &mut Rng) -> Transit {
        let len = burst.len;
        if self.cut || self.unlucky(burst.packets, rng) {
            self.lose(len);
            return Transit::Lost;
        }
        let (wait, waiting) = (self.free_at.since(now), self.waiting(now));
        let took = self.spec.rate.map_or(Nanos::ZERO, |rate| rate.time_for(len));
        self.free_at = self.free_at.max(now) + took;
        self.used.bytes += len;
        self.used.busy = Nanos(self.used.busy.0 + took.0);
        self.used.queue_max = self.used.queue_max.max(waiting + len);
        self.used.waited += len.saturating_mul(wait.0) / 1000;
        let jitter = Nanos(rng.below(self.spec.jitter.0.saturating_add(1)));
        let arrival = self.free_at + self.spec.delay + jitter;
        self.last_arrival = self.last_arrival.max(arrival);
        Transit::At(self.last_arrival)
    }

    /// When the last bit of its queue is sent.
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }

    /// The time that a packet without length takes.
    pub(super) fn glance(&self, now: Time) -> Option<Nanos> {
        (!self.cut).then(|| Nanos(self.free_at.since(now).0 + self.spec.delay.0))
    }

    /// Whether one of so many packets is lost by chance.
    fn unlucky(&self, packets: u64, rng: &mut Rng) -> bool {
        if self.spec.loss == 0 || packets == 0 {
            return false;
        }
        rng.below(ONE) >= power(self.spared(), packets)
    }

    /// How many of so many packets are lost by chance.
    pub(super) fn losses(&self, packets: u64, rng: &mut Rng) -> u64 {
        let spared = self.spared();
        let (mut lost, mut left) = (0, packets);
        while self.spec.loss != 0 && left != 0 {
            // The number of packets before the next loss is at least i with the probability that
            // i packets are spared.
            let drawn = rng.below(ONE);
            let (mut low, mut high) = (0, left);
            while low < high {
                let middle = (low + high).div_ceil(2);
                if drawn < power(spared, middle) { low = middle } else { high = middle - 1 }
            }
            if low == left {
                break;
            }
            lost += 1;
            left -= low + 1;
        }
        lost
    }

    /// The probability that a packet is not lost by chance, as a part of [`ONE`]. In integers:
    /// floating point differs between machines.
    fn spared(&self) -> u64 {
        BILLION.saturating_sub(u64::from(self.spec.loss)) * ONE / BILLION
    }
}

const BILLION: u64 = 1_000_000_000;

/// One, with 32 binary places.
const ONE: u64 = 1 << 32;

/// A number from 0 to [`ONE`], to the `exponent`.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut product = ONE;
    while exponent != 0 {
        if exponent & 1 == 1 {
            product = if product == ONE { base } else { (product * base) >> 32 };
        }
        // Both are below 2^32 except for one itself.
        base = if base == ONE { ONE } else { (base * base) >> 32 };
        exponent >>= 1;
    }
    product
}
