//! BIC (Xu, Harfoush and Rhee, *Binary Increase Congestion Control (BIC) for Fast Long-Distance
//! Networks*, INFOCOM 2004), which Linux used by default before CUBIC.
//!
//! After a loss the window searches the range between the reduced window and the one at which the
//! loss happened: each round trip adds a part of the distance, at most [`Parameters::step_max`].
//! Above the old maximum it moves away in mirrored steps, slowly first. Below [`LOW_WINDOW`]
//! segments it is Reno.

use super::congestion::Acked;

/// Up to this number of segments the window grows and shrinks as Reno's does.
const LOW_WINDOW: u64 = 14;

/// The constants of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// The most segments that a round trip adds (`Smax`).
    step_max: u64,
    /// The least hundredths of a segment that a round trip adds (`Smin`).
    step_min: u64,
    /// What remains of a window after a loss, of 1024 (`1 - beta`).
    remains: u64,
    /// A round trip adds the distance to the old maximum divided by this,
    divisor: u64,
    /// and above it, the distance from there divided by this.
    probe_divisor: u64,
}

impl Parameters {
    /// The constants of the paper: Smax 32, Smin 0.01, beta 0.125, binary search.
    pub(crate) const PAPER: Parameters =
        Parameters { step_max: 32, step_min: 1, remains: 896, divisor: 2, probe_divisor: 1 };

    /// The constants of Linux's module `tcp_bic`: `max_increment` 16, `beta` 819, `smooth_part` 20,
    /// and quarters of the distance.
    pub(crate) const LINUX: Parameters =
        Parameters { step_max: 16, step_min: 20, remains: 819, divisor: 4, probe_divisor: 3 };
}

#[derive(Clone, Debug)]
pub(crate) struct Bic {
    parameters: Parameters,
    segment: u64,
    first: u64,
    window: u64,
    /// Slow start ends at this window.
    threshold: u64,
    /// The window that the search aims for: where the last loss happened, or lower.
    highest: u64,
    /// The round trip ends when the data that was sent at its beginning is acknowledged.
    round_ends: u64,
    /// The window when the round trip began, and what the round trip adds.
    round_window: u64,
    step: u64,
    /// Growth of less than a byte, in bytes times window.
    gathered: u128,
}

impl Bic {
    pub(super) fn new(parameters: Parameters, segment: u64, first: u64) -> Bic {
        Bic {
            parameters,
            segment,
            first,
            window: first,
            threshold: u64::MAX,
            highest: 0,
            round_ends: 0,
            round_window: first,
            step: 0,
            gathered: 0,
        }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        if acked.acked_now > self.round_ends {
            self.round_ends = acked.acked_now + acked.under_way;
            (self.round_window, self.step) = (self.window, self.next_step());
        }
        if !acked.window_was_full {
            return;
        }
        if self.window < self.threshold {
            self.window += acked.len;
            return;
        }
        self.gathered += u128::from(self.step) * u128::from(acked.len);
        let size = u128::from(self.round_window.max(1));
        self.window += (self.gathered / size) as u64;
        self.gathered %= size;
    }

    /// Bytes that the next round trip adds.
    fn next_step(&self) -> u64 {
        if self.window < LOW_WINDOW * self.segment {
            return self.segment;
        }
        let part = match self.window < self.highest {
            true => (self.highest - self.window) / self.parameters.divisor,
            false => (self.window - self.highest) / self.parameters.probe_divisor,
        };
        let least = self.segment * self.parameters.step_min / 100;
        part.clamp(least, self.segment * self.parameters.step_max)
    }

    pub(super) fn lost(&mut self) {
        let remains = self.parameters.remains;
        // Fast convergence: a sender that lost below the old maximum leaves room for others.
        self.highest = match self.window < self.highest {
            true => self.window * (1024 + remains) / 2048,
            false => self.window,
        };
        let left = match self.window <= LOW_WINDOW * self.segment {
            true => self.window / 2,
            false => self.window * remains / 1024,
        };
        self.window = left.max(2 * self.segment);
        self.threshold = self.window;
        (self.round_ends, self.gathered) = (0, 0);
    }

    pub(super) fn timed_out(&mut self) {
        self.lost();
        self.window = self.segment;
    }

