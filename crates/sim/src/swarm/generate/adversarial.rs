//! Cases with values from the whole ranges of all tunables.

use std::collections::BTreeMap;

use lustrine_lnet::tunables::Tunable;
use lustrine_partition::tunables::TABLE;

use super::{fault, load, wire};
use crate::rng::Rng;
use crate::swarm::case::{Expectation, Fault, HashBy, Node, Role, SwarmCase, Transport, Wire};

/// Tunables on which nodes must agree to connect at all; sometimes they do not.
const COMMON: [&str; 2] = ["accept_port", "accept_port_bulk"];

/// An adversarial case.
pub(super) fn generate(rng: &mut Rng) -> SwarmCase {
    let transport =
        *rng.pick(&[Transport::Plain, Transport::Cubic, Transport::Cubic, Transport::Bbr]);
    let count = rng.between(2, 8) as usize;
    let long = rng.chance(1, 3);
    // With all tunables at unusual values hardly anything happens; with few of them, more does.
    let share = *rng.pick(&[1, 1, 2, 4, 8]);
    let base = tunables(rng, share);
    let strangers = rng.chance(1, 3);
    let nodes: Vec<Node> = (1..=count)
        .map(|number| {
            let own = rng.chance(1, 2);
            let mut tunables = if own { tunables(rng, share) } else { base.clone() };
            if rng.chance(19, 20) {
                for name in COMMON {
                    tunables.remove(name);
                    tunables.extend(
                        base.get_key_value(name).map(|(name, value)| (name.clone(), *value)),
                    );
                }
            }
            Node {
                nid: match long {
                    true => format!("fd77::{number}@tcp"),
                    false => format!("10.1.0.{number}@tcp"),
                },
                role: match strangers {
                    true => *rng.pick(&[Role::Node, Role::Host, Role::Host, Role::Userland]),
                    false => Role::Node,
                },
                memory_mib: *rng.pick(&[0, 0, 0, 0, 0, 1, 2, 5, 20]),
                cpts: *rng.pick(&[1, 1, 1, 2, 3, 8]),
                skew_us: *rng.pick(&[0, 0, 20, 3000, 1_000_000]),
                tunables,
            }
        })
        .collect();
    let (sites, links) = map(rng, transport, count);
    // Sometimes each node loads two others.
    let loads = *rng.pick(&[1, 1, 2]) * count;
    let load_under_faults = (0..loads).map(|_| load(rng, 60)).collect();
    let faults = (0..rng.below(20)).map(|_| wild_trouble(rng, count)).collect();
    let load_after_recovery = (0..loads).map(|_| load(rng, 20)).collect();
    SwarmCase {
        seed: rng.draw(),
        expect: Expectation::Safety,
        transport,
        nodes,
        sites,
        links,
        load_under_faults,
        faults,
        load_after_recovery,
    }
}

/// Sites with their links, none of them unreachable; or a link between each two nodes.
fn map(rng: &mut Rng, transport: Transport, nodes: usize) -> (Vec<usize>, Vec<Wire>) {
    let pairs =
        |count: usize| (0..count).flat_map(move |one| (one + 1..count).map(move |two| (one, two)));
    if transport == Transport::Plain || rng.chance(1, 3) {
        return (Vec::new(), pairs(nodes).map(|between| wild_wire(rng, between)).collect());
    }
    let count = rng.between(1, nodes.min(4) as u64) as usize;
    let sites = (0..nodes)
        .map(|node| match node < count {
            true => node,
            false => rng.below(count as u64) as usize,
        })
        .collect();
    let mut links = Vec::new();
    for between in pairs(count) {
        // Each site is linked to the one before, and to some others.
        if between.1 == between.0 + 1 || rng.chance(1, 3) {
            links.push(way(rng, between));
        }
    }
    if links.is_empty() {
        links.push(wild_wire(rng, (0, 0)));
    }
    (sites, links)
}

fn way(rng: &mut Rng, between: (usize, usize)) -> Wire {
    Wire {
        extra_links: *rng.pick(&[0, 0, 1, 3]),
        hash_by: *rng.pick(&[HashBy::Streams, HashBy::Hosts]),
        ..wild_wire(rng, between)
    }
}

/// One of four values is far from any realistic one.
fn wild_wire(rng: &mut Rng, between: (usize, usize)) -> Wire {
    let usual = wire(rng, between);
    if rng.chance(3, 4) {
        return usual;
    }
    Wire {
        latency_us: 10_u64.pow(rng.between(0, 6) as u32),
        jitter_us: 10_u64.pow(rng.between(0, 6) as u32),
        window: 1 << rng.between(10, 24),
        megabits: 10_u64.pow(rng.between(0, 5) as u32),
        queue: 1 << rng.between(14, 26),
        loss_ppm: 10_u32.pow(rng.between(0, 5) as u32),
        ..usual
    }
}

fn wild_trouble(rng: &mut Rng, nodes: usize) -> Fault {
    let (after_ms, link) = (rng.below(2000), rng.below(8) as usize);
    match rng.below(6) {
        0 => Fault::Cut { after_ms, link },
        1 => Fault::Splice { after_ms, link },
        _ => fault(rng, nodes),
    }
}

/// Of eight tunables about `share` have an unusual value, the others their defaults.
fn tunables(rng: &mut Rng, share: u64) -> BTreeMap<String, i64> {
    let odd = TABLE.iter().filter_map(|row| {
        let value = value(rng, row);
        rng.chance(share, 8).then(|| (row.name.to_owned(), value))
    });
    odd.collect()
}

/// A value from the whole range of a tunable. The ends are frequent, and all orders of magnitude
/// are equally frequent.
fn value(rng: &mut Rng, row: &Tunable) -> i64 {
    let width = row.max.abs_diff(row.min);
    if rng.chance(1, 4) {
        return *rng.pick(&[row.min, row.min, row.min.saturating_add(1).min(row.max), row.max]);
    }
    let bits = u64::from(width.checked_ilog2().unwrap_or(0)) + 1;
    let bits = rng.between(1, bits) as u32;
    let above = rng.below(1_u64.checked_shl(bits).unwrap_or(u64::MAX));
    row.min.saturating_add_unsigned(above.min(width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_drawn_from_the_whole_of_every_range() {
        let rng = &mut Rng::new(1);
        for row in TABLE {
            let values: Vec<i64> = (0..3000).map(|_| value(rng, row)).collect();
            assert!(values.iter().all(|value| (row.min..=row.max).contains(value)), "{}", row.name);
            assert!(values.contains(&row.min) && values.contains(&row.max), "{}", row.name);
            // Each half of the range, and each order of magnitude.
            let middle = row.min + (row.max - row.min) / 2;
            assert!(
                values.iter().any(|value| *value < row.max && *value > middle)
                    || row.max - row.min < 2
            );
            let mut low = 1;
            while row.min + 2 * low < row.max {
                let there = (row.min + low)..=(row.min + 2 * low);
                assert!(values.iter().any(|value| there.contains(value)), "{} {low}", row.name);
                low *= 2;
            }
        }
    }

    #[test]
    fn every_drawn_value_can_be_set() {
        let rng = &mut Rng::new(2);
        for _ in 0..100 {
            let mut set = lustrine_partition::tunables::Tunables::default();
            for (name, value) in tunables(rng, 8) {
                set.set(&name, value).unwrap();
            }
        }
    }
}
