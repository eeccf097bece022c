//! BIC as Linux's module `tcp_bic` has it: the default of Linux before CUBIC.
//!
//! `docs/simulator.md` has its rules. The window is a whole number of segments and grows by one
//! after [`Bic::count`] acknowledgements: after a loss fast at first, slowly near the window at
//! which the loss happened, and faster again beyond it.

use super::acked::{Acked, TimeOut};

/// Up to this number of segments the window grows and shrinks as Reno's does (`low_window`).
const LOW_WINDOW: u64 = 14;

/// The most segments that a round trip adds (`max_increment`).
const STEP_MAX: u64 = 16;

/// A round trip adds a quarter of the distance to the last maximum.
const PARTS: u64 = 4;

/// Near the last maximum the window needs this number of round trips for [`PARTS`] segments
/// (`smooth_part`).
const SMOOTH: u64 = 20;

/// What remains of a window after a loss (`beta`), of 1024.
const REMAINS: u64 = 819;

/// While no maximum is known, at most this number of segments is acknowledged for one more.
const COUNT_UNKNOWN: u64 = 20;

/// Segments that one acknowledgement is for: receivers acknowledge every second one.
const DELAYED_ACK: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Bic {
    /// Bytes of a segment; the other sizes are in segments.
    segment: u64,
    first: u64,
    window: u64,
    /// Slow start ends at this window.
    threshold: u64,
    /// The window at the last loss, or less after two losses in a row below it; 0 if there was
    /// none since the beginning or a time-out.
    last_max: u64,
    /// Acknowledged bytes that have not made the window larger yet.
    gathered: u64,
}

impl Bic {
    /// The sizes are in bytes, `first` whole segments.
    pub(super) fn new(segment: u64, first: u64) -> Bic {
        let first = first / segment;
        Bic { segment, first, window: first, threshold: u64::MAX, last_max: 0, gathered: 0 }
    }

    /// In bytes.
    pub(super) fn window(&self) -> u64 {
        self.window * self.segment
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        if !acked.window_was_full {
            return;
        }
        self.gathered += acked.len;
        if self.window < self.threshold {
            let more = (self.gathered / self.segment).min(self.threshold - self.window);
            self.window += more;
            self.gathered -= more * self.segment;
            if self.window < self.threshold {
                return;
            }
        }
        loop {
            let needed = self.count() * DELAYED_ACK * self.segment;
            if self.gathered < needed {
                break;
            }
            self.gathered -= needed;
            self.window += 1;
        }
    }

    /// The number of acknowledgements that make the window a segment larger.
    fn count(&self) -> u64 {
        let (window, last_max) = (self.window, self.last_max);
        if window <= LOW_WINDOW {
            return (window / DELAYED_ACK).max(1);
        }
        let mut segments = if window < last_max {
            match (last_max - window) / PARTS {
                0..=1 => window * SMOOTH / PARTS,
                distance @ 2..=STEP_MAX => window / distance,
                _ => window / STEP_MAX,
            }
        } else {
            match window - last_max {
                0..PARTS => window * SMOOTH / PARTS,
                beyond if beyond < STEP_MAX * (PARTS - 1) => window * (PARTS - 1) / beyond,
                _ => window / STEP_MAX,
            }
        };
        if last_max == 0 {
            segments = segments.min(COUNT_UNKNOWN);
        }
        (segments / DELAYED_ACK).max(1)
    }

    pub(super) fn lost(&mut self) {
        // Fast convergence: a sender that lost below the last maximum leaves room for others.
        self.last_max = match self.window < self.last_max {
            true => self.window * (1024 + REMAINS) / 2048,
            false => self.window,
        };
        let left = match self.window <= LOW_WINDOW {
            true => self.window / 2,
            false => self.window * REMAINS / 1024,
        };
        self.window = left.max(2);
        self.threshold = self.window;
        self.gathered = 0;
    }

