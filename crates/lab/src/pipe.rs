//! One direction of a link with its packets: reads of one TUN device go in, writes to the other
//! one come out. It does no I/O and has no clock.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::link::{Counters, Direction, Part, Wire};
use crate::packet::{CUT_MAX, Train};
use crate::ring::{Ring, Slot};

/// Upper limits of the classes of lateness, in microseconds: 2^n for each n.
const LATE_CLASSES: usize = 32;

/// A part of a read that is in flight.
#[derive(Debug)]
struct Queued {
    part: Part,
    /// Its place in the order of sending, which holds among those that arrive at once.
    number: u64,
    slot: Slot,
    train: Train,
    /// How far its payload has moved towards the beginning of the read.
    moved_by: usize,
}

impl Ord for Queued {
    /// The first to arrive is the greatest, because the heap returns the greatest.
    fn cmp(&self, other: &Queued) -> Ordering {
        (other.part.due, other.number).cmp(&(self.part.due, self.number))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        self.number == other.number
    }
}

impl Eq for Queued {}

/// One direction of a link.
#[derive(Debug)]
pub struct Pipe {
    wire: Wire,
    ring: Ring,
    queued: BinaryHeap<Queued>,
    /// How many queued there were.
    sent: u64,
    parts: Vec<Part>,
    headers: [u8; CUT_MAX],
    late: [u64; LATE_CLASSES],
    latest_ns: u64,
}

/// How late packets were delivered, because the machine had other things to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Half of them were at most so late, in microseconds: a power of 2, or the latest one.
    pub p50_us: u64,
    /// The same of 99 of 100.
    pub p99_us: u64,
    /// The latest one, in whole microseconds, rounded up.
    pub max_us: u64,
}

/// What is to be written: one packet for the TUN device in two pieces.
#[derive(Debug)]
pub struct Delivery<'p> {
    /// Offload header and headers of the packet; empty if they are in `rest`.
    pub headers: &'p [u8],
    /// All that follows.
    pub rest: &'p [u8],
}

impl Pipe {
    /// A direction that is empty; `seed` determines which packets are lost.
    pub fn new(spec: Direction, seed: u64) -> Pipe {
        let memory = usize::try_from(spec.memory()).unwrap_or(usize::MAX);
        Pipe {
            wire: Wire::new(spec, seed),
            ring: Ring::new(memory),
            queued: BinaryHeap::new(),
            sent: 0,
            parts: Vec::new(),
            headers: [0; CUT_MAX],
            late: [0; LATE_CLASSES],
            latest_ns: 0,
        }
    }

    /// Memory for the next read; `None` while all memory is in use: then nothing may be read.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        self.ring.room()
    }

    /// Sends what is now at the beginning of [`Pipe::room`]: so many bytes, read at `now`
    /// (nanoseconds since any time, which never goes backwards).
    ///
    /// # Panics
    /// When there was no room.
    pub fn send(&mut self, len: usize, now: u64) {
        let slot = self.ring.next();
        let room = self.ring.room().expect("there was room");
        let Ok(train) = Train::parse(&room[..len]) else {
            self.wire.counters.malformed += 1;
            return;
        };
        self.parts.clear();
        self.wire.send(now, &train, &mut self.parts);
        if self.parts.is_empty() {
            return;
        }
        // What was dropped takes no memory: the rest moves together.
        let mut end = train.headers_end();
        for part in &self.parts {
            let bytes = train.bytes(part.first, part.count);
            let moved_by = bytes.start - end;
            let len = bytes.len();
            if moved_by > 0 {
                room.copy_within(bytes, end);
            }
            end += len;
            self.sent += 1;
            self.queued.push(Queued { part: *part, number: self.sent, slot, train, moved_by });
        }
        self.ring.keep(end, self.parts.len() as u32);
    }

    /// When the next packet arrives, in nanoseconds.
    pub fn next_due(&self) -> Option<u64> {
        self.queued.peek().map(|parcel| parcel.part.due)
    }

    /// The next packet, if it has arrived; [`Pipe::delivered`] goes on to the next one.
    pub fn arrived(&mut self, now: u64) -> Option<Delivery<'_>> {
        let Queued { part, slot, train, moved_by, .. } =
            self.queued.peek().filter(|parcel| parcel.part.due <= now)?;
        let read = self.ring.bytes(*slot);
        let (headers, rest) = train.cut(read, part.first, part.count, &mut self.headers);
        let rest = &read[rest.start - moved_by..rest.end - moved_by];
        Some(Delivery { headers: &self.headers[..headers], rest })
    }

    /// The packet that has arrived was written at `now`.
    ///
    /// # Panics
    /// When no packet is in flight.
    pub fn delivered(&mut self, now: u64) {
        let parcel = self.queued.pop().expect("a packet that has arrived");
        self.ring.release(parcel.slot);
        let late = now.saturating_sub(parcel.part.due);
        let class = (u64::BITS - (late / 1000).leading_zeros()) as usize;
        self.late[class.min(LATE_CLASSES - 1)] += 1;
        self.latest_ns = self.latest_ns.max(late);
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.wire.counters
    }

    /// How late it was.
    pub fn lateness(&self) -> Lateness {
        let all: u64 = self.late.iter().sum();
        let max_us = self.latest_ns.div_ceil(1000);
        let part = |percent: u64| {
            let mut seen = 0;
            let reached = |count: &u64| {
                seen += count;
                all > 0 && seen * 100 >= all * percent
            };
            let class = self.late.iter().position(reached);
            // The bound of the last class may be above what was seen.
            class.map_or(0, |class| 1u64 << class).min(max_us)
        };
        Lateness { p50_us: part(50), p99_us: part(99), max_us }
    }
}

#[cfg(test)]
mod tests;
