//! Time is an argument: the core has no clock.

use core::ops::{Add, Sub};

/// Nanoseconds since an origin that the caller chose, such as the start of the process.
///
/// Only differences have a meaning. The range is 584 years; arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Later than every other time: "no deadline".
    pub const NEVER: Time = Time(u64::MAX);

    /// The time from `earlier` to `self`; 0 when `earlier` is later.
    pub fn since(self, earlier: Time) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// From seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs.saturating_mul(1_000_000_000))
    }

    /// From milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// From microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros.saturating_mul(1_000))
    }

    /// The same length; 584 years at most.
    pub fn saturating_from(length: core::time::Duration) -> Nanos {
        Nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
    }

    /// In seconds, as a fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// The wall clock of a node: when it was read, and what it said. From then on it goes as the node's
/// own clock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    read_at: Time,
    since_1970: Nanos,
}

impl WallClock {
    /// It was read at `read_at` and said `since_1970`.
    pub const fn new(read_at: Time, since_1970: Nanos) -> WallClock {
        WallClock { read_at, since_1970 }
    }

    /// It said this many seconds at [`Time::ZERO`], as in tests and simulations.
    pub const fn from_secs(secs: u64) -> WallClock {
        WallClock::new(Time::ZERO, Nanos::from_secs(secs))
    }

    /// The whole seconds since 1970 when it was read, at the start of a node.
    pub const fn start_secs(self) -> u64 {
        self.since_1970.0 / 1_000_000_000
    }

    /// What it says at `now`, since 1970.
    pub fn at(self, now: Time) -> Nanos {
        let origin = self.since_1970.0.saturating_sub(self.read_at.0);
        Nanos(origin.saturating_add(now.0))
    }
}

impl Add<Nanos> for Time {
    type Output = Time;
    fn add(self, length: Nanos) -> Time {
        Time(self.0.saturating_add(length.0))
    }
}

impl Sub<Nanos> for Time {
    type Output = Time;
    fn sub(self, length: Nanos) -> Time {
        Time(self.0.saturating_sub(length.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_goes_as_the_nodes_clock_does() {
        let wall = WallClock::new(Time(5_000), Nanos(1_795_288_730_000_005_000));
        assert_eq!(wall.start_secs(), 1_795_288_730);
        assert_eq!(wall.at(Time(5_000)), Nanos(1_795_288_730_000_005_000));
        assert_eq!(wall.at(Time(2_500_000_000)), Nanos(1_795_288_732_500_000_000));
        assert_eq!(WallClock::from_secs(7).at(Time(1)), Nanos(7_000_000_001));
    }
}
