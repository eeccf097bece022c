//! What must be looked at when: a list with a lower bound of its next deadline.

use lustrine_lnet::time::Time;

/// Keys whose deadlines are kept elsewhere (in the connection, in the peer).
///
/// Leaving costs nothing: keys that no longer wait are dropped at the next review, and the bound
/// may therefore be early, never late. Each key costs at most one such early review.
#[derive(Debug)]
pub(crate) struct TimerQueue<K> {
    members: Vec<K>,
    earliest: Time,
}

impl<K: Copy> TimerQueue<K> {
    pub(crate) fn new() -> TimerQueue<K> {
        TimerQueue { members: Vec::new(), earliest: Time::NEVER }
    }

    /// Adds a key that is not on the list.
    pub(crate) fn add(&mut self, key: K, deadline: Time) {
        self.members.push(key);
        self.bring_forward(deadline);
    }

    /// A key on the list has a deadline that may be earlier than the others.
    pub(crate) fn bring_forward(&mut self, deadline: Time) {
        self.earliest = self.earliest.min(deadline);
    }

    /// Nothing is due before this.
    pub(crate) fn earliest(&self) -> Time {
        self.earliest
    }

    /// Empties the list if something may be due; the caller adds again the keys that still wait.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<K> {
        if now < self.earliest {
            return Vec::new();
        }
        self.earliest = Time::NEVER;
        core::mem::take(&mut self.members)
    }

    /// Drops keys that no longer wait when they outnumber `waiting`, the number of those that do:
    /// peers that come and go quickly must not fill the list.
    pub(crate) fn compact(&mut self, waiting: usize, waits: impl Fn(K) -> bool) {
        const SLACK: usize = 64;
        if self.members.len() > 2 * waiting + SLACK {
            self.members.retain(|key| waits(*key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviewed_only_when_due() {
        let mut queue = TimerQueue::new();
        queue.add(1, Time(50));
        queue.add(2, Time(30));
        assert!(queue.take_due(Time(29)).is_empty());
        queue.bring_forward(Time(10));
        assert_eq!(queue.earliest(), Time(10));
        assert_eq!(queue.take_due(Time(29)), [1, 2]);
        assert_eq!(queue.earliest(), Time::NEVER);
        assert!(queue.take_due(Time(u64::MAX - 1)).is_empty());
    }

    #[test]
    fn tidy_bounds_the_list() {
        let mut queue = TimerQueue::new();
        for key in 0..10_000 {
            queue.add(key, Time(key));
            queue.compact(1, |key| key == 3);
            assert!(queue.members.len() <= 67);
        }
        assert!(queue.members.contains(&3));
    }
}
