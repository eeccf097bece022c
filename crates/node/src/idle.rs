//! How a loop waits when there is nothing to do: whether it looks again or sleeps, and whether it
//! lets others run meanwhile.
//!
//! A loop that looks again at once keeps the CPU from the program that is to send it something, if
//! both share the CPU; so a polling loop yields regularly. The duration of a yield shows what else
//! wants the CPU. If nothing does, the yield returns at once, and the loop yields rarely. Another
//! polling loop yields in turn after microseconds: the loop then yields at each look, so that both
//! make progress. A program that computes keeps the CPU for its whole time slice, of milliseconds,
//! for each yield. When a sleeping loop wakes up, the scheduler prefers it to such a program, so
//! beside one the loop sleeps instead of polling.

use lustrine_lnet::time::{Nanos, Time};

/// A polling loop asks the system for reports after this time, and the driver in between: a stream
/// that the driver does not poll is read at most this much later than it could be.
pub const LOOK_INTERVAL: Nanos = Nanos::from_micros(10);

/// A yield that takes longer has let another thread run.
const SHARED: Nanos = Nanos::from_micros(2);

/// Longest and shortest time between two yields of a loop that has its CPU to itself. One that
/// polls for less than four times the longest yields more often: from 2 us on it learns whether it
/// shares its CPU before it sleeps.
const YIELD_INTERVAL_MAX: Nanos = Nanos::from_micros(20);
const YIELD_INTERVAL_MIN: Nanos = Nanos::from_micros(1);

/// A yield that takes longer has met a program that uses up its slice: slices are of 0.7 ms and
/// more, turns of a loop like this one far shorter.
const DEAR: Nanos = Nanos::from_micros(700);

/// How long a loop does not poll after two yields in a row were dear: a single one may be due to an
/// interrupt or to the host of a virtual machine. Each further one in a row doubles it, up to
/// [`RESERVE_MAX`].
const RESERVE: Nanos = Nanos::from_millis(50);
const RESERVE_MAX: Nanos = Nanos::from_millis(3_200);

/// What a loop does when it finds nothing, as tunable `spin_us` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Sleep at once.
    Block,
    /// Never sleep.
    Spin,
    /// Look again for this long, then sleep.
    SpinThenBlock(Nanos),
}

/// What a loop that has nothing to do does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Look whether something came.
    Look,
    /// Let other threads run, say with [`IdlePolicy::yielded`] how long that took, then look.
    Yield,
    /// Sleep until a report or a deadline.
    Sleep,
}

/// Decides how a loop waits.
#[derive(Debug)]
pub struct IdlePolicy {
    policy: Policy,
    /// Since when the loop has been looking for something to do, if it polls.
    idle_since: Option<Time>,
    /// When it yields next, while it polls.
    yield_at: Time,
    /// Time between two yields, and the longest that it can be.
    yield_interval: Nanos,
    yield_interval_max: Nanos,
    /// It does not poll before, or if it never sleeps, does not yield.
    reserved_until: Time,
    /// How long that was from its beginning.
    reserve: Nanos,
    /// Whether the last yield was dear.
    dear: bool,
}

impl IdlePolicy {
    /// From tunable `spin_us`: 0 sleeps at once, -1 never sleeps, more is a mix.
    pub fn new(spin_us: i64) -> IdlePolicy {
        let policy = match spin_us {
            0 => Policy::Block,
            micros if micros < 0 => Policy::Spin,
            micros => Policy::SpinThenBlock(Nanos(micros as u64 * 1000)),
        };
        let yield_interval_max = match policy {
            Policy::SpinThenBlock(length) => {
                Nanos((length.0 / 4).clamp(YIELD_INTERVAL_MIN.0, YIELD_INTERVAL_MAX.0))
            }
            Policy::Block | Policy::Spin => YIELD_INTERVAL_MAX,
        };
        IdlePolicy {
            policy,
            idle_since: None,
            yield_at: Time::ZERO,
            yield_interval: yield_interval_max,
            yield_interval_max,
            reserved_until: Time::ZERO,
            reserve: Nanos::ZERO,
            dear: false,
        }
    }

    /// What to do next, with nothing to do.
    #[must_use]
    pub fn next(&mut self, now: Time) -> Wait {
        let spin = match self.policy {
            Policy::Spin => Nanos(u64::MAX),
            Policy::SpinThenBlock(length) if now >= self.reserved_until => length,
            Policy::SpinThenBlock(_) | Policy::Block => Nanos::ZERO,
        };
        if spin == Nanos::ZERO {
            return Wait::Sleep;
        }
        let Some(since) = self.idle_since else {
            self.idle_since = Some(now);
            self.yield_at = now + self.yield_interval;
            return Wait::Look;
        };
        if now.since(since) >= spin {
            return Wait::Sleep;
        }
        if now >= self.yield_at && now >= self.reserved_until { Wait::Yield } else { Wait::Look }
    }

    /// There is something to do, or the loop has slept.
    pub fn found(&mut self) {
        self.idle_since = None;
    }

