//! A step of load: how long it takes and what it needs.

use super::MESSAGE;
use super::budget::Budget;
use super::load::Direction;
use super::report::PeerReport;

/// Least time of a step, without and with results, in nanoseconds.
pub(super) const WARM_UP: u64 = 100_000_000;
pub(super) const STEP: u64 = 300_000_000;
/// The same in round trips. TCP doubles what is in flight in each: 14 take it from 14 KiB to
/// 200 MiB.
const WARM_UP_RTTS: u64 = 14;
const STEP_RTTS: u64 = 8;
/// The same in latencies of an RPC.
const STEP_LATENCIES: u64 = 3;
/// How long a run with results takes at least that is compared with another one, where the budget
/// has that: whole RPCs are counted, and short runs differ by chance.
const COMPARED: u64 = 2_000_000_000;
/// Runs that follow a ramp: before and after, reads and writes.
pub(super) const RUNS: u64 = 4;
/// How often a run moves what it has in flight: while it warms up, and in a few latencies.
const RUN_FILLS: u64 = 10;
/// RPCs of a step: the one at its end is 5 % of them.
pub(super) const STEP_RPCS: u64 = 20;

/// The option for the bytes of the budget.
pub(super) const BUDGET_BYTES: &str = "--budget-bytes";

/// One step of load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) direction: Direction,
    /// RPCs in flight.
    pub(super) count: u32,
    /// The idle round trip, in nanoseconds.
    pub(super) rtt: u64,
    /// How long an RPC is expected to take, in nanoseconds.
    pub(super) latency: u64,
    /// Least time with results, in nanoseconds.
    pub(super) least: u64,
}

impl Step {
    /// How long it warms up and measures, in nanoseconds; `None` if that is not allowed.
    pub(super) fn times(&self, allowed: Budget) -> Option<(u64, u64)> {
        let (warm_up, time) = self.wanted_times();
        let need = self.need();
        let fits = need.time_ns <= allowed.time_ns && need.bytes <= allowed.bytes;
        fits.then_some((warm_up, time))
    }

    /// What is needed to begin it.
    pub(super) fn need(&self) -> Budget {
        let (warm_up, time) = self.wanted_times();
        Budget { bytes: self.bytes().saturating_mul(2), time_ns: warm_up.saturating_add(time) }
    }

    /// What is left, if it can be, when this step of a ramp is over: for the runs with the values
    /// before and after, in both directions, and for as long a ramp of writes.
    pub(super) fn reserve(&self, used: Budget) -> Budget {
        match self.direction {
            Direction::Read => self.runs(RUNS + 1).plus(used),
            Direction::Write => self.runs(RUNS),
        }
    }

    /// What so many runs need that take as long as this step.
    pub(super) fn runs(&self, count: u64) -> Budget {
        let Budget { time_ns, .. } = self.need();
        Budget {
            bytes: self.bytes().saturating_mul(RUN_FILLS).saturating_mul(count),
            time_ns: time_ns.saturating_mul(count),
        }
    }

    fn wanted_times(&self) -> (u64, u64) {
        let warm_up = WARM_UP.max(self.rtt.saturating_mul(WARM_UP_RTTS)).max(self.latency);
        let latencies = self.latency.saturating_mul(STEP_LATENCIES);
        let rpcs = self.latency.saturating_mul(STEP_RPCS) / u64::from(self.count.max(1));
        let time = self.least.max(self.rtt.saturating_mul(STEP_RTTS)).max(latencies).max(rpcs);
        (warm_up, time)
    }

    /// The option that allows too little for it.
    pub(super) fn lacks(&self, allowed: Budget) -> &'static str {
        match self.bytes().saturating_mul(2) <= allowed.bytes {
            true => "--budget-time",
            false => BUDGET_BYTES,
        }
    }

    /// Bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count) * MESSAGE
    }
}

/// A path of which the rate is known.
pub(super) struct Known {
    /// The idle round trip, in nanoseconds.
    pub(super) rtt: u64,
    /// Bits per second.
    pub(super) rate: u64,
}

impl Known {
    /// The path of a report, for so many RPCs in flight. A ramp that is not complete says what its
    /// own carried, and more carry more: up to what makes each take two round trips.
    pub(super) fn of(report: &PeerReport, rtt: u64, count: u32) -> Known {
        let rate = report.path.map_or(0, |path| path.rate);
        let bits = u128::from(count) * u128::from(MESSAGE) * 8_000_000_000;
        let most = u64::try_from(bits / u128::from(rtt.max(1)) / 2).unwrap_or(u64::MAX);
        let rate = if report.incomplete.is_some() { rate.max(most) } else { rate };
        Known { rtt, rate }
    }

    /// Least time of a run that is compared with another one, in nanoseconds, within half of what
    /// it may use; the other half is for its warm-up.
    pub(super) fn least_time(&self, allowed: Budget) -> u64 {
        let by_bytes = u128::from(allowed.bytes / 2) * 8_000_000_000 / u128::from(self.rate.max(1));
        let by_bytes = u64::try_from(by_bytes).unwrap_or(u64::MAX);
        COMPARED.min(by_bytes).min(allowed.time_ns / 2).max(STEP)
    }

    /// How long an RPC takes while so many are in flight, in nanoseconds.
    pub(super) fn latency(&self, count: u32) -> u64 {
        let bytes = u128::from(count) * u128::from(MESSAGE);
        let wire = bytes * 8_000_000_000 / u128::from(self.rate.max(1));
        u64::try_from(wire).unwrap_or(u64::MAX).saturating_add(self.rtt.saturating_mul(2))
    }
}
