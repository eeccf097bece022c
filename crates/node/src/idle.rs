//! How a loop waits when there is nothing to do: whether it looks again or sleeps, and whether it
//! lets others run meanwhile.
//!
//! Looking again at once keeps the CPU from whoever is to send us something, if it shares this one
//! with us; so a polling loop gives way. Another polling loop gives way in turn after microseconds.
//! A program that just computes keeps the CPU for its whole time slice, of milliseconds, and takes
//! one for each time we give way to it. A loop that sleeps is put before such a program when it has
//! something to do, so beside one it sleeps instead. Only the time that giving way took tells who
//! the neighbour is.

use std::time::Duration;

use lustrine_lnet::time::{Nanos, Time};

/// Giving way that takes longer met a program that uses its slice up: slices are of 0.7 ms and
/// more, turns of a loop like this one far shorter.
const DEAR: Nanos = Nanos::from_micros(700);

/// How long a loop does not give way after the first time that it was dear; each further time in a
/// row doubles it, up to [`RESERVE_MAX`].
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

/// Decides how a loop waits. Its user calls [`timeout`](IdlePolicy::timeout), waits for so long,
/// says with [`woke`](IdlePolicy::woke) what came of it, and gives way if told to.
#[derive(Debug)]
pub struct IdlePolicy {
    policy: Policy,
    /// Since when the loop has been looking for something to do, if it polls.
    idle_since: Option<Time>,
    /// Nobody is given way before.
    reserved_until: Time,
    /// How long that was from its beginning.
    reserve: Nanos,
}

impl IdlePolicy {
    /// From tunable `spin_us`: 0 sleeps at once, -1 never sleeps, more is a mix.
    pub fn new(spin_us: i64) -> IdlePolicy {
        let policy = match spin_us {
            0 => Policy::Block,
            micros if micros < 0 => Policy::Spin,
            micros => Policy::SpinThenBlock(Nanos(micros as u64 * 1000)),
        };
        IdlePolicy { policy, idle_since: None, reserved_until: Time::ZERO, reserve: Nanos::ZERO }
    }

    /// How long to wait for reports; `None` is until there is one. `busy`: there is work that no
    /// report will announce. `deadline`: when there will be, [`Time::NEVER`] for never.
    pub fn timeout(
        &mut self,
        now: Time,
        busy: bool,
        deadline: impl FnOnce() -> Time,
    ) -> Option<Duration> {
        if busy {
            self.idle_since = None;
            return Some(Duration::ZERO);
        }
        let spin = match self.policy {
            Policy::Spin => Nanos(u64::MAX),
            Policy::SpinThenBlock(length) if now >= self.reserved_until => length,
            Policy::SpinThenBlock(_) | Policy::Block => Nanos::ZERO,
        };
        if now.since(*self.idle_since.get_or_insert(now)) < spin {
            return Some(Duration::ZERO);
        }
        self.idle_since = None;
        let deadline = deadline();
        (deadline != Time::NEVER).then(|| Duration::from_nanos(deadline.since(now).0))
    }

    /// The wait is over; `found` if it brought something. Whether to give way now: if so,
    /// [`yielded`](IdlePolicy::yielded) wants to know how long it took.
    #[must_use]
    pub fn woke(&mut self, now: Time, found: bool) -> bool {
        if found {
            self.idle_since = None;
        }
        self.idle_since.is_some() && now >= self.reserved_until
    }

    /// Others could run from `start` until `now`.
    pub fn yielded(&mut self, start: Time, now: Time) {
        if now.since(start) < DEAR {
            self.reserve = Nanos::ZERO;
            return;
        }
        self.reserve = Nanos((self.reserve.0 * 2).clamp(RESERVE.0, RESERVE_MAX.0));
        self.reserved_until = now + self.reserve;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: fn() -> Time = || Time::NEVER;

    fn at(micros: u64) -> Time {
        Time(1_000_000_000 + micros * 1000)
    }

    /// A loop that has looked once and found nothing.
    fn idle(spin_us: i64) -> IdlePolicy {
        let mut waiting = IdlePolicy::new(spin_us);
        waiting.timeout(at(0), false, NEVER);
        waiting
    }

    #[test]
    fn each_policy_polls_as_long_as_it_says() {
        for (spin_us, polls_at_100, polls_at_300) in
            [(0, false, false), (200, true, false), (-1, true, true)]
        {
            let mut waiting = idle(spin_us);
            let polls = Some(Duration::ZERO);
            assert_eq!(waiting.timeout(at(100), false, NEVER) == polls, polls_at_100);
            assert_eq!(waiting.timeout(at(300), false, NEVER) == polls, polls_at_300);
        }
    }

    #[test]
    fn a_sleep_ends_with_the_deadline() {
        let mut waiting = IdlePolicy::new(0);
        let sleep = waiting.timeout(at(0), false, || at(70));
        assert_eq!(sleep, Some(Duration::from_micros(70)));
        assert_eq!(waiting.timeout(at(0), false, NEVER), None);
        let passed = waiting.timeout(at(80), false, || at(70));
        assert_eq!(passed, Some(Duration::ZERO), "a deadline that has passed is due");
    }

    #[test]
    fn work_and_finds_begin_the_polling_anew() {
        let mut waiting = idle(200);
        assert_eq!(waiting.timeout(at(150), true, NEVER), Some(Duration::ZERO));
        assert_eq!(waiting.timeout(at(160), false, NEVER), Some(Duration::ZERO));
        assert!(!waiting.woke(at(340), true));
        assert_eq!(waiting.timeout(at(341), false, NEVER), Some(Duration::ZERO));
        assert_eq!(waiting.timeout(at(540), false, NEVER), Some(Duration::ZERO));
        assert_eq!(waiting.timeout(at(541), false, NEVER), None);
    }

    #[test]
    fn only_a_loop_that_polls_and_finds_nothing_gives_way() {
        assert!(!idle(0).woke(at(1), false), "it sleeps: others run");
        assert!(!idle(200).woke(at(1), true));
        assert!(idle(200).woke(at(1), false));
        assert!(idle(-1).woke(at(1), false));
    }

    #[test]
    fn beside_a_program_that_computes_it_sleeps_and_tries_again_ever_more_rarely() {
        let mut waiting = idle(200);
        let mut now = 0;
        for millis in [50, 100, 200, 400, 800, 1600, 3200, 3200] {
            assert!(waiting.woke(at(now), false));
            waiting.yielded(at(now), at(now + 4000));
            now += 4000;
            for within in [0, millis * 1000 - 1] {
                assert_eq!(waiting.timeout(at(now + within), false, NEVER), None);
                assert!(!waiting.woke(at(now + within), false));
            }
            now += millis * 1000;
            assert_eq!(waiting.timeout(at(now), false, NEVER), Some(Duration::ZERO));
        }
        assert!(waiting.woke(at(now), false));
        waiting.yielded(at(now), at(now + 10));
        assert!(waiting.woke(at(now + 10), false), "the program has gone");
        waiting.yielded(at(now + 10), at(now + 4010));
        assert_eq!(waiting.timeout(at(now + 53_000), false, NEVER), None);
        assert_eq!(waiting.timeout(at(now + 54_010), false, NEVER), Some(Duration::ZERO));
    }

    #[test]
    fn a_loop_that_never_sleeps_keeps_its_cpu_from_a_program_that_computes() {
        let mut waiting = idle(-1);
        assert!(waiting.woke(at(0), false));
        waiting.yielded(at(0), at(4000));
        assert_eq!(waiting.timeout(at(4001), false, NEVER), Some(Duration::ZERO));
        assert!(!waiting.woke(at(4002), false));
    }
}
