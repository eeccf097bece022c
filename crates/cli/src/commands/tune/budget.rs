//! What a measurement may use, and how its parts share that.

use lustrine_tune::share;
use serde::Serialize;

/// How the budget is divided; what a part leaves is for the later ones.
pub(super) const WEIGHT_BEFORE: u32 = 1;
pub(super) const WEIGHT_RAMP: u32 = 6;
pub(super) const WEIGHT_CONNS: u32 = 1;
pub(super) const WEIGHT_AFTER: u32 = 2;
/// All of them, in two directions; it may run twice with new values.
const WEIGHTS: u32 = 2 * (WEIGHT_BEFORE + WEIGHT_RAMP + WEIGHT_CONNS + 2 * WEIGHT_AFTER);

/// What may be used, or was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Budget {
    /// Bytes sent and received.
    pub(super) bytes: u64,
    /// Nanoseconds of load.
    pub(super) time_ns: u64,
}

impl Budget {
    pub(super) fn plus(self, other: Budget) -> Budget {
        Budget {
            bytes: self.bytes.saturating_add(other.bytes),
            time_ns: self.time_ns.saturating_add(other.time_ns),
        }
    }

    /// What is left without `other`; nothing if that is more.
    fn less(self, other: Budget) -> Budget {
        Budget {
            bytes: self.bytes.saturating_sub(other.bytes),
            time_ns: self.time_ns.saturating_sub(other.time_ns),
        }
    }
}

/// What a part may use, and what it has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    whole: Budget,
    used: Budget,
}

impl Allowance {
    /// What the part may still use.
    pub(super) fn left(&self) -> Budget {
        self.whole.less(self.used)
    }

    /// What the part has used.
    pub(super) fn used(&self) -> Budget {
        self.used
    }

    /// Takes what a step has used, which may be more than is left: the next look at a fast load
    /// comes late.
    pub(super) fn spend(&mut self, used: Budget) {
        self.used = self.used.plus(used);
    }
}

/// A budget, for how much it still is, and what the parts so far have used of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Purse {
    whole: Budget,
    used: Budget,
    weights: u32,
}

impl Purse {
    pub(super) fn new(whole: Budget) -> Purse {
        Purse { whole, used: Budget::default(), weights: WEIGHTS }
    }

    /// The whole budget.
    pub(super) fn whole(&self) -> Budget {
        self.whole
    }

    /// Gives all parts to come more time; whether it is more than they had.
    pub(super) fn lengthen(&mut self, time_ns: u64) -> bool {
        let is_more = time_ns > self.whole.time_ns;
        self.whole.time_ns = self.whole.time_ns.max(time_ns);
        is_more
    }

    /// The share of the next part, which is taken back with [`Purse::put`].
    pub(super) fn take(&mut self, weight: u32) -> Allowance {
        let left = self.whole.less(self.used);
        let whole = Budget {
            bytes: share(left.bytes, weight, self.weights),
            time_ns: share(left.time_ns, weight, self.weights),
        };
        self.weights = self.weights.saturating_sub(weight);
        Allowance { whole, used: Budget::default() }
    }

    /// A part is not measured: its share is for the later ones.
    pub(super) fn skip(&mut self, weight: u32) {
        self.weights = self.weights.saturating_sub(weight);
    }

    /// Gives a part more than its share, if that is what it needs next, and if `reserve` is left
    /// for the later ones. Whether it did.
    pub(super) fn extend(&self, part: &mut Allowance, next: Budget, reserve: Budget) -> bool {
        let left = self.whole.less(self.used).less(part.used);
        let needed = next.plus(reserve);
        let fits = needed.bytes <= left.bytes && needed.time_ns <= left.time_ns;
        if fits {
            let with_it = part.used.plus(next);
            part.whole.bytes = part.whole.bytes.max(with_it.bytes);
            part.whole.time_ns = part.whole.time_ns.max(with_it.time_ns);
        }
        fits
    }

