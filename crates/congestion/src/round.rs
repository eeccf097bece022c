//! What ended in one round, and the bases that latencies are compared with.

use crate::class::Class;

/// Latencies of a class that are kept of a round: all, or every second, fourth and so on.
const SAMPLES: usize = 32;

/// A latency that is this part above the base, and no more than this many seconds, is not taken for
/// a queue: hosts themselves take longer when they have more to do.
const TOLERATED: f64 = 0.25;
const TOLERATED_SHORT: f64 = 0.005;
/// Of bases longer than this, in seconds, this part of the rest is tolerated as well, and no more
/// than this many seconds of it.
const LONG: f64 = 0.050;
const TOLERATED_LONG: f64 = 1.0 / 6.0;
const TOLERATED_MORE: f64 = 0.009;

/// A class of RPCs that has occurred.
#[derive(Clone, Debug)]
struct Known {
    index: u8,
    /// Latency without a queue, in seconds; `None` until the end of its first round.
    base: Option<f64>,
    /// Whether that is known from a probe, and does not follow from the queue of other classes.
    is_measured: bool,
    /// RPCs of this round, and their bytes.
    count: u32,
    weight: f64,
    /// Latencies of this round, each of `stride` RPCs one.
    samples: Vec<f64>,
    stride: u32,
}

impl Known {
    fn new(index: u8) -> Known {
        Known {
            index,
            base: None,
            is_measured: false,
            count: 0,
            weight: 0.0,
            samples: Vec::new(),
            stride: 1,
        }
    }

    fn clear(&mut self) {
        (self.count, self.weight, self.stride) = (0, 0.0, 1);
        self.samples.clear();
    }

    fn add(&mut self, weight: f64, latency: f64) {
        if self.count.is_multiple_of(self.stride) {
            if self.samples.len() == SAMPLES {
                let mut at = 0..;
                self.samples.retain(|_| at.next().is_some_and(|at| at % 2 == 0));
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.samples.push(latency);
            }
        }
        self.count += 1;
        self.weight += weight;
    }

    /// The latency that a quarter of this round's RPCs did not exceed, if it had any. What all of
    /// them waited for is in it, and what one waited for behind a burst, or for a CPU, is not.
    fn latency(&mut self) -> Option<f64> {
        let at = self.samples.len() / 4;
        if self.samples.is_empty() {
            return None;
        }
        let (_, quartile, _) = self.samples.select_nth_unstable_by(at, f64::total_cmp);
        Some(*quartile)
    }
}

/// Sums over the RPCs that ended in a round. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    count: u32,
    /// Bytes.
    weight: f64,
    /// At most 112; few occur with one peer.
    classes: Vec<Known>,
}

/// How long RPCs took, and how long they take without a queue, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) now: f64,
    pub(crate) base: f64,
}

impl Latency {
    /// The base as a part of the latency: 1 without a queue or without RPCs.
    pub(crate) fn ratio(self) -> f64 {
        if self.now > 0.0 { self.base / self.now } else { 1.0 }
    }

    /// The part of the latency that is a queue beyond what is tolerated.
    pub(crate) fn excess(self) -> f64 {
        let tolerated = self.base + tolerated(self.base);
        if self.now > tolerated { 1.0 - tolerated / self.now } else { 0.0 }
    }
}

/// How much longer than this base, in seconds, is not taken for a queue. It depends on the base
/// alone, so that nodes with the same path tolerate the same, whatever their shares.
fn tolerated(base: f64) -> f64 {
    let more = (base - LONG).max(0.0) * TOLERATED_LONG;
    (base * TOLERATED).min(TOLERATED_SHORT) + more.min(TOLERATED_MORE)
}

impl Round {
    /// Begins again; bases stay.
    pub(crate) fn clear(&mut self) {
        (self.count, self.weight) = (0, 0.0);
        self.classes.iter_mut().for_each(Known::clear);
    }

    /// An RPC ended.
    pub(crate) fn add(&mut self, class: Class, latency: f64) {
        let at = self.classes.iter().position(|known| known.index == class.index());
        let at = at.unwrap_or_else(|| {
            self.classes.push(Known::new(class.index()));
            self.classes.len() - 1
        });
        let weight = class.weight() as f64;
        self.classes[at].add(weight, latency);
        self.count += 1;
        self.weight += weight;
    }

    /// RPCs that ended.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Their bytes.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// How long they took, in seconds; each byte of them counts as much.
    pub(crate) fn latency(&mut self) -> f64 {
        let of = |known: &mut Known| known.latency().map_or(0.0, |latency| known.weight * latency);
        self.classes.iter_mut().map(of).sum::<f64>() / self.weight.max(1.0)
    }

    /// The same, and how long they take without a queue. Bases become no more than was possible in
    /// this round. Classes that occurred for the first time have queued as the others did: `ratio`
    /// is the part of the latency that was no queue in the round before.
    pub(crate) fn latency_and_base(&mut self, ratio: f64) -> Latency {
        let (mut now, mut without) = (0.0, 0.0);
        for known in &mut self.classes {
            if let Some(latency) = known.latency() {
                let base = known.base.unwrap_or(latency * ratio).min(latency);
                known.base = Some(base);
                now += known.weight * latency;
                without += known.weight * base;
            }
        }
        let weight = self.weight.max(1.0);
        Latency { now: now / weight, base: without / weight }
    }

