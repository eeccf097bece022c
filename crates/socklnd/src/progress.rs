//! Whether the messages in transit on a connection move fast enough.
//!
//! A peer that takes or sends a byte now and then never looks idle, yet holds what its message
//! needs: memory, credits, the place of an answer. So each portion of a message has a time of its
//! own, which grows with its size: the driver's time-out, and on top of it the share of the
//! transaction's time that belongs to so much of the largest message. A link too slow for that
//! could not carry a message of 1 MiB within a transaction anyway [SOCK-16].

use lustrine_lnet::time::{Nanos, Time};

use crate::config::Timing;

/// The largest message, in bytes [HDR-7].
const MESSAGE_MAX: u64 = 1 << 20;

/// Portions whose time is measured, in bytes: the smaller one finds a peer that has all but
/// stopped after `sock_timeout`, the larger one a peer that is merely too slow.
const PORTIONS: [u64; 2] = [4096, MESSAGE_MAX];

/// A number of bytes that must have moved by a certain time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Goal {
    moved: u64,
    deadline: Time,
}

impl Goal {
    const NONE: Goal = Goal { moved: 0, deadline: Time::NEVER };
}

/// The progress of one direction of a connection, as seen at regular looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress([Goal; PORTIONS.len()]);

impl Progress {
    /// Nothing is in flight.
    pub(crate) const NONE: Progress = Progress([Goal::NONE; PORTIONS.len()]);

    /// Looks at the direction: `moved` bytes have passed since the connection was opened, and
    /// `left` more are in flight, 0 if nothing is.
    pub(crate) fn look(&mut self, now: Time, moved: u64, left: u64, timing: &Timing) {
        for (goal, most) in self.0.iter_mut().zip(PORTIONS) {
            if left == 0 {
                *goal = Goal::NONE;
            } else if goal.deadline == Time::NEVER || moved >= goal.moved {
                let portion = left.min(most);
                let deadline = now + timing.sock_timeout + timing.transfer_time(portion);
                *goal = Goal { moved: moved + portion, deadline };
            }
        }
    }

    /// Whether less has moved by `now` than should have by then.
    pub(crate) fn is_too_slow(&self, now: Time, moved: u64) -> bool {
        self.0.iter().any(|goal| goal.deadline < now && moved < goal.moved)
    }
}

impl Timing {
    /// The time that `len` bytes may take on the slowest link that is of use.
    fn transfer_time(&self, len: u64) -> Nanos {
        let nanos = u128::from(self.transaction_timeout.0) * u128::from(len);
        Nanos(u64::try_from(nanos / u128::from(MESSAGE_MAX)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use crate::tunables::Tunables;

    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    /// How many seconds a message lives whose bytes move at this rate, at a look per second.
    fn seconds_alive(len: u64, bytes_per_second: u64) -> Option<u64> {
        let timing = Timing::new(&Tunables::default(), &Default::default());
        let (mut progress, mut now) = (Progress::NONE, Time::ZERO + SECOND);
        for second in 0.. {
            let moved = (second * bytes_per_second).min(len);
            progress.look(now, moved, len - moved, &timing);
            if progress.is_too_slow(now, moved) {
                return Some(second);
            }
            if moved == len {
                return None;
            }
            now = now + SECOND;
        }
        None
    }

    #[test]
    fn a_slow_stream_ends_after_the_time_out() {
        assert_eq!(seconds_alive(1 << 20, 1), Some(51));
        assert_eq!(seconds_alive(100, 1), Some(51));
        assert_eq!(seconds_alive(1 << 20, 80), Some(51));
    }

    /// 1 MiB in 200 s is 5,243 bytes per second.
    #[test]
    fn a_link_that_can_carry_the_largest_message_in_time_is_fast_enough() {
        assert_eq!(seconds_alive(1 << 20, 5_300), None);
        assert_eq!(seconds_alive(1 << 20, 4_000), Some(201));
        assert_eq!(seconds_alive(8 << 20, 7_500), None, "many messages in a row");
        assert_eq!(seconds_alive(64 << 10, 1_200), None, "small ones may be slower");
    }

    #[test]
    fn a_pause_with_nothing_in_transit_does_not_count() {
        let timing = Timing::new(&Tunables::default(), &Default::default());
        let mut progress = Progress::NONE;
        progress.look(Time::ZERO, 0, 100, &timing);
        progress.look(Time::ZERO + SECOND, 100, 0, &timing);
        let later = Time::ZERO + Nanos::from_secs(1000);
        assert!(!progress.is_too_slow(later, 100));
        progress.look(later, 100, 50, &timing);
        assert!(!progress.is_too_slow(later + Nanos::from_secs(50), 100));
        assert!(progress.is_too_slow(later + Nanos::from_secs(51), 149));
    }
}
