//! Generates the case of a seed.

mod adversarial;
mod demand;

use std::collections::BTreeMap;

use super::case::{
    Expectation, Fault, HashBy, Load, Node, Role, SwarmCase, TestKind, Transport, Wire,
};
use crate::rng::Rng;
use crate::simulation::StopKind;

/// Every n-th seed is an adversarial run.
const ADVERSARIAL_EVERY: u64 = 3;

/// The case of a seed, which is always the same. Two of three cases expect that all operations
/// succeed after the faults; in the third kind the tunables have any values in their ranges, and
/// only safety is required.
pub fn generate(seed: u64) -> SwarmCase {
    let rng = &mut Rng::new(seed);
    if seed % ADVERSARIAL_EVERY == ADVERSARIAL_EVERY - 1 {
        adversarial::generate(rng)
    } else {
        load_after_recovery(rng)
    }
}

/// A case in which all operations must succeed after the faults.
fn load_after_recovery(rng: &mut Rng) -> SwarmCase {
    let transport =
        *rng.pick(&[Transport::Plain, Transport::Plain, Transport::Cubic, Transport::Bbr]);
    let count = rng.between(2, 4) as usize;
    let long = rng.chance(1, 3);
    let base = tunables(rng);
    let nodes: Vec<Node> = (1..=count)
        .map(|number| Node {
            nid: match long {
                true => format!("fd77::{number}@tcp"),
                false => format!("10.1.0.{number}@tcp"),
            },
            role: Role::Node,
            memory_mib: 0,
            cpts: *rng.pick(&[1, 1, 1, 2, 3]),
            skew_us: *rng.pick(&[0, 0, 20, 3000]),
            // Nodes need not have the same tunables.
            tunables: if rng.chance(1, 3) { tunables(rng) } else { base.clone() },
        })
        .collect();
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |two| (one, two)));
    let links = pairs.map(|between| wire(rng, between)).collect();
    let load_under_faults = (0..count).map(|_| load(rng, 200)).collect();
    let faults = (0..rng.below(20)).map(|_| fault(rng, count)).collect();
    let load_after_recovery = (0..count).map(|_| load(rng, 40)).collect();
    let expect = Expectation::Recovery;
    let mut case = SwarmCase {
        seed: rng.draw(),
        expect,
        transport,
        nodes,
        sites: Vec::new(),
        links,
        load_under_faults,
        faults,
        load_after_recovery,
    };
    demand::limit(&mut case);
    case
}

fn wire(rng: &mut Rng, between: (usize, usize)) -> Wire {
    Wire {
        between,
        latency_us: 10_u64.pow(rng.between(1, 4) as u32),
        jitter_us: rng.below(2000),
        window: 1 << rng.between(15, 21),
        call_max: match rng.below(3) {
            0 => None,
            1 => Some(0),
            _ => Some(1 << rng.between(10, 16)),
        },
        megabits: *rng.pick(&[100, 1000, 10_000, 100_000]),
        queue: 1 << rng.between(17, 23),
        loss_ppm: *rng.pick(&[0, 0, 10, 1000]),
        extra_links: 0,
        hash_by: HashBy::Streams,
    }
}

/// Values with which all operations must succeed when there are no more faults.
fn tunables(rng: &mut Rng) -> BTreeMap<String, i64> {
    let peer_credits = rng.between(1, 32);
    let values = [
        ("peer_credits", peer_credits),
        ("credits", rng.between(peer_credits, 256)),
        ("conns_per_peer", rng.between(1, 3)),
        ("min_bulk", *rng.pick(&[0, 100, 1024, 65_536])),
        ("zero_copy", rng.below(2)),
        ("zc_min_payload", *rng.pick(&[2048, 16_384, 100_000])),
        ("discovery", rng.below(2)),
        ("protocol", *rng.pick(&[0, 0, 0, 1, 2, 3, 4])),
        ("enable_csum", rng.below(2)),
        ("keepalive", rng.below(10)),
        ("sock_timeout", rng.between(3, 20)),
        ("min_reconnectms", rng.between(50, 1000)),
        ("max_reconnectms", rng.between(1000, 5000)),
        ("transaction_timeout", rng.between(10, 60)),
        ("rpc_timeout", rng.between(40, 64)),
        ("selftest_memory", rng.between(32, 256)),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value as i64)).collect()
}

fn load(rng: &mut Rng, count: u64) -> Load {
    let bytes = match rng.below(4) {
        0 => 8 * rng.between(1, 512) as u32,
        1 if rng.chance(1, 2) => 1 << 20,
        _ => 4096 * rng.between(1, 40) as u32,
    };
    let what = *rng.pick(&[TestKind::Ping, TestKind::Read, TestKind::Write]);
    Load {
        what,
        bytes: if what == TestKind::Ping { 0 } else { bytes },
        full_check: rng.chance(2, 3),
        concurrency: rng.between(1, 16) as u32,
        count,
    }
}

fn fault(rng: &mut Rng, nodes: usize) -> Fault {
    let after_ms = rng.below(2000);
    let node = rng.below(nodes as u64) as usize;
    let between = (node, rng.below(nodes as u64) as usize);
    match rng.below(15) {
        0..=3 => Fault::Break { after_ms, node, stream: rng.below(64) },
        4 | 5 => Fault::Sever { after_ms, between },
        6 | 7 => Fault::Restore { after_ms, between },
        8 => Fault::Refuse { after_ms, node },
        9 => Fault::Admit { after_ms, node },
        10 | 11 => Fault::LoseDials { after_ms, from_to: between },
        12 => Fault::PassDials { after_ms, from_to: between },
        _ => {
            let stop_kind = *rng.pick(&[StopKind::Crash, StopKind::Silence, StopKind::Orderly]);
            Fault::Restart { after_ms, node, stop_kind, away_ms: rng.below(3000) }
        }
    }
}
