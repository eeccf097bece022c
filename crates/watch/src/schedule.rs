//! When a peer is looked at, and whether the wall clock may be trusted with old samples.

/// How long the wall clock has to go as the monotonic one does before it decides what is old.
const STEADY_NS: u64 = 3_600_000_000_000;
/// How far both may be apart.
const STEP_NS: u64 = 60_000_000_000;

/// Whether the wall clock has been steady for an hour.
///
/// A machine may start with a clock that is years off, and be corrected later. Samples must not be
/// thrown away because of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steadiness {
    /// Monotonic and wall time when it was steady first, in nanoseconds.
    since: Option<(u64, u64)>,
}

impl Steadiness {
    /// Looks at both clocks, in nanoseconds; whether the wall clock has been steady for an hour.
    pub fn observe(&mut self, monotonic_ns: u64, wall_ns: u64) -> bool {
        let (first, wall) = *self.since.get_or_insert((monotonic_ns, wall_ns));
        let passed = monotonic_ns.saturating_sub(first);
        if wall.saturating_add(passed).abs_diff(wall_ns) > STEP_NS {
            self.since = Some((monotonic_ns, wall_ns));
            return false;
        }
        passed >= STEADY_NS
    }
}

/// How often a peer that does not answer is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Samples in a row without an answer.
    silent: u32,
}

/// The longest wait, in intervals.
const LONGEST: u32 = 8;
/// Samples without an answer at the usual pace.
const PATIENCE: u32 = 3;

impl Backoff {
    /// Notes whether a sample had an answer.
    pub fn observe(&mut self, is_answered: bool) {
        self.silent = if is_answered { 0 } else { self.silent.saturating_add(1) };
    }

    /// The wait until the next sample, in intervals: 1, and 2, 4 and then 8 for a peer that has not
    /// answered three times or more.
    pub fn intervals(&self) -> u32 {
        match self.silent.checked_sub(PATIENCE) {
            None => 1,
            Some(more) => 2_u32.saturating_pow(more.saturating_add(1)).min(LONGEST),
        }
    }
}

/// How often a peer that refused to be looked at is asked for it again: a refusal may pass, as
/// while it is restarted, and each one is a line in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Refusals in a row.
    count: u32,
}

/// The wait after the first refusal, and the longest one, in milliseconds.
const REFUSED_MS: (u64, u64) = (600_000, 86_400_000);

impl Refusals {
    /// Notes whether the peer refused.
    pub fn observe(&mut self, is_refused: bool) {
        self.count = if is_refused { self.count.saturating_add(1) } else { 0 };
    }

    /// The wait until it is asked again, in milliseconds: none without a refusal, 10 minutes after
    /// the first one, twice as long after each further one, at most a day.
    pub fn wait_ms(&self) -> u64 {
        match self.count.checked_sub(1) {
            None => 0,
            Some(more) => REFUSED_MS.0.saturating_mul(2_u64.saturating_pow(more)).min(REFUSED_MS.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn a_clock_is_trusted_after_an_hour_without_a_step() {
        let mut steady = Steadiness::default();
        let wall = 1_000_000 * MINUTE;
        for minute in 0..60 {
            assert!(!steady.observe(minute * MINUTE, wall + minute * MINUTE));
        }
        // A drift of a second an hour is none.
        assert!(steady.observe(60 * MINUTE, wall + 60 * MINUTE + 1_000_000_000));
        // A step back by a day, and the time from 1970: no panic, and another hour.
        assert!(!steady.observe(61 * MINUTE, wall - 1440 * MINUTE));
        assert!(!steady.observe(62 * MINUTE, 0));
        for minute in 63..122 {
            assert!(!steady.observe(minute * MINUTE, (minute - 62) * MINUTE), "{minute}");
        }
        assert!(steady.observe(122 * MINUTE, 60 * MINUTE));
        assert!(!steady.observe(0, u64::MAX));
    }

    #[test]
    fn a_silent_peer_is_asked_less_and_less_often() {
        let mut backoff = Backoff::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push(backoff.intervals());
            backoff.observe(false);
        }
        assert_eq!(waits, [1, 1, 1, 2, 4, 8, 8, 8]);
        backoff.observe(true);
        assert_eq!(backoff.intervals(), 1);
        assert_eq!(Backoff { silent: u32::MAX }.intervals(), 8);
    }

    #[test]
    fn a_peer_that_refuses_is_asked_again_less_and_less_often() {
        let mut refusals = Refusals::default();
        let mut minutes = Vec::new();
        for _ in 0..10 {
            minutes.push(refusals.wait_ms() / 60_000);
            refusals.observe(true);
        }
        assert_eq!(minutes, [0, 10, 20, 40, 80, 160, 320, 640, 1280, 1440]);
        assert_eq!(Refusals { count: u32::MAX }.wait_ms(), 86_400_000);
        refusals.observe(false);
        assert_eq!(refusals.wait_ms(), 0);
    }
}