    /// Takes the latencies of this round as bases, each at most `most` times what it was. Classes
    /// that had no RPC in it have the same path, so they get the same change. Returns whether a
    /// latency was above its most.
    pub(crate) fn learn_bases(&mut self, most: f64) -> bool {
        let (mut sum, mut count, mut is_above) = (0.0, 0u32, false);
        for known in &mut self.classes {
            let Some(latency) = known.latency() else { continue };
            if let Some(base) = known.base {
                let learnt = latency.min(base * most);
                is_above |= learnt < latency;
                // What was wrong about a base that was not measured is no change of the path.
                if known.is_measured {
                    (sum, count) = (sum + learnt - base, count + 1);
                }
                known.base = Some(learnt);
            } else {
                known.base = Some(latency);
            }
            known.is_measured = true;
        }
        let change = sum / f64::from(count.max(1));
        for known in &mut self.classes {
            if let (None, Some(base)) = (known.latency(), &mut known.base) {
                *base = (*base + change).max(*base / 8.0);
            }
        }
        is_above
    }

    /// The bases of the RPCs of this round, in seconds; each byte of them counts as much.
    pub(crate) fn base(&self) -> f64 {
        let of = |known: &Known| known.base.map_or(0.0, |base| known.weight * base);
        self.classes.iter().map(of).sum::<f64>() / self.weight.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(round: &mut Round, before: f64) -> f64 {
        round.latency_and_base(before).ratio()
    }

    #[test]
    fn a_class_without_an_rpc_gets_the_change_of_the_others() {
        let (read, write) = (Class::new(1, 1 << 20), Class::new(2, 1 << 20));
        let mut round = Round::default();
        round.add(read, 0.050);
        round.add(write, 0.100);
        assert_eq!(ratio(&mut round, 1.0), 1.0);
        round.learn_bases(f64::MAX);
        round.clear();
        round.add(read, 0.060);
        round.learn_bases(f64::MAX);
        round.clear();
        round.add(write, 0.110);
        assert!((ratio(&mut round, 1.0) - 1.0).abs() < 1e-9, "{round:?}");
        round.clear();
        round.add(write, 0.220);
        assert!((ratio(&mut round, 1.0) - 0.5).abs() < 1e-9, "{round:?}");
    }

    /// Reads were taken for twice as long as they are: no reason to think so of writes.
    #[test]
    fn what_was_wrong_about_a_new_class_is_no_change_of_the_others() {
        let (read, write) = (Class::new(1, 1 << 20), Class::new(2, 1 << 20));
        let mut round = Round::default();
        round.add(write, 0.400);
        assert_eq!(ratio(&mut round, 1.0), 1.0);
        round.learn_bases(f64::MAX);
        round.clear();
        round.add(read, 0.400);
        assert_eq!(ratio(&mut round, 1.0), 1.0);
        round.clear();
        round.add(read, 0.200);
        round.learn_bases(f64::MAX);
        round.clear();
        round.add(write, 0.400);
        assert_eq!(ratio(&mut round, 1.0), 1.0);
    }

    #[test]
    fn what_a_busy_host_adds_is_no_queue() {
        let excess = |now, base| Latency { now, base }.excess();
        assert_eq!((excess(0.0124, 0.010), excess(0.0549, 0.050)), (0.0, 0.0));
        assert!((excess(0.025, 0.010) - 0.5).abs() < 1e-9);
        assert!((excess(0.110, 0.050) - 0.5).abs() < 1e-9);
        assert_eq!(excess(0.0, 0.0), 0.0);
    }

    #[test]
    fn a_longer_path_tolerates_no_less_and_no_more_than_a_quarter() {
        let mut before = 0.0;
        for base in (0..5000).map(|at| f64::from(at) * 1e-4) {
            let of = tolerated(base);
            assert!(of >= before && of <= base / 4.0 + 1e-9 && of < 0.0141, "{base}: {of}");
            before = of;
        }
        for (base, least, most) in [
            (0.02, 0.005, 0.005),
            (0.05, 0.005, 0.005),
            (0.08, 0.0099, 0.0101),
            (0.2, 0.0139, 0.0141),
        ] {
            assert!((least..=most).contains(&tolerated(base)), "{base}: {}", tolerated(base));
        }
    }

    #[test]
    fn a_base_grows_no_more_than_it_may() {
        let mut round = Round::default();
        round.add(Class::new(0, 0), 0.1);
        assert_eq!(ratio(&mut round, 1.0), 1.0);
        round.clear();
        round.add(Class::new(0, 0), 0.4);
        assert!(round.learn_bases(1.25));
        assert!((round.base() - 0.125).abs() < 1e-9, "{round:?}");
        assert!(!round.learn_bases(f64::MAX));
        assert!((round.base() - 0.4).abs() < 1e-9, "{round:?}");
    }

    #[test]
    fn a_new_class_has_queued_as_the_others() {
        let mut round = Round::default();
        round.add(Class::new(0, 0), 0.2);
        assert!((ratio(&mut round, 0.5) - 0.5).abs() < 1e-9);
        assert!((ratio(&mut round, 0.5) - 0.5).abs() < 1e-9, "a latency above does not raise it");
    }

    #[test]
    fn what_a_quarter_did_not_exceed_counts_however_many_there_are() {
        for count in [1u32, 4, 32, 33, 40, 1000, 5000] {
            let mut round = Round::default();
            // In an order that is not that of their size.
            for at in 0..count {
                round.add(Class::new(0, 0), f64::from(at * 7919 % count));
            }
            let (latency, quarter) = (round.latency(), f64::from(count / 4));
            let off = (latency - quarter).abs() / f64::from(count);
            assert!(off < 0.1, "{count}: {latency} is not {quarter}");
            assert!(round.classes[0].samples.len() <= SAMPLES, "{count}");
        }
    }
}
