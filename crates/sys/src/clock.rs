//! The machine's clocks. The pure crates take time as an argument; this is its source.

use rustix::time::{ClockId, clock_gettime};

/// The clocks of Linux, in nanoseconds. Reading the first two costs no system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Never goes back, and is not affected by setting the date; counts from an arbitrary start.
    /// Stops while the machine is suspended.
    Monotonic,
    /// Since 1970-01-01 UTC; may jump when the date is set.
    Wall,
    /// Processor time that all threads of this process have used.
    ProcessCpu,
}

impl Clock {
    /// The current value of the clock, in ns. The range is 584 years.
    pub fn now(self) -> u64 {
        let time = clock_gettime(match self {
            Clock::Monotonic => ClockId::Monotonic,
            Clock::Wall => ClockId::Realtime,
            Clock::ProcessCpu => ClockId::ProcessCPUTime,
        });
        // Only a wall clock set to before 1970 is negative.
        let secs = u64::try_from(time.tv_sec).unwrap_or(0);
        secs.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
    }
}

#[cfg(test)]
mod tests;
