//! Searches for smaller plans that fail as well.

use super::plan::{Load, Role, SwarmPlan, Transport, Wire};

/// Removes everything without which a plan still fails: faults, the length of loads, partitions,
/// tunables, unusual values of links. `fails` says whether a plan fails; it is called `tries` times
/// at most.
pub fn shrink(
    plan: &SwarmPlan,
    tries: u32,
    mut fails: impl FnMut(&SwarmPlan) -> bool,
) -> SwarmPlan {
    let mut best = plan.clone();
    let mut left = tries;
    let mut attempt = |candidate: SwarmPlan, best: &mut SwarmPlan| {
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

type Simplification = Box<dyn Fn(&mut SwarmPlan)>;

/// Possible simplifications, one change each.
fn simplifications(plan: &SwarmPlan) -> Vec<Simplification> {
    let mut found: Vec<Simplification> = Vec::new();
    for away in (0..plan.nodes.len()).rev() {
        found.push(Box::new(move |plan| remove_node(plan, away)));
    }
    found.push(Box::new(|plan| {
        if plan.sites.is_empty() {
            plan.transport = Transport::Plain;
        }
    }));
    found.push(Box::new(|plan| {
        let count = plan.nodes.len();
        plan.load_under_faults.truncate(count);
        plan.load_after_recovery.truncate(count);
    }));
    found.push(Box::new(|plan| plan.nodes.iter_mut().for_each(|node| node.memory_mib = 0)));
    found.push(Box::new(leave_sites));
    for node in 0..plan.nodes.len() {
        found.push(Box::new(move |plan| {
            if let Some(node) = plan.nodes.get_mut(node) {
                node.role = Role::Node;
            }
        }));
    }
    found.push(Box::new(|plan| plan.links.iter_mut().for_each(|link| link.extra_links = 0)));
    found.push(Box::new(|plan| plan.nodes.iter_mut().for_each(|node| node.cpts = 1)));
    found.push(Box::new(|plan| plan.nodes.iter_mut().for_each(|node| node.skew_us = 0)));
    found.push(Box::new(|plan| plan.links.iter_mut().for_each(|link| link.jitter_us = 0)));
    found.push(Box::new(|plan| plan.links.iter_mut().for_each(|link| link.call_max = None)));
    found.push(Box::new(|plan| plan.links.iter_mut().for_each(|link| link.loss_ppm = 0)));
    found.push(Box::new(|plan| plan.links.iter_mut().for_each(|link| link.latency_us = 100)));
    for index in 0..plan.nodes.len() {
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
    Box::new(move |plan| {
        let loads = if load_after_recovery {
            &mut plan.load_after_recovery
        } else {
            &mut plan.load_under_faults
        };
        if let Some(load) = loads.get_mut(index) {
            change(load);
        }
    })
}

/// Whether each node has its own site, and a link to each other one.
fn leave_sites(plan: &mut SwarmPlan) {
    if plan.sites.is_empty() {
        return;
    }
    plan.sites.clear();
    let usual = plan.links[0].clone();
    let count = plan.nodes.len();
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |two| (one, two)));
    plan.links = pairs.map(|between| Wire { between, extra_links: 0, ..usual.clone() }).collect();
}

/// At least two remain.
fn remove_node(plan: &mut SwarmPlan, away: usize) {
    if plan.nodes.len() == 2 || away >= plan.nodes.len() {
        return;
    }
    let nodes = plan.nodes.len();
    plan.nodes.remove(away);
    for loads in [&mut plan.load_under_faults, &mut plan.load_after_recovery] {
        // The last round first: the remaining loads belong to the same nodes as before.
        for round in (0..loads.len() / nodes).rev() {
            loads.remove(round * nodes + away);
        }
    }
    if !plan.sites.is_empty() {
        // The site stays.
        plan.sites.remove(away);
        return;
    }
    plan.links.retain(|link| link.between.0 != away && link.between.1 != away);
    for link in &mut plan.links {
        let moved = |place: usize| if place > away { place - 1 } else { place };
        link.between = (moved(link.between.0), moved(link.between.1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::super::plan::Fault;
    use super::*;

    /// Whether the plan has what the hypothetical defect needs: a restart of node 0, and zero-copy.
    fn fails(plan: &SwarmPlan) -> bool {
        let restart = |fault: &Fault| matches!(fault, Fault::Restart { node: 0, .. });
        plan.faults.iter().any(restart)
            && plan.nodes.iter().any(|node| node.tunables.get("zero_copy") == Some(&1))
    }

    #[test]
    fn only_the_parts_that_matter_are_left() {
        let plans = (0..1000).map(generate).filter(fails).take(20);
        let mut count = 0;
        for plan in plans {
            let small = shrink(&plan, 2000, fails);
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
        let plan = (0..1000).map(generate).find(|plan| {
            plan.nodes.len() > 2 && plan.load_under_faults.len() == 2 * plan.nodes.len()
        });
        let plan = plan.expect("a third of the adversarial plans");
        let nodes = plan.nodes.len();
        let mut smaller = plan.clone();
        remove_node(&mut smaller, 1);
        let mut left = plan.load_under_faults.clone();
        left.remove(nodes + 1);
        left.remove(1);
        assert_eq!(smaller.load_under_faults, left);
        assert_eq!(smaller.load_after_recovery.len() % (nodes - 1), 0);
    }

    #[test]
    fn fails_is_called_no_more_than_the_permitted_number_of_times() {
        let mut asked = 0;
        let always = |_: &SwarmPlan| {
            asked += 1;
            true
        };
        shrink(&generate(3), 7, always);
        assert_eq!(asked, 7);
    }
}
