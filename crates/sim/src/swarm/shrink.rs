//! Searches for smaller cases that fail as well.

use super::case::{Load, Role, SwarmCase, Transport, Wire};

/// Removes everything without which a case still fails: faults, the length of loads, partitions,
/// tunables, unusual values of links. `fails` says whether a case fails; it is called `tries` times
/// at most.
pub fn shrink(
    case: &SwarmCase,
    tries: u32,
    mut fails: impl FnMut(&SwarmCase) -> bool,
) -> SwarmCase {
    let mut best = case.clone();
    let mut left = tries;
    let mut attempt = |candidate: SwarmCase, best: &mut SwarmCase| {
        if left == 0 || candidate == *best {
            return false;
        }
        left -= 1;
        let smaller = fails(&candidate);
        if smaller {
            *best = candidate;
        }
        smaller
    };
    loop {
        let mut shrunk = false;
        // Many faults at once, then one by one.
        let mut part = best.faults.len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < best.faults.len() {
                let mut candidate = best.clone();
                let end = (at + part).min(candidate.faults.len());
                candidate.faults.drain(at..end);
                match attempt(candidate, &mut best) {
                    true => shrunk = true,
                    false => at += part,
                }
            }
            part /= 2;
        }
        for simplify in simplifications(&best) {
            let mut candidate = best.clone();
            simplify(&mut candidate);
            shrunk |= attempt(candidate, &mut best);
        }
        for node in 0..best.nodes.len() {
            for name in best.nodes[node].tunables.keys().cloned().collect::<Vec<_>>() {
                let mut candidate = best.clone();
                for node in &mut candidate.nodes {
                    node.tunables.remove(&name);
                }
                shrunk |= attempt(candidate, &mut best);
            }
        }
        if !shrunk {
            return best;
        }
    }
}

type Simplification = Box<dyn Fn(&mut SwarmCase)>;

/// Possible simplifications, one change each.
fn simplifications(case: &SwarmCase) -> Vec<Simplification> {
    let mut found: Vec<Simplification> = Vec::new();
    for away in (0..case.nodes.len()).rev() {
        found.push(Box::new(move |case| remove_node(case, away)));
    }
    found.push(Box::new(|case| {
        if case.sites.is_empty() {
            case.transport = Transport::Plain;
        }
    }));
    found.push(Box::new(|case| {
        let count = case.nodes.len();
        case.load_under_faults.truncate(count);
        case.load_after_recovery.truncate(count);
    }));
    found.push(Box::new(|case| case.nodes.iter_mut().for_each(|node| node.memory_mib = 0)));
    found.push(Box::new(leave_sites));
    for node in 0..case.nodes.len() {
        found.push(Box::new(move |case| {
            if let Some(node) = case.nodes.get_mut(node) {
                node.role = Role::Node;
            }
        }));
    }
    found.push(Box::new(|case| case.links.iter_mut().for_each(|link| link.extra_links = 0)));
    found.push(Box::new(|case| case.nodes.iter_mut().for_each(|node| node.cpts = 1)));
    found.push(Box::new(|case| case.nodes.iter_mut().for_each(|node| node.skew_us = 0)));
    found.push(Box::new(|case| case.links.iter_mut().for_each(|link| link.jitter_us = 0)));
    found.push(Box::new(|case| case.links.iter_mut().for_each(|link| link.call_max = None)));
    found.push(Box::new(|case| case.links.iter_mut().for_each(|link| link.loss_ppm = 0)));
    found.push(Box::new(|case| case.links.iter_mut().for_each(|link| link.latency_us = 100)));
    for index in 0..case.nodes.len() {
        for load_after_recovery in [false, true] {
            found.push(change_load(index, load_after_recovery, |load| load.concurrency = 1));
            found.push(change_load(index, load_after_recovery, |load| {
                load.count = load.count.div_ceil(2)
            }));
        }
    }
    found
}

fn change_load(index: usize, load_after_recovery: bool, change: fn(&mut Load)) -> Simplification {
    Box::new(move |case| {
        let loads = if load_after_recovery {
            &mut case.load_after_recovery
        } else {
            &mut case.load_under_faults
        };
        if let Some(load) = loads.get_mut(index) {
            change(load);
        }
    })
}

/// Whether each node has its own site, and a link to each other one.
fn leave_sites(case: &mut SwarmCase) {
    if case.sites.is_empty() {
        return;
    }
    case.sites.clear();
    let usual = case.links[0].clone();
    let count = case.nodes.len();
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |two| (one, two)));
    case.links = pairs.map(|between| Wire { between, extra_links: 0, ..usual.clone() }).collect();
}

/// At least two remain.
fn remove_node(case: &mut SwarmCase, away: usize) {
    if case.nodes.len() == 2 || away >= case.nodes.len() {
        return;
    }
    let nodes = case.nodes.len();
    case.nodes.remove(away);
    for loads in [&mut case.load_under_faults, &mut case.load_after_recovery] {
        // The last round first: the remaining loads belong to the same nodes as before.
        for round in (0..loads.len() / nodes).rev() {
            loads.remove(round * nodes + away);
        }
    }
    if !case.sites.is_empty() {
        // The site stays.
        case.sites.remove(away);
        return;
    }
    case.links.retain(|link| link.between.0 != away && link.between.1 != away);
    for link in &mut case.links {
        let moved = |place: usize| if place > away { place - 1 } else { place };
        link.between = (moved(link.between.0), moved(link.between.1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Fault;
    use super::super::generate;
    use super::*;

    /// Whether the case has what the hypothetical defect needs: a restart of node 0, and zero-copy.
    fn fails(case: &SwarmCase) -> bool {
        let restart = |fault: &Fault| matches!(fault, Fault::Restart { node: 0, .. });
        case.faults.iter().any(restart)
            && case.nodes.iter().any(|node| node.tunables.get("zero_copy") == Some(&1))
    }

    #[test]
    fn only_the_parts_that_matter_are_left() {
        let cases = (0..1000).map(generate).filter(fails).take(20);
        let mut count = 0;
        for case in cases {
            let small = shrink(&case, 2000, fails);
            assert!(fails(&small));
            assert_eq!((small.faults.len(), small.nodes.len()), (1, 2));
            let tunables = small.nodes.iter().flat_map(|node| node.tunables.keys());
            assert!(tunables.clone().all(|name| name == "zero_copy"), "{small:?}");
            assert!(
                small.load_under_faults.iter().all(|load| load.concurrency == 1 && load.count == 1)
            );
            count += 1;
        }
        assert_eq!(count, 20);
    }

    #[test]
    fn a_removed_node_loses_all_its_loads() {
        let case = (0..1000).map(generate).find(|case| {
            case.nodes.len() > 2 && case.load_under_faults.len() == 2 * case.nodes.len()
        });
        let case = case.expect("a third of the adversarial cases");
        let nodes = case.nodes.len();
        let mut smaller = case.clone();
        remove_node(&mut smaller, 1);
        let mut left = case.load_under_faults.clone();
        left.remove(nodes + 1);
        left.remove(1);
        assert_eq!(smaller.load_under_faults, left);
        assert_eq!(smaller.load_after_recovery.len() % (nodes - 1), 0);
    }

    #[test]
    fn fails_is_called_no_more_than_the_permitted_number_of_times() {
        let mut asked = 0;
        let always = |_: &SwarmCase| {
            asked += 1;
            true
        };
        shrink(&generate(3), 7, always);
        assert_eq!(asked, 7);
    }
}
