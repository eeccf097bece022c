//! Time as an argument: the core has no clock of its own.

use core::ops::{Add, Sub};

/// Nanoseconds since an origin the caller chose (process start, simulation start).
///
/// Only differences mean anything. The range is 584 years, so arithmetic saturates without harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Later than anything: "no deadline".
    pub const NEVER: Time = Time(u64::MAX);

    /// Nanoseconds from `earlier` to `self`, 0 when `earlier` is later.
    pub fn since(self, earlier: Time) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// Microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros.saturating_mul(1_000))
    }

    /// As fractional seconds, for people.
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
