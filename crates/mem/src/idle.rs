//! Regions without users, and which of them the operating system gets back.

use crate::chains::Chains;
use crate::class::{REGION_LEN, REGION_SIZES};

/// Regions of [`REGION_LEN`] that stay mapped when they are idle, so that a few messages after a
/// while cost no page faults: 16 MiB.
const KEPT: u32 = 8;

/// Regions without users: a list for each length, in units of [`REGION_LEN`], the latest to become
/// idle in front.
#[derive(Debug)]
pub(crate) struct Idle {
    chains: Chains,
    counts: [Count; REGION_SIZES],
    bytes: u64,
    due: u32,
}

/// Regions of one length.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    now: u32,
    /// The smallest value that `now` has had in this period.
    min: u32,
    /// How many were idle in all of the last period, and still are.
    due: u32,
}

impl Idle {
    pub(crate) fn new() -> Idle {
        let chains = Chains::new(REGION_SIZES);
        Idle { chains, counts: [Count::default(); REGION_SIZES], bytes: 0, due: 0 }
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes room for a region with this number.
    pub(crate) fn admit(&mut self, id: u32) {
        self.chains.admit(id);
    }

    /// A region of so many units has become idle.
    pub(crate) fn push(&mut self, units: u32, id: u32) {
        self.chains.push_front(list(units), id);
        self.counts[list(units)].now += 1;
        self.bytes += bytes(units);
    }

    /// A region is in use again, or is unmapped.
    pub(crate) fn remove(&mut self, units: u32, id: u32) {
        self.chains.remove(list(units), id);
        let count = &mut self.counts[list(units)];
        count.now -= 1;
        count.min = count.min.min(count.now);
        if count.due > count.now {
            count.due -= 1;
            self.due -= 1;
        }
        self.bytes -= bytes(units);
    }

    /// The region of so many units that has been idle for longest.
    pub(crate) fn oldest(&self, units: u32) -> Option<u32> {
        self.chains.back(list(units))
    }

    /// A region of the greatest length there is. Unmapping it needs the fewest calls, and short
    /// ones are those most often needed.
    pub(crate) fn longest(&self) -> Option<u32> {
        (1..=REGION_SIZES as u32).rev().find_map(|units| self.oldest(units))
    }

    /// A period ends: what was idle in all of it is due, apart from a few regions.
    pub(crate) fn end_period(&mut self) {
        self.due = 0;
        for (list, count) in self.counts.iter_mut().enumerate() {
            count.due = if list == 0 { count.min.saturating_sub(KEPT) } else { count.min };
            count.min = count.now;
            self.due += count.due;
        }
    }

    /// A region that is due, if there is one. It is not due any more.
    pub(crate) fn take_due(&mut self) -> Option<u32> {
        let list = self.counts.iter().position(|count| count.due > 0)?;
        self.counts[list].due -= 1;
        self.due -= 1;
        self.chains.back(list)
    }

    /// Whether a region is due.
    pub(crate) fn has_due(&self) -> bool {
        self.due > 0
    }

    /// Whether there are more than the few that stay.
    pub(crate) fn has_more_than_stays(&self) -> bool {
        self.bytes > u64::from(KEPT) * u64::from(REGION_LEN)
    }
}

fn list(units: u32) -> usize {
    units as usize - 1
}

fn bytes(units: u32) -> u64 {
    u64::from(units) * u64::from(REGION_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten regions of one unit and four of three, the smallest numbers idle for longest.
    fn idle() -> Idle {
        let mut idle = Idle::new();
        (0..14).for_each(|id| {
            idle.admit(id);
            idle.push(if id < 10 { 1 } else { 3 }, id);
        });
        idle
    }

    fn all_due(idle: &mut Idle) -> Vec<u32> {
        let mut due = Vec::new();
        while let Some(id) = idle.take_due() {
            idle.remove(if id < 10 { 1 } else { 3 }, id);
            due.push(id);
        }
        assert!(!idle.has_due());
        due
    }

    #[test]
    fn what_was_idle_for_a_period_is_due_apart_from_a_few() {
        let mut idle = idle();
        assert_eq!(idle.bytes(), (10 + 4 * 3) * u64::from(REGION_LEN));
        idle.end_period();
        assert_eq!(all_due(&mut idle), [], "in use in the first period");
        idle.end_period();
        assert!(idle.has_due() && idle.has_more_than_stays());
        assert_eq!(all_due(&mut idle), [0, 1, 10, 11, 12, 13]);
        assert!(!idle.has_more_than_stays());
        idle.end_period();
        idle.end_period();
        assert_eq!(all_due(&mut idle), [], "eight stay");
    }

    #[test]
    fn each_length_counts_by_itself() {
        let mut idle = idle();
        idle.end_period();
        // The short ones are in use for a moment.
        (0..10).for_each(|id| idle.remove(1, id));
        (0..10).for_each(|id| idle.push(1, id));
        idle.end_period();
        assert_eq!(all_due(&mut idle), [10, 11, 12, 13]);
    }

    #[test]
    fn what_is_due_and_then_in_use_stays() {
        let mut idle = idle();
        idle.end_period();
        idle.end_period();
        // Six are due. All but three of the short ones, and one long one, are used again.
        (0..9).for_each(|id| idle.remove(1, id));
        (10..13).for_each(|id| idle.remove(3, id));
        assert_eq!(all_due(&mut idle), [9, 13]);
        assert_eq!((idle.longest(), idle.bytes()), (None, 0));
    }
}