    /// Takes back the share of a part: what it did not use is for the later ones, and what it used
    /// beyond its share is at their expense.
    pub(super) fn put(&mut self, part: Allowance) {
        self.used = self.used.plus(part.used);
    }

    /// What was used, which may be more than the whole budget.
    pub(super) fn used(&self) -> Budget {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn parts_that_use_nothing_leave_it_to_the_later_ones() {
        let mut purse = Purse::new(Budget { bytes: 24 * GIB, time_ns: 48 });
        let first = purse.take(WEIGHT_BEFORE);
        assert_eq!(first.left(), Budget { bytes: GIB, time_ns: 2 });
        purse.put(first);
        for weight in [WEIGHT_BEFORE, WEIGHT_RAMP, WEIGHT_RAMP, WEIGHT_CONNS, WEIGHT_CONNS] {
            let mut part = purse.take(weight);
            part.spend(part.left());
            purse.put(part);
        }
        let mut all = Vec::new();
        for _ in 0..4 {
            let mut part = purse.take(WEIGHT_AFTER);
            all.push(part.left().bytes);
            part.spend(part.left());
            purse.put(part);
        }
        // What does not divide is in the later ones.
        assert!(all[0] > 2 * GIB && all.iter().all(|one| one - all[0] <= 1), "{all:?}");
        assert_eq!(purse.used(), Budget { bytes: 24 * GIB, time_ns: 48 });
    }

    #[test]
    fn a_part_gets_what_the_later_ones_do_not_need() {
        let mut purse = Purse::new(Budget { bytes: 24 * GIB, time_ns: 48 });
        let mut first = purse.take(WEIGHT_RAMP);
        first.spend(Budget { bytes: GIB, time_ns: 10 });
        let (next, reserve) =
            (Budget { bytes: GIB, time_ns: 8 }, Budget { bytes: 2 * GIB, time_ns: 30 });
        assert!(purse.extend(&mut first, next, reserve));
        assert_eq!(first.left(), Budget { bytes: 5 * GIB, time_ns: 8 });
        first.spend(next);
        assert!(!purse.extend(&mut first, next, reserve), "30 are for the later ones");
        assert_eq!(first.left().time_ns, 0);
        purse.put(first);
        // What is not measured needs nothing.
        purse.skip(WEIGHTS - WEIGHT_RAMP - WEIGHT_BEFORE);
        assert_eq!(purse.take(WEIGHT_BEFORE).left(), Budget { bytes: 22 * GIB, time_ns: 30 });
    }

    #[test]
    fn more_time_is_for_the_parts_to_come() {
        let mut purse = Purse::new(Budget { bytes: GIB, time_ns: 24 });
        let first = purse.take(WEIGHT_RAMP);
        assert!(!purse.lengthen(24) && purse.lengthen(48) && !purse.lengthen(12));
        purse.put(first);
        assert_eq!(purse.take(WEIGHTS - WEIGHT_RAMP).left().time_ns, 48);
        assert_eq!(purse.whole().time_ns, 48);
    }

    /// A load of 100 Gb/s moves 125 MB between two looks.
    #[test]
    fn what_a_part_used_beyond_its_share_is_charged_to_the_later_ones() {
        let mut purse = Purse::new(Budget { bytes: 24 * GIB, time_ns: 48 });
        let mut first = purse.take(WEIGHT_RAMP);
        first.spend(Budget { bytes: 5 * GIB, time_ns: 11 });
        first.spend(Budget { bytes: 10 * GIB, time_ns: 10 });
        assert_eq!(first.left(), Budget::default());
        purse.put(first);
        assert_eq!(
            purse.take(WEIGHTS - WEIGHT_RAMP).left(),
            Budget { bytes: 9 * GIB, time_ns: 27 }
        );
        let mut last = purse.take(WEIGHT_RAMP);
        last.spend(Budget { bytes: 10 * GIB, time_ns: 1 });
        purse.put(last);
        assert_eq!(purse.used(), Budget { bytes: 25 * GIB, time_ns: 22 }, "it is said");
    }
}
