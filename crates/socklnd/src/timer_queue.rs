//! Which connection or peer has to be looked at when: a queue ordered by time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use lustrine_lnet::time::Time;

/// Keys and the times at which they are due. The deadlines themselves are in the connections and
/// peers, and may change.
///
/// A key may be in the queue several times, with different times; keys that no longer wait are
/// skipped when they are due. So adding and taking cost a logarithm each, however many keys are in
/// the queue that are not due.
#[derive(Debug)]
pub(crate) struct TimerQueue<K: Ord> {
    /// Time, number, key: of keys due at the same time the one added first comes first.
    members: BinaryHeap<Reverse<(Time, u64, K)>>,
    added: u64,
    /// Keys taken, for tests of the effort.
    #[cfg(test)]
    pub(crate) taken: u64,
}

impl<K: Copy + Ord> TimerQueue<K> {
    pub(crate) fn new() -> TimerQueue<K> {
        TimerQueue {
            members: BinaryHeap::new(),
            added: 0,
            #[cfg(test)]
            taken: 0,
        }
    }

    /// Adds a key that is due at `deadline`.
    pub(crate) fn add(&mut self, key: K, deadline: Time) {
        self.added += 1;
        self.members.push(Reverse((deadline, self.added, key)));
    }

    /// Nothing is due before this.
    pub(crate) fn earliest(&self) -> Time {
        self.members.peek().map_or(Time::NEVER, |Reverse((deadline, ..))| *deadline)
    }

    /// Takes the keys that are due by `now`, with their times, in the order of these.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<(K, Time)> {
        let mut due = Vec::new();
        while self.earliest() <= now
            && let Some(Reverse((deadline, _, key))) = self.members.pop()
        {
            due.push((key, deadline));
        }
        #[cfg(test)]
        {
            self.taken += due.len() as u64;
        }
        due
    }

    /// Drops the first entries that no longer count, which would be due for nothing.
    pub(crate) fn skip_stale(&mut self, waits: impl Fn(K, Time) -> bool) {
        while let Some(Reverse((deadline, _, key))) = self.members.peek()
            && !waits(*key, *deadline)
        {
            self.members.pop();
        }
    }

    /// Drops entries that no longer count when they outnumber `waiting`, the number of keys that
    /// wait: peers that come and go quickly must not fill the queue.
    pub(crate) fn compact(&mut self, waiting: usize, waits: impl Fn(K, Time) -> bool) {
        const SLACK: usize = 64;
        if self.members.len() > 2 * waiting + SLACK {
            self.members.retain(|Reverse((deadline, _, key))| waits(*key, *deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_when_they_are_due() {
        let mut queue = TimerQueue::new();
        queue.add(1, Time(50));
        queue.add(2, Time(30));
        queue.add(3, Time(30));
        assert!(queue.take_due(Time(29)).is_empty());
        assert_eq!(queue.earliest(), Time(30));
        assert_eq!(queue.take_due(Time(49)), [(2, Time(30)), (3, Time(30))]);
        assert_eq!(queue.earliest(), Time(50));
        assert_eq!(queue.take_due(Time(50)), [(1, Time(50))]);
        assert_eq!(queue.earliest(), Time::NEVER);
    }

    /// Keys that are due one after the other do not cost a look at all the others each.
    #[test]
    fn taking_keys_one_by_one_is_linear() {
        const KEYS: u64 = 10_000;
        let mut queue = TimerQueue::new();
        for key in 0..KEYS {
            queue.add(key, Time(key));
        }
        for now in 0..KEYS {
            assert_eq!(queue.take_due(Time(now)).len(), 1);
        }
        assert_eq!(queue.taken, KEYS);
    }

    #[test]
    fn compacting_bounds_the_queue() {
        let mut queue = TimerQueue::new();
        for key in 0..10_000 {
            queue.add(key, Time(key));
            queue.compact(1, |key, _| key == 3);
            assert!(queue.members.len() <= 67);
        }
        assert!(queue.members.iter().any(|Reverse((_, _, key))| *key == 3));
    }
}
