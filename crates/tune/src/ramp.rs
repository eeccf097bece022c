//! How load is raised until more in flight brings no more.

use serde::{Deserialize, Serialize};

/// Growth below which a doubling counts as none: 1 / 10.
const GROWTH_PART: u64 = 10;

/// Doublings without growth, one after the other, that end a ramp. One alone may be chance.
const FLAT_MAX: u32 = 2;

/// A number of messages in flight, and what they carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Messages in flight.
    pub in_flight: u32,
    /// Payload, in bits per second.
    pub rate: u64,
}

/// Doubles the messages in flight, from 1, until two doublings in a row bring less than a tenth
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    next: u32,
    max: u32,
    flat: u32,
    best: Option<Point>,
}

impl Ramp {
    /// A ramp up to this many messages in flight, at least 1.
    pub fn new(max: u32) -> Ramp {
        Ramp { next: 1, max: max.max(1), flat: 0, best: None }
    }

    /// How many messages shall be in flight next; `None` if the ramp has ended.
    pub fn next(&self) -> Option<u32> {
        (self.flat < FLAT_MAX && self.next <= self.max).then_some(self.next)
    }

    /// Takes what the messages of [`Ramp::next`] carried, in bits per second. It has no effect
    /// after the end.
    pub fn observe(&mut self, rate: u64) {
        let Some(in_flight) = self.next() else { return };
        let best = self.best.map_or(0, |best| best.rate);
        let grows = rate > best.saturating_add(best / GROWTH_PART);
        self.flat = if grows { 0 } else { self.flat + 1 };
        if self.best.is_none() || rate > best {
            self.best = Some(Point { in_flight, rate });
        }
        self.next = in_flight.saturating_mul(2);
    }

    /// The highest rate so far.
    pub fn best(&self) -> Option<Point> {
        self.best
    }

    /// Whether more in flight brought no more. Otherwise the best rate is a lower bound of what the
    /// path carries.
    pub fn is_flat(&self) -> bool {
        self.flat >= FLAT_MAX
    }
}

/// The part of what is left of a budget, in its unit, for a step of `weight` when all steps that
/// are still to come, this one included, have `weights`. What a step leaves is for the later ones.
pub fn share(left: u64, weight: u32, weights: u32) -> u64 {
    let part = u128::from(left) * u128::from(weight.min(weights)) / u128::from(weights.max(1));
    u64::try_from(part).unwrap_or(left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs a ramp over a path on which `one` is the rate of one message in flight and `most` that
    /// of the path.
    fn run(one: u64, most: u64, max: u32) -> Ramp {
        let mut ramp = Ramp::new(max);
        while let Some(in_flight) = ramp.next() {
            ramp.observe((one * u64::from(in_flight)).min(most));
        }
        ramp
    }

    #[test]
    fn a_ramp_ends_after_two_doublings_without_growth() {
        let ramp = run(1_000, 8_000, 1024);
        assert_eq!(ramp.best(), Some(Point { in_flight: 8, rate: 8_000 }));
        assert!(ramp.is_flat());
        let mut chance = Ramp::new(1024);
        for rate in [100, 200, 190, 400, 400] {
            chance.observe(rate);
        }
        assert_eq!(chance.next(), Some(32), "one step without growth may be chance");
        chance.observe(400);
        assert_eq!((chance.next(), chance.is_flat()), (None, true));
    }

    #[test]
    fn a_ramp_that_grows_to_its_end_says_so() {
        let ramp = run(1_000, u64::MAX, 16);
        assert_eq!(ramp.best(), Some(Point { in_flight: 16, rate: 16_000 }));
        assert!(!ramp.is_flat());
        assert!(!Ramp::new(0).is_flat() && Ramp::new(0).best().is_none());
    }

    #[test]
    fn what_a_step_leaves_is_for_the_others() {
        assert_eq!(share(100, 1, 4), 25);
        assert_eq!(share(90, 1, 3), 30);
        assert_eq!((share(60, 2, 2), share(60, 9, 2), share(60, 0, 0)), (60, 60, 0));
    }

    proptest! {
        /// Every path is found to within a tenth, or the ramp says that it did not.
        #[test]
        fn the_rate_of_a_path_is_found(one in 100u64..1_000_000, factor in 1u64..=256) {
            let most = one * factor;
            let ramp = run(one, most, 1024);
            let best = ramp.best().expect("a ramp has a step").rate;
            prop_assert!(ramp.is_flat());
            prop_assert!(best <= most && best + best / GROWTH_PART >= most, "{best} of {most}");
        }

        /// Whatever is observed, it ends.
        #[test]
        fn every_ramp_ends(rates in proptest::collection::vec(any::<u64>(), 40), max: u32) {
            let mut ramp = Ramp::new(max);
            rates.iter().for_each(|rate| ramp.observe(*rate));
            prop_assert_eq!(ramp.next(), None);
            prop_assert_eq!(ramp.best().is_some(), true);
        }

        /// No share is more than what is left.
        #[test]
        fn shares_are_parts(left: u64, weight: u32, weights: u32) {
            prop_assert!(share(left, weight, weights) <= left);
        }
    }
}
