//! CUBIC (RFC 9438) with HyStart's exit from slow start by delay, as in Linux.

use lustrine_lnet::time::{Nanos, Time};

use super::acked::{Acked, TimeOut};

/// The part of a window that remains after a loss, in tenths.
const LEFT: u64 = 7;

/// HyStart takes this number of samples in a round, and ends slow start when all of them took
/// longer than before by an eighth, at least 4 and at most 16 ms.
const SAMPLES: u32 = 8;
const RISE_MIN: u64 = 4_000_000;
const RISE_MAX: u64 = 16_000_000;

/// Segments below which HyStart does not look at round trips (`hystart_low_window`).
const LOW_WINDOW: u64 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    segment: u64,
    first: u64,
    window: u64,
    /// Slow start ends at this window.
    threshold: u64,
    /// The window before the last loss.
    highest: u64,
    /// When the window began to grow after the loss, and how long it takes to return to the old
    /// maximum.
    epoch: Option<(Time, u64)>,
    /// Growth of less than a segment, in bytes times window.
    gathered: u128,
    /// The window that Reno would have.
    reno: u64,
    reno_gathered: u128,
    /// `None`: only a loss ends slow start.
    start: Option<HyStart>,
}

/// When to end slow start. It does so once for a stream, and begins anew after a retransmission
/// time-out, as in Linux. RFC 9406 has it for the initial slow start only: a later one leads to a
/// window that is known to fit.
#[derive(Clone, Debug)]
struct HyStart {
    /// Whether it has ended slow start.
    found: bool,
    /// The round ends when the data that was sent at its beginning is acknowledged.
    round_ends: u64,
    samples: u32,
    least_of_round: u64,
    least: u64,
}

impl Cubic {
    pub(super) fn new(segment: u64, first: u64, hystart: bool) -> Cubic {
        Cubic {
            segment,
            first,
            window: first,
            threshold: u64::MAX,
            highest: 0,
            epoch: None,
            gathered: 0,
            reno: 0,
            reno_gathered: 0,
            start: hystart.then(HyStart::new),
        }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn acked(&mut self, acked: &Acked) {
        let is_slow_start = self.window < self.threshold;
        if let Some(start) = &mut self.start {
            start.least = start.least.min(acked.round_trip.0);
            let is_large = self.window >= LOW_WINDOW * self.segment;
            if is_slow_start && is_large && start.delayed(acked) {
                self.threshold = self.window;
            }
        }
        if !acked.window_was_full {
            return;
        }
        let mut len = acked.len;
        if self.window < self.threshold {
            let more = len.min(self.threshold - self.window);
            self.window += more;
            len -= more;
            if len == 0 {
                return;
            }
        }
        self.avoid(&Acked { len, ..*acked });
    }

    /// Congestion avoidance.
    fn avoid(&mut self, acked: &Acked) {
        let (begin, until_highest) = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(acked.now),
        };
        // The value of the curve one round trip from now.
        let millis = (acked.now.since(begin).0 + acked.round_trip.0) / 1_000_000;
        let distance = millis.abs_diff(until_highest).min(1_000_000);
        // 0.4 segments per cubic second: 4 / 10^10 per cubic millisecond.
        let rise = u128::from(self.segment) * 4 * u128::from(distance).pow(3) / 10_u128.pow(10);
        let rise = u64::try_from(rise).unwrap_or(u64::MAX);
        let curve = match millis < until_highest {
            true => self.highest.saturating_sub(rise),
            false => self.highest.saturating_add(rise),
        };
        let target = curve.clamp(self.window, self.window / 2 * 3);
        self.gathered += u128::from(target - self.window) * u128::from(acked.len);
        self.window += take(&mut self.gathered, self.window);

        // At least as fast as Reno: 3 x 0.3 / 1.7 segments per round trip.
        self.reno_gathered += u128::from(self.segment) * 9 * u128::from(acked.len) / 17;
        self.reno += take(&mut self.reno_gathered, self.reno.max(1));
        self.window = self.window.max(self.reno);
    }

    /// The window begins to grow along the curve.
    fn begin(&mut self, now: Time) -> (Time, u64) {
        self.reno = self.window;
        (self.gathered, self.reno_gathered) = (0, 0);
        self.highest = self.highest.max(self.window);
        let below = self.highest - self.window;
        let cubed = u128::from(below) * 10_u128.pow(10) / (4 * u128::from(self.segment));
        let epoch = (now, cube_root(cubed));
        self.epoch = Some(epoch);
        epoch
    }

    pub(super) fn lost(&mut self) {
        self.epoch = None;
        // A sender that lost below the last maximum makes room for others.
        self.highest = match self.window < self.highest {
            true => self.window * (10 + LEFT) / 20,
            false => self.window,
        };
        self.window = (self.window / 10 * LEFT).max(2 * self.segment);
        self.threshold = self.window;
    }

    pub(super) fn timed_out(&mut self, which: TimeOut) {
        if which == TimeOut::First {
            self.lost();
        }
        self.window = self.segment;
        self.start = self.start.as_ref().map(|_| HyStart::new());
        // The old maximum says nothing any more: after slow start the curve begins at the window
        // (RFC 9438, 4.8).
        self.highest = 0;
    }