    /// The search begins anew; only the threshold of slow start remains of the window.
    pub(super) fn timed_out(&mut self, which: TimeOut) {
        if which == TimeOut::First {
            self.lost();
        }
        (self.window, self.last_max, self.gathered) = (1, 0, 0);
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

    const SEGMENT: u64 = 1000;

    /// A sender in congestion avoidance.
    fn sender(window: u64, last_max: u64) -> Bic {
        let mut bic = Bic::new(SEGMENT, 2 * SEGMENT);
        (bic.window, bic.threshold, bic.last_max) = (window, 2, last_max);
        bic
    }

    fn ack(bic: &mut Bic, len: u64, window_was_full: bool) {
        bic.acked(&Acked {
            now: Time::ZERO,
            len,
            round_trip: Nanos::from_millis(50),
            in_flight: bic.window(),
            window_was_full,
            app_limited: false,
            acked_then: 0,
            acked_now: len,
            acked_at_then: Time::ZERO,
        });
    }

    /// A round trip: all of the window is acknowledged, two segments at a time.
    fn round(bic: &mut Bic) -> u64 {
        let mut left = bic.window();
        while left > 0 {
            let len = left.min(2 * SEGMENT);
            ack(bic, len, true);
            left -= len;
        }
        bic.window
    }

    /// The number of round trips until the window is at least so large.
    fn rounds_to(bic: &mut Bic, window: u64) -> u64 {
        (1..1000).find(|_| round(bic) >= window).expect("it grows")
    }

    #[test]
    fn far_below_the_last_maximum_a_round_trip_adds_sixteen_segments() {
        // 7000 x 819 / 1024; 16 divides 5600 as a whole number, so the first round trips are exact.
        let mut bic = sender(7000, 0);
        bic.lost();
        assert_eq!((bic.window, bic.threshold, bic.last_max), (5598, 5598, 7000));
        let mut bic = sender(5600, 7000);
        assert_eq!(bic.count(), 5600 / 16 / 2);
        assert_eq!([round(&mut bic), round(&mut bic)], [5616, 5632]);
        // A distance of 68 is 17 quarters, more than the limit; 67 is 16, which is the same.
        assert_eq!(sender(6932, 7000).count(), 6932 / 16 / 2);
        assert_eq!(sender(6933, 7000).count(), 6933 / 16 / 2);
    }

    #[test]
    fn a_round_trip_adds_a_quarter_of_the_distance() {
        // The quarters are whole: 63 / 4 = 15, 12 / 4 = 3, 8 / 4 = 2.
        for (window, quarter) in [(6937, 15), (6988, 3), (6992, 2)] {
            assert_eq!(sender(window, 7000).count(), window / quarter / 2);
        }
    }

    #[test]
    fn near_the_last_maximum_a_segment_takes_five_round_trips_on_both_sides() {
        for (window, smooth) in
            [(6992, false), (6993, true), (6999, true), (7000, true), (7003, true), (7004, false)]
        {
            let is_smooth = sender(window, 7000).count() == window * 5 / 2;
            assert_eq!(is_smooth, smooth, "{window}");
        }
        assert_eq!(rounds_to(&mut sender(6993, 7000), 6994), 5);
        assert_eq!(rounds_to(&mut sender(6993, 7000), 7000), 7 * 5);
        assert_eq!(rounds_to(&mut sender(7000, 7000), 7001), 5);
        assert_eq!(rounds_to(&mut sender(7000, 7000), 7004), 4 * 5);
        // The last eight segments below, of which the first is not in the smooth part, and the
        // first four above.
        assert_eq!(rounds_to(&mut sender(6992, 7000), 7004), 1 + 7 * 5 + 4 * 5);
    }

    #[test]
    fn above_the_last_maximum_a_round_trip_adds_a_third_of_the_distance_then_sixteen() {
        assert_eq!(sender(7004, 7000).count(), 7004 * 3 / 4 / 2);
        assert_eq!(sender(7047, 7000).count(), 7047 * 3 / 47 / 2);
        assert_eq!(sender(7048, 7000).count(), 7048 / 16 / 2);
        assert_eq!(sender(9000, 7000).count(), 9000 / 16 / 2);
        // 30 / 3 = 10, and a little more as the distance grows.
        assert_eq!(round(&mut sender(7030, 7000)), 7041);
        let mut bic = sender(7200, 7000);
        assert_eq!([round(&mut bic), round(&mut bic)], [7216, 7232]);
    }

    /// The whole way back from a loss, and beyond: a curve that is flat around the last maximum.
    /// 84 + 9 round trips lead to 8 segments below it, 35 + 20 through the two smooth parts.
    #[test]
    fn from_a_loss_at_7000_segments_it_takes_156_round_trips_to_48_more() {
        let mut bic = sender(7000, 0);
        bic.lost();
        let windows: Vec<u64> = (0..170).map(|_| round(&mut bic)).collect();
        let first = |window| windows.iter().position(|now| *now >= window).unwrap() + 1;
        let at: Vec<usize> = [6932, 6992, 7000, 7004, 7048, 7100].map(first).to_vec();
        assert_eq!(at, [84, 93, 128, 148, 156, 159]);
    }

    #[test]
    fn without_a_maximum_a_round_trip_adds_at_least_a_twentieth() {
        assert_eq!(sender(1000, 0).count(), 20 / 2);
        assert_eq!(round(&mut sender(1000, 0)), 1050);
        // 100 / 16 = 6 is less than 20.
        assert_eq!(sender(100, 0).count(), 3);
        assert_eq!(sender(1000, 1).count(), 1000 / 16 / 2, "once there is one, 16 is the most");
    }

    #[test]
    fn a_window_grows_by_one_per_acknowledgement_at_most() {
        assert_eq!(sender(15, 7000).count(), 1);
        assert_eq!(round(&mut sender(16, 7000)), 24);
    }

    #[test]
    fn a_loss_below_the_last_maximum_lowers_it() {
        let mut bic = sender(1000, 0);
        bic.lost();
        assert_eq!((bic.last_max, bic.window), (1000, 799));
        bic.lost();
        // 799 x (1024 + 819) / 2048; and 799 x 819 / 1024.
        assert_eq!((bic.last_max, bic.window), (719, 639));
        let mut bic = sender(800, 799);
        bic.lost();
        assert_eq!(bic.last_max, 800, "above the last maximum the new one is higher");
    }

    #[test]
    fn up_to_fourteen_segments_it_is_reno() {
        let mut bic = sender(14, 0);
        bic.lost();
        assert_eq!((bic.window, bic.last_max), (7, 14));
        let mut bic = sender(10, 7000);
        assert_eq!([round(&mut bic), round(&mut bic)], [11, 12]);
        assert_eq!(sender(14, 7000).count(), 7, "14 is included");
        let mut bic = sender(15, 0);
        bic.lost();
        assert_eq!(bic.window, 11, "15 is not: 15 x 819 / 1024");
        let mut bic = sender(3, 0);
        bic.lost();
        assert_eq!(bic.window, 2, "two segments are the least");
    }

    #[test]
    fn slow_start_doubles_until_the_threshold() {
        let mut bic = Bic::new(SEGMENT, 2 * SEGMENT);
        let windows: Vec<u64> = (0..4).map(|_| round(&mut bic)).collect();
        assert_eq!(windows, [4, 8, 16, 32]);
        bic.threshold = 40;
        assert_eq!(round(&mut bic), 52, "the rest counts as in congestion avoidance");
    }

    #[test]
    fn a_time_out_forgets_the_last_maximum() {
        let mut bic = sender(1000, 2000);
        ack(&mut bic, SEGMENT, true);
        bic.timed_out(TimeOut::First);
        let expected = (1, 799, 0, 0);
        assert_eq!((bic.window, bic.threshold, bic.last_max, bic.gathered), expected);
        bic.timed_out(TimeOut::Repeated);
        assert_eq!((bic.window, bic.threshold, bic.last_max, bic.gathered), expected);
        // Slow start to the threshold, then a twentieth of the window: it does not slow down at
        // 1000, where it was before.
        assert_eq!(rounds_to(&mut bic, 799), 10);
        assert_eq!(rounds_to(&mut bic, 1000), 5);
        assert_eq!(rounds_to(&mut bic, 1100), 2);
        let window = bic.window;
        bic.lost();
        assert_eq!(bic.last_max, window, "there is nothing to compare it with");
    }

    #[test]
    fn a_pause_halves_the_window_and_never_raises_it() {
        let mut bic = sender(1000, 0);
        bic.idled(1);
        assert_eq!((bic.window, bic.threshold), (500, 750));
        bic.idled(50);
        assert_eq!(bic.window, 2);
        bic.window = 1;
        bic.idled(50);
        assert_eq!(bic.window, 1);
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let mut bic = sender(1000, 0);
        ack(&mut bic, 500 * SEGMENT, false);
        assert_eq!((bic.window, bic.gathered), (1000, 0));
    }
}
