//! What one direction of a link does to packets: a queue, a rate, losses, a delay.
//!
//! In this order, as on a real path: a packet that finds the queue full is dropped there; the rate
//! is that of the wire, so each packet takes the time of its bytes and of the frame around it; a
//! packet that is too large, or is lost, has taken its time on the wire; the others arrive after
//! the delay.

use serde::{Deserialize, Serialize};

use crate::packet::{READ_MAX, Train, wire_bytes};
use crate::rng::Rng;

/// Longest part of a train that is delivered at once, by its time on the wire: 250 us. Without a
/// limit the first segments of a train would arrive as late as the last.
const PART_PS_MAX: u64 = 250_000_000;

/// For the memory of links without a rate: 100 Gb/s.
const RATE_FOR_MEMORY: u64 = 100_000_000_000;

/// Bytes that a link's memory has in addition, for packets that are delivered late because the
/// machine is busy.
const SPARE: u64 = 4 << 20;

/// Whether packets keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// A packet that would overtake another one arrives right after it.
    #[default]
    Kept,
    /// Each packet arrives after its own delay, also before those that were sent earlier.
    Free,
}

/// What chooses among parallel links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hashing {
    /// The addresses: all packets between two hosts take the same link.
    Hosts,
    /// Addresses and ports: each TCP or UDP stream takes one link.
    #[default]
    Streams,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    /// Bits per second on the wire, of each of the parallel links; `None`: no limit.
    pub rate: Option<u64>,
    /// Nanoseconds, one way.
    pub delay_ns: u64,
    /// Each packet is delayed by up to this many nanoseconds more; every value is equally likely.
    pub jitter_ns: u64,
    /// Whether jitter may change the order of packets.
    pub order: Order,
    /// Bytes on the wire that may wait before each of the parallel links.
    pub queue: u64,
    /// Lost packets of 1,000,000,000.
    pub loss: u32,
    /// IP packets above this many bytes disappear, without a message to anybody.
    pub drop_above: Option<u64>,
    /// Number of links side by side.
    pub parallel: u32,
    /// What chooses among them.
    pub hashing: Hashing,
}

impl Direction {
    /// Bytes of memory for packets that wait or are in flight.
    pub fn memory(&self) -> u64 {
        let rate = u128::from(self.rate.unwrap_or(RATE_FOR_MEMORY));
        let in_flight = rate * u128::from(self.delay_ns + self.jitter_ns) / 8_000_000_000;
        let one = u64::try_from(in_flight).unwrap_or(u64::MAX).saturating_add(self.queue);
        one.saturating_mul(u64::from(self.parallel)).saturating_add(SPARE + 2 * READ_MAX as u64)
    }

    /// Picoseconds that a packet is on the wire.
    fn wire_ps(&self, wire_bytes: u64) -> u64 {
        // A packet has less than 2^17 bytes, so the product is below 2^64.
        self.rate.map_or(0, |rate| wire_bytes * 8_000_000_000_000 / rate)
    }
}

/// What a direction has done so far. Packets and bytes are those on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that were sent on and arrive.
    pub packets: u64,
    /// Their bytes, with the frames around them.
    pub bytes: u64,
    /// Dropped because the queue was full.
    pub queue_full: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Dropped because they were too large.
    pub too_large: u64,
    /// Reads that were no packets, or trains of something else than TCP.
    pub malformed: u64,
    /// Most bytes that have waited before one of the links.
    pub queue_max: u64,
}

/// A part of a train that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The first of its segments.
    pub(crate) first: u32,
    /// How many there are.
    pub(crate) count: u32,
    /// When it arrives, in nanoseconds.
    pub(crate) due: u64,
}

/// The state of a direction.
#[derive(Debug)]
pub(crate) struct Wire {
    spec: Direction,
    rng: Rng,
    /// When each of the parallel links has sent all that waits, in picoseconds.
    free_at: Vec<u128>,
    /// When the last packet arrives, in nanoseconds.
    last_due: u64,
    pub(crate) counters: Counters,
}