    pub(super) fn idled(&mut self, timeouts: u64) {
        // The window before the loss is known to fit: slow start returns to it.
        self.threshold = self.threshold.max(self.window / 4 * 3);
        let left = self.window.checked_shr(timeouts.min(63) as u32).unwrap_or(0);
        self.window = left.max(self.first.min(self.window));
        self.epoch = None;
    }

    /// Time in which nothing was in flight is no time of the curve (RFC 9438, 4.2).
    pub(super) fn begins_again(&mut self, idle: Nanos) {
        if let Some((begin, _)) = &mut self.epoch {
            *begin = *begin + idle;
        }
    }
}

impl HyStart {
    fn new() -> HyStart {
        HyStart {
            found: false,
            round_ends: 0,
            samples: 0,
            least_of_round: u64::MAX,
            least: u64::MAX,
        }
    }

    /// Whether the round trip has risen, for the first time.
    fn delayed(&mut self, acked: &Acked) -> bool {
        if self.found {
            return false;
        }
        if acked.acked_now > self.round_ends {
            self.round_ends = acked.acked_now + acked.in_flight;
            self.samples = 0;
            self.least_of_round = u64::MAX;
        }
        let took = acked.round_trip.0;
        self.least_of_round = self.least_of_round.min(took);
        self.samples += 1;
        let rise = (self.least / 8).clamp(RISE_MIN, RISE_MAX);
        self.found = self.samples >= SAMPLES && self.least_of_round > self.least + rise;
        self.found
    }
}

/// Takes whole units of `size` out of the accumulated growth.
fn take(gathered: &mut u128, size: u64) -> u64 {
    let whole = *gathered / u128::from(size.max(1));
    *gathered -= whole * u128::from(size.max(1));
    whole as u64
}

