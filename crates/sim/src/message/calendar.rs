//! Events ordered in windows of time; the events of one window are returned together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lustrine_lnet::time::{Nanos, Time};

use super::packet::PacketId;

/// Windows that are kept separately; later events wait in a heap.
const WINDOWS: u64 = 1 << 16;

/// The place of an event: a host, or one direction of a link between sites, by its number. Hosts
/// come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u32);

/// Distinguishes links from hosts.
const LINK: u32 = 1 << 31;

impl Place {
    pub(super) fn host(number: u32) -> Place {
        Place(number & !LINK)
    }

    pub(super) fn link(number: u32) -> Place {
        Place(number | LINK)
    }

    pub(super) fn as_host(self) -> Option<u32> {
        (self.0 & LINK == 0).then_some(self.0)
    }
}

/// Something that happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) place: Place,
    pub(super) at: Time,
    /// Orders events of one time and place, in the same way in every run.
    pub(super) order: u64,
    /// The packet that it concerns; `None` gives the host a turn.
    pub(super) packet: Option<PacketId>,
}

impl Event {
    /// Compares the fields one after the other, except the packet, but faster.
    #[inline]
    fn key(&self) -> (u128, u64) {
        (u128::from(self.place.0) << 64 | u128::from(self.at.0), self.order)
    }
}

/// All events to come.
#[derive(Debug)]
pub(super) struct Calendar {
    width: u64,
    /// The first window that is not over.
    first: u64,
    /// Windows from `first`, by their number modulo [`WINDOWS`].
    near: Vec<Vec<Event>>,
    /// A bit for each window that is not empty.
    full: Vec<u64>,
    far: BinaryHeap<Reverse<(Time, Event)>>,
    spare: Vec<Vec<Event>>,
}

impl Calendar {
    /// Windows of this width, at least a nanosecond.
    pub(super) fn new(width: Nanos) -> Calendar {
        Calendar {
            width: width.0.max(1),
            first: 0,
            near: (0..WINDOWS).map(|_| Vec::new()).collect(),
            full: vec![0; WINDOWS as usize / 64],
            far: BinaryHeap::new(),
            spare: Vec::new(),
        }
    }

    /// Changes the width of windows from now on.
    pub(super) fn set_width(&mut self, width: Nanos) {
        let width = width.0.max(1);
        if width == self.width {
            return;
        }
        let mut all: Vec<Event> =
            self.near.iter_mut().flat_map(|window| window.drain(..)).collect();
        all.extend(self.far.drain().map(|Reverse((_, event))| event));
        self.full.fill(0);
        self.first = self.first * self.width / width;
        self.width = width;
        all.into_iter().for_each(|event| self.add(event));
    }

    /// Adds an event, in a window that is not over.
    pub(super) fn add(&mut self, event: Event) {
        let window = event.at.0 / self.width;
        debug_assert!(window >= self.first, "{event:?} is in the past");
        if window - self.first >= WINDOWS {
            self.far.push(Reverse((event.at, event)));
            return;
        }
        let index = window % WINDOWS;
        let near = &mut self.near[index as usize];
        if near.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *near = spare;
        }
        near.push(event);
        self.full[index as usize / 64] |= 1 << (index % 64);
    }

    /// Takes the events of the next window that has any, except those later than `end`, sorted by
    /// place and then time. Returns the first moment after the window.
    pub(super) fn take(&mut self, end: Time, out: &mut Vec<Event>) -> Option<Time> {
        out.clear();
        loop {
            self.bring_near();
            let Some(window) = self.next_full() else {
                let Reverse((at, _)) = self.far.peek()?;
                if *at > end {
                    return None;
                }
                self.first = at.0 / self.width;
                continue;
            };
            if window * self.width > end.0 {
                return None;
            }
            self.first = window;
            let index = (window % WINDOWS) as usize;
            let near = &mut self.near[index];
            let over = (window + 1) * self.width;
            if over > end.0 + 1 {
                let mut kept = self.spare.pop().unwrap_or_default();
                for event in near.drain(..) {
                    let due = event.at <= end;
                    if due { out.push(event) } else { kept.push(event) }
                }
                core::mem::swap(near, &mut kept);
                self.spare.push(kept);
            } else {
                core::mem::swap(near, out);
                let empty = core::mem::take(near);
                if empty.capacity() != 0 {
                    self.spare.push(empty);
                }
            }
            if self.near[index].is_empty() {
                self.full[index / 64] &= !(1 << (index % 64));
            }
            if out.is_empty() {
                return None;
            }
            out.sort_unstable_by(|one, other| {
                one.key().cmp(&other.key()).then_with(|| one.packet.cmp(&other.packet))
            });
            return Some(Time(over.min(end.0 + 1)));
        }
    }

    /// Moves events from the heap whose windows are near enough.
    fn bring_near(&mut self) {
        while let Some(Reverse((at, _))) = self.far.peek() {
            if at.0 / self.width - self.first >= WINDOWS {
                return;
            }
            let Some(Reverse((_, event))) = self.far.pop() else { return };
            self.add(event);
        }
    }

    fn next_full(&self) -> Option<u64> {
        let start = self.first % WINDOWS;
        let words = self.full.len() as u64;
        for step in 0..=words {
            let index = (start / 64 + step) % words;
            let mut word = self.full[index as usize];
            if step == 0 {
                word &= !0 << (start % 64);
            } else if step == words {
                word &= !(!0 << (start % 64));
            }
            if word != 0 {
                let at = index * 64 + u64::from(word.trailing_zeros());
                return Some(self.first + (at + WINDOWS - start) % WINDOWS);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn event(at: u64, host: u32, order: u64) -> Event {
        Event { place: Place::host(host), at: Time(at), order, packet: None }
    }

    #[test]
    fn every_event_comes_once_in_its_window_for_any_width_and_stops() {
        for width in [1, 7, 1000, 1_000_000] {
            let mut rng = Rng::new(width);
            let mut calendar = Calendar::new(Nanos(width));
            let mut expected = Vec::new();
            let mut seen = Vec::new();
            let mut now = 0;
            let mut window = Vec::new();
            for round in 0..200 {
                for order in 0..rng.below(20) {
                    let bits = rng.below(36);
                    let at = now + rng.below(1 << bits);
                    expected.push(event(at, rng.below(5) as u32, round * 100 + order));
                    calendar.add(*expected.last().unwrap());
                }
                let bits = rng.below(32);
                let end = now + rng.below(1 << bits);
                let mut last = now;
                while let Some(over) = calendar.take(Time(end), &mut window) {
                    assert!(window.iter().all(|event| event.at < over && event.at.0 >= last));
                    assert!(window.is_sorted() && over.0 <= end + 1);
                    last = over.0;
                    seen.append(&mut window);
                }
                now = end;
                if round == 100 {
                    calendar.set_width(Nanos(width * 3));
                }
            }
            expected.retain(|event| event.at.0 <= now);
            expected.sort_unstable();
            seen.sort_unstable();
            assert_eq!(seen, expected);
        }
    }
}