    pub(super) fn idled(&mut self, timeouts: u64) {
        // The window before the loss is known to fit: slow start returns to it.
        self.threshold = self.threshold.max(self.window / 4 * 3);
        let left = self.window.checked_shr(timeouts.min(63) as u32).unwrap_or(0);
        self.window = left.max(self.first.min(self.window));
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::time::{Nanos, Time};

    use super::*;

    /// A sender in congestion avoidance with a window of 1,000 segments of 1,000 bytes.
    fn sender(parameters: Parameters) -> (Bic, u64) {
        let mut bic = Bic::new(parameters, 1000, 2000);
        (bic.window, bic.threshold) = (1_000_000, 1_000_000);
        (bic, 0)
    }

    /// A round trip: all of the window is acknowledged in ten parts.
    fn round(bic: &mut Bic, acked_now: &mut u64) -> u64 {
        let window = bic.window();
        for part in 0..10 {
            let len = window * (part + 1) / 10 - window * part / 10;
            *acked_now += len;
            bic.acked(&Acked {
                now: Time::ZERO,
                len,
                round_trip: Nanos::from_millis(50),
                under_way: window,
                window_was_full: true,
                acked_then: 0,
                acked_now: *acked_now,
                acked_at_then: Time::ZERO,
            });
        }
        bic.window()
    }

    #[test]
    fn binary_search_returns_to_the_window_before_a_loss() {
        let (mut bic, mut acked) = sender(Parameters::PAPER);
        bic.lost();
        assert_eq!((bic.window(), bic.highest), (875_000, 1_000_000));
        // 125 / 2 and 93 / 2 are more than Smax, 32; then the distance halves: 61, 30.5, 15.25, ...
        let windows: Vec<u64> = (0..6).map(|_| round(&mut bic, &mut acked)).collect();
        assert_eq!(windows, [907_000, 939_000, 969_500, 984_750, 992_375, 996_187]);
        // The distance halves from 3,813 bytes: 12 round trips to 1 byte, but Smin is 10 bytes.
        let back = (0..20).position(|_| round(&mut bic, &mut acked) >= 1_000_000);
        assert_eq!(back, Some(8 + 1), "3813 / 2^8 = 15, then 10 and the rest");
    }

    #[test]
    fn above_the_old_maximum_it_grows_in_mirrored_steps() {
        let (mut bic, mut acked) = sender(Parameters::PAPER);
        bic.highest = 1_000_000;
        // Smin, then the distance doubles: 10, 20, 40, ... 20,480; 40,960 is more than Smax.
        let windows: Vec<u64> = (0..14).map(|_| round(&mut bic, &mut acked) - 1_000_000).collect();
        assert_eq!(
            windows,
            [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 40_960, 72_960]
        );
    }

    #[test]
    fn linux_takes_quarters_and_leaves_less() {
        let (mut bic, mut acked) = sender(Parameters::LINUX);
        bic.lost();
        assert_eq!(bic.window(), 799_804, "819 / 1024");
        // A quarter of the distance is 50 segments; 16 is the limit until the distance is 64.
        for number in 1..=8 {
            assert_eq!(round(&mut bic, &mut acked), 799_804 + number * 16_000);
        }
        assert_eq!(round(&mut bic, &mut acked), 943_804);
        assert_eq!(round(&mut bic, &mut acked), 943_804 + 56_196 / 4);
    }

    #[test]
    fn a_loss_below_the_old_maximum_lowers_the_maximum() {
        let (mut bic, _) = sender(Parameters::PAPER);
        bic.lost();
        bic.lost();
        // 875 x (1 - 0.125 / 2); and 875 x 0.875.
        assert_eq!((bic.highest, bic.window()), (820_312, 765_625));
    }

    #[test]
    fn small_windows_behave_as_reno() {
        let (mut bic, mut acked) = sender(Parameters::PAPER);
        (bic.window, bic.threshold) = (14_000, 14_000);
        bic.lost();
        assert_eq!(bic.window(), 7000);
        let windows: Vec<u64> = (0..3).map(|_| round(&mut bic, &mut acked)).collect();
        assert_eq!(windows, [8000, 9000, 10_000]);
    }

    #[test]
    fn slow_start_doubles_and_returns_after_a_time_out() {
        let mut bic = Bic::new(Parameters::PAPER, 1000, 2000);
        let mut acked = 0;
        let windows: Vec<u64> = (0..4).map(|_| round(&mut bic, &mut acked)).collect();
        assert_eq!(windows, [4000, 8000, 16_000, 32_000]);
        bic.timed_out();
        assert_eq!((bic.window(), bic.threshold), (1000, 28_000));
        bic.idled(50);
        assert_eq!(bic.window(), 1000, "an idle time never raises it");
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let (mut bic, _) = sender(Parameters::PAPER);
        bic.acked(&Acked {
            now: Time::ZERO,
            len: 500_000,
            round_trip: Nanos::from_millis(50),
            under_way: 500_000,
            window_was_full: false,
            acked_then: 0,
            acked_now: 500_000,
            acked_at_then: Time::ZERO,
        });
        assert_eq!(bic.window(), 1_000_000);
    }
}