/// The greatest number whose cube is not greater than `value`.
fn cube_root(of: u128) -> u64 {
    let (mut low, mut high) = (0u64, 1 << 42);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if u128::from(middle).pow(3) <= of { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos::from_millis(50);

    fn acked(now: Time, len: u64, round_trip: Nanos) -> Acked {
        Acked {
            now,
            len,
            round_trip,
            in_flight: 0,
            window_was_full: true,
            app_limited: false,
            acked_then: 0,
            acked_now: 0,
            acked_at_then: Time::ZERO,
        }
    }

    /// One window acknowledged in ten parts.
    fn round(cubic: &mut Cubic, now: &mut Time, round_trip: Nanos) {
        let part = (cubic.window() / 10).max(1);
        for _ in 0..10 {
            *now = *now + Nanos(round_trip.0 / 10);
            let (acked_now, in_flight) = (now.0, round_trip.0);
            cubic.acked(&Acked { acked_now, in_flight, ..acked(*now, part, round_trip) });
        }
    }

    #[test]
    fn cube_roots_are_rounded_down() {
        for of in [0, 1, 7, 8, 26, 27, 1_000_000, 999_999_999_999] {
            let root = u128::from(cube_root(of));
            assert!(root.pow(3) <= of && (root + 1).pow(3) > of, "{of}: {root}");
        }
    }

    #[test]
    fn slow_start_doubles_each_round_until_the_round_trip_rises() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        for window in [20_000, 40_000, 80_000, 160_000] {
            round(&mut cubic, &mut now, RTT);
            assert_eq!(cubic.window(), window);
        }
        round(&mut cubic, &mut now, Nanos(RTT.0 + RISE_MAX));
        round(&mut cubic, &mut now, Nanos(RTT.0 + RISE_MAX));
        let after = cubic.window();
        round(&mut cubic, &mut now, Nanos(RTT.0 + RISE_MAX));
        assert!(cubic.window() < after * 3 / 2, "{after} {}", cubic.window());
    }

    /// A window of a few segments says nothing of a queue.
    #[test]
    fn a_small_window_is_not_ended_by_the_round_trip() {
        let (mut cubic, mut now) = (Cubic::new(1000, 1000, true), Time::ZERO);
        for window in [2000, 4000, 8000, 16_000] {
            round(&mut cubic, &mut now, Nanos(RTT.0 + window * 4000));
            assert_eq!(cubic.window(), window);
        }
    }

    /// A later slow start leads to a window that is known to fit, whatever the round trip is now.
    #[test]
    fn the_round_trip_ends_one_slow_start_alone() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        let later = Nanos(RTT.0 + 2 * RISE_MAX);
        for _ in 0..5 {
            round(&mut cubic, &mut now, RTT);
        }
        round(&mut cubic, &mut now, later);
        assert!(cubic.threshold <= 640_000, "{}", cubic.threshold);
        let before = cubic.window();
        cubic.idled(4);
        for _ in 0..5 {
            round(&mut cubic, &mut now, later);
        }
        assert!(cubic.window() >= before / 4 * 3, "{} of {before}", cubic.window());
    }

    /// What the round trip was before a time-out does not count any more.
    #[test]
    fn a_time_out_makes_the_round_trip_unknown() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        for _ in 0..3 {
            round(&mut cubic, &mut now, RTT);
        }
        cubic.window = 1_000_000;
        cubic.timed_out(TimeOut::First);
        for _ in 0..10 {
            round(&mut cubic, &mut now, Nanos(3 * RTT.0));
        }
        assert!(cubic.window() >= 700_000, "{}", cubic.window());
    }

    #[test]
    fn idle_time_is_no_time_of_the_curve() {
        let after = |idle: Nanos| {
            let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
            cubic.window = 10_000_000;
            cubic.lost();
            for number in 0..40 {
                round(&mut cubic, &mut now, RTT);
                if number == 10 {
                    now = now + idle;
                    cubic.begins_again(idle);
                }
            }
            cubic.window()
        };
        assert_eq!(after(Nanos::from_secs(60)), after(Nanos::ZERO));
    }

    #[test]
    fn without_hystart_only_a_loss_ends_slow_start() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, false), Time::ZERO);
        for (number, window) in [20_000, 40_000, 80_000, 160_000, 320_000].into_iter().enumerate() {
            round(&mut cubic, &mut now, Nanos(RTT.0 + number as u64 * RISE_MAX));
            assert_eq!(cubic.window(), window);
        }
        cubic.lost();
        assert_eq!((cubic.window(), cubic.threshold), (224_000, 224_000));
    }

    /// RFC 9438: the window is back at its maximum after K = cbrt(highest x 0.3 / 0.4) seconds.
    #[test]
    fn the_window_returns_along_the_curve_after_a_loss() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        cubic.window = 10_000_000;
        cubic.lost();
        assert_eq!(cubic.window(), 7_000_000);
        // cbrt(10,000 x 0.3 / 0.4) = 19.57 s.
        let mut at = Vec::new();
        while now.0 < 26_000_000_000 {
            round(&mut cubic, &mut now, RTT);
            at.push((now.0 / 1_000_000, cubic.window()));
        }
        let window_at = |millis| at.iter().find(|(now, _)| *now >= millis).unwrap().1;
        assert!((9_500_000..9_990_000).contains(&window_at(12_000)), "{}", window_at(12_000));
        assert!((9_990_000..10_020_000).contains(&window_at(19_600)), "{}", window_at(19_600));
        assert!(window_at(25_900) > 10_080_000, "{}", window_at(25_900));
    }

    /// Without a loss the window grows along the curve's upper half from the end of slow start.
    #[test]
    fn without_a_loss_the_curve_begins_at_the_window() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        (cubic.window, cubic.threshold) = (10_000_000, 10_000_000);
        while now.0 < 20_000_000_000 {
            round(&mut cubic, &mut now, RTT);
        }
        // 0.4 x 20^3 segments; Reno's would be 9 / 17 in each of 400 rounds.
        let risen = cubic.window() - 10_000_000;
        assert!((3_100_000..3_250_000).contains(&risen), "{risen}");
    }

    #[test]
    fn idle_times_and_time_outs_shrink_the_window_and_slow_start_brings_it_back() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        for _ in 0..6 {
            round(&mut cubic, &mut now, RTT);
        }
        let before = cubic.window();
        cubic.idled(3);
        assert_eq!(cubic.window(), before / 8);
        cubic.idled(50);
        assert_eq!(cubic.window(), 10_000);
        cubic.timed_out(TimeOut::First);
        assert_eq!(cubic.window(), 1000);
    }

    #[test]
    fn after_repeated_time_outs_slow_start_leads_to_the_threshold_of_the_first_one() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        cubic.window = 1_000_000;
        cubic.timed_out(TimeOut::First);
        cubic.timed_out(TimeOut::Repeated);
        assert_eq!((cubic.window(), cubic.threshold), (1000, 700_000));
        // 2^9 < 700 < 2^10; the tenth round trip ends just above the threshold.
        let windows = [(); 10].map(|()| {
            round(&mut cubic, &mut now, RTT);
            cubic.window()
        });
        assert_eq!(windows[8], 512_000);
        assert!((700_000..710_000).contains(&windows[9]), "{windows:?}");
    }

    /// RFC 9438, 4.8: K is 0, and the maximum is the window at which slow start ended.
    #[test]
    fn after_a_time_out_the_curve_begins_at_the_end_of_slow_start() {
        let (mut cubic, mut now) = (Cubic::new(1000, 10_000, true), Time::ZERO);
        cubic.window = 10_000_000;
        cubic.timed_out(TimeOut::First);
        while cubic.window() < cubic.threshold {
            round(&mut cubic, &mut now, RTT);
        }
        let (begin, until_highest) = cubic.epoch.expect("the curve has begun");
        assert!((7_000_000..7_010_000).contains(&cubic.highest), "{}", cubic.highest);
        assert_eq!((until_highest, now.since(begin) <= RTT), (0, true));
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let mut cubic = Cubic::new(1000, 10_000, true);
        let acked = Acked { window_was_full: false, ..acked(Time(1), 5000, RTT) };
        cubic.acked(&acked);
        assert_eq!(cubic.window(), 10_000);
    }
}