    /// Others could run from `start` until `now`.
    pub fn yielded(&mut self, start: Time, now: Time) {
        let took = now.since(start);
        self.yield_interval = if took >= SHARED {
            Nanos::ZERO
        } else {
            let longer = self.yield_interval.0 * 2;
            Nanos(longer.clamp(YIELD_INTERVAL_MIN.0, self.yield_interval_max.0))
        };
        self.yield_at = now + self.yield_interval;
        let dear_before = std::mem::replace(&mut self.dear, took >= DEAR);
        if !self.dear {
            self.reserve = Nanos::ZERO;
        } else if dear_before {
            self.reserve = Nanos((self.reserve.0 * 2).clamp(RESERVE.0, RESERVE_MAX.0));
            self.reserved_until = now + self.reserve;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time(1_000_000_000 + micros * 1000)
    }

    /// A loop that has looked once and found nothing.
    fn idle(spin_us: i64) -> IdlePolicy {
        let mut waiting = IdlePolicy::new(spin_us);
        let _ = waiting.next(at(0));
        waiting
    }

    #[test]
    fn each_policy_polls_as_long_as_it_says() {
        for (spin_us, polls_at_100, polls_at_300) in
            [(0, false, false), (200, true, false), (-1, true, true)]
        {
            let mut waiting = idle(spin_us);
            assert_eq!(waiting.next(at(100)) != Wait::Sleep, polls_at_100, "{spin_us}");
            assert_eq!(waiting.next(at(300)) != Wait::Sleep, polls_at_300, "{spin_us}");
        }
    }

    #[test]
    fn what_is_found_begins_the_polling_anew() {
        let mut waiting = idle(200);
        assert_ne!(waiting.next(at(150)), Wait::Sleep);
        waiting.found();
        assert_eq!(waiting.next(at(341)), Wait::Look);
        assert_ne!(waiting.next(at(540)), Wait::Sleep);
        assert_eq!(waiting.next(at(541)), Wait::Sleep);
    }

    #[test]
    fn a_loop_with_a_cpu_to_itself_yields_every_20_microseconds() {
        let mut waiting = idle(-1);
        let mut yields = 0;
        for micros in 1..=1000 {
            if waiting.next(at(micros)) == Wait::Yield {
                yields += 1;
                waiting.yielded(at(micros), at(micros));
            }
        }
        assert_eq!(yields, 50);
    }

    #[test]
    fn a_loop_that_polls_briefly_yields_before_it_sleeps() {
        for spin_us in [2, 4, 10, 20, 79] {
            let mut waiting = idle(spin_us);
            let first = (1..=200).map(|micros| waiting.next(at(micros))).find(|w| *w != Wait::Look);
            assert_eq!(first, Some(Wait::Yield), "{spin_us}");
            // Alone again, it goes on to yield in time.
            waiting.yielded(at(0), at(3));
            waiting.yielded(at(3), at(3));
            waiting.found();
            let _ = waiting.next(at(300));
            let next =
                (301..=500).map(|micros| waiting.next(at(micros))).find(|w| *w != Wait::Look);
            assert_eq!(next, Some(Wait::Yield), "{spin_us}");
        }
    }

    #[test]
    fn a_loop_that_shares_its_cpu_yields_at_each_look_until_it_is_alone() {
        let mut waiting = idle(-1);
        assert_eq!(waiting.next(at(20)), Wait::Yield);
        waiting.yielded(at(20), at(25));
        assert_eq!(waiting.next(at(25)), Wait::Yield);
        waiting.yielded(at(25), at(30));
        waiting.found();
        assert_eq!(waiting.next(at(31)), Wait::Look, "the first look comes before a yield");
        let mut at_yields = Vec::new();
        for micros in 32..=64 {
            if waiting.next(at(micros)) == Wait::Yield {
                at_yields.push(micros);
                waiting.yielded(at(micros), at(micros));
            }
        }
        assert_eq!(at_yields, [32, 33, 35, 39, 47, 63]);
    }

    #[test]
    fn beside_a_program_that_computes_it_sleeps_and_tries_again_ever_more_rarely() {
        let mut waiting = idle(200);
        let mut now = 20;
        let dear_yield = |waiting: &mut IdlePolicy, now: &mut u64| {
            assert_eq!(waiting.next(at(*now)), Wait::Yield);
            waiting.yielded(at(*now), at(*now + 4000));
            *now += 4000;
            waiting.found();
            let _ = waiting.next(at(*now));
        };
        dear_yield(&mut waiting, &mut now);
        assert_eq!(waiting.next(at(now)), Wait::Yield, "one dear yield may be an accident");
        for millis in [50, 100, 200, 400, 800, 1600, 3200, 3200] {
            dear_yield(&mut waiting, &mut now);
            for within in [0, millis * 1000 - 1] {
                assert_eq!(waiting.next(at(now + within)), Wait::Sleep);
            }
            now += millis * 1000;
            assert_eq!(waiting.next(at(now)), Wait::Look);
        }
        assert_eq!(waiting.next(at(now)), Wait::Yield);
        waiting.yielded(at(now), at(now));
        now += 1;
        dear_yield(&mut waiting, &mut now);
        assert_ne!(waiting.next(at(now)), Wait::Sleep, "the program had gone");
        dear_yield(&mut waiting, &mut now);
        assert_eq!(waiting.next(at(now + 49_999)), Wait::Sleep);
        assert_eq!(waiting.next(at(now + 50_000)), Wait::Look);
    }

    #[test]
    fn a_loop_that_never_sleeps_keeps_its_cpu_from_a_program_that_computes() {
        let mut waiting = idle(-1);
        for start in [20, 4020] {
            assert_eq!(waiting.next(at(start)), Wait::Yield);
            waiting.yielded(at(start), at(start + 4000));
        }
        for within in [0, 49_999] {
            assert_eq!(waiting.next(at(8020 + within)), Wait::Look);
        }
        assert_eq!(waiting.next(at(58_020)), Wait::Yield);
    }
}
