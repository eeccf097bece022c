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

    /// In seconds, as a fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
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
