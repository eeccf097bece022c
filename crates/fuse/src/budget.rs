//! A limit on the data of reads and writes that are in flight, fair between targets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Most bytes in flight: a quarter of the memory of a node without selftest, because descriptors
/// are rounded up, and the servers' requests need some too.
pub(crate) const LIMIT: u64 = 64 << 20;

/// What operations on targets that do not answer leave to others.
const RESERVE: u64 = LIMIT / 4;

/// Bytes that operations hold in the node's memory, and the operations that wait for some.
///
/// A target is charged with all bytes of the operations that can wait for it. It gets up to half of
/// what is left by all, and one operation in any case, so that a target that gives nothing back
/// leaves room for the others. Targets that are not connected leave a quarter of the limit to those
/// that are. The operations of a target start in their order.
pub(crate) struct Budget<T, J> {
    used: u64,
    by_target: BTreeMap<T, u64>,
    /// Operations that wait, in their order, by the targets that they are charged to.
    waiting: BTreeMap<Targets<T>, VecDeque<Waiting<J>>>,
    /// The first one of each such queue, by its number.
    heads: BTreeMap<u64, Targets<T>>,
    arrivals: u64,
}

/// The targets that an operation is charged to, each once.
type Targets<T> = Arc<[T]>;

struct Waiting<J> {
    number: u64,
    bytes: u64,
    job: J,
}

/// What an operation holds. It is to be given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Charge<T> {
    bytes: u64,
    targets: Targets<T>,
}

/// Why an operation cannot start.
enum Refusal<T> {
    /// There is no room for it, whatever its targets are.
    Full,
    /// These of its targets have used their share.
    Targets(Vec<T>),
}

impl<T, J> Default for Budget<T, J> {
    fn default() -> Budget<T, J> {
        Budget {
            used: 0,
            by_target: BTreeMap::new(),
            waiting: BTreeMap::new(),
            heads: BTreeMap::new(),
            arrivals: 0,
        }
    }
}

impl<T: Ord + Copy, J> Budget<T, J> {
    /// An operation arrives. It waits until [`Budget::ready`] gives it.
    pub(crate) fn add(&mut self, bytes: u64, targets: Vec<T>, job: J) {
        self.arrivals += 1;
        let number = self.arrivals;
        let targets: Targets<T> = targets.into();
        let queue = self.waiting.entry(Arc::clone(&targets)).or_default();
        if queue.is_empty() {
            self.heads.insert(number, targets);
        }
        queue.push_back(Waiting { number, bytes, job });
    }

    /// The operations that may start now, each with what it holds. `connected` says whether a
    /// target answers.
    pub(crate) fn ready(&mut self, connected: impl Fn(T) -> bool) -> Vec<(J, Charge<T>)> {
        let mut ready = Vec::new();
        // Targets for which an operation waits that may not be overtaken.
        let mut claimed = BTreeSet::new();
        let mut from = 0;
        while let Some((number, targets)) = self.heads.range(from..).next() {
            let (number, targets) = (*number, Arc::clone(targets));
            from = number + 1;
            if targets.iter().any(|target| claimed.contains(target)) {
                continue;
            }
            let Some(queue) = self.waiting.get(&targets) else { break };
            let Some(bytes) = queue.front().map(|waiting| waiting.bytes) else { break };
            match self.check(bytes, &targets, &connected) {
                Ok(()) => ready.extend(self.start(number, targets)),
                Err(Refusal::Full) => break,
                Err(Refusal::Targets(full)) => claimed.extend(full),
            }
        }
        ready
    }

    /// An operation is over. Others may be ready then.
    pub(crate) fn give(&mut self, charge: Charge<T>) {
        self.used -= charge.bytes;
        for target in charge.targets.iter() {
            self.uncharge(*target, charge.bytes);
        }
    }

