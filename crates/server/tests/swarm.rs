//! Random runs: see `faults/mod.rs`. `cargo run --release -p lustrine-server --example swarm` runs
//! many.

mod faults;
mod world;

use faults::Caches;

/// Seeds that once failed.
const FAILED: [u64; 17] =
    [78, 103, 106, 113, 161, 199, 222, 241, 335, 865, 1565, 1648, 3014, 6191, 6880, 11639, 19150];

/// Seeds that failed when clients that can be evicted had caches.
const FAILED_WITH_CACHES: [u64; 4] = [1881, 2250, 4073, 22851];

/// A bounded number of seeds.
#[test]
fn clients_survive_what_happens_to_servers_and_networks() {
    let seeds = (0..24).chain(FAILED_WITH_CACHES).map(|seed| (seed, Caches::Any));
    for (seed, caches) in seeds.chain(FAILED.map(|seed| (seed, Caches::WithoutEvictions))) {
        if let Err(what) = faults::run(seed, caches) {
            panic!("seed {seed}: {what}");
        }
    }
}
