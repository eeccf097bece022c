//! BIC as its paper describes it: Xu, Harfoush and Rhee, *Binary Increase Congestion Control (BIC)
//! for Fast Long-Distance Networks*, INFOCOM 2004.
//!
//! After a loss the window searches the range between the reduced window and the one at which the
//! loss happened: each round trip adds half of the distance, at most [`STEP_MAX`]. Above the old
//! maximum a slow start of its own adds 1, 2, 4 segments and so on up to [`STEP_MAX`] per round
//! trip. Below [`LOW_WINDOW`] segments it is Reno. `docs/simulator.md` says what is known of the
//! paper.

use super::acked::{Acked, TimeOut};

/// Below this number of segments the window grows and shrinks as Reno's does.
const LOW_WINDOW: u64 = 14;

/// The most segments that a round trip adds (`Smax`).
const STEP_MAX: u64 = 32;

/// The least hundredths of a segment that a round trip adds below the maximum (`Smin`).
const STEP_MIN: u64 = 1;

/// What remains of a window after a loss, of 1024 (`1 - beta`, with `beta` 0.125).
const REMAINS: u64 = 896;

#[derive(Clone, Debug)]
pub(crate) struct BicPaper {
    segment: u64,
    first: u64,
    window: u64,
    /// Slow start ends at this window.
    threshold: u64,
    /// The window that the search aims for: where the last loss happened, or lower.
    highest: u64,
    /// What the present round trip adds above the maximum; 0 below it.
    probing: u64,
    /// The round trip ends when the data that was sent at its beginning is acknowledged.
    round_ends: u64,
    /// The window when the round trip began, and what the round trip adds.
    round_window: u64,
    step: u64,
    /// Growth of less than a byte, in bytes times window.
    gathered: u128,
}

impl BicPaper {
    pub(super) fn new(segment: u64, first: u64) -> BicPaper {
        BicPaper {
            segment,
            first,
            window: first,
            threshold: u64::MAX,
            highest: 0,
            probing: 0,
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
            self.round_ends = acked.acked_now + acked.in_flight;
            (self.round_window, self.step) = (self.window, self.next_step());
        }
        if !acked.window_was_full {
            return;
        }
        let mut len = acked.len;
        if self.window < self.threshold {
            let more = len.min(self.threshold - self.window);
            self.window += more;
            len -= more;
        }
        self.gathered += u128::from(self.step) * u128::from(len);
        let size = u128::from(self.round_window.max(1));
        self.window += (self.gathered / size) as u64;
        self.gathered %= size;
    }

    /// Bytes that the next round trip adds.
    fn next_step(&mut self) -> u64 {
        let most = self.segment * STEP_MAX;
        if self.window < LOW_WINDOW * self.segment || self.window < self.threshold {
            self.probing = 0;
            return self.segment;
        }
        if self.window < self.highest {
            self.probing = 0;
            let least = self.segment * STEP_MIN / 100;
            return ((self.highest - self.window) / 2).clamp(least, most);
        }
        self.probing = (2 * self.probing).clamp(self.segment, most);
        self.probing
    }

    pub(super) fn lost(&mut self) {
        // Fast convergence: a sender that lost below the old maximum leaves room for others.
        self.highest = match self.window < self.highest {
            true => self.window * (1024 + REMAINS) / 2048,
            false => self.window,
        };
        let left = match self.window < LOW_WINDOW * self.segment {
            true => self.window / 2,
            false => self.window * REMAINS / 1024,
        };
        self.window = left.max(2 * self.segment);
        self.threshold = self.window;
        (self.probing, self.round_ends, self.gathered) = (0, 0, 0);
    }

    pub(super) fn timed_out(&mut self, which: TimeOut) {
        if which == TimeOut::First {
            self.lost();
        }
        self.window = self.segment;
    }

    pub(super) fn idled(&mut self, timeouts: u64) {
        // The window before the pause is known to fit: slow start returns to it.
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
    fn sender() -> (BicPaper, u64) {
        let mut bic = BicPaper::new(1000, 2000);
        (bic.window, bic.threshold) = (1_000_000, 1_000_000);
        (bic, 0)
    }

    /// A round trip: all of the window is acknowledged in ten parts.
    fn round(bic: &mut BicPaper, acked_now: &mut u64) -> u64 {
        let window = bic.window();
        for part in 0..10 {
            let len = window * (part + 1) / 10 - window * part / 10;
            *acked_now += len;
            bic.acked(&Acked {
                now: Time::ZERO,
                len,
                round_trip: Nanos::from_millis(50),
                in_flight: window,
                window_was_full: true,
                app_limited: false,
                acked_then: 0,
                acked_now: *acked_now,
                acked_at_then: Time::ZERO,
            });
        }
        bic.window()
    }

    #[test]
    fn binary_search_returns_to_the_window_before_a_loss() {
        let (mut bic, mut acked) = sender();
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
    fn above_the_old_maximum_it_adds_one_segment_then_two_four_and_so_on() {
        let (mut bic, mut acked) = sender();
        bic.highest = 1_000_000;
        let windows: Vec<u64> = (0..8).map(|_| round(&mut bic, &mut acked) - 1_000_000).collect();
        assert_eq!(windows, [1000, 3000, 7000, 15_000, 31_000, 63_000, 95_000, 127_000]);
        bic.lost();
        assert_eq!((bic.highest, bic.probing), (1_127_000, 0), "it begins anew after a loss");
    }

    #[test]
    fn a_loss_below_the_old_maximum_lowers_the_maximum() {
        let (mut bic, _) = sender();
        bic.lost();
        bic.lost();
        // 875 x (1 - 0.125 / 2); and 875 x 0.875.
        assert_eq!((bic.highest, bic.window()), (820_312, 765_625));
    }

    #[test]
    fn small_windows_behave_as_reno() {
        let (mut bic, mut acked) = sender();
        (bic.window, bic.threshold) = (13_000, 13_000);
        bic.lost();
        assert_eq!(bic.window(), 6500);
        let windows: Vec<u64> = (0..3).map(|_| round(&mut bic, &mut acked)).collect();
        assert_eq!(windows, [7500, 8500, 9500]);
    }

    #[test]
    fn slow_start_doubles_and_returns_after_a_time_out() {
        let mut bic = BicPaper::new(1000, 2000);
        let mut acked = 0;
        let windows: Vec<u64> = (0..4).map(|_| round(&mut bic, &mut acked)).collect();
        assert_eq!(windows, [4000, 8000, 16_000, 32_000]);
        bic.timed_out(TimeOut::First);
        assert_eq!((bic.window(), bic.threshold), (1000, 28_000));
        bic.timed_out(TimeOut::Repeated);
        assert_eq!((bic.window(), bic.threshold), (1000, 28_000));
        bic.idled(50);
        assert_eq!(bic.window(), 1000, "an idle time never raises it");
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let (mut bic, _) = sender();
        bic.acked(&Acked {
            now: Time::ZERO,
            len: 500_000,
            round_trip: Nanos::from_millis(50),
            in_flight: 500_000,
            window_was_full: false,
            app_limited: false,
            acked_then: 0,
            acked_now: 500_000,
            acked_at_then: Time::ZERO,
        });
        assert_eq!(bic.window(), 1_000_000);
    }
}