    /// An operation that is in flight turns out to need other targets. They may exceed their share
    /// by it.
    pub(crate) fn recharge(&mut self, charge: &mut Charge<T>, targets: Vec<T>) {
        for target in charge.targets.iter() {
            self.uncharge(*target, charge.bytes);
        }
        charge.targets = targets.into();
        for target in charge.targets.iter() {
            *self.by_target.entry(*target).or_default() += charge.bytes;
        }
    }

    /// Whether any operation waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.heads.is_empty()
    }

    fn check(
        &self,
        bytes: u64,
        targets: &[T],
        connected: &impl Fn(T) -> bool,
    ) -> Result<(), Refusal<T>> {
        if self.used == 0 {
            return Ok(());
        }
        let left = LIMIT.saturating_sub(self.used);
        if bytes > left {
            return Err(Refusal::Full);
        }
        let refuses = |target: &&T| {
            let used = self.by_target.get(*target).copied().unwrap_or(0);
            let exceeds_share = used > 0 && used.saturating_add(bytes) > left / 2;
            exceeds_share || left - bytes < RESERVE && !connected(**target)
        };
        let full: Vec<T> = targets.iter().filter(refuses).copied().collect();
        if full.is_empty() { Ok(()) } else { Err(Refusal::Targets(full)) }
    }

    /// Takes the first operation of a queue.
    fn start(&mut self, number: u64, targets: Targets<T>) -> Option<(J, Charge<T>)> {
        self.heads.remove(&number);
        let queue = self.waiting.get_mut(&targets)?;
        let Waiting { bytes, job, .. } = queue.pop_front()?;
        match queue.front() {
            Some(next) => {
                self.heads.insert(next.number, Arc::clone(&targets));
            }
            None => {
                self.waiting.remove(&targets);
            }
        }
        self.used += bytes;
        for target in targets.iter() {
            *self.by_target.entry(*target).or_default() += bytes;
        }
        Some((job, Charge { bytes, targets }))
    }

    fn uncharge(&mut self, target: T, bytes: u64) {
        if let Some(used) = self.by_target.get_mut(&target) {
            *used -= bytes;
            if *used == 0 {
                self.by_target.remove(&target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A mount in which operations of 1 MiB are started, and never given back by targets that are
    /// dead. The job of an operation is its number.
    #[derive(Default)]
    struct Model {
        budget: Budget<u32, u32>,
        last: u32,
        /// Targets that give nothing back.
        dead: BTreeSet<u32>,
        /// Those of them that are known not to be connected.
        known: BTreeSet<u32>,
        in_flight: Vec<(u32, Charge<u32>)>,
        done: BTreeSet<u32>,
    }

    impl Model {
        fn add(&mut self, bytes: u64, targets: &[u32]) -> u32 {
            self.last += 1;
            self.budget.add(bytes, targets.to_vec(), self.last);
            self.settle();
            self.last
        }

        fn settle(&mut self) {
            let ready = self.budget.ready(|target| !self.known.contains(&target));
            self.in_flight.extend(ready);
            assert!(self.budget.used <= LIMIT, "{}", self.budget.used);
        }

        /// Has all operations answered that wait for no dead target, until there are none.
        fn run(&mut self) {
            loop {
                let dead = &self.dead;
                let over = |(_, charge): &(u32, Charge<u32>)| {
                    !charge.targets.iter().any(|target| dead.contains(target))
                };
                let Some(at) = self.in_flight.iter().position(over) else { return };
                let (job, charge) = self.in_flight.remove(at);
                self.done.insert(job);
                self.budget.give(charge);
                self.settle();
            }
        }

        fn is_done(&mut self, job: u32) -> bool {
            self.run();
            self.done.contains(&job)
        }
    }

    #[test]
    fn operations_of_one_target_start_in_their_order() {
        let mut model = Model::default();
        for _ in 0..100 {
            model.add(MIB, &[1]);
        }
        // Half of what they leave.
        assert_eq!(model.in_flight.len(), 21);
        let large = model.add(20 * MIB, &[1]);
        let small = model.add(1, &[1]);
        assert!(!model.in_flight.iter().any(|(job, _)| [large, small].contains(job)));
        assert!(model.is_done(large) && model.is_done(small));
        assert_eq!(model.done.len(), 102);
        assert_eq!((model.budget.used, model.budget.by_target.len()), (0, 0));
        assert!(!model.budget.is_waited_for() && model.budget.waiting.is_empty());
    }

    #[test]
    fn one_that_is_larger_than_the_limit_starts_alone() {
        let mut budget = Budget::default();
        budget.add(LIMIT + 1, vec![1], "large");
        budget.add(1, vec![2], "small");
        let (job, charge) = budget.ready(|_| true).pop().expect("it is ready");
        assert_eq!(job, "large");
        assert!(budget.ready(|_| true).is_empty());
        budget.give(charge);
        assert_eq!(budget.ready(|_| true).len(), 1);
    }

    #[test]
    fn a_dead_target_does_not_hold_up_others() {
        for known in [false, true] {
            let mut model = Model { dead: BTreeSet::from([1]), ..Model::default() };
            if known {
                model.known = model.dead.clone();
            }
            for round in 0..1000 {
                model.add(MIB, &[1]);
                let other = model.add(MIB, &[2 + round % 3]);
                assert!(model.is_done(other), "round {round}");
            }
            // Nor do operations on files with objects on both.
            for _ in 0..100 {
                model.add(MIB, &[1, 2]);
            }
            let other = model.add(MIB, &[2]);
            assert!(model.is_done(other));
            assert_eq!(model.done.len(), 1001);
            model.dead.clear();
            model.known.clear();
            model.settle();
            model.run();
            assert_eq!((model.done.len(), model.budget.used), (2101, 0));
        }
    }

    #[test]
    fn any_number_of_targets_that_are_not_connected_leaves_room() {
        let mut model = Model { dead: (100..400).collect(), ..Model::default() };
        model.known = model.dead.clone();
        for round in 0..5 {
            for dead in 100..400 {
                model.add(MIB, &[dead]);
            }
            let others: Vec<u32> = (0..100).map(|target| model.add(MIB, &[target])).collect();
            assert!(others.into_iter().all(|other| model.is_done(other)), "round {round}");
        }
        assert_eq!(model.budget.used, LIMIT - RESERVE);
    }

    #[test]
    fn the_target_that_is_left_when_all_others_die_goes_on() {
        for targets in [2, 10, 50] {
            let mut model = Model::default();
            let mut own = BTreeSet::new();
            for _ in 0..100 {
                for target in 0..targets {
                    let job = model.add(MIB, &[target]);
                    if target == 0 {
                        own.insert(job);
                    }
                }
            }
            model.dead = (1..targets).collect();
            model.known = model.dead.clone();
            model.run();
            assert!(own.is_subset(&model.done), "{targets} targets");
        }
    }

    /// Of a file that has objects on two targets, one of which is busy all the time.
    #[test]
    fn operations_on_several_targets_are_not_overtaken_without_end() {
        let mut model = Model::default();
        for _ in 0..60 {
            model.add(MIB, &[1]);
        }
        let both = model.add(MIB, &[1, 2]);
        let mut rounds = 0;
        while !model.done.contains(&both) {
            model.add(MIB, &[1]);
            let (job, charge) = model.in_flight.remove(0);
            model.done.insert(job);
            model.budget.give(charge);
            model.settle();
            rounds += 1;
            assert!(rounds < 200);
        }
    }

    #[test]
    fn an_operation_that_gets_other_targets_is_charged_to_them() {
        let mut model = Model { dead: BTreeSet::from([2]), ..Model::default() };
        for _ in 0..30 {
            model.add(MIB, &[1]);
            let Some((_, charge)) = model.in_flight.last_mut() else { continue };
            model.budget.recharge(charge, vec![2]);
        }
        assert!(model.budget.by_target[&2] > 20 * MIB);
        // What hangs on the dead target is not in the way of the first one.
        let other = model.add(MIB, &[1]);
        assert!(model.is_done(other));
    }
}
