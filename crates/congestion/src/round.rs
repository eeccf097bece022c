//! What ended in one round, and the bases that latencies are compared with.

use crate::class::Class;

/// A class of RPCs that has occurred.
#[derive(Clone, Debug)]
struct Known {
    index: u8,
    /// Latency without a queue, in seconds.
    base: f64,
    /// Latencies of this round.
    sum: f64,
    count: u32,
}

impl Known {
    /// The mean latency of this round, if it had RPCs.
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Sums over the RPCs that ended in a round. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    count: u32,
    /// Bytes.
    weight: f64,
    /// Bytes x latency, and bytes x base.
    latency: f64,
    base: f64,
    /// At most 112; few occur with one peer.
    classes: Vec<Known>,
}

impl Round {
    /// Begins again; bases stay.
    pub(crate) fn clear(&mut self) {
        (self.count, self.weight, self.latency, self.base) = (0, 0.0, 0.0, 0.0);
        for known in &mut self.classes {
            (known.sum, known.count) = (0.0, 0);
        }
    }

    /// An RPC ended. If it is the first of its class, it has queued as the others did: `ratio` is
    /// the part of their latency that was not queueing.
    pub(crate) fn add(&mut self, class: Class, latency: f64, ratio: f64) {
        let at = self.classes.iter().position(|known| known.index == class.index());
        let at = at.unwrap_or_else(|| {
            let base = latency * ratio;
            self.classes.push(Known { index: class.index(), base, sum: 0.0, count: 0 });
            self.classes.len() - 1
        });
        let known = &mut self.classes[at];
        known.sum += latency;
        known.count += 1;
        let weight = class.weight() as f64;
        self.count += 1;
        self.weight += weight;
        self.latency += weight * latency;
        self.base += weight * known.base;
    }

    /// RPCs that ended.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Their bytes.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// Their mean latency.
    pub(crate) fn mean_latency(&self) -> f64 {
        self.latency / self.weight.max(1.0)
    }

    /// The part of the latency that is not queueing: 1 without a queue or without RPCs.
    pub(crate) fn ratio(&self) -> f64 {
        if self.latency > 0.0 { (self.base / self.latency).min(1.0) } else { 1.0 }
    }

    /// Lowers bases to what this round needed in the mean: that was possible without a queue.
    pub(crate) fn lower_bases(&mut self) {
        for known in &mut self.classes {
            known.base = known.mean().map_or(known.base, |mean| known.base.min(mean));
        }
    }

    /// Takes the latencies of this round as bases. Classes that had no RPC in it have the same
    /// path, so they get the same change.
    pub(crate) fn learn_bases(&mut self) {
        let changes = self.classes.iter().filter_map(|known| Some(known.mean()? - known.base));
        let (sum, count) = changes.fold((0.0, 0u32), |(sum, n), change| (sum + change, n + 1));
        let change = sum / f64::from(count.max(1));
        for known in &mut self.classes {
            known.base =
                known.mean().unwrap_or_else(|| (known.base + change).max(known.base / 8.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_an_rpc_gets_the_change_of_the_others() {
        let (read, write) = (Class::new(1, 1 << 20), Class::new(2, 1 << 20));
        let mut round = Round::default();
        round.add(read, 0.050, 1.0);
        round.add(write, 0.100, 1.0);
        round.clear();
        round.add(read, 0.060, 1.0);
        round.learn_bases();
        round.clear();
        round.add(write, 0.110, 1.0);
        assert!((round.ratio() - 1.0).abs() < 1e-9, "{}", round.ratio());
        round.add(write, 0.220, 1.0);
        assert!((round.ratio() - 2.0 / 3.0).abs() < 1e-9, "{}", round.ratio());
    }

    #[test]
    fn a_new_class_has_queued_as_the_others() {
        let mut round = Round::default();
        round.add(Class::new(0, 0), 0.2, 0.5);
        assert!((round.ratio() - 0.5).abs() < 1e-9);
        round.lower_bases();
        assert!((round.ratio() - 0.5).abs() < 1e-9, "a mean above the base does not raise it");
    }
}
