//! Adaptive time-outs: how long servers take, and how long to wait for them [IMP-8].

use lustrine_lnet::time::{Nanos, Time};

/// The number of parts of the history of an [`Estimate`].
const BINS: usize = 4;

/// The settings of adaptive time-outs; Lustre's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtTunables {
    /// Smallest estimate in seconds.
    pub at_min: u32,
    /// Largest estimate in seconds.
    pub at_max: u32,
    /// How long an estimate remembers, in seconds.
    pub at_history: u32,
}

impl Default for AtTunables {
    fn default() -> AtTunables {
        AtTunables { at_min: 5, at_max: 600, at_history: 600 }
    }
}

/// The largest value that was seen within the history.
///
/// ```
/// use lustrine_lnet::time::{Nanos, Time};
/// use lustrine_ptlrpc::adaptive::{AtTunables, Estimate};
///
/// let mut estimate = Estimate::new(AtTunables::default());
/// assert_eq!(estimate.current(Time::ZERO), 5);
/// estimate.observe(Time::ZERO, 40);
/// estimate.observe(Time::ZERO + Nanos::from_secs(300), 7);
/// assert_eq!(estimate.current(Time::ZERO + Nanos::from_secs(400)), 40);
/// // The 40 seconds are forgotten.
/// assert_eq!(estimate.current(Time::ZERO + Nanos::from_secs(700)), 7);
/// ```
#[derive(Clone, Debug)]
pub struct Estimate {
    tunables: AtTunables,
    /// The largest value of each part of the history, the newest first.
    bins: [u32; BINS],
    /// When the newest part began.
    began: Time,
}

impl Estimate {
    /// An estimate without history.
    pub fn new(tunables: AtTunables) -> Estimate {
        Estimate { tunables, bins: [0; BINS], began: Time::ZERO }
    }

    /// Changes the settings. What was observed stays.
    pub fn set_tunables(&mut self, tunables: AtTunables) {
        self.tunables = tunables;
    }

    /// The length of a part of the history.
    fn bin_len(&self) -> Nanos {
        Nanos(Nanos::from_secs(u64::from(self.tunables.at_history)).0.div_ceil(BINS as u64).max(1))
    }

    /// How many parts of the history have passed since the newest began.
    fn passed(&self, now: Time) -> u64 {
        now.since(self.began).0 / self.bin_len().0
    }

    /// Takes a value in seconds into the history.
    pub fn observe(&mut self, now: Time, seconds: u32) {
        let passed = self.passed(now);
        if passed > 0 {
            let shift = passed.min(BINS as u64) as usize;
            self.bins.rotate_right(shift % BINS);
            self.bins[..shift].fill(0);
            self.began = self.began + Nanos(self.bin_len().0.saturating_mul(passed));
        }
        self.bins[0] = self.bins[0].max(seconds);
    }

    /// The estimate in seconds, between `at_min` and `at_max`.
    pub fn current(&self, now: Time) -> u32 {
        let kept = (BINS as u64).saturating_sub(self.passed(now)) as usize;
        let largest = self.bins[..kept].iter().copied().max().unwrap_or(0);
        largest.clamp(self.tunables.at_min, self.tunables.at_max.max(self.tunables.at_min))
    }
}

/// The time that a request allows its server, in seconds, for an estimate in seconds [IMP-8].
pub fn allowance(estimate: u32) -> u32 {
    estimate.saturating_add(estimate / 4).saturating_add(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernels_allow_eleven_seconds_for_an_estimate_of_five() {
        // fs/s01_client_mount: pb_timeout 11 (estimate 5), 17 (estimate 10).
        assert_eq!(allowance(5), 11);
        assert_eq!(allowance(10), 17);
    }

    proptest! {
        /// An estimate is never below a value of the last three quarters of its history, and never
        /// above the largest value of its whole history.
        #[test]
        fn is_the_largest_of_the_history(
            values in prop::collection::vec((0u64..200, 0u32..700), 1..40)
        ) {
            let tunables = AtTunables { at_min: 1, at_max: 600, at_history: 600 };
            let mut estimate = Estimate::new(tunables);
            let mut now = Time::ZERO;
            let mut seen: Vec<(Time, u32)> = Vec::new();
            for (pause, value) in values {
                now = now + Nanos::from_secs(pause);
                estimate.observe(now, value);
                seen.push((now, value));
                let within = |secs: u64| {
                    seen.iter()
                        .filter(|(at, _)| now.since(*at) < Nanos::from_secs(secs))
                        .map(|(_, value)| *value)
                        .max()
                        .unwrap_or(0)
                        .clamp(1, 600)
                };
                prop_assert!(estimate.current(now) >= within(450));
                prop_assert!(estimate.current(now) <= within(601));
            }
        }
    }
}