/// What happens to one packet.
enum SendOutcome {
    Arrives,
    Dropped,
}

impl Wire {
    pub(crate) fn new(spec: Direction, seed: u64) -> Wire {
        let free_at = vec![0; spec.parallel.max(1) as usize];
        Wire { spec, rng: Rng::new(seed), free_at, last_due: 0, counters: Counters::default() }
    }

    /// Sends a train at `now`, in nanoseconds; what of it arrives is added to `parts`.
    pub(crate) fn send(&mut self, now: u64, train: &Train, parts: &mut Vec<Part>) {
        let flow = match self.spec.hashing {
            Hashing::Hosts => train.hosts(),
            Hashing::Streams => train.streams(),
        };
        let lane = (flow % self.free_at.len() as u64) as usize;
        let now_ps = u128::from(now) * 1000;
        self.free_at[lane] = self.free_at[lane].max(now_ps);
        let mut open: Option<(u32, u32, u64)> = None;
        for segment in 0..train.segments() {
            let ip_bytes = train.packet_bytes(segment);
            let (outcome, time) = self.send_one(now_ps, lane, ip_bytes);
            if let SendOutcome::Dropped = outcome {
                self.close(lane, &mut open, parts, time);
                continue;
            }
            let (_, count, ps) = open.get_or_insert((segment, 0, 0));
            (*count, *ps) = (*count + 1, *ps + time);
            if *ps >= PART_PS_MAX || self.spec.order == Order::Free {
                self.close(lane, &mut open, parts, 0);
            }
        }
        self.close(lane, &mut open, parts, 0);
    }

    /// One packet: what becomes of it, and its time on the wire in picoseconds.
    fn send_one(&mut self, now_ps: u128, lane: usize, ip_bytes: u64) -> (SendOutcome, u64) {
        let bytes = wire_bytes(ip_bytes);
        let waiting_ps = self.free_at[lane] - now_ps;
        let rate = u128::from(self.spec.rate.unwrap_or(0));
        let waiting = (waiting_ps * rate / 8_000_000_000_000) as u64;
        // Whatever the queue, an idle wire takes a packet.
        if waiting > 0 && waiting + bytes > self.spec.queue {
            self.counters.queue_full += 1;
            return (SendOutcome::Dropped, 0);
        }
        self.counters.queue_max = self.counters.queue_max.max(waiting + bytes);
        let time = self.spec.wire_ps(bytes);
        self.free_at[lane] += u128::from(time);
        if self.spec.drop_above.is_some_and(|limit| ip_bytes > limit) {
            self.counters.too_large += 1;
            return (SendOutcome::Dropped, time);
        }
        if self.rng.chance(self.spec.loss) {
            self.counters.lost += 1;
            return (SendOutcome::Dropped, time);
        }
        self.counters.packets += 1;
        self.counters.bytes += bytes;
        (SendOutcome::Arrives, time)
    }

    /// Ends a part that arrives; `after` is the time on the wire of what followed it.
    fn close(
        &mut self,
        lane: usize,
        open: &mut Option<(u32, u32, u64)>,
        parts: &mut Vec<Part>,
        after: u64,
    ) {
        let Some((first, count, _)) = open.take() else { return };
        let sent_ps = self.free_at[lane] - u128::from(after);
        // Rounded up: nothing arrives early.
        let sent = u64::try_from(sent_ps.div_ceil(1000)).unwrap_or(u64::MAX);
        let jitter = match self.spec.jitter_ns {
            0 => 0,
            most => self.rng.up_to(most),
        };
        let mut due = sent.saturating_add(self.spec.delay_ns).saturating_add(jitter);
        // Parallel links do not wait for each other, unless there is jitter in one order.
        if self.spec.order == Order::Kept && self.spec.jitter_ns > 0 {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        parts.push(Part { first, count, due });
    }
}
